/*
 * Batches by rows and length buckets, for random blocks, lengths and options: every sample once over all ranks, limits kept, batches
 * as full as can be, equally many on every rank, phases used when they say; pools sort by length and lose nothing.
 */
#include "plan/plan_orders.h"
#include "support/plan_sweep.h"

#include "base/cancel.h"
#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SLOWER = 20 };
#else
enum { SLOWER = 1 };
#endif
enum { MAX_BLOCKS = 30, MAX_COUNT = 60, ANY_SEED = 53 };

/* A length for every sample, by hashing where it is: the mean is about `user[0]`, a few are long. */
static void lengths(const void *user, const uint32_t *block, const uint64_t *sample, uint32_t n, uint32_t *out)
{
    const uint64_t mean = *(const uint64_t *)user;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t h = fby__random_u64(mean, block[i], sample[i]);
        out[i] = (uint32_t)(1 + h % (2 * mean) + (h >> 40) % 50 / 49 * 10 * mean);
    }
}

static uint32_t length_of(uint64_t mean, uint32_t block, uint64_t sample)
{
    uint32_t length;
    lengths(&mean, &block, &sample, 1, &length);
    return length;
}

typedef struct batch {
    uint32_t block[4096];
    uint64_t sample[4096];
    uint64_t n, rows, longest;
} batch;

/* A batch through pieces, as the loader takes it; notes which batches use each phase. */
static void read_batch(const fby__epoch *epoch, uint64_t b, fby__pool_scratch *pool, uint64_t mean, batch *out, uint64_t *first_use,
                       uint64_t *last_use)
{
    uint32_t cap = fby__epoch_max_pieces(epoch), item[4096];
    fby__plan_piece *pieces = calloc(cap + 1, sizeof *pieces);
    const uint32_t n = fby__epoch_pieces(epoch, b, pieces, cap);
    assert_true(n <= cap);
    out->n = out->rows = out->longest = 0;
    for (uint32_t p = 0; p < n; p++) {
        const fby__plan_phase *phase = &epoch->phases[pieces[p].phase];
        assert_int_equal(pieces[p].slot, out->n);
        assert_true(out->n + pieces[p].n <= 4096);
        assert_true(fby__epoch_resolve_in(epoch, pieces[p].phase, pieces[p].index, pieces[p].n, pool, item, out->sample + out->n));
        for (uint32_t i = 0; i < pieces[p].n; i++) {
            const fby__plan_item *it = &phase->items[item[i]];
            const uint64_t k = out->n + i;
            assert_true(it->lo <= out->sample[k] && out->sample[k] < it->hi);
            out->block[k] = it->block;
            const uint32_t length = length_of(mean, it->block, out->sample[k]);
            out->rows += length;
            out->longest = length > out->longest ? length : out->longest;
        }
        out->n += pieces[p].n;
        if (first_use[pieces[p].phase] == UINT64_MAX)
            first_use[pieces[p].phase] = b;
        last_use[pieces[p].phase] = b;
    }
    free(pieces);
    assert_int_equal(out->n, fby__epoch_batch_size(epoch, b));
}

typedef struct totals {
    uint32_t seen[MAX_BLOCKS][MAX_COUNT];
    uint64_t n_batches, wrapped, dropped, padded, rows;
} totals;

static void check_rank(const fby__plan *plan, const fby__plan_opts *o, uint64_t number, uint64_t mean, totals *t)
{
    static batch now, next;
    fby__epoch *epoch = NULL;
    fby__pool_scratch *pool = NULL;
    fby_error err;
    const uint64_t limit = o->global_batch / o->world_size;
    if (fby__epoch_create(plan, number, &epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fby__plan_has_pools(plan), o->bucket_samples > 0);
    if (o->bucket_samples)
        assert_int_equal(fby__pool_scratch_create(plan, &pool, NULL), FBY_OK);
    fby__epoch_counts c;
    assert_int_equal(fby__plan_count(plan, number, &c, NULL), FBY_OK);
    assert_true(c.n_batches == epoch->n_batches && c.n_samples == epoch->n_samples && c.n_wrapped == epoch->n_wrapped &&
                c.n_dropped == epoch->n_dropped);
    uint64_t *first_use = malloc((epoch->n_phases + 1) * 8), *last_use = calloc(epoch->n_phases + 1, 8), total = 0, last_row = 0;
    memset(first_use, 0xff, (epoch->n_phases + 1) * 8);
    for (uint64_t b = 0; b < epoch->n_batches; b++) {
        read_batch(epoch, b, pool, mean, &now, first_use, last_use);
        assert_true(now.n > 0 && now.n <= limit);
        if (o->batch_elements)
            assert_true(now.n == 1 || now.rows <= o->batch_elements);
        else
            assert_true(now.n == limit || b + 1 == epoch->n_batches);
        if (o->batch_elements && !o->bucket_samples && b + 1 < epoch->n_batches &&
            total + now.n < epoch->stream_length[0]) { /* it is full */
            uint64_t *unused = calloc(epoch->n_phases + 1, 8);
            read_batch(epoch, b + 1, pool, mean, &next, unused, unused);
            assert_true(now.n == limit || now.rows + length_of(mean, next.block[0], next.sample[0]) > o->batch_elements);
            free(unused);
        }
        for (uint64_t i = 0; i < now.n; i++) {
            t->seen[now.block[i]][now.sample[i]]++;
            if (o->shuffle == FBY__SHUFFLE_NONE && total + i < epoch->stream_length[0]) { /* file order */
                const uint64_t row = ((uint64_t)now.block[i] << 32) + now.sample[i] + 1;
                assert_true(row > last_row);
                last_row = row;
            }
            if (!o->bucket_samples) {
                uint32_t block;
                uint64_t sample;
                fby__epoch_sample(epoch, total + i, &block, &sample);
                assert_true(block == now.block[i] && sample == now.sample[i]);
            }
        }
        total += now.n;
        t->padded += now.n * now.longest;
        t->rows += now.rows;
    }
    assert_int_equal(total, epoch->n_samples);
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        assert_int_equal(epoch->phases[p].first_batch, first_use[p]);
        assert_int_equal(epoch->phases[p].last_batch, last_use[p]);
    }
    if (o->rank == 0)
        t->n_batches = epoch->n_batches;
    assert_true(t->n_batches == epoch->n_batches || o->tail == FBY__TAIL_KEEP);
    t->wrapped = epoch->n_wrapped; /* over all ranks: the same on each */
    t->dropped = epoch->n_dropped;
    free(first_use);
    free(last_use);
    fby__pool_scratch_destroy(pool);
    fby__epoch_destroy(epoch);
}

static void every_sample_comes_once_in_batches_within_the_limits_on_any_number_of_ranks(void **state)
{
    (void)state;
    fby__random random = {.key = ANY_SEED};
    static totals t;
    int checked = 0, refused = 0;
    for (int round = 0; round < 2500; round++) {
        uint64_t counts[MAX_BLOCKS], n = 0, mean = 1 + below(&random, 20);
        uint32_t files[MAX_BLOCKS], n_blocks = 1 + (uint32_t)below(&random, MAX_BLOCKS);
        for (uint32_t b = 0; b < n_blocks; b++) {
            files[b] = b / 2;
            n += counts[b] = below(&random, 5) ? below(&random, MAX_COUNT) : 0;
        }
        fby__plan_opts o = {.shuffle = (fby__shuffle)below(&random, 4),
                            .tail = (fby__tail)below(&random, 3),
                            .seed = fby__random_next(&random),
                            .superbatch_samples = 1 + below(&random, 300),
                            .streams = 8,
                            .world_size = 1 + (uint32_t)below(&random, 4),
                            .files = files,
                            .lengths = lengths,
                            .lengths_user = &mean};
        const uint64_t kind = below(&random, 3);
        o.global_batch = o.world_size * (1 + below(&random, 30));
        if (kind != 1)
            o.batch_elements = 1 + below(&random, 30 * mean);
        if (kind != 0) {
            o.shuffle = o.shuffle == FBY__SHUFFLE_FULL ? FBY__SHUFFLE_FULL : FBY__SHUFFLE_SUPERBATCH;
            o.bucket_samples = 1 + below(&random, 200);
        }
        if (!below(&random, 3))
            o.n_parts = 1 + (uint32_t)below(&random, 3);
        const uint64_t number = below(&random, 4);
        memset(&t, 0, sizeof t);
        bool fine = n > 0;
        for (o.rank = 0; fine && o.rank < o.world_size; o.rank++) {
            fby__plan *plan = NULL;
            fby__epoch *epoch = NULL;
            fine = fby__plan_create(counts, n_blocks, &o, &plan, NULL) == FBY_OK && fby__epoch_create(plan, number, &epoch, NULL) == FBY_OK;
            fby__epoch_destroy(epoch); /* a tail that drops everything is found when the epoch is cut */
            if (fine)
                check_rank(plan, &o, number, mean, &t);
            fby__plan_destroy(plan);
        }
        if (!fine) {
            refused++;
            continue;
        }
        tally came = {0};
        for (uint32_t b = 0; b < n_blocks; b++)
            tally_add(&came, t.seen[b], counts[b]);
        if (!o.n_parts) {
            assert_int_equal(came.missing, t.dropped);
            assert_int_equal(came.repeats, t.wrapped);
        }
        checked++;
    }
    print_message("%d configurations checked, %d refused\n", checked, refused);
    assert_true(checked > 1200);
}

static void buckets_waste_little_and_change_neither_samples_nor_superbatches(void **state)
{
    (void)state;
    uint64_t counts[40], mean = 50;
    for (int b = 0; b < 40; b++)
        counts[b] = 500;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        double padding[3];
        for (int kind = 0; kind < 3; kind++) {
            fby__plan_opts o = {.seed = 1,
                                .global_batch = 32,
                                .superbatch_samples = 4000,
                                .streams = 8,
                                .world_size = 1,
                                .lengths = lengths,
                                .lengths_user = &mean,
                                .bucket_samples = kind == 0   ? 0
                                                  : kind == 1 ? 256
                                                              : 2048,
                                .batch_elements = by_rows ? 1500 : 0};
            fby__plan *plan;
            fby__epoch *epoch;
            fby__mixing m;
            assert_int_equal(fby__plan_create(counts, 40, &o, &plan, NULL), FBY_OK);
            assert_int_equal(fby__epoch_create(plan, 0, &epoch, NULL), FBY_OK);
            assert_int_equal(fby__plan_mixing(epoch, 10000, NULL, 0, &m, NULL, NULL), FBY_OK);
            padding[kind] = m.padding;
            fby__epoch_destroy(epoch);
            fby__plan_destroy(plan);
        }
        print_message("padding: %.3f without, %.3f and %.3f with pools of 256 and 2048\n", padding[0], padding[1], padding[2]);
        assert_true(padding[0] > 0.7 && padding[1] < 0.6 && padding[2] < 0.15);
    }
}

/* What saved states depend on. */
static void the_order_of_buckets_never_changes(void **state)
{
    (void)state;
    const uint64_t counts[] = {12, 9, 20, 7};
    uint64_t mean = 5;
    static const uint32_t golden[2][12] = {{301, 300, 302, 305, 306, 303, 304, 214, 215, 206, 202, 216},
                                           {306, 303, 304, 301, 300, 302, 305, 216, 201, 215, 206, 202}};
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        fby__plan_opts o = {.seed = 1,
                            .global_batch = 4,
                            .superbatch_samples = 24,
                            .streams = 8,
                            .world_size = 1,
                            .lengths = lengths,
                            .lengths_user = &mean,
                            .bucket_samples = 16,
                            .batch_elements = by_rows ? 20 : 0};
        fby__plan *plan;
        fby__epoch *epoch;
        fby__pool_scratch *pool;
        static batch now;
        uint64_t first[64], last[64], k = 0;
        assert_int_equal(fby__plan_create(counts, 4, &o, &plan, NULL), FBY_OK);
        assert_int_equal(fby__epoch_create(plan, 2, &epoch, NULL), FBY_OK);
        assert_int_equal(fby__pool_scratch_create(plan, &pool, NULL), FBY_OK);
        for (uint64_t b = 0; k < 12; b++) {
            read_batch(epoch, b, pool, mean, &now, first, last);
            for (uint64_t i = 0; i < now.n && k < 12; i++, k++)
                assert_int_equal(golden[by_rows][k], now.block[i] * 100 + now.sample[i]);
        }
        fby__pool_scratch_destroy(pool);
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
    }
}

static _Thread_local fby_cancel *set_by_lengths; /* a pool that asks for lengths is cancelled */

static void lengths_that_cancel(const void *user, const uint32_t *block, const uint64_t *sample, uint32_t n, uint32_t *out)
{
    lengths(user, block, sample, n, out);
    if (set_by_lengths)
        fby_cancel_set(set_by_lengths);
}

static void a_pool_whose_sorting_is_cancelled_is_sorted_anew(void **state)
{
    (void)state;
    uint64_t counts[4] = {5000, 5000, 5000, 5000}, mean = 50;
    const fby__plan_opts o = {.seed = 1,
                              .global_batch = 32,
                              .superbatch_samples = 20000,
                              .streams = 1,
                              .world_size = 1,
                              .lengths = lengths_that_cancel,
                              .lengths_user = &mean,
                              .bucket_samples = 8192};
    fby__plan *plan;
    fby__epoch *epoch;
    fby__pool_scratch *pool;
    static batch before, after;
    uint64_t first[64], last[64];
    assert_int_equal(fby__plan_create(counts, 4, &o, &plan, NULL), FBY_OK);
    assert_int_equal(fby__epoch_create(plan, 0, &epoch, NULL), FBY_OK);
    assert_int_equal(fby__pool_scratch_create(plan, &pool, NULL), FBY_OK);
    read_batch(epoch, 3, pool, mean, &before, first, last);
    fby_cancel *token = fby_cancel_create(), *outer = fby_cancel_use(token);
    fby__plan_piece piece;
    uint32_t item[32];
    uint64_t sample[32];
    assert_int_equal(fby__epoch_pieces(epoch, 300, &piece, 1), 1); /* of the next pool, which overwrites the one that is there */
    set_by_lengths = token;
    assert_false(fby__epoch_resolve_in(epoch, piece.phase, piece.index, piece.n, pool, item, sample));
    set_by_lengths = NULL;
    (void)fby_cancel_use(outer);
    fby_cancel_destroy(token);
    read_batch(epoch, 3, pool, mean, &after, first, last);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.block, after.block, before.n * sizeof *before.block);
    assert_memory_equal(before.sample, after.sample, before.n * sizeof *before.sample);
    fby__pool_scratch_destroy(pool);
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
}

static const uint32_t *million; /* a length for every sample of one file's block of 1000 */

static void from_array(const void *user, const uint32_t *block, const uint64_t *sample, uint32_t n, uint32_t *out)
{
    (void)user;
    for (uint32_t i = 0; i < n; i++)
        out[i] = million[block[i] * 1000 + sample[i]];
}

static void the_table_of_a_million_samples_takes_no_time(void **state)
{
    (void)state;
    uint64_t *counts = calloc(1000, sizeof *counts), best = UINT64_MAX;
    uint32_t *all = calloc(1000000, sizeof *all);
    for (int b = 0; b < 1000; b++)
        counts[b] = 1000;
    for (int i = 0; i < 1000000; i++)
        all[i] = 1 + (uint32_t)(fby__random_u64(1, 2, (uint64_t)i) % 120);
    million = all;
    for (int repeat = 0; repeat < 3; repeat++) {
        fby__plan_opts o = {.seed = 1,
                            .global_batch = 4096,
                            .superbatch_samples = 100000,
                            .streams = 8,
                            .world_size = 1,
                            .lengths = from_array,
                            .batch_elements = 20000};
        fby__plan *plan;
        fby__epoch *epoch;
        assert_int_equal(fby__plan_create(counts, 1000, &o, &plan, NULL), FBY_OK);
        const uint64_t began = fby__now_ns();
        assert_int_equal(fby__epoch_create(plan, 0, &epoch, NULL), FBY_OK);
        const uint64_t took = fby__now_ns() - began;
        best = took < best ? took : best;
        assert_true(epoch->n_batches > 2900 && epoch->n_batches < 3200);
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
    }
    print_message("%.1f ms\n", (double)best / 1e6);
    assert_true(best < 2000000000); /* sanitizers; 25 ms without */
    free(counts);
    free(all);
}

static void refuse(fby__plan_opts o, const char *text)
{
    const uint64_t counts[] = {40, 30};
    const uint32_t files[] = {0, 1};
    fby_error err;
    fby__plan *plan = NULL;
    o.files = files;
    assert_int_equal(fby__plan_create(counts, 2, &o, &plan, &err), FBY_E_ARG);
    if (!strstr(err.message, text))
        fail_msg("'%s' does not say '%s'", err.message, text);
}

static void options_that_do_not_fit_are_refused_with_the_reason(void **state)
{
    (void)state;
    uint64_t mean = 4;
    const fby__plan_opts good = {
        .global_batch = 8, .superbatch_samples = 10, .streams = 4, .world_size = 1, .lengths = lengths, .lengths_user = &mean};
    fby__plan_opts o = good;
    o.batch_elements = 10, o.lengths = NULL;
    refuse(o, "rows are known");
    o = good, o.bucket_samples = 10, o.shuffle = FBY__SHUFFLE_NONE;
    refuse(o, "change the order");
    o = good, o.bucket_samples = 10, o.diversity_files = 2;
    refuse(o, "cannot be chosen together");
    o = good, o.batch_elements = 10, o.max_superbatch_batches = 3;
    refuse(o, "cannot be chosen together");
    o = good, o.batch_elements = 100000, o.global_batch = 200, o.world_size = 2, o.tail = FBY__TAIL_DROP;
    const uint64_t counts[] = {40, 30};
    fby__plan *plan;
    fby__epoch *epoch;
    fby_error err;
    assert_int_equal(fby__plan_create(counts, 2, &o, &plan, &err), FBY_OK);
    assert_int_equal(fby__epoch_create(plan, 0, &epoch, &err), FBY_E_ARG); /* known when batches are cut */
    assert_non_null(strstr(err.message, "fewer rows a batch"));
    fby__plan_destroy(plan);
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const uint64_t counts[] = {40, 0, 30, 50};
    uint64_t mean = 3;
    const fby__plan_opts o = {.tail = FBY__TAIL_WRAP,
                              .global_batch = 16,
                              .superbatch_samples = 64,
                              .streams = 2,
                              .world_size = 2,
                              .rank = 1,
                              .lengths = lengths,
                              .lengths_user = &mean,
                              .batch_elements = 20,
                              .bucket_samples = 20};
    assert_true(plan_allocations_that_fail(counts, 4, &o, 0) >= 30);
}

/* ---- cancelled ---- */

static void *cancel_soon(void *token)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    fby_cancel_set(token);
    return NULL;
}

/* Planned in so many ns, of which the first 100 million are not cancelled. */
static uint64_t plan_cancelled(const fby__plan_opts *o, const uint64_t *counts, uint32_t n_blocks, fby_status *status)
{
    fby_cancel *token = fby_cancel_create(), *before = fby_cancel_use(token);
    fby__plan *plan = NULL;
    fby__epoch *epoch = NULL;
    fby_error err = {0};
    pthread_t canceller;
    assert_int_equal(pthread_create(&canceller, NULL, cancel_soon, token), 0);
    const uint64_t began = fby__now_ns();
    *status = fby__plan_create(counts, n_blocks, o, &plan, &err);
    for (uint64_t e = 0; e < 100 && *status == FBY_OK; e++) { /* as often as epochs begin */
        *status = fby__epoch_create(plan, e, &epoch, &err);
        fby__epoch_destroy(epoch);
        epoch = NULL;
    }
    const uint64_t took = fby__now_ns() - began;
    assert_int_equal(pthread_join(canceller, NULL), 0);
    (void)fby_cancel_use(before);
    fby_cancel_destroy(token);
    fby__plan_destroy(plan);
    return took;
}

static void planning_ends_soon_when_it_is_cancelled(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    const uint64_t mean = 20, many = (uint64_t)1 << 32;
    uint64_t *counts = malloc(N * sizeof *counts);
    for (uint32_t b = 0; b < N; b++)
        counts[b] = 1 + b % 3;
    fby__plan_opts by_rows = {.global_batch = 1000,
                              .world_size = 1,
                              .streams = 1,
                              .superbatch_samples = 1 << 20,
                              .batch_elements = 1000,
                              .lengths = lengths,
                              .lengths_user = &mean};
    const fby__plan_opts blocks = {.global_batch = 8, .world_size = 1, .streams = 8, .superbatch_samples = 64};
    fby_status status;
    uint64_t took = plan_cancelled(&by_rows, &many, 1, &status); /* hours */
    assert_int_equal(status, FBY_E_CANCELLED);
    assert_true(took < 3000000000 * SLOWER);
    took = plan_cancelled(&blocks, counts, N, &status);
    assert_int_equal(status, FBY_E_CANCELLED);
    assert_true(took < 3000000000 * SLOWER);
    free(counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once_in_batches_within_the_limits_on_any_number_of_ranks),
        cmocka_unit_test(buckets_waste_little_and_change_neither_samples_nor_superbatches),
        cmocka_unit_test(the_order_of_buckets_never_changes),
        cmocka_unit_test(a_pool_whose_sorting_is_cancelled_is_sorted_anew),
        cmocka_unit_test(the_table_of_a_million_samples_takes_no_time),
        cmocka_unit_test(options_that_do_not_fit_are_refused_with_the_reason),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(planning_ends_soon_when_it_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
