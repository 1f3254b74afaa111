/*
 * Columns → rows. Tiles of columns that lie in the cache are transposed in registers, so that a row's cache lines are written
 * whole: 16 columns of 4 bytes (8 of 8 bytes) are one line.
 *
 * Other threads may be writing the neighbouring columns of the same rows: nothing outside dst's elements is stored to.
 */
#include "block/convert.h"

#include "base/bytes.h"
#include "base/cpu.h"
#include "block/transpose_avx512.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Rows [row, n_rows) of columns [col, n_cols). The reference. */
static void scalar(uint8_t *dst, size_t stride, const void *const *cols, size_t col, size_t n_cols, size_t row, size_t n_rows, size_t elem)
{
#define COPY(T)                                                                                                                            \
    for (size_t c = col; c < n_cols; c++) {                                                                                                \
        const uint8_t *from = (const uint8_t *)cols[c];                                                                                    \
        uint8_t *to = dst + c * sizeof(T);                                                                                                 \
        for (size_t r = row; r < n_rows; r++) {                                                                                            \
            T v;                                                                                                                           \
            memcpy(&v, from + r * sizeof(T), sizeof(T));                                                                                   \
            memcpy(to + r * stride, &v, sizeof(T));                                                                                        \
        }                                                                                                                                  \
    }
    switch (elem) {
    case 1: COPY(uint8_t) break;
    case 2: COPY(uint16_t) break;
    case 4: COPY(uint32_t) break;
    default: COPY(uint64_t) break;
    }
#undef COPY
}

#if defined(__x86_64__)
#define TARGET_AVX2 __attribute__((target("avx2")))
#define TARGET_AVX512 __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl")))

typedef __m128i lanes;
static inline lanes load(const void *p) { return _mm_loadu_si128(p); }
static inline void store(void *p, lanes v) { _mm_storeu_si128(p, v); }
#define LOW(bits) _mm_unpacklo_epi##bits
#define HIGH(bits) _mm_unpackhi_epi##bits
#elif defined(__aarch64__)
typedef uint8x16_t lanes;
static inline lanes load(const void *p) { return vld1q_u8(p); }
static inline void store(void *p, lanes v) { vst1q_u8(p, v); }
#define ZIP(bits, T)                                                                                                                       \
    static inline lanes low_##bits(lanes a, lanes b) { return (lanes)vzip1q_u##bits((T)a, (T)b); }                                         \
    static inline lanes high_##bits(lanes a, lanes b) { return (lanes)vzip2q_u##bits((T)a, (T)b); }
ZIP(8, uint8x16_t)
ZIP(16, uint16x8_t)
ZIP(32, uint32x4_t)
ZIP(64, uint64x2_t)
#define LOW(bits) low_##bits
#define HIGH(bits) high_##bits
#endif

#if defined(__x86_64__) || defined(__aarch64__)
/* n rows of n elements, which fill a register. Each round joins element i with element i + half: after the last one, a[k] is row k. */
#define TILE(n, rounds, bits)                                                                                                              \
    static void tile_##bits(uint8_t *dst, size_t stride, const void *const *cols, size_t row)                                              \
    {                                                                                                                                      \
        lanes a[n], b[n];                                                                                                                  \
        for (size_t c = 0; c < n; c++)                                                                                                     \
            a[c] = load((const uint8_t *)cols[c] + bits / 8 * row);                                                                        \
        for (int round = 0; round < rounds; round++) {                                                                                     \
            for (size_t i = 0; i < n / 2; i++) {                                                                                           \
                b[2 * i] = LOW(bits)(a[i], a[i + n / 2]);                                                                                  \
                b[2 * i + 1] = HIGH(bits)(a[i], a[i + n / 2]);                                                                             \
            }                                                                                                                              \
            memcpy(a, b, sizeof a);                                                                                                        \
        }                                                                                                                                  \
        for (size_t r = 0; r < n; r++)                                                                                                     \
            store(dst + (row + r) * stride, a[r]);                                                                                         \
    }
TILE(16, 4, 8)
TILE(8, 3, 16)
#if defined(__aarch64__)
TILE(4, 2, 32)
TILE(2, 1, 64)
#endif
#endif

#if defined(__x86_64__)
/* ---- 4 and 8 bytes: AVX2, 8 × 8 and 4 × 4 ---- */

TARGET_AVX2 static void avx2_4(uint8_t *dst, size_t stride, const void *const *cols, size_t row)
{
    __m256 a[8], b[8];
    for (size_t c = 0; c < 8; c++)
        a[c] = _mm256_loadu_ps((const float *)cols[c] + row);
    for (size_t i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (size_t i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_ps((void *)(dst + (row + i) * stride), _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps((void *)(dst + (row + i + 4) * stride), _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

TARGET_AVX2 static void avx2_8(uint8_t *dst, size_t stride, const void *const *cols, size_t row)
{
    __m256d a[4], b[4];
    for (size_t c = 0; c < 4; c++)
        a[c] = _mm256_loadu_pd((const double *)cols[c] + row);
    for (size_t i = 0; i < 4; i += 2) {
        b[i] = _mm256_unpacklo_pd(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_pd(a[i], a[i + 1]);
    }
    for (size_t i = 0; i < 2; i++) {
        _mm256_storeu_pd((void *)(dst + (row + i) * stride), _mm256_permute2f128_pd(b[i], b[i + 2], 0x20));
        _mm256_storeu_pd((void *)(dst + (row + i + 2) * stride), _mm256_permute2f128_pd(b[i], b[i + 2], 0x31));
    }
}

/* ---- AVX-512: 16 × 16 and 8 × 8, with masks for fewer columns or rows ---- */

TARGET_AVX512 static inline void store_row(uint8_t *dst, __mmask16 cols, __m512i v) { _mm512_mask_storeu_epi32(dst, cols, v); }

TARGET_AVX512 static void avx512_4(uint8_t *dst, size_t stride, const void *const *cols, size_t n_cols, size_t n_rows)
{
    const uint8_t *from[16];
    for (size_t c = 0; c < 16; c++)
        from[c] = cols[c < n_cols ? c : 0];
    const __mmask16 keep = (__mmask16)(n_cols >= 16 ? 0xffffu : (1u << n_cols) - 1);
    for (size_t row = 0; row < n_rows; row += 16) {
        const size_t left = n_rows - row;
        const __mmask16 rows = (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1);
        __m512i a[16], b[16];
        for (size_t c = 0; c < 16; c++)
            a[c] = _mm512_maskz_loadu_epi32(rows, from[c] + 4 * row);
        fby__transpose_16x16(a, b);
        uint8_t *to = dst + row * stride;
        if (left >= 16) {
            for (size_t r = 0; r < 16; r++, to += stride)
                store_row(to, keep, b[r]);
        } else {
            __m512i last[16];
            memcpy(last, b, sizeof last);
            for (size_t r = 0; r < left; r++, to += stride)
                store_row(to, keep, last[r]);
        }
    }
}

TARGET_AVX512 static void avx512_8(uint8_t *dst, size_t stride, const void *const *cols, size_t n_cols, size_t n_rows)
{
    const uint8_t *from[8];
    for (size_t c = 0; c < 8; c++)
        from[c] = cols[c < n_cols ? c : 0];
    const __mmask8 keep = (__mmask8)(n_cols >= 8 ? 0xffu : (1u << n_cols) - 1);
    for (size_t row = 0; row < n_rows; row += 8) {
        const size_t left = n_rows - row;
        const __mmask8 rows = (__mmask8)(left >= 8 ? 0xffu : (1u << left) - 1);
        __m512i a[8], b[8];
        for (size_t c = 0; c < 8; c++)
            a[c] = _mm512_maskz_loadu_epi64(rows, from[c] + 8 * row);
        for (size_t i = 0; i < 8; i += 2) {
            b[i] = _mm512_unpacklo_epi64(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 1]);
        }
        /* b[2g + r], lane l: columns 2g, 2g+1 of row 2l + r */
        for (size_t r = 0; r < 2; r++) {
            __m512i x = _mm512_shuffle_i64x2(b[r], b[2 + r], 0x88), y = _mm512_shuffle_i64x2(b[r], b[2 + r], 0xdd);
            __m512i z = _mm512_shuffle_i64x2(b[4 + r], b[6 + r], 0x88), w = _mm512_shuffle_i64x2(b[4 + r], b[6 + r], 0xdd);
            a[r] = _mm512_shuffle_i64x2(x, z, 0x88);
            a[2 + r] = _mm512_shuffle_i64x2(y, w, 0x88);
            a[4 + r] = _mm512_shuffle_i64x2(x, z, 0xdd);
            a[6 + r] = _mm512_shuffle_i64x2(y, w, 0xdd);
        }
        uint8_t *to = dst + row * stride;
        for (size_t r = 0; r < 8 && r < left; r++, to += stride)
            _mm512_mask_storeu_epi64(to, keep, a[r]);
    }
}

#endif

#if defined(__x86_64__) || defined(__aarch64__)
typedef void (*tile_fn)(uint8_t *dst, size_t stride, const void *const *cols, size_t row);

/* Whole tiles, then the reference for the rest. */
static void tiled(uint8_t *dst, size_t stride, const void *const *cols, size_t n_cols, size_t n_rows, size_t elem, tile_fn tile,
                  size_t tile_cols, size_t tile_rows)
{
    size_t col = 0, row = 0;
    for (; col + tile_cols <= n_cols; col += tile_cols) {
        for (row = 0; row + tile_rows <= n_rows; row += tile_rows)
            tile(dst + col * elem, stride, cols + col, row);
        scalar(dst, stride, cols, col, col + tile_cols, row, n_rows, elem);
    }
    scalar(dst, stride, cols, col, n_cols, 0, n_rows, elem);
}
#endif

void fby__interleave(uint8_t *dst, size_t dst_stride, const void *const *cols, size_t n_cols, size_t n_rows, size_t elem_bytes)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx512() && elem_bytes >= 4) {
        const size_t line = 64 / elem_bytes;
        for (; n_cols > 2; dst += 64) {
            size_t k = n_cols < line ? n_cols : line;
            if (elem_bytes == 4)
                avx512_4(dst, dst_stride, cols, k, n_rows);
            else
                avx512_8(dst, dst_stride, cols, k, n_rows);
            cols += k;
            n_cols -= k;
        }
    } else if (fby__cpu_has_avx2()) {
        switch (elem_bytes) {
        case 1: tiled(dst, dst_stride, cols, n_cols, n_rows, 1, tile_8, 16, 16); return;
        case 2: tiled(dst, dst_stride, cols, n_cols, n_rows, 2, tile_16, 8, 8); return;
        case 4: tiled(dst, dst_stride, cols, n_cols, n_rows, 4, avx2_4, 8, 8); return;
        default: tiled(dst, dst_stride, cols, n_cols, n_rows, 8, avx2_8, 4, 4); return;
        }
    }
#elif defined(__aarch64__)
    if (fby__cpu_has_neon()) {
        switch (elem_bytes) {
        case 1: tiled(dst, dst_stride, cols, n_cols, n_rows, 1, tile_8, 16, 16); return;
        case 2: tiled(dst, dst_stride, cols, n_cols, n_rows, 2, tile_16, 8, 8); return;
        case 4: tiled(dst, dst_stride, cols, n_cols, n_rows, 4, tile_32, 4, 4); return;
        default: tiled(dst, dst_stride, cols, n_cols, n_rows, 8, tile_64, 2, 2); return;
        }
    }
#endif
    scalar(dst, dst_stride, cols, 0, n_cols, 0, n_rows, elem_bytes);
}
