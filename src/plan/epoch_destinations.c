/*
 * From samples to batches: what epoch_lookup.c answers, asked from the other side. Only _begin and _end, of a mixture, allocate and change the
 * epoch.
 */
#include "plan/mix_internal.h"

#include "base/checked.h"

#include <assert.h>

#define AT_ONCE 2048u /* permuted at once: 16 KiB on the stack */

bool fby__plan_has_destinations(const fby__plan *plan)
{
    if (plan->mix)
        return fby__mix_has_destinations(plan);
    return plan->shuffle != FBY__SHUFFLE_FULL && !plan->batch_elements && !plan->pool_samples && !plan->draws.n;
}

uint64_t fby__plan_phase_samples(const fby__plan *plan)
{
    uint64_t most = fby__plan_phase_limit(plan);
    for (uint32_t b = 0; b < plan->n_blocks; b++)
        most = fby__max_u64(most, plan->counts[b]);
    return fby__min_u64(most, plan->n);
}

uint64_t fby__plan_reach_limit(const fby__plan *plan)
{
    if (plan->mix)
        return fby__mix_reach_limit(plan);
    return fby__plan_phase_samples(plan) / (plan->global_batch / plan->streams) + 2;
}

fby_status fby__epoch_destinations_begin(fby__epoch *epoch, uint32_t phase, fby_error *err)
{
    return epoch->mix ? fby__mix_reach_begin(epoch, phase, err) : FBY_OK;
}

void fby__epoch_destinations_end(fby__epoch *epoch, uint32_t phase)
{
    if (epoch->mix)
        fby__mix_reach_end(epoch, phase);
}

uint32_t fby__epoch_slot_of_stream(const fby__epoch *epoch, uint32_t s, uint64_t b)
{
    uint64_t slot = 0;
    for (uint32_t k = 0; k < s; k++) { /* of the last batch, streams give what they have left */
        uint64_t lo, hi;
        fby__epoch_window(epoch, k, b, &lo, &hi);
        slot += hi - lo;
    }
    return (uint32_t)slot; /* within a batch: below 2^31 */
}

/* x / d without a division, which takes as long as the permutation: exact for x and d below 2^32 (D. Lemire et al., "Faster remainder by
 * direct computation", 2019). */
static inline uint64_t divide(uint64_t x, uint64_t d, uint64_t magic)
{
    return magic ? (uint64_t)((unsigned __int128)magic * x >> 64) : x / d;
}

static uint64_t magic_of(uint64_t largest, uint64_t d)
{
    return d > 1 && d <= UINT32_MAX && largest <= UINT32_MAX ? UINT64_MAX / d + 1 : 0;
}

void fby__epoch_destinations(const fby__epoch *epoch, uint32_t phase_index, uint32_t item, uint64_t first, uint32_t n,
                             fby__destination *out)
{
    const fby__plan *plan = epoch->plan;
    const fby__plan_phase *phase = &epoch->phases[phase_index];
    if (epoch->mix) {
        fby__mix_destinations(epoch, phase_index, item, first, n, out);
        return;
    }
    assert(phase_index < epoch->n_phases && item < phase->n_items && fby__plan_has_destinations(epoch->plan));
    const bool permuted = plan->shuffle == FBY__SHUFFLE_SUPERBATCH;
    const uint32_t s = phase->stream - plan->first_stream;
    const uint64_t last = epoch->n_batches - 1 - phase->first_batch; /* counted as destinations are */
    const uint64_t told = last + (epoch->n_wrapped == 0);
    const uint64_t origin = phase->first_batch * plan->stride + plan->offset, magic = magic_of(phase->end, plan->stride);
    const uint32_t slot = fby__epoch_slot_of_stream(epoch, s, 0), last_slot = fby__epoch_slot_of_stream(epoch, s, epoch->n_batches - 1);
    const uint64_t key = permuted ? fby__epoch_phase_key(epoch, phase) : 0;
    uint64_t element = phase->items[item].start + first, index[AT_ONCE];
    for (uint32_t done = 0; done < n;) {
        const uint32_t some = n - done < AT_ONCE ? n - done : AT_ONCE;
        if (permuted)
            fby__permute_inverse_many(key, phase->n_samples, element, some, index);
        for (uint32_t j = 0; j < some; j++) {
            const uint64_t position = phase->begin + (permuted ? index[j] : element + j);
            const uint64_t from = position - origin, b = divide(from, plan->stride, magic), within = from - b * plan->stride;
            const bool is_wanted = position >= origin && within < plan->share && b < told;
            out[done + j] = (fby__destination){.batch = is_wanted ? (uint32_t)b : FBY__NOWHERE,
                                               .slot = (b == last ? last_slot : slot) + (uint32_t)within};
        }
        element += some;
        done += some;
    }
}
