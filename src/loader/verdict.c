/*
 * What limits, how sure that is, and what to do about it.
 *
 * Warm-up is apart: the wait for an epoch's first batch is a latency, and a program's first step compiles and allocates. What is left is
 * the steady state, of which shares are taken; with too few batches or too little time of it nothing is said.
 */
#include "loader/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAST_BATCHES 8
#define LEAST_NS 50000000u /* of the steady state */
#define KEEPS_UP 0.05      /* waits less: what the consumer does is the limit */
#define WAITS 0.3          /* waits more: the loader is */

const char *fby_limit_name(fby_limit limit)
{
    static const char *const NAMES[] = {
#define NAME(name, text) text,
        FBY_LIMIT_LIST(NAME)
#undef NAME
    };
    return (unsigned)limit < FBY_LIMIT_COUNT ? NAMES[limit] : "?";
}

static double share(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }
static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* How far a share is beyond a border, of the way to the end. */
static double beyond(double value, double border, double end) { return fmin(1, fmax(0, (value - border) / (end - border))); }

typedef struct largest {
    fby_limit limit;
    const char *text;
    double share; /* of all of them */
} largest;

static largest largest_stage(const fby__facts *f)
{
    const struct {
        fby_limit limit;
        const char *text;
        uint64_t ns;
    } stage[] = {{FBY_LIMIT_DECOMPRESS, "decompressing", f->decompress_ns},
                 {FBY_LIMIT_DECODE, "decoding", f->decode_ns},
                 {FBY_LIMIT_ASSEMBLE, "assembling batches", f->assemble_ns},
                 {FBY_LIMIT_TRANSFORM, "in your transform", f->transform_ns}};
    size_t most = 0;
    uint64_t all = 0;
    for (size_t i = 0; i < sizeof stage / sizeof *stage; i++) {
        most = stage[i].ns > stage[most].ns ? i : most;
        all += stage[i].ns;
    }
    return (largest){stage[most].limit, stage[most].text, share(stage[most].ns, all)};
}

/* The limit is told; what is written is the words. Returns how clear it is, 0 to 1. */
static double judge(const fby__facts *f, uint64_t wait, uint64_t span, fby_report *r)
{
    const double waiting = share(wait, span), percent = 100 * waiting;
    const uint64_t all = f->wait_ns + f->work_ns, cpu = f->decompress_ns + f->decode_ns + f->assemble_ns + f->transform_ns;
    const double busy = share(f->worker_cpu_ns, all) / fmax(1, f->n_threads), transform = share(f->transform_ns, all);
    const double firsts = share(f->first_waits_ns, all);
    const largest most = largest_stage(f);
    const size_t n = sizeof r->verdict;
    if (f->epochs > 1 && firsts > 0.2 && f->first_waits_ns > wait) {
        r->limit = FBY_LIMIT_FIRST_BATCH;
        (void)snprintf(r->verdict, n,
                       "The loader keeps up but for the beginning of an epoch: %.0f %% of the time went to first batches, %.1f ms each, "
                       "and %.0f %% of "
                       "the rest to waiting. Longer epochs make that rarer, a smaller superbatch makes it shorter.",
                       100 * firsts, 1e-6 * share(f->first_waits_ns, f->epochs), percent);
        return beyond(firsts, 0.2, 0.6);
    }
    if (waiting < KEEPS_UP) {
        r->limit = FBY_LIMIT_MODEL;
        (void)snprintf(r->verdict, n,
                       "The loader keeps up: the consumer waited %.1f %% of the time. What it does with the batches is the limit.",
                       percent);
        return beyond(KEEPS_UP - waiting, 0, KEEPS_UP);
    }
    if (transform > 0.7) {
        r->limit = FBY_LIMIT_TRANSFORM;
        (void)snprintf(
            r->verdict, n,
            "Your transform is the limit: it runs one batch after the other, %.0f %% of the time, and the consumer waited %.0f %%. Make "
            "it faster, or do part of it as operations of outputs, which run in parallel.",
            100 * transform, percent);
        return beyond(transform, 0.7, 0.9);
    }
    if (waiting < WAITS) {
        r->limit = FBY_LIMIT_BALANCED;
        (void)snprintf(
            r->verdict, n,
            "Loader and consumer are about equally fast: the consumer waited %.0f %% of the time. Most of what the loader does is %s.",
            percent, f->read_ns > cpu ? "reading" : most.text);
        return 1 - fabs(waiting - (KEEPS_UP + WAITS) / 2) / ((WAITS - KEEPS_UP) / 2);
    }
    if (busy > 0.7) {
        const bool threads = f->n_threads < f->n_cpus;
        char advice[100] = "More cores or fewer columns would help";
        if (threads)
            (void)snprintf(advice, sizeof advice, "The process may use %u CPUs: more threads would help", f->n_cpus);
        r->limit = threads ? FBY_LIMIT_THREADS : most.limit;
        (void)snprintf(
            r->verdict, n,
            "CPU-bound: the consumer waited %.0f %% of the time while %u workers were %.0f %% busy, most of it (%.0f %%) %s. %s.", percent,
            f->n_threads, 100 * busy, 100 * most.share, most.text, advice);
        return threads ? beyond(busy, 0.7, 0.9) : beyond(busy, 0.7, 0.9) * beyond(most.share, 0.25, 0.6);
    }
    if (f->read_ns > cpu) {
        r->limit = FBY_LIMIT_STORAGE;
        (void)snprintf(r->verdict, n,
                       "Storage-bound: the consumer waited %.0f %% of the time and the workers were %.0f %% busy; reading took longest. A "
                       "faster disk, or a budget that keeps more in memory, would help.",
                       percent, 100 * busy);
        return beyond(share(f->read_ns, f->read_ns + cpu), 0.5, 0.8);
    }
    if (f->rereads) {
        r->limit = FBY_LIMIT_MEMORY;
        (void)snprintf(
            r->verdict, n,
            "Budget-bound or bursty: the consumer waited %.0f %% of the time with workers %.0f %% busy. A budget of two superbatches lets "
            "the next one load while this one drains.",
            percent, 100 * busy);
        return beyond(waiting, WAITS, 0.8) * 0.5; /* bursts look the same */
    }
    r->limit = FBY_LIMIT_BALANCED;
    (void)snprintf(r->verdict, n,
                   "Everything read so far is in memory: the consumer waited %.0f %% of the time with workers %.0f %% busy. It takes "
                   "batches as fast as they are handed over; larger ones would cost less.",
                   percent, 100 * busy);
    return beyond(waiting, WAITS, 0.8);
}

void fby__verdict(const fby__facts *f, fby_report *r)
{
    const uint64_t wait = less(f->wait_ns, f->first_waits_ns), span = wait + less(f->work_ns, f->first_work_ns);
    const uint64_t batches = less(f->batches, f->epochs);
    r->confidence = 0;
    if (batches >= LEAST_BATCHES && span >= LEAST_NS) {
        const double seconds = 1e-9 * (double)span, evidence = (double)batches / ((double)batches + 16) * (seconds / (seconds + 0.25));
        r->confidence = evidence * (0.5 + 0.5 * judge(f, wait, span, r));
        const size_t used = strlen(r->verdict);
        if (r->confidence < 0.3)
            (void)snprintf(r->verdict + used, sizeof r->verdict - used, " Not sure yet: %llu batches, %.2f s.", (unsigned long long)batches,
                           seconds);
        return;
    }
    r->limit = FBY_LIMIT_TOO_EARLY;
    if (f->batches)
        (void)snprintf(r->verdict, sizeof r->verdict,
                       "Too early to say what limits: %llu batches and %.2f s since the first, which took %.1f ms. It takes %d batches and "
                       "%.2f s at least.",
                       (unsigned long long)batches, 1e-9 * (double)span,
                       1e-6 * (double)f->first_waits_ns / (double)(f->epochs ? f->epochs : 1), LEAST_BATCHES, 1e-9 * LEAST_NS);
    else
        (void)snprintf(r->verdict, sizeof r->verdict, "No batch was delivered yet.");
}
