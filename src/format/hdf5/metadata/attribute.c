/*
 * Attribute messages, versions 1 to 3 (spec IV.A.2.m), and messages that lie elsewhere (IV.A.2.a, "Shared Message").
 * An attribute's value is the bytes behind its name, type and dataspace, as stored.
 */
#include "base/checked.h"
#include "format/hdf5/metadata/object_internal.h"

/* ---- shared messages ---- */

typedef struct shared_message {
    bool heap; /* in the file's shared message heap */
    uint64_t address;
} shared_message;

static fby_status parse_shared(fby__h5_cursor *c, shared_message *out, fby_error *err)
{
    const unsigned version = fby__h5_u8(c), kind = fby__h5_u8(c);
    if (version == 1)
        (void)fby__h5_next(c, 6u + c->f->length_bytes); /* reserved, and the name of a symbol table entry */
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (version < 1 || version > 3)
        return fby__h5_damaged(c, err, "a shared message of version %u", version);
    if (version == 3 && kind != 1 && kind != 2)
        return fby__h5_damaged(c, err, "a shared message of the unknown kind %u", kind);
    out->heap = version == 3 && kind == 1;
    out->address = out->heap ? FBY__H5_UNDEFINED : fby__h5_offset(c);
    return fby__h5_cursor_check(c, err);
}

static fby_status in_the_heap(const fby__h5_cursor *c, fby_error *err)
{
    return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its %s is in the file's shared message heap", c->what);
}

fby_status fby__h5_shared_other(fby__h5_cursor *c, fby_error *err)
{
    shared_message at;
    FBY__TRY(parse_shared(c, &at, err));
    return at.heap ? in_the_heap(c, err) : fby__h5_damaged(c, err, "the message lies in another object");
}

typedef struct committed {
    fby__h5_file *f;
    const fby__h5_type *type;
} committed;

static fby_status committed_message(void *user, const fby__h5_message *m, fby_error *err)
{
    committed *t = user;
    if (m->type != FBY__H5_MSG_TYPE || t->type)
        return FBY_OK;
    fby__h5_cursor c = fby__h5_cursor_of(t->f, m->body, m->address, "committed datatype");
    if (m->shared) /* a chain of them could be a circle */
        return fby__h5_damaged(&c, err, "it is itself a shared message");
    return fby__h5_type_parse(t->f, &c, &t->type, err);
}

fby_status fby__h5_shared_type(fby__h5_file *f, fby__h5_cursor *c, const fby__h5_type **out, fby_error *err)
{
    shared_message at;
    FBY__TRY(parse_shared(c, &at, err));
    if (at.heap)
        return in_the_heap(c, err);
    *out = fby__h5_named_find(f, at.address);
    if (*out)
        return FBY_OK;
    committed t = {f, NULL};
    FBY__TRY(fby__h5_header_walk(f, at.address, committed_message, &t, err));
    if (!t.type)
        return fby__h5_damaged(c, err, "no committed datatype at %llu", (unsigned long long)at.address);
    *out = t.type;
    return fby__h5_named_keep(f, at.address, t.type, err);
}

/* ---- attributes ---- */

fby_status fby__h5_attribute_parse(fby__h5_file *f, fby__bytes body, uint64_t address, fby__h5_attribute *out, fby_error *err)
{
    fby__h5_cursor c = fby__h5_cursor_of(f, body, address, "attribute message");
    const unsigned version = fby__h5_u8(&c), flags = fby__h5_u8(&c);
    const size_t name_n = fby__h5_u16(&c), type_n = fby__h5_u16(&c), space_n = fby__h5_u16(&c);
    if (version >= 3)
        (void)fby__h5_u8(&c); /* character set of the name */
    FBY__TRY(fby__h5_cursor_check(&c, err));
    if (version < 1 || version > 3)
        return version ? fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(&c), "an attribute is of version %u", version)
                       : fby__h5_damaged(&c, err, "version 0");
    const bool pad = version == 1; /* each part to a multiple of eight, the sizes without */
    const uint8_t *name = fby__h5_next(&c, pad ? (size_t)fby__align_up_u64(name_n, 8) : name_n);
    const uint64_t type_at = fby__h5_tell(&c);
    const uint8_t *type = fby__h5_next(&c, pad ? (size_t)fby__align_up_u64(type_n, 8) : type_n);
    const uint64_t space_at = fby__h5_tell(&c);
    const uint8_t *space = fby__h5_next(&c, pad ? (size_t)fby__align_up_u64(space_n, 8) : space_n);
    FBY__TRY(fby__h5_cursor_check(&c, err));
    fby__h5_attribute a = {0};
    FBY__TRY(fby__h5_name(f, &c, name, name_n ? strnlen((const char *)name, name_n) : 0, &a.name, err));
    fby__h5_cursor part = fby__h5_cursor_of(f, (fby__bytes){type, type_n}, type_at, "attribute's datatype");
    FBY__TRY(version > 1 && (flags & 1) ? fby__h5_shared_type(f, &part, &a.type, err) : fby__h5_type_parse(f, &part, &a.type, err));
    part = fby__h5_cursor_of(f, (fby__bytes){space, space_n}, space_at, "attribute's dataspace");
    FBY__TRY(version > 1 && (flags & 2) ? fby__h5_shared_other(&part, err) : fby__h5_space_parse(&part, &a.space, err));
    uint64_t bytes;
    if (!fby__mul_u64_checked(a.space.n_elements, a.type->bytes, &bytes) || bytes > fby__h5_left(&c))
        return fby__h5_damaged(&c, err, "the value of %s is cut short", a.name);
    a.data = (fby__bytes){fby__h5_next(&c, (size_t)bytes), (size_t)bytes};
    *out = a;
    return FBY_OK;
}
