/* A script, or the test itself, in place of the helper program. For tests in a temporary directory (support/temp_dir.h), which is theirs to work in. */
#ifndef FBY_TESTS_H5_STAND_IN_H
#define FBY_TESTS_H5_STAND_IN_H

#include "format/h5_helper_tests.h"
#include "support/temp_dir.h"

#include <sys/stat.h>
#include <unistd.h>

static inline void put_script(const char *text)
{
    char path[128];
    FILE *f = fopen("script", "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod("script", 0755), 0);
    (void)snprintf(path, sizeof path, "%s/script", g_dir);
    assert_int_equal(setenv("FOREBAY_HDF5_HELPER", path, 1), 0);
}

/* The program is this test from now on, whose main finds `how` in FOREBAY_TEST_STAND_IN. */
static inline void be_lied_to(const char *how)
{
    char self[256], text[512]; /* the program has nothing of this test's environment */
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    (void)snprintf(text, sizeof text, "#!/bin/sh\nFOREBAY_TEST_STAND_IN='%s' exec '%s'\n", how, self);
    put_script(text);
}

#endif
