/* What fitting leaves out besides what is missing: values that are stored as the pad, and the places of an array beyond its row's count. */
#ifndef FBY_TABLES_FIT_PADS_H
#define FBY_TABLES_FIT_PADS_H

#include "base/error.h"

#include <forebay/batch.h>
#include <forebay/loader.h>

typedef struct fby__pads {
    const fby_dataset *ds;      /* borrowed, like opts */
    const fby_fit_opts *opts;   /* borrowed */
    double *pad;                /* owned: of each column, as it stores it */
    bool wants_stored;          /* operations change the values: they are read a second time */
    char (*names)[24];          /* owned: of the outputs that are read beside the columns */
    const fby_tensor **tensors; /* owned: of each column the values, then as they are stored */
} fby__pads;

/** FBY_E_ARG: a count that is no whole number, or of columns that are no arrays. Zeroed first: fini is fine after a failure. */
fby_status fby__pads_init(fby__pads *p, fby_dataset *ds, const fby_fit_opts *opts, fby_error *err);
void fby__pads_fini(fby__pads *p);

/** What is read beside the columns, behind them: at most n_columns + 1 outputs; how many. They borrow p. */
size_t fby__pads_outputs(const fby__pads *p, fby_output *outputs);

/**
 * Make NaN of what is left out, in place. The columns' tensors, float64 all, begin at first_tensor. FBY_E_DATA: a count that is negative or
 * beyond the axis, with its file and row; the batch begins with first_row of the dataset.
 */
fby_status fby__pads_leave_out(fby__pads *p, const fby_batch *batch, size_t first_tensor, uint64_t first_row, fby_error *err);

#endif
