/*
 * Rows → byte ranges, from metadata alone.
 *
 *     chunked      a range for each stored chunk that holds some of the rows; of a chunk without filters, only the bytes of the rows.
 *                  A chunk that reaches beyond the rows is shared with the other blocks through the store.
 *     contiguous   range[1], the rows' bytes. Where rows are not the first axis: a range for each index before it, or one
 *                  range over all where the gaps between them are small
 *     compact, helper, never written: nothing
 *
 * Leaves of one data set (members of a compound) share its chunks.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

#include <inttypes.h>

#define GAP_BYTES 4096u /* a page of the cache: reading less saves nothing */

typedef struct locating {
    const fby__locate_request *q;
    const fby__h5_set *set;
    uint32_t set_index;
    fby__h5_geometry g;
    uint64_t row_begin, row_end; /* of the table */
    uint64_t index_begin, index_end;
    fby__leaf_source *source;
} locating;

/* A range that lies in the file. */
static fby_status add_range(locating *l, const fby__range *range, fby_error *err)
{
    const uint64_t file_bytes = fby__h5_table_of(l->q->table)->file_bytes;
    if (range->offset > file_bytes || range->n > file_bytes - range->offset)
        return fby__fail_at(err, FBY_E_FORMAT, range->offset, "%" PRIu64 " bytes at %" PRIu64 " go beyond the end of the file", range->n,
                            range->offset);
    FBY__TRY(fby__range_list_add(l->q->list, range, err));
    l->source->n_chunks++;
    return FBY_OK;
}

/* Does the chunk hold rows outside [row_begin, row_end)? */
static bool reaches_beyond(const locating *l, const fby__h5_walk *w)
{
    const fby__h5_geometry *g = &l->g;
    uint64_t first = 0, last = 0;
    for (uint32_t a = g->row_first; a < g->row_end; a++) {
        first += w->at[a] * g->chunk[a] * g->step[a];
        last += (w->at[a] * g->chunk[a] + fby__h5_extent(g, a, w->at[a]) - 1) * g->step[a];
    }
    return first * l->set->repeat < l->row_begin || (last + 1) * l->set->repeat > l->row_end;
}

/* Where a chunk is stored as it is in memory, only the part along axis 0 that holds the rows is read. */
static void cut_range(const locating *l, const fby__h5_walk *w, const fby__h5_chunk *chunk, fby__range *range)
{
    const fby__h5_geometry *g = &l->g;
    if (g->row_first > 0 || chunk->bytes != g->chunk_bytes)
        return;
    const uint64_t start = w->at[0] * g->chunk[0], first = l->index_begin / g->step[0], end = (l->index_end - 1) / g->step[0] + 1;
    const uint64_t from = fby__max_u64(start, first), to = fby__min_u64(start + fby__h5_extent(g, 0, w->at[0]), end);
    range->offset += (from - start) * g->stride[0];
    range->n = (to - from) * g->stride[0];
}

static fby_status locate_chunks(locating *l, fby_error *err)
{
    const fby__h5_set *set = l->set;
    uint64_t next = 0;
    fby__h5_walk w;
    fby__h5_walk_begin(&w, &l->g, l->index_begin, l->index_end);
    while (set->n_chunks && fby__h5_walk_next(&w)) {
        if (set->chunks[set->n_chunks - 1].number < w.number)
            break;
        for (uint64_t hi = set->n_chunks, first = next; next < hi;) { /* mostly the one after the last */
            const uint64_t middle = next == first ? next : next + (hi - next) / 2;
            if (set->chunks[middle].number < w.number)
                next = middle + 1;
            else
                hi = middle;
        }
        const fby__h5_chunk *chunk = &set->chunks[next];
        if (chunk->number != w.number) {
            fby__h5_walk_absent(&w, chunk->number);
            continue;
        }
        fby__range range = {.offset = chunk->offset, .n = chunk->bytes, .tag = next};
        if (fby__h5_chunk_plain(set, &l->g, &w, chunk->mask))
            cut_range(l, &w, chunk, &range);
        else if (l->q->store && reaches_beyond(l, &w)) /* all leaves of a set share: the key is the set */
            range.shared = fby__chunk_store_get(l->q->store, l->q->file_key, l->set_index, w.number, l->g.chunk_bytes);
        if (range.shared && fby__shared_chunk_ready(range.shared))
            range.n = 0;
        fby_status status = add_range(l, &range, err);
        if (status != FBY_OK) {
            fby__shared_chunk_unref(range.shared);
            return status;
        }
    }
    return FBY_OK;
}

static fby_status locate_contiguous(locating *l, bool as_stored, fby_error *err)
{
    const fby__h5_geometry *g = &l->g;
    const uint32_t rows = g->row_first;
    const uint64_t stride = g->stride[rows], n = l->index_end - l->index_begin;
    uint64_t end;
    if (l->set->data_offset == FBY__H5_UNDEFINED)
        return FBY_OK;
    if (!fby__add_u64_checked(l->set->data_offset, g->chunk_bytes, &end) || end > fby__h5_table_of(l->q->table)->file_bytes)
        return fby__fail_at(err, FBY_E_FORMAT, l->set->data_offset, "its %zu bytes at %" PRIu64 " go beyond the end of the file",
                            g->chunk_bytes, l->set->data_offset);
    fby__range range = {.offset = l->set->data_offset + l->index_begin * stride, .n = n * stride};
    if (rows == 0) {
        l->source->range[1] = range;
        l->source->rows_as_stored = as_stored;
        return FBY_OK;
    }
    if ((g->dims[rows] - n) * stride <= GAP_BYTES) {
        range.n += (g->dims[0] - 1) * g->stride[0];
        l->source->range[1] = range;
        return FBY_OK;
    }
    for (uint64_t outer = 0; outer < g->dims[0]; outer++, range.offset += g->stride[0]) {
        range.tag = outer;
        FBY__TRY(add_range(l, &range, err));
    }
    return FBY_OK;
}

/* Are the stored bytes of rows those that a panel of the leaf's dtype holds? */
static bool rows_as_stored(const fby__h5_set *set, const fby__h5_leaf *leaf)
{
    return leaf->value == FBY__H5_VALUE_NUMBER && set->axis == 0 && set->repeat == 1 && !fby__h5_leaf_can_miss(leaf) && !leaf->scaled &&
           leaf->offset == 0 && (uint64_t)leaf->elements * leaf->type->bytes == set->type->bytes && leaf->dtype == leaf->stored &&
           fby__h5_type_is_native(leaf->type);
}

static fby_status locate_leaf(const fby__locate_request *q, size_t i, fby_error *err)
{
    const fby__h5_table *table = fby__h5_table_of(q->table);
    fby__leaf_source *source = &q->sources[i];
    const fby__h5_leaf *leaf = &table->leaves[source->leaf];
    const fby__h5_set *set = &table->sets[leaf->set];
    const uint64_t first_row = q->table->groups[q->group].first_row;
    *source =
        (fby__leaf_source){.leaf = source->leaf, .first_chunk = q->list->n, .first_row = q->row_begin, .n_rows = q->row_end - q->row_begin};
    if (set->way == FBY__H5_HELPER || set->layout == FBY__H5_COMPACT || q->row_begin >= q->row_end || set->row_elements == 0)
        return FBY_OK;
    for (size_t k = i; set->type->class == FBY__H5_COMPOUND && k-- > 0;) { /* members come one after the other, mostly */
        if (table->leaves[q->sources[k].leaf].set != leaf->set)
            continue;
        const uint32_t own = source->leaf;
        *source = q->sources[k];
        source->leaf = own;
        return FBY_OK;
    }
    locating l = {.q = q,
                  .set = set,
                  .set_index = leaf->set,
                  .row_begin = first_row + q->row_begin,
                  .row_end = first_row + q->row_end,
                  .source = source};
    fby_status status = fby__h5_geometry_open(set, &l.g, err);
    if (status == FBY_OK)
        fby__h5_indices(set, l.row_begin, l.row_end, &l.index_begin, &l.index_end);
    if (status == FBY_OK && l.index_end > l.g.indices)
        status = fby__fail(err, FBY_E_INTERNAL, "row %" PRIu64 " of %" PRIu64, l.row_end, l.g.indices * set->repeat);
    if (status == FBY_OK)
        status = set->layout == FBY__H5_CHUNKED ? locate_chunks(&l, err) : locate_contiguous(&l, rows_as_stored(set, leaf), err);
    if (status != FBY_OK)
        fby__h5_context(err, q->file ? fby__file_path(q->file) : "(memory)", set);
    return status;
}

fby_status fby__h5_locate(const fby__locate_request *q, fby_error *err)
{
    for (size_t i = 0; i < q->n; i++)
        FBY__TRY(locate_leaf(q, i, err));
    return FBY_OK;
}
