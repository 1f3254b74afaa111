/*
 * What one file of a data set holds beyond its table. For looking at files.
 *
 * HDF5 and NetCDF-4: every group and dataset, how each is stored and read, and the attributes. To read the values of a dataset, open it as a table
 * of its own (fby_open_opts.single).
 *
 * Parquet and Arrow files: a root, whose attributes are the file's key-value metadata, which are texts by name (fby_pack writes there how it made
 * a file; of an Arrow file, its own come before those of its schema). Then columns that have metadata, and fields inside columns that have some:
 * "/hits[].x" is the field x of a list of structs. A Parquet file has these only where Arrow wrote it, in the Arrow schema that it keeps.
 *
 *     fby_contents *c;
 *     fby_contents_open(ds, 0, &c, &err);
 *     for (size_t i = 0; i < fby_contents_count(c); i++)
 *         puts(fby_contents_object(c, i)->path);
 *     const fby_attribute *names = fby_contents_attribute(c, "/", "feature_names");
 *     fby_contents_close(c);
 *
 * Where a function says nothing else: Threads: any. Blocks: no. What a pointer leads to belongs to the contents. Since: 0.2
 */
#ifndef FOREBAY_CONTENTS_H
#define FOREBAY_CONTENTS_H

#include <forebay/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FBY_OBJECT_MAX_DIMS 32 /* as many as HDF5 allows */

/** An attribute. All memory belongs to the contents. Frozen: no field is ever added. */
typedef struct fby_attribute {
    const char *name;
    const char *type; /* as users read it: "float32", "string", "compound {…}" */
    fby_dtype dtype;  /* of `data`; FBY_DTYPE_NONE when it holds no plain numbers */
    uint32_t ndim;    /* 0: one value */
    uint64_t shape[FBY_OBJECT_MAX_DIMS];
    uint64_t n;                   /* values: product of shape */
    const void *data;             /* n numbers of dtype, native; NULL for other types */
    const char *const *strings;   /* n texts (padding removed), with a NUL behind each, when the type is a string, else NULL */
    const uint64_t *string_bytes; /* of each, without that NUL */
    bool utf8;                    /* all texts are UTF-8, without a NUL inside; false: bytes of an encoding that nothing states */
} fby_attribute;

/** What an object is: FBY_OBJECT_LINK leads nowhere, FBY_OBJECT_COLUMN is for Parquet and Arrow files. */
typedef enum fby_object_kind { FBY_OBJECT_GROUP, FBY_OBJECT_ARRAY, FBY_OBJECT_TYPE, FBY_OBJECT_LINK, FBY_OBJECT_COLUMN } fby_object_kind;

/**
 * A group, dataset (array), named type, a link that leads nowhere, or a column. All memory belongs to the contents.
 * Frozen: no field is ever added.
 */
typedef struct fby_object {
    const char *path; /* absolute: "/events/x" */
    fby_object_kind kind;
    uint32_t n_attributes;
    const fby_attribute *attributes;
    /* arrays */
    const char *type; /* "float32 (big-endian)"; "" when unknown */
    fby_dtype dtype;  /* as a tensor; FBY_DTYPE_NONE for strings, compounds, … */
    uint32_t ndim;
    uint64_t shape[FBY_OBJECT_MAX_DIMS];
    const char *dimensions[FBY_OBJECT_MAX_DIMS]; /* names; NULL = none */
    const char *layout;                          /* "contiguous", "chunked", "compact", "virtual", "external"; static */
    uint64_t chunk[FBY_OBJECT_MAX_DIMS];         /* elements; 0 when not chunked */
    const char *chunk_index;                     /* "B-tree 1", "fixed array", …; static; NULL when not chunked */
    const char *filters;                         /* "shuffle + deflate(4)"; "" = none */
    uint64_t n_chunks, n_chunks_written;
    uint64_t stored_bytes, decoded_bytes;
    bool direct;        /* read by this library itself; else through the helper program */
    const char *why;    /* not direct: the reason; a link: where it leads */
    const char *column; /* the data set's column that holds it, NULL = none */
} fby_object;

typedef struct fby_contents fby_contents;

/**
 * Read what file i of the data set holds. Blocks on metadata reads (every chunk index too).
 *
 * @out  [out] owned by the caller: fby_contents_close(). Does not keep the data set.
 * Errors: FBY_E_ARG (no such file), FBY_E_UNSUPPORTED (a format whose files hold nothing beyond their table, such as CSV), FBY_E_IO,
 * FBY_E_CHANGED, FBY_E_FORMAT, FBY_E_NOMEM, FBY_E_BUDGET (it and a copy of it are more than the data set's memory_bytes).
 * Threads: any. Since: 0.2
 */
FBY_API fby_status fby_contents_open(const fby_dataset *ds, uint64_t file, fby_contents **out, fby_error *err);
FBY_API void fby_contents_close(fby_contents *contents); /* NULL is fine */

/** Objects, groups before what is in them; [0] is the root. Borrowed; NULL when i is out of range. */
FBY_API size_t fby_contents_count(const fby_contents *contents);
FBY_API const fby_object *fby_contents_object(const fby_contents *contents, size_t i);

/** An attribute by its object's path, with or without a leading slash, and its name; NULL when the object or the attribute does not exist. */
FBY_API const fby_attribute *fby_contents_attribute(const fby_contents *contents, const char *path, const char *name);

/** What is worth a second look in how the file is stored, as sentences ("'/x': one chunk holds all rows: …"). NULL past the last. */
FBY_API const char *fby_contents_note(const fby_contents *contents, size_t i);

#ifdef __cplusplus
}
#endif
#endif
