/*
 * Gathering rows into a batch: the last copy of the path.
 *
 * The rows of a shuffled batch lie anywhere in the superbatch, so every row is a cache miss: the addresses are known, and a
 * prefetch some rows ahead hides the latency (block/prefetch.h). Rows of 64 bytes to 1 KiB are the common case (16 to 256 float32 columns).
 * Samples of several rows are copied at once; where an output has some of the columns, step by step.
 */
#include "batch/batch.h"

#include "base/cpu.h"
#include "block/convert.h"
#include "block/floats_avx512.h"
#include "block/prefetch.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* How many of the n rows lie one behind the other, from the first on: in file order, nearly all of them. */
static size_t consecutive(const uint8_t *const *rows, size_t row_bytes, size_t n)
{
    size_t k = 1;
    while (k < n && rows[k] == rows[k - 1] + row_bytes)
        k++;
    return k;
}

#if defined(__x86_64__)
/* Rows of whole lines: faster than memcpy with the beginnings of rows prefetched. */
__attribute__((target("avx2"))) static void gather_paged(uint8_t *restrict dst, const uint8_t *const *restrict rows, size_t offset,
                                                         size_t row_bytes, size_t n, size_t n_known)
{
    for (size_t i = 0; i < n; i++, dst += row_bytes) {
        const uint8_t *src = rows[i] + offset, *ahead = rows[i + FBY__PAGED_AHEAD < n_known ? i + FBY__PAGED_AHEAD : i] + offset;
        for (size_t k = 0; k < row_bytes; k += FBY__LINE_BYTES) {
            __builtin_prefetch(ahead + k, 0, 0);
            const __m256i low = _mm256_loadu_si256((const void *)(src + k)), high = _mm256_loadu_si256((const void *)(src + k + 32));
            _mm256_storeu_si256((void *)(dst + k), low);
            _mm256_storeu_si256((void *)(dst + k + 32), high);
        }
    }
}
#endif

/* A constant size lets the compiler emit a few vector moves instead of a call. */
static inline __attribute__((always_inline)) void gather_each(uint8_t *restrict dst, const uint8_t *const *restrict rows, size_t offset,
                                                              const size_t row_bytes, size_t n, size_t n_known)
{
    const size_t ahead = fby__rows_ahead(row_bytes);
    for (size_t i = 0; i < n; i++) {
        if (i + ahead < n_known)
            fby__prefetch_row(rows[i + ahead] + offset, row_bytes);
        memcpy(dst + i * row_bytes, rows[i] + offset, row_bytes);
    }
}

/* The first n of n_known rows: the others come next. */
static void gather_some(uint8_t *restrict dst, const uint8_t *const *restrict rows, size_t offset, size_t row_bytes, size_t n,
                        size_t n_known)
{
    while (n > 1 && rows[1] == rows[0] + row_bytes) {
        size_t k = consecutive(rows, row_bytes, n);
        memcpy(dst, rows[0] + offset, k * row_bytes);
        dst += k * row_bytes;
        rows += k;
        n -= k;
        n_known -= k;
    }
#if defined(__x86_64__)
    if (row_bytes >= FBY__PAGED_MIN && row_bytes <= FBY__PAGED_MAX && row_bytes % FBY__LINE_BYTES == 0 && fby__cpu_has_avx2()) {
        gather_paged(dst, rows, offset, row_bytes, n, n_known);
        return;
    }
#endif
    switch (row_bytes) {
    case 1: gather_each(dst, rows, offset, 1, n, n_known); break;
    case 2: gather_each(dst, rows, offset, 2, n, n_known); break;
    case 4: gather_each(dst, rows, offset, 4, n, n_known); break;
    case 8: gather_each(dst, rows, offset, 8, n, n_known); break;
    case 16: gather_each(dst, rows, offset, 16, n, n_known); break;
    case 32: gather_each(dst, rows, offset, 32, n, n_known); break;
    case 64: gather_each(dst, rows, offset, 64, n, n_known); break;
    case 128: gather_each(dst, rows, offset, 128, n, n_known); break;
    case 256: gather_each(dst, rows, offset, 256, n, n_known); break;
    default: gather_each(dst, rows, offset, row_bytes, n, n_known);
    }
}

static void prefetch_first(const fby__rows *rows, size_t offset, size_t row_bytes)
{
    if (!rows->fetched && rows->n > 1 && rows->at[1] != rows->at[0] + row_bytes) /* else in file order: the hardware's streamer sees that */
        fby__prefetch_first(rows->at, offset, row_bytes, rows->n);
}

void fby__gather_rows(uint8_t *restrict dst, const fby__rows *rows, size_t offset, size_t row_bytes)
{
    prefetch_first(rows, offset, row_bytes);
    if (rows->n > 0)
        gather_some(dst, rows->at, offset, row_bytes, rows->n, rows->n + rows->n_next);
}

#if defined(__x86_64__)
/*
 * Rows of whole lines of float32: converted where they are loaded, without a tile in between. *infinite: there is an infinity
 * among the results of float64, which may have been a number.
 */
FBY__TARGET_FLOATS static inline __attribute__((always_inline)) void gather_floats(uint8_t *restrict dst,
                                                                                   const uint8_t *const *restrict rows, size_t offset,
                                                                                   size_t n_elements, size_t n, size_t n_known,
                                                                                   bool *infinite, const fby_dtype stored)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), infinity = _mm512_set1_epi32(0x7f800000);
    __mmask16 found = 0;
    const size_t line_bytes = fby__floats_load_bytes(stored), row_bytes = n_elements / 16 * line_bytes; /* of the source, a line's */
    const size_t ahead = row_bytes >= FBY__PAGED_MIN ? FBY__PAGED_AHEAD : fby__rows_ahead(row_bytes);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *src = rows[i] + offset, *later = rows[i + ahead < n_known ? i + ahead : i] + offset;
        for (size_t at = 0; at < row_bytes; at += line_bytes, dst += 64) {
            if (at % 64 == 0)
                for (size_t k = 0; k < line_bytes; k += 64)
                    __builtin_prefetch(later + at + k, 0, 0);
            const __m512 x = fby__floats_load(src + at, stored);
            if (stored == FBY_FLOAT64)
                found |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(x), magnitude), infinity);
            _mm512_storeu_ps((void *)dst, x);
        }
    }
    *infinite = found != 0;
}

FBY__TARGET_FLOATS static bool gather_any_floats(uint8_t *dst, const fby__rows *rows, size_t offset, size_t n_elements, fby_dtype stored)
{
    bool infinite;
    FBY__FLOATS_EACH(stored, gather_floats, dst, rows->at, offset, n_elements, rows->n, rows->n + rows->n_next, &infinite)
    return infinite;
}
#endif

#define TILE_BYTES 8192u /* source rows gathered at once before converting: stays in the L1 cache */

fby_status fby__gather_convert(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const fby__rows *rows, size_t offset,
                               size_t n_elements, size_t *out_row)
{
    const size_t n = rows->n;
    _Alignas(64) uint8_t tile[TILE_BYTES];
    size_t src_bytes = n_elements * fby_dtype_bytes(src_dtype), dst_bytes = n_elements * fby_dtype_bytes(dst_dtype), bad = 0;
    size_t at_once = src_bytes ? TILE_BYTES / src_bytes : n;
    if (at_once)
        prefetch_first(rows, offset, src_bytes);
#if defined(__x86_64__)
    if (dst_dtype == FBY_FLOAT32 && fby__floats_loads(src_dtype) && dst_bytes % FBY__LINE_BYTES == 0 && fby__cpu_has_avx512() &&
        !gather_any_floats(dst, rows, offset, n_elements, src_dtype))
        return FBY_OK; /* else below it is seen whether all of them were infinite before */
#endif
    for (size_t i = 0; i < n;) {
        const void *src;
        size_t n_now = 1;
        if (at_once == 0) { /* a row wider than the tile: straight from the panel */
            src = rows->at[i] + offset;
        } else {
            n_now = n - i < at_once ? n - i : at_once;
            gather_some(tile, rows->at + i, offset, src_bytes, n_now, n + rows->n_next - i);
            src = tile;
        }
        fby_status status = fby__convert(dst_dtype, dst + i * dst_bytes, src_dtype, src, n_now * n_elements, FBY__SCALE_NONE, &bad);
        if (status != FBY_OK) {
            *out_row = i + bad / n_elements;
            return status;
        }
        i += n_now;
    }
    return FBY_OK;
}

/* Pieces of one sample: sizes of a few elements become single moves. */
#define STEPS_FIXED(bytes)                                                                                                                 \
    for (uint64_t k = 0; k < n; k++, dst += (bytes), src += stride)                                                                        \
        memcpy(dst, src, bytes);                                                                                                           \
    break

/* Pieces between two such sizes: the first and the last bytes of each, which meet. */
#define STEPS_OVERLAPPING(half)                                                                                                            \
    for (uint64_t k = 0; k < n; k++, dst += step, src += stride) {                                                                         \
        memcpy(dst, src, half);                                                                                                            \
        memcpy(dst + step - (half), src + step - (half), half);                                                                            \
    }                                                                                                                                      \
    break

static void copy_steps(uint8_t *restrict dst, const uint8_t *restrict src, size_t stride, size_t step, uint64_t n)
{
    switch (step) {
    case 1: STEPS_FIXED(1);
    case 2: STEPS_FIXED(2);
    case 4: STEPS_FIXED(4);
    case 8: STEPS_FIXED(8);
    case 16: STEPS_FIXED(16);
    case 32: STEPS_FIXED(32);
    case 64: STEPS_FIXED(64);
    default:
        switch (step / 8) {
        case 0: STEPS_FIXED(step);
        case 1: STEPS_OVERLAPPING(8);
        case 2:
        case 3: STEPS_OVERLAPPING(16);
        case 4:
        case 5:
        case 6:
        case 7: STEPS_OVERLAPPING(32);
        default: STEPS_FIXED(step);
        }
    }
}

void fby__gather_steps(uint8_t *dst, const uint8_t *const *rows, const fby__steps *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n)
            fby__prefetch_row(rows[i + 1] + s->offset, s->row_bytes * s->n_steps);
        copy_steps(dst, rows[i] + s->offset, s->row_bytes, s->step_bytes, s->n_steps);
        dst += s->step_bytes * s->n_steps;
    }
}

fby_status fby__gather_steps_convert(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const uint8_t *const *rows,
                                     const fby__steps *s, size_t n, size_t *out_row)
{
    _Alignas(64) uint8_t tile[TILE_BYTES];
    size_t n_elements = s->step_bytes / fby_dtype_bytes(src_dtype), dst_bytes = n_elements * fby_dtype_bytes(dst_dtype), bad;
    uint64_t at_once = s->step_bytes ? TILE_BYTES / s->step_bytes : s->n_steps;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = rows[i] + s->offset;
        for (uint64_t k = 0; k < s->n_steps;) {
            const uint8_t *src = row + k * s->row_bytes;
            uint64_t n_now = 1;
            if (at_once > 0) { /* else a step is wider than the tile: straight from the panel */
                n_now = s->n_steps - k < at_once ? s->n_steps - k : at_once;
                copy_steps(tile, src, s->row_bytes, s->step_bytes, n_now);
                src = tile;
            }
            fby_status status = fby__convert(dst_dtype, dst, src_dtype, src, n_now * n_elements, FBY__SCALE_NONE, &bad);
            if (status != FBY_OK) {
                *out_row = i;
                return status;
            }
            dst += n_now * dst_bytes;
            k += n_now;
        }
    }
    return FBY_OK;
}
