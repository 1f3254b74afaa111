/*
 * forebay bench: how fast batches come, and where the time goes. A consumer that does nothing with them, or is busy for a
 * while (--work) as a training step would be, takes batches from a loader for some epochs or seconds.
 *
 * What they hold is said in bench_load.c: columns of files, or the outputs of a pipeline file.
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

static const cli_option options[] = {
    {"columns", 'c', CLI_LIST, offsetof(bench_options, columns), "NAMES", "only these columns: names or shell patterns of dotted paths",
     NULL},
    {"separate", 0, CLI_FLAG, offsetof(bench_options, separate), NULL, "one tensor per column in its own type, no matrix", NULL},
    {"dtype", 0, CLI_CHOICE, offsetof(bench_options, dtype), "TYPE", "of the matrix (default: float32)", bench_dtype_names},
    {"batch-size", 'b', CLI_COUNT, offsetof(bench_options, batch_size), "N", "samples a batch (default: 1024, fewer of large arrays)",
     NULL},
    {"shuffle", 's', CLI_CHOICE, offsetof(bench_options, shuffle), "HOW", "what is mixed (default: superbatch)", bench_shuffle_names},
    {"seed", 0, CLI_COUNT, offsetof(bench_options, seed), "N", "of the shuffle (default: 0)", NULL},
    {"memory", 'm', CLI_MEMORY, offsetof(bench_options, memory), "SIZE",
     "the budget: 8GiB, 70% (of what is free), all (default: two superbatches, at most half of what is free)", NULL},
    {"superbatch", 0, CLI_TEXT, offsetof(bench_options, superbatch), "N",
     "samples mixed with each other: 100000, 64blocks or 512MiB (default)", NULL},
    {"streams", 0, CLI_COUNT, offsetof(bench_options, streams), "N", "cuts of the epoch's order (default: 8)", NULL},
    {"threads", 't', CLI_COUNT, offsetof(bench_options, threads), "N", "workers (default: the CPUs there are)", NULL},
    {"prefetch", 0, CLI_COUNT, offsetof(bench_options, prefetch), "N", "finished batches kept ready (default: 8)", NULL},
    {"epochs", 'e', CLI_COUNT, offsetof(bench_options, epochs), "N", "measure N epochs (default: 1, or what --seconds allows)", NULL},
    {"seconds", 0, CLI_TIME, offsetof(bench_options, seconds), "S", "stop after S seconds (default: 30 without --epochs)", NULL},
    {"warmup", 0, CLI_COUNT, offsetof(bench_options, warmup), "N", "first run N batches that do not count", NULL},
    {"work", 0, CLI_TIME, offsetof(bench_options, work), "S", "keep the consumer busy that long after each batch: 5ms", NULL},
    {"split", 0, CLI_TEXT, offsetof(bench_options, split), "NAME",
     "of a pipeline file: what is loaded (default: what its section loader names, else the first)", NULL},
    {"set", 0, CLI_EACH, offsetof(bench_options, set), "KEY=VALUE", "of a pipeline file: another value than its own: loader.memory=1GiB",
     NULL},
    {"cold", 0, CLI_FLAG, offsetof(bench_options, cold), NULL, "first drop the files from the page cache", NULL},
    CLI_SOURCE_OPTIONS(bench_options),
};

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
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

static double cpu_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail with these arguments */
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/** Ask the kernel to forget the files' pages. Dirty pages stay, so a file that was just written is synced first. */
static int drop_page_cache(const fby_dataset *ds)
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
    while (cli_now() < until) {
    }
}

/** The next batch, looking for Ctrl-C five times a second. */
static fby_status next_batch(fby_loader *loader, fby_batch **batch, fby_error *err)
{
    fby_status status;
    do
        status = fby_loader_next(loader, 200 * 1000 * 1000, batch, err);
    while (status == FBY_TIMEOUT && !interrupted);
    return status;
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

static int measure(fby_loader *loader, const bench_load *load, const bench_options *o, bench_result *r)
{
    fby_error err = {0};
    uint64_t per_epoch = fby_loader_sample_count(loader), epoch = 0;
    double limit = o->seconds > 0 ? o->seconds : o->epochs == 0 ? 30 : 0;
    uint64_t epochs = o->epochs ? o->epochs : o->seconds > 0 ? UINT64_MAX : 1;
    fby_report before = {.size = sizeof before};
    bool stop = false;

    if (fby_loader_report(loader, &before, &err) != FBY_OK)
        return cli_library_error(&err);
    reset_peak();
    r->rss_before_bytes = status_bytes("VmRSS:");
    double cpu = cpu_seconds(), start = cli_now(), last = start;
    while (!stop && epoch < epochs && per_epoch > 0) {
        if (fby_loader_begin(loader, epoch + (o->warmup > 0), &err) != FBY_OK) /* epoch 0 was the warm-up's */
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
            stop = (limit > 0 && now - start >= limit) || interrupted;
            double rate = (double)r->samples / (now - start);
            cli_progress("epoch %s: %.0f %%, %s samples/s", cli_count(epoch + 1),
                         100 * (double)(r->samples - epoch * per_epoch) / (double)per_epoch, cli_rate(rate));
        }
    }
    r->seconds = last - start;
    if (!stop && cli_now() - start > r->seconds)
        r->seconds = cli_now() - start;
    r->cpu_seconds = cpu_seconds() - cpu;
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

static int bench(fby_dataset *ds, const bench_load *load, const bench_options *o, char *const *paths, size_t n_paths)
{
    bench_result r = {0};
    fby_loader *loader = NULL;
    fby_error err = {0};
    int code = o->cold ? drop_page_cache(ds) : CLI_CONTINUE;
    if (code != CLI_CONTINUE)
        return code;
    double opened = cli_now();
    if (fby_loader_open(ds, &load->opts, &loader, &err) != FBY_OK)
        return bench_load_error(load, &err);
    r.open_seconds = cli_now() - opened;
    (void)signal(SIGINT, on_interrupt);
    if ((code = warm_up(loader, load, o->warmup)) == CLI_CONTINUE && (code = measure(loader, load, o, &r)) == CLI_CONTINUE)
        code = bench_print(ds, loader, load, o, &r, paths, n_paths);
    if (code == CLI_OK && r.interrupted)
        code = CLI_INTERRUPTED;
    fby_loader_close(loader);
    free(r.times);
    return code;
}

static int bench_paths(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths)
{
    bench_load load = {0};
    int code = bench_load_columns(ds, values, &load);
    if (code == CLI_CONTINUE)
        code = bench(ds, &load, values, paths, n_paths);
    bench_load_free(&load);
    return code;
}

static int bench_pipeline(const bench_options *o, char *const *paths)
{
    fby_pipeline *pipeline = NULL;
    fby_dataset *ds = NULL;
    bench_load load = {0};
    int code = cli_pipeline_open(&o->source, paths[0], &o->set, &pipeline);
    if (code == CLI_CONTINUE)
        code = bench_load_pipeline(pipeline, o, &ds, &load);
    if (code == CLI_CONTINUE)
        code = bench(ds, &load, o, paths, 1);
    bench_load_free(&load);
    fby_pipeline_close(pipeline);
    return code;
}

static int run(const cli_command *command, int argc, char **argv)
{
    bench_options o = {.dtype = -1, .shuffle = -1, .seed = BENCH_NO_SEED};
    char **paths;
    size_t n_paths;
    int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    if (code == CLI_CONTINUE && n_paths == 1 && cli_is_pipeline(paths[0]))
        code = bench_pipeline(&o, paths);
    else if (code == CLI_CONTINUE && (o.split || o.set.n))
        code = cli_error(CLI_USAGE, "forebay bench pipeline.yaml", "bench: --split and --set are of a pipeline file");
    else if (code == CLI_CONTINUE)
        code = cli_source_use(&o.source, paths, n_paths, bench_paths, &o);
    cli_list_free(&o.columns);
    cli_list_free(&o.source.dtypes);
    cli_list_free(&o.set);
    return code;
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "how fast batches come, and what limits them",
    .synopsis = "PATH… [options]",
    .examples = "  forebay bench \"basins/*.parquet\"                      one epoch, shuffled, batches of 1,024\n"
                "  forebay bench basins/ --memory 1GiB --batch-size 512   inside a budget\n"
                "  forebay bench basins/ --work 5ms                       beside a training step of 5 ms\n"
                "  forebay bench basins/ --cold --shuffle none            from the disk, in file order\n"
                "  forebay bench basins/ --json | jq .samples_per_second\n"
                "  forebay bench basins.yaml --split train                the outputs and options of a pipeline file\n",
    .notes =
        "Of paths it loads every numeric column: single values in one float32 matrix, arrays and lists each as they are stored.\n"
        "Of a pipeline file the outputs are its own; --batch-size, --shuffle, --seed, --memory, --superbatch, --streams, --threads and\n"
        "--prefetch take the place of what its section loader says.\n"
        "Times of stages are sums over threads. CPU inside next() is what the loader costs the training thread itself.\n"
        "--json: {command, forebay, pipeline, split, samples_per_second, samples, batches, seconds, epochs,\n"
        "epoch_seconds_estimated, first_batch_seconds, open_seconds, delivered_bytes_per_second, read_bytes_per_second,\n"
        "batch_seconds: {p50, p95, p99, max}, cpu_seconds, cpu_seconds_per_million_samples, next_cpu_share, peak_rss_bytes,\n"
        "rss_before_bytes, report: {schema, limit, confidence, reason, verdict, cures: […], epochs: […], counts and times},\n"
        "options: {…}, outputs: [{name, dtype, layout, shape}]}; pipeline and split are null of paths. The report is what Python's\n"
        "report().to_json() gives, see docs/diagnosis.md.\n",
    .options = options,
    .run = run,
};
