/*
 * Where samples go when a data set is packed (docs/pack.md): what every task of a pack computes alone, and what never changes, because two
 * halves of one pack may be run by different machines, and a pack is to be the same bytes whoever runs it.
 *
 *     samples, file order      0 1 2 3 4 5 6 7 8 9            N of them, block after block
 *                                  │ π
 *     destinations             7 2 9 0 4 │ 1 8 3 │ 6 5        rows of the packed data set, in its file order
 *                              bucket 0  │   1   │  2         n buckets: ranges of destinations, cut at multiples of `unit`
 *
 *   1. Destination d holds the d-th sample of the plan's full shuffle of these samples, with this seed, in epoch 0, of one stream; without
 *      shuffle, sample d. By a key there is one such order for each of its values: keys.h.
 *   2. π depends on N and the seed alone. The number of buckets, which memory and tasks decide, moves no sample.
 *   3. A bucket's rows are whole units (record batches, or files, of the pack), but for the last ones of the data set: buckets are written
 *      apart from each other. By a key a bucket ends where a file does, or, in a large one, a batch (layout.c).
 */
#ifndef FBY_PACK_ORDER_H
#define FBY_PACK_ORDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fby__pack_order {
    uint64_t n; /* samples, below 2^62 */
    uint64_t unit;
    uint64_t key;
    bool shuffled;
} fby__pack_order;

/** unit ≥ 1. */
fby__pack_order fby__pack_order_of(uint64_t n_samples, uint64_t unit, bool shuffled, uint64_t seed);

/** π of samples [first, first + count). */
void fby__pack_destinations(const fby__pack_order *order, uint64_t first, uint32_t count, uint64_t *out);

/** The first destination of bucket k of n ≥ 1; of k = n, where the last one ends. A bucket may be empty. */
uint64_t fby__pack_bucket_begin(const fby__pack_order *order, uint32_t k, uint32_t n);

/* ---- how many tasks ---- */

#define FBY__PACK_BUCKETS 65536u        /* at most */
#define FBY__PACK_BUCKET_ROW_BYTES 20.0 /* where a row of a bucket lies, and where it goes */

/**
 * How many buckets and scatter tasks there are for rows of about row_bytes in memory, when a task may hold task_bytes: half of it is a bucket,
 * with a quarter to spare, since rows vary; a quarter is rows on their way. Does not depend on the machine. At least 1; a double, since it may be too large.
 */
double fby__pack_buckets_for(uint64_t rows, double row_bytes, uint64_t task_bytes);
/** What a task has to hold so that there are no more than FBY__PACK_BUCKETS. */
double fby__pack_task_bytes_for(uint64_t rows, double row_bytes);
double fby__pack_scatters_for(uint64_t rows, double row_bytes, uint64_t task_bytes);

#endif
