/*
 * Loaders over one data set share decoded blocks: the second reads nothing, what it delivers is the same, each keeps to its own budget, and
 * whoever closes first takes nothing from the others.
 */
#include "support/loader_fixture.h"
#include "support/memory_dataset.h"
#include "support/test_seed.h"

#include "loader/internal.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

enum { FILES = 9 };

static void same(const int64_t *expected, uint64_t n_expected, int64_t *rows, uint64_t n)
{
    assert_int_equal(n, n_expected);
    assert_memory_equal(rows, expected, n * sizeof *rows);
    free(rows);
}

static void same_rows(const int64_t *expected, uint64_t n_expected, fby_loader *l, uint64_t epoch)
{
    uint64_t n;
    int64_t *rows = epoch_rows(l, epoch, &n);
    same(expected, n_expected, rows, n);
}

/* The order of an epoch, by a loader that is alone. */
static int64_t *rows_alone(fby_dataset *ds, fby_loader_opts opts, uint64_t epoch, uint64_t *out_n)
{
    fby_loader *l = open_loader(ds, opts);
    int64_t *rows = epoch_rows(l, epoch, out_n);
    assert_true(report_of(l).blocks_read > 0);
    fby_loader_close(l);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
    return rows;
}

static void the_second_of_two_loaders_reads_nothing_and_delivers_the_same(void **state)
{
    (void)state;
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    const fby_loader_opts first = {.seed = 1}, second = {.seed = 2, .batch_size = 7};
    uint64_t n;
    int64_t *expected = rows_alone(ds, second, 0, &n);
    fby_loader *a = open_loader(ds, first), *b = open_loader(ds, second);
    free(epoch_rows(a, 0, &n));
    same_rows(expected, n, b, 0);
    const fby_report ra = report_of(a), rb = report_of(b);
    assert_int_equal(rb.blocks_read, 0);
    assert_int_equal(rb.bytes_read, 0);
    assert_int_equal(rb.bytes_decoded, 0);
    assert_int_equal(rb.blocks_from_cache, ra.blocks_read);
    same_rows(expected, n, b, 0); /* its own cache holds them now */
    assert_int_equal(report_of(b).blocks_read, 0);
    fby_loader_close(a);
    same_rows(expected, n, b, 0); /* and still does */
    assert_int_equal(report_of(b).blocks_read, 0);
    fby_loader *c = open_loader(ds, first); /* from who is left, not from who read them */
    free(epoch_rows(c, 0, &n));
    assert_int_equal(report_of(c).blocks_read, 0);
    fby_loader_close(b);
    free(epoch_rows(c, 1, &n));
    assert_int_equal(report_of(c).blocks_read, 0);
    fby_loader_close(c);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
    fby_dataset_close(ds);
    free(expected);
}

/* In the middle of the first one's epoch, whose batches then come from what is shared, whether the other is still there or not. */
static void one_that_opens_later_gets_what_was_decoded_before(void **state)
{
    (void)state;
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    const fby_loader_opts first = {.seed = 1}, later = {.seed = 2, .batch_size = 7};
    uint64_t n, n_first, n_rest;
    int64_t *expected = rows_alone(ds, later, 0, &n), *expected_first = rows_alone(ds, first, 1, &n_first);
    for (int stays = 0; stays < 2; stays++) {
        fby_loader *a = open_loader(ds, first);
        free(epoch_rows(a, 0, &n_first));
        assert_int_equal(fby_loader_begin(a, 1, NULL), FBY_OK);
        fby_loader *b = open_loader(ds, later);
        same_rows(expected, n, b, 0);
        assert_int_equal(report_of(b).blocks_read, 0);
        if (!stays)
            fby_loader_close(b);
        int64_t *rest = begun_rows(a, &n_rest);
        same(expected_first, n_first, rest, n_rest);
        fby_loader_close(a);
        if (stays)
            fby_loader_close(b);
        assert_int_equal(fby__ledger_charged_bytes(), 0);
    }
    fby_dataset_close(ds);
    free(expected);
    free(expected_first);
}

/* The bodies are paid for by who had the blocks, and one for which there is no memory is not shared. */
static void whichever_allocation_of_the_second_fails_nothing_is_lost(void **state)
{
    (void)state;
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    const fby_loader_opts first = {.seed = 1}, later = {.seed = 2, .batch_size = 7};
    uint64_t n, n_first, refused = 0, opened = 0;
    int64_t *expected = rows_alone(ds, later, 0, &n);
    for (uint64_t k = 1; opened < 40 && k < 100000; k++) {
        fby_loader *a = open_loader(ds, first), *b = NULL;
        fby_error err;
        free(epoch_rows(a, 0, &n_first));
        fby__alloc_fail_at(k);
        const fby_status status = try_loader(ds, later, &b, &err);
        fby__alloc_fail_at(0);
        refused += status == FBY_E_NOMEM;
        opened = status == FBY_OK ? opened + 1 : 0;
        if (status == FBY_OK)
            same_rows(expected, n, b, 0);
        fby_loader_close(a);
        fby_loader_close(b);
        assert_int_equal(fby__ledger_charged_bytes(), 0);
    }
    assert_true(refused > 5);
    fby_dataset_close(ds);
    free(expected);
}

/* Column, fill value, operation, validity: each decides the bytes of a panel. Names and how a batch converts do not. */
static void loaders_whose_panels_differ_share_nothing(void **state)
{
    static const fby_op plus[] = {{.kind = FBY_OP_AFFINE, .a = 1, .b = 1}}, minus[] = {{.kind = FBY_OP_AFFINE, .a = 1, .b = -1}};
    static const fby_output ROW = {.name = "row", .from = FBY_FROM_SAMPLE_INDEX};
    const fby_output variants[][2] = {
        {ROW, {.name = "y", .columns = X, .n_columns = 1, .ops = FILL(-1), .n_ops = 1}},
        {ROW, {.name = "y", .columns = X, .n_columns = 1, .ops = FILL(-2), .n_ops = 1}},
        {ROW, {.name = "y", .columns = X, .n_columns = 1, .ops = plus, .n_ops = 1}},
        {ROW, {.name = "y", .columns = X, .n_columns = 1, .ops = minus, .n_ops = 1}},
        {ROW, {.name = "y", .columns = N, .n_columns = 1, .dtype = FBY_FLOAT32}},
        {ROW, {.name = "y", .columns = ID, .n_columns = 1}},
        {ROW, {.name = "y", .from = FBY_FROM_IS_MISSING, .columns = X, .n_columns = 1}},
    };
    enum { N_VARIANTS = sizeof variants / sizeof *variants };
    (void)state;
    put_files("data", 3);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l[N_VARIANTS];
    uint64_t n;
    for (int i = 0; i < N_VARIANTS; i++) {
        l[i] = open_loader(ds, (fby_loader_opts){.outputs = variants[i], .n_outputs = 2});
        free(epoch_rows(l[i], 0, &n));
        assert_int_equal(report_of(l[i]).blocks_read, report_of(l[0]).blocks_read);
        assert_int_equal(report_of(l[i]).blocks_from_cache, 0);
    }
    for (int i = 0; i < N_VARIANTS; i++) { /* the same panels under other names, in a loader of its own */
        fby_output named[2] = {variants[i][0], variants[i][1]};
        named[1].name = "other";
        fby_loader *again = open_loader(ds, (fby_loader_opts){.outputs = named, .n_outputs = 2});
        free(epoch_rows(again, 0, &n));
        assert_int_equal(report_of(again).blocks_read, 0);
        fby_loader_close(again);
        fby_loader_close(l[i]);
    }
    assert_int_equal(fby__ledger_charged_bytes(), 0);
    fby_dataset_close(ds);
}

/* ---- files opened twice ---- */

static void set_times(const char *dir, int n, int64_t seconds)
{
    for (int i = 0; i < n; i++) {
        char path[200];
        (void)snprintf(path, sizeof path, "%s/f%02d.parquet", dir, i);
        const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
}

/* Blocks that a loader reads beside one over another opening of the same directory. */
static uint64_t read_beside(fby_dataset *one, fby_dataset *other)
{
    uint64_t n;
    fby_loader *a = open_loader(one, (fby_loader_opts){0}), *b = open_loader(other, (fby_loader_opts){0});
    free(epoch_rows(a, 0, &n));
    free(epoch_rows(b, 0, &n));
    const uint64_t blocks = report_of(b).blocks_read;
    fby_loader_close(a);
    fby_loader_close(b);
    return blocks;
}

static void the_same_files_opened_twice_are_decoded_once(void **state)
{
    (void)state;
    put_files("data", 3);
    set_times("data", 3, 1000000000);
    fby_dataset *one = open_dataset("data", NULL), *two = open_dataset("data", NULL);
    assert_int_equal(read_beside(one, two), 0);
    fby_open_opts checked = {.cache_dir = "", .verify_crc = true};
    fby_dataset *careful = open_dataset("data", &checked); /* it asked for checks that the other did not make */
    assert_true(read_beside(one, careful) > 0);
    fby_dataset_close(careful);
    set_times("data", 3, 1000000001); /* other stamps: perhaps other files */
    fby_dataset *touched = open_dataset("data", NULL);
    fby_loader *l = open_loader(two, (fby_loader_opts){0}), *other = open_loader(touched, (fby_loader_opts){0});
    uint64_t n;
    free(epoch_rows(other, 0, &n));
    assert_true(report_of(other).blocks_read > 0);
    fby_error err;
    fby_batch *b;
    assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_CHANGED); /* it says so itself, and takes nothing from the other */
    fby_loader_close(l);
    fby_loader_close(other);
    fby_dataset_close(touched);
    fby_dataset_close(one);
    fby_dataset_close(two);
}

static void files_written_just_now_are_not_trusted_to_be_the_same(void **state)
{
    (void)state;
    put_files("data", 3);
    set_times("data", 3, time(NULL) + 1000);
    fby_dataset *one = open_dataset("data", NULL), *two = open_dataset("data", NULL);
    assert_true(read_beside(one, two) > 0);
    assert_int_equal(read_beside(one, one), 0);
    fby_dataset_close(one);
    fby_dataset_close(two);
}

/* ---- budgets ---- */

static fby__account_stats stats_of(fby_loader *l)
{
    fby__account_stats s;
    fby__account_stats_of(l->engine.account, &s);
    return s;
}

static void check_memory_batch(const fby_batch *b)
{
    const int64_t *row = values_of(b, "row"), *id = values_of(b, "id");
    const float *x = values_of(b, "x");
    for (uint64_t i = 0; i < fby_batch_size(b); i++)
        if (id[i] != row[i] || x[i] != (float)((double)row[i] / 2))
            fail_msg("row %lld is wrong", (long long)row[i]);
}

static const fby_output TWO[] = {{.name = "row", .from = FBY_FROM_ROW_INDEX},
                                 {.name = "id", .columns = ID, .n_columns = 1},
                                 {.name = "x", .columns = X, .n_columns = 1}};
enum { BLOCKS = 40, BLOCK_ROWS = 5000 };

static fby_dataset *memory_dataset(void)
{
    uint64_t counts[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        counts[i] = BLOCK_ROWS;
    fby_dataset *ds = NULL;
    assert_int_equal(memory_dataset_open(counts, BLOCKS, &ds, NULL), FBY_OK);
    return ds;
}

static fby_loader_opts memory_opts(uint64_t seed, uint64_t bytes)
{
    return (fby_loader_opts){
        .outputs = TWO, .n_outputs = 3, .seed = seed, .batch_size = 100, .superbatch_samples = 10000, .memory_bytes = bytes};
}

static uint64_t least_bytes(fby_dataset *ds)
{
    fby_loader *l = open_loader(ds, memory_opts(0, 0));
    const uint64_t bytes = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    return bytes;
}

/* One row in twelve: of each block less than half is kept. */
static fby_samples *few_rows(fby_dataset *ds)
{
    const fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_ROWS};
    const fby_split_opts split = {.size = sizeof split, .kind = FBY_SPLIT_SAMPLES, .seed = 1};
    fby_samples *all = NULL, *part = NULL;
    fby_error err;
    assert_int_equal(fby_samples_open(ds, &opts, &all, &err), FBY_OK);
    assert_int_equal(fby_samples_split(all, &split, &(fby_split){.fraction = 1.0 / 12}, 1, &part, &err), FBY_OK);
    fby_samples_close(all);
    return part;
}

/* Checks all batches of an epoch; returns the number of their samples, or 0 for want of memory. */
static uint64_t check_memory_epoch(fby_loader *l, uint64_t epoch)
{
    fby_error err = {0};
    fby_batch *b = NULL;
    uint64_t n = 0;
    fby_status status = fby_loader_begin(l, epoch, &err);
    while (status == FBY_OK && (status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        check_memory_batch(b);
        n += fby_batch_size(b);
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        assert_int_equal(status, FBY_E_NOMEM);
    return status == FBY_END ? n : 0;
}

static void a_loader_of_few_rows_copies_them_from_one_that_has_the_block(void **state)
{
    (void)state;
    fby_dataset *ds = memory_dataset();
    const uint64_t before = fby__ledger_charged_bytes();
    fby_samples *few = few_rows(ds);
    fby_loader_opts opts = memory_opts(2, 0);
    opts.samples = few;
    opts.streams = 1;
    uint64_t failed = 0, went_well = 0;
    fby_loader *all = open_loader(ds, memory_opts(1, 0));
    assert_int_equal(check_memory_epoch(all, 0), BLOCKS * BLOCK_ROWS);
    for (uint64_t k = 0; went_well < 40 && k < 100000; k++) {
        fby_loader *part = open_loader(ds, opts);
        fby__alloc_fail_at(k);
        const uint64_t n = check_memory_epoch(part, 0);
        fby__alloc_fail_at(0);
        failed += n == 0;
        went_well = n ? went_well + 1 : 0;
        assert_true(n == 0 || n == fby_samples_count(few));
        assert_int_equal(report_of(part).blocks_read, 0);
        assert_true(report_of(part).budget_peak_bytes <= report_of(part).budget_bytes);
        if (went_well == 40) { /* what was copied is its own */
            fby_loader_close(all);
            assert_int_equal(check_memory_epoch(part, 1), n);
            assert_int_equal(report_of(part).blocks_read, 0);
        }
        fby_loader_close(part);
    }
    assert_int_equal(fby__ledger_charged_bytes(), before);
    assert_true(failed > 5);
    fby_samples_close(few);
    fby_dataset_close(ds);
}

/* Batches by turns: blocks are taken over, evicted here and kept there, and given up in every order. */
static void each_loader_keeps_to_its_own_budget(void **state)
{
    (void)state;
    fby_dataset *ds = memory_dataset();
    const uint64_t before = fby__ledger_charged_bytes(), least = least_bytes(ds), block = BLOCK_ROWS * 12;
    const uint64_t budgets[][2] = {{least, least}, {least, least + 40 * block}, {least + 8 * block, least + 5 * block}, {0, least}};
    uint64_t shared = 0;
    for (size_t k = 0; k < sizeof budgets / sizeof *budgets; k++)
        for (int first = 0; first < 2; first++) {
            fby_loader *l[2];
            fby_error err = {0};
            for (int i = 0; i < 2; i++) {
                l[i] = open_loader(ds, memory_opts((uint64_t)i, budgets[k][i]));
                assert_int_equal(fby_loader_begin(l[i], 0, &err), FBY_OK);
            }
            for (int turn = 0; turn < 2 * 2100; turn++) {
                fby_batch *b = NULL;
                const fby_status status = fby_loader_next(l[turn % 2], -1, &b, &err);
                if (status == FBY_END) {
                    assert_int_equal(fby_loader_begin(l[turn % 2], 1, &err), FBY_OK);
                    continue;
                }
                assert_int_equal(status, FBY_OK);
                check_memory_batch(b);
                fby_batch_unref(b);
            }
            for (int i = 0; i < 2; i++) {
                const fby__account_stats s = stats_of(l[i]);
                assert_true(s.charged_bytes <= s.limit_bytes);
                assert_int_equal(s.forced_bytes, 0);
                const fby_report r = report_of(l[i]);
                shared += r.blocks_from_cache > 0 && r.blocks_read < BLOCKS;
            }
            fby_loader_close(l[first]);
            fby_loader_close(l[1 - first]);
            assert_int_equal(fby__ledger_charged_bytes(), before);
        }
    assert_true(shared > 0);
    fby_dataset_close(ds);
}

/* ---- threads ---- */

typedef struct consumer {
    fby_dataset *ds;
    fby_samples *few; /* of every other loader */
    uint64_t seed, least;
    uint64_t n_shared;
    bool wrong;
} consumer;

static void *consume(void *user)
{
    consumer *c = user;
    fby__random random = {.key = c->seed};
    for (int round = 0; round < 12 && !c->wrong; round++) {
        fby_loader *l = NULL;
        fby_error err = {0};
        fby_loader_opts opts = memory_opts(c->seed + (uint64_t)round, c->least + fby__random_below(&random, 45) * BLOCK_ROWS * 12);
        if (round % 2) {
            opts.samples = c->few;
            opts.superbatch_samples = 2000;
            opts.memory_bytes += (uint64_t)6 * BLOCK_ROWS * 12; /* two blocks as a whole beside what is kept of all */
        }
        if (try_loader(c->ds, opts, &l, &err) != FBY_OK || fby_loader_begin(l, 0, &err) != FBY_OK) {
            c->wrong = true;
            return NULL;
        }
        fby_batch *b = NULL, *held = NULL;
        for (uint64_t left = fby__random_below(&random, 3000); left > 0 && !c->wrong; left--) {
            const fby_status status = fby_loader_next(l, -1, &b, &err);
            if (status == FBY_END) {
                c->wrong = fby_loader_begin(l, fby__random_below(&random, 4), &err) != FBY_OK;
                continue;
            }
            if ((c->wrong = status != FBY_OK))
                break;
            const int64_t *row = values_of(b, "row"), *id = values_of(b, "id");
            for (uint64_t i = 0; i < fby_batch_size(b); i++)
                c->wrong |= row[i] != id[i];
            fby_batch_unref(held);
            held = b; /* the last one outlives the loader */
        }
        const fby_report r = report_of(l);
        c->n_shared += r.blocks_from_cache;
        fby_loader_close(l);
        fby_batch_unref(held);
    }
    return NULL;
}

static void loaders_on_several_threads_open_evict_and_close_at_any_moment(void **state)
{
    (void)state;
    enum { CONSUMERS = 3 };
    fby_dataset *ds = memory_dataset();
    consumer c[CONSUMERS];
    pthread_t id[CONSUMERS];
    fby_samples *few = few_rows(ds);
    const uint64_t before = fby__ledger_charged_bytes(), seed = test_seed(), least = least_bytes(ds);
    for (uint64_t i = 0; i < CONSUMERS; i++) {
        c[i] = (consumer){.ds = ds, .few = few, .seed = seed + 1000 * i, .least = least};
        assert_int_equal(pthread_create(&id[i], NULL, consume, &c[i]), 0);
    }
    uint64_t shared = 0;
    for (int i = 0; i < CONSUMERS; i++) {
        assert_int_equal(pthread_join(id[i], NULL), 0);
        assert_false(c[i].wrong);
        shared += c[i].n_shared;
    }
    assert_true(shared > 0);
    assert_int_equal(fby__ledger_charged_bytes(), before);
    fby_samples_close(few);
    fby_dataset_close(ds);
}

static void a_child_of_fork_shares_with_nobody_of_its_parent(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* ThreadSanitizer refuses threads in a child of a program with threads */
#endif
    put_files("data", 2);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){0});
    uint64_t n;
    free(epoch_rows(l, 0, &n));
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        fby_dataset *own = open_dataset("data", NULL);
        fby_loader *mine = open_loader(own, (fby_loader_opts){0}), *second = open_loader(own, (fby_loader_opts){0});
        free(epoch_rows(mine, 0, &n));
        free(epoch_rows(second, 0, &n));
        const bool good = report_of(mine).blocks_read > 0 && report_of(second).blocks_read == 0;
        fby_loader_close(mine);
        fby_loader_close(second);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_second_of_two_loaders_reads_nothing_and_delivers_the_same),
        TEST(one_that_opens_later_gets_what_was_decoded_before),
        TEST(whichever_allocation_of_the_second_fails_nothing_is_lost),
        TEST(loaders_whose_panels_differ_share_nothing),
        TEST(the_same_files_opened_twice_are_decoded_once),
        TEST(files_written_just_now_are_not_trusted_to_be_the_same),
        TEST(each_loader_keeps_to_its_own_budget),
        TEST(a_loader_of_few_rows_copies_them_from_one_that_has_the_block),
        TEST(loaders_on_several_threads_open_evict_and_close_at_any_moment),
        TEST(a_child_of_fork_shares_with_nobody_of_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
