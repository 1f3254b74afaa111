/*
 * What limits a loader, and what would help: pure functions of what was measured.
 *
 * Each thing that a batch needs — the program, the transform, the workers, the storage, the CPUs — was busy for a share of the time. The one
 * that was always busy limits, and where its load becomes smaller, the next one will: batches then come as much faster as that has room
 * (the utilization law).
 */
#ifndef FBY_LOADER_VERDICT_H
#define FBY_LOADER_VERDICT_H

#include <forebay/loader.h>

/** Shares of the time, 0 to 1. */
typedef struct fby__usage {
    uint64_t batches, samples;                 /* of the steady state */
    double seconds;                            /* of the steady state: without first batches and the program's first step */
    double wait, work, transfer;               /* of `seconds`: the consumer's, together 1 */
    double next;                               /* of `wait`: its thread was busy taking batches */
    double first;                              /* of all time: first batches of epochs */
    double transform;                          /* of all time, as all that follow: one batch after the other */
    double workers;                            /* in the mean over the threads */
    double read, decompress, decode, assemble; /* of `workers`: the rest of that is a transform in C */
    double storage;                            /* something was being read */
    double memory;                             /* nothing could be loaded for want of budget */
    double cpus;                               /* of all that the process may use */
} fby__usage;

/** How many digits behind the point a figure has of which two are shown, without an exponent. */
int fby__decimals(double figure);

/** Fills cures and n_cures for r->limit. */
void fby__cures_of(fby_report *r, const fby__usage *u);

/** Fills limit, confidence, reason, verdict, cures and n_cures. */
void fby__judge(fby_report *r);

#endif
