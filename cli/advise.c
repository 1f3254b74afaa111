/*
 * forebay advise: what a machine will deliver of some data, and the settings for it. Reads parts of the files to see how fast the storage is, runs
 * a loader over a sample to see what each step costs, and works out the rest: for this machine, or for another.
 */
#include "advise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct advise_options {
    bench_options bench; /* what is loaded */
    uint64_t memory, threads, ranks;
    double work, seconds;
    const char *write;
    cli_source source;
} advise_options;

static const cli_option options[] = {
    {"memory", 'm', CLI_SIZE, offsetof(advise_options, memory), "SIZE",
     "plan for a machine with so much memory (default: what is free here)", NULL},
    {"threads", 't', CLI_COUNT, offsetof(advise_options, threads), "N", "plan for so many CPUs a rank (default: those here)", NULL},
    {"ranks", 0, CLI_COUNT, offsetof(advise_options, ranks), "N", "ranks that share memory and storage (default: 1)", NULL},
    {"work", 0, CLI_TIME, offsetof(advise_options, work), "S", "what a training step takes: 5ms", NULL},
    {"seconds", 0, CLI_TIME, offsetof(advise_options, seconds), "S",
     "of an epoch that is loaded as a sample; up to 4 times that where a superbatch takes longer (default: 3)", NULL},
    {"write", 'w', CLI_TEXT, offsetof(advise_options, write), "FILE", "write a copy of the pipeline file with these settings", NULL},
    {"columns", 'c', CLI_LIST, offsetof(advise_options, bench.columns), "NAMES", "of data: only these columns, as of bench", NULL},
    {"batch-size", 'b', CLI_COUNT, offsetof(advise_options, bench.batch_size), "N", "samples a batch, as of bench", NULL},
    {"superbatch", 0, CLI_TEXT, offsetof(advise_options, bench.superbatch), "N", "samples mixed with each other, as of bench", NULL},
    {"split", 0, CLI_TEXT, offsetof(advise_options, bench.split), "NAME", "of a pipeline file: what is loaded, as of bench", NULL},
    {"set", 0, CLI_EACH, offsetof(advise_options, bench.set), "KEY=VALUE", "of a pipeline file: another value than its own", NULL},
    CLI_SOURCE_OPTIONS(advise_options),
};

/* ---- the sample ---- */

enum { LONGER = 4 }; /* times the time, at most, until a superbatch has been handed out */

/* An epoch is one of the parts, where there are any, and those are about as large as each other. */
static double epoch_blocks(const fby_report *r) { return fmax(1, (double)r->n_blocks / fmax(1, (double)r->n_parts)); }

/* Samples whose blocks were read, if an epoch has n_samples: with parts, blocks of the next epoch are read ahead. */
static double decoded_samples(const fby_report *r, uint64_t n_samples)
{
    return (double)(r->blocks_read < r->n_blocks ? r->blocks_read : r->n_blocks) / epoch_blocks(r) * (double)n_samples;
}

/* Rows may go to their batches as soon as they are decoded: before half of those were delivered, assembling seems to cost more than it does. */
static bool is_representative(fby_loader *loader)
{
    fby_report r = {.size = sizeof r};
    if (fby_loader_report(loader, &r, NULL) != FBY_OK)
        return true; /* the caller's own says so */
    return (double)r.samples >= 0.5 * decoded_samples(&r, fby_loader_sample_count(loader));
}

/** Load until the time is over, or an epoch; *r is of what came after the first batch, where enough did. */
static int load_sample(fby_loader *loader, const bench_load *load, double seconds, fby_report *r, advise_costs *out)
{
    fby_error err = {0};
    fby_report first = {.size = sizeof first};
    const double began = cli_now();
    double until = began + seconds;
    fby_batch *batch;
    fby_status status = fby_loader_next(loader, -1, &batch, &err);
    out->first_batch_seconds = cli_now() - began;
    if (status == FBY_OK && (status = fby_loader_report(loader, &first, &err)) == FBY_OK)
        fby_batch_unref(batch);
    while (status == FBY_OK) {
        if (cli_now() >= until) {
            if (cli_now() >= began + LONGER * seconds || is_representative(loader))
                break;
            until += 0.1 * seconds;
        }
        if ((status = fby_loader_next(loader, -1, &batch, &err)) == FBY_OK)
            fby_batch_unref(batch);
        cli_progress("loading a sample: %.0f %%", fmin(100, 100 * (cli_now() - began) / (until - began)));
    }
    cli_progress_end();
    if ((status != FBY_OK && status != FBY_END) || fby_loader_report(loader, r, &err) != FBY_OK)
        return bench_load_error(load, &err);
    out->run_seconds = cli_now() - began;
    const uint64_t n_samples = fby_loader_sample_count(loader);
    out->run_decoded = fmin((double)n_samples, decoded_samples(r, n_samples));
    out->run_delivered = (double)r->samples;
    fby_report since = *r;
    if (since.blocks_read >= first.blocks_read + 16 && fby_report_since(&since, &first, &err) == FBY_OK)
        *r = since; /* blocks that are half decoded at both ends even out */
    return CLI_CONTINUE;
}

/**
 * An epoch that ended within the time, once more, with files that left the page cache: reads alone do not show what waiting costs a loader.
 * With more data the costs say it, and the files stay in the page cache of whoever uses them.
 */
static int load_cold(fby_dataset *ds, const bench_load *load, double seconds, uint64_t n_samples, advise_costs *out)
{
    fby_report r = {.size = sizeof r};
    fby_loader *loader = NULL;
    fby_error err = {0};
    advise_costs cold;
    int code = bench_drop_page_cache(ds);
    if (code != CLI_CONTINUE)
        return code;
    if (fby_loader_open(ds, &load->opts, &loader, &err) != FBY_OK)
        return bench_load_error(load, &err);
    code = load_sample(loader, load, seconds, &r, &cold);
    fby_loader_close(loader);
    if (code == CLI_CONTINUE && cold.run_delivered >= (double)n_samples)
        out->cold_seconds = cold.run_seconds;
    return code;
}

static void budgets_of(const fby_report *r, advise_costs *out)
{
    out->least_bytes = r->budget_minimum_bytes;
    out->overlap_bytes = r->overlap_bytes;
    out->keep_all_bytes = r->keep_all_bytes;
}

/** What each sample cost. */
static void costs_of(const fby_report *r, uint64_t n_samples, advise_costs *out)
{
    const double delivered = fmax(1, (double)r->samples), decoded = fmax(1, decoded_samples(r, n_samples));
    const double stages = (double)(r->decompress_ns + r->decode_ns + r->assemble_ns);
    const double rest = fmax(0, (double)r->worker_cpu_ns - stages); /* reading from the page cache, and what has no stage of its own */
    out->read_cpu = 1e-9 * rest / decoded;
    out->decompress_cpu = 1e-9 * (double)r->decompress_ns / decoded;
    out->decode_cpu = 1e-9 * (double)r->decode_ns / decoded;
    out->assemble_cpu = 1e-9 * (double)r->assemble_ns / delivered;
    out->stored_bytes = (double)r->bytes_read / decoded;
    out->decoded_bytes = (double)r->bytes_decoded / decoded;
    out->delivered_bytes = (double)r->bytes_delivered / delivered;
    out->block_samples = (double)n_samples / epoch_blocks(r);
    out->batch_samples = r->batches ? r->samples / r->batches : 1;
    budgets_of(r, out);
    out->samples = n_samples;
}

/* ---- the page ---- */

static const double TIMES[] = {1, 10, 50};
enum { N_TIMES = sizeof TIMES / sizeof *TIMES };

typedef struct found {
    const char *path;
    const fby_dataset *ds;
    advise_packing packing;
    advise_storage storage;
    advise_costs costs;
    advise_machine machine;
    advise_notes notes;
    json_t *report;         /* owned: of the sample */
    uint64_t least_samples; /* a superbatch for which 70 % of the memory does; 0 = the one there is does, or none was found */
} found;

/** The least gain of packing that is worth its disk space. */
#define WORTH_PACKING 1.2

static const char *rate_text(double rate) { return isinf(rate) ? "no limit" : cli_rate(rate); }

static void print_expected(const found *f)
{
    cli_table table;
    cli_table_init(&table, 7);
    static const char *const heads[] = {"data", "samples/s", "first epoch", "an epoch takes", "limit", "stay decoded", "budget"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_add(&table, heads[i]);
    for (size_t i = 0; i < N_TIMES; i++) {
        const advise_expected e = advise_expect(&f->costs, &f->machine, TIMES[i]);
        cli_table_addf(&table, "× %.0f", TIMES[i]);
        cli_table_add(&table, rate_text(e.rate));
        cli_table_add(&table, rate_text(e.first_rate));
        if (e.epoch_seconds >= 3600)
            cli_table_addf(&table, "%.1f h", e.epoch_seconds / 3600);
        else
            cli_table_add(&table, cli_seconds(e.epoch_seconds));
        cli_table_add(&table, e.limit);
        cli_table_addf(&table, "%.0f %%", 100 * e.kept);
        cli_table_add(&table, cli_memory(e.budget_bytes));
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static void print_text(const found *f)
{
    const advise_costs *c = &f->costs;
    const advise_machine *m = &f->machine;
    const advise_expected e = advise_expect(c, m, 1);
    const double load = c->read_cpu + c->decompress_cpu + c->decode_cpu;
    printf("%s%s%s: %s sample%s, %s stored\n", cli_bold, cli_printable(f->path), cli_plain, cli_count(c->samples),
           c->samples == 1 ? "" : "s", cli_size(fby_dataset_stored_bytes(f->ds)));
    if (isinf(f->storage.bytes_per_second))
        printf("  storage     %s%s%s, %s: too little to tell how fast it is\n", f->storage.kind, f->storage.device[0] ? " " : "",
               f->storage.device, cli_size(f->storage.bytes_read));
    else
        printf("  storage     %s%s%s, %s/s, %s a read of %s (%s read)\n", f->storage.kind, f->storage.device[0] ? " " : "",
               f->storage.device, cli_size((uint64_t)f->storage.bytes_per_second), cli_seconds(f->storage.read_seconds),
               cli_size(f->storage.read_bytes), cli_size(f->storage.bytes_read));
    printf("  machine     %.0f CPUs a rank, %.0f rank%s, %s of memory%s%s\n", m->threads, m->ranks, m->ranks == 1 ? "" : "s",
           cli_memory(m->memory_bytes), m->work_seconds > 0 ? ", a step takes " : "",
           m->work_seconds > 0 ? cli_seconds(m->work_seconds) : "");
    printf("  a sample    %s stored, %s decoded, %s delivered\n", cli_size((uint64_t)c->stored_bytes), cli_size((uint64_t)c->decoded_bytes),
           cli_size((uint64_t)c->delivered_bytes));
    printf("  CPU         %s: reading %.0f %%, decompressing %.0f %%, decoding %.0f %%, assembling %.0f %%\n",
           cli_seconds(load + c->assemble_cpu), 100 * c->read_cpu / (load + c->assemble_cpu),
           100 * c->decompress_cpu / (load + c->assemble_cpu), 100 * c->decode_cpu / (load + c->assemble_cpu),
           100 * c->assemble_cpu / (load + c->assemble_cpu));
    printf("\n  %sroofline, samples a second of a rank%s\n", cli_dim, cli_plain);
    const double cold = m->storage_bytes_per_second / fmax(1, m->ranks) / fmax(1e-9, c->stored_bytes);
    printf("  CPUs        %s\n  storage     %s%s%s\n  program     %s\n\n", rate_text(e.cpu), rate_text(e.storage),
           isinf(e.storage) && !isinf(cold) ? " once the blocks are in memory; before, " : "",
           isinf(e.storage) && !isinf(cold) ? rate_text(cold) : "", rate_text(e.work));
    print_expected(f);
    printf("\n  %smemory: superbatch + 2 blocks + 2 batches = %s at least; the next superbatch beside it = %s; all blocks decoded = %s%s\n",
           cli_dim, cli_memory(c->least_bytes), cli_memory(c->overlap_bytes), cli_memory(c->keep_all_bytes), cli_plain);
    if (e.fits || f->least_samples)
        printf("  %ssettings    memory: %lluMiB, threads: %.0f%s%s%s\n", cli_bold, (unsigned long long)(e.budget_bytes >> 20), m->threads,
               e.fits ? "" : ", superbatch: ", e.fits ? "" : cli_count(f->least_samples), cli_plain);
    else
        printf("  %s70 %% of the memory is %s, and the least budget is %s: more memory, fewer columns, or smaller row groups%s\n", cli_red,
               cli_memory(e.budget_bytes), cli_memory(c->least_bytes), cli_plain);
    const double packed = advise_expect_packed(c, m, f->packing.outputs).rate, factor = packed / e.rate;
    if (factor >= WORTH_PACKING || f->notes.packing) {
        cli_text command = {0};
        advise_add_pack_command(&command, &f->packing);
        printf("  packing     %s, × %.1f: %s\n", rate_text(packed), factor, cli_text_str(&command));
        cli_text_free(&command);
    }
    for (size_t i = 0; i < f->notes.n; i++)
        printf("  note        %s\n", cli_printable(f->notes.texts[i]));
}

static json_t *number_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *settings_json(const found *f, const advise_expected *e)
{
    const bool takes = e->fits || f->least_samples;
    return json_pack("{s:o, s:I, s:o, s:b}", "memory", takes ? json_integer((json_int_t)e->budget_bytes) : json_null(), "threads",
                     (json_int_t)f->machine.threads, "superbatch",
                     f->least_samples ? json_integer((json_int_t)f->least_samples) : json_null(), "fits", (int)takes);
}

static json_t *packing_json(const found *f, const advise_expected *e)
{
    const double rate = advise_expect_packed(&f->costs, &f->machine, f->packing.outputs).rate, factor = rate / e->rate;
    cli_text command = {0};
    advise_add_pack_command(&command, &f->packing);
    json_t *packing =
        json_pack("{s:o, s:o, s:b, s:o}", "samples_per_second", number_or_null(rate), "factor", number_or_null(factor), "worth_it",
                  (int)(factor >= WORTH_PACKING || f->notes.packing), "command", cli_json_text(cli_text_str(&command)));
    cli_text_free(&command);
    return packing;
}

static int print_json(const found *f)
{
    const advise_costs *c = &f->costs;
    const advise_machine *m = &f->machine;
    json_t *root = json_object(), *expected = json_array(), *notes = json_array();
    for (size_t i = 0; i < N_TIMES; i++) {
        const advise_expected e = advise_expect(c, m, TIMES[i]);
        json_array_append_new(expected, json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:f, s:f, s:I}", "times", TIMES[i],
                                                  "samples_per_second", number_or_null(e.rate), "first_epoch_samples_per_second",
                                                  number_or_null(e.first_rate), "first_epoch_cached_samples_per_second",
                                                  number_or_null(e.first_cached_rate), "epoch_seconds", number_or_null(e.epoch_seconds),
                                                  "cpu", number_or_null(e.cpu), "storage", number_or_null(e.storage), "work",
                                                  number_or_null(e.work), "limit", e.limit, "kept", e.kept, "page_cache", e.page_cache,
                                                  "memory", (json_int_t)e.budget_bytes));
    }
    for (size_t i = 0; i < f->notes.n; i++)
        json_array_append_new(notes, cli_json_text(f->notes.texts[i]));
    json_object_set_new(root, "schema", json_integer(1));
    json_object_set_new(root, "command", json_string("advise"));
    json_object_set_new(root, "forebay", json_string(fby_version()));
    json_object_set_new(root, "path", cli_json_text(f->path));
    json_object_set_new(root, "storage",
                        json_pack("{s:s, s:s, s:o, s:f, s:I, s:I}", "kind", f->storage.kind, "device", f->storage.device,
                                  "bytes_per_second", number_or_null(f->storage.bytes_per_second), "read_seconds", f->storage.read_seconds,
                                  "read_bytes", (json_int_t)f->storage.read_bytes, "bytes_read", (json_int_t)f->storage.bytes_read));
    json_object_set_new(root, "machine",
                        json_pack("{s:f, s:f, s:I, s:f, s:o}", "threads", m->threads, "ranks", m->ranks, "memory_bytes",
                                  (json_int_t)m->memory_bytes, "work_seconds", m->work_seconds, "storage_bytes_per_second",
                                  number_or_null(m->storage_bytes_per_second)));
    json_object_set_new(root, "sample",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "stored_bytes", c->stored_bytes, "decoded_bytes", c->decoded_bytes,
                                  "delivered_bytes", c->delivered_bytes, "read_cpu_seconds", c->read_cpu, "decompress_cpu_seconds",
                                  c->decompress_cpu, "decode_cpu_seconds", c->decode_cpu, "assemble_cpu_seconds", c->assemble_cpu));
    json_object_set_new(root, "samples", json_integer((json_int_t)c->samples));
    json_object_set_new(root, "first_batch_seconds", json_real(c->first_batch_seconds));
    json_object_set_new(root, "memory",
                        json_pack("{s:I, s:I, s:I}", "minimum_bytes", (json_int_t)c->least_bytes, "overlap_bytes",
                                  (json_int_t)c->overlap_bytes, "keep_all_bytes", (json_int_t)c->keep_all_bytes));
    const advise_expected once = advise_expect(c, m, 1);
    json_object_set_new(root, "settings", settings_json(f, &once));
    json_object_set_new(root, "packing", packing_json(f, &once));
    static const char *const VERDICT[] = {"limit", "confidence", "reason", "verdict", "cures"}; /* under the report's keys */
    for (size_t i = 0; i < sizeof VERDICT / sizeof *VERDICT; i++)
        json_object_set(root, VERDICT[i], json_object_get(f->report, VERDICT[i]));
    json_object_set_new(root, "expected", expected);
    json_object_set_new(root, "notes", notes);
    return cli_print_json(root, 9);
}

/* ---- the command ---- */

/** All memory that the ranks and the page cache may have: what is asked for, else what is free within all limits. */
static uint64_t memory_of(const advise_options *o, const fby_report *r) { return o->memory ? o->memory : r->memory_available_bytes; }

/** What budgets are needed with so many threads, which each have memory of their own; superbatch: 0 = as the loader has it. */
static int find_budgets(fby_dataset *ds, const bench_load *load, uint64_t threads, uint64_t superbatch, advise_costs *out)
{
    fby_loader_opts opts = load->opts;
    if (superbatch) {
        opts.superbatch_blocks = opts.superbatch_bytes = 0;
        opts.superbatch_samples = superbatch;
    }
    fby_loader *loader = NULL;
    fby_report r = {.size = sizeof r};
    fby_error err = {0};
    opts.n_threads = (int)(threads < 1024 ? threads : 1024);
    if (fby_loader_open(ds, &opts, &loader, &err) != FBY_OK)
        return bench_load_error(load, &err);
    const fby_status status = fby_loader_report(loader, &r, &err);
    fby_loader_close(loader);
    if (status != FBY_OK)
        return cli_library_error(&err);
    budgets_of(&r, out);
    return CLI_CONTINUE;
}

/** Where 70 % of the memory is less than the least budget: a superbatch with which it is not. */
static int find_superbatch(fby_dataset *ds, const bench_load *load, uint64_t now, found *f)
{
    advise_costs costs = f->costs;
    uint64_t samples = now;
    int code = CLI_CONTINUE;
    for (int i = 0; code == CLI_CONTINUE && i < 8 && samples > 1 && !f->least_samples; i++) {
        const double share = (double)advise_budget(&costs, &f->machine, 1) / fmax(1, (double)costs.least_bytes);
        samples = (uint64_t)((double)samples * fmin(0.5, share));
        code = samples ? find_budgets(ds, load, (uint64_t)f->machine.threads, samples, &costs) : CLI_CONTINUE;
        if (code == CLI_CONTINUE && samples && advise_expect(&costs, &f->machine, 1).fits)
            f->least_samples = samples;
    }
    return code;
}

static int advise(fby_dataset *ds, const advise_options *o, const bench_load *asked, char *const *paths, size_t n_paths,
                  fby_pipeline *pipeline)
{
    found f = {.path = paths[0], .ds = ds};
    fby_report r = {.size = sizeof r};
    fby_loader *loader = NULL;
    fby_error err = {0};
    bench_load load = *asked;
    fby_status status = fby_loader_open(ds, &load.opts, &loader, &err);
    if (status == FBY_E_BUDGET &&
        (load.opts.memory_bytes || load.opts.memory_fraction > 0)) { /* a pipeline file's, which is to be replaced */
        load.opts.memory_bytes = 0;
        load.opts.memory_fraction = 0;
        status = fby_loader_open(ds, &load.opts, &loader, &err);
    }
    if (status != FBY_OK)
        return bench_load_error(&load, &err);
    const uint64_t n = fby_loader_sample_count(loader);
    const double seconds = o->seconds > 0 ? o->seconds : 3;
    int code = load_sample(loader, &load, seconds, &r, &f.costs);
    if (code == CLI_CONTINUE)
        f.report = cli_report_json(&r, loader);
    fby_loader_close(loader); /* which would go on reading while the storage is measured */
    if (code == CLI_CONTINUE)
        code = advise_storage_measure(ds, r.bytes_read / (r.blocks_read ? r.blocks_read : 1), &f.storage);
    const bool elsewhere = o->threads || o->work > 0, ended = f.costs.run_delivered >= (double)n;
    const bool mapped = r.io_engine && strcmp(r.io_engine, "mmap") == 0; /* what is mapped stays in memory */
    if (code == CLI_CONTINUE && !elsewhere && o->ranks <= 1 && ended && !mapped && f.storage.bytes_read)
        code = load_cold(ds, &load, seconds, n, &f.costs);
    if (code == CLI_CONTINUE) {
        costs_of(&r, n, &f.costs);
        if (load.opts.shuffle == FBY_SHUFFLE_SUPERBATCH)
            f.costs.superbatch_samples = r.superbatch_samples;
        if (elsewhere)
            f.costs.run_seconds = 0; /* of this machine alone */
        f.machine = (advise_machine){.threads = o->threads ? (double)o->threads : (double)r.n_cpus,
                                     .ranks = o->ranks ? (double)o->ranks : 1,
                                     .work_seconds = o->work,
                                     .memory_bytes = memory_of(o, &r),
                                     .storage_bytes_per_second = f.storage.bytes_per_second,
                                     .first_bytes_per_second = f.storage.first_bytes_per_second,
                                     .storage_cpu_per_byte = f.storage.cpu_per_byte};
        f.packing = advise_packing_of(paths, n_paths, pipeline, load.opts.samples, o->bench.split, &o->bench.set);
        advise_layout(ds, load.opts.samples, &f.packing, &f.costs, &f.notes);
    }
    if (code == CLI_CONTINUE && o->threads)
        code = find_budgets(ds, &load, o->threads, 0, &f.costs);
    const bool fits = code == CLI_CONTINUE && advise_expect(&f.costs, &f.machine, 1).fits;
    if (code == CLI_CONTINUE && !fits && r.superbatch_samples)
        code = find_superbatch(ds, &load, r.superbatch_samples, &f);
    if (code == CLI_CONTINUE && o->write && !fits && !f.least_samples)
        code = cli_error(CLI_FAILED, "more --memory, fewer columns, or smaller row groups",
                         "advise: 70 %% of the memory is %s, less than the least budget of %s: nothing was written",
                         cli_memory(advise_budget(&f.costs, &f.machine, 1)), cli_memory(f.costs.least_bytes));
    if (code == CLI_CONTINUE && o->write)
        code =
            advise_write(pipeline, f.path, o->write, advise_budget(&f.costs, &f.machine, 1), (uint64_t)f.machine.threads, f.least_samples);
    if (code == CLI_CONTINUE || code == CLI_OK) {
        code = CLI_OK;
        if (o->source.json)
            code = print_json(&f);
        else
            print_text(&f);
    }
    advise_notes_free(&f.notes);
    json_decref(f.report);
    return code;
}

static int advise_paths(fby_dataset *ds, const void *values, char *const *paths, size_t n_paths)
{
    const advise_options *o = values;
    bench_load load = {0};
    int code = bench_load_columns(ds, &o->bench, &load);
    if (code == CLI_CONTINUE)
        code = advise(ds, o, &load, paths, n_paths, NULL);
    bench_load_free(&load);
    return code;
}

static int advise_pipeline(const advise_options *o, char *const *path)
{
    fby_pipeline *pipeline = NULL;
    cli_data data = {0};
    bench_load load = {0};
    int code = cli_pipeline_open(&o->source, *path, &o->bench.set, &pipeline);
    if (code == CLI_CONTINUE)
        code = bench_load_pipeline(pipeline, &o->bench, &data, &load);
    if (code == CLI_CONTINUE && load.mix.n_sources)
        code = cli_error(CLI_USAGE, "forebay plan FILE", "advise: it is of one data set, and the file describes a mixture");
    else if (code == CLI_CONTINUE)
        code = advise(data.each[0], o, &load, path, 1, pipeline);
    cli_data_free(&data);
    bench_load_free(&load);
    fby_pipeline_close(pipeline);
    return code;
}

static int run(const cli_command *command, int argc, char **argv)
{
    advise_options o = {.bench = {.dtype = -1, .shuffle = -1, .seed = BENCH_NO_SEED}};
    char **paths;
    size_t n_paths;
    int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    if (code == CLI_CONTINUE && n_paths == 1 && cli_is_pipeline(paths[0]))
        code = advise_pipeline(&o, paths);
    else if (code == CLI_CONTINUE && (o.bench.split || o.bench.set.n || o.write))
        code = cli_error(CLI_USAGE, "forebay advise pipeline.yaml", "advise: --split, --set and --write are of a pipeline file");
    else if (code == CLI_CONTINUE)
        code = cli_source_use(&o.source, paths, n_paths, advise_paths, &o);
    cli_list_free(&o.bench.columns);
    cli_list_free(&o.source.dtypes);
    cli_list_free(&o.bench.set);
    return code;
}

const cli_command cli_advise = {
    .name = "advise",
    .summary = "what a machine will deliver of some data, and the settings for it",
    .synopsis = "PATH… | PIPELINE.yaml [options]",
    .examples = "  forebay advise basins/\n"
                "  forebay advise basins.yaml --work 5ms\n"
                "  forebay advise basins.yaml --memory 256GiB --threads 16 --ranks 4     another machine with this storage\n"
                "  forebay advise basins.yaml --write tuned.yaml\n",
    .notes = "Parts of the files are read to see how fast the storage is, for 1.5 s, and leave the page cache for that; before, an epoch "
             "is begun to see\n"
             "what reading, decoding and assembling cost. One that ends within that time is run once more after all files have left the "
             "page cache.\n"
             "All else is worked out: the CPUs work at 95 %, the budget is at most 70 % of the "
             "memory,\n"
             "the page cache has 80 % of what is left.\n"
             "--json: {schema, command, forebay, path, storage: {kind, device, bytes_per_second, read_seconds, bytes_read}, machine: {…},\n"
             "sample: {…_bytes, …_cpu_seconds}, samples, first_batch_seconds, memory: {minimum_bytes, overlap_bytes, "
             "keep_all_bytes},\n"
             "settings: {memory, threads, superbatch, fits}, packing: {samples_per_second, factor, worth_it, command}, limit, confidence, "
             "reason,\n"
             "verdict and cures of the sample as in a report, expected: [{times, samples_per_second, first_epoch_samples_per_second, "
             "first_epoch_cached_samples_per_second, epoch_seconds, cpu,\n"
             "storage, work, limit, kept, page_cache, memory}], notes: [text]}; null where nothing limits.\n",
    .options = options,
    .run = run,
};
