/*
 * The loader's parts, private to src/loader.
 *
 *   outputs.c   what the user asked for → panels to decode and copies to make; outputs_*.c are its parts
 *   memory.c    what a plan needs at least, against the budget; memory_costs.c  what each block takes;
 *               memory_values.c  batches whose samples differ in length; memory_lengths.c  what lists and strings really take;
 *               memory_shares.c  who gets what a budget has beyond the minimum
 *   loader.c    open, close; sources.c  the data sets that samples come from
 *   schedule.c  the pump: which block to load, in schedule order; schedule_batches.c  batches under construction;
 *               schedule_epoch.c  epochs begin and end; schedule_room.c  where memory is short
 *   load.c      one block: jobs that read it; load_done.c  it is there, or is loaded once more
 *   whole.c     blocks that stay in the cache, and the delivery of rows by gathering; thin.c  those of whose rows few are needed
 *   shared.c    decoded blocks that several loaders over one data set hold
 *   direct.c    rows that go to their batches as soon as they are decoded
 *   assemble.c  one batch: gather the pieces whose phases are ready
 *   assemble_rows.c, assemble_made.c  outputs whose samples differ in length; outputs that are made of their columns
 *   transform.c the user's own code: one finished batch after the other
 *   consume.c   next, begin, cancel
 *   slow.c      a wait that takes long, and what for
 *   resume.c    where an epoch stands, and whether a loader may go on there
 *   report.c    where the time went; history.c  in each epoch; verdict.c  what limits; cures.c  what would help
 *
 * What a loader consists of, and under which lock, is in state.h. Workers (pool) do everything but waiting for I/O; the consumer's thread
 * only pops.
 */
#ifndef FBY_LOADER_INTERNAL_H
#define FBY_LOADER_INTERNAL_H

#include "loader/state.h"

/** The source that a block, numbered through all sources, is of. */
static inline fby__loader_source *fby__source_of(const fby__loader_sources *sources, uint32_t block)
{
    uint32_t lo = 0, hi = sources->n;
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        *(sources->at[middle].first_block <= block ? &lo : &hi) = middle;
    }
    return &sources->at[lo];
}
/** What the schedule knows of a source. Under its lock, but while the loader is opened and closed. */
static inline fby__source_progress *fby__progress_of(const fby__loader_source *in)
{
    return &in->loader->schedule.sources[in - in->loader->sources.at];
}
/** The order of a source's own samples. */
static inline const fby__plan *fby__source_plan(const fby__loader_source *in)
{
    return fby__plan_source(in->loader->plan, (uint32_t)(in - in->loader->sources.at));
}
/** The number that an entry's block has in its source. */
static inline uint32_t fby__block_in(const fby__loader_source *in, const fby__cache_entry *e) { return e->block - in->first_block; }
/** The rows that samples [lo, hi) of a block, numbered through all sources, need. */
static inline void fby__loader_range(const fby__loader_sources *sources, uint32_t block, uint64_t lo, uint64_t hi, uint64_t *out_begin,
                                     uint64_t *out_end)
{
    const fby__loader_source *in = fby__source_of(sources, block);
    fby__samples_range(in->samples, block - in->first_block, lo, hi, out_begin, out_end);
}
/* sources.c */
/** A source as it is asked for. Borrowed for the call. */
typedef struct fby__asked_source {
    const char *name; /* "" where it is the only one */
    fby_dataset *ds;
    fby_samples *samples;        /* NULL = all rows */
    const fby_loader_opts *opts; /* whose outputs are the source's */
} fby__asked_source;
fby_status fby__loader_init_sources(fby_loader *l, const fby__asked_source *asked, uint32_t n, fby_error *err);
/** The engine that reads the files of all sources. FBY_E_ARG: they were opened with several. *out_any: false = all are in memory. */
fby_status fby__loader_io_kind(const fby__loader_sources *sources, bool *out_any, fby__io_kind *out, fby_error *err);
/** The outputs of every source, alike in name, shape and dtype. */
fby_status fby__loader_resolve_all(fby_loader *l, const fby__asked_source *asked, fby_error *err);
/** Context for an error: which source of a mixture. Returns the code. */
fby_status fby__source_error(const fby__loader_source *in, fby_status status, fby_error *err);
/** What randomness of a source's samples is keyed by: sources have samples of the same numbers. */
uint64_t fby__source_seed(const fby__loader_source *in);
/** fby_loader_open() and fby_loader_open_mix(), whose options are this version's. mix: NULL = none. */
fby_status fby__loader_open(const fby__asked_source *asked, uint32_t n, const fby_mix *mix, const fby_loader_opts *opts,
                            fby__memory_giver giver, fby_loader **out, fby_error *err);
void fby__loader_drop_sources(fby_loader *l);
/** Sums over all sources. */
uint64_t fby__loader_samples(const fby__loader_sources *sources);
uint64_t fby__loader_rows(const fby__loader_sources *sources);
/* outputs.c */
fby_status fby__loader_resolve(fby__loader_source *in, const fby_loader_opts *opts, fby_error *err);
/* memory_lengths.c */
/** With a budget for everything, raise `capacity` to what lists and strings take, and set `lengths`. Reads their columns. */
fby_status fby__loader_read_lengths(fby__loader_source *in, fby_error *err);
/* memory_costs.c */
fby_status fby__loader_costs(fby_loader *l, fby_error *err);
/** What a list or string panel of a block has room for, by all that is known of it; 0 for dense ones. */
uint64_t fby__loader_capacity(const fby__loader_source *in, uint32_t block, const fby__read_panel *panel);
/** By how much a panel with that capacity is larger than metadata says of its block. */
size_t fby__loader_outgrown_bytes(const fby__loader_source *in, uint32_t block, uint32_t panel, uint64_t capacity);
size_t fby__loader_entry_bytes(const fby__loader_source *in, uint32_t block, uint64_t rows);
/* memory.c */
/** So many samples, and how much is there for them: bytes, or rows. Sorted, those with the most for a sample come first. */
typedef struct fby__density {
    uint64_t samples, amount;
} fby__density;
int fby__densest_first(const void *a, const void *b);
/** What is there of a block that is read, beside its panels. */
uint64_t fby__loader_job_bytes(const fby__loader_memory *m);
uint64_t fby__loader_anew_bytes(const fby__plan *plan); /* the orders of a mixture's sources that begin anew */
uint64_t fby__loader_fixed_bytes(const fby_loader *l);
/** What the minimum would be if every block stayed decoded. */
uint64_t fby__loader_all_kept_bytes(const fby_loader *l);
/**
 * The most that values of samples whose rows are known take, with so many batches in flight; padded samples of batches by rows are reckoned as
 * half padding.
 */
uint64_t fby__loader_flight_bytes(fby_loader *l, uint32_t depth);
/** Of how many average batches the minimum has room for lists and strings: of one, twice while its pieces are joined, and a quarter longer. */
#define FBY__MINIMUM_VALUES 2.5
/** What a batch of average lists and strings takes while it is put together. */
uint64_t fby__loader_least_values_bytes(fby_loader *l);
/** Lists and strings of the batches in flight: of average size, or as much as they may be where their lengths were measured. */
uint64_t fby__loader_listed_values_bytes(const fby_loader *l);
/** About how many bytes of a batch are one sample's. */
double fby__loader_sample_bytes(const fby_loader *l);
/**
 * Room for what varies in size with the batch: all that batches in flight may take, where samples' rows are known, and a share of lists and strings.
 * What they take beyond it has to fit the rest of the budget (schedule_room.c).
 */
static inline uint64_t fby__loader_values_room(const fby__loader_memory *m)
{
    return m->flight_bytes + m->least_values_bytes + m->shares.values_bytes;
}
fby_status fby__loader_budget(fby_loader *l, const fby_loader_opts *opts, fby_error *err);
/** What a plan needs at least, once flight bytes are known. `w`: of each source, what is kept from one call to the next. */
struct fby__weights;
uint64_t fby__loader_minimum(const fby_loader *l, const fby__plan *plan, struct fby__weights *w);
uint64_t fby__loader_superbatch(const fby__loader_sources *sources, const fby_loader_opts *opts);
/** How the outputs that are padded to the longest sample of a batch are, and how many those are. out: room for all outputs, or NULL. */
uint32_t fby__loader_paddings(const fby_loader *l, fby__padding *out);
fby_status fby__loader_plan(const fby_loader *l, const fby_loader_opts *opts, uint64_t superbatch_samples, fby__plan **out, fby_error *err);
/* memory_shares.c */
/**
 * The minimum is known: what each could use of more, and smooth_bytes, a budget with which all batches are in flight that were asked for, and a
 * superbatch is loaded while the one before it drains.
 */
void fby__loader_want(fby_loader *l);
/**
 * Such a budget of so many bytes or more. More than the least may be too little: where rows go straight to batches that are wider than blocks, room for
 * two superbatches of blocks is not enough for two of batches.
 */
uint64_t fby__loader_smooth_budget(const fby__loader_memory *m, const fby__loader_config *config, uint64_t least);
/** The budget is known: who gets what is beyond the minimum. Sets depth, max_jobs, max_batches and the delivery. */
void fby__loader_share(fby_loader *l);
/**
 * The budget to name where `least` bytes would do if each had what it has now: with a larger one each has more, and other blocks are as likely to
 * outgrow their metadata as those that have.
 */
uint64_t fby__loader_budget_for(const fby_loader *l, uint64_t least_bytes);
/* memory_advice.c */
/** FBY_E_BUDGET, with what would fit into the limit. The loader is not opened: what is tried may change it. */
fby_status fby__loader_refuse_budget(fby_loader *l, const fby_loader_opts *opts, uint64_t limit, uint64_t minimum, struct fby__weights *w,
                                     fby_error *err);
/* schedule.c */
/** Release the lock, and do what had to wait for that: memory and files are unmapped, memory for batches is mapped. */
void fby__schedule_unlock(fby_loader *l);
void fby__loader_pump_locked(fby_loader *l);
/** The pump that runs could go on when the consumer has so many batches of the epoch. */
static inline void fby__pump_when_consumed_locked(fby__schedule *s, uint64_t batches)
{
    if (batches < s->pump_at_next)
        s->pump_at_next = batches;
}
void fby__loader_pump_task(fby__task *task, int worker);
/** Its block takes more than there is room for: the entry goes, and is loaded again when it is its turn. */
void fby__loader_put_back_locked(fby__schedule *s, fby__cache_entry *entry);
void fby__loader_entry_done_locked(fby__schedule *s, fby__cache_entry *entry);
void fby__loader_piece_done_locked(fby__schedule *s, const fby__loader_memory *m, uint32_t phase);
void fby__loader_busy_done_locked(fby__schedule *s);
/** From now on nothing can be loaded for want of budget, and nothing is being loaded; or that is over. */
void fby__loader_held_up_locked(fby__schedule *s, fby__trace *trace, bool held_up);
/* schedule_batches.c */
/** Wake the consumer, if its batch is there and no other one is about to. */
void fby__loader_wake_locked(fby_loader *l);
/** All samples of a flight's batch are in place: it is the consumer's, or waits for its turn with the user's transform. */
void fby__flight_publish_locked(fby_loader *l, fby__flight *f);
void fby__flight_fail_locked(fby_loader *l, fby__flight *f, const fby_error *error);
/* schedule_epoch.c */
fby_status fby__loader_grow_pieces(fby_loader *l, uint32_t n, fby_error *err);
/** Stops what was under way; the schedule of an epoch from a batch on. */
fby_status fby__loader_epoch_begin(fby_loader *l, uint64_t epoch, uint64_t batch, fby_error *err);
/**
 * Stops what is under way. With finish_ahead, what is read ahead for the next epoch is finished first. FBY_E_CANCELLED, unless the loader
 * closes: the user's transform still runs, and the epoch is over.
 */
fby_status fby__loader_epoch_stop(fby_loader *l, bool finish_ahead, bool closes, fby_error *err);
/* load.c */
/** What an entry takes beside the memory of its panels, 600 bytes and more: of blocks that are a page, a tenth. */
size_t fby__load_entry_bytes(const fby__loader_outputs *outputs);
/** The cache of blocks, whose entries' data is this file's. */
fby_status fby__load_cache_create(fby_loader *l, uint32_t max_entries, fby_error *err);
fby_status fby__load_jobs_create(fby_loader *l, fby_error *err);
void fby__load_jobs_destroy(fby_loader *l);
void fby__load_start(fby__task *task, int worker);
void fby__load_start_apart(fby__task *task, int opener);
/** Nothing is under way: scratch and buffers beyond what is reserved for them are given back. True: there were any. */
bool fby__load_shrink_locked(fby_loader *l);
/* load_done.c */
/** The end of a job: its entry is ready, or failed. */
void fby__load_publish(fby__load_job *job, const fby_error *why);
/** That, as fby__sink.done. */
void fby__load_done(fby__read *read, const fby_error *why);
/* whole.c */
/** Place a panel at *at, which moves on. */
void fby__load_place(const fby__load_job *job, uint32_t panel, uint8_t **at);
/** As fby__sink.place: in memory of its own. */
fby__grant fby__load_grow(fby__read *read, uint32_t panel, uint64_t capacity, fby_error *err);
/** A sink's `room`: at the expense of what is needed later. */
bool fby__load_room(fby__read *read, size_t bytes);
extern const fby__delivery fby__gathered_delivery;
extern const fby__delivery *const fby__preferred_delivery;
/* direct.c */
extern const fby__delivery fby__direct_delivery;
/* shared.c */
typedef struct fby__shared fby__shared;
/**
 * From now on decoded blocks are shared with loaders of this process that would decode the same. Before the first block is loaded; takes
 * the schedule's lock of the one that was alone.
 */
fby_status fby__shared_join(fby_loader *l, fby_error *err);
void fby__shared_leave(fby_loader *l); /* the cache is gone. One that did not join is fine */
/** What is kept of a block that was offered, beside its memory. */
size_t fby__shared_body_bytes(uint32_t n_panels);
/** An entry is ready: other loaders, if there are any, may take what it holds, if that is all of its rows. Under the schedule's lock. */
void fby__shared_offer_locked(fby__loader_engine *engine, fby__cache_entry *e);
/**
 * A new entry, ready and with one pin, of what another loader holds. NULL: nobody has those rows, or they do not fit; for what is more than
 * own_bytes nothing is evicted.
 */
fby__cache_entry *fby__shared_find_locked(fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, size_t own_bytes, uint64_t now);
/**
 * Hold what another loader has of those rows, in about own_bytes, for some of them to be copied. NULL: nobody has them, they do not fit, or its lists and
 * strings are larger than is known here.
 */
fby__shared *fby__shared_hold_locked(fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, size_t own_bytes, uint64_t now);
/** The panels are those of what is held, until fby__shared_drop gives it back. Returns the first row of the block that they have. */
uint64_t fby__shared_lend(const fby_loader *l, fby__shared *body, fby__block_panels *to);
/** The loader holds it no more. NULL is fine. Under the schedule's lock, or when nobody else has the loader. */
void fby__shared_drop(fby_loader *l, fby__shared *body);
/* slow.c */
/** A batch is asked for; again, when a call before ended without it. */
void fby__slow_begin(fby__slow *s, uint64_t now);
/** When its wait will have been long; UINT64_MAX when nobody wants to know, or it is known what the batch waits for. */
uint64_t fby__slow_at(const fby_loader *l);
/** That time has come: see what it waits for. */
void fby__slow_look(fby_loader *l);
/** The wait is over: say so if it was long. */
void fby__slow_end(fby__consumer *c, bool delivered);
/* thin.c */
void fby__thin_cost(fby__loader_source *in, uint32_t block);
/** What is kept for the samples in rows [lo, hi) of a block, or only for those of n_items of its items (NULL = all). */
fby__thin fby__thin_of(const fby__loader_source *in, uint32_t block, uint64_t lo, uint64_t hi, const fby__plan_item *items,
                       uint32_t n_items);
/** Room for a block's panels with so many rows, of which `thin` is kept. */
fby__room fby__thin_room(const fby__loader_source *in, uint32_t block, uint64_t rows, fby__thin thin);
/** Panels of which few rows are needed: those are moved to `kept`, and the rest is given back. */
extern const fby__sink fby__thin_sink;
/** Run by a job that is a copy: the rows that are needed, out of another loader's panels. */
void fby__thin_copy(fby__task *task, int worker);
/* report.c */
/** Counts and times as they are, without quantiles, figures of the plan and a verdict. Not under the schedule's lock. */
void fby__loader_measure(fby_loader *l, fby_report *out);
/** Counts and times become those since `before`. */
void fby__report_subtract(fby_report *r, const fby_report *before);
/* history.c */
fby_status fby__history_init(fby__history *h, fby_error *err);
void fby__history_fini(fby__history *h); /* one that was not made is fine */
/** The consumer's thread: an epoch begins, or the end of the latest was seen. */
void fby__history_begin(fby_loader *l, uint64_t epoch);
void fby__history_end(fby_loader *l);
/** The log gets a line about the epoch that ended last. */
void fby__history_log(fby_loader *l);
/** Make a report one of what came after the first epoch; false where there was none. */
bool fby__history_settle(fby__history *h, fby_report *r);
uint32_t fby__history_count(fby__history *h);
/* consume.c */
fby_status fby__loader_check_process(const fby_loader *l, fby_error *err);
/** Bytes that an epoch reads at most, over all ranks. */
uint64_t fby__loader_epoch_bytes(const fby__plan *plan, const fby__loader_memory *m);
/** The next fby_loader_next goes on, whatever was cancelled before. */
void fby__loader_uncancel(fby__queue *q);
/** Counts of any epoch; those of the one under way and of the next are known. Any thread. */
fby_status fby__loader_count(fby__schedule *s, const fby__plan *plan, uint64_t epoch, fby__epoch_counts *out, fby_error *err);
/** The counts that a loader shows become those of an epoch. */
fby_status fby__loader_show(fby_loader *l, uint64_t epoch, fby_error *err);
/* notes.c */
/** Notes on the order that is planned. */
fby_status fby__loader_notes_order(fby_loader *l, const fby_loader_opts *opts, fby_error *err);
/* outputs_made.c */
void fby__output_source_fini(fby__output_source *s);
/* assemble_made.c */
fby_status fby__made_arrays_create(const fby__loader_outputs *outputs, struct fby__made_arrays **out, fby_error *err);
void fby__made_arrays_destroy(struct fby__made_arrays *a);
size_t fby__made_arrays_bytes(const fby__loader_outputs *outputs);
/* assemble.c */
/** What an output without columns says of a sample, FBY_FROM_LIT aside. row: the sample's first, of the block. */
uint64_t fby__sample_number(const fby__loader_source *in, fby_source_kind from, uint32_t block, uint64_t sample, uint64_t row,
                            uint64_t n_rows);
/** Context for an error at a row of a block: file, row group, output, and which row of the data set. Returns the code. */
fby_status fby__output_row_error(const fby__loader_source *in, const fby__batch_output *o, uint32_t block, uint64_t row, fby_status status,
                                 fby_error *err);
/** FBY_E_DATA: which value of n_steps panel rows, row_bytes apart, does not fit the output's dtype, and of which column. */
fby_status fby__output_value_error(const fby__loader_source *in, const fby__output_source *s, const fby__batch_output *o,
                                   const uint8_t *row, uint64_t n_steps, size_t row_bytes, fby_error *err);
void fby__assemble_run(fby__task *task, int worker);
/** A piece of a flight is in its batch: the last one of a phase releases the phase's claim. */
void fby__flight_piece_done_locked(fby__schedule *s, const fby__loader_memory *m, fby__flight *f, uint32_t p);
/* transform.c */
/** A batch was assembled, or the consumer took one: whoever transforms goes on. Under the queue's lock, with config.transform_ahead. */
void fby__transform_go_on_locked(fby_loader *l);
/**
 * The epoch is over: no further batch is transformed, and none is any more when this returns FBY_OK. Under no lock. FBY_E_CANCELLED, if
 * that is asked for: the call that waits is to stop.
 */
fby_status fby__transform_stop(fby__queue *q, uint32_t depth, bool may_cancel, fby_error *err);
/** Results that wait go, released without the lock, and threads that wait for a turn look again. The epoch is over or cancelled. */
void fby__transform_discard_locked(fby__queue *q, uint32_t depth);
/** Call the user's transform on the first samples in file order. */
fby_status fby__transform_try(fby_dataset *ds, const fby_loader_opts *opts, fby_error *err);

static inline uint64_t fby__decode_deadline(uint64_t batch) { return 3 * batch; }
static inline uint64_t fby__load_deadline(uint64_t batch) { return 3 * batch + 1; }
static inline uint64_t fby__assemble_deadline(uint64_t batch) { return 3 * batch + 2; }

#endif
