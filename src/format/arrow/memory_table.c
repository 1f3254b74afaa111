/*
 * Record batches in memory as a table: reading the stream, checking shapes, sizes, and the format's vtable.
 *
 * The batches come from the user's own process, so their contents are trusted as any pointer is. What a mistaken
 * producer gets wrong is checked once, here: numbers of buffers and children, lengths, the ends of list offsets.
 * Decoding relies on it.
 */
#include "format/arrow/memory_column.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "block/arrow.h"

#include <errno.h>

/* ---- shapes ---- */

static fby_status misshapen(const struct ArrowSchema *schema, fby_error *err, const char *what)
{
    return fby__fail(err, FBY_E_ARG, "column '%s' (Arrow type '%.80s'): %s", schema->name ? schema->name : "", schema->format, what);
}

static fby_status check_array(const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t min_length, fby_error *err)
{
    fby__arrow_format format; /* of the buffers: a dictionary's indices, not its values */
    FBY__TRY(fby__arrow_format_parse(schema->format, &format, err));
    bool is_view = format.storage == FBY__ARROW_VIEW;
    int64_t n_buffers = (int64_t)fby__arrow_fixed_buffers(format.storage) + is_view; /* of views at least; the last holds the sizes */
    if (array->release == NULL)
        return misshapen(schema, err, "the array was released");
    if (array->length < 0 || array->offset < 0 || array->length > INT64_MAX - array->offset)
        return misshapen(schema, err, "negative length or offset");
    if ((uint64_t)array->length < min_length)
        return misshapen(schema, err, "the array is shorter than its parent says");
    /* Older producers give a null array one buffer. */
    if (is_view ? array->n_buffers < n_buffers : array->n_buffers != n_buffers && format.storage != FBY__ARROW_NULL)
        return misshapen(schema, err, "wrong number of buffers");
    if (array->n_children != schema->n_children)
        return misshapen(schema, err, "wrong number of children");
    if (!array->dictionary != !schema->dictionary)
        return misshapen(schema, err, "a dictionary in the schema or in the array alone");

    uint64_t end = (uint64_t)(array->offset + array->length), below = end;
    bool wide = format.storage == FBY__ARROW_LIST64 || format.storage == FBY__ARROW_VAR64;
    if (array->length > 0 && n_buffers > 1 && !array->buffers[1] && !(format.storage == FBY__ARROW_FIXED && format.width == 0))
        return misshapen(schema, err, "a buffer is missing");
    if (format.storage == FBY__ARROW_LIST32 || wide || format.storage == FBY__ARROW_VAR32) {
        below = array->length ? fby__arrow_offset(array, wide, end) : 0;
        if (below > INT64_MAX || (array->length && fby__arrow_offset(array, wide, (uint64_t)array->offset) > below))
            return misshapen(schema, err, "list or string offsets are not in order");
        if (format.storage == FBY__ARROW_VAR32 || format.storage == FBY__ARROW_VAR64)
            if (below > 0 && !array->buffers[2])
                return misshapen(schema, err, "a buffer is missing");
    } else if (format.storage == FBY__ARROW_FIXED_LIST) {
        if (!fby__mul_u64_checked(end, (uint64_t)format.field.list_size, &below))
            return misshapen(schema, err, "the lists are too long");
    }
    for (int64_t i = 0; i < array->n_children; i++)
        FBY__TRY(check_array(schema->children[i], array->children[i], below, err));
    return array->dictionary ? check_array(schema->dictionary, array->dictionary, 0, err) : FBY_OK;
}

/* ---- sizes ---- */

/* Bytes of values [first, first + n), offset included, of an array without children. */
static uint64_t value_bytes(const fby__arrow_format *format, const struct ArrowArray *array, uint64_t first, uint64_t n)
{
    uint64_t total = 0;
    switch (format->storage) {
    case FBY__ARROW_BITS: return fby__div_up_u64(n, 8);
    case FBY__ARROW_FIXED: return n * format->width;
    case FBY__ARROW_VAR32:
    case FBY__ARROW_VAR64: {
        bool wide = format->storage == FBY__ARROW_VAR64;
        return n ? fby__arrow_offset(array, wide, first + n) - fby__arrow_offset(array, wide, first) : 0;
    }
    case FBY__ARROW_VIEW:
        for (uint64_t i = first; i < first + n; i++)
            if (fby__arrow_bit(fby__arrow_validity(array), i))
                total += fby__load_u32((const uint8_t *)array->buffers[1] + 16 * i);
        return total;
    default: return 0;
    }
}

/* Walk to a leaf and count what lies there below the batch's rows. */
static fby_status measure(const fby__arrow_memory *memory, const struct ArrowArray *batch, uint32_t leaf, fby__arrow_column *column,
                          fby__leaf_bounds *out, fby_error *err)
{
    fby__arrow_path path;
    fby__arrow_path_of(memory->base.schema, leaf, &path);
    const struct ArrowSchema *schema = &memory->schema;
    const struct ArrowArray *array = batch;
    uint64_t begin = 0, n = (uint64_t)batch->length;
    uint32_t depth = 0;
    for (;; depth++) {
        FBY__TRY(fby__arrow_column_open(schema, array, begin, &path, depth, false, column, err));
        n *= column->per_row; /* the child is that long: checked */
        depth = column->depth;
        if (depth == path.n)
            break;
        bool wide = column->format.storage == FBY__ARROW_LIST64;
        begin = n ? fby__arrow_offset(column->array, wide, column->first) : 0;
        n = n ? fby__arrow_offset(column->array, wide, column->first + n) - begin : 0;
        schema = column->schema->children[0];
        array = column->array->children[0];
    }
    uint64_t bytes;
    const struct ArrowArray *dictionary = column->array->dictionary;
    if (dictionary) {
        fby__arrow_format index;
        FBY__TRY(fby__arrow_format_parse(column->schema->format, &index, err));
        bytes = n * index.width + value_bytes(&column->format, dictionary, (uint64_t)dictionary->offset, (uint64_t)dictionary->length);
    } else {
        bytes = value_bytes(&column->format, column->array, column->first, n);
    }
    *out = (fby__leaf_bounds){.n_values = fby__max_u64(n, (uint64_t)batch->length), .compressed_bytes = bytes, .uncompressed_bytes = bytes};
    return FBY_OK;
}

/* ---- the stream ---- */

static fby_status stream_failed(struct ArrowArrayStream *stream, int code, const char *what, fby_error *err)
{
    const char *message = stream->get_last_error ? stream->get_last_error(stream) : NULL;
    if (message && *message)
        return fby__fail(err, code == ENOMEM ? FBY_E_NOMEM : FBY_E_IO, "the Arrow stream failed %s: %.800s", what, message);
    return fby__fail_errno(err, code, "the Arrow stream failed %s", what);
}

static void memory_destroy(fby__table *table)
{
    fby__arrow_memory *memory = (fby__arrow_memory *)table;
    for (uint32_t i = 0; i < table->n_groups; i++)
        if (memory->batches[i].release)
            memory->batches[i].release(&memory->batches[i]);
    if (memory->schema.release)
        memory->schema.release(&memory->schema);
    fby__schema_unref(table->schema);
    fby__free(table->groups);
    fby__free(memory->batches);
    fby__free(memory->bounds);
    fby__free(memory);
}

static fby_status read_batches(fby__arrow_memory *memory, struct ArrowArrayStream *stream, fby_error *err)
{
    size_t cap = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        FBY__TRY(fby__cancel_check(err));
        int code = stream->get_next(stream, &batch);
        if (code != 0)
            return stream_failed(stream, code, "to deliver its next batch", err);
        if (!batch.release)
            return FBY_OK;
        uint32_t n = memory->base.n_groups;
        if (batch.length == 0) {
            batch.release(&batch);
            continue;
        }
        if (n == UINT32_MAX || fby__grow((void **)&memory->batches, &cap, (size_t)n + 1, sizeof batch) != 0) {
            batch.release(&batch);
            return fby__fail_nomem(err, "the batches of an Arrow stream");
        }
        memory->batches[n] = batch;
        memory->base.n_groups = n + 1;
        fby_status status = check_array(&memory->schema, &memory->batches[n], 0, err);
        if (status == FBY_OK && fby__arrow_validity(&memory->batches[n]))
            status = fby__fail(err, FBY_E_UNSUPPORTED, "rows that are null as a whole; drop them, or make the struct a column");
        if (status != FBY_OK) {
            fby__error_context(err, "batch %u", n);
            return status;
        }
    }
}

static fby_status measure_groups(fby__arrow_memory *memory, fby_error *err)
{
    fby__table *table = &memory->base;
    uint32_t n_leaves = table->schema->n_leaves;
    size_t n;
    if (!fby__mul_checked(table->n_groups, n_leaves, &n))
        return fby__fail_nomem(err, "the sizes of an Arrow table");
    table->groups = fby__calloc(table->n_groups, sizeof *table->groups);
    memory->bounds = fby__calloc(n, sizeof *memory->bounds);
    fby__arrow_column *column = fby__malloc(sizeof *column);
    fby_status status = table->groups && memory->bounds && column ? FBY_OK : fby__fail_nomem(err, "the sizes of an Arrow table");
    for (uint32_t g = 0; g < table->n_groups && status == FBY_OK; g++) {
        fby__group *group = &table->groups[g];
        group->rows = (uint64_t)memory->batches[g].length;
        group->first_row = table->n_rows;
        status = fby__cancel_check_at(g, err);
        if (status == FBY_OK && !fby__add_u64_checked(table->n_rows, group->rows, &table->n_rows))
            status = fby__fail(err, FBY_E_ARG, "more than 2^64 rows");
        for (uint32_t leaf = 0; leaf < n_leaves && status == FBY_OK; leaf++) {
            fby__leaf_bounds *bounds = &memory->bounds[(size_t)g * n_leaves + leaf];
            status = measure(memory, &memory->batches[g], leaf, column, bounds, err);
            group->stored_bytes += bounds->compressed_bytes;
        }
    }
    fby__free(column);
    return status;
}

fby_status fby__arrow_table_create(struct ArrowArrayStream *in, fby__table **out, fby_error *err)
{
    struct ArrowArrayStream stream = *in;
    if (!stream.release)
        return fby__fail(err, FBY_E_ARG, "the Arrow stream was released, or read before");
    in->release = NULL;

    fby_status status;
    fby__arrow_memory *memory = fby__calloc(1, sizeof *memory);
    if (!memory) {
        stream.release(&stream);
        return fby__fail_nomem(err, "an Arrow table");
    }
    memory->base.ops = &fby__arrow_ops;
    memory->base.refs = 1;
    int code = stream.get_schema(&stream, &memory->schema);
    if (code != 0) {
        memory->schema.release = NULL;
        status = stream_failed(&stream, code, "to tell its schema", err);
    } else {
        status = fby__arrow_schema_import(&memory->schema, &memory->base.schema, err);
    }
    if (status == FBY_OK)
        status = read_batches(memory, &stream, err);
    if (status == FBY_OK)
        status = measure_groups(memory, err);
    stream.release(&stream);
    if (status != FBY_OK) {
        memory_destroy(&memory->base);
        return status;
    }
    *out = &memory->base;
    return FBY_OK;
}

/* ---- the format ---- */

static int memory_bid(fby__bytes head, fby__bytes tail)
{
    (void)head;
    (void)tail;
    return 0;
}

static fby_status memory_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err)
{
    (void)opts;
    (void)out;
    return fby__fail(err, FBY_E_UNSUPPORTED, "%s: tables in memory are not opened from files", fby__file_path(file));
}

static fby_status memory_freeze(const fby__table *table, fby__buf *out, fby_error *err)
{
    (void)table;
    (void)out;
    return fby__fail(err, FBY_E_UNSUPPORTED, "tables in memory have no index cache");
}

static fby_status memory_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err)
{
    (void)bytes;
    (void)schema;
    (void)out;
    return fby__fail(err, FBY_E_UNSUPPORTED, "tables in memory have no index cache");
}

static void memory_leaf_bounds(const fby__table *table, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                               fby__leaf_bounds *out)
{
    (void)row_begin; /* nothing is read: the batch's figures will do */
    (void)row_end;
    *out = fby__arrow_memory_of(table)->bounds[(size_t)group * table->schema->n_leaves + leaf];
}

static fby_status memory_locate(const fby__locate_request *q, fby_error *err)
{
    (void)err;
    for (size_t i = 0; i < q->n; i++)
        q->sources[i] = (fby__leaf_source){.leaf = q->sources[i].leaf}; /* nothing to read */
    return FBY_OK;
}

static fby_status memory_describe(const fby__table *table, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out,
                                  fby_error *err)
{
    (void)file;
    const fby__arrow_memory *memory = fby__arrow_memory_of(table);
    const fby__leaf_bounds *bounds = &memory->bounds[(size_t)group * table->schema->n_leaves + leaf];
    fby__arrow_path path;
    fby__arrow_path_of(table->schema, leaf, &path);
    fby__arrow_column *column = fby__malloc(sizeof *column);
    if (!column)
        return fby__fail_nomem(err, "describing a column");
    fby_status status = fby__arrow_column_open(&memory->schema, &memory->batches[group], 0, &path, 0, false, column, err);
    bool whole = status == FBY_OK && column->depth == path.n; /* not below a list */
    *out = (fby_chunk_info){.codec = fby__codec_name(FBY__CODEC_NONE),
                            .n_values = bounds->n_values,
                            .compressed_bytes = bounds->compressed_bytes,
                            .uncompressed_bytes = bounds->uncompressed_bytes,
                            .n_pages = -1,
                            .n_dictionary_values = whole && column->array->dictionary ? column->array->dictionary->length : -1,
                            .null_count = whole && column->n_masks == 0 && !column->array->dictionary
                                              ? column->format.storage == FBY__ARROW_NULL ? (int64_t)bounds->n_values : 0
                                              : -1};
    fby__free(column);
    return status;
}

const fby__format_ops fby__arrow_ops = {
    .name = "arrow",
    .group = "batch",
    .groups = "batches",
    .bid = memory_bid,
    .open = memory_open,
    .freeze = memory_freeze,
    .thaw = memory_thaw,
    .destroy = memory_destroy,
    .leaf_bounds = memory_leaf_bounds,
    .locate = memory_locate,
    .decode_panel = fby__arrow_decode_panel,
    .decode_arrow = fby__arrow_decode_arrow,
    .describe = memory_describe,
};
