/*
 * Panels: part of a decoded block, laid out for gathering samples.
 *
 *   DENSE    rows × width elements of one dtype, row-major: some columns side by side. A row is one memcpy.
 *   RAGGED   one list column: values of one dtype, and offsets (rows + 1) in elements.
 *   BYTES    one string or binary column: views into an arena that holds pages and dictionaries as they were stored,
 *            so that its size is bounded by the file's own figures and a repeated string is kept once.
 *
 * Nulls become `fill` of the column at decode; where `valid` is asked for, it says which values were there.
 * A panel's memory belongs to whoever made it (fby__panel_bytes says how much; fby__panel_place lays it out in a buffer).
 * Several threads may decode into one panel at once when their rows or columns differ.
 */
#ifndef FBY_BLOCK_PANEL_H
#define FBY_BLOCK_PANEL_H

#include "base/error.h"

/** What the message of a null says where MISSING_ERROR holds. */
#define FBY__NULL_ADVICE                                                                                                                   \
    "no integer stands for that: .fill_missing(0) (of a pipeline file: ops: [fill_missing: 0]) gives it a value, a float dtype NaN"

/** What to do with times that are stored as text, in every error about them. */
#define FBY__TEXT_TIMES "text is no time: make timestamps of it, as pandas.to_datetime does, and write them in its place"

typedef enum fby__panel_kind { FBY__PANEL_DENSE, FBY__PANEL_RAGGED, FBY__PANEL_BYTES } fby__panel_kind;

/** What to do with a null. */
typedef enum fby__missing {
    FBY__MISSING_ERROR, /* FBY_E_DATA naming column and row: integers and bools unless a fill value is given */
    FBY__MISSING_FILL   /* write fby__panel_column.fill */
} fby__missing;

/** A null's stand-in: 8 bytes that hold one element of the panel's dtype at their start. */
typedef union fby__scalar {
    uint8_t bytes[8];
    int64_t i64;
    uint64_t u64;
    float f32;
    double f64;
} fby__scalar;

typedef struct fby__panel_column {
    const char *path; /* borrowed: for messages */
    uint32_t offset;  /* first element of the column in a row */
    uint32_t width;   /* elements: 1 for scalars, d1*d2*… for fixed shapes and fixed binaries */
    fby__missing missing;
    fby__scalar fill;
} fby__panel_column;

/** The shape of a panel, shared by all blocks of a loader. */
typedef struct fby__panel_layout {
    fby__panel_kind kind;
    fby_dtype dtype;            /* of elements; FBY_UINT8 for BYTES */
    uint32_t n_columns;         /* 1 for RAGGED and BYTES */
    uint32_t width;             /* DENSE: elements a row */
    bool want_valid;            /* keep a validity byte per row and column (RAGGED, BYTES: per row) */
    bool marks_nan;             /* DENSE, floats: that byte also says where a NaN was stored */
    bool elements_valid;        /* RAGGED: also a validity byte per element */
    fby__panel_column *columns; /* owned by the loader */
} fby__panel_layout;

/** A validity byte: 0 for a null. */
typedef enum fby__valid {
    FBY__VALID_NULL,
    FBY__VALID_THERE,
    FBY__VALID_NAN /* there, and NaN (or an array with a NaN in it); set by fby__panel_mark_nan */
} fby__valid;

/** BYTES: where a row's bytes are. */
typedef struct fby__view {
    uint64_t offset; /* in the arena */
    uint64_t n;
} fby__view;

typedef struct fby__panel {
    const fby__panel_layout *layout; /* borrowed */
    uint64_t rows;
    uint64_t capacity;      /* RAGGED: elements `data` has room for; BYTES: bytes of the arena */
    size_t row_bytes;       /* DENSE: stride = width * dtype bytes */
    uint8_t *data;          /* DENSE: matrix; RAGGED: values; BYTES: arena */
    uint64_t *offsets;      /* RAGGED: rows + 1, else NULL */
    fby__view *views;       /* BYTES: rows, else NULL */
    uint8_t *valid;         /* rows × n_columns fby__valid, or NULL */
    uint8_t *element_valid; /* RAGGED with elements_valid: capacity bytes */
    uint64_t used;          /* RAGGED: elements; BYTES: arena bytes. Set by the decoder; above capacity: what it would take */
} fby__panel;

/** Bytes a panel of this shape takes, alignment included; capacity as in fby__panel. FBY_E_ARG on overflow. */
fby_status fby__panel_bytes(const fby__panel_layout *layout, uint64_t rows, uint64_t capacity, size_t *out_bytes, fby_error *err);

/** Lay a panel out in `memory` (64-byte aligned, fby__panel_bytes long, borrowed; contents need not be zeroed). */
void fby__panel_place(const fby__panel_layout *layout, uint64_t rows, uint64_t capacity, void *memory, fby__panel *out);

/** Note in `valid` which of rows [first, first + n) hold a NaN in columns [column, column + n_columns). Once, after they are decoded. */
void fby__panel_mark_nan(fby__panel *p, uint64_t first, uint64_t n, uint32_t column, uint32_t n_columns);

/**
 * Write value (a double, rounded as C does) as one element of dtype; false when it cannot be represented (NaN as an integer, out of range).
 */
bool fby__scalar_set(fby_dtype dtype, double value, fby__scalar *out);

#endif
