/*
 * The values of a job as one sequence, for makers that work value by value: sample after sample, row after row, element after element. They
 * are copied to a block in the cache, computed with there, and put where the results go.
 */
#ifndef FBY_TRANSFORM_MAKE_VALUES_H
#define FBY_TRANSFORM_MAKE_VALUES_H

#include "transform/transform.h"

enum { FBY__MAKE_BLOCK = 256 }; /* values of a block: 2 KiB as float64 */

/** Where in the sequence. Zero-initialise. */
typedef struct fby__make_cursor {
    uint64_t sample, row;
    uint32_t element;
} fby__make_cursor;

/**
 * Copy the next n values, or as many as are left, of `bytes` each and `width` a row, to `packed`; the cursor moves on. Returns how many.
 */
size_t fby__make_next(const fby__make_job *job, const fby__make_view *view, size_t bytes, uint32_t width, fby__make_cursor *cursor,
                      size_t n, void *packed);

/** One flag for each of the next n values: is it there? The view has flags. */
void fby__make_next_valid(const fby__make_job *job, const fby__make_view *view, uint32_t width, fby__make_cursor cursor, size_t n,
                          uint8_t *packed);

/** Where the result of the next value goes, `bytes` wide; the cursor moves on. There is a next value. */
uint8_t *fby__make_next_result(const fby__make_job *job, size_t bytes, uint32_t width, fby__make_cursor *cursor);

/** Copy n results to where they go; the cursor moves on. There are as many values left. */
void fby__make_put(const fby__make_job *job, size_t bytes, uint32_t width, fby__make_cursor *cursor, size_t n, const void *packed);

/** The sample that the n-th value after the cursor belongs to. */
uint64_t fby__make_sample_of(const fby__make_job *job, uint32_t width, fby__make_cursor cursor, size_t n);

/** The number 1 as an element of a dtype, at the start of 8 bytes; 0 is zeros in all of them. */
uint64_t fby__make_one(fby_dtype dtype);

#endif
