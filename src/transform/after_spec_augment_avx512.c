/*
 * SpecAugment with AVX-512: the draws and masks of after_spec_augment.c by masked stores, so that nothing is compared or guessed; and rows
 * that are masked on their way to the batch.
 */
#include "transform/after_internal.h"

#if defined(__x86_64__)
#include "base/checked.h"

#include <immintrin.h>
#include <string.h>

#define LANES FBY__MASK_LANES
#define MASKS FBY__MASKS_AT_ONCE
#define MAX_MASKED 1024u /* bytes that are stored by masks rather than guessed where they end */
#define TARGET_AVX512 __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl")))

enum { VECTORS = LANES / 8 }; /* side by side: a round is a chain of a multiplication and two more. Half as many lose a third */

/* What is drawn for a mask of LANES results, in bytes. */
typedef struct byte_masks {
    uint64_t begin[LANES], bytes[LANES];
    uint64_t mask[LANES]; /* bytes of 64; of each cycle, where the axis has cycles of it, else from begin on */
} byte_masks;

TARGET_AVX512 static inline void set_byte_masks(byte_masks *b, size_t l, const fby__mask_axis *a, __m512i u, __m512i v)
{
    const __m512i widths = _mm512_set1_epi64((long long)a->max_width + 1), room = _mm512_set1_epi64((long long)a->size + 1);
    const __m512i each = _mm512_set1_epi64((long long)a->run_bytes), ones = _mm512_set1_epi64(-1);
    const __m512i width = _mm512_srli_epi64(_mm512_mul_epu32(u, widths), 32);
    const __m512i place = _mm512_srli_epi64(_mm512_mul_epu32(v, _mm512_sub_epi64(room, width)), 32);
    const __m512i begin = _mm512_mullo_epi64(place, each), bytes = _mm512_mullo_epi64(width, each);
    __m512i mask = _mm512_andnot_si512(_mm512_sllv_epi64(ones, bytes), ones); /* all of them from 64 on */
    if (a->repeat)
        mask =
            _mm512_mullo_epi64(_mm512_sllv_epi64(mask, begin), _mm512_set1_epi64((long long)a->repeat)); /* cycles do not meet: no carry */
    _mm512_storeu_si512(b->begin + l, begin);
    _mm512_storeu_si512(b->bytes + l, bytes);
    _mm512_storeu_si512(b->mask + l, mask);
}

/* The draws of draw_plain, eight samples in the lanes of 64 bits. */
TARGET_AVX512 static inline __attribute__((always_inline)) void
draw_avx512(const fby__mask_axis *const *axis, const uint32_t n, uint64_t key, uint64_t hi, const uint64_t *id, byte_masks *masks)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    const __m512i step0 = _mm512_set1_epi64(0x9E3779B9), step1 = _mm512_set1_epi64(0xBB67AE85);
    __m512i k0 = _mm512_set1_epi64((uint32_t)key), k1 = _mm512_set1_epi64((long long)(key >> 32)), c[VECTORS][4];
    for (size_t v = 0; v < VECTORS; v++) {
        c[v][0] = _mm512_loadu_si512(id + 8 * v);
        c[v][1] = _mm512_srli_epi64(c[v][0], 32);
        c[v][2] = _mm512_set1_epi64((long long)hi);
        c[v][3] = _mm512_srli_epi64(c[v][2], 32);
    }
    for (int round = 0; round < 10; round++) {
        for (size_t v = 0; v < VECTORS; v++) {
            const __m512i p0 = _mm512_mul_epu32(c[v][0], m0), p1 = _mm512_mul_epu32(c[v][2], m1);
            c[v][0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c[v][1], k0, 0x96); /* all three, by xor */
            c[v][2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c[v][3], k1, 0x96);
            c[v][1] = p1;
            c[v][3] = p0;
        }
        k0 = _mm512_add_epi32(k0, step0);
        k1 = _mm512_add_epi32(k1, step1);
    }
    for (uint32_t m = 0; m < n; m++)
        for (size_t v = 0; v < VECTORS; v++)
            set_byte_masks(&masks[m], 8 * v, axis[m], m ? c[v][2] : c[v][0], m ? c[v][3] : c[v][1]);
}

static inline const fby__mask_axis *axis_of(const fby__spec_augment *s, uint32_t mask) { return &s->axis[mask >= s->axis[0].n]; }

/* Masks k to k + n_masks of LANES results. */
TARGET_AVX512 static inline void draw_some(const fby__spec_augment *s, uint32_t k, uint32_t n_masks, uint64_t key, const uint64_t *id,
                                           byte_masks *masks)
{
    for (uint32_t m = 0; m < n_masks; m += 2) {
        const fby__mask_axis *axis[2] = {axis_of(s, k + m), axis_of(s, k + m + 1)};
        const uint64_t hi = s->purpose ^ (uint64_t)(k + m) << 32;
        if (n_masks - m < 2)
            draw_avx512(axis, 1, key, hi, id, masks + m);
        else
            draw_avx512(axis, 2, key, hi, id, masks + m);
    }
}

/* Up to `most` bytes, wherever they lie: no wider than it takes, since every other wide store meets two lines. */
TARGET_AVX512 static inline void store_bytes(uint8_t *to, __mmask64 mask, __m512i value, size_t most)
{
    if (most <= 16)
        _mm_mask_storeu_epi8(to, (__mmask16)mask, _mm512_castsi512_si128(value));
    else if (most <= 32)
        _mm256_mask_storeu_epi8(to, (__mmask32)mask, _mm512_castsi512_si256(value));
    else
        _mm512_mask_storeu_epi8(to, mask, value);
}

/* One mask of LANES results on an axis without cycles. */
typedef struct run_masks {
    size_t stride, max_bytes, outer;
    const byte_masks *masks;
} run_masks;

static inline run_masks runs_of(const fby__mask_axis *a, const byte_masks *masks)
{
    return (run_masks){a->size * a->run_bytes, a->max_width * a->run_bytes, a->outer, masks};
}

TARGET_AVX512 static inline void store_runs(const run_masks r, size_t l, uint8_t *dst, __m512i value, const uint8_t *pattern)
{
    uint8_t *at = dst + r.masks->begin[l];
    if (r.max_bytes <= 64) {
        const __mmask64 mask = r.masks->mask[l];
        for (size_t i = 0; i < r.outer; i++, at += r.stride)
            store_bytes(at, mask, value, r.max_bytes);
    } else if (r.outer * r.max_bytes <= MAX_MASKED) {
        const size_t bytes = r.masks->bytes[l];
        for (size_t i = 0; i < r.outer; i++, at += r.stride)
            for (size_t k = 0; k < r.max_bytes; k += 64) {
                const size_t left = bytes > k ? bytes - k : 0;
                _mm512_mask_storeu_epi8(at + k, _bzhi_u64(UINT64_MAX, (unsigned)fby__min_u64(left, 64)), value);
            }
    } else {
        fby__masks_fill_runs(at, r.outer, r.stride, r.masks->bytes[l], pattern);
    }
}

/* The same bytes of each 64 of a result. */
TARGET_AVX512 static inline void store_cycles(uint8_t *dst, size_t bytes, __mmask64 mask, __m512i value)
{
    size_t at = 0;
    for (; at + 64 <= bytes; at += 64)
        _mm512_mask_storeu_epi8(dst + at, mask, value);
    if (at < bytes)
        _mm512_mask_storeu_epi8(dst + at, mask & _bzhi_u64(UINT64_MAX, (unsigned)(bytes - at)), value);
}

TARGET_AVX512 void fby__masks_run_avx512(const fby__spec_augment *s, uint32_t k, uint32_t n_masks, uint64_t key, const uint64_t *id,
                                         uint8_t *dst, uint32_t n_results)
{
    const __m512i value = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)s->pattern));
    const size_t bytes = s->result_bytes;
    byte_masks masks[MASKS];
    draw_some(s, k, n_masks, key, id, masks);
    for (uint32_t m = 0; m < n_masks; m++) {
        const fby__mask_axis *a = axis_of(s, k + m);
        const run_masks runs = runs_of(a, &masks[m]);
        if (a->repeat)
            for (size_t l = 0; l < n_results; l++)
                store_cycles(dst + l * bytes, bytes, masks[m].mask[l], value);
        else
            for (size_t l = 0; l < n_results; l++)
                store_runs(runs, l, dst + l * bytes, value, s->pattern);
    }
}

/* ---- rows that are masked on their way to the batch ---- */

/* What is drawn for LANES rows, by the lines of a row: the same line n_lines on is masked alike. */
typedef struct row_masks {
    uint64_t line[FBY__MAX_CYCLE_LINES][LANES]; /* bytes of 64 */
    size_t n_lines;
    uint32_t n_runs; /* masks that are stored when the row is there */
    run_masks runs[MASKS];
} row_masks;

/* Bits from 0 to x of 64, for any x. */
TARGET_AVX512 static inline __m512i bits_below(__m512i x)
{
    const __m512i ones = _mm512_set1_epi64(-1);
    x = _mm512_min_epi64(_mm512_max_epi64(x, _mm512_setzero_si512()), _mm512_set1_epi64(64));
    return _mm512_andnot_si512(_mm512_sllv_epi64(ones, x), ones);
}

TARGET_AVX512 static inline void add_lines(row_masks *to, const fby__mask_axis *a, const byte_masks *b)
{
    for (size_t q = 0; q < to->n_lines; q++) {
        const __m512i first = _mm512_set1_epi64((long long)(64 * (q % a->n_lines)));
        for (size_t l = 0; l < LANES; l += 8) {
            const __m512i begin = _mm512_sub_epi64(_mm512_loadu_si512(b->begin + l), first);
            const __m512i end = _mm512_add_epi64(begin, _mm512_loadu_si512(b->bytes + l));
            const __m512i mask = a->repeat ? _mm512_loadu_si512(b->mask + l) : _mm512_andnot_si512(bits_below(begin), bits_below(end));
            _mm512_storeu_si512(to->line[q] + l, _mm512_or_si512(_mm512_loadu_si512(to->line[q] + l), mask));
        }
    }
}

TARGET_AVX512 static inline void gather_masks(row_masks *to, const fby__spec_augment *s, uint32_t n_masks, const byte_masks *masks)
{
    to->n_lines = 1;
    to->n_runs = 0;
    for (uint32_t m = 0; m < n_masks; m++)
        if (axis_of(s, m)->n_lines > to->n_lines) /* a multiple of the other axis' */
            to->n_lines = axis_of(s, m)->n_lines;
    for (size_t q = 0; q < to->n_lines; q++)
        memset(to->line[q], 0, sizeof to->line[q]);
    for (uint32_t m = 0; m < n_masks; m++) {
        const fby__mask_axis *a = axis_of(s, m);
        if (a->n_lines)
            add_lines(to, a, &masks[m]);
        else
            to->runs[to->n_runs++] = runs_of(a, &masks[m]);
    }
}

/* n lines of a row, all of them read before one is written: 10 % faster at 512 bytes. The row that comes some rows later is fetched. */
TARGET_AVX512 static inline __attribute__((always_inline)) void copy_lines(uint8_t *dst, const uint8_t *src, const uint8_t *later,
                                                                           const size_t n, const row_masks *masks, const size_t n_lines,
                                                                           size_t q, size_t l, __m512i value)
{
    __m512i x[FBY__MAX_CYCLE_LINES];
    for (size_t k = 0; k < n; k++) {
        __builtin_prefetch(later + 64 * k, 0, 0);
        x[k] = _mm512_mask_mov_epi8(_mm512_loadu_si512(src + 64 * k), masks->line[(q + k) & (n_lines - 1)][l], value);
    }
    for (size_t k = 0; k < n; k++)
        _mm512_storeu_si512(dst + 64 * k, x[k]);
}

TARGET_AVX512 static inline __attribute__((always_inline)) void copy_masked(uint8_t *dst, const uint8_t *src, const uint8_t *later,
                                                                            const size_t bytes, const row_masks *masks,
                                                                            const size_t n_lines, size_t l, __m512i value)
{
    enum { N = FBY__MAX_CYCLE_LINES };
    size_t at = 0;
    for (; at + 64 * N <= bytes; at += 64 * N)
        copy_lines(dst + at, src + at, later + at, N, masks, n_lines, 0, l, value);
    for (; at + 64 <= bytes; at += 64)
        copy_lines(dst + at, src + at, later + at, 1, masks, n_lines, at / 64, l, value);
    if (at < bytes) { /* less than a line, and of one line's masks */
        const __mmask64 rest = _bzhi_u64(UINT64_MAX, (unsigned)(bytes - at));
        __builtin_prefetch(later + at, 0, 0);
        _mm512_mask_storeu_epi8(dst + at, rest, _mm512_mask_mov_epi8(_mm512_maskz_loadu_epi8(rest, src + at), masks->line[0][l], value));
    }
}

TARGET_AVX512 static inline __attribute__((always_inline)) void copy_rows(const fby__spec_augment *s, const row_masks *masks, uint8_t *dst,
                                                                          const size_t bytes, const size_t n_lines,
                                                                          const fby__rows_left *rows, size_t n)
{
    const __m512i value = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)s->pattern));
    const uint8_t *const *row = rows->row;
    const size_t offset = rows->offset, ahead = rows->ahead, n_left = rows->n;
    for (size_t l = 0; l < n; l++, dst += bytes) {
        copy_masked(dst, row[l] + offset, row[l + ahead < n_left ? l + ahead : l] + offset, bytes, masks, n_lines, l, value);
        for (uint32_t r = 0; r < masks->n_runs; r++)
            store_runs(masks->runs[r], l, dst, value, s->pattern);
    }
}

/* The first n_masks masks of n of the rows. */
TARGET_AVX512 void fby__masks_gather_avx512(const fby__spec_augment *s, uint32_t n_masks, uint64_t key, const uint64_t *id, uint8_t *dst,
                                            const fby__rows_left *rows, size_t n)
{
    const size_t bytes = s->result_bytes;
    byte_masks masks[MASKS];
    row_masks of;
    draw_some(s, 0, n_masks, key, id, masks);
    gather_masks(&of, s, n_masks, masks);
    if (bytes == 128 && of.n_lines == 2) /* cells of 32 float32: nothing to count */
        copy_rows(s, &of, dst, 128, 2, rows, n);
    else if (of.n_lines == 1)
        copy_rows(s, &of, dst, bytes, 1, rows, n);
    else
        copy_rows(s, &of, dst, bytes, of.n_lines, rows, n);
}
#endif
