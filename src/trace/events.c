/*
 * Rings of events, one a thread, and the file that is made of them.
 *
 * Who may do what. `registry` guards the list of rings and which recording there is; a ring's lock its events. Begin and end take the registry's,
 * and the rings' below it; a thread that records takes its own ring's alone, once it has one. A ring lives as long as its thread, and then until a
 * recording ends. Whether something is recorded is looked at again under the ring's lock: what end() has moved is not written to.
 */
#include "trace/events.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_EVENTS 65536u
#define MOST_EVENTS ((uint64_t)1 << 24)

_Atomic bool fby__events_on;

typedef struct stored {
    fby__event event; /* its text is `text`, or NULL */
    char text[FBY__EVENT_TEXT];
} stored;

typedef struct ring {
    struct ring *next;    /* of the registry's */
    long tid;             /* set once */
    pthread_mutex_t lock; /* guards the rest */
    bool exited;          /* its thread has */
    uint64_t recording;   /* which one the events are of */
    stored *events;       /* owned: `room` of them, NULL before the first */
    uint64_t room, n;     /* n: ever added; the last `room` are kept */
    char thread[16];
} ring;

static struct {
    pthread_mutex_t lock;
    ring *rings;
    uint64_t begun_ns;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The recording that runs or was last: its number, events a thread, process. Written before events_on is set. */
static _Atomic uint64_t recording, recording_room;
static _Atomic long recording_pid;

static bool is_recorded_here(void)
{
    return fby__events_are_on() && atomic_load_explicit(&recording_pid, memory_order_relaxed) == (long)fby__process_id();
}

/* ---- rings ---- */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void thread_exits(void *arg)
{
    ring *r = arg;
    pthread_mutex_lock(&r->lock);
    r->exited = true;
    pthread_mutex_unlock(&r->lock);
}
static void make_key(void) { has_key = pthread_key_create(&key, thread_exits) == 0; }

static void ring_free(ring *r)
{
    pthread_mutex_destroy(&r->lock);
    fby__free(r->events);
    fby__free(r);
}

/* This thread's; NULL for want of memory. */
static ring *own_ring(void)
{
    (void)pthread_once(&key_once, make_key);
    ring *r = has_key ? pthread_getspecific(key) : NULL;
    if (r || !has_key)
        return r;
    r = fby__calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->tid = syscall(SYS_gettid);
    if (pthread_setspecific(key, r) != 0) {
        ring_free(r);
        return NULL;
    }
    pthread_mutex_lock(&registry.lock);
    r->next = registry.rings;
    registry.rings = r;
    pthread_mutex_unlock(&registry.lock);
    return r;
}

static bool is_open_locked(const ring *r) { return r->events && r->recording == atomic_load_explicit(&recording, memory_order_relaxed); }

/* Room for the events of the recording that runs, in place of those of one before. Memory is mapped under no lock. */
static void open_ring(ring *r)
{
    const uint64_t current = atomic_load_explicit(&recording, memory_order_relaxed);
    const uint64_t room = atomic_load_explicit(&recording_room, memory_order_relaxed);
    stored *events = fby__calloc(room, sizeof *events);
    pthread_mutex_lock(&r->lock);
    stored *before = r->events;
    r->events = events;
    r->room = room;
    r->n = 0;
    r->recording = current;
    (void)pthread_getname_np(pthread_self(), r->thread, sizeof r->thread); /* a thread without a name records as well */
    pthread_mutex_unlock(&r->lock);
    fby__free(before);
}

/* Into the ring, if something is recorded and there is room for it; false when the ring has to be opened first. */
static bool add(ring *r, const fby__event *event)
{
    pthread_mutex_lock(&r->lock);
    /* acquire pairs with begin's release: the recording's number and room */
    const bool on = atomic_load_explicit(&fby__events_on, memory_order_acquire), open = is_open_locked(r);
    if (on && open) {
        stored *s = &r->events[r->n++ % r->room];
        s->event = *event;
        s->event.text = event->text ? s->text : NULL;
        if (event->text)
            (void)fby_printable(event->text, strlen(event->text), s->text, sizeof s->text);
    }
    pthread_mutex_unlock(&r->lock);
    return open || !on;
}

void fby__event_add(const fby__event *event)
{
    ring *r = is_recorded_here() ? own_ring() : NULL;
    if (!r || add(r, event))
        return;
    open_ring(r);
    (void)add(r, event); /* without memory, or when the recording has ended meanwhile, the event is left out */
}

/* ---- the file ---- */

typedef struct file {
    FILE *out;
    long pid;
    uint64_t begun_ns, n_overlaps;
} file;

static void write_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', out); /* errors are asked for at the end */
        (void)fputc(*text, out);
    }
}

/* Microseconds since the recording began, as the format wants them. What began before is cut. */
static double micros(const file *f, uint64_t ns) { return ns > f->begun_ns ? (double)(ns - f->begun_ns) / 1e3 : 0; }

static void write_head(const file *f, const ring *r, const char *name, uint64_t ns)
{
    (void)fprintf(f->out, ",\n{\"name\":\"");
    write_text(f->out, name);
    (void)fprintf(f->out, "\",\"pid\":%ld,\"tid\":%ld,\"ts\":%.3f", f->pid, r->tid, micros(f, ns));
}

static void write_event(file *f, const ring *r, const stored *s)
{
    const fby__event *e = &s->event;
    const char *name = e->name ? e->name : s->text;
    write_head(f, r, name, e->begin_ns);
    if (e->kind == FBY__EVENT_LEVEL) {
        (void)fprintf(f->out, ",\"ph\":\"C\",\"args\":{\"%s\":%llu}}", e->what, (unsigned long long)e->number);
        return;
    }
    if (e->kind == FBY__EVENT_SPAN)
        (void)fprintf(f->out, ",\"ph\":\"X\",\"dur\":%.3f", micros(f, e->end_ns) - micros(f, e->begin_ns));
    else
        (void)fprintf(f->out, ",\"ph\":\"b\",\"cat\":\"%s\",\"id\":%llu", name, (unsigned long long)++f->n_overlaps);
    (void)fprintf(f->out, ",\"args\":{");
    if (e->what)
        (void)fprintf(f->out, "\"%s\":%llu", e->what, (unsigned long long)e->number);
    if (e->name && e->text) {
        (void)fprintf(f->out, "%s\"of\":\"", e->what ? "," : "");
        write_text(f->out, s->text);
        (void)fputc('"', f->out);
    }
    (void)fprintf(f->out, "}}");
    if (e->kind == FBY__EVENT_OVERLAP) {
        write_head(f, r, name, e->end_ns);
        (void)fprintf(f->out, ",\"ph\":\"e\",\"cat\":\"%s\",\"id\":%llu}", name, (unsigned long long)f->n_overlaps);
    }
}

static void write_ring(file *f, const ring *r)
{
    (void)fprintf(f->out, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%ld,\"tid\":%ld,\"args\":{\"name\":\"", f->pid, r->tid);
    write_text(f->out, r->thread);
    (void)fprintf(f->out, "\"}}");
    for (uint64_t i = r->n > r->room ? r->n - r->room : 0; i < r->n; i++)
        write_event(f, r, &r->events[i % r->room]);
}

static void write_all(file *f, const ring *rings)
{
    uint64_t lost = 0;
    for (const ring *r = rings; r; r = r->next)
        lost += r->n > r->room ? r->n - r->room : 0;
    (void)fprintf(f->out,
                  "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"forebay %s\",\"events lost\":\"%llu\"},\"traceEvents\":[\n"
                  "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%ld,\"tid\":0,\"args\":{\"name\":\"",
                  fby_version(), (unsigned long long)lost, f->pid);
    write_text(f->out, program_invocation_short_name);
    (void)fprintf(f->out, "\"}}");
    for (const ring *r = rings; r; r = r->next)
        if (r->n)
            write_ring(f, r);
    (void)fprintf(f->out, "\n]}\n");
}

static fby_status write_file(const char *path, file *f, const ring *rings, fby_error *err)
{
    const size_t n = strlen(path) + 32;
    char *beside = fby__malloc(n);
    if (!beside)
        return fby__fail_nomem(err, "a trace");
    (void)snprintf(beside, n, "%s.%ld.tmp", path, f->pid);
    f->out = fopen(beside, "we");
    int failed = f->out ? 0 : errno;
    if (f->out) {
        write_all(f, rings);
        failed = ferror(f->out) ? EIO : 0;
        if (fclose(f->out) != 0 && !failed)
            failed = errno;
        if (!failed && rename(beside, path) != 0)
            failed = errno;
        if (failed)
            (void)unlink(beside); /* what is left of a write that failed */
    }
    fby__free(beside);
    return failed ? fby__fail_errno(err, failed, "cannot write the trace %s", path) : FBY_OK;
}

/* ---- begin, end ---- */

fby_status fby_trace_begin(uint64_t max_events, fby_error *err)
{
    if (max_events > MOST_EVENTS)
        return fby__fail(err, FBY_E_ARG, "a trace of %llu events a thread: at most %llu", (unsigned long long)max_events,
                         (unsigned long long)MOST_EVENTS);
    pthread_mutex_lock(&registry.lock);
    const bool runs = is_recorded_here();
    if (!runs) {
        atomic_store_explicit(&recording_pid, (long)fby__process_id(), memory_order_relaxed);
        registry.begun_ns = fby__now_ns();
        atomic_store_explicit(&recording_room, max_events ? max_events : DEFAULT_EVENTS, memory_order_relaxed);
        atomic_fetch_add_explicit(&recording, 1, memory_order_relaxed);
        atomic_store_explicit(&fby__events_on, true, memory_order_release);
    }
    pthread_mutex_unlock(&registry.lock);
    return runs ? fby__fail(err, FBY_E_STATE, "this process records a trace already: end that one first") : FBY_OK;
}

/* What the ring has of the recording that ends, in *out, which owns it. */
static void move_events(ring *r, uint64_t current, ring *out)
{
    pthread_mutex_lock(&r->lock);
    *out = (ring){.tid = r->tid};
    if (r->events && r->recording == current) {
        out->events = r->events;
        out->room = r->room;
        out->n = r->n;
        memcpy(out->thread, r->thread, sizeof out->thread);
        r->events = NULL;
    }
    pthread_mutex_unlock(&r->lock);
}

static bool has_exited(ring *r)
{
    pthread_mutex_lock(&r->lock);
    const bool exited = r->exited;
    pthread_mutex_unlock(&r->lock);
    return exited;
}

fby_status fby_trace_end(const char *path, fby_error *err)
{
    ring *moved = NULL, *gone = NULL;
    bool nomem = false;
    pthread_mutex_lock(&registry.lock);
    if (!is_recorded_here()) {
        pthread_mutex_unlock(&registry.lock);
        return fby__fail(err, FBY_E_STATE, "this process records no trace: fby_trace_begin() comes first");
    }
    atomic_store_explicit(&fby__events_on, false, memory_order_relaxed);
    file f = {.pid = (long)fby__process_id(), .begun_ns = registry.begun_ns};
    const uint64_t current = atomic_load_explicit(&recording, memory_order_relaxed);
    for (ring **at = &registry.rings; *at;) {
        ring *r = *at, *copy = fby__malloc(sizeof *copy);
        if (copy) {
            move_events(r, current, copy);
            copy->next = moved;
            moved = copy;
        }
        nomem |= !copy;
        if (has_exited(r)) { /* nobody else has it any more */
            *at = r->next;
            r->next = gone;
            gone = r;
        } else {
            at = &r->next;
        }
    }
    pthread_mutex_unlock(&registry.lock);
    fby_status status = nomem ? fby__fail_nomem(err, "a trace") : path ? write_file(path, &f, moved, err) : FBY_OK;
    while (gone) {
        ring *next = gone->next;
        ring_free(gone);
        gone = next;
    }
    while (moved) {
        ring *next = moved->next;
        fby__free(moved->events);
        fby__free(moved);
        moved = next;
    }
    return status;
}

/* ---- the program's spans ---- */

uint64_t fby_span_begin(void) { return fby__now_ns(); }

void fby_span_end(const char *name, uint64_t begun)
{
    if (name && fby__events_are_on())
        fby__event_add(&(fby__event){.begin_ns = begun, .end_ns = fby__now_ns(), .text = name});
}
