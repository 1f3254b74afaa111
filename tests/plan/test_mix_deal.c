/* Which source has which slot of a stream: against a naive twin that walks along the circle, and far out where nothing can be walked. */
#include "plan/mixtures.h"

#include <math.h>
#include <string.h>

/* Slots of each source among the first n of a stream, by walking along the circle. */
static void twin_slots(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, uint64_t *out)
{
    const uint64_t *quota = deal->quota + (size_t)stream * deal->n;
    uint64_t beyond = 0;
    memset(out, 0, deal->n * sizeof *out);
    for (uint64_t k = 0; k < n; k++) {
        const uint64_t at = deal->start + (k * streams + stream) * UINT64_C(0x9E3779B97F4A7C15);
        uint32_t i = 0;
        while (at >= deal->upto[i])
            i++;
        out[i]++;
    }
    for (uint32_t i = 0; i < deal->n; i++)
        for (; out[i] > quota[i]; out[i]--)
            beyond++;
    for (uint32_t i = 0; i < deal->n; i++)
        for (; beyond && out[i] < quota[i]; out[i]++)
            beyond--;
}

static void slots_are_those_of_a_naive_twin_and_never_fewer(void **state)
{
    (void)state;
    fby__random random = {.key = 99};
    static mixture m;
    uint64_t slots[MAX_SOURCES], twin[MAX_SOURCES], before[MAX_SOURCES];
    for (int round = 0; round < 150; round++) {
        fby__plan *plan = NULL;
        fby__mix_deal deal;
        random_mixture(&random, &m);
        if (try_plan(&m, 0, m.opts.world_size, &plan, NULL) != FBY_OK)
            continue;
        assert_int_equal(fby__mix_deal_init(plan, below(&random, 3), &deal, NULL), FBY_OK);
        const uint32_t streams = fby__plan_streams(plan), s = (uint32_t)below(&random, streams);
        memset(before, 0, sizeof before);
        for (uint64_t n = 0; n <= deal.length[s] + 20; n++) {
            uint64_t sum = 0;
            fby__mix_slots(&deal, streams, s, n, slots);
            if (n <= deal.length[s])
                twin_slots(&deal, streams, s, n, twin);
            for (uint32_t i = 0; i < deal.n; i++) {
                assert_true(n > deal.length[s] || slots[i] == twin[i]);
                assert_true(slots[i] >= before[i]);
                assert_true(deal.length[s] == 0 || fby__mix_slots_of(&deal, streams, s, i, n) == slots[i]);
                sum += before[i] = slots[i];
            }
            assert_int_equal(sum, deal.length[s] || n == 0 ? n : sum);
        }
        assert_memory_equal(twin, deal.quota + (size_t)s * deal.n, deal.n * sizeof *twin);
        fby__mix_deal_fini(&deal);
        fby__plan_destroy(plan);
    }
}

/* Far out, where nothing can be walked. */
static void proportions_hold_after_a_thousand_billion_samples(void **state)
{
    (void)state;
    const uint64_t counts[3][1] = {{7000000000000}, {2000000000000}, {1000000000000}};
    const fby__mix_source sources[3] = {{"a", counts[0], 1, NULL}, {"b", counts[1], 1, NULL}, {"c", counts[2], 1, NULL}};
    const fby__mix_opts mix = {.sources = sources, .n_sources = 3, .stop = FBY__MIX_ALL};
    const fby__plan_opts opts = {.seed = 4, .global_batch = 1024, .superbatch_samples = 1u << 20, .streams = 8, .world_size = 1};
    fby__plan *plan;
    fby__mix_deal deal;
    fby_error err;
    if (fby__plan_create_mix(&mix, &opts, &plan, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fby__mix_deal_init(plan, 0, &deal, NULL), FBY_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(deal.total[i], counts[i][0]);
    for (uint64_t b = 1; b < 9000000000; b = b * 7 + 3) { /* batches */
        uint64_t sum[3] = {0}, slots[3];
        for (uint32_t s = 0; s < 8; s++) {
            fby__mix_slots(&deal, 8, s, b * 128, slots);
            for (uint32_t i = 0; i < 3; i++)
                sum[i] += slots[i];
        }
        for (uint32_t i = 0; i < 3; i++)
            assert_true(fabsl((long double)sum[i] - (long double)b * 1024 * (i == 0 ? 0.7L : i == 1 ? 0.2L : 0.1L)) < 60);
    }
    fby__mix_deal_fini(&deal);
    fby__plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_a_naive_twin_and_never_fewer),
        cmocka_unit_test(proportions_hold_after_a_thousand_billion_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
