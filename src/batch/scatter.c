/*
 * Scatters: rows of a block → the batches that want them. The block has just been decoded and lies in the cache; where its rows go does not,
 * and each goes elsewhere. Whole lines are therefore written past the caches: a store that misses would first read the line it replaces.
 * Measured for rows of 256 bytes on two cores (EPYC, DDR5): 32 ns a row to keep the block and gather from it, 17 to scatter it.
 */
#include "batch/batch.h"

#include "base/cpu.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LINE 64u
#define AHEAD 8u /* rows, where lines are not written whole */

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void scatter_lines(uint8_t *const *to, const uint8_t *const *from, size_t bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!to[i])
            continue;
        for (size_t k = 0; k < bytes; k += LINE) {
            const __m256i low = _mm256_loadu_si256((const void *)(from[i] + k)),
                          high = _mm256_loadu_si256((const void *)(from[i] + k + 32));
            _mm256_stream_si256((void *)(to[i] + k), low);
            _mm256_stream_si256((void *)(to[i] + k + 32), high);
        }
    }
    _mm_sfence(); /* such stores are ordered by nothing else: whoever gets the batch must see them */
}
#endif

void fby__scatter_rows(uint8_t *const *to, const uint8_t *const *from, size_t bytes, size_t n)
{
#if defined(__x86_64__)
    bool lines = bytes % LINE == 0 && fby__cpu_has_avx2();
    for (size_t i = 0; i < n && lines; i++)
        lines = (uintptr_t)to[i] % LINE == 0;
    if (lines) {
        scatter_lines(to, from, bytes, n);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n && to[i + AHEAD])
            __builtin_prefetch(to[i + AHEAD], 1, 0);
        if (to[i])
            memcpy(to[i], from[i], bytes);
    }
}
