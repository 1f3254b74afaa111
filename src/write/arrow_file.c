/*
 * Arrow IPC files (https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format), metadata version 5:
 *
 *     "ARROW1" 2 bytes │ schema │ record batch │ record batch │ … │ end of stream │ footer │ i32 its bytes │ "ARROW1"
 *
 *   1. Bodies, and every buffer in them, begin at multiples of 64 bytes of the file: mapped, they are aligned to cache lines.
 *   2. A validity without nulls has no bytes. Compressed buffers are preceded by how many bytes they hold; one that compression makes no
 *      smaller is stored as it is.
 */
#include "write/arrow_file.h"

#include "block/arrow.h"
#include "block/arrow_flat.h"
#include "codec/codec.h"

#define ALIGN 64u
#define CONTINUES UINT32_MAX
enum { VERSION_5 = 4 };
enum { MESSAGE_SCHEMA = 1, MESSAGE_RECORDS = 3 };
enum { CODEC_LZ4_FRAME = 0, CODEC_ZSTD = 1 };
static const uint8_t MAGIC[8] = "ARROW1\0";

/* Where a record batch lies. */
typedef struct block {
    uint64_t at, body_bytes;
    uint32_t metadata_bytes;
} block;

typedef struct arrow_writer {
    fby__writer base;
    struct ArrowSchema schema; /* a copy, owned */
    fby__write_options said;   /* its attributes alone */
    fby__codec_id codec;
    int level;
    block *blocks; /* owned */
    size_t n_blocks, cap_blocks;
    /* of the batch at hand */
    fby__arrow_flat flat;
    fby__buf packed; /* compressed buffers, one after the other */
    fby__fb fb;
    fby__codec_state codecs;
} arrow_writer;

static arrow_writer *of(fby__writer *w) { return (arrow_writer *)w; }

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "an Arrow file"); }

static uint64_t padded(uint64_t n) { return (n + ALIGN - 1) & ~(uint64_t)(ALIGN - 1); }

static fby_status put_padding(fby__writer *w, uint64_t n, fby_error *err)
{
    static const uint8_t zeros[ALIGN] = {0};
    return fby__writer_put(w, zeros, (size_t)n, err);
}

/* ---- messages ---- */

/* A Message, whose header's offset is *out_header. */
static void begin_message(fby__fb *b, int kind, uint64_t body_bytes, uint32_t *out_header)
{
    uint32_t slots[4];
    const fby__fb_field fields[] = {FBY__FB_I16(VERSION_5), FBY__FB_I8(kind), FBY__FB_OFFSET, FBY__FB_I64((int64_t)body_bytes)};
    fby__fb_table(b, fby__fb_begin(b), fields, 4, slots);
    *out_header = slots[2];
}

void fby__arrow_put_schema_message(fby__fb *b, const struct ArrowSchema *schema, const fby__write_options *options)
{
    uint32_t header;
    begin_message(b, MESSAGE_SCHEMA, 0, &header);
    fby__arrow_put_schema(b, header, schema, options);
}

/* Its metadata, padded so that the body begins at a multiple of ALIGN. */
static fby_status put_message(arrow_writer *w, uint32_t *out_bytes, fby_error *err)
{
    if (w->fb.failed)
        return no_memory(err);
    const uint64_t end = padded(w->base.at + 8 + w->fb.buf.n);
    uint8_t head[8];
    *out_bytes = (uint32_t)(end - w->base.at);
    fby__store_u32(head, CONTINUES);
    fby__store_u32(head + 4, *out_bytes - 8);
    FBY__TRY(fby__writer_put(&w->base, head, sizeof head, err));
    FBY__TRY(fby__writer_put(&w->base, w->fb.buf.data, w->fb.buf.n, err));
    return put_padding(&w->base, end - w->base.at, err);
}

/* ---- record batches ---- */

/* Buffers of w->flat, compressed into w->packed; afterwards they lie there. */
static fby_status compress(arrow_writer *w, fby_error *err)
{
    w->packed.n = 0;
    for (size_t i = 0; i < w->flat.n_buffers; i++) {
        fby__bytes *buffer = &w->flat.buffers[i];
        const size_t begin = w->packed.n;
        uint8_t length[8];
        fby__store_u64(length, buffer->n);
        if (buffer->n == 0)
            continue;
        if (fby__buf_put(&w->packed, length, sizeof length) != 0)
            return no_memory(err);
        FBY__TRY(fby__codec_compress(&w->codecs, w->codec, w->level, *buffer, &w->packed, err));
        if (w->packed.n - begin - sizeof length >= buffer->n) {
            w->packed.n = begin + sizeof length;
            fby__store_u64(w->packed.data + begin, UINT64_MAX); /* -1: as it is */
            if (fby__buf_put(&w->packed, buffer->data, buffer->n) != 0)
                return no_memory(err);
        }
        buffer->n = w->packed.n - begin;
    }
    /* It has moved while it grew. */
    size_t at = 0;
    for (size_t i = 0; i < w->flat.n_buffers; at += w->flat.buffers[i].n, i++)
        w->flat.buffers[i].data = w->flat.buffers[i].n ? w->packed.data + at : NULL;
    return FBY_OK;
}

static void describe_batch(arrow_writer *w, uint64_t rows, uint64_t body_bytes)
{
    fby__fb *b = &w->fb;
    uint32_t header, slots[4], codec[2];
    const bool compressed = w->codec != FBY__CODEC_NONE;
    begin_message(b, MESSAGE_RECORDS, body_bytes, &header);
    const fby__fb_field fields[] = {FBY__FB_I64((int64_t)rows), FBY__FB_OFFSET, FBY__FB_OFFSET, compressed ? FBY__FB_OFFSET : FBY__FB_NONE};
    fby__fb_table(b, header, fields, 4, slots);
    uint32_t at = fby__fb_vector(b, slots[1], (uint32_t)w->flat.n_nodes, 16, 8);
    for (size_t i = 0; i < w->flat.n_nodes; i++, at += 16) {
        fby__fb_store64(b, at, (int64_t)w->flat.nodes[i].n);
        fby__fb_store64(b, at + 8, (int64_t)w->flat.nodes[i].nulls);
    }
    at = fby__fb_vector(b, slots[2], (uint32_t)w->flat.n_buffers, 16, 8);
    uint64_t offset = 0;
    for (size_t i = 0; i < w->flat.n_buffers; i++, at += 16) {
        fby__fb_store64(b, at, (int64_t)offset);
        fby__fb_store64(b, at + 8, (int64_t)w->flat.buffers[i].n);
        offset += padded(w->flat.buffers[i].n);
    }
    if (compressed)
        fby__fb_table(b, slots[3], (fby__fb_field[]){FBY__FB_I8(w->codec == FBY__CODEC_ZSTD ? CODEC_ZSTD : CODEC_LZ4_FRAME), FBY__FB_I8(0)},
                      2, codec);
}

static fby_status arrow_batch(fby__writer *base, const struct ArrowArray *batch, fby_error *err)
{
    arrow_writer *w = of(base);
    FBY__TRY(fby__arrow_flat_of(&w->schema, batch, 0, batch->length, true, &w->flat, err));
    if (w->codec != FBY__CODEC_NONE)
        FBY__TRY(compress(w, err));
    block b = {.at = w->base.at};
    for (size_t i = 0; i < w->flat.n_buffers; i++)
        b.body_bytes += padded(w->flat.buffers[i].n);
    describe_batch(w, (uint64_t)batch->length, b.body_bytes);
    FBY__TRY(put_message(w, &b.metadata_bytes, err));
    for (size_t i = 0; i < w->flat.n_buffers; i++) {
        const fby__bytes *buffer = &w->flat.buffers[i];
        FBY__TRY(fby__writer_put(&w->base, buffer->data, buffer->n, err));
        FBY__TRY(put_padding(&w->base, padded(buffer->n) - buffer->n, err));
    }
    if (fby__grow((void **)&w->blocks, &w->cap_blocks, w->n_blocks + 1, sizeof *w->blocks) != 0)
        return no_memory(err);
    w->blocks[w->n_blocks++] = b;
    return FBY_OK;
}

/* ---- begin and end ---- */

static fby_status arrow_end(fby__writer *base, const fby__key_value *metadata, size_t n, fby_error *err)
{
    arrow_writer *w = of(base);
    fby__fb *b = &w->fb;
    uint8_t word[8] = {255, 255, 255, 255};
    uint32_t slots[5], pair[2];
    FBY__TRY(fby__writer_put(base, word, sizeof word, err)); /* the end of the stream */
    const fby__fb_field fields[] = {FBY__FB_I16(VERSION_5), FBY__FB_OFFSET, FBY__FB_OFFSET, FBY__FB_OFFSET, FBY__FB_OFFSET};
    fby__fb_table(b, fby__fb_begin(b), fields, 5, slots);
    fby__arrow_put_schema(b, slots[1], &w->schema, &w->said);
    (void)fby__fb_vector(b, slots[2], 0, 24, 8); /* dictionaries */
    uint32_t at = fby__fb_vector(b, slots[3], (uint32_t)w->n_blocks, 24, 8);
    for (size_t i = 0; i < w->n_blocks; i++, at += 24) {
        fby__fb_store64(b, at, (int64_t)w->blocks[i].at);
        fby__fb_store32(b, at + 8, (int32_t)w->blocks[i].metadata_bytes);
        fby__fb_store64(b, at + 16, (int64_t)w->blocks[i].body_bytes);
    }
    at = fby__fb_vector(b, slots[4], (uint32_t)n, 4, 4);
    for (size_t i = 0; i < n; i++, at += 4) {
        fby__fb_table(b, at, (fby__fb_field[]){FBY__FB_OFFSET, FBY__FB_OFFSET}, 2, pair);
        fby__fb_string(b, pair[0], metadata[i].key);
        fby__fb_string(b, pair[1], metadata[i].value);
    }
    if (b->failed)
        return no_memory(err);
    FBY__TRY(fby__writer_put(base, b->buf.data, b->buf.n, err));
    fby__store_u32(word, (uint32_t)b->buf.n);
    FBY__TRY(fby__writer_put(base, word, 4, err));
    return fby__writer_put(base, MAGIC, 6, err);
}

static void arrow_free(fby__writer *base)
{
    arrow_writer *w = of(base);
    if (w->schema.release)
        w->schema.release(&w->schema);
    fby__free(w->blocks);
    fby__arrow_flat_fini(&w->flat);
    fby__buf_fini(&w->packed);
    fby__buf_fini(&w->fb.buf);
    fby__codec_state_fini(&w->codecs);
    fby__free(w);
}

static fby_status codec_of(const char *name, fby__codec_id *out, fby_error *err)
{
    *out = FBY__CODEC_NONE;
    if (!name || strcmp(name, "none") == 0)
        return FBY_OK;
    *out = strcmp(name, "zstd") == 0 ? FBY__CODEC_ZSTD : FBY__CODEC_LZ4_FRAME;
    if (*out == FBY__CODEC_ZSTD || strcmp(name, "lz4") == 0)
        return FBY_OK;
    return fby__fail(err, FBY_E_ARG, "Arrow files have no codec '%s': it is none, lz4 or zstd", name);
}

static fby_status arrow_check(const struct ArrowSchema *schema, const fby__write_options *options, fby_error *err)
{
    fby__codec_id codec;
    FBY__TRY(codec_of(options->codec, &codec, err));
    return fby__arrow_flat_check(schema, err);
}

static fby_status arrow_begin(const struct ArrowSchema *schema, const fby__write_options *options, fby__byte_sink sink, fby__writer **out,
                              fby_error *err)
{
    fby__codec_id codec;
    uint32_t bytes;
    FBY__TRY(codec_of(options->codec, &codec, err));
    FBY__TRY(fby__arrow_flat_check(schema, err));
    arrow_writer *w = fby__calloc(1, sizeof *w);
    if (!w)
        return no_memory(err);
    w->base = (fby__writer){.ops = &fby__writer_arrow, .sink = sink};
    w->codec = codec;
    w->level = options->level;
    w->said = (fby__write_options){.attributes = options->attributes, .n_attributes = options->n_attributes};
    fby_status status = fby__arrow_schema_copy(schema, &w->schema, err);
    if (status == FBY_OK)
        status = fby__writer_put(&w->base, MAGIC, sizeof MAGIC, err);
    if (status == FBY_OK) {
        fby__arrow_put_schema_message(&w->fb, &w->schema, &w->said);
        status = put_message(w, &bytes, err);
    }
    if (status == FBY_OK)
        *out = &w->base;
    else
        arrow_free(&w->base);
    return status;
}

const fby__writer_ops fby__writer_arrow = {
    .name = "arrow", .check = arrow_check, .begin = arrow_begin, .batch = arrow_batch, .end = arrow_end, .free = arrow_free};
