/* deflate (1): one zlib stream (RFC 1950) through libdeflate, which verifies its Adler-32. */
#include "codec/filter_impl.h"

#include <libdeflate.h>

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    (void)filter; /* its parameter is the level */
    void **ctx = &state->ctx[FBY__FILTER_CTX_DEFLATE];
    if (!*ctx && !fby__alloc_should_fail())
        *ctx = libdeflate_alloc_decompressor();
    if (!*ctx)
        return fby__fail_nomem(err, "deflate decompressor");
    switch (libdeflate_zlib_decompress(*ctx, src.data, src.n, dst, cap, out_n)) {
    case LIBDEFLATE_SUCCESS: return FBY_OK;
    case LIBDEFLATE_INSUFFICIENT_SPACE: *out_n = cap + 1; return FBY_OK;
    default: return fby__fail(err, FBY_E_FORMAT, "the zlib stream is corrupt or cut");
    }
}

void fby__filter_deflate_destroy(void *ctx) { libdeflate_free_decompressor(ctx); }

const fby__filter_ops fby__filter_deflate = {.name = "deflate", .undo = undo};
