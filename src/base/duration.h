/* Durations as people write them. */
#ifndef FBY_BASE_DURATION_H
#define FBY_BASE_DURATION_H

#include <stdint.h>

/** Nanoseconds of "1 day", "6 hours", "10 min", "30 s", "20 ms", "5 us" or "5 ns"; 0 for what is no duration above 0, or none that int64 holds. */
uint64_t fby__duration_ns(const char *text);

#endif
