/*
 * gzip (RFC 1952) whose size nobody states: the last member's own figure is the first guess, and the room doubles until the text fits.
 * libdeflate inflates whole members, so a member that does not fit is begun again; at most twice its work in all. It cannot be stopped
 * meanwhile, so what takes long runs on a thread that a cancelled call leaves to itself, with the memory that it uses.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "format/csv/csv.h"
#include "pool/pool.h"

#include <libdeflate.h>

#define MAX_RATIO 1032u                /* of deflate: 258 bytes for two bits */
#define LONG_BYTES ((size_t)256 << 10) /* from here on inflating may take longer than a wait may */

typedef struct inflating {
    struct libdeflate_decompressor *d;
    fby__buf src, out;
    size_t at, limit;              /* in src: of the next member; of out */
    enum libdeflate_result result; /* of the last member that was tried */
} inflating;

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

static bool begins_member(const inflating *w)
{
    return w->src.n - w->at >= 2 && w->src.data[w->at] == 0x1f && w->src.data[w->at + 1] == 0x8b;
}

/* As many members as there are room and time for. All by one thread: some writers (bgzip) begin a member every 20 KB. */
static void inflate(void *work)
{
    inflating *w = work;
    w->result = LIBDEFLATE_SUCCESS;
    while (w->result == LIBDEFLATE_SUCCESS && begins_member(w) && !fby__cancelled()) {
        size_t used = 0, made = 0;
        w->result = libdeflate_gzip_decompress_ex(w->d, w->src.data + w->at, w->src.n - w->at, w->out.data + w->out.n,
                                                  fby__min_u64(w->out.cap, w->limit) - w->out.n, &used, &made);
        if (w->result != LIBDEFLATE_SUCCESS)
            return;
        w->at += used;
        w->out.n += made;
    }
}

static void drop(void *work)
{
    inflating *w = work;
    if (w->d)
        libdeflate_free_decompressor(w->d);
    fby__buf_fini(&w->src);
    fby__buf_fini(&w->out);
    fby__free(w);
}

/* *out_gone: it was cancelled, and w is no more. */
static fby_status inflate_members(inflating *w, bool *out_gone, fby_error *err)
{
    uint64_t most = fby__min_u64((uint64_t)w->src.n * MAX_RATIO, w->limit); /* no more than that can come out */
    uint64_t guess = w->src.n >= 4 ? fby__load_u32(w->src.data + w->src.n - 4) : 0;
    FBY__TRY(make_room(&w->out, w->out.n + (size_t)fby__min_u64(guess, most) + 1, err));
    while (w->at < w->src.n) {
        const uint8_t *p = w->src.data + w->at;
        size_t left = w->src.n - w->at;
        FBY__TRY(fby__cancel_check(err));
        if (w->at > 0 && is_zeros(p, left)) /* padding, as gzip(1) accepts */
            return FBY_OK;
        if (!begins_member(w))
            return fby__fail_at(err, FBY_E_FORMAT, w->at, "bytes that are no gzip member follow the stream");
        if (left >= LONG_BYTES) {
            *out_gone = true;
            FBY__TRY(fby__thread_run(inflate, drop, w, err));
            *out_gone = false;
        } else {
            inflate(w);
        }
        if (w->result == LIBDEFLATE_INSUFFICIENT_SPACE && w->out.cap < w->limit) {
            FBY__TRY(make_room(&w->out, (size_t)fby__min_u64(2 * (uint64_t)w->out.cap, w->limit), err));
            continue;
        }
        if (w->result == LIBDEFLATE_INSUFFICIENT_SPACE)
            return fby__fail(err, FBY_E_UNSUPPORTED,
                             "it inflates to more than %zu MiB, which have to be in memory: gunzip it, or "
                             "convert it to Parquet",
                             w->limit >> 20);
        if (w->result != LIBDEFLATE_SUCCESS)
            return fby__fail_at(err, FBY_E_FORMAT, w->at, "the gzip stream is corrupt or cut");
    }
    return FBY_OK;
}

fby_status fby__csv_gunzip(fby__buf *src, size_t limit, fby__buf *out, fby_error *err)
{
    bool gone = false;
    inflating *w = fby__calloc(1, sizeof *w);
    if (!w || fby__alloc_should_fail() || !(w->d = libdeflate_alloc_decompressor())) {
        fby__free(w);
        return fby__fail_nomem(err, "gzip decompressor");
    }
    w->limit = limit;
    w->src = *src;
    w->out = *out;
    *src = *out = (fby__buf){0};
    fby_status status = inflate_members(w, &gone, err);
    if (gone)
        return status;
    *src = w->src;
    *out = w->out;
    w->src = w->out = (fby__buf){0};
    drop(w);
    return status;
}
