/*
 * One chunk's decoded bytes: from where they lie, from the store of shared chunks, or by undoing its filters.
 *
 * A chunk that locate did not hand over is only then taken as never written when the data set's own list agrees: what is
 * forgotten must not become fill values.
 */
#include "format/hdf5/values/decode_internal.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>

/* A chunk of so many bytes leaves the caches anyway before its rows are gathered; what a smaller one gives, row operations find there. */
#define STREAM_BYTES ((size_t)256 << 10)

/* ---- a thread's state ---- */

static void state_free(void *state)
{
    fby__h5_state *s = state;
    fby__filter_state_fini(&s->filters);
    fby__h5_global_fini(&s->heap);
    fby__buf_fini(&s->chunks);
    fby__buf_fini(&s->fill);
    fby__buf_fini(&s->slab);
    fby__buf_fini(&s->vlen);
    fby__buf_fini(&s->tiles);
    fby__buf_fini(&s->narrow);
    fby__buf_fini(&s->together);
    fby__buf_fini(&s->raw);
    fby__alloc_discharge(s->helper.held);
    fby__free(s);
}

static size_t state_bytes(const void *state)
{
    const fby__h5_state *s = state;
    return sizeof *s + fby__filter_state_bytes(&s->filters) + s->heap.bytes + s->chunks.cap + s->fill.cap + s->slab.cap + s->vlen.cap +
           s->tiles.cap + s->narrow.cap + s->together.cap + s->raw.cap + s->helper.held;
}

fby_status fby__h5_state_of(fby__scratch *scratch, fby__h5_state **out, fby_error *err)
{
    *out = fby__scratch_state(scratch, sizeof **out, state_free, state_bytes);
    return *out ? FBY_OK : fby__fail_nomem(err, "decoding HDF5");
}

fby_status fby__h5_need(fby__buf *buf, size_t n, fby_error *err)
{
    if (n <= buf->cap)
        return FBY_OK;
    fby__buf_fini(buf);
    if (!(buf->data = fby__malloc(n)))
        return fby__fail_nomem(err, "decoding HDF5");
    buf->cap = n;
    return FBY_OK;
}

/* ---- finding it ---- */

bool fby__h5_chunk_plain(const fby__h5_set *set, const fby__h5_geometry *g, const fby__h5_walk *w, uint32_t mask)
{
    const uint32_t all = set->n_filters >= 32 ? UINT32_MAX : (1u << set->n_filters) - 1;
    if ((mask & all) == all)
        return true;
    bool edge = false;
    for (uint32_t a = 0; set->partial_edge_unfiltered && a < g->rank; a++)
        edge |= fby__h5_extent(g, a, w->at[a]) != g->chunk[a];
    return edge;
}

/* "chunk (3, 0), at byte 4096: " */
static fby_status chunk_fail(const fby__h5_rows *r, const fby__h5_walk *w, const fby__h5_chunk *chunk, fby_status status, fby_error *err)
{
    char text[256];
    size_t n = 0;
    uint64_t number = w->number, at[FBY__H5_MAX_RANK];
    for (uint32_t a = r->set->rank; a-- > 0;) { /* along the file's axes, not the joined ones */
        const uint64_t grid = fby__div_up_u64(r->set->dims[a], r->set->chunk[a]);
        at[a] = number % grid;
        number /= grid;
    }
    for (uint32_t a = 0; a < r->set->rank && n < sizeof text; a++) {
        const int k = snprintf(text + n, sizeof text - n, "%s%" PRIu64, a ? ", " : "", at[a]);
        n += k > 0 ? (size_t)k : 0;
    }
    fby__error_context(err, "chunk (%s), at byte %" PRIu64, text, chunk->offset);
    if (err && err->file_offset < 0)
        err->file_offset = (int64_t)chunk->offset;
    return fby__h5_rows_fail(r, status, err);
}

/* The bytes of the walk's chunk; they are asked for in rising order within a call. NULL: it and those behind it were never written. */
static fby_status find_range(fby__h5_rows *r, fby__h5_walk *w, const fby__range **out, fby_error *err)
{
    const fby__leaf_source *source = r->source;
    const fby__h5_chunk *chunks = r->set->chunks;
    size_t lo = r->next_range, hi = source->n_chunks;
    *out = NULL;
    while (lo < hi) { /* the first is the one, but for the first call */
        const size_t middle = lo == r->next_range ? lo : lo + (hi - lo) / 2;
        if (source->chunks[middle].tag >= r->set->n_chunks)
            break;
        if (chunks[source->chunks[middle].tag].number < w->number)
            lo = middle + 1;
        else
            hi = middle;
    }
    r->next_range = lo;
    if (lo < source->n_chunks && source->chunks[lo].tag < r->set->n_chunks && chunks[source->chunks[lo].tag].number == w->number) {
        *out = &source->chunks[lo];
        return FBY_OK;
    }
    uint64_t a = 0, b = r->set->n_chunks;
    while (a < b) {
        const uint64_t middle = a + (b - a) / 2;
        if (chunks[middle].number < w->number)
            a = middle + 1;
        else
            b = middle;
    }
    if (a < r->set->n_chunks && chunks[a].number == w->number)
        return fby__h5_rows_fail(r, fby__fail(err, FBY_E_INTERNAL, "chunk %" PRIu64 " was not located", w->number), err);
    fby__h5_walk_absent(w, a < r->set->n_chunks ? chunks[a].number : UINT64_MAX);
    return FBY_OK;
}

/* ---- decoding it ---- */

/* lasting: dst is where the rows wait for their batch, not what is looked at next. */
static fby_status undo(fby__h5_rows *r, const fby__h5_walk *w, const fby__range *range, uint8_t *dst, bool lasting, fby_error *err)
{
    const fby__h5_chunk *chunk = &r->set->chunks[range->tag];
    const fby__h5_job *job = r->job;
    fby__filter_state *filters = &job->state->filters;
    const uint64_t before = filters->decompress_ns;
    filters->streaming = lasting && r->g.chunk_bytes >= STREAM_BYTES;
    fby_status status = fby__filters_undo(filters, r->set->filters, r->set->n_filters, chunk->mask, job->verify,
                                          (fby__bytes){range->data, range->n}, dst, r->g.chunk_bytes, err);
    job->scratch->decompress_ns += filters->decompress_ns - before;
    job->scratch->decompressed_bytes += r->g.chunk_bytes;
    return status == FBY_OK ? FBY_OK : chunk_fail(r, w, chunk, status, err);
}

/* Filters there are none: the bytes are used as they lie. They may be a part of the chunk along axis 0. */
static fby_status plain(const fby__h5_rows *r, const fby__h5_walk *w, const fby__range *range, fby__h5_section *out, fby_error *err)
{
    const fby__h5_chunk *chunk = &r->set->chunks[range->tag];
    if (chunk->bytes != r->g.chunk_bytes) {
        fby_status status =
            fby__fail(err, FBY_E_FORMAT, "%" PRIu32 " bytes are stored where %zu are a chunk", chunk->bytes, r->g.chunk_bytes);
        return chunk_fail(r, w, chunk, status, err);
    }
    *out = (fby__h5_section){range->data, w->at[0] * r->g.chunk[0] + (range->offset - chunk->offset) / r->g.stride[0],
                             range->n / r->g.stride[0]};
    return FBY_OK;
}

/* Shared with other blocks: the first who comes decodes it. */
static fby_status shared(fby__h5_rows *r, const fby__h5_walk *w, const fby__range *range, fby__h5_section *out, fby_error *err)
{
    out->data = fby__shared_chunk_data(range->shared);
    if (!fby__shared_chunk_begin(range->shared))
        return FBY_OK;
    fby_status status = undo(r, w, range, fby__shared_chunk_data(range->shared), false, err);
    fby__shared_chunk_filled(range->shared, status == FBY_OK);
    return status;
}

fby_status fby__h5_chunk_get(fby__h5_rows *r, fby__h5_walk *w, uint8_t *direct, fby__h5_section *out, fby_error *err)
{
    const fby__range *range;
    *out = (fby__h5_section){NULL, w->at[0] * r->g.chunk[0], r->g.chunk[0]};
    FBY__TRY(find_range(r, w, &range, err));
    if (!range) {
        out->n *= w->n[0];
        return FBY_OK;
    }
    if (!range->data && !(range->shared && fby__shared_chunk_ready(range->shared)))
        return fby__h5_rows_fail(r, fby__fail(err, FBY_E_INTERNAL, "chunk %" PRIu64 " was not read", w->number), err);
    if (range->shared)
        return shared(r, w, range, out, err);
    if (fby__h5_chunk_plain(r->set, &r->g, w, r->set->chunks[range->tag].mask))
        return plain(r, w, range, out, err);
    if (direct) {
        out->data = direct;
        return undo(r, w, range, direct, true, err);
    }
    if (!r->room) {
        FBY__TRY(fby__h5_need(&r->job->state->chunks, r->g.chunk_bytes, err));
        r->room = r->job->state->chunks.data;
    }
    out->data = r->room;
    if (r->held && r->held_number == w->number)
        return FBY_OK;
    r->held = false;
    FBY__TRY(undo(r, w, range, r->room, false, err));
    r->held = true;
    r->held_number = w->number;
    return FBY_OK;
}
