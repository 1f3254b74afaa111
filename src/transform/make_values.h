/*
 * Values of a run as one sequence, for makers that work on a value at a time: sample after sample, of each its rows, of each row its
 * elements. They are taken to a block in the cache, computed with, and put where the results go.
 */
#ifndef FBY_TRANSFORM_MAKE_VALUES_H
#define FBY_TRANSFORM_MAKE_VALUES_H

#include "transform/transform.h"

enum { FBY__MAKE_BLOCK = 256 }; /* values of a block: 2 KiB as float64 */

/** A place in the sequence. Zero-initialise. */
typedef struct fby__make_place {
    uint64_t sample, row;
    uint32_t element;
} fby__make_place;

/** Copy the next n values, or as many as are left, of `bytes` each and `width` a row, to `packed`; `place` moves on. Returns how many. */
size_t fby__make_take(const fby__make_run *run, const fby__make_view *view, size_t bytes, uint32_t width, fby__make_place *place, size_t n,
                      void *packed);

/** Are the next n values there, one flag each? The view has flags. */
void fby__make_take_valid(const fby__make_run *run, const fby__make_view *view, uint32_t width, fby__make_place place, size_t n,
                          uint8_t *packed);

/** Where the result of the next value goes, each of `bytes`; `place` moves on. The value is there. */
uint8_t *fby__make_next_result(const fby__make_run *run, size_t bytes, uint32_t width, fby__make_place *place);

/** Copy n values to where results go; `place` moves on. They fit. */
void fby__make_put(const fby__make_run *run, size_t bytes, uint32_t width, fby__make_place *place, size_t n, const void *packed);

/** The sample of the value n after `place`. */
uint64_t fby__make_sample_of(const fby__make_run *run, uint32_t width, fby__make_place place, size_t n);

/** The number 1 as an element of a dtype, at the start of 8 bytes; 0 is zeros in all of them. */
uint64_t fby__make_one(fby_dtype dtype);

#endif
