/* forebay bench: its result as a page for people and as JSON. Measures nothing. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 30 };

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const bench_result *r, double q)
{
    if (r->n_times == 0)
        return 0;
    size_t i = (size_t)(q * (double)r->n_times);
    return r->times[i < r->n_times ? i : r->n_times - 1];
}

static double per_second(uint64_t n, const bench_result *r) { return r->seconds > 0 ? (double)n / r->seconds : 0; }
static double seconds_of(uint64_t ns) { return (double)ns * 1e-9; }

/** Of a whole epoch at the pace measured; the complete ones give it exactly. */
static double epoch_estimate(const fby_loader *loader, const bench_result *r)
{
    if (r->epochs)
        return r->epoch_seconds / (double)r->epochs;
    return r->samples ? (double)fby_loader_sample_count(loader) / (double)r->samples * r->seconds : 0;
}

static double cpu_per_million(const bench_result *r) { return r->samples ? r->cpu_seconds * 1e6 / (double)r->samples : 0; }
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
        printf("  cure        %s: %s samples/s, × %.2g. %s\n", r->cures[i].change, cli_rate(r->cures[i].samples_per_second),
               r->cures[i].factor, r->cures[i].why);
}

static void print_text(fby_dataset *ds, fby_loader *loader, const bench_load *load, const bench_options *o, const bench_result *r,
                       char *const *paths, size_t n_paths)
{
    const fby_report *report = &r->report;
    printf("%s%s%s", cli_bold, cli_printable(paths[0]), cli_plain);
    if (n_paths > 1)
        printf(" and %s more", cli_count(n_paths - 1));
    printf(": %s rows, %s %s, %s stored\n", cli_count(fby_dataset_rows(ds)), cli_count(fby_dataset_file_count(ds)),
           fby_dataset_file_count(ds) == 1 ? "file" : "files", cli_size(fby_dataset_stored_bytes(ds)));
    if (load->pipeline)
        printf("  samples     %s%s%s in %s batches an epoch\n", load->split ? cli_printable(load->split) : "", load->split ? ": " : "",
               cli_count(fby_loader_sample_count(loader)), cli_count(fby_loader_batch_count(loader)));
    print_outputs(loader, load);
    printf("  settings    shuffle %s, superbatch %s samples, %u stream%s, %u threads, budget %s, io %s%s\n",
           bench_shuffle_names[load->opts.shuffle], cli_count(report->superbatch_samples), report->streams, report->streams == 1 ? "" : "s",
           report->n_threads, cli_memory(report->budget_bytes), report->io_engine ? report->io_engine : "?",
           o->cold ? ", cold page cache" : "");
    static const char said[] = "mixing: ";
    if (report->mixing[0])
        printf("  mixing      %s\n", report->mixing + (strncmp(report->mixing, said, sizeof said - 1) == 0 ? sizeof said - 1 : 0));

    printf("\n  %s%s samples/s%s   %s/s delivered, %s/s read\n", cli_bold, cli_rate(per_second(r->samples, r)), cli_plain,
           cli_size((uint64_t)per_second(report->bytes_delivered, r)), cli_size((uint64_t)per_second(report->bytes_read, r)));
    printf("  measured    %s samples in %s batches, %s%s\n", cli_count(r->samples), cli_count(r->batches), cli_seconds(r->seconds),
           r->interrupted ? " (interrupted)" : "");
    printf("  epoch       %s%s, first batch after %s, loader opened in %s\n", cli_seconds(epoch_estimate(loader, r)),
           r->epochs ? "" : " (estimated)", cli_seconds(r->first_batch_seconds), cli_seconds(r->open_seconds));
    if (r->n_times)
        printf("  batch time  p50 %s, p95 %s, p99 %s, max %s\n", cli_seconds(quantile(r, 0.5)), cli_seconds(quantile(r, 0.95)),
               cli_seconds(quantile(r, 0.99)), cli_seconds(quantile(r, 1)));
    else
        printf("  batch time  not known: there was no batch after the first one\n");
    printf("  CPU         %.2f s per million samples; inside next() %.1f %% of the wall time\n", cpu_per_million(r),
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

static json_t *outputs_json(const fby_loader *loader)
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

static int print_json(fby_dataset *ds, fby_loader *loader, const bench_load *load, const bench_options *o, const bench_result *r,
                      char *const *paths)
{
    const fby_report *p = &r->report;
    json_t *root = json_object();
    json_object_set_new(root, "command", json_string("bench"));
    json_object_set_new(root, "forebay", json_string(fby_version()));
    json_object_set_new(root, "pipeline", text_or_null(load->pipeline ? paths[0] : NULL));
    json_object_set_new(root, "split", text_or_null(load->split));
    json_object_set_new(root, "samples_per_second", json_real(per_second(r->samples, r)));
    json_object_set_new(root, "samples", count_json(r->samples));
    json_object_set_new(root, "batches", count_json(r->batches));
    json_object_set_new(root, "seconds", json_real(r->seconds));
    json_object_set_new(root, "epochs", count_json(r->epochs));
    json_object_set_new(root, "epoch_seconds_estimated", json_real(epoch_estimate(loader, r)));
    json_object_set_new(root, "first_batch_seconds", json_real(r->first_batch_seconds));
    json_object_set_new(root, "open_seconds", json_real(r->open_seconds));
    json_object_set_new(root, "interrupted", json_boolean(r->interrupted));
    json_object_set_new(root, "delivered_bytes_per_second", json_real(per_second(p->bytes_delivered, r)));
    json_object_set_new(root, "read_bytes_per_second", json_real(per_second(p->bytes_read, r)));
    json_object_set_new(root, "batch_seconds",
                        json_pack("{s:f, s:f, s:f, s:f}", "p50", quantile(r, 0.5), "p95", quantile(r, 0.95), "p99", quantile(r, 0.99),
                                  "max", quantile(r, 1)));
    json_object_set_new(root, "cpu_seconds", json_real(r->cpu_seconds));
    json_object_set_new(root, "cpu_seconds_per_million_samples", json_real(cpu_per_million(r)));
    json_object_set_new(root, "next_cpu_share", json_real(next_cpu_share(r)));
    json_object_set_new(root, "peak_rss_bytes", count_json(r->peak_rss_bytes));
    json_object_set_new(root, "rss_before_bytes", count_json(r->rss_before_bytes));
    json_object_set_new(root, "report", cli_report_json(p, loader));
    json_object_set_new(root, "options",
                        json_pack("{s:I, s:s, s:I, s:s?, s:I, s:i, s:i, s:s, s:b, s:f}", "batch_size", (json_int_t)load->opts.batch_size,
                                  "shuffle", bench_shuffle_names[load->opts.shuffle], "seed", (json_int_t)load->opts.seed, "dtype",
                                  load->dtype, "superbatch_samples", (json_int_t)p->superbatch_samples, "streams", (int)p->streams,
                                  "threads", (int)p->n_threads, "io", p->io_engine ? p->io_engine : "", "cold", (int)o->cold,
                                  "work_seconds", o->work));
    json_object_set_new(root, "dataset",
                        json_pack("{s:I, s:I, s:I, s:s}", "rows", (json_int_t)fby_dataset_rows(ds), "files",
                                  (json_int_t)fby_dataset_file_count(ds), "stored_bytes", (json_int_t)fby_dataset_stored_bytes(ds),
                                  "fingerprint", fby_dataset_fingerprint(ds)));
    json_object_set_new(root, "outputs", outputs_json(loader));
    json_object_set_new(root, "left_out_columns", count_json(load->left_out));
    return cli_print_json(root, 9);
}

int bench_print(fby_dataset *ds, fby_loader *loader, const bench_load *load, const bench_options *o, bench_result *r, char *const *paths,
                size_t n_paths)
{
    if (r->n_times)
        qsort(r->times, r->n_times, sizeof *r->times, compare_doubles);
    if (o->source.json)
        return print_json(ds, loader, load, o, r, paths);
    print_text(ds, loader, load, o, r, paths, n_paths);
    return CLI_OK;
}
