/* A chained hash table over a fixed array of entries, and a max-heap of the unpinned ones by next use. */
#include "cache/cache.h"

#include "base/alloc.h"

#include <string.h>

#define NONE UINT32_MAX

struct fby__cache {
    uint32_t max_entries, n_used, n_heap, n_buckets;
    uint64_t evictions;
    fby__cache_owner owner;
    fby__cache_entry **entry; /* max_entries; NULL where none is in use */
    uint32_t *bucket;         /* n_buckets heads */
    uint32_t *free_list;      /* indices of unused entries */
    uint32_t n_free;
    uint32_t *heap; /* entry indices; largest next_use first */
};

static void clear(fby__cache *c, fby__cache_entry *e) { c->owner.clear(c->owner.user, &e->data); }

/* With all that it has: what is charged for entries is what they take. */
static void destroy_entry(fby__cache *c, fby__cache_entry *e)
{
    clear(c, e);
    c->owner.fini(c->owner.user, &e->data);
    fby__free(e->error);
    fby__free(e);
}

void fby__cache_destroy(fby__cache *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->entry && i < c->max_entries; i++) {
        if (c->entry[i])
            destroy_entry(c, c->entry[i]);
    }
    fby__free(c->entry);
    fby__free(c->bucket);
    fby__free(c->free_list);
    fby__free(c->heap);
    fby__free(c);
}

fby_status fby__cache_create(uint32_t max_entries, const fby__cache_owner *owner, fby__cache **out, fby_error *err)
{
    fby__cache *c = fby__calloc(1, sizeof *c);
    if (!c)
        return fby__fail_nomem(err, "the block cache");
    c->max_entries = max_entries;
    c->owner = *owner;
    c->n_buckets = 16;
    while (c->n_buckets < max_entries && c->n_buckets < (1u << 30))
        c->n_buckets *= 2;
    c->entry = fby__calloc(max_entries, sizeof *c->entry);
    c->bucket = fby__malloc(c->n_buckets * sizeof *c->bucket);
    c->free_list = fby__calloc(max_entries, sizeof *c->free_list);
    c->heap = fby__calloc(max_entries, sizeof *c->heap);
    if (!c->entry || !c->bucket || !c->free_list || !c->heap) {
        fby__cache_destroy(c);
        return fby__fail_nomem(err, "the block cache's tables");
    }
    memset(c->bucket, 0xff, c->n_buckets * sizeof *c->bucket);
    for (uint32_t i = 0; i < max_entries; i++)
        c->free_list[i] = max_entries - 1 - i;
    c->n_free = max_entries;
    *out = c;
    return FBY_OK;
}

static uint32_t *bucket_of(const fby__cache *c, uint32_t block)
{
    return &c->bucket[(block * 2654435761u >> 7) & (c->n_buckets - 1)]; /* Knuth's multiplier: neighbours spread */
}

/* ---- heap of unpinned entries ---- */

static bool farther(const fby__cache *c, uint32_t a, uint32_t b)
{
    const fby__cache_entry *x = c->entry[a], *y = c->entry[b];
    return x->next_use != y->next_use ? x->next_use > y->next_use : x->self > y->self;
}

static void heap_put(fby__cache *c, uint32_t at, uint32_t index)
{
    c->heap[at] = index;
    c->entry[index]->heap_index = at;
}

static void sift_up(fby__cache *c, uint32_t at)
{
    uint32_t index = c->heap[at];
    while (at > 0 && farther(c, index, c->heap[(at - 1) / 2])) {
        heap_put(c, at, c->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(c, at, index);
}

static void sift_down(fby__cache *c, uint32_t at)
{
    uint32_t index = c->heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= c->n_heap)
            break;
        if (child + 1 < c->n_heap && farther(c, c->heap[child + 1], c->heap[child]))
            child++;
        if (!farther(c, c->heap[child], index))
            break;
        heap_put(c, at, c->heap[child]);
        at = child;
    }
    heap_put(c, at, index);
}

static void heap_remove(fby__cache *c, fby__cache_entry *e)
{
    uint32_t at = e->heap_index;
    e->heap_index = NONE;
    uint32_t last = c->heap[--c->n_heap];
    if (at == c->n_heap)
        return;
    heap_put(c, at, last);
    sift_down(c, at);
    sift_up(c, c->entry[last]->heap_index);
}

/* ---- entries ---- */

static void remove_entry(fby__cache *c, fby__cache_entry *e)
{
    uint32_t *link = bucket_of(c, e->block);
    while (*link != e->self)
        link = &c->entry[*link]->hash_next;
    *link = e->hash_next;
    if (e->heap_index != NONE)
        heap_remove(c, e);
    c->entry[e->self] = NULL;
    c->free_list[c->n_free++] = e->self;
    c->n_used--;
    destroy_entry(c, e);
}

fby__cache_entry *fby__cache_find(fby__cache *c, uint32_t block, uint64_t lo, uint64_t hi, uint64_t only)
{
    for (uint32_t i = *bucket_of(c, block); i != NONE; i = c->entry[i]->hash_next) {
        fby__cache_entry *e = c->entry[i];
        if (e->block == block && e->lo <= lo && e->hi >= hi && (e->only == 0 || e->only == only) && !e->passing &&
            e->state != FBY__ENTRY_FAILED)
            return e;
    }
    return NULL;
}

fby__cache_entry *fby__cache_insert(fby__cache *c, uint32_t block, uint64_t lo, uint64_t hi)
{
    if (c->n_free == 0 && !fby__cache_evict(c, 0))
        return NULL;
    uint32_t index = c->free_list[c->n_free - 1];
    uint32_t *head = bucket_of(c, block);
    fby__cache_entry *e = fby__calloc(1, sizeof *e);
    if (!e || !c->owner.init(c->owner.user, &e->data)) {
        if (e)
            destroy_entry(c, e);
        return NULL;
    }
    e->block = block;
    e->lo = lo;
    e->hi = hi;
    e->state = FBY__ENTRY_LOADING;
    e->pins = 1;
    e->next_use = FBY__NEVER;
    e->waiters = UINT32_MAX;
    e->self = index;
    e->heap_index = NONE;
    e->hash_next = *head;
    c->entry[index] = e;
    c->n_free--;
    c->n_used++;
    *head = index;
    return e;
}

void fby__cache_pin(fby__cache *c, fby__cache_entry *e)
{
    if (e->pins++ == 0)
        heap_remove(c, e);
}

void fby__cache_unpin(fby__cache *c, fby__cache_entry *e, uint64_t next_use)
{
    if (--e->pins > 0)
        return;
    if (e->state != FBY__ENTRY_READY || e->passing) {
        remove_entry(c, e);
        return;
    }
    e->next_use = next_use;
    heap_put(c, c->n_heap, e->self);
    sift_up(c, c->n_heap++);
}

void fby__cache_empty(fby__cache *c, fby__cache_entry *e) { clear(c, e); }

bool fby__cache_evict(fby__cache *c, uint64_t before)
{
    if (c->n_heap == 0 || c->entry[c->heap[0]]->next_use <= before)
        return false;
    remove_entry(c, c->entry[c->heap[0]]);
    c->evictions++;
    return true;
}

void fby__cache_evict_all(fby__cache *c)
{
    for (; c->n_heap > 0; c->evictions++)
        remove_entry(c, c->entry[c->heap[0]]);
}

void fby__cache_each(fby__cache *c, void (*what)(void *user, fby__cache_entry *entry), void *user)
{
    for (uint32_t i = 0; i < c->max_entries; i++)
        if (c->entry[i])
            what(user, c->entry[i]);
}

uint64_t fby__cache_evictions(const fby__cache *c) { return c->evictions; }
uint32_t fby__cache_count(const fby__cache *c) { return c->n_used; }

void fby__cache_reorder(fby__cache *c, uint64_t (*next_use)(void *user, const fby__cache_entry *entry), void *user)
{
    for (uint32_t i = 0; i < c->n_heap; i++)
        c->entry[c->heap[i]]->next_use = next_use(user, c->entry[c->heap[i]]);
    for (uint32_t i = c->n_heap; i-- > 0;)
        sift_down(c, i);
}
