/*
 * HDF5 → Arrow: rows of one top-level field as an ArrowArray.
 *
 * Every level above a leaf is a fixed-size list or a struct, so a leaf's values are a dense run: rows × values a row. They are
 * read as into a panel of the leaf's dtype, all numbers of a data set at once; strings and lists one leaf after the other. What is below a
 * list of anything but numbers comes with it (nested.c).
 * Then the arrays are put together from the top. Missing values are null slots, whose bytes are zero.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

#include <inttypes.h>

/* What a leaf's values became. */
typedef struct column {
    const fby__h5_leaf *leaf;
    const char *path;
    uint64_t n;                /* values */
    size_t bytes;              /* of values; unused for strings and lists */
    uint8_t *values;           /* owned; numbers, fixed binaries */
    uint8_t *present;          /* owned; a flag a value; NULL: all are there */
    int64_t *offsets;          /* owned; strings and lists of numbers: n + 1 */
    uint64_t next;             /* how many of those are set */
    fby__buf content;          /* owned; what they point into */
    fby__buf elements_present; /* owned; lists: a flag an element */
    uint64_t n_elements;       /* lists */
    fby__h5_nest *nest;        /* owned; lists of anything but numbers */
} column;

typedef struct sink {
    const fby__arrow_request *q;
    fby__h5_job job;
    column *columns; /* of the field's leaves */
    uint32_t first_leaf, n_leaves;
    column *now; /* being read, with rows and target */
    fby__h5_rows *rows;
    fby__h5_target *target;
} sink;

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "an Arrow column"); }

/* ---- numbers and fixed binaries ---- */

static fby_status open_column(sink *s, uint32_t i, const fby__h5_rows *r, fby__h5_target *t, fby_error *err)
{
    column *c = &s->columns[i];
    const bool number = c->leaf->value == FBY__H5_VALUE_NUMBER;
    *t = (fby__h5_target){.path = c->path};
    if (number)
        fby__h5_value_open(&t->value, c->leaf, c->leaf->dtype);
    else
        fby__h5_value_open_raw(&t->value, s->job.table, c->leaf);
    size_t width, n;
    if (!fby__mul_checked((size_t)r->set->row_elements, c->leaf->elements, &width) ||
        !fby__mul_checked(width, t->value.dst_bytes, &t->row_bytes) ||
        !fby__mul_checked(t->row_bytes, (size_t)(s->q->row_end - s->q->row_begin), &c->bytes) || c->bytes > SIZE_MAX / 2)
        return no_memory(err);
    t->width = width;
    n = width * (size_t)(s->q->row_end - s->q->row_begin);
    c->n = n;
    if (!(t->data = c->values = fby__malloc(c->bytes)))
        return no_memory(err);
    if (fby__h5_leaf_can_miss(c->leaf) && !(t->present = c->present = fby__malloc(n)))
        return no_memory(err);
    return FBY_OK;
}

static bool is_flat(const fby__h5_leaf *leaf) { return leaf->value == FBY__H5_VALUE_NUMBER || leaf->value == FBY__H5_VALUE_OPAQUE; }

/* All numbers and fixed binaries of the data set of leaf `first`: together they are one reading. */
static fby_status read_flat(sink *s, uint32_t first, fby_error *err)
{
    fby__h5_rows r;
    uint32_t n = 0;
    FBY__TRY(fby__h5_rows_open(&r, &s->job, &s->q->sources[first], err));
    fby__h5_target *targets = fby__malloc((s->n_leaves - first) * sizeof *targets);
    if (!targets)
        return no_memory(err);
    fby_status status = FBY_OK;
    for (uint32_t i = first; i < s->n_leaves && status == FBY_OK; i++)
        if (s->columns[i].leaf->set == s->columns[first].leaf->set && is_flat(s->columns[i].leaf))
            status = open_column(s, i, &r, &targets[n++], err);
    r.targets = targets;
    r.n_targets = n;
    r.row0 = s->job.first_row + s->q->row_begin;
    if (status == FBY_OK)
        status = fby__h5_rows_read(&r, r.row0, s->job.first_row + s->q->row_end, err);
    fby__free(targets);
    return status;
}

/* ---- strings and lists ---- */

static fby_status put_bytes(void *user, fby__bytes text, bool same, fby_error *err)
{
    sink *s = user;
    column *c = s->now;
    size_t n = text.n, from = c->content.n;
    if (same) {
        from = (size_t)c->offsets[c->next - 1];
        n = c->content.n - from;
    }
    if (n > SIZE_MAX / 2 - c->content.n || fby__grow((void **)&c->content.data, &c->content.cap, c->content.n + n, 1) != 0)
        return no_memory(err);
    if (n)
        memcpy(c->content.data + c->content.n, same ? c->content.data + from : text.data, n);
    c->content.n += n;
    c->offsets[++c->next] = (int64_t)c->content.n;
    return FBY_OK;
}

static fby_status put_list(void *user, const uint8_t *raw, uint64_t row, bool same, fby_error *err)
{
    sink *s = user;
    column *c = s->now;
    const fby__h5_value *v = &s->target->value;
    fby__bytes list;
    uint64_t n;
    size_t bytes;
    (void)same;
    fby_status status = fby__h5_vlen_of(s->rows, raw, c->leaf->type->bytes, &list, &n, err);
    if (status != FBY_OK) {
        fby__error_context(err, "row %" PRIu64, row);
        return fby__h5_rows_fail(s->rows, status, err);
    }
    if (n > 0) {
        if (!fby__mul_checked((size_t)n, v->dst_bytes, &bytes) || !fby__add_checked(bytes, c->content.n, &bytes) ||
            fby__grow((void **)&c->content.data, &c->content.cap, bytes, 1) != 0)
            return no_memory(err);
        uint8_t *flags = NULL;
        if (fby__h5_leaf_can_miss(c->leaf)) {
            fby__buf *present = &c->elements_present;
            if (fby__grow((void **)&present->data, &present->cap, present->n + n, 1) != 0)
                return no_memory(err);
            flags = present->data + present->n;
            present->n += n;
        }
        fby__h5_bad bad;
        status = fby__h5_value_convert(v, list.data, v->src_bytes, (size_t)n, c->content.data + c->content.n, flags, &bad);
        if (status != FBY_OK)
            return fby__h5_value_fail(s->rows, s->target, row, &bad, err);
        c->content.n = bytes;
        c->n_elements += n;
    }
    c->offsets[++c->next] = (int64_t)c->n_elements;
    return FBY_OK;
}

static fby_status put_nested(void *user, const uint8_t *raw, uint64_t row, bool same, fby_error *err)
{
    sink *s = user;
    (void)same;
    fby_status status = fby__h5_nest_put(s->now->nest, raw, err);
    if (status == FBY_OK)
        return FBY_OK;
    fby__error_context(err, "row %" PRIu64, row);
    return fby__h5_rows_fail(s->rows, status, err);
}

static fby_status read_variable(sink *s, uint32_t i, fby_error *err)
{
    column *c = &s->columns[i];
    const uint64_t begin = s->job.first_row + s->q->row_begin, end = s->job.first_row + s->q->row_end;
    fby__h5_rows r;
    fby__h5_target t = {.path = c->path};
    FBY__TRY(fby__h5_rows_open(&r, &s->job, &s->q->sources[i], err));
    if (!fby__mul_u64_checked(r.set->row_elements * c->leaf->elements, end - begin, &c->n) || c->n >= SIZE_MAX / 16)
        return no_memory(err);
    s->now = c;
    s->rows = &r;
    s->target = &t;
    if (c->leaf->value == FBY__H5_VALUE_NESTED) {
        FBY__TRY(fby__h5_nest_create(&r, s->first_leaf + i, &c->nest, err));
        return fby__h5_each_raw(&r, c->leaf, begin, end, put_nested, s, err);
    }
    if (!(c->offsets = fby__malloc((size_t)(c->n + 1) * sizeof *c->offsets)))
        return no_memory(err);
    c->offsets[0] = 0;
    if (c->leaf->value != FBY__H5_VALUE_VLEN_LIST)
        return fby__h5_each_bytes(&r, c->leaf, begin, end, put_bytes, s, err);
    fby__h5_value_open(&t.value, c->leaf, c->leaf->dtype);
    return fby__h5_each_raw(&r, c->leaf, begin, end, put_list, s, err);
}

/* ---- arrays ---- */

/* n flags → a bitmap at buffer 0, and the count of nulls; none when all are there. */
static fby_status set_validity(struct ArrowArray *array, const uint8_t *flags, size_t n, fby_error *err)
{
    if (!flags || !n || !memchr(flags, 0, n))
        return FBY_OK;
    uint8_t *bits = fby__calloc(n / 8 + 1, 1);
    if (!bits)
        return no_memory(err);
    int64_t present = 0;
    for (size_t i = 0; i < n; i++) {
        bits[i / 8] |= (uint8_t)(flags[i] << (i % 8));
        present += flags[i];
    }
    fby__arrow_array_set_buffer(array, 0, bits);
    array->null_count = (int64_t)n - present;
    return FBY_OK;
}

/* Bools are bits. Takes *values over. */
static fby_status pack_bits(uint8_t **values, size_t n, fby_error *err)
{
    uint8_t *bits = fby__calloc(n / 8 + 1, 1);
    if (!bits)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        bits[i / 8] |= (uint8_t)(((*values)[i] != 0) << (i % 8));
    fby__free(*values);
    *values = bits;
    return FBY_OK;
}

fby_status fby__h5_arrow_flat(uint64_t n, bool bits, uint8_t **values, const uint8_t *flags, struct ArrowArray *out, fby_error *err)
{
    FBY__TRY(fby__arrow_array_create(2, 0, out, err));
    fby_status status = bits ? pack_bits(values, (size_t)n, err) : FBY_OK;
    if (status == FBY_OK)
        status = set_validity(out, flags, (size_t)n, err);
    if (status != FBY_OK) {
        out->release(out);
        return status;
    }
    out->length = (int64_t)n;
    fby__arrow_array_set_buffer(out, 1, *values);
    *values = NULL;
    return FBY_OK;
}

/* Bytes that are never NULL, for a consumer that wants a buffer where there is nothing in it. */
static fby_status need_content(column *c, fby_error *err)
{
    return c->content.data || fby__grow((void **)&c->content.data, &c->content.cap, 1, 1) == 0 ? FBY_OK : no_memory(err);
}

fby_status fby__h5_arrow_bytes(uint64_t n, uint8_t **offsets, uint8_t **content, struct ArrowArray *out, fby_error *err)
{
    FBY__TRY(fby__arrow_array_create(3, 0, out, err));
    out->length = (int64_t)n;
    fby__arrow_array_set_buffer(out, 1, *offsets);
    fby__arrow_array_set_buffer(out, 2, *content);
    *offsets = *content = NULL;
    return FBY_OK;
}

static fby_status make_strings(column *c, struct ArrowArray *out, fby_error *err)
{
    FBY__TRY(need_content(c, err));
    uint8_t *offsets = (uint8_t *)c->offsets;
    fby_status status = fby__h5_arrow_bytes(c->n, &offsets, &c->content.data, out, err);
    c->offsets = status == FBY_OK ? NULL : c->offsets;
    return status;
}

static fby_status make_list(column *c, struct ArrowArray *out, fby_error *err)
{
    FBY__TRY(need_content(c, err));
    FBY__TRY(fby__arrow_array_create(2, 1, out, err));
    fby_status status =
        fby__h5_arrow_flat(c->n_elements, c->leaf->dtype == FBY_BOOL, &c->content.data, c->elements_present.data, out->children[0], err);
    if (status != FBY_OK) {
        out->release(out);
        return status;
    }
    out->length = (int64_t)c->n;
    fby__arrow_array_set_buffer(out, 1, c->offsets);
    c->offsets = NULL;
    return FBY_OK;
}

/* n slots of a field. On failure *out is not there. */
static fby_status build(sink *s, const fby_field *field, uint64_t n, struct ArrowArray *out, fby_error *err)
{
    const fby__schema *schema = s->q->table->schema;
    const fby__schema_node *node = &schema->nodes[field - schema->fields];
    if (field->kind == FBY_KIND_FIXED_LIST || field->kind == FBY_KIND_STRUCT) {
        uint64_t below = n;
        if (field->kind == FBY_KIND_FIXED_LIST && !fby__mul_u64_checked(n, (uint64_t)field->list_size, &below))
            return no_memory(err);
        FBY__TRY(fby__arrow_array_create(1, field->n_children, out, err));
        out->length = (int64_t)n;
        for (uint32_t i = 0; i < field->n_children; i++) {
            fby_status status = build(s, &field->children[i], below, out->children[i], err);
            if (status != FBY_OK) {
                out->release(out);
                return status;
            }
        }
        return FBY_OK;
    }
    column *c = &s->columns[node->first_leaf - s->first_leaf];
    if (c->n != n)
        return fby__fail(err, FBY_E_INTERNAL, "column '%s' has %" PRIu64 " values, not %" PRIu64, field->path, c->n, n);
    if (c->leaf->value == FBY__H5_VALUE_NESTED)
        return fby__h5_nest_finish(c->nest, out, err);
    if (is_flat(c->leaf))
        return fby__h5_arrow_flat(c->n, c->leaf->dtype == FBY_BOOL, &c->values, c->present, out, err);
    return c->leaf->value == FBY__H5_VALUE_VLEN_LIST ? make_list(c, out, err) : make_strings(c, out, err);
}

/* ---- the field ---- */

static fby_status read_leaves(sink *s, fby_error *err)
{
    const fby__schema *schema = s->q->table->schema;
    for (uint32_t i = 0; i < s->n_leaves; i++) {
        s->columns[i].leaf = &s->job.table->leaves[s->first_leaf + i];
        s->columns[i].path = schema->fields[schema->leaves[s->first_leaf + i].field].path;
    }
    for (uint32_t i = 0; i < s->n_leaves; i++) {
        if (s->columns[i].leaf->value == FBY__H5_VALUE_NESTED && !fby__h5_nest_begins(s->job.table, s->first_leaf + i))
            continue; /* read with the first leaf of its list */
        if (!is_flat(s->columns[i].leaf))
            FBY__TRY(read_variable(s, i, err));
        else if (!s->columns[i].values)
            FBY__TRY(read_flat(s, i, err));
    }
    return FBY_OK;
}

fby_status fby__h5_decode_arrow(const fby__arrow_request *q, fby__scratch *scratch, struct ArrowArray *out, fby_error *err)
{
    const fby__schema *schema = q->table->schema;
    const fby__schema_node *node = &schema->nodes[q->field];
    sink s = {.q = q,
              .job = {.table = fby__h5_table_of(q->table),
                      .file = q->file,
                      .file_name = q->file_name,
                      .first_row = q->table->groups[q->group].first_row,
                      .verify = q->verify_crc,
                      .scratch = scratch},
              .first_leaf = node->first_leaf,
              .n_leaves = node->n_leaves};
    FBY__TRY(fby__h5_state_of(scratch, &s.job.state, err));
    if (!(s.columns = fby__calloc(node->n_leaves, sizeof *s.columns)))
        return no_memory(err);
    fby_status status = read_leaves(&s, err);
    if (status == FBY_OK)
        status = build(&s, &schema->fields[q->field], q->row_end - q->row_begin, out, err);
    for (uint32_t i = 0; i < node->n_leaves; i++) {
        column *c = &s.columns[i];
        fby__free(c->values);
        fby__free(c->present);
        fby__free(c->offsets);
        fby__buf_fini(&c->content);
        fby__buf_fini(&c->elements_present);
        fby__h5_nest_free(c->nest);
    }
    fby__free(s.columns);
    return status;
}
