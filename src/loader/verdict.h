/* What limits a loader: a pure function of what was measured. */
#ifndef FBY_LOADER_VERDICT_H
#define FBY_LOADER_VERDICT_H

#include <forebay/loader.h>

/** What was measured. Times in ns; of stages, sums over threads. */
typedef struct fby__facts {
    uint64_t batches, epochs;
    uint64_t wait_ns, work_ns; /* the consumer's, all */
    uint64_t first_waits_ns;   /* of wait_ns: for the first batch of each epoch */
    uint64_t first_work_ns;    /* of work_ns: with the very first batch, when a program compiles and allocates */
    uint64_t worker_cpu_ns, read_ns, decompress_ns, decode_ns, assemble_ns, transform_ns;
    uint32_t n_threads, n_cpus; /* n_cpus: that the process may use */
    bool rereads;               /* blocks were given up for want of memory, or are never kept */
} fby__facts;

/** Fills limit, confidence and verdict. */
void fby__verdict(const fby__facts *facts, fby_report *out);

#endif
