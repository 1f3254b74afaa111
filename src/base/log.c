/* The program's log function, and what it is told. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic int least_wanted = FBY_LOG_OFF;
static struct {
    pthread_mutex_t lock;
    fby_log_fn fn;
    void *user;
} target = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool fby__log_wants(fby_log_level level) { return (int)level >= atomic_load_explicit(&least_wanted, memory_order_relaxed); }

void fby_log_set(fby_log_level least, fby_log_fn fn, void *user)
{
    pthread_mutex_lock(&target.lock);
    target.fn = fn;
    target.user = user;
    atomic_store_explicit(&least_wanted, fn ? (int)least : FBY_LOG_OFF, memory_order_relaxed);
    pthread_mutex_unlock(&target.lock);
}

fby_log_level fby_log_level_of(const char *name)
{
    static const char *const NAMES[] = {
#define NAME(level, text) text,
        FBY_LOG_LIST(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0)
            return (fby_log_level)i;
    return FBY_LOG_OFF;
}

void fby__log(fby_log_level level, const char *fmt, ...)
{
    if (!fby__log_wants(level) || level >= FBY_LOG_OFF)
        return;
    char text[1000], line[1200];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* what is too long is cut */
    va_end(args);
    (void)fby_printable(text, strlen(text), line, sizeof line);
    pthread_mutex_lock(&target.lock);
    const fby_log_fn fn = target.fn;
    void *const user = target.user;
    pthread_mutex_unlock(&target.lock);
    if (fn)
        fn(user, level, line);
}
