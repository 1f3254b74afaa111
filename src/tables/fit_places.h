/* Moments of each place on an axis, such as one for every feature of (rows, particles, features). */
#ifndef FBY_TABLES_FIT_PLACES_H
#define FBY_TABLES_FIT_PLACES_H

#include "base/error.h"
#include "transform/transform.h"

#include <forebay/batch.h>

typedef struct fby__places {
    size_t n_each; /* places; 0 = whole columns, and nothing is to be done */
    int32_t axis;
    double *values; /* owned: those of one place, side by side */
    size_t cap_values;
} fby__places;

/** FBY_E_ARG: a column without the axis, or with another number of places on it. Zeroed first: fini is fine after a failure. */
fby_status fby__places_init(fby__places *p, fby_dataset *ds, const fby_fit_opts *o, fby_error *err);
void fby__places_fini(fby__places *p);

/** Add rows [from, to) of a column's tensor, float64 and dense, to the moments of its n_each places. */
fby_status fby__places_add(fby__places *p, const fby_tensor *values, uint64_t from, uint64_t to, fby__moment_sums *m, fby_error *err);

#endif
