/* Tables, scratch memory and the list of formats. A new format adds one line to FORMATS. */
#include "format/format.h"

static const fby__format_ops *const FORMATS[] = {&fby__parquet_ops, &fby__arrow_ops};

#define N_FORMATS (sizeof FORMATS / sizeof *FORMATS)

const fby__format_ops *fby__format_of(fby__bytes head, fby__bytes tail)
{
    const fby__format_ops *best = NULL;
    int best_bid = 0;
    for (size_t i = 0; i < N_FORMATS; i++) {
        int bid = FORMATS[i]->bid(head, tail);
        if (bid > best_bid) {
            best_bid = bid;
            best = FORMATS[i];
        }
    }
    return best;
}

const fby__format_ops *fby__format_by_name(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(FORMATS[i]->name, name) == 0)
            return FORMATS[i];
    return NULL;
}

fby__table *fby__table_ref(fby__table *table)
{
    atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
    return table;
}

void fby__table_unref(fby__table *table)
{
    /* acq_rel: whoever destroys sees what the others did before they let go. */
    if (table && atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) == 1)
        table->ops->destroy(table);
}

void fby__scratch_fini(fby__scratch *scratch)
{
    fby__codec_state_fini(&scratch->codec);
    for (size_t i = 0; i < sizeof scratch->buffers / sizeof *scratch->buffers; i++)
        fby__buf_fini(&scratch->buffers[i]);
    if (scratch->state_free)
        scratch->state_free(scratch->state);
    *scratch = (fby__scratch){0};
}

size_t fby__scratch_bytes(const fby__scratch *scratch)
{
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof scratch->buffers / sizeof *scratch->buffers; i++)
        bytes += scratch->buffers[i].cap;
    return scratch->state_bytes ? bytes + scratch->state_bytes(scratch->state) : bytes;
}
