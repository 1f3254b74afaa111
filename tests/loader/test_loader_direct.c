/*
 * Rows that go straight to their batches (loader/direct.c): the batches are those of a loader that keeps panels, bit for bit, for random
 * options, ranks, budgets and places to begin at; errors come at the batch they belong to; epochs may be left at any moment.
 */
#include "support/fill_op.h"
#include "support/loader_delivery.h"
#include "support/loader_sizes.h"
#include "support/memory_dataset.h"
#include "support/test_seed.h"

#include "base/alloc.h"
#include "base/random.h"
#include "loader/internal.h"

#include <forebay/forebay.h>

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCKS = 150 };

static const char *ID[] = {"id"}, *X[] = {"x"}, *ALL[] = {"x", "narrow", "id"}, *GAP[] = {"gap"}, *NARROW[] = {"narrow"};
static const fby_output OUTPUTS[] = {
    {.name = "id", .columns = ID, .n_columns = 1},
    {.name = "all", .columns = ALL, .n_columns = 3, .dtype = FBY_FLOAT64},
    {.name = "x", .columns = X, .n_columns = 1, .keep_axis = true, .dtype = FBY_FLOAT64},
    {.name = "wide", .columns = NARROW, .n_columns = 1, .dtype = FBY_FLOAT32},
    {.name = "gap", .columns = GAP, .n_columns = 1},
    {.name = "filled", .columns = GAP, .n_columns = 1, .ops = FILL(-5), .n_ops = 1},
    {.name = "absent", .from = FBY_FROM_IS_MISSING, .columns = GAP, .n_columns = 1},
    {.name = "row", .from = FBY_FROM_ROW_INDEX},
    {.name = "number", .from = FBY_FROM_SAMPLE_INDEX},
    {.name = "length", .from = FBY_FROM_N_ROWS},
    {.name = "two", .from = FBY_FROM_LIT, .value = 2},
};
enum { N_OUTPUTS = sizeof OUTPUTS / sizeof *OUTPUTS };

static fby_mix mix; /* without sources: loaders are over one data set */

static fby_dataset *dataset_of(uint32_t n, uint64_t least)
{
    uint64_t counts[BLOCKS];
    for (uint64_t i = 0; i < n; i++)
        counts[i] = i == 9 ? 0 : least + 371 * i % 500;
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (memory_dataset_open(counts, n, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static fby_dataset *dataset(void) { return dataset_of(BLOCKS, 600); }

static fby_status try_open(fby_dataset *ds, fby_loader_opts opts, fby_loader **out, fby_error *err)
{
    set_sizes(&opts);
    if (!opts.outputs) {
        opts.outputs = OUTPUTS;
        opts.n_outputs = N_OUTPUTS;
    }
    return mix.n_sources ? fby_loader_open_mix(&mix, &opts, out, err) : fby_loader_open(ds, &opts, out, err);
}

static fby_loader *open_loader(fby_dataset *ds, fby_loader_opts opts)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    if (try_open(ds, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

/* The least that is accepted, and what lies a share of the way to twice that. */
static uint64_t budget(fby_dataset *ds, fby_loader_opts opts, double share)
{
    opts.memory_bytes = (uint64_t)4 << 30;
    fby_loader *l = open_loader(ds, opts);
    fby_report r = {.size = sizeof r};
    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
    fby_loader_close(l);
    return r.budget_minimum_bytes + (uint64_t)(share * (double)r.budget_minimum_bytes);
}

static void assert_same(const fby_batch *a, const fby_batch *b)
{
    assert_int_equal(fby_batch_index(a), fby_batch_index(b));
    assert_int_equal(fby_batch_size(a), fby_batch_size(b));
    assert_int_equal(fby_batch_tensor_count(a), fby_batch_tensor_count(b));
    for (size_t i = 0; i < fby_batch_tensor_count(a); i++) {
        const fby_tensor *s = fby_batch_tensor(a, i), *t = fby_batch_tensor(b, i);
        assert_int_equal(s->bytes, t->bytes);
        if (memcmp(s->data, t->data, s->bytes) != 0)
            fail_msg("batch %llu: output '%s' differs", (unsigned long long)fby_batch_index(a), s->output);
    }
}

/* Entries of blocks on their way to batches take no more than what is set aside for them: nothing is reserved for each. */
static void check_entries(fby_loader *l)
{
    if (!is_direct(l))
        return;
    pthread_mutex_lock(&l->schedule.lock);
    const uint64_t bytes = fby__cache_count(l->schedule.cache) * fby__load_entry_bytes(&l->outputs);
    fby__schedule_unlock(l);
    if (bytes > l->memory.needs.fixed_bytes - fby__loader_fixed_bytes(l))
        fail_msg("%llu bytes of entries, %llu set aside", (unsigned long long)bytes,
                 (unsigned long long)(l->memory.needs.fixed_bytes - fby__loader_fixed_bytes(l)));
}

/* Two loaders side by side, from a batch on, to the end or to a random place: FBY_OK. */
static void compare(fby_loader *direct, fby_loader *kept, uint64_t epoch, uint64_t from, fby__random *random, fby_status *out_end)
{
    *out_end = FBY_OK;
    fby_error err = {0};
    if (fby_loader_begin_at(direct, epoch, from, &err) != FBY_OK || fby_loader_begin_at(kept, epoch, from, &err) != FBY_OK)
        fail_msg("%s", err.message);
    const uint64_t stop = fby__random_below(random, 4) ? UINT64_MAX : fby__random_below(random, 60);
    fby_batch *held[16] = {0};
    for (uint64_t k = 0; k < stop; k++) {
        fby_batch *a = NULL, *b = NULL;
        fby_status one = fby_loader_next(direct, -1, &a, &err), other = fby_loader_next(kept, -1, &b, NULL);
        if (one != other)
            fail_msg("batch %llu: %s, not %s: %s", (unsigned long long)(from + k), fby_status_name(one), fby_status_name(other),
                     err.message);
        if (one != FBY_OK) {
            *out_end = one;
            break;
        }
        assert_same(a, b);
        check_entries(direct);
        fby_batch_unref(b);
        fby_batch **place = &held[fby__random_below(random, 16)]; /* some are kept for a while */
        fby_batch_unref(*place);
        *place = a;
    }
    for (int i = 0; i < 16; i++)
        fby_batch_unref(held[i]);
}

typedef struct found {
    int n_direct, n_shuffle[4], n_wrapped;
} found;

static void try_options(fby_dataset *ds, fby__random *io_random, int rounds, found *out)
{
    fby__random random = *io_random;
    fby_status end;
    int n_direct = 0, n_shuffle[4] = {0}, n_wrapped = 0;
    for (int round = 0; round < rounds; round++) {
        static const fby_shuffle_kind SHUFFLE[] = {FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_BLOCK, FBY_SHUFFLE_NONE};
        const uint32_t world = (uint32_t)1 << fby__random_below(&random, 3);
        fby_loader_opts opts = {
            .seed = fby__random_next(&random),
            .shuffle = SHUFFLE[fby__random_below(&random, 4)],
            .batch_size = 8 * (1 + fby__random_below(&random, 40)),
            .superbatch_samples = 500 + fby__random_below(&random, mix.n_sources ? 3000 : 20000),
            .streams = fby__random_below(&random, 2) ? 0 : 4,
            .world_size = world,
            .rank = (uint32_t)fby__random_below(&random, world),
            .tail = (fby_tail_kind)(world > 1 ? FBY_TAIL_DROP + fby__random_below(&random, 2) : fby__random_below(&random, 4)),
            .n_threads = 1 + (int)fby__random_below(&random, 4),
            .prefetch_batches = 2 + (uint32_t)fby__random_below(&random, 9)};
        fby_loader_opts ample = opts;
        ample.memory_bytes = (uint64_t)1 << 30;
        opts.memory_bytes = budget(ds, opts, (double)fby__random_below(&random, 1000) / 2000);
        fby_loader *direct = open_loader(ds, opts), *kept = open_loader(ds, ample);
        assert_true(kept->engine.delivery == &fby__gathered_delivery);
        if (is_direct(direct)) {
            const uint64_t n = fby_loader_batch_count(direct);
            n_direct++;
            n_shuffle[opts.shuffle]++;
            compare(direct, kept, 0, 0, &random, &end);
            assert_true(end == FBY_OK || end == FBY_END);
            n_wrapped += atomic_load_explicit(&direct->consumer.n_wrapped, memory_order_relaxed) > 0;
            compare(direct, kept, 5, fby__random_below(&random, n), &random, &end);
            assert_true(end == FBY_OK || end == FBY_END);
            compare(direct, kept, 6, 0, &random, &end);
            assert_true(end == FBY_OK || end == FBY_END);
            fby_report r = {.size = sizeof r};
            assert_int_equal(fby_loader_report(direct, &r, NULL), FBY_OK);
            assert_true(r.budget_peak_bytes <= opts.memory_bytes);
            assert_int_equal(r.blocks_from_cache, 0);
        }
        fby_loader_close(direct);
        fby_loader_close(kept);
    }
    print_message("%d of %d direct: %d superbatch, %d block, %d in file order; %d with a wrapped end\n", n_direct, rounds,
                  n_shuffle[FBY_SHUFFLE_SUPERBATCH], n_shuffle[FBY_SHUFFLE_BLOCK], n_shuffle[FBY_SHUFFLE_NONE], n_wrapped);
    *out = (found){.n_direct = n_direct, .n_wrapped = n_wrapped};
    memcpy(out->n_shuffle, n_shuffle, sizeof n_shuffle);
    *io_random = random;
}

static void batches_are_those_of_a_loader_that_keeps_its_blocks(void **state)
{
    (void)state;
    fby__random random = {.key = test_seed()};
    fby_dataset *ds = dataset();
    found f;
    try_options(ds, &random, 200, &f);
    assert_true(f.n_shuffle[FBY_SHUFFLE_SUPERBATCH] > 2 && f.n_shuffle[FBY_SHUFFLE_BLOCK] > 2 && f.n_shuffle[FBY_SHUFFLE_NONE] > 2 &&
                f.n_wrapped > 2);
    fby_dataset_close(ds);
}

/* A third of the blocks has no sample: the others are as they would be without them. */
static void samples_that_leave_blocks_out_go_straight_too(void **state)
{
    (void)state;
    const fby_samples_opts all = {.size = sizeof all, .kind = FBY_SAMPLES_ROWS};
    fby_dataset *ds = dataset();
    fby_samples *rows, *some;
    fby__random random = {.key = test_seed()};
    fby_status end;
    int n_direct = 0;
    assert_int_equal(fby_samples_open(ds, &all, &rows, NULL), FBY_OK);
    assert_int_equal(fby_samples_limit(rows, fby_samples_count(rows) / 3 * 2, false, 0, &some, NULL), FBY_OK);
    for (int share = 0; share < 10; share++) {
        fby_loader_opts opts = {.samples = some, .batch_size = 256, .superbatch_samples = 3000, .n_threads = 2, .seed = 5}, ample = opts;
        ample.memory_bytes = (uint64_t)1 << 30;
        opts.memory_bytes = budget(ds, opts, share / 10.0);
        fby_loader *direct = open_loader(ds, opts), *kept = open_loader(ds, ample);
        n_direct += is_direct(direct);
        compare(direct, kept, 0, 0, &random, &end);
        assert_true(end == FBY_OK || end == FBY_END);
        fby_loader_close(direct);
        fby_loader_close(kept);
    }
    assert_true(n_direct > 0);
    fby_samples_close(some);
    fby_samples_close(rows);
    fby_dataset_close(ds);
}

static bool has_all(const found *f)
{
    return f->n_shuffle[FBY_SHUFFLE_SUPERBATCH] > 2 && f->n_shuffle[FBY_SHUFFLE_BLOCK] > 0 && f->n_wrapped > 0;
}

/* Sources of several sizes, which come once, more than once, or not all; in file order they are gathered from panels. */
static void batches_of_a_mixture_are_those_of_a_loader_that_keeps_its_blocks(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"a", "b", "c"};
    fby__random random = {.key = test_seed()};
    fby_dataset *ds[] = {dataset_of(BLOCKS, 600), dataset_of(BLOCKS, 300), dataset_of(70, 200)};
    fby_mix_source sources[3];
    found f, all = {0};
    for (int i = 0; i < 3; i++) {
        const fby_samples_opts rows = {.size = sizeof rows, .kind = FBY_SAMPLES_ROWS};
        sources[i] = (fby_mix_source){.name = NAMES[i]};
        assert_int_equal(fby_samples_open(ds[i], &rows, &sources[i].samples, NULL), FBY_OK);
    }
    /* Few of them have rows go straight to batches: until every kind has come. */
    for (int round = 0; round < 6 || (round < 60 && !has_all(&all)); round++) {
        const double weights[] = {1 + (double)fby__random_below(&random, 4), 1, 1 + (double)fby__random_below(&random, 2), 1, 2,
                                  round % 3 == FBY_MIX_ALL ? 1 : 0};
        mix = (fby_mix){.size = sizeof mix,
                        .source_size = sizeof *sources,
                        .sources = sources,
                        .n_sources = 3,
                        .weights = round % 3 ? weights : NULL,
                        .n_epochs = round % 3 ? 1 + (size_t)(round % 2) : 0,
                        .stop = (fby_mix_stop)(round % 3),
                        .n_samples = round % 3 == FBY_MIX_SAMPLES ? 60000 : 0};
        try_options(ds[0], &random, 50, &f);
        all.n_wrapped += f.n_wrapped;
        for (int k = 0; k < 4; k++)
            all.n_shuffle[k] += f.n_shuffle[k];
    }
    mix = (fby_mix){0};
    assert_true(has_all(&all));
    assert_int_equal(all.n_shuffle[FBY_SHUFFLE_NONE], 0);
    for (int i = 0; i < 3; i++) {
        fby_samples_close(sources[i].samples);
        fby_dataset_close(ds[i]);
    }
}

/* A phase of a mixture has samples of some of the batches between its first and its last; others may be finished before it is loaded. */
static void batches_that_a_phase_passes_over_are_made_once(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"a", "b", "c"};
    static const double weights[] = {2, 1, 1};
    fby__random random = {.key = 1};
    fby_dataset *ds[] = {dataset_of(BLOCKS, 600), dataset_of(BLOCKS, 300), dataset_of(70, 200)};
    fby_mix_source sources[3];
    fby_status end;
    int n_direct = 0;
    for (int i = 0; i < 3; i++) {
        const fby_samples_opts rows = {.size = sizeof rows, .kind = FBY_SAMPLES_ROWS};
        sources[i] = (fby_mix_source){.name = NAMES[i]};
        assert_int_equal(fby_samples_open(ds[i], &rows, &sources[i].samples, NULL), FBY_OK);
    }
    mix = (fby_mix){.size = sizeof mix,
                    .source_size = sizeof *sources,
                    .sources = sources,
                    .n_sources = 3,
                    .weights = weights,
                    .n_epochs = 1,
                    .stop = FBY_MIX_ALL};
    for (int k = 0; k < 48; k++) {
        fby_loader_opts opts = {
            .shuffle = FBY_SHUFFLE_BLOCK, .batch_size = 24, .n_threads = 1 + k % 3, .seed = (uint64_t)k / 12, .world_size = 4, .rank = 1};
        fby_loader_opts ample = opts;
        ample.memory_bytes = (uint64_t)1 << 30;
        opts.memory_bytes = budget(NULL, opts, k % 12 / 24.0);
        fby_loader *direct = open_loader(NULL, opts), *kept = open_loader(NULL, ample);
        if (is_direct(direct)) {
            n_direct++;
            for (int again = 0; again < 4; again++) {
                compare(direct, kept, (uint64_t)again, fby__random_below(&random, fby_loader_batch_count(direct)), &random, &end);
                assert_true(end == FBY_OK || end == FBY_END);
            }
        }
        fby_loader_close(direct);
        fby_loader_close(kept);
    }
    print_message("%d loaders\n", n_direct);
    mix = (fby_mix){0};
    assert_true(n_direct > 0);
    for (int i = 0; i < 3; i++) {
        fby_samples_close(sources[i].samples);
        fby_dataset_close(ds[i]);
    }
}

static void whichever_allocation_fails_nothing_is_kept(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader *l = NULL;
    uint64_t total = 0;
    const uint64_t charged = fby__ledger_charged_bytes();
    fby_loader_opts opts = {.batch_size = 256, .superbatch_samples = 3000, .n_threads = 2, .seed = 5};
    for (int share = 0; !total && share < 10; share++) {
        opts.memory_bytes = budget(ds, opts, share / 10.0);
        const uint64_t before = fby__alloc_count();
        l = open_loader(ds, opts);
        total = is_direct(l) ? fby__alloc_count() - before : 0;
        fby_loader_close(l);
    }
    assert_true(total > 0);
    int refused = 0;
    for (uint64_t n = 1; n <= total; n++) {
        fby_error err = {0};
        l = NULL;
        fby__alloc_fail_at(n);
        const fby_status status = try_open(ds, opts, &l, &err);
        fby__alloc_fail_at(0);
        if (status != FBY_OK && (status != FBY_E_NOMEM || l))
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, fby_status_name(status), err.message);
        refused += status != FBY_OK;
        fby_loader_close(l);
        assert_int_equal(fby__ledger_charged_bytes(), charged);
    }
    print_message("%d of %d\n", refused, (int)total);
    assert_true(refused > 20);
    fby_dataset_close(ds);
}

/* Row numbers from 32,768 on are no int16: blocks fail, their batches with them, and what was written beside them is given back. */
static void a_block_that_fails_fails_the_first_batch_that_needs_it(void **state)
{
    (void)state;
    const fby_output FAILING[] = {{.name = "all", .columns = ALL, .n_columns = 3, .dtype = FBY_FLOAT64},
                                  {.name = "x", .columns = X, .n_columns = 1, .dtype = FBY_FLOAT64},
                                  {.name = "gap", .columns = GAP, .n_columns = 1},
                                  {.name = "filled", .columns = GAP, .n_columns = 1, .ops = FILL(-5), .n_ops = 1},
                                  {.name = "row", .from = FBY_FROM_ROW_INDEX},
                                  {.name = "number", .from = FBY_FROM_SAMPLE_INDEX},
                                  {.name = "small", .columns = ID, .n_columns = 1, .dtype = FBY_INT16}};
    fby__random random = {.key = test_seed()};
    fby_dataset *ds = dataset();
    int n_direct = 0, n_failed = 0;
    for (int round = 0; round < 100; round++) {
        fby_loader_opts opts = {.outputs = FAILING,
                                .n_outputs = sizeof FAILING / sizeof *FAILING,
                                .seed = fby__random_next(&random),
                                .shuffle = round % 2 ? FBY_SHUFFLE_NONE : FBY_SHUFFLE_SUPERBATCH,
                                .batch_size = 64 * (1 + fby__random_below(&random, 8)),
                                .superbatch_samples = 6000,
                                .n_threads = 1 + round % 3};
        fby_loader_opts ample = opts;
        ample.memory_bytes = (uint64_t)1 << 30;
        opts.memory_bytes = budget(ds, opts, (double)fby__random_below(&random, 1000) / 1000);
        fby_loader *direct = open_loader(ds, opts), *kept = open_loader(ds, ample);
        fby_status end;
        for (uint64_t epoch = 0; epoch < 3 && is_direct(direct); epoch++) {
            n_direct++;
            compare(direct, kept, epoch, 0, &random, &end);
            assert_true(end == FBY_OK || end == FBY_E_DATA); /* FBY_OK: left before */
            n_failed += end == FBY_E_DATA;
        }
        fby_loader_close(direct);
        fby_loader_close(kept);
    }
    print_message("%d epochs direct, %d failed\n", n_direct, n_failed);
    assert_true(n_failed > 10);
    fby_dataset_close(ds);
}

/* Batches are five times as wide as panels: rows go straight to them from budgets on in which panels have long had room for two superbatches. */
static const fby_output WIDE[] = {{.name = "a", .columns = X, .n_columns = 1, .dtype = FBY_FLOAT64},
                                  {.name = "b", .columns = X, .n_columns = 1, .dtype = FBY_FLOAT64},
                                  {.name = "c", .columns = X, .n_columns = 1, .dtype = FBY_FLOAT64},
                                  {.name = "d", .columns = X, .n_columns = 1, .dtype = FBY_FLOAT64},
                                  {.name = "e", .columns = ID, .n_columns = 1},
                                  {.name = "f", .columns = ID, .n_columns = 1},
                                  {.name = "g", .columns = ID, .n_columns = 1},
                                  {.name = "h", .columns = ID, .n_columns = 1}};

static fby_loader_opts wide_opts(uint64_t memory, int k)
{
    return (fby_loader_opts){.outputs = WIDE,
                             .n_outputs = sizeof WIDE / sizeof *WIDE,
                             .batch_size = k % 2 ? 256 : 64,
                             .superbatch_blocks = 1 + (uint64_t)k % 4,
                             .streams = 1,
                             .no_warmup = true,
                             .n_threads = 1 + k % 3,
                             .seed = test_seed(),
                             .memory_bytes = memory};
}

static fby_report report_of(fby_loader *l)
{
    fby_report r = {.size = sizeof r};
    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
    return r;
}

static fby_loader *begun(fby_dataset *ds, fby_loader_opts opts)
{
    fby_loader *l = open_loader(ds, opts);
    fby_batch *first;
    fby_error err = {0};
    if (fby_loader_next(l, -1, &first, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby_batch_unref(first);
    return l;
}

/* Is the next superbatch loaded though this one is not used up? */
static bool loads_two(fby_loader *l)
{
    const fby__plan_phase *phases = l->schedule.epoch->phases;
    const uint64_t two = phases[0].n_items + phases[1].n_items;
    for (int wait = 0; wait < 2000 && report_of(l).blocks_read < two; wait++) {
        if (wait > 40 && report_of(l).memory_wait_ns > 0)
            break; /* held up, says the report */
        (void)usleep(wait < 20 ? 200 : 5000);
    }
    return report_of(l).blocks_read >= two;
}

static bool loads_two_with(fby_dataset *ds, uint64_t memory, int k)
{
    fby_loader *l = begun(ds, wide_opts(memory, k));
    const bool two = loads_two(l);
    fby_loader_close(l);
    return two;
}

/* A budget that is beyond the least one for overlap gives it too, or the report names one that does. */
static void of_a_budget_without_overlap_the_report_names_one_with_it(void **state)
{
    (void)state;
    fby_dataset *ds = dataset_of(BLOCKS, 4000);
    int n = 0, n_direct = 0, n_without = 0;
    for (int k = 0; k < 12; k++) {
        fby_loader *l = open_loader(ds, wide_opts((uint64_t)1 << 30, k));
        const fby_report named = report_of(l);
        fby_loader_close(l);
        for (uint64_t memory = named.overlap_bytes; memory < named.keep_all_bytes; memory += memory / 24, n++) {
            l = begun(ds, wide_opts(memory, k));
            const uint64_t enough = report_of(l).overlap_bytes;
            const bool two = loads_two(l), direct = is_direct(l);
            n_direct += direct && two;
            fby_loader_close(l);
            if (!two && enough <= memory)
                fail_msg("budget %llu, direct %d: no overlap, and %llu are said to be enough", (unsigned long long)memory, direct,
                         (unsigned long long)enough);
            if (!two)
                assert_true(enough <= named.keep_all_bytes && loads_two_with(ds, enough, k));
            n_without += !two;
        }
    }
    print_message("%d budgets, %d without overlap, %d with it for rows that go straight to batches\n", n, n_without, n_direct);
    assert_true(n_direct > 2 && n_without > 0 && n_without < n / 2);
    fby_dataset_close(ds);
}

static void the_report_says_when_there_is_no_room_for_more_batches(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    int n_direct = 0;
    for (int k = 0; k < 40; k++) {
        fby_loader_opts opts = {
            .batch_size = 128, .superbatch_samples = 4000, .streams = k % 2 ? 1 : 4, .n_threads = 1 + k % 3, .no_warmup = true};
        opts.memory_bytes = budget(ds, opts, k / 80.0);
        fby_loader *l = begun(ds, opts);
        if (is_direct(l) && l->memory.max_batches < l->memory.needs.smooth) {
            for (int wait = 0; wait < 2000 && report_of(l).memory_wait_ns == 0; wait++)
                (void)usleep(wait < 20 ? 200 : 5000);
            assert_true(report_of(l).memory_wait_ns > 0);
            n_direct++;
        }
        fby_loader_close(l);
    }
    print_message("%d loaders without room for more batches\n", n_direct);
    assert_true(n_direct > 0);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_those_of_a_loader_that_keeps_its_blocks),
        cmocka_unit_test(samples_that_leave_blocks_out_go_straight_too),
        cmocka_unit_test(batches_of_a_mixture_are_those_of_a_loader_that_keeps_its_blocks),
        cmocka_unit_test(batches_that_a_phase_passes_over_are_made_once),
        cmocka_unit_test(whichever_allocation_fails_nothing_is_kept),
        cmocka_unit_test(a_block_that_fails_fails_the_first_batch_that_needs_it),
        cmocka_unit_test(of_a_budget_without_overlap_the_report_names_one_with_it),
        cmocka_unit_test(the_report_says_when_there_is_no_room_for_more_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
