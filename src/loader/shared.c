/*
 * Loaders over one data set in a process share decoded blocks: training and validation over one table, or the same files opened twice.
 *
 *     A's entry: loading ─► ready ──offer──► body ◄──find── B's entry: ready at once, nothing read
 *                                             │
 *                        let go by both: its memory goes back to the account of the last one
 *
 * A body is what an entry holds of all rows of a range: panels and the memory that they lie in. Nobody writes to it. Whoever holds it is
 * charged for all of it, so that each loader keeps to its own budget whatever the others do. A loader alone makes none: what it has is offered
 * when another joins it.
 *
 * Siblings are loaders whose panels come out alike: the same files, columns and row operations. They have one list of bodies. Of a block of which it
 * needs few rows, a loader copies those from a body (thin.c); they are its own samples, and no body. Rows that go to their batches directly are not shared.
 */
#include "loader/internal.h"

#include "base/alloc.h"

#include <string.h>

struct fby__shared {
    fby__shared *next;      /* of the same block */
    fby__block_panels data; /* owned */
    uint32_t block, n_holders;
    uint64_t lo, hi;
    size_t bytes;        /* that each holder is charged */
    fby__account *owner; /* of the one that decoded them, whose slabs they are while it holds them; else NULL. Borrowed */
};

struct fby__siblings {
    struct fby__siblings *next; /* this and the next two under g_siblings.lock */
    fby_loader *first;
    _Atomic uint32_t n_loaders; /* read relaxed under a loader's schedule.lock: who joins adds itself, then takes that lock (offer_all) */
    pthread_mutex_t lock;       /* guards the bodies, but for what is set once */
    fby__shared **bodies;       /* owned: a list for each block */
    uint32_t n_panels;
};

static struct {
    pthread_mutex_t lock; /* guards the list of siblings, and who is one */
    struct fby__siblings *first;
} g_siblings = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- who shares ---- */

/* The loaders of a child's parent are not the child's, and one of its threads may have held the lock. */
static void after_fork_in_child(void)
{
    g_siblings.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    g_siblings.first = NULL;
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, after_fork_in_child); }

static bool same_column(const fby__loader_source *a, uint32_t in_a, const fby__loader_source *b, uint32_t in_b)
{
    const fby__dataset_column *x = &a->columns[in_a], *y = &b->columns[in_b];
    return x->id == y->id && strcmp(x->path, y->path) == 0;
}

static bool same_panel(const fby__loader_source *a, const fby__loader_source *b, uint32_t panel)
{
    const fby__read_panel *p = &a->panels[panel], *q = &b->panels[panel];
    const fby__panel_layout *x = &p->layout, *y = &q->layout;
    if (x->kind != y->kind || x->dtype != y->dtype || x->n_columns != y->n_columns || x->width != y->width ||
        x->want_valid != y->want_valid || x->marks_nan != y->marks_nan || x->elements_valid != y->elements_valid)
        return false;
    for (uint32_t i = 0; i < x->n_columns; i++) {
        const fby__panel_column *c = &x->columns[i], *d = &y->columns[i];
        if (c->offset != d->offset || c->width != d->width || c->missing != d->missing || memcmp(&c->fill, &d->fill, sizeof c->fill) != 0 ||
            !same_column(a, p->column[i], b, q->column[i]))
            return false;
    }
    return fby__program_same(p->program, 0, q->program) && fby__program_same(q->program, 0, p->program);
}

static bool are_siblings(const fby__loader_source *a, const fby__loader_source *b)
{
    if (a->n_panels != b->n_panels || !fby__dataset_same(a->ds, b->ds))
        return false;
    for (uint32_t i = 0; i < a->n_panels; i++)
        if (!same_panel(a, b, i))
            return false;
    return true;
}

static void destroy_siblings(struct fby__siblings *s)
{
    (void)pthread_mutex_destroy(&s->lock);
    fby__free((void *)s->bodies);
    fby__free(s);
}

static struct fby__siblings *create_siblings(const fby__loader_source *in)
{
    struct fby__siblings *s = fby__calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->n_panels = in->n_panels;
    s->bodies = fby__calloc(in->n_blocks, sizeof *s->bodies);
    if (s->bodies)
        return s;
    destroy_siblings(s);
    return NULL;
}

static void offer_ready(void *loader, fby__cache_entry *e)
{
    fby_loader *l = loader;
    if (e->state == FBY__ENTRY_READY)
        fby__shared_offer_locked(&l->engine, e);
}

/*
 * Offers what a loader decoded while it was alone. Under g_siblings.lock: it does not leave meanwhile, but it may be closing. Its account has paid
 * for the bodies; the calling thread may be charging another one.
 */
static void offer_all(fby_loader *l)
{
    fby__allowance *before = fby__alloc_within(NULL);
    pthread_mutex_lock(&l->schedule.lock);
    if (l->schedule.cache)
        fby__cache_each(l->schedule.cache, offer_ready, l);
    pthread_mutex_unlock(&l->schedule.lock);
    (void)fby__alloc_within(before);
}

fby_status fby__shared_join(fby_loader *l, fby_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const fby__loader_source *in = l->sources.at;
    if (l->sources.n > 1 || !l->engine.delivery->keeps_blocks || in->n_panels == 0 || in->n_blocks == 0)
        return FBY_OK;
    (void)pthread_once(&once, watch_forks);
    pthread_mutex_lock(&g_siblings.lock);
    struct fby__siblings *s = g_siblings.first;
    while (s && !are_siblings(s->first->sources.at, in))
        s = s->next;
    if (!s && (s = create_siblings(in))) {
        s->next = g_siblings.first;
        g_siblings.first = s;
    }
    if (s) {
        l->engine.siblings = s;
        l->engine.next_sibling = s->first;
        s->first = l;
        if (atomic_fetch_add_explicit(&s->n_loaders, 1, memory_order_relaxed) == 1)
            offer_all(l->engine.next_sibling);
    }
    pthread_mutex_unlock(&g_siblings.lock);
    return s ? FBY_OK : fby__fail_nomem(err, "the list of shared blocks");
}

void fby__shared_leave(fby_loader *l)
{
    struct fby__siblings *s = l->engine.siblings, **link = &g_siblings.first;
    if (!s)
        return;
    pthread_mutex_lock(&g_siblings.lock);
    fby_loader **at = &s->first;
    while (*at != l)
        at = &(*at)->engine.next_sibling;
    *at = l->engine.next_sibling;
    const bool last = atomic_fetch_sub_explicit(&s->n_loaders, 1, memory_order_relaxed) == 1;
    while (last && *link != s)
        link = &(*link)->next;
    if (last)
        *link = s->next;
    pthread_mutex_unlock(&g_siblings.lock);
    if (last)
        destroy_siblings(s);
    l->engine.siblings = NULL;
}

/* ---- bodies ---- */

static void each_slab(fby__shared *body, fby__account *account, uint32_t n_panels, void (*what)(fby__account *account, fby__slab *slab))
{
    what(account, &body->data.memory);
    what(account, &body->data.whole);
    what(account, &body->data.kept);
    for (uint32_t i = 0; i < n_panels; i++)
        what(account, &body->data.overflow[i]);
}

/* The memory that the panels lie in. */
static size_t panels_bytes(const fby__block_panels *p, uint32_t n_panels)
{
    size_t bytes = p->memory.bytes + p->whole.bytes + p->kept.bytes;
    for (uint32_t i = 0; i < n_panels; i++)
        bytes += p->overflow[i].bytes;
    return bytes;
}

size_t fby__shared_body_bytes(uint32_t n_panels)
{
    const fby__block_panels *p = NULL;
    return fby__alloc_bytes(sizeof(fby__shared) + n_panels * (sizeof *p->panels + sizeof *p->overflow));
}

void fby__shared_offer_locked(fby__loader_engine *engine, fby__cache_entry *e)
{
    struct fby__siblings *s = engine->siblings;
    fby__block_panels *p = &e->data;
    if (!s || atomic_load_explicit(&s->n_loaders, memory_order_relaxed) == 1 || p->shared || e->passing || e->only || p->n_spans ||
        p->n_firsts)
        return;
    const uint32_t n = s->n_panels;
    fby__shared *body = fby__calloc(1, sizeof *body + n * (sizeof *p->panels + sizeof *p->overflow));
    if (!body)
        return; /* it stays the entry's own: another loader decodes the block again */
    fby__panel *panels = (fby__panel *)(void *)(body + 1);
    fby__slab *overflow = (fby__slab *)(void *)(panels + n);
    memcpy(panels, p->panels, n * sizeof *panels);
    memcpy(overflow, p->overflow, n * sizeof *overflow);
    *body = (fby__shared){.block = e->block, .n_holders = 1, .lo = e->lo, .hi = e->hi, .owner = engine->account, .data = *p};
    body->data.panels = panels;
    body->data.overflow = overflow;
    body->bytes = panels_bytes(p, n);
    memset(p->overflow, 0, n * sizeof *overflow);
    p->memory = p->whole = p->kept = (fby__slab){0}; /* nothing that a worker reads, which may be gathering from the panels */
    p->mapped = NULL;
    p->shared = body;
    pthread_mutex_lock(&s->lock);
    body->next = s->bodies[e->block];
    s->bodies[e->block] = body;
    pthread_mutex_unlock(&s->lock);
}

/* The smallest that has all of the rows. */
static fby__shared *find_locked(const struct fby__siblings *s, uint32_t block, uint64_t lo, uint64_t hi)
{
    fby__shared *best = NULL;
    for (fby__shared *b = s->bodies[block]; b; b = b->next)
        if (b->lo <= lo && b->hi >= hi && (!best || b->bytes < best->bytes))
            best = b;
    return best;
}

/* Charged for `bytes`, which a body with these rows has: hold it, if it is still there. */
static fby__shared *hold(struct fby__siblings *s, uint32_t block, uint64_t lo, uint64_t hi, size_t bytes)
{
    pthread_mutex_lock(&s->lock);
    fby__shared *body = find_locked(s, block, lo, hi);
    if (body && body->bytes == bytes)
        body->n_holders++;
    else
        body = NULL;
    pthread_mutex_unlock(&s->lock);
    return body;
}

/*
 * Hold a body with these rows, of `most` bytes at most, charged for it and for `beside` bytes. What is larger than need be, own_bytes, takes no other
 * entry's place. NULL: nobody has them, or they do not fit.
 */
static fby__shared *charge_and_hold(fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, size_t most, size_t own_bytes, size_t beside,
                                    uint64_t now)
{
    struct fby__siblings *s = l->engine.siblings;
    if (!s || atomic_load_explicit(&s->n_loaders, memory_order_relaxed) == 1)
        return NULL;
    pthread_mutex_lock(&s->lock);
    const fby__shared *found = find_locked(s, block, lo, hi);
    const size_t bytes = found ? found->bytes : 0;
    pthread_mutex_unlock(&s->lock);
    if (!found || bytes > most)
        return NULL;
    /* Not under the siblings' lock: an entry that is evicted lets go of its body. */
    while (!fby__account_reserve(l->engine.account, bytes + beside))
        if (bytes > own_bytes || !fby__cache_evict(l->schedule.cache, now))
            return NULL;
    fby__shared *body = hold(s, block, lo, hi, bytes);
    if (!body)
        fby__account_discharge(l->engine.account, bytes + beside);
    return body;
}

uint64_t fby__shared_lend(const fby_loader *l, fby__shared *body, fby__block_panels *to)
{
    for (uint32_t i = 0; i < l->engine.siblings->n_panels; i++) {
        to->panels[i] = body->data.panels[i];
        to->panels[i].layout = &l->sources.at[0].panels[i].layout; /* the maker's goes with it */
    }
    to->shared = body;
    return body->lo;
}

fby__cache_entry *fby__shared_find_locked(fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, size_t own_bytes, uint64_t now)
{
    const size_t entry = fby__load_entry_bytes(&l->outputs);
    fby__shared *body = charge_and_hold(l, block, lo, hi, SIZE_MAX, own_bytes, entry, now);
    if (!body)
        return NULL;
    fby__cache_entry *e = fby__cache_insert(l->schedule.cache, block, body->lo, body->hi);
    if (!e) {
        fby__account_discharge(l->engine.account, entry);
        fby__shared_drop(l, body);
        return NULL;
    }
    e->data.own_bytes = entry;
    (void)fby__shared_lend(l, body, &e->data); /* the entry has its first row */
    e->state = FBY__ENTRY_READY;
    return e;
}

fby__shared *fby__shared_hold_locked(fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, size_t own_bytes, uint64_t now)
{
    const fby__loader_source *in = l->sources.at;
    fby__shared *body = charge_and_hold(l, block, lo, hi, own_bytes + own_bytes / 4, SIZE_MAX, 0, now);
    for (uint32_t i = 0; body && i < in->n_panels; i++)
        if (body->data.panels[i].used > fby__loader_capacity(in, block, &in->panels[i])) {
            fby__shared_drop(l, body);
            body = NULL;
        }
    return body;
}

void fby__shared_drop(fby_loader *l, fby__shared *body)
{
    struct fby__siblings *s = l->engine.siblings;
    if (!body)
        return;
    const size_t bytes = body->bytes;
    pthread_mutex_lock(&s->lock);
    const bool last = --body->n_holders == 0;
    if (!last && body->owner == l->engine.account) {
        each_slab(body, body->owner, s->n_panels, fby__slab_detach);
        body->owner = NULL;
    }
    fby__shared **link = &s->bodies[body->block];
    while (last && *link != body)
        link = &(*link)->next;
    if (last)
        *link = body->next;
    pthread_mutex_unlock(&s->lock);
    if (!last) {
        fby__account_discharge(l->engine.account, bytes);
        return;
    }
    each_slab(body, l->engine.account, s->n_panels, fby__slab_free);
    fby__file_unref_later(body->data.mapped, &l->schedule.closing);
    fby__free(body);
}
