/*
 * What a group holds: its links, in each of the three ways to keep them; and dense attributes, which are kept like dense links.
 *
 *   symbol table   B-tree 1 "TREE" ─► "SNOD" of entries; names in a local heap "HEAP"  (spec III.A.1, III.B to III.D)
 *   compact        link messages in the object header: parsed already
 *   dense          B-tree 2 of names ─► IDs of a fractal heap ─► link messages
 *
 * Walks end whatever the bytes are: nodes of a B-tree do not overlap, so all that are visited may not be larger than the
 * file; nor may all the objects of one heap.
 */
#include "base/sort.h"
#include "format/hdf5/metadata/structure.h"

#include <stdlib.h>

/* ---- symbol tables ---- */

#define CACHED_SOFT_LINK 2u /* an entry's cache type: the scratch space has the offset of the target */

typedef struct symbol_walk {
    fby__h5_file *f;
    fby__bytes names; /* data segment of the local heap */
    uint64_t names_address;
    uint64_t left; /* bytes that nodes may still have */
    fby__h5_link_fn fn;
    void *user;
} symbol_walk;

static fby_status read_local_heap(symbol_walk *w, uint64_t address, fby_error *err)
{
    static const char what[] = "a local heap";
    fby__h5_file *f = w->f;
    fby__bytes view;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_structure(f, address, 8 + 2 * (uint64_t)f->length_bytes + f->offset_bytes, "HEAP", 0, what, &view, &c, err));
    (void)fby__h5_next(&c, 3);
    uint64_t n = fby__h5_length(&c);
    (void)fby__h5_length(&c); /* free list */
    w->names_address = fby__h5_offset(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    return fby__h5_view(f, w->names_address, n, "the names of a group", &w->names, err);
}

/* A text of the local heap: used where it lies. */
static fby_status heap_text(symbol_walk *w, uint64_t offset, const char **out, fby_error *err)
{
    if (offset >= w->names.n || !memchr(w->names.data + offset, 0, w->names.n - (size_t)offset))
        return fby__h5_damaged_at(w->f, w->names_address, err, "a name at %" PRIu64 " of a group's %zu bytes of names does not end", offset,
                                  w->names.n);
    *out = (const char *)w->names.data + offset;
    return FBY_OK;
}

static fby_status spend(symbol_walk *w, uint64_t address, uint64_t bytes, fby_error *err)
{
    if (bytes > w->left)
        return fby__h5_damaged_at(w->f, address, err, "the nodes of a group's B-tree at %" PRIu64 " are more than the file: a cycle",
                                  address);
    w->left -= bytes;
    return FBY_OK;
}

static fby_status walk_symbols(symbol_walk *w, uint64_t address, fby_error *err)
{
    static const char what[] = "a symbol table node";
    fby__h5_file *f = w->f;
    fby__bytes view;
    fby__h5_cursor c;
    FBY__TRY(fby__h5_structure(f, address, 8, "SNOD", 1, what, &view, &c, err));
    (void)fby__h5_u8(&c);
    uint16_t n = fby__h5_u16(&c);
    /* The spec has the name's offset in the size of offsets; libhdf5 writes it in that of lengths. */
    uint64_t bytes = 8 + n * ((uint64_t)f->offset_bytes + f->length_bytes + 24);
    FBY__TRY(spend(w, address, bytes, err));
    FBY__TRY(fby__h5_view(f, address, bytes, what, &view, err));
    c = fby__h5_cursor_of(f, view, address, what);
    (void)fby__h5_next(&c, 8);
    for (unsigned i = 0; i < n; i++) {
        uint64_t name = fby__h5_length(&c);
        fby__h5_link link = {.kind = FBY__H5_HARD, .address = fby__h5_offset(&c)};
        uint32_t cached = fby__h5_u32(&c);
        (void)fby__h5_u32(&c);
        const uint8_t *scratch = fby__h5_next(&c, 16);
        FBY__TRY(fby__h5_cursor_check(&c, err));
        FBY__TRY(heap_text(w, name, &link.name, err));
        if (cached > CACHED_SOFT_LINK)
            return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 ": an entry of no known kind (%" PRIu32 ")", what, address, cached);
        if (cached == CACHED_SOFT_LINK) {
            link.kind = FBY__H5_SOFT;
            link.address = FBY__H5_UNDEFINED;
            FBY__TRY(heap_text(w, fby__load_u32(scratch), &link.target, err));
        }
        FBY__TRY(w->fn(w->user, &link, err));
    }
    return FBY_OK;
}

/* level: what the node must state; negative for the root, which may state any. */
static fby_status walk_group_node(symbol_walk *w, uint64_t address, int level, fby_error *err)
{
    static const char what[] = "a node of a group's B-tree";
    fby__h5_file *f = w->f;
    fby__bytes view;
    FBY__TRY(fby__h5_view(f, address, 8, what, &view, err));
    fby__h5_cursor c = fby__h5_cursor_of(f, view, address, what);
    const uint8_t *signature = fby__h5_next(&c, 4);
    uint8_t type = fby__h5_u8(&c), stated = fby__h5_u8(&c);
    uint16_t n = fby__h5_u16(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    if (memcmp(signature, "TREE", 4) != 0 || type != 0)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " does not begin as one", what, address);
    if (level < 0 ? stated > FBY__H5_MAX_DEPTH : stated != level)
        return fby__h5_damaged_at(f, address, err, "%s at %" PRIu64 " cannot have level %u", what, address, stated);
    const uint64_t siblings = 2 * (uint64_t)f->offset_bytes;
    uint64_t bytes = 8 + siblings + n * ((uint64_t)f->offset_bytes + f->length_bytes) + f->length_bytes;
    FBY__TRY(spend(w, address, bytes, err));
    FBY__TRY(fby__h5_view(f, address, bytes, what, &view, err));
    c = fby__h5_cursor_of(f, view, address, what);
    (void)fby__h5_next(&c, 8 + (size_t)siblings);
    for (unsigned i = 0; i < n; i++) {
        (void)fby__h5_length(&c); /* key: the least name, for searching */
        uint64_t child = fby__h5_offset(&c);
        FBY__TRY(fby__h5_cursor_check(&c, err));
        FBY__TRY(stated ? walk_group_node(w, child, stated - 1, err) : walk_symbols(w, child, err));
    }
    return FBY_OK;
}

static fby_status walk_symbol_table(fby__h5_file *f, const fby__h5_object *group, fby__h5_link_fn fn, void *user, fby_error *err)
{
    symbol_walk w = {.f = f, .left = f->end, .fn = fn, .user = user};
    FBY__TRY(read_local_heap(&w, group->heap_address, err));
    return walk_group_node(&w, group->btree_address, -1, err);
}

/* ---- dense links and attributes ---- */

/* A heap, and what its name index has led to so far. Lists are owned. */
typedef struct dense {
    fby__h5_file *f;
    fby__h5_heap *heap;
    const char *what;
    uint16_t record_bytes; /* stated by the tree's header */
    uint64_t left;         /* bytes that objects may still have */
    size_t n, cap;
    fby__h5_link *links;
    struct dense_attribute {
        fby__h5_attribute attribute;
        uint32_t order; /* of creation */
    } * attributes;
} dense;

typedef struct dense_attribute dense_attribute;

/* The heap object that a record's ID names. The rest of the record is `other_bytes`. */
static fby_status dense_object(dense *d, const uint8_t *id, size_t other_bytes, fby__bytes *out, uint64_t *out_address, fby_error *err)
{
    size_t id_bytes = fby__h5_heap_id_bytes(d->heap);
    if (d->record_bytes != id_bytes + other_bytes)
        return fby__fail(err, FBY_E_FORMAT, "%s: records of %u bytes for heap IDs of %zu", d->what, d->record_bytes, id_bytes);
    FBY__TRY(fby__h5_heap_get(d->heap, id, id_bytes, out, out_address, err));
    if (out->n > d->left)
        return fby__h5_damaged_at(d->f, *out_address, err, "%s are larger than the file: several are one", d->what);
    d->left -= out->n;
    return FBY_OK;
}

/* Record of type 5: hash of the name, ID (spec III.A.2). */
static fby_status add_dense_link(void *user, const uint8_t *record, fby_error *err)
{
    dense *d = user;
    if (d->record_bytes <= 4)
        return fby__fail(err, FBY_E_FORMAT, "%s: records of %u bytes", d->what, d->record_bytes);
    fby__bytes body;
    uint64_t address;
    FBY__TRY(dense_object(d, record + 4, 4, &body, &address, err));
    if (fby__grow((void **)&d->links, &d->cap, d->n + 1, sizeof *d->links) != 0)
        return fby__fail_nomem(err, d->what);
    FBY__TRY(fby__h5_link_parse(d->f, body, address, &d->links[d->n], err));
    d->n++;
    return FBY_OK;
}

/* Record of type 8: ID, message flags, order of creation, hash of the name. */
static fby_status add_dense_attribute(void *user, const uint8_t *record, fby_error *err)
{
    dense *d = user;
    if (d->record_bytes <= 9)
        return fby__fail(err, FBY_E_FORMAT, "%s: records of %u bytes", d->what, d->record_bytes);
    const uint8_t *rest = record + d->record_bytes - 9;
    if (rest[0] & 0x02) /* the ID is of the file's heap of shared messages */
        return fby__fail(err, FBY_E_UNSUPPORTED, "attributes that are shared between objects");
    fby__bytes body;
    uint64_t address;
    FBY__TRY(dense_object(d, record, 9, &body, &address, err));
    if (fby__grow((void **)&d->attributes, &d->cap, d->n + 1, sizeof *d->attributes) != 0)
        return fby__fail_nomem(err, d->what);
    dense_attribute *a = &d->attributes[d->n];
    FBY__TRY(fby__h5_attribute_parse(d->f, body, address, &a->attribute, err));
    a->order = fby__load_u32(rest + 1);
    d->n++;
    return FBY_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(((const fby__h5_link *)a)->name, ((const fby__h5_link *)b)->name); }

static int by_order(const void *a, const void *b)
{
    const dense_attribute *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return strcmp(x->attribute.name, y->attribute.name);
}

static fby_status walk_dense_links(fby__h5_file *f, const fby__h5_object *group, fby__h5_link_fn fn, void *user, fby_error *err)
{
    dense d = {.f = f, .what = "the links of a group", .left = f->end};
    FBY__TRY(fby__h5_heap_open(f, group->link_heap_address, &d.heap, err));
    fby_status status = fby__h5_btree2_walk(f, group->link_index_address, 5, &d.record_bytes, add_dense_link, &d, err);
    if (status == FBY_OK)
        status = fby__sort(d.links, d.n, sizeof *d.links, by_name, err); /* the index is ordered by hash */
    for (size_t i = 0; status == FBY_OK && i < d.n; i++)
        status = fn(user, &d.links[i], err);
    fby__free(d.links);
    return status;
}

fby_status fby__h5_dense_attributes(fby__h5_file *f, uint64_t heap_address, uint64_t index_address,
                                    fby_status (*fn)(void *user, const fby__h5_attribute *a, fby_error *err), void *user, fby_error *err)
{
    dense d = {.f = f, .what = "the attributes of an object", .left = f->end};
    FBY__TRY(fby__h5_heap_open(f, heap_address, &d.heap, err));
    fby_status status = fby__h5_btree2_walk(f, index_address, 8, &d.record_bytes, add_dense_attribute, &d, err);
    if (d.n)
        qsort(d.attributes, d.n, sizeof *d.attributes, by_order);
    for (size_t i = 0; status == FBY_OK && i < d.n; i++)
        status = fn(user, &d.attributes[i].attribute, err);
    fby__free(d.attributes);
    return status;
}

/* ---- all three ---- */

fby_status fby__h5_group_links(fby__h5_file *f, const fby__h5_object *group, fby__h5_link_fn fn, void *user, fby_error *err)
{
    if (group->btree_address != FBY__H5_UNDEFINED && group->heap_address != FBY__H5_UNDEFINED)
        FBY__TRY(walk_symbol_table(f, group, fn, user, err));
    for (uint32_t i = 0; i < group->n_links; i++)
        FBY__TRY(fn(user, &group->links[i], err));
    if (group->link_heap_address != FBY__H5_UNDEFINED && group->link_index_address != FBY__H5_UNDEFINED)
        FBY__TRY(walk_dense_links(f, group, fn, user, err));
    return FBY_OK;
}
