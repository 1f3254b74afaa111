/*
 * One batch: gather the samples of the pieces whose phases are ready, into the batch's own buffers.
 *
 * Usually every piece is ready and each output is filled by one gather over all slots. At the border of two superbatches a
 * batch gathers what is there, so that the drained superbatch can make room for the next, and the rest when that is decoded.
 * Values that vary in length are then staged per piece, since where they go is known only when all lengths are (assemble_rows.c).
 * A batch that the budget has no room for gives its pieces back and waits for its turn (schedule_room.c).
 */
#include "loader/assemble_internal.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "base/clock.h"
#include "block/convert.h"
#include "trace/events.h"

#include <stdio.h>
#include <string.h>

#define AFTER_BYTES (192u << 10) /* of values that are filled and then changed in place: a part of the L2 cache */

/* Which rows of their blocks each slot of a piece is, whose entry and sample are known. */
static void find_rows(const fby__loader_source *in, fby__worker *w, const fby__plan_piece *piece)
{
    const uint64_t begin = piece->slot, end = begin + piece->n;
    if (fby__samples_are_all_rows(in->samples)) {
        memcpy(w->block_row + begin, w->sample + begin, piece->n * sizeof *w->sample);
        for (uint64_t i = begin; i < end; i++)
            w->n_rows[i] = 1;
        return;
    }
    for (uint64_t i = begin; i < end; i++)
        fby__samples_at(in->samples, fby__block_in(in, w->entry[i]), w->sample[i], &w->block_row[i], &w->n_rows[i]);
}

/* Which rows of which panels each slot of a piece is. False: cancelled. */
static bool resolve(fby_loader *l, fby__worker *w, const fby__plan_piece *piece)
{
    const fby__loader_source *in = fby__source_of_piece(l, piece);
    const uint64_t begin = piece->slot, end = begin + piece->n, *number = l->outputs.needs_ids ? fby__samples_first(in->samples) : NULL;
    fby__cache_entry *const *entry = l->schedule.slot_entry + l->schedule.phases[piece->phase].first_slot;
    if (!fby__epoch_resolve_in(l->schedule.epoch, piece->phase, piece->index, piece->n, w->sorted, w->item + begin, w->sample + begin))
        return false;
    memset(w->repeats + begin, piece->repeats, piece->n);
    for (uint64_t i = begin; i < end; i++)
        w->entry[i] = entry[w->item[i]];
    find_rows(in, w, piece);
    for (uint64_t i = begin; i < end; i++)
        w->first_row[i] = fby__block_panels_row(&w->entry[i]->data, w->entry[i]->lo, w->block_row[i]);
    for (uint64_t i = begin; number && i < end; i++)
        w->id[i] = number[fby__block_in(in, w->entry[i])] + w->sample[i];
    return true;
}

uint64_t fby__fill_sample(const fby__fill *f, uint64_t slot)
{
    return fby__samples_first(f->in->samples)[fby__block_in(f->in, f->w->entry[slot])] + f->w->sample[slot];
}

fby_status fby__output_row_error(const fby__loader_source *in, const fby__batch_output *o, uint32_t block, uint64_t row, fby_status status,
                                 fby_error *err)
{
    const fby__block *b = fby__dataset_block(in->ds, block);
    const fby__output_source *s = &in->outputs[o - in->loader->outputs.shape->outputs];
    const fby__read_panel *panel = s->n_inputs ? &in->panels[s->inputs[0].panel] : NULL; /* of several columns, the first */
    const char *column = panel ? in->columns[panel->column[s->inputs[0].first_column]].path : NULL;
    fby_file_info file = {.size = sizeof file};
    char where[1000] = "", source[300] = "";
    row += b->first_row;
    if (fby_dataset_file(in->ds, b->file, &file, NULL) == FBY_OK && file.path && *file.path) {
        (void)snprintf(where, sizeof where, "%s: ", file.path); /* cut when longer, as messages are */
        row -= fby__dataset_block(in->ds, (uint32_t)file.first_block)->first_row;
    }
    if (column)
        (void)snprintf(source, sizeof source, "column '%.200s', ", column);
    fby__error_context(err, "%s%soutput '%s': row %llu of the %s", where, source, o->name, (unsigned long long)row,
                       *where ? "file" : "data set");
    return fby__source_error(in, status, err);
}

fby_status fby__output_value_error(const fby__loader_source *in, const fby__output_source *s, const fby__batch_output *o,
                                   const uint8_t *row, uint64_t n_steps, size_t row_bytes, fby_error *err)
{
    const fby__panel_layout *layout = &in->panels[s->panel].layout;
    const size_t bytes = fby_dtype_bytes(s->panel_dtype);
    for (uint64_t k = 0; k < n_steps; k++)
        for (size_t e = 0; e < s->row_elements; e++) {
            const uint8_t *value = row + k * row_bytes + s->offset + e * bytes;
            fby__scalar to;
            char text[64];
            size_t bad;
            if (fby__convert(o->dtype, to.bytes, s->panel_dtype, value, 1, FBY__SCALE_NONE, &bad) == FBY_OK)
                continue;
            uint32_t c = 0;
            while (c + 1 < layout->n_columns && layout->columns[c + 1].offset <= s->offset / bytes + e)
                c++;
            (void)fby__value_text(s->panel_dtype, value, text, sizeof text); /* a cut number is still a number */
            return fby__fail(err, FBY_E_DATA, "column '%s': the value %s does not fit %s; choose a wider dtype",
                             in->columns[in->panels[s->panel].column[c]].path, text, fby_dtype_name(o->dtype));
        }
    return fby__fail(err, FBY_E_DATA, "a value does not fit %s", fby_dtype_name(o->dtype));
}

fby_status fby__fill_row_error(const fby__fill *f, uint64_t slot, fby_status status, fby_error *err)
{
    return fby__output_row_error(f->in, f->o, fby__block_in(f->in, f->w->entry[slot]), f->w->block_row[slot], status, err);
}

/* Does an output take values from a panel, as they lie there? */
static bool is_columns(const fby__batch_output *o, const fby__output_source *s)
{
    return s->from == FBY_FROM_COLUMNS && !s->maker && !fby__batch_output_varies(o);
}

/* Where the rows of slots lie. */
static void point(const fby__fill *f, const fby__slots *slots)
{
    const fby__worker *w = f->w;
    for (uint64_t i = slots->slot; i < slots->slot + slots->n; i++) {
        const fby__panel *p = &w->entry[i]->data.panels[f->s->panel];
        w->row[i] = p->data + (fby__fill_row(f, i, f->s->panel) + f->s->step) * p->row_bytes;
    }
}

/* Copy or convert the rows that begin at w->row[slot …], of n samples; *bad is the sample whose values do not fit. */
static fby_status copy_rows(const fby__fill *f, uint64_t slot, size_t n, size_t row_bytes, uint64_t n_steps, uint8_t *dst, size_t *bad)
{
    const fby__output_source *s = f->s;
    const fby__rows rows = {.at = f->w->row + slot, .n = n, .n_next = f->pointed_end - slot - n, .fetched = slot > f->pointed_begin};
    size_t elements = s->row_elements, step_bytes = elements * fby_dtype_bytes(s->panel_dtype);
    if (n_steps > 1 && !s->whole_rows) {
        fby__steps steps = {.offset = s->offset, .step_bytes = step_bytes, .row_bytes = row_bytes, .n_steps = n_steps};
        if (s->panel_dtype != f->o->dtype)
            return fby__gather_steps_convert(f->o->dtype, dst, s->panel_dtype, rows.at, &steps, n, bad);
        fby__gather_steps(dst, rows.at, &steps, n);
        return FBY_OK;
    }
    if (s->panel_dtype != f->o->dtype)
        return fby__gather_convert(f->o->dtype, dst, s->panel_dtype, &rows, s->offset, elements * n_steps, bad);
    fby__gather_rows(dst, &rows, s->offset, step_bytes * n_steps);
    return FBY_OK;
}

static fby_status fill_columns(const fby__fill *f, const fby__slots *slots, uint8_t *dst, fby_error *err)
{
    const fby__worker *w = f->w;
    const fby__output_source *s = f->s;
    size_t bad = 0, row_bytes = w->entry[slots->slot]->data.panels[s->panel].row_bytes;
    if (copy_rows(f, slots->slot, slots->n, row_bytes, s->n_steps, dst, &bad) == FBY_OK)
        return FBY_OK;
    return fby__fill_row_error(f, slots->slot + bad,
                               fby__output_value_error(f->in, s, f->o, w->row[slots->slot + bad], s->n_steps, row_bytes, err), err);
}

static void fill_mask(const fby__fill *f, const fby__slots *slots, uint8_t *dst)
{
    const fby__output_source *s = f->s;
    uint32_t columns = f->in->panels[s->panel].layout.n_columns;
    for (uint64_t i = slots->slot; i < slots->slot + slots->n; i++) {
        const uint64_t row = fby__fill_row(f, i, s->panel) + s->step;
        const uint8_t *valid = f->w->entry[i]->data.panels[s->panel].valid + row * columns + s->first_column;
        for (uint64_t k = 0; k < s->n_steps; k++, valid += columns)
            for (uint32_t c = 0; c < s->n_columns; c++)
                *dst++ = fby__mask_of(s->from, valid[c]);
    }
}

uint64_t fby__sample_number(const fby__loader_source *in, fby_source_kind from, uint32_t block, uint64_t sample, uint64_t row,
                            uint64_t n_rows)
{
    if (from == FBY_FROM_SAMPLE_INDEX)
        return fby__samples_first(in->samples)[block] + sample;
    if (from == FBY_FROM_SOURCE)
        return (uint64_t)(in - in->loader->sources.at);
    return from == FBY_FROM_ROW_INDEX ? fby__dataset_block(in->ds, block)->first_row + row : n_rows;
}

/* Outputs that say which sample it is. */
static void fill_number(const fby__fill *f, const fby__slots *slots, uint8_t *at)
{
    int64_t *dst = (int64_t *)(void *)at;
    const fby__worker *w = f->w;
    for (uint64_t i = slots->slot; i < slots->slot + slots->n; i++)
        *dst++ =
            (int64_t)fby__sample_number(f->in, f->s->from, fby__block_in(f->in, w->entry[i]), w->sample[i], w->block_row[i], w->n_rows[i]);
}

static fby_status fill_some(const fby__fill *f, const fby__slots *slots, fby_error *err)
{
    const fby__output_source *s = f->s;
    uint8_t *dst = (uint8_t *)f->b->tensors[f->o->tensor].data + slots->slot * f->o->row_bytes;
    const uint64_t *id = f->w->id + slots->slot;
    if (s->maker)
        FBY__TRY(fby__fill_made(f, slots->slot, slots->n, f->o->row_bytes, dst, err));
    else if (s->from == FBY_FROM_LIT)
        for (uint32_t i = 0; i < slots->n; i++)
            memcpy(dst + i * f->o->row_bytes, &s->constant, f->o->row_bytes);
    else if (s->from == FBY_FROM_IS_REPEAT)
        memcpy(dst, f->w->repeats + slots->slot, slots->n);
    else if (s->from == FBY_FROM_SAMPLE_INDEX || s->from == FBY_FROM_ROW_INDEX || s->from == FBY_FROM_N_ROWS || s->from == FBY_FROM_SOURCE)
        fill_number(f, slots, dst);
    else if (fby_source_is_mask(s->from))
        fill_mask(f, slots, dst);
    else
        FBY__TRY(fill_columns(f, slots, dst, err));
    return fby__afters_run(s->afters, dst, slots->n, id, f->b->epoch, &f->w->scratch_made, err);
}

/* Some samples at a time: a large batch can be given up, and where values are changed in place they are still in the cache then. */
static fby_status fill_dense(const fby__fill *f, const fby__slots *slots, fby_error *err)
{
    const uint64_t at_once = (f->s->afters ? AFTER_BYTES : FBY__SLICE_BYTES) / (f->o->row_bytes + 1) + 1;
    for (uint64_t i = 0; i < slots->n; i += at_once) {
        const fby__slots some = {.slot = slots->slot + i, .n = (uint32_t)fby__min_u64(at_once, slots->n - i)};
        FBY__TRY(fby__cancel_check(err));
        FBY__TRY(fill_some(f, &some, err));
    }
    return FBY_OK;
}

/* ---- a batch ---- */

/* The pieces of a batch that a worker gathers. */
typedef struct gathering {
    fby_loader *l;
    fby__worker *w;
    fby__flight *f;
    uint32_t n;
    bool whole; /* all there are, of one source: as if they were one */
} gathering;

static fby__slots slots_of(const gathering *g, uint32_t k)
{
    if (g->whole)
        return (fby__slots){.slot = 0, .n = (uint32_t)g->f->batch->size, .in = &g->l->sources.at[0]};
    const fby__plan_piece *piece = &g->f->pieces[g->w->gathering[k]];
    return (fby__slots){.slot = piece->slot,
                        .n = piece->n,
                        .in = fby__source_of_piece(g->l, piece),
                        .staged = &g->f->staged[(size_t)g->w->gathering[k] * g->l->outputs.shape->n_ragged]};
}

static bool turn_to(fby__fill *f, const fby__slots *slots)
{
    f->in = slots->in;
    f->s = &slots->in->outputs[f->output];
    return is_columns(f->o, f->s);
}

/* Piece k begins slots without a gap whose rows are known: which ones, and the first piece behind them. */
static uint32_t begin_run(const gathering *g, fby__fill *f, uint32_t k, uint32_t n)
{
    fby__slots slots = slots_of(g, k);
    uint32_t end = k;
    f->pointed_begin = f->pointed_end = slots.slot;
    while (slots.slot == f->pointed_end && turn_to(f, &slots)) {
        f->pointed_end += slots.n;
        if (++end == n)
            break;
        slots = slots_of(g, end);
    }
    return end > k ? end : k + 1;
}

/*
 * One output. Where the rows of all pieces lie is found first: while one piece's rows are copied the next one's are fetched, whatever source
 * those are of. The pieces of a mixture are short.
 */
static fby_status gather_output(const gathering *g, uint32_t output, uint32_t ragged, fby_error *err)
{
    fby__fill f = {.w = g->w, .b = g->f->batch, .output = output, .o = &g->l->outputs.shape->outputs[output]};
    const uint32_t n = g->whole ? 1 : g->n;
    for (uint32_t k = 0; k < n; k++) {
        const fby__slots slots = slots_of(g, k);
        if (turn_to(&f, &slots))
            point(&f, &slots);
    }
    for (uint32_t k = 0, run = 0; k < n; k++) {
        if (k == run)
            run = begin_run(g, &f, k, n);
        const fby__slots slots = slots_of(g, k);
        (void)turn_to(&f, &slots);
        FBY__TRY(fby__batch_output_varies(f.o) ? fby__fill_varying(&f, ragged, &slots, err) : fill_dense(&f, &slots, err));
    }
    return FBY_OK;
}

static fby__grant gather(fby_loader *l, fby__worker *w, fby__flight *f, uint32_t n_gathering, bool last, fby__lack *out, fby_error *err)
{
    const gathering g = {.l = l, .w = w, .f = f, .n = n_gathering, .whole = !fby__comes_in_pieces(&l->sources, f, n_gathering)};
    uint32_t ragged = 0;
    for (uint32_t k = 0; k < n_gathering; k++)
        if (!resolve(l, w, &f->pieces[w->gathering[k]])) {
            (void)fby__fail(err, FBY_E_CANCELLED, "the loader was cancelled");
            return FBY__GRANT_FAILED;
        }
    const fby__grant grant = fby__reserve_values(l, w, f, n_gathering, last, out, err);
    if (grant != FBY__GRANTED)
        return grant;
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++) {
        if (gather_output(&g, i, ragged, err) != FBY_OK)
            return FBY__GRANT_FAILED;
        ragged += fby__batch_output_varies(&l->outputs.shape->outputs[i]);
    }
    if (last && !g.whole)
        fby__join_staged(l, f);
    return FBY__GRANTED;
}

void fby__flight_piece_done_locked(fby__schedule *s, const fby__loader_memory *m, fby__flight *f, uint32_t p)
{
    f->piece_state[p] = FBY__PIECE_DONE;
    f->n_done++;
    for (uint32_t q = 0; q < f->n_pieces; q++)
        if (f->pieces[q].phase == f->pieces[p].phase && f->piece_state[q] != FBY__PIECE_DONE)
            return;
    fby__loader_piece_done_locked(s, m, f->pieces[p].phase);
}

static uint32_t begin_ready_locked(fby__schedule *s, fby__flight *f, fby__worker *w)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < f->n_pieces; p++)
        if (f->piece_state[p] == FBY__PIECE_WAITING && s->phases[f->pieces[p].phase].state == FBY__PHASE_READY) {
            f->piece_state[p] = FBY__PIECE_GATHERING;
            w->gathering[n++] = p;
        }
    return n;
}

void fby__assemble_run(fby__task *task, int worker)
{
    fby__flight *f = FBY__TASK_OWNER(task, fby__flight, task);
    fby_loader *l = f->loader;
    fby__worker *w = &l->engine.workers[worker];
    pthread_mutex_lock(&l->schedule.lock);
    uint32_t n = 0;
    while (!l->schedule.stop && (n = begin_ready_locked(&l->schedule, f, w)) > 0) {
        bool last = f->n_done + n == f->n_pieces;
        fby__schedule_unlock(l);
        uint64_t began = fby__now_ns();
        fby_error err = {.file_offset = -1};
        fby_status status = FBY_OK;
        fby__lack lack = {0};
        if (!f->batch)
            status = fby__batch_create(l->outputs.shape, l->engine.account, fby__epoch_batch_size(l->schedule.epoch, f->index), f->index,
                                       l->schedule.epoch->epoch, &f->batch, &err);
        fby__grant grant = status == FBY_OK ? gather(l, w, f, n, last, &lack, &err) : FBY__GRANT_FAILED;
        const uint64_t ended = fby__now_ns();
        fby__trace_stage(&l->engine.trace, FBY__STAGE_ASSEMBLE, ended - began);
        fby__event_span("assemble", began, ended, "batch", f->index);
        pthread_mutex_lock(&l->schedule.lock);
        if (grant == FBY__NO_ROOM) {
            for (uint32_t k = 0; k < n; k++)
                f->piece_state[w->gathering[k]] = FBY__PIECE_WAITING;
            f->lacks = lack;
            break;
        }
        for (uint32_t k = 0; k < n; k++)
            fby__flight_piece_done_locked(&l->schedule, &l->memory, f, w->gathering[k]);
        if (grant == FBY__GRANT_FAILED)
            fby__flight_fail_locked(l, f, &err);
        else if (f->n_done == f->n_pieces)
            fby__flight_publish_locked(l, f);
        if (!f->used)
            break;
    }
    f->queued = false;
    l->schedule.n_queued--;
    fby__loader_wake_locked(l);
    fby__loader_busy_done_locked(&l->schedule);
    fby__loader_pump_locked(l);
    fby__schedule_unlock(l);
}
