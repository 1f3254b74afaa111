/* The helper program beside threads and forks of its client, and after its end; and what it inherits. */
#include "format/h5_helper_process.h"

#include <dirent.h>
#include <fcntl.h>

static void *read_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < 25; i++)
        must_read();
    return NULL;
}

static void threads_take_turns(void **state)
{
    (void)state;
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_often, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
}

static int in_child(pid_t of_parent)
{
    fby_error err;
    if (fby__h5_helper_pid() != 0)
        return 1;
    if (try_read(&err) != FBY_OK)
        return 2;
    return fby__h5_helper_pid() == of_parent ? 3 : 0;
}

static void check_fork(pid_t pid)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(in_child(pid));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_forked_child_has_a_program_of_its_own(void **state)
{
    (void)state;
    must_read();
    pid_t pid = running();
    check_fork(pid);
    must_read();
    assert_int_equal(fby__h5_helper_pid(), pid); /* the child's end was no concern of it */
    fby_error err;
    pthread_t t = begin_read(&err); /* the lock is held while the child is made */
    check_fork(pid);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    check_ok(err.code, &err);
    assert_int_equal(fby__h5_helper_pid(), pid);
}

/* The program of a process that dies ends, even while it is stuck. */
static void a_program_does_not_outlive_its_client(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fby_error err;
        (void)try_read(&err);
        pid_t pid = fby__h5_helper_pid();
        _exit(write(pipes[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    }
    int status;
    pid_t pid;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(read(pipes[0], &pid, sizeof pid), sizeof pid);
    assert_true(pid > 0);
    char stat[64];
    (void)snprintf(stat, sizeof stat, "/proc/%d/stat", (int)pid);
    for (int i = 0; i < 1000; i++) { /* gone, or a zombie that nobody collects here */
        char line[512] = "";
        FILE *f = fopen(stat, "r");
        size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
        if (f)
            (void)fclose(f);
        line[n] = 0;
        const char *name_end = strrchr(line, ')');
        if (!name_end || name_end[2] == 'Z' || name_end[2] == 'X') {
            (void)close(pipes[0]);
            (void)close(pipes[1]);
            return;
        }
        (void)usleep(5000);
    }
    fail_msg("the program is still there");
}

/* What the user's process has open, with or without close-on-exec, is not the program's. */
static void the_program_inherits_nothing(void **state)
{
    (void)state;
    int mine = open("/dev/zero", O_RDONLY); /* inheritable */
    int high = fcntl(mine, F_DUPFD, 200);
    must_read();
    char folder[64], link[400], target[300];
    (void)snprintf(folder, sizeof folder, "/proc/%d/fd", (int)fby__h5_helper_pid());
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        (void)snprintf(link, sizeof link, "%s/%s", folder, e->d_name);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = 0;
        if (!strcmp(target, "/dev/null") || !strncmp(target, "socket:", 7) || strstr(target, "types.h5") ||
            strstr(target, "memfd:forebay-hdf5"))
            continue;
        fail_msg("descriptor %s is %s", e->d_name, target);
    }
    (void)closedir(d);
    (void)close(mine);
    (void)close(high);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(threads_take_turns),
        TEST(a_forked_child_has_a_program_of_its_own),
        TEST(a_program_does_not_outlive_its_client),
        TEST(the_program_inherits_nothing),
    };
    if (no_helper_program("test_h5_helper_fork"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
