/*
 * Data sets: many files seen as one table, opened once, immutable.
 *
 *     fby_source src = {.path = "basins"};                      // a path, directory, glob or pattern
 *     fby_dataset *ds;
 *     if (fby_dataset_open(&src, 1, NULL, &ds, &err) != FBY_OK) …
 *     printf("%llu rows\n", (unsigned long long)fby_dataset_rows(ds));
 *     fby_dataset_close(ds);
 *
 * Where a function says nothing else: Threads: any. Blocks: no. Errors: FBY_E_ARG (out of range), FBY_E_NOMEM. What a pointer leads to belongs to
 * the data set. Since: 0.1
 */
#ifndef FOREBAY_DATASET_H
#define FOREBAY_DATASET_H

#include <forebay/arrow.h>
#include <forebay/base.h>
#include <forebay/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FBY_MAX_KEYS 8 /* columns of a key: of groups, of the series of windows, of lookups */

/** An open data set. Reference counted: loaders and Arrow streams over it keep it alive. Read-only, any thread. */
typedef struct fby_dataset fby_dataset;

/**
 * Where files come from. What a path may be:
 *   a file          "x.parquet"
 *   a directory     every file below it whose content a reader knows, hidden names ("." or "_" first) left out
 *   a glob          "basins/b*.parquet"; "**" between two slashes crosses directories
 *   a pattern       "data/{region}/{gauge_id}.parquet": a placeholder in braces matches within a name and becomes a string column
 * An existing file wins over a glob of the same spelling.
 * Frozen: no field is ever added.
 */
typedef struct fby_source {
    const char *name; /* NULL; or the name of this source in a mapping: becomes the string column opts->source_column */
    const char *path; /* UTF-8, NUL-terminated; borrowed for the call */
} fby_source;

typedef enum fby_io_engine {
    FBY_IO_AUTO,    /* io_uring when the kernel allows it, else threads */
    FBY_IO_THREADS, /* pread */
    FBY_IO_URING,
    FBY_IO_MMAP, /* only with opts->immutable: a mapped file that shrinks is SIGBUS */
    FBY_IO_NULL  /* reads nothing: times everything else; values are undefined, most formats then fail to decode */
} fby_io_engine;

/** A column that some files lack. */
typedef enum fby_missing_columns {
    FBY_MISSING_COLUMNS_ERROR, /* FBY_E_SCHEMA when it is used, naming the first such file */
    FBY_MISSING_COLUMNS_FILL   /* null in the rows of those files */
} fby_missing_columns;

/** An id without a file. */
typedef enum fby_missing_ids {
    FBY_MISSING_IDS_ERROR, /* FBY_E_SCHEMA, naming the first few */
    FBY_MISSING_IDS_SKIP   /* left out, and counted in a note; FBY_E_SCHEMA when no id has a file */
} fby_missing_ids;

/** Where a file that values of an HDF5 dataset come from is not there: a virtual dataset's source, external raw data. */
typedef enum fby_missing_sources {
    FBY_MISSING_SOURCES_ERROR, /* opening fails, and names it */
    FBY_MISSING_SOURCES_FILL   /* the dataset's fill value stands in its place, as libhdf5 has it */
} fby_missing_sources;

/**
 * The type of a column of CSV and TSV files, said outright instead of found in the values: "str", or a name as of fby_dtype_name ("int64",
 * "float32", "bool"; not "bfloat16"). Of files of any format: "bytes", for text.
 * Frozen: no field is ever added.
 */
typedef struct fby_column_dtype {
    const char *column, *dtype;
} fby_column_dtype;

/** Called during a long open, from the opening thread, at most about ten times a second. */
typedef void (*fby_progress_fn)(void *user, uint64_t done, uint64_t total, const char *what);

/** Options of fby_dataset_open. Set size; zero everything else for the defaults. */
typedef struct fby_open_opts {
    size_t size;            /* sizeof(fby_open_opts) */
    const char *const *ids; /* keep only files whose id is listed; missing_ids says what happens to an id without a file. NULL = all */
    size_t n_ids;
    const char *id_column;     /* which placeholder of a pattern the ids are; NULL = the last one, or the file's stem without a pattern */
    const char *source_column; /* name of the column that holds fby_source.name; NULL = "source" */
    const char
        *cache_dir; /* where the index cache lives; NULL = $FOREBAY_CACHE, else $XDG_CACHE_HOME/forebay, else ~/.cache/forebay; "" = none */
    int n_threads;  /* for reading metadata; 0 = twice the CPUs, at least 8 (opening waits on the disk) */
    fby_io_engine io;
    bool immutable;                      /* the files will not change while open: mmap is allowed */
    bool verify_crc;                     /* check page checksums where the writer stored them */
    fby_missing_columns missing_columns; /* what a column is in files that lack it */
    fby_progress_fn progress;
    void *progress_user;
    /* HDF5 and NetCDF-4: how a file is seen as a table. Other formats leave them alone. */
    const char *table;     /* a dataset's path (the table that holds it) or a group's (only what is below it); NULL = the largest table */
    const char *dimension; /* name of the dimension that runs over rows ("time"); NULL = sample_axis says */
    int sample_axis;       /* the axis that runs over rows; 0 = the first */
    int sample_axes;       /* cells: rows run over so many leading axes together, datasets of lower rank are repeated; 0 = 1 */
    bool single;           /* the table is the dataset `table` alone, whatever its length; one without axes is a row */
    bool stored_values;    /* leave values as stored: no missing values by _FillValue, no scale_factor and add_offset */
    fby_missing_ids missing_ids;
    fby_missing_sources missing_sources;
    /*
     * Where the files may lie that a file names in links, virtual datasets and external raw data: folders, or the one word "anywhere". By default:
     * below the folder of the file that names them, and below the directory, or the fixed beginning of the pattern, that was opened.
     */
    const char *const *external;
    size_t n_external;
    /* CSV and TSV: types of columns. A value that does not fit is FBY_E_DATA, with its line, when it is read. */
    const fby_column_dtype *dtypes; /* n_dtypes; a column of no CSV file is FBY_E_SCHEMA. Borrowed for the call */
    size_t n_dtypes;
    /*
     * How much memory opening may hold, and then each of these on the data set: finding samples, a lookup, moments, an Arrow stream. Where that is
     * too little: FBY_E_BUDGET, with the file and the bytes that would do. Loaders have budgets of their own. 0 = half of what the process may take. Since: 0.2
     */
    uint64_t memory_bytes;
} fby_open_opts;

/**
 * Open a data set: find the files, read their metadata (or the index cache), join their schemas.
 *
 * @sources    n_sources ≥ 1; a list keeps its order, what a directory, glob or pattern finds is sorted bytewise.
 * @opts       NULL = defaults. Copied.
 * @out        [out] owned by the caller: fby_dataset_close(). Untouched on failure.
 * @err        [out] may be NULL; filled on every failure.
 *
 * Only columns that are used must agree between files; schemas that disagree are reported when such a column is named.
 * Returns FBY_OK; FBY_E_ARG (no source; mmap without immutable; duplicate file), FBY_E_IO, FBY_E_FORMAT, FBY_E_UNSUPPORTED,
 * FBY_E_SCHEMA (an id without a file; a dtype of no column), FBY_E_BUDGET, FBY_E_NOMEM.
 * Threads: any. Blocks: yes, on metadata reads. Callbacks: opts->progress, on the calling thread. Since: 0.1
 */
FBY_API fby_status fby_dataset_open(const fby_source *sources, size_t n_sources, const fby_open_opts *opts, fby_dataset **out,
                                    fby_error *err);

/**
 * A data set in memory from an Arrow stream (a DataFrame, a table): its record batches become blocks.
 *
 * @stream  moved: consumed and released in every case, also on failure.
 * @out     [out] owned by the caller: fby_dataset_close().
 * Errors: FBY_E_ARG (the producer failed; its message is given), FBY_E_UNSUPPORTED (a type named with its column), FBY_E_NOMEM,
 * FBY_E_CANCELLED (between two batches). Threads: any. Blocks: as long as the producer's get_next does. Since: 0.1
 */
FBY_API fby_status fby_dataset_from_arrow(struct ArrowArrayStream *stream, fby_dataset **out, fby_error *err);

/**
 * The folder of the index cache, for data sets that are opened with this cache_dir (fby_open_opts), and whether it is used. It is not where others
 * may write to it, since they could forge what it says.
 *
 * @cache_dir    NULL = the default.
 * @out          [out] the folder, which need not exist yet; "" = there is none; NUL-terminated, cut to fit `room` bytes.
 * @out_refusal  [out] why the folder is neither read nor written, static; NULL = it is used.
 *
 * Returns FBY_OK; FBY_E_NOMEM; FBY_E_IO for a relative path when the working directory no longer exists. Threads: any. Since: 0.2
 */
FBY_API fby_status fby_index_cache(const char *cache_dir, char *out, size_t room, const char **out_refusal, fby_error *err);

/** One more reference; returns its argument. Threads: any. Since: 0.1 */
FBY_API fby_dataset *fby_dataset_ref(fby_dataset *ds);
FBY_API void fby_dataset_close(fby_dataset *ds); /* NULL is fine; drops one reference */

/** The joined schema: a struct, its children the columns. Borrowed. Pattern and source columns come first. */
FBY_API const fby_field *fby_dataset_schema(const fby_dataset *ds);

FBY_API uint64_t fby_dataset_rows(const fby_dataset *ds);         /* of all files */
FBY_API uint64_t fby_dataset_file_count(const fby_dataset *ds);   /* those that fby_dataset_file() tells of */
FBY_API uint64_t fby_dataset_block_count(const fby_dataset *ds);  /* those that fby_dataset_block() tells of */
FBY_API uint64_t fby_dataset_stored_bytes(const fby_dataset *ds); /* Σ over blocks, all columns, compressed */

/** 32 hex digits. Identity: what the order depends on. Fingerprint: identity, sizes, metadata and times of modification. Borrowed. */
FBY_API const char *fby_dataset_identity(const fby_dataset *ds);
FBY_API const char *fby_dataset_fingerprint(const fby_dataset *ds);

/** How the open went: for messages and tests. */
typedef struct fby_open_stats {
    size_t size;                      /* set by the caller, as that of the structs below: sizeof(fby_open_stats) */
    uint64_t files, files_from_cache; /* files - files_from_cache were read from disk */
    uint64_t metadata_bytes_read;
    uint64_t elapsed_ns;
    bool cache_written;
} fby_open_stats;
FBY_API fby_status fby_dataset_open_stats(const fby_dataset *ds, fby_open_stats *out, fby_error *err);

typedef struct fby_file_info {
    size_t size;        /* set by the caller: sizeof(fby_file_info) */
    const char *path;   /* absolute: as the working directory was when the data set was opened */
    const char *name;   /* relative to the data set's root: what the identity holds */
    const char *format; /* "parquet", "hdf5", "ipc" (Arrow files), "csv", "arrow" (in memory) */
    uint64_t size_bytes;
    uint64_t rows;
    uint32_t groups; /* row groups, record batches; of other formats, how the reader cuts the file */
    uint64_t first_block, n_blocks;
    const char *group_word, *groups_word; /* "row group", "row groups", as the format calls them; NULL = it has none. Static. Since: 0.2 */
} fby_file_info;

/** FBY_E_ARG when i is out of range. Strings borrowed from the data set. Threads: any. Since: 0.1 */
FBY_API fby_status fby_dataset_file(const fby_dataset *ds, uint64_t i, fby_file_info *out, fby_error *err);

typedef struct fby_block_info {
    size_t size; /* set by the caller: sizeof(fby_block_info) */
    uint64_t file;
    uint32_t group;
    uint64_t row_begin, row_end; /* within the group */
    uint64_t first_row;          /* of the data set */
    uint64_t stored_bytes;       /* over all columns */
} fby_block_info;

/** FBY_E_ARG when i is out of range. Threads: any. Since: 0.1 */
FBY_API fby_status fby_dataset_block(const fby_dataset *ds, uint64_t i, fby_block_info *out, fby_error *err);

/** One column of one row group, for inspection. Bits of `encodings`: 1 << the format's encoding number. */
typedef struct fby_chunk_info {
    size_t size;       /* set by the caller: sizeof(fby_chunk_info) */
    const char *codec; /* "snappy"; static */
    uint64_t encodings;
    uint64_t n_values; /* with nulls */
    uint64_t compressed_bytes, uncompressed_bytes;
    int64_t n_pages;             /* -1 = not counted */
    int64_t n_dictionary_values; /* -1 = no dictionary or not read */
    int64_t null_count;          /* from statistics; -1 = unknown */
    int32_t page_version;        /* 1 or 2; 0 = not read */
    bool has_offset_index, has_crc;
} fby_chunk_info;

/**
 * One column of one row group.
 *
 * @column      dotted path.
 * @read_pages  also read the page headers.
 * Errors: FBY_E_ARG (no such file or group), FBY_E_SCHEMA (no such column), those of reading. Threads: any.
 * Blocks: with read_pages, on reading them. Since: 0.1
 */
FBY_API fby_status fby_dataset_chunk(const fby_dataset *ds, uint64_t file, uint32_t group, const char *column, bool read_pages,
                                     fby_chunk_info *out, fby_error *err);

/** Name of an encoding bit ("RLE_DICTIONARY"); static. */
FBY_API const char *fby_encoding_name(unsigned bit);

/** What is unusual about the data set, as sentences for people ("12 files lack the column 'snow'"). Borrowed; NULL past the last. */
FBY_API const char *fby_dataset_note(const fby_dataset *ds, size_t i);

/**
 * What could not become a column, with the reason ("'x': its type is time"): a loader over all columns goes without it. Of files that look
 * alike, only one is examined. Borrowed; NULL past the last. Since: 0.2
 */
FBY_API const char *fby_dataset_left_out(const fby_dataset *ds, size_t i);

/**
 * Export the data set, or some columns, as an Arrow stream: one struct array per block, in order.
 *
 * @columns  n_columns names of top-level columns, or NULL and 0 for all.
 * @out      [out] the stream; owned by the caller, who calls out->release. Keeps the data set alive.
 * The stream's errors carry the same messages (get_last_error). get_next reads a block and decodes it, on several threads where it is large.
 * Errors: FBY_E_SCHEMA (no such column; types of files that do not join), FBY_E_NOMEM.
 * Threads: any; the stream is used by one thread at a time. Blocks: no; the stream's get_next does. Since: 0.1
 */
FBY_API fby_status fby_dataset_export_arrow(fby_dataset *ds, const char *const *columns, size_t n_columns, struct ArrowArrayStream *out,
                                            fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
