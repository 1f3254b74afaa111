/*
 * The chunk index of a data set → one sorted list of stored chunks. This file knows what holds for every kind: the grid, what
 * a chunk must satisfy, order, and that no two chunks share a number or a byte. The structures are in chunks_*.c.
 */
#include "format/hdf5/metadata/chunks_internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <inttypes.h>

static const char *const KIND_NAMES[] = {"B-tree 1", "single chunk", "implicit", "fixed array", "extensible array", "B-tree 2"};

uint64_t fby__h5_chunk_decoded_bytes(const fby__h5_object *object)
{
    uint64_t n = object->chunk_element_bytes;
    for (uint32_t i = 0; i < object->space.rank; i++) {
        if (!fby__mul_u64_checked(n, object->chunk[i], &n))
            return 0;
    }
    return n <= UINT32_MAX ? n : 0;
}

fby_status fby__h5_index_view(fby__h5_chunk_reader *r, uint64_t address, uint64_t n, const char *what, fby__bytes *out, fby_error *err)
{
    r->at = address;
    if (!fby__add_u64_checked(r->index_bytes, n, &r->index_bytes) || r->index_bytes > r->f->end)
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + address, "%s at %" PRIu64 ": the index is larger than the file", what, address);
    return fby__h5_view(r->f, address, n, what, out, err);
}

fby_status fby__h5_index_block(fby__h5_chunk_reader *r, uint64_t address, uint64_t n, const char *signature, const char *what,
                               fby__h5_cursor *out, fby_error *err)
{
    fby__bytes view;
    FBY__TRY(fby__h5_index_view(r, address, n, what, &view, err));
    if (memcmp(view.data, signature, 4) != 0)
        return fby__fail_at(err, FBY_E_FORMAT, r->f->base + address, "%s at %" PRIu64 ": not its signature", what, address);
    FBY__TRY(fby__h5_verify(r->f, address, view, what, err));
    if (view.data[4] != 0)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, r->f->base + address, "%s of version %u", what, view.data[4]);
    *out = fby__h5_cursor_of(r->f, (fby__bytes){view.data, view.n - 4}, address, what);
    (void)fby__h5_next(out, 5); /* just compared */
    return FBY_OK;
}

fby_status fby__h5_chunk_add(fby__h5_chunk_reader *r, const uint64_t *scaled, uint64_t address, uint64_t bytes, uint32_t mask,
                             fby_error *err)
{
    if (address == FBY__H5_UNDEFINED)
        return FBY_OK;
    uint64_t number = 0;
    for (uint32_t i = 0; i < r->rank; i++) {
        if (scaled[i] >= r->grid[i])
            return FBY_OK;
        number += scaled[i] * r->stride[i]; /* below total */
    }
    uint64_t where = r->f->base + r->at;
    if (bytes == 0 || bytes > UINT32_MAX)
        return fby__fail_at(err, FBY_E_FORMAT, where, "chunk %" PRIu64 " has a stored size of %" PRIu64 " bytes", number, bytes);
    if (!r->filtered && bytes != r->chunk_bytes)
        return fby__fail_at(err, FBY_E_FORMAT, where,
                            "chunk %" PRIu64 " has %" PRIu64 " bytes stored, %" PRIu64 " expected without filters", number, bytes,
                            r->chunk_bytes);
    uint64_t room = r->f->end - r->f->base;
    if (address > room || bytes > room - address)
        return fby__fail_at(err, FBY_E_FORMAT, where, "chunk %" PRIu64 ": %" PRIu64 " bytes at %" PRIu64 " go beyond the end of the file",
                            number, bytes, address);
    if (r->n >= FBY__H5_MAX_CHUNKS)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, where, "more than %" PRIu64 " chunks", FBY__H5_MAX_CHUNKS);
    if (fby__grow((void **)&r->list, &r->cap, r->n + 1, sizeof *r->list) != 0)
        return fby__fail_nomem(err, "a chunk index");
    if (r->n && number <= r->list[r->n - 1].number)
        r->sorted = false;
    r->list[r->n++] = (fby__h5_chunk){number, r->f->base + address, (uint32_t)bytes, mask};
    return FBY_OK;
}

/* ---- the list as a whole ---- */

static uint64_t key_of(const fby__h5_chunk *c, bool by_offset) { return by_offset ? c->offset : c->number; }

/* Radix sort, a byte a pass, bytes that are the same in all keys left out. Stable. */
static void sort_chunks(fby__h5_chunk **list, fby__h5_chunk **spare, size_t n, bool by_offset)
{
    uint64_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= key_of(&(*list)[i], by_offset) ^ key_of(&(*list)[0], by_offset);
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if (!(differ >> shift & 0xff))
            continue;
        size_t at[256] = {0}, sum = 0;
        const fby__h5_chunk *src = *list;
        fby__h5_chunk *dst = *spare;
        for (size_t i = 0; i < n; i++)
            at[key_of(&src[i], by_offset) >> shift & 0xff]++;
        for (unsigned b = 0; b < 256; b++) {
            size_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            dst[at[key_of(&src[i], by_offset) >> shift & 0xff]++] = src[i];
        *spare = *list;
        *list = dst;
    }
}

/* In order of offset, does a chunk begin inside the one before? Out of order counts as overlap. */
static const fby__h5_chunk *find_overlap(const fby__h5_chunk *list, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (list[i].offset < list[i - 1].offset + list[i - 1].bytes)
            return &list[i];
    }
    return NULL;
}

static fby_status fail_twice(const fby__h5_chunk *c, fby_error *err)
{
    return fby__fail_at(err, FBY_E_FORMAT, c->offset, "chunk %" PRIu64 " is in the index twice", c->number);
}

/* Sort by number; no number twice, no byte twice. Most files have both orders already and need neither sort. */
static fby_status put_in_order(fby__h5_chunk_reader *r, fby_error *err)
{
    bool by_offset = find_overlap(r->list, r->n) == NULL;
    if (by_offset && r->sorted)
        return FBY_OK;
    fby__h5_chunk *spare = fby__realloc_array(NULL, r->n, sizeof *spare);
    if (!spare)
        return fby__fail_nomem(err, "sorting a chunk index");
    fby_status status = FBY_OK;
    if (!by_offset) {
        sort_chunks(&r->list, &spare, r->n, true);
        r->sorted = false;
        const fby__h5_chunk *bad = find_overlap(r->list, r->n);
        if (bad && bad->number != bad[-1].number)
            status = fby__fail_at(err, FBY_E_FORMAT, bad->offset, "chunks %" PRIu64 " and %" PRIu64 " share bytes of the file",
                                  bad[-1].number, bad->number);
        else if (bad)
            status = fail_twice(bad, err);
    }
    if (status == FBY_OK)
        sort_chunks(&r->list, &spare, r->n, false);
    for (size_t i = 1; i < r->n && status == FBY_OK; i++) {
        if (r->list[i].number == r->list[i - 1].number)
            status = fail_twice(&r->list[i], err);
    }
    fby__free(spare);
    return status;
}

/* The grid, and numbers that make sense of it. total 0: there can be no chunk. */
static fby_status init_reader(fby__h5_chunk_reader *r, fby__h5_file *f, const fby__h5_object *object, fby_error *err)
{
    const fby__h5_space *space = &object->space;
    *r = (fby__h5_chunk_reader){.f = f,
                                .object = object,
                                .rank = space->rank,
                                .total = 1,
                                .sorted = true,
                                .filtered = object->n_filters > 0,
                                .at = object->data_address};
    uint64_t where = f->base + object->address;
    if (space->null || space->rank == 0 || space->rank > FBY__H5_MAX_RANK)
        return fby__fail_at(err, FBY_E_FORMAT, where, "a chunked data set of rank %" PRIu32, space->null ? 0 : space->rank);
    if (object->chunk_element_bytes == 0 || (object->type && object->chunk_element_bytes != object->type->bytes))
        return fby__fail_at(err, FBY_E_FORMAT, where, "chunks of elements of %" PRIu32 " bytes in a data set of another size",
                            object->chunk_element_bytes);
    for (uint32_t i = 0; i < r->rank; i++) {
        if (object->chunk[i] == 0)
            return fby__fail_at(err, FBY_E_FORMAT, where, "a chunk has no elements along axis %" PRIu32, i);
        if (space->max_dims[i] < space->dims[i])
            return fby__fail_at(err, FBY_E_FORMAT, where, "axis %" PRIu32 " is longer than its largest extent", i);
        r->grid[i] = fby__div_up_u64(space->dims[i], object->chunk[i]);
        if (r->grid[i] == 0)
            r->total = 0;
    }
    for (uint32_t i = r->rank; i-- > 0 && r->total;) {
        r->stride[i] = r->total;
        if (!fby__mul_u64_checked(r->total, r->grid[i], &r->total))
            return fby__fail_at(err, FBY_E_FORMAT, where, "more chunks than 64 bits count");
    }
    r->chunk_bytes = fby__h5_chunk_decoded_bytes(object);
    if (r->chunk_bytes == 0)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, where, "chunks of 4 GiB or more");
    return FBY_OK;
}

static fby_status read_index(fby__h5_chunk_reader *r, fby_error *err)
{
    static fby_status (*const READ[])(fby__h5_chunk_reader *, fby_error *) = {
        [FBY__H5_INDEX_BTREE1] = fby__h5_chunks_btree1,         [FBY__H5_INDEX_SINGLE] = fby__h5_chunks_single,
        [FBY__H5_INDEX_IMPLICIT] = fby__h5_chunks_implicit,     [FBY__H5_INDEX_FIXED] = fby__h5_chunks_fixed,
        [FBY__H5_INDEX_EXTENSIBLE] = fby__h5_chunks_extensible, [FBY__H5_INDEX_BTREE2] = fby__h5_chunks_btree2,
    };
    if ((size_t)r->object->index >= sizeof READ / sizeof *READ)
        return fby__fail(err, FBY_E_UNSUPPORTED, "chunk index of kind %d", (int)r->object->index);
    fby_status status = READ[r->object->index](r, err);
    if (status == FBY_OK && r->n > 1)
        status = put_in_order(r, err);
    if (status != FBY_OK)
        fby__error_context(err, "chunk index (%s)", KIND_NAMES[r->object->index]);
    return status;
}

fby_status fby__h5_chunks_read(fby__h5_file *f, const fby__h5_object *object, fby__h5_chunks *out, fby_error *err)
{
    fby__h5_chunk_reader r;
    FBY__TRY(init_reader(&r, f, object, err));
    if (r.total && object->data_address != FBY__H5_UNDEFINED) {
        fby_status status = read_index(&r, err);
        if (status != FBY_OK) {
            fby__free(r.list);
            return status;
        }
    }
    *out = (fby__h5_chunks){.rank = r.rank, .n = r.n, .list = r.list};
    memcpy(out->grid, r.grid, sizeof out->grid);
    return FBY_OK;
}

void fby__h5_chunks_fini(fby__h5_chunks *chunks)
{
    fby__free(chunks->list);
    *chunks = (fby__h5_chunks){0};
}
