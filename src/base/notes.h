/* Sentences about an object that a colleague would mention: a list of texts, each made printable. Nothing in it is an error. */
#ifndef FBY_BASE_NOTES_H
#define FBY_BASE_NOTES_H

#include "base/error.h"

#include <stdarg.h>

typedef struct fby__notes {
    char **text; /* owned: n, each owned */
    size_t n, cap;
} fby__notes;

/** Append one; a long one is cut. FBY_E_NOMEM leaves the list as it was. */
fby_status fby__notes_put(fby__notes *notes, fby_error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
fby_status fby__notes_putv(fby__notes *notes, fby_error *err, const char *fmt, va_list args) __attribute__((format(printf, 3, 0)));

/** Borrowed; NULL past the last. */
static inline const char *fby__notes_at(const fby__notes *notes, size_t i) { return i < notes->n ? notes->text[i] : NULL; }

void fby__notes_fini(fby__notes *notes);

#endif
