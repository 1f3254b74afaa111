/* Samples being split: what is asked for, and who makes the splits. */
#ifndef FBY_SAMPLES_SPLIT_H
#define FBY_SAMPLES_SPLIT_H

#include "samples/values.h"

typedef struct fby__splitting {
    const fby_samples *s;
    const fby_split_opts *opts;
    const fby_split *splits;
    size_t n_splits;
    double *ends; /* n_splits + 1: split p has the fractions [ends[p], ends[p + 1]); of keys that are listed all 0 */
} fby__splitting;

#define FBY__MAX_SPLITS 1024
#define FBY__SPLIT_NAME_BYTES 80
/** "split 'val'", or "split 1". */
const char *fby__split_name(const fby__splitting *p, size_t split, char out[FBY__SPLIT_NAME_BYTES]);

/** How often each sample comes in each split: counts to fill, and then the splits made of them. */
fby_status fby__split_counts_create(const fby__splitting *p, fby__sample_counts **out,
                                    fby_error *err);                         /* *out is destroyed after a failure too */
void fby__split_counts_destroy(fby__sample_counts *counts, size_t n_splits); /* NULL is fine */
fby_status fby__split_counts_close(fby__sample_counts *counts, size_t n_splits, uint32_t b, fby_error *err);
fby_status fby__split_counts_choose(const fby__splitting *p, fby__sample_counts *counts, fby_samples **out, fby_error *err);

/* The splits → out; those made before a failure are the caller's. */
fby_status fby__split_by_keys(const fby__splitting *p, fby_samples **out, fby_error *err);        /* split_keys.c */
fby_status fby__split_by_samples(const fby__splitting *p, fby_samples **out, fby_error *err);     /* split_samples.c */
fby_status fby__split_by_time_column(const fby__splitting *p, fby_samples **out, fby_error *err); /* split_samples.c */

#endif
