/*
 * Decoded blocks of one loader: found by (block, range), pinned while a phase needs them, evicted farthest next use first.
 *
 *     absent ──insert──► loading ──► ready, pinned ◄──pin, last unpin──► ready, unpinned ──evict (farthest next use)──► absent
 *                           └──────► failed ──last unpin──► absent
 *
 * Invariants: an entry with pins > 0 is never evicted; an unpinned entry is ready; next_use of an unpinned entry is the
 * ordinal of the phase that will want it next (FBY__NEVER when none is known). The order of use is known in advance, so
 * "farthest next use first" is Belady's optimum, across epochs too.
 *
 * Not thread-safe: the lock of the loader's schedule guards it.
 */
#ifndef FBY_CACHE_CACHE_H
#define FBY_CACHE_CACHE_H

#include "cache/block_panels.h"

#define FBY__NEVER UINT64_MAX

typedef enum fby__entry_state { FBY__ENTRY_LOADING, FBY__ENTRY_READY, FBY__ENTRY_FAILED } fby__entry_state;

typedef struct fby__cache_entry {
    uint32_t block;
    uint64_t lo, hi; /* rows of the block that it holds */
    uint64_t only;   /* 0 = those of all samples in [lo, hi); else whose alone: a number of the loader's */
    bool passing;    /* for the one phase that asked for it: never found, and gone with its last pin */
    fby__entry_state state;
    uint32_t pins;
    uint32_t waiters;       /* the loader's list of who waits for `ready`; UINT32_MAX = none */
    uint64_t next_use;      /* unpinned entries */
    fby_error *error;       /* owned; FAILED only */
    fby__block_panels data; /* the loader's: see fby__cache_owner */
    /* private */
    uint32_t hash_next, heap_index, self;
} fby__cache_entry;

/** Whose the entries' data is. Called while the caller of the cache has its lock. */
typedef struct fby__cache_owner {
    bool (*init)(void *user, fby__block_panels *data);  /* zeroed, of an entry that is made; false: out of memory */
    void (*clear)(void *user, fby__block_panels *data); /* what the block takes goes */
    void (*fini)(void *user, fby__block_panels *data);  /* what init made, cleared: the entry goes; also where init failed */
    void *user;
} fby__cache_owner;

typedef struct fby__cache fby__cache;

/** At most max_entries at once. The owner is copied. */
fby_status fby__cache_create(uint32_t max_entries, const fby__cache_owner *owner, fby__cache **out, fby_error *err);
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
/** Evict all unpinned entries. */
void fby__cache_evict_all(fby__cache *cache);

/** Calls what(user, entry) for every entry, in no order; it does not insert or remove any. */
void fby__cache_each(fby__cache *cache, void (*what)(void *user, fby__cache_entry *entry), void *user);

uint64_t fby__cache_evictions(const fby__cache *cache);
uint32_t fby__cache_count(const fby__cache *cache);

/**
 * Forget when entries are used next (a new epoch order): next_use(user, entry) is asked for every unpinned entry. An entry whose
 * rows the order asks for in another cut is used never: given a use that does not come, it could not be evicted after it.
 */
void fby__cache_reorder(fby__cache *cache, uint64_t (*next_use)(void *user, const fby__cache_entry *entry), void *user);

#endif
