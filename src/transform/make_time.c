/* Dates, timestamps and durations as whole numbers of a unit: from integer to integer, checked, rounded down. */
#include "base/alloc.h"
#include "block/convert.h"
#include "transform/make_values.h"
#include "transform/maker_internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct time_unit {
    fby__scale scale;
    uint32_t width;
    fby_unit unit;
    bool refuses_missing;
} time_unit;

static const int64_t UNIT_NS[] = {
    [FBY_UNIT_NONE] = 0, [FBY_UNIT_S] = 1000000000, [FBY_UNIT_MS] = 1000000, [FBY_UNIT_US] = 1000, [FBY_UNIT_NS] = 1};

static fby_status check_column(const fby__make_spec *spec, fby_error *err)
{
    const fby__make_column *c = &spec->columns[0];
    const bool is_duration = spec->make->time.is_duration;
    const fby_kind kind = c->field->kind;
    const bool is_time = kind == FBY_KIND_DATE || kind == FBY_KIND_TIMESTAMP;
    const bool is_text = c->kind == FBY__PANEL_BYTES || kind == FBY_KIND_STRING || kind == FBY_KIND_BINARY;
    const char *what = is_text ? "holds strings: " FBY__TEXT_TIMES
                       : c->kind != FBY__PANEL_DENSE
                           ? "holds lists of times: take them without the cast, as whole numbers in the file's own "
                             "unit (single times, and arrays, are cast)"
                       : c->computed            ? "is computed with: a time is a whole number, which operations make a float"
                       : is_time && is_duration ? "is no duration: ask for a timestamp"
                       : kind == FBY_KIND_DURATION && !is_duration ? "is no timestamp: ask for a duration"
                       : kind != FBY_KIND_DURATION && !is_time     ? "holds no times: dates, timestamps and durations have a unit"
                                                                   : NULL;
    if (what)
        return fby__make_refuse_column(spec, 0, what, err);
    return FBY_OK;
}

static fby_status create_time(fby__make_spec *spec, void **out_state, fby__made *made, fby_error *err)
{
    FBY__TRY(fby__make_expect_columns(spec, "a time in a unit", 1, 1, err));
    const fby_unit unit = spec->make->time.unit;
    if (unit <= FBY_UNIT_NONE || unit > FBY_UNIT_NS)
        return fby__fail(err, FBY_E_ARG, "output '%s': a time has the unit s, ms, us or ns", spec->output);
    if (fby__make_dtype(spec, FBY_INT64) != FBY_INT64)
        return fby__fail(err, FBY_E_ARG, "output '%s': times in a unit are int64, not %s", spec->output, fby_dtype_name(spec->dtype));
    FBY__TRY(check_column(spec, err));
    time_unit *t = fby__calloc(1, sizeof *t);
    if (!t)
        return fby__fail_nomem(err, "a time");
    *out_state = t;
    fby__make_column *c = &spec->columns[0];
    const int64_t from = c->field->kind == FBY_KIND_DATE ? 86400000000000 : UNIT_NS[c->field->unit], to = UNIT_NS[unit];
    t->scale = (fby__scale){.mul = from > to ? from / to : 1, .div = from < to ? to / from : 1};
    t->unit = unit;
    t->width = c->width;
    c->dtype = FBY_INT64;
    t->refuses_missing = c->want_valid = c->nullable;
    *made = (fby__made){.dtype = FBY_INT64, .ndim = c->n_axes};
    memcpy(made->shape, c->axes, (size_t)c->n_axes * sizeof *made->shape);
    return FBY_OK;
}

static fby_status run_time(const void *state, fby__make_job *job, fby_error *err)
{
    const time_unit *t = state;
    int64_t values[FBY__MAKE_BLOCK], scaled[FBY__MAKE_BLOCK];
    uint8_t there[FBY__MAKE_BLOCK];
    for (fby__make_cursor in = {0}, out = {0};;) {
        const fby__make_cursor begin = in;
        size_t bad = 0;
        const size_t n = fby__make_next(job, &job->views[0], sizeof *values, t->width, &in, FBY__MAKE_BLOCK, values);
        if (n == 0)
            return FBY_OK;
        const bool has_flags = t->refuses_missing && job->views[0].valid;
        if (has_flags)
            fby__make_next_valid(job, &job->views[0], t->width, begin, n, there);
        for (size_t i = 0; has_flags && i < n; i++)
            if (!there[i]) {
                job->bad = fby__make_sample_of(job, t->width, begin, i);
                return fby__fail(err, FBY_E_DATA, "a time is missing; " FBY__NULL_ADVICE);
            }
        if (fby__convert(FBY_INT64, scaled, FBY_INT64, values, n, t->scale, &bad) != FBY_OK) {
            job->bad = fby__make_sample_of(job, t->width, begin, bad);
            return fby__fail(err, FBY_E_DATA, "the time %" PRId64 " (as stored) is beyond what int64 holds in %s: take a coarser unit",
                             values[bad], fby_unit_name(t->unit));
        }
        fby__make_put(job, sizeof *scaled, t->width, &out, n, scaled);
    }
}

const fby__maker_ops fby__maker_time = {create_time, fby__free, run_time};
