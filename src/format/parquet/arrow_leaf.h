/*
 * One leaf on its way into Arrow: spans of the column reader → validity bitmap, values or offsets and bytes, levels.
 * Private to arrow.c and arrow_leaf.c.
 */
#ifndef FBY_FORMAT_PARQUET_ARROW_LEAF_H
#define FBY_FORMAT_PARQUET_ARROW_LEAF_H

#include "format/parquet/parquet.h"

/** Levels asked from the reader at once: their values and flags stay in the L2 cache, also as 32-byte decimals. */
#define FBY__PQ_ARROW_RUN 8192

typedef enum fby__pq_arrow_how {
    FBY__PQ_ARROW_MISSING,       /* null kind: no values at all */
    FBY__PQ_ARROW_BITS,          /* BOOLEAN */
    FBY__PQ_ARROW_COPY,          /* width bytes as stored */
    FBY__PQ_ARROW_NARROW,        /* INT32 → 1 or 2 bytes */
    FBY__PQ_ARROW_INT96,         /* → int64 nanoseconds */
    FBY__PQ_ARROW_DECIMAL_INT,   /* INT32, INT64 → 16 or 32 bytes */
    FBY__PQ_ARROW_DECIMAL_FIXED, /* FLBA, big-endian → 16 or 32 bytes */
    FBY__PQ_ARROW_DECIMAL_BYTES, /* BYTE_ARRAY, big-endian → 16 or 32 bytes */
    FBY__PQ_ARROW_STRINGS        /* BYTE_ARRAY → 64-bit offsets and bytes */
} fby__pq_arrow_how;

/** Zero-initialise; fby__pq_arrow_leaf_fini frees what was not handed to an array. */
typedef struct fby__pq_arrow_leaf {
    fby__pq_arrow_how how;
    uint32_t width;        /* bytes of an Arrow value; 0 for MISSING, BITS, STRINGS */
    uint32_t stored_width; /* bytes of a value as the reader gives it */
    uint16_t max_def, max_rep;
    uint16_t slot_def; /* an entry with this definition level or more has a slot in the array */
    bool keep_levels;
    uint8_t element_def[FBY__MAX_LEVEL + 1]; /* by repetition level: definition level of an element of that list */

    uint64_t n, null_count; /* slots so far */
    fby__buf validity;      /* empty until the first null */
    fby__buf values;        /* fixed-width values, bits, or the bytes of strings */
    fby__buf offsets;       /* STRINGS: n + 1 int64 */
    uint64_t n_levels;
    fby__buf def, rep; /* keep_levels: one byte a level; rep stays empty when max_rep = 0 */
    uint8_t *work;     /* one span's presence flags, then its converted values */
} fby__pq_arrow_leaf;

/**
 * Read rows [row_begin, row_end) of the source's leaf. FBY_E_FORMAT for levels that make no lists, decimals too long
 * for their precision, values in a column of nulls; FBY_E_UNSUPPORTED when the stored type cannot hold the column's
 * kind.
 */
fby_status fby__pq_arrow_leaf_read(fby__pq_arrow_leaf *leaf, const fby__table *table, const char *file_name, uint32_t group,
                                   uint64_t row_begin, uint64_t row_end, const fby__leaf_source *source, bool keep_levels, bool verify_crc,
                                   fby__scratch *scratch, fby_error *err);

/** Hand the buffers over to a fresh array. */
fby_status fby__pq_arrow_leaf_finish(fby__pq_arrow_leaf *leaf, struct ArrowArray *out, fby_error *err);

/** The levels are no longer needed. */
void fby__pq_arrow_leaf_drop_levels(fby__pq_arrow_leaf *leaf);
void fby__pq_arrow_leaf_fini(fby__pq_arrow_leaf *leaf);

/** Write n flags (bytes 0/1) as bits from bit `at`; the bits of bits[at / 8] from `at` on are zero before, and stay
 * zero past the end. */
void fby__pq_arrow_put_bits(uint8_t *bits, uint64_t at, const uint8_t *flags, size_t n);

#endif
