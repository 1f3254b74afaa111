/*
 * Pass 2: files of the pack, several at a time, each by one thread from its first row to its last.
 *
 * What a thread takes at a time is the files of one bucket, where buckets hold whole files, so that each is read once; else one file.
 */
#include "base/cancel.h"
#include "base/checked.h"
#include "base/condition.h"
#include "dataset/dataset.h"
#include "pack/pack_impl.h"
#include "pool/pool.h"

typedef struct crew {
    fby__pack *p;
    pthread_t threads[FBY__PACK_WORKERS];
    pthread_mutex_t lock;
    pthread_cond_t ended;
    /* under lock */
    uint64_t next_item, n_items;
    uint32_t running;
    fby_status status;
    fby_error error;
} crew;

/* ---- a file ---- */

static fby_status write_rows(fby__pack *p, fby__pack_source *source, fby__writer *writer, uint64_t file, uint64_t end, fby_error *err)
{
    const uint64_t begin = file * p->rows_per_file, stop = fby__min_u64(begin + p->rows_per_file, p->rows);
    for (uint64_t at = begin, n; at < stop; at += n) {
        fby__pack_rows rows;
        struct ArrowArray batch;
        n = fby__min_u64(p->batch_rows, stop - at);
        FBY__TRY(fby__cancel_check(err));
        if (atomic_load_explicit(&p->stop, memory_order_relaxed))
            return fby__fail(err, FBY_E_CANCELLED, "another thread has failed");
        FBY__TRY(source->rows(source, at, n, end, &rows, err));
        FBY__TRY(fby__arrow_take(&p->schema, rows.batches, rows.n_batches, rows.runs, rows.n_runs, &batch, err));
        fby_status status = fby__writer_batch(writer, &batch, err);
        batch.release(&batch);
        if (status != FBY_OK)
            return status;
        atomic_fetch_add_explicit(&p->done, n, memory_order_relaxed);
    }
    return FBY_OK;
}

static fby_status write_metadata(const fby__pack *p, fby__writer *writer, fby_error *err)
{
    fby__key_value metadata[FBY__PACK_METADATA];
    return fby__writer_end(writer, metadata, fby__pack_metadata(p, metadata), err);
}

/* end: of the rows that this thread wants one after the other. */
static fby_status write_file(fby__pack *p, fby__pack_source *source, uint64_t file, uint64_t end, fby_error *err)
{
    const fby__write_options options = {.codec = p->codec};
    fby__pack_out out = {.fd = -1};
    fby__writer *writer = NULL;
    char *name = fby__pack_file_name(p, file);
    fby_status status = name ? fby__pack_out_open(p->work, name, &out, err) : fby__fail_nomem(err, "a pack");
    if (status == FBY_OK)
        status = fby__writer_begin(p->format, &p->schema, &options, (fby__byte_sink){fby__pack_out_write, &out}, &writer, err);
    if (status == FBY_OK)
        status = write_rows(p, source, writer, file, end, err);
    if (status == FBY_OK)
        status = write_metadata(p, writer, err);
    fby__writer_free(writer);
    if (status == FBY_OK)
        status = fby__pack_out_close(&out, true, err);
    else
        fby__pack_out_drop(&out);
    fby__free(name);
    return status;
}

/* ---- a thread ---- */

static void item_files(const fby__pack *p, uint64_t item, uint64_t *out_first, uint64_t *out_last)
{
    *out_first = item;
    *out_last = item + 1;
    if (p->order.shuffled && p->whole_files && p->rows) {
        *out_first = p->bucket_begin[item] / p->rows_per_file;
        *out_last = fby__div_up_u64(p->bucket_begin[item + 1], p->rows_per_file);
    }
}

static fby_status write_item(fby__pack *p, fby__pack_source *source, uint64_t item, fby_error *err)
{
    uint64_t file, last;
    item_files(p, item, &file, &last);
    for (; file < last; file++) {
        uint64_t run = file;
        while (run < last && !fby__pack_has_file(p, run))
            run++;
        for (; file < run; file++)
            FBY__TRY(write_file(p, source, file, fby__min_u64(run * p->rows_per_file, p->rows), err));
        if (file < last) { /* one that is there */
            const uint64_t begin = file * p->rows_per_file;
            atomic_fetch_add_explicit(&p->done, fby__min_u64(begin + p->rows_per_file, p->rows) - begin, memory_order_relaxed);
        }
    }
    return FBY_OK;
}

static bool take_item(crew *c, uint64_t *out)
{
    (void)pthread_mutex_lock(&c->lock);
    const bool more = c->status == FBY_OK && c->next_item < c->n_items;
    *out = c->next_item;
    c->next_item += more;
    (void)pthread_mutex_unlock(&c->lock);
    return more;
}

static void end_worker(crew *c, fby_status status, const fby_error *error)
{
    (void)pthread_mutex_lock(&c->lock);
    if (status != FBY_OK && c->status == FBY_OK) {
        c->status = status;
        c->error = *error;
        atomic_store_explicit(&c->p->stop, true, memory_order_relaxed);
    }
    c->running--;
    (void)pthread_cond_signal(&c->ended);
    (void)pthread_mutex_unlock(&c->lock);
}

static void *work(void *arg)
{
    crew *c = arg;
    fby__pack *p = c->p;
    fby__pack_source *source = NULL;
    fby_error error = {0};
    uint64_t item;
    fby_status status = p->order.shuffled ? fby__pack_bucket_source(p, &source, &error) : fby__pack_file_source(p, &source, &error);
    while (status == FBY_OK && take_item(c, &item))
        status = write_item(p, source, item, &error);
    if (source)
        source->free(source);
    end_worker(c, status, &error);
    return NULL;
}

/* ---- all ---- */

/* Until the last thread has ended: progress, and the word that it is cancelled. */
static void wait_for_workers(crew *c)
{
    bool ended = false;
    while (!ended) {
        fby_error error;
        (void)pthread_mutex_lock(&c->lock);
        if (c->running)
            (void)fby__cond_wait_until(&c->ended, &c->lock, fby__now_ns() + FBY__CANCEL_SLICE_NS); /* too early is early */
        ended = c->running == 0;
        (void)pthread_mutex_unlock(&c->lock);
        if (fby__pack_tick(c->p, &error) != FBY_OK)
            atomic_store_explicit(&c->p->stop, true, memory_order_relaxed);
    }
}

fby_status fby__pack_write_all(fby__pack *p, fby_error *err)
{
    crew c = {.p = p, .n_items = p->order.shuffled && p->whole_files && p->rows ? p->n_buckets : p->n_files, .status = FBY_OK};
    uint32_t n = 0;
    (void)pthread_mutex_init(&c.lock, NULL);
    (void)fby__cond_init(&c.ended);
    fby_status status = FBY_OK;
    while (n < p->n_workers && status == FBY_OK) {
        (void)pthread_mutex_lock(&c.lock);
        c.running++;
        (void)pthread_mutex_unlock(&c.lock);
        status = fby__thread_start(&c.threads[n], "forebay-pack", (int)n, work, &c, err);
        if (status == FBY_OK)
            n++;
        else
            end_worker(&c, n ? FBY_OK : status, err ? err : &(fby_error){.code = status}); /* one thread is enough */
    }
    wait_for_workers(&c);
    for (uint32_t i = 0; i < n; i++)
        (void)pthread_join(c.threads[i], NULL);
    (void)pthread_cond_destroy(&c.ended);
    (void)pthread_mutex_destroy(&c.lock);
    if (c.status == FBY_OK)
        return fby__cancel_check(err);
    if (err)
        *err = c.error;
    return c.status;
}
