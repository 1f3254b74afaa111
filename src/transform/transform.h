/*
 * Row operations on the values of panels: an output's fby_op list, checked and fused into a program, then run over decoded rows in place.
 *
 *   program.c    ops → passes: affine neighbours become one; in which dtype values may wait for them
 *   run.c        passes over rows: some hundred values at a time are widened to float64 and go through every pass while they are in the L1
 *                cache, and are rounded back once
 *   op_loops.h   the loops of the passes, compiled once for each instruction set, all with the same result bit for bit
 *   moments.c    count, mean, variance, least and greatest of values
 *
 * And what is made of rows when a batch is built (forebay/make.h): makers, created when a loader is opened and run for some samples at a
 * time.
 *
 *   maker.c      kinds → makers
 *   make_*.c     one kind each, or a few
 *   after.c      what is done in place to values in a batch
 *   lookup.c     tables found by a key
 *
 * Knows neither files nor loaders: rows, strides, columns.
 */
#ifndef FBY_TRANSFORM_TRANSFORM_H
#define FBY_TRANSFORM_TRANSFORM_H

#include "base/random.h"
#include "block/panel.h"

#include <forebay/batch.h>
#include <forebay/make.h>
#include <forebay/samples.h>
#include <forebay/schema.h>

/** The axes of a column's value in a row; n = 0: one element, or a list. */
typedef struct fby__value_axes {
    const int64_t *sizes;
    int32_t n;
} fby__value_axes;

/** An output's operations, with parameters for each of its columns. Immutable. */
typedef struct fby__program fby__program;

/**
 * Check operations and fuse them.
 *
 * @columns  n_columns names, for messages; not kept.
 * @axes     of the values of every column; not kept.
 * @out      NULL when there is nothing to do once values are decoded. fby__program_destroy.
 * FBY_E_ARG naming operation and column, FBY_E_NOMEM.
 */
fby_status fby__program_create(const fby_op *ops, size_t n_ops, const char *const *columns, uint32_t n_columns, fby__value_axes axes,
                               fby__program **out, fby_error *err);
void fby__program_destroy(fby__program *p); /* NULL is fine */

/** How many operations fill what is missing before anything is computed: FILL_MISSING and FILL_NULL of whole columns, from the first on. */
size_t fby__leading_fills(const fby_op *ops, size_t n_ops);
/** What such operations make of a null of a column: the value in *out, which the decoder writes. False: they leave it. */
bool fby__null_fill(const fby_op *ops, size_t n_ops, uint32_t column, double *out);

/** Do columns [at, at + b's columns) of a the same as b? NULL is the program that does nothing. */
bool fby__program_same(const fby__program *a, uint32_t at, const fby__program *b);

/**
 * The float dtype in which decoded values of `column`, stored as `from`, wait for the program, so that the result is as good as if computed
 * from the stored values and rounded to `to` (a float dtype): `to` when it holds every stored value exactly, else FLOAT32 when its rounding
 * cannot become visible, else FLOAT64.
 */
fby_dtype fby__program_dtype(const fby__program *p, uint32_t column, fby_dtype from, fby_dtype to);

/**
 * Run a program over rows in place: n_rows rows, stride_bytes apart, each with n_columns columns of `width` elements side by side, the
 * first at `rows`. They are columns [column, column + n_columns) of the program. dtype is a float dtype; rows is aligned to it. Nulls that
 * no leading operation fills lie there as NaN.
 * Returns the first row with a finite result that dtype cannot hold, n_rows when there is none.
 */
uint64_t fby__program_run(const fby__program *p, fby_dtype dtype, uint8_t *rows, uint64_t n_rows, size_t stride_bytes, uint32_t column,
                          uint32_t n_columns, uint32_t width);

/** Moments being gathered. Zero-initialise. */
typedef struct fby__moment_sums {
    uint64_t count, n_missing;
    double origin;   /* the first value */
    double mean, m2; /* mean: less the origin; m2: sum of squared distances from the mean */
    double min, max; /* when count > 0 */
} fby__moment_sums;

/** Add values: a fixed number at a time, each group with a mean of its own, merged in order. */
void fby__moments_add(fby__moment_sums *m, const double *values, uint64_t n);
/** Add what was gathered elsewhere (Chan, Golub and LeVeque's update). */
void fby__moments_merge(fby__moment_sums *m, const fby__moment_sums *other);
void fby__moments_finish(const fby__moment_sums *m, fby_moments *out);

/* ---- makers ---- */

/** A column that a maker reads, as the loader found it. The maker may change what its panel is to hold (the last group) when created. */
typedef struct fby__make_column {
    const char *name;
    const fby_field *field; /* the leaf: kind, unit, time zone */
    fby__panel_kind kind;
    uint32_t width; /* DENSE: elements of a row, the product of the axes */
    int32_t n_axes;
    int64_t axes[FBY_MAX_DIMS];
    fby_dtype stored;
    bool nullable;
    bool computed;    /* row operations change it: float values */
    bool changed;     /* has operations, perhaps only ones that fill: values are not those that are stored */
    fby_dtype dtype;  /* in: stored, or float32 when computed; a maker may set another. Missing: NaN, or 0 */
    bool want_valid;  /* the maker wants to know which rows are missing */
    bool want_stored; /* the maker wants the stored values too: one more view, after those of the columns, of dtype `stored` */
} fby__make_column;

/** What an output asks for. */
typedef struct fby__make_spec {
    const char *output; /* name, for messages */
    const fby_make *make;
    fby_dtype dtype; /* asked for, or FBY_DTYPE_NONE */
    bool keep_axis;
    fby__make_column *columns;
    uint32_t n_columns;
    fby_sample_kind samples;
    uint64_t n_rows;   /* of every sample where they agree (rows: 1; windows: the steps taken); groups: 0 */
    uint64_t max_rows; /* of any sample */
    uint64_t seed;     /* of the loader */
} fby__make_spec;

/** One column's values: arrays of n, one entry a sample. */
typedef struct fby__make_view {
    const uint8_t *const *data;  /* DENSE: a sample's first row; RAGGED, BYTES: the first element or byte of that row */
    const uint64_t *count;       /* RAGGED, BYTES: elements or bytes of it; NULL for DENSE */
    const uint8_t *const *valid; /* the first row's flag (0 = missing); NULL unless want_valid */
    size_t row_bytes;            /* DENSE: from one row to the next */
    size_t valid_bytes;          /* from one flag to the next */
} fby__make_view;

/** Memory of the thread that runs makers, reused from job to job. Zero-initialise. */
typedef struct fby__make_scratch {
    void *memory;  /* owned */
    uint8_t *data; /* 64-byte aligned, within memory */
    size_t bytes;
} fby__make_scratch;
/** At least so many bytes, contents undefined; NULL when there is no memory. What an earlier call returned is gone. */
void *fby__make_scratch_get(fby__make_scratch *s, size_t bytes);
void fby__make_scratch_fini(fby__make_scratch *s);

/** Some samples for a maker to work on; it keeps nothing of the job. */
typedef struct fby__make_job {
    uint64_t n;
    const uint64_t *n_rows; /* of each sample */
    const uint64_t *id;     /* of each sample: its number in the dataset, the key of randomness (fby__make_random) */
    uint64_t epoch;
    const fby__make_view *views; /* one a column, then those of want_stored */
    uint8_t *const *dst;         /* where each sample's result goes: its n_rows results (made of rows) or 1 (made of samples); aligned to
                                    the dtype, no more */
    fby__make_scratch *scratch;
    uint64_t bad; /* out, on failure: the sample */
} fby__make_job;

/** Immutable once created: any number of threads may run it at once. */
typedef struct fby__maker fby__maker;

/** What comes out of a maker. */
typedef struct fby__made {
    bool of_sample; /* one result a sample, else one a row */
    fby_dtype dtype;
    int32_t ndim; /* of one result; 0 = a scalar */
    int64_t shape[FBY_MAX_DIMS - 1];
    size_t memory_bytes;  /* tables that it holds */
    size_t scratch_bytes; /* of a thread's scratch, as far as known beforehand */
} fby__made;

/**
 * Check an output and prepare it; sets those fields of spec->columns that are the maker's to choose.
 * @out  fby__maker_destroy.
 * FBY_E_ARG, FBY_E_UNSUPPORTED naming output, column, what was found and what would work; FBY_E_NOMEM.
 */
fby_status fby__maker_create(fby__make_spec *spec, fby__maker **out, fby__made *out_made, fby_error *err);
void fby__maker_destroy(fby__maker *m); /* NULL is fine */
/** FBY_E_DATA with job->bad and a message that has the value but not where it lies; FBY_E_NOMEM. */
fby_status fby__maker_run(const fby__maker *m, fby__make_job *job, fby_error *err);

/**
 * Random values for a sample: keyed by seed, epoch, the sample's number, and a number for each kind of draw. Never by the slot in a batch.
 */
fby__random fby__make_random(uint64_t seed, uint64_t epoch, uint64_t id, uint64_t purpose);

/* ---- after ---- */

/** Operations in place on results that all have the same shape. Immutable. */
typedef struct fby__afters fby__afters;

/**
 * @made  in and out: CHANNELS_LAST and CHANNELS_FIRST change the shape. NULL in *out when n is 0.
 */
fby_status fby__afters_create(const fby_after *after, size_t n, const char *output, fby__made *made, uint64_t seed, fby__afters **out,
                              fby_error *err);
void fby__afters_destroy(fby__afters *a);
/** n results, one behind the other from dst on, of samples id[0 … n). NULL: no operations. scratch: at least one result. */
fby_status fby__afters_run(const fby__afters *a, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch, fby__make_scratch *scratch,
                           fby_error *err);

#endif
