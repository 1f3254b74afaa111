/*
 * How long the consumer waits; and of a call of next() that takes long, what its batch waits for, for the log. Looked at once the call has
 * taken that long, under the schedule's lock; a call that is no slower takes no lock but the queue's.
 */
#include "loader/internal.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>

#define DEFAULT_MS 50u
#define MOST_NS 1000000000000000u
#define STEPS_SEEN 8               /* before their mean says anything */
#define SAYS_AGAIN_NS 10000000000u /* one message of so much time: the next one says how many there were */

static const fby__load_job *job_of(const fby_loader *l, const fby__cache_entry *e)
{
    for (uint32_t i = 0; i < l->sources.n * l->memory.max_jobs; i++)
        if (l->schedule.jobs[i].entry == e)
            return &l->schedule.jobs[i];
    return NULL;
}

/* A phase that is not loaded: its first block that is on the way, or why none is. */
static void say_phase_locked(const fby_loader *l, uint32_t phase, char *out, size_t room)
{
    const fby__phase_progress *progress = &l->schedule.phases[phase];
    for (uint32_t i = 0; i < progress->n_pinned; i++) {
        const fby__cache_entry *e = l->schedule.slot_entry[progress->first_slot + i];
        if (e->state != FBY__ENTRY_LOADING)
            continue;
        const fby__loader_source *in = fby__source_of(&l->sources, e->block);
        const fby__load_job *job = job_of(l, e);
        const bool decodes = job && atomic_load_explicit(&job->read.pending, memory_order_relaxed) > 0;
        char text[FBY__BLOCK_TEXT_BYTES];
        fby__dataset_block_text(in->ds, fby__block_in(in, e), text);
        (void)snprintf(out, room, "%s %.380s", decodes ? "decoding" : "reading", text);
        return;
    }
    if (l->schedule.no_room)
        (void)snprintf(out, room, "memory: the budget had no room for its next block");
    else
        (void)snprintf(out, room, "its turn: workers are busy with blocks before its own");
}

static void say_batch_locked(fby_loader *l, uint64_t index, char *out, size_t room)
{
    pthread_mutex_lock(&l->queue.lock);
    const bool assembled = l->config.transform_ahead && l->queue.ring[index % l->config.depth].samples > 0;
    pthread_mutex_unlock(&l->queue.lock);
    const fby__flight *f = &l->schedule.flights[index % l->config.depth];
    if (assembled || !f->used || f->index != index) {
        (void)snprintf(out, room, "%s", assembled ? "the transform" : "batches before it");
        return;
    }
    for (uint32_t p = 0; p < f->n_pieces; p++)
        if (f->piece_state[p] == FBY__PIECE_WAITING && l->schedule.phases[f->pieces[p].phase].state != FBY__PHASE_READY) {
            say_phase_locked(l, f->pieces[p].phase, out, room);
            return;
        }
    (void)snprintf(out, room, "assembling it");
}

void fby__slow_begin(fby__slow *s, uint64_t now) { s->asked_ns = s->asked_ns ? s->asked_ns : now; }

/* How long a wait may take. */
static uint64_t slow_ns(const fby_loader *l)
{
    const fby_loader_opts *asked = &l->config.asked;
    const uint64_t ms = asked->slow_next_ms ? asked->slow_next_ms : DEFAULT_MS,
                   steps = fby__trace_counter(&l->engine.trace, FBY__COUNT_BATCHES);
    if (!(asked->slow_next_share > 0) || steps <= STEPS_SEEN)
        return ms < MOST_NS / 1000000 ? ms * 1000000 : MOST_NS;
    const uint64_t work = atomic_load_explicit(&l->engine.trace.stage_ns[FBY__STAGE_WORK], memory_order_relaxed),
                   first = atomic_load_explicit(&l->consumer.first_step_ns, memory_order_relaxed);
    const double mean = (double)(work - first) / (double)(steps - 1);
    return (uint64_t)fmin(asked->slow_next_share * mean, (double)MOST_NS);
}

uint64_t fby__slow_at(const fby_loader *l)
{
    const fby__slow *s = &l->consumer.slow;
    return s->waits_for[0] || !fby__log_wants(FBY_LOG_WARNING) ? UINT64_MAX : s->asked_ns + slow_ns(l);
}

void fby__slow_look(fby_loader *l)
{
    fby__slow *s = &l->consumer.slow;
    pthread_mutex_lock(&l->schedule.lock);
    say_batch_locked(l, atomic_load_explicit(&l->pump.consumed, memory_order_acquire), s->waits_for, sizeof s->waits_for);
    pthread_mutex_unlock(&l->schedule.lock);
}

void fby__slow_end(fby__consumer *c, bool delivered)
{
    fby__slow *s = &c->slow;
    const uint64_t now = s->waits_for[0] ? fby__now_ns() : 0;
    if (delivered && s->waits_for[0] && s->said_ns && now - s->said_ns < SAYS_AGAIN_NS) {
        s->n_unsaid++;
    } else if (delivered && s->waits_for[0]) {
        char before[64] = "";
        if (s->n_unsaid)
            (void)snprintf(before, sizeof before, " (and %llu times since it was said last)", (unsigned long long)s->n_unsaid);
        fby__log(FBY_LOG_WARNING, "waited %.0f ms for batch %llu of epoch %llu, for %s%s", 1e-6 * (double)(now - s->asked_ns),
                 (unsigned long long)atomic_load_explicit(&c->handed, memory_order_relaxed) - 1, (unsigned long long)c->next_epoch - 1,
                 s->waits_for, before);
        s->said_ns = now;
        s->n_unsaid = 0;
    }
    s->asked_ns = 0;
    s->waits_for[0] = '\0';
}

size_t fby_loader_waits(const fby_loader *l, uint64_t *out_ns, uint64_t *out_counts, size_t room)
{
    return fby__histogram_list(&l->engine.trace.wait, out_ns, out_counts, room);
}
