/* Allowances: what a thread may allocate. */
#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_thread_allocates_is_asked_for_and_what_it_frees_comes_back)};
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
