/* Lists of printable sentences: see notes.h. */
#include "base/notes.h"

#include "base/alloc.h"
#include "base/printable.h"

#include <stdio.h>

fby_status fby__notes_putv(fby__notes *notes, fby_error *err, const char *fmt, va_list args)
{
    char text[1400];
    const int n = vsnprintf(text, sizeof text, fmt, args); /* a cut note is still a note */
    fby__make_printable(text, sizeof text, n >= (int)sizeof text);
    if (fby__grow((void **)&notes->text, &notes->cap, notes->n + 1, sizeof *notes->text) != 0 ||
        !(notes->text[notes->n] = fby__strdup(text)))
        return fby__fail_nomem(err, "notes");
    notes->n++;
    return FBY_OK;
}

fby_status fby__notes_put(fby__notes *notes, fby_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const fby_status status = fby__notes_putv(notes, err, fmt, args);
    va_end(args);
    return status;
}

void fby__notes_fini(fby__notes *notes)
{
    for (size_t i = 0; i < notes->n; i++)
        fby__free(notes->text[i]);
    fby__free(notes->text);
    *notes = (fby__notes){0};
}
