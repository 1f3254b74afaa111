/*
 * The pump: what to load next, in schedule order, and when batches go on (schedule_batches.c).
 *
 * It runs under the schedule's lock whenever something changed: a block was decoded, a batch was assembled, the consumer took
 * one. Blocks are asked for strictly in the order of the plan and the first that does not fit stops the line, so memory
 * always goes to the earliest unfinished batch. A block that is cached and not needed sooner than the one asked for is evicted.
 *
 * Epochs begin and end in schedule_epoch.c; what happens where memory is short is in schedule_room.c.
 *
 *   phase:  waiting ──all items pinned──► loading ──all decoded──► ready ──all batches served──► drained
 */
#include "loader/schedule_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"

/* ---- blocks ---- */

static void phase_loaded(fby__phase_progress *progress)
{
    if (progress->n_pending == 0 && progress->state == FBY__PHASE_LOADING) {
        progress->state = FBY__PHASE_READY;
        progress->ready_ns = fby__now_ns();
    }
}

/* Memory from the budget, evicting what is needed later than `now`. */
static bool reserve(fby_loader *l, size_t bytes, uint64_t now, fby__slab *out)
{
    while (!fby__slab_reserve(l->engine.account, bytes, out))
        if (!fby__cache_evict(l->schedule.cache, now))
            return false;
    return true;
}

/* For the entry itself; what is delivered directly has set them aside (fby__delivery_needs). */
static size_t own_bytes(const fby_loader *l) { return l->engine.delivery->keeps_blocks ? fby__load_entry_bytes(&l->outputs) : 0; }

static bool reserve_entry(fby_loader *l, uint64_t now)
{
    while (own_bytes(l) && !fby__account_reserve(l->engine.account, own_bytes(l)))
        if (!fby__cache_evict(l->schedule.cache, now))
            return false;
    return true;
}

/* What is loaded at once: rows [lo, hi) of a block, or of them those that some items need. */
typedef struct wanted {
    uint32_t block;
    uint64_t lo, hi;             /* counted from the block's first row */
    const fby__plan_item *items; /* n_items of the block; NULL = all of its samples in [lo, hi) */
    uint32_t n_items;
    uint64_t only; /* as in the cache's entry */
} wanted;

static fby__room room_of(const fby_loader *l, const wanted *w, fby__thin *out_thin)
{
    const fby__loader_source *in = fby__source_of(&l->sources, w->block);
    const uint32_t block = w->block - in->first_block;
    *out_thin = fby__thin_of(in, block, w->lo, w->hi, w->items, w->n_items);
    return l->engine.delivery->room(in, block, w->hi - w->lo, *out_thin);
}

static size_t room_bytes(const fby_loader *l, const wanted *w)
{
    fby__thin thin;
    const fby__room room = room_of(l, w, &thin);
    return room.stays + room.whole + room.kept + own_bytes(l);
}

/* What is given back after decoding comes first: else room for the rest is made of the one that the block before gave back. */
static bool reserve_slabs(fby_loader *l, const size_t bytes[3], uint64_t now, fby__slab out[3])
{
    bool fits = true;
    for (int i = 0; i < 3 && fits; i++)
        fits = !bytes[i] || reserve(l, bytes[i], now, &out[i]);
    for (int i = 0; i < 3 && !fits; i++)
        fby__slab_free(l->engine.account, &out[i]);
    return fits;
}

/* For a phase whose ordinal is `now` and whose first batch is `batch`. */
static fby__start start_job(fby_loader *l, const wanted *w, uint64_t now, uint64_t batch, fby__cache_entry **out, fby_error *err)
{
    fby__schedule *s = &l->schedule;
    fby__loader_source *in = fby__source_of(&l->sources, w->block);
    const uint32_t block = w->block;
    fby__slab slabs[3] = {{0}};
    fby__thin thin;
    const fby__room room = room_of(l, w, &thin);
    const size_t bytes[3] = {room.whole, room.kept, room.stays}, of_copy[3] = {0, room.kept, 0};
    const bool shares = !fby__is_narrow_locked(s);
    if (room.whole == 0 && shares && (*out = fby__shared_find_locked(l, block, w->lo, w->hi, fby__slab_class_bytes(room.stays), now))) {
        fby__trace_count(&l->engine.trace, FBY__COUNT_BLOCKS_CACHED, 1);
        return FBY__STARTED;
    }
    const bool counted = reserve_entry(l, now);
    fby__shared *body = NULL;
    if (counted && shares && room.whole && !room.stays)
        body = fby__shared_hold_locked(l, block, w->lo, w->hi, fby__slab_class_bytes(room.whole), now);
    if (body && !reserve_slabs(l, of_copy, now, slabs)) {
        fby__shared_drop(l, body);
        body = NULL;
    }
    const bool fits = counted && (body || reserve_slabs(l, bytes, now, slabs));
    if (!fits) {
        s->no_room = true;
        fby__pump_when_consumed_locked(s, 0); /* values of a batch that is handed out are the consumer's, and no longer charged */
    }
    fby__cache_entry *e = fits ? fby__cache_insert(s->cache, block, w->lo, w->hi) : NULL;
    if (!e) {
        for (int i = 0; i < 3; i++)
            fby__slab_free(l->engine.account, &slabs[i]);
        fby__shared_drop(l, body);
        if (counted)
            fby__account_discharge(l->engine.account, own_bytes(l));
        if (!fits)
            return FBY__NOT_NOW;
        (void)fby__fail_nomem(err, "a block"); /* which is what it returns */
        return FBY__START_FAILED;
    }
    e->data.own_bytes = own_bytes(l);
    e->data.whole = slabs[0];
    e->data.kept = slabs[1];
    e->data.memory = slabs[2];
    e->data.few_rows = thin.rows > 0;
    e->passing = !l->engine.delivery->keeps_blocks;
    e->only = w->only;
    e->data.wanted = w->items;
    e->data.n_wanted = w->n_items;
    fby__source_progress *progress = fby__progress_of(in);
    fby__load_job *job = progress->free_jobs;
    progress->free_jobs = job->next_free;
    s->n_busy++;
    s->n_loads++;
    job->entry = e;
    job->now = now;
    job->is_copy = body != NULL;
    if (body)
        job->body_lo = fby__shared_lend(l, body, &e->data);
    job->company = body ? FBY__WITH_OTHERS : progress->company[block - in->first_block];
    job->read.by_itself = s->by_itself = job->company != FBY__WITH_OTHERS;
    for (uint32_t i = 0; i < in->n_panels; i++)
        e->data.panels[i].capacity = fby__loader_capacity(in, fby__block_in(in, e), &in->panels[i]);
    job->phase = s->load_phase; /* nothing is read ahead of an epoch that is delivered directly */
    job->item = s->load_item;
    job->read.sink = l->engine.delivery->sink(&room);
    job->read.deadline = fby__decode_deadline(batch);
    const bool waits = !body && l->engine.openers && fby__reader_waits(&in->reader);
    job->task = (fby__task){.run = waits ? fby__load_start_apart : fby__load_start, .deadline = fby__load_deadline(batch)};
    if (body)
        job->task.run = fby__thin_copy;
    fby__pool_submit(waits ? l->engine.openers : l->engine.pool, &job->task);
    *out = e;
    return FBY__STARTED;
}

void fby__loader_skip_drained_locked(fby__schedule *s)
{
    while (s->load_phase < s->epoch->n_phases && s->phases[s->load_phase].state == FBY__PHASE_DRAINED)
        s->load_phase++;
}

/*
 * What is loaded for an item of an epoch's phase. The spans that a part by key has of a block are loaded together: pages and chunks are then read
 * and decoded once, and rows between spans are given back at once. Those of another stream too, where all of a part is live at once.
 */
static wanted item_rows(const fby_loader *l, const fby__epoch *epoch, const fby__plan_phase *phase, uint32_t i)
{
    const fby__plan_item *item = &phase->items[i];
    wanted w = {.block = item->block};
    uint64_t from, to;
    fby__epoch_item_samples(epoch, item, &from, &to);
    if (l->memory.whole_blocks || (epoch->draws_before && item->lo == 0 && item->hi == epoch->counts[item->block])) {
        from = 0; /* of what is drawn: all that could be, as the next epoch asks for */
        to = l->memory.cost[item->block].samples;
    } else if (epoch->spans) {
        uint32_t first = i, end = i + 1, n;
        while (first > 0 && phase->items[first - 1].block == item->block)
            first--;
        while (end < phase->n_items && phase->items[end].block == item->block)
            end++;
        n = end - first;
        const fby__plan_item *items = &phase->items[first];
        if (fby__plan_whole_streams(l->plan))
            items = fby__epoch_block_spans(epoch, item->block, &n);
        from = items[0].lo;
        to = items[n - 1].hi;
        if (n > 1) {
            w.items = items;
            w.n_items = n;
            w.only = epoch->epoch + 1;
        }
    }
    fby__loader_range(&l->sources, item->block, from, to, &w.lo, &w.hi);
    return w;
}

/* Nothing else holds memory, and still there is no room for a block: an entry that says so. */
static fby__start refuse_block(fby_loader *l, const wanted *w, fby__cache_entry **out, fby_error *err)
{
    fby__loader_source *in = fby__source_of(&l->sources, w->block);
    uint32_t grown = UINT32_MAX;
    uint64_t most = 0;
    for (uint32_t i = 0; i < in->n_panels; i++) {
        const uint32_t block = w->block - in->first_block;
        const uint64_t bytes = fby__loader_outgrown_bytes(in, block, i, fby__loader_capacity(in, block, &in->panels[i]));
        grown = bytes > most ? i : grown;
        most = fby__max_u64(most, bytes);
    }
    fby_error *error = fby__malloc(sizeof *error);
    if (!error || !(*out = fby__cache_insert(l->schedule.cache, w->block, w->lo, w->hi))) {
        fby__free(error);
        (void)fby__fail_nomem(err, "a block"); /* which is what it returns */
        return FBY__START_FAILED;
    }
    *error = (fby_error){.file_offset = -1};
    const fby_status status =
        fby__read_refuse(&in->reader, w->block - in->first_block, grown == UINT32_MAX ? NULL : fby__read_panel_name(&in->reader, grown),
                         true, room_bytes(l, w), 0, 0, error);
    (void)fby__source_error(in, status, error); /* which is what it returns */
    (*out)->state = FBY__ENTRY_FAILED;
    (*out)->error = error;
    return FBY__STARTED;
}

/* Pin the next item of the schedule, loading it when it is not cached. refuses: a block that does not fit has failed. */
static fby__start load_next(fby_loader *l, bool refuses, fby_error *err)
{
    fby__schedule *s = &l->schedule;
    const fby__plan_phase *phase = &s->epoch->phases[s->load_phase];
    fby__phase_progress *progress = &s->phases[s->load_phase];
    const wanted w = item_rows(l, s->epoch, phase, s->load_item);
    uint64_t slot = progress->first_slot + s->load_item;
    fby__start start = FBY__STARTED;
    if (l->engine.delivery->begin_phase_locked && s->load_item == 0)
        start = l->engine.delivery->begin_phase_locked(l, phase, err);
    if (start != FBY__STARTED)
        return start;
    fby__cache_entry *e = fby__cache_find(s->cache, w.block, w.lo, w.hi, w.only);
    if (e) {
        bool held = e->pins > 0; /* for another phase: not one more hit */
        fby__cache_pin(s->cache, e);
        if (!held)
            fby__trace_count(&l->engine.trace, FBY__COUNT_BLOCKS_CACHED, 1);
    } else {
        if (s->n_loads == l->memory.max_jobs || !fby__block_may_load_locked(l, w.block))
            return FBY__NOT_NOW;
        start = start_job(l, &w, fby__phase_ordinal(false, s->load_phase), phase->first_batch, &e, err);
        if (start == FBY__NOT_NOW && refuses)
            start = refuse_block(l, &w, &e, err);
        if (start != FBY__STARTED)
            return start;
        if (e->state == FBY__ENTRY_FAILED) {
            progress->state = FBY__PHASE_FAILED;
            progress->failed = e;
        }
    }
    s->slot_entry[slot] = e;
    progress->n_pinned++;
    if (e->state == FBY__ENTRY_LOADING) {
        s->slot_phase[slot] = s->load_phase;
        s->slot_next[slot] = e->waiters;
        e->waiters = (uint32_t)slot;
        progress->n_pending++;
    }
    if (++s->load_item == phase->n_items) {
        if (progress->state == FBY__PHASE_WAITING)
            progress->state = FBY__PHASE_LOADING;
        phase_loaded(progress);
        s->load_item = 0;
        s->load_phase++;
        fby__loader_skip_drained_locked(s);
    }
    return FBY__STARTED;
}

/*
 * In an epoch begun at batch k, only the superbatch of batch k is read until the consumer has batch k (invariant 3): a
 * resumed run waits for that batch alone, and a disk that reads ahead would only delay it.
 */
static bool is_held_back(fby__schedule *s, const fby__pump *pump)
{
    if (s->start_batch == 0 || s->epoch->phases[s->load_phase].first_batch <= s->start_batch ||
        atomic_load_explicit(&pump->consumed, memory_order_acquire) > s->start_batch)
        return false;
    fby__pump_when_consumed_locked(s, s->start_batch + 1);
    return true;
}

/*
 * Nobody waits for the next phase, and enough lies ready: of every stream the phase that is served and the one after it, and twice the
 * blocks that are loaded at once. Memory beyond that is better spent on blocks that the next epoch finds in the cache, and what was
 * decoded long before it is gathered has left the core's caches.
 */
static bool is_far_ahead(fby_loader *l)
{
    fby__schedule *s = &l->schedule;
    const uint64_t enough = fby__max_u64(2 * (uint64_t)l->sources.n * fby__plan_own_streams(l->plan), 2 * (uint64_t)l->memory.max_jobs);
    const uint64_t first_batch = s->epoch->phases[s->load_phase].first_batch;
    if (s->load_phase < s->n_drained + enough ||
        first_batch < atomic_load_explicit(&l->pump.consumed, memory_order_acquire) + l->config.depth)
        return false;
    fby__pump_when_consumed_locked(s, first_batch + 1 - l->config.depth);
    return true;
}

/* Memory is short: nothing is loaded for later batches than the one that waits for it; in narrow mode, one thing at a time for one batch. */
static bool is_short(fby__schedule *s, const fby__pump *pump, uint64_t starved)
{
    const uint64_t first_batch = s->epoch->phases[s->load_phase].first_batch;
    if (first_batch > starved)
        return true;
    if (!fby__is_narrow_locked(s))
        return false;
    if (first_batch > atomic_load_explicit(&pump->consumed, memory_order_acquire)) {
        fby__pump_when_consumed_locked(s, first_batch);
        return true;
    }
    return s->n_busy > 0; /* its end pumps */
}

static bool load_blocks(fby_loader *l, bool refuses)
{
    fby__schedule *s = &l->schedule;
    const uint64_t starved = fby__first_starved_locked(l);
    bool loaded = false;
    s->no_room = s->no_window = false;
    while (!s->rewinds && !s->by_itself && s->load_phase < s->epoch->n_phases && !is_held_back(s, &l->pump) && !is_far_ahead(l) &&
           !is_short(s, &l->pump, starved)) {
        fby_error err = {0};
        const fby__start start = load_next(l, refuses, &err);
        if (start == FBY__NOT_NOW)
            break;
        if (start == FBY__START_FAILED) { /* out of memory: every phase from here on fails with it */
            if (!s->error)
                s->error = fby__error_copy(&err);
            for (uint32_t p = s->load_phase; p < s->epoch->n_phases; p++)
                s->phases[p].state = FBY__PHASE_FAILED;
            s->load_phase = s->epoch->n_phases;
            return true;
        }
        loaded = true;
        refuses = false; /* one that failed is enough to go on */
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
    fby__schedule *s = &l->schedule;
    const fby__epoch *ahead = s->ahead.epoch;
    if (fby__plan_parts(l->plan) < 2 || s->load_phase < s->epoch->n_phases || fby__is_narrow_locked(s) || s->by_itself ||
        fby__first_starved_locked(l) != UINT64_MAX)
        return;
    if (s->start_batch > 0 && atomic_load_explicit(&l->pump.consumed, memory_order_acquire) == s->start_batch) {
        fby__pump_when_consumed_locked(s, s->start_batch + 1);
        return; /* begun at a batch that the consumer does not have yet: as is_held_back */
    }
    while (ahead && s->ahead.phase < ahead->n_phases && ahead->phases[s->ahead.phase].first_batch == 0 && s->n_loads < l->memory.max_jobs) {
        const fby__plan_phase *phase = &ahead->phases[s->ahead.phase];
        const wanted w = item_rows(l, ahead, phase, s->ahead.item);
        if (!fby__cache_find(s->cache, w.block, w.lo, w.hi, w.only)) {
            const fby__loader_source *in = fby__source_of(&l->sources, w.block);
            fby__cache_entry *e;
            if (fby__progress_of(in)->company[w.block - in->first_block] != FBY__WITH_OTHERS)
                return; /* when the epoch itself asks */
            if (start_job(l, &w, fby__phase_ordinal(true, s->ahead.phase), s->epoch->n_batches + 1, &e, NULL) != FBY__STARTED)
                return;                       /* no room yet; out of memory is said when the epoch itself asks */
            if (e->state == FBY__ENTRY_READY) /* another loader had it */
                fby__cache_unpin(s->cache, e, s->next_epoch_use[e->block]);
            else
                s->ahead.entries[s->ahead.n_entries++] = e;
        }
        if (++s->ahead.item == phase->n_items) {
            s->ahead.item = 0;
            s->ahead.phase++;
        }
    }
}

void fby__ahead_done_locked(fby__schedule *s, fby__cache_entry *e)
{
    for (uint32_t i = 0; i < s->ahead.n_entries; i++)
        if (s->ahead.entries[i] == e) {
            s->ahead.entries[i] = s->ahead.entries[--s->ahead.n_entries];
            fby__cache_unpin(s->cache, e, s->next_epoch_use[e->block]);
            return;
        }
}

void fby__loader_entry_done_locked(fby__schedule *s, fby__cache_entry *e)
{
    for (uint32_t slot = e->waiters; slot != UINT32_MAX; slot = s->slot_next[slot]) {
        fby__phase_progress *progress = &s->phases[s->slot_phase[slot]];
        progress->n_pending--;
        if (e->state == FBY__ENTRY_FAILED) {
            progress->state = FBY__PHASE_FAILED;
            progress->failed = e;
        }
        phase_loaded(progress);
    }
    e->waiters = UINT32_MAX;
    fby__ahead_done_locked(s, e);
}

void fby__phase_unpin_locked(fby__schedule *s, const fby__loader_memory *m, uint32_t p)
{
    fby__phase_progress *progress = &s->phases[p];
    const fby__plan_phase *phase = &s->epoch->phases[p];
    const bool again = m->whole_blocks || !s->epoch->spans; /* the spans of a part by key: not before the sweep has ended */
    for (uint32_t i = 0; i < progress->n_pinned; i++)
        fby__cache_unpin(s->cache, s->slot_entry[progress->first_slot + i], again ? s->next_epoch_use[phase->items[i].block] : FBY__NEVER);
    progress->n_pinned = 0;
    progress->state = FBY__PHASE_DRAINED;
    s->n_drained++;
}

void fby__loader_piece_done_locked(fby__schedule *s, const fby__loader_memory *m, uint32_t phase)
{
    if (--s->phases[phase].batches_left == 0)
        fby__phase_unpin_locked(s, m, phase);
}

void fby__loader_busy_done_locked(fby__schedule *s)
{
    if (--s->n_busy == 0)
        pthread_cond_broadcast(&s->idle);
}

/* Is the batch that the consumer takes next neither assembled nor failed? */
static bool head_is_missing(const fby_loader *l)
{
    uint64_t consumed = atomic_load_explicit(&l->pump.consumed, memory_order_acquire);
    const fby__flight *f = &l->schedule.flights[consumed % l->config.depth];
    return consumed == l->schedule.next_flight ? l->schedule.next_flight < l->schedule.epoch->n_batches
                                               : f->used && f->n_done < f->n_pieces;
}

void fby__loader_held_up_locked(fby__schedule *s, fby__trace *trace, bool held_up)
{
    if (held_up == s->held_up)
        return;
    s->held_up = held_up;
    (held_up ? fby__busy_begin : fby__busy_end)(&trace->no_room, fby__now_ns());
}

static void pump(fby_loader *l)
{
    fby__schedule *s = &l->schedule;
    (void)fby__start_flights_locked(l); /* whether anything was started shows in n_busy below */
    (void)load_blocks(l, false);
    fby__queue_flights_locked(l);
    if (s->rewinds && s->n_busy == 0) {
        fby__rewind_loading_locked(s);
        (void)load_blocks(l, false);
        fby__queue_flights_locked(l);
    }
    /* Nothing runs and the consumer waits: there is no room for what its batch needs, beside what is there for others, or at all. */
    while (s->n_busy == 0 && head_is_missing(l)) {
        if (!fby__start_flights_locked(l) && !load_blocks(l, false) && !fby__give_way_locked(l) && !load_blocks(l, true))
            break;
        fby__queue_flights_locked(l);
    }
    fby__loader_held_up_locked(s, &l->engine.trace, (s->no_room || s->no_window) && s->n_loads == 0);
    read_ahead(l);
    if (s->n_busy == 0)
        fby__pump_when_consumed_locked(s, 0); /* nobody else would */
}

/*
 * The consumer asks for a pump when it has consumed `pump.at` batches: a pump that can start nothing costs it a wake, and a worker more.
 * What it consumed while pump.at was not said yet is looked at here: both write their number before they read the other's.
 */
void fby__loader_pump_locked(fby_loader *l)
{
    fby__schedule *s = &l->schedule;
    uint64_t consumed = atomic_load(&l->pump.consumed), seen;
    if (s->stop || s->hold || !s->epoch)
        return;
    do {
        seen = consumed;
        s->pump_at_next = UINT64_MAX;
        pump(l);
        atomic_store(&l->pump.at, s->pump_at_next);
        consumed = atomic_load(&l->pump.consumed);
    } while (consumed != seen && consumed >= s->pump_at_next);
}

void fby__loader_pump_task(fby__task *task, int worker)
{
    (void)worker;
    fby_loader *l = FBY__TASK_OWNER(task, fby_loader, pump.task);
    /* acq_rel, pairs with the consumer's exchange: a batch consumed before it is seen below, one consumed after queues another pump */
    (void)atomic_exchange_explicit(&l->pump.queued, false, memory_order_acq_rel);
    pthread_mutex_lock(&l->schedule.lock);
    fby__loader_pump_locked(l);
    fby__schedule_unlock(l);
}

void fby__schedule_unlock(fby_loader *l)
{
    fby__schedule *s = &l->schedule;
    for (;;) {
        const uint32_t slabs = s->slabs_wanted;
        fby__file *closing = s->closing;
        s->slabs_wanted = 0;
        s->closing = NULL;
        pthread_mutex_unlock(&s->lock);
        fby__file_close_all(closing);
        fby__account_trim(l->engine.account);
        if (slabs == 0)
            return;
        const bool filled = fby__pool_fill(l->engine.account, slabs, NULL) == FBY_OK;
        pthread_mutex_lock(&s->lock);
        s->slabs_failed = !filled;
        fby__loader_pump_locked(l);
    }
}
