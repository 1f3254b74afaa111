/*
 * forebay-hdf5: libhdf5 in a process of its own, for the HDF5 files that Forebay's reader leaves to it. It is started by the
 * library, with a socket as descriptor 3 and nothing else; protocol.h says what goes over it. To write a file, which is descriptor 4
 * then, it is started anew each time: what reads files of others never has anything to write to.
 *
 * What it survives and what not: a failure of libhdf5 is an answer. A crash ends this process, the client tells its caller and
 * starts another. When the client is gone the socket closes, and a thread of its own ends the process even while libhdf5 is lost
 * in a loop. (PR_SET_PDEATHSIG would not do: it fires when the thread that started us ends, not the process.)
 */
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whatever the user's process had open without close-on-exec: none of it is ours to hold. @last  of ours */
static void close_inherited(int last)
{
    DIR *d = opendir("/proc/self/fd");
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        int fd = atoi(e->d_name);
        if (fd > last && fd != dirfd(d))
            (void)close(fd);
    }
    (void)closedir(d);
}

/* POLLHUP is reported without being asked for; everything else is the main thread's. */
static void *wait_for_hangup(void *unused)
{
    struct pollfd p = {.fd = FBY__H5P_FD};
    (void)unused;
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        continue;
    _exit(0);
}

/* @writes  one file, and reads none; @folders  what may be read besides libraries; @lacks  what the kernel could not do */
static int set_up(bool writes, int n_folders, char *const *folders, char *lacks, size_t n)
{
    pthread_t thread;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN); /* from a terminal they come to the whole group: the client decides */
    (void)signal(SIGQUIT, SIG_IGN);
    /* Locks are no use to a reader of finished files, and fail on some network file systems. */
    if (setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1) != 0)
        return -1;
    close_inherited(writes ? FBY__H5P_WRITTEN_FD : FBY__H5P_FD);
    const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    confine(n_folders, folders, lacks, n); /* before there is a second thread, which would not be confined */
    if (pthread_create(&thread, NULL, wait_for_hangup, NULL) != 0)
        return -1;
    if (H5dont_atexit() < 0 || H5open() < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0)
        return -1;
    own_memory(statm);
    return 0;
}

int main(int argc, char **argv)
{
    struct stat st;
    if (fstat(FBY__H5P_FD, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        (void)fputs("forebay-hdf5 reads HDF5 files for the Forebay library, which starts it by itself.\n", stderr);
        return 2;
    }
    fby__h5p_reply hello = {.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .kind = FBY__H5P_HELLO};
    const bool writes = argc == 2 && strcmp(argv[1], FBY__H5P_WRITE_MODE) == 0;
    if (set_up(writes, writes ? 0 : argc - 1, argv + 1, hello.message, sizeof hello.message) != 0)
        return 1;
    if (writes)
        opens_written(FBY__H5P_WRITTEN_FD);
    if (send_reply(&hello, -1) != 0)
        return 1;
    while (writes ? serve_writing() : serve())
        continue;
    _exit(0); /* nothing here outlives the process; libhdf5 may be in no state to say goodbye */
}
