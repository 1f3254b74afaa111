/*
 * Which parts of a block are read, and to where: the ranges that were located become requests, of an engine or of this thread.
 *
 *   rows as stored     straight into the panel that wants those very bytes: nothing is copied and nothing decoded
 *   all other ranges   merged where they are close, into one buffer; the engine that maps files takes them one by one
 */
#include "read/read_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/sort.h"
#include "trace/events.h"

#include <stdlib.h>
#include <string.h>

/* A gap between two ranges up to this is read through: cheaper than a second read, the more so where nothing else is read meanwhile. */
#define ENGINE_GAP_BYTES FBY__READ_GAP_BYTES
#define WAITING_GAP_BYTES ((uint64_t)64 << 10)

static bool is_mapped(const fby__reader *r) { return r->io && fby__io_kind_of(r->io) == FBY__IO_MMAP; }

/* ---- rows that are read to where they belong ---- */

/* How many panels, and which, have a column that is filled from source i. */
static uint32_t users_of(const fby__read *read, size_t source, uint32_t *out_panel)
{
    const fby__reader *r = read->reader;
    uint32_t n = 0;
    *out_panel = 0;
    for (uint32_t i = 0; i < r->n_panels; i++)
        for (uint32_t k = 0; k < r->panels[i].layout.n_columns; k++)
            if (read->source_of[r->panels[i].column[k]] == source) {
                *out_panel = i;
                n++;
            }
    return n;
}

/* Does the panel want exactly the bytes that are stored? Then nothing is copied and nothing decoded. */
static bool reads_in_place(const fby__read *read, size_t source, uint32_t *out_panel)
{
    const fby__leaf_source *s = &read->sources[source];
    if (read->n_segments > 1 || !s->rows_as_stored || s->range[0].n || s->n_chunks || users_of(read, source, out_panel) != 1)
        return false;
    const fby__read_panel *wanted = &read->reader->panels[*out_panel];
    const fby__panel *panel = &read->panels[*out_panel];
    const fby__leaf *leaf = &read->table->schema->leaves[s->leaf];
    return panel->layout && wanted->layout.kind == FBY__PANEL_DENSE && wanted->layout.n_columns == 1 && !wanted->layout.want_valid &&
           !wanted->program && read->table->schema->fields[leaf->field].dtype == wanted->layout.dtype &&
           s->range[1].n == (read->hi - read->lo) * panel->row_bytes;
}

/* ---- ranges to requests ---- */

static int by_offset(const void *a, const void *b)
{
    const fby__range *x = *(fby__range *const *)a, *y = *(fby__range *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static fby_status check_range(const fby__read *read, const fby__range *range, fby_error *err)
{
    const uint64_t size = fby__file_stamp_of(read->file)->size_bytes;
    uint64_t end;
    if (fby__add_u64_checked(range->offset, range->n, &end) && end <= size)
        return FBY_OK;
    return fby__fail_at(err, FBY_E_FORMAT, range->offset, "'%s': column data goes beyond the end of the file (%llu bytes)",
                        fby__file_path(read->file), (unsigned long long)size);
}

static fby_status add_range(fby__read *read, fby__range *range, size_t *n, fby_error *err)
{
    if (range->n == 0)
        return FBY_OK;
    FBY__TRY(check_range(read, range, err));
    if (fby__grow((void **)&read->order, &read->cap_ranges, *n + 1, sizeof *read->order) != 0)
        return fby__fail_nomem(err, "the ranges of a block");
    read->order[(*n)++] = range;
    return FBY_OK;
}

static fby_status add_request(fby__read *read, size_t *n, uint64_t offset, size_t bytes, uint8_t *dst, fby_error *err)
{
    if (fby__grow((void **)&read->requests, &read->cap_requests, *n + 1, sizeof *read->requests) != 0)
        return fby__fail_nomem(err, "the reads of a block");
    read->requests[(*n)++] = (fby__io_request){.file = read->file, .offset = offset, .n = bytes, .dst = dst};
    return FBY_OK;
}

/* The ranges that are not read in place → read->order, by offset; the others → requests. */
static fby_status list_ranges(fby__read *read, bool mapped, size_t *out_ranges, size_t *out_requests, fby_error *err)
{
    size_t n = 0, n_requests = 0;
    uint32_t panel;
    for (size_t i = 0; i < read->n_segments * read->n_sources; i++) {
        fby__leaf_source *s = &read->sources[i];
        if (reads_in_place(read, i, &panel)) {
            read->in_place[panel] = (uint32_t)i;
            if (!mapped) { /* else as any other range: the panel then lies in the map */
                FBY__TRY(check_range(read, &s->range[1], err));
                FBY__TRY(add_request(read, &n_requests, s->range[1].offset, s->range[1].n, read->panels[panel].data, err));
                continue;
            }
        }
        for (size_t k = 0; k < 2 + s->n_chunks; k++)
            FBY__TRY(add_range(read, fby__source_range(s, k), &n, err));
    }
    FBY__TRY(fby__sort((void *)read->order, n, sizeof *read->order, by_offset, err));
    *out_ranges = n;
    *out_requests = n_requests;
    return FBY_OK;
}

static bool room_for_buffer(void *user, size_t bytes)
{
    fby__read *read = user;
    return read->sink->room(read, bytes);
}

static fby_status get_buffer(fby__read *read, size_t bytes, fby_error *err)
{
    const fby__reader *r = read->reader;
    if (r->buffers) {
        const fby__grant grant = fby__spares_get(r->buffers, bytes, room_for_buffer, read, &read->io, err);
        if (grant != FBY__NO_ROOM)
            return grant == FBY__GRANTED ? FBY_OK : err->code;
        read->lacks_room = true;
    } else {
        read->lacks_room = !fby__account_try_charge(r->account, bytes);
    }
    if (read->lacks_room)
        return fby__read_refuse(r, read->block, NULL, true, bytes, 0, 0, err);
    read->io = (fby__slab){.data = fby__malloc(bytes), .bytes = bytes};
    return read->io.data ? FBY_OK : fby__fail_nomem(err, "column data");
}

/*
 * Neighbours, and those with a small gap between them, become one request. The engine that maps files has nothing to gain from that
 * and gets them one by one: request i holds range order[i].
 */
fby_status fby__fetch_plan(fby__read *read, size_t *out_n, fby_error *err)
{
    const fby__reader *r = read->reader;
    const bool mapped = is_mapped(r);
    const uint64_t gap = r->io ? ENGINE_GAP_BYTES : WAITING_GAP_BYTES;
    size_t n, n_requests, total = 0, all = 0;
    FBY__TRY(list_ranges(read, mapped, &n, &n_requests, err));
    const size_t n_merged = n_requests; /* the merged ones follow those in place */
    for (size_t i = 0; i < n; i++) {
        uint64_t offset = read->order[i]->offset, end = offset + read->order[i]->n;
        fby__io_request *last = n_requests > n_merged ? &read->requests[n_requests - 1] : NULL;
        if (last && !mapped && offset <= last->offset + last->n + gap)
            last->n = (size_t)(fby__max_u64(end, last->offset + last->n) - last->offset);
        else
            FBY__TRY(add_request(read, &n_requests, offset, (size_t)(end - offset), NULL, err));
    }
    for (size_t i = 0; i < n_requests; i++) {
        all += read->requests[i].n;
        total += i >= n_merged ? read->requests[i].n : 0;
    }
    const bool needs_buffer = !mapped && total > 0;
    if (needs_buffer)
        FBY__TRY(get_buffer(read, total, err));
    read->bytes = all;
    *out_n = n_requests;
    if (!needs_buffer)
        return FBY_OK;
    uint8_t *at = read->io.data;
    for (size_t i = n_merged; i < n_requests; i++) {
        read->requests[i].dst = at;
        at += read->requests[i].n;
    }
    for (size_t i = 0, k = n_merged; i < n; i++) {
        fby__range *range = read->order[i];
        while (range->offset >= read->requests[k].offset + read->requests[k].n)
            k++;
        range->data = read->requests[k].dst + (range->offset - read->requests[k].offset);
    }
    return FBY_OK;
}

/* ---- fetching ---- */

fby_status fby__fetch_now(fby__read *read, size_t n_requests, fby_error *err)
{
    for (size_t i = 0; i < n_requests; i++) {
        const fby__io_request *q = &read->requests[i];
        FBY__TRY(fby__file_read(q->file, q->offset, q->dst, q->n, err));
    }
    return FBY_OK;
}

static void add_event(const fby__read *read, uint64_t elapsed_ns)
{
    const uint64_t now = fby__now_ns();
    const char *path = read->file ? fby__file_path(read->file) : "", *slash = strrchr(path, '/');
    fby__event_add(&(fby__event){.kind = FBY__EVENT_OVERLAP,
                                 .name = "read",
                                 .what = "block",
                                 .begin_ns = now - elapsed_ns,
                                 .end_ns = now,
                                 .number = read->block,
                                 .text = slash ? slash + 1 : path});
}

/* On an engine's thread, or the one that submits: a callback that only queues a task. */
static void fetched(fby__io_batch *batch)
{
    fby__read *read = batch->user;
    fby__trace *trace = read->reader->trace;
    if (trace) {
        fby__trace_stage(trace, FBY__STAGE_READ, batch->elapsed_ns);
        fby__busy_end(&trace->reading, fby__now_ns());
    }
    if (fby__events_are_on())
        add_event(read, batch->elapsed_ns);
    if (atomic_exchange_explicit(&read->fetched, 1, memory_order_acq_rel) == 1)
        fby__pool_submit(read->reader->pool, &read->task);
}

fby_status fby__fetch_submit(fby__read *read, size_t n_requests, fby_error *err)
{
    fby__trace *trace = read->reader->trace;
    read->batch = (fby__io_batch){.requests = read->requests, .n_requests = n_requests, .done = fetched, .user = read};
    if (trace)
        fby__busy_begin(&trace->reading, fby__now_ns());
    const fby_status status = fby__io_submit(read->reader->io, &read->batch, true, err);
    if (status != FBY_OK && trace)
        fby__busy_end(&trace->reading, fby__now_ns());
    return status;
}

void fby__fetch_mapped(fby__read *read)
{
    const fby__reader *r = read->reader;
    if (!read->file || !is_mapped(r))
        return;
    for (size_t i = 0; i < read->batch.n_requests; i++)
        read->order[i]->data = read->batch.requests[i].mapped;
    for (uint32_t i = 0; i < r->n_panels; i++) {
        if (read->in_place[i] == UINT32_MAX)
            continue;
        read->panels[i].data = (uint8_t *)(uintptr_t)read->sources[read->in_place[i]].range[1].data;
        if (!read->mapped)
            read->mapped = fby__file_ref(read->file);
    }
}

void fby__fetch_give_back(fby__read *read)
{
    const fby__reader *r = read->reader;
    if (r->buffers) {
        fby__spares_give(r->buffers, &read->io);
        return;
    }
    fby__free(read->io.data);
    fby__account_discharge(r->account, read->io.bytes);
    read->io = (fby__slab){0};
}
