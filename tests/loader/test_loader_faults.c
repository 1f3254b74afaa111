/*
 * Faults from open to close: every allocation and every I/O operation failing in turn, short reads, truncated, damaged,
 * vanished and changed files, and things that are no files. Each run ends with right data or with an error that says what
 * and where; nothing leaks (AddressSanitizer; descriptors and the ledger are counted here), nothing hangs (alarm).
 */
#include "support/loader_fixture.h"
#include "support/test_seed.h"

#include "budget/budget.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { RUN_SECONDS = 60, MAX_POINTS = 400 };

static const char *const SWEPT[] = {"rows_none", "rows_snappy", "rows_gzip", "rows_zstd", "rows_lz4", "rows_brotli"};

static const fby_io_engine ENGINES[] = {FBY_IO_AUTO, FBY_IO_THREADS};

static const char *g_forget; /* a directory whose files are deleted before each run */

static void forget(void)
{
    DIR *d = g_forget ? opendir(g_forget) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/%s", g_forget, e->d_name);
        (void)unlink(path); /* "." and ".." refuse */
    }
    if (d)
        (void)closedir(d);
}

/* Open → at most 3 batches → close. Data that is delivered is right; how it ended is returned. */
static fby_status run_path(const char *path, const fby_open_opts *opts, const fby_loader_opts *how, fby_error *err)
{
    fby_dataset *ds = NULL;
    fby_loader *l = NULL;
    fby_batch *b = NULL;
    (void)alarm(RUN_SECONDS);
    forget();
    fby_status status = try_open(path, opts, &ds, err);
    if (status == FBY_OK)
        status = try_loader(ds, how ? *how : (fby_loader_opts){.batch_size = 16}, &l, err);
    for (int i = 0; i < 3 && status == FBY_OK; i++) {
        status = fby_loader_next(l, -1, &b, err);
        if (status == FBY_OK) {
            check_batch(b);
            fby_batch_unref(b);
        }
    }
    fby_loader_close(l);
    fby_dataset_close(ds);
    return status == FBY_END ? FBY_OK : status;
}

static void expect_clear(fby_status status, const fby_error *err, const char *what, uint64_t point)
{
    if (status == FBY_OK)
        return;
    if (err->code != status || !err->message[0] || status == FBY_E_INTERNAL || status == FBY_E_CANCELLED || status == FBY_E_STATE)
        fail_msg("%s, point %llu: status %s with code %s and the message '%s'", what, (unsigned long long)point, fby_status_name(status),
                 fby_status_name(err->code), err->message);
}

static void expect_nothing_left(const char *what, uint64_t point, int descriptors)
{
    if (fby__ledger_charged_bytes() != 0)
        fail_msg("%s, point %llu: %llu bytes stay charged", what, (unsigned long long)point,
                 (unsigned long long)fby__ledger_charged_bytes());
    if (count_descriptors() != descriptors)
        fail_msg("%s, point %llu: %d descriptors, before %d", what, (unsigned long long)point, count_descriptors(), descriptors);
}

/* Points 1, 2, … when there are few, else spread evenly. */
static uint64_t next_point(uint64_t point, uint64_t total)
{
    uint64_t step = total / MAX_POINTS + 1;
    return point + step;
}

static void sweep_allocations(const char *what, const char *path, const fby_open_opts *opts, const fby_loader_opts *how)
{
    fby_error err = {0};
    uint64_t before = fby__alloc_count(), injected = 0, refused = 0;
    if (run_path(path, opts, how, &err) != FBY_OK)
        fail_msg("%s: %s", what, err.message);
    uint64_t total = fby__alloc_count() - before;
    int descriptors = count_descriptors();
    for (uint64_t n = 1; n <= total + 5; n = next_point(n, total)) {
        err = (fby_error){0};
        fby__alloc_fail_at(n);
        fby_status status = run_path(path, opts, how, &err);
        fby__alloc_fail_at(0);
        expect_clear(status, &err, what, n);
        expect_nothing_left(what, n, descriptors);
        injected++;
        refused += status != FBY_OK;
    }
    print_message("%s: %llu allocations, %llu failed in turn, %llu of these runs ended in an error\n", what, (unsigned long long)total,
                  (unsigned long long)injected, (unsigned long long)refused);
    assert_true(refused > 0);
}

static void every_allocation_failing_in_turn_gives_right_data_or_a_clear_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SWEPT / sizeof *SWEPT; i++) {
        put_golden("a.parquet", SWEPT[i]);
        sweep_allocations(SWEPT[i], "a.parquet", &(fby_open_opts){.cache_dir = "", .io = ENGINES[i % 2]}, NULL);
    }
}

static void every_allocation_failing_in_turn_over_many_files_with_an_index_cache_and_an_epoch_border(void **state)
{
    (void)state;
    put_files("data", 5);
    for (int i = 0; i < 5; i++) { /* an hour old: the index trusts them */
        char path[100];
        (void)snprintf(path, sizeof path, "data/f%02d.parquet", i);
        struct timespec times[2] = {{time(NULL) - 3600, 0}, {time(NULL) - 3600, 0}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    assert_int_equal(mkdir("cache", 0755), 0);
    fby_loader_opts how = {.batch_size = 150, .superbatch_samples = 60, .streams = 2};
    g_forget = "cache";
    sweep_allocations("five files, writing the index", "data", &(fby_open_opts){.cache_dir = "cache"}, &how);
    g_forget = NULL;
    fby_error err = {0};
    assert_int_equal(run_path("data", &(fby_open_opts){.cache_dir = "cache"}, &how, &err), FBY_OK);
    sweep_allocations("five files, from the index", "data", &(fby_open_opts){.cache_dir = "cache"}, &how);
}

static void sweep_io(const char *what, const char *path, const fby_open_opts *opts, const fby_loader_opts *how)
{
    fby_error err = {0};
    fby__io_set_fault(&(fby__io_fault){0});
    if (run_path(path, opts, how, &err) != FBY_OK)
        fail_msg("%s: %s", what, err.message);
    uint64_t total = fby__io_fault_count(), injected = 0, refused = 0;
    int descriptors = count_descriptors();
    for (uint64_t n = 1; n <= total + 2; n = next_point(n, total)) {
        err = (fby_error){0};
        fby__io_set_fault(&(fby__io_fault){.fail_at = n});
        fby_status status = run_path(path, opts, how, &err);
        fby__io_set_fault(&(fby__io_fault){0});
        expect_clear(status, &err, what, n);
        if (status != FBY_OK && (status != FBY_E_IO || err.sys_errno != EIO || !strstr(err.message, ".parquet")))
            fail_msg("%s, point %llu: %s: %s", what, (unsigned long long)n, fby_status_name(status), err.message);
        expect_nothing_left(what, n, descriptors);
        injected++;
        refused += status != FBY_OK;
    }
    print_message("%s: %llu I/O operations, %llu failed in turn, %llu of these runs ended in an error\n", what, (unsigned long long)total,
                  (unsigned long long)injected, (unsigned long long)refused);
    assert_true(refused > 0);
}

static void every_io_operation_failing_in_turn_gives_right_data_or_an_error_naming_the_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SWEPT / sizeof *SWEPT; i++) {
        put_golden("a.parquet", SWEPT[i]);
        for (int e = 0; e < 2; e++)
            sweep_io(SWEPT[i], "a.parquet", &(fby_open_opts){.cache_dir = "", .io = ENGINES[e]}, NULL);
    }
    put_files("data", 5);
    fby_loader_opts how = {.batch_size = 150, .superbatch_samples = 60, .streams = 2};
    sweep_io("five files", "data", &(fby_open_opts){.cache_dir = "", .io = FBY_IO_THREADS}, &how);
}

static void short_reads_change_nothing(void **state)
{
    (void)state;
    put_files("data", 12);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){.superbatch_samples = 100});
    uint64_t n, got_n;
    int64_t *expect = epoch_rows(l, 0, &n);
    fby_loader_close(l);
    fby_dataset_close(ds);
    for (uint64_t every = 1; every <= 4; every++)
        for (int e = 0; e < 2; e++) {
            fby__io_set_fault(&(fby__io_fault){.short_every = every, .seed = every});
            ds = open_dataset("data", &(fby_open_opts){.cache_dir = "", .io = ENGINES[e]});
            l = open_loader(ds, (fby_loader_opts){.superbatch_samples = 100});
            int64_t *got = epoch_rows(l, 0, &got_n);
            assert_int_equal(got_n, n);
            assert_memory_equal(got, expect, n * sizeof *got);
            free(got);
            fby_loader_close(l);
            fby_dataset_close(ds);
        }
    free(expect);
}

/* Through the Arrow export: every block, every column. */
static fby_status export_all(const char *path, fby_error *err)
{
    fby_dataset *ds = NULL;
    struct ArrowArrayStream stream = {0};
    FBY__TRY(try_open(path, NULL, &ds, err));
    fby_status status = fby_dataset_export_arrow(ds, NULL, 0, &stream, err);
    fby_dataset_close(ds);
    while (status == FBY_OK) {
        struct ArrowArray array = {0};
        if (stream.get_next(&stream, &array) != 0) {
            const char *text = stream.get_last_error(&stream);
            status = fby__fail(err, FBY_E_FORMAT, "%s", text ? text : "");
        } else if (!array.release) {
            break;
        } else {
            array.release(&array);
        }
    }
    if (stream.release)
        stream.release(&stream);
    return status;
}

static void a_file_truncated_at_every_byte_is_an_error_naming_it(void **state)
{
    (void)state;
    put_golden("whole.parquet", "rows_tiny");
    size_t n;
    uint8_t *p = read_bytes("whole.parquet", &n);
    int descriptors = count_descriptors();
    for (size_t cut = 0; cut < n; cut++) {
        fby_error err = {0};
        write_bytes("cut.parquet", p, cut);
        fby_status status = run_path("cut.parquet", NULL, NULL, &err);
        if (status == FBY_OK || !strstr(err.message, "cut.parquet"))
            fail_msg("cut at %zu of %zu: %s: %s", cut, n, fby_status_name(status), err.message);
        err = (fby_error){0};
        status = export_all("cut.parquet", &err);
        if (status == FBY_OK || !strstr(err.message, "cut.parquet"))
            fail_msg("exported, cut at %zu of %zu: %s: %s", cut, n, fby_status_name(status), err.message);
        expect_nothing_left("truncated", cut, descriptors);
    }
    fby_error err = {0};
    write_bytes("cut.parquet", p, n);
    assert_int_equal(run_path("cut.parquet", NULL, NULL, &err), FBY_OK);
    assert_int_equal(export_all("cut.parquet", &err), FBY_OK);
    print_message("%zu lengths\n", n);
    free(p);
}

static void a_flipped_bit_anywhere_gives_values_or_an_error_and_nothing_worse(void **state)
{
    (void)state;
    enum { CASES = 2000 };
    uint64_t errors = 0, silent = 0;
    fby__random random = {.key = test_seed()};
    int descriptors = count_descriptors();
    for (int i = 0; i < CASES; i++) {
        put_golden("flip.parquet", SWEPT[i % (int)(sizeof SWEPT / sizeof *SWEPT)]);
        size_t n;
        uint8_t *p = read_bytes("flip.parquet", &n);
        size_t footer = (size_t)p[n - 8] | (size_t)p[n - 7] << 8;
        /* three of four in the pages, the rest in the footer */
        size_t at = i % 4 ? 4 + fby__random_below(&random, n - 12 - footer) : n - 8 - footer + fby__random_below(&random, footer);
        p[at] ^= (uint8_t)(1u << fby__random_below(&random, 8));
        write_bytes("flip.parquet", p, n);
        free(p);
        (void)alarm(RUN_SECONDS);
        fby_error err = {0};
        fby_dataset *ds = NULL;
        fby_loader *l = NULL;
        fby_batch *b;
        fby_status status = try_open("flip.parquet", NULL, &ds, &err);
        if (status == FBY_OK)
            status = try_loader(ds, (fby_loader_opts){.batch_size = 16, .memory_bytes = (uint64_t)1 << 30}, &l, &err);
        while (status == FBY_OK && (status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
            silent += wrong_value(b, 0) != NULL;
            fby_batch_unref(b);
        }
        fby_loader_close(l);
        fby_dataset_close(ds);
        if (status != FBY_END) {
            expect_clear(status, &err, "flipped", at);
            errors++;
        }
        err = (fby_error){0};
        if (i % 3 == 0)
            expect_clear(export_all("flip.parquet", &err), &err, "flipped and exported", at);
        expect_nothing_left("flipped", at, descriptors);
    }
    print_message("%d files with a flipped bit: %llu errors, %llu batches with other values (pages without a checksum)\n", CASES,
                  (unsigned long long)errors, (unsigned long long)silent);
    assert_true(errors > CASES / 10);
}

static void an_epoch_that_cannot_begin_for_want_of_memory_is_begun_by_the_next_call(void **state)
{
    (void)state;
    put_golden("a.parquet", "rows_snappy");
    fby_dataset *ds = open_dataset("a.parquet", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){0});
    fby_batch *b;
    fby_error err = {0};
    (void)alarm(RUN_SECONDS);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        fby__alloc_fail_at(1);
        assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_NOMEM);
        fby__alloc_fail_at(0);
        uint64_t rows = 0;
        fby_status status;
        while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
            assert_int_equal(fby_batch_epoch(b), epoch);
            rows += fby_batch_size(b);
            fby_batch_unref(b);
        }
        assert_int_equal(status, FBY_END);
        assert_int_equal(rows, 60);
    }
    fby_loader_close(l);
    fby_dataset_close(ds);
}

/* ---- files that change while they are read ---- */

typedef void (*change)(const char *path);

static void vanish(const char *path) { assert_int_equal(unlink(path), 0); }
static void shrink(const char *path) { assert_int_equal(truncate(path, 500), 0); }
static void replace(const char *path)
{
    assert_int_equal(unlink(path), 0);
    put_golden(path, "rows_one_group");
}
static void grow(const char *path)
{
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite("more", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
}

/* Batches before the changed file come first and are right; then the error, at the batch that needs it; then again next epoch. */
static void change_during_an_epoch(change how, const char *name, fby_status expect)
{
    enum { FILES = 20, VICTIM = 15 };
    put_files("data", FILES);
    fby_dataset *ds = open_dataset("data", NULL);
    /* file order, and so little ahead that the victim has not been read when it changes */
    fby_loader *l =
        open_loader(ds, (fby_loader_opts){.shuffle = FBY_SHUFFLE_NONE, .batch_size = 20, .n_threads = 1, .prefetch_batches = 2});
    uint64_t minimum = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    l = open_loader(ds, (fby_loader_opts){
                            .shuffle = FBY_SHUFFLE_NONE, .batch_size = 20, .n_threads = 1, .prefetch_batches = 2, .memory_bytes = minimum});
    fby_file_info victim = {.size = sizeof victim};
    assert_int_equal(fby_dataset_file(ds, VICTIM, &victim, NULL), FBY_OK);
    uint64_t first_row = 0;
    for (uint64_t f = 0; f < VICTIM; f++) {
        fby_file_info info = {.size = sizeof info};
        assert_int_equal(fby_dataset_file(ds, f, &info, NULL), FBY_OK);
        first_row += info.rows;
    }
    fby_batch *b;
    fby_error err = {0};
    for (int epoch = 0; epoch < 3; epoch++) {
        uint64_t delivered = 0;
        fby_status status;
        (void)alarm(RUN_SECONDS);
        assert_int_equal(fby_loader_begin(l, (uint64_t)epoch, &err), FBY_OK);
        while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
            const int64_t *row = values_of(b, "row");
            for (uint64_t i = 0; i < fby_batch_size(b); i++)
                assert_int_equal(row[i], delivered + i);
            check_batch(b);
            delivered += fby_batch_size(b);
            fby_batch_unref(b);
            if (epoch == 0 && delivered == 100)
                how(victim.path);
        }
        if (status != expect && !(expect == FBY_E_CHANGED && status == FBY_E_IO))
            fail_msg("%s, epoch %d: %s: %s", name, epoch, fby_status_name(status), err.message);
        if (!strstr(err.message, "f15.parquet"))
            fail_msg("%s: the message does not name the file: %s", name, err.message);
        /* the batch that failed is the one that needs the first row of the file: all before came */
        if (delivered != first_row / 20 * 20 && epoch > 0)
            fail_msg("%s, epoch %d: the error came after %llu samples, the file begins at %llu", name, epoch, (unsigned long long)delivered,
                     (unsigned long long)first_row);
        assert_true(delivered >= first_row / 20 * 20);
        assert_int_equal(fby_loader_next(l, -1, &b, &err), FBY_E_STATE);
    }
    fby_loader_close(l);
    fby_dataset_close(ds);
    assert_int_equal(fby__ledger_charged_bytes(), 0);
}

static void a_file_that_vanishes_during_an_epoch_is_an_error_at_its_batch(void **state)
{
    (void)state;
    change_during_an_epoch(vanish, "vanished", FBY_E_IO);
}

static void a_file_that_shrinks_during_an_epoch_is_an_error_at_its_batch(void **state)
{
    (void)state;
    change_during_an_epoch(shrink, "shrunk", FBY_E_CHANGED);
}

static void a_file_that_is_replaced_during_an_epoch_is_an_error_at_its_batch(void **state)
{
    (void)state;
    change_during_an_epoch(replace, "replaced", FBY_E_CHANGED);
}

static void a_file_that_grows_during_an_epoch_is_an_error_at_its_batch(void **state)
{
    (void)state;
    change_during_an_epoch(grow, "grown", FBY_E_CHANGED);
}

static void with_shuffle_the_batches_before_the_error_are_right_and_no_sample_comes_twice(void **state)
{
    (void)state;
    put_files("kept", 20);
    assert_int_equal(mkdir("data", 0755), 0);
    for (int i = 0; i < 20; i++) {
        char target[100], path[100];
        (void)snprintf(target, sizeof target, "../kept/f%02d.parquet", i);
        (void)snprintf(path, sizeof path, "data/f%02d.parquet", i);
        assert_int_equal(symlink(target, path), 0);
    }
    fby_dataset *ds = open_dataset("data", NULL);
    for (uint64_t seed = 0; seed < 10; seed++) {
        char path[100];
        (void)snprintf(path, sizeof path, "data/f%02d.parquet", (int)seed);
        char kept[100], target[110];
        (void)snprintf(kept, sizeof kept, "kept/f%02d.parquet", (int)seed);
        (void)snprintf(target, sizeof target, "../%s", kept);
        size_t n;
        uint8_t *p = read_bytes(kept, &n);
        assert_int_equal(unlink(path), 0);
        write_bytes(path, p, n / 2);
        fby_loader *l = open_loader(ds, (fby_loader_opts){.seed = seed, .superbatch_samples = 200, .batch_size = 32});
        char seen[2000] = {0};
        fby_batch *b;
        fby_error err = {0};
        fby_status status;
        (void)alarm(RUN_SECONDS);
        while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
            check_batch(b);
            for (uint64_t i = 0; i < fby_batch_size(b); i++)
                assert_int_equal(seen[((const int64_t *)values_of(b, "row"))[i]]++, 0);
            fby_batch_unref(b);
        }
        assert_int_equal(status, FBY_E_CHANGED);
        assert_non_null(strstr(err.message, path));
        /* the file is back: the same loader delivers the whole epoch */
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink(target, path), 0);
        uint64_t got;
        int64_t *rows = epoch_rows(l, 0, &got);
        assert_once_each(rows, got, fby_dataset_rows(ds));
        free(rows);
        free(p);
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
}

/* ---- what is no data set ---- */

static void expect_refused(const char *path, fby_status status, const char *says)
{
    fby_dataset *ds = NULL;
    fby_error err = {0};
    (void)alarm(RUN_SECONDS);
    fby_status got = try_open(path, NULL, &ds, &err);
    if (got != status || !strstr(err.message, says))
        fail_msg("%s: %s ('%s'), expected %s saying '%s'", path, fby_status_name(got), err.message, fby_status_name(status), says);
    assert_null(ds);
}

static void things_that_are_no_data_are_refused_by_name(void **state)
{
    (void)state;
    assert_int_equal(mkdir("empty", 0755), 0);
    expect_refused("empty", FBY_E_IO, "empty");
    expect_refused("nowhere", FBY_E_IO, "nowhere");
    expect_refused("nowhere/*.parquet", FBY_E_IO, "nowhere/*.parquet");
    expect_refused("empty/{id}.parquet", FBY_E_IO, "empty/{id}.parquet");
    assert_int_equal(mkfifo("fifo", 0644), 0);
    expect_refused("fifo", FBY_E_FORMAT, "fifo");
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
    assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
    expect_refused("socket", FBY_E_FORMAT, "socket");
    (void)close(s);
    expect_refused("/dev/null", FBY_E_FORMAT, "/dev/null");
    write_bytes("zero.parquet", "", 0);
    expect_refused("zero.parquet", FBY_E_FORMAT, "zero.parquet");
    write_bytes("text.parquet", "id,x\n1,2\n3,4\n5,6\n7,8\n", 22);
    expect_refused("text.parquet", FBY_E_FORMAT, "text.parquet");
    put_golden("locked.parquet", "rows_tiny");
    assert_int_equal(chmod("locked.parquet", 0), 0);
    if (geteuid() == 0)
        print_message("unreadable files left out: root reads everything\n");
    else
        expect_refused("locked.parquet", FBY_E_IO, "locked.parquet");
}

static void the_same_file_twice_is_refused_by_name(void **state)
{
    (void)state;
    put_golden("a.parquet", "rows_tiny");
    fby_source twice[2] = {{.path = "a.parquet"}, {.path = "./a.parquet"}};
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = ""};
    fby_dataset *ds = NULL;
    fby_error err = {0};
    assert_int_equal(fby_dataset_open(twice, 2, &opts, &ds, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "a.parquet"));
}

static void files_without_rows_are_no_obstacle_but_a_data_set_of_none_has_nothing_to_load(void **state)
{
    (void)state;
    char from[600];
    size_t n;
    (void)snprintf(from, sizeof from, FBY_SOURCE_DIR "/tests/golden/parquet/no_rows.parquet");
    uint8_t *p = read_bytes(from, &n);
    write_bytes("none.parquet", p, n);
    free(p);
    fby_dataset *ds = open_dataset("none.parquet", NULL);
    fby_loader *l = NULL;
    fby_error err = {0};
    fby_loader_opts opts = {FBY_LOADER_SIZES, .batch_size = 4};
    assert_int_equal(fby_dataset_rows(ds), 0);
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "no rows"));
    fby_dataset_close(ds);
}

static void a_column_that_some_files_lack_is_an_error_naming_the_file_or_filled(void **state)
{
    (void)state;
    assert_int_equal(mkdir("data", 0755), 0);
    put_golden("data/a.parquet", "rows_snappy");
    put_golden("data/w.parquet", "wide");
    fby_dataset *ds = open_dataset("data", NULL);
    fby_output c0 = {.name = "c0", .columns = (const char *[]){"c0"}, .n_columns = 1};
    fby_loader_opts opts = {FBY_LOADER_SIZES, .outputs = &c0, .n_outputs = 1, .batch_size = 1000};
    fby_loader *l = NULL;
    fby_error err = {0};
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_E_SCHEMA);
    assert_non_null(strstr(err.message, "a.parquet"));
    fby_dataset_close(ds);
    ds = open_dataset("data", &(fby_open_opts){.cache_dir = "", .missing_columns = FBY_MISSING_COLUMNS_FILL});
    assert_int_equal(fby_loader_open(ds, &opts, &l, &err), FBY_OK);
    fby_batch *b;
    uint64_t filled = 0, rows = 0;
    while (fby_loader_next(l, -1, &b, &err) == FBY_OK) {
        const float *v = values_of(b, "c0");
        for (uint64_t i = 0; i < fby_batch_size(b); i++)
            filled += isnan(v[i]) != 0;
        rows += fby_batch_size(b);
        fby_batch_unref(b);
    }
    assert_int_equal(rows, 50060);
    assert_int_equal(filled, 60);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_allocation_failing_in_turn_gives_right_data_or_a_clear_error),
        TEST(every_allocation_failing_in_turn_over_many_files_with_an_index_cache_and_an_epoch_border),
        TEST(every_io_operation_failing_in_turn_gives_right_data_or_an_error_naming_the_file),
        TEST(an_epoch_that_cannot_begin_for_want_of_memory_is_begun_by_the_next_call),
        TEST(short_reads_change_nothing),
        TEST(a_file_truncated_at_every_byte_is_an_error_naming_it),
        TEST(a_flipped_bit_anywhere_gives_values_or_an_error_and_nothing_worse),
        TEST(a_file_that_vanishes_during_an_epoch_is_an_error_at_its_batch),
        TEST(a_file_that_shrinks_during_an_epoch_is_an_error_at_its_batch),
        TEST(a_file_that_is_replaced_during_an_epoch_is_an_error_at_its_batch),
        TEST(a_file_that_grows_during_an_epoch_is_an_error_at_its_batch),
        TEST(with_shuffle_the_batches_before_the_error_are_right_and_no_sample_comes_twice),
        TEST(things_that_are_no_data_are_refused_by_name),
        TEST(the_same_file_twice_is_refused_by_name),
        TEST(files_without_rows_are_no_obstacle_but_a_data_set_of_none_has_nothing_to_load),
        TEST(a_column_that_some_files_lack_is_an_error_naming_the_file_or_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
