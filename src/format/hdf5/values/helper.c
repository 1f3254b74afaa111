/*
 * Rows of a data set that the helper program reads: hyperslabs of at most FBY__H5_SLAB_BYTES, put as chunks are.
 *
 * The elements come as set->type says, which is the helper's own description of the data set: native and dense.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

#define SLAB_VARYING ((uint64_t)16384)      /* elements with parts of variable length */
#define MAX_VARYING_BYTES ((size_t)1 << 30) /* of them, with what those parts hold */

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

/* Errors name file and data set themselves. */
static fby_status read_slab(const fby__h5_rows *r, const slab *s, bool varies, size_t n, fby_error *err)
{
    const fby__h5_set *set = r->set;
    fby__h5_state *state = r->job->state;
    const char *path = fby__file_path(r->job->file);
    const fby__reach *before = fby__h5_helper_reach(&r->job->table->base.reach);
    fby__h5_helper_memory *memory = fby__h5_helper_memory_of(&state->helper);
    state->helper.least = (size_t)fby__h5_helper_bytes(set, n);
    fby_status status = varies ? fby__h5_helper_read_values(path, set->path, set->promise, set->rank, s->start, s->count, state->slab.data,
                                                            n, MAX_VARYING_BYTES, &state->vlen, err)
                               : fby__h5_helper_read(path, set->path, set->promise, set->rank, s->start, s->count, FBY_DTYPE_NONE,
                                                     state->slab.data, n, err);
    (void)fby__h5_helper_reach(before);
    (void)fby__h5_helper_memory_of(memory);
    return status;
}

static fby_status read_rows(fby__h5_rows *r, fby_error *err)
{
    const fby__h5_set *set = r->set;
    const fby__h5_geometry *g = &r->g;
    const bool varies = fby__h5_type_varies(set->type);
    uint64_t index, end;
    size_t row_bytes;
    if (!r->job->file)
        return fby__h5_rows_fail(r, fby__fail(err, FBY_E_INTERNAL, "there is no file to read from"), err);
    r->job->state->vlen.n = 0;
    fby__h5_indices(set, r->begin, r->end, &index, &end);
    if (!fby__mul_checked((size_t)set->row_elements, set->type->bytes, &row_bytes))
        return fby__fail_nomem(err, "decoding HDF5");
    const uint64_t limit =
        varies ? fby__min_u64(SLAB_VARYING / set->row_elements, FBY__H5_SLAB_BYTES / row_bytes) : FBY__H5_SLAB_BYTES / row_bytes;
    for (slab s; index < end; index += s.n) {
        s = slab_of(set, index, end, limit);
        size_t n;
        if (!fby__mul_checked((size_t)s.n, row_bytes, &n))
            return fby__fail_nomem(err, "decoding HDF5");
        FBY__TRY(fby__h5_need(&r->job->state->slab, n, err));
        FBY__TRY(read_slab(r, &s, varies, n, err));
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
            FBY__TRY(fby__h5_box_put(r, &r->targets[i], &box, err));
    }
    return FBY_OK;
}

static fby_status check_source(const fby__source_file *s, fby_error *err)
{
    fby__file_stamp is;
    fby_error why = {0};
    if (!s->absent)
        return fby__file_check(s->path, &s->stamp, err);
    fby_status status = fby__file_stat(s->path, &is, &why);
    return status == FBY_OK ? fby__fail(err, FBY_E_CHANGED, "%s was not there before; open the data set again", s->path) : FBY_OK;
}

/* Are the files that the values came from, by their names, the ones that the table was made of? */
static fby_status check_files(const fby__h5_rows *r, fby_error *err)
{
    const fby__table *table = &r->job->table->base;
    fby_status status = fby__file_check(fby__file_path(r->job->file), fby__file_stamp_of(r->job->file), err);
    for (uint32_t i = 0; i < r->set->n_sources && table->sources && status == FBY_OK; i++)
        status = check_source(&table->sources[r->set->sources[i]], err);
    if (status != FBY_OK)
        fby__h5_context(err, r->job->file_name, r->set);
    return status;
}

/*
 * The program opens the files anew, by name. What it gave counts only if they are the same behind it; and where it failed, it is no
 * fault of theirs if they are not.
 */
fby_status fby__h5_helper_rows(fby__h5_rows *r, fby_error *err)
{
    fby_error why = {0};
    fby_status status = read_rows(r, err), checked;
    if (status == FBY_E_NOMEM || status == FBY_E_INTERNAL || status == FBY_E_CANCELLED || !r->job->file)
        return status;
    checked = check_files(r, &why);
    if (checked == FBY_OK || (status != FBY_OK && checked != FBY_E_CHANGED))
        return status;
    if (err)
        *err = why;
    return checked;
}
