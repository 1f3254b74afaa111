/*
 * A directory of its own for each test, which is also the working directory; gone afterwards with all below it, and fault
 * injection switched off. For cmocka_unit_test_setup_teardown(test, setup_dir, teardown_dir).
 */
#ifndef FBY_TESTS_TEMP_DIR_H
#define FBY_TESTS_TEMP_DIR_H

#include "base/alloc.h"
#include "io/io.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char g_dir[64]; /* of the running test; it is also the working directory */

static int setup_dir(void **state)
{
    (void)state;
    strcpy(g_dir, "/tmp/forebay-test-XXXXXX");
    return mkdtemp(g_dir) && chdir(g_dir) == 0 ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int teardown_dir(void **state)
{
    (void)state;
    fby__alloc_fail_at(0);
    fby__io_set_fault(&(fby__io_fault){0});
    return chdir("/") == 0 ? nftw(g_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) : -1;
}

#endif
