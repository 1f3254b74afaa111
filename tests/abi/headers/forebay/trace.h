/*
 * What happened when: spans of the library's threads and of the program, in a file that Perfetto (ui.perfetto.dev) and chrome://tracing show.
 *
 *     fby_trace_begin(0, &err);
 *     …                                             a few seconds of training
 *     uint64_t begun = fby_span_begin();
 *     forward(batch);
 *     fby_span_end("forward", begun);
 *     …
 *     fby_trace_end("run.json", &err);
 *
 * While nothing is being recorded, an event costs one load. During a recording each thread writes into memory of its own, where new events
 * replace the oldest.
 */
#ifndef FOREBAY_TRACE_H
#define FOREBAY_TRACE_H

#include <forebay/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Start recording, in this process: reads, decodes, assemblies, transforms and waits of all loaders, the memory they hold, and the program's
 * spans.
 *
 * @max_events  how many of its last events each thread keeps, 112 bytes each; 0 = 65,536.
 *
 * Returns FBY_OK; FBY_E_STATE when a recording is under way; FBY_E_ARG for more than 2^24.
 * Threads: any. Blocks: no.   Since: 0.2
 */
FBY_API fby_status fby_trace_begin(uint64_t max_events, fby_error *err);

/**
 * End the recording, and write it as Chrome's trace event JSON: under another name, then renamed.
 *
 * @path  borrowed; NULL = what was recorded is dropped.
 *
 * Returns FBY_OK; FBY_E_STATE when nothing is being recorded in this process; FBY_E_IO (the recording has ended all the same), FBY_E_NOMEM.
 * Threads: any; not from two at once. Blocks: on the file.   Since: 0.2
 */
FBY_API fby_status fby_trace_end(const char *path, fby_error *err);

/** A span of the program begins: the time in ns on the monotonic clock. Threads: any. Blocks: no.   Since: 0.2 */
FBY_API uint64_t fby_span_begin(void);

/**
 * The span ends, on the thread where it began. Spans of one thread are nested or apart. Does nothing while nothing is being recorded.
 *
 * @name   copied, cut to 47 bytes; NULL does nothing.
 * @begun  what fby_span_begin() returned.
 *
 * Threads: any. Blocks: no.   Since: 0.2
 */
FBY_API void fby_span_end(const char *name, uint64_t begun);

#ifdef __cplusplus
}
#endif

#endif
