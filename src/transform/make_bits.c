/*
 * Bits: characters, packed bytes or base64 of them become elements that are 0 or 1.
 *
 * The loops are one source for elements of 1, 2, 4 and 8 bytes, compiled for any CPU and for AVX2: they store as fast as memory
 * takes it. FETCH_BYTES of the next row are fetched while one is written. Simpler forms are slower: eight elements copied from a table of all
 * bytes half as fast, without AVX2 a sixth (of text two thirds).
 */
#include "transform/maker_internal.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "block/panel.h"
#include "transform/make_values.h"

#include <stdio.h>
#include <string.h>

#define MAX_BITS ((uint64_t)1 << 28)
#define FETCH_BYTES 2048u
#define INLINE inline __attribute__((always_inline))

typedef struct bits {
    bool (*spread)(const struct bits *b, const uint8_t *src, uint8_t *dst);
    fby_bits_encoding encoding; /* not AUTO */
    bool varies;                /* a row's bytes are counted, else they are source_bytes */
    bool want_valid;
    uint64_t n_bits;
    size_t packed_bytes; /* of n_bits, the last byte perhaps not whole */
    size_t source_bytes; /* of a row as it is stored; 0 = any: base64 with or without padding */
    size_t element_bytes;
    uint64_t one;
    uint32_t digit[4][256]; /* of base64: what a character adds to a group of 24 bits as its k-th digit; all ones: it is no digit */
} bits;

/* ---- checks ---- */

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
    if (is_whole && width > 1 && b->encoding != FBY_BITS_PACKED_LITTLE) {
        char why[512];
        (void)snprintf(why, sizeof why,
                       "holds whole numbers. " TAKEN_FOR_NUMBERS ". The bits of the numbers themselves are taken lowest first, with the "
                       "encoding \"packed_little\", and all of them: %zu, or leave their number out",
                       8 * dense_bytes);
        return fby__make_refuse_column(spec, 0, why, err);
    }
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
    if (is_bytes)
        return FBY_OK;
    if (b->source_bytes && b->source_bytes != dense_bytes)
        return fby__fail(err, FBY_E_ARG, "output '%s': column '%s' has %zu bytes a row, and %llu bits are %zu %s", spec->output, c->name,
                         dense_bytes, (unsigned long long)b->n_bits, b->source_bytes,
                         b->encoding == FBY_BITS_TEXT ? "characters" : "bytes");
    b->source_bytes = dense_bytes;
    return FBY_OK;
}

/* ---- base64 ---- */

static void fill_digits(uint32_t (*digit)[256])
{
    static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"; /* RFC 4648, table 1 */
    memset(digit, 0xff, 4 * sizeof *digit);
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t k = 0; k < 4; k++)
            digit[k][(uint8_t)ALPHABET[i]] = i << (18 - 6 * k);
}

/* n characters of base64, without padding, to exactly b->packed_bytes; false when one is none of base64. */
static bool decode_base64(const bits *b, const uint8_t *src, size_t n, uint8_t *to)
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
    for (size_t k = 0; i + k < n; k++)
        rest |= b->digit[k][src[i + k]];
    for (size_t k = 0; k + 1 < n - i; k++) /* 2 characters are a byte, 3 are two */
        to[k] = (uint8_t)(rest >> (16 - 8 * k));
    return (bad | rest) >> 24 == 0;
}

/* ---- bits to elements ---- */

/* All of a row's bits. Eight packed ones become eight elements in a vector: the byte in every lane, and of it each lane's own bit. */
#define SPREAD(name, T)                                                                                                                    \
    static INLINE bool name(const bits *b, const uint8_t *restrict src, uint8_t *restrict to)                                              \
    {                                                                                                                                      \
        typedef T any __attribute__((may_alias, aligned(1)));                                                                              \
        typedef T lanes __attribute__((vector_size(8 * sizeof(T)), may_alias, aligned(1)));                                                \
        const bool little = b->encoding == FBY_BITS_PACKED_LITTLE;                                                                         \
        const T one = (T)b->one;                                                                                                           \
        any *restrict dst = (any *)to;                                                                                                     \
        if (b->encoding == FBY_BITS_TEXT) {                                                                                                \
            uint8_t bad = 0;                                                                                                               \
            for (uint64_t i = 0; i < b->n_bits; i++) {                                                                                     \
                bad |= (uint8_t)(src[i] ^ '0');                                                                                            \
                dst[i] = src[i] & 1 ? one : 0;                                                                                             \
            }                                                                                                                              \
            return (bad & ~1) == 0;                                                                                                        \
        }                                                                                                                                  \
        const lanes low = {1, 2, 4, 8, 16, 32, 64, 128}, high = {128, 64, 32, 16, 8, 4, 2, 1}, zeros = {0};                                \
        const lanes weight = little ? low : high, ones = zeros + one;                                                                      \
        const size_t n_whole = (size_t)(b->n_bits / 8);                                                                                    \
        for (size_t k = 0; k < n_whole; k++)                                                                                               \
            *(lanes *)(dst + 8 * k) = (lanes)(((zeros + src[k]) & weight) == weight) & ones;                                               \
        for (uint64_t i = 8 * n_whole; i < b->n_bits; i++)                                                                                 \
            dst[i] = src[i / 8] >> (little ? i % 8 : 7 - i % 8) & 1 ? one : 0;                                                             \
        return true;                                                                                                                       \
    }
SPREAD(spread_1, uint8_t)
SPREAD(spread_2, uint16_t)
SPREAD(spread_4, uint32_t)
SPREAD(spread_8, uint64_t)

/* False when a character of text is neither '0' nor '1'. */
static INLINE bool spread(const bits *b, const uint8_t *src, uint8_t *dst)
{
    switch (b->element_bytes) {
    case 1: return spread_1(b, src, dst);
    case 2: return spread_2(b, src, dst);
    case 4: return spread_4(b, src, dst);
    default: return spread_8(b, src, dst);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool spread_avx2(const bits *b, const uint8_t *src, uint8_t *dst) { return spread(b, src, dst); }
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
    b->spread = spread;
#if defined(__x86_64__)
    if (fby__cpu_has_avx2())
        b->spread = spread_avx2;
#endif
    b->one = fby__make_one(dtype);
    b->want_valid = spec->columns[0].want_valid = spec->columns[0].nullable;
    fill_digits(b->digit);
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
    return decode_base64(b, src, (size_t)digits, to) ? FBY_OK
                                                     : fby__fail(err, FBY_E_DATA, "base64 text with a character that is none of base64");
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
    if (!b->spread(b, src, dst))
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

static fby_status run_bits(const void *state, fby__make_job *job, fby_error *err)
{
    const bits *b = state;
    const fby__make_view *v = &job->views[0];
    const size_t result_bytes = (size_t)b->n_bits * b->element_bytes;
    uint8_t *unpacked = NULL;
    if (b->encoding == FBY_BITS_BASE64 && !(unpacked = fby__make_scratch_get(job->scratch, b->packed_bytes)))
        return fby__fail_nomem(err, "the bits of a row");
    for (uint64_t s = 0; s < job->n; s++) {
        if (s + 1 < job->n)
            fetch_next(b, v, s + 1);
        for (uint64_t r = 0; r < job->n_rows[s]; r++) {
            fby_status status;
            if (b->want_valid && !v->valid[s][r * v->valid_bytes])
                status = fby__fail(err, FBY_E_DATA, "a missing value has no bits");
            else
                status = expand(b, v->data[s] + (b->varies ? 0 : r * v->row_bytes), b->varies ? v->count[s] : b->source_bytes,
                                job->dst[s] + r * result_bytes, unpacked, err);
            if (status != FBY_OK) {
                job->bad = s;
                return status;
            }
        }
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_bits = {create_bits, destroy_bits, run_bits};
