/*
 * Definition and repetition levels: the hybrid, or the deprecated BIT_PACKED (Encodings.md), as bytes 0 … max.
 * The usual page without nulls is one run of `max`: noticed without writing a byte.
 */
#include "format/parquet/encodings.h"

unsigned fby__levels_width(unsigned max)
{
    unsigned width = 0;
    for (; max; max >>= 1)
        width++;
    return width;
}

void fby__levels_init(fby__levels *levels, fby__bytes bytes, unsigned max, bool msb_first)
{
    *levels = (fby__levels){.msb_first = msb_first, .max = (uint8_t)max, .width = fby__levels_width(max)};
    if (msb_first) {
        levels->bits = bytes.data;
        levels->bit_end = (uint64_t)bytes.n * 8;
    } else {
        fby__hybrid_init(&levels->runs, bytes, levels->width);
    }
}

size_t fby__levels_count(const uint8_t *levels, size_t n, uint8_t level)
{
    size_t total = 0;
    while (n) {
        /* blocks of 255 keep the count in bytes, which is what the vectoriser wants */
        size_t k = n < 255 ? n : 255;
        uint8_t c = 0;
        for (size_t i = 0; i < k; i++)
            c = (uint8_t)(c + (levels[i] == level));
        total += c;
        levels += k;
        n -= k;
    }
    return total;
}

static size_t next_msb_first(fby__levels *levels, uint8_t *out, size_t n)
{
    uint64_t have = (levels->bit_end - levels->bit_at) / (levels->width ? levels->width : 1);
    if (levels->width && have < n)
        n = (size_t)have;
    for (size_t i = 0; i < n; i++) {
        unsigned v = 0;
        for (unsigned b = 0; b < levels->width; b++, levels->bit_at++)
            v = v << 1 | (levels->bits[levels->bit_at >> 3] >> (7 - (levels->bit_at & 7)) & 1u);
        out[i] = (uint8_t)v;
    }
    return n;
}

fby_status fby__levels_next(fby__levels *levels, uint8_t *out, size_t n, bool *all_max, fby_error *err)
{
    fby__hybrid *runs = &levels->runs;
    *all_max = false;
    if (!levels->msb_first && n && fby__hybrid_run(runs) && runs->rle && runs->value == levels->max && runs->left >= n) {
        (void)fby__hybrid_skip(runs, n); /* n are there */
        *all_max = true;
        return FBY_OK;
    }
    size_t got = levels->msb_first ? next_msb_first(levels, out, n) : fby__hybrid_u8(runs, out, n);
    if (got < n)
        return fby__fail(err, FBY_E_FORMAT, "fewer levels than the page header states");
    if ((levels->max & (levels->max + 1u)) != 0) { /* otherwise the width admits no larger one */
        uint8_t top = 0;
        for (size_t i = 0; i < n; i++)
            top = out[i] > top ? out[i] : top;
        if (top > levels->max)
            return fby__fail(err, FBY_E_FORMAT, "a level of %u where the schema allows %u", top, levels->max);
    }
    return FBY_OK;
}
