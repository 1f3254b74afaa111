/* Opening a data set the way the options say, with progress on a terminal. */
#include "cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void show_progress(void *user, uint64_t done, uint64_t total, const char *what)
{
    (void)user;
    cli_progress("%s: %s of %s", what ? what : "opening", cli_count(done), cli_count(total));
}

bool cli_is_pipeline(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

const char *cli_groups(const fby_dataset *ds, uint64_t n)
{
    fby_file_info file = {.size = sizeof file};
    if (fby_dataset_file_count(ds) == 0 || fby_dataset_file(ds, 0, &file, NULL) != FBY_OK)
        return NULL;
    return n == 1 ? file.group_word : file.groups_word;
}

/* What says how files are opened stands in a pipeline file's section data: beside it, it would be passed over. */
static int check_alone(const cli_source *s, const char *path)
{
    const struct {
        const char *option, *key;
        bool given;
    } options[] = {{"--dtype", "dtypes", s->dtypes.n > 0},
                   {"--table", "table", s->table},
                   {"--axis", "axis", s->axis},
                   {"--axes", "axes", s->axes},
                   {"--external", "external", s->external},
                   {"--stored-values", "stored_values", s->stored_values},
                   {"--missing-columns", "missing_columns", s->missing_columns},
                   {"--missing-sources", "missing_sources", s->missing_sources},
                   {"--io", "io", s->io},
                   {"--immutable", "immutable", s->immutable}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given)
            return cli_error(CLI_USAGE, "the key in the file's section data, or --set data.KEY=…",
                             "%s is for data files: '%s' says itself how its data are opened, with '%s'", options[i].option, path,
                             options[i].key);
    return CLI_CONTINUE;
}

int cli_pipeline_open(const cli_source *source, const char *path, const cli_list *set, fby_pipeline **out)
{
    const int code = check_alone(source, path);
    if (code != CLI_CONTINUE)
        return code;
    fby_pipeline_opts opts = {.size = sizeof opts,
                              .overrides = set ? (const char *const *)set->items : NULL,
                              .n_overrides = set ? set->n : 0,
                              .cache_dir = source->no_cache ? "" : source->cache_dir,
                              .progress = show_progress};
    fby_error err = {0};
    return fby_pipeline_open(path, &opts, out, &err) == FBY_OK ? CLI_CONTINUE : cli_pipeline_error(&err);
}

const char *cli_split(const fby_pipeline *pipeline, const char *named)
{
    const char *split = named ? named : fby_pipeline_default_split(pipeline);
    return split ? split : fby_pipeline_split(pipeline, 0);
}

fby_status cli_data_of(fby_pipeline *pipeline, cli_data *out, fby_error *err)
{
    size_t n = 0;
    fby_pipeline *source;
    while (fby_pipeline_source(pipeline, n, NULL))
        n++;
    out->taken = cli_realloc(NULL, (n ? n : 1) * sizeof *out->taken);
    out->each = out->taken;
    if (n == 0) {
        out->n = 1;
        return fby_pipeline_dataset(pipeline, &out->taken[0], err);
    }
    for (out->n = 0; (source = fby_pipeline_source(pipeline, out->n, NULL)); out->n++) {
        const fby_status status = fby_pipeline_dataset(source, &out->taken[out->n], err);
        if (status != FBY_OK)
            return status;
    }
    return FBY_OK;
}

void cli_data_free(cli_data *data) { free(data->taken); }

static uint64_t sum_of(const cli_data *data, uint64_t (*figure)(const fby_dataset *))
{
    uint64_t sum = 0;
    for (size_t i = 0; i < data->n; i++)
        sum += figure(data->each[i]);
    return sum;
}

uint64_t cli_data_rows(const cli_data *data) { return sum_of(data, fby_dataset_rows); }
uint64_t cli_data_files(const cli_data *data) { return sum_of(data, fby_dataset_file_count); }
uint64_t cli_data_blocks(const cli_data *data) { return sum_of(data, fby_dataset_block_count); }
uint64_t cli_data_stored_bytes(const cli_data *data) { return sum_of(data, fby_dataset_stored_bytes); }

/** The data set that a pipeline file names, as it says it. */
static int open_pipeline(const cli_source *source, const char *path, fby_dataset **out)
{
    fby_pipeline *pipeline = NULL;
    fby_error err = {0};
    int code = cli_pipeline_open(source, path, NULL, &pipeline);
    if (code != CLI_CONTINUE)
        return code;
    fby_status status = fby_pipeline_dataset(pipeline, out, &err);
    cli_progress_end();
    if (status == FBY_OK)
        fby_dataset_ref(*out);
    fby_pipeline_close(pipeline);
    return status == FBY_OK ? CLI_CONTINUE : cli_pipeline_error(&err);
}

/* Prints the error and returns its exit code, or CLI_CONTINUE. */
static int open_paths(const cli_source *source, char *const *paths, size_t n_paths, fby_dataset **out)
{
    if (n_paths == 1 && cli_is_pipeline(paths[0]))
        return open_pipeline(source, paths[0], out);
    static const fby_io_engine engines[] = {FBY_IO_AUTO, FBY_IO_THREADS, FBY_IO_URING, FBY_IO_MMAP, FBY_IO_NULL};
    if (engines[source->io] == FBY_IO_MMAP && !source->immutable)
        return cli_error(CLI_USAGE, "--immutable when nobody writes to the files meanwhile",
                         "--io mmap reads mapped files: one that shrinks while it is read would kill the program");
    fby_open_opts opts = {.size = sizeof opts,
                          .cache_dir = source->no_cache ? "" : source->cache_dir,
                          .io = engines[source->io],
                          .immutable = source->immutable,
                          .missing_columns = (fby_missing_columns)source->missing_columns,
                          .table = source->table,
                          .sample_axes = source->axes > INT_MAX ? INT_MAX : (int)source->axes,
                          .stored_values = source->stored_values,
                          .missing_sources = source->missing_sources ? FBY_MISSING_SOURCES_FILL : FBY_MISSING_SOURCES_ERROR,
                          .memory_bytes = source->memory,
                          .progress = show_progress};
    fby_column_dtype *dtypes = cli_alloc((source->dtypes.n + 1) * sizeof *dtypes);
    for (size_t i = 0; i < source->dtypes.n; i++) {
        char *sign = strrchr(source->dtypes.items[i], '='); /* a column's name may hold one */
        if (!sign || sign == source->dtypes.items[i]) {
            free(dtypes);
            return cli_error(CLI_USAGE, "--dtype uid=str", "--dtype does not take '%s': it is COLUMN=DTYPE", source->dtypes.items[i]);
        }
        *sign = 0;
        dtypes[i] = (fby_column_dtype){source->dtypes.items[i], sign + 1};
    }
    opts.dtypes = dtypes;
    opts.n_dtypes = source->dtypes.n;
    uint64_t axis;
    if (source->axis && cli_parse_count(source->axis, &axis))
        opts.sample_axis = axis > INT_MAX ? INT_MAX : (int)axis;
    else
        opts.dimension = source->axis;
    fby_source *sources = cli_alloc(n_paths * sizeof *sources);
    for (size_t i = 0; i < n_paths; i++)
        sources[i].path = paths[i];
    char *folders = source->external ? cli_alloc(strlen(source->external) + 1) : NULL, *rest = folders, *folder;
    const char **external = folders ? cli_alloc((strlen(source->external) + 1) * sizeof *external) : NULL;
    if (folders)
        strcpy(folders, source->external);
    while (rest && (folder = strsep(&rest, ":")))
        if (*folder)
            external[opts.n_external++] = folder;
    opts.external = external;
    fby_error err = {0};
    fby_status status = fby_dataset_open(sources, n_paths, &opts, out, &err);
    free(sources);
    free(folders);
    free((void *)external);
    free(dtypes);
    cli_progress_end();
    if (status == FBY_E_BUDGET && source->quarter)
        return cli_error(CLI_FAILED, "a --memory of 4 times the last figure: opening has a quarter of it", "%s", err.message);
    return status == FBY_OK ? CLI_CONTINUE : cli_library_error(&err);
}

int cli_source_use(const cli_source *source, char *const *paths, size_t n_paths, cli_use use, const void *values)
{
    fby_dataset *ds = NULL;
    int code = open_paths(source, paths, n_paths, &ds);
    if (code == CLI_CONTINUE)
        code = use(ds, values, paths, n_paths);
    fby_dataset_close(ds);
    return code;
}

int cli_source_run(const cli_command *command, int argc, char **argv, void *values, const cli_source *source, cli_use use)
{
    char **paths;
    size_t n_paths;
    int code = cli_args_parse(command, argc, argv, values, &paths, &n_paths);
    return code == CLI_CONTINUE ? cli_source_use(source, paths, n_paths, use, values) : code;
}
