/*
 * Bits: characters, packed bytes or base64 of them become elements that are 0 or 1.
 *
 * The loops are there for elements of 1, 2, 4 and 8 bytes: plain and for AVX2 (bits_loops.h: eight bits a vector), and for AVX-512, where 64
 * bits are a mask register and characters become them in one comparison. All give the same, and store as fast as memory takes it.
 *
 * Text with batches in the L3 cache is the exception: about 75 % of the rate of vector stores, where packed bits have 90. Every four bytes
 * written take one that is read, and vector stores with such reads in between reach no more; of text that lies in the L1 cache 84 % are
 * made. A row's characters are therefore read before its first element is written, which is 10 % faster than reading and writing in turn.
 * Zeroing 4, 32 or 128 KiB by memset first, fetching line by line, fetching two or four rows ahead, and stores of 32 bytes were no faster;
 * stores past the cache are 20 % faster where batches lie in memory, and a third slower in the L3 cache.
 */
#include "transform/maker_internal.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "block/panel.h"
#include "transform/make_values.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MAX_BITS ((uint64_t)1 << 28)
/* Bytes. Of packed bits, as many as are read before they are written: plainly 128 characters, with AVX-512 1,024. */
enum { TEXT_PIECE = 16, TEXT_ROW = 128, FETCH_BYTES = 2048 };

/* ---- characters to n packed bytes, the first bit the lowest. Not 0 when one is neither '0' nor '1' ---- */

static uint8_t pack_text_plain(uint8_t *to, const uint8_t *src, size_t n)
{
    const uint64_t every = UINT64_C(0x0101010101010101);
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t c = fby__load_u64(src + 8 * i); /* the first character the lowest byte */
        bad |= (c ^ every * '0') & every * 254;
        to[i] = (uint8_t)((c & every) * UINT64_C(0x0102040810204080) >> 56); /* byte i to bit 56 + i */
    }
    return bad ? 254 : 0;
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint8_t pack_text_avx2(uint8_t *to, const uint8_t *src, size_t n)
{
    const __m256i zero = _mm256_set1_epi8('0'), other = _mm256_set1_epi8((char)254);
    __m256i bad = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256i c = _mm256_loadu_si256((const void *)(src + 8 * i));
        bad = _mm256_or_si256(bad, _mm256_and_si256(_mm256_xor_si256(c, zero), other));
        fby__store_u32(to + i, (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(c, 7))); /* the last bit of each byte is its first */
    }
    return (uint8_t)((_mm256_testz_si256(bad, bad) ? 0 : 254) | pack_text_plain(to + i, src + 8 * i, n - i));
}
#endif

/* ---- bits to elements ---- */

#define TARGET
#define PACK_TEXT pack_text_plain
#define T uint8_t
#define NAME(x) x##_plain_1
#include "transform/bits_loops.h"
#define T uint16_t
#define NAME(x) x##_plain_2
#include "transform/bits_loops.h"
#define T uint32_t
#define NAME(x) x##_plain_4
#include "transform/bits_loops.h"
#define T uint64_t
#define NAME(x) x##_plain_8
#include "transform/bits_loops.h"
#undef TARGET
#undef PACK_TEXT

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,bmi,bmi2")))
#define PACK_TEXT pack_text_avx2
#define T uint8_t
#define NAME(x) x##_avx2_1
#include "transform/bits_loops.h"
#define T uint16_t
#define NAME(x) x##_avx2_2
#include "transform/bits_loops.h"
#define T uint32_t
#define NAME(x) x##_avx2_4
#include "transform/bits_loops.h"
#define T uint64_t
#define NAME(x) x##_avx2_8
#include "transform/bits_loops.h"
#undef TARGET
#undef PACK_TEXT

#define TARGET_AVX512 __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))

/* The bits of each byte change places. */
static inline uint64_t swap_in_bytes(uint64_t x)
{
    x = (x >> 1 & UINT64_C(0x5555555555555555)) | (x & UINT64_C(0x5555555555555555)) << 1;
    x = (x >> 2 & UINT64_C(0x3333333333333333)) | (x & UINT64_C(0x3333333333333333)) << 2;
    return (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
}

TARGET_AVX512 static uint8_t pack_text_avx512(uint8_t *to, const uint8_t *src, size_t n)
{
    const __m512i zero = _mm512_set1_epi8('0'), digit = _mm512_set1_epi8(1);
    __m512i bad = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m512i c = _mm512_loadu_si512(src + 8 * i);
        bad = _mm512_or_si512(bad, _mm512_xor_si512(c, zero));
        fby__store_u64(to + i, _mm512_test_epi8_mask(c, digit));
    }
    if (i < n) {
        const __m512i c = _mm512_mask_loadu_epi8(zero, (UINT64_C(1) << 8 * (n - i)) - 1, src + 8 * i);
        const uint64_t bits = _mm512_test_epi8_mask(c, digit);
        bad = _mm512_or_si512(bad, _mm512_xor_si512(c, zero));
        memcpy(to + i, &bits, n - i);
    }
    return _mm512_test_epi8_mask(bad, _mm512_set1_epi8((char)254)) ? 254 : 0;
}

/* 64 bits are `size` vectors of elements of `size` bytes. Of what is left in the end as many are made, and the part that belongs there kept. */
#define AVX512_LOOPS(size, move, mask, ones_of, T)                                                                                         \
    TARGET_AVX512 static inline void spread_avx512_##size(uint8_t *dst, uint64_t bits, __m512i ones)                                       \
    {                                                                                                                                      \
        for (size_t k = 0; k < (size); k++)                                                                                                \
            _mm512_storeu_si512(dst + 64 * k, move((mask)(bits >> 64 / (size)*k), ones));                                                  \
    }                                                                                                                                      \
    TARGET_AVX512 static void packed_avx512_##size(uint8_t *dst, const uint8_t *src, size_t n, bool little, uint64_t one)                  \
    {                                                                                                                                      \
        const __m512i ones = ones_of((T)one);                                                                                              \
        size_t i = 0;                                                                                                                      \
        for (; i + 8 <= n; i += 8) {                                                                                                       \
            const uint64_t bits = fby__load_u64(src + i);                                                                                  \
            spread_avx512_##size(dst + i * 8 * (size), little ? bits : swap_in_bytes(bits), ones);                                         \
        }                                                                                                                                  \
        if (i < n) {                                                                                                                       \
            uint8_t last[64 * (size)];                                                                                                     \
            uint64_t bits = 0;                                                                                                             \
            memcpy(&bits, src + i, n - i);                                                                                                 \
            spread_avx512_##size(last, little ? bits : swap_in_bytes(bits), ones);                                                         \
            memcpy(dst + i * 8 * (size), last, (n - i) * 8 * (size));                                                                      \
        }                                                                                                                                  \
    }                                                                                                                                      \
    TARGET_AVX512 static uint8_t text_avx512_##size(uint8_t *dst, const uint8_t *src, size_t n, uint64_t one)                              \
    {                                                                                                                                      \
        const __m512i ones = ones_of((T)one);                                                                                              \
        uint8_t packed[TEXT_ROW], bad = 0;                                                                                                 \
        for (size_t at = 0; at < n; at += TEXT_ROW) {                                                                                      \
            const size_t k = n - at < TEXT_ROW ? n - at : TEXT_ROW;                                                                        \
            bad |= pack_text_avx512(packed, src + 8 * at, k);                                                                              \
            const size_t whole = k / 8 * 8;                                                                                                \
            for (size_t i = 0; i < whole; i += sizeof(mask)) {                                                                             \
                mask some;                                                                                                                 \
                memcpy(&some, packed + i, sizeof some);                                                                                    \
                _mm512_storeu_si512(dst + (at + i) * 8 * (size), move(some, ones));                                                        \
            }                                                                                                                              \
            packed_avx512_##size(dst + (at + whole) * 8 * (size), packed + whole, k - whole, true, one);                                   \
        }                                                                                                                                  \
        return bad;                                                                                                                        \
    }
AVX512_LOOPS(1, _mm512_maskz_mov_epi8, __mmask64, _mm512_set1_epi8, char)
AVX512_LOOPS(2, _mm512_maskz_mov_epi16, __mmask32, _mm512_set1_epi16, short)
AVX512_LOOPS(4, _mm512_maskz_mov_epi32, __mmask16, _mm512_set1_epi32, int)
AVX512_LOOPS(8, _mm512_maskz_mov_epi64, __mmask8, _mm512_set1_epi64, long long)
#endif

typedef struct bit_loops { /* by the logarithm of the element's bytes */
    void (*packed[4])(uint8_t *dst, const uint8_t *src, size_t n, bool little, uint64_t one);
    uint8_t (*text[4])(uint8_t *dst, const uint8_t *src, size_t n, uint64_t one);
} bit_loops;

#define LOOPS(set)                                                                                                                         \
    {                                                                                                                                      \
        {packed_##set##_1, packed_##set##_2, packed_##set##_4, packed_##set##_8},                                                          \
        {                                                                                                                                  \
            text_##set##_1, text_##set##_2, text_##set##_4, text_##set##_8                                                                 \
        }                                                                                                                                  \
    }

static const bit_loops *loops(void)
{
#if defined(__x86_64__)
    static const bit_loops avx512 = LOOPS(avx512), avx2 = LOOPS(avx2);
    if (fby__cpu_has_avx512())
        return &avx512;
    if (fby__cpu_has_avx2())
        return &avx2;
#endif
    static const bit_loops plain = LOOPS(plain);
    return &plain;
}

typedef struct bits {
    void (*packed)(uint8_t *dst, const uint8_t *src, size_t n, bool little, uint64_t one);
    uint8_t (*text)(uint8_t *dst, const uint8_t *src, size_t n, uint64_t one);
    fby_bits_encoding encoding; /* not AUTO */
    bool varies;                /* a row's bytes are counted, else they are source_bytes */
    bool want_valid;
    uint64_t n_bits;
    size_t packed_bytes; /* of n_bits, the last byte perhaps not whole */
    size_t source_bytes; /* of a row as it is stored; 0 = any: base64 with or without padding */
    size_t element_bytes;
    uint64_t one;
    bool (*decode_base64)(const struct bits *b, const uint8_t *src, size_t n, uint8_t *to);
    uint8_t value[128];     /* of base64: a character's digit; 128 and more: it is none */
    uint32_t digit[4][256]; /* of base64: what a character adds to a group of 24 bits at each place; all ones: it is none */
} bits;

/* ---- checks ---- */

static fby_status refuse_size(const fby__make_spec *spec, const bits *b, size_t found, fby_error *err)
{
    return fby__fail(err, FBY_E_ARG, "output '%s': column '%s' has %zu bytes a row, and %llu bits are %zu %s", spec->output,
                     spec->columns[0].name, found, (unsigned long long)b->n_bits, b->source_bytes,
                     b->encoding == FBY_BITS_TEXT ? "characters" : "bytes");
}

#define TAKEN_FOR_NUMBERS                                                                                                                  \
    "If it was written as text of '0' and '1', a CSV reader has taken it for numbers, and leading zeros are lost: read it as text "        \
    "(forebay.open(…, dtypes={column: str}), pandas: dtype={column: str})"

static fby_status check_column(const fby__make_spec *spec, bits *b, fby_error *err)
{
    const fby__make_column *c = &spec->columns[0];
    const fby_bits_encoding asked = spec->make->bits.encoding;
    const size_t width = c->stored == FBY_DTYPE_NONE ? 1 : fby_dtype_bytes(c->stored), dense_bytes = width * c->width;
    const bool is_bytes = c->kind == FBY__PANEL_BYTES || (c->kind == FBY__PANEL_RAGGED && c->stored == FBY_UINT8);
    const bool is_whole = c->kind == FBY__PANEL_DENSE && c->stored >= FBY_INT8 && c->stored <= FBY_UINT64;
    b->encoding = asked != FBY_BITS_AUTO ? asked : is_bytes && c->field->kind == FBY_KIND_STRING ? FBY_BITS_TEXT : FBY_BITS_PACKED;
    b->varies = is_bytes;
    if (!c->computed && !is_bytes && c->kind == FBY__PANEL_DENSE && c->width == 1 && fby__dtype_is_float(c->stored))
        return fby__make_refuse_column(spec, 0, "holds no bits. " TAKEN_FOR_NUMBERS, err);
    if (c->computed || (!is_bytes && !is_whole))
        return fby__make_refuse_column(spec, 0, "holds no bits: strings of '0' and '1', bytes, arrays of uint8 or base64 text do", err);
    if (is_whole && width > 1 && b->encoding != FBY_BITS_PACKED_LITTLE)
        return fby__make_refuse_column(spec, 0,
                                       "holds whole numbers. " TAKEN_FOR_NUMBERS
                                       ". The bits of the numbers themselves are taken lowest first, with the encoding \"little\"",
                                       err);
    if (is_bytes && spec->max_rows > 1)
        return fby__make_refuse_column(spec, 0,
                                       "varies in length from row to row, and a sample has several rows: take that of its first row", err);
    b->n_bits = spec->make->bits.n_bits;
    if (b->n_bits == 0 && (is_bytes || b->encoding == FBY_BITS_BASE64))
        return fby__fail(err, FBY_E_ARG, "output '%s': how many bits has a value of column '%s'? Its type does not say: give their number",
                         spec->output, c->name);
    if (b->n_bits == 0)
        b->n_bits = b->encoding == FBY_BITS_TEXT ? dense_bytes : (uint64_t)dense_bytes * 8;
    if (b->n_bits == 0 || b->n_bits > MAX_BITS)
        return fby__fail(err, FBY_E_ARG, "output '%s': %llu bits: 1 to %llu are possible", spec->output, (unsigned long long)b->n_bits,
                         (unsigned long long)MAX_BITS);
    b->packed_bytes = (size_t)(b->n_bits / 8 + (b->n_bits % 8 != 0));
    b->source_bytes = b->encoding == FBY_BITS_TEXT ? (size_t)b->n_bits : b->encoding == FBY_BITS_BASE64 ? 0 : b->packed_bytes;
    if (!is_bytes && b->source_bytes && b->source_bytes != dense_bytes)
        return refuse_size(spec, b, dense_bytes, err);
    if (!is_bytes)
        b->source_bytes = dense_bytes;
    return FBY_OK;
}

/* ---- base64 ---- */

static void fill_digits(uint8_t *values, uint32_t (*digit)[256])
{
    static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"; /* RFC 4648, table 1 */
    memset(values, 0xff, 128);
    memset(digit, 0xff, 4 * sizeof *digit);
    for (uint32_t i = 0; i < 64; i++) {
        values[(uint8_t)ALPHABET[i]] = (uint8_t)i;
        for (uint32_t place = 0; place < 4; place++)
            digit[place][(uint8_t)ALPHABET[i]] = i << (18 - 6 * place);
    }
}

/* n characters of base64, without padding, to exactly b->packed_bytes; false when one is none of base64. */
static bool decode_base64_plain(const bits *b, const uint8_t *src, size_t n, uint8_t *to)
{
    uint32_t bad = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4, to += 3) {
        const uint32_t group = b->digit[0][src[i]] | b->digit[1][src[i + 1]] | b->digit[2][src[i + 2]] | b->digit[3][src[i + 3]];
        bad |= group;
        to[0] = (uint8_t)(group >> 16);
        to[1] = (uint8_t)(group >> 8);
        to[2] = (uint8_t)group;
    }
    uint32_t rest = 0;
    for (size_t place = 0; i + place < n; place++)
        rest |= b->digit[place][src[i + place]];
    for (size_t k = 0; k + 1 < n - i; k++) /* 2 characters are a byte, 3 are two */
        to[k] = (uint8_t)(rest >> (16 - 8 * k));
    return (bad | rest) >> 24 == 0;
}

#if defined(__x86_64__)
/* A group of four digits lies in 32 bits, the last the lowest; its three bytes come out from the highest on. */
static const uint8_t BASE64_ORDER[64] = {2,  1,  0,  6,  5,  4,  10, 9,  8,  14, 13, 12, 18, 17, 16, 22, 21, 20, 26, 25, 24, 30, 29, 28,
                                         34, 33, 32, 38, 37, 36, 42, 41, 40, 46, 45, 44, 50, 49, 48, 54, 53, 52, 58, 57, 56, 62, 61, 60};

/* The same 64 characters at a time: a table of 128 bytes in registers gives their digits, two multiplications put four together. */
TARGET_AVX512 static bool decode_base64_avx512(const bits *b, const uint8_t *src, size_t n, uint8_t *to)
{
    const __m512i low = _mm512_loadu_si512(b->value), high = _mm512_loadu_si512(b->value + 64), a = _mm512_set1_epi8('A'); /* A: no bits */
    const __m512i order = _mm512_loadu_si512(BASE64_ORDER);
    __m512i bad = _mm512_setzero_si512();
    for (size_t left = b->packed_bytes; n > 0; to += 48) {
        const size_t k = n < 64 ? n : 64, bytes = left < 48 ? left : 48;
        const __m512i c = _mm512_mask_loadu_epi8(a, _bzhi_u64(UINT64_MAX, (unsigned)k), src);
        const __m512i digit = _mm512_permutex2var_epi8(low, c, high); /* takes a character's lower seven bits */
        bad = _mm512_or_si512(bad, _mm512_or_si512(digit, c));
        const __m512i pairs = _mm512_maddubs_epi16(digit, _mm512_set1_epi32(0x01400140)); /* 64 × the first + the second */
        const __m512i groups = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x00011000));
        _mm512_mask_storeu_epi8(to, _bzhi_u64(UINT64_MAX, (unsigned)bytes), _mm512_permutexvar_epi8(order, groups));
        src += k;
        n -= k;
        left -= bytes;
    }
    return _mm512_movepi8_mask(bad) == 0;
}
#endif

/* ---- opening ---- */

static fby_status create_bits(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    FBY__TRY(fby__make_expect_columns(spec, "bits", 1, 1, err));
    if ((unsigned)spec->make->bits.encoding > FBY_BITS_BASE64)
        return fby__fail(err, FBY_E_ARG, "output '%s': unknown encoding of bits", spec->output);
    bits checked = {0};
    FBY__TRY(check_column(spec, &checked, err));
    bits *b = fby__malloc(sizeof *b);
    if (!b)
        return fby__fail_nomem(err, "an output of bits");
    *b = checked;
    *out_state = b;
    const fby_dtype dtype = fby__make_dtype(spec, FBY_FLOAT32);
    b->element_bytes = fby_dtype_bytes(dtype);
    b->packed = loops()->packed[__builtin_ctzll(b->element_bytes)];
    b->text = loops()->text[__builtin_ctzll(b->element_bytes)];
    b->one = fby__make_one(dtype);
    b->want_valid = spec->columns[0].want_valid = spec->columns[0].nullable;
    fill_digits(b->value, b->digit);
    b->decode_base64 = decode_base64_plain;
#if defined(__x86_64__)
    if (fby__cpu_has_avx512())
        b->decode_base64 = decode_base64_avx512;
#endif
    *made = (fby__made){.dtype = dtype,
                        .ndim = 1,
                        .shape = {(int64_t)b->n_bits},
                        .memory_bytes = sizeof *b,
                        .scratch_bytes = b->encoding == FBY_BITS_BASE64 ? b->packed_bytes : 0};
    return FBY_OK;
}

static void destroy_bits(void *state) { fby__free(state); }

/* ---- rows ---- */

static fby_status unpack_base64(const bits *b, const uint8_t *src, uint64_t n, uint8_t *to, fby_error *err)
{
    uint64_t digits = n;
    while (digits && n - digits < 2 && src[digits - 1] == '=')
        digits--;
    const uint64_t expect = b->packed_bytes / 3 * 4 + (b->packed_bytes % 3 ? b->packed_bytes % 3 + 1 : 0);
    if (digits != expect)
        return fby__fail(err, FBY_E_DATA, "base64 text of %llu characters, where %llu bits take %llu", (unsigned long long)digits,
                         (unsigned long long)b->n_bits, (unsigned long long)expect);
    if (n != digits && n % 4 != 0)
        return fby__fail(err, FBY_E_DATA, "base64 text of %llu characters, with '=' where none belongs", (unsigned long long)n);
    return b->decode_base64(b, src, (size_t)digits, to) ? FBY_OK
                                                        : fby__fail(err, FBY_E_DATA, "base64 text with a character that is none of base64");
}

static void expand_packed(const bits *b, const uint8_t *src, uint8_t *dst)
{
    const bool little = b->encoding == FBY_BITS_PACKED_LITTLE;
    const size_t whole = (size_t)(b->n_bits / 8);
    b->packed(dst, src, whole, little, b->one);
    for (uint64_t i = whole * 8; i < b->n_bits; i++) {
        const unsigned bit = src[whole] >> (little ? i % 8 : 7 - i % 8) & 1;
        const uint64_t value = bit ? b->one : 0;
        memcpy(dst + i * b->element_bytes, &value, b->element_bytes);
    }
}

/* False when a character is neither '0' nor '1'. */
static bool expand_text(const bits *b, const uint8_t *src, uint8_t *dst)
{
    const size_t whole = (size_t)(b->n_bits / 8);
    uint8_t bad = b->text(dst, src, whole, b->one);
    for (size_t i = 8 * whole; i < b->n_bits; i++) {
        const uint64_t value = src[i] & 1 ? b->one : 0;
        bad |= (uint8_t)((src[i] ^ '0') & 254);
        memcpy(dst + i * b->element_bytes, &value, b->element_bytes);
    }
    return bad == 0;
}

static fby_status refuse_character(const uint8_t *src, size_t n, fby_error *err)
{
    size_t i = 0;
    while (i + 1 < n && (src[i] | 1) == '1')
        i++;
    if (src[i] >= ' ' && src[i] < 127)
        return fby__fail(err, FBY_E_DATA, "'%c' at character %zu, where '0' or '1' is expected", src[i], i);
    return fby__fail(err, FBY_E_DATA, "byte 0x%02x at character %zu, where '0' or '1' is expected", src[i], i);
}

static fby_status expand(const bits *b, const uint8_t *src, uint64_t n, uint8_t *dst, uint8_t *unpacked, fby_error *err)
{
    if (b->encoding == FBY_BITS_BASE64) {
        FBY__TRY(unpack_base64(b, src, n, unpacked, err));
        src = unpacked;
    } else if (n != b->source_bytes) {
        return fby__fail(err, FBY_E_DATA, "%llu %s, where %llu bits take %zu", (unsigned long long)n,
                         b->encoding == FBY_BITS_TEXT ? "characters" : "bytes", (unsigned long long)b->n_bits, b->source_bytes);
    }
    if (b->encoding != FBY_BITS_TEXT)
        expand_packed(b, src, dst);
    else if (!expand_text(b, src, dst))
        return refuse_character(src, (size_t)n, err);
    return FBY_OK;
}

/* Rows lie anywhere in decoded blocks: the next one comes to the cache while this one is written. */
static void fetch_next(const bits *b, const fby__make_view *v, uint64_t s)
{
    const uint64_t n = b->varies ? v->count[s] : b->source_bytes;
    for (uint64_t at = 0; at < n && at < FETCH_BYTES; at += 64)
        __builtin_prefetch(v->data[s] + at);
}

static fby_status run_bits(const void *state, fby__make_run *run, fby_error *err)
{
    const bits *b = state;
    const fby__make_view *v = &run->views[0];
    const size_t result_bytes = (size_t)b->n_bits * b->element_bytes;
    uint8_t *unpacked = NULL;
    if (b->encoding == FBY_BITS_BASE64 && !(unpacked = fby__make_scratch_get(run->scratch, b->packed_bytes)))
        return fby__fail_nomem(err, "the bits of a row");
    for (uint64_t s = 0; s < run->n; s++) {
        if (s + 1 < run->n)
            fetch_next(b, v, s + 1);
        for (uint64_t r = 0; r < run->n_rows[s]; r++) {
            fby_status status;
            if (b->want_valid && !v->valid[s][r * v->valid_bytes])
                status = fby__fail(err, FBY_E_DATA, "a missing value has no bits");
            else
                status = expand(b, v->data[s] + (b->varies ? 0 : r * v->row_bytes), b->varies ? v->count[s] : b->source_bytes,
                                run->dst[s] + r * result_bytes, unpacked, err);
            if (status != FBY_OK) {
                run->bad = s;
                return status;
            }
        }
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_bits = {create_bits, destroy_bits, run_bits};
