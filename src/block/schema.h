/*
 * The schema inside the library: the public field tree plus what readers need to know of each node and leaf.
 *
 * Fields lie breadth first in one array, so that the children of a node are contiguous, and nodes[i] belongs to fields[i].
 * Immutable once built, shared by reference count: the thousands of files of one writer have one schema.
 */
#ifndef FBY_BLOCK_SCHEMA_H
#define FBY_BLOCK_SCHEMA_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"

#include <forebay/schema.h>

#define FBY__NO_LEAF UINT32_MAX
#define FBY__MAX_LEVEL 100 /* nesting deeper than this is refused by name */

/** Per field: where it stands. */
typedef struct fby__schema_node {
    uint32_t parent;     /* index of the parent field; the root is its own parent */
    uint32_t first_leaf; /* leaves [first_leaf, first_leaf + n_leaves) lie below (a leaf: itself) */
    uint32_t n_leaves;
    /*
     * Dremel levels (Parquet): a value of this field is present when its definition level ≥ def_level; of the nearest
     * repeated ancestor, a new element starts when the repetition level ≤ rep_level. 0 for other formats.
     */
    uint16_t def_level;      /* level at which this field itself is non-null */
    uint16_t rep_level;      /* number of repeated fields from the root to here, this one included: a list or map counts itself,
                             so that its child has the same rep_level unless it is a list too */
    uint16_t list_def_level; /* lists and maps: level at which the list has at least one element */
} fby__schema_node;

/** Per leaf, in file order: what a decoder needs. Codes of `physical` belong to the format. */
typedef struct fby__leaf {
    uint32_t field; /* index in fields */
    uint16_t max_def, max_rep;
    int32_t physical;    /* Parquet: the Type enum (0 BOOLEAN … 7 FIXED_LEN_BYTE_ARRAY) */
    int32_t type_length; /* FIXED_LEN_BYTE_ARRAY */
} fby__leaf;

typedef struct fby__schema {
    uint32_t n_fields, n_leaves;
    fby_field *fields; /* fields[0] is the root */
    fby__schema_node *nodes;
    fby__leaf *leaves;
    fby__hash128 hash; /* of the serialised form: equal schemas have equal hashes */
    _Atomic uint32_t refs;
    char *text;       /* owned: names and paths point into it */
    uint32_t *lookup; /* owned: open-addressing table of field indices + 1 by path, lookup_mask + 1 slots */
    uint32_t lookup_mask;
} fby__schema;

/** One node while a schema is being built, in depth-first pre-order (as Parquet lists them). */
typedef struct fby__schema_element {
    const char *name; /* borrowed for the call */
    uint32_t name_n;
    bool hidden_in_path; /* "list"/"element"/"key_value" levels of the file format: not in the dotted path */
    uint32_t n_children;
    fby_field field; /* kind, dtype, unit, nullable, utc, precision, scale, byte_width, list_size; names filled here;
                             units: borrowed for the call, NULL or fewer than 65,535 bytes of UTF-8 */
    uint16_t def_level, rep_level, list_def_level;
    uint16_t max_def, max_rep; /* leaves */
    int32_t physical, type_length;
} fby__schema_element;

/** UTF-8 (RFC 3629) without NUL: what names and units have to be. */
bool fby__schema_text_valid(const char *s, size_t n);

/**
 * Build a schema from n elements in pre-order; elements[0] is the root. Checks the tree's shape (children counts add up,
 * depth ≤ FBY__MAX_LEVEL, names and units valid UTF-8 without NUL: FBY_E_FORMAT). Two leaves with the same path are both kept; looking
 * the path up finds the first.
 */
fby_status fby__schema_create(const fby__schema_element *elements, size_t n, fby__schema **out, fby_error *err);
fby__schema *fby__schema_ref(fby__schema *schema);
void fby__schema_unref(fby__schema *schema);

/** Serialise for the index cache / read back (FBY_E_FORMAT when the bytes are not a schema). */
fby_status fby__schema_freeze(const fby__schema *schema, fby__buf *out, fby_error *err);
fby_status fby__schema_thaw(fby__bytes bytes, fby__schema **out, fby_error *err);

/** The field of a dotted path ("" = root), UINT32_MAX when there is none. A hash lookup: files have thousands of leaves. */
uint32_t fby__schema_find(const fby__schema *schema, const char *path);

/** The leaf of a leaf path, or of a list of a primitive ("hits" names hits.list.element's leaf); FBY__NO_LEAF otherwise. */
uint32_t fby__schema_find_leaf(const fby__schema *schema, const char *path);

/** The size of an axis of a field's value, counted from its end: −1 is the last. −1 when there is no such axis, as for lists and scalars. */
int64_t fby__field_axis(const fby_field *field, int32_t axis);

/** Are values of the kind numbers of the field's own dtype: bools, numbers, dates and times? */
bool fby__kind_is_number(fby_kind kind);

/**
 * The dtype that a leaf's values are decoded to where no other is asked for: UINT8 the bytes of text and binaries, FLOAT64 decimals, FLOAT32 what is
 * null alone. FBY_DTYPE_NONE: no panel holds them.
 */
fby_dtype fby__leaf_dtype(const fby_field *leaf);

#endif
