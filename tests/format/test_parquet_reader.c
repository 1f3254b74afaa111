/* The column reader on pages made by hand: each gotcha of the format has a test, honest pages beside pages that lie. */
#include "format/parquet_stream.h"

/* ---- flat ---- */

static void rows_are_read_across_pages_from_anywhere_to_anywhere(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 10};
    put_ints(&s, 0, 4);
    put_ints(&s, 4, 1);
    put_ints(&s, 5, 5);
    check_text(&s, "0 1 2 3 4 5 6 7 8 9");
    for (uint64_t b = 0; b <= 10; b++)
        for (uint64_t e = b; e <= 10; e++) {
            char want[64] = "";
            for (uint64_t i = b; i < e; i++)
                (void)snprintf(want + strlen(want), sizeof want - strlen(want), i > b ? " %d" : "%d", (int)i);
            assert_string_equal(read_text(&s, b, e, 4), want);
        }
    stream_fini(&s);
}

static void nulls_of_v1_pages_are_counted_from_the_levels(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 13};
    put_page(&s, (page){.n = 5, .def = packed(&s, "10110", 1), .values = ints(&s, 7, 3)});
    put_page(&s, (page){.n = 4, .def = run_of(&s, 4, 0)}); /* nothing but nulls */
    put_page(&s, (page){.n = 4, .def = run_of(&s, 4, 1), .values = ints(&s, 10, 4)});
    check_text(&s, "7 . 8 9 . . . . . 10 11 12 13");
    assert_string_equal(read_text(&s, 3, 11, 100), "9 . . . . . 10 11");
    stream_fini(&s);
}

static void bit_packed_levels_of_old_writers_are_read(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 9};
    static const uint8_t MSB_FIRST[] = {0xb4, 0x80}; /* 1 0 1 1 0 1 0 0 | 1 */
    put_page(&s, (page){.n = 9, .level_encoding = FBY__PQ_BIT_PACKED, .def = {MSB_FIRST, 2}, .values = ints(&s, 1, 5)});
    check_text(&s, "1 . 2 3 . 4 . . 5");
    stream_fini(&s);
}

static void a_page_with_fewer_levels_or_values_than_it_states_is_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 20};
    put_page(&s, (page){.n = 20, .def = run_of(&s, 9, 1), .values = ints(&s, 0, 20)});
    check_refused(&s, "fewer levels");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .max_def = 1, .rows = 5};
    put_page(&s, (page){.n = 5, .def = run_of(&s, 5, 1), .values = ints(&s, 0, 4)});
    check_refused(&s, "fewer values");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 5}; /* a required column that has nulls: they are not stored */
    put_page(&s, (page){.n = 5, .values = ints(&s, 0, 3)});
    check_refused(&s, "fewer values");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 5};
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 5, .n_nulls = 2, .n_rows = 5, .values = ints(&s, 0, 3)});
    check_refused(&s, "required column");
    stream_fini(&s);
}

static void levels_that_reach_beyond_the_page_are_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 1};
    static const uint8_t LONG[] = {200, 0, 0, 0, 2, 1};
    put_page(&s, (page){.n = 1, .values = {LONG, sizeof LONG}});
    check_refused(&s, "levels reach beyond");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .max_def = 1, .rows = 100};
    put_page(&s, (page){.n = 100, .level_encoding = FBY__PQ_BIT_PACKED, .values = ints(&s, 0, 3)});
    check_refused(&s, "levels reach beyond");
    stream_fini(&s);
}

static void chunks_with_fewer_or_more_rows_than_their_group_are_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 6, .n_values = 6};
    put_ints(&s, 0, 5);
    check_refused(&s, "ends at row 5");
    s.rows = s.n_values = 4;
    check_refused(&s, "more than the 4 rows");
    s.rows = s.n_values = 5;
    put_ints(&s, 5, 1); /* a whole page too many */
    check_refused(&s, "more than the 5 rows");
    stream_open(&s);
    assert_string_equal(read_text(&s, 1, 3, 9), "1 2"); /* a part of the rows does not get that far */
    stream_fini(&s);
}

static void bytes_behind_the_last_page_are_padding(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 2};
    put_ints(&s, 0, 2);
    put(&s.bytes, "\0\0\0\0\0", 5);
    check_text(&s, "0 1");
    stream_fini(&s);
}

static void more_pages_than_an_int16_counts_are_read(void **state)
{
    (void)state;
    enum { PAGES = 40000 };
    stream s = {.physical = FBY__PQ_INT32, .rows = PAGES};
    for (int i = 0; i < PAGES; i++) {
        put_ints(&s, i, 1);
        fby__buf_fini(&s.owned[--s.n_owned]); /* the values and the body are in the stream */
        fby__buf_fini(&s.owned[--s.n_owned]);
    }
    stream_open(&s);
    assert_string_equal(read_text(&s, PAGES - 3, PAGES, 9), "39997 39998 39999");
    assert_string_equal(read_text(&s, 32766, 32769, 9), "32766 32767 32768");
    stream_fini(&s);
}

static void pages_of_other_kinds_and_without_values_are_passed_over(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 3};
    put_page(&s, (page){.type = FBY__PQ_INDEX_PAGE, .values = ints(&s, 0, 9)});
    put_ints(&s, 0, 1);
    put_page(&s, (page){.type = 77, .values = ints(&s, 0, 2)}); /* a kind to come */
    put_page(&s, (page){.n = 0});
    put_ints(&s, 1, 2);
    check_text(&s, "0 1 2");
    stream_fini(&s);
}

static void page_headers_that_lie_about_counts_and_sizes_are_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 2};
    put_page(&s, (page){.n = -2, .values = ints(&s, 0, 2)});
    check_refused(&s, "negative");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 2, .codec = FBY__CODEC_SNAPPY};
    put_page(&s, (page){.n = 2, .values = ints(&s, 0, 2), .claim = INT32_MAX}); /* two gigabytes, says the header */
    s.uncompressed = 100;
    check_refused(&s, "claims 2147483647 bytes");
    assert_true(s.scratch.state && fby__scratch_bytes(&s.scratch) < 1u << 20); /* and they were not asked for */
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 2};
    put_ints(&s, 0, 2);
    s.bytes.n -= 1;
    check_refused(&s, "reaches beyond the column chunk");
    stream_fini(&s);
}

static void checksums_are_checked_when_asked(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 4, .codec = FBY__CODEC_SNAPPY};
    put_page(&s, (page){.n = 2, .values = ints(&s, 0, 2), .crc = true});
    const size_t second = s.bytes.n;
    put_page(&s, (page){.n = 2, .values = ints(&s, 2, 2), .crc = true, .bad_crc = true});
    check_text(&s, "0 1 2 3");
    s.verify_crc = true;
    char words[64];
    (void)snprintf(words, sizeof words, "the page at byte %zu has checksum", STREAM_OFFSET + second);
    check_refused(&s, words);
    assert_int_equal(s.err.file_offset, STREAM_OFFSET + second);
    assert_string_equal(read_text(&s, 0, 2, 9), "0 1");
    stream_fini(&s);
}

/* ---- v2, compression ---- */

static void v2_pages_of_only_nulls_have_no_data_to_decompress(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 13, .codec = FBY__CODEC_SNAPPY};
    static const uint8_t GARBAGE[] = {0xff, 0xff};
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2,
                        .n = 3,
                        .n_nulls = 3,
                        .n_rows = 3,
                        .def = run_of(&s, 3, 0),
                        .values = {GARBAGE, 2},
                        .raw = true,
                        .claim = 2});
    put_page(&s,
             (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 4, .n_nulls = 4, .n_rows = 4, .def = run_of(&s, 4, 0), .raw = true}); /* 0 bytes */
    put_page(&s,
             (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 4, .n_nulls = 4, .n_rows = 4, .def = run_of(&s, 4, 0)}); /* a stream of nothing */
    put_page(&s,
             (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 2, .n_nulls = 1, .n_rows = 2, .def = packed(&s, "01", 1), .values = ints(&s, 5, 1)});
    check_text(&s, ". . . . . . . . . . . . 5");
    stream_fini(&s);
}

static void a_stream_that_decompresses_to_nothing_is_read(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 3, .codec = FBY__CODEC_SNAPPY};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 0}); /* one byte that stands for none */
    put_page(&s, (page){.n = 3, .def = run_of(&s, 3, 0), .encoding = FBY__PQ_RLE_DICTIONARY});
    check_text(&s, ". . .");
    stream_fini(&s);
}

static void v2_pages_compressed_although_they_say_not_are_read(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 4, .codec = FBY__CODEC_SNAPPY};
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 2, .n_rows = 2, .values = ints(&s, 1, 2), .not_compressed = true, .raw = true});
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 2, .n_rows = 2, .values = ints(&s, 3, 2), .not_compressed = true});
    check_text(&s, "1 2 3 4");
    stream_fini(&s);
}

static void snappy_streams_of_one_literal_are_read_in_place(void **state)
{
    (void)state;
    static const size_t COUNTS[] = {1, 14, 15, 16, 63, 64, 65, 66, 16383, 16384, 16385, 20000};
    for (size_t i = 0; i < COUNT(COUNTS); i++) {
        const size_t n = COUNTS[i];
        stream s = {.physical = FBY__PQ_INT32, .rows = n, .codec = FBY__CODEC_SNAPPY};
        fby__bytes literal = one_literal(&s, ints(&s, 5, n));
        put_page(&s, (page){.n = (int32_t)n, .values = literal, .raw = true, .claim = (int32_t)n * 4});
        for (int damage = 0; damage < 2; damage++) {
            stream_open(&s);
            fby__pq_reader *r = NULL;
            fby__pq_span run;
            check_ok(fby__pq_reader_open(s.table, "x.parquet", 0, &s.source, 0, n, false, &s.scratch, 0, &r, &s.err), &s.err);
            fby_status st = fby__pq_reader_next(r, n, &run, &s.err);
            assert_int_equal(st, damage ? FBY_E_FORMAT : FBY_OK);
            if (!damage) {
                assert_int_equal(run.n_values, n);
                assert_int_equal(s.scratch.decompressed_bytes, n * 4);
                assert_int_equal(fby__load_u32(run.fixed), 5);
                assert_int_equal(fby__load_u32((const uint8_t *)run.fixed + 4 * (n - 1)), 4 + n);
                assert_in_range((uintptr_t)run.fixed, (uintptr_t)s.tight, (uintptr_t)s.tight + s.bytes.n);
            }
            fby__pq_reader_close(r);
            s.bytes.data[s.bytes.n - n * 4 - 1] ^= 0x10; /* another length in the tag */
        }
        stream_fini(&s);
    }
}

static void v2_levels_longer_than_the_page_are_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 2};
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 2, .n_rows = 2, .def = ints(&s, 0, 4), .claim = 3});
    check_refused(&s, "beyond the page");
    stream_fini(&s);
}

static void damaged_compressed_pages_are_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 2, .codec = FBY__CODEC_SNAPPY};
    put_page(&s, (page){.n = 2, .values = ints(&s, 1, 2), .claim = 9});
    check_refused(&s, "");
    stream_fini(&s);
}

/* ---- dictionaries ---- */

static void dictionary_and_plain_pages_mix_in_one_chunk(void **state)
{
    (void)state;
    for (int codec = FBY__CODEC_NONE; codec <= FBY__CODEC_SNAPPY; codec++) {
        stream s = {.physical = FBY__PQ_INT32, .rows = 12, .codec = codec};
        put_page(
            &s,
            (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 4, .values = ints(&s, 100, 4)}); /* offset 0 in the metadata: it stands first */
        put_page(&s, (page){.n = 5, .encoding = FBY__PQ_RLE_DICTIONARY, .values = indices(&s, "01230", 2)});
        put_ints(&s, 7, 3);
        put_page(&s, (page){.n = 4, .encoding = FBY__PQ_PLAIN_DICTIONARY, .values = indices(&s, "3333", 2)});
        check_text(&s, "100 101 102 103 100 7 8 9 103 103 103 103");
        assert_string_equal(read_text(&s, 2, 10, 9), "102 103 100 7 8 9 103 103");
        stream_fini(&s);
    }
}

static void the_dictionary_may_lie_in_a_range_of_its_own(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 6};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 2, .values = ints(&s, 50, 2)});
    const size_t first = s.bytes.n;
    put_page(&s, (page){.n = 3, .encoding = FBY__PQ_RLE_DICTIONARY, .values = indices(&s, "010", 1)});
    const size_t second = s.bytes.n;
    put_page(&s, (page){.n = 3, .encoding = FBY__PQ_RLE_DICTIONARY, .values = indices(&s, "110", 1)});
    stream_open(&s);
    s.source.range[0].n = first;
    s.source.range[1].offset += second;
    s.source.range[1].data += second;
    s.source.range[1].n -= second;
    s.source.first_row = 3;
    assert_string_equal(read_text(&s, 4, 6, 9), "51 50");
    stream_fini(&s);
}

static void a_page_index_that_is_wrong_about_rows_is_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 9};
    for (int i = 0; i < 3; i++)
        put_ints(&s, 3 * i, 3);
    stream_open(&s);
    s.source.n_rows = 9;
    assert_string_equal(read_text(&s, 1, 5, 9), "1 2 3 4");
    for (uint64_t n_rows = 7; n_rows <= 11; n_rows += 4) { /* the pages hold 9 */
        s.source.n_rows = n_rows;
        assert_null(read_text(&s, 1, 5, 9));
        assert_non_null(strstr(s.err.message, "page index"));
    }
    stream_fini(&s);
}

static void indices_of_no_bits_are_all_the_first_entry(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 3};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 1, .values = ints(&s, 42, 1)});
    static const uint8_t NO_BITS[] = {0};
    put_page(&s, (page){.n = 3, .encoding = FBY__PQ_RLE_DICTIONARY, .values = {NO_BITS, 1}});
    check_text(&s, "42 42 42");
    stream_fini(&s);
}

static void indices_beyond_the_dictionary_are_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        stream s = {.physical = FBY__PQ_INT32, .rows = 4};
        put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = kind == 2 ? 0 : 3, .values = ints(&s, 0, kind == 2 ? 0 : 3)});
        fby__buf run = {0};
        if (kind == 1)
            put(&run, ((uint8_t[]){2, 8, 3}), 3);
        if (kind == 2)
            put(&run, ((uint8_t[]){0}), 1);
        put_page(&s, (page){.n = 4, .encoding = FBY__PQ_RLE_DICTIONARY, .values = kind ? keep(&s, run) : indices(&s, "0123", 2)});
        check_refused(&s, kind == 2 ? "index 0 of a dictionary of 0 values" : "index 3 of a dictionary of 3 values");
        stream_fini(&s);
    }
}

static void dictionaries_that_are_missing_doubled_or_too_small_are_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 2};
    put_page(&s, (page){.n = 2, .encoding = FBY__PQ_RLE_DICTIONARY, .values = indices(&s, "00", 1)});
    check_refused(&s, "without a dictionary page");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 2};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 1, .values = ints(&s, 0, 1)});
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 1, .values = ints(&s, 0, 1)});
    check_refused(&s, "second dictionary");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 2};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 1000, .values = ints(&s, 0, 1)});
    check_refused(&s, "1000 values");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 2};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 1, .values = ints(&s, 0, 1)});
    static const uint8_t WIDE[] = {33, 2, 0};
    put_page(&s, (page){.n = 2, .encoding = FBY__PQ_RLE_DICTIONARY, .values = {WIDE, 3}});
    check_refused(&s, "33 bits");
    stream_fini(&s);
}

static void encodings_that_do_not_fit_the_type_or_are_not_known_are_refused(void **state)
{
    (void)state;
    static const struct {
        int physical, encoding;
        fby_status code;
    } BAD[] = {{FBY__PQ_INT32, FBY__PQ_RLE, FBY_E_FORMAT},
               {FBY__PQ_INT32, FBY__PQ_DELTA_BYTE_ARRAY, FBY_E_FORMAT},
               {FBY__PQ_FLOAT, FBY__PQ_DELTA_BINARY_PACKED, FBY_E_FORMAT},
               {FBY__PQ_INT96, FBY__PQ_BYTE_STREAM_SPLIT, FBY_E_FORMAT},
               {FBY__PQ_INT32, FBY__PQ_DELTA_LENGTH_BYTE_ARRAY, FBY_E_FORMAT},
               {FBY__PQ_INT32, 10, FBY_E_UNSUPPORTED}};
    for (size_t i = 0; i < COUNT(BAD); i++) {
        stream s = {.physical = BAD[i].physical, .rows = 2};
        put_page(&s, (page){.n = 2, .encoding = BAD[i].encoding, .values = ints(&s, 0, 6)});
        stream_open(&s);
        assert_null(read_text(&s, 0, 2, 9));
        assert_int_equal(s.err.code, BAD[i].code);
        stream_fini(&s);
    }
}

/* ---- lists ---- */

/* |1 2 |N |E |3 . 4 |5, as levels */
static const char LIST_REP[] = "01000110", LIST_DEF[] = "33013233";
#define LIST_TEXT "|1 2 |N |E |3 . 4 |5"

static void lists_are_read_and_records_may_span_v1_pages(void **state)
{
    (void)state;
    const size_t n = strlen(LIST_REP);
    for (size_t cut = 1; cut < n; cut++)
        for (size_t cut2 = cut; cut2 < n; cut2++) {
            stream s = {.physical = FBY__PQ_INT32, .max_def = 3, .max_rep = 1, .rows = 5};
            int32_t value = 1;
            const size_t from[] = {0, cut, cut2, n};
            for (int p = 0; p < 3; p++) {
                char rep[16] = "", def[16] = "";
                size_t k = from[p + 1] - from[p], values = 0;
                (void)snprintf(rep, sizeof rep, "%.*s", (int)k, LIST_REP + from[p]);
                (void)snprintf(def, sizeof def, "%.*s", (int)k, LIST_DEF + from[p]);
                for (size_t i = 0; i < k; i++)
                    values += def[i] == '3';
                put_page(&s,
                         (page){.n = (int32_t)k, .rep = packed(&s, rep, 1), .def = packed(&s, def, 2), .values = ints(&s, value, values)});
                value += (int32_t)values;
            }
            check_text(&s, LIST_TEXT);
            static const char *const ROWS[] = {"|1 2", "|N", "|E", "|3 . 4", "|5"};
            for (uint64_t b = 0; b < 5; b++)
                for (uint64_t e = b; e <= 5; e++) {
                    char want[64] = "";
                    for (uint64_t i = b; i < e; i++)
                        (void)snprintf(want + strlen(want), sizeof want - strlen(want), i > b ? " %s" : "%s", ROWS[i]);
                    for (size_t step = 1; step < 9; step += 3) {
                        const char *got = read_text(&s, b, e, step);
                        if (!got)
                            fail_msg("rows %d to %d: %s", (int)b, (int)e, s.err.message);
                        assert_string_equal(got, want);
                    }
                }
            stream_fini(&s);
        }
}

static stream list_of(const char *rep, const char *def, size_t values, uint64_t rows)
{
    stream s = {.physical = FBY__PQ_INT32, .max_def = 3, .max_rep = 1, .rows = rows};
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2,
                        .n = (int32_t)strlen(rep),
                        .n_rows = (int32_t)rows,
                        .rep = packed(&s, rep, 1),
                        .def = packed(&s, def, 2),
                        .values = ints(&s, 1, values)});
    return s;
}

static void whole_v2_pages_before_the_rows_are_not_decoded(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 3, .max_rep = 1, .rows = 4, .codec = FBY__CODEC_SNAPPY};
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2,
                        .n = 3,
                        .n_rows = 2,
                        .rep = packed(&s, "010", 1),
                        .def = packed(&s, "333", 2),
                        .values = ints(&s, 1, 3),
                        .claim = 99});
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2,
                        .n = 3,
                        .n_rows = 2,
                        .rep = packed(&s, "001", 1),
                        .def = packed(&s, "333", 2),
                        .values = ints(&s, 4, 3)});
    stream_open(&s);
    assert_null(read_text(&s, 0, 4, 9)); /* the first is damaged */
    assert_string_equal(read_text(&s, 2, 4, 9), "|4 |5 6");
    stream_fini(&s);
}

static void a_v2_page_that_counts_no_rows_is_decoded_all_the_same(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 3, .max_rep = 1, .rows = 2};
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2,
                        .n = 3,
                        .n_rows = 0,
                        .rep = packed(&s, "001", 1),
                        .def = packed(&s, "333", 2),
                        .values = ints(&s, 1, 3)});
    check_text(&s, "|1 |2 3");
    stream_fini(&s);
}

static void lists_that_do_not_begin_or_end_with_their_rows_are_refused(void **state)
{
    (void)state;
    stream s = list_of("101", "333", 3, 1);
    check_refused(&s, "first repetition level is 1");
    stream_fini(&s);
    s = list_of("010", "333", 3, 3);
    check_refused(&s, "ends at row 2");
    s.rows = 1;
    check_refused(&s, "more than the 1 rows");
    s.rows = 2;
    s.n_values = 5;
    check_refused(&s, "its metadata says 5");
    stream_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_across_pages_from_anywhere_to_anywhere),
        cmocka_unit_test(nulls_of_v1_pages_are_counted_from_the_levels),
        cmocka_unit_test(bit_packed_levels_of_old_writers_are_read),
        cmocka_unit_test(a_page_with_fewer_levels_or_values_than_it_states_is_refused),
        cmocka_unit_test(levels_that_reach_beyond_the_page_are_refused),
        cmocka_unit_test(chunks_with_fewer_or_more_rows_than_their_group_are_refused),
        cmocka_unit_test(bytes_behind_the_last_page_are_padding),
        cmocka_unit_test(more_pages_than_an_int16_counts_are_read),
        cmocka_unit_test(pages_of_other_kinds_and_without_values_are_passed_over),
        cmocka_unit_test(page_headers_that_lie_about_counts_and_sizes_are_refused),
        cmocka_unit_test(checksums_are_checked_when_asked),
        cmocka_unit_test(v2_pages_of_only_nulls_have_no_data_to_decompress),
        cmocka_unit_test(a_stream_that_decompresses_to_nothing_is_read),
        cmocka_unit_test(v2_pages_compressed_although_they_say_not_are_read),
        cmocka_unit_test(snappy_streams_of_one_literal_are_read_in_place),
        cmocka_unit_test(v2_levels_longer_than_the_page_are_refused),
        cmocka_unit_test(damaged_compressed_pages_are_refused),
        cmocka_unit_test(dictionary_and_plain_pages_mix_in_one_chunk),
        cmocka_unit_test(the_dictionary_may_lie_in_a_range_of_its_own),
        cmocka_unit_test(a_page_index_that_is_wrong_about_rows_is_refused),
        cmocka_unit_test(indices_of_no_bits_are_all_the_first_entry),
        cmocka_unit_test(indices_beyond_the_dictionary_are_refused),
        cmocka_unit_test(dictionaries_that_are_missing_doubled_or_too_small_are_refused),
        cmocka_unit_test(encodings_that_do_not_fit_the_type_or_are_not_known_are_refused),
        cmocka_unit_test(lists_are_read_and_records_may_span_v1_pages),
        cmocka_unit_test(whole_v2_pages_before_the_rows_are_not_decoded),
        cmocka_unit_test(a_v2_page_that_counts_no_rows_is_decoded_all_the_same),
        cmocka_unit_test(lists_that_do_not_begin_or_end_with_their_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
