/* A file written by a helper program of its own: see writer.h. */
#include "format/hdf5/client/writer.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/printable.h"
#include "format/hdf5/client/helper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 2000 /* from the end of the socket to the end of the process */

struct fby__h5_writer {
    int fd; /* ours of the socket pair */
    pid_t pid;
    bool ended; /* the file is complete */
};

/* ---- the program ---- */

fby_status fby__h5_writer_find(fby_error *err)
{
    char program[FBY__H5P_MAX_PATH];
    return fby__h5_helper_find(program, err);
}

/* Where another part of the process reaps every child, how it ended stays unknown. */
static void reap(pid_t pid, int *out_status)
{
    int waited = 0;
    pid_t r;
    while ((r = waitpid(pid, out_status, WNOHANG)) == 0 || (r < 0 && errno == EINTR)) {
        if (waited++ == GRACE_MS)
            (void)kill(pid, SIGKILL); /* not yet reaped: the number is still its own */
        (void)poll(NULL, 0, 1);
    }
    if (r < 0)
        *out_status = 0;
}

static fby_status fail_ended(fby__h5_writer *w, fby_error *err)
{
    int status = 0;
    const pid_t pid = w->pid;
    (void)close(w->fd);
    w->fd = -1;
    w->pid = 0;
    if (pid)
        reap(pid, &status);
    if (WIFSIGNALED(status))
        return fby__fail(err, FBY_E_IO, "the helper program was killed by signal %d (%s) while it wrote; is there enough memory?",
                         WTERMSIG(status), strsignal(WTERMSIG(status)));
    return fby__fail(err, FBY_E_IO, "the helper program ended with status %d while it wrote", WEXITSTATUS(status));
}

/* ---- messages ---- */

/* Until there is something to read, or room to write. */
static fby_status wait_for(const fby__h5_writer *w, short events, fby_error *err)
{
    struct pollfd p = {.fd = w->fd, .events = events};
    int ready = 0;
    while (ready == 0 || (ready < 0 && errno == EINTR)) {
        FBY__TRY(fby__cancel_check(err));
        ready = poll(&p, 1, (int)FBY__CANCEL_SLICE_MS);
    }
    return ready < 0 ? fby__fail_errno(err, errno, "the helper program's socket") : FBY_OK;
}

static fby_status send_bytes(fby__h5_writer *w, const void *bytes, size_t n, fby_error *err)
{
    const uint8_t *at = bytes;
    while (n) {
        FBY__TRY(wait_for(w, POLLOUT, err));
        const ssize_t sent = send(w->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (sent < 0)
            return fail_ended(w, err);
        at += sent;
        n -= (size_t)sent;
    }
    return FBY_OK;
}

static fby_status receive(fby__h5_writer *w, uint32_t kind, fby__h5p_reply *out, fby_error *err)
{
    for (size_t n = 0; n < sizeof *out;) {
        FBY__TRY(wait_for(w, POLLIN, err));
        const ssize_t got = recv(w->fd, (uint8_t *)out + n, sizeof *out - n, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return fail_ended(w, err);
        n += (size_t)got;
    }
    if (out->magic != FBY__H5P_MAGIC || out->version != FBY__H5P_VERSION || out->kind != kind || out->status >= FBY__H5P_STATUS_COUNT ||
        !memchr(out->message, 0, sizeof out->message))
        return fby__fail(err, FBY_E_IO, "it is no helper program of this version of Forebay");
    fby__make_printable(out->message, sizeof out->message, true);
    return FBY_OK;
}

fby_status fby__h5_writer_ask(fby__h5_writer *w, fby__h5p_write *q, const void *bytes, size_t n, fby_error *err)
{
    fby__h5p_reply reply;
    if (w->fd < 0)
        return fby__fail(err, FBY_E_IO, "the helper program has ended");
    q->magic = FBY__H5P_MAGIC;
    q->version = FBY__H5P_VERSION;
    q->bytes = n;
    FBY__TRY(send_bytes(w, q, sizeof *q, err));
    FBY__TRY(send_bytes(w, bytes, n, err));
    FBY__TRY(receive(w, FBY__H5P_DONE, &reply, err));
    switch (reply.status) {
    case FBY__H5P_OK: w->ended = q->op == FBY__H5P_END; return FBY_OK;
    case FBY__H5P_NOMEM: return fby__fail(err, FBY_E_NOMEM, "%s", reply.message);
    case FBY__H5P_IO: return fby__fail_errno(err, reply.sys_errno, "%s", reply.message);
    default: return fby__fail(err, FBY_E_UNSUPPORTED, "%s", reply.message);
    }
}

/* ---- begin and end ---- */

/* out: the program's end of the pair, then its descriptor of the file; both the caller's, -1 = none. */
static fby_status make_ends(int file, int *out_ours, int out[2], fby_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return fby__fail_errno(err, errno, "no socket for the helper program");
    *out_ours = pair[0];
    out[0] = fcntl(pair[1], F_DUPFD_CLOEXEC, FBY__H5_CHILD_FD_LEAST);
    out[1] = out[0] < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, FBY__H5_CHILD_FD_LEAST);
    const int saved = errno == EINVAL ? EMFILE : errno; /* the limit is below the least */
    (void)close(pair[1]);
    return out[1] < 0 ? fby__fail_errno(err, saved, "no descriptor for the helper program (raise `ulimit -n`)") : FBY_OK;
}

static fby_status start(fby__h5_writer *w, int file, fby_error *err)
{
    char program[FBY__H5P_MAX_PATH];
    int theirs[2] = {-1, -1};
    fby__h5p_reply hello;
    FBY__TRY(fby__h5_helper_find(program, err));
    fby_status status = make_ends(file, &w->fd, theirs, err);
    if (status == FBY_OK)
        status = fby__h5_helper_spawn(program, (fby__bytes){NULL, 0}, theirs[0], theirs[1], &w->pid, err);
    for (int i = 0; i < 2; i++)
        if (theirs[i] >= 0)
            (void)close(theirs[i]); /* the program has its own */
    return status == FBY_OK ? receive(w, FBY__H5P_HELLO, &hello, err) : status;
}

fby_status fby__h5_writer_open(int file, fby__h5_writer **out, fby_error *err)
{
    fby__h5_writer *w = fby__calloc(1, sizeof *w);
    if (!w)
        return fby__fail_nomem(err, "an HDF5 writer");
    w->fd = -1;
    const fby_status status = start(w, file, err);
    if (status == FBY_OK)
        *out = w;
    else
        fby__h5_writer_close(w);
    return status;
}

void fby__h5_writer_close(fby__h5_writer *w)
{
    int status;
    if (!w)
        return;
    if (w->fd >= 0)
        (void)close(w->fd); /* which ends the program */
    if (w->pid && !w->ended)
        (void)kill(w->pid, SIGKILL); /* not yet reaped; of its file nothing is kept */
    if (w->pid)
        reap(w->pid, &status);
    fby__free(w);
}
