/* The sample index over files: what a scan found is kept on disk, believed only when it is whole, and survives any failing allocation. */
#include "support/loader_fixture.h"

#include <dirent.h>
#include <sys/stat.h>
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

static void make_old(const char *path) { assert_int_equal(utime(path, &(struct utimbuf){1000000000, 1000000000}), 0); }

/* Files written long ago: those of a moment ago are not trusted by any cache. */
static fby_dataset *n_old_files(int n)
{
    char path[64];
    put_files("data", n);
    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "data/f%02d.parquet", i);
        make_old(path);
    }
    return open_dataset("data", &(fby_open_opts){.cache_dir = "cache"});
}

static fby_dataset *old_files(void) { return n_old_files(4); }

static void assert_same(const fby_samples *a, const fby_samples *b)
{
    uint64_t row_a, rows_a, row_b, rows_b;
    assert_int_equal(fby_samples_count(a), fby_samples_count(b));
    assert_int_equal(fby_samples_max_rows(a), fby_samples_max_rows(b));
    assert_int_equal(!fby_samples_note(a, 0), !fby_samples_note(b, 0));
    if (fby_samples_note(a, 0))
        assert_string_equal(fby_samples_note(a, 0), fby_samples_note(b, 0));
    for (uint64_t i = 0; i < fby_samples_count(a); i++) {
        assert_int_equal(fby_samples_get(a, i, &row_a, &rows_a, NULL), FBY_OK);
        assert_int_equal(fby_samples_get(b, i, &row_b, &rows_b, NULL), FBY_OK);
        assert_true(row_a == row_b && rows_a == rows_b);
    }
}

/* How many files of a kind the cache has, and one of them. */
static int cache_files(const char *kind, char *out, size_t n)
{
    DIR *d = opendir("cache");
    int found = 0;
    out[0] = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, kind) && ++found)
            (void)snprintf(out, n, "cache/%s", e->d_name);
    if (d)
        (void)closedir(d);
    return found;
}

/* The one file of the cache that is no index of metadata. */
static void cache_file(char *out, size_t n) { assert_int_equal(cache_files(".fbysamples", out, n), 1); }

/* The file with byte i changed, or cut before it. */
static void damage(const char *path, uint8_t *good, size_t n, size_t i, bool cut)
{
    if (cut) {
        write_bytes(path, good, i);
        return;
    }
    const uint8_t was = good[i];
    good[i] ^= 0x41;
    write_bytes(path, good, n);
    good[i] = was;
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
        for (size_t i = 0; i < n; i += 1 + n / 97)
            for (int cut = 0; cut < 2; cut++) {
                damage(path, good, n, i, cut);
                fby_samples *again = must_find(ds, groups != 0);
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

/* Is that said of the samples, beside what is said of them anyway? */
static bool is_noted(const fby_samples *s)
{
    const char *note;
    for (size_t i = 0; (note = fby_samples_note(s, i)); i++)
        if (strstr(note, "was not used: it belongs to another user, or others may write to it"))
            return true;
    return false;
}

static void a_file_that_others_may_write_is_not_taken_and_noted(void **state)
{
    (void)state;
    char path[300];
    fby_dataset *ds = old_files();
    for (int groups = 0; groups < 2; groups++) {
        fby_samples *want = must_find(ds, groups != 0);
        cache_file(path, sizeof path);
        assert_int_equal(chmod(path, 0666), 0);
        fby_samples *found = must_find(ds, groups != 0); /* and writes its own in its place */
        fby_samples *again = must_find(ds, groups != 0);
        assert_false(is_noted(want));
        assert_true(is_noted(found));
        assert_int_equal(fby_samples_count(found), fby_samples_count(want));
        assert_int_equal(!fby_samples_note(found, 1), groups);
        assert_same(want, again);
        fby_samples_close(again);
        fby_samples_close(found);
        fby_samples_close(want);
        assert_int_equal(unlink(path), 0);
    }
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

/* ---- what a step chose ---- */

enum { MANY_FILES = 70, N_STEPS = 5 }; /* above 64 blocks, so that what is chosen of them is kept */

/* Steps that read a column; the last one of samples that are chosen already. */
static fby_status step(int which, uint32_t factor, const fby_samples *from, fby_samples **out, fby_error *err)
{
    static const int64_t classes[] = {1, 3};
    const uint32_t factors[] = {factor, 3};
    const fby_values values = {.numbers = classes, .n = 2};
    fby_select_opts range = {.size = sizeof range, .column = "id", .low = {true, false, factor, 0, NULL}, .n_threads = 1};
    fby_oversample_opts more = {
        .size = sizeof more, .column = "id", .values = values, .factors = factors, .ignore_unknown = true, .n_threads = 1};
    fby_resample_opts drawn = {.size = sizeof drawn, .column = "id", .seed = factor, .n_threads = 1};
    fby_split_opts split = {.size = sizeof split, .kind = FBY_SPLIT_KEYS, .column = "id", .seed = factor, .n_threads = 1};
    fby_split parts[2] = {{.fraction = 0.4}, {.fraction = 0.5}};
    fby_samples *made[2], *first = NULL;
    switch (which) {
    case 0: return fby_samples_select(from, &range, out, err);
    case 1: return fby_samples_oversample(from, &more, out, err);
    case 2: return fby_samples_resample(from, &drawn, out, err);
    case 3:
        if (fby_samples_split(from, &split, parts, 2, made, err) != FBY_OK)
            return err->code;
        fby_samples_close(made[0]);
        *out = made[1];
        return FBY_OK;
    default: break;
    }
    if (fby_samples_limit(from, fby_samples_count(from) / 2, true, 5, &first, err) != FBY_OK)
        return err->code;
    fby_status status = fby_samples_oversample(first, &more, out, err);
    fby_samples_close(first);
    return status;
}

static fby_samples *must_step(int which, uint32_t factor, const fby_samples *from)
{
    fby_samples *s = NULL;
    fby_error err = {0};
    if (step(which, factor, from, &s, &err) != FBY_OK)
        fail_msg("step %d: %s", which, err.message);
    return s;
}

static fby_samples *all_rows(fby_dataset *ds)
{
    fby_samples *s = NULL;
    fby_samples_opts rows = {.size = sizeof rows};
    assert_int_equal(fby_samples_open(ds, &rows, &s, NULL), FBY_OK);
    return s;
}

static void remove_choices(void)
{
    char path[300];
    while (cache_files(".fbychoice", path, sizeof path))
        assert_int_equal(unlink(path), 0);
}

static void a_kept_choice_that_others_may_write_is_not_taken_and_noted(void **state)
{
    (void)state;
    char path[300];
    for (int which = 0; which < N_STEPS; which++) {
        fby_dataset *ds = n_old_files(MANY_FILES);
        fby_samples *rows = all_rows(ds), *want = must_step(which, 2, rows);
        assert_false(is_noted(want));
        assert_int_equal(cache_files(".fbychoice", path, sizeof path), which == 3 ? 2 : 1);
        assert_int_equal(chmod(path, 0666), 0);
        fby_samples *found = must_step(which, 2, rows); /* and writes its own in its place */
        assert_same(want, found);
        assert_true(is_noted(found));
        fby_samples *later = all_rows(ds), *again = must_step(which, 2, later);
        assert_false(is_noted(again));
        fby_samples *const all[] = {again, later, found, want, rows};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            fby_samples_close(all[i]);
        remove_choices();
        fby_dataset_close(ds);
    }
}

static void any_damage_of_a_kept_choice_makes_it_absent(void **state)
{
    (void)state;
    fby_dataset *ds = n_old_files(MANY_FILES), *plain = open_dataset("data", NULL);
    fby_samples *rows = all_rows(ds), *of_plain = all_rows(plain);
    for (int which = 0; which < N_STEPS; which++) {
        char path[300];
        size_t n;
        fby_samples *want = must_step(which, 2, of_plain), *again = must_step(which, 2, rows);
        assert_true(fby_samples_count(want) > 0 && fby_samples_count(want) != fby_samples_count(rows) + (which == 2));
        assert_same(want, again);
        fby_samples_close(again);
        assert_int_equal(cache_files(".fbychoice", path, sizeof path), which == 3 ? 2 : 1);
        uint8_t *good = read_bytes(path, &n);
        for (size_t i = 0; i < n; i += 1 + n / 13)
            for (int cut = 0; cut < 2; cut++) {
                damage(path, good, n, i, cut);
                again = must_step(which, 2, rows);
                assert_same(want, again);
                fby_samples_close(again);
            }
        free(good);
        fby_samples_close(want);
        remove_choices();
    }
    fby_samples_close(rows);
    fby_samples_close(of_plain);
    fby_dataset_close(ds);
    fby_dataset_close(plain);
}

static void a_kept_choice_is_not_read_again_and_another_is(void **state)
{
    (void)state;
    fby_dataset *ds = n_old_files(MANY_FILES);
    fby_samples *rows = all_rows(ds), *want[N_STEPS], *other = NULL;
    fby_error err = {0};
    size_t n;
    for (int which = 0; which < N_STEPS; which++)
        want[which] = must_step(which, 2, rows);
    for (int i = 0; i < MANY_FILES; i++) { /* nothing can be read of them now */
        char path[64];
        (void)snprintf(path, sizeof path, "data/f%02d.parquet", i);
        uint8_t *bytes = read_bytes(path, &n);
        memset(bytes + 4, 0, n / 2);
        write_bytes(path, bytes, n);
        make_old(path);
        free(bytes);
    }
    for (int which = 0; which < N_STEPS; which++) {
        fby_samples *again = must_step(which, 2, rows);
        assert_same(want[which], again);
        fby_samples_close(again);
        fby_samples_close(want[which]);
        assert_int_not_equal(step(which, 4, rows, &other, &err), FBY_OK);
        assert_non_null(strstr(err.message, ".parquet"));
    }
    fby_samples_close(rows);
    fby_dataset_close(ds);
}

static void steps_survive_any_failing_allocation(void **state)
{
    (void)state;
    fby_dataset *ds = n_old_files(MANY_FILES);
    fby_samples *rows = all_rows(ds);
    char path[300];
    for (int which = 0; which < N_STEPS; which++)
        for (int kept = 0; kept < 2; kept++) {
            fby_status status = FBY_E_NOMEM;
            fby_samples *want = must_step(which, 2, rows), *s = NULL;
            for (uint64_t n = 1; status != FBY_OK; n += kept ? 1 : 97) {
                fby_error err = {0};
                if (!kept)
                    remove_choices();
                fby__alloc_fail_at(n);
                status = step(which, 2, rows, &s, &err);
                fby__alloc_fail_at(0);
                if (status != FBY_OK && status != FBY_E_NOMEM)
                    fail_msg("step %d, allocation %d: %s", which, (int)n, err.message);
            }
            assert_same(want, s);
            fby_samples_close(s);
            fby_samples_close(want);
            assert_true(cache_files(".fbychoice", path, sizeof path) <= 2);
            if (kept)
                remove_choices();
        }
    fby_samples_close(rows);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_kept_choice_that_others_may_write_is_not_taken_and_noted, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(any_damage_of_a_kept_choice_makes_it_absent, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_kept_choice_is_not_read_again_and_another_is, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(steps_survive_any_failing_allocation, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(any_damage_of_a_kept_index_makes_it_absent, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_file_of_other_samples_is_not_taken, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_file_that_others_may_write_is_not_taken_and_noted, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(any_failing_allocation_is_out_of_memory, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(an_error_of_reading_names_the_file, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
