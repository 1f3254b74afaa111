/*
 * Messages of an IPC file (Message.fbs): framing, and the figures of record batches and dictionary batches: lengths and nulls of nodes,
 * where their buffers lie. Bodies are not read, but for the lengths that precede compressed buffers of strings.
 */
#include "base/checked.h"
#include "format/ipc/ipc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIRST_BYTES 1024u /* read at once: most metadata is no longer */
#define CONTINUES UINT32_MAX
#define MAX_LENGTH (UINT64_C(1) << 56) /* of a node: sizes computed of it do not overflow */

enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER, MESSAGE_BODY_LENGTH, MESSAGE_CUSTOM };
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_VARIADIC };
enum { COMPRESSION_CODEC, COMPRESSION_METHOD };
enum { DICTIONARY_ID, DICTIONARY_DATA, DICTIONARY_IS_DELTA };

static fby_status in_message(const char *path, uint32_t number, uint64_t at, fby_status status, fby_error *err)
{
    if (err)
        err->file_offset = (int64_t)at;
    fby__error_context(err, "'%s', message %u at byte %llu", path, number, (unsigned long long)at);
    return status;
}

fby_status fby__ipc_damaged(const char *path, uint32_t number, uint64_t at, fby_error *err, const char *fmt, ...)
{
    char what[300];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args); /* a cut reason is still one */
    va_end(args);
    return in_message(path, number, at, fby__fail(err, FBY_E_FORMAT, "%s", what), err);
}

/* ---- framing ---- */

static fby_status read_bytes(fby__file *file, uint64_t at, size_t have, size_t n, fby__buf *buffer, fby_error *err)
{
    if (fby__grow((void **)&buffer->data, &buffer->cap, n, 1) != 0)
        return fby__fail_nomem(err, "the metadata of an Arrow file");
    return have < n ? fby__file_read(file, at + have, buffer->data + have, n - have, err) : FBY_OK;
}

static fby_status parse(const char *path, fby__ipc_message *m, fby_error *err)
{
    m->flat = fby__flatbuffer_of(m->metadata);
    fby__flat_table root = fby__flat_root(&m->flat);
    int64_t version = fby__flat_int(&m->flat, &root, MESSAGE_VERSION, 2, 0);
    int64_t kind = fby__flat_int(&m->flat, &root, MESSAGE_HEADER_TYPE, 1, 0);
    int64_t body_bytes = fby__flat_int(&m->flat, &root, MESSAGE_BODY_LENGTH, 8, 0);
    m->header = fby__flat_table_in(&m->flat, &root, MESSAGE_HEADER);
    if (m->flat.damaged || m->header.at == 0 || body_bytes < 0)
        return fby__ipc_damaged(path, m->number, m->at, err, "its metadata is damaged");
    if (version < 3 || version > 4)
        return in_message(
            path, m->number, m->at,
            fby__fail(err, FBY_E_UNSUPPORTED, "version %d of Arrow's metadata; versions 4 and 5 are supported", (int)version + 1), err);
    if (kind != FBY__IPC_SCHEMA && kind != FBY__IPC_DICTIONARY && kind != FBY__IPC_RECORDS)
        return in_message(path, m->number, m->at,
                          fby__fail(err, FBY_E_UNSUPPORTED, "%s; tables are supported",
                                    kind == 4 || kind == 5 ? "it is a tensor" : "it is of an unknown kind"),
                          err);
    m->kind = (fby__ipc_kind)kind;
    m->body_bytes = (uint64_t)body_bytes;
    fby__flat_vector custom = fby__flat_vector_in(&m->flat, &root, MESSAGE_CUSTOM, 4);
    for (uint32_t i = 0; version == 3 && i < custom.n && !m->flat.damaged; i++) {
        fby__flat_table pair = fby__flat_element(&m->flat, &custom, i);
        fby__bytes key = fby__flat_string(&m->flat, &pair, 0);
        static const char EXPERIMENTAL[] = "ARROW:experimental_compression";
        if (key.n == sizeof EXPERIMENTAL - 1 && memcmp(key.data, EXPERIMENTAL, key.n) == 0)
            return in_message(path, m->number, m->at,
                              fby__fail(err, FBY_E_UNSUPPORTED, "it is compressed as Arrow 0.17 alone did it; write it anew"), err);
    }
    return FBY_OK;
}

fby_status fby__ipc_message_read(fby__file *file, uint64_t at, uint64_t end, uint32_t number, fby__buf *buffer, fby__ipc_message *out,
                                 fby_error *err)
{
    const char *path = fby__file_path(file);
    const uint64_t left = end - at;
    *out = (fby__ipc_message){.at = at, .number = number};
    if (left < 4)
        return fby__ipc_damaged(path, number, at, err, "it is cut short: the file ends %llu bytes behind its beginning",
                                (unsigned long long)left);
    size_t have = (size_t)fby__min_u64(left, FIRST_BYTES), head = 4;
    FBY__TRY(read_bytes(file, at, 0, have, buffer, err));
    uint64_t bytes = fby__load_u32(buffer->data); /* before version 0.15 there was no mark in front */
    if (bytes == CONTINUES) {
        if (left < 8)
            return fby__ipc_damaged(path, number, at, err, "it is cut short");
        bytes = fby__load_u32(buffer->data + 4);
        head = 8;
    }
    out->body = at + head + bytes;
    if (bytes == 0) {
        out->end = true;
        return FBY_OK;
    }
    if (bytes > INT32_MAX || bytes > left - head)
        return fby__ipc_damaged(path, number, at, err, "%llu bytes of metadata where %llu follow", (unsigned long long)bytes,
                                (unsigned long long)(left - head));
    FBY__TRY(read_bytes(file, at, have, head + (size_t)bytes, buffer, err));
    out->metadata = (fby__bytes){buffer->data + head, (size_t)bytes};
    FBY__TRY(parse(path, out, err));
    if (out->body_bytes > end - out->body)
        return fby__ipc_damaged(path, number, at, err, "it is cut short: a body of %llu bytes where %llu follow",
                                (unsigned long long)out->body_bytes, (unsigned long long)(end - out->body));
    return FBY_OK;
}

/* ---- batches ---- */

fby__ipc_buffer *fby__ipc_buffers(const fby__ipc_table *table, const fby__ipc_batch *batch, uint32_t number, uint32_t *out_n)
{
    const bool of_dictionary = batch->dictionary != FBY__IPC_NONE;
    const fby__ipc_node *node = of_dictionary ? NULL : &table->nodes[number];
    fby__arrow_storage storage = node ? node->format.storage : table->dictionaries[batch->dictionary].format.storage;
    /* Behind the lengths of the nodes, each view's own number of buffers. */
    const fby__ipc_length *added = &table->lengths[batch->first_length + (node ? table->n_nodes : 1)];
    uint64_t first = batch->first_buffer + (node ? node->first_buffer : 0);
    for (uint32_t v = 0; node && v < node->first_view; v++)
        first += added[v].n;
    *out_n = fby__arrow_fixed_buffers(storage) + (storage == FBY__ARROW_VIEW ? (uint32_t)added[node ? node->first_view : 0].n : 0);
    return &table->buffers[first];
}

/* Bytes that buffer k of a node must have; 0 also where anything will do. */
static uint64_t needed(const fby__arrow_format *format, const fby__ipc_length *length, uint32_t k)
{
    uint64_t n = length->n;
    if (k == 0)
        return length->nulls ? fby__div_up_u64(n, 8) : 0;
    if (k > 1)
        return 0;
    switch (format->storage) {
    case FBY__ARROW_BITS: return fby__div_up_u64(n, 8);
    case FBY__ARROW_FIXED: return n * format->width;
    case FBY__ARROW_VIEW: return n * 16;
    case FBY__ARROW_VAR32:
    case FBY__ARROW_LIST32: return n ? (n + 1) * 4 : 0;
    case FBY__ARROW_VAR64:
    case FBY__ARROW_LIST64: return n ? (n + 1) * 8 : 0;
    default: return 0;
    }
}

/* Buffers whose length does not follow from the number of rows. */
static bool is_bytes(uint32_t k) { return k > 1; }

static bool check_node(const fby__ipc_table *table, const fby__ipc_batch *batch, uint32_t number, const fby__arrow_format *format,
                       uint64_t least, const char **out_why)
{
    const fby__ipc_length *length = fby__ipc_length_of(table, batch, number);
    *out_why = "a column is shorter than it should be";
    if (length->n < least || length->n > MAX_LENGTH)
        return false;
    *out_why = "a column has more nulls than values";
    if (length->nulls > length->n)
        return false;
    uint64_t bytes;
    *out_why = "a column is longer than any memory";
    if (!fby__mul_u64_checked(length->n, fby__max_u64(16, format->width), &bytes) || bytes > INT64_MAX)
        return false;
    uint32_t n;
    const fby__ipc_buffer *buffers = fby__ipc_buffers(table, batch, number, &n);
    for (uint32_t k = 0; k < n; k++) {
        uint64_t end;
        *out_why = "a buffer lies outside of the body";
        if (!fby__add_u64_checked(buffers[k].offset, buffers[k].n, &end) || end > batch->body_bytes)
            return false;
        *out_why = "a buffer is shorter than its column";
        if (buffers[k].plain < needed(format, length, k) || buffers[k].plain > INT64_MAX ||
            (batch->codec == FBY__CODEC_NONE ? buffers[k].plain != buffers[k].n : buffers[k].n && buffers[k].n < FBY__IPC_LENGTH_BYTES))
            return false;
    }
    return true;
}

bool fby__ipc_batch_check(const fby__ipc_table *table, const fby__ipc_batch *batch, bool of_dictionary, const char **out_why)
{
    uint64_t end;
    *out_why = "it lies outside of the file";
    if (!fby__add_u64_checked(batch->body, batch->body_bytes, &end) || end > table->file_bytes || batch->at >= batch->body)
        return false;
    if (of_dictionary)
        return check_node(table, batch, 0, &table->dictionaries[batch->dictionary].format, batch->rows, out_why) &&
               fby__ipc_length_of(table, batch, 0)->n == batch->rows;
    for (uint32_t i = 0; i < table->n_nodes; i++) {
        const fby__ipc_node *node = &table->nodes[i], *parent = node->parent == FBY__IPC_NONE ? NULL : &table->nodes[node->parent];
        uint64_t least = batch->rows;
        *out_why = "a list is longer than any memory";
        if (parent && parent->format.storage == FBY__ARROW_STRUCT)
            least = fby__ipc_length_of(table, batch, node->parent)->n;
        else if (parent && parent->format.storage == FBY__ARROW_FIXED_LIST) {
            if (!fby__mul_u64_checked(fby__ipc_length_of(table, batch, node->parent)->n, (uint64_t)parent->format.field.list_size, &least))
                return false;
        } else if (parent)
            least = 0;
        if (!check_node(table, batch, i, &node->format, least, out_why))
            return false;
    }
    return true;
}

/* ---- adding one ---- */

static fby_status add_lengths(fby__ipc_table *table, fby__ipc_message *m, const fby__flat_vector *nodes, const fby__flat_vector *variadic,
                              fby_error *err)
{
    size_t n = (size_t)nodes->n + variadic->n;
    if (fby__grow((void **)&table->lengths, &table->cap_lengths, table->n_lengths + n, sizeof *table->lengths) != 0)
        return fby__fail_nomem(err, "the batches of an Arrow file");
    fby__ipc_length *out = &table->lengths[table->n_lengths];
    for (uint32_t i = 0; i < nodes->n; i++) {
        const uint8_t *p = m->flat.data + nodes->at + 16 * (size_t)i;
        *out++ = (fby__ipc_length){fby__load_u64(p), fby__load_u64(p + 8)};
    }
    for (uint32_t i = 0; i < variadic->n; i++)
        *out++ = (fby__ipc_length){.n = fby__load_u64(m->flat.data + variadic->at + 8 * (size_t)i)};
    table->n_lengths += n;
    return FBY_OK;
}

static fby_status add_buffers(fby__ipc_table *table, fby__ipc_message *m, const fby__flat_vector *buffers, fby_error *err)
{
    if (fby__grow((void **)&table->buffers, &table->cap_buffers, table->n_buffers + buffers->n, sizeof *table->buffers) != 0)
        return fby__fail_nomem(err, "the batches of an Arrow file");
    for (uint32_t i = 0; i < buffers->n; i++) {
        const uint8_t *p = m->flat.data + buffers->at + 16 * (size_t)i;
        uint64_t n = fby__load_u64(p + 8);
        table->buffers[table->n_buffers++] = (fby__ipc_buffer){fby__load_u64(p), n, n};
    }
    return FBY_OK;
}

/* How much the compressed buffers of a node hold: as much as its values need, or, for bytes, what the file says in front of them. */
static fby_status find_plain(fby__ipc_table *table, fby__file *file, const fby__ipc_batch *batch, uint32_t number,
                             const fby__arrow_format *format, fby_error *err)
{
    uint32_t n;
    fby__ipc_buffer *buffers = fby__ipc_buffers(table, batch, number, &n);
    for (uint32_t k = 0; k < n; k++) {
        fby__ipc_buffer *b = &buffers[k];
        if (!is_bytes(k)) {
            b->plain = b->n ? needed(format, fby__ipc_length_of(table, batch, number), k) : 0;
            continue;
        }
        if (b->n == 0)
            continue;
        uint8_t length[FBY__IPC_LENGTH_BYTES];
        uint64_t end;
        if (b->n < sizeof length || !fby__add_u64_checked(b->offset, b->n, &end) || end > batch->body_bytes)
            return fby__ipc_damaged(fby__file_path(file), batch->number, batch->at, err, "a buffer lies outside of the body");
        FBY__TRY(fby__file_read(file, batch->body + b->offset, length, sizeof length, err));
        int64_t plain = (int64_t)fby__load_u64(length);
        if (plain < -1)
            return fby__ipc_damaged(fby__file_path(file), batch->number, batch->at, err, "a buffer of %lld bytes", (long long)plain);
        b->plain = plain == -1 ? b->n - sizeof length : (uint64_t)plain;
    }
    return FBY_OK;
}

/* The codec of a batch; its name for messages where it is none of ours. */
static bool codec_of(fby__ipc_message *m, const fby__flat_table *records, uint32_t *out)
{
    fby__flat_table compression = fby__flat_table_in(&m->flat, records, BATCH_COMPRESSION);
    *out = FBY__CODEC_NONE;
    if (compression.at == 0)
        return true;
    int64_t codec = fby__flat_int(&m->flat, &compression, COMPRESSION_CODEC, 1, 0);
    *out = codec == 0 ? FBY__CODEC_LZ4_FRAME : FBY__CODEC_ZSTD;
    return (codec == 0 || codec == 1) && fby__flat_int(&m->flat, &compression, COMPRESSION_METHOD, 1, 0) == 0;
}

/* The dictionary that a batch is of, and which it adds to. */
static fby_status find_dictionary(fby__ipc_table *table, const char *path, fby__ipc_message *m, fby__ipc_batch *batch, fby_error *err)
{
    int64_t id = fby__flat_int(&m->flat, &m->header, DICTIONARY_ID, 8, 0);
    bool is_delta = fby__flat_int(&m->flat, &m->header, DICTIONARY_IS_DELTA, 1, 0) != 0;
    uint32_t d = 0;
    while (d < table->n_dictionaries && table->dictionaries[d].id != id)
        d++;
    if (d == table->n_dictionaries)
        return fby__ipc_damaged(path, m->number, m->at, err, "dictionary %lld belongs to no column", (long long)id);
    uint32_t last = table->last[d]; /* those of the groups follow */
    if (is_delta && last == FBY__IPC_NONE)
        return fby__ipc_damaged(path, m->number, m->at, err, "it adds to dictionary %lld, which is not there yet", (long long)id);
    if (!is_delta && last != FBY__IPC_NONE && !table->is_stream)
        return fby__ipc_damaged(path, m->number, m->at, err, "a second dictionary %lld, which files must not have", (long long)id);
    batch->dictionary = d;
    batch->before = is_delta ? last : FBY__IPC_NONE;
    if (is_delta)
        batch->values_before = table->dictionary_batches[last].values_before + table->dictionary_batches[last].rows;
    if (batch->rows > MAX_LENGTH || batch->values_before > MAX_LENGTH)
        return fby__ipc_damaged(path, m->number, m->at, err, "a dictionary longer than any memory");
    return FBY_OK;
}

static fby_status keep(fby__ipc_table *table, const fby__ipc_batch *batch, fby_error *err)
{
    const bool of_dictionary = batch->dictionary != FBY__IPC_NONE;
    fby__ipc_batch **array = of_dictionary ? &table->dictionary_batches : &table->batches;
    size_t *cap = of_dictionary ? &table->cap_dictionary_batches : &table->cap_batches;
    uint32_t *n = of_dictionary ? &table->n_dictionary_batches : &table->base.n_groups, d = table->n_dictionaries;
    size_t lasts = ((size_t)*n + 2) * d;
    if (*n == FBY__IPC_NONE - 1 || fby__grow((void **)array, cap, (size_t)*n + 1, sizeof **array) != 0 ||
        (!of_dictionary && fby__grow((void **)&table->last, &table->cap_last, lasts, sizeof *table->last) != 0))
        return fby__fail_nomem(err, "the batches of an Arrow file");
    (*array)[*n] = *batch;
    if (of_dictionary)
        table->last[batch->dictionary] = *n;
    else if (d)
        memcpy(&table->last[((size_t)*n + 1) * d], table->last, d * sizeof *table->last);
    ++*n;
    return FBY_OK;
}

fby_status fby__ipc_batch_add(fby__ipc_table *table, fby__file *file, fby__ipc_message *m, fby_error *err)
{
    const char *path = fby__file_path(file), *why;
    const bool of_dictionary = m->kind == FBY__IPC_DICTIONARY;
    fby__flat_table records = of_dictionary ? fby__flat_table_in(&m->flat, &m->header, DICTIONARY_DATA) : m->header;
    fby__ipc_batch batch = {.at = m->at,
                            .body = m->body,
                            .body_bytes = m->body_bytes,
                            .number = m->number,
                            .rows = (uint64_t)fby__flat_int(&m->flat, &records, BATCH_LENGTH, 8, 0),
                            .first_length = table->n_lengths,
                            .first_buffer = table->n_buffers,
                            .dictionary = FBY__IPC_NONE,
                            .before = FBY__IPC_NONE};
    fby__flat_vector nodes = fby__flat_vector_in(&m->flat, &records, BATCH_NODES, 16);
    fby__flat_vector buffers = fby__flat_vector_in(&m->flat, &records, BATCH_BUFFERS, 16);
    fby__flat_vector variadic = fby__flat_vector_in(&m->flat, &records, BATCH_VARIADIC, 8);
    bool known = codec_of(m, &records, &batch.codec);
    if (m->flat.damaged || records.at == 0)
        return fby__ipc_damaged(path, m->number, m->at, err, "its metadata is damaged");
    if (!known)
        return in_message(path, m->number, m->at,
                          fby__fail(err, FBY_E_UNSUPPORTED, "its codec is neither LZ4_FRAME nor ZSTD; write it anew"), err);
    if (batch.rows == 0 && !of_dictionary)
        return FBY_OK;
    if (of_dictionary)
        FBY__TRY(find_dictionary(table, path, m, &batch, err));
    const fby__ipc_dictionary *dictionary = of_dictionary ? &table->dictionaries[batch.dictionary] : NULL;
    const uint32_t n_nodes = dictionary ? 1 : table->n_nodes;
    const uint32_t n_views = dictionary ? dictionary->format.storage == FBY__ARROW_VIEW : table->n_views;
    uint64_t n_buffers = dictionary ? fby__arrow_fixed_buffers(dictionary->format.storage) : table->n_fixed_buffers;
    for (uint32_t i = 0; i < variadic.n; i++) /* each counts in the vector's length, which is below 2^31 */
        n_buffers += fby__min_u64(fby__load_u64(m->flat.data + variadic.at + 8 * (size_t)i), UINT32_MAX);
    if (nodes.n != n_nodes || variadic.n != n_views || buffers.n != n_buffers)
        return fby__ipc_damaged(path, m->number, m->at, err, "%u columns with %u buffers where the schema has %u with %llu", nodes.n,
                                buffers.n, n_nodes, (unsigned long long)n_buffers);
    batch.n_buffers = n_buffers;
    FBY__TRY(add_lengths(table, m, &nodes, &variadic, err));
    FBY__TRY(add_buffers(table, m, &buffers, err));
    for (uint32_t i = 0; batch.codec != FBY__CODEC_NONE && i < n_nodes; i++)
        FBY__TRY(find_plain(table, file, &batch, i, dictionary ? &dictionary->format : &table->nodes[i].format, err));
    if (!fby__ipc_batch_check(table, &batch, of_dictionary, &why))
        return fby__ipc_damaged(path, m->number, m->at, err, "%s", why);
    return keep(table, &batch, err);
}
