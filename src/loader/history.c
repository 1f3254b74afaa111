/*
 * What was measured of each epoch: the difference between two reports, taken where it begins and where it ends.
 *
 * An epoch that gave no batch leaves no trace, as when one is begun and then another. One that was left early ends where the next begins.
 */
#include "loader/internal.h"
#include "loader/verdict.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/sized.h"

#include <math.h>

fby_status fby__history_init(fby__history *h, fby_error *err)
{
    h->epochs = fby__calloc(FBY_EPOCHS_KEPT, sizeof *h->epochs);
    if (!h->epochs || pthread_mutex_init(&h->lock, NULL) != 0)
        return fby__fail_nomem(err, "the history of epochs");
    h->is_init = true;
    return FBY_OK;
}

void fby__history_fini(fby__history *h)
{
    if (h->is_init)
        (void)pthread_mutex_destroy(&h->lock); /* nobody holds it */
    fby__free(h->epochs);
}

/* The latest one. `now`: a report of this moment. */
static void fill(const fby__history *h, const fby_report *now, fby_epoch *e)
{
    fby_report r = *now;
    fby__report_subtract(&r, &h->begin);
    fby__judge(&r);
    *e = (fby_epoch){.size = sizeof *e, .epoch = e->epoch, .ended = e->ended, .gap_ns = e->gap_ns, .limit = r.limit};
#define TAKE(field) e->field = r.field
    TAKE(batches), TAKE(samples), TAKE(elapsed_ns), TAKE(wait_ns), TAKE(work_ns), TAKE(transfer_ns);
    TAKE(bytes_read), TAKE(bytes_decompressed), TAKE(bytes_decoded), TAKE(bytes_delivered);
    TAKE(blocks_read), TAKE(blocks_from_cache), TAKE(blocks_evicted);
    TAKE(reading_ns), TAKE(read_ns), TAKE(decompress_ns), TAKE(decode_ns), TAKE(assemble_ns), TAKE(transform_ns);
    TAKE(memory_wait_ns), TAKE(worker_cpu_ns), TAKE(consumer_cpu_ns), TAKE(first_batch_ns);
#undef TAKE
}

static fby_epoch *latest(fby__history *h) { return &h->epochs[(h->n - 1) % FBY_EPOCHS_KEPT]; }

void fby__history_end(fby_loader *l)
{
    fby__history *h = &l->history;
    fby_report now;
    fby__loader_measure(l, &now);
    pthread_mutex_lock(&h->lock);
    if (h->n && !latest(h)->ended) {
        latest(h)->ended = true;
        fill(h, &now, latest(h));
    }
    pthread_mutex_unlock(&h->lock);
}

void fby__history_log(fby_loader *l)
{
    fby_epoch e = {.size = sizeof e};
    if (!fby__log_wants(FBY_LOG_INFO) || fby_loader_epoch(l, fby__history_count(&l->history) - 1, &e, NULL) != FBY_OK)
        return;
    const double seconds = 1e-9 * (double)e.elapsed_ns;
    fby__log(FBY_LOG_INFO, "epoch %llu: %llu batches, %llu samples in %.2f s, %.0f samples/s; waited %.1f %% of it; limit: %s",
             (unsigned long long)e.epoch, (unsigned long long)e.batches, (unsigned long long)e.samples, seconds,
             (double)e.samples / fmax(seconds, 1e-9), 100e-9 * (double)e.wait_ns / fmax(seconds, 1e-9), fby_limit_name(e.limit));
}

void fby__history_begin(fby_loader *l, uint64_t epoch)
{
    fby__history *h = &l->history;
    fby_report now;
    fby__loader_measure(l, &now);
    pthread_mutex_lock(&h->lock);
    uint64_t gap = h->n ? now.gap_ns - h->begin.gap_ns : 0;
    if (h->n && !latest(h)->ended)
        fill(h, &now, latest(h));
    if (h->n && latest(h)->batches == 0) { /* nothing came of it: the time since the epoch before it is still this gap */
        gap += latest(h)->gap_ns;
        h->n--;
    }
    if (h->n == 1)
        h->settled = now;
    h->n++;
    *latest(h) = (fby_epoch){.size = sizeof(fby_epoch), .epoch = epoch, .gap_ns = gap};
    h->begin = now;
    pthread_mutex_unlock(&h->lock);
}

bool fby__history_settle(fby__history *h, fby_report *r)
{
    pthread_mutex_lock(&h->lock);
    const bool settled = h->n > 1 && r->elapsed_ns >= h->settled.elapsed_ns;
    if (settled)
        fby__report_subtract(r, &h->settled);
    pthread_mutex_unlock(&h->lock);
    return settled;
}

uint32_t fby__history_count(fby__history *h)
{
    pthread_mutex_lock(&h->lock);
    const uint64_t n = fby__min_u64(h->n, FBY_EPOCHS_KEPT);
    pthread_mutex_unlock(&h->lock);
    return (uint32_t)n;
}

fby_status fby_loader_epoch(fby_loader *l, size_t i, fby_epoch *out, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    fby__history *h = &l->history;
    fby_report now;
    fby_epoch e = {.size = sizeof e};
    fby__loader_measure(l, &now);
    pthread_mutex_lock(&h->lock);
    const uint64_t n = fby__min_u64(h->n, FBY_EPOCHS_KEPT);
    if (i < n) {
        e = h->epochs[(h->n - n + i) % FBY_EPOCHS_KEPT];
        if (i == n - 1 && !e.ended)
            fill(h, &now, &e);
    }
    pthread_mutex_unlock(&h->lock);
    if (i >= n)
        return fby__fail(err, FBY_E_ARG, "epoch %zu of the report asked for, but it has %llu", i, (unsigned long long)n);
    return FBY__SIZED_OUT(fby_epoch, consumer_cpu_ns, &e, out, err);
}
