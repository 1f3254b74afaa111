/*
 * The index cache: where it is, what it takes, and its removal. Only files that the library made are counted and removed, by the ends of
 * their names, directly in that folder, and no link is followed.
 */
#include "doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the library writes there (src/dataset/index.c, cache_file.c, src/samples/cache.c); unfinished ones have more behind it. */
static bool is_ours(const char *name)
{
    static const char *const ENDS[] = {".fbyindex", ".fbysamples", ".fbychoice", ".fbychecked", ".fbykey"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (strstr(name, ENDS[i]))
            return true;
    return false;
}

/** Call use() for each file of ours; an errno when the folder cannot be read. One that is not there yet has none. */
static int each_file(const char *folder, void (*use)(int dir_fd, const char *name, const struct stat *st, void *user), void *user)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        const int failed = errno;
        if (fd >= 0)
            (void)close(fd); /* nothing was written */
        return failed == ENOENT ? 0 : failed;
    }
    const struct dirent *entry;
    struct stat st;
    while ((entry = readdir(dir)))
        if (is_ours(entry->d_name) && fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            use(fd, entry->d_name, &st, user);
    (void)closedir(dir); /* it was only read */
    return 0;
}

static void count_file(int dir_fd, const char *name, const struct stat *st, void *user)
{
    (void)dir_fd;
    (void)name;
    doctor_cache *cache = user;
    cache->n_files++;
    cache->n_bytes += (uint64_t)st->st_size;
}

void doctor_cache_find(doctor_cache *cache, const char *folder)
{
    char found[PATH_MAX];
    fby_error err;
    const bool asked = fby_index_cache(folder, found, sizeof found, &cache->refusal, &err) == FBY_OK;
    if (!asked || !*found) {
        cli_text_add(&cache->why, asked ? "HOME is not set" : err.message);
        return;
    }
    cli_text_add(&cache->folder, found);
    cache->sys_errno = each_file(cli_text_str(&cache->folder), count_file, cache);
    char *path = strdup(cli_text_str(&cache->folder));
    while (path && access(path, F_OK) != 0 && strrchr(path, '/') > path) /* the library makes the folders that are missing */
        *strrchr(path, '/') = 0;
    cache->writable = !cache->sys_errno && !cache->refusal && path && access(path, W_OK) == 0;
    free(path);
}

void doctor_cache_fini(doctor_cache *cache)
{
    cli_text_free(&cache->folder);
    cli_text_free(&cache->why);
}

typedef struct removal {
    uint64_t n_files, n_bytes;
    int sys_errno;
    cli_text failed;
} removal;

static void remove_file(int dir_fd, const char *name, const struct stat *st, void *user)
{
    removal *done = user;
    if (unlinkat(dir_fd, name, 0) == 0) {
        done->n_files++;
        done->n_bytes += (uint64_t)st->st_size;
    } else if (errno != ENOENT && !done->failed.n) {
        done->sys_errno = errno;
        cli_text_add(&done->failed, name);
    }
}

int doctor_cache_clear(const doctor_cache *cache, bool yes, bool json)
{
    const char *folder = cli_text_str(&cache->folder);
    if (!cache->folder.n)
        return cli_error(CLI_USAGE, "forebay doctor --clear-cache --cache-dir DIR", "doctor: there is no index cache: %s",
                         cli_text_str(&cache->why));
    if (cache->sys_errno)
        return cli_error(CLI_FAILED, NULL, "cannot read %s: %s", folder, strerror(cache->sys_errno));
    if (!yes && cache->n_files) {
        if (json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
            return cli_error(CLI_USAGE, "forebay doctor --clear-cache --yes",
                             "doctor: %s files (%s) in %s would be removed, and nobody can be asked", cli_count(cache->n_files),
                             cli_size(cache->n_bytes), folder);
        fprintf(stderr, "Remove %s files (%s) of the index cache in %s? [y/N] ", cli_count(cache->n_files), cli_size(cache->n_bytes),
                cli_printable(folder));
        char answer[16] = "";
        if (!fgets(answer, sizeof answer, stdin) || (answer[0] != 'y' && answer[0] != 'Y')) {
            fputs("Nothing was removed.\n", stderr);
            return CLI_FAILED;
        }
    }
    removal done = {0};
    (void)each_file(folder, remove_file, &done); /* it could be read a moment ago */
    int code = CLI_OK;
    if (done.failed.n)
        code = cli_error(CLI_FAILED, NULL, "cannot remove %s/%s: %s", folder, cli_text_str(&done.failed), strerror(done.sys_errno));
    else if (json)
        code = cli_print_json(json_pack("{s:s, s:s, s:o, s:I, s:I}", "command", "doctor", "forebay", fby_version(), "cache",
                                        cli_json_text(folder), "removed_files", (json_int_t)done.n_files, "removed_bytes",
                                        (json_int_t)done.n_bytes),
                              6);
    else
        printf("removed %s files (%s) from %s\n", cli_count(done.n_files), cli_size(done.n_bytes), cli_printable(folder));
    cli_text_free(&done.failed);
    return code;
}
