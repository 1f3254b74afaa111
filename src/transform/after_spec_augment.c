/*
 * SpecAugment: masks over time and frequency (D. S. Park et al., "SpecAugment", Interspeech 2019, section 2).
 *
 * A cell of 32 mel bins is copied in 10 ns, so masks must cost next to nothing.
 *
 *   draws   A sample's two numbers of 32 bits are fby__philox2x32(key, number of the sample ^ scatter), the key and what scatters drawn for
 *           an epoch and two masks (fby__philox4x32). Of a number u, m = u (max + 1) is divided: the width is ⌊m / 2³²⌋, and what remains,
 *           as even as u was, says the place, ⌊(m mod 2³²) (size − width + 1) / 2³²⌋. Where (max + 1) size > 2²⁴, each mask has two numbers,
 *           one for the width and one for the place. So values differ in likelihood by at most 2^-8 of it, of 1,000 places and widths up to
 *           100 by 2^-15. LANES samples are drawn side by side, in registers.
 *   masks   Where they lie is not to be foreseen, and a core that guesses wrong loses more than it writes. So small results are written
 *           as a whole, without a branch: by lines, where the inner axis fills some vectors (its masks are one pattern for all lines), else
 *           by comparing each element's place on its axes. In large ones, and over the outer axis of lines, runs are filled. AVX-512
 *           stores under masks instead, as many vectors whatever was drawn; and rows that are copied as they lie, or become float32, are
 *           masked on their way (after_spec_augment_avx512.c): the draws go on while rows are waited for.
 */
#include "base/checked.h"
#include "base/cpu.h"
#include "base/random.h"
#include "block/convert.h"
#include "block/prefetch.h"
#include "transform/after_internal.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES FBY__MASK_LANES
#define MASKS FBY__MASKS_AT_ONCE
#define MIN_LINES 4u                          /* fewer do not pay for the pattern */
#define MAX_GATHERED ((size_t)FBY__PAGED_MAX) /* bytes of a result that is masked on its way */
#define MAX_AXIS (1u << 24)                   /* keeps the difference in likelihood below 2^-8, as FBY__MAX_PLACES does */

/* ---- opening ---- */

static fby_status init_axis(fby__mask_axis *a, uint32_t n, uint32_t max_width, int32_t axis, const char *which, const char *output,
                            const fby__made *made, fby_error *err)
{
    *a = (fby__mask_axis){.n = max_width ? n : 0, .max_width = max_width};
    const int32_t place = axis < 0 ? axis + made->ndim + 1 : axis; /* the batch axis is 0 */
    if (n == 0)
        return FBY_OK;
    if (place < 1 || place > made->ndim)
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: %s axis %d: the output has axes 1 to %d beside the batch's", output,
                         which, axis, made->ndim);
    const int64_t size = made->shape[place - 1];
    if (size > MAX_AXIS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': SpecAugment: a %s axis longer than %u", output, which, MAX_AXIS);
    if (max_width > size)
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: max_%s=%u, but axis %d has %lld places", output, which, max_width,
                         place, (long long)size);
    a->size = (uint32_t)size;
    a->outer = 1;
    a->run_bytes = fby_dtype_bytes(made->dtype);
    for (int32_t d = 0; d < place - 1; d++)
        a->outer *= (size_t)made->shape[d];
    for (int32_t d = place; d < made->ndim; d++)
        a->run_bytes *= (size_t)made->shape[d];
    const size_t cycle = a->size * a->run_bytes;
    for (size_t at = 0; cycle > 0 && 64 % cycle == 0 && at < 64; at += cycle)
        a->repeat |= UINT64_C(1) << at;
    if (a->repeat)
        a->n_lines = 1;
    else if (cycle == 128 || (a->outer > 1 && (cycle == 256 || cycle == 512))) /* else a store is cheaper */
        a->n_lines = (uint32_t)(cycle / 64);
    return FBY_OK;
}

/* For each element of a small result its place on an axis, as an unsigned number of its width. */
static void fill_places(fby__spec_augment *s, size_t which)
{
    const fby__mask_axis *a = &s->axis[which];
    s->is_small &= s->element_bytes > 1 || a->size <= UINT8_MAX;
    for (size_t at = 0; a->n && at < s->result_bytes; at += s->element_bytes) {
        const fby__scalar place = {.u64 = at / a->run_bytes % a->size}; /* little-endian: the low bytes first */
        memcpy(s->places[which] + at, place.bytes, s->element_bytes);
    }
}

fby_status fby__spec_augment_init(fby__spec_augment *s, const fby_after_spec_augment *asked, const char *output, const fby__made *made,
                                  uint64_t seed, uint64_t purpose, fby_error *err)
{
    const bool is_default = asked->time_axis == 0 && asked->freq_axis == 0;
    const int32_t time_axis = is_default ? -1 : asked->time_axis, freq_axis = is_default ? -2 : asked->freq_axis;
    *s = (fby__spec_augment){.seed = seed, .purpose = UINT64_C(0x53504543) << 32 | purpose, .n_numbers = 1};
    if (asked->n_time > FBY__MAX_MASKS || asked->n_freq > FBY__MAX_MASKS)
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: more than %u masks on an axis", output, FBY__MAX_MASKS);
    FBY__TRY(init_axis(&s->axis[0], asked->n_time, asked->max_time, time_axis, "time", output, made, err));
    FBY__TRY(init_axis(&s->axis[1], asked->n_freq, asked->max_freq, freq_axis, "freq", output, made, err));
    if (asked->n_time && asked->n_freq &&
        (time_axis < 0 ? time_axis + made->ndim + 1 : time_axis) == (freq_axis < 0 ? freq_axis + made->ndim + 1 : freq_axis))
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: time and frequency are one axis, %d", output, time_axis);
    for (int i = 0; i < 2; i++) {
        const fby__mask_axis *a = &s->axis[i];
        if (a->n && ((uint64_t)a->max_width + 1) * a->size > FBY__MAX_PLACES)
            s->n_numbers = 2;
    }
    fby__scalar value = {0};
    if (!fby__scalar_set(made->dtype, asked->value, &value))
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: %g is no value of %s", output, asked->value,
                         fby_dtype_name(made->dtype));
    s->dtype = made->dtype;
    s->element_bytes = fby_dtype_bytes(made->dtype);
    for (size_t at = 0; at < sizeof s->pattern; at += s->element_bytes)
        memcpy(s->pattern + at, value.bytes, s->element_bytes);
    s->result_bytes = s->element_bytes;
    for (int32_t d = 0; d < made->ndim; d++)
        s->result_bytes *= (size_t)made->shape[d];
    s->inner = !s->axis[1].n || (s->axis[0].n && s->axis[0].run_bytes < s->axis[1].run_bytes) ? 0 : 1;
    const fby__mask_axis *inner = &s->axis[s->inner];
    s->line_bytes = inner->n ? inner->size * inner->run_bytes : 0;
    s->is_small = s->result_bytes <= FBY__SMALL_RESULT;
    const bool is_line = s->line_bytes == 32 || s->line_bytes == FBY__MAX_LINE;
    if (is_line && s->result_bytes / s->line_bytes >= MIN_LINES) {
        s->is_small = false;
        return FBY_OK;
    }
    s->line_bytes = 0;
    if (s->is_small) {
        fill_places(s, 0);
        fill_places(s, 1);
    }
    return FBY_OK;
}

/* ---- draws ---- */

static inline uint32_t below(uint32_t u, uint32_t n) { return (uint32_t)((uint64_t)u * n >> 32); }

/* Place and width of the masks of one stream, n of them, of LANES samples. */
typedef void draw_fn(const fby__mask_axis *const *axis, uint32_t n, uint32_t n_numbers, const fby__mask_stream *stream, const uint64_t *id,
                     uint32_t (*place)[LANES], uint32_t (*width)[LANES]);

static void draw_plain(const fby__mask_axis *const *axis, uint32_t n, uint32_t n_numbers, const fby__mask_stream *stream,
                       const uint64_t *id, uint32_t (*place)[LANES], uint32_t (*width)[LANES])
{
    for (size_t l = 0; l < LANES; l++) {
        const uint64_t u = fby__philox2x32(stream->key, id[l] ^ stream->scatter);
        for (uint32_t m = 0; m < n; m++) {
            const uint64_t wide = (u >> 32 * m & UINT32_MAX) * (axis[m]->max_width + 1);
            width[m][l] = (uint32_t)(wide >> 32);
            place[m][l] = below((uint32_t)(n_numbers == 2 ? u >> 32 : wide), axis[m]->size - width[m][l] + 1);
        }
    }
}

#if defined(__x86_64__)
/* The same, four samples in the lanes of 64 bits: the multiplication looks at the low halves alone, so nothing need be moved between lanes. */
__attribute__((target("avx2"))) static void draw_avx2(const fby__mask_axis *const *axis, uint32_t n, uint32_t n_numbers,
                                                      const fby__mask_stream *stream, const uint64_t *id, uint32_t (*place)[LANES],
                                                      uint32_t (*width)[LANES])
{
    const __m256i factor = _mm256_set1_epi64x(FBY__PHILOX2_FACTOR), low_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    for (size_t l = 0; l < LANES; l += 4) {
        __m256i c[2];
        c[0] = _mm256_xor_si256(_mm256_loadu_si256((const void *)(id + l)), _mm256_set1_epi64x((long long)stream->scatter));
        c[1] = _mm256_srli_epi64(c[0], 32);
        uint32_t key = stream->key;
        for (int round = 0; round < FBY__PHILOX2_ROUNDS; round++, key += FBY__PHILOX2_STEP) {
            const __m256i p = _mm256_mul_epu32(c[0], factor);
            c[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), c[1]), _mm256_set1_epi64x(key));
            c[1] = p;
        }
        for (uint32_t m = 0; m < n; m++) {
            const __m256i room = _mm256_set1_epi64x((long long)axis[m]->size + 1),
                          widths = _mm256_set1_epi64x((long long)axis[m]->max_width + 1);
            const __m256i wide = _mm256_mul_epu32(c[m], widths), w = _mm256_srli_epi64(wide, 32);
            const __m256i p = _mm256_srli_epi64(_mm256_mul_epu32(n_numbers == 2 ? c[1] : wide, _mm256_sub_epi64(room, w)), 32);
            _mm_storeu_si128((void *)(width[m] + l), _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(w, low_halves)));
            _mm_storeu_si128((void *)(place[m] + l), _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(p, low_halves)));
        }
    }
}
#endif

/* ---- masks ---- */

/* `n` runs of `bytes`, `stride` apart. Stores of one run may overlap: the pattern has the period of an element, and so have their places. */
static inline __attribute__((always_inline)) void fill_runs(uint8_t *at, size_t n, size_t stride, size_t bytes, const uint8_t *pattern)
{
    if (bytes == stride) {
        bytes *= n;
        n = 1;
    }
#define ENDS(size)                                                                                                                         \
    for (size_t i = 0; i < n; i++, at += stride) {                                                                                         \
        memcpy(at, pattern, (size));                                                                                                       \
        memcpy(at + bytes - (size), pattern, (size));                                                                                      \
    }
    if (bytes > 32) {
        for (size_t i = 0; i < n; i++, at += stride) {
            for (size_t k = 0; k < bytes - 16; k += 16)
                memcpy(at + k, pattern, 16);
            memcpy(at + bytes - 16, pattern, 16);
        }
    } else if (bytes >= 16) {
        ENDS(16)
    } else if (bytes >= 8) {
        ENDS(8)
    } else if (bytes >= 4) {
        ENDS(4)
    } else if (bytes >= 2) {
        ENDS(2)
    } else if (bytes) {
        ENDS(1)
    }
#undef ENDS
}

void fby__masks_fill_runs(uint8_t *at, size_t n, size_t stride, size_t bytes, const uint8_t *pattern)
{
    fill_runs(at, n, stride, bytes, pattern);
}

/* Up to four masks of LANES small results in one pass: of each result place[m] and width[m]. */
typedef struct pass {
    uint32_t place[MASKS][LANES], width[MASKS][LANES];
    const uint8_t *places[MASKS]; /* of the axes */
    bool is_inner[MASKS];         /* is the axis the inner one? */
} pass;

#define BLEND(name, T)                                                                                                                     \
    static inline __attribute__((always_inline)) void name(const fby__spec_augment *s, const pass *p, const uint32_t n_masks,              \
                                                           uint8_t *restrict dst, uint32_t n_results)                                      \
    {                                                                                                                                      \
        typedef T any __attribute__((aligned(1), may_alias));                                                                              \
        const T value = *(const any *)s->pattern;                                                                                          \
        const size_t n = s->result_bytes / sizeof(T);                                                                                      \
        for (uint32_t l = 0; l < n_results; l++, dst += s->result_bytes) {                                                                 \
            any *restrict x = (any *)dst;                                                                                                  \
            for (size_t e = 0; e < n; e++) {                                                                                               \
                T hit = 0;                                                                                                                 \
                for (uint32_t m = 0; m < n_masks; m++)                                                                                     \
                    hit |= (T)((T)(((const any *)p->places[m])[e] - (T)p->place[m][l]) < (T)p->width[m][l]);                               \
                x[e] = hit ? value : x[e];                                                                                                 \
            }                                                                                                                              \
        }                                                                                                                                  \
    }
BLEND(blend_1, uint8_t)
BLEND(blend_2, uint16_t)
BLEND(blend_4, uint32_t)
BLEND(blend_8, uint64_t)

static inline __attribute__((always_inline)) void blend(const fby__spec_augment *s, const pass *p, const uint32_t n_masks, uint8_t *dst,
                                                        uint32_t n_results)
{
    switch (s->element_bytes) {
    case 1: blend_1(s, p, n_masks, dst, n_results); break;
    case 2: blend_2(s, p, n_masks, dst, n_results); break;
    case 4: blend_4(s, p, n_masks, dst, n_results); break;
    default: blend_8(s, p, n_masks, dst, n_results); break;
    }
}

/*
 * Masks of the inner axis over a result of lines: what is kept of a line, and what is put there, is the same for all of them and stays in
 * registers. That takes loops whose length is known when they are compiled; and vectors by name, or a compiler gathers across lines.
 */
typedef uint64_t vector __attribute__((vector_size(32)));
typedef vector vector_any __attribute__((aligned(1), may_alias));

#define PATTERN(name, T)                                                                                                                   \
    static inline __attribute__((always_inline)) void name(const fby__spec_augment *s, const pass *p, uint32_t n_masks, uint32_t l,        \
                                                           vector *keep, vector *put, const size_t line_bytes)                             \
    {                                                                                                                                      \
        typedef T any __attribute__((may_alias));                                                                                          \
        any *hit = (any *)keep;                                                                                                            \
        const T value = *(const any *)s->pattern;                                                                                          \
        const size_t each = s->axis[s->inner].run_bytes / sizeof(T);                                                                       \
        for (size_t e = 0; e < line_bytes / sizeof(T); e++)                                                                                \
            hit[e] = 0;                                                                                                                    \
        for (uint32_t m = 0; m < n_masks; m++) {                                                                                           \
            const T place = (T)(p->place[m][l] * each), width = (T)(p->is_inner[m] ? p->width[m][l] * each : 0);                           \
            for (size_t e = 0; e < line_bytes / sizeof(T); e++)                                                                            \
                hit[e] |= (T)((T)((T)e - place) < width ? ~(T)0 : 0);                                                                      \
        }                                                                                                                                  \
        for (size_t e = 0; e < line_bytes / sizeof(T); e++) {                                                                              \
            ((any *)put)[e] = hit[e] & value;                                                                                              \
            hit[e] = (T)~hit[e];                                                                                                           \
        }                                                                                                                                  \
    }
PATTERN(pattern_1, uint8_t)
PATTERN(pattern_2, uint16_t)
PATTERN(pattern_4, uint32_t)
PATTERN(pattern_8, uint64_t)

static inline __attribute__((always_inline)) void mask_lines(const fby__spec_augment *s, const pass *p, uint32_t n_masks, uint32_t l,
                                                             uint8_t *dst, const size_t line_bytes)
{
    vector keep[FBY__MAX_LINE / sizeof(vector)], put[FBY__MAX_LINE / sizeof(vector)];
    switch (s->element_bytes) {
    case 1: pattern_1(s, p, n_masks, l, keep, put, line_bytes); break;
    case 2: pattern_2(s, p, n_masks, l, keep, put, line_bytes); break;
    case 4: pattern_4(s, p, n_masks, l, keep, put, line_bytes); break;
    default: pattern_8(s, p, n_masks, l, keep, put, line_bytes); break;
    }
    for (const uint8_t *end = dst + s->result_bytes; dst < end; dst += line_bytes)
        for (size_t k = 0; k < line_bytes / sizeof(vector); k++)
            ((vector_any *)dst)[k] = (((vector_any *)dst)[k] & keep[k]) | put[k];
}

/* Masks k to k + n_masks, at most four, of up to LANES results. */
static inline __attribute__((always_inline)) void mask_lanes(const fby__spec_augment *s, draw_fn *draw, uint32_t k, uint32_t n_masks,
                                                             const fby__mask_stream *streams, const uint64_t *id, uint8_t *dst,
                                                             uint32_t n_results)
{
    const fby__mask_axis *axis[MASKS];
    pass p;
    for (uint32_t m = 0; m < n_masks; m++) {
        const uint32_t which = k + m >= s->axis[0].n;
        axis[m] = &s->axis[which];
        p.places[m] = s->places[which];
        p.is_inner[m] = which == s->inner;
    }
    const uint32_t a_draw = fby__masks_a_draw(s);
    for (uint32_t m = 0; m < n_masks; m += a_draw)
        draw(axis + m, n_masks - m < a_draw ? 1 : a_draw, s->n_numbers, streams++, id, p.place + m, p.width + m);
    if (s->is_small) {
        switch (n_masks) {
        case 1: blend(s, &p, 1, dst, n_results); break;
        case 2: blend(s, &p, 2, dst, n_results); break;
        case 3: blend(s, &p, 3, dst, n_results); break;
        default: blend(s, &p, 4, dst, n_results); break;
        }
        return;
    }
    for (uint32_t l = 0; l < n_results; l++, dst += s->result_bytes) {
        switch (s->line_bytes) {
        case 32: mask_lines(s, &p, n_masks, l, dst, 32); break;
        case 64: mask_lines(s, &p, n_masks, l, dst, 64); break;
        default: break;
        }
        for (uint32_t m = 0; m < n_masks; m++)
            if (!s->line_bytes || !p.is_inner[m])
                fill_runs(dst + p.place[m][l] * axis[m]->run_bytes, axis[m]->outer, axis[m]->size * axis[m]->run_bytes,
                          p.width[m][l] * axis[m]->run_bytes, s->pattern);
    }
}

typedef void mask_fn(const fby__spec_augment *s, uint32_t k, uint32_t n_masks, const fby__mask_stream *streams, const uint64_t *id,
                     uint8_t *dst, uint32_t n_results);

static void mask_plain(const fby__spec_augment *s, uint32_t k, uint32_t n_masks, const fby__mask_stream *streams, const uint64_t *id,
                       uint8_t *dst, uint32_t n_results)
{
    mask_lanes(s, draw_plain, k, n_masks, streams, id, dst, n_results);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void mask_avx2(const fby__spec_augment *s, uint32_t k, uint32_t n_masks,
                                                      const fby__mask_stream *streams, const uint64_t *id, uint8_t *dst, uint32_t n_results)
{
    mask_lanes(s, draw_avx2, k, n_masks, streams, id, dst, n_results);
}
#endif

static mask_fn *choose_mask(void)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx512())
        return fby__masks_run_avx512;
    if (fby__cpu_has_avx2())
        return mask_avx2;
#endif
    return mask_plain;
}

/* Where the epoch's draws come from, of all masks. */
static void set_streams(const fby__spec_augment *s, uint64_t epoch, fby__mask_stream *streams)
{
    const uint64_t key = fby__make_random(s->seed, epoch, 0, 0).key;
    const uint32_t n_masks = s->axis[0].n + s->axis[1].n, a_draw = fby__masks_a_draw(s);
    for (uint32_t k = 0; k < n_masks; k += a_draw) {
        const fby__philox u = fby__philox4x32(key, k, s->purpose);
        *streams++ = (fby__mask_stream){.key = u.v[0], .scatter = (uint64_t)u.v[2] << 32 | u.v[1]};
    }
}

/* All masks of n results; with rows (AVX-512), of what lies there: the first masks bring them. */
static void run(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch, const fby__rows_left *rows)
{
    mask_fn *mask = choose_mask();
    const uint32_t n_masks = s->axis[0].n + s->axis[1].n;
    fby__mask_stream streams[2 * FBY__MAX_MASKS];
    set_streams(s, epoch, streams);
#if defined(__x86_64__)
    if (rows && n_masks <= MASKS) {
        fby__masks_gather_avx512(s, n_masks, streams, id, dst, rows, n);
        return;
    }
#endif
    for (uint64_t first = 0; first < n; first += LANES, dst += LANES * s->result_bytes) {
        const uint32_t m = n - first < LANES ? (uint32_t)(n - first) : LANES;
        uint64_t last[LANES];
        const uint64_t *ids = id + first;
        if (m < LANES) {
            memset(last, 0, sizeof last);
            ids = memcpy(last, ids, m * sizeof *id);
        }
        uint32_t k = 0;
#if defined(__x86_64__)
        if (rows) {
            const fby__rows_left some = {rows->row + first, rows->n - first, rows->ahead, rows->offset, rows->stored};
            k = MASKS;
            fby__masks_gather_avx512(s, k, streams, ids, dst, &some, m);
        }
#endif
        for (; k < n_masks; k += MASKS)
            mask(s, k, n_masks - k < MASKS ? n_masks - k : MASKS, streams + k / fby__masks_a_draw(s), ids, dst, m);
    }
}

void fby__spec_augment_run(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch)
{
    run(s, dst, n, id, epoch, NULL);
}

bool fby__spec_augment_gathers(const fby__spec_augment *s, fby_dtype stored)
{
#if defined(__x86_64__)
    return fby__cpu_has_avx512() && s->axis[0].n + s->axis[1].n > 0 && s->result_bytes <= MAX_GATHERED &&
           (stored == s->dtype || fby__masks_convert_avx512(s, stored));
#else
    (void)s, (void)stored;
    return false;
#endif
}

void fby__spec_augment_gather(const fby__spec_augment *s, uint8_t *dst, fby_dtype stored, const uint8_t *const *row, size_t offset,
                              uint64_t n, const uint64_t *id, uint64_t epoch)
{
    const size_t row_bytes = s->result_bytes / s->element_bytes * fby_dtype_bytes(stored);
    const size_t ahead = row_bytes >= FBY__PAGED_MIN ? FBY__PAGED_AHEAD : fby__rows_ahead(row_bytes);
    fby__prefetch_first(row, offset, row_bytes, n);
    run(s, dst, n, id, epoch, &(fby__rows_left){row, n, ahead, offset, stored});
}
