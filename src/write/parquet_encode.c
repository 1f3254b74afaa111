/* Encodings of integers and floats, written: format/parquet/encodings.h reads them. */
#include "write/parquet_impl.h"

unsigned fby__pqw_width(uint32_t max) { return max ? 32u - (unsigned)__builtin_clz(max) : 0; }

/*
 * The hybrid: a run of 8 or more equal values is stored as one, everything else packed in groups of 8.
 *
 *     rle      varint count << 1          value in ⌈width/8⌉ bytes
 *     packed   varint groups << 1 | 1     8 × width bits a group, least significant bit first
 *
 * Both sources of values share the walk: it is compiled for each.
 */
typedef struct hybrid {
    uint8_t *p; /* room for everything: hybrid_bound */
    unsigned width;
} hybrid;

static size_t hybrid_bound(size_t n, unsigned width) { return (n + 7) / 8 * (width + 1) + 16; /* at worst a header for each group of 8 */ }

static void put_varint(hybrid *h, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *h->p++ = (uint8_t)(v | 0x80);
    *h->p++ = (uint8_t)v;
}

static void put_run(hybrid *h, uint32_t value, size_t n)
{
    put_varint(h, (uint64_t)n << 1);
    for (unsigned bits = 0; bits < h->width; bits += 8)
        *h->p++ = (uint8_t)(value >> bits);
}

#define LEVEL_AT(values, i) (((const uint8_t *)(values))[i])
#define INDEX_AT(values, i) (((const uint32_t *)(values))[i])

#define DEFINE_PUT(NAME, AT)                                                                                                               \
    static size_t NAME##_equal(const void *values, size_t i, size_t n)                                                                     \
    {                                                                                                                                      \
        size_t end = i + 1;                                                                                                                \
        while (end < n && AT(values, end) == AT(values, i))                                                                                \
            end++;                                                                                                                         \
        return end - i;                                                                                                                    \
    }                                                                                                                                      \
    static void NAME##_pack(hybrid *h, const void *values, size_t i, size_t end)                                                           \
    {                                                                                                                                      \
        const size_t padded = i + (end - i + 7) / 8 * 8;                                                                                   \
        uint64_t bits = 0;                                                                                                                 \
        unsigned n_bits = 0;                                                                                                               \
        put_varint(h, (padded - i) / 8 << 1 | 1);                                                                                          \
        for (; i < padded; i++) {                                                                                                          \
            bits |= (uint64_t)(i < end ? AT(values, i) : 0) << n_bits;                                                                     \
            for (n_bits += h->width; n_bits >= 8; n_bits -= 8, bits >>= 8)                                                                 \
                *h->p++ = (uint8_t)bits;                                                                                                   \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void NAME(hybrid *h, const void *values, size_t n)                                                                              \
    {                                                                                                                                      \
        size_t packed = 0; /* values in [packed, i) wait to be packed */                                                                   \
        for (size_t i = 0; i < n;) {                                                                                                       \
            const size_t equal = NAME##_equal(values, i, n);                                                                               \
            if (equal < 8) {                                                                                                               \
                i += n - i < 8 ? n - i : 8; /* whole groups, but for the last */                                                           \
                continue;                                                                                                                  \
            }                                                                                                                              \
            if (i > packed)                                                                                                                \
                NAME##_pack(h, values, packed, i);                                                                                         \
            put_run(h, AT(values, i), equal);                                                                                              \
            packed = i += equal;                                                                                                           \
        }                                                                                                                                  \
        if (n > packed)                                                                                                                    \
            NAME##_pack(h, values, packed, n);                                                                                             \
    }

DEFINE_PUT(put_indices, INDEX_AT)
DEFINE_PUT(put_u8, LEVEL_AT)

fby_status fby__pqw_put_hybrid(fby__buf *out, const uint32_t *values, size_t n, unsigned width, fby_error *err)
{
    if (fby__grow((void **)&out->data, &out->cap, out->n + hybrid_bound(n, width), 1) != 0)
        return fby__fail_nomem(err, "a Parquet page");
    hybrid h = {.p = out->data + out->n, .width = width};
    put_indices(&h, values, n);
    out->n = (size_t)(h.p - out->data);
    return FBY_OK;
}

fby_status fby__pqw_put_levels(fby__buf *out, const uint8_t *levels, size_t n, unsigned max, fby_error *err)
{
    const unsigned width = fby__pqw_width(max);
    const size_t begin = out->n;
    if (fby__grow((void **)&out->data, &out->cap, begin + 4 + hybrid_bound(levels ? n : 0, width), 1) != 0)
        return fby__fail_nomem(err, "a Parquet page");
    hybrid h = {.p = out->data + begin + 4, .width = width};
    if (levels)
        put_u8(&h, levels, n);
    else
        put_run(&h, max, n);
    out->n = (size_t)(h.p - out->data);
    fby__store_u32(out->data + begin, (uint32_t)(out->n - begin - 4));
    return FBY_OK;
}

/* Shifts instead of strides: compilers turn these loops into wide loads and packs. Blocks stay in the first cache for all of their bytes. */
#define SPLIT_BLOCK 1024u
#define DEFINE_SPLIT(NAME, TYPE, LOAD)                                                                                                     \
    static void NAME(const uint8_t *values, size_t n, uint8_t *out)                                                                        \
    {                                                                                                                                      \
        for (size_t begin = 0; begin < n; begin += SPLIT_BLOCK) {                                                                          \
            const size_t n_block = n - begin < SPLIT_BLOCK ? n - begin : SPLIT_BLOCK;                                                      \
            const uint8_t *in = values + begin * sizeof(TYPE);                                                                             \
            for (unsigned k = 0; k < sizeof(TYPE); k++) {                                                                                  \
                uint8_t *stream = out + k * n + begin;                                                                                     \
                for (size_t i = 0; i < n_block; i++)                                                                                       \
                    stream[i] = (uint8_t)(LOAD(in + i * sizeof(TYPE)) >> 8 * k);                                                           \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

DEFINE_SPLIT(split_32, uint32_t, fby__load_u32)
DEFINE_SPLIT(split_64, uint64_t, fby__load_u64)

void fby__pqw_split(const uint8_t *values, size_t n, size_t value_bytes, uint8_t *out)
{
    if (value_bytes == 4)
        split_32(values, n, out);
    else
        split_64(values, n, out);
}
