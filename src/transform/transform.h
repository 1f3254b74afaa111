/*
 * Row operations on the values of panels: an output's fby_op list, checked and fused into a program, then run over decoded rows in place.
 *
 *   program.c    ops → steps: neighbours that are affine become one; in which dtype values may wait for them
 *   run.c        steps over rows: some hundred values at a time are widened to float64, go through every step while they are in the L1
 *                cache, and are rounded back once
 *   op_loops.h   the steps' loops, compiled once for each instruction set, all with the same result bit for bit
 *   moments.c    count, mean, variance, least and greatest value of runs of values
 *
 * Knows neither files nor loaders: rows, strides, columns.
 */
#ifndef FBY_TRANSFORM_TRANSFORM_H
#define FBY_TRANSFORM_TRANSFORM_H

#include "base/error.h"

#include <forebay/transform.h>

/** An output's operations, for each of its columns. Immutable. */
typedef struct fby__program fby__program;

/**
 * Check operations and fuse them.
 *
 * @columns  n_columns names, for messages; not kept.
 * @out      NULL in it when there is nothing to do (n_ops 0). fby__program_destroy.
 * FBY_E_ARG naming operation and column, FBY_E_NOMEM.
 */
fby_status fby__program_create(const fby_op *ops, size_t n_ops, const char *const *columns, uint32_t n_columns, fby__program **out,
                               fby_error *err);
void fby__program_destroy(fby__program *p); /* NULL is fine */

/** Do columns [at, at + b's columns) of a the same as b? NULL is the program that does nothing. */
bool fby__program_same(const fby__program *a, uint32_t at, const fby__program *b);

/**
 * In which float dtype decoded values of column `column`, stored as `from`, are to wait for the program so that the result is as good as
 * computed from the stored values and rounded to `to` (a float dtype): `to` when every stored value is one of it, else FLOAT32 when its
 * rounding cannot become visible, else FLOAT64.
 */
fby_dtype fby__program_dtype(const fby__program *p, uint32_t column, fby_dtype from, fby_dtype to);

/**
 * Run a program over rows in place: of each of n_rows rows, stride_bytes apart, n_columns columns of `width` elements that follow one
 * another from `rows` on, for which the program's columns [column, column + n_columns) hold. dtype is a float dtype; rows is aligned to it.
 */
void fby__program_run(const fby__program *p, fby_dtype dtype, uint8_t *rows, uint64_t n_rows, size_t stride_bytes, uint32_t column,
                      uint32_t n_columns, uint32_t width);

/** Moments being gathered. Zero-initialise. */
typedef struct fby__moments {
    uint64_t count, n_missing;
    double origin;   /* the first value */
    double mean, m2; /* mean: from the origin on; m2: sum of squared distances from the mean */
    double min, max; /* of count > 0 */
} fby__moments;

/** Add values: in runs of a fixed length, each with a mean of its own, merged in order. */
void fby__moments_add(fby__moments *m, const double *values, uint64_t n);
/** Add what was gathered elsewhere (Chan, Golub and LeVeque's update). */
void fby__moments_merge(fby__moments *m, const fby__moments *other);
void fby__moments_finish(const fby__moments *m, fby_moments *out);

#endif
