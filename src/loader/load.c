/*
 * One block: find its bytes, read them (load_read.c), decode them into panels, publish.
 *
 *   start (worker) ─► locate ─► submit ─► done (engine) ─► subtasks (workers, in parallel) ─► the last one finishes the job
 */
#include "loader/load_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"

#include <stdio.h>

#include <string.h>

#define SPLIT_BYTES (4u << 20) /* decoded: below it one task decodes a block */
#define SPLIT_ROWS 65536u      /* a row segment is no shorter: a page is decompressed once by each segment it touches */
#define TILE_COLUMNS 16u       /* decoders interleave this many columns at a time */

fby_status fby__load_jobs_create(fby_loader *l, fby_error *err)
{
    l->schedule.jobs = fby__calloc(l->memory.max_jobs, sizeof *l->schedule.jobs);
    if (!l->schedule.jobs)
        return fby__fail_nomem(err, "the loader's jobs");
    if (l->engine.io && fby__io_kind_of(l->engine.io) != FBY__IO_MMAP)
        FBY__TRY(fby__buffers_open(l, l->memory.max_io_bytes, &l->schedule.read_buffers, err));
    for (uint32_t i = 0; i < l->memory.max_jobs; i++) {
        fby__load_job *j = &l->schedule.jobs[i];
        j->loader = l;
        j->next_free = l->schedule.free_jobs;
        l->schedule.free_jobs = j;
        size_t segments = l->memory.max_segments;
        j->segments = fby__calloc(segments, sizeof *j->segments);
        j->sources = fby__calloc(segments * l->outputs.n_columns, sizeof *j->sources);
        j->places = fby__calloc(l->outputs.n_columns, sizeof *j->places);
        j->source_of = fby__calloc(l->outputs.n_columns, sizeof *j->source_of);
        j->pieces = fby__calloc(segments, sizeof *j->pieces);
        j->decode = fby__calloc(segments * l->outputs.n_decode, sizeof *j->decode);
        j->in_place = fby__calloc(l->outputs.n_panels, sizeof *j->in_place);
        j->subtasks = fby__calloc(segments * l->outputs.n_panels + FBY__SPLIT_SUBTASKS, sizeof *j->subtasks);
        if (!j->subtasks || !j->segments || !j->sources || !j->places || !j->source_of || !j->pieces || !j->decode || !j->in_place)
            return fby__fail_nomem(err, "the loader's jobs");
    }
    return FBY_OK;
}

void fby__load_jobs_destroy(fby_loader *l)
{
    for (uint32_t i = 0; l->schedule.jobs && i < l->memory.max_jobs; i++) {
        fby__load_job *j = &l->schedule.jobs[i];
        for (uint32_t s = 0; j->pieces && s < l->memory.max_segments; s++)
            fby__range_list_fini(&j->pieces[s]);
        fby__free(j->segments);
        fby__free(j->sources);
        fby__free(j->places);
        fby__free(j->source_of);
        fby__free(j->pieces);
        fby__free((void *)j->order);
        fby__free(j->decode);
        fby__free(j->requests);
        fby__free(j->in_place);
        fby__free(j->subtasks);
    }
    fby__free(l->schedule.jobs);
    fby__buffers_fini(l, &l->schedule.read_buffers);
}

/* ---- segments ---- */

uint32_t fby__loader_segments(const fby__table *table, const fby__block *block, uint64_t begin, uint64_t end, fby__segment *out,
                              uint32_t cap)
{
    uint64_t row = block->row_begin + begin, left = end - begin, done = 0;
    uint32_t n = 0;
    for (uint32_t g = block->group; left > 0 && g < table->n_groups; g++, row = 0) {
        uint64_t rows = table->groups[g].rows, here = fby__min_u64(rows - fby__min_u64(rows, row), left);
        if (here == 0)
            continue;
        if (n < cap)
            out[n] = (fby__segment){g, row, row + here, done};
        n++;
        done += here;
        left -= here;
    }
    return n;
}

/* ---- the end of a job ---- */

static void finish(fby__load_job *job)
{
    fby_loader *l = job->loader;
    fby__cache_entry *e = job->entry;
    bool failed = atomic_load_explicit(&job->failed, memory_order_relaxed); /* ordered by `pending` */
    fby_error *error = NULL;
    if (!failed && l->memory.direct_window) {
        job->error = (fby_error){.file_offset = -1};
        failed = fby__direct_deliver(job, &job->error) != FBY_OK;
    }
    if (!failed)
        fby__thin_compact(l, e);
    if (failed && (error = fby__malloc(sizeof *error)))
        *error = job->error;
    for (uint32_t s = 0; s < l->memory.max_segments; s++)
        fby__range_list_clear(&job->pieces[s]);
    fby__file_unref(job->file);
    fby__table_unref(job->table);
    job->file = NULL;
    job->table = NULL;
    pthread_mutex_lock(&l->schedule.lock);
    e->state = failed ? FBY__ENTRY_FAILED : FBY__ENTRY_READY;
    e->error = error;
    fby__trace_count(&l->engine.trace, FBY__COUNT_BLOCKS_READ, 1);
    fby__loader_entry_done_locked(l, e);
    fby__buffers_give_locked(&l->schedule.read_buffers, &job->io);
    fby__buffers_give_locked(&l->schedule.direct.stages, &job->stage);
    job->next_free = l->schedule.free_jobs;
    l->schedule.free_jobs = job;
    fby__loader_busy_done_locked(l);
    fby__loader_pump_locked(l);
    fby__schedule_unlock(l);
}

void fby__load_fail(fby__load_job *job, const fby_error *error)
{
    if (atomic_exchange_explicit(&job->failed, 1, memory_order_relaxed) == 0)
        job->error = *error;
}

/* The epoch was stopped: what is not yet read or decoded is not needed, and whoever closes or begins anew is waiting. */
static bool given_up(fby__load_job *job)
{
    if (!atomic_load_explicit(&job->loader->schedule.stop, memory_order_relaxed))
        return false;
    fby_error error = {.file_offset = -1};
    (void)fby__fail(&error, FBY_E_CANCELLED, "the epoch was stopped"); /* the code is what counts: nobody reads it */
    fby__load_fail(job, &error);
    return true;
}

void fby__load_finish_task(fby__task *task, int worker)
{
    (void)worker;
    finish(FBY__TASK_OWNER(task, fby__load_job, task));
}

/* ---- decoding ---- */

/* Columns that are not in the file: a constant of the pattern, or missing. */
static fby_status fill_column(const fby__load_job *job, const fby__subtask *s, uint32_t column, fby_error *err)
{
    const fby_loader *l = job->loader;
    const fby__loader_panel *lp = &l->outputs.panels[s->panel];
    const fby__panel_column *c = &lp->layout.columns[column];
    const fby__file_column *place = &job->places[lp->column[column]];
    fby__panel *p = &job->entry->panels[s->panel];
    const fby__block *block = fby__dataset_block(l->ds, job->entry->block);
    uint64_t first = s->row_begin - s->segment->row_begin + s->segment->panel_row, last = first + (s->row_end - s->row_begin);
    bool present = place->place == FBY__PLACE_CONSTANT;
    if (!present && c->missing == FBY__MISSING_ERROR && lp->layout.kind == FBY__PANEL_DENSE)
        return fby__fail(err, FBY_E_DATA,
                         "%s: column '%s' is not in this file, and its dtype %s has no missing value: give a fill "
                         "value",
                         fby__dataset_file_path(l->ds, block->file), c->path, fby_dtype_name(lp->layout.dtype));
    for (uint64_t r = first; p->valid && r < last; r++)
        p->valid[r * lp->layout.n_columns + column] = present;
    if (lp->layout.kind == FBY__PANEL_DENSE) {
        size_t bytes = fby_dtype_bytes(lp->layout.dtype);
        for (uint64_t r = first; r < last; r++)
            for (uint32_t k = 0; k < c->width; k++)
                memcpy(p->data + r * p->row_bytes + (c->offset + k) * bytes, c->fill.bytes, bytes);
        return FBY_OK;
    }
    p->used = present ? strlen(place->constant) : 0;
    if (lp->layout.kind == FBY__PANEL_RAGGED) {
        memset(p->offsets, 0, (size_t)(p->rows + 1) * sizeof *p->offsets);
        return FBY_OK;
    }
    memcpy(p->data, present ? place->constant : "", (size_t)p->used);
    for (uint64_t r = 0; r < p->rows; r++)
        p->views[r] = (fby__view){0, p->used};
    return FBY_OK;
}

/* What the operations make of a finite value is finite, and the dtype would make infinity of it. */
static fby_status too_large(const fby__load_job *job, const fby__subtask *s, uint64_t row, fby_error *err)
{
    const fby_loader *l = job->loader;
    const fby__block *block = fby__dataset_block(l->ds, job->entry->block);
    const fby__loader_panel *lp = &l->outputs.panels[s->panel];
    char where[40] = "";
    if (row != UINT64_MAX)
        (void)snprintf(where, sizeof where, ", row %llu", (unsigned long long)(block->first_row + row));
    return fby__fail(err, FBY_E_DATA,
                     "'%s', row group %u%s: column '%s'%s: the result of its operations does not fit %s; choose a wider dtype",
                     fby__dataset_file_path(l->ds, block->file), block->group, where, l->outputs.columns[lp->column[s->first_column]].path,
                     s->n_columns > 1 ? " or one beside it" : "", fby_dtype_name(lp->layout.dtype));
}

/* What follows decoding, over what the task has just put into the panel, which is still in the cache: row operations, once it is noted what
 * was missing before them. */
static fby_status compute(const fby__load_job *job, const fby__subtask *s, fby_error *err)
{
    const fby__loader_panel *lp = &job->loader->outputs.panels[s->panel];
    const fby__panel_column *c = &lp->layout.columns[s->first_column];
    fby__panel *p = &job->entry->panels[s->panel];
    const uint64_t first = s->row_begin - s->segment->row_begin + s->segment->panel_row;
    size_t bytes = fby_dtype_bytes(lp->layout.dtype);
    if (lp->layout.marks_nan)
        fby__panel_mark_nan(p, first, s->row_end - s->row_begin, s->first_column, s->n_columns);
    if (!lp->program)
        return FBY_OK;
    if (lp->layout.kind != FBY__PANEL_DENSE) { /* a list column: its values */
        return fby__program_run(lp->program, lp->layout.dtype, p->data, p->used, bytes, 0, 1, 1) < p->used
                   ? too_large(job, s, UINT64_MAX, err)
                   : FBY_OK;
    }
    const uint64_t rows = s->row_end - s->row_begin;
    const uint64_t bad = fby__program_run(lp->program, lp->layout.dtype, p->data + first * p->row_bytes + c->offset * bytes, rows,
                                          p->row_bytes, s->first_column, s->n_columns, c->width);
    return bad < rows ? too_large(job, s, first + bad, err) : FBY_OK;
}

static fby_status decode(const fby__load_job *job, const fby__subtask *s, fby__worker *w, fby_error *err)
{
    const fby_loader *l = job->loader;
    const fby__block *block = fby__dataset_block(l->ds, job->entry->block);
    const fby__loader_panel *lp = &l->outputs.panels[s->panel];
    for (uint32_t c = s->first_column; c < s->first_column + s->n_columns; c++)
        if (job->places[lp->column[c]].place != FBY__PLACE_LEAF)
            FBY__TRY(fill_column(job, s, c, err));
    if (s->n_decode == 0)
        return FBY_OK;
    const char *path = fby__dataset_file_path(l->ds, block->file);
    fby__panel *panel = &job->entry->panels[s->panel], below = *panel;
    if (s->segment->panel_row) { /* dense: the rows of the segment and what follows, as a panel of their own */
        below.rows -= s->segment->panel_row;
        below.data += s->segment->panel_row * panel->row_bytes;
        below.valid = panel->valid ? panel->valid + s->segment->panel_row * lp->layout.n_columns : NULL;
        panel = &below;
    }
    fby__decode request = {.table = job->table,
                           .file_name = path ? path : "(memory)",
                           .group = s->segment->group,
                           .row_begin = s->row_begin,
                           .row_end = s->row_end,
                           .panel_row = s->segment->row_begin,
                           .panel = panel,
                           .columns = s->decode,
                           .n_columns = s->n_decode,
                           .verify_crc = fby__dataset_verify_crc(l->ds),
                           .file = job->file};
    return job->table->ops->decode_panel(&request, &w->scratch, err);
}

/*
 * Strings that expand (DELTA_BYTE_ARRAY stores what differs from the string before) have no bound in the metadata, and a part of a row group
 * may have more than its share: a panel that turns out too small is decoded again into a larger one, beyond its reservation (the report
 * shows it), up to the budget.
 */
static fby_status decode_expanding(const fby__load_job *job, const fby__subtask *s, fby__worker *w, fby_error *err)
{
    fby_loader *l = job->loader;
    const fby__panel_layout *layout = &l->outputs.panels[s->panel].layout;
    fby__panel *p = &job->entry->panels[s->panel];
    fby__slab *overflow = &job->entry->overflow[s->panel];
    for (;;) {
        fby_status status = decode(job, s, w, err);
        if (status == FBY_OK && (l->outputs.panels[s->panel].program || layout->marks_nan))
            status = compute(job, s, err);
        const uint64_t capacity = fby__min_u64(p->capacity * 2 + (64u << 10), l->memory.budget_bytes);
        size_t bytes;
        if (status != FBY_E_BUDGET || capacity <= p->capacity || fby__panel_bytes(layout, p->rows, capacity, &bytes, NULL) != FBY_OK)
            return status;
        fby__slab_free(l->engine.account, overflow);
        FBY__TRY(fby__slab_alloc(l->engine.account, bytes, overflow, err));
        fby__panel_place(layout, p->rows, capacity, overflow->data, p);
    }
}

/* The scratch may have grown: what it holds is charged. */
static void charge_scratch(fby_loader *l, fby__worker *w)
{
    size_t bytes = fby__scratch_bytes(&w->scratch);
    if (bytes > w->charged_bytes) {
        fby__account_charge(l->engine.account, bytes - w->charged_bytes);
        w->charged_bytes = bytes;
    }
}

static void decode_task(fby__task *task, int worker)
{
    fby__subtask *s = FBY__TASK_OWNER(task, fby__subtask, task);
    fby__load_job *job = s->job;
    fby_loader *l = job->loader;
    fby__worker *w = &l->engine.workers[worker];
    uint64_t began = fby__now_ns(), decompress = w->scratch.decompress_ns, bytes = w->scratch.decompressed_bytes;
    fby_error err = {.file_offset = -1};
    if (!atomic_load_explicit(&job->failed, memory_order_relaxed) && !given_up(job) && decode_expanding(job, s, w, &err) != FBY_OK)
        fby__load_fail(job, &err);
    decompress = w->scratch.decompress_ns - decompress;
    charge_scratch(l, w);
    fby__trace_stage(&l->engine.trace, FBY__STAGE_DECOMPRESS, decompress);
    fby__trace_stage(&l->engine.trace, FBY__STAGE_DECODE, fby__now_ns() - began - decompress);
    fby__trace_count(&l->engine.trace, FBY__COUNT_BYTES_DECOMPRESSED, w->scratch.decompressed_bytes - bytes);
    if (atomic_fetch_sub_explicit(&job->pending, 1, memory_order_acq_rel) == 1)
        finish(job);
}

/* The first row of segment g of `segments`, where the format likes to be cut. */
static uint64_t segment_begin(uint64_t begin, uint64_t rows, uint64_t step, uint32_t g, uint32_t segments)
{
    uint64_t row = begin + rows * g / segments;
    return step && g > 0 && g < segments ? fby__max_u64(row / step * step, begin) : row;
}

/*
 * Cut the work of one panel and segment: by groups of columns, then by rows, so that the threads share a large block. Where the format
 * names a step (HDF5: a row of chunks), columns have nothing in common and rows are cut at steps alone.
 */
static void add_subtasks(fby__load_job *job, uint32_t panel, uint32_t segment, fby__decode_column *decode, size_t entry_bytes)
{
    fby_loader *l = job->loader;
    const fby__loader_panel *lp = &l->outputs.panels[panel];
    const fby__segment *seg = &job->segments[segment];
    const fby__leaf_source *sources = job->sources + (size_t)segment * job->n_sources;
    uint64_t begin = seg->row_begin, rows = seg->row_end - seg->row_begin;
    if (lp->layout.kind != FBY__PANEL_DENSE) { /* lists and strings are taken from first rows alone: those are the block's own */
        rows = job->entry->panels[panel].rows;
        if (segment > 0)
            return;
    }
    uint64_t step = job->table ? job->table->groups[seg->group].step_rows : 0;
    uint32_t n = lp->layout.n_columns, group = n, segments = 1, tile = step ? 1 : TILE_COLUMNS;
    uint32_t room = FBY__SPLIT_SUBTASKS + segment * l->outputs.n_panels + panel + 1 - job->n_subtasks; /* every later panel needs one */
    if (lp->layout.kind == FBY__PANEL_DENSE && entry_bytes > SPLIT_BYTES && l->config.n_threads > 1 && room > 1) {
        uint32_t wanted = (uint32_t)l->config.n_threads * 2;
        wanted = wanted < room ? wanted : room;
        uint32_t tiles = (n + tile - 1) / tile, groups = tiles < wanted ? tiles : wanted;
        group = (tiles + groups - 1) / groups * tile;
        groups = (n + group - 1) / group;
        segments = wanted / groups;
        uint64_t most = rows / (step ? step : SPLIT_ROWS);
        segments = segments > most ? (uint32_t)most : segments;
        segments = segments ? segments : 1;
    }
    for (uint32_t c = 0; c < n; c += group) {
        uint32_t cols = n - c < group ? n - c : group, n_decode = 0;
        for (uint32_t k = c; k < c + cols; k++) {
            uint32_t column = lp->column[k];
            if (job->places[column].place == FBY__PLACE_LEAF)
                decode[c + n_decode++] = (fby__decode_column){.source = &sources[job->source_of[column]],
                                                              .column = k,
                                                              .unit_mul = job->places[column].unit_mul,
                                                              .unit_div = job->places[column].unit_div};
        }
        for (uint32_t g = 0; g < segments; g++) {
            uint64_t first = segment_begin(begin, rows, step, g, segments), last = segment_begin(begin, rows, step, g + 1, segments);
            if (first < last)
                job->subtasks[job->n_subtasks++] = (fby__subtask){.job = job,
                                                                  .panel = panel,
                                                                  .first_column = c,
                                                                  .n_columns = cols,
                                                                  .decode = decode + c,
                                                                  .n_decode = n_decode,
                                                                  .segment = seg,
                                                                  .row_begin = first,
                                                                  .row_end = last};
        }
    }
}

static void place_panels(fby__load_job *job)
{
    const fby_loader *l = job->loader;
    fby__cache_entry *e = job->entry;
    const fby__block *block = fby__dataset_block(l->ds, e->block);
    uint64_t all = e->hi - e->lo, own = fby__min_u64(e->hi, block->row_end - block->row_begin) - e->lo;
    uint8_t *stays = l->memory.direct_window ? job->stage.data : e->memory.data, *whole = e->whole.data;
    size_t bytes = 0;
    for (uint32_t i = 0; i < l->outputs.n_panels; i++) {
        const fby__loader_panel *p = &l->outputs.panels[i];
        uint64_t capacity = fby__loader_capacity(l, e->block, p), rows = p->variable == UINT32_MAX ? all : own;
        (void)fby__panel_bytes(&p->layout, rows, capacity, &bytes, NULL); /* checked when the loader was opened */
        uint8_t **at = fby__thin_moves(l, e, i) ? &whole : &stays;
        fby__panel_place(&p->layout, rows, capacity, *at, &e->panels[i]);
        *at += bytes;
        job->in_place[i] = UINT32_MAX;
    }
}

void fby__load_decode(fby__load_job *job)
{
    fby_loader *l = job->loader;
    fby__cache_entry *e = job->entry;
    size_t total = fby__loader_entry_bytes(l, e->block, e->hi - e->lo);
    fby__decode_column *decode = job->decode;
    job->n_subtasks = 0;
    for (uint32_t s = 0; s < job->n_segments; s++)
        for (uint32_t i = 0; i < l->outputs.n_panels; i++) {
            if (job->in_place[i] == UINT32_MAX)
                add_subtasks(job, i, s, decode, total);
            decode += l->outputs.panels[i].layout.n_columns;
        }
    fby__trace_count(&l->engine.trace, FBY__COUNT_BYTES_DECODED, total);
    uint32_t n = job->n_subtasks;
    if (n == 0) { /* outputs that need no column, or only rows that are as stored */
        finish(job);
        return;
    }
    atomic_store_explicit(&job->pending, n, memory_order_relaxed); /* published by the pool's lock */
    for (uint32_t i = 0; i < n; i++) {
        job->subtasks[i].task = (fby__task){.run = decode_task, .deadline = job->deadline};
        fby__pool_submit(l->engine.pool, &job->subtasks[i].task);
    }
}

/* ---- the beginning of a job ---- */

static fby_status prepare(fby__load_job *job, size_t *out_requests, fby_error *err)
{
    fby_loader *l = job->loader;
    const fby__block *block = fby__dataset_block(l->ds, job->entry->block);
    uint64_t lo = job->entry->lo, hi = job->entry->hi;
    *out_requests = 0;
    job->n_sources = 0;
    job->n_segments = 1;
    job->segments[0] = (fby__segment){block->group, block->row_begin + lo, block->row_begin + hi, 0};
    if (l->memory.direct_window)
        FBY__TRY(fby__buffers_take(l, &l->schedule.direct.stages, l->schedule.direct.stages.bytes, &job->stage, err));
    FBY__TRY(fby__slab_map(l->engine.account, &job->entry->whole, err));
    FBY__TRY(fby__slab_map(l->engine.account, &job->entry->kept, err));
    FBY__TRY(fby__slab_map(l->engine.account, &job->entry->memory, err));
    place_panels(job);
    for (uint32_t c = 0; c < l->outputs.n_columns; c++) {
        fby__dataset_file_column(l->ds, block->file, &l->outputs.columns[c], &job->places[c]);
        job->source_of[c] = UINT32_MAX;
        if (job->places[c].place == FBY__PLACE_LEAF) {
            job->source_of[c] = job->n_sources;
            job->sources[job->n_sources++] = (fby__leaf_source){.leaf = job->places[c].leaf};
        }
    }
    if (job->n_sources == 0)
        return FBY_OK;
    FBY__TRY(fby__dataset_table(l->ds, block->file, &job->table, err));
    if (l->engine.io)
        FBY__TRY(fby__dataset_open_file(l->ds, block->file, &job->file, err));
    job->n_segments = fby__loader_segments(job->table, block, lo, hi, job->segments, l->memory.max_segments);
    for (uint32_t s = 0; s < job->n_segments; s++) {
        const fby__segment *seg = &job->segments[s];
        fby__leaf_source *sources = job->sources + (size_t)s * job->n_sources;
        for (uint32_t i = 0; s > 0 && i < job->n_sources; i++)
            sources[i] = (fby__leaf_source){.leaf = job->sources[i].leaf};
        fby__locate_request request = {.table = job->table,
                                       .file = job->file,
                                       .file_key = block->file,
                                       .group = seg->group,
                                       .row_begin = seg->row_begin,
                                       .row_end = seg->row_end,
                                       .sources = sources,
                                       .n = job->n_sources,
                                       .list = &job->pieces[s],
                                       .store = l->engine.store};
        FBY__TRY(fby__locate(&request, err));
    }
    return l->engine.io ? fby__load_requests(job, out_requests, err) : FBY_OK;
}

void fby__load_start(fby__task *task, int worker)
{
    (void)worker;
    fby__load_job *job = FBY__TASK_OWNER(task, fby__load_job, task);
    fby_loader *l = job->loader;
    fby_error err = {.file_offset = -1};
    size_t n_requests;
    uint64_t began = fby__now_ns();
    atomic_store_explicit(&job->failed, 0, memory_order_relaxed);
    if (given_up(job)) {
        finish(job);
        return;
    }
    fby_status status = prepare(job, &n_requests, &err);
    fby__trace_stage(&l->engine.trace, FBY__STAGE_OPEN, fby__now_ns() - began);
    if (status == FBY_OK && n_requests == 0) {
        fby__load_decode(job);
        return;
    }
    if (status == FBY_OK) {
        job->batch = (fby__io_batch){.requests = job->requests, .n_requests = n_requests, .done = fby__load_read_done, .user = job};
        status = fby__io_submit(l->engine.io, &job->batch, true, &err);
    }
    if (status != FBY_OK) {
        fby__load_fail(job, &err);
        finish(job);
    }
}
