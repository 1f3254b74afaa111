/* Columns that samples are found by. See columns.h. */
#include "samples/columns.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

/* ---- columns ---- */

fby_status fby__read_column_refuse(const fby__read_column *c, const char *what, fby_error *err)
{
    char type[160];
    (void)fby_field_type_text(c->in.field, type, sizeof type);
    bool dates = c->as == FBY__READ_TIME && c->in.leaf->kind == FBY_KIND_STRING;
    return fby__fail(err, FBY_E_UNSUPPORTED, "column '%s' of type %s cannot be %s%s", c->in.path, type, what,
                     dates ? ": times are dates, timestamps or numbers; store the text as such (in pandas: pd.to_datetime)" : "");
}

/* The dtype of numbers and times. */
static fby_dtype number_dtype(int as, const fby_field *leaf)
{
    if (as == FBY__READ_TIME)
        return leaf->kind == FBY_KIND_FLOAT ? FBY_FLOAT64 : FBY_INT64;
    if (as == FBY__READ_VALUE && leaf->dtype != FBY_UINT64)
        return leaf->kind == FBY_KIND_FLOAT ? FBY_FLOAT64 : FBY_INT64;
    return leaf->dtype;
}

/* The panel that a column is decoded to. */
static fby_status choose_layout(fby__read_column *c, fby_error *err)
{
    static const char *const WHAT[] = {"a key", "a time", "looked through for missing values", "compared with a value"};
    const fby_field *leaf = c->in.leaf, *at = c->in.field;
    uint64_t width = 1;
    for (; at->kind == FBY_KIND_FIXED_LIST && at->n_children == 1 && c->as == FBY__READ_DROP; at = &at->children[0])
        width *= at->list_size > 0 ? (uint64_t)at->list_size : 0;
    fby_dtype dtype = fby__leaf_dtype(leaf);
    fby__panel_kind kind = FBY__PANEL_DENSE;
    switch (leaf->kind) {
    case FBY_KIND_FLOAT:
    case FBY_KIND_INT:
    case FBY_KIND_DATE:
    case FBY_KIND_TIME:
    case FBY_KIND_TIMESTAMP:
    case FBY_KIND_DURATION: dtype = number_dtype(c->as, leaf); break;
    case FBY_KIND_FIXED_BINARY: width *= (uint64_t)leaf->byte_width; break;
    case FBY_KIND_STRING:
    case FBY_KIND_BINARY: kind = FBY__PANEL_BYTES; break;
    default: break;
    }
    if (dtype == FBY_DTYPE_NONE)
        return fby__read_column_refuse(c, WHAT[c->as], err);
    bool time_fits = leaf->kind != FBY_KIND_BOOL && leaf->kind != FBY_KIND_DECIMAL && leaf->kind != FBY_KIND_FIXED_BINARY;
    if (at != leaf || width == 0 || width > 1u << 20 || (kind == FBY__PANEL_BYTES && width > 1) ||
        (c->as == FBY__READ_TIME && (!time_fits || kind != FBY__PANEL_DENSE)) || (c->as == FBY__READ_KEY && leaf->kind == FBY_KIND_DECIMAL))
        return fby__read_column_refuse(c, WHAT[c->as], err);
    c->panel_column = (fby__panel_column){.path = c->in.path, .width = (uint32_t)width, .missing = FBY__MISSING_FILL};
    c->layout = (fby__panel_layout){
        .kind = kind, .dtype = dtype, .n_columns = 1, .width = (uint32_t)width, .want_valid = true, .columns = &c->panel_column};
    return FBY_OK;
}

fby_status fby__read_column_init(fby__read_column *c, const fby_dataset *ds, fby__read_as as, const char *path, fby_error *err)
{
    *c = (fby__read_column){.as = (int)as};
    FBY__TRY(fby__dataset_resolve(ds, path, &c->in, err));
    return choose_layout(c, err);
}

/* ---- values ---- */

static fby__value real_value(double x)
{
    return x == x ? (fby__value){.kind = FBY__VALUE_FLOAT, .real = x} : (fby__value){.kind = FBY__VALUE_MISSING};
}

bool fby__read_column_is_text(const fby__read_column *c)
{
    return c->layout.kind == FBY__PANEL_BYTES || c->in.leaf->kind == FBY_KIND_FIXED_BINARY;
}

fby__value fby__value_at(const fby__read_column *c, const fby__panel *panel, const char *constant, uint64_t row)
{
    if (!panel)
        return (fby__value){constant ? FBY__VALUE_TEXT : FBY__VALUE_MISSING, .text = (const uint8_t *)constant,
                            .n = constant ? strlen(constant) : 0};
    if (!panel->valid[row])
        return (fby__value){.kind = FBY__VALUE_MISSING};
    if (panel->views)
        return (fby__value){FBY__VALUE_TEXT, .text = panel->data + panel->views[row].offset, .n = (size_t)panel->views[row].n};
    const uint8_t *at = panel->data + row * panel->row_bytes;
    if (c->in.leaf->kind == FBY_KIND_FIXED_BINARY)
        return (fby__value){FBY__VALUE_TEXT, .text = at, .n = panel->row_bytes};
    union {
        int64_t number;
        uint64_t big;
        double real;
    } x = {0};
    switch (c->layout.dtype) {
    case FBY_FLOAT64: memcpy(&x, at, 8); return real_value(x.real);
    case FBY_UINT64:
        memcpy(&x, at, 8);
        return x.big <= INT64_MAX ? (fby__value){FBY__VALUE_NUMBER, .number = x.number} : real_value((double)x.big);
    case FBY_INT64: memcpy(&x, at, 8); return (fby__value){FBY__VALUE_NUMBER, .number = x.number};
    case FBY_BOOL: return (fby__value){FBY__VALUE_NUMBER, .number = *at != 0};
    default: return (fby__value){.kind = FBY__VALUE_MISSING}; /* a column of nulls */
    }
}

void fby__value_print(const fby__value *v, char *out, size_t n)
{
    switch (v->kind) {
    case FBY__VALUE_MISSING: (void)snprintf(out, n, "(missing)"); break;
    case FBY__VALUE_NUMBER: (void)snprintf(out, n, "%lld", (long long)v->number); break;
    case FBY__VALUE_FLOAT: (void)snprintf(out, n, "%.17g", v->real); break;
    case FBY__VALUE_TEXT: (void)snprintf(out, n, "'%.*s'", (int)fby__min_u64(v->n, 80), (const char *)v->text); break;
    }
}
