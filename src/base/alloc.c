/* malloc and friends behind one counter, so that failure sweeps can visit every allocation. */
#include "base/alloc.h"

#include "base/checked.h"

#include <malloc.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#elif defined(__has_feature)
#define HAS_ASAN __has_feature(address_sanitizer)
#else
#define HAS_ASAN 0
#endif
#if HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

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

bool fby__alloc_charge(size_t n)
{
    if (t_allowance && n > t_allowance->left && !t_allowance->more(t_allowance, n))
        return false;
    if (t_allowance)
        t_allowance->left -= n;
    return true;
}

void fby__alloc_discharge(size_t n)
{
    if (t_allowance)
        t_allowance->left += n;
}

/* How many bytes were asked for stands in front of them. */
typedef struct header {
    _Alignas(max_align_t) size_t bytes;
} header;

/* malloc has a number of its own in front of that. */
size_t fby__alloc_bytes(size_t n)
{
    return (n + sizeof(header) + sizeof(size_t) + alignof(header) - 1) / alignof(header) * alignof(header);
}

static header *header_of(void *p) { return (header *)p - 1; }

/* With an address sanitizer the header is what lies around an allocation: not to be touched. */
#if HAS_ASAN
static void poison(header *h) { ASAN_POISON_MEMORY_REGION(h, sizeof *h); }
static void unpoison(header *h) { ASAN_UNPOISON_MEMORY_REGION(h, sizeof *h); }
#else
static void poison(header *h) { (void)h; }
static void unpoison(header *h) { (void)h; }
#endif

static size_t bytes_of(header *h)
{
    unpoison(h);
    const size_t bytes = h->bytes;
    poison(h);
    return bytes;
}

/* h, of n bytes, is there in place of what took `before`. */
static void *allocated(header *h, size_t n, size_t before)
{
    if (!h)
        return NULL;
    h->bytes = n;
    poison(h);
    if (t_allowance)
        t_allowance->left = t_allowance->left + before - fby__alloc_bytes(n); /* may_allocate */
    return h + 1;
}

/* Nothing is larger than half the address space. */
static bool with_header(size_t n, size_t *out)
{
    *out = n + sizeof(header);
    return n <= SIZE_MAX / 2;
}

void *fby__malloc(size_t n)
{
    size_t all;
    return with_header(n, &all) && may_allocate(fby__alloc_bytes(n)) ? allocated(malloc(all), n, 0) : NULL;
}

void *fby__calloc(size_t n, size_t size)
{
    size_t bytes, all;
    if (!fby__mul_checked(n, size, &bytes) || !with_header(bytes, &all) || !may_allocate(fby__alloc_bytes(bytes)))
        return NULL;
    return allocated(calloc(1, all), bytes, 0);
}

void *fby__realloc(void *p, size_t n)
{
    if (!p)
        return fby__malloc(n);
    header *h = header_of(p);
    const size_t before = fby__alloc_bytes(bytes_of(h));
    size_t all;
    if (!with_header(n, &all) || !may_allocate(fby__alloc_bytes(n) > before ? fby__alloc_bytes(n) - before : 0))
        return NULL;
    unpoison(h);
    header *moved = realloc(h, all);
    if (!moved)
        poison(h);
    return allocated(moved, n, before);
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
    if (!p)
        return;
    header *h = header_of(p);
    unpoison(h);
    if (t_allowance)
        t_allowance->left += fby__alloc_bytes(h->bytes);
    free(h);
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
