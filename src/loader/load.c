/*
 * One block: a job reads it (read/read.h) into the panels of a cache entry. Where they are put, a sink says: whole.c, thin.c or direct.c. When it
 * was read: load_done.c.
 */
#include "loader/internal.h"

#include "base/alloc.h"

/* ---- what entries of the cache hold ---- */

static bool init_panels(void *user, fby__block_panels *p)
{
    const fby_loader *l = user;
    p->panels = fby__calloc(l->outputs.max_panels, sizeof *p->panels);
    p->overflow = fby__calloc(l->outputs.max_panels, sizeof *p->overflow);
    return p->panels && p->overflow;
}

size_t fby__load_entry_bytes(const fby__loader_outputs *outputs)
{
    const fby__block_panels *p = NULL;
    return fby__alloc_bytes(sizeof(fby__cache_entry)) + fby__alloc_bytes(outputs->max_panels * sizeof *p->panels) +
           fby__alloc_bytes(outputs->max_panels * sizeof *p->overflow) + fby__shared_body_bytes(outputs->max_panels);
}

static void clear_panels(void *user, fby__block_panels *p)
{
    fby_loader *l = user;
    fby__shared_drop(l, p->shared);
    fby__slab_free(l->engine.account, &p->memory);
    fby__slab_free(l->engine.account, &p->whole);
    fby__slab_free(l->engine.account, &p->kept);
    for (uint32_t i = 0; p->overflow && i < l->outputs.max_panels; i++)
        fby__slab_free(l->engine.account, &p->overflow[i]);
    fby__file_unref_later(p->mapped, &l->schedule.closing);
    *p = (fby__block_panels){.panels = p->panels, .overflow = p->overflow, .own_bytes = p->own_bytes};
}

static void fini_panels(void *user, fby__block_panels *p)
{
    const fby_loader *l = user;
    fby__free(p->panels);
    fby__free(p->overflow);
    if (p->own_bytes)
        fby__account_discharge(l->engine.account, p->own_bytes);
}

fby_status fby__load_cache_create(fby_loader *l, uint32_t max_entries, fby_error *err)
{
    const fby__cache_owner owner = {.init = init_panels, .clear = clear_panels, .fini = fini_panels, .user = l};
    return fby__cache_create(max_entries, &owner, &l->schedule.cache, err);
}

/* ---- jobs ---- */

/* A reader's `enough`. */
static uint64_t enough(const fby__reader *reader, uint64_t least)
{
    return fby__loader_budget_for(FBY__TASK_OWNER(reader, const fby__loader_source, reader)->loader, least);
}

static fby_status open_reader(fby__loader_source *in, bool buffered, fby_error *err)
{
    fby_loader *l = in->loader;
    fby__loader_engine *e = &l->engine;
    in->reader = (fby__reader){.ds = in->ds,
                               .columns = in->columns,
                               .n_columns = in->n_columns,
                               .panels = in->panels,
                               .n_panels = in->n_panels,
                               .max_segments = l->memory.max_segments,
                               .n_workers = l->config.n_threads,
                               .pool = e->pool,
                               .io = e->io,
                               .account = e->account,
                               .store = e->store,
                               .trace = &e->trace,
                               .stop = &l->schedule.stop,
                               .buffers = buffered ? &e->read_buffers : NULL,
                               .asks_sink = true,
                               .enough = enough,
                               .reserved_bytes = l->sources.at[in->scratch_of].reserved_bytes,
                               .shares_workers_of = in == &l->sources.at[in->scratch_of] ? NULL : &l->sources.at[in->scratch_of].reader};
    return fby__reader_open(&in->reader, err);
}

fby_status fby__load_jobs_create(fby_loader *l, fby_error *err)
{
    fby__loader_engine *e = &l->engine;
    const bool buffered = e->io && fby__io_kind_of(e->io) != FBY__IO_MMAP;
    if (buffered)
        FBY__TRY(fby__spares_open(&e->read_buffers, e->account, l->memory.max_io_bytes, l->memory.max_jobs, err));
    for (uint32_t s = 0; s < l->sources.n; s++)
        FBY__TRY(open_reader(&l->sources.at[s], buffered, err));
    l->schedule.jobs = fby__calloc((size_t)l->sources.n * l->memory.max_jobs, sizeof *l->schedule.jobs);
    if (!l->schedule.jobs)
        return fby__fail_nomem(err, "the loader's jobs");
    for (uint32_t i = 0; i < l->sources.n * l->memory.max_jobs; i++) {
        fby__load_job *j = &l->schedule.jobs[i];
        j->loader = l;
        j->in = &l->sources.at[i / l->memory.max_jobs];
        fby__source_progress *progress = fby__progress_of(j->in);
        j->next_free = progress->free_jobs;
        progress->free_jobs = j;
        FBY__TRY(fby__read_init(&j->read, &j->in->reader, err));
    }
    return FBY_OK;
}

void fby__load_jobs_destroy(fby_loader *l)
{
    for (uint32_t i = 0; l->schedule.jobs && i < l->sources.n * l->memory.max_jobs; i++)
        fby__read_fini(&l->schedule.jobs[i].read);
    fby__free(l->schedule.jobs);
    for (uint32_t s = 0; s < l->sources.n; s++)
        fby__reader_close(&l->sources.at[s].reader);
    fby__spares_close(&l->engine.read_buffers);
}

static void start(fby__load_job *job, int worker)
{
    job->read.block = fby__block_in(job->in, job->entry);
    job->read.lo = job->entry->lo;
    job->read.hi = job->entry->hi;
    job->read.panels = job->entry->data.panels;
    fby__read_begin(&job->read, worker);
}

void fby__load_start(fby__task *task, int worker) { start(FBY__TASK_OWNER(task, fby__load_job, task), worker); }

void fby__load_start_apart(fby__task *task, int opener)
{
    (void)opener; /* has no scratch */
    start(FBY__TASK_OWNER(task, fby__load_job, task), FBY__NO_WORKER);
}

bool fby__load_shrink_locked(fby_loader *l)
{
    bool any = fby__spares_shrink(&l->engine.read_buffers);
    for (uint32_t s = 0; s < l->sources.n; s++)
        for (int i = 0; l->sources.at[s].scratch_of == s && i < l->config.n_threads; i++)
            any |= fby__reader_shrink(&l->sources.at[s].reader, i);
    return any;
}
