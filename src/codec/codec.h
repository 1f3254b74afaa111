/*
 * Decompression of whole buffers, and, for what is written, compression. One file a codec, each with a static vtable; libraries do the work.
 * Sizes come from page headers, which lie: the codec must fill exactly the stated size or say why not.
 */
#ifndef FBY_CODEC_CODEC_H
#define FBY_CODEC_CODEC_H

#include "base/bytes.h"
#include "base/error.h"

typedef enum fby__codec_id {
    FBY__CODEC_NONE,
    FBY__CODEC_SNAPPY,
    FBY__CODEC_GZIP,    /* RFC 1952, several members; also zlib-wrapped (RFC 1950), which some writers stored */
    FBY__CODEC_ZSTD,    /* one or more frames, skippable frames included */
    FBY__CODEC_LZ4_RAW, /* one LZ4 block */
    FBY__CODEC_LZ4,     /* Parquet codec 5: Hadoop framing, else a raw block, else an LZ4 frame: tried in that order */
    FBY__CODEC_BROTLI,
    FBY__CODEC_LZ4_FRAME, /* one or more LZ4 frames: what Arrow IPC calls LZ4_FRAME */
    FBY__CODEC_COUNT
} fby__codec_id;

/**
 * State that makes repeated calls cheap (library contexts). Owned by one thread; created lazily.
 * Zero-initialise; fby__codec_state_fini releases.
 */
typedef struct fby__codec_state {
    void *ctx[FBY__CODEC_COUNT];
    void *compressor[FBY__CODEC_COUNT];
} fby__codec_state;

void fby__codec_state_fini(fby__codec_state *state);

/** "snappy". Static. */
const char *fby__codec_name(fby__codec_id id);

/**
 * Decompress src into exactly dst_n bytes.
 *
 * FBY_OK; FBY_E_FORMAT when src is not a valid stream of dst_n bytes (the message names the codec, both sizes, and what
 * is wrong; nothing beyond dst + dst_n is written, dst may be partly written); FBY_E_NOMEM; FBY_E_ARG for an unknown id.
 * dst_n = 0 is valid: the stream must be empty or decompress to nothing.
 * Threads: any, one state a thread.
 */
fby_status fby__codec_decompress(fby__codec_state *state, fby__codec_id id, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err);

/**
 * Compress src and append it to out. What is written has NONE, SNAPPY, ZSTD, LZ4_RAW, LZ4_FRAME: FBY_E_ARG for the others, and for what the
 * codec cannot hold in one piece (LZ4_RAW: 2 GiB and more). The same bytes for the same version of its library.
 *
 * @level  of zstd; 0 = its default.
 */
fby_status fby__codec_compress(fby__codec_state *state, fby__codec_id id, int level, fby__bytes src, fby__buf *out, fby_error *err);

#endif
