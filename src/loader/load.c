/*
 * One block: a job reads it (read/read.h) into the panels of a cache entry, and tells the schedule.
 *
 *   panels     all of a block stays in the cache as it is decoded: PANELS below; where few of its rows are needed: thin.c
 *   delivery   how rows come to their batches: from panels, gathered when all are there (below); or direct.c
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"

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
    fby__shared_drop(l, p);
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
                               .bytes_read = &in->bytes_read,
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

void fby__load_place(const fby__load_job *job, uint32_t panel, uint8_t **at)
{
    const fby__cache_entry *e = job->entry;
    const fby__block *block = fby__dataset_block(job->in->ds, fby__block_in(job->in, e));
    const fby__read_panel *p = &job->in->panels[panel];
    const uint64_t all = e->hi - e->lo, own = fby__min_u64(e->hi, block->row_end - block->row_begin) - e->lo;
    const uint64_t capacity = e->data.panels[panel].capacity, rows = p->variable == UINT32_MAX ? all : own; /* as it was reserved */
    size_t bytes = 0;
    (void)fby__panel_bytes(&p->layout, rows, capacity, &bytes, NULL); /* checked when the loader was opened */
    fby__panel_place(&p->layout, rows, capacity, *at, &e->data.panels[panel]);
    *at += bytes;
}

/* Memory beyond the reservation, if there is any that is not needed before: a slab, or, without `out`, charged. */
static bool reserve_more(fby__load_job *job, size_t bytes, fby__slab *out)
{
    fby_loader *l = job->loader;
    bool fits;
    pthread_mutex_lock(&l->schedule.lock);
    while (!(fits = out ? fby__slab_reserve(l->engine.account, bytes, out) : fby__account_reserve(l->engine.account, bytes)) &&
           fby__cache_evict(l->schedule.cache, job->now))
        ;
    fby__schedule_unlock(l);
    return fits;
}

bool fby__load_room(fby__read *read, size_t bytes) { return reserve_more(fby__load_job_of(read), bytes, NULL); }

bool fby__load_shrink_locked(fby_loader *l)
{
    bool any = fby__spares_shrink(&l->engine.read_buffers);
    for (uint32_t s = 0; s < l->sources.n; s++)
        for (int i = 0; l->sources.at[s].scratch_of == s && i < l->config.n_threads; i++)
            any |= fby__reader_shrink(&l->sources.at[s].reader, i);
    return any;
}

fby__grant fby__load_grow(fby__read *read, uint32_t panel, uint64_t capacity, fby_error *err)
{
    fby__load_job *job = fby__load_job_of(read);
    const fby_loader *l = job->loader;
    const fby__panel_layout *layout = &job->in->panels[panel].layout;
    fby__panel *p = &read->panels[panel];
    fby__slab *overflow = &job->entry->data.overflow[panel];
    size_t bytes;
    if (fby__panel_bytes(layout, p->rows, capacity, &bytes, err) != FBY_OK)
        return FBY__GRANT_FAILED;
    fby__slab_free(l->engine.account, overflow);
    if (reserve_more(job, bytes, overflow)) {
        if (fby__slab_map(l->engine.account, overflow, err) != FBY_OK)
            return FBY__GRANT_FAILED;
        fby__panel_place(layout, p->rows, capacity, overflow->data, p);
        return FBY__GRANTED;
    }
    p->capacity = capacity; /* what it will be reserved with */
    (void)fby__read_refuse(read->reader, read->block, fby__read_panel_name(read->reader, panel), false, bytes, 0, 0,
                           err); /* it is in err */
    return FBY__NO_ROOM;
}

size_t fby__loader_outgrown_bytes(const fby__loader_source *in, uint32_t block, uint32_t panel, uint64_t capacity)
{
    const fby__read_panel *p = &in->panels[panel];
    const uint64_t known = p->variable == UINT32_MAX ? capacity : in->capacity[(size_t)block * in->n_variable + p->variable];
    size_t before = 0, after = 0; /* what fits in memory was checked when the loader was opened, and when the panel was placed */
    (void)fby__panel_bytes(&p->layout, 0, known, &before, NULL);
    (void)fby__panel_bytes(&p->layout, 0, capacity, &after, NULL);
    return after - fby__min_u64(after, before);
}

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
    if (!job->read.lacks_room)
        return false;
    if (learn_locked(job->in, job->entry))
        return true;
    if (job->company == FBY__WITH_NOTHING_ELSE)
        return false;
    if (*company <= job->company) /* else another part of the block, which was loaded beside this one, has moved it on */
        *company = (uint8_t)(job->company + 1);
    return true;
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
    fby__trace_count(&l->engine.trace, FBY__COUNT_BLOCKS_READ, 1);
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

/* ---- panels: blocks stay in the cache, batches are gathered from them ---- */

static fby_status reserve(fby__read *read, fby_error *err)
{
    const fby__load_job *job = fby__load_job_of(read);
    FBY__TRY(fby__slab_map(read->reader->account, &job->entry->data.memory, err));
    uint8_t *at = job->entry->data.memory.data;
    for (uint32_t i = 0; i < read->reader->n_panels; i++)
        fby__load_place(job, i, &at);
    return FBY_OK;
}

static void done(fby__read *read, const fby_error *error) { fby__load_publish(fby__load_job_of(read), error); }

static const fby__sink PANELS = {.reserve = reserve, .place = fby__load_grow, .done = done, .room = fby__load_room};

static const fby__sink *sink_of(const fby__room *room) { return room->whole ? &fby__thin_sink : &PANELS; }

const fby__delivery *const fby__preferred_delivery = &fby__direct_delivery;
const fby__delivery fby__gathered_delivery = {.keeps_blocks = true, .room = fby__thin_room, .sink = sink_of};
