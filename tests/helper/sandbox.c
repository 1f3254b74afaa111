/* What the helper program has given up before it looks at a file: each is tried in a child that has confined itself. */
#include "../../helper/server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ALL_HELD = 0, NO_SECCOMP = 77 };

static void *nothing(void *user) { return user; }

static bool denied(long result) { return result == -1 && errno == EPERM; }

/* What the headers here may not know, by its number, which is the same on all machines. */
enum { FCHMODAT2 = 452, SETXATTRAT = 463, REMOVEXATTRAT = 466, FILE_SETATTR = 469, OF_THE_FUTURE = 1000 };

static bool is_unknown(long number) { return syscall(number, AT_FDCWD, "/nowhere", 0, 0, 0, 0) == -1 && errno == ENOSYS; }

/* 0, or the number of the first line that did not hold. */
static int in_the_sandbox(void)
{
    char lacks[100];
    const pid_t parent = getppid();
    int ends[2];
    if (pipe(ends) != 0)
        return __LINE__;
    confine(0, NULL, lacks, sizeof lacks);
    if (strstr(lacks, "seccomp"))
        return NO_SECCOMP;
    struct f_owner_ex owner = {F_OWNER_PID, parent};
    char *const argv[] = {(char *)(uintptr_t) "/bin/true", NULL};
#define HOLDS(what)                                                                                                                        \
    if (!(what))                                                                                                                           \
    return __LINE__
    HOLDS(denied(fcntl(ends[0], F_SETOWN, parent)));
    HOLDS(denied(fcntl(ends[0], F_SETSIG, SIGTERM)));
    HOLDS(denied(fcntl(ends[0], F_SETOWN_EX, &owner)));
    HOLDS(denied(fcntl(ends[0], F_SETLEASE, F_RDLCK)));
    HOLDS(denied(ioctl(ends[0], SIOCSPGRP, &owner.pid)));
    HOLDS(denied(kill(parent, 0)));
    HOLDS(denied(socket(AF_UNIX, SOCK_STREAM, 0)));
    HOLDS(denied(execve(argv[0], argv, argv + 1)));
    HOLDS(denied(fork()));
    HOLDS(denied(open("/tmp/never", O_WRONLY | O_CREAT, 0600)));
#ifdef SYS_renameat
    HOLDS(denied(syscall(SYS_renameat, AT_FDCWD, "/nowhere/a", AT_FDCWD, "/nowhere/b")));
#endif
    HOLDS(is_unknown(FCHMODAT2) && is_unknown(SETXATTRAT) && is_unknown(REMOVEXATTRAT) && is_unknown(FILE_SETATTR));
    HOLDS(is_unknown(OF_THE_FUTURE));
    HOLDS(denied(shmctl(0, IPC_STAT, NULL)) && shmat(0, NULL, 0) == (void *)-1 && errno == EPERM);
    HOLDS(denied(msgsnd(0, &owner, 0, IPC_NOWAIT)) && denied(semop(0, NULL, 0)));
    HOLDS(denied(sched_setaffinity(parent, 0, NULL)) && denied(setpriority(PRIO_PROCESS, (id_t)parent, 0)));
    /* What a reader needs. */
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    HOLDS(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(ends[0], F_GETFD) >= 0);
    int copy = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
    HOLDS(copy >= 0 && close(copy) == 0);
    return ALL_HELD;
}

static void test_what_is_given_up(void **state)
{
    (void)state;
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        _exit(in_the_sandbox());
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_SECCOMP)
        skip();
    assert_int_equal(WEXITSTATUS(status), ALL_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_given_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
