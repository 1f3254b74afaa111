/*
 * Inside the sample index: what its files share, in three layers.
 *
 *   base      what was found in the data, or given by an index table: series, or where groups begin. Shared by all that is cut from it
 *   view      of the base: all of it, some files, a part of every series. Its samples are numbered block by block
 *   choice    of the view: which of a block's samples are in, in file order, each as often as it is to come. None = all, once
 */
#ifndef FBY_SAMPLES_SAMPLES_IMPL_H
#define FBY_SAMPLES_SAMPLES_IMPL_H

#include "base/hash.h"
#include "base/notes.h"
#include "budget/allowance.h"
#include "samples/samples.h"

/** Rows [begin, end) of the dataset without a missing value, in a series. A series without one has one stretch. */
typedef struct fby__stretch {
    uint64_t begin, end;
    uint64_t series_begin, series_end;
    uint64_t whole_begin, whole_end; /* of the file or key that the series is part of: what a split by time cuts */
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

/** An index table of groups: one row a group, with its first and last row in its file. */
typedef struct fby__group_table {
    fby_dataset *ds;           /* shared */
    char *file, *first, *last; /* owned: columns; file NULL = there is one file */
    bool by_position;          /* the file is given by its position, not by its name */
} fby__group_table;

/** Windows lost to missing values: all that there would be without, how many of them are left out, and the files that have none left. */
typedef struct fby__dropped {
    uint64_t all, out;
    uint32_t files, first_file;
} fby__dropped;

/** The first runs of the blocks, each of one key: their rows, and how many have a key that an earlier run of the block has. */
typedef struct fby__scattered {
    uint64_t runs, rows, again;
} fby__scattered;

typedef struct fby__sample_base {
    _Atomic uint32_t refs;
    fby_dataset *ds; /* shared */
    fby_sample_kind kind;
    char *key;        /* owned: as in the options; the first column of several */
    char **more_keys; /* owned, n_more_keys: the others */
    size_t n_more_keys;
    fby__group_table table;  /* GROUPS; ds NULL = they were found by the key */
    uint64_t length, stride; /* WINDOWS */
    uint64_t target;         /* WINDOWS: the first row of the target: of the output, or the last one */
    fby__stretch *stretches; /* owned: WINDOWS, in order; those as long as a window */
    size_t n_stretches, cap_stretches;
    uint64_t longest_stretch, longest_series; /* WINDOWS, shorter ones too: for messages */
    double first_rise;                        /* of the time from the first row to the second, in its units: for messages; 0 = not known */
    fby__dropped dropped;                     /* WINDOWS with drop_missing */
    fby__scattered scattered;                 /* found by a key of one column */
    bool is_shuffled;                         /* rows of a pack in an order that is not their source's */
    fby__notes notes;
    fby__block_groups *groups;       /* owned: GROUPS, one a block */
    fby__hash128 hash;               /* of the options */
    _Atomic(uint8_t *) shared_names; /* owned: see fby__file_names_shared; acq_rel where it is made, which pairs with acquire */
    _Atomic(char *) choice_note;     /* owned, the note behind the others: of a choice on disk that was not used; as shared_names */
} fby__sample_base;

/** Starts that are a stride apart. */
typedef struct fby__start_run {
    uint64_t row;    /* of the block */
    uint64_t before; /* samples of the block before this run */
} fby__start_run;

/**
 * The chosen samples of a block: a list of n numbers that never falls, a number repeated when its sample is, as P. Elias and R. Fano code it.
 * The low bits of each number lie side by side; the high parts are unary: number i sets bit (high part + i). About
 * 2.5 + log2(samples of the block / n) bits a number, whether few are chosen, most, or all of them many times.
 */
typedef struct fby__chosen {
    bool some;       /* there is a list; else all are in, once */
    uint64_t *words; /* owned: bit positions of every FBY__CHOSEN_STEP-th number (two a word), high parts, low parts; NULL: n = 0 */
    uint64_t n;      /* of the list */
    uint32_t n_words, high_at, low_at; /* in words */
    uint32_t low_bits;
} fby__chosen;
#define FBY__CHOSEN_STEP 64u
#define FBY__MAX_CHOSEN ((uint64_t)1 << 30) /* of a block */

typedef struct fby__choice {
    _Atomic uint32_t refs;
    uint32_t n_blocks;
    fby__chosen blocks[];
} fby__choice;

/** Weights, and how many samples are drawn by them in every epoch. */
typedef struct fby__draw fby__draw;

struct fby_samples {
    _Atomic uint32_t refs;
    fby__sample_base *base; /* shared */
    fby__draw *draw;        /* owned: an epoch has samples drawn from these; NULL = it has these */
    uint64_t *first;        /* owned: n_blocks + 1; of the choice */
    fby__choice *choice;    /* shared; NULL = the whole view */
    fby__start_run *runs;   /* owned: WINDOWS */
    size_t n_runs, cap_runs;
    size_t *run_at;     /* owned: WINDOWS, n_blocks + 1: runs of block b are [run_at[b], run_at[b + 1]) */
    bool *file_in;      /* owned: one a file, or NULL = all */
    bool is_time_split; /* fractions [from, to) of each series */
    bool at_target;     /* of such a split: the target of a window begins in it; false = all of the window lies in it */
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
/** A view: files that are in (NULL = all), and a part of every series of windows. */
typedef struct fby__sample_view {
    const bool *file_in; /* borrowed */
    bool is_time_split, at_target;
    double from, to;
} fby__sample_view;
fby__sample_view fby__samples_view(const fby_samples *s);
/** Samples of a base: the view is copied, the choice (NULL = none) moved in, also on failure. *out is closed with fby_samples_close. */
fby_status fby__samples_create(fby__sample_base *base, const fby__sample_view *view, fby__choice *choice, fby_samples **out,
                               fby_error *err);
/** FBY_E_ARG when samples are drawn anew in every epoch: nothing can be cut from them. `what` begins the message. */
fby_status fby__samples_refuse_drawn(const fby_samples *s, const char *what, fby_error *err);
/** The view of s with another choice (moved in, also on failure). */
fby_status fby__samples_choose(const fby_samples *s, fby__choice *choice, fby_samples **out, fby_error *err);

/** What this thread allocates to choose some of the samples: in an account of the data set, in which they are charged themselves. */
fby_status fby__samples_choosing_begin(fby__account_scope *scope, const fby_samples *s, fby_error *err);
fby_status fby__samples_choosing_end(fby__account_scope *scope, const fby_samples *s, fby_status status, fby_error *err);

/* ---- choice.c ---- */

fby__choice *fby__choice_create(uint32_t n_blocks); /* every block: all, once; NULL = no memory */
fby__choice *fby__choice_ref(fby__choice *c);
void fby__choice_unref(fby__choice *c); /* NULL is fine */
/**
 * Set block b of a new choice: sample i of s, i < n ≤ fby__samples_of_block(s, b), is to come counts[i] times, and those behind are not in. s may
 * be a choice itself. Blocks that are not set hold what the view holds.
 * Blocks may be set by several threads at once. FBY_E_NOMEM; FBY_E_UNSUPPORTED: more than FBY__MAX_CHOSEN.
 */
fby_status fby__choice_set(fby__choice *c, const fby_samples *s, uint32_t b, const uint16_t *counts, uint64_t n, fby_error *err);
/** Entry i of a block's list; and its low bits alone. */
uint64_t fby__chosen_at(const fby__chosen *c, uint64_t i);
uint64_t fby__chosen_low_part(const fby__chosen *c, uint64_t i);
size_t fby__choice_memory_bytes(const fby__choice *c);
fby__hash128 fby__choice_hash(fby__hash128 h, const fby__choice *c);

/* ---- draw.c ---- */

/** Draws n of n_samples by weights, of which one is above 0. */
fby_status fby__draw_create(const double *weights, uint64_t n_samples, uint64_t n, uint64_t seed, fby__draw **out, fby_error *err);
void fby__draw_destroy(fby__draw *d); /* NULL is fine */
uint64_t fby__draw_count(const fby__draw *d);
fby__hash128 fby__draw_hash(fby__hash128 h, const fby__draw *d);
size_t fby__draw_memory_bytes(const fby__draw *d);

/* ---- groups.c ---- */

/** g: starts 0 and begins[0 … n_begins), rising. */
fby_status fby__groups_pack(fby__block_groups *g, const uint32_t *begins, size_t n_begins, fby_error *err);
/** Groups of n rows each from a file's first row on, its last one what is left: → base->groups. */
fby_status fby__groups_of_rows(fby__sample_base *base, uint64_t n, fby_error *err);

/* ---- table.c ---- */

/** Groups as an index table gives them: → base->groups, and the samples without what lies between groups. */
fby_status fby__samples_from_table(fby__sample_base *base, const fby_samples_opts *opts, fby_samples **out, fby_error *err);

/* ---- cache.c ---- */

/** What an earlier scan with these options found over these files, if it is on disk. Only FBY_E_NOMEM is an error. */
fby_status fby__samples_load(fby__sample_base *base, bool *out_found, fby_error *err);
/** Keep what a scan found. Best effort. */
void fby__samples_store(const fby__sample_base *base);

/** What a step from samples to samples that reads a column was asked for: the name of what came out, on disk. */
typedef struct fby__choice_key {
    bool usable; /* the files are settled, a cache was asked for, and reading takes long enough */
    fby__hash128 hash;
} fby__choice_key;
fby__choice_key fby__choice_key_of(const fby_samples *s, const char *step);
void fby__choice_key_bytes(fby__choice_key *k, const void *p, size_t n);
void fby__choice_key_text(fby__choice_key *k, const char *text); /* may be NULL */
void fby__choice_key_values(fby__choice_key *k, const fby_values *values);
void fby__choice_key_table(fby__choice_key *k, const fby_dataset *table); /* a side table that is read too; may be NULL */
/** The samples that an earlier step of this key chose of s, if they are on disk. Only FBY_E_NOMEM is an error. */
fby_status fby__choice_load(const fby__choice_key *k, const fby_samples *s, fby_samples **out, bool *out_found, fby_error *err);
/** Keep what a step chose. Best effort. */
void fby__choice_store(const fby__choice_key *k, const fby_samples *chosen);

/* ---- windows.c ---- */

/** base->stretches and the choice of s → s->first, runs, run_at. */
fby_status fby__samples_windows(fby_samples *s, fby_error *err);
/** The windows of the series of rows [begin, end), whose stretches are those from first_stretch on: how many there could be, and are not. */
void fby__dropped_count(const fby__sample_base *base, size_t first_stretch, uint64_t begin, uint64_t end, fby__dropped *io);
/** A note of what was dropped. */
fby_status fby__dropped_note(fby__sample_base *base, fby_error *err);
/** The first column of dates or instants that is not in the key of `but` (NULL: any); borrowed, NULL: there is none. */
const char *fby__samples_times(const fby_dataset *ds, const fby_samples_opts *but);
/** A note, where windows do not look at times that rows have. */
fby_status fby__untimed_note(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err);
/** One stretch a file: windows that need no scan. */
fby_status fby__stretches_of_files(fby__sample_base *base, fby_error *err);
/** Append a stretch that is as long as a window. Its series' end may be set later. */
fby_status fby__stretches_add(fby__sample_base *base, const fby__stretch *stretch, fby_error *err);

/* ---- scattered.c ---- */

enum { FBY__SEEN_SLOTS = 2048 };

/** The keys of a block's first runs, by a thread that goes through it. */
typedef struct fby__seen_keys {
    uint64_t slot[FBY__SEEN_SLOTS]; /* hashes; half of them are used at most */
    fby__scattered found;
    bool full; /* later runs, and their rows, are not looked at */
} fby__seen_keys;

void fby__seen_begin(fby__seen_keys *seen);
/** A run begins. */
void fby__seen_run(fby__seen_keys *seen, const uint8_t *key, size_t n);
void fby__scattered_add(fby__scattered *to, const fby__scattered *more);
/** A note, where the rows of one key do not lie together. */
fby_status fby__scattered_note(fby__sample_base *base, fby_error *err);

/* ---- shuffled.c ---- */

/** FBY_E_ARG: windows of rows of a shuffled pack, and nothing says which rows follow one another. Else → base->is_shuffled. */
fby_status fby__shuffled_refuse(fby__sample_base *base, const fby_samples_opts *opts, fby_error *err);
/** A note, where rows are in another order than in their source. */
fby_status fby__shuffled_note(fby__sample_base *base, fby_error *err);

/* ---- scan.c ---- */

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

/* ---- step.c ---- */

/** Set o->step from o->step_text, in units of the column o->time. FBY_E_ARG, FBY_E_SCHEMA. */
fby_status fby__step_from_text(const fby_dataset *ds, fby_samples_opts *o, fby_error *err);
/** FBY_E_ARG: no row follows another by the step, or, without one, later. */
fby_status fby__step_never_fits(const fby__sample_base *base, const fby_samples_opts *o, fby_error *err);

#endif
