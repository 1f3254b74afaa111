/* Zstandard: one or more frames, skippable frames included, in one call that decodes straight into dst; written as one frame. */
#include "codec/codec_impl.h"

#include <zstd.h>
#include <zstd_errors.h>

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    if (!*ctx && !fby__alloc_should_fail())
        *ctx = ZSTD_createDCtx();
    if (!*ctx)
        return fby__fail_nomem(err, "zstd decompressor");

    size_t got = ZSTD_decompressDCtx(*ctx, dst, dst_n, src.data, src.n);
    if (!ZSTD_isError(got))
        return got == dst_n ? FBY_OK : fby__codec_bad_size(err, &fby__codec_zstd, src.n, dst_n, got);
    switch (ZSTD_getErrorCode(got)) {
    case ZSTD_error_memory_allocation: return fby__fail_nomem(err, "zstd decompressor");
    case ZSTD_error_dstSize_tooSmall: return fby__codec_bad_stream(err, &fby__codec_zstd, src.n, dst_n, "the stream holds more");
    case ZSTD_error_srcSize_wrong:
        return fby__codec_bad_stream(err, &fby__codec_zstd, src.n, dst_n, "the stream is cut, or followed by noise");
    default: return fby__codec_bad_stream(err, &fby__codec_zstd, src.n, dst_n, ZSTD_getErrorName(got));
    }
}

static void destroy_ctx(void *ctx) { (void)ZSTD_freeDCtx(ctx); /* documented to return 0 */ }

static fby_status compress(void **ctx, fby__bytes src, int level, uint8_t *dst, size_t dst_n, size_t *out_n, fby_error *err)
{
    if (!*ctx && !fby__alloc_should_fail())
        *ctx = ZSTD_createCCtx();
    if (!*ctx)
        return fby__fail_nomem(err, "zstd compressor");
    *out_n = ZSTD_compressCCtx(*ctx, dst, dst_n, src.data, src.n, level ? level : ZSTD_CLEVEL_DEFAULT);
    if (!ZSTD_isError(*out_n))
        return FBY_OK;
    if (ZSTD_getErrorCode(*out_n) == ZSTD_error_memory_allocation)
        return fby__fail_nomem(err, "zstd compressor");
    return fby__fail(err, FBY_E_INTERNAL, "zstd: %zu bytes were not compressed: %s", src.n, ZSTD_getErrorName(*out_n));
}

static void destroy_compressor(void *ctx) { (void)ZSTD_freeCCtx(ctx); /* documented to return 0 */ }

const fby__codec fby__codec_zstd = {.name = "zstd",
                                    .decompress = decompress,
                                    .destroy_ctx = destroy_ctx,
                                    .bound = ZSTD_compressBound,
                                    .compress = compress,
                                    .destroy_compressor = destroy_compressor};
