/* Samples as the intervals of rows that they consist of. */
#include "tables/cover.h"

#include "base/checked.h"
#include "dataset/dataset.h"

/* The next sample's rows; false when there is none. Of plain rows, a block's at once. */
static bool next_sample(fby__cover *c, uint64_t *begin, uint64_t *end)
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
    (void)fby__samples_next_span(c->samples, c->block, &c->i, n, 0, begin, end); /* there is one: a sample is left */
    *begin += first;
    *end += first;
    return true;
}

void fby__cover_next(fby__cover *c)
{
    if (!c->samples) {
        c->begin = c->end;
        return;
    }
    fby__cover ahead = *c;
    uint64_t begin, end;
    if (!next_sample(&ahead, &begin, &end)) {
        c->begin = c->end;
        return;
    }
    ahead.begin = begin;
    ahead.end = end;
    for (;;) {
        *c = ahead;
        if (!next_sample(&ahead, &begin, &end) || begin > c->end)
            return; /* c stands before that sample */
        ahead.end = fby__max_u64(c->end, end);
    }
}

void fby__cover_begin(fby__cover *c, const fby_samples *samples, const fby_dataset *ds)
{
    *c = (fby__cover){.samples = samples, .ds = ds};
    if (samples)
        fby__cover_next(c);
    else
        c->end = fby_dataset_rows(ds);
}
