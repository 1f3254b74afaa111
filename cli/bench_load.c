/*
 * What forebay bench measures: the outputs and options of a pipeline file, or, of paths, columns. By default what a training would load:
 * numeric columns of one value a row are stacked into one float32 matrix, as a model wants them, and arrays and lists of numbers are an
 * output each, in their own dtype. Times and text join when --columns names them, or all as they are with --separate.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_dtype_names[] = {
#define DTYPE_TEXT(name, text, bytes, kind) text,
    FBY_DTYPE_LIST(DTYPE_TEXT)
#undef DTYPE_TEXT
        NULL};

enum { BATCH_SIZE = 1024, BATCH_BYTES = 256 << 20 }; /* without --batch-size: samples, and what their arrays take at most */

void bench_load_free(bench_load *load)
{
    free(load->outputs);
    free((void *)load->matrix);
    free((void *)load->singles);
}

int bench_load_error(const bench_load *load, fby_error *err)
{
    if (!load->pipeline)
        return cli_library_error(err);
    (void)fby_pipeline_locate(load->pipeline, err); /* its code */
    return cli_pipeline_error(err);
}

/* --- columns -------------------------------------------------------------------------------------------------------------------- */

static void add_output(bench_load *o, const char *const *columns, size_t n, const char *name, fby_dtype dtype)
{
    o->outputs = cli_realloc(o->outputs, (o->n_outputs + 1) * sizeof *o->outputs);
    o->outputs[o->n_outputs++] =
        (fby_output){.name = name, .columns = columns, .n_columns = n, .dtype = dtype, .keep_axis = dtype != FBY_DTYPE_NONE};
}

static void add_single(bench_load *o, const char *path)
{
    o->singles = cli_realloc((void *)o->singles, (o->n_singles + 1) * sizeof *o->singles);
    o->singles[o->n_singles++] = path;
}

static bool is_time(fby_kind kind)
{
    return kind == FBY_KIND_DATE || kind == FBY_KIND_TIME || kind == FBY_KIND_TIMESTAMP || kind == FBY_KIND_DURATION;
}

/** Arrays of any rank and lists of numbers: the bytes of a row as far as its type says, 0 for anything else. */
static uint64_t array_bytes(const fby_field *field)
{
    uint64_t n = 1;
    if (field->kind == FBY_KIND_LIST)
        field = &field->children[0];
    else
        for (; field->kind == FBY_KIND_FIXED_LIST; field = &field->children[0])
            n *= field->list_size > 0 && n < UINT32_MAX ? (uint64_t)field->list_size : 1;
    bool number = field->n_children == 0 && (field->kind == FBY_KIND_BOOL || field->kind == FBY_KIND_INT || field->kind == FBY_KIND_FLOAT);
    return number ? n * fby_dtype_bytes(field->dtype) : 0;
}

/** Leaves first to last: numbers of one value a row go into the matrix; arrays, and what is named, get an output each. */
static void choose(bench_load *o, const fby_field *field, const bench_options *options_given)
{
    bool named = options_given->columns.n > 0;
    for (uint32_t i = 0; i < field->n_children; i++) {
        const fby_field *child = &field->children[i];
        if (child->kind == FBY_KIND_STRUCT) {
            choose(o, child, options_given);
            continue;
        }
        if (!cli_list_match(&options_given->columns, child->path))
            continue;
        bool number = child->n_children == 0 && child->dtype != FBY_DTYPE_NONE;
        if (number && (named || !is_time(child->kind))) {
            o->matrix = cli_realloc(o->matrix, (o->n_matrix + 1) * sizeof *o->matrix);
            o->matrix[o->n_matrix++] = child->path;
        } else if (named || array_bytes(child)) {
            add_single(o, child->path);
            o->row_bytes += array_bytes(child);
        } else {
            o->left_out++;
        }
    }
}

/** All columns below a field that --columns names, one output each. */
static void choose_separate(bench_load *o, const fby_field *field, const cli_list *patterns)
{
    for (uint32_t i = 0; i < field->n_children; i++) {
        const fby_field *child = &field->children[i];
        if (child->kind == FBY_KIND_STRUCT) {
            choose_separate(o, child, patterns);
        } else if (cli_list_match(patterns, child->path)) {
            add_single(o, child->path);
        }
    }
}

static bool has_single(const bench_load *o, const char *name)
{
    for (size_t i = 0; i < o->n_singles; i++)
        if (strcmp(o->singles[i], name) == 0)
            return true;
    return false;
}

/** "x", or "x2" and so on where an array has that name. */
static const char *name_matrix(bench_load *o)
{
    (void)snprintf(o->matrix_name, sizeof o->matrix_name, "x");
    for (size_t n = 2; has_single(o, o->matrix_name); n++)
        (void)snprintf(o->matrix_name, sizeof o->matrix_name, "x%zu", n);
    return o->matrix_name;
}

/* --- options -------------------------------------------------------------------------------------------------------------------- */

static int parse_superbatch(const char *text, fby_loader_opts *opts)
{
    if (!text)
        return CLI_CONTINUE;
    opts->superbatch_samples = opts->superbatch_blocks = opts->superbatch_bytes = 0;
    if (cli_parse_count(text, &opts->superbatch_samples) || fby_loader_opts_parse("superbatch", text, opts, NULL) == FBY_OK)
        return CLI_CONTINUE;
    return cli_error(CLI_USAGE, NULL,
                     "--superbatch does not take '%s': it is samples (100000), blocks (64blocks) or bytes as stored (512MiB)", text);
}

int bench_apply_options(const bench_options *o, fby_loader_opts *opts)
{
    static const fby_shuffle_kind shuffles[] = {FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_FULL, FBY_SHUFFLE_BLOCK, FBY_SHUFFLE_NONE};
    if (o->batch_size)
        opts->batch_size = o->batch_size;
    if (o->shuffle >= 0)
        opts->shuffle = shuffles[o->shuffle];
    if (o->seed != BENCH_NO_SEED)
        opts->seed = o->seed;
    if (o->memory.given) {
        opts->memory_bytes = o->memory.bytes;
        opts->memory_fraction = o->memory.fraction;
        opts->memory_all = o->memory.all;
    }
    if (o->streams)
        opts->streams = (uint32_t)(o->streams < UINT32_MAX ? o->streams : UINT32_MAX);
    if (o->threads)
        opts->n_threads = (int)(o->threads < 4096 ? o->threads : 4096);
    if (o->prefetch)
        opts->prefetch_batches = (uint32_t)(o->prefetch < UINT32_MAX ? o->prefetch : UINT32_MAX);
    return parse_superbatch(o->superbatch, opts);
}

int bench_load_columns(fby_dataset *ds, const bench_options *o, bench_load *out)
{
    *out = (bench_load){.opts = {FBY_LOADER_SIZES, .batch_size = BATCH_SIZE}};
    int code;
    if (o->separate)
        choose_separate(out, fby_dataset_schema(ds), &o->columns);
    else
        choose(out, fby_dataset_schema(ds), o);
    while (out->opts.batch_size > 1 && out->row_bytes > BATCH_BYTES / out->opts.batch_size)
        out->opts.batch_size /= 2;
    if ((code = bench_apply_options(o, &out->opts)) != CLI_CONTINUE)
        return code;
    if (out->n_matrix) {
        out->dtype = o->dtype >= 0 ? bench_dtype_names[o->dtype] : "float32";
        add_output(out, out->matrix, out->n_matrix, name_matrix(out), fby_dtype_from_name(out->dtype));
    }
    for (size_t i = 0; i < out->n_singles; i++)
        add_output(out, &out->singles[i], 1, out->singles[i], FBY_DTYPE_NONE);
    if (out->n_outputs == 0 && (o->columns.n || o->separate))
        return cli_error(CLI_USAGE, "forebay inspect PATH for the names", "no column matches --columns");
    if (out->n_outputs == 0)
        out->left_out = 0; /* no numbers to make a matrix of: the library's choice, a tensor for every column that can be one */
    out->opts.outputs = out->outputs;
    out->opts.n_outputs = out->n_outputs;
    return CLI_CONTINUE;
}

int bench_load_pipeline(fby_pipeline *pipeline, const bench_options *o, cli_data *out_data, bench_load *out)
{
    fby_error err = {0};
    *out = (bench_load){.pipeline = pipeline, .opts = {FBY_LOADER_SIZES}, .mix = {.size = sizeof out->mix}};
    if (o->columns.n || o->separate || o->dtype >= 0)
        return cli_error(CLI_USAGE, "--set outputs.x.columns=[a, b]",
                         "the outputs of a pipeline file are its own: --columns, --separate and "
                         "--dtype are of paths");
    out->split = cli_split(pipeline, o->split);
    if (cli_data_of(pipeline, out_data, &err) != FBY_OK || fby_pipeline_loader_opts(pipeline, out->split, &out->opts, &err) != FBY_OK ||
        (fby_pipeline_source(pipeline, 0, NULL) && fby_pipeline_mix(pipeline, out->split, &out->mix, &err) != FBY_OK)) {
        cli_progress_end();
        return cli_pipeline_error(&err);
    }
    cli_progress_end();
    return bench_apply_options(o, &out->opts);
}
