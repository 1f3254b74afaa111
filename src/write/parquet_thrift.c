/* The Thrift compact protocol, written: see parquet_thrift.h. */
#include "write/parquet_thrift.h"

#include <assert.h>

void fby__thrift_put(fby__thrift_out *t, const void *p, size_t n)
{
    if (fby__buf_put(&t->bytes, p, n) != 0)
        t->failed = true;
}

static void put_byte(fby__thrift_out *t, unsigned v) { fby__thrift_put(t, &(uint8_t){(uint8_t)v}, 1); }

static void put_varint(fby__thrift_out *t, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    fby__thrift_put(t, bytes, n);
}

void fby__thrift_put_integer(fby__thrift_out *t, int64_t v) { put_varint(t, (uint64_t)v << 1 ^ (uint64_t)(v >> 63)); }

void fby__thrift_put_bytes(fby__thrift_out *t, const void *p, size_t n)
{
    put_varint(t, n);
    fby__thrift_put(t, p, n);
}

void fby__thrift_put_field(fby__thrift_out *t, int16_t id, uint8_t type)
{
    const int step = id - t->last[t->depth];
    assert(step > 0);
    if (step < 16) {
        put_byte(t, (unsigned)step << 4 | type);
    } else {
        put_byte(t, type);
        fby__thrift_put_integer(t, id);
    }
    t->last[t->depth] = id;
}

void fby__thrift_put_bool(fby__thrift_out *t, int16_t id, bool v)
{
    fby__thrift_put_field(t, id, v ? FBY__THRIFT_TRUE : FBY__THRIFT_FALSE);
}

void fby__thrift_put_i8(fby__thrift_out *t, int16_t id, int8_t v)
{
    fby__thrift_put_field(t, id, FBY__THRIFT_I8);
    put_byte(t, (uint8_t)v);
}

void fby__thrift_put_i32(fby__thrift_out *t, int16_t id, int32_t v)
{
    fby__thrift_put_field(t, id, FBY__THRIFT_I32);
    fby__thrift_put_integer(t, v);
}

void fby__thrift_put_i64(fby__thrift_out *t, int16_t id, int64_t v)
{
    fby__thrift_put_field(t, id, FBY__THRIFT_I64);
    fby__thrift_put_integer(t, v);
}

void fby__thrift_put_binary(fby__thrift_out *t, int16_t id, const void *p, size_t n)
{
    fby__thrift_put_field(t, id, FBY__THRIFT_BINARY);
    fby__thrift_put_bytes(t, p, n);
}

void fby__thrift_put_list(fby__thrift_out *t, int16_t id, uint8_t element, size_t n)
{
    fby__thrift_put_field(t, id, FBY__THRIFT_LIST);
    put_byte(t, (n < 15 ? (unsigned)n << 4 : 0xf0) | element);
    if (n >= 15)
        put_varint(t, n);
}

void fby__thrift_open(fby__thrift_out *t)
{
    assert(t->depth + 1 < FBY__THRIFT_MAX_DEPTH);
    t->last[++t->depth] = 0;
}

void fby__thrift_close(fby__thrift_out *t)
{
    put_byte(t, 0);
    t->depth--;
}

void fby__thrift_put_struct(fby__thrift_out *t, int16_t id)
{
    fby__thrift_put_field(t, id, FBY__THRIFT_STRUCT);
    fby__thrift_open(t);
}
