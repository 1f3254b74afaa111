/* Conditions on the monotonic clock, which nobody sets, and waits for them that end by themselves. */
#ifndef FBY_BASE_CONDITION_H
#define FBY_BASE_CONDITION_H

#include "base/clock.h"

#include <pthread.h>
#include <stdbool.h>

/** 0, or an error number: no memory. glibc's does not fail. */
static inline int fby__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);
    if (failed)
        return failed;
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* a valid clock: cannot fail */
    failed = pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return failed;
}

/** Until it is signalled, or perhaps nothing has happened; or until fby__now_ns() is at_ns: false. */
static inline bool fby__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t at_ns)
{
    const struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000u), .tv_nsec = (long)(at_ns % 1000000000u)};
    return pthread_cond_timedwait(cond, lock, &at) == 0;
}

#endif
