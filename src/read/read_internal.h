/* The parts of the reader, private to src/read. */
#ifndef FBY_READ_INTERNAL_H
#define FBY_READ_INTERNAL_H

#include "read/read.h"

#define FBY__READ_STEP_BYTES ((size_t)1 << 20) /* that each thread asks of the account at once */

/** What becomes of the other tasks of a read: for want of room they go on, so that what all of them need is known. */
typedef enum fby__read_failure { FBY__READ_GOES_ON, FBY__READ_LACKS_ROOM, FBY__READ_STOPS } fby__read_failure;

/** What a block becomes: panels (panels.c) or Arrow arrays (arrow.c). */
typedef struct fby__read_shape {
    /** The leaves that are wanted, by fby__read_want. None: nothing is read, and no file is opened. NULL: all columns that the file has. */
    fby_status (*choose)(fby__read *read, fby_error *err);
    /** At most so many tasks. */
    size_t (*most_tasks)(const fby__reader *reader);
    /** Write the tasks; returns their number. */
    uint32_t (*cut)(fby__read *read);
    fby_status (*decode)(const fby__read_task *task, fby__read_worker *worker, fby_error *err);
    const char *(*name)(const fby__read_task *task); /* of its first column, for messages */
} fby__read_shape;

extern const fby__read_shape fby__read_panels;

/* ---- read.c ---- */

/** What decoding allocated is its owner's now, all but the scratch. */
void fby__reader_settle(const fby__reader *reader, int worker);
/** The error reported is that of the first task in the order of columns; one that more room does not help comes before one of room. */
void fby__read_fail(fby__read *read, uint32_t task, const fby_error *error, bool lacks_room);
/** The owner was stopped, or the call cancelled: what is not yet read or decoded is not needed, and whoever stops it is waiting. */
bool fby__read_given_up(fby__read *read);
/** Nothing of it is under way: the sink is told. */
void fby__read_finish(fby__read *read, int worker);

/* ---- begin.c ---- */

/** The table of the block's file, if it is not there yet. */
fby_status fby__read_open_table(fby__read *read, fby_error *err);
/** Room for n leaves of each segment: *out, of the first segment, is to be filled. */
fby_status fby__read_want(fby__read *read, size_t n, fby__leaf_source **out, fby_error *err);

/* ---- decode.c ---- */

/** The engine is done: go on with what it gave. */
void fby__read_go_on(fby__read *read, int worker);
/** That, as a task of the read. */
void fby__read_fetched(fby__task *task, int worker);
/** All bytes are there. On a thread of the pool, or, without one, the thread that began. */
void fby__read_decode(fby__read *read, int worker);

/* ---- fetch.c ---- */

/** The ranges of all segments' sources → read->requests and where each range's bytes will be; read->in_place for what is not decoded. */
fby_status fby__fetch_plan(fby__read *read, size_t *out_n_requests, fby_error *err);
/** Start the requests. FBY_OK: fby__fetch_done is called, on any thread. */
fby_status fby__fetch_submit(fby__read *read, size_t n_requests, fby_error *err);
/** Fill all requests here and now. */
fby_status fby__fetch_now(fby__read *read, size_t n_requests, fby_error *err);
/** Ranges, and panels whose rows are as stored, point into the map. Nothing where no file is mapped. */
void fby__fetch_mapped(fby__read *read);
/** The read needs its bytes no more. */
void fby__fetch_give_back(fby__read *read);

/* ---- cast.c ---- */

/** n nulls of a type. */
fby_status fby__cast_nulls(const struct ArrowSchema *type, int64_t n, struct ArrowArray *out, fby_error *err);
/** n times the same string as utf8 or large utf8. */
fby_status fby__cast_constant(const struct ArrowSchema *type, const char *text, int64_t n, struct ArrowArray *out, fby_error *err);
/** Turn *array of type `from` into type `to`, to which it widens. On failure *array is released or as it was; release it. */
fby_status fby__cast(const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, fby_error *err);

#endif
