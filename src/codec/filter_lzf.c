/* lzf (32000): one LZF stream, as h5py writes it. The stream does not state its size. */
#include "codec/filter_impl.h"

#include <errno.h>
#include <limits.h>
#include <lzf.h>

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    (void)state;
    (void)filter; /* revision, version and size of the chunk: nothing that the stream needs */
    if (src.n > UINT_MAX)
        return fby__fail(err, FBY_E_FORMAT, "an LZF stream of 4 GiB or more");
    /* The library counts in unsigned int. */
    *out_n = lzf_decompress(src.data, (unsigned)src.n, dst, cap < UINT_MAX ? (unsigned)cap : UINT_MAX);
    if (*out_n != 0)
        return FBY_OK;
    if (errno != E2BIG)
        return fby__fail(err, FBY_E_FORMAT, "the LZF stream is corrupt or cut");
    *out_n = cap + 1;
    return FBY_OK;
}

const fby__filter_ops fby__filter_lzf = {.name = "lzf", .undo = undo};
