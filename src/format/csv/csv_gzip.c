/*
 * gzip (RFC 1952) whose size nobody states: the last member's own figure is the first guess, and the room doubles until the text fits.
 * libdeflate inflates whole members, so a member that does not fit is begun again; at most twice its work in all.
 */
#include "base/checked.h"
#include "format/csv/csv.h"

#include <libdeflate.h>

#define MAX_RATIO 1032u /* of deflate: 258 bytes for two bits */

static bool is_zeros(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

static fby_status make_room(fby__buf *out, size_t need, fby_error *err)
{
    return fby__grow((void **)&out->data, &out->cap, need, 1) == 0 ? FBY_OK : fby__fail_nomem(err, "the text of a gzip file");
}

static fby_status inflate_members(struct libdeflate_decompressor *d, fby__bytes src, size_t limit, fby__buf *out, fby_error *err)
{
    uint64_t most = fby__min_u64((uint64_t)src.n * MAX_RATIO, limit); /* no more than that can come out */
    uint64_t guess = src.n >= 4 ? fby__load_u32(src.data + src.n - 4) : 0;
    FBY__TRY(make_room(out, out->n + (size_t)fby__min_u64(guess, most) + 1, err));
    for (size_t at = 0; at < src.n;) {
        const uint8_t *p = src.data + at;
        size_t left = src.n - at, used = 0, made = 0;
        if (at > 0 && is_zeros(p, left)) /* padding, as gzip(1) accepts */
            return FBY_OK;
        if (left < 2 || p[0] != 0x1f || p[1] != 0x8b)
            return fby__fail_at(err, FBY_E_FORMAT, at, "bytes that are no gzip member follow the stream");
        enum libdeflate_result result =
            libdeflate_gzip_decompress_ex(d, p, left, out->data + out->n, fby__min_u64(out->cap, limit) - out->n, &used, &made);
        if (result == LIBDEFLATE_INSUFFICIENT_SPACE && out->cap < limit) {
            FBY__TRY(make_room(out, (size_t)fby__min_u64(2 * (uint64_t)out->cap, limit), err));
            continue;
        }
        if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
            return fby__fail(err, FBY_E_UNSUPPORTED,
                             "it inflates to more than %zu MiB, which have to be in memory: gunzip it, or "
                             "convert it to Parquet",
                             limit >> 20);
        if (result != LIBDEFLATE_SUCCESS)
            return fby__fail_at(err, FBY_E_FORMAT, at, "the gzip stream is corrupt or cut");
        at += used;
        out->n += made;
    }
    return FBY_OK;
}

fby_status fby__csv_gunzip(fby__bytes src, size_t limit, fby__buf *out, fby_error *err)
{
    struct libdeflate_decompressor *d = fby__alloc_should_fail() ? NULL : libdeflate_alloc_decompressor();
    if (!d)
        return fby__fail_nomem(err, "gzip decompressor");
    fby_status status = inflate_members(d, src, limit, out, err);
    libdeflate_free_decompressor(d);
    return status;
}
