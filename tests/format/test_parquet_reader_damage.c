/* The column reader on damaged chunks: every truncation, random damage, and every allocation failing. */
#include "format/parquet_stream.h"

#include "base/random.h"
#include "support/test_seed.h"

/* ---- damage ---- */

/* A chunk with a bit of everything. */
static stream rich(int codec, unsigned max_rep)
{
    stream s = {.physical = FBY__PQ_INT32, .codec = codec, .max_def = max_rep ? 3 : 1, .max_rep = max_rep, .rows = max_rep ? 8 : 24};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 3, .values = ints(&s, 100, 3), .crc = true});
    const char *rep = "01011001", *def = max_rep ? "33213033" : "11011011";
    const unsigned width = max_rep ? 2 : 1;
    size_t values = 0;
    for (const char *c = def; *c; c++)
        values += *c == (max_rep ? '3' : '1');
    const fby__bytes none = {0};
    for (int i = 0; i < 3; i++)
        put_page(&s, (page){.type = i == 1 ? FBY__PQ_DATA_PAGE_V2 : FBY__PQ_DATA_PAGE,
                            .n = 8,
                            .n_nulls = 2,
                            .n_rows = 4,
                            .encoding = i == 2 ? FBY__PQ_RLE_DICTIONARY : FBY__PQ_PLAIN,
                            .rep = max_rep ? packed(&s, rep, 1) : none,
                            .def = packed(&s, def, width),
                            .values = i == 2 ? indices(&s, "012012", 2) : ints(&s, 0, values),
                            .crc = true});
    if (max_rep)
        s.rows = 12;
    return s;
}

static void a_chunk_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        stream s = rich(kind & 1 ? FBY__CODEC_SNAPPY : FBY__CODEC_NONE, kind >> 1);
        const size_t n = s.bytes.n;
        stream_open(&s);
        assert_non_null(read_text(&s, 0, s.rows, 9));
        for (s.bytes.n = 0; s.bytes.n < n; s.bytes.n++) {
            stream_open(&s);
            assert_null(read_text(&s, 0, s.rows, 9));
            assert_int_equal(s.err.code, FBY_E_FORMAT);
        }
        stream_fini(&s);
    }
}

static void damage_anywhere_is_an_error_or_other_values_but_no_more(void **state)
{
    (void)state;
    fby__random random = {.key = test_seed()};
    size_t refused = 0;
    for (int kind = 0; kind < 4; kind++) {
        stream s = rich(kind & 1 ? FBY__CODEC_SNAPPY : FBY__CODEC_NONE, kind >> 1);
        for (int round = 0; round < 5000; round++) {
            uint8_t old[3];
            size_t at[3];
            const size_t n = 1 + fby__random_below(&random, 3);
            for (size_t i = 0; i < n; i++) {
                at[i] = fby__random_below(&random, s.bytes.n);
                old[i] = s.bytes.data[at[i]];
                s.bytes.data[at[i]] = (uint8_t)fby__random_next(&random);
            }
            stream_open(&s);
            refused += read_text(&s, round % 3 ? 0 : 5, s.rows, 9) == NULL;
            for (size_t i = n; i--;)
                s.bytes.data[at[i]] = old[i];
        }
        stream_fini(&s);
    }
    assert_true(refused > 1000);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        stream s = rich(kind & 1 ? FBY__CODEC_SNAPPY : FBY__CODEC_NONE, kind >> 1);
        stream_open(&s);
        uint64_t points = 0;
        for (bool failed = true; failed; points += failed) {
            fby__scratch_fini(&s.scratch);
            fby__alloc_fail_at(points + 1);
            failed = read_text(&s, 0, s.rows, 9) == NULL;
            fby__alloc_fail_at(0);
            if (failed)
                assert_int_equal(s.err.code, FBY_E_NOMEM);
        }
        assert_true(points >= 3);
        stream_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_cut_at_any_byte_is_refused),
        cmocka_unit_test(damage_anywhere_is_an_error_or_other_values_but_no_more),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
