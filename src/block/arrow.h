/*
 * Building and reading the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html), without an Arrow library.
 */
#ifndef FBY_BLOCK_ARROW_H
#define FBY_BLOCK_ARROW_H

#include "block/schema.h"

#include <forebay/arrow.h>

/** Export one field with all below it as an ArrowSchema, owned by the consumer (out->release). `name` NULL = field->name. */
fby_status fby__arrow_schema_export(const fby_field *field, const char *name, struct ArrowSchema *out, fby_error *err);

/** A copy of what formats, names, flags and children say: neither dictionaries nor metadata. */
fby_status fby__arrow_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *out, fby_error *err);

/**
 * A map as Arrow knows it: a struct of exactly a key and a value. Parquet also has maps without values: those are exported, and
 * decoded, as lists of structs.
 */
static inline bool fby__arrow_map_is_map(const fby_field *field)
{
    return field->kind == FBY_KIND_MAP && field->n_children == 1 && field->children[0].kind == FBY_KIND_STRUCT &&
           field->children[0].n_children == 2;
}

/**
 * Import an ArrowSchema (borrowed) of a record batch (a struct) as a schema with leaves in depth-first order.
 * FBY_E_UNSUPPORTED names the column and its format string when that has no counterpart: unions, run-end encoding, intervals.
 */
fby_status fby__arrow_schema_import(const struct ArrowSchema *in, fby__schema **out, fby_error *err);

/** A column's type as messages name it: "list<int32>". */
void fby__arrow_type_text(const struct ArrowSchema *column, char *out, size_t n);

/**
 * An empty ArrowArray with room for n_buffers buffers and n_children children (zeroed, unreleased), whose release frees every
 * buffer with fby__free and releases the children. Attach buffers with fby__arrow_array_set_buffer.
 */
fby_status fby__arrow_array_create(int64_t n_buffers, int64_t n_children, struct ArrowArray *out, fby_error *err);
/** Give a malloc'd buffer (owned by the array from now on; NULL is fine) to slot i. */
void fby__arrow_array_set_buffer(struct ArrowArray *array, int64_t i, void *buffer);

#endif
