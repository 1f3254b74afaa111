/*
 * Inside tables: their memory, and finding keys in loops.
 *
 * A key of several columns is found column by column: every column has a table of its distinct values, whose indices are numbers, and a
 * pair of numbers (what was found so far, the next column's) is a key of a table again. So each column has the types, and the rules of
 * equality, of a key of one column.
 *
 *     ('b', 2001) ─► key_columns[0]: 'b' ─► 1 ┐
 *                    key_columns[1]: 2001 ─► 0 ┴─► (1, 0) as one number ─► row      with a third column: joins[0] between the two
 */
#ifndef FBY_TRANSFORM_LOOKUP_INTERNAL_H
#define FBY_TRANSFORM_LOOKUP_INTERNAL_H

#include "base/hash.h"
#include "transform/lookup.h"
#include "transform/transform.h"

#include <stdatomic.h>

struct fby_lookup {
    atomic_uint refs; /* ref: relaxed; close: acq_rel, so that the last one sees every use */
    bool text;        /* keys are texts; false for keys of several columns */
    size_t n_keys, n_columns;
    size_t n_key_columns;     /* of the key; 1 unless key_columns is there */
    fby_lookup **key_columns; /* owned, and each of them: of a key of several columns, the distinct values of each */
    fby_lookup **joins;       /* owned, and each of them: n_key_columns − 2; the last join is this table, whose numbers are such pairs */
    uint64_t pair_stride;     /* of a join: of pair (a, b) the number is a · pair_stride + b */
    char **columns;           /* owned, and each of them */
    double *values;           /* owned; n_keys rows of n_columns */
    int64_t *numbers;         /* owned; keys that are numbers */
    char *texts;              /* owned; keys that are text, each with a NUL behind it */
    size_t *starts;           /* owned; n_keys + 1: where each text begins in `texts` */
    /* How keys are found: by their distance from the least, or by open addressing with linear probing. */
    uint32_t *direct; /* owned; NULL, or the row of the key first + i; FBY__LOOKUP_NONE where there is none */
    uint64_t n_direct;
    int64_t first;
    uint32_t *slots; /* owned; NULL with `direct`; n_slots (a power of two, at least twice the keys) rows */
    size_t n_slots;
    bool mixed; /* numbers clustered, and are mixed before */
    /* while it is filled: what the arrays have room for */
    size_t cap_values, cap_numbers, cap_texts, cap_starts;
};

/*
 * Keys are mostly numbers that follow each other in equal steps, and lie better than random ones then. Others may cluster, by chance or because
 * somebody chose them; a table that sees it mixes from then on.
 */
static inline size_t fby__lookup_slot_of_number(const fby_lookup *t, int64_t key)
{
    if (t->mixed)
        return (size_t)(fby__table_hash_u64((uint64_t)key) & (t->n_slots - 1));
    const uint64_t product = (uint64_t)key * FBY__GOLDEN; /* its high half decides */
    return (size_t)((product ^ product >> 32) & (t->n_slots - 1));
}

static inline uint32_t fby__lookup_number(const fby_lookup *t, int64_t key)
{
    if (t->direct) {
        uint64_t i = (uint64_t)key - (uint64_t)t->first;
        return i < t->n_direct ? t->direct[i] : FBY__LOOKUP_NONE;
    }
    for (size_t mask = t->n_slots - 1, at = fby__lookup_slot_of_number(t, key);; at = (at + 1) & mask) {
        uint32_t row = t->slots[at];
        if (row == FBY__LOOKUP_NONE || t->numbers[row] == key)
            return row;
    }
}

/** Where (what the columns before were found as, column i's index) is found: of the last column the row. column > 0; neither is NONE. */
static inline uint32_t fby__lookup_pair(const fby_lookup *t, size_t column, uint32_t before, uint32_t index)
{
    const fby_lookup *join = column + 1 == t->n_key_columns ? t : t->joins[column - 1];
    return fby__lookup_number(join, (int64_t)(before * join->pair_stride + index)); /* both are below 2^31 */
}

/** The row of a text key, or FBY__LOOKUP_NONE. */
uint32_t fby__lookup_text(const fby_lookup *t, const void *key, size_t n_bytes);

/* ---- lookup_keys.c: a maker's columns of keys ---- */

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
 * Rows of the table for samples [first, first + n) of a job, n at most FBY__KEY_TILE, by the key of each one's first row, text or number.
 * FBY__LOOKUP_NONE where a key is missing or not in the table; returns whether there is one such.
 */
bool fby__key_find_first(const fby__key *k, const fby__make_view *v, uint64_t first, uint32_t n, uint32_t *rows);

/** The same for n numbers that lie `stride` apart; valid: NULL, or a flag for each, valid_stride apart. */
bool fby__key_find_rows(const fby__key *k, const uint8_t *keys, size_t stride, const uint8_t *valid, size_t valid_stride, uint32_t n,
                        uint32_t *rows);

/** FBY_E_DATA for a key that is not there: n_bytes of text or the number at `at`. valid: NULL or its flag. */
fby_status fby__key_fail(const fby__key *k, const uint8_t *at, uint64_t n_bytes, const uint8_t *valid, fby_error *err);

/** Several columns whose values together are found in a table: fby__key of each, in its table of the column's values. */
typedef struct fby__keys {
    const fby_lookup *table; /* borrowed */
    uint32_t n;
    bool text; /* all are texts: one key a sample then */
    fby__key column[FBY_MAX_KEYS];
} fby__keys;

/** All columns of a spec, more than one, as the key of a table with as many; none of them arrays. Errors name output and column. */
fby_status fby__keys_create(fby__make_spec *spec, const fby_lookup *table, fby__keys *out, fby_error *err);

/** As fby__key_find_first. views: one a column. */
bool fby__keys_find_first(const fby__keys *k, const fby__make_view *views, uint64_t first, uint32_t n, uint32_t *rows);

/** The rows of the table for rows [row, row + n) of one sample, n at most FBY__KEY_TILE; texts are those of its first row. */
bool fby__keys_find_rows(const fby__keys *k, const fby__make_view *views, uint64_t sample, uint64_t row, uint32_t n, uint32_t *rows);

/** FBY_E_DATA for the key of a sample's row that is not there. */
fby_status fby__keys_fail(const fby__keys *k, const fby__make_view *views, uint64_t sample, uint64_t row, fby_error *err);

#endif
