/* Slabs that are lent and given back. See spares.h. */
#include "budget/spares.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "budget/budget_internal.h"

#include <string.h>

/* Its address says which thread it is. That of one which has ended may come again: a wrong hint, no more. */
static _Thread_local char t_self;

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
        fby__slab_free(s->account, &s->spare[i].slab);
    fby__free(s->spare);
    pthread_mutex_destroy(&s->lock);
    *s = (fby__spares){0};
}

/* One that is large enough, if there is one; of those, this thread's own, if it has one; of those, the newest. */
static fby__slab pick_locked(fby__spares *s, size_t bytes)
{
    uint32_t at = 0;
    int best = 0;
    for (uint32_t i = 0; i < s->n_spare; i++) {
        const int rank = 2 * (s->spare[i].slab.bytes >= bytes) + (s->spare[i].by == &t_self);
        if (rank >= best) {
            best = rank;
            at = i;
        }
    }
    const fby__slab slab = s->spare[at].slab;
    s->n_spare--;
    memmove(&s->spare[at], &s->spare[at + 1], (s->n_spare - at) * sizeof *s->spare);
    return slab;
}

fby__grant fby__spares_get(fby__spares *s, size_t bytes, bool (*room)(void *user, size_t bytes), void *user, fby__slab *out, fby_error *err)
{
    pthread_mutex_lock(&s->lock);
    const bool made = s->n_spare > 0;
    if (made)
        *out = pick_locked(s, bytes);
    pthread_mutex_unlock(&s->lock);
    if (made && bytes <= out->bytes)
        return FBY__GRANTED;
    const size_t usual = fby__slab_class_bytes(s->bytes), has = made ? out->bytes : usual;
    const size_t want = fby__slab_class_bytes(fby__max_u64(bytes, s->bytes));
    if (want > has && !room(user, want - has)) {
        fby__spares_give(s, out);
        return FBY__NO_ROOM;
    }
    if (made) /* what it was charged is the new one's */
        fby__slab_unmap(s->account, out);
    *out = (fby__slab){0};
    if (fby__slab_alloc_charged(s->account, want, want, out, err) == FBY_OK)
        return FBY__GRANTED;
    fby__account_discharge(s->account, want - usual);
    return FBY__GRANT_FAILED;
}

void fby__spares_give(fby__spares *s, fby__slab *slab)
{
    if (!slab->data)
        return;
    pthread_mutex_lock(&s->lock);
    s->spare[s->n_spare++] = (fby__spare){.slab = *slab, .by = &t_self};
    pthread_mutex_unlock(&s->lock);
    *slab = (fby__slab){0};
}

bool fby__spares_shrink(fby__spares *s)
{
    const size_t usual = fby__slab_class_bytes(s->bytes);
    uint32_t n = 0;
    if (!s->account)
        return false;
    pthread_mutex_lock(&s->lock);
    const uint32_t before = s->n_spare;
    for (uint32_t i = 0; i < before; i++) {
        if (s->spare[i].slab.bytes > usual) {
            fby__slab_free(s->account, &s->spare[i].slab);
            fby__account_charge_again(s->account, usual);
        } else {
            s->spare[n++] = s->spare[i];
        }
    }
    s->n_spare = n;
    pthread_mutex_unlock(&s->lock);
    return n < before;
}
