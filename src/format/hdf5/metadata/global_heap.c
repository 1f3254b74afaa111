/*
 * Global heaps: collections of numbered objects, where variable-length values lie (spec III.E).
 *
 *   "GCOL" version, size │ index, references, size, data │ index … │ index 0: free space to the end
 *
 * A collection is read and its objects found once; then an object is a look-up in a table of offsets. The cache is a hash
 * table by address. When it is full everything in it goes: elements of a chunk name their collections in order, so what was
 * read long ago is not asked for again, and a data set larger than the cache would defeat any order of eviction.
 */
#include "base/checked.h"
#include "base/hash.h"
#include "format/hdf5/metadata/hdf5.h"

#include <inttypes.h>

#define MAX_COLLECTION_BYTES ((uint64_t)256 << 20) /* libhdf5 makes one larger than 64 KiB only for an object that needs it */
#define SIZE_AT 8u                                 /* in a collection's header and in an object's: 8 bytes, the size, */
#define HEAD_BYTES 16u                             /* and zeros up to 16: libhdf5 aligns both, where lengths are of 2 or 4 bytes too */

typedef struct fby__h5_collection {
    uint64_t offset;    /* absolute in the file */
    uint8_t *data;      /* owned; NULL: this slot of the table is free */
    uint32_t *at;       /* owned: where in data the object of an index lies, behind its size; 0 = no such object */
    uint32_t n_objects; /* one more than the largest index */
    size_t bytes;       /* of both */
} collection;

typedef struct object {
    uint16_t index;
    uint64_t size;
    size_t at; /* of its data */
} object;

static uint64_t load_uint(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* ---- the objects of a collection ---- */

/* The object at *at, which moves on. False: no more. *fault is set when it is not inside the collection. */
static bool next_object(const uint8_t *data, size_t n, unsigned length_bytes, size_t *at, object *out, bool *fault)
{
    const size_t head = HEAD_BYTES;
    for (;;) {
        size_t left = n - *at;
        if (left < head) /* free space too small to be stated */
            return false;
        const uint8_t *p = data + *at;
        *out = (object){fby__load_u16(p), load_uint(p + SIZE_AT, length_bytes), *at + head};
        if (out->index == 0) { /* free space, its size with this header: libhdf5 keeps it at the end, the spec does not say so */
            if (out->size < head || out->size % 8 || out->size > left)
                return false;
            *at += (size_t)out->size;
            continue;
        }
        if (out->size > left - head) {
            *fault = true;
            return false;
        }
        size_t padded = head + (size_t)fby__align_up_u64(out->size, 8);
        *at += padded < left ? padded : left;
        return true;
    }
}

static fby_status index_objects(collection *c, size_t n, unsigned length_bytes, fby_error *err)
{
    uint32_t n_objects = 0;
    bool fault = false;
    object o;
    for (size_t at = HEAD_BYTES; next_object(c->data, n, length_bytes, &at, &o, &fault);)
        n_objects = o.index >= n_objects ? o.index + 1u : n_objects;
    if (fault)
        return fby__fail_at(err, FBY_E_FORMAT, c->offset, "a global heap collection: object %u goes beyond its end", o.index);
    c->at = fby__calloc(n_objects, sizeof *c->at);
    if (!c->at)
        return fby__fail_nomem(err, "a global heap collection");
    c->n_objects = n_objects;
    c->bytes += n_objects * sizeof *c->at;
    for (size_t at = HEAD_BYTES; next_object(c->data, n, length_bytes, &at, &o, &fault);) {
        if (c->at[o.index])
            return fby__fail_at(err, FBY_E_FORMAT, c->offset, "a global heap collection: two objects have number %u", o.index);
        c->at[o.index] = (uint32_t)o.at;
    }
    return FBY_OK;
}

static void collection_fini(collection *c)
{
    fby__free(c->data);
    fby__free(c->at);
    *c = (collection){0};
}

/* Into *c, which keeps what it holds on failure too: collection_fini. */
static fby_status collection_read(collection *c, fby__file *file, uint64_t offset, uint8_t length_bytes, fby_error *err)
{
    const uint64_t file_bytes = fby__file_stamp_of(file)->size_bytes;
    uint8_t head[HEAD_BYTES];
    c->offset = offset;
    if (offset > file_bytes || HEAD_BYTES > file_bytes - offset)
        return fby__fail_at(err, FBY_E_FORMAT, offset, "a global heap collection goes beyond the end of the file");
    FBY__TRY(fby__file_read(file, offset, head, HEAD_BYTES, err));
    if (memcmp(head, "GCOL", 4) != 0)
        return fby__fail_at(err, FBY_E_FORMAT, offset, "a global heap collection does not begin with \"GCOL\"");
    if (head[4] != 1)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, offset, "a global heap collection of version %u", head[4]);
    uint64_t n = load_uint(head + SIZE_AT, length_bytes);
    if (n < HEAD_BYTES || n > file_bytes - offset)
        return fby__fail_at(err, FBY_E_FORMAT, offset, "a global heap collection of %" PRIu64 " bytes goes beyond the end of the file", n);
    if (n > MAX_COLLECTION_BYTES)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, offset, "a global heap collection of %" PRIu64 " bytes", n);
    c->data = fby__malloc((size_t)n);
    if (!c->data)
        return fby__fail_nomem(err, "a global heap collection");
    c->bytes = (size_t)n;
    FBY__TRY(fby__file_read(file, offset, c->data, (size_t)n, err));
    return index_objects(c, (size_t)n, length_bytes, err);
}

/* ---- the cache ---- */

/* Where the collection is, or would be. cap is a power of 2 and the table is never full. */
static collection *slot_of(collection *table, size_t cap, uint64_t offset)
{
    size_t i = (size_t)fby__table_hash_u64(offset) & (cap - 1);
    while (table[i].data && table[i].offset != offset)
        i = (i + 1) & (cap - 1);
    return &table[i];
}

/* Room for one more. */
static fby_status make_room(fby__h5_global_cache *cache, fby_error *err)
{
    if (2 * (cache->n + 1) <= cache->cap)
        return FBY_OK;
    size_t cap = cache->cap ? 2 * cache->cap : 16;
    collection *table = fby__calloc(cap, sizeof *table);
    if (!table)
        return fby__fail_nomem(err, "the cache of global heap collections");
    for (size_t i = 0; i < cache->cap; i++)
        if (cache->collections[i].data)
            *slot_of(table, cap, cache->collections[i].offset) = cache->collections[i];
    fby__free(cache->collections);
    cache->collections = table;
    cache->cap = cap;
    return FBY_OK;
}

static fby_status find_collection(fby__h5_global_cache *cache, fby__file *file, uint64_t offset, uint8_t length_bytes,
                                  const collection **out, fby_error *err)
{
    if (cache->cap) {
        *out = slot_of(cache->collections, cache->cap, offset);
        if ((*out)->data)
            return FBY_OK;
    }
    collection c = {0};
    fby_status status = collection_read(&c, file, offset, length_bytes, err);
    if (status == FBY_OK && cache->bytes && cache->bytes + c.bytes > FBY__H5_GLOBAL_CACHE_BYTES)
        fby__h5_global_fini(cache);
    if (status == FBY_OK)
        status = make_room(cache, err);
    if (status != FBY_OK) {
        collection_fini(&c);
        return status;
    }
    collection *slot = slot_of(cache->collections, cache->cap, offset);
    *slot = c;
    cache->n++;
    cache->bytes += c.bytes;
    *out = slot;
    return FBY_OK;
}

fby_status fby__h5_global_get(fby__h5_global_cache *cache, fby__file *file, uint64_t base, uint8_t offset_bytes, uint8_t length_bytes,
                              uint64_t address, uint32_t index, fby__bytes *out, fby_error *err)
{
    uint64_t offset;
    const bool undefined = offset_bytes < 8 ? address >> (8 * offset_bytes) != 0 : address == FBY__H5_UNDEFINED;
    if (length_bytes > 8 || undefined || !fby__add_u64_checked(base, address, &offset))
        return fby__fail(err, FBY_E_FORMAT, "a variable-length value at no address");
    const collection *c;
    FBY__TRY(find_collection(cache, file, offset, length_bytes, &c, err));
    if (index >= c->n_objects || !c->at[index])
        return fby__fail_at(err, FBY_E_FORMAT, offset, "a global heap collection has no object %" PRIu32, index);
    const uint8_t *data = c->data + c->at[index];
    *out = (fby__bytes){data, (size_t)load_uint(data - HEAD_BYTES + SIZE_AT, length_bytes)};
    return FBY_OK;
}

void fby__h5_global_fini(fby__h5_global_cache *cache)
{
    for (size_t i = 0; i < cache->cap; i++)
        if (cache->collections[i].data)
            collection_fini(&cache->collections[i]);
    fby__free(cache->collections);
    *cache = (fby__h5_global_cache){0};
}
