/*
 * One batch: gather the samples of the pieces whose phases are ready, into the batch's own buffers.
 *
 * Usually every piece is ready and each output is filled by one gather over all slots. At the border of two superbatches a
 * batch takes what is there, so that the drained superbatch can make room for the next, and the rest when that is decoded.
 * Ragged values are then staged per piece, since their place is known only when all lengths are.
 */
#include "loader/internal.h"

#include "base/clock.h"
#include "block/convert.h"

#include <string.h>

/** Slots [slot, slot + n) of a batch, all of them resolved in the worker's arrays. */
typedef struct run {
    uint64_t slot;
    uint32_t n;
    fby__staged *staged; /* NULL: ragged values go straight to their place */
} run;

/* Which rows of which panels each slot of a piece is. */
static void resolve(fby_loader *l, fby__worker *w, const fby__plan_piece *piece)
{
    uint64_t first = l->phases[piece->phase].first_slot;
    fby__epoch_resolve(l->epoch, piece->phase, piece->index, piece->n, w->item + piece->slot, w->sample + piece->slot);
    for (uint64_t i = piece->slot; i < piece->slot + piece->n; i++) {
        const fby__cache_entry *e = l->slot_entry[first + w->item[i]];
        w->entry[i] = e;
        fby__samples_at(l->samples, e->block, w->sample[i], &w->first_row[i], &w->n_rows[i]);
        w->first_row[i] -= e->lo;
    }
}

static fby_status row_error(fby_loader *l, const fby__worker *w, const fby__batch_output *o, uint64_t slot, fby_error *err)
{
    const fby__block *b = fby__dataset_block(l->ds, w->entry[slot]->block);
    return fby__fail(err, FBY_E_DATA, "output '%s': row %llu of the dataset does not fit %s", o->name,
                     (unsigned long long)(b->first_row + w->entry[slot]->lo + w->first_row[slot]), fby_dtype_name(o->dtype));
}

/* Copy or convert the rows that begin at w->row[slot …], of n samples; *bad is the sample whose values do not fit. */
static fby_status copy_rows(const fby__worker *w, const fby__output_source *s, const fby__batch_output *o, uint64_t slot, size_t n,
                            size_t row_bytes, uint64_t n_steps, uint8_t *dst, size_t *bad)
{
    const uint8_t *const *rows = w->row + slot;
    size_t elements = s->piece_elements, piece = elements * fby_dtype_bytes(s->panel_dtype);
    if (n_steps > 1 && !s->whole_rows) {
        fby__steps steps = {.offset = s->offset, .piece_bytes = piece, .row_bytes = row_bytes, .n_steps = n_steps};
        if (s->panel_dtype != o->dtype)
            return fby__gather_steps_convert(o->dtype, dst, s->panel_dtype, rows, &steps, n, bad);
        fby__gather_steps(dst, rows, &steps, n);
        return FBY_OK;
    }
    if (s->panel_dtype != o->dtype)
        return fby__gather_convert(o->dtype, dst, s->panel_dtype, rows, s->offset, elements * n_steps, n, bad);
    fby__gather_rows(dst, rows, s->offset, piece * n_steps, n);
    return FBY_OK;
}

static fby_status gather_dense(fby_loader *l, fby__worker *w, const fby__output_source *s, const fby__batch_output *o,
                               const fby_tensor *t, const run *r, fby_error *err)
{
    for (uint64_t i = r->slot; i < r->slot + r->n; i++) {
        const fby__panel *p = &w->entry[i]->panels[s->panel];
        w->row[i] = p->data + (w->first_row[i] + s->step) * p->row_bytes;
    }
    uint8_t *dst = (uint8_t *)t->data + r->slot * o->row_bytes;
    size_t bad = 0, row_bytes = w->entry[r->slot]->panels[s->panel].row_bytes;
    if (copy_rows(w, s, o, r->slot, r->n, row_bytes, s->n_steps, dst, &bad) != FBY_OK)
        return row_error(l, w, o, r->slot + bad, err);
    return FBY_OK;
}

/* Of n rows of slot i, from `step` on; returns the end of what it wrote. */
static uint8_t *missing_of(const fby_loader *l, const fby__worker *w, const fby__output_source *s, uint64_t i, uint64_t n, uint8_t *dst)
{
    uint32_t columns = l->panels[s->panel].layout.n_columns;
    const uint8_t *valid = w->entry[i]->panels[s->panel].valid + (w->first_row[i] + s->step) * columns + s->first_column;
    for (uint64_t k = 0; k < n; k++, valid += columns)
        for (uint32_t c = 0; c < s->n_columns; c++)
            *dst++ = !valid[c];
    return dst;
}

static void gather_missing(fby_loader *l, fby__worker *w, const fby__output_source *s, const fby_tensor *t, const run *r)
{
    uint8_t *dst = (uint8_t *)t->data + r->slot * s->n_steps * s->n_columns;
    for (uint64_t i = r->slot; i < r->slot + r->n; i++)
        dst = missing_of(l, w, s, i, s->n_steps, dst);
}

/* Outputs that say which sample it is. */
static void gather_number(fby_loader *l, fby__worker *w, fby_source_kind from, const fby_tensor *t, const run *r)
{
    int64_t *dst = (int64_t *)t->data;
    for (uint64_t i = r->slot; i < r->slot + r->n; i++) {
        const fby__cache_entry *e = w->entry[i];
        uint64_t number = w->n_rows[i];
        if (from == FBY_FROM_INDEX)
            number = fby__samples_before(l->samples, e->block) + w->sample[i];
        else if (from == FBY_FROM_ROW)
            number = fby__dataset_block(l->ds, e->block)->first_row + e->lo + w->first_row[i];
        dst[i] = (int64_t)number;
    }
}

/* ---- ragged outputs ---- */

/* First and number of a row's elements (RAGGED) or bytes (BYTES). */
static inline void extent(const fby__panel *p, uint64_t row, uint64_t *first, uint64_t *n)
{
    if (p->offsets) {
        *first = p->offsets[row];
        *n = p->offsets[row + 1] - *first;
    } else {
        *first = p->views[row].offset;
        *n = p->views[row].n;
    }
}

/* Lengths of the run's rows into offsets[slot + 1]; returns their sum. */
static uint64_t gather_lengths(fby__worker *w, const fby__output_source *s, int64_t *offsets, const run *r)
{
    uint64_t total = 0, first, n;
    for (uint64_t i = r->slot; i < r->slot + r->n; i++) {
        if (s->take == FBY__TAKE_ALL)
            n = w->n_rows[i];
        else
            extent(&w->entry[i]->panels[s->panel], w->first_row[i], &first, &n);
        offsets[i + 1] = (int64_t)n;
        total += n;
    }
    return total;
}

static void gather_slots(const fby__worker *w, int64_t *dst, const run *r)
{
    for (uint64_t i = r->slot; i < r->slot + r->n; i++)
        for (uint64_t k = 0; k < w->n_rows[i]; k++)
            *dst++ = (int64_t)i;
}

/* The rows of groups, one after the other. */
static fby_status gather_groups(fby_loader *l, fby__worker *w, const fby__output_source *s, const fby__batch_output *o, uint8_t *dst,
                                const run *r, fby_error *err)
{
    size_t bad;
    if (s->from == FBY_FROM_SLOT) {
        gather_slots(w, (int64_t *)(void *)dst, r);
        return FBY_OK;
    }
    for (uint64_t i = r->slot; i < r->slot + r->n; i++) {
        const fby__panel *p = &w->entry[i]->panels[s->panel];
        w->row[i] = p->data + w->first_row[i] * p->row_bytes;
        if (s->from == FBY_FROM_MISSING)
            (void)missing_of(l, w, s, i, w->n_rows[i], dst);
        else if (copy_rows(w, s, o, i, 1, p->row_bytes, w->n_rows[i], dst, &bad) != FBY_OK)
            return row_error(l, w, o, i, err);
        dst += w->n_rows[i] * o->row_bytes;
    }
    return FBY_OK;
}

static fby_status gather_values(fby_loader *l, fby__worker *w, const fby__output_source *s, const fby__batch_output *o,
                                uint8_t *dst, const run *r, fby_error *err)
{
    size_t src_bytes = fby_dtype_bytes(s->panel_dtype), bad;
    if (s->take == FBY__TAKE_ALL)
        return gather_groups(l, w, s, o, dst, r, err);
    for (uint64_t i = r->slot; i < r->slot + r->n; i++) {
        const fby__panel *p = &w->entry[i]->panels[s->panel];
        uint64_t first, n;
        extent(p, w->first_row[i], &first, &n);
        const uint8_t *src = p->data + first * src_bytes;
        if (s->panel_dtype == o->dtype)
            memcpy(dst, src, n * src_bytes);
        else if (fby__convert(o->dtype, dst, s->panel_dtype, src, n, FBY__SCALE_NONE, &bad) != FBY_OK)
            return row_error(l, w, o, i, err);
        dst += n * o->row_bytes;
    }
    return FBY_OK;
}

static void sum_lengths(int64_t *offsets, uint64_t n)
{
    offsets[0] = 0;
    for (uint64_t i = 0; i < n; i++)
        offsets[i + 1] += offsets[i];
}

static fby_status gather_ragged(fby_loader *l, fby__worker *w, fby_batch *b, uint32_t output, uint32_t ragged, const run *r,
                                fby_error *err)
{
    const fby__batch_output *o = &l->shape->outputs[output];
    const fby__output_source *s = &l->sources[output];
    fby_tensor *t = &b->tensors[o->tensor];
    int64_t *offsets = t[1].data;
    uint64_t n = gather_lengths(w, s, offsets, r);
    if (!r->staged) {
        sum_lengths(offsets, b->size);
        FBY__TRY(fby__batch_ragged(b, output, n, err));
        return gather_values(l, w, s, o, t->data, r, err);
    }
    fby__staged *staged = &r->staged[ragged];
    staged->n_values = n;
    FBY__TRY(fby__slab_alloc(l->account, n * o->row_bytes, true, &staged->memory, err));
    return gather_values(l, w, s, o, staged->memory.data, r, err);
}

/* All pieces are staged: put their values together in slot order. */
static fby_status join_staged(fby_loader *l, fby__flight *f, fby_error *err)
{
    uint32_t ragged = 0;
    for (uint32_t i = 0; i < l->shape->n_outputs; i++) {
        const fby__batch_output *o = &l->shape->outputs[i];
        if (o->layout != FBY_LAYOUT_RAGGED)
            continue;
        fby_tensor *t = &f->batch->tensors[o->tensor];
        sum_lengths(t[1].data, f->batch->size);
        FBY__TRY(fby__batch_ragged(f->batch, i, (uint64_t)((int64_t *)t[1].data)[f->batch->size], err));
        uint8_t *dst = t->data;
        for (uint32_t p = 0; p < f->n_pieces; p++) {
            fby__staged *staged = &f->staged[p * l->shape->n_ragged + ragged];
            memcpy(dst, staged->memory.data, staged->n_values * o->row_bytes);
            dst += staged->n_values * o->row_bytes;
            fby__slab_free(l->account, &staged->memory);
        }
        ragged++;
    }
    return FBY_OK;
}

/* ---- a batch ---- */

static fby_status gather_run(fby_loader *l, fby__worker *w, fby_batch *b, const run *r, fby_error *err)
{
    uint32_t ragged = 0;
    for (uint32_t i = 0; i < l->shape->n_outputs; i++) {
        const fby__batch_output *o = &l->shape->outputs[i];
        const fby__output_source *s = &l->sources[i];
        const fby_tensor *t = &b->tensors[o->tensor];
        if (o->layout == FBY_LAYOUT_RAGGED)
            FBY__TRY(gather_ragged(l, w, b, i, ragged++, r, err));
        else if (s->from == FBY_FROM_INDEX || s->from == FBY_FROM_ROW || s->from == FBY_FROM_LENGTH)
            gather_number(l, w, s->from, t, r);
        else if (s->from == FBY_FROM_MISSING)
            gather_missing(l, w, s, t, r);
        else
            FBY__TRY(gather_dense(l, w, s, o, t, r, err));
    }
    return FBY_OK;
}

static fby_status gather(fby_loader *l, fby__worker *w, fby__flight *f, uint32_t n_take, bool last, fby_error *err)
{
    for (uint32_t k = 0; k < n_take; k++)
        resolve(l, w, &f->pieces[w->take[k]]);
    if (n_take == f->n_pieces) {
        run all = {.slot = 0, .n = (uint32_t)f->batch->size};
        return gather_run(l, w, f->batch, &all, err);
    }
    for (uint32_t k = 0; k < n_take; k++) {
        const fby__plan_piece *piece = &f->pieces[w->take[k]];
        run one = {.slot = piece->slot, .n = piece->n, .staged = &f->staged[(size_t)w->take[k] * l->shape->n_ragged]};
        FBY__TRY(gather_run(l, w, f->batch, &one, err));
    }
    return last ? join_staged(l, f, err) : FBY_OK;
}

/* The last piece of a phase in this batch releases the phase's claim. */
static void piece_done_locked(fby_loader *l, fby__flight *f, uint32_t p)
{
    f->piece_state[p] = FBY__PIECE_DONE;
    f->n_done++;
    for (uint32_t q = 0; q < f->n_pieces; q++)
        if (f->pieces[q].phase == f->pieces[p].phase && f->piece_state[q] != FBY__PIECE_DONE)
            return;
    fby__loader_piece_done_locked(l, f->pieces[p].phase);
}

static uint32_t take_ready_locked(fby_loader *l, fby__flight *f, fby__worker *w)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < f->n_pieces; p++)
        if (f->piece_state[p] == FBY__PIECE_WAITING && l->phases[f->pieces[p].phase].state == FBY__PHASE_READY) {
            f->piece_state[p] = FBY__PIECE_TAKEN;
            w->take[n++] = p;
        }
    return n;
}

void fby__assemble_run(fby__task *task, int worker)
{
    fby__flight *f = FBY__TASK_OWNER(task, fby__flight, task);
    fby_loader *l = f->loader;
    fby__worker *w = &l->workers[worker];
    pthread_mutex_lock(&l->lock);
    uint32_t n = 0;
    while (!l->stop && (n = take_ready_locked(l, f, w)) > 0) {
        bool last = f->n_done + n == f->n_pieces;
        pthread_mutex_unlock(&l->lock);
        uint64_t began = fby__now_ns();
        fby_error err = {.file_offset = -1};
        fby_status status = gather(l, w, f, n, last, &err);
        fby__trace_stage(&l->trace, FBY__STAGE_ASSEMBLE, fby__now_ns() - began);
        pthread_mutex_lock(&l->lock);
        for (uint32_t k = 0; k < n; k++)
            piece_done_locked(l, f, w->take[k]);
        if (status != FBY_OK)
            fby__flight_fail_locked(l, f, &err);
        else if (f->n_done == f->n_pieces)
            fby__flight_publish_locked(l, f);
        if (!f->used)
            break;
    }
    f->queued = false;
    l->n_queued--;
    fby__loader_wake_locked(l);
    fby__loader_busy_done_locked(l);
    fby__loader_pump_locked(l);
    pthread_mutex_unlock(&l->lock);
}
