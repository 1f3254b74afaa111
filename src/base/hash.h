/* 128-bit hashes (XXH3) for identities, fingerprints and cache keys, and hashes for tables in memory. Not for security. */
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

/**
 * For hash tables in memory, whose keys may come from a file: what it is made of is drawn when the library is loaded, so that nobody can choose keys
 * that meet. For nothing that is kept or that an order depends on.
 */
uint64_t fby__table_hash(const void *p, size_t n);
extern uint64_t fby__table_secret[24];           /* set once */
#define FBY__GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / the golden ratio: spreads numbers that follow each other in equal steps */
/*
 * A number's high bits come into its low ones, or a large power of two as the step would leave the product's low half empty (by 29 bits: by 32, pairs of
 * equal numbers would be zeros). A factor that spreads some steps badly is made good by the second one.
 */
static inline uint64_t fby__table_hash_u64(uint64_t x)
{
    const uint64_t product = (x ^ x >> 29) * fby__table_secret[0], spread = (product ^ product >> 32) * FBY__GOLDEN;
    return spread ^ spread >> 32;
}

#endif
