/*
 * HDF5 → Arrow: tables made by hand against their naive twin (h5_model.h), every kind of field that a table can have, and every
 * allocation failing in turn. The arrays are walked along the schema that would be exported with them.
 */
#include "format/h5_heap_table.h"
#include "format/h5_random_table.h"

#include "block/arrow.h"

enum { MAX_ELEMENTS = 256 };

/* ---- schemas ---- */

typedef struct shape {
    fby__schema_element elements[MAX_ELEMENTS];
    size_t n;
} shape;

static void add(shape *s, fby_kind kind, fby_dtype dtype, uint32_t n_children, int32_t list_size, int32_t width)
{
    static const char NAMES[] = "abcdefghijklmnopqrstuvwxyz";
    assert_in_range(s->n, 0, MAX_ELEMENTS - 1);
    s->elements[s->n] = (fby__schema_element){.name = &NAMES[s->n % 26],
                                              .name_n = s->n ? 1 : 0,
                                              .n_children = n_children,
                                              .field = {.kind = kind, .dtype = dtype, .list_size = list_size, .byte_width = width}};
    s->n++;
}

static fby_kind kind_of(fby_dtype dtype)
{
    return dtype == FBY_BOOL ? FBY_KIND_BOOL : dtype >= FBY_FLOAT16 ? FBY_KIND_FLOAT : FBY_KIND_INT;
}

/* As fields.c makes them: fixed lists of the axes that do not run over rows, a struct of members, fixed lists of array types. */
static void add_number_set(shape *out, const model *m, uint32_t set)
{
    const model_set *s = &m->sets[set];
    for (uint32_t a = 0; a < s->set.rank; a++)
        if (a < s->set.axis || a >= s->set.axis + s->set.axes)
            add(out, FBY_KIND_FIXED_LIST, FBY_DTYPE_NONE, 1, (int32_t)s->set.dims[a], 0);
    if (s->type.class == FBY__H5_COMPOUND)
        add(out, FBY_KIND_STRUCT, FBY_DTYPE_NONE, s->n_members, 0, 0);
    for (uint32_t i = 0; i < m->n_leaves; i++) {
        if (m->leaves[i].set != set)
            continue;
        if (m->leaves[i].elements > 1)
            add(out, FBY_KIND_FIXED_LIST, FBY_DTYPE_NONE, 1, (int32_t)m->leaves[i].elements, 0);
        add(out, kind_of(m->leaves[i].dtype), m->leaves[i].dtype, 0, 0, 0);
    }
}

static void use_schema(model *m, const shape *s)
{
    check_ok(fby__schema_create(s->elements, s->n, &m->table.base.schema, &m->err), &m->err);
    assert_int_equal(m->table.base.schema->n_leaves, m->n_leaves);
}

/* ---- decoding ---- */

static fby_status decode(model *m, uint32_t field, uint64_t begin, uint64_t end, fby__scratch *scratch, fby__file *file,
                         struct ArrowArray *out)
{
    const fby__schema_node *node = &m->table.base.schema->nodes[field];
    uint32_t leaves[MAX_SETS * MAX_MEMBERS];
    for (uint32_t i = 0; i < node->n_leaves; i++)
        leaves[i] = node->first_leaf + i;
    fby_status status = locate(m, leaves, node->n_leaves, begin, end, NULL);
    if (status != FBY_OK)
        return status;
    fby__arrow_request q = {.table = &m->table.base,
                            .file = file,
                            .file_name = "x.h5",
                            .row_begin = begin,
                            .row_end = end,
                            .field = field,
                            .sources = m->sources};
    return fby__h5_decode_arrow(&q, scratch, out, &m->err);
}

static uint32_t top_field(const model *m, uint32_t i)
{
    const fby_field *fields = m->table.base.schema->fields;
    return (uint32_t)(&fields[0].children[i] - fields);
}

static bool bit(const void *bits, uint64_t i) { return ((const uint8_t *)bits)[i / 8] >> (i % 8) & 1; }

/* ---- the twin ---- */

static void check_leaf(const model *m, const fby_field *field, const struct ArrowArray *array, uint64_t first_row)
{
    const fby__schema *schema = m->table.base.schema;
    const uint32_t leaf = schema->nodes[field - schema->fields].first_leaf;
    const fby__h5_leaf *l = &m->leaves[leaf];
    const model_set *s = &m->sets[l->set];
    const uint64_t width = m->table.sets[l->set].row_elements * l->elements;
    const size_t bytes = fby_dtype_bytes(l->dtype);
    int64_t nulls = 0;
    assert_int_equal(array->n_buffers, 2);
    for (uint64_t i = 0; i < (uint64_t)array->length; i++) {
        double want;
        const bool there = twin_value(s, m->leaf_member[leaf], first_row + i / width, i % width, &want);
        uint8_t value[8] = {0};
        size_t bad;
        nulls += !there;
        assert_int_equal(!array->buffers[0] || bit(array->buffers[0], i), there);
        if (there)
            assert_int_equal(fby__convert(l->dtype, value, FBY_FLOAT64, &want, 1, FBY__SCALE_NONE, &bad), FBY_OK);
        if (l->dtype == FBY_BOOL)
            assert_int_equal(bit(array->buffers[1], i), value[0]);
        else
            assert_memory_equal((const uint8_t *)array->buffers[1] + i * bytes, value, bytes);
    }
    assert_int_equal(array->null_count, nulls);
    assert_true(!array->buffers[0] == !nulls);
}

static void check_array(const model *m, const fby_field *field, const struct ArrowArray *array, uint64_t length, uint64_t first_row)
{
    assert_int_equal(array->length, length);
    assert_int_equal(array->offset, 0);
    assert_int_equal(array->n_children, field->n_children);
    if (field->kind != FBY_KIND_STRUCT && field->kind != FBY_KIND_FIXED_LIST) {
        check_leaf(m, field, array, first_row);
        return;
    }
    assert_int_equal(array->n_buffers, 1);
    assert_null(array->buffers[0]);
    for (uint32_t i = 0; i < field->n_children; i++)
        check_array(m, &field->children[i], array->children[i],
                    field->kind == FBY_KIND_STRUCT ? length : length * (uint64_t)field->list_size, first_row);
}

static void one_random_table(uint64_t seed)
{
    fby__random rng = {.key = seed, .stream = 1};
    model m;
    const uint64_t rows = random_table(&m, &rng);
    shape s = {.n = 0};
    add(&s, FBY_KIND_STRUCT, FBY_DTYPE_NONE, m.n_sets, 0, 0);
    for (uint32_t i = 0; i < m.n_sets; i++)
        add_number_set(&s, &m, i);
    use_schema(&m, &s);
    for (uint32_t i = 0; i < m.n_sets; i++)
        for (int turn = 0; turn < 2; turn++) {
            const uint64_t begin = turn ? pick(&rng, (unsigned)rows) : 0,
                           end = turn ? begin + pick(&rng, (unsigned)(rows - begin)) + 1 : rows;
            struct ArrowArray array;
            if (decode(&m, top_field(&m, i), begin, end, &m.scratch, NULL, &array) != FBY_OK)
                fail_msg("seed %llu: %s", (unsigned long long)seed, m.err.message);
            check_array(&m, &m.table.base.schema->fields[top_field(&m, i)], &array, end - begin, begin);
            array.release(&array);
        }
    fby__schema_unref(m.table.base.schema);
    model_fini(&m);
}

static void random_tables_become_arrays_that_the_naive_twin_confirms(void **state)
{
    (void)state;
    const char *given = getenv("FBY_TEST_SEED");
    const uint64_t first = given ? strtoull(given, NULL, 10) : 1, rounds = given ? 1 : 150;
    for (uint64_t seed = first; seed < first + rounds; seed++)
        one_random_table(seed);
}

/* ---- strings, lists, opaque values ---- */

static void heap_schema(heap_table *h)
{
    shape s = {.n = 0};
    add(&s, FBY_KIND_STRUCT, FBY_DTYPE_NONE, 2, 0, 0);
    add(&s, FBY_KIND_STRING, FBY_DTYPE_NONE, 0, 0, 0);
    add(&s, FBY_KIND_LIST, FBY_DTYPE_NONE, 1, 0, 0);
    add(&s, FBY_KIND_INT, FBY_INT16, 0, 0, 0);
    use_schema(&h->m, &s);
}

static void strings_and_lists_have_64_bit_offsets(void **state)
{
    (void)state;
    heap_table h;
    heap_table_open(&h);
    heap_schema(&h);
    h.m.leaves[1].n_missing = 1; /* 402 is missing */
    h.m.leaves[1].missing[0] = 402;
    for (uint64_t begin = 0; begin < 10; begin += 3) {
        struct ArrowArray array;
        check_ok(decode(&h.m, top_field(&h.m, 0), begin, 10, &h.m.scratch, h.file, &array), &h.m.err);
        assert_true(array.length == (int64_t)(10 - begin) && array.n_buffers == 3 && !array.buffers[0] && array.null_count == 0);
        const int64_t *offsets = array.buffers[1];
        assert_int_equal(offsets[0], 0);
        for (uint64_t i = begin; i < 10; i++) {
            const int64_t *o = &offsets[i - begin];
            assert_int_equal(o[1] - o[0], strlen(TEXTS[i]));
            assert_memory_equal((const char *)array.buffers[2] + o[0], TEXTS[i], (size_t)(o[1] - o[0]));
        }
        array.release(&array);
        check_ok(decode(&h.m, top_field(&h.m, 1), begin, 10, &h.m.scratch, h.file, &array), &h.m.err);
        const struct ArrowArray *values = array.children[0];
        offsets = array.buffers[1];
        assert_true(array.length == (int64_t)(10 - begin) && offsets[0] == 0 && values->length == offsets[10 - begin]);
        assert_int_equal(values->null_count, begin <= 4);
        for (uint64_t i = begin; i < 10; i++)
            for (int64_t k = 0; k < offsets[i - begin + 1] - offsets[i - begin]; k++) {
                const int16_t got = ((const int16_t *)values->buffers[1])[offsets[i - begin] + k];
                const bool missing = i == 4 && k == 2;
                assert_int_equal(got, missing ? 0 : 100 * (int64_t)i + k);
                assert_true(begin > 4 || bit(values->buffers[0], (uint64_t)(offsets[i - begin] + k)) == !missing);
            }
        array.release(&array);
    }
    fby__schema_unref(h.m.table.base.schema);
    heap_table_close(&h);
}

static void opaque_values_are_fixed_binaries_and_fixed_strings_are_trimmed(void **state)
{
    (void)state;
    fby__random rng = {.key = 30};
    static const char RAW[6][5] = {"ab\0cd", "ab   ", " b \0 ", "\0\0\0\0\0", "abcde", "     "};
    const fby__h5_type string = {.class = FBY__H5_STRING, .bytes = 5, .padding = 2}, opaque = {.class = FBY__H5_OPAQUE, .bytes = 5};
    model m = {.n_sets = 2};
    raw_set(&m, &m.sets[0], &string, (const uint8_t *)RAW, 6, 4, &rng);
    raw_set(&m, &m.sets[1], &opaque, (const uint8_t *)RAW, 6, 0, &rng);
    finish_table(&m, 6, 0);
    add_leaf(&m, 0, &string, FBY__H5_VALUE_FIXED_STRING);
    add_leaf(&m, 1, &opaque, FBY__H5_VALUE_OPAQUE);
    shape s = {.n = 0};
    add(&s, FBY_KIND_STRUCT, FBY_DTYPE_NONE, 2, 0, 0);
    add(&s, FBY_KIND_STRING, FBY_DTYPE_NONE, 0, 0, 0);
    add(&s, FBY_KIND_FIXED_BINARY, FBY_DTYPE_NONE, 0, 0, 5);
    use_schema(&m, &s);
    struct ArrowArray array;
    check_ok(decode(&m, top_field(&m, 0), 1, 6, &m.scratch, NULL, &array), &m.err);
    static const int64_t OFFSETS[6] = {0, 2, 6, 11, 16, 16};
    assert_memory_equal(array.buffers[1], OFFSETS, sizeof OFFSETS);
    assert_memory_equal(array.buffers[2], "ab b \0\0\0\0\0\0abcde", 16);
    array.release(&array);
    check_ok(decode(&m, top_field(&m, 1), 1, 6, &m.scratch, NULL, &array), &m.err);
    assert_memory_equal(array.buffers[1], RAW[1], 25);
    array.release(&array);
    check_ok(decode(&m, top_field(&m, 0), 3, 3, &m.scratch, NULL, &array), &m.err); /* no rows */
    assert_true(array.length == 0 && array.buffers[1] && array.buffers[2]);
    array.release(&array);
    fby__schema_unref(m.table.base.schema);
    model_fini(&m);
}

/* ---- failures ---- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fby__random rng = {.key = 31};
    heap_table h;
    model m = {.n_sets = 1};
    uint64_t row_dims[1] = {20};
    do { /* a compound of several members */
        fby__random_next(&rng);
        model_fini(&m);
        m = (model){.n_sets = 1};
        random_set(&m, &m.sets[0], row_dims, 1, &rng);
    } while (m.sets[0].n_members < 3);
    finish_table(&m, 20, 0);
    m.leaves[0].n_missing = 1;
    shape s = {.n = 0};
    add(&s, FBY_KIND_STRUCT, FBY_DTYPE_NONE, 1, 0, 0);
    add_number_set(&s, &m, 0);
    use_schema(&m, &s);
    heap_table_open(&h);
    heap_schema(&h);
    model *models[3] = {&m, &h.m, &h.m};
    for (uint32_t f = 0; f < 3; f++) {
        uint64_t total = 1;
        unsigned failed = 0;
        for (uint64_t at = 0; at <= total; at++) {
            fby__scratch scratch = {0};
            struct ArrowArray array;
            fby__range_list_fini(&models[f]->list);
            const uint64_t before = fby__alloc_count();
            fby__alloc_fail_at(at);
            fby_status status = decode(models[f], top_field(models[f], f ? f - 1 : 0), 2, 10, &scratch, f ? h.file : NULL, &array);
            fby__alloc_fail_at(0);
            if (at == 0)
                total = fby__alloc_count() - before;
            if (status == FBY_OK)
                array.release(&array);
            else
                assert_int_equal(status, FBY_E_NOMEM);
            failed += status != FBY_OK;
            fby__scratch_fini(&scratch);
        }
        print_message("%u of %u allocations failed the call\n", failed, (unsigned)total);
        assert_true(failed * 2 > total);
    }
    fby__schema_unref(h.m.table.base.schema);
    heap_table_close(&h);
    fby__schema_unref(m.table.base.schema);
    model_fini(&m);
}

static void damage_names_file_and_data_set(void **state)
{
    (void)state;
    fby__random rng = {.key = 32};
    static const char RAW[6][5] = {"ab"};
    const fby__h5_type string = {.class = FBY__H5_STRING, .bytes = 5};
    model m = {.n_sets = 1};
    do {
        model_fini(&m);
        m = (model){.n_sets = 1};
        raw_set(&m, &m.sets[0], &string, (const uint8_t *)RAW, 6, 4, &rng);
    } while (m.sets[0].set.chunks[0].mask || m.sets[0].set.chunks[1].mask);
    finish_table(&m, 6, 0);
    add_leaf(&m, 0, &string, FBY__H5_VALUE_FIXED_STRING);
    shape s = {.n = 0};
    add(&s, FBY_KIND_STRUCT, FBY_DTYPE_NONE, 1, 0, 0);
    add(&s, FBY_KIND_STRING, FBY_DTYPE_NONE, 0, 0, 0);
    use_schema(&m, &s);
    m.file.data[m.sets[0].set.chunks[1].offset + 1] ^= 0xff;
    struct ArrowArray array;
    check_fails(&m, decode(&m, top_field(&m, 0), 0, 6, &m.scratch, NULL, &array), FBY_E_FORMAT, "x.h5: data set '/a': chunk (1), at byte ");
    fby__schema_unref(m.table.base.schema);
    model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tables_become_arrays_that_the_naive_twin_confirms),
        cmocka_unit_test_setup_teardown(strings_and_lists_have_64_bit_offsets, setup_dir, teardown_dir),
        cmocka_unit_test(opaque_values_are_fixed_binaries_and_fixed_strings_are_trimmed),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup_dir, teardown_dir),
        cmocka_unit_test(damage_names_file_and_data_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
