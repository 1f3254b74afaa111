/*
 * A file that appears whole: written under a name of its own beside the one that it gets, then synced and renamed.
 *
 * Processes that make the same file do not meet: each has its own name, and the first that is complete stays. Both hold the same. Meanwhile each
 * is locked: one that is not is a process's that was killed.
 */
#include "base/cancel.h"
#include "base/random.h"
#include "pack/pack_impl.h"
#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 20)

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack"); }

/* Locked, as a sign that somebody writes it. false: a task that looks for what nobody writes was faster. */
static bool lock_aside(int fd)
{
    struct stat st;
    return (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static fby_status open_aside(fby__pack_out *out, fby_error *err)
{
    for (;;) {
        fby__free(out->aside);
        out->aside = fby__format("%s.%016llx" FBY__PACK_NEW, out->path, (unsigned long long)fby__random_unpredictable());
        if (!out->aside)
            return no_memory(err);
        out->fd = open(out->aside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd < 0)
            return fby__fail_errno(err, errno, "cannot write '%s'", out->aside);
        if (lock_aside(out->fd))
            return FBY_OK;
        (void)close(out->fd); /* nothing is in it */
        out->fd = -1;
        FBY__TRY(fby__cancel_check(err));
    }
}

fby_status fby__pack_out_open(const char *folder, const char *name, fby__pack_out *out, fby_error *err)
{
    *out = (fby__pack_out){.fd = -1};
    out->path = fby__format("%s/%s", folder, name);
    out->buffer = fby__malloc(BUFFER_BYTES);
    const fby_status status = out->path && out->buffer ? open_aside(out, err) : no_memory(err);
    if (status != FBY_OK)
        fby__pack_out_drop(out);
    return status;
}

fby_status fby__pack_out_fail(const fby__pack_out *out, int sys_errno, fby_error *err)
{
    struct statvfs disk;
    if (sys_errno != ENOSPC || fstatvfs(out->fd, &disk) != 0)
        return fby__fail_errno(err, sys_errno, "cannot write '%s'", out->aside);
    const double block = (double)disk.f_frsize / (1 << 20);
    return fby__fail_errno(err, sys_errno, "cannot write '%s' (%.1f MiB of %.0f MiB are free on that disk)", out->aside,
                           (double)disk.f_bavail * block, (double)disk.f_blocks * block);
}

static fby_status write_bytes(fby__pack_out *out, const uint8_t *bytes, size_t n, fby_error *err)
{
    while (n) {
        FBY__TRY(fby__cancel_check(err));
        const ssize_t put = write(out->fd, bytes, n < FBY__PACK_AT_ONCE ? n : FBY__PACK_AT_ONCE);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fby__pack_out_fail(out, put < 0 ? errno : ENOSPC, err);
        bytes += put;
        n -= (size_t)put;
    }
    return FBY_OK;
}

static fby_status flush(fby__pack_out *out, fby_error *err)
{
    const size_t n = out->n;
    out->n = 0;
    return write_bytes(out, out->buffer, n, err);
}

fby_status fby__pack_out_write(void *ctx, const void *bytes, size_t n, fby_error *err)
{
    fby__pack_out *out = ctx;
    out->at += n;
    if (n >= BUFFER_BYTES - out->n)
        FBY__TRY(flush(out, err));
    if (n >= BUFFER_BYTES)
        return write_bytes(out, bytes, n, err);
    memcpy(out->buffer + out->n, bytes, n);
    out->n += n;
    return FBY_OK;
}

typedef struct syncing {
    int fd, error; /* owned; errno */
} syncing;

static void run_sync(void *work)
{
    syncing *s = work;
    s->error = fsync(s->fd) == 0 ? 0 : errno;
}

static void drop_sync(void *work)
{
    syncing *s = work;
    (void)close(s->fd); /* a second descriptor of the file */
    fby__free(s);
}

/* Disks may take seconds for it, and nothing ends it: a cancelled call goes without. */
static fby_status sync_file(const fby__pack_out *out, fby_error *err)
{
    syncing *s = fby__calloc(1, sizeof *s);
    if (!s)
        return no_memory(err);
    s->fd = fcntl(out->fd, F_DUPFD_CLOEXEC, 0);
    if (s->fd < 0) {
        fby__free(s);
        return fby__fail_errno(err, errno, "cannot write '%s'", out->aside);
    }
    FBY__TRY(fby__thread_run(run_sync, drop_sync, s, err));
    const int error = s->error;
    drop_sync(s);
    return error == 0 ? FBY_OK : fby__pack_out_fail(out, error, err);
}

/* 0 too where whoever finished the pack has removed it already. */
static int remove_aside(const fby__pack_out *out) { return unlink(out->aside) == 0 || errno == ENOENT ? 0 : -1; }

/* Has another run made the file? Right after it had the name it may be gone again: the pack was finished. */
static bool is_made(const fby__pack_out *out)
{
    struct stat there;
    if (lstat(out->path, &there) != 0)
        return errno == ENOENT;
    return fby__pack_is_whole(&there) && there.st_ino != out->replaces;
}

/* Under its name, unless a file has it: that is in use, maybe. */
static int publish(const fby__pack_out *out)
{
    if (renameat2(AT_FDCWD, out->aside, AT_FDCWD, out->path, RENAME_NOREPLACE) == 0)
        return 0;
    const bool there = errno == EEXIST, unknown = errno == EINVAL || errno == ENOSYS; /* EINVAL: this file system cannot tell */
    if (there && is_made(out))
        return remove_aside(out);
    return there || unknown ? rename(out->aside, out->path) : -1;
}

fby_status fby__pack_out_close(fby__pack_out *out, bool sync, fby_error *err)
{
    fby_status status = flush(out, err);
    if (status == FBY_OK && sync)
        status = sync_file(out, err);
    if (status == FBY_OK) {
        const int lock = fcntl(out->fd, F_DUPFD_CLOEXEC, 0); /* kept until the file has its name */
        const int closed = close(out->fd);
        out->fd = -1;
        if (lock < 0 || closed != 0 || publish(out) != 0) {
            status = fby__fail_errno(err, errno, "cannot write '%s'", out->path);
            (void)unlink(out->aside); /* of no use to anyone */
        }
        if (lock >= 0)
            (void)close(lock); /* a second descriptor of the file */
    }
    fby__pack_out_drop(out);
    return status;
}

void fby__pack_out_drop(fby__pack_out *out)
{
    if (out->fd >= 0) {
        (void)close(out->fd); /* what was written is thrown away */
        (void)unlink(out->aside);
    }
    fby__free(out->path);
    fby__free(out->aside);
    fby__free(out->buffer);
    *out = (fby__pack_out){.fd = -1};
}
