/*
 * The sample index: how many samples begin in each block, and where the i-th of them lies.
 *
 *   rows      nothing is stored but the counts
 *   windows   runs of starts that are a stride apart: one a block and series, more where windows touch missing values
 *   groups    starts, two bytes each, in frames of 64
 *   choices   of any of them: the numbers of the samples that are in, a few bits each
 *
 * A sample belongs to the block of its first row and may end in a later block of the same file: rows are counted from the first row of its
 * own block on, so its end may lie beyond the block's (the halo).
 *
 *   samples.c          opening, counts, lookups
 *   windows.c  series → starts of windows
 *   groups.c   starts of groups, packed
 *   scan.c     the scan of the columns that say where series or groups begin and what is missing
 *   scattered.c  notes: do the rows of a key lie together, shuffled.c: do rows follow one another as in their source
 *   columns.c  reading a few columns once, by several threads
 *   table.c    groups from an index table; table_check.c: is the table of these files?
 *   cache.c    what a scan found, on disk
 *   choice.c   which samples are in, and how often
 *   values.c   the value of a column that each sample has
 *   select.c   choices by such values, a side table's too
 *   split.c    splits: by files, and by the rows of series
 *   split_keys.c     … by keys
 *   split_samples.c  … by samples, and by a column of times
 *   take.c     the first ones, a draw of them, those that are listed
 *   keys.c     which samples have which key
 *   weights.c  samples that come more than once
 *   draw.c     samples that are drawn anew in every epoch
 */
#ifndef FBY_SAMPLES_SAMPLES_H
#define FBY_SAMPLES_SAMPLES_H

#include "dataset/dataset.h"

#include <forebay/samples.h>

/*
 * Samples that are drawn anew in every epoch: all that follows is about those that are drawn from; an epoch's draws are numbered from 0, block by
 * block. fby_samples_count is the number of draws.
 */
bool fby__samples_are_drawn(const fby_samples *s);
/** Draws of a block that no epoch has fewer or more of. */
void fby__samples_draw_bounds(const fby_samples *s, uint32_t block, uint64_t *out_least, uint64_t *out_most);
/** How many of an epoch's draws each block has. O(blocks). */
void fby__samples_draws(const fby_samples *s, uint64_t epoch, uint64_t *out);
/** Which samples n of an epoch's draws are: their numbers over all blocks. */
void fby__samples_drawn(const fby_samples *s, uint64_t epoch, const uint64_t *draw, uint32_t n, uint64_t *out);

/** Samples that begin in a block. */
uint64_t fby__samples_of_block(const fby_samples *s, uint32_t block);

/** The numbers of the blocks' first samples, borrowed. */
const uint64_t *fby__samples_first(const fby_samples *s);

/** Sample i of a block, i < fby__samples_of_block: its first row, counted from the block's, and its rows. */
void fby__samples_at(const fby_samples *s, uint32_t block, uint64_t i, uint64_t *out_row, uint64_t *out_rows);

/** Is sample i of the block its row i, for every i? Then nobody needs to ask fby__samples_at. */
bool fby__samples_are_rows(const fby_samples *s, uint32_t block);
/** True: it is so in all blocks; false: it may be so in some. */
bool fby__samples_are_all_rows(const fby_samples *s);

/** The first sample of a block that begins at a row, counted from the block's first, or after it: fby__samples_of_block when there is none. */
uint64_t fby__samples_from(const fby_samples *s, uint32_t block, uint64_t row);

/** The rows that samples [lo, hi) of a block need, lo < hi, counted from the block's first; the end may lie beyond the block. */
void fby__samples_range(const fby_samples *s, uint32_t block, uint64_t lo, uint64_t hi, uint64_t *out_begin, uint64_t *out_end);

/**
 * The next run of rows that samples [*io_lo, hi) of a block need, counted from the block's first row: runs come in order, apart from one
 * another by more than `gap` rows that no sample needs. *io_lo moves to the first sample that the run does not hold; false: there are none.
 * Every sample lies wholly in one run. O(1) a run where all samples of a block are in, O(samples) where some are chosen.
 */
bool fby__samples_next_span(const fby_samples *s, uint32_t block, uint64_t *io_lo, uint64_t hi, uint64_t gap, uint64_t *out_begin,
                            uint64_t *out_end);

const fby_dataset *fby__samples_dataset(const fby_samples *s);
/** Are these groups, found by this column among others? Then all rows of a group have one value of it. Not of an index table's groups. */
bool fby__samples_group_by(const fby_samples *s, const char *column);
size_t fby__samples_memory_bytes(const fby_samples *s);

/** 32 hex digits: what the order depends on, the dataset's identity included. That of plain rows is the dataset's. */
const char *fby__samples_identity(const fby_samples *s);

/** Samples [lo, hi) of a block, which have one key. */
typedef struct fby__key_span {
    uint32_t block, key;
    uint64_t lo, hi;
} fby__key_span;

typedef struct fby__key_spans {
    fby__key_span *spans; /* owned: by block and lo; every sample lies in one */
    size_t n;
    uint32_t n_keys; /* numbered as they appear: in file order */
} fby__key_spans;

/**
 * The spans of samples with one value of a column (NULL: the key of the samples); at most `limit` of them. Reads that column, once.
 * FBY_E_ARG, FBY_E_SCHEMA: rows have no key, no such column. FBY_E_DATA: a sample without a key. FBY_E_UNSUPPORTED: more spans, or a column
 * that has no single value.
 */
fby_status fby__samples_key_spans(const fby_samples *s, const char *column, size_t limit, int n_threads, fby__key_spans *out,
                                  fby_error *err);
void fby__key_spans_fini(fby__key_spans *spans);

/** As fby_samples_open for rows, for loaders that were given no samples. */
fby_status fby__samples_rows(fby_dataset *ds, fby_samples **out, fby_error *err);

#endif
