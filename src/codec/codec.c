/*
 * Dispatch over the codecs, and the texts of their errors.
 *
 * What all codecs share is decided here, so that their files need not: an empty stream holds no bytes, whatever the
 * codec; a destination of no bytes still gives the library a valid pointer.
 */
#include "codec/codec_impl.h"

static const fby__codec *const CODEC[FBY__CODEC_COUNT] = {
    [FBY__CODEC_NONE] = &fby__codec_none,     [FBY__CODEC_SNAPPY] = &fby__codec_snappy,       [FBY__CODEC_GZIP] = &fby__codec_gzip,
    [FBY__CODEC_ZSTD] = &fby__codec_zstd,     [FBY__CODEC_LZ4_RAW] = &fby__codec_lz4_raw,     [FBY__CODEC_LZ4] = &fby__codec_lz4,
    [FBY__CODEC_BROTLI] = &fby__codec_brotli, [FBY__CODEC_LZ4_FRAME] = &fby__codec_lz4_frame,
};

fby_status fby__codec_bad_stream(fby_error *err, const fby__codec *codec, size_t src_n, size_t dst_n, const char *what)
{
    return fby__fail(err, FBY_E_FORMAT, "%s: %zu stored bytes do not decompress to %zu: %s", codec->name, src_n, dst_n, what);
}

fby_status fby__codec_bad_size(fby_error *err, const fby__codec *codec, size_t src_n, size_t dst_n, uint64_t got)
{
    return fby__fail(err, FBY_E_FORMAT, "%s: %zu stored bytes do not decompress to %zu: the stream holds %llu", codec->name, src_n, dst_n,
                     (unsigned long long)got);
}

const char *fby__codec_name(fby__codec_id id) { return (unsigned)id < FBY__CODEC_COUNT ? CODEC[id]->name : "unknown codec"; }

void fby__codec_state_fini(fby__codec_state *state)
{
    for (int i = 0; i < FBY__CODEC_COUNT; i++) {
        if (state->ctx[i])
            CODEC[i]->destroy_ctx(state->ctx[i]);
        state->ctx[i] = NULL;
    }
}

fby_status fby__codec_decompress(fby__codec_state *state, fby__codec_id id, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    uint8_t nothing;
    if ((unsigned)id >= FBY__CODEC_COUNT)
        return fby__fail(err, FBY_E_ARG, "unknown codec %d", (int)id);
    if (src.n == 0)
        return dst_n == 0 ? FBY_OK : fby__codec_bad_stream(err, CODEC[id], 0, dst_n, "the stream is empty");
    return CODEC[id]->decompress(&state->ctx[id], src, dst_n ? dst : &nothing, dst_n, err);
}
