/* The helper program of one file that is written, as a process that does not start, hangs or dies: clear errors, soon, and nothing left behind. */
#include "format/h5_stand_in.h"

#include "format/hdf5/client/output.h"
#include "support/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* This test itself, as a program that says hello and then does `what` with the first request. */
static int stand_in(const char *what)
{
    const fby__h5p_reply hello = {.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .kind = FBY__H5P_HELLO};
    fby__h5p_write q;
    if (send(FBY__H5P_FD, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        return 9;
    if (strcmp(what, "takes nothing") == 0)
        for (;;)
            (void)pause();
    if (recv(FBY__H5P_FD, &q, sizeof q, MSG_WAITALL) != (ssize_t)sizeof q)
        return 9;
    if (strcmp(what, "hangs") == 0)
        for (;;)
            (void)pause();
    if (strcmp(what, "is killed") == 0)
        (void)raise(SIGKILL);
    return 5;
}

static int g_descriptors;

static int setup(void **state)
{
    fby__h5_helper_set_timeout(0);
    g_descriptors = count_descriptors();
    return setup_dir(state);
}

static int teardown(void **state)
{
    (void)unsetenv("FOREBAY_HDF5_HELPER");
    fby__h5_helper_set_timeout(0);
    assert_int_equal(count_descriptors(), g_descriptors);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, not even a dead one */
    return teardown_dir(state);
}

static fby_status try_open(fby__h5_output **out, fby_error *err)
{
    const int file = open("file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    const fby_status status = fby__h5_output_open(NULL, file, out, err);
    (void)close(file);
    return status;
}

/* Open, ask with n bytes, close. */
static fby_status try_ask(size_t n, fby_error *err)
{
    fby__h5_output *w = NULL;
    fby__h5p_write q = {.op = FBY__H5P_ROWS};
    char *bytes = calloc(n + 1, 1);
    assert_non_null(bytes);
    check_ok(try_open(&w, err), err);
    const fby_status status = fby__h5_output_ask(w, &q, bytes, n, err);
    fby__h5_output_close(w);
    free(bytes);
    return status;
}

static void a_program_that_does_not_start_is_named(void **state)
{
    (void)state;
    fby_error err;
    fby__h5_output *w = NULL;
    assert_int_equal(setenv("FOREBAY_HDF5_HELPER", "/bin/false", 1), 0);
    check_fails(try_open(&w, &err), FBY_E_IO, &err,
                "/bin/false: the helper program ended with status 1 while it started (do its libraries load?)");
    put_script("#!/bin/sh\nkill -SEGV $$\n");
    check_fails(try_open(&w, &err), FBY_E_IO, &err, "killed by signal 11 (Segmentation fault) while it started");
    fby__h5_helper_set_timeout(200);
    put_script("#!/bin/sh\nexec sleep 1000\n");
    check_fails(try_open(&w, &err), FBY_E_IO, &err, "no sign of life for more than 0.2 s while it started");
    assert_non_null(strstr(err.message, "script: "));
    assert_null(w);
}

static void a_program_that_hangs_while_it_writes_is_stopped(void **state)
{
    (void)state;
    fby_error err;
    fby__h5_helper_set_timeout(200);
    be_lied_to("hangs");
    check_fails(try_ask(0, &err), FBY_E_IO, &err, "no sign of life for more than 0.2 s while it wrote");
    be_lied_to("takes nothing"); /* more than a socket holds, and less than what is given more time */
    check_fails(try_ask((1u << 20) - 1, &err), FBY_E_IO, &err, "no sign of life for more than 0.2 s while it wrote");
}

static void a_program_that_ends_while_it_writes_says_how(void **state)
{
    (void)state;
    fby_error err;
    be_lied_to("ends");
    check_fails(try_ask(0, &err), FBY_E_IO, &err, "ended with status 5 while it wrote");
    be_lied_to("is killed");
    check_fails(try_ask(0, &err), FBY_E_IO, &err, "killed by signal 9 (Killed) while it wrote; is there enough memory?");
    (void)signal(SIGCHLD, SIG_IGN); /* children vanish by themselves, and how they ended with them */
    be_lied_to("ends");
    check_fails(try_ask(0, &err), FBY_E_IO, &err, "the helper program ended while it wrote");
    (void)signal(SIGCHLD, SIG_DFL);
}

int main(void)
{
    const char *what = getenv("FOREBAY_TEST_STAND_IN");
    if (what)
        return stand_in(what);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_program_that_does_not_start_is_named),
        TEST(a_program_that_hangs_while_it_writes_is_stopped),
        TEST(a_program_that_ends_while_it_writes_says_how),
    };
    if (no_helper_program("test_h5_output_process"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
