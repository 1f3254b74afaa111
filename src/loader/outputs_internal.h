/* Resolving outputs: what the files that do it share. */
#ifndef FBY_LOADER_OUTPUTS_INTERNAL_H
#define FBY_LOADER_OUTPUTS_INTERNAL_H

#include "loader/internal.h"

#define FBY__VALUE_AXES (FBY_MAX_DIMS - 2) /* of a column, besides the batch axis and that of several columns */

/** What a column holds in one row. */
typedef struct fby__row_value {
    fby__panel_kind kind;
    uint32_t width;         /* DENSE: elements, the product of the axes; else 1 */
    uint32_t item_elements; /* RAGGED: numbers of one element of the list, the product of the axes; else 1 */
    int32_t n_axes;         /* 0 for scalars */
    int64_t axes[FBY__VALUE_AXES];
    fby_dtype dtype;
    bool text;
} fby__row_value;

/** One output, or one input of a made output, while it is being resolved. */
typedef struct fby__plan_output {
    const fby_output *spec;
    uint32_t *column;     /* owned: indices into in->columns */
    fby__row_value value; /* of every column */
    fby_dtype dtype, panel_dtype;
    fby__missing missing;
    fby__scalar *fill;    /* owned: of each column, what its nulls become */
    fby__scalar constant; /* FBY_FROM_LIT */
    fby__row_choice rows;
    uint64_t step, n_steps;
    fby__program *program;          /* owned: of the spec's operations; NULL = there is nothing to do once values are decoded */
    fby_dtype *stored;              /* owned: of each column */
    bool want_valid;                /* the panel keeps which values were there */
    fby__batch_output shape;        /* what comes out; its name is the spec's */
    struct fby__made_input *inputs; /* owned: of a made output, or of lists that are stacked, n_inputs */
    uint32_t n_inputs;
} fby__plan_output;

/** One column of a made output. */
typedef struct fby__made_input {
    fby_output spec; /* of that column alone */
    fby__plan_output plan;
    fby_op *ops; /* owned: of lists that are stacked; else NULL */
} fby__made_input;

/* outputs.c */
/** Room for what is known of each of n columns: `column`, `stored` and `fill`. */
fby_status fby__plan_output_columns(fby__plan_output *o, size_t n, fby_error *err);
fby_status fby__find_column(fby__loader_source *in, const char *path, const char *output, uint32_t *out, fby_error *err);
fby_status fby__classify_column(const fby__loader_source *in, const fby_output *spec, const fby__dataset_column *c, fby__row_value *out,
                                fby_error *err);
fby_status fby__choose_rows(const fby__loader_source *in, fby__plan_output *o, fby_error *err);
fby_status fby__compile_ops(const fby_output *spec, const fby__row_value *value, fby__program **out, fby_error *err);
/** Do operations compute, or do they only fill what is missing? */
bool fby__computes(const fby_output *spec);
/**
 * What nulls of each column become in the panel's dtype: what operations fill them with, else `otherwise`. FBY_E_ARG where that is no
 * value.
 */
fby_status fby__set_fills(fby__plan_output *o, double otherwise, fby_error *err);
/* notes.c */
/** Notes on outputs that are resolved. */
fby_status fby__loader_notes_make(fby__loader_source *in, const fby__plan_output *outputs, size_t n, fby_error *err);
/** A note on an optional output that no batch has although some file has its column, and why. */
fby_status fby__loader_note_optional(fby__loader_source *in, const char *name, const char *why, fby_error *err);
/** A note on columns that are no default outputs; none for n = 0. */
fby_status fby__loader_note_left_out(fby__loader_source *in, const fby_field *const *fields, size_t n, fby_error *err);
/* outputs_panels.c */
/** Which panel an output's values come from, an old one or a new one. */
fby_status fby__choose_panel(fby__loader_source *in, const fby__plan_output *o, fby__output_source *source, fby_error *err);
/* outputs_made.c */
/** An output with `make`: its columns, its maker, its shape. */
fby_status fby__resolve_made(fby__loader_source *in, fby__plan_output *o, fby__output_source *source, fby_error *err);
/** Where the inputs of an output come from. */
fby_status fby__choose_panels_made(fby__loader_source *in, const fby__plan_output *o, fby__output_source *source, fby_error *err);
/** Reshape and what is done after, for any output whose shape is known. */
fby_status fby__resolve_after(fby__loader_source *in, fby__plan_output *o, fby__output_source *source, fby_error *err);
/* outputs_lists.c */
/** Several list columns: each is an input. */
fby_status fby__resolve_lists(fby__plan_output *o, fby_error *err);
/** Can lists of arrays be outputs? Not those of HDF5. */
bool fby__lists_may_hold_arrays(const fby_dataset *ds);
/* outputs_default.c */
/** Every column that can be an output, under its own name. */
fby_status fby__default_outputs(fby__loader_source *in, fby_error *err);
/* outputs.c */
fby_status fby__resolve_outputs(fby__loader_source *in, const fby_output *specs, size_t n, fby_error *err);

#endif
