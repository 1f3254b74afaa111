/* Inside src/codec only: the vtable that each codec's file fills, and the errors they share. */
#ifndef FBY_CODEC_CODEC_IMPL_H
#define FBY_CODEC_CODEC_IMPL_H

#include "codec/codec.h"

typedef struct fby__codec {
    const char *name;
    /*
     * As fby__codec_decompress, with src.n > 0 and dst never NULL (dst_n may be 0).
     * *ctx starts NULL; what the codec stores there is reused by later calls on the same state.
     */
    fby_status (*decompress)(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err);
    void (*destroy_ctx)(void *ctx); /* NULL: the codec keeps no context. Never called with NULL */
    /* What n bytes may become at most; 0: more than the codec holds. NULL: nothing is written with it, and all below is NULL too. */
    size_t (*bound)(size_t n);
    /* dst has bound(src.n) bytes; *out_n are written. */
    fby_status (*compress)(void **ctx, fby__bytes src, int level, uint8_t *dst, size_t dst_n, size_t *out_n, fby_error *err);
    void (*destroy_compressor)(void *ctx); /* as destroy_ctx */
} fby__codec;

extern const fby__codec fby__codec_none;
extern const fby__codec fby__codec_snappy;
extern const fby__codec fby__codec_gzip;
extern const fby__codec fby__codec_zstd;
extern const fby__codec fby__codec_lz4_raw;
extern const fby__codec fby__codec_lz4;
extern const fby__codec fby__codec_brotli;
extern const fby__codec fby__codec_lz4_frame;

/** FBY_E_FORMAT: "zstd: 120 stored bytes do not decompress to 800: <what>". */
fby_status fby__codec_bad_stream(fby_error *err, const fby__codec *codec, size_t src_n, size_t dst_n, const char *what);

/** FBY_E_FORMAT for a valid stream of another size. */
fby_status fby__codec_bad_size(fby_error *err, const fby__codec *codec, size_t src_n, size_t dst_n, uint64_t got);

/** LZ4 frames that hold dst_n bytes together: FBY_OK, FBY_E_FORMAT without a message, FBY_E_NOMEM. *ctx as in fby__codec. */
fby_status fby__lz4_frames(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err);
void fby__lz4_frames_free(void *ctx);

/** One raw LZ4 block: bytes written to dst (at most dst_n), or -1. */
int64_t fby__lz4_block(const uint8_t *src, size_t src_n, uint8_t *dst, size_t dst_n);

#endif
