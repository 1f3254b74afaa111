/*
 * An epoch of a mixture: the orders of its sources, which slots of its batches their samples take, and what is asked of it.
 *
 *   source i    pass 0: an order of all its samples, in S streams │ pass 1: another one │ …
 *   stream s    positions of pass 0, then those of pass 1, …: the source's slots of the mixture's stream s, in order
 *
 * Passes are epochs of the source's own plan, cut so that each stream has as many samples as it has slots. The last pass may give a stream
 * more than it needs: those samples do not come. The mixture's phases are those of the passes, with the batches that take from them.
 *
 * Of a batch, a stream's slots are grouped by source, so that a piece has several samples; with shuffle NONE, where a rank has slots of one
 * stream, they are as the circle has them, whatever the number of ranks.
 */
#include "plan/mix_internal.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/random.h"
#include "base/sort.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fby__mix_epoch_destroy(fby__mix_epoch *mix)
{
    if (!mix)
        return;
    for (uint32_t p = 0; mix->passes && p < mix->n_passes; p++) {
        fby__epoch_destroy(mix->passes[p].order);
        fby__free(mix->passes[p].base);
        fby__free(mix->passes[p].used);
        fby__free(mix->passes[p].phase);
    }
    fby__free(mix->passes);
    fby__free(mix->first_pass);
    fby__free(mix->pass_of_phase);
    fby__free(mix->own_of_phase);
    for (uint32_t i = 0; mix->reach && i < mix->n_phases; i++)
        fby__free(mix->reach[i]);
    fby__free((void *)mix->reach);
    fby__free(mix->walk);
    fby__mix_deal_fini(&mix->deal);
    fby__free(mix);
}

/* ---- passes ---- */

/*
 * Where a pass's streams are cut. Passes take slots of the source one after the other. One that gets a share q of all slots that are left gets q of
 * those that are left before each stream. If the last pass has more samples than slots, all streams get their share of them at their ends.
 */
typedef struct cuts {
    uint64_t *left;           /* streams + 1: of the source's slots before each stream, those that the passes before this one left; owned */
    uint64_t all;             /* of all its slots */
    uint64_t *borders, *used; /* streams + 1: of this pass */
} cuts;

static void begin_cuts(const fby__plan *plan, const fby__mix_deal *deal, uint32_t source, cuts *c)
{
    c->all = deal->total[source];
    c->left[0] = 0;
    for (uint32_t s = 0; s < plan->streams; s++)
        c->left[s + 1] = c->left[s] + deal->quota[(size_t)s * deal->n + source];
}

static void cut_pass(const fby__plan *plan, uint32_t source, cuts *c)
{
    const uint64_t has = plan->mix->source[source]->n, here = fby__min_u64(has, c->all);
    for (uint32_t s = 0; s <= plan->streams; s++) {
        c->used[s] = (uint64_t)((unsigned __int128)c->left[s] * here / c->all);
        c->borders[s] = c->used[s] + (uint64_t)((unsigned __int128)(has - here) * s / plan->streams);
        c->left[s] -= c->used[s];
    }
    c->all -= here;
}

static fby_status create_pass(const fby__plan *plan, fby__mix_epoch *mix, uint64_t number, uint32_t p, cuts *c, fby_error *err)
{
    fby__mix_pass *pass = &mix->passes[p];
    const fby__plan *own = plan->mix->source[pass->source];
    const uint64_t ordinal = p - mix->first_pass[pass->source];
    pass->base = fby__calloc(plan->n_streams, sizeof *pass->base);
    pass->used = fby__calloc(plan->n_streams, sizeof *pass->used);
    if (!pass->base || !pass->used)
        return fby__fail_nomem(err, "order of an epoch");
    cut_pass(plan, pass->source, c);
    for (uint32_t s = 0; s < plan->n_streams; s++) {
        const uint32_t stream = plan->first_stream + s;
        pass->used[s] = c->used[stream + 1] - c->used[stream];
        pass->base[s] = ordinal ? mix->passes[p - 1].base[s] + mix->passes[p - 1].used[s] : 0;
    }
    /* Epochs of a source are numbered through its passes: no two are alike. */
    FBY__TRY(fby__epoch_create_uncut(own, number * FBY__MIX_PASSES + ordinal, c->borders, &pass->order, err));
    fby__epoch_list_phases(pass->order);
    if (!(pass->phase = fby__calloc(pass->order->n_phases, sizeof *pass->phase)))
        return fby__fail_nomem(err, "order of an epoch");
    const uint32_t first = plan->mix->first_block[pass->source];
    fby__epoch *order = pass->order;
    uint32_t n_items = 0;
    for (uint32_t k = 0; k < order->n_phases; k++)
        n_items = (uint32_t)fby__max_u64(n_items, (uint64_t)(order->phases[k].items - order->items) + order->phases[k].n_items);
    for (uint32_t k = 0; k < n_items; k++)
        order->items[k].block += first;
    return FBY_OK;
}

static fby_status create_passes(const fby__plan *plan, fby__mix_epoch *mix, uint64_t number, fby_error *err)
{
    fby_status status = FBY_OK;
    uint64_t n = 0;
    cuts c = {.left = fby__calloc(3 * ((size_t)plan->streams + 1), sizeof *c.left)};
    mix->first_pass = fby__calloc((size_t)mix->deal.n + 1, sizeof *mix->first_pass);
    for (uint32_t i = 0; mix->first_pass && i < mix->deal.n; i++) {
        mix->first_pass[i] = (uint32_t)n;
        n += fby__div_up_u64(mix->deal.total[i], plan->mix->source[i]->n);
        mix->first_pass[i + 1] = (uint32_t)n;
    }
    mix->passes = fby__calloc(n, sizeof *mix->passes);
    if (!c.left || !mix->first_pass || !mix->passes) {
        status = fby__fail_nomem(err, "order of an epoch");
    } else {
        mix->n_passes = (uint32_t)n;
        c.borders = c.left + plan->streams + 1;
        c.used = c.borders + plan->streams + 1;
    }
    for (uint32_t i = 0, p = 0; status == FBY_OK && i < mix->deal.n; i++) {
        begin_cuts(plan, &mix->deal, i, &c);
        for (; status == FBY_OK && p < mix->first_pass[i + 1]; p++) {
            mix->passes[p].source = i;
            status = fby__cancel_check(err);
            if (status == FBY_OK)
                status = create_pass(plan, mix, number, p, &c, err);
        }
    }
    fby__free(c.left);
    return status;
}

/* ---- slots ---- */

/* Slots of each source of the rank's stream s up to slot n of the stream. */
static void slots_of(const fby__epoch *epoch, uint32_t s, uint64_t n, uint64_t *out)
{
    fby__mix_slots(&epoch->mix->deal, epoch->plan->streams, epoch->plan->first_stream + s, n, out);
}

static uint64_t slots_of_one(const fby__epoch *epoch, uint32_t s, uint32_t source, uint64_t n)
{
    return fby__mix_slots_of(&epoch->mix->deal, epoch->plan->streams, epoch->plan->first_stream + s, source, n);
}

/* The slots of the stream that batch b takes, up to its end. */
static uint64_t window_end(const fby__epoch *epoch, uint32_t s, uint64_t b)
{
    uint64_t lo, hi;
    fby__epoch_window(epoch, s, b, &lo, &hi);
    return hi;
}

static uint64_t window_begin(const fby__epoch *epoch, uint32_t s, uint64_t b)
{
    uint64_t lo, hi;
    fby__epoch_window(epoch, s, b, &lo, &hi);
    return lo;
}

/* The first batch, from `from` on, before whose window's end (or beginning) the source has more than `position` slots; n_batches: none. */
static uint64_t batch_after(const fby__epoch *epoch, uint32_t s, uint32_t source, uint64_t position, uint64_t from, bool at_end)
{
    uint64_t lo = from, hi = from, step = 1;
    uint64_t (*const window)(const fby__epoch *, uint32_t, uint64_t) = at_end ? window_end : window_begin;
    for (; hi < epoch->n_batches; step *= 2) { /* most are near */
        if (slots_of_one(epoch, s, source, window(epoch, s, hi)) > position)
            break;
        lo = hi + 1;
        hi = fby__min_u64(hi + step, epoch->n_batches);
    }
    while (lo < hi) {
        const uint64_t middle = lo + (hi - lo) / 2;
        if (slots_of_one(epoch, s, source, window(epoch, s, middle)) > position)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

/* Does batch b have slots of a source between two positions of the rank's stream s? */
static bool has_slots(const fby__epoch *epoch, uint32_t s, uint32_t source, uint64_t begin, uint64_t end, uint64_t b)
{
    uint64_t lo, hi;
    fby__epoch_window(epoch, s, b, &lo, &hi);
    return fby__max_u64(begin, slots_of_one(epoch, s, source, lo)) < fby__min_u64(end, slots_of_one(epoch, s, source, hi));
}

/* ---- phases ---- */

typedef struct listed {
    fby__plan_phase phase;
    uint32_t pass, own;
} listed;

static int compare_listed(const void *pa, const void *pb)
{
    const listed *a = pa, *b = pb;
    if (a->phase.first_batch != b->phase.first_batch)
        return a->phase.first_batch < b->phase.first_batch ? -1 : 1;
    if (a->phase.stream != b->phase.stream)
        return a->phase.stream < b->phase.stream ? -1 : 1;
    if (a->pass != b->pass)
        return a->pass < b->pass ? -1 : 1;
    return a->own < b->own ? -1 : a->own > b->own;
}

/* Which pass has the last slots of a source in the rank's stream s: its samples are repeated to fill up the last batch. */
static uint32_t last_pass_of(const fby__mix_epoch *mix, uint32_t source, uint32_t s)
{
    uint32_t p = mix->first_pass[source + 1] - 1;
    while (p > mix->first_pass[source] && mix->passes[p].used[s] == 0)
        p--;
    return p;
}

/* The batches of this rank that take from a phase of a pass; false: none. *io_from: no batch before it can. */
static bool phase_batches(const fby__epoch *epoch, uint32_t p, fby__plan_phase *phase, uint64_t *io_from)
{
    const fby__mix_epoch *mix = epoch->mix;
    const fby__mix_pass *pass = &mix->passes[p];
    const uint32_t s = phase->stream - epoch->plan->first_stream;
    if (phase->begin >= pass->used[s] || epoch->n_batches == 0)
        return false;
    const uint64_t begin = pass->base[s] + phase->begin, end = pass->base[s] + fby__min_u64(phase->end, pass->used[s]);
    const uint64_t quota = mix->deal.quota[(size_t)phase->stream * mix->deal.n + pass->source], last = epoch->n_batches - 1;
    phase->first_batch = *io_from = batch_after(epoch, s, pass->source, begin, *io_from, true);
    phase->last_batch = batch_after(epoch, s, pass->source, end - 1, phase->first_batch, false);
    bool used = phase->first_batch <= last && phase->first_batch < phase->last_batch;
    phase->last_batch -= used;
    for (; epoch->plan->share != epoch->plan->stride && used; phase->first_batch++) { /* NONE: between windows, slots are other ranks' */
        used = phase->first_batch <= phase->last_batch;
        if (used && has_slots(epoch, s, pass->source, begin, end, phase->first_batch))
            break;
    }
    while (epoch->plan->share != epoch->plan->stride && used && !has_slots(epoch, s, pass->source, begin, end, phase->last_batch))
        phase->last_batch--;
    if (end == quota && p == last_pass_of(mix, pass->source, s) && has_slots(epoch, s, pass->source, quota, UINT64_MAX, last)) {
        phase->first_batch = used ? phase->first_batch : last; /* it fills the last batch up */
        phase->last_batch = last;
        used = true;
    }
    return used;
}

uint64_t fby__mix_making_bytes(const fby__plan *plan)
{
    const fby__mix *mix = plan->mix;
    uint64_t order = 0, list = 0;
    for (uint32_t i = 0; i < mix->n; i++) {
        order = fby__max_u64(order, fby__plan_making_bytes(mix->source[i]));
        list = fby__min_u64(list + mix->passes[i] * fby__plan_most_phases(mix->source[i]) * sizeof(listed), UINT64_MAX / 8);
    }
    return fby__max_u64(order, list);
}

/* Lists a source's phases in the rank's stream s, in order: the batches of each are looked for from those of the one before on. */
static void list_source(fby__epoch *epoch, uint32_t source, uint32_t s, listed *list)
{
    fby__mix_epoch *mix = epoch->mix;
    uint64_t from = 0;
    for (uint32_t p = mix->first_pass[source]; p < mix->first_pass[source + 1] && !fby__cancelled(); p++) {
        const fby__epoch *order = mix->passes[p].order;
        for (uint32_t k = order->stream_start[s]; k < order->stream_start[s + 1]; k++) {
            const uint32_t own = order->stream_phases[k];
            fby__plan_phase phase = order->phases[own];
            mix->passes[p].phase[own] = UINT32_MAX;
            if (phase_batches(epoch, p, &phase, &from))
                list[epoch->n_phases++] = (listed){phase, p, own};
        }
    }
}

static fby_status list_phases(fby__epoch *epoch, fby_error *err)
{
    fby__mix_epoch *mix = epoch->mix;
    uint64_t most = 0;
    for (uint32_t p = 0; p < mix->n_passes; p++)
        most += mix->passes[p].order->n_phases;
    listed *list = fby__calloc(most, sizeof *list);
    epoch->phases = fby__calloc(most, sizeof *epoch->phases);
    mix->pass_of_phase = fby__calloc(most, sizeof *mix->pass_of_phase);
    mix->own_of_phase = fby__calloc(most, sizeof *mix->own_of_phase);
    mix->reach = fby__calloc(most, sizeof *mix->reach);
    if (!list || !epoch->phases || !mix->pass_of_phase || !mix->own_of_phase || !mix->reach || most > UINT32_MAX) {
        fby__free(list);
        return fby__fail_nomem(err, "order of an epoch");
    }
    for (uint32_t i = 0; i < mix->deal.n; i++)
        for (uint32_t s = 0; s < epoch->n_streams && !fby__cancelled(); s++)
            list_source(epoch, i, s, list);
    fby_status status = fby__cancel_check(err);
    if (status == FBY_OK)
        status = fby__sort(list, epoch->n_phases, sizeof *list, compare_listed, err);
    if (status != FBY_OK) {
        fby__free(list);
        return status;
    }
    const uint64_t limit = fby__mix_has_destinations(epoch->plan) ? fby__mix_reach_limit(epoch->plan) : UINT64_MAX;
    for (uint32_t i = 0; i < epoch->n_phases; i++) {
        epoch->phases[i] = list[i].phase;
        mix->pass_of_phase[i] = list[i].pass;
        mix->own_of_phase[i] = list[i].own;
        mix->passes[list[i].pass].phase[list[i].own] = i;
        assert(list[i].phase.last_batch - list[i].phase.first_batch < limit);
        (void)limit;
    }
    mix->n_phases = epoch->n_phases;
    fby__free(list);
    return FBY_OK;
}

/* At most: for every source of a stream, the phases that meet in one batch, and what fills the last one up. */
static uint32_t count_max_pieces(const fby__epoch *epoch)
{
    const fby__mix_epoch *mix = epoch->mix;
    const uint64_t share = epoch->plan->share;
    uint64_t total = 0;
    if (epoch->plan->shuffle == FBY__SHUFFLE_NONE)
        return (uint32_t)share;
    for (uint32_t s = 0; s < epoch->n_streams; s++) {
        uint64_t of_stream = 0;
        for (uint32_t i = 0; i < mix->deal.n; i++) {
            uint64_t most = 0, meeting = 0, batch = UINT64_MAX;
            for (uint32_t p = mix->first_pass[i]; p < mix->first_pass[i + 1]; p++) {
                const fby__epoch *order = mix->passes[p].order;
                for (uint32_t k = order->stream_start[s]; k < order->stream_start[s + 1]; k++) {
                    const uint32_t number = mix->passes[p].phase[order->stream_phases[k]];
                    if (number == UINT32_MAX)
                        continue;
                    const fby__plan_phase *phase = &epoch->phases[number];
                    meeting = phase->first_batch == batch ? meeting + 1 : 1;
                    most = fby__max_u64(most, meeting);
                    if (phase->last_batch != phase->first_batch)
                        meeting = 1;
                    batch = phase->last_batch;
                }
            }
            of_stream += most;
        }
        if (epoch->n_wrapped) /* repeats may be of single samples */
            of_stream = share;
        total += fby__min_u64(of_stream, share);
    }
    return (uint32_t)total; /* at most the rank's batch, which is at most 2^31 */
}

static fby_status create_walks(fby__epoch *epoch, fby_error *err)
{
    fby__mix_epoch *mix = epoch->mix;
    const size_t n = mix->deal.n;
    if (!(mix->walk = fby__calloc(epoch->n_streams, sizeof *mix->walk + n * sizeof *mix->walk->circle)))
        return fby__fail_nomem(err, "order of an epoch");
    uint64_t *circles = (uint64_t *)(void *)(mix->walk + epoch->n_streams);
    for (uint32_t s = 0; s < epoch->n_streams; s++)
        mix->walk[s].circle = circles + s * n;
    return FBY_OK;
}

fby_status fby__mix_epoch_create(const fby__plan *plan, uint64_t number, fby__epoch **out, fby_error *err)
{
    fby_status status = FBY_OK;
    fby__epoch_counts counts;
    fby__epoch *epoch = fby__calloc(1, sizeof *epoch);
    if (!epoch || !(epoch->mix = fby__calloc(1, sizeof *epoch->mix)) ||
        !(epoch->stream_length = fby__calloc(plan->n_streams, sizeof *epoch->stream_length))) {
        fby__epoch_destroy(epoch);
        return fby__fail_nomem(err, "order of an epoch");
    }
    epoch->epoch = number;
    epoch->plan = plan;
    epoch->counts = plan->counts;
    epoch->n_nonzero = plan->n_nonzero;
    epoch->n_streams = plan->n_streams;
    if ((status = fby__plan_count(plan, number, &counts, err)) != FBY_OK ||
        (status = fby__mix_deal_init(plan, number, &epoch->mix->deal, err)) != FBY_OK)
        goto fail;
    epoch->n_available = counts.n_available;
    epoch->n_batches = counts.n_batches;
    epoch->n_samples = counts.n_samples;
    epoch->n_wrapped = counts.n_wrapped;
    epoch->n_dropped = counts.n_dropped;
    for (uint32_t s = 0; s < plan->n_streams; s++)
        epoch->stream_length[s] = epoch->mix->deal.length[plan->first_stream + s];
    if ((status = create_walks(epoch, err)) != FBY_OK || (status = create_passes(plan, epoch->mix, number, err)) != FBY_OK ||
        (status = list_phases(epoch, err)) != FBY_OK)
        goto fail;
    epoch->max_pieces = count_max_pieces(epoch);
    *out = epoch;
    return FBY_OK;
fail:
    fby__epoch_destroy(epoch);
    return status;
}

/* ---- answers ---- */

/* The pass that has position `at` of a source in the rank's stream s: the first that ends behind it. */
static uint32_t pass_at(const fby__mix_epoch *mix, uint32_t source, uint32_t s, uint64_t at)
{
    uint32_t low = mix->first_pass[source], high = mix->first_pass[source + 1];
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (mix->passes[middle].base[s] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The longest piece from position `at` of a source in the rank's stream s, at most up to `end`. */
static fby__plan_piece piece_from(const fby__epoch *epoch, uint32_t s, uint32_t source, uint64_t at, uint64_t end)
{
    const fby__mix_epoch *mix = epoch->mix;
    const uint64_t quota = mix->deal.quota[(size_t)(epoch->plan->first_stream + s) * mix->deal.n + source];
    const bool repeats = at >= quota;
    const uint32_t p = repeats ? last_pass_of(mix, source, s) : pass_at(mix, source, s, at);
    const fby__mix_pass *pass = &mix->passes[p];
    const uint64_t position = (repeats ? quota - 1 : at) - pass->base[s];
    const uint32_t own = pass->order->stream_phases[fby__epoch_find_phase(pass->order, s, position)];
    const fby__plan_phase *phase = &pass->order->phases[own];
    const uint64_t n = fby__min_u64(phase->end, pass->used[s]) - phase->begin;
    const uint64_t within = repeats ? (at - quota) % n : position - phase->begin;
    return (fby__plan_piece){.phase = pass->phase[own],
                             .n = (uint32_t)fby__min_u64(n - within, end - at), /* at most a batch: 2^31 */
                             .repeats = repeats,
                             .index = phase->perm_offset + within};
}

/* Pieces as they are found, joined where one goes on where the one before it ended. */
typedef struct pieces {
    fby__plan_piece *out;
    uint32_t n, cap;
    uint64_t slot;
    fby__plan_piece last;
} pieces;

static void put_pieces(const fby__epoch *epoch, uint32_t s, uint32_t source, uint64_t at, uint64_t end, pieces *to)
{
    while (at < end) {
        fby__plan_piece piece = piece_from(epoch, s, source, at, fby__min_u64(end, at + UINT32_MAX / 2));
        piece.slot = to->slot;
        to->slot += piece.n;
        at += piece.n;
        if (to->n > 0 && to->last.phase == piece.phase && to->last.repeats == piece.repeats && to->last.index + to->last.n == piece.index) {
            to->last.n += piece.n;
        } else {
            to->n++;
            to->last = piece;
        }
        if (to->n <= to->cap)
            to->out[to->n - 1] = to->last;
    }
}

static void pieces_of_stream(const fby__epoch *epoch, uint32_t s, uint64_t lo, uint64_t hi, fby__mix_walk *walk, pieces *to)
{
    uint64_t begin[FBY__MIX_SOURCES], end[FBY__MIX_SOURCES];
    const bool grouped = epoch->plan->shuffle != FBY__SHUFFLE_NONE;
    const fby__mix_deal *deal = &epoch->mix->deal;
    const uint32_t streams = epoch->plan->streams, stream = epoch->plan->first_stream + s;
    fby__mix_walk_to(deal, streams, stream, lo, walk, begin);
    while (lo < hi) {
        const uint64_t next = grouped ? hi : lo + 1;
        fby__mix_walk_to(deal, streams, stream, next, walk, end);
        for (uint32_t i = 0; i < epoch->mix->deal.n; i++)
            put_pieces(epoch, s, i, begin[i], end[i], to);
        memcpy(begin, end, epoch->mix->deal.n * sizeof *begin);
        lo = next;
    }
}

uint32_t fby__mix_pieces(const fby__epoch *epoch, uint64_t b, fby__mix_walk *walk, fby__plan_piece *out, uint32_t cap)
{
    pieces to = {.out = out, .cap = cap};
    uint64_t circle[FBY__MIX_SOURCES];
    for (uint32_t s = 0; s < epoch->n_streams; s++) {
        uint64_t lo, hi;
        fby__epoch_window(epoch, s, b, &lo, &hi);
        fby__mix_walk anew = {.n = UINT64_MAX, .circle = circle};
        pieces_of_stream(epoch, s, lo, hi, walk ? &walk[s] : &anew, &to);
    }
    return to.n;
}

fby__plan_piece fby__mix_piece_at(const fby__epoch *epoch, uint32_t s, uint64_t b, uint64_t slot)
{
    uint64_t lo, hi, begin[FBY__MIX_SOURCES], end[FBY__MIX_SOURCES];
    fby__epoch_window(epoch, s, b, &lo, &hi);
    if (epoch->plan->shuffle == FBY__SHUFFLE_NONE) {
        lo += slot;
        hi = lo + 1;
        slot = 0;
    }
    slots_of(epoch, s, lo, begin);
    slots_of(epoch, s, hi, end);
    uint32_t i = 0;
    for (; slot >= end[i] - begin[i]; i++)
        slot -= end[i] - begin[i];
    return piece_from(epoch, s, i, begin[i] + slot, begin[i] + slot + 1);
}

void fby__mix_resolve(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, uint32_t *out_item, uint64_t *out_sample)
{
    const fby__mix_epoch *mix = epoch->mix;
    assert(phase < epoch->n_phases);
    fby__epoch_resolve_permuted(mix->passes[mix->pass_of_phase[phase]].order, mix->own_of_phase[phase], index, n, out_item, out_sample);
}

uint32_t fby__epoch_source(const fby__epoch *epoch, uint32_t phase)
{
    return epoch->mix ? epoch->mix->passes[epoch->mix->pass_of_phase[phase]].source : 0;
}
