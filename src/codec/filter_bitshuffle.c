/*
 * bitshuffle (32008): bits of equal significance lie together, in blocks of elements, each of which may be compressed.
 * Parameters: major and minor version, element bytes, elements of a block (0 or absent: chosen by size), 0 | 2 lz4 | 3 zstd.
 *
 *     not compressed    block … block, shorter block, rest
 *     compressed        u64 BE bytes, u32 BE bytes of a block, then (u32 BE stored bytes, stream) for each block, rest
 *
 * The shorter block has the elements that are left, down to a multiple of 8; the rest, fewer than 8 elements, is a plain copy.
 */
#include "codec/codec_impl.h"
#include "codec/filter_impl.h"

#include "base/checked.h"

enum { NONE = 0, LZ4 = 2, ZSTD = 3, HEADER_BYTES = 12 };
/* Blocks are multiples of 8 elements; by default of at most 8 KiB, but of at least 128 elements. */
enum { MULTIPLE = 8, TARGET_BYTES = 8192, MIN_ELEMENTS = 128 };

typedef struct params {
    size_t element, block; /* bytes; elements */
    uint32_t codec;
} params;

static fby_status parse(const fby__filter *filter, params *p, fby_error *err)
{
    if (filter->n_values < 3 || filter->values[2] == 0)
        return fby__fail(err, FBY_E_FORMAT, "the size of the elements is missing");
    *p = (params){.element = filter->values[2]};
    if (filter->n_values > 3)
        p->block = filter->values[3];
    if (filter->n_values > 4)
        p->codec = filter->values[4];
    if (p->block % MULTIPLE != 0)
        return fby__fail(err, FBY_E_FORMAT, "blocks of %zu elements", p->block);
    if (p->codec != NONE && p->codec != LZ4 && p->codec != ZSTD)
        return fby__fail(err, FBY_E_UNSUPPORTED, "the inner codec %u is unknown", p->codec);
    if (p->block == 0) {
        p->block = TARGET_BYTES / p->element / MULTIPLE * MULTIPLE;
        p->block = p->block < MIN_ELEMENTS ? MIN_ELEMENTS : p->block;
    }
    return FBY_OK;
}

static fby_status check(const fby__filter *filter, fby_error *err)
{
    params p = {0};
    return parse(filter, &p, err);
}

static bool keeps_size(const fby__filter *filter) { return filter->n_values <= 4 || filter->values[4] == NONE; }

/* Decompress one block of n bytes into scratch. src begins with the stored size; it is moved behind the block. */
static fby_status next_block(fby__filter_state *state, uint32_t codec, fby__bytes *src, size_t n, fby_error *err)
{
    if (src->n < 4)
        return fby__fail(err, FBY_E_FORMAT, "the stream is cut");
    const size_t stored = fby__load_be32(src->data);
    if (stored > src->n - 4)
        return fby__fail(err, FBY_E_FORMAT, "a block of %zu bytes ends behind the stream", stored);
    const fby__bytes block = {src->data + 4, stored};
    if (codec == ZSTD)
        FBY__TRY(fby__codec_decompress(&state->codec, FBY__CODEC_ZSTD, block, state->inside.data, n, err));
    else if (fby__lz4_block(block.data, block.n, state->inside.data, n) != (int64_t)n)
        return fby__fail(err, FBY_E_FORMAT, "a block is corrupt or of another size");
    *src = (fby__bytes){block.data + stored, src->n - 4 - stored};
    return FBY_OK;
}

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    params p = {0};
    FBY__TRY(parse(filter, &p, err));
    size_t n = src.n;
    if (p.codec != NONE) {
        if (src.n < HEADER_BYTES)
            return fby__fail(err, FBY_E_FORMAT, "the header is cut");
        n = fby__load_be64(src.data);
        p.block = fby__load_be32(src.data + 8) / p.element; /* it counts, whatever the parameters say */
        if (p.block == 0 || p.block % MULTIPLE != 0)
            return fby__fail(err, FBY_E_FORMAT, "blocks of %zu elements", p.block);
        src = (fby__bytes){src.data + HEADER_BYTES, src.n - HEADER_BYTES};
    }
    *out_n = n;
    if (n > cap)
        return FBY_OK;
    if (n % p.element != 0)
        return fby__fail(err, FBY_E_FORMAT, "%zu bytes are no whole number of %zu-byte elements", n, p.element);

    size_t left = n / p.element;
    if (p.codec != NONE)
        FBY__TRY(fby__filter_room(&state->inside, (left < p.block ? left : p.block) * p.element, err));
    while (left >= MULTIPLE) {
        const size_t count = left < p.block ? left / MULTIPLE * MULTIPLE : p.block, bytes = count * p.element;
        if (p.codec == NONE) {
            fby__bit_unshuffle(src.data, dst, count, p.element, state->streaming);
            src = (fby__bytes){src.data + bytes, src.n - bytes};
        } else {
            FBY__TRY(next_block(state, p.codec, &src, bytes, err));
            fby__bit_unshuffle(state->inside.data, dst, count, p.element, state->streaming);
        }
        dst += bytes;
        left -= count;
    }
    if (src.n < left * p.element)
        return fby__fail(err, FBY_E_FORMAT, "the stream is cut");
    memcpy(dst, src.data, left * p.element);
    return FBY_OK;
}

const fby__filter_ops fby__filter_bitshuffle = {
    .name = "bitshuffle", .check = check, .keeps_size = keeps_size, .uses_inside = true, .undo = undo};
