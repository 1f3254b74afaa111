/*
 * The loops of convert.c, compiled once for each instruction set: included with TARGET (a function attribute) and NAME(x) (the
 * name of x for it) defined. Plain loops, written for the vectoriser: work in blocks of BLOCK, notice bad values with an OR,
 * and look for the first one only when there is one. No include guard: that is the point.
 *
 * Each function converts n values and returns the index of the first that does not fit, or n.
 */

/* Element types that may lie at any address: values are taken straight from page bytes. */
#define LOOP(D, d, S, s, CONVERT, BAD) LOOP_SUSPECT(D, d, S, s, CONVERT, BAD, BAD)
/* SUSPECT, which is cheaper, is true of every bad value; where it is true of any, BAD says of which. */
#define LOOP_SUSPECT(D, d, S, s, CONVERT, SUSPECT, BAD)                                                                                    \
    TARGET static size_t NAME(d##_from_##s)(void *dst, const void *src, size_t n)                                                          \
    {                                                                                                                                      \
        D##_any *out = dst;                                                                                                                \
        const S##_any *in = src;                                                                                                           \
        for (size_t at = 0; at < n; at += BLOCK) {                                                                                         \
            const size_t end = n - at < BLOCK ? n : at + BLOCK;                                                                            \
            unsigned bad = 0;                                                                                                              \
            for (size_t i = at; i < end; i++) {                                                                                            \
                const S v = in[i];                                                                                                         \
                const D w = (D)(CONVERT);                                                                                                  \
                out[i] = w;                                                                                                                \
                bad |= (unsigned)(SUSPECT);                                                                                                \
            }                                                                                                                              \
            if (__builtin_expect(bad != 0, 0))                                                                                             \
                for (size_t i = at; i < end; i++) {                                                                                        \
                    const S v = in[i];                                                                                                     \
                    const D w = (D)(CONVERT);                                                                                              \
                    (void)w;                                                                                                               \
                    if (BAD)                                                                                                               \
                        return i;                                                                                                          \
                }                                                                                                                          \
        }                                                                                                                                  \
        return n;                                                                                                                          \
    }

#define SAME_SIGN(D, d, S, s) LOOP(D, d, S, s, v, (S)w != v)
#define TO_UNSIGNED(D, d, S, s) LOOP(D, d, S, s, v, ((S)w != v) | (v < 0))
#define TO_SIGNED(D, d, S, s) LOOP(D, d, S, s, v, ((S)w != v) | (w < 0))
#define ANY(D, d, S, s) LOOP(D, d, S, s, v, 0)
#define TO_BOOL(S, s) LOOP(uint8_t, b, S, s, v != 0, (v != 0) & (v != 1))
/* LOW and HIGH: the float values just outside; inside, truncation fits. NaN is outside. */
#define TRUNCATED(D, d, S, s, LOW, HIGH)                                                                                                   \
    LOOP(D, d, S, s, (((double)v LOW) & ((double)v HIGH)) ? v : 0, !(((double)v LOW) & ((double)v HIGH)))

/* clang-format off */
#define INTEGERS(TO_S, TO_U, S, s)                                                                                                         \
    TO_S(int8_t, i8, S, s)                                                                                                                 \
    TO_S(int16_t, i16, S, s)                                                                                                               \
    TO_S(int32_t, i32, S, s)                                                                                                               \
    TO_S(int64_t, i64, S, s)                                                                                                               \
    TO_U(uint8_t, u8, S, s)                                                                                                                \
    TO_U(uint16_t, u16, S, s)                                                                                                              \
    TO_U(uint32_t, u32, S, s)                                                                                                              \
    TO_U(uint64_t, u64, S, s)
#define INTEGERS_FROM_FLOAT(S, s)                                                                                                          \
    TRUNCATED(int8_t, i8, S, s, > -129.0, < 128.0)                                                                                         \
    TRUNCATED(int16_t, i16, S, s, > -32769.0, < 32768.0)                                                                                   \
    TRUNCATED(int32_t, i32, S, s, > -2147483649.0, < 2147483648.0)                                                                         \
    TRUNCATED(int64_t, i64, S, s, >= -0x1p63, < 0x1p63)                                                                                    \
    TRUNCATED(uint8_t, u8, S, s, > -1.0, < 256.0)                                                                                          \
    TRUNCATED(uint16_t, u16, S, s, > -1.0, < 65536.0)                                                                                      \
    TRUNCATED(uint32_t, u32, S, s, > -1.0, < 4294967296.0)                                                                                 \
    TRUNCATED(uint64_t, u64, S, s, > -1.0, < 0x1p64)
/* clang-format on */
#define FLOATS(S, s) ANY(float, f32, S, s) ANY(double, f64, S, s)
#define NARROWED(S, s)                                                                                                                     \
    LOOP_SUSPECT(float, f32, S, s, v, FBY__BEYOND_FLOAT(v), FBY__OVERFLOWS_FLOAT(v))                                                       \
    ANY(double, f64, S, s)

#define FROM_SIGNED(S, s) INTEGERS(SAME_SIGN, TO_UNSIGNED, S, s) FLOATS(S, s) TO_BOOL(S, s)
#define FROM_UNSIGNED(S, s) INTEGERS(TO_SIGNED, SAME_SIGN, S, s) FLOATS(S, s) TO_BOOL(S, s)
#define FROM_FLOAT(S, s, TO_FLOATS) INTEGERS_FROM_FLOAT(S, s) TO_FLOATS(S, s) TO_BOOL(S, s)

FROM_SIGNED(int8_t, i8)
FROM_SIGNED(int16_t, i16)
FROM_SIGNED(int32_t, i32)
FROM_SIGNED(int64_t, i64)
FROM_UNSIGNED(uint8_t, u8)
FROM_UNSIGNED(uint16_t, u16)
FROM_UNSIGNED(uint32_t, u32)
FROM_UNSIGNED(uint64_t, u64)
FROM_FLOAT(float, f32, FLOATS)
FROM_FLOAT(double, f64, NARROWED)

/* The first of n ≤ BLOCK floats that is finite and, without its sign, at least `limit`, as bits; n when there is none. */
TARGET static size_t NAME(find_overflow)(const float *in, size_t n, uint32_t limit)
{
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= (unsigned)((bits_of(in[i]) & 0x7fffffff) - limit < 0x7f800000 - limit);
    for (size_t i = 0; __builtin_expect(bad != 0, 0) && i < n; i++)
        if ((bits_of(in[i]) & 0x7fffffff) - limit < 0x7f800000 - limit)
            return i;
    return n;
}

/* The 16-bit floats, from and to float. */
TARGET static void NAME(bf16_from_float)(void *dst, const float *in, size_t n)
{
    uint16_t_any *out = dst;
    for (size_t i = 0; i < n; i++)
        out[i] = fby__float_to_bfloat16(in[i]);
}

TARGET static void NAME(float_from_bf16)(float *out, const void *src, size_t n)
{
    const uint16_t_any *in = src;
    for (size_t i = 0; i < n; i++)
        out[i] = fby__bfloat16_to_float(in[i]);
}

#define ROW_OF(s)                                                                                                                          \
    {                                                                                                                                      \
        [FBY_BOOL] = NAME(b_from_##s), [FBY_INT8] = NAME(i8_from_##s), [FBY_INT16] = NAME(i16_from_##s), [FBY_INT32] = NAME(i32_from_##s), \
        [FBY_INT64] = NAME(i64_from_##s), [FBY_UINT8] = NAME(u8_from_##s), [FBY_UINT16] = NAME(u16_from_##s),                              \
        [FBY_UINT32] = NAME(u32_from_##s), [FBY_UINT64] = NAME(u64_from_##s), [FBY_FLOAT32] = NAME(f32_from_##s),                          \
        [FBY_FLOAT64] = NAME(f64_from_##s)                                                                                                 \
    }

static const loop_table NAME(LOOPS) = {
    .loop = {[FBY_BOOL] = ROW_OF(u8),
             [FBY_INT8] = ROW_OF(i8),
             [FBY_INT16] = ROW_OF(i16),
             [FBY_INT32] = ROW_OF(i32),
             [FBY_INT64] = ROW_OF(i64),
             [FBY_UINT8] = ROW_OF(u8),
             [FBY_UINT16] = ROW_OF(u16),
             [FBY_UINT32] = ROW_OF(u32),
             [FBY_UINT64] = ROW_OF(u64),
             [FBY_FLOAT32] = ROW_OF(f32),
             [FBY_FLOAT64] = ROW_OF(f64)},
    .bf16_from_float = NAME(bf16_from_float),
    .float_from_bf16 = NAME(float_from_bf16),
    .find_overflow = NAME(find_overflow),
};

#undef LOOP
#undef SAME_SIGN
#undef TO_UNSIGNED
#undef TO_SIGNED
#undef ANY
#undef TO_BOOL
#undef TRUNCATED
#undef INTEGERS_FROM_SIGNED
#undef INTEGERS_FROM_UNSIGNED
#undef INTEGERS_FROM_FLOAT
#undef FLOATS
#undef NARROWED
#undef FROM_SIGNED
#undef FROM_UNSIGNED
#undef FROM_FLOAT
#undef ROW_OF
#undef TARGET
#undef NAME
