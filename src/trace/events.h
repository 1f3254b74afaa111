/*
 * What happened when, for fby_trace_begin(): while it is off, a call that would record is one relaxed load.
 * Each thread records into a ring of its own, under the ring's lock, which nobody else takes but the end of the recording.
 */
#ifndef FBY_TRACE_EVENTS_H
#define FBY_TRACE_EVENTS_H

#include <forebay/trace.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern _Atomic bool fby__events_on;

/** Whoever computes something for an event asks first. */
static inline bool fby__events_are_on(void) { return atomic_load_explicit(&fby__events_on, memory_order_relaxed); }

#define FBY__EVENT_TEXT 48

typedef struct fby__event {
    enum {
        FBY__EVENT_SPAN,    /* of the thread: inside its other spans, or apart */
        FBY__EVENT_OVERLAP, /* that others of the thread overlap */
        FBY__EVENT_LEVEL    /* a figure from begin_ns on: `number` */
    } kind;
    const char *name; /* static; NULL: text is the name */
    const char *what; /* static: what `number` is; NULL: it is nothing */
    uint64_t begin_ns, end_ns, number;
    const char *text; /* what it was about, printed as it is by fby_printable(); NULL = nothing. Copied */
} fby__event;

/** Record, if anything does; an event for which there is no memory is left out. */
void fby__event_add(const fby__event *event);

static inline void fby__event_span(const char *name, uint64_t begin_ns, uint64_t end_ns, const char *what, uint64_t number)
{
    if (fby__events_are_on())
        fby__event_add(&(fby__event){.name = name, .what = what, .begin_ns = begin_ns, .end_ns = end_ns, .number = number});
}

#endif
