/* forebay bench, between its files: what was asked for, what is loaded, what was measured, and how that is shown. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"

#define BENCH_NO_SEED UINT64_MAX /* what --seed is when it is not given */

/* Options that take several values: bench then measures each of them, beside those of the others. */
typedef enum bench_varied {
    BENCH_SHUFFLE,
    BENCH_MEMORY,
    BENCH_BATCH_SIZE,
    BENCH_SUPERBATCH,
    BENCH_STREAMS,
    BENCH_THREADS,
    BENCH_PREFETCH,
    BENCH_VARIED
} bench_varied;

typedef struct bench_options {
    cli_list columns, set;
    bool separate, cold;
    int dtype, shuffle;                                    /* indices of the tables in bench_load.c; -1 = not given */
    uint64_t batch_size, seed, streams, threads, prefetch; /* 0 but of seed: not given */
    cli_memory_size memory;
    const char *superbatch, *split;
    uint64_t epochs, batches, warmup, runs; /* 0 = not given */
    double seconds, work, margin;
    bool quick, compare;
    cli_list varied[BENCH_VARIED], baseline;
    const char *html, *save, *against, *today;
    cli_source source;
} bench_options;

extern const char *const bench_dtype_names[];

/** What is measured. The options point into the rest. */
typedef struct bench_load {
    fby_loader_opts opts;
    fby_pipeline *pipeline; /* borrowed; NULL = columns */
    fby_mix mix;            /* of a pipeline file that describes a mixture, else without sources */
    const char *split;      /* borrowed: of the pipeline; NULL = all samples */
    fby_output *outputs;    /* owned: of columns */
    const char **matrix;    /* owned: columns of the matrix */
    const char **singles;   /* owned: columns of their own */
    const char *dtype;      /* of the matrix; NULL = there is none */
    char matrix_name[24];
    size_t n_outputs, n_matrix, n_singles;
    size_t left_out;    /* columns that only --columns or --separate would load */
    uint64_t row_bytes; /* of arrays of numbers */
} bench_load;

/** What the command line gives takes the place of what is there. CLI_CONTINUE, or the code of an error that was printed. */
int bench_apply_options(const bench_options *o, fby_loader_opts *opts);
/** Fill it: CLI_CONTINUE, or the code of an error that was printed. Free it in any case; `out` is zeroed before. */
int bench_load_columns(fby_dataset *ds, const bench_options *o, bench_load *out);
int bench_load_pipeline(fby_pipeline *pipeline, const bench_options *o, cli_data *out_data, bench_load *out);
void bench_load_free(bench_load *load);
/** Print an error of its loader, with the place in the pipeline file where it names one of its outputs; returns the exit code. */
int bench_load_error(const bench_load *load, fby_error *err);

/* ---- bench_run.c: one measurement ---- */

/** When a measurement ends: what comes first; 0 = no limit. */
typedef struct bench_limits {
    double seconds;
    uint64_t epochs, batches;
} bench_limits;

typedef struct bench_result {
    uint64_t samples, batches, epochs; /* epochs: complete ones */
    double seconds, epoch_seconds;     /* all; of the complete epochs */
    double open_seconds, first_batch_seconds, cpu_seconds;
    uint64_t rss_before_bytes, peak_rss_bytes;
    double *times; /* owned: seconds from batch to batch, the first one of a run left out */
    size_t n_times, cap_times;
    bool interrupted;
    fby_report report; /* counters since the warm-up */
} bench_result;

/**
 * Open a loader and take its batches. *out_loader is the caller's to close, on success alone; the result's times are to be freed in any case.
 * CLI_CONTINUE, or the code of an error that was printed.
 */
int bench_measure(const cli_data *data, const bench_load *load, const bench_options *o, bench_limits limits, bench_result *out,
                  fby_loader **out_loader);
/** Ask the kernel to forget the files' pages. CLI_CONTINUE, or the code of an error that was printed. */
int bench_drop_page_cache(const fby_dataset *ds);
bool bench_interrupted(void); /* Ctrl-C, while batches were taken */
double bench_rate(const bench_result *r);
/** Seconds of a whole epoch at the pace measured; complete epochs give it exactly. */
double bench_epoch_seconds(const fby_loader *loader, const bench_result *r);
double bench_cpu_per_million(const bench_result *r);
double bench_median(double *values, size_t n); /* sorts them */

/* ---- bench_report.c: one measurement, printed; and what the others print too ---- */

/** Print the result as text or JSON, and write its page; sorts r->times. Returns the exit code. */
int bench_print(const cli_data *data, fby_loader *loader, const bench_load *load, const bench_options *o, bench_result *r,
                char *const *paths, size_t n_paths);
void bench_print_dataset(const cli_data *data, char *const *paths, size_t n_paths);
json_t *bench_options_json(const bench_load *load, const bench_options *o, const fby_report *r);
json_t *bench_dataset_json(const cli_data *data);
json_t *bench_outputs_json(const fby_loader *loader);

/* ---- bench_table.c: settings side by side ---- */

/** How many combinations of settings there are. */
size_t bench_settings(const bench_options *o);
/** *out: o with the settings of combination k of them. `table`: that of the command. */
void bench_setting(const bench_options *o, const cli_option *table, size_t k, bench_options *out);
/** Measure all of them in turn and print the table. Returns the exit code. */
int bench_table(const cli_data *data, const bench_load *load, const bench_options *o, const cli_option *table, char *const *paths,
                size_t n_paths);

/* ---- bench_against.c: is it slower than it was? ---- */

int bench_against(const cli_data *data, const bench_load *load, const bench_options *o, char *const *paths, size_t n_paths);

/* ---- bench_compare.c: beside other loaders ---- */

/** Does not return but with the code of an error that was printed. */
int bench_compare(const cli_data *data, const bench_load *load, const bench_options *o, char *const *paths, size_t n_paths);

/* ---- bench_reference.c: work that is always the same ---- */

typedef struct bench_reference bench_reference;
bench_reference *bench_reference_create(size_t n_threads);
void bench_reference_destroy(bench_reference *reference);
/** Units of work that all threads do together in so many seconds: a second, and a second of CPU time; 0 when a thread could not be started. */
typedef struct bench_pace {
    double wall, cpu;
} bench_pace;
bench_pace bench_reference_run(bench_reference *reference, double seconds);
double bench_cpu_seconds(void); /* of the process so far */

#endif
