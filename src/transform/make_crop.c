/*
 * A run of `length` out of the rows of a sample, or out of the first axis of an array.
 *
 * Where it begins is drawn for sample and epoch, and for the two lengths alone: outputs that crop the same sample alike begin at the same
 * index, so that an input and its target stay side by side.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "transform/maker_internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct crop {
    uint64_t length, begin, seed;
    bool random;
    bool of_rows;    /* else of an axis */
    uint64_t n_axis; /* steps of that axis; of lists 0 */
    size_t n_each;   /* values of a step of one column */
    fby_dtype dtype;
    fby_dtype *stored; /* owned; of columns. Floats may wait in another dtype than the output's; else it is that */
    uint32_t n_columns;
} crop;

static bool same_shape(const fby__make_column *a, const fby__make_column *b)
{
    return a->kind == b->kind && a->n_axes == b->n_axes && memcmp(a->axes, b->axes, (size_t)a->n_axes * sizeof *a->axes) == 0;
}

/* Shorter than what is to be cut out, as far as that is known. */
static fby_status check_length(const fby__make_spec *spec, const crop *c, fby_error *err)
{
    const uint64_t most = c->of_rows ? spec->max_rows : c->n_axis;
    uint64_t need;
    if (!fby__add_u64_checked(c->length, c->random ? 0 : c->begin, &need))
        need = UINT64_MAX;
    if (c->length == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s': a crop of length 0", spec->output);
    if (need <= most || (!c->of_rows && spec->columns[0].kind == FBY__PANEL_RAGGED))
        return FBY_OK;
    if (c->random)
        return fby__fail(err, FBY_E_ARG, "output '%s': a crop of %" PRIu64 " steps: %s %" PRIu64, spec->output, c->length,
                         c->of_rows ? "no sample has more rows than" : "the first axis has", most);
    return fby__fail(err, FBY_E_ARG, "output '%s': a crop of %" PRIu64 " steps from step %" PRIu64 " on: %s %" PRIu64, spec->output,
                     c->length, c->begin, c->of_rows ? "no sample has more rows than" : "the first axis has", most);
}

static fby_status add_axis(const fby__make_spec *spec, fby__made *made, int64_t n, fby_error *err)
{
    if (made->ndim == FBY_MAX_DIMS - 1)
        return fby__fail(err, FBY_E_UNSUPPORTED, "output '%s': a tensor of more than %d axes", spec->output, FBY_MAX_DIMS);
    made->shape[made->ndim++] = n;
    return FBY_OK;
}

static fby_status find_shape(fby__make_spec *spec, crop *c, fby__made *made, fby_error *err)
{
    const fby__make_column *first = &spec->columns[0];
    const bool is_list = first->kind == FBY__PANEL_RAGGED;
    const int32_t cut = c->of_rows || is_list ? 0 : 1; /* axes of a value that the crop stands for */
    FBY__TRY(add_axis(spec, made, (int64_t)c->length, err));
    if (spec->n_columns > 1 || spec->keep_axis)
        FBY__TRY(add_axis(spec, made, spec->n_columns, err));
    for (int32_t d = cut; d < first->n_axes; d++)
        FBY__TRY(add_axis(spec, made, first->axes[d], err));
    c->n_each = is_list ? 1 : c->of_rows || !c->n_axis ? first->width : first->width / c->n_axis;
    size_t bytes = c->n_each * fby_dtype_bytes(made->dtype);
    if (!fby__mul_checked(bytes, spec->n_columns, &bytes) || !fby__mul_checked(bytes, (size_t)c->length, &bytes) || bytes > PTRDIFF_MAX)
        return fby__fail(err, FBY_E_ARG, "output '%s': a crop of %" PRIu64 " steps is too large", spec->output, c->length);
    return FBY_OK;
}

/* What it is in an output by default. */
static fby_dtype own_dtype(const fby__make_column *c) { return c->computed && !fby__dtype_is_float(c->stored) ? FBY_FLOAT32 : c->stored; }

static fby_status prepare(fby__make_spec *spec, crop *c, fby__made *made, fby_error *err)
{
    FBY__TRY(fby__make_expect_columns(spec, "a crop", 1, UINT32_MAX, err));
    const fby_make_crop *asked = &spec->make->crop;
    *c = (crop){.length = asked->length, .begin = asked->begin, .seed = spec->seed, .random = asked->random, .n_columns = spec->n_columns};
    c->of_rows = spec->max_rows != 1;
    const fby__make_column *first = &spec->columns[0];
    fby_dtype dtype = own_dtype(first);
    bool is_computed = false;
    for (uint32_t i = 0; i < spec->n_columns; i++) {
        const fby__make_column *column = &spec->columns[i];
        if (column->kind == FBY__PANEL_BYTES || (c->of_rows && column->kind != FBY__PANEL_DENSE))
            return fby__make_refuse_column(spec, i, "cannot be cropped: rows or arrays of numbers are expected", err);
        if (!c->of_rows && column->kind == FBY__PANEL_DENSE && column->n_axes == 0)
            return fby__make_refuse_column(spec, i, "has no axis to crop, and the sample is one row", err);
        if (!same_shape(first, column))
            return fby__make_refuse_column(spec, i, "has another shape than the columns before it: give it an output of its own", err);
        if (own_dtype(column) != dtype)
            dtype = FBY_FLOAT32;
        is_computed |= column->computed;
    }
    c->n_axis = !c->of_rows && first->kind == FBY__PANEL_DENSE ? (uint64_t)first->axes[0] : 0;
    FBY__TRY(check_length(spec, c, err));
    made->of_sample = true;
    made->dtype = c->dtype = fby__make_dtype(spec, dtype);
    if (is_computed && !fby__dtype_is_float(made->dtype))
        return fby__fail(err, FBY_E_ARG, "output '%s': operations give floats, not %s", spec->output, fby_dtype_name(made->dtype));
    if (!(c->stored = fby__calloc(spec->n_columns, sizeof *c->stored)))
        return fby__fail_nomem(err, "a crop");
    for (uint32_t i = 0; i < spec->n_columns; i++) {
        fby__make_column *column = &spec->columns[i];
        if (!fby__dtype_is_float(column->dtype) || !fby__dtype_is_float(made->dtype))
            column->dtype = made->dtype;
        column->want_valid = column->nullable && !fby__dtype_is_float(column->dtype); /* of floats a missing value is NaN */
        c->stored[i] = column->dtype;
    }
    return find_shape(spec, c, made, err);
}

static void destroy_crop(void *state)
{
    crop *c = state;
    if (c)
        fby__free(c->stored);
    fby__free(c);
}

static fby_status create_crop(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    crop *c = fby__calloc(1, sizeof *c);
    if (!c)
        return fby__fail_nomem(err, "a crop");
    *out_state = c;
    return prepare(spec, c, made, err);
}

/* ---- running ---- */

static fby_status choose(const crop *c, const fby__make_job *job, uint64_t i, uint64_t total, uint64_t *out_begin, fby_error *err)
{
    *out_begin = c->begin;
    if (total < c->length || (!c->random && total - c->length < c->begin))
        return c->random || c->begin == 0
                   ? fby__fail(err, FBY_E_DATA, "%" PRIu64 " steps: %" PRIu64 " are to be cut out", total, c->length)
                   : fby__fail(err, FBY_E_DATA, "%" PRIu64 " steps: %" PRIu64 " are to be cut out from step %" PRIu64 " on", total,
                               c->length, c->begin);
    if (c->random) {
        const uint64_t purpose = fby__random_u64(total, c->length, 0x43524f50); /* the lengths, and nothing of the output */
        fby__random r = fby__make_random(c->seed, job->epoch, job->id[i], purpose);
        *out_begin = fby__random_below(&r, total - c->length + 1);
    }
    return FBY_OK;
}

/* Steps of n_each values, `stride` bytes apart, to_stride bytes apart. */
static fby_status copy_steps(const crop *c, uint8_t *to, size_t to_stride, fby_dtype stored, const uint8_t *from, size_t stride,
                             fby_error *err)
{
    const size_t bytes = c->n_each * fby_dtype_bytes(stored), to_bytes = c->n_each * fby_dtype_bytes(c->dtype);
    const bool is_run = stride == bytes && to_stride == to_bytes;
    const uint64_t n = is_run ? 1 : c->length;
    const size_t n_each = is_run ? (size_t)c->length * c->n_each : c->n_each;
    if (stored != c->dtype) {
        size_t bad;
        for (uint64_t k = 0; k < n; k++)
            if (fby__convert(c->dtype, to + (size_t)k * to_stride, stored, from + (size_t)k * stride, n_each, FBY__SCALE_NONE, &bad) !=
                FBY_OK)
                return fby__make_fail_value(stored, from + (size_t)k * stride, bad, c->dtype, err);
        return FBY_OK;
    }
#define COPY(size)                                                                                                                         \
    for (uint64_t k = 0; k < n; k++)                                                                                                       \
        memcpy(to + (size_t)k * to_stride, from + (size_t)k * stride, (size));
    switch (is_run ? 0 : bytes) {
    case 0: memcpy(to, from, n_each * fby_dtype_bytes(stored)); break;
    case 2: COPY(2) break;
    case 4: COPY(4) break;
    case 8: COPY(8) break;
    default: COPY(bytes) break;
    }
#undef COPY
    return FBY_OK;
}

/* Missing values of dtypes that have no NaN; v has flags for these alone, and one for the whole of an array. */
static fby_status check_missing(const crop *c, const fby__make_view *v, uint64_t sample, uint64_t begin, fby_error *err)
{
    for (uint64_t k = 0; v->valid && k < (c->of_rows ? c->length : 1); k++)
        if (!v->valid[sample][(c->of_rows ? begin + k : 0) * v->valid_bytes])
            return fby__fail(err, FBY_E_DATA, "a value is missing; " FBY__NULL_ADVICE);
    return FBY_OK;
}

static fby_status run_crop(const void *state, fby__make_job *job, fby_error *err)
{
    const crop *c = state;
    for (uint64_t i = 0; i < job->n; i++) {
        uint64_t known = 0, begin = 0;
        for (uint32_t k = 0; k < c->n_columns; k++) {
            const fby__make_view *v = &job->views[k];
            const uint64_t total = c->of_rows ? job->n_rows[i] : v->count ? v->count[i] : c->n_axis;
            fby_status status = FBY_OK;
            if (k == 0) {
                known = total;
                status = choose(c, job, i, total, &begin, err);
            } else if (total != known)
                status = fby__fail(err, FBY_E_DATA, "lists of %" PRIu64 " and %" PRIu64 " values cannot be cropped together", known, total);
            const size_t to_bytes = c->n_each * fby_dtype_bytes(c->dtype);
            const size_t stride = c->of_rows ? v->row_bytes : c->n_each * fby_dtype_bytes(c->stored[k]);
            if (status == FBY_OK && !fby__dtype_is_float(c->stored[k]))
                status = check_missing(c, v, i, begin, err);
            if (status == FBY_OK)
                status = copy_steps(c, job->dst[i] + k * to_bytes, c->n_columns * to_bytes, c->stored[k],
                                    v->data[i] + (size_t)begin * stride, stride, err);
            if (status != FBY_OK) {
                job->bad = i;
                return status;
            }
        }
    }
    return FBY_OK;
}

const fby__maker_ops fby__maker_crop = {create_crop, destroy_crop, run_crop};
