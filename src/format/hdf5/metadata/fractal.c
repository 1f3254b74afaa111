/*
 * Fractal heaps: objects by ID, where groups keep dense links and objects dense attributes (spec III.G).
 *
 *   header "FRHP" ─► root: a direct block "FHDB" of objects, or an indirect block "FHIB" of children
 *
 * A managed object's ID is an offset in the heap's address space, which rows of blocks tile:
 *
 *   row 0   [s][s][s][s]         s = starting size, `width` blocks a row
 *   row 1   [s][s][s][s]
 *   row 2   [ 2s ][ 2s ][ 2s ][ 2s ]
 *   row r   s·2^(r-1) each; up to the largest direct size the blocks are direct, above it indirect, with rows of their own
 *
 * Blocks are read when an object in them is asked for, verified once, and remembered in the indirect block above. A block
 * states its offset in the heap, so one block cannot serve in two places, and an indirect child is always smaller.
 * Other objects: tiny ones lie in the ID itself; huge ones apart, at an address that the ID holds or a B-tree 2 knows.
 */
#include "base/checked.h"
#include "format/hdf5/metadata/structure.h"

#include <stdlib.h>

#define MANAGED 0u /* bits 4 and 5 of an ID's first byte */
#define HUGE_OBJECT 1u
#define TINY 2u

#define DIRECT_CHECKSUMS 0x02u /* header flags */

/* A child of an indirect block. */
typedef struct slot {
    uint64_t address;
    struct indirect *indirect; /* NULL until it is needed; arena */
    fby__bytes direct;         /* data NULL until it is needed: the whole block, verified */
} slot;

typedef struct indirect {
    uint32_t rows;
    slot *slots; /* rows × width */
} indirect;

typedef struct huge_object {
    uint64_t id, address, bytes;
} huge_object;

struct fby__h5_heap {
    fby__h5_file *f;
    uint64_t address; /* of the header */
    uint16_t id_bytes, width;
    uint8_t flags;
    uint8_t offset_bytes, length_bytes; /* of numbers in an ID; a block's offset in the heap is stored as an offset too */
    uint64_t start_bytes, max_direct_bytes;
    uint32_t max_direct_rows;
    uint32_t root_rows; /* 0: the root is a direct block of start_bytes */
    slot root;
    uint64_t huge_tree, n_huge;
    huge_object *huge; /* by id; NULL until one is asked for */
};

static unsigned log2_floor(uint64_t v) { return 63u - (unsigned)__builtin_clzll(v | 1); }
static bool power_of_2(uint64_t v) { return v && (v & (v - 1)) == 0; }

/* ---- the tiling ---- */

static uint64_t row_block_bytes(const fby__h5_heap *h, uint32_t row) { return row ? h->start_bytes << (row - 1) : h->start_bytes; }

/* What the header says about blocks, checked so that no shift or product below overflows. */
static bool set_tiling(fby__h5_heap *h, uint32_t heap_bits, uint32_t max_object_bytes)
{
    if (!power_of_2(h->width) || !power_of_2(h->start_bytes) || !power_of_2(h->max_direct_bytes) || h->max_direct_bytes < h->start_bytes ||
        h->max_direct_bytes > UINT32_MAX || heap_bits == 0 || heap_bits > 64)
        return false;
    unsigned first_bits = log2_floor(h->start_bytes) + log2_floor(h->width); /* row 0 spans 2^first_bits bytes */
    if (first_bits > heap_bits)
        return false;
    h->max_direct_rows = log2_floor(h->max_direct_bytes) - log2_floor(h->start_bytes) + 2;
    h->offset_bytes = (uint8_t)((heap_bits + 7) / 8);
    unsigned by_block = (log2_floor(h->max_direct_bytes) + 7) / 8, by_object = log2_floor(max_object_bytes) / 8 + 1;
    h->length_bytes = (uint8_t)(by_block < by_object ? by_block : by_object);
    /* The smallest indirect child must have a row. */
    return h->root_rows <= heap_bits - first_bits + 1 &&
           (h->root_rows <= h->max_direct_rows || log2_floor(h->max_direct_bytes) + 1 >= first_bits);
}

/* ---- opening ---- */

fby_status fby__h5_heap_open(fby__h5_file *f, uint64_t address, fby__h5_heap **out, fby_error *err)
{
    static const char what[] = "a fractal heap header";
    uint64_t bytes = 26 + 3 * (uint64_t)f->offset_bytes + 12 * (uint64_t)f->length_bytes;
    fby__bytes view;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_structure(f, address, bytes, "FRHP", 0, what, &view, &c, err));
    fby__h5_heap *h;
    FBY__TRY(fby__h5_alloc(f, 1, sizeof *h, (void **)&h, err));
    *h = (fby__h5_heap){.f = f, .address = address};
    h->id_bytes = fby__h5_u16(&c);
    uint16_t filter_bytes = fby__h5_u16(&c);
    if (filter_bytes) /* its header is longer, and not of this length */
        return fby__fail_at(err, FBY_E_UNSUPPORTED, f->base + address, "a fractal heap with filters");
    FBY__TRY(fby__h5_verify(f, address, view, what, err));
    h->flags = fby__h5_u8(&c);
    uint32_t max_object_bytes = fby__h5_u32(&c);
    (void)fby__h5_length(&c); /* the next huge object's ID */
    h->huge_tree = fby__h5_offset(&c);
    (void)fby__h5_length(&c); /* free space in blocks, */
    (void)fby__h5_offset(&c); /* its manager, */
    for (int i = 0; i < 8; i++)
        (void)fby__h5_length(&c); /* and totals of managed, huge and tiny objects: for writers */
    h->width = fby__h5_u16(&c);
    h->start_bytes = fby__h5_length(&c);
    h->max_direct_bytes = fby__h5_length(&c);
    uint16_t heap_bits = fby__h5_u16(&c);
    (void)fby__h5_u16(&c); /* rows that a new root starts with */
    h->root.address = fby__h5_offset(&c);
    h->root_rows = fby__h5_u16(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    if (h->id_bytes < 2 || !set_tiling(h, heap_bits, max_object_bytes))
        return fby__h5_damaged_at(f, address, err,
                                  "%s at %" PRIu64 ": blocks of %" PRIu64 " to %" PRIu64 " bytes, %u a row, %u rows, %u bits cannot be",
                                  what, address, h->start_bytes, h->max_direct_bytes, h->width, h->root_rows, heap_bits);
    *out = h;
    return FBY_OK;
}

uint16_t fby__h5_heap_id_bytes(const fby__h5_heap *heap) { return heap->id_bytes; }

/* ---- blocks ---- */

/* What both kinds begin with: the heap they are of and their offset in it. */
static fby_status check_block_head(fby__h5_heap *h, fby__h5_cursor *c, uint64_t block_offset, fby_error *err)
{
    uint64_t owner = fby__h5_offset(c), at = fby__h5_uint(c, h->offset_bytes);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (owner != h->address || at != block_offset)
        return fby__h5_damaged_at(h->f, c->address, err, "%s at %" PRIu64 " is of another heap, or of another place in it", c->what,
                                  c->address);
    return FBY_OK;
}

static size_t direct_head_bytes(const fby__h5_heap *h)
{
    return 5 + (size_t)h->f->offset_bytes + h->offset_bytes + (h->flags & DIRECT_CHECKSUMS ? 4 : 0);
}

static fby_status verify_direct(fby__h5_heap *h, uint64_t address, fby__bytes view, fby_error *err)
{
    /* The checksum lies inside what it is of, and counts as zero there. */
    uint8_t *copy = fby__malloc(view.n);
    if (!copy)
        return fby__fail_nomem(err, "a block of a fractal heap");
    memcpy(copy, view.data, view.n);
    uint8_t *sum = copy + direct_head_bytes(h) - 4;
    uint32_t stored = fby__load_u32(sum);
    fby__store_u32(sum, 0);
    uint32_t computed = fby__h5_checksum(copy, view.n);
    fby__free(copy);
    if (stored != computed)
        return fby__h5_damaged_at(h->f, address, err, "a direct block of a fractal heap at %" PRIu64 ": its checksum does not match",
                                  address);
    return FBY_OK;
}

static fby_status read_direct(fby__h5_heap *h, slot *s, uint64_t bytes, uint64_t block_offset, fby_error *err)
{
    static const char what[] = "a direct block of a fractal heap";
    fby__bytes view;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_structure(h->f, s->address, bytes, "FHDB", 0, what, &view, &c, err));
    FBY__TRY(check_block_head(h, &c, block_offset, err));
    if (view.n < direct_head_bytes(h))
        return fby__h5_damaged_at(h->f, s->address, err, "%s at %" PRIu64 " has no room for its header", what, s->address);
    if (h->flags & DIRECT_CHECKSUMS)
        FBY__TRY(verify_direct(h, s->address, view, err));
    s->direct = view;
    return FBY_OK;
}

static fby_status read_indirect(fby__h5_heap *h, slot *s, uint32_t rows, uint64_t block_offset, fby_error *err)
{
    static const char what[] = "an indirect block of a fractal heap";
    fby__h5_file *f = h->f;
    uint64_t n = (uint64_t)rows * h->width; /* rows ≤ 65, width < 65,536 */
    uint64_t bytes = 5 + (uint64_t)f->offset_bytes + h->offset_bytes + n * f->offset_bytes + 4;
    fby__bytes view;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_structure(f, s->address, bytes, "FHIB", 0, what, &view, &c, err));
    FBY__TRY(fby__h5_verify(f, s->address, view, what, err));
    FBY__TRY(check_block_head(h, &c, block_offset, err));
    indirect *block;
    slot *slots;
    FBY__TRY(fby__h5_alloc(f, 1, sizeof *block, (void **)&block, err));
    FBY__TRY(fby__h5_alloc(f, (size_t)n, sizeof *slots, (void **)&slots, err));
    for (uint64_t i = 0; i < n; i++)
        slots[i] = (slot){.address = fby__h5_offset(&c)};
    FBY__TRY(fby__h5_cursor_check(&c, err));
    *block = (indirect){rows, slots};
    s->indirect = block;
    return FBY_OK;
}

/* The direct block that an offset lies in, from the root down. */
static fby_status find_direct(fby__h5_heap *h, uint64_t offset, const slot **out, uint64_t *out_block_offset, fby_error *err)
{
    slot *s = &h->root;
    uint64_t block_offset = 0;       /* of s */
    uint64_t bytes = h->start_bytes; /* of s, when it is direct */
    uint32_t rows = h->root_rows;    /* of s; 0: direct */
    const unsigned row_0_bits = log2_floor(h->start_bytes) + log2_floor(h->width);
    for (;;) {
        if (s->address == FBY__H5_UNDEFINED)
            return fby__h5_damaged_at(h->f, h->address, err, "a fractal heap at %" PRIu64 " has no block for offset %" PRIu64, h->address,
                                      offset);
        if (rows == 0) {
            if (!s->direct.data)
                FBY__TRY(read_direct(h, s, bytes, block_offset, err));
            *out = s;
            *out_block_offset = block_offset;
            return FBY_OK;
        }
        if (!s->indirect)
            FBY__TRY(read_indirect(h, s, rows, block_offset, err));
        uint64_t in = offset - block_offset;
        uint32_t row = in >> row_0_bits ? log2_floor(in) - row_0_bits + 1 : 0;
        if (row >= rows)
            return fby__h5_damaged_at(h->f, h->address, err, "a fractal heap at %" PRIu64 " has no row for offset %" PRIu64, h->address,
                                      offset);
        uint64_t row_offset = row ? (uint64_t)1 << (row_0_bits + row - 1) : 0;
        bytes = row_block_bytes(h, row);
        uint64_t column = (in - row_offset) / bytes;
        s = &s->indirect->slots[row * (uint64_t)h->width + column];
        block_offset += row_offset + column * bytes;
        /* An indirect child has as many rows as its bytes are tiled by: always fewer than its parent. */
        rows = row < h->max_direct_rows ? 0 : log2_floor(bytes) - row_0_bits + 1;
    }
}

static fby_status get_managed(fby__h5_heap *h, const uint8_t *id, size_t id_n, fby__bytes *out, uint64_t *out_address, fby_error *err)
{
    fby__h5_cursor c = fby__h5_cursor_of(h->f, (fby__bytes){id, id_n}, h->address, "an ID of a fractal heap");
    (void)fby__h5_u8(&c);
    uint64_t offset = fby__h5_uint(&c, h->offset_bytes), n = fby__h5_uint(&c, h->length_bytes);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    const slot *s = NULL;
    uint64_t block_offset = 0;
    FBY__TRY(find_direct(h, offset, &s, &block_offset, err));
    const fby__bytes block = s->direct;
    uint64_t in = offset - block_offset;
    if (in < direct_head_bytes(h) || in > block.n || n > block.n - in)
        return fby__h5_damaged_at(h->f, s->address, err,
                                  "an object of %" PRIu64 " bytes at %" PRIu64 " of a fractal heap's block at %" PRIu64 " of %zu bytes", n,
                                  in, s->address, block.n);
    *out = (fby__bytes){block.data + in, (size_t)n};
    *out_address = s->address + in;
    return FBY_OK;
}

/* ---- huge objects ---- */

typedef struct huge_list {
    fby__h5_heap *heap;
    uint16_t record_bytes;
    huge_object *list; /* owned */
    size_t n, cap;
} huge_list;

static fby_status add_huge(void *user, const uint8_t *record, fby_error *err)
{
    huge_list *l = user;
    if (fby__grow((void **)&l->list, &l->cap, l->n + 1, sizeof *l->list) != 0)
        return fby__fail_nomem(err, "huge objects of a fractal heap");
    fby__h5_cursor c =
        fby__h5_cursor_of(l->heap->f, (fby__bytes){record, l->record_bytes}, l->heap->huge_tree, "a huge object of a fractal heap");
    huge_object o = {.address = fby__h5_offset(&c), .bytes = fby__h5_length(&c)};
    o.id = fby__h5_length(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    l->list[l->n++] = o;
    return FBY_OK;
}

static int by_id(const void *a, const void *b)
{
    const huge_object *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* All of the B-tree of huge objects, once: type 1, as filters are refused and IDs that hold the address need no tree. */
static fby_status read_huge(fby__h5_heap *h, fby_error *err)
{
    huge_list l = {.heap = h};
    fby_status status = h->huge_tree == FBY__H5_UNDEFINED
                            ? fby__h5_damaged_at(h->f, h->address, err, "a fractal heap at %" PRIu64 " has no huge objects", h->address)
                            : fby__h5_btree2_walk(h->f, h->huge_tree, 1, &l.record_bytes, add_huge, &l, err);
    if (status == FBY_OK) {
        huge_object *list;
        status = fby__h5_alloc(h->f, l.n + 1, sizeof *list, (void **)&list, err); /* never of no bytes */
        if (status == FBY_OK) {
            if (l.n) {
                qsort(l.list, l.n, sizeof *l.list, by_id); /* they are in order, unless the file is damaged */
                memcpy(list, l.list, l.n * sizeof *list);
            }
            h->huge = list;
            h->n_huge = l.n;
        }
    }
    fby__free(l.list);
    return status;
}

static fby_status get_huge(fby__h5_heap *h, const uint8_t *id, size_t id_n, fby__bytes *out, uint64_t *out_address, fby_error *err)
{
    fby__h5_file *f = h->f;
    fby__h5_cursor c = fby__h5_cursor_of(f, (fby__bytes){id, id_n}, h->address, "an ID of a fractal heap");
    (void)fby__h5_u8(&c);
    size_t room = h->id_bytes - 1u;
    uint64_t address, n;
    if (room >= (size_t)f->offset_bytes + f->length_bytes) { /* "directly accessed" */
        address = fby__h5_offset(&c);
        n = fby__h5_length(&c);
        FBY__TRY(fby__h5_cursor_check(&c, err));
    } else {
        uint64_t key = fby__h5_uint(&c, room < 8 ? (unsigned)room : 8);
        FBY__TRY(fby__h5_cursor_check(&c, err));
        if (!h->huge)
            FBY__TRY(read_huge(h, err));
        huge_object wanted = {.id = key};
        const huge_object *found = h->n_huge ? bsearch(&wanted, h->huge, h->n_huge, sizeof *h->huge, by_id) : NULL;
        if (!found)
            return fby__h5_damaged_at(f, h->address, err, "a fractal heap at %" PRIu64 " has no huge object %" PRIu64, h->address, key);
        address = found->address;
        n = found->bytes;
    }
    *out_address = address;
    return fby__h5_view(f, address, n, "a huge object of a fractal heap", out, err);
}

/* ---- tiny objects, and the choice ---- */

static fby_status get_tiny(fby__h5_heap *h, const uint8_t *id, fby__bytes *out, uint64_t *out_address, fby_error *err)
{
    /* The length less one: four bits of the first byte, and the whole second one in IDs too long for that. */
    bool extended = h->id_bytes - 1 > 17;
    size_t n = (extended ? (size_t)(id[0] & 0x0f) << 8 | id[1] : id[0] & 0x0fu) + 1, head = extended ? 2 : 1;
    if (n > h->id_bytes - head)
        return fby__h5_damaged_at(h->f, h->address, err, "an ID of a fractal heap at %" PRIu64 " has no room for its object", h->address);
    uint8_t *copy;
    FBY__TRY(fby__h5_alloc(h->f, n, 1, (void **)&copy, err));
    memcpy(copy, id + head, n);
    *out = (fby__bytes){copy, n};
    *out_address = h->address;
    return FBY_OK;
}

fby_status fby__h5_heap_get(fby__h5_heap *heap, const uint8_t *id, size_t id_n, fby__bytes *out, uint64_t *out_address, fby_error *err)
{
    if (id_n < heap->id_bytes)
        return fby__h5_damaged_at(heap->f, heap->address, err, "an ID of %zu bytes for a fractal heap at %" PRIu64 " whose IDs have %u",
                                  id_n, heap->address, heap->id_bytes);
    if (id[0] >> 6)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, heap->f->base + heap->address, "fractal heap IDs of version %u", id[0] >> 6);
    switch (id[0] >> 4 & 3) {
    case MANAGED: return get_managed(heap, id, id_n, out, out_address, err);
    case HUGE_OBJECT: return get_huge(heap, id, id_n, out, out_address, err);
    case TINY: return get_tiny(heap, id, out, out_address, err);
    default: return fby__h5_damaged_at(heap->f, heap->address, err, "an ID of no known kind for a fractal heap at %" PRIu64, heap->address);
    }
}
