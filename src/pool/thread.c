/*
 * How the library starts a thread: without signals, which belong to the user's threads, with a name for top and gdb, and under the
 * token of the thread that starts it.
 */
#include "pool/pool.h"

#include "base/alloc.h"
#include "base/cancel.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/*
 * A stack's whole size counts as address space (RLIMIT_AS) and as data (RLIMIT_DATA), touched or not: of the system's default, 8 MiB, ten threads
 * take what a small budget is. The most that tests touch is 113 KiB, with the frames of what starts the helper program.
 */
#define STACK_BYTES ((size_t)1 << 20)

typedef struct start {
    void *(*run)(void *);
    void *arg;
    fby_cancel *cancel; /* a reference; the thread's for as long as it runs */
} start;

static void *begin(void *arg)
{
    start s = *(start *)arg;
    fby__free(arg);
    (void)fby_cancel_use(s.cancel);
    void *result = s.run(s.arg);
    fby_cancel_destroy(s.cancel);
    return result;
}

static int create(pthread_t *out, fby__stack stack, start *s)
{
    pthread_attr_t attr;
    int error = EINVAL;
    if (stack == FBY__STACK_OWN && pthread_attr_init(&attr) == 0) {
        error = pthread_attr_setstacksize(&attr, STACK_BYTES);
        error = error ? error : pthread_create(out, &attr, begin, s);
        (void)pthread_attr_destroy(&attr); /* does not fail for one that was made */
    }
    /* The program's thread-local variables lie there too, and may be more than fits. */
    return error == EINVAL ? pthread_create(out, NULL, begin, s) : error;
}

fby_status fby__thread_start(pthread_t *out, const char *name, int index, fby__stack stack, void *(*run)(void *), void *arg, fby_error *err)
{
    sigset_t all, old;
    start *s = fby__malloc(sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "a thread");
    *s = (start){run, arg, fby__cancel_ref(fby__cancel_current())};
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* fails for an invalid first argument only */
    pthread_t thread;
    const int error = create(&thread, stack, s);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL); /* as above */
    if (error) {
        fby_cancel_destroy(s->cancel);
        fby__free(s);
        return fby__fail(err, FBY_E_NOMEM, "cannot start thread %d of %s: %s; use fewer threads or raise `ulimit -u`", index, name,
                         strerror(error));
    }

    char number[12], text[16];
    int digits = snprintf(number, sizeof number, "/%d", index);
    (void)snprintf(text, sizeof text, "%.*s%s", 15 - digits, name, number); /* fits by construction */
    (void)pthread_setname_np(thread, text);                                 /* a thread without a name works as well */
    *out = thread;
    return FBY_OK;
}
