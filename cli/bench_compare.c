/*
 * forebay bench --compare: the loader beside others, on the same files. Those are Python, and so is what measures them (python/forebay/_bench.py):
 * this says what is to be loaded, and becomes the interpreter.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCHES_SECONDS 60.0 /* with --batches alone: a run that is slower than that has fewer */

/* What else there is in an output, beyond columns as they are, others would have to be programmed for. */
static const char *beyond_columns(const fby_output *o)
{
    return o->from != FBY_FROM_COLUMNS                                                       ? "is not made of columns"
           : o->make                                                                         ? "is computed"
           : o->n_ops || o->column_ops                                                       ? "has operations"
           : o->n_after                                                                      ? "has operations when a batch is built"
           : o->n_reshape                                                                    ? "has another shape than its column"
           : o->layout == FBY_LAYOUT_RAGGED || o->layout == FBY_LAYOUT_PADDED || o->max_rows ? "has samples of varying length"
                                                                                             : NULL;
}

/* Whether others would have to be programmed for what is loaded; then *why says for what. */
static bool is_beyond(const bench_load *load, cli_text *why)
{
    if (load->opts.samples && fby_samples_kind(load->opts.samples) != FBY_SAMPLES_ROWS) {
        cli_text_addf(why, "samples are not rows");
        return true;
    }
    for (size_t i = 0; i < load->opts.n_outputs; i++) {
        const char *beyond = beyond_columns(&load->opts.outputs[i]);
        if (beyond) {
            cli_text_addf(why, "output '%s' %s", load->opts.outputs[i].name, beyond);
            return true;
        }
    }
    return false;
}

/* What others are to give: nothing, where only the user's own loader gives it. */
static int add_outputs(const bench_load *load, const char *today, json_t *spec)
{
    json_t *outputs = json_array();
    cli_text why = {0};
    const bool beyond = is_beyond(load, &why);
    int code = CLI_CONTINUE;
    json_object_set_new(spec, "outputs", outputs);
    json_object_set_new(spec, "beyond", beyond ? cli_json_text(cli_text_str(&why)) : json_null());
    if (beyond && !today)
        code =
            cli_error(CLI_USAGE, "give the loader that you have: --today \"loader.py:make()\"",
                      "bench: --compare takes rows of columns as they are, which other loaders can give as well; %s", cli_text_str(&why));
    cli_text_free(&why);
    if (beyond)
        return code;
    for (size_t i = 0; i < load->opts.n_outputs; i++) {
        const fby_output *o = &load->opts.outputs[i];
        const bool matrix = o->n_columns > 1 || o->keep_axis;
        const char *dtype = o->dtype != FBY_DTYPE_NONE ? fby_dtype_name(o->dtype) : matrix ? "float32" : NULL;
        json_t *columns = json_array();
        for (size_t k = 0; k < o->n_columns; k++)
            json_array_append_new(columns, cli_json_text(o->columns[k]));
        json_array_append_new(outputs, json_pack("{s:o, s:o, s:s?, s:b}", "name", cli_json_text(o->name), "columns", columns, "dtype",
                                                 dtype, "matrix", (int)matrix));
    }
    return load->opts.n_outputs ? CLI_CONTINUE
                                : cli_error(CLI_USAGE, "--columns NAMES", "bench: --compare found no numeric columns to load");
}

static int add_files(const fby_dataset *ds, json_t *spec)
{
    json_t *files = json_array();
    const char *format = NULL;
    fby_error err = {0};
    json_object_set_new(spec, "files", files);
    for (uint64_t i = 0; i < fby_dataset_file_count(ds); i++) {
        fby_file_info file = {.size = sizeof file};
        if (fby_dataset_file(ds, i, &file, &err) != FBY_OK)
            return cli_library_error(&err);
        if (format && strcmp(format, file.format) != 0)
            return cli_error(CLI_USAGE, NULL, "bench: --compare takes files of one format, and there are %s and %s", format, file.format);
        format = file.format;
        json_array_append_new(files, cli_json_text(file.path));
    }
    json_object_set_new(spec, "format", json_string(format ? format : ""));
    return CLI_CONTINUE;
}

/** Options of the loader, as Python takes them. */
static json_t *options_json(const fby_loader_opts *o)
{
    json_t *all = json_pack("{s:I}", "batch_size", (json_int_t)o->batch_size);
    if (o->shuffle == FBY_SHUFFLE_NONE)
        json_object_set_new(all, "shuffle", json_false());
    else
        json_object_set_new(all, "shuffle", json_string(cli_shuffle_name(o->shuffle)));
    cli_text text = {0};
    if (o->memory_bytes)
        json_object_set_new(all, "memory", json_integer((json_int_t)o->memory_bytes));
    else if (o->memory_all || o->memory_fraction > 0) {
        cli_text_addf(&text, o->memory_all ? "all" : "%g%%", 100 * o->memory_fraction);
        json_object_set_new(all, "memory", json_string(cli_text_str(&text)));
    }
    cli_text_clear(&text);
    if (o->superbatch_samples)
        json_object_set_new(all, "superbatch", json_integer((json_int_t)o->superbatch_samples));
    else if (o->superbatch_blocks || o->superbatch_bytes) {
        cli_text_addf(&text, "%llu %s", (unsigned long long)(o->superbatch_blocks ? o->superbatch_blocks : o->superbatch_bytes),
                      o->superbatch_blocks ? "blocks" : "B");
        json_object_set_new(all, "superbatch", json_string(cli_text_str(&text)));
    }
    cli_text_free(&text);
    if (o->n_threads)
        json_object_set_new(all, "threads", json_integer(o->n_threads));
    if (o->prefetch_batches)
        json_object_set_new(all, "prefetch", json_integer((json_int_t)o->prefetch_batches));
    return all;
}

static json_t *texts_json(char *const *texts, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, cli_json_text(texts[i]));
    return list;
}

/** The interpreter beside the command, where a virtual environment has both; else the one on the path. */
static void become_python(FILE *spec)
{
    static const char start[] =
        "import sys\n"
        "try:\n"
        "    from forebay._bench import main\n"
        "except ImportError as error:\n"
        "    sys.exit(f'forebay: error: --compare needs the Python package forebay: {error}\\n  try: pip install forebay torch, in '\n"
        "             f'the environment of {sys.executable}')\n"
        "sys.exit(main())\n";
    char path[4096] = "";
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "python3");
    char *slash = n > 0 ? strrchr(path, '/') : NULL;
    (void)fflush(stdout); /* nothing is in it */
    if (dup2(fileno(spec), STDIN_FILENO) < 0)
        return;
    if (slash) {
        strcpy(slash + 1, "python3");
        (void)execl(path, path, "-c", start, (char *)NULL); /* there may be none */
    }
    (void)execlp("python3", "python3", "-c", start, (char *)NULL); /* as its caller says */
}

/* How the files are opened, as fb.open() takes it. */
static json_t *open_json(const cli_source *s)
{
    uint64_t axis;
    json_t *all = json_pack("{s:s, s:s, s:s, s:b, s:b}", "io", cli_words(FBY_OPTIONS_OPEN, "io")[s->io], "missing_columns",
                            cli_words(FBY_OPTIONS_OPEN, "missing-columns")[s->missing_columns], "missing_sources",
                            cli_words(FBY_OPTIONS_OPEN, "missing-sources")[s->missing_sources], "immutable", (int)s->immutable,
                            "stored_values", (int)s->stored_values);
    if (s->no_cache || s->cache_dir)
        json_object_set_new(all, "cache_dir", cli_json_text(s->no_cache ? "" : s->cache_dir));
    if (s->table)
        json_object_set_new(all, "table", cli_json_text(s->table));
    if (s->axis)
        json_object_set_new(all, "axis", cli_parse_count(s->axis, &axis) ? json_integer((json_int_t)axis) : cli_json_text(s->axis));
    if (s->axes)
        json_object_set_new(all, "axes", json_integer((json_int_t)s->axes));
    if (s->external) {
        json_t *folders = json_array();
        for (const char *at = s->external; *at; at += *at == ':') {
            const size_t n = strcspn(at, ":");
            if (n)
                json_array_append_new(folders, json_stringn(at, n));
            at += n;
        }
        json_object_set_new(all, "external", folders);
    }
    return all;
}

int bench_compare(const cli_data *data, const bench_load *load, const bench_options *o, char *const *paths, size_t n_paths)
{
    const fby_dataset *ds = data->each[0];
    const uint64_t n = load->opts.samples ? fby_samples_count(load->opts.samples) : fby_dataset_rows(ds);
    json_t *spec = json_pack("{s:I, s:o, s:I, s:f, s:f, s:I, s:f, s:I, s:b, s:I, s:b, s:s?, s:s?, s:s?}", "batch_size",
                             (json_int_t)load->opts.batch_size, "options", options_json(&load->opts), "rows", (json_int_t)n, "work",
                             o->work, "seconds",
                             o->seconds > 0 ? o->seconds
                             : o->batches   ? BATCHES_SECONDS
                             : o->quick     ? 2.0
                                            : 5.0,
                             "batches", (json_int_t)o->batches, "warmup", o->warmup ? 0.0 : 1.0, "warmup_batches", (json_int_t)o->warmup,
                             "cold", (int)o->cold, "runs",
                             (json_int_t)(o->runs    ? o->runs
                                          : o->quick ? 1
                                                     : 3),
                             "json", (int)o->source.json, "html", o->html, "split", load->split, "today", o->today);
    json_object_set_new(spec, "baseline", o->baseline.n ? cli_json_text(o->baseline.items[0]) : json_null());
    json_object_set_new(spec, "pipeline", load->pipeline ? cli_json_text(paths[0]) : json_null());
    json_object_set_new(spec, "set", texts_json(o->set.items, o->set.n));
    json_object_set_new(spec, "paths", texts_json(paths, n_paths));
    json_object_set_new(spec, "open", open_json(&o->source));
    int code = add_files(ds, spec);
    if (code == CLI_CONTINUE)
        code = add_outputs(load, o->today, spec);
    FILE *file = code == CLI_CONTINUE ? tmpfile() : NULL;
    if (code == CLI_CONTINUE && (!file || json_dumpf(spec, file, JSON_COMPACT) != 0 || fflush(file) != 0 || fseek(file, 0, SEEK_SET) != 0))
        code = cli_error(CLI_FAILED, NULL, "bench: a temporary file cannot be written: %s", strerror(errno));
    json_decref(spec);
    if (code != CLI_CONTINUE) {
        if (file)
            (void)fclose(file); /* it goes in any case */
        return code;
    }
    become_python(file);
    return cli_error(CLI_FAILED, "install Python, and pip install forebay torch",
                     "bench: --compare runs Python's loaders, and there is no python3: %s", strerror(errno));
}
