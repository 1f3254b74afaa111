/* 128-bit hashes (XXH3) for identities, fingerprints and cache keys. Not for security. */
#ifndef FBY_BASE_HASH_H
#define FBY_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fby__hash128 {
    uint64_t lo, hi;
} fby__hash128;

fby__hash128 fby__hash(const void *p, size_t n);
/** Fold more bytes into a hash: order matters. */
fby__hash128 fby__hash_more(fby__hash128 h, const void *p, size_t n);
static inline bool fby__hash_equal(fby__hash128 a, fby__hash128 b) { return a.lo == b.lo && a.hi == b.hi; }
/** 32 lower-case hex digits and a NUL. */
void fby__hash_text(fby__hash128 h, char out[33]);

#endif
