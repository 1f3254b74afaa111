/*
 * From stored bytes to values: what locate.c, values*.c, panel*.c and arrow.c share.
 *
 *     geometry   a data set as boxes: neighbouring axes joined where chunks hold them whole; rows ↔ indices ↔ chunks
 *     rows       one data set being read by one thread; its chunk is decoded once for all leaves that want it
 *     target     where one leaf's values go, with a stride from row to row: columns of a panel, or dense rows
 *
 *     rows_read ──► chunk (filters, store, fill value, helper) ──► spans of rows ──► boxes ──► convert ──► target
 *
 * Rows are those of the table, counted from 0; an index counts along the data set's own row axes (rows / repeat).
 */
#ifndef FBY_FORMAT_HDF5_VALUES_DECODE_INTERNAL_H
#define FBY_FORMAT_HDF5_VALUES_DECODE_INTERNAL_H

#include "block/arrow.h"
#include "block/convert.h"
#include "format/hdf5/client/helper.h"
#include "format/hdf5/table/table.h"

/* ---- geometry (geometry.c) ---- */

/**
 * Axes joined: two neighbours that both run over rows, or both do not, are one axis when chunks hold the second one whole.
 * The numbering of chunks stays as it was. Contiguous, compact and helper sets count as one chunk.
 */
typedef struct fby__h5_geometry {
    uint32_t rank;
    uint32_t row_first, row_end; /* axes [row_first, row_end) run over rows */
    uint64_t dims[FBY__H5_MAX_RANK], chunk[FBY__H5_MAX_RANK], grid[FBY__H5_MAX_RANK];
    uint64_t step[FBY__H5_MAX_RANK]; /* indices (row axes) or elements of a row (other axes) from one to the next along an axis */
    size_t stride[FBY__H5_MAX_RANK]; /* bytes between neighbours along an axis, in a chunk */
    size_t chunk_bytes;              /* of a chunk when decoded */
    uint64_t indices;                /* along the row axes */
    bool whole_rows;                 /* every chunk holds whole rows, one behind the other */
} fby__h5_geometry;

/** FBY_E_FORMAT when the set's numbers do not fit together: they come from a file or an index cache. */
fby_status fby__h5_geometry_open(const fby__h5_set *set, fby__h5_geometry *out, fby_error *err);

/** Walks the chunks that hold some of the indices [begin, end), by rising number; or several at once (fby__h5_walk_absent). */
typedef struct fby__h5_walk {
    const fby__h5_geometry *g;
    uint64_t begin, end;                                 /* indices */
    uint64_t lo[FBY__H5_MAX_RANK], hi[FBY__H5_MAX_RANK]; /* of the grid */
    uint64_t at[FBY__H5_MAX_RANK];                       /* this chunk's, in the grid */
    uint64_t n[FBY__H5_MAX_RANK];                        /* chunks along each axis: 1, but where none of them is stored */
    uint64_t number;
    bool begun;
} fby__h5_walk;
void fby__h5_walk_begin(fby__h5_walk *w, const fby__h5_geometry *g, uint64_t begin, uint64_t end);
bool fby__h5_walk_next(fby__h5_walk *w);
/**
 * No chunk is stored from the walk's up to number `stored` (UINT64_MAX: none at all): a box of them is taken together, about
 * FBY__H5_ABSENT_ELEMENTS at most, so that whoever goes through them asks now and then whether to stop.
 */
void fby__h5_walk_absent(fby__h5_walk *w, uint64_t stored);
#define FBY__H5_ABSENT_ELEMENTS ((uint64_t)1 << 22)

/** Elements of a chunk along an axis that lie inside the data set. */
static inline uint64_t fby__h5_extent(const fby__h5_geometry *g, uint32_t axis, uint64_t grid_at)
{
    const uint64_t begin = grid_at * g->chunk[axis], left = g->dims[axis] - begin;
    return left < g->chunk[axis] ? left : g->chunk[axis];
}
/** The same for all chunks that the walk is at. */
static inline uint64_t fby__h5_walk_extent(const fby__h5_walk *w, uint32_t axis)
{
    const uint64_t last = w->n[axis] - 1;
    return last * w->g->chunk[axis] + fby__h5_extent(w->g, axis, w->at[axis] + last);
}

/** Consecutive indices in a chunk, along the last row axis, no others than [begin, end). */
typedef struct fby__h5_span {
    uint64_t index, n;             /* the first, and how many */
    uint64_t at[FBY__H5_MAX_RANK]; /* coordinates of the first, along row axes */
    bool begun;
} fby__h5_span;
bool fby__h5_span_next(const fby__h5_walk *w, fby__h5_span *span);

/* ---- conversion (convert.c) ---- */

/** How a leaf's stored values become those of a destination. */
typedef struct fby__h5_value {
    const fby__h5_leaf *leaf;
    const fby__h5_type *type; /* of a value as it lies in the source */
    uint32_t offset;          /* bytes from the element's start */
    size_t src_bytes, dst_bytes;
    fby_dtype dst; /* NONE: bytes are copied as they are (strings, references, opaque) */
    bool native;   /* source values are values of leaf->stored */
    bool copy;     /* … and of dst: nothing to do */
    fby__missing missing;
    fby__scalar fill;
    fby__scale unit;
} fby__h5_value;
void fby__h5_value_open(fby__h5_value *v, const fby__h5_leaf *leaf, fby_dtype dst);
/** For another type: find out again what is native. */
void fby__h5_value_source(fby__h5_value *v, const fby__h5_type *type, uint32_t offset);

/** A value that could not be converted. */
typedef struct fby__h5_bad {
    size_t at;    /* which value */
    bool missing; /* it is missing, and no fill value is given */
    char text[64];
} fby__h5_bad;
/** n values, `stride` bytes apart, to dense ones. @flags  NULL, or n bytes: 0 where a value is missing. FBY_E_DATA fills *bad. Hot. */
fby_status fby__h5_value_convert(const fby__h5_value *v, const uint8_t *src, size_t stride, size_t n, uint8_t *dst, uint8_t *flags,
                                 fby__h5_bad *bad);

/* ---- a thread's state (chunk.c) ---- */

typedef struct fby__h5_state {
    fby__filter_state filters;
    fby__h5_global_cache heap;
    fby__hash128 heap_file; /* the file whose collections are in it */
    fby__buf chunks;        /* decoded chunks of all rows that are open */
    fby__buf fill;          /* one element where none is stored */
    fby__buf slab;          /* from the helper */
    fby__buf vlen;          /* … with what its values of variable length hold */
    fby__h5_helper_memory helper;
    fby__buf tiles;    /* columns that box.c is to interleave */
    fby__buf narrow;   /* … and those of panels of several data sets */
    fby__buf together; /* bookkeeping of those */
    fby__buf raw;      /* strings, references */
} fby__h5_state;
fby_status fby__h5_state_of(fby__scratch *scratch, fby__h5_state **out, fby_error *err);
/** A buffer of n bytes at least; what was in it is lost. */
fby_status fby__h5_need(fby__buf *buf, size_t n, fby_error *err);

/* ---- reading a set (values.c) ---- */

typedef struct fby__h5_target {
    fby__h5_value value;
    const char *path; /* of the column, for messages */
    uint8_t *data;    /* the value of row rows->row0 */
    size_t row_bytes; /* from row to row */
    size_t width;     /* values a row: the set's row_elements × the leaf's elements */
    uint8_t *valid;   /* NULL, or a flag a row, valid_step bytes apart */
    size_t valid_step;
    uint8_t *present; /* NULL, or a flag a value: rows of `width` */
} fby__h5_target;

/** What reading needs of a request. All borrowed. */
typedef struct fby__h5_job {
    const fby__h5_table *table;
    fby__file *file;
    const char *file_name;
    uint64_t first_row; /* of the group, in the table */
    bool verify;
    fby__scratch *scratch;
    fby__h5_state *state;
} fby__h5_job;

typedef struct fby__h5_rows {
    const fby__h5_job *job;
    const fby__h5_set *set;
    const fby__leaf_source *source;
    fby__h5_geometry g;
    uint64_t row0; /* the table row that the targets' data begins with */
    uint32_t n_targets;
    fby__h5_target *targets; /* borrowed */
    /* reading */
    uint64_t begin, end; /* rows of this call */
    size_t next_range;
    uint8_t *room;        /* for a decoded chunk; NULL: in job->state->chunks when it is needed */
    uint64_t held_number; /* the chunk in it */
    bool held;
} fby__h5_rows;

/** The targets may be filled in afterwards, before the first read. */
fby_status fby__h5_rows_open(fby__h5_rows *r, const fby__h5_job *job, const fby__leaf_source *source, fby_error *err);
/** Table rows [begin, end) of all targets. Errors come with context. */
fby_status fby__h5_rows_read(fby__h5_rows *r, uint64_t begin, uint64_t end, fby_error *err);
/** Bytes of memory for a decoded chunk while it is read; 0 where data is used as it lies. */
size_t fby__h5_rows_room(const fby__h5_rows *r);

/** Where value e of an element begins, counted from the leaf's offset. */
static inline size_t fby__h5_leaf_at(const fby__h5_leaf *leaf, size_t value_bytes, uint32_t e)
{
    uint32_t below = leaf->elements;
    size_t at = 0;
    for (uint32_t i = 0; i < leaf->n_strides; i++, e %= below) {
        below /= leaf->strides[i].n;
        at += (size_t)(e / below) * leaf->strides[i].stride;
    }
    return at + e * value_bytes;
}

static inline uint8_t *fby__h5_target_row(const fby__h5_rows *r, const fby__h5_target *t, uint64_t row)
{
    return t->data + (size_t)(row - r->row0) * t->row_bytes;
}

/* ---- one chunk (chunk.c) ---- */

/** Decoded bytes of some of a set: coordinates [first, first + n) along axis 0. NULL data: never written. */
typedef struct fby__h5_section {
    const uint8_t *data;
    uint64_t first, n;
} fby__h5_section;
/**
 * What is needed of the chunk at the walk, and of those behind it where none is stored. @direct  NULL, or where to decode the whole chunk; *out is
 * that then.
 */
fby_status fby__h5_chunk_get(fby__h5_rows *r, fby__h5_walk *w, uint8_t *direct, fby__h5_section *out, fby_error *err);
/** Are the stored bytes of the chunk its values, without filters? */
bool fby__h5_chunk_plain(const fby__h5_set *set, const fby__h5_geometry *g, const fby__h5_walk *w, uint32_t mask);

/* ---- boxes (box.c) ---- */

#define FBY__H5_MAX_AXES (FBY__H5_MAX_RANK + FBY__H5_MAX_STRIDES + 1)

/** Elements of some rows: n indices from `index` on, row_stride bytes apart, and of each a box of the row's elements. */
typedef struct fby__h5_box {
    const uint8_t *src; /* the corner */
    uint64_t index, n;
    size_t row_stride;
    uint64_t first; /* element of the row where the corner belongs */
    uint32_t n_axes;
    struct {
        uint64_t n, step; /* step: in elements of the row */
        size_t stride;    /* bytes in src */
    } axes[FBY__H5_MAX_AXES];
} fby__h5_box;
fby_status fby__h5_box_put(fby__h5_rows *r, fby__h5_target *t, const fby__h5_box *box, fby_error *err);
/**
 * Columns of values, side by side in a row from value `first` on; down each, rows are row_stride bytes apart. @n_cols  ≤ FBY__H5_COLUMNS.
 */
fby_status fby__h5_columns_put(fby__h5_rows *r, fby__h5_target *t, const uint8_t *const *cols, size_t n_cols, size_t row_stride,
                               uint64_t index, uint64_t n, uint64_t first, fby_error *err);
#define FBY__H5_COLUMNS 64
/** Rows [r->begin, r->end) of a set with repeat > 1: from the first row of each index to the others. */
void fby__h5_spread(const fby__h5_rows *r, const fby__h5_target *t);

/* ---- the helper (helper.c) ---- */

/** Rows [r->begin, r->end) of a HELPER set into the targets; what values of variable length hold goes to job->state->vlen. */
fby_status fby__h5_helper_rows(fby__h5_rows *r, fby_error *err);

/* ---- bytes and lists (bytes.c) ---- */

/** Does the leaf have bytes: strings, opaque values, references? */
bool fby__h5_leaf_is_bytes(const fby__h5_leaf *leaf);
/** As fby__h5_value_open, for bytes as they are stored. */
void fby__h5_value_open_raw(fby__h5_value *v, const fby__h5_table *table, const fby__h5_leaf *leaf);
/** What a value of variable length holds: n elements of `bytes` each, as stored. Valid until the next call. */
fby_status fby__h5_vlen_of(const fby__h5_rows *r, const uint8_t *raw, size_t bytes, fby__bytes *out, uint64_t *out_n, fby_error *err);
/** A string, opaque value or reference (not a list) the same way, without padding. */
fby_status fby__h5_text_of(const fby__h5_rows *r, const fby__h5_type *type, const uint8_t *raw, fby__bytes *out, fby_error *err);
/** Called for each value as stored, in row order: rows of the table, then the values of a row. */
typedef fby_status (*fby__h5_raw_fn)(void *user, const uint8_t *raw, uint64_t row, bool same, fby_error *err);
/** Values of rows [begin, end) as stored, in tiles of rows where chunks allow it. Uses the targets of r for itself. */
fby_status fby__h5_each_raw(fby__h5_rows *r, const fby__h5_leaf *leaf, uint64_t begin, uint64_t end, fby__h5_raw_fn fn, void *user,
                            fby_error *err);
/** Called for each string in row order: rows, then the values of a row. `same`: it is the string before again; text is not given. */
typedef fby_status (*fby__h5_string_fn)(void *user, fby__bytes text, bool same, fby_error *err);
/** Each string of rows [begin, end). */
fby_status fby__h5_each_bytes(fby__h5_rows *r, const fby__h5_leaf *leaf, uint64_t begin, uint64_t end, fby__h5_string_fn fn, void *user,
                              fby_error *err);

/** Add "file: data set" before the message. Returns status. */
fby_status fby__h5_rows_fail(const fby__h5_rows *r, fby_status status, fby_error *err);
/** FBY_E_DATA: what is wrong with the value of a row. */
fby_status fby__h5_value_fail(const fby__h5_rows *r, const fby__h5_target *t, uint64_t row, const fby__h5_bad *bad, fby_error *err);

/* ---- Arrow arrays (arrow.c) ---- */

/** n numbers, bits (given as bytes) or fixed bytes; @flags  NULL, or 0 where a value is missing. Takes *values over when it succeeds. */
fby_status fby__h5_arrow_flat(uint64_t n, bool bits, uint8_t **values, const uint8_t *flags, struct ArrowArray *out, fby_error *err);
/** n strings: n + 1 int64 offsets and their bytes, neither NULL, both taken over when it succeeds. */
fby_status fby__h5_arrow_bytes(uint64_t n, uint8_t **offsets, uint8_t **content, struct ArrowArray *out, fby_error *err);

/* ---- lists of anything but numbers (nested.c) ---- */

/**
 * Lists of strings, compounds or lists, value by value: what lies below a NESTED leaf's outermost list, read by its HDF5 type and written
 * by the schema's fields.
 */
typedef struct fby__h5_nest fby__h5_nest;
/** Is the NESTED leaf the first one below its list? */
bool fby__h5_nest_begins(const fby__h5_table *table, uint32_t leaf);
/** @first_leaf  the first leaf below the list. fby__h5_nest_free. */
fby_status fby__h5_nest_create(const fby__h5_rows *r, uint32_t first_leaf, fby__h5_nest **out, fby_error *err);
void fby__h5_nest_free(fby__h5_nest *nest); /* NULL is fine */
/** Appends one value as stored, a list. */
fby_status fby__h5_nest_put(fby__h5_nest *nest, const uint8_t *raw, fby_error *err);
/** All that was appended, as an Arrow list; its buffers move to *out. */
fby_status fby__h5_nest_finish(fby__h5_nest *nest, struct ArrowArray *out, fby_error *err);

/** One number of each element of a list of compounds. */
typedef struct fby__h5_pick {
    fby__h5_leaf leaf; /* the number's */
    size_t bytes;      /* of an element */
} fby__h5_pick;
/** FBY_E_UNSUPPORTED where the leaf has not exactly one number an element. */
fby_status fby__h5_pick_open(const fby__h5_table *table, uint32_t leaf, fby__h5_pick *out, fby_error *err);

/* ---- panels of variable size (panel_variable.c) ---- */

fby_status fby__h5_decode_ragged(const fby__decode *q, const fby__h5_job *job, fby_error *err);
fby_status fby__h5_decode_bytes(const fby__decode *q, const fby__h5_job *job, fby_error *err);

#endif
