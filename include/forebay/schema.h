/*
 * The schema of a data set: a tree of named fields, and its leaves, the columns that hold values.
 *
 * Where a function says nothing else: Blocks: no. Text that it returns is static.
 */
#ifndef FOREBAY_SCHEMA_H
#define FOREBAY_SCHEMA_H

#include <forebay/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a field means. The tensor dtype of a numeric or time kind is fby_field.dtype. */
typedef enum fby_kind {
    FBY_KIND_NULL, /* every value is missing; joins with any type */
    FBY_KIND_BOOL,
    FBY_KIND_INT,       /* dtype says the width and sign */
    FBY_KIND_FLOAT,     /* float16, float32, float64 */
    FBY_KIND_DECIMAL,   /* precision, scale; value = unscaled * 10^-scale; as a tensor float64 */
    FBY_KIND_DATE,      /* days since 1970-01-01; int32 */
    FBY_KIND_TIME,      /* since midnight, in unit; int64 (int32 for milliseconds) */
    FBY_KIND_TIMESTAMP, /* since 1970-01-01T00:00, in unit; int64; utc says whether the instant is in UTC or local */
    FBY_KIND_DURATION,  /* in unit; int64 */
    FBY_KIND_INTERVAL,  /* Parquet's 12-byte months, days, milliseconds; Arrow only */
    FBY_KIND_STRING,    /* UTF-8 */
    FBY_KIND_BINARY,
    FBY_KIND_FIXED_BINARY, /* byte_width bytes */
    FBY_KIND_LIST,         /* one child: the element */
    FBY_KIND_FIXED_LIST,   /* one child; list_size elements a row (in-memory Arrow data, N-d arrays) */
    FBY_KIND_STRUCT,
    FBY_KIND_MAP, /* one child: a struct of key and value */
    FBY_KIND_COUNT
} fby_kind;

typedef enum fby_unit { FBY_UNIT_NONE, FBY_UNIT_S, FBY_UNIT_MS, FBY_UNIT_US, FBY_UNIT_NS } fby_unit;

/**
 * One node of the schema. Borrowed from the data set, read-only, valid until the data set is closed.
 * The root is a struct with name "".
 * Frozen: no field is ever added.
 */
typedef struct fby_field {
    const char *name; /* own name: "time" */
    const char *path; /* dotted path from the root: "pulses.time"; list and map levels of the file format add nothing to it */
    fby_kind kind;
    fby_dtype dtype; /* the tensor dtype of a bool, numeric or time value, else FBY_DTYPE_NONE */
    fby_unit unit;   /* time kinds */
    bool nullable;
    bool utc;                 /* FBY_KIND_TIMESTAMP, FBY_KIND_TIME: adjusted to UTC */
    int32_t precision, scale; /* FBY_KIND_DECIMAL */
    int32_t byte_width;       /* FBY_KIND_FIXED_BINARY, and decimals stored as fixed bytes; else 0 */
    int32_t list_size;        /* FBY_KIND_FIXED_LIST, else 0 */
    const char *units;        /* what the file says a value is measured in ("days since 1970-01-01"), as it says it; NULL = nothing */
    uint32_t n_children;
    const struct fby_field *children; /* n_children fields, contiguous */
} fby_field;

/** Name of a kind ("timestamp"); static. Threads: any. Since: 0.1 */
FBY_API const char *fby_kind_name(fby_kind kind);

/** "s", "ms", "us", "ns" or "". Static. Threads: any. Since: 0.1 */
FBY_API const char *fby_unit_name(fby_unit unit);

/**
 * Write a field's type as users read it: "float32", "timestamp[us, UTC]", "list<int16>", "decimal(9, 2)".
 *
 * Writes at most n bytes with the terminating NUL; returns the length the whole text has, as snprintf does.
 * Threads: any. Since: 0.1
 */
FBY_API size_t fby_field_type_text(const fby_field *field, char *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
