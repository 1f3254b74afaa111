/* shuffle (2): bytes of equal significance lie together. The one parameter is the element's size. */
#include "codec/filter_impl.h"

static fby_status check(const fby__filter *filter, fby_error *err)
{
    if (filter->n_values < 1 || filter->values[0] == 0)
        return fby__fail(err, FBY_E_FORMAT, "the size of the elements is missing");
    return FBY_OK;
}

static bool keeps_size(const fby__filter *filter)
{
    (void)filter;
    return true;
}

static fby_status undo(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err)
{
    FBY__TRY(check(filter, err));
    *out_n = src.n;
    if (src.n <= cap)
        fby__unshuffle(src.data, dst, src.n, filter->values[0], state->streaming);
    return FBY_OK;
}

const fby__filter_ops fby__filter_shuffle = {.name = "shuffle", .check = check, .keeps_size = keeps_size, .undo = undo};
