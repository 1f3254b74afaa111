/* Tables, scratch memory and the list of formats. A new format adds one line to FORMATS. */
#include "format/format.h"

static const fby__format_ops *const FORMATS[] = {&fby__parquet_ops, &fby__hdf5_ops, &fby__ipc_ops, &fby__csv_ops, &fby__arrow_ops};

#define N_FORMATS (sizeof FORMATS / sizeof *FORMATS)

const fby__format_ops *fby__format_of(fby__bytes head, fby__bytes tail, fby__file *file)
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
    for (size_t i = 0; !best && file && i < N_FORMATS; i++)
        if (FORMATS[i]->probe && FORMATS[i]->probe(file))
            best = FORMATS[i];
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

fby_status fby__range_list_add(fby__range_list *list, const fby__range *range, fby_error *err)
{
    if (fby__grow((void **)&list->at, &list->cap, list->n + 1, sizeof *list->at) != 0)
        return fby__fail_nomem(err, "the ranges of a block");
    list->at[list->n++] = *range;
    return FBY_OK;
}

void fby__range_list_clear(fby__range_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        fby__shared_chunk_unref(list->at[i].shared);
    list->n = 0;
}

void fby__range_list_fini(fby__range_list *list)
{
    fby__range_list_clear(list);
    fby__free(list->at);
    *list = (fby__range_list){0};
}

fby_status fby__locate(const fby__locate_request *q, fby_error *err)
{
    fby__range_list_clear(q->list);
    fby_status status = q->table->ops->locate(q, err);
    if (status != FBY_OK)
        fby__range_list_clear(q->list);
    else /* only now does the list no longer move */
        for (size_t i = 0; i < q->n; i++)
            q->sources[i].chunks = q->sources[i].n_chunks ? q->list->at + q->sources[i].first_chunk : NULL;
    return status;
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

void *fby__scratch_state(fby__scratch *scratch, size_t bytes, void (*state_free)(void *), size_t (*state_bytes)(const void *))
{
    if (scratch->state && scratch->state_free != state_free) {
        scratch->state_free(scratch->state);
        scratch->state = NULL;
    }
    if (!scratch->state) {
        scratch->state = fby__calloc(1, bytes);
        scratch->state_free = scratch->state ? state_free : NULL;
        scratch->state_bytes = scratch->state ? state_bytes : NULL;
    }
    return scratch->state;
}
