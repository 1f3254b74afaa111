/*
 * Object headers (spec IV.A.1): two versions of a list of messages, in blocks that continue each other; and the object they
 * describe together.
 *
 *   version 1   prefix │ message, message, … │          version 2   OHDR prefix │ message, … , gap │ checksum
 *                            └─ continuation ─► message, …                └─ continuation ─► OCHK │ message, … , gap │ checksum
 *
 * Damage ends the parse with FBY_E_FORMAT. What is valid and not ours becomes object->declined, and the parse goes on: names,
 * shapes and the other attributes are still known.
 */
#include "base/checked.h"
#include "format/hdf5/metadata/object_internal.h"

#include <stdlib.h>

/* ---- headers ---- */

#define MAX_BLOCKS 65536u

typedef struct block {
    uint64_t address, n;
    struct block *next;
} block;

typedef struct header {
    fby__h5_file *f;
    unsigned version;
    bool ordered;        /* version 2: messages have an order of creation */
    block *first, *last; /* arena: continuations still to read */
    unsigned n_blocks;
    uint64_t bytes; /* of all blocks: more than the file has means that they overlap */
    fby__h5_message_fn fn;
    void *user;
} header;

static fby_status add_continuation(header *h, fby__h5_cursor *c, fby_error *err)
{
    block *b;
    FBY__TRY(fby__h5_alloc(h->f, 1, sizeof *b, (void **)&b, err));
    b->address = fby__h5_offset(c);
    b->n = fby__h5_length(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (++h->n_blocks > MAX_BLOCKS || b->n > h->f->end || (h->bytes += b->n) > h->f->end)
        return fby__h5_damaged(c, err, "its continuations are larger than the file, or go in a circle");
    if (h->last)
        h->last->next = b;
    else
        h->first = b;
    h->last = b;
    return FBY_OK;
}

/* The messages of one block, prefix and checksum taken off. */
static fby_status read_messages(header *h, fby__h5_cursor *c, fby_error *err)
{
    const bool v1 = h->version == 1;
    const size_t head = v1 ? 8 : h->ordered ? 6 : 4;
    while (v1 ? fby__h5_left(c) > 0 : fby__h5_left(c) >= head) { /* version 2: what is left is a gap */
        fby__h5_message m = {.type = v1 ? fby__h5_u16(c) : fby__h5_u8(c)};
        const uint16_t n = fby__h5_u16(c);
        const unsigned flags = fby__h5_u8(c);
        if (v1)
            (void)fby__h5_next(c, 3);
        m.ordered = h->ordered;
        m.order = h->ordered ? fby__h5_u16(c) : 0;
        m.shared = flags & 2;
        m.must_know = flags & 0x80;
        FBY__TRY(fby__h5_cursor_check(c, err));
        m.address = fby__h5_tell(c);
        if (v1 && n % 8)
            return fby__h5_damaged(c, err, "a message of %u bytes", n);
        m.body = (fby__bytes){fby__h5_next(c, n), n};
        FBY__TRY(fby__h5_cursor_check(c, err));
        if (m.type == FBY__H5_MSG_NIL)
            continue;
        if (m.type == FBY__H5_MSG_CONTINUATION) {
            fby__h5_cursor at = fby__h5_cursor_of(h->f, m.body, m.address, "continuation message");
            FBY__TRY(add_continuation(h, &at, err));
        } else {
            FBY__TRY(h->fn(h->user, &m, err));
        }
    }
    return FBY_OK;
}

static fby_status read_continuation(header *h, const block *b, fby_error *err)
{
    const char *what = "object header continuation";
    fby__bytes v;
    FBY__TRY(fby__h5_view(h->f, b->address, b->n, what, &v, err));
    fby__h5_cursor c = fby__h5_cursor_of(h->f, v, b->address, what);
    if (h->version == 2) {
        const uint8_t *signature = fby__h5_next(&c, 4);
        if (!signature || memcmp(signature, "OCHK", 4) != 0)
            return fby__h5_damaged(&c, err, "no signature at %llu", (unsigned long long)b->address);
        FBY__TRY(fby__h5_verify(h->f, b->address, v, what, err));
        if (v.n < 8)
            c.failed = true;
        else
            c.end -= 4;
    }
    return read_messages(h, &c, err);
}

/* Prefix and first block together: their size is in the prefix. */
static fby_status read_first(header *h, uint64_t address, fby_error *err)
{
    const char *what = "object header";
    fby__h5_file *f = h->f;
    fby__bytes v;
    uint64_t n, prefix;
    FBY__TRY(fby__h5_view(f, address, 12, what, &v, err));
    fby__h5_cursor c = fby__h5_cursor_of(f, v, address, what);
    if (memcmp(v.data, "OHDR", 4) == 0) {
        h->version = 2;
        (void)fby__h5_next(&c, 4);
        const unsigned version = fby__h5_u8(&c), flags = fby__h5_u8(&c);
        if (version != 2)
            return version < 2 ? fby__h5_damaged(&c, err, "version %u with a signature", version)
                               : fby__fail_at(err, FBY_E_UNSUPPORTED, f->base + address, "its object header is of version %u", version);
        if (flags & 0xc0)
            return fby__h5_damaged(&c, err, "unknown flags 0x%x", flags);
        h->ordered = flags & 4;
        prefix = 6u + (flags & 32 ? 16u : 0) + (flags & 16 ? 4u : 0) + (1u << (flags & 3)); /* times, attribute limits */
        FBY__TRY(fby__h5_view(f, address, prefix, what, &v, err));
        c = fby__h5_cursor_of(f, v, address, what);
        (void)fby__h5_next(&c, (size_t)prefix - (1u << (flags & 3)));
        n = fby__h5_uint(&c, 1u << (flags & 3));
        if (!fby__add_u64_checked(n, prefix + 4, &n))
            return fby__h5_damaged(&c, err, "its first block is larger than the file");
    } else if (v.data[0] == 1) {
        h->version = 1;
        prefix = 16;               /* padded to a multiple of eight */
        (void)fby__h5_next(&c, 8); /* version, reserved, number of messages (libhdf5 does not rely on it), reference count */
        n = prefix + fby__h5_u32(&c);
    } else {
        return fby__h5_damaged(&c, err, "no object header at %llu", (unsigned long long)address);
    }
    FBY__TRY(fby__h5_view(f, address, n, what, &v, err));
    h->bytes = n;
    c = fby__h5_cursor_of(f, v, address, what);
    (void)fby__h5_next(&c, (size_t)prefix);
    if (h->version == 2) {
        FBY__TRY(fby__h5_verify(f, address, v, what, err));
        c.end -= 4;
    }
    return read_messages(h, &c, err);
}

fby_status fby__h5_header_walk(fby__h5_file *f, uint64_t address, fby__h5_message_fn fn, void *user, fby_error *err)
{
    header h = {.f = f, .fn = fn, .user = user};
    FBY__TRY(read_first(&h, address, err));
    for (const block *b = h.first; b; b = b->next) /* which may add more */
        FBY__TRY(read_continuation(&h, b, err));
    return FBY_OK;
}

/* ---- objects ---- */

typedef struct ordered_attribute {
    fby__h5_attribute attribute;
    uint32_t order;
} ordered_attribute;

typedef struct builder {
    fby__h5_file *f;
    fby__h5_object *o;
    bool has_space, has_type, has_layout, has_fill, is_group;
    bool space_read, layout_read; /* has_… and not declined */
    fby__h5_layout_facts layout;
    ordered_attribute *attributes; /* owned */
    size_t n_attributes, attributes_cap;
    fby__h5_link *links; /* owned */
    size_t n_links, links_cap;
    uint64_t dense_heap, dense_index; /* attributes */
} builder;

/* The first reason is kept. */
static fby_status decline(builder *b, const char *reason, fby_error *err)
{
    if (b->o->declined)
        return FBY_OK;
    char *copy;
    const size_t n = strlen(reason) + 1;
    FBY__TRY(fby__h5_alloc(b->f, n, 1, (void **)&copy, err));
    memcpy(copy, reason, n);
    b->o->declined = copy;
    return FBY_OK;
}

static fby_status once(fby__h5_cursor *c, bool *seen, fby_error *err)
{
    if (*seen)
        return fby__h5_damaged(c, err, "a second one in one object header");
    *seen = true;
    return FBY_OK;
}

static fby_status keep_attribute(builder *b, const fby__h5_attribute *a, uint32_t order, fby_error *err)
{
    if (fby__grow((void **)&b->attributes, &b->attributes_cap, b->n_attributes + 1, sizeof *b->attributes) != 0)
        return fby__fail_nomem(err, "attributes");
    b->attributes[b->n_attributes++] = (ordered_attribute){*a, order};
    return FBY_OK;
}

static fby_status read_attribute(builder *b, const fby__h5_message *m, fby__h5_cursor *c, fby_error *err)
{
    if (m->shared)
        return fby__h5_shared_other(c, err);
    fby__h5_attribute a;
    FBY__TRY(fby__h5_attribute_parse(b->f, m->body, m->address, &a, err));
    return keep_attribute(b, &a, m->order, err); /* 0 where it is not tracked */
}

static fby_status read_link(builder *b, const fby__h5_message *m, fby_error *err)
{
    if (fby__grow((void **)&b->links, &b->links_cap, b->n_links + 1, sizeof *b->links) != 0)
        return fby__fail_nomem(err, "links");
    FBY__TRY(fby__h5_link_parse(b->f, m->body, m->address, &b->links[b->n_links], err));
    b->n_links++;
    return FBY_OK;
}

static fby_status read_link_info(builder *b, fby__h5_cursor *c, fby_error *err)
{
    const unsigned version = fby__h5_u8(c), flags = fby__h5_u8(c);
    if (flags & 1)
        (void)fby__h5_u64(c); /* largest order of creation */
    b->o->link_heap_address = fby__h5_offset(c);
    b->o->link_index_address = fby__h5_offset(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    return version ? fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its links are of version %u", version) : FBY_OK;
}

static fby_status read_attribute_info(builder *b, fby__h5_cursor *c, fby_error *err)
{
    const unsigned version = fby__h5_u8(c), flags = fby__h5_u8(c);
    if (flags & 1)
        (void)fby__h5_u16(c); /* largest order of creation */
    b->dense_heap = fby__h5_offset(c);
    b->dense_index = fby__h5_offset(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    return version ? fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its attributes are of version %u", version) : FBY_OK;
}

static const char *const NAMES[FBY__H5_MSG_COUNT] = {
    [FBY__H5_MSG_SPACE] = "dataspace",
    [FBY__H5_MSG_LINK_INFO] = "link info",
    [FBY__H5_MSG_TYPE] = "datatype",
    [FBY__H5_MSG_FILL_OLD] = "fill value",
    [FBY__H5_MSG_FILL] = "fill value",
    [FBY__H5_MSG_LAYOUT] = "layout message",
    [FBY__H5_MSG_FILTERS] = "filter message",
    [FBY__H5_MSG_ATTRIBUTE] = "attribute",
    [FBY__H5_MSG_SYMBOL_TABLE] = "symbol table message",
    [FBY__H5_MSG_ATTRIBUTE_INFO] = "attribute info",
};

/* One message. FBY_E_UNSUPPORTED becomes a reason to decline, one level up. */
static fby_status read_message(builder *b, const fby__h5_message *m, fby_error *err)
{
    fby__h5_object *o = b->o;
    const char *name = m->type < FBY__H5_MSG_COUNT ? NAMES[m->type] : NULL;
    fby__h5_cursor c = fby__h5_cursor_of(b->f, m->body, m->address, name ? name : "message");
    switch (m->type) {
    case FBY__H5_MSG_SPACE:
        FBY__TRY(once(&c, &b->has_space, err));
        FBY__TRY(m->shared ? fby__h5_shared_other(&c, err) : fby__h5_space_parse(&c, &o->space, err));
        b->space_read = true;
        return FBY_OK;
    case FBY__H5_MSG_TYPE:
        FBY__TRY(once(&c, &b->has_type, err));
        return m->shared ? fby__h5_shared_type(b->f, &c, &o->type, err) : fby__h5_type_parse(b->f, &c, &o->type, err);
    case FBY__H5_MSG_FILL_OLD:
    case FBY__H5_MSG_FILL: {
        if (m->shared)
            return fby__h5_shared_other(&c, err);
        fby__bytes fill;
        FBY__TRY(fby__h5_fill_parse(&c, m->type == FBY__H5_MSG_FILL_OLD, &fill, err));
        if (m->type == FBY__H5_MSG_FILL || !b->has_fill) /* writers put both, for old readers */
            o->fill = fill;
        b->has_fill |= m->type == FBY__H5_MSG_FILL;
        return FBY_OK;
    }
    case FBY__H5_MSG_LAYOUT:
        FBY__TRY(once(&c, &b->has_layout, err));
        FBY__TRY(fby__h5_layout_parse(&c, o, &b->layout, err));
        b->layout_read = true;
        return FBY_OK;
    case FBY__H5_MSG_EXTERNAL: o->external = true; return fby__fail(err, FBY_E_UNSUPPORTED, "its data lies in external files");
    case FBY__H5_MSG_FILTERS: return m->shared ? fby__h5_shared_other(&c, err) : fby__h5_filters_parse(b->f, &c, o, err);
    case FBY__H5_MSG_ATTRIBUTE: return read_attribute(b, m, &c, err);
    case FBY__H5_MSG_ATTRIBUTE_INFO: return read_attribute_info(b, &c, err);
    case FBY__H5_MSG_LINK: b->is_group = true; return read_link(b, m, err);
    case FBY__H5_MSG_LINK_INFO: b->is_group = true; return read_link_info(b, &c, err);
    case FBY__H5_MSG_SYMBOL_TABLE:
        b->is_group = true;
        o->btree_address = fby__h5_offset(&c);
        o->heap_address = fby__h5_offset(&c);
        return fby__h5_cursor_check(&c, err);
    default: /* comments, times and the like do not matter to a reader */
        if (m->type >= FBY__H5_MSG_COUNT && m->must_know)
            return fby__fail(err, FBY_E_UNSUPPORTED, "it has a message of the unknown type %u", m->type);
        return FBY_OK;
    }
}

static fby_status accept(builder *b, fby_status st, fby_error *err)
{
    if (st != FBY_E_UNSUPPORTED)
        return st;
    FBY__TRY(decline(b, err->message, err));
    fby__error_clear(err);
    return FBY_OK;
}

static fby_status on_message(void *user, const fby__h5_message *m, fby_error *err) { return accept(user, read_message(user, m, err), err); }

static fby_status on_dense_attribute(void *user, const fby__h5_attribute *a, fby_error *err)
{
    builder *b = user;
    return keep_attribute(b, a, (uint32_t)b->n_attributes, err); /* they come in order */
}

static int by_order(const void *pa, const void *pb)
{
    const ordered_attribute *a = pa, *b = pb;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    return strcmp(a->attribute.name, b->attribute.name);
}

/* ---- data sets: what their messages say about each other ---- */

static fby_status damaged(const builder *b, fby_error *err, const char *text)
{
    return fby__fail_at(err, FBY_E_FORMAT, b->f->base + b->o->address, "%s", text);
}

static fby_status check_chunks(builder *b, fby_error *err)
{
    fby__h5_object *o = b->o;
    if (b->layout.chunk_rank != o->space.rank)
        return damaged(b, err, "chunks and dataspace differ in their number of dimensions");
    if (o->chunk_element_bytes != o->type->bytes)
        return damaged(b, err, "the chunks' elements and the datatype differ in size");
    return FBY_OK;
}

static fby_status check_dataset(builder *b, fby_error *err)
{
    fby__h5_object *o = b->o;
    if (!b->has_layout)
        return damaged(b, err, "a data set without a layout message");
    if (o->fill.n && o->type && o->fill.n != o->type->bytes)
        FBY__TRY(decline(b, "its fill value and its elements differ in size", err));
    if (!o->type || !b->space_read || !b->layout_read || o->external)
        return FBY_OK;
    uint64_t bytes;
    if (!fby__mul_u64_checked(o->space.n_elements, o->type->bytes, &bytes))
        return damaged(b, err, "a data set of more bytes than 64 bits count");
    switch (o->layout) {
    case FBY__H5_COMPACT: return o->compact.n < bytes ? damaged(b, err, "a compact data set is smaller than its elements") : FBY_OK;
    case FBY__H5_CONTIGUOUS:
        if (b->layout.version < 3)
            o->data_bytes = bytes; /* the message has no size */
        if (o->data_bytes < bytes && o->data_address != FBY__H5_UNDEFINED)
            return damaged(b, err, "a contiguous data set is smaller than its elements");
        if (bytes && o->data_address != FBY__H5_UNDEFINED &&
            (o->data_address > b->f->end - b->f->base || bytes > b->f->end - b->f->base - o->data_address))
            return damaged(b, err, "the data goes beyond the end of the file");
        return FBY_OK;
    case FBY__H5_CHUNKED: return check_chunks(b, err);
    case FBY__H5_VIRTUAL: break;
    }
    return FBY_OK;
}

/* What the temporary arrays hold, for good. */
static fby_status publish_lists(builder *b, fby_error *err)
{
    fby__h5_object *o = b->o;
    if (b->n_attributes > UINT32_MAX || b->n_links > UINT32_MAX)
        return damaged(b, err, "more attributes or links than 32 bits count");
    fby__h5_attribute *attributes;
    fby__h5_link *links;
    FBY__TRY(fby__h5_alloc(b->f, b->n_attributes, sizeof *attributes, (void **)&attributes, err));
    FBY__TRY(fby__h5_alloc(b->f, b->n_links, sizeof *links, (void **)&links, err));
    if (b->n_attributes)
        qsort(b->attributes, b->n_attributes, sizeof *b->attributes, by_order);
    for (size_t i = 0; i < b->n_attributes; i++)
        attributes[i] = b->attributes[i].attribute;
    if (b->n_links)
        memcpy(links, b->links, b->n_links * sizeof *links);
    o->n_attributes = (uint32_t)b->n_attributes;
    o->attributes = attributes;
    o->n_links = (uint32_t)b->n_links;
    o->links = links;
    return FBY_OK;
}

static fby_status build(builder *b, fby_error *err)
{
    fby__h5_object *o = b->o;
    FBY__TRY(fby__h5_header_walk(b->f, o->address, on_message, b, err));
    if (b->dense_heap != FBY__H5_UNDEFINED && b->dense_index != FBY__H5_UNDEFINED)
        FBY__TRY(accept(b, fby__h5_dense_attributes(b->f, b->dense_heap, b->dense_index, on_dense_attribute, b, err), err));
    FBY__TRY(publish_lists(b, err));
    if (b->has_type && b->has_space) {
        o->kind = FBY__H5_DATASET;
        return check_dataset(b, err);
    }
    o->kind = b->is_group ? FBY__H5_GROUP : b->has_type ? FBY__H5_NAMED_TYPE : FBY__H5_OTHER;
    return FBY_OK;
}

fby_status fby__h5_object_parse(fby__h5_file *f, uint64_t address, fby__h5_object **out, fby_error *err)
{
    fby_error local; /* its message may become the reason to decline */
    fby__error_clear(&local);
    builder b = {.f = f, .dense_heap = FBY__H5_UNDEFINED, .dense_index = FBY__H5_UNDEFINED};
    fby_status st = fby__h5_alloc(f, 1, sizeof *b.o, (void **)&b.o, &local);
    if (st == FBY_OK) {
        b.o->address = address;
        b.o->data_address = b.o->btree_address = b.o->heap_address = FBY__H5_UNDEFINED;
        b.o->link_heap_address = b.o->link_index_address = FBY__H5_UNDEFINED;
        st = build(&b, &local);
    }
    fby__free(b.attributes);
    fby__free(b.links);
    if (st == FBY_OK)
        *out = b.o;
    else if (err)
        *err = local;
    return st;
}
