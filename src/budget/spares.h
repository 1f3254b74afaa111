/*
 * Slabs of one size that are lent and given back, n at most at once: charged from the beginning, made when they are first lent.
 *
 * A thread is lent the one that it gave back last, which is still in its core's cache, if it is large enough: writing over what another core has just
 * read costs several times as much, where the cores share no cache. A thread that has none is lent the newest of all.
 */
#ifndef FBY_BUDGET_SPARES_H
#define FBY_BUDGET_SPARES_H

#include "budget/budget.h"

#include <pthread.h>

typedef struct fby__spare {
    fby__slab slab;
    const void *by; /* the thread that gave it back; compared, and nothing else */
} fby__spare;

typedef struct fby__spares {
    /* set once */
    fby__account *account; /* borrowed; NULL = not open */
    size_t bytes;
    uint32_t n;
    /* under lock */
    pthread_mutex_t lock;
    fby__spare *spare; /* owned: n, the newest last */
    uint32_t n_spare;
} fby__spares;

fby_status fby__spares_open(fby__spares *s, fby__account *account, size_t bytes, uint32_t n, fby_error *err);
void fby__spares_close(fby__spares *s); /* all of them were given back. Zeroed is fine */
/**
 * One of at least `bytes` into *out, which is empty. Where that is more than all have, `room` is asked to charge the account for so many bytes
 * more, under no lock; it stays that large. NO_ROOM: it has said no. FAILED: FBY_E_NOMEM.
 */
fby__grant fby__spares_get(fby__spares *s, size_t bytes, bool (*room)(void *user, size_t bytes), void *user, fby__slab *out,
                           fby_error *err);
void fby__spares_give(fby__spares *s, fby__slab *slab); /* empty is fine */
/** Those that are larger than was reserved for them are given back. True: there were any. Under any lock: fby__account_trim is the caller's. */
bool fby__spares_shrink(fby__spares *s);

#endif
