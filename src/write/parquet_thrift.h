/*
 * Writing the Thrift compact protocol, as far as Parquet's metadata needs it: the other side of format/parquet/thrift.h.
 *
 * Fields of a struct are put in ascending order of their numbers. Running out of memory is sticky: callers look at `failed` once.
 */
#ifndef FBY_WRITE_PARQUET_THRIFT_H
#define FBY_WRITE_PARQUET_THRIFT_H

#include "format/parquet/thrift.h"

/** Zero-initialise, then fby__thrift_open the outermost struct; release with fby__buf_fini(&t->bytes). */
typedef struct fby__thrift_out {
    fby__buf bytes;
    bool failed;                         /* out of memory: the bytes are worth nothing */
    int16_t last[FBY__THRIFT_MAX_DEPTH]; /* the field before, by depth */
    unsigned depth;
} fby__thrift_out;

void fby__thrift_put(fby__thrift_out *t, const void *p, size_t n);

/* ---- fields ---- */

void fby__thrift_put_field(fby__thrift_out *t, int16_t id, uint8_t type);
void fby__thrift_put_bool(fby__thrift_out *t, int16_t id, bool v);
void fby__thrift_put_i8(fby__thrift_out *t, int16_t id, int8_t v);
void fby__thrift_put_i32(fby__thrift_out *t, int16_t id, int32_t v);
void fby__thrift_put_i64(fby__thrift_out *t, int16_t id, int64_t v);
void fby__thrift_put_binary(fby__thrift_out *t, int16_t id, const void *p, size_t n);
/** n elements follow, each by fby__thrift_open … close, or one of the functions below. */
void fby__thrift_put_list(fby__thrift_out *t, int16_t id, uint8_t element, size_t n);
/** A struct as a field: fby__thrift_close ends it. */
void fby__thrift_put_struct(fby__thrift_out *t, int16_t id);

/* ---- the outermost struct, and elements of lists ---- */

void fby__thrift_open(fby__thrift_out *t);
void fby__thrift_close(fby__thrift_out *t);
void fby__thrift_put_integer(fby__thrift_out *t, int64_t v); /* of any width */
void fby__thrift_put_bytes(fby__thrift_out *t, const void *p, size_t n);

#endif
