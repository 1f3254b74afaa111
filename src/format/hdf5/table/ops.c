/* HDF5 and NetCDF-4 as a format: the table of operations, and how to know a file by its first bytes. */
#include "format/hdf5/table/table.h"

static const uint8_t SIGNATURE[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
#define MAX_USER_BLOCK 65536u

static bool is_signature(const uint8_t *p) { return memcmp(p, SIGNATURE, sizeof SIGNATURE) == 0; }

static int h5_bid(fby__bytes head, fby__bytes tail)
{
    (void)tail; /* says nothing */
    return head.n >= sizeof SIGNATURE && is_signature(head.data) ? 100 : 0;
}

/* spec II.A: the superblock lies at 0, 512 and doublings of it. Larger user blocks are not looked for. */
bool fby__h5_probe(fby__file *file)
{
    uint64_t bytes = fby__file_stamp_of(file)->size_bytes;
    for (uint64_t at = 512; at <= MAX_USER_BLOCK && at + sizeof SIGNATURE <= bytes; at *= 2) {
        uint8_t here[sizeof SIGNATURE];
        if (fby__file_read(file, at, here, sizeof here, NULL) != FBY_OK)
            return false;
        if (is_signature(here))
            return true;
    }
    return false;
}

const fby__format_ops fby__hdf5_ops = {
    .name = "hdf5",
    .bid = h5_bid,
    .probe = fby__h5_probe,
    .may_read = fby__h5_may_read,
    .open = fby__h5_table_open,
    .freeze = fby__h5_freeze,
    .thaw = fby__h5_thaw,
    .destroy = fby__h5_destroy,
    .leaf_bounds = fby__h5_leaf_bounds,
    .locate = fby__h5_locate,
    .decode_panel = fby__h5_decode_panel,
    .decode_arrow = fby__h5_decode_arrow,
    .contents = fby__h5_contents,
    .describe = fby__h5_describe,
    .note = fby__h5_note,
    .left_out = fby__h5_left_out,
    .absent = fby__h5_absent,
};
