/*
 * The elements of fixed and extensible arrays (spec VII.C, VII.D): an address for each chunk, with filters also the stored
 * size and the filter mask; and the order of chunks in them.
 *
 *   element  address   [with filters: stored size, 1 to 8 bytes   filter mask u32]
 */
#include "format/hdf5/metadata/chunks_internal.h"

#include "base/checked.h"

#include <inttypes.h>

fby_status fby__h5_chunk_array_init(fby__h5_chunk_reader *r, uint32_t unlimited, fby__h5_chunk_array *out, fby_error *err)
{
    const fby__h5_object *o = r->object;
    fby__h5_chunk_array a = {.n = 1};
    for (uint32_t k = 0; k < r->rank; k++) {
        uint32_t axis = unlimited == r->rank ? k : k == 0 ? unlimited : k <= unlimited ? k - 1 : k;
        uint64_t most = o->space.max_dims[axis];
        if ((most == FBY__H5_UNDEFINED) != (axis == unlimited))
            return fby__fail_at(err, FBY_E_FORMAT, r->f->base + o->address, "axis %" PRIu32 " is %s", axis,
                                axis == unlimited ? "not unlimited" : "unlimited");
        a.axis[k] = axis;
        a.size[k] = axis == unlimited ? FBY__H5_UNDEFINED : fby__div_up_u64(most, o->chunk[axis]);
    }
    uint64_t n = 1;
    for (uint32_t k = r->rank; k-- > 0;) {
        a.down[k] = n;
        if (!fby__mul_u64_checked(n, k == 0 && unlimited < r->rank ? r->grid[unlimited] : a.size[k], &n))
            return fby__fail_at(err, FBY_E_UNSUPPORTED, r->f->base + o->address, "room for more chunks than 64 bits count");
    }
    a.n = n;
    *out = a;
    return FBY_OK;
}

fby_status fby__h5_chunk_array_entry(fby__h5_chunk_reader *r, fby__h5_chunk_array *a, uint8_t client, uint8_t entry_bytes, fby_error *err)
{
    unsigned fixed = r->f->offset_bytes + (r->filtered ? 4u : 0u);
    unsigned size = entry_bytes > fixed ? entry_bytes - fixed : 0;
    bool fits = r->filtered ? size >= 1 && size <= 8 : entry_bytes == fixed;
    if (client != (r->filtered ? 1 : 0) || !fits)
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + r->at,
                            "array at %" PRIu64 ": elements of client %u and %u bytes for chunks %s filters", r->at, client, entry_bytes,
                            r->filtered ? "with" : "without");
    a->entry_bytes = entry_bytes;
    a->size_bytes = size;
    return FBY_OK;
}

fby_status fby__h5_chunk_array_owner(fby__h5_chunk_reader *r, fby__h5_cursor *c, fby_error *err)
{
    uint8_t client = fby__h5_u8(c);
    uint64_t owner = fby__h5_offset(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (client != (r->filtered ? 1 : 0) || owner != r->object->data_address)
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + r->at, "%s at %" PRIu64 " belongs to another array", c->what, r->at);
    return FBY_OK;
}

fby_status fby__h5_chunk_array_add(fby__h5_chunk_reader *r, const fby__h5_chunk_array *a, uint64_t position, uint64_t n, fby__h5_cursor *c,
                                   fby_error *err)
{
    /* Only the first element's position needs divisions; the others count on from it. */
    uint64_t scaled[FBY__H5_MAX_RANK], rest = position;
    for (uint32_t k = 0; k < r->rank; k++) {
        scaled[a->axis[k]] = rest / a->down[k];
        rest %= a->down[k];
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t address = fby__h5_offset(c), bytes = r->chunk_bytes;
        uint32_t mask = 0;
        if (r->filtered) {
            bytes = fby__h5_uint(c, a->size_bytes);
            mask = fby__h5_u32(c);
        }
        if (address != FBY__H5_UNDEFINED) {
            FBY__TRY(fby__h5_cursor_check(c, err)); /* a failed cursor gives address 0, never "undefined" */
            FBY__TRY(fby__h5_chunk_add(r, scaled, address, bytes, mask, err));
        }
        for (uint32_t k = r->rank; k-- > 0 && ++scaled[a->axis[k]] == a->size[k] && k > 0;)
            scaled[a->axis[k]] = 0;
    }
    return FBY_OK;
}

fby_status fby__h5_chunk_array_page(fby__h5_chunk_reader *r, const fby__h5_chunk_array *a, uint64_t address, uint64_t position, uint64_t n,
                                    const char *what, fby_error *err)
{
    fby__bytes view;
    FBY__TRY(fby__h5_index_view(r, address, n * a->entry_bytes + 4, what, &view, err)); /* callers: n ≤ 2^32 */
    FBY__TRY(fby__h5_verify(r->f, address, view, what, err));
    fby__h5_cursor c = fby__h5_cursor_of(r->f, (fby__bytes){view.data, view.n - 4}, address, what);
    return fby__h5_chunk_array_add(r, a, position, n, &c, err);
}
