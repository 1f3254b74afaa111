/* Which of the known names are near to a wanted one, for "did you mean". Bytes are compared, ASCII letters without case. */
#ifndef FBY_BASE_NEAREST_H
#define FBY_BASE_NEAREST_H

#include <stddef.h>

enum { FBY__NEAREST_MAX_BYTES = 64, FBY__NEAREST_MAX_NAMES = 3 };

/**
 * The up to three nearest names, the nearest first, of equally near ones those offered first. Start with {.wanted = …} and offer every
 * known name. A name is near when a third of the wanted one's bytes, rounded up, are mistyped at the most. Borrows all names.
 */
typedef struct fby__near {
    const char *wanted;
    const char *names[FBY__NEAREST_MAX_NAMES];
    unsigned distance[FBY__NEAREST_MAX_NAMES];
    unsigned n;
} fby__near;

void fby__near_offer(fby__near *near, const char *name);
/** "; did you mean 'a', 'b'?" or "", cut to n bytes. */
void fby__near_text(const fby__near *near, char *out, size_t n);

/** The nearest of `names` (NULL-terminated) to a word, or NULL when none is near. */
const char *fby__nearest(const char *word, const char *const *names);

/**
 * How many bytes are to be inserted, removed or replaced, or neighbours exchanged, to make a of b (no position is edited twice).
 * UINT_MAX where one is longer than FBY__NEAREST_MAX_BYTES.
 */
unsigned fby__edit_distance(const char *a, const char *b);

#endif
