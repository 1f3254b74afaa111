/*
 * What the two fuzzers of the helper's protocol share: the helper's request loop in this process, and its descriptor's other end.
 *
 * The helper's sources are a library of their own here (fuzz/CMakeLists.txt), so that an address tells whose code it is: the helper's,
 * libhdf5's, or neither. start() does what the program's main() does, but for giving up its rights.
 */
#ifndef FUZZ_HELPER_PAIR_H
#define FUZZ_HELPER_PAIR_H

#include "../helper/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct message {
    union {
        fby__h5p_request request;
        char bytes[sizeof(fby__h5p_request) + FBY__H5P_MAX_PATH + FBY__H5P_MAX_OBJECT_PATH + FBY__H5P_MAX_FOLDERS];
    };
    size_t n;
} message;

static int helper_end = -1; /* what is sent here, the helper's loop takes */

/* What libhdf5 loses is its own, and ends with the program. */
__attribute__((visibility("default"))) const char *
__lsan_default_suppressions(void); /* asked for by the run-time, which may be a library */
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

/* Before libFuzzer opens anything: the program's descriptor has a fixed number. */
__attribute__((constructor)) static void helper_start(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    helper_end = fcntl(pair[0], F_DUPFD_CLOEXEC, 10);
    const int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
    if (helper_end < 0 || theirs < 0)
        abort();
    (void)close(pair[0]);
    (void)close(pair[1]);
    if (dup2(theirs, FBY__H5P_FD) < 0 || close(theirs) != 0 || setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1) != 0)
        abort();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    if (H5dont_atexit() < 0 || H5open() < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0)
        abort();
}

/* The loop's answer to a request: false where it would end. The result's descriptor is the caller's; -1: none. */
static bool helper_answers(const message *m, fby__h5p_reply *reply, int *out_fd)
{
    static const int LIMITS[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_CPU};
    enum { N_LIMITS = sizeof LIMITS / sizeof *LIMITS };
    struct rlimit before[N_LIMITS];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {reply, sizeof *reply};
    *out_fd = -1;
    if (send(helper_end, m->bytes, m->n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)m->n)
        abort();
    for (int i = 0; i < N_LIMITS; i++)
        (void)getrlimit((unsigned)LIMITS[i], &before[i]);
    const bool more = serve();
    for (int i = 0; i < N_LIMITS; i++) /* they are the request's, and the fuzzer's process is not */
        (void)setrlimit((unsigned)LIMITS[i], &before[i]);
    if (!more)
        return false;
    do {
        struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        if (recvmsg(helper_end, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != (ssize_t)sizeof *reply)
            abort(); /* every request has an answer, of this size */
        const struct cmsghdr *c = CMSG_FIRSTHDR(&head);
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(out_fd, CMSG_DATA(c), sizeof *out_fd);
    } while (reply->kind == FBY__H5P_PROGRESS);
    return true;
}

/* All of a file; NULL: it is not there. The caller's (free). */
static inline uint8_t *whole_file(int fd, size_t *out_n)
{
    struct stat st;
    uint8_t *data = fd >= 0 && fstat(fd, &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    *out_n = data ? (size_t)st.st_size : 0;
    if (data && pread(fd, data, *out_n, 0) != st.st_size)
        abort();
    return data;
}

#endif
