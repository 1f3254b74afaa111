/* malloc and friends behind one counter, so that failure sweeps can visit every allocation. */
#include "base/alloc.h"

#include "base/checked.h"

#include <malloc.h>
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

static _Thread_local fby__allowance *t_allowance;

fby__allowance *fby__alloc_within(fby__allowance *allowance)
{
    fby__allowance *before = t_allowance;
    t_allowance = allowance;
    return before;
}

bool fby__alloc_is_tight(void) { return t_allowance && t_allowance->tight; }

static bool may_allocate(size_t n)
{
    if (fby__alloc_should_fail())
        return false;
    return !t_allowance || n <= t_allowance->left || t_allowance->more(t_allowance, n);
}

bool fby__alloc_take(size_t n)
{
    if (t_allowance && n > t_allowance->left && !t_allowance->more(t_allowance, n))
        return false;
    if (t_allowance)
        t_allowance->left -= n;
    return true;
}

void fby__alloc_give(size_t n)
{
    if (t_allowance)
        t_allowance->left += n;
}

/* Memory of `before` bytes is one of p's now. */
static void *allocated(void *p, size_t before)
{
    if (t_allowance && p) {
        const size_t left = t_allowance->left + before, bytes = malloc_usable_size(p);
        t_allowance->left = left - (bytes < left ? bytes : left);
    }
    return p;
}

void *fby__malloc(size_t n) { return may_allocate(n) ? allocated(malloc(n ? n : 1), 0) : NULL; }

void *fby__calloc(size_t n, size_t size)
{
    size_t bytes;
    if (!fby__mul_checked(n, size, &bytes) || !may_allocate(bytes))
        return NULL;
    return allocated(calloc(n ? n : 1, size ? size : 1), 0);
}

void *fby__realloc(void *p, size_t n)
{
    const size_t before = t_allowance && p ? malloc_usable_size(p) : 0;
    return may_allocate(n > before ? n - before : 0) ? allocated(realloc(p, n ? n : 1), before) : NULL;
}

void *fby__realloc_array(void *p, size_t n, size_t size)
{
    size_t bytes;
    return fby__mul_checked(n, size, &bytes) ? fby__realloc(p, bytes) : NULL;
}

void fby__alloc_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0); /* whether there was any */
#endif
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

void fby__free(void *p)
{
    if (t_allowance && p)
        t_allowance->left += malloc_usable_size(p);
    free(p);
}

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
