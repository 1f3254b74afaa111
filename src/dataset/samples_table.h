/* Index tables of groups: one row a group, with its file and its first and last row in it. */
#ifndef FBY_DATASET_SAMPLES_TABLE_H
#define FBY_DATASET_SAMPLES_TABLE_H

#include "dataset/samples_columns.h"
#include "dataset/samples_impl.h"

/** What names a file: the last column of its path's pattern, else its name without extension. Borrows the dataset. */
fby__value fby__file_label(const fby_dataset *ds, uint32_t file);

/** The block that holds a row of the dataset, row < fby_dataset_rows. */
uint32_t fby__block_of_row(const fby_dataset *ds, uint64_t row);

/** Called for each row of the table whose file is in the dataset, with the group's first row there. */
typedef fby_status (*fby__group_value_fn)(void *user, uint64_t table_row, uint64_t first_row, const fby__value *value, fby_error *err);

/** Read one more column of a base's index table: its value for each group, on several threads. */
fby_status fby__group_table_values(const fby__sample_base *base, const fby__read_column *column, int n_threads, fby__group_value_fn visit,
                                   void *user, fby_error *err);

#endif
