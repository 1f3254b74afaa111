/* An engine of any kind, and batches to wait for. */
#ifndef FBY_TEST_IO_SUITE_H
#define FBY_TEST_IO_SUITE_H

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

static inline fby__io_kind kind_of(void **state) { return *(const fby__io_kind *)*state; }

static inline fby__io *make_io(fby__io_kind kind)
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

static inline void job_done(fby__io_batch *batch)
{
    job *j = batch->user;
    atomic_fetch_add(&j->n_done, 1);
    if (sem_post(&j->done) != 0)
        abort();
}

static inline job *make_job(fby__io_kind kind, size_t n_requests, size_t buf_bytes)
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
static inline job *random_job(fby__io_kind kind, fby__file *file, fby__random *r, size_t n_requests, size_t max_bytes)
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

static inline void submit(fby__io *io, job *j, bool try_now)
{
    fby_error err;
    if (fby__io_submit(io, &j->batch, try_now, &err) != FBY_OK)
        fail_msg("%s", err.message);
}

static inline fby_status wait_for(job *j)
{
    while (sem_wait(&j->done) != 0) {
    }
    return j->batch.error.code;
}

static inline void expect_job(fby__io_kind kind, job *j)
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

static inline void free_job(job *j)
{
    assert_int_equal(atomic_load(&j->n_done), 1);
    sem_destroy(&j->done);
    free(j->buf);
    free(j->requests);
    free(j);
}

/* ---- the suite, with each engine that there is ---- */

static inline int run_with_each_engine(struct CMUnitTest *tests, size_t n)
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
        for (size_t i = 0; i < n; i++)
            tests[i].initial_state = &kind;
        failed += _cmocka_run_group_tests(fby__io_kind_name(kind), tests, n, make_dir, remove_dir);
    }
    return failed;
}

#endif
