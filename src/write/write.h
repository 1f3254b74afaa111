/*
 * Tables written: Arrow arrays in, the bytes of one file out. A writer knows neither files nor folders: it hands its bytes, in order, to a
 * sink, whose owner (src/pack) keeps temporary names, fsync and renaming.
 *
 *     schema ─► begin     arrays ─► batch, batch, …     metadata ─► end          each format a vtable in a file of its own:
 *                 │                   │                              │           arrow_….c: Arrow IPC files
 *                 └───────────────────┴────── sink ◄─────────────────┘           parquet_….c: Parquet files
 *                                                                                hdf5_writer.c: HDF5 files, to a descriptor
 *
 *   1. The bytes depend on schema, options, batches and metadata alone: never on time, threads, addresses or a batch's padding.
 *   2. Columns are what the reader's Arrow sink yields (block/arrow.c): 64-bit offsets, no dictionaries; any offset and null count −1 is
 *      fine. What has no counterpart in the format is refused at begin, by name and type.
 *   3. After a failed call only fby__writer_free may follow; what the sink has got is no file.
 */
#ifndef FBY_WRITE_WRITE_H
#define FBY_WRITE_WRITE_H

#include <forebay/arrow.h>
#include <forebay/base.h>

/** Where bytes go: in order, each call n ≥ 1 of them, borrowed for the call. Its failure is what the writer's call returns. */
typedef struct fby__byte_sink {
    fby_status (*write)(void *ctx, const void *bytes, size_t n, fby_error *err);
    void *ctx;
} fby__byte_sink;

typedef enum fby__write_format { FBY__WRITE_ARROW, FBY__WRITE_PARQUET, FBY__WRITE_HDF5, FBY__WRITE_FORMAT_COUNT } fby__write_format;

/** What is said of the file or of a field: a text; where the format has numbers, and these are some, they. */
typedef struct fby__write_attribute {
    int64_t field; /* the schema's fields in pre-order: column 0, the fields inside of it, column 1; -1: the file. HDF5 has columns alone */
    const char *name, *text;
    fby_dtype dtype; /* of n numbers; FBY_DTYPE_NONE: it is a text */
    const void *data;
    uint64_t n;
    bool is_scalar;
} fby__write_attribute;

typedef struct fby__write_options {
    const fby__write_attribute *attributes; /* by field; borrowed until the writer is freed */
    size_t n_attributes;
    const char *codec; /* "none", "lz4", "zstd", "snappy" (Parquet alone), "gzip" (HDF5 alone); NULL = none. Borrowed until begin returns */
    int level;         /* of zstd and gzip; 0 = the codec's default */
    uint32_t page_bytes; /* Parquet: about so much of a column's values is a page; 0 = 1 MiB */
    /* HDF5, which is not written in order: */
    const int *file;           /* in place of the sink, an empty file, open for reading and writing. Borrowed until begin returns */
    uint64_t rows, batch_rows; /* of the file; of each batch but the last, which are the chunks */
    const struct fby__h5_environment *environment; /* of its helper program; NULL = as it is now. Borrowed until begin returns */
} fby__write_options;

/** UTF-8, NUL-terminated; borrowed for the call. */
typedef struct fby__key_value {
    const char *key;
    const char *value;
} fby__key_value;

typedef struct fby__writer fby__writer;

/** How many fields a column is: itself, and those inside of it. */
int64_t fby__write_field_count(const struct ArrowSchema *column);

/** What begin would refuse, as far as it is known before there are rows. options: NULL = none of them. */
fby_status fby__writer_check(fby__write_format format, const struct ArrowSchema *schema, const fby__write_options *options, fby_error *err);

/**
 * @schema   of a struct, a column a child; borrowed until the call returns.
 * @options  NULL = none of them; HDF5 needs file, rows and batch_rows.
 * @out      [out] the caller's: fby__writer_free(). Untouched on failure.
 *
 * FBY_E_UNSUPPORTED names the column and its type; FBY_E_ARG a codec that the format does not have.
 */
fby_status fby__writer_begin(fby__write_format format, const struct ArrowSchema *schema, const fby__write_options *options,
                             fby__byte_sink sink, fby__writer **out, fby_error *err);
/** One record batch, or one row group. Its buffers are trusted: they come from this program. Borrowed for the call. */
fby_status fby__writer_batch(fby__writer *w, const struct ArrowArray *batch, fby_error *err);
/** The footer; metadata are the file's own, in this order. */
fby_status fby__writer_end(fby__writer *w, const fby__key_value *metadata, size_t n, fby_error *err);
void fby__writer_free(fby__writer *w); /* NULL and unfinished ones are fine */

#endif
