/* A temporary directory with a file of known bytes, and waiting for batches. For the tests of io. */
#ifndef FBY_TESTS_IO_FIXTURE_H
#define FBY_TESTS_IO_FIXTURE_H

#include "io/io.h"
#include "support/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES ((size_t)300007)

static char g_dir[64];

__attribute__((unused)) static const char *path_of(const char *name)
{
    static char path[4][400]; /* a few at a time */
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", g_dir, name);
    return p;
}

/* The byte at an offset of every test file: no two ranges of a few bytes are alike. */
static inline uint8_t byte_at(uint64_t offset) { return (uint8_t)((offset * 0x9E3779B97F4A7C15u) >> 56); }

__attribute__((unused)) static void write_file(const char *path, size_t n)
{
    uint8_t *p = malloc(n ? n : 1);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = byte_at(i);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(p);
}

__attribute__((unused)) static void expect_bytes(const uint8_t *p, uint64_t offset, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != byte_at(offset + i))
            fail_msg("byte %llu is 0x%02x, not 0x%02x", (unsigned long long)(offset + i), p[i], byte_at(offset + i));
}

__attribute__((unused)) static fby__file *open_file(const char *path)
{
    fby__file *file;
    fby_error err;
    if (fby__file_open(path, NULL, &file, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return file;
}

__attribute__((unused)) static void no_faults(void) { fby__io_set_fault(&(fby__io_fault){0}); }

__attribute__((unused)) static int make_dir(void **state)
{
    (void)state;
    snprintf(g_dir, sizeof g_dir, "/tmp/forebay-io-XXXXXX");
    if (!mkdtemp(g_dir))
        return -1;
    write_file(path_of("data"), FILE_BYTES);
    return 0;
}

__attribute__((unused)) static int remove_dir(void **state)
{
    (void)state;
    DIR *d = opendir(g_dir);
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL)
        (void)unlink(path_of(e->d_name)); /* "." and ".." refuse */
    if (d)
        closedir(d);
    (void)rmdir(path_of("subdirectory")); /* of one test */
    return rmdir(g_dir);
}

#endif
