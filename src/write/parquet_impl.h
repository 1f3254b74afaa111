/*
 * Inside the Parquet writer.
 *
 *   parquet_writer.c      the vtable; row groups; the footer
 *   parquet_schema.c      Arrow schema → nodes and leaves; Parquet's schema elements
 *   parquet_levels.c      Arrow arrays → definition and repetition levels, and where the present values lie
 *   parquet_values.c      Arrow values → physical values, dense
 *   parquet_dictionary.c  whether a chunk's values are worth a dictionary, and which
 *   parquet_bounds.c      least and greatest value: statistics and page index
 *   parquet_chunk.c       a leaf of a row group → its pages, and what the indexes say about them
 *   parquet_encode.c      RLE / bit-packed hybrid, BYTE_STREAM_SPLIT
 *   parquet_thrift.c      the compact protocol
 *
 * Numbers of Parquet's enums, and what the reader makes of them: format/parquet/.
 */
#ifndef FBY_WRITE_PARQUET_IMPL_H
#define FBY_WRITE_PARQUET_IMPL_H

#include "block/arrow_format.h"
#include "codec/codec.h"
#include "format/parquet/meta.h"
#include "write/parquet_thrift.h"
#include "write/write_impl.h"

/* ---- parquet_schema.c ---- */

/** How an Arrow value becomes a physical one. */
typedef enum fby__pqw_from {
    FBY__PQW_NOTHING, /* the null type has no values */
    FBY__PQW_BITS,    /* → a byte, 0 or 1, which the page packs again */
    FBY__PQW_COPY,
    FBY__PQW_I8, /* integers → INT32 */
    FBY__PQW_U8,
    FBY__PQW_I16,
    FBY__PQW_U16,
    FBY__PQW_DAYS,       /* int64 milliseconds → INT32 days */
    FBY__PQW_SECONDS_32, /* → milliseconds */
    FBY__PQW_SECONDS_64,
    FBY__PQW_NARROW,  /* a wider little-endian integer, of which the low bytes hold the value */
    FBY__PQW_REVERSE, /* a little-endian integer → big-endian, the low bytes of it */
    FBY__PQW_STRINGS  /* → BYTE_ARRAY */
} fby__pqw_from;

/** The order of a leaf's values (parquet.thrift, ColumnOrder). */
typedef enum fby__pqw_order {
    FBY__PQW_UNORDERED,
    FBY__PQW_ORDER_BOOL,
    FBY__PQW_ORDER_I32,
    FBY__PQW_ORDER_U32,
    FBY__PQW_ORDER_I64,
    FBY__PQW_ORDER_U64,
    FBY__PQW_ORDER_F16,
    FBY__PQW_ORDER_F32,
    FBY__PQW_ORDER_F64,
    FBY__PQW_ORDER_BIG_ENDIAN, /* signed, of value_bytes */
    FBY__PQW_ORDER_BYTES
} fby__pqw_order;

/** A field of the Arrow schema. */
typedef struct fby__pqw_node {
    char *name; /* owned */
    fby__arrow_format format;
    uint32_t parent; /* 0: the root is it, and a column of the table hangs on it */
    uint32_t child;  /* which of its parent's children */
    uint32_t n_children;
    bool nullable;       /* it has a definition level of its own */
    bool is_map_entries; /* the struct below a map, which is the repeated group itself */
} fby__pqw_node;

/** Whether floats of a column are worth BYTE_STREAM_SPLIT. */
typedef enum fby__pqw_split_choice { FBY__PQW_UNTRIED, FBY__PQW_WHOLE, FBY__PQW_SPLIT } fby__pqw_split_choice;

typedef struct fby__pqw_leaf {
    uint32_t *path; /* owned: the nodes from a column of the table down to the leaf's */
    uint32_t n_path;
    int32_t physical;     /* FBY__PQ_INT32 … */
    uint32_t value_bytes; /* of a physical value; BOOLEAN: 1; BYTE_ARRAY: 0 */
    uint32_t arrow_bytes; /* of an Arrow value of fixed size */
    fby__pqw_from from;
    fby__pqw_order order;
    unsigned max_def, max_rep;
    fby__pqw_split_choice split; /* parquet_chunk.c: what the first row group said */
} fby__pqw_leaf;

typedef struct fby__pqw_schema {
    fby__pqw_node *nodes; /* owned; pre-order, [0] is the root */
    uint32_t n_nodes;
    fby__pqw_leaf *leaves; /* owned */
    uint32_t n_leaves;
} fby__pqw_schema;

/** FBY_E_UNSUPPORTED, FBY_E_ARG: with the column. *out may be half-built on failure: fby__pqw_schema_fini. */
fby_status fby__pqw_schema_init(const struct ArrowSchema *in, fby__pqw_schema *out, fby_error *err);
void fby__pqw_schema_fini(fby__pqw_schema *schema);
/** Field 2 of FileMetaData. */
void fby__pqw_put_schema(const fby__pqw_schema *schema, fby__thrift_out *t);
/** Field 3 of ColumnMetaData: path_in_schema. */
void fby__pqw_put_path(const fby__pqw_schema *schema, const fby__pqw_leaf *leaf, fby__thrift_out *t);
/** Put "column 'a.b'" before a message; returns status. */
fby_status fby__pqw_in_column(const fby__pqw_schema *schema, const fby__pqw_leaf *leaf, fby_status status, fby_error *err);

/* ---- parquet_levels.c ---- */

/** Values that lie side by side in a leaf's array; its offset is not counted. */
typedef struct fby__pqw_run {
    int64_t first, n;
} fby__pqw_run;

/** The levels of one leaf in one row group. Zero-initialise; buffers serve the next leaf again. */
typedef struct fby__pqw_levels {
    size_t n;           /* levels */
    size_t n_values;    /* of them present */
    const uint8_t *def; /* n; NULL: all are max_def */
    const uint8_t *rep; /* n; NULL: all are 0 */
    const fby__pqw_run *runs;
    size_t n_runs; /* n_values values */
    struct {
        fby__buf def, rep, runs;
    } own[2]; /* owned: steps read one and write the other */
} fby__pqw_levels;

/** *leaf_array is that of the leaf. FBY_E_ARG when a field that is not nullable holds nulls. */
fby_status fby__pqw_levels_make(fby__pqw_levels *l, const fby__pqw_schema *schema, const fby__pqw_leaf *leaf,
                                const struct ArrowArray *batch, const struct ArrowArray **leaf_array, fby_error *err);
void fby__pqw_levels_fini(fby__pqw_levels *l);

/* ---- parquet_values.c ---- */

/** The values of a leaf in one row group, and which of them is next. All borrowed. */
typedef struct fby__pqw_values {
    const fby__pqw_leaf *leaf;
    const struct ArrowArray *array;
    const fby__arrow_format *format;
    const fby__pqw_run *run; /* of the next value */
    int64_t at;              /* in that run */
} fby__pqw_values;

fby__pqw_values fby__pqw_values_of(const fby__pqw_leaf *leaf, const fby__arrow_format *format, const struct ArrowArray *array,
                                   const fby__pqw_levels *levels);
/**
 * The next n physical values of fixed size, which there must be: where they lie, when they lie together and nothing is to be converted,
 * else in scratch. FBY_E_ARG for a value that its Parquet type cannot hold.
 */
fby_status fby__pqw_next(fby__pqw_values *v, size_t n, fby__buf *scratch, fby__bytes *out, fby_error *err);
/** The next n values, strings or fixed binaries, as bytes where they lie. FBY_E_UNSUPPORTED for one of 2 GiB and more. */
fby_status fby__pqw_next_strings(fby__pqw_values *v, size_t n, fby__pq_string *out, fby_error *err);
/** At least n bytes in a buffer that is written from its beginning. FBY_E_NOMEM. */
fby_status fby__pqw_room(fby__buf *b, size_t n, fby_error *err);

/* ---- parquet_bounds.c ---- */

/** The least and the greatest of some values, NaN apart. */
typedef struct fby__pqw_bounds {
    bool there;             /* false: no values, or none with an order */
    uint8_t number[2][32];  /* physical values */
    fby__pq_string text[2]; /* FBY__PQW_ORDER_BYTES: borrowed from the arrays */
} fby__pqw_bounds;

/** Bounds of n physical values of a fixed size, in any order but BYTES. */
fby__pqw_bounds fby__pqw_bounds_of(const fby__pqw_leaf *leaf, const uint8_t *values, size_t n);
void fby__pqw_bounds_add_strings(fby__pqw_bounds *b, const fby__pq_string *values, size_t n);
/** b becomes the bounds of both; either may have none. */
void fby__pqw_bounds_join(const fby__pqw_leaf *leaf, fby__pqw_bounds *b, const fby__pqw_bounds *more);
/** Which of the bounds (0: least, 1: greatest) is less: < 0, 0, > 0. Both are there. */
int fby__pqw_bounds_compare(const fby__pqw_leaf *leaf, const fby__pqw_bounds *a, const fby__pqw_bounds *b, int which);
/** As metadata hold it: long strings cut to a bound that still holds, *exact false. */
#define FBY__PQW_BOUND_BYTES 64
fby__bytes fby__pqw_bounds_text(const fby__pqw_leaf *leaf, bool is_utf8, const fby__pqw_bounds *b, int which,
                                uint8_t scratch[FBY__PQW_BOUND_BYTES], bool *exact);

/* ---- parquet_encode.c ---- */

/** Bits that hold 0 … max. */
unsigned fby__pqw_width(uint32_t max);
/** Append n values of `width` bits (1 … 32) as runs. FBY_E_NOMEM. */
fby_status fby__pqw_put_hybrid(fby__buf *out, const uint32_t *values, size_t n, unsigned width, fby_error *err);
/** Append levels as a v1 page has them: their length, and runs. `levels` NULL: n times max. */
fby_status fby__pqw_put_levels(fby__buf *out, const uint8_t *levels, size_t n, unsigned max, fby_error *err);
/** BYTE_STREAM_SPLIT of floats (4 or 8 bytes): byte k of value i becomes out[k * n + i], the inverse of fby__unsplit. */
void fby__pqw_split(const uint8_t *values, size_t n, size_t value_bytes, uint8_t *out);

/* ---- parquet_dictionary.c ---- */

typedef enum fby__pqw_search { FBY__PQW_PLAIN, FBY__PQW_MIXED, FBY__PQW_GIVEN_UP } fby__pqw_search;

/** Zero-initialise; buffers serve the next chunk again. */
typedef struct fby__pqw_dictionary {
    bool used; /* the last chunk's values are worth one */
    fby__pqw_search search;
    uint32_t n;       /* distinct values */
    fby__buf plain;   /* they, as the dictionary page holds them */
    fby__buf indices; /* uint32_t, one a value of the chunk */
    fby__buf strings; /* fby__pq_string: distinct values, borrowed from the arrays */
    fby__buf slots;   /* uint32_t, a power of two of them: the hash table; 0 = free, else index + 1 */
    fby__buf scratch;
} fby__pqw_dictionary;

/**
 * Find the distinct values of a chunk. `used` when they and indices take fewer bytes than the values, and the page they need is small;
 * the search ends as soon as that is out of reach.
 */
fby_status fby__pqw_dictionary_make(fby__pqw_dictionary *d, fby__pqw_values values, size_t n, fby_error *err);
void fby__pqw_dictionary_fini(fby__pqw_dictionary *d);

/* ---- parquet_chunk.c ---- */

/** What the footer says of a column chunk. */
typedef struct fby__pqw_chunk {
    uint64_t dictionary_offset, data_offset; /* 0: no dictionary page */
    uint64_t compressed_bytes, uncompressed_bytes;
    uint64_t n_values;
    uint32_t n_pages;                          /* data pages */
    int32_t encoding;                          /* of their values */
    size_t statistics_begin, statistics_end;   /* in the writer's `statistics` */
    size_t column_index_end, offset_index_end; /* in the writer's buffers of them: they begin where those of the chunk before end */
} fby__pqw_chunk;

typedef struct fby__pqw {
    fby__writer base;
    fby__pqw_schema schema;
    fby__codec_id codec;
    int level;
    uint32_t page_bytes;
    fby__codec_state codecs;                /* owned */
    const fby__write_attribute *attributes; /* borrowed: of the options */
    size_t n_attributes;
    char *arrow_schema; /* owned: the value of "ARROW:schema" */

    /* row groups so far; owned */
    fby__buf chunks;     /* fby__pqw_chunk: row group by row group, leaf by leaf */
    fby__buf group_rows; /* uint64_t */
    fby__buf statistics; /* Statistics structs, one behind the other; so are the page indexes */
    fby__buf column_indexes;
    fby__buf offset_indexes;

    /* the chunk at hand: memory that is used again; owned */
    fby__pqw_levels levels;
    fby__pqw_dictionary dictionary;
    fby__buf pages; /* parquet_chunk.c */
    fby__buf level_bytes, values, payload, body, stored, strings;
    fby__thrift_out header;
} fby__pqw;

/** Write one leaf of a row group, and append what the footer says about it. */
fby_status fby__pqw_write_chunk(fby__pqw *w, fby__pqw_leaf *leaf, const struct ArrowArray *batch, fby_error *err);

#endif
