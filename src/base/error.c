/*
 * Status texts, and the few functions that write an fby_error. Names in messages come from files, paths and links: every message is made
 * printable here, so that nobody who composes one has to think of it.
 */
#include "base/error.h"

#include "base/alloc.h"
#include "base/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} STATUS[FBY_STATUS_COUNT] = {
#define STATUS_ROW(name, text, next) {#name, text},
    FBY_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

const char *fby_status_text(fby_status code) { return (unsigned)code < FBY_STATUS_COUNT ? STATUS[code].text : "unknown status"; }

const char *fby_status_name(fby_status code) { return (unsigned)code < FBY_STATUS_COUNT ? STATUS[code].name : "FBY_E_?"; }

const char *fby_version(void) { return FBY_VERSION_STRING; }

static void write_message(fby_error *err, fby_status code, int sys_errno, int64_t offset, const char *fmt, va_list ap)
{
    err->code = code;
    err->sys_errno = sys_errno;
    err->file_offset = offset;
    int n = vsnprintf(err->message, sizeof err->message, fmt, ap); /* a cut message is still a message */
    fby__make_printable(err->message, sizeof err->message, n >= (int)sizeof err->message);
}

fby_status fby__fail(fby_error *err, fby_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        write_message(err, code, 0, -1, fmt, ap);
        va_end(ap);
    }
    return code;
}

fby_status fby__fail_at(fby_error *err, fby_status code, uint64_t file_offset, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        write_message(err, code, 0, file_offset > INT64_MAX ? INT64_MAX : (int64_t)file_offset, fmt, ap);
        va_end(ap);
    }
    return code;
}

fby_status fby__fail_errno(fby_error *err, int sys_errno, const char *fmt, ...)
{
    fby_status code = sys_errno == ENOMEM ? FBY_E_NOMEM : FBY_E_IO;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        write_message(err, code, sys_errno, -1, fmt, ap);
        va_end(ap);
        size_t used = strlen(err->message);
        char text[128];
        /* strerror_r: the GNU variant returns the text, which may or may not lie in the buffer. */
        (void)snprintf(err->message + used, sizeof err->message - used, ": %s", strerror_r(sys_errno, text, sizeof text));
    }
    return code;
}

fby_status fby__fail_nomem(fby_error *err, const char *what) { return fby__fail(err, FBY_E_NOMEM, "out of memory: %s", what); }

void fby__error_context(fby_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n < sizeof err->message ? (size_t)n : sizeof err->message - 1;
    n = snprintf(err->message + used, sizeof err->message - used, ": %s", old); /* a cut message is still a message */
    fby__make_printable(err->message, sizeof err->message, n < 0 || used + (size_t)n >= sizeof err->message);
}

fby_error *fby__error_copy(const fby_error *err)
{
    fby_error *copy = fby__malloc(sizeof *copy);
    if (copy)
        *copy = *err;
    return copy;
}

void fby__error_clear(fby_error *err)
{
    if (err)
        *err = (fby_error){.code = FBY_OK, .file_offset = -1};
}
