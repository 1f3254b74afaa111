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

const fby__codec fby__codec_none = {.name = "uncompressed", .decompress = decompress};
