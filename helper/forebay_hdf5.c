/*
 * forebay-hdf5: libhdf5 in a process of its own, for the HDF5 files that Forebay's reader leaves to it. It is started by the
 * library, with a socket as descriptor 3 and nothing else; protocol.h says what goes over it.
 *
 * What it survives and what not: a failure of libhdf5 is an answer. A crash ends this process, the client tells its caller and
 * starts another. When the client is gone the socket closes, and a thread of its own ends the process even while libhdf5 is lost
 * in a loop. (PR_SET_PDEATHSIG would not do: it fires when the thread that started us ends, not the process.)
 */
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whatever the user's process had open without close-on-exec: none of it is ours to hold. */
static void close_inherited(void)
{
    DIR *d = opendir("/proc/self/fd");
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        int fd = atoi(e->d_name);
        if (fd > FBY__H5P_FD && fd != dirfd(d))
            (void)close(fd);
    }
    (void)closedir(d);
}

/* POLLHUP is reported without being asked for; everything else is the main thread's. */
static void *wait_for_hangup(void *unused)
{
    struct pollfd p = {.fd = FBY__H5P_FD};
    (void)unused;
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        continue;
    _exit(0);
}

/* @folders  what may be read besides libraries; @lacks  what the kernel could not do */
static int set_up(int n_folders, char *const *folders, char *lacks, size_t n)
{
    pthread_t thread;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN); /* from a terminal they come to the whole group: the client decides */
    (void)signal(SIGQUIT, SIG_IGN);
    /* Locks are no use to a reader of finished files, and fail on some network file systems. */
    if (setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1) != 0)
        return -1;
    close_inherited();
    const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    confine(n_folders, folders, lacks, n); /* before there is a second thread, which would not be confined */
    if (pthread_create(&thread, NULL, wait_for_hangup, NULL) != 0)
        return -1;
    if (H5dont_atexit() < 0 || H5open() < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0)
        return -1;
    own_memory(statm);
    return 0;
}

static int send_reply(const fby__h5p_reply *reply, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)reply, sizeof *reply};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(FBY__H5P_FD, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *reply ? 0 : -1;
}

/* The client is ours, but a client of another version may have found us. */
static bool request_makes_sense(const fby__h5p_request *q, size_t n, const char *texts)
{
    if (n < sizeof *q || q->magic != FBY__H5P_MAGIC || q->version != FBY__H5P_VERSION || q->rank > FBY__H5P_MAX_RANK)
        return false;
    if (!q->path_bytes || q->path_bytes > FBY__H5P_MAX_PATH || !q->object_bytes || q->object_bytes > FBY__H5P_MAX_OBJECT_PATH ||
        q->folders_bytes > FBY__H5P_MAX_FOLDERS || n != sizeof *q + q->path_bytes + q->object_bytes + q->folders_bytes)
        return false;
    /* Also the last folder: where there is none, the object's NUL is looked at again. */
    return !texts[q->path_bytes - 1] && !texts[q->path_bytes + q->object_bytes - 1] &&
           !texts[q->path_bytes + q->object_bytes + q->folders_bytes - 1];
}

static int answer(work *w)
{
    switch (w->request->op) {
    case FBY__H5P_TREE: return do_tree(w);
    case FBY__H5P_OBJECT: return do_object(w);
    case FBY__H5P_READ: return do_read(w);
    case FBY__H5P_VALUES: return do_values(w);
    default: return fail(w, FBY__H5P_ARG, "an unknown request");
    }
}

/* One request; false when there will be no more. */
static bool serve(void)
{
    static union {
        fby__h5p_request request;
        char bytes[sizeof(fby__h5p_request) + FBY__H5P_MAX_PATH + FBY__H5P_MAX_OBJECT_PATH + FBY__H5P_MAX_FOLDERS];
    } message;
    const char *texts = message.bytes + sizeof message.request;
    ssize_t n;
    do
        n = recv(FBY__H5P_FD, message.bytes, sizeof message.bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || !request_makes_sense(&message.request, (size_t)n, texts))
        return false;
    work w = {.request = &message.request, .path = texts, .object = texts + message.request.path_bytes, .fd = -1};
    w.folders = w.object + message.request.object_bytes;
    w.reply = (fby__h5p_reply){.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .id = message.request.id, .kind = FBY__H5P_DONE};
    opens_begin(&w);
    bool ok = answer(&w) == 0;
    /* A source that was refused reads as fill values, where libhdf5 is asked. In a tree, the entry says it. */
    if (opens_refused() && message.request.op != FBY__H5P_TREE)
        ok = fail_refused(&w, message.request.op == FBY__H5P_OBJECT ? "the object cannot be read" : "the data cannot be read") == 0;
    files_settle();
    opens_begin(NULL);
    (void)H5Eclear2(H5E_DEFAULT);
    if (!ok)
        w.reply.bytes = 0;
    bool more = send_reply(&w.reply, ok ? w.fd : -1) == 0;
    if (w.fd >= 0)
        (void)close(w.fd);
    return more;
}

int main(int argc, char **argv)
{
    struct stat st;
    if (fstat(FBY__H5P_FD, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        (void)fputs("forebay-hdf5 reads HDF5 files for the Forebay library, which starts it by itself.\n", stderr);
        return 2;
    }
    fby__h5p_reply hello = {.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .kind = FBY__H5P_HELLO};
    if (set_up(argc - 1, argv + 1, hello.message, sizeof hello.message) != 0)
        return 1;
    if (send_reply(&hello, -1) != 0)
        return 1;
    while (serve())
        continue;
    _exit(0); /* nothing here outlives the process; libhdf5 may be in no state to say goodbye */
}
