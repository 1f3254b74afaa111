/* One suite for every engine: the right bytes, each batch done exactly once, and every fault reported. */
#include "io/io_fixture.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define SEED 5201

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

/* ---- an engine and batches to wait for ---- */

static fby__io_kind kind_of(void **state) { return *(const fby__io_kind *)*state; }

static fby__io *make_io(fby__io_kind kind)
{
    fby__io *io;
    fby_error err;
    fby__io_opts opts = {.kind = kind, .n_threads = 4, .depth = 8};
    if (fby__io_create(&opts, &io, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return io;
}

typedef struct job {
    fby__io_batch batch;
    fby__io_request *requests;
    uint8_t *buf;
    sem_t done;
    _Atomic int n_done;
} job;

static void job_done(fby__io_batch *batch)
{
    job *j = batch->user;
    atomic_fetch_add(&j->n_done, 1);
    if (sem_post(&j->done) != 0)
        abort();
}

static job *make_job(fby__io_kind kind, size_t n_requests, size_t buf_bytes)
{
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->requests = calloc(n_requests ? n_requests : 1, sizeof *j->requests);
    j->buf = kind == FBY__IO_MMAP ? NULL : malloc(buf_bytes ? buf_bytes : 1);
    assert_int_equal(sem_init(&j->done, 0, 0), 0);
    j->batch = (fby__io_batch){.requests = j->requests, .n_requests = n_requests, .done = job_done, .user = j};
    if (j->buf)
        memset(j->buf, 0xEE, buf_bytes);
    return j;
}

/* The n requests of a job, random ranges of the file. */
static job *random_job(fby__io_kind kind, fby__file *file, fby__random *r, size_t n_requests, size_t max_bytes)
{
    uint64_t size = fby__file_stamp_of(file)->size_bytes;
    job *j = make_job(kind, n_requests, n_requests * max_bytes);
    for (size_t i = 0; i < n_requests; i++) {
        size_t n = fby__random_below(r, max_bytes + 1);
        j->requests[i] = (fby__io_request){
            .file = file, .n = n, .offset = fby__random_below(r, size - n + 1), .dst = j->buf ? j->buf + i * max_bytes : NULL};
    }
    return j;
}

static void submit(fby__io *io, job *j, bool try_now)
{
    fby_error err;
    if (fby__io_submit(io, &j->batch, try_now, &err) != FBY_OK)
        fail_msg("%s", err.message);
}

static fby_status wait_for(job *j)
{
    while (sem_wait(&j->done) != 0) {
    }
    return j->batch.error.code;
}

static void expect_job(fby__io_kind kind, job *j)
{
    if (wait_for(j) != FBY_OK)
        fail_msg("%s", j->batch.error.message);
    for (size_t i = 0; i < j->batch.n_requests; i++) {
        const fby__io_request *r = &j->requests[i];
        const uint8_t *p = kind == FBY__IO_MMAP ? r->mapped : r->dst;
        if (kind == FBY__IO_NULL)
            for (size_t k = 0; k < r->n; k++)
                assert_int_equal(p[k], 0);
        else
            expect_bytes(p, r->offset, r->n);
    }
}

static void free_job(job *j)
{
    assert_int_equal(atomic_load(&j->n_done), 1);
    sem_destroy(&j->done);
    free(j->buf);
    free(j->requests);
    free(j);
}

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

int main(void)
{
    int failed = 0;
    for (fby__io_kind kind = FBY__IO_AUTO; kind < FBY__IO_KIND_COUNT; kind++) {
        fby__io *io;
        fby_error err;
        fby_status status = fby__io_create(&(fby__io_opts){.kind = kind}, &io, &err);
        if (kind == FBY__IO_URING && status == FBY_E_UNSUPPORTED) {
            print_message("skipped: the suite for io_uring: %s\n", err.message);
            continue;
        }
        if (status == FBY_OK)
            fby__io_destroy(io);
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
            cmocka_unit_test(each_failing_read_fails_its_batch_naming_the_file),
            cmocka_unit_test(a_file_cut_while_it_is_read_is_reported_as_changed),
            cmocka_unit_test(ranges_beyond_the_end_are_reported_as_changed),
            cmocka_unit_test(every_failing_allocation_of_create_is_reported),
            cmocka_unit_test(submitting_allocates_nothing),
            cmocka_unit_test(a_forked_child_is_told_to_open_again),
            cmocka_unit_test(a_read_of_more_than_a_gigabyte_is_split),
        };
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
            tests[i].initial_state = &kind;
        failed += cmocka_run_group_tests_name(fby__io_kind_name(kind), tests, make_dir, remove_dir);
    }
    const struct CMUnitTest particular[] = {
        cmocka_unit_test(mapped_bytes_live_as_long_as_the_file_and_a_buffer_is_filled_too),
        cmocka_unit_test(bad_options_and_missing_buffers_are_refused),
        cmocka_unit_test(where_the_kernel_refuses_io_uring_and_preadv2_threads_read),
        cmocka_unit_test(a_ring_whose_descriptor_was_closed_fails_its_batches_and_ends),
    };
    return failed + cmocka_run_group_tests(particular, make_dir, remove_dir);
}
