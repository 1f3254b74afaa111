/*
 * forebay bench: how fast batches come, and where the time goes; which of several settings are faster; and whether it is slower than it was.
 *
 * bench_load.c says what batches hold, bench_run.c measures, bench_table.c and bench_against.c repeat that; bench_compare.c
 * leaves it to Python.
 */
#include "bench.h"

#include <stdlib.h>

#define VARIED(name, letter, kind, which, value, help, choices)                                                                            \
    {                                                                                                                                      \
        name, letter, (kind) | CLI_VARIED, offsetof(bench_options, varied) + (which) * sizeof(cli_list), value, help, choices              \
    }

static const cli_option options[] = {
    {"columns", 'c', CLI_LIST, offsetof(bench_options, columns), "NAMES", "only these columns: names or shell patterns of dotted paths",
     NULL},
    {"separate", 0, CLI_FLAG, offsetof(bench_options, separate), NULL, "one tensor per column in its own type, no matrix", NULL},
    {"dtype", 0, CLI_CHOICE, offsetof(bench_options, dtype), "TYPE", "of the matrix (default: float32)", bench_dtype_names},
    VARIED("batch-size", 'b', CLI_COUNT, BENCH_BATCH_SIZE, "N", "samples a batch (default: 1024, fewer of large arrays)", NULL),
    VARIED("shuffle", 's', CLI_CHOICE_OF(FBY_OPTIONS_LOADER), BENCH_SHUFFLE, "HOW", "what is mixed (default: superbatch)", NULL),
    {"seed", 0, CLI_NUMBER, offsetof(bench_options, seed), "N", "of the shuffle (default: 0)", NULL},
    VARIED("memory", 'm', CLI_MEMORY, BENCH_MEMORY, "SIZE",
           "the budget: 8GiB, 70% (of what is free), all (default: two superbatches, at most half of what is free)", NULL),
    VARIED("superbatch", 0, CLI_TEXT, BENCH_SUPERBATCH, "N", "samples mixed with each other: 100000, 64blocks or 512MiB (default)", NULL),
    VARIED("streams", 0, CLI_COUNT, BENCH_STREAMS, "N", "cuts of the epoch's order (default: 8)", NULL),
    VARIED("threads", 't', CLI_COUNT, BENCH_THREADS, "N", "workers (default: the CPUs there are)", NULL),
    VARIED("prefetch", 0, CLI_COUNT, BENCH_PREFETCH, "N", "finished batches kept ready (default: 8)", NULL),
    {"baseline", 0, CLI_LIST, offsetof(bench_options, baseline), "OPTION=VALUE",
     "what the others are compared with: of several settings shuffle=none,memory=1GiB (default: the first)", NULL},
    {"epochs", 'e', CLI_COUNT, offsetof(bench_options, epochs), "N", "measure N epochs (default: 1, or what --seconds allows)", NULL},
    {"seconds", 0, CLI_TIME, offsetof(bench_options, seconds), "S", "stop after S seconds (default: 30 without --epochs; of each run: 3)",
     NULL},
    {"batches", 0, CLI_COUNT, offsetof(bench_options, batches), "N", "stop after N batches", NULL},
    {"runs", 0, CLI_COUNT, offsetof(bench_options, runs), "N",
     "of each setting, in turn (default: 5); with --save, --against at least (10)", NULL},
    {"quick", 'q', CLI_FLAG, offsetof(bench_options, quick), NULL, "a first look: 2 s at most; of several settings 3 runs of 1 s", NULL},
    {"warmup", 0, CLI_NUMBER, offsetof(bench_options, warmup), "N", "first run N batches that do not count", NULL},
    {"work", 0, CLI_TIME, offsetof(bench_options, work), "S", "keep the consumer busy that long after each batch: 5ms", NULL},
    {"save", 0, CLI_TEXT, offsetof(bench_options, save), "FILE", "write what was measured, for --against", NULL},
    {"against", 0, CLI_TEXT, offsetof(bench_options, against), "FILE", "exit with 1 when it is slower than what --save wrote, see below",
     NULL},
    {"margin", 0, CLI_SHARE, offsetof(bench_options, margin), "SHARE",
     "the loss that --against finds, and that --save measures sharply enough for (default: 10%)", NULL},
    {"compare", 0, CLI_FLAG, offsetof(bench_options, compare), NULL,
     "beside PyTorch, NumPy, Hugging Face datasets, Grain, LitData, scDataset, Ray Data, see below", NULL},
    {"today", 0, CLI_TEXT, offsetof(bench_options, today), "FILE.py:EXPR",
     "with --compare: a loader of your own, which the expression gives: loader.py:make(512)", NULL},
    {"html", 0, CLI_TEXT, offsetof(bench_options, html), "FILE", "write the result as one HTML page, which needs no network", NULL},
    {"split", 0, CLI_TEXT, offsetof(bench_options, split), "NAME",
     "of a pipeline file: what is loaded (default: what its section loader names, else the first)", NULL},
    {"set", 0, CLI_EACH, offsetof(bench_options, set), "KEY=VALUE", "of a pipeline file: another value than its own: loader.memory=1GiB",
     NULL},
    {"cold", 0, CLI_FLAG, offsetof(bench_options, cold), NULL, "first drop the files from the page cache", NULL},
    CLI_SOURCE_OPTIONS(bench_options),
};

/** How long a measurement of its own lasts: an epoch, 30 s at most, or what was asked for. */
static bench_limits limits_of(const bench_options *o)
{
    const bool asked = o->seconds > 0 || o->epochs || o->batches;
    return (bench_limits){.seconds = o->seconds > 0 ? o->seconds
                                     : o->quick     ? 2
                                     : asked        ? 0
                                                    : 30,
                          .epochs = o->epochs ? o->epochs
                                    : asked   ? 0
                                              : 1,
                          .batches = o->batches};
}

static int measure_and_print(const cli_data *data, const bench_load *load, const bench_options *o, char *const *paths, size_t n_paths)
{
    bench_result r = {0};
    fby_loader *loader = NULL;
    int code = bench_measure(data, load, o, limits_of(o), &r, &loader);
    if (code == CLI_CONTINUE)
        code = bench_print(data, loader, load, o, &r, paths, n_paths);
    if (code == CLI_OK && r.interrupted)
        code = CLI_INTERRUPTED;
    fby_loader_close(loader);
    free(r.times);
    return code;
}

static int bench(const cli_data *data, const bench_load *load, const bench_options *o, char *const *paths, size_t n_paths)
{
    if (o->compare && load->mix.n_sources)
        return cli_error(CLI_USAGE, NULL, "bench: --compare is of one data set, and the file describes a mixture");
    if (o->compare)
        return bench_compare(data, load, o, paths, n_paths);
    if (bench_settings(o) > 1)
        return bench_table(data, load, o, options, paths, n_paths);
    if (o->save || o->against)
        return bench_against(data, load, o, paths, n_paths);
    return measure_and_print(data, load, o, paths, n_paths);
}

static int bench_paths(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths)
{
    bench_load load = {0};
    int code = bench_load_columns(ds, values, &load);
    if (code == CLI_CONTINUE)
        code = bench(&(cli_data){.each = &ds, .n = 1}, &load, values, paths, n_paths);
    bench_load_free(&load);
    return code;
}

static int bench_pipeline(const bench_options *o, char *const *paths)
{
    fby_pipeline *pipeline = NULL;
    cli_data data = {0};
    bench_load load = {0};
    int code = cli_pipeline_open(&o->source, paths[0], &o->set, &pipeline);
    if (code == CLI_CONTINUE)
        code = bench_load_pipeline(pipeline, o, &data, &load);
    if (code == CLI_CONTINUE)
        code = bench(&data, &load, o, paths, 1);
    cli_data_free(&data);
    bench_load_free(&load);
    fby_pipeline_close(pipeline);
    return code;
}

static int run(const cli_command *command, int argc, char **argv)
{
    bench_options o = {.dtype = -1, .shuffle = -1, .seed = BENCH_NO_SEED, .margin = 0.1};
    char **paths;
    size_t n_paths;
    int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    if (code == CLI_CONTINUE && bench_settings(&o) > 1 && (o.save || o.against || o.compare))
        code = cli_error(CLI_USAGE, NULL, "bench: --save, --against and --compare take one setting, and there are %s",
                         cli_count(bench_settings(&o)));
    else if (code == CLI_CONTINUE && o.compare && (o.save || o.against))
        code = cli_error(CLI_USAGE, NULL, "bench: --compare is of other loaders, --save and --against of this one: give one of them");
    else if (code == CLI_CONTINUE && o.compare && o.epochs)
        code =
            cli_error(CLI_USAGE, "--seconds 10", "bench: --compare runs loaders of which not all have epochs: give --seconds or --batches");
    else if (code == CLI_CONTINUE && o.today && !o.compare)
        code = cli_error(CLI_USAGE, "--compare --today loader.py:make()", "bench: --today is a loader that --compare runs beside this one");
    else if (code == CLI_CONTINUE && bench_settings(&o) == 1 && o.runs && !o.compare && !o.save && !o.against)
        code = cli_error(CLI_USAGE, "--epochs N, or --threads 1,2 --runs N",
                         "bench: --runs is of several settings, of --compare, --save and --against: one setting is run once");
    else if (code == CLI_CONTINUE && bench_settings(&o) == 1 && o.baseline.n && !o.compare)
        code = cli_error(CLI_USAGE, "--shuffle none,superbatch --baseline shuffle=none", "bench: --baseline is of several settings");
    if (code == CLI_CONTINUE)
        bench_setting(&o, options, 0, &o);
    if (code == CLI_CONTINUE && n_paths == 1 && cli_is_pipeline(paths[0]))
        code = bench_pipeline(&o, paths);
    else if (code == CLI_CONTINUE && (o.split || o.set.n))
        code = cli_error(CLI_USAGE, "forebay bench pipeline.yaml", "bench: --split and --set are of a pipeline file");
    else if (code == CLI_CONTINUE)
        code = cli_source_use(&o.source, paths, n_paths, bench_paths, &o);
    for (size_t i = 0; i < BENCH_VARIED; i++)
        cli_list_free(&o.varied[i]);
    cli_list_free(&o.baseline);
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
                "  forebay bench basins/ --html bench.html\n"
                "  forebay bench basins/ --shuffle none,superbatch,full --memory 1GiB,4GiB     six settings side by side\n"
                "  forebay bench basins/ --compare --quick                other loaders on the same files\n"
                "  forebay bench basins.yaml --compare --today \"loader.py:make(512)\"     the loader that you have\n"
                "  forebay bench basins/ --save base.json; forebay bench basins/ --against base.json --margin 10%\n"
                "  forebay bench basins.yaml --split train                the outputs and options of a pipeline file\n",
    .notes =
        "Of paths it loads every numeric column: single values in one float32 matrix, arrays and lists each as they are stored.\n"
        "Of a pipeline file the outputs are its own; --batch-size, --shuffle, --seed, --memory, --superbatch, --streams, --threads and\n"
        "--prefetch take the place of what its section loader says. Each of them but --seed takes several values between commas: all are\n"
        "measured in turn, 5 runs each, and shown side by side: medians, and the spread (largest - smallest) / median.\n"
        "--save and --against measure in turn with a reference, work of decoding and gathering that is always the same: what else the "
        "machine\n"
        "does slows down both, and their ratio stays. It is slower when the whole 95 % interval of the ratio is beyond the margin: of "
        "samples\n"
        "a second, or of samples a second of CPU time, which hardly changes with what else runs. While that is undecided, or what is\n"
        "saved differs from itself by half the margin, more runs follow: ten times as many at most.\n"
        "--compare runs the loaders that are installed beside the Python package forebay, each in a process of its own, in turn: 3 runs "
        "of\n"
        "5 s (--quick: one of 2 s; --batches: as long as they take, 60 s at most) over the same files, for columns as they are (rows; no\n"
        "operations). --today adds a loader of yours, and is what windows, groups and operations are compared with: an expression of your\n"
        "file gives something to iterate over batches, or a function of the epoch's number that does. --baseline NAME is what the factors\n"
        "are of (default: today, PyTorch batches). What needs a copy of the data (Grain, LitData) gets one, untimed, in a temporary "
        "folder.\n"
        "Times of stages are sums over threads. CPU inside next() is what the loader costs the training thread itself.\n"
        "--json: {command, forebay, pipeline, split, samples_per_second, samples, batches, seconds, epochs,\n"
        "epoch_seconds_estimated, first_batch_seconds, open_seconds, delivered_bytes_per_second, read_bytes_per_second,\n"
        "batch_seconds: {p50, p95, p99, max}, cpu_seconds, cpu_seconds_per_million_samples, next_cpu_share, peak_rss_bytes,\n"
        "rss_before_bytes, report: {schema, limit, confidence, reason, verdict, cures: […], epochs: […], counts and times},\n"
        "batch_times: [[ns, how many], …], options: {…}, dataset: {…}, outputs: [{name, dtype, layout, shape}], left_out_columns,\n"
        "interrupted}; pipeline and split are null of paths. The report is what Python's\n"
        "report().to_json() gives, see docs/diagnosis.md.\n"
        "Of several settings: {command, forebay, dataset, comparison: {title, note, baseline, rows: [{name, samples_per_second, lowest,\n"
        "highest, factor, first_batch_seconds, cpu_seconds_per_million_samples, epoch_seconds, …}]}, report: of the fastest}.\n"
        "With --against also against: {wall: {ratio, low, high}, cpu: {…}, margin, slower}; forebay report takes all of them.\n",
    .options = options,
    .run = run,
};
