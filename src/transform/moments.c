/*
 * Moments of values: of every RUN of them the mean first, then the squared distances from it, while it is in the cache; runs
 * are merged in order. All distances are from the first value: values that are large beside their spread keep their digits.
 * Sums have LANES partial sums in a fixed order, so that they vectorise and come out the same everywhere.
 */
#include "base/cpu.h"
#include "transform/transform.h"

#include <math.h>
#include <string.h>

#define RUN 4096u
#define LANES 64u

/* The sum of partial sums, halves onto halves. */
static double total(double *lane)
{
    for (uint32_t half = LANES / 2; half > 0; half /= 2)
        for (uint32_t k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return lane[0];
}

/* n is a multiple of LANES. NaN and infinities have no difference of 0 to themselves. */
static inline __attribute__((always_inline)) fby__moment_sums sum_up(const double *values, uint64_t n, double origin)
{
    double count[LANES] = {0}, sum[LANES] = {0}, square[LANES] = {0}, least[LANES], most[LANES];
    for (uint32_t k = 0; k < LANES; k++) {
        least[k] = (double)INFINITY;
        most[k] = -(double)INFINITY;
    }
    for (uint64_t i = 0; i < n; i += LANES)
        for (uint32_t k = 0; k < LANES; k++) {
            const double v = values[i + k];
            const bool in = v - v == 0;
            count[k] += in ? 1.0 : 0.0;
            sum[k] += in ? v - origin : 0.0;
            const double low = in ? v : (double)INFINITY, high = in ? v : -(double)INFINITY;
            least[k] = low < least[k] ? low : least[k];
            most[k] = high > most[k] ? high : most[k];
        }
    const double there = total(count);
    fby__moment_sums m = {.count = (uint64_t)there, .origin = origin, .min = least[0], .max = most[0]};
    if (m.count == 0)
        return m;
    const double mean = total(sum) / there;
    for (uint64_t i = 0; i < n; i += LANES)
        for (uint32_t k = 0; k < LANES; k++) {
            const double v = values[i + k], apart = v - v == 0 ? (v - origin) - mean : 0.0;
            square[k] += apart * apart;
        }
    m.mean = mean;
    m.m2 = total(square);
    for (uint32_t k = 1; k < LANES; k++) {
        m.min = least[k] < m.min ? least[k] : m.min;
        m.max = most[k] > m.max ? most[k] : m.max;
    }
    return m;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static fby__moment_sums sum_up_avx2(const double *values, uint64_t n, double origin)
{
    return sum_up(values, n, origin);
}
#else
#define sum_up_avx2 sum_up
#endif

/* One run, at most RUN values. A last, shorter one is filled up with NaN, which is left out. */
static fby__moment_sums moments_of(const double *values, uint64_t n, double origin)
{
    double filled[RUN];
    uint64_t whole = (n + LANES - 1) / LANES * LANES;
    if (whole > n) {
        memcpy(filled, values, n * sizeof *values);
        for (uint64_t i = n; i < whole; i++)
            filled[i] = (double)NAN;
        values = filled;
    }
    fby__moment_sums m = fby__cpu_has_avx2() ? sum_up_avx2(values, whole, origin) : sum_up(values, whole, origin);
    m.n_missing = n - m.count;
    return m;
}

void fby__moments_merge(fby__moment_sums *m, const fby__moment_sums *other)
{
    uint64_t missing = m->n_missing + other->n_missing;
    if (m->count == 0) {
        *m = *other;
    } else if (other->count > 0) {
        double n = (double)m->count, k = (double)other->count, share = k / (n + k),
               apart = (other->origin - m->origin) + other->mean - m->mean;
        m->mean += apart * share;
        m->m2 += other->m2 + apart * apart * share * n;
        m->count += other->count;
        m->min = other->min < m->min ? other->min : m->min;
        m->max = other->max > m->max ? other->max : m->max;
    }
    m->n_missing = missing;
}

void fby__moments_add(fby__moment_sums *m, const double *values, uint64_t n)
{
    double origin = m->origin;
    for (uint64_t i = 0; m->count == 0 && i < n; i++)
        if (isfinite(values[i])) {
            origin = values[i];
            break;
        }
    for (uint64_t i = 0; i < n; i += RUN) {
        fby__moment_sums run = moments_of(values + i, n - i < RUN ? n - i : RUN, origin);
        fby__moments_merge(m, &run);
    }
}

void fby__moments_finish(const fby__moment_sums *m, fby_moments *out)
{
    const double none = (double)NAN;
    *out = (fby_moments){.count = m->count, .n_missing = m->n_missing, .mean = none, .std = none, .min = none, .max = none};
    if (m->count == 0)
        return;
    out->mean = m->origin + m->mean;
    out->std = sqrt(m->m2 / (double)m->count);
    out->min = m->min;
    out->max = m->max;
}
