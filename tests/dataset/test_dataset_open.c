/* Opening and reading as a whole: blocks, memory, files that vanish or change, fork, every allocation and every I/O failing. */
#include "dataset/dataset_fixture.h"
#include "support/memory_dataset.h"

#include <pthread.h>

static void put_dir(int n)
{
    static const char *const KINDS[] = {"plain", "groups", "empty"};
    char path[100];
    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "d/f%02d.parquet", i); /* f100 sorts between f10 and f11: no test minds */
        put_file(path, KINDS[i % 3]);
    }
}

static void files_groups_and_blocks_add_up(void **state)
{
    (void)state;
    put_dir(6);
    fby_dataset *ds = open_path("d", NULL);
    assert_int_equal(fby_dataset_file_count(ds), 6); /* files without rows are files */
    assert_int_equal(fby_dataset_rows(ds), 26);
    assert_int_equal(fby_dataset_block_count(ds), 8); /* 1 + 3 + 0, twice */
    expect_note(ds, "2 of 6 files have no rows, such as 'f02.parquet'");
    uint64_t row = 0, bytes = 0;
    for (uint64_t i = 0; i < 8; i++) {
        fby_block_info block = {.size = sizeof block};
        assert_int_equal(fby_dataset_block(ds, i, &block, NULL), FBY_OK);
        assert_int_equal(block.first_row, row);
        row += block.row_end - block.row_begin;
        bytes += block.stored_bytes;
    }
    assert_int_equal(row, 26);
    assert_int_equal(bytes, fby_dataset_stored_bytes(ds));
    fby_file_info file = {.size = sizeof file};
    assert_int_equal(fby_dataset_file(ds, 4, &file, NULL), FBY_OK);
    assert_string_equal(file.format, "parquet");
    assert_true(file.first_block == 5 && file.n_blocks == 3 && file.groups == 3 && file.rows == 10);
    assert_string_equal(file.group_word, "row group");
    assert_string_equal(file.groups_word, "row groups");
    fby_file_info older = {.size = offsetof(fby_file_info, group_word)}; /* of a program that knows of no words */
    assert_int_equal(fby_dataset_file(ds, 4, &older, NULL), FBY_OK);
    assert_true(older.n_blocks == 3 && !older.group_word);
    fby_error err;
    fby_block_info block = {.size = sizeof block};
    assert_int_equal(fby_dataset_file(ds, 6, &file, &err), FBY_E_ARG);
    assert_int_equal(fby_dataset_block(ds, 8, &block, &err), FBY_E_ARG);
    fby_chunk_info chunk = {.size = sizeof chunk};
    assert_int_equal(fby_dataset_chunk(ds, 1, 2, "x", true, &chunk, &err), FBY_OK);
    assert_int_equal(chunk.n_values, 2);
    assert_int_equal(fby_dataset_chunk(ds, 1, 3, "x", true, &chunk, &err), FBY_E_ARG);
    assert_int_equal(fby_dataset_chunk(ds, 1, 0, "zz", true, &chunk, &err), FBY_E_SCHEMA);
    assert_true(fby__dataset_memory_bytes(ds) > 1000);
    fby_dataset_close(ds);
    ds = open_path("d/f02.parquet", NULL);
    assert_int_equal(fby_dataset_rows(ds), 0);
    expect_note(ds, "no rows: a loader refuses it");
    fby_dataset_close(ds);
}

static void large_groups_are_cut_into_equal_row_ranges(void **state)
{
    (void)state;
    const uint64_t counts[] = {3000001, 5};
    fby_dataset *ds = NULL;
    fby_error err;
    if (memory_dataset_open(counts, 2, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    uint32_t n = fby__dataset_block_count(ds);
    uint64_t stored = 0, most = 0, least = UINT64_MAX, row = 0;
    assert_in_range(n, 3, 10);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const fby__block *b = fby__dataset_block(ds, i);
        uint64_t rows = b->row_end - b->row_begin;
        assert_int_equal(b->row_begin, row);
        row = b->row_end;
        stored += b->stored_bytes;
        assert_in_range(b->stored_bytes, 1, FBY__BLOCK_STORED_BYTES);
        most = rows > most ? rows : most;
        least = rows < least ? rows : least;
    }
    assert_int_equal(row, counts[0]);
    assert_true(most - least <= 1);
    assert_int_equal(n - 1, (stored + FBY__BLOCK_STORED_BYTES - 1) / FBY__BLOCK_STORED_BYTES);
    assert_int_equal(fby__dataset_block(ds, n - 1)->group, 1);
    fby_dataset_close(ds);
}

static uint64_t count_rows(fby_dataset *ds, fby_status *out_status, char message[1000])
{
    struct ArrowArrayStream stream;
    fby_error err;
    uint64_t rows = 0;
    *out_status = fby_dataset_export_arrow(ds, NULL, 0, &stream, &err);
    if (*out_status != FBY_OK) {
        strcpy(message, err.message);
        return 0;
    }
    for (;;) {
        struct ArrowArray block;
        int error = stream.get_next(&stream, &block);
        if (error) {
            const char *text = stream.get_last_error(&stream);
            assert_non_null(text);
            strcpy(message, text);
            *out_status = error == ENOMEM ? FBY_E_NOMEM : FBY_E_IO;
            break;
        }
        if (!block.release)
            break;
        rows += (uint64_t)block.length;
        block.release(&block);
    }
    stream.release(&stream);
    return rows;
}

static void a_dataset_in_memory_exports_what_it_was_given(void **state)
{
    (void)state;
    const uint64_t counts[] = {10, 0, 7};
    fby_dataset *ds = NULL, *again = NULL, *other = NULL;
    char message[1000];
    fby_status status;
    assert_int_equal(memory_dataset_open(counts, 3, &ds, NULL), FBY_OK);
    assert_int_equal(memory_dataset_open(counts, 3, &again, NULL), FBY_OK);
    assert_int_equal(memory_dataset_open(counts, 1, &other, NULL), FBY_OK);
    assert_string_equal(fby_dataset_identity(ds), fby_dataset_identity(again));
    assert_string_not_equal(fby_dataset_identity(ds), fby_dataset_identity(other));
    assert_int_equal(fby_dataset_rows(ds), 17);
    fby__file *file = (fby__file *)(uintptr_t)1;
    assert_int_equal(fby__dataset_open_file(ds, 0, &file, NULL), FBY_OK);
    assert_null(file);
    assert_int_equal(count_rows(ds, &status, message), 17);
    assert_int_equal(status, FBY_OK);
    fby_dataset_close(ds);
    fby_dataset_close(again);
    fby_dataset_close(other);
}

static void a_stream_outlives_the_dataset_and_may_be_dropped_early(void **state)
{
    (void)state;
    put_dir(6);
    fby_dataset *ds = open_path("d", NULL);
    struct ArrowArrayStream stream;
    const char *x = "x";
    assert_int_equal(fby_dataset_export_arrow(ds, &x, 1, &stream, NULL), FBY_OK);
    fby_dataset_close(ds);
    struct ArrowArray a, b;
    assert_int_equal(stream.get_next(&stream, &a), 0);
    assert_int_equal(stream.get_next(&stream, &b), 0);
    stream.release(&stream);
    assert_null(stream.release);
    assert_int_equal(((const int32_t *)b.children[0]->buffers[1])[3], 3); /* arrays outlive the stream */
    a.release(&a);
    b.release(&b);
}

static void files_that_change_or_vanish_are_named(void **state)
{
    (void)state;
    put_file("d/a.parquet", "plain");
    put_file("d/b.parquet", "plain");
    fby_dataset *ds = open_path("d", NULL);
    char message[1000];
    fby_status status;
    assert_int_equal(count_rows(ds, &status, message), 6);
    age("d/b.parquet", 1);
    assert_int_equal(count_rows(ds, &status, message), 3);
    assert_int_equal(status, FBY_E_IO);
    assert_non_null(strstr(message, "d/b.parquet has changed"));
    unlink("d/b.parquet");
    (void)count_rows(ds, &status, message);
    assert_non_null(strstr(message, "d/b.parquet"));
    assert_non_null(strstr(message, "No such file"));
    fby__file *file = NULL;
    fby_error err;
    age("d/a.parquet", 5);
    assert_int_equal(fby__dataset_open_file(ds, 0, &file, &err), FBY_E_CHANGED);
    fby_dataset_close(ds);
}

static void the_first_error_in_file_order_wins(void **state)
{
    (void)state;
    char path[100];
    put_dir(40);
    for (int i = 17; i < 40; i += 3) {
        (void)snprintf(path, sizeof path, "d/f%02d.parquet", i);
        write_bytes(path, "PAR1 is not enough", 18);
    }
    for (int i = 0; i < 30; i++)
        expect_fails("d", &(fby_open_opts){.cache_dir = "", .n_threads = 1 + i % 12}, FBY_E_FORMAT, "d/f17.parquet");
}

static void *export_all(void *arg)
{
    fby_status status = FBY_OK;
    char message[1000];
    for (int i = 0; i < 10 && status == FBY_OK; i++)
        if (count_rows(arg, &status, message) != 26 * 30)
            status = FBY_E_INTERNAL;
    return (void *)(intptr_t)status;
}

static void several_threads_may_read_one_dataset(void **state)
{
    (void)state;
    put_dir(180); /* more files than thawed tables are kept */
    fby_dataset *ds = open_path("d", &(fby_open_opts){.cache_dir = "", .missing_columns = FBY_MISSING_COLUMNS_FILL});
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, export_all, ds), 0);
    for (int i = 0; i < 4; i++) {
        void *status;
        assert_int_equal(pthread_join(threads[i], &status), 0);
        assert_int_equal((intptr_t)status, FBY_OK);
    }
    fby_dataset_close(ds);
}

static void count_call(void *user, uint64_t done, uint64_t total, const char *what)
{
    assert_true(done <= total && total == 20 && what);
    ++*(int *)user;
}

static void progress_is_told_on_the_calling_thread(void **state)
{
    (void)state;
    put_dir(20);
    int calls = 0;
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 40000000, .seed = 1});
    fby_dataset *ds = open_path("d", &(fby_open_opts){.cache_dir = "", .n_threads = 2, .progress = count_call, .progress_user = &calls});
    fby_open_stats stats = {.size = sizeof stats};
    (void)fby_dataset_open_stats(ds, &stats, NULL);
    assert_true(calls >= 1 && (uint64_t)calls <= stats.elapsed_ns / 100000000 + 1);
    fby_dataset_close(ds);
}

static void a_forked_child_gets_a_clear_error(void **state)
{
    (void)state;
    put_dir(3);
    fby_dataset *ds = open_path("d", NULL);
    struct ArrowArrayStream stream;
    assert_int_equal(fby_dataset_export_arrow(ds, NULL, 0, &stream, NULL), FBY_E_SCHEMA); /* 'groups' has no y */
    const char *x = "x";
    assert_int_equal(fby_dataset_export_arrow(ds, &x, 1, &stream, NULL), FBY_OK);
    pid_t child = fork();
    if (child == 0) {
        struct ArrowArrayStream other;
        struct ArrowArray block;
        fby_error err;
        int bad = fby_dataset_export_arrow(ds, &x, 1, &other, &err) != FBY_E_STATE || !strstr(err.message, "fork");
        bad |= stream.get_next(&stream, &block) == 0 || !strstr(stream.get_last_error(&stream), "fork");
        stream.release(&stream);
        fby_dataset_close(ds);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stream.release(&stream);
    fby_dataset_close(ds);
}

/* Open by a pattern with an index, export everything, close. */
static fby_status open_and_read(const char *cache, char message[1000])
{
    fby_open_opts opts = {.cache_dir = cache, .n_threads = 1, .missing_columns = FBY_MISSING_COLUMNS_FILL};
    static const char *const IDS[] = {"a", "b"};
    opts.ids = IDS;
    opts.n_ids = 2;
    fby_dataset *ds = NULL;
    fby_error err;
    fby_status status = try_open("d/{id}.parquet", &opts, &ds, &err);
    if (status != FBY_OK) {
        strcpy(message, err.message);
        return status;
    }
    fby__dataset_column column;
    status = fby__dataset_resolve(ds, "x", &column, NULL);
    if (status == FBY_OK && count_rows(ds, &status, message) != 13 && status == FBY_OK)
        status = FBY_E_INTERNAL;
    fby_dataset_close(ds);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    put_file("d/a.parquet", "plain");
    put_file("d/b.parquet", "groups");
    char message[1000];
    assert_int_equal(open_and_read("warm", message), FBY_OK);
    static const char *const CACHES[] = {"", "warm", "cold"};
    for (size_t c = 0; c < 3; c++) {
        uint64_t points = 0, failures = 0;
        for (uint64_t n = 1;; n++) {
            if (c == 2)
                (void)system("rm -rf cold");
            uint64_t before = fby__alloc_count();
            fby__alloc_fail_at(n);
            fby_status status = open_and_read(CACHES[c], message);
            fby__alloc_fail_at(0);
            if (fby__alloc_count() - before < n)
                break; /* beyond the last one */
            points++;
            failures += status == FBY_E_NOMEM;
            /* Some are made up for: fewer threads, an index that is not used. Nothing else may come of it. */
            if (status != FBY_OK && status != FBY_E_NOMEM)
                fail_msg("allocation %llu: %s: %s", (unsigned long long)n, fby_status_name(status), message);
        }
        print_message("cache '%s': %llu allocations failed in turn, %llu of them errors\n", CACHES[c], (unsigned long long)points,
                      (unsigned long long)failures);
        assert_true(points > 100 && failures > points / 2);
    }
}

static void every_read_may_fail(void **state)
{
    (void)state;
    put_file("d/a.parquet", "plain");
    put_file("d/b.parquet", "groups");
    char message[1000];
    fby__io_set_fault(&(fby__io_fault){0});
    assert_int_equal(open_and_read("", message), FBY_OK);
    uint64_t points = fby__io_fault_count();
    assert_true(points > 10);
    for (uint64_t n = 1; n <= points; n++) {
        fby__io_set_fault(&(fby__io_fault){.fail_at = n});
        assert_int_equal(open_and_read("", message), FBY_E_IO);
        assert_true(strstr(message, "d/a.parquet") || strstr(message, "d/b.parquet"));
    }
    fby__io_set_fault(&(fby__io_fault){.short_every = 1});
    assert_int_equal(open_and_read("", message), FBY_OK);
    print_message("%llu reads and opens failed in turn\n", (unsigned long long)points);
}

static void truncated_anywhere_it_is_an_error_that_names_the_file(void **state)
{
    (void)state;
    put_file("a.parquet", "plain");
    size_t n;
    uint8_t *bytes = read_bytes("a.parquet", &n);
    for (size_t cut = 0; cut < n; cut++) {
        write_bytes("a.parquet", bytes, cut);
        expect_fails("a.parquet", NULL, FBY_E_FORMAT, "a.parquet");
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)
        TEST(files_groups_and_blocks_add_up),
        TEST(large_groups_are_cut_into_equal_row_ranges),
        TEST(a_dataset_in_memory_exports_what_it_was_given),
        TEST(a_stream_outlives_the_dataset_and_may_be_dropped_early),
        TEST(files_that_change_or_vanish_are_named),
        TEST(the_first_error_in_file_order_wins),
        TEST(several_threads_may_read_one_dataset),
        TEST(progress_is_told_on_the_calling_thread),
        TEST(a_forked_child_gets_a_clear_error),
        TEST(every_allocation_may_fail),
        TEST(every_read_may_fail),
        TEST(truncated_anywhere_it_is_an_error_that_names_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
