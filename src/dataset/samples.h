/*
 * The sample index: how many samples begin in each block, and where the i-th of them lies.
 *
 *   rows      nothing is stored but the counts
 *   windows   runs of starts that are a stride apart: one a block and series, more where windows touch missing values
 *   groups    starts, two bytes each, in frames of 64
 *
 * A sample belongs to the block of its first row and may end in a later block of the same file: rows are counted from the first row of its
 * own block on, so its end may lie beyond the block's (the halo).
 *
 *   samples.c          the public functions, lookups, splits
 *   samples_windows.c  series → starts of windows
 *   samples_scan.c     the scan of the columns that say where series or groups begin and what is missing
 *   samples_cache.c    what a scan found, on disk
 */
#ifndef FBY_DATASET_SAMPLES_H
#define FBY_DATASET_SAMPLES_H

#include "dataset/dataset.h"

#include <forebay/samples.h>

/** Samples that begin in a block. */
uint64_t fby__samples_of_block(const fby_samples *s, uint32_t block);

/** The number of a block's first sample. */
uint64_t fby__samples_before(const fby_samples *s, uint32_t block);

/** Sample i of a block, i < fby__samples_of_block: its first row, counted from the block's, and its rows. */
void fby__samples_at(const fby_samples *s, uint32_t block, uint64_t i, uint64_t *out_row, uint64_t *out_rows);

/** The rows that samples [lo, hi) of a block need, lo < hi, counted from the block's first; the end may lie beyond the block. */
void fby__samples_range(const fby_samples *s, uint32_t block, uint64_t lo, uint64_t hi, uint64_t *out_begin, uint64_t *out_end);

const fby_dataset *fby__samples_dataset(const fby_samples *s);
size_t fby__samples_memory_bytes(const fby_samples *s);

/** 32 hex digits: what the order depends on, the dataset's identity included. That of plain rows is the dataset's. */
const char *fby__samples_identity(const fby_samples *s);

/** As fby_samples_open for rows, for loaders that were given no samples. */
fby_status fby__samples_rows(fby_dataset *ds, fby_samples **out, fby_error *err);

#endif
