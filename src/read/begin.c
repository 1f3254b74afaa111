/* The first half of a read: where its rows lie, and asking for their bytes. The second is decode.c. See read.h. */
#include "read/read_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"

#include <assert.h>

/* ---- where rows lie ---- */

uint32_t fby__read_segments(const fby__table *table, const fby__block *block, uint64_t begin, uint64_t end, fby__read_segment *out,
                            uint32_t cap)
{
    uint64_t row = block->row_begin + begin, left = end - begin, done = 0;
    uint32_t n = 0;
    for (uint32_t g = block->group; left > 0 && g < table->n_groups; g++, row = 0) {
        uint64_t rows = table->groups[g].rows, here = fby__min_u64(rows - fby__min_u64(rows, row), left);
        if (here == 0)
            continue;
        if (n < cap)
            out[n] = (fby__read_segment){g, row, row + here, done};
        n++;
        done += here;
        left -= here;
    }
    return n;
}

fby_status fby__read_open_table(fby__read *read, fby_error *err)
{
    const fby_dataset *ds = read->reader->ds;
    return read->table ? FBY_OK : fby__dataset_table(ds, fby__dataset_block(ds, read->block)->file, &read->table, err);
}

fby_status fby__read_want(fby__read *read, size_t n, fby__leaf_source **out, fby_error *err)
{
    if (fby__grow((void **)&read->sources, &read->cap_sources, n * read->reader->max_segments, sizeof *read->sources) != 0)
        return fby__fail_nomem(err, "the columns of a block");
    read->n_sources = n;
    *out = read->sources;
    return FBY_OK;
}

static fby_status choose(fby__read *read, fby_error *err)
{
    const fby__reader *r = read->reader;
    const uint32_t file = fby__dataset_block(r->ds, read->block)->file;
    fby__leaf_source *sources = NULL;
    uint32_t n = 0;
    for (uint32_t c = 0; c < r->n_columns; c++) {
        fby__dataset_file_column(r->ds, file, &r->columns[c], &read->origins[c]);
        read->source_of[c] = read->origins[c].origin == FBY__ORIGIN_LEAF ? n++ : UINT32_MAX;
    }
    FBY__TRY(fby__read_want(read, n, &sources, err));
    for (uint32_t c = 0; c < r->n_columns; c++)
        if (read->source_of[c] != UINT32_MAX)
            sources[read->source_of[c]] = (fby__leaf_source){.leaf = read->origins[c].leaf};
    return FBY_OK;
}

static fby_status locate(fby__read *read, const fby__block *block, fby_error *err)
{
    const fby__reader *r = read->reader;
    if (read->lo < read->hi)
        read->n_segments = fby__read_segments(read->table, block, read->lo, read->hi, read->segments, r->max_segments);
    for (uint32_t s = 0; s < read->n_segments; s++) {
        const fby__read_segment *seg = &read->segments[s];
        fby__leaf_source *sources = read->sources + s * read->n_sources;
        for (size_t i = 0; s > 0 && i < read->n_sources; i++)
            sources[i] = (fby__leaf_source){.leaf = read->sources[i].leaf};
        fby__locate_request request = {.table = read->table,
                                       .file = read->file,
                                       .file_key = block->file,
                                       .group = seg->group,
                                       .row_begin = seg->row_begin,
                                       .row_end = seg->row_end,
                                       .sources = sources,
                                       .n = read->n_sources,
                                       .list = &read->chunks[s],
                                       .store = r->store};
        FBY__TRY(fby__locate(&request, err));
    }
    return FBY_OK;
}

static fby_status prepare(fby__read *read, size_t *out_n_requests, fby_error *err)
{
    const fby__reader *r = read->reader;
    const fby__block *block = fby__dataset_block(r->ds, read->block);
    *out_n_requests = 0;
    read->bytes = read->decoded_bytes = 0;
    read->n_sources = 0;
    read->n_segments = 1;
    read->segments[0] = (fby__read_segment){block->group, block->row_begin + read->lo, block->row_begin + read->hi, 0};
    for (uint32_t i = 0; i < r->n_panels; i++)
        read->in_place[i] = UINT32_MAX;
    FBY__TRY(read->sink->reserve(read, err));
    FBY__TRY((r->shape->choose ? r->shape->choose : choose)(read, err));
    if (read->n_sources == 0)
        return FBY_OK;
    FBY__TRY(fby__read_open_table(read, err));
    FBY__TRY(fby__dataset_open_file(r->ds, block->file, &read->file, err));
    FBY__TRY(locate(read, block, err));
    return read->file ? fby__fetch_plan(read, out_n_requests, err) : FBY_OK;
}

/* ---- asking for them ---- */

/* Reads of one file are often answered by what the kernel read ahead for the one before. Two threads that count at once may lose one. */
static void note_wait(fby__reader *r, bool waits)
{
    enum { AFTER = 16 };
    const uint32_t before = atomic_load_explicit(&r->waits, memory_order_relaxed);
    if (waits ? before != AFTER : before != 0)
        atomic_store_explicit(&r->waits, waits ? AFTER : before - 1, memory_order_relaxed);
}

/*
 * The second of two goes on: this thread, which may still be in the engine's hands, or the end of the fetch, which may come at once. So the
 * engine's callback does no more than queue a task.
 */
static fby_status fetch(fby__read *read, size_t n_requests, int worker, fby_error *err)
{
    read->task = (fby__task){.run = fby__read_fetched, .deadline = read->deadline};
    atomic_store_explicit(&read->fetched, 0, memory_order_relaxed); /* published by the engine's lock */
    FBY__TRY(fby__fetch_submit(read, n_requests, err));
    note_wait(read->reader, !atomic_load_explicit(&read->fetched, memory_order_relaxed));
    if (atomic_exchange_explicit(&read->fetched, 1, memory_order_acq_rel) == 1)
        fby__read_go_on(read, worker);
    return FBY_OK;
}

void fby__read_begin(fby__read *read, int worker)
{
    fby__reader *r = read->reader;
    fby_error err = {.file_offset = -1};
    size_t n_requests;
    assert(worker != FBY__NO_WORKER || (r->pool && r->asks_sink));
    atomic_store_explicit(&read->failed, FBY__READ_GOES_ON, memory_order_relaxed);
    read->error = err;
    read->lacks_room = false;
    if (fby__read_given_up(read)) {
        fby__read_finish(read, worker);
        return;
    }
    if (r->trace)
        fby__busy_begin(&r->trace->reading, fby__now_ns());
    fby_status status = prepare(read, &n_requests, &err);
    if (r->trace)
        fby__busy_end(&r->trace->reading, fby__now_ns());
    if (status == FBY_OK && n_requests > 0 && r->io) {
        status = fetch(read, n_requests, worker, &err);
        if (status == FBY_OK)
            return;
    }
    if (status == FBY_OK)
        status = fby__fetch_now(read, n_requests, &err);
    if (status == FBY_OK) {
        fby__read_decode(read, worker);
        return;
    }
    fby__read_fail(read, 0, &err, read->lacks_room);
    fby__read_finish(read, worker);
}
