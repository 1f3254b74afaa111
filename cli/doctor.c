/* forebay doctor: what this machine has, what will be slow, one line each with the cure; where the index cache is, and its removal. */
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

typedef struct doctor_options {
    bool json, clear_cache, yes;
    const char *cache_dir;
} doctor_options;

static const cli_option options[] = {
    {"clear-cache", 0, CLI_FLAG, offsetof(doctor_options, clear_cache), NULL, "remove the index cache, after a question", NULL},
    {"yes", 'y', CLI_FLAG, offsetof(doctor_options, yes), NULL, "with --clear-cache: do not ask", NULL},
    {"cache-dir", 0, CLI_TEXT, offsetof(doctor_options, cache_dir), "DIR", "where the index cache lives (default: ~/.cache/forebay)", NULL},
    {"json", 0, CLI_FLAG, offsetof(doctor_options, json), NULL, "print one JSON object instead of text", NULL},
    {NULL, 0, CLI_FLAG, 0, NULL, NULL, NULL},
};

doctor_finding *doctor_add(doctor_report *report, const char *name, doctor_level level, const char *fmt, ...)
{
    if (report->n == DOCTOR_MAX) { /* more paths than it has room for: the last one gives way */
        doctor_finding *last = &report->findings[--report->n];
        cli_text_free(&last->what);
        cli_text_free(&last->cure);
    }
    doctor_finding *f = &report->findings[report->n++];
    *f = (doctor_finding){.name = name, .level = level};
    va_list args;
    va_start(args, fmt);
    cli_text_addv(&f->what, fmt, args);
    va_end(args);
    return f;
}

static void report_fini(doctor_report *report)
{
    for (size_t i = 0; i < report->n; i++) {
        cli_text_free(&report->findings[i].what);
        cli_text_free(&report->findings[i].cure);
    }
}

static void look_at_cache(doctor_report *report, const doctor_cache *cache)
{
    doctor_finding *f;
    if (!cache->folder.n) {
        f = doctor_add(report, "index cache", DOCTOR_SLOW, "none: %s, so every opening reads all metadata again",
                       cli_text_str(&cache->why));
        cli_text_add(&f->cure, "export FOREBAY_CACHE=/some/folder");
        return;
    }
    if (cache->sys_errno) {
        f = doctor_add(report, "index cache", DOCTOR_SLOW, "%s: %s, so every opening reads all metadata again",
                       cli_text_str(&cache->folder), strerror(cache->sys_errno));
        cli_text_add(&f->cure, "export FOREBAY_CACHE=/some/folder");
        return;
    }
    if (cache->refusal) {
        f = doctor_add(report, "index cache", DOCTOR_SLOW, "%s is not used, so every opening reads all metadata again: %s",
                       cli_text_str(&cache->folder), cache->refusal);
        cli_text_add(&f->cure, "export FOREBAY_CACHE=/some/folder");
        return;
    }
    f = doctor_add(report, "index cache", cache->writable ? DOCTOR_OK : DOCTOR_SLOW, "%s: %s files, %s%s", cli_text_str(&cache->folder),
                   cli_count(cache->n_files), cli_size(cache->n_bytes),
                   cache->writable ? "" : "; it cannot be written, so every opening reads all metadata again");
    cli_text_add(&f->cure,
                 cache->writable ? (cache->n_files ? "forebay doctor --clear-cache removes it" : "") : "export FOREBAY_CACHE=/some/folder");
}

static const char *const LEVELS[] = {"ok", "note", "slow"};

static int print_json(const doctor_report *report, const doctor_cache *cache)
{
    json_t *findings = json_array(), *libraries = json_array();
    for (size_t i = 0; i < report->n; i++) {
        const doctor_finding *f = &report->findings[i];
        json_array_append_new(findings, json_pack("{s:s, s:s, s:o, s:o}", "name", f->name, "level", LEVELS[f->level], "what",
                                                  cli_json_text(cli_text_str(&f->what)), "cure", cli_json_text(cli_text_str(&f->cure))));
    }
    const char *name, *version, *license;
    for (size_t i = 0; fby_library_at(i, &name, &version, &license); i++)
        json_array_append_new(libraries, json_pack("{s:s, s:s, s:s}", "name", name, "version", version, "license", license));
    json_t *place = json_pack("{s:o, s:I, s:I, s:b}", "folder", cli_json_text(cli_text_str(&cache->folder)), "files",
                              (json_int_t)cache->n_files, "bytes", (json_int_t)cache->n_bytes, "writable", cache->writable);
    return cli_print_json(json_pack("{s:s, s:s, s:o, s:o, s:o}", "command", "doctor", "forebay", fby_version(), "findings", findings,
                                    "cache", place, "libraries", libraries),
                          6);
}

static int print_text(const doctor_report *report)
{
    const char *const colours[] = {cli_green, cli_dim, cli_yellow};
    size_t slow = 0;
    for (size_t i = 0; i < report->n; i++) {
        const doctor_finding *f = &report->findings[i];
        printf("%s%-4s%s %-12s %s\n", colours[f->level], LEVELS[f->level], cli_plain, f->name, cli_printable(cli_text_str(&f->what)));
        if (f->cure.n)
            printf("%18s%stry:%s %s\n", "", cli_dim, cli_plain, cli_printable(cli_text_str(&f->cure)));
        slow += f->level == DOCTOR_SLOW;
    }
    printf("%-4s %-12s", "ok", "libraries");
    const char *name, *version;
    for (size_t i = 0; fby_library_at(i, &name, &version, NULL); i++)
        printf(" %s%s%s%s", i ? "· " : "", name, *version ? " " : "", version);
    if (slow)
        printf("\n\n%s%zu of these will be slow.%s\n", cli_bold, slow, cli_plain);
    else
        printf("\n\n%sNothing here will be slow.%s\n", cli_bold, cli_plain);
    return CLI_OK;
}

static int run(const cli_command *command, int argc, char **argv)
{
    doctor_options o = {0};
    char **paths;
    size_t n_paths;
    int code = cli_args_parse(command, argc, argv, &o, &paths, &n_paths);
    if (code != CLI_CONTINUE)
        return code;
    if (o.clear_cache && n_paths)
        return cli_error(CLI_USAGE, "forebay doctor --clear-cache", "doctor: --clear-cache takes no path: --cache-dir names another cache");
    if (o.cache_dir && !*o.cache_dir)
        return cli_error(CLI_USAGE, "forebay doctor --help", "doctor: --cache-dir names a folder");
    if (o.yes && !o.clear_cache)
        return cli_error(CLI_USAGE, "forebay doctor --clear-cache --yes", "doctor: --yes is for --clear-cache");
    doctor_cache cache = {0};
    doctor_report report = {0};
    doctor_cache_find(&cache, o.cache_dir);
    if (o.clear_cache) {
        code = doctor_cache_clear(&cache, o.yes, o.json);
    } else {
        doctor_machine(&report);
        if (!n_paths)
            doctor_path(&report, ".");
        for (size_t i = 0; i < n_paths; i++)
            doctor_path(&report, paths[i]);
        look_at_cache(&report, &cache);
        code = o.json ? print_json(&report, &cache) : print_text(&report);
    }
    report_fini(&report);
    doctor_cache_fini(&cache);
    return code;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .summary = "what this machine has, what will be slow, and the cure",
    .synopsis = "[PATH…] [options]",
    .examples = "  forebay doctor\n"
                "  forebay doctor /scratch/basins           also the file system of the data\n"
                "  forebay doctor --clear-cache             remove the index cache\n",
    .notes = "Each line says \"ok\", \"note\" (less than there could be) or \"slow\" (it will cost time), with the cure below. Nothing is "
             "measured:\n"
             "forebay bench does that. --json: {command, forebay, findings: [{name, level, what, cure}], cache: {folder, files, bytes,\n"
             "writable}, libraries: [{name, version, license}]}; with --clear-cache {command, forebay, cache, removed_files,\n"
             "removed_bytes}. --clear-cache asks on a terminal and needs --yes elsewhere; \"no\" is exit code 1.\n",
    .options = options,
    .paths_optional = true,
    .run = run,
};
