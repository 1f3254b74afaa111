/*
 * forebay bench: how fast batches come, and where the time goes. A consumer that does nothing with them, or is busy for a
 * while (--work) as a training step would be, takes batches from a loader for some epochs or seconds.
 *
 * By default the numeric columns are stacked into one float32 matrix, as a model wants them; times, text and lists join when
 * --columns names them, or all as they are with --separate.
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

static const char *const shuffle_names[] = {"superbatch", "full", "block", "none", NULL};
static const char *const dtype_names[] = {
#define DTYPE_TEXT(name, text, bytes, kind) text,
    FBY_DTYPE_LIST(DTYPE_TEXT)
#undef DTYPE_TEXT
        NULL};

static const cli_option options[] = {
    {"columns", 'c', CLI_LIST, offsetof(bench_options, columns), "NAMES", "only these columns: names or shell patterns of dotted paths",
     NULL},
    {"separate", 0, CLI_FLAG, offsetof(bench_options, separate), NULL, "one tensor per column in its own type, no matrix", NULL},
    {"dtype", 0, CLI_CHOICE, offsetof(bench_options, dtype), "TYPE", "of the matrix (default: float32)", dtype_names},
    {"batch-size", 'b', CLI_COUNT, offsetof(bench_options, batch_size), "N", "samples a batch (default: 1024)", NULL},
    {"shuffle", 's', CLI_CHOICE, offsetof(bench_options, shuffle), "HOW", "what is mixed (default: superbatch)", shuffle_names},
    {"seed", 0, CLI_COUNT, offsetof(bench_options, seed), "N", "of the shuffle (default: 0)", NULL},
    {"memory", 'm', CLI_SIZE, offsetof(bench_options, memory), "SIZE",
     "the budget (default: two superbatches, at most half of what is free)", NULL},
    {"superbatch", 0, CLI_TEXT, offsetof(bench_options, superbatch), "N",
     "samples mixed with each other: 100000, 64blocks or 512MiB (default)", NULL},
    {"streams", 0, CLI_COUNT, offsetof(bench_options, streams), "N", "cuts of the epoch's order (default: 8)", NULL},
    {"threads", 't', CLI_COUNT, offsetof(bench_options, threads), "N", "workers (default: the CPUs there are)", NULL},
    {"prefetch", 0, CLI_COUNT, offsetof(bench_options, prefetch), "N", "finished batches kept ready (default: 8)", NULL},
    {"epochs", 'e', CLI_COUNT, offsetof(bench_options, epochs), "N", "measure N epochs (default: 1, or what --seconds allows)", NULL},
    {"seconds", 0, CLI_TIME, offsetof(bench_options, seconds), "S", "stop after S seconds (default: 30 without --epochs)", NULL},
    {"warmup", 0, CLI_COUNT, offsetof(bench_options, warmup), "N", "first run N batches that do not count", NULL},
    {"work", 0, CLI_TIME, offsetof(bench_options, work), "S", "keep the consumer busy that long after each batch: 5ms", NULL},
    {"cold", 0, CLI_FLAG, offsetof(bench_options, cold), NULL, "first drop the files from the page cache", NULL},
    CLI_SOURCE_OPTIONS(bench_options),
};

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* --- what to load ------------------------------------------------------------------------------------------------------------ */

typedef struct outputs {
    fby_output *items;
    const char **matrix; /* columns of the matrix */
    size_t n, n_matrix;
    size_t left_out; /* columns that only --columns or --separate would load */
} outputs;

static void outputs_free(outputs *o)
{
    free(o->items);
    free(o->matrix);
}

static void add_output(outputs *o, const char *const *columns, size_t n, const char *name, fby_dtype dtype)
{
    o->items = cli_realloc(o->items, (o->n + 1) * sizeof *o->items);
    o->items[o->n++] = (fby_output){.name = name, .columns = columns, .n_columns = n, .dtype = dtype, .keep_axis = dtype != FBY_DTYPE_NONE};
}

static bool is_time(fby_kind kind)
{
    return kind == FBY_KIND_DATE || kind == FBY_KIND_TIME || kind == FBY_KIND_TIMESTAMP || kind == FBY_KIND_DURATION;
}

/** Leaves first to last: numbers of one value a row go into the matrix, others get an output each when they are named. */
static void choose(outputs *o, const fby_field *field, const bench_options *options_given, const char ***singles, size_t *n_singles)
{
    bool named = options_given->columns.n > 0;
    for (uint32_t i = 0; i < field->n_children; i++) {
        const fby_field *child = &field->children[i];
        if (child->kind == FBY_KIND_STRUCT) {
            choose(o, child, options_given, singles, n_singles);
            continue;
        }
        if (!cli_list_match(&options_given->columns, child->path))
            continue;
        bool number = child->n_children == 0 && child->dtype != FBY_DTYPE_NONE;
        if (number && (named || !is_time(child->kind))) {
            o->matrix = cli_realloc(o->matrix, (o->n_matrix + 1) * sizeof *o->matrix);
            o->matrix[o->n_matrix++] = child->path;
        } else if (named) {
            *singles = cli_realloc(*singles, (*n_singles + 1) * sizeof **singles);
            (*singles)[(*n_singles)++] = child->path;
        } else {
            o->left_out++;
        }
    }
}

/** All columns below a field that --columns names, one output each. */
static void choose_separate(const fby_field *field, const cli_list *patterns, const char ***singles, size_t *n_singles)
{
    for (uint32_t i = 0; i < field->n_children; i++) {
        const fby_field *child = &field->children[i];
        if (child->kind == FBY_KIND_STRUCT) {
            choose_separate(child, patterns, singles, n_singles);
        } else if (cli_list_match(patterns, child->path)) {
            *singles = cli_realloc(*singles, (*n_singles + 1) * sizeof **singles);
            (*singles)[(*n_singles)++] = child->path;
        }
    }
}

static int parse_superbatch(const char *text, fby_loader_opts *opts)
{
    if (!text)
        return CLI_CONTINUE;
    size_t n = strlen(text);
    static const char blocks[] = "blocks";
    if (n > sizeof blocks - 1 && strcmp(text + n - (sizeof blocks - 1), blocks) == 0) {
        char *number = strndup(text, n - (sizeof blocks - 1));
        bool ok = number && cli_parse_count(number, &opts->superbatch_blocks);
        free(number);
        if (ok)
            return CLI_CONTINUE;
    }
    if (cli_parse_count(text, &opts->superbatch_samples) || cli_parse_size(text, &opts->superbatch_bytes))
        return CLI_CONTINUE;
    return cli_error(CLI_USAGE, NULL,
                     "bench: --superbatch does not take '%s': it is samples (100000), blocks (64blocks) or bytes as stored (512MiB)", text);
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
        fby_file_info file;
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

static int warm_up(fby_loader *loader, uint64_t n)
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
            return cli_library_error(&err);
        fby_batch_unref(batch);
        cli_progress("warming up: batch %s of %s", cli_count(i), cli_count(n));
    }
    return CLI_CONTINUE;
}

static int measure(fby_loader *loader, const bench_options *o, bench_result *r)
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
                return cli_library_error(&err);
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
#define SINCE(field) r->report.field = after.field - before.field
    SINCE(bytes_read), SINCE(bytes_decompressed), SINCE(bytes_decoded), SINCE(bytes_delivered);
    SINCE(blocks_read), SINCE(blocks_from_cache), SINCE(blocks_evicted);
    SINCE(read_ns), SINCE(decompress_ns), SINCE(decode_ns), SINCE(assemble_ns), SINCE(wait_ns), SINCE(work_ns);
    SINCE(consumer_cpu_ns), SINCE(worker_cpu_ns), SINCE(n_dropped), SINCE(n_wrapped);
#undef SINCE
    return CLI_CONTINUE;
}

static int bench(fby_dataset *ds, const bench_options *o, char *const *paths, size_t n_paths)
{
    static const fby_shuffle_kind shuffles[] = {FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_FULL, FBY_SHUFFLE_BLOCK, FBY_SHUFFLE_NONE};
    outputs out = {0};
    const char **singles = NULL;
    size_t n_singles = 0;
    bench_result r = {0};
    fby_loader *loader = NULL;
    fby_error err = {0};
    fby_loader_opts opts = {.size = sizeof opts,
                            .batch_size = o->batch_size,
                            .shuffle = shuffles[o->shuffle],
                            .seed = o->seed,
                            .streams = (uint32_t)(o->streams < UINT32_MAX ? o->streams : UINT32_MAX),
                            .memory_bytes = o->memory,
                            .n_threads = (int)(o->threads < 4096 ? o->threads : 4096),
                            .prefetch_batches = (uint32_t)(o->prefetch < UINT32_MAX ? o->prefetch : UINT32_MAX)};
    double opened;
    int code = parse_superbatch(o->superbatch, &opts);
    if (code != CLI_CONTINUE)
        goto done;
    if (o->separate)
        choose_separate(fby_dataset_schema(ds), &o->columns, &singles, &n_singles);
    else
        choose(&out, fby_dataset_schema(ds), o, &singles, &n_singles);
    if (out.n_matrix)
        add_output(&out, out.matrix, out.n_matrix, "x", fby_dtype_from_name(dtype_names[o->dtype]));
    for (size_t i = 0; i < n_singles; i++)
        add_output(&out, &singles[i], 1, singles[i], FBY_DTYPE_NONE);
    if (out.n == 0 && (o->columns.n || o->separate)) {
        code = cli_error(CLI_USAGE, "forebay inspect PATH for the names", "bench: no column matches --columns");
        goto done;
    }
    if (out.n == 0)
        out.left_out = 0; /* no numbers to make a matrix of: the library's choice, a tensor for every column that can be one */
    opts.outputs = out.items;
    opts.n_outputs = out.n;

    if (o->cold && (code = drop_page_cache(ds)) != CLI_CONTINUE)
        goto done;
    opened = cli_now();
    if (fby_loader_open(ds, &opts, &loader, &err) != FBY_OK) {
        code = cli_library_error(&err);
        goto done;
    }
    r.open_seconds = cli_now() - opened;
    (void)signal(SIGINT, on_interrupt);
    if ((code = warm_up(loader, o->warmup)) != CLI_CONTINUE || (code = measure(loader, o, &r)) != CLI_CONTINUE)
        goto done;
    r.matrix_columns = out.n_matrix;
    r.left_out_columns = out.left_out;
    code = bench_print(ds, loader, o, &r, paths, n_paths);
    if (code == CLI_OK && r.interrupted)
        code = CLI_INTERRUPTED;
done:
    fby_loader_close(loader);
    outputs_free(&out);
    free(singles);
    free(r.times);
    return code;
}

static int run(const cli_command *command, int argc, char **argv)
{
    bench_options o = {.batch_size = 1024};
    while (strcmp(dtype_names[o.dtype], "float32") != 0)
        o.dtype++;
    char **paths;
    size_t n_paths;
    fby_dataset *ds = NULL;
    int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    if (code == CLI_CONTINUE)
        code = cli_source_open(&o.source, paths, n_paths, &ds);
    if (code == CLI_CONTINUE)
        code = bench(ds, &o, paths, n_paths);
    fby_dataset_close(ds);
    cli_list_free(&o.columns);
    return code;
}

const char *bench_shuffle_name(const bench_options *o) { return shuffle_names[o->shuffle]; }
const char *bench_dtype_name(const bench_options *o) { return dtype_names[o->dtype]; }

const cli_command cli_bench = {
    .name = "bench",
    .summary = "how fast batches come, and what limits them",
    .synopsis = "PATH… [options]",
    .examples = "  forebay bench \"basins/*.parquet\"                      one epoch, shuffled, batches of 1,024\n"
                "  forebay bench basins/ --memory 1GiB --batch-size 512   inside a budget\n"
                "  forebay bench basins/ --work 5ms                       beside a training step of 5 ms\n"
                "  forebay bench basins/ --cold --shuffle none            from the disk, in file order\n"
                "  forebay bench basins/ --json | jq .samples_per_second\n",
    .notes = "Times of stages are sums over threads. CPU inside next() is what the loader costs the training thread itself.\n"
             "--json: {command, forebay, samples_per_second, samples, batches, seconds, epochs, epoch_seconds_estimated,\n"
             "first_batch_seconds, open_seconds, delivered_bytes_per_second, read_bytes_per_second, batch_seconds: {p50, p95, p99,\n"
             "max}, cpu_seconds, cpu_seconds_per_million_samples, next_cpu_share, peak_rss_bytes, rss_before_bytes, stages: {read,\n"
             "decompress, decode, assemble, consumer_wait, consumer_work} in seconds, bytes: {read, decompressed, decoded,\n"
             "delivered}, blocks: {read, from_cache, evicted}, budget: {bytes, peak_bytes, minimum_bytes}, mixing: {same_block,\n"
             "same_block_uniform, entropy_bits, entropy_bits_uniform}, options: {…}, outputs: [{name, dtype, shape}], verdict}\n",
    .options = options,
    .run = run,
};
