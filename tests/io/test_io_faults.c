/* What engines say of faults, one suite for each: failing reads, files that change, failing allocations, a fork. */
#include "io/io_suite.h"

/* ---- faults ---- */

static void each_failing_read_fails_its_batch_naming_the_file(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    uint64_t injected = 0;
    for (int try_now = 0; try_now < 2; try_now++)
        for (uint64_t at = 1; at <= 14; at++) {
            fby__random r = {.key = SEED, .stream = 5};
            job *a = random_job(kind, file, &r, 5, 700), *b = random_job(kind, file, &r, 8, 700);
            for (int i = 0; i < 13; i++) /* an empty request need not read */
                (i < 5 ? &a->requests[i] : &b->requests[i - 5])->n = 100 + (size_t)i;
            for (int i = 0; i < 13; i++)
                (i < 5 ? &a->requests[i] : &b->requests[i - 5])->offset %= FILE_BYTES - 200;
            fby__io_set_fault(&(fby__io_fault){.fail_at = at});
            submit(io, a, try_now);
            submit(io, b, try_now);
            fby_status status_a = wait_for(a), status_b = wait_for(b);
            bool reached = fby__io_fault_count() >= at;
            assert_int_equal((status_a != FBY_OK) + (status_b != FBY_OK), reached);
            if (reached) {
                const fby_error *err = status_a != FBY_OK ? &a->batch.error : &b->batch.error;
                assert_int_equal(err->code, FBY_E_IO);
                assert_int_equal(err->sys_errno, EIO);
                assert_non_null(strstr(err->message, path_of("data")));
                assert_true(err->file_offset >= 0);
                injected++;
            } else {
                assert_true(at == 14);
            }
            free_job(a);
            free_job(b);
        }
    no_faults();
    print_message("%llu operations failed in turn\n", (unsigned long long)injected);
    assert_true(injected >= 26);
    fby__file_unref(file);
    fby__io_destroy(io);
}

static void a_file_cut_while_it_is_read_is_reported_as_changed(void **state)
{
    fby__io_kind kind = kind_of(state);
    if (kind == FBY__IO_NULL) {
        print_message("skipped: the null engine reads nothing and cannot see it\n");
        skip();
    }
    fby__io *io = make_io(kind);
    for (int try_now = 0; try_now < 2; try_now++) {
        write_file(path_of("shrinking"), 100000);
        fby__file *file = open_file(path_of("shrinking"));
        job *j = make_job(kind, 10, 100000);
        for (size_t i = 0; i < 10; i++)
            j->requests[i] = (fby__io_request){.file = file, .offset = i * 10000, .n = 10000, .dst = j->buf ? j->buf + i * 10000 : NULL};
        assert_int_equal(truncate(path_of("shrinking"), 45678), 0);
        submit(io, j, try_now);
        assert_int_equal(wait_for(j), FBY_E_CHANGED);
        assert_true(j->batch.error.file_offset >= 45678);
        assert_non_null(strstr(j->batch.error.message, path_of("shrinking")));
        free_job(j);
        /* The engine goes on with other requests, and with what is left of the file. */
        j = make_job(kind, 1, 45678);
        j->requests[0] = (fby__io_request){.file = file, .n = 45678, .dst = j->buf};
        submit(io, j, try_now);
        expect_job(kind, j);
        free_job(j);
        fby__file_unref(file);
    }
    fby__io_destroy(io);
}

static void ranges_beyond_the_end_are_reported_as_changed(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    static const struct {
        uint64_t offset;
        size_t n;
    } RANGE[] = {{FILE_BYTES, 1}, {FILE_BYTES - 1, 2}, {0, FILE_BYTES + 1}, {1ull << 40, 10}, {INT64_MAX - 10, 10}};
    for (size_t i = 0; i < sizeof RANGE / sizeof RANGE[0]; i++) {
        job *j = make_job(kind, 1, FILE_BYTES + 1);
        j->requests[0] = (fby__io_request){.file = file, .offset = RANGE[i].offset, .n = RANGE[i].n, .dst = j->buf};
        submit(io, j, true);
        assert_int_equal(wait_for(j), FBY_E_CHANGED);
        assert_non_null(strstr(j->batch.error.message, path_of("data")));
        free_job(j);
    }
    /* What no file can have is refused at once, and the callback never runs. */
    job *j = make_job(kind, 1, 10);
    fby_error err;
    j->requests[0] = (fby__io_request){.file = file, .offset = UINT64_MAX - 3, .n = 10, .dst = j->buf};
    assert_int_equal(fby__io_submit(io, &j->batch, false, &err), FBY_E_CHANGED);
    fby__io_destroy(io);
    assert_int_equal(atomic_load(&j->n_done), 0);
    atomic_store(&j->n_done, 1);
    free_job(j);
    fby__file_unref(file);
}

static void every_failing_allocation_of_create_is_reported(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io_opts opts = {.kind = kind, .n_threads = 2};
    int descriptors = count_descriptors();
    uint64_t injected = 0;
    for (uint64_t at = 1;; at++) {
        fby__io *io = NULL;
        fby_error err;
        uint64_t before = fby__alloc_count();
        fby__alloc_fail_at(at);
        fby_status status = fby__io_create(&opts, &io, &err);
        bool hit = fby__alloc_count() - before >= at;
        fby__alloc_fail_at(0);
        assert_int_equal(status, hit ? FBY_E_NOMEM : FBY_OK);
        fby__io_destroy(io);
        assert_int_equal(count_descriptors(), descriptors);
        if (!hit)
            break;
        injected++;
    }
    print_message("%llu allocations failed in turn\n", (unsigned long long)injected);
    assert_true(injected >= 1);
}

static void submitting_allocates_nothing(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    fby__random r = {.key = SEED, .stream = 6};
    job *warm = random_job(kind, file, &r, 20, 500); /* a mapping is made once a file */
    submit(io, warm, false);
    expect_job(kind, warm);
    uint64_t before = fby__alloc_count();
    job *j = random_job(kind, file, &r, 20, 500);
    submit(io, j, false);
    expect_job(kind, j);
    assert_int_equal(fby__alloc_count(), before);
    free_job(j);
    free_job(warm);
    fby__file_unref(file);
    fby__io_destroy(io);
}

static void a_forked_child_is_told_to_open_again(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    job *j = make_job(kind, 1, 10);
    j->requests[0] = (fby__io_request){.file = file, .n = 10, .dst = j->buf};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20); /* a hang kills the child, which the parent sees */
        fby_error err;
        bool ok = fby__io_submit(io, &j->batch, true, &err) == FBY_E_STATE && strstr(err.message, "fork");
        fby__io_destroy(io);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    submit(io, j, false); /* and the parent's engine is as it was */
    expect_job(kind, j);
    free_job(j);
    fby__file_unref(file);
    fby__io_destroy(io);
}

static void a_read_of_more_than_a_gigabyte_is_split(void **state)
{
    fby__io_kind kind = kind_of(state);
    if (UNDER_TSAN || kind == FBY__IO_NULL || kind == FBY__IO_AUTO) {
        print_message("skipped: %s\n", UNDER_TSAN             ? "the shadow of a gigabyte is too large under the thread sanitizer"
                                       : kind == FBY__IO_AUTO ? "tested as the engine it stands for"
                                                              : "the null engine has no limit");
        skip();
    }
    const size_t n = ((size_t)1 << 30) + 100003;
    const char *path = path_of("sparse");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    static const size_t MARK[] = {0, ((size_t)1 << 30) - 1, (size_t)1 << 30, ((size_t)1 << 30) + 100002};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pwrite(fd, &"0123"[i], 1, (off_t)MARK[i]), 1);
    close(fd);
    fby__file *file = open_file(path);
    fby__io *io = make_io(kind);
    job *j = make_job(kind, 1, 1);
    uint8_t *big = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(big != MAP_FAILED);
    j->requests[0] = (fby__io_request){.file = file, .n = n, .dst = kind == FBY__IO_MMAP ? NULL : big};
    submit(io, j, true);
    if (wait_for(j) != FBY_OK)
        fail_msg("%s", j->batch.error.message);
    const uint8_t *p = kind == FBY__IO_MMAP ? j->requests[0].mapped : big;
    for (int i = 0; i < 4; i++)
        assert_int_equal(p[MARK[i]], "0123"[i]);
    assert_int_equal(munmap(big, n), 0);
    free_job(j);
    fby__io_destroy(io);
    fby__file_unref(file);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failing_read_fails_its_batch_naming_the_file),
        cmocka_unit_test(a_file_cut_while_it_is_read_is_reported_as_changed),
        cmocka_unit_test(ranges_beyond_the_end_are_reported_as_changed),
        cmocka_unit_test(every_failing_allocation_of_create_is_reported),
        cmocka_unit_test(submitting_allocates_nothing),
        cmocka_unit_test(a_forked_child_is_told_to_open_again),
        cmocka_unit_test(a_read_of_more_than_a_gigabyte_is_split),
    };
    return run_with_each_engine(tests, sizeof tests / sizeof *tests);
}
