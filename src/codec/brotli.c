/*
 * Brotli. The library has no way to reuse a decoder, so each call makes one, with our allocator; its ring buffer is at
 * most the stream's window (16 MiB; the 1 GiB windows of "large window brotli" are refused, as they are by default).
 */
#include "codec/codec_impl.h"

#include <brotli/decode.h>

static void *allocate(void *opaque, size_t n)
{
    (void)opaque; /* one process-wide allocator */
    return fby__malloc(n);
}

static void release(void *opaque, void *p)
{
    (void)opaque; /* as above */
    fby__free(p);
}

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    (void)ctx; /* nothing can be kept */
    BrotliDecoderState *decoder = BrotliDecoderCreateInstance(allocate, release, NULL);
    if (!decoder)
        return fby__fail_nomem(err, "brotli decompressor");

    size_t in_left = src.n, out_left = dst_n;
    const uint8_t *in = src.data;
    uint8_t *out = dst;
    BrotliDecoderResult result = BrotliDecoderDecompressStream(decoder, &in_left, &in, &out_left, &out, NULL);
    BrotliDecoderErrorCode code = BrotliDecoderGetErrorCode(decoder);
    BrotliDecoderDestroyInstance(decoder);

    switch (result) {
    case BROTLI_DECODER_RESULT_SUCCESS:
        if (in_left)
            return fby__codec_bad_stream(err, &fby__codec_brotli, src.n, dst_n, "bytes follow the end of the stream");
        return out_left == 0 ? FBY_OK : fby__codec_bad_size(err, &fby__codec_brotli, src.n, dst_n, dst_n - out_left);
    case BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT: return fby__codec_bad_stream(err, &fby__codec_brotli, src.n, dst_n, "the stream is cut");
    case BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT:
        return fby__codec_bad_stream(err, &fby__codec_brotli, src.n, dst_n, "the stream holds more");
    case BROTLI_DECODER_RESULT_ERROR: break;
    }
    if (code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES && code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES)
        return fby__fail_nomem(err, "brotli decompressor");
    return fby__codec_bad_stream(err, &fby__codec_brotli, src.n, dst_n, BrotliDecoderErrorString(code));
}

const fby__codec fby__codec_brotli = {.name = "brotli", .decompress = decompress};
