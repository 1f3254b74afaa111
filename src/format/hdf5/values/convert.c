/*
 * Stored values → values of a dtype, a tile at a time, in the L1 cache:
 *
 *     stored bytes ─► the file's dtype ─► missing ones noted ─► · scale_factor + add_offset (float64) ─► the column's dtype ─► the panel's
 *
 * A missing value is set aside before it is converted, for -9999 need not fit the panel's dtype.
 */
#include "format/hdf5/values/decode_internal.h"

enum { TILE = 512 };

void fby__h5_value_source(fby__h5_value *v, const fby__h5_type *type, uint32_t offset)
{
    v->type = type;
    v->offset = offset;
    v->src_bytes = type->bytes;
    v->native = v->dst != FBY_DTYPE_NONE && fby__h5_type_is_native(type) && fby_dtype_bytes(v->leaf->stored) == type->bytes;
    v->copy = v->native && v->dst == v->leaf->stored && !fby__h5_leaf_can_miss(v->leaf) && !v->leaf->scaled && v->unit.mul == v->unit.div;
    if (v->dst == FBY_DTYPE_NONE) {
        v->dst_bytes = type->bytes;
        v->copy = true;
    }
}

void fby__h5_value_open(fby__h5_value *v, const fby__h5_leaf *leaf, fby_dtype dst)
{
    *v =
        (fby__h5_value){.leaf = leaf, .dst = dst, .dst_bytes = fby_dtype_bytes(dst), .missing = FBY__MISSING_FILL, .unit = FBY__SCALE_NONE};
    fby__h5_value_source(v, leaf->type, leaf->offset);
}

/* ---- missing values ---- */

#define ANY_ADDRESS(T) typedef T T##_any __attribute__((aligned(1), may_alias));
ANY_ADDRESS(int8_t)
ANY_ADDRESS(int16_t)
ANY_ADDRESS(int32_t)
ANY_ADDRESS(int64_t)
ANY_ADDRESS(uint8_t)
ANY_ADDRESS(uint16_t)
ANY_ADDRESS(uint32_t)
ANY_ADDRESS(uint64_t)
ANY_ADDRESS(float)
ANY_ADDRESS(double)

/* flags[i] is cleared where a value equals `one`. */
#define DEFINE_MATCH(name, T)                                                                                                              \
    static void name(const void *values, size_t n, uint64_t one, uint8_t *flags)                                                           \
    {                                                                                                                                      \
        const T##_any *v = values;                                                                                                         \
        T want;                                                                                                                            \
        memcpy(&want, &one, sizeof want);                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                                     \
            flags[i] &= (uint8_t) !(v[i] == want);                                                                                         \
    }
DEFINE_MATCH(match_8, uint8_t)
DEFINE_MATCH(match_16, uint16_t)
DEFINE_MATCH(match_32, uint32_t)
DEFINE_MATCH(match_64, uint64_t)
DEFINE_MATCH(match_float, float)
DEFINE_MATCH(match_double, double)

static void match_nan(fby_dtype dtype, const void *values, size_t n, uint8_t *flags)
{
    const uint16_t_any *h = values;
    const float_any *f = values;
    const double_any *d = values;
    const uint16_t infinity = dtype == FBY_FLOAT16 ? 0x7c00 : 0x7f80; /* what lies beyond it is NaN */
    for (size_t i = 0; dtype == FBY_FLOAT32 && i < n; i++)
        flags[i] &= (uint8_t)(f[i] == f[i]);
    for (size_t i = 0; dtype == FBY_FLOAT64 && i < n; i++)
        flags[i] &= (uint8_t)(d[i] == d[i]);
    for (size_t i = 0; (dtype == FBY_FLOAT16 || dtype == FBY_BFLOAT16) && i < n; i++)
        flags[i] &= (uint8_t)((h[i] & 0x7fff) <= infinity);
}

static bool is_nan(fby_dtype dtype, uint64_t bits)
{
    uint8_t flag = 1;
    match_nan(dtype, &bits, 1, &flag);
    return !flag;
}

/* flags[i] is cleared where a value lies outside: NaN does not. */
#define DEFINE_RANGE(name, T)                                                                                                              \
    static void name(const fby__h5_leaf *leaf, const void *values, size_t n, uint8_t *flags)                                               \
    {                                                                                                                                      \
        const T##_any *v = values;                                                                                                         \
        T least, most;                                                                                                                     \
        memcpy(&least, &leaf->least, sizeof least);                                                                                        \
        memcpy(&most, &leaf->most, sizeof most);                                                                                           \
        for (size_t i = 0; leaf->has_least && i < n; i++)                                                                                  \
            flags[i] &= (uint8_t) !(v[i] < least);                                                                                         \
        for (size_t i = 0; leaf->has_most && i < n; i++)                                                                                   \
            flags[i] &= (uint8_t) !(v[i] > most);                                                                                          \
    }
DEFINE_RANGE(range_int8, int8_t)
DEFINE_RANGE(range_int16, int16_t)
DEFINE_RANGE(range_int32, int32_t)
DEFINE_RANGE(range_int64, int64_t)
DEFINE_RANGE(range_uint8, uint8_t)
DEFINE_RANGE(range_uint16, uint16_t)
DEFINE_RANGE(range_uint32, uint32_t)
DEFINE_RANGE(range_uint64, uint64_t)
DEFINE_RANGE(range_float, float)
DEFINE_RANGE(range_double, double)

/* Halves, as float32. */
static void range_half(const fby__h5_leaf *leaf, const void *values, size_t n, uint8_t *flags)
{
    fby__h5_leaf wide = *leaf;
    float real[TILE];
    size_t bad; /* widening cannot fail */
    (void)fby__convert(FBY_FLOAT32, &wide.least, leaf->stored, &leaf->least, 1, FBY__SCALE_NONE, &bad);
    (void)fby__convert(FBY_FLOAT32, &wide.most, leaf->stored, &leaf->most, 1, FBY__SCALE_NONE, &bad);
    (void)fby__convert(FBY_FLOAT32, real, leaf->stored, values, n, FBY__SCALE_NONE, &bad);
    range_float(&wide, real, n, flags);
}

static void find_outside(const fby__h5_leaf *leaf, const void *values, size_t n, uint8_t *flags)
{
    switch (leaf->stored) {
    case FBY_INT8: range_int8(leaf, values, n, flags); break;
    case FBY_INT16: range_int16(leaf, values, n, flags); break;
    case FBY_INT32: range_int32(leaf, values, n, flags); break;
    case FBY_INT64: range_int64(leaf, values, n, flags); break;
    case FBY_UINT8: range_uint8(leaf, values, n, flags); break;
    case FBY_UINT16: range_uint16(leaf, values, n, flags); break;
    case FBY_UINT32: range_uint32(leaf, values, n, flags); break;
    case FBY_UINT64: range_uint64(leaf, values, n, flags); break;
    case FBY_FLOAT32: range_float(leaf, values, n, flags); break;
    case FBY_FLOAT64: range_double(leaf, values, n, flags); break;
    default: range_half(leaf, values, n, flags);
    }
}

/* Which of n ≤ TILE values of the stored dtype are there? */
static void find_missing(const fby__h5_leaf *leaf, const void *values, size_t n, uint8_t *flags)
{
    memset(flags, 1, n);
    if (leaf->has_least || leaf->has_most)
        find_outside(leaf, values, n, flags);
    for (uint32_t m = 0; m < leaf->n_missing; m++) {
        const uint64_t one = leaf->missing[m];
        if (is_nan(leaf->stored, one)) {
            match_nan(leaf->stored, values, n, flags);
            continue;
        }
        switch (leaf->stored) {
        case FBY_FLOAT32: match_float(values, n, one, flags); continue;
        case FBY_FLOAT64: match_double(values, n, one, flags); continue;
        default: break;
        }
        switch (fby_dtype_bytes(leaf->stored)) {
        case 1: match_8(values, n, one, flags); break;
        case 2: match_16(values, n, one, flags); break;
        case 4: match_32(values, n, one, flags); break;
        default: match_64(values, n, one, flags);
        }
    }
}

/* ---- a tile ---- */

/* Values of leaf->stored at `values` → dst; *bad->at counts from the tile's start. */
static fby_status convert_values(const fby__h5_value *v, const void *values, size_t n, uint8_t *dst, fby__h5_bad *bad)
{
    const fby__h5_leaf *leaf = v->leaf;
    double real[TILE];
    uint8_t rounded[TILE * 8];
    fby_dtype dtype = leaf->stored;
    fby__scale unit = v->unit;
    if (leaf->scaled) {
        if (fby__convert(FBY_FLOAT64, real, dtype, values, n, FBY__SCALE_NONE, &bad->at) != FBY_OK)
            return FBY_E_DATA; /* no number fails this */
        for (size_t i = 0; i < n; i++)
            real[i] = real[i] * leaf->scale_factor + leaf->add_offset;
        values = real;
        dtype = FBY_FLOAT64;
        unit = FBY__SCALE_NONE;
        if (leaf->dtype != dtype && leaf->dtype != v->dst) { /* the column's values are those rounded to its dtype */
            if (fby__convert(leaf->dtype, rounded, dtype, values, n, unit, &bad->at) != FBY_OK)
                goto fail;
            values = rounded;
            dtype = leaf->dtype;
        }
    }
    if (fby__convert(v->dst, dst, dtype, values, n, unit, &bad->at) == FBY_OK)
        return FBY_OK;
fail:
    (void)fby__value_text(dtype, (const uint8_t *)values + bad->at * fby_dtype_bytes(dtype), bad->text, sizeof bad->text);
    return FBY_E_DATA;
}

static fby_status convert_tile(const fby__h5_value *v, const uint8_t *src, size_t stride, size_t n, uint8_t *dst, uint8_t *flags,
                               fby__h5_bad *bad)
{
    const fby__h5_leaf *leaf = v->leaf;
    const size_t stored = fby_dtype_bytes(leaf->stored);
    uint8_t values[TILE * 8];
    const void *from = values;
    if (v->native && stride == stored)
        from = src;
    else
        fby__h5_type_convert(v->type, src, stride, n, values);
    if (!fby__h5_leaf_can_miss(leaf)) {
        if (flags)
            memset(flags, 1, n);
        return convert_values(v, from, n, dst, bad);
    }
    uint8_t own[TILE];
    flags = flags ? flags : own;
    find_missing(leaf, from, n, flags);
    const uint8_t *first = memchr(flags, 0, n);
    if (!first)
        return convert_values(v, from, n, dst, bad);
    if (v->missing == FBY__MISSING_ERROR) {
        bad->at = (size_t)(first - flags);
        bad->missing = true;
        return FBY_E_DATA;
    }
    if (from != values)
        memcpy(values, from, n * stored);
    for (size_t i = (size_t)(first - flags); i < n; i++)
        if (!flags[i])
            memset(values + i * stored, 0, stored); /* zero converts to everything */
    fby_status status = convert_values(v, values, n, dst, bad);
    for (size_t i = (size_t)(first - flags); i < n; i++)
        if (!flags[i])
            memcpy(dst + i * v->dst_bytes, v->fill.bytes, v->dst_bytes);
    return status;
}

fby_status fby__h5_value_convert(const fby__h5_value *v, const uint8_t *src, size_t stride, size_t n, uint8_t *dst, uint8_t *flags,
                                 fby__h5_bad *bad)
{
    for (size_t done = 0; done < n;) {
        const size_t k = n - done < TILE ? n - done : TILE;
        bad->missing = false;
        fby_status status = convert_tile(v, src + done * stride, stride, k, dst + done * v->dst_bytes, flags ? flags + done : NULL, bad);
        if (status != FBY_OK) {
            bad->at += done;
            return status;
        }
        done += k;
    }
    return FBY_OK;
}
