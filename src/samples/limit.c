/* Some of the samples: the first ones, a draw, or those that are listed. */
#include "samples/values.h"

#include "base/random.h"

#include "base/alloc.h"

/* ---- limits ---- */

/* D. E. Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S: each of `left` samples is taken with chance wanted / left. */
static fby_status choose_some(fby__sample_counts *c, const fby_samples *s, uint64_t wanted, bool random, uint64_t seed, fby_error *err)
{
    fby__random draw = {.key = seed, .stream = 0x4c494d4954}; /* "LIMIT" */
    uint64_t left = fby_samples_count(s);
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds); b++) {
        uint64_t n = fby__samples_of_block(s, b);
        for (uint64_t i = 0; i < n && wanted > 0; i++, left--) {
            if (random && fby__random_below(&draw, left) >= wanted)
                continue;
            FBY__TRY(fby__sample_counts_put(c, b, i, 1, err));
            wanted--;
        }
        if (n)
            FBY__TRY(fby__sample_counts_close(c, b, err));
    }
    return FBY_OK;
}

fby_status fby_samples_limit(const fby_samples *samples, uint64_t n, bool random, uint64_t seed, fby_samples **out, fby_error *err)
{
    fby__sample_counts counts;
    if (n == 0)
        return fby__fail(err, FBY_E_ARG, "a limit of 0 leaves no sample");
    FBY__TRY(fby__samples_refuse_drawn(samples, "limit", err));
    fby_status status = fby__sample_counts_init(&counts, samples, err);
    if (status == FBY_OK)
        status = choose_some(&counts, samples, n, random, seed, err);
    if (status == FBY_OK)
        status = fby__sample_counts_choose(&counts, "the limit", out, err);
    fby__sample_counts_fini(&counts);
    return status;
}
