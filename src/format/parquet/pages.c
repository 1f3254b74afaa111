/*
 * Where pages lie: page headers, the page index of a chunk, and locate.
 *
 * Whole row groups need no index: their chunks are read as they are. For part of a row group the index comes from the
 * file's OffsetIndex where there is one and it agrees with the chunk, else from the page headers, read one by one
 * (small reads, once: the result stays in the table).
 *
 * Rows can be found by page headers only where a page holds whole rows: in columns without repetition, and in v2 pages.
 * A repeated column of v1 pages without an OffsetIndex gets an index of one entry, the whole chunk: its records may
 * span pages.
 */
#include "format/parquet/meta.h"
#include "format/parquet/thrift.h"

#include "base/checked.h"

/* Headers are 20 to 60 bytes; with statistics of long strings they can be far longer. */
#define HEADER_FIRST_READ 64u
#define HEADER_LIMIT (16u << 20)

/* ---- one header ---- */

static uint32_t parse_count(fby__thrift *t, uint8_t type)
{
    int32_t n = fby__thrift_i32(t, type);
    if (n < 0)
        fby__thrift_fail(t, "a count or size in the page header is negative");
    return n < 0 ? 0 : (uint32_t)n;
}

/* The fields of DataPageHeader (v1) and DictionaryPageHeader that matter have the same numbers. */
static void parse_v1(fby__thrift *t, fby__pq_page *page, unsigned *seen)
{
    fby__thrift_field m = {0};
    while (fby__thrift_next(t, &m)) {
        if (m.id == 1)
            page->n_values = parse_count(t, m.type);
        else if (m.id == 2)
            page->encoding = fby__thrift_i32(t, m.type);
        else if (m.id == 3 && page->type == FBY__PQ_DATA_PAGE)
            page->def_encoding = fby__thrift_i32(t, m.type);
        else if (m.id == 4 && page->type == FBY__PQ_DATA_PAGE)
            page->rep_encoding = fby__thrift_i32(t, m.type);
        else
            fby__thrift_skip(t, m.type);
        *seen |= m.id > 0 && m.id < 16 ? 1u << m.id : 0;
    }
}

static void parse_v2(fby__thrift *t, fby__pq_page *page, unsigned *seen)
{
    fby__thrift_field m = {0};
    page->is_compressed = true; /* unless it says otherwise */
    while (fby__thrift_next(t, &m)) {
        switch (m.id) {
        case 1: page->n_values = parse_count(t, m.type); break;
        case 2: page->n_nulls = parse_count(t, m.type); break;
        case 3: page->n_rows = parse_count(t, m.type); break;
        case 4: page->encoding = fby__thrift_i32(t, m.type); break;
        case 5: page->def_bytes = parse_count(t, m.type); break;
        case 6: page->rep_bytes = parse_count(t, m.type); break;
        case 7: page->is_compressed = fby__thrift_bool(t, m.type); break;
        default: fby__thrift_skip(t, m.type);
        }
        *seen |= m.id > 0 && m.id < 16 ? 1u << m.id : 0;
    }
}

/* Which header struct a page type needs, and which of its fields. */
static const struct {
    int16_t field;
    unsigned needs;
} HEADER_OF[] = {
    [FBY__PQ_DATA_PAGE] = {5, 1u << 1 | 1u << 2},
    [FBY__PQ_INDEX_PAGE] = {0, 0},
    [FBY__PQ_DICTIONARY_PAGE] = {7, 1u << 1 | 1u << 2},
    [FBY__PQ_DATA_PAGE_V2] = {8, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6},
};

/* Thrift faults stay in t, so that the caller can tell a cut header from a wrong one. */
static void parse_page(fby__thrift *t, fby__pq_page *page)
{
    fby__thrift_field m = {0};
    unsigned seen = 0, seen_inner = 0;
    *page = (fby__pq_page){.type = -1, .encoding = -1, .def_encoding = FBY__PQ_RLE, .rep_encoding = FBY__PQ_RLE};
    while (fby__thrift_next(t, &m)) {
        bool known = page->type >= 0 && (size_t)page->type < sizeof HEADER_OF / sizeof *HEADER_OF;
        if (m.id == 1)
            page->type = fby__thrift_i32(t, m.type);
        else if (m.id == 2)
            page->uncompressed_bytes = parse_count(t, m.type);
        else if (m.id == 3)
            page->compressed_bytes = parse_count(t, m.type);
        else if (m.id == 4) {
            page->crc = (uint32_t)fby__thrift_i32(t, m.type);
            page->has_crc = true;
        } else if (known && m.id == HEADER_OF[page->type].field && fby__thrift_struct(t, m.type)) {
            if (page->type == FBY__PQ_DATA_PAGE_V2)
                parse_v2(t, page, &seen_inner);
            else
                parse_v1(t, page, &seen_inner);
        } else
            fby__thrift_skip(t, m.type);
        seen |= m.id > 0 && m.id < 16 ? 1u << m.id : 0;
    }
    if (t->fault)
        return;
    page->header_bytes = (uint32_t)(t->p - t->begin);
    if ((seen & 14u) != 14u)
        fby__thrift_fail(t, "the page header lacks its type or sizes");
    else if (page->type < 0 || (size_t)page->type >= sizeof HEADER_OF / sizeof *HEADER_OF)
        return; /* a kind of page to come: to be skipped */
    else if ((seen_inner & HEADER_OF[page->type].needs) != HEADER_OF[page->type].needs)
        fby__thrift_fail(t, "the page header lacks its counts or encoding");
    else if ((uint64_t)page->def_bytes + page->rep_bytes > page->compressed_bytes)
        fby__thrift_fail(t, "the page's levels are longer than the page");
    else if (page->type == FBY__PQ_DATA_PAGE_V2 && (page->n_nulls > page->n_values || page->n_rows > page->n_values))
        fby__thrift_fail(t, "the page header states more nulls or rows than values");
}

fby_status fby__pq_page_parse(fby__bytes bytes, fby__pq_page *out, fby_error *err)
{
    if (bytes.n == 0)
        return fby__fail(err, FBY_E_FORMAT, "a page header is missing: the column ends early");
    fby__thrift t = fby__thrift_over(bytes);
    parse_page(&t, out);
    return t.fault ? fby__fail(err, FBY_E_FORMAT, "a page header is damaged: %s", t.fault) : FBY_OK;
}

/* ---- all headers of a chunk ---- */

typedef struct header_reader {
    fby__file *file;
    fby__buf buf;
    size_t want; /* the first read: twice the header before */
} header_reader;

/* Read and parse the header at offset, with `left` bytes of the chunk from there on. */
static fby_status read_header(header_reader *r, uint64_t offset, uint64_t left, fby__pq_page *page, fby_error *err)
{
    size_t have = 0, want = r->want;
    for (;; want *= 4) {
        size_t n = (size_t)fby__min_u64(want, left);
        if (fby__grow((void **)&r->buf.data, &r->buf.cap, n, 1) != 0)
            return fby__fail_nomem(err, "a page header");
        if (n > have)
            FBY__TRY(fby__file_read(r->file, offset + have, r->buf.data + have, n - have, err));
        have = n;
        fby__thrift t = fby__thrift_over((fby__bytes){r->buf.data, n});
        parse_page(&t, page);
        if (!t.fault)
            break;
        if (!t.cut || n == left || n >= HEADER_LIMIT)
            return fby__fail_at(err, FBY_E_FORMAT, offset, "the page header at offset %llu is damaged: %s", (unsigned long long)offset,
                                t.fault);
    }
    r->want = page->header_bytes * 2 > HEADER_FIRST_READ ? page->header_bytes * 2 : HEADER_FIRST_READ;
    if (page->compressed_bytes > left - page->header_bytes)
        return fby__fail_at(err, FBY_E_FORMAT, offset, "the page at offset %llu has %u bytes, but its column ends before",
                            (unsigned long long)offset, page->compressed_bytes);
    return FBY_OK;
}

fby_status fby__pq_walk(fby__file *file, const fby__pq_chunk *chunk, fby__pq_visit visit, void *user, fby_error *err)
{
    header_reader r = {.file = file, .want = HEADER_FIRST_READ};
    uint64_t at = chunk->data_offset, end = chunk->data_offset + chunk->compressed_bytes;
    fby_status st = FBY_OK;
    while (st == FBY_OK && at < end) {
        fby__pq_page page;
        st = read_header(&r, at, end - at, &page, err);
        if (st == FBY_OK)
            st = visit(user, at, &page, err);
        if (st == FBY_OK)
            at += (uint64_t)page.header_bytes + page.compressed_bytes;
    }
    fby__buf_fini(&r.buf);
    return st;
}

/* ---- the page index ---- */

/** An index while it grows. */
typedef struct draft {
    uint64_t *offset, *first_row;
    size_t offset_cap, row_cap;
    uint32_t n;
    uint64_t dictionary_offset, dictionary_bytes;
    uint64_t rows;     /* of the pages so far */
    uint64_t end;      /* of the pages so far */
    bool repeated;     /* the column has repeated values */
    bool records_span; /* … and a v1 page: rows cannot be told */
    bool first;        /* no page seen yet */
} draft;

static fby_status draft_put(draft *d, uint64_t offset, uint64_t first_row, fby_error *err)
{
    if (fby__grow((void **)&d->offset, &d->offset_cap, d->n + (size_t)1, sizeof *d->offset) != 0 ||
        fby__grow((void **)&d->first_row, &d->row_cap, d->n + (size_t)1, sizeof *d->first_row) != 0)
        return fby__fail_nomem(err, "a page index");
    if (d->n == UINT32_MAX - 1)
        return fby__fail(err, FBY_E_UNSUPPORTED, "the column has more than 2^32 pages");
    d->offset[d->n] = offset;
    d->first_row[d->n++] = first_row;
    return FBY_OK;
}

static void draft_fini(draft *d)
{
    fby__free(d->offset);
    fby__free(d->first_row);
}

static fby_status draft_visit(void *user, uint64_t offset, const fby__pq_page *page, fby_error *err)
{
    draft *d = user;
    uint64_t end = offset + page->header_bytes + page->compressed_bytes;
    bool first = d->first;
    d->first = false;
    if (page->type == FBY__PQ_DICTIONARY_PAGE) {
        if (!first)
            return fby__fail_at(err, FBY_E_FORMAT, offset, "a dictionary page at offset %llu follows other pages",
                                (unsigned long long)offset);
        d->dictionary_offset = offset;
        d->dictionary_bytes = end - offset;
        return FBY_OK;
    }
    if (page->type != FBY__PQ_DATA_PAGE && page->type != FBY__PQ_DATA_PAGE_V2)
        return FBY_OK; /* no rows: read over, and decoded over, with the pages around it */
    if (d->repeated && page->type == FBY__PQ_DATA_PAGE) {
        d->records_span = true;
        return FBY_END;
    }
    FBY__TRY(draft_put(d, offset, d->rows, err));
    d->rows += page->type == FBY__PQ_DATA_PAGE_V2 ? page->n_rows : page->n_values; /* < 2^64: 2^32 pages of 2^31 */
    d->end = end;
    return FBY_OK;
}

/* Move a draft into one allocation. The draft's last entry is the end. */
static fby__pq_page_index *index_of(const draft *d)
{
    size_t entries, bytes;
    if (!fby__mul_checked(d->n, 2 * sizeof(uint64_t), &entries) || !fby__add_checked(entries, sizeof(fby__pq_page_index), &bytes))
        return NULL;
    fby__pq_page_index *index = fby__malloc(bytes);
    if (!index)
        return NULL;
    *index = (fby__pq_page_index){.n_pages = d->n - 1,
                                  .dictionary_offset = d->dictionary_offset,
                                  .dictionary_bytes = d->dictionary_bytes,
                                  .offset = (uint64_t *)(index + 1),
                                  .first_row = (uint64_t *)(index + 1) + d->n};
    memcpy(index->offset, d->offset, d->n * sizeof *d->offset);
    memcpy(index->first_row, d->first_row, d->n * sizeof *d->first_row);
    return index;
}

static fby_status index_from_headers(fby__file *file, const fby__pq_chunk *chunk, const fby__leaf *leaf, uint64_t rows, draft *d,
                                     fby_error *err)
{
    *d = (draft){.repeated = leaf->max_rep > 0, .first = true};
    fby_status st = fby__pq_walk(file, chunk, draft_visit, d, err);
    if (d->records_span) {
        d->n = 0;
        d->dictionary_offset = d->dictionary_bytes = 0;
        FBY__TRY(draft_put(d, chunk->data_offset, 0, err));
        return draft_put(d, chunk->data_offset + chunk->compressed_bytes, rows, err);
    }
    FBY__TRY(st);
    if (d->rows != rows)
        return fby__fail(err, FBY_E_FORMAT, "its pages hold %llu rows, the row group %llu", (unsigned long long)d->rows,
                         (unsigned long long)rows);
    return draft_put(d, d->n ? d->end : chunk->data_offset + chunk->compressed_bytes, rows, err);
}

/* One PageLocation: false when it does not follow the page before without a gap, or does not lie in the chunk. */
static bool read_location(fby__thrift *t, const fby__pq_chunk *chunk, uint64_t rows, draft *d, fby_error *err, fby_status *status)
{
    fby__thrift_field m = {0};
    int64_t offset = -1, row = -1;
    int32_t bytes = -1;
    while (fby__thrift_next(t, &m)) {
        switch (m.id) {
        case 1: offset = fby__thrift_i64(t, m.type); break;
        case 2: bytes = fby__thrift_i32(t, m.type); break;
        case 3: row = fby__thrift_i64(t, m.type); break;
        default: fby__thrift_skip(t, m.type);
        }
    }
    if (t->fault || offset < 0 || bytes <= 0 || row < 0 || (uint64_t)row > rows)
        return false;
    uint64_t at = (uint64_t)offset, last = chunk->data_offset + chunk->compressed_bytes;
    if (at < chunk->data_offset || at > last || (uint64_t)bytes > last - at)
        return false;
    if (d->n == 0 ? row != 0 : at != d->end || (uint64_t)row < d->first_row[d->n - 1])
        return false;
    *status = draft_put(d, at, (uint64_t)row, err);
    d->end = at + (uint64_t)bytes;
    return *status == FBY_OK;
}

/* FBY_END: there is no OffsetIndex, or it cannot be used; the headers tell. */
static fby_status index_from_file(fby__file *file, const fby__pq_chunk *chunk, uint64_t rows, draft *d, fby_error *err)
{
    *d = (draft){0};
    if (chunk->offset_index_bytes == 0 || chunk->n_values == 0)
        return FBY_END;
    uint8_t *bytes = fby__malloc(chunk->offset_index_bytes);
    if (!bytes)
        return fby__fail_nomem(err, "an offset index");
    fby_status st = fby__file_read(file, chunk->offset_index_offset, bytes, chunk->offset_index_bytes, err);
    bool good = false;
    if (st == FBY_OK) {
        fby__thrift t = fby__thrift_over((fby__bytes){bytes, chunk->offset_index_bytes});
        fby__thrift_field m = {0};
        while (fby__thrift_next(&t, &m)) {
            if (m.id != 1 || good) {
                fby__thrift_skip(&t, m.type);
                continue;
            }
            uint32_t n = fby__thrift_list(&t, m.type, FBY__THRIFT_STRUCT);
            good = n > 0;
            for (uint32_t i = 0; good && i < n; i++)
                good = read_location(&t, chunk, rows, d, err, &st);
            if (!good)
                break;
        }
        good = good && !t.fault && d->end == chunk->data_offset + chunk->compressed_bytes;
    }
    fby__free(bytes);
    FBY__TRY(st);
    if (!good)
        return FBY_END;
    if (d->offset[0] > chunk->data_offset) {
        d->dictionary_offset = chunk->data_offset;
        d->dictionary_bytes = d->offset[0] - chunk->data_offset;
    }
    return draft_put(d, d->end, rows, err);
}

static fby_status build_index(fby__file *file, const fby__pq_chunk *chunk, const fby__leaf *leaf, uint64_t rows, fby__pq_page_index **out,
                              fby_error *err)
{
    draft d;
    fby_status st = index_from_file(file, chunk, rows, &d, err);
    if (st == FBY_END) {
        draft_fini(&d);
        st = index_from_headers(file, chunk, leaf, rows, &d, err);
    }
    if (st == FBY_OK) {
        *out = index_of(&d);
        if (!*out)
            st = fby__fail_nomem(err, "a page index");
    }
    draft_fini(&d);
    return st;
}

/* The index of a chunk, built when it is first asked for: outside the lock (it reads), so two threads may build it; the
 * first one stays. */
static fby_status index_get(const fby__table *base, fby__file *file, uint32_t group, uint32_t leaf, const fby__pq_page_index **out,
                            fby_error *err)
{
    fby__pq_table *table = (fby__pq_table *)base; /* only what its lock guards is changed */
    size_t slot = (size_t)group * base->schema->n_leaves + leaf;
    (void)pthread_mutex_lock(&table->lock); /* a plain mutex, never held twice: cannot fail */
    *out = table->index ? table->index[slot] : NULL;
    (void)pthread_mutex_unlock(&table->lock);
    if (*out)
        return FBY_OK;
    if (!file)
        return fby__fail(err, FBY_E_ARG, "its pages are not known yet, and no file is given to read them from");
    fby__pq_page_index *index = NULL;
    FBY__TRY(build_index(file, &table->chunks[slot], &base->schema->leaves[leaf], base->groups[group].rows, &index, err));
    (void)pthread_mutex_lock(&table->lock);
    if (!table->index)
        table->index = fby__calloc((size_t)base->n_groups * base->schema->n_leaves, sizeof *table->index);
    fby__pq_page_index *other = table->index ? table->index[slot] : NULL;
    if (table->index && !other)
        table->index[slot] = index;
    bool failed = !table->index;
    (void)pthread_mutex_unlock(&table->lock);
    *out = other ? other : index;
    if (other || failed)
        fby__free(index);
    return failed ? fby__fail_nomem(err, "a page index") : FBY_OK;
}

/* ---- locate ---- */

/* The first of the n ascending values that is > v; n when there is none. */
static uint32_t first_above(const uint64_t *values, uint32_t n, uint64_t v)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (values[mid] > v)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static fby_status locate_leaf(const fby__table *table, fby__file *file, uint32_t group, uint64_t row_begin, uint64_t row_end,
                              fby__leaf_source *source, fby_error *err)
{
    const fby__pq_chunk *chunk = fby__pq_chunk_of(table, group, source->leaf);
    *source = (fby__leaf_source){.leaf = source->leaf};
    source->range[0].offset = source->range[1].offset = chunk->data_offset;
    if (chunk->codec & FBY__PQ_CODEC_REFUSED)
        return fby__fail(err, FBY_E_UNSUPPORTED, "is compressed with %s, which is not supported; convert it, or leave the column out",
                         fby__pq_codec_name(chunk->codec));
    if (row_begin == 0 && row_end == table->groups[group].rows) {
        source->range[1].n = chunk->compressed_bytes;
        source->n_rows = row_end;
        return FBY_OK;
    }
    if (row_begin == row_end)
        return FBY_OK;
    const fby__pq_page_index *index;
    FBY__TRY(index_get(table, file, group, source->leaf, &index, err));
    /* first_row[0] = 0 ≤ row_begin < row_end ≤ first_row[n_pages], so both searches end within the pages. */
    uint32_t first = first_above(index->first_row, index->n_pages + 1, row_begin) - 1;
    uint32_t last = first_above(index->first_row, index->n_pages + 1, row_end - 1);
    source->range[0].offset = index->dictionary_offset;
    source->range[0].n = index->dictionary_bytes;
    source->range[1].offset = index->offset[first];
    source->range[1].n = index->offset[last] - index->offset[first];
    source->first_row = index->first_row[first];
    source->n_rows = index->first_row[last] - index->first_row[first];
    return FBY_OK;
}

fby_status fby__pq_locate(const fby__table *table, fby__file *file, uint32_t group, uint64_t row_begin, uint64_t row_end,
                          fby__leaf_source *sources, size_t n, fby_error *err)
{
    if (group >= table->n_groups || row_begin > row_end || row_end > table->groups[group].rows)
        return fby__fail(err, FBY_E_ARG, "rows %llu to %llu of row group %u do not exist", (unsigned long long)row_begin,
                         (unsigned long long)row_end, group);
    for (size_t i = 0; i < n; i++) {
        if (sources[i].leaf >= table->schema->n_leaves)
            return fby__fail(err, FBY_E_ARG, "leaf %u does not exist", sources[i].leaf);
        fby_status st = locate_leaf(table, file, group, row_begin, row_end, &sources[i], err);
        if (st != FBY_OK) {
            fby__pq_context(err, table, file ? fby__file_path(file) : NULL, group, sources[i].leaf);
            return st;
        }
    }
    return FBY_OK;
}
