/*
 * Arrow arrays of one type as another to which it widens: what join.c allows, no more. The arrays are those that the readers
 * make of files: they begin at offset 0 and own their buffers (block/arrow.h), so that a cast may exchange a buffer in place.
 */
#include "base/checked.h"
#include "block/arrow.h"
#include "block/convert.h"
#include "read/read_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static fby_dtype dtype_of(const char *format)
{
    static const struct {
        char letter;
        fby_dtype dtype;
    } NUMBERS[] = {{'c', FBY_INT8},  {'C', FBY_UINT8},  {'s', FBY_INT16},   {'S', FBY_UINT16},  {'i', FBY_INT32},  {'I', FBY_UINT32},
                   {'l', FBY_INT64}, {'L', FBY_UINT64}, {'e', FBY_FLOAT16}, {'f', FBY_FLOAT32}, {'g', FBY_FLOAT64}};
    for (size_t i = 0; !format[1] && i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        if (NUMBERS[i].letter == format[0])
            return NUMBERS[i].dtype;
    if (format[0] != 't' || !format[1] || !format[2])
        return FBY_DTYPE_NONE;
    bool narrow = (format[1] == 't' && (format[2] == 's' || format[2] == 'm')) || (format[1] == 'd' && format[2] == 'D');
    return narrow ? FBY_INT32 : FBY_INT64;
}

/* "tsn:UTC" → 3: the power of 1,000 by which it is finer than seconds. */
static int unit_of(const char *format)
{
    static const char UNITS[] = "smun";
    const char *unit = format[0] == 't' && format[1] != 'd' && format[2] ? strchr(UNITS, format[2]) : NULL;
    return unit ? (int)(unit - UNITS) : 0;
}

typedef struct decimal {
    int precision, scale, bits;
} decimal;

static bool parse_decimal(const char *format, decimal *out)
{
    *out = (decimal){.bits = 128};
    return format[0] == 'd' && sscanf(format, "d:%d,%d,%d", &out->precision, &out->scale, &out->bits) >= 2;
}

/* Bytes of a value where the data buffer has a fixed width, else 0. */
static size_t width_of(const char *format)
{
    decimal d;
    fby_dtype dtype = dtype_of(format);
    if (dtype != FBY_DTYPE_NONE)
        return fby_dtype_bytes(dtype);
    if (format[0] == 'w' && format[1] == ':')
        return (size_t)strtoul(format + 2, NULL, 10);
    return parse_decimal(format, &d) ? (size_t)d.bits / 8 : 0;
}

static bool is_large(const char *format) { return format[0] == 'U' || format[0] == 'Z' || strcmp(format, "+L") == 0; }

static fby_status set_new(struct ArrowArray *array, int64_t i, size_t n, size_t width, fby_error *err)
{
    void *p = fby__calloc(n, width);
    if (!p)
        return fby__fail_nomem(err, "an Arrow column");
    fby__arrow_array_set_buffer(array, i, p);
    return FBY_OK;
}

/* ---- nulls, constants ---- */

fby_status fby__cast_nulls(const struct ArrowSchema *type, int64_t length, struct ArrowArray *out, fby_error *err)
{
    const char *format = type->format;
    size_t n = (size_t)length;
    bool is_null = format[0] == 'n', nested = format[0] == '+';
    bool list = nested && (format[1] == 'L' || format[1] == 'l' || format[1] == 'm');
    bool text = strchr("uUzZ", format[0]) != NULL;
    struct ArrowArray array;
    FBY__TRY(fby__arrow_array_create(is_null ? 0 : text ? 3 : nested && !list ? 1 : 2, type->n_children, &array, err));
    array.length = length;
    array.null_count = length;
    fby_status status = is_null ? FBY_OK : set_new(&array, 0, (n + 7) / 8, 1, err);
    if (status == FBY_OK && (text || list)) {
        status = set_new(&array, 1, n + 1, is_large(format) ? 8 : 4, err);
        if (status == FBY_OK && text)
            status = set_new(&array, 2, 1, 1, err);
    } else if (status == FBY_OK && !is_null && !nested) {
        status = format[0] == 'b' ? set_new(&array, 1, (n + 7) / 8, 1, err) : set_new(&array, 1, n, width_of(format), err);
    }
    int64_t below = list ? 0 : length;
    if (nested && format[1] == 'w' && __builtin_mul_overflow(length, strtol(format + 3, NULL, 10), &below))
        status = fby__fail_nomem(err, "an Arrow column");
    for (int64_t i = 0; i < type->n_children && status == FBY_OK; i++)
        status = fby__cast_nulls(type->children[i], below, array.children[i], err);
    if (status != FBY_OK) {
        array.release(&array);
        return status;
    }
    *out = array;
    return FBY_OK;
}

fby_status fby__cast_constant(const struct ArrowSchema *type, const char *text, int64_t length, struct ArrowArray *out, fby_error *err)
{
    size_t n = (size_t)length, m = strlen(text), bytes;
    if (!fby__mul_checked(n, m, &bytes) || bytes > INT64_MAX || (!is_large(type->format) && bytes > INT32_MAX))
        return fby__fail_nomem(err, "a constant column");
    struct ArrowArray array;
    FBY__TRY(fby__arrow_array_create(3, 0, &array, err));
    array.length = length;
    fby_status status = set_new(&array, 1, n + 1, is_large(type->format) ? 8 : 4, err);
    if (status == FBY_OK)
        status = set_new(&array, 2, bytes ? bytes : 1, 1, err);
    if (status != FBY_OK) {
        array.release(&array);
        return status;
    }
    char *data = (char *)(uintptr_t)array.buffers[2]; /* ours, just made */
    for (size_t i = 0; i < n; i++)
        memcpy(data + i * m, text, m);
    void *offsets = (void *)(uintptr_t)array.buffers[1];
    for (size_t i = 0; i <= n; i++)
        if (is_large(type->format))
            ((int64_t *)offsets)[i] = (int64_t)(i * m);
        else
            ((int32_t *)offsets)[i] = (int32_t)(i * m);
    *out = array;
    return FBY_OK;
}

/* ---- casts ---- */

static bool is_valid(const struct ArrowArray *array, size_t i)
{
    const uint8_t *bits = array->buffers[0];
    return !bits || (bits[i / 8] >> (i % 8) & 1);
}

static fby_status cast_numbers(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, fby_error *err)
{
    fby_dtype src = dtype_of(from->format), dst = dtype_of(to->format);
    size_t n = (size_t)array->length, src_width = fby_dtype_bytes(src), dst_width = fby_dtype_bytes(dst);
    fby__scale scale = FBY__SCALE_NONE;
    for (int u = unit_of(from->format); u < unit_of(to->format); u++)
        scale.mul *= 1000;
    uint8_t *data = fby__calloc(n, dst_width);
    if (!data)
        return fby__fail_nomem(err, "an Arrow column");
    const uint8_t *in = array->buffers[1];
    for (size_t done = 0; done < n;) {
        size_t bad = 0;
        if (fby__convert(dst, data + done * dst_width, src, in + done * src_width, n - done, scale, &bad) == FBY_OK)
            break;
        done += bad;
        if (is_valid(array, done)) {
            char value[40];
            (void)fby__value_text(src, in + done * src_width, value, sizeof value);
            fby__free(data);
            return fby__fail(err, FBY_E_DATA, "%s in row %zu of the block does not fit in the finer time unit of other files", value, done);
        }
        memset(data + done * dst_width, 0, dst_width); /* what stands under a null is nobody's value */
        done++;
    }
    fby__arrow_array_set_buffer(array, 1, data);
    return FBY_OK;
}

static fby_status cast_fixed_binary(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, fby_error *err)
{
    size_t n = (size_t)array->length, width = width_of(from->format);
    bool large = is_large(to->format);
    if (!large && width && n > INT32_MAX / width)
        return fby__fail(err, FBY_E_DATA, "more than 2 GiB of fixed binaries in a block");
    struct ArrowArray fresh;
    FBY__TRY(fby__arrow_array_create(3, 0, &fresh, err));
    fby_status status = set_new(&fresh, 1, n + 1, large ? 8 : 4, err);
    if (status != FBY_OK) {
        fresh.release(&fresh);
        return status;
    }
    void *offsets = (void *)(uintptr_t)fresh.buffers[1];
    for (size_t i = 0; i <= n; i++)
        if (large)
            ((int64_t *)offsets)[i] = (int64_t)(i * width);
        else
            ((int32_t *)offsets)[i] = (int32_t)(i * width);
    fresh.length = array->length;
    fresh.null_count = array->null_count;
    fresh.buffers[0] = array->buffers[0]; /* moved: both arrays free with fby__free */
    fresh.buffers[2] = array->buffers[1];
    array->buffers[0] = array->buffers[1] = NULL;
    array->release(array);
    *array = fresh;
    return FBY_OK;
}

/* limbs (two's complement, little-endian, 256 bits) × 10; false when it does not fit. */
static bool times_ten(uint64_t limbs[4])
{
    bool negative = limbs[3] >> 63;
    unsigned __int128 carry = 0;
    for (int i = 0; i < 4; i++) {
        carry += (unsigned __int128)limbs[i] * 10;
        limbs[i] = (uint64_t)carry;
        carry >>= 64;
    }
    /* A negative number is 2^256 too large: ten times that is carried out as 9 or 10 − what was borrowed. */
    return (limbs[3] >> 63) == negative && (uint64_t)carry == (negative ? 9 : 0);
}

static fby_status cast_decimals(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, fby_error *err)
{
    decimal a = {0}, b = {0};
    bool known = parse_decimal(from->format, &a) && parse_decimal(to->format, &b);
    assert(known && a.bits <= 256 && b.bits <= 256);
    (void)known;
    size_t n = (size_t)array->length, src = (size_t)a.bits / 8, dst = (size_t)b.bits / 8;
    uint8_t *data = fby__calloc(n, dst);
    if (!data)
        return fby__fail_nomem(err, "an Arrow column");
    const uint8_t *in = array->buffers[1];
    for (size_t i = 0; i < n; i++) {
        if (!is_valid(array, i))
            continue;
        uint64_t limbs[4];
        memset(limbs, in[i * src + src - 1] & 0x80 ? 0xff : 0, sizeof limbs);
        memcpy(limbs, in + i * src, src);
        bool fits = true;
        for (int k = a.scale; k < b.scale && fits; k++)
            fits = times_ten(limbs);
        uint64_t sign = limbs[dst / 8 - 1] >> 63 ? UINT64_MAX : 0;
        for (size_t k = dst / 8; k < 4; k++)
            fits &= limbs[k] == sign;
        if (!fits) {
            fby__free(data);
            return fby__fail(err, FBY_E_DATA, "a decimal in row %zu of the block has more digits than its type states", i);
        }
        memcpy(data + i * dst, limbs, dst);
    }
    fby__arrow_array_set_buffer(array, 1, data);
    return FBY_OK;
}

/* Lists whose offsets have another width: a map (32 bits) whose entries are no pair in some file is a list (64 bits) there. */
static fby_status cast_offsets(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, fby_error *err)
{
    bool was_large = is_large(from->format), large = is_large(to->format);
    if (was_large == large)
        return FBY_OK;
    size_t n = (size_t)array->length + 1;
    void *offsets = fby__calloc(n, large ? 8 : 4);
    if (!offsets)
        return fby__fail_nomem(err, "an Arrow column");
    for (size_t i = 0; i < n; i++) {
        int64_t at = was_large ? ((const int64_t *)array->buffers[1])[i] : ((const int32_t *)array->buffers[1])[i];
        if (large) {
            ((int64_t *)offsets)[i] = at;
        } else if (at > INT32_MAX) {
            fby__free(offsets);
            return fby__fail(err, FBY_E_DATA, "more than 2^31 map entries in a block");
        } else {
            ((int32_t *)offsets)[i] = (int32_t)at;
        }
    }
    fby__arrow_array_set_buffer(array, 1, offsets);
    return FBY_OK;
}

/* The member of `from` that becomes member i of `to`, -1 for none. Entries of maps go by position. */
static int64_t member(const struct ArrowSchema *from, const struct ArrowSchema *to, int64_t i, bool in_map)
{
    if (in_map)
        return i < from->n_children ? i : -1;
    for (int64_t k = 0; k < from->n_children; k++) {
        int64_t at = (i + k) % from->n_children; /* mostly the same index */
        if (strcmp(from->children[at]->name, to->children[i]->name) != 0)
            continue;
        for (int64_t first = 0; first < at; first++)
            if (strcmp(from->children[first]->name, to->children[i]->name) == 0)
                return first;
        return at;
    }
    return -1;
}

static fby_status cast(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, bool in_map, fby_error *err);

static fby_status cast_struct(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, bool in_map,
                              fby_error *err)
{
    struct ArrowArray **children = fby__calloc((size_t)to->n_children, sizeof *children);
    if (!children)
        return fby__fail_nomem(err, "an Arrow column");
    fby_status status = FBY_OK;
    for (int64_t i = 0; i < to->n_children && status == FBY_OK; i++) {
        int64_t k = member(from, to, i, in_map);
        if (k >= 0) {
            children[i] = array->children[k];
            array->children[k] = NULL;
            status = cast(from->children[k], to->children[i], children[i], false, err);
        } else {
            children[i] = fby__calloc(1, sizeof **children);
            status =
                children[i] ? fby__cast_nulls(to->children[i], array->length, children[i], err) : fby__fail_nomem(err, "an Arrow column");
        }
    }
    for (int64_t k = 0; k < array->n_children; k++)
        if (array->children[k]) {
            if (array->children[k]->release)
                array->children[k]->release(array->children[k]);
            fby__free(array->children[k]);
        }
    fby__free(array->children);
    array->children = children;
    array->n_children = to->n_children;
    return status;
}

static fby_status cast(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, bool in_map, fby_error *err)
{
    const char *a = from->format, *b = to->format;
    assert(array->offset == 0);
    if (a[0] == 'n' && b[0] != 'n') {
        struct ArrowArray nulls;
        FBY__TRY(fby__cast_nulls(to, array->length, &nulls, err));
        array->release(array);
        *array = nulls;
        return FBY_OK;
    }
    if (a[0] == '+') {
        if (a[1] == 's')
            return cast_struct(from, to, array, in_map, err);
        if (a[1] != 'w')
            FBY__TRY(cast_offsets(from, to, array, err));
        bool map = a[1] == 'm' || b[1] == 'm';
        return cast(from->children[0], to->children[0], array->children[0], map, err);
    }
    if (strcmp(a, b) == 0)
        return FBY_OK;
    if (a[0] == 'd')
        return cast_decimals(from, to, array, err);
    if (a[0] == 'w')
        return cast_fixed_binary(from, to, array, err);
    if (dtype_of(a) != FBY_DTYPE_NONE && dtype_of(b) != FBY_DTYPE_NONE)
        return cast_numbers(from, to, array, err);
    return FBY_OK; /* utf8 as binary: the same buffers */
}

fby_status fby__cast(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, fby_error *err)
{
    return cast(from, to, array, false, err);
}
