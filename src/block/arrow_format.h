/*
 * Format strings of the Arrow C data interface, parsed: what a column means and how its buffers are laid out.
 * Shared by the schema import and by the table over record batches in memory (format/arrow).
 */
#ifndef FBY_BLOCK_ARROW_FORMAT_H
#define FBY_BLOCK_ARROW_FORMAT_H

#include "block/schema.h"

#include <forebay/arrow.h>

/** How the values lie in the buffers. A map is LIST32 over a struct; a dictionary-encoded column has FIXED indices. */
typedef enum fby__arrow_storage {
    FBY__ARROW_NULL,       /* no buffers: every value is missing */
    FBY__ARROW_BITS,       /* validity, one bit a value */
    FBY__ARROW_FIXED,      /* validity, width bytes a value */
    FBY__ARROW_VAR32,      /* validity, int32 offsets, bytes */
    FBY__ARROW_VAR64,      /* validity, int64 offsets, bytes */
    FBY__ARROW_VIEW,       /* validity, 16-byte views, any number of byte buffers, their sizes */
    FBY__ARROW_LIST32,     /* validity, int32 offsets; one child */
    FBY__ARROW_LIST64,     /* validity, int64 offsets; one child */
    FBY__ARROW_FIXED_LIST, /* validity; one child */
    FBY__ARROW_STRUCT      /* validity; any number of children */
} fby__arrow_storage;

typedef struct fby__arrow_format {
    fby__arrow_storage storage;
    uint32_t width;   /* FIXED: bytes a value, else 0 */
    fby_dtype stored; /* dtype of the values as they lie in the buffer; NONE when they are no numbers (decimals, bytes) */
    int64_t unit_div; /* stored value / unit_div = value of the field: 86,400,000 for date64, else 1 */
    fby_field field;  /* kind, dtype, unit, utc, precision, scale, byte_width, list_size; no names */
} fby__arrow_format;

/** FBY_E_UNSUPPORTED, with the format string and the reason; the caller adds the column. */
fby_status fby__arrow_format_parse(const char *format, fby__arrow_format *out, fby_error *err);

/** Buffers that every array has. Views have more: those of bytes, of which each array says how many, and in memory their sizes. */
uint32_t fby__arrow_fixed_buffers(fby__arrow_storage storage);

/** The value type of a column: of its dictionary where it has one. */
static inline const struct ArrowSchema *fby__arrow_value_schema(const struct ArrowSchema *schema)
{
    return schema->dictionary ? schema->dictionary : schema;
}

#endif
