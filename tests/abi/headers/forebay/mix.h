/*
 * Mixtures: one loader over several data sets, in stated proportions.
 *
 *     const double weights[] = {3, 1};
 *     const fby_mix_source sources[] = {{.name = "stations", .samples = a}, {.name = "model", .samples = b}};
 *     const fby_mix mix = {.size = sizeof mix, .source_size = sizeof *sources, .sources = sources, .n_sources = 2,
 *                          .weights = weights, .n_epochs = 1, .stop = FBY_MIX_FIRST};
 *     fby_loader_open_mix(&mix, &opts, &loader, &err);
 *
 * The order depends on all that a loader's order depends on, and on the sources, their weights and where an epoch ends. In every stretch of samples
 * each source has its share to within a few samples, in a batch as in an epoch, on any number of ranks; over an epoch it is exact, to the nearest
 * sample. Sources may differ in format and in what their samples are (rows, windows, groups, cells); outputs agree in name, shape and dtype.
 */
#ifndef FOREBAY_MIX_H
#define FOREBAY_MIX_H

#include <forebay/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where an epoch of a mixture ends. */
typedef enum fby_mix_stop {
    FBY_MIX_FIRST, /* before the first source would run out; what the others have left does not come in this epoch */
    FBY_MIX_ALL,   /* when every sample of every source has come; sources that run out before begin anew. Without weights each comes once */
    FBY_MIX_SAMPLES /* after n_samples; sources that run out before begin anew */
} fby_mix_stop;

/** One source. Borrowed for the call that takes it. */
typedef struct fby_mix_source {
    const char *name;          /* what errors and reports call it; no two are alike */
    fby_samples *samples;      /* of any data set; the loader holds a reference */
    const fby_output *outputs; /* n_outputs, of the loader's output_size; NULL = the loader's: its own columns under the same names */
    size_t n_outputs;
} fby_mix_source;

typedef struct fby_mix {
    size_t size;                   /* sizeof(fby_mix) */
    size_t source_size;            /* sizeof(fby_mix_source) */
    const fby_mix_source *sources; /* n_sources, at most 1024 */
    size_t n_sources;
    /*
     * n_epochs rows of n_sources: how often each source comes relative to the others, ≥ 0. Row e is for epoch e, the last row for all later ones too.
     * NULL = the sources' numbers of samples.
     */
    const double *weights;
    size_t n_epochs;
    fby_mix_stop stop;
    uint64_t n_samples; /* FBY_MIX_SAMPLES: over all ranks */
} fby_mix;

/**
 * Open a loader over a mixture, in all else as fby_loader_open() does. The superbatch is divided among the sources by weight, and the budget by what
 * each source's share of it takes. `samples` of opts is not used.
 *
 * FBY_E_UNSUPPORTED: parts, diversity, batches by rows, length buckets, samples that are drawn anew in every epoch; FBY_E_ARG: weights,
 * outputs that are not alike, or data sets of files that were opened with different io. Messages name the source.
 * @out  [out] owned by the caller: fby_loader_close(). Threads: any. Blocks: as fby_loader_open(). Callbacks: as there. Since: 0.2
 */
FBY_API fby_status fby_loader_open_mix(const fby_mix *mix, const fby_loader_opts *opts, fby_loader **out, fby_error *err);

/**
 * Moments of columns over a mixture, weighed as a loader over it draws: of the values that come out, source i has the share
 *
 *     p(i) = s(i) r(i) n(i) / R(i), over the sum of that of all sources
 *
 * where s is its share of the weights, r the mean number of rows of its samples, and n the values found in the R rows that they consist of, each
 * row once. Then mean = Σ p(i) mean(i) and std² = Σ p(i) (std(i)² + (mean(i) - mean)²). Counts are sums, and min and max are over all sources that
 * have a weight. Without weights, of plain rows, these are the moments of all rows together.
 *
 * @opts  as of fby_fit_moments(), over columns that all sources have; samples is NULL: they are the sources'.
 * @out   [out] as there.
 * Errors: those of fby_fit_moments() with the source's name; FBY_E_UNSUPPORTED for weights that differ from epoch to epoch.
 * Threads: any. Blocks: while it reads. Since: 0.2
 */
FBY_API fby_status fby_fit_mix(const fby_mix *mix, const fby_fit_opts *opts, fby_moments *out, fby_error *err);

/** What one epoch takes from a source. Strings borrowed from the loader. */
typedef struct fby_source_info {
    size_t size;        /* set by the caller: sizeof(fby_source_info) */
    const char *name;   /* "" of a loader over one data set */
    uint64_t n_samples; /* in the epoch, over all ranks; repeats that fill up its last batch aside */
    uint64_t n_left;    /* samples of the source that do not come in it */
    uint64_t n_passes;  /* how often the source is begun: 2 = some samples come twice */
} fby_source_info;

/** How many sources a loader has: 1 where it is no mixture. Threads: any. Blocks: no. Since: 0.2 */
FBY_API size_t fby_loader_source_count(const fby_loader *loader);
/** Source i in an epoch. FBY_E_ARG past the last. Threads: any. Blocks: no. Since: 0.2 */
FBY_API fby_status fby_loader_source(const fby_loader *loader, size_t i, uint64_t epoch, fby_source_info *out, fby_error *err);

/** What a loader has done so far with one source. Padding and what a batch has are of the order: measured on batches of epoch 0. */
typedef struct fby_source_report {
    size_t size;              /* set by the caller: sizeof(fby_source_report) */
    const char *name;         /* "" of a loader over one data set; borrowed from the loader */
    uint64_t samples;         /* handed out */
    uint64_t bytes_read;      /* of its files */
    uint64_t wait_ns;         /* that the consumer waited for batches in which the samples of this source were the last to be decoded */
    double padding;           /* share of its rows of padded outputs that is padding */
    double samples_per_batch; /* on average */
    double files_per_batch;   /* distinct ones, on average; 0 where files are unknown */
} fby_source_report;

/** Source i so far. FBY_E_ARG past the last, FBY_E_STATE in a forked child. Threads: any. Blocks: no. Since: 0.2 */
FBY_API fby_status fby_loader_source_report(fby_loader *loader, size_t i, fby_source_report *out, fby_error *err);

#ifdef __cplusplus
}
#endif
#endif
