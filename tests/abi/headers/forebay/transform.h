/*
 * Row operations: what is done to the values of an output's columns before they are put into batches, and the moments of a data set's
 * columns that standardising needs.
 *
 *     fby_moments m[2];
 *     const char *names[] = {"prcp", "tmax"};
 *     fby_fit_opts fit = {FBY_FIT_SIZES, .columns = names, .n_columns = 2};
 *     fby_fit_moments(ds, &fit, m, &err);
 *     double mean[] = {m[0].mean, m[1].mean}, std[] = {m[0].std, m[1].std};
 *     fby_op op = {.kind = FBY_OP_STANDARDIZE, .a_each = mean, .b_each = std};
 *     fby_output x = {.name = "x", .columns = names, .n_columns = 2, .ops = &op, .n_ops = 1};
 */
#ifndef FOREBAY_TRANSFORM_H
#define FOREBAY_TRANSFORM_H

#include <forebay/dataset.h>
#include <forebay/lookup.h>
#include <forebay/samples.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FBY_MAX_OPS 16

/**
 * What an operation does to a value x. NaN stays NaN, except for the three that fill.
 *
 * Missing is what is stored as null (in NetCDF also as _FillValue, missing_value or outside valid_range) or as NaN; what an operation makes
 * NaN, such as the logarithm of a negative number, is not missing.
 */
typedef enum fby_op_kind {
    FBY_OP_AFFINE,       /* x · a + b; a and b finite */
    FBY_OP_STANDARDIZE,  /* (x − a) / b: a the mean, b the standard deviation, above 0 */
    FBY_OP_CLIP,         /* a where x is below a, b where x is above b; infinities are no limit; a ≤ b */
    FBY_OP_LOG,          /* natural logarithm of x, or of a where x is below a; a = 0: of x alone (0 gives −infinity, below it NaN) */
    FBY_OP_LOG10,        /* the same to base 10 */
    FBY_OP_LOG1P,        /* log(1 + x), exact for small x. a and b are not used */
    FBY_OP_FILL_NAN,     /* a where x is NaN: as stored, by an operation before, or a null that nothing has filled */
    FBY_OP_FILL_MISSING, /* a where the value was missing as it was stored, whatever became of it since */
    FBY_OP_FILL_NULL     /* a where the value was null; before every other operation but FBY_OP_FILL_MISSING */
} fby_op_kind;

/**
 * One operation on every value of an output, with the same parameters for all columns or with different ones for each. Borrowed for the call
 * that takes it. Operations run in their order, once a row, when a block is decoded, in float64, and are rounded to the output's dtype, which
 * is a floating one. A null that FBY_OP_FILL_NULL or FBY_OP_FILL_MISSING has not filled before is NaN to them.
 *
 * Those two, alone or before all others, compute nothing: an output of integers keeps its dtype, and a float column that is asked for as
 * integers is filled before it is converted.
 *
 * Where the output is float32 or narrower, columns of float64 and of 32-bit and 64-bit integers are rounded to float32 before the first operation,
 * unless the operations could make that visible (a difference of large numbers, a logarithm of float64): then they stay float64.
 */
typedef struct fby_op {
    fby_op_kind kind;
    double a, b;
    const double *a_each, *b_each; /* NULL, or one value for each column of the output, in place of a or b */
    size_t n_each; /* 0; else a_each and b_each have so many for each column in turn: one for each place along an axis of a row's value */
    int32_t axis;  /* with n_each: the axis, counted from the end: −1 is the last */
} fby_op;

/** Moments of one column; all but the counts are NaN when count is 0. */
typedef struct fby_moments {
    uint64_t count;     /* values that the others are of */
    uint64_t n_missing; /* values left out: null, NaN, infinite, and pads */
    double mean;
    double std; /* of the values as a whole: divided by count */
    double min, max;
} fby_moments;

/** The sizes of the structs, as this header has them. */
#define FBY_FIT_SIZES .size = sizeof(fby_fit_opts), .op_size = sizeof(fby_op), .moments_size = sizeof(fby_moments)

/** Options of fby_fit_moments. Set the sizes (FBY_FIT_SIZES) and the columns; zero everything else for the defaults. */
typedef struct fby_fit_opts {
    size_t size;                /* sizeof(fby_fit_opts) */
    size_t op_size;             /* with ops: sizeof(fby_op) */
    size_t moments_size;        /* of fby_fit_moments: sizeof(fby_moments) */
    const char *const *columns; /* dotted paths of numbers, or of lists of them: then their elements count */
    size_t n_columns;
    bool has_pad; /* values that are stored as `pad` are left out, whatever operations would make of them; counted as missing */
    double pad;
    const char
        *count; /* NULL, or a column of whole numbers: of each array only so many places of the first axis hold values, and the rest is
                          left out in the same way. FBY_E_DATA for a count that is missing, negative or beyond the axis */
    const fby_op *ops; /* done first: the moments are of what comes out; each is given for n_columns columns */
    size_t n_ops;
    fby_samples *samples; /* of the same data set: only rows that lie in one of them, each once. NULL = all rows */
    uint64_t
        memory_bytes; /* for the pass and what it keeps of each group; 0 = what the data set was opened with; without that, as for a loader */
    int n_threads;    /* 0 = the CPUs this process may use */
    bool clip_count; /* with count: a count beyond the axis means all of it; otherwise it is FBY_E_DATA */
    size_t n_each;   /* 0 = moments of whole columns. Else of each place along an axis, which has so many in every column: n_columns times
                              n_each moments, all places of the first column first */
    int32_t axis;    /* with n_each: the axis of a row's value, counted from its end: −1 is the last */
} fby_fit_opts;

/**
 * Mean, standard deviation, least and greatest value of columns, in one parallel pass over the data set. Two-pass sums over runs of rows,
 * merged in file order, in float64: the result is the same, bit for bit, for every number of threads.
 *
 * @out  [out] opts->n_columns of them, times n_each where that is given. Untouched on failure.
 * Errors: FBY_E_ARG (options that do not fit; a column of strings), FBY_E_SCHEMA (no such column), FBY_E_UNSUPPORTED (a type that has no
 * numbers), those of a loader over the data set.
 * Threads: any. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_fit_moments(fby_dataset *ds, const fby_fit_opts *opts, fby_moments *out, fby_error *err);

#define FBY_GROUP_MOMENTS 6 /* columns of the table that fby_fit_groups gives, for each column that is fitted */

/**
 * The same for each group of rows that share a key, wherever they lie, in one pass over all of them.
 *
 * @by   dotted path of the key: whole numbers or strings; it may be a column made of the files' names.
 * @out  [out] a table by key, in order of first appearance: the means of all fitted columns ("prcp.mean"), then their stds, counts, missing,
 *       minima and maxima. Owned by the caller: fby_lookup_close(). It is what fby_make_standardize takes. A group without values has NaN but
 *       for the counts.
 * Errors: those of fby_fit_moments; FBY_E_UNSUPPORTED (a type that cannot be a key), FBY_E_DATA (a row without a key, named).
 * Threads: any; the result is the same for every number of them. Blocks: while it reads. Memory: 64 bytes a group and column. Since: 0.2
 */
FBY_API fby_status fby_fit_groups(fby_dataset *ds, const fby_fit_opts *opts, const char *by, fby_lookup **out, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
