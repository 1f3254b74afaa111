/*
 * Many files as one table, inside the library: what readers, samples and loaders need beyond <forebay/dataset.h>.
 *
 * A column of the dataset is a leaf path of the joined schema. In one file it is a leaf of that file's own schema, or a
 * constant (parts of a pattern, the source's name), or absent (missing there: an error at use, or filled when opts say so).
 */
#ifndef FBY_DATASET_DATASET_H
#define FBY_DATASET_DATASET_H

#include "base/hash.h"
#include "budget/budget.h"
#include "format/format.h"

#include <forebay/dataset.h>

#define FBY__PACK_MANIFEST "_pack.json" /* in the folder of a pack, beside its files: what it was made of (src/pack/provenance.c) */

/** A block: equal row ranges of a group whose stored size is above FBY__BLOCK_STORED_BYTES, else the whole group. */
#define FBY__BLOCK_STORED_BYTES (64u << 20)
#define FBY__NONE UINT32_MAX

typedef struct fby__block {
    uint32_t file;
    uint32_t group;
    uint64_t row_begin, row_end; /* within the group */
    uint64_t first_row;          /* of the dataset */
    uint64_t stored_bytes;
} fby__block;

/** A column that the loader wants, resolved against the joined schema once. */
typedef struct fby__dataset_column {
    const char *path;       /* borrowed from the dataset */
    const fby_field *field; /* of the joined schema: the list for ragged columns, else the leaf */
    const fby_field *leaf;  /* the leaf itself (the element of a list column) */
    uint32_t id;            /* index among the dataset's columns */
} fby__dataset_column;

/** Where a column is in one file. */
typedef enum fby__column_origin { FBY__ORIGIN_LEAF, FBY__ORIGIN_CONSTANT, FBY__ORIGIN_MISSING } fby__column_origin;
typedef struct fby__file_column {
    fby__column_origin origin;
    uint32_t leaf;              /* PLACE_LEAF: leaf of the file's schema */
    const char *constant;       /* PLACE_CONSTANT: borrowed, NUL-terminated */
    int64_t unit_mul, unit_div; /* PLACE_LEAF, time columns: from the file's unit to the joined field's */
} fby__file_column;

uint32_t fby__dataset_block_count(const fby_dataset *ds);
const fby__block *fby__dataset_block(const fby_dataset *ds, uint32_t i);

/**
 * Resolve a dotted path. FBY_E_SCHEMA: no such column (with the closest names), types that do not join between files (naming
 * two files and their types), a column that some files lack (their number, and the first of them) unless missing_columns is FILL.
 */
fby_status fby__dataset_resolve(const fby_dataset *ds, const char *path, fby__dataset_column *out, fby_error *err);

/** Where a resolved column is in file i. */
void fby__dataset_file_column(const fby_dataset *ds, uint32_t file, const fby__dataset_column *column, fby__file_column *out);

/** A top-level field of the joined schema by name. FBY_E_SCHEMA: there is none, or the name is of something inside one. */
fby_status fby__dataset_find_field(const fby_dataset *ds, const char *name, uint32_t *out, fby_error *err);
/** FBY_E_SCHEMA when the field, one above it or (deep) one below it has types that do not join or is missing somewhere. */
fby_status fby__dataset_check_field(const fby_dataset *ds, uint32_t field, bool deep, fby_error *err);
/** Do two fields read the same in Arrow, names of struct members and nesting included? (Nullability aside.) */
bool fby__join_same_type(const fby_field *a, const fby_field *b);
/**
 * Where a top-level field of the joined schema is in file i, whose table has this schema: the file's own field, or NULL: in every row the
 * text *out_constant, or, NULL too, nothing. *hint, 0 at first, is near where the next one is.
 */
const fby_field *fby__dataset_file_field(const fby_dataset *ds, uint32_t file, const fby__schema *schema, uint32_t field, uint32_t *hint,
                                         const char **out_constant);

/** A reference to file i's table; thawed from the index when needed. fby__table_unref when done. */
fby_status fby__dataset_table(const fby_dataset *ds, uint32_t file, fby__table **out, fby_error *err);

/** Open file i and check that it still is the file that was indexed (FBY_E_CHANGED). NULL in *out for datasets in memory. */
fby_status fby__dataset_open_file(const fby_dataset *ds, uint32_t file, fby__file **out, fby_error *err);

const char *fby__dataset_file_path(const fby_dataset *ds, uint32_t file);

#define FBY__BLOCK_TEXT_BYTES 400
/** A block in messages, at most FBY__BLOCK_TEXT_BYTES: "'a.parquet', row group 3", "'b.csv', rows 8192 to 16383" of files without such groups. */
void fby__dataset_block_text(const fby_dataset *ds, uint32_t block, char *out);
/** What the files of the data set are cut into, "row groups"; NULL: nothing that whoever writes them could choose. */
const char *fby__dataset_groups_text(const fby_dataset *ds);

/** What file i says of itself and of its columns: fby_contents_open of the root and of what columns lie in, and attributes alone. */
fby_status fby__dataset_said(const fby_dataset *ds, uint32_t file, fby_contents **out, fby_error *err);
/** Does the reader undo what attributes of file i say of how its numbers are packed (scale_factor, _FillValue)? Not with stored_values. */
bool fby__dataset_unpacks(const fby_dataset *ds, uint32_t file);
bool fby__dataset_stored_values(const fby_dataset *ds); /* as it was opened */

/**
 * Would the sources that the data set was opened from find a file of that name in a folder, too, once it is there? Then *out_root is the
 * directory that is searched, borrowed; else NULL. FBY_E_NOMEM; FBY_E_IO: no working directory.
 */
fby_status fby__dataset_would_find(const fby_dataset *ds, const char *folder, const char *name, const char **out_root, fby_error *err);

/** What is known of a file. Borrowed from the dataset. */
typedef struct fby__file_facts {
    const char *path, *name;           /* the name: below the dataset's root. Empty for datasets in memory */
    const char *const *constants;      /* one per constant column, NULL = missing; NULL when there are none */
    uint64_t rows, first_row, end_row; /* the latter two: of the dataset, 0 and 0 for a file without rows */
} fby__file_facts;
uint32_t fby__dataset_file_count(const fby_dataset *ds);
fby__file_facts fby__dataset_facts(const fby_dataset *ds, uint32_t file);

/** Where a row of the dataset is, for an error: "%s: " of path before it, "row %llu of the %s" of row and of in it. */
typedef struct fby__file_row {
    const char *path;       /* borrowed from the dataset; "(in memory)" */
    unsigned long long row; /* of its file, or of a dataset in memory */
    const char *of;         /* "file" or "data set" */
} fby__file_row;
fby__file_row fby__dataset_file_row(const fby_dataset *ds, uint64_t row);

/** Columns that a file has one value of: what a pattern's braces matched, the names of the sources. */
typedef struct fby__constants {
    const char *const *names; /* n, borrowed */
    uint32_t n, source;       /* source: which of them holds the sources' names, or FBY__NONE */
} fby__constants;
fby__constants fby__dataset_constants(const fby_dataset *ds);

/** The block that holds a row of the dataset. */
uint32_t fby__block_of_row(const fby_dataset *ds, uint64_t row);
/** A key with all that the dataset's values depend on: its files as they are, and how they are seen as a table. */
fby__hash128 fby__dataset_hash(fby__hash128 key, const fby_dataset *ds);
/**
 * Do both have the same values in the same blocks? Two that were opened apart must have the same files as they are, seen alike, and none
 * written a moment before, which may change without a trace.
 */
bool fby__dataset_same(const fby_dataset *a, const fby_dataset *b);
/** May what is found in the files be kept on disk? Not if files were written a moment ago: they may change without a trace. */
bool fby__dataset_is_settled(const fby_dataset *ds);
const char *fby__dataset_cache_dir(const fby_dataset *ds); /* NULL = none */
/** 32 hex digits: identity, sizes and metadata, which a copy shares whatever its times. */
const char *fby__dataset_contents(const fby_dataset *ds);
/** A hash of the files' inodes: the same files, whatever was written to them. */
uint64_t fby__dataset_inodes(const fby_dataset *ds);
/** A hash of what identity and fingerprint say of one file (name, rows, size, time, metadata), and when it was written. */
uint64_t fby__dataset_file_hash(const fby_dataset *ds, uint32_t file, int64_t *out_mtime_ns);
int fby__dataset_threads(const fby_dataset *ds); /* as asked for when it was opened */
/** FBY_E_STATE in a child of fork(). */
fby_status fby__dataset_check_process(const fby_dataset *ds, fby_error *err);
fby_io_engine fby__dataset_io_engine(const fby_dataset *ds);
bool fby__dataset_verify_crc(const fby_dataset *ds);
/** As it was when the data set was opened. */
const fby__h5_environment *fby__dataset_environment(const fby_dataset *ds);
/** What a search for samples, a lookup, an Arrow stream may hold: the data set's memory, as it was opened; 0 = nobody said. */
uint64_t fby__dataset_budget_bytes(const fby_dataset *ds);
/** An account of so many bytes, or of half of what the process may take: what the data set itself holds is charged. Retire it, then let it go. */
fby_status fby__dataset_account(const fby_dataset *ds, fby__account **out, fby_error *err);
/** Bytes of memory that the dataset itself holds (schemas, index): counted in the loader's budget. */
size_t fby__dataset_memory_bytes(const fby_dataset *ds);

/** The last part of a path; the length of that without its last extension. */
const char *fby__path_base(const char *path);
size_t fby__path_stem(const char *base);

/**
 * A whole file of the cache directory, at least so many bytes, without the code behind them. Any status but FBY_OK: there is none
 * (FBY_E_STATE: it is another user's, or others may write to it); no message.
 */
fby_status fby__cache_read(const char *dir, const char *name, size_t least, fby__buf *out);
/** What a note says of FBY_E_STATE. */
#define FBY__CACHE_FOREIGN "it belongs to another user, or others may write to it"
/**
 * Write one, and the code that the user's key gives it: to a temporary name, then renamed. The name has a suffix; of each suffix a bounded
 * number of files is kept.
 */
fby_status fby__cache_write(const char *dir, const char *name, const fby__buf *image, fby_error *err);

#endif
