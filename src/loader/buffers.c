/*
 * Buffers that jobs take and give back, the last one given first.
 *
 * Which one matters: files in the page cache are copied to a read buffer and decoded at once, blocks are decoded into a stage and scattered at
 * once, and a buffer that was just used is still in the core's cache. With a buffer a job instead, in turn, an epoch took 17 % longer (two
 * cores, 1.4 MB blocks).
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"

fby_status fby__buffers_open(fby_loader *l, size_t bytes, fby__buffers *out, fby_error *err)
{
    out->spare = fby__calloc(l->memory.max_jobs, sizeof *out->spare);
    if (!out->spare)
        return fby__fail_nomem(err, "the loader's buffers");
    out->bytes = bytes;
    fby__account_charge(l->engine.account, l->memory.max_jobs * fby__slab_class_bytes(bytes));
    return FBY_OK;
}

void fby__buffers_fini(fby_loader *l, fby__buffers *b)
{
    for (uint32_t i = 0; i < b->n_spare; i++)
        fby__slab_free(l->engine.account, &b->spare[i]);
    fby__free(b->spare);
}

fby_status fby__buffers_take(fby_loader *l, fby__buffers *b, size_t bytes, fby__slab *out, fby_error *err)
{
    pthread_mutex_lock(&l->schedule.lock);
    const bool made = b->n_spare > 0;
    if (made)
        *out = b->spare[--b->n_spare];
    pthread_mutex_unlock(&l->schedule.lock);
    if (made && bytes <= out->bytes)
        return FBY_OK;
    fby__slab_free(l->engine.account, out); /* a cut row group longer than metadata let expect, or none yet */
    return fby__slab_alloc_charged(l->engine.account, fby__max_u64(bytes, b->bytes), made ? 0 : fby__slab_class_bytes(b->bytes), out, err);
}

void fby__buffers_give_locked(fby__buffers *b, fby__slab *slab)
{
    if (slab->data)
        b->spare[b->n_spare++] = *slab;
    *slab = (fby__slab){0};
}
