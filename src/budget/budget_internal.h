/* The account from the inside: what its files share. */
#ifndef FBY_BUDGET_BUDGET_INTERNAL_H
#define FBY_BUDGET_BUDGET_INTERNAL_H

#include "budget/budget.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/types.h>

#define FBY__PAGE_BYTES 4096u
#define FBY__HUGE_BYTES (2u << 20)

/* A slab that waits to be unmapped: nobody needs what it holds, so the next one's address lies in it. */
typedef struct gone {
    struct gone *next;
    size_t bytes;
    bool pinned;
} gone;

/* Idle slabs lie on an array sorted by nothing: there are tens, and the search is by class. */
struct fby__account {
    _Atomic uint32_t refs;
    pid_t pid;             /* set once: of the creator */
    _Atomic bool has_gone; /* relaxed: a hint; whoever put a slab there looks again */
    pthread_mutex_t lock;  /* guards all below */
    bool retired;
    uint64_t limit, charged, peak, forced, idle_bytes, out_bytes, out_count;
    uint64_t promised;     /* of g_promised */
    uint64_t slack, extra; /* extra: bytes of slabs in use beyond their classes */
    fby__slab *idle;
    size_t n_idle, cap_idle;
    gone *gone; /* owned: not charged any more, and not unmapped yet */
    struct {
        size_t slab_bytes;
        uint32_t n, in_use, n_spare;
        fby__slab *spare;   /* owned: n */
        fby__pinner pinner; /* set once, before the first slab is pinned */
    } pool;
    struct {
        uint64_t room, in_use, spare_bytes; /* in_use + spare_bytes ≤ room, or there is no spare */
        uint64_t over;                      /* charged beyond room: what in_use exceeds it by */
        fby__slab *spare;                   /* owned */
        size_t n_spare, cap_spare;
    } values;
};

/** Map so many bytes, whole pages; NULL when the system refuses. Under no lock. */
void *fby__slab_memory(size_t bytes);
/** Unmap it, unpinned first where it is pinned. Under no lock. */
void fby__slab_unmap(const fby__account *a, const fby__slab *slab);
/** It is to be unmapped, which nobody does under the lock. It was written to before: its page is there. */
void fby__slab_leave_locked(fby__account *a, const fby__slab *slab);
/**
 * In a child of fork() a thread that does not exist there may hold the lock. A consumer's slab is unmapped without it: the figures are the
 * parent's. False elsewhere.
 */
bool fby__slab_return_in_child(const fby__account *a, fby__slab *slab);

#endif
