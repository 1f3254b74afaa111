/*
 * Tables found by a key, while they are filled: what fby_lookup_open reads row by row, and what a fit by group numbers its groups with.
 * A table is changed by one thread, sealed, and from then on is what <forebay/lookup.h> says: immutable, for any thread.
 */
#ifndef FBY_TRANSFORM_LOOKUP_H
#define FBY_TRANSFORM_LOOKUP_H

#include "base/error.h"

#include <forebay/lookup.h>

#define FBY__LOOKUP_NONE UINT32_MAX /* the row of a key that is not there */
#define FBY__LOOKUP_MAX_KEYS ((size_t)1 << 31)

/**
 * An empty table. columns: n_columns names, copied; FBY_E_ARG when one comes twice.
 * @out  fby_lookup_close().
 */
fby_status fby__lookup_new(bool text_keys, const char *const *columns, size_t n_columns, fby_lookup **out, fby_error *err);

/** The row of a key, which is added with missing values when it is not there. Text keys: no NUL byte in them (FBY_E_DATA). */
fby_status fby__lookup_add_number(fby_lookup *t, int64_t key, uint32_t *out_row, fby_error *err);
fby_status fby__lookup_add_text(fby_lookup *t, const void *key, size_t n_bytes, uint32_t *out_row, fby_error *err);

/** The values of a row, to be written while the table is filled; valid until the next key is added. */
double *fby__lookup_row(fby_lookup *t, uint32_t row);

/** No more keys: whole numbers that lie close together get a table of their own, found without hashing. */
fby_status fby__lookup_seal(fby_lookup *t, fby_error *err);

/** A key as messages show it: 17, or 'gauge_1', shortened; at most 72 bytes with the NUL. */
void fby__lookup_key_text(const fby_lookup *t, uint32_t row, char out[72]);
/** The same for bytes that are no key of a table. */
void fby__lookup_quote(const void *key, size_t n_bytes, char out[72]);
/** "a table of 5160 keys, 0 to 5159" or "…, 'a', 'b', …", for messages. */
void fby__lookup_describe(const fby_lookup *t, char out[240]);

#endif
