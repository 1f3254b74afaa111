/*
 * The helper program as a process: started, asked, and put away when it fails. See helper.h, protocol.h.
 *
 * Whoever has the turn owns all of it, and keeps it while a request is with the program: there is one libhdf5, which does one thing at
 * a time. (`_locked`: the caller has the turn.) Waits for the turn and for the program end when the call is cancelled (base/cancel.h):
 * a program that is then busy with its request is killed, for nothing else would stop it.
 *
 * Nothing that comes back is trusted: replies are of one size, the result is a memfd of the size the reply says, and it is copied
 * out with pread, so that a program gone mad can change or shrink it under us without harm.
 *
 * No SIGCHLD handler, and none of the user's is needed: the program is reaped with waitpid (end.c). Where the process ignores SIGCHLD,
 * or another part of it reaps every child, waitpid says ECHILD, and how the program ended stays unknown.
 */
#include "base/cancel.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/printable.h"
#include "format/hdf5/client/helper.h"
#include "format/hdf5/client/helper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 60000u /* without a sign of life */
#define MAX_FOLDERS 200u  /* beyond: all of the file system, and each file is checked by the program as ever */
#define ALL_TIMEOUTS 100u /* × the timeout: a request with signs of life, but without an end */

static struct {
    pthread_mutex_t lock; /* guards `busy`: the turn */
    pthread_cond_t idle;
    bool busy;
    /* whoever has the turn */
    int fd;            /* ours of the socket pair; -1 = no program */
    _Atomic pid_t pid; /* relaxed: others only look at it, in tests */
    uint64_t last_id;
    uint64_t environment;         /* what it was started with */
    fby__buf granted;             /* folders that the program was started for, each with its NUL */
    char last[FBY__H5P_MAX_PATH]; /* the file whose folders are known to be among them */
    uint64_t last_folders;        /* a hash of those it may name, and of where it lies */
    char lacks[100];
} g_helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER, .fd = -1};

static pid_t pid_now(void) { return atomic_load_explicit(&g_helper.pid, memory_order_relaxed); }
static void set_pid(pid_t pid) { atomic_store_explicit(&g_helper.pid, pid, memory_order_relaxed); }

static _Atomic unsigned g_timeout_ms = TIMEOUT_MS; /* relaxed: set by tests before they ask */

void fby__h5_helper_set_timeout(unsigned ms) { atomic_store_explicit(&g_timeout_ms, ms ? ms : TIMEOUT_MS, memory_order_relaxed); }
unsigned fby__h5_helper_timeout(void) { return atomic_load_explicit(&g_timeout_ms, memory_order_relaxed); }

/* ---- start and end ---- */

/*
 * The child of a fork has a copy of the socket, which is its parent's, and perhaps of a lock that another thread held. It closes the
 * one and makes the other anew; its first request starts a program of its own.
 */
static void after_fork_in_child(void)
{
    if (g_helper.fd >= 0)
        (void)close(g_helper.fd);
    g_helper.fd = -1;
    set_pid(0);
    fby__h5_helper_forget_undead();
    g_helper.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    g_helper.idle = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    if (g_helper.busy) { /* by a thread that is not here, perhaps in the middle of writing these: they are given up */
        g_helper.granted = (fby__buf){0};
        g_helper.last_folders = 0;
    }
    g_helper.busy = false;
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, after_fork_in_child); } /* ENOMEM: the child shares, and fails */

/* ---- the turn ---- */

static struct timespec slice_end(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t); /* the clock of a condition that is initialised by a constant */
    t.tv_nsec += FBY__CANCEL_SLICE_MS * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static fby_status fail_cancelled(fby_error *err)
{
    return fby__fail(err, FBY_E_CANCELLED, "the wait for the helper program was cancelled");
}

/* @always  wait until it comes, cancelled or not */
static fby_status begin_turn(bool always, fby_error *err)
{
    (void)pthread_mutex_lock(&g_helper.lock);
    while (g_helper.busy && (always || !fby__cancelled())) {
        struct timespec end = slice_end();
        (void)pthread_cond_timedwait(&g_helper.idle, &g_helper.lock, &end);
    }
    bool mine = !g_helper.busy && (always || !fby__cancelled());
    g_helper.busy |= mine;
    (void)pthread_mutex_unlock(&g_helper.lock);
    return mine ? FBY_OK : fail_cancelled(err);
}

static void end_turn(void)
{
    (void)pthread_mutex_lock(&g_helper.lock);
    g_helper.busy = false;
    (void)pthread_cond_signal(&g_helper.idle);
    (void)pthread_mutex_unlock(&g_helper.lock);
}

/* ---- the end ---- */

/* The program is nobody's from here on but the caller's, who reaps it; 0 = there was none. */
static pid_t let_go_locked(void)
{
    pid_t pid = pid_now();
    if (g_helper.fd >= 0)
        (void)close(g_helper.fd);
    g_helper.fd = -1;
    set_pid(0);
    return pid;
}

/* A program that only reads has nothing to finish. */
static void put_away_locked(void)
{
    int status;
    pid_t pid = let_go_locked();
    if (pid)
        (void)fby__h5_helper_reap(pid, 0, &status);
}

/* FBY_E_STATE without a message: as fby__h5_helper_fail_ended() says of a first attempt. */
static fby_status fail_ended_locked(const char *doing, fby_status code, bool last, fby_error *err)
{
    return fby__h5_helper_fail_ended(let_go_locked(), doing, code, last ? FBY__H5_LAST_ATTEMPT : FBY__H5_FIRST_ATTEMPT, err);
}

static fby_status fail_nonsense_locked(const char *what, fby_error *err)
{
    put_away_locked();
    return fby__fail(err, FBY_E_FORMAT, "the helper program answered nonsense (%s) and was stopped", what);
}

/* ---- messages ---- */

enum { GOT_REPLY, GOT_END, GOT_UNREAD, GOT_TIMEOUT, GOT_CANCELLED, GOT_NONSENSE, GOT_NO_ROOM };

static bool has_descriptors(void)
{
    int fd = fcntl(g_helper.fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* One reply and the descriptor that came with it (-1: none; always the caller's). until_ns: on the monotonic clock. */
static int receive_locked(uint64_t until_ns, fby__h5p_reply *out, int *out_fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    *out_fd = -1;
    for (;;) {
        uint64_t now = fby__now_ns();
        if (now >= until_ns)
            return GOT_TIMEOUT;
        if (fby__cancelled())
            return GOT_CANCELLED;
        uint64_t ms = (until_ns - now) / 1000000 + 1;
        struct pollfd p = {.fd = g_helper.fd, .events = POLLIN};
        int ready = poll(&p, 1, ms < FBY__CANCEL_SLICE_MS ? (int)ms : (int)FBY__CANCEL_SLICE_MS);
        if (ready < 0 && errno != EINTR)
            return GOT_END;
        if (ready <= 0)
            continue;
        struct iovec part = {out, sizeof *out};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        ssize_t n = recvmsg(g_helper.fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0 && errno == ECONNRESET) /* unix(7) of Linux: the other end closed with what we sent still unread */
            return GOT_UNREAD;
        if (n <= 0)
            return GOT_END;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
            if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                continue;
            for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
                int fd; /* padding may let a second one through: none is lost */
                memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                if (*out_fd >= 0)
                    (void)close(*out_fd);
                *out_fd = fd;
            }
        }
        if ((m.msg_flags & MSG_CTRUNC) && *out_fd < 0 && !has_descriptors())
            return GOT_NO_ROOM;
        if (n != sizeof *out || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || out->magic != FBY__H5P_MAGIC ||
            out->version != FBY__H5P_VERSION || !memchr(out->message, 0, sizeof out->message))
            return GOT_NONSENSE;
        fby__make_printable(out->message, sizeof out->message, true); /* names of a hostile file end up in messages */
        return GOT_REPLY;
    }
}

static fby_status wait_for_hello_locked(const char *program, bool last, fby_error *err)
{
    fby__h5p_reply hello;
    unsigned timeout = fby__h5_helper_timeout();
    int fd;
    int got = receive_locked(fby__now_ns() + timeout * UINT64_C(1000000), &hello, &fd);
    if (fd >= 0)
        (void)close(fd);
    if (got == GOT_REPLY && hello.kind == FBY__H5P_HELLO) {
        (void)snprintf(g_helper.lacks, sizeof g_helper.lacks, "%.90s", hello.message);
        return FBY_OK;
    }
    fby_status code = FBY_E_UNSUPPORTED; /* no file is to blame */
    if (got == GOT_END) {
        code = fail_ended_locked("started (do its libraries load?)", code, last, err);
        if (code == FBY_E_STATE)
            return code;
    } else {
        put_away_locked();
        if (got == GOT_CANCELLED)
            return fail_cancelled(err);
        if (got == GOT_TIMEOUT)
            code = fby__fail(err, code, "the helper program was not ready after %u.%u s and was stopped", timeout / 1000,
                             timeout % 1000 / 100);
        else
            code = fby__fail(err, code, "it is no helper program of this version of Forebay");
    }
    fby__error_context(err, "%.300s", program);
    return code;
}

/* FBY_E_STATE without a message: as with fail_ended_locked(). */
static fby_status start_locked(const fby__h5_environment *environment, bool last, fby_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char program[FBY__H5P_MAX_PATH];
    int ours, theirs;
    fby__h5_helper_collect_undead(0);
    FBY__TRY(fby__h5_helper_find(environment, program, err));
    (void)pthread_once(&once, watch_forks); /* cannot fail */
    FBY__TRY(fby__h5_helper_pair(SOCK_SEQPACKET, &ours, &theirs, err));
    pid_t pid = 0;
    const fby__bytes folders = {g_helper.granted.data, g_helper.granted.n};
    fby_status status = fby__h5_helper_spawn(program, environment, folders, theirs, -1, &pid, err);
    (void)close(theirs);
    if (status != FBY_OK) {
        (void)close(ours);
        return status;
    }
    set_pid(pid);
    g_helper.fd = ours;
    g_helper.environment = environment->hash;
    return wait_for_hello_locked(program, last, err);
}

/* FBY_E_STATE without a message: the program was gone before it could get the request. */
static fby_status send_locked(const fby__h5p_request *q, const fby__h5_ask *ask, fby_error *err)
{
    struct iovec parts[] = {{(void *)(uintptr_t)q, sizeof *q},
                            {(void *)(uintptr_t)ask->path, q->path_bytes},
                            {(void *)(uintptr_t)ask->object, q->object_bytes},
                            {(void *)(uintptr_t)ask->folders.data, q->folders_bytes}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 4};
    ssize_t n;
    do /* the socket is empty between requests: it never blocks */
        n = sendmsg(g_helper.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)(sizeof *q + q->path_bytes + q->object_bytes + q->folders_bytes))
        return FBY_OK;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
        return FBY_E_STATE;
    int saved = n < 0 ? errno : EMSGSIZE;
    put_away_locked();
    return fby__fail_errno(err, saved, "the request to the helper program");
}

static fby_status check_result_locked(const fby__h5_ask *ask, const fby__h5p_reply *r, int fd, fby_error *err)
{
    struct stat st;
    if (fd < 0)
        return fail_nonsense_locked("no result", err);
    /* Only shared memory has seals: a pipe or a file somewhere could make the copying hang. */
    if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return fail_nonsense_locked("a result that is no shared memory", err);
    if (r->bytes < ask->least || r->bytes > ask->most || st.st_size < 0 || (uint64_t)st.st_size != r->bytes)
        return fail_nonsense_locked("a result of the wrong size", err);
    return FBY_OK;
}

static fby_status status_of(const fby__h5p_reply *r, fby_error *err)
{
    static const fby_status CODES[FBY__H5P_STATUS_COUNT] = {FBY_OK,   FBY_E_FORMAT,      FBY_E_UNSUPPORTED, FBY_E_NOMEM,
                                                            FBY_E_IO, FBY_E_UNSUPPORTED, FBY_E_ARG,         FBY_E_CHANGED};
    if (CODES[r->status] == FBY_E_IO)
        return fby__fail_errno(err, r->sys_errno, "%s", r->message);
    return fby__fail(err, CODES[r->status], "%s", r->message);
}

/* FBY_E_STATE without a message: the program was gone before it took the request, or it was stopped and this was not the `last` attempt. */
static fby_status answer_locked(const fby__h5_ask *ask, uint64_t id, bool last, int *out_fd, uint64_t *out_bytes, fby_error *err)
{
    unsigned timeout = fby__h5_helper_timeout();
    const char *doing = ask->op == FBY__H5P_READ || ask->op == FBY__H5P_VALUES ? "read" : "looked at it";
    uint64_t step_ns = timeout * UINT64_C(1000000), end_ns = fby__now_ns() + ALL_TIMEOUTS * step_ns;
    for (;;) {
        fby__h5p_reply r;
        int fd;
        uint64_t until_ns = fby__now_ns() + step_ns;
        int got = receive_locked(until_ns < end_ns ? until_ns : end_ns, &r, &fd);
        bool result = got == GOT_REPLY && r.id == id && r.kind == FBY__H5P_DONE && r.status == FBY__H5P_OK;
        if (fd >= 0 && !result)
            (void)close(fd);
        if (got == GOT_UNREAD)
            return FBY_E_STATE;
        if (got == GOT_END)
            return fail_ended_locked(doing, FBY_E_FORMAT, last, err);
        if (got == GOT_CANCELLED) {
            put_away_locked();
            return fail_cancelled(err);
        }
        if (got == GOT_NO_ROOM) {
            put_away_locked();
            return fby__fail_errno(err, EMFILE, "no descriptor for the helper program's answer (raise `ulimit -n`)");
        }
        if (got == GOT_TIMEOUT) {
            put_away_locked();
            return fby__fail(err, FBY_E_IO, "the helper program gave no sign of life for %u.%u s while it %s, and was stopped",
                             timeout / 1000, timeout % 1000 / 100, doing);
        }
        if (got == GOT_NONSENSE || r.id != id || r.status >= FBY__H5P_STATUS_COUNT ||
            (r.kind != FBY__H5P_PROGRESS && r.kind != FBY__H5P_DONE))
            return fail_nonsense_locked("no reply that it may give", err);
        if (r.kind == FBY__H5P_PROGRESS)
            continue;
        if (!result) {
            if (r.status == FBY__H5P_NOMEM) /* libhdf5 loses memory, and what it knew, where an allocation fails */
                put_away_locked();
            return status_of(&r, err);
        }
        fby_status checked = check_result_locked(ask, &r, fd, err);
        if (checked != FBY_OK) {
            if (fd >= 0)
                (void)close(fd);
            return checked;
        }
        *out_fd = fd;
        *out_bytes = r.bytes;
        return FBY_OK;
    }
}

/* ---- what the program may read ---- */

static bool is_granted_locked(const char *folder)
{
    for (size_t at = 0; at < g_helper.granted.n;) {
        const char *each = (const char *)g_helper.granted.data + at;
        size_t n = strlen(each);
        if (strncmp(folder, each, n) == 0 && (folder[n] == '/' || !folder[n] || (n == 1 && *each == '/')))
            return true;
        at += n + 1;
    }
    return false;
}

static unsigned n_granted_locked(void)
{
    unsigned n = 0;
    for (size_t at = 0; at < g_helper.granted.n; at++)
        n += !g_helper.granted.data[at];
    return n;
}

static fby_status grant_folder_locked(const char *path, bool file, fby_error *err)
{
    char real[FBY__H5P_MAX_PATH];
    if (!realpath(*path ? path : "/", real))
        return FBY_OK; /* it is not there: nothing of it can be read */
    if (file)
        strrchr(real, '/')[strrchr(real, '/') == real] = 0;
    if (is_granted_locked(real))
        return FBY_OK;
    return fby__buf_put(&g_helper.granted, real, strlen(real) + 1) == 0 ? FBY_OK : fby__fail_nomem(err, "the helper program's folders");
}

/* Folders of the environment's prefixes are the user's word as much as external= is. */
static fby_status grant_locked(const fby__h5_ask *ask, fby_error *err)
{
    struct stat st = {0};
    (void)stat(ask->path, &st); /* a link that leads elsewhere by now is another file */
    const uint64_t file[] = {st.st_dev, st.st_ino, ask->anywhere};
    const uint64_t folders = fby__hash(ask->folders.data, ask->folders.n).lo ^ fby__hash(file, sizeof file).lo;
    if (folders == g_helper.last_folders && strcmp(ask->path, g_helper.last) == 0)
        return FBY_OK;
    const size_t before = g_helper.granted.n;
    FBY__TRY(grant_folder_locked(ask->path, true, err));
    for (size_t at = 0; at < ask->folders.n; at += strlen((const char *)ask->folders.data + at) + 1)
        FBY__TRY(grant_folder_locked((const char *)ask->folders.data + at, false, err));
    const bool many = n_granted_locked() > MAX_FOLDERS;
    if (many)
        g_helper.granted.n = 0; /* "/" takes their place for good: no other folder starts it anew */
    if (ask->anywhere || many)
        FBY__TRY(grant_folder_locked("/", false, err));
    if (g_helper.granted.n != before) /* what a program gave up it cannot have again */
        put_away_locked();
    (void)snprintf(g_helper.last, sizeof g_helper.last, "%s", ask->path);
    g_helper.last_folders = folders;
    return FBY_OK;
}

/* A program that should be there and does not start: that passes, and no file is to blame. */
static fby_status fail_start(fby_status status, fby_error *err)
{
    if (status != FBY_E_UNSUPPORTED)
        return status;
    if (err)
        err->code = FBY_E_IO;
    return FBY_E_IO;
}

static fby_status ask_locked(const fby__h5_ask *ask, fby__h5p_request *q, int *out_fd, uint64_t *out_bytes, fby_error *err)
{
    FBY__TRY(grant_locked(ask, err));
    if (g_helper.fd >= 0 && g_helper.environment != ask->environment->hash) /* where it looks for sources and plugins */
        put_away_locked();
    for (unsigned attempt = 0;; attempt++) {
        if (g_helper.fd < 0) {
            fby_status started = start_locked(ask->environment, attempt > 0, err);
            if (started == FBY_E_STATE)
                continue;
            if (started != FBY_OK)
                return fby__h5_helper_is_expected(ask->environment) ? fail_start(started, err) : started;
        }
        q->id = ++g_helper.last_id;
        fby_status r = send_locked(q, ask, err);
        if (r == FBY_OK)
            r = answer_locked(ask, q->id, attempt > 0, out_fd, out_bytes, err);
        if (r != FBY_E_STATE)
            return r;
        if (attempt)
            return fail_ended_locked("was waiting for a request", FBY_E_IO, true, err);
        /*
         * It died with nothing to do, or was stopped from outside: the request is not the cause. Its main thread may be seen dead (a
         * zombie in /proc) while its other one still holds the socket, which takes requests until the last is gone.
         */
        put_away_locked();
    }
}

fby_status fby__h5_helper_exchange(const fby__h5_ask *ask, fby__h5p_request *q, int *out_fd, uint64_t *out_bytes, fby_error *err)
{
    FBY__TRY(begin_turn(false, err));
    const fby_status status = ask_locked(ask, q, out_fd, out_bytes, err);
    end_turn();
    return status;
}

fby_status fby_sandbox_lacks(char *out, size_t room, fby_error *err)
{
    fby__arena arena = {0};
    fby__h5_environment environment;
    fby_status status = fby__h5_environment_read(&arena, &environment, err);
    if (status == FBY_OK)
        status = begin_turn(false, err);
    if (status == FBY_OK) {
        if (g_helper.fd < 0)
            status = start_locked(&environment, true, err);
        if (status == FBY_OK)
            (void)snprintf(out, room, "%s", g_helper.lacks);
        end_turn();
    }
    fby__arena_fini(&arena);
    return status;
}

pid_t fby__h5_helper_pid(void) { return pid_now(); }

void fby__h5_helper_stop(void)
{
    int status;
    (void)begin_turn(true, NULL); /* it waits until the turn comes */
    pid_t pid = let_go_locked();
    if (pid) /* a sanitizer reports as it ends */
        (void)fby__h5_helper_reap(pid, FBY__H5_GRACE_MS, &status);
    fby__h5_helper_collect_undead(FBY__H5_GRACE_MS);
    end_turn();
}
