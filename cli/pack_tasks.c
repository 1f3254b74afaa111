/* forebay pack --tasks, --task and --slurm: what a pack is made by, one by one. */
#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OF_AN_ARRAY 1000u /* Slurm's arrays have at most 1001 by default; one of them may run several tasks */

int pack_read_task(pack_options *o)
{
    const char *colon = strchr(o->task, ':'), *name;
    char *end = NULL;
    for (int phase = 0; colon && (name = fby_pack_phase_name((fby_pack_phase)phase)); phase++)
        if (strlen(name) == (size_t)(colon - o->task) && strncmp(name, o->task, strlen(name)) == 0 && colon[1] >= '0' && colon[1] <= '9') {
            errno = 0;
            o->phase = (fby_pack_phase)phase;
            o->k = strtoull(colon + 1, &end, 10);
            if (errno == 0 && *end == 0)
                return CLI_CONTINUE;
        }
    return cli_error(CLI_USAGE, "--tasks",
                     "pack: no task is called '%s': it is a phase (plan, scatter, write, verify, finish), a colon and a number", o->task);
}

/* ---- as a table, as JSON ---- */

typedef struct listing {
    const pack_options *o;
    cli_table table;
    json_t *tasks;                             /* NULL: a table */
    uint64_t n[FBY_PACK_VERIFY + 1];           /* of each phase */
    fby_pack_phase order[FBY_PACK_VERIFY + 1]; /* as they came */
    size_t n_phases;
} listing;

static json_t *names_json(const char *const *names, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, cli_json_text(names[i]));
    return list;
}

static void add_names(cli_table *table, const char *const *names, size_t n)
{
    if (n > 1)
        cli_table_addf(table, "%s and %zu more", names[0], n - 1);
    else
        cli_table_add(table, n ? names[0] : "");
}

static bool add_task(void *user, const fby_pack_task *t)
{
    listing *l = user;
    if (l->n[t->phase] == 0)
        l->order[l->n_phases++] = t->phase;
    l->n[t->phase] = t->n;
    if (l->tasks) {
        json_t *one = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "phase", fby_pack_phase_name(t->phase), "k", (json_int_t)t->k,
                                "n", (json_int_t)t->n, "rows", (json_int_t)t->rows, "bytes_in", (json_int_t)t->bytes_in, "bytes_out",
                                (json_int_t)t->bytes_out, "inputs", names_json(t->inputs, t->n_inputs), "outputs",
                                names_json(t->outputs, t->n_outputs));
        (void)json_array_append_new(l->tasks, one);
        return true;
    }
    const bool plan = t->n_inputs && strcmp(t->inputs[0], ".forebay-pack/plan") == 0; /* which all of them read */
    cli_table_addf(&l->table, "%s:%llu", fby_pack_phase_name(t->phase), (unsigned long long)t->k);
    cli_table_add(&l->table, t->rows ? cli_count(t->rows) : "");
    cli_table_add(&l->table, t->bytes_in ? cli_size(t->bytes_in) : "");
    add_names(&l->table, t->inputs + plan, t->n_inputs - plan);
    cli_table_add(&l->table, t->bytes_out ? cli_size(t->bytes_out) : "");
    add_names(&l->table, t->outputs, t->n_outputs);
    return true;
}

/* ---- as a script ---- */

/* The job of a phase: array elements that run every n-th task, which wait for the job before. */
static void print_job(const listing *l, fby_pack_phase phase, const char *after)
{
    const char *name = fby_pack_phase_name(phase);
    const uint64_t n = l->n[phase], elements = n < MOST_OF_AN_ARRAY ? n : MOST_OF_AN_ARRAY;
    printf("%s=$(sbatch --parsable --job-name=pack-%s --mem=\"$mem\" --array=0-%llu%s%s \"$@\" <<END\n", name, name,
           (unsigned long long)(elements - 1), *after ? " --kill-on-invalid-dep=yes --dependency=afterok:$" : "", after);
    printf("#!/bin/sh\nfor k in \\$(seq \\$SLURM_ARRAY_TASK_ID %llu %llu); do\n    $pack --task %s:\\$k || exit 1\ndone\nEND\n)\n",
           (unsigned long long)elements, (unsigned long long)(n - 1), name);
}

static void print_script(const listing *l)
{
    const pack_options *o = l->o;
    const uint64_t memory = o->opts.memory_bytes ? o->opts.memory_bytes : (uint64_t)4 << 30;
    cli_text command = {0}, quoted = {0}, to = {0};
    cli_text_add(&command, "forebay pack");
    for (int i = 1; i < o->argc; i++)
        if (strcmp(o->argv[i], "--slurm") != 0) {
            cli_text_add(&command, " ");
            cli_text_add_quoted(&command, o->argv[i]);
        }
    cli_text_add_quoted(&quoted, cli_text_str(&command));
    printf("#!/bin/sh\n# Arguments are handed on to sbatch: --partition, --account, --time, --cpus-per-task.\nset -e\npack=%s\nmem=%lluM\n",
           cli_text_str(&quoted), (unsigned long long)((memory >> 20) + 256));
    cli_text_add_quoted(&to, o->to); /* jobs that wait for each other are a bad place to find out */
    printf("plan=%s/.forebay-pack/plan\n[ -f \"$plan\" ] || { echo \"$plan is gone: print this script again\" >&2; exit 1; }\n",
           cli_text_str(&to));
    const char *after = "";
    for (size_t i = 1; i < l->n_phases; i++) { /* the plan is there */
        print_job(l, l->order[i], after);
        after = fby_pack_phase_name(l->order[i]);
    }
    printf("echo \"job $finish ends it\"\n");
    cli_text_free(&command);
    cli_text_free(&quoted);
    cli_text_free(&to);
}

int pack_list_tasks(fby_dataset *ds, const pack_options *o, const fby_pack_opts *opts, fby_pack_info *info)
{
    listing l = {.o = o};
    fby_error err = {0};
    l.tasks = o->source.json ? json_array() : NULL;
    cli_table_init(&l.table, 6);
    for (int i = 0; i < 6; i++)
        cli_table_add(&l.table, (const char *const[]){"task", "rows", "reads", "from", "writes", "to"}[i]);
    /* A script has the numbers of tasks, which the plan decides; and so the key is read for it alone. */
    fby_status status = o->slurm ? fby_pack_run_task(ds, o->to, opts, FBY_PACK_PLAN, 0, info, &err) : FBY_OK;
    if (status == FBY_OK)
        status = fby_pack_tasks(ds, o->to, opts, add_task, &l, &err);
    cli_progress_end();
    int code = CLI_CONTINUE;
    if (status != FBY_OK) {
        json_decref(l.tasks);
        code = pack_error(o, opts->progress_user, &err);
    } else if (o->slurm) {
        print_script(&l);
        json_decref(l.tasks);
    } else if (l.tasks) {
        code = cli_print_json(
            json_pack("{s:s, s:s, s:o, s:o}", "command", "pack", "forebay", fby_version(), "to", cli_json_text(o->to), "tasks", l.tasks),
            17);
    } else {
        cli_table_print(&l.table, stdout);
    }
    cli_table_fini(&l.table);
    return code;
}
