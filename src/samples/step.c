/* The step of a windows' time in words, as "1 day": read in the unit of its column, and said in messages. */
#include "samples/samples_impl.h"

#include "base/duration.h"
#include "block/panel.h"

#include <math.h>
#include <stdio.h>

/* Nanoseconds of one unit of a column; 0: it holds plain numbers. */
static uint64_t unit_ns(const fby_field *field)
{
    static const uint64_t NS[] = {
        [FBY_UNIT_NONE] = 0, [FBY_UNIT_S] = 1000000000, [FBY_UNIT_MS] = 1000000, [FBY_UNIT_US] = 1000, [FBY_UNIT_NS] = 1};
    return field->kind == FBY_KIND_DATE ? 86400000000000 : NS[field->unit];
}

fby_status fby__step_from_text(const fby_dataset *ds, fby_samples_opts *o, fby_error *err)
{
    fby__dataset_column column;
    const uint64_t ns = fby__duration_ns(o->step_text);
    if (o->step)
        return fby__fail(err, FBY_E_ARG, "step and step_text exclude each other");
    if (!o->time)
        return fby__fail(err, FBY_E_ARG, "a step needs the column of the time");
    if (ns == 0)
        return fby__fail(err, FBY_E_ARG,
                         "step '%.40s' is no duration: write 1 day, 6 hours, 10 min, 30 s, 20 ms, us or ns, or a whole number in the "
                         "column's own unit",
                         o->step_text);
    FBY__TRY(fby__dataset_resolve(ds, o->time, &column, err));
    const uint64_t unit = unit_ns(column.leaf);
    if (column.leaf->kind == FBY_KIND_STRING || column.leaf->kind == FBY_KIND_BINARY)
        return fby__fail(err, FBY_E_ARG, "step '%.40s': column '%.100s' holds strings: " FBY__TEXT_TIMES, o->step_text, o->time);
    if (unit == 0)
        return fby__fail(err, FBY_E_ARG, "step '%.40s': column '%.100s' holds plain numbers: give the step as one", o->step_text, o->time);
    if (ns % unit)
        return fby__fail(err, FBY_E_ARG, "step '%.40s' is no whole number of the units of column '%.100s'", o->step_text, o->time);
    o->step = (int64_t)(ns / unit);
    return FBY_OK;
}

/* A time between two rows: "86400000000000 (1 day)", without the number of units where the step is in words. */
static void say(char *out, size_t n, double units, uint64_t unit, bool in_words)
{
    char words[FBY__DURATION_CHARS];
    if (unit == 0 || fabs(units) >= (double)INT64_MAX / (double)unit) {
        (void)snprintf(out, n, "%.15g", units);
        return;
    }
    fby__duration_text((int64_t)units * (int64_t)unit, words);
    if (in_words)
        (void)snprintf(out, n, "%s", words);
    else
        (void)snprintf(out, n, "%.15g (%s)", units, words);
}

fby_status fby__step_never_fits(const fby__sample_base *base, const fby_samples_opts *o, fby_error *err)
{
    fby__dataset_column time;
    char type[80] = "", step[80], rise[80] = "";
    uint64_t unit = 0;
    if (fby__dataset_resolve(base->ds, o->time, &time, NULL) == FBY_OK) {
        (void)fby_field_type_text(time.field, type, sizeof type);
        unit = unit_ns(time.leaf);
    }
    const char *lead = base->first_rise != 0 ? "; from the first row to the second it is " : "";
    if (*lead)
        say(rise, sizeof rise, fabs(base->first_rise), unit, o->step_text != NULL);
    if (base->first_rise < 0)
        return fby__fail(
            err, FBY_E_ARG,
            "no window of %llu rows fits: '%s' falls, from the first row to the second by %s, and rows of a window rise in time: "
            "sort the rows of each series by it, and write the file again",
            (unsigned long long)base->length, o->time, rise);
    if (!o->step)
        return fby__fail(
            err, FBY_E_ARG,
            "no window of %llu rows fits, since '%s' never rises from one row to the next%s%s: is it the time, and are rows in its order?",
            (unsigned long long)base->length, o->time, lead, rise);
    say(step, sizeof step, (double)o->step, unit, o->step_text != NULL);
    return fby__fail(
        err, FBY_E_ARG,
        "no window of %llu rows fits, since '%s' never goes on by the step %s from one row to the next%s%s: a step is given in "
        "%sunits of the column, whose type is %s",
        (unsigned long long)base->length, o->time, step, lead, rise, unit ? "words, such as 6 hours, or in " : "", type);
}
