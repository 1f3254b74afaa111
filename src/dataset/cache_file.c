/*
 * Files of the cache directory: read whole if they are to be believed, written aside and renamed.
 *
 * Who writes an index can change what a data set contains. So a directory, or a file in it, that is another user's or that others may
 * write is left alone, and what was written elsewhere and copied here counts for nothing: behind the bytes of a file stands a code of 16
 * bytes, SipHash under a key that is made of the user's key and the name of the file. The user's key is random, in the directory
 * beside the files, readable by nobody else. A file whose code does not hold (forged, renamed, torn, of another key) is an absent one,
 * never an error: what it says is found anew.
 */
#include "base/siphash.h"
#include "dataset/dataset_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_FILES 512u /* of one suffix in the cache directory: beyond it the one unused for longest goes */
#define OWN_SUFFIX ".fby"
#define KEY_NAME OWN_SUFFIX "key"
#define TEMPORARY ".XXXXXX" /* behind the name of a file that is being made */
#define LEFT_SECONDS 86400  /* nobody is still making a file that is older */

/* Nobody else can have put it there; the administrator could do so anyway. */
static bool is_ours(const struct stat *st) { return (st->st_uid == geteuid() || st->st_uid == 0) && !(st->st_mode & (S_IWGRP | S_IWOTH)); }

static fby_status read_whole(int fd, uint8_t *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t got = read(fd, p + at, n - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return FBY_E_IO;
        at += (size_t)got;
    }
    return FBY_OK;
}

/* ---- the user's key ---- */

/* Why the key of a directory is not to be used, or NULL: then it is in *out if there is one. */
static const char *read_key(const char *dir, fby__siphash_key *out, bool *out_found)
{
    const char *why = NULL;
    struct stat st;
    char path[PATH_MAX];
    *out_found = false;
    if ((size_t)snprintf(path, sizeof path, "%s/" KEY_NAME, dir) >= sizeof path)
        return "its path is too long";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? NULL
                                                   : "its key '" KEY_NAME "' cannot be read, as another user's; name another directory";
    if (fstat(fd, &st) != 0 || !is_ours(&st) || (st.st_mode & (S_IRGRP | S_IROTH)))
        why = "its key '" KEY_NAME "' belongs to another user, or others may read it; remove it";
    else if (!S_ISREG(st.st_mode) || st.st_size != sizeof *out || read_whole(fd, out->bytes, sizeof out->bytes) != FBY_OK)
        why = "its key '" KEY_NAME "' is damaged; remove it";
    (void)close(fd); /* read only */
    *out_found = !why;
    return why;
}

const char *fby__cache_refusal(const char *dir)
{
    struct stat st;
    fby__siphash_key key;
    bool found;
    if (stat(dir, &st) == 0 && !is_ours(&st)) /* one that is not there yet is made with mode 0700 */
        return "it belongs to another user, or others may write to it, and what it says could be forged; chmod go-w it, or name another "
               "one";
    return read_key(dir, &key, &found);
}

/* The code of a file's bytes, which is good under its name alone. */
static fby__hash128 code_of(const fby__siphash_key *key, const char *name, const uint8_t *p, size_t n)
{
    fby__siphash_key own;
    const fby__hash128 of_name = fby__siphash(key, name, strlen(name));
    memcpy(own.bytes, &of_name, sizeof own.bytes);
    return fby__siphash_lanes(&own, p, n);
}

/* ---- reading ---- */

static fby_status read_image(const char *path, size_t least, fby__buf *out)
{
    fby_status status = FBY_E_IO;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return FBY_E_IO;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)least)
        goto done;
    if (!is_ours(&st)) {
        status = FBY_E_STATE;
        goto done;
    }
    out->n = out->cap = (size_t)st.st_size;
    if (!(out->data = fby__malloc(out->n))) /* a file that is no index, however large, counts as absent */
        goto done;
    status = read_whole(fd, out->data, out->n);
    /* Its use counts when old ones are dropped; atime may be off. Failing to say so is harmless. */
    (void)futimens(fd, NULL);
done:
    (void)close(fd); /* read only */
    return status;
}

fby_status fby__cache_read(const char *dir, const char *name, size_t least, fby__buf *out)
{
    fby__siphash_key key;
    fby__hash128 stored, found;
    bool has_key;
    if (read_key(dir, &key, &has_key) || !has_key)
        return FBY_E_IO;
    char *path = fby__format("%s/%s", dir, name);
    if (!path)
        return FBY_E_NOMEM;
    fby_status status = read_image(path, least + sizeof stored, out);
    fby__free(path);
    FBY__TRY(status);
    out->n -= sizeof stored;
    memcpy(&stored, out->data + out->n, sizeof stored);
    found = code_of(&key, name, out->data, out->n);
    return fby__checksum_holds(stored.lo, found.lo) && fby__checksum_holds(stored.hi, found.hi) ? FBY_OK : FBY_E_FORMAT;
}

/* ---- writing ---- */

static fby_status make_directories(const char *dir, fby_error *err)
{
    char *path = fby__strdup(dir);
    if (!path)
        return fby__fail_nomem(err, "index cache");
    fby_status status = FBY_OK;
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char end = *p;
        *p = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST && (!end || errno != EROFS)) {
            status = fby__fail_errno(err, errno, "cannot make the directory '%s'", path);
            break;
        }
        *p = end;
        if (!end)
            break;
    }
    fby__free(path);
    return status;
}

/* A name that put_file() makes a file under: "….fbyindex.XXXXXX". */
static bool is_temporary(const char *name, size_t len)
{
    const size_t random = strlen(TEMPORARY);
    if (len <= random || name[len - random] != '.')
        return false;
    const char *own = memrchr(name, '.', len - random);
    return own && strncmp(own, OWN_SUFFIX, strlen(OWN_SUFFIX)) == 0;
}

/*
 * Keep the cache bounded: beyond MAX_FILES the file that was not used for longest goes, and what a process that was killed has left. Best effort,
 * so no errors.
 */
static void drop_oldest(const char *dir, const char *suffix)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    unsigned n = 0;
    char oldest[256] = "";
    struct timespec oldest_time = {0};
    for (struct dirent *entry; (entry = readdir(d));) {
        size_t len = strlen(entry->d_name), m = strlen(suffix);
        struct stat st;
        if (is_temporary(entry->d_name, len)) {
            if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_mtim.tv_sec > LEFT_SECONDS)
                (void)unlinkat(dirfd(d), entry->d_name, 0);
            continue;
        }
        if (len <= m || strcmp(entry->d_name + len - m, suffix) != 0 || fstatat(dirfd(d), entry->d_name, &st, 0) != 0)
            continue;
        n++;
        if (!*oldest || st.st_mtim.tv_sec < oldest_time.tv_sec) {
            (void)snprintf(oldest, sizeof oldest, "%s", entry->d_name);
            oldest_time = st.st_mtim;
        }
    }
    if (n > MAX_FILES)
        (void)unlinkat(dirfd(d), oldest, 0);
    (void)closedir(d);
}

static bool write_whole(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t put = write(fd, (const uint8_t *)p + at, n - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += (size_t)put;
    }
    return true;
}

/*
 * A file of these bytes and the code behind them (NULL: none), made under another name and put in place. `once`: one that another process
 * has made meanwhile stays.
 */
static fby_status put_file(const char *dir, const char *name, const void *p, size_t n, const fby__hash128 *code, bool once, fby_error *err)
{
    fby_status status = FBY_E_NOMEM;
    int fd = -1;
    bool made = false, whole, named;
    char *path = fby__format("%s/%s", dir, name), *temporary = fby__format("%s/%s" TEMPORARY, dir, name);
    if (!path || !temporary) {
        (void)fby__fail_nomem(err, "index cache");
        goto done;
    }
    status = FBY_OK;
    fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    made = fd >= 0;
    whole = made && write_whole(fd, p, n) && (!code || write_whole(fd, code, sizeof *code)) && fsync(fd) == 0;
    if (whole) {
        whole = close(fd) == 0;
        fd = -1;
    }
    /* Where there are no hard links, the last process wins: what the others have written by then is written again. */
    named = whole && once && (link(temporary, path) == 0 || errno == EEXIST);
    if (whole && !named) {
        named = rename(temporary, path) == 0;
        made = !named;
    }
    if (!named)
        status = fby__fail_errno(err, errno, "cannot write '%s'", temporary);
done:
    if (fd >= 0)
        (void)close(fd); /* its content is thrown away */
    if (made)
        (void)unlink(temporary);
    fby__free(path);
    fby__free(temporary);
    return status;
}

/* The key of the directory; the first process to want one makes it. */
static fby_status get_key(const char *dir, fby__siphash_key *out, fby_error *err)
{
    bool found;
    const char *why = read_key(dir, out, &found);
    if (!why && !found) {
        if (getrandom(out->bytes, sizeof out->bytes, 0) != (ssize_t)sizeof out->bytes)
            return fby__fail_errno(err, errno, "no random bytes for a key of the cache folder '%s'", dir);
        FBY__TRY(put_file(dir, KEY_NAME, out->bytes, sizeof out->bytes, NULL, true, err));
        why = read_key(dir, out, &found); /* that of another process, perhaps */
    }
    if (!why && !found)
        why = "its key '" KEY_NAME "' was removed just now";
    return why ? fby__fail(err, FBY_E_STATE, "the cache folder '%s' is not used: %s", dir, why) : FBY_OK;
}

fby_status fby__cache_write(const char *dir, const char *name, const fby__buf *image, fby_error *err)
{
    fby__siphash_key key;
    FBY__TRY(make_directories(dir, err));
    FBY__TRY(get_key(dir, &key, err));
    const fby__hash128 code = code_of(&key, name, image->data, image->n);
    FBY__TRY(put_file(dir, name, image->data, image->n, &code, false, err));
    drop_oldest(dir, strrchr(name, '.'));
    return FBY_OK;
}
