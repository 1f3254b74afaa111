/*
 * Pages of a column chunk: find the next one, check it, decompress it, and say where its levels and values lie.
 *
 *   v1   header | [ rep levels | def levels | values ]          the whole body compressed; RLE levels have a u32 length before them
 *   v2   header | rep levels | def levels | [ values ]          levels never compressed, lengths in the header
 *
 * Sizes are the file's word only: a page must lie inside its byte range, and may not claim to be larger decompressed than the
 * chunk's metadata allows (with room for writers that state it wrong), because that much memory is asked for.
 */
#include "format/parquet/reader.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/hash.h"

#include <libdeflate.h>

#define SMALL_CHUNK (512u << 10) /* sixteen of them are what panel.c allows at once */

/* The next page's header and body; *out_end at the end of the source. Moves on to the page behind. */
static fby_status next_page(fby__pq_reader *r, fby__pq_page *page, fby__bytes *body, bool *out_end, fby_error *err)
{
    *out_end = false;
    while (r->range < 2 && r->at >= r->source->range[r->range].n) {
        r->range++;
        r->at = 0;
    }
    if (r->range == 2) {
        *out_end = true;
        return FBY_OK;
    }
    const uint64_t left = r->source->range[r->range].n - r->at;
    const uint8_t *data = r->source->range[r->range].data + r->at;
    r->page_offset = r->source->range[r->range].offset + r->at;
    FBY__TRY(fby__pq_page_parse((fby__bytes){data, (size_t)left}, page, err));
    if (page->header_bytes > left || page->compressed_bytes > left - page->header_bytes)
        return fby__fail(err, FBY_E_FORMAT, "a page of %u bytes reaches beyond the column chunk's end", page->compressed_bytes);
    *body = (fby__bytes){data + page->header_bytes, page->compressed_bytes};
    r->at += (uint64_t)page->header_bytes + page->compressed_bytes;
    return FBY_OK;
}

static bool is_data(const fby__pq_page *page) { return page->type == FBY__PQ_DATA_PAGE || page->type == FBY__PQ_DATA_PAGE_V2; }

static fby_status check_crc(const fby__pq_reader *r, const fby__pq_page *page, fby__bytes body, fby_error *err)
{
    if (!r->verify_crc || !page->has_crc)
        return FBY_OK;
    uint32_t crc = libdeflate_crc32(0, body.data, body.n);
    if (fby__checksum_holds(page->crc, crc))
        return FBY_OK;
    return fby__fail(err, FBY_E_FORMAT, "the page at byte %llu has checksum %08x, its header says %08x: the file is damaged",
                     (unsigned long long)r->page_offset, crc, page->crc);
}

/*
 * A Snappy stream that is one literal, as of pages that do not compress (up to the compressor's 64 KiB blocks): its bytes, which need
 * no copy; data NULL when it is anything else.
 */
static fby__bytes snappy_literal(fby__bytes in, size_t n)
{
    size_t at = 0, length = 0, literal;
    for (unsigned shift = 0; shift < 32; shift += 7) {
        if (at == in.n)
            return (fby__bytes){0};
        length |= (size_t)(in.data[at] & 0x7f) << shift;
        if (!(in.data[at++] & 0x80))
            break;
    }
    if (length != n || n == 0 || in.n - at != n + (n <= 60 ? 1 : n <= 1u << 8 ? 2 : n <= 1u << 16 ? 3 : 4))
        return (fby__bytes){0};
    const uint8_t *tag = in.data + at;
    if (n <= 60)
        return (fby__bytes){tag[0] == (n - 1) << 2 ? tag + 1 : NULL, n};
    literal = (size_t)(in.n - at - n - 1); /* bytes of the length */
    size_t stated = 0;
    for (size_t i = 0; i < literal; i++)
        stated |= (size_t)tag[1 + i] << (8 * i);
    return (fby__bytes){tag[0] == (59 + literal) << 2 && stated == n - 1 ? tag + 1 + literal : NULL, n};
}

/* Page bytes decompressed into mem; used in place when there is no codec. */
static fby_status decompress(fby__pq_reader *r, fby__codec_id codec, fby__bytes in, size_t n, fby__pq_mem *mem, fby__bytes *out,
                             fby_error *err)
{
    if (codec == FBY__CODEC_NONE) {
        *out = in;
        return FBY_OK;
    }
    if (codec == FBY__CODEC_SNAPPY) {
        *out = snappy_literal(in, n);
        if (out->data) {
            r->scratch->decompressed_bytes += n;
            return FBY_OK;
        }
    }
    uint64_t limit = fby__max_u64(r->chunk->uncompressed_bytes, fby__max_u64(1u << 20, 32 * (uint64_t)in.n));
    if (n > limit)
        return fby__fail(err, FBY_E_FORMAT, "a page claims %zu bytes decompressed, the whole column chunk %llu", n,
                         (unsigned long long)r->chunk->uncompressed_bytes);
    FBY__TRY(fby__cancel_check(err));
    FBY__TRY(fby__pq_mem_need(mem, n, err));
    uint64_t begin = fby__now_ns();
    if (in.n || n)
        FBY__TRY(fby__codec_decompress(&r->scratch->codec, codec, in, mem->data, n, err));
    r->scratch->decompress_ns += fby__now_ns() - begin;
    r->scratch->decompressed_bytes += n;
    *out = (fby__bytes){mem->data, n};
    return FBY_OK;
}

/* Take v1 levels off the front of the page. */
static fby_status v1_levels(fby__bytes *page, unsigned max, int32_t encoding, uint64_t n_levels, fby__levels *out, fby_error *err)
{
    size_t n;
    if (encoding == FBY__PQ_BIT_PACKED) {
        uint64_t bytes = (n_levels * fby__levels_width(max) + 7) / 8;
        if (bytes > page->n)
            return fby__fail(err, FBY_E_FORMAT, "levels reach beyond the page");
        n = (size_t)bytes;
    } else if (encoding == FBY__PQ_RLE) {
        if (page->n < 4 || fby__load_u32(page->data) > page->n - 4)
            return fby__fail(err, FBY_E_FORMAT, "levels reach beyond the page");
        n = fby__load_u32(page->data);
        page->data += 4;
        page->n -= 4;
    } else {
        return fby__fail(err, FBY_E_FORMAT, "levels with encoding %s", fby_encoding_name((unsigned)encoding));
    }
    fby__levels_init(out, (fby__bytes){page->data, n}, max, encoding == FBY__PQ_BIT_PACKED);
    page->data += n;
    page->n -= n;
    return FBY_OK;
}

static fby_status open_v1(fby__pq_reader *r, const fby__pq_page *page, fby__bytes body, fby_error *err)
{
    fby__bytes bytes;
    FBY__TRY(decompress(r, (fby__codec_id)r->chunk->codec, body, page->uncompressed_bytes, &r->mem.page, &bytes, err));
    if (r->leaf->max_rep)
        FBY__TRY(v1_levels(&bytes, r->leaf->max_rep, page->rep_encoding, page->n_values, &r->rep, err));
    if (r->leaf->max_def)
        FBY__TRY(v1_levels(&bytes, r->leaf->max_def, page->def_encoding, page->n_values, &r->def, err));
    return fby__pq_values_init(r, page->encoding, bytes, err);
}

static fby_status open_v2(fby__pq_reader *r, const fby__pq_page *page, fby__bytes body, fby_error *err)
{
    const uint64_t levels = (uint64_t)page->rep_bytes + page->def_bytes;
    if (levels > body.n || levels > page->uncompressed_bytes)
        return fby__fail(err, FBY_E_FORMAT, "levels reach beyond the page");
    if (page->n_nulls > page->n_values || (page->n_nulls && r->leaf->max_def == 0))
        return fby__fail(err, FBY_E_FORMAT, "%u nulls among %u values of a %s column", page->n_nulls, page->n_values,
                         r->leaf->max_def ? "nullable" : "required");
    if (r->leaf->max_rep)
        fby__levels_init(&r->rep, (fby__bytes){body.data, page->rep_bytes}, r->leaf->max_rep, false);
    if (r->leaf->max_def)
        fby__levels_init(&r->def, (fby__bytes){body.data + page->rep_bytes, page->def_bytes}, r->leaf->max_def, false);
    const fby__bytes stored = {body.data + levels, body.n - (size_t)levels};
    const size_t n = page->uncompressed_bytes - (size_t)levels;
    /*
     * Pages of only nulls have no values: nothing to decompress. And some writers compressed with is_compressed = 0: seen
     * from the sizes.
     */
    const bool compressed = page->is_compressed || stored.n != n;
    fby__bytes values = {stored.data, 0};
    if (n)
        FBY__TRY(decompress(r, compressed ? (fby__codec_id)r->chunk->codec : FBY__CODEC_NONE, stored, n, &r->mem.page, &values, err));
    return fby__pq_values_init(r, page->encoding, values, err);
}

/* Can the page be passed over unread? Only v2 pages and flat columns say how many rows they hold. */
static bool before_begin(const fby__pq_reader *r, const fby__pq_page *page)
{
    if (r->leaf->max_rep && page->type != FBY__PQ_DATA_PAGE_V2)
        return false;
    uint64_t rows = r->leaf->max_rep ? page->n_rows : page->n_values;
    return rows && rows <= r->row_begin && r->row <= r->row_begin - rows;
}

fby_status fby__pq_reader_page(fby__pq_reader *r, bool *out_end, fby_error *err)
{
    for (;;) {
        fby__pq_page page;
        fby__bytes body;
        FBY__TRY(next_page(r, &page, &body, out_end, err));
        if (*out_end)
            return FBY_OK;
        if (page.type == FBY__PQ_DICTIONARY_PAGE) {
            FBY__TRY(check_crc(r, &page, body, err));
            fby__bytes bytes;
            FBY__TRY(decompress(r, (fby__codec_id)r->chunk->codec, body, page.uncompressed_bytes, &r->mem.dictionary, &bytes, err));
            FBY__TRY(fby__pq_reader_dictionary(r, &page, bytes, err));
            continue;
        }
        if (!is_data(&page) || page.n_values == 0)
            continue; /* index pages, and kinds of pages to come */
        r->levels_seen += page.n_values;
        if (before_begin(r, &page)) {
            r->row += r->leaf->max_rep ? page.n_rows : page.n_values;
            continue;
        }
        FBY__TRY(check_crc(r, &page, body, err));
        FBY__TRY(page.type == FBY__PQ_DATA_PAGE ? open_v1(r, &page, body, err) : open_v2(r, &page, body, err));
        r->page_left = page.n_values;
        return FBY_OK;
    }
}

bool fby__pq_reader_has_more(fby__pq_reader *r)
{
    for (;;) {
        fby__pq_page page;
        fby__bytes body;
        bool end;
        if (next_page(r, &page, &body, &end, NULL) != FBY_OK || end)
            return false; /* bytes that are no page: padding behind the last one */
        if (is_data(&page) && page.n_values)
            return true;
    }
}

uint64_t fby__pq_reader_rows_left(fby__pq_reader *r)
{
    uint64_t rows = 0;
    for (;;) {
        fby__pq_page page;
        fby__bytes body;
        bool end;
        if (next_page(r, &page, &body, &end, NULL) != FBY_OK || end)
            return rows;
        if (is_data(&page))
            rows += page.n_values;
    }
}

uint64_t fby__pq_reader_estimate(fby__pq_reader *r)
{
    if (r->chunk->codec == FBY__CODEC_NONE)
        return 0;
    if (r->chunk->uncompressed_bytes <= SMALL_CHUNK)
        return r->chunk->uncompressed_bytes; /* not worth parsing headers twice */
    const unsigned range = r->range;
    const uint64_t at = r->at;
    uint64_t bytes = 0;
    for (bool end = false; !end;) {
        fby__pq_page page;
        fby__bytes body;
        if (next_page(r, &page, &body, &end, NULL) != FBY_OK || end)
            break; /* reading will say what is wrong */
        bytes += page.uncompressed_bytes;
        if (is_data(&page))
            break;
    }
    r->range = range;
    r->at = at;
    return bytes;
}
