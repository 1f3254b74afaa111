/*
 * Chunk indexes that are B-trees of version 1, node type 1 (spec III.A.1): layout messages 1 to 3, most files there are.
 *
 *   node   "TREE"  type 1  level  entries used u16  left, right sibling   key 0  child 0  key 1  child 1 …  key n
 *   key    stored size u32   filter mask u32   offset in elements u64 × rank   offset in the element u64 (0)
 *
 * Key i is the first chunk below child i; at level 0 the child is the chunk itself. Siblings and the last key are not needed
 * to visit every child from the root. Nodes carry no checksum.
 */
#include "format/hdf5/metadata/chunks_internal.h"

#include <inttypes.h>

#define WHAT "B-tree node"

static fby_status bad_node(const fby__h5_chunk_reader *r, uint64_t address, const char *text, fby_error *err)
{
    return fby__fail_at(err, FBY_E_FORMAT, r->f->base + address, WHAT " at %" PRIu64 " %s", address, text);
}

/* One entry of a leaf. */
static fby_status add_chunk(fby__h5_chunk_reader *r, const uint8_t *key, uint64_t child, fby_error *err)
{
    uint64_t scaled[FBY__H5_MAX_RANK];
    for (uint32_t i = 0; i < r->rank; i++) {
        uint64_t offset = fby__load_u64(key + 8 + 8 * i);
        scaled[i] = offset / r->object->chunk[i];
        if (offset != scaled[i] * r->object->chunk[i])
            return fby__fail_at(err, FBY_E_FORMAT, r->f->base + r->at,
                                "a chunk begins at element %" PRIu64 " of axis %" PRIu32 ", inside a chunk", offset, i);
    }
    if (fby__load_u64(key + 8 + 8 * r->rank) != 0)
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + r->at, "a chunk begins inside an element");
    return fby__h5_chunk_add(r, scaled, child, fby__load_u32(key), fby__load_u32(key + 4), err);
}

/* level: as the parent says. Every step goes one level down, so it ends. */
static fby_status read_node(fby__h5_chunk_reader *r, uint64_t address, unsigned level, fby_error *err)
{
    size_t head_bytes = 8 + 2 * (size_t)r->f->offset_bytes, key_bytes = 8 + 8 * ((size_t)r->rank + 1);
    fby__bytes head;
    FBY__TRY(fby__h5_view(r->f, address, head_bytes, WHAT, &head, err));
    if (memcmp(head.data, "TREE", 4) != 0)
        return bad_node(r, address, "does not begin with TREE", err);
    if (head.data[4] != 1)
        return bad_node(r, address, "is not of a chunk index", err);
    if (head.data[5] != level)
        return bad_node(r, address, "has another level than its parent says", err);
    uint64_t n = fby__load_u16(head.data + 6);
    fby__bytes view;
    FBY__TRY(fby__h5_index_view(r, address, head_bytes + n * (key_bytes + r->f->offset_bytes), WHAT, &view, err));
    fby__h5_cursor c = fby__h5_cursor_of(r->f, view, address, WHAT);
    (void)fby__h5_next(&c, head_bytes); /* seen above */
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *key = fby__h5_next(&c, key_bytes);
        uint64_t child = fby__h5_offset(&c);
        FBY__TRY(fby__h5_cursor_check(&c, err));
        if (level == 0)
            FBY__TRY(add_chunk(r, key, child, err));
        else if (child == FBY__H5_UNDEFINED)
            return bad_node(r, address, "has a child without an address", err);
        else
            FBY__TRY(read_node(r, child, level - 1, err));
    }
    return FBY_OK;
}

fby_status fby__h5_chunks_btree1(fby__h5_chunk_reader *r, fby_error *err)
{
    uint64_t root = r->object->data_address;
    fby__bytes head;
    FBY__TRY(fby__h5_view(r->f, root, 8, WHAT, &head, err));
    if (head.data[5] > FBY__H5_MAX_DEPTH)
        return bad_node(r, root, "has too many levels", err);
    return read_node(r, root, head.data[5], err);
}
