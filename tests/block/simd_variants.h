/*
 * Run a test program once for every SIMD variant: the program as it is, then itself again with FOREBAY_SIMD=avx2 and =scalar
 * (the variant is chosen once a process), where there are variants. SIMD_MAIN(tests) stands for main.
 *
 * And memory that ends where a page begins that nobody may touch: masked loads and stores are invisible to sanitizers.
 */
#ifndef TESTS_BLOCK_SIMD_VARIANTS_H
#define TESTS_BLOCK_SIMD_VARIANTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static inline uint8_t *guarded_alloc(size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = ((n ? n : 1) + page - 1) / page * page;
    uint8_t *p = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + whole, page, PROT_NONE) != 0)
        abort();
    return p + whole - (n ? n : 1);
}

static inline uint8_t *guarded_copy(const void *from, size_t n)
{
    uint8_t *p = guarded_alloc(n);
    if (n)
        memcpy(p, from, n);
    return p;
}

/* n as it was allocated. */
static inline void guarded_free(const uint8_t *p, size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = ((n ? n : 1) + page - 1) / page * page;
    (void)munmap((void *)((uintptr_t)p & ~(page - 1)), whole + page); /* a test's end: nothing to do about it */
}

static int run_variant(const char *name)
{
#if !defined(__x86_64__)
    return 0; /* has run: `make aarch64` runs test_convert once more, as scalar */
#endif
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

#define SIMD_MAIN(tests)                                                                                                                   \
    int main(void)                                                                                                                         \
    {                                                                                                                                      \
        int failed = cmocka_run_group_tests(tests, NULL, NULL);                                                                            \
        if (!getenv("FOREBAY_SIMD"))                                                                                                       \
            failed += run_variant("avx2") + run_variant("scalar");                                                                         \
        return failed;                                                                                                                     \
    }

#endif
