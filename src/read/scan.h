/*
 * Reading a few columns of a data set once, by several threads: what scans for series and groups, selections and index tables are made of.
 *
 * Blocks are taken by threads one after the other, each on its own, at most a million rows at once. Their columns are decoded
 * and handed over in turn; only one panel a thread is alive at a time. What hooks allocate counts in the same
 * account until the scan ends.
 */
#ifndef FBY_READ_SCAN_H
#define FBY_READ_SCAN_H

#include "read/read.h"

typedef struct fby__read_column {
    int as; /* the owner's: what it is read as */
    fby__dataset_column in;
    fby__panel_column panel_column;
    fby__panel_layout layout; /* points to panel_column: a column does not move */
} fby__read_column;

/** Rows [row, row + n * times) of a block, counted from the block's first. */
typedef struct fby__scan_rows {
    uint32_t block_number;
    const fby__block *block;
    uint64_t row;
    uint64_t n;     /* that are handed over */
    uint64_t times; /* 1; more: n is 1, and all of them are as that row */
    bool first;     /* of the block */
} fby__scan_rows;

/** What to read, and who gets it. Hooks run on any of the threads; those of one block on one of them, in order. */
typedef struct fby__column_reader {
    const fby_dataset *ds;
    const fby__read_column *columns;
    uint32_t n_columns;
    int n_threads;         /* 0 = the CPUs this process may use */
    fby__account *account; /* borrowed: what it takes its memory from; NULL = the calling thread's, else one of the data set */
    fby_progress_fn progress;
    void *progress_user;
    void *user;
    size_t local_bytes; /* of memory of each thread, zeroed, handed to its hooks */
    bool folds;         /* rows of which nothing is stored may be handed over as one. Else `times` is 1 */
    /** Which rows of a block are wanted; false: none of them. NULL = all. */
    bool (*wanted)(void *user, uint32_t block, uint64_t *out_begin, uint64_t *out_end);
    /** One column of those rows: a panel; or NULL, and then the same text in every row, or NULL = missing in every row. */
    fby_status (*column)(void *user, void *local, const fby__scan_rows *rows, uint32_t c, const fby__panel *panel, const char *constant,
                         fby_error *err);
    fby_status (*rows)(void *user, void *local, const fby__scan_rows *rows, fby_error *err); /* after its columns; may be NULL */
    fby_status (*block)(void *user, void *local, uint32_t block, fby_error *err);            /* after its rows; may be NULL */
    void (*fini)(void *local);                                                               /* may be NULL */
} fby__column_reader;

/** Read them. The first error by block order is the one reported. */
fby_status fby__read_columns(const fby__column_reader *r, fby_error *err);

#endif
