/* PLAIN strings and BYTE_STREAM_SPLIT (Encodings.md). */
#include "format/parquet/encodings.h"

#include "base/cpu.h"
#include "base/neon.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

fby_status fby__plain_strings(const uint8_t **p, const uint8_t *end, fby__pq_string *out, size_t n, fby_error *err)
{
    const uint8_t *at = *p;
    for (size_t i = 0; i < n; i++) {
        if ((size_t)(end - at) < 4)
            return fby__fail(err, FBY_E_FORMAT, "fewer values than the levels say");
        uint32_t len = fby__load_u32(at);
        at += 4;
        if (len > (size_t)(end - at))
            return fby__fail(err, FBY_E_FORMAT, "a string of %u bytes reaches beyond the page", len);
        out[i] = (fby__pq_string){at, len};
        at += len;
    }
    *p = at;
    return FBY_OK;
}

fby_status fby__plain_strings_skip(const uint8_t **p, const uint8_t *end, size_t n, fby_error *err)
{
    fby__pq_string ignored;
    for (size_t i = 0; i < n; i++)
        FBY__TRY(fby__plain_strings(p, end, &ignored, 1, err));
    return FBY_OK;
}

/* ---- BYTE_STREAM_SPLIT ---- */

static void unsplit_scalar(const uint8_t *src, size_t n_total, size_t elem_bytes, uint8_t *out, size_t n)
{
    for (size_t k = 0; k < elem_bytes; k++)
        for (size_t i = 0; i < n; i++)
            out[i * elem_bytes + k] = src[k * n_total + i];
}

#if defined(__x86_64__)
/* Sixteen values at a time: the byte streams are interleaved pairwise, log2(elem_bytes) times. SSE2 is always there. */
static size_t unsplit4(const uint8_t *src, size_t n_total, uint8_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = _mm_loadu_si128((const void *)(src + i)), b = _mm_loadu_si128((const void *)(src + n_total + i));
        __m128i c = _mm_loadu_si128((const void *)(src + 2 * n_total + i)), d = _mm_loadu_si128((const void *)(src + 3 * n_total + i));
        __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
        __m128i cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
        __m128i *o = (void *)(out + 4 * i);
        _mm_storeu_si128(o, _mm_unpacklo_epi16(ab0, cd0));
        _mm_storeu_si128(o + 1, _mm_unpackhi_epi16(ab0, cd0));
        _mm_storeu_si128(o + 2, _mm_unpacklo_epi16(ab1, cd1));
        _mm_storeu_si128(o + 3, _mm_unpackhi_epi16(ab1, cd1));
    }
    return i;
}

static size_t unsplit8(const uint8_t *src, size_t n_total, uint8_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i v[8], w[8];
        for (size_t k = 0; k < 8; k++)
            v[k] = _mm_loadu_si128((const void *)(src + k * n_total + i));
        for (size_t k = 0; k < 4; k++) { /* w[2k], w[2k+1]: 16-bit pairs of streams 2k, 2k+1 */
            w[2 * k] = _mm_unpacklo_epi8(v[2 * k], v[2 * k + 1]);
            w[2 * k + 1] = _mm_unpackhi_epi8(v[2 * k], v[2 * k + 1]);
        }
        __m128i *o = (void *)(out + 8 * i);
        for (size_t half = 0; half < 2; half++) {
            __m128i lo0 = _mm_unpacklo_epi16(w[half], w[2 + half]), lo1 = _mm_unpackhi_epi16(w[half], w[2 + half]);
            __m128i hi0 = _mm_unpacklo_epi16(w[4 + half], w[6 + half]), hi1 = _mm_unpackhi_epi16(w[4 + half], w[6 + half]);
            _mm_storeu_si128(o + 4 * half, _mm_unpacklo_epi32(lo0, hi0));
            _mm_storeu_si128(o + 4 * half + 1, _mm_unpackhi_epi32(lo0, hi0));
            _mm_storeu_si128(o + 4 * half + 2, _mm_unpacklo_epi32(lo1, hi1));
            _mm_storeu_si128(o + 4 * half + 3, _mm_unpackhi_epi32(lo1, hi1));
        }
    }
    return i;
}

static size_t unsplit2(const uint8_t *src, size_t n_total, uint8_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a = _mm_loadu_si128((const void *)(src + i)), b = _mm_loadu_si128((const void *)(src + n_total + i));
        __m128i *o = (void *)(out + 2 * i);
        _mm_storeu_si128(o, _mm_unpacklo_epi8(a, b));
        _mm_storeu_si128(o + 1, _mm_unpackhi_epi8(a, b));
    }
    return i;
}
#endif

void fby__unsplit(const uint8_t *src, size_t n_total, size_t elem_bytes, size_t first, void *out, size_t n)
{
    uint8_t *o = out;
    src += first;
    size_t done = 0;
#if defined(__x86_64__)
    if (fby__cpu_has_avx2()) /* the kernels need SSE2 only; the question is whether SIMD is wanted at all */
        done = elem_bytes == 4   ? unsplit4(src, n_total, o, n)
               : elem_bytes == 8 ? unsplit8(src, n_total, o, n)
               : elem_bytes == 2 ? unsplit2(src, n_total, o, n)
                                 : 0;
#elif defined(__aarch64__)
    if (fby__cpu_has_neon())
        done = fby__neon_join(src, n_total, elem_bytes, o, n);
#endif
    unsplit_scalar(src + done, n_total, elem_bytes, o + done * elem_bytes, n - done);
}
