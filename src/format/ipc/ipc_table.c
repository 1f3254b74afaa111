/*
 * IPC tables in memory and in the index cache, and what a leaf takes.
 *
 *     head · the flatbuffer with the schema · batches · dictionary batches · last · lengths · buffers
 *
 * The blob is of this machine and version: a cache, not a file format. What passes its checksum is checked again, because a table must
 * never point outside its file.
 */
#include "base/checked.h"
#include "base/hash.h"
#include "format/ipc/ipc.h"

#include <string.h>

#define FROZEN_MAGIC 0x43504946u /* "FIPC" */
#define FROZEN_VERSION 1u

typedef struct frozen_head {
    uint32_t magic, version;
    uint32_t n_groups, n_dictionaries, n_dictionary_batches;
    uint8_t is_stream, no_end, unused[2];
    uint64_t file_bytes, metadata_bytes, n_lengths, n_buffers;
    uint64_t checksum; /* of the fields above and all that follows */
} frozen_head;

fby_status fby__ipc_table_create(fby__ipc_table **out, fby_error *err)
{
    fby__ipc_table *table = fby__calloc(1, sizeof *table);
    if (!table)
        return fby__fail_nomem(err, "an Arrow table");
    table->base.ops = &fby__ipc_ops;
    table->base.refs = 1;
    *out = table;
    return FBY_OK;
}

void fby__ipc_destroy(fby__table *base)
{
    fby__ipc_table *table = (fby__ipc_table *)base;
    if (table->schema.release)
        table->schema.release(&table->schema);
    fby__schema_unref(base->schema);
    fby__free(base->groups);
    fby__buf_fini(&table->metadata);
    fby__free(table->nodes);
    fby__free(table->leaf_nodes);
    fby__free(table->dictionaries);
    fby__free(table->batches);
    fby__free(table->dictionary_batches);
    fby__free(table->last);
    fby__free(table->lengths);
    fby__free(table->buffers);
    fby__free(table);
}

fby_status fby__ipc_table_sum(fby__ipc_table *table, fby_error *err)
{
    table->base.groups = fby__calloc(table->base.n_groups, sizeof *table->base.groups);
    if (!table->base.groups)
        return fby__fail_nomem(err, "an Arrow table");
    for (uint32_t g = 0; g < table->base.n_groups; g++) {
        const fby__ipc_batch *batch = &table->batches[g];
        table->base.groups[g] = (fby__group){
            .rows = batch->rows,
            .stored_bytes = batch->body_bytes,
            .first_row = table->base.n_rows,
            .step_rows = batch->codec == FBY__CODEC_NONE ? 0 : batch->rows, /* whole: each task would decompress all of a column */
        };
        if (!fby__add_u64_checked(table->base.n_rows, batch->rows, &table->base.n_rows))
            return fby__fail(err, FBY_E_UNSUPPORTED, "more than 2^64 rows");
    }
    return FBY_OK;
}

/* ---- the index cache ---- */

static uint64_t checksum(const frozen_head *head, const uint8_t *body, size_t n)
{
    return fby__hash_more(fby__hash(head, offsetof(frozen_head, checksum)), body, n).lo;
}

/* The parts of the blob behind its head: where they are in a table, and how long. */
typedef struct stretch {
    void **at;
    size_t n, size;
} stretch;

enum { N_PARTS = 6 };

static void list_parts(fby__ipc_table *table, const frozen_head *head, stretch out[N_PARTS])
{
    const stretch parts[N_PARTS] = {
        {(void **)&table->metadata.data, (size_t)head->metadata_bytes, 1},
        {(void **)&table->batches, head->n_groups, sizeof *table->batches},
        {(void **)&table->dictionary_batches, head->n_dictionary_batches, sizeof *table->dictionary_batches},
        {(void **)&table->last, ((size_t)head->n_groups + 1) * head->n_dictionaries, sizeof *table->last},
        {(void **)&table->lengths, (size_t)head->n_lengths, sizeof *table->lengths},
        {(void **)&table->buffers, (size_t)head->n_buffers, sizeof *table->buffers},
    };
    memcpy(out, parts, sizeof parts);
}

fby_status fby__ipc_freeze(const fby__table *base, fby__buf *out, fby_error *err)
{
    const fby__ipc_table *table = fby__ipc(base);
    frozen_head head = {.magic = FROZEN_MAGIC,
                        .version = FROZEN_VERSION,
                        .n_groups = base->n_groups,
                        .n_dictionaries = table->n_dictionaries,
                        .n_dictionary_batches = table->n_dictionary_batches,
                        .is_stream = table->is_stream,
                        .no_end = table->no_end,
                        .file_bytes = table->file_bytes,
                        .metadata_bytes = table->metadata.n,
                        .n_lengths = table->n_lengths,
                        .n_buffers = table->n_buffers};
    stretch parts[N_PARTS];
    fby__ipc_table copy = *table; /* only read: list_parts serves both ways */
    list_parts(&copy, &head, parts);
    size_t start = out->n, n = 0;
    for (int i = 0; i < N_PARTS; i++)
        n += parts[i].n * parts[i].size;
    if (fby__grow((void **)&out->data, &out->cap, start + sizeof head + n, 1) != 0)
        return fby__fail_nomem(err, "freezing an Arrow table");
    uint8_t *body = out->data + start + sizeof head, *at = body;
    for (int i = 0; i < N_PARTS; at += parts[i].n * parts[i].size, i++)
        if (parts[i].n)
            memcpy(at, *parts[i].at, parts[i].n * parts[i].size);
    head.checksum = checksum(&head, body, n);
    memcpy(out->data + start, &head, sizeof head);
    out->n = start + sizeof head + n;
    return FBY_OK;
}

static fby_status damaged(fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "the stored Arrow metadata is damaged or of another version");
}

/* Do the batch's figures lie in the table's arrays? */
static bool batch_fits(const fby__ipc_table *table, const fby__ipc_batch *batch, bool of_dictionary, uint32_t number)
{
    const char *why;
    if (of_dictionary != (batch->dictionary != FBY__IPC_NONE) || (of_dictionary && batch->dictionary >= table->n_dictionaries) ||
        batch->codec >= FBY__CODEC_COUNT)
        return false;
    const bool is_view = of_dictionary && table->dictionaries[batch->dictionary].format.storage == FBY__ARROW_VIEW;
    const uint32_t n_nodes = of_dictionary ? 1 : table->n_nodes, n_views = of_dictionary ? is_view : table->n_views;
    uint64_t n = of_dictionary ? fby__arrow_fixed_buffers(table->dictionaries[batch->dictionary].format.storage) : table->n_fixed_buffers;
    if (batch->first_length > table->n_lengths || (uint64_t)n_nodes + n_views > table->n_lengths - batch->first_length ||
        batch->first_buffer > table->n_buffers || batch->n_buffers > table->n_buffers - batch->first_buffer)
        return false;
    for (uint32_t v = 0; v < n_views; v++)
        if (!fby__add_u64_checked(n, table->lengths[batch->first_length + n_nodes + v].n, &n))
            return false;
    if (n != batch->n_buffers)
        return false;
    if (of_dictionary && batch->before != FBY__IPC_NONE &&
        (batch->before >= number || table->dictionary_batches[batch->before].dictionary != batch->dictionary))
        return false;
    return fby__ipc_batch_check(table, batch, of_dictionary, &why);
}

static bool all_fits(const fby__ipc_table *table)
{
    for (uint32_t i = 0; i < table->n_dictionary_batches; i++)
        if (!batch_fits(table, &table->dictionary_batches[i], true, i))
            return false;
    for (uint32_t g = 0; g < table->base.n_groups; g++)
        if (!batch_fits(table, &table->batches[g], false, g))
            return false;
    for (size_t i = 0; i < ((size_t)table->base.n_groups + 1) * table->n_dictionaries; i++)
        if (table->last[i] != FBY__IPC_NONE && (table->last[i] >= table->n_dictionary_batches ||
                                                table->dictionary_batches[table->last[i]].dictionary != i % table->n_dictionaries))
            return false;
    return true;
}

static fby_status thaw_parts(fby__ipc_table *table, const frozen_head *head, const uint8_t *body, fby_error *err)
{
    stretch parts[N_PARTS];
    list_parts(table, head, parts);
    for (int i = 0; i < N_PARTS; body += parts[i].n * parts[i].size, i++) {
        *parts[i].at = fby__malloc(parts[i].n * parts[i].size);
        if (!*parts[i].at)
            return fby__fail_nomem(err, "an Arrow table");
        if (parts[i].n)
            memcpy(*parts[i].at, body, parts[i].n * parts[i].size);
    }
    table->metadata.n = (size_t)head->metadata_bytes;
    table->base.n_groups = head->n_groups;
    table->n_dictionary_batches = head->n_dictionary_batches;
    table->n_lengths = (size_t)head->n_lengths;
    table->n_buffers = (size_t)head->n_buffers;
    table->is_stream = head->is_stream;
    table->no_end = head->no_end;
    table->file_bytes = head->file_bytes;
    return FBY_OK;
}

fby_status fby__ipc_thaw(fby__bytes bytes, fby__schema *schema, fby__table **out, fby_error *err)
{
    frozen_head head;
    fby__ipc_table *table = NULL;
    stretch parts[N_PARTS];
    if (bytes.n < sizeof head)
        return damaged(err);
    uint64_t left = bytes.n - sizeof head;
    memcpy(&head, bytes.data, sizeof head);
    const uint8_t *body = bytes.data + sizeof head;
    if (head.magic != FROZEN_MAGIC || head.version != FROZEN_VERSION || !fby__checksum_holds(head.checksum, checksum(&head, body, left)))
        return damaged(err);
    FBY__TRY(fby__ipc_table_create(&table, err));
    list_parts(table, &head, parts);
    bool fits = true;
    for (int i = 0; i < N_PARTS && fits; i++) {
        uint64_t n;
        fits = fby__mul_u64_checked(parts[i].n, parts[i].size, &n) && n <= left;
        left -= fits ? n : 0;
    }
    fby_status status = fits && left == 0 ? thaw_parts(table, &head, body, err) : damaged(err);
    if (status == FBY_OK)
        status = fby__ipc_schema_read(table, err);
    if (status == FBY_OK &&
        (!fby__hash_equal(table->base.schema->hash, schema->hash) || table->n_dictionaries != head.n_dictionaries || !all_fits(table)))
        status = damaged(err);
    if (status == FBY_OK) {
        fby__schema_unref(table->base.schema);
        table->base.schema = fby__schema_ref(schema);
        status = fby__ipc_table_sum(table, err);
    }
    if (status != FBY_OK) {
        fby__ipc_destroy(&table->base);
        return status;
    }
    *out = &table->base;
    return FBY_OK;
}

/* ---- what a leaf takes ---- */

typedef struct sizes {
    uint64_t stored, plain, rebased;
} sizes;

/* Buffers of a node, `share` of them; what is read whole counts whole. */
static void add_node(const fby__ipc_table *table, const fby__ipc_batch *batch, uint32_t number, const fby__arrow_format *format,
                     double share, sizes *out)
{
    uint32_t n;
    const fby__ipc_buffer *buffers = fby__ipc_buffers(table, batch, number, &n);
    const uint64_t rows = fby__ipc_length_of(table, batch, number)->n;
    for (uint32_t k = 0; k < n; k++) {
        const bool whole = batch->codec != FBY__CODEC_NONE || share >= 1 || (format->storage == FBY__ARROW_VIEW && k > 1);
        out->stored += whole ? buffers[k].n : fby__min_u64(buffers[k].n, (uint64_t)(share * (double)buffers[k].n) + 64);
        out->plain += batch->codec == FBY__CODEC_NONE ? 0 : buffers[k].plain + 192; /* padding, alignment */
    }
    const bool offsets = format->storage == FBY__ARROW_LIST32 || format->storage == FBY__ARROW_LIST64 ||
                         format->storage == FBY__ARROW_VAR32 || format->storage == FBY__ARROW_VAR64;
    out->rebased += 512 + (offsets ? 8 * ((uint64_t)(share * (double)rows) + 16) : 0);
}

/* Bytes of the strings of a node, at most; those that views share count once. */
static uint64_t text_bytes(const fby__ipc_table *table, const fby__ipc_batch *batch, uint32_t number, const fby__arrow_format *format)
{
    uint32_t n;
    const fby__ipc_buffer *buffers = fby__ipc_buffers(table, batch, number, &n);
    const uint64_t rows = fby__ipc_length_of(table, batch, number)->n;
    uint64_t bytes = format->storage == FBY__ARROW_VIEW ? 12 * rows : format->storage == FBY__ARROW_FIXED ? rows * format->width : 0;
    for (uint32_t k = 2; k < n; k++)
        bytes += buffers[k].plain;
    return bytes;
}

void fby__ipc_leaf_bounds(const fby__table *base, uint32_t group, uint64_t row_begin, uint64_t row_end, uint32_t leaf,
                          fby__leaf_bounds *out)
{
    const fby__ipc_table *table = fby__ipc(base);
    const fby__ipc_batch *batch = &table->batches[group];
    const uint32_t number = table->leaf_nodes[leaf];
    const fby__ipc_node *node = &table->nodes[number];
    const uint64_t rows = row_end - row_begin;
    const bool part = rows < batch->rows;
    /* A part may have more than its share of lists and strings. */
    double share = part ? (double)rows / (double)batch->rows : 1;
    sizes sum = {0};
    bool varies = node->format.storage == FBY__ARROW_VAR32 || node->format.storage == FBY__ARROW_VAR64, below_list = false;
    for (uint32_t i = number; i != FBY__IPC_NONE; i = table->nodes[i].parent)
        below_list |=
            i != number && (table->nodes[i].format.storage == FBY__ARROW_LIST32 || table->nodes[i].format.storage == FBY__ARROW_LIST64);
    if (part && (varies || below_list))
        share = share * 1.25 < 1 ? share * 1.25 : 1;
    for (uint32_t i = number; i != FBY__IPC_NONE; i = table->nodes[i].parent)
        add_node(table, batch, i, &table->nodes[i].format, share, &sum);

    const fby__ipc_length *length = fby__ipc_length_of(table, batch, number);
    uint64_t text = text_bytes(table, batch, number, &node->format);
    if (node->dictionary != FBY__IPC_NONE) {
        const fby__ipc_dictionary *d = &table->dictionaries[node->dictionary];
        uint32_t last = table->last[((size_t)group + 1) * table->n_dictionaries + node->dictionary];
        const bool joined = last != FBY__IPC_NONE && table->dictionary_batches[last].before != FBY__IPC_NONE;
        text = 0;
        for (; last != FBY__IPC_NONE; last = table->dictionary_batches[last].before) {
            const fby__ipc_batch *values = &table->dictionary_batches[last];
            const uint64_t bytes = text_bytes(table, values, 0, &d->format);
            add_node(table, values, 0, &d->format, 1, &sum);
            text += bytes;
            sum.rebased += joined ? bytes + 16 * values->rows : 0;
        }
    } else if (part) {
        text = fby__min_u64(text, (uint64_t)(share * (double)text) + 4096);
    }
    uint64_t values = part ? fby__min_u64(length->n, (uint64_t)(share * (double)length->n) + 64) : length->n;
    *out = (fby__leaf_bounds){
        .n_values = fby__max_u64(values, rows),
        .compressed_bytes = sum.stored,
        .uncompressed_bytes = text ? text : fby__max_u64(values, rows) * fby__max_u64(1, node->format.width),
        .scratch_bytes = sum.plain + sum.rebased,
        .shared_bytes = part ? (uint64_t)(share * (double)sum.plain) : 0,
    };
}

fby_status fby__ipc_describe(const fby__table *base, fby__file *file, uint32_t group, uint32_t leaf, fby_chunk_info *out, fby_error *err)
{
    (void)file; /* metadata says it all */
    (void)err;
    const fby__ipc_table *table = fby__ipc(base);
    const fby__ipc_batch *batch = &table->batches[group];
    const uint32_t number = table->leaf_nodes[leaf];
    const fby__ipc_node *node = &table->nodes[number];
    uint64_t stored = 0, plain = 0;
    bool nulls_above = false;
    for (uint32_t i = number; i != FBY__IPC_NONE; i = table->nodes[i].parent) {
        uint32_t n;
        const fby__ipc_buffer *buffers = fby__ipc_buffers(table, batch, i, &n);
        nulls_above |= i != number && fby__ipc_length_of(table, batch, i)->nulls > 0;
        for (uint32_t k = 0; k < n; k++) {
            stored += buffers[k].n;
            plain += buffers[k].plain;
        }
    }
    int64_t entries = -1;
    if (node->dictionary != FBY__IPC_NONE) {
        const uint32_t last = table->last[((size_t)group + 1) * table->n_dictionaries + node->dictionary];
        const fby__ipc_batch *values = last == FBY__IPC_NONE ? NULL : &table->dictionary_batches[last];
        entries = values ? (int64_t)(values->values_before + values->rows) : 0;
    }
    const fby__ipc_length *length = fby__ipc_length_of(table, batch, number);
    *out = (fby_chunk_info){.codec = fby__codec_name((fby__codec_id)batch->codec),
                            .n_values = length->n,
                            .compressed_bytes = stored,
                            .uncompressed_bytes = plain,
                            .n_pages = -1,
                            .n_dictionary_values = entries,
                            .null_count = nulls_above || node->dictionary != FBY__IPC_NONE ? -1 : (int64_t)length->nulls};
    return FBY_OK;
}
