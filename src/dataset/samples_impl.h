/*
 * Inside the sample index: what its files share.
 *
 * A base holds what was found in the data; the samples themselves are a base and a choice of it (all, some files, a part of every series).
 * Splits share the base.
 */
#ifndef FBY_DATASET_SAMPLES_IMPL_H
#define FBY_DATASET_SAMPLES_IMPL_H

#include "base/hash.h"
#include "dataset/samples.h"

/** Rows [begin, end) of the dataset without a missing value, in a series. A series without one has one stretch. */
typedef struct fby__stretch {
    uint64_t begin, end;
    uint64_t series_begin, series_end;
} fby__stretch;

#define FBY__FRAME_GROUPS 64u
#define FBY__FRAME_WIDE 0x80000000u
#define FBY__MAX_GROUP_BLOCK_ROWS (1u << 30)

/** 64 starts of groups: start k is row + at[k], two bytes each; where the frame spans more rows, four. */
typedef struct fby__frame {
    uint32_t row; /* of the block: its first start */
    uint32_t at;  /* in fby__block_groups.starts; FBY__FRAME_WIDE: of pairs that hold four bytes */
} fby__frame;

/** Groups that begin in a block. */
typedef struct fby__block_groups {
    uint32_t n;         /* starts stored; the first one is row 0, whether a group begins there or goes on */
    uint32_t skip;      /* 1: row 0 goes on with the group of the block before */
    uint64_t last_end;  /* where the last group that begins here ends, counted from the block's first row */
    fby__frame *frames; /* owned; starts lie behind the frames */
    const uint16_t *starts;
    size_t bytes;
} fby__block_groups;

typedef struct fby__sample_base {
    _Atomic uint32_t refs;
    fby_dataset *ds; /* shared */
    fby_sample_kind kind;
    uint64_t length, stride; /* WINDOWS */
    fby__stretch *stretches; /* owned: WINDOWS, in order; those as long as a window */
    size_t n_stretches, cap_stretches;
    uint64_t longest_stretch, longest_series; /* WINDOWS, shorter ones too: for messages */
    fby__block_groups *groups;                /* owned: GROUPS, one a block */
    fby__hash128 hash;                        /* of the options */
} fby__sample_base;

/** Starts that are a stride apart. */
typedef struct fby__run {
    uint64_t row;    /* of the block */
    uint64_t before; /* samples of the block before this run */
} fby__run;

struct fby_samples {
    _Atomic uint32_t refs;
    fby__sample_base *base; /* shared */
    uint64_t *first;        /* owned: n_blocks + 1 */
    fby__run *runs;         /* owned: WINDOWS */
    size_t n_runs, cap_runs;
    size_t *run_at; /* owned: WINDOWS, n_blocks + 1: runs of block b are [run_at[b], run_at[b + 1]) */
    bool *file_in;  /* owned: one a file, or NULL = all */
    bool is_part;   /* of time: fractions [from, to) of each series */
    double from, to;
    uint64_t max_rows;
    char identity[33];
};

/** Row f · n of n, such that 0.7 of 10 is 7 whatever floating point makes of it. */
static inline uint64_t fby__fraction_of(double f, uint64_t n)
{
    uint64_t at = (uint64_t)(f * (double)n + 1e-6);
    return at < n ? at : n;
}

/* ---- samples.c ---- */

/** Forget what was found. */
void fby__sample_base_clear(fby__sample_base *base);

/* ---- samples_cache.c ---- */

/** What an earlier scan with these options found over these files, if it is on disk. Only FBY_E_NOMEM is an error. */
fby_status fby__samples_load(fby__sample_base *base, bool *out_found, fby_error *err);
/** Keep what a scan found. Best effort. */
void fby__samples_store(const fby__sample_base *base);

/* ---- samples_windows.c ---- */

/** base->stretches and the choice of s → s->first, runs, run_at. */
fby_status fby__samples_windows(fby_samples *s, fby_error *err);
/** One stretch a file: windows that need no scan. */
fby_status fby__stretches_of_files(fby__sample_base *base, fby_error *err);
/** Append a stretch that is as long as a window. Its series' end may be set later. */
fby_status fby__stretches_add(fby__sample_base *base, const fby__stretch *stretch, fby_error *err);

/* ---- samples_scan.c ---- */

/** Read the columns that opts name: → base->stretches, or base->groups. */
fby_status fby__samples_scan(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err);

/** Where start i of a block is, i < n. */
static inline uint64_t fby__group_start(const fby__block_groups *g, uint64_t i)
{
    const fby__frame *f = &g->frames[i / FBY__FRAME_GROUPS];
    uint32_t k = (uint32_t)(i % FBY__FRAME_GROUPS);
    if (!(f->at & FBY__FRAME_WIDE))
        return (uint64_t)f->row + g->starts[f->at + k];
    const uint16_t *wide = &g->starts[(f->at & ~FBY__FRAME_WIDE) + 2 * k];
    return (uint64_t)f->row + (wide[0] | (uint32_t)wide[1] << 16);
}

#endif
