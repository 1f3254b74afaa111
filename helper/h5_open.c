/*
 * Which files may be opened, checked at the one place where files are opened: libhdf5 (and what it loads) calls open(), and finds the
 * functions here instead of the C library's. So it does not matter what names a file: a link, a virtual data set's source, external
 * raw data. What is checked is what was opened, not what the name led to a moment before.
 *
 * The file of the request was named by the user. Any other one must be a regular file below one of the request's folders, symbolic
 * links resolved, and is never opened for writing. A program that writes opens no file at all: it has a descriptor.
 *
 * No <fcntl.h>: it may rename the functions that are defined here.
 */
#include "server.h"

#include <errno.h>
#include <limits.h>
#include <linux/fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define MAX_REFUSED 8

EXPORTED int open(const char *path, int flags, ...);
EXPORTED int open64(const char *path, int flags, ...);
EXPORTED int __open_2(const char *path, int flags);
EXPORTED int __open64_2(const char *path, int flags);

int fcntl(int fd, int command, ...);

typedef struct refused {
    char name[FBY__H5P_MAX_PATH]; /* as it was asked for */
    char real[FBY__H5P_MAX_PATH]; /* what that is */
    bool special;                 /* no regular file */
} refused;

static const work *g_work;    /* of the request at hand; NULL: the program's own files */
static int g_written_fd = -1; /* of the program that writes: what it was given */
static refused g_refused[MAX_REFUSED];
static unsigned g_n_refused;

void opens_begin(const work *w)
{
    g_work = w;
    g_n_refused = 0;
}

void opens_forget(void) { g_n_refused = 0; }

static bool is_below(const char *path, const char *folder)
{
    char real[PATH_MAX];
    if (!realpath(folder, real))
        return false;
    size_t n = strlen(real);
    if (n == 1) /* "/": what lies in it, not all there is */
        return strrchr(path, '/') == path;
    return strncmp(path, real, n) == 0 && path[n] == '/';
}

/* Folder of a path, cut in place. */
static const char *folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    slash[slash == path] = 0;
    return path;
}

/* The folders that the user's environment has libhdf5 look in: absolute ones, with a colon between them. */
static bool is_below_prefix(const char *path, const char *variable)
{
    char folder[FBY__H5P_MAX_PATH];
    for (const char *p = getenv(variable); p && *p;) {
        size_t n = strcspn(p, ":");
        int k = snprintf(folder, sizeof folder, "%.*s", (int)n, p);
        if (folder[0] == '/' && k > 0 && (size_t)k < sizeof folder && is_below(path, folder))
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static bool may_be_read(const char *real)
{
    char own[PATH_MAX], resolved[PATH_MAX];
    const fby__h5p_request *q = g_work->request;
    if (q->anywhere)
        return true;
    if (strlen(g_work->path) < sizeof own) {
        strcpy(own, g_work->path);
        bool known = realpath(own, resolved) != NULL;
        if (is_below(real, folder_of(own)) || (known && is_below(real, folder_of(resolved))))
            return true;
    }
    for (const char *f = g_work->folders; f < g_work->folders + q->folders_bytes; f += strlen(f) + 1)
        if (is_below(real, f))
            return true;
    return is_below_prefix(real, "HDF5_EXT_PREFIX") || is_below_prefix(real, "HDF5_VDS_PREFIX") ||
           is_below_prefix(real, "HDF5_EXTFILE_PREFIX");
}

/* What was opened, by its one true name. */
static bool name_of(int fd, const char *path, const struct stat *st, char *out)
{
    char link[40];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n > 0) {
        out[n] = 0;
        return out[0] == '/';
    }
    struct stat now; /* without /proc: the name, if it still leads there */
    return realpath(path, out) && lstat(out, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino;
}

/* /proc and /sys have regular files that are none: another process's memory, its environment. */
static bool is_regular(int fd, const struct stat *st)
{
    struct statfs fs;
    if (!S_ISREG(st->st_mode) || fstatfs(fd, &fs) != 0)
        return false;
    switch ((unsigned long)fs.f_type) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC: return false;
    default: return true;
    }
}

/* Nothing allows these: by their names, for they need not be there. */
static bool is_of_the_system(const char *real)
{
    return strncmp(real, "/proc/", 6) == 0 || strncmp(real, "/sys/", 5) == 0 ||
           (strncmp(real, "/dev/", 5) == 0 && strncmp(real, "/dev/shm/", 9) != 0);
}

static int refuse(int fd, const char *name, const char *real, bool special)
{
    if (g_n_refused < MAX_REFUSED) {
        refused *r = &g_refused[g_n_refused++];
        (void)snprintf(r->name, sizeof r->name, "%s", name);
        (void)snprintf(r->real, sizeof r->real, "%s", real);
        r->special = special;
    }
    if (fd >= 0)
        (void)close(fd);
    errno = EACCES;
    return -1;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* libhdf5 tries several places for one name: a place that was refused does not count when another one is found. */
static void found(const char *name)
{
    unsigned n = 0;
    for (unsigned i = 0; i < g_n_refused; i++)
        if (strcmp(last_part(g_refused[i].name), last_part(name)) != 0)
            g_refused[n++] = g_refused[i];
    g_n_refused = n;
}

static int open_checked(const char *path, int flags)
{
    char real[PATH_MAX] = "";
    struct stat st;
    if (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND)) {
        errno = EROFS;
        return -1;
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (fd < 0) {
        int saved = errno;
        /* A socket, a pipe's other end, what Landlock keeps closed: say what it is. */
        if ((saved == ENXIO || saved == ENODEV || saved == EACCES) && realpath(path, real) && stat(real, &st) == 0 &&
            (!S_ISREG(st.st_mode) || !may_be_read(real)))
            return refuse(-1, path, real, !S_ISREG(st.st_mode) || is_of_the_system(real));
        errno = saved;
        return -1;
    }
    if (fstat(fd, &st) != 0 || !name_of(fd, path, &st, real))
        return refuse(fd, path, path, false);
    if (strcmp(path, g_work->path) != 0 && !may_be_read(real)) /* first, so that nothing is said of what is elsewhere */
        return refuse(fd, path, real, is_of_the_system(real));
    if (!is_regular(fd, &st))
        return refuse(fd, path, real, true);
    (void)fcntl(fd, F_SETFL, 0); /* regular files do not block: it changes nothing for them */
    found(path);
    return fd;
}

/* Nothing is asked of the system, which would say no: it is the client's descriptor once more, whatever the name. */
static int open_written(int flags)
{
    const int fd = fcntl(g_written_fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && (flags & O_TRUNC) && ftruncate(fd, 0) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

void opens_written(int fd) { g_written_fd = fd; }

static int open_any(const char *path, int flags, unsigned mode)
{
    if (g_written_fd >= 0)
        return open_written(flags);
    return g_work ? open_checked(path, flags) : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static unsigned mode_of(int flags, va_list ap) { return flags & O_CREAT ? va_arg(ap, unsigned) : 0; }

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    unsigned mode = mode_of(flags, ap);
    va_end(ap);
    return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    unsigned mode = mode_of(flags, ap);
    va_end(ap);
    return open_any(path, flags, mode);
}

int __open_2(const char *path, int flags) { return open_any(path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_any(path, flags, 0); }

enum { MAX_TRIED = 4096 }; /* names of sources: reading checks each of them */

static void try_beside(const char *home, const char *name)
{
    char full[2 * FBY__H5P_MAX_PATH];
    const char *slash = strrchr(home, '/');
    if (!*name || strcmp(name, ".") == 0)
        return;
    int n = name[0] == '/' || !slash ? snprintf(full, sizeof full, "%s", name)
                                     : snprintf(full, sizeof full, "%.*s/%s", (int)(slash - home), home, name);
    if (n <= 0 || (size_t)n >= FBY__H5P_MAX_PATH)
        return;
    int fd = open_checked(full, O_RDONLY);
    if (fd < 0 && !g_n_refused && strcmp(full, name) != 0) /* libhdf5 also takes the working directory */
        fd = open_checked(name, O_RDONLY);
    if (fd >= 0)
        (void)close(fd);
}

void try_sources(const work *w, hid_t dataset)
{
    char home[FBY__H5P_MAX_PATH], name[FBY__H5P_MAX_PATH], last[FBY__H5P_MAX_PATH] = "";
    AUTO_ID dcpl = H5Dget_create_plist(dataset);
    if (dcpl < 0)
        return;
    ssize_t n = H5Fget_name(dataset, home, sizeof home);
    if (n <= 0 || (size_t)n >= sizeof home)
        (void)snprintf(home, sizeof home, "%s", w->path);
    int n_external = H5Pget_external_count(dcpl);
    for (unsigned i = 0; (int)i < n_external && i < MAX_TRIED && !g_n_refused; i++) {
        name[0] = 0;
        if (H5Pget_external(dcpl, i, sizeof name, name, NULL, NULL) < 0)
            break;
        name[sizeof name - 1] = 0;
        try_beside(home, name);
    }
    size_t n_virtual = 0;
    if (H5Pget_layout(dcpl) != H5D_VIRTUAL || H5Pget_virtual_count(dcpl, &n_virtual) < 0)
        n_virtual = 0;
    unsigned tried = 0;
    for (size_t i = 0; i < n_virtual && tried < MAX_TRIED && !g_n_refused; i++) {
        n = H5Pget_virtual_filename(dcpl, i, name, sizeof name);
        if (n < 0)
            break;
        if ((size_t)n >= sizeof name || strchr(name, '%') || strcmp(name, last) == 0)
            continue; /* a pattern: which files there are shows when it is read */
        strcpy(last, name);
        tried++;
        try_beside(home, name);
    }
    (void)H5Eclear2(H5E_DEFAULT);
}

bool opens_refused(void) { return g_n_refused > 0; }

int fail_refused(work *w, const char *what)
{
    const refused *r = &g_refused[0];
    const bool same = strcmp(r->name, r->real) == 0;
    char folder[FBY__H5P_MAX_PATH];
    strcpy(folder, r->real);
    (void)H5Eclear2(H5E_DEFAULT);
    if (r->special)
        return fail(w, FBY__H5P_FORMAT, "%s: it names '%.250s'%s%.200s%s, which is no regular file", what, r->name, same ? "" : " ('",
                    same ? "" : r->real, same ? "" : "')");
    return fail(
        w, FBY__H5P_FORMAT,
        "%s: it names '%.250s'%s%.200s%s, which lies outside of the file's own folder and of the data set's; external=\"%.200s\" allows it",
        what, r->name, same ? "" : " ('", same ? "" : r->real, same ? "" : "')", folder_of(folder));
}
