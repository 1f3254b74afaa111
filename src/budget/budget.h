/*
 * The memory budget: one ledger a process, one account a loader, and the slabs that sample data lives in.
 *
 * A slab is an anonymous mapping, 4 KiB aligned (direct I/O, registration, pinning), 2 MiB aligned and huge-page advised from 2 MiB up.
 * The first touch of a page is dear, so freed slabs stay mapped on a list of their size class and are used again. Everything mapped is
 * charged, idle slabs included; when a request does not fit, idle slabs are unmapped first.
 *
 *        charged = live slabs + idle slabs + fby__account_charge (scratch, indexes)  ≤ limit, but for what is charged since it is there
 *                  already (fby__account_charge): forced_bytes says how much that was at most
 *        out     = slabs handed to the consumer: theirs, not charged
 *
 * Who waits: nobody here. fby__slab_reserve says no, and the loader's scheduler, which asks in schedule order, tries again
 * when something was freed. So the earliest unfinished batch can always finish.
 *
 * Who calls the kernel: mapping and unmapping walk page tables, and nobody does it under a lock. What reserves, frees or drops may be called
 * under the caller's own lock; what has to be unmapped for it waits for fby__account_trim. All else is called with no lock held.
 */
#ifndef FBY_BUDGET_BUDGET_H
#define FBY_BUDGET_BUDGET_H

#include "base/error.h"

/** One loader's share of the ledger. Reference counted: batches that outlive the loader keep it. Any thread. */
typedef struct fby__account fby__account;

/** A run of memory. Owned by whoever allocated it; give it back with fby__slab_free. */
typedef struct fby__slab {
    uint8_t *data;      /* NULL = none, or not mapped yet */
    size_t bytes;       /* of the size class: ≥ what was asked for. 0 = none */
    size_t extra_bytes; /* of these, what a smaller class would have spared; private */
    size_t tail_bytes;  /* behind it in its mapping, to be unmapped by fby__slab_map; private */
    bool pinned;        /* for a device, of the pool alone: to be unpinned before it is unmapped; private */
} fby__slab;

/** Pins memory for a device, and unpins it; each gives 0 where it did. */
typedef struct fby__pinner {
    int (*pin)(void *user, void *memory, size_t bytes);
    int (*unpin)(void *user, void *memory); /* where it does not, the memory stays mapped and is counted nowhere */
    void *user;
} fby__pinner;

/** What became of memory that was asked for. */
typedef enum fby__grant {
    FBY__GRANTED,
    FBY__NO_ROOM,     /* the account has none for it now: ask again when something was given back, or refuse what needs it */
    FBY__GRANT_FAILED /* the error says why */
} fby__grant;

fby_status fby__account_open(uint64_t limit_bytes, fby__account **out, fby_error *err);
fby__account *fby__account_ref(fby__account *account);
void fby__account_unref(fby__account *account); /* NULL is fine; the last one unmaps the idle slabs */

/** The loader is gone: from now on slabs that come back are unmapped, and idle ones are unmapped now. */
void fby__account_retire(fby__account *account);

/**
 * How many bytes beyond their size classes the slabs in use may hold together, 0 at first: an idle slab of up to four times the size is
 * used whole while this lasts; afterwards one that is at most a quarter too large, cut to size.
 */
void fby__account_set_slack(fby__account *account, uint64_t bytes);

/** What a slab of n bytes is charged: its size class. Monotonic in n. */
size_t fby__slab_class_bytes(size_t n);

/**
 * Room for a slab of at least n bytes: an idle one, or bytes that are charged and mapped later (fby__slab_map). False when that does not fit
 * now: *out is untouched.
 */
bool fby__slab_reserve(fby__account *account, size_t n, fby__slab *out);
/** Map what was reserved; its contents are undefined. Empty is fine. FBY_E_NOMEM: *slab is then empty and nothing is charged. */
fby_status fby__slab_map(fby__account *account, fby__slab *slab, fby_error *err);
/** Unmap what waits for it. Whoever freed or dropped under a lock calls this when the lock is released. */
void fby__account_trim(fby__account *account);

/**
 * A slab of at least n bytes, with force, for memory of which `charged` bytes were charged before (fby__account_charge): only the rest is
 * charged now. On failure those stay charged.
 */
fby_status fby__slab_alloc_charged(fby__account *account, size_t n, size_t charged, fby__slab *out, fby_error *err);

/** Give a slab back, mapped or only reserved; *slab becomes empty. Empty is fine. Under any lock. */
void fby__slab_free(fby__account *account, fby__slab *slab);

/**
 * Memory that several accounts hold: each of them is charged for all of it (fby__account_reserve), and discharged when it lets go, but
 * for the last, which gives it back with fby__slab_free. Once detached, a slab is no single account's; the one that had it remains charged.
 */
void fby__slab_detach(fby__account *account, fby__slab *slab);

/*
 * The account's pool: n slabs of one size, charged from the beginning, for batches. Those that the consumer gives back are
 * kept for the next batch, so that the steady state maps and touches nothing: a fresh 256 KiB slab costs 64 page faults.
 *
 *     spare ──get──► in use ──hand out──► the consumer's (not charged) ──return──► spare, or unmapped when n are there
 */
fby_status fby__account_pool(fby__account *account, size_t slab_bytes, uint32_t n, fby_error *err);
/** What a slab of a pool for n bytes is charged: whole pages. They are all of one size, so it needs no class. */
size_t fby__pool_slab_bytes(size_t n);
/** At most n may be in use at once: the caller's to see to. FBY_E_NOMEM. */
fby_status fby__pool_slab_get(fby__account *account, fby__slab *out, fby_error *err);
uint32_t fby__pool_spares(fby__account *account); /* so many can be had without mapping any. Under any lock */
/** Map slabs until n are spare, or the pool has no room for more. FBY_E_NOMEM. */
fby_status fby__pool_fill(fby__account *account, uint32_t n, fby_error *err);
void fby__pool_slab_drop(fby__account *account, fby__slab *slab); /* in use → spare; empty is fine. Under any lock */
void fby__pool_slab_hand_out(fby__account *account, const fby__slab *slab);
void fby__pool_slab_return(fby__account *account, fby__slab *slab);
/**
 * Pin a slab that the consumer has. It stays pinned for later batches, until it is unmapped; one that is pinned is left as it is. False if it cannot
 * be: the pinner refused, the account has another pinner, or this is a child of fork().
 */
bool fby__pool_slab_pin(fby__account *account, fby__slab *slab, const fby__pinner *pinner);

/*
 * Values of batches whose size is known only when they are built. Room is set aside for what they usually take: `bytes` are charged from
 * the beginning, what is in use beyond that is charged when it is asked for, if it fits the limit. What the consumer gives back stays mapped as
 * long as it fits the room: to map and fault in the values anew costs as much as to gather them.
 *
 *     spare ──get──► in use ──hand out──► the consumer's (not charged) ──return──► spare, idle, or unmapped
 */
void fby__account_values(fby__account *account, uint64_t bytes); /* once, before the first batch; without it there is no room */
/** At least n bytes: of a slab that was used before, or some more than n, for the batches to come; exact: the class of n and no more. */
fby__grant fby__values_slab_get(fby__account *account, size_t n, bool exact, fby__slab *out, fby_error *err);
/** Would the limit hold so many bytes more of values, in slabs of exactly their classes? Under any lock. */
bool fby__values_fit(fby__account *account, uint64_t bytes);
/** The limit with which it would hold them, beside what is charged now. */
uint64_t fby__values_limit_for(fby__account *account, uint64_t bytes);
void fby__values_slab_drop(fby__account *account, fby__slab *slab); /* in use → spare; empty is fine, as below. Under any lock */
void fby__values_slab_hand_out(fby__account *account, const fby__slab *slab);
void fby__values_slab_return(fby__account *account, fby__slab *slab);

/** Charge memory that is not in slabs (never fails: say it before you use it). */
void fby__account_charge(fby__account *account, size_t bytes);
/** The same, if it fits the limit; else nothing is charged. */
bool fby__account_try_charge(fby__account *account, size_t bytes);
/** The same under any lock: what is to be unmapped for it waits for fby__account_trim. */
bool fby__account_reserve(fby__account *account, size_t bytes);
/** Under any lock: what was freed just now stays charged, as a reservation. Never fails, as it was charged a moment ago. */
void fby__account_charge_again(fby__account *account, size_t bytes);
void fby__account_discharge(fby__account *account, size_t bytes);

typedef struct fby__account_stats {
    uint64_t limit_bytes, charged_bytes, peak_bytes, idle_bytes, out_bytes, out_count; /* out_count: batches, that is slabs of the pool */
    uint64_t forced_bytes;                                                             /* most ever charged above the limit */
} fby__account_stats;
void fby__account_stats_of(fby__account *account, fby__account_stats *out);

/** Bytes charged by all accounts of the process now. */
uint64_t fby__ledger_charged_bytes(void);

/** The most that the account will hold, no more than its limit. Once, before it is retired. */
void fby__account_promise(fby__account *account, uint64_t bytes);
/** What the accounts of the process that are not retired may still take: promised and not charged yet. */
uint64_t fby__ledger_promised_bytes(void);

#endif
