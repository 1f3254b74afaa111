/* Sorting that can be stopped: beside qsort(3), on orders that are hard for it. */
#include "base/alloc.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/sort.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct wide {
    int64_t key;
    char rest[32]; /* of the key */
} wide;

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t value(int order, size_t i, size_t n)
{
    switch (order) {
    case 0: return (int64_t)fby__random_u64(7, i, 0);
    case 1: return (int64_t)i;
    case 2: return (int64_t)(n - i);
    case 3: return (int64_t)(i % 3);
    case 4: return 5;
    default: return (int64_t)(i < n / 2 ? i : n - i);
    }
}

static void all_orders_are_sorted_as_qsort_sorts_them(void **state)
{
    (void)state;
    static const size_t COUNTS[] = {0, 1, 2, 1000, 1 << 15, (1 << 15) + 1, 300000};
    fby_error err;
    for (size_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++)
        for (int order = 0; order < 6; order++) {
            const size_t n = COUNTS[c];
            int64_t *got = fby__malloc(n * sizeof *got), *expected = fby__malloc(n * sizeof *expected);
            wide *wides = fby__calloc(n, sizeof *wides);
            for (size_t i = 0; i < n; i++) {
                got[i] = expected[i] = wides[i].key = value(order, i, n);
                memset(wides[i].rest, (int)(wides[i].key & 0x7f), sizeof wides[i].rest);
            }
            qsort(expected, n, sizeof *expected, by_number);
            assert_int_equal(fby__sort(got, n, sizeof *got, by_number, &err), FBY_OK);
            assert_int_equal(fby__sort(wides, n, sizeof *wides, by_number, &err), FBY_OK);
            assert_memory_equal(got, expected, n * sizeof *got);
            for (size_t i = 0; i < n; i++) {
                assert_true(wides[i].key == expected[i]);
                assert_int_equal(wides[i].rest[31], expected[i] & 0x7f);
            }
            fby__free(got);
            fby__free(expected);
            fby__free(wides);
        }
}

static uint64_t g_cancelled_ns;

static void *cancel_soon(void *token)
{
    (void)usleep(30000);
    g_cancelled_ns = fby__now_ns();
    fby_cancel_set(token);
    return NULL;
}

static void sorting_ends_when_the_call_is_cancelled(void **state)
{
    (void)state;
    const size_t n = (size_t)20 << 20; /* seconds */
    int64_t *all = fby__malloc(n * sizeof *all);
    uint64_t sum = 0, after = 0;
    for (size_t i = 0; i < n; i++)
        sum += (uint64_t)(all[i] = (int64_t)fby__random_u64(3, i, 0));
    fby_cancel *token = fby_cancel_create(), *before = fby_cancel_use(token);
    pthread_t thread;
    fby_error err;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, token), 0);
    assert_int_equal(fby__sort(all, n, sizeof *all, by_number, &err), FBY_E_CANCELLED);
    const uint64_t now = fby__now_ns();
    pthread_join(thread, NULL);
    (void)fby_cancel_use(before);
    fby_cancel_destroy(token);
    print_message("ended %.1f ms after it was cancelled\n", (double)(now - g_cancelled_ns) * 1e-6);
    assert_true(now - g_cancelled_ns < 1000000000u); /* milliseconds, on a machine that is not busy */
    for (size_t i = 0; i < n; i++)
        after += (uint64_t)all[i];
    assert_true(after == sum); /* none is lost */
    fby__free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_orders_are_sorted_as_qsort_sorts_them),
        cmocka_unit_test(sorting_ends_when_the_call_is_cancelled),
    };
    return cmocka_run_group_tests_name("sort", tests, NULL, NULL);
}
