/*
 * Blocking reads on threads of the engine.
 *
 * The threads take requests, not batches, so that the ranges of one block are read side by side; batches are served in
 * the order of their submission. The default of 16 threads is for latency, not for CPUs: an NVMe drive reaches its
 * rated bandwidth at a queue depth of 16 or more, and a network file system answers in milliseconds; a waiting thread
 * costs some 16 KiB of kernel and touched stack memory.
 */
#include "io/io_impl.h"

#include "pool/pool.h"

#define DEFAULT_THREADS 16
#define MAX_THREADS 1024

typedef struct threads {
    /* set once */
    int n_threads;
    pthread_t threads[MAX_THREADS];

    pthread_mutex_t lock; /* guards the rest, and next and cursor of the queued batches */
    pthread_cond_t work;
    fby__io_batch *head, *tail; /* batches with requests that no thread has yet; borrowed */
    int n_idle;
    bool stopping; /* the threads leave when the queue is empty */
} threads;

/* The next request to read, or false when the engine stops. */
static bool next_request(threads *self, fby__io_batch **out_batch, fby__io_request **out_request)
{
    pthread_mutex_lock(&self->lock);
    while (!self->head && !self->stopping) {
        self->n_idle++;
        pthread_cond_wait(&self->work, &self->lock);
        self->n_idle--;
    }
    fby__io_batch *batch = self->head;
    if (batch) {
        *out_batch = batch;
        *out_request = &batch->requests[batch->cursor++];
        if (batch->cursor == batch->n_requests)
            self->head = batch->next;
    }
    pthread_mutex_unlock(&self->lock);
    return batch != NULL;
}

static void *serve(void *arg)
{
    threads *self = arg;
    fby__io_batch *batch;
    fby__io_request *request;
    while (next_request(self, &batch, &request)) {
        fby_error error;
        fby_cancel *before = fby_cancel_use(batch->cancel);
        if (!fby__io_batch_is_over(batch) && fby__file_read(request->file, request->offset, request->dst, request->n, &error) != FBY_OK)
            fby__io_batch_fail(batch, &error);
        (void)fby_cancel_use(before);
        fby__io_batch_finish(batch, 1);
    }
    return NULL;
}

static void destroy(void *arg)
{
    threads *self = arg;
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    pthread_cond_broadcast(&self->work);
    pthread_mutex_unlock(&self->lock);
    for (int i = 0; i < self->n_threads; i++)
        pthread_join(self->threads[i], NULL);
    pthread_cond_destroy(&self->work);
    pthread_mutex_destroy(&self->lock);
    fby__free(self);
}

static fby_status create(const fby__io_opts *opts, void **out, fby_error *err)
{
    int n_threads = opts->n_threads ? opts->n_threads : DEFAULT_THREADS;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return fby__fail(err, FBY_E_ARG, "%d I/O threads: choose 1 to %d, or 0 for %d", n_threads, MAX_THREADS, DEFAULT_THREADS);
    threads *self = fby__calloc(1, sizeof *self);
    if (!self)
        return fby__fail_nomem(err, "I/O threads");
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, NULL);
    for (; self->n_threads < n_threads; self->n_threads++) {
        fby_status status =
            fby__thread_start(&self->threads[self->n_threads], "forebay-io", self->n_threads, FBY__STACK_OWN, serve, self, err);
        if (status != FBY_OK) {
            destroy(self);
            return status;
        }
    }
    *out = self;
    return FBY_OK;
}

static fby_status submit(void *arg, fby__io_batch *batch, fby_error *err)
{
    (void)err; /* queueing cannot fail */
    threads *self = arg;
    size_t n = batch->n_requests - batch->cursor;
    pthread_mutex_lock(&self->lock);
    if (self->head)
        self->tail->next = batch;
    else
        self->head = batch;
    self->tail = batch;
    /* Under the lock: afterwards the batch may be done and the engine destroyed. */
    for (int i = 0; i < self->n_idle && (size_t)i < n; i++)
        pthread_cond_signal(&self->work);
    pthread_mutex_unlock(&self->lock);
    return FBY_OK;
}

const fby__io_ops fby__io_threads = {.create = create, .submit = submit, .destroy = destroy, .tries_now = true};
