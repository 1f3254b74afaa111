/* LZ4 frames, one or more behind each other: what Arrow IPC calls LZ4_FRAME, and the last guess for Parquet's codec 5 (lz4.c). */
#include "codec/codec_impl.h"

#include <lz4frame.h>

static bool frames(LZ4F_dctx *dctx, fby__bytes src, uint8_t *dst, size_t dst_n)
{
    /* dst stays where it is until the end, so that the library need not keep a copy of its window. */
    const LZ4F_decompressOptions_t options = {.stableDst = 1};
    size_t at = 0, got = 0, expects = 1;
    LZ4F_resetDecompressionContext(dctx);
    while (at < src.n) {
        size_t used = src.n - at, made = dst_n - got;
        expects = LZ4F_decompress(dctx, dst + got, &made, src.data + at, &used, &options);
        if (LZ4F_isError(expects) || (used == 0 && made == 0))
            return false;
        at += used;
        got += made;
    }
    return expects == 0 && got == dst_n;
}

fby_status fby__lz4_frames(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    LZ4F_dctx *dctx = *ctx;
    if (!dctx) {
        if (fby__alloc_should_fail() || LZ4F_isError(LZ4F_createDecompressionContext(&dctx, LZ4F_VERSION)))
            return fby__fail_nomem(err, "lz4 frame decompressor");
        *ctx = dctx;
    }
    return frames(dctx, src, dst, dst_n) ? FBY_OK : FBY_E_FORMAT;
}

void fby__lz4_frames_free(void *ctx) { (void)LZ4F_freeDecompressionContext(ctx); /* its result is the state it was in */ }

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    fby_status status = fby__lz4_frames(ctx, src, dst, dst_n, err);
    return status == FBY_E_FORMAT ? fby__codec_bad_stream(err, &fby__codec_lz4_frame, src.n, dst_n, "no LZ4 frames of that size") : status;
}

static size_t bound(size_t n) { return LZ4F_compressFrameBound(n, NULL); }

static fby_status compress(void **ctx, fby__bytes src, int level, uint8_t *dst, size_t dst_n, size_t *out_n, fby_error *err)
{
    (void)ctx;
    (void)level;
    *out_n = LZ4F_compressFrame(dst, dst_n, src.data, src.n, NULL);
    if (LZ4F_isError(*out_n))
        return fby__fail(err, FBY_E_INTERNAL, "lz4: %zu bytes were not compressed: %s", src.n, LZ4F_getErrorName(*out_n));
    return FBY_OK;
}

const fby__codec fby__codec_lz4_frame = {
    .name = "lz4", .decompress = decompress, .destroy_ctx = fby__lz4_frames_free, .bound = bound, .compress = compress};
