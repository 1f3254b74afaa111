/* Sorting what is large: in place, and until the call that it is part of is cancelled. */
#ifndef FBY_BASE_SORT_H
#define FBY_BASE_SORT_H

#include "base/error.h"

/**
 * As qsort(3), whose order of equal elements is not stated either, in its place where there may be millions: that cannot be stopped, and takes
 * as much memory again, of which no account knows. FBY_E_CANCELLED: the elements are all there, in some order. Elements of up to 128 bytes.
 */
fby_status fby__sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *), fby_error *err);

/** A `compare` of uint64_t, the smallest first. */
int fby__compare_u64(const void *a, const void *b);

#endif
