/*
 * Batches under construction: begun in order, as far as the consumer is not behind, assembled when the phases of their pieces are there, and
 * published. Which blocks are loaded for them, and when all of this runs: schedule.c.
 */
#include "loader/schedule_internal.h"

#include <string.h>

void fby__flight_free_staged_locked(fby_loader *l, fby__flight *f)
{
    for (uint32_t s = 0; s < l->schedule.max_pieces * l->outputs.shape->n_ragged; s++)
        fby__values_slab_drop(l->engine.account, &f->staged[s].memory);
}

static void publish(fby_loader *l, fby__flight *f, fby__finished what)
{
    pthread_mutex_lock(&l->queue.lock);
    l->queue.ring[f->index % l->config.depth] = what;
    l->queue.n_ready++;
    if (l->config.transform_ahead)
        fby__transform_go_on_locked(l);
    pthread_mutex_unlock(&l->queue.lock);
    f->batch = NULL;
    f->used = false;
}

/*
 * Wake the consumer if its batch is there. A sleep and a wake cost it about as much CPU as all else in next(), so while another
 * batch is about to be gathered (workers take the earliest batch first) and few are ready, that one's end
 * wakes it instead.
 */
void fby__loader_wake_locked(fby_loader *l)
{
    pthread_mutex_lock(&l->queue.lock);
    const bool wake =
        l->queue.ring[l->queue.next % l->config.depth].ready && (l->schedule.n_queued == 0 || l->queue.n_ready >= l->config.depth / 2);
    pthread_mutex_unlock(&l->queue.lock);
    if (wake) /* not under the lock: whoever wakes wants it, and would sleep again */
        pthread_cond_signal(&l->queue.ready);
}

void fby__flight_publish_locked(fby_loader *l, fby__flight *f)
{
    fby__finished what = {.batch = f->batch, .samples = f->batch->size, .ready = l->config.transform_ahead == 0};
    for (uint32_t i = 0; i < l->outputs.shape->n_tensors; i++)
        what.bytes += f->batch->tensors[i].bytes;
    if (l->queue.of_sources)
        fby__count_sources_locked(l, f, &what);
    publish(l, f, what);
}

void fby__flight_fail_locked(fby_loader *l, fby__flight *f, const fby_error *error)
{
    fby__flight_free_staged_locked(l, f);
    fby_batch_unref(f->batch);
    publish(l, f, (fby__finished){.error = error ? fby__error_copy(error) : NULL, .ready = true, .failed = true});
    fby__loader_wake_locked(l);
}

bool fby__start_flights_locked(fby_loader *l)
{
    fby__schedule *s = &l->schedule;
    bool started = false;
    /* acquire pairs with the consumer's release: its slot of the ring is free again */
    uint64_t consumed = atomic_load_explicit(&l->pump.consumed, memory_order_acquire);
    const uint64_t most = fby__is_narrow_locked(s) ? 1 : l->config.depth;
    while (s->next_flight < s->epoch->n_batches && s->next_flight < consumed + most) {
        fby__flight *f = &s->flights[s->next_flight % l->config.depth];
        if (f->used)
            break;
        f->index = s->next_flight++;
        f->batch = NULL;
        f->n_done = 0;
        f->lacks = (fby__lack){0};
        f->used = true;
        started = true;
        f->n_pieces = fby__epoch_pieces_in_turn(s->epoch, f->index, f->pieces, s->max_pieces);
        memset(f->piece_state, FBY__PIECE_WAITING, f->n_pieces);
        if (l->sources.n > 1)
            fby__skip_phases_locked(s, f);
    }
    return started;
}

void fby__queue_flights_locked(fby_loader *l)
{
    fby__schedule *s = &l->schedule;
    bool (*const finish)(fby_loader * l, fby__flight * f) = l->engine.delivery->finish_batch_locked;
    if ((fby__is_narrow_locked(s) && s->n_loads > 0) || s->by_itself)
        return;                                        /* one thing at a time: what becomes of it does not depend on which is faster */
    const uint64_t last = fby__feed_starved_locked(l); /* what comes later waits too: it would take what that one lacks */
    /* Values of pieces that come one by one are there twice: where memory is short, only if what is there is to make room for the others. */
    const bool waits = fby__is_narrow_locked(s) && l->outputs.shape->n_ragged && !s->no_room;
    bool finished = false;
    uint32_t n_waiting = 0;
    for (uint32_t i = 0; i < l->config.depth; i++) {
        fby__flight *f = &s->flights[i];
        if (!f->used || f->queued)
            continue;
        bool ready = false, all = true;
        for (uint32_t p = 0; p < f->n_pieces && f->used; p++) {
            if (f->piece_state[p] != FBY__PIECE_WAITING)
                continue;
            const fby__phase_progress *progress = &s->phases[f->pieces[p].phase];
            ready |= progress->state == FBY__PHASE_READY;
            all &= progress->state == FBY__PHASE_READY;
            if (progress->state == FBY__PHASE_FAILED)
                fby__flight_fail_locked(l, f, progress->failed ? progress->failed->error : s->error);
        }
        if (!f->used)
            continue;
        if (!ready || (waits && !all) || f->lacks.bytes || f->index > last || (finish && !finish(l, f))) {
            n_waiting++;
            continue;
        }
        if (finish) {
            finished = true;
            continue;
        }
        f->queued = true;
        s->n_queued++;
        s->n_busy++;
        f->task = (fby__task){.run = fby__assemble_run, .deadline = fby__assemble_deadline(f->index)};
        fby__pool_submit(l->engine.pool, &f->task);
    }
    if (finished)
        fby__loader_wake_locked(l);
    /* While a batch waits for blocks, their end pumps; later ones would wait for the same. */
    if (n_waiting == 0 && s->next_flight < s->epoch->n_batches)
        fby__pump_when_consumed_locked(s, 0);
}
