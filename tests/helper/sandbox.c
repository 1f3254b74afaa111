/* What the helper program has given up before it looks at a file: each is tried in a child that has confined itself. */
#include "../../helper/server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ALL_HELD = 0, NO_SECCOMP = 77 };

static void *nothing(void *user) { return user; }

static bool denied(long result) { return result == -1 && errno == EPERM; }

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
