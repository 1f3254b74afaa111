/*
 * Diversity: a floor on the files in a batch and a cap on the batches from one superbatch, still every sample once, and no block in
 * more pieces than the plan says.
 */
#include "plan/plan_orders.h"
#include "support/plan_sweep.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ANY_SEED = 97, BASINS = 500 };

static fby__plan *make_plan(const uint64_t *counts, const uint32_t *files, uint32_t n, fby__plan_opts o)
{
    fby__plan *plan = NULL;
    fby_error err;
    o.files = files;
    if (fby__plan_create(counts, n, &o, &plan, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return plan;
}

/* Phases: none above the limit, none in more batches than asked for, pieces of blocks as many as announced and none joinable. */
static uint64_t check_phases(const fby__plan *plan, const fby__epoch *epoch, const fby__plan_opts *o)
{
    uint64_t items = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        const fby__plan_phase *phase = &epoch->phases[p];
        uint64_t samples = 0;
        items += phase->n_items;
        for (uint32_t i = 0; i < phase->n_items; i++) {
            const fby__plan_item *item = &phase->items[i];
            assert_true(item->lo < item->hi);
            assert_int_equal(item->start, samples);
            samples += item->hi - item->lo;
            if (i > 0 && fby__plan_slice_samples(plan))
                assert_true(item->block > item[-1].block || (item->block == item[-1].block && item->lo > item[-1].hi));
        }
        assert_int_equal(samples, phase->n_samples);
        if (!fby__plan_slice_samples(plan))
            continue;
        assert_true(samples <= fby__plan_phase_limit(plan));
        if (o->max_superbatch_batches)
            assert_true(phase->last_batch - phase->first_batch < o->max_superbatch_batches);
    }
    return items;
}

static void every_sample_comes_once_and_the_cap_holds_for_random_blocks_and_options(void **state)
{
    (void)state;
    enum { MAX_BLOCKS = 40, MAX_COUNT = 90 };
    static uint32_t seen[MAX_BLOCKS][MAX_COUNT];
    fby__random random = {.key = ANY_SEED};
    int checked = 0, refused = 0, sliced = 0;
    for (int round = 0; round < 3000; round++) {
        uint64_t counts[MAX_BLOCKS];
        uint32_t files[MAX_BLOCKS], n_blocks = 1 + (uint32_t)below(&random, MAX_BLOCKS);
        for (uint32_t b = 0, file = 0; b < n_blocks; b++) {
            files[b] = file += b > 0 && below(&random, 3) > 0;
            counts[b] = below(&random, 6) ? 1 + below(&random, MAX_COUNT) : 0;
        }
        fby__plan_opts o = {.shuffle = below(&random, 5) ? FBY__SHUFFLE_SUPERBATCH : FBY__SHUFFLE_FULL,
                            .tail = (fby__tail)below(&random, 3),
                            .seed = fby__random_next(&random),
                            .global_batch = 8 * (1 + below(&random, 4)),
                            .superbatch_samples = 1 + below(&random, 600),
                            .streams = 8,
                            .world_size = 1u << below(&random, 4),
                            .files = files,
                            .max_superbatch_batches = below(&random, 2) ? 2 + (uint32_t)below(&random, 5) : 0};
        if (!o.max_superbatch_batches || below(&random, 2))
            o.diversity_files = 1 + (uint32_t)below(&random, 6);
        uint64_t wrapped = 0, dropped = 0, items = 0;
        tally t = {0};
        const uint64_t number = below(&random, 4);
        fby__plan *plan = NULL;
        memset(seen, 0, sizeof seen);
        for (o.rank = 0; o.rank < o.world_size; o.rank++) {
            fby__plan_destroy(plan);
            plan = NULL;
            if (fby__plan_create(counts, n_blocks, &o, &plan, NULL) != FBY_OK)
                break;
            fby__epoch *epoch = epoch_of(plan, number);
            items += check_phases(plan, epoch, &o);
            for (uint64_t k = 0; k < epoch->n_samples; k++) {
                uint32_t block;
                uint64_t sample;
                fby__epoch_sample(epoch, k, &block, &sample);
                assert_true(sample < counts[block]);
                seen[block][sample]++;
            }
            wrapped = epoch->n_wrapped;
            dropped = epoch->n_dropped;
            fby__epoch_destroy(epoch);
        }
        if (!plan) {
            refused++;
            continue;
        }
        for (uint32_t b = 0; b < n_blocks; b++)
            tally_add(&t, seen[b], counts[b]);
        assert_int_equal(t.repeats, wrapped);
        assert_int_equal(t.missing, dropped);
        if (fby__plan_shuffle(plan) == FBY__SHUFFLE_SUPERBATCH) {
            assert_true(items <= fby__plan_item_limit(plan));
            sliced++;
        }
        fby__plan_destroy(plan);
        checked++;
    }
    print_message("%d configurations checked (%d with slices), %d refused\n", checked, sliced, refused);
    assert_true(checked > 700 && sliced > 200);
}

typedef struct files_seen {
    double mean;
    uint64_t least, batches, below; /* below: batches with fewer than asked for */
} files_seen;

/* Files of every whole global batch of an epoch (one rank has them all). */
static files_seen count_files(const fby__epoch *epoch, const uint32_t *files, uint64_t asked)
{
    static uint32_t mark[2 * BASINS];
    files_seen f = {.least = UINT64_MAX};
    uint64_t k = 0;
    memset(mark, 0, sizeof mark);
    for (uint64_t b = 0; b + 1 < epoch->n_batches; b++) {
        uint64_t n = 0;
        for (uint64_t i = 0, size = fby__epoch_batch_size(epoch, b); i < size; i++, k++) {
            uint32_t block;
            uint64_t sample;
            fby__epoch_sample(epoch, k, &block, &sample);
            n += mark[files[block]] != b + 1;
            mark[files[block]] = (uint32_t)b + 1;
        }
        f.mean += (double)n;
        f.least = n < f.least ? n : f.least;
        f.below += n < asked;
        f.batches++;
    }
    f.mean /= (double)f.batches;
    return f;
}

static void batches_of_five_hundred_basins_have_the_files_asked_for(void **state)
{
    (void)state;
    uint64_t counts[BASINS], uneven[BASINS];
    uint32_t files[BASINS];
    fby__random random = {.key = 4};
    for (uint32_t b = 0; b < BASINS; b++) {
        files[b] = b;
        counts[b] = 1000;
        uneven[b] = 200 + below(&random, 1600);
    }
    uint64_t batches = 0, below_floor = 0;
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t wanted = 20; wanted <= 200; wanted += 60)
            for (uint64_t superbatch = 30000; superbatch <= 270000; superbatch *= 3) {
                fby__plan_opts o = {.seed = wanted, .global_batch = 512, .superbatch_samples = superbatch, .streams = 8, .world_size = 1};
                fby__plan *plan = make_plan(kind ? uneven : counts, files, BASINS, o);
                fby__epoch *epoch = epoch_of(plan, 0);
                files_seen plain = count_files(epoch, files, wanted);
                fby__epoch_destroy(epoch);
                fby__plan_destroy(plan);
                o.diversity_files = wanted;
                o.max_superbatch_batches = wanted == 80 ? 12 : 0;
                plan = make_plan(kind ? uneven : counts, files, BASINS, o);
                for (uint64_t e = 0; e < 2; e++) {
                    epoch = epoch_of(plan, e);
                    files_seen f = count_files(epoch, files, wanted);
                    check_phases(plan, epoch, &o);
                    if (f.mean < wanted)
                        fail_msg("%u files asked for, %.1f in the mean (superbatch %llu)", wanted, f.mean, (unsigned long long)superbatch);
                    batches += f.batches;
                    below_floor += f.below;
                    if (e == 0)
                        print_message("%s, superbatch %5llu: %3u asked for, at least %3llu, mean %5.1f, without %5.1f; slices of %llu\n",
                                      kind ? "uneven" : "even", (unsigned long long)superbatch, wanted, (unsigned long long)f.least, f.mean,
                                      plain.mean, (unsigned long long)fby__plan_slice_samples(plan));
                    fby__mixing m;
                    assert_int_equal(fby__plan_mixing(epoch, 1 << 20, NULL, 0, &m, NULL, NULL), FBY_OK);
                    assert_int_equal(m.files_least, f.least);
                    assert_true(m.files_uniform > m.files - 20);
                    fby__epoch_destroy(epoch);
                }
                fby__plan_destroy(plan);
            }
    print_message("%llu of %llu batches had fewer\n", (unsigned long long)below_floor, (unsigned long long)batches);
    assert_true(below_floor * 10000 <= batches);
}

static fby__plan *diverse(const void *user, uint32_t rank, uint32_t world)
{
    uint32_t files[100];
    for (uint32_t b = 0; b < 100; b++)
        files[b] = b / 2;
    const fby__plan_opts o = {.tail = FBY__TAIL_DROP,
                              .seed = 5,
                              .global_batch = 64,
                              .superbatch_samples = 1000,
                              .streams = 8,
                              .rank = rank,
                              .world_size = world,
                              .diversity_files = 20,
                              .max_superbatch_batches = 9};
    fby__plan *plan = make_plan(user, files, 100, o);
    assert_true(fby__plan_slice_samples(plan) < 60);
    return plan;
}

static void the_global_sequence_is_the_same_for_every_world_size(void **state)
{
    (void)state;
    uint64_t counts[100];
    for (uint32_t b = 0; b < 100; b++)
        counts[b] = 20 + b % 41;
    check_one_sequence(diverse, counts, 64, 3, 4200);
}

static void length_of(const void *user, const uint32_t *block, const uint64_t *sample, uint32_t n, uint32_t *out)
{
    (void)user;
    for (uint32_t i = 0; i < n; i++)
        out[i] = 1 + (uint32_t)(fby__random_u64(block[i], sample[i], 0) % 50);
}

/* Batches of slices, sorted by length: every sample once, whole batches sorted within their pool, and the cap. */
static void length_buckets_keep_the_cap(void **state)
{
    (void)state;
    enum { MAX_BLOCKS = 30, MAX_COUNT = 90 };
    static uint32_t seen[MAX_BLOCKS][MAX_COUNT];
    fby__random random = {.key = ANY_SEED};
    int checked = 0, sliced = 0;
    double spread = 0, spread_unsorted = 0;
    for (int round = 0; round < 600; round++) {
        uint64_t counts[MAX_BLOCKS], wrapped = 0, dropped = 0;
        tally t = {0};
        const uint32_t n_blocks = 1 + (uint32_t)below(&random, MAX_BLOCKS);
        for (uint32_t b = 0; b < n_blocks; b++)
            counts[b] = 1 + below(&random, MAX_COUNT);
        fby__plan_opts o = {.tail = (fby__tail)(1 + below(&random, 2)),
                            .seed = fby__random_next(&random),
                            .superbatch_samples = 1 + below(&random, 1200),
                            .streams = 8,
                            .world_size = 1u << below(&random, 3),
                            .max_superbatch_batches = 2 + (uint32_t)below(&random, 5),
                            .bucket_samples = 1 + below(&random, 200),
                            .lengths = length_of};
        o.global_batch = o.world_size * (1 + below(&random, 12));
        memset(seen, 0, sizeof seen);
        for (o.rank = 0; o.rank < o.world_size; o.rank++) {
            fby__plan *plan = NULL;
            fby__pool_scratch *pool = NULL;
            if (fby__plan_create(counts, n_blocks, &o, &plan, NULL) != FBY_OK)
                break; /* fewer samples than a batch, or than streams */
            assert_int_equal(fby__pool_scratch_create(plan, &pool, NULL), FBY_OK);
            fby__epoch *epoch = epoch_of(plan, 2);
            (void)check_phases(plan, epoch, &o);
            sliced += o.rank == 0 && fby__plan_slice_samples(plan) != 0;
            fby__plan_piece *pieces = calloc(fby__epoch_max_pieces(epoch), sizeof *pieces);
            for (uint64_t b = 0; b < epoch->n_batches; b++) {
                const uint32_t n = fby__epoch_pieces(epoch, b, pieces, fby__epoch_max_pieces(epoch));
                for (uint32_t p = 0; p < n; p++) {
                    uint32_t item[64], length[64], block[64], least = UINT32_MAX, most = 0;
                    uint64_t sample[64];
                    assert_true(pieces[p].n <= 64);
                    assert_true(fby__epoch_resolve_in(epoch, pieces[p].phase, pieces[p].index, pieces[p].n, pool, item, sample));
                    for (uint32_t i = 0; i < pieces[p].n; i++) {
                        block[i] = epoch->phases[pieces[p].phase].items[item[i]].block;
                        assert_true(sample[i] < counts[block[i]]);
                        seen[block[i]][sample[i]]++;
                    }
                    length_of(NULL, block, sample, pieces[p].n, length);
                    for (uint32_t i = 0; i < pieces[p].n; i++) {
                        least = length[i] < least ? length[i] : least;
                        most = length[i] > most ? length[i] : most;
                    }
                    spread += pieces[p].n > 3 ? most - least : 0;
                    spread_unsorted +=
                        pieces[p].n > 3 ? 49.0 * (pieces[p].n - 1) / (pieces[p].n + 1) : 0; /* in the mean, of as many at random */
                }
            }
            wrapped = epoch->n_wrapped;
            dropped = epoch->n_dropped;
            free(pieces);
            fby__epoch_destroy(epoch);
            fby__pool_scratch_destroy(pool);
            fby__plan_destroy(plan);
            checked += o.rank + 1 == o.world_size;
        }
        if (o.rank < o.world_size)
            continue;
        for (uint32_t b = 0; b < n_blocks; b++)
            tally_add(&t, seen[b], counts[b]);
        assert_int_equal(t.repeats, wrapped);
        assert_int_equal(t.missing, dropped);
    }
    print_message("%d configurations checked (%d with slices); lengths in a piece span %.2f of what they would\n", checked, sliced,
                  spread / spread_unsorted);
    assert_true(checked > 300 && sliced > 200 && spread < 0.8 * spread_unsorted);
}

static void slices_of_a_block_come_from_all_of_the_epoch(void **state)
{
    (void)state;
    uint64_t counts[50];
    uint32_t files[50];
    for (uint32_t b = 0; b < 50; b++) {
        files[b] = b;
        counts[b] = 400;
    }
    fby__plan_opts o = {.seed = 1, .global_batch = 32, .superbatch_samples = 2000, .streams = 1, .world_size = 1, .diversity_files = 9};
    fby__plan *plan = make_plan(counts, files, 50, o);
    fby__epoch *epoch = epoch_of(plan, 0);
    const uint64_t r = fby__plan_slices_of(plan, 400);
    assert_true(r >= 4);
    for (uint32_t b = 0; b < 50; b++) { /* in each quarter of the epoch, about a quarter of the block */
        uint64_t quarter[4] = {0};
        for (uint64_t k = 0; k < 20000; k++) {
            uint32_t block;
            uint64_t sample;
            fby__epoch_sample(epoch, k, &block, &sample);
            quarter[k / 5000] += block == b;
        }
        for (int q = 0; q < 4; q++)
            assert_true(quarter[q] > 0 && quarter[q] <= 100 + 2 * (400 / r) + 100);
    }
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
}

static void refuse(const uint64_t *counts, const uint32_t *files, uint32_t n, fby__plan_opts o, const char *text)
{
    fby_error err;
    fby__plan *plan = NULL;
    o.files = files;
    assert_int_equal(fby__plan_create(counts, n, &o, &plan, &err), FBY_E_ARG);
    assert_null(plan);
    if (!strstr(err.message, text))
        fail_msg("'%s' does not say '%s'", err.message, text);
}

static void what_cannot_be_is_refused_with_what_would_work(void **state)
{
    (void)state;
    uint64_t counts[100];
    uint32_t files[100];
    for (uint32_t b = 0; b < 100; b++) {
        files[b] = b;
        counts[b] = 10000;
    }
    const fby__plan_opts good = {.global_batch = 64, .superbatch_samples = 5000, .streams = 8, .world_size = 1};
    fby__plan_opts o = good;
    o.diversity_files = 101;
    refuse(counts, files, 100, o, "only 100 files");
    o.diversity_files = 64; /* of 64 samples each from another file */
    refuse(counts, files, 100, o, "even a uniform shuffle");
    refuse(counts, NULL, 100, o, "has none");
    o = good, o.max_superbatch_batches = 1;
    refuse(counts, files, 100, o, "at least 2");
    o = good, o.diversity_files = 5, o.shuffle = FBY__SHUFFLE_BLOCK;
    refuse(counts, files, 100, o, "'superbatch' alone");
    o = good, o.diversity_files = 35;
    fby_error err;
    fby__plan *plan = NULL;
    o.files = files;
    assert_int_equal(fby__plan_create(counts, 100, &o, &plan, &err), FBY_E_ARG);
    unsigned most = 0;
    const char *advice = strstr(err.message, "choose at most ");
    assert_non_null(advice);
    assert_int_equal(sscanf(advice, "choose at most %u", &most), 1);
    assert_true(most < 35);
    o.diversity_files = most;
    assert_int_equal(fby__plan_create(counts, 100, &o, &plan, &err), FBY_OK);
    fby__plan_destroy(plan);
    o = good, o.bucket_samples = 100, o.lengths = length_of, o.diversity_files = 5;
    refuse(counts, files, 100, o, "no number of files could be promised");
    o = good, o.batch_elements = 100, o.lengths = length_of, o.max_superbatch_batches = 5;
    refuse(counts, files, 100, o, "together with batches by rows");
    o = good, o.n_parts = 10, o.diversity_files = 11;
    refuse(counts, files, 100, o, "the smallest part has 10 files");
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const uint64_t counts[] = {40, 0, 30, 50, 40, 40};
    const uint32_t files[] = {0, 0, 1, 2, 3, 4};
    const fby__plan_opts o = {
        .global_batch = 32, .superbatch_samples = 120, .streams = 2, .world_size = 1, .files = files, .diversity_files = 2};
    assert_true(plan_allocations_that_fail(counts, 6, &o, 0) >= 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once_and_the_cap_holds_for_random_blocks_and_options),
        cmocka_unit_test(batches_of_five_hundred_basins_have_the_files_asked_for),
        cmocka_unit_test(the_global_sequence_is_the_same_for_every_world_size),
        cmocka_unit_test(length_buckets_keep_the_cap),
        cmocka_unit_test(slices_of_a_block_come_from_all_of_the_epoch),
        cmocka_unit_test(what_cannot_be_is_refused_with_what_would_work),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
