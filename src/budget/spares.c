/* Slabs that are taken and given back. See spares.h. */
#include "budget/spares.h"

#include "base/alloc.h"
#include "base/checked.h"

fby_status fby__spares_open(fby__spares *s, fby__account *account, size_t bytes, uint32_t n, fby_error *err)
{
    *s = (fby__spares){.bytes = bytes, .n = n};
    s->spare = fby__calloc(n, sizeof *s->spare);
    if (!s->spare)
        return fby__fail_nomem(err, "spare buffers");
    pthread_mutex_init(&s->lock, NULL);
    s->account = account;
    fby__account_charge(account, n * fby__slab_class_bytes(bytes));
    return FBY_OK;
}

void fby__spares_close(fby__spares *s)
{
    if (!s->account)
        return;
    for (uint32_t i = 0; i < s->n_spare; i++)
        fby__slab_free(s->account, &s->spare[i]);
    fby__free(s->spare);
    pthread_mutex_destroy(&s->lock);
    *s = (fby__spares){0};
}

fby_status fby__spares_take(fby__spares *s, size_t bytes, fby__slab *out, fby_error *err)
{
    pthread_mutex_lock(&s->lock);
    const bool made = s->n_spare > 0;
    if (made)
        *out = s->spare[--s->n_spare];
    pthread_mutex_unlock(&s->lock);
    if (made && bytes <= out->bytes)
        return FBY_OK;
    fby__slab_free(s->account, out); /* more than was expected, or none yet */
    return fby__slab_alloc_charged(s->account, fby__max_u64(bytes, s->bytes), made ? 0 : fby__slab_class_bytes(s->bytes), out, err);
}

void fby__spares_give(fby__spares *s, fby__slab *slab)
{
    if (!slab->data)
        return;
    pthread_mutex_lock(&s->lock);
    s->spare[s->n_spare++] = *slab;
    pthread_mutex_unlock(&s->lock);
    *slab = (fby__slab){0};
}
