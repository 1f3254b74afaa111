/* No compression: a copy. Readers that can use the stored bytes in place do so and never come here. */
#include "codec/codec_impl.h"

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    (void)ctx; /* nothing to keep */
    if (src.n != dst_n)
        return fby__codec_bad_size(err, &fby__codec_none, src.n, dst_n, src.n);
    memcpy(dst, src.data, dst_n);
    return FBY_OK;
}

static size_t bound(size_t n) { return n; }

static fby_status compress(void **ctx, fby__bytes src, int level, uint8_t *dst, size_t dst_n, size_t *out_n, fby_error *err)
{
    (void)ctx;
    (void)level;
    (void)dst_n; /* bound(src.n) */
    (void)err;
    if (src.n)
        memcpy(dst, src.data, src.n);
    *out_n = src.n;
    return FBY_OK;
}

const fby__codec fby__codec_none = {.name = "uncompressed", .decompress = decompress, .bound = bound, .compress = compress};
