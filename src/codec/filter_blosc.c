/*
 * blosc (32001): one buffer of c-blosc 1, whose header states sizes and inner codec (the format's README, "header"):
 *     u8 version   u8 version of the codec   u8 flags (codec in bits 5 … 7)   u8 element bytes
 *     u32 LE bytes   u32 LE bytes of a block   u32 LE stored bytes, header included
 * Whole in one thread, without the library's global state.
 */
#include "codec/filter_impl.h"

#include <blosc.h>

enum { HEADER_BYTES = 16, FORMAT_VERSION = 2, PARAM_CODEC = 6 };

/* Inner codecs by their number in the buffer's flags, not in the filter's parameters, where lz4hc is a codec of its own. */
static const char *const CODEC[] = {BLOSC_BLOSCLZ_COMPNAME, BLOSC_LZ4_COMPNAME, BLOSC_SNAPPY_COMPNAME, BLOSC_ZLIB_COMPNAME,
                                    BLOSC_ZSTD_COMPNAME};

static fby_status check(const fby__filter *filter, fby_error *err)
{
    if (filter->n_values <= PARAM_CODEC)
        return FBY_OK; /* before blosc 1.3 there was one codec */
    const char *name = NULL;
    if (filter->values[PARAM_CODEC] > BLOSC_ZSTD || blosc_compcode_to_compname((int)filter->values[PARAM_CODEC], &name) < 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "the inner codec %u%s%s is not in this libblosc", filter->values[PARAM_CODEC],
                         name ? ", " : "", name ? name : "");
    return FBY_OK;
}

/* Can the codec of this buffer be decoded? */
static fby_status check_codec(const uint8_t *header, fby_error *err)
{
    const unsigned code = header[2] >> 5;
    if (header[2] & BLOSC_MEMCPYED)
        return FBY_OK;
    if (code >= sizeof CODEC / sizeof CODEC[0])
        return fby__fail(err, FBY_E_UNSUPPORTED, "the inner codec %u is unknown", code);
    if (blosc_compname_to_compcode(CODEC[code]) < 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "the inner codec %s is not in this libblosc", CODEC[code]);
    return FBY_OK;
}

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    (void)state;
    (void)filter; /* the buffer says it all */
    if (src.n < HEADER_BYTES)
        return fby__fail(err, FBY_E_FORMAT, "the header is cut");
    if (src.data[0] == 0 || src.data[0] > FORMAT_VERSION)
        return fby__fail(err, FBY_E_FORMAT, "version %u of the format", src.data[0]);
    const size_t n = fby__load_u32(src.data + 4), stored = fby__load_u32(src.data + 12);
    size_t valid_n;
    if (stored > src.n || blosc_cbuffer_validate(src.data, stored, &valid_n) != 0 || valid_n != n)
        return fby__fail(err, FBY_E_FORMAT, "the header does not fit the stream (%zu bytes, %zu stored)", n, stored);
    FBY__TRY(check_codec(src.data, err));
    *out_n = n;
    if (n > cap || n == 0)
        return FBY_OK;
    if (fby__alloc_should_fail())
        return fby__fail_nomem(err, "blosc's blocks"); /* the library has no way to say so */
    const int got = blosc_decompress_ctx(src.data, dst, n, 1);
    if (got < 0 || (size_t)got != n)
        return fby__fail(err, FBY_E_FORMAT, "the blocks are corrupt");
    return FBY_OK;
}

const fby__filter_ops fby__filter_blosc = {.name = "blosc", .check = check, .undo = undo};
