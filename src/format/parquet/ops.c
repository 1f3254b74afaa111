/* Parquet as a format: the table of operations, and how to know a file by its ends. */
#include "base/checked.h"
#include "format/parquet/parquet.h"

static bool is_magic(const uint8_t *p) { return memcmp(p, "PAR1", 4) == 0 || memcmp(p, "PARE", 4) == 0; }

/* A file with one good end is most likely a Parquet file that was cut: ours to refuse with a reason. */
static int pq_bid(fby__bytes head, fby__bytes tail)
{
    bool front = head.n >= 4 && is_magic(head.data);
    bool back = tail.n >= 4 && is_magic(tail.data + tail.n - 4);
    return front && back ? 100 : front ? 60 : back ? 40 : 0;
}

static fby_status pq_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err)
{
    (void)opts; /* a Parquet file is one table */
    return fby__pq_open(file, out, err);
}

/*
 * A part of a row group needs its share of the bytes, the dictionary, and the pages that its ends cut: writers make pages of 1 MiB or
 * less. Where they do not, the read asks for a larger buffer than was reserved.
 */
#define CUT_PAGES_BYTES (3u << 20)
/*
 * Metadata says how many bytes and elements of strings and lists all rows of the group have: a part is given its share, a quarter more,
 * and a dictionary, which writers keep to 1 MiB. Where rows are more unequal than that, decoding asks for more room.
 */
#define DICTIONARY_BYTES (1u << 20)
#define LEAST_BYTES (64u << 10)
/*
 * Pages held decompressed at once. Writers end a page at 1 MiB, but look how far they are once in 1,024 values only, so a page of long ones has as
 * many. Where somebody told the writer to make larger pages, decoding asks for more.
 */
#define SCRATCH_BYTES (8u << 20)
#define PAGE_VALUES 1024u

static uint64_t page_bytes(const fby__leaf_bounds *b)
{
    /* No page has more than 2^31 bytes. */
    const uint64_t value = fby__min_u64(b->uncompressed_bytes / fby__max_u64(b->n_values, 1), (UINT64_C(1) << 31) / PAGE_VALUES);
    return fby__max_u64(SCRATCH_BYTES, PAGE_VALUES * value / 8 * 9); /* room for a page is an eighth more */
}

static void pq_leaf_bounds(const fby__table *table, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                           fby__leaf_bounds *out)
{
    uint64_t rows = row_end - row_begin, all = table->groups[group].rows;
    fby__pq_leaf_bounds(table, group, leaf, out);
    out->scratch_bytes = fby__min_u64(2 * out->uncompressed_bytes, page_bytes(out)); /* as stored, and a dictionary in the panel's dtype */
    if (rows >= all)
        return;
    const double share = (double)rows / (double)all;
    const uint64_t values = (uint64_t)(1.25 * share * (double)out->n_values) + LEAST_BYTES / 8;
    const uint64_t bytes = (uint64_t)(1.25 * share * (double)out->uncompressed_bytes) + DICTIONARY_BYTES + LEAST_BYTES;
    out->compressed_bytes = fby__min_u64(out->compressed_bytes, (uint64_t)(share * (double)out->compressed_bytes) + CUT_PAGES_BYTES);
    out->n_values = fby__min_u64(out->n_values, fby__max_u64(values, rows));
    out->uncompressed_bytes = fby__min_u64(out->uncompressed_bytes, bytes);
}

static fby_status pq_locate(const fby__locate_request *q, fby_error *err)
{
    return fby__pq_locate(q->table, q->file, q->group, q->row_begin, q->row_end, q->sources, q->n, err);
}

static fby_status pq_decode_arrow(const fby__arrow_request *q, fby__scratch *scratch, struct ArrowArray *out, fby_error *err)
{
    return fby__pq_decode_arrow(q->table, q->file_name, q->group, q->row_begin, q->row_end, q->field, q->verify_crc, q->sources, scratch,
                                out, err);
}

const fby__format_ops fby__parquet_ops = {
    .name = "parquet",
    .group = "row group",
    .groups = "row groups",
    .bid = pq_bid,
    .open = pq_open,
    .freeze = fby__pq_freeze,
    .thaw = fby__pq_thaw,
    .destroy = fby__pq_destroy,
    .leaf_bounds = pq_leaf_bounds,
    .locate = pq_locate,
    .decode_panel = fby__pq_decode_panel,
    .decode_arrow = pq_decode_arrow,
    .contents = fby__pq_contents,
    .describe = fby__pq_describe,
};
