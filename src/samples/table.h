/* Index tables of groups: one row a group, with its file and its first and last row in it. */
#ifndef FBY_SAMPLES_TABLE_H
#define FBY_SAMPLES_TABLE_H

#include "samples/columns.h"
#include "samples/samples_impl.h"

/**
 * What names a file, the key of samples that have no other: the last column of its path's pattern, else its name without folders and
 * extension; with the folders, below the roots of the sources and the sources' names, where another file is named so too. Borrows the
 * base's dataset.
 *
 * @shared  of fby__file_names_shared.
 */
fby__value fby__file_label(const fby_dataset *ds, const uint8_t *shared, uint32_t file);

/** A flag a file: is its name, without folders and extension, that of another file too? Made once, owned by the base; NULL: no memory. */
const uint8_t *fby__file_names_shared(fby__sample_base *base);

/** Called for each row of the table whose file is in the dataset, with the group's first row there. */
typedef fby_status (*fby__group_value_fn)(void *user, uint64_t table_row, uint64_t first_row, const fby__value *value, fby_error *err);

/** Read one more column of a base's index table: its value for each group, on several threads. */
fby_status fby__group_table_values(const fby__sample_base *base, const fby__read_column *column, int n_threads, fby__group_value_fn visit,
                                   void *user, fby_error *err);

/** A group of an index table: rows [begin, end) of the dataset. */
typedef struct fby__table_group {
    uint64_t begin, end;
    uint64_t key; /* fby__key_hash of what the table says is its key; 0 when that is not compared */
} fby__table_group;

/* ---- table_check.c ---- */

typedef struct fby__key_check {
    const char *name;        /* borrowed */
    bool on;                 /* both sides have the key, as values that can be compared */
    fby__read_column column; /* of the data */
    fby__read_column of_table;
} fby__key_check;

/** A check begins zeroed. */
fby_status fby__key_check_init(fby__key_check *k, const fby__sample_base *base, fby_error *err);
uint64_t fby__key_hash(const fby__value *value);
/**
 * Compare the key of the first and the last row of each group, all of them, with the table's. What has been found right is remembered in the
 * cache directory. The groups are in order. FBY_E_DATA: a row that has another key, with file, row and both keys.
 */
fby_status fby__key_check_run(const fby__key_check *k, fby__sample_base *base, const fby__table_group *groups, uint64_t n, int n_threads,
                              fby_error *err);

#endif
