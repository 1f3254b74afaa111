/*
 * From samples of a mixture to batches: what fby__mix_pieces answers, asked from the other side.
 *
 * A sample has a position among its source's slots of a stream. The batches of a phase take consecutive positions, so a table of where each
 * begins says which batch a position is of. It is made before the first sample of a phase is asked for, and has an entry a batch.
 */
#include "plan/mix_internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define AT_ONCE 2048u /* permuted at once: 16 KiB on the stack */
/*
 * By how many slots the share of a source can fall behind its weight over any run of a stream's slots: those of the circle that lie S steps apart
 * are spread less evenly than neighbours, and where a stream ends, slots are moved. tests/plan/test_mix.c looks for more.
 */
#define BEHIND 64u

bool fby__mix_has_destinations(const fby__plan *plan)
{
    bool all = plan->shuffle == FBY__SHUFFLE_SUPERBATCH || plan->shuffle == FBY__SHUFFLE_BLOCK;
    /* A source that is smaller than its share of a superbatch is FULL: all its blocks at once, in no phases that could be asked. */
    for (uint32_t i = 0; i < plan->mix->n && all; i++)
        all = plan->mix->source[i]->shuffle != FBY__SHUFFLE_FULL;
    return all;
}

uint64_t fby__mix_reach_limit(const fby__plan *plan)
{
    const fby__mix *mix = plan->mix;
    uint64_t most = 0;
    for (uint32_t i = 0; i < mix->n; i++) {
        const uint64_t samples = fby__plan_phase_samples(mix->source[i]);
        for (uint32_t e = 0; e < mix->n_epochs; e++) {
            const fby__mix_weights w = fby__mix_weights_of(mix, e);
            if (w.each[i] == 0)
                continue;
            const double slots = (double)(samples + BEHIND) / ((double)w.each[i] / (double)w.sum);
            most = fby__max_u64(most, (uint64_t)fmin(slots / (double)plan->share, 1e18) + 3);
        }
    }
    return most;
}

fby_status fby__mix_reach_begin(fby__epoch *epoch, uint32_t number, fby_error *err)
{
    fby__mix_epoch *mix = epoch->mix;
    const fby__plan *plan = epoch->plan;
    const fby__plan_phase *phase = &epoch->phases[number];
    const uint32_t source = mix->passes[mix->pass_of_phase[number]].source, s = phase->stream - plan->first_stream;
    const uint64_t told = epoch->n_batches - (epoch->n_wrapped > 0), last = fby__min_u64(phase->last_batch + 1, told);
    const uint32_t n = (uint32_t)(last - fby__min_u64(last, phase->first_batch)); /* of a batch that wraps, its pieces tell */
    if (mix->reach[number])
        return FBY_OK;
    fby__mix_reach *reach = fby__malloc(sizeof *reach + (n + 1) * sizeof *reach->begin + n * sizeof *reach->slot);
    if (!reach)
        return fby__fail_nomem(err, "order of an epoch");
    reach->n = n;
    reach->begin = (uint64_t *)(void *)(reach + 1);
    reach->slot = (uint32_t *)(void *)(reach->begin + n + 1);
    reach->begin[0] = 0;
    uint64_t circle[FBY__MIX_SOURCES] = {0}, before[FBY__MIX_SOURCES], after[FBY__MIX_SOURCES], lo, hi;
    fby__mix_walk walk = {.circle = circle};
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t b = phase->first_batch + k;
        uint64_t slot = 0;
        fby__epoch_window(epoch, s, b, &lo, &hi);
        if (k == 0) {
            fby__mix_walk_to(&mix->deal, plan->streams, phase->stream, lo, &walk, before);
            reach->begin[0] = before[source];
        }
        fby__mix_walk_to(&mix->deal, plan->streams, phase->stream, hi, &walk, after);
        slot = fby__epoch_slot_of_stream(epoch, s, b);
        for (uint32_t i = 0; i < source; i++)
            slot += after[i] - before[i];
        reach->slot[k] = (uint32_t)slot; /* within a batch: below 2^31 */
        reach->begin[k + 1] = after[source];
        memcpy(before, after, mix->deal.n * sizeof *before);
    }
    mix->reach[number] = reach;
    return FBY_OK;
}

void fby__mix_reach_end(fby__epoch *epoch, uint32_t phase)
{
    fby__free(epoch->mix->reach[phase]);
    epoch->mix->reach[phase] = NULL;
}

/* The batch that a position goes to, and the slot in it. */
static fby__destination destination_of(const fby__mix_reach *reach, uint64_t position, double per_slot)
{
    if (reach->n == 0 || position < reach->begin[0] || position >= reach->begin[reach->n])
        return (fby__destination){.batch = FBY__NOWHERE};
    uint32_t k = (uint32_t)((double)(position - reach->begin[0]) * per_slot); /* near: sources are spread evenly */
    k = k < reach->n ? k : reach->n - 1;
    while (reach->begin[k] > position)
        k--;
    while (reach->begin[k + 1] <= position)
        k++;
    return (fby__destination){.batch = k, .slot = reach->slot[k] + (uint32_t)(position - reach->begin[k])};
}

void fby__mix_destinations(const fby__epoch *epoch, uint32_t number, uint32_t item, uint64_t first, uint32_t n, fby__destination *out)
{
    const fby__mix_epoch *mix = epoch->mix;
    const fby__mix_pass *pass = &mix->passes[mix->pass_of_phase[number]];
    const fby__plan_phase *phase = &epoch->phases[number], *own = &pass->order->phases[mix->own_of_phase[number]];
    const fby__mix_reach *reach = mix->reach[number];
    const uint32_t s = phase->stream - epoch->plan->first_stream;
    const bool permuted = pass->order->plan->shuffle == FBY__SHUFFLE_SUPERBATCH;
    const uint64_t key = permuted ? fby__epoch_phase_key(pass->order, own) : 0, used = pass->used[s], base = pass->base[s];
    assert(reach && item < phase->n_items && fby__mix_has_destinations(epoch->plan));
    const uint64_t slots = reach->begin[reach->n] - reach->begin[0];
    const double per_slot = slots ? (double)reach->n / (double)slots : 0;
    uint64_t element = phase->items[item].start + first, index[AT_ONCE];
    for (uint32_t done = 0; done < n;) {
        const uint32_t some = n - done < AT_ONCE ? n - done : AT_ONCE;
        if (permuted)
            fby__permute_inverse_many(key, own->n_samples, element, some, index);
        for (uint32_t j = 0; j < some; j++) {
            const uint64_t position = own->begin + (permuted ? index[j] : element + j);
            out[done + j] = position < used ? destination_of(reach, base + position, per_slot) : (fby__destination){.batch = FBY__NOWHERE};
        }
        element += some;
        done += some;
    }
}
