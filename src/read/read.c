/* What the reads of a reader share: threads' scratch, and what the account lacks. What one read consists of, and its end. See read.h. */
#include "read/read_internal.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"

#include <stdio.h>

#define MIB(x) ((double)(x) / (1u << 20))

/* ---- room ---- */

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

void fby__reader_settle(const fby__reader *r, int worker)
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

/* ---- the end ---- */

void fby__read_finish(fby__read *read, int worker)
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
        fby__reader_settle(read->reader, i);
    const fby_error error = read->error; /* done() may begin the read again, or free it */
    read->sink->done(read, failed ? &error : NULL);
}

void fby__read_fail(fby__read *read, uint32_t task, const fby_error *error, bool lacks_room)
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

bool fby__read_given_up(fby__read *read)
{
    const fby__reader *r = read->reader;
    if (!(r->stop && atomic_load_explicit(r->stop, memory_order_relaxed)) && !fby__cancelled())
        return false;
    fby_error error = {.file_offset = -1};
    (void)fby__fail(&error, FBY_E_CANCELLED, "reading was stopped");
    fby__read_fail(read, 0, &error, false);
    return true;
}
