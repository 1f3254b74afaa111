/*
 * Batches by a number of rows: the table of where each one lies.
 *
 * A stream's samples are taken in order. A batch is closed when the next sample would make it more rows than allowed, or when it has as
 * many samples as allowed; one sample alone may have more. Lengths are asked for once, sample by sample in the stream's order, so the table
 * costs O(samples) time and O(batches) memory, for the streams of all ranks: but with KEEP all must have the same number of batches.
 *
 *   KEEP              as many as there are, on each rank
 *   WRAP              as many as the rank with the most; others go through their last phase again, in batches cut the same way
 *   DROP              as many as the rank with the fewest, batches that the end of a stream closed not counted
 *
 * With length buckets, batches are cut from each pool's sorted samples and end with it; those of a pool are permuted.
 */
#include "plan/plan_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/random.h"

#include <inttypes.h>

#define CHUNK 1024u

typedef struct cutter {
    fby__epoch *epoch;
    fby__pool_scratch *pool; /* NULL without buckets */
    uint64_t cap;            /* batches */
    uint64_t begin, n, rows; /* the batch at hand */
    uint64_t wanted;         /* stop at so many batches */
    bool failed;             /* out of memory, or cancelled */
} cutter;

static void close_batch(cutter *c)
{
    fby__epoch *epoch = c->epoch;
    if (c->n == 0 || c->failed)
        return;
    if (epoch->n_batches == c->cap) {
        const uint64_t cap = c->cap ? 2 * c->cap : 256;
        uint64_t *begin = fby__realloc_array(epoch->batch_begin, cap, sizeof *begin);
        epoch->batch_begin = begin ? begin : epoch->batch_begin;
        uint32_t *n = fby__realloc_array(epoch->batch_n, cap, sizeof *n);
        epoch->batch_n = n ? n : epoch->batch_n;
        c->failed = !begin || !n;
        if (c->failed)
            return;
        c->cap = cap;
    }
    epoch->batch_begin[epoch->n_batches] = c->begin;
    epoch->batch_n[epoch->n_batches++] = (uint32_t)c->n;
    epoch->n_samples += c->n;
    c->begin += c->n;
    c->n = c->rows = 0;
}

/* Positions [begin, end) of a phase, which count as `shift` later: those of a wrapped round. */
static void cut_span(cutter *c, uint32_t phase_index, uint64_t begin, uint64_t end, uint64_t shift)
{
    const fby__plan *plan = c->epoch->plan;
    fby__plan_phase *phase = &c->epoch->phases[phase_index];
    uint32_t item[CHUNK], length[CHUNK];
    uint64_t sample[CHUNK];
    for (uint64_t at = begin; at < end && !c->failed && c->epoch->n_batches < c->wanted;) {
        const uint32_t m = (uint32_t)fby__min_u64(CHUNK, end - at);
        c->failed = fby__cancelled() ||
                    !fby__epoch_resolve_in(c->epoch, phase_index, phase->perm_offset + at - phase->begin, m, c->pool, item, sample);
        if (c->failed)
            return;
        fby__epoch_lengths(c->epoch, phase_index, item, sample, m, length);
        for (uint32_t i = 0; i < m; i++) {
            if (c->n == plan->share || (c->n > 0 && length[i] > plan->batch_elements - fby__min_u64(c->rows, plan->batch_elements)))
                close_batch(c);
            if (c->failed || c->epoch->n_batches == c->wanted)
                return;
            if (at + i == phase->begin && shift == 0)
                phase->first_batch = c->epoch->n_batches;
            if (c->n == 0)
                c->begin = at + i + shift;
            c->n++;
            c->rows += length[i];
        }
        at += m;
    }
    phase->last_batch = c->epoch->n_batches;
}

static void shuffle_batches(fby__epoch *epoch, uint64_t first, uint64_t position)
{
    fby__random random = {.key = fby__random_u64(epoch->sample_key, position, FBY__PLAN_BUCKETS + epoch->plan->first_stream)};
    for (uint64_t i = epoch->n_batches; i-- > first + 1;) {
        const uint64_t j = first + fby__random_below(&random, i - first + 1);
        const uint64_t begin = epoch->batch_begin[i];
        const uint32_t n = epoch->batch_n[i];
        epoch->batch_begin[i] = epoch->batch_begin[j];
        epoch->batch_n[i] = epoch->batch_n[j];
        epoch->batch_begin[j] = begin;
        epoch->batch_n[j] = n;
    }
}

/* A phase, pool by pool where there are pools. */
static void cut_phase(cutter *c, uint32_t phase, uint64_t shift)
{
    const fby__plan *plan = c->epoch->plan;
    const uint64_t begin = c->epoch->phases[phase].begin, end = c->epoch->phases[phase].end, window = plan->pool_samples;
    if (!window) {
        cut_span(c, phase, begin, end, shift);
        return;
    }
    for (uint64_t at = begin; at < end && !c->failed && c->epoch->n_batches < c->wanted;) {
        const uint64_t stop = fby__min_u64(end, (at / window + 1) * window), first = c->epoch->n_batches;
        cut_span(c, phase, at, stop, shift);
        close_batch(c);
        if (!c->failed && shift == 0)
            shuffle_batches(c->epoch, first, at);
        at = stop;
    }
    c->epoch->phases[phase].last_batch = c->epoch->n_batches - 1;
}

/* All of a stream. *out_closed: batches that are not short because the stream ends. False when out of memory, or cancelled. */
static bool cut_stream(fby__epoch *epoch, fby__pool_scratch *pool, uint64_t *out_closed)
{
    cutter c = {.epoch = epoch, .pool = pool, .wanted = UINT64_MAX};
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        cut_phase(&c, p, 0);
    *out_closed = epoch->n_batches + (c.n == epoch->plan->share || c.rows >= epoch->plan->batch_elements);
    close_batch(&c);
    epoch->cap_batches = c.cap;
    return !c.failed;
}

/* Go through the last phase again until there are so many batches. */
static bool wrap_stream(fby__epoch *epoch, fby__pool_scratch *pool, uint64_t wanted)
{
    cutter c = {.epoch = epoch, .pool = pool, .wanted = wanted, .cap = epoch->cap_batches};
    const uint32_t last = epoch->n_phases - 1;
    const uint64_t before = epoch->n_samples, length = epoch->stream_length[0];
    const fby__plan_phase *phase = &epoch->phases[last];
    for (uint64_t round = 0; epoch->n_batches < wanted && !c.failed; round++) {
        cut_phase(&c, last, length - phase->begin + round * (phase->end - phase->begin));
        if (epoch->n_batches < wanted)
            close_batch(&c); /* a batch ends with the round: the next one begins where the phase does */
    }
    epoch->phases[last].last_batch = wanted - 1;
    epoch->n_wrapped = epoch->n_samples - before;
    epoch->cap_batches = c.cap;
    return !c.failed;
}

static void drop_batches(fby__epoch *epoch, uint64_t wanted)
{
    while (epoch->n_batches > wanted) {
        epoch->n_samples -= epoch->batch_n[--epoch->n_batches];
    }
    epoch->n_dropped = epoch->stream_length[0] - epoch->n_samples;
}

/* Without the room that was for more. Where there is no memory to move to, it stays. */
static void trim_tables(fby__epoch *epoch)
{
    if (epoch->n_batches == 0)
        return;
    uint64_t *begin = fby__realloc_array(epoch->batch_begin, epoch->n_batches, sizeof *begin);
    epoch->batch_begin = begin ? begin : epoch->batch_begin;
    uint32_t *n = fby__realloc_array(epoch->batch_n, epoch->n_batches, sizeof *n);
    epoch->batch_n = n ? n : epoch->batch_n;
}

/* Phases that no batch takes from go; the others end with the batches. */
static void trim_phases(fby__epoch *epoch)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        fby__plan_phase *phase = &epoch->phases[p];
        if (phase->first_batch >= epoch->n_batches)
            continue;
        phase->last_batch = fby__min_u64(phase->last_batch, epoch->n_batches - 1);
        epoch->phases[n++] = *phase;
    }
    epoch->n_phases = n;
}

static fby_status settle(fby__epoch **ranks, fby__pool_scratch *pool, fby_error *err)
{
    const fby__plan *plan = ranks[0]->plan;
    uint64_t most = 0, least = UINT64_MAX, closed;
    for (uint32_t r = 0; r < plan->world_size; r++) {
        if (!cut_stream(ranks[r], pool, &closed))
            return fby__plan_fail("the batches of an epoch", err);
        most = fby__max_u64(most, ranks[r]->n_batches);
        least = fby__min_u64(least, closed);
    }
    if (plan->tail == FBY__TAIL_DROP && least == 0)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu64 " samples do not fill one batch of %" PRIu64 " rows on every one of %" PRIu32
                         " ranks, and tail drop leaves "
                         "the rest out: choose fewer rows a batch or another tail",
                         ranks[0]->n_available, plan->batch_elements, plan->world_size);
    for (uint32_t r = 0; r < plan->world_size; r++) {
        if (plan->tail == FBY__TAIL_DROP)
            drop_batches(ranks[r], least);
        else if (plan->tail == FBY__TAIL_WRAP && !wrap_stream(ranks[r], pool, most))
            return fby__plan_fail("the batches of an epoch", err);
    }
    return FBY_OK;
}

fby_status fby__epoch_cut_batches(fby__epoch *own, uint32_t rank, fby_error *err)
{
    const fby__plan *plan = own->plan;
    fby__epoch **ranks = fby__calloc(plan->world_size, sizeof *ranks);
    fby__plan *views = fby__calloc(plan->world_size, sizeof *views); /* the plan as the other ranks have it; borrows all from it */
    fby__pool_scratch *pool = NULL;
    fby_status status = ranks && views ? FBY_OK : fby__fail_nomem(err, "the batches of an epoch");
    if (status == FBY_OK && plan->pool_samples)
        status = fby__pool_scratch_create(plan, &pool, err);
    for (uint32_t r = 0; status == FBY_OK && r < plan->world_size; r++) {
        views[r] = *plan;
        views[r].first_stream = r;
        ranks[r] = own;
        if (r != rank)
            status = fby__epoch_create_uncut(&views[r], own->epoch, NULL, &ranks[r], err);
    }
    if (status == FBY_OK)
        status = settle(ranks, pool, err);
    for (uint32_t r = 0; ranks && r < plan->world_size; r++) {
        if (r == rank || !ranks[r] || ranks[r] == own)
            continue;
        own->n_wrapped += ranks[r]->n_wrapped;
        own->n_dropped += ranks[r]->n_dropped;
        fby__epoch_destroy(ranks[r]);
    }
    fby__pool_scratch_destroy(pool);
    fby__free(views);
    fby__free(ranks);
    if (status == FBY_OK) {
        trim_tables(own);
        trim_phases(own);
    }
    return status;
}
