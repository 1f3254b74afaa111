/* What a column chunk is, for people and for planning: bounds, names for messages, and the figures `inspect` shows. */
#include "format/parquet/meta.h"

void fby__pq_context(fby_error *err, const fby__table *table, const char *file_name, uint32_t group, uint32_t leaf)
{
    const char *path = table->schema->fields[table->schema->leaves[leaf].field].path;
    if (file_name)
        fby__error_context(err, "%s: row group %u, column '%.200s'", file_name, group, path);
    else
        fby__error_context(err, "row group %u, column '%.200s'", group, path);
}

const char *fby__pq_codec_name(uint8_t codec)
{
    if (!(codec & FBY__PQ_CODEC_REFUSED))
        return fby__codec_name((fby__codec_id)codec);
    return codec == (FBY__PQ_CODEC_REFUSED | 3) ? "lzo" : "an unknown codec";
}

void fby__pq_leaf_bounds(const fby__table *table, uint32_t group, uint32_t leaf, fby__leaf_bounds *out)
{
    const fby__pq_chunk *chunk = fby__pq_chunk_of(table, group, leaf);
    *out = (fby__leaf_bounds){
        .n_values = chunk->n_values,
        .compressed_bytes = chunk->compressed_bytes,
        .uncompressed_bytes = chunk->uncompressed_bytes,
    };
}

static fby_status count_page(void *user, uint64_t offset, const fby__pq_page *page, fby_error *err)
{
    fby_chunk_info *info = user;
    (void)offset; /* the walk's, of no use here */
    (void)err;    /* nothing fails */
    info->has_crc |= page->has_crc;
    if (page->encoding >= 0 && page->encoding < 64)
        info->encodings |= (uint64_t)1 << page->encoding;
    if (page->type == FBY__PQ_DICTIONARY_PAGE) {
        info->n_dictionary_values = page->n_values;
    } else if (page->type == FBY__PQ_DATA_PAGE || page->type == FBY__PQ_DATA_PAGE_V2) {
        info->n_pages++;
        info->page_version = page->type == FBY__PQ_DATA_PAGE ? 1 : 2;
    }
    return FBY_OK;
}

fby_status fby__pq_describe(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err)
{
    if (group >= table->n_groups || leaf >= table->schema->n_leaves)
        return fby__fail(err, FBY_E_ARG, "row group %u or leaf %u does not exist", group, leaf);
    const fby__pq_chunk *chunk = fby__pq_chunk_of(table, group, leaf);
    *out = (fby_chunk_info){
        .codec = fby__pq_codec_name(chunk->codec),
        .encodings = chunk->encodings,
        .n_values = chunk->n_values,
        .compressed_bytes = chunk->compressed_bytes,
        .uncompressed_bytes = chunk->uncompressed_bytes,
        .n_pages = -1,
        .n_dictionary_values = -1,
        .null_count = chunk->null_count,
        .has_offset_index = chunk->offset_index_bytes != 0,
    };
    if (!file)
        return FBY_OK;
    out->n_pages = 0;
    fby_status st = fby__pq_walk(file, chunk, count_page, out, err);
    if (st != FBY_OK)
        fby__pq_context(err, table, fby__file_path(file), group, leaf);
    return st;
}
