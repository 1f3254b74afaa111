/*
 * Options and counts: checks that they fit each other, and what follows from them for every epoch (streams, batches,
 * the size of a phase). The order itself is built by epoch.c.
 */
#include "plan/plan_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/hash.h"

#include <inttypes.h>
#include <string.h>

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static fby_status check_opts(const fby__plan_opts *o, fby_error *err)
{
    if ((unsigned)o->shuffle > FBY__SHUFFLE_NONE || (unsigned)o->tail > FBY__TAIL_WRAP)
        return fby__fail(err, FBY_E_ARG, "unknown shuffle (%d) or tail (%d)", (int)o->shuffle, (int)o->tail);
    if (o->global_batch == 0 || o->global_batch > FBY__PLAN_MAX_BATCH)
        return fby__fail(err, FBY_E_ARG, "the batch over all ranks has %" PRIu64 " samples: choose from 1 to 2^31",
                         o->global_batch);
    if (o->superbatch_samples == 0)
        return fby__fail(err, FBY_E_ARG, "the superbatch has no samples: choose at least 1");
    if (o->streams == 0 || o->streams > FBY__PLAN_MAX_STREAMS)
        return fby__fail(err, FBY_E_ARG, "%u streams: choose from 1 to %u", o->streams, FBY__PLAN_MAX_STREAMS);
    if (o->world_size == 0 || o->rank >= o->world_size)
        return fby__fail(err, FBY_E_ARG, "rank %u of %u: ranks count from 0 and lie below the world size", o->rank,
                         o->world_size);
    if (o->tail == FBY__TAIL_KEEP && o->world_size > 1)
        return fby__fail(
            err, FBY_E_ARG,
            "a shorter last batch cannot be kept with %u ranks, which must all have the same number of steps: "
            "choose tail wrap or drop",
            o->world_size);
    if (o->global_batch % o->world_size != 0)
        return fby__fail(err, FBY_E_ARG, "%u ranks cannot share a batch of %" PRIu64 " samples equally", o->world_size,
                         o->global_batch);
    uint64_t streams = gcd(o->streams, o->global_batch);
    if (o->shuffle != FBY__SHUFFLE_NONE && streams % o->world_size != 0)
        return fby__fail(err, FBY_E_ARG,
                         "%u ranks cannot own equal parts of %" PRIu64 " streams (%u wanted, batch of %" PRIu64
                         " over all ranks): let the ranks divide the streams, and the streams the batch",
                         o->world_size, streams, o->streams, o->global_batch);
    return FBY_OK;
}

static fby_status count_samples(fby__plan *plan, fby_error *err)
{
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        uint64_t count = plan->counts[b];
        if (!fby__add_u64_checked(plan->n, count, &plan->n) || plan->n > FBY__PLAN_MAX_SAMPLES)
            return fby__fail(err, FBY_E_ARG, "more than 2^62 samples, counted up to block %" PRIu32, b);
        plan->n_nonzero += count != 0;
        plan->largest = fby__max_u64(plan->largest, count);
    }
    if (plan->n == 0)
        return fby__fail(err, FBY_E_ARG, "there are no samples to order: %" PRIu32 " blocks, all empty",
                         plan->n_blocks);
    return FBY_OK;
}

/* Everything that follows from counts and options. */
static fby_status derive(fby__plan *plan, const fby__plan_opts *o, fby_error *err)
{
    const uint64_t n = plan->n, g = o->global_batch;
    plan->seed = o->seed;
    plan->tail = o->tail;
    plan->global_batch = g;
    plan->world_size = o->world_size;
    plan->shuffle =
        o->shuffle == FBY__SHUFFLE_SUPERBATCH && n <= o->superbatch_samples ? FBY__SHUFFLE_FULL : o->shuffle;
    if (plan->shuffle == FBY__SHUFFLE_NONE) {
        plan->streams = plan->n_streams = 1;
        plan->stride = g;
        plan->take = g / o->world_size;
        plan->offset = plan->take * o->rank;
    } else {
        plan->streams = (uint32_t)gcd(o->streams, g);
        plan->n_streams = plan->streams / o->world_size;
        plan->first_stream = plan->n_streams * o->rank;
        plan->stride = plan->take = g / plan->streams;
    }
    if (plan->n_nonzero > UINT32_MAX - plan->streams)
        return fby__fail(err, FBY_E_ARG, "%" PRIu32 " blocks are too many to cut into %" PRIu32 " streams",
                         plan->n_nonzero, plan->streams);

    switch (plan->shuffle) {
    case FBY__SHUFFLE_FULL:
        plan->phase_limit = n;
        break;
    case FBY__SHUFFLE_SUPERBATCH:
        plan->phase_limit = fby__max_u64(1, o->superbatch_samples / plan->streams);
        break;
    case FBY__SHUFFLE_BLOCK:
    case FBY__SHUFFLE_NONE:
        plan->phase_limit = plan->largest;
        break;
    }

    /* floor(floor(n/S) / (G/S)) = floor(n/G) and the same for ceil, so the streams agree on the number of batches. */
    plan->n_batches = plan->tail == FBY__TAIL_DROP ? n / g : fby__div_up_u64(n, g);
    if (plan->n_batches == 0)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu64 " samples do not fill one batch of %" PRIu64
                         " over all ranks, and tail drop leaves the rest out: no batch is left; "
                         "choose a smaller batch or another tail",
                         n, g);
    if (plan->tail == FBY__TAIL_WRAP && n < plan->streams)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu64 " samples leave some of %" PRIu32 " streams empty, with nothing to wrap: "
                         "choose at most %" PRIu64 " streams",
                         n, plan->streams, n);
    return FBY_OK;
}

fby_status fby__plan_create(const uint64_t *counts, uint32_t n_blocks, const fby__plan_opts *opts, fby__plan **out,
                            fby_error *err)
{
    FBY__TRY(check_opts(opts, err));
    fby_status status = FBY_OK;
    fby__plan *plan = fby__calloc(1, sizeof *plan);
    if (!plan)
        return fby__fail_nomem(err, "plan of an epoch");
    plan->n_blocks = n_blocks;
    plan->counts = fby__calloc(n_blocks, sizeof *plan->counts);
    if (!plan->counts) {
        status = fby__fail_nomem(err, "sample counts of blocks");
        goto fail;
    }
    if (n_blocks)
        memcpy(plan->counts, counts, n_blocks * sizeof *counts);
    if ((status = count_samples(plan, err)) != FBY_OK || (status = derive(plan, opts, err)) != FBY_OK)
        goto fail;
    *out = plan;
    return FBY_OK;
fail:
    fby__plan_destroy(plan);
    return status;
}

void fby__plan_destroy(fby__plan *plan)
{
    if (!plan)
        return;
    fby__free(plan->counts);
    fby__free(plan);
}

uint32_t fby__plan_streams(const fby__plan *plan) { return plan->streams; }
uint64_t fby__plan_batch_count(const fby__plan *plan) { return plan->n_batches; }
uint64_t fby__plan_phase_limit(const fby__plan *plan) { return plan->phase_limit; }
fby__shuffle fby__plan_shuffle(const fby__plan *plan) { return plan->shuffle; }
fby__tail fby__plan_tail(const fby__plan *plan) { return plan->tail; }
uint64_t fby__plan_seed(const fby__plan *plan) { return plan->seed; }
uint64_t fby__plan_global_batch(const fby__plan *plan) { return plan->global_batch; }
uint32_t fby__plan_world_size(const fby__plan *plan) { return plan->world_size; }
uint64_t fby__plan_samples(const fby__plan *plan) { return plan->n; }
uint64_t fby__plan_counts_hash(const fby__plan *plan) { return fby__hash(plan->counts, plan->n_blocks * sizeof *plan->counts).lo; }
