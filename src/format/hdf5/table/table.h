/*
 * An HDF5 file as a table: which data sets are its columns, how rows map to elements, where the bytes are.
 *
 *     data set (dims d0 … dr)          axis: the one that runs over rows (axes of them, leading, for cells)
 *     rows       = Π of the row axes   d[axis], or d0 · … · d(axes−1)
 *     a row      = all other axes, in order: the column's shape; FIXED_LIST levels named by dimension
 *
 * Cells: with axes = k, a data set of rank ≥ k gives d0…d(k−1) rows; one of lower rank j ≥ 1 whose dims are the first j of the table's
 * is broadcast: its `repeat` is d(j)·…·d(k−1) rows per stored index (one label a file).
 *
 * The table is plain data once it is made, is frozen into the index cache whole, and is shared by threads. It holds no descriptor.
 */
#ifndef FBY_FORMAT_HDF5_TABLE_TABLE_H
#define FBY_FORMAT_HDF5_TABLE_TABLE_H

#include "codec/filter.h"
#include "format/format.h"
#include "format/hdf5/client/helper.h"

/** How a data set is read. */
typedef enum fby__h5_way {
    FBY__H5_DIRECT, /* by us: ranges are located, read and decoded */
    FBY__H5_HELPER  /* by the helper program; `why` says why */
} fby__h5_way;

#define FBY__H5_MAX_MISSING 8 /* _FillValue and missing_value, which may be a list */

/** A data set that serves one or more leaves (a compound's members are a leaf each). */
typedef struct fby__h5_set {
    const char *path; /* absolute in the file */
    fby__h5_way way;
    const char *why; /* HELPER: the reason, for people */
    const fby__h5_type *type;
    uint32_t rank;
    uint64_t dims[FBY__H5_MAX_RANK];
    const char *dim_names[FBY__H5_MAX_RANK]; /* NULL = unnamed */
    uint32_t axis, axes;                     /* rows: `axes` axes beginning at `axis` (axis > 0 only with axes = 1) */
    uint64_t repeat;                         /* rows per index along the row axes; 1 unless the set is broadcast */
    uint64_t row_elements;                   /* elements of the data set in one row: product of the other dims */
    fby__h5_layout layout;                   /* COMPACT, CONTIGUOUS, CHUNKED */
    uint64_t data_offset;                    /* CONTIGUOUS: absolute; UNDEFINED = never written */
    fby__bytes compact;                      /* COMPACT: the data */
    uint32_t chunk[FBY__H5_MAX_RANK];
    uint64_t grid[FBY__H5_MAX_RANK];
    bool partial_edge_unfiltered;
    uint32_t n_filters;
    const fby__filter *filters; /* as codec/filter.h takes them */
    fby__bytes fill;            /* one element as stored; n = 0: zeros */
    uint64_t n_chunks;
    const fby__h5_chunk *chunks; /* sorted by number */
    uint64_t stored_bytes;       /* of all chunks, or of the data */
    fby__h5_promise promise;     /* HELPER: what the program described */
    uint32_t n_sources;          /* HELPER: other files that values come from */
    const uint32_t *sources;     /* of the table's */
} fby__h5_set;

#define FBY__H5_MAX_STRIDES 4 /* arrays of compounds inside each other */

/** One leaf of the schema: a data set, or a member of a compound one. */
typedef struct fby__h5_leaf {
    uint32_t set;
    uint32_t offset;          /* bytes from the element's start: compound members */
    const fby__h5_type *type; /* of the innermost value: what is converted (array types add to `elements`; VLEN_LIST: of the list's
                                elements, each value in the data set being of variable length; NESTED: of the outermost list) */
    uint32_t elements;        /* values per data set element: product of array-type dims; 1 otherwise */
    uint32_t n_strides;       /* arrays of compounds around the value, the outermost first: they count in `elements` */
    struct {
        uint32_t n, stride; /* stride: bytes */
    } strides[FBY__H5_MAX_STRIDES];
    fby_dtype stored; /* fby__h5_type_dtype(type), before conventions; NONE for strings, opaque, references */
    fby_dtype dtype;  /* of the schema: after scale and offset */
    enum {
        FBY__H5_VALUE_NUMBER,
        FBY__H5_VALUE_FIXED_STRING,
        FBY__H5_VALUE_VLEN_STRING,
        FBY__H5_VALUE_VLEN_LIST,
        FBY__H5_VALUE_OPAQUE,
        FBY__H5_VALUE_REFERENCE, /* as text: only the helper program reads them */
        FBY__H5_VALUE_NESTED     /* in a list of anything but numbers: nested.c */
    } value;
    uint32_t levels; /* NESTED: levels from the leaf's field up to that of the outermost list */
    /* NetCDF conventions; none when opened with stored_values */
    uint32_t n_missing;                    /* stored values that mean "missing" */
    uint64_t missing[FBY__H5_MAX_MISSING]; /* first bytes: one value of dtype `stored`; NaN matches NaN */
    bool has_least, has_most;              /* values below, above these are missing too: valid_range and its like */
    uint64_t least, most;                  /* in the same form */
    bool scaled;
    double scale_factor, add_offset; /* value = stored · scale_factor + add_offset, computed in float64, rounded to dtype */
} fby__h5_leaf;

#define FBY__H5_MAX_OTHERS 32
#define FBY__H5_MAX_LEFT_OUT 256

typedef struct fby__h5_table {
    fby__table base;
    fby__arena arena; /* everything pointed to */
    uint64_t file_bytes, address_base;
    uint8_t offset_bytes, length_bytes; /* for the global heap */
    uint32_t n_sets;
    fby__h5_set *sets;
    fby__h5_leaf *leaves; /* base.schema->n_leaves, in schema order */
    const char *name;     /* path of the table's largest data set: what table= names */
    uint32_t n_others;    /* other tables in the file, the largest first, at most FBY__H5_MAX_OTHERS: for a note */
    const struct fby__h5_other {
        const char *name;
        uint64_t rows;
        uint32_t n_sets;
    } * others;
    uint32_t n_left_out; /* data sets and members of compound ones that are left out for a reason worth a note;
                                at most FBY__H5_MAX_LEFT_OUT are listed */
    const struct fby__h5_left_out {
        const char *name; /* "events/x", "hits.tag" */
        const char *why;  /* "the data set 'events/x' is left out: <why>" is a sentence */
        bool passing;     /* while the file is opened: it may be there the next time, and nobody asked to go without */
        bool elsewhere;   /* not in the table that was asked for by name */
    } * left_out;
} fby__h5_table;

static inline const fby__h5_table *fby__h5_table_of(const fby__table *table) { return (const fby__h5_table *)table; }

/** Rows [begin, end) of the table are indices [*out_begin, *out_end) along the set's row axes. */
static inline void fby__h5_indices(const fby__h5_set *s, uint64_t begin, uint64_t end, uint64_t *out_begin, uint64_t *out_end)
{
    *out_begin = begin / s->repeat;
    *out_end = end > begin ? (end - 1) / s->repeat + 1 : *out_begin;
}

/** Can values of the leaf be missing? */
static inline bool fby__h5_leaf_can_miss(const fby__h5_leaf *leaf) { return leaf->n_missing || leaf->has_least || leaf->has_most; }

/** Bytes that a value of variable length takes in an element: in the file, or as the helper program gives it. */
static inline uint32_t fby__h5_vlen_bytes(const fby__h5_table *table, const fby__h5_set *set)
{
    return set->way == FBY__H5_HELPER ? FBY__H5_HELPER_VLEN_BYTES : 8u + table->offset_bytes;
}

/** Bytes of one value of the leaf in a data set's element, and of all its values there. */
static inline uint32_t fby__h5_value_bytes(const fby__h5_table *table, const fby__h5_leaf *leaf)
{
    return leaf->value == FBY__H5_VALUE_VLEN_LIST ? fby__h5_vlen_bytes(table, &table->sets[leaf->set]) : leaf->type->bytes;
}
static inline uint64_t fby__h5_leaf_bytes(const fby__h5_table *table, const fby__h5_leaf *leaf)
{
    return (uint64_t)leaf->elements * fby__h5_value_bytes(table, leaf);
}

/**
 * Every so many rows, counted from row 0, there is a border that no chunk of the set reaches across (the end of the table is one too).
 * 0: the set is not stored in chunks; there is a border after every row.
 */
uint64_t fby__h5_set_step(const fby__h5_set *set);

/** Are there values of variable length in the type: strings, lists, references (which the helper program gives as text)? */
bool fby__h5_type_varies(const fby__h5_type *type);

/** Is there an HDF5 signature at 512, 1,024, … 65,536: a file behind a user block? */
bool fby__h5_probe(fby__file *file);

/* table.c (with fields.c, choose.c, writers.c, netcdf.c, blocks.c, freeze.c) */
fby_status fby__h5_may_read(fby__file *file, const fby__format_opts *opts, bool *out_no_locks, fby_error *err);
fby_status fby__h5_table_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err);
fby_status fby__h5_freeze(const fby__table *table, fby__buf *out, fby_error *err);
fby_status fby__h5_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err);
void fby__h5_destroy(fby__table *table);
#define FBY__H5_SLAB_BYTES ((uint64_t)4 << 20) /* of rows that the helper program is asked for at once */
/** What the helper program needs to read so many bytes of a set. */
uint64_t fby__h5_helper_bytes(const fby__h5_set *s, uint64_t slab_bytes);
void fby__h5_leaf_bounds(const fby__table *table, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                         fby__leaf_bounds *out);
fby_status fby__h5_describe(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err);
/* contents.c */
fby_status fby__h5_contents(fby__file *file, const fby__table *table, fby_contents *out, fby_error *err);
/* notes.c: see fby__format_ops.note */
bool fby__h5_note(const fby__table *table, uint32_t i, char *out, size_t n);
bool fby__h5_left_out(const fby__table *table, uint32_t i, const char **out_name, const char **out_why);
/* contents.c: see fby__format_ops.absent */
bool fby__h5_absent(const fby__table *table, fby__file *file, const char *path, char *out, size_t n);
/* locate.c */
fby_status fby__h5_locate(const fby__locate_request *request, fby_error *err);
/* panel.c, arrow.c */
fby_status fby__h5_decode_panel(const fby__decode *request, fby__scratch *scratch, fby_error *err);
fby_status fby__h5_decode_arrow(const fby__arrow_request *request, fby__scratch *scratch, struct ArrowArray *out, fby_error *err);

/** "x.h5: data set '/events/x'": put before messages about a set. */
void fby__h5_context(fby_error *err, const char *file_name, const fby__h5_set *set);

#endif
