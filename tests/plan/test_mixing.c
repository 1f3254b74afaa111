/* How well an epoch's batches are mixed, next to a uniform shuffle. */
#include "plan/plan_orders.h"

#include <math.h>

static fby__mixing mixing_of(const uint64_t *counts, uint32_t n, fby__plan_opts o, uint64_t max_batches)
{
    fby__plan *plan;
    fby__epoch *epoch = make_epoch(counts, n, &o, 0, &plan);
    fby__mixing mixing;
    assert_int_equal(fby__plan_mixing(epoch, max_batches, NULL, 0, &mixing, NULL, NULL), FBY_OK);
    free_epoch(epoch, plan);
    return mixing;
}

static void mixing_of_a_full_shuffle_is_the_uniform_one(void **state)
{
    (void)state;
    uint64_t counts[60];
    for (int b = 0; b < 60; b++)
        counts[b] = b % 7 == 0 ? 0 : b % 5 == 0 ? 3000 : 200;
    fby__plan_opts o = {.shuffle = FBY__SHUFFLE_FULL,
                        .tail = FBY__TAIL_DROP,
                        .seed = 9,
                        .global_batch = 64,
                        .superbatch_samples = 1,
                        .streams = 8,
                        .world_size = 1};
    fby__mixing m = mixing_of(counts, 60, o, 400);
    assert_int_equal(m.batches_sampled, 400);
    assert_true(fabs(m.same_block / m.same_block_uniform - 1) < 0.03);
    assert_true(fabs(m.entropy_bits - m.entropy_bits_uniform) < 0.03);

    const uint64_t hypergeometric[] = {2, 2}; /* batches of 2: {a,a}, {a,b}×4, {b,b} of six pairs */
    o.global_batch = 2;
    m = mixing_of(hypergeometric, 2, o, 1);
    assert_true(fabs(m.same_block_uniform - 1.0 / 3) < 1e-12);
    assert_true(fabs(m.entropy_bits_uniform - 2.0 / 3) < 1e-12);
}

static void mixing_tells_a_batch_of_one_block_from_a_mixed_one(void **state)
{
    (void)state;
    const uint64_t counts[] = {64, 64, 64, 64, 64, 64, 64, 64};
    fby__plan_opts o = {.shuffle = FBY__SHUFFLE_NONE, .global_batch = 32, .superbatch_samples = 256, .streams = 8, .world_size = 1};
    fby__mixing m = mixing_of(counts, 8, o, 1000);
    assert_int_equal(m.batches_sampled, 16);
    assert_true(m.same_block == 1.0 && m.entropy_bits == 0);
    assert_true(m.entropy_bits_uniform > 2.7 && m.entropy_bits_uniform < 3);
    o.shuffle = FBY__SHUFFLE_BLOCK;
    m = mixing_of(counts, 8, o, 1000); /* eight streams, a block each: four samples of each block in a batch */
    assert_true(fabs(m.entropy_bits - 3) < 1e-9);
    assert_true(fabs(m.same_block - 3.0 / 31) < 1e-9);
    o.shuffle = FBY__SHUFFLE_SUPERBATCH;
    o.streams = 1;
    m = mixing_of(counts, 8, o, 1000);
    assert_true(m.entropy_bits > 0.5 && m.entropy_bits < m.entropy_bits_uniform);

    const uint64_t single[] = {1};
    m = mixing_of(single, 1, o, 3);
    assert_true(m.same_block == 0 && m.same_block_uniform == 0 && m.entropy_bits == 0 && m.entropy_bits_uniform == 0);
    const uint64_t huge[] = {(uint64_t)1 << 61, (uint64_t)1 << 61};
    o.shuffle = FBY__SHUFFLE_FULL;
    m = mixing_of(huge, 2, o, 50);
    assert_true(fabs(m.same_block_uniform - 0.5) < 1e-9 && fabs(m.same_block - 0.5) < 0.05);
    assert_true(m.entropy_bits_uniform > 0.95 && m.entropy_bits_uniform < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixing_of_a_full_shuffle_is_the_uniform_one),
        cmocka_unit_test(mixing_tells_a_batch_of_one_block_from_a_mixed_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
