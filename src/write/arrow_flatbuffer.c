/* Writing flatbuffers: see arrow_flatbuffer.h. */
#include "write/arrow_flatbuffer.h"

#include <assert.h>

/* n bytes of 0 at a multiple of `align`, `lead` bytes behind where they begin; where that is. */
static uint32_t reserve(fby__fb *b, uint32_t lead, uint32_t n, uint32_t align)
{
    static const uint8_t zeros[64] = {0};
    const size_t at = ((b->buf.n + lead + align - 1) & ~(size_t)(align - 1)) - lead;
    for (size_t end = at + n; !b->failed && b->buf.n < end;) {
        const size_t left = end - b->buf.n;
        b->failed = end > INT32_MAX || fby__buf_put(&b->buf, zeros, left < sizeof zeros ? left : sizeof zeros) != 0;
    }
    return (uint32_t)at;
}

static void store(fby__fb *b, uint32_t at, const void *value, size_t n)
{
    if (!b->failed)
        memcpy(b->buf.data + at, value, n); /* little-endian, as all of this library */
}

void fby__fb_store32(fby__fb *b, uint32_t at, int32_t value) { store(b, at, &value, sizeof value); }
void fby__fb_store64(fby__fb *b, uint32_t at, int64_t value) { store(b, at, &value, sizeof value); }

static void link_to(fby__fb *b, uint32_t link, uint32_t target) { fby__fb_store32(b, link, (int32_t)(target - link)); }

uint32_t fby__fb_begin(fby__fb *b)
{
    b->buf.n = 0;
    b->failed = false;
    return reserve(b, 0, 4, 4);
}

void fby__fb_table(fby__fb *b, uint32_t link, const fby__fb_field *fields, uint32_t n, uint32_t *slots)
{
    assert(n <= FBY__FB_MAX_FIELDS);
    uint16_t vtable[2 + FBY__FB_MAX_FIELDS] = {0};
    const uint32_t vtable_bytes = (2 + n) * 2, vtable_at = reserve(b, 0, vtable_bytes, 2);
    const uint32_t at = reserve(b, 0, 4, 8); /* a multiple of 8, so that fields can be aligned by their offset in the table */
    uint32_t end = 4;
    for (uint32_t i = 0; i < n; i++) {
        if (fields[i].bytes == 0)
            continue;
        end = (end + fields[i].bytes - 1) & ~(fields[i].bytes - 1);
        vtable[2 + i] = (uint16_t)end;
        end += fields[i].bytes;
    }
    (void)reserve(b, 0, end - 4, 1);
    vtable[0] = (uint16_t)vtable_bytes;
    vtable[1] = (uint16_t)end;
    store(b, vtable_at, vtable, vtable_bytes);
    fby__fb_store32(b, at, (int32_t)(at - vtable_at));
    for (uint32_t i = 0; i < n; i++) {
        slots[i] = at + vtable[2 + i];
        store(b, slots[i], &fields[i].value, fields[i].bytes);
    }
    link_to(b, link, at);
}

uint32_t fby__fb_vector(fby__fb *b, uint32_t link, uint32_t n, uint32_t element_bytes, uint32_t align)
{
    const uint32_t at = reserve(b, 4, 4 + n * element_bytes, align);
    fby__fb_store32(b, at, (int32_t)n);
    link_to(b, link, at);
    return at + 4;
}

void fby__fb_string(fby__fb *b, uint32_t link, const char *text)
{
    const size_t n = strlen(text);
    const uint32_t at = reserve(b, 4, 4 + (uint32_t)n + 1, 4); /* with a NUL that does not count */
    fby__fb_store32(b, at, (int32_t)n);
    store(b, at + 4, text, n);
    link_to(b, link, at);
}
