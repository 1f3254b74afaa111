/*
 * Inside the in-memory format: one leaf of one batch, found through structs and fixed-size lists, and its elements in
 * tiles.
 *
 * Every array on the way has an offset of its own (slices), and may hold nulls that hide what is below. A column
 * therefore remembers one validity mask a level; element e of it, counted from the row it was opened at, lies at `first
 * + e`.
 */
#ifndef FBY_FORMAT_ARROW_MEMORY_COLUMN_H
#define FBY_FORMAT_ARROW_MEMORY_COLUMN_H

#include "format/arrow/memory.h"

#include "block/arrow_format.h"
#include "block/convert.h"

/** Elements converted at once: indices, values and flags of a tile stay in the L1 and L2 caches. */
#define FBY__ARROW_TILE 1024

typedef struct fby__arrow_memory {
    fby__table base;
    struct ArrowSchema schema;  /* owned */
    struct ArrowArray *batches; /* owned, n_groups; batch i is group i */
    fby__leaf_bounds *bounds;   /* owned, [group * n_leaves + leaf] */
} fby__arrow_memory;

static inline const fby__arrow_memory *fby__arrow_memory_of(const fby__table *table) { return (const fby__arrow_memory *)table; }

/** The way from the root to a leaf: which child at each level. */
typedef struct fby__arrow_path {
    uint32_t n;
    uint32_t child[FBY__MAX_LEVEL + 1];
} fby__arrow_path;
void fby__arrow_path_of(const fby__schema *schema, uint32_t leaf, fby__arrow_path *out);

typedef struct fby__arrow_mask {
    const uint8_t *bits;
    uint64_t first;   /* bit of element 0 */
    uint64_t per_row; /* bits a row: a bit covers column.per_row / per_row elements */
} fby__arrow_mask;

typedef struct fby__arrow_column {
    const struct ArrowSchema *schema; /* of the node where the walk ended: a leaf, or a list */
    const struct ArrowArray *array;
    fby__arrow_format format; /* of the values (the dictionary's, where there is one) */
    uint32_t depth;           /* levels of the path walked so far */
    uint64_t first;           /* where element 0 lies in the array's buffers: offsets are included */
    uint64_t per_row;         /* elements a row: product of the fixed-size lists on the way */
    uint32_t n_masks;
    fby__arrow_mask masks[FBY__MAX_LEVEL + 2];
} fby__arrow_column;

/**
 * Walk from (schema, array) along path->child[depth…] to the leaf, or to the first list or map (a fixed-size list too
 * when stop_at_fixed). `begin` is the row, or element, to open at, before the array's own offset.
 */
fby_status fby__arrow_column_open(const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t begin,
                                  const fby__arrow_path *path, uint32_t depth, bool stop_at_fixed, fby__arrow_column *out, fby_error *err);

/** Which of n elements from e are there: flags of 0/1. Returns true when all are; the flags are then all 1. */
bool fby__arrow_column_flags(const fby__arrow_column *column, uint64_t e, size_t n, uint8_t *flags);

/** Memory for one tile. Contents do not survive a call. */
typedef struct fby__arrow_work {
    uint8_t flags[FBY__ARROW_TILE];
    int64_t indices[FBY__ARROW_TILE];
    _Alignas(64) uint8_t values[FBY__ARROW_TILE * 32];
} fby__arrow_work;

/** Elements of a column as numbers that fby__convert takes. */
typedef struct fby__arrow_values {
    const void *data;
    fby_dtype dtype;
    fby__scale scale;
    bool all_there;
} fby__arrow_values;

/**
 * n ≤ FBY__ARROW_TILE elements from e, missing ones as zero; work->flags says which are there.
 * FBY_E_ARG for a dictionary index outside its dictionary.
 */
fby_status fby__arrow_column_fetch(const fby__arrow_column *column, uint64_t e, size_t n, fby__arrow_work *work, fby__arrow_values *out,
                                   fby_error *err);

/** The dictionary index of element e; FBY_E_ARG when it lies outside. The element is known to be there. */
fby_status fby__arrow_column_index(const fby__arrow_column *column, uint64_t e, uint64_t *out, fby_error *err);

/** Is bit i set? NULL bits are all set. */
static inline bool fby__arrow_bit(const uint8_t *bits, uint64_t i) { return !bits || (bits[i >> 3] >> (i & 7) & 1); }

/** The validity bits of an array; NULL when nothing is missing. Offset not applied. */
const uint8_t *fby__arrow_validity(const struct ArrowArray *array);

/** Offset i of a list or string array, 32 or 64 bits wide. */
static inline uint64_t fby__arrow_offset(const struct ArrowArray *array, bool wide, uint64_t i)
{
    const uint8_t *offsets = array->buffers[1];
    if (!offsets)
        return 0; /* an empty array */
    return wide ? fby__load_u64(offsets + 8 * i) : fby__load_u32(offsets + 4 * i);
}

/** The bytes of value i (offset included) of an array of strings, binaries or fixed binaries. */
fby__bytes fby__arrow_bytes_at(const fby__arrow_format *format, const struct ArrowArray *array, uint64_t i);

/** A batch to decode: a struct array of the schema's columns, of which those that are not asked for may be NULL. Borrowed. */
typedef struct fby__arrow_batch {
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
    uint64_t first_row; /* of the group: where the array begins */
} fby__arrow_batch;

/** As fby__format_ops.decode_panel, of a batch that need not be in a table in memory. */
fby_status fby__arrow_panel(const fby__decode *request, const fby__arrow_batch *batch, fby__scratch *scratch, fby_error *err);
/**
 * An array, whole, in the form that fby__arrow_schema_export promises. Its buffers are lent where they have that form: what is exported holds
 * references to `owner`, which keeps them.
 */
fby_status fby__arrow_export(const fby__table *owner, const fby_field *field, const struct ArrowSchema *schema, const struct ArrowArray *in,
                             struct ArrowArray *out, fby_error *err);

/** memory_panel.c and memory_export.c */
fby_status fby__arrow_decode_panel(const fby__decode *request, fby__scratch *scratch, fby_error *err);
fby_status fby__arrow_decode_arrow(const fby__arrow_request *request, fby__scratch *scratch, struct ArrowArray *out, fby_error *err);

#endif
