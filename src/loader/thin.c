/*
 * Thin blocks: where samples need less than half of a block's rows (some events of many), the rest is not kept. A block is decoded as a
 * whole, since pages and chunks are; then the rows that are needed move to memory of their own size, and the rest is given back.
 *
 * Both sizes are reserved before the block is read. The panels then hold runs of rows; which, lies before them in the same memory.
 */
#include "loader/internal.h"

#include "base/checked.h"

#include <string.h>

#define GAP_ROWS 8u /* rows between two runs that are kept with them: a run costs 16 bytes and a step of a search */

/* The samples that lie in rows [lo, hi): those from *out_first to before the result. */
static uint64_t samples_in(const fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, uint64_t *out_first)
{
    *out_first = fby__samples_from(l->samples, block, lo);
    uint64_t end = fby__samples_from(l->samples, block, hi), at, rows;
    for (; end > *out_first; end--) { /* the last ones may reach beyond */
        fby__samples_at(l->samples, block, end - 1, &at, &rows);
        if (at + rows <= hi)
            break;
    }
    return end;
}

/* Runs of rows that are needed: of samples [first, end) of a block, or of its items one after the other. */
typedef struct needed {
    const fby_loader *l;
    uint32_t block;
    uint64_t first, end;
    const fby__plan_item *items; /* n_items that are still to come */
    uint32_t n_items;
    bool has_next; /* a run that was looked at, and is not yet given */
    uint64_t row, row_end;
} needed;

static needed needed_of(const fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, const fby__plan_item *items, uint32_t n_items)
{
    needed n = {.l = l, .block = block, .items = items, .n_items = items ? n_items : 0};
    if (!items)
        n.end = samples_in(l, block, lo, hi, &n.first);
    return n;
}

static bool look(needed *n)
{
    while (!(n->has_next = fby__samples_next_run(n->l->samples, n->block, &n->first, n->end, GAP_ROWS, &n->row, &n->row_end))) {
        if (n->n_items == 0)
            return false;
        n->first = n->items->lo;
        n->end = n->items->hi;
        n->items++;
        n->n_items--;
    }
    return true;
}

/* The next run, apart from the one before by more than GAP_ROWS. */
static bool next_run(needed *n, uint64_t *out_row, uint64_t *out_end)
{
    if (!n->has_next && !look(n))
        return false;
    *out_row = n->row;
    *out_end = n->row_end;
    while (look(n) && n->row <= *out_end + GAP_ROWS)
        *out_end = fby__max_u64(*out_end, n->row_end);
    return true;
}

static fby__thin count(needed n)
{
    uint64_t row, row_end;
    fby__thin thin = {0};
    while (next_run(&n, &row, &row_end)) {
        thin.rows += row_end - row;
        thin.runs++;
    }
    return thin;
}

void fby__thin_cost(fby_loader *l, uint32_t block)
{
    fby__block_cost *cost = &l->cost[block];
    cost->thin = (fby__thin){0};
    if (cost->samples >= (cost->row_end - cost->row_begin) / 2)
        return; /* nothing to spare: the runs need not be looked at */
    cost->thin = count((needed){.l = l, .block = block, .end = cost->samples});
    if (cost->thin.rows > (cost->row_end - cost->row_begin) / 2 || cost->thin.runs > UINT32_MAX)
        cost->thin = (fby__thin){0};
}

fby__thin fby__thin_of(const fby_loader *l, uint32_t block, uint64_t lo, uint64_t hi, const fby__plan_item *items, uint32_t n_items)
{
    const fby__block_cost *cost = &l->cost[block];
    if (!items && (cost->thin.rows == 0 || (lo <= cost->row_begin && hi >= cost->row_end)))
        return cost->thin; /* of all its samples: counted when the loader was opened */
    fby__thin thin = count(needed_of(l, block, lo, hi, items, n_items));
    if (items && (thin.runs > UINT32_MAX || fby__thin_bytes(l, block, thin) >= fby__loader_entry_bytes(l, block, hi - lo)))
        return (fby__thin){0}; /* nothing to spare */
    return thin;
}

/* Panels begin at a cache line. */
static size_t run_bytes(uint64_t n) { return (size_t)fby__align_up_u64(n * sizeof(fby__row_run), 64); }

size_t fby__thin_bytes(const fby_loader *l, uint32_t block, fby__thin thin)
{
    return run_bytes(thin.runs) + fby__loader_entry_bytes(l, block, thin.rows);
}

/* ---- moving rows ---- */

static void move_dense(const fby__panel *from, fby__panel *to, const fby__row_run *runs, uint32_t n, uint64_t lo, uint64_t n_rows)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t rows = (i + 1 < n ? runs[i + 1].panel_row : n_rows) - runs[i].panel_row, at = runs[i].row - lo;
        memcpy(to->data + runs[i].panel_row * to->row_bytes, from->data + at * from->row_bytes, rows * from->row_bytes);
        if (to->valid)
            memcpy(to->valid + runs[i].panel_row * to->layout->n_columns, from->valid + at * to->layout->n_columns,
                   rows * to->layout->n_columns);
    }
}

/* Rows that a list or string panel has: its block's own. */
static uint64_t rows_of(const fby__panel *from, const fby__row_run *runs, uint32_t n, uint32_t i, uint64_t lo, uint64_t n_rows)
{
    uint64_t rows = (i + 1 < n ? runs[i + 1].panel_row : n_rows) - runs[i].panel_row, at = runs[i].row - lo;
    return at >= from->rows ? 0 : fby__min_u64(rows, from->rows - at);
}

static void move_ragged(const fby__panel *from, fby__panel *to, const fby__row_run *runs, uint32_t n, uint64_t lo, uint64_t n_rows)
{
    size_t element = fby_dtype_bytes(to->layout->dtype);
    uint64_t used = 0, row = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t rows = rows_of(from, runs, n, i, lo, n_rows), at = runs[i].row - lo;
        if (rows == 0)
            break; /* what follows is of later blocks */
        for (uint64_t r = 0; r < rows; r++, row++)
            to->offsets[row] = used + from->offsets[at + r] - from->offsets[at];
        uint64_t values = from->offsets[at + rows] - from->offsets[at];
        if (values)
            memcpy(to->data + used * element, from->data + from->offsets[at] * element, (size_t)values * element);
        if (to->element_valid && values)
            memcpy(to->element_valid + used, from->element_valid + from->offsets[at], (size_t)values);
        if (to->valid)
            memcpy(to->valid + runs[i].panel_row, from->valid + at, rows);
        used += values;
    }
    for (; row <= to->rows; row++)
        to->offsets[row] = used;
    to->used = used;
}

/* Strings are copied one by one, or, where they share so many bytes that this takes more room, with all that are there. */
static void move_bytes(const fby__panel *from, fby__panel *to, const fby__row_run *runs, uint32_t n, uint64_t lo, uint64_t n_rows)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t r = 0, rows = rows_of(from, runs, n, i, lo, n_rows); r < rows; r++)
            total += from->views[runs[i].row - lo + r].n;
    bool each = total <= from->used && total <= to->capacity;
    if (!each && from->used)
        memcpy(to->data, from->data, (size_t)from->used);
    to->used = each ? 0 : from->used;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t rows = rows_of(from, runs, n, i, lo, n_rows), at = runs[i].row - lo;
        for (uint64_t r = 0; r < rows; r++) {
            fby__view view = from->views[at + r];
            if (each) {
                if (view.n)
                    memcpy(to->data + to->used, from->data + view.offset, (size_t)view.n);
                view.offset = to->used;
                to->used += view.n;
            }
            to->views[runs[i].panel_row + r] = view;
        }
        if (to->valid)
            memcpy(to->valid + runs[i].panel_row, from->valid + at, rows);
    }
}

void fby__thin_compact(fby_loader *l, fby__cache_entry *e)
{
    if (e->kept.data == NULL)
        return;
    for (uint32_t i = 0; i < l->n_panels; i++)
        if (e->overflow[i].data) { /* strings that expanded beyond what metadata said: the block stays as it is */
            fby__slab_free(l->account, &e->kept);
            return;
        }
    needed rows = needed_of(l, e->block, e->lo, e->hi, e->wanted, e->n_wanted);
    uint64_t row, row_end, n_rows = 0;
    fby__row_run *runs = (fby__row_run *)(void *)e->kept.data;
    uint32_t n = 0;
    while (next_run(&rows, &row, &row_end)) {
        runs[n++] = (fby__row_run){.row = row, .panel_row = n_rows};
        n_rows += row_end - row;
    }
    uint8_t *at = e->kept.data + run_bytes(n);
    for (uint32_t i = 0; i < l->n_panels; i++) {
        const fby__loader_panel *lp = &l->panels[i];
        uint64_t capacity = fby__loader_capacity(l, e->block, lp);
        fby__panel from = e->panels[i];
        size_t bytes;
        (void)fby__panel_bytes(&lp->layout, n_rows, capacity, &bytes, NULL); /* checked when the loader was opened */
        fby__panel_place(&lp->layout, n_rows, capacity, at, &e->panels[i]);
        at += bytes;
        if (lp->layout.kind == FBY__PANEL_DENSE)
            move_dense(&from, &e->panels[i], runs, n, e->lo, n_rows);
        else if (lp->layout.kind == FBY__PANEL_RAGGED)
            move_ragged(&from, &e->panels[i], runs, n, e->lo, n_rows);
        else
            move_bytes(&from, &e->panels[i], runs, n, e->lo, n_rows);
    }
    fby__slab_free(l->account, &e->memory);
    fby__file_unref(e->mapped);
    e->mapped = NULL;
    e->memory = e->kept;
    e->kept = (fby__slab){0};
    e->runs = runs;
    e->n_runs = n;
}
