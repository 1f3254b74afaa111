/*
 * HDF5 → byte and ragged panels: fixed strings and their padding, strings and lists in a global heap, references that are damaged.
 * dense panels: test_h5_panel.c.
 */
#include "format/h5_heap_table.h"

/* ---- strings and lists ---- */

typedef struct variable {
    fby__panel_layout layout;
    fby__panel_column column;
    fby__panel panel;
    void *memory;
} variable;

static fby_status variable_decode(model *m, variable *v, fby__panel_kind kind, fby_dtype dtype, uint32_t leaf, uint64_t begin, uint64_t end,
                                  uint64_t capacity, fby__file *file)
{
    size_t bytes;
    v->column.path = "x";
    v->column.width = 1;
    v->layout = (fby__panel_layout){.kind = kind,
                                    .dtype = dtype,
                                    .n_columns = 1,
                                    .want_valid = true,
                                    .elements_valid = kind == FBY__PANEL_RAGGED,
                                    .columns = &v->column};
    check_ok(locate(m, &leaf, 1, begin, end, NULL), &m->err);
    check_ok(fby__panel_bytes(&v->layout, end - begin, capacity, &bytes, &m->err), &m->err);
    v->memory = aligned_alloc(64, bytes ? bytes : 64);
    assert_non_null(v->memory);
    fby__panel_place(&v->layout, end - begin, capacity, v->memory, &v->panel);
    fby__decode_column asked = {.source = m->sources, .unit_mul = 1, .unit_div = 1};
    fby__decode q = {.table = &m->table.base,
                     .file_name = "x.h5",
                     .row_begin = begin,
                     .row_end = end,
                     .panel_row = begin,
                     .panel = &v->panel,
                     .columns = &asked,
                     .n_columns = 1,
                     .file = file};
    return fby__h5_decode_panel(&q, &m->scratch, &m->err);
}

static void check_strings(const variable *v, const char *const *want, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const fby__view *view = &v->panel.views[i];
        if (view->n != strlen(want[i]) || memcmp(v->panel.data + view->offset, want[i], view->n) != 0 || !v->panel.valid[i])
            fail_msg("string %llu is '%.*s', not '%s'", (unsigned long long)i, (int)view->n, (const char *)v->panel.data + view->offset,
                     want[i]);
    }
}

static void fixed_strings_lose_their_padding_and_opaque_values_keep_it(void **state)
{
    (void)state;
    fby__random rng = {.key = 19};
    static const char RAW[6][5] = {"ab\0cd", "ab   ", " b \0 ", "\0\0\0\0\0", "abcde", "     "};
    for (uint8_t padding = 0; padding < 3; padding++) {
        const fby__h5_type type = {.class = FBY__H5_STRING, .bytes = 5, .padding = padding};
        model m = {.n_sets = 1};
        raw_set(&m, &m.sets[0], &type, (const uint8_t *)RAW, 6, padding ? 4 : 0, &rng);
        finish_table(&m, 6, 0);
        add_leaf(&m, 0, &type, FBY__H5_VALUE_FIXED_STRING);
        variable v;
        check_ok(variable_decode(&m, &v, FBY__PANEL_BYTES, FBY_UINT8, 0, 1, 6, 30, NULL), &m.err);
        static const size_t LENGTHS[3][6] = {{2, 5, 3, 0, 5, 5}, {5, 5, 5, 0, 5, 5}, {5, 2, 4, 5, 5, 0}};
        for (uint64_t i = 1; i < 6; i++) {
            const fby__view *view = &v.panel.views[i - 1];
            assert_int_equal(view->n, LENGTHS[padding][i]);
            assert_memory_equal(v.panel.data + view->offset, RAW[i], view->n);
        }
        free(v.memory);
        check_ok(variable_decode(&m, &v, FBY__PANEL_BYTES, FBY_UINT8, 0, 1, 6, 3, NULL), &m.err);
        assert_true(v.panel.used > v.panel.capacity); /* too little room, and how much is needed */
        free(v.memory);
        check_fails(&m, variable_decode(&m, &v, FBY__PANEL_RAGGED, FBY_INT32, 0, 0, 6, 3, NULL), FBY_E_SCHEMA, "is not a list");
        free(v.memory);
        const fby__h5_type opaque = {.class = FBY__H5_OPAQUE, .bytes = 5, .tag = ""};
        m.leaves[0].value = FBY__H5_VALUE_OPAQUE;
        m.leaves[0].type = &opaque;
        check_ok(variable_decode(&m, &v, FBY__PANEL_BYTES, FBY_UINT8, 0, 0, 6, 30, NULL), &m.err);
        assert_memory_equal(v.panel.data, RAW, 30);
        free(v.memory);
        model_fini(&m);
    }
}

static void strings_and_lists_come_from_the_global_heap(void **state)
{
    (void)state;
    heap_table h;
    variable v;
    heap_table_open(&h);
    for (uint64_t begin = 0; begin < 10; begin++) {
        check_ok(variable_decode(&h.m, &v, FBY__PANEL_BYTES, FBY_UINT8, 0, begin, 10, 100, h.file), &h.m.err);
        check_strings(&v, TEXTS + begin, 10 - begin);
        free(v.memory);
        check_ok(variable_decode(&h.m, &v, FBY__PANEL_RAGGED, FBY_FLOAT32, 1, begin, 10, 45, h.file), &h.m.err);
        const float *got = (const float *)(const void *)v.panel.data;
        for (uint64_t i = begin; i < 10; i++) {
            assert_int_equal(v.panel.offsets[i - begin + 1] - v.panel.offsets[i - begin], i);
            assert_true(v.panel.valid[i - begin]);
            for (uint64_t k = 0; k < i; k++)
                assert_true(got[v.panel.offsets[i - begin] + k] == (float)(100 * i + k) &&
                            v.panel.element_valid[v.panel.offsets[i - begin] + k]);
        }
        assert_int_equal(v.panel.used, 45 - begin * (begin - 1) / 2 * (begin > 0));
        free(v.memory);
    }
    check_ok(variable_decode(&h.m, &v, FBY__PANEL_BYTES, FBY_UINT8, 0, 0, 10, 20, h.file), &h.m.err);
    const uint64_t bytes = v.panel.used;
    assert_true(bytes > 20);
    free(v.memory);
    check_ok(variable_decode(&h.m, &v, FBY__PANEL_BYTES, FBY_UINT8, 0, 0, 10, bytes, h.file), &h.m.err);
    assert_int_equal(v.panel.used, bytes); /* so much is enough */
    free(v.memory);
    assert_int_equal(variable_decode(&h.m, &v, FBY__PANEL_RAGGED, FBY_INT8, 1, 0, 4, 5, h.file), FBY_E_DATA); /* 200 */
    free(v.memory);
    check_ok(variable_decode(&h.m, &v, FBY__PANEL_RAGGED, FBY_INT16, 1, 0, 4, 5, h.file), &h.m.err);
    assert_int_equal(v.panel.used, 6);
    free(v.memory);
    heap_table_close(&h);
}

static void damaged_references_are_errors(void **state)
{
    (void)state;
    heap_table h;
    variable v;
    heap_table_open(&h);
    unsigned failed = 0;
    fby__free((void *)(uintptr_t)h.m.set_list[1].chunks);
    h.m.set_list[1].chunks = h.m.sets[1].set.chunks = NULL;
    for (size_t i = 0; i < sizeof h.lists * 8; i++) {
        uint8_t *byte = h.m.file.data + h.m.set_list[1].data_offset + i / 8;
        *byte ^= (uint8_t)(1u << (i % 8));
        fby_status status = variable_decode(&h.m, &v, FBY__PANEL_RAGGED, FBY_INT16, 1, 0, 10, 200, h.file);
        *byte ^= (uint8_t)(1u << (i % 8));
        free(v.memory);
        if (status == FBY_OK)
            continue;
        if (status != FBY_E_FORMAT)
            fail_msg("bit %zu: %s", i, h.m.err.message);
        assert_non_null(strstr(h.m.err.message, "x.h5: data set '/a'"));
        failed++;
    }
    assert_true(failed > 500);
    uint64_t total = 1; /* and memory that is not there */
    for (uint64_t at = 0; at <= total; at++) {
        fby__scratch_fini(&h.m.scratch);
        check_ok(locate(&h.m, (uint32_t[]){0}, 1, 0, 10, NULL), &h.m.err);
        const uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        fby__range_list_fini(&h.m.list);
        fby_status status = FBY_OK;
        uint32_t leaf = 0;
        status = locate(&h.m, &leaf, 1, 0, 10, NULL);
        uint8_t arena[100];
        fby__view views[10];
        fby__panel_column column = {.path = "x", .width = 1};
        fby__panel_layout layout = {.kind = FBY__PANEL_BYTES, .dtype = FBY_UINT8, .n_columns = 1, .columns = &column};
        fby__panel panel = {.layout = &layout, .rows = 10, .capacity = 100, .data = arena, .views = views};
        fby__decode_column asked = {.source = h.m.sources, .unit_mul = 1, .unit_div = 1};
        fby__decode q = {.table = &h.m.table.base,
                         .file_name = "x.h5",
                         .row_end = 10,
                         .panel = &panel,
                         .columns = &asked,
                         .n_columns = 1,
                         .file = h.file};
        if (status == FBY_OK)
            status = fby__h5_decode_panel(&q, &h.m.scratch, &h.m.err);
        fby__alloc_fail_at(0);
        if (at == 0)
            total = fby__alloc_count() - before;
        assert_true(status == (at ? FBY_E_NOMEM : FBY_OK) || status == FBY_OK);
    }
    heap_table_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_strings_lose_their_padding_and_opaque_values_keep_it),
        cmocka_unit_test_setup_teardown(strings_and_lists_come_from_the_global_heap, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(damaged_references_are_errors, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
