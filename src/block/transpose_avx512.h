/* 16 × 16 elements of 4 bytes in registers: columns to rows. For functions with its target attribute, inside the library. */
#ifndef FBY_BLOCK_TRANSPOSE_AVX512_H
#define FBY_BLOCK_TRANSPOSE_AVX512_H

#if defined(__x86_64__)
#include <immintrin.h>

/* b[r] lane c = a[c] lane r. a is used up. */
__attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl"))) static inline void fby__transpose_16x16(__m512i a[16], __m512i b[16])
{
    for (size_t i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (size_t i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    /* a[4g + r], lane l: columns 4g … 4g+3 of row 4l + r */
    for (size_t r = 0; r < 4; r++) {
        __m512i x = _mm512_shuffle_i32x4(a[r], a[4 + r], 0x88), y = _mm512_shuffle_i32x4(a[r], a[4 + r], 0xdd);
        __m512i z = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0x88), w = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0xdd);
        b[r] = _mm512_shuffle_i32x4(x, z, 0x88);
        b[4 + r] = _mm512_shuffle_i32x4(y, w, 0x88);
        b[8 + r] = _mm512_shuffle_i32x4(x, z, 0xdd);
        b[12 + r] = _mm512_shuffle_i32x4(y, w, 0xdd);
    }
}
#endif

#endif
