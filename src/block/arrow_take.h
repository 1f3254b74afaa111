/*
 * Rows of several record batches, gathered into one: what pyarrow calls take, over types as arrow_flat.h has them.
 *
 *   1. What comes out is a function of the values alone: values under a null are 0 or empty, a validity without nulls is left out, offsets
 *      begin at 0. So the same rows are the same bytes, wherever they lay before.
 */
#ifndef FBY_BLOCK_ARROW_TAKE_H
#define FBY_BLOCK_ARROW_TAKE_H

#include "base/error.h"

#include <forebay/arrow.h>

/** n rows of one batch, from `begin` on. */
typedef struct fby__row_run {
    uint32_t batch;
    uint32_t n;
    uint64_t begin;
} fby__row_run;

/**
 * The rows, in the order of their runs.
 *
 * @schema  of the batches, all alike; checked (fby__arrow_flat_check).
 * @out     [out] the caller's to release; untouched on failure, which is FBY_E_NOMEM, or FBY_E_DATA where 32-bit offsets do not reach.
 */
fby_status fby__arrow_take(const struct ArrowSchema *schema, const struct ArrowArray *const *batches, uint32_t n_batches,
                           const fby__row_run *runs, size_t n_runs, struct ArrowArray *out, fby_error *err);

#endif
