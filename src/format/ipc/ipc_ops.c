/* Arrow IPC as a format: the table of operations, and how to know a file: by its first bytes, or, of a stream, by its first message. */
#include "format/ipc/ipc.h"

#include <stdio.h>
#include <string.h>

static int ipc_bid(fby__bytes head, fby__bytes tail)
{
    (void)tail; /* one whose end is missing is still ours: to refuse */
    return head.n >= 6 && memcmp(head.data, "ARROW1", 6) == 0 ? 100 : 0;
}

static bool ipc_note(const fby__table *table, uint32_t i, char *out, size_t n)
{
    if (i > 0 || !fby__ipc(table)->no_end)
        return false;
    (void)snprintf(out, n,
                   "the stream ends without its end mark: if its writer did not close it, or a copy was cut short, batches are missing");
    return true;
}

const fby__format_ops fby__ipc_ops = {
    .name = "ipc",
    .group = "record batch",
    .groups = "record batches",
    .bid = ipc_bid,
    .probe = fby__ipc_probe,
    .open = fby__ipc_open,
    .freeze = fby__ipc_freeze,
    .thaw = fby__ipc_thaw,
    .destroy = fby__ipc_destroy,
    .leaf_bounds = fby__ipc_leaf_bounds,
    .locate = fby__ipc_locate,
    .decode_panel = fby__ipc_decode_panel,
    .decode_arrow = fby__ipc_decode_arrow,
    .contents = fby__ipc_contents,
    .describe = fby__ipc_describe,
    .note = ipc_note,
};
