/*
 * Inside the Parquet reader: metadata, page headers, and the column reader that both sinks pull from.
 *
 *   thrift.c     the compact protocol, as far as Parquet needs it
 *   footer.c     footer → fby__pq_table (schema.c: schema elements → fby__schema)
 *   pages.c      page headers, page index, locate
 *   encodings.c… bits, runs, deltas, dictionaries: bytes → values
 *   reader.c     one column chunk → spans of (levels, values)
 *   panel.c      spans → panels         (the sink for training)
 *   arrow.c      spans → ArrowArray     (the sink for pyarrow, polars, DuckDB)
 *
 * Source of every rule: the Parquet format's README, Encodings.md, Compression.md and parquet.thrift (format 2.11).
 */
#ifndef FBY_FORMAT_PARQUET_H
#define FBY_FORMAT_PARQUET_H

#include "format/format.h"

#include <pthread.h>

/* parquet.thrift enum Type */
enum { FBY__PQ_BOOLEAN, FBY__PQ_INT32, FBY__PQ_INT64, FBY__PQ_INT96, FBY__PQ_FLOAT, FBY__PQ_DOUBLE, FBY__PQ_BYTE_ARRAY, FBY__PQ_FLBA };

/* parquet.thrift enum Encoding */
enum {
    FBY__PQ_PLAIN = 0,
    FBY__PQ_PLAIN_DICTIONARY = 2,
    FBY__PQ_RLE = 3,
    FBY__PQ_BIT_PACKED = 4,
    FBY__PQ_DELTA_BINARY_PACKED = 5,
    FBY__PQ_DELTA_LENGTH_BYTE_ARRAY = 6,
    FBY__PQ_DELTA_BYTE_ARRAY = 7,
    FBY__PQ_RLE_DICTIONARY = 8,
    FBY__PQ_BYTE_STREAM_SPLIT = 9
};

/* parquet.thrift enum PageType */
enum { FBY__PQ_DATA_PAGE = 0, FBY__PQ_INDEX_PAGE = 1, FBY__PQ_DICTIONARY_PAGE = 2, FBY__PQ_DATA_PAGE_V2 = 3 };

/** A column chunk's metadata: plain data, stored as it is in the index cache. Offsets are checked against the file's size at open. */
typedef struct fby__pq_chunk {
    uint64_t dictionary_offset; /* 0 = not stated: a dictionary page may still stand first */
    uint64_t data_offset;       /* of the first page to read: min(dictionary, data) where both are stated */
    uint64_t compressed_bytes;  /* of all pages with headers, from data_offset above */
    uint64_t uncompressed_bytes;
    uint64_t n_values;            /* levels */
    int64_t null_count;           /* -1 = unknown */
    uint64_t offset_index_offset; /* 0 = none */
    uint32_t offset_index_bytes;
    uint16_t encodings; /* bit per encoding; bit 15 = some encoding above 14 */
    uint8_t codec;      /* fby__codec_id, or FBY__PQ_CODEC_REFUSED | parquet's number: refused by locate, by name */
    uint8_t reserved;
} fby__pq_chunk;

/* LZO, and codecs this version does not know: such a file opens, so that its other columns stay usable. */
#define FBY__PQ_CODEC_REFUSED 0x80
const char *fby__pq_codec_name(uint8_t codec); /* "snappy", "lzo", "unknown"; static (describe.c) */

/** Where the data pages of one chunk lie. Built from the OffsetIndex, or from the page headers. */
typedef struct fby__pq_page_index {
    uint32_t n_pages;
    uint64_t dictionary_offset, dictionary_bytes; /* page with header; bytes 0 = none */
    uint64_t *offset;                             /* n_pages + 1: the last is the end of the chunk */
    uint64_t *first_row;                          /* n_pages + 1, in rows of the group */
} fby__pq_page_index;

typedef struct fby__pq_table {
    fby__table base;
    uint64_t file_bytes;
    fby__pq_chunk *chunks;      /* [group * n_leaves + leaf], owned */
    pthread_mutex_t lock;       /* guards index */
    fby__pq_page_index **index; /* [group * n_leaves + leaf]; array and entries are NULL until needed; an entry never changes once set */
} fby__pq_table;

static inline const fby__pq_table *fby__pq(const fby__table *table) { return (const fby__pq_table *)table; }
static inline const fby__pq_chunk *fby__pq_chunk_of(const fby__table *table, uint32_t group, uint32_t leaf)
{
    return &fby__pq(table)->chunks[(size_t)group * table->schema->n_leaves + leaf];
}

/** A parsed page header. Counts and sizes are checked to be non-negative; nothing else is trusted. */
typedef struct fby__pq_page {
    int32_t type; /* enum PageType */
    uint32_t header_bytes;
    uint32_t compressed_bytes, uncompressed_bytes; /* of the body */
    bool has_crc;
    uint32_t crc;
    uint32_t n_values; /* levels (data pages), values (dictionary) */
    int32_t encoding;
    int32_t def_encoding, rep_encoding; /* v1: RLE or BIT_PACKED */
    /* v2 */
    uint32_t n_nulls, n_rows, def_bytes, rep_bytes;
    bool is_compressed;
} fby__pq_page;

/** Parse the header at bytes. FBY_E_FORMAT (message without context: the caller knows where) when it is cut or not valid. */
fby_status fby__pq_page_parse(fby__bytes bytes, fby__pq_page *out, fby_error *err);

/* ---- the column reader (reader.c) ---- */

/**
 * Byte-array values of a run: pointer and length each; the bytes live until the next call on the reader, except when
 * `stable` says that they live until fby__pq_reader_close (dictionary entries).
 */
typedef struct fby__pq_string {
    const uint8_t *data;
    uint32_t n;
} fby__pq_string;

/** What one call of fby__pq_reader_next yields. All pointers are borrowed until the next call. */
typedef struct fby__pq_span {
    size_t n_levels;    /* definition levels; for flat columns: rows */
    size_t n_values;    /* non-null values, dense */
    const uint8_t *def; /* n_levels, NULL when max_def = 0 or when every value of the span is present (def = max_def) */
    const uint8_t *rep; /* n_levels, NULL when max_rep = 0 */
    /* values by physical type, exactly one set: */
    const void *fixed;             /* BOOLEAN (bytes 0/1), INT32, INT64, FLOAT, DOUBLE, INT96 (12 bytes), FLBA (type_length bytes) */
    const fby__pq_string *strings; /* BYTE_ARRAY */
} fby__pq_span;

/**
 * Reads rows [row_begin, row_end) of one leaf in order. One thread. Scratch memory comes from `pool` slots of the scratch the
 * caller passes (reader.c says how); several readers can be open on one scratch at once, up to FBY__PQ_MAX_READERS.
 */
#define FBY__PQ_MAX_READERS 16
typedef struct fby__pq_reader fby__pq_reader;

/**
 * @slot  0 ≤ slot < FBY__PQ_MAX_READERS: which of the scratch's reader slots to use; memory in it is reused from call to call.
 * The reader is owned by the scratch: close it when done (errors included). Errors carry file, row group and column.
 */
fby_status fby__pq_reader_open(const fby__table *table, const char *file_name, uint32_t group, const fby__leaf_source *source,
                               uint64_t row_begin, uint64_t row_end, bool verify_crc, fby__scratch *scratch, int slot, fby__pq_reader **out,
                               fby_error *err);

/**
 * The next span: at most max_levels levels, fewer at a page's end; n_levels = 0 at the end of the rows asked for.
 * Flat columns deliver rows; repeated ones deliver levels (a row begins where rep = 0) and stop exactly at row_end.
 * FBY_E_FORMAT when the chunk holds fewer rows than stated, levels above the maximum, an index beyond the dictionary, …
 */
fby_status fby__pq_reader_next(fby__pq_reader *reader, size_t max_levels, fby__pq_span *out, fby_error *err);
void fby__pq_reader_close(fby__pq_reader *reader); /* NULL is fine */

/** "file.parquet: row group 3, column 'a.b'": put before messages about this leaf (describe.c). */
void fby__pq_context(fby_error *err, const fby__table *table, const char *file_name, uint32_t group, uint32_t leaf);

/* the ops, one implementation file each */
fby_status fby__pq_open(fby__file *file, fby__table **out, fby_error *err);                       /* footer.c */
fby_status fby__pq_freeze(const fby__table *table, fby__buf *out, fby_error *err);                /* freeze.c */
fby_status fby__pq_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err); /* freeze.c */
void fby__pq_destroy(fby__table *table);
void fby__pq_leaf_bounds(const fby__table *table, uint32_t group, uint32_t leaf, fby__leaf_bounds *out);
fby_status fby__pq_locate(const fby__table *table, fby__file *file, uint32_t group, uint64_t row_begin, uint64_t row_end,
                          fby__leaf_source *sources, size_t n, fby_error *err);                           /* pages.c */
fby_status fby__pq_contents(fby__file *file, const fby__table *table, fby_contents *out, fby_error *err); /* footer_bytes.c */
fby_status fby__pq_describe(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err);
fby_status fby__pq_decode_panel(const fby__decode *request, fby__scratch *scratch, fby_error *err); /* panel.c */
fby_status fby__pq_decode_arrow(const fby__table *table, const char *file_name, uint32_t group, uint64_t row_begin, uint64_t row_end,
                                uint32_t field, bool verify_crc, const fby__leaf_source *sources, fby__scratch *scratch,
                                struct ArrowArray *out, fby_error *err); /* arrow.c */

#endif
