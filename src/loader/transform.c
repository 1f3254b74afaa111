/*
 * The user's transform: a stage between batches that are assembled and the consumer, in the queue's ring.
 *
 *   published ──its turn──► out: with the user's code ──► ready
 *
 * Batches are assembled in any order. One that is finished waits in its slot of the ring until its turn comes: until those before it are
 * transformed, and the consumer is near enough. The user's code is a callback, which one task of the pool runs for as many batches as are there, or
 * threads of the program's that pull batches and give back results (fby_loader_transform_next). Both are the same stage:
 *
 *   1. `transform.next` moves by one when a batch was transformed, never otherwise, and only one batch is out: calls are in the epoch's order,
 *      one at a time.
 *   2. The turn stays at a batch that failed, here or before: nothing behind it is transformed, since the epoch is over at it.
 *   3. The slot of the batch that is out is nobody else's: the consumer waits until it is ready, and the ring is cleared only when n_users is 0.
 *
 * Memory: a batch that waits is one of the `depth` that the budget counts. One that is pulled is the program's, and leaves the budget.
 */
#include "loader/internal.h"

#include "base/cancel.h"
#include "base/condition.h"
#include "trace/events.h"

static fby__finished *slot_locked(const fby__queue *q, uint32_t depth) { return &q->ring[q->transform.next % depth]; }

/* The slot of the batch whose turn it is, when it is assembled and still wanted. */
static fby__finished *turn_locked(const fby__queue *q, const fby__loader_config *config)
{
    if (q->over || q->cancelled || q->transform.out || q->transform.next >= q->next + config->transform_ahead)
        return NULL;
    fby__finished *slot = slot_locked(q, config->depth);
    return slot->batch && !slot->ready ? slot : NULL;
}

/* Nothing more is transformed of the epoch that was begun as the n-th. */
static bool is_over_locked(fby_loader *l, uint64_t epochs_begun)
{
    const fby__queue *q = &l->queue;
    const bool failed = !q->transform.out && q->transform.next < q->next + l->config.depth && slot_locked(q, l->config.depth)->ready;
    return q->over || q->cancelled || failed || q->transform.next == q->n_batches || fby_loader_epochs_begun(l) != epochs_begun;
}

/* Whoever waits for a turn, or for the last user, looks again. */
static void unuse_locked(fby__transform *t)
{
    t->n_users--;
    pthread_cond_broadcast(&t->moved);
}

/* The slot of the batch that was out has what became of it. */
static void back_locked(fby__queue *q, uint32_t depth, fby__finished *slot)
{
    slot->ready = true;
    q->transform.out = false;
    q->transform.next += !slot->failed;
    if (q->ring[q->next % depth].ready) /* at once, unlike fby__loader_wake_locked: the next call may take long */
        pthread_cond_signal(&q->ready);
}

/* A batch was transformed, from then until now. */
static void note(fby__trace *trace, uint64_t began, uint64_t batch)
{
    const uint64_t ended = fby__now_ns();
    fby__trace_stage(trace, FBY__STAGE_TRANSFORM, ended - began);
    fby__event_span("transform", began, ended, "batch", batch);
}

/* ---- a callback ---- */

/* The callback, and what it says made into an error of ours. */
static fby_status call(fby_transform_fn run, void *user, fby_batch *b, fby_error *err)
{
    *err = (fby_error){.file_offset = -1};
    fby_status status = run(user, b, err);
    if (status == FBY_OK)
        return FBY_OK;
    err->message[sizeof err->message - 1] = '\0'; /* the user's bytes */
    if ((int)status < FBY_E_ARG || status >= FBY_STATUS_COUNT)
        status = fby__fail(err, FBY_E_ARG, "it returned %d: return FBY_OK, or an error", (int)status);
    else if (!err->message[0])
        (void)fby__fail(err, status, "it returned %s without a message", fby_status_name(status)); /* the same status */
    err->code = status;
    if (b->epoch == FBY_EPOCH_TRIAL)
        fby__error_context(err,
                           "transform of the first samples in file order, tried when the loader is opened (unless transform_unchecked)");
    else
        fby__error_context(err, "transform of batch %llu, epoch %llu", (unsigned long long)b->index, (unsigned long long)b->epoch);
    return status;
}

/* A loader of its own, without what is about the order: nothing of the one that is being opened begins. */
fby_status fby__transform_try(fby_dataset *ds, const fby_loader_opts *opts, fby_error *err)
{
    fby_loader_opts plain = *opts;
    plain.transform = NULL;
    plain.shuffle = FBY_SHUFFLE_NONE;
    plain.tail = FBY_TAIL_KEEP;
    plain.rank = 0;
    plain.world_size = 1;
    plain.prefetch_batches = 1;
    plain.transform_prefetch = 0;
    plain.part_files = plain.part_keys = plain.n_parts = 0;
    plain.part_key = NULL;
    plain.diversity_files = plain.max_superbatch_batches = 0;
    plain.bucket_samples = 0;
    fby_loader *l = NULL;
    fby_batch *b = NULL;
    fby_error failed = {.file_offset = -1};
    fby_status status = fby_loader_open(ds, &plain, &l, &failed);
    if (status == FBY_OK && (status = fby_loader_next(l, -1, &b, &failed)) == FBY_OK) {
        b->epoch = FBY_EPOCH_TRIAL;
        status = call(opts->transform, opts->transform_user, b, &failed);
        fby_batch_unref(b);
    }
    fby_loader_close(l);
    if (status != FBY_OK && err)
        *err = failed;
    return status;
}

static void transform_batches(fby__task *task, int worker)
{
    (void)worker;
    fby_loader *l = FBY__TASK_OWNER(task, fby_loader, queue.transform.task);
    fby__queue *q = &l->queue;
    pthread_mutex_lock(&q->lock);
    for (fby__finished *slot; (slot = turn_locked(q, &l->config)) != NULL;) {
        fby_error err;
        q->transform.out = true;
        pthread_mutex_unlock(&q->lock);
        const uint64_t began = fby__now_ns();
        const fby_status status = call(l->config.transform, l->config.transform_user, slot->batch, &err);
        note(&l->engine.trace, began, q->transform.next); /* which no one else moves while the batch is out */
        pthread_mutex_lock(&q->lock);
        if (status != FBY_OK) {
            fby_batch_unref(slot->batch);
            *slot = (fby__finished){.error = fby__error_copy(&err), .failed = true};
        }
        back_locked(q, l->config.depth, slot);
    }
    unuse_locked(&q->transform);
    pthread_mutex_unlock(&q->lock);
}

/* ---- threads of the program's ---- */

uint64_t fby_loader_epochs_begun(const fby_loader *l) { return atomic_load_explicit(&l->consumer.epochs_begun, memory_order_relaxed); }

fby_status fby_loader_transform_next(fby_loader *l, uint64_t epochs_begun, fby_batch **out, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    if (!l->config.asked.transform_pulled)
        return fby__fail(err, FBY_E_STATE, "this loader was opened without transform_pulled");
    fby__transform *t = &l->queue.transform;
    fby__finished *slot = NULL;
    fby_batch *batch = NULL;
    pthread_mutex_lock(&l->queue.lock);
    t->n_users++;
    while (!is_over_locked(l, epochs_begun) && !(slot = turn_locked(&l->queue, &l->config)))
        pthread_cond_wait(&t->moved, &l->queue.lock);
    if (slot) {
        t->out = true;
        t->began_ns = fby__now_ns();
        batch = slot->batch;
        slot->batch = NULL;
    } else {
        unuse_locked(t);
    }
    pthread_mutex_unlock(&l->queue.lock);
    if (!batch)
        return FBY_END;
    fby__batch_hand_out(batch);
    *out = batch;
    return FBY_OK;
}

void fby__transform_discard_locked(fby__queue *q, uint32_t depth)
{
    q->transform.n_users++; /* nobody begins an epoch in this ring meanwhile */
    for (uint32_t i = 0; i < depth; i++) {
        fby__finished *slot = &q->ring[i];
        void *result = slot->result, (*release)(void *) = slot->release;
        slot->result = NULL;
        slot->release = NULL;
        if (!release)
            continue;
        pthread_mutex_unlock(&q->lock);
        release(result);
        pthread_mutex_lock(&q->lock);
    }
    unuse_locked(&q->transform);
}

/* Takes error over. */
static void put_result_locked(fby_loader *l, void *result, void (*release)(void *result), bool failed, fby_error *error)
{
    fby__queue *q = &l->queue;
    fby__finished *slot = slot_locked(q, l->config.depth);
    note(&l->engine.trace, q->transform.began_ns, q->transform.next);
    slot->result = result;
    slot->release = release;
    slot->failed = failed;
    slot->error = error;
    back_locked(q, l->config.depth, slot);
    if (q->over || q->cancelled)
        fby__transform_discard_locked(q, l->config.depth);
    unuse_locked(&q->transform);
}

fby_status fby_loader_transform_done(fby_loader *l, void *result, void (*release)(void *result), const fby_error *failed, fby_error *err)
{
    fby__queue *q = &l->queue;
    fby_status status = fby__loader_check_process(l, err); /* a child that was forked meanwhile has a copy of the result */
    fby_error *error = status == FBY_OK && failed ? fby__error_copy(failed) : NULL;
    if (status == FBY_OK) {
        pthread_mutex_lock(&q->lock);
        if (l->config.asked.transform_pulled && q->transform.out)
            put_result_locked(l, result, release, failed != NULL, error);
        else
            status = fby__fail(err, FBY_E_STATE, "no batch of this loader is being transformed");
        pthread_mutex_unlock(&q->lock);
    }
    if (status != FBY_OK) {
        fby__free(error);
        if (release)
            release(result);
    }
    return status;
}

void fby__transform_go_on_locked(fby_loader *l)
{
    fby__transform *t = &l->queue.transform;
    if (l->config.asked.transform_pulled) {
        if (turn_locked(&l->queue, &l->config) || is_over_locked(l, fby_loader_epochs_begun(l)))
            pthread_cond_broadcast(&t->moved);
    } else if (t->n_users == 0 && turn_locked(&l->queue, &l->config)) { /* the task looks again before it ends */
        t->n_users = 1;
        t->task = (fby__task){.run = transform_batches, .deadline = fby__assemble_deadline(t->next)};
        fby__pool_submit(l->engine.pool, &t->task);
    }
}

fby_status fby__transform_stop(fby__queue *q, uint32_t depth, bool may_cancel, fby_error *err)
{
    pthread_mutex_lock(&q->lock);
    q->over = true;
    pthread_cond_broadcast(&q->transform.moved);
    while (q->transform.n_users > 0 && !(may_cancel && fby__cancelled()))
        (void)fby__cond_wait_until(&q->transform.moved, &q->lock, fby__now_ns() + FBY__CANCEL_SLICE_NS); /* it is looked at again */
    const bool idle = q->transform.n_users == 0;
    fby__transform_discard_locked(q, depth);
    pthread_mutex_unlock(&q->lock);
    return idle ? FBY_OK : fby__fail(err, FBY_E_CANCELLED, "cancelled while the transform ran on a batch of the epoch before");
}
