/* The rows that samples consist of, each once: what moments are fitted over. */
#ifndef FBY_TABLES_COVER_H
#define FBY_TABLES_COVER_H

#include "samples/samples.h"

/** The rows that lie in samples, as intervals in order. */
typedef struct fby__cover {
    const fby_samples *samples; /* borrowed; NULL = all rows */
    const fby_dataset *ds;
    uint32_t block; /* the next sample: block, and number in it */
    uint64_t i;
    uint64_t begin, end; /* the interval at hand; begin = end: there are no more */
} fby__cover;

/** samples: NULL = all rows of the data set. */
fby_status fby__cover_begin(fby__cover *c, const fby_samples *samples, const fby_dataset *ds, fby_error *err);
/** The next interval. Samples in a row that touch or overlap make one. The only failure is FBY_E_CANCELLED. */
fby_status fby__cover_next(fby__cover *c, fby_error *err);

#endif
