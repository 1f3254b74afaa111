/*
 * Parquet column chunks to Arrow arrays. Pages are made here, from a model that writes down each row as text while it
 * shreds it into levels; the arrays that come back are written down too, and must read the same. Then single types at
 * their limits, levels that make no tree, and every allocation failing in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "format/parquet_builder.h"
#include "support/test_seed.h"

enum { MAX_LEAVES = 48, MAX_NODES = 160 };

/* ---- a chunk made of levels and plain values ---- */

typedef struct column {
    fby__buf rep, def;   /* one byte a level */
    fby__buf values;     /* plain, without booleans */
    fby__buf bools;      /* BOOLEAN: one byte a value */
    fby__buf value_ends; /* uint32: end of each value in `values` */
    fby__buf pages;
} column;

static void put(fby__buf *b, const void *p, size_t n)
{
    if (fby__buf_put(b, p, n) != 0)
        abort();
}

static void put_level(column *c, unsigned rep, unsigned def)
{
    uint8_t r = (uint8_t)rep, d = (uint8_t)def;
    put(&c->rep, &r, 1);
    put(&c->def, &d, 1);
}

static void put_value(column *c, const void *p, size_t n)
{
    put(&c->values, p, n);
    uint32_t end = (uint32_t)c->values.n;
    put(&c->value_ends, &end, sizeof end);
}

static void column_fini(column *c)
{
    fby__buf_fini(&c->rep);
    fby__buf_fini(&c->def);
    fby__buf_fini(&c->values);
    fby__buf_fini(&c->bools);
    fby__buf_fini(&c->value_ends);
    fby__buf_fini(&c->pages);
}

/* Levels as RLE runs behind their length, as v1 pages have them. */
static void put_levels(fby__buf *out, const uint8_t *levels, size_t n, unsigned max)
{
    if (max == 0)
        return;
    writer w = {0};
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && levels[j] == levels[i];)
            j++;
        w_varint(&w, (uint64_t)(j - i) << 1);
        w_byte(&w, levels[i]);
    }
    uint32_t bytes = (uint32_t)w.b.n;
    put(out, &bytes, sizeof bytes);
    put(out, w.b.data, w.b.n);
    fby__buf_fini(&w.b);
}

/* All levels of a column as v1 pages of random lengths up to page_levels. */
static void make_pages(column *c, unsigned max_rep, unsigned max_def, bool is_bool, fby__random *rng, uint64_t page_levels)
{
    size_t value = 0;
    for (size_t i = 0, n; i < c->def.n; i += n) {
        n = (size_t)fby__random_below(rng, page_levels) + 1;
        n = n < c->def.n - i ? n : c->def.n - i;
        fby__buf body = {0};
        put_levels(&body, c->rep.data + i, n, max_rep);
        put_levels(&body, c->def.data + i, n, max_def);
        size_t present = 0;
        for (size_t k = 0; k < n; k++)
            present += c->def.data[i + k] == max_def;
        if (is_bool) {
            for (size_t k = 0; k < present; k += 8) {
                uint8_t byte = 0;
                for (size_t bit = 0; bit < 8 && k + bit < present; bit++)
                    byte |= (uint8_t)(c->bools.data[value + k + bit] << bit);
                put(&body, &byte, 1);
            }
        } else if (present) {
            const uint8_t *ends = c->value_ends.data;
            size_t begin = value ? fby__load_u32(ends + 4 * (value - 1)) : 0, end = fby__load_u32(ends + 4 * (value + present - 1));
            put(&body, c->values.data + begin, end - begin);
        }
        value += present;
        writer w = {0};
        w_page_v1(&w, (int32_t)n, (int32_t)body.n);
        put(&c->pages, w.b.data, w.b.n);
        put(&c->pages, body.data, body.n);
        fby__buf_fini(&w.b);
        fby__buf_fini(&body);
    }
}

static fby__pq_table *make_table(const fby__schema_element *elements, size_t n, uint64_t rows, const column *columns)
{
    fby__schema *schema = NULL;
    fby__pq_table *table = NULL;
    fby_error err;
    if (fby__schema_create(elements, n, &schema, &err) != FBY_OK ||
        fby__pq_table_create(schema, 1, UINT64_C(1) << 40, &table, &err) != FBY_OK)
        fail_msg("%s", err.message);
    table->base.groups[0].rows = table->base.n_rows = rows;
    for (uint32_t i = 0; i < schema->n_leaves; i++)
        table->chunks[i] = (fby__pq_chunk){.data_offset = 4,
                                           .compressed_bytes = columns[i].pages.n,
                                           .uncompressed_bytes = columns[i].pages.n,
                                           .n_values = columns[i].def.n,
                                           .null_count = -1};
    fby__schema_unref(schema);
    return table;
}

/* Rows of the table's field f (by its place among the root's children). */
static fby_status decode(const fby__pq_table *table, const column *columns, uint32_t f, uint64_t begin, uint64_t end, fby__scratch *scratch,
                         struct ArrowArray *out, fby_error *err)
{
    const fby__schema *schema = table->base.schema;
    uint32_t field = (uint32_t)(&schema->fields[0].children[f] - schema->fields);
    fby__leaf_source sources[MAX_LEAVES] = {{0}};
    for (uint32_t i = 0; i < schema->nodes[field].n_leaves; i++) {
        sources[i].leaf = schema->nodes[field].first_leaf + i;
        const fby__buf *pages = &columns[sources[i].leaf].pages;
        sources[i].range[1].offset = 4;
        sources[i].range[1].n = pages->n;
        sources[i].range[1].data = pages->data;
    }
    return fby__pq_decode_arrow(&table->base, "model.parquet", 0, begin, end, field, false, sources, scratch, out, err);
}

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
        cmocka_unit_test(any_nesting_reads_as_it_was_written),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
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
