/*
 * What of a block is read, and to where: the ranges that were located become the requests of one I/O batch, whose end starts the decoding.
 *
 *   rows as stored     straight into the panel that wants those very bytes: nothing is copied and nothing decoded
 *   all other ranges   merged where they are close, into one of the loader's read buffers; the engine that maps files takes them one by one
 */
#include "loader/load_internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <stdlib.h>

/* ---- rows that are read to where they belong ---- */

/* How many panels, and which, have a column that is filled from source i. */
static uint32_t users_of(const fby__load_job *job, uint32_t source, uint32_t *out_panel)
{
    const fby_loader *l = job->loader;
    uint32_t n = 0;
    *out_panel = 0;
    for (uint32_t i = 0; i < l->outputs.n_panels; i++)
        for (uint32_t k = 0; k < l->outputs.panels[i].layout.n_columns; k++)
            if (job->source_of[l->outputs.panels[i].column[k]] == source) {
                *out_panel = i;
                n++;
            }
    return n;
}

/* Does the panel want exactly the bytes that are stored? Then nothing is copied and nothing decoded. */
static bool reads_in_place(const fby__load_job *job, uint32_t source, uint32_t *out_panel)
{
    const fby_loader *l = job->loader;
    const fby__leaf_source *s = &job->sources[source];
    if (job->n_segments > 1 || !s->rows_as_stored || s->range[0].n || s->n_pieces || users_of(job, source, out_panel) != 1)
        return false;
    const fby__panel_layout *layout = &l->outputs.panels[*out_panel].layout;
    const fby__leaf *leaf = &job->table->schema->leaves[s->leaf];
    uint64_t bytes = (job->entry->hi - job->entry->lo) * job->entry->panels[*out_panel].row_bytes;
    return layout->kind == FBY__PANEL_DENSE && layout->n_columns == 1 && !layout->want_valid && !l->outputs.panels[*out_panel].program &&
           job->table->schema->fields[leaf->field].dtype == layout->dtype && s->range[1].n == bytes;
}

/* ---- ranges to reads ---- */

static int by_offset(const void *a, const void *b)
{
    const fby__range *x = *(fby__range *const *)a, *y = *(fby__range *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static fby_status add_range(fby__load_job *job, fby__range *range, size_t *n, fby_error *err)
{
    if (range->n == 0)
        return FBY_OK;
    if (fby__grow((void **)&job->order, &job->cap_ranges, *n + 1, sizeof *job->order) != 0)
        return fby__fail_nomem(err, "the ranges of a block");
    job->order[(*n)++] = range;
    return FBY_OK;
}

static fby_status add_request(fby__load_job *job, size_t *n, uint64_t offset, size_t bytes, uint8_t *dst, fby_error *err)
{
    if (fby__grow((void **)&job->requests, &job->cap_requests, *n + 1, sizeof *job->requests) != 0)
        return fby__fail_nomem(err, "the reads of a block");
    job->requests[(*n)++] = (fby__io_request){.file = job->file, .offset = offset, .n = bytes, .dst = dst};
    return FBY_OK;
}

/*
 * Ranges → requests: neighbours, and those with a small gap between them, become one read. The engine that maps files has
 * nothing to gain from that and gets them one by one: request i holds range order[i].
 */
fby_status fby__load_requests(fby__load_job *job, size_t *out_n, fby_error *err)
{
    fby_loader *l = job->loader;
    bool mapped = fby__io_kind_of(l->engine.io) == FBY__IO_MMAP;
    size_t n = 0, n_requests = 0, n_merged, total = 0, in_place = 0;
    uint32_t panel;
    for (uint32_t i = 0; i < job->n_segments * job->n_sources; i++) {
        fby__leaf_source *s = &job->sources[i];
        if (reads_in_place(job, i, &panel)) {
            job->in_place[panel] = i;
            if (!mapped) { /* else as any other range: the panel then lies in the map */
                FBY__TRY(add_request(job, &n_requests, s->range[1].offset, s->range[1].n, job->entry->panels[panel].data, err));
                in_place += s->range[1].n;
                continue;
            }
        }
        for (size_t k = 0; k < 2 + s->n_pieces; k++)
            FBY__TRY(add_range(job, fby__source_range(s, k), &n, err));
    }
    if (n > 1)
        qsort((void *)job->order, n, sizeof *job->order, by_offset);
    n_merged = n_requests; /* the merged ones follow those in place */
    for (size_t i = 0; i < n; i++) {
        uint64_t offset = job->order[i]->offset, end = offset + job->order[i]->n;
        fby__io_request *last = n_requests > n_merged ? &job->requests[n_requests - 1] : NULL;
        if (last && !mapped && offset <= last->offset + last->n + FBY__GAP_BYTES) {
            if (end > last->offset + last->n) {
                total += (size_t)(end - (last->offset + last->n));
                last->n = (size_t)(end - last->offset);
            }
            continue;
        }
        FBY__TRY(add_request(job, &n_requests, offset, (size_t)(end - offset), NULL, err));
        total += (size_t)(end - offset);
    }
    fby__trace_count(&l->engine.trace, FBY__COUNT_BYTES_READ, total + in_place);
    fby__trace_count(&l->engine.trace, FBY__COUNT_READS, n_requests);
    *out_n = n_requests;
    if (mapped)
        return FBY_OK;
    if (total > 0)
        FBY__TRY(fby__buffers_take(l, &l->schedule.read_buffers, total, &job->io, err));
    uint8_t *at = job->io.data;
    for (size_t i = n_merged; i < n_requests; i++) {
        job->requests[i].dst = at;
        at += job->requests[i].n;
    }
    for (size_t i = 0, r = n_merged; i < n; i++) {
        fby__range *range = job->order[i];
        while (range->offset >= job->requests[r].offset + job->requests[r].n)
            r++;
        range->data = job->requests[r].dst + (range->offset - job->requests[r].offset);
    }
    return FBY_OK;
}

/* ---- what was read ---- */

/* Ranges, and panels whose rows are as stored, point into the map. Such a panel is only ever read. */
static void take_mapped(fby__load_job *job)
{
    const fby_loader *l = job->loader;
    for (size_t i = 0; i < job->batch.n_requests; i++)
        job->order[i]->data = job->batch.requests[i].mapped;
    for (uint32_t i = 0; i < l->outputs.n_panels; i++) {
        if (job->in_place[i] == UINT32_MAX)
            continue;
        job->entry->panels[i].data = (uint8_t *)(uintptr_t)job->sources[job->in_place[i]].range[1].data;
        if (!job->entry->mapped)
            job->entry->mapped = fby__file_ref(job->file);
    }
}

void fby__load_read_done(fby__io_batch *batch)
{
    fby__load_job *job = batch->user;
    fby_loader *l = job->loader;
    fby__trace_stage(&l->engine.trace, FBY__STAGE_READ, batch->elapsed_ns);
    if (batch->error.code != FBY_OK) {
        fby__load_fail(job, &batch->error);
        job->task = (fby__task){.run = fby__load_finish_task, .deadline = job->deadline};
        fby__pool_submit(l->engine.pool, &job->task);
        return;
    }
    if (fby__io_kind_of(l->engine.io) == FBY__IO_MMAP)
        take_mapped(job);
    fby__load_decode(job);
}
