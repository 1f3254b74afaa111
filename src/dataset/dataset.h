/*
 * Many files as one table, inside the library: what loader, batch and the Arrow export need beyond <forebay/dataset.h>.
 *
 * A column of the dataset is a leaf path of the joined schema. In one file it is a leaf of that file's own schema, or a
 * constant (parts of a pattern, the source's name), or absent (missing there: an error at use, or filled when opts say so).
 */
#ifndef FBY_DATASET_DATASET_H
#define FBY_DATASET_DATASET_H

#include "format/format.h"

#include <forebay/dataset.h>

/** A block: equal row ranges of a group whose stored size is above FBY__BLOCK_STORED_BYTES, else the whole group. */
#define FBY__BLOCK_STORED_BYTES (64u << 20)

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
typedef enum fby__column_place { FBY__PLACE_LEAF, FBY__PLACE_CONSTANT, FBY__PLACE_MISSING } fby__column_place;
typedef struct fby__file_column {
    fby__column_place place;
    uint32_t leaf;              /* PLACE_LEAF: leaf of the file's schema */
    const char *constant;       /* PLACE_CONSTANT: borrowed, NUL-terminated */
    int64_t unit_mul, unit_div; /* PLACE_LEAF, time columns: from the file's unit to the joined field's */
} fby__file_column;

uint32_t fby__dataset_block_count(const fby_dataset *ds);
const fby__block *fby__dataset_block(const fby_dataset *ds, uint32_t i);

/**
 * Resolve a dotted path. FBY_E_SCHEMA: no such column (with the closest names), types that do not join between files (naming
 * two files and their types), a column that some file lacks (naming the first such file) unless missing_columns is FILL.
 */
fby_status fby__dataset_resolve(const fby_dataset *ds, const char *path, fby__dataset_column *out, fby_error *err);

/** Where a resolved column is in file i. */
void fby__dataset_file_column(const fby_dataset *ds, uint32_t file, const fby__dataset_column *column, fby__file_column *out);

/** A reference to file i's table; thawed from the index when needed. fby__table_unref when done. */
fby_status fby__dataset_table(const fby_dataset *ds, uint32_t file, fby__table **out, fby_error *err);

/** Open file i and check that it still is the file that was indexed (FBY_E_CHANGED). NULL in *out for datasets in memory. */
fby_status fby__dataset_open_file(const fby_dataset *ds, uint32_t file, fby__file **out, fby_error *err);

const char *fby__dataset_file_path(const fby_dataset *ds, uint32_t file);
/** 32 hex digits: identity, sizes and metadata, which a copy shares whatever its times. */
const char *fby__dataset_contents(const fby_dataset *ds);
/** A hash of the files' inodes: the same files, whatever was written to them. */
uint64_t fby__dataset_inodes(const fby_dataset *ds);
/** A hash of what identity and fingerprint say of one file (name, rows, size, time, metadata), and when it was written. */
uint64_t fby__dataset_file_hash(const fby_dataset *ds, uint32_t file, int64_t *out_mtime_ns);
fby_io_engine fby__dataset_io_engine(const fby_dataset *ds);
bool fby__dataset_verify_crc(const fby_dataset *ds);
/** Bytes of memory that the dataset itself holds (schemas, index): counted in the loader's budget. */
size_t fby__dataset_memory_bytes(const fby_dataset *ds);

#endif
