/* The sample index over files: what a scan found is kept on disk, believed only when it is whole, and survives any failing allocation. */
#include "support/loader_fixture.h"

#include <utime.h>

static const char *const DROP[] = {"x"};

static fby_status find(fby_dataset *ds, bool groups, fby_samples **out, fby_error *err)
{
    fby_samples_opts windows = {.size = sizeof windows,
                                .kind = FBY_SAMPLES_WINDOWS,
                                .input = 2,
                                .output = 1,
                                .time = "id",
                                .step = 1,
                                .drop_missing = DROP,
                                .n_drop_missing = 1,
                                .n_threads = 1};
    fby_samples_opts by_n = {.size = sizeof by_n, .kind = FBY_SAMPLES_GROUPS, .key = "n", .n_threads = 1};
    return fby_samples_open(ds, groups ? &by_n : &windows, out, err);
}

static fby_samples *must_find(fby_dataset *ds, bool groups)
{
    fby_samples *s = NULL;
    fby_error err = {0};
    if (find(ds, groups, &s, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return s;
}

/* Files written long ago: those of a moment ago are not trusted by any cache. */
static fby_dataset *old_files(void)
{
    char path[64];
    put_files("data", 4);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "data/f%02d.parquet", i);
        assert_int_equal(utime(path, &(struct utimbuf){1000000000, 1000000000}), 0);
    }
    return open_dataset("data", &(fby_open_opts){.cache_dir = "cache"});
}

static void assert_same(const fby_samples *a, const fby_samples *b)
{
    uint64_t row_a, rows_a, row_b, rows_b;
    assert_int_equal(fby_samples_count(a), fby_samples_count(b));
    assert_int_equal(fby_samples_max_rows(a), fby_samples_max_rows(b));
    for (uint64_t i = 0; i < fby_samples_count(a); i++) {
        assert_int_equal(fby_samples_get(a, i, &row_a, &rows_a, NULL), FBY_OK);
        assert_int_equal(fby_samples_get(b, i, &row_b, &rows_b, NULL), FBY_OK);
        assert_true(row_a == row_b && rows_a == rows_b);
    }
}

/* The one file of the cache that is no index of metadata. */
static void cache_file(char *out, size_t n)
{
    DIR *d = opendir("cache");
    assert_non_null(d);
    out[0] = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".fbysamples"))
            (void)snprintf(out, n, "cache/%s", e->d_name);
    (void)closedir(d);
    assert_true(out[0] != 0);
}

static void any_damage_of_a_kept_index_makes_it_absent(void **state)
{
    (void)state;
    for (int groups = 0; groups < 2; groups++) {
        char path[300];
        size_t n;
        fby_dataset *ds = old_files();
        fby_samples *want = must_find(ds, groups != 0);
        cache_file(path, sizeof path);
        uint8_t *good = read_bytes(path, &n);
        for (size_t i = 0; i < n; i += 1 + n / 97) {
            uint8_t was = good[i];
            good[i] ^= 0x41;
            write_bytes(path, good, n);
            good[i] = was;
            fby_samples *again = must_find(ds, groups != 0);
            assert_same(want, again);
            fby_samples_close(again);
            write_bytes(path, good, i); /* and cut short */
            again = must_find(ds, groups != 0);
            assert_same(want, again);
            fby_samples_close(again);
        }
        free(good);
        assert_int_equal(unlink(path), 0);
        fby_samples_close(want);
        fby_dataset_close(ds);
    }
}

static void a_file_of_other_samples_is_not_taken(void **state)
{
    (void)state;
    char mine[300], other[300];
    size_t n;
    fby_dataset *ds = old_files();
    fby_samples *windows = must_find(ds, false);
    cache_file(other, sizeof other);
    uint8_t *bytes = read_bytes(other, &n);
    assert_int_equal(unlink(other), 0);
    fby_samples *groups = must_find(ds, true);
    cache_file(mine, sizeof mine);
    write_bytes(mine, bytes, n); /* whole, but not what was asked for */
    fby_samples *again = must_find(ds, true);
    assert_same(groups, again);
    free(bytes);
    fby_samples_close(again);
    fby_samples_close(groups);
    fby_samples_close(windows);
    fby_dataset_close(ds);
}

static void any_failing_allocation_is_out_of_memory(void **state)
{
    (void)state;
    fby_dataset *ds = old_files();
    for (int i = 0; i < 4; i++) { /* windows and groups, scanned and from disk */
        fby_status status = FBY_E_NOMEM;
        char path[300];
        for (uint64_t n = 1; status != FBY_OK; n++) {
            fby_samples *s = NULL;
            fby_error err = {0};
            fby__alloc_fail_at(n);
            status = find(ds, i / 2 == 1, &s, &err);
            fby__alloc_fail_at(0);
            if (status == FBY_OK) {
                fby_samples_close(s);
                if (n < 2)
                    status = FBY_E_NOMEM;
            } else if (status != FBY_E_NOMEM) {
                fail_msg("%s", err.message);
            }
        }
        if (i % 2 == 0) {
            fby_samples_close(must_find(ds, i / 2 == 1));
        } else {
            cache_file(path, sizeof path);
            assert_int_equal(unlink(path), 0);
        }
    }
    fby_dataset_close(ds);
}

static void an_error_of_reading_names_the_file(void **state)
{
    (void)state;
    size_t n;
    fby_error err = {0};
    fby_samples *s = NULL;
    fby_dataset *ds = old_files();
    uint8_t *bytes = read_bytes("data/f02.parquet", &n);
    memset(bytes + 4, 0, n / 3);
    write_bytes("data/f02.parquet", bytes, n);
    assert_int_equal(utime("data/f02.parquet", &(struct utimbuf){1000000000, 1000000000}), 0);
    free(bytes);
    assert_int_not_equal(find(ds, true, &s, &err), FBY_OK);
    assert_non_null(strstr(err.message, "f02.parquet"));
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_damage_of_a_kept_index_makes_it_absent, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_file_of_other_samples_is_not_taken, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(any_failing_allocation_is_out_of_memory, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(an_error_of_reading_names_the_file, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
