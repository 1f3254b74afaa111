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
/** For a hash table in memory: with a random seed, nobody can choose keys that collide. */
uint64_t fby__hash_seeded(const void *p, size_t n, uint64_t seed);
/** Fold more bytes into a hash: order matters. */
fby__hash128 fby__hash_more(fby__hash128 h, const void *p, size_t n);
static inline bool fby__hash_equal(fby__hash128 a, fby__hash128 b) { return a.lo == b.lo && a.hi == b.hi; }
/**
 * Is a checksum that was stored the one that was found? In builds for fuzzing always: an input is to get behind it.
 */
static inline bool fby__checksum_holds(uint64_t stored, uint64_t found)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)stored;
    (void)found;
    return true;
#else
    return stored == found;
#endif
}
/** Do the 16 bytes behind p[0 … n) hold its hash, as files of the cache end? */
bool fby__hash_follows(const uint8_t *p, size_t n);
/** 32 lower-case hex digits and a NUL. */
void fby__hash_text(fby__hash128 h, char out[33]);

#endif
