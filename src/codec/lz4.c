/*
 * Parquet codec 5, "LZ4", which never said what it was. Three things are found under it, tried in this order; the first
 * that gives exactly dst_n bytes from all of src is it:
 *
 * 1. Hadoop's block stream (parquet-mr, and Arrow since 0.17): repeated
 *        u32 BE  bytes of this block decompressed
 *        repeated until they are there:  u32 BE  bytes of this chunk,  one raw LZ4 block
 *    Hadoop writes several chunks a block when the input exceeds its buffer, and just the four zero bytes for no input.
 * 2. one raw LZ4 block (Arrow before 0.17, and others);
 * 3. LZ4 frames (Arrow C++ 0.x with its frame codec).
 */
#include "codec/codec_impl.h"

static bool hadoop(fby__bytes src, uint8_t *dst, size_t dst_n)
{
    size_t at = 0, got = 0;
    while (src.n - at >= 4) {
        size_t block_n = fby__load_be32(src.data + at), block_got = 0;
        at += 4;
        if (block_n > dst_n - got)
            return false;
        if (block_n == 0 && at == src.n)
            break;
        do {
            if (src.n - at < 4)
                return false;
            size_t chunk_n = fby__load_be32(src.data + at);
            at += 4;
            if (chunk_n > src.n - at)
                return false;
            int64_t n = fby__lz4_block(src.data + at, chunk_n, dst + got, block_n - block_got);
            if (n < 0)
                return false;
            at += chunk_n;
            got += (size_t)n;
            block_got += (size_t)n;
        } while (block_got < block_n);
    }
    return at == src.n && got == dst_n;
}

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    if (hadoop(src, dst, dst_n))
        return FBY_OK;
    int64_t n = fby__lz4_block(src.data, src.n, dst, dst_n);
    if (n >= 0 && (uint64_t)n == dst_n)
        return FBY_OK;

    fby_status status = fby__lz4_frames(ctx, src, dst, dst_n, err);
    if (status != FBY_E_FORMAT)
        return status;
    return fby__codec_bad_stream(err, &fby__codec_lz4, src.n, dst_n,
                                 "neither Hadoop's framing, nor a raw block, nor LZ4 frames of that size");
}

const fby__codec fby__codec_lz4 = {.name = "lz4", .decompress = decompress, .destroy_ctx = fby__lz4_frames_free};
