/*
 * Steps over rows.
 *
 *   rows    ··|a b c|··········|a b c|··········|a b c|··   a run of columns, some rows at a time
 *   values    a b c a b c a b c                              float64, at most TILE: widened, every step, rounded, put back
 *   tiles     A B C A B C A B C                              parameters of a step, repeated as often: made once a call
 */
#include "base/cpu.h"
#include "block/convert.h"
#include "transform/program_internal.h"

#include <math.h>
#include <string.h>

#define TILE 256u /* values: with the parameters of two steps some 14 KiB */

typedef struct loop_table {
    void (*affine)(double *x, size_t n, const double *centre, const double *factor, const double *offset);
    void (*affine_uniform)(double *x, size_t n, double centre, double factor, double offset);
    void (*clip)(double *x, size_t n, const double *low, const double *high);
    void (*clip_uniform)(double *x, size_t n, double low, double high);
    void (*fill_nan)(double *x, size_t n, const double *value);
    void (*find_nan)(const double *x, size_t n, uint64_t *mask);
    void (*fill_masked)(double *x, size_t n, const uint64_t *mask, const double *value);
    void (*fill_2)(uint8_t *values, size_t n, uint64_t infinity, uint64_t value);
    void (*fill_4)(uint8_t *values, size_t n, uint64_t infinity, uint64_t value);
    void (*fill_8)(uint8_t *values, size_t n, uint64_t infinity, uint64_t value);
    void (*log)(double *x, size_t n);
    void (*log10)(double *x, size_t n);
    void (*log1p)(double *x, size_t n);
} loop_table;

static inline uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double of_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* By masks: a branch that skips the work for one side keeps a loop from being vectorised. */
static inline __attribute__((always_inline)) double choose(bool which, double a, double b)
{
    const uint64_t mask = 0 - (uint64_t)which;
    return of_bits((bits_of(a) & mask) | (bits_of(b) & ~mask));
}

#define ONE_BITS UINT64_C(0x3ff0000000000000)
#define ROOT_HALF_BITS UINT64_C(0x3fe6a09e667f3bcd)
#define TWO_52_BITS UINT64_C(0x4330000000000000)
#define FRACTION_BITS UINT64_C(0x000fffffffffffff)
#define HIGH_BITS UINT64_C(0xffffffff00000000)
/* Each constant in two parts, the first with zeros at its end: its product with a short number is exact. */
#define LN2_HIGH 0x1.62e42fefa3000p-1
#define LN2_LOW 0x1.3de6af278ece6p-42
#define INV_LN10_HIGH 0x1.bcb7b00000000p-2
#define INV_LN10_LOW 0x1.526e50e32a6abp-26
#define LOG10_2_HIGH 0x1.34413509f7000p-2
#define LOG10_2_LOW 0x1.3fde623e2566bp-43

#define TARGET
#define NAME(x) x##_plain
#include "transform/op_loops.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,bmi,bmi2")))
#define NAME(x) x##_avx2
#include "transform/op_loops.h"

#if defined(__clang__)
#define TARGET __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define TARGET __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define NAME(x) x##_avx512
#include "transform/op_loops.h"
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

/** Parameters of the steps for the values of a tile. An operation needs no more than three. */
typedef struct tiles {
    double at[FBY_MAX_OPS * FBY__PASS_PARAMS][TILE];
} tiles;

/* Steps with the same numbers for all columns have loops that take them as such. */
static bool has_number(const fby__pass *s) { return s->uniform && s->kind != FBY__PASS_FILL_NAN && s->kind != FBY__PASS_FILL_MISSING; }

/* Elements [first, first + n) of the columns from `column` on, `times` times. */
static void fill_tiles(const fby__program *p, uint32_t column, uint32_t width, uint32_t first, uint32_t n, uint32_t times, tiles *t)
{
    double(*next)[TILE] = t->at;
    for (uint32_t i = 0; i < p->n_passes; i++) {
        const fby__pass *s = &p->passes[i];
        for (uint32_t k = 0; !has_number(s) && k < fby__pass_params(s->kind); k++) {
            double *at = *next++;
            for (uint32_t e = 0; e < n; e++)
                at[e] = s->param[k][fby__pass_param_at(s, column, width, first + e)];
            for (uint32_t r = 1; r < times; r++)
                memcpy(at + (size_t)r * n, at, n * sizeof *at);
        }
    }
}

static void run_passes(const fby__program *p, const loop_table *l, const tiles *t, double *x, size_t n)
{
    const double(*at)[TILE] = t->at;
    uint64_t missing[TILE];
    if (p->looks_back)
        l->find_nan(x, n, missing);
    for (uint32_t i = 0; i < p->n_passes; i++) {
        const fby__pass *s = &p->passes[i];
        switch (s->kind) {
        case FBY__PASS_AFFINE:
            if (s->uniform)
                l->affine_uniform(x, n, s->param[0][0], s->param[1][0], s->param[2][0]);
            else
                l->affine(x, n, at[0], at[1], at[2]);
            break;
        case FBY__PASS_CLIP:
            if (s->uniform)
                l->clip_uniform(x, n, s->param[0][0], s->param[1][0]);
            else
                l->clip(x, n, at[0], at[1]);
            break;
        case FBY__PASS_FILL_NAN: l->fill_nan(x, n, at[0]); break;
        case FBY__PASS_FILL_MISSING: l->fill_masked(x, n, missing, at[0]); break;
        case FBY__PASS_LOG: l->log(x, n); break;
        case FBY__PASS_LOG10: l->log10(x, n); break;
        case FBY__PASS_LOG1P: l->log1p(x, n); break;
        }
        at += has_number(s) ? 0 : fby__pass_params(s->kind);
    }
}

/* Runs of `bytes` that lie `stride` apart, packed; or back. The sizes of one element get a copy of their own. */
static void pack(uint8_t *packed, uint8_t *rows, size_t stride, size_t bytes, uint32_t n, bool back)
{
#define COPY(size)                                                                                                                         \
    for (uint32_t r = 0; r < n; r++) {                                                                                                     \
        uint8_t *a = packed + r * (size), *b = rows + r * stride;                                                                          \
        memcpy(back ? b : a, back ? a : b, (size));                                                                                        \
    }
    switch (bytes) {
    case 2: COPY(2) break;
    case 4: COPY(4) break;
    case 8: COPY(8) break;
    default: COPY(bytes) break;
    }
#undef COPY
}

/* A program that only fills, with one number for all: by bits, without widening. False for others. */
static bool fill_in_place(const fby__program *p, const loop_table *l, fby_dtype dtype, uint8_t *values, uint64_t n)
{
    const fby__pass *s = &p->passes[0];
    fby__scalar value = {0};
    if (p->n_passes != 1 || s->kind != FBY__PASS_FILL_NAN || !s->uniform)
        return false;
    if (!fby__scalar_set(dtype, s->param[0][0], &value)) /* too large: an error where there is something to fill */
        return false;
    switch (dtype) {
    case FBY_FLOAT16: l->fill_2(values, (size_t)n, UINT16_C(0x7c00), value.u64); return true;
    case FBY_BFLOAT16: l->fill_2(values, (size_t)n, UINT16_C(0x7f80), value.u64); return true;
    case FBY_FLOAT32: l->fill_4(values, (size_t)n, UINT32_C(0x7f800000), value.u64); return true;
    case FBY_FLOAT64: l->fill_8(values, (size_t)n, UINT64_C(0x7ff0000000000000), value.u64); return true;
    default: return false;
    }
}

uint64_t fby__program_run(const fby__program *p, fby_dtype dtype, uint8_t *rows, uint64_t n_rows, size_t stride_bytes, uint32_t column,
                          uint32_t n_columns, uint32_t width)
{
    const loop_table *l = loops();
    const size_t bytes = fby_dtype_bytes(dtype);
    const uint32_t elements = n_columns * width;
    const bool is_dense = stride_bytes == elements * bytes && elements <= TILE;
    if (stride_bytes == elements * bytes && fill_in_place(p, l, dtype, rows, n_rows * elements))
        return n_rows;
    tiles t;
    double x[TILE];
    uint64_t packed[TILE];
    size_t bad;
    uint64_t bad_row = n_rows;
    for (uint32_t first = 0; first < elements; first += TILE) {
        const uint32_t n = elements - first < TILE ? elements - first : TILE, times = TILE / n;
        fill_tiles(p, column, width, first, n, n_rows < times ? (uint32_t)n_rows : times, &t);
        for (uint64_t r = 0; r < n_rows; r += times) {
            const uint32_t k = n_rows - r < times ? (uint32_t)(n_rows - r) : times;
            uint8_t *at = rows + r * stride_bytes + first * bytes, *values = is_dense ? at : (uint8_t *)packed;
            if (!is_dense)
                pack((uint8_t *)packed, at, stride_bytes, n * bytes, k, false);
            (void)fby__convert(FBY_FLOAT64, x, dtype, values, (size_t)k * n, FBY__SCALE_NONE, &bad); /* every float is a double */
            run_passes(p, l, &t, x, (size_t)k * n);
            if (fby__convert(dtype, values, FBY_FLOAT64, x, (size_t)k * n, FBY__SCALE_NONE, &bad) != FBY_OK && r + bad / n < bad_row)
                bad_row = r + bad / n;
            if (!is_dense)
                pack((uint8_t *)packed, at, stride_bytes, n * bytes, k, true);
        }
    }
    return bad_row;
}
