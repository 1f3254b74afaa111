/*
 * HDF5 → ragged and byte panels: variable-length lists of numbers, or of compounds one of whose numbers is wanted; strings of all kinds
 * and opaque values.
 *
 * How long they are is known only when they are read: what does not fit is counted, and the caller comes again with a larger panel.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

#include <inttypes.h>

typedef struct sink {
    const fby__decode *q;
    fby__h5_rows rows;
    const fby__h5_leaf *leaf;
    fby__h5_target target; /* lists: how elements are converted, */
    fby__h5_pick pick;     /* … and which of them */
    uint64_t n;            /* rows so far */
    fby__view last;
} sink;

/* Is there room for n more? */
static bool fits(const fby__panel *panel, uint64_t n) { return panel->used <= panel->capacity && n <= panel->capacity - panel->used; }

static fby_status sink_open(sink *s, const fby__decode *q, const fby__h5_job *job, fby_error *err)
{
    *s = (sink){.q = q, .leaf = &job->table->leaves[q->columns[0].source->leaf], .n = q->row_begin - q->panel_row};
    q->panel->used = 0;
    FBY__TRY(fby__h5_rows_open(&s->rows, job, q->columns[0].source, err));
    if (s->rows.set->row_elements == 1 && s->leaf->elements == 1)
        return FBY_OK;
    return fby__h5_rows_fail(&s->rows,
                             fby__fail(err, FBY_E_SCHEMA, "column '%s': a row has %" PRIu64 " values, not one",
                                       q->panel->layout->columns[0].path, s->rows.set->row_elements * s->leaf->elements),
                             err);
}

/* ---- lists ---- */

static fby_status put_list(void *user, const uint8_t *raw, uint64_t row, bool same, fby_error *err)
{
    sink *s = user;
    fby__panel *panel = s->q->panel;
    const fby__h5_value *v = &s->target.value;
    fby__bytes list;
    uint64_t n;
    (void)same;
    fby_status status = fby__h5_vlen_of(&s->rows, raw, s->pick.bytes, &list, &n, err);
    if (status != FBY_OK) {
        fby__error_context(err, "row %" PRIu64, row);
        return fby__h5_rows_fail(&s->rows, status, err);
    }
    panel->offsets[s->n] = panel->used;
    if (panel->valid)
        panel->valid[s->n] = 1;
    if (!fits(panel, n)) {
        panel->used += n;
        s->n++;
        return FBY_OK;
    }
    fby__h5_bad bad;
    uint8_t *flags = panel->element_valid ? panel->element_valid + panel->used : NULL;
    status = fby__h5_value_convert(v, n ? list.data + v->offset : NULL, s->pick.bytes, (size_t)n, panel->data + panel->used * v->dst_bytes,
                                   flags, &bad);
    if (status != FBY_OK)
        return fby__h5_value_fail(&s->rows, &s->target, row, &bad, err);
    panel->used += n;
    s->n++;
    return FBY_OK;
}

fby_status fby__h5_decode_ragged(const fby__decode *q, const fby__h5_job *job, fby_error *err)
{
    const fby__panel_column *column = &q->panel->layout->columns[0];
    sink s;
    FBY__TRY(sink_open(&s, q, job, err));
    if (s.leaf->value == FBY__H5_VALUE_NESTED) {
        fby_status status = fby__h5_pick_open(job->table, q->columns[0].source->leaf, &s.pick, err);
        if (status != FBY_OK)
            return fby__h5_rows_fail(&s.rows, status, err);
    } else if (s.leaf->value == FBY__H5_VALUE_VLEN_LIST) {
        s.pick = (fby__h5_pick){.leaf = *s.leaf, .bytes = s.leaf->type->bytes};
        s.pick.leaf.offset = 0; /* in the list's elements */
    } else {
        return fby__h5_rows_fail(&s.rows, fby__fail(err, FBY_E_SCHEMA, "column '%s' is not a list", column->path), err);
    }
    s.target.path = column->path;
    fby__h5_value_open(&s.target.value, &s.pick.leaf, q->panel->layout->dtype);
    s.target.value.missing = column->missing;
    s.target.value.fill = column->fill;
    FBY__TRY(fby__h5_each_raw(&s.rows, s.leaf, job->first_row + q->row_begin, job->first_row + q->row_end, put_list, &s, err));
    q->panel->offsets[s.n] = q->panel->used;
    return FBY_OK;
}

/* ---- bytes ---- */

static fby_status put_bytes(void *user, fby__bytes text, bool same, fby_error *err)
{
    (void)err;
    sink *s = user;
    fby__panel *panel = s->q->panel;
    if (!same) {
        if (text.n && fits(panel, text.n))
            memcpy(panel->data + panel->used, text.data, text.n);
        s->last = (fby__view){panel->used, text.n};
        panel->used += text.n;
    }
    panel->views[s->n] = s->last;
    if (panel->valid)
        panel->valid[s->n] = 1;
    s->n++;
    return FBY_OK;
}

fby_status fby__h5_decode_bytes(const fby__decode *q, const fby__h5_job *job, fby_error *err)
{
    sink s;
    FBY__TRY(sink_open(&s, q, job, err));
    if (!fby__h5_leaf_is_bytes(s.leaf))
        return fby__h5_rows_fail(
            &s.rows, fby__fail(err, FBY_E_SCHEMA, "column '%s' holds no strings or bytes", q->panel->layout->columns[0].path), err);
    return fby__h5_each_bytes(&s.rows, s.leaf, job->first_row + q->row_begin, job->first_row + q->row_end, put_bytes, &s, err);
}
