/* Inside src/io only: what the engines share. */
#ifndef FBY_IO_IO_IMPL_H
#define FBY_IO_IO_IMPL_H

#include "io/io.h"

/* One system call reads at most 0x7ffff000 bytes; with 1 GiB a call, offsets stay aligned. */
#define FBY__IO_MAX_READ_BYTES ((size_t)1 << 30)

/* ---- file.c ---- */

int fby__file_fd(const fby__file *file);

/** FBY_E_CHANGED: `ends_at` is the first byte that is missing of [offset, offset + n). */
fby_status fby__file_fail_short(const fby__file *file, uint64_t offset, size_t n, uint64_t ends_at, fby_error *err);

/** FBY_E_IO: a read of [offset, offset + n) failed. */
fby_status fby__file_fail_read(const fby__file *file, uint64_t offset, size_t n, int sys_errno, fby_error *err);

/** FBY_OK when [offset, offset + n) can lie in a file at all: the kernel's offsets are signed. */
fby_status fby__file_check_range(const fby__file *file, uint64_t offset, size_t n, fby_error *err);

/**
 * True when all n bytes were in the page cache and have been copied: preadv2(RWF_NOWAIT), Linux 4.14.
 * False says nothing about the file: read it the other way.
 */
bool fby__file_read_now(fby__file *file, uint64_t offset, void *dst, size_t n);

/** The whole file mapped read-only (stamp.size_bytes bytes): made on first use, shared, unmapped with the last
 * reference. */
fby_status fby__file_map(fby__file *file, const uint8_t **out, fby_error *err);

/* ---- fault.c: the points where faults are injected ---- */

/** Count a read of n bytes. 0 or an errno; *n is cut when the read must be short, *delay_ns what it must wait first. */
int fby__io_fault_read(size_t *n, uint64_t *delay_ns);

/** True when reads are cut or delayed: then no bytes count as "in memory already", so that the engines see it. */
bool fby__io_fault_alters_reads(void);

void fby__io_sleep(uint64_t ns);

/* ---- io.c: completion ---- */

/** A request of the batch failed: the first one wins, later ones are ignored. Threads: any. */
void fby__io_batch_fail(fby__io_batch *batch, const fby_error *error);

/** True when a request has failed, or the batch is cancelled (which fails it): the others need not be read any more. */
bool fby__io_batch_is_over(fby__io_batch *batch);

/** n requests are finished. The last one runs done(): the batch is not the engine's any more after this. */
void fby__io_batch_finish(fby__io_batch *batch, uint32_t n);

/* ---- engines ---- */

/** Requests [batch->cursor, n_requests) are to be read; at least one. submit takes over the batch. */
typedef struct fby__io_ops {
    fby_status (*create)(const fby__io_opts *opts, void **out, fby_error *err); /* NULL: no state */
    fby_status (*submit)(void *self, fby__io_batch *batch, fby_error *err);
    void (*destroy)(void *self); /* after the last batch; NULL: no state */
    bool tries_now;              /* bytes in the page cache are worth a try on the submitting thread */
} fby__io_ops;

extern const fby__io_ops fby__io_threads;
extern const fby__io_ops fby__io_mmap;
extern const fby__io_ops fby__io_null;
#ifdef FBY_HAVE_URING
extern const fby__io_ops fby__io_uring;
#endif

#endif
