/*
 * forebay bench, one measurement: a consumer that does nothing with batches, or is busy for a while (--work) as a training step would be,
 * takes them from a loader.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
static fby_cancel *cancel; /* what the loaders' calls run under, from the first measurement on; set before the handler is */
static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
    fby_cancel_set(cancel);
}

/* --- the machine --------------------------------------------------------------------------------------------------------------- */

static uint64_t status_bytes(const char *field)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    uint64_t kib = 0;
    size_t n = strlen(field);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, field, n) == 0)
            kib = strtoull(line + n, NULL, 10);
    if (f)
        (void)fclose(f); /* only read */
    return kib * 1024;
}

/** Make the peak start again from what is resident now (Linux 4.0 on; without it the peak covers the opening as well). */
static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = write(fd, "5", 1);
        (void)n; /* a figure for people: without the reset it is larger, never wrong */
        (void)close(fd);
    }
}

double bench_cpu_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail with these arguments */
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Dirty pages stay, so a file that was just written is synced first. */
int bench_drop_page_cache(const fby_dataset *ds)
{
    fby_error err = {0};
    for (uint64_t i = 0; i < fby_dataset_file_count(ds); i++) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, i, &file, &err) != FBY_OK)
            return cli_library_error(&err);
        cli_progress("dropping cached pages: file %s", cli_count(i));
        int fd = open(file.path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return cli_error(CLI_FAILED, NULL, "%s: %s", file.path, strerror(errno));
        (void)fdatasync(fd);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        (void)close(fd);
    }
    cli_progress_end();
    return CLI_CONTINUE;
}

/* --- the run --------------------------------------------------------------------------------------------------------------------- */

static void record(bench_result *r, double seconds)
{
    if (r->n_times == r->cap_times) {
        r->cap_times = r->cap_times ? r->cap_times * 2 : 4096;
        r->times = cli_realloc(r->times, r->cap_times * sizeof *r->times);
    }
    r->times[r->n_times++] = seconds;
}

static void be_busy(double seconds)
{
    double until = cli_now() + seconds;
    while (cli_now() < until && !interrupted) {
    }
}

/** The next batch, looking for Ctrl-C twenty times a second: FBY_TIMEOUT. */
static fby_status next_batch(fby_loader *loader, fby_batch **batch, fby_error *err)
{
    fby_status status;
    do
        status = fby_loader_next(loader, 50 * 1000 * 1000, batch, err);
    while (status == FBY_TIMEOUT && !interrupted);
    return status == FBY_E_CANCELLED ? FBY_TIMEOUT : status;
}

static int warm_up(fby_loader *loader, const bench_load *load, uint64_t n)
{
    fby_error err = {0};
    for (uint64_t i = 0; i < n && !interrupted; i++) {
        fby_batch *batch = NULL;
        fby_status status = next_batch(loader, &batch, &err);
        if (status == FBY_END)
            break;
        if (status == FBY_TIMEOUT)
            return CLI_INTERRUPTED;
        if (status != FBY_OK)
            return bench_load_error(load, &err);
        fby_batch_unref(batch);
        cli_progress("warming up: batch %s of %s", cli_count(i), cli_count(n));
    }
    return CLI_CONTINUE;
}

static int measure(fby_loader *loader, const bench_load *load, const bench_options *o, bench_limits limits, bench_result *r)
{
    fby_error err = {0};
    uint64_t per_epoch = fby_loader_sample_count(loader), epoch = 0;
    uint64_t epochs = limits.epochs ? limits.epochs : UINT64_MAX, batches = limits.batches ? limits.batches : UINT64_MAX;
    fby_report before = {.size = sizeof before};
    bool stop = false;

    if (fby_loader_report(loader, &before, &err) != FBY_OK)
        return cli_library_error(&err);
    reset_peak();
    r->rss_before_bytes = status_bytes("VmRSS:");
    double cpu = bench_cpu_seconds(), start = cli_now(), last = start;
    while (!stop && epoch < epochs && per_epoch > 0) {
        const fby_status begun = fby_loader_begin(loader, epoch + (o->warmup > 0), &err); /* epoch 0 was the warm-up's */
        if (begun == FBY_E_CANCELLED)
            break;
        if (begun != FBY_OK)
            return cli_library_error(&err);
        double epoch_start = cli_now();
        last = epoch_start;
        bool first = true;
        while (!stop) {
            fby_batch *batch = NULL;
            fby_status status = next_batch(loader, &batch, &err);
            if (status == FBY_END) {
                epoch++;
                r->epoch_seconds += cli_now() - epoch_start;
                break;
            }
            if (status == FBY_TIMEOUT) {
                stop = true;
                break;
            }
            if (status != FBY_OK)
                return bench_load_error(load, &err);
            uint64_t size = fby_batch_size(batch);
            r->batches++;
            r->samples += size;
            if (o->work > 0)
                be_busy(o->work);
            fby_batch_unref(batch);
            double now = cli_now();
            if (first && r->first_batch_seconds == 0)
                r->first_batch_seconds = now - epoch_start - o->work;
            else
                record(r, now - last); /* the first one of an epoch is a figure of its own */
            first = false;
            last = now;
            stop = (limits.seconds > 0 && now - start >= limits.seconds) || r->batches >= batches || interrupted;
            double rate = (double)r->samples / (now - start);
            cli_progress("epoch %s: %.0f %%, %s samples/s", cli_count(epoch + 1),
                         100 * (double)(r->samples - epoch * per_epoch) / (double)per_epoch, cli_rate(rate));
        }
    }
    r->seconds = last - start;
    if (!stop && cli_now() - start > r->seconds)
        r->seconds = cli_now() - start;
    r->cpu_seconds = bench_cpu_seconds() - cpu;
    r->peak_rss_bytes = status_bytes("VmHWM:");
    cli_progress_end();
    r->epochs = epoch;
    r->interrupted = interrupted != 0;

    fby_report after = {.size = sizeof after};
    if (fby_loader_report(loader, &after, &err) != FBY_OK)
        return cli_library_error(&err);
    r->report = after;
    if (o->warmup > 0 && fby_report_since(&r->report, &before, &err) != FBY_OK)
        return cli_library_error(&err);
    return CLI_CONTINUE;
}

bool bench_interrupted(void) { return interrupted != 0; }

static fby_status bench_open(const cli_data *data, const bench_load *load, fby_loader **out, fby_error *err)
{
    return load->mix.n_sources ? fby_loader_open_mix(&load->mix, &load->opts, out, err)
                               : fby_loader_open(data->each[0], &load->opts, out, err);
}

int bench_measure(const cli_data *data, const bench_load *load, const bench_options *o, bench_limits limits, bench_result *out,
                  fby_loader **out_loader)
{
    fby_loader *loader = NULL;
    fby_error err = {0};
    int code = CLI_CONTINUE;
    for (size_t i = 0; o->cold && i < data->n && code == CLI_CONTINUE; i++)
        code = bench_drop_page_cache(data->each[i]);
    if (code != CLI_CONTINUE)
        return code;
    if (!cancel && !(cancel = fby_cancel_create()))
        return cli_error(CLI_FAILED, NULL, "out of memory");
    (void)fby_cancel_use(cancel);
    double opened = cli_now();
    const fby_status status = bench_open(data, load, &loader, &err);
    if (status == FBY_E_CANCELLED)
        return CLI_INTERRUPTED;
    if (status != FBY_OK)
        return bench_load_error(load, &err);
    out->open_seconds = cli_now() - opened;
    (void)signal(SIGINT, on_interrupt);
    if ((code = warm_up(loader, load, o->warmup)) != CLI_CONTINUE || (code = measure(loader, load, o, limits, out)) != CLI_CONTINUE) {
        fby_loader_close(loader);
        return code;
    }
    *out_loader = loader;
    return CLI_CONTINUE;
}

double bench_rate(const bench_result *r) { return r->seconds > 0 ? (double)r->samples / r->seconds : 0; }

double bench_epoch_seconds(const fby_loader *loader, const bench_result *r)
{
    if (r->epochs)
        return r->epoch_seconds / (double)r->epochs;
    return r->samples ? (double)fby_loader_sample_count(loader) / (double)r->samples * r->seconds : 0;
}

double bench_cpu_per_million(const bench_result *r) { return r->samples ? r->cpu_seconds * 1e6 / (double)r->samples : 0; }

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *values, size_t n)
{
    if (n)
        qsort(values, n, sizeof *values, compare_doubles);
    return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
