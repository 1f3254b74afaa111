/*
 * Reading flatbuffers (https://flatbuffers.dev/internals/) that come from files: every position is checked when it is followed.
 *
 *     table    i32 back to its vtable, then fields
 *     vtable   u16 bytes of itself, u16 bytes of the table, u16 a field: where it lies in the table, 0 = not there
 *     vector   u32 elements, then the elements; strings are vectors of bytes
 *     offset   u32 forward, from where it is stored
 *
 * Offsets only point forward, so that nothing contains itself. What does not fit sets `damaged` and reads as absent: a parser reads all
 * that it wants, then looks once. It bounds how many tables it visits itself, since vectors may share their elements.
 */
#ifndef FBY_FORMAT_IPC_FLATBUFFER_H
#define FBY_FORMAT_IPC_FLATBUFFER_H

#include "base/bytes.h"

/** A buffer while it is read. */
typedef struct fby__flatbuffer {
    const uint8_t *data; /* borrowed */
    uint32_t n;
    bool damaged;
} fby__flatbuffer;

/** A table; at = 0: it is absent. */
typedef struct fby__flat_table {
    uint32_t at, vtable;
    uint32_t bytes, vtable_bytes;
} fby__flat_table;

typedef struct fby__flat_vector {
    uint32_t at; /* of the first element */
    uint32_t n;
    bool there;
} fby__flat_vector;

/** Buffers of 2 GiB and more are damaged. */
fby__flatbuffer fby__flatbuffer_of(fby__bytes bytes);

fby__flat_table fby__flat_root(fby__flatbuffer *b);
/** Field `slot` of a table: a little-endian integer of 1, 2, 4 or 8 bytes, sign extended. */
int64_t fby__flat_int(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot, uint32_t bytes, int64_t absent);
fby__flat_table fby__flat_table_in(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot);
/** Elements of so many bytes each, all of them inside the buffer. */
fby__flat_vector fby__flat_vector_in(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot, uint32_t element_bytes);
/** Element i < v->n of a vector of tables. */
fby__flat_table fby__flat_element(fby__flatbuffer *b, const fby__flat_vector *v, uint32_t i);
/** A string, without its NUL; data = NULL: it is absent. */
fby__bytes fby__flat_string(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot);

#endif
