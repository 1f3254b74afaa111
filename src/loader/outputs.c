/*
 * What the user asked for → panels to decode and copies to make.
 *
 * Every output gets its rows from one panel. Outputs whose columns are a contiguous run of a panel's columns share it, so
 * wide outputs are placed first. A panel has the output's dtype, except where the file's own dtype is narrower and widening
 * cannot fail: then the narrow values are kept and widened at assembly (half the memory for float16).
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_AXES (FBY_MAX_DIMS - 2) /* besides the batch axis and that of several columns */

/** What a column holds in one row. */
typedef struct row_value {
    fby__panel_kind kind;
    uint32_t width;           /* DENSE: elements, the product of the axes */
    int32_t n_axes;           /* 0 for scalars */
    int64_t axes[MAX_AXES];
    fby_dtype dtype;
    bool text;
} row_value;

/** One output while it is being resolved. */
typedef struct plan_output {
    const fby_output *spec;
    uint32_t *column;         /* owned: indices into l->columns */
    row_value value;          /* of every column */
    fby_dtype dtype, panel_dtype;
    fby__missing missing;
    fby__scalar fill;
} plan_output;

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

static fby_status find_column(fby_loader *l, const char *path, uint32_t *out, fby_error *err)
{
    fby__dataset_column column;
    FBY__TRY(fby__dataset_resolve(l->ds, path, &column, err));
    for (uint32_t i = 0; i < l->n_columns; i++)
        if (l->columns[i].id == column.id) {
            *out = i;
            return FBY_OK;
        }
    fby__dataset_column *grown = fby__realloc_array(l->columns, l->n_columns + 1, sizeof *grown);
    if (!grown)
        return fby__fail_nomem(err, "the columns");
    l->columns = grown;
    l->columns[l->n_columns] = column;
    *out = l->n_columns++;
    return FBY_OK;
}

/* A struct's fields as a hint: "name one of its fields: a.x, a.y". */
static fby_status not_a_tensor(const fby_output *spec, const fby_field *field, fby_error *err)
{
    char type[160];
    (void)fby_field_type_text(field, type, sizeof type);
    if (field->kind == FBY_KIND_STRUCT && field->n_children)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': column '%s' is a %s; name one of its fields, such as '%s'",
                         spec->name, field->path, type, field->children[0].path);
    return fby__fail(err, FBY_E_UNSUPPORTED,
                     "output '%s': column '%s' of type %s cannot be a tensor; numbers, bools, times, strings and lists of "
                     "numbers can. Read it through Arrow instead", spec->name, field->path, type);
}

static bool add_axis(row_value *c, int64_t n)
{
    if (c->n_axes == MAX_AXES || n < 0 || (uint64_t)n * c->width > UINT32_MAX / 16)
        return false;
    c->axes[c->n_axes++] = n;
    c->width *= (uint32_t)n;
    return true;
}

static fby_status classify(const fby_loader *l, const fby_output *spec, const fby__dataset_column *c, row_value *out, fby_error *err)
{
    const fby_field *leaf = c->leaf;
    int repeats = repeats_to(fby_dataset_schema(l->ds), leaf);
    *out = (row_value){.kind = repeats == 1 ? FBY__PANEL_RAGGED : FBY__PANEL_DENSE, .width = 1, .dtype = leaf->dtype};
    if (repeats > 1 || leaf->n_children)
        return not_a_tensor(spec, c->field, err);
    const fby_field *at = c->field;
    bool fits = true;
    for (; at->kind == FBY_KIND_FIXED_LIST && at->n_children == 1; at = &at->children[0])
        fits &= add_axis(out, at->list_size);
    bool is_array = out->n_axes > 0;
    switch (leaf->kind) {
    case FBY_KIND_NULL: out->dtype = FBY_FLOAT32; break;
    case FBY_KIND_DECIMAL: out->dtype = FBY_FLOAT64; break;
    case FBY_KIND_BOOL:
    case FBY_KIND_INT:
    case FBY_KIND_FLOAT:
    case FBY_KIND_DATE:
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP:
    case FBY_KIND_DURATION: break;
    case FBY_KIND_FIXED_BINARY:
        out->dtype = FBY_UINT8;
        fits &= !is_array && add_axis(out, leaf->byte_width);
        break;
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY:
        out->dtype = FBY_UINT8;
        out->kind = FBY__PANEL_BYTES;
        out->text = leaf->kind == FBY_KIND_STRING;
        break;
    default: return not_a_tensor(spec, c->field, err);
    }
    bool varies = repeats == 1 || out->kind == FBY__PANEL_BYTES;
    if (!fits || (varies && out->n_axes) || (repeats == 1 && out->kind == FBY__PANEL_BYTES))
        return not_a_tensor(spec, c->field, err);
    return FBY_OK;
}

static bool same_shape(const row_value *a, const row_value *b)
{
    return a->n_axes == b->n_axes && memcmp(a->axes, b->axes, (size_t)a->n_axes * sizeof *a->axes) == 0;
}

/* ---- dtypes and missing values ---- */

static bool is_float(fby_dtype d) { return d == FBY_FLOAT16 || d == FBY_BFLOAT16 || d == FBY_FLOAT32 || d == FBY_FLOAT64; }
static bool is_signed(fby_dtype d) { return d >= FBY_INT8 && d <= FBY_INT64; }
static bool is_unsigned(fby_dtype d) { return d == FBY_BOOL || (d >= FBY_UINT8 && d <= FBY_UINT64); }

/* Narrower, and every value has a counterpart: such values may stay narrow until assembly. */
static bool widens(fby_dtype from, fby_dtype to)
{
    if (fby_dtype_bytes(from) >= fby_dtype_bytes(to) || to == FBY_BOOL)
        return false;
    if (is_float(to))
        return true;
    return is_float(from) ? false : is_unsigned(from) ? true : is_signed(from) && is_signed(to);
}

static fby_status choose_dtypes(const fby_loader *l, plan_output *o, fby_dtype own, bool agree, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (o->value.kind == FBY__PANEL_BYTES) {
        if (spec->dtype != FBY_DTYPE_NONE && spec->dtype != FBY_UINT8)
            return fby__fail(err, FBY_E_ARG, "output '%s': strings are delivered as bytes (uint8), not as %s", spec->name,
                             fby_dtype_name(spec->dtype));
        o->dtype = o->panel_dtype = FBY_UINT8;
        o->missing = FBY__MISSING_FILL; /* a missing string is empty, as a missing list is; a mask tells them apart */
        return FBY_OK;
    }
    o->dtype = spec->dtype != FBY_DTYPE_NONE ? spec->dtype : agree ? own : FBY_FLOAT32;
    bool nullable = false;
    for (size_t i = 0; i < spec->n_columns; i++) {
        const fby__dataset_column *c = &l->columns[o->column[i]];
        nullable |= c->leaf->nullable || c->field->nullable || c->leaf->kind == FBY_KIND_NULL;
    }
    o->panel_dtype = agree && widens(own, o->dtype) && (is_float(own) || !nullable) ? own : o->dtype;
    /* A column that cannot be null needs no stand-in: narrow integers without one stay narrow. */
    double fill = spec->has_fill ? spec->fill : (double)NAN;
    o->missing = spec->has_fill || is_float(o->panel_dtype) ? FBY__MISSING_FILL : FBY__MISSING_ERROR;
    if (o->missing == FBY__MISSING_ERROR || fby__scalar_set(o->panel_dtype, fill, &o->fill))
        return FBY_OK;
    o->panel_dtype = o->dtype; /* a fraction as the fill of integers that become floats */
    if (fby__scalar_set(o->dtype, fill, &o->fill))
        return FBY_OK;
    return fby__fail(err, FBY_E_ARG, "output '%s': the fill value %g is not a value of %s", spec->name, fill,
                     fby_dtype_name(o->dtype));
}

static fby_status resolve_one(fby_loader *l, plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (!spec->name || !*spec->name)
        return fby__fail(err, FBY_E_ARG, "an output has no name");
    if (spec->from == FBY_FROM_INDEX) {
        o->dtype = o->panel_dtype = FBY_INT64;
        return FBY_OK;
    }
    if (spec->n_columns == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s' names no column", spec->name);
    if (spec->n_columns > UINT32_MAX / 8)
        return fby__fail(err, FBY_E_ARG, "output '%s' names too many columns", spec->name);
    o->column = fby__calloc(spec->n_columns, sizeof *o->column);
    if (!o->column)
        return fby__fail_nomem(err, "an output");
    fby_dtype own = FBY_DTYPE_NONE;
    bool agree = true;
    for (size_t i = 0; i < spec->n_columns; i++) {
        row_value value;
        fby_status status = find_column(l, spec->columns[i], &o->column[i], err);
        if (status != FBY_OK) {
            fby__error_context(err, "output '%s'", spec->name);
            return status;
        }
        FBY__TRY(classify(l, spec, &l->columns[o->column[i]], &value, err));
        if (i == 0) {
            o->value = value;
            own = value.dtype;
        } else if (value.kind != o->value.kind || value.kind != FBY__PANEL_DENSE) {
            return fby__fail(err, FBY_E_ARG, "output '%s': '%s' and '%s' cannot be stacked into one tensor: lists and strings "
                             "need an output each", spec->name, spec->columns[0], spec->columns[i]);
        } else if (!same_shape(&value, &o->value)) {
            return fby__fail(err, FBY_E_ARG, "output '%s': '%s' and '%s' differ in shape (%u and %u values a row): they cannot be "
                             "stacked", spec->name, spec->columns[0], spec->columns[i], o->value.width, value.width);
        }
        agree &= value.dtype == own;
    }
    if (spec->layout == FBY_LAYOUT_DENSE && o->value.kind != FBY__PANEL_DENSE)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': column '%s' varies in length from row to row; ask for the "
                         "ragged layout", spec->name, spec->columns[0]);
    if (spec->layout == FBY_LAYOUT_RAGGED && o->value.kind == FBY__PANEL_DENSE)
        return fby__fail(err, FBY_E_ARG, "output '%s': column '%s' has one value a row; the ragged layout is for lists and "
                         "strings", spec->name, spec->columns[0]);
    if (spec->from == FBY_FROM_MISSING) {
        o->panel_dtype = own;
        o->dtype = FBY_BOOL;
        o->missing = FBY__MISSING_FILL;
        (void)fby__scalar_set(own, 0, &o->fill); /* 0 is a value of every dtype */
        return FBY_OK;
    }
    return choose_dtypes(l, o, own, agree, err);
}

/* ---- panels ---- */

/* Do columns [at, at + n) of a panel serve the output? */
static bool serves(const fby__loader_panel *p, uint32_t at, const plan_output *o)
{
    for (size_t i = 0; i < o->spec->n_columns; i++) {
        if (p->column[at + i] != o->column[i])
            return false;
        if (o->spec->from == FBY_FROM_MISSING)
            continue; /* any panel with these columns knows which were there */
        const fby__panel_column *c = &p->layout.columns[at + i];
        if (c->missing != o->missing || memcmp(&c->fill, &o->fill, sizeof c->fill) != 0)
            return false;
    }
    return true;
}

static fby_status add_panel(fby_loader *l, const plan_output *o, fby_error *err)
{
    fby__loader_panel *grown = fby__realloc_array(l->panels, l->n_panels + 1, sizeof *grown);
    if (!grown)
        return fby__fail_nomem(err, "the panels");
    l->panels = grown;
    fby__loader_panel *p = &l->panels[l->n_panels];
    *p = (fby__loader_panel){.variable = UINT32_MAX};
    uint32_t n = (uint32_t)o->spec->n_columns;
    p->column = fby__calloc(n, sizeof *p->column);
    p->layout = (fby__panel_layout){.kind = o->value.kind, .dtype = o->panel_dtype, .n_columns = n, .width = n * o->value.width};
    p->layout.columns = fby__calloc(n, sizeof *p->layout.columns);
    l->n_panels++; /* from here on the destructor knows it */
    if (!p->column || !p->layout.columns)
        return fby__fail_nomem(err, "the panels");
    for (uint32_t i = 0; i < n; i++) {
        p->column[i] = o->column[i];
        p->layout.columns[i] = (fby__panel_column){.path = l->columns[o->column[i]].path, .offset = i * o->value.width,
                                                   .width = o->value.width, .missing = o->missing, .fill = o->fill};
    }
    if (o->value.kind != FBY__PANEL_DENSE)
        p->variable = l->n_variable++;
    l->n_decode += n;
    return FBY_OK;
}

static fby_status place(fby_loader *l, const plan_output *o, fby__output_source *source, fby_error *err)
{
    *source = (fby__output_source){.from = o->spec->from};
    if (o->spec->from == FBY_FROM_INDEX)
        return FBY_OK;
    uint32_t n = (uint32_t)o->spec->n_columns, found = UINT32_MAX, at = 0;
    for (uint32_t i = 0; i < l->n_panels && found == UINT32_MAX; i++) {
        const fby__loader_panel *p = &l->panels[i];
        if (p->layout.kind != o->value.kind || (p->layout.dtype != o->panel_dtype && o->spec->from != FBY_FROM_MISSING))
            continue;
        for (at = 0; at + n <= p->layout.n_columns; at++)
            if (serves(p, at, o)) {
                found = i;
                break;
            }
    }
    if (found == UINT32_MAX) {
        FBY__TRY(add_panel(l, o, err));
        found = l->n_panels - 1;
        at = 0;
    }
    fby__loader_panel *p = &l->panels[found];
    source->panel = found;
    source->panel_dtype = p->layout.dtype;
    source->first_column = at;
    source->n_columns = n;
    source->offset = (size_t)p->layout.columns[at].offset * fby_dtype_bytes(p->layout.dtype);
    if (o->spec->from == FBY_FROM_MISSING)
        p->layout.want_valid = true;
    return FBY_OK;
}

static void describe(const plan_output *o, fby__batch_output *out)
{
    const fby_output *spec = o->spec;
    *out = (fby__batch_output){.name = (char *)(uintptr_t)spec->name, .dtype = o->dtype, .layout = FBY_LAYOUT_DENSE};
    if (spec->from == FBY_FROM_INDEX)
        return;
    if (o->value.kind != FBY__PANEL_DENSE) {
        if (spec->from == FBY_FROM_COLUMNS) {
            out->layout = FBY_LAYOUT_RAGGED;
            out->bytes = o->value.kind == FBY__PANEL_BYTES;
            out->text = o->value.text;
        }
        return;
    }
    if (spec->n_columns > 1 || spec->keep_axis)
        out->inner[out->ndim_inner++] = (int64_t)spec->n_columns;
    for (int32_t d = 0; d < o->value.n_axes && spec->from == FBY_FROM_COLUMNS; d++) /* a missing row is missing as a whole */
        out->inner[out->ndim_inner++] = o->value.axes[d];
}

static fby_status resolve_all(fby_loader *l, const fby_output *specs, size_t n, fby_error *err)
{
    fby_status status = FBY_E_NOMEM;
    plan_output *outputs = fby__calloc(n, sizeof *outputs);
    fby__batch_output *shapes = fby__calloc(n, sizeof *shapes);
    l->sources = fby__calloc(n, sizeof *l->sources);
    if (!outputs || !shapes || !l->sources) {
        (void)fby__fail_nomem(err, "the outputs");
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        outputs[i].spec = &specs[i];
        outputs[i].value.width = 1;
        if ((status = resolve_one(l, &outputs[i], err)) != FBY_OK)
            goto done;
        for (size_t k = 0; k < i; k++)
            if (strcmp(specs[k].name, specs[i].name) == 0) {
                status = fby__fail(err, FBY_E_ARG, "two outputs are named '%s'", specs[i].name);
                goto done;
            }
        describe(&outputs[i], &shapes[i]);
    }
    /* Values before masks, wide before narrow: then a narrow output finds the panel it is part of. */
    for (int masks = 0; masks < 2; masks++)
        for (size_t width = 0, next = SIZE_MAX; next != 0; width = next) {
            next = 0;
            for (size_t i = 0; i < n; i++) {
                size_t w = outputs[i].spec->n_columns + 1;
                if ((outputs[i].spec->from == FBY_FROM_MISSING) != (masks == 1))
                    continue;
                if (w == width && (status = place(l, &outputs[i], &l->sources[i], err)) != FBY_OK)
                    goto done;
                if ((width == 0 || w < width) && w > next)
                    next = w;
            }
        }
    status = fby__batch_shape_create(shapes, (uint32_t)n, &l->shape, err);
done:
    for (size_t i = 0; outputs && i < n; i++)
        fby__free(outputs[i].column);
    fby__free(outputs);
    fby__free(shapes);
    return status;
}

/* ---- default outputs: every column that can be one ---- */

typedef struct name_list {
    const char **path;
    size_t n, cap;
} name_list;

static fby_status collect(const fby_field *field, name_list *list, fby_error *err)
{
    if (field->kind == FBY_KIND_STRUCT) {
        for (uint32_t i = 0; i < field->n_children; i++)
            FBY__TRY(collect(&field->children[i], list, err));
        return FBY_OK;
    }
    const fby_field *value = field;
    if (value->kind == FBY_KIND_LIST)
        value = &value->children[0];
    else
        while (value->kind == FBY_KIND_FIXED_LIST)
            value = &value->children[0];
    bool is_list = value != field;
    if (value->n_children || value->kind == FBY_KIND_INTERVAL ||
        (is_list && (value->kind == FBY_KIND_STRING || value->kind == FBY_KIND_BINARY || value->kind == FBY_KIND_FIXED_BINARY)))
        return FBY_OK;
    if (fby__grow((void **)&list->path, &list->cap, list->n + 1, sizeof *list->path) != 0)
        return fby__fail_nomem(err, "the outputs");
    list->path[list->n++] = field->path;
    return FBY_OK;
}

fby_status fby__loader_resolve(fby_loader *l, const fby_loader_opts *opts, fby_error *err)
{
    if (opts->n_outputs)
        return resolve_all(l, opts->outputs, opts->n_outputs, err);
    name_list list = {0};
    fby_output *specs = NULL;
    fby_status status = collect(fby_dataset_schema(l->ds), &list, err);
    if (status == FBY_OK && list.n == 0)
        status = fby__fail(err, FBY_E_UNSUPPORTED, "no column of the dataset can be a tensor");
    if (status == FBY_OK && !(specs = fby__calloc(list.n, sizeof *specs)))
        status = fby__fail_nomem(err, "the outputs");
    for (size_t i = 0; status == FBY_OK && i < list.n; i++)
        specs[i] = (fby_output){.name = list.path[i], .columns = &list.path[i], .n_columns = 1};
    if (status == FBY_OK)
        status = resolve_all(l, specs, list.n, err);
    fby__free(specs);
    fby__free((void *)list.path);
    return status;
}
