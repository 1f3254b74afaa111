/*
 * Parquet column chunks to Arrow arrays. Pages are made from a model that writes down each row as text while it shreds it into levels; the arrays
 * that come back are written down too, and must read the same. Every allocation fails in turn.
 */
#include "format/parquet_levels.h"

/* ---- the model ---- */

typedef struct model {
    fby__random rng;
    fby__schema_element elements[MAX_NODES];
    size_t n_elements;
    uint32_t first_leaf[MAX_NODES], n_leaves[MAX_NODES], end[MAX_NODES]; /* by element: its leaves, the element after its subtree */
    uint32_t leaves;
    column columns[MAX_LEAVES];
    fby__buf text; /* rows of one field */
} model;

static uint64_t below(model *m, uint64_t n) { return fby__random_below(&m->rng, n); }

static void say(fby__buf *text, const char *s) { put(text, s, strlen(s)); }

/* A random subtree below levels (def, rep). */
static void grow(model *m, const char *name, unsigned depth, unsigned def, unsigned rep, int must_be_leaf_required)
{
    uint32_t i = (uint32_t)m->n_elements++;
    fby__schema_element *e = &m->elements[i];
    uint64_t what = must_be_leaf_required || depth == 0 || m->leaves > 30 ? 0 : below(m, 5);
    bool nullable = !must_be_leaf_required && below(m, 3) != 0;
    *e = (fby__schema_element){.name = name, .name_n = (uint32_t)strlen(name), .field = {.nullable = nullable}};
    def += nullable;
    e->def_level = (uint16_t)def;
    m->first_leaf[i] = m->leaves;
    static const char *const NAMES[] = {"a", "b", "c"};
    if (what <= 1) {
        static const struct {
            fby_kind kind;
            fby_dtype dtype;
            int32_t physical;
        } LEAVES[] = {{FBY_KIND_INT, FBY_INT32, FBY__PQ_INT32},
                      {FBY_KIND_STRING, FBY_DTYPE_NONE, FBY__PQ_BYTE_ARRAY},
                      {FBY_KIND_BOOL, FBY_BOOL, FBY__PQ_BOOLEAN}};
        uint64_t k = below(m, 3);
        e->field.kind = LEAVES[k].kind;
        e->field.dtype = LEAVES[k].dtype;
        e->physical = LEAVES[k].physical;
        e->rep_level = e->max_rep = (uint16_t)rep;
        e->max_def = (uint16_t)def;
        m->leaves++;
    } else if (what == 2) {
        e->field.kind = FBY_KIND_STRUCT;
        e->rep_level = (uint16_t)rep;
        e->n_children = (uint32_t)below(m, 3) + 1;
        for (uint32_t c = 0; c < e->n_children; c++)
            grow(m, NAMES[c], depth - 1, def, rep, false);
    } else {
        bool map = what == 3;
        e->field.kind = map ? FBY_KIND_MAP : FBY_KIND_LIST;
        e->n_children = 1;
        e->rep_level = (uint16_t)(rep + 1);
        e->list_def_level = (uint16_t)(def + 1);
        if (map) {
            fby__schema_element *s = &m->elements[m->n_elements];
            uint32_t at = (uint32_t)m->n_elements++;
            *s = (fby__schema_element){
                .name = "key_value", .name_n = 9, .hidden_in_path = true, .n_children = 2, .field = {.kind = FBY_KIND_STRUCT}};
            s->def_level = (uint16_t)(def + 1);
            s->rep_level = (uint16_t)(rep + 1);
            m->first_leaf[at] = m->leaves;
            grow(m, "key", 0, def + 1, rep + 1, true);
            grow(m, "value", depth - 1, def + 1, rep + 1, false);
            m->n_leaves[at] = m->leaves - m->first_leaf[at];
            m->end[at] = (uint32_t)m->n_elements;
        } else {
            uint32_t at = (uint32_t)m->n_elements;
            grow(m, "element", depth - 1, def + 1, rep + 1, false);
            m->elements[at].hidden_in_path = true;
        }
    }
    m->n_leaves[i] = m->leaves - m->first_leaf[i];
    m->end[i] = (uint32_t)m->n_elements;
}

/* One value of element i, its parent present at level `above`: into the columns and as text. */
static void shred(model *m, uint32_t i, unsigned rep, unsigned above)
{
    const fby__schema_element *e = &m->elements[i];
    if (e->field.nullable && below(m, 4) == 0) {
        for (uint32_t l = 0; l < m->n_leaves[i]; l++)
            put_level(&m->columns[m->first_leaf[i] + l], rep, above);
        say(&m->text, "-");
        return;
    }
    if (e->field.kind == FBY_KIND_STRUCT) {
        say(&m->text, "{");
        for (uint32_t c = 0, child = i + 1; c < e->n_children; c++, child = m->end[child])
            shred(m, child, rep, e->def_level);
        say(&m->text, "}");
    } else if (e->field.kind == FBY_KIND_LIST || e->field.kind == FBY_KIND_MAP) {
        uint64_t n = below(m, 4);
        say(&m->text, "[");
        for (uint32_t l = 0; n == 0 && l < m->n_leaves[i]; l++)
            put_level(&m->columns[m->first_leaf[i] + l], rep, e->def_level);
        for (uint64_t k = 0; k < n; k++)
            shred(m, i + 1, k ? e->rep_level : rep, e->list_def_level);
        say(&m->text, "]");
    } else {
        column *c = &m->columns[m->first_leaf[i]];
        char text[64];
        put_level(c, rep, e->def_level);
        if (e->physical == FBY__PQ_INT32) {
            int32_t v = (int32_t)below(m, 1000) - 500;
            put_value(c, &v, sizeof v);
            (void)snprintf(text, sizeof text, "%d,", (int)v);
        } else if (e->physical == FBY__PQ_BOOLEAN) {
            uint8_t v = (uint8_t)below(m, 2);
            put(&c->bools, &v, 1);
            (void)snprintf(text, sizeof text, "%c,", v ? 't' : 'f');
        } else {
            uint32_t n = (uint32_t)below(m, 20);
            uint8_t stored[32];
            memcpy(stored, &n, 4);
            for (uint32_t k = 0; k < n; k++)
                stored[4 + k] = (uint8_t)('a' + below(m, 26));
            put_value(c, stored, 4 + n);
            (void)snprintf(text, sizeof text, "'%.*s'", (int)n, (const char *)stored + 4);
        }
        say(&m->text, text);
    }
}

/* Value i of an array as the model writes it. */
static void render(const fby_field *f, const struct ArrowArray *a, int64_t i, fby__buf *out)
{
    const uint8_t *valid = a->buffers[0];
    if (valid && !(valid[i / 8] >> (i % 8) & 1)) {
        say(out, "-");
        return;
    }
    char text[64];
    if (f->kind == FBY_KIND_STRUCT) {
        say(out, "{");
        for (uint32_t c = 0; c < f->n_children; c++)
            render(&f->children[c], a->children[c], i, out);
        say(out, "}");
    } else if (f->kind == FBY_KIND_LIST || f->kind == FBY_KIND_MAP) {
        bool map = f->kind == FBY_KIND_MAP;
        int64_t begin = map ? ((const int32_t *)a->buffers[1])[i] : ((const int64_t *)a->buffers[1])[i];
        int64_t end = map ? ((const int32_t *)a->buffers[1])[i + 1] : ((const int64_t *)a->buffers[1])[i + 1];
        say(out, "[");
        for (int64_t k = begin; k < end; k++)
            render(&f->children[0], a->children[0], k, out);
        say(out, "]");
    } else if (f->kind == FBY_KIND_INT) {
        (void)snprintf(text, sizeof text, "%d,", (int)((const int32_t *)a->buffers[1])[i]);
        say(out, text);
    } else if (f->kind == FBY_KIND_BOOL) {
        say(out, ((const uint8_t *)a->buffers[1])[i / 8] >> (i % 8) & 1 ? "t," : "f,");
    } else {
        const int64_t *offsets = a->buffers[1];
        (void)snprintf(text, sizeof text, "'%.*s'", (int)(offsets[i + 1] - offsets[i]), (const char *)a->buffers[2] + offsets[i]);
        say(out, text);
    }
}

static int64_t count_nulls(const struct ArrowArray *a)
{
    const uint8_t *valid = a->buffers[0];
    int64_t n = 0;
    for (int64_t i = 0; valid && i < a->length; i++)
        n += !(valid[i / 8] >> (i % 8) & 1);
    return n;
}

static void check_null_counts(const struct ArrowArray *a)
{
    assert_int_equal(a->null_count, count_nulls(a));
    for (int64_t c = 0; c < a->n_children; c++)
        check_null_counts(a->children[c]);
}

static void random_model(model *m, uint64_t seed, uint64_t rows, fby__buf *row_ends)
{
    *m = (model){.rng = {.key = seed}};
    m->elements[0] = (fby__schema_element){.name = "", .n_children = 1, .field = {.kind = FBY_KIND_STRUCT}};
    m->n_elements = 1;
    grow(m, "field", 4, 0, 0, false);
    for (uint64_t r = 0; r < rows; r++) {
        shred(m, 1, 0, 0);
        put(row_ends, &m->text.n, sizeof m->text.n);
    }
    for (size_t i = 1; i < m->n_elements; i++)
        if (m->elements[i].n_children == 0)
            make_pages(&m->columns[m->first_leaf[i]], m->elements[i].max_rep, m->elements[i].max_def,
                       m->elements[i].physical == FBY__PQ_BOOLEAN, &m->rng, below(m, 2) ? 20 : 1000);
}

static void model_fini(model *m)
{
    for (uint32_t i = 0; i < MAX_LEAVES; i++)
        column_fini(&m->columns[i]);
    fby__buf_fini(&m->text);
}

static void any_nesting_reads_as_it_was_written(void **state)
{
    (void)state;
    const uint64_t seed = test_seed();
    fby__scratch scratch = {0};
    static model m;
    uint64_t values = 0;
    for (uint64_t round = 0; round < 400; round++) {
        fby__buf row_ends = {0}, text = {0};
        uint64_t rows = 1 + fby__random_u64(seed, round, 1) % 300;
        random_model(&m, seed + round, rows, &row_ends);
        fby__pq_table *table = make_table(m.elements, m.n_elements, rows, m.columns);
        for (unsigned cut = 0; cut < 3; cut++) {
            uint64_t begin = cut ? below(&m, rows) : 0, end = cut ? begin + below(&m, rows - begin + 1) : rows;
            struct ArrowArray array;
            fby_error err;
            if (decode(table, m.columns, 0, begin, end, &scratch, &array, &err) != FBY_OK)
                fail_msg("round %llu: %s", (unsigned long long)round, err.message);
            check_null_counts(&array);
            text.n = 0;
            for (uint64_t r = begin; r < end; r++)
                render(&table->base.schema->fields[1], &array, (int64_t)(r - begin), &text);
            const size_t *ends = (const size_t *)(const void *)row_ends.data;
            size_t from = begin ? ends[begin - 1] : 0, to = end ? ends[end - 1] : 0;
            assert_int_equal(array.length, end - begin);
            if (end > begin) {
                assert_int_equal(text.n, to - from);
                assert_memory_equal(text.data, m.text.data + from, text.n);
            }
            array.release(&array);
        }
        for (uint32_t i = 0; i < m.leaves; i++)
            values += m.columns[i].def.n;
        fby__table_unref(&table->base);
        fby__buf_fini(&row_ends);
        fby__buf_fini(&text);
        model_fini(&m);
    }
    print_message("%llu levels compared\n", (unsigned long long)values);
    fby__scratch_fini(&scratch);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    static model m;
    fby__buf row_ends = {0};
    random_model(&m, 7, 200, &row_ends);
    fby__pq_table *table = make_table(m.elements, m.n_elements, 200, m.columns);
    unsigned failed = 0;
    uint64_t total = 0;
    for (uint64_t at = 0; at <= total; at++) { /* the first round fails nothing and counts */
        fby__scratch scratch = {0};
        struct ArrowArray array;
        fby_error err;
        uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        fby_status status = decode(table, m.columns, 0, 0, 200, &scratch, &array, &err);
        fby__alloc_fail_at(0);
        fby__scratch_fini(&scratch);
        if (at == 0)
            total = fby__alloc_count() - before;
        if (status == FBY_OK) { /* also when a buffer could not be cut to its length: no harm */
            array.release(&array);
            continue;
        }
        assert_int_equal(status, FBY_E_NOMEM);
        failed++;
    }
    print_message("%u of %u allocations failed the call\n", failed, (unsigned)total);
    assert_true(failed * 2 > total);
    fby__table_unref(&table->base);
    fby__buf_fini(&row_ends);
    model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_nesting_reads_as_it_was_written),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
