/* Between the metadata files of the Parquet reader: footer.c, footer_bytes.c, schema.c, pages.c, freeze.c. */
#ifndef FBY_FORMAT_PARQUET_META_H
#define FBY_FORMAT_PARQUET_META_H

#include "format/parquet/parquet.h"
#include "format/parquet/thrift.h"

/* parquet.thrift enum FieldRepetitionType */
enum { FBY__PQ_REQUIRED, FBY__PQ_OPTIONAL, FBY__PQ_REPEATED };

/* parquet.thrift enum ConvertedType */
enum {
    FBY__PQ_CONV_NONE = -1,
    FBY__PQ_CONV_UTF8 = 0,
    FBY__PQ_CONV_MAP,
    FBY__PQ_CONV_MAP_KEY_VALUE,
    FBY__PQ_CONV_LIST,
    FBY__PQ_CONV_ENUM,
    FBY__PQ_CONV_DECIMAL,
    FBY__PQ_CONV_DATE,
    FBY__PQ_CONV_TIME_MILLIS,
    FBY__PQ_CONV_TIME_MICROS,
    FBY__PQ_CONV_TIMESTAMP_MILLIS,
    FBY__PQ_CONV_TIMESTAMP_MICROS,
    FBY__PQ_CONV_UINT_8,
    FBY__PQ_CONV_UINT_16,
    FBY__PQ_CONV_UINT_32,
    FBY__PQ_CONV_UINT_64,
    FBY__PQ_CONV_INT_8,
    FBY__PQ_CONV_INT_16,
    FBY__PQ_CONV_INT_32,
    FBY__PQ_CONV_INT_64,
    FBY__PQ_CONV_JSON,
    FBY__PQ_CONV_BSON,
    FBY__PQ_CONV_INTERVAL
};

/* parquet.thrift union LogicalType: the field numbers */
enum {
    FBY__PQ_LOGICAL_NONE,
    FBY__PQ_LOGICAL_STRING,
    FBY__PQ_LOGICAL_MAP,
    FBY__PQ_LOGICAL_LIST,
    FBY__PQ_LOGICAL_ENUM,
    FBY__PQ_LOGICAL_DECIMAL,
    FBY__PQ_LOGICAL_DATE,
    FBY__PQ_LOGICAL_TIME,
    FBY__PQ_LOGICAL_TIMESTAMP,
    FBY__PQ_LOGICAL_INTERVAL,
    FBY__PQ_LOGICAL_INTEGER,
    FBY__PQ_LOGICAL_UNKNOWN,
    FBY__PQ_LOGICAL_JSON,
    FBY__PQ_LOGICAL_BSON,
    FBY__PQ_LOGICAL_UUID,
    FBY__PQ_LOGICAL_FLOAT16
};

/** One SchemaElement as the footer has it; names are borrowed from the footer's bytes. */
typedef struct fby__pq_element {
    const char *name;
    uint32_t name_n;
    int32_t type; /* physical; -1 = none: a group */
    int32_t type_length;
    int32_t repetition;
    uint32_t n_children;
    int32_t converted;        /* FBY__PQ_CONV_NONE */
    int32_t scale, precision; /* of the converted or the logical decimal */
    int32_t logical;
    fby_unit unit; /* logical times */
    bool utc;
    int8_t bits; /* logical integers */
    bool is_signed;
} fby__pq_element;

/**
 * The tree of a footer's elements, in pre-order, for fby__schema_create. *out is the caller's, with names that lie in the footer. Messages
 * carry the column, not the file.
 */
fby_status fby__pq_schema_tree(const fby__pq_element *elements, uint32_t n, fby__schema_element **out, uint32_t *out_n, fby_error *err);

typedef struct fby__pq_footer {
    uint8_t *memory;  /* owned: fby__free */
    fby__bytes bytes; /* in it: Thrift */
    uint64_t offset;  /* in the file */
} fby__pq_footer;
/** FBY_E_FORMAT, FBY_E_UNSUPPORTED (encrypted), FBY_E_IO, with the path. footer_bytes.c */
fby_status fby__pq_footer_read(fby__file *file, fby__pq_footer *out, fby_error *err);

/** The value of "ARROW:schema" among a footer's key_value_metadata, borrowed from it; empty when there is none. arrow_schema.c */
fby__bytes fby__pq_arrow_schema(fby__thrift *t, uint8_t type);

/** Which int64 columns of a tree are durations, by that value: they become such. False when none is. arrow_schema.c */
bool fby__pq_mark_durations(fby__bytes base64, fby__schema_element *tree);
/** What it says about columns, behind what `out` holds: nothing where it names others than the root has; a damaged one leaves a note. */
fby_status fby__pq_contents_of_columns(fby__bytes base64, const fby_field *root, fby_contents *out, fby_error *err);

/** An empty table that owns a reference to the schema, with room for n_groups; chunks are zeroed. */
fby_status fby__pq_table_create(fby__schema *schema, uint32_t n_groups, uint64_t file_bytes, fby__pq_table **out, fby_error *err);

/**
 * Check one chunk against its file and its group's rows: what footer.c parsed or freeze.c thawed.
 * FBY_E_FORMAT with a message without context (fby__pq_context adds it).
 */
fby_status fby__pq_chunk_check(const fby__pq_chunk *chunk, const fby__leaf *leaf, uint64_t rows, uint64_t file_bytes, fby_error *err);

/** By a footer's created_by: may the stated size of a chunk lack the header of its dictionary page? old_writers.c */
bool fby__pq_omits_dictionary_headers(fby__bytes created_by);
/** Chunks of such a file: as long as their pages are. Small reads, blocking. */
fby_status fby__pq_measure_chunks(fby__pq_table *table, fby__file *file, fby_error *err);

/** Once rows and chunks are in: each group's stored_bytes and first_row, and the table's rows. False when a sum
 * overflows. */
bool fby__pq_table_sum(fby__pq_table *table);

/**
 * Walk the pages of a chunk: visit(user, offset, page) for each header; a return other than FBY_OK ends the walk with
 * it. Small reads, blocking. Stops at the chunk's end.
 */
typedef fby_status (*fby__pq_visit)(void *user, uint64_t offset, const fby__pq_page *page, fby_error *err);
fby_status fby__pq_walk(fby__file *file, const fby__pq_chunk *chunk, fby__pq_visit visit, void *user, fby_error *err);

#endif
