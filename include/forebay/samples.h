/*
 * Samples: what one training example is. A row, a window of consecutive rows, or a group of consecutive rows that share a key.
 *
 *     fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_WINDOWS, .input = 365, .output = 7};
 *     fby_samples *windows;
 *     if (fby_samples_open(ds, &opts, &windows, &err) != FBY_OK) …
 *     fby_loader_opts loader = {FBY_LOADER_SIZES, .samples = windows, …};
 *
 * Where a function says nothing else: Threads: any. Blocks: no. Errors: FBY_E_ARG, FBY_E_NOMEM. What a pointer leads to belongs to the samples.
 * Since: 0.2
 */
#ifndef FOREBAY_SAMPLES_H
#define FOREBAY_SAMPLES_H

#include <forebay/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The samples of a data set, numbered in file order. Reference counted; read-only, any thread. */
typedef struct fby_samples fby_samples;

typedef enum fby_sample_kind {
    FBY_SAMPLES_ROWS,    /* one for each row */
    FBY_SAMPLES_WINDOWS, /* input + output consecutive rows of one series */
    FBY_SAMPLES_GROUPS   /* a run of rows with equal keys, or of a number of rows, within one file */
} fby_sample_kind;

/**
 * A list of values to compare a column with: either numbers (also of bools, and of durations in the column's own unit) or strings. For a column of
 * dates or timestamps they are strings, as ISO 8601 writes them: "2001-01-31", "2001-01-31T12:30:15.5", in UTC or with their offset; numbers are
 * refused.
 * Frozen: no field is ever added.
 */
typedef struct fby_values {
    const int64_t *numbers;   /* borrowed for the call; NULL = strings */
    const char *const *texts; /* NUL-terminated, borrowed for the call; NULL = numbers */
    size_t n;
} fby_values;

/**
 * Options of fby_samples_open. Set size; zero everything else for the defaults.
 *
 * A *series* is what windows lie in: a file; with `key`, a run of rows with equal keys in a file; with `time`, cut again wherever the
 * time does not advance as it should. Windows begin at the first row of their series and at every stride-th row after it.
 */
typedef struct fby_samples_opts {
    size_t size; /* sizeof(fby_samples_opts) */
    fby_sample_kind kind;
    uint64_t input, output; /* WINDOWS: a window is input + output rows, at least 1 */
    uint64_t stride;        /* WINDOWS: rows from one start to the next; 0 = 1 */
    const char *key;        /* GROUPS: the column of the key, needed without rows or table. WINDOWS: NULL = a file is a series */
    /*
     * Further columns of the key, n_more_keys of them, FBY_MAX_KEYS with `key` at most: rows belong to one group, or series, when they agree in
     * all of them. Not with a table. There is then no single key to select samples by: name a column.
     */
    const char *const *more_keys;
    size_t n_more_keys;
    /*
     * GROUPS, in place of a key: each file is cut into groups of so many rows, the last of which has what is left; nothing is read. Their key
     * is the file's name. 0 = by key, or from a table.
     */
    uint64_t rows;
    /*
     * WINDOWS: a column of times or numbers: a series ends where it does not advance by `step`. NULL = rows are taken as they follow one
     * another, and where they have a date or a timestamp outside the key, a note says so.
     */
    const char *time;
    int64_t step;                    /* from row to row, in the column's unit; 0 = any step forward will do */
    const char *const *drop_missing; /* WINDOWS: those that touch a missing value (null, NaN) of these columns are no samples */
    size_t n_drop_missing;
    /*
     * GROUPS: from an index table with one row a group, instead of a scan for the key. Rows of the table whose file is not in the data set are
     * left out; groups need not be sorted and must not overlap; rows between them belong to none. `key` is then a column of the table, and
     * may be NULL.
     */
    fby_dataset *table; /* the samples hold a reference; NULL = scan */
    /* Columns of the table, required: first and last row of a group in its file, counted from 0, both inclusive. */
    const char *first, *last;
    const char *file;         /* column of the table: the file. Its value is that of the data set's column of the same name (from the
                                 pattern), or a file's name with or without extension; or "batch_{batch_id}.parquet": the name made of
                                 columns of the table. NULL = the data set is one file */
    bool file_by_position;    /* `file` holds the place of the file in the data set, from 0 */
    int n_threads;            /* for reading the columns named above; 0 = the CPUs this process may use */
    fby_progress_fn progress; /* called on the calling thread, at most about ten times a second */
    void *progress_user;
    /* NULL, or the step in words, for a column of times: "1 day", "6 hours", "10 min", "30 s", "20 ms", "us", "ns". */
    const char *step_text;
} fby_samples_opts;

/**
 * Say what the samples of a data set are. Where that depends on values (key, time, drop_missing) those columns, and no others, are read
 * once, by several threads.
 *
 * @ds    borrowed; the samples hold a reference.
 * @out   [out] owned by the caller: fby_samples_close(). Untouched on failure.
 * Errors: FBY_E_ARG (options that do not fit each other; no series is as long as a window: the message has the longest; windows without a time of
 * files that a shuffled pack wrote), FBY_E_SCHEMA (no such column), FBY_E_UNSUPPORTED (a column that cannot be a key or a time, named),
 * FBY_E_DATA (a group without a key), those of reading.
 * Threads: any. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_samples_open(fby_dataset *ds, const fby_samples_opts *opts, fby_samples **out, fby_error *err);

/* ---- some of them ---- */

/** One end of a range of values. All zero: there is none. Frozen: no field is ever added. */
typedef struct fby_bound {
    bool given;
    bool is_real;   /* `real` is meant, not `number` */
    int64_t number; /* as in fby_values */
    double real;
    const char *
        text; /* NULL, or a date or time as in fby_values, in place of the numbers: of a column of dates or timestamps. Borrowed for the call */
} fby_bound;

/**
 * Options of fby_samples_select. Set size; zero everything else for the defaults.
 *
 * A sample is chosen by a value: that of `column` in its first row. NULL means the key of the samples: the column that was given as key; for
 * windows in whole files, the last column of the path's pattern, or else the file's name without folders and extension (with folders and the
 * source's name, where several files have that name). For groups from an index table, `column` may also be one of that table.
 */
typedef struct fby_select_opts {
    size_t size; /* sizeof(fby_select_opts) */
    const char *column;
    fby_values values;   /* the value is one of these; n = 0: the bounds decide */
    fby_bound low, high; /* low ≤ value < high; a missing value is in no range */
    bool exclude;        /* choose the others */
    bool ignore_unknown; /* values that no sample has are no error */
    /*
     * By a side table: `column` is looked up in table_key, and values and bounds apply to table_column of the row found. A sample is chosen when
     * one of the rows with its value satisfies them; without table_column, when there is such a row.
     */
    fby_dataset *table;    /* borrowed for the call; NULL = none */
    const char *table_key; /* NULL = named as `column` is */
    const char *table_column;
    int n_threads;            /* 0 = the CPUs this process may use */
    fby_progress_fn progress; /* called on the calling thread, at most about ten times a second */
    void *progress_user;
} fby_select_opts;

/**
 * Those samples whose value is listed, or lies between bounds. Only that column is read, once, by several threads, and only the blocks that
 * hold samples. What is chosen keeps the order of the samples. It takes a few bits a sample, in memory and, for data sets of files, on disk
 * beside the index cache, so that the next call reads no column (so do fby_samples_split, fby_samples_oversample and fby_samples_resample).
 *
 * Errors: FBY_E_ARG (values that no sample has, naming the first and how many; strings for a column of numbers; nothing is chosen),
 * FBY_E_SCHEMA (no such column), FBY_E_UNSUPPORTED (a column without a single value), those of reading.
 * @out  [out] owned by the caller: fby_samples_close(). Threads: any. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_samples_select(const fby_samples *samples, const fby_select_opts *opts, fby_samples **out, fby_error *err);

/**
 * At most n of them: the first ones, or, when `random`, n drawn with a seed, in file order. Reads nothing.
 * @out  [out] owned by the caller: fby_samples_close(). Errors: FBY_E_ARG (n is 0), FBY_E_NOMEM. Threads: any. Since: 0.2
 */
FBY_API fby_status fby_samples_limit(const fby_samples *samples, uint64_t n, bool random, uint64_t seed, fby_samples **out, fby_error *err);

/**
 * Those samples whose numbers are listed, each as often as it is listed. As after every choice they are in the order of the samples, not of the
 * list; a loader shuffles them, or not. Reads nothing.
 *
 * @indices  n numbers below fby_samples_count, in any order; borrowed for the call.
 * Errors: FBY_E_ARG (a number that no sample has, with its place in the list; none is listed; one is listed more than 65,535 times), FBY_E_NOMEM.
 * Threads: any. Since: 0.2
 */
FBY_API fby_status fby_samples_take(const fby_samples *samples, const uint64_t *indices, size_t n, fby_samples **out, fby_error *err);

/* ---- splits ---- */

/** What splits do not share. */
typedef enum fby_split_kind {
    FBY_SPLIT_FILES,  /* whole files, drawn with the seed */
    FBY_SPLIT_TIME,   /* windows: the rows of each file, or of each run of a key, in their order. Others: the values of `time` */
    FBY_SPLIT_KEYS,   /* all samples with one value of a column, drawn with the seed or listed */
    FBY_SPLIT_SAMPLES /* single samples, drawn with the seed; all repeats of one are in one split */
} fby_split_kind;

/** Options of fby_samples_split. Set size; zero everything else for the defaults. */
typedef struct fby_split_opts {
    size_t size; /* sizeof(fby_split_opts) */
    fby_split_kind kind;
    const char *column;   /* KEYS: as fby_select_opts.column */
    const char *stratify; /* SAMPLES: NULL, or a column of classes: every split gets its share of each class */
    const char *time; /* TIME: the column of the time in a sample's first row, needed where samples are no windows; those are cut by rows */
    bool
        at_target; /* TIME of windows: a window is in the split that its target begins in: the first row of its output; without output, its last
                             row. Its input may reach back over the cut, its output over the next one. false = in the split that all of it
                             lies in */
    uint64_t seed;       /* decides what goes into which fraction */
    bool ignore_unknown; /* KEYS: listed keys that no sample has are no error */
    int n_threads;       /* for reading a column; 0 = the CPUs this process may use */
} fby_split_opts;

/** A split: a fraction, or KEYS the keys listed. Frozen: no field is ever added. */
typedef struct fby_split {
    const char *name; /* for messages; NULL = "split 0" and so on. No two splits have one name */
    double fraction;  /* above 0; at most 1 in all: what is left is in no split */
    fby_values keys;  /* n = 0: by fraction. Either all splits list keys or none does */
} fby_split;

/**
 * Divide samples into splits that have no sample in common.
 *
 * With n of what is divided (files, distinct keys, samples, samples in the order of time, rows of a series), split k is what lies between the
 * first ⌊f n⌋ and the first ⌊g n⌋, where f and g are the sums of the fractions before it and up to it: when the fractions sum to 1, everything is
 * in some split. With `stratify` each split has its fraction of every class, rounded down or up so that the roundings even out over the classes.
 *
 * FILES, KEYS: one seed always draws the same files or keys; keys whatever the order of the files. With more than 16 million groups each key
 * is drawn by itself, so that the fractions hold to about one in ten thousand. TIME by a column: samples of the same time are in the same split. TIME
 * of windows: a window whose rows lie on both sides of a cut is in no split; with at_target every window is in one. SAMPLES draws over the numbers
 * of the samples; neighbouring windows share rows, which then lie in several splits.
 *
 * FILES, TIME of windows and SAMPLES without stratify read nothing; the others their column, KEYS by fractions twice. stratify takes 4 bytes
 * a sample while it runs, TIME by a column 16.
 *
 * @out     [out] n_splits samples, each owned by the caller. Untouched on failure.
 * Errors: as fby_samples_select; FBY_E_ARG also for options that do not fit the kind, fractions that do not fit, a split without a sample, a key
 * listed in two splits, two splits of one name, windows that are a split by time already, a class that has a fraction (it is no class) or fewer
 * samples than there are splits; FBY_E_DATA for a sample without a time. Threads: any. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_samples_split(const fby_samples *samples, const fby_split_opts *opts, const fby_split *splits, size_t n_splits,
                                     fby_samples **out, fby_error *err);

/* ---- more than once ---- */

/** Options of fby_samples_oversample. Set size; zero everything else for the defaults. */
typedef struct fby_oversample_opts {
    size_t size;             /* sizeof(fby_oversample_opts) */
    const char *column;      /* as fby_select_opts.column */
    fby_values values;       /* classes */
    const uint32_t *factors; /* one for each class, at most 65,535; 0 leaves the class out */
    bool ignore_unknown;     /* classes that no sample has are no error */
    int n_threads;           /* 0 = the CPUs this process may use */
} fby_oversample_opts;

/**
 * Every sample as often as the factor of its class says, or once where its class is not listed. Repeats are samples of their own: they are shuffled,
 * batched and counted as such, and a block is still read once. Ownership, errors, threads, blocking: as fby_samples_select. Since: 0.2
 */
FBY_API fby_status fby_samples_oversample(const fby_samples *samples, const fby_oversample_opts *opts, fby_samples **out, fby_error *err);

/** Options of fby_samples_resample. Set size; zero everything else for the defaults. */
typedef struct fby_resample_opts {
    size_t size;                 /* sizeof(fby_resample_opts) */
    const double *weights;       /* one for each sample; borrowed for the call. NULL = by column */
    const char *column;          /* as fby_select_opts.column: it holds the weights, or, with values, classes */
    fby_values values;           /* classes; a sample of another class is an error */
    const double *class_weights; /* one for each class */
    uint64_t n;                  /* samples that come out; 0 = as many as there are */
    uint64_t seed;
    int n_threads;   /* 0 = the CPUs this process may use */
    bool each_epoch; /* draw anew in every epoch of a loader */
} fby_resample_opts;

/**
 * n samples drawn in proportion to their weights, systematically: a sample whose expected count is 2.3 comes twice or three times, one of
 * weight 0 never. One seed always draws the same. All epochs have the same draw, shuffled anew in each.
 * Takes 8 bytes a sample while it runs.
 *
 * With each_epoch, every epoch draws its own n samples: a function of (seed, epoch) alone, so that all epochs have the same length and a state is
 * resumed exactly. On average a sample comes n w / Σ w times; in one epoch that number rounded down or up, or one more or less. The result takes
 * 5 bytes for each sample that is drawn from, and is for loaders alone (without parts and diversity): select, limit and split before.
 * fby_samples_get gives the draws of epoch 0; FBY_FROM_SAMPLE_INDEX gives a sample's number among those drawn from: a sample that comes twice has
 * the same number both times, and is cropped and masked alike. At most 2^48 draws.
 *
 * Errors: as fby_samples_select; FBY_E_ARG also for a weight that is negative, not finite or missing (with its sample), and when all are 0.
 * @out  [out] owned by the caller: fby_samples_close(). Threads: any. Blocks: while it reads a column. Since: 0.2
 */
FBY_API fby_status fby_samples_resample(const fby_samples *samples, const fby_resample_opts *opts, fby_samples **out, fby_error *err);

/* ---- references, and what there is ---- */

/** One more reference; returns its argument. Threads: any. Since: 0.2 */
FBY_API fby_samples *fby_samples_ref(fby_samples *samples);
FBY_API void fby_samples_close(fby_samples *samples); /* NULL is fine; drops one reference */

FBY_API uint64_t fby_samples_count(const fby_samples *samples);       /* how many there are */
FBY_API fby_sample_kind fby_samples_kind(const fby_samples *samples); /* what they are */
FBY_API uint64_t fby_samples_max_rows(const fby_samples *samples);    /* of one sample */

/**
 * What a colleague would mention of how they were found, as sentences for people: "drop_missing leaves out 37 of 111 windows, with them all of
 * 1 of 3 files, such as 'b.parquet'". Samples that were chosen among others have the notes of those; a choice in the cache that was not used is
 * noted too. Borrowed; NULL past the last. Threads: any. Since: 0.2
 */
FBY_API const char *fby_samples_note(const fby_samples *samples, size_t i);
/** Files of which drop_missing leaves no window at all, though they are long enough for one; said in a note. Threads: any. Since: 0.2 */
FBY_API uint64_t fby_samples_files_dropped(const fby_samples *samples);

/**
 * Where sample i lies: its first row in the data set, and how many rows it has. FBY_E_ARG when there is no such sample.
 * Threads: any. O(log blocks). Since: 0.2
 */
FBY_API fby_status fby_samples_get(const fby_samples *samples, uint64_t i, uint64_t *out_first_row, uint64_t *out_rows, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
