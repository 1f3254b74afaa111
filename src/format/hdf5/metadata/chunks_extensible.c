/*
 * Chunk indexes that are extensible arrays (spec VII.D): one dimension is unlimited, and the array grows at its end.
 *
 *   header       "EAHD"  version 0  client  element size  max bits  index elements  min elements  min pointers  page bits
 *                six lengths of statistics, the fifth the largest position ever set plus one   index block  checksum
 *   index block  "EAIB"  version 0  client  header   elements   data blocks (addresses)   super blocks (addresses)   checksum
 *   super block  "EASB"  version 0  client  header   offset   [bitmaps of pages]   data blocks (addresses)   checksum
 *   data block   "EADB"  version 0  client  header   offset   elements  checksum
 *   paged        "EADB"  version 0  client  header   offset   checksum  pages of elements, each with its checksum
 *
 * The first elements are in the index block. The others follow in super blocks: number u has 2^⌊u/2⌋ data blocks of
 * min elements × 2^⌈u/2⌉ elements. The first super blocks, 2 log2(min pointers) of them, are not stored: their data blocks'
 * addresses are in the index block. A data block of more than 2^page bits elements is paged, and the super block says which
 * of its pages were written. The offsets are not checked: libhdf5 writes other ones than the spec says in blocks whose addresses
 * are in the index block.
 */
#include "format/hdf5/metadata/chunks_internal.h"

#include "base/checked.h"

#include <inttypes.h>

typedef struct header {
    fby__h5_chunk_array a;
    unsigned max_bits, page_bits;
    unsigned index_elements, min_elements, min_pointers;
    uint64_t n; /* no element at or above this position is of interest */
    uint64_t index_block;
    unsigned offset_bytes; /* of the offset field */
} header;

/* A super block: stored or not. */
typedef struct super {
    uint64_t first; /* position of its first element */
    uint64_t n_blocks, block_elements;
} super;

static bool power_of_two(unsigned n) { return n && (n & (n - 1)) == 0; }
static unsigned log2_of(unsigned n) { return (unsigned)__builtin_ctz(n); }

/* Client ID, header's address and offset, with which blocks begin after signature and version, and their checksum. */
static uint64_t head_bytes(const fby__h5_chunk_reader *r, const header *h) { return 10u + r->f->offset_bytes + h->offset_bytes; }

static fby_status read_header(fby__h5_chunk_reader *r, header *h, fby_error *err)
{
    const fby__h5_file *f = r->f;
    uint64_t address = r->object->data_address, statistics[6];
    fby__h5_cursor c;
    FBY__TRY(fby__h5_index_block(r, address, 16u + 6u * f->length_bytes + f->offset_bytes, "EAHD", "extensible array header", &c, err));
    uint8_t client = fby__h5_u8(&c), entry_bytes = fby__h5_u8(&c);
    h->max_bits = fby__h5_u8(&c);
    h->index_elements = fby__h5_u8(&c);
    h->min_elements = fby__h5_u8(&c);
    h->min_pointers = fby__h5_u8(&c);
    h->page_bits = fby__h5_u8(&c);
    for (unsigned i = 0; i < 6; i++)
        statistics[i] = fby__h5_length(&c);
    h->index_block = fby__h5_offset(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    FBY__TRY(fby__h5_chunk_array_entry(r, &h->a, client, entry_bytes, err));
    /* The bounds keep every shift and sum below in 64 bits; there are as many super blocks as pointers to them. */
    if (h->max_bits > 64 || h->page_bits > 32 || !power_of_two(h->min_elements) || !power_of_two(h->min_pointers) ||
        h->max_bits < log2_of(h->min_elements) || 1 + h->max_bits - log2_of(h->min_elements) < 2 * log2_of(h->min_pointers))
        return fby__fail_at(err, FBY_E_FORMAT, f->base + address, "extensible array at %" PRIu64 ": impossible parameters", address);
    h->offset_bytes = (h->max_bits + 7) / 8;
    h->n = fby__min_u64(h->a.n, statistics[4]);
    return FBY_OK;
}

/* Elements from `position` to the end of a run of n, as far as they are of interest. */
static uint64_t wanted(const header *h, uint64_t position, uint64_t n) { return position >= h->n ? 0 : fby__min_u64(n, h->n - position); }

/* bitmap: NULL, or the super block's, whose bit `first_bit` is this data block's first page. */
static fby_status read_data_block(fby__h5_chunk_reader *r, const header *h, uint64_t address, uint64_t position, uint64_t n,
                                  const uint8_t *bitmap, uint64_t first_bit, fby_error *err)
{
    uint64_t page = (uint64_t)1 << h->page_bits, head = head_bytes(r, h), want = wanted(h, position, n);
    if (address == FBY__H5_UNDEFINED || want == 0)
        return FBY_OK;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_index_block(r, address, head + (bitmap ? 0 : n * h->a.entry_bytes), "EADB", "extensible array data block", &c, err));
    FBY__TRY(fby__h5_chunk_array_owner(r, &c, err));
    (void)fby__h5_next(&c, h->offset_bytes);
    if (!bitmap)
        return fby__h5_chunk_array_add(r, &h->a, position, want, &c, err);
    uint64_t page_bytes = page * h->a.entry_bytes + 4;
    for (uint64_t i = 0; i * page < want; i++) {
        uint64_t at;
        if (!fby__h5_page_bit(bitmap, first_bit + i))
            continue;
        if (!fby__mul_u64_checked(i, page_bytes, &at) || !fby__add_u64_checked(at, address + head, &at))
            return fby__fail_at(err, FBY_E_FORMAT, r->f->base + address, "extensible array page goes beyond the end of the file");
        FBY__TRY(fby__h5_chunk_array_page(r, &h->a, at, position + i * page, page, "extensible array page", err));
    }
    return FBY_OK;
}

static fby_status read_super_block(fby__h5_chunk_reader *r, const header *h, uint64_t address, const super *s, fby_error *err)
{
    uint64_t page = (uint64_t)1 << h->page_bits;
    uint64_t pages = s->block_elements > page ? s->block_elements / page : 0; /* both are powers of two; of one data block */
    uint64_t bitmap_bytes, pointers = s->n_blocks * r->f->offset_bytes, n;
    /* A bitmap for each data block, rounded up to bytes; yet the bits follow each other without gaps (as libhdf5 reads them). */
    if (!fby__mul_u64_checked(s->n_blocks, fby__div_up_u64(pages, 8), &bitmap_bytes) || !fby__add_u64_checked(bitmap_bytes, pointers, &n) ||
        !fby__add_u64_checked(n, head_bytes(r, h), &n))
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + address, "extensible array super block at %" PRIu64 " is too large", address);
    fby__h5_cursor c;
    FBY__TRY(fby__h5_index_block(r, address, n, "EASB", "extensible array super block", &c, err));
    FBY__TRY(fby__h5_chunk_array_owner(r, &c, err));
    (void)fby__h5_next(&c, h->offset_bytes);
    const uint8_t *bitmap = pages ? fby__h5_next(&c, bitmap_bytes) : NULL;
    FBY__TRY(fby__h5_cursor_check(&c, err));
    for (uint64_t i = 0; i < s->n_blocks; i++) {
        uint64_t position = s->first + i * s->block_elements;
        if (position >= h->n)
            break;
        FBY__TRY(read_data_block(r, h, fby__h5_offset(&c), position, s->block_elements, bitmap, i * pages, err));
    }
    return FBY_OK;
}

fby_status fby__h5_chunks_extensible(fby__h5_chunk_reader *r, fby_error *err)
{
    header h = {0};
    uint32_t unlimited = 0;
    while (unlimited < r->rank && r->object->space.max_dims[unlimited] != FBY__H5_UNDEFINED)
        unlimited++;
    if (unlimited == r->rank)
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + r->object->address, "no axis is unlimited");
    FBY__TRY(fby__h5_chunk_array_init(r, unlimited, &h.a, err));
    FBY__TRY(read_header(r, &h, err));
    if (h.index_block == FBY__H5_UNDEFINED)
        return FBY_OK;
    unsigned n_super = 1 + h.max_bits - log2_of(h.min_elements), n_direct = 2 * log2_of(h.min_pointers);
    uint64_t n_pointers = 2 * ((uint64_t)h.min_pointers - 1) + n_super - n_direct;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_index_block(r, h.index_block,
                                 10u + r->f->offset_bytes + (uint64_t)h.index_elements * h.a.entry_bytes + n_pointers * r->f->offset_bytes,
                                 "EAIB", "extensible array index block", &c, err));
    FBY__TRY(fby__h5_chunk_array_owner(r, &c, err));
    fby__h5_cursor elements = c;
    (void)fby__h5_next(&c, (size_t)h.index_elements * h.a.entry_bytes);
    FBY__TRY(fby__h5_chunk_array_add(r, &h.a, 0, wanted(&h, 0, h.index_elements), &elements, err));
    super s = {.first = h.index_elements};
    for (unsigned u = 0; u < n_super && s.first < h.n; u++) {
        s.n_blocks = (uint64_t)1 << u / 2;
        s.block_elements = (uint64_t)h.min_elements << (u + 1) / 2;
        uint64_t address = 0;
        if (u < n_direct) {
            if (s.block_elements > (uint64_t)1 << h.page_bits)
                return fby__fail_at(err, FBY_E_FORMAT, r->f->base + h.index_block, "paged data blocks without a super block");
            for (uint64_t i = 0; i < s.n_blocks; i++)
                FBY__TRY(read_data_block(r, &h, fby__h5_offset(&c), s.first + i * s.block_elements, s.block_elements, NULL, 0, err));
        } else if ((address = fby__h5_offset(&c)) != FBY__H5_UNDEFINED) {
            FBY__TRY(read_super_block(r, &h, address, &s, err));
        }
        if (!fby__add_u64_checked(s.first, s.n_blocks * s.block_elements, &s.first))
            break; /* the last possible position was in this one */
    }
    return fby__h5_cursor_check(&c, err);
}
