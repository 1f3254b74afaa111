/* malloc and friends behind one counter, so that failure sweeps can visit every allocation. */
#include "base/alloc.h"

#include "base/checked.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t g_count;   /* relaxed: a statistic */
static _Atomic uint64_t g_fail_at; /* relaxed: set by a test before the threads it watches start */

int fby__alloc_should_fail(void)
{
    uint64_t n = atomic_fetch_add_explicit(&g_count, 1, memory_order_relaxed) + 1;
    uint64_t at = atomic_load_explicit(&g_fail_at, memory_order_relaxed);
    return at != 0 && n == at;
}

void fby__alloc_fail_at(uint64_t n)
{
    uint64_t now = atomic_load_explicit(&g_count, memory_order_relaxed);
    atomic_store_explicit(&g_fail_at, n ? now + n : 0, memory_order_relaxed);
}

uint64_t fby__alloc_count(void) { return atomic_load_explicit(&g_count, memory_order_relaxed); }

void *fby__malloc(size_t n) { return fby__alloc_should_fail() ? NULL : malloc(n ? n : 1); }

void *fby__calloc(size_t n, size_t size) { return fby__alloc_should_fail() ? NULL : calloc(n ? n : 1, size ? size : 1); }

void *fby__realloc(void *p, size_t n) { return fby__alloc_should_fail() ? NULL : realloc(p, n ? n : 1); }

void *fby__realloc_array(void *p, size_t n, size_t size)
{
    size_t bytes;
    return fby__mul_checked(n, size, &bytes) ? fby__realloc(p, bytes) : NULL;
}

char *fby__strndup(const char *s, size_t n)
{
    char *p = fby__malloc(n + 1);
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

char *fby__strdup(const char *s) { return fby__strndup(s, strlen(s)); }

char *fby__format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : fby__malloc((size_t)n + 1);
    if (p) {
        va_start(ap, fmt);
        (void)vsnprintf(p, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    return p;
}

void fby__free(void *p) { free(p); }

int fby__grow(void **array, size_t *cap, size_t need, size_t elem_size)
{
    if (need <= *cap)
        return 0;
    size_t want = *cap < 8 ? 8 : *cap;
    while (want < need)
        if (!fby__mul_checked(want, 2, &want))
            return -1;
    void *p = fby__realloc_array(*array, want, elem_size);
    if (!p)
        return -1;
    *array = p;
    *cap = want;
    return 0;
}
