/* The order of an epoch: against a naive twin and its own promises, for random blocks and options. */
#include "plan/order_twin.h"
#include "plan/plan_orders.h"
#include "support/plan_sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MAX_BLOCKS 16
#define ANY_SEED 20240607u

/* Blocks of every awkward kind: none, empty, one row, one large, a single one. */
static uint32_t random_counts(fby__random *r, uint64_t *counts)
{
    uint32_t n = 1 + (uint32_t)below(r, below(r, 4) ? MAX_BLOCKS : 2);
    uint64_t style = below(r, 5), total = 0;
    for (uint32_t b = 0; b < n; b++) {
        switch (style) {
        case 0: counts[b] = below(r, 3); break;
        case 1: counts[b] = 1; break;
        case 2: counts[b] = below(r, 40); break;
        case 3: counts[b] = 24; break;
        default: counts[b] = below(r, 6) ? below(r, 4) : 200; break;
        }
        total += counts[b];
    }
    if (total == 0)
        counts[below(r, n)] = 1 + below(r, 9);
    return n;
}

static fby__plan_opts random_opts(fby__random *r)
{
    static const uint32_t worlds[] = {1, 2, 4, 8}, streams[] = {1, 2, 3, 4, 8, 8, 8, 12, 16};
    fby__plan_opts o = {.shuffle = (fby__shuffle)below(r, 4), .tail = (fby__tail)below(r, 3), .seed = fby__random_next(r)};
    o.world_size = worlds[below(r, 4)];
    o.streams = streams[below(r, 9)];
    o.global_batch = o.world_size * (1 + below(r, below(r, 2) ? 3 : 20));
    o.superbatch_samples = 1 + below(r, below(r, 2) ? 100 : 400);
    o.no_warmup = below(r, 3) == 0;
    return o;
}

static bool opts_are_fine(const fby__plan_opts *o, uint64_t n)
{
    uint64_t streams = o->shuffle == FBY__SHUFFLE_NONE ? 1 : twin_gcd(o->streams, o->global_batch);
    if (o->tail == FBY__TAIL_DROP && n < o->global_batch)
        return false;
    if (o->shuffle != FBY__SHUFFLE_NONE && streams % o->world_size)
        return false;
    return o->tail != FBY__TAIL_WRAP || n >= streams;
}

static uint64_t n_repeats; /* samples of pieces that say so */

/* A rank's batch b through pieces and resolve; checks what pieces promise. Records which batches use each phase. */
static uint64_t read_batch(const fby__epoch *epoch, uint64_t b, sample_id *out, uint64_t *first_use, uint64_t *last_use)
{
    uint32_t cap = fby__epoch_max_pieces(epoch);
    fby__plan_piece *pieces = calloc(cap + 1, sizeof *pieces);
    pieces[cap].n = 12345;
    uint32_t n = fby__epoch_pieces(epoch, b, pieces, cap);
    assert_true(n <= cap);
    assert_int_equal(pieces[cap].n, 12345);
    assert_int_equal(fby__epoch_pieces(epoch, b, NULL, 0), n);
    uint64_t slot = 0;
    for (uint32_t i = 0; i < n; i++) {
        const fby__plan_piece *piece = &pieces[i];
        assert_int_equal(piece->slot, slot);
        assert_true(piece->n > 0 && piece->phase < epoch->n_phases);
        assert_true(!piece->repeats || b + 1 == epoch->n_batches);
        n_repeats += piece->repeats ? piece->n : 0;
        const fby__plan_phase *phase = &epoch->phases[piece->phase];
        assert_true(piece->index >= phase->perm_offset);
        assert_true(piece->index + piece->n <= phase->perm_offset + phase->end - phase->begin);
        uint32_t *item = malloc(piece->n * sizeof *item);
        uint64_t *sample = malloc(piece->n * sizeof *sample);
        fby__epoch_resolve(epoch, piece->phase, piece->index, piece->n, item, sample);
        for (uint32_t j = 0; j < piece->n; j++) {
            assert_true(item[j] < phase->n_items);
            assert_true(phase->items[item[j]].lo <= sample[j] && sample[j] < phase->items[item[j]].hi);
            out[slot++] = (sample_id){phase->items[item[j]].block, sample[j]};
        }
        free(item);
        free(sample);
        if (first_use[piece->phase] == UINT64_MAX)
            first_use[piece->phase] = b;
        last_use[piece->phase] = b;
    }
    free(pieces);
    assert_int_equal(slot, fby__epoch_batch_size(epoch, b));
    return slot;
}

static void check_phases(const fby__epoch *epoch, const fby__plan *plan, const uint64_t *counts, bool no_warmup, const uint64_t *first_use,
                         const uint64_t *last_use)
{
    const fby__shuffle shuffle = fby__plan_shuffle(plan);
    const uint64_t limit = fby__plan_phase_limit(plan);
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        const fby__plan_phase *phase = &epoch->phases[p];
        assert_int_equal(phase->first_batch, first_use[p]);
        assert_int_equal(phase->last_batch, last_use[p]);
        assert_true(phase->begin < phase->end && phase->n_items > 0);
        uint64_t samples = 0;
        for (uint32_t i = 0; i < phase->n_items; i++) {
            const fby__plan_item *item = &phase->items[i];
            assert_true(item->lo < item->hi && item->hi <= counts[item->block]);
            assert_int_equal(item->start, samples);
            samples += item->hi - item->lo;
        }
        assert_int_equal(phase->n_samples, samples);
        if (shuffle == FBY__SHUFFLE_FULL) {
            assert_ptr_equal(phase->items, epoch->phases[0].items); /* one array for all: O(blocks) */
        } else {
            assert_int_equal(phase->end - phase->begin, samples);
            assert_int_equal(phase->perm_offset, 0);
        }
        if (phase->n_items > 1)
            assert_true(samples <= limit);
        if (shuffle == FBY__SHUFFLE_BLOCK || shuffle == FBY__SHUFFLE_NONE)
            assert_int_equal(phase->n_items, 1);
        if (p > 0) {
            const fby__plan_phase *before = phase - 1;
            assert_true(before->first_batch < phase->first_batch ||
                        (before->first_batch == phase->first_batch &&
                         (before->stream < phase->stream || (before->stream == phase->stream && before->begin < phase->begin))));
        }
    }
    if (shuffle != FBY__SHUFFLE_SUPERBATCH)
        return;
    for (uint32_t p = 0; p < epoch->n_phases; p++) { /* the first phases of a stream are smaller */
        uint64_t ordinal = 0;
        for (uint32_t j = 0; j < epoch->n_phases; j++)
            ordinal += epoch->phases[j].stream == epoch->phases[p].stream && epoch->phases[j].begin < epoch->phases[p].begin;
        if (epoch->phases[p].n_items > 1 && ordinal < 3 && !no_warmup)
            assert_true(epoch->phases[p].n_samples <= limit >> (3 - ordinal));
    }
}

static int n_with_places; /* epochs */

/* From samples to batches: the twin has at that place what the phase says lies there, and nothing is left out. */
static uint64_t check_places(const fby__epoch *epoch, const uint64_t *before, const order *twin)
{
    uint64_t found = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        for (uint32_t i = 0; i < epoch->phases[p].n_items; i++) {
            const fby__plan_item *item = &epoch->phases[p].items[i];
            const uint64_t all = item->hi - item->lo, first = all / 3;
            fby__destination *place = malloc(all * sizeof *place);
            fby__epoch_destinations(epoch, p, i, 0, (uint32_t)first, place); /* in two parts */
            fby__epoch_destinations(epoch, p, i, first, (uint32_t)(all - first), place + first);
            for (uint64_t k = 0; k < all; k++) {
                if (place[k].batch == FBY__NOWHERE)
                    continue;
                const uint64_t b = epoch->phases[p].first_batch + place[k].batch;
                assert_true(b <= epoch->phases[p].last_batch);
                assert_true(place[k].slot < fby__epoch_batch_size(epoch, b));
                const sample_id *there = twin->ids + (b ? twin->ends[b - 1] : 0) + before[b] + place[k].slot;
                assert_int_equal(there->block, item->block);
                assert_int_equal(there->sample, item->lo + k);
                found++;
            }
            free(place);
        }
    return found;
}

/* All ranks of one configuration against the twin. */
static void check_order(const uint64_t *counts, uint32_t n_blocks, fby__plan_opts o, uint64_t number)
{
    order twin = twin_order(counts, n_blocks, &o, number);
    uint32_t *seen[MAX_BLOCKS];
    for (uint32_t b = 0; b < n_blocks; b++)
        seen[b] = calloc(counts[b] + 1, sizeof *seen[b]);
    uint64_t wrapped = 0, dropped = 0, *before = calloc(twin.n_batches + 1, sizeof *before); /* of each batch, what lower ranks have */
    const bool uneven = o.tail == FBY__TAIL_KEEP && o.world_size > 1;
    n_repeats = 0;
    for (o.rank = 0; o.rank < o.world_size; o.rank++) {
        fby__plan *plan;
        fby__epoch *epoch = make_epoch(counts, n_blocks, &o, number, &plan);
        assert_true(epoch->n_batches == twin.n_batches || (uneven && epoch->n_batches + 1 == twin.n_batches));
        fby__epoch_counts c;
        assert_int_equal(fby__plan_count(plan, number, &c, NULL), FBY_OK);
        assert_true(c.n_batches == epoch->n_batches && c.n_samples == epoch->n_samples && c.n_wrapped == epoch->n_wrapped &&
                    c.n_dropped == epoch->n_dropped && c.n_available == epoch->n_available);
        assert_int_equal(epoch->epoch, number);
        wrapped = epoch->n_wrapped;
        dropped = epoch->n_dropped;
        sample_id *batch = malloc((o.global_batch + 1) * sizeof *batch);
        uint64_t *first_use = malloc((epoch->n_phases + 1) * sizeof *first_use), *last_use = calloc(epoch->n_phases + 1, 8);
        memset(first_use, 0xff, (epoch->n_phases + 1) * sizeof *first_use);
        uint64_t k = 0;
        for (uint64_t b = 0; b < epoch->n_batches; b++) {
            uint64_t size = read_batch(epoch, b, batch, first_use, last_use);
            uint64_t global = twin.ends[b] - (b ? twin.ends[b - 1] : 0);
            assert_true(uneven || size * o.world_size == global);
            assert_true(size > 0 && before[b] + size <= global);
            const sample_id *expected = twin.ids + twin.ends[b] - global + before[b];
            for (uint64_t i = 0; i < size; i++, k++) {
                assert_int_equal(batch[i].block, expected[i].block);
                assert_int_equal(batch[i].sample, expected[i].sample);
                seen[batch[i].block][batch[i].sample]++;
                sample_id single;
                fby__epoch_sample(epoch, k, &single.block, &single.sample);
                assert_int_equal(single.block, batch[i].block);
                assert_int_equal(single.sample, batch[i].sample);
            }
        }
        assert_int_equal(k, epoch->n_samples);
        check_phases(epoch, plan, counts, o.no_warmup, first_use, last_use);
        if (fby__plan_has_destinations(plan)) {
            const uint64_t untold = epoch->n_wrapped ? fby__epoch_batch_size(epoch, epoch->n_batches - 1) : 0;
            assert_int_equal(check_places(epoch, before, &twin), epoch->n_samples - untold);
            n_with_places++;
        }
        for (uint64_t b = 0; b < epoch->n_batches; b++)
            before[b] += fby__epoch_batch_size(epoch, b);
        free(batch);
        free(first_use);
        free(last_use);
        free_epoch(epoch, plan);
    }
    for (uint64_t b = 0; b < twin.n_batches; b++)
        assert_int_equal(before[b], twin.ends[b] - (b ? twin.ends[b - 1] : 0));
    free(before);
    assert_int_equal(n_repeats, wrapped);
    tally t = {0};
    for (uint32_t b = 0; b < n_blocks; b++) {
        tally_add(&t, seen[b], counts[b]);
        free(seen[b]);
    }
    assert_int_equal(t.repeats, wrapped);
    assert_int_equal(t.missing, dropped);
    assert_true(wrapped < o.global_batch && dropped < o.global_batch);
    assert_true(o.tail == FBY__TAIL_WRAP || wrapped == 0);
    assert_true(o.tail == FBY__TAIL_DROP || dropped == 0);
    order_fini(&twin);
}

static void every_order_equals_the_naive_twin_and_delivers_every_sample_once(void **state)
{
    (void)state;
    fby__random random = {.key = ANY_SEED};
    print_message("seed %u\n", ANY_SEED);
    int checked = 0, refused = 0;
    for (int round = 0; round < 6000; round++) {
        uint64_t counts[MAX_BLOCKS], n = 0;
        uint32_t n_blocks = random_counts(&random, counts);
        fby__plan_opts o = random_opts(&random);
        for (uint32_t b = 0; b < n_blocks; b++)
            n += counts[b];
        if (opts_are_fine(&o, n)) {
            check_order(counts, n_blocks, o, below(&random, 5));
            checked++;
        } else {
            fby_error err;
            fby__plan *plan = NULL;
            assert_int_equal(fby__plan_create(counts, n_blocks, &o, &plan, &err), FBY_E_ARG);
            assert_null(plan);
            assert_true(err.message[0] != 0);
            refused++;
        }
    }
    print_message("%d configurations checked, %d refused; %d epochs also from samples to batches\n", checked, refused, n_with_places);
    assert_true(checked > 2000 && refused > 300 && n_with_places > 1000);
}

static const uint64_t TEN[] = {31, 0, 7, 100, 1, 64, 12, 9, 40, 3};

static fby__plan *of_ten(const void *user, uint32_t rank, uint32_t world)
{
    fby__plan_opts o = *(const fby__plan_opts *)user;
    fby__plan *plan = NULL;
    o.rank = rank;
    o.world_size = world;
    assert_int_equal(fby__plan_create(TEN, 10, &o, &plan, NULL), FBY_OK);
    return plan;
}

/* The twin knows no ranks, so equality with it says this too; here it is said by itself. */
static void the_global_sequence_is_the_same_for_every_world_size_that_divides_the_streams(void **state)
{
    (void)state;
    for (int shuffle = 0; shuffle <= FBY__SHUFFLE_NONE; shuffle++)
        for (int tail = FBY__TAIL_DROP; tail <= FBY__TAIL_WRAP; tail++) {
            const fby__plan_opts o = {.shuffle = (fby__shuffle)shuffle,
                                      .tail = (fby__tail)tail,
                                      .seed = 5,
                                      .global_batch = 16,
                                      .superbatch_samples = 120,
                                      .streams = 8};
            check_one_sequence(of_ten, &o, 16, 2, 400);
        }
}

static void another_seed_or_epoch_gives_another_order_and_the_same_ones_the_same(void **state)
{
    (void)state;
    const uint64_t counts[] = {50, 50, 50, 50, 50, 50, 50, 50};
    for (int shuffle = 0; shuffle < FBY__SHUFFLE_NONE; shuffle++) {
        fby__plan_opts o = {
            .shuffle = (fby__shuffle)shuffle, .seed = 1, .global_batch = 8, .superbatch_samples = 160, .streams = 2, .world_size = 1};
        const struct {
            uint64_t seed, epoch;
            bool same;
        } cases[] = {{1, 1, true}, {2, 1, false}, {1, 2, false}, {0, 1, false}, {1, 0, false}};
        order reference = twin_order(counts, 8, &o, 1);
        for (int c = 0; c < 5; c++) {
            o.seed = cases[c].seed;
            fby__plan *plan;
            fby__epoch *epoch = make_epoch(counts, 8, &o, cases[c].epoch, &plan);
            uint64_t equal = 0;
            for (uint64_t k = 0; k < 400; k++) {
                sample_id id;
                fby__epoch_sample(epoch, k, &id.block, &id.sample);
                equal += id.block == reference.ids[k].block && id.sample == reference.ids[k].sample;
            }
            if (cases[c].same)
                assert_int_equal(equal, 400);
            else
                assert_true(equal < 300); /* BLOCK: a block may keep its place */
            free_epoch(epoch, plan);
        }
        order_fini(&reference);
    }
}

static void orders_never_change_because_saved_states_depend_on_them(void **state)
{
    (void)state;
    const uint64_t counts[] = {5, 0, 8, 3, 6, 10};
    static const sample_id golden[4][16] = {
        {{0, 1}, {0, 2}, {4, 5}, {4, 2}, {0, 3}, {0, 4}, {4, 3}, {4, 4}, {0, 0}, {5, 5}, {4, 1}, {2, 2}, {5, 0}, {5, 3}, {2, 1}, {2, 6}},
        {{5, 0}, {2, 6}, {0, 0}, {3, 2}, {5, 6}, {2, 1}, {2, 0}, {5, 2}, {0, 3}, {2, 3}, {4, 1}, {4, 4}, {5, 1}, {5, 8}, {0, 2}, {0, 1}},
        {{0, 0}, {0, 1}, {4, 1}, {4, 2}, {0, 2}, {0, 3}, {4, 3}, {4, 4}, {0, 4}, {5, 0}, {4, 5}, {2, 0}, {5, 1}, {5, 2}, {2, 1}, {2, 2}},
        {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {2, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 4}, {2, 5}, {2, 6}, {2, 7}, {3, 0}, {3, 1}, {3, 2}},
    };
    for (int shuffle = 0; shuffle <= FBY__SHUFFLE_NONE; shuffle++) {
        fby__plan_opts o = {
            .shuffle = (fby__shuffle)shuffle, .seed = 7, .global_batch = 4, .superbatch_samples = 20, .streams = 2, .world_size = 1};
        fby__plan *plan;
        fby__epoch *epoch = make_epoch(counts, 6, &o, 3, &plan);
        for (uint64_t k = 0; k < 16; k++) {
            sample_id id;
            fby__epoch_sample(epoch, k, &id.block, &id.sample);
            assert_int_equal(id.block, golden[shuffle][k].block);
            assert_int_equal(id.sample, golden[shuffle][k].sample);
        }
        free_epoch(epoch, plan);
    }
}

/* Of an epoch with many superbatches in each stream, all of it as one number (FNV-1a). */
static void longer_orders_never_change_either(void **state)
{
    (void)state;
    uint64_t counts[60];
    for (uint64_t b = 0; b < 60; b++)
        counts[b] = 7 + b % 5;
    fby__plan_opts o = {
        .shuffle = FBY__SHUFFLE_SUPERBATCH, .seed = 7, .global_batch = 8, .superbatch_samples = 96, .streams = 4, .world_size = 1};
    fby__plan *plan;
    fby__epoch *epoch = make_epoch(counts, 60, &o, 3, &plan);
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint64_t k = 0; k < epoch->n_samples; k++) {
        sample_id id;
        fby__epoch_sample(epoch, k, &id.block, &id.sample);
        hash = (hash ^ id.block) * 0x100000001b3u;
        hash = (hash ^ id.sample) * 0x100000001b3u;
    }
    assert_true(epoch->n_phases > 5 * 4);
    assert_int_equal(hash, 0x2a05df1103e073f5u);
    free_epoch(epoch, plan);
}

static void without_shuffle_a_batch_is_the_next_samples_of_the_files(void **state)
{
    (void)state;
    const uint64_t counts[] = {3, 0, 4, 2};
    fby__plan_opts o = {.shuffle = FBY__SHUFFLE_NONE,
                        .tail = FBY__TAIL_WRAP,
                        .global_batch = 4,
                        .superbatch_samples = 1,
                        .streams = 8,
                        .rank = 1,
                        .world_size = 2};
    const sample_id expected[] = {{0, 2}, {2, 0}, {2, 3}, {3, 0}, {3, 1}, {3, 0}}; /* 9 samples; the last block wraps */
    fby__plan *plan;
    fby__epoch *epoch = make_epoch(counts, 4, &o, 0, &plan);
    assert_int_equal(fby__plan_streams(plan), 1);
    assert_int_equal(epoch->n_samples, 6);
    assert_int_equal(epoch->n_wrapped, 3);
    for (uint64_t k = 0; k < 6; k++) {
        sample_id id;
        fby__epoch_sample(epoch, k, &id.block, &id.sample);
        assert_int_equal(id.block, expected[k].block);
        assert_int_equal(id.sample, expected[k].sample);
    }
    free_epoch(epoch, plan);
}

static void refuse(const uint64_t *counts, uint32_t n, fby__plan_opts o, const char *text)
{
    fby_error err;
    fby__plan *plan = NULL;
    assert_int_equal(fby__plan_create(counts, n, &o, &plan, &err), FBY_E_ARG);
    assert_null(plan);
    if (!strstr(err.message, text))
        fail_msg("'%s' does not say '%s'", err.message, text);
    assert_int_equal(fby__plan_create(counts, n, &o, &plan, NULL), FBY_E_ARG);
}

static void options_that_do_not_fit_are_refused_with_the_reason(void **state)
{
    (void)state;
    const uint64_t counts[] = {10, 20}, none[] = {0, 0}, huge[] = {(uint64_t)1 << 62, 1}, overflow[] = {UINT64_MAX, 2};
    const fby__plan_opts good = {.global_batch = 8, .superbatch_samples = 10, .streams = 4, .world_size = 1};
    fby__plan_opts o;
    refuse(none, 2, good, "no samples");
    refuse(NULL, 0, good, "no samples");
    refuse(huge, 2, good, "2^62");
    refuse(overflow, 2, good, "2^62");
    o = good, o.global_batch = 0;
    refuse(counts, 2, o, "0 samples");
    o = good, o.global_batch = (uint64_t)1 << 32;
    refuse(counts, 2, o, "2^31");
    o = good, o.superbatch_samples = 0;
    refuse(counts, 2, o, "superbatch");
    o = good, o.streams = 0;
    refuse(counts, 2, o, "0 streams");
    o = good, o.world_size = 0;
    refuse(counts, 2, o, "rank 0 of 0");
    o = good, o.rank = 1;
    refuse(counts, 2, o, "rank 1 of 1");
    o = good, o.world_size = 3, o.tail = FBY__TAIL_WRAP;
    refuse(counts, 2, o, "3 ranks cannot share a batch of 8");
    o = good, o.world_size = 8, o.tail = FBY__TAIL_WRAP;
    refuse(counts, 2, o, "8 ranks cannot own equal parts of 4 streams");
    o = good, o.global_batch = 31, o.tail = FBY__TAIL_DROP;
    refuse(counts, 2, o, "30 samples do not fill one batch of 31");
    o = good, o.global_batch = o.streams = 32, o.tail = FBY__TAIL_WRAP;
    refuse(counts, 2, o, "at most 30 streams");
    o = good, o.shuffle = (fby__shuffle)9;
    refuse(counts, 2, o, "unknown shuffle");
}

static void the_streams_used_are_the_greatest_common_divisor_with_the_batch(void **state)
{
    (void)state;
    const uint64_t counts[] = {100};
    static const uint32_t table[][3] = {{8, 1024, 8}, {8, 20, 4}, {8, 7, 1}, {6, 9, 3}, {16, 8, 8}};
    for (int i = 0; i < 5; i++) {
        fby__plan_opts o = {.global_batch = table[i][1], .superbatch_samples = 10, .streams = table[i][0], .world_size = 1};
        fby__plan *plan;
        assert_int_equal(fby__plan_create(counts, 1, &o, &plan, NULL), FBY_OK);
        assert_int_equal(fby__plan_streams(plan), table[i][2]);
        fby__plan_destroy(plan);
    }
}

static void the_largest_epochs_work_without_a_table_of_samples(void **state)
{
    (void)state;
    const uint64_t one[] = {(uint64_t)1 << 62}, two[] = {((uint64_t)1 << 61) + 5, 0, ((uint64_t)1 << 61) - 5};
    for (int shuffle = 0; shuffle <= FBY__SHUFFLE_NONE; shuffle++) {
        for (int blocks = 1; blocks <= 3; blocks += 2) {
            const uint64_t *counts = blocks == 1 ? one : two;
            fby__plan_opts o = {.shuffle = (fby__shuffle)shuffle,
                                .tail = FBY__TAIL_WRAP,
                                .seed = 3,
                                .global_batch = 24,
                                .superbatch_samples = 1 << 20,
                                .streams = 8,
                                .rank = 3,
                                .world_size = 4};
            fby__plan *plan;
            fby__epoch *epoch = make_epoch(counts, (uint32_t)blocks, &o, 0, &plan);
            for (uint64_t k = 0; k < 2; k++) {
                uint32_t block;
                uint64_t sample;
                fby__epoch_sample(epoch, k ? epoch->n_samples - 1 : 0, &block, &sample);
                assert_true(block < (uint32_t)blocks && sample < counts[block]);
            }
            free_epoch(epoch, plan);
        }
    }
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const uint64_t counts[] = {10, 0, 30, 5};
    for (int shuffle = 0; shuffle <= FBY__SHUFFLE_NONE; shuffle++) {
        fby__plan_opts o = {.shuffle = (fby__shuffle)shuffle, .global_batch = 8, .superbatch_samples = 16, .streams = 4, .world_size = 1};
        assert_true(plan_allocations_that_fail(counts, 4, &o, 0) >= 11);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_equals_the_naive_twin_and_delivers_every_sample_once),
        cmocka_unit_test(the_global_sequence_is_the_same_for_every_world_size_that_divides_the_streams),
        cmocka_unit_test(another_seed_or_epoch_gives_another_order_and_the_same_ones_the_same),
        cmocka_unit_test(orders_never_change_because_saved_states_depend_on_them),
        cmocka_unit_test(longer_orders_never_change_either),
        cmocka_unit_test(without_shuffle_a_batch_is_the_next_samples_of_the_files),
        cmocka_unit_test(options_that_do_not_fit_are_refused_with_the_reason),
        cmocka_unit_test(the_streams_used_are_the_greatest_common_divisor_with_the_batch),
        cmocka_unit_test(the_largest_epochs_work_without_a_table_of_samples),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
