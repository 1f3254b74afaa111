/*
 * The sum behind fletcher32 (3), as HDF5 computes it: over big-endian 16-bit words, an odd byte at the end being the high half of
 * one, both sums starting at 0 and folded to 16 bits; the result is 0 for zeros alone, else 1 … 65535.
 *
 * Modulo 65535, swapping the bytes of a word multiplies it by 256, hence also the sums: so they are taken over little-endian
 * words, and swapped at the end. That unswapped value is what HDF5 before 1.6.3 stored on little-endian machines; libhdf5 accepts
 * it to this day, and so does this.
 */
#include "codec/filter_impl.h"

#include "base/cpu.h"
#include "base/hash.h"

/* Σ (BLOCK − i) · w[i] of a block stays below 2^32: 256 · 257 / 2 · 65535. */
enum { BLOCK = 256 };

/* Written to be vectorised. */
__attribute__((always_inline)) static inline void add_blocks(const uint8_t *data, size_t n_blocks, uint64_t *sum1, uint64_t *sum2)
{
    for (size_t b = 0; b < n_blocks; b++, data += 2 * BLOCK) {
        uint32_t plain = 0, weighted = 0;
        for (uint32_t i = 0; i < BLOCK; i++) {
            uint32_t word = fby__load_u16(data + 2 * i);
            plain += word;
            weighted += (BLOCK - i) * word;
        }
        *sum2 += BLOCK * *sum1 + weighted;
        *sum1 += plain;
        *sum2 %= 65535; /* sum1 grows by 2^24 a block: it has room for 2^40 of them */
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void add_blocks_avx2(const uint8_t *data, size_t n_blocks, uint64_t *sum1, uint64_t *sum2)
{
    add_blocks(data, n_blocks, sum1, sum2);
}
#endif

/* As HDF5's folding leaves it: 65535 rather than 0, unless the sum is 0. */
static uint32_t fold(uint64_t sum, bool zeros) { return zeros ? 0 : (uint32_t)((sum + 65534) % 65535 + 1); }

bool fby__fletcher32_fits(const uint8_t *data, size_t n, uint32_t stored)
{
    uint64_t sum1 = 0, sum2 = 0;
    const size_t n_blocks = n / (2 * BLOCK);
#if defined(__x86_64__)
    if (fby__cpu_has_avx2())
        add_blocks_avx2(data, n_blocks, &sum1, &sum2);
    else
#endif
        add_blocks(data, n_blocks, &sum1, &sum2);
    size_t at = n_blocks * 2 * BLOCK;
    for (; at + 2 <= n; at += 2) {
        sum1 += fby__load_u16(data + at);
        sum2 += sum1 % 65535;
    }
    if (at < n) {
        sum1 += data[at];
        sum2 += sum1 % 65535;
    }
    const bool zeros = sum1 == 0;
    const uint32_t low = fold(sum1, zeros), high = fold(sum2, zeros);
    const uint32_t historic = high << 16 | low;
    const uint32_t sum = (uint32_t)__builtin_bswap16((uint16_t)high) << 16 | __builtin_bswap16((uint16_t)low);
    return fby__checksum_holds(stored, sum) || stored == historic;
}
