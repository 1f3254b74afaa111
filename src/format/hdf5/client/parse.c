/*
 * What the helper program says of objects → fby__h5_object. The bytes come from a process that has read a hostile file: every
 * count is held against the bytes that are left before memory is asked for, and types must add up as our own parser's do, for
 * the rest of the reader relies on it.
 */
#include "base/checked.h"
#include "format/hdf5/client/helper_internal.h"

#include <string.h>

typedef struct parser {
    const uint8_t *at, *end;
    const char *why; /* arena: `declined` of data sets */
    fby__arena *arena;
    size_t arena_most; /* what it may grow to: a type takes 5 bytes there and 500 here */
    fby_error *err;
} parser;

static fby_status nonsense(parser *p, const char *what)
{
    (void)fby__fail(p->err, FBY_E_FORMAT, "the helper program's description makes no sense: %s", what);
    return FBY_E_FORMAT; /* said here, so that compilers see that outputs are set when all is well */
}

static fby_status no_memory(parser *p)
{
    (void)fby__fail_nomem(p->err, "the description of an HDF5 file");
    return FBY_E_NOMEM;
}

static size_t left(const parser *p) { return (size_t)(p->end - p->at); }

static fby_status alloc(parser *p, size_t n, size_t size, void *out)
{
    size_t bytes;
    if (!fby__mul_checked(n, size, &bytes) || bytes > p->arena_most || p->arena->total_bytes > p->arena_most - bytes)
        return nonsense(p, "it is too large");
    void *a = fby__arena_alloc(p->arena, bytes);
    if (!a)
        return no_memory(p);
    memset(a, 0, bytes);
    *(void **)out = a;
    return FBY_OK;
}

static fby_status copy(parser *p, size_t n, uint8_t **out)
{
    if (left(p) < n)
        return nonsense(p, "it is cut short");
    FBY__TRY(alloc(p, n + 1, 1, out)); /* with a NUL behind it */
    memcpy(*out, p->at, n);
    p->at += n;
    return FBY_OK;
}

static fby_status get(parser *p, void *out, size_t n)
{
    if (left(p) < n)
        return nonsense(p, "it is cut short");
    memcpy(out, p->at, n);
    p->at += n;
    return FBY_OK;
}

static fby_status get_u8(parser *p, uint8_t *out) { return get(p, out, 1); }
static fby_status get_u16(parser *p, uint16_t *out) { return get(p, out, 2); }
static fby_status get_u32(parser *p, uint32_t *out) { return get(p, out, 4); }
static fby_status get_u64(parser *p, uint64_t *out) { return get(p, out, 8); }

static fby_status get_bool(parser *p, bool *out)
{
    uint8_t v;
    FBY__TRY(get_u8(p, &v));
    *out = v == 1;
    return v > 1 ? nonsense(p, "a flag") : FBY_OK;
}

static fby_status get_blob(parser *p, fby__bytes *out)
{
    uint32_t n;
    uint8_t *bytes;
    FBY__TRY(get_u32(p, &n));
    FBY__TRY(copy(p, n, &bytes));
    *out = (fby__bytes){bytes, n};
    return FBY_OK;
}

static fby_status get_text(parser *p, const char **out)
{
    fby__bytes b;
    FBY__TRY(get_blob(p, &b));
    if (b.n >= FBY__H5P_MAX_OBJECT_PATH || memchr(b.data, 0, b.n))
        return nonsense(p, "a name");
    *out = (const char *)b.data;
    return FBY_OK;
}

/* An array of n elements, of which each takes at least `least` bytes of the description. */
static fby_status new_array(parser *p, uint64_t n, size_t least, size_t size, void *out)
{
    if (n > left(p) / least)
        return nonsense(p, "a count");
    return alloc(p, (size_t)n, size, out);
}

/* ---- types ---- */

static fby_status get_type(parser *p, int depth, const fby__h5_type **out);

static void set_float(fby__h5_type *t, uint8_t form)
{
    static const struct {
        uint8_t bytes, exponent, mantissa;
    } FORMS[FBY__H5P_FLOAT_FORMS] = {{0}, {2, 5, 10}, {2, 8, 7}, {4, 8, 23}, {8, 11, 52}};
    t->bit_precision = (uint16_t)(8 * FORMS[form].bytes);
    t->exponent_bits = FORMS[form].exponent;
    t->mantissa_bits = t->exponent_at = FORMS[form].mantissa;
    t->mantissa_at = 0;
    t->sign_at = (uint8_t)(t->bit_precision - 1);
    t->normalisation = 2; /* the leading 1 is not stored (spec IV.A.2.d, floating-point bits 4 and 5) */
    t->exponent_bias = (1u << (t->exponent_bits - 1)) - 1;
}

static fby_status get_float(parser *p, fby__h5_type *t)
{
    uint8_t form;
    FBY__TRY(get_u8(p, &form));
    if (form == 0 || form >= FBY__H5P_FLOAT_FORMS)
        return nonsense(p, "a float type");
    set_float(t, form);
    return t->bytes == t->bit_precision / 8 ? FBY_OK : nonsense(p, "a float type");
}

static fby_status get_integer(parser *p, fby__h5_type *t)
{
    FBY__TRY(get_bool(p, &t->is_signed));
    if (t->bytes > FBY__H5P_MAX_INTEGER_BYTES)
        return nonsense(p, "an integer type");
    t->bit_precision = (uint16_t)(8 * t->bytes);
    return FBY_OK;
}

static fby_status get_compound(parser *p, int depth, fby__h5_type *t)
{
    uint64_t packed = 0;
    fby__h5_member *members;
    FBY__TRY(get_u32(p, &t->n_members));
    FBY__TRY(new_array(p, t->n_members, 13, sizeof *members, &members));
    for (uint32_t i = 0; i < t->n_members; i++) {
        FBY__TRY(get_text(p, &members[i].name));
        FBY__TRY(get_u32(p, &members[i].offset));
        FBY__TRY(get_type(p, depth + 1, &members[i].type));
        if (members[i].offset != packed)
            return nonsense(p, "a compound type");
        packed += members[i].type->bytes;
    }
    t->members = members;
    return packed == t->bytes ? FBY_OK : nonsense(p, "a compound type");
}

static fby_status get_enum(parser *p, int depth, fby__h5_type *t)
{
    fby__h5_member *members;
    FBY__TRY(get_type(p, depth + 1, &t->base));
    if (t->base->class != FBY__H5_INTEGER || t->base->bytes != t->bytes)
        return nonsense(p, "an enum type");
    FBY__TRY(get_u32(p, &t->n_members));
    FBY__TRY(new_array(p, t->n_members, 4 + (size_t)t->bytes, sizeof *members, &members));
    for (uint32_t i = 0; i < t->n_members; i++) {
        FBY__TRY(get_text(p, &members[i].name));
        uint8_t *value;
        FBY__TRY(copy(p, t->bytes, &value));
        members[i].value = value;
    }
    t->members = members;
    return FBY_OK;
}

static fby_status get_array(parser *p, int depth, fby__h5_type *t)
{
    uint8_t n;
    uint64_t bytes = 1;
    FBY__TRY(get_u8(p, &n));
    if (n == 0 || n > FBY__H5_MAX_RANK)
        return nonsense(p, "an array type");
    t->n_dims = n;
    for (uint32_t i = 0; i < n; i++) {
        FBY__TRY(get_u64(p, &t->dims[i]));
        if (!fby__mul_u64_checked(bytes, t->dims[i], &bytes))
            return nonsense(p, "an array type");
    }
    FBY__TRY(get_type(p, depth + 1, &t->base));
    return fby__mul_u64_checked(bytes, t->base->bytes, &bytes) && bytes == t->bytes ? FBY_OK : nonsense(p, "an array type");
}

static fby_status get_type(parser *p, int depth, const fby__h5_type **out)
{
    uint8_t class;
    fby__h5_type *t;
    if (depth > FBY__H5_MAX_DEPTH)
        return nonsense(p, "types are nested too deep");
    FBY__TRY(alloc(p, 1, sizeof *t, &t));
    FBY__TRY(get_u8(p, &class));
    FBY__TRY(get_u32(p, &t->bytes));
    if (class >= FBY__H5P_CLASS_COUNT || t->bytes == 0)
        return nonsense(p, "a type");
    t->class = (fby__h5_class) class;
    *out = t;
    switch (t->class) {
    case FBY__H5_INTEGER:
    case FBY__H5_BITFIELD: return get_integer(p, t);
    case FBY__H5_FLOAT: return get_float(p, t);
    case FBY__H5_STRING:
        FBY__TRY(get_u8(p, &t->padding));
        FBY__TRY(get_u8(p, &t->charset));
        return t->padding <= 2 && t->charset <= 1 ? FBY_OK : nonsense(p, "a string type");
    case FBY__H5_OPAQUE: return get_text(p, &t->tag);
    case FBY__H5_COMPOUND: return get_compound(p, depth, t);
    case FBY__H5_REFERENCE:
        FBY__TRY(get_u8(p, &t->reference));
        return t->bytes == FBY__H5P_VLEN_BYTES ? FBY_OK : nonsense(p, "a reference type");
    case FBY__H5_ENUM: return get_enum(p, depth, t);
    case FBY__H5_VLEN:
        FBY__TRY(get_bool(p, &t->vlen_string));
        FBY__TRY(get_u8(p, &t->charset));
        return t->charset <= 1 && t->bytes == FBY__H5P_VLEN_BYTES ? get_type(p, depth + 1, &t->base)
                                                                  : nonsense(p, "a type of variable length");
    case FBY__H5_ARRAY: return get_array(p, depth, t);
    default: return FBY_OK; /* FBY__H5_TIME */
    }
}

/* ---- spaces, attributes, objects ---- */

static fby_status get_space(parser *p, fby__h5_space *s)
{
    uint8_t rank;
    FBY__TRY(get_bool(p, &s->null));
    FBY__TRY(get_u8(p, &rank));
    if (rank > FBY__H5_MAX_RANK || (s->null && rank))
        return nonsense(p, "a data space");
    s->rank = rank;
    s->n_elements = !s->null;
    for (uint32_t i = 0; i < rank; i++) {
        FBY__TRY(get_u64(p, &s->dims[i]));
        if (!fby__mul_u64_checked(s->n_elements, s->dims[i], &s->n_elements))
            return nonsense(p, "a data space");
    }
    for (uint32_t i = 0; i < rank; i++) {
        FBY__TRY(get_u64(p, &s->max_dims[i]));
        if (s->max_dims[i] < s->dims[i])
            return nonsense(p, "a data space");
    }
    return FBY_OK;
}

static fby_status get_attributes(parser *p, fby__h5_object *o)
{
    fby__h5_attribute *list;
    FBY__TRY(get_u32(p, &o->n_attributes));
    FBY__TRY(new_array(p, o->n_attributes, 15, sizeof *list, &list));
    for (uint32_t i = 0; i < o->n_attributes; i++) {
        fby__h5_attribute *a = &list[i];
        uint64_t bytes;
        FBY__TRY(get_text(p, &a->name));
        FBY__TRY(get_type(p, 0, &a->type));
        FBY__TRY(get_space(p, &a->space));
        FBY__TRY(get_blob(p, &a->data));
        if (a->data.n && (!fby__mul_u64_checked(a->space.n_elements, a->type->bytes, &bytes) || bytes != a->data.n))
            return nonsense(p, "an attribute");
    }
    o->attributes = list;
    return FBY_OK;
}

static fby_status get_filters(parser *p, fby__h5_object *o)
{
    fby__h5_filter *filters;
    FBY__TRY(get_u32(p, &o->n_filters));
    if (o->n_filters > FBY__H5_MAX_FILTERS)
        return nonsense(p, "the number of filters");
    FBY__TRY(new_array(p, o->n_filters, 11, sizeof *filters, &filters));
    for (uint32_t i = 0; i < o->n_filters; i++) {
        fby__h5_filter *f = &filters[i];
        uint32_t *values;
        FBY__TRY(get_u16(p, &f->id));
        FBY__TRY(get_bool(p, &f->optional));
        FBY__TRY(get_text(p, &f->name));
        FBY__TRY(get_u32(p, &f->n_values));
        FBY__TRY(new_array(p, f->n_values, 4, sizeof *values, &values));
        FBY__TRY(get(p, values, 4 * (size_t)f->n_values));
        f->values = values;
    }
    o->filters = filters;
    return FBY_OK;
}

static fby_status get_sources(parser *p, fby__h5_object *o)
{
    fby__h5_source *sources;
    FBY__TRY(get_u32(p, &o->n_sources));
    if (o->n_sources > FBY__H5P_MAX_SOURCES)
        return nonsense(p, "the number of source files");
    FBY__TRY(new_array(p, o->n_sources, 9, sizeof *sources, &sources));
    for (uint32_t i = 0; i < o->n_sources; i++) {
        uint8_t state;
        FBY__TRY(get_text(p, &sources[i].path));
        FBY__TRY(get_u8(p, &state));
        FBY__TRY(get_text(p, &sources[i].why));
        if (state >= FBY__H5P_SOURCE_STATES || sources[i].path[0] != '/')
            return nonsense(p, "a source file");
        sources[i].missing = state == FBY__H5P_SOURCE_MISSING;
        sources[i].later = state == FBY__H5P_SOURCE_LATER;
    }
    o->sources = sources;
    return FBY_OK;
}

static fby_status get_dataset(parser *p, fby__h5_object *o)
{
    uint8_t layout;
    FBY__TRY(get_type(p, 0, &o->type));
    FBY__TRY(get_space(p, &o->space));
    FBY__TRY(get_u8(p, &layout));
    FBY__TRY(get_bool(p, &o->external));
    if (layout > FBY__H5P_VIRTUAL)
        return nonsense(p, "a layout");
    o->layout = layout == FBY__H5P_COMPACT   ? FBY__H5_COMPACT
                : layout == FBY__H5P_CHUNKED ? FBY__H5_CHUNKED
                : layout == FBY__H5P_VIRTUAL ? FBY__H5_VIRTUAL
                                             : FBY__H5_CONTIGUOUS;
    for (uint32_t i = 0; layout == FBY__H5P_CHUNKED && i < o->space.rank; i++) {
        FBY__TRY(get_u32(p, &o->chunk[i]));
        if (o->chunk[i] == 0)
            return nonsense(p, "the shape of chunks");
    }
    o->chunk_element_bytes = layout == FBY__H5P_CHUNKED ? o->type->bytes : 0;
    FBY__TRY(get_filters(p, o));
    FBY__TRY(get_blob(p, &o->fill));
    if (o->fill.n && o->fill.n != o->type->bytes)
        return nonsense(p, "a fill value");
    FBY__TRY(get_u64(p, &o->promise));
    FBY__TRY(get_sources(p, o));
    o->declined = p->why;
    return FBY_OK;
}

static fby_status get_object(parser *p, fby__h5_object *o)
{
    uint8_t kind;
    *o = (fby__h5_object){.data_address = FBY__H5_UNDEFINED,
                          .btree_address = FBY__H5_UNDEFINED,
                          .heap_address = FBY__H5_UNDEFINED,
                          .link_heap_address = FBY__H5_UNDEFINED,
                          .link_index_address = FBY__H5_UNDEFINED};
    FBY__TRY(get_u8(p, &kind));
    FBY__TRY(get_u64(p, &o->address));
    switch (kind) {
    case FBY__H5P_KIND_GROUP: o->kind = FBY__H5_GROUP; break;
    case FBY__H5P_KIND_DATASET: o->kind = FBY__H5_DATASET; break;
    case FBY__H5P_KIND_NAMED_TYPE: o->kind = FBY__H5_NAMED_TYPE; break;
    case FBY__H5P_KIND_OTHER: o->kind = FBY__H5_OTHER; break;
    default: return nonsense(p, "an object");
    }
    if (o->kind == FBY__H5_DATASET)
        FBY__TRY(get_dataset(p, o));
    return get_attributes(p, o);
}

static fby_status parser_init(parser *p, fby__bytes bytes, const char *why, fby__arena *arena, fby_error *err)
{
    *p = (parser){.at = bytes.data, .end = bytes.data + bytes.n, .arena = arena, .err = err};
    p->arena_most = arena->total_bytes + FBY__H5_MAX_METADATA;
    p->why = fby__arena_copy(arena, why, strlen(why)); /* lives as long as what it is said of */
    return p->why ? FBY_OK : no_memory(p);
}

fby_status fby__h5_helper_parse_object(fby__bytes bytes, const char *why, fby__arena *arena, const fby__h5_object **out, fby_error *err)
{
    parser p;
    FBY__TRY(parser_init(&p, bytes, why, arena, err));
    fby__h5_object *o;
    FBY__TRY(alloc(&p, 1, sizeof *o, &o));
    FBY__TRY(get_object(&p, o));
    if (left(&p))
        return nonsense(&p, "bytes are left over");
    *out = o;
    return FBY_OK;
}

/* The tree's first entry is the root group; each object is first met by an entry that is no alias, in the order of objects. */
static fby_status get_entries(parser *p, const fby__h5_object *objects, uint32_t n_objects, fby__h5_tree *out)
{
    uint32_t n, met = 0;
    fby__h5_entry *entries;
    uint32_t *own, *first; /* by entry; by object: the entry that it is first met by */
    FBY__TRY(get_u32(p, &n));
    if (n > FBY__H5P_MAX_ENTRIES)
        return nonsense(p, "the number of entries");
    FBY__TRY(new_array(p, n, 13, sizeof *entries, &entries));
    FBY__TRY(alloc(p, n, sizeof *own, &own));
    FBY__TRY(alloc(p, n_objects, sizeof *first, &first));
    for (uint32_t i = 0; i < n; i++) {
        fby__h5_entry *e = &entries[i];
        FBY__TRY(get_text(p, &e->path));
        FBY__TRY(get_u32(p, &own[i])); /* an object until all are known */
        FBY__TRY(get_bool(p, &e->alias));
        FBY__TRY(get_text(p, &e->declined));
        if (own[i] == FBY__H5P_NO_OBJECT && *e->declined) {
            e->alias = false;
            continue;
        }
        if (own[i] >= n_objects || (!e->alias && own[i] != met))
            return nonsense(p, "an entry");
        if (!e->alias)
            first[met++] = i;
        e->object = &objects[own[i]];
        e->declined = e->object->declined;
    }
    for (uint32_t i = 0; i < n; i++) { /* soft links may come before what they lead to */
        if (own[i] != FBY__H5P_NO_OBJECT && own[i] >= met)
            return nonsense(p, "an entry");
        own[i] = own[i] == FBY__H5P_NO_OBJECT ? UINT32_MAX : first[own[i]];
    }
    if (n == 0 || !entries[0].object || entries[0].object->kind != FBY__H5_GROUP)
        return nonsense(p, "it has no root group");
    return fby__h5_tree_of_entries(p->arena, entries, own, n, out, p->err);
}

fby_status fby__h5_helper_parse_tree(fby__bytes bytes, const char *why, fby__arena *arena, fby__h5_tree *out, fby_error *err)
{
    parser p;
    uint32_t n;
    fby__h5_object *objects;
    fby__h5_tree tree;
    FBY__TRY(parser_init(&p, bytes, why, arena, err));
    FBY__TRY(get_u32(&p, &n));
    FBY__TRY(new_array(&p, n, 13, sizeof *objects, &objects));
    for (uint32_t i = 0; i < n; i++)
        FBY__TRY(get_object(&p, &objects[i]));
    FBY__TRY(get_entries(&p, objects, n, &tree));
    if (left(&p))
        return nonsense(&p, "bytes are left over");
    *out = tree;
    return FBY_OK;
}
