/*
 * Opening: a file's footer (File.fbs) says where the messages are; a stream is followed from message to message, past their bodies.
 * Either way the metadata of every batch is read, since nothing else says how many rows it has.
 */
#include "base/checked.h"
#include "format/ipc/ipc.h"

#include <string.h>

#define MAGIC_BYTES 6u
#define LEGACY_BYTES ((uint64_t)64 << 20) /* a schema that probing looks at, where no mark is in front */

static const uint8_t MAGIC[MAGIC_BYTES] = {'A', 'R', 'R', 'O', 'W', '1'};

enum { FOOTER_DICTIONARIES = 2, FOOTER_RECORDS = 3 };

/* Once the schema is known: no dictionary has a batch yet. */
static fby_status begin_batches(fby__ipc_table *table, fby_error *err)
{
    uint32_t n = table->n_dictionaries;
    if (fby__grow((void **)&table->last, &table->cap_last, n, sizeof *table->last) != 0)
        return fby__fail_nomem(err, "an Arrow file");
    for (uint32_t i = 0; i < n; i++)
        table->last[i] = FBY__IPC_NONE;
    return FBY_OK;
}

static fby_status read_schema(fby__ipc_table *table, fby__file *file, fby_error *err)
{
    fby_status status = fby__ipc_schema_read(table, err);
    if (status != FBY_OK) {
        fby__error_context(err, "'%s'", fby__file_path(file));
        return status;
    }
    return begin_batches(table, err);
}

/* ---- files ---- */

static fby_status damaged_footer(const fby__file *file, uint64_t at, fby_error *err, const char *what)
{
    return fby__fail_at(err, FBY_E_FORMAT, at, "'%s': its footer at byte %llu is damaged: %s", fby__file_path(file), (unsigned long long)at,
                        what);
}

static fby_status read_footer(fby__ipc_table *table, fby__file *file, uint64_t *out_at, fby_error *err)
{
    const uint64_t size = table->file_bytes;
    uint8_t tail[4 + MAGIC_BYTES];
    if (size < 8 + sizeof tail)
        return fby__fail_at(err, FBY_E_FORMAT, size, "'%s' is an Arrow file that is cut short, of %llu bytes", fby__file_path(file),
                            (unsigned long long)size);
    FBY__TRY(fby__file_read(file, size - sizeof tail, tail, sizeof tail, err));
    if (memcmp(tail + 4, MAGIC, MAGIC_BYTES) != 0)
        return fby__fail_at(err, FBY_E_FORMAT, size - MAGIC_BYTES,
                            "'%s' is an Arrow file whose end is missing (a copy or write that was cut short)", fby__file_path(file));
    const uint64_t bytes = fby__load_u32(tail);
    if (bytes == 0 || bytes > INT32_MAX || bytes > size - 8 - sizeof tail)
        return damaged_footer(file, size - sizeof tail, err, "its length is more than the file has");
    *out_at = size - sizeof tail - bytes;
    if (fby__grow((void **)&table->metadata.data, &table->metadata.cap, (size_t)bytes, 1) != 0)
        return fby__fail_nomem(err, "the footer of an Arrow file");
    table->metadata.n = (size_t)bytes;
    return fby__file_read(file, *out_at, table->metadata.data, (size_t)bytes, err);
}

static fby_status add_block(fby__ipc_table *table, fby__file *file, const uint8_t *block, uint64_t footer, uint32_t number,
                            fby__ipc_kind kind, fby__buf *buffer, fby_error *err)
{
    const uint64_t at = fby__load_u64(block), body_bytes = fby__load_u64(block + 16);
    const uint32_t metadata_bytes = fby__load_u32(block + 8);
    fby__ipc_message message;
    if (at < 8 || at >= footer)
        return damaged_footer(file, footer, err, "it names a message outside of the file");
    FBY__TRY(fby__ipc_message_read(file, at, footer, number, buffer, &message, err));
    if (message.end || message.kind != kind || message.body_bytes != body_bytes || message.body - at != metadata_bytes)
        return fby__ipc_damaged(fby__file_path(file), number, at, err, "it is not the message that the footer names");
    return fby__ipc_batch_add(table, file, &message, err);
}

static fby_status open_file(fby__ipc_table *table, fby__file *file, fby__buf *buffer, fby_error *err)
{
    uint64_t at = 0;
    FBY__TRY(read_footer(table, file, &at, err));
    FBY__TRY(read_schema(table, file, err));
    fby__flatbuffer flat = fby__flatbuffer_of((fby__bytes){table->metadata.data, table->metadata.n});
    fby__flat_table root = fby__flat_root(&flat);
    fby__flat_vector dictionaries = fby__flat_vector_in(&flat, &root, FOOTER_DICTIONARIES, 24);
    fby__flat_vector records = fby__flat_vector_in(&flat, &root, FOOTER_RECORDS, 24);
    if (flat.damaged)
        return damaged_footer(file, at, err, "a position lies outside of it");
    for (uint32_t i = 0; i < dictionaries.n; i++)
        FBY__TRY(add_block(table, file, flat.data + dictionaries.at + 24 * (size_t)i, at, i + 1, FBY__IPC_DICTIONARY, buffer, err));
    for (uint32_t i = 0; i < records.n; i++)
        FBY__TRY(
            add_block(table, file, flat.data + records.at + 24 * (size_t)i, at, dictionaries.n + i + 1, FBY__IPC_RECORDS, buffer, err));
    return FBY_OK;
}

/* ---- streams ---- */

static fby_status open_stream(fby__ipc_table *table, fby__file *file, fby__buf *buffer, fby_error *err)
{
    const uint64_t size = table->file_bytes;
    fby__ipc_message message;
    uint64_t at = 0;
    for (uint32_t number = 0; at < size; number++, at = message.body + message.body_bytes) {
        FBY__TRY(fby__ipc_message_read(file, at, size, number, buffer, &message, err));
        if (message.end && number > 0 && message.body == size)
            return FBY_OK;
        if (message.end && number > 0)
            return fby__fail_at(err, FBY_E_UNSUPPORTED, message.body,
                                "'%s': %llu bytes follow the stream's end: a file may hold one stream", fby__file_path(file),
                                (unsigned long long)(size - message.body));
        if (message.end || (message.kind == FBY__IPC_SCHEMA) != (number == 0))
            return fby__ipc_damaged(fby__file_path(file), number, at, err,
                                    number ? "a schema in the middle of a stream" : "a stream begins with its schema");
        if (number > 0) {
            FBY__TRY(fby__ipc_batch_add(table, file, &message, err));
            continue;
        }
        if (fby__buf_put(&table->metadata, message.metadata.data, message.metadata.n) != 0)
            return fby__fail_nomem(err, "the schema of an Arrow stream");
        FBY__TRY(read_schema(table, file, err));
    }
    table->no_end = true; /* allowed: who writes may simply stop */
    return FBY_OK;
}

bool fby__ipc_probe(fby__file *file)
{
    const uint64_t size = fby__file_stamp_of(file)->size_bytes;
    uint8_t head[8];
    if (size < 16 || fby__file_read(file, 0, head, sizeof head, NULL) != FBY_OK)
        return false;
    const uint32_t first = fby__load_u32(head), bytes = fby__load_u32(head + 4);
    if (first == UINT32_MAX ? bytes == 0 || bytes % 8 : first == 0 || (first + 4) % 8 || first > LEGACY_BYTES)
        return false;
    fby__buf buffer = {0};
    fby__ipc_message message;
    bool is = fby__ipc_message_read(file, 0, size, 0, &buffer, &message, NULL) == FBY_OK && !message.end && message.kind == FBY__IPC_SCHEMA;
    fby__buf_fini(&buffer);
    return is;
}

/* ---- either ---- */

fby_status fby__ipc_open(fby__file *file, const fby__format_opts *opts, fby__table **out, fby_error *err)
{
    (void)opts; /* the format leaves no choice */
    fby__ipc_table *table;
    uint8_t head[MAGIC_BYTES] = {0};
    fby__buf buffer = {0};
    FBY__TRY(fby__ipc_table_create(&table, err));
    table->file_bytes = fby__file_stamp_of(file)->size_bytes;
    fby_status status = FBY_OK;
    if (table->file_bytes >= MAGIC_BYTES)
        status = fby__file_read(file, 0, head, MAGIC_BYTES, err);
    table->is_stream = memcmp(head, MAGIC, MAGIC_BYTES) != 0;
    if (status == FBY_OK)
        status = table->is_stream ? open_stream(table, file, &buffer, err) : open_file(table, file, &buffer, err);
    if (status == FBY_OK)
        status = fby__ipc_table_sum(table, err);
    fby__buf_fini(&buffer);
    if (status != FBY_OK) {
        fby__ipc_destroy(&table->base);
        return status;
    }
    *out = &table->base;
    return FBY_OK;
}
