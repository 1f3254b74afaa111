/*
 * A leaf of a row group → its pages.
 *
 *     [dictionary page]  data page  data page …        v1: header | [ rep levels | def levels | values ], the body compressed as a whole
 *
 * Data pages are v1, which every reader knows. They begin with rows and hold about page_bytes of values, as many rows whatever the encoding,
 * so that columns of one width are cut at the same rows. One encoding serves the whole chunk: the dictionary where it pays; of floats that are
 * compressed BYTE_STREAM_SPLIT, where the first of them come out smaller by it; else PLAIN.
 */
#include "write/parquet_impl.h"

#include <libdeflate.h>

#define PAGE_LEVELS (1u << 20)
#define PAGE_MOST ((uint64_t)INT32_MAX) /* what a header can state */
#define TRIAL_BYTES (512u << 10)        /* enough that the streams of float32 are whole blocks of zstd */

/** What the indexes say of a page. */
typedef struct page {
    uint64_t offset, first_row;
    uint32_t stored_bytes; /* with its header */
    uint64_t n_nulls;
    bool all_null;
    fby__pqw_bounds bounds;
} page;

/** A chunk while it is written. */
typedef struct chunk {
    fby__pqw *w;
    fby__pqw_leaf *leaf;
    bool is_utf8;
    fby__pqw_values values; /* the next one */
    size_t at_level, at_value;
    uint64_t at_row;
    fby__pqw_chunk out;
    fby__pqw_bounds bounds;
    fby_error *err;
} chunk;

/* ---- where pages end ---- */

typedef struct extent {
    size_t n_levels, n_values;
    uint64_t n_rows;
} extent;

/* How many of the n strings ahead fill a page: at least one, when there is one. */
static fby_status strings_ahead(const chunk *c, size_t n, size_t *out)
{
    fby__pqw_values ahead = c->values;
    fby__pq_string block[64];
    uint64_t bytes = 0;
    for (*out = 0; *out < n && bytes < c->w->page_bytes;) {
        const size_t n_block = n - *out < 64 ? n - *out : 64;
        FBY__TRY(fby__pqw_next_strings(&ahead, n_block, block, c->err));
        for (size_t i = 0; i < n_block && bytes < c->w->page_bytes; i++, ++*out)
            bytes += 4 + (uint64_t)block[i].n;
    }
    return FBY_OK;
}

static fby_status next_extent(const chunk *c, extent *out)
{
    const fby__pqw_levels *l = &c->w->levels;
    const size_t n_left = l->n - c->at_level, width = c->leaf->value_bytes;
    const uint8_t *def = l->def ? l->def + c->at_level : NULL, *rep = l->rep ? l->rep + c->at_level : NULL;
    size_t most_levels = width > 1 ? c->w->page_bytes / width : PAGE_LEVELS, most_values = SIZE_MAX;
    if (c->leaf->physical == FBY__PQ_BYTE_ARRAY && c->at_value < l->n_values)
        FBY__TRY(strings_ahead(c, l->n_values - c->at_value, &most_values));
    if (most_levels == 0)
        most_levels = 1;
    *out = (extent){0};
    if (!def && !rep) {
        out->n_levels = n_left < most_levels ? n_left : most_levels;
        out->n_levels = out->n_levels < most_values ? out->n_levels : most_values;
        out->n_values = out->n_rows = out->n_levels;
        return FBY_OK;
    }
    size_t i = 0;
    for (; i < n_left; i++) {
        const bool begins_row = !rep || rep[i] == 0;
        if (begins_row && i > 0 && (i >= most_levels || out->n_values >= most_values))
            break;
        out->n_rows += begins_row;
        out->n_values += !def || def[i] == c->leaf->max_def;
    }
    out->n_levels = i;
    return FBY_OK;
}

/* ---- pages ---- */

static fby_status too_large(const chunk *c, const extent *e, uint64_t bytes)
{
    return fby__fail(c->err, FBY_E_UNSUPPORTED, "row %llu of its row group holds %llu bytes, more than a Parquet page",
                     (unsigned long long)(c->at_row + e->n_rows - 1), (unsigned long long)bytes);
}

static void put_page_header(fby__thrift_out *t, bool dictionary, uint64_t body_bytes, uint64_t stored_bytes, uint32_t crc,
                            uint64_t n_values, int32_t encoding)
{
    t->bytes.n = 0;
    fby__thrift_open(t);
    fby__thrift_put_i32(t, 1, dictionary ? FBY__PQ_DICTIONARY_PAGE : FBY__PQ_DATA_PAGE);
    fby__thrift_put_i32(t, 2, (int32_t)body_bytes);
    fby__thrift_put_i32(t, 3, (int32_t)stored_bytes);
    fby__thrift_put_i32(t, 4, (int32_t)crc);
    fby__thrift_put_struct(t, dictionary ? 7 : 5);
    fby__thrift_put_i32(t, 1, (int32_t)n_values);
    fby__thrift_put_i32(t, 2, encoding);
    if (!dictionary) {
        fby__thrift_put_i32(t, 3, FBY__PQ_RLE);
        fby__thrift_put_i32(t, 4, FBY__PQ_RLE);
    }
    fby__thrift_close(t);
    fby__thrift_close(t);
}

/* head and tail are one body; *stored: of the page with its header. */
static fby_status put_page(chunk *c, bool dictionary, fby__bytes head, fby__bytes tail, uint64_t n_values, int32_t encoding,
                           uint64_t *stored)
{
    fby__pqw *w = c->w;
    const uint64_t n = head.n + tail.n;
    if (w->codec != FBY__CODEC_NONE) {
        fby__bytes body = tail;
        if (head.n) {
            FBY__TRY(fby__pqw_room(&w->body, n, c->err));
            memcpy(w->body.data, head.data, head.n);
            if (tail.n)
                memcpy(w->body.data + head.n, tail.data, tail.n);
            body = (fby__bytes){w->body.data, n};
        }
        w->stored.n = 0;
        FBY__TRY(fby__codec_compress(&w->codecs, w->codec, w->level, body, &w->stored, c->err));
        if (w->stored.n > PAGE_MOST)
            return fby__fail(c->err, FBY_E_UNSUPPORTED, "a page of %llu bytes does not compress to 2 GiB", (unsigned long long)n);
        head = (fby__bytes){w->stored.data, w->stored.n};
        tail.n = 0;
    }
    uint32_t crc = libdeflate_crc32(0, head.data, head.n);
    crc = tail.n ? libdeflate_crc32(crc, tail.data, tail.n) : crc;
    put_page_header(&w->header, dictionary, n, head.n + tail.n, crc, n_values, encoding);
    if (w->header.failed)
        return fby__fail_nomem(c->err, "a page header");
    *stored = w->header.bytes.n + head.n + tail.n;
    c->out.compressed_bytes += *stored;
    c->out.uncompressed_bytes += w->header.bytes.n + n;
    FBY__TRY(fby__writer_put(&w->base, w->header.bytes.data, w->header.bytes.n, c->err));
    FBY__TRY(fby__writer_put(&w->base, head.data, head.n, c->err));
    return fby__writer_put(&w->base, tail.data, tail.n, c->err);
}

static fby_status put_dictionary(chunk *c)
{
    const fby__pqw_dictionary *d = &c->w->dictionary;
    uint64_t stored;
    c->out.dictionary_offset = c->w->base.at;
    return put_page(c, true, (fby__bytes){0}, (fby__bytes){d->plain.data, d->plain.n}, d->n, FBY__PQ_PLAIN, &stored);
}

static fby_status pack_bits(chunk *c, fby__bytes bytes, fby__bytes *out)
{
    const size_t n = (bytes.n + 7) / 8;
    FBY__TRY(fby__pqw_room(&c->w->payload, n, c->err));
    uint8_t *bits = c->w->payload.data;
    memset(bits, 0, n);
    for (size_t i = 0; i < bytes.n; i++)
        bits[i / 8] |= (uint8_t)(bytes.data[i] << i % 8);
    *out = (fby__bytes){bits, n};
    return FBY_OK;
}

static fby_status plain_strings(chunk *c, const extent *e, const fby__pq_string *strings, fby__bytes *out)
{
    uint64_t n = 4 * (uint64_t)e->n_values;
    for (size_t i = 0; i < e->n_values; i++)
        n += strings[i].n;
    if (n > PAGE_MOST)
        return too_large(c, e, n);
    FBY__TRY(fby__pqw_room(&c->w->payload, n, c->err));
    uint8_t *p = c->w->payload.data;
    for (size_t i = 0; i < e->n_values; i++) {
        fby__store_u32(p, strings[i].n);
        if (strings[i].n)
            memcpy(p + 4, strings[i].data, strings[i].n);
        p += 4 + (size_t)strings[i].n;
    }
    *out = (fby__bytes){c->w->payload.data, n};
    return FBY_OK;
}

static fby_status indices(chunk *c, size_t n, fby__bytes *out)
{
    const fby__pqw_dictionary *d = &c->w->dictionary;
    const unsigned width = d->n > 1 ? fby__pqw_width(d->n - 1) : 1; /* some readers stumble over a width of 0 */
    const uint8_t width_byte = (uint8_t)width;
    fby__buf *payload = &c->w->payload;
    payload->n = 0;
    if (fby__buf_put(payload, &width_byte, 1) != 0)
        return fby__fail_nomem(c->err, "a Parquet page");
    if (n)
        FBY__TRY(fby__pqw_put_hybrid(payload, (const uint32_t *)(const void *)d->indices.data + c->at_value, n, width, c->err));
    *out = (fby__bytes){payload->data, payload->n};
    return FBY_OK;
}

/* The values of a page as they are stored, and their bounds. */
static fby_status encode_values(chunk *c, const extent *e, page *p, fby__bytes *out)
{
    fby__pqw *w = c->w;
    fby__bytes fixed = {0};
    fby__pq_string *strings = NULL;
    if (c->leaf->physical == FBY__PQ_BYTE_ARRAY || c->leaf->order == FBY__PQW_ORDER_BYTES) {
        fby__pqw_values ahead = c->values;
        FBY__TRY(fby__pqw_room(&w->strings, e->n_values * sizeof *strings, c->err));
        strings = (fby__pq_string *)(void *)w->strings.data;
        FBY__TRY(fby__pqw_next_strings(c->leaf->value_bytes ? &ahead : &c->values, e->n_values, strings, c->err));
        fby__pqw_bounds_add_strings(&p->bounds, strings, e->n_values);
    }
    if (c->leaf->value_bytes) {
        if (e->n_values * (uint64_t)c->leaf->value_bytes > PAGE_MOST)
            return too_large(c, e, e->n_values * (uint64_t)c->leaf->value_bytes);
        FBY__TRY(fby__pqw_next(&c->values, e->n_values, &w->values, &fixed, c->err));
        if (!strings)
            p->bounds = fby__pqw_bounds_of(c->leaf, fixed.data, e->n_values);
    }
    if (c->out.encoding == FBY__PQ_RLE_DICTIONARY)
        return indices(c, e->n_values, out);
    if (c->out.encoding == FBY__PQ_BYTE_STREAM_SPLIT) {
        FBY__TRY(fby__pqw_room(&w->payload, fixed.n, c->err));
        fby__pqw_split(fixed.data, e->n_values, c->leaf->value_bytes, w->payload.data);
        *out = (fby__bytes){w->payload.data, fixed.n};
        return FBY_OK;
    }
    if (c->leaf->physical == FBY__PQ_BOOLEAN)
        return pack_bits(c, fixed, out);
    if (c->leaf->physical == FBY__PQ_BYTE_ARRAY)
        return plain_strings(c, e, strings, out);
    *out = fixed;
    return FBY_OK;
}

static fby_status encode_levels(chunk *c, const extent *e)
{
    const fby__pqw_levels *l = &c->w->levels;
    fby__buf *out = &c->w->level_bytes;
    out->n = 0;
    if (c->leaf->max_rep)
        FBY__TRY(fby__pqw_put_levels(out, l->rep + c->at_level, e->n_levels, c->leaf->max_rep, c->err));
    if (c->leaf->max_def)
        FBY__TRY(fby__pqw_put_levels(out, l->def ? l->def + c->at_level : NULL, e->n_levels, c->leaf->max_def, c->err));
    return FBY_OK;
}

static fby_status put_data_page(chunk *c)
{
    fby__pqw *w = c->w;
    page p = {.offset = w->base.at, .first_row = c->at_row};
    extent e;
    fby__bytes values;
    uint64_t stored;
    FBY__TRY(next_extent(c, &e));
    FBY__TRY(encode_levels(c, &e));
    FBY__TRY(encode_values(c, &e, &p, &values));
    if (w->level_bytes.n + (uint64_t)values.n > PAGE_MOST)
        return too_large(c, &e, w->level_bytes.n + (uint64_t)values.n);
    FBY__TRY(put_page(c, false, (fby__bytes){w->level_bytes.data, w->level_bytes.n}, values, e.n_levels, c->out.encoding, &stored));
    p.stored_bytes = (uint32_t)stored; /* two counts below 2^31 */
    p.n_nulls = e.n_levels - e.n_values;
    p.all_null = e.n_values == 0;
    fby__pqw_bounds_join(c->leaf, &c->bounds, &p.bounds);
    c->out.n_pages++;
    c->at_level += e.n_levels;
    c->at_value += e.n_values;
    c->at_row += e.n_rows;
    return fby__buf_put(&w->pages, &p, sizeof p) == 0 ? FBY_OK : fby__fail_nomem(c->err, "a page index");
}

/* ---- the encoding ---- */

/*
 * Are the column's first values smaller by a twentieth when they are split? The gain must be worth putting them together again. What the first
 * row group says holds for the file.
 */
static fby_status try_split(chunk *c, fby__pqw_split_choice *out)
{
    fby__pqw *w = c->w;
    fby__pqw_values ahead = c->values;
    fby__bytes plain;
    size_t n = TRIAL_BYTES / c->leaf->value_bytes, plain_bytes;
    n = n < w->levels.n_values ? n : w->levels.n_values;
    FBY__TRY(fby__pqw_next(&ahead, n, &w->values, &plain, c->err));
    w->stored.n = 0;
    FBY__TRY(fby__codec_compress(&w->codecs, w->codec, w->level, plain, &w->stored, c->err));
    plain_bytes = w->stored.n;
    FBY__TRY(fby__pqw_room(&w->payload, plain.n, c->err));
    fby__pqw_split(plain.data, n, c->leaf->value_bytes, w->payload.data);
    w->stored.n = 0;
    FBY__TRY(fby__codec_compress(&w->codecs, w->codec, w->level, (fby__bytes){w->payload.data, plain.n}, &w->stored, c->err));
    *out = w->stored.n < plain_bytes - plain_bytes / 20 ? FBY__PQW_SPLIT : FBY__PQW_WHOLE;
    return FBY_OK;
}

static fby_status choose_encoding(chunk *c)
{
    fby__pqw *w = c->w;
    const bool is_float = c->leaf->physical == FBY__PQ_FLOAT || c->leaf->physical == FBY__PQ_DOUBLE;
    c->out.encoding = FBY__PQ_PLAIN;
    FBY__TRY(fby__pqw_dictionary_make(&w->dictionary, c->values, w->levels.n_values, c->err));
    if (w->dictionary.used) {
        c->out.encoding = FBY__PQ_RLE_DICTIONARY;
    } else if (is_float && w->codec != FBY__CODEC_NONE && w->levels.n_values) {
        if (c->leaf->split == FBY__PQW_UNTRIED)
            FBY__TRY(try_split(c, &c->leaf->split));
        if (c->leaf->split == FBY__PQW_SPLIT)
            c->out.encoding = FBY__PQ_BYTE_STREAM_SPLIT;
    }
    return FBY_OK;
}

/* ---- indexes and statistics ---- */

/* 1: neither least nor greatest values ever fall, 2: they never rise, 0: neither of the two (parquet.thrift, BoundaryOrder). */
static int32_t boundary_order(const chunk *c, const page *pages, size_t n)
{
    bool rises = true, falls = true;
    const page *before = NULL;
    for (size_t i = 0; i < n; i++) {
        if (pages[i].all_null)
            continue;
        for (int which = 0; before && which < 2; which++) {
            const int order = fby__pqw_bounds_compare(c->leaf, &before->bounds, &pages[i].bounds, which);
            rises &= order <= 0;
            falls &= order >= 0;
        }
        before = &pages[i];
    }
    return rises ? 1 : falls ? 2 : 0;
}

static void put_column_index(const chunk *c, const page *pages, size_t n, fby__thrift_out *t)
{
    uint8_t scratch[FBY__PQW_BOUND_BYTES];
    bool exact;
    fby__thrift_open(t);
    fby__thrift_put_list(t, 1, FBY__THRIFT_TRUE, n);
    for (size_t i = 0; i < n; i++)
        fby__thrift_put(t, &(uint8_t){pages[i].all_null ? FBY__THRIFT_TRUE : FBY__THRIFT_FALSE}, 1);
    for (int which = 0; which < 2; which++) {
        fby__thrift_put_list(t, (int16_t)(2 + which), FBY__THRIFT_BINARY, n);
        for (size_t i = 0; i < n; i++) {
            fby__bytes bound = {0};
            if (!pages[i].all_null)
                bound = fby__pqw_bounds_text(c->leaf, c->is_utf8, &pages[i].bounds, which, scratch, &exact);
            fby__thrift_put_bytes(t, bound.data, bound.n);
        }
    }
    fby__thrift_put_i32(t, 4, boundary_order(c, pages, n));
    fby__thrift_put_list(t, 5, FBY__THRIFT_I64, n);
    for (size_t i = 0; i < n; i++)
        fby__thrift_put_integer(t, (int64_t)pages[i].n_nulls);
    fby__thrift_close(t);
}

static void put_offset_index(const page *pages, size_t n, fby__thrift_out *t)
{
    fby__thrift_open(t);
    fby__thrift_put_list(t, 1, FBY__THRIFT_STRUCT, n);
    for (size_t i = 0; i < n; i++) {
        fby__thrift_open(t);
        fby__thrift_put_i64(t, 1, (int64_t)pages[i].offset);
        fby__thrift_put_i32(t, 2, (int32_t)pages[i].stored_bytes);
        fby__thrift_put_i64(t, 3, (int64_t)pages[i].first_row);
        fby__thrift_close(t);
    }
    fby__thrift_close(t);
}

static void put_statistics(const chunk *c, fby__thrift_out *t)
{
    uint8_t scratch[FBY__PQW_BOUND_BYTES];
    bool exact[2] = {true, true};
    fby__thrift_open(t);
    fby__thrift_put_i64(t, 3, (int64_t)(c->w->levels.n - c->w->levels.n_values));
    for (int which = 1; c->bounds.there && which >= 0; which--) { /* max_value is field 5, min_value field 6 */
        const fby__bytes bound = fby__pqw_bounds_text(c->leaf, c->is_utf8, &c->bounds, which, scratch, &exact[which]);
        fby__thrift_put_binary(t, (int16_t)(6 - which), bound.data, bound.n);
    }
    if (c->bounds.there) {
        fby__thrift_put_bool(t, 7, exact[1]);
        fby__thrift_put_bool(t, 8, exact[0]);
    }
    fby__thrift_close(t);
}

/* Bytes that `t` got are appended to out. */
static fby_status keep(chunk *c, fby__thrift_out *t, fby__buf *out)
{
    const bool kept = !t->failed && fby__buf_put(out, t->bytes.data, t->bytes.n) == 0;
    t->bytes.n = 0;
    return kept ? FBY_OK : fby__fail_nomem(c->err, "the metadata of a Parquet file");
}

static fby_status finish(chunk *c)
{
    fby__pqw *w = c->w;
    const page *pages = (const page *)(const void *)w->pages.data;
    const size_t n = c->out.n_pages;
    bool bounded = c->leaf->order != FBY__PQW_UNORDERED;
    for (size_t i = 0; i < n; i++)
        bounded &= pages[i].all_null || pages[i].bounds.there; /* a page of NaN has none: then the chunk has no column index */
    w->header.bytes.n = 0;
    c->out.statistics_begin = w->statistics.n;
    put_statistics(c, &w->header);
    FBY__TRY(keep(c, &w->header, &w->statistics));
    c->out.statistics_end = w->statistics.n;
    if (bounded)
        put_column_index(c, pages, n, &w->header);
    FBY__TRY(keep(c, &w->header, &w->column_indexes));
    c->out.column_index_end = w->column_indexes.n;
    put_offset_index(pages, n, &w->header);
    FBY__TRY(keep(c, &w->header, &w->offset_indexes));
    c->out.offset_index_end = w->offset_indexes.n;
    return fby__buf_put(&w->chunks, &c->out, sizeof c->out) == 0 ? FBY_OK : fby__fail_nomem(c->err, "the metadata of a Parquet file");
}

fby_status fby__pqw_write_chunk(fby__pqw *w, fby__pqw_leaf *leaf, const struct ArrowArray *batch, fby_error *err)
{
    const fby__arrow_format *format = &w->schema.nodes[leaf->path[leaf->n_path - 1]].format;
    const struct ArrowArray *array = NULL;
    chunk c = {.w = w, .leaf = leaf, .is_utf8 = format->field.kind == FBY_KIND_STRING, .err = err};
    FBY__TRY(fby__pqw_levels_make(&w->levels, &w->schema, leaf, batch, &array, err));
    c.values = fby__pqw_values_of(leaf, format, array, &w->levels);
    c.out.n_values = w->levels.n;
    w->pages.n = 0;
    FBY__TRY(choose_encoding(&c));
    if (c.out.encoding == FBY__PQ_RLE_DICTIONARY)
        FBY__TRY(put_dictionary(&c));
    c.out.data_offset = w->base.at;
    while (c.at_level < w->levels.n)
        FBY__TRY(put_data_page(&c));
    return finish(&c);
}
