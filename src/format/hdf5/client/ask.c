/*
 * A request to the helper program: filled in, sent with as much memory as the program needs for it, and its result copied out. What becomes of the
 * program meanwhile is process.c's. See helper.h, protocol.h.
 */
#include "base/alloc.h"
#include "format/hdf5/client/helper.h"
#include "format/hdf5/client/helper_internal.h"
#include "io/io.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static _Thread_local fby__h5_helper_memory *t_memory;

fby__h5_helper_memory *fby__h5_helper_memory_of(fby__h5_helper_memory *memory)
{
    fby__h5_helper_memory *before = t_memory;
    t_memory = memory;
    return before;
}

/* As much as the request needs. */
static fby_status ask_with_memory(const fby__h5_ask *ask, fby__h5p_request *q, int *out_fd, uint64_t *out_bytes, fby_error *err)
{
    fby__h5_helper_memory own = {0}, *m = t_memory ? t_memory : &own;
    size_t want = m->least > m->held ? m->least : m->held;
    fby_status r;
    const int fault = fby__io_fault_op();
    if (fault)
        return fby__fail_errno(err, fault, "the request to the helper program");
    for (;;) {
        if (!fby__alloc_charge(want - m->held)) {
            r = fby__fail_nomem(err, "the helper program");
            break;
        }
        q->memory_bytes = m->held = want;
        r = fby__h5_helper_exchange(ask, q, out_fd, out_bytes, err);
        if (r != FBY_E_NOMEM || want > FBY__H5P_MAX_MEMORY)
            break;
        want = want < FBY__H5P_MEMORY / 2 ? (size_t)FBY__H5P_MEMORY : 2 * want;
    }
    fby__alloc_discharge(own.held);
    return r;
}

fby_status fby__h5_helper_ask(const fby__h5_ask *ask, int *out_fd, uint64_t *out_bytes, fby_error *err)
{
    size_t path_n = strlen(ask->path) + 1, object_n = strlen(ask->object) + 1;
    if (path_n > FBY__H5P_MAX_PATH || object_n > FBY__H5P_MAX_OBJECT_PATH || ask->rank > FBY__H5P_MAX_RANK ||
        ask->folders.n > FBY__H5P_MAX_FOLDERS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "the name is longer than the helper program takes");
    fby__h5p_request q = {.magic = FBY__H5P_MAGIC,
                          .version = FBY__H5P_VERSION,
                          .op = ask->op,
                          .path_bytes = (uint32_t)path_n,
                          .object_bytes = (uint32_t)object_n,
                          .as = ask->as,
                          .as_bytes = ask->as_bytes,
                          .result_bytes = ask->result_bytes,
                          .heap_at = ask->heap_at,
                          .anywhere = ask->anywhere,
                          .promise = ask->promise,
                          .rank = ask->rank,
                          .folders_bytes = (uint32_t)ask->folders.n};
    for (uint32_t i = 0; i < ask->rank; i++) {
        q.start[i] = ask->start[i];
        q.count[i] = ask->count[i];
    }
    fby__arena arena = {0};
    fby__h5_environment environment;
    fby__h5_ask own = *ask;
    fby_status status = fby__h5_environment_resolve(ask->environment, &arena, &environment, err);
    own.environment = &environment;
    if (status == FBY_OK)
        status = ask_with_memory(&own, &q, out_fd, out_bytes, err);
    fby__arena_fini(&arena);
    return status;
}

fby_status fby__h5_helper_fetch(int fd, uint64_t offset, void *dst, size_t n, fby_error *err)
{
    uint8_t *p = dst;
    while (n) {
        ssize_t k = pread(fd, p, n, (off_t)offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fby__fail(err, FBY_E_FORMAT, "the helper program took its result back");
        p += k;
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return FBY_OK;
}
