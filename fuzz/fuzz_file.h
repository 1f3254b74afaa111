/*
 * What the targets that fuzz whole files share: the bytes as a file, and everything that reads one through the public API: metadata,
 * columns' pages or chunks, the Arrow export (columnar sink) and a loader over every column that can be a tensor (row sink).
 *
 * Correct is any status; a crash, a sanitizer's report, a hang or memory without bound is not. The file is written to a
 * temporary directory because the public API opens paths.
 */
#ifndef FUZZ_FUZZ_FILE_H
#define FUZZ_FUZZ_FILE_H

#include <forebay/forebay.h>

#include "io/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef FUZZ_SUFFIX
#define FUZZ_SUFFIX "" /* of the file's name, for formats that are known by it */
#endif

enum { MAX_BATCHES = 64, MAX_CHUNKS = 256, WHOLE_EVERY = 64, FILE_ROWS = 1 << 18 };
enum { MEMORY = 128 << 20 }; /* by default it would be half of the machine's */

static char path[64];
static uint32_t picked; /* of the input: what is done of all that could be, while libFuzzer counts on thousands of inputs a second */

/*
 * Loaders read at once, on the thread that asks, as with the engine that reads nothing: an input opens several, and the threads of each
 * would take most of the fuzzer's time.
 */
fby_status __real_fby__io_create(const fby__io_opts *opts, fby__io **out, fby_error *err);
fby_status __wrap_fby__io_create(const fby__io_opts *opts, fby__io **out, fby_error *err);
fby_status __wrap_fby__io_submit(fby__io *io, fby__io_batch *batch, bool try_now, fby_error *err);

fby_status __wrap_fby__io_create(const fby__io_opts *opts, fby__io **out, fby_error *err)
{
    (void)opts;
    return __real_fby__io_create(&(fby__io_opts){.kind = FBY__IO_NULL}, out, err);
}

fby_status __wrap_fby__io_submit(fby__io *io, fby__io_batch *batch, bool try_now, fby_error *err)
{
    (void)io, (void)try_now, (void)err;
    fby_status status = FBY_OK;
    batch->error = (fby_error){0};
    batch->elapsed_ns = 0;
    for (size_t i = 0; status == FBY_OK && i < batch->n_requests; i++) {
        const fby__io_request *r = &batch->requests[i];
        status = fby__file_read(r->file, r->offset, r->dst, r->n, &batch->error);
    }
    batch->done(batch);
    return FBY_OK;
}

static inline void remove_file(void) { (void)unlink(path); }

static inline void pick(const uint8_t *data, size_t size)
{
    picked = 0;
    for (size_t i = 0; i < size; i++)
        picked = picked * 31 + data[i];
}

/* Is the input read as Arrow and by loaders too? With libFuzzer one of WHOLE_EVERY; all of those that are replayed. */
static inline bool is_for_all(void)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return picked / 16 % WHOLE_EVERY == 0;
#else
    return true;
#endif
}

static inline int write_file(const uint8_t *data, size_t size)
{
    pick(data, size);
    if (path[0] == 0) {
        (void)snprintf(path, sizeof path, "%s/forebay-fuzz-%ld" FUZZ_SUFFIX, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                       (long)getpid());
        (void)atexit(remove_file);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, data + done, size - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    (void)close(fd);
    return done == size ? 0 : -1;
}

static inline void describe_leaves(fby_dataset *ds, const fby_field *field, uint32_t group, int *left)
{
    char type[64];
    for (uint32_t i = 0; i<field->n_children && * left> 0; i++) {
        const fby_field *child = &field->children[i];
        (void)fby_field_type_text(child, type, sizeof type);
        if (child->n_children == 0) {
            fby_chunk_info info = {.size = sizeof info};
            (void)fby_dataset_chunk(ds, 0, group, child->path, true, &info, NULL); /* any status will do */
            (*left)--;
        }
        describe_leaves(ds, child, group, left);
    }
}

static void read_arrow(fby_dataset *ds)
{
    struct ArrowArrayStream stream;
    if (fby_dataset_export_arrow(ds, NULL, 0, &stream, NULL) != FBY_OK)
        return;
    struct ArrowSchema schema;
    if (stream.get_schema(&stream, &schema) == 0)
        schema.release(&schema);
    for (int i = 0; i < MAX_BATCHES; i++) {
        struct ArrowArray batch = {.release = NULL};
        if (stream.get_next(&stream, &batch) != 0 || !batch.release)
            break;
        batch.release(&batch);
    }
    stream.release(&stream);
}

static void read_batches(fby_dataset *ds, const fby_output *output)
{
    fby_loader_opts opts = {FBY_LOADER_SIZES,  .outputs = output,          .n_outputs = output ? 1 : 0,
                            .batch_size = 100, .memory_bytes = 256u << 20, .n_threads = 1};
    fby_loader *loader;
    if (fby_loader_open(ds, &opts, &loader, NULL) != FBY_OK)
        return;
    fby_batch *batch;
    for (int i = 0; i < MAX_BATCHES && fby_loader_next(loader, -1, &batch, NULL) == FBY_OK; i++)
        fby_batch_unref(batch);
    fby_loader_close(loader);
}

/* A file, opened with opts and read in every way. */
static inline void read_everything_of(const char *name, const fby_open_opts *opts)
{
    fby_source source = {.path = name};
    fby_dataset *ds;
    if (fby_dataset_open(&source, 1, opts, &ds, NULL) != FBY_OK)
        return;
    int left = MAX_CHUNKS;
    const fby_field *schema = fby_dataset_schema(ds);
    fby_file_info file = {.size = sizeof file};
    if (fby_dataset_file(ds, 0, &file, NULL) == FBY_OK)
        for (uint32_t group = 0; group < file.groups && left > 0; group++)
            describe_leaves(ds, schema, group, &left);
    fby_contents *contents;
    if (fby_contents_open(ds, 0, &contents, NULL) == FBY_OK)
        fby_contents_close(contents);
    if (!is_for_all() || file.rows > FILE_ROWS) { /* fill values stand for as many as a file says: minutes, not a hang */
        fby_dataset_close(ds);
        return;
    }
    read_arrow(ds);
    read_batches(ds, NULL);
    /* One bad column ends an epoch: each on its own, so that the others are read as well. */
    for (uint32_t i = 0; i < schema->n_children && i < 8; i++) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
        if (i != picked % (schema->n_children < 8 ? schema->n_children : 8))
            continue;
#endif
        const char *column = schema->children[i].path;
        const fby_op fill = {.kind = FBY_OP_FILL_MISSING};
        fby_output output = {.name = "x", .columns = &column, .n_columns = 1, .ops = &fill, .n_ops = 1};
        read_batches(ds, &output);
    }
    fby_dataset_close(ds);
}

/* The one that was written. */
static inline void read_everything(const fby_open_opts *opts) { read_everything_of(path, opts); }

#endif
