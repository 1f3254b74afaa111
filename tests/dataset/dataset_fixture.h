/*
 * What the dataset tests share: a temporary directory full of copies of golden files, and short ways to open and to look.
 */
#ifndef FBY_TESTS_DATASET_FIXTURE_H
#define FBY_TESTS_DATASET_FIXTURE_H

#include "base/alloc.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "support/files.h"
#include "support/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static inline void golden_path(char out[600], const char *name) { (void)snprintf(out, 600, FBY_SOURCE_DIR "/tests/golden/%s", name); }

static inline void make_dirs(const char *path)
{
    char text[600];
    (void)snprintf(text, sizeof text, "%s", path);
    for (char *p = text + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        assert_true(mkdir(text, 0755) == 0 || errno == EEXIST);
        *p = '/';
    }
}

/* An hour old, and `more` nanoseconds younger: old enough for the index to trust it. */
static inline void age(const char *path, long more)
{
    struct timespec times[2] = {{time(NULL) - 3600, more}, {time(NULL) - 3600, more}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static inline void write_bytes(const char *path, const void *p, size_t n)
{
    make_dirs(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    age(path, 0);
}

/* A copy of tests/golden/dataset/<golden>.parquet. */
static inline void put_file(const char *path, const char *golden)
{
    char from[600], name[100];
    size_t n;
    (void)snprintf(name, sizeof name, "dataset/%s.parquet", golden);
    golden_path(from, name);
    uint8_t *p = read_bytes(from, &n);
    write_bytes(path, p, n);
    free(p);
}

static inline fby_status try_open(const char *path, const fby_open_opts *opts, fby_dataset **out, fby_error *err)
{
    fby_open_opts o = {.cache_dir = ""};
    if (opts)
        o = *opts;
    o.size = sizeof o;
    return fby_dataset_open(&(fby_source){.path = path}, 1, &o, out, err);
}

static inline fby_dataset *open_path(const char *path, const fby_open_opts *opts)
{
    fby_dataset *ds = NULL;
    fby_error err;
    if (try_open(path, opts, &ds, &err) != FBY_OK)
        fail_msg("open '%s': %s", path, err.message);
    return ds;
}

static inline void expect_fails(const char *path, const fby_open_opts *opts, fby_status code, const char *words)
{
    fby_dataset *ds = NULL;
    fby_error err;
    fby_status status = try_open(path, opts, &ds, &err);
    if (status != code || err.code != code || !strstr(err.message, words))
        fail_msg("open '%s': expected %s with \"%s\", got %s: %s", path, fby_status_name(code), words, fby_status_name(status),
                 err.message);
    assert_null(ds);
}

/* The relative names, joined by spaces. */
static inline void expect_names(const fby_dataset *ds, const char *names)
{
    char text[2000] = "";
    fby_file_info info = {.size = sizeof info};
    for (uint64_t i = 0; i < fby_dataset_file_count(ds); i++) {
        assert_int_equal(fby_dataset_file(ds, i, &info, NULL), FBY_OK);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", info.name);
    }
    assert_string_equal(text, names);
}

static inline void expect_note(const fby_dataset *ds, const char *words)
{
    for (size_t i = 0; fby_dataset_note(ds, i); i++)
        if (strstr(fby_dataset_note(ds, i), words))
            return;
    fail_msg("no note says \"%s\"", words);
}

/* Opens, stats and reads of data files that `opts` takes. */
static inline uint64_t count_io(const char *path, const fby_open_opts *opts)
{
    fby__io_set_fault(&(fby__io_fault){0});
    fby_dataset *ds = open_path(path, opts);
    fby_dataset_close(ds);
    return fby__io_fault_count();
}

#endif
