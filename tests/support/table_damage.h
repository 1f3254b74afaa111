/* What every format's tables owe: an allocation or a read that fails is an error, and what the index cache kept is refused when damaged. */
#ifndef FBY_TESTS_TABLE_DAMAGE_H
#define FBY_TESTS_TABLE_DAMAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "format/format.h"
#include "io/io.h"

/** How many allocations and reads an attempt has, and how many of the former made it fail. */
typedef struct fault_counts {
    uint64_t allocations, failed_allocations, failed_reads;
} fault_counts;

/**
 * Attempt it in peace, then with each allocation and each read failing in turn. The attempt ends all faults before it returns. An allocation
 * may be one that it does without; a read that fails is an error of reading.
 */
static inline fault_counts fail_in_turn(fby_status (*attempt)(const char *name, fby_error *err), const char *name)
{
    fault_counts counts = {0};
    fby_error err = {0};
    const uint64_t before = fby__alloc_count();
    fby__io_set_fault(&(fby__io_fault){0});
    if (attempt(name, &err) != FBY_OK)
        fail_msg("%s: %s", name, err.message);
    counts.allocations = fby__alloc_count() - before;
    for (uint64_t at = 1; at <= counts.allocations; at++) {
        fby__alloc_fail_at(at);
        const fby_status status = attempt(name, &err);
        if (status != FBY_OK && status != FBY_E_NOMEM)
            fail_msg("%s, allocation %llu: %s", name, (unsigned long long)at, err.message);
        counts.failed_allocations += status == FBY_E_NOMEM;
    }
    for (uint64_t at = 1;; at++, counts.failed_reads++) {
        fby__io_set_fault(&(fby__io_fault){.fail_at = at});
        const fby_status status = attempt(name, &err);
        if (status == FBY_OK)
            return counts;
        if (status != FBY_E_IO)
            fail_msg("%s, read %llu: %s", name, (unsigned long long)at, err.message);
    }
}

/** Freeze a table, and thaw what is left when one bit in `step` is wrong, or the end is missing: each a FBY_E_FORMAT. */
static inline void assert_frozen_damage_is_refused(const fby__table *t, size_t step)
{
    fby__buf blob = {0};
    fby__table *again;
    fby_error err;
    assert_int_equal(t->ops->freeze(t, &blob, &err), FBY_OK);
    for (size_t bit = 0; bit < 8 * blob.n; bit += step) {
        blob.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(t->ops->thaw((fby__bytes){blob.data, blob.n}, t->schema, &again, &err), FBY_E_FORMAT);
        blob.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < blob.n; cut++)
        assert_int_equal(t->ops->thaw((fby__bytes){blob.data, cut}, t->schema, &again, &err), FBY_E_FORMAT);
    fby__buf_fini(&blob);
}

#endif
