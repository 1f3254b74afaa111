/* forebay bench, between its files: what was asked for, what is loaded, what was measured. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"

#define BENCH_NO_SEED UINT64_MAX /* what --seed is when it is not given */

typedef struct bench_options {
    cli_list columns, set;
    bool separate, cold;
    int dtype, shuffle;                                                    /* indices of the tables in bench_load.c; -1 = not given */
    uint64_t batch_size, seed, streams, threads, prefetch, epochs, warmup; /* 0 but of seed: not given */
    cli_memory_size memory;
    const char *superbatch, *split;
    double seconds, work;
    cli_source source;
} bench_options;

extern const char *const bench_shuffle_names[], *const bench_dtype_names[];

/** What is measured. The options point into the rest. */
typedef struct bench_load {
    fby_loader_opts opts;
    fby_pipeline *pipeline; /* borrowed; NULL = columns */
    const char *split;      /* borrowed: of the pipeline; NULL = all samples */
    fby_output *outputs;    /* owned: of columns */
    const char **matrix;    /* owned: columns of the matrix */
    const char **singles;   /* owned: columns of their own */
    const char *dtype;      /* of the matrix; NULL = there is none */
    size_t n_outputs, n_matrix, n_singles;
    size_t left_out;    /* columns that only --columns or --separate would load */
    uint64_t row_bytes; /* of arrays of numbers */
} bench_load;

/** Fill it: CLI_CONTINUE, or the code of an error that was printed. Free it in any case; `out` is zeroed before. */
int bench_load_columns(fby_dataset *ds, const bench_options *o, bench_load *out);
int bench_load_pipeline(fby_pipeline *pipeline, const bench_options *o, fby_dataset **out_ds, bench_load *out); /* out_ds: the pipeline's */
void bench_load_free(bench_load *load);
/** Print an error of its loader, with the place in the pipeline file where it names one of its outputs; returns the exit code. */
int bench_load_error(const bench_load *load, fby_error *err);

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

/** Print the result as text or JSON; sorts r->times. Returns the exit code. */
int bench_print(fby_dataset *ds, fby_loader *loader, const bench_load *load, const bench_options *o, bench_result *r, char *const *paths,
                size_t n_paths);

#endif
