/* How the library starts a thread: without signals, which belong to the user's threads, and with a name for top and
 * gdb. */
#include "pool/pool.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

fby_status fby__thread_start(pthread_t *out, const char *name, int index, void *(*run)(void *), void *arg, fby_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* fails for an invalid first argument only */
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL); /* as above */
    if (error)
        return fby__fail(err, FBY_E_NOMEM, "cannot start thread %d of %s: %s; use fewer threads or raise `ulimit -u`", index, name,
                         strerror(error));

    char number[12], text[16];
    int digits = snprintf(number, sizeof number, "/%d", index);
    (void)snprintf(text, sizeof text, "%.*s%s", 15 - digits, name, number); /* fits by construction */
    (void)pthread_setname_np(thread, text);                                 /* a thread without a name works as well */
    *out = thread;
    return FBY_OK;
}
