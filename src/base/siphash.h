/* SipHash-2-4 with a result of 128 bits: a code that only who has the key can make for bytes that have none yet. */
#ifndef FBY_BASE_SIPHASH_H
#define FBY_BASE_SIPHASH_H

#include "base/hash.h"

typedef struct fby__siphash_key {
    uint8_t bytes[16];
} fby__siphash_key;

fby__hash128 fby__siphash(const fby__siphash_key *key, const void *p, size_t n);
/**
 * The same for bytes by the million, on SIMD: SipHash of the codes of four lanes, and of what is left over behind them. Lane i has of each
 * 32 bytes the i-th eight; its code is SipHash under a key of its own, which is SipHash of the byte i.
 */
fby__hash128 fby__siphash_lanes(const fby__siphash_key *key, const void *p, size_t n);

#endif
