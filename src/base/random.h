/*
 * Counter-based random numbers: a value is a function of (key, counter), so any thread can compute
 * the k-th number without the ones before it.
 * Philox4x32-10: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11. And Philox2x32-7 of the same paper, which passes
 * BigCrush with no rounds to spare, for what is drawn sample by sample and needs no more than to look random.
 */
#ifndef FBY_BASE_RANDOM_H
#define FBY_BASE_RANDOM_H

#include <stdint.h>

typedef struct fby__philox {
    uint32_t v[4];
} fby__philox;

fby__philox fby__philox4x32(uint64_t key, uint64_t counter_lo, uint64_t counter_hi);

enum { FBY__PHILOX2_ROUNDS = 7 };
#define FBY__PHILOX2_FACTOR UINT32_C(0xD256D193)
#define FBY__PHILOX2_STEP UINT32_C(0x9E3779B9) /* of the key, a round */

/** Two numbers of 32 bits of (key, counter), v[0] in the low half: a third of fby__philox4x32's multiplications. */
static inline uint64_t fby__philox2x32(uint32_t key, uint64_t counter)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    for (int round = 0; round < FBY__PHILOX2_ROUNDS; round++, key += FBY__PHILOX2_STEP) {
        const uint64_t p = (uint64_t)FBY__PHILOX2_FACTOR * c0;
        c0 = (uint32_t)(p >> 32) ^ c1 ^ key;
        c1 = (uint32_t)p;
    }
    return (uint64_t)c1 << 32 | c0;
}

/** One 64-bit number of (key, counter). */
static inline uint64_t fby__random_u64(uint64_t key, uint64_t counter_lo, uint64_t counter_hi)
{
    fby__philox r = fby__philox4x32(key, counter_lo, counter_hi);
    return (uint64_t)r.v[1] << 32 | r.v[0];
}

/** A sequential reader over one key: for shuffles and tests. */
typedef struct fby__random {
    uint64_t key, stream, counter;
} fby__random;

static inline uint64_t fby__random_next(fby__random *r) { return fby__random_u64(r->key, r->counter++, r->stream); }

/** Uniform in [0, n), n > 0, without bias (rejection). */
uint64_t fby__random_below(fby__random *r, uint64_t n);

/** No function of anything, and hard to guess: for names and seeds that nobody is to know before. */
uint64_t fby__random_unpredictable(void);

#endif
