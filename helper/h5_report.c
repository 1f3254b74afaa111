/* Failures in libhdf5's own words, signs of life, and results in shared memory. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void close_id(hid_t *id)
{
    if (*id >= 0)
        (void)H5Idec_ref(*id); /* nothing can be done about a failure */
}

void free_pointer(void *p) { free(*(void **)p); }

int fail(work *w, uint32_t status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(w->reply.message, sizeof w->reply.message, fmt, ap); /* a cut message is still a message */
    va_end(ap);
    w->reply.status = status;
    return -1;
}

int fail_nomem(work *w) { return fail(w, FBY__H5P_NOMEM, "the helper program is out of memory"); }

/* The innermost few descriptions, the outer ones first: the outermost are "can't read data" whatever happened. */
enum { WORDS = 3 };
typedef struct words {
    const char *text[WORDS];
    char copy[WORDS][240];
    unsigned n;
    int sys_errno; /* of a call that may succeed the next time */
} words;

/* Says nothing of the file: that it is not there, or not to be read, does. */
static bool is_passing(long sys_errno)
{
    switch (sys_errno) {
    case EMFILE:
    case ENFILE:
    case EIO:
    case EAGAIN:
    case ENOBUFS:
    case ESTALE:
    case ETIMEDOUT:
    case ECONNRESET:
    case ENOTCONN:
    case EREMOTEIO:
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return true;
    default: return false;
    }
}

static herr_t one_word(unsigned n, const H5E_error2_t *e, void *user)
{
    words *w = user;
    (void)n;
    const char *said = e->desc ? strstr(e->desc, "errno = ") : NULL;
    long sys_errno = said ? strtol(said + 8, NULL, 10) : 0;
    if (is_passing(sys_errno))
        w->sys_errno = (int)sys_errno;
    if (w->n < WORDS && e->desc && *e->desc) {
        (void)snprintf(w->copy[w->n], sizeof w->copy[0], "%s", e->desc);
        w->n++;
    }
    return 0;
}

int h5_words(char *out, size_t n)
{
    words w = {0};
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, one_word, &w); /* innermost first */
    (void)H5Eclear2(H5E_DEFAULT);
    size_t used = (size_t)snprintf(out, n, "libhdf5: ");
    if (!w.n)
        used += (size_t)snprintf(out + used, n - used, "no reason given");
    for (unsigned i = w.n; i-- > 0 && used < n;)
        used += (size_t)snprintf(out + used, n - used, "%s%s", w.copy[i], i ? ": " : "");
    return w.sys_errno;
}

bool out_of_descriptors(void)
{
    int fd = fcntl(FBY__H5P_FD, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        (void)close(fd);
    return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

int fail_descriptors(work *w)
{
    w->reply.sys_errno = EMFILE;
    return fail(w, FBY__H5P_IO, "the helper program can open no more files (raise `ulimit -n`)");
}

int fail_h5(work *w, const char *fmt, ...)
{
    char text[800], head[200];
    const int sys_errno = h5_words(text, sizeof text);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    w->reply.sys_errno = sys_errno;
    return fail(w, allocation_failed() ? FBY__H5P_NOMEM : sys_errno ? FBY__H5P_IO : FBY__H5P_FORMAT, "%.150s: %s", head, text);
}

void progress(const work *w)
{
    static struct timespec last;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if ((double)(now.tv_sec - last.tv_sec) + (double)(now.tv_nsec - last.tv_nsec) * 1e-9 < 0.5)
        return;
    last = now;
    fby__h5p_reply r = {.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .id = w->request->id, .kind = FBY__H5P_PROGRESS};
    (void)send(FBY__H5P_FD, &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL); /* a full socket: the client has signs enough */
}

int result_map(work *w, uint64_t n, void **out)
{
    *out = NULL;
    w->fd = memfd_create("forebay-hdf5", MFD_CLOEXEC);
    if (w->fd < 0 || n > INT64_MAX || ftruncate(w->fd, (off_t)n) != 0)
        return fail(w, FBY__H5P_NOMEM, "no shared memory for %llu bytes: %s", (unsigned long long)n, strerror(errno));
    w->reply.bytes = n;
    if (!n)
        return 0;
    *out = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
    if (*out == MAP_FAILED) {
        *out = NULL;
        return fail(w, FBY__H5P_NOMEM, "no shared memory for %llu bytes: %s", (unsigned long long)n, strerror(errno));
    }
    return 0;
}

static int write_all(work *w, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t k = write(w->fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fail(w, FBY__H5P_NOMEM, "no shared memory for the result: %s", strerror(errno));
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

int result_write(work *w, const void *a, size_t a_n, const void *b, size_t b_n)
{
    w->fd = memfd_create("forebay-hdf5", MFD_CLOEXEC);
    if (w->fd < 0)
        return fail(w, FBY__H5P_NOMEM, "no shared memory for the result: %s", strerror(errno));
    TRY(write_all(w, a, a_n));
    TRY(write_all(w, b, b_n));
    w->reply.bytes = (uint64_t)a_n + b_n;
    return 0;
}

int put(work *w, buffer *b, const void *p, size_t n)
{
    if (n > FBY__H5P_MAX_DESCRIPTION - b->n)
        return fail(w, FBY__H5P_UNSUPPORTED, "the file's description is larger than %llu bytes",
                    (unsigned long long)FBY__H5P_MAX_DESCRIPTION);
    if (b->cap - b->n < n) {
        size_t cap = b->cap ? b->cap : 4096;
        while (cap - b->n < n)
            cap *= 2;
        uint8_t *data = realloc(b->data, cap);
        if (!data)
            return fail_nomem(w);
        b->data = data;
        b->cap = cap;
    }
    if (n)
        memcpy(b->data + b->n, p, n);
    b->n += n;
    return 0;
}

int put_u8(work *w, buffer *b, unsigned v) { return put(w, b, &(uint8_t){(uint8_t)v}, 1); }
int put_u16(work *w, buffer *b, unsigned v) { return put(w, b, &(uint16_t){(uint16_t)v}, 2); }
int put_u64(work *w, buffer *b, uint64_t v) { return put(w, b, &v, 8); }

int put_u32(work *w, buffer *b, uint64_t v)
{
    if (v > UINT32_MAX)
        return fail(w, FBY__H5P_UNSUPPORTED, "a size of %llu bytes is too large", (unsigned long long)v);
    return put(w, b, &(uint32_t){(uint32_t)v}, 4);
}

int put_text(work *w, buffer *b, const char *s)
{
    size_t n = strlen(s);
    TRY(put_u32(w, b, n));
    return put(w, b, s, n);
}
