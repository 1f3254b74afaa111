/*
 * Samples: what one training example is. A row, a window of consecutive rows, or a group of consecutive rows that share a key.
 *
 *     fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_WINDOWS, .input = 365, .output = 7};
 *     fby_samples *windows;
 *     if (fby_samples_open(ds, &opts, &windows, &err) != FBY_OK) …
 *     fby_loader_opts loader = {.size = sizeof loader, .samples = windows, …};
 */
#ifndef FOREBAY_SAMPLES_H
#define FOREBAY_SAMPLES_H

#include <forebay/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The samples of a dataset, numbered in file order. Reference counted; read-only, any thread. */
typedef struct fby_samples fby_samples;

typedef enum fby_sample_kind {
    FBY_SAMPLES_ROWS,    /* one a row */
    FBY_SAMPLES_WINDOWS, /* input + output consecutive rows of one series */
    FBY_SAMPLES_GROUPS   /* a run of rows with equal keys, within one file */
} fby_sample_kind;

/**
 * Options of fby_samples_open. Set size; zero everything else for the defaults.
 *
 * A *series* is what windows lie in: a file; with `key`, a run of rows with equal keys in a file; with `time`, cut further wherever the
 * time does not go on as it should. Windows begin at the first row of their series and at every stride-th row after it.
 */
typedef struct fby_samples_opts {
    size_t size; /* sizeof(fby_samples_opts) */
    fby_sample_kind kind;
    uint64_t input, output;          /* WINDOWS: rows of both parts; a window is input + output rows, at least 1 */
    uint64_t stride;                 /* WINDOWS: rows from one start to the next; 0 = 1 */
    const char *key;                 /* GROUPS: the column of the key, needed. WINDOWS: NULL = a file is a series */
    const char *time;                /* WINDOWS: NULL, or a column of times or numbers that ends a series where it does not go on */
    int64_t step;                    /* how it goes on: by this much from row to row, in the column's unit; 0 = it must only rise */
    const char *const *drop_missing; /* WINDOWS: those that touch a missing value (null, NaN) of these columns are no samples */
    size_t n_drop_missing;
    int n_threads;            /* for reading the columns named above; 0 = the CPUs this process may use */
    fby_progress_fn progress; /* called on the calling thread, at most about ten times a second */
    void *progress_user;
} fby_samples_opts;

/**
 * Say what the samples of a dataset are. Where that depends on values (key, time, drop_missing) those columns, and no others, are read
 * once, by several threads.
 *
 * @ds    borrowed; the samples hold a reference.
 * @out   [out] owned by the caller: fby_samples_close(). Untouched on failure.
 * Errors: FBY_E_ARG (options that do not fit each other; no series is as long as a window: the message has the longest), FBY_E_SCHEMA (no
 * such column), FBY_E_UNSUPPORTED (a column that cannot be a key or a time, named), FBY_E_DATA (a group without a key), those of reading.
 * Threads: any. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_samples_open(fby_dataset *ds, const fby_samples_opts *opts, fby_samples **out, fby_error *err);

/** How fby_samples_split cuts. */
typedef enum fby_split_kind {
    FBY_SPLIT_FILES, /* whole files, drawn with a seed */
    FBY_SPLIT_TIME   /* windows: rows of each series in their order; a window lies in one part or in none */
} fby_split_kind;

/**
 * A part of some samples: fractions [from, to) of the files, or of the rows of every series. Parts with fractions that do not overlap
 * have no row in common, and one seed always draws the same files. Reads nothing.
 *
 * Errors: FBY_E_ARG (not 0 ≤ from < to ≤ 1; TIME for samples that are no windows, or of samples cut by time before; a part without a
 * sample), FBY_E_NOMEM. Threads: any. Since: 0.2
 */
FBY_API fby_status fby_samples_split(const fby_samples *samples, fby_split_kind kind, double from, double to, uint64_t seed,
                                     fby_samples **out, fby_error *err);

/** One more reference; returns its argument. Threads: any. Since: 0.2 */
FBY_API fby_samples *fby_samples_ref(fby_samples *samples);
FBY_API void fby_samples_close(fby_samples *samples); /* NULL is fine; drops one reference */

FBY_API uint64_t fby_samples_count(const fby_samples *samples);       /* how many there are */
FBY_API fby_sample_kind fby_samples_kind(const fby_samples *samples); /* what they are */
FBY_API uint64_t fby_samples_max_rows(const fby_samples *samples);    /* of one sample */

/**
 * Where sample i lies: its first row in the dataset, and how many rows it has. FBY_E_ARG when there are not as many.
 * Threads: any. O(log blocks). Since: 0.2
 */
FBY_API fby_status fby_samples_get(const fby_samples *samples, uint64_t i, uint64_t *out_first_row, uint64_t *out_rows, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
