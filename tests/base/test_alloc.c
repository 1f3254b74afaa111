/* Allowances: what a thread may allocate. */
#include "base/alloc.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct purse {
    fby__allowance allowance;
    size_t rest; /* to be granted */
    unsigned n_asked;
} purse;

static bool more(fby__allowance *allowance, size_t bytes)
{
    purse *p = (purse *)(void *)allowance; /* the first member */
    const size_t lacks = bytes - allowance->left;
    p->n_asked++;
    if (lacks > p->rest)
        return false;
    p->rest -= lacks;
    allowance->left += lacks;
    return true;
}

static void what_a_thread_allocates_is_asked_for_and_what_it_frees_comes_back(void **state)
{
    (void)state;
    purse p = {.allowance = {.more = more}, .rest = 1 << 20};
    void *before = fby__malloc(100000); /* allocated without an allowance */
    assert_null(fby__alloc_within(&p.allowance));
    void *a = fby__malloc(600000);
    assert_non_null(a);
    assert_null(fby__malloc(600000));
    assert_null(fby__realloc(a, 1200000));
    a = fby__realloc(a, 900000); /* its growth alone counts */
    assert_non_null(a);
    assert_null(fby__calloc(300000, 1));
    fby__free(a);
    const unsigned n_asked = p.n_asked;
    a = fby__calloc(900000, 1); /* of what came back: nobody is asked */
    assert_non_null(a);
    assert_int_equal(p.n_asked, n_asked);
    fby__free(before); /* whoever allocated it */
    assert_ptr_equal(fby__alloc_within(NULL), &p.allowance);
    void *free_of_it = fby__malloc(4 << 20);
    assert_non_null(free_of_it);
    fby__free(free_of_it);
    fby__free(a);
}

/* malloc gives more than it was asked for, and how much more depends on what was freed before: mappings, and pieces too small to split. */
static void what_is_charged_follows_from_what_was_asked_for_whatever_was_freed_before(void **state)
{
    (void)state;
    enum { N = 64 };
    static const size_t sizes[] = {0, 1, 24, 25, 1066, 4160, 150000, 1 << 20, (1 << 20) + 1};
    char *kept[N];
    purse p = {.allowance = {.more = more, .left = 1 << 28}};
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) /* holes of all sizes, between what stays */
            kept[i] = fby__malloc(1000 + 24 * i * (round + 1));
        for (size_t i = 0; i < N; i += 2) {
            fby__free(kept[i]);
            kept[i] = NULL;
        }
        (void)fby__alloc_within(&p.allowance);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const size_t before = p.allowance.left;
            char *a = fby__malloc(sizes[i]), *b = fby__calloc(sizes[i], 1);
            assert_int_equal(before - p.allowance.left, 2 * fby__alloc_bytes(sizes[i]));
            a = fby__realloc(a, sizes[i] + 1000);
            assert_int_equal(before - p.allowance.left, fby__alloc_bytes(sizes[i]) + fby__alloc_bytes(sizes[i] + 1000));
            fby__free(b);
            a = fby__realloc(a, 10);
            assert_int_equal(before - p.allowance.left, fby__alloc_bytes(10));
            fby__free(a);
            assert_int_equal(p.allowance.left, before);
        }
        (void)fby__alloc_within(NULL);
        for (size_t i = 0; i < N; i++)
            fby__free(kept[i]);
    }
    assert_int_equal(p.n_asked, 0);
}

static size_t heap_bytes(void)
{
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

static void a_million_small_allocations_are_charged_what_they_take(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char **kept = malloc(N * sizeof *kept);
    assert_non_null(kept);
    for (size_t bytes = 0; bytes < 64; bytes = 2 * bytes + 1) {
        purse p = {.allowance = {.more = more, .left = (size_t)1 << 30}};
        const size_t before = heap_bytes();
        (void)fby__alloc_within(&p.allowance);
        for (size_t i = 0; i < N; i++)
            kept[i] = fby__malloc(bytes);
        (void)fby__alloc_within(NULL);
        const size_t took = heap_bytes() - before, charged = ((size_t)1 << 30) - p.allowance.left;
        for (size_t i = 0; i < N; i++)
            fby__free(kept[i]);
        if (took == 0) { /* under a sanitizer malloc is another one, which does not say */
            print_message("skipped: malloc does not say what it gave\n");
            break;
        }
        assert_true(took <= charged + charged / 100 && charged <= took + took / 4);
    }
    free(kept);
}

static void what_no_address_space_holds_is_refused(void **state)
{
    (void)state;
    char *a = fby__malloc(10);
    assert_null(fby__malloc(SIZE_MAX));
    assert_null(fby__calloc(SIZE_MAX, 1));
    assert_null(fby__calloc(SIZE_MAX, 2));
    assert_null(fby__realloc(a, SIZE_MAX));
    fby__free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_thread_allocates_is_asked_for_and_what_it_frees_comes_back),
        cmocka_unit_test(what_is_charged_follows_from_what_was_asked_for_whatever_was_freed_before),
        cmocka_unit_test(a_million_small_allocations_are_charged_what_they_take),
        cmocka_unit_test(what_no_address_space_holds_is_refused),
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
