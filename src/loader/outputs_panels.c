/*
 * Which panel an output's values come from.
 *
 * Where samples have several rows, an output that is a panel's whole row is one run of bytes however many rows it takes. So outputs share
 * a panel then only when they take all or most of its columns, or few rows.
 */
#include "loader/outputs_internal.h"

#include "base/alloc.h"
#include "base/dtype.h"

#include <string.h>

#define FEW_STEPS 16u /* so many steps of a wider row cost less than decoding the columns once more */

/* Are n of a panel's columns, for these rows of a sample, worth another panel of their own? */
static bool is_cheap(const fby__read_panel *p, const fby__plan_output *o)
{
    return 2 * o->spec->n_columns >= p->layout.n_columns || (o->rows != FBY__ROWS_ALL && o->n_steps <= FEW_STEPS);
}

/* Do columns [at, at + n) of a panel serve the output? */
static bool serves(const fby__read_panel *p, uint32_t at, const fby__plan_output *o)
{
    const bool is_mask = fby_source_is_mask(o->spec->from);
    if (!is_mask && (!is_cheap(p, o) || !fby__program_same(p->program, at, o->program)))
        return false;
    for (size_t i = 0; i < o->spec->n_columns; i++) {
        if (p->column[at + i] != o->column[i])
            return false;
        if (is_mask && (!fby__dtype_is_float(o->stored[i]) || fby__dtype_is_float(p->layout.dtype)))
            continue; /* it knows which were there */
        if (is_mask)
            return false; /* where a NaN was is lost */
        const fby__panel_column *c = &p->layout.columns[at + i];
        const bool refused = c->missing == FBY__MISSING_ERROR || o->missing == FBY__MISSING_ERROR;
        if (!refused && memcmp(&c->fill, &o->fill[i], sizeof c->fill) != 0)
            return false;
    }
    return true;
}

/* Where one output of a batch refuses missing values, no other is delivered with them either, whatever it would put in their place. */
static void refuse_missing(fby__read_panel *p, uint32_t at, uint32_t n)
{
    for (uint32_t i = at; i < at + n; i++)
        p->layout.columns[i].missing = FBY__MISSING_ERROR;
}

static fby_status add_panel(fby__loader_source *in, const fby__plan_output *o, fby_error *err)
{
    fby__read_panel *grown = fby__realloc_array(in->panels, in->n_panels + 1, sizeof *grown);
    if (!grown)
        return fby__fail_nomem(err, "the panels");
    in->panels = grown;
    fby__read_panel *p = &in->panels[in->n_panels];
    *p = (fby__read_panel){.variable = UINT32_MAX, .first_only = fby_samples_kind(in->samples) != FBY_SAMPLES_ROWS};
    uint32_t n = (uint32_t)o->spec->n_columns;
    p->column = fby__calloc(n, sizeof *p->column);
    p->layout = (fby__panel_layout){.kind = o->value.kind, .dtype = o->panel_dtype, .n_columns = n, .width = n * o->value.width};
    p->layout.columns = fby__calloc(n, sizeof *p->layout.columns);
    in->n_panels++; /* from here on the destructor knows it */
    if (!p->column || !p->layout.columns)
        return fby__fail_nomem(err, "the panels");
    for (uint32_t i = 0; i < n; i++) {
        p->column[i] = o->column[i];
        p->layout.columns[i] = (fby__panel_column){.path = in->columns[o->column[i]].path,
                                                   .offset = i * o->value.width,
                                                   .width = o->value.width,
                                                   .missing = o->missing,
                                                   .fill = o->fill[i]};
    }
    if (o->value.kind != FBY__PANEL_DENSE)
        p->variable = in->n_variable++;
    return o->program ? fby__compile_ops(o->spec, &o->value, &p->program, err) : FBY_OK;
}

fby_status fby__choose_panel(fby__loader_source *in, const fby__plan_output *o, fby__output_source *source, fby_error *err)
{
    source->from = o->spec->from;
    source->rows = o->rows;
    source->step = o->step;
    source->n_steps = o->n_steps;
    source->constant = o->constant;
    if (o->spec->from >= FBY_FROM_SAMPLE_INDEX) /* no columns */
        return FBY_OK;
    uint32_t n = (uint32_t)o->spec->n_columns, found = UINT32_MAX, at = 0;
    for (uint32_t i = 0; i < in->n_panels && found == UINT32_MAX; i++) {
        const fby__read_panel *p = &in->panels[i];
        if (p->layout.kind != o->value.kind || (p->layout.dtype != o->panel_dtype && !fby_source_is_mask(o->spec->from)))
            continue;
        for (at = 0; at + n <= p->layout.n_columns; at++)
            if (serves(p, at, o)) {
                found = i;
                break;
            }
    }
    if (found == UINT32_MAX) {
        FBY__TRY(add_panel(in, o, err));
        found = in->n_panels - 1;
        at = 0;
    }
    fby__read_panel *p = &in->panels[found];
    if (o->missing == FBY__MISSING_ERROR && !fby_source_is_mask(o->spec->from))
        refuse_missing(p, at, n);
    p->first_only &= o->rows == FBY__ROWS_ONE && o->step == 0;
    source->panel = found;
    source->want_valid = o->want_valid;
    source->panel_dtype = p->layout.dtype;
    source->first_column = at;
    source->n_columns = n;
    source->row_elements = (size_t)n * o->value.width;
    source->item_elements = o->value.item_elements ? o->value.item_elements : 1;
    source->whole_rows = n == p->layout.n_columns;
    source->offset = (size_t)p->layout.columns[at].offset * fby_dtype_bytes(p->layout.dtype);
    if (fby_source_is_mask(o->spec->from) || o->want_valid)
        p->layout.want_valid = true;
    if (o->spec->from == FBY_FROM_IS_MISSING && p->layout.kind == FBY__PANEL_DENSE && fby__dtype_is_float(p->layout.dtype))
        p->layout.marks_nan = true;
    return FBY_OK;
}
