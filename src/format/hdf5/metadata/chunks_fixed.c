/*
 * Chunk indexes that are fixed arrays (spec VII.C): no dimension is unlimited, the number of elements is known.
 *
 *   header      "FAHD"  version 0  client  element size  page bits  elements (length)  data block (address)  checksum
 *   data block  "FADB"  version 0  client  header (address)  elements  checksum
 *   paged       "FADB"  version 0  client  header (address)  bitmap of pages  checksum  pages…
 *   page        elements  checksum           at a fixed offset whether it was ever written (its bit says); the last is shorter
 *
 * It is paged when there are more than 2^page bits elements.
 */
#include "format/hdf5/metadata/chunks_internal.h"

#include "base/checked.h"

#include <inttypes.h>

typedef struct header {
    unsigned page_bits;
    uint64_t n, block;
} header;

static fby_status read_header(fby__h5_chunk_reader *r, fby__h5_chunk_array *a, header *out, fby_error *err)
{
    const fby__h5_file *f = r->f;
    uint64_t address = r->object->data_address;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_index_block(r, address, 12u + f->length_bytes + f->offset_bytes, "FAHD", "fixed array header", &c, err));
    uint8_t client = fby__h5_u8(&c), entry_bytes = fby__h5_u8(&c);
    out->page_bits = fby__h5_u8(&c);
    out->n = fby__h5_length(&c);
    out->block = fby__h5_offset(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    FBY__TRY(fby__h5_chunk_array_entry(r, a, client, entry_bytes, err));
    if (out->n != a->n)
        return fby__fail_at(err, FBY_E_FORMAT, f->base + address,
                            "fixed array at %" PRIu64 " has %" PRIu64 " elements for %" PRIu64 " chunks", address, out->n, a->n);
    if (out->page_bits > 32)
        return fby__fail_at(err, FBY_E_FORMAT, f->base + address, "fixed array at %" PRIu64 " has pages of 2^%u elements", address,
                            out->page_bits);
    return FBY_OK;
}

fby_status fby__h5_chunks_fixed(fby__h5_chunk_reader *r, fby_error *err)
{
    fby__h5_chunk_array a;
    header h;
    FBY__TRY(fby__h5_chunk_array_init(r, r->rank, &a, err));
    FBY__TRY(read_header(r, &a, &h, err));
    if (h.block == FBY__H5_UNDEFINED)
        return FBY_OK;
    uint64_t page = (uint64_t)1 << h.page_bits, head = 10u + r->f->offset_bytes; /* with its checksum */
    fby__h5_cursor c;
    if (h.n <= page) { /* ≤ 2^32 elements of ≤ 20 bytes */
        FBY__TRY(fby__h5_index_block(r, h.block, head + h.n * a.entry_bytes, "FADB", "fixed array data block", &c, err));
        FBY__TRY(fby__h5_chunk_array_owner(r, &c, err));
        return fby__h5_chunk_array_add(r, &a, 0, h.n, &c, err);
    }
    uint64_t n_pages = fby__div_up_u64(h.n, page), bitmap_bytes = fby__div_up_u64(n_pages, 8);
    FBY__TRY(fby__h5_index_block(r, h.block, head + bitmap_bytes, "FADB", "fixed array data block", &c, err));
    FBY__TRY(fby__h5_chunk_array_owner(r, &c, err));
    const uint8_t *bitmap = fby__h5_next(&c, bitmap_bytes);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    uint64_t page_bytes = page * a.entry_bytes + 4;
    for (uint64_t i = 0; i < n_pages; i++) {
        uint64_t address;
        if (!fby__h5_page_bit(bitmap, i))
            continue;
        if (!fby__mul_u64_checked(i, page_bytes, &address) || !fby__add_u64_checked(address, h.block + head + bitmap_bytes, &address))
            return fby__fail_at(err, FBY_E_FORMAT, r->f->base + h.block, "fixed array page %" PRIu64 " goes beyond the end of the file", i);
        FBY__TRY(fby__h5_chunk_array_page(r, &a, address, i * page, fby__min_u64(page, h.n - i * page), "fixed array page", err));
    }
    return FBY_OK;
}
