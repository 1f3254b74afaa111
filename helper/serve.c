/* The loop of requests: one taken, checked and answered at a time. */
#include "server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int send_reply(const fby__h5p_reply *reply, int fd)
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

bool serve(void)
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
    allocations_begin();
    bool ok = answer(&w) == 0;
    /* A source that was refused reads as fill values, where libhdf5 is asked. In a tree, the entry says it. */
    if (opens_refused() && message.request.op != FBY__H5P_TREE)
        ok = fail_refused(&w, message.request.op == FBY__H5P_OBJECT ? "the object cannot be read" : "the data cannot be read") == 0;
    if (allocation_failed()) /* whatever became of it: a source that could not be opened for it reads as fill values, too */
        ok = fail_nomem(&w) == 0;
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
