/* Parquet column chunks to Arrow arrays: single types at their limits, and levels that make no tree. */
#include "format/parquet_levels.h"

/* ---- single types ---- */

typedef struct one {
    column columns[MAX_LEAVES];
    fby__pq_table *table;
    fby__scratch scratch;
    struct ArrowArray array;
    fby_error err;
} one;

static fby__schema_element leaf(const char *name, fby_field field, int32_t physical, int32_t type_length)
{
    return (fby__schema_element){.name = name,
                                 .name_n = (uint32_t)strlen(name),
                                 .field = field,
                                 .physical = physical,
                                 .type_length = type_length,
                                 .def_level = field.nullable,
                                 .max_def = field.nullable};
}

/* n values of `width` bytes each, then a null where the field allows it, as one flat column. */
static fby_status read_flat(one *o, fby_field field, int32_t physical, int32_t type_length, const void *values, size_t n, size_t width)
{
    fby__random rng = {.key = 1};
    fby__schema_element e[2] = {{.name = "", .n_children = 1, .field = {.kind = FBY_KIND_STRUCT}}, leaf("v", field, physical, type_length)};
    *o = (one){0};
    for (size_t i = 0; i < n; i++) {
        put_level(&o->columns[0], 0, field.nullable);
        put_value(&o->columns[0], (const uint8_t *)values + i * width, width);
    }
    if (field.nullable)
        put_level(&o->columns[0], 0, 0);
    make_pages(&o->columns[0], 0, field.nullable, false, &rng, 3);
    o->table = make_table(e, 2, o->columns[0].def.n, o->columns);
    return decode(o->table, o->columns, 0, 0, o->columns[0].def.n, &o->scratch, &o->array, &o->err);
}

static void one_fini(one *o)
{
    if (o->array.release)
        o->array.release(&o->array);
    fby__table_unref(&o->table->base);
    fby__scratch_fini(&o->scratch);
    for (uint32_t i = 0; i < MAX_LEAVES; i++)
        column_fini(&o->columns[i]);
}

static void int96_timestamps_become_nanoseconds_and_wrap_as_arrow_does(void **state)
{
    (void)state;
    struct {
        uint64_t ns;
        uint32_t day;
    } __attribute__((packed)) v[] = {{5, 2440588}, {0, 2440587}, {1, 4294967295u}};
    one o;
    assert_int_equal(read_flat(&o, (fby_field){.kind = FBY_KIND_TIMESTAMP, .unit = FBY_UNIT_NS, .dtype = FBY_INT64, .nullable = true},
                               FBY__PQ_INT96, 0, v, 3, 12),
                     FBY_OK);
    const int64_t *out = o.array.buffers[1];
    assert_int_equal(out[0], 5);
    assert_int_equal(out[1], -86400000000000);
    assert_int_equal(out[2], (int64_t)((UINT64_C(4294967295) - 2440588) * UINT64_C(86400000000000) + 1));
    assert_int_equal(o.array.null_count, 1);
    assert_int_equal(out[3], 0);
    one_fini(&o);
}

static void small_integers_keep_their_low_bytes(void **state)
{
    (void)state;
    const uint32_t v[] = {255, 0, 128};
    one o;
    assert_int_equal(read_flat(&o, (fby_field){.kind = FBY_KIND_INT, .dtype = FBY_UINT8}, FBY__PQ_INT32, 0, v, 3, 4), FBY_OK);
    assert_memory_equal(o.array.buffers[1], "\xff\x00\x80", 3);
    assert_null(o.array.buffers[0]);
    one_fini(&o);
    const int32_t w[] = {-1, -32768};
    assert_int_equal(read_flat(&o, (fby_field){.kind = FBY_KIND_INT, .dtype = FBY_INT16, .nullable = true}, FBY__PQ_INT32, 0, w, 2, 4),
                     FBY_OK);
    assert_memory_equal(o.array.buffers[1], "\xff\xff\x00\x80\x00\x00", 6);
    one_fini(&o);
}

static void decimals_of_every_storage_are_sign_extended(void **state)
{
    (void)state;
    one o;
    fby_field small = {.kind = FBY_KIND_DECIMAL, .precision = 18, .scale = 2},
              large = {.kind = FBY_KIND_DECIMAL, .precision = 40, .scale = 2};
    const int32_t i32[] = {-2};
    const int64_t i64[] = {INT64_MIN};
    uint8_t minus_two[32], min64[32];
    memset(minus_two, 0xff, 32);
    minus_two[0] = 0xfe;
    memset(min64, 0xff, 32);
    memcpy(min64, i64, 8);
    assert_int_equal(read_flat(&o, small, FBY__PQ_INT32, 0, i32, 1, 4), FBY_OK);
    assert_memory_equal(o.array.buffers[1], minus_two, 16);
    one_fini(&o);
    assert_int_equal(read_flat(&o, large, FBY__PQ_INT64, 0, i64, 1, 8), FBY_OK);
    assert_memory_equal(o.array.buffers[1], min64, 32);
    one_fini(&o);
    assert_int_equal(read_flat(&o, small, FBY__PQ_FLBA, 3, "\xff\xff\xfe", 1, 3), FBY_OK);
    assert_memory_equal(o.array.buffers[1], minus_two, 16);
    one_fini(&o);
    assert_int_equal(read_flat(&o, large, FBY__PQ_BYTE_ARRAY, 0, "\1\0\0\0\xfe", 1, 5), FBY_OK);
    assert_memory_equal(o.array.buffers[1], minus_two, 32);
    one_fini(&o);
    /* 17 bytes: fine while the first is only sign, an error when it is not. */
    uint8_t longer[17];
    memset(longer, 0xff, 17);
    longer[16] = 0xfe;
    assert_int_equal(read_flat(&o, small, FBY__PQ_FLBA, 17, longer, 1, 17), FBY_OK);
    assert_memory_equal(o.array.buffers[1], minus_two, 16);
    one_fini(&o);
    longer[0] = 1;
    assert_int_equal(read_flat(&o, small, FBY__PQ_FLBA, 17, longer, 1, 17), FBY_E_FORMAT);
    assert_non_null(strstr(o.err.message, "'v'"));
    one_fini(&o);
    assert_int_equal(read_flat(&o, small, FBY__PQ_BYTE_ARRAY, 0, "\0\0\0\0", 1, 4), FBY_E_FORMAT);
    one_fini(&o);
}

static void a_column_of_nulls_has_no_buffers_and_may_hold_no_value(void **state)
{
    (void)state;
    one o;
    fby_field null = {.kind = FBY_KIND_NULL, .nullable = true};
    assert_int_equal(read_flat(&o, null, FBY__PQ_INT32, 0, NULL, 0, 4), FBY_OK);
    assert_int_equal(o.array.n_buffers, 0);
    assert_int_equal(o.array.null_count, 1);
    one_fini(&o);
    const int32_t v[] = {1};
    assert_int_equal(read_flat(&o, null, FBY__PQ_INT32, 0, v, 1, 4), FBY_E_FORMAT);
    one_fini(&o);
}

static void a_stored_type_that_cannot_hold_the_kind_is_refused(void **state)
{
    (void)state;
    one o;
    const int32_t v[] = {1};
    assert_int_equal(read_flat(&o, (fby_field){.kind = FBY_KIND_STRING}, FBY__PQ_INT32, 0, v, 1, 4), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(o.err.message, "'v'"));
    one_fini(&o);
}

/* ---- levels that make no tree ---- */

/* list<struct<a: int32, b: int32>> (nothing nullable but the list), or a map with a nullable key. */
static fby_status read_pairs(one *o, bool map, const uint8_t *rep_a, const uint8_t *def_a, size_t n_a, const uint8_t *rep_b,
                             const uint8_t *def_b, size_t n_b)
{
    fby__random rng = {.key = 1};
    fby__schema_element e[5] = {
        {.name = "", .n_children = 1, .field = {.kind = FBY_KIND_STRUCT}},
        {.name = "hits",
         .name_n = 4,
         .n_children = 1,
         .field = {.kind = map ? FBY_KIND_MAP : FBY_KIND_LIST, .nullable = true},
         .def_level = 1,
         .rep_level = 1,
         .list_def_level = 2},
        {.name = "element",
         .name_n = 7,
         .hidden_in_path = true,
         .n_children = 2,
         .field = {.kind = FBY_KIND_STRUCT},
         .def_level = 2,
         .rep_level = 1},
        leaf("a", (fby_field){.kind = FBY_KIND_INT, .dtype = FBY_INT32, .nullable = true}, FBY__PQ_INT32, 0),
        leaf("b", (fby_field){.kind = FBY_KIND_INT, .dtype = FBY_INT32, .nullable = true}, FBY__PQ_INT32, 0),
    };
    for (int i = 3; i < 5; i++) {
        e[i].def_level = e[i].max_def = 3;
        e[i].rep_level = e[i].max_rep = 1;
    }
    *o = (one){0};
    const uint8_t *rep[] = {rep_a, rep_b}, *def[] = {def_a, def_b};
    size_t n[] = {n_a, n_b};
    uint64_t rows = 0;
    for (int c = 0; c < 2; c++)
        for (size_t i = 0; i < n[c]; i++) {
            int32_t v = (int32_t)i;
            put_level(&o->columns[c], rep[c][i], def[c][i]);
            if (def[c][i] == 3)
                put_value(&o->columns[c], &v, 4);
            rows += c == 0 && rep[c][i] == 0;
        }
    for (int c = 0; c < 2; c++)
        make_pages(&o->columns[c], 1, 3, false, &rng, 1000);
    o->table = make_table(e, 5, rows, o->columns);
    return decode(o->table, o->columns, 0, 0, rows, &o->scratch, &o->array, &o->err);
}

static void leaves_that_agree_make_lists_of_structs(void **state)
{
    (void)state;
    one o;
    const uint8_t rep[] = {0, 1, 0, 0}, def_a[] = {3, 3, 1, 0}, def_b[] = {3, 2, 1, 0};
    assert_int_equal(read_pairs(&o, false, rep, def_a, 4, rep, def_b, 4), FBY_OK);
    assert_int_equal(o.array.length, 3);
    assert_int_equal(o.array.null_count, 1);
    const int64_t *offsets = o.array.buffers[1];
    assert_int_equal(offsets[1], 2);
    assert_int_equal(offsets[3], 2);
    assert_int_equal(o.array.children[0]->children[1]->null_count, 1);
    /* Children may be moved out and live on. */
    struct ArrowArray child = *o.array.children[0];
    o.array.children[0]->release = NULL;
    o.array.release(&o.array);
    assert_int_equal(((const int32_t *)child.children[0]->buffers[1])[1], 1);
    child.release(&child);
    one_fini(&o);
}

static void leaves_of_a_struct_that_disagree_are_an_error_naming_both(void **state)
{
    (void)state;
    one o;
    const uint8_t rep[] = {0, 1, 0, 0}, def[] = {3, 3, 3, 3};
    const uint8_t rep2[] = {0, 0, 1, 0}; /* as many levels and rows, other lists */
    assert_int_equal(read_pairs(&o, false, rep, def, 4, rep2, def, 4), FBY_E_FORMAT);
    assert_non_null(strstr(o.err.message, "'hits.a' and 'hits.b'"));
    one_fini(&o);
    const uint8_t null_first[] = {0, 3, 3}, empty_first[] = {1, 3, 3}, flat[] = {0, 0, 0};
    assert_int_equal(read_pairs(&o, false, flat, null_first, 3, flat, empty_first, 3), FBY_E_FORMAT);
    one_fini(&o);
    const uint8_t longer[] = {0, 1, 1, 0}, shorter[] = {0, 1, 0};
    assert_int_equal(read_pairs(&o, false, longer, def, 4, shorter, def, 3), FBY_E_FORMAT);
    one_fini(&o);
}

static void a_list_that_is_empty_cannot_go_on(void **state)
{
    (void)state;
    one o;
    const uint8_t rep[] = {0, 1, 0}, def[] = {1, 3, 3};
    assert_int_equal(read_pairs(&o, false, rep, def, 3, rep, def, 3), FBY_E_FORMAT);
    one_fini(&o);
    const uint8_t def2[] = {3, 1, 3};
    assert_int_equal(read_pairs(&o, false, rep, def2, 3, rep, def2, 3), FBY_E_FORMAT);
    one_fini(&o);
}

static void a_map_has_32_bit_offsets_and_no_missing_key(void **state)
{
    (void)state;
    one o;
    const uint8_t rep[] = {0, 1, 0}, def[] = {3, 3, 3}, hole[] = {3, 2, 3};
    assert_int_equal(read_pairs(&o, true, rep, def, 3, rep, hole, 3), FBY_OK);
    assert_memory_equal(o.array.buffers[1], ((const int32_t[]){0, 2, 3}), 12);
    one_fini(&o);
    assert_int_equal(read_pairs(&o, true, rep, hole, 3, rep, def, 3), FBY_E_FORMAT);
    assert_non_null(strstr(o.err.message, "key is missing"));
    one_fini(&o);
}

static void fewer_rows_than_stated_are_an_error(void **state)
{
    (void)state;
    one o;
    const int32_t v[] = {1, 2, 3};
    assert_int_equal(read_flat(&o, (fby_field){.kind = FBY_KIND_INT, .dtype = FBY_INT32}, FBY__PQ_INT32, 0, v, 3, 4), FBY_OK);
    o.array.release(&o.array);
    o.table->base.groups[0].rows = 5;
    assert_int_equal(decode(o.table, o.columns, 0, 0, 5, &o.scratch, &o.array, &o.err), FBY_E_FORMAT);
    assert_non_null(strstr(o.err.message, "model.parquet"));
    one_fini(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int96_timestamps_become_nanoseconds_and_wrap_as_arrow_does),
        cmocka_unit_test(small_integers_keep_their_low_bytes),
        cmocka_unit_test(decimals_of_every_storage_are_sign_extended),
        cmocka_unit_test(a_column_of_nulls_has_no_buffers_and_may_hold_no_value),
        cmocka_unit_test(a_stored_type_that_cannot_hold_the_kind_is_refused),
        cmocka_unit_test(leaves_that_agree_make_lists_of_structs),
        cmocka_unit_test(leaves_of_a_struct_that_disagree_are_an_error_naming_both),
        cmocka_unit_test(a_list_that_is_empty_cannot_go_on),
        cmocka_unit_test(a_map_has_32_bit_offsets_and_no_missing_key),
        cmocka_unit_test(fewer_rows_than_stated_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
