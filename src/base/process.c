/* The process id, remembered, and noted anew in the child of a fork. */
#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic pid_t g_pid; /* relaxed: it changes in a child alone, before that has a second thread */

static void note(void) { atomic_store_explicit(&g_pid, getpid(), memory_order_relaxed); }

static void watch_forks(void)
{
    if (pthread_atfork(NULL, NULL, note) == 0) /* ENOMEM: every call asks the kernel */
        note();
}

pid_t fby__process_id(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pid_t pid = atomic_load_explicit(&g_pid, memory_order_relaxed);
    if (pid)
        return pid;
    (void)pthread_once(&once, watch_forks); /* cannot fail */
    return getpid();
}
