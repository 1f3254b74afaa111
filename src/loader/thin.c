/*
 * Thin blocks: where samples need less than half of a block's rows (some events of many), the rest is not kept. A block is decoded as a
 * whole, since pages and chunks are; then the rows that are needed move to memory of their own size, and the rest is given back.
 *
 * The same for some panels alone: of samples of several rows, those that no output takes but first rows of (an event's label, its name), where
 * samples are less than half as many as rows.
 *
 *                 memory       whole ──► kept
 *   all rows      all panels
 *   few rows                   all       spans, then panels of the rows in them; those of first rows a row a sample
 *   first rows    the others   theirs    theirs, a row a sample
 *
 * Where another loader of the process has the block, its rows are copied from there, and nothing is decoded (shared.c).
 *
 * All sizes are reserved before the block is read. Panels of few rows hold spans of rows; which, lies before them in the same memory. The
 * sample's number says where its first row is: but with spans of keys, which are not one span of samples, they are kept as others are.
 */
#include "loader/internal.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "base/clock.h"

#include <string.h>

#define GAP_ROWS 8u /* rows between two spans that are kept with them: a span costs 16 bytes and a step of a search */

/* The samples that lie in rows [lo, hi): those from *out_first to before the result. */
static uint64_t samples_in(const fby__loader_source *in, uint32_t block, uint64_t lo, uint64_t hi, uint64_t *out_first)
{
    *out_first = fby__samples_from(in->samples, block, lo);
    uint64_t end = fby__samples_from(in->samples, block, hi), at, rows;
    for (; end > *out_first; end--) { /* the last ones may reach beyond */
        fby__samples_at(in->samples, block, end - 1, &at, &rows);
        if (at + rows <= hi)
            break;
    }
    return end;
}

/* Runs of rows that are needed: of samples [first, end) of a block, or of its items one after the other. */
typedef struct needed {
    const fby__loader_source *in;
    uint32_t block;
    uint64_t first, end;
    const fby__plan_item *items; /* n_items that are still to come */
    uint32_t n_items;
    bool has_next; /* a span that was looked at, and is not yet given */
    uint64_t row, row_end;
} needed;

static needed needed_of(const fby__loader_source *in, uint32_t block, uint64_t lo, uint64_t hi, const fby__plan_item *items,
                        uint32_t n_items)
{
    needed n = {.in = in, .block = block, .items = items, .n_items = items ? n_items : 0};
    if (!items)
        n.end = samples_in(in, block, lo, hi, &n.first);
    return n;
}

static bool look(needed *n)
{
    while (!(n->has_next = fby__samples_next_span(n->in->samples, n->block, &n->first, n->end, GAP_ROWS, &n->row, &n->row_end))) {
        if (n->n_items == 0)
            return false;
        n->first = n->items->lo;
        n->end = n->items->hi;
        n->items++;
        n->n_items--;
    }
    return true;
}

/* The next span, apart from the one before by more than GAP_ROWS. */
static bool next_span(needed *n, uint64_t *out_row, uint64_t *out_end)
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
    while (next_span(&n, &row, &row_end)) {
        thin.rows += row_end - row;
        thin.spans++;
    }
    return thin;
}

void fby__thin_cost(fby__loader_source *in, uint32_t block)
{
    fby__block_cost *cost = &in->cost[block];
    cost->thin = (fby__thin){0};
    if (cost->samples >= (cost->row_end - cost->row_begin) / 2)
        return; /* nothing to spare: the spans need not be looked at */
    cost->thin = count((needed){.in = in, .block = block, .end = cost->samples});
    if (cost->thin.rows > (cost->row_end - cost->row_begin) / 2 || cost->thin.spans > UINT32_MAX)
        cost->thin = (fby__thin){0};
    cost->thin.samples = in->has_firsts ? cost->samples : 0;
}

fby__thin fby__thin_of(const fby__loader_source *in, uint32_t block, uint64_t lo, uint64_t hi, const fby__plan_item *items,
                       uint32_t n_items)
{
    const fby__block_cost *cost = &in->cost[block];
    fby__thin thin = {0};
    if (items) {
        thin = count(needed_of(in, block, lo, hi, items, n_items));
        if (thin.spans > UINT32_MAX || fby__thin_room(in, block, hi - lo, thin).kept >= fby__loader_entry_bytes(in, block, hi - lo))
            thin = (fby__thin){0}; /* nothing to spare */
        return thin;
    }
    if (lo <= cost->row_begin && hi >= cost->row_end)
        return cost->thin; /* of all its samples: counted when the loader was opened */
    if (cost->thin.rows)
        thin = count(needed_of(in, block, lo, hi, NULL, 0));
    if (cost->thin.samples) {
        uint64_t first, end = samples_in(in, block, lo, hi, &first);
        thin.samples = end - first;
    }
    return thin;
}

/* Panels begin at a cache line. */
static size_t span_bytes(uint64_t n) { return (size_t)fby__align_up_u64(n * sizeof(fby__row_span), 64); }

fby__room fby__thin_room(const fby__loader_source *in, uint32_t block, uint64_t rows, fby__thin thin)
{
    fby__room room = {.kept = span_bytes(thin.spans)};
    if (thin.rows == 0 && thin.samples == 0)
        return (fby__room){.stays = fby__loader_entry_bytes(in, block, rows)};
    for (uint32_t i = 0; i < in->n_panels; i++) {
        const fby__read_panel *p = &in->panels[i];
        const uint64_t capacity = fby__loader_capacity(in, block, p);
        const bool firsts = p->first_only && thin.samples;
        size_t all, kept; /* checked when the loader was opened */
        (void)fby__panel_bytes(&p->layout, rows, capacity, &all, NULL);
        (void)fby__panel_bytes(&p->layout, firsts ? thin.samples : thin.rows, capacity, &kept, NULL);
        if (firsts || thin.rows) {
            room.whole += all;
            room.kept += kept;
        } else {
            room.stays += all;
        }
    }
    return room;
}

/* Does panel i of an entry lie in `whole` while it is loaded? */
static bool moves(const fby__loader_source *in, const fby__cache_entry *e, uint32_t i)
{
    return (e->data.few_rows || in->panels[i].first_only);
}

/* ---- moving rows ---- */

static void move_dense(const fby__panel *from, fby__panel *to, const fby__row_span *spans, uint32_t n, uint64_t lo, uint64_t n_rows)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t rows = (i + 1 < n ? spans[i + 1].panel_row : n_rows) - spans[i].panel_row, at = spans[i].row - lo;
        memcpy(to->data + spans[i].panel_row * to->row_bytes, from->data + at * from->row_bytes, rows * from->row_bytes);
        if (to->valid)
            memcpy(to->valid + spans[i].panel_row * to->layout->n_columns, from->valid + at * to->layout->n_columns,
                   rows * to->layout->n_columns);
    }
}

/* Rows that a list or string panel has: its block's own. */
static uint64_t rows_of(const fby__panel *from, const fby__row_span *spans, uint32_t n, uint32_t i, uint64_t lo, uint64_t n_rows)
{
    uint64_t rows = (i + 1 < n ? spans[i + 1].panel_row : n_rows) - spans[i].panel_row, at = spans[i].row - lo;
    return at >= from->rows ? 0 : fby__min_u64(rows, from->rows - at);
}

/* Returns the row after those that were moved. */
static uint64_t move_ragged(const fby__panel *from, fby__panel *to, const fby__row_span *spans, uint32_t n, uint64_t lo, uint64_t n_rows)
{
    size_t element = fby_dtype_bytes(to->layout->dtype);
    uint64_t used = to->used, row = spans[0].panel_row;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t rows = rows_of(from, spans, n, i, lo, n_rows), at = spans[i].row - lo;
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
            memcpy(to->valid + spans[i].panel_row, from->valid + at, rows);
        used += values;
    }
    to->used = used;
    return row;
}

static uint64_t string_bytes(const fby__panel *from, const fby__row_span *spans, uint32_t n, uint64_t lo, uint64_t n_rows)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t r = 0, rows = rows_of(from, spans, n, i, lo, n_rows); r < rows; r++)
            total += from->views[spans[i].row - lo + r].n;
    return total;
}

/* each: strings are copied one by one; else all are there. */
static void move_bytes(const fby__panel *from, fby__panel *to, bool each, const fby__row_span *spans, uint32_t n, uint64_t lo,
                       uint64_t n_rows)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t rows = rows_of(from, spans, n, i, lo, n_rows), at = spans[i].row - lo;
        for (uint64_t r = 0; r < rows; r++) {
            fby__view view = from->views[at + r];
            if (each) {
                if (view.n)
                    memcpy(to->data + to->used, from->data + view.offset, (size_t)view.n);
                view.offset = to->used;
                to->used += view.n;
            }
            to->views[spans[i].panel_row + r] = view;
        }
        if (to->valid)
            memcpy(to->valid + spans[i].panel_row, from->valid + at, rows);
    }
}

/* Rows to be moved, as spans: those of the whole block at once, or first rows of samples, some hundred spans at a time. */
typedef struct moved {
    const fby__loader_source *in;
    const fby__cache_entry *e;
    bool firsts;
    uint64_t done;             /* samples; or whether the spans were given */
    const fby__row_span *span; /* n of them; their rows end before panel row `end` */
    uint32_t n;
    uint64_t end;
    fby__row_span some[256];
} moved;

static void moved_begin(moved *m, const fby__loader_source *in, const fby__cache_entry *e, bool firsts)
{
    m->in = in;
    m->e = e;
    m->firsts = firsts;
    m->done = 0;
}

/* n_rows: that the spans of the block have. */
static bool moved_next(moved *m, uint64_t n_rows)
{
    if (!m->firsts) {
        m->span = m->e->data.spans;
        m->n = m->e->data.n_spans;
        m->end = n_rows;
        return m->n && m->done++ == 0;
    }
    const uint64_t left = m->e->data.n_firsts - m->done, most = sizeof m->some / sizeof *m->some;
    m->span = m->some;
    m->n = (uint32_t)fby__min_u64(left, most);
    for (uint32_t i = 0; i < m->n; i++, m->done++) {
        uint64_t rows;
        fby__samples_at(m->in->samples, fby__block_in(m->in, m->e), m->e->data.first_sample + m->done, &m->some[i].row, &rows);
        m->some[i].panel_row = m->done;
    }
    m->end = m->done;
    return m->n > 0;
}

/* lo: the first row of `from`. */
static void move_panel(const fby__loader_source *in, const fby__cache_entry *e, uint32_t i, const fby__panel *from, uint64_t lo,
                       uint64_t n_rows)
{
    const fby__panel_kind kind = in->panels[i].layout.kind;
    fby__panel *to = &e->data.panels[i];
    const bool firsts = e->data.n_firsts && in->panels[i].first_only;
    uint64_t total = 0, row = 0;
    bool each = true;
    moved m;
    if (kind == FBY__PANEL_BYTES) {
        for (moved_begin(&m, in, e, firsts); moved_next(&m, n_rows);)
            total += string_bytes(from, m.span, m.n, lo, m.end);
        /* one by one, or, where they share so many bytes that this takes more room, with all that are there */
        each = total <= from->used && total <= to->capacity;
        if (!each && from->used)
            memcpy(to->data, from->data, (size_t)from->used);
        to->used = each ? 0 : from->used;
    }
    for (moved_begin(&m, in, e, firsts); moved_next(&m, n_rows);) {
        if (kind == FBY__PANEL_DENSE)
            move_dense(from, to, m.span, m.n, lo, m.end);
        else if (kind == FBY__PANEL_RAGGED)
            row = move_ragged(from, to, m.span, m.n, lo, m.end);
        else
            move_bytes(from, to, each, m.span, m.n, lo, m.end);
    }
    for (; kind == FBY__PANEL_RAGGED && row <= to->rows; row++)
        to->offsets[row] = to->used;
}

/* The spans of rows that are kept, at the beginning of that memory; returns how many rows they have. */
static uint64_t write_spans(fby__loader_source *in, fby__cache_entry *e)
{
    needed rows = needed_of(in, fby__block_in(in, e), e->lo, e->hi, e->data.wanted, e->data.n_wanted);
    uint64_t row, row_end, n_rows = 0;
    fby__row_span *spans = (fby__row_span *)(void *)e->data.kept.data;
    while (next_span(&rows, &row, &row_end)) {
        spans[e->data.n_spans++] = (fby__row_span){.row = row, .panel_row = n_rows};
        n_rows += row_end - row;
    }
    e->data.spans = spans;
    return n_rows;
}

/* lo: the first row of the panels as they are. */
static void compact(fby__loader_source *in, fby__cache_entry *e, uint64_t lo)
{
    fby_loader *l = in->loader;
    for (uint32_t i = 0; i < in->n_panels; i++)
        if (e->data.overflow[i].data && moves(in, e, i)) {
            fby__slab_free(l->engine.account,
                           &e->data.kept); /* strings that expanded beyond what metadata said: the block stays as it is */
            return;
        }
    const uint64_t n_rows = e->data.few_rows ? write_spans(in, e) : 0;
    uint8_t *at = e->data.kept.data + span_bytes(e->data.n_spans);
    if (in->has_firsts && !e->data.wanted)
        e->data.n_firsts = samples_in(in, fby__block_in(in, e), e->lo, e->hi, &e->data.first_sample) - e->data.first_sample;
    for (uint32_t i = 0; i < in->n_panels; i++) {
        if (!moves(in, e, i))
            continue;
        const fby__read_panel *lp = &in->panels[i];
        const fby__panel from = e->data.panels[i];
        const uint64_t capacity = from.capacity, rows = e->data.n_firsts && lp->first_only ? e->data.n_firsts : n_rows;
        size_t bytes;
        (void)fby__panel_bytes(&lp->layout, rows, capacity, &bytes, NULL); /* checked when the loader was opened */
        fby__panel_place(&lp->layout, rows, capacity, at, &e->data.panels[i]);
        at += bytes;
        move_panel(in, e, i, &from, lo, n_rows);
    }
    fby__slab_free(l->engine.account, &e->data.whole);
    if (!e->data.memory.data) { /* else panels that stay may lie in the map */
        fby__file_unref(e->data.mapped);
        e->data.mapped = NULL;
    }
}

/* ---- rows that another loader has ---- */

void fby__thin_copy(fby__task *task, int worker)
{
    (void)worker;
    fby__load_job *job = FBY__TASK_OWNER(task, fby__load_job, task);
    fby_loader *l = job->loader;
    fby_error err = {.file_offset = -1};
    const uint64_t began = fby__now_ns();
    fby_status status;
    if (atomic_load_explicit(&l->schedule.stop, memory_order_relaxed) || fby__cancelled())
        status = fby__fail(&err, FBY_E_CANCELLED, "reading was stopped");
    else
        status = fby__slab_map(l->engine.account, &job->entry->data.kept, &err);
    if (status == FBY_OK)
        compact(job->in, job->entry, job->body_lo);
    fby__trace_stage(&l->engine.trace, FBY__STAGE_ASSEMBLE, fby__now_ns() - began);
    fby__load_publish(job, status == FBY_OK ? NULL : &err);
}

/* ---- the sink ---- */

static fby_status reserve(fby__read *read, fby_error *err)
{
    const fby__load_job *job = fby__load_job_of(read);
    fby__cache_entry *e = job->entry;
    FBY__TRY(fby__slab_map(read->reader->account, &e->data.whole, err));
    FBY__TRY(fby__slab_map(read->reader->account, &e->data.kept, err));
    FBY__TRY(fby__slab_map(read->reader->account, &e->data.memory, err));
    uint8_t *stays = e->data.memory.data, *whole = e->data.whole.data;
    for (uint32_t i = 0; i < read->reader->n_panels; i++)
        fby__load_place(job, i, moves(job->in, e, i) ? &whole : &stays);
    return FBY_OK;
}

static void done(fby__read *read, const fby_error *error)
{
    fby__load_job *job = fby__load_job_of(read);
    job->entry->data.mapped = read->mapped;
    read->mapped = NULL;
    if (!error)
        compact(job->in, job->entry, job->entry->lo);
    fby__load_publish(job, error);
}

const fby__sink fby__thin_sink = {.reserve = reserve, .place = fby__load_grow, .done = done, .room = fby__load_room};
