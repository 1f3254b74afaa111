/*
 * How far ahead rows that lie anywhere are fetched, for the loops that copy them one after the other.
 *
 * A core waits for some dozens of lines at once; what is fetched beyond them queues, and may leave the cache before its turn. So short rows are
 * fetched many ahead, long ones few: the hardware's own streamer fetches the rest of those.
 */
#ifndef FBY_BLOCK_PREFETCH_H
#define FBY_BLOCK_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    FBY__LINE_BYTES = 64,
    FBY__LINES_AHEAD = 64,
    FBY__LEAST_AHEAD = 6,
    FBY__MOST_AHEAD = 64,
    FBY__ROW_LINES = 8, /* fetched of a row: beyond, the hardware's streamer has caught on */
    /* Rows of a page or a few: the streamer stops at every page, so all of a row is fetched, two rows ahead, a line a line copied. */
    FBY__PAGED_MIN = 2048,
    FBY__PAGED_MAX = 32768,
    FBY__PAGED_AHEAD = 2,
};

static inline size_t fby__rows_ahead(size_t row_bytes)
{
    const size_t lines = (row_bytes + FBY__LINE_BYTES - 1) / FBY__LINE_BYTES, rows = FBY__LINES_AHEAD / (lines ? lines : 1);
    return rows < FBY__LEAST_AHEAD ? FBY__LEAST_AHEAD : rows > FBY__MOST_AHEAD ? FBY__MOST_AHEAD : rows;
}

static inline void fby__prefetch_row(const uint8_t *row, size_t row_bytes)
{
    for (size_t at = 0; at < row_bytes && at < FBY__ROW_LINES * FBY__LINE_BYTES; at += FBY__LINE_BYTES)
        __builtin_prefetch(row + at, 0, 0);
}

/** The values of a sample that comes next, while another is worked on: into the L2, since so many at once would hold up the L1. */
static inline void fby__prefetch_values(const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes && at < FBY__LINES_AHEAD * FBY__LINE_BYTES; at += FBY__LINE_BYTES)
        __builtin_prefetch(from + at, 0, 2);
}

/** The rows that a loop would otherwise meet before it has fetched any. */
static inline void fby__prefetch_first(const uint8_t *const *rows, size_t offset, size_t row_bytes, size_t n)
{
    const size_t ahead = fby__rows_ahead(row_bytes);
    for (size_t i = 0; i < n && i < ahead; i++)
        fby__prefetch_row(rows[i] + offset, row_bytes);
}

#endif
