/*
 * Parquet files, written. (The one C library that writes them, carquet, is at version 0.7, in no distribution, and its columns with nulls could
 * not be read by others until recently, its issue 30; Arrow's and DuckDB's writers are C++.)
 *
 *     PAR1 · row group: column chunks · row group … · column indexes · offset indexes · file metadata (Thrift) · its length, u32 · PAR1
 *
 * Nothing in a file depends on when, where or in how many threads it was written; its sink gets it in order, and nothing is changed later.
 * Everything is what the format's README, Encodings.md, LogicalTypes.md, PageIndex.md and parquet.thrift (2.11) say.
 */
#include "write/arrow_file.h"
#include "write/parquet_impl.h"

#define MAGIC "PAR1"
#define DEFAULT_PAGE_BYTES (1u << 20)

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a Parquet writer"); }

/* ---- begin ---- */

static fby_status codec_of(const char *name, fby__codec_id *out, fby_error *err)
{
    static const struct {
        const char *name;
        fby__codec_id id;
    } known[] = {{"none", FBY__CODEC_NONE}, {"lz4", FBY__CODEC_LZ4_RAW}, {"zstd", FBY__CODEC_ZSTD}, {"snappy", FBY__CODEC_SNAPPY}};
    *out = FBY__CODEC_NONE;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            *out = known[i].id;
            return FBY_OK;
        }
    return name ? fby__fail(err, FBY_E_ARG, "Parquet files are not written with codec '%.40s'; none, lz4, snappy and zstd are", name)
                : FBY_OK;
}

/* RFC 4648, section 4. NULL: no memory. */
static char *base64(const uint8_t *in, size_t n)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = fby__malloc((n + 2) / 3 * 4 + 1), *p = text;
    for (size_t i = 0; text && i < n; i += 3, p += 4) {
        const uint32_t bits = (uint32_t)in[i] << 16 | (i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0) | (i + 2 < n ? in[i + 2] : 0);
        for (unsigned k = 0; k < 4; k++)
            p[k] = i + k <= n ? DIGITS[bits >> (18 - 6 * k) & 63] : '=';
    }
    if (text)
        *p = 0;
    return text;
}

/* What format/parquet/arrow_schema.c reads: time zones, durations and large types, which Parquet's schema does not tell. */
static fby_status keep_arrow_schema(fby__pqw *w, const struct ArrowSchema *schema, const fby__write_options *options, fby_error *err)
{
    static const uint8_t zeros[8] = {0};
    fby__buf message = {0};
    fby__fb b = {0};
    uint8_t head[8] = {255, 255, 255, 255};
    fby__arrow_put_schema_message(&b, schema, options);
    const size_t padding = -b.buf.n & 7;
    fby__store_u32(head + 4, (uint32_t)(b.buf.n + padding));
    if (!b.failed && fby__buf_put(&message, head, sizeof head) == 0 && fby__buf_put(&message, b.buf.data, b.buf.n) == 0 &&
        fby__buf_put(&message, zeros, padding) == 0)
        w->arrow_schema = base64(message.data, message.n);
    fby__buf_fini(&message);
    fby__buf_fini(&b.buf);
    return w->arrow_schema ? FBY_OK : no_memory(err);
}

static void destroy(fby__writer *base)
{
    fby__pqw *w = (fby__pqw *)base;
    fby__buf *const bufs[] = {&w->chunks, &w->group_rows,  &w->statistics,  &w->column_indexes, &w->offset_indexes,
                              &w->pages,  &w->level_bytes, &w->values,      &w->payload,        &w->body,
                              &w->stored, &w->strings,     &w->header.bytes};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        fby__buf_fini(bufs[i]);
    fby__pqw_schema_fini(&w->schema);
    fby__pqw_levels_fini(&w->levels);
    fby__pqw_dictionary_fini(&w->dictionary);
    fby__codec_state_fini(&w->codecs);
    fby__free(w->arrow_schema);
    fby__free(w);
}

static fby_status check(const struct ArrowSchema *schema, const fby__write_options *options, fby_error *err)
{
    fby__codec_id codec;
    fby__pqw_schema made;
    FBY__TRY(codec_of(options->codec, &codec, err));
    const fby_status status = fby__pqw_schema_init(schema, &made, err);
    fby__pqw_schema_fini(&made);
    return status;
}

static fby_status begin(const struct ArrowSchema *schema, const fby__write_options *options, fby__byte_sink sink, fby__writer **out,
                        fby_error *err)
{
    fby__pqw *w = fby__calloc(1, sizeof *w);
    if (!w)
        return no_memory(err);
    w->base.ops = &fby__writer_parquet;
    w->base.sink = sink;
    w->level = options->level;
    w->attributes = options->attributes;
    w->n_attributes = options->n_attributes;
    w->page_bytes = options->page_bytes ? options->page_bytes : DEFAULT_PAGE_BYTES;
    fby_status status = codec_of(options->codec, &w->codec, err);
    if (status == FBY_OK)
        status = fby__pqw_schema_init(schema, &w->schema, err);
    if (status == FBY_OK)
        status = keep_arrow_schema(w, schema, options, err);
    if (status == FBY_OK)
        status = fby__writer_put(&w->base, MAGIC, 4, err);
    if (status != FBY_OK) {
        destroy(&w->base);
        return status;
    }
    *out = &w->base;
    return FBY_OK;
}

/* ---- row groups ---- */

static fby_status batch(fby__writer *base, const struct ArrowArray *array, fby_error *err)
{
    fby__pqw *w = (fby__pqw *)base;
    if (array->length == 0)
        return FBY_OK;
    const uint64_t rows = (uint64_t)array->length;
    for (uint32_t i = 0; i < w->schema.n_leaves; i++) {
        const fby_status status = fby__pqw_write_chunk(w, &w->schema.leaves[i], array, err);
        if (status != FBY_OK)
            return fby__pqw_in_column(&w->schema, &w->schema.leaves[i], status, err);
    }
    return fby__buf_put(&w->group_rows, &rows, sizeof rows) == 0 ? FBY_OK : no_memory(err);
}

/* ---- the footer ---- */

/** Where the page indexes of all chunks lie in the file. */
typedef struct indexes {
    uint64_t columns, offsets;
} indexes;

static int32_t codec_number(fby__codec_id codec) /* parquet.thrift, CompressionCodec */
{
    return codec == FBY__CODEC_SNAPPY ? 1 : codec == FBY__CODEC_ZSTD ? 6 : codec == FBY__CODEC_LZ4_RAW ? 7 : 0;
}

static void put_encoding_count(fby__thrift_out *t, int32_t page, int32_t encoding, uint32_t n)
{
    fby__thrift_open(t);
    fby__thrift_put_i32(t, 1, page);
    fby__thrift_put_i32(t, 2, encoding);
    fby__thrift_put_i32(t, 3, (int32_t)n);
    fby__thrift_close(t);
}

static void put_column_metadata(const fby__pqw *w, const fby__pqw_leaf *leaf, const fby__pqw_chunk *c, fby__thrift_out *t)
{
    const bool dictionary = c->encoding == FBY__PQ_RLE_DICTIONARY;
    fby__thrift_put_struct(t, 3);
    fby__thrift_put_i32(t, 1, leaf->physical);
    fby__thrift_put_list(t, 2, FBY__THRIFT_I32, dictionary ? 3 : 2);
    if (dictionary)
        fby__thrift_put_integer(t, FBY__PQ_PLAIN);
    fby__thrift_put_integer(t, FBY__PQ_RLE);
    fby__thrift_put_integer(t, c->encoding);
    fby__pqw_put_path(&w->schema, leaf, t);
    fby__thrift_put_i32(t, 4, codec_number(w->codec));
    fby__thrift_put_i64(t, 5, (int64_t)c->n_values);
    fby__thrift_put_i64(t, 6, (int64_t)c->uncompressed_bytes);
    fby__thrift_put_i64(t, 7, (int64_t)c->compressed_bytes);
    fby__thrift_put_i64(t, 9, (int64_t)c->data_offset);
    if (dictionary)
        fby__thrift_put_i64(t, 11, (int64_t)c->dictionary_offset);
    fby__thrift_put_field(t, 12, FBY__THRIFT_STRUCT);
    fby__thrift_put(t, w->statistics.data + c->statistics_begin, c->statistics_end - c->statistics_begin);
    fby__thrift_put_list(t, 13, FBY__THRIFT_STRUCT, dictionary ? 2 : 1);
    if (dictionary)
        put_encoding_count(t, FBY__PQ_DICTIONARY_PAGE, FBY__PQ_PLAIN, 1);
    put_encoding_count(t, FBY__PQ_DATA_PAGE, c->encoding, c->n_pages);
    fby__thrift_close(t);
}

static void put_chunk(const fby__pqw *w, uint32_t leaf, const fby__pqw_chunk *c, const fby__pqw_chunk *before, indexes at,
                      fby__thrift_out *t)
{
    const size_t columns_begin = before ? before->column_index_end : 0, offsets_begin = before ? before->offset_index_end : 0;
    fby__thrift_open(t);
    fby__thrift_put_i64(t, 2, 0); /* deprecated, and required */
    put_column_metadata(w, &w->schema.leaves[leaf], c, t);
    fby__thrift_put_i64(t, 4, (int64_t)(at.offsets + offsets_begin));
    fby__thrift_put_i32(t, 5, (int32_t)(c->offset_index_end - offsets_begin));
    if (c->column_index_end > columns_begin) {
        fby__thrift_put_i64(t, 6, (int64_t)(at.columns + columns_begin));
        fby__thrift_put_i32(t, 7, (int32_t)(c->column_index_end - columns_begin));
    }
    fby__thrift_close(t);
}

static void put_group(const fby__pqw *w, size_t group, indexes at, fby__thrift_out *t)
{
    const uint32_t n = w->schema.n_leaves;
    const fby__pqw_chunk *chunks = (const fby__pqw_chunk *)(const void *)w->chunks.data, *of_group = chunks + group * n;
    uint64_t uncompressed = 0, compressed = 0;
    fby__thrift_open(t);
    fby__thrift_put_list(t, 1, FBY__THRIFT_STRUCT, n);
    for (uint32_t i = 0; i < n; i++) {
        put_chunk(w, i, &of_group[i], group || i ? &of_group[i] - 1 : NULL, at, t);
        uncompressed += of_group[i].uncompressed_bytes;
        compressed += of_group[i].compressed_bytes;
    }
    fby__thrift_put_i64(t, 2, (int64_t)uncompressed);
    fby__thrift_put_i64(t, 3, (int64_t)((const uint64_t *)(const void *)w->group_rows.data)[group]);
    if (n) {
        fby__thrift_put_i64(t, 5, (int64_t)(of_group[0].dictionary_offset ? of_group[0].dictionary_offset : of_group[0].data_offset));
        fby__thrift_put_i64(t, 6, (int64_t)compressed);
    }
    if (group <= INT16_MAX) {
        fby__thrift_put_field(t, 7, FBY__THRIFT_I16);
        fby__thrift_put_integer(t, (int64_t)group);
    }
    fby__thrift_close(t);
}

static void put_key_value(fby__thrift_out *t, const char *key, const char *value)
{
    fby__thrift_open(t);
    fby__thrift_put_binary(t, 1, key, strlen(key));
    fby__thrift_put_binary(t, 2, value, strlen(value));
    fby__thrift_close(t);
}

/* Attributes of fields come behind those of the file, and are in the Arrow schema. */
static size_t n_attributes_of_file(const fby__pqw *w)
{
    size_t n = 0;
    while (n < w->n_attributes && w->attributes[n].field < 0)
        n++;
    return n;
}

static void put_file_metadata(const fby__pqw *w, indexes at, const fby__key_value *metadata, size_t n, fby__thrift_out *t)
{
    const size_t n_groups = w->group_rows.n / sizeof(uint64_t), n_of_file = n_attributes_of_file(w), n_pairs = n + n_of_file + 1;
    uint64_t rows = 0;
    for (size_t i = 0; i < n_groups; i++)
        rows += ((const uint64_t *)(const void *)w->group_rows.data)[i];
    fby__thrift_open(t);
    fby__thrift_put_i32(t, 1, 2); /* version */
    fby__pqw_put_schema(&w->schema, t);
    fby__thrift_put_i64(t, 3, (int64_t)rows);
    fby__thrift_put_list(t, 4, FBY__THRIFT_STRUCT, n_groups);
    for (size_t i = 0; i < n_groups; i++)
        put_group(w, i, at, t);
    fby__thrift_put_list(t, 5, FBY__THRIFT_STRUCT, n_pairs);
    for (size_t i = 0; i < n; i++)
        put_key_value(t, metadata[i].key, metadata[i].value);
    for (size_t i = 0; i < n_of_file; i++)
        put_key_value(t, w->attributes[i].name, w->attributes[i].text);
    put_key_value(t, "ARROW:schema", w->arrow_schema);
    fby__thrift_put_binary(t, 6, "forebay version " FBY_VERSION_STRING, sizeof "forebay version " FBY_VERSION_STRING - 1);
    fby__thrift_put_list(t, 7, FBY__THRIFT_STRUCT, w->schema.n_leaves); /* ColumnOrder: TypeDefinedOrder for each */
    for (uint32_t i = 0; i < w->schema.n_leaves; i++) {
        fby__thrift_open(t);
        fby__thrift_put_struct(t, 1);
        fby__thrift_close(t);
        fby__thrift_close(t);
    }
    fby__thrift_close(t);
}

static fby_status end(fby__writer *base, const fby__key_value *metadata, size_t n, fby_error *err)
{
    fby__pqw *w = (fby__pqw *)base;
    const indexes at = {.columns = base->at, .offsets = base->at + w->column_indexes.n};
    uint8_t tail[8];
    FBY__TRY(fby__writer_put(base, w->column_indexes.data, w->column_indexes.n, err));
    FBY__TRY(fby__writer_put(base, w->offset_indexes.data, w->offset_indexes.n, err));
    w->header.bytes.n = 0;
    put_file_metadata(w, at, metadata, n, &w->header);
    if (w->header.failed)
        return no_memory(err);
    if (w->header.bytes.n > INT32_MAX)
        return fby__fail(err, FBY_E_UNSUPPORTED,
                         "the footer has %zu bytes, more than Parquet's can have: larger row groups or fewer columns help",
                         w->header.bytes.n);
    fby__store_u32(tail, (uint32_t)w->header.bytes.n);
    memcpy(tail + 4, MAGIC, 4);
    FBY__TRY(fby__writer_put(base, w->header.bytes.data, w->header.bytes.n, err));
    return fby__writer_put(base, tail, sizeof tail, err);
}

const fby__writer_ops fby__writer_parquet = {
    .name = "parquet", .check = check, .begin = begin, .batch = batch, .end = end, .free = destroy};
