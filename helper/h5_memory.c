/*
 * Which allocations failed, noted at the one place where memory comes from: libhdf5, its plugins and the C library call malloc(), and find the functions
 * here, as they find open() in h5_open.c. libhdf5 itself does not always say: some of its layers give another reason ("image null"), and
 * a virtual data set whose source could not be opened for it reads as fill values.
 */
#include "server.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

static atomic_bool g_failed; /* relaxed: plugins have threads, whose end the request waits for */

void allocations_begin(void) { atomic_store_explicit(&g_failed, false, memory_order_relaxed); }
bool allocation_failed(void) { return atomic_load_explicit(&g_failed, memory_order_relaxed); }

#if !defined(FBY_HELPER_SANITIZED) /* sanitizers have such functions of their own, and nothing is limited then (limit_memory) */
void *__libc_malloc(size_t n);     /* glibc's, for those who put something before them */
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

EXPORTED void *malloc(size_t n);
EXPORTED void *calloc(size_t n, size_t bytes);
EXPORTED void *realloc(void *p, size_t n);
EXPORTED void *memalign(size_t alignment, size_t n);
EXPORTED void *aligned_alloc(size_t alignment, size_t n);
EXPORTED int posix_memalign(void **out, size_t alignment, size_t n);
EXPORTED void free(void *p);

/* What no request is ever allowed is a number of a damaged file. */
static void *noted(void *p, size_t n)
{
    if (!p && n && n <= FBY__H5P_MAX_MEMORY)
        atomic_store_explicit(&g_failed, true, memory_order_relaxed);
    return p;
}

void *malloc(size_t n) { return noted(__libc_malloc(n), n); }
void *realloc(void *p, size_t n) { return noted(__libc_realloc(p, n), n); }
void *memalign(size_t alignment, size_t n) { return noted(__libc_memalign(alignment, n), n); }
void *aligned_alloc(size_t alignment, size_t n) { return noted(__libc_memalign(alignment, n), n); }
void free(void *p) { __libc_free(p); }

void *calloc(size_t n, size_t bytes)
{
    size_t all;
    return noted(__libc_calloc(n, bytes), __builtin_mul_overflow(n, bytes, &all) ? SIZE_MAX : all);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
        return EINVAL;
    void *p = noted(__libc_memalign(alignment, n), n);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}
#endif
