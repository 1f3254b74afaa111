/*
 * Made outputs: their columns become inputs, each with a panel of the dtype that the maker wants; and what is done to any output's
 * values in place.
 */
#include "loader/outputs_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"

#include <math.h>
#include <string.h>

#define MAX_INPUTS 256u
#define MAX_SAMPLE_BYTES ((uint64_t)1 << 31)

/* What is needed to ask for one column as if it were an output; as_stored: without its operations. */
static fby_status resolve_input(fby__loader_source *in, const fby_output *spec, size_t i, bool as_stored, fby__made_input *input,
                                fby__make_column *column, fby_error *err)
{
    const bool own = spec->column_ops && spec->n_column_ops;
    const size_t n_ops = own ? spec->n_column_ops[i] : spec->n_ops;
    input->spec = (fby_output){.name = spec->name,
                               .columns = spec->columns + i,
                               .n_columns = 1,
                               .ops = own ? spec->column_ops[i] : spec->ops,
                               .n_ops = as_stored ? 0 : n_ops};
    fby__plan_output *p = &input->plan;
    p->spec = &input->spec;
    FBY__TRY(fby__plan_output_columns(p, 1, err));
    FBY__TRY(fby__find_column(in, spec->columns[i], spec->name, &p->column[0], err));
    const fby__dataset_column *c = &in->columns[p->column[0]];
    FBY__TRY(fby__classify_column(in, spec, c, &p->value, err));
    if (p->value.item_elements > 1)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': column '%s' holds lists of arrays, which nothing is made of", spec->name,
                         spec->columns[i]);
    FBY__TRY(fby__compile_ops(&input->spec, &p->value, &p->program, err));
    p->stored[0] = p->value.dtype;
    if (input->spec.n_ops && p->value.kind == FBY__PANEL_BYTES)
        return fby__fail(err, FBY_E_ARG, "output '%s': column '%s' holds strings, which cannot be computed with", spec->name,
                         spec->columns[i]);
    *column = (fby__make_column){.name = spec->columns[i],
                                 .field = c->leaf,
                                 .kind = p->value.kind,
                                 .width = p->value.width,
                                 .n_axes = p->value.n_axes,
                                 .stored = p->value.dtype,
                                 .computed = fby__computes(&input->spec),
                                 .changed = input->spec.n_ops > 0,
                                 .nullable = c->leaf->nullable || c->field->nullable || c->leaf->kind == FBY_KIND_NULL};
    if (fby__leading_fills(input->spec.ops, input->spec.n_ops))
        column->nullable = false; /* nulls become a value */
    memcpy(column->axes, p->value.axes, sizeof p->value.axes);
    column->dtype = column->computed ? fby__program_dtype(p->program, 0, p->value.dtype, FBY_FLOAT32) : p->value.dtype;
    return FBY_OK;
}

/* What the maker wants of a column. */
static fby_status settle_input(fby__made_input *in, const fby__make_column *column, fby_error *err)
{
    fby__plan_output *p = &in->plan;
    p->dtype = p->panel_dtype = column->dtype;
    p->want_valid = column->want_valid;
    p->missing = FBY__MISSING_FILL;
    if (p->program && !column->computed && !(fby__dtype_is_float(column->dtype) && fby__dtype_is_float(column->stored))) {
        fby__program_destroy(p->program); /* it fills NaN, which there is none of */
        p->program = NULL;
    }
    if (p->value.kind == FBY__PANEL_BYTES)
        return FBY_OK;
    return fby__set_fills(p, fby__dtype_is_float(column->dtype) ? (double)NAN : 0, err);
}

/* A column that is an input already, once more: its values as they are stored. */
static fby_status add_stored(fby__loader_source *in, fby__plan_output *o, size_t i, fby_error *err)
{
    fby__make_column column = {0};
    fby__made_input *input = &o->inputs[o->n_inputs++];
    FBY__TRY(resolve_input(in, o->spec, i, true, input, &column, err));
    return settle_input(input, &column, err);
}

static uint32_t count_varying(const fby__plan_output *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_inputs; i++)
        n += o->inputs[i].plan.value.kind != FBY__PANEL_DENSE;
    return n;
}

/*
 * Strings and lists give the value of a sample's first row, and so does what is made of them; but for the key that other columns are
 * standardised by, and for the strings of a key that has numbers too: those are of every row. What is found by the groups' own key is the
 * same for all rows of a group: one value a sample, unless the layout asks for a row each.
 */
static bool is_found_by_groups(const fby__loader_source *in, const fby_output *spec)
{
    bool yes = spec->make->kind == FBY_MAKE_LOOKUP && spec->layout <= FBY_LAYOUT_DENSE && !spec->max_rows;
    for (size_t i = 0; yes && i < spec->n_columns; i++)
        yes = fby__samples_group_by(in->samples, spec->columns[i]);
    return yes;
}

static void use_first_row(const fby__loader_source *in, fby__plan_output *o)
{
    const fby_make_kind kind = o->spec->make->kind;
    const uint32_t n = count_varying(o);
    const bool of_text = n > 0 && kind != FBY_MAKE_STANDARDIZE && (kind != FBY_MAKE_LOOKUP || n == o->n_inputs);
    if (fby_samples_kind(in->samples) == FBY_SAMPLES_ROWS || (!of_text && !is_found_by_groups(in, o->spec)))
        return;
    o->rows = FBY__ROWS_ONE;
    o->step = 0;
    o->n_steps = 1;
}

static fby_status shape_of(fby__plan_output *o, const fby__made *made, fby_error *err)
{
    fby__batch_output *out = &o->shape;
    *out = (fby__batch_output){.name = (char *)(uintptr_t)o->spec->name, .dtype = made->dtype, .layout = FBY_LAYOUT_DENSE};
    if (!made->of_sample && o->rows == FBY__ROWS_ALL)
        out->layout = FBY_LAYOUT_RAGGED;
    if (!made->of_sample && o->rows == FBY__ROWS_STEPS)
        out->inner[out->ndim_inner++] = (int64_t)o->n_steps;
    if (out->ndim_inner + made->ndim > FBY_MAX_DIMS - 1)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a tensor of more than %d axes", o->spec->name, FBY_MAX_DIMS);
    uint64_t bytes = fby_dtype_bytes(made->dtype);
    for (int32_t d = 0; d < made->ndim; d++)
        out->inner[out->ndim_inner++] = made->shape[d];
    for (int32_t d = 0; d < out->ndim_inner; d++)
        if (!fby__mul_u64_checked(bytes, (uint64_t)out->inner[d], &bytes) || bytes > MAX_SAMPLE_BYTES)
            return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a sample's value of more than %llu bytes", o->spec->name,
                             (unsigned long long)MAX_SAMPLE_BYTES);
    return FBY_OK;
}

fby_status fby__resolve_made(fby__loader_source *in, fby__plan_output *o, fby__output_source *source, fby_error *err)
{
    fby_loader *l = in->loader;
    const fby_output *spec = o->spec;
    if (spec->from != FBY_FROM_COLUMNS)
        return fby__fail(err, FBY_E_ARG, "output '%s': what is made is made of columns", spec->name);
    if (spec->n_columns > MAX_INPUTS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': %zu columns to make one value of; at most %u are possible", spec->name,
                         spec->n_columns, MAX_INPUTS);
    fby__make_column *columns = fby__calloc(spec->n_columns + 1, sizeof *columns);
    fby__made made = {0};
    fby_status status = FBY_OK;
    o->inputs = fby__calloc(2 * spec->n_columns + 1, sizeof *o->inputs);
    if (!columns || !o->inputs)
        status = fby__fail_nomem(err, "an output");
    for (size_t i = 0; status == FBY_OK && i < spec->n_columns; i++) {
        o->n_inputs = (uint32_t)i + 1;
        status = resolve_input(in, spec, i, false, &o->inputs[i], &columns[i], err);
    }
    if (status == FBY_OK)
        status = fby__choose_rows(in, o, err);
    if (status == FBY_OK) {
        use_first_row(in, o);
        fby__make_spec make = {.output = spec->name,
                               .make = spec->make,
                               .dtype = spec->dtype,
                               .keep_axis = spec->keep_axis,
                               .columns = columns,
                               .n_columns = (uint32_t)spec->n_columns,
                               .samples = fby_samples_kind(in->samples),
                               .n_rows = o->rows == FBY__ROWS_ALL ? 0 : o->n_steps,
                               .max_rows = o->rows == FBY__ROWS_ALL ? fby_samples_max_rows(in->samples) : o->n_steps,
                               .seed = fby__source_seed(in)};
        status = fby__maker_create(&make, &source->maker, &made, err);
    }
    for (uint32_t i = 0; status == FBY_OK && i < o->n_inputs; i++)
        status = settle_input(&o->inputs[i], &columns[i], err);
    for (size_t i = 0; status == FBY_OK && i < spec->n_columns; i++)
        status = columns[i].want_stored ? add_stored(in, o, i, err) : FBY_OK;
    fby__free(columns);
    if (status != FBY_OK)
        return status;
    source->of_sample = made.of_sample;
    l->outputs.made_bytes += made.memory_bytes;
    l->outputs.made_scratch_bytes = fby__max_u64(l->outputs.made_scratch_bytes, made.scratch_bytes);
    l->outputs.max_inputs = o->n_inputs > l->outputs.max_inputs ? o->n_inputs : l->outputs.max_inputs;
    return shape_of(o, &made, err);
}

fby_status fby__choose_panels_made(fby__loader_source *in, const fby__plan_output *o, fby__output_source *source, fby_error *err)
{
    source->rows = o->rows;
    source->step = o->step;
    source->n_steps = o->n_steps;
    source->inputs = fby__calloc(o->n_inputs + 1, sizeof *source->inputs);
    if (!source->inputs)
        return fby__fail_nomem(err, "an output");
    source->n_inputs = o->n_inputs;
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        fby__plan_output *p = &o->inputs[i].plan;
        bool varies = p->value.kind != FBY__PANEL_DENSE;
        p->rows = varies ? FBY__ROWS_ONE : o->rows;
        p->step = varies ? 0 : o->step;
        p->n_steps = varies ? 1 : o->n_steps;
        FBY__TRY(fby__choose_panel(in, p, &source->inputs[i], err));
    }
    if (!o->spec->make) { /* lists, stacked: all are as long as the first */
        source->panel = source->inputs[0].panel;
        source->panel_dtype = source->inputs[0].panel_dtype;
        source->row_elements = source->inputs[0].row_elements;
        source->item_elements = source->inputs[0].item_elements;
    }
    return FBY_OK;
}

/* ---- reshape, and what is done after ---- */

static uint64_t product(const int64_t *axes, int64_t n)
{
    uint64_t total = 1;
    for (int64_t d = 0; d < n; d++)
        total *= (uint64_t)axes[d];
    return total;
}

/* The axes of one row's value (the steps of a window come before them) become others. */
static fby_status reshape(fby__plan_output *o, const fby__output_source *source, fby_error *err)
{
    const fby_output *spec = o->spec;
    fby__batch_output *out = &o->shape;
    int32_t before = o->rows == FBY__ROWS_STEPS && !source->of_sample;
    uint64_t have = product(out->inner + before, out->ndim_inner - before), want = 1;
    int64_t axes[FBY_MAX_DIMS], free_axis = -1;
    if (spec->n_reshape > (size_t)(FBY_MAX_DIMS - 1 - before) || out->bytes)
        return fby__fail(err, FBY_E_ARG, "output '%s': it cannot be reshaped to %zu axes", spec->name, spec->n_reshape);
    for (size_t d = 0; d < spec->n_reshape; d++) {
        axes[d] = spec->reshape[d];
        if (axes[d] == -1 && free_axis < 0)
            free_axis = (int64_t)d;
        else if (axes[d] < 0 || !fby__mul_u64_checked(want, (uint64_t)axes[d], &want))
            return fby__fail(err, FBY_E_ARG, "output '%s': %lld is no axis of a reshape", spec->name, (long long)axes[d]);
    }
    if (free_axis >= 0)
        axes[free_axis] = want ? (int64_t)(have / want) : 0;
    if (product(axes, (int64_t)spec->n_reshape) != have)
        return fby__fail(err, FBY_E_ARG, "output '%s': %llu values cannot be reshaped to axes whose product is %llu", spec->name,
                         (unsigned long long)have, (unsigned long long)product(axes, (int64_t)spec->n_reshape));
    out->ndim_inner = before + (int32_t)spec->n_reshape;
    memcpy(out->inner + before, axes, spec->n_reshape * sizeof *axes);
    return FBY_OK;
}

fby_status fby__resolve_after(fby__loader_source *in, fby__plan_output *o, fby__output_source *source, fby_error *err)
{
    fby_loader *l = in->loader;
    const fby_output *spec = o->spec;
    fby__batch_output *out = &o->shape;
    if (spec->n_reshape)
        FBY__TRY(reshape(o, source, err));
    if (spec->n_after == 0)
        return FBY_OK;
    for (size_t i = 0; spec->after && i < spec->n_after; i++)
        for (size_t k = 0; spec->after[i].kind == FBY_AFTER_FORWARD_FILL && k < spec->n_ops; k++)
            if (spec->ops[k].kind == FBY_OP_FILL_MISSING || spec->ops[k].kind == FBY_OP_FILL_NAN)
                return fby__fail(err, FBY_E_ARG,
                                 "output '%s': forward_fill comes after every operation, and fill_%s leaves it nothing to fill: leave one "
                                 "of them out",
                                 spec->name, spec->ops[k].kind == FBY_OP_FILL_NAN ? "nan" : "missing");
    if (out->layout != FBY_LAYOUT_DENSE)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': samples differ in length, and operations in place need one shape for all",
                         spec->name);
    fby__made made = {.of_sample = true, .dtype = out->dtype, .ndim = out->ndim_inner};
    memcpy(made.shape, out->inner, (size_t)out->ndim_inner * sizeof *out->inner);
    FBY__TRY(fby__afters_create(spec->after, spec->n_after, spec->name, &made, fby__source_seed(in), &source->afters, err));
    out->ndim_inner = made.ndim;
    memcpy(out->inner, made.shape, (size_t)made.ndim * sizeof *made.shape);
    l->outputs.made_scratch_bytes = fby__max_u64(l->outputs.made_scratch_bytes, made.scratch_bytes);
    l->outputs.needs_ids = true;
    return FBY_OK;
}

void fby__output_source_fini(fby__output_source *s)
{
    fby__maker_destroy(s->maker);
    fby__afters_destroy(s->afters);
    fby__free(s->inputs);
}
