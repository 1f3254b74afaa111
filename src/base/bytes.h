/* Unaligned little- and big-endian loads and stores; a borrowed run of bytes; a growing buffer. */
#ifndef FBY_BASE_BYTES_H
#define FBY_BASE_BYTES_H

#include "base/alloc.h"
#include "base/checked.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Forebay is little-endian only: Parquet and Arrow data are used in place."
#endif

/** A borrowed run of bytes. */
typedef struct fby__bytes {
    const uint8_t *data;
    size_t n;
} fby__bytes;

/* What is read one value after the other: each moves `from` on, or is NULL, and `from` as it was, where there is less. */

/** The next n bytes. */
static inline const uint8_t *fby__bytes_next(fby__bytes *from, uint64_t n)
{
    const uint8_t *at = from->data;
    if (n > from->n)
        return NULL;
    *from = (fby__bytes){at + n, from->n - (size_t)n};
    return at;
}

/** The next n bytes, and what pads them to a multiple of 8. */
static inline const uint8_t *fby__bytes_next_padded(fby__bytes *from, uint64_t n)
{
    return n > from->n ? NULL : fby__bytes_next(from, fby__align_up_u64(n, 8));
}

/** The next text, with its NUL. */
static inline const char *fby__bytes_next_text(fby__bytes *from)
{
    const uint8_t *nul = from->n ? (const uint8_t *)memchr(from->data, 0, from->n) : NULL;
    return nul ? (const char *)fby__bytes_next(from, (uint64_t)(nul - from->data) + 1) : NULL;
}

static inline uint16_t fby__load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t fby__load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t fby__load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t fby__load_be32(const void *p) { return __builtin_bswap32(fby__load_u32(p)); }
static inline uint64_t fby__load_be64(const void *p) { return __builtin_bswap64(fby__load_u64(p)); }
static inline void fby__store_u32(void *p, uint32_t v) { memcpy(p, &v, sizeof v); }
static inline void fby__store_u64(void *p, uint64_t v) { memcpy(p, &v, sizeof v); }

/** A growing byte buffer; zero-initialise, release with fby__buf_fini. data is owned. */
typedef struct fby__buf {
    uint8_t *data;
    size_t n, cap;
} fby__buf;

/** Append n bytes; 0, or -1 when out of memory (the buffer is unchanged). */
static inline int fby__buf_put(fby__buf *b, const void *p, size_t n)
{
    if (n > SIZE_MAX - b->n || fby__grow((void **)&b->data, &b->cap, b->n + n, 1) != 0)
        return -1;
    if (n)
        memcpy(b->data + b->n, p, n);
    b->n += n;
    return 0;
}

static inline void fby__buf_fini(fby__buf *b)
{
    fby__free(b->data);
    *b = (fby__buf){0};
}

#endif
