/* Pages → panels of golden files, whose values are formulas (tests/golden/make_reader_golden.py). */
#include "format/parquet_stream.h"

#include <math.h>

static void check_golden(const char *name, const char *path, fby_dtype dtype, double (*want)(int i), bool nulls)
{
    fby__buf file = read_golden(name);
    fby__table *t = open_golden(name, NULL);
    const uint32_t leaf = fby__schema_find_leaf(t->schema, path);
    assert_true(leaf != FBY__NO_LEAF);
    const fby__pq_chunk *chunk = fby__pq_chunk_of(t, 0, leaf);
    fby__leaf_source source = {
        .leaf = leaf,
        .range = {{.n = 0}, {.offset = chunk->data_offset, .n = chunk->compressed_bytes, .data = file.data + chunk->data_offset}}};
    fby__panel_column column = {.path = path, .width = 1, .missing = FBY__MISSING_FILL, .fill = {.f64 = NAN}};
    fby__panel_layout layout = {.dtype = dtype, .n_columns = 1, .width = 1, .columns = &column};
    double got[60];
    for (uint64_t begin = 0; begin < 60; begin += 13) {
        fby__panel panel;
        fby__panel_place(&layout, 60 - begin, 0, got, &panel);
        fby__decode_column asked = {.source = &source, .unit_mul = 1, .unit_div = 1};
        fby__decode q = {.table = t,
                         .file_name = name,
                         .row_begin = begin,
                         .row_end = 60,
                         .panel_row = begin,
                         .panel = &panel,
                         .columns = &asked,
                         .n_columns = 1,
                         .verify_crc = true};
        fby__scratch scratch = {0};
        fby_error err;
        check_ok(fby__pq_decode_panel(&q, &scratch, &err), &err);
        for (int i = (int)begin; i < 60; i++) {
            double v = dtype == FBY_INT64 ? (double)((int64_t *)(void *)got)[i - (int)begin] : got[i - (int)begin];
            if (nulls && i % 7 == 3)
                assert_true(isnan(v));
            else if (v != want(i))
                fail_msg("%s %s, row %d: %g, not %g", name, path, i, v, want(i));
        }
        fby__scratch_fini(&scratch);
    }
    fby__table_unref(t);
    fby__buf_fini(&file);
}

static double i32_of(int i) { return i * i * 1000 - 5; }
static double i64_of(int i) { return (double)(int64_t)((uint64_t)i * (UINT64_C(1) << 57) - (UINT64_C(1) << 62)); }
static double f32_of(int i) { return i * 0.25; }
static double f64_of(int i) { return -i * 0.125; }
static double flag_of(int i) { return i % 3 == 0; }

static void files_of_a_real_writer_hold_what_was_written(void **state)
{
    (void)state;
    static const char *const FILES[] = {"reader_delta_v1.parquet", "reader_delta_v2.parquet", "reader_split.parquet",
                                        "reader_dictionary.parquet"};
    for (size_t i = 0; i < COUNT(FILES); i++)
        check_golden(FILES[i], "i32", FBY_FLOAT64, i32_of, true);
    check_golden("reader_delta_v1.parquet", "i64", FBY_INT64, i64_of, false);
    check_golden("reader_delta_v1.parquet", "flag", FBY_FLOAT64, flag_of, true);
    check_golden("reader_delta_v2.parquet", "flag", FBY_FLOAT64, flag_of, true);
    check_golden("reader_split.parquet", "f32", FBY_FLOAT64, f32_of, true);
    check_golden("reader_split.parquet", "f64", FBY_FLOAT64, f64_of, false);
    check_golden("reader_dictionary.parquet", "f32", FBY_FLOAT64, f32_of, true);
    check_golden("reader_dictionary.parquet", "f64", FBY_FLOAT64, f64_of, false);
}

static void strings_of_a_real_writer_hold_what_was_written(void **state)
{
    (void)state;
    static const char *const FILES[] = {"reader_delta_v1.parquet", "reader_delta_v2.parquet", "reader_dictionary.parquet",
                                        "reader_delta_v1.parquet", "reader_split.parquet"};
    for (size_t f = 0; f < COUNT(FILES); f++) {
        const bool fixed = f >= 3;
        fby__buf file = read_golden(FILES[f]);
        fby__table *t = open_golden(FILES[f], NULL);
        const uint32_t leaf = fby__schema_find_leaf(t->schema, fixed ? "fixed" : "text");
        const fby__pq_chunk *chunk = fby__pq_chunk_of(t, 0, leaf);
        fby__leaf_source source = {
            .leaf = leaf,
            .range = {{.n = 0}, {.offset = chunk->data_offset, .n = chunk->compressed_bytes, .data = file.data + chunk->data_offset}}};
        fby__panel_column column = {.path = "text", .width = 1, .missing = FBY__MISSING_FILL};
        fby__panel_layout layout = {
            .kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8, .n_columns = 1, .width = 1, .want_valid = true, .columns = &column};
        fby_error err;
        size_t bytes = 0;
        check_ok(fby__panel_bytes(&layout, 60, 400, &bytes, &err), &err);
        void *memory = aligned_alloc(64, bytes);
        fby__panel panel;
        fby__panel_place(&layout, 60, 400, memory, &panel);
        fby__decode_column asked = {.source = &source};
        fby__decode q = {.table = t, .file_name = FILES[f], .row_end = 60, .panel = &panel, .columns = &asked, .n_columns = 1};
        fby__scratch scratch = {0};
        check_ok(fby__pq_decode_panel(&q, &scratch, &err), &err);
        for (int i = 0; i < 60; i++) {
            char want[8];
            (void)snprintf(want, sizeof want, fixed ? "%03d" : "s%d", fixed ? i : i / 2);
            const bool null = !fixed && i % 7 == 3;
            assert_int_equal(panel.valid[i], !null);
            assert_int_equal(panel.views[i].n, null ? 0 : strlen(want));
            if (!null)
                assert_memory_equal(panel.data + panel.views[i].offset, want, strlen(want));
        }
        if (FILES[f] == FILES[0]) { /* DELTA_BYTE_ARRAY stands for more bytes than it takes: a question of room, not of a wrong file */
            const uint64_t takes = panel.used;
            fby__panel_place(&layout, 60, 20, memory, &panel);
            check_ok(fby__pq_decode_panel(&q, &scratch, &err), &err);
            assert_int_equal(panel.used, takes); /* what it would have taken */
        }
        free(memory);
        fby__scratch_fini(&scratch);
        fby__table_unref(t);
        fby__buf_fini(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_real_writer_hold_what_was_written),
        cmocka_unit_test(strings_of_a_real_writer_hold_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
