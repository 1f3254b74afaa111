/*
 * szip (4): u32 LE bytes, then Golomb-Rice coded samples (CCSDS 121.0-B) that libaec decodes. The parameters are the options, the
 * pixels of a block, the bits of a pixel and the pixels of a scanline.
 *
 * What the SZIP library does around the coding is done here rather than by libaec's stand-in for it, which trusts the parameters
 * and takes what a short stream left in its buffer for data:
 *  - pixels of 32 and 64 bits are coded as bytes, those of equal significance together (a shuffle);
 *  - each scanline is filled up to whole blocks.
 */
#include "codec/filter_impl.h"

#include "base/checked.h"

#include <libaec.h>

enum { OPTION_MSB = 16, OPTION_NEAREST_NEIGHBOUR = 32, MAX_BLOCK_PIXELS = 32, MAX_LINE_BLOCKS = 128, HEADER_BYTES = 4 };

typedef struct params {
    uint32_t options, block, bits, line;
} params;

static fby_status parse(const fby__filter *filter, params *p, fby_error *err)
{
    if (filter->n_values != 4)
        return fby__fail(err, FBY_E_FORMAT, "%u parameters, not 4", filter->n_values);
    *p = (params){filter->values[0], filter->values[1], filter->values[2], filter->values[3]};
    if (p->block < 2 || p->block > MAX_BLOCK_PIXELS || p->block % 2 != 0)
        return fby__fail(err, FBY_E_FORMAT, "blocks of %u pixels", p->block);
    if (p->bits < 1 || (p->bits > 32 && p->bits != 64))
        return fby__fail(err, FBY_E_FORMAT, "pixels of %u bits", p->bits);
    if (p->line < 1 || p->line > MAX_LINE_BLOCKS * p->block)
        return fby__fail(err, FBY_E_FORMAT, "scanlines of %u pixels in blocks of %u", p->line, p->block);
    return FBY_OK;
}

static fby_status check(const fby__filter *filter, fby_error *err)
{
    params p = {0};
    return parse(filter, &p, err);
}

static fby_status decode(const params *p, unsigned sample_bits, fby__bytes src, uint8_t *dst, size_t n, fby_error *err)
{
    struct aec_stream stream = {
        .next_in = src.data,
        .avail_in = src.n,
        .next_out = dst,
        .avail_out = n,
        .bits_per_sample = sample_bits,
        .block_size = p->block,
        .rsi = (p->line + p->block - 1) / p->block,
        .flags = (p->options & OPTION_MSB ? AEC_DATA_MSB : 0u) | (p->options & OPTION_NEAREST_NEIGHBOUR ? AEC_DATA_PREPROCESS : 0u),
    };
    const int result = fby__alloc_should_fail() ? AEC_MEM_ERROR : aec_buffer_decode(&stream);
    if (result == AEC_MEM_ERROR)
        return fby__fail_nomem(err, "szip decompressor");
    if (result != AEC_OK)
        return fby__fail(err, FBY_E_FORMAT, "the coded samples are corrupt");
    if (stream.total_out != n)
        return fby__fail(err, FBY_E_FORMAT, "the coded samples end at byte %zu of %zu", stream.total_out, n);
    return FBY_OK;
}

/* Lines of `line` bytes, each followed by `fill` bytes that go. */
static void drop_fill(uint8_t *data, size_t lines, size_t line, size_t fill)
{
    for (size_t i = 1; i < lines; i++)
        memmove(data + i * line, data + i * (line + fill), line);
}

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    params p = {0};
    FBY__TRY(parse(filter, &p, err));
    if (src.n < HEADER_BYTES)
        return fby__fail(err, FBY_E_FORMAT, "the header is cut");
    const size_t n = *out_n = fby__load_u32(src.data);
    if (n > cap || n == 0)
        return FBY_OK;
    src = (fby__bytes){src.data + HEADER_BYTES, src.n - HEADER_BYTES};

    const bool shuffled = p.bits == 32 || p.bits == 64;
    const unsigned sample_bits = shuffled ? 8 : p.bits;
    const size_t sample = sample_bits > 16 ? 4 : sample_bits > 8 ? 2 : 1;
    const size_t blocks_of_line = (p.line + p.block - 1) / p.block;
    const size_t line = p.line * sample, fill = (blocks_of_line * p.block - p.line) * sample;
    if (n % sample != 0)
        return fby__fail(err, FBY_E_FORMAT, "%zu bytes are no whole number of %zu-byte samples", n, sample);
    if (!shuffled && fill == 0)
        return decode(&p, sample_bits, src, dst, n, err);

    const size_t lines = (n + line - 1) / line;
    size_t coded = n;
    if (fill && !fby__mul_checked(lines, line + fill, &coded))
        return fby__fail(err, FBY_E_FORMAT, "scanlines beyond all bounds");
    FBY__TRY(fby__filter_room(&state->inside, coded, err));
    FBY__TRY(decode(&p, sample_bits, src, state->inside.data, coded, err));
    if (fill)
        drop_fill(state->inside.data, lines, line, fill);
    if (shuffled)
        fby__unshuffle(state->inside.data, dst, n, p.bits / 8, false);
    else
        memcpy(dst, state->inside.data, n);
    return FBY_OK;
}

const fby__filter_ops fby__filter_szip = {.name = "szip", .check = check, .uses_inside = true, .undo = undo};
