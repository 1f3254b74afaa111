/* forebay pack: its options, and its tasks one by one. */
#ifndef CLI_PACK_H
#define CLI_PACK_H

#include "cli.h"

typedef struct pack_options {
    fby_pack_opts opts; /* those that the library takes as they are given */
    const char *to;
    uint64_t threads;
    cli_list columns, set;
    const char *outputs, *split; /* a pipeline file, and its split */
    bool tasks, slurm;
    const char *task;     /* "scatter:3" */
    fby_pack_phase phase; /* what that says */
    uint64_t k;
    int argc; /* as they were given, for --slurm */
    char **argv;
    cli_source source;
} pack_options;

/** What the library has said of its progress: progress_user of its options. */
typedef struct pack_progress {
    double begun;
    uint64_t first;    /* what was done already when it began */
    const char *doing; /* NULL: nothing yet */
} pack_progress;

/** Prints it; returns the code to exit with. pack.c */
int pack_error(const pack_options *o, const pack_progress *shown, const fby_error *err);

/* pack_tasks.c. Each returns the code to exit with, or CLI_CONTINUE when it has done what it says. */

/** phase and k of `task`. */
int pack_read_task(pack_options *o);
/** Prints them, or with --slurm, once the plan is made, a script that runs the others; *info is of the plan. */
int pack_list_tasks(fby_dataset *ds, const pack_options *o, const fby_pack_opts *opts, fby_pack_info *info);

/* pack_pipeline.c */
/** What --outputs says: opens it and packs what it gives. */
int pack_pipeline(const pack_options *o,
                  int (*pack)(fby_dataset *ds, const pack_options *o, const fby_loader_opts *loader, const char *text));

#endif
