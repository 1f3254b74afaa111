/* A bump allocator: 10,000 files have three strings and a frozen table each, which would be 40,000 allocations. */
#include "base/arena.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)

typedef struct fby__arena_chunk {
    struct fby__arena_chunk *next;
    size_t used, cap;
    _Alignas(8) char data[];
} chunk;

void *fby__arena_alloc(fby__arena *arena, size_t n)
{
    if (n > SIZE_MAX - 2 * CHUNK_BYTES)
        return NULL;
    n = (size_t)fby__align_up_u64(n, 8);
    chunk *c = arena->chunks;
    if (!c || c->cap - c->used < n) {
        size_t cap = n > CHUNK_BYTES / 4 ? n : CHUNK_BYTES;
        c = fby__malloc(sizeof *c + cap);
        if (!c)
            return NULL;
        c->used = 0;
        c->cap = cap;
        arena->total_bytes += sizeof *c + cap;
        if (arena->chunks && cap == n) { /* a large one: keep filling the chunk in front */
            c->next = arena->chunks->next;
            arena->chunks->next = c;
        } else {
            c->next = arena->chunks;
            arena->chunks = c;
        }
    }
    void *p = c->data + c->used;
    c->used += n;
    return p;
}

char *fby__arena_copy(fby__arena *arena, const void *p, size_t n)
{
    char *copy = n < SIZE_MAX ? fby__arena_alloc(arena, n + 1) : NULL;
    if (copy) {
        if (n)
            memcpy(copy, p, n);
        copy[n] = 0;
    }
    return copy;
}

void fby__arena_fini(fby__arena *arena)
{
    for (chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        fby__free(c);
    }
    *arena = (fby__arena){0};
}
