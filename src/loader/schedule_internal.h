/*
 * The schedule: what the pump (schedule.c), batches under construction (schedule_batches.c) and the beginning and end of epochs
 * (schedule_epoch.c) share.
 */
#ifndef FBY_LOADER_SCHEDULE_INTERNAL_H
#define FBY_LOADER_SCHEDULE_INTERNAL_H

#include "loader/internal.h"

/** When a phase uses a block: of this epoch, or after all of it of the next. */
static inline uint64_t fby__phase_ordinal(bool next_epoch, uint32_t phase) { return (uint64_t)next_epoch << 32 | phase; }

/** For the rest of the epoch, one batch and one block at a time: several did not fit (schedule_room.c). */
static inline bool fby__is_narrow_locked(const fby__schedule *s) { return s->over.at != UINT64_MAX; }

/* ---- schedule_batches.c ---- */

/** Begin the batches that are next, as far as flights are free. True: there were any. */
bool fby__start_flights_locked(fby_loader *l);
/** Those with pieces that are there are assembled; those of failed phases fail. */
void fby__queue_flights_locked(fby_loader *l);
/** Values that wait for a batch's other pieces go. */
void fby__flight_free_staged_locked(fby_loader *l, fby__flight *f);

/* ---- schedule.c ---- */

/** Phases that lie before the batch that the epoch was begun at are drained from the beginning. */
void fby__loader_skip_drained_locked(fby__schedule *s);
/** No batch needs phase p any more: its blocks may go. */
void fby__phase_unpin_locked(fby__schedule *s, const fby__loader_memory *m, uint32_t p);
/** An entry that was read ahead waits for its epoch like one that was used before. */
void fby__ahead_done_locked(fby__schedule *s, fby__cache_entry *e);

/* ---- schedule_epoch.c ---- */

/** For a mixture: how many samples a batch has of each source, and whose were decoded last. The slot of the ring is the flight's. */
void fby__count_sources_locked(fby_loader *l, const fby__flight *f, fby__finished *out);
/** In a mixture, phases do not wait for a batch that begins and takes nothing from them. */
void fby__skip_phases_locked(fby__schedule *s, const fby__flight *f);
/** A batch under construction goes, if there is one. */
void fby__flight_drop_locked(fby_loader *l, fby__flight *f);
/** Batches that wait for the consumer go. */
void fby__queue_clear(fby__queue *q, uint32_t depth);
/** The phases of an epoch, of which batches from this one on are wanted: none is loaded. The arrays have room for them. */
void fby__schedule_lay_out_locked(fby__schedule *s, const fby__epoch *epoch, uint64_t batch);

/* ---- schedule_room.c ---- */

/** May a block of the phase that is loaded next be loaded, in the company that is there? Not now: the pump is told when. */
bool fby__block_may_load_locked(fby_loader *l, uint32_t block);
/** Blocks were put back, and nothing is under way: loading goes back to the first phase that lacks one. */
void fby__rewind_loading_locked(fby__schedule *s);
/** The first batch that lacks memory for its values; UINT64_MAX: none does. */
uint64_t fby__first_starved_locked(fby_loader *l);
/** Let that batch try again if there is room for it by now. The last batch that may be assembled: later ones wait behind it. */
uint64_t fby__feed_starved_locked(fby_loader *l);
/**
 * Nothing is under way, and there is no room for what the consumer's batch needs: what is there for others goes, or, where nothing is, the batch
 * is refused. False: neither, since it waits for something else, or for a block, which is then to be refused.
 */
bool fby__give_way_locked(fby_loader *l);

#endif
