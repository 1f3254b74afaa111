/*
 * Straight into batches: a block is decoded into memory that stays in the cache, and its rows go at once to the batches that want them.
 *
 *   panels    block ──► panels of the superbatch ────gather────► batch       each row is written twice, the second time from memory
 *   direct    block ──► stage (a few, reused) ──scatter──► batches of the superbatch
 *
 * The order of an epoch says where every sample goes (fby__epoch_destinations), so the batches that a phase reaches into are made when it begins
 * to load: `window` of them at most, batch b at b % window. Once the phases of its pieces are there, a batch is finished, and nothing
 * is left to assemble.
 *
 *   1. A phase is loaded when its last batch lies less than `window` beyond the first one that the consumer does not have. No phase
 *      reaches into more batches than that, so the one that the consumer waits for always can be.
 *   2. A batch stays in the window until the phases of all its pieces are there, also when one failed: until then somebody may write to it.
 *   3. Nothing of a block is kept, so the next epoch decodes all of them anew. That pays where the budget would keep few: see LEAST_KEPT.
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "trace/events.h"

#include <math.h>
#include <string.h>

/*
 * The share of blocks kept for the next epoch above which panels are better. With a share h kept, panels cost a row (1 - h) decodes and
 * one gather; scattering costs one decode. A gather costs about a fifth of a decode.
 */
#define LEAST_KEPT 0.23
/* Batches handed to the consumer's queue at once. They are there anyway, and come many at a time: a short queue would wake a worker for every few. */
#define READY 64u
/* Batches under construction at once: each may come to be a mapping of its own, and Linux gives a process 65,530 (vm.max_map_count). */
#define MOST_BATCHES 16384u
#define TILE 512u       /* samples scattered at once */
#define SPAN 2048u      /* samples whose destinations are asked for at once: the permutation computes many side by side */
#define CONVERTED 8192u /* bytes of them, when the dtype widens */
#define LEAST_ROW 64u   /* bytes of all outputs together: of narrower rows a line is shared, and written twice anyway */

typedef struct direct {
    uint32_t window;   /* batches under construction at most */
    fby_batch **batch; /* owned: window; batch b at b % window. Under the schedule's lock, but a job reads those of its phase without it */
    uint8_t **data;    /* owned: n_outputs * window: where their values of an output begin */
    fby__spares stages;
} direct;

static direct *data_of(const fby_loader *l) { return l->engine.delivery_data; }

/* ---- when ---- */

static bool is_plain(const fby__loader_source *in, uint32_t output)
{
    const fby__output_source *s = &in->outputs[output];
    if (fby__batch_output_varies(&in->loader->outputs.shape->outputs[output]) || s->maker || s->afters)
        return false;
    return s->from >= FBY_FROM_SAMPLE_INDEX || (s->rows == FBY__ROWS_ONE && s->n_steps == 1);
}

/* Do the samples and the outputs allow it? */
static bool is_possible(const fby_loader *l)
{
    size_t row_bytes = 0;
    if (fby__plan_shuffle(l->plan) == FBY__SHUFFLE_FULL || fby__plan_part_units(l->plan) || !fby__plan_has_destinations(l->plan))
        return false;
    for (uint32_t k = 0; k < l->sources.n; k++) {
        const fby__loader_source *in = &l->sources.at[k];
        if (fby_samples_kind(in->samples) != FBY_SAMPLES_ROWS || in->n_variable || !in->n_panels)
            return false;
        for (uint32_t i = 0; i < in->n_outputs; i++)
            if (!is_plain(in, i))
                return false;
    }
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++)
        row_bytes += l->outputs.shape->outputs[i].row_bytes;
    for (uint32_t b = 0; b < l->memory.n_blocks; b++)
        if (l->memory.cost[b].thin.rows)
            return false;
    return row_bytes >= LEAST_ROW;
}

/* ---- batches ---- */

static fby_batch **batch_at(const direct *d, uint64_t b) { return &d->batch[b % d->window]; }

static fby_status make_batch(fby_loader *l, uint64_t b, fby_error *err)
{
    const direct *d = data_of(l);
    fby_batch **batch = batch_at(d, b);
    if (*batch)
        return FBY_OK;
    FBY__TRY(fby__batch_create(l->outputs.shape, l->engine.account, fby__epoch_batch_size(l->schedule.epoch, b), b,
                               l->schedule.epoch->epoch, batch, err));
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++)
        d->data[(size_t)i * d->window + b % d->window] = (*batch)->tensors[l->outputs.shape->outputs[i].tensor].data;
    return FBY_OK;
}

/* Is batch b done? In a mixture a phase may have samples of batches before and after b but none of b, which then did not wait for it. */
static bool is_finished(const fby__schedule *s, uint32_t depth, uint64_t b)
{
    const fby__flight *f = &s->flights[b % depth];
    return b < s->next_flight && !(f->used && f->index == b);
}

/* The batches that a phase reaches into exist from here on. Not now: the window ends before, or memory for them is to be mapped first. */
static fby__start begin_phase(fby_loader *l, const fby__plan_phase *phase, fby_error *err)
{
    fby__schedule *s = &l->schedule;
    const direct *d = data_of(l);
    const uint64_t first = fby__max_u64(phase->first_batch, s->start_batch);
    uint32_t missing = 0;
    /* acquire pairs with the consumer's release: there is room for others again */
    if (phase->last_batch >= atomic_load_explicit(&l->pump.consumed, memory_order_acquire) + d->window) {
        fby__pump_when_consumed_locked(s, phase->last_batch + 1 - d->window);
        s->no_window = d->window < l->memory.needs.smooth; /* else it is far enough ahead */
        return FBY__NOT_NOW;
    }
    for (uint64_t b = first; b <= phase->last_batch; b++)
        missing += *batch_at(d, b) == NULL && !is_finished(s, l->config.depth, b);
    if (missing > fby__pool_spares(l->engine.account) && !s->slabs_failed) {
        s->slabs_wanted = missing;
        return FBY__NOT_NOW;
    }
    bool ok = !s->slabs_failed && fby__epoch_destinations_begin(s->epoch, (uint32_t)(phase - s->epoch->phases), err) == FBY_OK;
    for (uint64_t b = first; b <= phase->last_batch && ok; b++)
        ok = is_finished(s, l->config.depth, b) || make_batch(l, b, err) == FBY_OK;
    if (ok)
        return FBY__STARTED;
    (void)fby__fail_nomem(err, "the batches under construction"); /* which is what it returns */
    return FBY__START_FAILED;
}

static void stop(fby_loader *l)
{
    direct *d = data_of(l);
    for (uint32_t i = 0; i < d->window; i++) {
        fby_batch_unref(d->batch[i]);
        d->batch[i] = NULL;
    }
}

static bool finish_batch(fby_loader *l, fby__flight *f)
{
    fby__schedule *s = &l->schedule;
    const direct *d = data_of(l);
    for (uint32_t p = 0; p < f->n_pieces; p++)
        if (s->phases[f->pieces[p].phase].state != FBY__PHASE_READY)
            return false;
    f->batch = *batch_at(d, f->index);
    *batch_at(d, f->index) = NULL;
    for (uint32_t p = 0; p < f->n_pieces; p++) {
        if (s->epoch->phases[f->pieces[p].phase].last_batch == f->index)
            fby__epoch_destinations_end(s->epoch, f->pieces[p].phase); /* all its rows are where they go */
        fby__flight_piece_done_locked(s, &l->memory, f, p);
    }
    fby__flight_publish_locked(l, f);
    return true;
}

/* ---- rows ---- */

/* Samples of a block on their way. */
typedef struct tile {
    uint32_t n;
    uint64_t sample[TILE], row[TILE]; /* of the block */
    const fby__destination *to_batch;
    const uint8_t *from[TILE];
    uint8_t *to[TILE];
    bool repeats; /* the samples came already, and fill up the last batch */
} tile;

/* Where an output's values of the samples go: NULL for those of batches that nobody wants. */
static void aim(const fby__load_job *job, uint32_t output, tile *t)
{
    const fby_loader *l = job->loader;
    const uint64_t first = l->schedule.epoch->phases[job->phase].first_batch;
    const uint32_t window = data_of(l)->window, at = (uint32_t)(first % window);
    const uint64_t skip = l->schedule.start_batch - fby__min_u64(l->schedule.start_batch, first); /* an epoch begun in its middle */
    uint8_t *const *data = data_of(l)->data + (size_t)output * window;
    const size_t row_bytes = l->outputs.shape->outputs[output].row_bytes;
    for (uint32_t i = 0; i < t->n; i++) {
        const fby__destination to_batch = t->to_batch[i];
        const uint32_t k = at + to_batch.batch;
        const bool wanted = to_batch.batch != FBY__NOWHERE && to_batch.batch >= skip;
        t->to[i] = wanted ? data[k < window ? k : k - window] + to_batch.slot * row_bytes : NULL;
    }
}

static fby_status scatter_converted(const fby__load_job *job, const fby__output_source *s, const fby__batch_output *o, const tile *t,
                                    fby_error *err)
{
    _Alignas(64) uint8_t values[CONVERTED];
    const uint8_t *from[TILE];
    const uint32_t at_once = (uint32_t)(CONVERTED / o->row_bytes);
    for (uint32_t i = 0; i < t->n;) {
        uint32_t n = at_once < t->n - i ? at_once : t->n - i;
        size_t bad = 0;
        fby_status status;
        if (n == 0) { /* a row longer than there is room for: to where it goes */
            n = 1;
            status = t->to[i] ? fby__gather_convert(o->dtype, t->to[i], s->panel_dtype, &(fby__rows){.at = t->from + i, .n = 1}, s->offset,
                                                    s->row_elements, &bad)
                              : FBY_OK;
        } else {
            status = fby__gather_convert(o->dtype, values, s->panel_dtype, &(fby__rows){.at = t->from + i, .n = n}, s->offset,
                                         s->row_elements, &bad);
            for (uint32_t k = 0; k < n; k++)
                from[k] = values + k * o->row_bytes;
            fby__scatter_rows(t->to + i, from, o->row_bytes, n);
        }
        if (status != FBY_OK) {
            status = fby__output_value_error(job->in, s, o, t->from[i + bad], 1, 0, err);
            return fby__output_row_error(job->in, o, fby__block_in(job->in, job->entry), t->row[i + bad], status, err);
        }
        i += n;
    }
    return FBY_OK;
}

static fby_status scatter_columns(const fby__load_job *job, const fby__output_source *s, const fby__batch_output *o, tile *t,
                                  fby_error *err)
{
    const fby__panel *p = &job->entry->data.panels[s->panel];
    const bool same = s->panel_dtype == o->dtype;
    const uint8_t *data = p->data + s->step * p->row_bytes + (same ? s->offset : 0);
    const uint64_t lo = job->entry->lo;
    const size_t row_bytes = p->row_bytes;
    for (uint32_t i = 0; i < t->n; i++)
        t->from[i] = data + (t->row[i] - lo) * row_bytes;
    if (!same)
        return scatter_converted(job, s, o, t, err);
    fby__scatter_rows(t->to, t->from, o->row_bytes, t->n);
    return FBY_OK;
}

static void scatter_mask(const fby__load_job *job, const fby__output_source *s, const tile *t)
{
    const uint32_t columns = job->in->panels[s->panel].layout.n_columns;
    for (uint32_t i = 0; i < t->n; i++) {
        const uint8_t *valid = job->entry->data.panels[s->panel].valid + (t->row[i] - job->entry->lo + s->step) * columns + s->first_column;
        for (uint32_t c = 0; t->to[i] && c < s->n_columns; c++)
            t->to[i][c] = fby__mask_of(s->from, valid[c]);
    }
}

/* Outputs without columns. */
static void scatter_number(const fby__load_job *job, const fby__output_source *s, const fby__batch_output *o, const tile *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const uint64_t number = fby__sample_number(job->in, s->from, fby__block_in(job->in, job->entry), t->sample[i], t->row[i], 1);
        const void *value = s->from == FBY_FROM_LIT         ? (const void *)&s->constant
                            : s->from == FBY_FROM_IS_REPEAT ? (const void *)&t->repeats
                                                            : &number;
        if (t->to[i])
            memcpy(t->to[i], value, o->row_bytes);
    }
}

static fby_status deliver_tile(const fby__load_job *job, tile *t, fby_error *err)
{
    const fby_loader *l = job->loader;
    uint64_t one;
    if (fby__samples_are_rows(job->in->samples, fby__block_in(job->in, job->entry)))
        memcpy(t->row, t->sample, t->n * sizeof *t->row);
    else
        for (uint32_t i = 0; i < t->n; i++)
            fby__samples_at(job->in->samples, fby__block_in(job->in, job->entry), t->sample[i], &t->row[i], &one);
    for (uint32_t i = 0; i < l->outputs.shape->n_outputs; i++) {
        const fby__output_source *s = &job->in->outputs[i];
        const fby__batch_output *o = &l->outputs.shape->outputs[i];
        aim(job, i, t);
        if (s->from == FBY_FROM_COLUMNS)
            FBY__TRY(scatter_columns(job, s, o, t, err));
        else if (fby_source_is_mask(s->from))
            scatter_mask(job, s, t);
        else
            scatter_number(job, s, o, t);
    }
    return FBY_OK;
}

/* Where the end of the epoch is wrapped, a sample may come twice in its last batch: pieces say which. */
static fby_status deliver_wrapped(const fby__load_job *job, tile *t, fby_error *err)
{
    const fby_loader *l = job->loader;
    const fby__plan_phase *phase = &l->schedule.epoch->phases[job->phase];
    uint32_t item[TILE];
    uint64_t sample[TILE];
    fby__destination to_batch[TILE];
    fby__plan_piece *pieces = fby__calloc(l->schedule.max_pieces, sizeof *pieces);
    if (!pieces)
        return fby__fail_nomem(err, "the last batch's pieces");
    const uint32_t n_pieces = fby__epoch_pieces(l->schedule.epoch, l->schedule.epoch->n_batches - 1, pieces, l->schedule.max_pieces);
    fby_status status = FBY_OK;
    for (uint32_t p = 0; p < n_pieces; p++)
        for (uint32_t done = 0; pieces[p].phase == job->phase && done < pieces[p].n && status == FBY_OK;) {
            const uint32_t n = pieces[p].n - done < TILE ? pieces[p].n - done : TILE;
            fby__epoch_resolve(l->schedule.epoch, job->phase, pieces[p].index + done, n, item, sample);
            t->n = 0;
            t->to_batch = to_batch;
            t->repeats = pieces[p].repeats;
            for (uint32_t i = 0; i < n; i++) {
                if (item[i] != job->item)
                    continue;
                t->sample[t->n] = sample[i];
                to_batch[t->n++] = (fby__destination){.batch = (uint32_t)(phase->last_batch - phase->first_batch),
                                                      .slot = (uint32_t)pieces[p].slot + done + i};
            }
            status = deliver_tile(job, t, err);
            done += n;
        }
    fby__free(pieces);
    return status;
}

static fby_status deliver(const fby__load_job *job, fby_error *err)
{
    fby_loader *l = job->loader;
    const fby__plan_phase *phase = &l->schedule.epoch->phases[job->phase];
    const fby__plan_item *item = &phase->items[job->item];
    const uint64_t began = fby__now_ns();
    fby_status status = FBY_OK;
    const uint64_t n = item->hi - item->lo;
    tile t;
    fby__destination to_batch[SPAN];
    t.repeats = false;
    for (uint64_t first = 0; first < n && status == FBY_OK; first += t.n) {
        if (first % SPAN == 0)
            fby__epoch_destinations(l->schedule.epoch, job->phase, job->item, first, (uint32_t)fby__min_u64(SPAN, n - first), to_batch);
        t.n = (uint32_t)fby__min_u64(TILE, n - first);
        t.to_batch = to_batch + first % SPAN;
        for (uint32_t i = 0; i < t.n; i++)
            t.sample[i] = item->lo + first + i;
        status = deliver_tile(job, &t, err);
    }
    if (status == FBY_OK && l->schedule.epoch->n_wrapped && phase->last_batch + 1 == l->schedule.epoch->n_batches)
        status = deliver_wrapped(job, &t, err);
    const uint64_t ended = fby__now_ns();
    fby__trace_stage(&l->engine.trace, FBY__STAGE_ASSEMBLE, ended - began);
    fby__event_span("assemble", began, ended, "block", item->block);
    return status;
}

/* ---- blocks: decoded into a stage ---- */

static fby_status reserve(fby__read *read, fby_error *err)
{
    fby__load_job *job = fby__load_job_of(read);
    fby__spares *stages = &data_of(job->loader)->stages;
    if (fby__spares_get(stages, stages->bytes, NULL, NULL, &job->stage, err) != FBY__GRANTED)
        return err->code; /* never larger than reserved: out of memory */
    uint8_t *at = job->stage.data;
    for (uint32_t i = 0; i < read->reader->n_panels; i++)
        fby__load_place(job, i, &at);
    return FBY_OK;
}

static void done(fby__read *read, const fby_error *error)
{
    fby__load_job *job = fby__load_job_of(read);
    fby_error why = {.file_offset = -1};
    if (!error && deliver(job, &why) != FBY_OK)
        error = &why;
    fby__spares_give(&data_of(job->loader)->stages, &job->stage);
    fby__load_publish(job, error);
}

static const fby__sink SINK = {.reserve = reserve, .place = fby__load_grow, .done = done, .room = fby__load_room};

static const fby__sink *sink_of(const fby__room *room)
{
    (void)room;
    return &SINK;
}

static fby__room no_room(const fby__loader_source *in, uint32_t block, uint64_t rows, fby__thin thin)
{
    (void)in, (void)block, (void)rows, (void)thin;
    return (fby__room){0};
}

/* ---- from open to close ---- */

static fby_status start(fby_loader *l, fby_error *err)
{
    direct *d = l->engine.delivery_data = fby__calloc(1, sizeof *d);
    if (!d)
        return fby__fail_nomem(err, "the batches under construction");
    d->window = (uint32_t)l->memory.fit.window;
    d->batch = fby__calloc(d->window, sizeof *d->batch);
    d->data = fby__calloc((size_t)d->window * l->outputs.shape->n_outputs, sizeof *d->data);
    if (!d->batch || !d->data)
        return fby__fail_nomem(err, "the batches under construction");
    return fby__spares_open(&d->stages, l->engine.account, l->memory.needs.stage_bytes, l->memory.max_jobs, err);
}

static void fini(fby_loader *l)
{
    direct *d = data_of(l);
    if (!d)
        return;
    fby__spares_close(&d->stages);
    fby__free((void *)d->data);
    fby__free((void *)d->batch);
    fby__free(d);
    l->engine.delivery_data = NULL;
}

/* ---- how many ---- */

static fby__delivery_needs needs(const fby_loader *l)
{
    fby__delivery_needs n = {.most_jobs = (uint64_t)l->config.n_threads * 2 + 2};
    const uint64_t batches = is_possible(l) ? fby__plan_reach_limit(l->plan) : UINT64_MAX;
    if (batches > MOST_BATCHES)
        return n;
    const uint64_t entry = fby__load_entry_bytes(&l->outputs);
    for (uint32_t b = 0; b < l->memory.n_blocks; b++) {
        const uint64_t bytes = l->memory.cost[b].samples ? l->memory.cost[b].bytes - entry : 0;
        n.blocks_bytes += bytes;
        n.stage_bytes = fby__max_u64(n.stage_bytes, bytes);
    }
    n.job_bytes = n.stage_bytes + l->memory.reads_bytes + (l->memory.max_io_bytes ? fby__slab_class_bytes(l->memory.max_io_bytes) : 0);
    const uint64_t phases = fby__max_u64(2, fby__div_up_u64(2 * n.most_jobs, fby__plan_own_streams(l->plan))); /* of a stream, at once */
    n.least = batches + batches / 4 + 2;
    n.smooth = fby__min_u64(2 * batches + 2, MOST_BATCHES);
    n.enough = fby__min_u64(batches * phases + l->config.depth, MOST_BATCHES);
    /* Entries of the blocks whose rows are in those batches: as many as they are of all samples, and as many again. */
    const double share =
        fmin(1, 2 * (double)n.enough * (double)l->memory.batch_samples / (double)fby__max_u64(fby__loader_samples(&l->sources), 1));
    n.fixed_bytes = fby__loader_fixed_bytes(l) +
                    entry * ((uint64_t)(share * (double)fby__plan_item_limit(l->plan)) + n.most_jobs + 2 * fby__plan_own_streams(l->plan));
    if (l->sources.n > 1) /* where samples of each source go in its batches under construction (fby__epoch_destinations_begin) */
        n.fixed_bytes += (n.enough + batches) * fby__plan_own_streams(l->plan) * l->sources.n * (sizeof(uint64_t) + sizeof(uint32_t));
    return n;
}

static fby__delivery_fit fits(const fby__loader_memory *m, uint64_t budget, const fby__shares *s)
{
    const fby__delivery_needs *n = &m->needs;
    const uint64_t fixed = n->fixed_bytes + s->store_bytes, kept = budget - m->minimum_bytes - s->store_bytes;
    /* Where all blocks stay, nothing is decoded anew. */
    if (!n->least || (double)kept > LEAST_KEPT * (double)n->blocks_bytes || s->rest_bytes >= m->wanted.rest_bytes)
        return (fby__delivery_fit){0};
    for (uint64_t jobs = n->most_jobs; jobs >= 2; jobs--) {
        const uint64_t left = budget - fby__min_u64(budget, fixed + jobs * n->job_bytes), fit = left / m->dense_batch_bytes;
        if (fit < n->least + FBY__SPARE_BATCHES)
            continue;
        const uint64_t window = fby__min_u64(n->enough, fit - FBY__SPARE_BATCHES);
        return (fby__delivery_fit){.window = window,
                                   .jobs = jobs,
                                   .ready = fby__min_u64(READY, window),
                                   .more_bytes = (n->enough - window) * m->dense_batch_bytes + (n->most_jobs - jobs) * n->job_bytes};
    }
    return (fby__delivery_fit){0};
}

const fby__delivery fby__direct_delivery = {.needs = needs,
                                            .fits = fits,
                                            .room = no_room,
                                            .sink = sink_of,
                                            .begin_phase_locked = begin_phase,
                                            .finish_batch_locked = finish_batch,
                                            .stop_locked = stop,
                                            .start = start,
                                            .fini = fini};
