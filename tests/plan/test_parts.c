/*
 * Parts of an epoch: whole files, every one once a sweep, also when the counts do not divide; inside a part the order is that of a
 * plan over the part's blocks alone; the same over any number of ranks.
 */
#include "plan/plan_orders.h"
#include "support/plan_sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BLOCKS = 60, MAX_COUNT = 30, ANY_SEED = 41 };

typedef struct blocks {
    uint64_t counts[MAX_BLOCKS], n;
    uint32_t files[MAX_BLOCKS], n_blocks, n_files; /* files with samples */
} blocks;

/* Files of one to three blocks, some blocks and files without samples. */
static blocks random_blocks(fby__random *r)
{
    blocks b = {0};
    b.n_blocks = 1 + (uint32_t)below(r, MAX_BLOCKS);
    for (uint32_t i = 0, file = 0; i < b.n_blocks; i++) {
        file += i > 0 && below(r, 3) > 0;
        b.files[i] = file;
        b.counts[i] = below(r, 5) ? 1 + below(r, MAX_COUNT) : 0;
        b.n += b.counts[i];
    }
    if (b.n == 0)
        b.n = b.counts[0] = 3;
    bool has[MAX_BLOCKS] = {0};
    for (uint32_t i = 0; i < b.n_blocks; i++)
        has[b.files[i]] |= b.counts[i] > 0;
    for (uint32_t f = 0; f < MAX_BLOCKS; f++)
        b.n_files += has[f];
    return b;
}

static fby_status try_plan(const blocks *b, fby__plan_opts o, fby__plan **out, fby_error *err)
{
    o.files = b->files;
    return fby__plan_create(b->counts, b->n_blocks, &o, out, err);
}

/* The epoch's own files, marked; each of its blocks must be whole in it. */
static void mark_files(const fby__epoch *epoch, const blocks *b, bool *has)
{
    for (uint32_t i = 0; i < b->n_blocks; i++)
        if (epoch->counts[i]) {
            assert_int_equal(epoch->counts[i], b->counts[i]);
            has[b->files[i]] = true;
        }
    for (uint32_t i = 0; i < b->n_blocks; i++)
        assert_true(!has[b->files[i]] || epoch->counts[i] == b->counts[i]);
}

/* The same order as a plan over the part's blocks alone. */
static void check_like_a_plan_of_its_own(const fby__epoch *epoch, const blocks *b, fby__plan_opts o, fby__shuffle in_effect)
{
    o.part_files = o.n_parts = 0;
    o.shuffle = in_effect;
    if (in_effect == FBY__SHUFFLE_SUPERBATCH && epoch->n_available <= o.superbatch_samples)
        return; /* that plan would shuffle in full; whether a plan with parts does is decided for all of them */
    fby__plan *plan = NULL;
    fby_error err;
    if (fby__plan_create(epoch->counts, b->n_blocks, &o, &plan, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby__epoch *alone = epoch_of(plan, epoch->epoch);
    assert_int_equal(alone->n_samples, epoch->n_samples);
    assert_int_equal(alone->n_batches, epoch->n_batches);
    for (uint64_t k = 0; k < alone->n_samples; k++) {
        uint32_t block[2];
        uint64_t sample[2];
        fby__epoch_sample(alone, k, &block[0], &sample[0]);
        fby__epoch_sample(epoch, k, &block[1], &sample[1]);
        assert_true(block[0] == block[1] && sample[0] == sample[1]);
    }
    fby__epoch_destroy(alone);
    fby__plan_destroy(plan);
}

/* A sweep over all ranks: every sample once (tails counted), every file in one part. */
static void check_sweep(const blocks *b, fby__plan_opts o, uint64_t sweep)
{
    static uint32_t seen[MAX_BLOCKS][MAX_COUNT + 1];
    uint32_t times[MAX_BLOCKS] = {0}, n_parts = 0;
    uint64_t wrapped = 0, dropped = 0;
    tally t = {0};
    memset(seen, 0, sizeof seen);
    for (o.rank = 0; o.rank < o.world_size; o.rank++) {
        fby__plan *plan = NULL;
        assert_int_equal(try_plan(b, o, &plan, NULL), FBY_OK);
        n_parts = fby__plan_parts(plan);
        for (uint64_t e = sweep * n_parts; e < (sweep + 1) * n_parts; e++) {
            fby__epoch *epoch = epoch_of(plan, e);
            fby__epoch_counts c;
            bool has[MAX_BLOCKS] = {0};
            assert_int_equal(fby__plan_count(plan, e, &c, NULL), FBY_OK);
            assert_true(c.n_available == epoch->n_available && c.n_batches == epoch->n_batches && c.n_samples == epoch->n_samples &&
                        c.n_wrapped == epoch->n_wrapped && c.n_dropped == epoch->n_dropped);
            assert_true((c.n_batches > 0 || o.tail == FBY__TAIL_KEEP) && c.n_available <= fby__plan_part_samples(plan));
            mark_files(epoch, b, has);
            uint32_t in_part = 0;
            for (uint32_t f = 0; f < MAX_BLOCKS; f++) {
                in_part += has[f];
                times[f] += has[f] && o.rank == 0;
            }
            if (o.part_files)
                assert_int_equal(in_part, e + 1 < (sweep + 1) * n_parts ? o.part_files : b->n_files - (n_parts - 1) * o.part_files);
            else
                assert_true(in_part == b->n_files / n_parts || in_part == b->n_files / n_parts + 1);
            assert_true(in_part <= fby__plan_part_units(plan));
            for (uint64_t k = 0; k < epoch->n_samples; k++) {
                uint32_t block;
                uint64_t sample;
                fby__epoch_sample(epoch, k, &block, &sample);
                assert_true(has[b->files[block]]);
                seen[block][sample]++;
            }
            if (o.rank == 0) {
                wrapped += epoch->n_wrapped;
                dropped += epoch->n_dropped;
            }
            check_like_a_plan_of_its_own(epoch, b, o, fby__plan_shuffle(plan));
            fby__epoch_destroy(epoch);
        }
        fby__plan_destroy(plan);
    }
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        tally_add(&t, seen[i], b->counts[i]);
        assert_true(b->counts[i] == 0 || times[b->files[i]] == 1);
    }
    assert_int_equal(t.repeats, wrapped);
    assert_int_equal(t.missing, dropped);
}

static void every_file_comes_once_a_sweep_and_every_sample_of_it_for_random_blocks_and_options(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 1, 2, 4};
    fby__random random = {.key = ANY_SEED};
    int checked = 0, refused = 0;
    for (int round = 0; round < 1500; round++) {
        const blocks b = random_blocks(&random);
        fby__plan_opts o = {.shuffle = (fby__shuffle)below(&random, 4),
                            .tail = (fby__tail)below(&random, 3),
                            .seed = fby__random_next(&random),
                            .superbatch_samples = 1 + below(&random, 300),
                            .streams = 8,
                            .world_size = worlds[below(&random, 4)]};
        o.global_batch = o.world_size * (1 + below(&random, 6));
        if (below(&random, 2))
            o.part_files = 1 + (uint32_t)below(&random, b.n_files);
        else
            o.n_parts = 1 + (uint32_t)below(&random, b.n_files);
        fby__plan *plan = NULL;
        if (try_plan(&b, o, &plan, NULL) == FBY_OK) { /* else a part that fills no batch, or a tail that ranks cannot keep */
            fby__plan_destroy(plan);
            check_sweep(&b, o, below(&random, 3));
            checked++;
        } else {
            refused++;
        }
    }
    print_message("%d configurations checked, %d refused\n", checked, refused);
    assert_true(checked > 500);
}

static uint64_t files_of(const fby__plan *plan, const blocks *b, uint64_t number)
{
    fby__epoch *epoch = epoch_of(plan, number);
    bool has[MAX_BLOCKS] = {0};
    uint64_t mask = 0;
    mark_files(epoch, b, has);
    for (uint32_t f = 0; f < MAX_BLOCKS; f++)
        mask |= (uint64_t)has[f] << f;
    fby__epoch_destroy(epoch);
    return mask;
}

static void the_parts_are_drawn_anew_after_a_sweep_and_kept_in_file_order_without_shuffle(void **state)
{
    (void)state;
    blocks b = {.n_blocks = 20, .n_files = 10};
    for (uint32_t i = 0; i < 20; i++) {
        b.files[i] = i / 2;
        b.counts[i] = 10;
    }
    fby__plan_opts o = {.seed = 3, .global_batch = 8, .superbatch_samples = 1000, .streams = 8, .world_size = 1, .part_files = 4};
    fby__plan *plan;
    assert_int_equal(try_plan(&b, o, &plan, NULL), FBY_OK);
    assert_int_equal(fby__plan_parts(plan), 3);
    assert_int_equal(fby__plan_shuffle(plan), FBY__SHUFFLE_SUPERBATCH); /* a part no larger than that: every stream is one phase */
    assert_true(fby__plan_whole_streams(plan));
    int same = 0;
    for (uint64_t sweep = 0; sweep < 20; sweep++) {
        uint64_t a = files_of(plan, &b, 3 * sweep), c = files_of(plan, &b, 3 * sweep + 1), d = files_of(plan, &b, 3 * sweep + 2);
        assert_int_equal(a | c | d, 0x3ff);
        assert_true((a & c) == 0 && (a & d) == 0 && (c & d) == 0);
        assert_true(__builtin_popcountll(a) == 4 && __builtin_popcountll(d) == 2);
        same += a == files_of(plan, &b, 3 * sweep + 3);
    }
    assert_true(same < 4);
    fby__plan_destroy(plan);

    o.shuffle = FBY__SHUFFLE_NONE;
    assert_int_equal(try_plan(&b, o, &plan, NULL), FBY_OK);
    for (uint64_t e = 0; e < 6; e++)
        assert_int_equal(files_of(plan, &b, e), e % 3 == 2 ? 0x300 : 0xfull << 4 * (e % 3));
    fby__plan_destroy(plan);
}

/* The draw is part of what saved states depend on. */
static void the_draw_never_changes(void **state)
{
    (void)state;
    blocks b = {.n_blocks = 8, .n_files = 8};
    for (uint32_t i = 0; i < 8; i++) {
        b.files[i] = i;
        b.counts[i] = 5;
    }
    fby__plan_opts o = {.seed = 7, .global_batch = 5, .superbatch_samples = 10, .streams = 1, .world_size = 1, .part_files = 3};
    static const uint64_t golden[6] = {0x92, 0x68, 0x05, 0x89, 0x52, 0x24};
    fby__plan *plan;
    assert_int_equal(try_plan(&b, o, &plan, NULL), FBY_OK);
    for (uint64_t e = 0; e < 6; e++)
        assert_int_equal(files_of(plan, &b, e), golden[e]);
    fby__plan_destroy(plan);
}

static fby__plan *third_of(const void *user, uint32_t rank, uint32_t world)
{
    const fby__plan_opts o = {.tail = FBY__TAIL_WRAP,
                              .seed = 5,
                              .global_batch = 16,
                              .superbatch_samples = 64,
                              .streams = 8,
                              .rank = rank,
                              .world_size = world,
                              .n_parts = 3};
    fby__plan *plan = NULL;
    assert_int_equal(try_plan(user, o, &plan, NULL), FBY_OK);
    return plan;
}

static void the_global_sequence_of_a_part_is_the_same_for_every_world_size(void **state)
{
    (void)state;
    fby__random random = {.key = 9};
    const blocks b = random_blocks(&random);
    check_one_sequence(third_of, &b, 16, 4, b.n + 16);
}

/* Blocks that a rank's phases hold, each once. */
static uint32_t blocks_read(const fby__epoch *epoch)
{
    bool read[MAX_BLOCKS] = {0};
    uint32_t n = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        for (uint32_t i = 0; i < epoch->phases[p].n_items; i++)
            read[epoch->phases[p].items[i].block] = true;
    for (uint32_t i = 0; i < MAX_BLOCKS; i++)
        n += read[i];
    return n;
}

static void of_a_part_no_larger_than_the_superbatch_ranks_read_their_own_blocks_and_streams_are_mixed_as_a_whole(void **state)
{
    (void)state;
    fby__random random = {.key = 77};
    uint64_t one[4000] = {0};
    for (int round = 0; round < 20; round++) {
        const blocks b = random_blocks(&random);
        fby__plan_opts o = {
            .tail = FBY__TAIL_WRAP, .seed = (uint64_t)round, .global_batch = 16, .superbatch_samples = b.n, .streams = 8, .n_parts = 2};
        fby__plan *plan = NULL;
        for (o.world_size = 1; o.world_size <= 8; o.world_size *= 2)
            for (uint64_t e = 0; e < 3; e++) {
                uint32_t sum = 0, in_part = 0;
                for (o.rank = 0; o.rank < o.world_size; o.rank++) {
                    if (try_plan(&b, o, &plan, NULL) != FBY_OK)
                        break; /* a part that leaves a stream empty */
                    fby__epoch *epoch = epoch_of(plan, e);
                    assert_true(fby__plan_whole_streams(plan) && fby__plan_own_streams(plan) == 8 / o.world_size);
                    assert_int_equal(epoch->n_phases, 8 / o.world_size);
                    for (uint32_t p = 0; p < epoch->n_phases; p++)
                        assert_true(epoch->phases[p].begin == 0 && epoch->phases[p].n_samples <= fby__plan_phase_limit(plan));
                    for (uint64_t k = 0; k < epoch->n_samples; k++) { /* one sequence, whatever the world size */
                        const uint64_t global = global_place(k, 16, o.rank, o.world_size);
                        uint32_t block;
                        uint64_t sample;
                        fby__epoch_sample(epoch, k, &block, &sample);
                        assert_true(global < 4000);
                        if (o.world_size == 1 && e == 2)
                            one[global] = block * (MAX_COUNT + 1) + sample;
                        assert_true(e != 2 || one[global] == block * (MAX_COUNT + 1) + sample);
                    }
                    sum += blocks_read(epoch);
                    in_part = epoch->n_nonzero;
                    fby__epoch_destroy(epoch);
                    fby__plan_destroy(plan);
                }
                assert_true(sum >= in_part && sum <= in_part + o.world_size - 1); /* a border between ranks cuts one block at most */
            }
        o.world_size = 1;
        o.rank = 0;
        o.shuffle = FBY__SHUFFLE_FULL; /* asked for by name, it stays one permutation of all */
        assert_int_equal(try_plan(&b, o, &plan, NULL), b.n_files < 2 ? FBY_E_ARG : FBY_OK);
        if (b.n_files >= 2) {
            assert_true(fby__plan_shuffle(plan) == FBY__SHUFFLE_FULL && !fby__plan_whole_streams(plan));
            fby__plan_destroy(plan);
        }
    }
}

static void refuse(const blocks *b, fby__plan_opts o, const char *text)
{
    fby_error err;
    fby__plan *plan = NULL;
    assert_int_equal(try_plan(b, o, &plan, &err), FBY_E_ARG);
    assert_null(plan);
    if (!strstr(err.message, text))
        fail_msg("'%s' does not say '%s'", err.message, text);
}

static void parts_that_cannot_be_are_refused_with_what_would_work(void **state)
{
    (void)state;
    blocks b = {.n_blocks = 5, .n_files = 5};
    for (uint32_t i = 0; i < 5; i++) {
        b.files[i] = i;
        b.counts[i] = i == 2 ? 3 : 20;
    }
    const fby__plan_opts good = {.global_batch = 8, .superbatch_samples = 10, .streams = 4, .world_size = 1};
    fby__plan_opts o = good;
    o.n_parts = 9;
    refuse(&b, o, "choose at most 5");
    o = good, o.n_parts = o.part_files = 2;
    refuse(&b, o, "not both");
    o = good, o.part_files = 2, o.tail = FBY__TAIL_DROP; /* the last part is one file, of 3 samples in some sweep */
    refuse(&b, o, "3 samples of the smallest part do not fill one batch of 8");
    o = good, o.part_files = 2, o.tail = FBY__TAIL_WRAP;
    refuse(&b, o, "streams empty");
    o = good, o.part_files = 2;
    fby_error err;
    fby__plan *plan = NULL;
    assert_int_equal(fby__plan_create(b.counts, 5, &o, &plan, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "made of files"));
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    fby__random random = {.key = 2};
    const blocks b = random_blocks(&random);
    const fby__plan_opts o = {.global_batch = 8, .superbatch_samples = 16, .streams = 4, .world_size = 1, .n_parts = 2, .files = b.files};
    assert_true(plan_allocations_that_fail(b.counts, b.n_blocks, &o, 1) >= 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_comes_once_a_sweep_and_every_sample_of_it_for_random_blocks_and_options),
        cmocka_unit_test(the_parts_are_drawn_anew_after_a_sweep_and_kept_in_file_order_without_shuffle),
        cmocka_unit_test(the_draw_never_changes),
        cmocka_unit_test(the_global_sequence_of_a_part_is_the_same_for_every_world_size),
        cmocka_unit_test(of_a_part_no_larger_than_the_superbatch_ranks_read_their_own_blocks_and_streams_are_mixed_as_a_whole),
        cmocka_unit_test(parts_that_cannot_be_are_refused_with_what_would_work),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
