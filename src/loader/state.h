/*
 * What a loader consists of, by owner: who may touch what, and under which lock. The functions are in internal.h.
 *
 *   config, outputs, memory  set once, when the loader is opened, as sources, plan and mixing: any thread reads them; a source's counters are
 *                            atomics
 *   engine                   account, pool, I/O, trace: each with locks or atomics of its own
 *   schedule                 blocks and batches under way, with their lock
 *   pump                     atomics between the consumer and the pump
 *   queue                    finished batches, with their lock
 *   consumer                 of the consumer's thread
 *   history                  what was measured of each epoch, with their lock
 *
 * A function takes the part that it needs, or two. It takes the loader where it drives several: what the program calls, steps of opening and
 * closing, the pump, a batch on its way, and sums over all that a budget has to hold.
 *
 * Lock order: g_siblings.lock (shared.c) before schedule.lock, that before the pool's, the account's and queue.lock (docs/concurrency.md draws
 * it). Under schedule.lock nothing is called back and no memory is mapped: fby__schedule_unlock does what had to wait.
 */
#ifndef FBY_LOADER_STATE_H
#define FBY_LOADER_STATE_H

#include "base/cancel.h"
#include "base/notes.h"
#include "batch/batch.h"
#include "budget/memory_limits.h"
#include "cache/cache.h"
#include "plan/plan.h"
#include "pool/pool.h"
#include "read/read.h"
#include "samples/samples.h"
#include "trace/trace.h"
#include "transform/transform.h"

#include <forebay/loader.h>
#include <forebay/mix.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

typedef struct fby__loader_source fby__loader_source;
typedef struct fby__loader_memory fby__loader_memory;
typedef struct fby__shares fby__shares;

/** Which rows of a sample an output takes. */
typedef enum fby__row_choice {
    FBY__ROWS_ONE,   /* one: `step` */
    FBY__ROWS_STEPS, /* `n_steps` from `step` on */
    FBY__ROWS_ALL    /* all, as many as there are: packed */
} fby__row_choice;

/** Where an output's rows come from. */
typedef struct fby__output_source {
    fby_source_kind from;
    fby__row_choice rows;
    uint64_t step, n_steps; /* n_steps 1 for ROWS_ONE */
    uint32_t panel;
    size_t offset;        /* DENSE: bytes from the panel row's start */
    size_t row_elements;  /* DENSE: of a row, those that the output takes */
    size_t item_elements; /* RAGGED: of one element of the list, which may be an array; else 1 */
    bool whole_rows;      /* DENSE: they are all of the panel's row: several rows are one run of bytes */
    fby_dtype panel_dtype;
    uint32_t first_column, n_columns;  /* masks, inputs of makers: which validity bytes */
    uint64_t max_rows;                 /* of longer samples so many rows are taken; UINT64_MAX = all */
    fby_keep_kind keep;                /* which of them */
    bool want_valid;                   /* an input of a maker that asks for them; others of its panel may */
    fby__scalar constant;              /* FBY_FROM_LIT */
    fby__maker *maker;                 /* owned: makes the values of `inputs`; NULL = they are copied */
    struct fby__output_source *inputs; /* owned: n_inputs; without a maker, lists that are stacked */
    uint32_t n_inputs;
    bool of_sample;      /* the maker gives one result a sample, not one a row */
    fby__afters *afters; /* owned: done in place to what was gathered; NULL = nothing */
} fby__output_source;

/** What a mask shows of a validity byte. */
static inline uint8_t fby__mask_of(fby_source_kind from, uint8_t valid)
{
    return from == FBY_FROM_IS_NULL ? valid == FBY__VALID_NULL : valid != FBY__VALID_THERE;
}

/** What is kept of a block of whose rows few are needed (thin.c). */
typedef struct fby__thin {
    uint64_t rows, spans; /* 0 and 0: all rows */
    uint64_t samples;     /* of panels of first rows alone, one for each; 0: as of others */
} fby__thin;

/** Memory of a block's panels. */
typedef struct fby__room {
    size_t stays, whole, kept; /* as in fby__block_panels: memory, whole, kept; 0 where there is none */
} fby__room;

/** Upper bounds of one block, from metadata. */
typedef struct fby__block_cost {
    uint64_t samples;
    uint64_t least, most;        /* that an epoch has of them: `samples`, unless they are drawn anew in each */
    fby__thin thin;              /* of all its samples */
    uint64_t row_begin, row_end; /* that its samples need, counted from the block's first row: may end beyond the block */
    uint64_t io_bytes;
    size_t bytes, load_bytes; /* slabs of all that its samples need; while it is loaded */
} fby__block_cost;

/** Costs of a source's blocks together. */
typedef struct fby__block_costs {
    uint64_t rows, bytes;
    uint64_t largest, largest_load, moment; /* bytes, load_bytes, and of one block by how much those are more */
    uint64_t most;                          /* samples that an epoch has of one */
} fby__block_costs;

typedef enum fby__phase_state {
    FBY__PHASE_WAITING,
    FBY__PHASE_LOADING,
    FBY__PHASE_READY,
    FBY__PHASE_FAILED,
    FBY__PHASE_DRAINED
} fby__phase_state;

/** The loader's view of a phase of the epoch. Under lock. */
typedef struct fby__phase_progress {
    fby__phase_state state;
    uint32_t n_pinned;        /* items [0, n_pinned) hold a pin */
    uint32_t n_pending;       /* of those, still loading */
    uint64_t batches_left;    /* batches that have not taken their samples yet */
    uint64_t first_slot;      /* of its items in schedule.slot_entry */
    uint64_t ready_ns;        /* when all its blocks were there */
    fby__cache_entry *failed; /* the entry whose error this phase reports */
} fby__phase_progress;

/*
 * At most reserved for what several columns of a worker's task hold together; more has to fit the account when it happens. Parquet opens columns until
 * their pages and dictionaries are 8 MiB, and dictionaries in the panel's dtype and rounded buffers about double that.
 */
#define FBY__SCRATCH_BYTES (16u << 20)
#define FBY__SPARE_BATCHES 2u /* buffers beyond those in flight: what a consumer gives back is kept for the next batch */

/** Loading one block. Owned by the loader, reused; a job belongs to its read. */
typedef struct fby__load_job {
    fby__task task;
    fby_loader *loader;
    fby__loader_source *in; /* whose blocks it reads */
    fby__read read;
    fby__cache_entry *entry;
    uint32_t phase, item; /* of the epoch: whose rows these are; for what is read ahead, none */
    uint64_t now;         /* ordinal of the phase that asked first: what is needed later may be evicted for it */
    uint8_t company;      /* an fby__company, the block's when it began */
    fby__slab stage;      /* the delivery's, while the block is read */
    bool is_copy;         /* nothing is read: the rows are another loader's, whose panels begin with row body_lo */
    uint64_t body_lo;
    struct fby__load_job *next_free;
} fby__load_job;

static inline fby__load_job *fby__load_job_of(fby__read *read) { return FBY__TASK_OWNER(read, fby__load_job, read); }

typedef enum fby__piece_state { FBY__PIECE_WAITING, FBY__PIECE_GATHERING, FBY__PIECE_DONE } fby__piece_state;

/** Staged values of one ragged output of one piece, when a batch's pieces do not come at once. */
typedef struct fby__staged {
    fby__slab memory;    /* owned by the first of the pieces that came together, for all of them */
    const uint8_t *data; /* in it */
    uint64_t n_values;
} fby__staged;

/** Memory for values that the account had no room for; bytes 0: there was. */
typedef struct fby__lack {
    uint64_t bytes;
    uint64_t placed;  /* of them, for the batch as a whole */
    uint64_t samples; /* that the rest of them is for */
    uint32_t output;  /* which needs most of them */
} fby__lack;

/** A batch under construction. */
typedef struct fby__flight {
    fby__task task;
    fby_loader *loader;
    /* under lock */
    bool used, queued;
    uint64_t index;
    fby_batch *batch; /* owned until handed out */
    uint32_t n_pieces, n_done;
    fby__plan_piece *pieces; /* max_pieces */
    uint8_t *piece_state;
    fby__lack lacks;     /* what its pieces that are there wait for */
    fby__staged *staged; /* max_pieces * n_ragged */
} fby__flight;

/** Per worker. Owner thread only. */
typedef struct fby__worker {
    uint32_t *item;                 /* batch_samples */
    uint64_t *sample;               /* batch_samples: the sample of its block */
    uint64_t *block_row;            /* batch_samples: the sample's first row in its block */
    uint64_t *first_row;            /* batch_samples: the sample's first row in the entry's panels, but those of first rows alone */
    uint64_t *n_rows;               /* batch_samples: the sample's rows */
    bool *repeats;                  /* batch_samples: does the sample fill up the last batch? */
    uint64_t *id;                   /* batch_samples: the sample's number in the dataset, for operations in place */
    const uint8_t **row;            /* batch_samples: panel rows of one output */
    const fby__cache_entry **entry; /* batch_samples */
    uint32_t *gathering;            /* max_pieces: the pieces of a flight that it gathers now */
    fby__pool_scratch *sorted;      /* owned; NULL without length buckets */
    struct fby__made_arrays *made;  /* owned: what a maker is given; NULL when there is none */
    fby__make_scratch scratch_made, scratch_picked, scratch_rows; /* a maker's own; which rows were drawn; those rows */
} fby__worker;

/** A batch from when it is assembled until the consumer has it, or the error in its place. */
typedef struct fby__finished {
    fby_batch *batch; /* owned; NULL of an error, and once a pulled transform has it */
    void *result;     /* of a pulled transform, with what releases it: owned */
    void (*release)(void *result);
    fby_error *error; /* owned; of what failed. NULL: there was no memory for it */
    bool ready;       /* for the consumer: transformed, where there is a transform */
    bool failed;
    uint64_t samples, bytes; /* of the batch; for what was made of it, too */
    uint32_t last_source;    /* whose samples were decoded last */
} fby__finished;

/**
 * In whose company a block is loaded: with others, when nothing else is under way, or when nothing else is even there but what the consumer's batch
 * needs. One whose scratch or buffer had no room goes one further.
 */
typedef enum fby__company { FBY__WITH_OTHERS, FBY__BY_ITSELF, FBY__WITH_NOTHING_ELSE } fby__company;

/** What became of something that the schedule wants to begin. */
typedef enum fby__start { FBY__STARTED, FBY__NOT_NOW, FBY__START_FAILED } fby__start;

/** What a delivery needs, whatever the budget. */
typedef struct fby__delivery_needs {
    uint64_t least, smooth,
        enough; /* batches under construction: for a phase, for two superbatches at once, all that are of use. 0: it is impossible */
    uint64_t stage_bytes, job_bytes;  /* of a block that is loaded: decoded, and with the bytes that it is read from */
    uint64_t most_jobs, blocks_bytes; /* loaded at once; all blocks as panels */
    uint64_t fixed_bytes;             /* fby__loader_fixed_bytes, and what is kept of blocks that are loaded */
} fby__delivery_needs;

/** What a budget gives a delivery. */
typedef struct fby__delivery_fit {
    uint64_t window, jobs; /* batches under construction, blocks loaded at once; 0: another delivery is better */
    uint64_t ready;        /* batches in the consumer's queue at least: they take no memory of their own */
    uint64_t more_bytes;   /* that a larger budget would be taken for */
} fby__delivery_fit;

/**
 * How rows come from decoded blocks to their batches. Chosen once, when all else about memory is known: the preferred one (whole.c) where the
 * budget gives it what it needs, else rows are gathered.
 */
typedef struct fby__delivery {
    /* Both NULL: what is taken where the preferred one is not. */
    fby__delivery_needs (*needs)(const fby_loader *l);
    /** What a budget would give it, of which `s` is made: nothing where it is impossible, does not fit or does not pay. */
    fby__delivery_fit (*fits)(const fby__loader_memory *m, uint64_t budget, const fby__shares *s);
    bool keeps_blocks; /* in the cache, for the batches and epochs that follow */
    /** Memory of a block's panels with so many rows, of which `thin` is kept; and where they are put. */
    fby__room (*room)(const fby__loader_source *in, uint32_t block, uint64_t rows, fby__thin thin);
    const fby__sink *(*sink)(const fby__room *room);
    /** NULL, or: before the first block of a phase is loaded. Not now: the pump is told when. */
    fby__start (*begin_phase_locked)(fby_loader *l, const fby__plan_phase *phase, fby_error *err);
    /** NULL: batches are gathered from panels; or: finish the flight's batch, if all its samples are there. */
    bool (*finish_batch_locked)(fby_loader *l, fby__flight *f);
    void (*stop_locked)(fby_loader *l);                 /* NULL, or: no job is under way, and batches that were not finished go */
    fby_status (*start)(fby_loader *l, fby_error *err); /* NULL, or: the account is open; makes its data */
    void (*fini)(fby_loader *l);                        /* NULL, or: also when start failed, or was never called */
} fby__delivery;

/* ---- the loader, by owner ---- */

/** What was asked for, and what was chosen for it when the loader was opened. Set once. */
typedef struct fby__loader_config {
    int n_threads;
    uint32_t depth; /* batches in flight */
    uint64_t seed;
    uint64_t batch_size; /* most samples of a batch, were there so many */
    uint64_t superbatch_samples;
    fby_loader_opts asked;      /* the options, without what they borrow */
    const fby_mix *mix;         /* borrowed until the loader is open; NULL = none */
    fby__memory_giver giver;    /* of the budget */
    fby__plan_span *part_spans; /* owned until the loader is open: of parts by key */
    uint32_t n_part_spans, n_part_keys;
    uint32_t transform_ahead;   /* how far batches are transformed ahead of the consumer; 0 = they are not */
    fby_transform_fn transform; /* NULL = none, or pulled */
    void *transform_user;       /* borrowed */
} fby__loader_config;

/** What batches are made of, whatever source their samples are of. Set once. */
typedef struct fby__loader_outputs {
    fby__batch_shape *shape;                 /* shared */
    fby__notes notes;                        /* notes.c */
    size_t n_left_out;                       /* of the notes: those about outputs that are left out, of which each has its own */
    uint32_t max_panels, max_inputs;         /* of any source */
    bool needs_ids;                          /* of workers: an output has operations on the batch's values */
    uint64_t made_bytes, made_scratch_bytes; /* tables of all makers; scratch of a worker */
} fby__loader_outputs;

/** Lists or strings of a variable panel, in elements or bytes, as they were read: memory_lengths.c. */
typedef struct fby__lengths {
    uint64_t sum, longest;
    double densest; /* of a row, in the mean of the block where that is most */
} fby__lengths;

/**
 * A data set that samples come from, and what is read of it. A loader over one data set has one source, a mixture several. Blocks are numbered
 * through all sources where the order and the cache name them (fby__source_of), and from 0 within a source. Set once, but for what says
 * otherwise.
 */
struct fby__loader_source {
    fby_loader *loader;
    char *name;                     /* owned; "" where it is the only one */
    fby_dataset *ds;                /* shared */
    fby_samples *samples;           /* shared */
    uint32_t first_block, n_blocks; /* of the loader's numbers */
    fby__output_source *outputs;    /* owned: n_outputs, one per output */
    uint32_t n_outputs;
    fby__dataset_column *columns; /* owned: distinct columns used */
    uint32_t n_columns;
    fby__read_panel *panels; /* owned */
    uint32_t n_panels, n_variable;
    bool has_firsts;                              /* some panel is of first rows alone */
    fby__block_cost *cost;                        /* per block: a part of the loader's */
    fby__block_costs costs;                       /* summed up, for plans that are tried one after the other */
    uint64_t *capacity;                           /* owned: per block and variable panel, from metadata */
    _Atomic double grown_row_bytes;               /* of a row, at most: what blocks took beyond their capacity. Relaxed */
    uint64_t live_bytes;                          /* of the minimum: its part of the worst superbatch */
    double live_rows;                             /* that the minimum has room for, in blocks of mean size: those bytes and two blocks */
    fby__lengths *lengths;                        /* owned: per variable panel; NULL = nobody asked */
    const void *format;                           /* of its first file: sources of one format decode with the same scratch */
    uint64_t scratch_bytes;                       /* of a worker that decodes this source */
    uint64_t reserved_bytes;                      /* of a worker's scratch, for all sources of its format: of the first of them alone */
    uint32_t scratch_of;                          /* the first source of its format */
    double listed_sample_bytes;                   /* lists and strings of a sample, on average; 0 = nobody asked */
    bool no_memory;                               /* for a sum of what it takes, which then is too much: opening fails */
    double densest_rows;                          /* of a sample, in the mean of the densest superbatch; 0 = nobody asked */
    fby__source_mixing mixing;                    /* how epoch 0 mixes */
    _Atomic uint64_t bytes_read, handed, wait_ns; /* samples that were handed out; relaxed */
    fby__reader reader;
};

/** Where samples come from, in the order in which they were asked for. Set once, but for what a source says of itself. */
typedef struct fby__loader_sources {
    fby__loader_source *at; /* owned: n */
    uint32_t n;
} fby__loader_sources;

/** How what a budget has beyond the minimum is shared: memory_shares.c. */
struct fby__shares {
    uint64_t store_bytes;  /* decoded chunks that reach beyond their block */
    uint64_t depth_bytes;  /* batches in flight beyond two, with the values of samples that differ in length */
    uint64_t jobs_bytes;   /* blocks that are loaded at once beyond two: the bytes they are read from */
    uint64_t values_bytes; /* lists and strings, beyond those of one batch of average size */
    uint64_t rest_bytes;   /* blocks that are kept, and what takes more than metadata say */
};

/** What memory is for. Set once. */
struct fby__loader_memory {
    uint32_t n_blocks;
    uint32_t max_segments; /* of any block */
    fby__block_cost *cost; /* owned: per block */
    uint64_t budget_bytes, minimum_bytes;
    fby__memory_limits limits;   /* when the loader was opened */
    uint64_t live_bytes;         /* of minimum_bytes: the worst superbatch */
    uint64_t least_flight_bytes; /* of minimum_bytes: values of samples that differ in length, in two batches in flight */
    uint64_t flight_bytes;       /* the same in as many batches as are in flight */
    uint64_t least_values_bytes; /* of minimum_bytes: lists and strings of one batch of average size */
    uint64_t everything_bytes;   /* the budget with which nothing is read twice, as it is known when the loader opens */
    uint64_t smooth_bytes;       /* the least with which a superbatch is loaded while the one before it drains: never more than that */
    uint64_t overlap_bytes;      /* the same from the budget on, where that is more and does not: smooth_bytes else */
    fby__delivery_needs needs;   /* of the preferred delivery */
    fby__delivery_fit fit;       /* and what the budget gives it */
    uint64_t batch_samples;      /* of the largest batch: batch_size, or all that an epoch has */
    uint64_t dense_batch_bytes;  /* size class of a batch's dense slab */
    fby__shares wanted, shares;  /* what each could use, and has */
    uint64_t worker_bytes; /* reserved scratch of a worker, for all formats: pages and dictionaries of a block's columns, decompressed */
    uint64_t reads_bytes;  /* of a mixture: a read of every source, which each job is ready for */
    uint64_t max_io_bytes; /* of any block: every job has a buffer of that size */
    uint64_t shared_bytes; /* decoded chunks that reach beyond their block, each counted once a block */
    uint32_t max_jobs, max_batches; /* blocks being loaded, batches under construction: at most at once */
    bool whole_blocks;              /* cut blocks are loaded whole: the budget holds every block, or all of a part is live at once */
};

/** What works. The pointers are set once; each part has locks or atomics of its own. */
typedef struct fby__loader_engine {
    fby__account *account;   /* shared */
    fby__pool *pool;         /* owned */
    fby__pool *openers;      /* owned: begin reads where the storage lets them wait; NULL where there are no files, or no threads left */
    fby_cancel *token;       /* owned: the pool's tasks run under it; set while an epoch is stopped */
    fby__io *io;             /* owned; NULL for datasets in memory */
    fby__chunk_store *store; /* owned; NULL when nothing is shared */
    fby__worker *workers;    /* owned: n_threads */
    fby__spares read_buffers;
    const fby__delivery *delivery;
    struct fby__siblings *siblings;  /* a reference, of shared.c: loaders that share blocks with this one; NULL where it shares none */
    struct fby_loader *next_sibling; /* theirs, under their lock */
    void *delivery_data;             /* owned by the delivery; NULL where it has none, and before it is started */
    fby__trace trace;
} fby__loader_engine;

/** A batch for which all else gave way: schedule_room.c. Under the schedule's lock. */
typedef struct fby__started_over {
    uint64_t at;  /* the last one; UINT64_MAX: none of this epoch */
    bool outgrew; /* a block took more than was known of it, since then */
} fby__started_over;

/** What has been found out of a source's blocks, and who loads them. Under the schedule's lock. */
typedef struct fby__source_progress {
    uint64_t *outgrown; /* owned: as the source's capacity, of a block that took more; 0 = none did */
    uint8_t *company;   /* owned: an fby__company per block */
    fby__load_job *free_jobs;
} fby__source_progress;

/** What is read ahead of the next epoch. With parts, its first blocks are read early. Under the schedule's lock. */
typedef struct fby__reading_ahead {
    fby__epoch *epoch;          /* owned: the one after the schedule's; NULL before the first */
    uint32_t phase, item;       /* next to be read */
    fby__cache_entry **entries; /* owned: max_jobs; being read, with a pin */
    uint32_t n_entries;
} fby__reading_ahead;

/** Which blocks and batches are under way. All of it under `lock`, but for what says otherwise. */
typedef struct fby__schedule {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* n_busy became 0 */
    fby__cache *cache;   /* owned */
    fby__epoch *epoch;   /* owned; NULL before the first */
    fby__reading_ahead ahead;
    fby__source_progress *sources; /* owned: sources.n */
    fby__phase_progress *phases;   /* owned: epoch->n_phases */
    uint32_t cap_phases;
    fby__cache_entry **slot_entry; /* owned: entry of every (phase, item) */
    uint32_t *slot_next;           /* owned: list of slots that wait for one entry; slot_phase says whose */
    uint32_t *slot_phase;
    uint64_t cap_slots;
    uint64_t *next_epoch_use; /* owned: n_blocks; the phase of the next epoch that uses a block first */
    uint32_t n_drained;       /* phases that no batch needs any more */
    uint32_t first_live;      /* no phase before it is left; of mixtures */
    uint32_t load_phase;      /* next to load: phase and item */
    uint32_t load_item;
    uint64_t next_flight; /* next batch to start */
    uint64_t start_batch; /* the epoch was begun at this batch */
    uint32_t n_busy;      /* jobs and assembly tasks under way */
    uint32_t n_queued;    /* assembly tasks under way: flights with `queued` */
    uint32_t n_loads;     /* jobs under way */
    bool no_room;         /* the budget had no room for a block when it was last asked, */
    bool no_window;       /* or for the batches that its rows go straight to; */
    bool held_up;         /* and nothing is loaded meanwhile */
    uint32_t max_pieces;  /* of a batch of this epoch or one before: what flights and workers have room for */
    bool hold;            /* start nothing new, but let what is under way finish */
    bool rewinds;         /* a block was put back: once nothing is under way, loading goes back to the first phase that needs one */
    bool by_itself;       /* a block is being loaded that nothing else is to be beside */
    fby__started_over over;
    _Atomic bool stop;     /* start nothing new; written under lock, read relaxed by jobs that may then give up */
    fby__load_job *jobs;   /* owned: max_jobs of each source, of which max_jobs are under way at most */
    fby__flight *flights;  /* owned: depth */
    uint64_t pump_at_next; /* what pump.at will be when the pump that runs has ended */
    uint32_t slabs_wanted; /* for batches under construction: to be mapped when the lock is released, and then pumped again */
    bool slabs_failed;     /* there was no memory for them */
    fby__file *closing;    /* to be closed when the lock is released */
    fby_error *error;      /* owned: the epoch cannot be begun or go on */
} fby__schedule;

/** When the consumer has to ask for a pump. Between its thread and the pump's, without a lock. */
typedef struct fby__pump {
    _Atomic uint64_t consumed; /* seq_cst with `at`, acquire by the pump: batches handed out */
    _Atomic uint64_t at;       /* seq_cst: when so many are, the pump can go on; UINT64_MAX: not by consuming batches */
    _Atomic bool queued;       /* acq_rel: at most one pump task is queued */
    fby__task task;
} fby__pump;

/** The user's transform: transform.c. Under the queue's lock. */
typedef struct fby__transform {
    pthread_cond_t moved; /* broadcast: the turn, what it waits for, or n_users */
    fby__task task;
    uint64_t next;     /* the batch whose turn it is */
    uint64_t began_ns; /* since when the batch is out */
    bool out;          /* the batch whose turn it is, is being transformed */
    uint32_t n_users;  /* the task, if it is queued or runs; threads that wait for a turn, have it, or release results */
} fby__transform;

/** Batches that are assembled: the only lock on the consumer's path. All of it under `lock`, but for what says otherwise. */
typedef struct fby__queue {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    fby__finished *ring; /* owned: depth; batch b at b % depth */
    /* Owned: of each slot of the ring, samples of each source; NULL where there is one. Written under the schedule's lock before the slot is
     * published, read by who has the slot's batch. */
    uint32_t *of_sources;
    uint64_t next; /* batch to hand out next */
    uint64_t n_batches;
    uint32_t n_ready;         /* slots of the ring in use */
    bool over;                /* the epoch has ended early: after an error, or because another begins */
    bool cancelled;           /* until an epoch or a state is asked for */
    fby_cancel *planning;     /* borrowed while the order of an epoch is made, which it stops; else NULL */
    fby__transform transform; /* unused without config.transform_ahead */
} fby__queue;

/** The consumer's: a wait that takes long (slow.c). */
typedef struct fby__slow {
    uint64_t asked_ns; /* when the batch was asked for first; 0 = none is */
    uint64_t said_ns;  /* the last message; 0 = none */
    uint64_t n_unsaid; /* waits since, without one */
    char waits_for[400];
} fby__slow;

/** Where the consumer stands. Its thread only; reports read what is atomic with relaxed loads. */
typedef struct fby__consumer {
    uint64_t next_epoch, next_batch;                             /* where fby_loader_next begins when nothing has begun */
    _Atomic uint64_t n_batches, n_samples, n_dropped, n_wrapped; /* of the epoch under way or next */
    bool began;
    _Atomic uint64_t handed; /* the batch of this epoch that the consumer gets next; failed ones do not count */
    uint64_t n_calls;        /* of fby_loader_next: CPU time is read on every CPU_SAMPLE-th */
    uint64_t waited_ns;      /* for the batch that comes next, in calls that have timed out */
    uint64_t transferred_ns; /* since the last call, as the program said */
    fby__slow slow;
    uint64_t ended_ns; /* when the epoch before the next ended; 0 = none did */
    _Atomic uint64_t epochs_begun, first_begin_ns, epoch_begin_ns, first_batch_ns, first_batches_ns, first_step_ns, gap_ns, last_return_ns,
        cpu_ns, wait_max_ns, first_process_cpu_ns;
} fby__consumer;

/** Epochs, the latest FBY_EPOCHS_KEPT of them: epoch i of all that were begun at i % FBY_EPOCHS_KEPT. Under `lock`, the innermost one. */
typedef struct fby__history {
    pthread_mutex_t lock;
    bool is_init;
    fby_epoch *epochs;         /* owned */
    uint64_t n;                /* that were begun, and gave a batch unless it is the latest */
    fby_report begin, settled; /* at the beginning of the latest, and of the second */
} fby__history;

struct fby_loader {
    pid_t pid; /* of the creator: a forked child must not touch the rest */
    fby__loader_sources sources;
    fby__plan *plan;    /* owned: the order of samples */
    fby__mixing mixing; /* how epoch 0 mixes; set once */
    double padding_unsorted;
    fby__loader_config config;
    fby__loader_outputs outputs;
    fby__loader_memory memory;
    fby__loader_engine engine;
    fby__schedule schedule;
    fby__pump pump;
    fby__queue queue;
    fby__consumer consumer;
    fby__history history;
};

#endif
