/*
 * Calls that take long and can be told to stop. A thread says under which fby_cancel its calls run (fby_cancel_use); the threads that the
 * library starts inherit it. Whoever waits asks fby__cancelled() every 50 ms at the latest, and whoever goes through many files, pages, chunks
 * or blocks asks at each.
 */
#ifndef FBY_BASE_CANCEL_H
#define FBY_BASE_CANCEL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define FBY__CANCEL_SLICE_MS 50u /* a wait asks at least so often */
#define FBY__CANCEL_SLICE_NS (FBY__CANCEL_SLICE_MS * UINT64_C(1000000))

/** A token that is set with `outer` too (NULL, or kept alive by a reference). NULL = no memory. */
fby_cancel *fby__cancel_create_in(fby_cancel *outer);
fby_cancel *fby__cancel_ref(fby_cancel *cancel); /* NULL is fine */
void fby__cancel_clear(fby_cancel *cancel);
bool fby__cancel_is_set(const fby_cancel *cancel); /* or one around it; NULL is not */

/** What this thread's calls run under: NULL = nothing can stop them. Borrowed. */
fby_cancel *fby__cancel_current(void);

/** Is the call that this thread is in to stop? */
bool fby__cancelled(void);
/** FBY_E_CANCELLED if so. */
fby_status fby__cancel_check(fby_error *err);
/** The same two at step i of a long loop, which look now and then. */
static inline bool fby__cancelled_at(uint64_t i) { return i % 4096 == 0 && fby__cancelled(); }
static inline fby_status fby__cancel_check_at(uint64_t i, fby_error *err) { return i % 4096 == 0 ? fby__cancel_check(err) : FBY_OK; }

#endif
