/*
 * Files declared immutable, mapped: a request gets a pointer into the page cache and nothing is copied.
 *
 * No threads: a batch is done before submit returns, and the pages come when they are touched. The kernel is told to
 * fetch them already (MADV_WILLNEED). A file that was cut since it was opened is found here; one that is cut later is
 * SIGBUS, which is why the user must declare the files immutable. A request with a buffer of its own is read into it
 * with pread, on the submitting thread.
 */
#include "io/io_impl.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static fby_status map(fby__io_request *request, fby_error *err)
{
    fby__file *file = request->file;
    size_t ask = request->n;
    uint64_t delay_ns;
    struct stat st;
    int error = fby__io_fault_read(&ask, &delay_ns); /* a mapping is never short: ask is not used */
    fby__io_sleep(delay_ns);
    if (!error && fstat(fby__file_fd(file), &st) != 0)
        error = errno;
    if (error)
        return fby__file_fail_read(file, request->offset, request->n, error, err);
    uint64_t size = fby__file_stamp_of(file)->size_bytes;
    if ((uint64_t)st.st_size < size)
        size = (uint64_t)st.st_size;
    if (request->offset > size || request->n > size - request->offset)
        return fby__file_fail_short(file, request->offset, request->n, size, err);

    const uint8_t *base;
    FBY__TRY(fby__file_map(file, &base, err));
    request->mapped = base + request->offset;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)request->mapped & ~(page - 1);
    (void)madvise((void *)begin, (uintptr_t)request->mapped + request->n - begin, MADV_WILLNEED); /* advice */
    return FBY_OK;
}

static fby_status submit(void *self, fby__io_batch *batch, fby_error *err)
{
    (void)self, (void)err; /* no state; errors go to the batch */
    for (size_t i = 0; i < batch->n_requests && !fby__io_batch_is_over(batch); i++) {
        fby__io_request *request = &batch->requests[i];
        fby_error error;
        fby_status status = FBY_OK;
        if (request->dst)
            status = fby__file_read(request->file, request->offset, request->dst, request->n, &error);
        else if (request->n)
            status = map(request, &error);
        if (status != FBY_OK)
            fby__io_batch_fail(batch, &error);
    }
    fby__io_batch_finish(batch, (uint32_t)batch->n_requests);
    return FBY_OK;
}

const fby__io_ops fby__io_mmap = {.submit = submit};
