/* Flatbuffers, read with every position checked: see flatbuffer.h. */
#include "format/ipc/flatbuffer.h"

fby__flatbuffer fby__flatbuffer_of(fby__bytes bytes)
{
    bool fits = bytes.n <= INT32_MAX;
    return (fby__flatbuffer){bytes.data, fits ? (uint32_t)bytes.n : 0, !fits};
}

static bool inside(const fby__flatbuffer *b, uint64_t at, uint64_t n) { return at <= b->n && n <= b->n - at; }

static fby__flat_table no_table(fby__flatbuffer *b)
{
    b->damaged = true;
    return (fby__flat_table){0};
}

static fby__flat_table table_at(fby__flatbuffer *b, uint64_t at)
{
    if (!inside(b, at, 4))
        return no_table(b);
    int64_t vtable = (int64_t)at - (int32_t)fby__load_u32(b->data + at);
    if (vtable < 0 || !inside(b, (uint64_t)vtable, 4))
        return no_table(b);
    fby__flat_table t = {.at = (uint32_t)at,
                         .vtable = (uint32_t)vtable,
                         .bytes = fby__load_u16(b->data + vtable + 2),
                         .vtable_bytes = fby__load_u16(b->data + vtable)};
    if (t.vtable_bytes < 4 || t.vtable_bytes % 2 || t.bytes < 4 || !inside(b, t.vtable, t.vtable_bytes) || !inside(b, t.at, t.bytes))
        return no_table(b);
    return t;
}

/* Where the offset stored at `at` points to; 0 = nowhere. */
static uint64_t follow(fby__flatbuffer *b, uint64_t at)
{
    uint32_t offset = inside(b, at, 4) ? fby__load_u32(b->data + at) : 0;
    if (offset == 0 || !inside(b, at + offset, 4)) {
        b->damaged = true;
        return 0;
    }
    return at + offset;
}

/* Where a field of n bytes lies; 0 = it is absent. */
static uint64_t field_at(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot, uint32_t n)
{
    if (t->at == 0 || 4 + 2 * (slot + 1) > t->vtable_bytes)
        return 0;
    uint32_t offset = fby__load_u16(b->data + t->vtable + 4 + 2 * slot);
    if (offset == 0)
        return 0;
    if (offset < 4 || offset > t->bytes || n > t->bytes - offset) {
        b->damaged = true;
        return 0;
    }
    return (uint64_t)t->at + offset;
}

fby__flat_table fby__flat_root(fby__flatbuffer *b)
{
    uint64_t at = follow(b, 0);
    return at ? table_at(b, at) : (fby__flat_table){0};
}

int64_t fby__flat_int(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot, uint32_t bytes, int64_t absent)
{
    uint64_t at = field_at(b, t, slot, bytes);
    if (!at)
        return absent;
    switch (bytes) {
    case 1: return (int8_t)b->data[at];
    case 2: return (int16_t)fby__load_u16(b->data + at);
    case 4: return (int32_t)fby__load_u32(b->data + at);
    default: return (int64_t)fby__load_u64(b->data + at);
    }
}

fby__flat_table fby__flat_table_in(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot)
{
    uint64_t at = field_at(b, t, slot, 4);
    at = at ? follow(b, at) : 0;
    return at ? table_at(b, at) : (fby__flat_table){0};
}

fby__flat_vector fby__flat_vector_in(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot, uint32_t element_bytes)
{
    uint64_t at = field_at(b, t, slot, 4);
    at = at ? follow(b, at) : 0;
    if (!at)
        return (fby__flat_vector){0};
    uint32_t n = fby__load_u32(b->data + at);
    if (!inside(b, at + 4, (uint64_t)n * element_bytes)) {
        b->damaged = true;
        return (fby__flat_vector){0};
    }
    return (fby__flat_vector){(uint32_t)at + 4, n, true};
}

fby__flat_table fby__flat_element(fby__flatbuffer *b, const fby__flat_vector *v, uint32_t i)
{
    uint64_t at = follow(b, (uint64_t)v->at + 4 * (uint64_t)i);
    return at ? table_at(b, at) : (fby__flat_table){0};
}

fby__bytes fby__flat_string(fby__flatbuffer *b, const fby__flat_table *t, uint32_t slot)
{
    fby__flat_vector v = fby__flat_vector_in(b, t, slot, 1);
    return v.there ? (fby__bytes){b->data + v.at, v.n} : (fby__bytes){0};
}
