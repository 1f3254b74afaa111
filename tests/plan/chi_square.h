/*
 * Chi-square statistics for the tests of order. A statistic is turned into a z-score (Wilson–Hilferty), positive when
 * the counts are further from what is expected than chance explains. Z_LIMIT = 6 is passed by chance once in 1e9; the
 * tests look at some hundreds of scores with fixed seeds, so a right implementation fails with a chance below 1e-6 at
 * most once, when it is written.
 */
#ifndef FBY_TESTS_PLAN_CHI_SQUARE_H
#define FBY_TESTS_PLAN_CHI_SQUARE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define Z_LIMIT 6.0

static inline double chi_square_z(double x, double df) { return (cbrt(x / df) - (1 - 2 / (9 * df))) / sqrt(2 / (9 * df)); }

/* Counts of n cells that are equally likely, drawn independently: n - 1 degrees of freedom. */
static inline double uniform_z(const uint32_t *counts, size_t n)
{
    double total = 0, x = 0;
    for (size_t i = 0; i < n; i++)
        total += counts[i];
    for (size_t i = 0; i < n; i++) {
        double d = counts[i] - total / (double)n;
        x += d * d / (total / (double)n);
    }
    return chi_square_z(x, (double)n - 1);
}

/*
 * counts[row * columns + column]: how often element `row` lay in class `column` over many permutations, classes being
 * equally large. One permutation puts each element somewhere and fills each class, which couples the cells: the sum of
 * squares, times (rows - 1)/rows, has (rows - 1)(columns - 1) degrees of freedom.
 */
static inline double permutation_z(const uint32_t *counts, size_t rows, size_t columns, double permutations)
{
    double expected = permutations / (double)columns, x = 0;
    for (size_t i = 0; i < rows * columns; i++)
        x += (counts[i] - expected) * (counts[i] - expected) / expected;
    return chi_square_z(x * ((double)rows - 1) / (double)rows, ((double)rows - 1) * ((double)columns - 1));
}

/* How many standard deviations a count of `trials` with chance p is off, either way. */
static inline double binomial_z(double count, double trials, double p) { return fabs(count - trials * p) / sqrt(trials * p * (1 - p)); }

#endif
