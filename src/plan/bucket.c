/*
 * Length buckets: batches of samples of similar length.
 *
 * A stream's positions are cut into windows of W samples. A pool is what a phase has of a window; its samples, in the phase's permuted
 * order, are sorted by length, and what follows one another makes a batch:
 *
 *   batches of one size       W is a multiple of the rank's batch q. Whole batches of a pool are spans of the sorted samples, permuted;
 *   what
 *                             the pool gives to a batch that it shares with another phase are its shortest samples
 *                             | head | span σ(0) | span σ(1) | … | tail |    sorted: head, tail, span 0, span 1, …
 *   batches of so many rows   positions are the sorted samples; batches are cut and permuted by table.c
 *
 * Any position can be computed from its pool alone: W samples are permuted and sorted, in a scratch that keeps the last pool.
 */
#include "plan/plan_internal.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/random.h"

#include <assert.h>
#include <string.h>

#define CHUNK 512u
#define AT_ONCE (1u << 16) /* samples between two looks whether to stop */

struct fby__pool_scratch {
    uint64_t cap;   /* samples */
    uint64_t epoch; /* of the pool that is kept; phase UINT32_MAX: none */
    uint32_t stream, phase;
    uint64_t begin; /* position */
    uint32_t *item; /* cap: samples in the pool's order */
    uint64_t *sample;
    uint32_t *raw_item; /* cap: as permuted */
    uint64_t *raw_sample;
    uint64_t *keys[2]; /* cap: length and position among the permuted */
};

fby_status fby__pool_scratch_create(const fby__plan *plan, fby__pool_scratch **out, fby_error *err)
{
    fby__pool_scratch *p = fby__calloc(1, sizeof *p);
    if (!p)
        return fby__fail_nomem(err, "a pool of samples");
    p->cap = plan->pool_samples;
    p->phase = UINT32_MAX;
    p->item = fby__calloc(p->cap, sizeof *p->item);
    p->sample = fby__calloc(p->cap, sizeof *p->sample);
    p->raw_item = fby__calloc(p->cap, sizeof *p->raw_item);
    p->raw_sample = fby__calloc(p->cap, sizeof *p->raw_sample);
    for (int i = 0; i < 2; i++)
        p->keys[i] = fby__calloc(p->cap, sizeof *p->keys[i]);
    if (!p->item || !p->sample || !p->raw_item || !p->raw_sample || !p->keys[0] || !p->keys[1]) {
        fby__pool_scratch_destroy(p);
        return fby__fail_nomem(err, "a pool of samples");
    }
    *out = p;
    return FBY_OK;
}

void fby__pool_scratch_destroy(fby__pool_scratch *p)
{
    if (!p)
        return;
    fby__free(p->item);
    fby__free(p->sample);
    fby__free(p->raw_item);
    fby__free(p->raw_sample);
    fby__free(p->keys[0]);
    fby__free(p->keys[1]);
    fby__free(p);
}

size_t fby__plan_pool_bytes(const fby__plan *plan) { return (size_t)plan->pool_samples * (2 * sizeof(uint32_t) + 4 * sizeof(uint64_t)); }

/* The lengths of samples of a phase, by items. */
void fby__epoch_lengths(const fby__epoch *epoch, uint32_t phase, const uint32_t *item, const uint64_t *sample, uint32_t n, uint32_t *out)
{
    const fby__plan_item *items = epoch->phases[phase].items;
    uint32_t block[CHUNK];
    for (uint32_t done = 0; done < n;) {
        const uint32_t m = n - done < CHUNK ? n - done : CHUNK;
        for (uint32_t i = 0; i < m; i++)
            block[i] = items[item[done + i]].block;
        epoch->plan->lengths.of(epoch->plan->lengths.user, block, sample + done, m, out + done);
        done += m;
    }
}

/*
 * Sorts by the upper 32 bits, equal ones in the order they had: byte by byte, bytes that are the same in all aside. Returns where it is; NULL:
 * cancelled.
 */
static const uint64_t *sort_keys(fby__pool_scratch *p, uint32_t n)
{
    uint64_t *from = p->keys[0], *to = p->keys[1];
    for (int shift = 32; shift < 64; shift += 8) {
        uint32_t count[257] = {0};
        for (uint32_t i = 0; i < n; i++) {
            if (fby__cancelled_at(i))
                return NULL;
            count[(from[i] >> shift & 0xff) + 1]++;
        }
        if (count[(from[0] >> shift & 0xff) + 1] == n)
            continue;
        for (int b = 0; b < 256; b++)
            count[b + 1] += count[b];
        for (uint32_t i = 0; i < n; i++) {
            if (fby__cancelled_at(i))
                return NULL;
            to[count[from[i] >> shift & 0xff]++] = from[i];
        }
        uint64_t *t = from;
        from = to;
        to = t;
    }
    return from;
}

/* Which of m sorted samples stands at each position of a pool that begins at `begin`, for batches of q. False: cancelled. */
static bool arrange(const fby__epoch *epoch, uint64_t begin, uint32_t m, uint64_t q, const uint64_t *sorted, fby__pool_scratch *p)
{
    const uint32_t head = (uint32_t)fby__min_u64((q - begin % q) % q, m), tail = (uint32_t)((m - head) % q);
    const uint64_t spans = (m - head - tail) / q,
                   key = fby__random_u64(epoch->sample_key, begin, FBY__PLAN_BUCKETS + epoch->plan->first_stream);
    for (uint32_t i = 0; i < m; i++) {
        uint64_t from = i;
        if (fby__cancelled_at(i))
            return false;
        if (i >= m - tail) {
            from = head + (i - (m - tail));
        } else if (i >= head) {
            const uint64_t span = (i - head) / q;
            from = head + tail + (i - head) % q + q * fby__permute(key, spans, span);
        }
        const uint32_t raw = (uint32_t)sorted[from];
        p->item[i] = p->raw_item[raw];
        p->sample[i] = p->raw_sample[raw];
    }
    return true;
}

/* Make the scratch hold the pool of a phase that has a position; returns the position after its last. 0: cancelled. */
static uint64_t load_pool(const fby__epoch *epoch, uint32_t phase_index, uint64_t position, fby__pool_scratch *p)
{
    const fby__plan *plan = epoch->plan;
    const fby__plan_phase *phase = &epoch->phases[phase_index];
    const uint64_t window = position / plan->pool_samples * plan->pool_samples;
    const uint64_t begin = fby__max_u64(phase->begin, window), end = fby__min_u64(phase->end, window + plan->pool_samples);
    if (p->phase == phase_index && p->begin == begin && p->epoch == epoch->epoch && p->stream == phase->stream)
        return end;
    const uint32_t m = (uint32_t)(end - begin); /* at most pool_samples, which is below 2^31 */
    uint32_t *length = p->item;                 /* not yet in use */
    const uint64_t element = phase->perm_offset + begin - phase->begin;
    p->phase = UINT32_MAX;
    for (uint32_t done = 0, k; done < m; done += k) {
        k = m - done < AT_ONCE ? m - done : AT_ONCE;
        if (fby__cancelled())
            return 0;
        fby__epoch_resolve_permuted(epoch, phase_index, element + done, k, p->raw_item + done, p->raw_sample + done);
        fby__epoch_lengths(epoch, phase_index, p->raw_item + done, p->raw_sample + done, k, length + done);
    }
    for (uint32_t i = 0; i < m; i++)
        p->keys[0][i] = (uint64_t)length[i] << 32 | i;
    const uint64_t *sorted = sort_keys(p, m);
    if (!sorted || !arrange(epoch, begin, m, plan->batch_elements ? m : plan->share, sorted, p))
        return 0;
    p->epoch = epoch->epoch;
    p->stream = phase->stream;
    p->phase = phase_index;
    p->begin = begin;
    return end;
}

bool fby__epoch_resolve_pooled(const fby__epoch *epoch, uint32_t phase_index, uint64_t index, uint32_t n, fby__pool_scratch *p,
                               uint32_t *out_item, uint64_t *out_sample)
{
    const fby__plan_phase *phase = &epoch->phases[phase_index];
    uint64_t position = phase->begin + (index - phase->perm_offset);
    while (n > 0) {
        const uint64_t end = load_pool(epoch, phase_index, position, p);
        if (end == 0)
            return false;
        const uint32_t m = (uint32_t)fby__min_u64(n, end - position);
        memcpy(out_item, p->item + (position - p->begin), m * sizeof *out_item);
        memcpy(out_sample, p->sample + (position - p->begin), m * sizeof *out_sample);
        position += m;
        out_item += m;
        out_sample += m;
        n -= m;
    }
    return true;
}
