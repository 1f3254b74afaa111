/*
 * Builds one epoch's order for one rank: items, phases and their schedule. Which sample lies where is answered by
 * epoch_lookup.c. O(blocks) time and memory (a sort of the rank's phases aside). Between its steps, and in those that take long, it asks
 * whether the call is cancelled.
 *
 *   blocks, permuted   |  b7  |    b2     | b0 |     b5     |   b1   |
 *   cut at ⌊sN/S⌋      |           stream 0         |       stream 1        |
 *   items              |  b7  |    b2     | b0 | b5 |  b5   |   b1          |
 *   phases             | ph 0 | ph 1           |ph 2| …
 */
#include "plan/mix_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/random.h"
#include "base/sort.h"

#include <assert.h>
#include <string.h>

/* Blocks, or slices of them, of this epoch. */
static uint32_t count_units(const fby__epoch *epoch)
{
    uint64_t n = 0;
    for (uint32_t b = 0; b < epoch->plan->n_blocks; b++)
        n += fby__plan_slices_of(epoch->plan, epoch->counts[b]);
    return (uint32_t)n; /* of all blocks no more than 2^32: checked when the plan was made */
}

/* The blocks that have samples, or their slices, in this epoch's order. False when out of memory, or cancelled. */
static bool order_units(const fby__epoch *epoch, fby__plan_item *units, uint32_t n_units)
{
    const fby__plan *plan = epoch->plan;
    const uint64_t key = fby__random_u64(plan->seed, epoch->epoch, FBY__PLAN_DOMAIN_BLOCKS);
    if (plan->slice_samples)
        return fby__epoch_order_slices(epoch, key, units, n_units);
    uint32_t n = 0;
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        if (epoch->counts[b])
            units[n++] = (fby__plan_item){.block = b, .hi = epoch->counts[b]};
    }
    if (plan->shuffle == FBY__SHUFFLE_NONE || plan->shuffle == FBY__SHUFFLE_FULL)
        return true; /* FULL permutes samples, wherever their blocks stand */
    fby__random random = {.key = key};
    for (uint32_t i = n - 1; i > 0; i--) {
        if (fby__cancelled_at(i))
            return false;
        uint32_t j = (uint32_t)fby__random_below(&random, (uint64_t)i + 1);
        fby__plan_item t = units[i];
        units[i] = units[j];
        units[j] = t;
    }
    return true;
}

const fby__plan_item *fby__epoch_block_spans(const fby__epoch *epoch, uint32_t block, uint32_t *out_n)
{
    uint32_t first = 0, n = 0, n_left = epoch->n_spans;
    while (n_left > 0) {
        const uint32_t half = n_left / 2;
        if (epoch->spans[first + half].block < block) {
            first += half + 1;
            n_left -= half + 1;
        } else {
            n_left = half;
        }
    }
    while (first + n < epoch->n_spans && epoch->spans[first + n].block == block)
        n++;
    *out_n = n;
    return &epoch->spans[first];
}

/*
 * The items of samples [lo, hi) of a unit, in this epoch's numbers; items may be NULL to count only. For a block that a part by key holds
 * in spans, each span that the samples lie in.
 */
static uint32_t put_items(const fby__epoch *epoch, const fby__plan_item *unit, uint64_t lo, uint64_t hi, fby__plan_item *items)
{
    if (!epoch->spans) {
        if (items)
            *items = (fby__plan_item){.block = unit->block, .lo = unit->lo + lo, .hi = unit->lo + hi};
        return 1;
    }
    uint32_t n = 0, n_spans;
    uint64_t before = 0;
    for (const fby__plan_item *span = fby__epoch_block_spans(epoch, unit->block, &n_spans); before < hi; span++) {
        const uint64_t count = span->hi - span->lo, from = lo > before ? lo - before : 0, to = fby__min_u64(count, hi - before);
        if (from < to) {
            if (items)
                items[n] = (fby__plan_item){.block = span->block, .lo = span->lo + from, .hi = span->lo + to};
            n++;
        }
        before += count;
    }
    return n;
}

/*
 * Cut the ordered units at stream borders and keep those of the rank's streams [first, first + n). Returns how many items
 * there are; items may be NULL to count only. stream_items[k] becomes the first item of stream first + k, k ≤ n.
 */
static uint32_t cut_items(const fby__epoch *epoch, const fby__plan_item *units, uint32_t n_units, fby__plan_item *items,
                          uint32_t *stream_items)
{
    const fby__plan *plan = epoch->plan;
    const uint32_t first = plan->first_stream, n = plan->n_streams;
    const uint64_t from = fby__epoch_stream_begin(epoch, first), to = fby__epoch_stream_begin(epoch, first + n);
    uint64_t border = fby__epoch_stream_begin(epoch, first + 1); /* end of stream first + k */
    uint64_t base = 0;                                           /* samples before the unit */
    uint32_t n_items = 0, k = 0;
    stream_items[0] = 0;
    for (uint32_t i = 0; i < n_units && base < to; i++) {
        const uint64_t count = units[i].hi - units[i].lo;
        uint64_t lo = base < from ? from - base : 0;
        while (lo < count && base + lo < to) {
            while (border <= base + lo) { /* more than once over empty streams */
                stream_items[++k] = n_items;
                border = fby__epoch_stream_begin(epoch, first + k + 1);
            }
            uint64_t hi = fby__min_u64(count, border - base);
            n_items += put_items(epoch, &units[i], lo, hi, items ? items + n_items : NULL);
            lo = hi;
        }
        base += count;
    }
    while (k < n)
        stream_items[++k] = n_items;
    return n_items;
}

/*
 * Which of this rank's batches take from positions [begin, end) of a stream of `length`; false when none does.
 * Batch b takes [b*stride + offset, … + share).
 */
static bool phase_batches(const fby__epoch *epoch, uint64_t length, fby__plan_phase *phase)
{
    const fby__plan *plan = epoch->plan;
    if (plan->batch_elements || epoch->borders)
        return true; /* they are cut later, or the mixture's */
    if (epoch->n_batches == 0)
        return false;
    const uint64_t reach = plan->offset + plan->share, last_batch = epoch->n_batches - 1;
    bool used = false;
    if (phase->end > plan->offset) {
        phase->first_batch = phase->begin < reach ? 0 : (phase->begin - reach) / plan->stride + 1;
        phase->last_batch = fby__min_u64((phase->end - 1 - plan->offset) / plan->stride, last_batch);
        used = phase->first_batch <= phase->last_batch;
    }
    if (plan->tail == FBY__TAIL_WRAP && phase->end == length && last_batch * plan->stride + reach > length) {
        phase->first_batch = used ? phase->first_batch : last_batch;
        phase->last_batch = last_batch;
        used = true;
    }
    return used;
}

/*
 * The most samples of a stream's phase. The first ones are smaller and grow; without warm-up the first one is a full one. The next is shorter by
 * the stream's number, so that the streams do not reach the borders of their superbatches together: at each one, blocks of one stream are loaded
 * while the others last. With all borders at one position, everything waited there for the slowest block, unless memory held two superbatches.
 */
static uint64_t phase_aim(const fby__plan *plan, uint32_t stream, uint32_t ordinal)
{
    const uint32_t first = plan->phase.no_warmup ? 1 : FBY__PLAN_GROWTH_STEPS;
    if (ordinal < first)
        return plan->phase.no_warmup ? plan->phase.limit : plan->phase.limit >> (FBY__PLAN_GROWTH_STEPS - ordinal);
    const uint32_t less = ordinal == first ? stream : 0;
    return plan->phase.limit - (uint64_t)((unsigned __int128)plan->phase.limit * less / plan->streams);
}

double fby__plan_growth_share(const fby__plan *plan)
{
    const uint64_t full = plan->phase.limit, all = plan->part_most / plan->streams;
    if (plan->shuffle != FBY__SHUFFLE_SUPERBATCH || plan->slice_samples || plan->whole_streams || plan->phase.no_warmup || all == 0)
        return 0;
    if (full / 2 * plan->n_nonzero < plan->n) /* full ones have no more than a block or two either */
        return 0;
    const uint64_t grown = full - (full >> FBY__PLAN_GROWTH_STEPS); /* 1/8 + 1/4 + 1/2 */
    return grown < all ? (double)grown / (double)all : 1;
}

/*
 * Gather items [k, end) of the rank's stream s into its next phase, which begins at `position`: as many as the limit allows, at least one.
 * Returns the item after it.
 */
static uint32_t fill_phase(const fby__epoch *epoch, uint32_t s, uint32_t k, uint32_t end, uint64_t position, uint32_t ordinal,
                           uint64_t *out_samples)
{
    const fby__plan *plan = epoch->plan;
    const uint64_t length = epoch->stream_length[s];
    const fby__plan_item *items = epoch->items;
    uint64_t limit = 0;        /* BLOCK, NONE: one item a phase, or the spans of one block */
    if (plan->slice_samples) { /* up to the next of the positions that cut the stream into equal phases */
        const uint64_t n = fby__div_up_u64(length, fby__plan_phase_aim(plan, plan->slice_samples));
        const uint64_t passed = (uint64_t)((unsigned __int128)position * n / length);
        const uint64_t next =
            fby__min_u64(fby__max_u64(passed, ordinal) + 1, n); /* one such position a phase, though the phase may end before it */
        limit = (uint64_t)((unsigned __int128)next * length / n) - position;
    } else if (plan->whole_streams) {
        limit = length;
    } else if (plan->shuffle == FBY__SHUFFLE_SUPERBATCH) {
        limit = phase_aim(plan, plan->first_stream + s, ordinal);
    }
    uint64_t samples = 0;
    for (uint32_t next = k; k < end; k = next) {
        uint64_t more = items[next].hi - items[next].lo;
        for (next++; epoch->spans && next < end && items[next].block == items[k].block; next++) /* those of a block stay together */
            more += items[next].hi - items[next].lo;
        if (samples > 0 && (samples >= limit || more > limit - samples))
            break;
        samples += more;
    }
    *out_samples = samples;
    return k;
}

/* The phases of the rank's streams, stream by stream. phases may be NULL to count only; else items get their start. */
static uint32_t cut_phases(fby__epoch *epoch, const uint32_t *stream_items, fby__plan_phase *phases)
{
    const fby__plan *plan = epoch->plan;
    uint32_t n_phases = 0;
    for (uint32_t s = 0; s < epoch->n_streams; s++) {
        uint64_t position = 0;
        uint32_t ordinal = 0;
        for (uint32_t k = stream_items[s]; k < stream_items[s + 1]; ordinal++) {
            uint64_t samples;
            uint32_t end = fill_phase(epoch, s, k, stream_items[s + 1], position, ordinal, &samples);
            fby__plan_phase phase = {.stream = plan->first_stream + s,
                                     .begin = position,
                                     .end = position + samples,
                                     .items = epoch->items + k,
                                     .n_items = end - k,
                                     .n_samples = samples};
            if (phase_batches(epoch, epoch->stream_length[s], &phase)) {
                if (phases) {
                    uint64_t start = 0;
                    if (plan->slice_samples) /* items that were joined leave a gap behind the phase's */
                        (void)fby__plan_merge_items(epoch->items + k, &phase.n_items); /* whether it was cancelled is asked again */
                    for (uint32_t j = k; j < k + phase.n_items; j++) {
                        epoch->items[j].start = start;
                        start += epoch->items[j].hi - epoch->items[j].lo;
                    }
                    phases[n_phases] = phase;
                }
                n_phases++;
            }
            position += samples;
            k = end;
        }
        assert(position == epoch->stream_length[s]);
    }
    return n_phases;
}

/* FULL: the items of all units; returns how many there are. items may be NULL to count only. */
static uint32_t all_items(const fby__epoch *epoch, const fby__plan_item *units, uint32_t n_units, fby__plan_item *items)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_units; i++)
        n += put_items(epoch, &units[i], 0, units[i].hi - units[i].lo, items ? items + n : NULL);
    return n;
}

/* FULL: every stream is one phase; all of them hold all items. */
static uint32_t full_phases(fby__epoch *epoch, uint32_t n_items, fby__plan_phase *phases)
{
    const fby__plan *plan = epoch->plan;
    uint32_t n_phases = 0;
    uint64_t start = 0;
    for (uint32_t j = 0; j < n_items; j++) {
        epoch->items[j].start = start;
        start += epoch->items[j].hi - epoch->items[j].lo;
    }
    for (uint32_t s = 0; s < epoch->n_streams; s++) {
        fby__plan_phase phase = {.stream = plan->first_stream + s,
                                 .begin = 0,
                                 .end = epoch->stream_length[s],
                                 .items = epoch->items,
                                 .n_items = n_items,
                                 .n_samples = epoch->n_available,
                                 .perm_offset = fby__epoch_stream_begin(epoch, plan->first_stream + s)};
        if (phase.end > 0 && phase_batches(epoch, phase.end, &phase))
            phases[n_phases++] = phase;
    }
    return n_phases;
}

/* Schedule order. begin makes it total, so that the sort needs not be stable. */
static int compare_phases(const void *pa, const void *pb)
{
    const fby__plan_phase *a = pa, *b = pb;
    if (a->first_batch != b->first_batch)
        return a->first_batch < b->first_batch ? -1 : 1;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* In schedule order, as in that of positions, they already follow each other. */
void fby__epoch_list_phases(fby__epoch *epoch)
{
    uint32_t *start = epoch->stream_start;
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        start[epoch->phases[p].stream - epoch->plan->first_stream + 1]++;
    for (uint32_t s = 0; s < epoch->n_streams; s++)
        start[s + 1] += start[s];
    for (uint32_t p = 0; p < epoch->n_phases; p++)
        epoch->stream_phases[start[epoch->phases[p].stream - epoch->plan->first_stream]++] = p;
    for (uint32_t s = epoch->n_streams; s > 0; s--) /* each start moved to its end: shift back */
        start[s] = start[s - 1];
    start[0] = 0;
}

/*
 * A guide takes a sample of a phase to its item without a search: entry k is the item that holds sample k << shift, one
 * more entry closes it. With two to four entries an item, most samples have one or two candidates, and a binary search
 * is left for the rest.
 */
static uint64_t guide_entries(const fby__plan_phase *phase, uint32_t *out_shift)
{
    uint32_t shift = 0;
    while ((phase->n_samples - 1) >> shift >= (uint64_t)phase->n_items * 4)
        shift++;
    *out_shift = shift;
    return ((phase->n_samples - 1) >> shift) + 2;
}

static void fill_guide(const fby__plan_phase *phase, uint32_t *guide, uint64_t n_entries)
{
    uint32_t item = 0;
    for (uint64_t k = 0; k + 1 < n_entries; k++) {
        while (item + 1 < phase->n_items && phase->items[item + 1].start <= k << phase->guide_shift)
            item++;
        guide[k] = item;
    }
    guide[n_entries - 1] = phase->n_items - 1;
}

/* Guides for all phases; FULL's phases share one. False when out of memory. */
static bool build_guides(fby__epoch *epoch)
{
    const fby__shuffle shuffle = epoch->plan->shuffle;
    if (!epoch->spans && (shuffle == FBY__SHUFFLE_BLOCK || shuffle == FBY__SHUFFLE_NONE))
        return true; /* one item a phase */
    const bool shared = shuffle == FBY__SHUFFLE_FULL;
    uint64_t total = 0;
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        uint64_t n = guide_entries(&epoch->phases[p], &epoch->phases[p].guide_shift);
        total += shared && p > 0 ? 0 : n;
    }
    epoch->guides = fby__calloc(total, sizeof *epoch->guides);
    if (!epoch->guides)
        return false;
    uint32_t *guide = epoch->guides;
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        fby__plan_phase *phase = &epoch->phases[p];
        phase->guide = guide;
        if (shared && p > 0)
            continue;
        uint64_t n = guide_entries(phase, &phase->guide_shift);
        fill_guide(phase, guide, n);
        guide += shared ? 0 : n;
    }
    return true;
}

/* The most pieces that a batch can have: per stream, the most phases that meet in one batch, and its wrapped pieces. */
static uint32_t count_max_pieces(const fby__epoch *epoch)
{
    const fby__plan *plan = epoch->plan;
    uint64_t total = 0;
    for (uint64_t b = 0; epoch->batch_n && b < epoch->n_batches; b++)
        total = fby__max_u64(total, fby__epoch_pieces(epoch, b, NULL, 0));
    for (uint32_t s = 0; !epoch->batch_n && s < epoch->n_streams; s++) {
        uint64_t most = 0, meeting = 0, batch = UINT64_MAX;
        for (uint32_t i = epoch->stream_start[s]; i < epoch->stream_start[s + 1]; i++) {
            const fby__plan_phase *phase = &epoch->phases[epoch->stream_phases[i]];
            meeting = phase->first_batch == batch ? meeting + 1 : 1;
            most = fby__max_u64(most, meeting);
            if (phase->last_batch != phase->first_batch)
                meeting = 1;
            batch = phase->last_batch;
            uint64_t used = (epoch->n_batches - 1) * plan->stride + plan->offset + plan->share;
            if (phase->end == epoch->stream_length[s] && used > phase->end)
                most += fby__div_up_u64(fby__min_u64(used - phase->end, plan->share), phase->end - phase->begin) + 1;
        }
        total += fby__min_u64(most, plan->share);
    }
    return (uint32_t)total; /* at most the rank's batch, which is at most 2^31 */
}

static void count_samples(fby__epoch *epoch)
{
    if (epoch->plan->batch_elements)
        return; /* when its batches are cut */
    const fby__epoch_counts counts = fby__plan_counts_of(epoch->plan, epoch->n_available);
    epoch->n_batches = counts.n_batches;
    epoch->n_samples = counts.n_samples;
    epoch->n_wrapped = counts.n_wrapped;
    epoch->n_dropped = counts.n_dropped;
}

/* The spans of the keys at these positions of the sweep, joined where they touch. False when out of memory, or cancelled. */
static bool choose_spans(fby__epoch *epoch, uint32_t first, uint32_t end)
{
    const fby__plan *plan = epoch->plan;
    for (uint32_t position = first; position < end; position++) {
        const fby__plan_unit *key = fby__plan_part_unit(plan, epoch->epoch, position);
        epoch->n_spans += key->end - key->first;
    }
    epoch->spans = fby__calloc(epoch->n_spans, sizeof *epoch->spans);
    if (!epoch->spans)
        return false;
    uint32_t n = 0;
    for (uint32_t position = first; position < end; position++) {
        const fby__plan_unit *key = fby__plan_part_unit(plan, epoch->epoch, position);
        if (fby__cancelled_at(position))
            return false;
        for (uint32_t i = key->first; i < key->end; i++) {
            const fby__plan_span *span = &plan->spans[i];
            epoch->spans[n++] = (fby__plan_item){.block = span->block, .lo = span->lo, .hi = span->hi};
            epoch->n_nonzero += epoch->own_counts[span->block] == 0;
            epoch->own_counts[span->block] += span->hi - span->lo;
        }
        epoch->n_available += key->samples;
    }
    epoch->n_spans = n;
    return fby__plan_merge_items(epoch->spans, &epoch->n_spans);
}

/* What the epoch draws. False when out of memory. */
static bool count_draws(fby__epoch *epoch)
{
    const fby__plan *plan = epoch->plan;
    epoch->draws_before = fby__calloc(plan->n_blocks, sizeof *epoch->draws_before);
    if (!epoch->draws_before)
        return false;
    plan->draws.counts(plan->draws.user, epoch->epoch, epoch->own_counts);
    uint64_t before = 0;
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        assert(epoch->own_counts[b] <= plan->counts[b]);
        epoch->draws_before[b] = before;
        before += epoch->own_counts[b];
        epoch->n_nonzero += epoch->own_counts[b] != 0;
    }
    assert(before == plan->n);
    return true;
}

/* Which blocks this epoch has. False when out of memory. */
static bool choose_part(fby__epoch *epoch)
{
    const fby__plan *plan = epoch->plan;
    epoch->counts = plan->counts;
    epoch->n_nonzero = plan->n_nonzero;
    epoch->n_available = plan->n;
    if (!plan->has_parts && !plan->draws.n)
        return true;
    epoch->own_counts = fby__calloc(plan->n_blocks, sizeof *epoch->own_counts);
    if (!epoch->own_counts)
        return false;
    epoch->counts = epoch->own_counts;
    epoch->n_nonzero = 0;
    if (plan->draws.n)
        return count_draws(epoch);
    epoch->n_available = 0;
    uint32_t first, end;
    fby__plan_part_range(plan, epoch->epoch, &first, &end);
    if (plan->spans)
        return choose_spans(epoch, first, end);
    for (uint32_t position = first; position < end; position++) {
        const fby__plan_unit *file = fby__plan_part_unit(plan, epoch->epoch, position);
        for (uint32_t b = file->first; b < file->end; b++) {
            epoch->own_counts[b] = plan->counts[b];
            epoch->n_nonzero += plan->counts[b] != 0;
        }
        epoch->n_available += file->samples;
    }
    return true;
}

/* Which batches take from which phases: what is left to do when phases are known. */
static fby_status finish(fby__epoch *epoch, fby_error *err)
{
    if (epoch->plan->batch_elements)
        FBY__TRY(fby__epoch_cut_batches(epoch, epoch->plan->first_stream, err)); /* in the order of positions, which is the schedule's */
    else if (epoch->n_phases > 1)
        FBY__TRY(fby__sort(epoch->phases, epoch->n_phases, sizeof *epoch->phases, compare_phases, err));
    fby__epoch_list_phases(epoch);
    epoch->max_pieces = count_max_pieces(epoch);
    return FBY_OK;
}

uint64_t fby__plan_full_key(uint64_t seed, uint64_t epoch) { return fby__random_u64(seed, epoch, FBY__PLAN_DOMAIN_SAMPLES); }

fby_status fby__epoch_create(const fby__plan *plan, uint64_t number, fby__epoch **out, fby_error *err)
{
    fby__epoch *epoch = NULL;
    if (plan->mix)
        return fby__mix_epoch_create(plan, number, out, err);
    FBY__TRY(fby__epoch_create_uncut(plan, number, NULL, &epoch, err));
    fby_status status = finish(epoch, err);
    if (status == FBY_OK)
        *out = epoch;
    else
        fby__epoch_destroy(epoch);
    return status;
}

fby_status fby__epoch_create_uncut(const fby__plan *plan, uint64_t number, const uint64_t *borders, fby__epoch **out, fby_error *err)
{
    const bool full = plan->shuffle == FBY__SHUFFLE_FULL;
    const size_t n_borders = (size_t)plan->n_streams + 1;
    fby__plan_item *units = NULL;
    uint32_t *stream_items = NULL;
    uint32_t n_units, n_items, n_phases = plan->n_streams;
    fby__epoch *epoch = fby__calloc(1, sizeof *epoch);
    if (!epoch)
        goto fail;
    epoch->epoch = number;
    epoch->plan = plan;
    epoch->borders = borders;
    epoch->sample_key = fby__plan_full_key(plan->seed, number);
    epoch->n_streams = plan->n_streams;
    if (!choose_part(epoch))
        goto fail;
    count_samples(epoch);

    epoch->stream_length = fby__calloc(plan->n_streams, sizeof *epoch->stream_length);
    epoch->stream_start = fby__calloc(n_borders, sizeof *epoch->stream_start);
    stream_items = fby__calloc(n_borders, sizeof *stream_items);
    n_units = count_units(epoch);
    units = fby__calloc(n_units, sizeof *units);
    if (!epoch->stream_length || !epoch->stream_start || !stream_items || !units)
        goto fail;
    for (uint32_t s = 0; s < plan->n_streams; s++) {
        uint32_t stream = plan->first_stream + s;
        epoch->stream_length[s] = fby__epoch_stream_begin(epoch, stream + 1) - fby__epoch_stream_begin(epoch, stream);
    }

    if (fby__cancelled() || !order_units(epoch, units, n_units))
        goto fail;
    n_items = full ? all_items(epoch, units, n_units, NULL) : cut_items(epoch, units, n_units, NULL, stream_items);
    epoch->items = fby__calloc(n_items, sizeof *epoch->items);
    if (fby__cancelled() || !epoch->items)
        goto fail;
    if (full) {
        (void)all_items(epoch, units, n_units, epoch->items);
    } else {
        (void)cut_items(epoch, units, n_units, epoch->items, stream_items); /* as counted */
        if (fby__cancelled())
            goto fail;
        n_phases = cut_phases(epoch, stream_items, NULL);
    }
    epoch->phases = fby__calloc(n_phases, sizeof *epoch->phases);
    epoch->stream_phases = fby__calloc(n_phases, sizeof *epoch->stream_phases);
    if (fby__cancelled() || !epoch->phases || !epoch->stream_phases)
        goto fail;
    epoch->n_phases = full ? full_phases(epoch, n_items, epoch->phases) : cut_phases(epoch, stream_items, epoch->phases);
    if (fby__cancelled() || !build_guides(epoch))
        goto fail;

    fby__free(units);
    fby__free(stream_items);
    epoch->borders = NULL; /* the caller's */
    *out = epoch;
    return FBY_OK;
fail:
    fby__free(units);
    fby__free(stream_items);
    fby__epoch_destroy(epoch);
    return fby__plan_fail("order of an epoch", err);
}

void fby__epoch_destroy(fby__epoch *epoch)
{
    if (!epoch)
        return;
    fby__free(epoch->own_counts);
    fby__free(epoch->spans);
    fby__free(epoch->draws_before);
    fby__free(epoch->items);
    fby__free(epoch->phases);
    fby__free(epoch->stream_phases);
    fby__free(epoch->stream_start);
    fby__free(epoch->stream_length);
    fby__free(epoch->guides);
    fby__free(epoch->batch_begin);
    fby__free(epoch->batch_n);
    fby__mix_epoch_destroy(epoch->mix);
    fby__free(epoch);
}
