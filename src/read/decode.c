/* The second half of a read: its bytes are there, and tasks decode them. The first is begin.c. See read.h. */
#include "read/read_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "trace/events.h"

/* A clock that stands still where nobody looks at it. */
static uint64_t now_ns(const fby__reader *r) { return r->trace ? fby__now_ns() : 0; }

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
    if (atomic_load_explicit(&read->failed, memory_order_relaxed) != FBY__READ_STOPS && !fby__read_given_up(read) &&
        decode_within(task, w, &err) != FBY_OK)
        fby__read_fail(read, (uint32_t)(task - read->tasks), &err, w->lacks_room);
    if (r->asks_sink)
        fby__reader_settle(r, worker);
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
        fby__read_finish(read, worker);
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

static void decode_all_task(fby__task *task, int worker) { fby__read_decode(FBY__TASK_OWNER(task, fby__read, task), worker); }

void fby__read_decode(fby__read *read, int worker)
{
    if (worker == FBY__NO_WORKER) {
        read->task = (fby__task){.run = decode_all_task, .deadline = read->deadline};
        fby__pool_submit(read->reader->pool, &read->task);
        return;
    }
    const fby__reader *r = read->reader;
    const uint32_t n = read->n_tasks = r->shape->cut(read);
    if (n == 0) { /* outputs that need no column, or only rows that are as stored */
        fby__read_finish(read, worker);
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

void fby__read_go_on(fby__read *read, int worker)
{
    if (read->batch.error.code == FBY_OK) {
        fby__fetch_mapped(read);
        fby__read_decode(read, worker);
        return;
    }
    fby__read_fail(read, 0, &read->batch.error, false);
    fby__read_finish(read, worker);
}

void fby__read_fetched(fby__task *task, int worker) { fby__read_go_on(FBY__TASK_OWNER(task, fby__read, task), worker); }
