/*
 * The budget holds (invariant 4): over a data set of ten times the budget the process grows by no more than the budget and
 * 64 MiB, the account never goes beyond its limit for dense data, what the consumer holds is reported as out. And the steady
 * state allocates nothing a batch (invariant 8).
 */
#include "support/loader_delivery.h"
#include "support/loader_fixture.h"
#include "support/memory_dataset.h"
#include "support/test_seed.h"

#include "loader/internal.h"

#include <malloc.h>

enum { WIDE_ROWS = 50000, WIDE_COLUMNS = 16, COPIES = 110 };
#define MIB ((uint64_t)1 << 20)
#define SLACK_BYTES (64 * MIB)
#ifdef SANITIZED
enum { STEP = 50 }; /* percent, from budget to budget */
#else
enum { STEP = 10 };
#endif

static uint64_t status_bytes(const char *key)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[200];
    unsigned long long kib = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            (void)sscanf(line + strlen(key), ": %llu kB", &kib);
    (void)fclose(f);
    return kib * 1024;
}

/* Forget the high-water mark; false where the kernel does not let us. */
static bool reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

static fby__account_stats stats_of(fby_loader *l)
{
    fby__account_stats s;
    fby__account_stats_of(l->engine.account, &s);
    return s;
}

/* All 16 columns as one float32 matrix: 3.2 MB a file. */
static const char *WIDE[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15"};
static const fby_output MATRIX[] = {{.name = "m", .columns = WIDE, .n_columns = WIDE_COLUMNS, .dtype = FBY_FLOAT32},
                                    {.name = "row", .from = FBY_FROM_SAMPLE_INDEX}};

static void put_wide(int copies)
{
    assert_int_equal(mkdir("wide", 0755), 0);
    put_golden("wide.parquet", "wide");
    for (int i = 0; i < copies; i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "wide/f%03d.parquet", i);
        assert_int_equal(link("wide.parquet", path), 0);
    }
}

static fby_loader_opts wide_opts(uint64_t memory)
{
    return (fby_loader_opts){.outputs = MATRIX,
                             .n_outputs = 2,
                             .batch_size = 1024,
                             .superbatch_blocks = 3,
                             .streams = 1,
                             .seed = 2,
                             .memory_bytes = memory,
                             .n_threads = 2};
}

static void check_wide(const fby_batch *b)
{
    const int64_t *row = values_of(b, "row");
    const float *m = values_of(b, "m");
    for (uint64_t i = 0; i < fby_batch_size(b); i++)
        for (int k = 0; k < WIDE_COLUMNS; k++)
            if (m[i * WIDE_COLUMNS + k] != (float)(row[i] % WIDE_ROWS / 64 % 500 + k))
                fail_msg("row %lld, column %d is %g", (long long)row[i], k, (double)m[i * WIDE_COLUMNS + k]);
}

/* One epoch; the largest growth of the process over its value before the loader was opened. */
static void read_within(uint64_t memory, bool smallest)
{
    fby_dataset *ds = open_dataset("wide", NULL);
    fby_loader *l = open_loader(ds, wide_opts(0));
    uint64_t minimum = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    memory = smallest ? minimum : memory;
    uint64_t decoded = fby_dataset_rows(ds) * WIDE_COLUMNS * sizeof(float);
    print_message("budget %.1f MiB, data decoded %.1f MiB (%.1f times)\n", (double)memory / (double)MIB, (double)decoded / (double)MIB,
                  (double)decoded / (double)memory);
    if (smallest)
        assert_true(decoded >= 10 * memory);
    (void)malloc_trim(0);
    bool peak = reset_peak();
    uint64_t before = status_bytes(peak ? "VmHWM" : "VmRSS"), most = before, rows = 0;
    l = open_loader(ds, wide_opts(memory));
    fby_batch *b;
    fby_error err = {0};
    fby_status status;
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        if (fby_batch_index(b) % 50 == 0) {
            check_wide(b);
            uint64_t now = status_bytes(peak ? "VmHWM" : "VmRSS");
            most = now > most ? now : most;
        }
        rows += fby_batch_size(b);
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
    assert_int_equal(rows, fby_dataset_rows(ds));
    fby_report r = report_of(l);
    fby__account_stats s = stats_of(l);
    uint64_t now = status_bytes(peak ? "VmHWM" : "VmRSS");
    most = now > most ? now : most;
    print_message("grew by %.1f MiB at most (%s); the account's peak is %.1f MiB, %llu bytes beyond the limit; %llu blocks evicted\n",
                  (double)(most - before) / (double)MIB, peak ? "VmHWM" : "VmRSS sampled", (double)r.budget_peak_bytes / (double)MIB,
                  (unsigned long long)s.forced_bytes, (unsigned long long)r.blocks_evicted);
    assert_int_equal(s.forced_bytes, 0);
    assert_true(r.budget_peak_bytes <= memory);
#ifdef SANITIZED
    print_message("resident size left out: " SANITIZED " has its own\n");
#else
    assert_true(most - before <= memory + SLACK_BYTES);
#endif
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void the_process_grows_by_no_more_than_the_smallest_budget_over_ten_times_the_data(void **state)
{
    (void)state;
    put_wide(COPIES);
    read_within(0, true);
}

static void the_process_grows_by_no_more_than_a_larger_budget(void **state)
{
    (void)state;
    put_wide(COPIES);
    read_within(100 * MIB, false);
}

/* What a budget has to spare is spent once, whatever it is for. */
static void nothing_goes_beyond_budgets_between_the_smallest_and_twice_as_much(void **state)
{
    (void)state;
    static const fby_shuffle_kind SHUFFLE[] = {FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_FULL, FBY_SHUFFLE_NONE};
    put_wide(7);
    fby_dataset *ds = open_dataset("wide", NULL);
    for (int i = 0; i < 12; i++) {
        fby_loader_opts opts = wide_opts(0);
        opts.batch_size = i % 2 ? 3000 : 12000;
        opts.n_threads = i % 4 < 2 ? 2 : 8;
        opts.shuffle = SHUFFLE[i / 4];
        opts.superbatch_blocks = opts.shuffle == FBY_SHUFFLE_SUPERBATCH ? 2 : 0;
        fby_loader *l = open_loader(ds, opts);
        const uint64_t minimum = report_of(l).budget_minimum_bytes;
        fby_loader_close(l);
        for (int more = 0; more <= 100; more += STEP) {
            opts.memory_bytes = minimum + minimum * (uint64_t)more / 100;
            l = open_loader(ds, opts);
            uint64_t rows = 0;
            fby_error err = {0};
            fby_batch *b;
            fby_status status = fby_loader_begin(l, 0, &err);
            while (status == FBY_OK && (status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
                rows += fby_batch_size(b);
                fby_batch_unref(b);
            }
            if (status != FBY_END)
                fail_msg("case %d, %d %% more than the minimum: %s", i, more, err.message);
            assert_int_equal(rows, fby_dataset_rows(ds));
            const fby__account_stats s = stats_of(l);
            if (s.peak_bytes > opts.memory_bytes)
                fail_msg("case %d, %d %% more than the minimum: %llu bytes beyond the budget of %llu", i, more,
                         (unsigned long long)(s.peak_bytes - opts.memory_bytes), (unsigned long long)opts.memory_bytes);
            fby_loader_close(l);
        }
    }
    fby_dataset_close(ds);
}

/* The row number and three columns as one matrix. */
static const char *THREE[] = {"id", "x", "narrow"};
static const fby_output DENSE[] = {{.name = "row", .from = FBY_FROM_SAMPLE_INDEX},
                                   {.name = "all", .columns = THREE, .n_columns = 3, .dtype = FBY_FLOAT64}};

/* Some epochs at the smallest accepted budget: every sample once, and never a byte too many. */
static void run_at_the_smallest_budget(const uint64_t *counts, uint32_t n, fby_loader_opts opts, uint64_t n_epochs, int number)
{
    fby_dataset *ds = NULL;
    fby_error err = {0};
    assert_int_equal(memory_dataset_open(counts, n, &ds, &err), FBY_OK);
    opts.outputs = DENSE;
    opts.n_outputs = 2;
    fby_loader *l = open_loader(ds, opts);
    opts.memory_bytes = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    l = open_loader(ds, opts);
    for (uint64_t e = 0; e < n_epochs; e++) {
        uint64_t got;
        int64_t *order = epoch_rows(l, e, &got);
        assert_once_each(order, got, fby_dataset_rows(ds));
        free(order);
    }
    fby__account_stats s = stats_of(l);
    fby_loader_close(l);
    fby_dataset_close(ds);
    if (s.forced_bytes || s.peak_bytes > s.limit_bytes)
        fail_msg("case %d (%u blocks, shuffle %d, %u streams): %llu bytes beyond the limit of %llu", number, n, (int)opts.shuffle,
                 opts.streams, (unsigned long long)s.forced_bytes, (unsigned long long)s.limit_bytes);
}

static void dense_data_never_goes_beyond_the_smallest_accepted_budget(void **state)
{
    (void)state;
    const uint64_t seed = test_seed();
    fby__random random = {.key = seed};
    for (int i = 0; i < 60; i++) {
        uint64_t counts[40], rows = 0;
        uint32_t n = 1 + (uint32_t)fby__random_below(&random, 40);
        uint64_t most = 10 + fby__random_below(&random, 4000);
        for (uint32_t k = 0; k < n; k++)
            rows += counts[k] = i % 3 == 0 ? most * 4 / 5 + fby__random_below(&random, most / 4 + 1) : fby__random_below(&random, most);
        if (rows == 0)
            continue;
        fby_loader_opts opts = {.batch_size = 1 + fby__random_below(&random, 300),
                                .seed = seed + (uint64_t)i,
                                .superbatch_samples = 1 + fby__random_below(&random, rows),
                                .n_threads = 1 + i % 3,
                                .streams = 1u << fby__random_below(&random, 4),
                                .shuffle = (fby_shuffle_kind)(i % 8 < 5 ? 0 : i % 8 - 4),
                                .prefetch_batches = 2 + (uint32_t)fby__random_below(&random, 6)};
        run_at_the_smallest_budget(counts, n, opts, 3, i);
    }
}

static fby_report report_with(fby_dataset *ds, fby_samples *samples, uint64_t batch_size, fby_tail_kind tail, fby__account_stats *out)
{
    const fby_output lists[] = {DENSE[0], DENSE[1], {.name = "hits", .columns = (const char *[]){"hits"}, .n_columns = 1}};
    fby_loader_opts opts = {.samples = samples,
                            .outputs = lists,
                            .n_outputs = 3,
                            .batch_size = batch_size,
                            .tail = tail,
                            .n_threads = 2,
                            .prefetch_batches = batch_size > 400 ? 40 : 4};
    fby_loader *l = open_loader(ds, opts);
    opts.memory_bytes = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    l = open_loader(ds, opts);
    const fby_report r = report_of(l);
    for (fby_batch *b; fby_loader_next(l, -1, &b, NULL) == FBY_OK; fby_batch_unref(b))
        assert_int_equal(fby_batch_size(b), tail == FBY_TAIL_WRAP ? batch_size : 40);
    *out = stats_of(l);
    fby_loader_close(l);
    return r;
}

/* Batches of more samples than there are, or than are chosen: what is asked for is what the samples take. Wrapped, they are there. */
static void a_batch_is_counted_with_the_samples_there_are(void **state)
{
    (void)state;
    const fby_samples_opts rows = {.size = sizeof rows, .kind = FBY_SAMPLES_ROWS};
    const uint64_t counts[] = {16, 24}, more[] = {16, 24, 4000, 4000};
    for (int limited = 0; limited < 2; limited++) {
        fby_dataset *ds = NULL;
        fby_samples *samples = NULL;
        fby_error err = {0};
        fby__account_stats s;
        assert_int_equal(memory_dataset_open(limited ? more : counts, limited ? 4 : 2, &ds, &err), FBY_OK);
        assert_int_equal(fby_samples_open(ds, &rows, &samples, &err), FBY_OK);
        if (limited) {
            fby_samples *all = samples;
            assert_int_equal(fby_samples_limit(all, 40, false, 0, &samples, &err), FBY_OK);
            fby_samples_close(all);
        }
        const fby_report exact = report_with(ds, samples, 40, FBY_TAIL_KEEP, &s);
        for (uint64_t size = 400; size <= 4000000; size *= 100) {
            const fby_report r = report_with(ds, samples, size, FBY_TAIL_KEEP, &s);
            assert_int_equal(r.budget_minimum_bytes, exact.budget_minimum_bytes);
            assert_int_equal(r.overlap_bytes, exact.overlap_bytes);
            assert_int_equal(r.keep_all_bytes, exact.keep_all_bytes);
            assert_true(s.forced_bytes == 0 && s.peak_bytes <= s.limit_bytes);
        }
        assert_true(report_with(ds, samples, 40000, FBY_TAIL_WRAP, &s).budget_minimum_bytes > 2 * 40000 * 32);
        assert_true(s.forced_bytes == 0 && s.peak_bytes <= s.limit_bytes);
        fby_samples_close(samples);
        fby_dataset_close(ds);
    }
}

/* Strings and lists of all kinds of batches, also of pieces that come one by one: every sample once, and never a byte too many. */
static void lists_and_strings_never_go_beyond_the_smallest_accepted_budget(void **state)
{
    (void)state;
    const uint64_t seed = test_seed();
    fby__random random = {.key = seed};
    put_files("data", 12);
    fby_dataset *ds = open_dataset("data", NULL);
    for (int i = 0; i < 60; i++) {
        fby_loader_opts opts = {.batch_size = 1 + fby__random_below(&random, i % 2 ? 40 : 400),
                                .seed = seed + (uint64_t)i,
                                .superbatch_samples = 1 + fby__random_below(&random, fby_dataset_rows(ds)),
                                .n_threads = 1 + i % 3,
                                .streams = 1u << fby__random_below(&random, 4),
                                .shuffle = (fby_shuffle_kind)(i % 8 < 5 ? 0 : i % 8 - 4),
                                .prefetch_batches = 2 + (uint32_t)fby__random_below(&random, 12)};
        fby_loader *l = open_loader(ds, opts);
        opts.memory_bytes = report_of(l).budget_minimum_bytes;
        fby_loader_close(l);
        l = open_loader(ds, opts);
        for (uint64_t e = 0; e < 2; e++) {
            uint64_t got;
            int64_t *order = epoch_rows(l, e, &got);
            assert_once_each(order, got, fby_dataset_rows(ds));
            free(order);
        }
        const fby__account_stats s = stats_of(l);
        fby_loader_close(l);
        if (s.forced_bytes || s.peak_bytes > s.limit_bytes)
            fail_msg("case %d (shuffle %d, %u streams, batches of %llu): %llu bytes beyond the limit of %llu", i, (int)opts.shuffle,
                     opts.streams, (unsigned long long)opts.batch_size, (unsigned long long)s.forced_bytes,
                     (unsigned long long)s.limit_bytes);
    }
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

/* Eight streams cut up to seven blocks in two, elsewhere in every epoch: what is left of the last cuts must give way. */
static void parts_of_blocks_that_an_epoch_cut_elsewhere_give_way(void **state)
{
    (void)state;
    uint64_t counts[33];
    for (int i = 0; i < 33; i++)
        counts[i] = 3001;
    for (uint64_t seed = 0; seed < 6; seed++)
        for (uint32_t n = 9; n <= 33; n += 8)
            run_at_the_smallest_budget(counts, n, (fby_loader_opts){.batch_size = 64, .seed = seed, .superbatch_samples = 1, .streams = 8},
                                       4, (int)seed);
}

static void batches_that_the_consumer_holds_are_out_of_the_budget_and_reported(void **state)
{
    (void)state;
    enum { HELD = 100 };
    put_wide(8);
    fby_dataset *ds = open_dataset("wide", NULL);
    fby_loader *l = open_loader(ds, wide_opts(0));
    uint64_t minimum = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    l = open_loader(ds, wide_opts(minimum));
    fby_batch *held[HELD];
    fby_error err = {0};
    for (int i = 0; i < HELD; i++)
        assert_int_equal(fby_loader_next(l, -1, &held[i], &err), FBY_OK);
    fby_report r = report_of(l);
    assert_int_equal(r.batches_out, HELD);
    assert_true(r.batches_out_bytes >= HELD * 1024ull * WIDE_COLUMNS * sizeof(float));
    assert_true(r.budget_peak_bytes <= minimum);
    fby_loader_close(l); /* they outlive it */
    fby_dataset_close(ds);
    for (int i = 0; i < HELD; i++) {
        check_wide(held[i]);
        fby_batch_unref(held[i]);
    }
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void batches_of_strings_and_lists_are_counted_once_each(void **state)
{
    (void)state;
    put_files("data", 6);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){0});
    fby_batch *held[5];
    fby_error err = {0};
    for (int i = 0; i < 5; i++)
        assert_int_equal(fby_loader_next(l, -1, &held[i], &err), FBY_OK);
    assert_int_equal(report_of(l).batches_out, 5);
    for (int i = 0; i < 5; i++)
        fby_batch_unref(held[i]);
    assert_int_equal(report_of(l).batches_out, 0);
    assert_int_equal(report_of(l).batches_out_bytes, 0);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

/* Allocations made between two batches of an epoch, while the consumer holds one batch at a time. */
static uint64_t allocations_between(fby_loader *l, uint64_t from, uint64_t to, uint64_t *out_blocks)
{
    fby_batch *b;
    fby_error err = {0};
    uint64_t at = 0, blocks = 0;
    for (uint64_t i = 0; i < to; i++) {
        if (i == from) {
            at = fby__alloc_count();
            blocks = report_of(l).blocks_read;
        }
        assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_OK);
        fby_batch_unref(b);
    }
    *out_blocks = report_of(l).blocks_read - blocks;
    return fby__alloc_count() - at;
}

static void the_steady_state_allocates_nothing_for_a_batch(void **state)
{
    (void)state;
    put_wide(8);
    fby_dataset *ds = open_dataset("wide", NULL);
    uint64_t blocks, n;
    fby_error err = {0};
    /* all cached: nothing but batches */
    fby_loader *l = open_loader(ds, wide_opts(600 * MIB));
    free(epoch_rows(l, 0, &n));
    assert_int_equal(fby_loader_begin(l, 1, &err), FBY_OK);
    uint64_t cached = allocations_between(l, 50, 150, &blocks);
    print_message("batches 50 to 150, all blocks cached: %llu allocations, %llu blocks read\n", (unsigned long long)cached,
                  (unsigned long long)blocks);
    assert_int_equal(blocks, 0);
    assert_int_equal(cached, 0);
    uint64_t minimum = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    /* read anew: what is allocated comes with blocks (open files, a thawed footer), not with batches */
    l = open_loader(ds, wide_opts(minimum));
    free(epoch_rows(l, 0, &n));
    assert_int_equal(fby_loader_begin(l, 1, &err), FBY_OK);
    uint64_t read = allocations_between(l, 50, 350, &blocks);
    print_message("batches 50 to 350 at the smallest budget: %llu allocations, %llu blocks read\n", (unsigned long long)read,
                  (unsigned long long)blocks);
    assert_true(read <= 20 * (blocks + 4));
    fby_loader_close(l);
    fby_dataset_close(ds);
}

/* Not less, so that it is worth raising memory to it, and of it nothing more is proposed. */
static void the_budget_that_is_named_for_overlap_gives_it(void **state)
{
    (void)state;
    static const struct {
        uint64_t batch_size;
        uint32_t depth;
    } CASES[] = {{1024, 4}, {1024, 64}, {50000, 4}, {150000, 6}}; /* batches are less than a superbatch of three blocks, or more */
    put_wide(19);
    fby_dataset *ds = open_dataset("wide", NULL);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        fby_loader_opts opts = wide_opts(0);
        opts.batch_size = CASES[i].batch_size;
        opts.prefetch_batches = CASES[i].depth;
        opts.no_warmup = true;
        fby_loader *l = open_loader(ds, opts);
        assert_true(l->memory.budget_bytes >= report_of(l).overlap_bytes && report_of(l).overlap_bytes <= report_of(l).keep_all_bytes);
        const uint64_t keep_all = report_of(l).keep_all_bytes;
        opts.memory_bytes = report_of(l).budget_minimum_bytes;
        fby_loader_close(l);
        l = open_loader(ds, opts);
        opts.memory_bytes = report_of(l).overlap_bytes;
        fby_loader_close(l);
        l = open_loader(ds, opts);
        assert_int_equal(report_of(l).overlap_bytes, opts.memory_bytes); /* none of the figures depends on the budget */
        assert_int_equal(report_of(l).keep_all_bytes, keep_all);
        assert_true(l->config.depth >= CASES[i].depth);
        fby_batch *first;
        fby_error err = {0};
        if (fby_loader_next(l, -1, &first, &err) != FBY_OK)
            fail_msg("%s", err.message);
        uint64_t blocks = 0;
        for (int wait = 0; wait < 1000 && blocks < 6; wait++) { /* of two superbatches, though nothing more is taken */
            blocks = report_of(l).blocks_read;
            (void)usleep(10000);
        }
        if (blocks < 6)
            fail_msg("batches of %llu, %u of them: %llu blocks were read, budget %llu minimum %llu live %llu rest %llu direct %d",
                     (unsigned long long)CASES[i].batch_size, CASES[i].depth, (unsigned long long)blocks,
                     (unsigned long long)l->memory.budget_bytes, (unsigned long long)l->memory.minimum_bytes,
                     (unsigned long long)l->memory.live_bytes, (unsigned long long)l->memory.shares.rest_bytes, is_direct(l));
        fby_batch_unref(first);
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
}

static void the_budget_for_overlap_is_never_more_than_what_keeps_everything(void **state)
{
    (void)state;
    static const uint64_t BATCHES[] = {16, 1024, 50000, 450000}, SUPERBATCHES[] = {1, 3, 28, 40};
    static const uint32_t DEPTHS[] = {2, 8, 64};
#ifdef __SANITIZE_THREAD__
    enum { EVERY = 29 }; /* to open 384 loaders would take it minutes */
#else
    enum { EVERY = 1 };
#endif
    unsigned n_direct = 0, n_smooth = 0;
    put_wide(30);
    fby_dataset *ds = open_dataset("wide", NULL);
    for (int i = 0; i < 4 * 4 * 3 * 2; i += EVERY) {
        fby_loader_opts opts = wide_opts(0);
        opts.batch_size = BATCHES[i % 4];
        opts.superbatch_blocks = SUPERBATCHES[i / 4 % 4];
        opts.prefetch_batches = DEPTHS[i / 16 % 3];
        opts.streams = i / 48 ? 8 : 1;
        fby_loader *l = open_loader(ds, opts);
        const fby_report named = report_of(l);
        assert_true(named.overlap_bytes <= named.keep_all_bytes && named.budget_minimum_bytes <= named.overlap_bytes);
        assert_true(l->memory.budget_bytes >= named.overlap_bytes);
        fby_loader_close(l);
        for (int k = 0; k < 3; k++) { /* whatever the budget is, they are the same; and each does what it says */
            opts.memory_bytes = k == 0 ? named.budget_minimum_bytes : k == 1 ? named.overlap_bytes : named.keep_all_bytes;
            l = open_loader(ds, opts);
            const fby_report r = report_of(l);
            assert_true(r.overlap_bytes == named.overlap_bytes && r.keep_all_bytes == named.keep_all_bytes);
            assert_true(k == 0 || l->config.depth >= fby__min_u64(opts.prefetch_batches, fby__plan_batches_limit(l->plan)));
            assert_true(k != 1 || !is_direct(l) || l->memory.max_batches >= l->memory.needs.smooth);
            assert_true(k != 2 || !is_direct(l));
            n_direct += is_direct(l);
            n_smooth += k == 1 && is_direct(l);
            fby_loader_close(l);
        }
    }
    print_message("%u loaders whose rows go straight to batches, %u of them with the budget for overlap\n", n_direct, n_smooth);
    assert_true(EVERY > 1 || !has_direct() || (n_direct > 0 && n_smooth > 0));
    fby_dataset_close(ds);
}

/* Half of what a rank may take, as a share of the machine's. */
static double half_of_rank(fby_dataset *ds, const char *launcher, uint32_t world_size, uint32_t local_world_size)
{
    const fby_output id = {.name = "id", .columns = ID, .n_columns = 1};
    const fby_loader_opts opts = {.outputs = &id,
                                  .n_outputs = 1,
                                  .batch_size = 8,
                                  .memory_fraction = 0.5,
                                  .world_size = world_size,
                                  .local_world_size = local_world_size,
                                  .n_threads = 1};
    fby_loader *l = NULL;
    fby_error err = {0};
    fby_report r = {.size = sizeof r};
    assert_int_equal(launcher ? setenv("LOCAL_WORLD_SIZE", launcher, 1) : unsetenv("LOCAL_WORLD_SIZE"), 0);
    if (try_loader(ds, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fby_loader_report(l, &r, &err), FBY_OK);
    fby_loader_close(l);
    assert_int_equal(unsetenv("LOCAL_WORLD_SIZE"), 0);
    return (double)r.budget_bytes / (double)r.memory_available_bytes;
}

static void a_host_s_ranks_are_those_that_are_stated_or_launched_or_all(void **state)
{
    static const struct {
        const char *launcher;
        uint32_t world, local, ranks;
    } CASES[] = {{NULL, 0, 0, 1}, {NULL, 8, 0, 8}, {"4", 0, 0, 4}, {"4", 8, 0, 4}, {"1", 8, 0, 1}, {"4", 8, 2, 2}, {NULL, 8, 2, 2}};
    fby_dataset *ds = NULL;
    (void)state;
    assert_int_equal(memory_dataset_open((uint64_t[]){16, 24}, 2, &ds, NULL), FBY_OK);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const double share = half_of_rank(ds, CASES[i].launcher, CASES[i].world, CASES[i].local) * 2 * CASES[i].ranks;
        if (share < 0.9 || share > 1.1)
            fail_msg("case %zu: %g of a rank's share", i, share);
    }
    fby_dataset_close(ds);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_process_grows_by_no_more_than_the_smallest_budget_over_ten_times_the_data),
        TEST(the_process_grows_by_no_more_than_a_larger_budget),
        TEST(nothing_goes_beyond_budgets_between_the_smallest_and_twice_as_much),
        TEST(dense_data_never_goes_beyond_the_smallest_accepted_budget),
        TEST(a_batch_is_counted_with_the_samples_there_are),
        TEST(lists_and_strings_never_go_beyond_the_smallest_accepted_budget),
        TEST(parts_of_blocks_that_an_epoch_cut_elsewhere_give_way),
        TEST(batches_that_the_consumer_holds_are_out_of_the_budget_and_reported),
        TEST(batches_of_strings_and_lists_are_counted_once_each),
        TEST(the_steady_state_allocates_nothing_for_a_batch),
        TEST(the_budget_that_is_named_for_overlap_gives_it),
        TEST(a_host_s_ranks_are_those_that_are_stated_or_launched_or_all),
        TEST(the_budget_for_overlap_is_never_more_than_what_keeps_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
