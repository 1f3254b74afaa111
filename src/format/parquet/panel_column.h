/* One leaf on its way into a panel: from what the file stores to elements of the panel's dtype. Private to panel*.c. */
#ifndef FBY_FORMAT_PARQUET_PANEL_COLUMN_H
#define FBY_FORMAT_PARQUET_PANEL_COLUMN_H

#include "block/convert.h"
#include "format/parquet/reader.h"

/** Levels asked for at once; dense tiles are no longer. */
#define FBY__PQ_TILE_ROWS 4096

typedef enum fby__pq_source {
    FBY__PQ_FROM_NOTHING, /* FBY_KIND_NULL: every value is missing, the file's pages are not read */
    FBY__PQ_FROM_SAME,    /* physical values are elements of the panel, or the bytes of a fixed binary */
    FBY__PQ_FROM_NUMBERS, /* physical values are of src_dtype */
    FBY__PQ_FROM_INT96,
    FBY__PQ_FROM_DECIMAL_BYTES /* big-endian two's complement, BYTE_ARRAY or FLBA */
} fby__pq_source;

typedef struct fby__pq_column {
    /* set once, at open */
    const fby__decode *request;
    const fby__decode_column *asked;
    const fby__panel_column *target;
    fby__pq_reader *reader; /* owned by the scratch; NULL when FROM_NOTHING */
    fby__pq_scratch *scratch;
    fby__pq_source from;
    fby_dtype src_dtype, dst_dtype;
    fby__scale scale;
    size_t elem_bytes; /* of a converted value: the dtype's, or a fixed binary's width */
    uint8_t fill[8];   /* an element; fixed binaries: its first byte, repeated */

    bool dictionary_seen;
    const uint8_t *dictionary; /* in the panel's dtype; NULL when an entry does not fit: then values are converted one by one */

    /* the tile (dense) */
    uint8_t *tile;    /* in scratch->tiles */
    const void *rows; /* what to interleave: the tile, or page bytes in place */
} fby__pq_column;

/** Open the reader of asked in a slot and see how its values convert. FBY_E_SCHEMA when they cannot. */
fby_status fby__pq_column_open(const fby__decode *request, const fby__decode_column *asked, fby__scratch *scratch, int slot,
                               fby__pq_column *out, fby_error *err);
void fby__pq_column_close(fby__pq_column *c);

/**
 * The next n values of the current page as elements at dst (64 bytes more may be written behind them).
 * @def, @n_levels  levels of the step they belong to (def NULL: all present), @row the row of its first level, for messages;
 *                  repeated columns pass the row where the step began.
 */
fby_status fby__pq_column_next(fby__pq_column *c, size_t n, uint8_t *dst, const uint8_t *def, uint64_t row, fby_error *err);

/** Space n dense elements out: dst[i] is the next of src where def[i] = max, else fill. src has 64 readable bytes behind. */
void fby__pq_expand(uint8_t *dst, const uint8_t *src, const uint8_t *def, uint8_t max, size_t n, const uint8_t *fill, size_t elem_bytes);

/** FBY_E_DATA: row (of the group) is missing and the column has no fill. */
fby_status fby__pq_column_missing(const fby__pq_column *c, uint64_t row, fby_error *err);
/** Add the file, row group and column of c. */
fby_status fby__pq_column_fail(const fby__pq_column *c, fby_status status, fby_error *err);

/* The kinds of panels with files of their own. Errors come with context. */
fby_status fby__pq_decode_ragged(const fby__decode *request, fby__scratch *scratch, fby_error *err); /* panel_ragged.c */
fby_status fby__pq_decode_bytes(const fby__decode *request, fby__scratch *scratch, fby_error *err);  /* panel_bytes.c */

#endif
