/* How the helper program is started: its environment, its descriptors, and its folders. See helper.h. */
#include "base/alloc.h"
#include "format/hdf5/client/helper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The program's name, then the folders; NULL: no memory. Owned by the caller, its texts are not. */
static char **arguments(fby__bytes folders)
{
    size_t n = 0;
    for (size_t at = 0; at < folders.n; at += strlen((const char *)folders.data + at) + 1)
        n++;
    char **argv = fby__calloc(n + 3, sizeof *argv);
    if (!argv)
        return NULL;
    argv[0] = (char *)(uintptr_t) "forebay-hdf5";
    size_t i = 1;
    for (size_t at = 0; at < folders.n; at += strlen(argv[i - 1]) + 1)
        argv[i++] = (char *)(uintptr_t)folders.data + at;
    return argv;
}

/* Returns 0 or an errno. */
static int spawn(const char *program, const fby__h5_environment *environment, char **argv, int socket, int file, pid_t *out_pid)
{
    char *variables[FBY__H5_VARIABLES + 1];
    size_t n = 0;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r = posix_spawn_file_actions_init(&files);
    if (r)
        return r;
    r = posix_spawnattr_init(&attr);
    if (r) {
        (void)posix_spawn_file_actions_destroy(&files);
        return r;
    }
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    for (size_t at = 0; at < environment->bytes; at += strlen(variables[n++]) + 1)
        variables[n] = (char *)(uintptr_t)environment->variables + at;
    variables[n] = NULL;
    r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    for (int fd = 1; !r && fd <= 2; fd++) /* the library never prints: neither does its program */
        r = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_WRONLY, 0);
    if (!r)
        r = posix_spawn_file_actions_adddup2(&files, socket, FBY__H5P_FD);
    if (!r && file >= 0)
        r = posix_spawn_file_actions_adddup2(&files, file, FBY__H5P_WRITTEN_FD);
    if (!r)
        r = posix_spawnattr_setsigmask(&attr, &none);
    if (!r)
        r = posix_spawnattr_setsigdefault(&attr, &all);
    if (!r)
        r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!r)
        r = posix_spawn(out_pid, program, &files, &attr, argv, variables);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attr);
    return r;
}

fby_status fby__h5_helper_spawn(const char *program, const fby__h5_environment *environment, fby__bytes folders, int socket, int file,
                                pid_t *out_pid, fby_error *err)
{
    static const uint8_t WRITE_MODE[] = FBY__H5P_WRITE_MODE;
    char **argv = arguments(file < 0 ? folders : (fby__bytes){WRITE_MODE, sizeof WRITE_MODE});
    if (!argv)
        return fby__fail_nomem(err, "the helper program");
    const int r = spawn(program, environment, argv, socket, file, out_pid);
    fby__free(argv);
    if (r == 0)
        return FBY_OK;
    fby_status code = fby__fail_errno(err, r, "the helper program %.300s cannot be run", program);
    if (r == ENOEXEC || r == EACCES || r == ENOENT || r == ELIBBAD)
        code = FBY_E_UNSUPPORTED; /* as if there were none: a script without its interpreter, another machine's program */
    if (err)
        err->code = code;
    return code;
}

static fby_status fail_no_socket(int sys_errno, fby_error *err)
{
    return fby__fail_errno(err, sys_errno, "no socket for the helper program%s", sys_errno == EMFILE ? " (raise `ulimit -n`)" : "");
}

fby_status fby__h5_helper_pair(int type, int *out_ours, int *out_theirs, fby_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) != 0)
        return fail_no_socket(errno, err);
    *out_theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, FBY__H5_CHILD_FD_LEAST);
    const int saved = errno == EINVAL ? EMFILE : errno; /* the limit is below the least */
    (void)close(pair[1]);
    if (*out_theirs < 0) {
        (void)close(pair[0]);
        return fail_no_socket(saved, err);
    }
    *out_ours = pair[0];
    return FBY_OK;
}
