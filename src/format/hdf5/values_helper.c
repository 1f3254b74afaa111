/*
 * Rows of a data set that the helper program reads: hyperslabs of at most SLAB_BYTES, placed as chunks are.
 *
 * The elements come as set->type says, which is the helper's own description of the data set: native and dense.
 */
#include "format/hdf5/decode_internal.h"
#include "format/hdf5/helper.h"

#include "base/checked.h"

#define SLAB_BYTES ((uint64_t)4 << 20)
#define SLAB_STRINGS ((uint64_t)16384)
#define MAX_TEXT_BYTES ((size_t)1 << 30) /* of the strings of one slab */

typedef struct slab {
    uint64_t start[FBY__H5_MAX_RANK], count[FBY__H5_MAX_RANK];
    uint64_t n; /* indices */
} slab;

/* The largest hyperslab that begins with an index and has at most `limit` of them, all below end. */
static slab slab_of(const fby__h5_set *set, uint64_t index, uint64_t end, uint64_t limit)
{
    slab s = {.n = 1};
    for (uint32_t a = 0; a < set->rank; a++)
        s.count[a] = set->dims[a];
    uint64_t inner = 1, rest = index;
    for (uint32_t a = set->axis + 1; a < set->axis + set->axes; a++)
        inner *= set->dims[a];
    for (uint32_t a = set->axis; a < set->axis + set->axes; a++) {
        s.start[a] = rest / inner;
        rest %= inner;
        const uint64_t fit = fby__min_u64(end - index, fby__max_u64(limit, 1)) / inner;
        if (rest == 0 && fit > 0) { /* all later axes whole */
            s.count[a] = fby__min_u64(fit, set->dims[a] - s.start[a]);
            s.n = s.count[a] * inner;
            break;
        }
        s.count[a] = 1;
        if (a + 1 < set->axis + set->axes)
            inner /= set->dims[a + 1];
    }
    return s;
}

static fby_status need_file(const fby__h5_rows *r, fby_error *err)
{
    return r->job->file ? FBY_OK : fby__h5_rows_fail(r, fby__fail(err, FBY_E_INTERNAL, "there is no file to read from"), err);
}

fby_status fby__h5_helper_rows(fby__h5_rows *r, fby_error *err)
{
    const fby__h5_set *set = r->set;
    const fby__h5_geometry *g = &r->g;
    FBY__TRY(need_file(r, err));
    uint64_t index, end;
    size_t row_bytes;
    fby__h5_indices(set, r->begin, r->end, &index, &end);
    if (!fby__mul_checked((size_t)set->row_elements, set->type->bytes, &row_bytes))
        return fby__fail_nomem(err, "decoding HDF5");
    for (slab s; index < end; index += s.n) {
        s = slab_of(set, index, end, SLAB_BYTES / row_bytes);
        size_t n;
        if (!fby__mul_checked((size_t)s.n, row_bytes, &n))
            return fby__fail_nomem(err, "decoding HDF5");
        FBY__TRY(fby__h5_need(&r->job->state->slab, n, err));
        FBY__TRY(fby__h5_helper_read(fby__file_path(r->job->file), set->path, set->rank, s.start, s.count, FBY_DTYPE_NONE,
                                     r->job->state->slab.data, n, err)); /* names file and data set itself */
        /* Joined axes: before, rows, after. The rows of the slab take the place of all rows. */
        fby__h5_box box = {.src = r->job->state->slab.data, .index = index, .n = s.n, .row_stride = g->stride[g->row_first]};
        for (uint32_t a = 0; a < g->rank; a++) {
            if (a == g->row_first)
                continue;
            box.axes[box.n_axes].n = g->dims[a];
            box.axes[box.n_axes].step = g->step[a];
            box.axes[box.n_axes++].stride = a < g->row_first ? g->stride[a] / (size_t)g->dims[g->row_first] * (size_t)s.n : g->stride[a];
        }
        for (uint32_t i = 0; i < r->n_targets; i++)
            FBY__TRY(fby__h5_place(r, &r->targets[i], &box, err));
    }
    return FBY_OK;
}

fby_status fby__h5_helper_strings(fby__h5_rows *r, uint64_t begin, uint64_t end_row, fby__h5_string_fn fn, void *user, fby_error *err)
{
    const fby__h5_set *set = r->set;
    const uint64_t per_row = set->row_elements;
    FBY__TRY(need_file(r, err));
    uint64_t index, end;
    fby__h5_indices(set, begin, end_row, &index, &end);
    for (slab s; index < end; index += s.n) {
        /* Rows that are not the first axis come one at a time: then their elements are in order. */
        s = slab_of(set, index, end, set->axis ? 1 : SLAB_STRINGS / per_row);
        size_t n;
        if (!fby__mul_checked((size_t)s.n, (size_t)per_row, &n) || !fby__mul_checked(n + 1, sizeof(uint64_t), &n))
            return fby__fail_nomem(err, "decoding HDF5");
        FBY__TRY(fby__h5_need(&r->job->state->raw, n, err));
        uint64_t *offsets = (uint64_t *)(void *)r->job->state->raw.data;
        fby__buf *text = &r->job->state->slab;
        text->n = 0;
        FBY__TRY(fby__h5_helper_read_strings(fby__file_path(r->job->file), set->path, set->rank, s.start, s.count, offsets, MAX_TEXT_BYTES,
                                             text, err));
        for (uint64_t i = 0; i < s.n; i++) {
            const uint64_t first = fby__max_u64((index + i) * set->repeat, begin);
            const uint64_t last = fby__min_u64((index + i + 1) * set->repeat, end_row);
            for (uint64_t row = first; row < last; row++)
                for (uint64_t k = i * per_row; k < (i + 1) * per_row; k++) {
                    const size_t length = (size_t)(offsets[k + 1] - offsets[k]);
                    const fby__bytes one = {length ? text->data + offsets[k] : NULL, length}; /* all of them may be empty */
                    FBY__TRY(fn(user, one, row > first && per_row == 1, err));
                }
        }
    }
    return FBY_OK;
}
