/*
 * A vocabulary of n-grams, and which of them occur in a text.
 *
 * Every character of the vocabulary is a class of its own; all others have none. A gram is looked up by its n classes. Whether a character
 * is lowered or left out is decided when the table is made: its class says so. Bytes that are not UTF-8 are characters without a class.
 */
#ifndef FBY_TRANSFORM_GRAM_TABLE_H
#define FBY_TRANSFORM_GRAM_TABLE_H

#include "base/error.h"

#include <forebay/make.h>

/** Immutable once created. */
typedef struct fby__gram_table fby__gram_table;

/**
 * @output  for messages.
 * FBY_E_ARG naming the gram or option, FBY_E_UNSUPPORTED where `lower` finds no UTF-8 locale, FBY_E_NOMEM.
 */
fby_status fby__gram_table_create(const fby_make_ngrams *make, const char *output, fby__gram_table **out, fby_error *err);
void fby__gram_table_destroy(fby__gram_table *t); /* NULL is fine */
size_t fby__gram_table_bytes(const fby__gram_table *t);

/** Classes of n bytes of text to `classes`, which has room for n + 1. Returns how many. */
size_t fby__gram_classes(const fby__gram_table *t, const uint8_t *text, size_t n, uint16_t *classes);

/** Leave out white space at both ends, where the table strips: moves *classes on, returns how many are left. */
size_t fby__gram_strip(const fby__gram_table *t, const uint16_t **classes, size_t n);

/** Write `one`, `bytes` wide, to the column of every gram that occurs. */
void fby__gram_mark(const fby__gram_table *t, const uint16_t *classes, size_t n, uint8_t *dst, size_t bytes, uint64_t one);

#endif
