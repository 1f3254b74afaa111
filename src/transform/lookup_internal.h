/* Inside tables: their memory, and finding keys in loops. */
#ifndef FBY_TRANSFORM_LOOKUP_INTERNAL_H
#define FBY_TRANSFORM_LOOKUP_INTERNAL_H

#include "transform/lookup.h"
#include "transform/transform.h"

#include <stdatomic.h>

struct fby_lookup {
    atomic_uint refs; /* ref: relaxed; close: acq_rel, so that the last one sees every use */
    bool text;
    size_t n_keys, n_columns;
    char **columns;   /* owned, and each of them */
    double *values;   /* owned; n_keys rows of n_columns */
    int64_t *numbers; /* owned; keys that are numbers */
    char *texts;      /* owned; keys that are text, each with a NUL behind it */
    size_t *starts;   /* owned; n_keys + 1: where each text begins in `texts` */
    /* How keys are found: by their place between the least and the greatest, or by open addressing with linear probing. */
    uint32_t *direct; /* owned; NULL, or the row of the key first + i; FBY__LOOKUP_NONE where there is none */
    uint64_t n_direct;
    int64_t first;
    uint32_t *slots; /* owned; NULL with `direct`; n_slots (a power of two, at least twice the keys) rows */
    size_t n_slots;
    /* while it is filled: what the arrays have room for */
    size_t cap_values, cap_numbers, cap_texts, cap_starts;
};

static inline uint64_t fby__lookup_hash_number(int64_t key)
{
    uint64_t h = (uint64_t)key * 0x9e3779b97f4a7c15u; /* Fibonacci hashing; the high half decides */
    return h ^ h >> 32;
}

static inline uint32_t fby__lookup_number(const fby_lookup *t, int64_t key)
{
    if (t->direct) {
        uint64_t i = (uint64_t)key - (uint64_t)t->first;
        return i < t->n_direct ? t->direct[i] : FBY__LOOKUP_NONE;
    }
    for (size_t mask = t->n_slots - 1, at = fby__lookup_hash_number(key) & mask;; at = (at + 1) & mask) {
        uint32_t row = t->slots[at];
        if (row == FBY__LOOKUP_NONE || t->numbers[row] == key)
            return row;
    }
}

/** The row of a text key, or FBY__LOOKUP_NONE. */
uint32_t fby__lookup_text(const fby_lookup *t, const void *key, size_t n_bytes);

/* ---- lookup_keys.c: a maker's column of keys ---- */

#define FBY__KEY_TILE 256u /* keys that are found at a time: their rows stay in the L1 cache until they are copied */

/** A column whose values are found in a table. */
typedef struct fby__key {
    const fby_lookup *table; /* borrowed */
    fby_dtype dtype;         /* of the column's values; unused for text */
    bool text;
} fby__key;

/** Column `column` of a spec as the key of a table: sets its dtype and want_valid. Errors name output and column. */
fby_status fby__key_create(fby__make_spec *spec, uint32_t column, const fby_lookup *table, fby__key *out, fby_error *err);

/**
 * Rows of the table for samples [first, first + n) of a run, n at most FBY__KEY_TILE, of each the key of its first row: text or not.
 * FBY__LOOKUP_NONE where a key is missing or not there; returns whether there is such a one.
 */
bool fby__key_find_first(const fby__key *k, const fby__make_view *v, uint64_t first, uint32_t n, uint32_t *rows);

/** The same for n numbers that lie `stride` apart; valid: NULL, or a flag for each, valid_stride apart. */
bool fby__key_find_run(const fby__key *k, const uint8_t *keys, size_t stride, const uint8_t *valid, size_t valid_stride, uint32_t n,
                       uint32_t *rows);

/** FBY_E_DATA for a key that is not there: of text its bytes and their count, else the number at `at`. valid: NULL or its flag. */
fby_status fby__key_fail(const fby__key *k, const uint8_t *at, uint64_t n_bytes, const uint8_t *valid, fby_error *err);

#endif
