/*
 * Slabs of one size that are taken and given back, n at most at once: charged from the beginning, made when they are first taken.
 *
 * The one given back last is taken first: what is read is decoded at once, so the slab is still in the core's cache.
 */
#ifndef FBY_BUDGET_SPARES_H
#define FBY_BUDGET_SPARES_H

#include "budget/budget.h"

#include <pthread.h>

typedef struct fby__spares {
    /* set once */
    fby__account *account; /* borrowed; NULL = not open */
    size_t bytes;
    uint32_t n;
    /* under lock */
    pthread_mutex_t lock;
    fby__slab *spare; /* owned: n */
    uint32_t n_spare;
} fby__spares;

fby_status fby__spares_open(fby__spares *s, fby__account *account, size_t bytes, uint32_t n, fby_error *err);
void fby__spares_close(fby__spares *s); /* all of them were given back. Zeroed is fine */
/** One of at least `bytes`, which may be more than all have, into *out, which is empty. FBY_E_NOMEM. */
fby_status fby__spares_take(fby__spares *s, size_t bytes, fby__slab *out, fby_error *err);
void fby__spares_give(fby__spares *s, fby__slab *slab); /* empty is fine */

#endif
