/*
 * The end of a helper program, whether it reads for everyone (process.c) or writes one file (output.c): waited for, brought about, and said.
 *
 * Nothing here waits for ever: a program that even SIGKILL does not end is stuck in the kernel, and is collected later.
 */
#include "base/cancel.h"
#include "format/hdf5/client/helper_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#define KILL_MS 100u /* from SIGKILL to the end: longer only where the kernel itself is stuck, in a dead file system */
#define N_UNDEAD 16  /* such programs, collected later; beyond, they stay zombies */

static _Atomic pid_t g_undead[N_UNDEAD]; /* killed, but not seen dead; 0 = free. Whoever waits for one takes it out first */

/* Wait so long for the end. 1: it came; 0: not yet; -1: nobody can say how it ended. */
static int wait_for_end(pid_t pid, unsigned ms, bool cancellable, int *out_status)
{
    for (unsigned waited = 0;; waited++) {
        pid_t r = waitpid(pid, out_status, WNOHANG);
        if (r == pid)
            return 1;
        if (r < 0 && errno != EINTR)
            return -1;
        if (r == 0 && (waited >= ms || (cancellable && fby__cancelled())))
            return 0;
        (void)poll(NULL, 0, 1);
    }
}

static void remember_undead(pid_t pid)
{
    for (size_t i = 0; i < N_UNDEAD; i++) {
        pid_t none = 0;
        if (atomic_compare_exchange_strong(&g_undead[i], &none, pid))
            return;
    }
}

void fby__h5_helper_collect_undead(unsigned ms)
{
    int status;
    for (size_t i = 0; i < N_UNDEAD; i++) {
        const pid_t pid = atomic_exchange(&g_undead[i], 0);
        if (pid && wait_for_end(pid, ms, false, &status) == 0)
            remember_undead(pid);
    }
}

void fby__h5_helper_forget_undead(void)
{
    for (size_t i = 0; i < N_UNDEAD; i++)
        atomic_store(&g_undead[i], 0);
}

bool fby__h5_helper_reap(pid_t pid, unsigned grace_ms, int *out_status)
{
    int r = wait_for_end(pid, grace_ms, true, out_status);
    if (r != 0)
        return r > 0;
    (void)kill(pid, SIGKILL); /* not yet reaped: the number is still its own */
    r = wait_for_end(pid, KILL_MS, false, out_status);
    if (r == 0)
        remember_undead(pid);
    return r > 0;
}

/*
 * A signal that says nothing of the file: somebody stopped the program, as a machine that is out of memory does. A file makes libhdf5
 * crash, or grow beyond its limits.
 */
static bool is_from_outside(int status) { return WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM); }

fby_status fby__h5_helper_fail_ended(pid_t pid, const char *doing, fby_status code, fby__h5_attempt attempt, fby_error *err)
{
    int status = 0;
    if (!pid || !fby__h5_helper_reap(pid, FBY__H5_GRACE_MS, &status))
        return fby__fail(err, code, "the helper program ended while it %s", doing);
    if (fby__cancelled()) /* and so killed, perhaps */
        return fby__fail(err, FBY_E_CANCELLED, "the wait for the helper program was cancelled");
    if (is_from_outside(status) && attempt == FBY__H5_FIRST_ATTEMPT)
        return FBY_E_STATE;
    if (is_from_outside(status))
        return fby__fail(err, FBY_E_IO, "the helper program was killed by signal %d (%s) while it %s%s; is there enough memory?",
                         WTERMSIG(status), strsignal(WTERMSIG(status)), doing,
                         attempt == FBY__H5_LAST_ATTEMPT ? ", and so was the one that took its place" : "");
    if (WIFSIGNALED(status))
        return fby__fail(err, code, "the helper program was killed by signal %d (%s) while it %s", WTERMSIG(status),
                         strsignal(WTERMSIG(status)), doing);
    return fby__fail(err, code, "the helper program ended with status %d while it %s", WEXITSTATUS(status), doing);
}
