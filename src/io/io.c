/*
 * Choosing an engine, submitting to it, and completing batches.
 *
 * The life of a batch: fby__io_submit checks the ranges and sets `pending` to the number of requests; those whose bytes
 * are in memory are read at once; the rest is the engine's. Each request is finished exactly once, and whoever finishes
 * the last one runs done(). Nobody touches the batch after the finish of its own last request: done() may free it.
 */
#include "io/io_impl.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/process.h"

struct fby__io {
    /* set once */
    const fby__io_ops *engine;
    void *self; /* owned by the engine's destroy() */
    fby__io_kind kind;
    pid_t pid; /* of the process that has the engine's threads */
};

const char *fby__io_kind_name(fby__io_kind kind)
{
    static const char *const NAME[FBY__IO_KIND_COUNT] = {"auto", "threads", "io_uring", "mmap", "null"};
    return (unsigned)kind < FBY__IO_KIND_COUNT ? NAME[kind] : "unknown engine";
}

static fby_status create_engine(fby__io *io, fby__io_kind kind, const fby__io_opts *opts, fby_error *err)
{
    const fby__io_ops *engine = NULL;
    switch (kind) {
    case FBY__IO_THREADS: engine = &fby__io_threads; break;
    case FBY__IO_MMAP: engine = &fby__io_mmap; break;
    case FBY__IO_NULL: engine = &fby__io_null; break;
    case FBY__IO_URING:
#ifdef FBY_HAVE_URING
        engine = &fby__io_uring;
        break;
#else
        return fby__fail(err, FBY_E_UNSUPPORTED, "io_uring: this build of Forebay was made without liburing");
#endif
    case FBY__IO_AUTO:
    case FBY__IO_KIND_COUNT: break;
    }
    if (!engine)
        return fby__fail(err, FBY_E_ARG, "unknown I/O engine %d", (int)kind);
    if (engine->create)
        FBY__TRY(engine->create(opts, &io->self, err));
    io->engine = engine;
    io->kind = kind;
    return FBY_OK;
}

fby_status fby__io_create(const fby__io_opts *opts, fby__io **out, fby_error *err)
{
    fby__io *io = fby__calloc(1, sizeof *io);
    if (!io)
        return fby__fail_nomem(err, "I/O engine");
    io->pid = fby__process_id();
    fby_status status;
    if (opts->kind == FBY__IO_AUTO) {
        status = create_engine(io, FBY__IO_URING, opts, err);
        if (status != FBY_OK && status != FBY_E_NOMEM)
            status = create_engine(io, FBY__IO_THREADS, opts, err);
    } else {
        status = create_engine(io, opts->kind, opts, err);
    }
    if (status != FBY_OK) {
        fby__free(io);
        return status;
    }
    *out = io;
    return FBY_OK;
}

void fby__io_destroy(fby__io *io)
{
    if (!io || io->pid != fby__process_id()) /* the threads did not survive the fork; the memory is the parent's */
        return;
    if (io->engine->destroy)
        io->engine->destroy(io->self);
    fby__free(io);
}

fby__io_kind fby__io_kind_of(const fby__io *io) { return io->kind; }

void fby__io_batch_fail(fby__io_batch *batch, const fby_error *error)
{
    /* The winner's write to error is published by its own fby__io_batch_finish. */
    if (atomic_exchange_explicit(&batch->failed, 1, memory_order_relaxed) == 0)
        batch->error = *error;
}

bool fby__io_batch_is_over(fby__io_batch *batch)
{
    if (atomic_load_explicit(&batch->failed, memory_order_relaxed) != 0) /* a hint only: nothing is read through it */
        return true;
    if (!fby__cancel_is_set(batch->cancel))
        return false;
    fby_error why;
    (void)fby__fail(&why, FBY_E_CANCELLED, "reading was stopped");
    fby__io_batch_fail(batch, &why);
    return true;
}

void fby__io_batch_finish(fby__io_batch *batch, uint32_t n)
{
    /* acq_rel: the last one sees the bytes and the error that the others wrote before their decrement. */
    if (n == 0 || atomic_fetch_sub_explicit(&batch->pending, n, memory_order_acq_rel) != n)
        return;
    batch->elapsed_ns = fby__now_ns() - batch->started_ns;
    batch->done(batch);
}

/* Reads requests from the cursor on until one is not in memory. */
static void read_now(fby__io_batch *batch)
{
    if (fby__io_fault_alters_reads())
        return;
    for (; batch->cursor < batch->n_requests; batch->cursor++) {
        fby__io_request *request = &batch->requests[batch->cursor];
        if (!fby__file_read_now(request->file, request->offset, request->dst, request->n))
            return;
        int error = fby__io_fault_op(); /* counted when it is this path that read: an operation is counted once */
        if (error) {
            fby_error why;
            fby__file_fail_read(request->file, request->offset, request->n, error, &why);
            fby__io_batch_fail(batch, &why);
            batch->cursor = batch->n_requests;
            return;
        }
    }
}

fby_status fby__io_submit(fby__io *io, fby__io_batch *batch, bool try_now, fby_error *err)
{
    if (io->pid != fby__process_id())
        return fby__fail(err, FBY_E_STATE, "this reader was made before a fork(); open it again in the child");
    if (batch->n_requests > UINT32_MAX)
        return fby__fail(err, FBY_E_ARG, "%zu requests in one batch are too many", batch->n_requests);
    for (size_t i = 0; i < batch->n_requests; i++) {
        fby__io_request *request = &batch->requests[i];
        request->mapped = NULL;
        FBY__TRY(fby__file_check_range(request->file, request->offset, request->n, err));
        if (!request->dst && request->n && io->kind != FBY__IO_MMAP)
            return fby__fail(err, FBY_E_ARG, "the %s engine needs a buffer to read into", fby__io_kind_name(io->kind));
    }
    fby__error_clear(&batch->error);
    batch->started_ns = fby__now_ns();
    batch->next = NULL;
    batch->cursor = 0;
    batch->cancel = fby__cancel_current();
    atomic_store_explicit(&batch->failed, 0, memory_order_relaxed);
    /* A batch of no requests is finished once. Relaxed: nobody else sees the batch yet. */
    uint32_t n = (uint32_t)batch->n_requests;
    atomic_store_explicit(&batch->pending, n + (n == 0), memory_order_relaxed);

    if (try_now && io->engine->tries_now)
        read_now(batch);
    if (batch->cursor == batch->n_requests) {
        fby__io_batch_finish(batch, n + (n == 0));
        return FBY_OK;
    }
    /* Those already read are finished before the engine has the batch: it cannot be the last. */
    atomic_fetch_sub_explicit(&batch->pending, (uint32_t)batch->cursor, memory_order_relaxed);
    return io->engine->submit(io->self, batch, err);
}
