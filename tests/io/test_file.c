/* Opening, stamping and plainly reading files: every kind of thing a path can name, and files that change. */
#include "io/io_fixture.h"

#include "base/alloc.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static void expect_refused(const char *path, fby_status code, int sys_errno, const char *word)
{
    fby__file *file = NULL;
    fby__file_stamp stamp;
    fby_error err;
    for (int i = 0; i < 2; i++) { /* open and stat agree */
        fby__error_clear(&err);
        fby_status status = i ? fby__file_stat(path, &stamp, &err) : fby__file_open(path, NULL, &file, &err);
        assert_int_equal(status, code);
        assert_int_equal(err.code, code);
        assert_int_equal(err.sys_errno, sys_errno);
        assert_non_null(strstr(err.message, path));
        if (!strstr(err.message, word))
            fail_msg("\"%s\" does not say \"%s\"", err.message, word);
    }
    assert_null(file);
}

static void a_missing_file_is_an_io_error_naming_the_path(void **state)
{
    (void)state;
    expect_refused(path_of("missing"), FBY_E_IO, ENOENT, "No such file");
    expect_refused(path_of("data/below-a-file"), FBY_E_IO, ENOTDIR, "Not a directory");
    expect_refused("", FBY_E_IO, ENOENT, "No such file");
}

static void directories_fifos_sockets_and_devices_are_refused_by_their_names(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("subdirectory"), 0700), 0);
    expect_refused(path_of("subdirectory"), FBY_E_FORMAT, 0, "is a directory");
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    alarm(20); /* the open of a fifo without a writer must not wait */
    expect_refused(path_of("fifo"), FBY_E_FORMAT, 0, "is a fifo");
    alarm(0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path_of("socket"));
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    expect_refused(path_of("socket"), FBY_E_FORMAT, 0, "is a socket");
    close(fd);
    expect_refused("/dev/null", FBY_E_FORMAT, 0, "is a device");
    assert_int_equal(symlink("data", path_of("link")), 0);
    fby__file_unref(open_file(path_of("link")));
}

static void an_unreadable_file_is_an_io_error(void **state)
{
    (void)state;
    write_file(path_of("secret"), 10);
    assert_int_equal(chmod(path_of("secret"), 0), 0);
    bool root = geteuid() == 0;
    if (root && seteuid(65534) != 0) {
        print_message("skipped: root may read everything, and may not become another user here\n");
        skip();
    }
    fby__file *file;
    fby_error err;
    fby_status status = fby__file_open(path_of("secret"), NULL, &file, &err);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, FBY_E_IO);
    assert_int_equal(err.sys_errno, EACCES);
    assert_non_null(strstr(err.message, "Permission denied"));
}

static void running_out_of_descriptors_says_what_to_raise(void **state)
{
    (void)state;
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    fby__file *file;
    fby_error err;
    fby_status status = fby__file_open(path_of("data"), NULL, &file, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(status, FBY_E_IO);
    assert_int_equal(err.sys_errno, EMFILE);
    assert_non_null(strstr(err.message, "ulimit -n"));
}

static void stat_and_open_see_the_same_stamp(void **state)
{
    (void)state;
    fby__file_stamp stamp;
    assert_int_equal(fby__file_stat(path_of("data"), &stamp, NULL), FBY_OK);
    assert_int_equal(stamp.size_bytes, FILE_BYTES);
    fby__file *file = open_file(path_of("data"));
    assert_memory_equal(&stamp, fby__file_stamp_of(file), sizeof stamp);
    assert_string_equal(fby__file_path(file), path_of("data"));
    fby__file_unref(file);
}

static void set_mtime_ns(const char *path, int64_t mtime_ns)
{
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = mtime_ns / 1000000000, .tv_nsec = mtime_ns % 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void a_file_that_is_not_the_one_seen_before_is_refused_saying_what_differs(void **state)
{
    (void)state;
    fby__file_stamp stamp;
    fby__file *file = NULL;
    fby_error err;
    write_file(path_of("changing"), 1000);
    assert_int_equal(fby__file_stat(path_of("changing"), &stamp, NULL), FBY_OK);
    assert_int_equal(fby__file_open(path_of("changing"), &stamp, &file, &err), FBY_OK);
    fby__file_unref(file);
    file = NULL;

    assert_int_equal(truncate(path_of("changing"), 999), 0);
    assert_int_equal(fby__file_open(path_of("changing"), &stamp, &file, &err), FBY_E_CHANGED);
    assert_non_null(strstr(err.message, "had 1000 bytes and now has 999"));
    assert_non_null(strstr(err.message, path_of("changing")));

    write_file(path_of("changing"), 1000);
    set_mtime_ns(path_of("changing"), stamp.mtime_ns + 1500000000);
    assert_int_equal(fby__file_open(path_of("changing"), &stamp, &file, &err), FBY_E_CHANGED);
    assert_non_null(strstr(err.message, "1.500 s after"));
    set_mtime_ns(path_of("changing"), stamp.mtime_ns - 1);
    assert_int_equal(fby__file_open(path_of("changing"), &stamp, &file, &err), FBY_E_CHANGED);

    assert_int_equal(unlink(path_of("changing")), 0);
    assert_int_equal(fby__file_open(path_of("changing"), &stamp, &file, &err), FBY_E_IO);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_null(file);
}

static void a_replaced_file_with_the_same_size_and_time_is_another(void **state)
{
    (void)state;
    fby__file_stamp stamp, other;
    fby__file *file = NULL;
    fby_error err;
    write_file(path_of("original"), 1000);
    write_file(path_of("copy"), 1000);
    assert_int_equal(fby__file_stat(path_of("original"), &stamp, NULL), FBY_OK);
    set_mtime_ns(path_of("copy"), stamp.mtime_ns);
    assert_int_equal(rename(path_of("copy"), path_of("original")), 0);
    assert_int_equal(fby__file_stat(path_of("original"), &other, NULL), FBY_OK);
    assert_true(other.inode != stamp.inode);
    assert_int_equal(fby__file_open(path_of("original"), &stamp, &file, &err), FBY_E_CHANGED);
    assert_non_null(strstr(err.message, "replaced by another file of the same size and time"));
    assert_null(file);
}

static void an_edit_in_place_with_its_time_set_back_is_a_change(void **state)
{
    (void)state;
    fby__file_stamp stamp, other;
    fby__file *file = NULL;
    fby_error err;
    write_file(path_of("edited"), 1000);
    assert_int_equal(fby__file_stat(path_of("edited"), &stamp, NULL), FBY_OK);
    do { /* until the clock of the file system has ticked */
        FILE *f = fopen(path_of("edited"), "r+b");
        assert_non_null(f);
        assert_int_equal(fputc('x', f), 'x');
        assert_int_equal(fclose(f), 0);
        set_mtime_ns(path_of("edited"), stamp.mtime_ns);
        assert_int_equal(fby__file_stat(path_of("edited"), &other, NULL), FBY_OK);
    } while (other.ctime_ns == stamp.ctime_ns);
    assert_true(other.inode == stamp.inode && other.mtime_ns == stamp.mtime_ns && other.size_bytes == stamp.size_bytes);
    assert_false(fby__file_same(path_of("edited"), &stamp, &other));
    assert_int_equal(fby__file_open(path_of("edited"), &stamp, &file, &err), FBY_E_CHANGED);
    assert_non_null(strstr(err.message, "its time set back"));
    assert_null(file);
    assert_int_equal(fby__file_open(path_of("edited"), &other, &file, &err), FBY_OK);
    fby__file_unref(file);
}

static void an_open_file_stays_readable_after_it_was_deleted_or_replaced(void **state)
{
    (void)state;
    uint8_t buf[500];
    write_file(path_of("doomed"), 1000);
    fby__file *file = open_file(path_of("doomed"));
    write_file(path_of("heir"), 10);
    assert_int_equal(rename(path_of("heir"), path_of("doomed")), 0);
    assert_int_equal(fby__file_read(file, 500, buf, 500, NULL), FBY_OK);
    expect_bytes(buf, 500, 500);
    assert_int_equal(unlink(path_of("doomed")), 0);
    assert_int_equal(fby__file_read(file, 0, buf, 500, NULL), FBY_OK);
    expect_bytes(buf, 0, 500);
    fby__file_unref(file);
}

static void reads_that_end_early_are_an_error_naming_the_file(void **state)
{
    (void)state;
    static uint8_t buf[2000];
    fby_error err;
    write_file(path_of("cut"), 1000);
    fby__file *file = open_file(path_of("cut"));
    assert_int_equal(fby__file_read(file, 0, buf, 1000, &err), FBY_OK);
    expect_bytes(buf, 0, 1000);
    assert_int_equal(fby__file_read(file, 1000, buf, 0, &err), FBY_OK);
    assert_int_equal(fby__file_read(file, 1000, buf, 1, &err), FBY_E_CHANGED);
    assert_int_equal(fby__file_read(file, 1, buf, 1000, &err), FBY_E_CHANGED);
    assert_int_equal(err.file_offset, 1000);
    assert_int_equal(truncate(path_of("cut"), 700), 0);
    assert_int_equal(fby__file_read(file, 0, buf, 700, &err), FBY_OK);
    assert_int_equal(fby__file_read(file, 300, buf, 700, &err), FBY_E_CHANGED);
    assert_int_equal(err.file_offset, 700);
    assert_non_null(strstr(err.message, path_of("cut")));
    assert_non_null(strstr(err.message, "it had 1000 bytes when it was opened"));
    /* Offsets that no file can have: numbers from a damaged footer. */
    assert_int_equal(fby__file_read(file, UINT64_MAX - 5, buf, 10, &err), FBY_E_CHANGED);
    assert_int_equal(fby__file_read(file, INT64_MAX, buf, 1, &err), FBY_E_CHANGED);
    fby__file_unref(file);
}

static void short_reads_are_retried_until_all_bytes_are_there(void **state)
{
    (void)state;
    static uint8_t buf[5000];
    fby__file *file = open_file(path_of("data"));
    for (uint64_t every = 1; every < 4; every++) {
        fby__io_set_fault(&(fby__io_fault){.short_every = every, .seed = every});
        for (uint64_t i = 0; i < 30; i++) {
            memset(buf, 0, sizeof buf);
            assert_int_equal(fby__file_read(file, i * 777, buf, sizeof buf, NULL), FBY_OK);
            expect_bytes(buf, i * 777, sizeof buf);
        }
        assert_true(fby__io_fault_count() > 30);
    }
    no_faults();
    fby__file_unref(file);
}

static void the_nth_operation_fails_and_only_that_one(void **state)
{
    (void)state;
    uint8_t buf[10];
    for (uint64_t at = 1; at <= 5; at++) {
        fby__file_stamp stamp;
        fby__file *file = NULL;
        fby_error err;
        fby__io_set_fault(&(fby__io_fault){.fail_at = at});
        assert_int_equal(fby__file_stat(path_of("data"), &stamp, &err), at == 1 ? FBY_E_IO : FBY_OK);
        fby_status status = fby__file_open(path_of("data"), NULL, &file, &err);
        assert_int_equal(status, at == 2 ? FBY_E_IO : FBY_OK);
        if (status == FBY_OK) {
            assert_int_equal(fby__file_read(file, 0, buf, 10, &err), at == 3 ? FBY_E_IO : FBY_OK);
            assert_int_equal(fby__file_read(file, 5, buf, 10, &err), at == 4 ? FBY_E_IO : FBY_OK);
            assert_int_equal(fby__io_fault_count(), 4);
        }
        if (at < 5) {
            assert_int_equal(err.sys_errno, EIO);
            assert_non_null(strstr(err.message, path_of("data")));
        }
        fby__file_unref(file);
    }
    no_faults();
}

static void every_failing_allocation_of_open_is_reported_without_a_leak(void **state)
{
    (void)state;
    int descriptors = count_descriptors();
    uint64_t injected = 0;
    for (uint64_t at = 1;; at++) {
        fby__file *file = NULL;
        uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        fby_status status = fby__file_open(path_of("data"), NULL, &file, NULL);
        bool hit = fby__alloc_count() - before >= at;
        fby__alloc_fail_at(0);
        assert_int_equal(status, hit ? FBY_E_NOMEM : FBY_OK);
        fby__file_unref(file);
        assert_int_equal(count_descriptors(), descriptors);
        if (!hit)
            break;
        injected++;
    }
    print_message("%llu allocations failed in turn\n", (unsigned long long)injected);
    assert_true(injected >= 2);
}

static void references_keep_the_file_and_descriptors_close_on_exec(void **state)
{
    (void)state;
    int before = count_descriptors();
    fby__file *file = open_file(path_of("data"));
    int fd = open("/dev/null", O_RDONLY) - 1; /* descriptors are given in order */
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    close(fd + 1);
    assert_ptr_equal(fby__file_ref(file), file);
    fby__file_unref(file);
    uint8_t byte;
    assert_int_equal(fby__file_read(file, 7, &byte, 1, NULL), FBY_OK);
    assert_int_equal(byte, byte_at(7));
    fby__file_unref(file);
    assert_int_equal(count_descriptors(), before);
    fby__file_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_file_is_an_io_error_naming_the_path),
        cmocka_unit_test(directories_fifos_sockets_and_devices_are_refused_by_their_names),
        cmocka_unit_test(an_unreadable_file_is_an_io_error),
        cmocka_unit_test(running_out_of_descriptors_says_what_to_raise),
        cmocka_unit_test(stat_and_open_see_the_same_stamp),
        cmocka_unit_test(a_file_that_is_not_the_one_seen_before_is_refused_saying_what_differs),
        cmocka_unit_test(a_replaced_file_with_the_same_size_and_time_is_another),
        cmocka_unit_test(an_edit_in_place_with_its_time_set_back_is_a_change),
        cmocka_unit_test(an_open_file_stays_readable_after_it_was_deleted_or_replaced),
        cmocka_unit_test(reads_that_end_early_are_an_error_naming_the_file),
        cmocka_unit_test(short_reads_are_retried_until_all_bytes_are_there),
        cmocka_unit_test(the_nth_operation_fails_and_only_that_one),
        cmocka_unit_test(every_failing_allocation_of_open_is_reported_without_a_leak),
        cmocka_unit_test(references_keep_the_file_and_descriptors_close_on_exec),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
