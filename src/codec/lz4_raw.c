/* One LZ4 block without any framing: Parquet's LZ4_RAW. */
#include "codec/codec_impl.h"

#include <limits.h>
#include <lz4.h>

int64_t fby__lz4_block(const uint8_t *src, size_t src_n, uint8_t *dst, size_t dst_n)
{
    /* The library counts in int; a block of 2 GiB or more cannot be written by it either. */
    if (src_n > INT_MAX || dst_n > INT_MAX)
        return -1;
    int n = LZ4_decompress_safe((const char *)src, (char *)dst, (int)src_n, (int)dst_n);
    return n < 0 ? -1 : n;
}

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    (void)ctx; /* the library keeps no state */
    int64_t n = fby__lz4_block(src.data, src.n, dst, dst_n);
    if (n < 0)
        return fby__codec_bad_stream(err, &fby__codec_lz4_raw, src.n, dst_n, "the block is corrupt, cut, or holds more");
    return (uint64_t)n == dst_n ? FBY_OK : fby__codec_bad_size(err, &fby__codec_lz4_raw, src.n, dst_n, (uint64_t)n);
}

static size_t bound(size_t n) { return n > LZ4_MAX_INPUT_SIZE ? 0 : (size_t)LZ4_compressBound((int)n); }

static fby_status compress(void **ctx, fby__bytes src, int level, uint8_t *dst, size_t dst_n, size_t *out_n, fby_error *err)
{
    (void)ctx;
    (void)level;
    const int n = LZ4_compress_default((const char *)src.data, (char *)dst, (int)src.n, (int)dst_n);
    if (n <= 0)
        return fby__fail(err, FBY_E_INTERNAL, "lz4: %zu bytes were not compressed", src.n);
    *out_n = (size_t)n;
    return FBY_OK;
}

const fby__codec fby__codec_lz4_raw = {.name = "lz4_raw", .decompress = decompress, .bound = bound, .compress = compress};
