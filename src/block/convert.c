/*
 * Conversion between dtypes, with the rules of convert.h. The loops are in convert_loops.h.
 *
 * Pairs with a 16-bit float on either side go through a block of floats. Where that would round twice (double or 64-bit integers
 * to 16 bits), the first step rounds to odd: an inexact result gets an odd last bit, which keeps it off the ties of the
 * second step (S. Boldo, G. Melquiond, "When double rounding is odd", 2005).
 */
#include "block/convert.h"

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define BLOCK 256
/* Floats, as bits, that round to infinity from there on. */
#define FLOAT16_OVERFLOW UINT32_C(0x477ff000)  /* 65520 */
#define BFLOAT16_OVERFLOW UINT32_C(0x7f7f8000) /* 0x1.ffp127 */

#define ANY_ADDRESS(T) typedef T T##_any __attribute__((aligned(1), may_alias));
ANY_ADDRESS(int8_t)
ANY_ADDRESS(int16_t)
ANY_ADDRESS(int32_t)
ANY_ADDRESS(int64_t)
ANY_ADDRESS(uint8_t)
ANY_ADDRESS(uint16_t)
ANY_ADDRESS(uint32_t)
ANY_ADDRESS(uint64_t)
ANY_ADDRESS(float)
ANY_ADDRESS(double)

/* ---- 16-bit floats, one at a time ---- */

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float fby__float16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31)
        return float_of(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0)); /* NaN: quiet, as the hardware does */
    if (exponent == 0) {                                                                 /* fraction * 2^-24 */
        float f = (float)fraction * 0x1p-24f;
        return sign ? -f : f;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t fby__float_to_float16(float f)
{
    uint32_t u = bits_of(f), magnitude = u & 0x7fffffff;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= FLOAT16_OVERFLOW)
        return sign | 0x7c00;
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal; adding 0.5 leaves the rounded fraction in the low bits */
        float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000));
    }
    return (uint16_t)(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13));
}

float fby__bfloat16_to_float(uint16_t b) { return float_of((uint32_t)b << 16); }

uint16_t fby__float_to_bfloat16(float f)
{
    uint32_t u = bits_of(f), rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* To float, rounding to odd. */
static float odd_float(double d)
{
    float f = (float)d;
    if ((double)f == d || d != d)
        return f;
    uint32_t u = bits_of(f);
    if (u & 1)
        return f;
    /* the neighbour on the other side of d: odd */
    double magnitude = d < 0 ? -d : d, got = f < 0 ? -(double)f : (double)f;
    return float_of(got > magnitude ? u - 1 : u + 1);
}

/* ---- loops ---- */

typedef size_t (*loop_fn)(void *dst, const void *src, size_t n);
typedef struct loop_table {
    loop_fn loop[FBY_DTYPE_COUNT][FBY_DTYPE_COUNT]; /* [source][destination] */
    void (*bf16_from_float)(void *dst, const float *in, size_t n);
    void (*float_from_bf16)(float *out, const void *src, size_t n);
    size_t (*find_overflow)(const float *in, size_t n, uint32_t limit);
} loop_table;

#define TARGET
#define NAME(x) x##_plain
#include "block/convert_loops.h"

static void f16_from_float(void *dst, const float *in, size_t n)
{
    uint16_t_any *out = dst;
    for (size_t i = 0; i < n; i++)
        out[i] = fby__float_to_float16(in[i]);
}

static void float_from_f16(float *out, const void *src, size_t n)
{
    const uint16_t_any *in = src;
    for (size_t i = 0; i < n; i++)
        out[i] = fby__float16_to_float(in[i]);
}

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,bmi,bmi2,fma,f16c")))
#define NAME(x) x##_avx2
#include "block/convert_loops.h"

#if defined(__clang__)
#define TARGET __attribute__((target("avx2,bmi,bmi2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define TARGET __attribute__((target("avx2,bmi,bmi2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define NAME(x) x##_avx512
#include "block/convert_loops.h"

__attribute__((target("avx2,f16c"))) static void f16_from_float_f16c(void *dst, const float *in, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)((uint8_t *)dst + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    f16_from_float((uint8_t *)dst + 2 * i, in + i, n - i);
}

__attribute__((target("avx2,f16c"))) static void float_from_f16_f16c(float *out, const void *src, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)((const uint8_t *)src + 2 * i))));
    float_from_f16(out + i, (const uint8_t *)src + 2 * i, n - i);
}
#elif defined(__aarch64__) /* every such processor converts by itself, NaN as above, and compilers take several at a time */
typedef __fp16 half_any __attribute__((aligned(1), may_alias));

static void f16_from_float_neon(void *dst, const float *in, size_t n)
{
    half_any *out = dst;
    for (size_t i = 0; i < n; i++)
        out[i] = (__fp16)in[i];
}

static void float_from_f16_neon(float *out, const void *src, size_t n)
{
    const half_any *in = src;
    for (size_t i = 0; i < n; i++)
        out[i] = in[i];
}
#endif

static const loop_table *loops(void)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx512())
        return &LOOPS_avx512;
    if (fby__cpu_has_avx2())
        return &LOOPS_avx2;
#endif
    return &LOOPS_plain;
}

/* ---- pairs ---- */

static bool is_half(fby_dtype dtype) { return dtype == FBY_FLOAT16 || dtype == FBY_BFLOAT16; }

static void half_from_float(fby_dtype dtype, void *dst, const float *in, size_t n)
{
    if (dtype == FBY_BFLOAT16) {
        loops()->bf16_from_float(dst, in, n);
        return;
    }
#if defined(__x86_64__)
    if (fby__cpu_has_avx2()) {
        f16_from_float_f16c(dst, in, n);
        return;
    }
#elif defined(__aarch64__)
    if (fby__cpu_has_neon()) {
        f16_from_float_neon(dst, in, n);
        return;
    }
#endif
    f16_from_float(dst, in, n);
}

static void float_from_half(fby_dtype dtype, float *out, const void *src, size_t n)
{
    if (dtype == FBY_BFLOAT16) {
        loops()->float_from_bf16(out, src, n);
        return;
    }
#if defined(__x86_64__)
    if (fby__cpu_has_avx2()) {
        float_from_f16_f16c(out, src, n);
        return;
    }
#elif defined(__aarch64__)
    if (fby__cpu_has_neon()) {
        float_from_f16_neon(out, src, n);
        return;
    }
#endif
    float_from_f16(out, src, n);
}

/* 64-bit integers beyond 2^53, with their low bits folded into one that says whether any was set: then exact as doubles. */
static double odd_double_i64(int64_t v)
{
    if (v > -(INT64_C(1) << 53) && v < INT64_C(1) << 53)
        return (double)v;
    return (double)(int64_t)(((uint64_t)v & ~UINT64_C(0xfff)) | ((uint64_t)v & 0xfff ? 0x800 : 0));
}

static double odd_double_u64(uint64_t v)
{
    return v < UINT64_C(1) << 53 ? (double)v : (double)((v & ~UINT64_C(0xfff)) | (v & 0xfff ? 0x800 : 0));
}

/* At most BLOCK values of any dtype as floats that round to the same 16-bit float. */
static void odd_floats(float *out, fby_dtype src_dtype, const void *src, size_t n)
{
    switch (src_dtype) {
    case FBY_FLOAT32: memcpy(out, src, n * sizeof *out); return;
    case FBY_FLOAT16:
    case FBY_BFLOAT16: float_from_half(src_dtype, out, src, n); return;
    case FBY_INT64:
        for (size_t i = 0; i < n; i++)
            out[i] = odd_float(odd_double_i64(((const int64_t_any *)src)[i]));
        return;
    case FBY_UINT64:
        for (size_t i = 0; i < n; i++)
            out[i] = odd_float(odd_double_u64(((const uint64_t_any *)src)[i]));
        return;
    default: {
        double d[BLOCK];
        (void)loops()->loop[src_dtype][FBY_FLOAT64](d, src, n); /* every value fits */
        for (size_t i = 0; i < n; i++)
            out[i] = odd_float(d[i]);
    }
    }
}

static size_t convert_plain(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const uint8_t *src, size_t n)
{
    const size_t dst_bytes = fby_dtype_bytes(dst_dtype), src_bytes = fby_dtype_bytes(src_dtype);
    if (dst_dtype == src_dtype) {
        if (dst != src && n)
            memcpy(dst, src, n * dst_bytes);
        return n;
    }
    if (!is_half(dst_dtype) && !is_half(src_dtype))
        return loops()->loop[src_dtype][dst_dtype](dst, src, n);
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t k = n - at < BLOCK ? n - at : BLOCK, got = k;
        float f[BLOCK];
        odd_floats(f, src_dtype, src + at * src_bytes, k);
        if (is_half(dst_dtype)) {
            half_from_float(dst_dtype, dst + at * dst_bytes, f, k);
            got = loops()->find_overflow(f, k, dst_dtype == FBY_FLOAT16 ? FLOAT16_OVERFLOW : BFLOAT16_OVERFLOW);
        } else {
            got = convert_plain(dst_dtype, dst + at * dst_bytes, FBY_FLOAT32, (const uint8_t *)f, k);
        }
        if (got < k)
            return at + got;
    }
    return n;
}

/* ---- scales ---- */

static double power_of_ten(int32_t n)
{
    static const double EXACT[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    double p = 1;
    for (; n > 22; n -= 22)
        p *= 1e22;
    return p * EXACT[n];
}

static bool scaled(int64_t v, fby__scale scale, int64_t *out)
{
    int64_t product;
    if (__builtin_mul_overflow(v, scale.mul, &product))
        return false;
    int64_t q = product / scale.div;
    *out = q - (product % scale.div != 0 && (product < 0) != (scale.div < 0)); /* floor */
    return true;
}

static size_t convert_block_scaled(fby_dtype dst_dtype, uint8_t *dst, fby_dtype src_dtype, const uint8_t *src, size_t n, fby__scale scale)
{
    if (scale.pow10 != 0) {
        double d[BLOCK];
        (void)convert_plain(FBY_FLOAT64, (uint8_t *)d, src_dtype, src, n); /* every value fits */
        const double power = power_of_ten(scale.pow10 < 0 ? -scale.pow10 : scale.pow10);
        for (size_t i = 0; i < n; i++)
            d[i] = scale.pow10 < 0 ? d[i] * power : d[i] / power; /* dividing by an exact power rounds once */
        return convert_plain(dst_dtype, dst, FBY_FLOAT64, (const uint8_t *)d, n);
    }
    int64_t v[BLOCK];
    size_t fit = convert_plain(FBY_INT64, (uint8_t *)v, src_dtype, src, n);
    for (size_t i = 0; i < fit; i++)
        if (!scaled(v[i], scale, &v[i]))
            fit = i;
    size_t got = convert_plain(dst_dtype, dst, FBY_INT64, (const uint8_t *)v, fit);
    return got < fit ? got : fit;
}

fby_status fby__convert(fby_dtype dst_dtype, void *dst, fby_dtype src_dtype, const void *src, size_t n, fby__scale scale, size_t *out_bad)
{
    size_t fit = n;
    if (scale.mul == scale.div && scale.pow10 == 0) {
        fit = convert_plain(dst_dtype, dst, src_dtype, src, n);
    } else {
        const size_t dst_bytes = fby_dtype_bytes(dst_dtype), src_bytes = fby_dtype_bytes(src_dtype);
        for (size_t at = 0; at < n && fit == n; at += BLOCK) {
            size_t k = n - at < BLOCK ? n - at : BLOCK;
            size_t got = convert_block_scaled(dst_dtype, (uint8_t *)dst + at * dst_bytes, src_dtype, (const uint8_t *)src + at * src_bytes,
                                              k, scale);
            if (got < k)
                fit = at + got;
        }
    }
    if (fit == n)
        return FBY_OK;
    *out_bad = fit;
    return FBY_E_DATA;
}

const char *fby__value_advice(const char *text, fby_dtype to)
{
    if (strstr(text, "nan") && !fby__dtype_is_float(to))
        return "only floats have NaN: fill it, fill_missing(0), or choose a float dtype";
    return strstr(text, "inf") && !fby__dtype_is_float(to) ? "only floats are infinite: choose a float dtype" : "choose a wider dtype";
}

size_t fby__value_text(fby_dtype dtype, const void *value, char *out, size_t n)
{
    int len;
    double d;
    int64_t i = 0;
    switch (dtype) {
    case FBY_BOOL: len = snprintf(out, n, "%s", *(const uint8_t *)value ? "true" : "false"); break;
    case FBY_UINT64: len = snprintf(out, n, "%" PRIu64, fby__load_u64(value)); break;
    case FBY_FLOAT16:
    case FBY_BFLOAT16:
    case FBY_FLOAT32:
        (void)convert_plain(FBY_FLOAT64, (uint8_t *)&d, dtype, value, 1); /* every value fits */
        len = snprintf(out, n, "%.9g", d);
        break;
    case FBY_FLOAT64:
        memcpy(&d, value, sizeof d);
        len = snprintf(out, n, "%.17g", d);
        break;
    default:
        (void)convert_plain(FBY_INT64, (uint8_t *)&i, dtype, value, 1); /* every value fits */
        len = snprintf(out, n, "%" PRId64, i);
    }
    return len < 0 ? 0 : (size_t)len;
}
