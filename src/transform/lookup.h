/*
 * Tables found by a key, while they are filled: fby_lookup_open fills one row by row, and a fit by group numbers its groups with one.
 * One thread fills a table and seals it; from then on it is what <forebay/lookup.h> says: immutable, for any thread.
 */
#ifndef FBY_TRANSFORM_LOOKUP_H
#define FBY_TRANSFORM_LOOKUP_H

#include "base/error.h"

#include <forebay/lookup.h>

#define FBY__LOOKUP_NONE UINT32_MAX /* the row of a key that is not there */
#define FBY__LOOKUP_MAX_KEYS ((size_t)1 << 31)

/**
 * An empty table whose key has n_key_columns columns, each of texts or of numbers as text_keys says. columns: n_columns names, copied;
 * FBY_E_ARG when a name comes twice.
 * @out  fby_lookup_close().
 */
fby_status fby__lookup_new(const bool *text_keys, size_t n_key_columns, const char *const *columns, size_t n_columns, fby_lookup **out,
                           fby_error *err);

/** The row of a key, which is added with missing values when it is not there. Text keys: no NUL byte in them (FBY_E_DATA). */
fby_status fby__lookup_add_number(fby_lookup *t, int64_t key, uint32_t *out_row, fby_error *err);
fby_status fby__lookup_add_text(fby_lookup *t, const void *key, size_t n_bytes, uint32_t *out_row, fby_error *err);

/** One column of a key: a text of n_bytes, or a number where text is NULL. */
typedef struct fby__lookup_key {
    const void *text; /* borrowed */
    size_t n_bytes;
    int64_t number;
} fby__lookup_key;

/** The same for a key of any number of columns, one value each, of the columns' types. */
fby_status fby__lookup_add(fby_lookup *t, const fby__lookup_key *key, uint32_t *out_row, fby_error *err);

/** The values of a row, to be written while the table is filled; valid until the next key is added. */
double *fby__lookup_row(fby_lookup *t, uint32_t row);

/** No more keys: whole numbers that lie close together get a table that is indexed without hashing. */
fby_status fby__lookup_seal(fby_lookup *t, fby_error *err);

#define FBY__LOOKUP_VALUE_CHARS 72u /* of one column, as messages show it, with the NUL */
#define FBY__LOOKUP_KEY_CHARS 200u  /* of a key */
#define FBY__LOOKUP_CHARS 480u      /* of a table */

/** A key as messages show it: 17, 'gauge_1', ('gauge_1', 17), shortened. */
void fby__lookup_key_text(const fby_lookup *t, uint32_t row, char out[FBY__LOOKUP_KEY_CHARS]);
/** A text as messages show it. */
void fby__lookup_quote(const void *key, size_t n_bytes, char out[FBY__LOOKUP_VALUE_CHARS]);
/** The same for a key of n columns, given the texts of its values. */
void fby__lookup_join_texts(char (*values)[FBY__LOOKUP_VALUE_CHARS], size_t n, char out[FBY__LOOKUP_KEY_CHARS]);
/** "a table of 5160 keys, 0 to 5159" or "…, from 'a' to 'b'", for messages. */
void fby__lookup_describe(const fby_lookup *t, char out[FBY__LOOKUP_CHARS]);

#endif
