/*
 * Some places of the axes of arrays: what is kept of a row's value lies in runs of elements, which are the same for every row.
 *
 *   (3, 4)[:, 1:3]     a b c d          b c
 *                      e f g h    →     f g      runs: (1, 2) (5, 2) (9, 2)
 *                      i j k l          j k
 *
 * Floats may lie in the panel in another dtype than the output's; what is kept of a row is brought together first and converted then.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "block/convert.h"
#include "transform/maker_internal.h"

#include <inttypes.h>
#include <string.h>

#define MAX_RUNS (UINT32_C(1) << 24)

typedef struct run {
    uint32_t from, n; /* elements of a row's value */
} run;

typedef struct selection {
    run *runs; /* owned */
    size_t n_runs, cap_runs;
    size_t n_elements; /* that are kept */
    fby_dtype stored, dtype;
    bool refuses_missing;
} selection;

/** The places of one axis: from begin on, `step` apart; or those of the list. */
typedef struct axis {
    int64_t size, begin, n;
    uint64_t step;
    const int64_t *places; /* NULL */
} axis;

static int64_t place_of(const axis *a, int64_t i)
{
    const int64_t place = a->places ? a->places[i] : a->begin + i * (int64_t)a->step;
    return place < 0 ? place + a->size : place;
}

/* ---- opening ---- */

static int64_t clamp(int64_t place, int64_t size)
{
    const int64_t at = place < 0 ? place + size : place;
    return at < 0 ? 0 : at > size ? size : at;
}

static fby_status find_places(const fby__make_spec *spec, int32_t d, const fby_axis_places *asked, axis *a, fby_error *err)
{
    const char *output = spec->output, *column = spec->columns[0].name;
    if (asked->drop_axis && asked->n_places != 1)
        return fby__fail(err, FBY_E_ARG, "output '%s': an axis goes when one place of it is taken, not %zu", output, asked->n_places);
    if (asked->places) {
        a->places = asked->places;
        a->n = (int64_t)asked->n_places;
        for (size_t i = 0; i < asked->n_places; i++)
            if (asked->places[i] >= a->size || asked->places[i] < -a->size)
                return fby__fail(err, FBY_E_ARG, "output '%s': there is no place %" PRId64 " on axis %d of column '%s': it has %" PRId64,
                                 output, asked->places[i], d, column, a->size);
    } else {
        const int64_t end = asked->end ? clamp(asked->end, a->size) : a->size;
        a->begin = clamp(asked->begin, a->size);
        a->step = asked->step ? asked->step : 1;
        a->n = end > a->begin ? (int64_t)(((uint64_t)(end - a->begin) - 1) / a->step) + 1 : 0;
    }
    if (a->n == 0)
        return fby__fail(err, FBY_E_ARG, "output '%s': no place is taken of axis %d of column '%s', which has %" PRId64, output, d, column,
                         a->size);
    return FBY_OK;
}

static fby_status add_element(selection *s, uint64_t element, fby_error *err)
{
    run *last = s->n_runs ? &s->runs[s->n_runs - 1] : NULL;
    s->n_elements++;
    if (last && element == (uint64_t)last->from + last->n) {
        last->n++;
        return FBY_OK;
    }
    if (s->n_runs == MAX_RUNS || s->n_elements > UINT32_MAX)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a selection of more than %u separate runs of values", MAX_RUNS);
    if (fby__grow((void **)&s->runs, &s->cap_runs, s->n_runs + 1, sizeof *s->runs) < 0)
        return fby__fail_nomem(err, "a selection");
    s->runs[s->n_runs++] = (run){.from = (uint32_t)element, .n = 1};
    return FBY_OK;
}

/* Every element that is kept, in the order of the result. */
static fby_status find_runs(selection *s, const axis *axes, int32_t n_axes, fby_error *err)
{
    int64_t at[FBY_MAX_DIMS] = {0};
    for (;;) {
        uint64_t element = 0;
        for (int32_t d = 0; d < n_axes; d++)
            element = element * (uint64_t)axes[d].size + (uint64_t)place_of(&axes[d], at[d]);
        FBY__TRY(add_element(s, element, err));
        int32_t d = n_axes - 1;
        while (d >= 0 && ++at[d] == axes[d].n)
            at[d--] = 0;
        if (d < 0)
            return FBY_OK;
    }
}

static fby_status choose_dtype(fby__make_spec *spec, selection *s, fby__made *made, fby_error *err)
{
    fby__make_column *c = &spec->columns[0];
    made->dtype = s->dtype = fby__make_dtype(spec, c->computed && !fby__dtype_is_float(c->stored) ? FBY_FLOAT32 : c->stored);
    if (c->computed && !fby__dtype_is_float(s->dtype))
        return fby__fail(err, FBY_E_ARG, "output '%s': operations give floats, not %s", spec->output, fby_dtype_name(s->dtype));
    if (!fby__dtype_is_float(c->dtype) || !fby__dtype_is_float(s->dtype))
        c->dtype = s->dtype;
    s->stored = c->dtype;
    s->refuses_missing = c->want_valid = c->nullable && !fby__dtype_is_float(c->dtype);
    return FBY_OK;
}

static fby_status prepare(fby__make_spec *spec, selection *s, fby__made *made, fby_error *err)
{
    const fby_make_select *asked = &spec->make->select;
    const fby__make_column *c = &spec->columns[0];
    axis axes[FBY_MAX_DIMS];
    FBY__TRY(fby__make_expect_columns(spec, "a selection", 1, 1, err));
    if (c->kind != FBY__PANEL_DENSE || c->n_axes == 0)
        return fby__make_refuse_column(
            spec, 0, "has no axes to select from: arrays of numbers have; the first of a list: .padded(n, keep=\"first\")", err);
    if (asked->n_axes == 0 || !asked->axes || asked->n_axes > (size_t)c->n_axes)
        return fby__fail(err, FBY_E_ARG, "output '%s': places of %zu axes, and a row of column '%s' has %d", spec->output, asked->n_axes,
                         c->name, c->n_axes);
    const int32_t first = asked->of_last ? c->n_axes - (int32_t)asked->n_axes : 0;
    for (int32_t d = 0; d < c->n_axes; d++) {
        const bool is_asked = d >= first && (size_t)(d - first) < asked->n_axes;
        const fby_axis_places all = {0}, *places = is_asked ? &asked->axes[d - first] : &all;
        axes[d] = (axis){.size = c->axes[d]};
        FBY__TRY(find_places(spec, d, places, &axes[d], err));
        if (!places->drop_axis)
            made->shape[made->ndim++] = axes[d].n;
    }
    FBY__TRY(choose_dtype(spec, s, made, err));
    const fby_status status = find_runs(s, axes, c->n_axes, err);
    if (status != FBY_OK)
        fby__error_context(err, "output '%s'", spec->output);
    made->memory_bytes = sizeof *s + s->cap_runs * sizeof *s->runs;
    made->scratch_bytes = s->stored == s->dtype ? 0 : s->n_elements * fby_dtype_bytes(s->stored);
    return status;
}

static void destroy_selection(void *state)
{
    selection *s = state;
    if (s)
        fby__free(s->runs);
    fby__free(s);
}

static fby_status create_selection(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    selection *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "a selection");
    *out_state = s;
    return prepare(spec, s, made, err);
}

/* ---- running ---- */

/* A constant size makes a run of one element one move. */
static inline __attribute__((always_inline)) void copy_runs(const selection *s, uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t i = 0; i < s->n_runs; i++) {
        const run r = s->runs[i];
        if (r.n == 1)
            memcpy(to, from + r.from * bytes, bytes);
        else
            memcpy(to, from + r.from * bytes, r.n * bytes);
        to += r.n * bytes;
    }
}

static void copy(const selection *s, uint8_t *to, const uint8_t *from)
{
    switch (fby_dtype_bytes(s->stored)) {
    case 1: copy_runs(s, to, from, 1); break;
    case 2: copy_runs(s, to, from, 2); break;
    case 4: copy_runs(s, to, from, 4); break;
    default: copy_runs(s, to, from, 8); break;
    }
}

static fby_status select_row(const selection *s, uint8_t *to, const uint8_t *from, uint8_t *scratch, fby_error *err)
{
    size_t bad;
    copy(s, scratch ? scratch : to, from);
    if (!scratch || fby__convert(s->dtype, to, s->stored, scratch, s->n_elements, FBY__SCALE_NONE, &bad) == FBY_OK)
        return FBY_OK;
    return fby__make_fail_value(s->stored, scratch, bad, s->dtype, err);
}

static fby_status run_selection(const void *state, fby__make_job *job, fby_error *err)
{
    const selection *s = state;
    const fby__make_view *v = &job->views[0];
    const size_t bytes = s->n_elements * fby_dtype_bytes(s->dtype);
    uint8_t *scratch = NULL;
    if (s->stored != s->dtype && !(scratch = fby__make_scratch_get(job->scratch, s->n_elements * fby_dtype_bytes(s->stored))))
        return fby__fail_nomem(err, "a selection");
    for (uint64_t i = 0; i < job->n; i++)
        for (uint64_t r = 0; r < job->n_rows[i]; r++) {
            fby_status status;
            if (s->refuses_missing && v->valid && !v->valid[i][r * v->valid_bytes])
                status = fby__fail(err, FBY_E_DATA, "a value is missing; " FBY__NULL_ADVICE);
            else
                status = select_row(s, job->dst[i] + r * bytes, v->data[i] + r * v->row_bytes, scratch, err);
            if (status != FBY_OK) {
                job->bad = i;
                return status;
            }
        }
    return FBY_OK;
}

const fby__maker_ops fby__maker_select = {create_selection, destroy_selection, run_selection};
