/*
 * What attributes say about a data set: names of dimensions (HDF5 dimension scales, as NetCDF-4 uses them), units, missing values,
 * packed numbers.
 *
 *     DIMENSION_LIST         a list of object references for each axis: the first one's name is the dimension's
 *     _Netcdf4Coordinates    numbers of the dimensions, for coordinate variables of several axes
 *     CLASS=DIMENSION_SCALE  the data set is a dimension itself, the one of its own axis
 *     DIMENSION_LABELS       plain names: what is left
 *
 * Conventions (NetCDF User Guide, appendix A; CF 8.1): _FillValue and missing_value mean "no value" and are compared as stored, before
 * scale_factor and add_offset; NetCDF's default fill value does so where a variable has no _FillValue. What lies outside of valid_range, or
 * of valid_min and valid_max, is missing too, compared as stored. The result has the dtype that NumPy, and so netCDF4-python, gives it.
 */
#include "base/checked.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "format/hdf5/table/table_internal.h"

#include <math.h>
#include <stdlib.h>

#define MAX_TEXT 4096u
#define PADDED_WITH_SPACES 2
#define NO_DIMENSION INT64_MIN

typedef struct fby__h5_scale {
    uint64_t address; /* of the object */
    int64_t number;   /* _Netcdf4Dimid, or NO_DIMENSION */
    const char *name; /* last name of its path */
} fby__h5_scale;

/* ---- reading attributes ---- */

static bool is_heap_text(const fby__h5_type *t) { return t->class == FBY__H5_VLEN && t->vlen_string; }

/* An element that is a reference to the global heap: {u32 length, address, u32 index}. false: the heap holds nothing for it. */
static fby_status heap_element(fby__h5_opening *o, const uint8_t *p, fby__bytes *out, fby_error *err)
{
    *out = (fby__bytes){0};
    if (!o->f)
        return FBY_OK;
    uint32_t length = fby__load_u32(p), index = 0;
    uint64_t address = 0;
    memcpy(&address, p + 4, o->f->offset_bytes);
    index = fby__load_u32(p + 4 + o->f->offset_bytes);
    uint64_t undefined = o->f->offset_bytes == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * o->f->offset_bytes)) - 1;
    if (length == 0 || address == 0 || address == undefined)
        return FBY_OK;
    fby_status st = fby__h5_global_get(&o->heap, o->file, o->f->base, o->f->offset_bytes, o->f->length_bytes, address, index, out, err);
    if (st != FBY_OK)
        fby__error_context(err, "%s: an attribute", fby__file_path(o->file));
    return st;
}

static bool has_elements(const fby__h5_attribute *a, uint64_t n)
{
    uint64_t bytes;
    return a && a->type && !a->space.null && a->space.n_elements >= n && fby__mul_u64_checked(n, a->type->bytes, &bytes) &&
           a->data.n >= bytes;
}

fby_status fby__h5_text_bytes(fby__h5_opening *o, const fby__h5_attribute *a, uint64_t i, fby__bytes *out, fby_error *err)
{
    *out = (fby__bytes){0};
    if (!has_elements(a, i + 1))
        return FBY_OK;
    const uint8_t *p = a->data.data + i * a->type->bytes;
    fby__bytes text = {p, a->type->bytes};
    if (is_heap_text(a->type)) {
        if (!o->f || a->type->bytes < 8u + o->f->offset_bytes)
            return FBY_OK;
        FBY__TRY(heap_element(o, p, &text, err));
        text.n = fby__min_u64(text.n, fby__load_u32(p));
    } else if (a->type->class != FBY__H5_STRING) {
        return FBY_OK;
    }
    if (text.n)
        text.n = strnlen((const char *)text.data, text.n);
    while (a->type->padding == PADDED_WITH_SPACES && text.n && text.data[text.n - 1] == ' ')
        text.n--;
    *out = text;
    return FBY_OK;
}

/* Element i of a text attribute, NUL-terminated, or NULL: names and units, so neither very long nor in another encoding. */
static fby_status text_element(fby__h5_opening *o, const fby__h5_attribute *a, uint64_t i, const char **out, fby_error *err)
{
    fby__bytes text;
    *out = NULL;
    FBY__TRY(fby__h5_text_bytes(o, a, i, &text, err));
    while (text.n && text.data[text.n - 1] == ' ')
        text.n--;
    if (text.n == 0 || text.n > MAX_TEXT || !fby__schema_text_valid((const char *)text.data, text.n))
        return FBY_OK;
    *out = fby__arena_copy(&o->arena, text.data, text.n);
    return *out ? FBY_OK : fby__fail_nomem(err, "an attribute");
}

fby_status fby__h5_attribute_text(fby__h5_opening *o, const fby__h5_attribute *a, const char **out, fby_error *err)
{
    *out = NULL;
    return a && a->space.n_elements == 1 ? text_element(o, a, 0, out, err) : FBY_OK;
}

/* Fixed text, without memory. */
static bool text_begins(const fby__h5_attribute *a, const char *with)
{
    size_t n = strlen(with);
    return has_elements(a, 1) && a->type->class == FBY__H5_STRING && a->type->bytes >= n && memcmp(a->data.data, with, n) == 0;
}

bool fby__h5_is_pure_dimension(const fby__h5_object *object)
{
    return text_begins(fby__h5_attribute_find(object, "CLASS"), "DIMENSION_SCALE") &&
           text_begins(fby__h5_attribute_find(object, "NAME"), "This is a netCDF dimension but not a netCDF variable");
}

/* A number as it is: exact for every integer, a double for every float. */
typedef struct number {
    bool is_float;
    __int128 integer;
    double real;
} number;

static number to_number(fby_dtype dtype, const void *p)
{
    number n = {0};
    int64_t i;
    uint64_t u;
    size_t bad;
    switch (dtype) {
    case FBY_UINT64:
        memcpy(&u, p, sizeof u);
        n.integer = u;
        break;
    case FBY_FLOAT16:
    case FBY_BFLOAT16:
    case FBY_FLOAT32:
    case FBY_FLOAT64:
        n.is_float = true;
        (void)fby__convert(FBY_FLOAT64, &n.real, dtype, p, 1, FBY__SCALE_NONE, &bad); /* widens: it cannot fail */
        return n;
    default:
        (void)fby__convert(FBY_INT64, &i, dtype, p, 1, FBY__SCALE_NONE, &bad); /* as above */
        n.integer = i;
    }
    n.real = (double)n.integer;
    return n;
}

static bool is_number(const fby__h5_attribute *a)
{
    return has_elements(a, 1) && (a->type->class == FBY__H5_INTEGER || a->type->class == FBY__H5_FLOAT) &&
           fby__h5_type_dtype(a->type) != FBY_DTYPE_NONE;
}

/* Element i of a numeric attribute, which has it. */
static number number_element(const fby__h5_attribute *a, uint64_t i)
{
    uint64_t value = 0;
    fby__h5_type_convert(a->type, a->data.data + i * a->type->bytes, a->type->bytes, 1, &value);
    return to_number(fby__h5_type_dtype(a->type), &value);
}

/* ---- dimensions ---- */

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool good_name(const char *name) { return *name && strlen(name) <= 255 && fby__schema_text_valid(name, strlen(name)); }

static int compare_scales(const void *x, const void *y)
{
    const fby__h5_scale *a = x, *b = y;
    return (a->address > b->address) - (a->address < b->address);
}

static int compare_numbers(const void *x, const void *y)
{
    const fby__h5_scale *a = x, *b = y;
    return (a->number > b->number) - (a->number < b->number);
}

static bool is_scale(const fby__h5_object *object) { return text_begins(fby__h5_attribute_find(object, "CLASS"), "DIMENSION_SCALE"); }

/* Every dimension scale of the file, once: n by address, then the same by number. */
static fby_status read_scales(fby__h5_opening *o, fby_error *err)
{
    if (o->scales_read)
        return FBY_OK;
    uint32_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && n > 0 && !(o->scales = fby__arena_alloc(&o->arena, 2 * (size_t)n * sizeof *o->scales)))
            return fby__fail_nomem(err, "dimension scales");
        n = 0;
        for (uint32_t i = 0; i < o->tree.n; i++) {
            const fby__h5_entry *e = &o->tree.entries[i];
            if (e->alias || !e->object || e->object->kind != FBY__H5_DATASET || !is_scale(e->object))
                continue;
            if (pass == 1) {
                const fby__h5_attribute *id = fby__h5_attribute_find(e->object, "_Netcdf4Dimid");
                number value = is_number(id) ? number_element(id, 0) : (number){.is_float = true};
                o->scales[n] =
                    (fby__h5_scale){e->object->address, value.is_float ? NO_DIMENSION : (int64_t)value.integer, last_name(e->path)};
            }
            n++;
        }
    }
    o->n_scales = n;
    if (n > 0) {
        memcpy(o->scales + n, o->scales, n * sizeof *o->scales);
        qsort(o->scales, n, sizeof *o->scales, compare_scales);
        qsort(o->scales + n, n, sizeof *o->scales, compare_numbers);
    }
    o->scales_read = true;
    return FBY_OK;
}

static const char *scale_at(const fby__h5_opening *o, uint64_t address)
{
    fby__h5_scale key = {.address = address};
    const fby__h5_scale *s = o->n_scales ? bsearch(&key, o->scales, o->n_scales, sizeof key, compare_scales) : NULL;
    return s ? s->name : NULL;
}

static const char *scale_numbered(const fby__h5_opening *o, number id)
{
    fby__h5_scale key = {.number = id.is_float || id.integer > INT64_MAX ? NO_DIMENSION : (int64_t)id.integer};
    if (key.number == NO_DIMENSION || o->n_scales == 0)
        return NULL;
    const fby__h5_scale *s = bsearch(&key, o->scales + o->n_scales, o->n_scales, sizeof key, compare_numbers);
    return s ? s->name : NULL;
}

/* Axis i by DIMENSION_LIST. */
static fby_status listed_scale(fby__h5_opening *o, const fby__h5_attribute *list, uint32_t i, const char **out, fby_error *err)
{
    fby__bytes reference;
    FBY__TRY(heap_element(o, list->data.data + (size_t)i * list->type->bytes, &reference, err));
    uint64_t address = 0;
    if (reference.n >= o->f->offset_bytes && reference.n > 0) {
        memcpy(&address, reference.data, o->f->offset_bytes);
        *out = scale_at(o, address);
    }
    return FBY_OK;
}

static bool is_dimension_list(const fby__h5_opening *o, const fby__h5_attribute *a, uint32_t rank)
{
    return o->f && has_elements(a, rank) && a->type->class == FBY__H5_VLEN && !a->type->vlen_string &&
           a->type->bytes == 8u + o->f->offset_bytes && a->type->base && a->type->base->class == FBY__H5_REFERENCE &&
           a->type->base->reference == 0;
}

fby_status fby__h5_dims(fby__h5_opening *o, fby__h5_candidate *c, fby_error *err)
{
    if (c->dim_names)
        return FBY_OK;
    uint32_t rank = c->object->space.rank;
    const char **names = fby__arena_alloc(&o->arena, rank * sizeof *names);
    if (!names)
        return fby__fail_nomem(err, "the names of dimensions");
    FBY__TRY(read_scales(o, err));
    const fby__h5_attribute *list = fby__h5_attribute_find(c->attributes, "DIMENSION_LIST"),
                            *numbers = fby__h5_attribute_find(c->attributes, "_Netcdf4Coordinates"),
                            *labels = fby__h5_attribute_find(c->attributes, "DIMENSION_LABELS");
    for (uint32_t i = 0; i < rank; i++) {
        names[i] = NULL;
        if (is_dimension_list(o, list, rank))
            FBY__TRY(listed_scale(o, list, i, &names[i], err));
        if (!names[i] && is_number(numbers) && has_elements(numbers, rank))
            names[i] = scale_numbered(o, number_element(numbers, i));
        if (!names[i] && rank == 1 && is_scale(c->attributes))
            names[i] = last_name(c->path);
        if (!names[i] && has_elements(labels, rank))
            FBY__TRY(text_element(o, labels, i, &names[i], err));
        if (names[i] && !good_name(names[i]))
            names[i] = NULL;
    }
    c->dim_names = names;
    return FBY_OK;
}

/* ---- missing values ---- */

/* The value in a dtype, as its bytes. False when the dtype cannot hold it: then no stored value is it. */
static bool to_stored(number n, fby_dtype dtype, uint64_t *out)
{
    size_t bad;
    *out = 0;
    if (fby__dtype_is_float(dtype)) {
        double back;
        (void)fby__convert(dtype, out, FBY_FLOAT64, &n.real, 1, FBY__SCALE_NONE, &bad); /* what is too large is infinite: below */
        (void)fby__convert(FBY_FLOAT64, &back, dtype, out, 1, FBY__SCALE_NONE, &bad);
        return isfinite(back) || !isfinite(n.real);
    }
    if (n.is_float) {
        if (!(n.real >= -0x1p63 && n.real < 0x1p64) || n.real != trunc(n.real))
            return false;
        n.integer = (__int128)n.real;
    }
    if (n.integer > INT64_MAX) {
        *out = (uint64_t)n.integer;
        return n.integer <= UINT64_MAX && dtype == FBY_UINT64;
    }
    if (n.integer < INT64_MIN)
        return false;
    int64_t value = (int64_t)n.integer;
    return fby__convert(dtype, out, FBY_INT64, &value, 1, FBY__SCALE_NONE, &bad) == FBY_OK;
}

/* @packed  the dtype as the file states it: _Unsigned gives the same bytes another reading, and attributes are written in either. */
static void add_missing(fby__h5_leaf *leaf, const fby__h5_attribute *a, fby_dtype packed, const char **out_why)
{
    uint64_t n = is_number(a) && has_elements(a, a->space.n_elements) ? a->space.n_elements : 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value;
        number stated = number_element(a, i);
        if (!to_stored(stated, packed, &value) && !to_stored(stated, leaf->stored, &value))
            continue;
        bool known = false;
        for (uint32_t k = 0; k < leaf->n_missing; k++)
            known |= leaf->missing[k] == value;
        if (known)
            continue;
        if (leaf->n_missing == FBY__H5_MAX_MISSING) {
            *out_why = "missing_value lists more than 8 values (as stored it can be read)";
            return;
        }
        leaf->missing[leaf->n_missing++] = value;
    }
}

/* A bound in the stored dtype. As netCDF4-python has it, one that the dtype cannot hold exactly does not count, nor does NaN. */
static bool bound_of(const fby__h5_leaf *leaf, const fby__h5_attribute *a, uint64_t i, fby_dtype packed, uint64_t *out)
{
    const number stated = number_element(a, i);
    if (!to_stored(stated, packed, out) && !to_stored(stated, leaf->stored, out))
        return false;
    if (!fby__dtype_is_float(leaf->stored))
        return true;
    double back;
    size_t bad;
    (void)fby__convert(FBY_FLOAT64, &back, leaf->stored, out, 1, FBY__SCALE_NONE, &bad); /* widens: it cannot fail */
    return back == stated.real;
}

/* valid_range, and only without it valid_min and valid_max. */
static void add_range(const fby__h5_object *attributes, fby__h5_leaf *leaf, fby_dtype packed)
{
    const fby__h5_attribute *range = fby__h5_attribute_find(attributes, "valid_range"),
                            *least = fby__h5_attribute_find(attributes, "valid_min"),
                            *most = fby__h5_attribute_find(attributes, "valid_max");
    if (is_number(range) && range->space.n_elements == 2 && has_elements(range, 2) && bound_of(leaf, range, 0, packed, &leaf->least) &&
        bound_of(leaf, range, 1, packed, &leaf->most)) {
        leaf->has_least = leaf->has_most = true;
        return;
    }
    leaf->has_least = is_number(least) && has_elements(least, 1) && bound_of(leaf, least, 0, packed, &leaf->least);
    leaf->has_most = is_number(most) && has_elements(most, 1) && bound_of(leaf, most, 0, packed, &leaf->most);
}

/* Written by the NetCDF library, whose variables hold its default fill value wherever nothing was written. */
static bool is_netcdf(const fby__h5_opening *o, const fby__h5_object *attributes)
{
    const fby__h5_object *root = o->tree.n ? o->tree.entries[0].object : NULL;
    return (root && fby__h5_attribute_find(root, "_NCProperties")) || fby__h5_attribute_find(attributes, "_Netcdf4Dimid") ||
           fby__h5_attribute_find(attributes, "_Netcdf4Coordinates");
}

/* NC_FILL_* of netcdf.h; bytes have none that readers heed. */
static bool default_fill(fby_dtype dtype, uint64_t *out)
{
    static const double REAL = 9.9692099683868690e+36;
    number fill = {.is_float = false};
    switch (dtype) {
    case FBY_INT16: fill.integer = -32767; break;
    case FBY_UINT16: fill.integer = 65535; break;
    case FBY_INT32: fill.integer = -2147483647; break;
    case FBY_UINT32: fill.integer = 4294967295; break;
    case FBY_INT64: fill.integer = -9223372036854775806; break;
    case FBY_UINT64: fill.integer = (__int128)UINT64_MAX - 1; break;
    case FBY_FLOAT32:
    case FBY_FLOAT64: fill = (number){.is_float = true, .real = dtype == FBY_FLOAT32 ? (double)(float)REAL : REAL}; break;
    default: return false;
    }
    fill.real = fill.is_float ? fill.real : (double)fill.integer;
    return to_stored(fill, dtype, out);
}

bool fby__h5_default_fill(const fby__h5_opening *o, const fby__h5_object *attributes, const fby__h5_type *type, uint64_t *out)
{
    return (type->class == FBY__H5_INTEGER || type->class == FBY__H5_FLOAT) && !fby__h5_attribute_find(attributes, "_FillValue") &&
           is_netcdf(o, attributes) && default_fill(fby__h5_type_dtype(type), out);
}

/* ---- packed numbers ---- */

static fby_dtype signed_dtype(fby_dtype dtype, bool is_signed)
{
    switch (dtype) {
    case FBY_INT8:
    case FBY_UINT8: return is_signed ? FBY_INT8 : FBY_UINT8;
    case FBY_INT16:
    case FBY_UINT16: return is_signed ? FBY_INT16 : FBY_UINT16;
    case FBY_INT32:
    case FBY_UINT32: return is_signed ? FBY_INT32 : FBY_UINT32;
    case FBY_INT64:
    case FBY_UINT64: return is_signed ? FBY_INT64 : FBY_UINT64;
    default: return dtype;
    }
}

static fby_status apply_unsigned(fby__h5_opening *o, const fby__h5_object *attributes, fby__h5_leaf *leaf, fby_error *err)
{
    const char *text;
    FBY__TRY(fby__h5_attribute_text(o, fby__h5_attribute_find(attributes, "_Unsigned"), &text, err));
    if (!text || leaf->type->class != FBY__H5_INTEGER)
        return FBY_OK;
    bool to_signed = strcasecmp(text, "false") == 0;
    if ((!to_signed && strcasecmp(text, "true") != 0) || leaf->type->is_signed == to_signed)
        return FBY_OK;
    fby__h5_type *type = fby__arena_alloc(&o->arena, sizeof *type);
    if (!type)
        return fby__fail_nomem(err, "a type");
    *type = *leaf->type;
    type->is_signed = to_signed;
    leaf->type = type;
    leaf->stored = leaf->dtype = signed_dtype(leaf->stored, to_signed);
    return FBY_OK;
}

static bool fits_float32(fby_dtype dtype) { return fby_dtype_bytes(dtype) <= 2 || dtype == FBY_FLOAT32; }

static void apply_scale(const fby__h5_object *attributes, fby__h5_leaf *leaf)
{
    const fby__h5_attribute *a[2] = {fby__h5_attribute_find(attributes, "scale_factor"), fby__h5_attribute_find(attributes, "add_offset")};
    double value[2] = {1, 0};
    bool narrow = true;
    for (int i = 0; i < 2; i++) {
        if (!is_number(a[i]) || a[i]->space.n_elements != 1) {
            a[i] = NULL;
            continue;
        }
        value[i] = number_element(a[i], 0).real;
        fby_dtype dtype = fby__h5_type_dtype(a[i]->type);
        narrow &= dtype == FBY_FLOAT32 || dtype == FBY_FLOAT16 || dtype == FBY_BFLOAT16;
    }
    /* One of them alone that changes nothing is as if it were not there; both say that the data is packed. */
    if ((!a[0] && !a[1]) || ((!a[0] || !a[1]) && value[0] == 1 && value[1] == 0))
        return;
    leaf->scaled = true;
    leaf->scale_factor = value[0];
    leaf->add_offset = value[1];
    leaf->dtype = narrow && fits_float32(leaf->stored) ? FBY_FLOAT32 : FBY_FLOAT64;
}

fby_status fby__h5_conventions(fby__h5_opening *o, const fby__h5_object *attributes, fby__h5_leaf *leaf, const char **out_why,
                               fby_error *err)
{
    *out_why = NULL;
    if (leaf->type->class != FBY__H5_INTEGER && leaf->type->class != FBY__H5_FLOAT)
        return FBY_OK; /* an enum's or a bool's numbers are names */
    fby_dtype packed = leaf->stored;
    if (fby__h5_default_fill(o, attributes, leaf->type, &leaf->missing[0]))
        leaf->n_missing = 1;
    FBY__TRY(apply_unsigned(o, attributes, leaf, err));
    add_missing(leaf, fby__h5_attribute_find(attributes, "_FillValue"), packed, out_why);
    add_missing(leaf, fby__h5_attribute_find(attributes, "missing_value"), packed, out_why);
    add_range(attributes, leaf, packed);
    apply_scale(attributes, leaf);
    return FBY_OK;
}
