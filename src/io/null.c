/*
 * Reads nothing and fills with zeros: what remains is the cost of everything around the reads.
 * Ranges are still checked against the file's size, and faults are still injected.
 */
#include "io/io_impl.h"

static fby_status fill(fby__io_request *request, fby_error *err)
{
    uint64_t size = fby__file_stamp_of(request->file)->size_bytes;
    if (request->n && (request->offset > size || request->n > size - request->offset))
        return fby__file_fail_short(request->file, request->offset, request->n, size, err);
    for (size_t got = 0; got < request->n;) {
        size_t n = request->n - got;
        uint64_t delay_ns;
        int error = fby__io_fault_read(&n, &delay_ns);
        if (error)
            return fby__file_fail_read(request->file, request->offset, request->n, error, err);
        fby__io_sleep(delay_ns);
        memset(request->dst + got, 0, n);
        got += n;
    }
    return FBY_OK;
}

static fby_status submit(void *self, fby__io_batch *batch, fby_error *err)
{
    (void)self, (void)err; /* no state; errors go to the batch */
    for (size_t i = 0; i < batch->n_requests && !fby__io_batch_is_over(batch); i++) {
        fby_error error;
        if (fill(&batch->requests[i], &error) != FBY_OK)
            fby__io_batch_fail(batch, &error);
    }
    fby__io_batch_finish(batch, (uint32_t)batch->n_requests);
    return FBY_OK;
}

const fby__io_ops fby__io_null = {.submit = submit};
