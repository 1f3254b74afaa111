/*
 * Run a test program once for every SIMD variant: the program as it is, then itself again with FOREBAY_SIMD=avx2 and =scalar
 * (the variant is chosen once a process). SIMD_MAIN(tests) stands for main.
 */
#ifndef TESTS_BLOCK_SIMD_VARIANTS_H
#define TESTS_BLOCK_SIMD_VARIANTS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_variant(const char *name)
{
    pid_t child = fork();
    if (child == 0) {
        char self[] = "/proc/self/exe", *argv[] = {self, NULL};
        if (setenv("FOREBAY_SIMD", name, 1) == 0)
            (void)execv(self, argv); /* returns only on failure */
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        (void)fprintf(stderr, "failed with FOREBAY_SIMD=%s\n", name);
        return 1;
    }
    return 0;
}

#define SIMD_MAIN(tests)                                                   \
    int main(void)                                                         \
    {                                                                      \
        int failed = cmocka_run_group_tests(tests, NULL, NULL);            \
        if (!getenv("FOREBAY_SIMD"))                                       \
            failed += run_variant("avx2") + run_variant("scalar");         \
        return failed;                                                     \
    }

#endif
