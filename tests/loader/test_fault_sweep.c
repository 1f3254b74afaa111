/*
 * A life from open to resume with one fault: an allocation, an I/O operation or a request to the HDF5 helper program fails. It ends right or with a
 * clear error. Then the same again without faults, over the caches that the first one left: it is right and complete, whatever failed.
 *
 * FBY_FAULT_POINTS=0 (make faults) visits every point; without it some are, evenly spread.
 */
#include "support/loader_fixture.h"

#include "base/hash.h"

#include <stdlib.h>
#include <time.h>

enum { FEW_POINTS = 40, LIFE_SECONDS = 60 };

/* What is looked at: values by row of Parquet files, or a data set that only libhdf5 reads. */
typedef struct subject {
    const char *path, *key; /* key NULL: no scan */
    const char *column;
    bool all; /* the budget is for everything: lists are read for it when the loader is opened */
} subject;

static const subject PARQUET = {"data", "n", "id", false}, LISTS = {"data", NULL, "hits", true}, HDF5 = {"virtual.h5", NULL, "all", false};

static fby_status add_batches(fby_loader *l, uint64_t most, fby__hash128 *io, fby_error *err)
{
    fby_batch *b;
    for (uint64_t i = 0; i < most; i++) {
        fby_status status = fby_loader_next(l, -1, &b, err);
        if (status != FBY_OK)
            return status == FBY_END ? FBY_OK : status;
        for (size_t t = 0; t < fby_batch_tensor_count(b); t++)
            *io = fby__hash_more(*io, fby_batch_tensor(b, t)->data, fby_batch_tensor(b, t)->bytes);
        fby_batch_unref(b);
    }
    return FBY_OK;
}

/* Two batches; their state in a loader of its own; the rest of the epoch. */
static fby_status take_epoch(fby_dataset *ds, const fby_loader_opts *opts, fby__hash128 *io, fby_error *err)
{
    fby_loader_state state = {.size = sizeof state};
    fby_loader *l = NULL;
    fby_status status = fby_loader_open(ds, opts, &l, err);
    if (status == FBY_OK)
        status = add_batches(l, 2, io, err);
    if (status == FBY_OK)
        status = fby_loader_state_get(l, &state, err);
    fby_loader_close(l);
    l = NULL;
    if (status == FBY_OK)
        status = fby_loader_open(ds, opts, &l, err);
    if (status == FBY_OK)
        status = fby_loader_state_set(l, &state, err);
    if (status == FBY_OK)
        status = add_batches(l, UINT64_MAX, io, err);
    fby_loader_close(l);
    return status;
}

/* All that is to be had of the subject, as one number. */
static fby_status live(const subject *s, fby__hash128 *out, fby_error *err)
{
    fby_dataset *ds = NULL;
    fby_samples *samples = NULL;
    *out = (fby__hash128){0};
    (void)alarm(LIFE_SECONDS);
    fby_status status = try_open(s->path, &(fby_open_opts){.cache_dir = "cache"}, &ds, err);
    const fby_samples_opts groups = {.size = sizeof groups, .kind = FBY_SAMPLES_GROUPS, .key = s->key};
    if (status == FBY_OK && s->key)
        status = fby_samples_open(ds, &groups, &samples, err);
    const fby_output output = {.name = "x", .columns = &s->column, .n_columns = 1, .dtype = FBY_FLOAT64};
    fby_loader_opts opts = {.samples = samples,
                            .outputs = &output,
                            .n_outputs = 1,
                            .batch_size = 4,
                            .shuffle = FBY_SHUFFLE_SUPERBATCH,
                            .tail = FBY_TAIL_KEEP,
                            .memory_all = s->all,
                            .n_threads = 2};
    set_sizes(&opts);
    if (status == FBY_OK)
        status = take_epoch(ds, &opts, out, err);
    fby_samples_close(samples);
    fby_dataset_close(ds);
    return status;
}

static void empty_cache(void)
{
    if (system("rm -rf cache && mkdir -m 755 cache") != 0)
        fail_msg("no empty cache");
}

static void set_fault(bool io, uint64_t n)
{
    fby__alloc_fail_at(io ? 0 : n);
    fby__io_set_fault(&(fby__io_fault){.fail_at = io ? n : 0});
}

static void sweep(const subject *s, bool io)
{
    const char *points = getenv("FBY_FAULT_POINTS");
    const uint64_t most = points ? strtoull(points, NULL, 10) : FEW_POINTS;
    fby__hash128 right, got;
    fby_error err = {0};
    empty_cache();
    if (live(s, &right, &err) != FBY_OK)
        fail_msg("%s: %s", s->path, err.message);
    empty_cache();
    fby__io_set_fault(&(fby__io_fault){0});
    const uint64_t before = fby__alloc_count();
    assert_int_equal(live(s, &got, &err), FBY_OK);
    const uint64_t total = io ? fby__io_fault_count() : fby__alloc_count() - before, step = most ? total / most + 1 : 1;
    uint64_t failed = 0, n_points = 0;
    for (uint64_t n = 1; n <= total; n += step, n_points++) {
        empty_cache();
        err = (fby_error){0};
        set_fault(io, n);
        fby_status status = live(s, &got, &err);
        set_fault(io, 0);
        failed += status != FBY_OK;
        if (status == FBY_OK ? !fby__hash_equal(got, right) : err.code != status || !err.message[0] || status == FBY_E_INTERNAL)
            fail_msg("%s, fault %llu: %s '%s'", s->path, (unsigned long long)n, fby_status_name(status), err.message);
        status = live(s, &got, &err);
        if (status != FBY_OK || !fby__hash_equal(got, right))
            fail_msg("%s, after fault %llu: %s '%s'", s->path, (unsigned long long)n, fby_status_name(status), err.message);
    }
    print_message("%s: %llu %s, %llu failed in turn, %llu of them were errors\n", s->path, (unsigned long long)total,
                  io ? "operations" : "allocations", (unsigned long long)n_points, (unsigned long long)failed);
    assert_true(failed > 0);
}

/* Files of an hour ago: caches trust them. */
static void make_old(const char *path)
{
    const struct timespec times[2] = {{time(NULL) - 3600, 0}, {time(NULL) - 3600, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void put_parquet(void)
{
    put_files("data", 2);
    make_old("data/f00.parquet");
    make_old("data/f01.parquet");
}

static void put_hdf5(void)
{
    static const char *const NAMES[] = {"virtual.h5", "part_0.h5", "part_1.h5"};
    fby_dataset *ds = NULL;
    fby_error err = {0};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char command[600];
        (void)snprintf(command, sizeof command, "cp %s/golden/hdf5_helper/%s .", FBY_TEST_DATA, NAMES[i]);
        assert_int_equal(system(command), 0);
        make_old(NAMES[i]);
    }
    if (try_open("virtual.h5", NULL, &ds, &err) != FBY_OK || fby_dataset_left_out(ds, 0)) {
        print_message("skipped: %s\n", ds ? fby_dataset_left_out(ds, 0) : err.message);
        fby_dataset_close(ds);
        skip();
    }
    fby_dataset_close(ds);
}

static void after_an_allocation_that_failed_parquet_files_are_right_and_complete(void **state)
{
    (void)state;
    put_parquet();
    sweep(&PARQUET, false);
}

static void after_an_allocation_that_failed_lists_are_measured_and_held(void **state)
{
    (void)state;
    put_parquet();
    sweep(&LISTS, false);
}

static void after_an_operation_that_failed_parquet_files_are_right_and_complete(void **state)
{
    (void)state;
    put_parquet();
    sweep(&PARQUET, true);
}

static void after_an_allocation_that_failed_a_virtual_data_set_is_right_and_complete(void **state)
{
    (void)state;
    put_hdf5();
    sweep(&HDF5, false);
}

static void after_an_operation_or_request_that_failed_a_virtual_data_set_is_right_and_complete(void **state)
{
    (void)state;
    put_hdf5();
    sweep(&HDF5, true);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(after_an_allocation_that_failed_parquet_files_are_right_and_complete),
        TEST(after_an_allocation_that_failed_lists_are_measured_and_held),
        TEST(after_an_operation_that_failed_parquet_files_are_right_and_complete),
        TEST(after_an_allocation_that_failed_a_virtual_data_set_is_right_and_complete),
        TEST(after_an_operation_or_request_that_failed_a_virtual_data_set_is_right_and_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
