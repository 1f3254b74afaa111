/*
 * Values of other dtypes as float32 where they are loaded, for the loops that bring rows to a batch: sixteen at once, with AVX-512, rounded
 * as fby__convert rounds them. Every value fits.
 */
#ifndef FBY_BLOCK_FLOATS_AVX512_H
#define FBY_BLOCK_FLOATS_AVX512_H

#include <forebay/base.h>

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define FBY__TARGET_FLOATS __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl")))

/** Is fby__floats_load there for this dtype? */
static inline bool fby__floats_loads(fby_dtype stored)
{
    switch (stored) {
    case FBY_FLOAT16:
    case FBY_BFLOAT16:
    case FBY_FLOAT64:
    case FBY_INT8:
    case FBY_UINT8:
    case FBY_INT16:
    case FBY_UINT16:
    case FBY_INT32: return true;
    default: return false;
    }
}

/** Bytes of sixteen of them. A constant, as no call of fby_dtype_bytes is. */
static inline __attribute__((always_inline)) size_t fby__floats_load_bytes(const fby_dtype stored)
{
    switch (stored) {
    case FBY_INT8:
    case FBY_UINT8: return 16;
    case FBY_FLOAT16:
    case FBY_BFLOAT16:
    case FBY_INT16:
    case FBY_UINT16: return 32;
    case FBY_FLOAT64: return 128;
    default: return 64; /* FBY_INT32 */
    }
}

/** Sixteen values at `src`, which need not be aligned. `stored` is known where this is compiled. */
FBY__TARGET_FLOATS static inline __attribute__((always_inline)) __m512 fby__floats_load(const uint8_t *src, const fby_dtype stored)
{
    switch (stored) {
    case FBY_FLOAT16: return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)src));
    case FBY_BFLOAT16: return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)src)), 16));
    case FBY_FLOAT64: {
        const __m256 low = _mm512_cvtpd_ps(_mm512_loadu_pd(src)), high = _mm512_cvtpd_ps(_mm512_loadu_pd(src + 64));
        return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
    }
    case FBY_INT8: return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)src)));
    case FBY_UINT8: return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)src)));
    case FBY_INT16: return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)src)));
    case FBY_UINT16: return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)src)));
    default: return _mm512_cvtepi32_ps(_mm512_loadu_si512(src)); /* FBY_INT32 */
    }
}

/** `call` with each of those dtypes as its last argument: a switch on `stored`. */
#define FBY__FLOATS_EACH(stored, call, ...)                                                                                                \
    switch (stored) {                                                                                                                      \
    case FBY_FLOAT16: call(__VA_ARGS__, FBY_FLOAT16); break;                                                                               \
    case FBY_BFLOAT16: call(__VA_ARGS__, FBY_BFLOAT16); break;                                                                             \
    case FBY_FLOAT64: call(__VA_ARGS__, FBY_FLOAT64); break;                                                                               \
    case FBY_INT8: call(__VA_ARGS__, FBY_INT8); break;                                                                                     \
    case FBY_UINT8: call(__VA_ARGS__, FBY_UINT8); break;                                                                                   \
    case FBY_INT16: call(__VA_ARGS__, FBY_INT16); break;                                                                                   \
    case FBY_UINT16: call(__VA_ARGS__, FBY_UINT16); break;                                                                                 \
    default: call(__VA_ARGS__, FBY_INT32); break;                                                                                          \
    }

#endif
#endif
