/*
 * The seed of a test that draws its cases at random: another one each time, printed so that a failure can be repeated.
 */
#ifndef FBY_TESTS_TEST_SEED_H
#define FBY_TESTS_TEST_SEED_H

#include "base/clock.h"
#include "base/random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/** FBY_TEST_SEED of the environment, else of the clock. */
static inline uint64_t test_seed(void)
{
    const char *given = getenv("FBY_TEST_SEED");
    uint64_t seed = fby__now_ns();
    if (given) {
        char *end;
        errno = 0;
        seed = strtoull(given, &end, 10);
        if (*given < '0' || *given > '9' || *end || errno) /* another seed than the one that was asked for would show nothing */
            fail_msg("FBY_TEST_SEED is '%s', and a whole number is expected", given);
    }
    print_message("seed %llu (FBY_TEST_SEED=%llu repeats it)\n", (unsigned long long)seed, (unsigned long long)seed);
    return seed;
}

static fby__random random_state; /* where many functions of a test draw */

/** random_state afresh: the setup of a test, or of a group. */
static inline int seed_random(void **state)
{
    (void)state;
    random_state = (fby__random){.key = test_seed()};
    return 0;
}

#endif
