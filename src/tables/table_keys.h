/*
 * Columns of keys read through a loader of one's own: for tables, ids, and moments by group. Two outputs each, the values as int64 or as text,
 * and which of them are missing.
 */
#ifndef FBY_TABLES_TABLE_KEYS_H
#define FBY_TABLES_TABLE_KEYS_H

#include "budget/allowance.h"
#include "transform/lookup.h"

#include <forebay/loader.h>

#define FBY__KEY_OUTPUTS ((size_t)2 * FBY_MAX_KEYS) /* at most */

/** Columns of a dataset that can be a key. */
typedef struct fby__table_key {
    fby_dataset *ds; /* borrowed */
    size_t n;
    const char *column[FBY_MAX_KEYS]; /* borrowed */
    bool text[FBY_MAX_KEYS];
} fby__table_key;

/** The keys of a batch, borrowed from it. */
typedef struct fby__batch_keys {
    struct {
        const int64_t *numbers; /* values that are numbers */
        const uint8_t *text;    /* values that are text: bytes of value i from offsets[i] to offsets[i + 1] */
        const int64_t *offsets;
        const uint8_t *missing;
    } column[FBY_MAX_KEYS];
    size_t n_tensors; /* of the batch, that these are */
} fby__batch_keys;

/**
 * The key is the column `first`, and n_more ones besides. FBY_E_SCHEMA when there is no such column, FBY_E_UNSUPPORTED when its values are
 * neither whole numbers nor strings, FBY_E_ARG when there are too many, or one comes twice.
 */
fby_status fby__table_key_find(fby_dataset *ds, const char *first, const char *const *more, size_t n_more, fby__table_key *out,
                               fby_error *err);

/** Fill the first outputs of a loader over k->ds; returns how many, FBY__KEY_OUTPUTS at most. */
size_t fby__table_key_outputs(const fby__table_key *k, fby_output *outputs);

/** What those outputs are in a batch: its first tensors. */
void fby__table_key_batch(const fby__table_key *k, const fby_batch *batch, fby__batch_keys *out);

/**
 * The row of a table, with keys of the same types, for key i of a batch; added when it is not there. first_row: of the batch in the dataset.
 * FBY_E_DATA naming file, row and column for a missing key.
 */
fby_status fby__table_key_add(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i, uint64_t first_row, fby_lookup *table,
                              uint32_t *out_row, fby_error *err);

/** Is a value of key i missing? */
bool fby__table_key_missing(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i);

/** Is key i of a batch, i > 0, the one before it? Neither is missing. Rows of one group mostly follow one another. */
bool fby__table_key_repeats(const fby__table_key *k, const fby__batch_keys *keys, uint64_t i);

/** "row 17 of attributes.csv": a row of a dataset as messages name it. */
void fby__table_where(const fby_dataset *ds, uint64_t row, char out[320]);

/*
 * A table that is made while a loader reads, in one budget. The loader gets half of what was stated, or what it needs at least; the table is made
 * of what is left, within a scope of the calling thread.
 */

/** @bytes  the budget; 0 = the data set's. */
fby_status fby__table_scope_begin(fby__account_scope *scope, const fby_dataset *ds, uint64_t bytes, fby_error *err);
fby_status fby__table_scope_end(fby__account_scope *scope, const fby_dataset *ds, fby_status status, fby_error *err);
/** A loader within the scope; opts->memory_bytes is set here. fby_loader_close(). */
fby_status fby__table_loader_open(fby__account_scope *scope, fby_dataset *ds, const fby_loader_opts *opts, fby_loader **out,
                                  fby_error *err);
/** Its memory is not needed any more. */
void fby__table_loader_close(fby__account_scope *scope, fby_loader *l);

#endif
