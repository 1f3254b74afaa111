/* Where samples go when a data set is packed: against the plan's own full shuffle, and against values that must never change. */
#include "base/checked.h"
#include "pack/pack_impl.h"
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint64_t destination(const fby__pack_order *order, uint64_t sample)
{
    uint64_t d;
    fby__pack_destinations(order, sample, 1, &d);
    return d;
}

static void destinations_are_a_permutation(void **state)
{
    (void)state;
    static const uint64_t SIZES[] = {1, 2, 3, 7, 64, 1000, 4097};
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++)
        for (int shuffled = 0; shuffled < 2; shuffled++) {
            const uint64_t n = SIZES[s];
            const fby__pack_order order = fby__pack_order_of(n, 10, shuffled, 3);
            bool seen[4097] = {false};
            uint64_t to[4097];
            fby__pack_destinations(&order, 0, (uint32_t)n, to);
            for (uint64_t i = 0; i < n; i++) {
                assert_true(to[i] < n && !seen[to[i]]);
                seen[to[i]] = true;
                assert_true(shuffled || to[i] == i);
            }
        }
}

/* What has been packed, or is being packed by another machine, depends on these. */
static void destinations_never_change(void **state)
{
    (void)state;
    const fby__pack_order small = fby__pack_order_of(10, 4, true, 0), large = fby__pack_order_of(UINT64_C(10000000000), 8192, true, 42);
    static const uint64_t SMALL[10] = {3, 7, 1, 5, 9, 4, 0, 6, 2, 8};
    static const uint64_t LARGE[3] = {8057324516, 2411976222, 3284668272};
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(destination(&small, i), SMALL[i]);
    assert_int_equal(destination(&large, 0), LARGE[0]);
    assert_int_equal(destination(&large, 1), LARGE[1]);
    assert_int_equal(destination(&large, UINT64_C(9999999999)), LARGE[2]);
}

static void packed_rows_are_the_plans_full_shuffle(void **state)
{
    (void)state;
    const uint64_t counts[] = {5, 0, 17, 1, 40}, starts[] = {0, 5, 5, 22, 23, 63};
    const fby__plan_opts opts = {
        .seed = 9, .shuffle = FBY__SHUFFLE_FULL, .global_batch = 7, .superbatch_samples = 1, .streams = 1, .world_size = 1};
    fby__plan *plan;
    fby__epoch *epoch;
    assert_int_equal(fby__plan_create(counts, 5, &opts, &plan, NULL), FBY_OK);
    assert_int_equal(fby__epoch_create(plan, 0, &epoch, NULL), FBY_OK);
    const fby__pack_order order = fby__pack_order_of(63, 8, true, 9);
    for (uint64_t k = 0; k < 63; k++) {
        uint32_t block;
        uint64_t sample;
        fby__epoch_sample(epoch, k, &block, &sample);
        assert_int_equal(destination(&order, starts[block] + sample), k);
    }
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
}

static fby__pack cut(uint64_t rows, uint64_t unit, uint32_t n_buckets, const fby_pack_opts *opts)
{
    fby__pack p = {.o = opts, .rows = rows, .batch_rows = unit, .rows_per_file = unit, .n_files = fby__div_up_u64(rows, unit), .lock = -1};
    assert_int_equal(fby__pack_cut(&p, n_buckets, NULL), FBY_OK);
    return p;
}

static void buckets_are_whole_units_and_hold_every_destination_once(void **state)
{
    (void)state;
    static const uint64_t SIZES[] = {1, 9, 10, 11, 100, 105, 12345};
    static const uint32_t BUCKETS[] = {1, 2, 3, 7, 64, 1000};
    const fby_pack_opts opts = {.size = sizeof opts, .seed = 1};
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++)
        for (size_t b = 0; b < sizeof BUCKETS / sizeof *BUCKETS; b++) {
            const uint64_t n = SIZES[s];
            const uint32_t buckets = BUCKETS[b];
            fby__pack p = cut(n, 10, buckets, &opts);
            assert_int_equal(fby__pack_bucket_begin(&p.order, 0, buckets), 0);
            assert_int_equal(fby__pack_bucket_begin(&p.order, buckets, buckets), n);
            for (uint32_t k = 0; k < buckets; k++) {
                const uint64_t begin = fby__pack_bucket_begin(&p.order, k, buckets), end = fby__pack_bucket_begin(&p.order, k + 1, buckets);
                assert_true(begin <= end && (begin % 10 == 0 || begin == n));
                for (uint64_t d = begin; d < end; d++)
                    assert_int_equal(fby__pack_bucket_at(&p, d), k);
            }
            fby__pack_fini(&p);
        }
    fby__pack huge = cut(((uint64_t)1 << 62) - 1, 1, 999, &opts);
    for (uint32_t k = 0; k < 999; k++)
        assert_int_equal(fby__pack_bucket_at(&huge, fby__pack_bucket_begin(&huge.order, k, 999)), k);
    fby__pack_fini(&huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destinations_are_a_permutation),
        cmocka_unit_test(destinations_never_change),
        cmocka_unit_test(packed_rows_are_the_plans_full_shuffle),
        cmocka_unit_test(buckets_are_whole_units_and_hold_every_destination_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
