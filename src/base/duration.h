/* Durations as people write them. */
#ifndef FBY_BASE_DURATION_H
#define FBY_BASE_DURATION_H

#include <stdint.h>

enum { FBY__DURATION_CHARS = 40 };

/** Nanoseconds of "1 day", "6 hours", "10 min", "30 s", "20 ms", "5 us" or "5 ns"; 0 for what is no duration above 0, or none that int64 holds. */
uint64_t fby__duration_ns(const char *text);

/** The other way, in the largest unit of which it is a whole number: "1 day", "-36 hours", "90 min". */
void fby__duration_text(int64_t ns, char out[FBY__DURATION_CHARS]);

#endif
