/* The helper program as a process: a read that needs it, and after each test no process and no descriptor that was not there before. */
#ifndef FBY_TESTS_H5_HELPER_PROCESS_H
#define FBY_TESTS_H5_HELPER_PROCESS_H

#include "format/h5_stand_in.h"
#include "support/files.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static int g_descriptors;

static inline int setup(void **state)
{
    (void)unsetenv("FOREBAY_HDF5_HELPER");
    (void)unsetenv("FOREBAY_TEST_STAND_IN");
    fby__h5_helper_set_timeout(0);
    g_descriptors = count_descriptors();
    return setup_dir(state);
}

static inline int teardown(void **state)
{
    fby__h5_helper_stop();
    int status;
    if (waitpid(-1, &status, WNOHANG) >= 0 || errno != ECHILD) {
        print_error("a process is left behind\n");
        return -1;
    }
    if (count_descriptors() != g_descriptors) {
        print_error("%d descriptors, %d before\n", count_descriptors(), g_descriptors);
        return -1;
    }
    return teardown_dir(state);
}

static inline fby_status try_read_of(const char *path, fby_error *err)
{
    int32_t v[16] = {0};
    fby_status r = fby__h5_helper_read(path, "/filters/scale_offset_int", 0, 1, (uint64_t[]){5}, (uint64_t[]){4}, FBY_INT32, v, 16, err);
    for (int i = 0; r == FBY_OK && i < 4; i++)
        assert_int_equal(v[i], 1005 + i);
    return r;
}

static inline fby_status try_read(fby_error *err) { return try_read_of(GOLDEN("types.h5"), err); }

static inline void must_read(void)
{
    fby_error err;
    check_ok(try_read(&err), &err);
}

static inline void *read_in_thread(void *err)
{
    (void)try_read(err);
    return NULL;
}

/* Never 0, which as an argument of kill() is this test and all around it. */
static inline pid_t running(void)
{
    pid_t pid = fby__h5_helper_pid();
    assert_true(pid > 0);
    return pid;
}

/* A read that is on its way to the program, which stands still, and the lock with the read: nobody may ask for the pid meanwhile. */
static inline pthread_t begin_read(fby_error *err)
{
    pthread_t t;
    siginfo_t info;
    const pid_t pid = running();
    *err = (fby_error){0};
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0); /* until then it may still take a request */
    assert_int_equal(pthread_create(&t, NULL, read_in_thread, err), 0);
    (void)usleep(50000); /* more than it takes to send: if not, the read is simply killed a little earlier */
    return t;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
