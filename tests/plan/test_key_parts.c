/*
 * Parts of an epoch by key: every key once a sweep with all of its samples, wherever they lie, also when the counts do not divide; inside a
 * part the order is that of a plan over the part's samples alone; the same over any number of ranks.
 */
#include "plan/plan_orders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BLOCKS = 40, MAX_COUNT = 30, MAX_RUNS = MAX_BLOCKS * MAX_COUNT, ANY_SEED = 43 };

typedef struct keyed {
    uint64_t counts[MAX_BLOCKS];
    uint32_t key[MAX_BLOCKS][MAX_COUNT]; /* of each sample */
    uint64_t samples_of[MAX_RUNS];       /* of each key */
    fby__plan_span spans[MAX_RUNS];
    uint32_t n_blocks, n_spans, n_keys;
} keyed;

/* Runs of 1 to 12 samples; keys that come once, and some that come again in the block and in others. Some blocks are empty. */
static void random_keys(keyed *k, fby__random *r)
{
    memset(k, 0, sizeof *k);
    k->n_blocks = 1 + (uint32_t)below(r, MAX_BLOCKS);
    for (uint32_t b = 0; b < k->n_blocks; b++) {
        k->counts[b] = b == 0 || below(r, 6) ? 1 + below(r, MAX_COUNT) : 0;
        for (uint64_t lo = 0, hi; lo < k->counts[b]; lo = hi) {
            hi = lo + 1 + below(r, 12);
            hi = hi < k->counts[b] ? hi : k->counts[b];
            const uint32_t key = k->n_keys && below(r, 3) == 0 ? (uint32_t)below(r, k->n_keys) : k->n_keys++;
            k->spans[k->n_spans++] = (fby__plan_span){b, key, lo, hi}; /* may go on with the key of the run before */
            k->samples_of[key] += hi - lo;
            for (uint64_t s = lo; s < hi; s++)
                k->key[b][s] = key;
        }
    }
}

static fby_status try_plan(const keyed *k, fby__plan_opts o, fby__plan **out, fby_error *err)
{
    o.spans = k->spans;
    o.n_spans = k->n_spans;
    o.n_keys = k->n_keys;
    return fby__plan_create(k->counts, k->n_blocks, &o, out, err);
}

/* Sample i of what an epoch's part has of a block: which of the block's samples that is. */
static uint64_t ith_of_part(const keyed *k, const bool *in, uint32_t block, uint64_t i)
{
    for (uint64_t s = 0; s < k->counts[block]; s++)
        if (in[k->key[block][s]] && i-- == 0)
            return s;
    fail_msg("block %u has no such sample", block);
    return 0;
}

/* The same order as a plan over blocks that hold the samples of the part alone. */
static void check_like_a_plan_of_its_own(const fby__epoch *epoch, const keyed *k, const bool *in, fby__plan_opts o, fby__shuffle in_effect)
{
    o.part_keys = o.n_parts = 0;
    o.shuffle = in_effect;
    if (in_effect == FBY__SHUFFLE_SUPERBATCH && epoch->n_available <= o.superbatch_samples)
        return; /* that plan would shuffle in full; whether a plan with parts does is decided for all of them */
    uint64_t counts[MAX_BLOCKS] = {0};
    for (uint32_t b = 0; b < k->n_blocks; b++)
        for (uint64_t s = 0; s < k->counts[b]; s++)
            counts[b] += in[k->key[b][s]];
    fby__plan *plan = NULL;
    assert_int_equal(fby__plan_create(counts, k->n_blocks, &o, &plan, NULL), FBY_OK);
    fby__epoch *alone = epoch_of(plan, epoch->epoch);
    assert_int_equal(alone->n_samples, epoch->n_samples);
    assert_int_equal(alone->n_batches, epoch->n_batches);
    for (uint64_t i = 0; i < alone->n_samples; i++) {
        uint32_t block[2];
        uint64_t sample[2];
        fby__epoch_sample(alone, i, &block[0], &sample[0]);
        fby__epoch_sample(epoch, i, &block[1], &sample[1]);
        assert_int_equal(block[0], block[1]);
        assert_int_equal(ith_of_part(k, in, block[0], sample[0]), sample[1]);
    }
    fby__epoch_destroy(alone);
    fby__plan_destroy(plan);
}

/* Of one block in one stream, all is in one phase, in items that rise. */
static void check_blocks_of_phases(const fby__plan *plan, const fby__epoch *epoch)
{
    if (fby__plan_shuffle(plan) == FBY__SHUFFLE_FULL)
        return; /* every phase holds all */
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        for (uint32_t i = 0; i < epoch->phases[p].n_items; i++) {
            const fby__plan_item *item = &epoch->phases[p].items[i];
            assert_true(item->lo < item->hi);
            if (i > 0 && item[-1].block == item->block)
                assert_true(item[-1].hi < item->lo);
            for (uint32_t q = 0; q < epoch->n_phases; q++)
                for (uint32_t j = 0; q != p && epoch->phases[q].stream == epoch->phases[p].stream && j < epoch->phases[q].n_items; j++)
                    assert_true(epoch->phases[q].items[j].block != item->block);
        }
}

/* A sweep over all ranks: every sample once (tails counted), every key in one part, with all that it has. */
static void check_sweep(const keyed *k, fby__plan_opts o, uint64_t sweep)
{
    static uint32_t seen[MAX_BLOCKS][MAX_COUNT];
    static uint32_t times[MAX_RUNS];
    static bool in[MAX_RUNS];
    uint64_t wrapped = 0, dropped = 0;
    tally t = {0};
    memset(seen, 0, sizeof seen);
    memset(times, 0, sizeof times);
    for (o.rank = 0; o.rank < o.world_size; o.rank++) {
        fby__plan *plan = NULL;
        assert_int_equal(try_plan(k, o, &plan, NULL), FBY_OK);
        const uint32_t n_parts = fby__plan_parts(plan);
        for (uint64_t e = sweep * n_parts; e < (sweep + 1) * n_parts; e++) {
            fby__epoch *epoch = epoch_of(plan, e);
            fby__epoch_counts c;
            uint64_t here = 0, n = 0;
            uint32_t in_part = 0;
            assert_int_equal(fby__plan_count(plan, e, &c, NULL), FBY_OK);
            assert_true(c.n_available == epoch->n_available && c.n_batches == epoch->n_batches && c.n_samples == epoch->n_samples &&
                        c.n_wrapped == epoch->n_wrapped && c.n_dropped == epoch->n_dropped);
            assert_true((c.n_batches > 0 || o.tail == FBY__TAIL_KEEP) && c.n_available <= fby__plan_part_samples(plan));
            memset(in, 0, sizeof in);
            for (uint32_t r = 0; r < epoch->n_spans; r++) /* what the epoch is made of: whole runs of whole keys */
                for (uint64_t s = epoch->spans[r].lo; s < epoch->spans[r].hi; s++, here++)
                    in[k->key[epoch->spans[r].block][s]] = true;
            for (uint32_t key = 0; key < k->n_keys; key++) {
                in_part += in[key];
                times[key] += in[key] && o.rank == 0;
                n += in[key] ? k->samples_of[key] : 0;
            }
            assert_true(here == n && n == epoch->n_available);
            if (o.part_keys)
                assert_int_equal(in_part, e + 1 < (sweep + 1) * n_parts ? o.part_keys : k->n_keys - (n_parts - 1) * o.part_keys);
            else
                assert_true(in_part == k->n_keys / n_parts || in_part == k->n_keys / n_parts + 1);
            assert_true(in_part <= fby__plan_part_units(plan));
            for (uint64_t i = 0; i < epoch->n_samples; i++) {
                uint32_t block;
                uint64_t sample;
                fby__epoch_sample(epoch, i, &block, &sample);
                assert_true(in[k->key[block][sample]]);
                seen[block][sample]++;
            }
            if (o.rank == 0) {
                wrapped += epoch->n_wrapped;
                dropped += epoch->n_dropped;
            }
            check_like_a_plan_of_its_own(epoch, k, in, o, fby__plan_shuffle(plan));
            check_blocks_of_phases(plan, epoch);
            fby__epoch_destroy(epoch);
        }
        fby__plan_destroy(plan);
    }
    for (uint32_t b = 0; b < k->n_blocks; b++) {
        tally_add(&t, seen[b], k->counts[b]);
        for (uint64_t s = 0; s < k->counts[b]; s++)
            assert_int_equal(times[k->key[b][s]], 1);
    }
    assert_int_equal(t.repeats, wrapped);
    assert_int_equal(t.missing, dropped);
}

static void every_key_comes_once_a_sweep_and_every_sample_of_it_for_random_blocks_and_options(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 1, 2, 4};
    static keyed k;
    fby__random random = {.key = ANY_SEED};
    int checked = 0, refused = 0;
    for (int round = 0; round < 800; round++) {
        random_keys(&k, &random);
        fby__plan_opts o = {.shuffle = (fby__shuffle)below(&random, 4),
                            .tail = (fby__tail)below(&random, 3),
                            .seed = fby__random_next(&random),
                            .superbatch_samples = 1 + below(&random, 300),
                            .streams = 8,
                            .world_size = worlds[below(&random, 4)]};
        o.global_batch = o.world_size * (1 + below(&random, 6));
        *(below(&random, 2) ? &o.part_keys : &o.n_parts) = 1 + (uint32_t)below(&random, k.n_keys);
        fby__plan *plan = NULL;
        if (try_plan(&k, o, &plan, NULL) == FBY_OK) { /* else a part that fills no batch, or a tail that ranks cannot keep */
            fby__plan_destroy(plan);
            check_sweep(&k, o, below(&random, 3));
            checked++;
        } else {
            refused++;
        }
    }
    print_message("%d configurations checked, %d refused\n", checked, refused);
    assert_true(checked > 250);
}

/* One block; free() it. */
static keyed *ten_keys_of_five(void)
{
    keyed *k = calloc(1, sizeof *k);
    k->n_blocks = 1;
    k->counts[0] = 50;
    for (uint32_t key = 0; key < 10; key++)
        k->spans[k->n_spans++] = (fby__plan_span){0, k->n_keys++, 5 * key, 5 * key + 5};
    return k;
}

/* The keys of an epoch, a bit each, of one block with 5 samples a key. */
static uint64_t keys_of(const fby__plan *plan, uint64_t number)
{
    fby__epoch *epoch = epoch_of(plan, number);
    uint64_t mask = 0;
    for (uint32_t r = 0; r < epoch->n_spans; r++)
        for (uint64_t s = epoch->spans[r].lo; s < epoch->spans[r].hi; s++)
            mask |= (uint64_t)1 << s / 5;
    fby__epoch_destroy(epoch);
    return mask;
}

static void keys_of_one_block_are_drawn_anew_after_a_sweep_and_taken_in_order_without_shuffle(void **state)
{
    (void)state;
    keyed *k = ten_keys_of_five();
    fby__plan_opts o = {.seed = 3, .global_batch = 8, .superbatch_samples = 1000, .streams = 8, .world_size = 1, .part_keys = 4};
    fby__plan *plan;
    assert_int_equal(try_plan(k, o, &plan, NULL), FBY_OK);
    assert_int_equal(fby__plan_parts(plan), 3);
    assert_true(fby__plan_whole_streams(plan));
    assert_int_equal(fby__plan_reads_of(plan, 0), 3);
    static const uint64_t golden[6] = {0x261, 0x1e, 0x180, 0xca, 0x305, 0x30}; /* saved states depend on the draw */
    int same = 0;
    for (uint64_t sweep = 0; sweep < 20; sweep++) {
        uint64_t a = keys_of(plan, 3 * sweep), b = keys_of(plan, 3 * sweep + 1), c = keys_of(plan, 3 * sweep + 2);
        assert_int_equal(a | b | c, 0x3ff);
        assert_true((a & b) == 0 && (a & c) == 0 && (b & c) == 0);
        assert_true(__builtin_popcountll(a) == 4 && __builtin_popcountll(c) == 2);
        same += a == keys_of(plan, 3 * sweep + 3);
    }
    assert_true(same < 4);
    for (uint64_t e = 0; e < 6; e++)
        assert_int_equal(keys_of(plan, e), golden[e]);
    fby__plan_destroy(plan);

    o.shuffle = FBY__SHUFFLE_NONE;
    assert_int_equal(try_plan(k, o, &plan, NULL), FBY_OK);
    for (uint64_t e = 0; e < 6; e++)
        assert_int_equal(keys_of(plan, e), e % 3 == 2 ? 0x300 : 0xfull << 4 * (e % 3));
    fby__plan_destroy(plan);
    free(k);
}

static fby__plan *third_of(const void *user, uint32_t rank, uint32_t world)
{
    const fby__plan_opts o = {.tail = FBY__TAIL_WRAP,
                              .seed = 5,
                              .global_batch = 16,
                              .superbatch_samples = 60,
                              .streams = 8,
                              .world_size = world,
                              .rank = rank,
                              .n_parts = 3};
    fby__plan *plan = NULL;
    assert_int_equal(try_plan(user, o, &plan, NULL), FBY_OK);
    return plan;
}

static void the_global_sequence_of_a_part_is_the_same_for_every_world_size(void **state)
{
    (void)state;
    static keyed k;
    fby__random random = {.key = 9};
    random_keys(&k, &random);
    check_one_sequence(third_of, &k, 16, 4, MAX_RUNS);
}

static void what_cannot_be_is_refused_with_what_would_work(void **state)
{
    (void)state;
    keyed *k = ten_keys_of_five();
    const fby__plan_opts good = {.global_batch = 8, .superbatch_samples = 1000, .streams = 8, .world_size = 1, .part_keys = 4};
    struct {
        fby__plan_opts o;
        const char *text;
    } cases[] = {{good, "parts of whole keys, 11 keys each, but only 10 keys have samples: choose at most 10"},
                 {good, "parts of whole keys, 11 parts, but only 10 keys"},
                 {good, "by keys a part or by their number, not both"},
                 {good, "together with parts by key"}};
    cases[0].o.part_keys = 11;
    cases[1].o.part_keys = 0, cases[1].o.n_parts = 11;
    cases[2].o.n_parts = 2;
    cases[3].o.max_superbatch_batches = 4;
    for (int i = 0; i < 4; i++) {
        fby__plan *plan;
        fby_error err;
        assert_int_equal(try_plan(k, cases[i].o, &plan, &err), FBY_E_ARG);
        if (!strstr(err.message, cases[i].text))
            fail_msg("%s", err.message);
    }
    free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_comes_once_a_sweep_and_every_sample_of_it_for_random_blocks_and_options),
        cmocka_unit_test(keys_of_one_block_are_drawn_anew_after_a_sweep_and_taken_in_order_without_shuffle),
        cmocka_unit_test(the_global_sequence_of_a_part_is_the_same_for_every_world_size),
        cmocka_unit_test(what_cannot_be_is_refused_with_what_would_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
