/*
 * Worker threads around one heap, one mutex and one condition variable.
 *
 * A task is a page run or a block, tens of microseconds to milliseconds of work, so that one lock is taken some tens of
 * thousands of times a second at most: a lock-free queue could not keep a strict order and would gain nothing.
 *
 * Invariants, under the lock:
 * 1. a task is either in the heap or handed to exactly one worker; after that the pool does not touch it;
 * 2. a worker sleeps only when the heap is empty and the pool is not stopping;
 * 3. a worker leaves only when the heap is empty and the pool is stopping. What a running task submits while others
 *    leave is run by its own worker at the latest.
 */
#include "pool/pool.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/process.h"
#include "pool/task_heap.h"

#include <assert.h>

typedef struct worker {
    fby__pool *pool;
    int index;
    pthread_t thread;
} worker;

struct fby__pool {
    /* set once */
    worker *workers; /* owned, n_threads of them started */
    int n_threads;
    pid_t pid; /* of the process that has the threads */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t work;
    fby__task *heap;
    uint64_t n_submitted; /* numbers the tasks */
    int n_idle;           /* workers asleep, some of which may have been signalled */
    bool stopping;
};

static void *work(void *arg)
{
    worker *w = arg;
    fby__pool *pool = w->pool;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        fby__task *task = fby__task_heap_pop(&pool->heap);
        if (task) {
            pthread_mutex_unlock(&pool->lock);
            task->run(task, w->index);
            pthread_mutex_lock(&pool->lock);
        } else if (pool->stopping) {
            break;
        } else {
            pool->n_idle++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->n_idle--;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

fby_status fby__pool_create(int n_threads, const char *name, fby__stack stack, fby__pool **out, fby_error *err)
{
    fby_status status = FBY_E_NOMEM;
    if (n_threads < 1)
        return fby__fail(err, FBY_E_ARG, "a pool needs at least one thread, not %d", n_threads);
    fby__pool *pool = fby__calloc(1, sizeof *pool);
    if (!pool)
        return fby__fail_nomem(err, "thread pool");
    pool->pid = fby__process_id();
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pool->workers = fby__calloc((size_t)n_threads, sizeof *pool->workers);
    if (!pool->workers) {
        status = fby__fail_nomem(err, "thread pool");
        goto fail;
    }
    for (; pool->n_threads < n_threads; pool->n_threads++) {
        worker *w = &pool->workers[pool->n_threads];
        *w = (worker){.pool = pool, .index = pool->n_threads};
        status = fby__thread_start(&w->thread, name, w->index, stack, work, w, err);
        if (status != FBY_OK)
            goto fail;
    }
    *out = pool;
    return FBY_OK;
fail:
    fby__pool_destroy(pool);
    return status;
}

void fby__pool_submit(fby__pool *pool, fby__task *task)
{
    pthread_mutex_lock(&pool->lock);
    task->order = pool->n_submitted++;
    fby__task_heap_push(&pool->heap, task);
    /* Signalled under the lock: once it is released the task may run, and its end may lead to the pool's destruction.
     */
    if (pool->n_idle > 0)
        pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

uint64_t fby__pool_cpu_ns(fby__pool *pool)
{
    uint64_t sum = 0;
    for (int i = 0; i < pool->n_threads; i++) {
        clockid_t clock;
        if (pthread_getcpuclockid(pool->workers[i].thread, &clock) == 0)
            sum += fby__clock_ns(clock);
    }
    return sum;
}

void fby__pool_destroy(fby__pool *pool)
{
    if (!pool || pool->pid != fby__process_id())
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_threads; i++)
        pthread_join(pool->workers[i].thread, NULL);
    assert(!pool->heap);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    fby__free(pool->workers);
    fby__free(pool);
}
