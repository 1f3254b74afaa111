/*
 * Decoded blocks of one loader: found by (block, range), pinned while a phase needs them, evicted farthest next use first.
 *
 *                    insert (pinned, loading)
 *      absent ───────────────────────────────► loading ──ready──► ready ──fail──► failed
 *        ▲                                                        │  ▲
 *        └──────────── evict (farthest next use) ◄── unpinned ◄───┘  └── pin again
 *
 * Invariants: an entry with pins > 0 is never evicted; an unpinned entry is ready; next_use of an unpinned entry is the
 * ordinal of the phase that will want it next (FBY__NEVER when none is known). The order of use is known in advance, so
 * "farthest next use first" is Belady's optimum, across epochs too.
 *
 * Not thread-safe: the loader's scheduler lock guards it.
 */
#ifndef FBY_CACHE_CACHE_H
#define FBY_CACHE_CACHE_H

#include "block/panel.h"
#include "budget/budget.h"
#include "io/io.h"
#include "plan/plan.h"

#define FBY__NEVER UINT64_MAX

typedef enum fby__entry_state { FBY__ENTRY_LOADING, FBY__ENTRY_READY, FBY__ENTRY_FAILED } fby__entry_state;

/** Rows from `row` of a block on, which lie at `panel_row` of its panels. */
typedef struct fby__row_run {
    uint64_t row, panel_row;
} fby__row_run;

typedef struct fby__cache_entry {
    uint32_t block;
    uint64_t lo, hi; /* rows of the block that the panels hold */
    fby__entry_state state;
    uint32_t pins;
    bool passing;             /* for the one phase that asked for it: never found, and gone with its last pin */
    uint64_t next_use;        /* unpinned entries */
    fby__slab memory;         /* owned: panels that stay as they are decoded; may be empty */
    fby__slab whole;          /* owned, while loading: panels of which few rows are kept; else empty */
    fby__slab kept;           /* owned: where those rows go; else empty */
    const fby__row_run *runs; /* n_runs, by row, in `kept`: which of the rows the panels hold. 0: all of them */
    uint32_t n_runs;
    bool few_rows;                   /* while loading: `whole` are all panels; else those of first rows alone, where there are such ones */
    uint64_t first_sample, n_firsts; /* n_firsts > 0: panels of first rows alone hold one a sample, from that sample of the block on */
    uint64_t only;                   /* 0 = it holds the rows of all samples in [lo, hi); else whose alone: a number of the loader's */
    const fby__plan_item *wanted;    /* n_wanted, borrowed while loading: those samples; NULL = all */
    uint32_t n_wanted;
    fby__panel *panels;  /* owned: n_panels of the cache */
    fby__slab *overflow; /* owned: n_panels; a panel that did not fit its place in `memory`, else empty */
    fby__file *mapped;   /* a reference, when panels lie in the map of a file; else NULL */
    uint32_t waiters;    /* the loader's list of who waits for `ready`; UINT32_MAX = none */
    fby_error *error;    /* owned; FAILED only */
    /* private */
    uint32_t hash_next, heap_index, self;
} fby__cache_entry;

typedef struct fby__cache fby__cache;

/** Where a row of the block lies in an entry's panels; the row is one that they hold. */
static inline uint64_t fby__entry_row(const fby__cache_entry *e, uint64_t row)
{
    if (e->n_runs == 0)
        return row - e->lo;
    uint32_t lo = 0, hi = e->n_runs;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (e->runs[mid].row <= row)
            lo = mid;
        else
            hi = mid;
    }
    return e->runs[lo].panel_row + (row - e->runs[lo].row);
}

/** For blocks of n_panels panels, at most max_entries of them at once. What entries held is given back to the account, and files to the list `closing`. */
fby_status fby__cache_create(uint32_t n_panels, uint32_t max_entries, fby__account *account, fby__file **closing, fby__cache **out,
                             fby_error *err);
void fby__cache_destroy(fby__cache *cache); /* every entry goes, pinned or not. NULL is fine */

/**
 * An entry (loading or ready, not failed) that covers rows [lo, hi) of the block, and holds those of all samples or of `only`'s; NULL when
 * there is none.
 */
fby__cache_entry *fby__cache_find(fby__cache *cache, uint32_t block, uint64_t lo, uint64_t hi, uint64_t only);

/** A new entry, loading, with one pin and no memory. NULL when max_entries are in use and none can be evicted. */
fby__cache_entry *fby__cache_insert(fby__cache *cache, uint32_t block, uint64_t lo, uint64_t hi);

void fby__cache_pin(fby__cache *cache, fby__cache_entry *entry);
/** Drop a pin. At the last one a failed entry is removed; a ready one waits with this next_use. */
void fby__cache_unpin(fby__cache *cache, fby__cache_entry *entry, uint64_t next_use);

/** A pinned entry that is not used: its memory goes. */
void fby__cache_empty(fby__cache *cache, fby__cache_entry *entry);

/** Evict the unpinned entry with the farthest next_use, if that is beyond `before`. False when there is none. */
bool fby__cache_evict(fby__cache *cache, uint64_t before);

uint64_t fby__cache_evictions(const fby__cache *cache);
uint32_t fby__cache_count(const fby__cache *cache);

/**
 * Forget when entries are used next (a new epoch order): next_use(user, entry) is asked for every unpinned entry. An entry whose
 * rows the order asks for in another cut is used never: given a use that does not come, it could not be evicted after it.
 */
void fby__cache_reorder(fby__cache *cache, uint64_t (*next_use)(void *user, const fby__cache_entry *entry), void *user);

#endif
