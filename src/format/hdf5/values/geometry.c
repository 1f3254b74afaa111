/*
 * A data set as boxes: which chunks hold which rows, and where in them. Axes that chunks hold whole are joined first, so that
 * nearly all data sets are (rows) or (rows, elements), and a chunk of theirs is a run of rows.
 *
 * With several row axes (cells) the rows asked for are no box: a run at a time is taken, along the last row axis.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

static fby_status nonsense(fby_error *err) { return fby__fail(err, FBY_E_FORMAT, "its dimensions and chunks do not fit together"); }

/* Before, on, or after the row axes. */
static int side_of(const fby__h5_set *set, uint32_t axis) { return axis < set->axis ? 0 : axis < set->axis + set->axes ? 1 : 2; }

/* Joined axes with dims, chunk and grid. */
static bool join_axes(const fby__h5_set *set, fby__h5_geometry *g)
{
    for (uint32_t a = 0; a < set->rank; a++) {
        const uint64_t dim = set->dims[a], chunk = set->layout == FBY__H5_CHUNKED && set->way == FBY__H5_DIRECT ? set->chunk[a] : dim;
        if (dim == 0 || chunk == 0)
            return false;
        if (a > 0 && side_of(set, a) == side_of(set, a - 1) && chunk == dim) {
            const uint32_t last = g->rank - 1;
            if (!fby__mul_u64_checked(g->dims[last], dim, &g->dims[last]) || !fby__mul_u64_checked(g->chunk[last], chunk, &g->chunk[last]))
                return false;
        } else {
            if (side_of(set, a) == 0)
                g->row_first = g->rank + 1;
            if (side_of(set, a) <= 1)
                g->row_end = g->rank + 1;
            g->dims[g->rank] = dim;
            g->chunk[g->rank++] = chunk;
        }
    }
    for (uint32_t a = 0; a < g->rank; a++)
        g->grid[a] = fby__div_up_u64(g->dims[a], g->chunk[a]);
    return g->row_first < g->row_end;
}

fby_status fby__h5_geometry_open(const fby__h5_set *set, fby__h5_geometry *g, fby_error *err)
{
    *g = (fby__h5_geometry){0};
    if (set->rank == 0 || set->rank > FBY__H5_MAX_RANK || set->repeat == 0 || set->type->bytes == 0 || !join_axes(set, g))
        return nonsense(err);
    size_t bytes = set->type->bytes;
    uint64_t indices = 1, elements = 1, chunks = 1;
    for (uint32_t a = g->rank; a-- > 0;) {
        uint64_t *product = a >= g->row_first && a < g->row_end ? &indices : &elements;
        g->step[a] = *product;
        g->stride[a] = bytes;
        if (!fby__mul_u64_checked(*product, g->dims[a], product) || !fby__mul_checked(bytes, (size_t)g->chunk[a], &bytes) ||
            !fby__mul_u64_checked(chunks, g->grid[a], &chunks))
            return nonsense(err);
    }
    g->indices = indices;
    g->chunk_bytes = bytes;
    uint64_t rows;
    if (elements != set->row_elements || !fby__mul_u64_checked(indices, set->repeat, &rows))
        return nonsense(err);
    if (set->way == FBY__H5_DIRECT && set->layout == FBY__H5_CHUNKED && bytes > FBY__FILTER_MAX_BYTES)
        return fby__fail(err, FBY_E_UNSUPPORTED, "chunks of more than 4 GiB");
    g->whole_rows = g->row_first == 0 && g->row_end == 1;
    for (uint32_t a = 1; a < g->rank; a++)
        g->whole_rows &= g->chunk[a] == g->dims[a];
    return FBY_OK;
}

/* ---- chunks ---- */

void fby__h5_walk_begin(fby__h5_walk *w, const fby__h5_geometry *g, uint64_t begin, uint64_t end)
{
    w->g = g;
    w->begin = begin;
    w->end = end;
    w->number = 0;
    w->begun = begin >= end; /* nothing: it has ended */
    bool one = true;         /* all indices lie at one coordinate of the axes so far */
    for (uint32_t a = 0; a < g->rank; a++) {
        w->n[a] = 1;
        w->lo[a] = w->at[a] = 0;
        w->hi[a] = begin < end ? g->grid[a] : 0;
        if (begin < end && one && a >= g->row_first && a < g->row_end) {
            const uint64_t first = begin / g->step[a] % g->dims[a], last = (end - 1) / g->step[a] % g->dims[a];
            w->lo[a] = w->at[a] = first / g->chunk[a];
            w->hi[a] = last / g->chunk[a] + 1;
            one = first == last;
        }
    }
}

/* Rows run over several axes, and none of those wanted is in the chunk: nor in those behind it along the last of these axes, up to some index. */
static void skip_empty(fby__h5_walk *w)
{
    const fby__h5_geometry *g = w->g;
    const uint32_t last = g->row_end - 1;
    uint64_t to = w->hi[last];
    w->n[last] = to - w->at[last];
    for (fby__h5_span span = {0}; fby__h5_span_next(w, &span);)
        to = fby__min_u64(to, span.at[last] / g->chunk[last]);
    w->n[last] = to - w->at[last];
    for (uint32_t a = g->row_end; a < g->rank; a++)
        w->n[a] = w->hi[a]; /* all: it is the first one */
}

bool fby__h5_walk_next(fby__h5_walk *w)
{
    const fby__h5_geometry *g = w->g;
    for (;;) {
        if (w->begun) {
            uint32_t a = g->rank;
            for (; a > 0; a--) {
                w->at[a - 1] += w->n[a - 1];
                w->n[a - 1] = 1;
                if (w->at[a - 1] < w->hi[a - 1])
                    break;
                w->at[a - 1] = w->lo[a - 1];
            }
            if (a == 0)
                return false;
        }
        w->begun = true;
        w->number = 0;
        for (uint32_t a = 0; a < g->rank; a++)
            w->number = w->number * g->grid[a] + w->at[a];
        fby__h5_span span = {0};
        if (g->row_end - g->row_first == 1 || fby__h5_span_next(w, &span)) /* several row axes: maybe between the ends only */
            return true;
        skip_empty(w);
    }
}

void fby__h5_walk_absent(fby__h5_walk *w, uint64_t stored)
{
    const fby__h5_geometry *g = w->g;
    uint64_t last = w->number, below = 1, elements = 1; /* number of the last one; numbers from one to the next along an axis */
    for (uint32_t a = 0; a < g->rank; a++)
        elements *= g->chunk[a]; /* their bytes are less than 2^64 */
    for (uint32_t a = g->rank; a-- > 0;) {
        const uint64_t left = w->hi[a] - w->at[a], free = (stored - 1 - last) / below, few = FBY__H5_ABSENT_ELEMENTS / elements;
        w->n[a] = fby__min_u64(left, fby__max_u64(1, fby__min_u64(1 + free, few)));
        if (w->n[a] < w->hi[a] - w->lo[a])
            return; /* not all along the axis: what lies behind is no box with it */
        last += (w->n[a] - 1) * below;
        below *= g->grid[a];
        elements *= w->n[a];
    }
}

/* ---- runs of rows ---- */

bool fby__h5_span_next(const fby__h5_walk *w, fby__h5_span *span)
{
    const fby__h5_geometry *g = w->g;
    const uint32_t last = g->row_end - 1;
    for (;;) {
        if (!span->begun) {
            for (uint32_t a = g->row_first; a < last; a++)
                span->at[a] = w->at[a] * g->chunk[a];
            span->begun = true;
        } else {
            uint32_t a = last;
            while (a > g->row_first) {
                const uint64_t begin = w->at[a - 1] * g->chunk[a - 1];
                if (++span->at[a - 1] < begin + fby__h5_walk_extent(w, a - 1))
                    break;
                span->at[a - 1] = begin;
                a--;
            }
            if (a == g->row_first)
                return false;
        }
        uint64_t base = 0;
        for (uint32_t a = g->row_first; a < last; a++)
            base += span->at[a] * g->step[a];
        uint64_t from = w->at[last] * g->chunk[last], to = from + fby__h5_walk_extent(w, last);
        if (base >= w->end)
            return false; /* those to come lie further on still */
        from = w->begin > base ? fby__max_u64(from, w->begin - base) : from;
        to = fby__min_u64(to, w->end - base);
        if (from < to) {
            span->at[last] = from;
            span->index = base + from;
            span->n = to - from;
            return true;
        }
    }
}
