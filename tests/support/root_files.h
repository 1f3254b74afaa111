/* Files below root/ in the working directory, which stand for those of the kernel: made-up /proc and control groups. */
#ifndef FBY_TESTS_ROOT_FILES_H
#define FBY_TESTS_ROOT_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* Writes root/<path> with the directories it needs. */
static void put(const char *path, const char *text)
{
    char full[600];
    (void)snprintf(full, sizeof full, "root%s", path);
    for (char *at = strchr(full, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        (void)mkdir(full, 0755); /* there already, as a rule */
        *at = '/';
    }
    FILE *f = fopen(full, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#endif
