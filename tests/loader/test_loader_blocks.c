/*
 * What a loader keeps of each block beside its rows is in its budget, so that millions of small blocks are not more than what was said: their place
 * in the order of an epoch and of the next, what is known of them, and the entries of those that are in the cache. By what malloc has given out.
 */
#include "support/loader_sizes.h"
#include "support/memory_dataset.h"

#include "loader/internal.h"

#include <forebay/forebay.h>

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { BLOCKS = 30000 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char *ID[] = {"id"};
static const fby_output OUTPUTS[] = {{.name = "id", .columns = ID, .n_columns = 1}};

static uint64_t heap_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static uint64_t charged_bytes(const fby_loader *l)
{
    fby__account_stats s;
    fby__account_stats_of(l->engine.account, &s);
    return s.charged_bytes;
}

static int skip_sanitized(void)
{
    if (SANITIZED) {
        print_message("skipped: a sanitizer has a malloc of its own\n");
        skip();
    }
    return SANITIZED;
}

/* Blocks of a row each. */
static fby_dataset *dataset_of(uint32_t n)
{
    uint64_t *counts = malloc(n * sizeof *counts);
    fby_dataset *ds = NULL;
    fby_error err = {0};
    assert_non_null(counts);
    for (uint32_t i = 0; i < n; i++)
        counts[i] = 1;
    if (memory_dataset_open(counts, n, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    free(counts);
    return ds;
}

static fby_status try_open(fby_dataset *ds, const fby_mix *mix, fby_loader_opts opts, fby_loader **out, fby_error *err)
{
    set_sizes(&opts);
    opts.outputs = OUTPUTS;
    opts.n_outputs = 1;
    opts.batch_size = 64;
    opts.n_threads = 2;
    return mix ? fby_loader_open_mix(mix, &opts, out, err) : fby_loader_open(ds, &opts, out, err);
}

static fby_loader *open_loader(fby_dataset *ds, const fby_mix *mix, fby_loader_opts opts)
{
    fby_loader *l = NULL;
    fby_error err = {0};
    if (try_open(ds, mix, opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

static void read_batches(fby_loader *l, uint64_t epoch, uint64_t n)
{
    fby_error err = {0};
    if (fby_loader_begin(l, epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    for (uint64_t i = 0; i < n; i++) {
        fby_batch *b;
        const fby_status status = fby_loader_next(l, -1, &b, &err);
        if (status == FBY_END)
            return;
        if (status != FBY_OK)
            fail_msg("%s", err.message);
        fby_batch_unref(b);
    }
}

/* In the middle of an epoch, of which and of the next the orders are there, and of the blocks very few. */
static void check_orders(const char *what, fby_dataset *ds, const fby_mix *mix, fby_loader_opts opts)
{
    opts.memory_bytes = (uint64_t)4 << 30;
    fby_loader *l = open_loader(ds, mix, opts);
    fby_report r = {.size = sizeof r};
    assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
    fby_loader_close(l);
    opts.memory_bytes = r.budget_minimum_bytes;
    const uint64_t before = heap_bytes();
    l = open_loader(ds, mix, opts);
    /* What is charged but for the workers' scratch and three of four orders, which are not there yet. */
    const uint64_t opened = heap_bytes() - before,
                   known = charged_bytes(l) - 3 * fby__plan_epoch_bytes(l->plan) - (uint64_t)l->config.n_threads * l->memory.worker_bytes;
    read_batches(l, 0, 20);
    read_batches(l, 1, 20);
    const uint64_t took = heap_bytes() - before, said = charged_bytes(l);
    print_message("%s: %.2f MiB, charged %.2f MiB; when opened %.2f MiB, charged %.2f MiB\n", what, (double)took / (1 << 20),
                  (double)said / (1 << 20), (double)opened / (1 << 20), (double)known / (1 << 20));
    assert_true(took <= said && opened <= known);
    assert_true(took > said / 3); /* or it would be no test */
    fby_loader_close(l);
}

static void the_order_of_many_blocks_is_in_the_smallest_budget(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"a", "b"};
    fby_mix_source sources[2];
    if (skip_sanitized())
        return;
    fby_dataset *ds[] = {dataset_of(BLOCKS), dataset_of(BLOCKS / 2)};
    check_orders("superbatches", ds[0], NULL, (fby_loader_opts){.superbatch_samples = 500});
    check_orders("blocks", ds[0], NULL, (fby_loader_opts){.shuffle = FBY_SHUFFLE_BLOCK});
    check_orders("file order", ds[0], NULL, (fby_loader_opts){.shuffle = FBY_SHUFFLE_NONE});
    for (int i = 0; i < 2; i++) {
        const fby_samples_opts rows = {.size = sizeof rows, .kind = FBY_SAMPLES_ROWS};
        sources[i] = (fby_mix_source){.name = NAMES[i]};
        assert_int_equal(fby_samples_open(ds[i], &rows, &sources[i].samples, NULL), FBY_OK);
    }
    const fby_mix mix = {.size = sizeof mix, .source_size = sizeof *sources, .sources = sources, .n_sources = 2, .stop = FBY_MIX_ALL};
    check_orders("a mixture", NULL, &mix, (fby_loader_opts){.superbatch_samples = 500});
    for (int i = 0; i < 2; i++) {
        fby_samples_close(sources[i].samples);
        fby_dataset_close(ds[i]);
    }
}

static void a_block_is_charged_for_its_entry_as_long_as_it_is_there(void **state)
{
    (void)state;
    enum { FEW = 3000 };
    if (skip_sanitized())
        return;
    fby_dataset *ds = dataset_of(FEW);
    const fby_loader_opts opts = {.memory_bytes = (uint64_t)1 << 30};
    fby_loader *l = open_loader(ds, NULL, opts),
               *other = open_loader(ds, NULL, opts); /* for which blocks are set out: that is charged always */
    read_batches(l, 0, UINT64_MAX);
    pthread_mutex_lock(&l->schedule.lock);
    const uint64_t heap = heap_bytes(), charged = charged_bytes(l), entries = fby__cache_count(l->schedule.cache);
    fby__cache_evict_all(l->schedule.cache); /* rows stay charged, as idle slabs */
    const uint64_t freed = heap - heap_bytes(), discharged = charged - charged_bytes(l);
    fby__schedule_unlock(l);
    print_message("%llu entries: %llu bytes freed, %llu discharged\n", (unsigned long long)entries, (unsigned long long)freed,
                  (unsigned long long)discharged);
    assert_int_equal(entries, FEW);
    assert_int_equal(discharged, FEW * fby__load_entry_bytes(&l->outputs));
    assert_true(freed <= discharged && freed > discharged / 2);
    fby_loader_close(l);
    fby_loader_close(other);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_many_blocks_is_in_the_smallest_budget),
        cmocka_unit_test(a_block_is_charged_for_its_entry_as_long_as_it_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
