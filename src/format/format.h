/*
 * What a file format gives to the rest: metadata as a table, byte ranges to read, and decoding into panels or Arrow arrays.
 *
 * A fby__table is one file's metadata: immutable, reference counted, no open descriptor. Rows come in groups, the file's
 * natural units (Parquet row groups); the dataset cuts large groups into blocks of equal row ranges.
 * The flow for a block is locate → (io reads the ranges) → decode, from any threads:
 *
 *     locate(table, file, group, rows, leaves)  which byte ranges; may read page headers when rows are not the whole group
 *     decode_panel / decode_arrow               bytes in, values out; I/O only for what metadata cannot point at
 */
#ifndef FBY_FORMAT_FORMAT_H
#define FBY_FORMAT_FORMAT_H

#include "base/arena.h"
#include "block/panel.h"
#include "block/schema.h"
#include "codec/codec.h"
#include "format/chunk_store.h"
#include "io/io.h"

#include <forebay/arrow.h>
#include <forebay/contents.h>
#include <forebay/dataset.h>

typedef struct fby__format_ops fby__format_ops;

typedef struct fby__group {
    uint64_t rows;
    uint64_t stored_bytes; /* over all columns, compressed */
    uint64_t first_row;    /* rows of the groups before */
    uint64_t block_rows;   /* rows of a block, the last one may have fewer; 0 = cut by stored size alone */
    uint64_t step_rows;    /* rows: decode tasks are best cut at multiples of it, from the group's start; 0 = anywhere */
} fby__group;

/** What to do about locks that writers hold, as HDF5_USE_FILE_LOCKING says. */
typedef enum fby__lock_check {
    FBY__LOCKS_TRIED, /* a locked file is refused; one on a file system without locks is read */
    FBY__LOCKS_REQUIRED,
    FBY__LOCKS_IGNORED
} fby__lock_check;
fby__lock_check fby__h5_lock_check(void);

/** What the HDF5 helper program depends on of the environment, which the process may change at any time. */
typedef struct fby__h5_environment {
    const char *program;        /* FOREBAY_HDF5_HELPER; NULL = it does not say */
    const char *variables;      /* "NAME=value", each with its NUL */
    size_t bytes, prefix_bytes; /* of all variables; of the first ones, which say where files' sources are looked for */
    uint64_t hash;              /* of the variables */
} fby__h5_environment;
/**
 * As it is now, into the arena. For the thread of a caller who opens something, and then kept with that: other threads may not look, and a program
 * that is started anew is to find what the first one did.
 */
fby_status fby__h5_environment_read(fby__arena *arena, fby__h5_environment *out, fby_error *err);

/** Which files a file may name, besides regular ones below its own folder, and where they are looked for. All zero: none. */
typedef struct fby__reach {
    bool anywhere;
    uint32_t up; /* also those below the folder so many levels above its own: the one that the data set was found in */
    uint32_t folders_bytes;
    const char *folders;                    /* also those below these: absolute, each with its NUL */
    const fby__h5_environment *environment; /* borrowed; NULL: as it is at each request */
} fby__reach;

/** How a file is to be seen as a table, where its format leaves a choice. All zero: the defaults. Borrowed. */
typedef struct fby__format_opts {
    const char *table;     /* HDF5: which data sets (fby_open_opts.table); NULL = the largest table */
    const char *dimension; /* HDF5: name of the dimension that runs over rows; NULL = by axis */
    int axis;              /* HDF5: the axis that runs over rows */
    int axes;              /* HDF5: so many leading axes together run over rows (cells); 0 = 1 */
    bool single;           /* HDF5: the table is the one data set `table` */
    bool stored_values;    /* HDF5: leave _FillValue, scale_factor, add_offset alone */
    bool fill_sources;     /* HDF5: where a source file is missing, the fill value */
    fby__lock_check locks; /* HDF5 */
    fby__reach reach;      /* HDF5 */
} fby__format_opts;

/** A file, besides the table's own, that values of the table come from. */
typedef struct fby__source_file {
    const char *path;      /* absolute */
    fby__file_stamp stamp; /* as it was when the table was made */
    bool absent;           /* it was not there: no stamp */
} fby__source_file;

/** The common head of a format's table; the format's own struct begins with it. */
typedef struct fby__table {
    const fby__format_ops *ops;
    fby__schema *schema; /* shared */
    uint32_t n_groups;
    fby__group *groups; /* owned */
    uint64_t n_rows;    /* Σ groups: a footer's own total can be wrong */
    uint32_t n_sources;
    const fby__source_file *sources; /* not frozen: an opened table has its own; a thawed one borrows those that its owner sets */
    fby__reach reach;                /* HDF5, as it was opened; its environment as `sources` */
    bool unsettled;                  /* opened, but something failed that may succeed next time: not for the index cache */
    _Atomic uint32_t refs;
} fby__table;

/** Upper bounds and sizes of one leaf in some rows of one group, from metadata alone. */
typedef struct fby__leaf_bounds {
    uint64_t n_values;           /* levels: ≥ the elements of a list column, ≥ its rows */
    uint64_t compressed_bytes;   /* to be read for these rows */
    uint64_t uncompressed_bytes; /* pages and dictionary, with headers; chunks */
    uint64_t scratch_bytes;      /* at most so many does a worker need beside the panel to decode them */
    uint64_t
        shared_bytes; /* that chunks which reach beyond these rows take decoded, with what is kept beside each: worth keeping for the next block */
    bool one_value; /* nothing of these rows is stored: every one of them has the same value */
} fby__leaf_bounds;

/** A byte range of the file that has to be read. */
typedef struct fby__range {
    uint64_t offset;
    uint64_t n;                /* 0 = nothing to read */
    const uint8_t *data;       /* filled by the reader after locate */
    uint64_t tag;              /* the format's own: HDF5, which entry of the chunk list */
    fby__shared_chunk *shared; /* NULL, or a reference to where the decoded chunk is kept or will be (n = 0: it is there) */
} fby__range;

/** Ranges of several leaves, for formats whose columns lie in chunks. Zero-initialise; kept from block to block. */
typedef struct fby__range_list {
    fby__range *at; /* owned */
    size_t n, cap;
} fby__range_list;

/** Append a range; FBY_E_NOMEM. */
fby_status fby__range_list_add(fby__range_list *list, const fby__range *range, fby_error *err);
void fby__range_list_clear(fby__range_list *list); /* lets go of shared chunks; keeps the memory */
void fby__range_list_fini(fby__range_list *list);

/**
 * The bytes of one leaf that a block needs. Parquet: range[0] the dictionary page(s), maybe empty, range[1] the data pages.
 * HDF5: range[1] contiguous rows; or chunks, in the order of the chunk list; of rows along an inner axis, one range an outer index.
 */
typedef struct fby__leaf_source {
    uint32_t leaf;
    bool rows_as_stored; /* range[1] is exactly the rows asked for, row-major, elements of the leaf's dtype: a single-column
                                panel of that dtype may be read in place */
    fby__range range[2];
    fby__range *chunks; /* n_chunks; points into the request's list, set when locate returns */
    size_t first_chunk, n_chunks;
    uint64_t first_row; /* of the first data page in range[1], relative to the group (0 for whole groups) */
    uint64_t n_rows;    /* that the pages of range[1] hold by metadata: what they do hold must be the same */
} fby__leaf_source;

/** Every range of a source, whatever the format: k < 2 + n_chunks. */
static inline fby__range *fby__source_range(fby__leaf_source *source, size_t k)
{
    return k < 2 ? &source->range[k] : &source->chunks[k - 2];
}

/** Which rows of which leaves. */
typedef struct fby__locate_request {
    const fby__table *table;
    fby__file *file;   /* NULL for tables in memory */
    uint64_t file_key; /* names the file in `store` */
    uint32_t group;
    uint64_t row_begin, row_end;
    fby__leaf_source *sources; /* n; sources[i].leaf is given, the rest is filled */
    size_t n;
    fby__range_list *list;   /* cleared, then filled */
    fby__chunk_store *store; /* NULL: chunks that reach into other blocks are decoded by each of them */
} fby__locate_request;

/** A worker's scratch memory: decompressed pages, dictionaries, levels. Grows, is reused, belongs to one thread. */
typedef struct fby__scratch {
    fby__codec_state codec;
    fby__buf buffers[8]; /* for the format's use, by its own convention; contents do not survive a call */
    void *state;         /* the format's own per-thread state, freed by state_free */
    void (*state_free)(void *);
    size_t (*state_bytes)(const void *); /* what the state holds, for fby__scratch_bytes; NULL = nothing */
    uint64_t decompress_ns;              /* added to by decoders: time in codecs, of the whole decode */
    uint64_t decompressed_bytes;
} fby__scratch;
void fby__scratch_fini(fby__scratch *scratch);
size_t fby__scratch_bytes(const fby__scratch *scratch);
/**
 * A format's own state, zeroed when it is new: of a thread that comes from another format's file, that one's is freed first. NULL: no memory.
 * @state_free  names the format as well.
 */
void *fby__scratch_state(fby__scratch *scratch, size_t bytes, void (*state_free)(void *), size_t (*state_bytes)(const void *));

/** One leaf on its way into a panel. */
typedef struct fby__decode_column {
    const fby__leaf_source *source;
    uint32_t column;            /* of the panel's layout */
    int64_t unit_mul, unit_div; /* time columns: to the dataset's unit; 1, 1 = as stored */
} fby__decode_column;

/**
 * Decode rows [row_begin, row_end) of a group, relative to the group, into a panel whose row 0 is panel_row.
 * (panel_row ≤ row_begin ≤ row_end ≤ panel_row + panel->rows.) For DENSE panels several calls may share a panel, by rows or
 * by columns; RAGGED and BYTES panels are decoded by one call with all their rows.
 */
typedef struct fby__decode {
    const fby__table *table;
    const char *file_name; /* for messages */
    uint32_t group;
    uint64_t row_begin, row_end;
    uint64_t panel_row;
    fby__panel *panel;
    const fby__decode_column *columns;
    uint32_t n_columns;
    bool verify_crc;
    fby__file *file; /* for values that lie elsewhere (HDF5's variable-length heaps); NULL for tables in memory */
} fby__decode;

/** Decode rows of one top-level field with everything below it into a fresh ArrowArray. */
typedef struct fby__arrow_request {
    const fby__table *table;
    fby__file *file; /* as in fby__decode */
    const char *file_name;
    uint32_t group;
    uint64_t row_begin, row_end;
    uint32_t field;
    bool verify_crc;
    const fby__leaf_source *sources; /* one per leaf of the field, in leaf order */
} fby__arrow_request;

struct fby__format_ops {
    const char *name; /* "parquet" */
    const char *group,
        *groups; /* one of its groups, and several, in words; NULL: the files have none, and these are how the reader cuts them */

    /**
     * How sure is the format that this file is its own? 0 = it is not. head and tail: up to 16 bytes of the file's ends; the tail is read,
     * and else empty, where no format bids for the head.
     */
    int (*bid)(fby__bytes head, fby__bytes tail);

    /** NULL, or: asked when no format bids. Is the file its own after all? (HDF5 behind a user block.) A failing read is a no. */
    bool (*probe)(fby__file *file);

    /**
     * NULL, or: asked after every opening of a file. FBY_E_IO with EWOULDBLOCK: somebody is writing to it. *out_no_locks: the file
     * system does not tell.
     */
    fby_status (*may_read)(fby__file *file, const fby__format_opts *opts, bool *out_no_locks, fby_error *err);

    /**
     * Read and check the metadata. The message names the path. FBY_E_FORMAT, FBY_E_UNSUPPORTED (encrypted, preview encodings), FBY_E_IO,
     * FBY_E_NOMEM.
     */
    fby_status (*open)(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err);

    /** For the index cache: everything but the schema, and back again over a given schema. The bytes are copied. */
    fby_status (*freeze)(const fby__table *table, fby__buf *out, fby_error *err);
    fby_status (*thaw)(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err);

    void (*destroy)(fby__table *table); /* at the last fby__table_unref */

    void (*leaf_bounds)(const fby__table *table, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                        fby__leaf_bounds *out);

    /**
     * Which bytes hold the rows. Parquet reads page headers through the file (blocking) when the rows are not the whole group and
     * no index exists yet, and remembers them in the table under its own lock. Call fby__locate, which sets the chunks.
     */
    fby_status (*locate)(const fby__locate_request *request, fby_error *err);

    /**
     * Decode into a panel. Errors name file, row group or data set, column, byte offset. FBY_E_FORMAT, FBY_E_UNSUPPORTED,
     * FBY_E_DATA, FBY_E_NOMEM. Is panel->used above panel->capacity afterwards, of a RAGGED or BYTES panel, then there was too little
     * room: nothing of it counts, and it is to be decoded again with room for `used`.
     */
    fby_status (*decode_panel)(const fby__decode *request, fby__scratch *scratch, fby_error *err);

    /** Decode into Arrow. *out is released by the consumer. */
    fby_status (*decode_arrow)(const fby__arrow_request *request, fby__scratch *scratch, struct ArrowArray *out, fby_error *err);

    /** NULL, or: everything the file holds beyond its table. `out` is empty, and the caller's to free, on failure too. */
    fby_status (*contents)(fby__file *file, const fby__table *table, fby_contents *out, fby_error *err);

    /** For inspect: what one column chunk is. May read page headers when file is not NULL (page counts, encodings used). */
    fby_status (*describe)(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err);

    /** NULL, or: note i about what the table leaves out of its file, as a sentence, cut to n bytes. False: there is no note i. */
    bool (*note)(const fby__table *table, uint32_t i, char *out, size_t n);

    /** NULL, or: the i-th column that the file's table lacks, and why. False: there are no more. */
    bool (*left_out)(const fby__table *table, uint32_t i, const char **out_name, const char **out_why);

    /**
     * NULL, or: why the file's table has no column of that path and what to do about it, as the end of a sentence that names it ("…: out"),
     * cut to n bytes. May read the file. False: nothing is known about it.
     */
    bool (*absent)(const fby__table *table, fby__file *file, const char *path, char *out, size_t n);

    /**
     * For formats whose files do not say the types of their columns (which are then all top-level), else NULL: the schema with other types,
     * over which any of its tables may be thawed. types[i] is column i's (kind and dtype; strings, bools, integers, floats), NULL = as it
     * is.
     * @said  by the user: a value that does not fit is FBY_E_DATA with its line.
     */
    fby_status (*retype)(const fby__schema *schema, const fby_field *const *types, bool said, fby__schema **out, fby_error *err);

    /**
     * With retype: is the column text only because a number type would not keep one of its numbers as it is written (007)? The line of the
     * first such value, and the dtype that would hold them as numbers; 0 = no.
     */
    uint64_t (*number_text)(const fby__table *table, uint32_t leaf, fby_dtype *out);
};

/** ops->locate, then chunks set. On failure the list holds no shared chunks. */
fby_status fby__locate(const fby__locate_request *request, fby_error *err);

fby__table *fby__table_ref(fby__table *table);
void fby__table_unref(fby__table *table); /* NULL is fine */

/** The format whose bid is highest, else the one whose probe says yes (file may be NULL: no probing); NULL when there is none. */
const fby__format_ops *fby__format_of(fby__bytes head, fby__bytes tail, fby__file *file);
const fby__format_ops *fby__format_by_name(const char *name);

extern const fby__format_ops fby__parquet_ops;
extern const fby__format_ops fby__hdf5_ops;
extern const fby__format_ops fby__csv_ops;
extern const fby__format_ops fby__ipc_ops;
extern const fby__format_ops fby__arrow_ops;

/** Does the name say CSV or TSV, plain or gzip? */
bool fby__csv_named(const char *path);

#endif
