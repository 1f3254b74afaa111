/*
 * The loops of run.c, compiled once for each instruction set: included with TARGET (a function attribute) and NAME(x) (the name of x for
 * it) defined. Plain loops, written for the vectoriser, over float64 in the L1 cache. The module is compiled without contraction of
 * a · b + c, so that every set gives the same bits. No include guard: that is the point.
 *
 * The logarithm. x = 2^k · m with m in [√½, √2); f = m − 1; s = f / (2 + f); log m = 2 artanh s = 2 s + s · r with
 * r = 2 s² / 3 + 2 s⁴ / 5 + …; and since f = 2 s + s f, f² / 2 = s · (f + f² / 2) gives log m = f − (f² / 2 − s · (f² / 2 + r)): the
 * large part is exact. s² is below 0.0295: ten terms of r are as good as all. k · log 2 is added in two parts, the first one exact.
 */

TARGET static void NAME(affine)(double *x, size_t n, const double *centre, const double *factor, const double *offset)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - centre[i]) * factor[i] + offset[i];
}

TARGET static void NAME(affine_uniform)(double *x, size_t n, double centre, double factor, double offset)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - centre) * factor + offset;
}

TARGET static void NAME(clip)(double *x, size_t n, const double *low, const double *high)
{
    for (size_t i = 0; i < n; i++) {
        const double v = x[i], w = v < low[i] ? low[i] : v;
        x[i] = w > high[i] ? high[i] : w;
    }
}

TARGET static void NAME(clip_uniform)(double *x, size_t n, double low, double high)
{
    for (size_t i = 0; i < n; i++) {
        const double v = x[i], w = v < low ? low : v;
        x[i] = w > high ? high : w;
    }
}

TARGET static void NAME(fill_nan)(double *x, size_t n, const double *value)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] == x[i] ? x[i] : value[i];
}

TARGET static void NAME(find_nan)(const double *x, size_t n, uint64_t *mask)
{
    for (size_t i = 0; i < n; i++)
        mask[i] = 0 - (uint64_t)(x[i] != x[i]);
}

TARGET static void NAME(fill_masked)(double *x, size_t n, const uint64_t *mask, const double *value)
{
    for (size_t i = 0; i < n; i++)
        x[i] = of_bits((bits_of(value[i]) & mask[i]) | (bits_of(x[i]) & ~mask[i]));
}

/* Floats by their bits: a NaN is what lies above infinity once the sign is gone. */
#define FILL(name, T)                                                                                                                      \
    TARGET static void NAME(name)(uint8_t * values, size_t n, uint64_t infinity, uint64_t value)                                           \
    {                                                                                                                                      \
        typedef T any __attribute__((may_alias));                                                                                          \
        any *v = (any *)(void *)values;                                                                                                    \
        const T magnitude = (T)((T) ~(T)0 >> 1), most = (T)infinity, other = (T)value;                                                     \
        for (size_t i = 0; i < n; i++)                                                                                                     \
            v[i] = (T)(v[i] & magnitude) > most ? other : v[i];                                                                            \
    }
FILL(fill_2, uint16_t)
FILL(fill_4, uint32_t)
FILL(fill_8, uint64_t)
#undef FILL

/* The parts of log v, v > 0 and finite: f − f²/2 + tail, and k. */
#define SPLIT(v)                                                                                                                           \
    const bool is_tiny = (v) < 0x1p-1022;                                                                                                  \
    const uint64_t shifted = bits_of(choose(is_tiny, (v)*0x1p54, (v))) + (ONE_BITS - ROOT_HALF_BITS);                                      \
    const double k = of_bits(TWO_52_BITS | shifted >> 52) - choose(is_tiny, 0x1p52 + 1023 + 54, 0x1p52 + 1023);                            \
    const double f = of_bits((shifted & FRACTION_BITS) + ROOT_HALF_BITS) - 1;                                                              \
    const double half = 0.5 * f * f, s = f / (2 + f), z = s * s, zz = z * z;                                                               \
    const double odd = z * (2.0 / 3 + zz * (2.0 / 7 + zz * (2.0 / 11 + zz * (2.0 / 15 + zz * (2.0 / 19)))));                               \
    const double even = zz * (2.0 / 5 + zz * (2.0 / 9 + zz * (2.0 / 13 + zz * (2.0 / 17 + zz * (2.0 / 21)))));                             \
    const double tail = s * (half + (odd + even))

/* What the logarithm of v is where the formula does not hold. */
#define FINISH(v, r) choose((v) > 0, choose((v) < (double)INFINITY, (r), (v)), choose((v) == 0, -(double)INFINITY, (double)NAN))

TARGET static inline double NAME(log_of)(double v)
{
    SPLIT(v);
    const double r = k * LN2_HIGH + (f - (half - (tail + k * LN2_LOW)));
    return FINISH(v, r);
}

TARGET static void NAME(log)(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = NAME(log_of)(x[i]);
}

/* As the logarithm, with the large part cut to 32 bits so that its product with the cut 1 / log 10 is exact. */
TARGET static void NAME(log10)(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double v = x[i];
        SPLIT(v);
        const double high = of_bits(bits_of(f - half) & HIGH_BITS), low = (f - high) - half + tail;
        const double whole = k * LOG10_2_HIGH, part = high * INV_LN10_HIGH, sum = whole + part;
        const double rest = k * LOG10_2_LOW + (low + high) * INV_LN10_LOW + low * INV_LN10_HIGH;
        const double r = sum + (rest + ((whole - sum) + part));
        x[i] = FINISH(v, r);
    }
}

/* log(1 + x) = log u + what 1 + x lost when it was rounded to u, over u. */
TARGET static void NAME(log1p)(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double v = x[i], u = 1 + v, log_u = NAME(log_of)(u), r = log_u + (v - (u - 1)) / u;
        x[i] = choose((u > 0) & (u < (double)INFINITY), r, log_u);
    }
}

static const loop_table NAME(LOOPS) = {.affine = NAME(affine),
                                       .affine_uniform = NAME(affine_uniform),
                                       .clip = NAME(clip),
                                       .clip_uniform = NAME(clip_uniform),
                                       .fill_nan = NAME(fill_nan),
                                       .find_nan = NAME(find_nan),
                                       .fill_masked = NAME(fill_masked),
                                       .fill_2 = NAME(fill_2),
                                       .fill_4 = NAME(fill_4),
                                       .fill_8 = NAME(fill_8),
                                       .log = NAME(log),
                                       .log10 = NAME(log10),
                                       .log1p = NAME(log1p)};

#undef SPLIT
#undef FINISH
#undef TARGET
#undef NAME
