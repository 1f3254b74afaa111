/* Where samples go when a data set is packed: see order.h. */
#include "pack/order.h"

#include "plan/plan.h"

#include <assert.h>

fby__pack_order fby__pack_order_of(uint64_t n_samples, uint64_t unit, bool shuffled, uint64_t seed)
{
    assert(unit >= 1 && n_samples < (uint64_t)1 << 62);
    return (fby__pack_order){.n = n_samples, .unit = unit, .key = fby__plan_full_key(seed, 0), .shuffled = shuffled};
}

static void count_up(uint64_t first, uint32_t count, uint64_t *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = first + i;
}

void fby__pack_destinations(const fby__pack_order *order, uint64_t first, uint32_t count, uint64_t *out)
{
    assert(first <= order->n && count <= order->n - first);
    if (order->shuffled)
        fby__permute_inverse_many(order->key, order->n, first, count, out);
    else
        count_up(first, count, out);
}

void fby__pack_samples(const fby__pack_order *order, uint64_t first, uint32_t count, uint64_t *out)
{
    assert(first <= order->n && count <= order->n - first);
    if (order->shuffled)
        fby__permute_many(order->key, order->n, first, count, out);
    else
        count_up(first, count, out);
}

static uint64_t units(const fby__pack_order *order) { return order->n / order->unit + (order->n % order->unit != 0); }

uint64_t fby__pack_bucket_begin(const fby__pack_order *order, uint32_t k, uint32_t n)
{
    assert(n >= 1 && k <= n);
    const uint64_t unit = (uint64_t)((unsigned __int128)units(order) * k / n), at = unit * order->unit;
    return k == n || at > order->n ? order->n : at;
}

uint32_t fby__pack_bucket_of(const fby__pack_order *order, uint64_t destination, uint32_t n)
{
    assert(destination < order->n);
    /* The last k with ⌊u k / n⌋ ≤ the destination's unit. */
    const uint64_t unit = destination / order->unit;
    return (uint32_t)((((unsigned __int128)unit + 1) * n - 1) / units(order));
}

/* The number of starts that are at most `sample`. */
static uint32_t at_most(const uint64_t *starts, uint32_t n, uint64_t sample)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (starts[middle] <= sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void fby__pack_bucket_blocks(const fby__pack_order *order, uint32_t k, uint32_t n, const uint64_t *starts, uint32_t n_blocks,
                             uint32_t *out_first, uint32_t *out_last)
{
    const uint64_t begin = fby__pack_bucket_begin(order, k, n), end = fby__pack_bucket_begin(order, k + 1, n);
    *out_first = *out_last = 0;
    if (begin == end)
        return;
    *out_first = order->shuffled ? 0 : at_most(starts, n_blocks, begin) - 1;
    *out_last = order->shuffled ? n_blocks : at_most(starts, n_blocks, end - 1);
}
