/*
 * Made of a key: the values beside it in a table, and values standardised with the moments of their own group.
 *
 * A lookup's values are rounded to the output's dtype once, when it is made, as rows that are then copied:
 *
 *     key ─► row of the table ─► rows: | a b c |      row 0
 *                                      | a b c |      …
 *                                      | d d d |      row n_keys: the default
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "transform/lookup_internal.h"
#include "transform/maker_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- lookups ---- */

typedef struct lookup_state {
    fby_lookup *table; /* owned reference */
    fby__key key;      /* of a table with a key of one column */
    fby__keys keys;    /* of several: keys.n is not 0 */
    bool has_default, of_sample;
    uint32_t width; /* keys of a row */
    size_t row_bytes;
    uint8_t *rows; /* owned */
} lookup_state;

static fby_status check_lookup_columns(const fby__make_spec *spec, const fby_make_lookup *o, fby_error *err)
{
    if (!o->table)
        return fby__fail(err, FBY_E_ARG, "output '%s': a lookup without a table", spec->output);
    if (o->n_columns && !o->columns)
        return fby__fail(err, FBY_E_ARG, "output '%s': %zu columns of the table, but not which", spec->output, o->n_columns);
    for (size_t i = 0; i < o->n_columns; i++)
        if (o->columns[i] >= o->table->n_columns)
            return fby__fail(err, FBY_E_ARG, "output '%s': the table has %zu columns, and column %zu is asked for", spec->output,
                             o->table->n_columns, o->columns[i]);
    const uint32_t n = (uint32_t)o->table->n_key_columns;
    char what[80];
    (void)snprintf(what, sizeof what, "a lookup in a table with a key of %u columns", n);
    return fby__make_expect_columns(spec, n == 1 ? "a lookup" : what, n, n, err);
}

/* Axes of one result: those of the key, then one of the table's columns. */
static fby_status shape_lookup(const fby__make_spec *spec, const fby_make_lookup *o, fby__made *made, fby_error *err)
{
    const fby__make_column *c = &spec->columns[0];
    bool axis = o->n_columns > 1 || (o->n_columns == 1 && (o->keep_axis || spec->keep_axis));
    if (c->kind == FBY__PANEL_DENSE)
        for (int32_t i = 0; i < c->n_axes; i++)
            made->shape[made->ndim++] = c->axes[i];
    if (made->ndim + axis > FBY_MAX_DIMS - 2)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a tensor of more than %d axes", spec->output, FBY_MAX_DIMS);
    if (axis)
        made->shape[made->ndim++] = (int64_t)o->n_columns;
    return FBY_OK;
}

static fby_status round_value(const fby__make_spec *spec, const fby_make_lookup *o, size_t row, size_t i, fby_dtype dtype, uint8_t *at,
                              fby_error *err)
{
    const fby_lookup *t = o->table;
    fby__scalar value;
    char key[FBY__LOOKUP_KEY_CHARS];
    bool is_default = row == t->n_keys;
    double x = is_default ? o->default_value : o->n_columns ? t->values[row * t->n_columns + o->columns[i]] : (double)row;
    bool inexact = !fby__dtype_is_float(dtype) && fabs(x) >= 0x1p53; /* a table's values are float64: it may have been another integer */
    if (!inexact && fby__scalar_set(dtype, x, &value)) {
        memcpy(at, value.bytes, fby_dtype_bytes(dtype));
        return FBY_OK;
    }
    if (is_default)
        return fby__fail(err, FBY_E_ARG, "output '%s': the default %g is not a value of %s", spec->output, x, fby_dtype_name(dtype));
    fby__lookup_key_text(t, (uint32_t)row, key);
    if (o->n_columns == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s': the key %s has the place %zu, which is not a value of %s", spec->output, key, row,
                         fby_dtype_name(dtype));
    if (inexact)
        return fby__fail(
            err, FBY_E_DATA,
            "output '%s': the table's column '%s' has %.0f or a number near it for the key %s: tables hold whole numbers below 2^53 "
            "exactly; store larger ones as a column of the data",
            spec->output, t->columns[o->columns[i]], x, key);
    return fby__fail(err, FBY_E_DATA, "output '%s': the table's column '%s' has %s%g for the key %s, which is not a value of %s",
                     spec->output, t->columns[o->columns[i]], isnan(x) ? "nothing, or " : "", x, key, fby_dtype_name(dtype));
}

static fby_status make_rows(const fby__make_spec *spec, const fby_make_lookup *o, fby_dtype dtype, lookup_state *s, fby__made *made,
                            fby_error *err)
{
    size_t n = o->n_columns ? o->n_columns : 1, bytes, elem = fby_dtype_bytes(dtype);
    if (!fby__mul_checked(n, elem, &s->row_bytes) || !fby__mul_checked(o->table->n_keys + 1, s->row_bytes, &bytes) ||
        !(s->rows = fby__calloc(bytes, 1)))
        return fby__fail_nomem(err, "a table's values");
    for (size_t row = 0; row < o->table->n_keys + o->has_default; row++)
        for (size_t i = 0; i < n; i++)
            FBY__TRY(round_value(spec, o, row, i, dtype, s->rows + row * s->row_bytes + i * elem, err));
    made->memory_bytes = bytes;
    return FBY_OK;
}

static void destroy_lookup(void *state)
{
    lookup_state *s = state;
    if (!s)
        return;
    fby_lookup_close(s->table);
    fby__free(s->rows);
    fby__free(s);
}

static fby_status create_lookup(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    const fby_make_lookup *o = &spec->make->lookup;
    FBY__TRY(check_lookup_columns(spec, o, err));
    lookup_state *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "a lookup");
    *out_state = s;
    s->table = fby_lookup_ref(o->table);
    s->has_default = o->has_default;
    if (s->table->n_key_columns > 1)
        FBY__TRY(fby__keys_create(spec, s->table, &s->keys, err));
    else
        FBY__TRY(fby__key_create(spec, 0, s->table, &s->key, err));
    FBY__TRY(shape_lookup(spec, o, made, err));
    const bool text = s->keys.n ? s->keys.text : s->key.text;
    s->width = s->keys.n || text ? 1 : spec->columns[0].width;
    s->of_sample = made->of_sample = text && spec->max_rows != 1;
    made->dtype = fby__make_dtype(spec, o->n_columns ? FBY_FLOAT32 : FBY_INT64);
    return make_rows(spec, o, made->dtype, s, made, err);
}

/* Keys that are not there: the row of defaults, or an error. */
static void use_default(const lookup_state *s, uint32_t *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (rows[i] == FBY__LOOKUP_NONE)
            rows[i] = (uint32_t)s->table->n_keys;
}

static uint32_t first_none(const uint32_t *rows)
{
    uint32_t i = 0;
    while (rows[i] != FBY__LOOKUP_NONE)
        i++;
    return i;
}

/* n rows of values, one behind the other. The sizes of a few numbers get loops of their own. */
static void copy_rows(const lookup_state *s, const uint32_t *rows, uint32_t n, uint8_t *dst)
{
#define COPY(size)                                                                                                                         \
    for (uint32_t i = 0; i < n; i++)                                                                                                       \
        memcpy(dst + (size_t)i * (size), s->rows + (size_t)rows[i] * (size), (size));
    switch (s->row_bytes) {
    case 4: COPY(4) break;
    case 8: COPY(8) break;
    case 12: COPY(12) break;
    case 16: COPY(16) break;
    default: COPY(s->row_bytes) break;
    }
#undef COPY
}

/* One key a sample. */
static fby_status look_up_first(const lookup_state *s, fby__make_job *job, fby_error *err)
{
    const fby__make_view *v = &job->views[0];
    uint32_t rows[FBY__KEY_TILE];
    for (uint64_t first = 0; first < job->n; first += FBY__KEY_TILE) {
        uint32_t n = (uint32_t)fby__min_u64(FBY__KEY_TILE, job->n - first);
        if (s->keys.n ? fby__keys_find_first(&s->keys, v, first, n, rows) : fby__key_find_first(&s->key, v, first, n, rows)) {
            if (!s->has_default) {
                uint64_t i = job->bad = first + first_none(rows);
                if (s->keys.n)
                    return fby__keys_fail(&s->keys, v, i, 0, err);
                return fby__key_fail(&s->key, v->data[i], v->count ? v->count[i] : 0, v->valid ? v->valid[i] : NULL, err);
            }
            use_default(s, rows, n);
        }
        for (uint32_t i = 0; i < n; i++)
            memcpy(job->dst[first + i], s->rows + (size_t)rows[i] * s->row_bytes, s->row_bytes);
    }
    return FBY_OK;
}

/* n keys that lie `stride` apart. */
static fby_status look_up_run(const lookup_state *s, const uint8_t *keys, size_t stride, const uint8_t *valid, size_t valid_stride,
                              uint64_t n, uint8_t *dst, fby_error *err)
{
    uint32_t rows[FBY__KEY_TILE];
    for (uint64_t first = 0; first < n; first += FBY__KEY_TILE) {
        uint32_t k = (uint32_t)fby__min_u64(FBY__KEY_TILE, n - first);
        const uint8_t *at = keys + first * stride, *flags = valid ? valid + first * valid_stride : NULL;
        if (fby__key_find_rows(&s->key, at, stride, flags, valid_stride, k, rows)) {
            if (!s->has_default) {
                uint32_t i = first_none(rows);
                return fby__key_fail(&s->key, at + i * stride, 0, flags ? flags + i * valid_stride : NULL, err);
            }
            use_default(s, rows, k);
        }
        copy_rows(s, rows, k, dst + first * s->row_bytes);
    }
    return FBY_OK;
}

static fby_status look_up_rows(const lookup_state *s, const fby__make_view *v, uint64_t sample, uint64_t n_rows, uint8_t *dst,
                               fby_error *err)
{
    const uint8_t *keys = v->data[sample], *valid = v->valid ? v->valid[sample] : NULL;
    if (s->width == 1)
        return look_up_run(s, keys, v->row_bytes, valid, v->valid_bytes, n_rows, dst, err);
    for (uint64_t r = 0; r < n_rows; r++)
        FBY__TRY(look_up_run(s, keys + r * v->row_bytes, fby_dtype_bytes(s->key.dtype), valid ? valid + r * v->valid_bytes : NULL, 0,
                             s->width, dst + r * s->width * s->row_bytes, err));
    return FBY_OK;
}

/* For a key of several columns. */
static fby_status look_up_keys(const lookup_state *s, const fby__make_view *views, uint64_t sample, uint64_t n_rows, uint8_t *dst,
                               fby_error *err)
{
    uint32_t rows[FBY__KEY_TILE];
    for (uint64_t first = 0; first < n_rows; first += FBY__KEY_TILE) {
        uint32_t n = (uint32_t)fby__min_u64(FBY__KEY_TILE, n_rows - first);
        if (fby__keys_find_rows(&s->keys, views, sample, first, n, rows)) {
            if (!s->has_default)
                return fby__keys_fail(&s->keys, views, sample, first + first_none(rows), err);
            use_default(s, rows, n);
        }
        copy_rows(s, rows, n, dst + first * s->row_bytes);
    }
    return FBY_OK;
}

static bool all_single(const fby__make_job *job)
{
    for (uint64_t i = 0; i < job->n; i++)
        if (job->n_rows[i] != 1)
            return false;
    return true;
}

static fby_status run_lookup(const void *state, fby__make_job *job, fby_error *err)
{
    const lookup_state *s = state;
    if (s->of_sample || s->key.text || (s->width == 1 && all_single(job)))
        return look_up_first(s, job, err);
    for (uint64_t i = 0; i < job->n; i++) {
        job->bad = i;
        FBY__TRY(s->keys.n ? look_up_keys(s, job->views, i, job->n_rows[i], job->dst[i], err)
                           : look_up_rows(s, &job->views[0], i, job->n_rows[i], job->dst[i], err));
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_lookup = {create_lookup, destroy_lookup, run_lookup};

/* ---- standardising with the moments of a group ---- */

#define TILE 512u /* elements whose centres and factors lie side by side */

typedef struct standardize_state {
    fby_lookup *table; /* owned reference */
    fby__key key;
    bool has_default, has_fill_nan;
    double fill_nan;
    uint32_t n_columns; /* of values */
    uint32_t width;     /* elements of a column: above 1 for a single one */
    uint32_t elements;  /* of a row */
    fby_dtype dtype;
    fby_dtype *from; /* owned; each column's: FLOAT32 or FLOAT64 */
    double *centre;  /* owned; n_keys + 1 rows of n_columns, the last for keys that are not there; factor lies behind it */
    double *factor;
} standardize_state;

static void destroy_standardize(void *state)
{
    standardize_state *s = state;
    if (!s)
        return;
    fby_lookup_close(s->table);
    fby__free(s->from);
    fby__free(s->centre);
    fby__free(s);
}

/* Columns of numbers; several of them one value a row each. */
static fby_status check_values(fby__make_spec *spec, standardize_state *s, fby__made *made, fby_error *err)
{
    for (uint32_t i = 0; i < s->n_columns; i++) {
        fby__make_column *c = &spec->columns[i];
        if (c->kind != FBY__PANEL_DENSE)
            return fby__make_refuse_column(spec, i, "cannot be standardised: only numbers, and arrays of them of one shape, can", err);
        if (s->n_columns > 1 && c->n_axes > 0)
            return fby__make_refuse_column(spec, i, "cannot be stacked with others: arrays need an output each", err);
        fby_dtype d = c->stored;
        bool narrow = fby_dtype_bytes(d) <= 2 || d == FBY_FLOAT32;
        c->dtype = s->from[i] = narrow ? FBY_FLOAT32 : FBY_FLOAT64; /* no digit is lost before the mean is taken off */
    }
    const fby__make_column *c = &spec->columns[0];
    s->width = c->n_axes ? c->width : 1;
    s->elements = s->n_columns * s->width;
    for (int32_t i = 0; i < c->n_axes; i++)
        made->shape[made->ndim++] = c->axes[i];
    if (s->n_columns > 1 || spec->keep_axis)
        made->shape[made->ndim++] = (int64_t)s->n_columns;
    if (made->ndim > FBY_MAX_DIMS - 2)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a tensor of more than %d axes", spec->output, FBY_MAX_DIMS);
    return FBY_OK;
}

static fby_status copy_moments(const fby__make_spec *spec, standardize_state *s, fby__made *made, fby_error *err)
{
    const fby_lookup *t = s->table;
    size_t k = s->n_columns, cells, bytes;
    if (t->n_columns != 2 * k && t->n_columns != FBY_GROUP_MOMENTS * k)
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': %zu columns are standardised, and the table of moments has %zu: it needs a mean for each, "
                         "then a std for each, as fitting these columns by group gives them",
                         spec->output, k, t->n_columns);
    if (!fby__mul_checked(t->n_keys + 1, k, &cells) || !fby__mul_checked(cells, 2 * sizeof *s->centre, &bytes) ||
        !(s->centre = fby__calloc(bytes, 1)))
        return fby__fail_nomem(err, "the moments");
    s->factor = s->centre + cells;
    for (size_t row = 0; row < t->n_keys; row++)
        for (size_t c = 0; c < k; c++) {
            double std = t->values[row * t->n_columns + k + c];
            s->centre[row * k + c] = t->values[row * t->n_columns + c];
            /* a constant column becomes 0; a group without values has no mean, and its values become NaN */
            s->factor[row * k + c] = std > 0 && isfinite(1 / std) ? 1 / std : 1;
        }
    for (size_t c = 0; c < k; c++)
        s->factor[t->n_keys * k + c] = 1;
    made->memory_bytes = bytes;
    return FBY_OK;
}

static fby_status create_standardize(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    const fby_make_standardize *o = &spec->make->standardize;
    if (!o->moments)
        return fby__fail(err, FBY_E_ARG, "output '%s': standardising by group without a table of moments", spec->output);
    FBY__TRY(fby__make_expect_columns(spec, "standardising by group (values, then the key)", 2, UINT32_MAX, err));
    standardize_state *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "standardising");
    *out_state = s;
    s->table = fby_lookup_ref(o->moments);
    s->has_default = o->has_default;
    s->has_fill_nan = o->has_fill_nan;
    s->fill_nan = o->fill_nan;
    s->n_columns = spec->n_columns - 1;
    if (!(s->from = fby__calloc(s->n_columns, sizeof *s->from)))
        return fby__fail_nomem(err, "standardising");
    FBY__TRY(check_values(spec, s, made, err));
    FBY__TRY(fby__key_create(spec, s->n_columns, s->table, &s->key, err));
    if (!s->key.text && spec->columns[s->n_columns].width != 1)
        return fby__make_refuse_column(spec, s->n_columns, "is no key: a key is one whole number or string a row", err);
    s->dtype = made->dtype = fby__make_dtype(spec, FBY_FLOAT32);
    if (!fby__dtype_is_float(s->dtype))
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': standardised values are floating-point, not %s: ask for float32 or another float dtype",
                         spec->output, fby_dtype_name(s->dtype));
    return copy_moments(spec, s, made, err);
}

/* Centres and factors of one group for the elements of as many rows as fit a tile. */
typedef struct group_tile {
    uint32_t row;   /* of the table */
    uint32_t times; /* rows that are filled */
    double centre[TILE], factor[TILE];
} group_tile;

static void fill_tile(const standardize_state *s, uint32_t row, uint32_t first, uint32_t n, uint32_t times, group_tile *t)
{
    const double *centre = s->centre + (size_t)row * s->n_columns, *factor = s->factor + (size_t)row * s->n_columns;
    for (uint32_t r = 0, at = 0; r < times; r++)
        for (uint32_t e = first; e < first + n; e++, at++) {
            t->centre[at] = centre[s->width > 1 ? 0 : e];
            t->factor[at] = factor[s->width > 1 ? 0 : e];
        }
    t->row = row;
    t->times = times;
}

/*
 * The same bits as FBY_OP_STANDARDIZE: centre, factor, float64, one rounding. The module is compiled without contraction. To float: false
 * when a finite result became infinite.
 */
#define LOOPS(NAME, TARGET)                                                                                                                \
    TARGET static void scale_##NAME(double *x, size_t n, const double *centre, const double *factor)                                       \
    {                                                                                                                                      \
        for (size_t i = 0; i < n; i++)                                                                                                     \
            x[i] = (x[i] - centre[i]) * factor[i];                                                                                         \
    }                                                                                                                                      \
    TARGET static bool scale_float_##NAME(float *restrict to, const float *restrict from, size_t n, const double *centre,                  \
                                          const double *factor)                                                                            \
    {                                                                                                                                      \
        unsigned bad = 0;                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                                                   \
            const double x = ((double)from[i] - centre[i]) * factor[i];                                                                    \
            to[i] = (float)x;                                                                                                              \
            bad |= (unsigned)FBY__OVERFLOWS_FLOAT(x);                                                                                      \
        }                                                                                                                                  \
        return bad == 0;                                                                                                                   \
    }
LOOPS(plain, )
#if defined(__x86_64__)
LOOPS(avx2, __attribute__((target("avx2"))))
#endif

static void scale(double *x, size_t n, const group_tile *t)
{
#if defined(__x86_64__)
    if (fby__cpu_has_avx2()) {
        scale_avx2(x, n, t->centre, t->factor);
        return;
    }
#endif
    scale_plain(x, n, t->centre, t->factor);
}

static bool scale_float(uint8_t *to, const uint8_t *from, size_t n, const group_tile *t)
{
    float *dst = (float *)(void *)to;
    const float *src = (const float *)(const void *)from;
#if defined(__x86_64__)
    if (fby__cpu_has_avx2())
        return scale_float_avx2(dst, src, n, t->centre, t->factor);
#endif
    return scale_float_plain(dst, src, n, t->centre, t->factor);
}

/* Do all columns lie side by side in one panel, as float32? Then a row's values are contiguous. */
static bool side_by_side(const standardize_state *s, const fby__make_job *job, uint64_t sample)
{
    const fby__make_view *v = job->views;
    bool yes = s->from[0] == FBY_FLOAT32;
    for (uint32_t c = 1; c < s->n_columns; c++)
        yes &= s->from[c] == FBY_FLOAT32 && v[c].row_bytes == v[0].row_bytes &&
               (uintptr_t)v[c].data[sample] == (uintptr_t)v[0].data[sample] + c * sizeof(float);
    return yes;
}

/* Elements [first, first + n) of rows [row, row + times) as float64, row after row. */
static void widen(const standardize_state *s, const fby__make_job *job, uint64_t sample, uint64_t row, uint32_t times, uint32_t first,
                  uint32_t n, double *x)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = s->width > 1 ? 0 : first + i;
        const fby__make_view *v = &job->views[c];
        const uint8_t *at = v->data[sample] + row * v->row_bytes + (s->width > 1 ? (size_t)(first + i) * fby_dtype_bytes(s->from[c]) : 0);
        for (uint32_t r = 0; r < times; r++, at += v->row_bytes) {
            if (s->from[c] == FBY_FLOAT32) {
                float f;
                memcpy(&f, at, sizeof f);
                x[r * n + i] = (double)f;
            } else {
                memcpy(&x[r * n + i], at, sizeof *x);
            }
        }
    }
}

/* Rows [row, row + n_rows) of a sample, all of one group. */
static fby_status standardize_rows(const standardize_state *s, const fby__make_job *job, uint64_t sample, uint64_t row, uint64_t n_rows,
                                   uint32_t group, group_tile *t, fby_error *err)
{
    const size_t elem = fby_dtype_bytes(s->dtype), out_bytes = s->elements * elem;
    const fby__make_view *v = job->views;
    uint8_t *dst = job->dst[sample] + row * out_bytes;
    const bool plain = side_by_side(s, job, sample) && s->dtype == FBY_FLOAT32 && !s->has_fill_nan;
    const bool packed = plain && v->row_bytes == s->elements * sizeof(float);
    bool fits = true;
    double x[TILE];
    size_t bad;
    for (uint32_t first = 0; first < s->elements; first += TILE) {
        const uint32_t n = s->elements - first < TILE ? s->elements - first : TILE, most = TILE / n;
        const uint32_t times = (uint32_t)fby__min_u64(most, n_rows);
        if (t->row != group || t->times < times || s->elements > TILE)
            fill_tile(s, group, first, n, times, t);
        for (uint64_t r = 0, k; r < n_rows; r += k) {
            k = fby__min_u64(times, n_rows - r);
            uint8_t *to = dst + r * out_bytes + first * elem;
            const uint8_t *from = v->data[sample] + (row + r) * v->row_bytes + first * sizeof(float);
            if (packed) {
                fits = scale_float(to, from, k * n, t);
            } else if (plain) {
                for (uint64_t i = 0; i < k; i++)
                    fits &= scale_float(to + i * out_bytes, from + i * v->row_bytes, n, t);
            } else {
                widen(s, job, sample, row + r, (uint32_t)k, first, n, x);
                scale(x, k * n, t);
                for (size_t i = 0; s->has_fill_nan && i < k * n; i++)
                    x[i] = isnan(x[i]) ? s->fill_nan : x[i];
                if (fby__convert(s->dtype, to, FBY_FLOAT64, x, k * n, FBY__SCALE_NONE, &bad) !=
                    FBY_OK) /* k > 1 only where a row is all of it */
                    return fby__make_fail_value(FBY_FLOAT64, (const uint8_t *)x, bad, s->dtype, err);
            }
            if (!fits)
                return fby__fail(err, FBY_E_DATA, "a standardised value does not fit float32; choose a wider dtype");
        }
    }
    return FBY_OK;
}

/* The groups of rows [row, row + n) of a sample; where the key is text, the first row's for all. */
static fby_status find_groups(const standardize_state *s, fby__make_job *job, uint64_t sample, uint64_t row, uint32_t n, uint32_t *groups,
                              fby_error *err)
{
    const fby__make_view *v = &job->views[s->n_columns];
    const uint8_t *valid = v->valid ? v->valid[sample] : NULL, *at = v->data[sample];
    bool none;
    if (s->key.text) {
        none = fby__key_find_first(&s->key, v, sample, 1, groups);
        for (uint32_t i = 1; i < n; i++)
            groups[i] = groups[0];
    } else {
        at += row * v->row_bytes;
        valid = valid ? valid + row * v->valid_bytes : NULL;
        none = fby__key_find_rows(&s->key, at, v->row_bytes, valid, v->valid_bytes, n, groups);
    }
    if (!none)
        return FBY_OK;
    if (!s->has_default) {
        uint32_t i = first_none(groups);
        job->bad = sample;
        return fby__key_fail(&s->key, at + i * (s->key.text ? 0 : v->row_bytes), v->count ? v->count[sample] : 0,
                             valid ? valid + i * v->valid_bytes : NULL, err);
    }
    for (uint32_t i = 0; i < n; i++)
        if (groups[i] == FBY__LOOKUP_NONE)
            groups[i] = (uint32_t)s->table->n_keys;
    return FBY_OK;
}

static fby_status run_standardize(const void *state, fby__make_job *job, fby_error *err)
{
    const standardize_state *s = state;
    uint32_t groups[FBY__KEY_TILE];
    group_tile t;
    t.row = FBY__LOOKUP_NONE;
    t.times = 0;
    for (uint64_t i = 0; i < job->n; i++)
        for (uint64_t row = 0; row < job->n_rows[i]; row += FBY__KEY_TILE) {
            uint32_t n = (uint32_t)fby__min_u64(FBY__KEY_TILE, job->n_rows[i] - row);
            FBY__TRY(find_groups(s, job, i, row, n, groups, err));
            for (uint32_t from = 0, to; from < n; from = to) {
                for (to = from + 1; to < n && groups[to] == groups[from]; to++)
                    ;
                fby_status status = standardize_rows(s, job, i, row + from, to - from, groups[from], &t, err);
                if (status != FBY_OK) {
                    job->bad = i;
                    return status;
                }
            }
        }
    return FBY_OK;
}

const fby__maker_ops fby__maker_standardize = {create_standardize, destroy_standardize, run_standardize};
