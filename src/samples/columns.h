/*
 * Reading a few columns of a dataset once, by several threads: what scans for series and groups, selections and index tables are made of.
 *
 * Blocks are taken by threads one after the other, each on its own, in pieces of at most a million rows. Of a piece every column is decoded
 * and handed over in turn; only one panel a thread is alive at a time.
 */
#ifndef FBY_SAMPLES_COLUMNS_H
#define FBY_SAMPLES_COLUMNS_H

#include "dataset/dataset.h"

/** What a column is read as: it decides which types will do, and the dtype of the panel. */
typedef enum fby__read_as {
    FBY__READ_KEY,  /* compared byte for byte: as stored */
    FBY__READ_TIME, /* int64, or float64 when it has fractions */
    FBY__READ_DROP, /* looked through for missing values: as stored, several values a row too */
    FBY__READ_VALUE /* compared with what a caller gives: int64 (uint64 stays), float64, bool, bytes */
} fby__read_as;

typedef struct fby__read_column {
    fby__read_as as;
    fby__dataset_column in;
    fby__panel_column panel_column;
    fby__panel_layout layout; /* points to panel_column: a column does not move */
} fby__read_column;

/** FBY_E_SCHEMA: no such column. FBY_E_UNSUPPORTED: a type that will not do, named. */
fby_status fby__read_column_init(fby__read_column *c, const fby_dataset *ds, fby__read_as as, const char *path, fby_error *err);
/** Are its values text: strings, or bytes of one length? */
bool fby__read_column_is_text(const fby__read_column *c);
/** "column 'x' of type list<…> cannot be …", FBY_E_UNSUPPORTED. */
fby_status fby__read_column_refuse(const fby__read_column *c, const char *what, fby_error *err);

/** Rows [row, row + rows) of a block, counted from the block's first. */
typedef struct fby__read_piece {
    uint32_t block_number;
    const fby__block *block;
    uint64_t row, rows;
    bool first; /* of the block */
} fby__read_piece;

/** What to read, and who gets it. Hooks run on any of the threads; those of one block on one of them, in order. */
typedef struct fby__column_reader {
    const fby_dataset *ds;
    const fby__read_column *columns;
    uint32_t n_columns;
    int n_threads; /* 0 = the CPUs this process may use */
    fby_progress_fn progress;
    void *progress_user;
    void *user;
    size_t local_bytes; /* of memory of each thread, zeroed, handed to its hooks */
    /** Which rows of a block are wanted; false: none of them. NULL = all. */
    bool (*rows)(void *user, uint32_t block, uint64_t *out_begin, uint64_t *out_end);
    /** One column of a piece: a panel; or NULL, and then the same text in every row, or NULL = missing in every row. */
    fby_status (*column)(void *user, void *local, const fby__read_piece *piece, uint32_t c, const fby__panel *panel, const char *constant,
                         fby_error *err);
    fby_status (*piece)(void *user, void *local, const fby__read_piece *piece, fby_error *err); /* after its columns; may be NULL */
    fby_status (*block)(void *user, void *local, uint32_t block, fby_error *err);               /* after its pieces; may be NULL */
    void (*fini)(void *local);                                                                  /* may be NULL */
} fby__column_reader;

/** Read them. The first error by block order is the one reported. */
fby_status fby__read_columns(const fby__column_reader *r, fby_error *err);

/** A value of a row. */
typedef enum fby__value_kind { FBY__VALUE_MISSING, FBY__VALUE_NUMBER, FBY__VALUE_FLOAT, FBY__VALUE_TEXT } fby__value_kind;
typedef struct fby__value {
    fby__value_kind kind;
    int64_t number;
    double real;
    const uint8_t *text; /* borrowed from the panel */
    size_t n;
} fby__value;

/** The value in a row of a panel of a column read as FBY__READ_VALUE. NaN is missing, as everywhere. */
fby__value fby__value_at(const fby__read_column *c, const fby__panel *panel, const char *constant, uint64_t row);
/** 'text', 12 or 0.5: for messages. */
void fby__value_print(const fby__value *v, char *out, size_t n);

#endif
