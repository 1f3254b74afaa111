/*
 * Pages → panels: dtypes, fills, validity, lists and strings, on chunks made by hand. Golden files: test_parquet_panel_golden.c.
 */
#include "block/convert.h"
#include "format/parquet_stream.h"

#include <math.h>

/* ---- one column into one panel ---- */

typedef struct into {
    fby__panel_kind kind;
    fby_dtype dtype;
    uint32_t width; /* 1 when 0 */
    bool no_fill;
    double fill;
    int64_t mul, div; /* 1 when 0 */
    uint64_t capacity;
    uint64_t begin, end; /* 0, 0: all rows */
} into;

typedef struct made {
    fby__panel_column column;
    fby__panel_layout layout;
    fby__panel panel;
    void *memory;
} made;

/* The panel is as large as its layout says, with nothing behind it. */
static fby_status decode(stream *s, into to, made *m)
{
    *m = (made){.column = {.path = "x", .width = to.width ? to.width : 1, .missing = to.no_fill ? FBY__MISSING_ERROR : FBY__MISSING_FILL}};
    assert_true(fby__scalar_set(to.dtype, to.fill, &m->column.fill));
    m->layout = (fby__panel_layout){.kind = to.kind,
                                    .dtype = to.dtype,
                                    .n_columns = 1,
                                    .width = m->column.width,
                                    .want_valid = true,
                                    .elements_valid = to.kind == FBY__PANEL_RAGGED,
                                    .columns = &m->column};
    stream_open(s);
    const uint64_t end = to.end ? to.end : s->rows;
    size_t bytes = 0;
    check_ok(fby__panel_bytes(&m->layout, end - to.begin, to.capacity, &bytes, &s->err), &s->err);
    m->memory = aligned_alloc(64, bytes ? bytes : 64);
    assert_non_null(m->memory);
    fby__panel_place(&m->layout, end - to.begin, to.capacity, m->memory, &m->panel);
    fby__decode_column column = {.source = &s->source, .unit_mul = to.mul ? to.mul : 1, .unit_div = to.div ? to.div : 1};
    fby__decode q = {.table = s->table,
                     .file_name = "x.parquet",
                     .row_begin = to.begin,
                     .row_end = end,
                     .panel_row = to.begin,
                     .panel = &m->panel,
                     .columns = &column,
                     .n_columns = 1};
    return fby__pq_decode_panel(&q, &s->scratch, &s->err);
}

static void check_numbers(stream *s, into to, const double *want, size_t n)
{
    made m;
    check_ok(decode(s, to, &m), &s->err);
    double got[64];
    size_t bad;
    assert_in_range(n, 0, 64);
    assert_int_equal(fby__convert(FBY_FLOAT64, got, to.dtype, m.panel.data, n, FBY__SCALE_NONE, &bad), FBY_OK);
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("element %zu is %g, not %g", i, got[i], want[i]);
    free(m.memory);
}

static void check_fails(stream *s, into to, fby_status code, const char *words)
{
    made m;
    assert_int_equal(decode(s, to, &m), code);
    if (!strstr(s->err.message, words) || !strstr(s->err.message, "x.parquet") || !strstr(s->err.message, "'x'"))
        fail_msg("the message is: %s", s->err.message);
    free(m.memory);
}

/* ---- dense ---- */

static const fby_dtype EVERY_DTYPE[] = {FBY_INT8,   FBY_INT16,  FBY_INT32,   FBY_INT64,    FBY_UINT8,   FBY_UINT16,
                                        FBY_UINT32, FBY_UINT64, FBY_FLOAT16, FBY_BFLOAT16, FBY_FLOAT32, FBY_FLOAT64};

static void nulls_are_filled_in_every_dtype_from_plain_and_dictionary_pages(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(EVERY_DTYPE); d++) {
        stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 16};
        put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 4, .values = ints(&s, 20, 4)});
        put_page(&s,
                 (page){.n = 8, .encoding = FBY__PQ_RLE_DICTIONARY, .def = packed(&s, "01101110", 1), .values = indices(&s, "32100", 2)});
        put_page(&s, (page){.n = 8, .def = packed(&s, "10000001", 1), .values = ints(&s, 1, 2)});
        static const double WANT[] = {9, 23, 22, 9, 21, 20, 20, 9, 1, 9, 9, 9, 9, 9, 9, 2};
        const into to = {.dtype = EVERY_DTYPE[d], .fill = 9};
        check_numbers(&s, to, WANT, 16);
        made m;
        check_ok(decode(&s, to, &m), &s.err);
        for (int i = 0; i < 16; i++)
            assert_int_equal(m.panel.valid[i], WANT[i] != 9);
        free(m.memory);
        check_numbers(&s, (into){.dtype = EVERY_DTYPE[d], .fill = 9, .begin = 6, .end = 9}, WANT + 6, 3);
        stream_fini(&s);
    }
}

static void a_null_without_a_fill_names_column_and_row(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 8};
    put_page(&s, (page){.n = 5, .def = run_of(&s, 5, 1), .values = ints(&s, 0, 5)});
    put_page(&s, (page){.n = 3, .def = packed(&s, "101", 1), .values = ints(&s, 5, 2)});
    check_fails(&s, (into){.dtype = FBY_INT64, .no_fill = true}, FBY_E_DATA, "row 706 is null"); /* the group begins at row 700 */
    check_numbers(&s, (into){.dtype = FBY_INT64, .no_fill = true, .end = 6}, (double[]){0, 1, 2, 3, 4, 5}, 6);
    stream_fini(&s);
}

static void values_that_do_not_fit_name_column_row_and_value(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 6};
    put_page(&s, (page){.n = 6, .def = packed(&s, "101101", 1), .values = ints(&s, 125, 4)});
    check_fails(&s, (into){.dtype = FBY_INT8}, FBY_E_DATA, "row 705: the value 128 does not fit int8");
    stream_fini(&s);
    /* an entry that no row uses does no harm; one that a row uses does */
    s = (stream){.physical = FBY__PQ_INT32, .rows = 5};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 3, .values = ints(&s, 126, 3)});
    put_page(&s, (page){.n = 5, .encoding = FBY__PQ_RLE_DICTIONARY, .values = indices(&s, "01102", 2)});
    check_numbers(&s, (into){.dtype = FBY_INT8, .end = 4}, (double[]){126, 127, 127, 126}, 4);
    check_fails(&s, (into){.dtype = FBY_INT8}, FBY_E_DATA, "row 704: the value 128 does not fit int8");
    stream_fini(&s);
}

static void unsigned_integers_are_read_as_such(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 2, .field = {.kind = FBY_KIND_INT, .dtype = FBY_UINT32}};
    put_ints(&s, -1, 2); /* 0xffffffff, 0 */
    check_numbers(&s, (into){.dtype = FBY_FLOAT64}, (double[]){4294967295.0, 0}, 2);
    check_numbers(&s, (into){.dtype = FBY_INT64}, (double[]){4294967295.0, 0}, 2);
    stream_fini(&s);
}

static void times_come_in_the_unit_asked_for(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .rows = 3, .field = {.kind = FBY_KIND_TIME, .dtype = FBY_INT32, .unit = FBY_UNIT_MS}};
    put_ints(&s, -1, 3);
    check_numbers(&s, (into){.dtype = FBY_INT64, .mul = 1000}, (double[]){-1000, 0, 1000}, 3);
    check_numbers(&s, (into){.dtype = FBY_INT32, .div = 1000}, (double[]){-1, 0, 0}, 3);
    stream_fini(&s);
}

static fby__bytes int96(stream *s, int64_t days, int64_t ns)
{
    fby__buf b = {0};
    put(&b, &ns, 8);
    put(&b, &(int32_t){(int32_t)(2440588 + days)}, 4);
    return keep(s, b);
}

static void int96_timestamps_are_nanoseconds_and_those_outside_int64_an_error(void **state)
{
    (void)state;
    const fby_field field = {.kind = FBY_KIND_TIMESTAMP, .dtype = FBY_INT64, .unit = FBY_UNIT_NS};
    stream s = {.physical = FBY__PQ_INT96, .rows = 2, .field = field};
    put_page(&s, (page){.n = 1, .values = int96(&s, 1, 5)});
    put_page(&s, (page){.n = 1, .values = int96(&s, -1, 0)});
    check_numbers(&s, (into){.dtype = FBY_INT64}, (double[]){86400000000005, -86400000000000}, 2);
    check_numbers(&s, (into){.dtype = FBY_FLOAT32, .div = 1000000000}, (double[]){86400, -86400}, 2);
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT96, .rows = 2, .field = field};
    put_page(&s, (page){.n = 1, .values = int96(&s, 0, 5)});
    put_page(&s, (page){.n = 1, .values = int96(&s, 2932896, 0)}); /* year 9999 */
    check_fails(&s, (into){.dtype = FBY_INT64}, FBY_E_DATA, "row 701");
    stream_fini(&s);
}

static void decimals_of_every_storage_become_floats(void **state)
{
    (void)state;
    const fby_field field = {.kind = FBY_KIND_DECIMAL, .dtype = FBY_FLOAT64, .precision = 9, .scale = 2};
    static const double WANT[] = {123.45, -0.01};
    stream s = {.physical = FBY__PQ_INT32, .rows = 2, .field = field};
    put_page(&s, (page){.n = 2, .values = {(const uint8_t *)(int32_t[]){12345, -1}, 8}});
    check_numbers(&s, (into){.dtype = FBY_FLOAT64}, WANT, 2);
    check_fails(&s, (into){.dtype = FBY_INT64}, FBY_E_SCHEMA, "decimal");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT64, .rows = 2, .field = field};
    put_page(&s, (page){.n = 2, .values = {(const uint8_t *)(int64_t[]){12345, -1}, 16}});
    check_numbers(&s, (into){.dtype = FBY_FLOAT64}, WANT, 2);
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_FLBA, .type_length = 3, .rows = 2, .field = field};
    static const uint8_t BIG_END_FIRST[] = {0x00, 0x30, 0x39, 0xff, 0xff, 0xff};
    put_page(&s, (page){.n = 2, .values = {BIG_END_FIRST, 6}});
    check_numbers(&s, (into){.dtype = FBY_FLOAT64}, WANT, 2);
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_BYTE_ARRAY, .rows = 4, .field = field};
    static const uint8_t LENGTHS[] = {2, 0, 0, 0, 0x30, 0x39, 1, 0, 0, 0, 0xff, 0, 0, 0, 0, 20, 0, 0, 0, 0,
                                      0, 0, 0, 0, 0,    0,    0, 0, 0, 0, 0,    0, 0, 0, 0, 0,  0, 1, 0}; /* none, and 20 bytes */
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 4, .values = {LENGTHS, sizeof LENGTHS}});
    put_page(&s, (page){.n = 4, .encoding = FBY__PQ_RLE_DICTIONARY, .values = indices(&s, "0123", 2)});
    check_numbers(&s, (into){.dtype = FBY_FLOAT64}, (double[]){123.45, -0.01, 0, 2.56}, 4);
    stream_fini(&s);
}

static void fixed_binaries_are_rows_of_bytes(void **state)
{
    (void)state;
    stream s = {
        .physical = FBY__PQ_FLBA, .type_length = 3, .max_def = 1, .rows = 3, .field = {.kind = FBY_KIND_FIXED_BINARY, .byte_width = 3}};
    put_page(&s, (page){.n = 3, .def = packed(&s, "101", 1), .values = {(const uint8_t *)"abcxyz", 6}});
    made m;
    check_ok(decode(&s, (into){.dtype = FBY_UINT8, .width = 3, .fill = '-'}, &m), &s.err);
    assert_memory_equal(m.panel.data, "abc---xyz", 9);
    free(m.memory);
    check_fails(&s, (into){.dtype = FBY_UINT8, .width = 2}, FBY_E_SCHEMA, "fixed");
    check_fails(&s, (into){.dtype = FBY_FLOAT32, .width = 3}, FBY_E_SCHEMA, "fixed");
    stream_fini(&s);
}

static void booleans_are_read_plain_and_as_runs(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_BOOLEAN, .rows = 24, .field = {.kind = FBY_KIND_BOOL, .dtype = FBY_BOOL}};
    static const uint8_t BITS[] = {0x35, 0x02};
    put_page(&s, (page){.n = 10, .values = {BITS, 2}});
    fby__buf runs = {0};
    fby__bytes ones = run_of(&s, 7, 1);
    put(&runs, &(uint32_t){(uint32_t)ones.n}, 4); /* these have a length before them, in v2 pages too */
    put(&runs, ones.data, ones.n);
    fby__bytes values = keep(&s, runs);
    put_page(&s, (page){.n = 7, .encoding = FBY__PQ_RLE, .values = values});
    put_page(&s, (page){.type = FBY__PQ_DATA_PAGE_V2, .n = 7, .n_rows = 7, .encoding = FBY__PQ_RLE, .values = values});
    static const double WANT[] = {1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    check_numbers(&s, (into){.dtype = FBY_BOOL}, WANT, 24);
    check_numbers(&s, (into){.dtype = FBY_FLOAT32}, WANT, 24);
    check_numbers(&s, (into){.dtype = FBY_BOOL, .begin = 3, .end = 12}, WANT + 3, 9);
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_BOOLEAN, .rows = 9, .field = {.kind = FBY_KIND_BOOL, .dtype = FBY_BOOL}};
    static const uint8_t LONG[] = {99, 0, 0, 0, 18, 1};
    put_page(&s, (page){.n = 9, .encoding = FBY__PQ_RLE, .values = {LONG, 6}});
    check_fails(&s, (into){.dtype = FBY_BOOL}, FBY_E_FORMAT, "booleans reach beyond");
    stream_fini(&s);
}

static void a_column_without_a_type_is_all_missing(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 3, .field = {.kind = FBY_KIND_NULL, .dtype = FBY_INT8}};
    put_page(&s, (page){.n = 3, .def = run_of(&s, 3, 0)});
    check_numbers(&s, (into){.dtype = FBY_FLOAT32, .fill = 4}, (double[]){4, 4, 4}, 3);
    check_fails(&s, (into){.dtype = FBY_FLOAT32, .no_fill = true}, FBY_E_DATA, "row 700 is null");
    made m;
    check_ok(decode(&s, (into){.kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8}, &m), &s.err);
    assert_int_equal(m.panel.valid[2], 0);
    free(m.memory);
    stream_fini(&s);
}

static void types_that_are_no_numbers_are_refused_by_name(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_BYTE_ARRAY, .rows = 1, .field = {.kind = FBY_KIND_STRING}};
    put_page(&s, (page){.n = 1, .values = {(const uint8_t *)"\0\0\0\0", 4}});
    check_fails(&s, (into){.dtype = FBY_FLOAT32}, FBY_E_SCHEMA, "string");
    check_fails(&s, (into){.kind = FBY__PANEL_RAGGED, .dtype = FBY_FLOAT32}, FBY_E_SCHEMA, "");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .rows = 1};
    put_ints(&s, 1, 1);
    check_fails(&s, (into){.kind = FBY__PANEL_RAGGED, .dtype = FBY_FLOAT32}, FBY_E_SCHEMA, "not a list");
    check_fails(&s, (into){.kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8}, FBY_E_SCHEMA, "no strings");
    stream_fini(&s);
    s = (stream){.physical = FBY__PQ_INT32, .max_def = 3, .max_rep = 1, .rows = 1};
    put_page(&s, (page){.n = 1, .rep = packed(&s, "0", 1), .def = packed(&s, "3", 2), .values = ints(&s, 1, 1)});
    check_fails(&s, (into){.dtype = FBY_FLOAT32}, FBY_E_SCHEMA, "list");
    stream_fini(&s);
}

/* Twenty columns over many tiles, between columns that others write, in two calls by rows. */
static void many_columns_fill_their_part_of_a_shared_panel(void **state)
{
    (void)state;
    enum { ROWS = 9000, COLS = 20 };
    static stream s[COLS];
    fby__schema_element e[COLS + 1] = {{.name = "schema", .name_n = 6, .n_children = COLS, .field = {.kind = FBY_KIND_STRUCT}}};
    static char names[COLS][8];
    fby__leaf_source sources[COLS];
    fby__decode_column asked[COLS];
    fby__panel_column columns[COLS + 2] = {0};
    for (int c = 0; c < COLS; c++) {
        s[c] = (stream){.physical = FBY__PQ_INT32, .codec = FBY__CODEC_SNAPPY};
        for (int row = 0; row < ROWS;) { /* pages of other lengths in every column */
            int n = 1000 + 333 * c < ROWS - row ? 1000 + 333 * c : ROWS - row;
            put_ints(&s[c], c * 100000 + row, n);
            row += n;
        }
        (void)snprintf(names[c], sizeof names[c], "c%d", c);
        e[c + 1] = (fby__schema_element){.name = names[c],
                                         .name_n = (uint32_t)strlen(names[c]),
                                         .field = {.kind = FBY_KIND_INT, .dtype = FBY_INT32},
                                         .physical = FBY__PQ_INT32};
        columns[c] = (fby__panel_column){.path = names[c], .offset = (uint32_t)c + 1 + (c >= 10), .width = 1};
    }
    fby__schema *schema = NULL;
    fby__pq_table *t = NULL;
    fby_error err;
    check_ok(fby__schema_create(e, COLS + 1, &schema, &err), &err);
    check_ok(fby__pq_table_create(schema, 1, 1u << 20, &t, &err), &err);
    fby__schema_unref(schema);
    t->base.groups[0].rows = ROWS;
    for (uint32_t c = 0; c < COLS; c++) {
        t->chunks[c] = (fby__pq_chunk){.data_offset = STREAM_OFFSET,
                                       .compressed_bytes = s[c].bytes.n,
                                       .uncompressed_bytes = s[c].uncompressed,
                                       .n_values = ROWS,
                                       .codec = FBY__CODEC_SNAPPY};
        sources[c] =
            (fby__leaf_source){.leaf = c, .range = {{.n = 0}, {.offset = STREAM_OFFSET, .n = s[c].bytes.n, .data = s[c].bytes.data}}};
        asked[c] = (fby__decode_column){.source = &sources[c], .column = c, .unit_mul = 1, .unit_div = 1};
    }
    for (int d = 0; d < 2; d++) {
        const fby_dtype dtype = d ? FBY_FLOAT64 : FBY_INT32;
        const fby__panel_layout layout = {.dtype = dtype, .n_columns = COLS, .width = COLS + 3, .columns = columns};
        size_t bytes = 0;
        check_ok(fby__panel_bytes(&layout, ROWS - 100, 0, &bytes, &err), &err);
        uint8_t *memory = aligned_alloc(64, bytes);
        assert_non_null(memory);
        memset(memory, 0x11, bytes);
        fby__panel panel;
        fby__panel_place(&layout, ROWS - 100, 0, memory, &panel);
        fby__scratch scratch = {0};
        const uint64_t cuts[] = {100, 4321, ROWS};
        for (int part = 0; part < 2; part++) {
            fby__decode q = {.table = &t->base,
                             .file_name = "x.parquet",
                             .row_begin = cuts[part],
                             .row_end = cuts[part + 1],
                             .panel_row = 100,
                             .panel = &panel,
                             .columns = asked,
                             .n_columns = COLS};
            check_ok(fby__pq_decode_panel(&q, &scratch, &err), &err);
        }
        assert_true(scratch.decompressed_bytes > 0 && fby__scratch_bytes(&scratch) < 8u << 20);
        for (int row = 100; row < ROWS; row++)
            for (int c = -1; c < COLS + 2; c++) {
                const size_t at = (size_t)(row - 100) * (COLS + 3) + (size_t)(c + 1);
                const int column = c < 10 ? c : c - 1;
                if (c < 0 || c == 10 || c > COLS)
                    assert_int_equal(memory[at * fby_dtype_bytes(dtype)], 0x11);
                else
                    assert_true(d ? ((double *)(void *)memory)[at] == column * 100000 + row
                                  : ((int32_t *)(void *)memory)[at] == column * 100000 + row);
            }
        free(memory);
        fby__scratch_fini(&scratch);
    }
    fby__table_unref(&t->base);
    for (int c = 0; c < COLS; c++)
        stream_fini(&s[c]);
}

/* ---- ragged ---- */

static void lists_become_values_and_offsets(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 3, .max_rep = 1, .rows = 5};
    put_page(&s, (page){.n = 5, .rep = packed(&s, "01000", 1), .def = packed(&s, "33013", 2), .values = ints(&s, 1, 3)});
    put_page(&s, (page){.n = 3, .rep = packed(&s, "110", 1), .def = packed(&s, "233", 2), .values = ints(&s, 4, 2)});
    made m;
    check_ok(decode(&s, (into){.kind = FBY__PANEL_RAGGED, .dtype = FBY_FLOAT32, .fill = -1, .capacity = 6}, &m), &s.err);
    assert_int_equal(m.panel.used, 6);
    assert_memory_equal(m.panel.data, ((float[]){1, 2, 3, -1, 4, 5}), 24);
    assert_memory_equal(m.panel.offsets, ((uint64_t[]){0, 2, 2, 2, 5, 6}), 48);
    assert_memory_equal(m.panel.valid, ((uint8_t[]){1, 0, 1, 1, 1}), 5);
    assert_memory_equal(m.panel.element_valid, ((uint8_t[]){1, 1, 1, 0, 1, 1}), 6);
    free(m.memory);
    check_ok(decode(&s, (into){.kind = FBY__PANEL_RAGGED, .dtype = FBY_INT8, .capacity = 6, .begin = 1, .end = 4}, &m), &s.err);
    assert_memory_equal(m.panel.offsets, ((uint64_t[]){0, 0, 0, 3}), 32);
    assert_memory_equal(m.panel.data, ((int8_t[]){3, 0, 4}), 3);
    free(m.memory);
    check_ok(decode(&s, (into){.kind = FBY__PANEL_RAGGED, .dtype = FBY_FLOAT32, .capacity = 5}, &m), &s.err);
    assert_int_equal(m.panel.used, 6); /* too little room, and how much is needed */
    free(m.memory);
    check_fails(&s, (into){.kind = FBY__PANEL_RAGGED, .dtype = FBY_FLOAT32, .capacity = 6, .no_fill = true}, FBY_E_DATA, "is null");
    stream_fini(&s);
}

static void an_empty_list_that_goes_on_is_refused(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 3, .max_rep = 1, .rows = 1};
    put_page(&s, (page){.n = 2, .rep = packed(&s, "01", 1), .def = packed(&s, "31", 2), .values = ints(&s, 1, 1)});
    check_fails(&s, (into){.kind = FBY__PANEL_RAGGED, .dtype = FBY_FLOAT32, .capacity = 6}, FBY_E_FORMAT, "goes on");
    stream_fini(&s);
}

/* ---- bytes ---- */

static fby__bytes strings(stream *s, const char *words) /* "a bb ccc" */
{
    fby__buf b = {0};
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, " ");
        put(&b, &(uint32_t){(uint32_t)n}, 4);
        put(&b, p, n);
        p += n + (p[n] == ' ');
    }
    return keep(s, b);
}

static void a_dictionary_is_kept_once_and_plain_strings_are_added(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_BYTE_ARRAY, .max_def = 1, .rows = 9, .codec = FBY__CODEC_SNAPPY, .field = {.kind = FBY_KIND_STRING}};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 2, .values = strings(&s, "north south")});
    put_page(&s, (page){.n = 5, .def = packed(&s, "11011", 1), .encoding = FBY__PQ_RLE_DICTIONARY, .values = indices(&s, "0110", 1)});
    put_page(&s, (page){.n = 4, .def = packed(&s, "1101", 1), .values = strings(&s, "east west east")});
    made m;
    const into to = {.kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8, .capacity = 22};
    check_ok(decode(&s, to, &m), &s.err);
    static const char *const WANT[] = {"north", "south", NULL, "south", "north", "east", "west", NULL, "east"};
    for (int i = 0; i < 9; i++) {
        assert_int_equal(m.panel.valid[i], WANT[i] != NULL);
        assert_int_equal(m.panel.views[i].n, WANT[i] ? strlen(WANT[i]) : 0);
        if (WANT[i])
            assert_memory_equal(m.panel.data + m.panel.views[i].offset, WANT[i], strlen(WANT[i]));
    }
    assert_int_equal(m.panel.views[1].offset, m.panel.views[3].offset);
    assert_int_equal(m.panel.used, 22);
    free(m.memory);
    check_ok(decode(&s, (into){.kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8, .capacity = 21}, &m), &s.err);
    assert_int_equal(m.panel.used, 22); /* too little room, and how much is needed */
    free(m.memory);
    check_fails(&s, (into){.kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8, .capacity = 22, .no_fill = true}, FBY_E_DATA, "row 702 is null");
    s.uncompressed = 21;
    check_fails(&s, (into){.kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8, .capacity = 21}, FBY_E_FORMAT,
                "21 bytes that the metadata states");
    stream_fini(&s);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    stream s = {.physical = FBY__PQ_INT32, .max_def = 1, .rows = 16, .codec = FBY__CODEC_SNAPPY};
    put_page(&s, (page){.type = FBY__PQ_DICTIONARY_PAGE, .n = 4, .values = ints(&s, 20, 4)});
    put_page(&s, (page){.n = 8, .encoding = FBY__PQ_RLE_DICTIONARY, .def = packed(&s, "01101110", 1), .values = indices(&s, "32100", 2)});
    put_page(&s, (page){.n = 8, .def = packed(&s, "10000001", 1), .values = ints(&s, 1, 2)});
    stream_open(&s);
    fby__panel_column column = {.path = "x", .width = 1, .missing = FBY__MISSING_FILL};
    fby__panel_layout layout = {.dtype = FBY_FLOAT32, .n_columns = 1, .width = 1, .columns = &column};
    float data[16];
    fby__panel panel;
    fby__panel_place(&layout, 16, 0, data, &panel);
    fby__decode_column asked = {.source = &s.source, .unit_mul = 1, .unit_div = 1};
    fby__decode q = {.table = s.table, .file_name = "x.parquet", .row_end = 16, .panel = &panel, .columns = &asked, .n_columns = 1};
    uint64_t points = 0;
    for (bool failed = true; failed; points += failed) {
        fby__scratch_fini(&s.scratch);
        fby__alloc_fail_at(points + 1);
        fby_status st = fby__pq_decode_panel(&q, &s.scratch, &s.err);
        fby__alloc_fail_at(0);
        failed = st != FBY_OK;
        assert_int_equal(st, failed ? FBY_E_NOMEM : FBY_OK);
    }
    assert_true(points >= 5);
    uint64_t before = fby__alloc_count();
    check_ok(fby__pq_decode_panel(&q, &s.scratch, &s.err), &s.err);
    assert_int_equal(fby__alloc_count(), before); /* the steady state allocates nothing */
    stream_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nulls_are_filled_in_every_dtype_from_plain_and_dictionary_pages),
        cmocka_unit_test(a_null_without_a_fill_names_column_and_row),
        cmocka_unit_test(values_that_do_not_fit_name_column_row_and_value),
        cmocka_unit_test(unsigned_integers_are_read_as_such),
        cmocka_unit_test(times_come_in_the_unit_asked_for),
        cmocka_unit_test(int96_timestamps_are_nanoseconds_and_those_outside_int64_an_error),
        cmocka_unit_test(decimals_of_every_storage_become_floats),
        cmocka_unit_test(fixed_binaries_are_rows_of_bytes),
        cmocka_unit_test(booleans_are_read_plain_and_as_runs),
        cmocka_unit_test(a_column_without_a_type_is_all_missing),
        cmocka_unit_test(types_that_are_no_numbers_are_refused_by_name),
        cmocka_unit_test(many_columns_fill_their_part_of_a_shared_panel),
        cmocka_unit_test(lists_become_values_and_offsets),
        cmocka_unit_test(an_empty_list_that_goes_on_is_refused),
        cmocka_unit_test(a_dictionary_is_kept_once_and_plain_strings_are_added),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
