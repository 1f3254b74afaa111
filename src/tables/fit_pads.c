/* See fit_pads.h. */
#include "tables/fit_pads.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "block/panel.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The pad as a column stores it: -999.1 of float32 is another number. NaN, which nothing equals, where it cannot be stored. */
static double stored_pad(fby_dtype dtype, double pad)
{
    fby__scalar value;
    double back = (double)NAN;
    size_t bad;
    if (!fby__scalar_set(dtype, pad, &value) || (!fby__dtype_is_float(dtype) && pad != trunc(pad)))
        return (double)NAN;
    (void)fby__convert(FBY_FLOAT64, &back, dtype, value.bytes, 1, FBY__SCALE_NONE, &bad);
    return back;
}

static fby_status check_count(fby_dataset *ds, const fby_fit_opts *o, fby_error *err)
{
    fby__dataset_column column;
    char type[80];
    FBY__TRY(fby__dataset_resolve(ds, o->count, &column, err));
    (void)fby_field_type_text(column.field, type, sizeof type); /* a cut type is still a type */
    if (column.field->kind != FBY_KIND_INT)
        return fby__fail(err, FBY_E_ARG, "count '%s' is %s: a whole number a row is expected", o->count, type);
    for (size_t i = 0; i < o->n_columns; i++) {
        FBY__TRY(fby__dataset_resolve(ds, o->columns[i], &column, err));
        (void)fby_field_type_text(column.field, type, sizeof type);
        if (column.field->kind != FBY_KIND_FIXED_LIST)
            return fby__fail(err, FBY_E_ARG, "count says how many places of an array hold values, and column '%s' is %s: fit it by itself",
                             o->columns[i], type);
    }
    return FBY_OK;
}

fby_status fby__pads_init(fby__pads *p, fby_dataset *ds, const fby_fit_opts *o, fby_error *err)
{
    *p = (fby__pads){.ds = ds, .opts = o, .wants_stored = o->has_pad && o->n_ops > 0};
    if (!o->has_pad && !o->count)
        return FBY_OK;
    p->pad = fby__calloc(o->n_columns, sizeof *p->pad);
    p->names = fby__calloc(o->n_columns + 1, sizeof *p->names);
    p->tensors = fby__calloc(2 * o->n_columns, sizeof *p->tensors);
    if (!p->pad || !p->names || !p->tensors)
        return fby__fail_nomem(err, "the moments");
    for (size_t i = 0; i <= o->n_columns; i++) /* no column is called so */
        (void)snprintf(p->names[i], sizeof p->names[i], "\n%zu", i);
    for (size_t i = 0; o->has_pad && i < o->n_columns; i++) {
        fby__dataset_column column;
        FBY__TRY(fby__dataset_resolve(ds, o->columns[i], &column, err));
        p->pad[i] = column.leaf->dtype ? stored_pad(column.leaf->dtype, o->pad) : o->pad;
    }
    return o->count ? check_count(ds, o, err) : FBY_OK;
}

void fby__pads_fini(fby__pads *p)
{
    fby__free(p->pad);
    fby__free(p->names);
    fby__free(p->tensors);
}

size_t fby__pads_outputs(const fby__pads *p, fby_output *outputs)
{
    const fby_fit_opts *o = p->opts;
    size_t n = 0;
    for (; p->wants_stored && n < o->n_columns; n++)
        outputs[n] = (fby_output){.name = p->names[n], .columns = &o->columns[n], .n_columns = 1, .dtype = FBY_FLOAT64};
    if (o->count)
        outputs[n++] = (fby_output){.name = p->names[o->n_columns], .columns = &o->count, .n_columns = 1, .dtype = FBY_INT64};
    return n;
}

static void leave_pads(double *values, const double *stored, size_t n, double pad)
{
    for (size_t i = 0; i < n; i++)
        values[i] = stored[i] == pad ? (double)NAN : values[i];
}

static fby_status leave_beyond(const fby__pads *p, const fby_tensor *t, const int64_t *count, uint64_t first_row, fby_error *err)
{
    double *at = t->data;
    const size_t places = (size_t)t->shape[1];
    size_t each = 1;
    for (int32_t d = 2; d < t->ndim; d++)
        each *= (size_t)t->shape[d];
    for (int64_t r = 0; r < t->shape[0]; r++, at += places * each) {
        const bool is_beyond = count[r] > 0 && (uint64_t)count[r] > places;
        if (count[r] < 0 || (is_beyond && !p->opts->clip_count)) {
            const fby__file_row in = fby__dataset_file_row(p->ds, first_row + (uint64_t)r);
            return fby__fail(err, FBY_E_DATA, "%s: row %llu of the %s: a count of %" PRId64 " ('%s'), and column '%s' has %zu places%s",
                             in.path, in.row, in.of, count[r], p->opts->count, t->output, places,
                             is_beyond ? "; with clip_count it means all of them" : "");
        }
        for (size_t i = is_beyond ? places * each : (size_t)count[r] * each; i < places * each; i++)
            at[i] = (double)NAN;
    }
    return FBY_OK;
}

fby_status fby__pads_leave_out(fby__pads *p, const fby_batch *batch, size_t first_tensor, uint64_t first_row, fby_error *err)
{
    const size_t n = p->opts->n_columns;
    size_t at = first_tensor;
    if (!p->tensors)
        return FBY_OK;
    for (size_t k = 0; k < (p->wants_stored ? 2 : 1) * n; k++) {
        const fby_tensor *t = p->tensors[k] = fby_batch_tensor(batch, at++), *next = fby_batch_tensor(batch, at);
        at += next && next->output == t->output; /* a list column's offsets */
    }
    for (size_t k = 0; p->opts->has_pad && k < n; k++)
        leave_pads(p->tensors[k]->data, p->tensors[k + (p->wants_stored ? n : 0)]->data, p->tensors[k]->bytes / sizeof(double), p->pad[k]);
    for (size_t k = 0; p->opts->count && k < n; k++)
        FBY__TRY(leave_beyond(p, p->tensors[k], fby_batch_tensor(batch, at)->data, first_row, err));
    return FBY_OK;
}
