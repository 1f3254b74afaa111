/* One suite for every engine: the right bytes, and each batch done exactly once. Then what is particular to one engine. */
#include "io/io_suite.h"

/* ---- the suite ---- */

static void the_engine_says_what_it_is(void **state)
{
    fby__io *io = make_io(kind_of(state));
    if (kind_of(state) == FBY__IO_AUTO)
        assert_true(fby__io_kind_of(io) == FBY__IO_URING || fby__io_kind_of(io) == FBY__IO_THREADS);
    else
        assert_int_equal(fby__io_kind_of(io), kind_of(state));
    fby__io_destroy(io);
    fby__io_destroy(NULL);
}

static void every_range_is_read_as_it_lies_in_the_file(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    fby__random r = {.key = SEED};
    print_message("seed %d\n", SEED);
    for (int i = 0; i < 200; i++) {
        job *j = random_job(kind, file, &r, 1 + fby__random_below(&r, 40), i % 10 ? 300 : 30000);
        submit(io, j, i % 2);
        expect_job(kind, j);
        free_job(j);
    }
    fby__file_unref(file);
    fby__io_destroy(io);
}

static void the_edges_of_the_file_and_empty_requests_are_read(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    write_file(path_of("empty"), 0);
    fby__file *empty = open_file(path_of("empty"));
    for (int try_now = 0; try_now < 2; try_now++) {
        job *j = make_job(kind, 6, FILE_BYTES + 20);
        const fby__io_request want[] = {{file, 0, FILE_BYTES, j->buf, NULL},
                                        {file, 0, 1, j->buf ? j->buf + FILE_BYTES : NULL, NULL},
                                        {file, FILE_BYTES - 1, 1, j->buf ? j->buf + FILE_BYTES + 1 : NULL, NULL},
                                        {file, FILE_BYTES, 0, j->buf, NULL},
                                        {empty, 0, 0, j->buf, NULL},
                                        {file, 12345, 0, NULL, NULL}};
        memcpy(j->requests, want, sizeof want);
        submit(io, j, try_now);
        expect_job(kind, j);
        free_job(j);

        j = make_job(kind, 0, 0);
        submit(io, j, try_now);
        expect_job(kind, j);
        free_job(j);
    }
    fby__file_unref(empty);
    fby__file_unref(file);
    fby__io_destroy(io);
}

static void bytes_not_in_the_page_cache_are_read_too(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    write_file(path_of("cold"), FILE_BYTES);
    fby__random r = {.key = SEED, .stream = 1};
    for (int i = 0; i < 20; i++) {
        int fd = open(path_of("cold"), O_RDONLY);
        assert_int_equal(fsync(fd), 0);
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        close(fd);
        fby__file *file = open_file(path_of("cold"));
        job *j = random_job(kind, file, &r, 12, 20000);
        submit(io, j, i % 2);
        expect_job(kind, j);
        free_job(j);
        fby__file_unref(file);
    }
    fby__io_destroy(io);
}

static void bytes_in_the_page_cache_are_there_when_submit_returns(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__file *file = open_file(path_of("data"));
    fby__io *io = make_io(kind);
    uint8_t byte;
    int fd = open(path_of("data"), O_RDONLY);
    bool supported = pread(fd, &byte, 1, 0) == 1 && preadv2(fd, &(struct iovec){&byte, 1}, 1, 0, RWF_NOWAIT) == 1;
    close(fd);
    if (!supported && (kind == FBY__IO_AUTO || kind == FBY__IO_THREADS || kind == FBY__IO_URING)) {
        print_message("skipped: no RWF_NOWAIT on this file system\n");
    } else {
        fby__random r = {.key = SEED, .stream = 2};
        uint8_t *all = malloc(FILE_BYTES);
        assert_int_equal(fby__file_read(file, 0, all, FILE_BYTES, NULL), FBY_OK); /* now they are */
        job *j = random_job(kind, file, &r, 20, 3000);
        submit(io, j, true);
        assert_int_equal(atomic_load(&j->n_done), 1);
        expect_job(kind, j);
        free_job(j);
        free(all);
    }
    fby__io_destroy(io);
    fby__file_unref(file);
}

static void short_reads_are_completed(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    fby__random r = {.key = SEED, .stream = 3};
    for (uint64_t every = 1; every < 5; every++) {
        fby__io_set_fault(&(fby__io_fault){.short_every = every, .seed = every});
        for (int i = 0; i < 10; i++) {
            job *j = random_job(kind, file, &r, 30, 5000);
            submit(io, j, i % 2);
            expect_job(kind, j);
            free_job(j);
        }
    }
    no_faults();
    fby__file_unref(file);
    fby__io_destroy(io);
}

typedef struct submitter {
    pthread_t thread;
    fby__io_kind kind;
    fby__io *io;
    fby__file *file;
    uint64_t stream;
    job *jobs[12];
} submitter;

static void *submit_some(void *arg)
{
    submitter *s = arg;
    for (int i = 0; i < 12; i++)
        if (fby__io_submit(s->io, &s->jobs[i]->batch, i % 3 == 0, NULL) != FBY_OK)
            abort();
    return NULL;
}

static void batches_of_several_threads_under_random_delays_are_each_done_once(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 1000000, .short_every = 7, .seed = SEED});
    static submitter s[4];
    for (int t = 0; t < 4; t++) {
        fby__random r = {.key = SEED, .stream = 10 + (uint64_t)t};
        s[t] = (submitter){.kind = kind, .io = io, .file = file};
        for (int i = 0; i < 12; i++)
            s[t].jobs[i] = random_job(kind, file, &r, 1 + fby__random_below(&r, 8), 2000);
        assert_int_equal(pthread_create(&s[t].thread, NULL, submit_some, &s[t]), 0);
    }
    for (int t = 0; t < 4; t++) {
        pthread_join(s[t].thread, NULL);
        for (int i = 0; i < 12; i++) {
            expect_job(kind, s[t].jobs[i]);
            assert_true(s[t].jobs[i]->batch.elapsed_ns > 0);
        }
    }
    fby__io_destroy(io);
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 12; i++)
            free_job(s[t].jobs[i]);
    no_faults();
    fby__file_unref(file);
}

/* A slow disk serves several reads at once, and so does one that faults make slow: what they wait for is not added up. */
static void delayed_reads_wait_side_by_side(void **state)
{
    enum { N = 8, MOST_NS = 100000000 };
    fby__io_kind kind = kind_of(state);
    if (kind != FBY__IO_URING && kind != FBY__IO_THREADS)
        skip(); /* the others read where they are asked */
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    uint64_t together_ns = 0;
    for (uint64_t read = 1; read <= N; read++)
        together_ns += fby__random_u64(SEED, read, 2) % MOST_NS;
    job *j = make_job(kind, N, N * 512);
    for (size_t i = 0; i < N; i++)
        j->requests[i] = (fby__io_request){.file = file, .offset = 512 * i, .dst = j->buf + 512 * i, .n = 512};
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = MOST_NS, .seed = SEED});
    submit(io, j, false);
    expect_job(kind, j);
    no_faults();
    print_message("%d delayed reads: %.0f ms, one after the other they would take %.0f\n", N, 1e-6 * (double)j->batch.elapsed_ns,
                  1e-6 * (double)together_ns);
    assert_true(j->batch.elapsed_ns < together_ns * 2 / 3);
    fby__io_destroy(io);
    free_job(j);
    fby__file_unref(file);
}

static void destroy_waits_for_the_batches_in_flight(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__file *file = open_file(path_of("data"));
    fby__random r = {.key = SEED, .stream = 4};
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 2000000, .seed = SEED});
    for (int round = 0; round < 5; round++) {
        fby__io *io = make_io(kind);
        job *jobs[6];
        for (int i = 0; i < 6; i++)
            submit(io, jobs[i] = random_job(kind, file, &r, 10, 500), false);
        fby__io_destroy(io);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(atomic_load(&jobs[i]->n_done), 1);
            expect_job(kind, jobs[i]);
            free_job(jobs[i]);
        }
    }
    no_faults();
    fby__file_unref(file);
}

static void *cancel_soon(void *token)
{
    (void)usleep(20000);
    fby_cancel_set(token);
    return NULL;
}

static void what_a_cancelled_batch_has_not_read_yet_is_not_read(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__file *file = open_file(path_of("data"));
    fby__random r = {.key = SEED, .stream = 5};
    fby_cancel *token = fby_cancel_create(), *before = fby_cancel_use(token);
    pthread_t thread;
    fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 20000000, .seed = SEED});
    fby__io *io = make_io(kind);
    job *j = random_job(kind, file, &r, 4000, 100); /* five seconds of delays, eight at a time */
    const uint64_t began = fby__now_ns();
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, token), 0);
    submit(io, j, false);
    const fby_status status = wait_for(j);
    assert_true(status == FBY_E_CANCELLED || (kind == FBY__IO_MMAP && status == FBY_OK)); /* nothing is read where files are mapped */
    assert_true(fby__now_ns() - began < UINT64_C(1000000000));
    assert_int_equal(pthread_join(thread, NULL), 0);
    free_job(j);
    fby__io_destroy(io);
    no_faults();
    (void)fby_cancel_use(before);
    fby_cancel_destroy(token);
    fby__file_unref(file);
}

typedef struct chain {
    fby__io_batch batch;
    fby__io_request request;
    fby__io *io;
    uint8_t buf[64];
    int left;
    bool ok;
    sem_t *done;
} chain;

static void chain_done(fby__io_batch *batch)
{
    chain *c = batch->user;
    chain *next = malloc(sizeof *next);
    *next = *c;
    next->ok = c->ok && batch->error.code == FBY_OK;
    free(c); /* the batch is the caller's again */
    next->batch.user = next;
    next->batch.requests = &next->request;
    if (next->request.dst)
        next->request.dst = next->buf;
    if (--next->left > 0) {
        if (fby__io_submit(next->io, &next->batch, next->left % 2, NULL) != FBY_OK)
            abort();
        return;
    }
    bool ok = next->ok;
    sem_t *done = next->done;
    free(next);
    if (!ok || sem_post(done) != 0)
        abort();
}

static void done_may_free_its_batch_and_submit_the_next(void **state)
{
    fby__io_kind kind = kind_of(state);
    fby__io *io = make_io(kind);
    fby__file *file = open_file(path_of("data"));
    sem_t done;
    assert_int_equal(sem_init(&done, 0, 0), 0);
    for (int i = 0; i < 4; i++) {
        chain *c = calloc(1, sizeof *c);
        *c = (chain){.request = {.file = file, .n = 64, .offset = 100, .dst = kind == FBY__IO_MMAP ? NULL : c->buf},
                     .io = io,
                     .left = 100,
                     .ok = true,
                     .done = &done};
        c->batch = (fby__io_batch){.requests = &c->request, .n_requests = 1, .done = chain_done, .user = c};
        assert_int_equal(fby__io_submit(io, &c->batch, false, NULL), FBY_OK);
    }
    for (int i = 0; i < 4; i++)
        while (sem_wait(&done) != 0) {
        }
    fby__io_destroy(io);
    sem_destroy(&done);
    fby__file_unref(file);
}

/* ---- what is particular to one engine ---- */

static void mapped_bytes_live_as_long_as_the_file_and_a_buffer_is_filled_too(void **state)
{
    (void)state;
    fby__io *io = make_io(FBY__IO_MMAP);
    fby__file *file = open_file(path_of("data"));
    uint8_t own[100];
    job *j = make_job(FBY__IO_MMAP, 3, 0);
    j->requests[0] = (fby__io_request){.file = file, .offset = 5000, .n = 100};
    j->requests[1] = (fby__io_request){.file = file, .offset = 9000, .n = 100};
    j->requests[2] = (fby__io_request){.file = file, .offset = 9000, .n = 100, .dst = own};
    submit(io, j, false);
    assert_int_equal(wait_for(j), FBY_OK);
    assert_ptr_equal(j->requests[0].mapped + 4000, j->requests[1].mapped); /* one mapping a file */
    assert_null(j->requests[2].mapped);
    expect_bytes(own, 9000, 100);
    fby__io_destroy(io);
    expect_bytes(j->requests[0].mapped, 5000, 100);
    free_job(j);
    fby__file_unref(file);
}

static void bad_options_and_missing_buffers_are_refused(void **state)
{
    (void)state;
    fby__io *io = NULL;
    fby_error err;
    assert_int_equal(fby__io_create(&(fby__io_opts){.kind = FBY__IO_KIND_COUNT}, &io, &err), FBY_E_ARG);
    assert_int_equal(fby__io_create(&(fby__io_opts){.kind = FBY__IO_THREADS, .n_threads = -1}, &io, &err), FBY_E_ARG);
    assert_int_equal(fby__io_create(&(fby__io_opts){.kind = FBY__IO_THREADS, .n_threads = 100000}, &io, &err), FBY_E_ARG);
    assert_null(io);
    assert_string_equal(fby__io_kind_name(FBY__IO_URING), "io_uring");
    assert_string_equal(fby__io_kind_name(FBY__IO_KIND_COUNT), "unknown engine");
    io = make_io(FBY__IO_THREADS);
    fby__file *file = open_file(path_of("data"));
    job *j = make_job(FBY__IO_MMAP, 1, 0);
    j->requests[0] = (fby__io_request){.file = file, .n = 10};
    assert_int_equal(fby__io_submit(io, &j->batch, true, &err), FBY_E_ARG);
    atomic_store(&j->n_done, 1);
    free_job(j);
    fby__file_unref(file);
    fby__io_destroy(io);
}

/* Make system call `nr` fail with `error` in this process, for good. */
static bool forbid(long nr, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = 4, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

/* As containers do it. In a child, since it cannot be undone. */
static void where_the_kernel_refuses_io_uring_and_preadv2_threads_read(void **state)
{
    (void)state;
    fby__file *file = open_file(path_of("data"));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        fby__io *io;
        fby_error err;
        uint8_t buf[100] = {0};
        fby__io_request request = {.file = file, .offset = 1000, .n = sizeof buf, .dst = buf};
        job j = {.batch = {.requests = &request, .n_requests = 1, .done = job_done, .user = &j}};
        if (!forbid(SYS_io_uring_setup, EPERM) || !forbid(SYS_preadv2, ENOSYS))
            _exit(77);
        if (fby__io_create(&(fby__io_opts){.kind = FBY__IO_URING}, &io, &err) != FBY_E_UNSUPPORTED || !strstr(err.message, "io_uring"))
            _exit(1);
        if (fby__io_create(&(fby__io_opts){.kind = FBY__IO_AUTO}, &io, &err) != FBY_OK || fby__io_kind_of(io) != FBY__IO_THREADS)
            _exit(2);
        if (sem_init(&j.done, 0, 0) != 0 || fby__io_submit(io, &j.batch, true, &err) != FBY_OK || wait_for(&j) != FBY_OK)
            _exit(3);
        for (size_t i = 0; i < sizeof buf; i++)
            if (buf[i] != byte_at(1000 + i))
                _exit(4);
        fby__io_destroy(io);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    fby__file_unref(file);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no seccomp filters here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Programs that close all descriptors exist. */
static void a_ring_whose_descriptor_was_closed_fails_its_batches_and_ends(void **state)
{
    (void)state;
    fby__io *io;
    fby_error err;
    if (fby__io_create(&(fby__io_opts){.kind = FBY__IO_URING}, &io, &err) != FBY_OK) {
        print_message("skipped: %s\n", err.message);
        skip();
    }
    int ring = -1;
    for (int fd = 3; fd < 100; fd++) {
        char link[32], target[64] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) > 0 && strstr(target, "io_uring"))
            ring = fd;
    }
    assert_true(ring > 0);
    int nothing = open("/dev/null", O_RDONLY);
    fby__file *file = open_file(path_of("data"));
    fby__random r = {.key = SEED, .stream = 7};
    job *before = random_job(FBY__IO_URING, file, &r, 20, 500), *after = random_job(FBY__IO_URING, file, &r, 200, 500);
    submit(io, before, false);
    expect_job(FBY__IO_URING, before);
    assert_int_equal(dup2(nothing, ring), ring);
    submit(io, after, false); /* more requests than slots: some were not even taken */
    fby_status status = wait_for(after);
    assert_int_equal(status, FBY_E_IO);
    assert_non_null(strstr(after->batch.error.message, "io_uring stopped working"));
    atomic_store(&before->n_done, 0);
    assert_int_equal(fby__io_submit(io, &before->batch, false, &err), FBY_E_IO);
    fby__io_destroy(io);
    assert_int_equal(atomic_load(&before->n_done), 0);
    atomic_store(&before->n_done, 1);
    free_job(before);
    free_job(after);
    close(nothing);
    fby__file_unref(file);
}

enum { PIPED_BYTES = 440000 };

static void *drain_slowly(void *pipe_end)
{
    static uint8_t bytes[8192];
    size_t n = 0;
    for (ssize_t got; n < PIPED_BYTES && (got = read(*(int *)pipe_end, bytes, sizeof bytes)) > 0; n += (size_t)got)
        (void)usleep(300);
    return (void *)(n == PIPED_BYTES ? pipe_end : NULL);
}

/* The kernel takes a ring apart after the fact, and must interrupt nobody but the engine's own thread. */
static void a_write_that_waits_while_a_ring_is_taken_apart_is_whole(void **state)
{
    (void)state;
    static uint8_t bytes[PIPED_BYTES];
    fby__file *file = open_file(path_of("data"));
    fby__random r = {.key = SEED, .stream = 8};
    for (int i = 0; i < 40; i++) {
        int ends[2];
        pthread_t reader;
        void *whole;
        fby__io *io;
        fby_error err;
        if (fby__io_create(&(fby__io_opts){.kind = FBY__IO_URING}, &io, &err) != FBY_OK) {
            print_message("skipped: %s\n", err.message);
            skip();
        }
        job *j = random_job(FBY__IO_URING, file, &r, 20, 500);
        submit(io, j, false);
        expect_job(FBY__IO_URING, j);
        free_job(j);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(pthread_create(&reader, NULL, drain_slowly, &ends[0]), 0);
        fby__io_destroy(io);
        assert_int_equal(write(ends[1], bytes, sizeof bytes), sizeof bytes);
        assert_int_equal(pthread_join(reader, &whole), 0);
        assert_non_null(whole);
        close(ends[0]);
        close(ends[1]);
    }
    fby__file_unref(file);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_says_what_it_is),
        cmocka_unit_test(every_range_is_read_as_it_lies_in_the_file),
        cmocka_unit_test(the_edges_of_the_file_and_empty_requests_are_read),
        cmocka_unit_test(bytes_not_in_the_page_cache_are_read_too),
        cmocka_unit_test(bytes_in_the_page_cache_are_there_when_submit_returns),
        cmocka_unit_test(short_reads_are_completed),
        cmocka_unit_test(batches_of_several_threads_under_random_delays_are_each_done_once),
        cmocka_unit_test(delayed_reads_wait_side_by_side),
        cmocka_unit_test(destroy_waits_for_the_batches_in_flight),
        cmocka_unit_test(what_a_cancelled_batch_has_not_read_yet_is_not_read),
        cmocka_unit_test(done_may_free_its_batch_and_submit_the_next),
    };
    const int failed = run_with_each_engine(tests, sizeof tests / sizeof *tests);
    const struct CMUnitTest particular[] = {
        cmocka_unit_test(mapped_bytes_live_as_long_as_the_file_and_a_buffer_is_filled_too),
        cmocka_unit_test(bad_options_and_missing_buffers_are_refused),
        cmocka_unit_test(where_the_kernel_refuses_io_uring_and_preadv2_threads_read),
        cmocka_unit_test(a_ring_whose_descriptor_was_closed_fails_its_batches_and_ends),
        cmocka_unit_test(a_write_that_waits_while_a_ring_is_taken_apart_is_whole),
    };
    return failed + cmocka_run_group_tests(particular, make_dir, remove_dir);
}
