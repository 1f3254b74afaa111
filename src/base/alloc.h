/*
 * Small allocations: metadata, names, handles. Sample data lives in slabs (budget/slab.h).
 * Everything in the library allocates here, so that a test can fail the n-th allocation.
 */
#ifndef FBY_BASE_ALLOC_H
#define FBY_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *fby__malloc(size_t n);                              /* NULL when out of memory; n = 0 gives a valid pointer */
void *fby__calloc(size_t n, size_t size);                 /* zeroed; NULL also when n * size overflows */
void *fby__realloc(void *p, size_t n);                    /* NULL leaves p as it was */
void *fby__realloc_array(void *p, size_t n, size_t size); /* as realloc, NULL also on overflow */
char *fby__strdup(const char *s);
char *fby__strndup(const char *s, size_t n);
char *fby__format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* malloc'd text or NULL */
void fby__free(void *p);
/**
 * What an allocation of n bytes takes with what stands in front of it: a million names of a byte are 31 MiB. Not what malloc gave, which depends on
 * what the process freed before (whole chunks instead of split ones, mappings instead of the heap).
 */
size_t fby__alloc_bytes(size_t n);
/** Freed memory that the C library keeps goes back to the system: after much was freed, in what is done once a file. */
void fby__alloc_trim(void);

/**
 * Make room for one more element in a growing array: doubles *cap, at least to `need` elements.
 * Returns 0, or -1 when out of memory (the array is unchanged).
 */
int fby__grow(void **array, size_t *cap, size_t need, size_t elem_size);

/**
 * What a thread may allocate: beyond it, allocations fail. What it frees is given back, whoever allocated it. An allocation counts
 * fby__alloc_bytes, so what there is room for depends on the work alone.
 */
typedef struct fby__allowance {
    size_t left;
    bool (*more)(struct fby__allowance *allowance, size_t bytes); /* asked when `bytes` are more than what is left; false: no */
    bool tight;                                                   /* what grows takes what it needs now, and nothing for later */
} fby__allowance;
/** From now on this thread allocates within an allowance, which is borrowed; NULL = without one. Returns the one before. */
fby__allowance *fby__alloc_within(fby__allowance *allowance);
/** Is this thread to allocate no more than it needs now? */
bool fby__alloc_is_tight(void);
/** Bytes that others allocate for this thread (another process): of its allowance. False: it has no room for them. */
bool fby__alloc_charge(size_t n);
void fby__alloc_discharge(size_t n);

/** Test hook: the n-th allocation from now fails (1 = the next), then all succeed; 0 switches it off. */
void fby__alloc_fail_at(uint64_t n);
/** Test hook: allocations made so far in this process. */
uint64_t fby__alloc_count(void);
/** For other allocators (slabs, mmap) to take part in the same count: non-zero when this one must fail. */
int fby__alloc_should_fail(void);

#endif
