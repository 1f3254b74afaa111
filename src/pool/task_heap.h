/*
 * The queue of a pool: a pairing heap linked through the tasks themselves, so that queueing cannot fail.
 * M. Fredman et al., "The pairing heap", Algorithmica 1 (1986): push O(1), pop O(log n) amortised, no recursion.
 *
 * `child` is the first of a task's children, `sibling` the next one of its parent. The smallest (deadline, order) is
 * the root. Not thread-safe: the pool's lock guards it.
 */
#ifndef FBY_POOL_TASK_HEAP_H
#define FBY_POOL_TASK_HEAP_H

#include "pool/pool.h"

static inline bool fby__task_before(const fby__task *a, const fby__task *b)
{
    return a->deadline != b->deadline ? a->deadline < b->deadline : a->order < b->order;
}

/* Two roots without siblings, either may be NULL. */
static inline fby__task *fby__task_heap_meld(fby__task *a, fby__task *b)
{
    if (!a || !b)
        return a ? a : b;
    if (fby__task_before(b, a)) {
        fby__task *swap = a;
        a = b;
        b = swap;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
}

static inline void fby__task_heap_push(fby__task **root, fby__task *task)
{
    task->child = task->sibling = NULL;
    *root = fby__task_heap_meld(*root, task);
}

/* NULL when empty. */
static inline fby__task *fby__task_heap_pop(fby__task **root)
{
    fby__task *top = *root;
    if (!top)
        return NULL;
    /* Two passes: meld the children in pairs from the left, collecting them in reverse; then meld those into one. */
    fby__task *pairs = NULL, *next = top->child;
    while (next) {
        fby__task *a = next, *b = a->sibling;
        next = b ? b->sibling : NULL;
        a->sibling = NULL;
        if (b)
            b->sibling = NULL;
        a = fby__task_heap_meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    fby__task *all = NULL;
    while (pairs) {
        fby__task *a = pairs;
        pairs = a->sibling;
        a->sibling = NULL;
        all = fby__task_heap_meld(all, a);
    }
    *root = all;
    return top;
}

#endif
