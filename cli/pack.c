/* forebay pack: a data set written anew, shuffled, in files of one size. */
#include "pack.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHOICE CLI_CHOICE_OF(FBY_OPTIONS_PACK)

static const cli_option options[] = {
    {"to", 't', CLI_TEXT, offsetof(pack_options, to), "DIR", "the folder to pack into: new, empty, or with an unfinished pack", NULL},
    {"shuffle", 0, CHOICE, offsetof(pack_options, opts.shuffle), "HOW", "the order of the rows (default: full)", NULL},
    {"seed", 's', CLI_NUMBER, offsetof(pack_options, opts.seed), "N", "of the shuffle (default: 0)", NULL},
    {"by", 0, CLI_TEXT, offsetof(pack_options, opts.by), "KEY", "a column each of whose values has files of its own", NULL},
    {"units", 0, CHOICE, offsetof(pack_options, opts.units), "WHICH",
     "where files state other units: same is an error, first takes the first file's (default: same)", NULL},
    {"rows-per-file", 0, CLI_COUNT, offsetof(pack_options, opts.rows_per_file), "N", "rows of a file (default: about 256 MiB of them)",
     NULL},
    {"batch", 'b', CLI_COUNT, offsetof(pack_options, opts.batch_rows), "N",
     "rows of a record batch, row group or chunk (default: about 4 MiB of them)", NULL},
    {"format", 'f', CHOICE, offsetof(pack_options, opts.format), "FORMAT", "of the files (default: arrow)", NULL},
    {"codec", 0, CHOICE, offsetof(pack_options, opts.codec), "CODEC", "of the files (default: none for Arrow and HDF5, zstd for Parquet)",
     NULL},
    {"columns", 'c', CLI_LIST, offsetof(pack_options, columns), "NAMES", "top-level columns to pack (default: all)", NULL},
    {"outputs", 'o', CLI_TEXT, offsetof(pack_options, outputs), "FILE",
     "pack what this pipeline file gives, in place of rows: its data, samples and outputs", NULL},
    {"split", 0, CLI_TEXT, offsetof(pack_options, split), "NAME", "of that file (default: what its section loader names)", NULL},
    {"set", 0, CLI_EACH, offsetof(pack_options, set), "KEY=VALUE", "of that file: another value than its own: data.paths=other/", NULL},
    {"memory", 'm', CLI_SIZE, offsetof(pack_options, opts.memory_bytes), "SIZE",
     "what packing may hold (default: half of what the process may take; of a task 4GiB)", NULL},
    {"threads", 0, CLI_COUNT, offsetof(pack_options, threads), "N", "tasks at a time (default: the CPUs)", NULL},
    {"verify", 0, CLI_FLAG, offsetof(pack_options, opts.verify), NULL, "read both again, and compare the hashes of their rows", NULL},
    {"dry-run", 0, CLI_FLAG, offsetof(pack_options, opts.dry_run), NULL, "say sizes, passes and time, and leave nothing behind", NULL},
    {"tasks", 0, CLI_FLAG, offsetof(pack_options, tasks), NULL, "list the tasks that the pack is made by", NULL},
    {"task", 0, CLI_TEXT, offsetof(pack_options, task), "PHASE:K", "run one of them", NULL},
    {"slurm", 0, CLI_FLAG, offsetof(pack_options, slurm), NULL, "plan the pack, and print a script that has Slurm run the other tasks",
     NULL},
    CLI_SOURCE_OPTIONS(pack_options),
};

static void show_progress(void *user, uint64_t done, uint64_t total, const char *what)
{
    pack_progress *p = user;
    const double now = cli_now();
    if (!p->doing)
        *p = (pack_progress){now, done, what};
    p->doing = what;
    const double rate = now > p->begun && done > p->first ? (double)(done - p->first) / (now - p->begun) : 0;
    if (rate > 0 && done <= total)
        cli_progress("%s: %d %%, %srows/s, %s left", what, (int)(100.0 * (double)done / (double)total), cli_rate(rate),
                     cli_seconds((double)(total - done) / rate));
    else
        cli_progress("%s", what);
}

static void print_sizes(const pack_options *o, const fby_pack_info *info)
{
    cli_table table;
    cli_table_init(&table, 2);
    cli_table_add(&table, "rows");
    cli_table_add(&table, cli_count(info->rows));
    cli_table_add(&table, "files");
    const uint64_t mean = info->files ? (info->rows + info->files - 1) / info->files : 0;
    if (o->opts.by && mean < info->rows_per_file)
        cli_table_addf(&table, "%s, of about %s row%s each", cli_count(info->files), cli_count(mean), mean == 1 ? "" : "s");
    else
        cli_table_addf(&table, "%s of %s rows, in batches of %s", cli_count(info->files), cli_count(info->rows_per_file),
                       cli_count(info->batch_rows));
    if (o->opts.by) {
        cli_table_add(&table, "by");
        cli_table_addf(&table, "%s, of %s value%s", cli_printable(o->opts.by), cli_count(info->keys), info->keys == 1 ? "" : "s");
    }
    cli_table_add(&table, "source");
    cli_table_addf(&table, "%s, about %s in memory", cli_size(info->source_bytes), cli_size(info->decoded_bytes));
    cli_table_add(&table, "passes");
    if (info->passes > 1)
        cli_table_addf(&table, "%u, through %s bucket%s in %s: %s meanwhile, beside the pack", info->passes, cli_count(info->buckets),
                       info->buckets == 1 ? "" : "s", o->to, cli_size(info->scratch_bytes));
    else
        cli_table_addf(&table, "%u", info->passes);
    if (o->opts.dry_run) {
        cli_table_add(&table, "size");
        cli_table_addf(&table, "about %s", cli_size(info->expected_bytes));
        cli_table_add(&table, "time");
        cli_table_addf(&table, "%s%s", info->expected_ns ? "about " : "unknown: nothing can be written there",
                       info->expected_ns ? cli_seconds(1e-9 * (double)info->expected_ns) : "");
    } else {
        cli_table_add(&table, "written");
        cli_table_add(&table, cli_size(info->written_bytes));
    }
    if (info->verified) {
        cli_table_add(&table, "verified");
        cli_table_addf(&table, "the same rows, %s", info->rows_hash);
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_note(const fby_pack_info *info)
{
    if (*info->note)
        (void)fprintf(stderr, "forebay: note: %s\n", info->note);
}

static json_t *pack_json(const pack_options *o, const fby_pack_info *info, double seconds)
{
    json_t *bytes = info->expected_bytes ? json_integer((json_int_t)info->expected_bytes) : json_null();
    json_t *expected = info->expected_ns ? json_real(1e-9 * (double)info->expected_ns) : json_null();
    return json_pack("{s:s, s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:f}",
                     "command", "pack", "forebay", fby_version(), "to", cli_json_text(o->to), "dry_run", (int)o->opts.dry_run, "rows",
                     (json_int_t)info->rows, "files", (json_int_t)info->files, "rows_per_file", (json_int_t)info->rows_per_file, "batch",
                     (json_int_t)info->batch_rows, "source_bytes", (json_int_t)info->source_bytes, "decoded_bytes",
                     (json_int_t)info->decoded_bytes, "scratch_bytes", (json_int_t)info->scratch_bytes, "written_bytes",
                     (json_int_t)info->written_bytes, "passes", (int)info->passes, "buckets", (int)info->buckets, "resumed",
                     (int)info->resumed, "verified", (int)info->verified, "source_contents", info->contents, "rows_hash",
                     info->verified ? json_string(info->rows_hash) : json_null(), "expected_bytes", bytes, "expected_seconds", expected,
                     "keys", o->opts.by ? json_integer((json_int_t)info->keys) : json_null(), "note",
                     *info->note ? cli_json_text(info->note) : json_null(), "seconds", seconds);
}

static bool is_doing(const pack_progress *shown, const char *what) { return shown->doing && strcmp(shown->doing, what) == 0; }

/* The source is another one than that of the plan, or changed while it was read, and the plan is of what it was. */
static int changed_error(const pack_options *o, const fby_error *err)
{
    struct stat st;
    cli_text work = {0}, hint = {0};
    cli_text_addf(&work, "%s/.forebay-pack", o->to);
    cli_text_addf(&hint, "remove '%s', which is of the source as it was, and run the command again", cli_text_str(&work));
    const bool begun = lstat(cli_text_str(&work), &st) == 0;
    const int code = cli_error(CLI_FAILED, begun ? cli_text_str(&hint) : "run the command again, with another --to if the pack is finished",
                               "%s", err->message);
    cli_text_free(&work);
    cli_text_free(&hint);
    return code;
}

/* Data that cannot be read or written, or, as --verify has found, were not. Which of them, an error says nowhere but in its message. */
static int data_error(const pack_options *o, const pack_progress *shown, const fby_error *err)
{
    static const char null_key[] =
        "--outputs FILE, a pipeline file with the key among its outputs: there a null text is empty, and fill_missing gives a number";
    const char *hint = NULL;
    if (strncmp(err->message, "the key '", strlen("the key '")) == 0)
        hint = strstr(err->message, " has a null in row ") ? null_key : NULL;
    else if (strstr(err->message, " of the file that is written: ")) /* what HDF5 has no value for */
        hint = o->outputs ? "outputs without that column, or --format arrow" : "--columns without that column, or --format arrow";
    else if (!is_doing(shown, "verifying")) /* there the message says which folder is to be removed */
        return o->outputs ? cli_pipeline_error(err) : cli_library_error(err);
    return cli_error(CLI_FAILED, hint, "%s", err->message);
}

static const char *unsupported_hint(const pack_options *o, const pack_progress *shown)
{
    if (o->outputs || is_doing(shown, "reading the key"))
        return NULL;
    if (o->opts.format == FBY_PACK_ARROW)
        return o->opts.by ? NULL : "--columns without it";
    return o->opts.by ? "another --by, if it is about the key; else --format arrow, or --columns without it"
                      : "--format arrow, or --columns without it";
}

/* Where another option than those of loading is the way out. */
int pack_error(const pack_options *o, const pack_progress *shown, const fby_error *err)
{
    const char *hint = NULL;
    switch (err->code) {
    case FBY_E_ARG: return cli_error(CLI_USAGE, NULL, "%s", err->message); /* of folders and options that do not fit, and says what would */
    case FBY_E_BUDGET: hint = "a larger --memory"; break;
    case FBY_E_DATA: return data_error(o, shown, err);
    case FBY_E_UNSUPPORTED: hint = unsupported_hint(o, shown); break;
    case FBY_E_CHANGED: return changed_error(o, err);
    case FBY_E_FORMAT:
        hint =
            "remove what is named, if it lies in .forebay-pack: it is made again; restore a file of the source, or leave it out for now by "
            "naming the others";
        break;
    case FBY_E_SCHEMA:
        if (!is_doing(shown, "comparing files"))
            return cli_library_error(err);
        hint = o->opts.units == FBY_PACK_UNITS_SAME
                   ? "--units first, if both mean the same and it is about units; --columns without it; or "
                     "--outputs FILE, a pipeline file with it"
                   : "--columns without it, or --outputs FILE, a pipeline file with it among its outputs";
        break;
    default: return cli_library_error(err);
    }
    return cli_error(CLI_FAILED, hint, "%s", err->message);
}

/* The pack, or one of its tasks. CLI_CONTINUE: there is text to be printed. */
static int make(fby_dataset *ds, const pack_options *o, const fby_pack_opts *opts, fby_pack_info *info, double *seconds)
{
    fby_error err = {0};
    const double begun = cli_now();
    const fby_status status =
        o->task ? fby_pack_run_task(ds, o->to, opts, o->phase, o->k, info, &err) : fby_pack(ds, o->to, opts, info, &err);
    *seconds = cli_now() - begun;
    cli_progress_end();
    if (status != FBY_OK)
        return pack_error(o, opts->progress_user, &err);
    return o->source.json ? cli_print_json(pack_json(o, info, *seconds), 17) : CLI_CONTINUE;
}

static int pack(fby_dataset *ds, const pack_options *o, const fby_loader_opts *loader, const char *text)
{
    pack_progress shown = {.doing = NULL};
    fby_pack_opts opts = o->opts;
    fby_pack_info info = {.size = sizeof info};
    double seconds = 0;
    opts.size = sizeof opts;
    opts.columns = o->columns.n ? (const char *const *)o->columns.items : NULL;
    opts.n_columns = o->columns.n;
    opts.n_threads = o->threads > INT_MAX ? INT_MAX : (int)o->threads;
    opts.progress = show_progress;
    opts.progress_user = &shown;
    opts.loader = loader;
    opts.pipeline = text;
    const int code = o->tasks || o->slurm ? pack_list_tasks(ds, o, &opts, &info) : make(ds, o, &opts, &info, &seconds);
    if (code != CLI_CONTINUE)
        return code;
    if (!o->task || o->phase == FBY_PACK_PLAN || o->phase == FBY_PACK_FINISH)
        print_note(&info);
    if (o->tasks || o->slurm)
        return CLI_OK;
    if (o->task) {
        printf("%s of %s: done in %s\n", o->task, cli_printable(o->to), cli_seconds(seconds));
        return CLI_OK;
    }
    if (o->opts.dry_run)
        printf("nothing was written; %s would hold:\n", cli_printable(o->to));
    else
        printf("packed %s %s into %s in %s%s\n", cli_count(info.rows), info.rows == 1 ? "row" : "rows", cli_printable(o->to),
               cli_seconds(seconds), info.resumed ? ", going on with an unfinished pack" : "");
    print_sizes(o, &info);
    return CLI_OK;
}

static int pack_rows(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths)
{
    (void)paths, (void)n_paths;
    return pack(ds, values, NULL, NULL);
}

static int run(const cli_command *command, int argc, char **argv)
{
    pack_options o = {.argc = argc, .argv = argv};
    char **paths;
    size_t n_paths;
    int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    if (code == CLI_CONTINUE && !o.to)
        code = cli_error(CLI_USAGE, "--to DIR", "pack: no folder to pack into");
    if (code == CLI_CONTINUE && o.tasks + o.slurm + (o.task != NULL) + o.opts.dry_run > 1)
        code = cli_error(CLI_USAGE, NULL, "pack: --dry-run, --tasks, --task and --slurm are one at a time");
    if (code == CLI_CONTINUE && o.task)
        code = pack_read_task(&o);
    o.source.memory = o.opts.memory_bytes / 4; /* of opening; reading has what is packing's */
    o.source.quarter = true;
    if (code == CLI_CONTINUE && o.outputs && n_paths)
        code = cli_error(CLI_USAGE, "--set data.paths=…", "pack: --outputs is of the data that its file names, and no others");
    else if (code == CLI_CONTINUE && o.outputs && o.columns.n)
        code = cli_error(CLI_USAGE, NULL, "pack: --columns and --outputs both say what is packed: give one of them");
    else if (code == CLI_CONTINUE && !o.outputs && (o.split || o.set.n))
        code = cli_error(CLI_USAGE, "--outputs pipeline.yaml", "pack: --split and --set are of a pipeline file");
    else if (code == CLI_CONTINUE && !o.outputs && !n_paths)
        code = cli_error(CLI_USAGE, "forebay pack data/ --to DIR", "pack: no data to pack");
    if (code == CLI_CONTINUE && n_paths == 1 && cli_is_pipeline(paths[0]))
        (void)fprintf(stderr, "forebay: note: all rows of the data of '%s' are packed; --outputs %s packs its samples and outputs\n",
                      paths[0], paths[0]);
    if (code == CLI_CONTINUE)
        code = o.outputs ? pack_pipeline(&o, pack) : cli_source_use(&o.source, paths, n_paths, pack_rows, &o);
    cli_list_free(&o.columns);
    cli_list_free(&o.set);
    cli_list_free(&o.source.dtypes);
    return code;
}

const cli_command cli_pack = {
    .name = "pack",
    .summary = "write a data set anew, shuffled, in files of one size",
    .synopsis = "PATH…|--outputs FILE --to DIR [options]",
    .paths_optional = true,
    .examples = "  forebay pack basins/ --to packed --seed 7\n"
                "  forebay pack \"events/*.parquet\" --to packed --memory 8GiB --batch 512 --verify\n"
                "  forebay pack basins/ --to sorted --shuffle none --rows-per-file 1e6 --dry-run\n"
                "  forebay pack --outputs basins.yaml --split train --to ready\n"
                "  forebay pack events/ --to /scratch/packed --memory 16GiB --slurm | sh -s -- --partition=cpu\n",
    .notes =
        "With --shuffle full, row d of the pack is the d-th sample of a loader with shuffle=\"full\", this seed and one stream.\n"
        "Data of any size are shuffled within --memory: rows are first scattered into buckets on disk, in DIR, then each\n"
        "bucket is put in order. Memory and threads change no byte of the pack. Until all of it is written, DIR holds a\n"
        "hidden folder alone; the same command goes on with it, whatever stopped the one before. DIR/_pack.json, written\n"
        "last, says what the pack was made of. --json: {command, forebay, to, dry_run, rows, files, rows_per_file, batch,\n"
        "source_bytes, decoded_bytes, scratch_bytes, written_bytes, passes, buckets, resumed, verified, source_contents,\n"
        "rows_hash, expected_bytes, expected_seconds, keys, note, seconds}. --dry-run tries a batch, and how fast the disk is, to say how\n"
        "large the pack would be and about how long it would take.\n"
        "--outputs packs samples in place of rows: those of a pipeline file, with an output a column, ready to train. What would be\n"
        "drawn anew in every epoch is refused.\n"
        "On several machines: --tasks lists the tasks of the pack, in the order of its phases: plan, scatter, write, verify where it\n"
        "is asked for, finish. Those of a phase run anywhere and in any order, by --task, when those before it have ended. --memory\n"
        "is then a task's (default: 4GiB).\n"
        "--slurm runs plan and prints a script of sbatch calls, to which its arguments are handed on; mpirun -n N python -m\n"
        "forebay.mpi pack runs the same tasks. --tasks --json: {command, forebay, to, tasks: [{phase, k, n, rows,\n"
        "bytes_in, bytes_out, inputs, outputs}]}.\n",
    .options = options,
    .run = run,
};
