/*
 * What the user asked for → panels to decode and copies to make.
 *
 * Every output gets its rows from one panel. Outputs whose columns are a contiguous run of a panel's columns share it, so
 * wide outputs are placed first. A panel has the output's dtype, except where the file's own dtype is narrower and widening
 * cannot fail: then the narrow values are kept and widened at assembly (half the memory for float16). Row operations are part of a panel:
 * outputs share it only when they do the same to its columns.
 *
 * Where samples have several rows, an output that is a panel's whole row is one run of bytes however many rows it takes. So outputs share
 * a panel then only when they take all or most of its columns, or few rows.
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_AXES (FBY_MAX_DIMS - 2) /* besides the batch axis and that of several columns */
#define FEW_STEPS 16u               /* so many pieces of a wider row cost less than decoding the columns once more */
#define MAX_SAMPLE_BYTES ((uint64_t)1 << 31)

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
    fby__take take;
    uint64_t step, n_steps;
    fby__program *program; /* owned: of the spec's operations; NULL = none */
    fby_dtype *stored;     /* owned: of each column */
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

/* Operations give floats. Values wait for them in a dtype that costs no digits. */
static fby_status choose_computed(plan_output *o, fby_dtype own, bool agree, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (o->value.kind == FBY__PANEL_BYTES)
        return fby__fail(err, FBY_E_ARG, "output '%s': column '%s' holds strings, which cannot be computed with", spec->name,
                         spec->columns[0]);
    o->dtype = spec->dtype != FBY_DTYPE_NONE ? spec->dtype : agree && is_float(own) ? own : FBY_FLOAT32;
    if (!is_float(o->dtype))
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
    (void)fby__scalar_set(o->panel_dtype, spec->has_fill ? spec->fill : (double)NAN, &o->fill); /* a float holds any number, rounded */
    return FBY_OK;
}

static fby_status choose_dtypes(const fby_loader *l, plan_output *o, fby_dtype own, bool agree, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (o->program)
        return choose_computed(o, own, agree, err);
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

/* ---- which rows of a sample ---- */

static fby_status choose_rows(const fby_loader *l, plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    fby_sample_kind kind = fby_samples_kind(l->samples);
    uint64_t length = fby_samples_max_rows(l->samples), begin = spec->step_begin, end = spec->step_end;
    o->take = kind == FBY_SAMPLES_ROWS || spec->one_step ? FBY__TAKE_ONE : kind == FBY_SAMPLES_WINDOWS ? FBY__TAKE_STEPS : FBY__TAKE_ALL;
    o->step = begin;
    o->n_steps = o->take == FBY__TAKE_STEPS ? (end ? end : length) - begin : 1;
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
static fby_status check_rows(const plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    uint64_t row_bytes = (uint64_t)o->value.width * spec->n_columns * 8, sample_bytes;
    if (o->value.kind != FBY__PANEL_DENSE && (o->take != FBY__TAKE_ONE || o->step > 0))
        return fby__fail(err, FBY_E_UNSUPPORTED,
                         "output '%s': column '%s' varies in length from row to row, and a sample has several "
                         "rows: only the value of its first row can be taken",
                         spec->name, spec->columns[0]);
    if (!fby__mul_u64_checked(row_bytes, o->n_steps, &sample_bytes) || sample_bytes > MAX_SAMPLE_BYTES)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': %llu values a sample are too many", spec->name,
                         (unsigned long long)(row_bytes / 8 * o->n_steps));
    if (o->value.n_axes + (spec->n_columns > 1 || spec->keep_axis) + (o->take == FBY__TAKE_STEPS) > FBY_MAX_DIMS - 1)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a tensor of more than %d axes", spec->name, FBY_MAX_DIMS);
    return FBY_OK;
}

static bool names_no_column(fby_source_kind from)
{
    return from == FBY_FROM_INDEX || from == FBY_FROM_ROW || from == FBY_FROM_LENGTH || from == FBY_FROM_SLOT;
}

static fby_status compile(const fby_output *spec, fby__program **out, fby_error *err)
{
    fby_status status = fby__program_create(spec->ops, spec->n_ops, spec->columns, (uint32_t)spec->n_columns, out, err);
    if (status != FBY_OK)
        fby__error_context(err, "output '%s'", spec->name);
    return status;
}

static fby_status resolve_one(fby_loader *l, plan_output *o, fby_error *err)
{
    const fby_output *spec = o->spec;
    if (!spec->name || !*spec->name)
        return fby__fail(err, FBY_E_ARG, "an output has no name");
    if ((unsigned)spec->from > FBY_FROM_SLOT)
        return fby__fail(err, FBY_E_ARG, "output '%s': unknown kind of source", spec->name);
    if (spec->from != FBY_FROM_COLUMNS && spec->n_ops)
        return fby__fail(err, FBY_E_ARG, "output '%s': operations are for the values of columns", spec->name);
    if (spec->from == FBY_FROM_SLOT && fby_samples_kind(l->samples) != FBY_SAMPLES_GROUPS)
        return fby__fail(err, FBY_E_ARG, "output '%s': rows have a place in the batch of their own where samples are groups", spec->name);
    if (names_no_column(spec->from)) {
        o->take = spec->from == FBY_FROM_SLOT ? FBY__TAKE_ALL : FBY__TAKE_ONE;
        o->dtype = o->panel_dtype = FBY_INT64;
        return FBY_OK;
    }
    if (spec->n_columns == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s' names no column", spec->name);
    if (spec->n_columns > UINT32_MAX / 8)
        return fby__fail(err, FBY_E_ARG, "output '%s' names too many columns", spec->name);
    o->column = fby__calloc(spec->n_columns, sizeof *o->column);
    o->stored = fby__calloc(spec->n_columns, sizeof *o->stored);
    if (!o->column || !o->stored)
        return fby__fail_nomem(err, "an output");
    FBY__TRY(compile(spec, &o->program, err));
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
        o->stored[i] = value.dtype;
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
    FBY__TRY(choose_rows(l, o, err));
    FBY__TRY(check_rows(o, err));
    if (spec->layout == FBY_LAYOUT_DENSE && o->take == FBY__TAKE_ALL)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': groups differ in length; ask for the ragged layout, or for their first rows",
                         spec->name);
    if (spec->layout == FBY_LAYOUT_DENSE && o->value.kind != FBY__PANEL_DENSE)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': column '%s' varies in length from row to row; ask for the "
                         "ragged layout", spec->name, spec->columns[0]);
    if (spec->layout == FBY_LAYOUT_RAGGED && o->value.kind == FBY__PANEL_DENSE && o->take != FBY__TAKE_ALL)
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

/* Are n of a panel's columns, for these rows of a sample, worth another panel of their own? */
static bool is_cheap(const fby__loader_panel *p, const plan_output *o)
{
    return 2 * o->spec->n_columns >= p->layout.n_columns || (o->take != FBY__TAKE_ALL && o->n_steps <= FEW_STEPS);
}

/* Do columns [at, at + n) of a panel serve the output? */
static bool serves(const fby__loader_panel *p, uint32_t at, const plan_output *o)
{
    if (o->spec->from != FBY_FROM_MISSING && (!is_cheap(p, o) || !fby__program_same(p->program, at, o->program)))
        return false;
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
    return compile(o->spec, &p->program, err);
}

static fby_status place(fby_loader *l, const plan_output *o, fby__output_source *source, fby_error *err)
{
    *source = (fby__output_source){.from = o->spec->from, .take = o->take, .step = o->step, .n_steps = o->n_steps};
    if (names_no_column(o->spec->from))
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
    source->piece_elements = (size_t)n * o->value.width;
    source->whole_rows = n == p->layout.n_columns;
    source->offset = (size_t)p->layout.columns[at].offset * fby_dtype_bytes(p->layout.dtype);
    if (o->spec->from == FBY_FROM_MISSING)
        p->layout.want_valid = true;
    return FBY_OK;
}

static void describe(const plan_output *o, fby__batch_output *out)
{
    const fby_output *spec = o->spec;
    *out = (fby__batch_output){.name = (char *)(uintptr_t)spec->name, .dtype = o->dtype, .layout = FBY_LAYOUT_DENSE};
    if (o->take == FBY__TAKE_ALL)
        out->layout = FBY_LAYOUT_RAGGED;
    if (names_no_column(spec->from))
        return;
    if (o->value.kind != FBY__PANEL_DENSE) {
        if (spec->from == FBY_FROM_COLUMNS) {
            out->layout = FBY_LAYOUT_RAGGED;
            out->bytes = o->value.kind == FBY__PANEL_BYTES;
            out->text = o->value.text;
        }
        return;
    }
    if (o->take == FBY__TAKE_STEPS)
        out->inner[out->ndim_inner++] = (int64_t)o->n_steps;
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
        outputs[i].n_steps = 1;
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
    for (size_t i = 0; outputs && i < n; i++) {
        fby__free(outputs[i].column);
        fby__free(outputs[i].stored);
        fby__program_destroy(outputs[i].program);
    }
    fby__free(outputs);
    fby__free(shapes);
    return status;
}

/* ---- default outputs: every column that can be one ---- */

typedef struct name_list {
    const char **path;
    bool *one_step; /* what varies in length is taken from the first row of a sample */
    size_t n, cap, cap_one_step;
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
    if (fby__grow((void **)&list->path, &list->cap, list->n + 1, sizeof *list->path) != 0 ||
        fby__grow((void **)&list->one_step, &list->cap_one_step, list->n + 1, sizeof *list->one_step) != 0)
        return fby__fail_nomem(err, "the outputs");
    list->one_step[list->n] = field->kind == FBY_KIND_LIST || value->kind == FBY_KIND_STRING || value->kind == FBY_KIND_BINARY;
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
        specs[i] = (fby_output){.name = list.path[i], .columns = &list.path[i], .n_columns = 1, .one_step = list.one_step[i]};
    if (status == FBY_OK)
        status = resolve_all(l, specs, list.n, err);
    fby__free(specs);
    fby__free((void *)list.path);
    fby__free(list.one_step);
    return status;
}
