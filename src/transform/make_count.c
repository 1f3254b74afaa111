/* See make_count.h. */
#include "transform/make_count.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

fby_status fby__make_use_count(fby__make_spec *spec, uint32_t column, fby_error *err)
{
    fby__make_column *c = &spec->columns[column];
    const bool is_whole = fby__dtype_is_signed(c->stored) || fby__dtype_is_unsigned(c->stored);
    if (c->kind != FBY__PANEL_DENSE || c->width != 1 || !is_whole || c->computed)
        return fby__make_refuse_column(spec, column, "is no count: one whole number is expected", err);
    c->dtype = FBY_INT64;
    c->want_valid = c->nullable;
    return FBY_OK;
}

fby_status fby__make_count_at(const fby__make_view *view, uint64_t sample, uint64_t row, uint64_t *out, fby_error *err)
{
    int64_t count;
    memcpy(&count, view->data[sample] + row * view->row_bytes, sizeof count);
    if (view->valid && !view->valid[sample][row * view->valid_bytes])
        return fby__fail(err, FBY_E_DATA, "the count is missing");
    if (count < 0)
        return fby__fail(err, FBY_E_DATA, "a count of %" PRId64, count);
    *out = (uint64_t)count;
    return FBY_OK;
}
