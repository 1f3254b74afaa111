/*
 * The upper triangle of a matrix, stored row by row → the matrix.
 *
 *   stored   a b c d e f                 p = 4: pairs (0,1) (0,2) (0,3) (1,2) (1,3) (2,3), each of E values
 *   made     0 a b c ·
 *            a 0 d e ·                   row i right of the diagonal is a span of what is stored;
 *            b d 0 f ·                   left of it a column, which begins where row j's span holds pair (j, i)
 *            c e f 0 ·                   ·: zeros up to P
 *            · · · · ·
 *
 * Left of the diagonal ROWS rows are written together: from each stored span ROWS consecutive pairs, to ROWS
 * rows that each move forward. So every stored line is used as a whole, and there are no more rows being written than a core follows.
 *
 * Matrices of one value of 4 bytes a pair are made by tiles that are mirrored, with AVX-512 and while they fit the L2 cache (mirror_band).
 *
 * A pad is found in the values as they are stored: where operations or another dtype change them, they come a second time.
 *
 * Floats may lie in the panel in another dtype than the output's: narrower as they are stored, or wider for the sake of operations. Then
 * a sample's pairs are converted first, to a thread's scratch.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "block/transpose_avx512.h"
#include "transform/make_count.h"

#include <inttypes.h>
#include <string.h>

#define ROWS 8u
#define NARROW_ROWS 16u         /* of pairs of up to 8 bytes */
#define RUNS 64u                /* that are transposed together */
#define ZERO_BYTES (192u << 10) /* of rows that are zeroed together: a part of the L2 cache */
#define MAX_SIZE (1u << 15)     /* P: P² stays within 32 bits */

typedef enum ends { AT_WHOLE, AT_COUNT, AT_PAD } ends;

typedef struct symmetric {
    uint64_t size;           /* P */
    uint64_t max_pairs;      /* of the column; ragged: of the matrix */
    fby_dtype stored, dtype; /* of the panel, of the matrix */
    size_t pair_bytes;       /* in the matrix */
    size_t n_features, pad_bytes;
    bool is_ragged;
    ends ends;
    uint32_t pad_view; /* where the pad is looked for: the values as they are stored */
    bool count_is_pairs, clip_count;
    uint64_t mask, low, span; /* a value v is the pad when (v & mask) − low ≤ span, as unsigned numbers of its width */
} symmetric;

static uint64_t pairs_of(uint64_t p) { return p < 2 ? 0 : p * (p - 1) / 2; }

/* The largest p whose pairs are no more than n, which is below 2^63. */
static uint64_t points_of(uint64_t n)
{
    uint64_t low = 1, high = UINT64_C(1) << 32;
    while (low < high) {
        uint64_t middle = (low + high + 1) / 2;
        if (pairs_of(middle) <= n)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* ---- opening ---- */

/* -0 is 0, and any NaN is NaN; other values have one form. */
static fby_status prepare_pad(const fby__make_spec *spec, symmetric *s, fby_error *err)
{
    double pad = spec->make->symmetric.pad;
    const fby_dtype dtype = spec->columns[0].stored;
    const unsigned bits = (unsigned)(8 * s->pad_bytes);
    const uint64_t all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1, sign = UINT64_C(1) << (bits - 1);
    const bool has_sign = fby__dtype_is_float(dtype);
    fby__scalar value = {0};
    if (!fby__scalar_set(dtype, pad, &value) && !(has_sign && pad != pad))
        return fby__fail(err, FBY_E_ARG, "output '%s': the pad value %g is no value of %s, as which column '%s' is stored", spec->output,
                         pad, fby_dtype_name(dtype), spec->columns[0].name);
    s->mask = all;
    s->low = value.u64 & all;
    if (has_sign && pad == 0)
        s->mask = all & ~sign, s->low = 0;
    if (has_sign && pad != pad) {
        const uint64_t infinity = dtype == FBY_FLOAT16    ? UINT64_C(0x7c00)
                                  : dtype == FBY_BFLOAT16 ? UINT64_C(0x7f80)
                                  : dtype == FBY_FLOAT32  ? UINT64_C(0x7f800000)
                                                          : UINT64_C(0x7ff0000000000000);
        s->mask = all & ~sign;
        s->low = infinity + 1;
        s->span = s->mask - s->low;
    }
    return FBY_OK;
}

/* How many values a pair has, and whether that is an axis. */
static fby_status find_features(const fby__make_spec *spec, uint64_t *out_n, bool *out_axis, fby_error *err)
{
    const fby__make_column *c = &spec->columns[0];
    const uint64_t asked = spec->make->symmetric.n_features;
    *out_axis = asked > 0 || c->n_axes == 2;
    *out_n = asked ? asked : c->n_axes == 2 ? (uint64_t)c->axes[1] : 1;
    if (c->kind == FBY__PANEL_BYTES || (c->kind == FBY__PANEL_DENSE && (c->n_axes < 1 || c->n_axes > 2)))
        return fby__make_refuse_column(spec, 0, "is no triangle of pairs: (pairs), (pairs, features) or a list is expected", err);
    if (c->n_axes == 2 && *out_n != (uint64_t)c->axes[1])
        return fby__fail(err, FBY_E_ARG, "output '%s': n_features=%" PRIu64 ", but column '%s' has %" PRId64 " features a pair",
                         spec->output, asked, c->name, c->axes[1]);
    if (*out_n == 0 || *out_n > UINT32_MAX || (c->kind == FBY__PANEL_DENSE && c->width % *out_n != 0))
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': the %u values of column '%s' are not a whole number of pairs of %" PRIu64 " features", spec->output,
                         c->width, c->name, *out_n);
    return FBY_OK;
}

static fby_status find_size(const fby__make_spec *spec, uint64_t n_features, symmetric *s, fby_error *err)
{
    const fby__make_column *c = &spec->columns[0];
    s->size = spec->make->symmetric.size;
    s->is_ragged = c->kind == FBY__PANEL_RAGGED;
    if (s->is_ragged && s->size == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s': size is needed: lists of column '%s' have any length", spec->output, c->name);
    if (s->size == 0)
        s->size = points_of(c->width / n_features);
    if (s->size > MAX_SIZE)
        return fby__fail(err, FBY_E_ARG, "output '%s': a matrix of %" PRIu64 " × %" PRIu64 ": at most %u are possible", spec->output,
                         s->size, s->size, MAX_SIZE);
    s->max_pairs = s->is_ragged ? pairs_of(s->size) : c->width / n_features;
    if (!s->is_ragged && s->ends == AT_WHOLE && pairs_of(s->size) != s->max_pairs)
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': column '%s' holds %" PRIu64 " pairs, and a matrix of %" PRIu64 " points has %" PRIu64
                         ": name a column of counts, or the value that pads",
                         spec->output, c->name, s->max_pairs, s->size, pairs_of(s->size));
    return FBY_OK;
}

static fby_status prepare(fby__make_spec *spec, symmetric *s, fby__made *made, fby_error *err)
{
    FBY__TRY(fby__make_expect_columns(spec, "a symmetric matrix", 1, 2, err));
    if (spec->max_rows != 1)
        return fby__fail(err, FBY_E_ARG, "output '%s': a symmetric matrix is made of one row: .at(step) or .first() chooses one",
                         spec->output);
    uint64_t n_features;
    bool has_axis;
    FBY__TRY(find_features(spec, &n_features, &has_axis, err));
    s->ends = spec->n_columns == 2 ? AT_COUNT : spec->make->symmetric.has_pad ? AT_PAD : AT_WHOLE;
    s->count_is_pairs = spec->make->symmetric.count_is_pairs;
    s->clip_count = spec->make->symmetric.clip_count;
    FBY__TRY(find_size(spec, n_features, s, err));
    if (s->ends == AT_COUNT)
        FBY__TRY(fby__make_use_count(spec, 1, err));
    fby__make_column *pairs = &spec->columns[0];
    s->dtype = fby__make_dtype(spec, pairs->computed && !fby__dtype_is_float(pairs->stored) ? FBY_FLOAT32 : pairs->stored);
    if (pairs->computed && !fby__dtype_is_float(s->dtype))
        return fby__fail(err, FBY_E_ARG, "output '%s': operations give floats, not %s", spec->output, fby_dtype_name(s->dtype));
    if (!fby__dtype_is_float(pairs->dtype) || !fby__dtype_is_float(s->dtype))
        pairs->dtype = s->dtype;
    s->stored = pairs->dtype;
    s->n_features = (size_t)n_features;
    size_t bytes;
    if (!fby__mul_checked(fby_dtype_bytes(s->dtype), s->n_features, &s->pair_bytes) ||
        !fby__mul_checked(s->pair_bytes, (size_t)(s->size * s->size), &bytes) || bytes > PTRDIFF_MAX)
        return fby__fail(err, FBY_E_ARG, "output '%s': a matrix of %" PRIu64 " × %" PRIu64 " × %" PRIu64 " is too large", spec->output,
                         s->size, s->size, n_features);
    if (s->ends == AT_PAD) {
        pairs->want_stored = pairs->changed || pairs->dtype != pairs->stored;
        s->pad_view = pairs->want_stored ? 1 : 0;
        s->pad_bytes = fby_dtype_bytes(pairs->stored);
        FBY__TRY(prepare_pad(spec, s, err));
    }
    *made = (fby__made){
        .of_sample = true, .dtype = s->dtype, .ndim = has_axis ? 3 : 2, .shape = {(int64_t)s->size, (int64_t)s->size, (int64_t)n_features}};
    return FBY_OK;
}

static fby_status create_symmetric(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    symmetric *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "a symmetric matrix");
    *out_state = s;
    return prepare(spec, s, made, err);
}

/* ---- where pairs end ---- */

/* Values of [0, n) before the first that is the pad, or n: blocks without one are passed over without a branch a value. */
#define FIRST_PAD(name, T)                                                                                                                 \
    static size_t name(const symmetric *s, const uint8_t *values, size_t from, size_t n)                                                   \
    {                                                                                                                                      \
        typedef T any __attribute__((aligned(1), may_alias));                                                                              \
        const any *v = (const any *)values;                                                                                                \
        const T mask = (T)s->mask, low = (T)s->low, span = (T)s->span;                                                                     \
        for (; from + 64 <= n; from += 64) {                                                                                               \
            T hit = 0;                                                                                                                     \
            for (size_t k = 0; k < 64; k++)                                                                                                \
                hit |= (T)((T)((v[from + k] & mask) - low) <= span);                                                                       \
            if (hit)                                                                                                                       \
                break;                                                                                                                     \
        }                                                                                                                                  \
        while (from < n && (T)((v[from] & mask) - low) > span)                                                                             \
            from++;                                                                                                                        \
        return from;                                                                                                                       \
    }
FIRST_PAD(first_pad_1, uint8_t)
FIRST_PAD(first_pad_2, uint16_t)
FIRST_PAD(first_pad_4, uint32_t)
FIRST_PAD(first_pad_8, uint64_t)

static size_t first_pad(const symmetric *s, const uint8_t *values, size_t from, size_t n)
{
    switch (s->pad_bytes) {
    case 1: return first_pad_1(s, values, from, n);
    case 2: return first_pad_2(s, values, from, n);
    case 4: return first_pad_4(s, values, from, n);
    default: return first_pad_8(s, values, from, n);
    }
}

/* Pairs before the first whose values all are the pad. */
static uint64_t pairs_before_pad(const symmetric *s, const uint8_t *values, uint64_t n_pairs)
{
    const size_t each = s->n_features, n = (size_t)n_pairs * each;
    for (size_t at = 0; (at = first_pad(s, values, at, n)) < n; at++) {
        size_t k = at % each == 0 ? 1 : each + 1; /* values of a pair from its first on; one inside a pair ends nothing */
        while (k < each && first_pad(s, values, at + k, at + k + 1) == at + k)
            k++;
        if (k == each)
            return at / each;
    }
    return n_pairs;
}

/* ---- the matrix ---- */

/* Pairs (j, i … i + n) of the rows j below `end`, to the n rows from i on; i > 0. Where j ≥ i + r something else is put at (i + r, j). */
static inline __attribute__((always_inline)) void fill_left(uint8_t *dst, const uint8_t *pairs, size_t row_bytes, size_t p, size_t i,
                                                            size_t n, size_t end, size_t pair_bytes)
{
    const uint8_t *from = pairs + (i - 1) * pair_bytes; /* (0, i) */
    for (size_t j = 0; j < end; j++) {
        for (size_t r = 0; r < n; r++)
            memcpy(dst + (i + r) * row_bytes + j * pair_bytes, from + r * pair_bytes, pair_bytes);
        from += (p - 2 - j) * pair_bytes; /* from (j, i) to (j + 1, i) */
    }
}

/* The same where a pair is no wider than a number: a transpose, in registers. */
static void transpose_left(uint8_t *dst, const uint8_t *pairs, size_t row_bytes, size_t p, size_t i, size_t n, size_t end,
                           size_t pair_bytes)
{
    const void *runs[RUNS];
    const uint8_t *from = pairs + (i - 1) * pair_bytes;
    for (size_t j = 0; j < end; j += RUNS) {
        const size_t n_runs = end - j < RUNS ? end - j : RUNS;
        for (size_t k = 0; k < n_runs; k++) {
            runs[k] = from;
            from += (p - 2 - (j + k)) * pair_bytes;
        }
        fby__interleave(dst + i * row_bytes + j * pair_bytes, row_bytes, runs, n_runs, n, pair_bytes);
    }
}

#if defined(__x86_64__)
#define TARGET_AVX512 __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl")))

static inline uint8_t *at_element(uint8_t *dst, size_t row_bytes, size_t row, size_t column) { return dst + row * row_bytes + 4 * column; }

/*
 * A band of 16 rows from i on, pairs of 4 bytes: each 16 × 16 that is read goes to where it belongs right of the diagonal and, transposed, to the
 * one below. So all that is stored is read once, and every line of the matrix written once. `pairs` are the band's; returns the next one's.
 */
TARGET_AVX512 static const uint8_t *mirror_band(uint8_t *dst, const uint8_t *pairs, size_t row_bytes, size_t p, size_t i)
{
    const size_t n = p - i < 16 ? p - i : 16;
    const uint8_t *span[16]; /* (i + k, i + k + 1) */
    __m512i a[16], b[16];
    for (size_t k = 0; k < n; k++) { /* on the diagonal: what lies right of it */
        span[k] = pairs;
        const uint8_t *left = (const uint8_t *)((uintptr_t)pairs - 4 * (k + 1)); /* (i + k, i), were it there */
        a[k] = _mm512_maskz_loadu_epi32((__mmask16)(0xfffeu << k & ((1u << n) - 1)), left);
        pairs += 4 * (p - 1 - i - k);
    }
    for (size_t k = n; k < 16; k++)
        a[k] = _mm512_setzero_si512();
    __m512i right[16];
    memcpy(right, a, sizeof right);
    fby__transpose_16x16(a, b);
    for (size_t k = 0; k < n; k++)
        _mm512_mask_storeu_epi32(at_element(dst, row_bytes, i + k, i), (__mmask16)((1u << n) - 1), _mm512_or_si512(right[k], b[k]));
    size_t c = i + 16;
    for (; c + 16 <= p; c += 16) {
        for (size_t k = 0; k < 16; k++) {
            a[k] = _mm512_loadu_si512(span[k] + 4 * (c - i - k - 1));
            _mm512_storeu_si512(at_element(dst, row_bytes, i + k, c), a[k]);
        }
        fby__transpose_16x16(a, b);
        for (size_t r = 0; r < 16; r++)
            _mm512_storeu_si512(at_element(dst, row_bytes, c + r, i), b[r]);
    }
    if (c < p) {
        const __mmask16 keep = (__mmask16)((1u << (p - c)) - 1);
        for (size_t k = 0; k < 16; k++) {
            a[k] = _mm512_maskz_loadu_epi32(keep, span[k] + 4 * (c - i - k - 1));
            _mm512_mask_storeu_epi32(at_element(dst, row_bytes, i + k, c), keep, a[k]);
        }
        fby__transpose_16x16(a, b);
        memcpy(right, b, sizeof right);
        for (size_t r = 0; r < p - c; r++)
            _mm512_storeu_si512(at_element(dst, row_bytes, c + r, i), right[r]);
    }
    return pairs;
}

/*
 * Zeros first, also where all is written: memset takes lines without reading them, and every store finds its line in the cache. 1.6 times.
 */
TARGET_AVX512 static void mirror_matrix(uint8_t *dst, const uint8_t *pairs, size_t size, size_t p)
{
    memset(dst, 0, size * size * 4);
    for (size_t i = 0; p > 1 && i < p; i += 16)
        pairs = mirror_band(dst, pairs, 4 * size, p, i);
}
#endif

/*
 * By bands of rows: zeros, left of the diagonal, then the diagonal and right of it.
 *
 * memset takes lines without reading them, and all later stores find them in the cache. What is written left goes on to the last column
 * that one of the rows needs: the upper rows get pairs there that are not theirs, from inside what is stored, and what follows covers them.
 */
static inline __attribute__((always_inline)) void fill_matrix(uint8_t *dst, const uint8_t *pairs, size_t size, size_t p, size_t pair_bytes)
{
    const bool is_narrow = pair_bytes <= 8 && (pair_bytes & (pair_bytes - 1)) == 0;
    const size_t rows = is_narrow ? NARROW_ROWS : ROWS;
    const size_t row_bytes = size * pair_bytes;
    const uint8_t *span = pairs; /* (i, i + 1) */
    size_t zeroed = 0;
    if (p < 2)
        p = 0; /* no pairs: an empty list need not lie anywhere */
    for (size_t i = 0; i < p; i += rows) {
        const size_t end = p - i < rows ? p : i + rows, from = i ? i : 1, n = end - from; /* row 0 has nothing left */
        if (end > zeroed) {
            const size_t to = fby__min_u64(size, end + ZERO_BYTES / row_bytes);
            memset(dst + zeroed * row_bytes, 0, (to - zeroed) * row_bytes);
            zeroed = to;
        }
        if (is_narrow)
            transpose_left(dst, pairs, row_bytes, p, from, n, end - 1, pair_bytes);
        else if (n == ROWS)
            fill_left(dst, pairs, row_bytes, p, from, ROWS, end - 1, pair_bytes);
        else
            fill_left(dst, pairs, row_bytes, p, from, n, end - 1, pair_bytes);
        for (size_t r = i; r < end; r++) {
            uint8_t *at = dst + r * (row_bytes + pair_bytes);
            const size_t right = (p - 1 - r) * pair_bytes;
            memset(at, 0, pair_bytes);
            memcpy(at + pair_bytes, span, right);
            span += right;
        }
    }
    memset(dst + zeroed * row_bytes, 0, (size - zeroed) * row_bytes);
}

/* Sizes that are common become moves of registers. */
static void fill(const symmetric *s, uint8_t *dst, const uint8_t *pairs, size_t p)
{
#if defined(__x86_64__)
    if (s->pair_bytes == 4 && s->size * s->size * 4 <= ZERO_BYTES && fby__cpu_has_avx512()) {
        mirror_matrix(dst, pairs, s->size, p);
        return;
    }
#endif
    switch (s->pair_bytes) {
    case 2: fill_matrix(dst, pairs, s->size, p, 2); break;
    case 4: fill_matrix(dst, pairs, s->size, p, 4); break;
    case 8: fill_matrix(dst, pairs, s->size, p, 8); break;
    case 12: fill_matrix(dst, pairs, s->size, p, 12); break;
    case 16: fill_matrix(dst, pairs, s->size, p, 16); break;
    case 32: fill_matrix(dst, pairs, s->size, p, 32); break;
    default: fill_matrix(dst, pairs, s->size, p, s->pair_bytes);
    }
}

/* ---- running ---- */

static fby_status count_of_column(const symmetric *s, const fby__make_view *v, uint64_t sample, uint64_t *out_p, fby_error *err)
{
    uint64_t count;
    FBY__TRY(fby__make_count_at(v, sample, 0, &count, err));
    if (s->clip_count)
        count = fby__min_u64(count, s->count_is_pairs ? pairs_of(s->size) : s->size);
    *out_p = count;
    if (s->count_is_pairs && pairs_of(*out_p = points_of(count)) != count)
        return fby__fail(err, FBY_E_DATA, "%" PRIu64 " pairs are no triangle: p(p-1)/2 would be %" PRIu64 " or %" PRIu64, count,
                         pairs_of(*out_p), pairs_of(*out_p + 1));
    return FBY_OK;
}

static fby_status points_of_sample(const symmetric *s, const fby__make_job *job, uint64_t sample, uint64_t *out_p, fby_error *err)
{
    const fby__make_view *pairs = &job->views[0];
    uint64_t n = s->max_pairs;
    if (s->is_ragged) {
        n = pairs->count[sample] / s->n_features;
        if (pairs->count[sample] % s->n_features != 0)
            return fby__fail(err, FBY_E_DATA, "a list of %" PRIu64 " values is no whole number of pairs", pairs->count[sample]);
    }
    if (s->ends == AT_COUNT) {
        FBY__TRY(count_of_column(s, &job->views[1], sample, out_p, err));
    } else {
        const uint64_t found = s->ends == AT_PAD ? pairs_before_pad(s, job->views[s->pad_view].data[sample], n) : n;
        *out_p = points_of(found);
        if (pairs_of(*out_p) != found)
            return fby__fail(err, FBY_E_DATA, "%" PRIu64 " pairs%s are no triangle: p(p-1)/2 would be %" PRIu64 " or %" PRIu64, found,
                             s->ends == AT_PAD ? " before the pad value" : "", pairs_of(*out_p), pairs_of(*out_p + 1));
    }
    const bool has_pairs = *out_p <= MAX_SIZE && pairs_of(*out_p) <= n;
    if (*out_p > s->size && has_pairs)
        return fby__fail(err, FBY_E_DATA, "%" PRIu64 " points: the matrix has room for %" PRIu64 ": give size=%" PRIu64 " or more%s",
                         *out_p, s->size, *out_p, s->ends == AT_COUNT ? ", or clip_count" : "");
    if (*out_p > s->size)
        return fby__fail(err, FBY_E_DATA,
                         "%" PRIu64 " points: the matrix has room for %" PRIu64 ", and the %" PRIu64
                         " pairs there are do for no more than %" PRIu64 "%s",
                         *out_p, s->size, n, points_of(n),
                         s->ends == AT_COUNT && pairs_of(s->size) <= n ? ": clip_count takes as many as there is room for" : "");
    if (!has_pairs)
        return fby__fail(err, FBY_E_DATA, "%" PRIu64 " points have %" PRIu64 " pairs, and there are %" PRIu64, *out_p, pairs_of(*out_p), n);
    return FBY_OK;
}

static fby_status make_matrix(const symmetric *s, const fby__make_job *job, uint64_t sample, fby_error *err)
{
    uint64_t p = 0;
    FBY__TRY(points_of_sample(s, job, sample, &p, err));
    const uint8_t *pairs = job->views[0].data[sample];
    if (s->stored != s->dtype) {
        const size_t n = (size_t)pairs_of(p);
        uint8_t *converted = fby__make_scratch_get(job->scratch, n * s->pair_bytes);
        if (!converted)
            return fby__fail_nomem(err, "a symmetric matrix");
        size_t bad;
        if (fby__convert(s->dtype, converted, s->stored, pairs, n * s->n_features, FBY__SCALE_NONE, &bad) != FBY_OK)
            return fby__make_fail_value(s->stored, pairs, bad, s->dtype, err);
        pairs = converted;
    }
    fill(s, job->dst[sample], pairs, (size_t)p);
    return FBY_OK;
}

static fby_status run_symmetric(const void *state, fby__make_job *job, fby_error *err)
{
    for (uint64_t i = 0; i < job->n; i++) {
        fby_status status = make_matrix(state, job, i, err);
        if (status != FBY_OK) {
            job->bad = i;
            return status;
        }
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_symmetric = {create_symmetric, fby__free, run_symmetric};
