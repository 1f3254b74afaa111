/*
 * Unshuffle by bytes and by bits: rows of equal significance become elements. A transposition either way, done in registers: the
 * columns of 8 rows of bytes are interleaved by three rounds of unpacking (NEON: by its stores), and 8 rows of bits change places with
 * columns by three rounds of masked exchange before that.
 *
 * Every variant reads and writes exactly the bytes stated. Elements of sizes without a kernel of their own are assembled from
 * words of 8 and 4 bytes and single bytes, in blocks that stay in the first-level cache.
 */
#include "codec/filter_impl.h"

#include "base/cpu.h"
#include "base/neon.h"

/* Columns that a register holds, and what functions need that use it. */
#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET __attribute__((target("avx2")))
enum { LANES = 32 };
#elif defined(__aarch64__)
#define TARGET
enum { LANES = 16 };
#endif

enum { CACHE_BYTES = 16384 };

/* ---- bytes: the reference ---- */

/* Elements [begin, end) of count. With a constant size the compiler interleaves in registers too. */
__attribute__((always_inline)) static inline void join(const uint8_t *src, uint8_t *dst, size_t count, size_t begin, size_t end,
                                                       size_t element)
{
    for (size_t i = begin; i < end; i++)
        for (size_t k = 0; k < element; k++)
            dst[i * element + k] = src[k * count + i];
}

/* Bytes [k, last) of elements [begin, end): row by row. */
static void join_rows(const uint8_t *src, uint8_t *dst, size_t count, size_t begin, size_t end, size_t element, size_t k, size_t last)
{
    for (; k < last; k++)
        for (size_t i = begin; i < end; i++)
            dst[i * element + k] = src[k * count + i];
}

static size_t elements_in_cache(size_t element) { return element < CACHE_BYTES / 64 ? CACHE_BYTES / element / 32 * 32 : 32; }

static void scalar(const uint8_t *src, uint8_t *dst, size_t count, size_t begin, size_t element)
{
    switch (element) {
    case 2: join(src, dst, count, begin, count, 2); return;
    case 4: join(src, dst, count, begin, count, 4); return;
    case 8: join(src, dst, count, begin, count, 8); return;
    default: break;
    }
    for (const size_t step = elements_in_cache(element); begin < count;) {
        const size_t end = count - begin < step ? count : begin + step;
        join_rows(src, dst, count, begin, end, element, 0, element);
        begin = end;
    }
}

#if defined(__x86_64__)
/* ---- bytes: AVX2, 32 elements at a time ---- */

TARGET static inline __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const void *)p); }
TARGET static inline void store(uint8_t *p, __m256i v) { _mm256_storeu_si256((void *)p, v); }

/*
 * Past the caches: p is a multiple of 32. Elements that are gathered much later are not worth the lines that they would first read
 * from memory and then push out; of a block of 256 KiB that is more than the interleaving itself costs.
 */
TARGET static inline void stream(uint8_t *p, __m256i v) { _mm256_stream_si256((void *)p, v); }

/* v[0 … 3]: 32 columns of 4 rows. Then v[m] holds the columns 4m … 4m+3 in its lower half, 16 + 4m … in its upper. */
TARGET static inline void interleave4(__m256i *v)
{
    const __m256i a = _mm256_unpacklo_epi8(v[0], v[1]), b = _mm256_unpackhi_epi8(v[0], v[1]);
    const __m256i c = _mm256_unpacklo_epi8(v[2], v[3]), d = _mm256_unpackhi_epi8(v[2], v[3]);
    v[0] = _mm256_unpacklo_epi16(a, c);
    v[1] = _mm256_unpackhi_epi16(a, c);
    v[2] = _mm256_unpacklo_epi16(b, d);
    v[3] = _mm256_unpackhi_epi16(b, d);
}

/* The same for 8 rows: v[m] then holds the columns 2m, 2m+1 | 16 + 2m, 17 + 2m. */
TARGET static inline void interleave8(__m256i *v)
{
    __m256i w[8];
    memcpy(w, v, sizeof w);
    interleave4(w);
    interleave4(w + 4);
    for (size_t m = 0; m < 4; m++) {
        v[2 * m] = _mm256_unpacklo_epi32(w[m], w[m + 4]);
        v[2 * m + 1] = _mm256_unpackhi_epi32(w[m], w[m + 4]);
    }
}

/* The lower halves of n registers (n even), then the upper ones, to consecutive addresses. */
TARGET static inline void store_halves(uint8_t *to, const __m256i *v, size_t n, bool streaming)
{
    for (size_t m = 0; m < n; m += 2) {
        const __m256i low = _mm256_permute2x128_si256(v[m], v[m + 1], 0x20), high = _mm256_permute2x128_si256(v[m], v[m + 1], 0x31);
        if (streaming) {
            stream(to + 16 * m, low);
            stream(to + 16 * (m + n), high);
        } else {
            store(to + 16 * m, low);
            store(to + 16 * (m + n), high);
        }
    }
}

TARGET static inline size_t avx2_2(const uint8_t *src, uint8_t *dst, size_t count, bool streaming)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m256i a = load(src + i), b = load(src + count + i);
        const __m256i v[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
        store_halves(dst + 2 * i, v, 2, streaming);
    }
    return i;
}

TARGET static inline size_t avx2_4(const uint8_t *src, uint8_t *dst, size_t count, bool streaming)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i v[4];
        for (size_t k = 0; k < 4; k++)
            v[k] = load(src + k * count + i);
        interleave4(v);
        store_halves(dst + 4 * i, v, 4, streaming);
    }
    return i;
}

TARGET static inline size_t avx2_8(const uint8_t *src, uint8_t *dst, size_t count, bool streaming)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i v[8];
        for (size_t k = 0; k < 8; k++)
            v[k] = load(src + k * count + i);
        interleave8(v);
        store_halves(dst + 8 * i, v, 8, streaming);
    }
    return i;
}

TARGET static size_t avx2_16(const uint8_t *src, uint8_t *dst, size_t count)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i low[8], high[8];
        for (size_t k = 0; k < 8; k++)
            low[k] = load(src + k * count + i);
        interleave8(low);
        for (size_t k = 0; k < 8; k++)
            high[k] = load(src + (k + 8) * count + i);
        interleave8(high);
        uint8_t *to = dst + 16 * i;
        for (size_t m = 0; m < 8; m++) {
            const __m256i even = _mm256_unpacklo_epi64(low[m], high[m]), odd = _mm256_unpackhi_epi64(low[m], high[m]);
            store(to + 32 * m, _mm256_permute2x128_si256(even, odd, 0x20));
            store(to + 32 * (m + 8), _mm256_permute2x128_si256(even, odd, 0x31));
        }
    }
    return i;
}

/* Elements of 3 bytes: the compiler's own interleaving, with the shuffles of AVX2. */
TARGET static size_t avx2_3(const uint8_t *src, uint8_t *dst, size_t count)
{
    join(src, dst, count, 0, count, 3);
    return count;
}

/* 8 rows of 32 columns to words of 8 bytes, `stride` apart. */
TARGET static void words8(const uint8_t *rows, size_t count, uint8_t *to, size_t stride)
{
    __m256i v[8];
    for (size_t k = 0; k < 8; k++)
        v[k] = load(rows + k * count);
    interleave8(v);
    for (size_t m = 0; m < 8; m++, to += 2 * stride) {
        const __m128i low = _mm256_castsi256_si128(v[m]), high = _mm256_extracti128_si256(v[m], 1);
        _mm_storel_epi64((void *)to, low);
        _mm_storel_epi64((void *)(to + stride), _mm_unpackhi_epi64(low, low));
        _mm_storel_epi64((void *)(to + 16 * stride), high);
        _mm_storel_epi64((void *)(to + 17 * stride), _mm_unpackhi_epi64(high, high));
    }
}

/* 4 rows of 32 columns to words of 4 bytes. */
TARGET static void words4(const uint8_t *rows, size_t count, uint8_t *to, size_t stride)
{
    __m256i v[4];
    for (size_t k = 0; k < 4; k++)
        v[k] = load(rows + k * count);
    interleave4(v);
    for (size_t m = 0; m < 4; m++) {
        uint32_t word[8];
        _mm256_storeu_si256((void *)word, v[m]);
        for (size_t c = 0; c < 4; c++, to += stride) {
            fby__store_u32(to, word[c]);
            fby__store_u32(to + 16 * stride, word[4 + c]);
        }
    }
}

#elif defined(__aarch64__)
/* ---- bytes: NEON, 16 elements at a time ---- */

/* 8 rows of 16 columns to words of 8 bytes, `stride` apart. */
static void words8(const uint8_t *rows, size_t count, uint8_t *to, size_t stride)
{
    uint8_t joined[8 * LANES];
    (void)fby__neon_join(rows, count, 8, joined, LANES);
    for (size_t c = 0; c < LANES; c++)
        memcpy(to + c * stride, joined + 8 * c, 8);
}

/* 4 rows of 16 columns to words of 4 bytes. */
static void words4(const uint8_t *rows, size_t count, uint8_t *to, size_t stride)
{
    uint8_t joined[4 * LANES];
    (void)fby__neon_join(rows, count, 4, joined, LANES);
    for (size_t c = 0; c < LANES; c++)
        memcpy(to + c * stride, joined + 4 * c, 4);
}
#endif

#if defined(TARGET)
/* Whole groups of LANES elements of any size. */
TARGET static size_t joined_any(const uint8_t *src, uint8_t *dst, size_t count, size_t element)
{
    const size_t whole = count / LANES * LANES, step = elements_in_cache(element);
    for (size_t begin = 0; begin < whole;) {
        const size_t end = whole - begin < step ? whole : begin + step;
        size_t k = 0;
        for (; k + 8 <= element; k += 8)
            for (size_t i = begin; i < end; i += LANES)
                words8(src + k * count + i, count, dst + i * element + k, element);
        for (; k + 4 <= element; k += 4)
            for (size_t i = begin; i < end; i += LANES)
                words4(src + k * count + i, count, dst + i * element + k, element);
        join_rows(src, dst, count, begin, end, element, k, element);
        begin = end;
    }
    return whole;
}
#endif

#if defined(__x86_64__)
/* Two loops a size, so that neither asks what kind of store it is at every element. */
TARGET static size_t avx2(const uint8_t *src, uint8_t *dst, size_t count, size_t element, bool streaming)
{
    switch (element) {
    case 2: return streaming ? avx2_2(src, dst, count, true) : avx2_2(src, dst, count, false);
    case 3: return avx2_3(src, dst, count);
    case 4: return streaming ? avx2_4(src, dst, count, true) : avx2_4(src, dst, count, false);
    case 8: return streaming ? avx2_8(src, dst, count, true) : avx2_8(src, dst, count, false);
    case 16: return avx2_16(src, dst, count);
    default: return joined_any(src, dst, count, element);
    }
}
#elif defined(__aarch64__)
static size_t neon(const uint8_t *src, uint8_t *dst, size_t count, size_t element)
{
    const size_t done = fby__neon_join(src, count, element, dst, count);
    return done ? done : joined_any(src, dst, count, element);
}
#endif

void fby__unshuffle(const uint8_t *src, uint8_t *dst, size_t n, size_t element_bytes, bool streaming)
{
    if (n == 0)
        return;
    const size_t count = element_bytes ? n / element_bytes : 0;
    if (element_bytes == 1 || count < 2) {
        memcpy(dst, src, n);
        return;
    }
    size_t done = 0;
#if defined(__x86_64__)
    if (fby__cpu_has_avx2()) {
        streaming &= (uintptr_t)dst % 32 == 0;
        done = avx2(src, dst, count, element_bytes, streaming);
        if (streaming)
            _mm_sfence(); /* such stores are not ordered with what publishes them */
    }
#else
    (void)streaming; /* no other variant has such stores */
#endif
#if defined(__aarch64__)
    if (fby__cpu_has_neon())
        done = neon(src, dst, count, element_bytes);
#endif
    scalar(src, dst, count, done, element_bytes);
    memcpy(dst + count * element_bytes, src + count * element_bytes, n % element_bytes);
}

/* ---- bits ---- */

/* Bit 8k + i and bit 8i + k change places (Hacker's Delight, 7-3). */
static uint64_t transpose_8x8(uint64_t x)
{
    uint64_t t = (x ^ (x >> 7)) & UINT64_C(0x00AA00AA00AA00AA);
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & UINT64_C(0x0000CCCC0000CCCC);
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & UINT64_C(0x00000000F0F0F0F0);
    return x ^ t ^ (t << 28);
}

/* The bytes of the 8 elements whose bits are in column 0 of 8 rows. */
static uint64_t column(const uint8_t *rows, size_t stride)
{
    uint64_t x = 0;
    for (unsigned k = 0; k < 8; k++)
        x |= (uint64_t)rows[k * stride] << (8 * k);
    return transpose_8x8(x);
}

static void bits_scalar(const uint8_t *rows, size_t stride, uint8_t *dst, size_t columns)
{
    for (size_t c = 0; c < columns; c++)
        fby__store_u64(dst + 8 * c, column(rows + c, stride));
}

#if defined(__x86_64__)
/* Bits of a whose positions `mask` names, `shift` further, change places with the same bits of b. */
#define EXCHANGE(a, b, shift, mask)                                                                                                        \
    do {                                                                                                                                   \
        const __m256i t = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi16(a, shift), b), mask);                                        \
        (b) = _mm256_xor_si256(b, t);                                                                                                      \
        (a) = _mm256_xor_si256(a, _mm256_slli_epi16(t, shift));                                                                            \
    } while (0)

TARGET static void bits_lanes(const uint8_t *rows, size_t stride, uint8_t *dst)
{
    const __m256i mask1 = _mm256_set1_epi8(0x55), mask2 = _mm256_set1_epi8(0x33), mask4 = _mm256_set1_epi8(0x0f);
    __m256i v[8];
    for (size_t k = 0; k < 8; k++)
        v[k] = load(rows + k * stride);
    for (size_t k = 0; k < 8; k += 2)
        EXCHANGE(v[k], v[k + 1], 1, mask1);
    for (size_t k = 0; k < 8; k += 4) {
        EXCHANGE(v[k], v[k + 2], 2, mask2);
        EXCHANGE(v[k + 1], v[k + 3], 2, mask2);
    }
    for (size_t k = 0; k < 4; k++)
        EXCHANGE(v[k], v[k + 4], 4, mask4);
    interleave8(v);
    store_halves(dst, v, 8, false);
}
#elif defined(__aarch64__)
#define EXCHANGE(a, b, shift, mask)                                                                                                        \
    do {                                                                                                                                   \
        const uint8x16_t t = vandq_u8(veorq_u8(vshrq_n_u8(a, shift), b), vdupq_n_u8(mask));                                                \
        (b) = veorq_u8(b, t);                                                                                                              \
        (a) = veorq_u8(a, vshlq_n_u8(t, shift));                                                                                           \
    } while (0)

static void bits_lanes(const uint8_t *rows, size_t stride, uint8_t *dst)
{
    uint8x16_t v[8];
    for (size_t k = 0; k < 8; k++)
        v[k] = vld1q_u8(rows + k * stride);
    for (size_t k = 0; k < 8; k += 2)
        EXCHANGE(v[k], v[k + 1], 1, 0x55);
    for (size_t k = 0; k < 8; k += 4) {
        EXCHANGE(v[k], v[k + 2], 2, 0x33);
        EXCHANGE(v[k + 1], v[k + 3], 2, 0x33);
    }
    for (size_t k = 0; k < 4; k++)
        EXCHANGE(v[k], v[k + 4], 4, 0x0f);
    fby__neon_join8(v, dst);
}
#endif

#if defined(TARGET)
TARGET static void bits_vector(const uint8_t *rows, size_t stride, uint8_t *dst, size_t columns)
{
    size_t c = 0;
    for (; c + LANES <= columns; c += LANES)
        bits_lanes(rows + c, stride, dst + 8 * c);
    if (columns - c < 4) {
        bits_scalar(rows + c, stride, dst + 8 * c, columns - c);
        return;
    }
    uint8_t in[8 * LANES], out[8 * LANES];
    for (size_t k = 0; k < 8; k++) {
        memcpy(in + LANES * k, rows + k * stride + c, columns - c);
        memset(in + LANES * k + (columns - c), 0, LANES - (columns - c));
    }
    bits_lanes(in, LANES, out);
    memcpy(dst + 8 * c, out, 8 * (columns - c));
}
#endif

/* 8 rows of `columns` bytes, `stride` apart: one byte of each of 8 * columns elements, to consecutive addresses. */
static void bits_to_bytes(const uint8_t *rows, size_t stride, uint8_t *dst, size_t columns)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx2()) {
        bits_vector(rows, stride, dst, columns);
        return;
    }
#elif defined(__aarch64__)
    if (fby__cpu_has_neon()) {
        bits_vector(rows, stride, dst, columns);
        return;
    }
#endif
    bits_scalar(rows, stride, dst, columns);
}

void fby__bit_unshuffle(const uint8_t *src, uint8_t *dst, size_t count, size_t element_bytes, bool streaming)
{
    const size_t stride = count / 8;
    if (element_bytes == 1) {
        bits_to_bytes(src, stride, dst, stride);
        return;
    }
    uint8_t bytes[CACHE_BYTES];
    if (element_bytes > sizeof bytes / 8) {
        /* Not even 8 elements fit: one byte of 8 of them at a time. */
        for (size_t j = 0; j < element_bytes; j++)
            for (size_t c = 0; c < stride; c++) {
                uint64_t x = column(src + 8 * j * stride + c, stride);
                for (size_t i = 0; i < 8; i++, x >>= 8)
                    dst[(8 * c + i) * element_bytes + j] = (uint8_t)x;
            }
        return;
    }
    size_t tile = sizeof bytes / element_bytes / 8;
    tile = tile > 32 ? tile / 32 * 32 : tile;
    for (size_t c = 0; c < stride; c += tile) {
        const size_t columns = stride - c < tile ? stride - c : tile;
        for (size_t j = 0; j < element_bytes; j++)
            bits_to_bytes(src + 8 * j * stride + c, stride, bytes + 8 * j * columns, columns);
        fby__unshuffle(bytes, dst + 8 * c * element_bytes, 8 * columns * element_bytes, element_bytes, streaming);
    }
}
