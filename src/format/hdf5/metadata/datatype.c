/*
 * Datatype messages (spec IV.A.2.d): versions 1 to 5, all eleven classes, as trees in the arena, and their names in words.
 * datatype_convert.c makes numbers of elements. Version 5 (libhdf5 2.0) adds a twelfth class, complex numbers, which is not read
 * here, and marks enums, arrays and compounds as well, without a change in their layout.
 *
 * A type holds its parts inside its own bytes: compound members and array elements that reach outside are refused here, so
 * that who reads element bytes by a type needs to check the element's size only.
 */
#include "base/checked.h"
#include "format/hdf5/metadata/object_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct parser {
    fby__h5_file *f;
    fby__h5_cursor *c;
    unsigned depth;
} parser;

static fby_status parse(parser *p, const fby__h5_type **out, fby_error *err);

/* A name up to its NUL; before version 3 padded with NULs to a multiple of eight. */
static fby_status parse_name(parser *p, unsigned version, const char **out, fby_error *err)
{
    fby__h5_cursor *c = p->c;
    const uint8_t *nul = c->failed || !fby__h5_left(c) ? NULL : memchr(c->at, 0, fby__h5_left(c));
    if (!nul) {
        c->failed = true;
        return fby__h5_cursor_check(c, err);
    }
    const size_t n = (size_t)(nul - c->at);
    FBY__TRY(fby__h5_name(p->f, c, c->at, n, out, err));
    (void)fby__h5_next(c, version < 3 ? (size_t)fby__align_up_u64(n + 1, 8) : n + 1);
    return fby__h5_cursor_check(c, err);
}

static fby_status check_bits(parser *p, const fby__h5_type *t, fby_error *err)
{
    FBY__TRY(fby__h5_cursor_check(p->c, err));
    if (!t->bit_precision || (uint64_t)t->bit_offset + t->bit_precision > (uint64_t)t->bytes * 8)
        return fby__h5_damaged(p->c, err, "%u bits at %u in an element of %u bytes", t->bit_precision, t->bit_offset, t->bytes);
    return FBY_OK;
}

static fby_status parse_float(parser *p, uint32_t bits, fby__h5_type *t, fby_error *err)
{
    fby__h5_cursor *c = p->c;
    t->big_endian = bits & 1;
    t->vax = (bits & 0x41) == 0x41;
    if ((bits & 0x41) == 0x40)
        return fby__h5_damaged(c, err, "unknown byte order of a float");
    t->is_signed = true;
    t->normalisation = bits >> 4 & 3;
    t->sign_at = (uint8_t)(bits >> 8);
    t->bit_offset = fby__h5_u16(c);
    t->bit_precision = fby__h5_u16(c);
    t->exponent_at = fby__h5_u8(c);
    t->exponent_bits = fby__h5_u8(c);
    t->mantissa_at = fby__h5_u8(c);
    t->mantissa_bits = fby__h5_u8(c);
    t->exponent_bias = fby__h5_u32(c);
    FBY__TRY(check_bits(p, t, err));
    if (!t->exponent_bits || !t->mantissa_bits || t->sign_at >= (uint64_t)t->bytes * 8 ||
        (unsigned)t->exponent_at + t->exponent_bits > (uint64_t)t->bytes * 8 ||
        (unsigned)t->mantissa_at + t->mantissa_bits > (uint64_t)t->bytes * 8)
        return fby__h5_damaged(c, err, "a float's fields lie outside of its %u bytes", t->bytes);
    return FBY_OK;
}

static fby_status parse_opaque(parser *p, uint32_t bits, fby__h5_type *t, fby_error *err)
{
    const size_t n = bits & 0xff; /* padded with NULs, not always terminated */
    const uint8_t *tag = fby__h5_next(p->c, n);
    FBY__TRY(fby__h5_cursor_check(p->c, err));
    const size_t used = n ? strnlen((const char *)tag, n) : 0;
    if (!used) {
        t->tag = "";
        return FBY_OK;
    }
    return fby__h5_name(p->f, p->c, tag, used, &t->tag, err);
}

static fby_status new_array(parser *p, const fby__h5_type *base, const uint32_t *dims, unsigned n_dims, fby__h5_type *t, fby_error *err)
{
    uint64_t bytes = base->bytes;
    t->class = FBY__H5_ARRAY;
    t->base = base;
    t->n_dims = n_dims;
    for (unsigned i = 0; i < n_dims; i++) {
        t->dims[i] = dims[i];
        if (!fby__mul_u64_checked(bytes, dims[i], &bytes))
            bytes = 0;
    }
    if (!bytes || bytes > UINT32_MAX || (t->bytes && t->bytes != bytes))
        return fby__h5_damaged(p->c, err, "an array's dimensions and its size of %u bytes differ", t->bytes);
    t->bytes = (uint32_t)bytes;
    return FBY_OK;
}

static fby_status parse_array(parser *p, unsigned version, fby__h5_type *t, fby_error *err)
{
    fby__h5_cursor *c = p->c;
    if (version < 2)
        return fby__h5_damaged(c, err, "an array in a type of version 1");
    const unsigned n = fby__h5_u8(c);
    if (!c->failed && (!n || n > FBY__H5_MAX_RANK))
        return fby__h5_damaged(c, err, "an array of %u dimensions", n);
    uint32_t dims[FBY__H5_MAX_RANK] = {0};
    if (version == 2)
        (void)fby__h5_next(c, 3);
    for (unsigned i = 0; i < n && !c->failed; i++)
        dims[i] = fby__h5_u32(c);
    if (version == 2)
        (void)fby__h5_next(c, 4u * n); /* permutation: never used */
    FBY__TRY(fby__h5_cursor_check(c, err));
    const fby__h5_type *base;
    FBY__TRY(parse(p, &base, err));
    return new_array(p, base, dims, n, t, err);
}

/* Version 1 members may be small arrays by themselves. */
static fby_status parse_member_v1(parser *p, const fby__h5_type **out, fby_error *err)
{
    fby__h5_cursor *c = p->c;
    const unsigned n = fby__h5_u8(c);
    (void)fby__h5_next(c, 3 + 4 + 4); /* reserved, permutation (never used), reserved */
    uint32_t dims[4];
    for (unsigned i = 0; i < 4; i++)
        dims[i] = fby__h5_u32(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (n > 4)
        return fby__h5_damaged(c, err, "a member of %u dimensions", n);
    FBY__TRY(parse(p, out, err));
    if (!n)
        return FBY_OK;
    fby__h5_type *array;
    FBY__TRY(fby__h5_alloc(p->f, 1, sizeof *array, (void **)&array, err));
    FBY__TRY(new_array(p, *out, dims, n, array, err));
    *out = array;
    return FBY_OK;
}

static fby_status parse_compound(parser *p, unsigned version, uint32_t bits, fby__h5_type *t, fby_error *err)
{
    fby__h5_cursor *c = p->c;
    t->n_members = bits & 0xffff;
    if (!t->n_members)
        return fby__h5_damaged(c, err, "a compound of no members");
    unsigned offset_bytes = 4; /* version 3: as few as hold the compound's size */
    if (version >= 3)
        for (offset_bytes = 1; offset_bytes < 4 && t->bytes >> (8 * offset_bytes); offset_bytes++)
            ;
    if (fby__h5_left(c) / 10 < t->n_members) { /* name, NUL, an offset, a type's 8 bytes */
        c->failed = true;
        return fby__h5_cursor_check(c, err);
    }
    fby__h5_member *members;
    FBY__TRY(fby__h5_alloc(p->f, t->n_members, sizeof *members, (void **)&members, err));
    t->members = members;
    for (uint32_t i = 0; i < t->n_members; i++) {
        fby__h5_member *m = &members[i];
        FBY__TRY(parse_name(p, version, &m->name, err));
        m->offset = (uint32_t)fby__h5_uint(c, offset_bytes);
        FBY__TRY(version == 1 ? parse_member_v1(p, &m->type, err) : parse(p, &m->type, err));
        if ((uint64_t)m->offset + m->type->bytes > t->bytes)
            return fby__h5_damaged(c, err, "member %s reaches beyond the compound's %u bytes", m->name, t->bytes);
    }
    return FBY_OK;
}

static fby_status parse_enum(parser *p, unsigned version, uint32_t bits, fby__h5_type *t, fby_error *err)
{
    fby__h5_cursor *c = p->c;
    t->n_members = bits & 0xffff;
    FBY__TRY(parse(p, &t->base, err));
    if (t->base->bytes != t->bytes)
        return fby__h5_damaged(c, err, "an enum of %u bytes over a type of %u", t->bytes, t->base->bytes);
    if (t->base->class != FBY__H5_INTEGER)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "it has an enum over something else than integers");
    if (fby__h5_left(c) / 3 < t->n_members) { /* name, NUL, a value */
        c->failed = true;
        return fby__h5_cursor_check(c, err);
    }
    fby__h5_member *members;
    FBY__TRY(fby__h5_alloc(p->f, t->n_members, sizeof *members, (void **)&members, err));
    t->members = members;
    for (uint32_t i = 0; i < t->n_members; i++)
        FBY__TRY(parse_name(p, version, &members[i].name, err));
    const size_t bytes = t->base->bytes, n = t->n_members * bytes;
    const uint8_t *stored = fby__h5_next(c, n);
    FBY__TRY(fby__h5_cursor_check(c, err));
    uint8_t *values;
    FBY__TRY(fby__h5_alloc(p->f, n, 1, (void **)&values, err));
    memcpy(values, stored, n);
    for (uint32_t i = 0; i < t->n_members; i++)
        members[i].value = values + i * bytes;
    return FBY_OK;
}

static fby_status parse_vlen(parser *p, uint32_t bits, fby__h5_type *t, fby_error *err)
{
    if ((bits & 15) > 1)
        return fby__h5_damaged(p->c, err, "unknown kind %u of variable length", bits & 15);
    t->vlen_string = (bits & 15) == 1;
    t->padding = bits >> 4 & 15;
    t->charset = bits >> 8 & 15;
    FBY__TRY(parse(p, &t->base, err));
    if (t->bytes != 4u + p->f->offset_bytes + 4u) /* length, address of a heap collection, index in it */
        return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(p->c), "its variable-length elements are of %u bytes", t->bytes);
    return FBY_OK;
}

static fby_status parse(parser *p, const fby__h5_type **out, fby_error *err)
{
    fby__h5_cursor *c = p->c;
    const unsigned head = fby__h5_u8(c), version = head >> 4, class = head & 15;
    const uint32_t bits = (uint32_t)fby__h5_uint(c, 3), bytes = fby__h5_u32(c);
    FBY__TRY(fby__h5_cursor_check(c, err));
    if (!version)
        return fby__h5_damaged(c, err, "a datatype of version 0");
    if (version > 5 || class >= FBY__H5_CLASS_COUNT)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "it has a datatype of class %u, version %u", class, version);
    if (!bytes)
        return fby__h5_damaged(c, err, "a datatype of no bytes");
    if (++p->depth > FBY__H5_MAX_DEPTH)
        return fby__h5_damaged(c, err, "datatypes nest deeper than %d", FBY__H5_MAX_DEPTH);
    fby__h5_type *t;
    FBY__TRY(fby__h5_alloc(p->f, 1, sizeof *t, (void **)&t, err));
    t->class = (fby__h5_class) class;
    t->bytes = bytes;
    fby_status st = FBY_OK;
    switch (t->class) {
    case FBY__H5_INTEGER:
    case FBY__H5_BITFIELD:
        t->big_endian = bits & 1;
        t->is_signed = t->class == FBY__H5_INTEGER && (bits & 8);
        t->bit_offset = fby__h5_u16(c);
        t->bit_precision = fby__h5_u16(c);
        st = check_bits(p, t, err);
        break;
    case FBY__H5_FLOAT: st = parse_float(p, bits, t, err); break;
    case FBY__H5_TIME:
        t->big_endian = bits & 1;
        t->bit_precision = fby__h5_u16(c);
        st = check_bits(p, t, err);
        break;
    case FBY__H5_STRING:
        t->padding = bits & 15;
        t->charset = bits >> 4 & 15;
        break;
    case FBY__H5_OPAQUE: st = parse_opaque(p, bits, t, err); break;
    case FBY__H5_COMPOUND: st = parse_compound(p, version, bits, t, err); break;
    case FBY__H5_REFERENCE: t->reference = bits & 15; break;
    case FBY__H5_ENUM: st = parse_enum(p, version, bits, t, err); break;
    case FBY__H5_VLEN: st = parse_vlen(p, bits, t, err); break;
    case FBY__H5_ARRAY: st = parse_array(p, version, t, err); break;
    case FBY__H5_CLASS_COUNT: break;
    }
    p->depth--;
    if (st != FBY_OK)
        return st;
    if ((t->class == FBY__H5_STRING || t->class == FBY__H5_VLEN) && (t->padding > 2 || t->charset > 1))
        return fby__h5_damaged(c, err, "unknown padding %u or character set %u of a string", t->padding, t->charset);
    *out = t;
    return FBY_OK;
}

fby_status fby__h5_type_parse(fby__h5_file *f, fby__h5_cursor *c, const fby__h5_type **out, fby_error *err)
{
    parser p = {f, c, 0};
    return parse(&p, out, err);
}

/* ---- in words ---- */

/* As snprintf on the whole: counts what does not fit. */
typedef struct text {
    char *out;
    size_t n, used;
} text;

static void put(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(text *t, const char *fmt, ...)
{
    const size_t room = t->used < t->n ? t->n - t->used : 0;
    va_list ap;
    va_start(ap, fmt);
    const int k = vsnprintf(room ? t->out + t->used : NULL, room, fmt, ap);
    va_end(ap);
    t->used += k > 0 ? (size_t)k : 0;
}

static void put_type(text *out, const fby__h5_type *t);

static void put_number(text *out, const fby__h5_type *t)
{
    const char *name = t->class == FBY__H5_FLOAT ? NULL : t->class == FBY__H5_BITFIELD ? "bitfield" : t->is_signed ? "int" : "uint";
    const fby_dtype dtype = fby__h5_type_dtype(t);
    if (name)
        put(out, "%s%" PRIu64, name, (uint64_t)t->bytes * 8);
    else if (dtype != FBY_DTYPE_NONE)
        put(out, "%s", fby_dtype_name(dtype));
    else
        put(out, "float%" PRIu64 " of %u exponent and %u mantissa bits", (uint64_t)t->bytes * 8, t->exponent_bits, t->mantissa_bits);
    if (name && t->bit_precision != t->bytes * 8)
        put(out, " (%u bits at %u%s)", t->bit_precision, t->bit_offset, t->big_endian ? ", big-endian" : "");
    else if ((t->big_endian || t->vax) && t->bytes > 1)
        put(out, t->vax ? " (VAX order)" : " (big-endian)");
}

static void put_enum(text *out, const fby__h5_type *t)
{
    put(out, "enum {");
    for (uint32_t i = 0; i < t->n_members; i++)
        put(out, "%s%s", i ? ", " : "", t->members[i].name);
    put(out, "} of ");
    put_type(out, t->base);
}

static void put_type(text *out, const fby__h5_type *t)
{
    static const char *const REFERENCES[] = {"object reference", "region reference", "object reference (new)", "region reference (new)",
                                             "attribute reference"};
    static const char *const PADDINGS[] = {"NUL-terminated", "NUL-padded", "space-padded"};
    const char *charset = t->charset ? "UTF-8" : "ASCII";
    switch (t->class) {
    case FBY__H5_INTEGER:
    case FBY__H5_FLOAT:
    case FBY__H5_BITFIELD: put_number(out, t); break;
    case FBY__H5_TIME: put(out, "time of %u bits", t->bit_precision); break;
    case FBY__H5_STRING: put(out, "string of %u bytes (%s, %s)", t->bytes, PADDINGS[t->padding], charset); break;
    case FBY__H5_OPAQUE:
        put(out, "opaque of %u bytes", t->bytes);
        if (*t->tag)
            put(out, " (%s)", t->tag);
        break;
    case FBY__H5_COMPOUND:
        put(out, "compound {");
        for (uint32_t i = 0; i < t->n_members; i++) {
            put(out, "%s%s: ", i ? ", " : "", t->members[i].name);
            put_type(out, t->members[i].type);
        }
        put(out, "}");
        break;
    case FBY__H5_REFERENCE:
        put(out, "%s", t->reference < sizeof REFERENCES / sizeof *REFERENCES ? REFERENCES[t->reference] : "reference");
        break;
    case FBY__H5_ENUM:
        if (fby__h5_type_dtype(t) == FBY_BOOL)
            put(out, "bool");
        else
            put_enum(out, t);
        break;
    case FBY__H5_VLEN:
        if (t->vlen_string) {
            put(out, "vlen string (%s)", charset);
        } else {
            put(out, "vlen of ");
            put_type(out, t->base);
        }
        break;
    case FBY__H5_ARRAY:
        put(out, "array [");
        for (uint32_t i = 0; i < t->n_dims; i++)
            put(out, "%s%" PRIu64, i ? ", " : "", t->dims[i]);
        put(out, "] of ");
        put_type(out, t->base);
        break;
    case FBY__H5_CLASS_COUNT: break;
    }
}

size_t fby__h5_type_text(const fby__h5_type *type, char *out, size_t n)
{
    text t = {out, n, 0};
    if (n)
        *out = 0;
    put_type(&t, type);
    return t.used;
}
