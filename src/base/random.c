/* Philox4x32-10, an unbiased bounded draw, and a number that is no function of anything. */
#include "base/random.h"

#include "base/clock.h"

#include <sys/random.h>
#include <unistd.h>

fby__philox fby__philox4x32(uint64_t key, uint64_t counter_lo, uint64_t counter_hi)
{
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (fby__philox){{c0, c1, c2, c3}};
}

uint64_t fby__random_below(fby__random *r, uint64_t n)
{
    /* Lemire's multiply-and-reject (ACM TOMACS 29, 2019): at most n/2^64 of the draws are thrown away. */
    unsigned __int128 m = (unsigned __int128)fby__random_next(r) * n;
    uint64_t low = (uint64_t)m;
    if (low < n) {
        uint64_t threshold = -n % n;
        while (low < threshold) {
            m = (unsigned __int128)fby__random_next(r) * n;
            low = (uint64_t)m;
        }
    }
    return (uint64_t)(m >> 64);
}

uint64_t fby__random_unpredictable(void)
{
    uint64_t own;
    if (getrandom(&own, sizeof own, GRND_NONBLOCK) != (ssize_t)sizeof own)
        own = fby__now_ns() ^ (uint64_t)getpid() << 32; /* before the system has any */
    return own;
}
