/*
 * A keyed permutation of [0, n) whose value at any position costs O(1) and no table.
 *
 * A Feistel network permutes [0, 2^bits), bits = ceil(log2 n); an index that lands at n or above goes through the
 * network again until it lands below ("cycle walking": J. Black, P. Rogaway, "Ciphers with arbitrary finite domains",
 * CT-RSA 2002). 2^bits < 2n, so an index needs fewer than two passes on average.
 *
 *      index = L · R            the upper bits/2 bits, the lower rest
 *      L ^= F(R, k0)   R ^= F(L, k1)   L ^= F(R, k2) …     F: to as many bits as its target has
 *
 * Why 8 rounds: a pair of indices whose lower halves differ keeps that difference only while each round happens to
 * leave the upper halves equal, 2^(-bits/2) each time: 2^-16 after 8 rounds of 9 bits, 2^-36 at 2^18. Smaller halves
 * need more: with 8 rounds, test_permute sees the bias of pairs at n = 5, with 12 that of whole orders at n = 6, with
 * 16 none; we take 24. This is for statistics, not for secrecy.
 *
 * Saved states depend on these values: what fby__permute(key, n, i) returns never changes (test_permute has a table).
 */
#include "plan/permute_internal.h"
#include "plan/plan.h"

#include "base/cpu.h"
#include "base/random.h"

#include <assert.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ROUNDS 8
#define ROUNDS_SMALL 24 /* up to SMALL_BITS bits */
#define SMALL_BITS 8
#define LANES 256                      /* 5 KiB of state on the stack */
#define AT_ONCE 8                      /* values in a vector */
#define KEY_DOMAIN 0x6665697374656c00u /* "feistel": keeps the round keys apart from other uses of the same key */

typedef struct feistel {
    uint64_t n;
    uint32_t l_bits, r_bits, rounds;
    uint32_t keys[ROUNDS_SMALL];
} feistel;

static void feistel_init(feistel *f, uint64_t key, uint64_t n)
{
    assert(n >= 1 && n <= (uint64_t)1 << 62);
    uint32_t bits = n > 2 ? 64 - (uint32_t)__builtin_clzll(n - 1) : 1;
    if (bits < 2)
        bits = 2; /* each half has at least one bit */
    f->n = n;
    f->l_bits = bits / 2;
    f->r_bits = bits - f->l_bits;
    f->rounds = bits <= SMALL_BITS ? ROUNDS_SMALL : ROUNDS;
    for (uint32_t round = 0; round < f->rounds; round += 4) {
        fby__philox keys = fby__philox4x32(key, round, KEY_DOMAIN);
        for (uint32_t j = 0; j < 4; j++)
            f->keys[round + j] = keys.v[j];
    }
}

/*
 * Mixes x with the key; the caller takes the upper bits, which a multiplication mixes best. Constants: C. Wellons,
 * "lowbias32", found by search for the smallest avalanche bias.
 */
static inline __attribute__((always_inline)) uint32_t mix(uint32_t x, uint32_t key)
{
    x ^= key;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x;
}

/* One pass of the network over m lanes. Plain loops: every compiler in use turns them into vectors. */
static inline __attribute__((always_inline)) void pass(const feistel *f, uint32_t *restrict l, uint32_t *restrict r, uint32_t m)
{
    const uint32_t l_shift = 32 - f->l_bits, r_shift = 32 - f->r_bits;
    for (uint32_t round = 0; round < f->rounds; round += 2) {
        const uint32_t k0 = f->keys[round], k1 = f->keys[round + 1];
        for (uint32_t j = 0; j < m; j++) {
            uint32_t a = l[j] ^ mix(r[j], k0) >> l_shift;
            l[j] = a;
            r[j] ^= mix(a, k1) >> r_shift;
        }
    }
}

/* The same backwards: the rounds undone, the last one first. */
static inline __attribute__((always_inline)) void unpass(const feistel *f, uint32_t *restrict l, uint32_t *restrict r, uint32_t m)
{
    const uint32_t l_shift = 32 - f->l_bits, r_shift = 32 - f->r_bits;
    for (uint32_t round = f->rounds; round > 0; round -= 2) {
        const uint32_t k0 = f->keys[round - 2], k1 = f->keys[round - 1];
        for (uint32_t j = 0; j < m; j++) {
            uint32_t a = r[j] ^ mix(l[j], k1) >> r_shift;
            r[j] = a;
            l[j] ^= mix(a, k0) >> l_shift;
        }
    }
}

static inline __attribute__((always_inline)) void pass_either(const feistel *f, bool inverse, uint32_t *restrict l, uint32_t *restrict r,
                                                              uint32_t m)
{
    if (inverse)
        unpass(f, l, r, m);
    else
        pass(f, l, r, m);
}

/*
 * How those that walk are kept: out[at[0, m)] becomes v, and the indices of values outside [0, n) are appended to walk. Returns their
 * number.
 */
typedef uint32_t keep_again_fn(uint64_t *out, uint64_t n, const uint32_t *at, const uint32_t *l, const uint32_t *r, uint32_t r_bits,
                               uint32_t m, uint32_t *walk, uint32_t n_walk);
typedef uint32_t keep_fresh_fn(const uint64_t *out, uint64_t n, uint32_t from, uint32_t m, uint32_t *walk, uint32_t n_walk);

static inline __attribute__((always_inline)) uint32_t keep_again(uint64_t *out, uint64_t n, const uint32_t *at, const uint32_t *l,
                                                                 const uint32_t *r, uint32_t r_bits, uint32_t m, uint32_t *walk,
                                                                 uint32_t n_walk)
{
    for (uint32_t j = 0; j < m; j++) {
        const uint64_t v = (uint64_t)l[j] << r_bits | r[j];
        out[at[j]] = v;
        walk[n_walk] = at[j];
        n_walk += v >= n;
    }
    return n_walk;
}

/*
 * Where those of out[from, from + m) that are still outside [0, n) stand, appended to walk[n_walk …]. Where n nearly fills a power of two
 * few are, and eight at a time are passed over; among eight of which one is there is no branch, since half of them may be.
 */
static inline __attribute__((always_inline)) uint32_t keep_outside(const uint64_t *out, uint64_t n, uint32_t from, uint32_t m,
                                                                   uint32_t *walk, uint32_t n_walk)
{
    for (uint32_t j = from; j < from + m;) {
        const uint32_t end = from + m - j < 8 ? from + m : j + 8;
        uint64_t outside = 0;
        for (uint32_t k = j; k < end; k++)
            outside |= out[k] >= n;
        for (; outside && j < end; j++) {
            walk[n_walk] = j;
            n_walk += out[j] >= n;
        }
        j = end;
    }
    return n_walk;
}

/*
 * out[j] = π(i + j), or with `inverse` π⁻¹(i + j): walking a cycle backwards from inside ends where the walk forwards began. Fresh indices
 * go through the network as they stand; those that land outside [0, n) stay in `out` and are listed, and go again when they fill all lanes:
 * lanes work until the indices run out, however badly n fits a power of two.
 */
static inline __attribute__((always_inline)) void run(uint64_t key, uint64_t n, uint64_t i, uint32_t count, bool inverse, uint64_t *out,
                                                      keep_fresh_fn *fresh, keep_again_fn *more)
{
    if (count == 0)
        return;
    assert(i < n && count <= n - i);
    feistel f;
    feistel_init(&f, key, n);
    const uint32_t r_bits = f.r_bits, r_mask = (uint32_t)(((uint64_t)1 << r_bits) - 1);
    const bool walks = (uint64_t)1 << (f.l_bits + f.r_bits) != n;
    uint32_t l[LANES], r[LANES], walk[2 * LANES + AT_ONCE], again[LANES]; /* of walk, eight are written where one may be kept */
    uint32_t next = 0, n_walk = 0;
    while (next < count) {
        const uint32_t m = LANES < count - next ? LANES : count - next;
        uint64_t *to = out + next;
        for (uint32_t j = 0; j < m; j++) {
            const uint64_t index = i + next + j;
            l[j] = (uint32_t)(index >> r_bits);
            r[j] = (uint32_t)index & r_mask;
        }
        pass_either(&f, inverse, l, r, m);
        for (uint32_t j = 0; j < m; j++)
            to[j] = (uint64_t)l[j] << r_bits | r[j];
        if (walks)
            n_walk = fresh(out, n, next, m, walk, n_walk);
        next += m;
        while (n_walk >= LANES || (next == count && n_walk > 0)) {
            const uint32_t k = LANES < n_walk ? LANES : n_walk;
            n_walk -= k;
            memcpy(again, walk + n_walk, k * sizeof *again);
            for (uint32_t j = 0; j < k; j++) {
                l[j] = (uint32_t)(out[again[j]] >> r_bits);
                r[j] = (uint32_t)out[again[j]] & r_mask;
            }
            pass_either(&f, inverse, l, r, k);
            n_walk = more(out, n, again, l, r, r_bits, k, walk, n_walk);
        }
    }
}

/* One call for each direction: `inverse` is a constant in each. */
static void run_scalar(uint64_t key, uint64_t n, uint64_t i, uint32_t count, bool inverse, uint64_t *out)
{
    if (inverse)
        run(key, n, i, count, true, out, keep_outside, keep_again);
    else
        run(key, n, i, count, false, out, keep_outside, keep_again);
}
static bool always(void) { return true; }

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void run_avx2(uint64_t key, uint64_t n, uint64_t i, uint32_t count, bool inverse, uint64_t *out)
{
    if (inverse)
        run(key, n, i, count, true, out, keep_outside, keep_again);
    else
        run(key, n, i, count, false, out, keep_outside, keep_again);
}
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

/* The lanes of a mask, packed. To a register and stored whole: a compressing store is microcode on Zen 4. */
AVX512 static inline uint32_t append_avx512(uint32_t *walk, uint32_t n_walk, __mmask8 mask, __m256i at)
{
    _mm256_storeu_si256((void *)(walk + n_walk), _mm256_maskz_compress_epi32(mask, at));
    return n_walk + (uint32_t)__builtin_popcount(mask);
}

AVX512 static inline uint32_t keep_outside_avx512(const uint64_t *out, uint64_t n, uint32_t from, uint32_t m, uint32_t *walk,
                                                  uint32_t n_walk)
{
    const __m512i limit = _mm512_set1_epi64((long long)n);
    const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    uint32_t j = from;
    for (; j + AT_ONCE <= from + m; j += AT_ONCE) {
        const __mmask8 outside = _mm512_cmpge_epu64_mask(_mm512_loadu_si512(out + j), limit);
        n_walk = append_avx512(walk, n_walk, outside, _mm256_add_epi32(_mm256_set1_epi32((int)j), step));
    }
    return keep_outside(out, n, j, from + m - j, walk, n_walk);
}

AVX512 static inline uint32_t keep_again_avx512(uint64_t *out, uint64_t n, const uint32_t *at, const uint32_t *l, const uint32_t *r,
                                                uint32_t r_bits, uint32_t m, uint32_t *walk, uint32_t n_walk)
{
    const __m512i limit = _mm512_set1_epi64((long long)n);
    uint32_t j = 0;
    for (; j + AT_ONCE <= m; j += AT_ONCE) {
        const __m256i where = _mm256_loadu_si256((const void *)(at + j));
        const __m512i high = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)(l + j))),
                      low = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)(r + j))),
                      v = _mm512_or_si512(_mm512_sll_epi64(high, _mm_cvtsi32_si128((int)r_bits)), low);
        _Alignas(64) uint64_t value[AT_ONCE];
        _mm512_store_si512(value, v);
        for (uint32_t k = 0; k < AT_ONCE; k++)
            out[at[j + k]] = value[k];
        n_walk = append_avx512(walk, n_walk, _mm512_cmpge_epu64_mask(v, limit), where);
    }
    return keep_again(out, n, at + j, l + j, r + j, r_bits, m - j, walk, n_walk);
}

AVX512 static void run_avx512(uint64_t key, uint64_t n, uint64_t i, uint32_t count, bool inverse, uint64_t *out)
{
    if (inverse)
        run(key, n, i, count, true, out, keep_outside_avx512, keep_again_avx512);
    else
        run(key, n, i, count, false, out, keep_outside_avx512, keep_again_avx512);
}
#endif

static const fby__permute_variant variants[] = {
    {"scalar", always, run_scalar},
#if defined(__x86_64__)
    {"avx2", fby__cpu_has_avx2, run_avx2},
    {"avx512", fby__cpu_has_avx512, run_avx512},
#endif
};

const fby__permute_variant *fby__permute_variant_at(uint32_t k) { return k < sizeof variants / sizeof variants[0] ? &variants[k] : NULL; }

static void run_fastest(uint64_t key, uint64_t n, uint64_t i, uint32_t count, bool inverse, uint64_t *out)
{
    for (uint32_t k = sizeof variants / sizeof variants[0]; k-- > 0;) {
        if (variants[k].supported()) {
            variants[k].run(key, n, i, count, inverse, out);
            return;
        }
    }
}

void fby__permute_many(uint64_t key, uint64_t n, uint64_t i, uint32_t count, uint64_t *out) { run_fastest(key, n, i, count, false, out); }

void fby__permute_inverse_many(uint64_t key, uint64_t n, uint64_t i, uint32_t count, uint64_t *out)
{
    run_fastest(key, n, i, count, true, out);
}

uint64_t fby__permute(uint64_t key, uint64_t n, uint64_t i)
{
    assert(i < n);
    feistel f;
    feistel_init(&f, key, n);
    uint64_t v = i;
    do {
        uint32_t l = (uint32_t)(v >> f.r_bits), r = (uint32_t)(v & (((uint64_t)1 << f.r_bits) - 1));
        pass(&f, &l, &r, 1);
        v = (uint64_t)l << f.r_bits | r;
    } while (v >= n);
    return v;
}
