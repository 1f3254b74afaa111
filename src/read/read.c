/* One read from its beginning to its end, and what all reads of a reader share. See read.h. */
#include "read/read_internal.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/clock.h"
#include "trace/events.h"

#include <assert.h>
#include <stdio.h>

#define MIB(x) ((double)(x) / (1u << 20))

static bool room_for_scratch(fby__allowance *allowance, size_t bytes);
static void settle(const fby__reader *r, int worker);

/* ---- readers ---- */

fby_status fby__reader_open(fby__reader *r, fby_error *err)
{
    r->max_segments = r->max_segments ? r->max_segments : 1;
    r->shape = r->shape ? r->shape : &fby__read_panels;
    r->workers = r->shares_workers_of ? r->shares_workers_of->workers : fby__calloc((size_t)r->n_workers, sizeof *r->workers);
    if (!r->workers)
        return fby__fail_nomem(err, "a reader");
    for (int i = 0; !r->shares_workers_of && i < r->n_workers; i++) {
        fby__read_worker *w = &r->workers[i];
        fby__account_allowance_init(&w->own, r->account, FBY__READ_STEP_BYTES);
        w->own.charged_bytes = w->own.allowance.left = r->reserved_bytes;
        if (r->asks_sink)
            w->own.allowance.more = room_for_scratch;
    }
    r->is_open = true;
    return FBY_OK;
}

bool fby__reader_shrink(fby__reader *r, int worker)
{
    fby__read_worker *w = &r->workers[worker];
    const size_t beyond = w->own.charged_bytes - r->reserved_bytes;
    fby__scratch_fini(&w->scratch);
    fby__account_discharge(r->account, beyond);
    w->own.charged_bytes = w->own.allowance.left = r->reserved_bytes;
    return beyond > 0;
}

void fby__reader_close(fby__reader *r)
{
    if (!r->is_open)
        return;
    for (int i = 0; !r->shares_workers_of && i < r->n_workers; i++)
        (void)fby__reader_shrink(r, i); /* whether it gave any back */
    if (!r->shares_workers_of)
        fby__free(r->workers);
    *r = (fby__reader){0};
}

/* ---- reads ---- */

static size_t decode_columns(const fby__reader *r)
{
    size_t n = 0;
    for (uint32_t i = 0; i < r->n_panels; i++)
        n += r->panels[i].layout.n_columns;
    return n;
}

size_t fby__read_memory_bytes(const fby__reader *r)
{
    const fby__read *read = NULL;
    const fby__read_shape *shape = r->shape ? r->shape : &fby__read_panels;
    const size_t segments = r->max_segments ? r->max_segments : 1;
    return sizeof *read + segments * (sizeof *read->segments + sizeof *read->chunks + decode_columns(r) * sizeof *read->decode) +
           r->n_columns * (sizeof *read->origins + sizeof *read->source_of) + r->n_panels * sizeof *read->in_place +
           shape->most_tasks(r) * sizeof *read->tasks;
}

fby_status fby__read_init(fby__read *read, fby__reader *r, fby_error *err)
{
    const size_t segments = r->max_segments, n_decode = decode_columns(r);
    *read = (fby__read){.reader = r, .error = {.file_offset = -1}};
    pthread_mutex_init(&read->lock, NULL);
    read->segments = fby__calloc(segments, sizeof *read->segments);
    read->chunks = fby__calloc(segments, sizeof *read->chunks);
    read->origins = fby__calloc(r->n_columns, sizeof *read->origins);
    read->source_of = fby__calloc(r->n_columns, sizeof *read->source_of);
    read->decode = fby__calloc(segments * n_decode, sizeof *read->decode);
    read->in_place = fby__calloc(r->n_panels, sizeof *read->in_place);
    read->tasks = fby__calloc(r->shape->most_tasks(r), sizeof *read->tasks);
    if (read->segments && read->chunks && read->origins && read->source_of && read->decode && read->in_place && read->tasks)
        return FBY_OK;
    return fby__fail_nomem(err, "the reads of blocks");
}

void fby__read_fini(fby__read *read)
{
    if (!read->reader)
        return;
    for (uint32_t s = 0; read->chunks && s < read->reader->max_segments; s++)
        fby__range_list_fini(&read->chunks[s]);
    fby__free(read->segments);
    fby__free(read->sources);
    fby__free(read->origins);
    fby__free(read->source_of);
    fby__free(read->chunks);
    fby__free((void *)read->order);
    fby__free(read->decode);
    fby__free(read->requests);
    fby__free(read->tasks);
    fby__free(read->in_place);
    pthread_mutex_destroy(&read->lock);
    *read = (fby__read){0};
}

const fby__file_column *fby__read_origin(const fby__read *read, uint32_t column) { return &read->origins[column]; }

/* A clock that stands still where nobody looks at it. */
static uint64_t now_ns(const fby__reader *r) { return r->trace ? fby__now_ns() : 0; }

/* ---- segments ---- */

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

/* ---- the end ---- */

/* With the block, so that the two counts can be compared while other reads are under way. */
static void count_bytes(fby__read *read)
{
    const fby__reader *r = read->reader;
    if (r->trace)
        fby__trace_count(r->trace, FBY__COUNT_BYTES_READ, read->bytes);
    if (r->bytes_read)
        atomic_fetch_add_explicit(r->bytes_read, read->bytes, memory_order_relaxed);
    read->bytes = 0;
}

static void finish(fby__read *read, int worker)
{
    const bool failed = atomic_load_explicit(&read->failed, memory_order_relaxed) != FBY__READ_GOES_ON; /* ordered by `pending` */
    for (uint32_t s = 0; s < read->reader->max_segments; s++)
        fby__range_list_clear(&read->chunks[s]);
    fby__file_unref(read->file);
    fby__table_unref(read->table);
    read->file = NULL;
    read->table = NULL;
    fby__fetch_give_back(read);
    const int first = read->reader->n_helpers ? 0 : worker, last = read->reader->n_helpers ? read->reader->n_workers - 1 : worker;
    for (int i = first; !read->reader->asks_sink && i <= last; i++) /* ordered by `pending` */
        settle(read->reader, i);
    count_bytes(read);
    const fby_error error = read->error; /* done() may begin the read again, or free it */
    read->sink->done(read, failed ? &error : NULL);
}

/* The error reported is that of the first task in the order of columns; one that more room does not help comes before one of room. */
static void fail(fby__read *read, uint32_t task, const fby_error *error, bool lacks_room)
{
    pthread_mutex_lock(&read->lock);
    const uint32_t before = atomic_load_explicit(&read->failed, memory_order_relaxed),
                   now = lacks_room ? FBY__READ_LACKS_ROOM : FBY__READ_STOPS;
    if (now > before || (now == before && task < read->failed_task)) {
        read->failed_task = task;
        read->error = *error;
        read->lacks_room = lacks_room;
        atomic_store_explicit(&read->failed, now, memory_order_relaxed);
    }
    pthread_mutex_unlock(&read->lock);
}

/* The owner was stopped, or the call cancelled: what is not yet read or decoded is not needed, and whoever stops it is waiting. */
static bool given_up(fby__read *read)
{
    const fby__reader *r = read->reader;
    if (!(r->stop && atomic_load_explicit(r->stop, memory_order_relaxed)) && !fby__cancelled())
        return false;
    fby_error error = {.file_offset = -1};
    (void)fby__fail(&error, FBY_E_CANCELLED, "reading was stopped");
    fail(read, 0, &error, false);
    return true;
}

/* ---- decoding ---- */

fby_status fby__read_refuse(const fby__reader *r, uint32_t number, const char *column, bool and_others, uint64_t bytes, uint64_t held,
                            uint64_t later, fby_error *err)
{
    const char *groups = fby__dataset_groups_text(r->ds);
    char text[FBY__BLOCK_TEXT_BYTES], smaller[40] = "", columns[200] = "its columns need";
    fby__account_stats now;
    fby__account_stats_of(r->account, &now);
    held = fby__min_u64(held, now.charged_bytes);
    const uint64_t least = fby__max_u64(now.charged_bytes - held + bytes + later, now.limit_bytes);
    const uint64_t would_do = r->enough ? r->enough(r, least) : fby__account_enough(least);
    fby__dataset_block_text(r->ds, number, text);
    if (groups)
        (void)snprintf(smaller, sizeof smaller, ", or write smaller %s", groups);
    if (column)
        (void)snprintf(columns, sizeof columns, "column '%s' %s", column, and_others ? "and those beside it need" : "needs");
    return fby__fail(err, FBY_E_BUDGET,
                     "%s: %s at least %llu bytes (%.1f MiB) at once, which the memory budget of %llu bytes (%.1f MiB) has no "
                     "room for beside the %.1f MiB that are taken: raise memory to %llu bytes (%.1f MiB), or read fewer columns%s",
                     text, columns, (unsigned long long)bytes, MIB(bytes), (unsigned long long)now.limit_bytes, MIB(now.limit_bytes),
                     MIB(now.charged_bytes - held), (unsigned long long)would_do, MIB(would_do), smaller);
}

/* An allowance's `more`. */
static bool room_for_scratch(fby__allowance *allowance, size_t bytes)
{
    fby__read_worker *w = FBY__TASK_OWNER(allowance, fby__read_worker, own.allowance);
    const size_t lacks = bytes - allowance->left;
    (void)fby__alloc_within(NULL); /* what the sink allocates is not of it */
    const bool fits = w->read->sink->room(w->read, lacks);
    (void)fby__alloc_within(allowance);
    if (fits) {
        w->own.charged_bytes += lacks;
        allowance->left += lacks;
    } else {
        w->own.lacked_bytes = lacks;
    }
    return fits;
}

/* What decoding allocated is its owner's now, all but the scratch. */
static void settle(const fby__reader *r, int worker)
{
    fby__read_worker *w = &r->workers[worker];
    const size_t scratch = fby__scratch_bytes(&w->scratch),
                 keeps = fby__max_u64(scratch + (r->asks_sink ? 0 : FBY__READ_STEP_BYTES), r->reserved_bytes);
    if (w->own.charged_bytes > keeps) {
        fby__account_discharge(r->account, w->own.charged_bytes - keeps);
        w->own.charged_bytes = keeps;
    }
    w->own.allowance.left = w->own.charged_bytes - fby__min_u64(w->own.charged_bytes, scratch);
}

/*
 * What is decoded stays until the read ends, but for scratch: where that is charged to the account, the tasks behind this one need room as well,
 * by all that is known as much each.
 */
static uint64_t rest_bytes(const fby__read_task *task, uint64_t task_bytes)
{
    const fby__read *read = task->read;
    return read->reader->asks_sink ? 0 : (uint64_t)(read->n_tasks - 1 - (uint32_t)(task - read->tasks)) * task_bytes;
}

static fby_status decode_within(fby__read_task *task, fby__read_worker *w, fby_error *err)
{
    const fby__reader *r = task->read->reader;
    const size_t used = w->own.charged_bytes - fby__min_u64(w->own.charged_bytes, w->own.allowance.left);
    w->lacks_room = false;
    w->read = task->read;
    w->own.lacked_bytes = 0;
    w->own.allowance.tight = task->read->by_itself;
    fby__allowance *before = fby__alloc_within(&w->own.allowance);
    fby_status status = r->shape->decode(task, w, err);
    (void)fby__alloc_within(before);
    if (status == FBY_E_NOMEM && w->own.lacked_bytes) {
        const uint64_t needs = w->own.charged_bytes + w->own.lacked_bytes, rest = rest_bytes(task, needs - fby__min_u64(needs, used));
        w->lacks_room = true;
        status = fby__read_refuse(r, task->read->block, r->shape->name(task), false, needs, w->own.charged_bytes, rest, err);
    }
    return status;
}

static void decode_one(fby__read_task *task, int worker)
{
    fby__read *read = task->read;
    fby__reader *r = read->reader;
    fby__read_worker *w = &r->workers[worker];
    if (read->by_itself)
        (void)fby__reader_shrink(r, worker); /* whether it gave any back */
    uint64_t began = now_ns(r), decompress = w->scratch.decompress_ns, bytes = w->scratch.decompressed_bytes;
    fby_error err = {.file_offset = -1};
    if (atomic_load_explicit(&read->failed, memory_order_relaxed) != FBY__READ_STOPS && !given_up(read) &&
        decode_within(task, w, &err) != FBY_OK)
        fail(read, (uint32_t)(task - read->tasks), &err, w->lacks_room);
    if (r->asks_sink)
        settle(r, worker);
    if (r->trace) {
        decompress = w->scratch.decompress_ns - decompress;
        fby__trace_stage(r->trace, FBY__STAGE_DECOMPRESS, decompress);
        fby__trace_stage(r->trace, FBY__STAGE_DECODE, now_ns(r) - began - decompress);
        fby__trace_count(r->trace, FBY__COUNT_BYTES_DECOMPRESSED, w->scratch.decompressed_bytes - bytes);
    }
    if (r->trace && fby__events_are_on())
        fby__event_add(&(fby__event){.name = "decode",
                                     .what = "block",
                                     .begin_ns = began,
                                     .end_ns = fby__now_ns(),
                                     .number = read->block,
                                     .text = r->shape->name(task)});
    if (read->by_itself)
        (void)fby__reader_shrink(r, worker);
    if (atomic_fetch_sub_explicit(&read->pending, 1, memory_order_acq_rel) == 1)
        finish(read, worker);
}

/* The next task that nobody has begun, in order; false when there is none. */
static bool decode_next(fby__read *read, int worker)
{
    const uint32_t i = atomic_fetch_add_explicit(&read->next_task, 1, memory_order_relaxed);
    if (i >= read->n_tasks)
        return false;
    decode_one(&read->tasks[i], worker);
    return true;
}

static void decode_task(fby__task *task, int worker)
{
    fby__read *read = FBY__TASK_OWNER(task, fby__read_task, task)->read;
    if (read->reader->n_helpers) /* the read outlives the pool */
        while (decode_next(read, worker))
            ;
    else
        (void)decode_next(read, worker);
}

static void decode_all_task(fby__task *task, int worker);

/* All bytes are there. On a thread of the pool, or, without one, the thread that began. */
static void decode(fby__read *read, int worker)
{
    if (worker == FBY__NO_WORKER) {
        read->task = (fby__task){.run = decode_all_task, .deadline = read->deadline};
        fby__pool_submit(read->reader->pool, &read->task);
        return;
    }
    const fby__reader *r = read->reader;
    const uint32_t n = read->n_tasks = r->shape->cut(read);
    if (n == 0) { /* outputs that need no column, or only rows that are as stored */
        finish(read, worker);
        return;
    }
    const bool here = !r->pool || r->n_helpers || read->by_itself;
    const uint32_t n_tasks = !r->pool || read->by_itself ? 0 : r->n_helpers ? r->n_helpers : n;
    atomic_store_explicit(&read->pending, n, memory_order_relaxed); /* published by the pool's lock */
    atomic_store_explicit(&read->next_task, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < n_tasks; i++) { /* the last one may end the read, and be the last to touch it */
        read->tasks[i].task = (fby__task){.run = decode_task, .deadline = read->deadline};
        fby__pool_submit(r->pool, &read->tasks[i].task);
    }
    for (uint32_t i = 0; here && i < n && decode_next(read, worker); i++)
        ;
}

static void decode_all_task(fby__task *task, int worker) { decode(FBY__TASK_OWNER(task, fby__read, task), worker); }

/* ---- the beginning ---- */

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
    read->n_sources = 0;
    read->n_segments = 1;
    read->segments[0] = (fby__read_segment){block->group, block->row_begin + read->lo, block->row_begin + read->hi, 0};
    for (uint32_t i = 0; i < r->n_panels; i++)
        read->in_place[i] = UINT32_MAX;
    FBY__TRY(read->sink->reserve(read, err));
    FBY__TRY(r->shape->choose(read, err));
    if (read->n_sources == 0)
        return FBY_OK;
    FBY__TRY(fby__read_open_table(read, err));
    FBY__TRY(fby__dataset_open_file(r->ds, block->file, &read->file, err));
    FBY__TRY(locate(read, block, err));
    return read->file ? fby__fetch_plan(read, out_n_requests, err) : FBY_OK;
}

/* The engine is done: go on with what it gave. */
static void go_on(fby__read *read, int worker)
{
    if (read->batch.error.code == FBY_OK) {
        fby__fetch_mapped(read);
        decode(read, worker);
        return;
    }
    fail(read, 0, &read->batch.error, false);
    finish(read, worker);
}

static void fetched_task(fby__task *task, int worker) { go_on(FBY__TASK_OWNER(task, fby__read, task), worker); }

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
    read->task = (fby__task){.run = fetched_task, .deadline = read->deadline};
    atomic_store_explicit(&read->fetched, 0, memory_order_relaxed); /* published by the engine's lock */
    FBY__TRY(fby__fetch_submit(read, n_requests, err));
    note_wait(read->reader, !atomic_load_explicit(&read->fetched, memory_order_relaxed));
    if (atomic_exchange_explicit(&read->fetched, 1, memory_order_acq_rel) == 1)
        go_on(read, worker);
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
    if (given_up(read)) {
        finish(read, worker);
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
        decode(read, worker);
        return;
    }
    fail(read, 0, &err, read->lacks_room);
    finish(read, worker);
}
