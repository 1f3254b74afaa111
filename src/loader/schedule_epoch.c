/*
 * Epochs: what is under way is stopped, the schedule of the one that begins is laid out, and what the cache holds is put in the order in
 * which that one needs it. Then the pump (schedule.c) takes over.
 */
#include "loader/schedule_internal.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/condition.h"

void fby__queue_clear(fby__queue *q, uint32_t depth)
{
    pthread_mutex_lock(&q->lock);
    for (uint32_t i = 0; i < depth; i++) {
        fby__finished *slot = &q->ring[i];
        fby_batch_unref(slot->batch);
        fby__free(slot->error);
        *slot = (fby__finished){0};
    }
    q->n_ready = 0;
    pthread_mutex_unlock(&q->lock);
}

void fby__flight_drop_locked(fby_loader *l, fby__flight *f)
{
    if (!f->used)
        return;
    fby__flight_free_staged_locked(l, f);
    fby_batch_unref(f->batch);
    f->batch = NULL;
    f->used = false;
}

/* Until no task runs. What is read ahead is finished first, unless this call is cancelled, or the loader. */
static void wait_until_idle_locked(fby__schedule *s, fby_cancel *token)
{
    while (s->n_busy > 0 && !s->stop) {
        (void)fby__cond_wait_until(&s->idle, &s->lock, fby__now_ns() + FBY__CANCEL_SLICE_NS); /* it is looked at again */
        s->stop = fby__cancelled() || fby__cancel_is_set(token);
    }
    if (s->stop)
        fby_cancel_set(token);
    while (s->n_busy > 0)
        pthread_cond_wait(&s->idle, &s->lock);
}

fby_status fby__loader_epoch_stop(fby_loader *l, bool finish_ahead, bool closes, fby_error *err)
{
    fby__schedule *s = &l->schedule;
    pthread_mutex_lock(&s->lock);
    s->hold = true;
    s->stop = !finish_ahead;
    if (s->stop)
        fby_cancel_set(l->engine.token); /* tasks that wait for the helper program, or read */
    fby__schedule_unlock(l);
    /* Under no lock: the user's code may wait for what this thread holds. */
    FBY__TRY(fby__transform_stop(&l->queue, l->config.depth, !closes, err));
    pthread_mutex_lock(&s->lock);
    wait_until_idle_locked(s, l->engine.token);
    fby__cancel_clear(l->engine.token);
    s->stop = true;
    for (uint32_t i = 0; i < l->config.depth; i++)
        fby__flight_drop_locked(l, &s->flights[i]);
    for (uint32_t p = 0; s->epoch && p < s->epoch->n_phases; p++)
        if (s->phases[p].state != FBY__PHASE_DRAINED)
            fby__phase_unpin_locked(s, &l->memory, p);
    if (l->engine.delivery->stop_locked)
        l->engine.delivery->stop_locked(l);
    fby__loader_held_up_locked(s, &l->engine.trace, false);
    fby__queue_clear(&l->queue, l->config.depth);
    fby__epoch *ended = s->epoch;
    s->epoch = NULL;
    s->rewinds = false;
    fby__free(s->error);
    s->error = NULL;
    s->slabs_wanted = 0;
    s->slabs_failed = false;
    fby__schedule_unlock(l);
    fby__epoch_destroy(ended);
    return FBY_OK;
}

/* The new epoch and the loader whose next_epoch_use holds its first uses. */
typedef struct new_order {
    const fby_loader *l;
    const fby__epoch *epoch;
} new_order;

/* A part of a block that a stream's border cut in the epoch before may not be what this epoch asks for. */
static uint64_t next_use_of(void *user, const fby__cache_entry *e)
{
    const new_order *order = user;
    uint64_t use = order->l->schedule.next_epoch_use[e->block];
    const fby__block_cost *cost = &order->l->memory.cost[e->block];
    if (e->only && e->only != order->epoch->epoch + 1)
        return FBY__NEVER;
    if (use == FBY__NEVER || (e->lo <= cost->row_begin && e->hi >= cost->row_end))
        return use;
    const fby__plan_phase *phase = &order->epoch->phases[(uint32_t)use];
    for (uint32_t i = 0; i < phase->n_items; i++)
        if (phase->items[i].block == e->block) {
            uint64_t lo, hi;
            fby__epoch_item_samples(order->epoch, &phase->items[i], &lo, &hi);
            fby__loader_range(&order->l->sources, e->block, lo, hi, &lo, &hi);
            if (e->lo <= lo && e->hi >= hi)
                return use;
        }
    return FBY__NEVER;
}

/* When does an epoch, from a batch on, use each block first? */
static fby_status first_uses(fby__schedule *s, const fby__loader_memory *m, const fby__epoch *epoch, uint64_t batch, bool is_next,
                             fby_error *err)
{
    uint64_t step = 0;
    for (uint32_t b = 0; b < m->n_blocks; b++)
        s->next_epoch_use[b] = FBY__NEVER;
    for (uint32_t p = epoch->n_phases; p-- > 0;) {
        FBY__TRY(fby__cancel_check_at(step++, err));
        for (uint32_t i = 0; epoch->phases[p].last_batch >= batch && i < epoch->phases[p].n_items; i++) {
            FBY__TRY(fby__cancel_check_at(step++, err));
            s->next_epoch_use[epoch->phases[p].items[i].block] = fby__phase_ordinal(is_next, p);
        }
    }
    return FBY_OK;
}

/* Room for batches of n pieces: blocks of unequal sizes, in another order, meet in other numbers. No task may be under way. */
fby_status fby__loader_grow_pieces(fby_loader *l, uint32_t n, fby_error *err)
{
    if (n <= l->schedule.max_pieces)
        return FBY_OK;
    bool ok = true;
    for (int i = 0; i < l->config.n_threads && ok; i++) {
        fby__free(l->engine.workers[i].gathering);
        ok = (l->engine.workers[i].gathering = fby__calloc(n, sizeof *l->engine.workers[i].gathering)) != NULL;
    }
    for (uint32_t i = 0; i < l->config.depth && ok; i++) {
        fby__flight *f = &l->schedule.flights[i];
        fby__free(f->pieces);
        fby__free(f->piece_state);
        fby__free(f->staged);
        f->pieces = fby__calloc(n, sizeof *f->pieces);
        f->piece_state = fby__calloc(n, 1);
        f->staged = fby__calloc((size_t)n * l->outputs.shape->n_ragged, sizeof *f->staged);
        ok = f->pieces && f->piece_state && f->staged;
    }
    l->schedule.max_pieces = ok ? n : 0; /* 0: the next epoch tries again */
    return ok ? FBY_OK : fby__fail_nomem(err, "the batches in flight");
}

void fby__schedule_lay_out_locked(fby__schedule *s, const fby__epoch *epoch, uint64_t batch)
{
    uint64_t slot = 0;
    s->n_drained = s->first_live = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        const fby__plan_phase *phase = &epoch->phases[p];
        bool over = phase->last_batch < batch;
        uint64_t first = phase->first_batch > batch ? phase->first_batch : batch;
        s->phases[p] = (fby__phase_progress){.state = over ? FBY__PHASE_DRAINED : FBY__PHASE_WAITING,
                                             .batches_left = over ? 0 : phase->last_batch - first + 1,
                                             .first_slot = slot};
        s->n_drained += over;
        slot += phase->n_items;
    }
}

/*
 * In a mixture some batches between a phase's first and last take nothing from it: its source has no slot of the stream there.
 * The phase does not wait for them. The last batch takes something, so no phase is drained here.
 */
void fby__skip_phases_locked(fby__schedule *s, const fby__flight *f)
{
    while (s->first_live < s->epoch->n_phases && s->phases[s->first_live].state == FBY__PHASE_DRAINED)
        s->first_live++;
    for (uint32_t p = s->first_live; p < s->epoch->n_phases && s->epoch->phases[p].first_batch <= f->index; p++)
        s->phases[p].batches_left -= s->epoch->phases[p].last_batch >= f->index;
    for (uint32_t k = 0; k < f->n_pieces; k++) {
        uint32_t q = 0; /* each phase once: as fby__flight_piece_done_locked counts them */
        while (f->pieces[q].phase != f->pieces[k].phase)
            q++;
        s->phases[f->pieces[k].phase].batches_left += q == k;
    }
}

void fby__count_sources_locked(fby_loader *l, const fby__flight *f, fby__finished *out)
{
    uint32_t *counts = l->queue.of_sources + f->index % l->config.depth * l->sources.n;
    uint64_t last = 0;
    memset(counts, 0, l->sources.n * sizeof *counts);
    for (uint32_t p = 0; p < f->n_pieces; p++) {
        const uint32_t source = fby__epoch_source(l->schedule.epoch, f->pieces[p].phase);
        const uint64_t ready = l->schedule.phases[f->pieces[p].phase].ready_ns;
        counts[source] += f->pieces[p].n;
        out->last_source = ready > last ? source : out->last_source;
        last = fby__max_u64(last, ready);
    }
}

static fby_status grow_schedule(fby__schedule *s, const fby__epoch *epoch, uint64_t batch, fby_error *err)
{
    uint64_t slots = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        slots += epoch->phases[p].n_items;
    if (slots >= UINT32_MAX)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%llu blocks to schedule in one epoch are too many", (unsigned long long)slots);
    if (epoch->n_phases > s->cap_phases) {
        fby__phase_progress *phases = fby__realloc_array(s->phases, epoch->n_phases, sizeof *phases);
        if (!phases)
            return fby__fail_nomem(err, "the schedule");
        s->phases = phases;
        s->cap_phases = epoch->n_phases;
    }
    if (slots > s->cap_slots) {
        void *entry = fby__realloc_array((void *)s->slot_entry, slots, sizeof *s->slot_entry);
        s->slot_entry = entry ? entry : (void *)s->slot_entry;
        void *next = fby__realloc_array(s->slot_next, slots, sizeof *s->slot_next);
        s->slot_next = next ? next : s->slot_next;
        void *phase = fby__realloc_array(s->slot_phase, slots, sizeof *s->slot_phase);
        s->slot_phase = phase ? phase : s->slot_phase;
        if (!entry || !next || !phase)
            return fby__fail_nomem(err, "the schedule");
        s->cap_slots = slots;
    }
    fby__schedule_lay_out_locked(s, epoch, batch);
    return FBY_OK;
}

/* What this thread does from here on, until that ends, the call's token stops, and so does cancelling the loader. NULL = no memory. */
static fby_cancel *begin_planning(fby__queue *q, fby_cancel **out_before)
{
    fby_cancel *token = fby__cancel_create_in(fby__cancel_current());
    if (!token)
        return NULL;
    pthread_mutex_lock(&q->lock);
    q->planning = token;
    if (q->cancelled)
        fby_cancel_set(token);
    pthread_mutex_unlock(&q->lock);
    *out_before = fby_cancel_use(token);
    return token;
}

static void end_planning(fby__queue *q, fby_cancel *token, fby_cancel *before)
{
    if (!token)
        return;
    (void)fby_cancel_use(before); /* which is `token` */
    pthread_mutex_lock(&q->lock);
    q->planning = NULL;
    pthread_mutex_unlock(&q->lock);
    fby_cancel_destroy(token);
}

/* Creates the orders of an epoch, unless it has one, and of the next. */
static fby_status create_orders(const fby__plan *plan, uint64_t epoch, fby__epoch **now, fby__epoch **next, fby_error *err)
{
    if (!*now)
        FBY__TRY(fby__epoch_create(plan, epoch, now, err));
    return fby__epoch_create(plan, epoch + 1, next, err);
}

/* Room for both, and what the cache is to keep. */
static fby_status lay_out_locked(fby_loader *l, const fby__epoch *now, const fby__epoch *next, uint64_t batch, fby_error *err)
{
    FBY__TRY(fby__loader_grow_pieces(l, fby__epoch_max_pieces(now), err));
    FBY__TRY(grow_schedule(&l->schedule, now, batch, err));
    FBY__TRY(first_uses(&l->schedule, &l->memory, now, batch, false, err));
    fby__cache_reorder(l->schedule.cache, next_use_of, &(new_order){l, now});
    return first_uses(&l->schedule, &l->memory, next, 0, true, err);
}

fby_status fby__loader_epoch_begin(fby_loader *l, uint64_t epoch, uint64_t batch, fby_error *err)
{
    fby__schedule *s = &l->schedule;
    const bool is_next = s->ahead.epoch && s->ahead.epoch->epoch == epoch; /* both written by this thread alone, under the lock */
    const bool is_over = s->epoch && atomic_load_explicit(&l->pump.consumed, memory_order_relaxed) == s->epoch->n_batches;
    FBY__TRY(fby__loader_epoch_stop(l, is_next && is_over, false, err));
    FBY__TRY(fby__cancel_check(err));
    fby__epoch *now = is_next ? s->ahead.epoch : NULL, *next = NULL;
    if (is_next) {
        pthread_mutex_lock(&s->lock);
        s->ahead.epoch = NULL;
        pthread_mutex_unlock(&s->lock);
    }
    fby_cancel *before_planning, *token = begin_planning(&l->queue, &before_planning);
    fby_status status = token ? create_orders(l->plan, epoch, &now, &next, err) : fby__fail_nomem(err, "order of an epoch");
    pthread_mutex_lock(&s->lock);
    if (status == FBY_OK)
        status = lay_out_locked(l, now, next, batch, err);
    end_planning(&l->queue, token, before_planning);
    if (status == FBY_OK) {
        s->epoch = now;
        now = NULL;
        fby__epoch *before = s->ahead.epoch;
        s->ahead.epoch = next;
        next = before;
        s->load_phase = s->load_item = s->ahead.phase = s->ahead.item = 0;
        fby__loader_skip_drained_locked(s);
        s->start_batch = s->next_flight = batch;
        s->over.at = UINT64_MAX;
        s->over.outgrew = false;
        fby__account_set_slack(l->engine.account, l->memory.shares.rest_bytes);
        atomic_store_explicit(&l->pump.consumed, batch, memory_order_relaxed); /* no worker runs: ordered by the lock */
        pthread_mutex_lock(&l->queue.lock);
        l->queue.next = l->queue.transform.next = batch;
        l->queue.n_ready = 0;
        l->queue.n_batches = s->epoch->n_batches;
        l->queue.over = false;
        pthread_mutex_unlock(&l->queue.lock);
        s->stop = s->hold = false;
        fby__loader_pump_locked(l);
    }
    fby__schedule_unlock(l);
    fby__epoch_destroy(now);
    fby__epoch_destroy(next);
    return status;
}
