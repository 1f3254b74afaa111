/* forebay report: a report that was saved, in words, or as a page that needs no network. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The page and where the report goes into it: made of python/forebay/report.html when this is compiled. NUL-terminated. */
extern const unsigned char cli_report_page[];
#define PLACE "<script id=\"report\" type=\"application/json\">{}</script>"

typedef struct report_options {
    bool json;
    const char *html;
} report_options;

static const cli_option options[] = {
    {"html", 0, CLI_TEXT, offsetof(report_options, html), "FILE", "write it as one HTML page, which needs no network", NULL},
    {"json", 0, CLI_FLAG, offsetof(report_options, json), NULL, "print it as one JSON object instead of text", NULL},
    {NULL, 0, CLI_FLAG, 0, NULL, NULL, NULL},
};

static double number(const json_t *report, const char *name) { return json_number_value(json_object_get(report, name)); }
static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value ? value : "";
}
static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static int print_text(const json_t *report)
{
    const json_t *cures = json_object_get(report, "cures");
    const double ns = number(report, "elapsed_ns");
    printf("%s samples in %s batches, %s: %s/s; waited %.0f %% of it\n", cli_count((uint64_t)number(report, "samples")),
           cli_count((uint64_t)number(report, "batches")), cli_seconds(1e-9 * ns), cli_rate(ratio(number(report, "samples") * 1e9, ns)),
           100 * ratio(number(report, "wait_ns"), ns));
    printf("%slimit%s    %s (confidence %.2f)\n", cli_bold, cli_plain, cli_printable(text(report, "limit")), number(report, "confidence"));
    printf("%sverdict%s  %s\n", cli_bold, cli_plain, cli_printable(text(report, "verdict")));
    for (size_t i = 0; i < json_array_size(cures); i++) {
        const json_t *cure = json_array_get(cures, i);
        printf("%scure%s     %s: × %s, %s/s. %s\n", cli_bold, cli_plain, cli_printable(text(cure, "change")),
               cli_factor(number(cure, "factor")), cli_rate(number(cure, "samples_per_second")), cli_printable(text(cure, "why")));
    }
    return CLI_OK;
}

/* JSON inside a script must not end it. */
static void write_json(FILE *out, const char *json)
{
    for (; *json; json++)
        if (*json == '<')
            (void)fputs("\\u003c", out); /* errors are asked for at the end */
        else
            (void)fputc(*json, out);
}

int cli_page_write(json_t *file, const char *path)
{
    const char *page = (const char *)cli_report_page, *place = strstr(page, PLACE);
    static const char *const DRAWN[] = {"batch_times", "comparison"};
    json_t *inside = json_object_get(file, "report"), *report = json_copy(inside ? inside : file); /* not deep: what is inside stays */
    for (size_t i = 0; inside && i < sizeof DRAWN / sizeof *DRAWN; i++)
        if (json_object_get(file, DRAWN[i]))
            json_object_set(report, DRAWN[i], json_object_get(file, DRAWN[i]));
    char *json = json_dumps(report, JSON_COMPACT);
    FILE *out = place && json ? fopen(path, "we") : NULL;
    int failed = out ? 0 : errno;
    if (out) {
        const size_t before = strlen("<script id=\"report\" type=\"application/json\">");
        (void)fwrite(page, 1, (size_t)(place - page) + before, out); /* as above */
        write_json(out, json);
        (void)fputs(place + before + strlen("{}"), out); /* as above */
        failed = ferror(out) ? EIO : 0;
        if (fclose(out) != 0 && !failed)
            failed = errno;
    }
    free(json);
    json_decref(report);
    return failed ? cli_error(CLI_FAILED, NULL, "cannot write %s: %s", path, strerror(failed)) : CLI_OK;
}

static int run(const cli_command *command, int argc, char **argv)
{
    report_options o = {0};
    char **paths;
    size_t n_paths;
    const int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    if (code != CLI_CONTINUE)
        return code;
    if (n_paths != 1)
        return cli_error(CLI_USAGE, "forebay report run.json", "report: one file is expected, and %s are given", cli_count(n_paths));
    json_error_t wrong;
    json_t *file = json_load_file(paths[0], 0, &wrong), *inside = json_object_get(file, "report");
    const json_t *report = inside ? inside : file;
    int done;
    if (!file && access(paths[0], R_OK) != 0)
        done = cli_error(CLI_FAILED, NULL, "cannot read %s: %s", paths[0], strerror(errno));
    else if (!file)
        done = cli_error(CLI_FAILED, NULL, "%s is no JSON: line %d, column %d: %s", paths[0], wrong.line, wrong.column, wrong.text);
    else if (!json_is_number(json_object_get(report, "samples")) || !json_is_string(json_object_get(report, "limit")))
        done = cli_error(CLI_FAILED, "loader.report().save(\"run.json\"), or forebay bench --json > run.json",
                         "%s has no report of a loader", paths[0]);
    else if (o.html)
        done = cli_page_write(file, o.html);
    else if (o.json)
        done = cli_print_json(json_deep_copy(report), 17);
    else
        done = print_text(report);
    json_decref(file);
    return done;
}

const cli_command cli_report = {
    .name = "report",
    .summary = "a report that was saved: what limited, and what would help; as a page",
    .synopsis = "REPORT.json [options]",
    .examples = "  forebay report run.json                          of loader.report().save(\"run.json\")\n"
                "  forebay bench basins/ --json > run.json\n"
                "  forebay report run.json --html report.html       one file: epochs, stages, roofline, waits, memory, mixing, cures\n",
    .notes = "docs/diagnosis.md says what each limit means.\n",
    .options = options,
    .run = run,
};
