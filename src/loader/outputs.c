/*
 * What the user asked for → panels to decode and copies to make.
 *
 * Every output gets its rows from one panel. Outputs whose columns are a contiguous run of a panel's columns share it, so
 * wide outputs choose first. A panel has the output's dtype, except where the file's own dtype is narrower and widening
 * cannot fail: then the narrow values are kept and widened at assembly (half the memory for float16). Row operations are part of a panel:
 * outputs share it only when they do the same to its columns.
 *
 * Where samples have several rows, an output that is a panel's whole row is one run of bytes however many rows it takes. So outputs share
 * a panel then only when they take all or most of its columns, or few rows.
 */
#include "loader/outputs_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "block/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SAMPLE_BYTES ((uint64_t)1 << 31)

/* ---- columns ---- */

/* Is `leaf` below `field`, and how many lists and maps lie on the way? -1 = not below. */
static int repeats_to(const fby_field *field, const fby_field *leaf)
{
    if (field == leaf)
        return 0;
    for (uint32_t i = 0; i < field->n_children; i++) {
        int below = repeats_to(&field->children[i], leaf);
        if (below >= 0)
            return below + (field->kind == FBY_KIND_LIST || field->kind == FBY_KIND_MAP);
    }
    return -1;
}

fby_status fby__plan_output_columns(fby__plan_output *o, size_t n, fby_error *err)
{
    o->column = fby__calloc(n, sizeof *o->column);
    o->stored = fby__calloc(n, sizeof *o->stored);
    o->fill = fby__calloc(n, sizeof *o->fill);
    return o->column && o->stored && o->fill ? FBY_OK : fby__fail_nomem(err, "an output");
}

fby_status fby__find_column(fby__loader_source *in, const char *path, const char *output, uint32_t *out, fby_error *err)
{
    fby__dataset_column column;
    fby_status status = fby__dataset_resolve(in->ds, path, &column, err);
    if (status != FBY_OK) {
        fby__error_context(err, "output '%s'", output);
        return status;
    }
    for (uint32_t i = 0; i < in->n_columns; i++)
        if (in->columns[i].id == column.id) {
            *out = i;
            return FBY_OK;
        }
    fby__dataset_column *grown = fby__realloc_array(in->columns, in->n_columns + 1, sizeof *grown);
    if (!grown)
        return fby__fail_nomem(err, "the columns");
    in->columns = grown;
    in->columns[in->n_columns] = column;
    *out = in->n_columns++;
    return FBY_OK;
}

/* The field below `field` on the way to `leaf`. */
static const fby_field *step_to(const fby_field *field, const fby_field *leaf)
{
    uint32_t i = 0;
    while (i + 1 < field->n_children && repeats_to(&field->children[i], leaf) < 0)
        i++;
    return &field->children[i];
}

/* A struct's fields as a hint: "name one of its fields: a.x, a.y". */
static fby_status not_a_tensor(const fby_output *spec, const fby_field *field, const fby_field *leaf, fby_error *err)
{
    char type[160];
    (void)fby_field_type_text(field, type, sizeof type);
    if (field->kind == FBY_KIND_STRUCT && field->n_children)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': column '%s' is a %s; name one of its fields, such as '%s'", spec->name,
                         field->path, type, field->children[0].path);
    bool inside = strcmp(leaf->path, field->path) != 0; /* of a map, or of structs in a list */
    return fby__fail(err, FBY_E_UNSUPPORTED,
                     "output '%s': column '%s'%s%s%s of type %s cannot be a tensor; numbers, bools, times, strings and lists of "
                     "numbers can. Read it through Arrow instead",
                     spec->name, leaf->path, inside ? ", part of '" : "", inside ? field->path : "", inside ? "'" : "", type);
}

static bool add_axis(fby__row_value *c, int64_t n)
{
    if (c->n_axes == FBY__VALUE_AXES || n < 0 || (uint64_t)n * c->width > UINT32_MAX / 16)
        return false;
    c->axes[c->n_axes++] = n;
    c->width *= (uint32_t)n;
    return true;
}

fby_status fby__classify_column(const fby__loader_source *in, const fby_output *spec, const fby__dataset_column *c, fby__row_value *out,
                                fby_error *err)
{
    const fby_field *leaf = c->leaf;
    int repeats = repeats_to(fby_dataset_schema(in->ds), leaf);
    *out = (fby__row_value){
        .kind = repeats == 1 ? FBY__PANEL_RAGGED : FBY__PANEL_DENSE, .width = 1, .item_elements = 1, .dtype = fby__leaf_dtype(leaf)};
    if (repeats > 1 || leaf->n_children || out->dtype == FBY_DTYPE_NONE)
        return not_a_tensor(spec, c->field, leaf, err);
    bool fits = true, in_list = false;
    for (const fby_field *at = c->field; at != leaf; at = step_to(at, leaf)) { /* through structs: arrays of compounds */
        in_list |= at->kind == FBY_KIND_LIST;
        if (at->kind == FBY_KIND_FIXED_LIST)
            fits &= add_axis(out, at->list_size) && (repeats == 0 || in_list); /* arrays in a list, no lists in an array */
    }
    bool is_array = out->n_axes > 0;
    out->text = leaf->kind == FBY_KIND_STRING;
    if (leaf->kind == FBY_KIND_FIXED_BINARY)
        fits &= !is_array && add_axis(out, leaf->byte_width);
    else if (out->text || leaf->kind == FBY_KIND_BINARY)
        out->kind = FBY__PANEL_BYTES;
    if (!fits || (out->kind == FBY__PANEL_BYTES && (out->n_axes || repeats == 1)) ||
        (out->kind == FBY__PANEL_RAGGED && is_array && !fby__lists_may_hold_arrays(in->ds)))
        return not_a_tensor(spec, c->field, leaf, err);
    if (out->kind == FBY__PANEL_RAGGED) {
        out->item_elements = out->width;
        out->width = 1; /* panels hold the numbers of lists one after the other, whatever their shape */
    }
    return FBY_OK;
}

static bool same_shape(const fby__row_value *a, const fby__row_value *b)
{
    return a->n_axes == b->n_axes && memcmp(a->axes, b->axes, (size_t)a->n_axes * sizeof *a->axes) == 0;
}

/* ---- dtypes and missing values ---- */

/* Narrower, and every value has a counterpart: such values may stay narrow until assembly. */
static bool widens(fby_dtype from, fby_dtype to)
{
    if (fby_dtype_bytes(from) >= fby_dtype_bytes(to) || to == FBY_BOOL)
        return false;
    if (fby__dtype_is_float(to))
        return true;
    return fby__dtype_is_float(from)                          ? false
           : from == FBY_BOOL || fby__dtype_is_unsigned(from) ? true
                                                              : fby__dtype_is_signed(from) && fby__dtype_is_signed(to);
}

bool fby__computes(const fby_output *spec) { return spec->n_ops > fby__leading_fills(spec->ops, spec->n_ops); }

fby_status fby__set_fills(fby__plan_output *o, double otherwise, fby_error *err)
{
    const fby_output *spec = o->spec;
    for (uint32_t i = 0; i < spec->n_columns; i++) {
        double fill = otherwise;
        const bool given = fby__null_fill(spec->ops, spec->n_ops, i, &fill);
        const bool fits =
            fby__scalar_set(o->panel_dtype, fill, &o->fill[i]) && (fby__dtype_is_float(o->panel_dtype) || fill == trunc(fill));
        if (given && !fits)
            return fby__fail(err, FBY_E_ARG, "output '%s': the fill value %g is not a value of %s", spec->name, fill,
                             fby_dtype_name(o->panel_dtype));
    }
    return FBY_OK;
}

/* Operations give floats. Values wait for them in a dtype that costs no digits. */
static fby_status choose_computed(fby__plan_output *o, fby_dtype own, bool agree, fby_error *err)
{
    const fby_output *spec = o->spec;
    o->dtype = spec->dtype != FBY_DTYPE_NONE ? spec->dtype : agree && fby__dtype_is_float(own) ? own : FBY_FLOAT32;
    if (!fby__dtype_is_float(o->dtype))
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': operations give floating-point values, not %s: ask for float32 or another float dtype", spec->name,
                         fby_dtype_name(o->dtype));
    o->panel_dtype = FBY_DTYPE_NONE;
    for (uint32_t i = 0; i < spec->n_columns; i++) {
        fby_dtype dtype = fby__program_dtype(o->program, i, o->stored[i], o->dtype);
        if (fby_dtype_bytes(dtype) > fby_dtype_bytes(o->panel_dtype))
            o->panel_dtype = dtype;
    }
    o->missing = FBY__MISSING_FILL;
    return fby__set_fills(o, (double)NAN, err);
}

/* NaN is filled before floats become integers: all columns wait as floats, which must hold every value of each. */
static fby_status choose_filled(fby__plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    uint32_t wide = UINT32_MAX;
    o->panel_dtype = FBY_FLOAT32;
    for (uint32_t i = 0; i < spec->n_columns; i++) {
        if (fby_dtype_bytes(o->stored[i]) == 8 && !fby__dtype_is_float(o->stored[i]))
            wide = i;
        if (fby_dtype_bytes(o->stored[i]) >= 4 && o->stored[i] != FBY_FLOAT32)
            o->panel_dtype = FBY_FLOAT64;
    }
    if (wide != UINT32_MAX)
        return fby__fail(
            err, FBY_E_ARG,
            "output '%s': columns of floats that are filled and '%s' of %s cannot be stacked as %s: no float holds all of its values. "
            "Give it an output of its own",
            spec->name, spec->columns[wide], fby_dtype_name(o->stored[wide]), fby_dtype_name(o->dtype));
    return FBY_OK;
}

/* What a fill becomes in a narrow float that is widened later may be seen: 0.1 as float16. */
static bool fills_survive(const fby__plan_output *o)
{
    for (uint32_t i = 0; i < o->spec->n_columns; i++)
        for (size_t k = 0; k < o->spec->n_ops; k++) {
            const fby_op *op = &o->spec->ops[k];
            const double fill = op->a_each ? op->a_each[i] : op->a;
            fby__scalar narrow, wide = {0};
            size_t bad;
            if (!fby__scalar_set(o->panel_dtype, fill, &narrow))
                return false;
            (void)fby__convert(FBY_FLOAT64, wide.bytes, o->panel_dtype, narrow.bytes, 1, FBY__SCALE_NONE, &bad);
            if (wide.f64 != fill && fill == fill)
                return false;
        }
    return true;
}

static fby_status choose_dtypes(const fby__loader_source *in, fby__plan_output *o, fby_dtype own, bool agree, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (o->value.kind == FBY__PANEL_BYTES) {
        if (spec->n_ops)
            return fby__fail(err, FBY_E_ARG, "output '%s': column '%s' holds strings, which cannot be computed with", spec->name,
                             spec->columns[0]);
        if (spec->dtype != FBY_DTYPE_NONE && spec->dtype != FBY_UINT8)
            return fby__fail(err, FBY_E_ARG, "output '%s': strings are delivered as bytes (uint8), not as %s", spec->name,
                             fby_dtype_name(spec->dtype));
        o->dtype = o->panel_dtype = FBY_UINT8;
        o->missing = FBY__MISSING_FILL; /* a missing string is empty, as a missing list is; a mask tells them apart */
        return FBY_OK;
    }
    if (fby__computes(spec))
        return choose_computed(o, own, agree, err);
    o->dtype = spec->dtype != FBY_DTYPE_NONE ? spec->dtype : agree ? own : FBY_FLOAT32;
    bool nullable = false, floats = false, fills = spec->n_ops > 0;
    for (size_t i = 0; i < spec->n_columns; i++) {
        const fby__dataset_column *c = &in->columns[o->column[i]];
        nullable |= c->leaf->nullable || c->field->nullable || c->leaf->kind == FBY_KIND_NULL;
        floats |= fby__dtype_is_float(o->stored[i]);
    }
    o->panel_dtype = agree && widens(own, o->dtype) && (fby__dtype_is_float(own) || !nullable) ? own : o->dtype;
    if (fills && o->panel_dtype != o->dtype && !fills_survive(o))
        o->panel_dtype = o->dtype;
    if (o->program && floats && !fby__dtype_is_float(o->panel_dtype))
        FBY__TRY(choose_filled(o, err));
    if (o->program && !floats) {
        fby__program_destroy(o->program); /* nothing but floats has NaN */
        o->program = NULL;
    }
    /* A column that cannot be null needs no stand-in: narrow integers without one stay narrow. */
    o->missing = fills || fby__dtype_is_float(o->panel_dtype) ? FBY__MISSING_FILL : FBY__MISSING_ERROR;
    return fby__set_fills(o, (double)NAN, err);
}

/* ---- which rows of a sample ---- */

fby_status fby__choose_rows(const fby__loader_source *in, fby__plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    fby_sample_kind kind = fby_samples_kind(in->samples);
    uint64_t length = fby_samples_max_rows(in->samples), begin = spec->step_begin, end = spec->step_end;
    o->rows = kind == FBY_SAMPLES_ROWS || spec->one_step ? FBY__ROWS_ONE : kind == FBY_SAMPLES_WINDOWS ? FBY__ROWS_STEPS : FBY__ROWS_ALL;
    o->step = begin;
    o->n_steps = o->rows == FBY__ROWS_STEPS ? (end ? end : length) - begin : 1;
    if (kind != FBY_SAMPLES_WINDOWS && (begin || end))
        return fby__fail(err, FBY_E_ARG, "output '%s': steps are rows of a window, and these samples are %s", spec->name,
                         kind == FBY_SAMPLES_ROWS ? "rows" : "groups");
    bool fits = spec->one_step ? end == 0 && begin < length : end <= length && begin < (end ? end : length);
    if (!fits)
        return fby__fail(err, FBY_E_ARG, "output '%s': there are no steps %llu to %llu in a window of %llu", spec->name,
                         (unsigned long long)begin, (unsigned long long)(spec->one_step ? begin + 1 : end), (unsigned long long)length);
    return FBY_OK;
}

/* Do the columns' values fit the rows that are taken? */
static fby_status check_rows(const fby__plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    uint64_t row_bytes = (uint64_t)o->value.width * spec->n_columns * 8, sample_bytes;
    if (o->value.kind != FBY__PANEL_DENSE && (o->rows != FBY__ROWS_ONE || o->step > 0))
        return fby__fail(err, FBY_E_UNSUPPORTED,
                         "output '%s': column '%s' varies in length from row to row, and a sample has several "
                         "rows: only the value of its first row can be taken, .first() (of a pipeline file: first: true)",
                         spec->name, spec->columns[0]);
    if (!fby__mul_u64_checked(row_bytes, o->n_steps, &sample_bytes) || sample_bytes > MAX_SAMPLE_BYTES)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': %llu values a sample are too many", spec->name,
                         (unsigned long long)(row_bytes / 8 * o->n_steps));
    if (o->value.n_axes + (spec->n_columns > 1 || spec->keep_axis) + (o->rows == FBY__ROWS_STEPS) > FBY_MAX_DIMS - 1)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a tensor of more than %d axes", spec->name, FBY_MAX_DIMS);
    return FBY_OK;
}

static bool names_no_column(fby_source_kind from) { return from >= FBY_FROM_SAMPLE_INDEX && from <= FBY_FROM_SOURCE; }

fby_status fby__compile_ops(const fby_output *spec, const fby__row_value *value, fby__program **out, fby_error *err)
{
    const fby__value_axes axes = {value->axes, value->kind == FBY__PANEL_DENSE ? value->n_axes : 0};
    fby_status status = fby__program_create(spec->ops, spec->n_ops, spec->columns, (uint32_t)spec->n_columns, axes, out, err);
    if (status != FBY_OK)
        fby__error_context(err, "output '%s'", spec->name);
    return status;
}

static fby_status resolve_columns(fby__loader_source *in, fby__plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    if ((unsigned)spec->from > FBY_FROM_SOURCE)
        return fby__fail(err, FBY_E_ARG, "output '%s': unknown kind of source", spec->name);
    if (spec->from != FBY_FROM_COLUMNS && spec->n_ops)
        return fby__fail(err, FBY_E_ARG, "output '%s': operations are for the values of columns", spec->name);
    if (spec->from == FBY_FROM_SEGMENT_IDS && fby_samples_kind(in->samples) != FBY_SAMPLES_GROUPS)
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': segment ids say which sample a row of a group belongs to, and these samples are no groups",
                         spec->name);
    if (names_no_column(spec->from)) {
        o->rows = spec->from == FBY_FROM_SEGMENT_IDS ? FBY__ROWS_ALL : FBY__ROWS_ONE;
        o->dtype = o->panel_dtype = spec->from == FBY_FROM_IS_REPEAT ? FBY_BOOL : FBY_INT64;
        if (spec->from != FBY_FROM_LIT)
            return FBY_OK;
        o->dtype = spec->dtype ? spec->dtype : FBY_FLOAT32;
        return fby__scalar_set(o->dtype, spec->value, &o->constant)
                   ? FBY_OK
                   : fby__fail(err, FBY_E_ARG, "output '%s': %g is not a value of %s", spec->name, spec->value, fby_dtype_name(o->dtype));
    }
    if (spec->n_columns == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s' names no column", spec->name);
    if (spec->n_columns > UINT32_MAX / 8)
        return fby__fail(err, FBY_E_ARG, "output '%s' names too many columns", spec->name);
    FBY__TRY(fby__plan_output_columns(o, spec->n_columns, err));
    fby_dtype own = FBY_DTYPE_NONE;
    bool agree = true;
    for (size_t i = 0; i < spec->n_columns; i++) {
        fby__row_value value;
        FBY__TRY(fby__find_column(in, spec->columns[i], spec->name, &o->column[i], err));
        FBY__TRY(fby__classify_column(in, spec, &in->columns[o->column[i]], &value, err));
        o->stored[i] = value.dtype;
        if (i == 0) {
            o->value = value;
            own = value.dtype;
        } else if (value.kind != o->value.kind || value.kind == FBY__PANEL_BYTES ||
                   (value.kind == FBY__PANEL_RAGGED && spec->from != FBY_FROM_COLUMNS)) {
            return fby__fail(err, FBY_E_ARG,
                             "output '%s': '%s' and '%s' cannot be stacked into one tensor: strings, masks of lists, and lists "
                             "beside other columns need an output each",
                             spec->name, spec->columns[0], spec->columns[i]);
        } else if (!same_shape(&value, &o->value) || value.item_elements > 1) {
            return fby__fail(err, FBY_E_ARG,
                             "output '%s': '%s' and '%s' differ in shape (%u and %u values a row): they cannot be "
                             "stacked",
                             spec->name, spec->columns[0], spec->columns[i], o->value.width, value.width);
        }
        agree &= value.dtype == own;
    }
    FBY__TRY(fby__compile_ops(spec, &o->value, &o->program, err));
    FBY__TRY(fby__choose_rows(in, o, err));
    FBY__TRY(check_rows(o, err));
    if (fby_source_is_mask(spec->from)) {
        o->panel_dtype = agree ? own : FBY_FLOAT64; /* which holds any value, and NaN */
        o->dtype = FBY_BOOL;
        o->missing = FBY__MISSING_FILL;
        return fby__set_fills(o, 0, err); /* 0 is a value of every dtype */
    }
    FBY__TRY(choose_dtypes(in, o, own, agree, err));
    return o->value.kind == FBY__PANEL_RAGGED && spec->n_columns > 1 ? fby__resolve_lists(o, err) : FBY_OK;
}

static void describe(const fby__plan_output *o, fby__batch_output *out)
{
    const fby_output *spec = o->spec;
    if (o->rows == FBY__ROWS_ALL)
        out->layout = FBY_LAYOUT_RAGGED;
    if (names_no_column(spec->from))
        return;
    if (o->value.kind != FBY__PANEL_DENSE) {
        if (spec->from == FBY_FROM_COLUMNS) {
            out->layout = FBY_LAYOUT_RAGGED;
            out->bytes = o->value.kind == FBY__PANEL_BYTES;
            out->text = o->value.text;
            if (o->n_inputs) /* lists, stacked */
                out->inner[out->ndim_inner++] = (int64_t)spec->n_columns;
            for (int32_t d = 0; d < o->value.n_axes; d++)
                out->inner[out->ndim_inner++] = o->value.axes[d];
        }
        return;
    }
    if (o->rows == FBY__ROWS_STEPS)
        out->inner[out->ndim_inner++] = (int64_t)o->n_steps;
    if (spec->n_columns > 1 || spec->keep_axis)
        out->inner[out->ndim_inner++] = (int64_t)spec->n_columns;
    for (int32_t d = 0; d < o->value.n_axes && spec->from == FBY_FROM_COLUMNS; d++) /* a missing row is missing as a whole */
        out->inner[out->ndim_inner++] = o->value.axes[d];
}

/* What varies is packed unless it is to be padded; what does not is dense. */
static fby_status choose_layout(const fby__plan_output *o, fby__batch_output *out, fby__output_source *source, fby_error *err)
{
    const fby_output *spec = o->spec;
    bool varies = out->layout == FBY_LAYOUT_RAGGED;
    const char *what = o->rows == FBY__ROWS_ALL ? "groups differ in length" : "its column varies in length from row to row";
    if (spec->layout == FBY_LAYOUT_DENSE && varies)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': %s; ask for the ragged or padded layout%s", spec->name, what,
                         o->rows == FBY__ROWS_ALL ? ", or for their first rows" : "");
    if ((spec->layout == FBY_LAYOUT_RAGGED || spec->layout == FBY_LAYOUT_PADDED || spec->max_rows) && !varies)
        return fby__fail(err, FBY_E_ARG,
                         "output '%s' has the same shape for every sample: the ragged and padded layouts and max_rows are for "
                         "groups, lists and strings",
                         spec->name);
    if ((unsigned)spec->keep > FBY_KEEP_FIRST)
        return fby__fail(err, FBY_E_ARG, "output '%s': keep is an unknown kind", spec->name);
    source->keep = spec->keep;
    source->max_rows = spec->max_rows ? spec->max_rows : UINT64_MAX;
    if (source->max_rows < UINT64_MAX && source->max_rows > UINT32_MAX)
        return fby__fail(err, FBY_E_ARG, "output '%s': max_rows is at most %u", spec->name, UINT32_MAX);
    if (spec->layout != FBY_LAYOUT_PADDED) {
        if (spec->multiple_of || spec->pad_to_max || spec->want_lengths)
            return fby__fail(err, FBY_E_ARG, "output '%s': multiple_of, pad_to_max and lengths are for the padded layout", spec->name);
        return FBY_OK;
    }
    if (spec->pad_to_max && !spec->max_rows)
        return fby__fail(err, FBY_E_ARG, "output '%s': padding to max_rows needs max_rows", spec->name);
    if (spec->multiple_of > UINT32_MAX)
        return fby__fail(err, FBY_E_ARG, "output '%s': multiple_of is at most %u", spec->name, UINT32_MAX);
    if (!fby__scalar_set(out->dtype, spec->pad, &out->pad))
        return fby__fail(err, FBY_E_ARG, "output '%s': the pad value %g is not a value of %s", spec->name, spec->pad,
                         fby_dtype_name(out->dtype));
    if (out->ndim_inner + 2 > FBY_MAX_DIMS)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a tensor of more than %d axes", spec->name, FBY_MAX_DIMS);
    out->layout = FBY_LAYOUT_PADDED;
    out->bytes = out->text = false;
    out->max_rows = source->max_rows;
    out->multiple_of = spec->multiple_of ? spec->multiple_of : 1;
    out->pad_to_max = spec->pad_to_max;
    out->want_lengths = spec->want_lengths;
    return FBY_OK;
}

/* All but the panel. */
static fby_status resolve_one(fby__loader_source *in, fby__plan_output *o, fby__output_source *source, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (!spec->name || !*spec->name)
        return fby__fail(err, FBY_E_ARG, "an output has no name");
    o->value.width = 1;
    o->n_steps = 1;
    if (spec->make) {
        FBY__TRY(fby__resolve_made(in, o, source, err));
    } else {
        FBY__TRY(resolve_columns(in, o, err));
        o->shape = (fby__batch_output){.name = (char *)(uintptr_t)spec->name, .dtype = o->dtype, .layout = FBY_LAYOUT_DENSE};
        describe(o, &o->shape);
    }
    FBY__TRY(fby__resolve_after(in, o, source, err));
    return choose_layout(o, &o->shape, source, err);
}

static void plan_output_fini(fby__plan_output *o)
{
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        plan_output_fini(&o->inputs[i].plan);
        fby__free(o->inputs[i].ops);
    }
    fby__free(o->inputs);
    fby__free(o->column);
    fby__free(o->stored);
    fby__free(o->fill);
    fby__program_destroy(o->program);
}

/* Values before masks, wide before narrow: then a narrow output finds the panel it is part of. */
static fby_status choose_panels(fby__loader_source *in, const fby__plan_output *outputs, size_t n, fby_error *err)
{
    for (int masks = 0; masks < 2; masks++)
        for (size_t width = 0, next = SIZE_MAX; next != 0; width = next) {
            next = 0;
            for (size_t i = 0; i < n; i++) {
                size_t w = outputs[i].spec->n_columns + 1;
                if (fby_source_is_mask(outputs[i].spec->from) != (masks == 1) || outputs[i].n_inputs)
                    continue;
                if (w == width)
                    FBY__TRY(fby__choose_panel(in, &outputs[i], &in->outputs[i], err));
                if ((width == 0 || w < width) && w > next)
                    next = w;
            }
        }
    return FBY_OK;
}

/* Is it an output of a column that is not there, and may be left out? */
static fby_status leave_out(fby__loader_source *in, const fby_output *spec, bool *out, fby_error *err)
{
    fby__dataset_column column;
    fby_error why = {0};
    *out = false;
    for (size_t i = 0; spec->optional && i < spec->n_columns && !*out; i++)
        if (fby__dataset_resolve(in->ds, spec->columns[i], &column, &why) == FBY_E_SCHEMA) {
            *out = true;
            return fby__loader_note_optional(in, spec->name, why.message, err);
        }
    return FBY_OK;
}

static fby_status two_names(const fby__plan_output *outputs, size_t i, fby_error *err)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(outputs[k].spec->name, outputs[i].spec->name) == 0)
            return fby__fail(err, FBY_E_ARG, "two outputs are named '%s'", outputs[i].spec->name);
    return FBY_OK;
}

fby_status fby__resolve_outputs(fby__loader_source *in, const fby_output *specs, size_t n_specs, fby_error *err)
{
    fby__plan_output *outputs = fby__calloc(n_specs, sizeof *outputs);
    fby__batch_output *shapes = fby__calloc(n_specs, sizeof *shapes);
    in->outputs = fby__calloc(n_specs, sizeof *in->outputs);
    fby_status status = outputs && shapes && in->outputs ? FBY_OK : fby__fail_nomem(err, "the outputs");
    size_t n = 0;
    for (size_t i = 0; status == FBY_OK && i < n_specs; i++) {
        bool out;
        if ((status = leave_out(in, &specs[i], &out, err)) != FBY_OK || out)
            continue;
        outputs[n].spec = &specs[i];
        in->n_outputs = (uint32_t)n + 1;
        if ((status = resolve_one(in, &outputs[n], &in->outputs[n], err)) == FBY_OK && (status = two_names(outputs, n, err)) == FBY_OK)
            shapes[n] = outputs[n].shape;
        n++;
    }
    if (status == FBY_OK && n == 0)
        status = fby__fail(err, FBY_E_SCHEMA, "all outputs are optional, and the columns of none are in the data set");
    if (status == FBY_OK)
        status = choose_panels(in, outputs, n, err);
    for (size_t i = 0; status == FBY_OK && i < n; i++)
        if (outputs[i].n_inputs)
            status = fby__choose_panels_made(in, &outputs[i], &in->outputs[i], err);
    if (status == FBY_OK)
        status = fby__loader_notes_make(in, outputs, n, err);
    if (status == FBY_OK)
        status = fby__batch_shape_create(shapes, (uint32_t)n, &in->loader->outputs.shape, err);
    for (size_t i = 0; outputs && i < n_specs; i++)
        plan_output_fini(&outputs[i]);
    fby__free(outputs);
    fby__free(shapes);
    return status;
}

fby_status fby__loader_resolve(fby__loader_source *in, const fby_loader_opts *opts, fby_error *err)
{
    return opts->n_outputs ? fby__resolve_outputs(in, opts->outputs, opts->n_outputs, err) : fby__default_outputs(in, err);
}
