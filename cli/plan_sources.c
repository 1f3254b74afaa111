/* forebay plan: what an epoch has of each source of a mixture. */
#include "cli.h"

static bool source_at(fby_loader *loader, size_t i, fby_source_info *out, fby_source_report *out_report)
{
    *out = (fby_source_info){.size = sizeof *out};
    *out_report = (fby_source_report){.size = sizeof *out_report};
    return fby_loader_source(loader, i, 0, out, NULL) == FBY_OK && fby_loader_source_report(loader, i, out_report, NULL) == FBY_OK;
}

void cli_plan_sources_print(const cli_data *data, fby_loader *loader)
{
    static const char *const heads[] = {"source", "files",  "rows",    "samples",       "share",
                                        "left",   "passes", "a batch", "files a batch", "padding"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    const double all = (double)fby_loader_sample_count(loader);
    cli_table table;
    fby_source_info info;
    fby_source_report report;
    cli_table_init(&table, COLUMNS);
    for (size_t c = 0; c < COLUMNS; c++) {
        cli_table_add(&table, heads[c]);
        if (c)
            cli_table_right(&table, c);
    }
    for (size_t i = 0; i < data->n && source_at(loader, i, &info, &report); i++) {
        cli_table_add(&table, info.name);
        cli_table_add(&table, cli_count(fby_dataset_file_count(data->each[i])));
        cli_table_add(&table, cli_count(fby_dataset_rows(data->each[i])));
        cli_table_add(&table, cli_count(info.n_samples));
        cli_table_addf(&table, "%.1f %%", all > 0 ? 100 * (double)info.n_samples / all : 0);
        cli_table_add(&table, cli_count(info.n_left));
        cli_table_add(&table, cli_count(info.n_passes));
        cli_table_addf(&table, "%.1f", report.samples_per_batch);
        cli_table_addf(&table, "%.1f", report.files_per_batch);
        cli_table_addf(&table, "%.1f %%", 100 * report.padding);
    }
    cli_table_print(&table, stdout);
    cli_table_fini(&table);
    printf("\n");
}

json_t *cli_plan_sources_json(const cli_data *data, fby_loader *loader)
{
    json_t *list = json_array();
    fby_source_info info;
    fby_source_report report;
    for (size_t i = 0; i < data->n && source_at(loader, i, &info, &report); i++)
        json_array_append_new(list,
                              json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "name", cli_json_text(info.name), "files",
                                        (json_int_t)fby_dataset_file_count(data->each[i]), "rows",
                                        (json_int_t)fby_dataset_rows(data->each[i]), "samples", (json_int_t)info.n_samples, "left",
                                        (json_int_t)info.n_left, "passes", (json_int_t)info.n_passes, "samples_per_batch",
                                        report.samples_per_batch, "files_per_batch", report.files_per_batch, "padding", report.padding));
    return list;
}
