/* A count to a mask: true at the first so many places. */
#include "base/alloc.h"
#include "transform/make_count.h"
#include "transform/make_values.h"

#include <inttypes.h>
#include <string.h>

#define MAX_SIZE (1u << 24)

typedef struct sequence_mask {
    uint64_t size;
    size_t bytes; /* of a place */
    uint64_t one;
    bool clip_count;
} sequence_mask;

static fby_status create_mask(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    const fby_make_sequence_mask *asked = &spec->make->sequence_mask;
    FBY__TRY(fby__make_expect_columns(spec, "a sequence mask", 1, 1, err));
    FBY__TRY(fby__make_use_count(spec, 0, err));
    if (asked->size == 0 || asked->size > MAX_SIZE)
        return fby__fail(err, FBY_E_ARG, "output '%s': a mask of %" PRIu64 " places: 1 to %u are possible", spec->output, asked->size,
                         MAX_SIZE);
    sequence_mask *m = fby__calloc(1, sizeof *m);
    if (!m)
        return fby__fail_nomem(err, "a mask");
    *out_state = m;
    *made = (fby__made){.dtype = fby__make_dtype(spec, FBY_BOOL), .ndim = 1, .shape = {(int64_t)asked->size}};
    *m = (sequence_mask){
        .size = asked->size, .bytes = fby_dtype_bytes(made->dtype), .one = fby__make_one(made->dtype), .clip_count = asked->clip_count};
    return FBY_OK;
}

static fby_status fill(const sequence_mask *m, const fby__make_view *view, uint64_t sample, uint64_t row, uint8_t *dst, fby_error *err)
{
    uint64_t count;
    FBY__TRY(fby__make_count_at(view, sample, row, &count, err));
    if (count > m->size && !m->clip_count)
        return fby__fail(err, FBY_E_DATA, "a count of %" PRIu64 ": the mask has %" PRIu64 " places; with clip_count it means all of them",
                         count, m->size);
    count = count < m->size ? count : m->size;
    for (uint64_t i = 0; i < count; i++)
        memcpy(dst + i * m->bytes, &m->one, m->bytes);
    memset(dst + count * m->bytes, 0, (m->size - count) * m->bytes);
    return FBY_OK;
}

static fby_status run_mask(const void *state, fby__make_job *job, fby_error *err)
{
    const sequence_mask *m = state;
    for (uint64_t i = 0; i < job->n; i++)
        for (uint64_t r = 0; r < job->n_rows[i]; r++) {
            const fby_status status = fill(m, &job->views[0], i, r, job->dst[i] + r * m->size * m->bytes, err);
            if (status != FBY_OK) {
                job->bad = i;
                return status;
            }
        }
    return FBY_OK;
}

const fby__maker_ops fby__maker_sequence_mask = {create_mask, fby__free, run_mask};
