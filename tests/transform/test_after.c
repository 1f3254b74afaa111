/* Operations in place on values in a batch: SpecAugment by its masks and their statistics, channels last and forward fill by definition. */
#include "base/random.h"
#include "block/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "block/simd_variants.h"
#include "transform/sample_makers.h"

static fby__made shaped(fby_dtype dtype, int32_t ndim, int64_t a, int64_t b, int64_t c)
{
    return (fby__made){.of_sample = true, .dtype = dtype, .ndim = ndim, .shape = {a, b, c}};
}

static fby__afters *create(const fby_after *after, size_t n, fby__made *made, uint64_t seed)
{
    fby__afters *a = NULL;
    fby_error err = {0};
    if (fby__afters_create(after, n, "out", made, seed, &a, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return a;
}

static void refuse(const fby_after *after, size_t n, fby__made made, fby_status status, const char *with)
{
    fby__afters *a = NULL;
    fby_error err = {0};
    const fby__made before = made;
    assert_int_equal(fby__afters_create(after, n, "out", &made, 0, &a, &err), status);
    assert_null(a);
    assert_memory_equal(&made, &before, sizeof made);
    if (!strstr(err.message, "output 'out'") || !strstr(err.message, with))
        fail_msg("'%s' in: %s", with, err.message);
}

static void run(const fby__afters *a, void *dst, uint64_t n, const uint64_t *id, uint64_t epoch)
{
    fby__make_scratch scratch = {0};
    fby_error err = {0};
    if (fby__afters_run(a, dst, n, id, epoch, &scratch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby__make_scratch_fini(&scratch);
}

/* ---- SpecAugment ---- */

enum { MELS = 20, FRAMES = 13, N = 20000 };

static fby_after augment(uint32_t n_time, uint32_t max_time, uint32_t n_freq, uint32_t max_freq, double value)
{
    return (fby_after){.kind = FBY_AFTER_SPEC_AUGMENT,
                       .spec_augment = {.n_time = n_time, .max_time = max_time, .n_freq = n_freq, .max_freq = max_freq, .value = value}};
}

static uint8_t *ones(size_t n)
{
    uint8_t *x = malloc(n);
    memset(x, 1, n);
    return x;
}

/* One mask on the time axis: which columns of (MELS, FRAMES) are masked, in every row the same; returns its width. */
static uint32_t time_mask(const uint8_t *x, uint32_t *out_begin)
{
    uint32_t width = 0;
    for (uint32_t t = 0; t < FRAMES; t++) {
        for (uint32_t m = 1; m < MELS; m++)
            assert_int_equal(x[m * FRAMES + t], x[t]);
        if (x[t] == 0 && !width++)
            *out_begin = t;
        else if (x[t] == 0)
            assert_int_equal(t, *out_begin + width - 1);
    }
    return width;
}

static double chi_square(const uint32_t *counts, uint32_t n, double expect)
{
    double chi = 0;
    for (uint32_t i = 0; i < n; i++)
        chi += (counts[i] - expect) * (counts[i] - expect) / expect;
    return chi;
}

static void widths_and_places_are_uniform(void **state)
{
    (void)state;
    const fby_after after = augment(1, 5, 0, 0, 0);
    fby__made made = shaped(FBY_UINT8, 3, 1, MELS, FRAMES);
    fby__afters *a = create(&after, 1, &made, 3);
    uint8_t *x = ones((size_t)N * MELS * FRAMES);
    uint64_t *id = calloc(N, sizeof *id);
    for (uint64_t i = 0; i < N; i++)
        id[i] = i;
    run(a, x, N, id, 0);
    uint32_t widths[6] = {0}, places[6][FRAMES] = {{0}}, n_wide[6] = {0};
    for (size_t i = 0; i < N; i++) {
        uint32_t begin = 0, width = time_mask(x + i * MELS * FRAMES, &begin);
        assert_true(width <= 5);
        widths[width]++;
        if (width)
            places[width][begin]++, n_wide[width]++;
    }
    assert_true(chi_square(widths, 6, N / 6.0) < 30); /* 5 degrees of freedom: above it once in 70,000 seeds, and this one is fixed */
    for (uint32_t w = 1; w <= 5; w++)
        assert_true(chi_square(places[w], FRAMES - w + 1, (double)n_wide[w] / (FRAMES - w + 1)) < 50);
    free(x);
    free(id);
    fby__afters_destroy(a);
}

static void masks_depend_on_seed_epoch_and_sample_not_on_the_place_in_a_batch(void **state)
{
    (void)state;
    enum { SAMPLES = 1000, BYTES = MELS * FRAMES };
    const fby_after after = augment(2, 5, 3, 6, 0);
    fby__made made = shaped(FBY_UINT8, 2, MELS, FRAMES, 0);
    fby__afters *a = create(&after, 1, &made, 3), *other = create(&after, 1, &made, 4);
    uint64_t id[SAMPLES], back[SAMPLES];
    for (uint64_t i = 0; i < SAMPLES; i++)
        id[i] = 1000003 * i + (i << 33), back[SAMPLES - 1 - i] = id[i];
    uint8_t *x[5];
    for (int k = 0; k < 5; k++)
        x[k] = ones(SAMPLES * BYTES);
    run(a, x[0], SAMPLES, id, 7);
    run(a, x[1], SAMPLES, back, 7);
    for (size_t i = 0; i < SAMPLES; i++)
        run(a, x[2] + i * BYTES, 1, &id[i], 7); /* one at a time */
    run(a, x[3], SAMPLES, id, 8);
    run(other, x[4], SAMPLES, id, 7);
    assert_memory_equal(x[0], x[2], SAMPLES * BYTES);
    size_t same_epoch = 0, same_seed = 0, same_next = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        assert_memory_equal(x[0] + i * BYTES, x[1] + (SAMPLES - 1 - i) * BYTES, BYTES);
        same_epoch += !memcmp(x[0] + i * BYTES, x[3] + i * BYTES, BYTES);
        same_seed += !memcmp(x[0] + i * BYTES, x[4] + i * BYTES, BYTES);
        same_next += i && !memcmp(x[0] + i * BYTES, x[0] + (i - 1) * BYTES, BYTES);
    }
    assert_true(same_epoch < 20 && same_seed < 20 && same_next < 20);
    uint64_t hash = 14695981039346656037u; /* FNV-1a: every instruction set draws the same, and so does the next version */
    for (size_t i = 0; i < SAMPLES * BYTES; i++)
        hash = (hash ^ x[0][i]) * 1099511628211u;
    assert_true(hash == UINT64_C(0x0e13b9e25293377c));
    for (int k = 0; k < 5; k++)
        free(x[k]);
    fby__afters_destroy(a);
    fby__afters_destroy(other);
}

/* Philox2x32-7 (Salmon et al., SC11), as the paper writes a round. */
static void philox2(uint32_t key, uint32_t *left, uint32_t *right)
{
    for (int round = 0; round < 7; round++) {
        const uint64_t product = *left * UINT64_C(0xD256D193);
        *left = (uint32_t)(product >> 32) ^ key ^ *right;
        *right = (uint32_t)product;
        key += 0x9E3779B9u;
    }
}

/* The rule: mask g of a sample, from its number of a draw for two masks; a width, then, of what remains, a place where it fits. */
static void mark_by_rule(uint8_t *masked, const uint32_t *shape, uint64_t key, uint64_t id, uint32_t g, bool is_time, uint32_t max_width,
                         bool has_two_numbers)
{
    const fby__philox stream = fby__philox4x32(key, has_two_numbers ? g : g & ~1u, UINT64_C(0x53504543) << 32);
    uint32_t u[2] = {(uint32_t)id ^ stream.v[1], (uint32_t)(id >> 32) ^ stream.v[2]};
    philox2(stream.v[0], &u[0], &u[1]);
    const uint32_t freq = shape[0], time = shape[1], inner = shape[2], size = is_time ? time : freq;
    const uint64_t m = (uint64_t)u[has_two_numbers ? 0 : g & 1] * (max_width + 1), width = m >> 32;
    const uint64_t rest = has_two_numbers ? u[1] : (uint32_t)m, begin = rest * (size - width + 1) >> 32;
    for (uint32_t i = 0; i < freq * time * inner; i++) {
        const uint32_t at = is_time ? i / inner % time : i / inner / time;
        masked[i] |= at >= begin && at < begin + width;
    }
}

/*
 * The masks of the rule whatever the dtype and the shape, and nothing beside the results touched: masks of less than the 64 bytes that are
 * stored at once, of as many and of more.
 */
static void every_dtype_and_shape_gives_the_masks_of_the_rule(void **state)
{
    (void)state;
    static const fby_dtype DTYPES[] = {FBY_UINT8, FBY_FLOAT16, FBY_BFLOAT16, FBY_FLOAT32, FBY_FLOAT64, FBY_INT16, FBY_INT64};
    static const uint32_t SHAPES[][3] = {{20, 13, 1}, {32, 8, 1}, {32, 16, 1}, {4, 32, 1},  {32, 1, 1}, {64, 64, 1}, {9, 4, 2}, {300, 5, 1},
                                         {3, 4, 1},   {5, 1, 3},  {1, 100, 1}, {32, 64, 1}, {6, 40, 4}, {25, 2, 1},  {3, 64, 2}};
    enum { SAMPLES = 37 };
    const uint64_t key = fby__make_random(3, 1, 0, 0).key;
    uint64_t id[SAMPLES];
    for (uint64_t i = 0; i < SAMPLES; i++)
        id[i] = i * i;
    for (size_t shape = 0; shape < sizeof SHAPES / sizeof *SHAPES; shape++)
        for (uint32_t n_time = 0; n_time <= 5; n_time++) {
            const uint32_t freq = SHAPES[shape][0], time = SHAPES[shape][1], inner = SHAPES[shape][2], each = freq * time * inner;
            fby_after after = augment(n_time, time < 5 ? time : 5, 2, freq < 20 ? freq : 20, 100);
            after.spec_augment.time_axis = 2; /* not the last: by its number */
            after.spec_augment.freq_axis = 1;
            uint8_t *expect = calloc(SAMPLES, each);
            for (uint32_t s = 0; s < SAMPLES; s++)
                for (uint32_t g = 0; g < n_time + 2; g++)
                    mark_by_rule(expect + s * each, SHAPES[shape], key, id[s], g, g < n_time,
                                 g < n_time ? after.spec_augment.max_time : after.spec_augment.max_freq, false);
            for (size_t d = 0; d < sizeof DTYPES / sizeof *DTYPES; d++) {
                const size_t bytes = fby_dtype_bytes(DTYPES[d]), n = SAMPLES * each * bytes;
                fby__made made = shaped(DTYPES[d], 3, freq, time, inner);
                fby__afters *a = create(&after, 1, &made, 3);
                uint8_t *x = guarded_alloc(n);
                memset(x, 0, n);
                run(a, x, SAMPLES, id, 1);
                fby__scalar hundred;
                assert_true(fby__scalar_set(DTYPES[d], 100, &hundred));
                const uint8_t zero[8] = {0};
                for (size_t i = 0; i < SAMPLES * each; i++) {
                    const bool is_masked = memcmp(x + i * bytes, hundred.bytes, bytes) == 0;
                    assert_true(is_masked || memcmp(x + i * bytes, zero, bytes) == 0);
                    if (is_masked != expect[i])
                        fail_msg("(%u, %u, %u), %u time masks, %s: element %zu", freq, time, inner, n_time, fby_dtype_name(DTYPES[d]), i);
                }
                guarded_free(x, n);
                fby__afters_destroy(a);
            }
            free(expect);
        }
}

/* Where one number has too few values for all widths and places, a mask has two; every mask then has a draw of its own. */
static void masks_of_long_axes_are_drawn_of_two_numbers(void **state)
{
    (void)state;
    enum { SAMPLES = 37, FREQ = 3, TIME = 8192, EACH = FREQ * TIME };
    static const uint32_t SHAPE[3] = {FREQ, TIME, 1}, MAX[] = {2047, 2048}; /* 2,048 × 8,192 is 2^24 */
    const uint64_t key = fby__make_random(3, 1, 0, 0).key;
    uint64_t id[SAMPLES];
    for (uint64_t i = 0; i < SAMPLES; i++)
        id[i] = i * i;
    for (uint32_t n_time = 1; n_time <= 5; n_time++)
        for (size_t k = 0; k < 2; k++) {
            const fby_after after = augment(n_time, MAX[k], 2, 2, 100);
            fby__made made = shaped(FBY_UINT8, 2, FREQ, TIME, 0);
            fby__afters *a = create(&after, 1, &made, 3);
            uint8_t *x = guarded_alloc(SAMPLES * EACH), *expect = calloc(SAMPLES, EACH);
            memset(x, 0, SAMPLES * EACH);
            run(a, x, SAMPLES, id, 1);
            for (uint32_t i = 0; i < SAMPLES; i++)
                for (uint32_t g = 0; g < n_time + 2; g++)
                    mark_by_rule(expect + i * EACH, SHAPE, key, id[i], g, g < n_time, g < n_time ? MAX[k] : 2, k == 1);
            for (size_t i = 0; i < SAMPLES * EACH; i++)
                expect[i] *= 100;
            assert_memory_equal(x, expect, SAMPLES * EACH);
            guarded_free(x, SAMPLES * EACH);
            free(expect);
            fby__afters_destroy(a);
        }
}

static void augmenting_with_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    fby_after wide = augment(1, 14, 0, 0, 0), one = augment(1, 2, 1, 2, 0), value = augment(1, 2, 0, 0, 300),
              many = augment(33, 1, 0, 0, 0);
    refuse(&wide, 1, shaped(FBY_FLOAT32, 2, MELS, FRAMES, 0), FBY_E_ARG, "max_time=14, but axis 2 has 13 places");
    refuse(&one, 1, shaped(FBY_FLOAT32, 1, FRAMES, 0, 0), FBY_E_ARG, "freq axis -2");
    refuse(&value, 1, shaped(FBY_INT8, 1, FRAMES, 0, 0), FBY_E_ARG, "300 is no value of int8");
    refuse(&many, 1, shaped(FBY_INT8, 1, FRAMES, 0, 0), FBY_E_ARG, "more than 32 masks");
    one.spec_augment.time_axis = 1;
    refuse(&one, 1, shaped(FBY_FLOAT32, 2, MELS, FRAMES, 0), FBY_E_ARG, "one axis"); /* freq_axis is -2 where it is not given */
}

/* ---- channels last ---- */

/* There and back again: (…, C) to (C, …), and C last. */
static void channels_first_is_the_way_back(fby_dtype dtype, uint32_t channels, uint32_t h, uint32_t w)
{
    const fby_after after[] = {{.kind = FBY_AFTER_CHANNELS_FIRST}, {.kind = FBY_AFTER_CHANNELS_LAST}};
    const size_t bytes = fby_dtype_bytes(dtype), each = (size_t)h * w * channels, n = 2 * each * bytes;
    fby__made made = shaped(dtype, 3, h, w, channels), both = made;
    fby__afters *there = create(after, 1, &made, 0), *back = create(after, 2, &both, 0);
    assert_true(made.shape[0] == channels && made.shape[1] == h && made.shape[2] == w);
    assert_true(both.shape[0] == h && both.shape[1] == w && both.shape[2] == channels);
    uint8_t *x = guarded_alloc(n), *y = guarded_alloc(n), *before = malloc(n);
    for (size_t i = 0; i < n; i++)
        before[i] = x[i] = y[i] = (uint8_t)(i * 31 + i / 251);
    const uint64_t id[2] = {0};
    run(there, x, 2, id, 0);
    run(back, y, 2, id, 0);
    assert_memory_equal(y, before, n);
    for (size_t i = 0; i < 2; i++)
        for (size_t c = 0; c < channels; c++)
            for (size_t r = 0; r < (size_t)h * w; r++)
                assert_memory_equal(x + (i * each + c * h * w + r) * bytes, before + (i * each + r * channels + c) * bytes, bytes);
    guarded_free(x, n);
    guarded_free(y, n);
    free(before);
    fby__afters_destroy(there);
    fby__afters_destroy(back);
}

static void channels_go_last_whatever_the_width(void **state)
{
    (void)state;
    static const fby_dtype DTYPES[] = {FBY_UINT8, FBY_FLOAT16, FBY_FLOAT32, FBY_FLOAT64};
    static const uint32_t SHAPES[][3] = {{1, 5, 4}, {3, 17, 9}, {16, 8, 8}, {70, 3, 43}, {200, 1, 1}, {5, 1, 300}};
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
        for (size_t d = 0; d < 4; d++) {
            const uint32_t channels = SHAPES[s][0], rest = SHAPES[s][1] * SHAPES[s][2], each = channels * rest;
            const size_t bytes = fby_dtype_bytes(DTYPES[d]), n = 3 * each * bytes;
            const fby_after after = {.kind = FBY_AFTER_CHANNELS_LAST};
            fby__made made = shaped(DTYPES[d], 3, channels, SHAPES[s][1], SHAPES[s][2]);
            fby__afters *a = create(&after, 1, &made, 0);
            assert_int_equal(made.shape[0], SHAPES[s][1]);
            assert_int_equal(made.shape[1], SHAPES[s][2]);
            assert_int_equal(made.shape[2], channels);
            assert_true(made.scratch_bytes >= each * bytes);
            uint8_t *x = guarded_alloc(n), *before = malloc(n);
            for (size_t i = 0; i < n; i++)
                before[i] = x[i] = (uint8_t)(i * 31 + i / 251);
            const uint64_t id[3] = {0};
            run(a, x, 3, id, 0);
            for (size_t i = 0; i < 3; i++)
                for (size_t c = 0; c < channels; c++)
                    for (size_t r = 0; r < rest; r++)
                        assert_memory_equal(x + (i * each + r * channels + c) * bytes, before + (i * each + c * rest + r) * bytes, bytes);
            guarded_free(x, n);
            free(before);
            fby__afters_destroy(a);
            channels_first_is_the_way_back(DTYPES[d], channels, SHAPES[s][1], SHAPES[s][2]);
        }
    const fby_after after = {.kind = FBY_AFTER_CHANNELS_LAST};
    refuse(&after, 1, shaped(FBY_FLOAT32, 1, 5, 0, 0), FBY_E_ARG, "a sample's value has 1 axis, at least 2 needed");
}

/* ---- forward fill ---- */

static void nan_becomes_the_value_before_it(void **state)
{
    (void)state;
    static const fby_dtype DTYPES[] = {FBY_FLOAT16, FBY_BFLOAT16, FBY_FLOAT32, FBY_FLOAT64};
    enum { STEPS = 5, WIDTH = 3, VALUES = 2 * STEPS * WIDTH };
    const double nan = (double)NAN;
    const double in[VALUES] = {nan, 1,   2,   3, nan, -INFINITY, nan, nan, nan, 4,   5, nan, nan, 6,   7, /* the next sample begins anew */
                               nan, nan, nan, 1, nan, -nan,      nan, 2,   nan, nan, 3, 4,   nan, nan, nan};
    const double expect[VALUES] = {nan, 1,   2,   3, 1,   -INFINITY, 3, 1, -INFINITY, 4, 5, -INFINITY, 4, 6, 7,
                                   nan, nan, nan, 1, nan, nan,       1, 2, nan,       1, 3, 4,         1, 3, 4};
    for (size_t d = 0; d < 4; d++) {
        const fby_after after = {.kind = FBY_AFTER_FORWARD_FILL};
        fby__made made = shaped(DTYPES[d], 2, STEPS, WIDTH, 0);
        fby__afters *a = create(&after, 1, &made, 0);
        const size_t n = VALUES * fby_dtype_bytes(DTYPES[d]);
        uint8_t *x = guarded_alloc(n);
        double out[VALUES];
        size_t bad;
        const uint64_t id[2] = {0};
        assert_int_equal(fby__convert(DTYPES[d], x, FBY_FLOAT64, in, VALUES, FBY__SCALE_NONE, &bad), FBY_OK);
        run(a, x, 2, id, 0);
        assert_int_equal(fby__convert(FBY_FLOAT64, out, DTYPES[d], x, VALUES, FBY__SCALE_NONE, &bad), FBY_OK);
        for (size_t i = 0; i < VALUES; i++)
            assert_true(out[i] == expect[i] || (isnan(out[i]) && isnan(expect[i])));
        guarded_free(x, n);
        fby__afters_destroy(a);
    }
    const fby_after after = {.kind = FBY_AFTER_FORWARD_FILL};
    refuse(&after, 1, shaped(FBY_INT32, 1, 5, 0, 0), FBY_E_ARG, "int32 has no NaN");
    refuse(&after, 1, shaped(FBY_FLOAT32, 0, 0, 0, 0), FBY_E_ARG, "0 axes");
}

/* ---- several ---- */

static void operations_see_the_shape_that_the_one_before_leaves(void **state)
{
    (void)state;
    fby_after list[3] = {{.kind = FBY_AFTER_FORWARD_FILL}, {.kind = FBY_AFTER_CHANNELS_LAST}, augment(1, 3, 0, 0, 0)};
    list[2].spec_augment.time_axis = 1;
    fby__made made = shaped(FBY_FLOAT32, 3, 2, 3, 4); /* (2, 3, 4) → (3, 4, 2): the time axis has three places */
    fby__afters *a = create(list, 3, &made, 0);
    float x[24];
    for (int i = 0; i < 24; i++)
        x[i] = (float)(i + 1);
    const uint64_t id = 5;
    run(a, x, 1, &id, 0);
    for (int r = 0; r < 12; r++)
        for (int c = 0; c < 2; c++)
            assert_true(x[r * 2 + c] == (float)(c * 12 + r + 1) || (x[r * 2 + c] == 0 && x[r / 4 * 8] == 0));
    fby__afters_destroy(a);
    list[2].spec_augment.max_time = 4;
    refuse(list, 3, shaped(FBY_FLOAT32, 3, 2, 3, 4), FBY_E_ARG, "axis 1 has 3 places");
    refuse(list, 17, shaped(FBY_FLOAT32, 3, 2, 3, 4), FBY_E_ARG, "at most 16");
    list[0].kind = (fby_after_kind)77;
    refuse(list, 1, shaped(FBY_FLOAT32, 3, 2, 3, 4), FBY_E_ARG, "unknown");
    fby__made none = shaped(FBY_FLOAT32, 1, 2, 0, 0);
    assert_null(create(NULL, 0, &none, 0));
}

static void without_memory_it_fails_cleanly(void **state)
{
    (void)state;
    const fby_after after = {.kind = FBY_AFTER_CHANNELS_LAST};
    fby__made made = shaped(FBY_FLOAT32, 2, 8, 9, 0);
    fby__afters *a = NULL;
    fby_error err;
    fby__alloc_fail_at(1);
    assert_int_equal(fby__afters_create(&after, 1, "out", &made, 0, &a, &err), FBY_E_NOMEM);
    fby__alloc_fail_at(0);
    a = create(&after, 1, &made, 0);
    float x[72] = {0};
    const uint64_t id = 0;
    fby__make_scratch scratch = {0};
    fby__alloc_fail_at(1);
    assert_int_equal(fby__afters_run(a, (uint8_t *)x, 1, &id, 0, &scratch, &err), FBY_E_NOMEM);
    fby__alloc_fail_at(0);
    assert_int_equal(fby__afters_run(a, (uint8_t *)x, 1, &id, 0, &scratch, &err), FBY_OK);
    fby__make_scratch_fini(&scratch);
    fby__afters_destroy(a);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(widths_and_places_are_uniform),
    cmocka_unit_test(masks_depend_on_seed_epoch_and_sample_not_on_the_place_in_a_batch),
    cmocka_unit_test(every_dtype_and_shape_gives_the_masks_of_the_rule),
    cmocka_unit_test(masks_of_long_axes_are_drawn_of_two_numbers),
    cmocka_unit_test(augmenting_with_what_does_not_fit_is_refused),
    cmocka_unit_test(channels_go_last_whatever_the_width),
    cmocka_unit_test(nan_becomes_the_value_before_it),
    cmocka_unit_test(operations_see_the_shape_that_the_one_before_leaves),
    cmocka_unit_test(without_memory_it_fails_cleanly),
};

SIMD_MAIN(TESTS)
