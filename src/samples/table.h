/* Index tables of groups: one row a group, with its file and its first and last row in it. */
#ifndef FBY_SAMPLES_TABLE_H
#define FBY_SAMPLES_TABLE_H

#include "base/arena.h"
#include "samples/columns.h"
#include "samples/samples_impl.h"

#include <pthread.h>

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

/* ---- table_check.c ---- */

#define FBY__KEY_SPOTS 64u

/** Rows of the dataset that are looked at. */
typedef struct fby__key_spot {
    uint64_t begin, end;
} fby__key_spot;

/** A row that must have a key. */
typedef struct fby__key_probe {
    uint64_t row, table_row;
    fby__value value; /* text: the arena's */
} fby__key_probe;

typedef struct fby__key_check {
    /* set once */
    const fby_dataset *ds;
    const char *name;                    /* borrowed */
    bool on;                             /* both sides have the key, as values that can be compared */
    fby__read_column column;             /* of the data */
    fby__key_spot spots[FBY__KEY_SPOTS]; /* in order */
    uint32_t n_spots;
    /* under lock */
    pthread_mutex_t lock;
    fby__arena arena;
    fby__key_probe *probes; /* owned */
    size_t n_probes, cap_probes;
} fby__key_check;

/** A check begins zeroed but for its lock, and does not move. of_table: filled when check.on. */
fby_status fby__key_check_init(fby__key_check *k, const fby__sample_base *base, fby__read_column *of_table, fby_error *err);
void fby__key_check_fini(fby__key_check *k);
/** Rows [begin, end) of the dataset are a group with this key, says a row of the table. Any thread. */
fby_status fby__key_check_offer(fby__key_check *k, uint64_t table_row, uint64_t begin, uint64_t end, const fby__value *value,
                                fby_error *err);
/** FBY_E_DATA: a row that has another key, with file, row and both keys. */
fby_status fby__key_check_run(fby__key_check *k, int n_threads, fby_error *err);

#endif
