/*
 * zstd (32015): a frame that states its size, as the filter's own reader demands; more frames and such as do not state it are
 * read where the size is known anyway.
 */
#include "codec/filter_impl.h"

#include <zstd.h>

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    (void)filter; /* its parameter is the level */
    const unsigned long long stated = ZSTD_getFrameContentSize(src.data, src.n);
    if (stated == ZSTD_CONTENTSIZE_ERROR)
        return fby__fail(err, FBY_E_FORMAT, "no zstd frame");
    if (stated != ZSTD_CONTENTSIZE_UNKNOWN && stated > cap) {
        *out_n = stated;
        return FBY_OK;
    }
    /* One frame is the rule, so its size is the stream's; frames that follow make it the destination's. */
    size_t n = cap;
    if (stated != ZSTD_CONTENTSIZE_UNKNOWN) {
        const size_t frame = ZSTD_findFrameCompressedSize(src.data, src.n);
        if (!ZSTD_isError(frame) && frame == src.n)
            n = stated;
    }
    *out_n = n;
    return fby__codec_decompress(&state->codec, FBY__CODEC_ZSTD, src, dst, n, err);
}

const fby__filter_ops fby__filter_zstd = {.name = "zstd", .undo = undo};
