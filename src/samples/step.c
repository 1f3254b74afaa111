/* The step of a windows' time as a text: "1 day", in the unit of its column. */
#include "samples/samples_impl.h"

#include "base/duration.h"
#include "block/panel.h"

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
