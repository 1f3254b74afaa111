/*
 * forebay plan: what a pipeline file, or data with the outputs that bench would load, gives before anything is trained on it. Shapes,
 * counts, memory, mixing, and the first batch described.
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan_options {
    bool no_batch;
    const char *split, *superbatch;
    uint64_t batch_size;
    cli_memory_size memory;
    cli_list set, columns;
    cli_source source;
} plan_options;

static const cli_option options[] = {
    {"split", 's', CLI_TEXT, offsetof(plan_options, split), "NAME",
     "the split to load (default: the one the section loader names, else the first)", NULL},
    {"set", 0, CLI_EACH, offsetof(plan_options, set), "KEY=VALUE", "another value than the file's: loader.batch_size=64", NULL},
    {"no-batch", 0, CLI_FLAG, offsetof(plan_options, no_batch), NULL, "take no batch: no sample data is read", NULL},
    {"columns", 'c', CLI_LIST, offsetof(plan_options, columns), "NAMES", "of data: only these columns, as of bench", NULL},
    {"batch-size", 'b', CLI_COUNT, offsetof(plan_options, batch_size), "N",
     "of data: samples a batch (default: 1024, fewer of large arrays)", NULL},
    {"memory", 'm', CLI_MEMORY, offsetof(plan_options, memory), "SIZE", "of data: the budget, of opening and of the loader", NULL},
    {"superbatch", 0, CLI_TEXT, offsetof(plan_options, superbatch), "N",
     "of data: samples mixed with each other: 100000, 64blocks or 512MiB", NULL},
    CLI_SOURCE_OPTIONS(plan_options),
};

/* --- the first batch ------------------------------------------------------------------------------------------------------------- */

/** What a tensor of the batch holds. */
typedef struct summary {
    uint64_t n, n_missing; /* n: values that the others are of */
    double min, mean, max;
} summary;

static double half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double mantissa = h & 1023;
    double value = exponent == 0    ? ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa != 0 ? (double)NAN : (double)INFINITY)
                                    : ldexp(mantissa + 1024, exponent - 25);
    return h & 0x8000 ? -value : value;
}

static double brain(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double value_at(const fby_tensor *t, size_t i)
{
    switch (t->dtype) {
    case FBY_BOOL:
    case FBY_UINT8: return ((const uint8_t *)t->data)[i];
    case FBY_INT8: return ((const int8_t *)t->data)[i];
    case FBY_INT16: return ((const int16_t *)t->data)[i];
    case FBY_INT32: return ((const int32_t *)t->data)[i];
    case FBY_INT64: return (double)((const int64_t *)t->data)[i];
    case FBY_UINT16: return ((const uint16_t *)t->data)[i];
    case FBY_UINT32: return ((const uint32_t *)t->data)[i];
    case FBY_UINT64: return (double)((const uint64_t *)t->data)[i];
    case FBY_FLOAT16: return half(((const uint16_t *)t->data)[i]);
    case FBY_BFLOAT16: return brain(((const uint16_t *)t->data)[i]);
    case FBY_FLOAT32: return (double)((const float *)t->data)[i];
    case FBY_FLOAT64: return ((const double *)t->data)[i];
    default: return (double)NAN;
    }
}

static summary summarize(const fby_tensor *t)
{
    summary s = {.min = (double)INFINITY, .max = -(double)INFINITY};
    double sum = 0;
    size_t n = t->bytes / fby_dtype_bytes(t->dtype);
    for (size_t i = 0; i < n; i++) {
        double v = value_at(t, i);
        if (isnan(v)) {
            s.n_missing++;
            continue;
        }
        s.n++;
        s.min = v < s.min ? v : s.min;
        s.max = v > s.max ? v : s.max;
        sum += v;
    }
    s.mean = sum / (double)s.n;
    return s;
}

static void add_shape(cli_text *text, const int64_t *shape, int32_t ndim, int64_t unknown)
{
    cli_text_add(text, "(");
    for (int32_t d = 0; d < ndim; d++) {
        if (d)
            cli_text_add(text, ", ");
        if (shape[d] == unknown)
            cli_text_add(text, d == 0 ? "ΣL" : "L");
        else
            cli_text_addf(text, "%lld", (long long)shape[d]);
    }
    cli_text_add(text, ndim == 1 ? ",)" : ")");
}

/** Bytes of everything in the batch that belongs to an output. */
static uint64_t bytes_of(const fby_batch *batch, const char *output)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fby_batch_tensor_count(batch); i++)
        if (strcmp(fby_batch_tensor(batch, i)->output, output) == 0)
            bytes += fby_batch_tensor(batch, i)->bytes;
    return bytes;
}

const char *cli_layout_name(const fby_output_info *info)
{
    return info->text ? "text" : info->layout == FBY_LAYOUT_RAGGED ? "packed" : info->layout == FBY_LAYOUT_PADDED ? "padded" : "dense";
}

/* --- what is printed ----------------------------------------------------------------------------------------------------------------- */

/** Everything that was found out, before a line of it is printed. */
typedef struct plan {
    const char *path, *split;
    cli_data data;
    const fby_samples *all; /* NULL: of a mixture, whose sources each have samples */
    fby_loader *loader;
    fby_loader_opts opts;
    fby_report report;
    fby_batch *batch; /* NULL: not asked for, or the epoch is empty */
    json_t *notes;    /* sentences: of the samples, those of each source of a mixture, and of the outputs */
} plan;

static const char *kind_name(const fby_samples *samples)
{
    static const char *const kinds[] = {"rows", "windows", "groups"};
    const fby_sample_kind kind = fby_samples_kind(samples);
    return (unsigned)kind < 3 ? kinds[kind] : "samples";
}

static void print_samples(fby_pipeline *p, const plan *found)
{
    const fby_sample_kind kind = fby_samples_kind(found->all);
    printf("  samples     %s %s", cli_count(fby_samples_count(found->all)), kind_name(found->all));
    if (fby_samples_max_rows(found->all) > 1)
        printf(" of %s%s rows", kind == FBY_SAMPLES_GROUPS ? "up to " : "", cli_count(fby_samples_max_rows(found->all)));
    const char *split;
    for (size_t i = 0; p && (split = fby_pipeline_split(p, i)); i++) {
        fby_samples *samples;
        if (fby_pipeline_samples(p, split, &samples, NULL) == FBY_OK)
            printf("%s%s%s%s %s", i ? ", " : ": ", found->split && strcmp(found->split, split) == 0 ? cli_bold : "", cli_printable(split),
                   cli_plain, cli_count(fby_samples_count(samples)));
    }
    printf("\n");
}

/** source: NULL = there is one alone. */
static void add_notes_on(json_t *notes, const char *source, const fby_samples *samples)
{
    const char *note;
    cli_text text = {0};
    for (size_t i = 0; (note = fby_samples_note(samples, i)); i++) {
        cli_text_clear(&text);
        if (source)
            cli_text_addf(&text, "source '%s': ", source);
        cli_text_add(&text, note);
        json_array_append_new(notes, cli_json_text(cli_text_str(&text)));
    }
    cli_text_free(&text);
}

/** p: NULL = data without a pipeline file. */
static json_t *notes_of(fby_pipeline *p, const plan *found)
{
    json_t *notes = json_array();
    const char *name, *note;
    fby_pipeline *source;
    fby_samples *samples;
    if (found->all)
        add_notes_on(notes, NULL, found->all);
    for (size_t i = 0; p && (source = fby_pipeline_source(p, i, &name)); i++)
        if (fby_pipeline_samples(source, NULL, &samples, NULL) == FBY_OK)
            add_notes_on(notes, name, samples);
    for (size_t i = 0; (note = fby_loader_note(found->loader, i)); i++)
        json_array_append_new(notes, cli_json_text(note));
    return notes;
}

/** "0 to 364 of 372", "371 of 372", or nothing. */
static void add_steps(cli_table *table, const plan *found, const fby_output_info *info)
{
    const unsigned long long begin = info->step_begin, end = info->step_end, all = fby_samples_max_rows(found->all);
    if (end == 0)
        cli_table_add(table, "");
    else if (end - begin == 1)
        cli_table_addf(table, "%llu of %llu", begin, all);
    else
        cli_table_addf(table, "%llu to %llu of %llu", begin, end - 1, all);
}

static void print_outputs(const plan *found)
{
    const bool windows = found->all && fby_samples_kind(found->all) == FBY_SAMPLES_WINDOWS;
    cli_table table;
    cli_table_init(&table, 4 + (size_t)windows + (found->batch != NULL));
    if (found->batch)
        cli_table_right(&table, 4 + (size_t)windows);
    cli_table_add(&table, "output");
    cli_table_add(&table, "dtype");
    cli_table_add(&table, "layout");
    cli_table_add(&table, "shape");
    if (windows)
        cli_table_add(&table, "steps");
    if (found->batch)
        cli_table_add(&table, "bytes a batch");
    cli_text text = {0};
    for (size_t i = 0; i < fby_loader_output_count(found->loader); i++) {
        fby_output_info info = {.size = sizeof info};
        if (fby_loader_output(found->loader, i, &info, NULL) != FBY_OK)
            continue;
        cli_table_add(&table, info.name);
        cli_table_add(&table, fby_dtype_name(info.dtype));
        cli_table_add(&table, cli_layout_name(&info));
        cli_text_clear(&text);
        add_shape(&text, info.shape, info.ndim, -1);
        cli_table_add(&table, cli_text_str(&text));
        if (windows)
            add_steps(&table, found, &info);
        if (found->batch)
            cli_table_add(&table, cli_size(bytes_of(found->batch, info.name)));
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    cli_text_free(&text);
    for (size_t i = 0; i < json_array_size(found->notes); i++)
        printf("%s  note: %s\n", i ? "" : "\n", json_string_value(json_array_get(found->notes, i)));
}

static void print_batch(const plan *found)
{
    cli_table table;
    cli_text text = {0};
    cli_table_init(&table, 7);
    static const char *const heads[] = {"first batch", "role", "shape", "min", "mean", "max", "missing"};
    for (size_t i = 0; i < 7; i++) {
        cli_table_add(&table, heads[i]);
        if (i > 2)
            cli_table_right(&table, i);
    }
    for (size_t i = 0; i < fby_batch_tensor_count(found->batch); i++) {
        const fby_tensor *t = fby_batch_tensor(found->batch, i);
        summary s = summarize(t);
        cli_table_add(&table, t->output);
        cli_table_add(&table, t->role);
        cli_text_clear(&text);
        add_shape(&text, t->shape, t->ndim, INT64_MIN);
        cli_table_add(&table, cli_text_str(&text));
        for (int k = 0; k < 3; k++) {
            if (s.n)
                cli_table_addf(&table, "%.5g", k == 0 ? s.min : k == 1 ? s.mean : s.max);
            else
                cli_table_add(&table, "");
        }
        if (s.n_missing)
            cli_table_addf(&table, "%.2f %%", 100 * (double)s.n_missing / (double)(s.n + s.n_missing));
        else
            cli_table_add(&table, "");
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    cli_text_free(&text);
}

/* Is there a padded output of groups? With other samples only lists are padded, each inside one row. */
static bool pads(const plan *found)
{
    fby_output_info info = {.size = sizeof info};
    for (size_t i = 0; found->all && fby_samples_kind(found->all) == FBY_SAMPLES_GROUPS && i < fby_loader_output_count(found->loader); i++)
        if (fby_loader_output(found->loader, i, &info, NULL) == FBY_OK && info.layout == FBY_LAYOUT_PADDED)
            return true;
    return false;
}

static int print_text(fby_pipeline *p, const plan *found)
{
    const fby_report *report = &found->report;
    uint64_t files = cli_data_files(&found->data), blocks = cli_data_blocks(&found->data), batches = fby_loader_batch_count(found->loader);
    printf("%s%s%s\n", cli_bold, cli_printable(found->path), cli_plain);
    printf("  data        %s %s, %s rows, %s %s, %s stored\n", cli_count(files), files == 1 ? "file" : "files",
           cli_count(cli_data_rows(&found->data)), cli_count(blocks), blocks == 1 ? "block" : "blocks",
           cli_size(cli_data_stored_bytes(&found->data)));
    if (found->all)
        print_samples(p, found);
    printf("  epoch       %s%s%s samples in %s %s of %s\n", found->split ? cli_printable(found->split) : "", found->split ? ": " : "",
           cli_count(fby_loader_sample_count(found->loader)), cli_count(batches), batches == 1 ? "batch" : "batches",
           cli_count(found->opts.batch_size));
    printf("  order       shuffle %s, seed %llu, superbatch %s samples, %u stream%s\n", cli_shuffle_name(found->opts.shuffle),
           (unsigned long long)found->opts.seed, cli_count(report->superbatch_samples), report->streams, report->streams == 1 ? "" : "s");
    printf("  memory      budget %s, at least %s; the limit is %s\n", cli_memory(report->budget_bytes),
           cli_memory(report->budget_minimum_bytes), report->memory_limit);
    if (report->mixing[0])
        printf("  mixing      %s\n", report->mixing);
    if (pads(found))
        printf("  padding     %.1f %% of the rows of padded outputs\n", 100 * report->padding);
    printf("\n");
    if (!found->all)
        cli_plan_sources_print(&found->data, found->loader);
    print_outputs(found);
    if (found->batch) {
        printf("\n");
        print_batch(found);
    }
    return CLI_OK;
}

static json_t *shape_json(const int64_t *shape, int32_t ndim)
{
    json_t *list = json_array();
    for (int32_t d = 0; d < ndim; d++)
        json_array_append_new(list, json_integer(shape[d]));
    return list;
}

/** NaN and infinities have no JSON. */
static json_t *number_json(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static int print_json(fby_pipeline *p, const plan *found)
{
    const fby_report *report = &found->report;
    json_t *root = json_object(), *splits = found->all ? json_object() : NULL, *outputs = json_array();
    const char *split;
    for (size_t i = 0; p && found->all && (split = fby_pipeline_split(p, i)); i++) {
        fby_samples *samples;
        if (fby_pipeline_samples(p, split, &samples, NULL) == FBY_OK)
            json_object_set_new(splits, split, json_integer((json_int_t)fby_samples_count(samples)));
    }
    for (size_t i = 0; i < fby_loader_output_count(found->loader); i++) {
        fby_output_info info = {.size = sizeof info};
        if (fby_loader_output(found->loader, i, &info, NULL) != FBY_OK)
            continue;
        json_t *output = json_pack("{s:o, s:s, s:s, s:o}", "name", cli_json_text(info.name), "dtype", fby_dtype_name(info.dtype), "layout",
                                   cli_layout_name(&info), "shape", shape_json(info.shape, info.ndim));
        if (info.step_end)
            json_object_set_new(output, "steps", json_pack("[I, I]", (json_int_t)info.step_begin, (json_int_t)info.step_end));
        if (found->batch)
            json_object_set_new(output, "bytes", json_integer((json_int_t)bytes_of(found->batch, info.name)));
        json_array_append_new(outputs, output);
    }
    json_object_set_new(root, "command", json_string("plan"));
    json_object_set_new(root, "forebay", json_string(fby_version()));
    json_object_set_new(root, "pipeline", p ? cli_json_text(found->path) : json_null());
    json_object_set_new(root, "split", found->split ? cli_json_text(found->split) : json_null());
    json_object_set_new(root, "data",
                        json_pack("{s:I, s:I, s:I, s:I}", "files", (json_int_t)cli_data_files(&found->data), "rows",
                                  (json_int_t)cli_data_rows(&found->data), "blocks", (json_int_t)cli_data_blocks(&found->data),
                                  "stored_bytes", (json_int_t)cli_data_stored_bytes(&found->data)));
    if (found->all)
        json_object_set_new(root, "samples",
                            json_pack("{s:s, s:I, s:I, s:o}", "kind", kind_name(found->all), "count",
                                      (json_int_t)fby_samples_count(found->all), "max_rows", (json_int_t)fby_samples_max_rows(found->all),
                                      "splits", splits));
    else
        json_object_set_new(root, "sources", cli_plan_sources_json(&found->data, found->loader));
    json_object_set_new(root, "epoch",
                        json_pack("{s:I, s:I, s:I}", "samples", (json_int_t)fby_loader_sample_count(found->loader), "batches",
                                  (json_int_t)fby_loader_batch_count(found->loader), "batch_size", (json_int_t)found->opts.batch_size));
    json_object_set_new(root, "order",
                        json_pack("{s:s, s:I, s:I, s:i}", "shuffle", cli_shuffle_name(found->opts.shuffle), "seed",
                                  (json_int_t)found->opts.seed, "superbatch_samples", (json_int_t)report->superbatch_samples, "streams",
                                  (int)report->streams));
    json_object_set_new(root, "budget",
                        json_pack("{s:I, s:I, s:I, s:s}", "bytes", (json_int_t)report->budget_bytes, "minimum_bytes",
                                  (json_int_t)report->budget_minimum_bytes, "limit_bytes", (json_int_t)report->memory_limit_bytes, "limit",
                                  report->memory_limit));
    json_object_set_new(root, "mixing",
                        json_pack("{s:f, s:f, s:f, s:f}", "same_block", report->same_block, "same_block_uniform",
                                  report->same_block_uniform, "entropy_bits", report->entropy_bits, "entropy_bits_uniform",
                                  report->entropy_bits_uniform));
    json_object_set_new(root, "padding", pads(found) ? json_real(report->padding) : json_null());
    json_object_set_new(root, "outputs", outputs);
    json_object_set(root, "notes", found->notes);
    if (found->batch) {
        json_t *tensors = json_array();
        for (size_t i = 0; i < fby_batch_tensor_count(found->batch); i++) {
            const fby_tensor *t = fby_batch_tensor(found->batch, i);
            summary s = summarize(t);
            json_array_append_new(tensors,
                                  json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:f}", "output", cli_json_text(t->output), "role", t->role,
                                            "shape", shape_json(t->shape, t->ndim), "min", s.n ? number_json(s.min) : json_null(), "mean",
                                            s.n ? number_json(s.mean) : json_null(), "max", s.n ? number_json(s.max) : json_null(),
                                            "missing", s.n + s.n_missing ? (double)s.n_missing / (double)(s.n + s.n_missing) : 0.0));
        }
        json_object_set_new(root, "first_batch", tensors);
    }
    return cli_print_json(root, 9);
}

/*
 * --- finding it out ---------------------------------------------------------------------------------------------------------------------
 */

static fby_status open_pipeline(fby_pipeline *p, const plan_options *o, plan *found, fby_error *err)
{
    fby_status status;
    found->opts = (fby_loader_opts){FBY_LOADER_SIZES};
    found->split = cli_split(p, o->split);
    fby_samples *all = NULL;
    if ((status = cli_data_of(p, &found->data, err)) != FBY_OK ||
        (!fby_pipeline_source(p, 0, NULL) && (status = fby_pipeline_samples(p, NULL, &all, err)) != FBY_OK) ||
        (status = fby_pipeline_loader_opts(p, found->split, &found->opts, err)) != FBY_OK ||
        (status = fby_pipeline_loader(p, found->split, &found->loader, err)) != FBY_OK)
        return status;
    found->all = all;
    const char *split;
    fby_samples *samples;
    for (size_t i = 0; all && (split = fby_pipeline_split(p, i)); i++) /* all of them, so that printing their counts cannot fail */
        if ((status = fby_pipeline_samples(p, split, &samples, err)) != FBY_OK)
            return status;
    return FBY_OK;
}

static fby_status look(const plan_options *o, plan *found, fby_error *err)
{
    found->report.size = sizeof found->report;
    if (!o->no_batch) {
        fby_status status = fby_loader_next(found->loader, -1, &found->batch, err);
        if (status != FBY_OK && status != FBY_END)
            return status;
    }
    return fby_loader_report(found->loader, &found->report, err);
}

static int print(fby_pipeline *p, const plan_options *o, plan *found)
{
    found->notes = notes_of(p, found);
    const int code = o->source.json ? print_json(p, found) : print_text(p, found);
    json_decref(found->notes);
    return code;
}

static int plan_pipeline(const plan_options *o, const char *path)
{
    fby_error err = {0};
    fby_pipeline *p = NULL;
    plan found = {.path = path};
    if (o->columns.n || o->batch_size || o->memory.given || o->superbatch)
        return cli_error(CLI_USAGE, "--set loader.batch_size=64",
                         "plan: --columns, --batch-size, --memory and --superbatch are of data; a pipeline file says its own");
    int code = cli_pipeline_open(&o->source, path, &o->set, &p);
    if (code != CLI_CONTINUE)
        return code;
    fby_status status = open_pipeline(p, o, &found, &err);
    if (status == FBY_OK && (status = look(o, &found, &err)) != FBY_OK)
        (void)fby_pipeline_locate(p, &err);
    cli_progress_end();
    code = status == FBY_OK ? print(p, o, &found) : cli_pipeline_error(&err);
    fby_batch_unref(found.batch);
    fby_loader_close(found.loader);
    cli_data_free(&found.data);
    fby_pipeline_close(p);
    return code;
}

/** Data without a pipeline file: their rows, and the outputs that bench would load. */
static int plan_data(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths)
{
    (void)n_paths;
    const plan_options *o = values;
    const bench_options as_bench = {.dtype = -1,
                                    .shuffle = -1,
                                    .seed = BENCH_NO_SEED,
                                    .columns = o->columns,
                                    .batch_size = o->batch_size,
                                    .memory = o->memory,
                                    .superbatch = o->superbatch};
    const fby_samples_opts rows = {.size = sizeof rows, .kind = FBY_SAMPLES_ROWS};
    bench_load load = {0};
    plan found = {.path = paths[0], .data = {.each = &ds, .n = 1}};
    fby_samples *all = NULL;
    fby_error err = {0};
    int code = bench_load_columns(ds, &as_bench, &load);
    if (code == CLI_CONTINUE) {
        found.opts = load.opts;
        const fby_status opened = fby_samples_open(ds, &rows, &all, &err);
        found.all = all;
        if (opened != FBY_OK || fby_loader_open(ds, &load.opts, &found.loader, &err) != FBY_OK || look(o, &found, &err) != FBY_OK)
            code = cli_library_error(&err);
        else
            code = print(NULL, o, &found);
    }
    fby_batch_unref(found.batch);
    fby_loader_close(found.loader);
    fby_samples_close(all);
    bench_load_free(&load);
    return code;
}

static int run(const cli_command *command, int argc, char **argv)
{
    plan_options o = {0};
    char **paths;
    size_t n_paths, n_pipelines = 0;
    int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    for (size_t i = 0; code == CLI_CONTINUE && i < n_paths; i++)
        n_pipelines += cli_is_pipeline(paths[i]);
    if (code == CLI_CONTINUE && n_pipelines && n_paths != 1)
        code = cli_error(CLI_USAGE, "forebay plan pipeline.yaml", "plan: one pipeline file is expected alone, and %s paths are given",
                         cli_count(n_paths));
    else if (code == CLI_CONTINUE && n_pipelines)
        code = plan_pipeline(&o, paths[0]);
    else if (code == CLI_CONTINUE && (o.split || o.set.n))
        code = cli_error(CLI_USAGE, "forebay plan pipeline.yaml",
                         "plan: --split and --set are of a pipeline file, whose name ends in .yaml or .yml");
    else if (code == CLI_CONTINUE) {
        o.source.memory = o.memory.bytes;
        code = cli_source_use(&o.source, paths, n_paths, plan_data, &o);
    }
    cli_list_free(&o.set);
    cli_list_free(&o.columns);
    return code;
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "what a pipeline file or data give: shapes, counts, memory, the first batch",
    .synopsis = "PIPELINE.yaml | PATH… [options]",
    .examples = "  forebay plan basins.yaml\n"
                "  forebay plan basins.yaml --split test --set loader.batch_size=64\n"
                "  forebay plan basins.yaml --no-batch --json | jq .budget\n"
                "  forebay plan basins/ --batch-size 256                  data: rows, and every numeric column as an output\n",
    .notes = "A name that ends in .yaml or .yml is a pipeline file, all else is data. docs/pipelines.md has every key.\n"
             "Lookups are read and moments are fitted, as for training. Of the first\n"
             "batch: least, mean and greatest value of each tensor, and the share that is NaN.\n"
             "--json: {command, forebay, pipeline, split, data: {files, rows, blocks, stored_bytes}, samples: {kind, count, max_rows,\n"
             "splits: {name: count}} or, of a mixture, sources: [{name, files,\n"
             "rows, samples, left, passes, samples_per_batch, files_per_batch, padding}], epoch: {samples, batches, batch_size}, order: "
             "{shuffle, seed, superbatch_samples, streams},\n"
             "budget: {bytes, minimum_bytes, limit_bytes, limit}, mixing: {…}, padding, outputs: [{name, dtype, layout, shape, steps,\n"
             "bytes}], notes: [text], first_batch: [{output, role, shape, min, mean, max, missing}]};\n"
             "padding is its share of the rows of padded outputs, null without any;\n"
             "-1 in a shape is known with each batch, steps are of windows.\n",
    .options = options,
    .run = run,
};
