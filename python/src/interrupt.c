/*
 * Ctrl-C while a call of the library waits. Python's handler only notes the signal, and the code that raises KeyboardInterrupt runs when
 * the call is over: so the call has to end. While the main thread is in such a call, SIGINT first comes to a handler here, which sets the
 * token that the call runs under and then does what was to be done before.
 */
#include "module.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(fby_cancel *) g_token; /* of the main thread's call; NULL = none */
static struct sigaction g_before;     /* set before the handler is */
static atomic_bool g_blocked;         /* SIGINT by the main thread, when its call began */

static bool is_main_thread(void) { return syscall(SYS_gettid) == getpid(); }

/*
 * Another thread gets the signal while the main one starts a thread or a program. It is passed on, for the token may be gone by now, and is the main
 * thread's alone then, which would else have two of it; unless it blocks the signal, to have another thread hear it.
 */
static void on_signal(int number, siginfo_t *info, void *context)
{
    const int before = errno;
    fby_cancel *token = atomic_load_explicit(&g_token, memory_order_relaxed);
    if (token && !is_main_thread() && !atomic_load_explicit(&g_blocked, memory_order_relaxed)) {
        (void)syscall(SYS_tgkill, getpid(), getpid(), number); /* cannot fail: there is a main thread */
        errno = before;
        return;
    }
    if (token)
        fby_cancel_set(token);
    if (g_before.sa_flags & SA_SIGINFO)
        g_before.sa_sigaction(number, info, context);
    else if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN)
        g_before.sa_handler(number);
}

static bool is_ours(const struct sigaction *action) { return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal; }

/* Whether Ctrl-C during this call would come to Python's handlers, which run on the main thread alone. */
static bool is_heard(struct sigaction *now)
{
    return is_main_thread() && sigaction(SIGINT, NULL, now) == 0 &&
           ((now->sa_flags & SA_SIGINFO) || (now->sa_handler != SIG_DFL && now->sa_handler != SIG_IGN));
}

void fbpy_wait_begin(fbpy_wait *wait)
{
    struct sigaction now;
    sigset_t mask;
    *wait = (fbpy_wait){0};
    if (!(wait->token = fby_cancel_create()))
        return; /* without memory it goes on as it would without us */
    wait->before = fby_cancel_use(wait->token);
    wait->heard = is_heard(&now);
    if (!wait->heard)
        return;
    atomic_store_explicit(&g_blocked, pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGINT) == 1,
                          memory_order_relaxed);
    wait->outer = atomic_load_explicit(&g_token, memory_order_relaxed); /* of the call whose progress is being told */
    atomic_store_explicit(&g_token, wait->token, memory_order_relaxed);
    if (!is_ours(&now)) {
        g_before = now;
        struct sigaction ours = {.sa_sigaction = on_signal, .sa_mask = now.sa_mask, .sa_flags = now.sa_flags | SA_SIGINFO};
        wait->installed = sigaction(SIGINT, &ours, NULL) == 0;
    }
}

static void leave(fbpy_wait *wait)
{
    struct sigaction now;
    if (wait->installed && sigaction(SIGINT, NULL, &now) == 0 && is_ours(&now)) /* not when a callback has set another */
        (void)sigaction(SIGINT, &g_before, NULL);
    (void)fby_cancel_use(wait->before);
    if (wait->heard)
        atomic_store_explicit(&g_token, wait->outer, memory_order_relaxed);
    fby_cancel_destroy(wait->token);
}

void fbpy_wait_end(fbpy_wait *wait)
{
    if (wait->token)
        leave(wait);
    wait->token = NULL;
}

bool fbpy_wait_call(fbpy_wait *wait, fby_status *status)
{
    const bool was_cancelled = wait->begun && wait->heard && *status == FBY_E_CANCELLED && !PyErr_Occurred();
    const bool is_over = wait->begun && !was_cancelled;
    fbpy_wait_end(wait);
    if (is_over)
        return false;
    fbpy_wait_begin(wait);
    wait->begun = true;
    *status = FBY_E_CANCELLED;
    if (PyErr_CheckSignals() == 0) /* of what came before this call would hear it, too */
        return true;
    fbpy_wait_end(wait);
    return false;
}

void fbpy_error_drop(void)
{
    const bool is_interrupt = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    PyErr_Clear();
    if (is_interrupt)
        PyErr_SetInterrupt();
}

int fbpy_sigint_raises(void)
{
    PyObject *module = PyImport_ImportModule("_signal"); /* signal's function is Python, in which KeyboardInterrupt may be raised */
    PyObject *own = module ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
    PyObject *now = own ? PyObject_CallMethod(module, "getsignal", "i", SIGINT) : NULL;
    const int raises = !now ? -1 : now == own;
    Py_XDECREF(now);
    Py_XDECREF(own);
    Py_XDECREF(module);
    return raises;
}

void fbpy_wait_stop(void)
{
    fby_cancel *token = fby_cancel_use(NULL); /* which says under which one this thread's call runs */
    (void)fby_cancel_use(token);
    if (token)
        fby_cancel_set(token);
}
