/* Tokens that stop waiting calls, and the one that this thread's calls run under. */
#include "base/cancel.h"

#include "base/alloc.h"

#include <stdatomic.h>

struct fby_cancel {
    fby_cancel *outer; /* a reference; NULL = none. Set once */
    _Atomic bool set;  /* relaxed: nothing else is published with it */
    /* Increments relaxed (the caller holds a reference); the decrement is acq_rel, so that the last one sees all uses. */
    _Atomic uint32_t refs;
};

static _Thread_local fby_cancel *t_current;

fby_cancel *fby__cancel_create_in(fby_cancel *outer)
{
    fby_cancel *c = fby__calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->outer = fby__cancel_ref(outer);
    atomic_init(&c->set, false);
    atomic_init(&c->refs, 1);
    return c;
}

fby_cancel *fby_cancel_create(void) { return fby__cancel_create_in(NULL); }

fby_cancel *fby__cancel_ref(fby_cancel *c)
{
    if (c)
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void fby_cancel_destroy(fby_cancel *c)
{
    while (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) {
        fby_cancel *outer = c->outer;
        fby__free(c);
        c = outer;
    }
}

void fby_cancel_set(fby_cancel *c) { atomic_store_explicit(&c->set, true, memory_order_relaxed); }
void fby__cancel_clear(fby_cancel *c) { atomic_store_explicit(&c->set, false, memory_order_relaxed); }

fby_cancel *fby_cancel_use(fby_cancel *c)
{
    fby_cancel *before = t_current;
    t_current = c;
    return before;
}

fby_cancel *fby__cancel_current(void) { return t_current; }

bool fby__cancel_is_set(const fby_cancel *c)
{
    for (; c; c = c->outer)
        if (atomic_load_explicit(&c->set, memory_order_relaxed))
            return true;
    return false;
}

bool fby__cancelled(void) { return fby__cancel_is_set(t_current); }

fby_status fby__cancel_check(fby_error *err)
{
    return fby__cancelled() ? fby__fail(err, FBY_E_CANCELLED, "the call was cancelled") : FBY_OK;
}
