/*
 * What the counters, stage clocks and histograms that are always on cost: how often a loader reads a clock, times what one reading costs with the
 * additions that go with it, as a share of the CPU time of the process. overhead.py gives the cases.
 *
 *   bench_overhead PATH BATCH MEMORY_BYTES SECONDS
 *
 * Every call of the system's clock is counted, those of waits and deadlines too, which would be there without a trace: the share is an upper bound.
 * An event is priced as a clock, a stage, two counts and a histogram, which is more than any has, on a line of memory that two threads fight for.
 */
#include "base/clock.h"
#include "trace/events.h"
#include "trace/trace.h"

#include <forebay/forebay.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 2000000, REPEATS = 7 };

static _Atomic uint64_t g_clocks, g_cpu_clocks; /* relaxed: counts */
static _Atomic bool g_counting;
static int (*g_clock)(clockid_t, struct timespec *);

/* In front of the C library's, for all of the program. */
int clock_gettime(clockid_t id, struct timespec *out)
{
    if (atomic_load_explicit(&g_counting, memory_order_relaxed))
        atomic_fetch_add_explicit(id == CLOCK_MONOTONIC ? &g_clocks : &g_cpu_clocks, 1, memory_order_relaxed);
    return g_clock(id, out);
}

static fby__trace g_trace;

static void *record(void *unused)
{
    uint64_t last = fby__now_ns();
    for (int i = 0; i < CALLS; i++) {
        const uint64_t now = fby__now_ns();
        fby__trace_stage(&g_trace, FBY__STAGE_DECODE, now - last);
        fby__trace_count(&g_trace, FBY__COUNT_BYTES_DECODED, 64);
        fby__trace_count(&g_trace, FBY__COUNT_BLOCKS_READ, 1);
        fby__histogram_add(&g_trace.wait, now - last);
        if (fby__events_are_on())
            abort();
        last = now;
    }
    return unused;
}

/* CPU nanoseconds an event; the least of some measurements. */
static double event_ns(void)
{
    double least = 1e9;
    for (int k = 0; k < REPEATS; k++) {
        pthread_t other;
        const uint64_t before = fby__process_cpu_ns();
        if (pthread_create(&other, NULL, record, NULL) != 0)
            exit(1);
        (void)record(NULL);
        (void)pthread_join(other, NULL); /* cannot fail */
        const double ns = (double)(fby__process_cpu_ns() - before) / (2.0 * CALLS);
        least = ns < least ? ns : least;
    }
    return least;
}

/* The same of a clock of CPU time, which is a system call. */
static double cpu_clock_ns(void)
{
    double least = 1e9;
    for (int k = 0; k < REPEATS; k++) {
        const uint64_t before = fby__process_cpu_ns();
        for (int i = 0; i < CALLS / 20; i++)
            (void)fby__thread_cpu_ns();
        const double ns = (double)(fby__process_cpu_ns() - before) / (CALLS / 20.0);
        least = ns < least ? ns : least;
    }
    return least;
}

static void need(fby_status status, const fby_error *err)
{
    if (status == FBY_OK)
        return;
    (void)fprintf(stderr, "bench_overhead: %s\n", err->message);
    exit(1);
}

int main(int argc, char **argv)
{
    fby_error err = {0};
    fby_dataset *ds;
    fby_loader *loader;
    if (argc != 5)
        return 2;
    *(void **)&g_clock = dlsym(RTLD_NEXT, "clock_gettime");
    const double event = event_ns(), cpu_clock = cpu_clock_ns();
    const fby_open_opts open = {.size = sizeof open};
    need(fby_dataset_open(&(fby_source){.path = argv[1]}, 1, &open, &ds, &err), &err);
    const fby_loader_opts opts = {FBY_LOADER_SIZES, .batch_size = strtoull(argv[2], NULL, 10), .memory_bytes = strtoull(argv[3], NULL, 10),
                                  .superbatch_samples = 100000};
    need(fby_loader_open(ds, &opts, &loader, &err), &err);
    const uint64_t begun = fby__now_ns(), cpu = fby__process_cpu_ns();
    uint64_t batches = 0;
    atomic_store(&g_counting, true);
    while (g_clock && fby__now_ns() - begun < 1000000000u * strtoull(argv[4], NULL, 10)) {
        fby_batch *batch;
        const fby_status status = fby_loader_next(loader, -1, &batch, &err);
        if (status == FBY_END)
            continue;
        need(status, &err);
        fby_batch_unref(batch);
        batches++;
    }
    atomic_store(&g_counting, false);
    const double spent = (double)(fby__process_cpu_ns() - cpu);
    const uint64_t n = atomic_load(&g_clocks) - batches, n_cpu = atomic_load(&g_cpu_clocks); /* without this program's own */
    (void)printf("batches %" PRIu64 "\nclocks %" PRIu64 "\ncpu_clocks %" PRIu64
                 "\nevent_ns %.1f\ncpu_clock_ns %.1f\ncpu_seconds %.3f\nshare %.5f\n",
                 batches, n, n_cpu, event, cpu_clock, 1e-9 * spent, ((double)n * event + (double)n_cpu * cpu_clock) / spent);
    fby_loader_close(loader);
    fby_dataset_close(ds);
    return 0;
}
