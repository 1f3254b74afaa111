/* Quicksort down to ranges that qsort(3) sorts at once. See sort.h. */
#include "base/sort.h"

#include "base/cancel.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SMALL ((size_t)1 << 15) /* elements: a few milliseconds */
#define MAX_SIZE 128u

typedef struct sorting {
    size_t size;
    int (*compare)(const void *, const void *);
    fby__random random; /* no input has the pivots against it */
    uint64_t steps;
} sorting;

static void swap(const sorting *s, char *a, char *b)
{
    char kept[MAX_SIZE];
    if (a == b) /* memcpy would overlap */
        return;
    if (s->size == sizeof(uint64_t)) { /* what most are: two moves */
        uint64_t x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        memcpy(a, &y, sizeof y);
        memcpy(b, &x, sizeof x);
        return;
    }
    memcpy(kept, a, s->size);
    memcpy(a, b, s->size);
    memcpy(b, kept, s->size);
}

/* The median of three at random. */
static void choose_pivot(sorting *s, const char *base, size_t n, char *out)
{
    const char *at[3];
    for (int i = 0; i < 3; i++)
        at[i] = base + fby__random_below(&s->random, n) * s->size;
    const bool first = s->compare(at[0], at[1]) < 0, second = s->compare(at[1], at[2]) < 0, third = s->compare(at[0], at[2]) < 0;
    memcpy(out, first == second ? at[1] : first == third ? at[2] : at[0], s->size);
}

static fby_status sort(sorting *s, char *base, size_t n, fby_error *err)
{
    char pivot[MAX_SIZE];
    while (n > SMALL) {
        size_t below = 0, at = 0, above = n; /* [0, below) < pivot, [below, at) equal, [above, n) > pivot */
        choose_pivot(s, base, n, pivot);
        while (at < above) {
            FBY__TRY(fby__cancel_check_at(s->steps++, err));
            const int c = s->compare(base + at * s->size, pivot);
            if (c < 0)
                swap(s, base + below++ * s->size, base + at++ * s->size);
            else if (c > 0)
                swap(s, base + at * s->size, base + --above * s->size);
            else
                at++;
        }
        char *rest = base + above * s->size;
        if (below < n - above) { /* the smaller one by a call: they are no deeper than log2(n) */
            FBY__TRY(sort(s, base, below, err));
            base = rest;
            n -= above;
        } else {
            FBY__TRY(sort(s, rest, n - above, err));
            n = below;
        }
    }
    FBY__TRY(fby__cancel_check(err));
    if (n > 1)
        qsort(base, n, s->size, s->compare);
    return FBY_OK;
}

fby_status fby__sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *), fby_error *err)
{
    assert(size <= MAX_SIZE);
    sorting s = {.size = size, .compare = compare, .random = {.key = n}};
    return sort(&s, base, n, err);
}

int fby__compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}
