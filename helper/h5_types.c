/*
 * Types of a file as the client gets them: little-endian, whole bytes, compounds packed. memory_type() and put_type() go through
 * the same choices, so that the bytes of one are what the description of the other says.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

static int too_deep(work *w) { return fail(w, FBY__H5P_UNSUPPORTED, "types are nested more than %d deep", FBY__H5P_MAX_DEPTH); }

/* 1, 2, 4 or 8; larger integers keep their size. */
static size_t integer_bytes(size_t n) { return n <= 2 ? n : n <= 4 ? 4 : n <= 8 ? 8 : n; }

/* The smallest of our floats that holds every value; what is wider than float64 is rounded to it. */
static unsigned float_form(hid_t type)
{
    size_t sign, exponent_at, exponent, mantissa_at, mantissa;
    if (H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0)
        return FBY__H5P_FLOAT64;
    size_t bias = H5Tget_ebias(type);
    if (exponent <= 5 && mantissa <= 10 && bias == ((size_t)1 << exponent) / 2 - 1)
        return FBY__H5P_FLOAT16;
    if (exponent == 8 && mantissa <= 7 && bias == 127)
        return FBY__H5P_BFLOAT16;
    if (exponent <= 8 && mantissa <= 23 && bias <= 127)
        return FBY__H5P_FLOAT32;
    return FBY__H5P_FLOAT64;
}

static size_t float_bytes(unsigned form) { return form == FBY__H5P_FLOAT64 ? 8 : form == FBY__H5P_FLOAT32 ? 4 : 2; }

hid_t float_type(bool bfloat, size_t bytes)
{
    if (bytes == 8)
        return H5Tcopy(H5T_IEEE_F64LE);
    hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    if (bytes == 4 || t < 0)
        return t;
    /* Fields first: a size may not cut them. libhdf5 1.10 has no 16-bit floats of its own. */
    herr_t r = bfloat ? H5Tset_fields(t, 15, 7, 8, 0, 7) : H5Tset_fields(t, 15, 10, 5, 0, 10);
    if (r < 0 || H5Tset_precision(t, 16) < 0 || H5Tset_size(t, 2) < 0 || H5Tset_ebias(t, bfloat ? 127 : 15) < 0) {
        (void)H5Tclose(t);
        return -1;
    }
    return t;
}

hid_t integer_type(bool is_signed, size_t bytes)
{
    switch (bytes) {
    case 1: return H5Tcopy(is_signed ? H5T_STD_I8LE : H5T_STD_U8LE);
    case 2: return H5Tcopy(is_signed ? H5T_STD_I16LE : H5T_STD_U16LE);
    case 4: return H5Tcopy(is_signed ? H5T_STD_I32LE : H5T_STD_U32LE);
    case 8: return H5Tcopy(is_signed ? H5T_STD_I64LE : H5T_STD_U64LE);
    default: break;
    }
    hid_t t = H5Tcopy(is_signed ? H5T_STD_I64LE : H5T_STD_U64LE); /* wider: 128 bits and such */
    if (t >= 0 && (H5Tset_size(t, bytes) < 0 || H5Tset_precision(t, 8 * bytes) < 0)) {
        (void)H5Tclose(t);
        return -1;
    }
    return t;
}

static hid_t bitfield_type(size_t bytes)
{
    hid_t t = H5Tcopy(H5T_STD_B64LE);
    if (t >= 0 && bytes < 8 && (H5Tset_precision(t, 8 * bytes) < 0 || H5Tset_size(t, bytes) < 0))
        goto fail;
    if (t >= 0 && bytes > 8 && (H5Tset_size(t, bytes) < 0 || H5Tset_precision(t, 8 * bytes) < 0))
        goto fail;
    return t;
fail:
    (void)H5Tclose(t);
    return -1;
}

int has_variable_parts(hid_t type)
{
    H5T_class_t class = H5Tget_class(type);
    if (class == H5T_STRING)
        return H5Tis_variable_str(type);
    if (class == H5T_VLEN || class == H5T_REFERENCE)
        return 1;
    if (class == H5T_ARRAY) {
        AUTO_ID base = H5Tget_super(type);
        return base < 0 ? -1 : has_variable_parts(base);
    }
    int n = class == H5T_COMPOUND ? H5Tget_nmembers(type) : 0, r = n < 0 ? -1 : 0;
    for (int i = 0; i < n && r == 0; i++) {
        AUTO_ID member = H5Tget_member_type(type, (unsigned)i);
        r = member < 0 ? -1 : has_variable_parts(member);
    }
    return r;
}

static int compound_in_memory(work *w, hid_t type, int depth, hid_t *out)
{
    int n = H5Tget_nmembers(type);
    size_t bytes = 0;
    hid_t t = H5Tcreate(H5T_COMPOUND, 1);
    if (n < 0 || t < 0)
        goto fail;
    for (int i = 0; i < n; i++) {
        AUTO_ID stored = H5Tget_member_type(type, (unsigned)i);
        AUTO_ID member = -1;
        char *name = H5Tget_member_name(type, (unsigned)i);
        if (stored < 0 || !name || memory_type(w, stored, depth + 1, &member) != 0) {
            (void)H5free_memory(name);
            if (w->reply.status != FBY__H5P_OK) {
                (void)H5Tclose(t);
                return -1;
            }
            goto fail;
        }
        size_t at = bytes;
        bytes += H5Tget_size(member);
        herr_t r = bytes > UINT32_MAX || H5Tset_size(t, bytes) < 0 ? -1 : H5Tinsert(t, name, at, member);
        (void)H5free_memory(name);
        if (r < 0)
            goto fail;
    }
    *out = t;
    return 0;
fail:
    close_id(&t);
    return fail_h5(w, "a compound type");
}

int memory_type(work *w, hid_t type, int depth, hid_t *out)
{
    if (depth > FBY__H5P_MAX_DEPTH)
        return too_deep(w);
    switch (H5Tget_class(type)) {
    case H5T_INTEGER: *out = integer_type(H5Tget_sign(type) != H5T_SGN_NONE, integer_bytes(H5Tget_size(type))); break;
    case H5T_FLOAT: {
        unsigned form = float_form(type);
        *out = float_type(form == FBY__H5P_BFLOAT16, float_bytes(form));
        break;
    }
    case H5T_BITFIELD: *out = bitfield_type(integer_bytes(H5Tget_size(type))); break;
    case H5T_COMPOUND: return compound_in_memory(w, type, depth, out);
    case H5T_ENUM: { /* as integers: a value without a name must not become another one */
        AUTO_ID base = H5Tget_super(type);
        if (base < 0)
            return fail_h5(w, "an enum type");
        return memory_type(w, base, depth + 1, out);
    }
    case H5T_ARRAY: {
        AUTO_ID base = H5Tget_super(type);
        hsize_t dims[H5S_MAX_RANK];
        int n = H5Tget_array_dims2(type, dims);
        if (base < 0 || n < 1)
            return fail_h5(w, "an array type");
        AUTO_ID element = -1;
        TRY(memory_type(w, base, depth + 1, &element));
        *out = H5Tarray_create2(element, (unsigned)n, dims);
        break;
    }
    case H5T_VLEN: {
        AUTO_ID base = H5Tget_super(type);
        if (base < 0)
            return fail_h5(w, "a sequence type");
        AUTO_ID element = -1;
        TRY(memory_type(w, base, depth + 1, &element));
        *out = H5Tvlen_create(element);
        break;
    }
    case H5T_NO_CLASS:
    case H5T_NCLASSES: return fail_h5(w, "a type of no known class");
    case H5T_STRING:
    case H5T_TIME:
    case H5T_OPAQUE:
    case H5T_REFERENCE: *out = H5Tcopy(type); break;
    default: return fail(w, FBY__H5P_UNSUPPORTED, "a type of a class that is not known");
    }
    return *out < 0 ? fail_h5(w, "a type in memory") : 0;
}

/* ---- descriptions ---- */

/* A name given by libhdf5, freed here. */
static int put_name(work *w, buffer *b, char *name)
{
    int r = name ? put_text(w, b, name) : fail_h5(w, "a name of a type's member");
    (void)H5free_memory(name);
    return r;
}

/* Bytes of the type as described: only those of sizes that differ from libhdf5's need the walk. */
static int described_bytes(work *w, hid_t type, int depth, size_t *out)
{
    if (depth > FBY__H5P_MAX_DEPTH)
        return too_deep(w);
    *out = H5Tget_size(type);
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_BITFIELD:
        *out = integer_bytes(*out);
        if (*out > FBY__H5P_MAX_INTEGER_BYTES)
            return fail(w, FBY__H5P_UNSUPPORTED, "integers of %zu bytes", *out);
        break;
    case H5T_FLOAT: *out = float_bytes(float_form(type)); break;
    case H5T_STRING: *out = H5Tis_variable_str(type) > 0 ? FBY__H5P_VLEN_BYTES : *out; break;
    case H5T_VLEN:
    case H5T_REFERENCE: *out = FBY__H5P_VLEN_BYTES; break;
    case H5T_ENUM: {
        AUTO_ID base = H5Tget_super(type);
        return base < 0 ? fail_h5(w, "an enum type") : described_bytes(w, base, depth + 1, out);
    }
    case H5T_COMPOUND: {
        int n = H5Tget_nmembers(type);
        *out = 0;
        for (int i = 0; i < n; i++) {
            AUTO_ID member = H5Tget_member_type(type, (unsigned)i);
            size_t k;
            if (member < 0)
                return fail_h5(w, "a compound type");
            TRY(described_bytes(w, member, depth + 1, &k));
            *out += k;
        }
        break;
    }
    case H5T_ARRAY: {
        AUTO_ID base = H5Tget_super(type);
        hsize_t dims[H5S_MAX_RANK];
        int n = H5Tget_array_dims2(type, dims);
        if (base < 0 || n < 1)
            return fail_h5(w, "an array type");
        TRY(described_bytes(w, base, depth + 1, out));
        for (int i = 0; i < n; i++)
            if (__builtin_mul_overflow(*out, dims[i], out))
                return fail(w, FBY__H5P_FORMAT, "an array type is too large");
        break;
    }
    default: break;
    }
    return *out ? 0 : fail_h5(w, "a type without size");
}

static int put_compound(work *w, buffer *b, hid_t type, int depth)
{
    int n = H5Tget_nmembers(type);
    size_t at = 0;
    if (n < 0)
        return fail_h5(w, "a compound type");
    TRY(put_u32(w, b, (uint64_t)n));
    for (int i = 0; i < n; i++) {
        AUTO_ID member = H5Tget_member_type(type, (unsigned)i);
        size_t k;
        if (member < 0)
            return fail_h5(w, "a compound type");
        TRY(put_name(w, b, H5Tget_member_name(type, (unsigned)i)));
        TRY(put_u32(w, b, at));
        TRY(put_type(w, b, member, depth + 1));
        TRY(described_bytes(w, member, depth + 1, &k));
        at += k;
    }
    return 0;
}

static int put_enum(work *w, buffer *b, hid_t type, int depth)
{
    AUTO_ID base = H5Tget_super(type);
    AUTO_ID native = -1;
    int n = H5Tget_nmembers(type);
    if (base < 0 || n < 0)
        return fail_h5(w, "an enum type");
    TRY(put_type(w, b, base, depth + 1));
    TRY(memory_type(w, base, depth + 1, &native));
    size_t stored = H5Tget_size(base), bytes = H5Tget_size(native);
    uint8_t value[64];
    if (stored > sizeof value || bytes > sizeof value || H5Tget_class(base) != H5T_INTEGER)
        return fail(w, FBY__H5P_UNSUPPORTED, "an enum of values that are no ordinary integers");
    TRY(put_u32(w, b, (uint64_t)n));
    for (int i = 0; i < n; i++) {
        TRY(put_name(w, b, H5Tget_member_name(type, (unsigned)i)));
        if (H5Tget_member_value(type, (unsigned)i, value) < 0 || H5Tconvert(base, native, 1, value, NULL, H5P_DEFAULT) < 0)
            return fail_h5(w, "an enum type");
        TRY(put(w, b, value, bytes));
    }
    return 0;
}

static int put_vlen(work *w, buffer *b, hid_t type, int depth)
{
    bool text = H5Tget_class(type) == H5T_STRING;
    unsigned charset = text ? (unsigned)H5Tget_cset(type) : 0;
    TRY(put_u8(w, b, text));
    TRY(put_u8(w, b, charset));
    if (text) { /* of characters */
        TRY(put_u8(w, b, FBY__H5P_CLASS_STRING));
        TRY(put_u32(w, b, 1));
        TRY(put_u8(w, b, 0));
        return put_u8(w, b, charset);
    }
    AUTO_ID base = H5Tget_super(type);
    return base < 0 ? fail_h5(w, "a sequence type") : put_type(w, b, base, depth + 1);
}

static int put_array(work *w, buffer *b, hid_t type, int depth)
{
    AUTO_ID base = H5Tget_super(type);
    hsize_t dims[H5S_MAX_RANK];
    int n = H5Tget_array_dims2(type, dims);
    if (base < 0 || n < 1)
        return fail_h5(w, "an array type");
    TRY(put_u8(w, b, (unsigned)n));
    for (int i = 0; i < n; i++)
        TRY(put_u64(w, b, dims[i]));
    return put_type(w, b, base, depth + 1);
}

int put_type(work *w, buffer *b, hid_t type, int depth)
{
    size_t bytes;
    H5T_class_t class = H5Tget_class(type);
    bool vlen_string = class == H5T_STRING && H5Tis_variable_str(type) > 0;
    if (class < 0 || class >= H5T_NCLASSES)
        return fail_h5(w, "a type of no known class");
    TRY(described_bytes(w, type, depth, &bytes));
    TRY(put_u8(w, b, vlen_string ? FBY__H5P_CLASS_VLEN : (unsigned)class)); /* H5T_class_t has the format's numbers */
    TRY(put_u32(w, b, bytes));
    switch (class) {
    case H5T_INTEGER: return put_u8(w, b, H5Tget_sign(type) != H5T_SGN_NONE);
    case H5T_BITFIELD: return put_u8(w, b, 0);
    case H5T_FLOAT: return put_u8(w, b, float_form(type));
    case H5T_STRING:
        if (vlen_string)
            return put_vlen(w, b, type, depth);
        TRY(put_u8(w, b, (unsigned)H5Tget_strpad(type)));
        return put_u8(w, b, (unsigned)H5Tget_cset(type));
    case H5T_OPAQUE: return put_name(w, b, H5Tget_tag(type));
    case H5T_COMPOUND: return put_compound(w, b, type, depth);
    case H5T_REFERENCE: return put_u8(w, b, H5Tequal(type, H5T_STD_REF_OBJ) > 0 ? 0 : H5Tequal(type, H5T_STD_REF_DSETREG) > 0 ? 1 : 2);
    case H5T_ENUM: return put_enum(w, b, type, depth);
    case H5T_VLEN: return put_vlen(w, b, type, depth);
    case H5T_ARRAY: return put_array(w, b, type, depth);
    default: return 0;
    }
}
