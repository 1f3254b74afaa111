/* Messages for the program's log function. In calls of the program alone, under no lock: see forebay/log.h. */
#ifndef FBY_BASE_LOG_H
#define FBY_BASE_LOG_H

#include <forebay/log.h>

/** Would a message of this level reach anybody? One relaxed load. */
bool fby__log_wants(fby_log_level level);
void fby__log(fby_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
