/*
 * Lookups: small tables beside the data, in memory, found by a key. Static attributes of a basin, the place of a sensor, the label of a class.
 *
 *     fby_dataset *attributes;                                    // any format: Parquet, CSV, HDF5, …
 *     fby_lookup_opts opts = {.size = sizeof opts, .key = "gauge_id"};
 *     fby_lookup *table;
 *     fby_lookup_open(&attributes, 1, &opts, &table, &err);
 *
 * Where a function says nothing else: Threads: any. Blocks: no. Errors: FBY_E_ARG, FBY_E_NOMEM. What a pointer leads to belongs to the table. Since: 0.2
 */
#ifndef FOREBAY_LOOKUP_H
#define FOREBAY_LOOKUP_H

#include <forebay/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A table of numbers by key. Immutable, reference counted; any thread. */
typedef struct fby_lookup fby_lookup;

/** Options of fby_lookup_open. Set size and key; zero everything else for the defaults. */
typedef struct fby_lookup_opts {
    size_t size;     /* sizeof(fby_lookup_opts) */
    const char *key; /* the column of the key in every table: whole numbers or strings */
    const char *const
        *more_keys; /* further columns of the key, n_more_keys of them, FBY_MAX_KEYS with `key` at most: a row is found by all of them */
    size_t n_more_keys;
    const char *const *columns; /* the values to keep, in this order; NULL and 0 = all that are numbers or bools, in the tables' order */
    size_t n_columns;
    bool has_fill_missing; /* missing values (null, NaN) become fill_missing; otherwise NaN */
    double fill_missing;
    bool first_wins; /* of different values for one key and column the first counts; otherwise FBY_E_DATA naming them */
    int n_threads;   /* for reading; 0 = the CPUs this process may use */
    /* How much memory the table and reading it may take together, else FBY_E_BUDGET; 0 = as the first data set's. Since: 0.2 */
    uint64_t memory_bytes;
} fby_lookup_opts;

/**
 * Read a table, or several joined on the key: the rows are the keys of all of them, in order of first appearance, the columns those of all of
 * them. What a table lacks is missing. A key may come again, in the same table or another, with the same values or with values that were
 * missing before. Where the key is in the files' names, it is a pattern's column.
 *
 * Values are float64: whole numbers are exact up to 2^53.
 *
 * @tables  n_tables data sets; borrowed for the call.
 * @out     [out] owned by the caller: fby_lookup_close().
 * Errors: FBY_E_ARG, FBY_E_SCHEMA (no such column, with what there is), FBY_E_UNSUPPORTED (a type that cannot be a key or a value, named),
 * FBY_E_DATA (a key twice, or missing: which, in which table and row), FBY_E_BUDGET, those of reading.
 * @out  [out] owned by the caller: fby_lookup_close(). Threads: any. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_lookup_open(fby_dataset *const *tables, size_t n_tables, const fby_lookup_opts *opts, fby_lookup **out,
                                   fby_error *err);

/**
 * A table from memory. One of numbers and texts is given: n_keys keys; values: n_keys rows of n_columns float64, row-major; copied.
 * @out  [out] owned by the caller: fby_lookup_close().
 */
FBY_API fby_status fby_lookup_create(const int64_t *numbers, const char *const *texts, size_t n_keys, const char *const *columns,
                                     size_t n_columns, const double *values, fby_lookup **out, fby_error *err);

/** A column of a key, in memory: one of the two is given, with one value for each key. Frozen: no field is ever added. */
typedef struct fby_lookup_keys {
    const int64_t *numbers;
    const char *const *texts;
} fby_lookup_keys;

/** The same with a key of n_key_columns columns, 1 to FBY_MAX_KEYS: key i is what all of them have at i. @out: owned by the caller. */
FBY_API fby_status fby_lookup_create_keys(const fby_lookup_keys *key, size_t n_key_columns, size_t n_keys, const char *const *columns,
                                          size_t n_columns, const double *values, fby_lookup **out, fby_error *err);

/**
 * The distinct values of a column of whole numbers or strings, in order of first appearance, as a table without values: names whose place is
 * an index. Missing ones are left out. Reads that column, once, within the data set's memory; of a placeholder of the files' names, nothing.
 * Errors: FBY_E_SCHEMA (no such column), FBY_E_UNSUPPORTED (a type that cannot be a key), FBY_E_BUDGET, those of reading.
 * @out  [out] owned by the caller: fby_lookup_close(). Blocks: while it reads.
 */
FBY_API fby_status fby_lookup_distinct(fby_dataset *ds, const char *column, fby_lookup **out, fby_error *err);

/** One more reference; returns its argument. Threads: any. Since: 0.2 */
FBY_API fby_lookup *fby_lookup_ref(fby_lookup *table);
FBY_API void fby_lookup_close(fby_lookup *table); /* NULL is fine; drops one reference */

FBY_API size_t fby_lookup_count(const fby_lookup *table);                    /* keys */
FBY_API size_t fby_lookup_column_count(const fby_lookup *table);             /* columns of values */
FBY_API const char *fby_lookup_column(const fby_lookup *table, size_t i);    /* name; borrowed; NULL when out of range */
FBY_API size_t fby_lookup_key_column_count(const fby_lookup *table);         /* columns of its key */
FBY_API bool fby_lookup_key_is_text(const fby_lookup *table, size_t column); /* of the key; false when out of range */
FBY_API bool fby_lookup_has_text_keys(const fby_lookup *table);              /* is its key one column, of strings? */
/** Key i, or what it has for one column of the key: a text (borrowed; NULL of a number), or a number (0 of a text). FBY_E_ARG out of range, and
 * when a key of several columns is asked for as one. */
FBY_API fby_status fby_lookup_key(const fby_lookup *table, size_t i, int64_t *out_number, const char **out_text, fby_error *err);
FBY_API fby_status fby_lookup_key_value(const fby_lookup *table, size_t i, size_t column, int64_t *out_number, const char **out_text,
                                        fby_error *err);
FBY_API double fby_lookup_value(const fby_lookup *table, size_t row, size_t column); /* NaN when out of range or missing */
/** The row of a key; -1 when it is not there. */
FBY_API int64_t fby_lookup_find_number(const fby_lookup *table, int64_t key);
FBY_API int64_t fby_lookup_find_text(const fby_lookup *table, const char *key, size_t n_bytes);
/** The same for a key of any number of columns: what `key`, with one entry for each column of the table's key, has at i. */
FBY_API int64_t fby_lookup_find_keys(const fby_lookup *table, const fby_lookup_keys *key, size_t i);

#ifdef __cplusplus
}
#endif
#endif
