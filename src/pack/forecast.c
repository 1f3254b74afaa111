/*
 * What a dry run expects: size and time, from measurements that leave nothing behind. A batch of the first block is read and encoded as the pack
 * would, and a file that has no name is written where the pack would lie.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE_BYTES ((size_t)64 << 20)
#define PROBE_NS UINT64_C(500000000)

typedef struct costs { /* a row, and a file beside its rows; seconds of one thread */
    double read, encode, bytes, file, file_bytes;
} costs;

static double since(uint64_t began_ns) { return 1e-9 * (double)(fby__now_ns() - began_ns); }

/* ---- a batch ---- */

static fby_status count_bytes(void *ctx, const void *bytes, size_t n, fby_error *err)
{
    (void)bytes, (void)err;
    *(uint64_t *)ctx += n;
    return FBY_OK;
}

/* Rows of a batch: from all over the block where the pack is shuffled, which compresses less. */
static fby_status choose_rows(const fby__pack *p, const struct ArrowArray *block, uint64_t n, struct ArrowArray *out, fby_error *err)
{
    const uint64_t length = (uint64_t)block->length;
    fby__random random = {0};
    fby__row_run *runs = fby__calloc((size_t)n, sizeof *runs);
    if (!runs)
        return fby__fail_nomem(err, "a pack");
    for (uint64_t i = 0; i < n; i++)
        runs[i] = (fby__row_run){0, 1, p->scattered ? fby__random_below(&random, length) : i};
    const fby_status status = fby__arrow_take(&p->schema, &block, 1, runs, (size_t)n, out, err);
    fby__free(runs);
    return status;
}

/* A whole file of a batch, or of no rows, thrown away. For HDF5 that is a process, too. */
static fby_status write_one(const fby__pack *p, const struct ArrowArray *batch, uint64_t n, double *out_bytes, fby_error *err)
{
    const int file = memfd_create("forebay-pack", MFD_CLOEXEC);
    const fby__write_options options = {.codec = p->codec, .file = &file, .rows = n, .batch_rows = n};
    uint64_t bytes = 0; /* to the sink; HDF5 has its own in the file */
    fby__writer *writer = NULL;
    struct stat st;
    if (file < 0)
        return fby__fail_errno(err, errno, "memory for a file");
    fby_status status = fby__writer_begin(p->format, &p->schema, &options, (fby__byte_sink){count_bytes, &bytes}, &writer, err);
    if (status == FBY_OK && batch)
        status = fby__writer_batch(writer, batch, err);
    if (status == FBY_OK)
        status = fby__writer_end(writer, NULL, 0, err);
    fby__writer_free(writer);
    *out_bytes = (double)bytes + (fstat(file, &st) == 0 ? (double)st.st_size : 0);
    (void)close(file); /* of no use any more */
    return status;
}

static fby_status encode(const fby__pack *p, const struct ArrowArray *block, uint64_t n, costs *out, fby_error *err)
{
    struct ArrowArray batch;
    double bytes;
    uint64_t began = fby__now_ns();
    FBY__TRY(write_one(p, NULL, 0, &out->file_bytes, err));
    out->file = since(began);
    began = fby__now_ns();
    FBY__TRY(choose_rows(p, block, n, &batch, err));
    const fby_status status = write_one(p, &batch, n, &bytes, err);
    batch.release(&batch);
    if (status != FBY_OK)
        return status;
    out->encode = fmax(since(began) - out->file, 0) / (double)n;
    out->bytes = fmax(bytes - out->file_bytes, 0) / (double)n;
    return FBY_OK;
}

/* a_file: how many rows a file has, about. */
static fby_status try_block(const fby__pack *p, uint64_t a_file, costs *out, fby_error *err)
{
    fby__pack_reader *reader;
    struct ArrowArray array;
    uint32_t b = 0;
    while (fby__pack_block_begin(p, b + 1) == fby__pack_block_begin(p, b))
        b++; /* there are rows */
    FBY__TRY(fby__pack_reader_open(p, p->memory_bytes / 4, &reader, err));
    const uint64_t began = fby__now_ns();
    fby_status status = fby__pack_reader_block(reader, b, &array, err);
    if (status == FBY_OK) {
        out->read = since(began) / (double)array.length;
        status = encode(p, &array, fby__min_u64(fby__min_u64(p->batch_rows, a_file), (uint64_t)array.length), out, err);
        array.release(&array);
    }
    fby__pack_reader_close(reader);
    return status;
}

/* ---- the disk ---- */

/* In the folder, or in the nearest one above it that is there; -1 = none can be written. */
static int open_nameless(const char *to)
{
    char *path = fby__strdup(to);
    for (size_t n = path ? strlen(path) : 0; n > 0 && access(path, F_OK) != 0;) {
        while (n > 0 && path[n - 1] != '/')
            n--;
        while (n > 1 && path[n - 1] == '/')
            n--;
        path[n] = 0;
    }
    const int fd = path ? open(*path ? path : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
    fby__free(path);
    return fd;
}

/* Bytes a second that reach the disk; 0 = that cannot be found here. */
static double write_rate(const char *to)
{
    const size_t n = (size_t)1 << 20;
    uint64_t *noise = fby__malloc(n);
    fby__random random = {0};
    const int fd = noise ? open_nameless(to) : -1;
    size_t done = 0;
    for (size_t i = 0; noise && i < n / sizeof *noise; i++)
        noise[i] = fby__random_next(&random); /* nothing that a file system compresses */
    const uint64_t began = fby__now_ns();
    bool failed = fd < 0;
    while (!failed && done < PROBE_BYTES && fby__now_ns() - began < PROBE_NS) {
        failed = write(fd, noise, n) != (ssize_t)n;
        done += n;
    }
    failed = failed || fdatasync(fd) != 0;
    const double seconds = since(began);
    if (fd >= 0)
        (void)close(fd); /* it had no name */
    fby__free(noise);
    return failed ? 0 : (double)done / seconds;
}

/* Seconds until a small file is on the disk; 0 where none can be written. */
static double sync_seconds(const char *to)
{
    enum { FILES = 4 };
    const char bytes[4096] = {0};
    const uint64_t began = fby__now_ns();
    for (int i = 0; i < FILES; i++) {
        const int fd = open_nameless(to);
        const bool failed = fd < 0 || write(fd, bytes, sizeof bytes) != sizeof bytes || fsync(fd) != 0;
        if (fd >= 0)
            (void)close(fd); /* it had no name */
        if (failed)
            return 0;
    }
    return since(began) / FILES;
}

/* ---- both ---- */

fby_status fby__pack_forecast(const fby__pack *p, fby_pack_info *out, fby_error *err)
{
    costs c = {0};
    if (p->rows == 0)
        return FBY_OK;
    FBY__TRY(try_block(p, 1 + (p->rows - 1) / fby__max_u64(out->files, 1), &c, err));
    const double rows = (double)p->rows, rate = write_rate(p->to), threads = p->n_workers, files = (double)out->files,
                 written = rows * c.bytes + files * c.file_bytes, scratch = (double)out->scratch_bytes;
    out->expected_bytes = (uint64_t)written;
    if (rate == 0)
        return FBY_OK;
    /* Scattering reads with one call after the other; without it the threads that write read, too. Scattered rows are read back about as fast. */
    const double reading = rows * c.read / (p->scattered ? 1 : threads),
                 encoding = (rows * c.encode + files * (c.file + sync_seconds(p->to))) / threads;
    const double verifying = p->o->verify ? 2 * rows * c.read : 0;
    out->expected_ns = 1 + (uint64_t)(1e9 * (reading + encoding + verifying + (2 * scratch + written) / rate));
    return FBY_OK;
}
