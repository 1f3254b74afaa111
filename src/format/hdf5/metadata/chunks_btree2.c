/*
 * Chunk indexes that are B-trees of version 2 (spec III.A.2, record types 10 and 11): several dimensions are unlimited.
 *
 *   record 10  address   position in the grid u64 × rank
 *   record 11  address   stored size, 1 to 8 bytes   filter mask u32   position in the grid u64 × rank
 */
#include "format/hdf5/metadata/chunks_internal.h"

#include <inttypes.h>

typedef struct walk {
    fby__h5_chunk_reader *r;
    uint16_t record_bytes; /* set by the walk before its first record */
} walk;

static fby_status add_record(void *user, const uint8_t *record, fby_error *err)
{
    const walk *w = user;
    fby__h5_chunk_reader *r = w->r;
    unsigned fixed = r->f->offset_bytes + 8 * r->rank + (r->filtered ? 4u : 0u);
    unsigned size_bytes = w->record_bytes > fixed ? w->record_bytes - fixed : 0;
    if (w->record_bytes < fixed || (r->filtered ? size_bytes < 1 || size_bytes > 8 : size_bytes != 0))
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + r->at, "B-tree at %" PRIu64 ": records of %u bytes for chunks of rank %" PRIu32,
                            r->at, w->record_bytes, r->rank);
    fby__h5_cursor c = fby__h5_cursor_of(r->f, (fby__bytes){record, w->record_bytes}, r->at, "chunk record");
    uint64_t address = fby__h5_offset(&c), bytes = r->chunk_bytes, scaled[FBY__H5_MAX_RANK];
    uint32_t mask = 0;
    if (r->filtered) {
        bytes = fby__h5_uint(&c, size_bytes);
        mask = fby__h5_u32(&c);
    }
    for (uint32_t i = 0; i < r->rank; i++)
        scaled[i] = fby__h5_u64(&c);
    return fby__h5_chunk_add(r, scaled, address, bytes, mask, err);
}

fby_status fby__h5_chunks_btree2(fby__h5_chunk_reader *r, fby_error *err)
{
    walk w = {.r = r};
    r->at = r->object->data_address;
    return fby__h5_btree2_walk(r->f, r->object->data_address, r->filtered ? 11 : 10, &w.record_bytes, add_record, &w, err);
}
