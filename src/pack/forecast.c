/*
 * What a dry run expects: size and time, from measurements that leave nothing behind. A batch of the first block is read and encoded as the pack
 * would, and a file that has no name is written where the pack would lie.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"
#include "plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE_BYTES ((size_t)64 << 20)
#define PROBE_NS UINT64_C(500000000)
#define SOME_BATCHES ((uint64_t)4) /* that are encoded to see what a file takes */

/*
 * Seconds of one thread, a row and a file; bytes of a file: file_bytes, batch_bytes for each of its batches, bytes for each of its rows. That is
 * found from three files: of a batch, of the same rows in two batches, and of some batches, where the block has them as many as a file.
 */
typedef struct costs {
    double read, encode, file, bytes, batch_bytes, file_bytes;
} costs;

static double since(uint64_t began_ns) { return 1e-9 * (double)(fby__now_ns() - began_ns); }

/* ---- a batch ---- */

static fby_status count_bytes(void *ctx, const void *bytes, size_t n, fby_error *err)
{
    (void)bytes, (void)err;
    *(uint64_t *)ctx += n;
    return FBY_OK;
}

/* Rows of a batch, each another one: from all over the block where the pack is shuffled, which compresses less. */
static fby_status choose_rows(const fby__pack *p, const struct ArrowArray *block, uint64_t first, uint64_t n, struct ArrowArray *out,
                              fby_error *err)
{
    fby__row_run *runs = fby__calloc((size_t)n, sizeof *runs);
    if (!runs)
        return fby__fail_nomem(err, "a pack");
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t row = first + i;
        runs[i] = (fby__row_run){0, 1, p->scattered ? fby__permute(0, (uint64_t)block->length, row) : row};
    }
    const fby_status status = fby__arrow_take(&p->schema, &block, 1, runs, (size_t)n, out, err);
    fby__free(runs);
    return status;
}

static fby_status write_batches(const fby__pack *p, const struct ArrowArray *block, uint64_t rows, uint64_t batch_rows, fby__writer *writer,
                                fby_error *err)
{
    for (uint64_t at = 0, n; at < rows; at += n) {
        struct ArrowArray batch;
        n = fby__min_u64(batch_rows, rows - at);
        FBY__TRY(choose_rows(p, block, at, n, &batch, err));
        const fby_status status = fby__writer_batch(writer, &batch, err);
        batch.release(&batch);
        if (status != FBY_OK)
            return status;
    }
    return FBY_OK;
}

/* A whole file of the block's rows, or of none, thrown away: its bytes, and the seconds that it took. For HDF5 that is a process, too. */
static fby_status write_one(const fby__pack *p, const struct ArrowArray *block, uint64_t rows, uint64_t batch_rows, double *out_bytes,
                            double *out_seconds, fby_error *err)
{
    const int file = memfd_create("forebay-pack", MFD_CLOEXEC);
    const fby__write_options options = fby__pack_write_options(p, &file, rows, batch_rows);
    const uint64_t began = fby__now_ns();
    uint64_t bytes = 0; /* to the sink; HDF5 has its own in the file */
    fby__key_value metadata[FBY__PACK_METADATA];
    fby__writer *writer = NULL;
    struct stat st;
    if (file < 0)
        return fby__fail_errno(err, errno, "memory for a file");
    fby_status status = fby__writer_begin(p->format, &p->schema, &options, (fby__byte_sink){count_bytes, &bytes}, &writer, err);
    if (status == FBY_OK)
        status = write_batches(p, block, rows, batch_rows, writer, err);
    if (status == FBY_OK)
        status = fby__writer_end(writer, metadata, fby__pack_metadata(p, metadata), err);
    fby__writer_free(writer);
    *out_bytes = (double)bytes + (fstat(file, &st) == 0 ? (double)st.st_size : 0);
    *out_seconds = since(began);
    (void)close(file); /* of no use any more */
    return status;
}

/* Rows that a file of so many has room for. In HDF5, chunks at the end are filled up. */
static uint64_t stored_rows(const fby__pack *p, uint64_t rows, uint64_t batch_rows)
{
    const bool whole_chunks = p->format == FBY__WRITE_HDF5 && strcmp(p->codec, "none") == 0 && rows > batch_rows;
    return whole_chunks ? fby__div_up_u64(rows, batch_rows) * batch_rows : rows;
}

/* n: rows of a batch; the block has twice as many, or one. */
static fby_status encode(const fby__pack *p, const struct ArrowArray *block, uint64_t n, uint64_t a_file, costs *out, fby_error *err)
{
    const uint64_t most = fby__min_u64(SOME_BATCHES * n, (uint64_t)block->length);
    const uint64_t more = a_file > n && a_file <= most ? a_file : most / n * n; /* a file as it will be, or whole batches */
    double empty, one, halves, several, seconds;
    FBY__TRY(write_one(p, block, 0, n, &empty, &out->file, err));
    FBY__TRY(write_one(p, block, n, n, &one, &seconds, err));
    FBY__TRY(write_one(p, block, n, (n + 1) / 2, &halves, &seconds, err));
    FBY__TRY(write_one(p, block, more, n, &several, &seconds, err));
    out->encode = fmax(seconds - out->file, 0) / (double)more;
    if (n == 1) { /* two halves of a row there are not */
        out->file_bytes = empty;
        out->bytes = fmax(one - empty, 0);
        return FBY_OK;
    }
    out->batch_bytes = fmax(halves - one, 0);
    const double others = (double)(fby__div_up_u64(more, n) - 1) * out->batch_bytes; /* what the other batches take beside their rows */
    out->bytes = fmax(several - one - others, 0) / (double)(stored_rows(p, more, n) - n);
    out->file_bytes = fmax(one - out->batch_bytes - out->bytes * (double)n, 0);
    return FBY_OK;
}

/* Bytes of all files, as they are cut. */
static double all_bytes(const fby__pack *p, const costs *c)
{
    double sum = 0;
    for (uint64_t i = 0; i < p->n_files; i++) {
        const uint64_t rows = fby__pack_file_begin(p, i + 1) - fby__pack_file_begin(p, i), batches = fby__div_up_u64(rows, p->batch_rows);
        sum += c->file_bytes + (double)batches * c->batch_bytes + (double)stored_rows(p, rows, p->batch_rows) * c->bytes;
    }
    return sum;
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
        /* Where batches are larger, a part of which no half is padded by Arrow's alignment: it is nothing to so large ones. */
        const uint64_t half = (uint64_t)array.length / 2;
        const uint64_t most = half >= 128 ? half / 128 * 128 : fby__max_u64(1, half);
        status = encode(p, &array, fby__min_u64(fby__min_u64(p->batch_rows, a_file), most), a_file, out, err);
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
                 written = all_bytes(p, &c), scratch = (double)out->scratch_bytes;
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
