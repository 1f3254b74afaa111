/*
 * Rows of a leaf as byte ranges.
 *
 * From the column down to the leaf the rows become elements of each node: the same ones below structs, so many each below fixed-size lists,
 * and below lists those between two offsets, which are read here when the rows are not all of the batch. Compressed buffers are whole ranges,
 * decompressed once for all blocks of a batch where there is a store to keep them in.
 */
#include "base/checked.h"
#include "format/ipc/ipc.h"

/* A buffer of a batch in the store: its number, of a dictionary batch behind those of record batches. */
static uint64_t store_number(const fby__ipc_table *table, const fby__ipc_buffer *buffer) { return (uint64_t)(buffer - table->buffers); }

typedef struct locating {
    const fby__locate_request *q;
    const fby__ipc_table *table;
    fby__leaf_source *source;
    bool part; /* some rows of the batch, not all */
    fby_error *err;
} locating;

static fby_status add(const locating *l, const fby__ipc_batch *batch, uint64_t offset, uint64_t n, uint64_t first,
                      fby__shared_chunk *shared)
{
    const bool there = shared && fby__shared_chunk_ready(shared);
    const fby__range range = {.offset = batch->body + offset, .n = there ? 0 : n, .tag = first, .shared = shared};
    fby_status status = fby__range_list_add(l->q->list, &range, l->err);
    if (status == FBY_OK)
        l->source->n_chunks++;
    else
        fby__shared_chunk_unref(shared);
    return status;
}

/* A whole buffer. */
static fby_status add_whole(const locating *l, const fby__ipc_batch *batch, const fby__ipc_buffer *buffer, bool is_shared)
{
    fby__shared_chunk *shared = NULL;
    if (is_shared && l->q->store && batch->codec != FBY__CODEC_NONE && buffer->n && buffer->plain && buffer->plain < SIZE_MAX / 2)
        shared = fby__chunk_store_get(l->q->store, l->q->file_key, FBY__NO_LEAF, store_number(l->table, buffer), (size_t)buffer->plain);
    return add(l, batch, buffer->offset, buffer->n, 0, shared);
}

/* Elements of so many bits each of a buffer, from `first` on, which begins at a byte. */
static fby_status add_elements(const locating *l, const fby__ipc_batch *batch, const fby__ipc_buffer *buffer, uint64_t first, uint64_t end,
                               uint64_t bits)
{
    uint64_t from = first * bits / 8, to = fby__div_up_u64(end * bits, 8);
    if (buffer->n == 0 || to > buffer->n) /* a bitmap that is not there; what is too short was refused */
        return add(l, batch, buffer->offset, 0, first, NULL);
    return add(l, batch, buffer->offset + from, to - from, first, NULL);
}

/* The offsets of elements [*begin, *end) of an uncompressed list or string column: where their own elements begin and end. */
static fby_status read_offsets(const locating *l, const fby__ipc_batch *batch, const fby__ipc_buffer *buffer, bool wide, uint64_t *begin,
                               uint64_t *end)
{
    uint8_t bytes[16] = {0};
    const uint64_t width = wide ? 8 : 4, at = batch->body + buffer->offset;
    if (*begin < *end) {
        FBY__TRY(fby__file_read(l->q->file, at + *begin * width, bytes, (size_t)width, l->err));
        FBY__TRY(fby__file_read(l->q->file, at + *end * width, bytes + 8, (size_t)width, l->err));
    }
    *begin = fby__load_u64(bytes);
    *end = fby__load_u64(bytes + 8);
    return FBY_OK;
}

static fby_status bad_offsets(const locating *l, const fby__ipc_batch *batch, uint32_t number)
{
    const fby__ipc_node *node = &l->table->nodes[number];
    return fby__ipc_damaged(fby__file_path(l->q->file), batch->number, batch->at, l->err, "column '%.150s': offsets are not in order",
                            node->schema->name);
}

/* The buffers of a node for elements [*begin, *end), which become those of what is below it. */
static fby_status locate_node(const locating *l, const fby__ipc_batch *batch, uint32_t number, uint64_t *begin, uint64_t *end)
{
    const fby__ipc_node *node = &l->table->nodes[number];
    const fby__ipc_length *length = fby__ipc_length_of(l->table, batch, number);
    const fby__arrow_format *format = &node->format;
    uint32_t n;
    const fby__ipc_buffer *buffers = fby__ipc_buffers(l->table, batch, number, &n);
    const bool offsets = format->storage == FBY__ARROW_LIST32 || format->storage == FBY__ARROW_LIST64 ||
                         format->storage == FBY__ARROW_VAR32 || format->storage == FBY__ARROW_VAR64;
    const bool wide = format->storage == FBY__ARROW_LIST64 || format->storage == FBY__ARROW_VAR64;
    if (batch->codec != FBY__CODEC_NONE) {
        for (uint32_t k = 0; k < n; k++)
            FBY__TRY(add_whole(l, batch, &buffers[k], l->part));
        *begin = *end = 0; /* of no use: all of what is below is read as well */
        return FBY_OK;
    }
    const uint64_t first = fby__ipc_base(node, length, *begin), last = *end;
    if (n > 0)
        FBY__TRY(length->nulls ? add_elements(l, batch, &buffers[0], first, last, 1) : add(l, batch, buffers[0].offset, 0, first, NULL));
    if (n > 1 && format->storage == FBY__ARROW_BITS)
        FBY__TRY(add_elements(l, batch, &buffers[1], first, last, 1));
    else if (n > 1 && !offsets)
        FBY__TRY(add_elements(l, batch, &buffers[1], first, last, 8 * (uint64_t)(format->storage == FBY__ARROW_VIEW ? 16 : format->width)));
    else if (n > 1) {
        FBY__TRY(add_elements(l, batch, &buffers[1], *begin, *begin < last ? last + 1 : last, wide ? 64 : 32));
        if (l->part) {
            FBY__TRY(read_offsets(l, batch, &buffers[1], wide, begin, end));
        } else {
            *begin = 0;
            *end = n > 2 ? buffers[2].n : fby__ipc_length_of(l->table, batch, number + 1)->n;
        }
        const uint64_t most = n > 2 ? buffers[2].n : fby__ipc_length_of(l->table, batch, number + 1)->n;
        if (*begin > *end || *end > most)
            return bad_offsets(l, batch, number);
        return n > 2 ? add_elements(l, batch, &buffers[2], *begin, *end, 8) : FBY_OK;
    }
    for (uint32_t k = 2; k < n; k++) /* of views: any of them may be pointed to */
        FBY__TRY(add_whole(l, batch, &buffers[k], false));
    *begin = first;
    if (format->storage == FBY__ARROW_FIXED_LIST) {
        *begin *= (uint64_t)format->field.list_size;
        *end *= (uint64_t)format->field.list_size;
    }
    return FBY_OK;
}

static fby_status locate_path(const locating *l, const fby__ipc_batch *batch, uint32_t number, uint64_t *begin, uint64_t *end)
{
    const fby__ipc_node *node = &l->table->nodes[number];
    if (node->parent != FBY__IPC_NONE)
        FBY__TRY(locate_path(l, batch, node->parent, begin, end));
    return locate_node(l, batch, number, begin, end);
}

/* Bytes a row of leaves that are stored as rows, and the buffer that has them; 0: they are not. */
static uint64_t stored_row_bytes(const fby__ipc_table *table, const fby__ipc_batch *batch, uint32_t leaf, uint64_t *out_buffer)
{
    const uint32_t number = table->leaf_nodes[leaf];
    const fby__ipc_node *node = &table->nodes[number];
    const fby__arrow_format *format = &node->format;
    uint64_t bytes = format->width;
    const fby_kind kind = format->field.kind; /* of times, another file's unit may be the data set's */
    if (batch->codec != FBY__CODEC_NONE || node->dictionary != FBY__IPC_NONE || format->storage != FBY__ARROW_FIXED ||
        format->stored != format->field.dtype || kind == FBY_KIND_DECIMAL || kind == FBY_KIND_TIME || kind == FBY_KIND_TIMESTAMP ||
        kind == FBY_KIND_DURATION)
        return 0;
    for (uint32_t i = number; i != FBY__IPC_NONE; i = table->nodes[i].parent) {
        const fby__arrow_storage storage = table->nodes[i].format.storage;
        if (fby__ipc_length_of(table, batch, i)->nulls || (i != number && storage != FBY__ARROW_STRUCT && storage != FBY__ARROW_FIXED_LIST))
            return 0;
        if (storage == FBY__ARROW_FIXED_LIST) /* fits: the batch's lengths were checked */
            bytes *= (uint64_t)table->nodes[i].format.field.list_size;
    }
    uint32_t n;
    *out_buffer = (uint64_t)(fby__ipc_buffers(table, batch, number, &n) - table->buffers) + 1;
    return bytes;
}

static fby_status locate_leaf(locating *l, uint32_t leaf)
{
    const fby__locate_request *q = l->q;
    const fby__ipc_table *table = l->table;
    const fby__ipc_batch *batch = &table->batches[q->group];
    const fby__ipc_node *node = &table->nodes[table->leaf_nodes[leaf]];
    uint64_t buffer = 0;
    const uint64_t row_bytes = stored_row_bytes(table, batch, leaf, &buffer);
    *l->source =
        (fby__leaf_source){.leaf = leaf, .first_chunk = q->list->n, .first_row = q->row_begin, .n_rows = q->row_end - q->row_begin};
    if (row_bytes) {
        l->source->rows_as_stored = true;
        l->source->range[1] = (fby__range){.offset = batch->body + table->buffers[buffer].offset + q->row_begin * row_bytes,
                                           .n = l->source->n_rows * row_bytes};
        return FBY_OK;
    }
    uint64_t begin = q->row_begin, end = q->row_end;
    FBY__TRY(locate_path(l, batch, table->leaf_nodes[leaf], &begin, &end));
    if (node->dictionary == FBY__IPC_NONE)
        return FBY_OK;
    uint32_t last = table->last[((size_t)q->group + 1) * table->n_dictionaries + node->dictionary];
    for (; last != FBY__IPC_NONE; last = table->dictionary_batches[last].before) {
        uint32_t n;
        const fby__ipc_buffer *buffers = fby__ipc_buffers(table, &table->dictionary_batches[last], 0, &n);
        for (uint32_t k = 0; k < n; k++)
            FBY__TRY(add_whole(l, &table->dictionary_batches[last], &buffers[k], true));
    }
    return FBY_OK;
}

fby_status fby__ipc_locate(const fby__locate_request *q, fby_error *err)
{
    const fby__ipc_table *table = fby__ipc(q->table);
    locating l = {.q = q, .table = table, .part = q->row_end - q->row_begin < table->batches[q->group].rows, .err = err};
    for (size_t i = 0; i < q->n; i++) {
        l.source = &q->sources[i];
        FBY__TRY(locate_leaf(&l, q->sources[i].leaf));
    }
    return FBY_OK;
}
