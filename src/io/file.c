/*
 * Open files: what they are, whether they are still the ones that were seen, and plain reads.
 *
 * One open() and one fstat() a file, no stat() before: what is checked is what is read. O_NONBLOCK keeps open() from
 * waiting for the writer of a fifo; it is cleared afterwards, because io_uring answers EAGAIN for such descriptors on
 * file systems without non-blocking reads.
 */
#include "io/io_impl.h"

#include "base/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SLICE_BYTES ((size_t)4 << 20) /* read at once where the call can be cancelled */

struct fby__file {
    /* set once */
    int fd;
    char *path; /* owned */
    fby__file_stamp stamp;

    /* Increments relaxed (the caller holds a reference); the decrement is acq_rel, so that the last one sees all uses.
     */
    _Atomic uint32_t refs;
    _Atomic bool never_now; /* relaxed: RWF_NOWAIT is not supported here, a hint */

    _Atomic(const uint8_t *)
        map;         /* acq_rel: its pages are there for whoever sees it; NULL until the first use. Stays until the file goes */
    fby__file *next; /* of those to be closed: whoever dropped the last reference */
};

static const char *type_text(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a fifo (named pipe)";
    case S_IFSOCK: return "a socket";
    case S_IFCHR:
    case S_IFBLK: return "a device";
    default: return "no regular file";
    }
}

static fby_status check_type(const char *path, const struct stat *st, fby_error *err)
{
    if (S_ISREG(st->st_mode))
        return FBY_OK;
    return fby__fail(err, FBY_E_FORMAT, "%s is %s; only regular files can be read", path, type_text(st->st_mode));
}

static fby__file_stamp stamp_from(const struct stat *st)
{
    return (fby__file_stamp){.size_bytes = (uint64_t)st->st_size,
                             .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                             .ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
                             .inode = st->st_ino};
}

/*
 * File systems that number a file anew when it is asked for again: FUSE (sshfs, s3fs, gcsfuse), those without inodes on disk (FAT), and
 * SMB, where servers may not tell theirs.
 */
static bool keeps_inodes(const char *path)
{
    enum { EXFAT_MAGIC = 0x2011bab0 };
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return true;
    const uint32_t type = (uint32_t)fs.f_type;
    return type != FUSE_SUPER_MAGIC && type != MSDOS_SUPER_MAGIC && type != EXFAT_MAGIC && type != 0xfe534d42u && type != 0xff534d42u;
}

static bool same_inode(const char *path, const fby__file_stamp *a, const fby__file_stamp *b)
{
    return a->inode == b->inode || !keeps_inodes(path);
}

bool fby__file_same(const char *path, const fby__file_stamp *a, const fby__file_stamp *b)
{
    return a->size_bytes == b->size_bytes && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns && same_inode(path, a, b);
}

static fby_status check_stamp(const char *path, const fby__file_stamp *is, const fby__file_stamp *was, fby_error *err)
{
    if (is->size_bytes != was->size_bytes)
        return fby__fail(err, FBY_E_CHANGED, "%s has changed: it had %llu bytes and now has %llu; open the data set again", path,
                         (unsigned long long)was->size_bytes, (unsigned long long)is->size_bytes);
    if (is->mtime_ns != was->mtime_ns)
        return fby__fail(err, FBY_E_CHANGED,
                         "%s has changed: it was written to (or replaced) %.3f s %s the time seen before; "
                         "open the data set again",
                         path, (double)(is->mtime_ns > was->mtime_ns ? is->mtime_ns - was->mtime_ns : was->mtime_ns - is->mtime_ns) / 1e9,
                         is->mtime_ns > was->mtime_ns ? "after" : "before");
    if (!same_inode(path, is, was))
        return fby__fail(err, FBY_E_CHANGED,
                         "%s has changed: it was replaced by another file of the same size and time (inode %llu, before %llu); "
                         "open the data set again",
                         path, (unsigned long long)is->inode, (unsigned long long)was->inode);
    if (is->ctime_ns != was->ctime_ns)
        return fby__fail(err, FBY_E_CHANGED,
                         "%s has changed: it was written to and its time set back, or its mode, owner or links were changed "
                         "(ctime moved by %.3f s); open the data set again",
                         path, (double)(is->ctime_ns - was->ctime_ns) / 1e9);
    return FBY_OK;
}

static fby_status fail_open(const char *path, int sys_errno, fby_error *err)
{
    struct stat st;
    /* Sockets and devices without a driver refuse open() with ENXIO or ENODEV, which would puzzle the user. */
    if ((sys_errno == ENXIO || sys_errno == ENODEV) && stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return check_type(path, &st, err);
    if (sys_errno == EMFILE)
        return fby__fail_errno(err, sys_errno, "cannot open %s (raise `ulimit -n`)", path);
    return fby__fail_errno(err, sys_errno, "cannot open %s", path);
}

fby_status fby__file_open(const char *path, const fby__file_stamp *expect, fby__file **out, fby_error *err)
{
    fby_status status = FBY_OK;
    struct stat st;
    FBY__TRY(fby__cancel_check(err)); /* whoever goes through many files stops here */
    int error = fby__io_fault_op();
    if (error)
        return fby__fail_errno(err, error, "cannot open %s", path);
    fby__file *file = fby__calloc(1, sizeof *file);
    if (!file)
        return fby__fail_nomem(err, "open file");
    file->fd = -1;
    atomic_init(&file->refs, 1);
    atomic_init(&file->never_now, false);
    atomic_init(&file->map, NULL);
    file->path = fby__strdup(path);
    if (!file->path) {
        status = fby__fail_nomem(err, "path of an open file");
        goto fail;
    }
    do
        file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0) {
        status = fail_open(path, errno, err);
        goto fail;
    }
    if (fstat(file->fd, &st) != 0) {
        status = fby__fail_errno(err, errno, "cannot stat %s", path);
        goto fail;
    }
    status = check_type(path, &st, err);
    if (status != FBY_OK)
        goto fail;
    if (fcntl(file->fd, F_SETFL, 0) != 0) {
        status = fby__fail_errno(err, errno, "cannot set the flags of %s", path);
        goto fail;
    }
    file->stamp = stamp_from(&st);
    if (expect) {
        status = check_stamp(path, &file->stamp, expect, err);
        if (status != FBY_OK)
            goto fail;
    }
    *out = file;
    return FBY_OK;
fail:
    fby__file_unref(file);
    return status;
}

fby__file *fby__file_ref(fby__file *file)
{
    atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
    return file;
}

static void unmap(const fby__file *file, const uint8_t *map)
{
    (void)munmap((void *)(uintptr_t)map, (size_t)file->stamp.size_bytes); /* fails for bad arguments only */
}

void fby__file_unref_later(fby__file *file, fby__file **list)
{
    if (!file || atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) != 1)
        return;
    file->next = *list;
    *list = file;
}

void fby__file_close_all(fby__file *list)
{
    for (fby__file *file = list, *next; file; file = next) {
        next = file->next;
        const uint8_t *map = atomic_load_explicit(&file->map, memory_order_relaxed); /* nobody else has it */
        if (map)
            unmap(file, map);
        if (file->fd >= 0)
            (void)close(file->fd); /* read only: nothing to lose */
        fby__free(file->path);
        fby__free(file);
    }
}

void fby__file_unref(fby__file *file)
{
    fby__file *last = NULL;
    fby__file_unref_later(file, &last);
    fby__file_close_all(last);
}

const char *fby__file_path(const fby__file *file) { return file->path; }
const fby__file_stamp *fby__file_stamp_of(const fby__file *file) { return &file->stamp; }
int fby__file_fd(const fby__file *file) { return file->fd; }

int fby__file_probe_lock(const fby__file *file)
{
    int done;
    do
        done = flock(file->fd, LOCK_SH | LOCK_NB);
    while (done != 0 && errno == EINTR);
    if (done != 0)
        return errno;
    (void)flock(file->fd, LOCK_UN); /* of a lock that is held: cannot fail */
    return 0;
}

fby_status fby__file_stat(const char *path, fby__file_stamp *out, fby_error *err)
{
    struct stat st;
    int error = fby__io_fault_op();
    if (!error && stat(path, &st) != 0)
        error = errno;
    if (error)
        return fby__fail_errno(err, error, "cannot open %s", path);
    FBY__TRY(check_type(path, &st, err));
    *out = stamp_from(&st);
    return FBY_OK;
}

fby_status fby__file_check(const char *path, const fby__file_stamp *was, fby_error *err)
{
    fby__file_stamp is = {0};
    fby_error why = {0};
    fby_status status = fby__file_stat(path, &is, &why);
    if (status == FBY_OK)
        return check_stamp(path, &is, was, err);
    if (status == FBY_E_IO && (why.sys_errno == ENOENT || why.sys_errno == ENOTDIR))
        return fby__fail(err, FBY_E_CHANGED, "%s is gone; open the data set again", path);
    if (err)
        *err = why;
    return status;
}

fby_status fby__file_fail_short(const fby__file *file, uint64_t offset, size_t n, uint64_t ends_at, fby_error *err)
{
    return fby__fail_at(err, FBY_E_CHANGED, ends_at,
                        "%s ends at byte %llu, before the end of the %zu bytes at %llu that were asked for; "
                        "it had %llu bytes when it was opened",
                        file->path, (unsigned long long)ends_at, n, (unsigned long long)offset, (unsigned long long)file->stamp.size_bytes);
}

fby_status fby__file_fail_read(const fby__file *file, uint64_t offset, size_t n, int sys_errno, fby_error *err)
{
    fby_status status = fby__fail_errno(err, sys_errno, "cannot read %zu bytes at %llu of %s", n, (unsigned long long)offset, file->path);
    if (err)
        err->file_offset = offset > INT64_MAX ? INT64_MAX : (int64_t)offset;
    return status;
}

fby_status fby__file_check_range(const fby__file *file, uint64_t offset, size_t n, fby_error *err)
{
    if (offset <= INT64_MAX && n <= INT64_MAX - offset)
        return FBY_OK;
    return fby__file_fail_short(file, offset, n, file->stamp.size_bytes, err);
}

fby_status fby__file_read(fby__file *file, uint64_t offset, void *dst, size_t n, fby_error *err)
{
    FBY__TRY(fby__file_check_range(file, offset, n, err));
    const size_t most = fby__cancel_current() ? SLICE_BYTES : FBY__IO_MAX_READ_BYTES;
    size_t got = 0;
    while (got < n) {
        size_t ask = n - got < most ? n - got : most;
        uint64_t delay_ns;
        FBY__TRY(fby__cancel_check(err));
        int error = fby__io_fault_read(&ask, &delay_ns);
        fby__io_sleep(delay_ns);
        ssize_t r = -1;
        if (!error) {
            r = pread(file->fd, (uint8_t *)dst + got, ask, (off_t)(offset + got));
            error = r < 0 ? errno : 0;
        }
        if (error == EINTR)
            continue;
        if (error)
            return fby__file_fail_read(file, offset, n, error, err);
        if (r == 0)
            return fby__file_fail_short(file, offset, n, offset + got, err);
        got += (size_t)r;
    }
    return FBY_OK;
}

bool fby__file_read_now(fby__file *file, uint64_t offset, void *dst, size_t n)
{
    if (n > FBY__IO_MAX_READ_BYTES || atomic_load_explicit(&file->never_now, memory_order_relaxed))
        return false;
    size_t got = 0;
    while (got < n) {
        struct iovec iov = {(uint8_t *)dst + got, n - got};
        ssize_t r = preadv2(file->fd, &iov, 1, (off_t)(offset + got), RWF_NOWAIT);
        if (r < 0 && errno == EINTR)
            continue;
        /* Old kernels and some file systems (tmpfs before 6.6, FUSE) do not know the flag; sandboxes may forbid the
         * call. */
        if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == EPERM))
            atomic_store_explicit(&file->never_now, true, memory_order_relaxed);
        if (r <= 0)
            return false; /* not in memory, the end of the file, or an error that the proper read will report */
        got += (size_t)r;
    }
    return true;
}

fby_status fby__file_map(fby__file *file, const uint8_t **out, fby_error *err)
{
    const uint8_t *map = atomic_load_explicit(&file->map, memory_order_acquire);
    if (!map) {
        int error = fby__alloc_should_fail() ? ENOMEM : 0;
        void *p = error ? MAP_FAILED : mmap(NULL, (size_t)file->stamp.size_bytes, PROT_READ, MAP_SHARED, file->fd, 0);
        if (p == MAP_FAILED)
            return fby__fail_errno(err, error ? error : errno, "cannot map %s", file->path);
        if (atomic_compare_exchange_strong_explicit(&file->map, &map, p, memory_order_acq_rel, memory_order_acquire))
            map = p;
        else
            unmap(file, p); /* another thread was first: `map` is its */
    }
    *out = map;
    return FBY_OK;
}
