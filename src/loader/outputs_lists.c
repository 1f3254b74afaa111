/*
 * Several list columns as one output: the elements of a row side by side, (ΣL, n). Each column has a panel of its own, all of one dtype;
 * they are woven together when the batch is built (assemble_rows.c), where a row whose lists differ in length is an error.
 */
#include "loader/outputs_internal.h"

#include "base/alloc.h"

#include <string.h>

bool fby__lists_may_hold_arrays(const fby_dataset *ds)
{
    for (uint32_t i = 0; i < fby__dataset_file_count(ds); i++) {
        fby_file_info info = {.size = sizeof info};
        if (fby_dataset_file(ds, i, &info, NULL) != FBY_OK || strcmp(info.format, "hdf5") == 0)
            return false;
    }
    return true;
}

/* The column's own share of the operations. */
static fby_status copy_ops(const fby_output *spec, size_t i, fby__made_input *in, fby_error *err)
{
    if (spec->n_ops == 0)
        return FBY_OK;
    if (!(in->ops = fby__calloc(spec->n_ops, sizeof *in->ops)))
        return fby__fail_nomem(err, "an output");
    for (size_t k = 0; k < spec->n_ops; k++) {
        in->ops[k] = spec->ops[k]; /* no axis: lists have none to count from the end */
        in->ops[k].a_each = spec->ops[k].a_each ? spec->ops[k].a_each + i : NULL;
        in->ops[k].b_each = spec->ops[k].b_each ? spec->ops[k].b_each + i : NULL;
    }
    in->spec.ops = in->ops;
    in->spec.n_ops = spec->n_ops;
    return FBY_OK;
}

fby_status fby__resolve_lists(fby__plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (!(o->inputs = fby__calloc(spec->n_columns, sizeof *o->inputs)))
        return fby__fail_nomem(err, "an output");
    for (size_t i = 0; i < spec->n_columns; i++) {
        fby__made_input *in = &o->inputs[o->n_inputs++];
        fby__plan_output *p = &in->plan;
        in->spec = (fby_output){.name = spec->name, .columns = spec->columns + i, .n_columns = 1};
        p->spec = &in->spec;
        FBY__TRY(fby__plan_output_columns(p, 1, err));
        FBY__TRY(copy_ops(spec, i, in, err));
        p->column[0] = o->column[i];
        p->stored[0] = o->stored[i];
        p->fill[0] = o->fill[i];
        p->value = o->value;
        p->dtype = o->dtype;
        p->panel_dtype = o->panel_dtype;
        p->missing = o->missing;
        if (o->program)
            FBY__TRY(fby__compile_ops(&in->spec, &p->value, &p->program, err));
    }
    return FBY_OK;
}
