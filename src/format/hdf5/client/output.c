/* A file written by a helper program of its own: see output.h. */
#include "format/hdf5/client/output.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/printable.h"
#include "format/hdf5/client/helper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fby__h5_output {
    int fd; /* ours of the socket pair */
    pid_t pid;
    bool ended; /* the file is complete */
};

/* ---- the program ---- */

fby_status fby__h5_output_find(const fby__h5_environment *given, fby_error *err)
{
    char program[FBY__H5P_MAX_PATH];
    fby__arena arena = {0};
    fby__h5_environment environment;
    fby_status status = fby__h5_environment_resolve(given, &arena, &environment, err);
    if (status == FBY_OK)
        status = fby__h5_helper_find(&environment, program, err);
    fby__arena_fini(&arena);
    return status;
}

/* The program is put away: nothing can be asked of it any more. */
static pid_t let_go(fby__h5_output *o)
{
    const pid_t pid = o->pid;
    if (o->fd >= 0)
        (void)close(o->fd);
    o->fd = -1;
    o->pid = 0;
    return pid;
}

static fby_status fail_ended(fby__h5_output *o, const char *doing, fby_error *err)
{
    return fby__h5_helper_fail_ended(let_go(o), doing, FBY_E_IO, FBY__H5_ONLY_ATTEMPT, err);
}

static fby_status fail_silent(fby__h5_output *o, const char *doing, fby_error *err)
{
    int status;
    const unsigned timeout = fby__h5_helper_timeout();
    const pid_t pid = let_go(o);
    if (pid)
        (void)fby__h5_helper_reap(pid, 0, &status);
    return fby__fail(err, FBY_E_IO, "the helper program gave no sign of life for more than %u.%u s while it %s, and was stopped",
                     timeout / 1000, timeout % 1000 / 100, doing);
}

/* ---- messages ---- */

/* What is waited for: until when on the monotonic clock, and what the program does meanwhile. */
typedef struct patience {
    uint64_t until_ns;
    const char *doing;
} patience;

/* It gives no signs of life while it compresses: bytes get a second a MiB. */
static patience patience_for(const char *doing, size_t bytes)
{
    return (patience){fby__now_ns() + fby__h5_helper_timeout() * UINT64_C(1000000) + (uint64_t)(bytes >> 20) * UINT64_C(1000000000), doing};
}

/* Until there is something to read, or room to write. */
static fby_status wait_for(fby__h5_output *o, short events, const patience *limit, fby_error *err)
{
    struct pollfd p = {.fd = o->fd, .events = events};
    int ready = 0;
    while (ready == 0 || (ready < 0 && errno == EINTR)) {
        FBY__TRY(fby__cancel_check(err));
        if (fby__now_ns() >= limit->until_ns)
            return fail_silent(o, limit->doing, err);
        ready = poll(&p, 1, (int)FBY__CANCEL_SLICE_MS);
    }
    return ready < 0 ? fby__fail_errno(err, errno, "the helper program's socket") : FBY_OK;
}

static fby_status send_bytes(fby__h5_output *o, const void *bytes, size_t n, const patience *limit, fby_error *err)
{
    const uint8_t *at = bytes;
    while (n) {
        FBY__TRY(wait_for(o, POLLOUT, limit, err));
        const ssize_t sent = send(o->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (sent < 0)
            return fail_ended(o, limit->doing, err);
        at += sent;
        n -= (size_t)sent;
    }
    return FBY_OK;
}

static fby_status receive(fby__h5_output *o, uint32_t kind, const patience *limit, fby__h5p_reply *out, fby_error *err)
{
    for (size_t n = 0; n < sizeof *out;) {
        FBY__TRY(wait_for(o, POLLIN, limit, err));
        const ssize_t got = recv(o->fd, (uint8_t *)out + n, sizeof *out - n, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return fail_ended(o, limit->doing, err);
        n += (size_t)got;
    }
    if (out->magic != FBY__H5P_MAGIC || out->version != FBY__H5P_VERSION || out->kind != kind || out->status >= FBY__H5P_STATUS_COUNT ||
        !memchr(out->message, 0, sizeof out->message))
        return fby__fail(err, FBY_E_IO, "it is no helper program of this version of Forebay");
    fby__make_printable(out->message, sizeof out->message, true);
    return FBY_OK;
}

fby_status fby__h5_output_ask(fby__h5_output *o, fby__h5p_write *q, const void *bytes, size_t n, fby_error *err)
{
    fby__h5p_reply reply;
    if (o->fd < 0)
        return fby__fail(err, FBY_E_IO, "the helper program has ended");
    const patience limit = patience_for("wrote", n);
    q->magic = FBY__H5P_MAGIC;
    q->version = FBY__H5P_VERSION;
    q->bytes = n;
    FBY__TRY(send_bytes(o, q, sizeof *q, &limit, err));
    FBY__TRY(send_bytes(o, bytes, n, &limit, err));
    FBY__TRY(receive(o, FBY__H5P_DONE, &limit, &reply, err));
    switch (reply.status) {
    case FBY__H5P_OK: o->ended = q->op == FBY__H5P_END; return FBY_OK;
    case FBY__H5P_NOMEM: return fby__fail(err, FBY_E_NOMEM, "%s", reply.message);
    case FBY__H5P_IO: return fby__fail_errno(err, reply.sys_errno, "%s", reply.message);
    default: return fby__fail(err, FBY_E_UNSUPPORTED, "%s", reply.message);
    }
}

/* ---- begin and end ---- */

/* out: the program's end of the pair, then its descriptor of the file; both the caller's, -1 = none. */
static fby_status make_ends(int file, int *out_ours, int out[2], fby_error *err)
{
    FBY__TRY(fby__h5_helper_pair(SOCK_STREAM, out_ours, &out[0], err));
    out[1] = fcntl(file, F_DUPFD_CLOEXEC, FBY__H5_CHILD_FD_LEAST);
    const int saved = errno == EINVAL ? EMFILE : errno; /* the limit is below the least */
    return out[1] < 0 ? fby__fail_errno(err, saved, "no descriptor for the helper program (raise `ulimit -n`)") : FBY_OK;
}

static fby_status start(fby__h5_output *o, const fby__h5_environment *environment, int file, fby_error *err)
{
    char program[FBY__H5P_MAX_PATH];
    int theirs[2] = {-1, -1};
    fby__h5p_reply hello;
    fby__h5_helper_collect_undead(0);
    FBY__TRY(fby__h5_helper_find(environment, program, err));
    fby_status status = make_ends(file, &o->fd, theirs, err);
    if (status == FBY_OK)
        status = fby__h5_helper_spawn(program, environment, (fby__bytes){NULL, 0}, theirs[0], theirs[1], &o->pid, err);
    for (int i = 0; i < 2; i++)
        if (theirs[i] >= 0)
            (void)close(theirs[i]); /* the program has its own */
    if (status != FBY_OK)
        return status;
    const patience limit = patience_for("started (do its libraries load?)", 0);
    status = receive(o, FBY__H5P_HELLO, &limit, &hello, err); /* what the kernel lacks to confine it, fby_sandbox_lacks() says */
    if (status != FBY_OK && status != FBY_E_CANCELLED)
        fby__error_context(err, "%.300s", program);
    return status;
}

fby_status fby__h5_output_open(const fby__h5_environment *given, int file, fby__h5_output **out, fby_error *err)
{
    fby__arena arena = {0};
    fby__h5_environment environment;
    fby__h5_output *o = fby__calloc(1, sizeof *o);
    if (!o)
        return fby__fail_nomem(err, "an HDF5 file that is written");
    o->fd = -1;
    fby_status status = fby__h5_environment_resolve(given, &arena, &environment, err);
    if (status == FBY_OK)
        status = start(o, &environment, file, err);
    fby__arena_fini(&arena);
    if (status == FBY_OK)
        *out = o;
    else
        fby__h5_output_close(o);
    return status;
}

void fby__h5_output_close(fby__h5_output *o)
{
    int status;
    if (!o)
        return;
    if (o->fd >= 0)
        (void)close(o->fd); /* which ends the program */
    if (o->pid && !o->ended)
        (void)kill(o->pid, SIGKILL); /* not yet reaped; of its file nothing is kept */
    if (o->pid)
        (void)fby__h5_helper_reap(o->pid, FBY__H5_GRACE_MS, &status);
    fby__free(o);
}
