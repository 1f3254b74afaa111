/*
 * Reading byte ranges of files: one interface, several engines.
 *
 * Files are opened when a block needs them and closed after, so 10,000 files need few descriptors.
 * A file that is not the one the dataset saw (its stamp is another) is FBY_E_CHANGED; a read that ends early is too.
 * Sync reads (fby__file_read) serve metadata; batches of requests serve blocks.
 */
#ifndef FBY_IO_IO_H
#define FBY_IO_IO_H

#include "base/bytes.h"
#include "base/error.h"

#include <stdatomic.h>

/**
 * What identifies a file's content without reading it. Programs can set size and mtime as they like; ctime moves with every write, and
 * nobody can set it back. Stamps hold on one machine: a copy elsewhere has another inode and ctime.
 */
typedef struct fby__file_stamp {
    uint64_t size_bytes;
    int64_t mtime_ns, ctime_ns;
    uint64_t inode;
} fby__file_stamp;

/** Were both stamps of a path taken of one file that nobody wrote to in between? Inodes count where the file system keeps them. */
bool fby__file_same(const char *path, const fby__file_stamp *a, const fby__file_stamp *b);

/** An open regular file, reference counted. Read-only: every function may be called from any thread. */
typedef struct fby__file fby__file;

typedef enum fby__io_kind {
    FBY__IO_AUTO,    /* io_uring when the kernel allows it, else threads */
    FBY__IO_THREADS, /* pread on threads of the engine */
    FBY__IO_URING,
    FBY__IO_MMAP, /* for files declared immutable: no copy (fby__io_request.mapped), SIGBUS if they shrink */
    FBY__IO_NULL, /* reads nothing, fills with zeros: times the rest */
    FBY__IO_KIND_COUNT
} fby__io_kind;

const char *fby__io_kind_name(fby__io_kind kind);

/**
 * Open a regular file for reading.
 *
 * @expect  NULL, or the stamp it must still have (as fby__file_same; FBY_E_CHANGED otherwise, the message says what differs).
 * Errors: FBY_E_IO (missing, permission; message names the path), FBY_E_FORMAT for a directory, socket, fifo or device
 * (it never blocks on a fifo: O_NONBLOCK, then fstat), FBY_E_CANCELLED. Close-on-exec.
 */
fby_status fby__file_open(const char *path, const fby__file_stamp *expect, fby__file **out, fby_error *err);
fby__file *fby__file_ref(fby__file *file);
void fby__file_unref(fby__file *file); /* NULL is fine */
/** As fby__file_unref, under a lock: the last reference puts the file on the list, for fby__file_close_all when the lock is released. */
void fby__file_unref_later(fby__file *file, fby__file **list);
void fby__file_close_all(fby__file *list); /* NULL is fine */
const char *fby__file_path(const fby__file *file);
const fby__file_stamp *fby__file_stamp_of(const fby__file *file);

/** stat() without opening: fills *out. Same errors as fby__file_open. */
fby_status fby__file_stat(const char *path, fby__file_stamp *out, fby_error *err);

/** Is the file the one that `was` seen? FBY_E_CHANGED, also when it is gone; otherwise the errors of fby__file_open. */
fby_status fby__file_check(const char *path, const fby__file_stamp *was, fby_error *err);

/**
 * Does another descriptor hold an exclusive lock of flock(2)? 0 when not, EWOULDBLOCK when so, else the error of a file system that has
 * no locks (ENOLCK, ENOSYS, EOPNOTSUPP, …). No lock is held afterwards.
 */
int fby__file_probe_lock(const fby__file *file);

/** Read exactly n bytes at offset; blocks. FBY_E_CHANGED when the file ends before that. EINTR and short reads are retried. */
fby_status fby__file_read(fby__file *file, uint64_t offset, void *dst, size_t n, fby_error *err);

/* ---- engines ---- */

typedef struct fby__io fby__io;

/** One range. The caller fills the first group and keeps dst alive until the batch's callback. */
typedef struct fby__io_request {
    fby__file *file; /* borrowed */
    uint64_t offset;
    size_t n;
    uint8_t *dst; /* NULL only for FBY__IO_MMAP, which then sets mapped */
    /* filled by the engine */
    const uint8_t *mapped; /* FBY__IO_MMAP: the bytes, valid while the file is referenced */
} fby__io_request;

/**
 * A batch of requests with one completion.
 * fby__io_submit returning FBY_OK ⇒ done() runs exactly once, on an engine thread or on the submitting thread before
 * submit returns; any error ⇒ it never runs. error.code is FBY_OK when every request filled its n bytes.
 * done() must not block and must not call fby__io_destroy.
 */
typedef struct fby__io_batch {
    fby__io_request *requests; /* borrowed until done() */
    size_t n_requests;
    void (*done)(struct fby__io_batch *batch);
    void *user;
    /* filled by the engine before done() */
    fby_error error;     /* of the first failing request; FBY_E_CANCELLED: what was not read yet is not */
    uint64_t elapsed_ns; /* submit to completion */
    /* engine private */
    fby_cancel *cancel; /* borrowed until done(): what the call that submitted it runs under; NULL = nothing cancels it */
    _Atomic uint32_t pending;
    _Atomic uint32_t failed;
    uint64_t started_ns;
    struct fby__io_batch *next;
    size_t cursor;
} fby__io_batch;

typedef struct fby__io_opts {
    fby__io_kind kind;
    int n_threads;  /* FBY__IO_THREADS: 0 = 16, for the queue depth of NVMe drives and the latency of network file systems */
    unsigned depth; /* FBY__IO_URING: reads in flight, 0 = 64 */
} fby__io_opts;

/** Create an engine; FBY__IO_URING fails with FBY_E_UNSUPPORTED (and the reason) where the kernel refuses it. */
fby_status fby__io_create(const fby__io_opts *opts, fby__io **out, fby_error *err);
/**
 * Waits for batches in flight (their callbacks run), then stops the threads. NULL is fine.
 * In a child of fork() the threads do not exist: it does nothing there, and fby__io_submit answers FBY_E_STATE.
 */
void fby__io_destroy(fby__io *io);
fby__io_kind fby__io_kind_of(const fby__io *io);

/**
 * Submit a batch. Never blocks on I/O: queues without bound on batches (the caller bounds them by the memory budget).
 * Hot pages: the threads and io_uring engines first try preadv2(RWF_NOWAIT) on the calling thread when
 * try_now is true, and complete the batch at once when all bytes were in the page cache: cheapest and cache-hot.
 * The mmap and null engines complete every batch at once, so a done() that submits the next one recurses.
 */
fby_status fby__io_submit(fby__io *io, fby__io_batch *batch, bool try_now, fby_error *err);

/**
 * Test hook, process-wide, checked by every engine and by fby__file_read/open: faults by count and random delays.
 * Zero-filled = off. Not for concurrent change. While reads are cut or delayed try_now is not tried, so that the engines
 * meet the faults whatever is in the page cache.
 */
typedef struct fby__io_fault {
    uint64_t fail_at;      /* the n-th operation (1 = first) fails with EIO; 0 = none */
    uint64_t short_every;  /* every n-th read returns only part of what was asked (must be retried, not an error) */
    uint64_t delay_max_ns; /* each read sleeps a random time below this */
    uint64_t delay_min_ns; /* and no less than this, which is below delay_max_ns */
    uint64_t seed;
} fby__io_fault;
void fby__io_set_fault(const fby__io_fault *fault);
/** Count an operation. 0, or the errno it must fail with. Also of what is no I/O of files, but fails as it does. */
int fby__io_fault_op(void);
/** Operations (opens, stats, reads) since fby__io_set_fault: how many points a sweep has. */
uint64_t fby__io_fault_count(void);

#endif
