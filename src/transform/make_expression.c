/*
 * Expressions: columns of numbers to one number, computed in float64; or in int64, where columns and operations are those of whole numbers.
 *
 * Values are taken from rows in blocks, widened, computed with, rounded to the output's dtype and put where results go. In float64 a missing
 * value is NaN, so columns that may be missing are read as such; in int64 flags say what is missing, which is NaN in outputs of floats and an
 * error in others. Arrays are computed with element by element, and all have one shape.
 */
#include "transform/maker_internal.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "transform/expression.h"
#include "transform/make_values.h"

#include <string.h>

_Static_assert((int)FBY__EXPR_BLOCK == (int)FBY__MAKE_BLOCK, "one size of block");

enum { MAX_COLUMNS = 1024 };

typedef struct expression {
    fby__expression code;
    fby_dtype dtype;
    size_t bytes;
    uint32_t width, n_columns;
    bool is_whole;            /* computed in int64 */
    fby_dtype column_dtype[]; /* n_columns */
} expression;

static void destroy_expression(void *state)
{
    expression *x = state;
    if (x)
        fby__expression_fini(&x->code);
    fby__free(x);
}

static fby_status check_column(const fby__make_spec *spec, uint32_t i, fby_error *err)
{
    const fby__make_column *c = &spec->columns[i];
    const fby__make_column *first = &spec->columns[0];
    if (c->kind != FBY__PANEL_DENSE || c->field->kind == FBY_KIND_FIXED_BINARY)
        return fby__make_refuse_column(spec, i, "cannot be computed with: numbers, bools, times and arrays of them can", err);
    if (c->n_axes != first->n_axes || memcmp(c->axes, first->axes, (size_t)c->n_axes * sizeof *c->axes) != 0)
        return fby__fail(err, FBY_E_ARG,
                         "output '%s': '%s' and '%s' differ in shape (%u and %u values a row): they cannot be computed with "
                         "one another",
                         spec->output, first->name, c->name, first->width, c->width);
    return FBY_OK;
}

/* In int64 where every column holds whole numbers and the code keeps them whole. */
static void choose_arithmetic(fby__make_spec *spec, expression *x)
{
    x->is_whole = fby__expression_is_whole(&x->code);
    for (uint32_t i = 0; i < spec->n_columns; i++)
        x->is_whole &= !fby__dtype_is_float(spec->columns[i].dtype);
    for (uint32_t i = 0; i < spec->n_columns; i++) {
        fby__make_column *c = &spec->columns[i];
        if (x->is_whole) {
            c->dtype = FBY_INT64;
            c->want_valid = c->nullable;
        } else if (c->nullable && c->dtype < FBY_FLOAT16) {
            c->dtype = FBY_FLOAT64;
        }
        x->column_dtype[i] = c->dtype;
    }
}

static fby_status parse(const fby__make_spec *spec, expression *x, fby_error *err)
{
    const char **names = fby__calloc(spec->n_columns, sizeof *names);
    if (!names)
        return fby__fail_nomem(err, "an expression");
    for (uint32_t i = 0; i < spec->n_columns; i++)
        names[i] = spec->columns[i].name;
    const fby_status status = fby__expression_parse(spec->make->expression.text, names, spec->n_columns, &x->code, err);
    fby__free(names);
    if (status != FBY_OK)
        fby__error_context(err, "output '%s'", spec->output);
    return status;
}

/* Columns, operands, and what is stored, in blocks. */
static size_t scratch_bytes(const expression *x)
{
    return ((size_t)x->n_columns * FBY__EXPR_BLOCK + fby__expression_scratch(&x->code) + FBY__EXPR_BLOCK) * sizeof(double);
}

static fby_status create_expression(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    FBY__TRY(fby__make_expect_columns(spec, "an expression", 1, MAX_COLUMNS, err));
    const size_t bytes = sizeof(expression) + spec->n_columns * sizeof(fby_dtype);
    expression *x = fby__calloc(1, bytes);
    if (!x)
        return fby__fail_nomem(err, "an expression");
    *out_state = x;
    x->n_columns = spec->n_columns;
    for (uint32_t i = 0; i < spec->n_columns; i++)
        FBY__TRY(check_column(spec, i, err));
    FBY__TRY(parse(spec, x, err));
    choose_arithmetic(spec, x);
    const fby__make_column *first = &spec->columns[0];
    x->dtype = fby__make_dtype(spec, x->is_whole ? FBY_INT64 : FBY_FLOAT32);
    x->bytes = fby_dtype_bytes(x->dtype);
    x->width = first->width;
    *made = (fby__made){.dtype = x->dtype,
                        .ndim = first->n_axes,
                        .memory_bytes = bytes + x->code.cap * sizeof *x->code.instructions,
                        .scratch_bytes = scratch_bytes(x)};
    memcpy(made->shape, first->axes, (size_t)first->n_axes * sizeof *made->shape);
    return FBY_OK;
}

/* ---- whole numbers ---- */

/* Which of the next n values are there in all columns. */
static void find_there(const expression *x, const fby__make_job *job, fby__make_cursor begin, size_t n, uint8_t *there)
{
    uint8_t flags[FBY__EXPR_BLOCK];
    memset(there, 1, n);
    for (uint32_t c = 0; c < x->n_columns; c++) {
        if (!job->views[c].valid)
            continue;
        fby__make_next_valid(job, &job->views[c], x->width, begin, n, flags);
        for (size_t k = 0; k < n; k++)
            there[k] &= flags[k] != 0;
    }
}

/* Nothing of what a missing value was computed to is left: it might not fit the dtype. */
static const int64_t *drop_missing(const int64_t *result, const uint8_t *there, size_t n, int64_t *scratch)
{
    if (!memchr(there, 0, n))
        return result;
    memmove(scratch, result, n * sizeof *scratch);
    for (size_t k = 0; k < n; k++)
        scratch[k] = there[k] ? scratch[k] : 0;
    return scratch;
}

/* Results that are missing are NaN, in `stored`; of whole numbers there is none: the first is in *bad. */
static fby_status put_missing(const expression *x, const uint8_t *there, size_t n, uint8_t *stored, size_t *bad, fby_error *err)
{
    fby__scalar nan = {0};
    const bool is_float = fby__dtype_is_float(x->dtype) && fby__scalar_set(x->dtype, (double)__builtin_nan(""), &nan);
    for (size_t k = 0; k < n; k++) {
        if (there[k])
            continue;
        *bad = k;
        if (!is_float)
            return fby__fail(err, FBY_E_DATA, "a value of the expression is missing, and %s has no NaN: dtype float32 or float64 has",
                             fby_dtype_name(x->dtype));
        memcpy(stored + k * x->bytes, nan.bytes, x->bytes);
    }
    return FBY_OK;
}

static fby_status run_whole(const expression *x, fby__make_job *job, fby_error *err)
{
    int64_t *memory = fby__make_scratch_get(job->scratch, scratch_bytes(x));
    if (!memory)
        return fby__fail_nomem(err, "an expression");
    const int64_t *columns[MAX_COLUMNS];
    int64_t *stored = memory + (size_t)x->n_columns * FBY__EXPR_BLOCK, *scratch = stored + FBY__EXPR_BLOCK;
    uint8_t there[FBY__EXPR_BLOCK];
    for (fby__make_cursor in = {0}, out = {0};;) {
        const fby__make_cursor begin = in;
        const char *what = NULL;
        size_t n = 0, bad = 0;
        for (uint32_t c = 0; c < x->n_columns; c++) {
            in = begin;
            columns[c] = memory + (size_t)c * FBY__EXPR_BLOCK;
            n = fby__make_next(job, &job->views[c], sizeof(int64_t), x->width, &in, FBY__EXPR_BLOCK, memory + (size_t)c * FBY__EXPR_BLOCK);
        }
        if (n == 0)
            return FBY_OK;
        find_there(x, job, begin, n, there);
        const int64_t *result = fby__expression_run_whole(&x->code, columns, there, n, scratch, &bad, &what);
        fby_status status = FBY_OK;
        result = result ? drop_missing(result, there, n, scratch) : NULL;
        if (!result) {
            status = fby__fail(err, FBY_E_DATA, "the expression %s", what);
        } else if (fby__convert(x->dtype, stored, FBY_INT64, result, n, FBY__SCALE_NONE, &bad) != FBY_OK) {
            status = fby__make_fail_value(FBY_INT64, (const uint8_t *)result, bad, x->dtype, err);
        } else {
            status = put_missing(x, there, n, (uint8_t *)stored, &bad, err);
        }
        if (status != FBY_OK) {
            job->bad = fby__make_sample_of(job, x->width, begin, bad);
            return status;
        }
        fby__make_put(job, x->bytes, x->width, &out, n, stored);
    }
}

/* ---- floats ---- */

static fby_status run_floats(const expression *x, fby__make_job *job, fby_error *err)
{
    double *memory = fby__make_scratch_get(job->scratch, scratch_bytes(x));
    if (!memory)
        return fby__fail_nomem(err, "an expression");
    const double *columns[MAX_COLUMNS];
    double *stored = memory + (size_t)x->n_columns * FBY__EXPR_BLOCK, *scratch = stored + FBY__EXPR_BLOCK;
    for (uint32_t c = 0; c < x->n_columns; c++)
        columns[c] = memory + (size_t)c * FBY__EXPR_BLOCK;
    for (fby__make_cursor in = {0}, out = {0};;) {
        const fby__make_cursor begin = in;
        size_t n = 0, bad;
        for (uint32_t c = 0; c < x->n_columns; c++) {
            const fby_dtype dtype = x->column_dtype[c];
            in = begin;
            n = fby__make_next(job, &job->views[c], fby_dtype_bytes(dtype), x->width, &in, FBY__EXPR_BLOCK, stored);
            (void)fby__convert(FBY_FLOAT64, memory + (size_t)c * FBY__EXPR_BLOCK, dtype, stored, n, FBY__SCALE_NONE,
                               &bad); /* any number is one */
        }
        if (n == 0)
            return FBY_OK;
        const double *result = fby__expression_run(&x->code, columns, n, scratch);
        if (fby__convert(x->dtype, stored, FBY_FLOAT64, result, n, FBY__SCALE_NONE, &bad) != FBY_OK) {
            job->bad = fby__make_sample_of(job, x->width, begin, bad);
            return fby__fail(err, FBY_E_DATA, "the expression's value %g is no %s", result[bad], fby_dtype_name(x->dtype));
        }
        fby__make_put(job, x->bytes, x->width, &out, n, stored);
    }
}

static fby_status run_expression(const void *state, fby__make_job *job, fby_error *err)
{
    const expression *x = state;
    return x->is_whole ? run_whole(x, job, err) : run_floats(x, job, err);
}

const fby__maker_ops fby__maker_expression = {create_expression, destroy_expression, run_expression};
