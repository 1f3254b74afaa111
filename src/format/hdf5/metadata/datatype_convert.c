/*
 * Elements as stored → numbers: which dtype holds a type's values without loss, and the loops that convert.
 *
 * An integer of b bytes with `precision` significant bits at `offset` is loaded into the next word of 8, 16, 32 or 64 bits in the
 * machine's order, shifted left until its top bit is the word's, and shifted back with its sign or without. With full precision
 * the shifts are left out, and dense words of the other order go through AVX2 where the CPU has it.
 */
#include "base/cpu.h"
#include "format/hdf5/metadata/hdf5.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static bool is_bool(const fby__h5_type *t) /* as h5py and PyTables write it */
{
    if (t->class != FBY__H5_ENUM || t->n_members != 2 || t->bytes != 1)
        return false;
    const fby__h5_member *m = t->members;
    const int first = strcmp(m[0].name, "FALSE") == 0 ? 0 : 1;
    return strcmp(m[first].name, "FALSE") == 0 && strcmp(m[1 - first].name, "TRUE") == 0 && *m[first].value == 0 &&
           *m[1 - first].value == 1;
}

/* Offset 0, full precision: the only position for a sign, an exponent and a mantissa that fill the element. */
static bool is_ieee(const fby__h5_type *t, unsigned exponent_bits, unsigned mantissa_bits)
{
    const unsigned bits = 1 + exponent_bits + mantissa_bits;
    return t->bytes * 8 == bits && t->bit_offset == 0 && t->bit_precision == bits && !t->vax && t->normalisation == 2 &&
           t->sign_at == bits - 1 && t->exponent_at == mantissa_bits && t->exponent_bits == exponent_bits && t->mantissa_at == 0 &&
           t->mantissa_bits == mantissa_bits && t->exponent_bias == (1u << (exponent_bits - 1)) - 1;
}

fby_dtype fby__h5_type_dtype(const fby__h5_type *type)
{
    static const fby_dtype SIGNED[] = {FBY_INT8, FBY_INT16, FBY_INT32, FBY_INT64};
    static const fby_dtype UNSIGNED[] = {FBY_UINT8, FBY_UINT16, FBY_UINT32, FBY_UINT64};
    switch (type->class) {
    case FBY__H5_INTEGER:
    case FBY__H5_BITFIELD: {
        if (type->bytes > 8)
            return FBY_DTYPE_NONE;
        const int word = type->bytes > 4 ? 3 : type->bytes > 2 ? 2 : (int)type->bytes - 1;
        return type->is_signed ? SIGNED[word] : UNSIGNED[word];
    }
    case FBY__H5_FLOAT:
        return is_ieee(type, 5, 10)    ? FBY_FLOAT16
               : is_ieee(type, 8, 7)   ? FBY_BFLOAT16
               : is_ieee(type, 8, 23)  ? FBY_FLOAT32
               : is_ieee(type, 11, 52) ? FBY_FLOAT64
                                       : FBY_DTYPE_NONE;
    case FBY__H5_ENUM: return is_bool(type) ? FBY_BOOL : fby__h5_type_dtype(type->base);
    default: return FBY_DTYPE_NONE;
    }
}

bool fby__h5_type_is_native(const fby__h5_type *type)
{
    const fby_dtype dtype = fby__h5_type_dtype(type);
    if (dtype == FBY_DTYPE_NONE || dtype == FBY_BOOL) /* a stored bool may be any byte */
        return false;
    if (type->class == FBY__H5_ENUM)
        type = type->base;
    return fby_dtype_bytes(dtype) == type->bytes && type->bit_precision == type->bytes * 8 && (!type->big_endian || type->bytes == 1);
}

static inline uint8_t swap_u8(uint8_t v) { return v; }
static inline uint16_t swap_u16(uint16_t v) { return __builtin_bswap16(v); }
static inline uint32_t swap_u32(uint32_t v) { return __builtin_bswap32(v); }
static inline uint64_t swap_u64(uint64_t v) { return __builtin_bswap64(v); }
static inline uint8_t load_u8(const uint8_t *p) { return *p; }
#define load_u16 fby__load_u16
#define load_u32 fby__load_u32
#define load_u64 fby__load_u64

/* Dense words of 2, 4 or 8 bytes turned round, 32 bytes at a time: the number of bytes done. Baseline x86-64 has no byte shuffle. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static size_t swap_avx2(const uint8_t *src, uint8_t *dst, size_t n_bytes, size_t word)
{
    uint8_t order[32];
    for (size_t i = 0; i < sizeof order; i++)
        order[i] = (uint8_t)((i & 15) ^ (word - 1));
    const __m256i by = _mm256_loadu_si256((const __m256i *)order);
    size_t i = 0;
    for (; n_bytes - i >= 32; i += 32)
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(src + i)), by));
    return i;
}
#endif

static size_t swap_wide(const uint8_t *src, uint8_t *dst, size_t n_bytes, size_t word)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx2())
        return swap_avx2(src, dst, n_bytes, word);
#endif
    (void)src, (void)dst, (void)n_bytes, (void)word;
    return 0;
}

/* dst may be unaligned as well: panels pack columns. Inlined with constant arguments, so that each loop has no branch. */
#define WORD_LOOPS(bits)                                                                                                                   \
    static inline __attribute__((always_inline)) void loop_u##bits(const uint8_t *src, size_t stride, size_t n, uint8_t *dst, bool swap,   \
                                                                   unsigned left, unsigned right, bool is_signed)                          \
    {                                                                                                                                      \
        for (size_t i = 0; i < n; i++) {                                                                                                   \
            uint##bits##_t v = load_u##bits(src + i * stride);                                                                             \
            if (swap)                                                                                                                      \
                v = swap_u##bits(v);                                                                                                       \
            if (right) {                                                                                                                   \
                v = (uint##bits##_t)(v << left);                                                                                           \
                v = (uint##bits##_t)(is_signed ? (uint##bits##_t)((int##bits##_t)v >> right) : v >> right);                                \
            }                                                                                                                              \
            memcpy(dst + i * sizeof v, &v, sizeof v);                                                                                      \
        }                                                                                                                                  \
    }                                                                                                                                      \
    static void convert_u##bits(const uint8_t *src, size_t stride, size_t n, uint8_t *dst, bool swap, unsigned left, unsigned right,       \
                                bool is_signed)                                                                                            \
    {                                                                                                                                      \
        const size_t word = bits / 8;                                                                                                      \
        if (!right && !swap && stride == word)                                                                                             \
            memcpy(dst, src, sizeof(uint##bits##_t) * n);                                                                                  \
        else if (!right && !swap)                                                                                                          \
            loop_u##bits(src, stride, n, dst, false, 0, 0, false);                                                                         \
        else if (!right && stride == word) {                                                                                               \
            const size_t done = swap_wide(src, dst, n * word, word);                                                                       \
            loop_u##bits(src + done, word, n - done / word, dst + done, true, 0, 0, false);                                                \
        } else if (!right)                                                                                                                 \
            loop_u##bits(src, stride, n, dst, true, 0, 0, false);                                                                          \
        else if (swap)                                                                                                                     \
            loop_u##bits(src, stride, n, dst, true, left, right, is_signed);                                                               \
        else if (stride == word)                                                                                                           \
            loop_u##bits(src, word, n, dst, false, left, right, is_signed);                                                                \
        else                                                                                                                               \
            loop_u##bits(src, stride, n, dst, false, left, right, is_signed);                                                              \
    }
WORD_LOOPS(8)
WORD_LOOPS(16)
WORD_LOOPS(32)
WORD_LOOPS(64)

/*
 * 3, 5, 6 and 7 bytes: eight are loaded where that stays inside the source, byte by byte at its end. The load has the element at
 * the low end (little-endian) or, swapped, at the high one; either way a shift left brings its top bit up and one back the value.
 */
static inline __attribute__((always_inline)) void loop_odd(const fby__h5_type *t, unsigned bytes, const uint8_t *src, size_t stride,
                                                           size_t n, uint8_t *dst, size_t dst_bytes)
{
    const uint8_t *const end = src + (n - 1) * stride + bytes;
    const bool big = t->big_endian, is_signed = t->is_signed;
    const unsigned left = (big ? 8 * bytes : 64u) - t->bit_offset - t->bit_precision, right = 64u - t->bit_precision;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = src + i * stride;
        uint64_t v = 0;
        if (end - p >= 8)
            v = fby__load_u64(p);
        else
            memcpy(&v, p, bytes);
        v = big ? __builtin_bswap64(v) << left : v << left;
        v = is_signed ? (uint64_t)((int64_t)v >> right) : v >> right;
        memcpy(dst + i * dst_bytes, &v, dst_bytes); /* little-endian: the low bytes */
    }
}

void fby__h5_type_convert(const fby__h5_type *type, const uint8_t *src, size_t stride, size_t n, void *dst)
{
    const fby__h5_type *t = type->class == FBY__H5_ENUM ? type->base : type;
    uint8_t *out = dst;
    if (!n)
        return;
    if (fby__h5_type_dtype(type) == FBY_BOOL) {
        for (size_t i = 0; i < n; i++)
            out[i] = src[i * stride] != 0;
        return;
    }
    const unsigned bits = 8 * t->bytes, right = bits - t->bit_precision, left = right - t->bit_offset;
    switch (t->bytes) {
    case 1: convert_u8(src, stride, n, out, false, left, right, t->is_signed); break;
    case 2: convert_u16(src, stride, n, out, t->big_endian, left, right, t->is_signed); break;
    case 3: loop_odd(t, 3, src, stride, n, out, 4); break;
    case 4: convert_u32(src, stride, n, out, t->big_endian, left, right, t->is_signed); break;
    case 5: loop_odd(t, 5, src, stride, n, out, 8); break;
    case 6: loop_odd(t, 6, src, stride, n, out, 8); break;
    case 7: loop_odd(t, 7, src, stride, n, out, 8); break;
    default: convert_u64(src, stride, n, out, t->big_endian, left, right, t->is_signed); break;
    }
}
