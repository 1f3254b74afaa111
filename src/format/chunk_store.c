/* Chunks that several blocks share: a hash table of reference-counted entries, the unused ones in a list by last use. */
#include "format/chunk_store.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdatomic.h>

#define N_BUCKETS 1024u

struct fby__shared_chunk {
    /* set once */
    fby__chunk_store *store;
    uint64_t file_key, number;
    uint32_t leaf;
    size_t bytes; /* that it counts */
    /* under the store's lock */
    uint32_t refs;
    fby__shared_chunk *next;          /* in the bucket */
    fby__shared_chunk *newer, *older; /* unused ones */
    bool is_filling;                  /* by one thread, whose the data are until then */
    _Atomic bool ready;               /* written under the lock, with release, when the data are complete */
    _Alignas(16) uint8_t data[];
};

struct fby__chunk_store {
    /* set once */
    size_t limit;
    fby__account *account; /* borrowed; NULL = none */
    pthread_mutex_t lock;  /* guards the rest */
    pthread_cond_t filled; /* some chunk is, or could not be */
    size_t bytes;
    fby__shared_chunk *buckets[N_BUCKETS];
    fby__shared_chunk *newest, *oldest; /* unused */
};

fby_status fby__chunk_store_create(size_t limit_bytes, fby__account *account, fby__chunk_store **out, fby_error *err)
{
    fby__chunk_store *s = fby__calloc(1, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "the store of chunks");
    s->limit = limit_bytes;
    s->account = account;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->filled, NULL);
    *out = s;
    return FBY_OK;
}

static uint32_t bucket_of(uint64_t file_key, uint32_t leaf, uint64_t number)
{
    const uint64_t key[3] = {file_key, leaf, number};
    return (uint32_t)(fby__table_hash(key, sizeof key) % N_BUCKETS);
}

static void unlink_unused(fby__chunk_store *s, fby__shared_chunk *c)
{
    *(c->newer ? &c->newer->older : &s->newest) = c->older;
    *(c->older ? &c->older->newer : &s->oldest) = c->newer;
    c->newer = c->older = NULL;
}

static void give_back_locked(fby__chunk_store *s, size_t bytes)
{
    s->bytes -= bytes;
    if (s->account)
        fby__account_discharge(s->account, bytes);
}

/* A chunk that nobody refers to leaves the store: its memory is for free_all, under no lock. */
static void drop_locked(fby__chunk_store *s, fby__shared_chunk *c, fby__shared_chunk **gone)
{
    unlink_unused(s, c);
    fby__shared_chunk **at = &s->buckets[bucket_of(c->file_key, c->leaf, c->number)];
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    give_back_locked(s, c->bytes);
    c->next = *gone;
    *gone = c;
}

static void free_all(fby__shared_chunk *gone)
{
    while (gone) {
        fby__shared_chunk *next = gone->next;
        fby__free(gone);
        gone = next;
    }
}

void fby__chunk_store_destroy(fby__chunk_store *s)
{
    fby__shared_chunk *gone = NULL;
    if (!s)
        return;
    while (s->oldest)
        drop_locked(s, s->oldest, &gone);
    free_all(gone);
    pthread_cond_destroy(&s->filled);
    pthread_mutex_destroy(&s->lock);
    fby__free(s);
}

/* A reference to a chunk that is there; NULL: there is none. */
static fby__shared_chunk *find_locked(fby__chunk_store *s, uint64_t file_key, uint32_t leaf, uint64_t number)
{
    fby__shared_chunk *c = s->buckets[bucket_of(file_key, leaf, number)];
    while (c && (c->file_key != file_key || c->leaf != leaf || c->number != number))
        c = c->next;
    if (c && c->refs++ == 0)
        unlink_unused(s, c);
    return c;
}

/* Room in the store and in the account, for which unused chunks go. */
static bool reserve_locked(fby__chunk_store *s, size_t bytes, fby__shared_chunk **gone)
{
    while (s->oldest && s->bytes > s->limit - bytes)
        drop_locked(s, s->oldest, gone);
    if (s->bytes > s->limit - bytes)
        return false;
    while (s->account && !fby__account_reserve(s->account, bytes)) {
        if (!s->oldest)
            return false;
        drop_locked(s, s->oldest, gone);
    }
    s->bytes += bytes;
    return true;
}

size_t fby__chunk_store_bytes(size_t bytes) { return fby__alloc_bytes(sizeof(fby__shared_chunk) + bytes); }

/* A new chunk, for whose bytes there is room. Made under no lock: another thread may make the same meanwhile, and its own then stays. */
static fby__shared_chunk *add(fby__chunk_store *s, uint64_t file_key, uint32_t leaf, uint64_t number, size_t bytes)
{
    const size_t counts = fby__chunk_store_bytes(bytes);
    fby__shared_chunk *made = fby__malloc(sizeof *made + bytes);
    if (made)
        *made = (fby__shared_chunk){.store = s, .file_key = file_key, .number = number, .leaf = leaf, .bytes = counts, .refs = 1};
    pthread_mutex_lock(&s->lock);
    fby__shared_chunk *c = find_locked(s, file_key, leaf, number);
    if (!c && made) {
        fby__shared_chunk **bucket = &s->buckets[bucket_of(file_key, leaf, number)];
        made->next = *bucket;
        *bucket = c = made;
    } else {
        give_back_locked(s, counts);
    }
    pthread_mutex_unlock(&s->lock);
    if (made != c)
        free_all(made);
    return c;
}

fby__shared_chunk *fby__chunk_store_get(fby__chunk_store *s, uint64_t file_key, uint32_t leaf, uint64_t number, size_t bytes)
{
    fby__shared_chunk *gone = NULL;
    const size_t counts = fby__chunk_store_bytes(bytes);
    if (counts > s->limit)
        return NULL;
    pthread_mutex_lock(&s->lock);
    fby__shared_chunk *c = find_locked(s, file_key, leaf, number);
    const bool fits = !c && reserve_locked(s, counts, &gone);
    pthread_mutex_unlock(&s->lock);
    free_all(gone);
    return fits ? add(s, file_key, leaf, number, bytes) : c;
}

void fby__shared_chunk_unref(fby__shared_chunk *c)
{
    fby__shared_chunk *gone = NULL;
    if (!c)
        return;
    fby__chunk_store *s = c->store;
    pthread_mutex_lock(&s->lock);
    if (--c->refs == 0) {
        c->older = s->newest;
        *(s->newest ? &s->newest->newer : &s->oldest) = c;
        s->newest = c;
        if (!atomic_load_explicit(&c->ready, memory_order_relaxed))
            drop_locked(s, c, &gone); /* never filled: its job was given up, or it does not decode */
    }
    pthread_mutex_unlock(&s->lock);
    free_all(gone);
}

bool fby__shared_chunk_ready(const fby__shared_chunk *c) { return atomic_load_explicit(&c->ready, memory_order_acquire); }

bool fby__shared_chunk_begin(fby__shared_chunk *c)
{
    fby__chunk_store *s = c->store;
    if (fby__shared_chunk_ready(c))
        return false;
    pthread_mutex_lock(&s->lock);
    while (c->is_filling)
        pthread_cond_wait(&s->filled, &s->lock);
    const bool mine = !atomic_load_explicit(&c->ready, memory_order_relaxed);
    c->is_filling = mine;
    pthread_mutex_unlock(&s->lock);
    return mine;
}

void fby__shared_chunk_filled(fby__shared_chunk *c, bool ok)
{
    fby__chunk_store *s = c->store;
    pthread_mutex_lock(&s->lock);
    c->is_filling = false;
    atomic_store_explicit(&c->ready, ok, memory_order_release); /* pairs with the acquire in ready() */
    pthread_cond_broadcast(&s->filled);
    pthread_mutex_unlock(&s->lock);
}

uint8_t *fby__shared_chunk_data(fby__shared_chunk *c) { return c->data; }
