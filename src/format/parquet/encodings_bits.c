/*
 * Bit-packed integers and the RLE / bit-packed hybrid (Encodings.md, "RLE / Bit-Packing Hybrid (RLE = 3)").
 *
 * Values are packed from the least significant bit. All unpackers start at any bit of a byte, so that a run can be read
 * a few values at a time. The AVX-512 kernels fetch with masked loads, which touch no byte outside the mask; the AVX2, NEON and scalar
 * ones run while a whole load stays inside the bytes, then on a padded copy of the rest.
 */
#include "format/parquet/encodings.h"

#include "base/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,fma,f16c")))
#define TARGET_AVX512 __attribute__((target("avx2,bmi,bmi2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static inline uint64_t low_bits(unsigned width) { return width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1; }

/* ---- scalar: the reference ---- */

/* Values whose 8-byte load (9 with a carry) stays inside n_src; returns how many were done. */
static size_t scalar_u64_inside(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint64_t *out, size_t n)
{
    const uint64_t mask = low_bits(width);
    size_t i = 0;
    for (uint64_t at = bit; i < n; i++, at += width) {
        size_t byte = at >> 3;
        unsigned shift = at & 7;
        if (byte + 9 > n_src)
            break;
        uint64_t v = fby__load_u64(src + byte) >> shift;
        if (shift + width > 64)
            v |= (uint64_t)src[byte + 8] << (64 - shift);
        out[i] = v & mask;
    }
    return i;
}

static size_t scalar_u32_inside(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint32_t *out, size_t n)
{
    const uint32_t mask = (uint32_t)low_bits(width);
    /* value i is inside when its byte + 8 ≤ n_src */
    size_t i = 0;
    uint64_t at = bit;
    if (n_src >= 8) {
        uint64_t last_bit = (uint64_t)(n_src - 8) * 8 + 7;
        uint64_t inside = last_bit < bit ? 0 : width == 0 ? n : (last_bit - bit) / width + 1;
        if (inside > n)
            inside = n;
        for (; i < inside; i++, at += width)
            out[i] = (uint32_t)(fby__load_u64(src + (at >> 3)) >> (at & 7)) & mask;
    }
    return i;
}

/* The rest, whose loads would reach beyond n_src: at most 64 values at a time through a padded copy. */
static void scalar_u64(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint64_t *out, size_t n)
{
    size_t done = scalar_u64_inside(src, n_src, bit, width, out, n);
    uint64_t at = bit + (uint64_t)done * width;
    while (done < n) {
        uint8_t pad[80] = {0};
        size_t byte = at >> 3, have = n_src - byte;
        memcpy(pad, src + byte, have < 64 ? have : 64);
        size_t k = scalar_u64_inside(pad, sizeof pad, at & 7, width, out + done, n - done);
        uint64_t bits = (uint64_t)k * width;
        if (bits > 448) { /* only the first 64 bytes are real */
            k = 448 / width;
            bits = (uint64_t)k * width;
        }
        done += k;
        at += bits;
    }
}

static void scalar_u32(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint32_t *out, size_t n)
{
    size_t done = scalar_u32_inside(src, n_src, bit, width, out, n);
    uint64_t at = bit + (uint64_t)done * width;
    while (done < n) {
        uint8_t pad[80] = {0};
        size_t byte = at >> 3, have = n_src - byte;
        memcpy(pad, src + byte, have < 64 ? have : 64);
        size_t want = n - done < 14 ? n - done : 14;                               /* 7 + 14 * 32 bits < 64 bytes */
        (void)scalar_u32_inside(pad, sizeof pad, at & 7, width, out + done, want); /* all fit in the padding */
        done += want;
        at += (uint64_t)want * width;
    }
}

static void scalar_u8(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint8_t *out, size_t n)
{
    const uint32_t mask = (uint32_t)low_bits(width);
    for (uint64_t at = bit, i = 0; i < n; i++, at += width) {
        size_t byte = at >> 3;
        uint32_t v = src[byte];
        if (byte + 1 < n_src)
            v |= (uint32_t)src[byte + 1] << 8;
        out[i] = (uint8_t)(v >> (at & 7) & mask);
    }
}

#if defined(__x86_64__)

/* ---- AVX2 ---- */

/* Width ≤ 25: eight values from two 16-byte loads; each lane's bytes are shuffled into place and shifted. */
TARGET_AVX2 static void avx2_u32(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint32_t *out, size_t n)
{
    size_t i = 0;
    if (width <= 25) {
        const unsigned lane1 = (bit + 4 * width) >> 3;
        const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(iota, _mm256_set1_epi32((int)width)), _mm256_set1_epi32((int)bit));
        __m256i byte =
            _mm256_sub_epi32(_mm256_srli_epi32(at, 3), _mm256_setr_epi32(0, 0, 0, 0, (int)lane1, (int)lane1, (int)lane1, (int)lane1));
        __m256i pick = _mm256_add_epi32(_mm256_mullo_epi32(byte, _mm256_set1_epi32(0x01010101)), _mm256_set1_epi32(0x03020100));
        __m256i shift = _mm256_and_si256(at, _mm256_set1_epi32(7));
        __m256i mask = _mm256_set1_epi32((int)low_bits(width));
        while (i + 8 <= n && n_src >= (size_t)lane1 + 16) {
            __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)src)),
                                                _mm_loadu_si128((const __m128i *)(const void *)(src + lane1)), 1);
            v = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, pick), shift), mask);
            _mm256_storeu_si256((__m256i *)(void *)(out + i), v);
            i += 8;
            src += width;
            n_src -= width;
        }
    }
    scalar_u32(src, n_src, bit, width, out + i, n - i);
}

/* Width ≤ 8: eight values are `width` bytes; pdep spreads them. */
TARGET_AVX2 static void avx2_u8(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint8_t *out, size_t n)
{
    const uint64_t spread = low_bits(width) * 0x0101010101010101u;
    size_t i = 0;
    if (bit == 0 || width * 8 + bit <= 64)
        for (; i + 8 <= n && n_src >= 8; i += 8, src += width, n_src -= width)
            fby__store_u64(out + i, _pdep_u64(fby__load_u64(src) >> bit, spread));
    scalar_u8(src, n_src, bit, width, out + i, n - i);
}

/* ---- AVX-512 ---- */

typedef struct lanes {
    __m512i pick, shift, mask;
} lanes;

TARGET_AVX512 static inline lanes lanes32(unsigned bit, unsigned width)
{
    const __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(iota, _mm512_set1_epi32((int)width)), _mm512_set1_epi32((int)bit));
    return (lanes){
        _mm512_add_epi32(_mm512_mullo_epi32(_mm512_srli_epi32(at, 3), _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(0x03020100)),
        _mm512_and_si512(at, _mm512_set1_epi32(7)), _mm512_set1_epi32((int)low_bits(width))};
}

TARGET_AVX512 static inline lanes lanes64(unsigned bit, unsigned width)
{
    const __m512i iota = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m512i at = _mm512_add_epi64(_mm512_mullo_epi64(iota, _mm512_set1_epi64((long long)width)), _mm512_set1_epi64((long long)bit));
    return (lanes){_mm512_add_epi64(_mm512_mullo_epi64(_mm512_srli_epi64(at, 3), _mm512_set1_epi64(0x0101010101010101)),
                                    _mm512_set1_epi64(0x0706050403020100)),
                   _mm512_and_si512(at, _mm512_set1_epi64(7)), _mm512_set1_epi64((long long)low_bits(width))};
}

/* The bytes that k values take; nothing beyond them is touched. */
TARGET_AVX512 static inline __m512i load_exact(const uint8_t *src, unsigned bit, unsigned width, size_t k)
{
    unsigned bytes = (bit + (unsigned)k * width + 7) >> 3;
    return _mm512_maskz_loadu_epi8((__mmask64)low_bits(bytes > 64 ? 64 : bytes), src);
}

TARGET_AVX512 static inline __m512i unpack32(lanes l, __m512i bytes)
{
    return _mm512_and_si512(_mm512_srlv_epi32(_mm512_permutexvar_epi8(l.pick, bytes), l.shift), l.mask);
}

TARGET_AVX512 static inline __m512i unpack64(lanes l, __m512i bytes)
{
    return _mm512_and_si512(_mm512_srlv_epi64(_mm512_permutexvar_epi8(l.pick, bytes), l.shift), l.mask);
}

TARGET_AVX512 static void avx512_u32(const uint8_t *src, unsigned bit, unsigned width, uint32_t *out, size_t n)
{
    if (width <= 25) {
        const lanes l = lanes32(bit, width);
        for (; n >= 16; n -= 16, out += 16, src += 2 * width)
            _mm512_storeu_si512(out, unpack32(l, load_exact(src, bit, width, 16)));
        if (n)
            _mm512_mask_storeu_epi32(out, (__mmask16)low_bits((unsigned)n), unpack32(l, load_exact(src, bit, width, n)));
        return;
    }
    const lanes l = lanes64(bit, width);
    for (; n; src += width) {
        size_t k = n < 8 ? n : 8;
        __m256i v = _mm512_cvtepi64_epi32(unpack64(l, load_exact(src, bit, width, k)));
        _mm256_mask_storeu_epi32(out, (__mmask8)low_bits((unsigned)k), v);
        out += k;
        n -= k;
    }
}

TARGET_AVX512 static void avx512_u64(const uint8_t *src, unsigned bit, unsigned width, uint64_t *out, size_t n)
{
    const lanes l = lanes64(bit, width);
    for (; n; src += width) {
        size_t k = n < 8 ? n : 8;
        _mm512_mask_storeu_epi64(out, (__mmask8)low_bits((unsigned)k), unpack64(l, load_exact(src, bit, width, k)));
        out += k;
        n -= k;
    }
}

/* As avx512_u32 for width ≤ 25, noticing indices ≥ limit on the way: false when there is one. */
TARGET_AVX512 static bool avx512_indices(const uint8_t *src, unsigned bit, unsigned width, uint32_t limit, uint32_t *out, size_t n)
{
    const lanes l = lanes32(bit, width);
    const __m512i most = _mm512_set1_epi32((int)limit);
    __mmask16 beyond = 0;
    for (; n >= 16; n -= 16, out += 16, src += 2 * width) {
        __m512i index = unpack32(l, load_exact(src, bit, width, 16));
        beyond |= _mm512_cmpge_epu32_mask(index, most);
        _mm512_storeu_si512(out, index);
    }
    if (n) {
        const __mmask16 some = (__mmask16)low_bits((unsigned)n);
        __m512i index = unpack32(l, load_exact(src, bit, width, n));
        beyond |= _mm512_mask_cmpge_epu32_mask(some, index, most);
        _mm512_mask_storeu_epi32(out, some, index);
    }
    return beyond == 0;
}
#elif defined(__aarch64__)

/* ---- NEON ---- */

/* Width ≤ 25: eight values from two 16-byte loads; each lane's bytes are picked by a table and shifted. */
static void neon_u32(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint32_t *out, size_t n)
{
    size_t i = 0;
    if (width <= 25) {
        const unsigned second = bit + 4 * width, byte = second >> 3;
        uint8_t pick[2][16];
        int32_t left[2][4];
        for (unsigned lane = 0; lane < 8; lane++) {
            const unsigned at = (lane < 4 ? bit : second & 7) + lane % 4 * width;
            for (unsigned k = 0; k < 4; k++)
                pick[lane / 4][4 * (lane % 4) + k] = (uint8_t)((at >> 3) + k);
            left[lane / 4][lane % 4] = -(int32_t)(at & 7);
        }
        const uint8x16_t pick0 = vld1q_u8(pick[0]), pick1 = vld1q_u8(pick[1]);
        const int32x4_t left0 = vld1q_s32(left[0]), left1 = vld1q_s32(left[1]);
        const uint32x4_t mask = vdupq_n_u32((uint32_t)low_bits(width));
        while (i + 8 <= n && n_src >= (size_t)byte + 16) {
            const uint32x4_t v0 = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(src), pick0));
            const uint32x4_t v1 = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(src + byte), pick1));
            vst1q_u32(out + i, vandq_u32(vshlq_u32(v0, left0), mask));
            vst1q_u32(out + i + 4, vandq_u32(vshlq_u32(v1, left1), mask));
            i += 8;
            src += width;
            n_src -= width;
        }
    }
    scalar_u32(src, n_src, bit, width, out + i, n - i);
}

/* Width ≤ 8: eight values lie in 9 bytes; each is picked with the byte behind it. */
static void neon_u8(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint8_t *out, size_t n)
{
    uint8_t pick[16];
    int16_t left[8];
    for (unsigned lane = 0; lane < 8; lane++) {
        const unsigned at = bit + lane * width;
        pick[2 * lane] = (uint8_t)(at >> 3);
        pick[2 * lane + 1] = (uint8_t)((at >> 3) + 1);
        left[lane] = (int16_t)(-(int)(at & 7));
    }
    const uint8x16_t by = vld1q_u8(pick);
    const int16x8_t shift = vld1q_s16(left);
    const uint16x8_t mask = vdupq_n_u16((uint16_t)low_bits(width));
    size_t i = 0;
    for (; i + 8 <= n && n_src >= 16; i += 8, src += width, n_src -= width) {
        const uint16x8_t v = vreinterpretq_u16_u8(vqtbl1q_u8(vld1q_u8(src), by));
        vst1_u8(out + i, vmovn_u16(vandq_u16(vshlq_u16(v, shift), mask)));
    }
    scalar_u8(src, n_src, bit, width, out + i, n - i);
}
#endif

/* ---- choice ---- */

static void unpack_u32_at(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint32_t *out, size_t n)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx512()) {
        avx512_u32(src, bit, width, out, n);
        return;
    }
    if (fby__cpu_has_avx2()) {
        avx2_u32(src, n_src, bit, width, out, n);
        return;
    }
#elif defined(__aarch64__)
    if (fby__cpu_has_neon()) {
        neon_u32(src, n_src, bit, width, out, n);
        return;
    }
#endif
    scalar_u32(src, n_src, bit, width, out, n);
}

static void unpack_u8_at(const uint8_t *src, size_t n_src, unsigned bit, unsigned width, uint8_t *out, size_t n)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx2()) {
        avx2_u8(src, n_src, bit, width, out, n);
        return;
    }
#elif defined(__aarch64__)
    if (fby__cpu_has_neon()) {
        neon_u8(src, n_src, bit, width, out, n);
        return;
    }
#endif
    scalar_u8(src, n_src, bit, width, out, n);
}

void fby__unpack_u32(const uint8_t *src, size_t n_src, unsigned width, uint32_t *out, size_t n)
{
    if (width == 0)
        memset(out, 0, n * sizeof *out);
    else
        unpack_u32_at(src, n_src, 0, width, out, n);
}

void fby__unpack_u64(const uint8_t *src, size_t n_src, unsigned width, uint64_t *out, size_t n)
{
    if (width == 0) {
        memset(out, 0, n * sizeof *out);
        return;
    }
#if defined(__x86_64__)
    if (width <= 57 && fby__cpu_has_avx512()) { /* 7 + 57 bits fit a lane */
        avx512_u64(src, 0, width, out, n);
        return;
    }
#endif
    scalar_u64(src, n_src, 0, width, out, n);
}

void fby__unpack_u8(const uint8_t *src, size_t n_src, unsigned width, uint8_t *out, size_t n)
{
    if (width == 0)
        memset(out, 0, n);
    else
        unpack_u8_at(src, n_src, 0, width, out, n);
}

/* ---- the hybrid ---- */

void fby__hybrid_init(fby__hybrid *h, fby__bytes bytes, unsigned width)
{
    *h = (fby__hybrid){.p = bytes.data, .end = bytes.data + bytes.n, .width = width};
    if (width == 0) {
        h->rle = true;
        h->left = UINT64_MAX;
    }
}

/* The bits that a value may take outside its width, in an RLE run's whole bytes, are an error of the writer: refused. */
bool fby__hybrid_run(fby__hybrid *h)
{
    while (h->left == 0) {
        uint64_t header = 0;
        unsigned shift = 0;
        do {
            if (h->p == h->end || shift > 35)
                return false;
            header |= (uint64_t)(*h->p & 0x7f) << shift;
            shift += 7;
        } while (*h->p++ & 0x80);
        size_t have = (size_t)(h->end - h->p);
        if (header & 1) {
            /* Groups of eight values. The last run of some writers is cut after the values that count. */
            uint64_t groups = header >> 1, whole = groups * h->width;
            h->rle = false;
            h->packed = h->p;
            h->packed_bit = 0;
            h->left = whole <= have ? groups * 8 : (uint64_t)have * 8 / h->width;
            h->p += whole <= have ? whole : have;
        } else {
            unsigned bytes = (h->width + 7) / 8;
            if (bytes > have)
                return false;
            uint32_t v = 0;
            for (unsigned i = 0; i < bytes; i++)
                v |= (uint32_t)h->p[i] << (8 * i);
            if (v & ~(uint32_t)low_bits(h->width))
                return false;
            h->rle = true;
            h->value = v;
            h->left = header >> 1;
            h->p += bytes;
        }
    }
    return true;
}

static inline size_t step(const fby__hybrid *h, size_t n) { return h->left < n ? (size_t)h->left : n; }

static inline void advance(fby__hybrid *h, size_t k)
{
    if (h->width == 0)
        return;
    h->left -= k;
    if (!h->rle) {
        uint64_t at = h->packed_bit + (uint64_t)k * h->width;
        h->packed += at >> 3;
        h->packed_bit = at & 7;
    }
}

size_t fby__hybrid_u32(fby__hybrid *h, uint32_t *out, size_t n)
{
    size_t done = 0;
    while (done < n && fby__hybrid_run(h)) {
        size_t k = step(h, n - done);
        if (h->rle)
            for (size_t i = 0; i < k; i++)
                out[done + i] = h->value;
        else
            unpack_u32_at(h->packed, (size_t)(h->end - h->packed), h->packed_bit, h->width, out + done, k);
        advance(h, k);
        done += k;
    }
    return done;
}

size_t fby__hybrid_u8(fby__hybrid *h, uint8_t *out, size_t n)
{
    size_t done = 0;
    while (done < n && fby__hybrid_run(h)) {
        size_t k = step(h, n - done);
        if (h->rle)
            memset(out + done, (int)h->value, k);
        else
            unpack_u8_at(h->packed, (size_t)(h->end - h->packed), h->packed_bit, h->width, out + done, k);
        advance(h, k);
        done += k;
    }
    return done;
}

size_t fby__hybrid_skip(fby__hybrid *h, size_t n)
{
    size_t done = 0;
    while (done < n && fby__hybrid_run(h)) {
        size_t k = step(h, n - done);
        advance(h, k);
        done += k;
    }
    return done;
}

/* ---- dictionary lookups ---- */

static void fill(void *out, const void *value, size_t elem_bytes, size_t n)
{
    switch (elem_bytes) {
    case 4: {
        uint32_t v = fby__load_u32(value), *o = out;
        for (size_t i = 0; i < n; i++)
            o[i] = v;
        break;
    }
    case 8: {
        uint64_t v = fby__load_u64(value), *o = out;
        for (size_t i = 0; i < n; i++)
            o[i] = v;
        break;
    }
    case 1: memset(out, *(const uint8_t *)value, n); break;
    default:
        for (size_t i = 0; i < n; i++)
            memcpy((uint8_t *)out + i * elem_bytes, value, elem_bytes);
    }
}

/* index[0 … n) are in range. Plain loads and stores: they look entries up faster than gather instructions. */
static void look_up(const uint8_t *dict, const uint32_t *index, size_t elem_bytes, uint8_t *out, size_t n)
{
    switch (elem_bytes) {
    case 4:
        for (size_t i = 0; i < n; i++)
            fby__store_u32(out + 4 * i, fby__load_u32(dict + 4 * (size_t)index[i]));
        break;
    case 8:
        for (size_t i = 0; i < n; i++)
            fby__store_u64(out + 8 * i, fby__load_u64(dict + 8 * (size_t)index[i]));
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            memcpy(out + 2 * i, dict + 2 * (size_t)index[i], 2);
        break;
    case 1:
        for (size_t i = 0; i < n; i++)
            out[i] = dict[index[i]];
        break;
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(out + i * elem_bytes, dict + (size_t)index[i] * elem_bytes, elem_bytes);
    }
}

/* k ≤ 512 indices of a bit-packed run; false and the largest when it is not in the dictionary. */
static bool next_indices(const fby__hybrid *h, size_t n_dict, uint32_t *index, size_t k, uint32_t *bad_index)
{
#if defined(__x86_64__)
    if (h->width <= 25 && n_dict <= UINT32_MAX && fby__cpu_has_avx512() &&
        avx512_indices(h->packed, h->packed_bit, h->width, (uint32_t)n_dict, index, k))
        return true; /* else: once more, to name the index */
#endif
    unpack_u32_at(h->packed, (size_t)(h->end - h->packed), h->packed_bit, h->width, index, k);
    uint32_t top = 0;
    for (size_t i = 0; i < k; i++)
        top = index[i] > top ? index[i] : top;
    *bad_index = top;
    return top < n_dict;
}

fby__gather_end fby__hybrid_gather(fby__hybrid *h, const void *dict, size_t n_dict, size_t elem_bytes, void *out, size_t n,
                                   uint32_t *bad_index)
{
    uint8_t *o = out;
    size_t done = 0;
    while (done < n) {
        if (!fby__hybrid_run(h))
            return FBY__GATHER_SHORT;
        size_t k = step(h, n - done);
        if (h->rle) {
            if (h->value >= n_dict) {
                *bad_index = h->value;
                return FBY__GATHER_RANGE;
            }
            fill(o, (const uint8_t *)dict + h->value * elem_bytes, elem_bytes, k);
            advance(h, k);
            o += k * elem_bytes;
            done += k;
            continue;
        }
        uint32_t index[512];
        k = k < 512 ? k : 512;
        if (!next_indices(h, n_dict, index, k, bad_index))
            return FBY__GATHER_RANGE;
        look_up(dict, index, elem_bytes, o, k);
        advance(h, k);
        o += k * elem_bytes;
        done += k;
    }
    return FBY__GATHER_OK;
}
