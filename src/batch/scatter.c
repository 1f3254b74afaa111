/*
 * Scatters: rows of a block → the batches that want them. The block has just been decoded and lies in the cache; where its rows go does
 * not, and each goes elsewhere. Whole lines are therefore written past the caches: a store that misses would first read the line it
 * replaces.
 */
#include "batch/batch.h"

#include "base/cpu.h"
#include "block/prefetch.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define AHEAD 8u /* rows, where lines are not written whole */

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void lines_avx2(uint8_t *const *to, const uint8_t *const *from, size_t bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; to[i] && k < bytes; k += FBY__LINE_BYTES) {
            const __m256i low = _mm256_loadu_si256((const void *)(from[i] + k)),
                          high = _mm256_loadu_si256((const void *)(from[i] + k + 32));
            _mm256_stream_si256((void *)(to[i] + k), low);
            _mm256_stream_si256((void *)(to[i] + k + 32), high);
        }
    _mm_sfence(); /* such stores are ordered by nothing else: whoever gets the batch must see them */
}

__attribute__((target("avx512f"))) static void lines_avx512(uint8_t *const *to, const uint8_t *const *from, size_t bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; to[i] && k < bytes; k += FBY__LINE_BYTES)
            _mm512_stream_si512((void *)(to[i] + k), _mm512_loadu_si512(from[i] + k));
    _mm_sfence(); /* as above */
}
#endif

void fby__scatter_rows(uint8_t *const *to, const uint8_t *const *from, size_t bytes, size_t n)
{
#if defined(__x86_64__)
    bool lines = bytes % FBY__LINE_BYTES == 0 && fby__cpu_has_avx2();
    for (size_t i = 0; i < n && lines; i++)
        lines = (uintptr_t)to[i] % FBY__LINE_BYTES == 0;
    if (lines) {
        if (fby__cpu_has_avx512())
            lines_avx512(to, from, bytes, n);
        else
            lines_avx2(to, from, bytes, n);
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
