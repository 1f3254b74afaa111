/* A file's bytes, and what the process has open. */
#ifndef FBY_TESTS_FILES_H
#define FBY_TESTS_FILES_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/** A whole file: free(). */
static inline uint8_t *read_bytes(const char *path, size_t *out_n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s cannot be opened", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long n = ftell(f);
    assert_true(n >= 0);
    rewind(f);
    uint8_t *p = malloc((size_t)n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, (size_t)n, f), n);
    (void)fclose(f); /* nothing was written */
    *out_n = (size_t)n;
    return p;
}

/** Compare two: the descriptor that looks is among them. */
static inline int count_descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

#endif
