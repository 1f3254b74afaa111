/* Samples as the intervals of rows that they consist of. */
#include "tables/cover.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "dataset/dataset.h"

#define AT_ONCE 4096u /* samples looked at before the call may be cancelled */

/* Rows of the next samples, AT_ONCE at most; false when there are none. */
static bool next_samples(fby__cover *c, uint64_t *begin, uint64_t *end)
{
    uint32_t n_blocks = fby__dataset_block_count(c->ds);
    uint64_t n = 0;
    while (c->block < n_blocks && c->i >= (n = fby__samples_of_block(c->samples, c->block))) {
        c->block++;
        c->i = 0;
    }
    if (c->block == n_blocks)
        return false;
    uint64_t first = fby__dataset_block(c->ds, c->block)->first_row;
    (void)fby__samples_next_span(c->samples, c->block, &c->i, fby__min_u64(n, c->i + AT_ONCE), 0, begin,
                                 end); /* there is one: a sample is left */
    *begin += first;
    *end += first;
    return true;
}

fby_status fby__cover_next(fby__cover *c, fby_error *err)
{
    fby__cover ahead = *c;
    uint64_t begin, end;
    if (!c->samples || !next_samples(&ahead, &begin, &end)) {
        c->begin = c->end;
        return FBY_OK;
    }
    ahead.begin = begin;
    ahead.end = end;
    for (;;) {
        FBY__TRY(fby__cancel_check(err));
        *c = ahead;
        if (!next_samples(&ahead, &begin, &end) || begin > c->end)
            return FBY_OK; /* c stands before that sample */
        ahead.end = fby__max_u64(c->end, end);
    }
}

fby_status fby__cover_begin(fby__cover *c, const fby_samples *samples, const fby_dataset *ds, fby_error *err)
{
    *c = (fby__cover){.samples = samples, .ds = ds};
    if (samples)
        return fby__cover_next(c, err);
    c->end = fby_dataset_rows(ds);
    return FBY_OK;
}
