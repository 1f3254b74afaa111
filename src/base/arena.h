/* Many small things that live and die together: names, paths, frozen tables. Chunks are never moved, so pointers stay. */
#ifndef FBY_BASE_ARENA_H
#define FBY_BASE_ARENA_H

#include <stddef.h>

typedef struct fby__arena {
    struct fby__arena_chunk *chunks; /* owned, newest first */
    size_t total_bytes;              /* of all chunks */
} fby__arena;

/** n bytes aligned to 8, not zeroed; NULL when out of memory. One thread at a time. */
void *fby__arena_alloc(fby__arena *arena, size_t n);
/** A copy with a NUL behind it. */
char *fby__arena_copy(fby__arena *arena, const void *p, size_t n);
void fby__arena_fini(fby__arena *arena);

#endif
