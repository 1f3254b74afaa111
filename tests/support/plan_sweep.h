/* Every allocation on the way from options to a plan, one of its epochs and the epoch's mixing, failing in turn. */
#ifndef FBY_TESTS_PLAN_SWEEP_H
#define FBY_TESTS_PLAN_SWEEP_H

#include "base/alloc.h"
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/** Each failure is FBY_E_NOMEM and leaks nothing (AddressSanitizer sees to that). Returns how many there were before all went well. */
static inline uint64_t plan_allocations_that_fail(const uint64_t *counts, uint32_t n, const fby__plan_opts *o, uint64_t number)
{
    for (uint64_t at = 1;; at++) {
        fby_error err = {0};
        fby__plan *plan = NULL;
        fby__epoch *epoch = NULL;
        fby__mixing mixing;
        fby__alloc_fail_at(at);
        fby_status status = fby__plan_create(counts, n, o, &plan, &err);
        if (status == FBY_OK)
            status = fby__epoch_create(plan, number, &epoch, &err);
        if (status == FBY_OK)
            status = fby__plan_mixing(epoch, 4, NULL, 0, &mixing, NULL, &err);
        fby__alloc_fail_at(0);
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
        if (status == FBY_OK)
            return at - 1;
        assert_int_equal(status, FBY_E_NOMEM);
        assert_int_equal(err.code, FBY_E_NOMEM);
    }
}

#endif
