/*
 * Work that cannot be stopped, such as one call of a library: on a thread of its own, which is left to itself when the call is cancelled.
 *
 *     running ──► ended       the caller joins the thread, and goes on with the work
 *        └─────► abandoned    the thread is detached; whatever the work has is dropped when it ends
 */
#include "base/alloc.h"
#include "base/cancel.h"
#include "base/condition.h"
#include "pool/pool.h"

#include <stdbool.h>

typedef struct errand {
    void (*run)(void *work);
    void (*drop)(void *work);
    void *work;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t done;
    bool ended, abandoned;
} errand;

static void destroy(errand *e)
{
    pthread_cond_destroy(&e->done);
    pthread_mutex_destroy(&e->lock);
    fby__free(e);
}

static void *run_errand(void *arg)
{
    errand *e = arg;
    e->run(e->work);
    pthread_mutex_lock(&e->lock);
    e->ended = true;
    const bool abandoned = e->abandoned;
    pthread_cond_signal(&e->done);
    pthread_mutex_unlock(&e->lock);
    if (abandoned) {
        e->drop(e->work);
        destroy(e);
    }
    return NULL;
}

/* Has it ended, and not been abandoned? */
static bool wait_for_end(errand *e)
{
    pthread_mutex_lock(&e->lock);
    while (!e->ended && !fby__cancelled()) {
        (void)fby__cond_wait_until(&e->done, &e->lock, fby__now_ns() + FBY__CANCEL_SLICE_NS); /* late or early: it is looked at again */
    }
    const bool ended = e->ended;
    e->abandoned = !ended;
    pthread_mutex_unlock(&e->lock);
    return ended;
}

static errand *start(void (*run)(void *work), void (*drop)(void *work), void *work, pthread_t *out_thread)
{
    errand *e = fby__cancel_current() ? fby__calloc(1, sizeof *e) : NULL;
    if (!e)
        return NULL;
    *e = (errand){.run = run, .drop = drop, .work = work};
    (void)fby__cond_init(&e->done);
    pthread_mutex_init(&e->lock, NULL);
    if (fby__thread_start(out_thread, "forebay-errand", 0, FBY__STACK_OWN, run_errand, e, NULL) == FBY_OK)
        return e;
    destroy(e);
    return NULL;
}

fby_status fby__thread_run(void (*run)(void *work), void (*drop)(void *work), void *work, fby_error *err)
{
    pthread_t thread;
    fby_status status = fby__cancel_check(err);
    if (status != FBY_OK) {
        drop(work);
        return status;
    }
    errand *e = start(run, drop, work, &thread);
    if (!e) {
        run(work);
        return FBY_OK;
    }
    if (wait_for_end(e)) {
        (void)pthread_join(thread, NULL); /* it ends at once */
        destroy(e);
        return FBY_OK;
    }
    (void)pthread_detach(thread);
    return fby__fail(err, FBY_E_CANCELLED, "the call was cancelled");
}
