/*
 * The user's transform: a stage between a batch that is assembled and the consumer.
 *
 *   assembled ──its turn──► transformed ──► the queue's ring
 *
 * Batches are assembled in any order. One that is finished stays in its flight until its turn comes: until those before it have been
 * transformed. One task, `schedule.transform.task`, runs the callback for as many batches as are ready, one after the other, without a lock.
 *
 *   1. `schedule.transform.next` moves by one when a batch was transformed, never otherwise: calls are in the epoch's order, one at a time.
 *   2. The turn stays at a batch that failed, here or before: nothing behind it is transformed, since the epoch is over at it.
 *   3. While the batch whose turn it is is assembled, the task is queued or runs; so n_busy is not 0, and the pump does not mistake the
 *      wait for a lack of memory (head_is_missing in schedule.c).
 *
 * Memory: a batch that waits is one of the `depth` that the budget counts.
 */
#include "loader/internal.h"

#include "base/clock.h"
#include "trace/events.h"

/* The flight whose turn it is, when it is assembled. */
static fby__flight *turn_locked(fby_loader *l)
{
    fby__flight *f = &l->schedule.flights[l->schedule.transform.next % l->config.depth];
    return f->used && f->index == l->schedule.transform.next && f->n_done == f->n_pieces ? f : NULL;
}

/* The consumer was told that the epoch is over, or is about to be: no further call. */
static bool is_over(fby__queue *q)
{
    pthread_mutex_lock(&q->lock);
    bool over = q->over || q->cancelled;
    pthread_mutex_unlock(&q->lock);
    return over;
}

/* At once, unlike fby__loader_wake_locked: the next call of the user's code may take long. */
static void wake(fby_loader *l)
{
    pthread_mutex_lock(&l->queue.lock);
    if (l->queue.ring[l->queue.next % l->config.depth].ready)
        pthread_cond_signal(&l->queue.ready);
    pthread_mutex_unlock(&l->queue.lock);
}

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
    fby_loader *l = FBY__TASK_OWNER(task, fby_loader, schedule.transform.task);
    pthread_mutex_lock(&l->schedule.lock);
    for (fby__flight *f; !l->schedule.stop && !is_over(&l->queue) && (f = turn_locked(l)) != NULL;) {
        fby_batch *b = f->batch;
        fby_error err;
        fby__schedule_unlock(l);
        uint64_t began = fby__now_ns();
        fby_status status = call(l->config.transform, l->config.transform_user, b, &err);
        const uint64_t ended = fby__now_ns();
        fby__trace_stage(&l->engine.trace, FBY__STAGE_TRANSFORM, ended - began);
        fby__event_span("transform", began, ended, "batch", f->index);
        pthread_mutex_lock(&l->schedule.lock);
        if (status == FBY_OK) {
            l->schedule.transform.next++;
            fby__flight_publish_locked(l, f);
        } else {
            fby__flight_fail_locked(l, f, &err);
        }
        wake(l);
    }
    l->schedule.transform.queued = false;
    fby__loader_busy_done_locked(l);
    fby__loader_pump_locked(l);
    fby__schedule_unlock(l);
}

void fby__flight_assembled_locked(fby_loader *l, fby__flight *f)
{
    if (!l->config.transform) {
        fby__flight_publish_locked(l, f);
        return;
    }
    if (l->schedule.transform.queued || turn_locked(l) != f)
        return; /* the task looks again before it ends, under the lock */
    l->schedule.transform.queued = true;
    l->schedule.n_busy++;
    l->schedule.transform.task = (fby__task){.run = transform_batches, .deadline = fby__assemble_deadline(f->index)};
    fby__pool_submit(l->engine.pool, &l->schedule.transform.task);
}
