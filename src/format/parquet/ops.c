/* Parquet as a format: the table of operations, and how to know a file by its ends. */
#include "format/parquet/parquet.h"

static bool is_magic(const uint8_t *p) { return memcmp(p, "PAR1", 4) == 0 || memcmp(p, "PARE", 4) == 0; }

/* A file with one good end is most likely a Parquet file that was cut: ours to refuse with a reason. */
static int pq_bid(fby__bytes head, fby__bytes tail)
{
    bool front = head.n >= 4 && is_magic(head.data);
    bool back = tail.n >= 4 && is_magic(tail.data + tail.n - 4);
    return front && back ? 100 : front ? 60 : back ? 40 : 0;
}

const fby__format_ops fby__parquet_ops = {
    .name = "parquet",
    .bid = pq_bid,
    .open = fby__pq_open,
    .freeze = fby__pq_freeze,
    .thaw = fby__pq_thaw,
    .destroy = fby__pq_destroy,
    .leaf_bounds = fby__pq_leaf_bounds,
    .locate = fby__pq_locate,
    .decode_panel = fby__pq_decode_panel,
    .decode_arrow = fby__pq_decode_arrow,
    .describe = fby__pq_describe,
};
