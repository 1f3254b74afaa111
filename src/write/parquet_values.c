/* Arrow values → physical values, dense: nulls are left out, and so is what lies between the lists of a column. */
#include "write/parquet_impl.h"

#include "base/checked.h"

#define STRING_MOST ((int64_t)INT32_MAX - 64) /* a page counts its bytes in int32_t; with a length before it */

fby_status fby__pqw_room(fby__buf *b, size_t n, fby_error *err)
{
    if (n > b->cap && fby__grow((void **)&b->data, &b->cap, n, 1) != 0)
        return fby__fail_nomem(err, "a Parquet page");
    return FBY_OK;
}

fby__pqw_values fby__pqw_values_of(const fby__pqw_leaf *leaf, const fby__arrow_format *format, const struct ArrowArray *array,
                                   const fby__pqw_levels *levels)
{
    return (fby__pqw_values){.leaf = leaf, .array = array, .format = format, .run = levels->runs};
}

/* What is left of the run at hand, at most n; moves on behind it. *first is an index into the array's buffers. */
static size_t next_stretch(fby__pqw_values *v, size_t n, int64_t *first)
{
    const size_t stretch = (size_t)fby__min_u64(n, (uint64_t)(v->run->n - v->at));
    *first = v->array->offset + v->run->first + v->at;
    v->at += (int64_t)stretch;
    if (v->at == v->run->n) {
        v->run++;
        v->at = 0;
    }
    return stretch;
}

/* ---- conversions: n values from *in to *out ---- */

static void unpack_bits(const uint8_t *bitmap, int64_t first, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bitmap[((uint64_t)first + i) / 8] >> (((uint64_t)first + i) % 8) & 1;
}

#define DEFINE_WIDEN(NAME, TYPE)                                                                                                           \
    static void NAME(const void *in, uint8_t *out, size_t n)                                                                               \
    {                                                                                                                                      \
        for (size_t i = 0; i < n; i++)                                                                                                     \
            fby__store_u32(out + 4 * i, (uint32_t)((const TYPE *)in)[i]);                                                                  \
    }
DEFINE_WIDEN(widen_i8, int8_t)
DEFINE_WIDEN(widen_u8, uint8_t)
DEFINE_WIDEN(widen_i16, int16_t)
DEFINE_WIDEN(widen_u16, uint16_t)

static fby_status to_days(const int64_t *in, uint8_t *out, size_t n, fby_error *err)
{
    const int64_t day = 86400000;
    for (size_t i = 0; i < n; i++) {
        const int64_t days = in[i] / day - (in[i] % day < 0);
        if (days < INT32_MIN || days > INT32_MAX)
            return fby__fail(err, FBY_E_ARG, "the date of %lld ms is out of Parquet's range", (long long)in[i]);
        fby__store_u32(out + 4 * i, (uint32_t)days);
    }
    return FBY_OK;
}

static fby_status to_milliseconds(const void *in, bool wide, uint8_t *out, size_t n, fby_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const int64_t seconds = wide ? ((const int64_t *)in)[i] : ((const int32_t *)in)[i];
        int64_t ms;
        if (__builtin_mul_overflow(seconds, 1000, &ms) || (!wide && (ms < INT32_MIN || ms > INT32_MAX)))
            return fby__fail(err, FBY_E_ARG, "%lld s are more milliseconds than Parquet can hold", (long long)seconds);
        if (wide)
            fby__store_u64(out + 8 * i, (uint64_t)ms);
        else
            fby__store_u32(out + 4 * i, (uint32_t)ms);
    }
    return FBY_OK;
}

static void reverse(const uint8_t *in, size_t stride, uint8_t *out, size_t width, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            out[i * width + k] = in[i * stride + width - 1 - k];
}

/* n values side by side, from index `first` of the array's buffers. */
static fby_status convert(const fby__pqw_values *v, int64_t first, size_t n, uint8_t *out, fby_error *err)
{
    const fby__pqw_leaf *leaf = v->leaf;
    const uint8_t *in = v->array->buffers[1];
    const size_t stride = leaf->arrow_bytes, width = leaf->value_bytes;
    if (leaf->from == FBY__PQW_BITS) {
        unpack_bits(in, first, out, n);
        return FBY_OK;
    }
    in += (size_t)first * stride;
    switch (leaf->from) {
    case FBY__PQW_I8: widen_i8(in, out, n); break;
    case FBY__PQW_U8: widen_u8(in, out, n); break;
    case FBY__PQW_I16: widen_i16(in, out, n); break;
    case FBY__PQW_U16: widen_u16(in, out, n); break;
    case FBY__PQW_DAYS: return to_days((const int64_t *)(const void *)in, out, n, err);
    case FBY__PQW_SECONDS_32: return to_milliseconds(in, false, out, n, err);
    case FBY__PQW_SECONDS_64: return to_milliseconds(in, true, out, n, err);
    case FBY__PQW_NARROW:
        for (size_t i = 0; i < n; i++)
            memcpy(out + i * width, in + i * stride, width);
        break;
    case FBY__PQW_REVERSE: reverse(in, stride, out, width, n); break;
    default: memcpy(out, in, n * width);
    }
    return FBY_OK;
}

fby_status fby__pqw_next(fby__pqw_values *v, size_t n, fby__buf *scratch, fby__bytes *out, fby_error *err)
{
    const size_t width = v->leaf->value_bytes;
    int64_t first;
    *out = (fby__bytes){NULL, n * width};
    if (n == 0)
        return FBY_OK;
    if (v->leaf->from == FBY__PQW_COPY && (uint64_t)(v->run->n - v->at) >= n) {
        (void)next_stretch(v, n, &first); /* all of it */
        out->data = (const uint8_t *)v->array->buffers[1] + (size_t)first * width;
        return FBY_OK;
    }
    FBY__TRY(fby__pqw_room(scratch, n * width, err));
    out->data = scratch->data;
    for (size_t done = 0; done < n;) {
        const size_t stretch = next_stretch(v, n - done, &first);
        FBY__TRY(convert(v, first, stretch, scratch->data + done * width, err));
        done += stretch;
    }
    return FBY_OK;
}

/* ---- strings ---- */

/** An element of the buffer of a view array. */
typedef struct view {
    int32_t n;
    union {
        uint8_t here[12];
        struct {
            uint8_t prefix[4];
            int32_t buffer, offset;
        } there;
    };
} view;

static const uint8_t *bytes_at(const fby__pqw_values *v, int64_t at, int64_t *n)
{
    const struct ArrowArray *array = v->array;
    switch (v->format->storage) {
    case FBY__ARROW_VAR32: {
        const int32_t *offsets = array->buffers[1];
        *n = offsets[at + 1] - offsets[at];
        return *n ? (const uint8_t *)array->buffers[2] + offsets[at] : NULL;
    }
    case FBY__ARROW_VAR64: {
        const int64_t *offsets = array->buffers[1];
        *n = offsets[at + 1] - offsets[at];
        return *n ? (const uint8_t *)array->buffers[2] + offsets[at] : NULL;
    }
    case FBY__ARROW_VIEW: {
        const view *at_hand = (const view *)array->buffers[1] + at;
        *n = at_hand->n;
        return *n <= 12 ? at_hand->here : (const uint8_t *)array->buffers[2 + at_hand->there.buffer] + at_hand->there.offset;
    }
    default: *n = v->format->width; return (const uint8_t *)array->buffers[1] + (size_t)at * v->format->width;
    }
}

fby_status fby__pqw_next_strings(fby__pqw_values *v, size_t n, fby__pq_string *out, fby_error *err)
{
    for (size_t done = 0; done < n;) {
        int64_t first, n_bytes;
        const size_t stretch = next_stretch(v, n - done, &first);
        for (size_t i = 0; i < stretch; i++) {
            const uint8_t *data = bytes_at(v, first + (int64_t)i, &n_bytes);
            if (n_bytes > STRING_MOST)
                return fby__fail(err, FBY_E_UNSUPPORTED, "a value of %lld bytes is more than a Parquet page holds", (long long)n_bytes);
            out[done + i] = (fby__pq_string){.data = data, .n = (uint32_t)n_bytes};
        }
        done += stretch;
    }
    return FBY_OK;
}
