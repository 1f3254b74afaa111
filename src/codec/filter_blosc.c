/*
 * blosc (32001): one buffer of c-blosc 1, whose header states sizes and inner codec (the format's README, "header"):
 *     u8 version   u8 version of the codec   u8 flags (codec in bits 5 … 7)   u8 element bytes
 *     u32 LE bytes   u32 LE bytes of a block   u32 LE stored bytes, header included
 *     u32 LE begin of each block; a block is its streams, each u32 LE stored bytes and so many bytes
 * A block has as many streams as an element has bytes (split: one for the bytes of equal significance), or one: when the flags say
 * so, when it is the shorter last one, when streams would be tiny or more than 16. A stream of its own size is a plain copy.
 *
 * What most files hold, bytes shuffled or not, lz4, zlib or zstd, is decoded here: with this tree's unshuffling, which can write past
 * the caches, a context that is kept, and no memory of its own for each chunk. All else, and every buffer that is not as it should be,
 * goes to the library, in one thread and without its global state: what it says counts.
 */
#include "codec/codec_impl.h"
#include "codec/filter_impl.h"

#include "base/checked.h"

#include <blosc.h>

enum { HEADER_BYTES = 16, FORMAT_VERSION = 2, PARAM_CODEC = 6 };
enum { LZ4 = 1, ZLIB = 3, ZSTD = 4 };                                /* in the flags */
enum { DONT_SPLIT = 0x10, MAX_SPLITS = 16, MIN_STREAM_BYTES = 128 }; /* 0x10 has no name in the library's header */

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

/* ---- the common case ---- */

typedef struct buffer {
    fby__bytes stored;
    size_t n, block, element; /* bytes in all, of a block, of an element */
    unsigned codec;
    uint8_t flags;
} buffer;

/* One stream to exactly n bytes; false: the library shall look at it. FBY_E_NOMEM alone is an error. */
static fby_status stream(fby__filter_state *state, unsigned codec, fby__bytes src, uint8_t *dst, size_t n, bool *good, fby_error *err)
{
    fby_status status = FBY_OK;
    size_t got = n;
    if (src.n == n)
        memcpy(dst, src.data, n);
    else if (codec == LZ4)
        *good = fby__lz4_block(src.data, src.n, dst, n) == (int64_t)n;
    else if (codec == ZLIB)
        status = fby__filter_deflate.undo(state, NULL, src, dst, n, &got, err);
    else
        status = fby__codec_decompress(&state->codec, FBY__CODEC_ZSTD, src, dst, n, err);
    *good &= status == FBY_OK && got == n;
    return status == FBY_E_NOMEM ? status : FBY_OK;
}

/* A block of n bytes from stored byte `at` on. */
static fby_status block(fby__filter_state *state, const buffer *b, size_t at, size_t n, uint8_t *dst, bool *good, fby_error *err)
{
    const bool shuffled = (b->flags & BLOSC_DOSHUFFLE) && b->element > 1;
    const bool split = !(b->flags & DONT_SPLIT) && n == b->block && b->element <= MAX_SPLITS && n / b->element >= MIN_STREAM_BYTES;
    const size_t streams = split ? b->element : 1, each = n / streams;
    uint8_t *to = shuffled ? state->inside.data : dst;
    *good &= each * streams == n;
    for (size_t i = 0; *good && i < streams; i++) {
        const size_t left = at <= b->stored.n ? b->stored.n - at : 0, bytes = left >= 4 ? fby__load_u32(b->stored.data + at) : 0;
        *good = bytes > 0 && bytes <= left - 4;
        if (*good)
            FBY__TRY(stream(state, b->codec, (fby__bytes){b->stored.data + at + 4, bytes}, to + i * each, each, good, err));
        at += 4 + bytes;
    }
    if (*good && shuffled)
        fby__unshuffle(to, dst, n, b->element, state->streaming);
    return FBY_OK;
}

/* *good: all of it is in dst. */
static fby_status blocks(fby__filter_state *state, const buffer *b, uint8_t *dst, bool *good, fby_error *err)
{
    const bool here = b->stored.n > HEADER_BYTES && (b->codec == LZ4 || b->codec == ZLIB || b->codec == ZSTD);
    *good = here && !(b->flags & (BLOSC_MEMCPYED | BLOSC_DOBITSHUFFLE)) && b->element > 0 && b->block > 0 && b->block <= b->n &&
            fby__div_up_u64(b->n, b->block) <= (b->stored.n - HEADER_BYTES) / 4;
    if (!*good)
        return FBY_OK;
    FBY__TRY(fby__filter_room(&state->inside, b->block, err));
    const uint8_t *begins = b->stored.data + HEADER_BYTES;
    for (size_t done = 0; *good && done < b->n; begins += 4) {
        const size_t n = b->n - done < b->block ? b->n - done : b->block;
        FBY__TRY(block(state, b, fby__load_u32(begins), n, dst + done, good, err));
        done += n;
    }
    return FBY_OK;
}

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
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
    const buffer b = {.stored = {src.data, stored},
                      .n = n,
                      .block = fby__load_u32(src.data + 8),
                      .element = src.data[3],
                      .codec = src.data[2] >> 5,
                      .flags = src.data[2]};
    bool good;
    FBY__TRY(blocks(state, &b, dst, &good, err));
    if (good)
        return FBY_OK;
    if (err)
        fby__error_clear(err); /* of the attempt */
    if (fby__alloc_should_fail())
        return fby__fail_nomem(err, "blosc's blocks"); /* the library has no way to say so */
    const int got = blosc_decompress_ctx(src.data, dst, n, 1);
    if (got < 0 || (size_t)got != n)
        return fby__fail(err, FBY_E_FORMAT, "the blocks are corrupt");
    return FBY_OK;
}

const fby__filter_ops fby__filter_blosc = {.name = "blosc", .check = check, .uses_inside = true, .undo = undo};
