/*
 * The column reader from inside: what panel.c uses below fby__pq_reader_next, so that the dense path turns page bytes into
 * the panel's dtype without writing physical values first.
 *
 *   reader.c        open, levels → rows, spans for everyone
 *   reader_page.c   pages: headers, checksums, decompression, where levels and values lie
 *   dictionary.c    the dictionary page
 *   values.c        values of the current page, by encoding
 *
 * A reader lives in one of the slots of the scratch's state and keeps its buffers from use to use.
 */
#ifndef FBY_FORMAT_PARQUET_READER_H
#define FBY_FORMAT_PARQUET_READER_H

#include "format/parquet/encodings.h"

/** Memory that is reused: contents do not survive growing. */
typedef struct fby__pq_mem {
    uint8_t *data; /* owned */
    size_t cap;
} fby__pq_mem;
/** At least n bytes and 64 more behind them. */
fby_status fby__pq_mem_need(fby__pq_mem *mem, size_t n, fby_error *err);

/** How the values of the current page are stored. */
typedef enum fby__pq_stored {
    FBY__PQ_NO_VALUES,
    FBY__PQ_FIXED,   /* PLAIN, value_bytes each: p … end */
    FBY__PQ_BITS,    /* PLAIN booleans: bit `next` of p … end */
    FBY__PQ_RUNS,    /* RLE booleans */
    FBY__PQ_STRINGS, /* PLAIN byte arrays */
    FBY__PQ_INDICES, /* into the dictionary */
    FBY__PQ_DELTA,
    FBY__PQ_DELTA_LENGTH,
    FBY__PQ_DELTA_STRINGS,
    FBY__PQ_SPLIT /* BYTE_STREAM_SPLIT: n_total values from p, `next` is the next one */
} fby__pq_stored;

struct fby__pq_reader {
    /* set once, at open; borrowed */
    const fby__table *table;
    const char *file_name;
    uint32_t group;
    const fby__leaf *leaf;
    const fby__pq_chunk *chunk;
    const fby__leaf_source *source;
    fby__scratch *scratch;
    uint64_t row_begin, row_end;
    bool verify_crc;
    bool to_end;        /* row_end is the group's: nothing may follow */
    size_t value_bytes; /* of a physical value; 1 for BOOLEAN, 0 for BYTE_ARRAY */

    /* position */
    unsigned range;       /* of the source */
    uint64_t at;          /* in the range: the next page header */
    uint64_t page_offset; /* in the file, of the current page: for messages */
    uint64_t row;         /* flat: row of the next level; repeated: rows begun, counted from the group's first */
    uint64_t levels_seen;
    bool begun; /* repeated: a level was read */
    bool finished;

    /* dictionary (dictionary.c) */
    bool has_dictionary;
    uint32_t n_dictionary;
    const uint8_t *dictionary;          /* fixed-size values, in place or in mem.dictionary */
    fby__pq_string *dictionary_strings; /* BYTE_ARRAY: in mem.strings */

    /* page */
    uint64_t page_left; /* levels */
    fby__levels def, rep;
    fby__pq_stored stored;
    const uint8_t *p, *end;
    size_t next, n_total;
    fby__hybrid runs; /* indices, booleans */
    fby__delta delta;
    fby__delta_length delta_length;
    fby__delta_strings delta_strings; /* owns buffers */

    struct {
        fby__pq_mem page, dictionary, strings, def, rep, value;
        fby__pq_mem converted; /* panel.c: the dictionary in the panel's dtype */
    } mem;                     /* owned */
};

/** The Parquet part of a scratch (scratch->state). */
typedef struct fby__pq_scratch {
    fby__pq_reader slots[FBY__PQ_MAX_READERS];
    fby__pq_mem tiles, work; /* panel.c */
} fby__pq_scratch;
/** Create it on first use. */
fby_status fby__pq_scratch_of(fby__scratch *scratch, fby__pq_scratch **out, fby_error *err);

/* ---- reader.c ---- */

typedef struct fby__pq_step {
    size_t n_levels, n_values; /* n_levels 0: the end */
    const uint8_t *def, *rep;  /* as in fby__pq_span */
} fby__pq_step;

/**
 * Levels of the next span, within one page. The n_values values must then be read by the functions below, all of them, before the
 * next call. Errors here and below carry the page's offset but not the column: fby__pq_reader_fail adds it.
 */
fby_status fby__pq_reader_levels(fby__pq_reader *r, size_t max_levels, fby__pq_step *out, fby_error *err);
/** Put file, row group, column and page before a message; returns status. */
fby_status fby__pq_reader_fail(const fby__pq_reader *r, fby_status status, fby_error *err);

/* ---- reader_page.c ---- */

/** Go to the next data page with levels; *out_end at the end of the source. Whole pages before row_begin are passed over unread. */
fby_status fby__pq_reader_page(fby__pq_reader *r, bool *out_end, fby_error *err);
/** Is there another data page with levels? Nothing is decoded. */
bool fby__pq_reader_has_more(fby__pq_reader *r);
/** Rows of a flat column in the pages that were not visited, by their headers; the reader is at its end afterwards. */
uint64_t fby__pq_reader_rows_left(fby__pq_reader *r);
/** About how much scratch the pages will take at once, at most, from metadata and headers alone; 0 when pages are used in place. */
uint64_t fby__pq_reader_estimate(fby__pq_reader *r);

/* ---- dictionary.c ---- */

fby_status fby__pq_reader_dictionary(fby__pq_reader *r, const fby__pq_page *page, fby__bytes body, fby_error *err);

/* ---- values.c ---- */

/** Get ready for the values of a page. */
fby_status fby__pq_values_init(fby__pq_reader *r, int32_t encoding, fby__bytes bytes, fby_error *err);
/** PLAIN fixed-size values used where they lie (any alignment), else NULL and nothing read. FBY_E_FORMAT when there are fewer. */
fby_status fby__pq_values_in_place(fby__pq_reader *r, size_t n, const uint8_t **out, fby_error *err);
/** n physical values of value_bytes each (BOOLEAN: bytes 0/1), any type but BYTE_ARRAY. */
fby_status fby__pq_values_fixed(fby__pq_reader *r, size_t n, void *out, fby_error *err);
/** n values of a BYTE_ARRAY leaf; valid until the next call. */
fby_status fby__pq_values_strings(fby__pq_reader *r, size_t n, fby__pq_string *out, fby_error *err);
/** FBY__PQ_INDICES: entries of elem_bytes looked up in any array of n_dictionary. */
fby_status fby__pq_values_gather(fby__pq_reader *r, size_t n, const void *dictionary, size_t elem_bytes, void *out, fby_error *err);
fby_status fby__pq_values_skip(fby__pq_reader *r, size_t n, fby_error *err);

#endif
