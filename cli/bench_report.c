/* forebay bench: its result as a page for people and as JSON. Measures nothing. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>

enum { BAR_WIDTH = 30 };

static double quantile(const bench_result *r, double q)
{
    if (r->n_times == 0)
        return 0;
    size_t i = (size_t)(q * (double)r->n_times);
    return r->times[i < r->n_times ? i : r->n_times - 1];
}

static double per_second(uint64_t n, const bench_result *r) { return r->seconds > 0 ? (double)n / r->seconds : 0; }
static double seconds_of(uint64_t ns) { return (double)ns * 1e-9; }

static double next_cpu_share(const bench_result *r) { return r->seconds > 0 ? seconds_of(r->report.consumer_cpu_ns) / r->seconds : 0; }

static void shape_text(const fby_output_info *info, cli_text *out)
{
    cli_text_add(out, "(");
    for (int32_t d = 0; d < info->ndim; d++)
        cli_text_addf(out, info->shape[d] < 0 ? "%s?" : "%s%lld", d ? ", " : "", (long long)info->shape[d]);
    cli_text_add(out, ")");
}

static void print_outputs(const fby_loader *loader, const bench_load *load)
{
    size_t n = fby_loader_output_count(loader);
    cli_text text = {0};
    for (size_t i = 0; i < n && i < 8; i++) {
        fby_output_info info = {.size = sizeof info};
        if (fby_loader_output(loader, i, &info, NULL) != FBY_OK)
            continue;
        cli_text_addf(&text, "%s%s %s", i ? ", " : "", cli_printable(info.name), info.text ? "text" : fby_dtype_name(info.dtype));
        shape_text(&info, &text);
        if (info.layout != FBY_LAYOUT_DENSE && !info.text)
            cli_text_addf(&text, " %s", cli_layout_name(&info));
    }
    if (n > 8)
        cli_text_addf(&text, " and %s more", cli_count(n - 8));
    printf("  batch       %s\n", cli_text_str(&text));
    if (load->left_out)
        printf("              %s%s %s no numbers and left out: --columns or --separate brings them in%s\n", cli_dim,
               cli_count(load->left_out), load->left_out == 1 ? "column is" : "columns are", cli_plain);
    cli_text_free(&text);
}

static void print_stage(const char *name, double seconds, double all, const char *colour)
{
    double share = all > 0 ? seconds / all : 0;
    int filled = (int)lround(share * BAR_WIDTH);
    printf("  %-14s %9s %5.1f %%%s%s", name, cli_seconds(seconds), share * 100, filled ? "  " : "", colour);
    for (int i = 0; i < filled && i < BAR_WIDTH; i++)
        fputs("█", stdout);
    printf("%s\n", cli_plain);
}

static void print_verdict(const fby_report *r)
{
    printf("\n  %s%s%s\n", cli_bold, r->verdict, cli_plain);
    printf("  %sconfidence %.2f: %s%s\n", cli_dim, r->confidence, r->reason, cli_plain);
    for (uint32_t i = 0; i < r->n_cures; i++)
        printf("  cure        %s: %s samples/s, × %s. %s\n", r->cures[i].change, cli_rate(r->cures[i].samples_per_second),
               cli_factor(r->cures[i].factor), r->cures[i].why);
}

void bench_print_dataset(const cli_data *data, char *const *paths, size_t n_paths)
{
    printf("%s%s%s", cli_bold, cli_printable(paths[0]), cli_plain);
    if (n_paths > 1)
        printf(" and %s more", cli_count(n_paths - 1));
    printf(": %s rows, %s %s, %s stored\n", cli_count(cli_data_rows(data)), cli_count(cli_data_files(data)),
           cli_data_files(data) == 1 ? "file" : "files", cli_size(cli_data_stored_bytes(data)));
}

static void print_text(const cli_data *data, fby_loader *loader, const bench_load *load, const bench_options *o, const bench_result *r,
                       char *const *paths, size_t n_paths)
{
    const fby_report *report = &r->report;
    bench_print_dataset(data, paths, n_paths);
    if (load->pipeline)
        printf("  samples     %s%s%s in %s batches an epoch\n", load->split ? cli_printable(load->split) : "", load->split ? ": " : "",
               cli_count(fby_loader_sample_count(loader)), cli_count(fby_loader_batch_count(loader)));
    print_outputs(loader, load);
    printf("  settings    shuffle %s, superbatch %s samples, %u stream%s, %u threads, budget %s, io %s%s\n",
           cli_shuffle_name(load->opts.shuffle), cli_count(report->superbatch_samples), report->streams, report->streams == 1 ? "" : "s",
           report->n_threads, cli_memory(report->budget_bytes), report->io_engine ? report->io_engine : "?",
           o->cold ? ", cold page cache" : "");
    if (report->mixing[0])
        printf("  mixing      %s\n", report->mixing);

    printf("\n  %s%s samples/s%s   %s/s delivered, %s/s read\n", cli_bold, cli_rate(bench_rate(r)), cli_plain,
           cli_size((uint64_t)per_second(report->bytes_delivered, r)), cli_size((uint64_t)per_second(report->bytes_read, r)));
    printf("  measured    %s samples in %s batches, %s%s\n", cli_count(r->samples), cli_count(r->batches), cli_seconds(r->seconds),
           r->interrupted ? " (interrupted)" : "");
    printf("  epoch       %s%s, first batch after %s, loader opened in %s\n", cli_seconds(bench_epoch_seconds(loader, r)),
           r->epochs ? "" : " (estimated)", cli_seconds(r->first_batch_seconds), cli_seconds(r->open_seconds));
    if (r->n_times)
        printf("  batch time  p50 %s, p95 %s, p99 %s, max %s\n", cli_seconds(quantile(r, 0.5)), cli_seconds(quantile(r, 0.95)),
               cli_seconds(quantile(r, 0.99)), cli_seconds(quantile(r, 1)));
    else
        printf("  batch time  not known: there was no batch after the first one\n");
    printf("  CPU         %.2f s per million samples; inside next() %.1f %% of the wall time\n", bench_cpu_per_million(r),
           next_cpu_share(r) * 100);
    printf("  memory      peak RSS %s (%s before), budget used %s of %s, at least %s\n", cli_memory(r->peak_rss_bytes),
           cli_memory(r->rss_before_bytes), cli_memory(report->budget_peak_bytes), cli_memory(report->budget_bytes),
           cli_memory(report->budget_minimum_bytes));
    printf("  limit       %s\n", report->memory_limit);
    printf("  bytes       %s read, %s decoded, %s delivered; blocks: %s read, %s from the cache, %s evicted\n",
           cli_size(report->bytes_read), cli_size(report->bytes_decoded), cli_size(report->bytes_delivered), cli_count(report->blocks_read),
           cli_count(report->blocks_from_cache), cli_count(report->blocks_evicted));

    const uint64_t work_ns[] = {report->read_ns, report->decompress_ns, report->decode_ns, report->assemble_ns, report->transform_ns};
    static const char *const names[] = {"read", "decompress", "decode", "assemble", "transform"};
    enum { N_STAGES = sizeof names / sizeof *names };
    double all = 0;
    for (size_t i = 0; i < N_STAGES; i++)
        all += seconds_of(work_ns[i]);
    printf("\n  %sworkers, all threads together%s\n", cli_dim, cli_plain);
    for (size_t i = 0; i < N_STAGES; i++)
        print_stage(names[i], seconds_of(work_ns[i]), all, cli_green);
    printf("  %sconsumer%s\n", cli_dim, cli_plain);
    double consumer = seconds_of(report->wait_ns) + seconds_of(report->work_ns);
    print_stage("waits", seconds_of(report->wait_ns), consumer, cli_yellow);
    print_stage("works", seconds_of(report->work_ns), consumer, cli_green);
    print_verdict(report);
    if (r->seconds < 1 && !r->interrupted && o->seconds <= 0)
        printf("  %sA short run: --seconds 10 repeats the epoch and gives steadier figures.%s\n", cli_dim, cli_plain);
}

json_t *bench_outputs_json(const fby_loader *loader)
{
    json_t *list = json_array();
    for (size_t i = 0; i < fby_loader_output_count(loader); i++) {
        fby_output_info info = {.size = sizeof info};
        if (fby_loader_output(loader, i, &info, NULL) != FBY_OK)
            continue;
        json_t *shape = json_array();
        for (int32_t d = 0; d < info.ndim; d++)
            json_array_append_new(shape, json_integer(info.shape[d]));
        json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:o}", "name", cli_json_text(info.name), "dtype", fby_dtype_name(info.dtype),
                                              "layout", cli_layout_name(&info), "shape", shape));
    }
    return list;
}

static json_t *count_json(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *text_or_null(const char *text) { return text ? cli_json_text(text) : json_null(); }

json_t *bench_options_json(const bench_load *load, const bench_options *o, const fby_report *r)
{
    return json_pack("{s:I, s:s, s:I, s:s?, s:I, s:i, s:i, s:s, s:b, s:f}", "batch_size", (json_int_t)load->opts.batch_size, "shuffle",
                     cli_shuffle_name(load->opts.shuffle), "seed", (json_int_t)load->opts.seed, "dtype", load->dtype, "superbatch_samples",
                     (json_int_t)r->superbatch_samples, "streams", (int)r->streams, "threads", (int)r->n_threads, "io",
                     r->io_engine ? r->io_engine : "", "cold", (int)o->cold, "work_seconds", o->work);
}

json_t *bench_dataset_json(const cli_data *data)
{
    cli_text prints = {0}; /* of a mixture, those of all sources */
    for (size_t i = 0; i < data->n; i++)
        cli_text_addf(&prints, "%s%s", i ? "," : "", fby_dataset_fingerprint(data->each[i]));
    json_t *json = json_pack("{s:I, s:I, s:I, s:s}", "rows", (json_int_t)cli_data_rows(data), "files", (json_int_t)cli_data_files(data),
                             "stored_bytes", (json_int_t)cli_data_stored_bytes(data), "fingerprint", cli_text_str(&prints));
    cli_text_free(&prints);
    return json;
}

/** How long batches took, by quarters of an octave: [[ns, how many], …]. The times are sorted. */
static json_t *times_json(const bench_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0, n; i < r->n_times; i += n) {
        const double bin = round(4 * log2(fmax(1, 1e9 * r->times[i])));
        for (n = 1; i + n < r->n_times && round(4 * log2(fmax(1, 1e9 * r->times[i + n]))) <= bin; n++)
            ;
        json_array_append_new(list, json_pack("[I, I]", (json_int_t)llround(exp2(bin / 4)), (json_int_t)n));
    }
    return list;
}

static json_t *result_json(const cli_data *data, fby_loader *loader, const bench_load *load, const bench_options *o, const bench_result *r,
                           char *const *paths)
{
    const fby_report *p = &r->report;
    json_t *root = json_object();
    json_object_set_new(root, "command", json_string("bench"));
    json_object_set_new(root, "forebay", json_string(fby_version()));
    json_object_set_new(root, "pipeline", text_or_null(load->pipeline ? paths[0] : NULL));
    json_object_set_new(root, "split", text_or_null(load->split));
    json_object_set_new(root, "samples_per_second", json_real(bench_rate(r)));
    json_object_set_new(root, "samples", count_json(r->samples));
    json_object_set_new(root, "batches", count_json(r->batches));
    json_object_set_new(root, "seconds", json_real(r->seconds));
    json_object_set_new(root, "epochs", count_json(r->epochs));
    json_object_set_new(root, "epoch_seconds_estimated", json_real(bench_epoch_seconds(loader, r)));
    json_object_set_new(root, "first_batch_seconds", json_real(r->first_batch_seconds));
    json_object_set_new(root, "open_seconds", json_real(r->open_seconds));
    json_object_set_new(root, "interrupted", json_boolean(r->interrupted));
    json_object_set_new(root, "delivered_bytes_per_second", json_real(per_second(p->bytes_delivered, r)));
    json_object_set_new(root, "read_bytes_per_second", json_real(per_second(p->bytes_read, r)));
    json_object_set_new(root, "batch_seconds",
                        json_pack("{s:f, s:f, s:f, s:f}", "p50", quantile(r, 0.5), "p95", quantile(r, 0.95), "p99", quantile(r, 0.99),
                                  "max", quantile(r, 1)));
    json_object_set_new(root, "cpu_seconds", json_real(r->cpu_seconds));
    json_object_set_new(root, "cpu_seconds_per_million_samples", json_real(bench_cpu_per_million(r)));
    json_object_set_new(root, "next_cpu_share", json_real(next_cpu_share(r)));
    json_object_set_new(root, "peak_rss_bytes", count_json(r->peak_rss_bytes));
    json_object_set_new(root, "rss_before_bytes", count_json(r->rss_before_bytes));
    json_object_set_new(root, "report", cli_report_json(p, loader));
    json_object_set_new(root, "batch_times", times_json(r));
    json_object_set_new(root, "options", bench_options_json(load, o, p));
    json_object_set_new(root, "dataset", bench_dataset_json(data));
    json_object_set_new(root, "outputs", bench_outputs_json(loader));
    json_object_set_new(root, "left_out_columns", count_json(load->left_out));
    return root;
}

int bench_print(const cli_data *data, fby_loader *loader, const bench_load *load, const bench_options *o, bench_result *r,
                char *const *paths, size_t n_paths)
{
    (void)bench_median(r->times, r->n_times); /* sorts them */
    json_t *json = o->html || o->source.json ? result_json(data, loader, load, o, r, paths) : NULL;
    const int code = o->html ? cli_page_write(json, o->html) : CLI_OK;
    if (code == CLI_OK && o->source.json)
        return cli_print_json(json, 9);
    json_decref(json);
    if (code != CLI_OK)
        return code;
    print_text(data, loader, load, o, r, paths, n_paths);
    return CLI_OK;
}
