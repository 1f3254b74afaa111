/* Snappy's block format through snappy-c.h (the framing format of .sz files is not used by Parquet). */
#include "codec/codec_impl.h"

#include <snappy-c.h>

static fby_status decompress(void **ctx, fby__bytes src, uint8_t *dst, size_t dst_n, fby_error *err)
{
    (void)ctx; /* the library keeps no state */
    size_t n;
    /* The library writes as many bytes as the stream's own header says: that must be checked first. */
    if (snappy_uncompressed_length((const char *)src.data, src.n, &n) != SNAPPY_OK)
        return fby__codec_bad_stream(err, &fby__codec_snappy, src.n, dst_n, "the length at its start is invalid");
    if (n != dst_n)
        return fby__codec_bad_size(err, &fby__codec_snappy, src.n, dst_n, n);
    if (snappy_uncompress((const char *)src.data, src.n, (char *)dst, &n) != SNAPPY_OK)
        return fby__codec_bad_stream(err, &fby__codec_snappy, src.n, dst_n, "the stream is corrupt or cut");
    return FBY_OK;
}

static fby_status compress(void **ctx, fby__bytes src, int level, uint8_t *dst, size_t dst_n, size_t *out_n, fby_error *err)
{
    (void)ctx;
    (void)level;
    *out_n = dst_n;
    if (snappy_compress((const char *)src.data, src.n, (char *)dst, out_n) != SNAPPY_OK)
        return fby__fail(err, FBY_E_INTERNAL, "snappy: %zu bytes were not compressed", src.n);
    return FBY_OK;
}

const fby__codec fby__codec_snappy = {
    .name = "snappy", .decompress = decompress, .bound = snappy_max_compressed_length, .compress = compress};
