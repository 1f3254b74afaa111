/* The account's pool: slabs of one size, for batches. */
#include "budget/budget_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/process.h"

size_t fby__pool_slab_bytes(size_t n) { return fby__align_up_u64(n, FBY__PAGE_BYTES); }

fby_status fby__account_pool(fby__account *a, size_t slab_bytes, uint32_t n, fby_error *err)
{
    a->pool.spare = fby__calloc(n, sizeof *a->pool.spare);
    if (!a->pool.spare)
        return fby__fail_nomem(err, "the pool of batch buffers");
    a->pool.slab_bytes = fby__pool_slab_bytes(slab_bytes);
    a->pool.n = n;
    fby__account_charge(a, a->pool.slab_bytes * n);
    return FBY_OK;
}

/* Keep it as a spare when the pool has room; else it is the caller's to unmap. */
static bool keep_spare_locked(fby__account *a, const fby__slab *slab)
{
    if (a->retired || a->pool.in_use + a->pool.n_spare >= a->pool.n)
        return false;
    a->pool.spare[a->pool.n_spare++] = *slab;
    return true;
}

/*
 * One slab that is in use already, and in the same mapping `room` spare ones, as many as the pool has room for, so that slabs of less than 2 MiB lie
 * in huge pages too: rows that are scattered over some hundred batches miss the TLB at each row otherwise. Each is unmapped by itself.
 */
static void *map_slabs(fby__account *a, uint32_t room)
{
    const size_t bytes = a->pool.slab_bytes; /* set once, before the first batch */
    const uint32_t more = bytes < FBY__HUGE_BYTES && (room + 1) * bytes >= FBY__HUGE_BYTES ? room : 0;
    uint8_t *p = fby__slab_memory((more + 1) * bytes);
    if (!p)
        return more ? fby__slab_memory(bytes) : NULL;
    uint32_t kept = 0;
    pthread_mutex_lock(&a->lock);
    while (kept < more && keep_spare_locked(a, &(fby__slab){.data = p + (kept + 1) * bytes, .bytes = bytes}))
        kept++;
    pthread_mutex_unlock(&a->lock);
    if (kept < more) /* others took their place meanwhile */
        (void)munmap(p + (kept + 1) * bytes, (more - kept) * bytes);
    return p;
}

static fby_status fail_batch(const fby__account *a, fby_error *err)
{
    return fby__fail(err, FBY_E_NOMEM, "out of memory: the system refused %zu bytes for a batch", a->pool.slab_bytes);
}

fby_status fby__pool_slab_get(fby__account *a, fby__slab *out, fby_error *err)
{
    *out = (fby__slab){0};
    pthread_mutex_lock(&a->lock);
    a->pool.in_use++;
    if (a->pool.n_spare)
        *out = a->pool.spare[--a->pool.n_spare];
    const uint32_t room = a->pool.in_use < a->pool.n ? a->pool.n - a->pool.in_use : 0; /* where none is spare */
    pthread_mutex_unlock(&a->lock);
    if (out->data)
        return FBY_OK;
    void *p = map_slabs(a, room);
    if (p) {
        *out = (fby__slab){.data = p, .bytes = a->pool.slab_bytes};
        return FBY_OK;
    }
    pthread_mutex_lock(&a->lock);
    a->pool.in_use--;
    pthread_mutex_unlock(&a->lock);
    return fail_batch(a, err);
}

uint32_t fby__pool_spares(fby__account *a)
{
    pthread_mutex_lock(&a->lock);
    const uint32_t n = a->pool.n_spare;
    pthread_mutex_unlock(&a->lock);
    return n;
}

fby_status fby__pool_fill(fby__account *a, uint32_t n, fby_error *err)
{
    for (;;) {
        pthread_mutex_lock(&a->lock);
        const uint32_t there = a->pool.in_use + a->pool.n_spare, room = there < a->pool.n ? a->pool.n - there : 0;
        const bool enough = a->pool.n_spare >= n || room == 0;
        pthread_mutex_unlock(&a->lock);
        if (enough)
            return FBY_OK;
        const fby__slab slab = {.data = map_slabs(a, room - 1), .bytes = a->pool.slab_bytes};
        if (!slab.data)
            return fail_batch(a, err);
        pthread_mutex_lock(&a->lock);
        const bool kept = keep_spare_locked(a, &slab);
        pthread_mutex_unlock(&a->lock);
        if (!kept)
            fby__slab_unmap(a, &slab);
    }
}

void fby__pool_slab_drop(fby__account *a, fby__slab *slab)
{
    if (!slab->data)
        return;
    pthread_mutex_lock(&a->lock);
    a->pool.in_use--;
    if (!keep_spare_locked(a, slab))
        fby__slab_leave_locked(a, slab);
    pthread_mutex_unlock(&a->lock);
    *slab = (fby__slab){0};
}

void fby__pool_slab_hand_out(fby__account *a, const fby__slab *slab)
{
    pthread_mutex_lock(&a->lock);
    a->pool.in_use--;
    a->out_bytes += slab->bytes;
    a->out_count++;
    pthread_mutex_unlock(&a->lock);
}

void fby__pool_slab_return(fby__account *a, fby__slab *slab)
{
    if (fby__slab_return_in_child(a, slab))
        return;
    pthread_mutex_lock(&a->lock);
    a->out_bytes -= slab->bytes;
    a->out_count--;
    bool kept = keep_spare_locked(a, slab);
    pthread_mutex_unlock(&a->lock);
    if (!kept)
        fby__slab_unmap(a, slab);
    *slab = (fby__slab){0};
}

bool fby__pool_slab_pin(fby__account *a, fby__slab *slab, const fby__pinner *pinner)
{
    if (slab->pinned)
        return true;
    if (a->pid != fby__process_id())
        return false;
    fby__pinner *its = &a->pool.pinner;
    pthread_mutex_lock(&a->lock);
    if (!its->pin)
        *its = *pinner;
    const bool same = its->pin == pinner->pin && its->unpin == pinner->unpin && its->user == pinner->user;
    pthread_mutex_unlock(&a->lock);
    slab->pinned = same && pinner->pin(pinner->user, slab->data, slab->bytes) == 0;
    return slab->pinned;
}
