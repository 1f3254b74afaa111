/*
 * SpecAugment: masks over time and frequency (D. S. Park et al., "SpecAugment", Interspeech 2019, section 2).
 *
 * A sample's two numbers of 32 bits are fby__philox2x32(key, number of the sample ^ scatter); key and scatter are drawn for an epoch and
 * two masks (fby__philox4x32). Of a number u, m = u (max + 1) is divided: the width is ⌊m / 2³²⌋, and what remains, which is as uniform as
 * u was, gives the position, ⌊(m mod 2³²) (size − width + 1) / 2³²⌋. Where (max + 1) size > 2²⁴, each mask takes two numbers, one for the
 * width and one for the position. So no value is likelier than another by more than 2^-8 of its likelihood, and with 1,000 positions and
 * widths up to 100 by no more than 2^-15.
 */
#include "base/checked.h"
#include "base/cpu.h"
#include "base/random.h"
#include "block/convert.h"
#include "transform/after_internal.h"

#include <string.h>

#define MAX_MASKS 32u          /* on an axis */
#define MAX_CHOICES (1u << 24) /* widths times positions that one number chooses among */
#define MAX_AXIS (1u << 24)    /* for the same reason */
#define AT_ONCE 32u            /* results: draws do not wait for stores */
#define INLINE inline __attribute__((always_inline))

/* ---- opening ---- */

static fby_status init_axis(fby__mask_axis *a, uint32_t n, uint32_t max_width, int32_t axis, const char *which, const char *output,
                            const fby__made *made, fby_error *err)
{
    *a = (fby__mask_axis){.n = max_width ? n : 0, .max_width = max_width};
    const int32_t position = axis < 0 ? axis + made->ndim + 1 : axis; /* the batch axis is 0 */
    if (n == 0)
        return FBY_OK;
    if (position < 1 || position > made->ndim)
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: %s axis %d: the output has axes 1 to %d beside the batch's", output,
                         which, axis, made->ndim);
    const int64_t size = made->shape[position - 1];
    if (size > MAX_AXIS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': SpecAugment: a %s axis longer than %u", output, which, MAX_AXIS);
    if (max_width > size)
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: max_%s=%u, but axis %d has %lld places", output, which, max_width,
                         position, (long long)size);
    a->size = (uint32_t)size;
    a->outer = 1;
    a->inner_bytes = fby_dtype_bytes(made->dtype);
    for (int32_t d = 0; d < position - 1; d++)
        a->outer *= (size_t)made->shape[d];
    for (int32_t d = position; d < made->ndim; d++)
        a->inner_bytes *= (size_t)made->shape[d];
    return FBY_OK;
}

/* The position on an axis of each element of a small result, as an unsigned number of its width. */
static void fill_positions(fby__spec_augment *s, size_t which)
{
    const fby__mask_axis *a = &s->axis[which];
    s->is_small &= s->element_bytes > 1 || a->size <= UINT8_MAX;
    for (size_t at = 0; a->n && at < s->result_bytes; at += s->element_bytes) {
        const fby__scalar position = {.u64 = at / a->inner_bytes % a->size}; /* little-endian: the low bytes first */
        memcpy(s->positions[which] + at, position.bytes, s->element_bytes);
    }
}

fby_status fby__spec_augment_init(fby__spec_augment *s, const fby_after_spec_augment *asked, const char *output, const fby__made *made,
                                  uint64_t seed, uint64_t purpose, fby_error *err)
{
    const int32_t time_axis = asked->time_axis ? asked->time_axis : -1, freq_axis = asked->freq_axis ? asked->freq_axis : -2;
    *s = (fby__spec_augment){.seed = seed, .purpose = UINT64_C(0x53504543) << 32 | purpose, .masks_a_draw = 2};
    if (asked->n_time > MAX_MASKS || asked->n_freq > MAX_MASKS)
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: more than %u masks on an axis", output, MAX_MASKS);
    FBY__TRY(init_axis(&s->axis[0], asked->n_time, asked->max_time, time_axis, "time", output, made, err));
    FBY__TRY(init_axis(&s->axis[1], asked->n_freq, asked->max_freq, freq_axis, "freq", output, made, err));
    if (asked->n_time && asked->n_freq &&
        (time_axis < 0 ? time_axis + made->ndim + 1 : time_axis) == (freq_axis < 0 ? freq_axis + made->ndim + 1 : freq_axis))
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: time and frequency are one axis, %d", output, time_axis);
    for (int i = 0; i < 2; i++)
        if (s->axis[i].n && ((uint64_t)s->axis[i].max_width + 1) * s->axis[i].size > MAX_CHOICES)
            s->masks_a_draw = 1;
    fby__scalar value = {0};
    if (!fby__scalar_set(made->dtype, asked->value, &value))
        return fby__fail(err, FBY_E_ARG, "output '%s': SpecAugment: %g is no value of %s", output, asked->value,
                         fby_dtype_name(made->dtype));
    s->element_bytes = fby_dtype_bytes(made->dtype);
    for (size_t at = 0; at < sizeof s->pattern; at += s->element_bytes)
        memcpy(s->pattern + at, value.bytes, s->element_bytes);
    s->result_bytes = s->element_bytes;
    for (int32_t d = 0; d < made->ndim; d++)
        s->result_bytes *= (size_t)made->shape[d];
    s->is_small = s->result_bytes <= FBY__SMALL_RESULT;
    if (s->is_small) {
        fill_positions(s, 0);
        fill_positions(s, 1);
    }
    return FBY_OK;
}

/* ---- masks ---- */

/* What is drawn for AT_ONCE results: the numbers, and of one mask where it begins and how wide it is. */
typedef struct drawn {
    uint64_t number[AT_ONCE];
    uint32_t begin[AT_ONCE], width[AT_ONCE];
} drawn;

static INLINE void draw(const fby__spec_augment *s, uint64_t key, uint32_t mask, const uint64_t *id, uint64_t n, drawn *d)
{
    const fby__mask_axis *a = &s->axis[mask >= s->axis[0].n];
    const uint32_t which = mask % s->masks_a_draw;
    if (which == 0) {
        const fby__philox u = fby__philox4x32(key, mask, s->purpose);
        const uint64_t scatter = (uint64_t)u.v[2] << 32 | u.v[1];
        for (uint64_t i = 0; i < n; i++)
            d->number[i] = fby__philox2x32(u.v[0], id[i] ^ scatter);
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t wide = (d->number[i] >> 32 * which & UINT32_MAX) * (a->max_width + 1), width = wide >> 32;
        const uint64_t rest = s->masks_a_draw == 1 ? d->number[i] >> 32 : wide & UINT32_MAX;
        d->width[i] = (uint32_t)width;
        d->begin[i] = (uint32_t)(rest * (a->size - width + 1) >> 32);
    }
}

/* Small results, without a branch: a core that guesses wrong where a mask ends loses more than it takes to compare every element. */
#define BLEND(name, T)                                                                                                                     \
    static INLINE void name(const fby__spec_augment *s, const uint8_t *positions, uint8_t *restrict dst, const drawn *d, uint64_t n)       \
    {                                                                                                                                      \
        typedef T any __attribute__((aligned(1), may_alias));                                                                              \
        const any *restrict position = (const any *)positions;                                                                             \
        const T value = *(const any *)s->pattern;                                                                                          \
        const size_t n_elements = s->result_bytes / sizeof(T);                                                                             \
        any *restrict x = (any *)dst;                                                                                                      \
        for (uint64_t i = 0; i < n; i++, x += n_elements)                                                                                  \
            for (size_t k = 0; k < n_elements; k++)                                                                                        \
                x[k] = (T)(position[k] - (T)d->begin[i]) < (T)d->width[i] ? value : x[k];                                                  \
    }
BLEND(blend_1, uint8_t)
BLEND(blend_2, uint16_t)
BLEND(blend_4, uint32_t)
BLEND(blend_8, uint64_t)

/* A large one, strip by strip. Stores may overlap: the pattern has the period of an element. */
static INLINE void fill(const fby__spec_augment *s, const fby__mask_axis *a, uint8_t *result, uint32_t begin, uint32_t width)
{
    const size_t n_bytes = width * a->inner_bytes;
    uint8_t *at = result + begin * a->inner_bytes;
    for (size_t i = 0; i < a->outer; i++, at += a->size * a->inner_bytes) {
#define ENDS(n) (memcpy(at, s->pattern, (n)), memcpy(at + n_bytes - (n), s->pattern, (n)))
        if (n_bytes > 32) {
            for (size_t k = 0; k < n_bytes - 16; k += 16)
                memcpy(at + k, s->pattern, 16);
            memcpy(at + n_bytes - 16, s->pattern, 16);
        } else if (n_bytes >= 16) {
            ENDS(16);
        } else if (n_bytes >= 8) {
            ENDS(8);
        } else if (n_bytes >= 4) {
            ENDS(4);
        } else if (n_bytes >= 2) {
            ENDS(2);
        } else if (n_bytes) {
            ENDS(1);
        }
#undef ENDS
    }
}

static INLINE void augment(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch)
{
    const uint64_t key = fby__make_random(s->seed, epoch, 0, 0).key;
    drawn d;
    for (uint64_t first = 0; first < n; first += AT_ONCE, dst += AT_ONCE * s->result_bytes) {
        const uint64_t n_now = fby__min_u64(n - first, AT_ONCE);
        for (uint32_t mask = 0; mask < s->axis[0].n + s->axis[1].n; mask++) {
            const uint32_t which = mask >= s->axis[0].n;
            draw(s, key, mask, id + first, n_now, &d);
            switch (s->is_small ? s->element_bytes : 0) {
            case 1: blend_1(s, s->positions[which], dst, &d, n_now); break;
            case 2: blend_2(s, s->positions[which], dst, &d, n_now); break;
            case 4: blend_4(s, s->positions[which], dst, &d, n_now); break;
            case 8: blend_8(s, s->positions[which], dst, &d, n_now); break;
            default:
                for (uint64_t i = 0; i < n_now; i++)
                    fill(s, &s->axis[which], dst + i * s->result_bytes, d.begin[i], d.width[i]);
            }
        }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void augment_avx2(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id,
                                                         uint64_t epoch)
{
    augment(s, dst, n, id, epoch);
}

__attribute__((target("avx2,avx512f,avx512dq,avx512bw,avx512vl"))) static void
augment_avx512(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch)
{
    augment(s, dst, n, id, epoch);
}
#endif

void fby__spec_augment_run(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch)
{
    void (*run)(const fby__spec_augment *, uint8_t *, uint64_t, const uint64_t *, uint64_t) = augment;
#if defined(__x86_64__)
    run = fby__cpu_has_avx512() ? augment_avx512 : fby__cpu_has_avx2() ? augment_avx2 : augment;
#endif
    run(s, dst, n, id, epoch);
}
