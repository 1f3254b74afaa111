/*
 * Counters, stage clocks and a histogram: cheap enough to stay on.
 * One struct per loader; workers add with relaxed atomics, the consumer alone to what is the consumer's, a reader takes a snapshot that may
 * tear between fields.
 */
#ifndef FBY_TRACE_TRACE_H
#define FBY_TRACE_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

/** Where time goes. READ is the wait of I/O batches; DECODE excludes DECOMPRESS; WAIT and WORK are the consumer's. */
typedef enum fby__stage {
    FBY__STAGE_OPEN,
    FBY__STAGE_READ,
    FBY__STAGE_DECOMPRESS,
    FBY__STAGE_DECODE,
    FBY__STAGE_ASSEMBLE,
    FBY__STAGE_TRANSFORM,
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
    FBY__COUNT_READS,
    FBY__COUNTER_COUNT
} fby__counter;

/** A histogram of durations: 8 buckets per power of two of nanoseconds, so quantiles are within 9 %. */
#define FBY__HISTOGRAM_BUCKETS 512
typedef struct fby__histogram {
    _Atomic uint32_t bucket[FBY__HISTOGRAM_BUCKETS];
} fby__histogram;

typedef struct fby__trace {
    _Atomic uint64_t stage_ns[FBY__STAGE_COUNT];
    _Atomic uint64_t stage_calls[FBY__STAGE_COUNT];
    _Atomic uint64_t counter[FBY__COUNTER_COUNT];
    fby__histogram wait; /* the consumer's wait for each batch */
} fby__trace;

static inline void fby__trace_count(fby__trace *t, fby__counter c, uint64_t n)
{
    atomic_fetch_add_explicit(&t->counter[c], n, memory_order_relaxed);
}
static inline void fby__trace_stage(fby__trace *t, fby__stage s, uint64_t ns)
{
    atomic_fetch_add_explicit(&t->stage_ns[s], ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->stage_calls[s], 1, memory_order_relaxed);
}
/** Those that one thread alone adds to: without a locked instruction. */
static inline void fby__trace_add_alone(_Atomic uint64_t *sum, uint64_t n)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + n, memory_order_relaxed);
}
static inline void fby__trace_count_alone(fby__trace *t, fby__counter c, uint64_t n) { fby__trace_add_alone(&t->counter[c], n); }
static inline void fby__trace_stage_alone(fby__trace *t, fby__stage s, uint64_t ns)
{
    fby__trace_add_alone(&t->stage_ns[s], ns);
    fby__trace_add_alone(&t->stage_calls[s], 1);
}
static inline uint64_t fby__trace_counter(const fby__trace *t, fby__counter c)
{
    return atomic_load_explicit(&t->counter[c], memory_order_relaxed);
}

void fby__histogram_add(fby__histogram *h, uint64_t ns);
/** The duration below which a share q (0..1) of the values lies; 0 when empty. */
uint64_t fby__histogram_quantile(const fby__histogram *h, double q);

#endif
