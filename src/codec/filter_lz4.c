/*
 * lz4 (32004): u64 BE bytes, u32 BE bytes of a block, then for each block u32 BE stored bytes and a raw LZ4 block. A block that
 * is stored with its own size is a plain copy. The last block may be shorter.
 */
#include "codec/codec_impl.h"
#include "codec/filter_impl.h"

enum { HEADER_BYTES = 12 };

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    (void)state;
    (void)filter; /* its parameters are the encoder's */
    if (src.n < HEADER_BYTES)
        return fby__fail(err, FBY_E_FORMAT, "the header is cut");
    const uint64_t total = fby__load_be64(src.data);
    const size_t block = fby__load_be32(src.data + 8);
    *out_n = total;
    if (total > cap)
        return FBY_OK;
    if (block == 0 && total > 0)
        return fby__fail(err, FBY_E_FORMAT, "blocks of no bytes");
    size_t at = HEADER_BYTES;
    for (size_t done = 0; done < total;) {
        const size_t n = total - done < block ? total - done : block;
        if (src.n - at < 4)
            return fby__fail(err, FBY_E_FORMAT, "the stream ends at byte %zu of %zu", done, (size_t)total);
        const size_t stored = fby__load_be32(src.data + at);
        at += 4;
        if (stored > src.n - at)
            return fby__fail(err, FBY_E_FORMAT, "a block of %zu bytes ends behind the stream", stored);
        if (stored == n)
            memcpy(dst + done, src.data + at, n);
        else if (fby__lz4_block(src.data + at, stored, dst + done, n) != (int64_t)n)
            return fby__fail(err, FBY_E_FORMAT, "the block at byte %zu is corrupt or of another size", done);
        at += stored;
        done += n;
    }
    return FBY_OK;
}

const fby__filter_ops fby__filter_lz4 = {.name = "lz4", .undo = undo};
