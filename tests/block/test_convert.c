/*
 * Conversion between every two dtypes against a twin in wide arithmetic; the 16-bit floats over all their values; rows made of
 * columns; the shape of panels. Every SIMD variant.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/random.h"
#include "block/convert.h"
#include "block/panel.h"
#include "block/simd_variants.h"
#include "support/test_seed.h"

#include <math.h>

static uint64_t below(uint64_t n) { return fby__random_below(&random_state, n); }

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* ---- the twin: any value as long double (64 bits of fraction: every int64, uint64 and double exactly) ---- */

static long double wide_of(fby_dtype t, const uint8_t *p)
{
    switch (t) {
    case FBY_BOOL:
    case FBY_UINT8: return p[0];
    case FBY_INT8: return (int8_t)p[0];
    case FBY_INT16: return (int16_t)fby__load_u16(p);
    case FBY_UINT16: return fby__load_u16(p);
    case FBY_INT32: return (int32_t)fby__load_u32(p);
    case FBY_UINT32: return fby__load_u32(p);
    case FBY_INT64: return (int64_t)fby__load_u64(p);
    case FBY_UINT64: return fby__load_u64(p);
    case FBY_FLOAT16: return fby__float16_to_float(fby__load_u16(p));
    case FBY_BFLOAT16: return fby__bfloat16_to_float(fby__load_u16(p));
    case FBY_FLOAT32: {
        float f;
        memcpy(&f, p, 4);
        return f;
    }
    default: {
        double d;
        memcpy(&d, p, 8);
        return d;
    }
    }
}

/* Nearest of the float16 or bfloat16 values, ties to even, by search: slow and plain. */
static uint16_t nearest_half(bool brain, long double v)
{
    const uint16_t infinity = brain ? 0x7f80 : 0x7c00;
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    long double m = fabsl(v);
    uint16_t low = 0, high = infinity; /* low ≤ m < high */
    if (isinf(v))
        return sign | infinity;
    while (high - low > 1) {
        uint16_t mid = (uint16_t)((low + high) / 2);
        long double x = brain ? fby__bfloat16_to_float(mid) : fby__float16_to_float(mid);
        if (x <= m)
            low = mid;
        else
            high = mid;
    }
    long double a = brain ? fby__bfloat16_to_float(low) : fby__float16_to_float(low);
    long double b = high == infinity ? (brain ? 0x1p128L : 65536.0L) : brain ? fby__bfloat16_to_float(high) : fby__float16_to_float(high);
    bool up = m - a > b - m || (m - a == b - m && (low & 1));
    return sign | (up ? high : low);
}

/* The element v converts to; false when it does not fit. */
static bool twin(fby_dtype t, long double v, uint8_t out[8])
{
    static const struct {
        long double low, high;
    } RANGE[FBY_DTYPE_COUNT] = {[FBY_INT8] = {-0x1p7L, 0x1p7L},    [FBY_INT16] = {-0x1p15L, 0x1p15L}, [FBY_INT32] = {-0x1p31L, 0x1p31L},
                                [FBY_INT64] = {-0x1p63L, 0x1p63L}, [FBY_UINT8] = {0, 0x1p8L},         [FBY_UINT16] = {0, 0x1p16L},
                                [FBY_UINT32] = {0, 0x1p32L},       [FBY_UINT64] = {0, 0x1p64L}};
    memset(out, 0, 8);
    if (t == FBY_FLOAT32) {
        float f = (float)v;
        memcpy(out, &f, 4);
        return !isinf(f) || isinf(v);
    } else if (t == FBY_FLOAT64) {
        double d = (double)v;
        memcpy(out, &d, 8);
    } else if (t == FBY_FLOAT16 || t == FBY_BFLOAT16) {
        uint16_t h = isnan(v) ? 0x7fff : nearest_half(t == FBY_BFLOAT16, v);
        memcpy(out, &h, 2);
        return (h & 0x7fff) != (t == FBY_BFLOAT16 ? 0x7f80 : 0x7c00) || isinf(v);
    } else if (t == FBY_BOOL) {
        out[0] = v != 0;
        return v == 0 || v == 1;
    } else {
        if (isnan(v))
            return false;
        long double w = truncl(v);
        if (w < RANGE[t].low || w >= RANGE[t].high)
            return false;
        uint64_t u = w < 0 ? (uint64_t)(int64_t)w : (uint64_t)w;
        memcpy(out, &u, 8);
    }
    return true;
}

static void random_element(fby_dtype t, uint8_t out[8])
{
    uint64_t u = fby__random_next(&random_state) >> below(64);
    if (below(2))
        u = 0 - u;
    if (t == FBY_FLOAT64 && below(4)) { /* mostly near the ranges of integers and the ties of floats */
        double d = below(2) ? (double)(int64_t)u : ldexp((double)(int64_t)(u & 0xffffff), (int)below(60) - 40);
        if (below(2))
            d = nextafter(d, below(2) ? 1e300 : -1e300);
        memcpy(&u, &d, 8);
    } else if (t == FBY_FLOAT32 && below(4)) {
        float f = below(2) ? (float)(int64_t)u : ldexpf((float)(int64_t)(u & 0xffff), (int)below(60) - 40);
        u = bits_of(f);
    }
    if (t == FBY_BOOL)
        u &= 1;
    memcpy(out, &u, 8);
}

static bool same(fby_dtype t, const uint8_t *a, const uint8_t *b)
{
    bool is_float = t == FBY_FLOAT16 || t == FBY_BFLOAT16 || t == FBY_FLOAT32 || t == FBY_FLOAT64;
    if (is_float && isnan(wide_of(t, a)))
        return isnan(wide_of(t, b));
    return memcmp(a, b, fby_dtype_bytes(t)) == 0;
}

static void every_pair_of_dtypes_converts_as_the_rules_say(void **state)
{
    (void)state;
    enum { N = 700 };
    static uint8_t src[N * 8 + 1], dst[N * 8 + 8];
    for (int s = 1; s < FBY_DTYPE_COUNT; s++)
        for (int d = 1; d < FBY_DTYPE_COUNT; d++)
            for (int round = 0; round < 6; round++) {
                size_t n = below(N), from = fby_dtype_bytes((fby_dtype)s), to = fby_dtype_bytes((fby_dtype)d), first_bad = n;
                uint8_t *in = src + (round & 1); /* page bytes have no alignment */
                uint8_t want[8];
                for (size_t i = 0; i < n; i++) {
                    random_element((fby_dtype)s, want);
                    memcpy(in + i * from, want, from);
                    bool fits = (s == d) || twin((fby_dtype)d, wide_of((fby_dtype)s, in + i * from), want);
                    if (!fits && round < 4) { /* in most rounds all values fit: the loops run to the end */
                        memset(in + i * from, 0, from);
                        fits = true;
                    }
                    if (!fits && first_bad == n)
                        first_bad = i;
                }
                size_t bad = SIZE_MAX;
                memset(dst + n * to, 0xaa, 8);
                fby_status st = fby__convert((fby_dtype)d, dst, (fby_dtype)s, in, n, FBY__SCALE_NONE, &bad);
                assert_int_equal(st, first_bad < n ? FBY_E_DATA : FBY_OK);
                if (first_bad < n)
                    assert_int_equal(bad, first_bad);
                for (size_t i = 0; i < first_bad; i++) {
                    if (s == d)
                        memcpy(want, in + i * from, from);
                    else
                        (void)twin((fby_dtype)d, wide_of((fby_dtype)s, in + i * from), want); /* it fits */
                    if (!same((fby_dtype)d, dst + i * to, want))
                        fail_msg("%s to %s: %.20Lg", fby_dtype_name((fby_dtype)s), fby_dtype_name((fby_dtype)d),
                                 wide_of((fby_dtype)s, in + i * from));
                }
                assert_int_equal(dst[n * to], 0xaa);
            }
}

static void every_float16_goes_to_float_and_back(void **state)
{
    (void)state;
    uint16_t all[65536], back[65536];
    static float f[65536];
    size_t bad;
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    assert_int_equal(fby__convert(FBY_FLOAT32, f, FBY_FLOAT16, all, 65536, FBY__SCALE_NONE, &bad), FBY_OK);
    assert_int_equal(fby__convert(FBY_FLOAT16, back, FBY_FLOAT32, f, 65536, FBY__SCALE_NONE, &bad), FBY_OK);
    for (uint32_t i = 0; i < 65536; i++) {
        int e = (int)(i >> 10 & 31);
        uint32_t m = i & 1023;
        if (e == 31) {
            assert_true(m ? isnan(f[i]) : isinf(f[i]));
        } else {
            float want = ldexpf(e ? (float)(1024 + m) : (float)m, (e ? e : 1) - 25);
            assert_true(f[i] == (i & 0x8000 ? -want : want));
        }
        assert_int_equal(bits_of(f[i]), bits_of(fby__float16_to_float(all[i])));
        assert_int_equal(back[i], m && e == 31 ? i | 0x200 : i);
    }
}

static void floats_between_two_float16s_go_to_the_nearer_even_one(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        float f = float_of((uint32_t)fby__random_next(&random_state));
        if (below(2)) /* exact ties and their neighbours */
            f = (fby__float16_to_float((uint16_t)(round & 0x7bff)) + fby__float16_to_float((uint16_t)((round & 0x7bff) + 1))) / 2;
        if (isnan(f))
            continue;
        assert_int_equal(fby__float_to_float16(f), nearest_half(false, f));
        assert_int_equal(fby__float_to_bfloat16(f), nearest_half(true, f));
    }
    assert_int_equal(fby__float_to_float16(65519.996f), 0x7bff);
    assert_int_equal(fby__float_to_float16(65520.0f), 0x7c00);
    assert_int_equal(fby__float_to_bfloat16(-3.4e38f), 0xff80);
}

/* Rounding to float first and then to 16 bits is wrong next to a tie: those are the cases here. */
static void doubles_and_integers_are_rounded_to_16_bits_once(void **state)
{
    (void)state;
    for (int round = 0; round < 40000; round++) {
        const bool brain = round & 1;
        const uint16_t h = (uint16_t)below(brain ? 0x7f7f : 0x7bff);
        const float low = brain ? fby__bfloat16_to_float(h) : fby__float16_to_float(h),
                    high = brain ? fby__bfloat16_to_float((uint16_t)(h + 1)) : fby__float16_to_float((uint16_t)(h + 1));
        float near = low / 2 + high / 2; /* the tie, or a float next to it */
        for (uint64_t k = below(3); k--;)
            near = nextafterf(near, below(2) ? INFINITY : 0);
        double d = near;
        if (below(3))
            d = nextafter(d, below(2) ? INFINITY : 0);
        if (below(2))
            d = -d;
        uint16_t got;
        size_t bad;
        assert_int_equal(fby__convert(brain ? FBY_BFLOAT16 : FBY_FLOAT16, &got, FBY_FLOAT64, &d, 1, FBY__SCALE_NONE, &bad), FBY_OK);
        assert_int_equal(got, nearest_half(brain, d));
        if (d > 0x1p20 && d < 0x1p64) {
            uint64_t u = (uint64_t)d + below(3) - 1;
            assert_int_equal(fby__convert(brain ? FBY_BFLOAT16 : FBY_FLOAT16, &got, FBY_UINT64, &u, 1, FBY__SCALE_NONE, &bad), FBY_OK);
            assert_int_equal(got, nearest_half(brain, u));
        }
        if (fabs(d) < 0x1p63 && fabs(d) > 0x1p20) {
            int64_t i = (int64_t)d + (int64_t)below(3) - 1;
            assert_int_equal(fby__convert(brain ? FBY_BFLOAT16 : FBY_FLOAT16, &got, FBY_INT64, &i, 1, FBY__SCALE_NONE, &bad), FBY_OK);
            assert_int_equal(got, nearest_half(brain, i));
        }
    }
}

static void scales_are_exact_floor_and_notice_overflow(void **state)
{
    (void)state;
    size_t bad = 0;
    int64_t in[] = {-1, 0, 999, 1000, -1000, -1001}, out[6];
    assert_int_equal(fby__convert(FBY_INT64, out, FBY_INT64, in, 6, (fby__scale){1, 1000, 0}, &bad), FBY_OK);
    assert_memory_equal(out, ((int64_t[]){-1, 0, 0, 1, -1, -2}), sizeof out);
    int64_t big[] = {1, INT64_MAX / 1000, INT64_MAX / 1000 + 1};
    assert_int_equal(fby__convert(FBY_INT64, out, FBY_INT64, big, 3, (fby__scale){1000, 1, 0}, &bad), FBY_E_DATA);
    assert_int_equal(bad, 2);
    int32_t days[] = {1, -1};
    double seconds[2];
    assert_int_equal(fby__convert(FBY_FLOAT64, seconds, FBY_INT32, days, 2, (fby__scale){86400, 1, 0}, &bad), FBY_OK);
    assert_true(seconds[0] == 86400.0 && seconds[1] == -86400.0);

    int32_t unscaled[] = {12345, -1, 7};
    double d[3];
    assert_int_equal(fby__convert(FBY_FLOAT64, d, FBY_INT32, unscaled, 3, (fby__scale){1, 1, 2}, &bad), FBY_OK);
    assert_true(d[0] == 123.45 && d[1] == -0.01 && d[2] == 0.07);
    float f[3];
    assert_int_equal(fby__convert(FBY_FLOAT32, f, FBY_INT32, unscaled, 3, (fby__scale){1, 1, -2}, &bad), FBY_OK);
    assert_true(f[0] == 1234500.0f);
    int64_t many[600];
    double wide[600];
    for (int i = 0; i < 600; i++)
        many[i] = i;
    assert_int_equal(fby__convert(FBY_FLOAT64, wide, FBY_INT64, many, 600, (fby__scale){1, 1, 1}, &bad), FBY_OK);
    assert_true(wide[599] == 59.9);
}

static void values_are_written_as_people_read_them(void **state)
{
    (void)state;
    char text[32];
    fby__value_text(FBY_INT16, &(int16_t){-7}, text, sizeof text);
    assert_string_equal(text, "-7");
    fby__value_text(FBY_UINT64, &(uint64_t){UINT64_MAX}, text, sizeof text);
    assert_string_equal(text, "18446744073709551615");
    fby__value_text(FBY_FLOAT32, &(float){0.5f}, text, sizeof text);
    assert_string_equal(text, "0.5");
    fby__value_text(FBY_FLOAT64, &(double){1e300}, text, sizeof text);
    assert_string_equal(text, "1.0000000000000001e+300");
    fby__value_text(FBY_BOOL, &(uint8_t){1}, text, sizeof text);
    assert_string_equal(text, "true");
    fby__value_text(FBY_FLOAT16, &(uint16_t){0x3c00}, text, sizeof text);
    assert_string_equal(text, "1");
    assert_int_equal(fby__value_text(FBY_INT64, &(int64_t){123456}, text, 4), 6);
    assert_string_equal(text, "123");
}

/* ---- rows ---- */

static void columns_become_rows_and_nothing_beside_them_changes(void **state)
{
    (void)state;
    static const size_t ELEM[] = {1, 2, 4, 8};
    for (int round = 0; round < 600; round++) {
        const size_t elem = ELEM[round % 4], n_cols = 1 + below(40), n_rows = below(round % 3 ? 70 : 300), left = below(3),
                     right = below(3);
        const size_t stride = (left + n_cols + right) * elem;
        uint8_t *cols = guarded_alloc(n_cols * n_rows * elem), *dst = guarded_alloc(n_rows * stride);
        const void **from = malloc(n_cols * sizeof *from);
        for (size_t i = 0; i < n_cols * n_rows * elem; i++)
            cols[i] = (uint8_t)below(256);
        memset(dst, 0xcd, n_rows * stride);
        for (size_t c = 0; c < n_cols; c++)
            from[c] = cols + c * n_rows * elem; /* at any address, and the last one ends where a page does that nobody may touch */
        fby__interleave(dst + left * elem, stride, from, n_cols, n_rows, elem);
        for (size_t r = 0; r < n_rows; r++)
            for (size_t c = 0; c < left + n_cols + right; c++) {
                const uint8_t *got = dst + r * stride + c * elem;
                if (c >= left && c < left + n_cols)
                    assert_memory_equal(got, cols + ((c - left) * n_rows + r) * elem, elem);
                else
                    assert_int_equal(got[0], 0xcd);
            }
        guarded_free(cols, n_cols * n_rows * elem);
        guarded_free(dst, n_rows * stride);
        free(from);
    }
}

/* ---- panels ---- */

static void panels_are_laid_out_aligned_and_apart(void **state)
{
    (void)state;
    fby__panel_column columns[3] = {0};
    for (int kind = FBY__PANEL_DENSE; kind <= FBY__PANEL_BYTES; kind++) {
        fby__panel_layout layout = {.kind = (fby__panel_kind)kind,
                                    .dtype = kind == FBY__PANEL_BYTES ? FBY_UINT8 : FBY_FLOAT64,
                                    .n_columns = kind == FBY__PANEL_DENSE ? 3 : 1,
                                    .width = kind == FBY__PANEL_DENSE ? 5 : 1,
                                    .want_valid = true,
                                    .elements_valid = true,
                                    .columns = columns};
        size_t bytes = 0;
        assert_int_equal(fby__panel_bytes(&layout, 101, 1001, &bytes, NULL), FBY_OK);
        uint8_t *memory = aligned_alloc(64, bytes);
        assert_non_null(memory);
        fby__panel p;
        fby__panel_place(&layout, 101, 1001, memory, &p);
        assert_int_equal(p.rows, 101);
        /* write every part in full: a sanitizer sees what lies outside, and the first part keeps its bytes */
        size_t data = kind == FBY__PANEL_DENSE ? 101 * 40 : kind == FBY__PANEL_RAGGED ? 1001 * 8 : 1001;
        memset(p.data, 1, data);
        if (kind == FBY__PANEL_RAGGED)
            memset(p.offsets, 2, 102 * sizeof *p.offsets);
        if (kind == FBY__PANEL_BYTES)
            memset(p.views, 3, 101 * sizeof *p.views);
        memset(p.valid, 4, 101 * layout.n_columns);
        assert_int_equal(p.element_valid != NULL, kind == FBY__PANEL_RAGGED);
        if (p.element_valid)
            memset(p.element_valid, 5, 1001);
        for (size_t i = 0; i < data; i++)
            assert_int_equal(p.data[i], 1);
        if (kind == FBY__PANEL_RAGGED)
            assert_int_equal(((uint8_t *)p.offsets)[102 * 8 - 1], 2);
        if (kind == FBY__PANEL_BYTES)
            assert_int_equal(((uint8_t *)p.views)[101 * 16 - 1], 3);
        assert_int_equal(p.row_bytes, kind == FBY__PANEL_DENSE ? 40 : 0);
        free(memory);
        assert_int_equal(fby__panel_bytes(&layout, UINT64_MAX / 4, UINT64_MAX / 4, &bytes, NULL), FBY_E_ARG);
    }
}

/* Memory of it is never NULL, with which nobody may calculate. */
static void a_panel_of_values_without_bytes_takes_some(void **state)
{
    (void)state;
    fby__panel_column column = {0};
    const fby__panel_layout layout = {.kind = FBY__PANEL_DENSE, .dtype = FBY_UINT8, .n_columns = 1, .columns = &column};
    size_t bytes = 0;
    assert_int_equal(fby__panel_bytes(&layout, 5, 0, &bytes, NULL), FBY_OK);
    assert_int_equal(bytes, 64);
}

static void a_fill_value_is_an_element_or_refused(void **state)
{
    (void)state;
    fby__scalar s;
    assert_true(fby__scalar_set(FBY_FLOAT32, 1.5, &s) && s.f32 == 1.5f);
    assert_true(fby__scalar_set(FBY_INT8, -3, &s) && (int8_t)s.bytes[0] == -3);
    assert_false(fby__scalar_set(FBY_INT8, 200, &s));
    assert_false(fby__scalar_set(FBY_INT64, NAN, &s));
    assert_true(fby__scalar_set(FBY_FLOAT16, NAN, &s) && (fby__load_u16(s.bytes) & 0x7fff) > 0x7c00);
    assert_false(fby__scalar_set(FBY_BOOL, 2, &s));
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup(every_pair_of_dtypes_converts_as_the_rules_say, seed_random),
    cmocka_unit_test(every_float16_goes_to_float_and_back),
    cmocka_unit_test_setup(floats_between_two_float16s_go_to_the_nearer_even_one, seed_random),
    cmocka_unit_test_setup(doubles_and_integers_are_rounded_to_16_bits_once, seed_random),
    cmocka_unit_test(scales_are_exact_floor_and_notice_overflow),
    cmocka_unit_test(values_are_written_as_people_read_them),
    cmocka_unit_test_setup(columns_become_rows_and_nothing_beside_them_changes, seed_random),
    cmocka_unit_test(panels_are_laid_out_aligned_and_apart),
    cmocka_unit_test(a_panel_of_values_without_bytes_takes_some),
    cmocka_unit_test(a_fill_value_is_an_element_or_refused),
};
SIMD_MAIN(TESTS)
