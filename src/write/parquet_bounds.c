/*
 * The least and the greatest of some values, by the order that parquet.thrift gives to the column's type (ColumnOrder).
 *
 * Floats: NaN is left out; a zero among the bounds is −0 below and +0 above, whatever was stored, since readers disagree on their order.
 */
#include "write/parquet_impl.h"

#include "block/convert.h"

#include <math.h>

/*
 * Lanes, so that compilers may use vectors: the order in which values meet does not matter. LESS(NaN, x) and LESS(x, NaN) are false: NaN is
 * passed over.
 */
#define LANES 16
#define DEFINE_RANGE(NAME, TYPE, LOW, HIGH)                                                                                                \
    static bool NAME(const uint8_t *values, size_t n, void *least, void *greatest)                                                         \
    {                                                                                                                                      \
        typedef TYPE unaligned __attribute__((aligned(1), may_alias));                                                                     \
        const unaligned *in = (const unaligned *)(const void *)values;                                                                     \
        TYPE low[LANES], high[LANES];                                                                                                      \
        for (unsigned k = 0; k < LANES; k++) {                                                                                             \
            low[k] = HIGH;                                                                                                                 \
            high[k] = LOW;                                                                                                                 \
        }                                                                                                                                  \
        size_t i = 0;                                                                                                                      \
        for (; i + LANES <= n; i += LANES)                                                                                                 \
            for (unsigned k = 0; k < LANES; k++) {                                                                                         \
                const TYPE v = in[i + k];                                                                                                  \
                low[k] = v < low[k] ? v : low[k];                                                                                          \
                high[k] = v > high[k] ? v : high[k];                                                                                       \
            }                                                                                                                              \
        for (; i < n; i++) {                                                                                                               \
            low[0] = in[i] < low[0] ? in[i] : low[0];                                                                                      \
            high[0] = in[i] > high[0] ? in[i] : high[0];                                                                                   \
        }                                                                                                                                  \
        for (unsigned k = 1; k < LANES; k++) {                                                                                             \
            low[0] = low[k] < low[0] ? low[k] : low[0];                                                                                    \
            high[0] = high[k] > high[0] ? high[k] : high[0];                                                                               \
        }                                                                                                                                  \
        memcpy(least, &low[0], sizeof(TYPE));                                                                                              \
        memcpy(greatest, &high[0], sizeof(TYPE));                                                                                          \
        return low[0] <= high[0];                                                                                                          \
    }

DEFINE_RANGE(range_u8, uint8_t, 0, UINT8_MAX)
DEFINE_RANGE(range_i32, int32_t, INT32_MIN, INT32_MAX)
DEFINE_RANGE(range_u32, uint32_t, 0, UINT32_MAX)
DEFINE_RANGE(range_i64, int64_t, INT64_MIN, INT64_MAX)
DEFINE_RANGE(range_u64, uint64_t, 0, UINT64_MAX)
DEFINE_RANGE(range_f32, float, -INFINITY, INFINITY)
DEFINE_RANGE(range_f64, double, -(double)INFINITY, (double)INFINITY)

/* float16, as an integer in the same order; NaN has none. */
static bool f16_key(uint16_t bits, int32_t *key)
{
    const int32_t size = bits & 0x7fff;
    *key = bits & 0x8000 ? -size : size;
    return size <= 0x7c00;
}

static bool range_f16(const uint8_t *values, size_t n, void *least, void *greatest)
{
    int32_t low = INT32_MAX, high = INT32_MIN, key;
    for (size_t i = 0; i < n; i++) {
        const uint16_t bits = fby__load_u16(values + 2 * i);
        if (!f16_key(bits, &key))
            continue;
        if (key < low || key > high) {
            if (key < low)
                memcpy(least, &bits, 2);
            if (key > high)
                memcpy(greatest, &bits, 2);
            low = key < low ? key : low;
            high = key > high ? key : high;
        }
    }
    return low <= high;
}

static int compare_big_endian(const uint8_t *a, const uint8_t *b, size_t n)
{
    const int sign = (int8_t)a[0] - (int8_t)b[0];
    return sign ? sign : memcmp(a + 1, b + 1, n - 1);
}

static bool range_big_endian(const uint8_t *values, size_t width, size_t n, uint8_t *least, uint8_t *greatest)
{
    const uint8_t *low = values, *high = values;
    for (size_t i = 1; i < n; i++) {
        const uint8_t *v = values + i * width;
        low = compare_big_endian(v, low, width) < 0 ? v : low;
        high = compare_big_endian(v, high, width) > 0 ? v : high;
    }
    memcpy(least, low, width);
    memcpy(greatest, high, width);
    return true;
}

/* Zeros of n bytes get the sign that is safe on their side: the sign bit is the last of a little-endian float. */
static void settle_zeros(fby__pqw_bounds *b, size_t n)
{
    for (int which = 0; which < 2; which++) {
        uint8_t *v = b->number[which], bits = v[n - 1] & 0x7f;
        for (size_t i = 0; i + 1 < n; i++)
            bits |= v[i];
        if (bits == 0)
            v[n - 1] = which == 0 ? 0x80 : 0;
    }
}

fby__pqw_bounds fby__pqw_bounds_of(const fby__pqw_leaf *leaf, const uint8_t *values, size_t n)
{
    fby__pqw_bounds b = {0};
    uint8_t *low = b.number[0], *high = b.number[1];
    if (n == 0)
        return b;
    switch (leaf->order) {
    case FBY__PQW_ORDER_BOOL: b.there = range_u8(values, n, low, high); break;
    case FBY__PQW_ORDER_I32: b.there = range_i32(values, n, low, high); break;
    case FBY__PQW_ORDER_U32: b.there = range_u32(values, n, low, high); break;
    case FBY__PQW_ORDER_I64: b.there = range_i64(values, n, low, high); break;
    case FBY__PQW_ORDER_U64: b.there = range_u64(values, n, low, high); break;
    case FBY__PQW_ORDER_F16: b.there = range_f16(values, n, low, high); break;
    case FBY__PQW_ORDER_F32: b.there = range_f32(values, n, low, high); break;
    case FBY__PQW_ORDER_F64: b.there = range_f64(values, n, low, high); break;
    case FBY__PQW_ORDER_BIG_ENDIAN: b.there = range_big_endian(values, leaf->value_bytes, n, low, high); break;
    case FBY__PQW_ORDER_BYTES:
    case FBY__PQW_UNORDERED: break;
    }
    if (leaf->order == FBY__PQW_ORDER_F16 || leaf->order == FBY__PQW_ORDER_F32 || leaf->order == FBY__PQW_ORDER_F64)
        settle_zeros(&b, leaf->value_bytes);
    return b;
}

/* ---- strings ---- */

static int compare_strings(const fby__pq_string *a, const fby__pq_string *b)
{
    const uint32_t n = a->n < b->n ? a->n : b->n;
    const int order = n ? memcmp(a->data, b->data, n) : 0;
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

void fby__pqw_bounds_add_strings(fby__pqw_bounds *b, const fby__pq_string *values, size_t n)
{
    if (n && !b->there)
        b->text[0] = b->text[1] = values[0];
    b->there |= n > 0;
    for (size_t i = 0; i < n; i++) {
        if (compare_strings(&values[i], &b->text[0]) < 0)
            b->text[0] = values[i];
        else if (compare_strings(&values[i], &b->text[1]) > 0)
            b->text[1] = values[i];
    }
}

/* ---- both ---- */

#define COMPARE_AS(TYPE)                                                                                                                   \
    do {                                                                                                                                   \
        TYPE left, right;                                                                                                                  \
        memcpy(&left, x, sizeof left);                                                                                                     \
        memcpy(&right, y, sizeof right);                                                                                                   \
        return (left > right) - (left < right);                                                                                            \
    } while (0)

int fby__pqw_bounds_compare(const fby__pqw_leaf *leaf, const fby__pqw_bounds *a, const fby__pqw_bounds *b, int which)
{
    const uint8_t *x = a->number[which], *y = b->number[which];
    int32_t left_key, right_key;
    switch (leaf->order) {
    case FBY__PQW_ORDER_BOOL: return x[0] - y[0];
    case FBY__PQW_ORDER_I32: COMPARE_AS(int32_t);
    case FBY__PQW_ORDER_U32: COMPARE_AS(uint32_t);
    case FBY__PQW_ORDER_I64: COMPARE_AS(int64_t);
    case FBY__PQW_ORDER_U64: COMPARE_AS(uint64_t);
    case FBY__PQW_ORDER_F16:
        (void)f16_key(fby__load_u16(x), &left_key); /* no bound is NaN */
        (void)f16_key(fby__load_u16(y), &right_key);
        return left_key - right_key;
    case FBY__PQW_ORDER_F32: COMPARE_AS(float);
    case FBY__PQW_ORDER_F64: COMPARE_AS(double);
    case FBY__PQW_ORDER_BIG_ENDIAN: return compare_big_endian(x, y, leaf->value_bytes);
    default: return compare_strings(&a->text[which], &b->text[which]);
    }
}

void fby__pqw_bounds_join(const fby__pqw_leaf *leaf, fby__pqw_bounds *b, const fby__pqw_bounds *more)
{
    if (!b->there) {
        *b = *more;
        return;
    }
    for (int which = 0; more->there && which < 2; which++) {
        const int order = fby__pqw_bounds_compare(leaf, more, b, which);
        if (which == 0 ? order < 0 : order > 0) {
            memcpy(b->number[which], more->number[which], sizeof b->number[which]);
            b->text[which] = more->text[which];
        }
    }
}

/*
 * The first n bytes of what is to be a bound above: the last of them that can be is made one greater, and what follows it is dropped. A
 * UTF-8 character is never cut, and its last byte stays one (0x80 … 0xbf behind others, else below 0x80). 0 when there is no such byte.
 */
static size_t raise_last(uint8_t *text, size_t n, bool is_utf8)
{
    for (; n > 0; n--) {
        uint8_t *last = &text[n - 1];
        if (is_utf8 ? *last < 0x7f || (*last >= 0x80 && *last < 0xbf) : *last < 0xff) {
            ++*last;
            return n;
        }
        while (is_utf8 && n > 1 && (text[n - 1] & 0xc0) == 0x80) /* the whole character goes */
            n--;
    }
    return 0;
}

fby__bytes fby__pqw_bounds_text(const fby__pqw_leaf *leaf, bool is_utf8, const fby__pqw_bounds *b, int which,
                                uint8_t scratch[FBY__PQW_BOUND_BYTES], bool *exact)
{
    *exact = true;
    if (leaf->order != FBY__PQW_ORDER_BYTES)
        return (fby__bytes){b->number[which], leaf->value_bytes};
    const fby__pq_string *whole = &b->text[which];
    const fby__bytes all = {whole->data, whole->n};
    if (whole->n <= FBY__PQW_BOUND_BYTES || leaf->physical == FBY__PQ_FLBA) /* of fixed-size values readers expect all bytes */
        return all;
    size_t n = FBY__PQW_BOUND_BYTES;
    while (is_utf8 && n > FBY__PQW_BOUND_BYTES - 4 && (whole->data[n] & 0xc0) == 0x80) /* to where a character begins */
        n--;
    memcpy(scratch, whole->data, n);
    if (which == 1)
        n = raise_last(scratch, n, is_utf8);
    *exact = n == 0;
    return n ? (fby__bytes){scratch, n} : all;
}
