/*
 * The histogram of durations, and clocks of what overlaps.
 *
 * Bucket layout: values below 8 ns have a bucket each; above, the position of the highest bit and the three bits after it
 * choose one of 8 equal buckets per power of two. A bucket is thus at most 1/8 of its lower end wide, and its middle is within
 * 6.25 % of every value in it.
 *
 *     ns      0 … 7   8 9 … 15   16-17 18-19 … 30-31   …   2^63 …
 *     bucket  0 … 7   8 9 … 15   16    17    … 23      …   488 … 495
 */
#include "trace/trace.h"

#include <assert.h>

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 8)
        return (unsigned)ns;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(ns);
    return (exponent - 2) * 8 + (unsigned)((ns >> (exponent - 3)) & 7);
}

/** The middle of a bucket. */
static uint64_t value_of(unsigned bucket)
{
    if (bucket < 16)
        return bucket;
    unsigned shift = bucket / 8 - 1; /* exponent - 3 */
    uint64_t low = (uint64_t)(8 + bucket % 8) << shift;
    return low + ((uint64_t)1 << shift) / 2;
}

void fby__histogram_add(fby__histogram *h, uint64_t ns)
{
    unsigned bucket = bucket_of(ns);
    assert(bucket < FBY__HISTOGRAM_BUCKETS);
    atomic_fetch_add_explicit(&h->bucket[bucket], 1, memory_order_relaxed);
}

uint64_t fby__histogram_quantile(const fby__histogram *h, double q)
{
    /* One copy first: adds that happen meanwhile must not move the rank that the second pass looks for. */
    uint32_t counts[FBY__HISTOGRAM_BUCKETS];
    uint64_t total = 0;
    for (unsigned i = 0; i < FBY__HISTOGRAM_BUCKETS; i++) {
        counts[i] = atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        total += counts[i];
    }
    if (total == 0)
        return 0;

    uint64_t rank = q <= 0 ? 0 : q >= 1 ? total : (uint64_t)(q * (double)total);
    if (rank >= total)
        rank = total - 1; /* q = 1 is the longest */
    uint64_t seen = 0;
    unsigned i = 0;
    while (seen + counts[i] <= rank)
        seen += counts[i++];
    return value_of(i);
}

#define BUSY_COUNT_BITS 16
#define BUSY_UNIT_BITS 10

void fby__busy_begin(fby__busy *b, uint64_t now_ns)
{
    uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed), next;
    do {
        const uint64_t n = state & ((1u << BUSY_COUNT_BITS) - 1);
        next = n ? state + 1 : now_ns >> BUSY_UNIT_BITS << BUSY_COUNT_BITS | 1;
    } while (!atomic_compare_exchange_weak_explicit(&b->state, &state, next, memory_order_relaxed, memory_order_relaxed));
}

static uint64_t since(uint64_t state, uint64_t now_ns)
{
    const uint64_t began = state >> BUSY_COUNT_BITS, now = now_ns >> BUSY_UNIT_BITS;
    return state & ((1u << BUSY_COUNT_BITS) - 1) && now > began ? (now - began) << BUSY_UNIT_BITS : 0;
}

void fby__busy_end(fby__busy *b, uint64_t now_ns)
{
    const uint64_t state = atomic_fetch_sub_explicit(&b->state, 1, memory_order_relaxed);
    assert(state & ((1u << BUSY_COUNT_BITS) - 1));
    if ((state & ((1u << BUSY_COUNT_BITS) - 1)) == 1)
        atomic_fetch_add_explicit(&b->ns, since(state, now_ns), memory_order_relaxed);
}

uint64_t fby__busy_ns(const fby__busy *b, uint64_t now_ns)
{
    const uint64_t state = atomic_load_explicit(&b->state, memory_order_relaxed);
    return atomic_load_explicit(&b->ns, memory_order_relaxed) + since(state, now_ns);
}

size_t fby__histogram_list(const fby__histogram *h, uint64_t *out_ns, uint64_t *out_counts, size_t room)
{
    size_t n = 0;
    for (unsigned i = 0; i < FBY__HISTOGRAM_BUCKETS; i++) {
        const uint32_t count = atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        if (count && n < room) {
            out_ns[n] = value_of(i);
            out_counts[n] = count;
        }
        n += count > 0;
    }
    return n;
}
