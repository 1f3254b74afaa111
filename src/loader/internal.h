/*
 * The loader's parts, private to src/loader.
 *
 *   outputs.c   what the user asked for → panels to decode and copies to make; outputs_*.c are its parts
 *   memory.c    what a plan needs at least, against the budget; memory_values.c  batches whose samples differ in length
 *   loader.c    open, close
 *   schedule.c  the pump: which block to load, which batch to start, in schedule order; schedule_epoch.c  epochs begin and end
 *   load.c      one block: locate, read, decode, publish; load_read.c  which bytes of it are read, and to where
 *   thin.c      blocks of whose rows few are needed
 *   buffers.c   buffers that jobs take and give back
 *   direct.c    rows that go to their batches as soon as they are decoded
 *   assemble.c  one batch: gather the pieces whose phases are ready
 *   assemble_rows.c, assemble_made.c  outputs whose samples differ in length; outputs that are made of their columns
 *   transform.c the user's own code: one finished batch after the other
 *   consume.c   next, begin, cancel
 *   resume.c    where an epoch stands, and whether a loader may go on there
 *   report.c    where the time went; verdict.c  what limits
 *
 * What a loader consists of, and under which lock, is in state.h. Workers (pool) do everything but waiting for I/O; the consumer's thread
 * only pops.
 */
#ifndef FBY_LOADER_INTERNAL_H
#define FBY_LOADER_INTERNAL_H

#include "loader/state.h"

/* outputs.c */
fby_status fby__loader_resolve(fby_loader *l, const fby_loader_opts *opts, fby_error *err);
/* memory.c */
fby_status fby__loader_costs(fby_loader *l, fby_error *err);
uint64_t fby__loader_capacity(const fby_loader *l, uint32_t block, const fby__loader_panel *panel);
size_t fby__loader_entry_bytes(const fby_loader *l, uint32_t block, uint64_t rows);
uint32_t fby__loader_jobs(const fby_loader *l);
uint64_t fby__loader_fixed_bytes(const fby_loader *l);
uint64_t fby__loader_all_kept_bytes(const fby_loader *l);
/** What is spoken for, beside blocks that are kept: the minimum with the batches in flight, and decoded chunks. */
static inline uint64_t fby__loader_spoken_for(const fby_loader *l)
{
    return l->memory.minimum_bytes + l->memory.flight_bytes - l->memory.least_flight_bytes + l->memory.store_bytes;
}
/** At most, of the values of samples whose rows are known, with so many batches in flight. */
uint64_t fby__loader_flight_bytes(fby_loader *l, uint32_t depth);
/** Of the budget, for the values of batches whose size varies. */
uint64_t fby__loader_values_room(const fby_loader *l);
fby_status fby__loader_budget(fby_loader *l, const fby_loader_opts *opts, uint64_t limit, fby_error *err);
/** What it may hold at most: its budget, or less where all there is to hold is less. */
uint64_t fby__loader_most_bytes(const fby_loader *l);
uint64_t fby__loader_superbatch(const fby_loader *l, const fby_loader_opts *opts);
fby_status fby__loader_plan(const fby_loader *l, const fby_loader_opts *opts, uint64_t superbatch_samples, fby__plan **out, fby_error *err);
/* schedule.c */
/** Release the lock, and do what had to wait for that: memory and files are unmapped, memory for batches is mapped. */
void fby__schedule_unlock(fby_loader *l);
/** What became of something that the schedule wants to begin. */
typedef enum fby__start { FBY__STARTED, FBY__NOT_NOW, FBY__START_FAILED } fby__start;
void fby__loader_pump_locked(fby_loader *l);
/** The pump that runs could go on when the consumer has taken so many batches of the epoch. */
static inline void fby__pump_when_taken_locked(fby_loader *l, uint64_t batches)
{
    if (batches < l->schedule.pump_at_next)
        l->schedule.pump_at_next = batches;
}
void fby__loader_pump_task(fby__task *task, int worker);
void fby__loader_entry_done_locked(fby_loader *l, fby__cache_entry *entry);
void fby__loader_piece_done_locked(fby_loader *l, uint32_t phase);
void fby__loader_busy_done_locked(fby_loader *l);
void fby__loader_wake_locked(fby_loader *l);
void fby__flight_publish_locked(fby_loader *l, fby__flight *f);
void fby__flight_fail_locked(fby_loader *l, fby__flight *f, const fby_error *error);
/* schedule_epoch.c */
fby_status fby__loader_grow_pieces(fby_loader *l, uint32_t n, fby_error *err);
/** Stops what was under way; the schedule of an epoch from a batch on. */
fby_status fby__loader_epoch_begin(fby_loader *l, uint64_t epoch, uint64_t batch, fby_error *err);
/** Stops what is under way. With finish_ahead, what is read ahead for the next epoch is finished first. */
void fby__loader_epoch_stop(fby_loader *l, bool finish_ahead);
/* load.c */
/**
 * Rows [begin, end), counted from a block's first row, as rows of row groups: at most cap segments are written, their number is returned.
 * The first one is of the block's own group, and all of them are of its file.
 */
uint32_t fby__loader_segments(const fby__table *table, const fby__block *block, uint64_t begin, uint64_t end, fby__segment *out,
                              uint32_t cap);
fby_status fby__load_jobs_create(fby_loader *l, fby_error *err);
void fby__load_jobs_destroy(fby_loader *l);
void fby__load_start(fby__task *task, int worker);
/* buffers.c */
/** Of `bytes` each. */
fby_status fby__buffers_open(fby_loader *l, size_t bytes, fby__buffers *out, fby_error *err);
void fby__buffers_fini(fby_loader *l, fby__buffers *b); /* all of them were given back, or none was opened */
/** One of at least `bytes`, which may be more than all have, into *out, which is empty. Not under the lock. */
fby_status fby__buffers_take(fby_loader *l, fby__buffers *b, size_t bytes, fby__slab *out, fby_error *err);
void fby__buffers_give_locked(fby__buffers *b, fby__slab *slab); /* empty is fine */
/* direct.c */
/** Sets memory.direct_window, the size of stages and max_jobs, where that is possible, fits the budget and pays. Once, when all else about memory is known. */
void fby__direct_choose(fby_loader *l);
fby_status fby__direct_start(fby_loader *l, fby_error *err);
void fby__direct_fini(fby_loader *l);
/** The batches that a phase reaches into exist from here on. Not now: the window ends before, or memory for them is to be mapped first. */
fby__start fby__direct_make_batches_locked(fby_loader *l, const fby__plan_phase *phase, fby_error *err);
/** Finish the flight's batch, if all its samples are there. */
bool fby__direct_finish_locked(fby_loader *l, fby__flight *f);
/** No job is under way: batches that were not finished go. */
void fby__direct_stop_locked(fby_loader *l);
/** The job's block is decoded: its samples go to their batches. */
fby_status fby__direct_deliver(const fby__load_job *job, fby_error *err);
/* thin.c */
void fby__thin_cost(fby_loader *l, uint32_t block);
/** Of the samples that lie in rows [lo, hi) of a block; of n_items of its items (NULL = all) those alone. */
fby__thin fby__thin_of(const fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, const fby__plan_item *items, uint32_t n_items);
/** Of a block's panels with so many rows, of which `thin` is kept. */
fby__room fby__thin_room(const fby_loader *l, uint32_t block, uint64_t rows, fby__thin thin);
/** Does panel i of an entry lie in `whole` while it is loaded? */
bool fby__thin_moves(const fby_loader *l, const fby__cache_entry *entry, uint32_t i);
/** Move the rows that are needed to entry->kept, and give the rest back. Nothing where there is no such memory. */
void fby__thin_compact(fby_loader *l, fby__cache_entry *entry);
/* consume.c */
fby_status fby__loader_check_process(const fby_loader *l, fby_error *err);
/** Bytes that an epoch reads at most, over all ranks. */
uint64_t fby__loader_epoch_bytes(const fby_loader *l);
/** The next fby_loader_next goes on, whatever was cancelled before. */
void fby__loader_uncancel(fby_loader *l);
/** Of any epoch; that under way and the next are known. Any thread. */
fby_status fby__loader_count(fby_loader *l, uint64_t epoch, fby__epoch_counts *out, fby_error *err);
/** The counts that a loader shows become those of an epoch. */
fby_status fby__loader_show(fby_loader *l, uint64_t epoch, fby_error *err);
/* notes.c */
/* outputs_made.c */
void fby__output_source_fini(fby__output_source *s);
/* assemble_made.c */
fby_status fby__made_arrays_create(const fby_loader *l, struct fby__made_arrays **out, fby_error *err);
void fby__made_arrays_destroy(struct fby__made_arrays *a);
size_t fby__made_arrays_bytes(const fby_loader *l);
/* assemble.c */
/** What an output without columns says of a sample, FROM_CONSTANT aside. row: the sample's first, of the block. */
uint64_t fby__sample_number(const fby_loader *l, fby_source_kind from, uint32_t block, uint64_t sample, uint64_t row, uint64_t n_rows);
/** Context for an error at a row of a block: file, row group, output, and which row of the data set. Returns the code. */
fby_status fby__output_row_error(const fby_loader *l, const fby__batch_output *o, uint32_t block, uint64_t row, fby_status status,
                                 fby_error *err);
/** FBY_E_DATA: which value of n_steps panel rows, row_bytes apart, does not fit the output's dtype, and of which column. */
fby_status fby__output_value_error(const fby_loader *l, const fby__output_source *s, const fby__batch_output *o, const uint8_t *row,
                                   uint64_t n_steps, size_t row_bytes, fby_error *err);
void fby__assemble_run(fby__task *task, int worker);
/** A piece of a flight is in its batch: the last one of a phase releases the phase's claim. */
void fby__flight_piece_done_locked(fby_loader *l, fby__flight *f, uint32_t p);
/* transform.c */
/** All samples of a flight's batch are in place: it is published, or waits for its turn with the user's transform. */
void fby__flight_assembled_locked(fby_loader *l, fby__flight *f);
/** Call the user's transform on the first samples in file order. */
fby_status fby__transform_try(fby_dataset *ds, const fby_loader_opts *opts, fby_error *err);

static inline uint64_t fby__decode_deadline(uint64_t batch) { return 3 * batch; }
static inline uint64_t fby__load_deadline(uint64_t batch) { return 3 * batch + 1; }
static inline uint64_t fby__assemble_deadline(uint64_t batch) { return 3 * batch + 2; }

#endif
