/* A block was read, or copied: what became of it, and what was learnt. Its batches may begin, or it is loaded once more. */
#include "loader/internal.h"

#include "base/alloc.h"

/* What the panels of a block took, or would have. True: it is more than was known. */
static bool learn_locked(fby__loader_source *in, const fby__cache_entry *e)
{
    const uint32_t block = fby__block_in(in, e);
    bool more = false;
    size_t beyond = 0;
    for (uint32_t i = 0; i < in->n_panels; i++) {
        const uint64_t capacity = e->data.panels[i].capacity;
        if (capacity <= fby__loader_capacity(in, block, &in->panels[i]))
            continue;
        fby__progress_of(in)->outgrown[(size_t)block * in->n_variable + in->panels[i].variable] = capacity;
        more = true;
    }
    for (uint32_t i = 0; more && i < in->n_panels; i++)
        beyond += fby__loader_outgrown_bytes(in, block, i, e->data.panels[i].capacity);
    const double a_row = (double)beyond / (double)(e->hi - e->lo);
    if (more && a_row > atomic_load_explicit(&in->grown_row_bytes, memory_order_relaxed))
        atomic_store_explicit(&in->grown_row_bytes, a_row, memory_order_relaxed); /* only a refusal's figure depends on it */
    in->loader->schedule.over.outgrew |= more;
    return more;
}

/*
 * A block that has failed for want of room: is it to be loaded once more? Where panels were too small, with room for what is known now; where
 * scratch or the buffer had no room, in less company.
 */
static bool goes_on_locked(const fby__load_job *job)
{
    uint8_t *company = &fby__progress_of(job->in)->company[fby__block_in(job->in, job->entry)];
    if (job->is_copy || !job->read.lacks_room)
        return false;
    if (learn_locked(job->in, job->entry))
        return true;
    if (job->company == FBY__WITH_NOTHING_ELSE)
        return false;
    if (*company <= job->company) /* else another part of the block, which was loaded beside this one, has moved it on */
        *company = (uint8_t)(job->company + 1);
    return true;
}

/* All of a block at once, so that reports divide one by the other. */
static void count_locked(const fby__load_job *job, bool failed)
{
    fby__trace *trace = &job->loader->engine.trace;
    if (job->is_copy) {
        fby__trace_count(trace, FBY__COUNT_BLOCKS_CACHED, !failed);
        return;
    }
    fby__trace_count(trace, FBY__COUNT_BLOCKS_READ, 1);
    fby__trace_count(trace, FBY__COUNT_BYTES_READ, job->read.bytes);
    fby__trace_count(trace, FBY__COUNT_BYTES_DECODED, job->read.decoded_bytes);
    atomic_fetch_add_explicit(&job->in->bytes_read, job->read.bytes, memory_order_relaxed);
}

void fby__load_publish(fby__load_job *job, const fby_error *why)
{
    fby_loader *l = job->loader;
    fby__cache_entry *e = job->entry;
    fby_error *error = why ? fby__malloc(sizeof *error) : NULL;
    if (error) {
        *error = *why;
        (void)fby__source_error(job->in, error->code, error); /* which is what it returns */
    }
    if (job->read.mapped)
        e->data.mapped = job->read.mapped;
    job->read.mapped = NULL;
    pthread_mutex_lock(&l->schedule.lock);
    const bool put_back = why && goes_on_locked(job);
    e->state = why ? FBY__ENTRY_FAILED : FBY__ENTRY_READY;
    e->error = put_back ? NULL : error;
    count_locked(job, why != NULL);
    if (job->is_copy) {
        fby__shared_drop(l, e->data.shared);
        e->data.shared = NULL;
    }
    if (!why) {
        (void)learn_locked(job->in, e); /* whether it was more */
        fby__shared_offer_locked(&l->engine, e);
    }
    l->schedule.by_itself = false;
    if (put_back)
        fby__loader_put_back_locked(&l->schedule, e);
    else
        fby__loader_entry_done_locked(&l->schedule, e);
    fby__source_progress *progress = fby__progress_of(job->in);
    job->next_free = progress->free_jobs;
    progress->free_jobs = job;
    l->schedule.n_loads--;
    fby__loader_busy_done_locked(&l->schedule);
    fby__loader_pump_locked(l);
    fby__schedule_unlock(l);
    if (put_back)
        fby__free(error);
}

void fby__load_done(fby__read *read, const fby_error *why) { fby__load_publish(fby__load_job_of(read), why); }
