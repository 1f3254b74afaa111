/* trace: quantiles against sorted values, counters and histogram under concurrent adds. */
#include "trace/trace.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_VALUES = 20000, N_THREADS = 4, N_ADDS = 50000 };

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void quantiles_are_within_nine_percent_of_the_sorted_values(void **state)
{
    (void)state;
    static fby__histogram h;
    static uint64_t values[N_VALUES];
    uint64_t x = 42; /* xorshift: any spread over many powers of two will do */
    for (size_t i = 0; i < N_VALUES; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        values[i] = x >> (x % 60);
        fby__histogram_add(&h, values[i]);
    }
    qsort(values, N_VALUES, sizeof values[0], compare_u64);

    static const double qs[] = {0, 0.001, 0.01, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof qs / sizeof qs[0]; i++) {
        size_t rank = (size_t)(qs[i] * N_VALUES);
        double want = (double)values[rank < N_VALUES ? rank : N_VALUES - 1];
        double got = (double)fby__histogram_quantile(&h, qs[i]);
        if (got < want * 0.91 || got > want * 1.09)
            fail_msg("quantile %g: got %.0f, sorted values say %.0f", qs[i], got, want);
    }
}

static void every_power_of_two_and_its_neighbours_fall_into_a_bucket_that_holds_them(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t ns = ((uint64_t)1 << bit) + (uint64_t)(int64_t)delta;
            fby__histogram h;
            memset(&h, 0, sizeof h);
            fby__histogram_add(&h, ns);
            double got = (double)fby__histogram_quantile(&h, 0.5), want = (double)ns;
            if (got < want * 0.91 || got > want * 1.09)
                fail_msg("%llu came back as %.0f", (unsigned long long)ns, got);
        }
    }
}

static void small_values_are_exact_and_an_empty_histogram_says_zero(void **state)
{
    (void)state;
    fby__histogram h;
    memset(&h, 0, sizeof h);
    assert_int_equal(fby__histogram_quantile(&h, 0.5), 0);
    for (uint64_t ns = 0; ns < 16; ns++)
        fby__histogram_add(&h, ns);
    assert_int_equal(fby__histogram_quantile(&h, 0), 0);
    assert_int_equal(fby__histogram_quantile(&h, 0.5), 8);
    assert_int_equal(fby__histogram_quantile(&h, 1), 15);
    assert_int_equal(fby__histogram_quantile(&h, -1), 0);
    assert_int_equal(fby__histogram_quantile(&h, 2), 15);
}

static fby__trace shared_trace;

static void *add_many(void *arg)
{
    uint64_t step = (uint64_t)(uintptr_t)arg;
    for (uint64_t i = 0; i < N_ADDS; i++) {
        fby__trace_count(&shared_trace, FBY__COUNT_BYTES_READ, step);
        fby__trace_stage(&shared_trace, FBY__STAGE_DECODE, step);
        fby__histogram_add(&shared_trace.wait, step * 1000);
        if (i % 4096 == 0)
            (void)fby__histogram_quantile(&shared_trace.wait, 0.5); /* a reader meanwhile: TSan has the say */
    }
    return NULL;
}

static void concurrent_adds_lose_nothing(void **state)
{
    (void)state;
    pthread_t threads[N_THREADS];
    for (uintptr_t t = 0; t < N_THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, add_many, (void *)(t + 1)), 0);
    for (size_t t = 0; t < N_THREADS; t++)
        assert_int_equal(pthread_join(threads[t], NULL), 0);

    uint64_t steps = N_THREADS * (N_THREADS + 1) / 2;
    assert_int_equal(fby__trace_counter(&shared_trace, FBY__COUNT_BYTES_READ), steps * N_ADDS);
    assert_int_equal(atomic_load(&shared_trace.stage_ns[FBY__STAGE_DECODE]), steps * N_ADDS);
    uint64_t added = 0;
    for (size_t i = 0; i < FBY__HISTOGRAM_BUCKETS; i++)
        added += atomic_load(&shared_trace.wait.bucket[i]);
    assert_int_equal(added, N_THREADS * N_ADDS);
}

/* Times in units of the clock, 1,024 ns. */
static void what_overlaps_counts_once(void **state)
{
    (void)state;
    enum { UNIT = 1024 };
    fby__busy busy = {0};
    const uint64_t t = 1000000 * (uint64_t)UNIT;
    assert_int_equal(fby__busy_ns(&busy, t), 0);
    fby__busy_begin(&busy, t);
    fby__busy_begin(&busy, t + 10 * UNIT);
    fby__busy_end(&busy, t + 30 * UNIT);
    assert_int_equal(fby__busy_ns(&busy, t + 40 * UNIT), 40 * UNIT); /* one is still under way */
    fby__busy_end(&busy, t + 50 * UNIT);
    assert_int_equal(fby__busy_ns(&busy, t + 900 * UNIT), 50 * UNIT);
    fby__busy_begin(&busy, t + 1000 * UNIT);
    fby__busy_end(&busy, t + 999 * UNIT); /* two threads read the clock before either wrote */
    assert_int_equal(fby__busy_ns(&busy, t + 2000 * UNIT), 50 * UNIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_nine_percent_of_the_sorted_values),
        cmocka_unit_test(every_power_of_two_and_its_neighbours_fall_into_a_bucket_that_holds_them),
        cmocka_unit_test(small_values_are_exact_and_an_empty_histogram_says_zero),
        cmocka_unit_test(concurrent_adds_lose_nothing),
        cmocka_unit_test(what_overlaps_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
