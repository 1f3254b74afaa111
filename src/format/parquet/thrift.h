/*
 * Reading the Thrift compact protocol, as far as Parquet's metadata needs it: structs, integers, bools, binaries,
 * lists. Everything else is skipped. No allocation: binaries are borrowed from the input.
 *
 * Faults are sticky: the first one sets `fault` and moves to the end, so every loop ends and callers check once.
 *   https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */
#ifndef FBY_FORMAT_PARQUET_THRIFT_H
#define FBY_FORMAT_PARQUET_THRIFT_H

#include "base/bytes.h"

#include <stdbool.h>

enum {
    FBY__THRIFT_TRUE = 1,
    FBY__THRIFT_FALSE,
    FBY__THRIFT_I8,
    FBY__THRIFT_I16,
    FBY__THRIFT_I32,
    FBY__THRIFT_I64,
    FBY__THRIFT_DOUBLE,
    FBY__THRIFT_BINARY,
    FBY__THRIFT_LIST,
    FBY__THRIFT_SET,
    FBY__THRIFT_MAP,
    FBY__THRIFT_STRUCT,
    FBY__THRIFT_UUID
};

/* Parquet's own structs nest 6 deep (page header → v2 → statistics); unknown ones are skipped down to here. */
#define FBY__THRIFT_MAX_DEPTH 32

typedef struct fby__thrift {
    const uint8_t *begin, *p, *end;
    const char *fault; /* static text; NULL = fine so far */
    const uint8_t *fault_at;
    bool cut; /* the fault is that the bytes ended: more of them might be fine */
} fby__thrift;

/** A struct's current field. Zero-initialise before the first fby__thrift_next of a struct. */
typedef struct fby__thrift_field {
    int16_t id;
    uint8_t type;
} fby__thrift_field;

static inline fby__thrift fby__thrift_over(fby__bytes bytes)
{
    return (fby__thrift){.begin = bytes.data, .p = bytes.data, .end = bytes.data + bytes.n};
}

void fby__thrift_fail(fby__thrift *t, const char *fault);

/** The next field of a struct; false at its end or at a fault. Every field must be read or skipped. */
bool fby__thrift_next(fby__thrift *t, fby__thrift_field *field);
void fby__thrift_skip(fby__thrift *t, uint8_t type);

/** Values of a field of the type given; another type, or a number that does not fit, is a fault (and yields 0 or
 * nothing). */
int64_t fby__thrift_i64(fby__thrift *t, uint8_t type);
int32_t fby__thrift_i32(fby__thrift *t, uint8_t type);
bool fby__thrift_bool(fby__thrift *t, uint8_t type);
fby__bytes fby__thrift_binary(fby__thrift *t, uint8_t type);
/** True when type is a struct: its fields follow. */
bool fby__thrift_struct(fby__thrift *t, uint8_t type);
/** The number of elements of a list of `element` type: at most one per remaining byte. */
uint32_t fby__thrift_list(fby__thrift *t, uint8_t type, uint8_t element);

#endif
