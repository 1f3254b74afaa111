/* The consumer's side: begin an epoch, take the next batch, cancel. The only lock here is the queue's. */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/condition.h"
#include "base/process.h"
#include "trace/events.h"

fby_status fby__loader_check_process(const fby_loader *l, fby_error *err)
{
    if (l->pid == fby__process_id())
        return FBY_OK;
    return fby__fail(err, FBY_E_STATE,
                     "this loader was created before a fork (in process %ld): its threads do not exist here. "
                     "Create the loader in the process that uses it; a PyTorch DataLoader over it needs num_workers=0",
                     (long)l->pid);
}

static void show(fby__consumer *consumer, const fby__epoch_counts *c)
{
    atomic_store_explicit(&consumer->n_batches, c->n_batches, memory_order_relaxed);
    atomic_store_explicit(&consumer->n_samples, c->n_samples, memory_order_relaxed);
    atomic_store_explicit(&consumer->n_dropped, c->n_dropped, memory_order_relaxed);
    atomic_store_explicit(&consumer->n_wrapped, c->n_wrapped, memory_order_relaxed);
}

fby_status fby__loader_count(fby__schedule *s, const fby__plan *plan, uint64_t epoch, fby__epoch_counts *out, fby_error *err)
{
    pthread_mutex_lock(&s->lock);
    const fby__epoch *known = s->epoch && s->epoch->epoch == epoch               ? s->epoch
                              : s->ahead.epoch && s->ahead.epoch->epoch == epoch ? s->ahead.epoch
                                                                                 : NULL;
    if (known)
        *out = (fby__epoch_counts){.n_available = known->n_available,
                                   .n_batches = known->n_batches,
                                   .n_samples = known->n_samples,
                                   .n_wrapped = known->n_wrapped,
                                   .n_dropped = known->n_dropped};
    pthread_mutex_unlock(&s->lock);
    return known ? FBY_OK : fby__plan_count(plan, epoch, out, err);
}

fby_status fby__loader_show(fby_loader *l, uint64_t epoch, fby_error *err)
{
    fby__epoch_counts counts;
    FBY__TRY(fby__loader_count(&l->schedule, l->plan, epoch, &counts, err));
    show(&l->consumer, &counts);
    return FBY_OK;
}

/* What the consumer does from here on, until the next epoch begins, is no work on a batch. */
static void end_epoch(fby__consumer *c, uint64_t now)
{
    if (!c->ended_ns)
        c->ended_ns = now;
    c->transferred_ns = 0;
}

static fby_status begin_at(fby_loader *l, uint64_t epoch, uint64_t batch, fby_error *err)
{
    fby__consumer *c = &l->consumer;
    fby__epoch_counts counts;
    FBY__TRY(fby__loader_count(&l->schedule, l->plan, epoch, &counts, err));
    if (batch > counts.n_batches)
        return fby__fail(err, FBY_E_ARG, "batch %llu asked for, but epoch %llu has %llu", (unsigned long long)batch,
                         (unsigned long long)epoch, (unsigned long long)counts.n_batches);
    uint64_t now = fby__now_ns();
    if (!atomic_load_explicit(&c->first_begin_ns, memory_order_relaxed)) {
        atomic_store_explicit(&c->first_process_cpu_ns, fby__process_cpu_ns(), memory_order_relaxed);
        atomic_store_explicit(&c->first_begin_ns, now, memory_order_relaxed);
    }
    end_epoch(c, atomic_load_explicit(&c->last_return_ns, memory_order_relaxed)); /* one that was left: since its last batch */
    if (c->ended_ns)
        fby__trace_add_alone(&c->gap_ns, now - c->ended_ns);
    c->ended_ns = 0;
    atomic_store_explicit(&c->epoch_begin_ns, now, memory_order_relaxed);
    atomic_store_explicit(&c->first_batch_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&c->last_return_ns, 0, memory_order_relaxed);
    fby__history_begin(l, epoch);
    atomic_fetch_add_explicit(&c->epochs_begun, 1, memory_order_relaxed);
    c->next_epoch = epoch; /* also when it cannot begin for want of memory: then the next call tries it again */
    c->next_batch = batch;
    c->waited_ns = 0;
    c->began = false;
    FBY__TRY(fby__loader_epoch_begin(l, epoch, batch, err));
    show(c, &counts);
    atomic_store_explicit(&c->handed, batch, memory_order_relaxed);
    c->next_epoch++;
    c->next_batch = 0;
    c->began = true;
    return FBY_OK;
}

/* Whoever says where to go on takes back what was cancelled before, and nothing that is cancelled from here on. */
void fby__loader_uncancel(fby__queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->cancelled = false;
    pthread_mutex_unlock(&q->lock);
}

static bool is_cancelled(fby__queue *q)
{
    pthread_mutex_lock(&q->lock);
    const bool cancelled = q->cancelled;
    pthread_mutex_unlock(&q->lock);
    return cancelled;
}

static fby_status fail_cancelled(fby_error *err) { return fby__fail(err, FBY_E_CANCELLED, "the loader was cancelled"); }

/* Is this batch the next one already? Then there is nothing to begin, and what was read ahead is not read again. */
static bool stands_at(const fby__consumer *c, fby__queue *q, uint64_t epoch, uint64_t batch)
{
    if (!c->began || c->next_epoch != epoch + 1 || atomic_load_explicit(&c->handed, memory_order_relaxed) != batch)
        return false;
    pthread_mutex_lock(&q->lock);
    const bool runs = !q->cancelled && !q->over;
    pthread_mutex_unlock(&q->lock);
    return runs;
}

fby_status fby_loader_begin_at(fby_loader *l, uint64_t epoch, uint64_t batch, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    if (stands_at(&l->consumer, &l->queue, epoch, batch))
        return FBY_OK;
    fby__loader_uncancel(&l->queue);
    return begin_at(l, epoch, batch, err);
}

fby_status fby_loader_begin(fby_loader *l, uint64_t epoch, fby_error *err) { return fby_loader_begin_at(l, epoch, 0, err); }

void fby_loader_cancel(fby_loader *l)
{
    if (fby__loader_check_process(l, NULL) != FBY_OK)
        return; /* a thread that does not exist here may have held the lock when the process was forked */
    pthread_mutex_lock(&l->queue.lock);
    l->queue.cancelled = true;
    fby_cancel_set(l->engine.token); /* until the next epoch begins, or the loader closes */
    if (l->queue.planning)
        fby_cancel_set(l->queue.planning);
    pthread_cond_broadcast(&l->queue.ready);
    fby__transform_discard_locked(&l->queue, l->config.depth);
    pthread_mutex_unlock(&l->queue.lock);
}

/*
 * What the next call looks at of its batch was written by a worker and has left this core's caches, and where rows go to their batches
 * directly, all of them: reading it takes as long as all else in next().
 */
static void prefetch(const fby__batch_shape *shape, const fby_batch *b)
{
    const uint8_t *at = (const uint8_t *)b;
    for (size_t n = b ? sizeof *b + shape->n_tensors * sizeof *b->tensors : 0; n > 0; n -= n < 64 ? n : 64, at += 64)
        __builtin_prefetch(at, 1);
}

/* The batch that the queue hands out next has come to the consumer. */
static void count_sources(fby_loader *l, const fby__finished *batch)
{
    if (!l->queue.of_sources) {
        fby__trace_add_alone(&l->sources.at[0].handed, batch->samples);
        return;
    }
    const uint32_t *counts = l->queue.of_sources + l->queue.next % l->config.depth * l->sources.n;
    for (uint32_t i = 0; i < l->sources.n; i++)
        fby__trace_add_alone(&l->sources.at[i].handed, counts[i]);
}

/* Wait for the next batch: FBY_OK with *out filled, FBY_END, FBY_TIMEOUT, FBY_E_CANCELLED, or FBY_E_STATE after an error. */
/* *out_ready: how many batches lie ready from the next one on. */
static fby_status pop(fby_loader *l, uint64_t now, int64_t timeout_ns, fby__finished *out, uint32_t *out_ready, fby_error *err)
{
    fby_status status = FBY_OK;
    pthread_mutex_lock(&l->queue.lock);
    for (;;) {
        fby__finished *slot = &l->queue.ring[l->queue.next % l->config.depth];
        if (l->queue.cancelled)
            status = fail_cancelled(err);
        else if (l->queue.over)
            status = fby__fail(err, FBY_E_STATE, "the epoch ended with an error; begin an epoch to go on");
        else if (l->queue.next == l->queue.n_batches)
            status = FBY_END;
        else if (slot->ready) {
            *out = *slot;
            *slot = (fby__finished){0};
            if (!out->failed)
                count_sources(l, out);
            const fby__finished *next = &l->queue.ring[++l->queue.next % l->config.depth];
            prefetch(l->outputs.shape, next->batch);
            l->queue.n_ready--;
            *out_ready = next->samples || next->failed ? l->queue.n_ready : 0; /* later ones do not help who waits for this one */
            l->queue.over = out->failed;
            if (l->config.transform_ahead)
                fby__transform_go_on_locked(l);
        } else {
            if (timeout_ns < 0 ? pthread_cond_wait(&l->queue.ready, &l->queue.lock) == 0
                               : timeout_ns > 0 && fby__cond_wait_until(&l->queue.ready, &l->queue.lock, now + (uint64_t)timeout_ns))
                continue;
            status = FBY_TIMEOUT;
        }
        break;
    }
    pthread_mutex_unlock(&l->queue.lock);
    return status;
}

/* The same, and when it takes long, a look at what for. A program that polls does not wait. */
static fby_status pop_watched(fby_loader *l, uint64_t entered, int64_t timeout_ns, fby__finished *out, uint32_t *out_ready, fby_error *err)
{
    const bool first = !atomic_load_explicit(&l->consumer.first_batch_ns, memory_order_relaxed);
    if (first || timeout_ns == 0)
        return pop(l, entered, timeout_ns, out, out_ready, err);
    fby__slow_begin(&l->consumer.slow, entered);
    const uint64_t until = timeout_ns < 0 ? UINT64_MAX : entered + (uint64_t)timeout_ns, look = fby__slow_at(l);
    if (look >= until)
        return pop(l, entered, timeout_ns, out, out_ready, err);
    const fby_status status = pop(l, entered, look > entered ? (int64_t)(look - entered) : 0, out, out_ready, err);
    if (status != FBY_TIMEOUT)
        return status;
    fby__slow_look(l);
    const uint64_t now = fby__now_ns();
    return pop(l, now, timeout_ns < 0 ? -1 : until > now ? (int64_t)(until - now) : 0, out, out_ready, err);
}

/*
 * Reading a thread's CPU clock is a system call, unlike reading the time: a sample of the calls is enough. Every 17th:
 * the depth of the queue, and so the rhythm of sleeps, is a power of two as a rule.
 */
#define CPU_SAMPLE 17u

static void add_events(const fby__consumer *c, uint64_t entered, uint64_t now)
{
    const uint64_t handed = atomic_load_explicit(&c->handed, memory_order_relaxed);
    fby__event_add(&(fby__event){.name = "next", .what = "batches", .begin_ns = entered, .end_ns = now, .number = handed});
    fby__event_add(&(fby__event){
        .kind = FBY__EVENT_LEVEL, .name = "memory held", .what = "bytes", .begin_ns = now, .number = fby__ledger_charged_bytes()});
}

static void account_wait(fby_loader *l, uint64_t entered, fby_status status, uint32_t source)
{
    fby__consumer *c = &l->consumer;
    const uint64_t now = fby__now_ns(), waited = c->waited_ns + (now - entered);
    fby__trace_stage_alone(&l->engine.trace, FBY__STAGE_WAIT, now - entered);
    if (fby__events_are_on())
        add_events(c, entered, now);
    atomic_store_explicit(&c->last_return_ns, now, memory_order_relaxed);
    c->waited_ns = status == FBY_TIMEOUT ? waited : 0; /* who waits in slices waits once */
    if (status != FBY_OK)
        return;
    fby__histogram_add(&l->engine.trace.wait, waited);
    fby__trace_add_alone(&l->sources.at[source].wait_ns, waited);
    if (waited > atomic_load_explicit(&c->wait_max_ns, memory_order_relaxed))
        atomic_store_explicit(&c->wait_max_ns, waited, memory_order_relaxed);
    if (!atomic_load_explicit(&c->first_batch_ns, memory_order_relaxed)) {
        const uint64_t first = now - atomic_load_explicit(&c->epoch_begin_ns, memory_order_relaxed);
        atomic_store_explicit(&c->first_batch_ns, first, memory_order_relaxed);
        fby__trace_add_alone(&c->first_batches_ns, first < waited ? first : waited);
    }
}

static void account_work(fby__consumer *c, fby__trace *trace, uint64_t now)
{
    const uint64_t last = atomic_load_explicit(&c->last_return_ns, memory_order_relaxed);
    if (!last)
        return;
    const uint64_t ns = now - last, moved = fby__min_u64(c->transferred_ns, ns);
    c->transferred_ns = 0;
    if (moved)
        fby__trace_stage_alone(trace, FBY__STAGE_TRANSFER, moved);
    fby__trace_stage_alone(trace, FBY__STAGE_WORK, ns - moved);
    if (!atomic_load_explicit(&c->first_step_ns, memory_order_relaxed))
        atomic_store_explicit(&c->first_step_ns, ns - moved, memory_order_relaxed);
}

/* A batch was waited for, or the end of the epoch. */
static void account_result(fby_loader *l, uint64_t entered, fby_status status, uint32_t source)
{
    account_wait(l, entered, status, source);
    if (status != FBY_END)
        return;
    end_epoch(&l->consumer, atomic_load_explicit(&l->consumer.last_return_ns, memory_order_relaxed));
    atomic_store_explicit(&l->consumer.last_return_ns, 0, memory_order_relaxed);
    fby__history_end(l);
    fby__history_log(l);
}

void fby_loader_transferred(fby_loader *l, uint64_t ns) { l->consumer.transferred_ns += ns; }

/*
 * The slot is free: a worker may start a batch in it, or load a block, if that is what the pump ended for. While at least half of the
 * batches are ready there is no hurry, and waking a sleeping worker, which costs more than handing over a batch, is left to a
 * later call: one wake for half a queue.
 */
static void ask_for_more(fby_loader *l, uint32_t n_ready)
{
    const uint64_t consumed = atomic_fetch_add(&l->pump.consumed, 1) + 1;
    if (n_ready >= l->config.depth / 2 || consumed < atomic_load(&l->pump.at))
        return;
    if (!atomic_exchange_explicit(&l->pump.queued, true, memory_order_acq_rel)) {
        l->pump.task.deadline = 0;
        fby__pool_submit(l->engine.pool, &l->pump.task);
    }
}

static fby_status hand_over(fby_loader *l, fby__finished *finished, uint32_t n_ready, fby_error *err)
{
    if (finished->batch)
        fby__batch_hand_out(finished->batch); /* first: what it takes is the consumer's, and the pump may need the room */
    ask_for_more(l, n_ready);
    if (finished->failed) {
        if (!finished->error)
            return fby__fail_nomem(err, "a batch");
        fby_status status = finished->error->code;
        if (err)
            *err = *finished->error;
        fby__free(finished->error);
        return status;
    }
    fby__trace_add_alone(&l->consumer.handed, 1);
    fby__trace_count_alone(&l->engine.trace, FBY__COUNT_BATCHES, 1);
    fby__trace_count_alone(&l->engine.trace, FBY__COUNT_SAMPLES, finished->samples);
    fby__trace_count_alone(&l->engine.trace, FBY__COUNT_BYTES_DELIVERED, finished->bytes);
    return FBY_OK;
}

static fby_status next_finished(fby_loader *l, bool result, int64_t timeout_ns, fby__finished *out, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    if (result != l->config.asked.transform_pulled)
        return fby__fail(err, FBY_E_STATE, "call fby_loader_next%s(): this loader was opened %s transform_pulled", result ? "" : "_result",
                         result ? "without" : "with");
    uint64_t entered = fby__now_ns(), cpu = l->consumer.n_calls++ % CPU_SAMPLE == CPU_SAMPLE / 2 ? fby__thread_cpu_ns() : 0;
    account_work(&l->consumer, &l->engine.trace, entered);
    if (!l->consumer.began) {
        if (is_cancelled(&l->queue))
            return fail_cancelled(err);
        FBY__TRY(begin_at(l, l->consumer.next_epoch, l->consumer.next_batch, err));
    }
    uint32_t n_ready = 0;
    fby_status status = pop_watched(l, entered, timeout_ns, out, &n_ready, err);
    if (status == FBY_OK)
        status = hand_over(l, out, n_ready, err);
    if (status != FBY_TIMEOUT)
        fby__slow_end(&l->consumer, status == FBY_OK);
    if (status == FBY_END) {
        l->consumer.began = false;
        (void)fby__loader_show(l, l->consumer.next_epoch, NULL); /* for want of memory: shown when it begins */
    }
    if (cpu)
        fby__trace_add_alone(&l->consumer.cpu_ns, CPU_SAMPLE * (fby__thread_cpu_ns() - cpu));
    account_result(l, entered, status, out->last_source);
    return status;
}

fby_status fby_loader_next(fby_loader *l, int64_t timeout_ns, fby_batch **out, fby_error *err)
{
    fby__finished finished = {0};
    FBY__TRY(next_finished(l, false, timeout_ns, &finished, err));
    *out = finished.batch;
    return FBY_OK;
}

fby_status fby_loader_next_result(fby_loader *l, int64_t timeout_ns, void **out, fby_error *err)
{
    fby__finished finished = {0};
    const fby_status status = next_finished(l, true, timeout_ns, &finished, err);
    *out = finished.result;
    return status;
}
