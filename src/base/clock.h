/* Time: nanoseconds on the monotonic clock, CPU time of the process and of the calling thread. */
#ifndef FBY_BASE_CLOCK_H
#define FBY_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t fby__clock_ns(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t); /* cannot fail for the clocks used here */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline uint64_t fby__now_ns(void) { return fby__clock_ns(CLOCK_MONOTONIC); }
static inline uint64_t fby__process_cpu_ns(void) { return fby__clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
static inline uint64_t fby__thread_cpu_ns(void) { return fby__clock_ns(CLOCK_THREAD_CPUTIME_ID); }

#endif
