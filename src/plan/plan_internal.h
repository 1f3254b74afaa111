/* A plan's inside, and the domains that keep its random numbers apart. */
#ifndef FBY_PLAN_PLAN_INTERNAL_H
#define FBY_PLAN_PLAN_INTERNAL_H

#include "plan/plan.h"

#define FBY__PLAN_MAX_SAMPLES ((uint64_t)1 << 62) /* what the permutation reaches; leaves room for position + batch */
#define FBY__PLAN_MAX_BATCH ((uint64_t)1 << 31)   /* a piece counts its samples in 32 bits */
#define FBY__PLAN_MAX_STREAMS ((uint32_t)1 << 20)

/* Second counter of Philox under the user's seed; the first is the epoch. Saved states depend on these numbers. */
#define FBY__PLAN_DOMAIN_BLOCKS 1u
#define FBY__PLAN_DOMAIN_SAMPLES 2u

/*
 * A stream of `length` positions gives `take` of them to this rank in batch b: [b*stride + offset, … + take).
 * With streams, stride = take = G/S and offset = 0. With NONE there is one stream, stride = G, take = G/R, offset =
 * r*G/R.
 */
struct fby__plan {
    uint64_t *counts; /* owned, n_blocks */
    uint32_t n_blocks;
    uint32_t n_nonzero; /* blocks with samples */
    uint64_t largest;   /* samples of the largest block */
    uint64_t n;         /* samples in all */
    uint64_t seed;
    fby__shuffle shuffle; /* in effect */
    fby__tail tail;
    uint64_t global_batch; /* G */
    uint64_t phase_limit;
    uint64_t n_batches;
    uint32_t streams; /* S */
    uint32_t world_size;
    uint32_t first_stream, n_streams; /* of this rank */
    uint64_t stride, offset, take;
};

/** Where stream s begins in the order of all samples; s = S gives n. */
static inline uint64_t fby__plan_stream_begin(const fby__plan *plan, uint32_t s)
{
    return (uint64_t)((unsigned __int128)s * plan->n / plan->streams);
}

#endif
