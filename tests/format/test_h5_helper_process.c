/*
 * The helper program as a process that dies, hangs, lies or is not there: clear errors, the next request works, and no process,
 * descriptor or lock is left behind. Programs that lie are this test itself, started as the program with FOREBAY_TEST_STAND_IN.
 */
#include "format/h5_helper_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* ---- programs that lie ---- */

static void send_it(fby__h5p_reply r, size_t bytes, const int *fds, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {&r, bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    (void)sendmsg(FBY__H5P_FD, &m, MSG_NOSIGNAL);
}

static void note_death(void)
{
    int fd = open("deaths", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)!write(fd, "\n", 1);
    (void)close(fd);
}

static int stand_in(const char *what)
{
    fby__h5p_reply r = {.magic = FBY__H5P_MAGIC, .version = FBY__H5P_VERSION, .kind = FBY__H5P_HELLO};
    uint64_t request[20000];
    int pipes[2], fd = memfd_create("stand-in", MFD_CLOEXEC);
    if (fd < 0 || pipe(pipes) != 0)
        return 9;
    r.version += strcmp(what, "another version") == 0;
    if (strcmp(what, "an old kernel") == 0)
        (void)snprintf(r.message, sizeof r.message, "Landlock\x1b[2J");
    send_it(r, sizeof r, NULL, 0);
    while (recv(FBY__H5P_FD, request, sizeof request, 0) > 0) {
        r.id = ((fby__h5p_request *)request)->id;
        r.kind = FBY__H5P_DONE;
        r.bytes = 16;
        if (ftruncate(fd, 16) != 0)
            return 9;
        if (strcmp(what, "death") == 0) {
            note_death();
            (void)raise(SIGKILL);
        } else if (strcmp(what, "one death") == 0) { /* only the first one is from outside */
            bool first = access("deaths", F_OK) != 0;
            note_death();
            if (first)
                (void)raise(SIGKILL);
            _exit(7);
        } else if (strcmp(what, "no result") == 0) {
            send_it(r, sizeof r, NULL, 0);
        } else if (strcmp(what, "a pipe") == 0) {
            send_it(r, sizeof r, pipes, 1);
        } else if (strcmp(what, "a short result") == 0) {
            if (ftruncate(fd, 15) != 0)
                return 9;
            send_it(r, sizeof r, &fd, 1);
        } else if (strcmp(what, "too large") == 0) {
            r.bytes = UINT64_MAX;
            send_it(r, sizeof r, &fd, 1);
        } else if (strcmp(what, "many descriptors") == 0) {
            send_it(r, sizeof r, (int[]){fd, pipes[0], pipes[1]}, 3);
        } else if (strcmp(what, "two descriptors") == 0) {
            send_it(r, sizeof r, (int[]){fd, pipes[0]}, 2);
        } else if (strcmp(what, "another request") == 0) {
            r.id++;
            send_it(r, sizeof r, &fd, 1);
        } else if (strcmp(what, "an odd size") == 0) {
            send_it(r, 100, &fd, 1);
        } else if (strcmp(what, "no end of text") == 0) {
            memset(r.message, 'x', sizeof r.message);
            r.status = FBY__H5P_FORMAT;
            send_it(r, sizeof r, NULL, 0);
        } else if (strcmp(what, "a strange status") == 0) {
            r.status = 77;
            send_it(r, sizeof r, NULL, 0);
        } else if (strcmp(what, "progress for ever") == 0) {
            r.kind = FBY__H5P_PROGRESS;
            for (;; usleep(1000))
                send_it(r, sizeof r, NULL, 0);
        } else if (strcmp(what, "zeros") == 0) {
            send_it(r, sizeof r, &fd, 1);
        } else {
            return 9;
        }
    }
    return 0;
}

/* ---- death ---- */

static int count_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    int n = 0;
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;)
        n += c == '\n';
    assert_int_equal(fclose(f), 0);
    return n;
}

static void a_program_killed_twice_in_a_read_is_an_error_and_is_replaced(void **state)
{
    (void)state;
    fby_error err;
    be_lied_to("death"); /* once it has taken the request */
    check_fails(try_read(&err), FBY_E_IO, &err,
                "types.h5: /filters/scale_offset_int: the helper program was killed by signal 9 (Killed) while it read");
    assert_int_equal(count_lines("deaths"), 2); /* the request had a second chance */
    assert_int_equal(fby__h5_helper_pid(), 0);
    assert_int_equal(unsetenv("FOREBAY_HDF5_HELPER"), 0);
    must_read();
}

static void a_program_killed_once_is_tried_again(void **state)
{
    (void)state;
    fby_error err;
    be_lied_to("one death"); /* what the second one does is the answer: here it ends, for the file's sake */
    check_fails(try_read(&err), FBY_E_FORMAT, &err, "ended with status 7");
    assert_int_equal(count_lines("deaths"), 2);
}

/* As a machine that is out of memory does. */
static void a_program_killed_while_it_starts_is_tried_again(void **state)
{
    (void)state;
    fby_error err;
    char real[4096], text[4400];
    check_ok(fby__h5_helper_find(&(fby__h5_environment){0}, real, &err), &err);
    (void)snprintf(text, sizeof text, "#!/bin/sh\n[ -e deaths ] || { echo >>deaths; kill -KILL $$; }\nexec '%s' \"$@\"\n", real);
    put_script(text);
    must_read();
    assert_int_equal(count_lines("deaths"), 1);
    put_script("#!/bin/sh\necho >>deaths\nkill -KILL $$\n");
    fby__h5_helper_stop();
    check_fails(try_read(&err), FBY_E_IO, &err,
                "killed by signal 9 (Killed) while it started (do its libraries load?), and so was the one");
    assert_int_equal(count_lines("deaths"), 3);
}

/* It stands still with the request in its socket, and is killed: nothing of the file is to blame. */
static void a_program_killed_before_it_took_the_request_is_replaced_silently(void **state)
{
    (void)state;
    fby_error err;
    must_read();
    pid_t pid = running();
    pthread_t t = begin_read(&err);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    if (err.code != FBY_OK)
        fail_msg("%s", err.message);
    assert_true(running() != pid);
}

static void a_program_killed_between_reads_is_replaced_silently(void **state)
{
    (void)state;
    must_read();
    for (int i = 0; i < 3; i++) {
        pid_t pid = running();
        siginfo_t info;
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        must_read();
        assert_true(fby__h5_helper_pid() != pid);
    }
}

static void a_program_that_hangs_is_stopped(void **state)
{
    (void)state;
    fby_error err;
    must_read();
    fby__h5_helper_set_timeout(200);
    assert_int_equal(kill(running(), SIGSTOP), 0);
    check_fails(try_read(&err), FBY_E_IO, &err, "no sign of life for 0.2 s while it read");
    assert_int_equal(fby__h5_helper_pid(), 0);
    fby__h5_helper_set_timeout(0);
    must_read();
}

/* With SIGCHLD ignored children vanish by themselves: nothing waits for them for ever, nobody else is killed. */
static void ignored_children_do_no_harm(void **state)
{
    (void)state;
    fby_error err;
    (void)signal(SIGCHLD, SIG_IGN);
    be_lied_to("death");
    check_fails(try_read(&err), FBY_E_FORMAT, &err, "the helper program ended while it read");
    assert_int_equal(unsetenv("FOREBAY_HDF5_HELPER"), 0);
    must_read();
    fby__h5_helper_stop();
    (void)signal(SIGCHLD, SIG_DFL);
}

/* ---- programs that are none ---- */

static void a_program_that_is_none_is_said_to_be(void **state)
{
    (void)state;
    fby_error err;
    assert_int_equal(setenv("FOREBAY_HDF5_HELPER", "/nonexistent/forebay-hdf5", 1), 0);
    check_fails(try_read(&err), FBY_E_IO, &err, "FOREBAY_HDF5_HELPER names \"/nonexistent/forebay-hdf5\"");
    assert_non_null(strstr(err.message, "types.h5: /filters/scale_offset_int: "));
    assert_int_equal(setenv("FOREBAY_HDF5_HELPER", "none", 1), 0); /* as it is to be: no failure that passes */
    check_fails(try_read(&err), FBY_E_UNSUPPORTED, &err, "FOREBAY_HDF5_HELPER is \"none\"");
    put_script("#!/bin/sh\nexit 3\n");
    check_fails(try_read(&err), FBY_E_IO, &err, "ended with status 3 while it started");
    put_script("#!/bin/sh\nkill -SEGV $$\n");
    check_fails(try_read(&err), FBY_E_IO, &err, "killed by signal 11");
    put_script("#!/bin/sh\necho what is this >&3\nexec sleep 1000\n");
    check_fails(try_read(&err), FBY_E_IO, &err, "no helper program of this version");
    put_script("#!/nonexistent/sh\n");
    check_fails(try_read(&err), FBY_E_IO, &err, "cannot be run: No such file");
    put_script("neither");
    check_fails(try_read(&err), FBY_E_IO, &err, "cannot be run: Exec format");
    fby__h5_helper_set_timeout(200);
    put_script("#!/bin/sh\nexec sleep 1000\n");
    check_fails(try_read(&err), FBY_E_IO, &err, "not ready after 0.2 s");
    fby__h5_helper_set_timeout(0);
    assert_int_equal(unsetenv("FOREBAY_HDF5_HELPER"), 0);
    must_read();
}

static void a_program_that_others_may_write_is_not_run(void **state)
{
    (void)state;
    fby_error err;
    put_script("#!/bin/sh\necho >>deaths\nexit 3\n");
    assert_int_equal(chmod("script", 0757), 0);
    check_fails(try_read(&err), FBY_E_IO, &err, "may be written by others");
    assert_int_equal(chmod("script", 0755), 0);
    assert_int_equal(chmod(g_dir, 0707), 0);
    check_fails(try_read(&err), FBY_E_IO, &err, "may be written by others");
    assert_int_equal(chmod(g_dir, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown("script", 12345, 0), 0);
        check_fails(try_read(&err), FBY_E_IO, &err, "belongs to somebody else");
        assert_int_equal(chown("script", 0, 12345), 0);
        assert_int_equal(chmod("script", 0775), 0);
        check_fails(try_read(&err), FBY_E_IO, &err, "may be written by others");
        assert_int_equal(chmod("script", 0755), 0);
        assert_int_equal(chown(g_dir, 12345, 0), 0);
        check_fails(try_read(&err), FBY_E_IO, &err, "belongs to somebody else");
        assert_int_equal(chown(g_dir, 0, 0), 0);
    }
    assert_int_not_equal(access("deaths", F_OK), 0); /* it never ran */
    check_fails(try_read(&err), FBY_E_IO, &err, "ended with status 3");
}

static void too_few_descriptors_are_said_to_be(void **state)
{
    (void)state;
    fby_error err;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    for (few.rlim_cur = 1; few.rlim_cur <= 10; few.rlim_cur++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        fby_status r = try_read(&err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        check_fails(r, FBY_E_IO, &err, "raise `ulimit -n`");
        assert_int_equal(err.sys_errno, EMFILE);
    }
    must_read();
}

/* ---- what it may reach ---- */

/* One of the folders that it was started for? Where the kernel has Landlock, it can read nothing else. */
static bool is_started_for(const char *folder)
{
    char path[64], text[9000];
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)running());
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    assert_int_equal(fclose(f), 0);
    text[n] = 0;
    for (size_t at = 0; at < n; at += strlen(text + at) + 1)
        if (strcmp(text + at, folder) == 0)
            return true;
    return false;
}

static void a_link_that_leads_elsewhere_by_now_is_followed(void **state)
{
    (void)state;
    fby_error err;
    char real[4096], target[4096], link[300];
    assert_non_null(realpath(g_dir, real));
    assert_int_equal(mkdir("a", 0700), 0);
    assert_int_equal(mkdir("b", 0700), 0);
    (void)snprintf(link, sizeof link, "%s/a/latest.h5", g_dir);
    assert_int_equal(symlink(GOLDEN("types.h5"), link), 0);
    check_ok(try_read_of(link, &err), &err);
    char command[700];
    (void)snprintf(command, sizeof command, "cp '%s' b/other.h5", GOLDEN("types.h5"));
    assert_int_equal(system(command), 0);
    (void)snprintf(target, sizeof target, "%.4000s/b", real);
    assert_false(is_started_for(target));
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("../b/other.h5", link), 0);
    check_ok(try_read_of(link, &err), &err);
    assert_true(is_started_for(target));
}

/* After the one before: all stay granted. */
static void beyond_many_folders_no_other_one_starts_it_anew(void **state)
{
    (void)state;
    enum { N = 201 };
    fby_error err;
    char real[4096], folders[N * 300], other[300], command[700];
    size_t n = 0;
    assert_non_null(realpath(g_dir, real));
    assert_int_equal(mkdir("many", 0700), 0);
    for (unsigned i = 0; i < N; i++) {
        int k = snprintf(folders + n, sizeof folders - n, "%.200s/many/%u", real, i);
        assert_int_equal(mkdir(folders + n, 0700), 0);
        n += (size_t)k + 1;
    }
    assert_int_equal(mkdir("one_more", 0700), 0);
    (void)snprintf(other, sizeof other, "%.200s/one_more/other.h5", real);
    (void)snprintf(command, sizeof command, "cp '%.200s' '%.299s'", GOLDEN("types.h5"), other);
    assert_int_equal(system(command), 0);
    must_read();
    assert_false(is_started_for("/"));
    const fby__reach many = {.folders = folders, .folders_bytes = (uint32_t)n}, *before = fby__h5_helper_reach(&many);
    must_read();
    (void)fby__h5_helper_reach(before);
    assert_true(is_started_for("/"));
    pid_t pid = running();
    check_ok(try_read_of(other, &err), &err);
    assert_int_equal(running(), pid);
}

static void descriptors_are_limited_for_good(void **state)
{
    (void)state;
    struct rlimit mine, its, before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    mine = before;
    mine.rlim_cur = 500;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &mine), 0);
    must_read();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(prlimit(running(), RLIMIT_NOFILE, NULL, &its), 0);
    assert_true(its.rlim_cur <= mine.rlim_cur && its.rlim_cur <= 65536);
    assert_true(its.rlim_max == its.rlim_cur);
}

/* ---- answers ---- */

static void what_the_kernel_lacks_is_what_the_program_says(void **state)
{
    (void)state;
    fby_error err;
    char lacks[100] = "as it was";
    be_lied_to("an old kernel");
    check_ok(fby_sandbox_lacks(lacks, sizeof lacks, &err), &err);
    assert_string_equal(lacks, "Landlock\\x1b[2J");
    check_ok(fby_sandbox_lacks(lacks, 5, &err), &err); /* of the program that runs */
    assert_string_equal(lacks, "Land");
    fby__h5_helper_stop();
    assert_int_equal(setenv("FOREBAY_HDF5_HELPER", "/not/there", 1), 0);
    check_fails(fby_sandbox_lacks(lacks, sizeof lacks, &err), FBY_E_UNSUPPORTED, &err, "/not/there");
}

static void answers_that_make_no_sense_are_errors(void **state)
{
    (void)state;
    static const char *const LIES[][2] = {
        {"no result", "no result"},  {"a pipe", "no shared memory"},   {"a short result", "wrong size"},
        {"too large", "wrong size"}, {"many descriptors", "no reply"}, {"another request", "no reply"},
        {"an odd size", "no reply"}, {"no end of text", "no reply"},   {"a strange status", "no reply"},
    };
    fby_error err;
    for (size_t i = 0; i < sizeof LIES / sizeof *LIES; i++) {
        be_lied_to(LIES[i][0]);
        for (int again = 0; again < 2; again++) {
            check_fails(try_read(&err), FBY_E_FORMAT, &err, "the helper program answered nonsense");
            assert_non_null(strstr(err.message, LIES[i][1]));
            assert_int_equal(fby__h5_helper_pid(), 0);
        }
    }
    be_lied_to("another version");
    check_fails(try_read(&err), FBY_E_IO, &err, "no helper program of this version");
    be_lied_to("two descriptors"); /* whichever is taken, the other is closed: the teardown counts */
    (void)try_read(&err);
    fby__h5_helper_stop();
    be_lied_to("zeros");
    fby__arena arena = {0};
    const fby__h5_object *o;
    check_fails(fby__h5_helper_object("/x", "/y", "", &arena, &o, &err), FBY_E_FORMAT, &err, "makes no sense");
    fby__arena_fini(&arena);
}

static void signs_of_life_without_end_come_to_an_end(void **state)
{
    (void)state;
    fby_error err;
    be_lied_to("progress for ever");
    fby__h5_helper_set_timeout(20);
    uint64_t begin = fby__now_ns();
    fby_status r = try_read(&err);
    assert_true(r == FBY_E_IO); /* either way: 20 ms were too short to start in */
    assert_true(fby__now_ns() - begin < 60u * UINT64_C(1000000000));
}

int main(void)
{
    const char *what = getenv("FOREBAY_TEST_STAND_IN");
    if (what)
        return stand_in(what);
    const struct CMUnitTest tests[] = {
        TEST(a_program_killed_twice_in_a_read_is_an_error_and_is_replaced),
        TEST(a_program_killed_once_is_tried_again),
        TEST(a_program_killed_while_it_starts_is_tried_again),
        TEST(a_program_killed_before_it_took_the_request_is_replaced_silently),
        TEST(a_program_killed_between_reads_is_replaced_silently),
        TEST(a_program_that_hangs_is_stopped),
        TEST(ignored_children_do_no_harm),
        TEST(a_program_that_is_none_is_said_to_be),
        TEST(a_program_that_others_may_write_is_not_run),
        TEST(too_few_descriptors_are_said_to_be),
        TEST(a_link_that_leads_elsewhere_by_now_is_followed),
        TEST(beyond_many_folders_no_other_one_starts_it_anew),
        TEST(descriptors_are_limited_for_good),
        TEST(what_the_kernel_lacks_is_what_the_program_says),
        TEST(answers_that_make_no_sense_are_errors),
        TEST(signs_of_life_without_end_come_to_an_end),
    };
    if (no_helper_program("test_h5_helper_process"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
