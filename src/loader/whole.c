/*
 * Whole blocks: all of a block stays in the cache as it is decoded, and batches are gathered from it. Of blocks of whose rows few are needed, thin.c
 * keeps those alone; direct.c keeps nothing.
 */
#include "loader/internal.h"

#include "base/checked.h"

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

static fby_status reserve(fby__read *read, fby_error *err)
{
    const fby__load_job *job = fby__load_job_of(read);
    FBY__TRY(fby__slab_map(read->reader->account, &job->entry->data.memory, err));
    uint8_t *at = job->entry->data.memory.data;
    for (uint32_t i = 0; i < read->reader->n_panels; i++)
        fby__load_place(job, i, &at);
    return FBY_OK;
}

static const fby__sink WHOLE = {.reserve = reserve, .place = fby__load_grow, .done = fby__load_done, .room = fby__load_room};

static const fby__sink *sink_of(const fby__room *room) { return room->whole ? &fby__thin_sink : &WHOLE; }

const fby__delivery *const fby__preferred_delivery = &fby__direct_delivery;
const fby__delivery fby__gathered_delivery = {.keeps_blocks = true, .room = fby__thin_room, .sink = sink_of};
