/* The key of the index cache: what was made elsewhere is not believed, however well it fits; who makes the key, who may read it. */
#include "dataset/dataset_fixture.h"

#include <dirent.h>

#define MINE "mine"
#define THEIRS "theirs"
#define KEY "/.fbykey"

static const fby_open_opts WITH_MINE = {.cache_dir = MINE}, WITH_THEIRS = {.cache_dir = THEIRS};

static uint64_t from_cache(const fby_open_opts *opts)
{
    fby_open_stats stats = {.size = sizeof stats};
    fby_dataset *ds = open_path("d", opts);
    assert_int_equal(fby_dataset_open_stats(ds, &stats, NULL), FBY_OK);
    fby_dataset_close(ds);
    return stats.files_from_cache;
}

static void expect_first_column(const fby_open_opts *opts, const char *name)
{
    fby_dataset *ds = open_path("d", opts);
    assert_string_equal(fby_dataset_schema(ds)->children[0].path, name);
    fby_dataset_close(ds);
}

/* The name of the only index of a directory. */
static void index_name(const char *dir, char out[300])
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".fbyindex")) {
            (void)snprintf(out, 300, "%.250s", e->d_name);
            n++;
        }
    (void)closedir(d);
    assert_int_equal(n, 1);
}

static void copy(const char *from_dir, const char *from, const char *to_dir, const char *to)
{
    char path[600];
    size_t n;
    (void)snprintf(path, sizeof path, "%s/%s", from_dir, from);
    uint8_t *p = read_bytes(path, &n);
    (void)snprintf(path, sizeof path, "%s/%s", to_dir, to);
    write_bytes(path, p, n);
    assert_int_equal(chmod(path, 0600), 0);
    free(p);
}

/* As an index has it (entry_head in index.c). */
static void stamp_bytes(uint8_t out[32])
{
    struct stat st;
    assert_int_equal(stat("d/t.csv", &st), 0);
    const uint64_t fields[4] = {(uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
                                (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec, st.st_ino};
    memcpy(out, fields, sizeof fields);
}

/*
 * An index in THEIRS that swaps the columns of d/t.csv and holds its stamp: that of another file with the names the other way round, the
 * stamp replaced, signed with their key.
 */
static void forge(char name[300])
{
    uint8_t before[32], after[32];
    char path[600];
    fby__buf image = {0};
    write_bytes("d/t.csv", "b,a\n1,2\n3,4\n", 12);
    stamp_bytes(before);
    expect_first_column(&WITH_THEIRS, "b");
    index_name(THEIRS, name);
    write_bytes("d/t.csv", "a,b\n1,2\n3,4\n", 12);
    stamp_bytes(after);
    (void)snprintf(path, sizeof path, THEIRS "/%s", name);
    uint8_t *p = read_bytes(path, &image.n), *at = memmem(p, image.n, before, sizeof before);
    assert_non_null(at);
    memcpy(at, after, sizeof after);
    image.n -= 16; /* the code */
    image.data = p;
    assert_int_equal(fby__cache_write(THEIRS, name, &image, NULL), FBY_OK);
    free(p);
}

static void an_index_of_another_key_is_not_believed(void **state)
{
    (void)state;
    char name[300];
    forge(name);
    expect_first_column(&WITH_THEIRS, "b"); /* under their key it holds: it lacks nothing else */
    copy(THEIRS, name, MINE, name);
    assert_int_equal(chmod(MINE, 0700), 0);
    expect_first_column(&WITH_MINE, "a"); /* there is no key */
    assert_int_equal(from_cache(&WITH_MINE), 1);
    copy(THEIRS, name, MINE, name);
    expect_first_column(&WITH_MINE, "a");        /* there is another one */
    assert_int_equal(from_cache(&WITH_MINE), 1); /* and it was replaced */
}

static void an_index_is_good_under_its_name_alone(void **state)
{
    (void)state;
    char name[300];
    fby_open_opts pattern = WITH_MINE;
    fby_dataset *ds;
    put_file("d/a.parquet", "plain");
    ds = open_path("d/*.parquet", &pattern);
    fby_dataset_close(ds);
    index_name(MINE, name);
    assert_int_equal(mkdir(THEIRS, 0700), 0);
    copy(MINE, ".fbykey", THEIRS, ".fbykey");
    assert_int_equal(from_cache(&WITH_THEIRS), 0);
    char other[300];
    index_name(THEIRS, other);
    assert_string_not_equal(name, other);
    assert_int_equal(from_cache(&WITH_THEIRS), 1);
    copy(MINE, name, THEIRS, other); /* the same file, the same key, asked for in another way */
    assert_int_equal(from_cache(&WITH_THEIRS), 0);
}

static void expect_refused(const char *words)
{
    fby_open_stats stats = {.size = sizeof stats};
    fby_dataset *ds = open_path("d", &WITH_MINE);
    assert_int_equal(fby_dataset_open_stats(ds, &stats, NULL), FBY_OK);
    assert_true(stats.files_from_cache == 0 && !stats.cache_written);
    expect_note(ds, "the cache folder '");
    expect_note(ds, words);
    fby_dataset_close(ds);
}

static void a_key_that_others_may_know_is_not_used(void **state)
{
    (void)state;
    struct stat st;
    put_file("d/a.parquet", "plain");
    assert_int_equal(from_cache(&WITH_MINE), 0);
    assert_int_equal(from_cache(&WITH_MINE), 1);
    assert_int_equal(stat(MINE KEY, &st), 0);
    assert_true(st.st_size == 16 && (st.st_mode & 07777) == 0600);

    static const mode_t MODES[] = {0640, 0604, 0620, 0602};
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++) {
        assert_int_equal(chmod(MINE KEY, MODES[i]), 0);
        expect_refused("its key '.fbykey' belongs to another user, or others may read it; remove it");
    }
    assert_int_equal(chmod(MINE KEY, 0600), 0);
    assert_int_equal(from_cache(&WITH_MINE), 1);
    if (geteuid() == 0) {
        assert_int_equal(chown(MINE KEY, 12345, (gid_t)-1), 0);
        expect_refused("belongs to another user");
        assert_int_equal(chown(MINE KEY, 0, (gid_t)-1), 0);
    } else {
        print_message("skipped for want of root: a key of another owner\n");
        assert_int_equal(chmod(MINE KEY, 0), 0);
        expect_refused("cannot be read");
        assert_int_equal(chmod(MINE KEY, 0600), 0);
    }
    assert_int_equal(from_cache(&WITH_MINE), 1);
}

static void a_key_that_is_none_is_not_used(void **state)
{
    (void)state;
    put_file("d/a.parquet", "plain");
    assert_int_equal(from_cache(&WITH_MINE), 0);
    assert_int_equal(truncate(MINE KEY, 15), 0);
    expect_refused("its key '.fbykey' is damaged; remove it");
    assert_int_equal(unlink(MINE KEY), 0);
    assert_int_equal(symlink("../d/a.parquet", MINE KEY), 0);
    expect_refused("its key '.fbykey' cannot be read");
    assert_int_equal(unlink(MINE KEY), 0);
    assert_int_equal(mkdir(MINE KEY, 0700), 0);
    expect_refused("its key '.fbykey' is damaged; remove it");
    assert_int_equal(rmdir(MINE KEY), 0);
    assert_int_equal(from_cache(&WITH_MINE), 0); /* a new key; what the old one had vouched for is written again */
    assert_int_equal(from_cache(&WITH_MINE), 1);
}

/* Many processes that meet an empty folder at once: what each has written, each can read. */
static void processes_agree_on_one_key(void **state)
{
    (void)state;
    enum { PROCESSES = 8, ROUNDS = 25 };
    for (int round = 0; round < ROUNDS; round++) {
        char name[40], dir[40];
        int go[2];
        fby__buf image = {.data = (uint8_t *)name, .n = sizeof name};
        pid_t children[PROCESSES];
        (void)snprintf(dir, sizeof dir, "keys%d", round);
        assert_int_equal(mkdir(dir, 0700), 0);
        assert_int_equal(pipe(go), 0);
        for (int c = 0; c < PROCESSES; c++) {
            children[c] = fork();
            if (children[c] == 0) {
                char end;
                (void)close(go[1]);
                (void)snprintf(name, sizeof name, "%d.x", c);
                _exit(read(go[0], &end, 1) != 0 || fby__cache_write(dir, name, &image, NULL) != FBY_OK);
            }
        }
        (void)close(go[0]);
        (void)close(go[1]); /* now */
        for (int c = 0; c < PROCESSES; c++) {
            int status;
            assert_int_equal(waitpid(children[c], &status, 0), children[c]);
            assert_int_equal(status, 0);
        }
        for (int c = 0; c < PROCESSES; c++) {
            fby__buf out = {0};
            (void)snprintf(name, sizeof name, "%d.x", c);
            assert_int_equal(fby__cache_read(dir, name, sizeof name, &out), FBY_OK);
            fby__buf_fini(&out);
        }
        DIR *d = opendir(dir);
        int n = 0;
        while (d && readdir(d))
            n++;
        (void)closedir(d);
        assert_int_equal(n, PROCESSES + 3); /* the key, "." and "..": nothing half-made */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)
        TEST(an_index_of_another_key_is_not_believed),
        TEST(an_index_is_good_under_its_name_alone),
        TEST(a_key_that_others_may_know_is_not_used),
        TEST(a_key_that_is_none_is_not_used),
        TEST(processes_agree_on_one_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
