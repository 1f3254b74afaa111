/* What the tests of the helper program share: its golden files, reads that must go well, and the skip where it was not built. */
#ifndef FBY_TESTS_H5_HELPER_TESTS_H
#define FBY_TESTS_H5_HELPER_TESTS_H

#include "base/alloc.h"
#include "base/clock.h"
#include "format/hdf5/client/helper.h"
#include "format/hdf5/client/helper_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN(name) FBY_SOURCE_DIR "/tests/golden/hdf5_helper/" name

/* For the end of a cmocka main: 77 where there is no program to test. */
static inline bool no_helper_program(const char *test)
{
    char path[FBY__H5P_MAX_PATH];
    fby_error err;
    (void)unsetenv("FOREBAY_HDF5_HELPER");
    if (fby__h5_helper_find(&(fby__h5_environment){0}, path, &err) == FBY_OK)
        return false;
    printf("%s: skipped, forebay-hdf5 was not built (libhdf5 was not found)\n", test);
    return true;
}

static inline void check_ok(fby_status status, const fby_error *err)
{
    if (status != FBY_OK)
        fail_msg("%s", err->message);
}

static inline void check_fails(fby_status status, fby_status wanted, const fby_error *err, const char *words)
{
    if (status != wanted || err->code != wanted || !strstr(err->message, words))
        fail_msg("wanted %s with \"%s\", got %s: %s", fby_status_name(wanted), words, fby_status_name(status), status ? err->message : "");
}

/* Elements [begin, begin + n) of a data set of one dimension. */
static inline void read_line(const char *path, const char *object, uint64_t begin, uint64_t n, fby_dtype dtype, void *dst, size_t dst_n)
{
    fby_error err;
    check_ok(fby__h5_helper_read(path, object, 0, 1, &begin, &n, dtype, dst, dst_n, &err), &err);
}

#endif
