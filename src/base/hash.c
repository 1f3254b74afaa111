/* XXH3 from xxHash. */
#include "base/hash.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <xxhash.h>
#pragma GCC diagnostic pop

fby__hash128 fby__hash(const void *p, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (fby__hash128){h.low64, h.high64};
}

fby__hash128 fby__hash_more(fby__hash128 old, const void *p, size_t n)
{
    fby__hash128 add = fby__hash(p, n);
    uint64_t words[4] = {old.lo, old.hi, add.lo, add.hi};
    return fby__hash(words, sizeof words);
}

bool fby__hash_follows(const uint8_t *p, size_t n)
{
    const fby__hash128 found = fby__hash(p, n);
    fby__hash128 stored;
    memcpy(&stored.lo, p + n, sizeof stored.lo);
    memcpy(&stored.hi, p + n + sizeof stored.lo, sizeof stored.hi);
    return fby__checksum_holds(stored.lo, found.lo) && fby__checksum_holds(stored.hi, found.hi);
}

uint64_t fby__table_secret[24];
_Static_assert(sizeof fby__table_secret >= XXH3_SECRET_SIZE_MIN, "what XXH3 wants");

__attribute__((constructor)) static void draw_table_secret(void)
{
    for (size_t i = 0; i < sizeof fby__table_secret / sizeof *fby__table_secret; i++)
        fby__table_secret[i] = fby__random_unpredictable();
    fby__table_secret[0] |= 1; /* a factor that loses no bit */
}

uint64_t fby__table_hash(const void *p, size_t n) { return XXH3_64bits_withSecret(p, n, fby__table_secret, sizeof fby__table_secret); }

void fby__hash_text(fby__hash128 h, char out[33])
{
    (void)snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}
