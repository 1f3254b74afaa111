/*
 * gzip (RFC 1952) and zlib (RFC 1950) through libdeflate, which decodes about twice as fast as zlib.
 *
 * A gzip stream may have several members, each of which may be empty; the tail may be padded with zeros, as gzip(1)
 * accepts. Check sums are verified by the library. Raw deflate without a wrapper is not accepted: it cannot be told
 * from noise.
 */
#include "codec/codec_impl.h"

#include <libdeflate.h>

static bool is_gzip(const uint8_t *p, size_t n) { return n >= 2 && p[0] == 0x1f && p[1] == 0x8b; }

/* CM = 8, window of at most 32 KiB, and the header check of RFC 1950 section 2.2. */
static bool is_zlib(const uint8_t *p, size_t n) { return n >= 2 && (p[0] & 0x0f) == 8 && p[0] >> 4 <= 7 && (p[0] * 256 + p[1]) % 31 == 0; }

static bool is_zeros(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    if (!*ctx && !fby__alloc_should_fail())
        *ctx = libdeflate_alloc_decompressor();
    if (!*ctx)
        return fby__fail_nomem(err, "gzip decompressor");

    size_t at = 0, got = 0;
    while (at < src.n) {
        const uint8_t *p = src.data + at;
        size_t left = src.n - at, used = 0, made = 0;
        enum libdeflate_result result;
        if (is_gzip(p, left))
            result = libdeflate_gzip_decompress_ex(*ctx, p, left, dst + got, dst_n - got, &used, &made);
        else if (at == 0 && is_zlib(p, left))
            result = libdeflate_zlib_decompress_ex(*ctx, p, left, dst + got, dst_n - got, &used, &made);
        else if (at > 0 && is_zeros(p, left))
            break;
        else
            return fby__codec_bad_stream(err, &fby__codec_gzip, src.n, dst_n,
                                         at ? "bytes that are no gzip member follow the stream"
                                            : "it starts with neither a gzip nor a zlib header");
        if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
            return fby__codec_bad_stream(err, &fby__codec_gzip, src.n, dst_n, "the stream holds more");
        if (result != LIBDEFLATE_SUCCESS)
            return fby__codec_bad_stream(err, &fby__codec_gzip, src.n, dst_n, "the stream is corrupt or cut");
        at += used;
        got += made;
    }
    return got == dst_n ? FBY_OK : fby__codec_bad_size(err, &fby__codec_gzip, src.n, dst_n, got);
}

static void destroy_ctx(void *ctx) { libdeflate_free_decompressor(ctx); }

const fby__codec fby__codec_gzip = {.name = "gzip", .decompress = decompress, .destroy_ctx = destroy_ctx};
