/* The target folder of a pack: see pack_impl.h for what lies in it. */
#include "base/cancel.h"
#include "base/checked.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"
#include "pool/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST "_pack.json"
#define WORK ".forebay-pack"
#define PLAN "plan"
#define LOCK ".lock"
#define NEW ".new"
#define BUFFER_BYTES ((size_t)1 << 20)

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack"); }

/* ---- a file that appears whole ---- */

fby_status fby__pack_out_open(const char *folder, const char *name, fby__pack_out *out, fby_error *err)
{
    *out = (fby__pack_out){.fd = -1};
    out->path = fby__format("%s/%s", folder, name);
    out->aside = fby__format("%s/%s" NEW, folder, name);
    out->buffer = fby__malloc(BUFFER_BYTES);
    fby_status status = out->path && out->aside && out->buffer ? FBY_OK : no_memory(err);
    if (status == FBY_OK) {
        (void)unlink(out->aside); /* of a run that was stopped; a link or a pipe of somebody else's is not written to */
        if ((out->fd = open(out->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0)
            status = fby__fail_errno(err, errno, "cannot write '%s'", out->aside);
    }
    if (status != FBY_OK)
        fby__pack_out_drop(out);
    return status;
}

static fby_status write_bytes(fby__pack_out *out, const uint8_t *bytes, size_t n, fby_error *err)
{
    while (n) {
        FBY__TRY(fby__cancel_check(err));
        const ssize_t put = write(out->fd, bytes, n < FBY__PACK_AT_ONCE ? n : FBY__PACK_AT_ONCE);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fby__fail_errno(err, put < 0 ? errno : ENOSPC, "cannot write '%s'", out->aside);
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
    return error == 0 ? FBY_OK : fby__fail_errno(err, error, "cannot write '%s'", out->aside);
}

fby_status fby__pack_out_close(fby__pack_out *out, bool sync, fby_error *err)
{
    fby_status status = flush(out, err);
    if (status == FBY_OK && sync)
        status = sync_file(out, err);
    if (status == FBY_OK) {
        const int closed = close(out->fd);
        out->fd = -1;
        if (closed != 0 || rename(out->aside, out->path) != 0) {
            status = fby__fail_errno(err, errno, "cannot write '%s'", out->path);
            (void)unlink(out->aside); /* of no use to anyone */
        }
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

/* ---- paths ---- */

static bool exists(const char *folder, const char *name)
{
    char *path = fby__format("%s/%s", folder, name);
    const bool there = path && access(path, F_OK) == 0;
    fby__free(path);
    return there;
}

bool fby__pack_has_file(const fby__pack *p, uint64_t file)
{
    char *name = fby__pack_file_name(p, file);
    const bool there = name && (exists(p->work, name) || exists(p->to, name));
    fby__free(name);
    return there;
}

char *fby__pack_file_path(const fby__pack *p, uint64_t file)
{
    char *name = fby__pack_file_name(p, file);
    char *path = name ? fby__format("%s/%s", exists(p->work, name) ? p->work : p->to, name) : NULL;
    fby__free(name);
    return path;
}

uint64_t fby__pack_written_bytes(const fby__pack *p)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < p->n_files; i++) {
        struct stat st;
        char *name = fby__pack_file_name(p, i), *path = name ? fby__format("%s/%s", p->to, name) : NULL;
        sum += path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
        fby__free(path);
        fby__free(name);
    }
    return sum;
}

static fby_status make_folders(const char *path, fby_error *err)
{
    char *copy = fby__strdup(path);
    if (!copy)
        return no_memory(err);
    fby_status status = FBY_OK;
    for (char *slash = copy; status == FBY_OK && slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        if (*copy && mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = fby__fail_errno(err, errno, "cannot make the folder '%s'", copy);
        if (slash)
            *slash = '/';
    }
    fby__free(copy);
    return status;
}

static fby_status sync_folder(const char *path, fby_error *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) { /* EINVAL: this file system has no such call */
        const int reason = errno;
        if (fd >= 0)
            (void)close(fd);
        return fby__fail_errno(err, reason, "cannot write the folder '%s'", path);
    }
    (void)close(fd); /* it was only read */
    return FBY_OK;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Files of a folder whose names begin or end so (NULL: all but the lock). */
static void remove_files(const char *folder, const char *begin, const char *end)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && (!begin || strncmp(e->d_name, begin, strlen(begin)) == 0) && (!end || ends_with(e->d_name, end)))
            (void)unlinkat(dirfd(d), e->d_name, 0); /* what stays is in the way of the folder's removal, or replaced */
    if (d)
        (void)closedir(d);
}

/* If nothing but the lock is left in it. */
static void remove_work(const fby__pack *p)
{
    const int fd = open(p->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)unlinkat(fd, LOCK, 0); /* whoever has this file open sees that it is the folder's no more */
        (void)close(fd);             /* it was only opened to name a file in it */
    }
    (void)rmdir(p->work);
}

/* ---- the plan ---- */

/* No more than tells it from ours. A link is not followed, and a pipe not waited for. */
static fby_status read_plan(const fby__pack *p, const char *path, fby__buf *out, fby_error *err)
{
    uint8_t part[4096];
    ssize_t n = 0;
    fby_status status = FBY_OK;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fby__fail_errno(err, errno, "cannot open '%s'", path);
    while (status == FBY_OK && out->n <= p->plan.n + sizeof part && ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0 && fby__buf_put(out, part, (size_t)n) != 0)
            status = no_memory(err);
    if (n < 0)
        status = fby__fail_errno(err, errno, "cannot read '%s'", path);
    (void)close(fd); /* it was only read */
    return status;
}

/* The first line in which both differ, of each of them. */
static void first_difference(const char *a, const char *b, const char **out_a, const char **out_b)
{
    const char *line_a = a, *line_b = b;
    while (*a && *a == *b) {
        if (*a++ == '\n')
            line_a = a, line_b = b + 1;
        b++;
    }
    while (*line_a == ' ')
        line_a++;
    while (*line_b == ' ')
        line_b++;
    *out_a = line_a;
    *out_b = line_b;
}

static int line_length(const char *line)
{
    int n = (int)strcspn(line, "\n");
    return n > 0 && line[n - 1] == ',' ? n - 1 : n;
}

/* "buckets 12\n", then the text of the manifest. */
static fby_status compare_plan(fby__pack *p, const char *path, fby_error *err)
{
    fby__buf found = {0};
    unsigned buckets = 0;
    int head = 0;
    fby_status status = read_plan(p, path, &found, err);
    if (status == FBY_OK && (fby__buf_put(&found, "", 1) != 0 || fby__buf_put(&p->plan, "", 1) != 0))
        status = no_memory(err);
    if (status == FBY_OK) {
        p->plan.n--;
        const char *theirs = (const char *)found.data, *ours = (const char *)p->plan.data, *a, *b;
        if (sscanf(theirs, "buckets %u\n%n", &buckets, &head) < 1 || buckets == 0 || buckets > FBY__PACK_BUCKETS) {
            status = fby__fail(err, FBY_E_FORMAT, "'%s' is damaged: remove the folder it lies in, and pack again", path);
        } else if (strcmp(theirs + head, ours) != 0) {
            first_difference(theirs + head, ours, &a, &b);
            const bool source = strncmp(a, "\"source_", 8) == 0;
            status =
                fby__fail(err, source ? FBY_E_CHANGED : FBY_E_ARG,
                          "'%s' holds an unfinished pack %s: it has %.*s, and this one %.*s. Remove '%s' to begin anew", p->to,
                          source ? "of a source that has changed" : "with other options", line_length(a), a, line_length(b), b, p->work);
        } else {
            status = fby__pack_set_buckets(p, buckets, err);
        }
    }
    fby__buf_fini(&found);
    return status;
}

static fby_status write_plan(fby__pack *p, fby_error *err)
{
    char line[32];
    fby__pack_out out;
    FBY__TRY(fby__pack_out_open(p->work, PLAN, &out, err));
    fby_status status = fby__pack_out_write(&out, line, (size_t)snprintf(line, sizeof line, "buckets %u\n", p->n_buckets), err);
    if (status == FBY_OK)
        status = fby__pack_out_write(&out, p->plan.data, p->plan.n, err);
    if (status == FBY_OK)
        return fby__pack_out_close(&out, true, err);
    fby__pack_out_drop(&out);
    return status;
}

/*
 * Nobody else writes in the work folder as long as this file is open. It is a file of its own, which is never replaced: one that is renamed over
 * leaves two processes with a lock each.
 */
static fby_status lock_work(fby__pack *p, fby_error *err)
{
    struct stat locked, there;
    char *path = fby__format("%s/" LOCK, p->work);
    if (!path)
        return no_memory(err);
    fby_status status = FBY_OK;
    p->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (p->lock < 0 && errno != ENOENT)
        status = fby__fail_errno(err, errno, "cannot open '%s'", path);
    else if (p->lock < 0 || (flock(p->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) /* a file system without locks has none */
             || fstat(p->lock, &locked) != 0 || lstat(path, &there) != 0 || locked.st_ino != there.st_ino)
        status = fby__fail(err, FBY_E_ARG, "'%s' is being packed by another process", p->to);
    fby__free(path);
    return status;
}

/* ---- begin ---- */

/* Anything but our work folder, and, where that is there, files of the pack. */
static fby_status refuse_others(const fby__pack *p, bool work, fby_error *err)
{
    fby_status status = FBY_OK;
    DIR *d = opendir(p->to);
    if (!d)
        return errno == ENOENT ? FBY_OK : fby__fail_errno(err, errno, "cannot open the folder '%s'", p->to);
    for (struct dirent *e; status == FBY_OK && (e = readdir(d));) {
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, WORK) == 0 || (work && strncmp(name, "part-", 5) == 0))
            continue;
        status = strcmp(name, MANIFEST) == 0
                     ? fby__fail(err, FBY_E_ARG, "'%s' holds a finished pack: choose another folder, or remove it", p->to)
                     : fby__fail(err, FBY_E_ARG, "'%s' is not empty: it holds '%s'; choose another folder", p->to, name);
    }
    (void)closedir(d);
    return status;
}

/* In memory there is nothing to tell one table from another by. */
static bool is_in_memory(const fby__pack *p) { return fby__dataset_file_count(p->ds) > 0 && !fby__dataset_facts(p->ds, 0).name; }

static fby_status make_work(fby__pack *p, fby_error *err)
{
    struct stat st;
    FBY__TRY(make_folders(p->work, err));
    if (lstat(p->work, &st) == 0 && !S_ISDIR(st.st_mode)) /* what a link leads to would be emptied at the end */
        return fby__fail(err, FBY_E_ARG, "'%s' is no folder, but a link or a file: remove it, or choose another folder", p->work);
    return FBY_OK;
}

/* What there is, and may there be this pack? */
static fby_status look(const fby__pack *p, bool *out_manifest, bool *out_plan, fby_error *err)
{
    *out_manifest = exists(p->to, MANIFEST);
    *out_plan = exists(p->work, PLAN);
    return *out_manifest && *out_plan ? FBY_OK : refuse_others(p, *out_plan, err);
}

static fby_status begin_locked(fby__pack *p, bool *out_finished, fby_error *err)
{
    bool manifest, plan;
    FBY__TRY(look(p, &manifest, &plan, err)); /* another process may have finished since */
    if (!plan)
        return write_plan(p, err);
    char *path = fby__format("%s/%s", p->work, PLAN);
    fby_status status = path ? compare_plan(p, path, err) : no_memory(err);
    fby__free(path);
    p->resumed = true;
    *out_finished = status == FBY_OK && manifest; /* stopped while it tidied up */
    if (*out_finished)
        remove_files(p->work, NULL, NULL);
    return status;
}

fby_status fby__pack_folder_begin(fby__pack *p, bool *out_finished, fby_error *err)
{
    bool manifest, plan;
    *out_finished = false;
    FBY__TRY(look(p, &manifest, &plan, err)); /* before anything is made in a folder of somebody else's */
    FBY__TRY(make_work(p, err));
    FBY__TRY(lock_work(p, err));
    fby_status status = begin_locked(p, out_finished, err);
    if (status != FBY_OK || *out_finished) {
        if (!p->resumed || *out_finished)
            remove_work(p);
        return status;
    }
    remove_files(p->work, NULL, NEW);
    if (p->resumed && is_in_memory(p)) {
        remove_files(p->work, "part-", NULL);
        remove_files(p->work, "scatter-", NULL);
        remove_files(p->to, "part-", NULL);
        p->resumed = false;
    }
    return FBY_OK;
}

/* ---- finish ---- */

static fby_status move_file(const fby__pack *p, int from, int to, const char *name, fby_error *err)
{
    if (renameat(from, name, to, name) != 0 &&
        (errno != ENOENT || faccessat(to, name, F_OK, 0) != 0)) /* a run before this one was stopped behind it */
        return fby__fail_errno(err, errno, "cannot move '%s' from '%s' to '%s'", name, p->work, p->to);
    return FBY_OK;
}

/* By names that are there already, so that from the first of them on nothing but the disk can fail. */
static fby_status move_files(const fby__pack *p, char *const *names, fby_error *err)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, from = open(p->work, flags), to = from < 0 ? -1 : open(p->to, flags);
    fby_status status = to < 0 ? fby__fail_errno(err, errno, "cannot open the folder '%s'", from < 0 ? p->work : p->to) : FBY_OK;
    for (uint64_t i = 0; status == FBY_OK && i < p->n_files; i++)
        status = move_file(p, from, to, names[i], err);
    if (status == FBY_OK && fsync(to) != 0 && errno != EINVAL) /* EINVAL: this file system has no such call */
        status = fby__fail_errno(err, errno, "cannot write the folder '%s'", p->to);
    if (status == FBY_OK)
        status = move_file(p, from, to, MANIFEST, err);
    if (from >= 0)
        (void)close(from); /* both were only opened to name files in them */
    if (to >= 0)
        (void)close(to);
    return status;
}

static fby_status write_manifest(const fby__pack *p, fby_error *err)
{
    fby__pack_out out;
    FBY__TRY(fby__pack_out_open(p->work, MANIFEST, &out, err));
    const fby_status status = fby__pack_out_write(&out, p->plan.data, p->plan.n, err);
    if (status == FBY_OK)
        return fby__pack_out_close(&out, true, err);
    fby__pack_out_drop(&out);
    return status;
}

fby_status fby__pack_folder_finish(fby__pack *p, fby_error *err)
{
    FBY__TRY(write_manifest(p, err));
    char **names = fby__calloc(p->n_files + 1, sizeof *names);
    fby_status status = names ? FBY_OK : no_memory(err);
    for (uint64_t i = 0; status == FBY_OK && i < p->n_files; i++)
        status = (names[i] = fby__pack_file_name(p, i)) ? FBY_OK : no_memory(err);
    if (status == FBY_OK)
        status = move_files(p, names, err);
    for (uint64_t i = 0; names && i < p->n_files; i++)
        fby__free(names[i]);
    fby__free(names);
    if (status == FBY_OK)
        status = sync_folder(p->to, err);
    if (status == FBY_OK) {
        remove_files(p->work, "scatter-", NULL); /* the plan last: as long as it is there, another run finishes this */
        remove_files(p->work, NULL, NULL);
        remove_work(p);
    }
    return status;
}
