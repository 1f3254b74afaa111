/* forebay bench, between its two files: what was asked for, what was measured. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"

typedef struct bench_options {
    cli_list columns;
    bool separate, cold;
    int dtype, shuffle; /* indices of the tables in bench.c */
    uint64_t batch_size, seed, memory, streams, threads, prefetch, epochs, warmup;
    const char *superbatch;
    double seconds, work;
    cli_source source;
} bench_options;

typedef struct bench_result {
    uint64_t samples, batches, epochs; /* epochs: complete ones */
    double seconds, epoch_seconds;     /* all; of the complete epochs */
    double open_seconds, first_batch_seconds, cpu_seconds;
    uint64_t rss_before_bytes, peak_rss_bytes;
    double *times; /* owned: seconds from batch to batch, the first one of a run left out */
    size_t n_times, cap_times;
    size_t matrix_columns, left_out_columns;
    bool interrupted;
    fby_report report; /* counters since the warm-up */
} bench_result;

const char *bench_shuffle_name(const bench_options *o);
const char *bench_dtype_name(const bench_options *o);

/** Print the result as text or JSON; sorts r->times. Returns the exit code. */
int bench_print(fby_dataset *ds, fby_loader *loader, const bench_options *o, bench_result *r, char *const *paths, size_t n_paths);

#endif
