/* What the library has to say while it runs, one line at a time, to a function of the program. Without one it says nothing. */
#ifndef FOREBAY_LOG_H
#define FOREBAY_LOG_H

#include <forebay/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** From the least important. X(enum, name). */
#define FBY_LOG_LIST(X) X(FBY_LOG_DEBUG, "debug") X(FBY_LOG_INFO, "info") X(FBY_LOG_WARNING, "warning") X(FBY_LOG_OFF, "off")

typedef enum fby_log_level {
#define FBY_LOG_ENUM(name, text) name,
    FBY_LOG_LIST(FBY_LOG_ENUM)
#undef FBY_LOG_ENUM
} fby_log_level;

/** Gets a line without its end, made printable as by fby_printable(), borrowed for the call. */
typedef void (*fby_log_fn)(void *user, fby_log_level level, const char *message);

/**
 * Call `fn` for messages of a level from `least` on. It is called during calls into the library, on the caller's thread and under no lock;
 * another thread may still be inside it when this returns. NULL: no more messages.
 *
 * @user  handed to fn as it is; borrowed until another function is set.
 *
 * Threads: any. Blocks: no.   Since: 0.2
 */
FBY_API void fby_log_set(fby_log_level least, fby_log_fn fn, void *user);

/** The level of a name ("info"), FBY_LOG_OFF when there is none. Threads: any. Blocks: no. Since: 0.2 */
FBY_API fby_log_level fby_log_level_of(const char *name);

#ifdef __cplusplus
}
#endif

#endif
