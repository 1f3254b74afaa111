/* Tasks of one phase by threads of this process, and the calling thread, which says how far they are and hears when it is to stop. */
#include "base/cancel.h"
#include "base/checked.h"
#include "base/condition.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"
#include "pool/pool.h"

typedef struct crew {
    fby__pack *p;
    const fby__pack_phase_ops *phase;
    uint32_t n_workers;
    pthread_t threads[FBY__PACK_WORKERS];
    pthread_mutex_t lock;
    pthread_cond_t ended;
    /* under lock */
    uint64_t next, last; /* tasks that nobody has begun */
    uint32_t running;
    fby_status status;
    fby_error error;
    bool lacks_memory; /* that is why */
} crew;

fby_status fby__pack_go_on(const fby__pack *p, fby_error *err)
{
    if (atomic_load_explicit(&p->stop, memory_order_relaxed))
        return fby__fail(err, FBY_E_CANCELLED, "another thread has failed");
    return fby__cancel_check(err);
}

static bool next_task(crew *c, uint64_t *out)
{
    (void)pthread_mutex_lock(&c->lock);
    const bool more = c->status == FBY_OK && c->next < c->last;
    *out = c->next;
    c->next += more;
    (void)pthread_mutex_unlock(&c->lock);
    return more;
}

static void end_worker(crew *c, fby_status status, bool lacks_memory, const fby_error *error)
{
    (void)pthread_mutex_lock(&c->lock);
    if (status != FBY_OK && c->status == FBY_OK) {
        c->status = status;
        c->lacks_memory = lacks_memory;
        c->error = *error;
        atomic_store_explicit(&c->p->stop, true, memory_order_relaxed);
    }
    c->running--;
    (void)pthread_cond_signal(&c->ended);
    (void)pthread_mutex_unlock(&c->lock);
}

static void *work(void *arg)
{
    crew *c = arg;
    void *worker = NULL;
    fby_error error = {0};
    uint64_t k;
    fby_status status = c->phase->begin(c->p, c->n_workers, &worker, &error);
    while (status == FBY_OK && next_task(c, &k))
        status = c->phase->run(worker, k, &error);
    const bool lacks_memory = worker && status != FBY_OK && c->phase->lacks_memory(worker);
    if (worker)
        c->phase->end(worker);
    end_worker(c, status, lacks_memory, &error);
    return NULL;
}

/* Until the last thread has ended: progress, and the word that it is cancelled. */
static void wait_for_workers(crew *c)
{
    bool ended = false;
    while (!ended) {
        fby_error error;
        (void)pthread_mutex_lock(&c->lock);
        if (c->running)
            (void)fby__cond_wait_until(&c->ended, &c->lock, fby__now_ns() + FBY__CANCEL_SLICE_NS); /* too early is early */
        ended = c->running == 0;
        (void)pthread_mutex_unlock(&c->lock);
        if (fby__pack_tick(c->p, &error) != FBY_OK)
            atomic_store_explicit(&c->p->stop, true, memory_order_relaxed);
    }
}

/* About what reading the largest block takes: as stored, and decoded while it is put together. */
static double largest_block(const fby__pack *p)
{
    double most = 1;
    for (uint32_t b = 0; b < fby__dataset_block_count(p->ds); b++) {
        const fby__block *block = fby__dataset_block(p->ds, b);
        const double need = (double)block->stored_bytes + 1.5 * p->row_bytes * (double)(block->row_end - block->row_begin);
        most = need > most ? need : most;
    }
    return most;
}

/* Phases that read the source have fewer threads where a thread's part of the memory would not do for a block. */
static uint32_t worker_count(const fby__pack *p, const fby__pack_phase_ops *phase)
{
    if (!phase->reads_source(p))
        return p->n_workers;
    if (p->pipeline) /* a loader has threads of its own */
        return 1;
    const double fit = (double)p->memory_bytes / 4 / largest_block(p);
    return fit >= p->n_workers ? p->n_workers : fit > 1 ? (uint32_t)fit : 1;
}

static fby_status run(crew *c, fby_error *err)
{
    uint32_t n = 0;
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)fby__cond_init(&c->ended);
    fby_status status = FBY_OK;
    while (n < c->n_workers && status == FBY_OK) {
        (void)pthread_mutex_lock(&c->lock);
        c->running++;
        (void)pthread_mutex_unlock(&c->lock);
        status = fby__thread_start(&c->threads[n], "forebay-pack", (int)n, FBY__STACK_OWN, work, c, err);
        if (status == FBY_OK)
            n++;
        else
            end_worker(c, n ? FBY_OK : status, false, err ? err : &(fby_error){.code = status}); /* one thread is enough */
    }
    wait_for_workers(c);
    for (uint32_t i = 0; i < n; i++)
        (void)pthread_join(c->threads[i], NULL);
    (void)pthread_cond_destroy(&c->ended);
    (void)pthread_mutex_destroy(&c->lock);
    if (c->status == FBY_OK)
        return fby__cancel_check(err);
    if (err)
        *err = c->error;
    return c->status;
}

fby_status fby__pack_crew_run(fby__pack *p, const fby__pack_phase_ops *phase, uint64_t first, uint64_t last, fby_error *err)
{
    FBY__TRY(fby__pack_begin_doing(p, phase->doing, err));
    const uint64_t done = atomic_load_explicit(&p->done, memory_order_relaxed);
    crew c = {.p = p, .phase = phase, .next = first, .last = last, .status = FBY_OK};
    c.n_workers = (uint32_t)fby__min_u64(worker_count(p, phase), fby__max_u64(1, last - first));
    const fby_status status = run(&c, err);
    if (status == FBY_OK || !c.lacks_memory || c.n_workers == 1)
        return status;
    /* A block takes more than it looked like: what is missing by one thread, which has all of the memory. */
    fby__error_clear(err);
    atomic_store_explicit(&p->stop, false, memory_order_relaxed);
    atomic_store_explicit(&p->done, done, memory_order_relaxed);
    c = (crew){.p = p, .phase = phase, .next = first, .last = last, .status = FBY_OK, .n_workers = 1};
    return run(&c, err);
}
