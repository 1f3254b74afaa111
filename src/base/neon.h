/* Interleaving by NEON, which every aarch64 has: its stores put the bytes of 2, 3 or 4 registers in turn. */
#ifndef FBY_BASE_NEON_H
#define FBY_BASE_NEON_H

#if defined(__aarch64__)
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

static inline uint16x8_t fby__neon_pairs_low(uint8x16_t a, uint8x16_t b) { return vreinterpretq_u16_u8(vzip1q_u8(a, b)); }
static inline uint16x8_t fby__neon_pairs_high(uint8x16_t a, uint8x16_t b) { return vreinterpretq_u16_u8(vzip2q_u8(a, b)); }

/* 8 rows of 16 bytes become 16 elements of 8 bytes. */
static inline void fby__neon_join8(const uint8x16_t *v, uint8_t *dst)
{
    uint16x8x4_t low, high;
    for (int k = 0; k < 4; k++) {
        low.val[k] = fby__neon_pairs_low(v[2 * k], v[2 * k + 1]);
        high.val[k] = fby__neon_pairs_high(v[2 * k], v[2 * k + 1]);
    }
    vst4q_u16((void *)dst, low);
    vst4q_u16((void *)(dst + 64), high);
}

/* Whole groups of 16 elements of n: how many elements that is. With a constant size the registers have no addresses. */
__attribute__((always_inline)) static inline size_t fby__neon_join_size(const uint8_t *src, size_t stride, size_t element, uint8_t *dst,
                                                                        size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16, dst += 16 * element) {
        uint8x16_t v[8];
        for (size_t k = 0; k < 8; k++) /* of rows that are not there, one that is: it is not stored */
            v[k] = vld1q_u8(src + (k < element ? k : 0) * stride + i);
        const uint8x16x2_t two = {{v[0], v[1]}}; /* not in place: with clang these calls are macros */
        const uint8x16x3_t three = {{v[0], v[1], v[2]}};
        const uint8x16x4_t four = {{v[0], v[1], v[2], v[3]}};
        switch (element) {
        case 2: vst2q_u8(dst, two); break;
        case 3: vst3q_u8(dst, three); break;
        case 4: vst4q_u8(dst, four); break;
        default: fby__neon_join8(v, dst); break;
        }
    }
    return i;
}

/* Rows of bytes, `stride` apart, become elements of 2, 3, 4 or 8 bytes: how many of n are done, 0 for other sizes. */
static inline size_t fby__neon_join(const uint8_t *src, size_t stride, size_t element, uint8_t *dst, size_t n)
{
    switch (element) {
    case 2: return fby__neon_join_size(src, stride, 2, dst, n);
    case 3: return fby__neon_join_size(src, stride, 3, dst, n);
    case 4: return fby__neon_join_size(src, stride, 4, dst, n);
    case 8: return fby__neon_join_size(src, stride, 8, dst, n);
    default: return 0;
    }
}
#endif

#endif
