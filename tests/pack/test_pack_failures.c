/*
 * Packing while every allocation fails in turn: an error, nothing under a final name, and the next call goes on to the same bytes; by several threads, and
 * task by task, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "support/files.h"
#include "support/temp_dir.h"

#include "format/hdf5/client/output.h"

#include <forebay/pack.h>

#define GOLDEN FBY_SOURCE_DIR "/tests/golden/ipc/"

static fby_dataset *open_golden(const char *name)
{
    char path[600];
    fby_error err;
    fby_dataset *ds;
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    const fby_source source = {.path = path};
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1};
    if (fby_dataset_open(&source, 1, &opts, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

/* Names in a folder that do not begin with a dot. */
static size_t count_visible(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        (void)closedir(d);
    return n;
}

static void expect_equal_files(const char *folder, const char *other, uint64_t files, const char *extension)
{
    uint64_t found = 0;
    DIR *d = opendir(other);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[2][900];
        if (strncmp(e->d_name, "part-", 5) != 0)
            continue;
        assert_string_equal(strrchr(e->d_name, '.') + 1, extension);
        (void)snprintf(path[0], sizeof path[0], "%s/%s", folder, e->d_name);
        (void)snprintf(path[1], sizeof path[1], "%s/%s", other, e->d_name);
        size_t a_n, b_n;
        uint8_t *a = read_bytes(path[0], &a_n), *b = read_bytes(path[1], &b_n);
        assert_int_equal(a_n, b_n);
        assert_memory_equal(a, b, a_n);
        free(a);
        free(b);
        found++;
    }
    (void)closedir(d);
    assert_int_equal(found, files);
}

static void sweep(fby_dataset *ds, const char *name, fby_pack_opts opts, const char *extension)
{
    fby_error err;
    char whole[600], broken[600];
    fby_pack_info info = {.size = sizeof info};
    opts.size = sizeof opts;
    opts.memory_bytes = (uint64_t)64 << 20;
    opts.n_threads = 1;
    opts.batch_rows = 100;
    opts.rows_per_file = 300;
    const char *what = opts.loader ? "samples" : "rows";
    (void)snprintf(whole, sizeof whole, "%s/%s-%s-whole", g_dir, what, name);
    if (fby_pack(ds, whole, &opts, &info, &err) != FBY_OK)
        fail_msg("%s: %s", name, err.message);
    uint64_t failed = 0;
    for (uint64_t at = 1;; at += 1 + at / 16) { /* the first ones, and ever fewer of what comes again for each batch */
        (void)snprintf(broken, sizeof broken, "%s/%s-%s-%llu", g_dir, what, name, (unsigned long long)at);
        const uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        const fby_status status = fby_pack(ds, broken, &opts, NULL, &err);
        fby__alloc_fail_at(0);
        if (status == FBY_OK && fby__alloc_count() - before < at)
            break;
        if (status != FBY_OK) { /* else it did without: an allocation of the reader that it may forgo */
            assert_int_equal(status, FBY_E_NOMEM);
            assert_int_equal(count_visible(broken), 0);
            failed++;
            if (fby_pack(ds, broken, &opts, NULL, &err) != FBY_OK)
                fail_msg("%s, after allocation %llu: %s", name, (unsigned long long)at, err.message);
        }
        expect_equal_files(broken, whole, info.files, extension);
    }
    print_message("%s, %s: %llu failed\n", name, extension, (unsigned long long)failed);
    assert_true(failed > 20);
}

static void sweep_rows(const char *name, fby_pack_opts opts, const char *extension)
{
    fby_dataset *ds = open_golden(name);
    sweep(ds, name, opts, extension);
    fby_dataset_close(ds);
}

static void every_failing_allocation_leaves_a_pack_that_goes_on(void **state)
{
    (void)state;
    sweep_rows("numbers.arrow", (fby_pack_opts){.seed = 1}, "arrow");
    sweep_rows("nested.arrow", (fby_pack_opts){.seed = 2, .codec = FBY_PACK_CODEC_ZSTD, .verify = true}, "arrow");
    sweep_rows("texts.arrow", (fby_pack_opts){.shuffle = FBY_PACK_SHUFFLE_NONE, .format = FBY_PACK_PARQUET}, "parquet");
}

/* Rows with a text of three values, and without nulls. */
static fby_dataset *open_csv(void)
{
    char path[600];
    fby_error err;
    fby_dataset *ds;
    (void)snprintf(path, sizeof path, "%s/rows.csv", g_dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "region,i\n");
    for (int i = 0; i < 40; i++)
        (void)fprintf(f, "%s,%d\n", (const char *[]){"north", "a b", "Z\xC3\xBCrich"}[i % 3], i);
    assert_int_equal(fclose(f), 0);
    const fby_source source = {.path = path};
    const fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1};
    if (fby_dataset_open(&source, 1, &opts, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static void so_does_one_by_a_key(void **state)
{
    (void)state;
    fby_dataset *ds = open_csv();
    sweep(ds, "by", (fby_pack_opts){.seed = 3, .by = "region", .verify = true}, "arrow");
    fby_dataset_close(ds);
}

static void so_does_one_of_hdf5(void **state)
{
    (void)state;
    fby_error err;
    if (fby__h5_output_find(NULL, &err) != FBY_OK) {
        print_message("skipped: %s\n", err.message);
        skip();
    }
    fby_dataset *ds = open_csv();
    sweep(ds, "hdf5", (fby_pack_opts){.seed = 4, .format = FBY_PACK_HDF5, .codec = FBY_PACK_CODEC_GZIP}, "hdf5");
    fby_dataset_close(ds);
}

static void so_do_samples_of_a_pipeline(void **state)
{
    (void)state;
    const fby_output outputs[] = {
        {.name = "x", .columns = (const char *[]){"float", "double"}, .n_columns = 2, .dtype = FBY_FLOAT32},
        {.name = "y", .columns = (const char *[]){"int32"}, .n_columns = 1, .dtype = FBY_FLOAT64, .layout = FBY_LAYOUT_PADDED},
        {.name = "n", .from = FBY_FROM_N_ROWS}};
    fby_loader_opts loader = {FBY_LOADER_SIZES, .outputs = outputs, .n_outputs = 3};
    fby_dataset *ds = open_golden("numbers.arrow");
    const fby_samples_opts of = {.size = sizeof of, .kind = FBY_SAMPLES_GROUPS, .rows = 3};
    fby_error err;
    if (fby_samples_open(ds, &of, &loader.samples, &err) != FBY_OK)
        fail_msg("%s", err.message);
    sweep(ds, "numbers.arrow", (fby_pack_opts){.seed = 1, .loader = &loader, .verify = true}, "arrow");
    fby_samples_close(loader.samples);
    fby_dataset_close(ds);
}

/* By the bytes; ThreadSanitizer looks on. */
static void threads_decide_nothing(void **state)
{
    (void)state;
    fby_error err;
    fby_dataset *ds = open_golden("numbers.arrow");
    for (int i = 0; i < 4; i++) {
        char alone[600], together[600];
        fby_pack_info info = {.size = sizeof info};
        fby_pack_opts opts = {.size = sizeof opts, .seed = 3, .memory_bytes = (uint64_t)256 << 20, .batch_rows = 1, .rows_per_file = 1};
        opts.shuffle = i & 1 ? FBY_PACK_SHUFFLE_NONE : FBY_PACK_SHUFFLE_FULL;
        opts.format = i & 2 ? FBY_PACK_PARQUET : FBY_PACK_ARROW;
        opts.verify = true;
        (void)snprintf(alone, sizeof alone, "%s/alone-%d", g_dir, i);
        (void)snprintf(together, sizeof together, "%s/together-%d", g_dir, i);
        opts.n_threads = 1;
        assert_int_equal(fby_pack(ds, alone, &opts, &info, &err), FBY_OK);
        assert_true(info.files > 8);
        opts.n_threads = 4;
        if (fby_pack(ds, together, &opts, &info, &err) != FBY_OK)
            fail_msg("%s", err.message);
        expect_equal_files(together, alone, info.files, i & 2 ? "parquet" : "arrow");
    }
    fby_dataset_close(ds);
}

/* ---- task by task ---- */

typedef struct counts {
    uint64_t n[FBY_PACK_FINISH + 1];
} counts;

static bool count_task(void *user, const fby_pack_task *task)
{
    ((counts *)user)->n[task->phase] = task->n;
    return true;
}

typedef struct worker {
    fby_dataset *ds;
    const char *to;
    fby_pack_opts opts;
    fby_pack_phase phase;
    uint64_t n;
    fby_status status;
    fby_error err;
} worker;

/* All tasks of a phase. */
static void *run_phase(void *arg)
{
    worker *w = arg;
    w->status = FBY_OK;
    for (uint64_t k = 0; w->status == FBY_OK && k < w->n; k++)
        w->status = fby_pack_run_task(w->ds, w->to, &w->opts, w->phase, k, NULL, &w->err);
    return NULL;
}

static fby_status run_tasks(fby_dataset *ds, const char *to, const fby_pack_opts *opts, fby_error *err)
{
    counts c = {{0}};
    FBY__TRY(fby_pack_tasks(ds, to, opts, count_task, &c, err));
    for (int phase = FBY_PACK_PLAN; phase <= FBY_PACK_FINISH; phase++) {
        worker w = {.ds = ds, .to = to, .opts = *opts, .phase = (fby_pack_phase)phase, .n = c.n[phase]};
        (void)run_phase(&w);
        if (w.status != FBY_OK) {
            *err = w.err;
            return w.status;
        }
    }
    return FBY_OK;
}

static void every_failing_allocation_of_a_task_leaves_tasks_that_go_on(void **state)
{
    (void)state;
    fby_error err;
    char whole[600], broken[600];
    fby_dataset *ds = open_golden("nested.arrow");
    fby_pack_info info = {.size = sizeof info};
    const fby_pack_opts opts = {
        .size = sizeof opts, .seed = 4, .memory_bytes = (uint64_t)64 << 20, .batch_rows = 100, .rows_per_file = 300};
    (void)snprintf(whole, sizeof whole, "%s/tasks-whole", g_dir);
    assert_int_equal(fby_pack(ds, whole, &opts, &info, &err), FBY_OK);
    uint64_t failed = 0;
    for (uint64_t at = 1;; at += 1 + at / 16) {
        (void)snprintf(broken, sizeof broken, "%s/tasks-%llu", g_dir, (unsigned long long)at);
        const uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        const fby_status status = run_tasks(ds, broken, &opts, &err);
        fby__alloc_fail_at(0);
        if (status == FBY_OK && fby__alloc_count() - before < at)
            break;
        if (status != FBY_OK) {
            assert_int_equal(status, FBY_E_NOMEM);
            failed++;
            if (run_tasks(ds, broken, &opts, &err) != FBY_OK)
                fail_msg("after allocation %llu: %s", (unsigned long long)at, err.message);
        }
        expect_equal_files(broken, whole, info.files, "arrow");
    }
    print_message("tasks: %llu failed\n", (unsigned long long)failed);
    assert_true(failed > 20);
    fby_dataset_close(ds);
}

enum { TOGETHER = 4 };

/* Four threads, as four processes would, each run every task of a phase; the lock is of an open file, so that they do not share it. */
static void tasks_that_run_twice_at_a_time_decide_nothing(void **state)
{
    (void)state;
    fby_error err;
    char whole[600], together[600];
    fby_dataset *ds = open_golden("numbers.arrow");
    fby_pack_info info = {.size = sizeof info};
    const fby_pack_opts opts = {.size = sizeof opts, .seed = 3, .memory_bytes = (uint64_t)32 << 20, .batch_rows = 1, .rows_per_file = 3};
    (void)snprintf(whole, sizeof whole, "%s/once", g_dir);
    (void)snprintf(together, sizeof together, "%s/four-times", g_dir);
    assert_int_equal(fby_pack(ds, whole, &opts, &info, &err), FBY_OK);
    counts c = {{0}};
    assert_int_equal(fby_pack_tasks(ds, together, &opts, count_task, &c, &err), FBY_OK);
    for (int phase = FBY_PACK_PLAN; phase <= FBY_PACK_FINISH; phase++) {
        pthread_t threads[TOGETHER];
        worker workers[TOGETHER];
        for (int i = 0; i < TOGETHER; i++) {
            workers[i] = (worker){.ds = ds, .to = together, .opts = opts, .phase = (fby_pack_phase)phase, .n = c.n[phase]};
            assert_int_equal(pthread_create(&threads[i], NULL, run_phase, &workers[i]), 0);
        }
        for (int i = 0; i < TOGETHER; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            if (workers[i].status != FBY_OK)
                fail_msg("%s: %s", fby_pack_phase_name((fby_pack_phase)phase), workers[i].err.message);
        }
    }
    expect_equal_files(together, whole, info.files, "arrow");
    fby_dataset_close(ds);
}

static void an_older_program_is_served_and_a_struct_without_size_refused(void **state)
{
    (void)state;
    fby_error err;
    fby_dataset *ds = open_golden("numbers.arrow");
    fby_pack_opts opts = {.size = 0};
    assert_int_equal(fby_pack(ds, "/nowhere", &opts, NULL, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "fby_pack_opts"));
    assert_int_equal(fby_pack(NULL, "/nowhere", NULL, NULL, &err), FBY_E_ARG);
    assert_int_equal(fby_pack(ds, "", NULL, NULL, &err), FBY_E_ARG);
    opts = (fby_pack_opts){.size = sizeof opts, .format = (fby_pack_format)7};
    assert_int_equal(fby_pack(ds, "/nowhere", &opts, NULL, &err), FBY_E_ARG);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_failing_allocation_leaves_a_pack_that_goes_on, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(so_does_one_by_a_key, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(so_does_one_of_hdf5, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(so_do_samples_of_a_pipeline, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(threads_decide_nothing, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(every_failing_allocation_of_a_task_leaves_tasks_that_go_on, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(tasks_that_run_twice_at_a_time_decide_nothing, setup_dir, teardown_dir),
        cmocka_unit_test(an_older_program_is_served_and_a_struct_without_size_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
