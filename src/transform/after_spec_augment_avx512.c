/*
 * SpecAugment with AVX-512: the draws and masks of after_spec_augment.c by masked stores, so that nothing is compared or guessed; and rows
 * that are masked on their way to the batch.
 */
#include "transform/after_internal.h"

#if defined(__x86_64__)
#include "base/checked.h"
#include "base/random.h"
#include "block/floats_avx512.h"
#include "block/prefetch.h"

#include <immintrin.h>
#include <string.h>

#define LANES FBY__MASK_LANES
#define MASKS FBY__MASKS_AT_ONCE
#define MAX_MASKED 1024u /* bytes that are stored by masks rather than guessed where they end */
#define TARGET_AVX512 FBY__TARGET_FLOATS

/* Draws side by side, eight to a vector: a round is a chain of a multiplication and two more, and half as many lose a third. */
enum { VECTORS = LANES / 8 };

/* What is drawn for a mask of eight results, in bytes. */
typedef struct extents {
    __m512i begin, bytes;
} extents;

/* The draws of draw_plain, eight samples in the lanes of 64 bits: c is the counter, then what is drawn, in the low halves. */
TARGET_AVX512 static inline __attribute__((always_inline)) void philox_avx512(const fby__mask_stream *stream, const size_t n_vectors,
                                                                              __m512i (*c)[2])
{
    const __m512i factor = _mm512_set1_epi64(FBY__PHILOX2_FACTOR), scatter = _mm512_set1_epi64((long long)stream->scatter);
    for (size_t v = 0; v < n_vectors; v++) {
        c[v][0] = _mm512_xor_si512(c[v][0], scatter);
        c[v][1] = _mm512_srli_epi64(c[v][0], 32);
    }
    for (int round = 0; round < FBY__PHILOX2_ROUNDS; round++) {
        const __m512i key = _mm512_set1_epi64(stream->key + (uint32_t)round * FBY__PHILOX2_STEP);
        for (size_t v = 0; v < n_vectors; v++) {
            const __m512i p = _mm512_mul_epu32(c[v][0], factor);
            c[v][0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), c[v][1], key, 0x96); /* all three, by xor */
            c[v][1] = p;
        }
    }
}

/* Of a number and, where a mask takes two, of the next. */
TARGET_AVX512 static inline extents extents_of(const fby__spec_augment *s, const fby__mask_axis *a, __m512i u, __m512i next)
{
    const __m512i widths = _mm512_set1_epi64((long long)a->max_width + 1), room = _mm512_set1_epi64((long long)a->size + 1);
    const __m512i each = _mm512_set1_epi64((long long)a->run_bytes);
    const __m512i wide = _mm512_mul_epu32(u, widths), width = _mm512_srli_epi64(wide, 32);
    const __m512i place = _mm512_srli_epi64(_mm512_mul_epu32(s->n_numbers == 2 ? next : wide, _mm512_sub_epi64(room, width)), 32);
    return (extents){_mm512_mullo_epi64(place, each), _mm512_mullo_epi64(width, each)};
}

/* The lowest x bits, of any x ≥ 0; 64 at most. */
TARGET_AVX512 static inline __m512i low_bits(__m512i x)
{
    const __m512i ones = _mm512_set1_epi64(-1);
    return _mm512_andnot_si512(_mm512_sllv_epi64(ones, x), ones);
}

/* Bytes of 64, of an axis with cycles of them. Cycles do not meet: no carry. */
TARGET_AVX512 static inline __m512i cycles_of(const fby__mask_axis *a, extents e)
{
    return _mm512_mullo_epi64(_mm512_sllv_epi64(low_bits(e.bytes), e.begin), _mm512_set1_epi64((long long)a->repeat));
}

/* What is drawn for a mask of LANES results, as masks are stored. */
typedef struct byte_masks {
    uint64_t begin[LANES], bytes[LANES];
    uint64_t mask[LANES]; /* bytes of 64; of each cycle, where the axis has cycles of it, else from begin on */
} byte_masks;

TARGET_AVX512 static inline void set_byte_masks(byte_masks *b, size_t l, const fby__mask_axis *a, extents e)
{
    _mm512_storeu_si512(b->begin + l, e.begin);
    _mm512_storeu_si512(b->bytes + l, e.bytes);
    _mm512_storeu_si512(b->mask + l, a->repeat ? cycles_of(a, e) : low_bits(e.bytes));
}

static inline const fby__mask_axis *axis_of(const fby__spec_augment *s, uint32_t mask) { return &s->axis[mask >= s->axis[0].n]; }

/* Masks k to k + n_masks of LANES results. */
TARGET_AVX512 static inline void draw_some(const fby__spec_augment *s, uint32_t k, uint32_t n_masks, const fby__mask_stream *streams,
                                           const uint64_t *id, byte_masks *masks)
{
    const uint32_t a_draw = fby__masks_a_draw(s);
    for (uint32_t m = 0; m < n_masks; m += a_draw) {
        __m512i u[VECTORS][2];
        for (size_t v = 0; v < VECTORS; v++)
            u[v][0] = _mm512_loadu_si512(id + 8 * v);
        philox_avx512(streams++, VECTORS, u);
        for (uint32_t i = 0; i < a_draw && m + i < n_masks; i++) {
            const fby__mask_axis *a = axis_of(s, k + m + i);
            for (size_t v = 0; v < VECTORS; v++)
                set_byte_masks(&masks[m + i], 8 * v, a, extents_of(s, a, u[v][i], u[v][1]));
        }
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

TARGET_AVX512 void fby__masks_run_avx512(const fby__spec_augment *s, uint32_t k, uint32_t n_masks, const fby__mask_stream *streams,
                                         const uint64_t *id, uint8_t *dst, uint32_t n_results)
{
    const __m512i value = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)s->pattern));
    const size_t bytes = s->result_bytes;
    byte_masks masks[MASKS];
    draw_some(s, k, n_masks, streams, id, masks);
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

/*
 * Eight at a time: a core that waits for rows draws for the next eight meanwhile, which it does not reach where 32 are drawn at once.
 */
enum { GROUP = 8, MAX_LINES = FBY__MAX_CYCLE_LINES };

/* What is drawn for a group of rows, by the lines of a row: the same line n_lines on is masked alike. */
typedef struct row_masks {
    uint64_t keep[MAX_LINES][GROUP]; /* bytes of 64 that stay */
    const byte_masks *whole;         /* the mask of whole cycles of lines, where rows are long; or NULL */
    uint32_t n_runs;                 /* masks that are stored when the row is there */
    run_masks runs[MASKS];
    byte_masks drawn[MASKS];
} row_masks;

TARGET_AVX512 static inline __m512i line_of(extents e, size_t line)
{
    const __m512i zero = _mm512_setzero_si512(), first = _mm512_set1_epi64((long long)(64 * line));
    const __m512i begin = _mm512_max_epi64(_mm512_sub_epi64(e.begin, first), zero);
    const __m512i end = _mm512_max_epi64(_mm512_sub_epi64(_mm512_add_epi64(e.begin, e.bytes), first), zero);
    return _mm512_andnot_si512(low_bits(begin), low_bits(end));
}

TARGET_AVX512 static inline __attribute__((always_inline)) void
add_mask(row_masks *to, __m512i *line, const size_t n_lines, const fby__mask_axis *a, extents e, byte_masks *drawn, const bool is_paged)
{
    if (a->repeat) {
        const __m512i mask = cycles_of(a, e);
        for (size_t q = 0; q < n_lines; q++)
            line[q] = _mm512_or_si512(line[q], mask);
    } else if (a->n_lines) {
        for (size_t q = 0; q < n_lines; q++)
            line[q] = _mm512_or_si512(line[q], line_of(e, q & (a->n_lines - 1)));
    } else {
        set_byte_masks(drawn, 0, a, e);
        if (!to->whole && a->outer == 1 && a->run_bytes % (64 * n_lines) == 0 && is_paged)
            to->whole = drawn;
        else
            to->runs[to->n_runs++] = runs_of(a, drawn);
    }
}

/* The first n_masks masks of n ≤ GROUP rows; a_draw: of so many masks at once; is_paged: which copy_paged copies. */
TARGET_AVX512 static inline __attribute__((always_inline)) void draw_rows(row_masks *to, const fby__spec_augment *s, const uint32_t n_masks,
                                                                          const uint32_t a_draw, const fby__mask_stream *streams,
                                                                          const uint64_t *id, size_t n, const size_t n_lines,
                                                                          const bool is_paged)
{
    const __m512i numbers = n < GROUP ? _mm512_maskz_loadu_epi64((__mmask8)((1u << n) - 1), id) : _mm512_loadu_si512(id);
    __m512i u[1][2], line[MAX_LINES];
    for (size_t q = 0; q < n_lines; q++)
        line[q] = _mm512_setzero_si512();
    to->n_runs = 0;
    to->whole = NULL;
    for (uint32_t m = 0; m < n_masks; m += a_draw) {
        u[0][0] = numbers;
        philox_avx512(streams++, 1, u);
        for (uint32_t i = 0; i < a_draw && m + i < n_masks; i++) {
            const fby__mask_axis *a = axis_of(s, m + i);
            add_mask(to, line, n_lines, a, extents_of(s, a, u[0][i], u[0][1]), &to->drawn[m + i], is_paged);
        }
    }
    for (size_t q = 0; q < n_lines; q++)
        _mm512_storeu_si512(to->keep[q], _mm512_andnot_si512(line[q], _mm512_set1_epi64(-1)));
}

/* The same once for all loops that copy more than it takes to call it. */
TARGET_AVX512 static __attribute__((noinline)) void draw_any_rows(row_masks *to, const fby__spec_augment *s, uint32_t n_masks,
                                                                  const fby__mask_stream *streams, const uint64_t *id, size_t n,
                                                                  size_t n_lines, bool is_paged)
{
    draw_rows(to, s, n_masks, fby__masks_a_draw(s), streams, id, n, n_lines, is_paged);
}

#define AS_IT_LIES FBY_DTYPE_NONE /* for `stored` below: rows are of the results' dtype; else they become float32 on their way */

/* Of a row, what becomes a line of the result. */
static inline __attribute__((always_inline)) size_t source_bytes(const fby_dtype stored)
{
    return stored == AS_IT_LIES ? 64 : fby__floats_load_bytes(stored);
}

/* What lies `from` bytes behind `later`, where a line of it begins. */
static inline __attribute__((always_inline)) void fetch(const uint8_t *later, size_t from, const fby_dtype stored)
{
    if (from % 64 == 0)
        for (size_t k = 0; k < source_bytes(stored); k += 64)
            __builtin_prefetch(later + from + k, 0, 0);
}

/*
 * Lines q to `end` of a row of a page or more: whole cycles. One line after the other, by halves where it is copied as it lies, and under
 * masks that stay in registers: that costs as much as a plain copy, and eight lines at once, another instruction a half or a mask from
 * memory 4 to 15 %.
 */
TARGET_AVX512 static inline __attribute__((always_inline)) void copy_cycles(uint8_t *dst, const uint8_t *src, const uint8_t *later,
                                                                            size_t q, size_t end, const __mmask32 *keep,
                                                                            const size_t n_lines, __m512i value, const fby_dtype stored)
{
    const __m256i half = _mm512_castsi512_si256(value);
    for (; q < end; q += n_lines)
        for (size_t k = 0; k < n_lines; k++) {
            const size_t from = (q + k) * source_bytes(stored);
            uint8_t *to = dst + 64 * (q + k);
            fetch(later, from, stored);
            if (stored == AS_IT_LIES) {
                const __m256i low = _mm256_mask_loadu_epi8(half, keep[2 * k], src + from);
                const __m256i high = _mm256_mask_loadu_epi8(half, keep[2 * k + 1], src + from + 32);
                _mm256_storeu_si256((void *)to, low);
                _mm256_storeu_si256((void *)(to + 32), high);
            } else {
                const __m512 x = fby__floats_load(src + from, stored);
                _mm512_storeu_ps(to, _mm512_mask_mov_ps(_mm512_castsi512_ps(value), (__mmask16)keep[2 * k], x));
            }
        }
}

/* All lines of such a row that are whole. What is masked as a whole is written once. */
TARGET_AVX512 static inline __attribute__((always_inline)) void copy_paged(uint8_t *dst, const uint8_t *src, const uint8_t *later,
                                                                           size_t bytes, const row_masks *masks, const size_t n_lines,
                                                                           size_t l, __m512i value, const fby_dtype stored)
{
    const size_t begin = masks->whole ? masks->whole->begin[l] / 64 : 0, end = begin + (masks->whole ? masks->whole->bytes[l] / 64 : 0);
    __mmask32 keep[2 * MAX_LINES]; /* of each half of a line, or of its elements */
    for (size_t q = 0; q < n_lines; q++) {
        const uint64_t bytes_kept = masks->keep[q][l];
        keep[2 * q] = (__mmask32)(stored == AS_IT_LIES ? bytes_kept : _pext_u64(bytes_kept, UINT64_C(0x1111111111111111)));
        keep[2 * q + 1] = (__mmask32)(bytes_kept >> 32);
    }
    copy_cycles(dst, src, later, 0, begin, keep, n_lines, value, stored);
    for (size_t q = begin; q < end; q++) {
        fetch(later, q * source_bytes(stored), stored);
        _mm256_storeu_si256((void *)(dst + 64 * q), _mm512_castsi512_si256(value));
        _mm256_storeu_si256((void *)(dst + 64 * q + 32), _mm512_castsi512_si256(value));
    }
    copy_cycles(dst, src, later, end, bytes / 64, keep, n_lines, value, stored); /* cycles end with the row, or n_lines is 1 */
}

/*
 * Lines q to q + n of a row, all of them read before one is written: 10 % faster at 512 bytes. dst, src and later are the row's. The row
 * that comes some rows later is fetched.
 */
TARGET_AVX512 static inline __attribute__((always_inline)) void copy_lines(uint8_t *dst, const uint8_t *src, const uint8_t *later,
                                                                           const size_t n, const row_masks *masks, const size_t n_lines,
                                                                           size_t q, size_t l, __m512i value, const fby_dtype stored)
{
    __m512i x[MAX_LINES];
    for (size_t k = 0; k < n; k++) {
        const size_t from = (q + k) * source_bytes(stored);
        const __mmask64 keep = masks->keep[(q + k) & (n_lines - 1)][l];
        fetch(later, from, stored);
        if (stored == AS_IT_LIES)
            x[k] = _mm512_mask_loadu_epi8(value, keep, src + from);
        else
            x[k] = _mm512_mask_mov_epi8(value, keep, _mm512_castps_si512(fby__floats_load(src + from, stored)));
    }
    for (size_t k = 0; k < n; k++)
        _mm512_storeu_si512(dst + 64 * (q + k), x[k]);
}

TARGET_AVX512 static inline __attribute__((always_inline)) void copy_masked(uint8_t *dst, const uint8_t *src, const uint8_t *later,
                                                                            const size_t bytes, const row_masks *masks,
                                                                            const size_t n_lines, size_t l, __m512i value,
                                                                            const fby_dtype stored)
{
    const size_t n = bytes / 64, rest = bytes % 64;
    size_t q = 0;
    if (bytes >= FBY__PAGED_MIN) {
        if (stored == AS_IT_LIES) /* then n_lines is known where this is compiled */
            copy_paged(dst, src, later, bytes, masks, n_lines, l, value, stored);
        else if (n_lines == 1)
            copy_paged(dst, src, later, bytes, masks, 1, l, value, stored);
        else if (n_lines == 2)
            copy_paged(dst, src, later, bytes, masks, 2, l, value, stored);
        else if (n_lines == 4)
            copy_paged(dst, src, later, bytes, masks, 4, l, value, stored);
        else
            copy_paged(dst, src, later, bytes, masks, 8, l, value, stored);
        q = n;
    }
    for (; q + MAX_LINES <= n; q += MAX_LINES)
        copy_lines(dst, src, later, MAX_LINES, masks, n_lines, q, l, value, stored);
    for (; q < n; q++)
        copy_lines(dst, src, later, 1, masks, n_lines, q, l, value, stored);
    if (rest) { /* less than a line, and of one line's masks; as it lies */
        const __mmask64 mask = _bzhi_u64(UINT64_MAX, (unsigned)rest);
        __builtin_prefetch(later + 64 * n, 0, 0);
        _mm512_mask_storeu_epi8(dst + 64 * n, mask, _mm512_mask_loadu_epi8(value, mask & masks->keep[0][l], src + 64 * n));
    }
}

/* is_cell: of 128 bytes, two lines, two masks: nothing to count, and no runs. */
TARGET_AVX512 static inline __attribute__((always_inline)) void gather(const fby__spec_augment *s, uint32_t n_masks,
                                                                       const fby__mask_stream *streams, const uint64_t *id, uint8_t *dst,
                                                                       const fby__rows_left *rows, size_t n, const size_t n_lines,
                                                                       const bool is_cell, const fby_dtype stored)
{
    const __m512i value = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)s->pattern));
    const uint8_t *const *row = rows->row;
    const size_t offset = rows->offset, ahead = rows->ahead, n_left = rows->n, bytes = is_cell ? 128 : s->result_bytes;
    row_masks masks;
    const fby__mask_stream first = *streams; /* which no store to dst may change: its keys stay in registers */
    for (size_t i = 0; i < n; i += GROUP, dst += GROUP * bytes) {
        const size_t n_now = fby__min_u64(GROUP, n - i);
        if (is_cell)
            draw_rows(&masks, s, 2, 2, &first, id + i, n_now, 2, false);
        else
            draw_any_rows(&masks, s, n_masks, streams, id + i, n_now, n_lines, bytes >= FBY__PAGED_MIN);
        if (is_cell && n_now == GROUP && i + GROUP + ahead <= n_left) { /* nothing to ask: as many more rows are waited for at once */
            for (size_t l = 0; l < GROUP; l++)
                copy_lines(dst + l * bytes, row[i + l] + offset, row[i + l + ahead] + offset, 2, &masks, 2, 0, l, value, stored);
            continue;
        }
        for (size_t l = 0; l < n_now; l++) {
            uint8_t *to = dst + l * bytes;
            copy_masked(to, row[i + l] + offset, row[i + l + ahead < n_left ? i + l + ahead : i + l] + offset, bytes, &masks, n_lines, l,
                        value, stored);
            for (uint32_t r = 0; r < masks.n_runs; r++)
                store_runs(masks.runs[r], l, to, value, s->pattern);
        }
    }
}

bool fby__masks_convert_avx512(const fby__spec_augment *s, fby_dtype stored)
{
    /* A float64 may be too large for the result, which is to be an error: fby__gather_convert looks. */
    return s->dtype == FBY_FLOAT32 && fby__floats_loads(stored) && stored != FBY_FLOAT64 && s->result_bytes % 64 == 0;
}

/* The first n_masks masks of n of the rows. */
TARGET_AVX512 void fby__masks_gather_avx512(const fby__spec_augment *s, uint32_t n_masks, const fby__mask_stream *streams,
                                            const uint64_t *id, uint8_t *dst, const fby__rows_left *rows, size_t n)
{
    const size_t bytes = s->result_bytes;
    size_t n_lines = 1;
    for (uint32_t m = 0; m < n_masks; m++)
        if (axis_of(s, m)->n_lines > n_lines) /* a multiple of the other axis' */
            n_lines = axis_of(s, m)->n_lines;
    const bool is_cell = bytes == 128 && n_lines == 2 && n_masks == 2 && s->n_numbers == 1;
    if (rows->stored != s->dtype) {
        if (is_cell && rows->stored == FBY_FLOAT16)
            gather(s, 2, streams, id, dst, rows, n, 2, true, FBY_FLOAT16);
        else
            FBY__FLOATS_EACH(rows->stored, gather, s, n_masks, streams, id, dst, rows, n, n_lines, false)
        return;
    }
    if (is_cell) {
        gather(s, 2, streams, id, dst, rows, n, 2, true, AS_IT_LIES);
        return;
    }
    switch (n_lines) {
    case 1: gather(s, n_masks, streams, id, dst, rows, n, 1, false, AS_IT_LIES); break;
    case 2: gather(s, n_masks, streams, id, dst, rows, n, 2, false, AS_IT_LIES); break;
    case 4: gather(s, n_masks, streams, id, dst, rows, n, 4, false, AS_IT_LIES); break;
    default: gather(s, n_masks, streams, id, dst, rows, n, 8, false, AS_IT_LIES); break;
    }
}
#endif
