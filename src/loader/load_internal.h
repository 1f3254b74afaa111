/* Loading a block: what its files share. */
#ifndef FBY_LOADER_LOAD_INTERNAL_H
#define FBY_LOADER_LOAD_INTERNAL_H

#include "loader/internal.h"

/* ---- load.c ---- */

/** The job is to end in failure. The first error is the one reported. */
void fby__load_fail(fby__load_job *job, const fby_error *error);
/** The end of a job, as a task of the pool: job->task. */
void fby__load_finish_task(fby__task *task, int worker);
/** All bytes are there: start the tasks that decode them, of which the last one ends the job. */
void fby__load_decode(fby__load_job *job);

/* ---- load_read.c ---- */

/** The ranges of all segments' sources → job->requests and where each range's bytes will be; job->in_place for what is not decoded. */
fby_status fby__load_requests(fby__load_job *job, size_t *out_n, fby_error *err);
/** The job's requests are done: decode, or end in failure. On an engine's thread, or the one that submitted them. */
void fby__load_read_done(fby__io_batch *batch);

#endif
