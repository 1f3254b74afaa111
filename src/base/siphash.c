/*
 * SipHash-2-4-128, as Aumasson and Bernstein define it: two rounds for each word of eight bytes, and four after the last one, which holds
 * the bytes left over and the length. The constants are theirs. The rounds are written once, for a word and for a vector of words.
 */
#include "base/siphash.h"
#include "base/bytes.h"
#include "base/cpu.h"

#include <string.h>

#define LANES 4
#define BLOCK (LANES * sizeof(uint64_t))

typedef uint64_t words __attribute__((vector_size(BLOCK)));

#define ROTATE(x, bits) ((x) << (bits) | (x) >> (64 - (bits)))
#define ROUND(v)                                                                                                                           \
    ((v)[0] += (v)[1], (v)[2] += (v)[3], (v)[1] = ROTATE((v)[1], 13) ^ (v)[0], (v)[3] = ROTATE((v)[3], 16) ^ (v)[2],                       \
     (v)[0] = ROTATE((v)[0], 32) + (v)[3], (v)[2] += (v)[1], (v)[1] = ROTATE((v)[1], 17) ^ (v)[2], (v)[3] = ROTATE((v)[3], 21) ^ (v)[0],   \
     (v)[2] = ROTATE((v)[2], 32))
#define ABSORB(v, word) ((v)[3] ^= (word), ROUND(v), ROUND(v), (v)[0] ^= (word))

static void begin(uint64_t v[4], const fby__siphash_key *key)
{
    const uint64_t k0 = fby__load_u64(key->bytes), k1 = fby__load_u64(key->bytes + 8);
    v[0] = k0 ^ UINT64_C(0x736f6d6570736575);
    v[1] = k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee;
    v[2] = k0 ^ UINT64_C(0x6c7967656e657261);
    v[3] = k1 ^ UINT64_C(0x7465646279746573);
}

/* The last word: the n % 8 bytes left over at `rest`, and the length. */
static fby__hash128 end(uint64_t v[4], const uint8_t *rest, size_t n)
{
    uint8_t last[8] = {0};
    if (n % 8)
        memcpy(last, rest, n % 8);
    last[7] = (uint8_t)n;
    ABSORB(v, fby__load_u64(last));
    fby__hash128 out;
    v[2] ^= 0xee;
    for (int i = 0; i < 4; i++)
        ROUND(v);
    out.lo = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    for (int i = 0; i < 4; i++)
        ROUND(v);
    out.hi = v[0] ^ v[1] ^ v[2] ^ v[3];
    return out;
}

fby__hash128 fby__siphash(const fby__siphash_key *key, const void *p, size_t n)
{
    uint64_t v[4];
    const uint8_t *at = p;
    begin(v, key);
    for (size_t i = 0; i < n / 8; i++, at += 8)
        ABSORB(v, fby__load_u64(at));
    return end(v, at, n);
}

static inline __attribute__((always_inline)) void absorb_blocks(words v[4], const uint8_t *p, size_t n_blocks)
{
    words own[4], word;
    memcpy(own, v, sizeof own);
    for (size_t i = 0; i < n_blocks; i++, p += BLOCK) {
        memcpy(&word, p, sizeof word);
        ABSORB(own, word);
    }
    memcpy(v, own, sizeof own);
}

#if defined __x86_64__
__attribute__((target("avx2"))) static void absorb_avx2(words v[4], const uint8_t *p, size_t n_blocks) { absorb_blocks(v, p, n_blocks); }
#endif

static void absorb(words v[4], const uint8_t *p, size_t n_blocks)
{
#if defined __x86_64__
    if (fby__cpu_has_avx2()) {
        absorb_avx2(v, p, n_blocks);
        return;
    }
#endif
    absorb_blocks(v, p, n_blocks);
}

fby__hash128 fby__siphash_lanes(const fby__siphash_key *key, const void *p, size_t n)
{
    const size_t n_blocks = n / BLOCK, left = n % BLOCK;
    uint64_t v[LANES][4];
    words side[4];
    uint8_t codes[LANES * sizeof(fby__hash128) + BLOCK];
    for (uint8_t i = 0; i < LANES; i++) {
        fby__siphash_key own;
        const fby__hash128 code = fby__siphash(key, &i, 1);
        memcpy(own.bytes, &code, sizeof own.bytes);
        begin(v[i], &own);
        for (int k = 0; k < 4; k++)
            side[k][i] = v[i][k];
    }
    absorb(side, p, n_blocks);
    for (uint8_t i = 0; i < LANES; i++) {
        for (int k = 0; k < 4; k++)
            v[i][k] = side[k][i];
        const fby__hash128 code = end(v[i], NULL, n_blocks * 8);
        memcpy(codes + i * sizeof code, &code, sizeof code);
    }
    if (left)
        memcpy(codes + LANES * sizeof(fby__hash128), (const uint8_t *)p + n_blocks * BLOCK, left);
    return fby__siphash(key, codes, LANES * sizeof(fby__hash128) + left);
}
