/*
 * Counters, stage clocks and a histogram: cheap enough to stay on.
 * One struct a loader. Workers add with relaxed atomics, and only the consumer adds to what is the consumer's; a reader takes a snapshot,
 * whose fields may be of slightly different times.
 */
#ifndef FBY_TRACE_TRACE_H
#define FBY_TRACE_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/** Where time goes. READ is the wait of I/O batches; DECODE excludes DECOMPRESS; WAIT and WORK are the consumer's. */
typedef enum fby__stage {
    FBY__STAGE_READ,
    FBY__STAGE_DECOMPRESS,
    FBY__STAGE_DECODE,
    FBY__STAGE_ASSEMBLE,
    FBY__STAGE_TRANSFORM,
    FBY__STAGE_TRANSFER,
    FBY__STAGE_WAIT,
    FBY__STAGE_WORK,
    FBY__STAGE_COUNT
} fby__stage;

typedef enum fby__counter {
    FBY__COUNT_BYTES_READ,
    FBY__COUNT_BYTES_DECOMPRESSED,
    FBY__COUNT_BYTES_DECODED,
    FBY__COUNT_BYTES_DELIVERED,
    FBY__COUNT_BLOCKS_READ,
    FBY__COUNT_BLOCKS_CACHED,
    FBY__COUNT_BATCHES,
    FBY__COUNT_SAMPLES,
    FBY__COUNTER_COUNT
} fby__counter;

/** A histogram of durations: 8 buckets per power of two of nanoseconds, so quantiles are within 6.25 %. */
#define FBY__HISTOGRAM_BUCKETS 512
typedef struct fby__histogram {
    _Atomic uint32_t bucket[FBY__HISTOGRAM_BUCKETS];
} fby__histogram;

/**
 * For how long something was under way, however many at a time. One word says since when, in units of 1,024 ns, and how many there are, so
 * that whoever ends the last knows when the first began.
 */
typedef struct fby__busy {
    _Atomic uint64_t state; /* relaxed: since << 16 | how many */
    _Atomic uint64_t ns;
} fby__busy;

void fby__busy_begin(fby__busy *b, uint64_t now_ns);
void fby__busy_end(fby__busy *b, uint64_t now_ns);
/** In all, that under way included. */
uint64_t fby__busy_ns(const fby__busy *b, uint64_t now_ns);

typedef struct fby__trace {
    _Atomic uint64_t stage_ns[FBY__STAGE_COUNT];
    _Atomic uint64_t counter[FBY__COUNTER_COUNT];
    fby__histogram wait; /* the consumer's wait for each batch */
    fby__busy reading;   /* a file is being opened, its metadata or its data read: without what overlaps */
    fby__busy no_room;   /* no block can be loaded for want of budget, and none is being loaded */
} fby__trace;

static inline void fby__trace_count(fby__trace *t, fby__counter c, uint64_t n)
{
    atomic_fetch_add_explicit(&t->counter[c], n, memory_order_relaxed);
}
static inline void fby__trace_stage(fby__trace *t, fby__stage s, uint64_t ns)
{
    atomic_fetch_add_explicit(&t->stage_ns[s], ns, memory_order_relaxed);
}
/** For sums that only one thread adds to: without a locked instruction. */
static inline void fby__trace_add_alone(_Atomic uint64_t *sum, uint64_t n)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + n, memory_order_relaxed);
}
static inline void fby__trace_count_alone(fby__trace *t, fby__counter c, uint64_t n) { fby__trace_add_alone(&t->counter[c], n); }
static inline void fby__trace_stage_alone(fby__trace *t, fby__stage s, uint64_t ns) { fby__trace_add_alone(&t->stage_ns[s], ns); }
static inline uint64_t fby__trace_counter(const fby__trace *t, fby__counter c)
{
    return atomic_load_explicit(&t->counter[c], memory_order_relaxed);
}

void fby__histogram_add(fby__histogram *h, uint64_t ns);
/** The duration below which a share q (0..1) of the values lies; 0 when empty. */
uint64_t fby__histogram_quantile(const fby__histogram *h, double q);

/** Ranges of durations that have values: their middles and counts, up to `room`. Returns how many there are. */
size_t fby__histogram_list(const fby__histogram *h, uint64_t *out_ns, uint64_t *out_counts, size_t room);

#endif
