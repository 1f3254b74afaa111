/*
 * What a file format gives to the rest: metadata as a table, byte ranges to read, and decoding into panels or Arrow arrays.
 *
 * A fby__table is one file's metadata: immutable, reference counted, no open descriptor. Rows come in groups, the file's
 * natural units (Parquet row groups); the dataset cuts large groups into blocks of equal row ranges.
 * The flow for a block is locate → (io reads the ranges) → decode, from any threads:
 *
 *     locate(table, file, group, rows, leaves)  which byte ranges; may read page headers when rows are not the whole group
 *     decode_panel / decode_arrow               bytes in, values out; no I/O
 */
#ifndef FBY_FORMAT_FORMAT_H
#define FBY_FORMAT_FORMAT_H

#include "block/panel.h"
#include "block/schema.h"
#include "codec/codec.h"
#include "io/io.h"

#include <forebay/arrow.h>
#include <forebay/dataset.h>

typedef struct fby__format_ops fby__format_ops;

typedef struct fby__group {
    uint64_t rows;
    uint64_t stored_bytes; /* over all columns, compressed */
    uint64_t first_row;    /* rows of the groups before */
} fby__group;

/** The common head of a format's table; the format's own struct begins with it. */
typedef struct fby__table {
    const fby__format_ops *ops;
    fby__schema *schema;       /* shared */
    uint32_t n_groups;
    fby__group *groups;        /* owned */
    uint64_t n_rows;           /* Σ groups: a footer's own total can be wrong */
    _Atomic uint32_t refs;
} fby__table;

/** Upper bounds and sizes of one leaf in one group, from metadata alone. */
typedef struct fby__leaf_bounds {
    uint64_t n_values;           /* levels: ≥ the elements of a list column, ≥ its rows */
    uint64_t compressed_bytes;
    uint64_t uncompressed_bytes; /* pages and dictionary, with headers */
    bool expands;                /* strings may be longer than uncompressed_bytes says (DELTA_BYTE_ARRAY) */
} fby__leaf_bounds;

/** The bytes of one leaf that a block needs: [0] the dictionary page(s), maybe empty; [1] the run of data pages. */
typedef struct fby__leaf_source {
    uint32_t leaf;
    struct {
        uint64_t offset;
        uint64_t n;
        const uint8_t *data; /* filled by the reader after locate */
    } range[2];
    uint64_t first_row;      /* of the first data page in range[1], relative to the group (0 for whole groups) */
    uint64_t n_rows;         /* that the pages of range[1] hold by metadata: what they do hold must be the same */
} fby__leaf_source;

/** A worker's scratch memory: decompressed pages, dictionaries, levels. Grows, is reused, belongs to one thread. */
typedef struct fby__scratch {
    fby__codec_state codec;
    fby__buf buffers[8];     /* for the format's use, by its own convention; contents do not survive a call */
    void *state;             /* the format's own per-thread state, freed by state_free */
    void (*state_free)(void *);
    size_t (*state_bytes)(const void *); /* what the state holds, for fby__scratch_bytes; NULL = nothing */
    uint64_t decompress_ns;  /* added to by decoders: time in codecs, of the whole decode */
    uint64_t decompressed_bytes;
} fby__scratch;
void fby__scratch_fini(fby__scratch *scratch);
size_t fby__scratch_bytes(const fby__scratch *scratch);

/** One leaf on its way into a panel. */
typedef struct fby__decode_column {
    const fby__leaf_source *source;
    uint32_t column;         /* of the panel's layout */
    int64_t unit_mul, unit_div; /* time columns: to the dataset's unit; 1, 1 = as stored */
} fby__decode_column;

/**
 * Decode rows [row_begin, row_end) of a group, relative to the group, into a panel whose row 0 is panel_row.
 * (panel_row ≤ row_begin ≤ row_end ≤ panel_row + panel->rows.) For DENSE panels several calls may share a panel, by rows or
 * by columns; RAGGED and BYTES panels are decoded by one call with all their rows.
 */
typedef struct fby__decode {
    const fby__table *table;
    const char *file_name;   /* for messages */
    uint32_t group;
    uint64_t row_begin, row_end;
    uint64_t panel_row;
    fby__panel *panel;
    const fby__decode_column *columns;
    uint32_t n_columns;
    bool verify_crc;
} fby__decode;

struct fby__format_ops {
    const char *name; /* "parquet" */

    /** How sure are you that this is yours? 0 = no. head and tail: up to 16 bytes of the file's ends. */
    int (*bid)(fby__bytes head, fby__bytes tail);

    /** Read and check the metadata. The message names the path. FBY_E_FORMAT, FBY_E_UNSUPPORTED (encrypted, preview encodings), FBY_E_IO, FBY_E_NOMEM. */
    fby_status (*open)(fby__file *file, fby__table **out, fby_error *err);

    /** For the index cache: everything but the schema / read back over the given schema. The bytes are copied. */
    fby_status (*freeze)(const fby__table *table, fby__buf *out, fby_error *err);
    fby_status (*thaw)(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err);

    void (*destroy)(fby__table *table); /* at the last fby__table_unref */

    void (*leaf_bounds)(const fby__table *table, uint32_t group, uint32_t leaf, fby__leaf_bounds *out);

    /**
     * Which bytes hold rows [row_begin, row_end) of n leaves. sources[i].leaf is given; the rest is filled.
     * `file` is used only when the rows are not the whole group and no index exists yet: then page headers are read
     * (blocking), and remembered in the table under its own lock.
     */
    fby_status (*locate)(const fby__table *table, fby__file *file, uint32_t group, uint64_t row_begin, uint64_t row_end,
                         fby__leaf_source *sources, size_t n, fby_error *err);

    /** Decode into a panel. Errors name file, row group, column, byte offset. FBY_E_FORMAT, FBY_E_UNSUPPORTED, FBY_E_DATA, FBY_E_NOMEM. */
    fby_status (*decode_panel)(const fby__decode *request, fby__scratch *scratch, fby_error *err);

    /**
     * Decode rows of one top-level field, with everything below it, into a fresh ArrowArray (released by the consumer).
     * sources: one per leaf of the field, in leaf order.
     */
    fby_status (*decode_arrow)(const fby__table *table, const char *file_name, uint32_t group, uint64_t row_begin,
                               uint64_t row_end, uint32_t field, bool verify_crc, const fby__leaf_source *sources, fby__scratch *scratch,
                               struct ArrowArray *out, fby_error *err);

    /** For inspect: what one column chunk is. May read page headers when file is not NULL (page counts, encodings used). */
    fby_status (*describe)(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out,
                           fby_error *err);
};

fby__table *fby__table_ref(fby__table *table);
void fby__table_unref(fby__table *table); /* NULL is fine */

/** The format whose bid is highest, NULL when none bids. */
const fby__format_ops *fby__format_of(fby__bytes head, fby__bytes tail);
const fby__format_ops *fby__format_by_name(const char *name);

extern const fby__format_ops fby__parquet_ops;
extern const fby__format_ops fby__arrow_ops;

#endif
