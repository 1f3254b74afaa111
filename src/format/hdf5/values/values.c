/*
 * Reading rows of one data set into its targets.
 *
 * Chunks are gone through in the order of the file; of each, the runs of rows that were asked for go to the targets. A chunk that
 * lies wholly inside the rows, has the panel's own layout and type, and is nobody else's, is decoded straight into the panel.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/cancel.h"
#include "base/checked.h"

#include <inttypes.h>

fby_status fby__h5_rows_fail(const fby__h5_rows *r, fby_status status, fby_error *err)
{
    fby__h5_context(err, r->job->file_name, r->set);
    return status;
}

fby_status fby__h5_value_fail(const fby__h5_rows *r, const fby__h5_target *t, uint64_t row, const fby__h5_bad *bad, fby_error *err)
{
    if (bad->missing)
        (void)fby__fail(err, FBY_E_DATA, "column '%s': row %" PRIu64 " is missing: give a fill value for the column", t->path, row);
    else
        (void)fby__fail(err, FBY_E_DATA, "column '%s': the value %s in row %" PRIu64 " does not fit %s: %s", t->path, bad->text, row,
                        fby_dtype_name(t->value.dst), fby__value_advice(bad->text, t->value.dst));
    return fby__h5_rows_fail(r, FBY_E_DATA, err);
}

fby_status fby__h5_rows_open(fby__h5_rows *r, const fby__h5_job *job, const fby__leaf_source *source, fby_error *err)
{
    const fby__h5_set *set = &job->table->sets[job->table->leaves[source->leaf].set];
    *r = (fby__h5_rows){.job = job, .set = set, .source = source};
    fby_status status = fby__h5_geometry_open(set, &r->g, err);
    return status == FBY_OK ? FBY_OK : fby__h5_rows_fail(r, status, err);
}

size_t fby__h5_rows_room(const fby__h5_rows *r)
{
    return r->set->way == FBY__H5_DIRECT && r->set->layout == FBY__H5_CHUNKED && r->set->n_chunks && r->set->n_filters ? r->g.chunk_bytes
                                                                                                                       : 0;
}

/* ---- parts of a set ---- */

/* A box of what the walk is at: n indices at `at` along the row axes. */
static void box_of(const fby__h5_rows *r, const fby__h5_section *section, const fby__h5_walk *w, const fby__h5_span *span, fby__h5_box *box)
{
    const fby__h5_geometry *g = &r->g;
    const bool stored = section->data != NULL;
    *box = (fby__h5_box){.src = stored ? section->data : r->job->state->fill.data,
                         .index = span->index,
                         .n = span->n,
                         .row_stride = stored ? g->stride[g->row_end - 1] : 0};
    for (uint32_t a = 0; a < g->rank; a++) {
        const uint64_t begin = a == 0 ? section->first : w->at[a] * g->chunk[a];
        if (a >= g->row_first && a < g->row_end) {
            box->src += stored ? (size_t)(span->at[a] - begin) * g->stride[a] : 0;
            continue;
        }
        box->first += w->at[a] * g->chunk[a] * g->step[a];
        box->axes[box->n_axes].n = fby__h5_walk_extent(w, a);
        box->axes[box->n_axes].step = g->step[a];
        box->axes[box->n_axes++].stride = stored ? g->stride[a] : 0;
    }
}

static fby_status put(fby__h5_rows *r, const fby__h5_box *box, fby_error *err)
{
    for (uint32_t i = 0; i < r->n_targets; i++)
        FBY__TRY(fby__h5_box_put(r, &r->targets[i], box, err));
    return FBY_OK;
}

/* The element that stands where none is stored. */
static fby_status need_fill(const fby__h5_rows *r, fby_error *err)
{
    const fby__h5_set *set = r->set;
    if (set->fill.n && set->fill.n != set->type->bytes)
        return fby__h5_rows_fail(
            r, fby__fail(err, FBY_E_FORMAT, "a fill value of %zu bytes for elements of %u", set->fill.n, set->type->bytes), err);
    FBY__TRY(fby__h5_need(&r->job->state->fill, set->type->bytes, err));
    if (set->fill.n)
        memcpy(r->job->state->fill.data, set->fill.data, set->fill.n);
    else
        memset(r->job->state->fill.data, 0, set->type->bytes);
    return FBY_OK;
}

/* ---- chunks ---- */

/* Where a chunk's rows begin in the panel, when it can be decoded there. */
static uint8_t *direct_row(const fby__h5_rows *r, const fby__h5_walk *w)
{
    const fby__h5_geometry *g = &r->g;
    const fby__h5_target *t = r->targets;
    if (r->n_targets != 1 || !g->whole_rows || r->set->repeat != 1 || !t->value.copy || t->value.offset != 0 ||
        t->value.src_bytes * t->value.leaf->elements != r->set->type->bytes || t->row_bytes != g->stride[0])
        return NULL;
    const uint64_t row = w->at[0] * g->chunk[0];
    return row >= r->begin && row <= r->end && g->chunk[0] <= r->end - row ? fby__h5_target_row(r, t, row) : NULL;
}

static fby_status read_chunks(fby__h5_rows *r, uint64_t index_begin, uint64_t index_end, fby_error *err)
{
    const fby__h5_geometry *g = &r->g;
    fby__h5_walk w;
    fby__h5_walk_begin(&w, g, index_begin, index_end);
    while (fby__h5_walk_next(&w)) {
        FBY__TRY(fby__cancel_check(err));
        uint8_t *direct = direct_row(r, &w);
        fby__h5_section section;
        FBY__TRY(fby__h5_chunk_get(r, &w, direct, &section, err));
        if (direct && section.data == direct)
            continue;
        if (!section.data)
            FBY__TRY(need_fill(r, err));
        for (fby__h5_span span = {0}; fby__h5_span_next(&w, &span);) {
            fby__h5_box box;
            if (g->row_first == 0) { /* a part of a chunk holds what was located */
                const uint64_t last = span.at[0] + (g->row_end == 1 ? span.n : 1);
                if (span.at[0] < section.first || last - section.first > section.n)
                    return fby__h5_rows_fail(r, fby__fail(err, FBY_E_INTERNAL, "rows that were not located"), err);
            }
            box_of(r, &section, &w, &span, &box);
            FBY__TRY(put(r, &box, err));
        }
    }
    return FBY_OK;
}

/* ---- contiguous and compact ---- */

static fby_status not_located(const fby__h5_rows *r, fby_error *err)
{
    return fby__h5_rows_fail(r, fby__fail(err, FBY_E_INTERNAL, "rows that were not located"), err);
}

/* Rows are not the first axis, and each outer index has a range of its own; n of them are read as one box of columns. */
static fby_status read_outer(fby__h5_rows *r, uint64_t begin, uint64_t end, fby_error *err)
{
    const fby__h5_geometry *g = &r->g;
    const bool last_axis = g->rank == 2;
    if (r->source->n_chunks != g->dims[0])
        return not_located(r, err);
    const uint8_t *cols[FBY__H5_COLUMNS];
    for (uint64_t outer = 0, n = 0; outer < g->dims[0]; outer++) {
        const fby__range *range = &r->source->chunks[outer];
        const uint64_t held = (range->offset - r->set->data_offset) / g->stride[1]; /* the first row there, all outer indices counted */
        if (!range->data || held < outer * g->dims[1] || held - outer * g->dims[1] > begin ||
            range->n / g->stride[1] < end - (held - outer * g->dims[1]))
            return not_located(r, err);
        const uint8_t *src = range->data + (size_t)(begin - (held - outer * g->dims[1])) * g->stride[1];
        if (!last_axis) {
            fby__h5_box box = {
                .src = src, .index = begin, .n = end - begin, .row_stride = g->stride[1], .first = outer * g->step[0], .n_axes = 1};
            box.axes[0].n = g->dims[2];
            box.axes[0].step = g->step[2];
            box.axes[0].stride = g->stride[2];
            FBY__TRY(put(r, &box, err));
            continue;
        }
        cols[n++] = src;
        if (n < FBY__H5_COLUMNS && outer + 1 < g->dims[0])
            continue;
        for (uint32_t i = 0; i < r->n_targets; i++) {
            fby__h5_target *t = &r->targets[i];
            const fby__h5_value *v = &t->value;
            for (uint32_t e = 0; e < v->leaf->elements; e++) {
                const uint8_t *at[FBY__H5_COLUMNS];
                for (uint64_t c = 0; c < n; c++)
                    at[c] = cols[c] + v->offset + fby__h5_leaf_at(v->leaf, v->src_bytes, e);
                if (v->leaf->elements == 1) {
                    FBY__TRY(fby__h5_columns_put(r, t, at, (size_t)n, g->stride[1], begin, end - begin, outer + 1 - n, err));
                    break;
                }
                for (uint64_t c = 0; c < n; c++)
                    FBY__TRY(fby__h5_columns_put(r, t, &at[c], 1, g->stride[1], begin, end - begin,
                                                 (outer + 1 - n + c) * v->leaf->elements + e, err));
            }
        }
        n = 0;
    }
    return FBY_OK;
}

/* Where index `begin` lies in what was located or is in the metadata. NULL data: never written. */
static fby_status find_flat(const fby__h5_rows *r, uint64_t begin, uint64_t end, fby__h5_section *out, fby_error *err)
{
    const fby__h5_set *set = r->set;
    const fby__h5_geometry *g = &r->g;
    *out = (fby__h5_section){NULL, 0, g->dims[0]};
    if (set->layout == FBY__H5_COMPACT && set->compact.n == 0)
        return FBY_OK;
    if (set->layout == FBY__H5_COMPACT) {
        if (set->compact.n < g->chunk_bytes)
            return fby__h5_rows_fail(
                r, fby__fail(err, FBY_E_FORMAT, "%zu bytes are stored where %zu are needed", set->compact.n, g->chunk_bytes), err);
        out->data = set->compact.data;
        return FBY_OK;
    }
    if (set->data_offset == FBY__H5_UNDEFINED)
        return FBY_OK;
    const fby__range *range = &r->source->range[1];
    const uint64_t skipped = range->offset - set->data_offset; /* bytes of the data set before the range */
    if (g->row_first > 0) { /* one range over all outer indices: from the first row of the first to the last row of the last */
        const uint64_t first = skipped / g->stride[1], need = ((g->dims[0] - 1) * g->dims[1] + end - first) * g->stride[1];
        if (!range->data || first > begin || range->n < need)
            return not_located(r, err);
        out->data = range->data;
        out->first = first; /* along axis 1: see the caller */
        return FBY_OK;
    }
    const uint64_t first = skipped / g->stride[0];
    if (!range->data || first > begin || range->n / g->stride[0] < end - first)
        return not_located(r, err);
    *out = (fby__h5_section){range->data, first, range->n / g->stride[0]};
    return FBY_OK;
}

static fby_status read_flat(fby__h5_rows *r, uint64_t begin, uint64_t end, fby_error *err)
{
    const fby__h5_geometry *g = &r->g;
    if (r->set->layout == FBY__H5_CONTIGUOUS && r->source->n_chunks)
        return read_outer(r, begin, end, err);
    fby__h5_section section;
    FBY__TRY(find_flat(r, begin, end, &section, err));
    if (!section.data)
        FBY__TRY(need_fill(r, err));
    fby__h5_span span = {.index = begin, .n = end - begin};
    span.at[g->row_first] = begin;
    if (g->row_first > 0) { /* the range begins with row section.first of the first outer index */
        span.at[g->row_first] -= section.first;
        section.first = 0;
    }
    fby__h5_walk w; /* at the one chunk that it is */
    fby__h5_box box;
    fby__h5_walk_begin(&w, g, begin, end);
    box_of(r, &section, &w, &span, &box);
    return put(r, &box, err);
}

/* ---- rows ---- */

fby_status fby__h5_rows_read(fby__h5_rows *r, uint64_t begin, uint64_t end, fby_error *err)
{
    if (begin >= end || r->set->row_elements == 0)
        return FBY_OK;
    if (end > r->g.indices * r->set->repeat)
        return fby__h5_rows_fail(r, fby__fail(err, FBY_E_INTERNAL, "row %" PRIu64 " of %" PRIu64, end, r->g.indices * r->set->repeat), err);
    r->begin = begin;
    r->end = end;
    r->next_range = 0;
    for (uint32_t i = 0; i < r->n_targets; i++) {
        fby__h5_target *t = &r->targets[i];
        for (uint64_t row = begin - r->row0; t->valid && row < end - r->row0; row++)
            t->valid[row * t->valid_step] = 1;
        if (t->present)
            memset(t->present + (begin - r->row0) * t->width, 1, (size_t)(end - begin) * t->width);
    }
    uint64_t index_begin, index_end;
    fby__h5_indices(r->set, begin, end, &index_begin, &index_end);
    if (r->set->way == FBY__H5_HELPER)
        FBY__TRY(fby__h5_helper_rows(r, err));
    else if (r->set->layout == FBY__H5_CHUNKED)
        FBY__TRY(read_chunks(r, index_begin, index_end, err));
    else
        FBY__TRY(read_flat(r, index_begin, index_end, err));
    for (uint32_t i = 0; r->set->repeat > 1 && i < r->n_targets; i++)
        fby__h5_spread(r, &r->targets[i]);
    return FBY_OK;
}
