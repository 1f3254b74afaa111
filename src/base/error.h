/* Writing fby_error: where the fault is found, with context added on the way up. */
#ifndef FBY_BASE_ERROR_H
#define FBY_BASE_ERROR_H

#include <forebay/base.h>

/** Fill err (NULL is fine) with code and a formatted message; returns code, so `return fby__fail(err, …)`. */
fby_status fby__fail(fby_error *err, fby_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** As fby__fail, with the byte offset in the file. */
fby_status fby__fail_at(fby_error *err, fby_status code, uint64_t file_offset, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/** As fby__fail with FBY_E_IO (FBY_E_NOMEM for ENOMEM), adding strerror(sys_errno) to the message. */
fby_status fby__fail_errno(fby_error *err, int sys_errno, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** Out of memory while doing `what`. Never allocates. */
fby_status fby__fail_nomem(fby_error *err, const char *what);

/** Put "text: " before the message already in err: context, added by a caller further up. Keeps code and offset. */
void fby__error_context(fby_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** A copy, owned by the caller: fby__free(). NULL without memory for it. */
fby_error *fby__error_copy(const fby_error *err);

/** Reset to FBY_OK with an empty message. NULL is fine. */
void fby__error_clear(fby_error *err);

#define FBY__TRY(expr)                                                                                                                     \
    do {                                                                                                                                   \
        fby_status fby__try_status = (expr);                                                                                               \
        if (fby__try_status != FBY_OK)                                                                                                     \
            return fby__try_status;                                                                                                        \
    } while (0)

#endif
