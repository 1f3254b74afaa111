/*
 * The two chunk indexes that are no structure (spec IV.A.2.i, layout message 4): a single chunk, whose stored size and filter
 * mask are in the layout message, and the implicit index: all chunks of the largest extent one after the other, without filters.
 */
#include "format/hdf5/metadata/chunks_internal.h"

#include "base/checked.h"

#include <inttypes.h>

fby_status fby__h5_chunks_single(fby__h5_chunk_reader *r, fby_error *err)
{
    const uint64_t scaled[FBY__H5_MAX_RANK] = {0};
    const fby__h5_object *o = r->object;
    if (r->total != 1)
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + o->address, "a data set of %" PRIu64 " chunks", r->total);
    return fby__h5_chunk_add(r, scaled, o->data_address, r->filtered ? o->single_bytes : r->chunk_bytes, r->filtered ? o->single_mask : 0,
                             err);
}

fby_status fby__h5_chunks_implicit(fby__h5_chunk_reader *r, fby_error *err)
{
    uint64_t where = r->f->base + r->object->data_address, extent;
    if (r->filtered)
        return fby__fail_at(err, FBY_E_FORMAT, where, "chunks with filters have no implicit places");
    /* Before the loop: the numbers come from the data set's extent, which no byte of the file has to back. */
    if (!fby__mul_u64_checked(r->total, r->chunk_bytes, &extent) || extent > r->f->end)
        return fby__fail_at(err, FBY_E_FORMAT, where, "%" PRIu64 " chunks of %" PRIu64 " bytes are more than the file", r->total,
                            r->chunk_bytes);
    fby__h5_chunk_array a;
    FBY__TRY(fby__h5_chunk_array_init(r, r->rank, &a, err));
    uint64_t scaled[FBY__H5_MAX_RANK] = {0};
    for (uint64_t i = 0; i < r->total; i++) {
        uint64_t position = 0, address;
        for (uint32_t k = 0; k < r->rank; k++)
            position += scaled[k] * a.down[k]; /* below a.n */
        if (!fby__mul_u64_checked(position, r->chunk_bytes, &address) ||
            !fby__add_u64_checked(address, r->object->data_address, &address) || address == FBY__H5_UNDEFINED)
            return fby__fail_at(err, FBY_E_FORMAT, where, "chunk %" PRIu64 " goes beyond the end of the file", i);
        FBY__TRY(fby__h5_chunk_add(r, scaled, address, r->chunk_bytes, 0, err));
        for (uint32_t k = r->rank; k-- > 0 && ++scaled[k] == r->grid[k];)
            scaled[k] = 0;
    }
    return FBY_OK;
}
