/*
 * Where memory is short. Bounds from metadata may be too low (strings that expand, longer samples than usual, large pages), so that what was
 * planned does not fit. Then, in this order:
 *
 *   1. What is needed later is evicted from the cache.
 *   2. A batch whose values do not fit holds none of them and waits until batches before it are handed out; later ones wait behind it, and
 *      blocks of later batches are not loaded. A block that takes more than was reserved is put back, and read anew when it is its turn;
 *      by itself, where it is scratch or the read buffer that was too small.
 *   3. Nothing is under way and the consumer waits: all else gives way to its batch, which is started over as if the epoch had been begun
 *      there and nothing were known of blocks but their metadata. Until the epoch ends there is then one batch and one block at a time. Where
 *      blocks turn out larger than was known of them, it is started over again, as often as that happens, with what they took reserved for
 *      them.
 *   4. That has not helped: what does not fit is refused by name.
 *
 * So the earliest unfinished batch can always finish if it fits the budget as a whole, nothing goes beyond it, and what is refused is a matter of
 * data, options and budget, not of which thread was faster.
 */
#include "loader/schedule_internal.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

#define MIB(x) ((double)(x) / (1u << 20))

/* ---- blocks that are put back ---- */

void fby__loader_put_back_locked(fby__schedule *s, fby__cache_entry *e)
{
    fby__cache_empty(s->cache, e);
    if (e->waiters != UINT32_MAX) /* their phases are not ready before they were loaded anew */
        s->rewinds = true;
    e->waiters = UINT32_MAX;
    fby__ahead_done_locked(s, e); /* the epoch itself asks for it again */
}

/*
 * Blocks were put back, and nothing is under way: from the first phase that lacks one, what is loaded loses its pins, so that blocks are
 * asked for in schedule order once more, at the expense of those that are needed later.
 */
void fby__rewind_loading_locked(fby__schedule *s)
{
    uint32_t first = s->epoch->n_phases;
    s->rewinds = false;
    for (uint32_t p = first; p-- > 0;)
        if (s->phases[p].n_pending > 0)
            first = p;
    for (uint32_t p = s->epoch->n_phases; p-- > first;) {
        fby__phase_progress *progress = &s->phases[p];
        if (progress->state == FBY__PHASE_DRAINED)
            continue;
        for (uint32_t i = 0; i < progress->n_pinned; i++)
            fby__cache_unpin(s->cache, s->slot_entry[progress->first_slot + i], fby__phase_ordinal(false, p));
        progress->state = FBY__PHASE_WAITING;
        progress->n_pinned = progress->n_pending = 0;
        progress->failed = NULL;
    }
    s->load_phase = first;
    s->load_item = 0;
    fby__loader_skip_drained_locked(s);
}

/*
 * What scratch and read buffers take beyond their reservation has to fit the account too. A block that finds no room for it holds none, and is
 * loaded anew: by itself, decoded by one thread, which takes the least that this block can do with; and if that is still too much, once nothing is
 * there but what the consumer's batch needs. So whether it fits at last is a question of the plan, not of what else happened to be under way.
 */
bool fby__block_may_load_locked(fby_loader *l, uint32_t block)
{
    const fby__loader_source *in = fby__source_of(&l->sources, block);
    const uint8_t company = fby__progress_of(in)->company[block - in->first_block];
    if (company == FBY__WITH_OTHERS)
        return true;
    if (l->schedule.n_busy > 0) /* its end pumps */
        return false;
    if (company == FBY__WITH_NOTHING_ELSE && l->engine.delivery->keeps_blocks && !fby__is_narrow_locked(&l->schedule)) {
        l->schedule.no_room = true;
        fby__pump_when_consumed_locked(&l->schedule, 0);
        return false;
    }
    (void)fby__load_shrink_locked(l); /* whether there were any */
    return true;
}

/* ---- batches that wait for room ---- */

static fby__flight *first_starved(const fby__schedule *s, uint32_t depth)
{
    fby__flight *first = NULL;
    for (uint32_t i = 0; i < depth; i++) {
        fby__flight *f = &s->flights[i];
        if (f->used && f->lacks.bytes && (!first || f->index < first->index))
            first = f;
    }
    return first;
}

uint64_t fby__first_starved_locked(fby_loader *l)
{
    const fby__flight *f = l->outputs.shape->n_ragged ? first_starved(&l->schedule, l->config.depth) : NULL;
    return f ? f->index : UINT64_MAX;
}

/* The last phase that a batch still needs. */
static uint32_t last_phase(const fby__flight *f)
{
    uint32_t last = 0;
    for (uint32_t p = 0; p < f->n_pieces; p++)
        if (f->piece_state[p] == FBY__PIECE_WAITING && f->pieces[p].phase > last)
            last = f->pieces[p].phase;
    return last;
}

uint64_t fby__feed_starved_locked(fby_loader *l)
{
    fby__flight *f = l->outputs.shape->n_ragged ? first_starved(&l->schedule, l->config.depth) : NULL;
    if (!f)
        return UINT64_MAX;
    bool fits;
    while (!(fits = fby__values_fit(l->engine.account, f->lacks.bytes)) &&
           fby__cache_evict(l->schedule.cache, fby__phase_ordinal(false, last_phase(f))))
        ;
    if (fits)
        f->lacks = (fby__lack){0};
    else
        fby__pump_when_consumed_locked(&l->schedule, 0); /* values of a batch that is handed out are no longer charged */
    return f->index;
}

/* ---- the consumer's batch, and nothing else ---- */

/*
 * The batches after it go, finished or not, and all blocks: it is started over. The first time also what is known of blocks beyond metadata, which
 * depends on what happened to be loaded: what is found out from here on, one thing at a time, is a matter of the data alone.
 */
static void start_over(fby_loader *l, uint64_t batch)
{
    fby__schedule *s = &l->schedule;
    for (uint32_t i = 0; s->over.at != batch && i < l->sources.n; i++) {
        fby__loader_source *in = &l->sources.at[i];
        uint64_t *outgrown = fby__progress_of(in)->outgrown;
        memset(outgrown, 0, (size_t)in->n_blocks * in->n_variable * sizeof *outgrown);
        atomic_store_explicit(&in->grown_row_bytes, 0, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < l->config.depth; i++)
        fby__flight_drop_locked(l, &s->flights[i]);
    fby__queue_clear(&l->queue, l->config.depth); /* those in it are later: all before this one were handed out */
    for (uint32_t p = 0; p < s->epoch->n_phases; p++) {
        fby__phase_progress *progress = &s->phases[p];
        for (uint32_t i = 0; i < progress->n_pinned; i++)
            fby__cache_unpin(s->cache, s->slot_entry[progress->first_slot + i], FBY__NEVER);
    }
    fby__cache_evict_all(s->cache);
    fby__account_set_slack(l->engine.account, 0);
    fby__schedule_lay_out_locked(s, s->epoch, batch);
    s->load_phase = s->load_item = 0;
    fby__loader_skip_drained_locked(s);
    s->next_flight = s->over.at = batch;
    s->rewinds = s->over.outgrew = false;
}

/* The file that all blocks of a batch lie in; NULL: several. */
static const char *file_of(const fby_loader *l, const fby__flight *f)
{
    const fby__loader_source *source = NULL;
    uint32_t file = UINT32_MAX;
    for (uint32_t p = 0; p < f->n_pieces; p++) {
        const fby__plan_phase *phase = &l->schedule.epoch->phases[f->pieces[p].phase];
        for (uint32_t i = 0; i < phase->n_items; i++) {
            const fby__loader_source *in = fby__source_of(&l->sources, phase->items[i].block);
            const uint32_t here = fby__dataset_block(in->ds, phase->items[i].block - in->first_block)->file;
            if (source && (in != source || here != file))
                return NULL;
            source = in;
            file = here;
        }
    }
    return source ? fby__dataset_file_path(source->ds, file) : NULL;
}

static void refuse_batch(fby_loader *l, fby__flight *f)
{
    fby_error err = {.file_offset = -1};
    const char *file = file_of(l, f);
    char where[600] = "", fewer[64] = "";
    const uint64_t budget = l->memory.budget_bytes, size = fby__epoch_batch_size(l->schedule.epoch, f->index);
    const bool in_pieces = !f->lacks.placed && f->lacks.samples < size; /* the rest is estimated, and all of it is there twice in the end */
    const uint64_t all = f->lacks.placed ? f->lacks.placed : (uint64_t)((double)f->lacks.bytes / (double)f->lacks.samples * (double)size);
    const uint64_t needs = fby__values_limit_for(l->engine.account, f->lacks.bytes) + (in_pieces ? 2 * all : 0);
    const uint64_t would_do = fby__loader_budget_for(l, needs);
    if (file)
        (void)snprintf(where, sizeof where, "'%.500s': ", file);
    if (l->config.batch_size > 1)
        (void)snprintf(fewer, sizeof fewer, "lower batch_size (now %llu), or ", (unsigned long long)l->config.batch_size);
    (void)fby__fail(
        &err, FBY_E_BUDGET,
        "%soutput '%s': the values of batch %llu (%llu samples) take %s%llu bytes (%.1f MiB), which the memory budget of %llu bytes "
        "(%.1f MiB) has no room for beside the blocks that they come from: %sraise memory to %llu bytes (%.1f MiB)",
        where, l->outputs.shape->outputs[f->lacks.output].name, (unsigned long long)f->index, (unsigned long long)size,
        in_pieces ? "about " : "", (unsigned long long)all, MIB(all), (unsigned long long)budget, MIB(budget), fewer,
        (unsigned long long)would_do, MIB(would_do));
    fby__flight_fail_locked(l, f, &err);
}

bool fby__give_way_locked(fby_loader *l)
{
    fby__schedule *s = &l->schedule;
    const uint64_t head = atomic_load_explicit(&l->pump.consumed, memory_order_acquire);
    fby__flight *f = &s->flights[head % l->config.depth];
    const bool starves = f->used && f->lacks.bytes;
    if (s->slabs_wanted || (!starves && !s->no_room))
        return false;
    if (fby__load_shrink_locked(l))
        return true;
    if ((s->over.at != head || s->over.outgrew) && l->engine.delivery->keeps_blocks) {
        start_over(l, head);
        return true;
    }
    if (starves)
        refuse_batch(l, f);
    return starves;
}
