/*
 * Write tasks: files of the pack, each by one thread from its first row to its last. A task writes the files that begin in one bucket, where buckets
 * hold whole files, so that each bucket is read once; else one file.
 */
#include "base/checked.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <errno.h>

/* ---- a file ---- */

/* A writer that writes to the file by itself, as that of HDF5 does, does not know its name. */
static fby_status of_writer(fby_status status, const fby__pack_out *out, fby_error *err)
{
    const int reason = status == FBY_E_IO && err ? err->sys_errno : 0;
    return reason == ENOSPC || reason == EDQUOT || reason == EFBIG || reason == EIO ? fby__pack_out_fail(out, reason, err) : status;
}

static fby_status write_rows(fby__pack *p, fby__pack_source *source, fby__writer *writer, const fby__pack_out *out, uint64_t file,
                             uint64_t end, fby_error *err)
{
    const uint64_t begin = fby__pack_file_begin(p, file), stop = fby__pack_file_begin(p, file + 1);
    for (uint64_t at = begin, n; at < stop; at += n) {
        fby__pack_rows rows;
        struct ArrowArray batch;
        n = fby__min_u64(p->batch_rows, stop - at);
        FBY__TRY(fby__pack_go_on(p, err));
        FBY__TRY(source->rows(source, at, n, end, &rows, err));
        FBY__TRY(fby__arrow_take(&p->schema, rows.batches, rows.n_batches, rows.runs, rows.n_runs, &batch, err));
        const fby_status status = of_writer(fby__writer_batch(writer, &batch, err), out, err);
        batch.release(&batch);
        if (status != FBY_OK)
            return status;
        fby__pack_count(p, n);
    }
    return FBY_OK;
}

static fby_status write_metadata(const fby__pack *p, fby__writer *writer, const fby__pack_out *out, fby_error *err)
{
    fby__key_value metadata[FBY__PACK_METADATA];
    return of_writer(fby__writer_end(writer, metadata, fby__pack_metadata(p, metadata), err), out, err);
}

/* end: of the rows that this thread wants one after the other. */
static fby_status write_file(fby__pack *p, fby__pack_source *source, uint64_t file, uint64_t end, fby_error *err)
{
    fby__pack_out out = {.fd = -1};
    const uint64_t rows = fby__pack_file_begin(p, file + 1) - fby__pack_file_begin(p, file);
    const fby__write_options options = fby__pack_write_options(p, &out.fd, rows, p->batch_rows);
    fby__writer *writer = NULL;
    fby_status status = fby__pack_out_open(p->work, fby__pack_file_name(p, file).text, &out, err);
    if (status == FBY_OK)
        status = of_writer(fby__writer_begin(p->format, &p->schema, &options, (fby__byte_sink){fby__pack_out_write, &out}, &writer, err),
                           &out, err);
    if (status == FBY_OK)
        status = write_rows(p, source, writer, &out, file, end, err);
    if (status == FBY_OK)
        status = write_metadata(p, writer, &out, err);
    fby__writer_free(writer);
    if (status == FBY_OK)
        status = fby__pack_out_close(&out, true, err);
    else
        fby__pack_out_drop(&out);
    return status;
}

/* ---- a task ---- */

typedef struct writer {
    fby__pack *p;
    fby__pack_source *source; /* owned */
} writer;

static void end_writer(void *worker)
{
    writer *w = worker;
    if (w->source)
        w->source->free(w->source);
    fby__free(w);
}

static fby_status begin_writer(fby__pack *p, uint32_t n_workers, void **out, fby_error *err)
{
    writer *w = fby__calloc(1, sizeof *w);
    if (!w)
        return fby__fail_nomem(err, "a pack");
    w->p = p;
    const uint64_t memory = p->memory_bytes / n_workers;
    const fby_status status =
        p->scattered ? fby__pack_bucket_source(p, memory, &w->source, err) : fby__pack_file_source(p, memory, &w->source, err);
    if (status == FBY_OK)
        *out = w;
    else
        end_writer(w);
    return status;
}

/* Those that are missing, in runs, so that what is in memory serves all of a run. */
static fby_status write_task(void *worker, uint64_t k, fby_error *err)
{
    writer *w = worker;
    fby__pack *p = w->p;
    uint64_t file, last;
    fby__pack_write_files(p, k, &file, &last);
    while (file < last) {
        uint64_t run = file;
        while (run < last && !fby__pack_has_file(p, run))
            run++;
        for (; file < run; file++)
            FBY__TRY(write_file(p, w->source, file, fby__pack_file_begin(p, run), err));
        if (file < last) { /* one that is there */
            p->resumed |= p->by_tasks;
            fby__pack_count(p, fby__pack_file_begin(p, file + 1) - fby__pack_file_begin(p, file));
            file++;
        }
    }
    return FBY_OK;
}

static bool writer_lacks_memory(const void *worker) { return ((const writer *)worker)->source->lacks_memory; }

static bool reads_source(const fby__pack *p) { return !p->scattered; }

const fby__pack_phase_ops fby__pack_write_phase = {"writing", begin_writer, write_task, writer_lacks_memory, end_writer, reads_source};
