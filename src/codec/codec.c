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
        if (state->compressor[i])
            CODEC[i]->destroy_compressor(state->compressor[i]);
        state->ctx[i] = state->compressor[i] = NULL;
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

fby_status fby__codec_compress(fby__codec_state *state, fby__codec_id id, int level, fby__bytes src, fby__buf *out, fby_error *err)
{
    if ((unsigned)id >= FBY__CODEC_COUNT || !CODEC[id]->compress)
        return fby__fail(err, FBY_E_ARG, "%s: nothing is written with this codec", fby__codec_name(id));
    const size_t bound = CODEC[id]->bound(src.n);
    if (bound == 0 && src.n)
        return fby__fail(err, FBY_E_ARG, "%s: %zu bytes are more than one piece holds", CODEC[id]->name, src.n);
    if (bound > SIZE_MAX - out->n || fby__grow((void **)&out->data, &out->cap, out->n + bound, 1) != 0)
        return fby__fail_nomem(err, "compressed bytes");
    size_t n;
    FBY__TRY(CODEC[id]->compress(&state->compressor[id], src, level, out->data + out->n, bound, &n, err));
    out->n += n;
    return FBY_OK;
}
