/*
 * For tests in Python (tests/python/test_write_parquet.py): any Arrow stream, as pyarrow exports it, written to one Parquet file. A library
 * that ctypes opens, so that columns come as they are: what the library's own data sets yield is a part of what the writer takes.
 */
#include "write/write.h"

#include <stdio.h>
#include <string.h>

/** What to write and where to; ctypes has the same. */
typedef struct request {
    struct ArrowArrayStream *stream; /* released before the call returns */
    const char *path;
    const char *codec;
    int level;
    uint32_t page_bytes;
    const char *key, *value; /* of the file's metadata; NULL: none */
    char message[1000];
} request;

__attribute__((visibility("default"))) int parquet_from_arrow(request *r);

static fby_status to_file(void *ctx, const void *bytes, size_t n, fby_error *err)
{
    if (fwrite(bytes, 1, n, ctx) == n)
        return FBY_OK;
    (void)snprintf(err->message, sizeof err->message, "the file cannot be written");
    return FBY_E_IO;
}

static fby_status write_batches(request *r, fby__writer *w, fby_error *err)
{
    for (;;) {
        struct ArrowArray batch;
        if (r->stream->get_next(r->stream, &batch) != 0) {
            (void)snprintf(err->message, sizeof err->message, "the stream failed: %s", r->stream->get_last_error(r->stream));
            return FBY_E_IO;
        }
        if (!batch.release)
            break;
        const fby_status status = fby__writer_batch(w, &batch, err);
        batch.release(&batch);
        if (status != FBY_OK)
            return status;
    }
    const fby__key_value pair = {r->key, r->value};
    return fby__writer_end(w, &pair, r->key != NULL, err);
}

int parquet_from_arrow(request *r)
{
    fby_error err = {0};
    struct ArrowSchema schema;
    fby__writer *w = NULL;
    fby_status status = FBY_E_IO;
    FILE *file = fopen(r->path, "wb");
    if (file && r->stream->get_schema(r->stream, &schema) == 0) {
        const fby__write_options options = {.codec = r->codec, .level = r->level, .page_bytes = r->page_bytes};
        status = fby__writer_begin(FBY__WRITE_PARQUET, &schema, &options, (fby__byte_sink){to_file, file}, &w, &err);
        schema.release(&schema);
        if (status == FBY_OK)
            status = write_batches(r, w, &err);
        fby__writer_free(w);
    }
    if (file && fclose(file) != 0 && status == FBY_OK)
        status = FBY_E_IO;
    r->stream->release(r->stream);
    (void)snprintf(r->message, sizeof r->message, "%s", err.message);
    return (int)status;
}
