/*
 * The footer: file metadata → fby__pq_table.
 *
 *     PAR1 · column chunks · (indexes) · file metadata (Thrift) · its length, u32 · PAR1
 *
 * Nothing in it is trusted: counts are checked against the bytes that remain (footer_bytes.c finds them) before anything
 * is allocated, offsets against the file. num_rows of the file is ignored (it can
 * be wrong: the row groups' are summed), and so are path_in_schema, statistics other than the null count, and versions.
 */
#include "format/parquet/meta.h"

#include "base/checked.h"

#define MAX_ELEMENTS (1u << 20)
/* The fewest bytes that each can take in Thrift, with what Parquet requires: bounds what a short footer can make us
 * allocate. */
#define MIN_ELEMENT_BYTES 3u
#define MIN_GROUP_BYTES 5u
#define MIN_CHUNK_BYTES 13u

typedef struct parser {
    const char *path;
    uint64_t file_bytes;
    uint64_t footer_offset;
    fby__thrift t;
    fby__schema *schema;
    fby__pq_table *table;
    fby__schema_element *tree; /* owned: n_tree, what the schema was made of */
    uint32_t n_tree;
    fby__bytes arrow; /* the value of "ARROW:schema"; empty: there is none */
    fby__bytes created_by;
    fby_error *err;
    fby_status status;    /* of what is wrong beyond Thrift; the message is in err */
    uint32_t group, leaf; /* being parsed */
    bool encrypted;
} parser;

/* Say what is wrong (fby__fail has), and end the parsing. */
static void stop(parser *f, fby_status status)
{
    if (f->status == FBY_OK)
        f->status = status;
    fby__thrift_fail(&f->t, "stopped");
}

/* ---- schema elements ---- */

static fby_unit parse_time_unit(fby__thrift *t, uint8_t type)
{
    fby_unit unit = FBY_UNIT_NONE;
    fby__thrift_field m = {0};
    if (!fby__thrift_struct(t, type))
        return unit;
    while (fby__thrift_next(t, &m)) { /* a union of empty structs */
        unit = m.id == 1 ? FBY_UNIT_MS : m.id == 2 ? FBY_UNIT_US : m.id == 3 ? FBY_UNIT_NS : FBY_UNIT_NONE;
        fby__thrift_skip(t, m.type);
    }
    return unit;
}

static void parse_logical_member(fby__thrift *t, fby__pq_element *e)
{
    fby__thrift_field m = {0};
    while (fby__thrift_next(t, &m)) {
        bool time = e->logical == FBY__PQ_LOGICAL_TIME || e->logical == FBY__PQ_LOGICAL_TIMESTAMP;
        if (e->logical == FBY__PQ_LOGICAL_DECIMAL && m.id == 1)
            e->scale = fby__thrift_i32(t, m.type);
        else if (e->logical == FBY__PQ_LOGICAL_DECIMAL && m.id == 2)
            e->precision = fby__thrift_i32(t, m.type);
        else if (time && m.id == 1)
            e->utc = fby__thrift_bool(t, m.type);
        else if (time && m.id == 2)
            e->unit = parse_time_unit(t, m.type);
        else if (e->logical == FBY__PQ_LOGICAL_INTEGER && m.id == 1)
            e->bits = (int8_t)fby__thrift_i32(t, m.type);
        else if (e->logical == FBY__PQ_LOGICAL_INTEGER && m.id == 2)
            e->is_signed = fby__thrift_bool(t, m.type);
        else
            fby__thrift_skip(t, m.type);
    }
}

static void parse_logical(fby__thrift *t, fby__pq_element *e)
{
    fby__thrift_field m = {0};
    while (fby__thrift_next(t, &m)) { /* a union: one member */
        e->logical = m.id;
        if (m.type == FBY__THRIFT_STRUCT)
            parse_logical_member(t, e);
        else
            fby__thrift_skip(t, m.type);
    }
}

static void parse_element(parser *f, fby__pq_element *e)
{
    fby__thrift *t = &f->t;
    fby__thrift_field m = {0};
    *e = (fby__pq_element){.type = -1, .converted = FBY__PQ_CONV_NONE};
    while (fby__thrift_next(t, &m)) {
        switch (m.id) {
        case 1: e->type = fby__thrift_i32(t, m.type); break;
        case 2: e->type_length = fby__thrift_i32(t, m.type); break;
        case 3: e->repetition = fby__thrift_i32(t, m.type); break;
        case 4: {
            fby__bytes name = fby__thrift_binary(t, m.type);
            e->name = (const char *)name.data;
            e->name_n = (uint32_t)name.n; /* a footer's length is 32 bits */
            break;
        }
        case 5: {
            int32_t n = fby__thrift_i32(t, m.type);
            if (n < 0)
                fby__thrift_fail(t, "a schema element has a negative number of children");
            e->n_children = n < 0 ? 0 : (uint32_t)n;
            break;
        }
        case 6: e->converted = fby__thrift_i32(t, m.type); break;
        case 7: e->scale = fby__thrift_i32(t, m.type); break;
        case 8: e->precision = fby__thrift_i32(t, m.type); break;
        case 10:
            if (fby__thrift_struct(t, m.type))
                parse_logical(t, e);
            break;
        default: fby__thrift_skip(t, m.type);
        }
    }
    if (!e->name)
        fby__thrift_fail(t, "a schema element has no name");
    if (e->repetition < FBY__PQ_REQUIRED || e->repetition > FBY__PQ_REPEATED)
        fby__thrift_fail(t, "a schema element is neither required, optional nor repeated");
}

static void parse_schema(parser *f, uint8_t type)
{
    uint32_t n = fby__thrift_list(&f->t, type, FBY__THRIFT_STRUCT);
    if (f->schema)
        fby__thrift_fail(&f->t, "the schema is stated twice");
    else if (n == 0 || n > (size_t)(f->t.end - f->t.p) / MIN_ELEMENT_BYTES)
        fby__thrift_fail(&f->t, "the schema is empty or longer than the footer");
    if (f->t.fault)
        return;
    if (n > MAX_ELEMENTS) {
        stop(f, fby__fail(f->err, FBY_E_UNSUPPORTED, "%s: the schema has %u elements; %u is the limit", f->path, n, MAX_ELEMENTS));
        return;
    }
    fby__pq_element *elements = fby__calloc(n, sizeof *elements);
    if (!elements) {
        stop(f, fby__fail_nomem(f->err, "the schema of a Parquet file"));
        return;
    }
    for (uint32_t i = 0; i < n && !f->t.fault; i++)
        parse_element(f, &elements[i]);
    if (!f->t.fault) {
        fby_status st = fby__pq_schema_tree(elements, n, &f->tree, &f->n_tree, f->err);
        if (st == FBY_OK)
            st = fby__schema_create(f->tree, f->n_tree, &f->schema, f->err);
        if (st != FBY_OK) {
            fby__error_context(f->err, "%s", f->path);
            stop(f, st);
        }
    }
    fby__free(elements);
}

/* ---- row groups ---- */

/** What a ColumnMetaData holds that a chunk does not keep as it is. */
typedef struct raw_chunk {
    int32_t type, codec;
    int64_t n_values, compressed_bytes, uncompressed_bytes, data_offset, dictionary_offset, null_count;
    int64_t offset_index_offset;
    int32_t offset_index_bytes;
    uint16_t encodings;
    bool has_meta, has_data_offset, has_values, encrypted;
    fby__bytes file_path;
} raw_chunk;

static uint16_t parse_encodings(fby__thrift *t, uint8_t type)
{
    uint16_t bits = 0;
    for (uint32_t n = fby__thrift_list(t, type, FBY__THRIFT_I32); n > 0 && !t->fault; n--) {
        int32_t id = fby__thrift_i32(t, FBY__THRIFT_I32);
        bits |= (uint16_t)(1u << (id < 0 || id > 14 ? 15 : id));
    }
    return bits;
}

static int64_t parse_null_count(fby__thrift *t, uint8_t type)
{
    int64_t n = -1;
    fby__thrift_field m = {0};
    if (!fby__thrift_struct(t, type))
        return n;
    while (fby__thrift_next(t, &m))
        if (m.id == 3)
            n = fby__thrift_i64(t, m.type);
        else
            fby__thrift_skip(t, m.type);
    return n;
}

static void parse_column_metadata(fby__thrift *t, raw_chunk *raw)
{
    fby__thrift_field m = {0};
    raw->has_meta = true;
    while (fby__thrift_next(t, &m)) {
        switch (m.id) {
        case 1: raw->type = fby__thrift_i32(t, m.type); break;
        case 2: raw->encodings = parse_encodings(t, m.type); break;
        case 4: raw->codec = fby__thrift_i32(t, m.type); break;
        case 5:
            raw->n_values = fby__thrift_i64(t, m.type);
            raw->has_values = true;
            break;
        case 6: raw->uncompressed_bytes = fby__thrift_i64(t, m.type); break;
        case 7: raw->compressed_bytes = fby__thrift_i64(t, m.type); break;
        case 9:
            raw->data_offset = fby__thrift_i64(t, m.type);
            raw->has_data_offset = true;
            break;
        case 11: raw->dictionary_offset = fby__thrift_i64(t, m.type); break;
        case 12: raw->null_count = parse_null_count(t, m.type); break;
        default: fby__thrift_skip(t, m.type);
        }
    }
}

static void parse_raw_chunk(fby__thrift *t, raw_chunk *raw)
{
    fby__thrift_field m = {0};
    *raw = (raw_chunk){.type = -1, .codec = -1, .null_count = -1};
    while (fby__thrift_next(t, &m)) {
        switch (m.id) {
        case 1: raw->file_path = fby__thrift_binary(t, m.type); break;
        case 3:
            if (fby__thrift_struct(t, m.type))
                parse_column_metadata(t, raw);
            break;
        case 4: raw->offset_index_offset = fby__thrift_i64(t, m.type); break;
        case 5: raw->offset_index_bytes = fby__thrift_i32(t, m.type); break;
        case 8:
            raw->encrypted = true;
            fby__thrift_skip(t, m.type);
            break;
        default: fby__thrift_skip(t, m.type);
        }
    }
}

static uint8_t codec_of(int32_t id)
{
    static const uint8_t known[] = {FBY__CODEC_NONE,   FBY__CODEC_SNAPPY, FBY__CODEC_GZIP, FBY__PQ_CODEC_REFUSED | 3,
                                    FBY__CODEC_BROTLI, FBY__CODEC_LZ4,    FBY__CODEC_ZSTD, FBY__CODEC_LZ4_RAW};
    return id >= 0 && (size_t)id < sizeof known ? known[id] : 0xff;
}

/* From here on the message needs the column, which the schema knows. */
static void bad_chunk(parser *f, fby_status status)
{
    if (f->t.fault)
        return;
    fby__pq_context(f->err, &f->table->base, f->path, f->group, f->leaf);
    if (f->err && f->err->file_offset < 0)
        f->err->file_offset = (int64_t)(f->footer_offset + (size_t)(f->t.p - f->t.begin));
    stop(f, status);
}

static void store_chunk(parser *f, const raw_chunk *raw, fby__pq_chunk *chunk)
{
    const fby__leaf *leaf = &f->schema->leaves[f->leaf];
    fby_error *err = f->err;
    if (raw->file_path.n) {
        bad_chunk(f, fby__fail(err, FBY_E_UNSUPPORTED, "its values are in another file ('%.*s'); open the data files instead",
                               (int)(raw->file_path.n < 200 ? raw->file_path.n : 200), (const char *)raw->file_path.data));
        return;
    }
    if (raw->encrypted) {
        bad_chunk(f, fby__fail(err, FBY_E_UNSUPPORTED, "the column is encrypted; decrypt the file first"));
        return;
    }
    if (!raw->has_meta || !raw->has_values || !raw->has_data_offset) {
        bad_chunk(f, fby__fail(err, FBY_E_FORMAT, "its metadata lacks its position or its number of values"));
        return;
    }
    if (raw->type != leaf->physical) {
        bad_chunk(f, fby__fail(err, FBY_E_FORMAT, "is stored as physical type %d, but the schema says %d at this place", raw->type,
                               leaf->physical));
        return;
    }
    if (raw->n_values < 0 || raw->compressed_bytes < 0 || raw->uncompressed_bytes < 0 || raw->data_offset < 0) {
        bad_chunk(f, fby__fail(err, FBY_E_FORMAT, "a count, size or offset is negative"));
        return;
    }
    bool dictionary = raw->dictionary_offset > 0 && raw->dictionary_offset < raw->data_offset;
    bool index = raw->offset_index_offset > 0 && raw->offset_index_bytes > 0;
    *chunk = (fby__pq_chunk){
        .dictionary_offset = dictionary ? (uint64_t)raw->dictionary_offset : 0,
        .data_offset = (uint64_t)(dictionary ? raw->dictionary_offset : raw->data_offset),
        .compressed_bytes = (uint64_t)raw->compressed_bytes,
        .uncompressed_bytes = (uint64_t)raw->uncompressed_bytes,
        .n_values = (uint64_t)raw->n_values,
        .null_count = raw->null_count >= 0 && raw->null_count <= raw->n_values ? raw->null_count : -1,
        .offset_index_offset = index ? (uint64_t)raw->offset_index_offset : 0,
        .offset_index_bytes = index ? (uint32_t)raw->offset_index_bytes : 0,
        .encodings = raw->encodings,
        .codec = codec_of(raw->codec),
    };
    /* An index is a convenience: one that cannot be there is left aside, and page headers tell instead. */
    if (chunk->offset_index_offset > f->file_bytes || chunk->offset_index_bytes > f->file_bytes - chunk->offset_index_offset)
        chunk->offset_index_offset = chunk->offset_index_bytes = 0;
    /* Nothing to read there, and writers of empty row groups leave any offset behind (pyarrow: 0, and a size). */
    if (chunk->n_values == 0)
        *chunk = (fby__pq_chunk){.null_count = 0, .encodings = chunk->encodings, .codec = chunk->codec};
}

static void parse_columns(parser *f, uint8_t type)
{
    uint32_t n = fby__thrift_list(&f->t, type, FBY__THRIFT_STRUCT), n_leaves = f->schema->n_leaves;
    if (!f->t.fault && n != n_leaves) {
        stop(f, fby__fail_at(f->err, FBY_E_FORMAT, f->footer_offset + (size_t)(f->t.p - f->t.begin),
                             "%s: row group %u has %u columns, the schema has %u", f->path, f->group, n, n_leaves));
        return;
    }
    for (f->leaf = 0; f->leaf < n && !f->t.fault; f->leaf++) {
        raw_chunk raw;
        parse_raw_chunk(&f->t, &raw);
        if (!f->t.fault)
            store_chunk(f, &raw, &f->table->chunks[(size_t)f->group * n_leaves + f->leaf]);
    }
}

static void parse_group(parser *f)
{
    fby__thrift_field m = {0};
    bool columns = false;
    int64_t rows = -1;
    while (fby__thrift_next(&f->t, &m)) {
        if (m.id == 1 && !columns) {
            columns = true;
            parse_columns(f, m.type);
        } else if (m.id == 3) {
            rows = fby__thrift_i64(&f->t, m.type);
        } else {
            fby__thrift_skip(&f->t, m.type);
        }
    }
    if (!columns || rows < 0)
        fby__thrift_fail(&f->t, "a row group lacks its columns or its number of rows");
    if (f->t.fault)
        return;
    f->table->base.groups[f->group].rows = (uint64_t)rows;
    for (f->leaf = 0; f->leaf < f->schema->n_leaves && !f->t.fault; f->leaf++) {
        fby_status st = fby__pq_chunk_check(&f->table->chunks[(size_t)f->group * f->schema->n_leaves + f->leaf],
                                            &f->schema->leaves[f->leaf], (uint64_t)rows, f->file_bytes, f->err);
        if (st != FBY_OK)
            bad_chunk(f, st);
    }
}

static void parse_groups(parser *f, uint8_t type)
{
    uint32_t n = fby__thrift_list(&f->t, type, FBY__THRIFT_STRUCT);
    size_t left = (size_t)(f->t.end - f->t.p);
    if (f->table)
        fby__thrift_fail(&f->t, "the row groups are stated twice");
    else if (n > left / MIN_GROUP_BYTES || (f->schema->n_leaves && n > left / MIN_CHUNK_BYTES / f->schema->n_leaves))
        fby__thrift_fail(&f->t, "there are more row groups than the footer has room for");
    if (f->t.fault)
        return;
    fby_status st = fby__pq_table_create(f->schema, n, f->file_bytes, &f->table, f->err);
    if (st != FBY_OK) {
        stop(f, st);
        return;
    }
    for (f->group = 0; f->group < n && !f->t.fault; f->group++)
        parse_group(f);
}

/* ---- the file ---- */

/* Makes the schema anew with the durations that Arrow's has: that one stands behind the row groups, which need to know the columns. */
static void add_durations(parser *f)
{
    fby__schema *schema;
    if (!fby__pq_mark_durations(f->arrow, f->tree))
        return;
    const fby_status st = fby__schema_create(f->tree, f->n_tree, &schema, f->err);
    if (st != FBY_OK) {
        stop(f, st);
        return;
    }
    fby__schema_unref(f->schema);
    f->schema = schema;
    fby__schema_unref(f->table->base.schema);
    f->table->base.schema = fby__schema_ref(schema);
}

static void parse_file_metadata(parser *f)
{
    fby__thrift *t = &f->t;
    fby__thrift_field m = {0};
    const uint8_t *late = NULL; /* row groups that stand before the schema */
    uint8_t late_type = 0;
    while (fby__thrift_next(t, &m)) {
        if (m.id == 2) {
            parse_schema(f, m.type);
        } else if (m.id == 5) {
            f->arrow = fby__pq_arrow_schema(t, m.type);
        } else if (m.id == 6 && m.type == FBY__THRIFT_BINARY) {
            f->created_by = fby__thrift_binary(t, m.type);
        } else if (m.id == 4 && f->schema) {
            parse_groups(f, m.type);
        } else if (m.id == 4) {
            late = t->p;
            late_type = m.type;
            fby__thrift_skip(t, m.type);
        } else {
            f->encrypted |= m.id == 8;
            fby__thrift_skip(t, m.type);
        }
        if (f->encrypted)
            return;
    }
    if (!t->fault && late && f->schema) {
        t->p = late;
        parse_groups(f, late_type);
    }
    if (!t->fault && (!f->schema || !f->table))
        fby__thrift_fail(t, "the footer lacks the schema or the row groups");
    if (!t->fault && !fby__pq_table_sum(f->table))
        fby__thrift_fail(t, "the row groups hold more rows or bytes than 64 bits count");
    if (!t->fault)
        add_durations(f);
}

static fby_status correct(const parser *f, fby__file *file)
{
    if (!fby__pq_omits_dictionary_headers(f->created_by))
        return FBY_OK;
    FBY__TRY(fby__pq_measure_chunks(f->table, file, f->err));
    (void)fby__pq_table_sum(f->table); /* sizes within the file: as before, they do not overflow */
    return FBY_OK;
}

static fby_status parse_footer(fby__file *file, uint64_t footer_offset, fby__bytes footer, fby__table **out, fby_error *err)
{
    const char *path = fby__file_path(file);
    parser f = {.path = path,
                .file_bytes = fby__file_stamp_of(file)->size_bytes,
                .footer_offset = footer_offset,
                .t = fby__thrift_over(footer),
                .err = err};
    parse_file_metadata(&f);
    fby_status st = f.status;
    if (st == FBY_OK && f.encrypted)
        st = fby__fail(err, FBY_E_UNSUPPORTED, "%s: the file is encrypted; decrypt it first", path);
    if (st == FBY_OK && f.t.fault) {
        uint64_t at = footer_offset + (size_t)(f.t.fault_at - f.t.begin);
        st = fby__fail_at(err, FBY_E_FORMAT, at, "%s: the Parquet footer is damaged at byte %llu: %s; copy or write the file again", path,
                          (unsigned long long)at, f.t.fault);
    }
    if (st == FBY_OK)
        st = correct(&f, file);
    fby__schema_unref(f.schema); /* the table has its own reference */
    fby__free(f.tree);
    if (st != FBY_OK) {
        if (f.table)
            fby__pq_destroy(&f.table->base);
        return st;
    }
    *out = &f.table->base;
    return FBY_OK;
}

fby_status fby__pq_open(fby__file *file, fby__table **out, fby_error *err)
{
    fby__pq_footer footer;
    FBY__TRY(fby__pq_footer_read(file, &footer, err));
    const fby_status status = parse_footer(file, footer.offset, footer.bytes, out, err);
    fby__free(footer.memory);
    return status;
}

/* ---- tables ---- */

fby_status fby__pq_table_create(fby__schema *schema, uint32_t n_groups, uint64_t file_bytes, fby__pq_table **out, fby_error *err)
{
    size_t n_chunks;
    fby__pq_table *table = fby__calloc(1, sizeof *table);
    if (!table)
        return fby__fail_nomem(err, "a Parquet table");
    table->base.ops = &fby__parquet_ops;
    table->base.n_groups = n_groups;
    table->file_bytes = file_bytes;
    atomic_init(&table->base.refs, 1);
    table->base.groups = fby__calloc(n_groups, sizeof *table->base.groups);
    if (fby__mul_checked(n_groups, schema->n_leaves, &n_chunks))
        table->chunks = fby__calloc(n_chunks, sizeof *table->chunks);
    if (!table->base.groups || !table->chunks || pthread_mutex_init(&table->lock, NULL) != 0) {
        fby__free(table->base.groups);
        fby__free(table->chunks);
        fby__free(table);
        return fby__fail_nomem(err, "a Parquet table");
    }
    table->base.schema = fby__schema_ref(schema);
    *out = table;
    return FBY_OK;
}

fby_status fby__pq_chunk_check(const fby__pq_chunk *chunk, const fby__leaf *leaf, uint64_t rows, uint64_t file_bytes, fby_error *err)
{
    if (leaf->max_rep == 0 ? chunk->n_values != rows : chunk->n_values < rows)
        return fby__fail(err, FBY_E_FORMAT, "holds %llu values, the row group %llu rows", (unsigned long long)chunk->n_values,
                         (unsigned long long)rows);
    bool empty = chunk->n_values == 0 && chunk->compressed_bytes == 0;
    if (!empty && (chunk->data_offset < 4 || chunk->data_offset > file_bytes || chunk->compressed_bytes > file_bytes - chunk->data_offset))
        return fby__fail_at(err, FBY_E_FORMAT, chunk->data_offset, "its %llu bytes at offset %llu do not lie in the file of %llu bytes",
                            (unsigned long long)chunk->compressed_bytes, (unsigned long long)chunk->data_offset,
                            (unsigned long long)file_bytes);
    /* A page takes more than 8 bytes with its header and holds at most 2^31 - 1 values and bytes. */
    uint64_t most = chunk->compressed_bytes / 8;
    if (most < UINT64_MAX / INT32_MAX && (chunk->n_values > most * INT32_MAX || chunk->uncompressed_bytes > most * INT32_MAX))
        return fby__fail(err, FBY_E_FORMAT, "claims %llu values in %llu bytes (%llu decompressed)", (unsigned long long)chunk->n_values,
                         (unsigned long long)chunk->compressed_bytes, (unsigned long long)chunk->uncompressed_bytes);
    return FBY_OK;
}

bool fby__pq_table_sum(fby__pq_table *table)
{
    uint64_t rows = 0;
    uint32_t n_leaves = table->base.schema->n_leaves;
    for (uint32_t g = 0; g < table->base.n_groups; g++) {
        fby__group *group = &table->base.groups[g];
        group->first_row = rows;
        group->stored_bytes = 0;
        if (!fby__add_u64_checked(rows, group->rows, &rows) || rows > INT64_MAX)
            return false;
        for (uint32_t i = 0; i < n_leaves; i++)
            if (!fby__add_u64_checked(group->stored_bytes, table->chunks[(size_t)g * n_leaves + i].compressed_bytes, &group->stored_bytes))
                return false;
    }
    table->base.n_rows = rows;
    return true;
}

void fby__pq_destroy(fby__table *base)
{
    fby__pq_table *table = (fby__pq_table *)base;
    size_t n = (size_t)base->n_groups * base->schema->n_leaves;
    for (size_t i = 0; table->index && i < n; i++)
        fby__free(table->index[i]); /* one allocation each: pages.c */
    fby__free(table->index);
    (void)pthread_mutex_destroy(&table->lock); /* fails only while locked: nobody holds a table that is destroyed */
    fby__free(table->chunks);
    fby__free(base->groups);
    fby__schema_unref(base->schema);
    fby__free(table);
}
