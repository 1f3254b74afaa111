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

static uint64_t units(const fby__pack_order *order) { return order->n / order->unit + (order->n % order->unit != 0); }

uint64_t fby__pack_bucket_begin(const fby__pack_order *order, uint32_t k, uint32_t n)
{
    assert(n >= 1 && k <= n);
    const uint64_t unit = (uint64_t)((unsigned __int128)units(order) * k / n), at = unit * order->unit;
    return k == n || at > order->n ? order->n : at;
}

#define STAGED_ROW_BYTES                                                                                                                   \
    48.0 /* of what is kept of a row on its way: its destination, its position, its run; arrays that grow have room to spare */

static double bucket_bytes(uint64_t rows, double row_bytes) { return (double)rows * (row_bytes + FBY__PACK_BUCKET_ROW_BYTES) * 1.25; }

double fby__pack_buckets_for(uint64_t rows, double row_bytes, uint64_t task_bytes)
{
    const double most = (double)rows / (double)UINT32_MAX + 1; /* positions in a bucket have 32 bits */
    const double n = bucket_bytes(rows, row_bytes) / ((double)task_bytes / 2) + 1;
    return n > most ? n : most;
}

/* Inverts the formula above: less the bucket that it adds, and one for what rounding loses. */
double fby__pack_task_bytes_for(uint64_t rows, double row_bytes) { return 2 * bucket_bytes(rows, row_bytes) / (FBY__PACK_BUCKETS - 2); }

double fby__pack_scatters_for(uint64_t rows, double row_bytes, uint64_t task_bytes)
{
    return (double)rows * (row_bytes + STAGED_ROW_BYTES) * 1.1 / ((double)task_bytes / 4) + 1;
}
