/* The target folder of a pack: see pack_impl.h for what lies in it. */
#include "base/cancel.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK ".forebay-pack"

static fby_status no_memory(fby_error *err) { return fby__fail_nomem(err, "a pack"); }

/* ---- paths ---- */

/* false: the system knows no path so long. Needs no memory: see fby__pack_name. */
static bool path_in(const char *folder, const char *name, char out[PATH_MAX])
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return n > 0 && n < PATH_MAX;
}

/* Stats whatever has the name; a link is not followed. */
static bool look_at(const char *folder, const char *name, struct stat *out)
{
    char path[PATH_MAX];
    return path_in(folder, name, path) && lstat(path, out) == 0;
}

static bool has_whole(const char *folder, const char *name)
{
    struct stat st;
    return look_at(folder, name, &st) && fby__pack_is_whole(&st);
}

bool fby__pack_has_file(const fby__pack *p, uint64_t file)
{
    const fby__pack_name name = fby__pack_file_name(p, file);
    return has_whole(p->work, name.text) || has_whole(p->to, name.text);
}

char *fby__pack_file_path(const fby__pack *p, uint64_t file)
{
    const fby__pack_name name = fby__pack_file_name(p, file);
    return fby__format("%s/%s", has_whole(p->work, name.text) ? p->work : p->to, name.text);
}

uint64_t fby__pack_written_bytes(const fby__pack *p)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < p->n_files; i++) {
        struct stat st;
        char path[PATH_MAX];
        sum += path_in(p->to, fby__pack_file_name(p, i).text, path) && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
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

/* What a link leads to is not ours to empty. */
static int open_work(const fby__pack *p) { return open(p->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

/* To list it; NULL: it cannot be. */
static DIR *list_work(const fby__pack *p)
{
    const int fd = open_work(p);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        (void)close(fd); /* it was only opened */
    return d;
}

/* Files of the work folder whose names begin or end so (NULL: all but the lock). */
static void remove_files(const fby__pack *p, const char *begin, const char *end)
{
    DIR *d = list_work(p);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && (!begin || strncmp(e->d_name, begin, strlen(begin)) == 0) && (!end || ends_with(e->d_name, end)))
            (void)unlinkat(dirfd(d), e->d_name, 0); /* what stays is in the way of the folder's removal, or replaced */
    if (d)
        (void)closedir(d);
}

/* If nothing but the lock is left in it. */
static void remove_work(const fby__pack *p)
{
    const int fd = open_work(p);
    if (fd >= 0) {
        (void)unlinkat(fd, FBY__PACK_LOCK, 0); /* whoever has this file open sees that it is the folder's no more */
        (void)close(fd);                       /* it was only opened to name a file in it */
    }
    (void)rmdir(p->work);
}

void fby__pack_folder_tidy(const fby__pack *p)
{
    remove_files(p, "scatter-", NULL); /* the plan last: as long as it is there, another run finishes this */
    remove_files(p, NULL, NULL);
    remove_work(p);
}

/* ---- begin ---- */

/* Is it the name of one of files [first, last)? Names sort as files are numbered: keys.h. */
static bool is_file_name(const fby__pack *p, uint64_t first, uint64_t last, const char *name)
{
    while (first < last) {
        const uint64_t middle = first + (last - first) / 2;
        const int order = strcmp(fby__pack_file_name(p, middle).text, name);
        if (order == 0)
            return true;
        if (order < 0)
            first = middle + 1;
        else
            last = middle;
    }
    return false;
}

/* May it be in the target folder? begun: there is a plan, so some files may have their final names; if the manifest has, another has just finished. */
static bool is_ours(const fby__pack *p, bool begun, const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, WORK) == 0 ||
           (begun && (is_file_name(p, 0, p->n_files, name) || (strcmp(name, FBY__PACK_MANIFEST) == 0 && has_whole(p->to, name))));
}

static fby_status refuse_others(const fby__pack *p, bool begun, fby_error *err)
{
    fby_status status = FBY_OK;
    DIR *d = opendir(p->to);
    if (!d)
        return errno == ENOENT ? FBY_OK : fby__fail_errno(err, errno, "cannot open the folder '%s'", p->to);
    for (struct dirent *e; status == FBY_OK && (e = readdir(d));)
        if (!is_ours(p, begun, e->d_name))
            status =
                begun ? fby__fail(err, FBY_E_ARG, "'%s' holds '%s', which is not of the unfinished pack there: remove it", p->to, e->d_name)
                      : fby__fail(err, FBY_E_ARG, "'%s' is not empty: it holds '%s'; choose another folder", p->to, e->d_name);
    (void)closedir(d);
    return status;
}

bool fby__pack_in_memory(const fby__pack *p) { return fby__dataset_file_count(p->ds) > 0 && !*fby__dataset_facts(p->ds, 0).name; }

fby_status fby__pack_look(const fby__pack *p, fby__pack_state *out, fby_error *err)
{
    struct stat st;
    if (lstat(p->work, &st) == 0 && !S_ISDIR(st.st_mode)) /* what a link leads to would be emptied at the end */
        return fby__fail(err, FBY_E_ARG, "'%s' is no folder, but a link or a file: remove it, or choose another folder", p->work);
    const bool plan = look_at(p->work, FBY__PACK_PLAN, &st); /* first: whoever finishes the pack removes it after the manifest is there */
    const bool manifest = has_whole(p->to, FBY__PACK_MANIFEST);
    *out = manifest && plan ? FBY__PACK_UNTIDY : manifest ? FBY__PACK_FINISHED : plan ? FBY__PACK_UNFINISHED : FBY__PACK_NOTHING;
    return *out == FBY__PACK_NOTHING ? refuse_others(p, false, err) : FBY_OK;
}

fby_status fby__pack_adopt(fby__pack *p, fby__pack_state state, fby_error *err)
{
    if (state == FBY__PACK_UNFINISHED || state == FBY__PACK_UNTIDY)
        FBY__TRY(fby__pack_plan_read(p, err));
    if (state == FBY__PACK_FINISHED || state == FBY__PACK_UNTIDY)
        return fby__pack_manifest_compare(p, err);
    return state == FBY__PACK_UNFINISHED ? refuse_others(p, true, err) : FBY_OK;
}

fby_status fby__pack_make_folders(const fby__pack *p, fby_error *err) { return make_folders(p->work, err); }

static fby_status refuse_finished(const fby__pack *p, fby__pack_state state, fby_error *err)
{
    return state == FBY__PACK_FINISHED ? fby__fail(err, FBY_E_ARG, "'%s' holds a finished pack: choose another folder, or remove it", p->to)
                                       : FBY_OK;
}

static fby_status begin_locked(fby__pack *p, bool *out_finished, fby_error *err)
{
    fby__pack_state state;
    FBY__TRY(fby__pack_look(p, &state, err)); /* another process may have finished since */
    FBY__TRY(refuse_finished(p, state, err));
    if (state == FBY__PACK_NOTHING)
        return fby__pack_plan_write(p, err);
    const fby_status status = fby__pack_adopt(p, state, err);
    p->resumed = true;
    *out_finished = status == FBY_OK && state == FBY__PACK_UNTIDY;
    return status;
}

fby_status fby__pack_folder_check(fby__pack *p, fby_error *err)
{
    fby__pack_state state;
    FBY__TRY(fby__pack_look(p, &state, err));
    FBY__TRY(refuse_finished(p, state, err));
    return state == FBY__PACK_NOTHING ? fby__pack_attributes_find(p, err) : fby__pack_adopt(p, state, err);
}

/* Files that have their final names already. */
static void remove_final(const fby__pack *p)
{
    char path[PATH_MAX];
    for (uint64_t i = 0; i < p->n_files; i++)
        if (path_in(p->to, fby__pack_file_name(p, i).text, path))
            (void)unlink(path); /* there may be none */
}

fby_status fby__pack_folder_begin(fby__pack *p, bool *out_finished, fby_error *err)
{
    fby__pack_state state;
    *out_finished = false;
    FBY__TRY(fby__pack_look(p, &state, err)); /* before anything is made in a folder of somebody else's */
    FBY__TRY(refuse_finished(p, state, err));
    if (state == FBY__PACK_NOTHING)
        FBY__TRY(fby__pack_attributes_find(p, err));
    FBY__TRY(fby__pack_make_folders(p, err));
    FBY__TRY(fby__pack_lock(p, FBY__PACK_ALONE, err));
    fby_status status = begin_locked(p, out_finished, err);
    if (*out_finished)
        fby__pack_folder_tidy(p);
    else if (status != FBY_OK && !p->resumed)
        remove_work(p);
    if (status != FBY_OK || *out_finished)
        return status;
    remove_files(p, NULL, FBY__PACK_NEW);
    if (p->resumed && fby__pack_in_memory(p)) {
        remove_files(p, "part-", NULL);
        remove_files(p, "scatter-", NULL);
        remove_final(p);
        p->resumed = false;
    }
    return FBY_OK;
}

/* ---- what a task that was killed has left ---- */

/* What NAME.0123456789abcdef.new would have become; false: the name is of no file that is written aside. */
static bool name_of_aside(const char *aside, char out[NAME_MAX + 1])
{
    const size_t n = strlen(aside), tail = 1 + 16 + strlen(FBY__PACK_NEW);
    if (!ends_with(aside, FBY__PACK_NEW) || n <= tail || n > NAME_MAX || aside[n - tail] != '.')
        return false;
    memcpy(out, aside, n - tail);
    out[n - tail] = 0;
    return true;
}

void fby__pack_remove_left(const fby__pack *p, const char *name, uint64_t first, uint64_t last)
{
    char of[NAME_MAX + 1];
    DIR *d = list_work(p);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!name_of_aside(e->d_name, of) || !(name ? strcmp(of, name) == 0 : is_file_name(p, first, last, of)))
            continue;
        const int fd = openat(dirfd(d), e->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(dirfd(d), e->d_name, 0); /* what stays is removed by whoever finishes the pack */
        if (fd >= 0)
            (void)close(fd); /* it was only locked */
    }
    if (d)
        (void)closedir(d);
}

/* ---- finish ---- */

static fby_status move_file(const fby__pack *p, int from, int to, const char *name, fby_error *err)
{
    struct stat there;
    if (renameat(from, name, to, name) == 0)
        return FBY_OK;
    const int reason = errno; /* ENOENT, and it is there: a run before this one was stopped behind it */
    if (reason != ENOENT || fstatat(to, name, &there, AT_SYMLINK_NOFOLLOW) != 0 || !fby__pack_is_whole(&there))
        return fby__fail_errno(err, reason, "cannot move '%s' from '%s' to '%s'", name, p->work, p->to);
    return FBY_OK;
}

/* Names need no memory: from the first file on nothing but the disk can fail. */
static fby_status move_files(const fby__pack *p, fby_error *err)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, from = open_work(p), to = from < 0 ? -1 : open(p->to, flags);
    fby_status status = to < 0 ? fby__fail_errno(err, errno, "cannot open the folder '%s'", from < 0 ? p->work : p->to) : FBY_OK;
    for (uint64_t i = 0; status == FBY_OK && i < p->n_files; i++)
        status = move_file(p, from, to, fby__pack_file_name(p, i).text, err);
    if (status == FBY_OK && fsync(to) != 0 && errno != EINVAL) /* EINVAL: this file system has no such call */
        status = fby__fail_errno(err, errno, "cannot write the folder '%s'", p->to);
    if (status == FBY_OK)
        status = move_file(p, from, to, FBY__PACK_MANIFEST, err);
    if (from >= 0)
        (void)close(from); /* both were only opened to name files in them */
    if (to >= 0)
        (void)close(to);
    return status;
}

static fby_status write_manifest(const fby__pack *p, fby_error *err)
{
    fby__pack_out out;
    char *stopped = fby__format("%s/" FBY__PACK_MANIFEST, p->work);
    if (!stopped)
        return no_memory(err);
    (void)unlink(stopped); /* of a run that was stopped here, and may not have verified */
    fby__free(stopped);
    FBY__TRY(fby__pack_out_open(p->work, FBY__PACK_MANIFEST, &out, err));
    const fby_status status = fby__pack_out_write(&out, p->plan.data, p->plan.n, err);
    if (status == FBY_OK)
        return fby__pack_out_close(&out, true, err);
    fby__pack_out_drop(&out);
    return status;
}

fby_status fby__pack_folder_finish(fby__pack *p, fby_error *err)
{
    FBY__TRY(write_manifest(p, err));
    FBY__TRY(move_files(p, err));
    FBY__TRY(sync_folder(p->to, err));
    fby__pack_folder_tidy(p);
    return FBY_OK;
}
