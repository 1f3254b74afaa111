/* A scatter task that is run again while the run before it ends: what that one has finished stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/files.h"
#include "support/temp_dir.h"

#include <forebay/pack.h>

/* The other run's file, which gets its name right after this one has looked for it, and loses it when this one wants it ("" = never). */
static char g_finished[700], g_name[700], g_moved[700];

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_renameat2(int from, const char *old, int to, const char *name, unsigned flags);
int __wrap_renameat2(int from, const char *old, int to, const char *name, unsigned flags);

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int fd = __real_open64(path, flags, flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0);
    va_end(args);
    if (*g_finished && strcmp(path, g_name) == 0) {
        const int reason = errno;
        assert_int_equal(rename(g_finished, g_name), 0);
        *g_finished = 0;
        errno = reason;
    }
    return fd;
}

int __wrap_renameat2(int from, const char *old, int to, const char *name, unsigned flags)
{
    const int result = __real_renameat2(from, old, to, name, flags), reason = errno;
    if (*g_moved && result != 0 && reason == EEXIST && strcmp(name, g_name) == 0) {
        assert_int_equal(rename(g_name, g_moved), 0);
        *g_moved = 0;
    }
    errno = reason;
    return result;
}

static ino_t inode(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static const fby_pack_opts opts = {.size = sizeof opts, .memory_bytes = (uint64_t)32 << 20, .batch_rows = 1, .rows_per_file = 3};

/* Plan and scatter task of a pack in the folder; the file of the latter is taken away, to come back in the middle of another run. */
static fby_dataset *run_once(const char *folder, char to[600], char finished[700])
{
    fby_error err;
    fby_dataset *ds;
    const fby_source source = {.path = FBY_SOURCE_DIR "/tests/golden/ipc/numbers.arrow"};
    const fby_open_opts open_opts = {.size = sizeof open_opts, .cache_dir = "", .n_threads = 1};
    (void)snprintf(to, 600, "%s/%s", g_dir, folder);
    (void)snprintf(g_name, sizeof g_name, "%s/.forebay-pack/scatter-00000", to);
    assert_int_equal(fby_dataset_open(&source, 1, &open_opts, &ds, &err), FBY_OK);
    assert_int_equal(fby_pack_run_task(ds, to, &opts, FBY_PACK_PLAN, 0, NULL, &err), FBY_OK);
    assert_int_equal(fby_pack_run_task(ds, to, &opts, FBY_PACK_SCATTER, 0, NULL, &err), FBY_OK);
    char kept[700];
    (void)snprintf(finished, 700, "%s/finished", g_dir);
    (void)snprintf(kept, sizeof kept, "%s/%s-kept", g_dir, folder);
    assert_int_equal(link(g_name, kept), 0); /* so that nothing else gets its inode */
    assert_int_equal(rename(g_name, finished), 0);
    memcpy(g_finished, finished, sizeof g_finished);
    return ds;
}

/* before: what the second run finds; NULL = no file. */
static void run_twice(const char *before)
{
    fby_error err;
    char to[600], finished[700];
    fby_dataset *ds = run_once(before ? "broken" : "nothing", to, finished);
    const ino_t first = inode(finished);
    if (before)
        write_text(g_name, before);
    if (fby_pack_run_task(ds, to, &opts, FBY_PACK_SCATTER, 0, NULL, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(*g_finished, 0);
    assert_true(inode(g_name) == first);

    write_text(finished, "not whole"); /* and nobody mends it: it is replaced */
    assert_int_equal(rename(finished, g_name), 0);
    assert_int_equal(fby_pack_run_task(ds, to, &opts, FBY_PACK_SCATTER, 0, NULL, &err), FBY_OK);
    size_t n;
    uint8_t *bytes = read_bytes(g_name, &n);
    assert_true(n > sizeof "not whole");
    free(bytes);
    fby_dataset_close(ds);
}

static void a_file_that_another_run_finishes_stays(void **state)
{
    (void)state;
    run_twice(NULL);
    run_twice("not whole");
}

/* As `finish` moves and removes what is complete. */
static void a_file_that_another_run_finishes_may_be_gone_again(void **state)
{
    (void)state;
    fby_error err;
    char to[600], finished[700];
    fby_dataset *ds = run_once("gone", to, finished);
    memcpy(g_moved, finished, sizeof g_moved);
    if (fby_pack_run_task(ds, to, &opts, FBY_PACK_SCATTER, 0, NULL, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_int_equal(*g_finished, 0);
    assert_int_equal(*g_moved, 0);
    assert_true(inode(finished) > 0);
    DIR *work;
    char path[700];
    (void)snprintf(path, sizeof path, "%s/.forebay-pack", to);
    assert_non_null(work = opendir(path));
    for (struct dirent *e; (e = readdir(work));)
        assert_null(strstr(e->d_name, "scatter-"));
    assert_int_equal(closedir(work), 0);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_another_run_finishes_stays, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_file_that_another_run_finishes_may_be_gone_again, setup_dir, teardown_dir)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
