/*
 * forebay bench, settings side by side: every combination of the values that options were given is measured in turn, A B C A B C, so that what
 * else the machine does meets all of them; shown are medians of the runs.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { RATE, FIRST_BATCH, CPU, EPOCH, BUDGET, FIGURES };

typedef struct setting {
    char *name; /* owned: "shuffle=none memory=1GiB" */
    bench_options o;
    bench_load load;            /* borrows what the common one owns */
    double (*figures)[FIGURES]; /* owned: of each run */
    double median[FIGURES];     /* of the runs */
    double lowest, highest;     /* rates */
    fby_report report;          /* of the last run */
    json_t *report_json;        /* owned: the same */
} setting;

/* Where the value of each goes. */
static const size_t VALUES[BENCH_VARIED] = {
    [BENCH_SHUFFLE] = offsetof(bench_options, shuffle),       [BENCH_MEMORY] = offsetof(bench_options, memory),
    [BENCH_BATCH_SIZE] = offsetof(bench_options, batch_size), [BENCH_SUPERBATCH] = offsetof(bench_options, superbatch),
    [BENCH_STREAMS] = offsetof(bench_options, streams),       [BENCH_THREADS] = offsetof(bench_options, threads),
    [BENCH_PREFETCH] = offsetof(bench_options, prefetch)};

static const cli_option *row_of(const cli_option *table, size_t varied)
{
    while (!(table->kind & CLI_VARIED) || table->offset != offsetof(bench_options, varied) + varied * sizeof(cli_list))
        table++;
    return table;
}

size_t bench_settings(const bench_options *o)
{
    size_t n = 1;
    for (size_t i = 0; i < BENCH_VARIED; i++)
        n *= o->varied[i].n ? o->varied[i].n : 1;
    return n;
}

/** The value that an option has in combination k, whose last option changes fastest; NULL when it was not given. */
static const char *text_of(const bench_options *o, size_t k, size_t varied)
{
    for (size_t i = BENCH_VARIED; i-- > varied + 1;)
        k /= o->varied[i].n ? o->varied[i].n : 1;
    return o->varied[varied].n ? o->varied[varied].items[k % o->varied[varied].n] : NULL;
}

void bench_setting(const bench_options *o, const cli_option *table, size_t k, bench_options *out)
{
    *out = *o;
    for (size_t i = 0; i < BENCH_VARIED; i++) {
        const char *text = text_of(o, k, i);
        if (text)
            cli_option_read(row_of(table, i), text, (char *)out + VALUES[i]);
    }
}

/** "shuffle=none memory=1GiB": what differs. */
static char *name_of(const bench_options *o, const cli_option *table, size_t k)
{
    cli_text name = {0};
    for (size_t i = 0; i < BENCH_VARIED; i++)
        if (o->varied[i].n > 1)
            cli_text_addf(&name, "%s%s=%s", name.n ? " " : "", row_of(table, i)->name, text_of(o, k, i));
    return name.data;
}

/** Does a setting have all that --baseline names? */
static bool is_baseline(const bench_options *o, const char *name)
{
    bool all = true;
    for (size_t i = 0; i < o->baseline.n; i++) {
        cli_text padded = {0}, wanted = {0};
        cli_text_addf(&padded, " %s ", name);
        cli_text_addf(&wanted, " %s ", o->baseline.items[i]);
        all = all && strstr(cli_text_str(&padded), cli_text_str(&wanted));
        cli_text_free(&padded);
        cli_text_free(&wanted);
    }
    return all;
}

static void summarise(setting *s, size_t runs)
{
    double *values = cli_alloc((runs + 1) * sizeof *values);
    for (size_t f = 0; f < FIGURES; f++) {
        for (size_t i = 0; i < runs; i++)
            values[i] = s->figures[i][f];
        s->median[f] = bench_median(values, runs);
        if (f == RATE && runs) {
            s->lowest = values[0];
            s->highest = values[runs - 1];
        }
    }
    free(values);
}

static int run_once(const cli_data *data, setting *s, bench_limits limits, size_t run)
{
    bench_result r = {0};
    fby_loader *loader = NULL;
    const int code = bench_measure(data, &s->load, &s->o, limits, &r, &loader);
    if (code == CLI_CONTINUE) {
        const double figures[FIGURES] = {[RATE] = bench_rate(&r),
                                         [FIRST_BATCH] = r.first_batch_seconds,
                                         [CPU] = bench_cpu_per_million(&r),
                                         [EPOCH] = bench_epoch_seconds(loader, &r),
                                         [BUDGET] = (double)r.report.budget_peak_bytes};
        memcpy(s->figures[run], figures, sizeof figures);
        json_decref(s->report_json);
        s->report = r.report;
        s->report_json = cli_report_json(&r.report, loader);
    }
    fby_loader_close(loader);
    free(r.times);
    return code;
}

/** In turn; *out_runs is how often each was measured, when Ctrl-C came before all were done. */
static int run_all(const cli_data *data, bench_limits limits, setting *all, size_t n, size_t runs, size_t *out_runs)
{
    for (*out_runs = 0; *out_runs < runs; ++*out_runs)
        for (size_t i = 0; i < n; i++) {
            const int code = run_once(data, &all[i], limits, *out_runs);
            if (bench_interrupted()) /* this round is not complete */
                return CLI_INTERRUPTED;
            if (code != CLI_CONTINUE)
                return cli_error(code, NULL, "bench: that was with %s", all[i].name);
        }
    return CLI_CONTINUE;
}

static double of(double a, double b) { return b > 0 ? a / b : 0; }

static void print_table(const bench_options *o, const cli_option *options, const setting *all, size_t n, const setting *baseline,
                        size_t runs)
{
    cli_table table;
    size_t differ = 0, column;
    for (size_t i = 0; i < BENCH_VARIED; i++)
        differ += o->varied[i].n > 1;
    static const char *const HEADS[] = {"samples/s", "spread", "factor", "first batch", "CPU s/M", "budget used", "an epoch", "entropy"};
    enum { N_HEADS = sizeof HEADS / sizeof *HEADS };
    cli_table_init(&table, differ + N_HEADS + 1);
    for (size_t i = 0; i < BENCH_VARIED; i++)
        if (o->varied[i].n > 1)
            cli_table_add(&table, row_of(options, i)->name);
    for (column = 0; column < N_HEADS; column++) {
        cli_table_right(&table, differ + column);
        cli_table_add(&table, HEADS[column]);
    }
    cli_table_add(&table, "limit");
    for (size_t k = 0; k < n; k++) {
        const setting *s = &all[k];
        for (size_t i = 0; i < BENCH_VARIED; i++)
            if (o->varied[i].n > 1)
                cli_table_add(&table, text_of(o, k, i));
        cli_table_add(&table, cli_rate(s->median[RATE]));
        if (runs == 1)
            cli_table_add(&table, "-");
        else
            cli_table_addf(&table, "%.0f %%", 100 * of(s->highest - s->lowest, s->median[RATE]));
        cli_table_addf(&table, "%.2f%s", of(s->median[RATE], baseline->median[RATE]), s == baseline ? " *" : "  ");
        cli_table_add(&table, cli_seconds(s->median[FIRST_BATCH]));
        cli_table_addf(&table, "%.2f", s->median[CPU]);
        cli_table_add(&table, cli_memory((uint64_t)s->median[BUDGET]));
        cli_table_add(&table, cli_seconds(s->median[EPOCH]));
        cli_table_addf(&table, "%.2f of %.2f", s->report.entropy_bits, s->report.entropy_bits_uniform);
        cli_table_add(&table, fby_limit_name(s->report.limit));
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
}

static json_t *row_json(const setting *s, const setting *baseline, size_t runs)
{
    json_t *rates = json_array();
    for (size_t i = 0; i < runs; i++)
        json_array_append_new(rates, json_real(s->figures[i][RATE]));
    json_t *row = json_pack("{s:o, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:f, s:I}", "name", cli_json_text(s->name), "samples_per_second",
                            s->median[RATE], "lowest", s->lowest, "highest", s->highest, "runs", rates, "factor",
                            of(s->median[RATE], baseline->median[RATE]), "first_batch_seconds", s->median[FIRST_BATCH],
                            "cpu_seconds_per_million_samples", s->median[CPU], "epoch_seconds", s->median[EPOCH], "budget_peak_bytes",
                            (json_int_t)s->median[BUDGET]);
    json_object_set_new(row, "entropy_bits", json_real(s->report.entropy_bits));
    json_object_set_new(row, "entropy_bits_uniform", json_real(s->report.entropy_bits_uniform));
    json_object_set_new(row, "limit", json_string(fby_limit_name(s->report.limit)));
    json_object_set_new(row, "options", bench_options_json(&s->load, &s->o, &s->report));
    return row;
}

static json_t *table_json(const cli_data *data, const setting *all, size_t n, const setting *baseline, size_t runs, const char *note)
{
    const setting *fastest = all;
    json_t *rows = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(rows, row_json(&all[i], baseline, runs));
        fastest = all[i].median[RATE] > fastest->median[RATE] ? &all[i] : fastest;
    }
    json_t *comparison = json_pack("{s:s, s:s, s:o, s:o}", "title", "Settings side by side", "note", note, "baseline",
                                   cli_json_text(baseline->name), "rows", rows);
    return json_pack("{s:s, s:s, s:o, s:o, s:O}", "command", "bench", "forebay", fby_version(), "dataset", bench_dataset_json(data),
                     "comparison", comparison, "report", fastest->report_json);
}

static int show(const cli_data *data, const bench_options *o, const cli_option *table, const setting *all, size_t n,
                const setting *baseline, size_t runs, bench_limits limits, char *const *paths, size_t n_paths)
{
    cli_text note = {0};
    cli_text_addf(&note, "Medians of %s %s", cli_count(runs), runs == 1 ? "run" : "runs");
    if (limits.seconds > 0)
        cli_text_addf(&note, " of %s", cli_seconds(limits.seconds));
    cli_text_add(&note,
                 ", in turn; spread is (largest - smallest) / median. An epoch at this pace; entropy of a batch over blocks in bits, of a "
                 "uniform shuffle's.");
    json_t *json = o->html || o->source.json ? table_json(data, all, n, baseline, runs, cli_text_str(&note)) : NULL;
    int code = o->html ? cli_page_write(json, o->html) : CLI_OK;
    if (code == CLI_OK && o->source.json) {
        code = cli_print_json(json, 9);
        json = NULL;
    } else if (code == CLI_OK) {
        bench_print_dataset(data, paths, n_paths);
        putchar('\n');
        print_table(o, table, all, n, baseline, runs);
        printf("\n  %s* the baseline. %s%s\n", cli_dim, cli_text_str(&note), cli_plain);
    }
    json_decref(json);
    cli_text_free(&note);
    return code;
}

int bench_table(const cli_data *data, const bench_load *load, const bench_options *o, const cli_option *table, char *const *paths,
                size_t n_paths)
{
    const size_t n = bench_settings(o), runs = o->runs ? o->runs : o->quick ? 3 : 5;
    const bool asked = o->seconds > 0 || o->epochs || o->batches;
    const bench_limits limits = {o->seconds > 0 ? o->seconds : asked ? 0 : o->quick ? 1 : 3, o->epochs, o->batches};
    setting *all = cli_alloc(n * sizeof *all), *baseline = NULL;
    int code = CLI_CONTINUE;
    size_t done = 0;
    for (size_t k = 0; k < n && code == CLI_CONTINUE; k++) {
        setting *s = &all[k];
        s->name = name_of(o, table, k);
        s->figures = cli_alloc(runs * sizeof *s->figures);
        bench_setting(o, table, k, &s->o);
        s->load = *load;
        code = bench_apply_options(&s->o, &s->load.opts);
        baseline = !baseline && is_baseline(o, s->name) ? s : baseline;
    }
    if (code == CLI_CONTINUE && !baseline) {
        cli_text names = {0};
        for (size_t k = 0; k < n; k++)
            cli_text_addf(&names, "%s%s", k ? "; " : "", all[k].name);
        code = cli_error(CLI_USAGE, NULL, "bench: --baseline names none of the settings: %s", cli_text_str(&names));
        cli_text_free(&names);
    }
    if (code == CLI_CONTINUE)
        code = run_all(data, limits, all, n, runs, &done);
    if (done > 0 && (code == CLI_CONTINUE || code == CLI_INTERRUPTED)) {
        for (size_t k = 0; k < n; k++)
            summarise(&all[k], done);
        const int shown = show(data, o, table, all, n, baseline, done, limits, paths, n_paths);
        code = code == CLI_INTERRUPTED && shown == CLI_OK ? code : shown;
    }
    for (size_t k = 0; k < n; k++) {
        free(all[k].name);
        free(all[k].figures);
        json_decref(all[k].report_json);
    }
    free(all);
    return code;
}
