/* The schedule: what the pump (schedule.c) and the beginning and end of epochs (schedule_epoch.c) share. */
#ifndef FBY_LOADER_SCHEDULE_INTERNAL_H
#define FBY_LOADER_SCHEDULE_INTERNAL_H

#include "loader/internal.h"

/** When a phase uses a block: of this epoch, or after all of it of the next. */
static inline uint64_t fby__phase_ordinal(bool next_epoch, uint32_t phase) { return (uint64_t)next_epoch << 32 | phase; }

/** Values that wait for a batch's other pieces go. */
void fby__flight_free_staged_locked(fby_loader *l, fby__flight *f);
/** Phases that lie before the batch that the epoch was begun at are drained from the beginning. */
void fby__loader_skip_drained_locked(fby_loader *l);
/** No batch needs phase p any more: its blocks may go. */
void fby__phase_unpin_locked(fby_loader *l, uint32_t p);

#endif
