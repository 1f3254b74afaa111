/*
 * Record batches in memory as a table: arrays over static buffers, with offsets and nulls at every level.
 */
#include "format/arrow_producer.h"

#include "base/random.h"
#include "support/test_seed.h"

static void columns_of_several_types_become_one_dense_matrix(void **state)
{
    (void)state;
    static const float f[] = {9, 1.5f, -2, 4};
    static const int64_t l[] = {1, 2, 3};
    static const uint8_t l_valid[] = {0x5}; /* row 1 is null */
    static const uint8_t bits[] = {0x6};    /* false true true */
    static const double values[] = {0.5, -0.5};
    static const int8_t indices[] = {1, 0, 1};
    const void *f_buffers[] = {NULL, f}, *l_buffers[] = {l_valid, l}, *b_buffers[] = {NULL, bits}, *i_buffers[] = {NULL, indices},
               *v_buffers[] = {NULL, values};
    struct ArrowArray fa = array(3, 0, 1, 2, f_buffers), la = array(3, 1, 0, 2, l_buffers), ba = array(3, 0, 0, 2, b_buffers),
                      ia = array(3, 0, 0, 2, i_buffers), va = array(2, 0, 0, 2, v_buffers);
    struct ArrowSchema value_schema = {.format = "g", .name = "", .release = schema_done};
    ia.dictionary = &va;
    producer p = {.rows = {3}};
    add_column(&p, "f", "f", &fa);
    add_column(&p, "l", "l", &la);
    add_column(&p, "b", "b", &ba);
    add_column(&p, "d", "c", &ia);
    p.schemas[3].dictionary = &value_schema;
    fby__table *table = table_of(&p);
    assert_int_equal(table->n_rows, 3);
    assert_int_equal(table->n_groups, 1);

    decoded d;
    const char *paths[] = {"f", "l", "b", "d"};
    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_FLOAT32, 0, 3, paths, NULL, 4, FBY__MISSING_FILL, -7, &d), FBY_OK);
    const float want[] = {1.5f, 1, 0, -0.5f, -2, -7, 1, 0.5f, 4, 3, 1, -0.5f};
    assert_memory_equal(d.panel.data, want, sizeof want);
    assert_memory_equal(d.panel.valid, "\1\1\1\1\1\0\1\1\1\1\1\1", 12);
    free(d.memory);

    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_FLOAT32, 1, 2, paths, NULL, 2, FBY__MISSING_ERROR, 0, &d), FBY_E_DATA);
    assert_non_null(strstr(d.err.message, "frame: batch 0, column 'l': row 1 is null"));
    free(d.memory);
    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_UINT8, 0, 3, paths, NULL, 1, FBY__MISSING_FILL, 0, &d), FBY_E_DATA);
    assert_non_null(strstr(d.err.message, "row 1"));
    free(d.memory);
    drop(table);
}

static void offsets_and_nulls_of_parents_reach_the_leaf(void **state)
{
    (void)state;
    /* s: struct at offset 2 with row 1 null; its child at offset 1: row i is child element 1 + 2 + i */
    static const int32_t x[] = {0, 1, 2, 30, 31, 32};
    static const uint8_t s_valid[] = {0x14}; /* bits 2 and 4 */
    const void *x_buffers[] = {NULL, x}, *s_buffers[] = {s_valid};
    struct ArrowArray xa = array(5, 0, 1, 2, x_buffers), sa = array(3, 1, 2, 1, s_buffers);
    struct ArrowArray *children[] = {&xa};
    sa.n_children = 1;
    sa.children = children;
    struct ArrowSchema x_schema = {.format = "i", .name = "x", .release = schema_done}, *schemas[] = {&x_schema};
    producer p = {.rows = {3}};
    add_column(&p, "s", "+s", &sa);
    p.schemas[0].n_children = 1;
    p.schemas[0].children = schemas;
    fby__table *table = table_of(&p);
    decoded d;
    const char *paths[] = {"s.x"};
    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_INT64, 0, 3, paths, NULL, 1, FBY__MISSING_FILL, -1, &d), FBY_OK);
    assert_memory_equal(d.panel.data, ((const int64_t[]){30, -1, 32}), 24);
    free(d.memory);

    struct ArrowArray out;
    fby_error err;
    assert_int_equal(export_rows(table, 0, 1, 3, &out, &err), FBY_OK);
    assert_int_equal(out.length, 2);
    assert_int_equal(out.null_count, 1);
    assert_int_equal(*(const uint8_t *)out.buffers[0] & 3, 2);
    assert_ptr_equal(out.children[0]->buffers[1], &x[4]); /* lent, not copied */
    out.release(&out);
    drop(table);
}

static void fixed_lists_fill_several_elements_of_a_row(void **state)
{
    (void)state;
    static const int16_t v[] = {0, 0, 1, 2, 3, 4, 5, 6};
    static const uint8_t v_valid[] = {0xbf}; /* element 6 is null */
    static const uint8_t l_valid[] = {0x0d}; /* list 1 is null */
    const void *v_buffers[] = {v_valid, v}, *l_buffers[] = {l_valid};
    struct ArrowArray va = array(8, 1, 0, 2, v_buffers), la = array(3, 1, 1, 1, l_buffers);
    struct ArrowArray *children[] = {&va};
    la.n_children = 1;
    la.children = children;
    struct ArrowSchema item = {.format = "s", .name = "item", .release = schema_done}, *schemas[] = {&item};
    producer p = {.rows = {3}};
    add_column(&p, "v", "+w:2", &la);
    p.schemas[0].n_children = 1;
    p.schemas[0].children = schemas;
    fby__table *table = table_of(&p);
    decoded d;
    const char *paths[] = {"v"};
    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_FLOAT64, 0, 3, paths, (const uint32_t[]){2}, 1, FBY__MISSING_FILL, 0.5, &d),
                     FBY_OK);
    assert_memory_equal(d.panel.data, ((const double[]){0.5, 0.5, 3, 4, 0.5, 6}), 48);
    assert_memory_equal(d.panel.valid, "\0\1\0", 3);
    free(d.memory);
    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_FLOAT64, 0, 3, paths, (const uint32_t[]){3}, 1, FBY__MISSING_FILL, 0, &d),
                     FBY_E_SCHEMA);
    assert_non_null(strstr(d.err.message, "2 elements a row where 3 are expected"));
    free(d.memory);
    drop(table);
}

static void lists_become_values_and_offsets(void **state)
{
    (void)state;
    static const float v[] = {100, 1, 2, 3, 4, 5, 6};
    static const uint8_t v_valid[] = {0xf7};             /* element 3 of the child's buffer is null: value 3 */
    static const int32_t offsets[] = {0, 0, 2, 4, 4, 6}; /* list 2 is null, though it has elements */
    static const uint8_t l_valid[] = {0x1b};
    const void *v_buffers[] = {v_valid, v}, *l_buffers[] = {l_valid, offsets};
    struct ArrowArray va = array(6, 1, 1, 2, v_buffers), la = array(4, 1, 1, 2, l_buffers);
    struct ArrowArray *children[] = {&va};
    la.n_children = 1;
    la.children = children;
    struct ArrowSchema item = {.format = "f", .name = "item", .release = schema_done}, *schemas[] = {&item};
    producer p = {.rows = {4}};
    add_column(&p, "l", "+l", &la);
    p.schemas[0].n_children = 1;
    p.schemas[0].children = schemas;
    fby__table *table = table_of(&p);
    decoded d;
    const char *paths[] = {"l"};
    assert_int_equal(decode(table, FBY__PANEL_RAGGED, FBY_FLOAT32, 0, 4, paths, NULL, 1, FBY__MISSING_FILL, -1, &d), FBY_OK);
    assert_memory_equal(d.panel.offsets, ((const uint64_t[]){0, 2, 2, 2, 4}), 40);
    assert_memory_equal(d.panel.valid, "\1\0\1\1", 4);
    assert_int_equal(d.panel.used, 4);
    assert_memory_equal(d.panel.data, ((const float[]){1, 2, 5, 6}), 16);
    assert_memory_equal(d.panel.element_valid, "\1\1\1\1", 4);
    free(d.memory);
    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_FLOAT32, 0, 4, paths, NULL, 1, FBY__MISSING_FILL, -1, &d), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(d.err.message, "column 'l'"));
    free(d.memory);

    struct ArrowArray out;
    fby_error err;
    assert_int_equal(export_rows(table, 0, 2, 4, &out, &err), FBY_OK);
    assert_memory_equal(out.buffers[1], ((const int64_t[]){0, 0, 2}), 24); /* 64-bit, from the first element asked for */
    assert_int_equal(out.children[0]->length, 2);
    assert_ptr_equal(out.children[0]->buffers[1], &v[5]);
    out.release(&out);
    drop(table);
}

static void strings_of_every_form_become_views(void **state)
{
    (void)state;
    static const char data[] = "xxonetwothirteen bytes";
    static const int32_t o32[] = {0, 2, 5, 8, 22};
    static const int64_t o64[] = {0, 2, 5, 8, 22};
    static const uint8_t valid[] = {0xb}; /* of four from the buffer's start, the third is null */
    static const uint8_t indices[] = {2, 0, 2};
    uint8_t views[3][16] = {{0}};
    const int64_t sizes[] = {sizeof data};
    uint32_t n = 3, long_n = 14, zero = 0, at = 8;
    memcpy(views[0], &n, 4), memcpy(views[0] + 4, "one", 3);
    memcpy(views[2], &long_n, 4), memcpy(views[2] + 4, "thir", 4), memcpy(views[2] + 8, &zero, 4), memcpy(views[2] + 12, &at, 4);
    const uint8_t view_valid[] = {0x5};
    const void *u_buffers[] = {valid, o32, data}, *big_buffers[] = {valid, o64, data}, *view_buffers[] = {view_valid, views, data, sizes},
               *i_buffers[] = {NULL, indices}, *dict_buffers[] = {NULL, o32, data};
    struct ArrowArray ua = array(3, 1, 1, 3, u_buffers), big = array(3, 1, 1, 3, big_buffers), va = array(3, 1, 0, 4, view_buffers),
                      ia = array(3, 0, 0, 2, i_buffers), dict = array(3, 0, 1, 3, dict_buffers);
    struct ArrowSchema dict_schema = {.format = "u", .name = "", .release = schema_done};
    ia.dictionary = &dict;
    producer p = {.rows = {3}};
    add_column(&p, "u", "u", &ua);
    add_column(&p, "U", "U", &big);
    add_column(&p, "v", "vu", &va);
    add_column(&p, "d", "C", &ia);
    p.schemas[3].dictionary = &dict_schema;
    fby__table *table = table_of(&p);

    static const char *const want[4][3] = {{"one", NULL, "thirteen bytes"},
                                           {"one", NULL, "thirteen bytes"},
                                           {"one", NULL, "thirteen bytes"},
                                           {"thirteen bytes", "one", "thirteen bytes"}};
    static const char *const names[] = {"u", "U", "v", "d"};
    for (uint32_t c = 0; c < 4; c++) {
        decoded d;
        assert_int_equal(decode(table, FBY__PANEL_BYTES, FBY_UINT8, 0, 3, &names[c], NULL, 1, FBY__MISSING_FILL, 0, &d), FBY_OK);
        struct ArrowArray out;
        assert_int_equal(export_rows(table, c, 0, 3, &out, &d.err), FBY_OK);
        const int64_t *offsets = out.buffers[1];
        for (uint32_t r = 0; r < 3; r++) {
            size_t length = want[c][r] ? strlen(want[c][r]) : 0;
            assert_int_equal(d.panel.valid[r], want[c][r] != NULL);
            assert_int_equal(d.panel.views[r].n, length);
            if (!length)
                continue;
            assert_memory_equal(d.panel.data + d.panel.views[r].offset, want[c][r], length);
            assert_int_equal(offsets[r + 1] - offsets[r], length);
            assert_memory_equal((const char *)out.buffers[2] + offsets[r], want[c][r], length);
        }
        if (c == 1)
            assert_ptr_equal(out.buffers[1], &o64[1]);
        if (c == 3)
            assert_int_equal(d.panel.used, 17); /* a repeated string is kept once */
        out.release(&out);
        free(d.memory);
    }
    drop(table);
}

static void an_exported_child_keeps_the_table_alive(void **state)
{
    (void)state;
    static const int32_t x[] = {7, 8};
    const void *x_buffers[] = {NULL, x}, *s_buffers[] = {NULL};
    struct ArrowArray xa = array(2, 0, 0, 2, x_buffers), sa = array(2, 0, 0, 1, s_buffers);
    struct ArrowArray *children[] = {&xa};
    sa.n_children = 1;
    sa.children = children;
    struct ArrowSchema x_schema = {.format = "i", .name = "x", .release = schema_done}, *schemas[] = {&x_schema};
    producer p = {.rows = {2}};
    add_column(&p, "s", "+s", &sa);
    p.schemas[0].n_children = 1;
    p.schemas[0].children = schemas;
    fby__table *table = table_of(&p);
    struct ArrowArray out, child;
    fby_error err;
    assert_int_equal(export_rows(table, 0, 0, 2, &out, &err), FBY_OK);
    fby__table_unref(table);
    child = *out.children[0];
    out.children[0]->release = NULL;
    out.release(&out);
    assert_true(g_live_arrays > 0); /* the producer's arrays are still there */
    assert_int_equal(((const int32_t *)child.buffers[1])[1], 8);
    child.release(&child);
    assert_int_equal(g_live_arrays, 0);
}

static void values_in_other_forms_are_exported_in_ours(void **state)
{
    (void)state;
    static const int64_t ms[] = {-1, 86400000};
    static const int32_t d32[] = {-5, 500};
    uint8_t d256[64];
    memset(d256, 0xff, 32);
    d256[0] = 0xfe;
    memset(d256 + 32, 0, 32);
    d256[32] = 9;
    const void *ms_buffers[] = {NULL, ms}, *d32_buffers[] = {NULL, d32}, *d256_buffers[] = {NULL, d256};
    struct ArrowArray ma = array(2, 0, 0, 2, ms_buffers), da = array(2, 0, 0, 2, d32_buffers), wa = array(2, 0, 0, 2, d256_buffers);
    producer p = {.rows = {2}};
    add_column(&p, "date", "tdm", &ma);
    add_column(&p, "small", "d:9,2,32", &da);
    add_column(&p, "wide", "d:20,1,256", &wa);
    fby__table *table = table_of(&p);
    struct ArrowArray out;
    fby_error err;
    assert_int_equal(export_rows(table, 0, 0, 2, &out, &err), FBY_OK);
    assert_memory_equal(out.buffers[1], ((const int32_t[]){-1, 1}), 8);
    out.release(&out);
    assert_int_equal(export_rows(table, 1, 0, 2, &out, &err), FBY_OK);
    assert_memory_equal(out.buffers[1], ((const int64_t[]){-5, -1, 500, 0}), 32);
    out.release(&out);
    assert_int_equal(export_rows(table, 2, 0, 2, &out, &err), FBY_OK);
    assert_memory_equal(out.buffers[1], ((const int64_t[]){-2, -1, 9, 0}), 32);
    out.release(&out);
    decoded d;
    const char *paths[] = {"date", "small", "wide"};
    assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_FLOAT64, 0, 2, paths, NULL, 3, FBY__MISSING_ERROR, 0, &d), FBY_OK);
    assert_memory_equal(d.panel.data, ((const double[]){-1, -0.05, -0.2, 1, 5, 0.9}), 48);
    free(d.memory);
    drop(table);
}

static void dense_tiles_equal_a_naive_loop(void **state)
{
    (void)state;
    enum { ROWS = 5000, OFFSET = 3 };
    fby__random rng = {.key = test_seed()};
    static int32_t v[MAX_COLUMNS][ROWS + OFFSET];
    static uint8_t valid[MAX_COLUMNS][ROWS / 8 + 2];
    const void *buffers[MAX_COLUMNS][2];
    struct ArrowArray arrays[MAX_COLUMNS];
    char names[MAX_COLUMNS][8];
    const char *paths[MAX_COLUMNS];
    producer p = {.rows = {ROWS}};
    for (uint32_t c = 0; c < MAX_COLUMNS; c++) {
        for (uint32_t i = 0; i < ROWS + OFFSET; i++) {
            v[c][i] = (int32_t)fby__random_next(&rng);
            if (fby__random_below(&rng, 4))
                valid[c][i / 8] |= (uint8_t)(1u << (i % 8));
        }
        buffers[c][0] = c % 2 ? valid[c] : NULL;
        buffers[c][1] = v[c];
        arrays[c] = array(ROWS, c % 2 ? -1 : 0, OFFSET, 2, buffers[c]);
        (void)snprintf(names[c], sizeof names[c], "c%u", c);
        paths[c] = names[c];
        add_column(&p, names[c], "i", &arrays[c]);
    }
    fby__table *table = table_of(&p);
    for (unsigned round = 0; round < 5; round++) {
        uint64_t begin = round ? fby__random_below(&rng, ROWS) : 0, end = round ? begin + fby__random_below(&rng, ROWS - begin + 1) : ROWS;
        decoded d;
        assert_int_equal(decode(table, FBY__PANEL_DENSE, FBY_FLOAT64, begin, end, paths, NULL, MAX_COLUMNS, FBY__MISSING_FILL, 0.25, &d),
                         FBY_OK);
        const double *out = (const double *)(const void *)d.panel.data;
        for (uint64_t r = begin; r < end; r++)
            for (uint32_t c = 0; c < MAX_COLUMNS; c++) {
                uint64_t at = r + OFFSET, cell = (r - begin) * MAX_COLUMNS + c;
                bool there = !(c % 2) || (valid[c][at / 8] >> (at % 8) & 1);
                assert_true(out[cell] == (there ? (double)v[c][at] : 0.25));
                assert_int_equal(d.panel.valid[cell], there);
            }
        free(d.memory);
    }
    drop(table);
}

static void empty_batches_are_left_out_and_groups_count_rows(void **state)
{
    (void)state;
    static const int32_t x[] = {1, 2, 3};
    const void *buffers[] = {NULL, x};
    struct ArrowArray a = array(2, 0, 0, 2, buffers), none = array(0, 0, 0, 2, buffers), b = array(3, 0, 0, 2, buffers);
    producer p = {.rows = {2, 0, 3}};
    add_column(&p, "x", "i", &a);
    p.columns[1][0] = &none;
    p.columns[2][0] = &b;
    p.n_batches = 3;
    fby__table *table = table_of(&p);
    assert_int_equal(table->n_groups, 2);
    assert_int_equal(table->groups[1].rows, 3);
    assert_int_equal(table->groups[1].first_row, 2);
    assert_int_equal(table->groups[1].stored_bytes, 12);
    assert_int_equal(table->n_rows, 5);
    fby_chunk_info info = {.size = sizeof info};
    assert_int_equal(table->ops->describe(table, NULL, 0, 0, &info, NULL), FBY_OK);
    assert_int_equal(info.n_values, 2);
    assert_int_equal(info.null_count, 0);
    assert_int_equal(info.n_dictionary_values, -1);
    assert_int_equal(table->ops->bid((fby__bytes){0}, (fby__bytes){0}), 0);
    assert_int_equal(table->ops->freeze(table, NULL, NULL), FBY_E_UNSUPPORTED);
    drop(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_several_types_become_one_dense_matrix),
        cmocka_unit_test(offsets_and_nulls_of_parents_reach_the_leaf),
        cmocka_unit_test(fixed_lists_fill_several_elements_of_a_row),
        cmocka_unit_test(lists_become_values_and_offsets),
        cmocka_unit_test(strings_of_every_form_become_views),
        cmocka_unit_test(an_exported_child_keeps_the_table_alive),
        cmocka_unit_test(values_in_other_forms_are_exported_in_ours),
        cmocka_unit_test(dense_tiles_equal_a_naive_loop),
        cmocka_unit_test(empty_batches_are_left_out_and_groups_count_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
