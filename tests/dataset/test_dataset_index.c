/* The index cache: what it saves, what it does not trust, and that no damage to it matters. Identity and fingerprint. */
#include "dataset/dataset_fixture.h"

#include <dirent.h>

#define CACHE "cache"

static const fby_open_opts WITH_CACHE = {.cache_dir = CACHE};

static void put_dir(const char *dir, int n)
{
    char path[200];
    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "%s/f%03d.parquet", dir, i);
        put_file(path, i % 2 ? "plain" : "groups");
    }
}

static fby_open_stats open_stats(const char *path, const fby_open_opts *opts, uint64_t rows)
{
    fby_open_stats stats = {.size = sizeof stats};
    fby_dataset *ds = open_path(path, opts);
    assert_int_equal(fby_dataset_rows(ds), rows);
    (void)fby_dataset_open_stats(ds, &stats, NULL);
    fby_dataset_close(ds);
    return stats;
}

/* The only index in the cache directory. */
static void index_path(char out[300])
{
    DIR *d = opendir(CACHE);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            (void)snprintf(out, 300, CACHE "/%.250s", e->d_name);
            n++;
        }
    (void)closedir(d);
    assert_int_equal(n, 1); /* and no temporary file was left behind */
}

static void a_second_opening_opens_no_file(void **state)
{
    (void)state;
    put_dir("d", 40);
    write_bytes("d/README.md", "# hello\n", 8);
    uint64_t rows = 20 * 10 + 20 * 3;
    fby_open_stats cold = open_stats("d", &WITH_CACHE, rows);
    assert_int_equal(cold.files_from_cache, 0);
    assert_true(cold.cache_written && cold.metadata_bytes_read > 0);
    fby_open_stats warm = open_stats("d", &WITH_CACHE, rows);
    assert_int_equal(warm.files, 40);
    assert_int_equal(warm.files_from_cache, 40);
    assert_int_equal(warm.metadata_bytes_read, 0);
    assert_false(warm.cache_written);
    assert_int_equal(count_io("d", &WITH_CACHE), 41); /* one stat each, the file that is no data too */
}

static void opening_what_is_known_ends_when_it_is_cancelled(void **state)
{
    (void)state;
    put_file("f.parquet", "plain");
    (void)open_stats("f.parquet", &WITH_CACHE, 3);
    assert_int_equal(open_stats("f.parquet", &WITH_CACHE, 3).files_from_cache, 1);
    fby_dataset *ds = NULL;
    fby_error err = {0};
    fby_cancel *token = fby_cancel_create(), *before = fby_cancel_use(token);
    fby_cancel_set(token);
    assert_int_equal(try_open("f.parquet", &WITH_CACHE, &ds, &err), FBY_E_CANCELLED);
    assert_null(ds);
    (void)fby_cancel_use(before);
    fby_cancel_destroy(token);
}

static void a_warm_dataset_is_the_same_as_a_cold_one(void **state)
{
    (void)state;
    put_dir("d", 5);
    put_file("d/narrow.parquet", "narrow");
    fby_dataset *cold = open_path("d", &WITH_CACHE), *warm = open_path("d", &WITH_CACHE);
    assert_string_equal(fby_dataset_identity(cold), fby_dataset_identity(warm));
    assert_string_equal(fby_dataset_fingerprint(cold), fby_dataset_fingerprint(warm));
    assert_int_equal(fby_dataset_block_count(cold), fby_dataset_block_count(warm));
    fby_chunk_info a = {.size = sizeof a}, b = a;
    assert_int_equal(fby_dataset_chunk(cold, 1, 0, "x", true, &a, NULL), FBY_OK);
    assert_int_equal(fby_dataset_chunk(warm, 1, 0, "x", true, &b, NULL), FBY_OK);
    assert_int_equal(a.compressed_bytes, b.compressed_bytes);
    assert_int_equal(a.n_pages, b.n_pages);
    for (size_t i = 0; fby_dataset_note(cold, i) || fby_dataset_note(warm, i); i++)
        assert_string_equal(fby_dataset_note(cold, i), fby_dataset_note(warm, i));
    fby_dataset_close(cold);
    fby_dataset_close(warm);
}

static void only_what_changed_is_read_again(void **state)
{
    (void)state;
    put_dir("d", 10);
    uint64_t rows = 5 * 10 + 5 * 3;
    (void)open_stats("d", &WITH_CACHE, rows);
    put_file("d/f000.parquet", "plain");
    fby_open_stats stats = open_stats("d", &WITH_CACHE, rows - 7);
    assert_int_equal(stats.files_from_cache, 9);
    assert_true(stats.cache_written);
    put_file("d/new.parquet", "plain");
    stats = open_stats("d", &WITH_CACHE, rows - 4);
    assert_int_equal(stats.files_from_cache, 10);
    unlink("d/f001.parquet");
    stats = open_stats("d", &WITH_CACHE, rows - 7);
    assert_int_equal(stats.files_from_cache, 10);
    assert_true(stats.cache_written);
    age("d/f002.parquet", 1); /* the same bytes, written a nanosecond later */
    assert_int_equal(open_stats("d", &WITH_CACHE, rows - 7).files_from_cache, 9);
    assert_int_equal(open_stats("d", &WITH_CACHE, rows - 7).files_from_cache, 10);
    /* Replaced by a file of equal size and time: the inode tells. */
    put_file("other.parquet", "groups");
    age("other.parquet", 1);
    assert_int_equal(rename("other.parquet", "d/f002.parquet"), 0);
    assert_int_equal(open_stats("d", &WITH_CACHE, rows - 7).files_from_cache, 9);
}

static void an_edit_with_the_time_set_back_is_seen(void **state)
{
    (void)state;
    put_dir("d", 4);
    (void)open_stats("d", &WITH_CACHE, 26);
    size_t n;
    uint8_t *bytes = read_bytes("d/f001.parquet", &n);
    struct stat before, after;
    assert_int_equal(stat("d/f001.parquet", &before), 0);
    do { /* until the clock of the file system has ticked */
        FILE *f = fopen("d/f001.parquet", "r+b");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
        const struct timespec times[2] = {before.st_atim, before.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, "d/f001.parquet", times, 0), 0);
        assert_int_equal(stat("d/f001.parquet", &after), 0);
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec && after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    free(bytes);
    assert_int_equal(open_stats("d", &WITH_CACHE, 26).files_from_cache, 3);
    assert_int_equal(open_stats("d", &WITH_CACHE, 26).files_from_cache, 4);
}

static void paths_hold_whatever_the_working_directory_becomes(void **state)
{
    (void)state;
    put_dir("d", 3);
    char here[300];
    assert_non_null(getcwd(here, sizeof here));
    static const char *const FORMS[] = {"d", "./d", "d/*.parquet", "./d/f{n}.parquet", "d/../d", "."};
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        fby_dataset *ds = open_path(FORMS[i], NULL);
        fby_file_info info = {.size = sizeof info};
        fby_chunk_info chunk = {.size = sizeof chunk};
        assert_int_equal(fby_dataset_file(ds, 0, &info, NULL), FBY_OK);
        assert_string_equal(info.name, i + 1 < sizeof FORMS / sizeof *FORMS ? "f000.parquet" : "d/f000.parquet");
        assert_true(info.path[0] == '/');
        assert_int_equal(chdir("/"), 0);
        assert_int_equal(fby_dataset_chunk(ds, 0, 0, "x", true, &chunk, NULL), FBY_OK); /* opens the file */
        assert_int_equal(chdir(here), 0);
        fby_dataset_close(ds);
    }
}

static void files_written_just_now_are_not_trusted(void **state)
{
    (void)state;
    put_dir("d", 4);
    assert_int_equal(utimensat(AT_FDCWD, "d/f001.parquet", NULL, 0), 0);
    fby_open_stats stats = open_stats("d", &WITH_CACHE, 26);
    assert_true(stats.cache_written);
    stats = open_stats("d", &WITH_CACHE, 26);
    assert_int_equal(stats.files_from_cache, 3);
    assert_false(stats.cache_written); /* there is nothing new that could be trusted */
    age("d/f001.parquet", 0);
    assert_true(open_stats("d", &WITH_CACHE, 26).cache_written);
    assert_int_equal(open_stats("d", &WITH_CACHE, 26).files_from_cache, 4);
}

static void any_damage_to_the_index_is_an_absent_index(void **state)
{
    (void)state;
    put_file("d/a.parquet", "plain");
    (void)open_stats("d", &WITH_CACHE, 3);
    char path[300];
    index_path(path);
    size_t n;
    uint8_t *good = read_bytes(path, &n);
    assert_in_range(n, 100, 4000);
    for (size_t i = 0; i < n; i++) {
        good[i] ^= (uint8_t)(1u << (i % 8));
        write_bytes(path, good, n);
        good[i] ^= (uint8_t)(1u << (i % 8));
        fby_open_stats stats = open_stats("d", &WITH_CACHE, 3);
        assert_int_equal(stats.files_from_cache, 0);
        assert_true(stats.cache_written);
    }
    for (size_t cut = 0; cut < n; cut += 7) {
        write_bytes(path, good, cut);
        assert_int_equal(open_stats("d", &WITH_CACHE, 3).files_from_cache, 0);
    }
    assert_int_equal(open_stats("d", &WITH_CACHE, 3).files_from_cache, 1);
    index_path(path);
    free(good);
}

static void a_cache_that_cannot_be_written_is_a_note(void **state)
{
    (void)state;
    put_dir("d", 2);
    write_bytes("file", "x", 1);
    fby_open_opts opts = {.cache_dir = "file/cache"};
    fby_dataset *ds = open_path("d", &opts);
    expect_note(ds, "the index cache could not be written");
    fby_dataset_close(ds);
}

static void what_killed_processes_have_left_is_removed(void **state)
{
    (void)state;
    struct stat st;
    const struct timespec days[2] = {{time(NULL) - 100000, 0}, {time(NULL) - 100000, 0}};
    static const char *const OLD[] = {CACHE "/0f.fbyindex.a1B2c3", CACHE "/0f.fbychoice.000000", CACHE "/.fbykey.xxxxxx"};
    put_file("f.parquet", "plain");
    for (size_t i = 0; i < 3; i++) {
        write_bytes(OLD[i], "half", 4);
        assert_int_equal(utimensat(AT_FDCWD, OLD[i], days, 0), 0);
    }
    write_bytes(CACHE "/1f.fbyindex.a1B2c3", "half", 4); /* an hour old: perhaps it is still being written */
    write_bytes(CACHE "/notes.txt.a1B2c3", "mine", 4);
    assert_int_equal(utimensat(AT_FDCWD, CACHE "/notes.txt.a1B2c3", days, 0), 0);
    assert_int_equal(chmod(CACHE, 0700), 0);
    assert_true(open_stats("f.parquet", &WITH_CACHE, 3).cache_written);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(stat(OLD[i], &st), -1);
    assert_int_equal(stat(CACHE "/1f.fbyindex.a1B2c3", &st), 0);
    assert_int_equal(stat(CACHE "/notes.txt.a1B2c3", &st), 0);
}

static void what_others_may_write_is_not_believed(void **state)
{
    (void)state;
    put_dir("d", 4);
    (void)open_stats("d", &WITH_CACHE, 26);
    assert_int_equal(open_stats("d", &WITH_CACHE, 26).files_from_cache, 4);
    static const mode_t MODES[] = {0770, 0707, 01777};
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++) {
        assert_int_equal(chmod(CACHE, MODES[i]), 0);
        fby_dataset *ds = open_path("d", &WITH_CACHE);
        fby_open_stats stats = {.size = sizeof stats};
        (void)fby_dataset_open_stats(ds, &stats, NULL);
        assert_true(stats.files_from_cache == 0 && !stats.cache_written);
        expect_note(ds, "others may write to it, and what it says could be forged");
        fby_dataset_close(ds);
    }
    assert_int_equal(chmod(CACHE, 0755), 0);
    char path[300];
    index_path(path);
    for (int i = 0; i < 2; i++) {
        if (i == 1 && geteuid() != 0) {
            print_message("skipped for want of root: an index of another owner\n");
            break;
        }
        if (i == 0)
            assert_int_equal(chmod(path, 0620), 0);
        else
            assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        fby_dataset *ds = open_path("d", &WITH_CACHE);
        fby_open_stats stats = {.size = sizeof stats};
        (void)fby_dataset_open_stats(ds, &stats, NULL);
        assert_true(stats.files_from_cache == 0 && stats.cache_written);
        expect_note(ds, "an index in the cache folder");
        fby_dataset_close(ds);
        assert_int_equal(open_stats("d", &WITH_CACHE, 26).files_from_cache, 4); /* replaced by one of our own */
    }
}

static void different_questions_have_different_indexes(void **state)
{
    (void)state;
    put_dir("d", 6);
    static const char *const IDS[] = {"f001", "f002"};
    fby_open_opts some = WITH_CACHE;
    some.ids = IDS;
    some.n_ids = 2;
    for (int i = 0; i < 2; i++) { /* they do not throw each other out */
        assert_int_equal(open_stats("d", &WITH_CACHE, 39).files_from_cache, i ? 6 : 0);
        assert_int_equal(open_stats("d", &some, 13).files_from_cache, i ? 2 : 0);
        assert_int_equal(open_stats("d/{id}.parquet", &WITH_CACHE, 39).files_from_cache, i ? 6 : 0);
    }
}

static void processes_that_open_at_once_do_not_disturb_each_other(void **state)
{
    (void)state;
    put_dir("d", 30);
    pid_t children[4];
    for (int c = 0; c < 4; c++) {
        children[c] = fork();
        if (children[c] == 0) {
            int bad = 0;
            for (int i = 0; i < 20; i++) {
                char name[50];
                (void)snprintf(name, sizeof name, "d/f%03d.parquet", c);
                age(name, i); /* each writes the index again and again */
                fby_dataset *ds = NULL;
                bad += try_open("d", &WITH_CACHE, &ds, NULL) != FBY_OK || fby_dataset_rows(ds) != 195;
                fby_dataset_close(ds);
            }
            _exit(bad);
        }
    }
    for (int c = 0; c < 4; c++) {
        int status;
        assert_int_equal(waitpid(children[c], &status, 0), children[c]);
        assert_int_equal(status, 0);
    }
    char path[300];
    index_path(path);
    assert_int_equal(open_stats("d", &WITH_CACHE, 195).files, 30);
    assert_int_equal(open_stats("d", &WITH_CACHE, 195).files_from_cache, 30);
}

static void identity_follows_the_data_and_not_the_place(void **state)
{
    (void)state;
    put_dir("one/deep", 5);
    put_dir("two", 5);
    age("two/f003.parquet", 77);
    fby_dataset *a = open_path("one/deep", NULL), *b = open_path("two/*.parquet", NULL);
    assert_string_equal(fby_dataset_identity(a), fby_dataset_identity(b));
    assert_string_not_equal(fby_dataset_fingerprint(a), fby_dataset_fingerprint(b));
    fby_dataset_close(b);
    assert_int_equal(rename("two/f003.parquet", "two/f9.parquet"), 0);
    b = open_path("two", NULL);
    assert_string_not_equal(fby_dataset_identity(a), fby_dataset_identity(b));
    fby_dataset_close(b);
    put_file("two/f003.parquet", "groups"); /* the names as before, other rows */
    unlink("two/f9.parquet");
    b = open_path("two", NULL);
    assert_string_not_equal(fby_dataset_identity(a), fby_dataset_identity(b));
    fby_dataset_close(a);
    fby_dataset_close(b);
    fby_source list[] = {{NULL, "two/f001.parquet"}, {NULL, "two/f000.parquet"}}, turned[] = {list[1], list[0]};
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = ""};
    assert_int_equal(fby_dataset_open(list, 2, &opts, &a, NULL), FBY_OK);
    assert_int_equal(fby_dataset_open(turned, 2, &opts, &b, NULL), FBY_OK);
    assert_string_not_equal(fby_dataset_identity(a), fby_dataset_identity(b));
    fby_dataset_close(a);
    fby_dataset_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)
        TEST(a_second_opening_opens_no_file),
        TEST(opening_what_is_known_ends_when_it_is_cancelled),
        TEST(a_warm_dataset_is_the_same_as_a_cold_one),
        TEST(only_what_changed_is_read_again),
        TEST(an_edit_with_the_time_set_back_is_seen),
        TEST(paths_hold_whatever_the_working_directory_becomes),
        TEST(files_written_just_now_are_not_trusted),
        TEST(any_damage_to_the_index_is_an_absent_index),
        TEST(a_cache_that_cannot_be_written_is_a_note),
        TEST(what_killed_processes_have_left_is_removed),
        TEST(what_others_may_write_is_not_believed),
        TEST(different_questions_have_different_indexes),
        TEST(processes_that_open_at_once_do_not_disturb_each_other),
        TEST(identity_follows_the_data_and_not_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
