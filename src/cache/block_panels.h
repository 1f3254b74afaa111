/* What the loader keeps of a decoded block: panels, and the memory they lie in (loader/thin.c draws it). The cache does not look inside. */
#ifndef FBY_CACHE_BLOCK_PANELS_H
#define FBY_CACHE_BLOCK_PANELS_H

#include "block/panel.h"
#include "budget/budget.h"
#include "io/io.h"
#include "plan/plan.h"

/** Rows from `row` of a block on, which lie at `panel_row` of its panels. */
typedef struct fby__row_span {
    uint64_t row, panel_row;
} fby__row_span;

typedef struct fby__block_panels {
    fby__panel *panels;         /* owned: one for each of the loader's */
    fby__slab *overflow;        /* owned: for each panel; one that outgrew its room in `memory` or `whole`, else empty */
    fby__slab memory;           /* owned: panels that stay as they are decoded; may be empty */
    fby__slab whole;            /* owned, while loading: panels of which few rows are kept; else empty */
    fby__slab kept;             /* owned: where those rows go; else empty */
    fby__file *mapped;          /* a reference, when panels lie in the map of a file; else NULL */
    struct fby__shared *shared; /* a reference: of what other loaders hold too (loader/shared.c), where the panels are; else NULL */
    const fby__row_span *spans; /* n_spans, by row, in `kept`: which of the rows the panels hold. 0: all of them */
    uint32_t n_spans;
    uint64_t first_sample, n_firsts; /* n_firsts > 0: panels of first rows alone hold one a sample, from that sample of the block on */
    bool few_rows;                   /* while loading: `whole` are all panels; else those of first rows alone, where there are such ones */
    size_t own_bytes;                /* that the account was charged for the entry itself */
    const fby__plan_item *wanted;    /* n_wanted, borrowed while loading: samples whose rows are needed; NULL = all */
    uint32_t n_wanted;
} fby__block_panels;

/** Where a row of the block lies in the panels; the row is one that they hold. lo: the first row of the block that was loaded. */
static inline uint64_t fby__block_panels_row(const fby__block_panels *p, uint64_t lo, uint64_t row)
{
    if (p->n_spans == 0)
        return row - lo;
    uint32_t first = 0, end = p->n_spans;
    while (end - first > 1) {
        const uint32_t mid = first + (end - first) / 2;
        if (p->spans[mid].row <= row)
            first = mid;
        else
            end = mid;
    }
    return p->spans[first].panel_row + (row - p->spans[first].row);
}

#endif
