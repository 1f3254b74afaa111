/*
 * Bodies of header messages that stand for themselves (spec IV.A.2): dataspace, fill value, layout, filters, link.
 * What they say about each other (a chunk's rank and the dataspace's) is checked in object.c, when all are read.
 */
#include "base/checked.h"
#include "format/hdf5/metadata/object_internal.h"

/* ---- dataspace (IV.A.2.b) ---- */

fby_status fby__h5_space_parse(fby__h5_cursor *c, fby__h5_space *out, fby_error *err)
{
    fby__h5_space s = {0};
    const unsigned version = fby__h5_u8(c), rank = fby__h5_u8(c), flags = fby__h5_u8(c), kind = fby__h5_u8(c);
    if (version == 1)
        (void)fby__h5_next(c, 4);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (version != 1 && version != 2)
        return version ? fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its dataspace is of version %u", version)
                       : fby__h5_damaged(c, err, "version 0");
    if (rank > FBY__H5_MAX_RANK)
        return fby__h5_damaged(c, err, "%u dimensions", rank);
    if (version == 2 && (kind > 2 || (kind != 1) == (rank != 0)))
        return fby__h5_damaged(c, err, "kind %u with %u dimensions", kind, rank);
    s.null = version == 2 && kind == 2;
    s.rank = rank;
    for (unsigned i = 0; i < rank; i++)
        s.dims[i] = s.max_dims[i] = fby__h5_length(c);
    for (unsigned i = 0; i < rank && (flags & 1); i++)
        s.max_dims[i] = fby__h5_length(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    s.n_elements = s.null ? 0 : 1;
    bool empty = false;
    for (unsigned i = 0; i < rank; i++) {
        if (s.dims[i] == FBY__H5_UNDEFINED || s.dims[i] > s.max_dims[i])
            return fby__h5_damaged(c, err, "a dimension of %llu, at most %llu", (unsigned long long)s.dims[i],
                                   (unsigned long long)s.max_dims[i]);
        empty |= s.dims[i] == 0;
    }
    for (unsigned i = 0; i < rank; i++)
        if (!empty && !fby__mul_u64_checked(s.n_elements, s.dims[i], &s.n_elements))
            return fby__h5_damaged(c, err, "more elements than 64 bits count");
    if (empty)
        s.n_elements = 0;
    *out = s;
    return FBY_OK;
}

/* ---- fill value (IV.A.2.e, f) ---- */

fby_status fby__h5_fill_parse(fby__h5_cursor *c, bool old, fby__bytes *out, fby_error *err)
{
    bool stored = true;
    if (!old) {
        const unsigned version = fby__h5_u8(c);
        if (version == 1 || version == 2) {
            (void)fby__h5_next(c, 2); /* times of allocation and of writing */
            stored = fby__h5_u8(c) != 0 || version == 1;
        } else if (version == 3) {
            stored = fby__h5_u8(c) & 0x20;
        } else if (!c->failed) {
            return version ? fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its fill value is of version %u", version)
                           : fby__h5_damaged(c, err, "version 0");
        }
    }
    uint32_t n = stored ? fby__h5_u32(c) : 0;
    if (n > INT32_MAX) /* -1: undefined */
        n = 0;
    const uint8_t *p = fby__h5_next(c, n);
    FBY__TRY(fby__h5_cursor_check(c, err));
    *out = (fby__bytes){n ? p : NULL, n};
    return FBY_OK;
}

/* ---- layout (IV.A.2.i) ---- */

static fby_status bad_dimensions(fby__h5_cursor *c, unsigned n, fby_error *err)
{
    FBY__TRY(fby__h5_cursor_check(c, err));
    return fby__h5_damaged(c, err, "%u chunk dimensions", n);
}

/* n dimensions of `bytes` each, the last of them the element's size. */
static fby_status parse_chunk(fby__h5_cursor *c, unsigned n, unsigned bytes, fby__h5_object *o, fby__h5_layout_facts *facts, fby_error *err)
{
    if (n < 2 || n > FBY__H5_MAX_RANK + 1)
        return bad_dimensions(c, n, err);
    for (unsigned i = 0; i < n; i++) {
        const uint64_t v = fby__h5_uint(c, bytes);
        FBY__TRY(fby__h5_cursor_check(c, err));
        if (!v)
            return fby__h5_damaged(c, err, "a chunk dimension is 0");
        if (v > UINT32_MAX)
            return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its chunks have a side longer than 32 bits");
        if (i < n - 1)
            o->chunk[i] = (uint32_t)v;
        else
            o->chunk_element_bytes = (uint32_t)v;
    }
    facts->chunk_rank = n - 1;
    return FBY_OK;
}

static fby_status parse_layout_1(fby__h5_cursor *c, fby__h5_object *o, fby__h5_layout_facts *facts, fby_error *err)
{
    const unsigned n = fby__h5_u8(c), kind = fby__h5_u8(c);
    (void)fby__h5_next(c, 5);
    if (!c->failed && kind > FBY__H5_CHUNKED)
        return fby__h5_damaged(c, err, "unknown class %u", kind);
    o->layout = (fby__h5_layout)kind;
    if (o->layout != FBY__H5_COMPACT)
        o->data_address = fby__h5_offset(c);
    if (o->layout == FBY__H5_CHUNKED)
        return parse_chunk(c, n, 4, o, facts, err);
    if (n > FBY__H5_MAX_RANK + 1)
        return bad_dimensions(c, n, err);
    (void)fby__h5_next(c, 4u * n); /* the dataspace's dimensions again, cut to 32 bits */
    if (o->layout == FBY__H5_COMPACT) {
        const uint32_t bytes = fby__h5_u32(c);
        o->compact = (fby__bytes){fby__h5_next(c, bytes), bytes};
    }
    return fby__h5_cursor_check(c, err);
}

static fby_status parse_chunked_4(fby__h5_cursor *c, fby__h5_object *o, fby__h5_layout_facts *facts, fby_error *err)
{
    const unsigned flags = fby__h5_u8(c), n = fby__h5_u8(c), bytes = fby__h5_u8(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (flags & ~3u)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its layout has unknown flags 0x%x", flags);
    if (!bytes || bytes > 8)
        return fby__h5_damaged(c, err, "chunk dimensions of %u bytes", bytes);
    o->partial_edge_unfiltered = flags & 1;
    FBY__TRY(parse_chunk(c, n, bytes, o, facts, err));
    const unsigned index = fby__h5_u8(c);
    unsigned n_info = 0; /* parameters that may not be 0 */
    switch (index) {
    case FBY__H5_INDEX_SINGLE:
        if (flags & 2) {
            o->single_bytes = fby__h5_length(c);
            o->single_mask = fby__h5_u32(c);
        }
        break;
    case FBY__H5_INDEX_IMPLICIT: break;
    case FBY__H5_INDEX_FIXED: n_info = 1; break;
    case FBY__H5_INDEX_EXTENSIBLE: n_info = 5; break;
    case FBY__H5_INDEX_BTREE2:
        (void)fby__h5_u32(c); /* node size: the tree's header has it */
        n_info = 2;
        break;
    default: FBY__TRY(fby__h5_cursor_check(c, err)); return fby__h5_damaged(c, err, "unknown chunk index %u", index);
    }
    o->index = (fby__h5_index)index;
    for (unsigned i = 0; i < n_info; i++)
        o->index_info[i] = fby__h5_u8(c);
    o->data_address = fby__h5_offset(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    for (unsigned i = 0; i < n_info; i++)
        if (!o->index_info[i])
            return fby__h5_damaged(c, err, "a parameter of the chunk index is 0");
    return FBY_OK;
}

fby_status fby__h5_layout_parse(fby__h5_cursor *c, fby__h5_object *o, fby__h5_layout_facts *out, fby_error *err)
{
    const unsigned version = fby__h5_u8(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    out->version = (uint8_t)version;
    if (!version)
        return fby__h5_damaged(c, err, "version 0");
    if (version > 5) /* 5 (libhdf5 2.0) is 4 with wider sizes in the chunk indexes, which say how wide they are */
        return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its layout is of version %u", version);
    if (version < 3)
        return parse_layout_1(c, o, out, err);
    const unsigned kind = fby__h5_u8(c);
    if (c->failed || kind > (version == 3 ? FBY__H5_CHUNKED : FBY__H5_VIRTUAL)) {
        FBY__TRY(fby__h5_cursor_check(c, err));
        return fby__h5_damaged(c, err, "unknown class %u", kind);
    }
    o->layout = (fby__h5_layout)kind;
    switch (o->layout) {
    case FBY__H5_COMPACT: {
        const uint16_t bytes = fby__h5_u16(c);
        o->compact = (fby__bytes){fby__h5_next(c, bytes), bytes};
        break;
    }
    case FBY__H5_CONTIGUOUS:
        o->data_address = fby__h5_offset(c);
        o->data_bytes = fby__h5_length(c);
        break;
    case FBY__H5_CHUNKED: {
        if (version >= 4)
            return parse_chunked_4(c, o, out, err);
        const unsigned n = fby__h5_u8(c);
        o->data_address = fby__h5_offset(c);
        return parse_chunk(c, n, 4, o, out, err);
    }
    case FBY__H5_VIRTUAL: return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "it is a virtual data set");
    }
    return fby__h5_cursor_check(c, err);
}

/* ---- filters (IV.A.2.l) ---- */

static fby_status parse_filter(fby__h5_file *f, fby__h5_cursor *c, unsigned version, fby__h5_filter *out, fby_error *err)
{
    out->id = fby__h5_u16(c);
    const size_t name_bytes = version == 1 || out->id >= 256 ? fby__h5_u16(c) : 0; /* version 2 leaves out libhdf5's own names */
    out->optional = fby__h5_u16(c) & 1;
    out->n_values = fby__h5_u16(c);
    const uint8_t *name = fby__h5_next(c, name_bytes);
    FBY__TRY(fby__h5_cursor_check(c, err));
    const size_t used = name_bytes ? strnlen((const char *)name, name_bytes) : 0;
    out->name = "";
    if (used)
        FBY__TRY(fby__h5_name(f, c, name, used, &out->name, err));
    const uint8_t *p = fby__h5_next(c, (size_t)out->n_values * 4);
    if (version == 1 && out->n_values % 2)
        (void)fby__h5_next(c, 4);
    FBY__TRY(fby__h5_cursor_check(c, err));
    uint32_t *values;
    FBY__TRY(fby__h5_alloc(f, out->n_values, sizeof *values, (void **)&values, err));
    memcpy(values, p, (size_t)out->n_values * 4);
    out->values = values;
    return FBY_OK;
}

fby_status fby__h5_filters_parse(fby__h5_file *f, fby__h5_cursor *c, fby__h5_object *o, fby_error *err)
{
    const unsigned version = fby__h5_u8(c), n = fby__h5_u8(c);
    if (version == 1)
        (void)fby__h5_next(c, 6);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (version != 1 && version != 2)
        return version ? fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its filters are of version %u", version)
                       : fby__h5_damaged(c, err, "version 0");
    if (n > FBY__H5_MAX_FILTERS)
        return fby__h5_damaged(c, err, "%u filters", n);
    fby__h5_filter *filters;
    FBY__TRY(fby__h5_alloc(f, n, sizeof *filters, (void **)&filters, err));
    for (unsigned i = 0; i < n; i++)
        FBY__TRY(parse_filter(f, c, version, &filters[i], err));
    o->n_filters = n;
    o->filters = filters;
    return FBY_OK;
}

/* ---- link (IV.A.2.g) ---- */

/* One byte of version and flags, then the file's name and the object's path, each with its NUL. */
static fby_status parse_external(fby__h5_file *f, fby__h5_cursor *c, const uint8_t *p, size_t n, fby__h5_link *out, fby_error *err)
{
    const uint8_t *nul = n > 1 ? memchr(p + 1, 0, n - 1) : NULL;
    const uint8_t *path = nul ? nul + 1 : NULL, *end = p + n;
    const uint8_t *path_end = path && path < end ? memchr(path, 0, (size_t)(end - path)) : NULL;
    if (!path_end)
        return fby__h5_damaged(c, err, "an external link without a file and a path");
    const size_t file_n = (size_t)(nul - p) - 1, path_n = (size_t)(path_end - path);
    char *target;
    FBY__TRY(fby__h5_alloc(f, file_n + path_n + 2, 1, (void **)&target, err));
    memcpy(target, p + 1, file_n);
    target[file_n] = ':';
    memcpy(target + file_n + 1, path, path_n);
    out->target = target;
    return FBY_OK;
}

fby_status fby__h5_link_parse(fby__h5_file *f, fby__bytes body, uint64_t address, fby__h5_link *out, fby_error *err)
{
    fby__h5_cursor c = fby__h5_cursor_of(f, body, address, "link message");
    fby__h5_link l = {.address = FBY__H5_UNDEFINED};
    const unsigned version = fby__h5_u8(&c), flags = fby__h5_u8(&c);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    if (version != 1)
        return version ? fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(&c), "a link is of version %u", version)
                       : fby__h5_damaged(&c, err, "version 0");
    const unsigned kind = flags & 8 ? fby__h5_u8(&c) : 0;
    if (flags & 4)
        (void)fby__h5_u64(&c); /* order of creation */
    if (flags & 16)
        (void)fby__h5_u8(&c); /* character set: names are bytes to us */
    const uint64_t name_n = fby__h5_uint(&c, 1u << (flags & 3));
    if (name_n > fby__h5_left(&c))
        c.failed = true;
    const uint8_t *name = fby__h5_next(&c, (size_t)name_n);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    FBY__TRY(fby__h5_name(f, &c, name, (size_t)name_n, &l.name, err));
    if (kind == 0) {
        l.kind = FBY__H5_HARD;
        l.address = fby__h5_offset(&c);
        FBY__TRY(fby__h5_cursor_check(&c, err));
        if (l.address == FBY__H5_UNDEFINED)
            return fby__h5_damaged(&c, err, "link %s has no address", l.name);
        *out = l;
        return FBY_OK;
    }
    const size_t n = fby__h5_u16(&c);
    const uint8_t *p = fby__h5_next(&c, n);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    if (kind == 1) {
        l.kind = FBY__H5_SOFT;
        FBY__TRY(fby__h5_name(f, &c, p, n, &l.target, err));
    } else if (kind == 64) {
        l.kind = FBY__H5_EXTERNAL;
        FBY__TRY(parse_external(f, &c, p, n, &l, err));
    } else if (kind > 64) {
        l.kind = FBY__H5_USER;
    } else {
        return fby__h5_damaged(&c, err, "link %s is of the unknown kind %u", l.name, kind);
    }
    *out = l;
    return FBY_OK;
}
