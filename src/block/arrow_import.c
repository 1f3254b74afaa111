/*
 * Import of schemas through the Arrow C data interface: format strings, and the tree of fields.
 *
 * Dictionary-encoded columns have the type of their values. What has no counterpart is refused by name: unions, run-end
 * encoding, list views, month/day intervals, dictionaries of nested values. Extension types come as their storage type,
 * time zones as "UTC" (the stored instants are in UTC whatever zone they are shown in), date64 as days.
 */
#include "block/arrow.h"
#include "block/arrow_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fby_status refuse(const char *format, const char *reason, fby_error *err)
{
    return fby__fail(err, FBY_E_UNSUPPORTED, "Arrow type '%.80s' is not supported: %s", format, reason);
}

static fby_status malformed(const char *format, fby_error *err)
{
    return fby__fail(err, FBY_E_ARG, "'%.80s' is no valid Arrow format string", format);
}

/* One whole number, advancing *s; false when there is none or it leaves [low, high]. */
static bool parse_int(const char **s, long low, long high, int32_t *out)
{
    char *end;
    errno = 0;
    long v = strtol(*s, &end, 10);
    if (end == *s || errno != 0 || v < low || v > high)
        return false;
    *s = end;
    *out = (int32_t)v;
    return true;
}

static fby_unit unit_of(char letter)
{
    switch (letter) {
    case 's': return FBY_UNIT_S;
    case 'm': return FBY_UNIT_MS;
    case 'u': return FBY_UNIT_US;
    case 'n': return FBY_UNIT_NS;
    default: return FBY_UNIT_NONE;
    }
}

static void set_fixed(fby__arrow_format *out, fby_kind kind, fby_dtype dtype)
{
    out->storage = FBY__ARROW_FIXED;
    out->width = (uint32_t)fby_dtype_bytes(dtype);
    out->stored = dtype;
    out->field.kind = kind;
    out->field.dtype = dtype;
}

static void set_other(fby__arrow_format *out, fby__arrow_storage storage, fby_kind kind)
{
    out->storage = storage;
    out->field.kind = kind;
}

static fby_status parse_decimal(const char *format, fby__arrow_format *out, fby_error *err)
{
    const char *s = format + 2;
    int32_t precision, scale, bits = 128;
    if (format[1] != ':' || !parse_int(&s, 1, 76, &precision) || *s++ != ',' || !parse_int(&s, -1000, 1000, &scale))
        return malformed(format, err);
    if (*s == ',') {
        s++;
        if (!parse_int(&s, 32, 256, &bits))
            return malformed(format, err);
    }
    if (*s || (bits != 32 && bits != 64 && bits != 128 && bits != 256))
        return malformed(format, err);
    out->storage = FBY__ARROW_FIXED;
    out->width = (uint32_t)bits / 8;
    out->field.kind = FBY_KIND_DECIMAL;
    out->field.dtype = FBY_FLOAT64;
    out->field.precision = precision;
    out->field.scale = scale;
    out->field.byte_width = bits / 8;
    return FBY_OK;
}

static fby_status parse_time(const char *format, fby__arrow_format *out, fby_error *err)
{
    fby_unit unit = format[1] && format[2] ? unit_of(format[2]) : FBY_UNIT_NONE;
    switch (format[1]) {
    case 'd':
        if (format[2] == 'D' && !format[3]) {
            set_fixed(out, FBY_KIND_DATE, FBY_INT32);
            return FBY_OK;
        }
        if (format[2] == 'm' && !format[3]) { /* date64: milliseconds, whole days by definition */
            set_fixed(out, FBY_KIND_DATE, FBY_INT64);
            out->field.dtype = FBY_INT32;
            out->unit_div = 86400000;
            return FBY_OK;
        }
        break;
    case 't':
        if (unit != FBY_UNIT_NONE && !format[3]) {
            set_fixed(out, FBY_KIND_TIME, unit == FBY_UNIT_S || unit == FBY_UNIT_MS ? FBY_INT32 : FBY_INT64);
            out->field.unit = unit;
            return FBY_OK;
        }
        break;
    case 's':
        if (unit != FBY_UNIT_NONE && format[3] == ':') {
            set_fixed(out, FBY_KIND_TIMESTAMP, FBY_INT64);
            out->field.unit = unit;
            out->field.utc = format[4] != 0;
            return FBY_OK;
        }
        break;
    case 'D':
        if (unit != FBY_UNIT_NONE && !format[3]) {
            set_fixed(out, FBY_KIND_DURATION, FBY_INT64);
            out->field.unit = unit;
            return FBY_OK;
        }
        break;
    case 'i': return refuse(format, "calendar intervals are no numbers; convert the column to a duration", err);
    default: break;
    }
    return malformed(format, err);
}

static fby_status parse_nested(const char *format, fby__arrow_format *out, fby_error *err)
{
    const char *s = format + 3;
    int32_t size;
    switch (format[1]) {
    case 'l':
    case 'L':
        if (format[2])
            break;
        set_other(out, format[1] == 'l' ? FBY__ARROW_LIST32 : FBY__ARROW_LIST64, FBY_KIND_LIST);
        return FBY_OK;
    case 'w':
        if (format[2] != ':' || !parse_int(&s, 0, INT32_MAX, &size) || *s)
            break;
        set_other(out, FBY__ARROW_FIXED_LIST, FBY_KIND_FIXED_LIST);
        out->field.list_size = size;
        return FBY_OK;
    case 's':
        if (format[2])
            break;
        set_other(out, FBY__ARROW_STRUCT, FBY_KIND_STRUCT);
        return FBY_OK;
    case 'm':
        if (format[2])
            break;
        set_other(out, FBY__ARROW_LIST32, FBY_KIND_MAP);
        return FBY_OK;
    case 'v': return refuse(format, "list views have no order of their own; cast the column to a list", err);
    case 'u': return refuse(format, "unions have no single type; split the column", err);
    case 'r': return refuse(format, "run-end encoded columns must be decoded first (pyarrow.compute.run_end_decode)", err);
    default: break;
    }
    return malformed(format, err);
}

fby_status fby__arrow_format_parse(const char *format, fby__arrow_format *out, fby_error *err)
{
    static const struct {
        char letter;
        fby_dtype dtype;
    } NUMBERS[] = {{'c', FBY_INT8},  {'C', FBY_UINT8},  {'s', FBY_INT16},   {'S', FBY_UINT16},  {'i', FBY_INT32},  {'I', FBY_UINT32},
                   {'l', FBY_INT64}, {'L', FBY_UINT64}, {'e', FBY_FLOAT16}, {'f', FBY_FLOAT32}, {'g', FBY_FLOAT64}};

    *out = (fby__arrow_format){.unit_div = 1};
    if (!format)
        return fby__fail(err, FBY_E_ARG, "an Arrow schema without a format string");
    if (format[0] == 't')
        return parse_time(format, out, err);
    if (format[0] == '+')
        return parse_nested(format, out, err);
    if (format[0] == 'd')
        return parse_decimal(format, out, err);
    if (format[0] == 'w') {
        const char *s = format + 2;
        int32_t width;
        if (format[1] != ':' || !parse_int(&s, 0, INT32_MAX, &width) || *s)
            return malformed(format, err);
        set_other(out, FBY__ARROW_FIXED, FBY_KIND_FIXED_BINARY);
        out->width = (uint32_t)width;
        out->field.byte_width = width;
        return FBY_OK;
    }
    if (format[0] == 'v' && (format[1] == 'u' || format[1] == 'z') && !format[2]) {
        set_other(out, FBY__ARROW_VIEW, format[1] == 'u' ? FBY_KIND_STRING : FBY_KIND_BINARY);
        return FBY_OK;
    }
    if (!format[0] || format[1])
        return malformed(format, err);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++)
        if (NUMBERS[i].letter == format[0]) {
            bool is_float = NUMBERS[i].dtype >= FBY_FLOAT16;
            set_fixed(out, is_float ? FBY_KIND_FLOAT : FBY_KIND_INT, NUMBERS[i].dtype);
            return FBY_OK;
        }
    switch (format[0]) {
    case 'n': set_other(out, FBY__ARROW_NULL, FBY_KIND_NULL); return FBY_OK;
    case 'b':
        set_other(out, FBY__ARROW_BITS, FBY_KIND_BOOL);
        out->field.dtype = out->stored = FBY_BOOL;
        return FBY_OK;
    case 'u': set_other(out, FBY__ARROW_VAR32, FBY_KIND_STRING); return FBY_OK;
    case 'U': set_other(out, FBY__ARROW_VAR64, FBY_KIND_STRING); return FBY_OK;
    case 'z': set_other(out, FBY__ARROW_VAR32, FBY_KIND_BINARY); return FBY_OK;
    case 'Z': set_other(out, FBY__ARROW_VAR64, FBY_KIND_BINARY); return FBY_OK;
    default: return malformed(format, err);
    }
}

uint32_t fby__arrow_fixed_buffers(fby__arrow_storage storage)
{
    switch (storage) {
    case FBY__ARROW_NULL: return 0;
    case FBY__ARROW_STRUCT:
    case FBY__ARROW_FIXED_LIST: return 1;
    case FBY__ARROW_BITS:
    case FBY__ARROW_FIXED:
    case FBY__ARROW_LIST32:
    case FBY__ARROW_LIST64:
    case FBY__ARROW_VIEW: return 2;
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64: return 3;
    }
    return 0;
}

/* ---- the tree ---- */

typedef struct import {
    fby__schema_element *elements;
    size_t n, cap;
    const char *names[FBY__MAX_LEVEL + 2]; /* the way to the node at hand, for messages */
} import;

/* "column 'a.b'" put before the message. */
static fby_status in_column(const import *im, unsigned depth, fby_status status, fby_error *err)
{
    char path[256];
    size_t used = 0;
    path[0] = 0;
    for (unsigned i = 1; i <= depth && used < sizeof path; i++)
        used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", i > 1 ? "." : "", im->names[i]);
    if (depth)
        fby__error_context(err, "column '%s'", path);
    return status;
}

/* How many children a node of this kind must have; -1 = any number. */
static int64_t children_of(const fby__arrow_format *format)
{
    switch (format->storage) {
    case FBY__ARROW_LIST32:
    case FBY__ARROW_LIST64:
    case FBY__ARROW_FIXED_LIST: return 1;
    case FBY__ARROW_STRUCT: return -1;
    default: return 0;
    }
}

static fby_status import_node(import *im, const struct ArrowSchema *in, unsigned depth, bool hidden, fby_error *err)
{
    if (depth > FBY__MAX_LEVEL)
        return in_column(im, 1, fby__fail(err, FBY_E_UNSUPPORTED, "nested more than %d levels deep", FBY__MAX_LEVEL), err);
    im->names[depth] = in->name ? in->name : "";
    fby__arrow_format format;
    fby_status status = fby__arrow_format_parse(fby__arrow_value_schema(in)->format, &format, err);
    if (status != FBY_OK)
        return in_column(im, depth, status, err);
    int64_t n_children = children_of(&format);
    if (in->dictionary && n_children != 0)
        return in_column(im, depth, fby__fail(err, FBY_E_UNSUPPORTED, "dictionaries of nested values are not supported; decode the column"),
                         err);
    if (in->dictionary && in->dictionary->dictionary)
        return in_column(im, depth, fby__fail(err, FBY_E_UNSUPPORTED, "a dictionary of a dictionary is not supported; decode the column"),
                         err);
    if (in->dictionary) {
        fby__arrow_format index;
        status = fby__arrow_format_parse(in->format, &index, err);
        if (status == FBY_OK && index.field.kind != FBY_KIND_INT)
            status = fby__fail(err, FBY_E_ARG, "dictionary indices of Arrow type '%.80s' are no integers", in->format);
        if (status != FBY_OK)
            return in_column(im, depth, status, err);
    }
    if (in->n_children < 0 || in->n_children > UINT32_MAX || (n_children >= 0 && in->n_children != n_children))
        return in_column(im, depth,
                         fby__fail(err, FBY_E_ARG, "Arrow type '%.80s' with %lld children", in->format, (long long)in->n_children), err);
    if (format.storage == FBY__ARROW_STRUCT && in->n_children == 0 && depth)
        return in_column(im, depth, fby__fail(err, FBY_E_UNSUPPORTED, "a struct without fields holds no values; leave it out"), err);
    if (format.field.kind == FBY_KIND_MAP && strcmp(in->children[0]->format, "+s") != 0)
        return in_column(im, depth, fby__fail(err, FBY_E_ARG, "a map whose entries are no struct"), err);

    if (fby__grow((void **)&im->elements, &im->cap, im->n + 1, sizeof *im->elements) != 0)
        return fby__fail_nomem(err, "an imported Arrow schema");
    fby__schema_element *e = &im->elements[im->n++];
    *e = (fby__schema_element){.name = im->names[depth],
                               .name_n = (uint32_t)strlen(im->names[depth]),
                               .hidden_in_path = hidden,
                               .n_children = (uint32_t)in->n_children,
                               .field = format.field};
    e->field.nullable = (in->flags & ARROW_FLAG_NULLABLE) != 0;
    for (int64_t i = 0; i < in->n_children; i++)
        FBY__TRY(import_node(im, in->children[i], depth + 1, format.storage != FBY__ARROW_STRUCT, err));
    return FBY_OK;
}

fby_status fby__arrow_schema_import(const struct ArrowSchema *in, fby__schema **out, fby_error *err)
{
    if (!in->format || strcmp(in->format, "+s") != 0)
        return fby__fail(err, FBY_E_ARG, "record batches are needed: the stream's Arrow type is '%.80s', not a struct of columns",
                         in->format ? in->format : "");
import im = {0 };
    fby_status status = import_node(&im, in, 0, false, err);
    if (status == FBY_OK) {
        im.elements[0].name = ""; /* the root is a struct with name "", whatever the producer calls it */
        im.elements[0].name_n = 0;
        im.elements[0].field.nullable = false;
        status = fby__schema_create(im.elements, im.n, out, err);
    }
    fby__free(im.elements);
    return status;
}
