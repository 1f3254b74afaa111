/*
 * The pump: what to load next and which batch to start, in schedule order.
 *
 * It runs under the loader's lock whenever something changed: a block was decoded, a batch was assembled, the consumer took
 * one. Blocks are asked for strictly in the order of the plan and the first that does not fit stops the line, so memory
 * always goes to the earliest unfinished batch. A block that is cached and not needed sooner than the one asked for is evicted.
 *
 *   phase:  waiting ──all items pinned──► loading ──all decoded──► ready ──all batches served──► drained
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <string.h>

/* When a phase uses a block: of this epoch, or after all of it of the next. */
static uint64_t ordinal(bool next_epoch, uint32_t phase) { return (uint64_t)next_epoch << 32 | phase; }

/* ---- batches ---- */

static fby_error *copy_error(const fby_error *error)
{
    fby_error *copy = fby__malloc(sizeof *copy);
    if (copy)
        *copy = *error;
    return copy;
}

static void free_staged(fby_loader *l, fby__flight *f)
{
    for (uint32_t s = 0; s < l->max_pieces * l->shape->n_ragged; s++)
        fby__values_slab_drop(l->account, &f->staged[s].memory);
}

static void publish(fby_loader *l, fby__flight *f, fby_batch *batch, fby_error *error)
{
    pthread_mutex_lock(&l->queue.lock);
    l->queue.ring[f->index % l->depth] = (fby__finished){.batch = batch, .error = error, .ready = true};
    l->queue.n_ready++;
    pthread_mutex_unlock(&l->queue.lock);
    f->batch = NULL;
    f->used = false;
}

/*
 * Wake the consumer if its batch is there. A sleep and a wake cost it about as much CPU as all else in next(), so while another
 * batch is about to be gathered (tens of microseconds; workers take the earliest batch first) and few are ready, that one's end
 * wakes it instead.
 */
void fby__loader_wake_locked(fby_loader *l)
{
    pthread_mutex_lock(&l->queue.lock);
    if (l->queue.ring[l->queue.next % l->depth].ready && (l->n_queued == 0 || l->queue.n_ready >= l->depth / 2))
        pthread_cond_signal(&l->queue.ready);
    pthread_mutex_unlock(&l->queue.lock);
}

void fby__flight_publish_locked(fby_loader *l, fby__flight *f) { publish(l, f, f->batch, NULL); }

/* An empty slot, with neither batch nor error, says that there was no memory for the error. */
void fby__flight_fail_locked(fby_loader *l, fby__flight *f, const fby_error *error)
{
    free_staged(l, f);
    fby_batch_unref(f->batch);
    publish(l, f, NULL, error ? copy_error(error) : NULL);
    fby__loader_wake_locked(l);
}

static bool start_flights(fby_loader *l)
{
    bool started = false;
    /* acquire pairs with the consumer's release: its slot of the ring is free again */
    uint64_t consumed = atomic_load_explicit(&l->consumed, memory_order_acquire);
    while (l->next_flight < l->epoch->n_batches && l->next_flight < consumed + l->depth) {
        fby__flight *f = &l->flights[l->next_flight % l->depth];
        if (f->used)
            break;
        fby_error err = {0};
        f->index = l->next_flight;
        f->batch = NULL;
        f->n_done = 0;
        fby_status status = FBY_OK;
        if (!l->direct.window) /* else it is under construction already */
            status = fby__batch_create(l->shape, l->account, fby__epoch_batch_size(l->epoch, f->index), f->index, l->epoch->epoch,
                                       &f->batch, &err);
        l->next_flight++;
        f->used = true;
        started = true;
        if (status != FBY_OK) {
            fby__flight_fail_locked(l, f, &err);
            continue;
        }
        f->n_pieces = fby__epoch_pieces(l->epoch, f->index, f->pieces, l->max_pieces);
        memset(f->piece_state, FBY__PIECE_WAITING, f->n_pieces);
    }
    return started;
}

static void queue_flights(fby_loader *l)
{
    bool finished = false;
    for (uint32_t i = 0; i < l->depth; i++) {
        fby__flight *f = &l->flights[i];
        if (!f->used || f->queued)
            continue;
        bool ready = false;
        for (uint32_t p = 0; p < f->n_pieces && f->used; p++) {
            if (f->piece_state[p] != FBY__PIECE_WAITING)
                continue;
            const fby__phase_run *run = &l->phases[f->pieces[p].phase];
            ready |= run->state == FBY__PHASE_READY;
            if (run->state == FBY__PHASE_FAILED)
                fby__flight_fail_locked(l, f, run->failed ? run->failed->error : l->schedule_error);
        }
        if (!f->used || !ready)
            continue;
        if (l->direct.window) {
            finished |= fby__direct_finish_locked(l, f);
            continue;
        }
        f->queued = true;
        l->n_queued++;
        l->n_busy++;
        f->task = (fby__task){.run = fby__assemble_run, .deadline = fby__assemble_deadline(f->index)};
        fby__pool_submit(l->pool, &f->task);
    }
    if (finished)
        fby__loader_wake_locked(l);
}

/* ---- blocks ---- */

static void phase_loaded(fby__phase_run *run)
{
    if (run->n_pending == 0 && run->state == FBY__PHASE_LOADING)
        run->state = FBY__PHASE_READY;
}

/* Memory from the budget, evicting what is needed later than `now`. */
static fby_status reserve(fby_loader *l, size_t bytes, uint64_t now, bool force, fby__slab *out, fby_error *err)
{
    fby_status status;
    do
        status = fby__slab_alloc(l->account, bytes, force, out, err);
    while (status == FBY_E_BUDGET && fby__cache_evict(l->cache, now));
    return status;
}

/* What is loaded at once: rows [lo, hi) of a block, or of them those that some items need. */
typedef struct wanted {
    uint32_t block;
    uint64_t lo, hi;             /* counted from the block's first row */
    const fby__plan_item *items; /* n_items of the block; NULL = all of its samples in [lo, hi) */
    uint32_t n_items;
    uint64_t only; /* as in the cache's entry */
} wanted;

/* For a phase whose ordinal is `now` and whose first batch is `batch`. */
static fby_status start_job(fby_loader *l, const wanted *w, uint64_t now, uint64_t batch, bool force, fby__cache_entry **out,
                            fby_error *err)
{
    const uint32_t block = w->block;
    fby__slab panels = {0}, kept = {0};
    fby__thin thin = fby__thin_of(l, block, w->lo, w->hi, w->items, w->n_items);
    if (!l->direct.window)
        FBY__TRY(reserve(l, fby__loader_entry_bytes(l, block, w->hi - w->lo), now, force, &panels, err));
    fby_status status = thin.rows ? reserve(l, fby__thin_bytes(l, block, thin), now, force, &kept, err) : FBY_OK;
    fby__cache_entry *e = status == FBY_OK ? fby__cache_insert(l->cache, block, w->lo, w->hi) : NULL;
    if (!e) {
        fby__slab_free(l->account, &panels);
        fby__slab_free(l->account, &kept);
        return status != FBY_OK ? status : fby__fail_nomem(err, "a block");
    }
    e->memory = panels;
    e->kept = kept;
    e->passing = l->direct.window > 0;
    e->only = w->only;
    e->wanted = w->items;
    e->n_wanted = w->n_items;
    fby__load_job *job = l->free_jobs;
    l->free_jobs = job->next_free;
    l->n_busy++;
    job->entry = e;
    job->phase = l->load_phase; /* nothing is read ahead of an epoch that is delivered directly */
    job->item = l->load_item;
    job->deadline = fby__decode_deadline(batch);
    job->task = (fby__task){.run = fby__load_start, .deadline = fby__load_deadline(batch)};
    fby__pool_submit(l->pool, &job->task);
    *out = e;
    return FBY_OK;
}

/* Phases that lie before the batch that the epoch was begun at are drained from the beginning. */
static void skip_drained(fby_loader *l)
{
    while (l->load_phase < l->epoch->n_phases && l->phases[l->load_phase].state == FBY__PHASE_DRAINED)
        l->load_phase++;
}

/*
 * What is loaded for an item of an epoch's phase. The runs that a part by key has of a block are loaded together: pages and chunks are then read
 * and decoded once, and rows between runs are given back at once. Those of another stream too, where all of a part is live at once.
 */
static wanted item_rows(const fby_loader *l, const fby__epoch *epoch, const fby__plan_phase *phase, uint32_t i)
{
    const fby__plan_item *item = &phase->items[i];
    wanted w = {.block = item->block};
    uint64_t from, to;
    fby__epoch_item_samples(epoch, item, &from, &to);
    if (l->whole_blocks || (epoch->draws_before && item->lo == 0 && item->hi == epoch->counts[item->block])) {
        from = 0; /* of what is drawn: all that could be, as the next epoch asks for */
        to = l->cost[item->block].samples;
    } else if (epoch->runs) {
        uint32_t first = i, end = i + 1, n;
        while (first > 0 && phase->items[first - 1].block == item->block)
            first--;
        while (end < phase->n_items && phase->items[end].block == item->block)
            end++;
        n = end - first;
        const fby__plan_item *items = &phase->items[first];
        if (fby__plan_whole_streams(l->plan))
            items = fby__epoch_block_runs(epoch, item->block, &n);
        from = items[0].lo;
        to = items[n - 1].hi;
        if (n > 1) {
            w.items = items;
            w.n_items = n;
            w.only = epoch->epoch + 1;
        }
    }
    fby__samples_range(l->samples, item->block, from, to, &w.lo, &w.hi);
    return w;
}

/* Pin the next item of the schedule, loading it when it is not cached. FBY_E_BUDGET: not now. */
static fby_status load_next(fby_loader *l, bool force, fby_error *err)
{
    const fby__plan_phase *phase = &l->epoch->phases[l->load_phase];
    fby__phase_run *run = &l->phases[l->load_phase];
    const wanted w = item_rows(l, l->epoch, phase, l->load_item);
    uint64_t slot = run->first_slot + l->load_item;
    if (l->direct.window && l->load_item == 0)
        FBY__TRY(fby__direct_make_batches_locked(l, phase, err));
    fby__cache_entry *e = fby__cache_find(l->cache, w.block, w.lo, w.hi, w.only);
    if (e) {
        bool held = e->pins > 0; /* for another phase: not one more hit */
        fby__cache_pin(l->cache, e);
        if (!held)
            fby__trace_count(&l->trace, FBY__COUNT_BLOCKS_CACHED, 1);
    } else {
        if (!l->free_jobs)
            return FBY_E_BUDGET;
        FBY__TRY(start_job(l, &w, ordinal(false, l->load_phase), phase->first_batch, force, &e, err));
    }
    l->slot_entry[slot] = e;
    run->n_pinned++;
    if (e->state == FBY__ENTRY_LOADING) {
        l->slot_phase[slot] = l->load_phase;
        l->slot_next[slot] = e->waiters;
        e->waiters = (uint32_t)slot;
        run->n_pending++;
    }
    if (++l->load_item == phase->n_items) {
        if (run->state == FBY__PHASE_WAITING)
            run->state = FBY__PHASE_LOADING;
        phase_loaded(run);
        l->load_item = 0;
        l->load_phase++;
        skip_drained(l);
    }
    return FBY_OK;
}

/*
 * Of an epoch begun at batch k, nothing but the superbatch of batch k is read until the consumer has batch k (invariant 3): a
 * resumed run waits for that batch alone, and a disk that reads ahead would only delay it.
 */
static bool is_held_back(const fby_loader *l)
{
    return l->start_batch > 0 && l->epoch->phases[l->load_phase].first_batch > l->start_batch &&
           atomic_load_explicit(&l->consumed, memory_order_acquire) == l->start_batch;
}

/*
 * Nobody waits for the next phase, and enough lies ready: of every stream the phase that is served and the one after it, and twice the
 * blocks that are loaded at once. Memory beyond that is better spent on blocks that the next epoch finds in the cache, and what was
 * decoded long before it is gathered has left the core's caches: in file order 12 % of the rate (two cores, a quarter of the data).
 */
static bool is_far_ahead(const fby_loader *l)
{
    const uint64_t enough = fby__max_u64(2 * (uint64_t)fby__plan_own_streams(l->plan), 2 * (uint64_t)l->max_jobs);
    return l->load_phase >= l->n_drained + enough &&
           l->epoch->phases[l->load_phase].first_batch >= atomic_load_explicit(&l->consumed, memory_order_acquire) + l->depth;
}

static bool load_blocks(fby_loader *l, bool force)
{
    bool loaded = false;
    while (l->load_phase < l->epoch->n_phases && !is_held_back(l) && !is_far_ahead(l)) {
        fby_error err = {0};
        fby_status status = load_next(l, force, &err);
        if (status == FBY_E_BUDGET)
            break;
        if (status != FBY_OK) { /* out of memory: every phase from here on fails with it */
            if (!l->schedule_error)
                l->schedule_error = copy_error(&err);
            for (uint32_t p = l->load_phase; p < l->epoch->n_phases; p++)
                l->phases[p].state = FBY__PHASE_FAILED;
            l->load_phase = l->epoch->n_phases;
            return true;
        }
        loaded = true;
        force = false; /* one block beyond the budget is enough to go on */
    }
    return loaded;
}

/*
 * The next epoch's first blocks are read while this one ends: what it still needs is here, and memory that is left waits for nothing
 * else. Only of parts, where the next epoch needs other files and would begin with a stall; an entry is kept by its next use alone, so
 * it goes again before anything of this epoch would.
 */
static void read_ahead(fby_loader *l)
{
    const fby__epoch *ahead = l->ahead;
    if (fby__plan_parts(l->plan) < 2 || l->load_phase < l->epoch->n_phases)
        return;
    if (l->start_batch > 0 && atomic_load_explicit(&l->consumed, memory_order_acquire) == l->start_batch)
        return; /* begun at a batch that the consumer does not have yet: as is_held_back */
    while (ahead && l->ahead_phase < ahead->n_phases && ahead->phases[l->ahead_phase].first_batch == 0 && l->free_jobs) {
        const fby__plan_phase *phase = &ahead->phases[l->ahead_phase];
        const wanted w = item_rows(l, ahead, phase, l->ahead_item);
        if (!fby__cache_find(l->cache, w.block, w.lo, w.hi, w.only)) {
            fby__cache_entry *e;
            if (start_job(l, &w, ordinal(true, l->ahead_phase), l->epoch->n_batches + 1, false, &e, NULL) != FBY_OK)
                return; /* no room yet; out of memory is said when the epoch itself asks */
            l->ahead_entries[l->n_ahead++] = e;
        }
        if (++l->ahead_item == phase->n_items) {
            l->ahead_item = 0;
            l->ahead_phase++;
        }
    }
}

/* An entry that was read ahead waits for its epoch like one that was used before. */
static void ahead_done(fby_loader *l, fby__cache_entry *e)
{
    for (uint32_t i = 0; i < l->n_ahead; i++)
        if (l->ahead_entries[i] == e) {
            l->ahead_entries[i] = l->ahead_entries[--l->n_ahead];
            fby__cache_unpin(l->cache, e, l->next_epoch_use[e->block]);
            return;
        }
}

void fby__loader_entry_done_locked(fby_loader *l, fby__cache_entry *e)
{
    for (uint32_t slot = e->waiters; slot != UINT32_MAX; slot = l->slot_next[slot]) {
        fby__phase_run *run = &l->phases[l->slot_phase[slot]];
        run->n_pending--;
        if (e->state == FBY__ENTRY_FAILED) {
            run->state = FBY__PHASE_FAILED;
            run->failed = e;
        }
        phase_loaded(run);
    }
    e->waiters = UINT32_MAX;
    ahead_done(l, e);
}

static void unpin_phase(fby_loader *l, uint32_t p)
{
    fby__phase_run *run = &l->phases[p];
    const fby__plan_phase *phase = &l->epoch->phases[p];
    const bool again = l->whole_blocks || !l->epoch->runs; /* the runs of a part by key: not before the sweep has ended */
    for (uint32_t i = 0; i < run->n_pinned; i++)
        fby__cache_unpin(l->cache, l->slot_entry[run->first_slot + i], again ? l->next_epoch_use[phase->items[i].block] : FBY__NEVER);
    run->n_pinned = 0;
    run->state = FBY__PHASE_DRAINED;
    l->n_drained++;
}

void fby__loader_piece_done_locked(fby_loader *l, uint32_t phase)
{
    if (--l->phases[phase].batches_left == 0)
        unpin_phase(l, phase);
}

void fby__loader_busy_done_locked(fby_loader *l)
{
    if (--l->n_busy == 0)
        pthread_cond_broadcast(&l->idle);
}

/* Is the batch that the consumer takes next neither assembled nor failed? */
static bool head_is_missing(const fby_loader *l)
{
    uint64_t consumed = atomic_load_explicit(&l->consumed, memory_order_acquire);
    const fby__flight *f = &l->flights[consumed % l->depth];
    return consumed == l->next_flight ? l->next_flight < l->epoch->n_batches : f->used && f->n_done < f->n_pieces;
}

void fby__loader_pump_locked(fby_loader *l)
{
    if (l->stop || l->hold || !l->epoch)
        return;
    (void)start_flights(l); /* whether anything was started shows in n_busy below */
    (void)load_blocks(l, false);
    queue_flights(l);
    /*
     * Nothing runs and the consumer waits: bounds from metadata were too low (strings that expand, a cut row group). The
     * earliest work goes on beyond the budget; the report shows by how much.
     */
    while (l->n_busy == 0 && head_is_missing(l)) {
        if (!start_flights(l) && !load_blocks(l, true))
            break;
        queue_flights(l);
    }
    read_ahead(l);
}

void fby__loader_pump_task(fby__task *task, int worker)
{
    (void)worker;
    fby_loader *l = FBY__TASK_OWNER(task, fby_loader, pump_task);
    /* acq_rel, pairs with the consumer's exchange: a batch taken before it is seen below, one taken after queues another pump */
    (void)atomic_exchange_explicit(&l->pump_queued, false, memory_order_acq_rel);
    pthread_mutex_lock(&l->lock);
    fby__loader_pump_locked(l);
    pthread_mutex_unlock(&l->lock);
}

/* ---- epochs ---- */

static void clear_queue(fby_loader *l)
{
    pthread_mutex_lock(&l->queue.lock);
    for (uint32_t i = 0; i < l->depth; i++) {
        fby__finished *slot = &l->queue.ring[i];
        fby_batch_unref(slot->batch);
        fby__free(slot->error);
        *slot = (fby__finished){0};
    }
    pthread_mutex_unlock(&l->queue.lock);
}

void fby__loader_epoch_stop(fby_loader *l, bool finish_ahead)
{
    pthread_mutex_lock(&l->lock);
    l->hold = true;
    l->stop = !finish_ahead;
    while (l->n_busy > 0)
        pthread_cond_wait(&l->idle, &l->lock);
    l->stop = true;
    for (uint32_t i = 0; i < l->depth; i++) {
        fby__flight *f = &l->flights[i];
        if (!f->used)
            continue;
        free_staged(l, f);
        fby_batch_unref(f->batch);
        f->batch = NULL;
        f->used = false;
    }
    for (uint32_t p = 0; l->epoch && p < l->epoch->n_phases; p++)
        if (l->phases[p].state != FBY__PHASE_DRAINED)
            unpin_phase(l, p);
    fby__direct_stop_locked(l);
    clear_queue(l);
    fby__epoch_destroy(l->epoch);
    l->epoch = NULL;
    fby__free(l->schedule_error);
    l->schedule_error = NULL;
    pthread_mutex_unlock(&l->lock);
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
    uint64_t use = order->l->next_epoch_use[e->block];
    const fby__block_cost *cost = &order->l->cost[e->block];
    if (e->only && e->only != order->epoch->epoch + 1)
        return FBY__NEVER;
    if (use == FBY__NEVER || (e->lo <= cost->row_begin && e->hi >= cost->row_end))
        return use;
    const fby__plan_phase *phase = &order->epoch->phases[(uint32_t)use];
    for (uint32_t i = 0; i < phase->n_items; i++)
        if (phase->items[i].block == e->block) {
            uint64_t lo, hi;
            fby__epoch_item_samples(order->epoch, &phase->items[i], &lo, &hi);
            fby__samples_range(order->l->samples, e->block, lo, hi, &lo, &hi);
            if (e->lo <= lo && e->hi >= hi)
                return use;
        }
    return FBY__NEVER;
}

/* When does an epoch, from a batch on, use each block first? */
static void first_uses(fby_loader *l, const fby__epoch *epoch, uint64_t batch, bool is_next)
{
    for (uint32_t b = 0; b < l->n_blocks; b++)
        l->next_epoch_use[b] = FBY__NEVER;
    for (uint32_t p = epoch->n_phases; p-- > 0;)
        for (uint32_t i = 0; epoch->phases[p].last_batch >= batch && i < epoch->phases[p].n_items; i++)
            l->next_epoch_use[epoch->phases[p].items[i].block] = ordinal(is_next, p);
}

/* Room for batches of n pieces: blocks of unequal sizes, in another order, meet in other numbers. No task may be under way. */
fby_status fby__loader_grow_pieces(fby_loader *l, uint32_t n, fby_error *err)
{
    if (n <= l->max_pieces)
        return FBY_OK;
    bool ok = true;
    for (int i = 0; i < l->n_threads && ok; i++) {
        fby__free(l->workers[i].take);
        ok = (l->workers[i].take = fby__calloc(n, sizeof *l->workers[i].take)) != NULL;
    }
    for (uint32_t i = 0; i < l->depth && ok; i++) {
        fby__flight *f = &l->flights[i];
        fby__free(f->pieces);
        fby__free(f->piece_state);
        fby__free(f->staged);
        f->pieces = fby__calloc(n, sizeof *f->pieces);
        f->piece_state = fby__calloc(n, 1);
        f->staged = fby__calloc((size_t)n * l->shape->n_ragged, sizeof *f->staged);
        ok = f->pieces && f->piece_state && f->staged;
    }
    l->max_pieces = ok ? n : 0; /* 0: the next epoch tries again */
    return ok ? FBY_OK : fby__fail_nomem(err, "the batches in flight");
}

static fby_status grow_schedule(fby_loader *l, const fby__epoch *epoch, uint64_t batch, fby_error *err)
{
    uint64_t slots = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        slots += epoch->phases[p].n_items;
    if (slots >= UINT32_MAX)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%llu blocks to schedule in one epoch are too many", (unsigned long long)slots);
    if (epoch->n_phases > l->cap_phases) {
        fby__phase_run *phases = fby__realloc_array(l->phases, epoch->n_phases, sizeof *phases);
        if (!phases)
            return fby__fail_nomem(err, "the schedule");
        l->phases = phases;
        l->cap_phases = epoch->n_phases;
    }
    if (slots > l->cap_slots) {
        void *entry = fby__realloc_array((void *)l->slot_entry, slots, sizeof *l->slot_entry);
        l->slot_entry = entry ? entry : (void *)l->slot_entry;
        void *next = fby__realloc_array(l->slot_next, slots, sizeof *l->slot_next);
        l->slot_next = next ? next : l->slot_next;
        void *phase = fby__realloc_array(l->slot_phase, slots, sizeof *l->slot_phase);
        l->slot_phase = phase ? phase : l->slot_phase;
        if (!entry || !next || !phase)
            return fby__fail_nomem(err, "the schedule");
        l->cap_slots = slots;
    }
    uint64_t slot = 0;
    l->n_drained = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        const fby__plan_phase *phase = &epoch->phases[p];
        bool over = phase->last_batch < batch;
        uint64_t first = phase->first_batch > batch ? phase->first_batch : batch;
        l->phases[p] = (fby__phase_run){.state = over ? FBY__PHASE_DRAINED : FBY__PHASE_WAITING,
                                        .batches_left = over ? 0 : phase->last_batch - first + 1,
                                        .first_slot = slot};
        l->n_drained += over;
        slot += phase->n_items;
    }
    return FBY_OK;
}

/** Stops what was under way; the schedule of an epoch from a batch on. */
fby_status fby__loader_epoch_begin(fby_loader *l, uint64_t epoch, uint64_t batch, fby_error *err)
{
    const bool is_next = l->ahead && l->ahead->epoch == epoch; /* both written by this thread alone */
    const bool is_over = l->epoch && atomic_load_explicit(&l->consumed, memory_order_relaxed) == l->epoch->n_batches;
    fby__loader_epoch_stop(l, is_next && is_over);
    fby__epoch *now = is_next ? l->ahead : NULL, *next = NULL;
    if (is_next)
        l->ahead = NULL;
    fby_status status = now ? FBY_OK : fby__epoch_create(l->plan, epoch, &now, err);
    if (status == FBY_OK)
        status = fby__epoch_create(l->plan, epoch + 1, &next, err);
    pthread_mutex_lock(&l->lock);
    if (status == FBY_OK)
        status = fby__loader_grow_pieces(l, fby__epoch_max_pieces(now), err);
    if (status == FBY_OK)
        status = grow_schedule(l, now, batch, err);
    if (status == FBY_OK) {
        first_uses(l, now, batch, false);
        fby__cache_reorder(l->cache, next_use_of, &(new_order){l, now});
        first_uses(l, next, 0, true);
        l->epoch = now;
        now = NULL;
        fby__epoch *before = l->ahead;
        l->ahead = next;
        next = before;
        l->load_phase = l->load_item = l->ahead_phase = l->ahead_item = 0;
        skip_drained(l);
        l->start_batch = l->next_flight = l->transform.next = batch;
        atomic_store_explicit(&l->consumed, batch, memory_order_relaxed); /* no worker runs: ordered by the lock */
        pthread_mutex_lock(&l->queue.lock);
        l->queue.next = batch;
        l->queue.n_ready = 0;
        l->queue.n_batches = l->epoch->n_batches;
        l->queue.over = l->queue.cancelled = false;
        pthread_mutex_unlock(&l->queue.lock);
        l->stop = l->hold = false;
        fby__loader_pump_locked(l);
    }
    pthread_mutex_unlock(&l->lock);
    fby__epoch_destroy(now);
    fby__epoch_destroy(next);
    return status;
}
