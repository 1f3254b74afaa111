/*
 * Answers from an epoch that was built: the pieces of a batch, the samples of a piece, the k-th sample.
 * Allocates nothing, changes nothing: any number of threads may ask.
 */
#include "plan/mix_internal.h"

#include "base/checked.h"
#include "base/random.h"

#include <assert.h>

bool fby__epoch_resolve_in(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, fby__pool_scratch *scratch,
                           uint32_t *out_item, uint64_t *out_sample)
{
    if (epoch->mix) {
        fby__mix_resolve(epoch, phase, index, n, out_item, out_sample);
    } else if (epoch->plan->pool_samples) {
        assert(scratch);
        return fby__epoch_resolve_pooled(epoch, phase, index, n, scratch, out_item, out_sample);
    } else {
        fby__epoch_resolve_permuted(epoch, phase, index, n, out_item, out_sample);
    }
    return true;
}

void fby__epoch_resolve(const fby__epoch *epoch, uint32_t phase, uint64_t index, uint32_t n, uint32_t *out_item, uint64_t *out_sample)
{
    (void)fby__epoch_resolve_in(epoch, phase, index, n, NULL, out_item, out_sample); /* without pools it always does */
}

uint64_t fby__epoch_phase_key(const fby__epoch *epoch, const fby__plan_phase *phase)
{
    return fby__random_u64(epoch->sample_key, phase->begin, phase->stream);
}

static void resolve_items(const fby__epoch *epoch, uint32_t phase_index, uint64_t index, uint32_t n, uint32_t *out_item,
                          uint64_t *out_sample)
{
    assert(phase_index < epoch->n_phases);
    const fby__plan_phase *phase = &epoch->phases[phase_index];
    const fby__plan_item *items = phase->items;
    assert(index <= phase->n_samples && n <= phase->n_samples - index);

    const fby__shuffle shuffle = epoch->plan->shuffle;
    const bool in_order = shuffle == FBY__SHUFFLE_BLOCK || shuffle == FBY__SHUFFLE_NONE;
    if (in_order && phase->n_items == 1) {
        for (uint32_t j = 0; j < n; j++) {
            out_item[j] = 0;
            out_sample[j] = items[0].lo + index + j;
        }
        return;
    }
    const uint64_t key = shuffle == FBY__SHUFFLE_FULL ? epoch->sample_key : fby__epoch_phase_key(epoch, phase);
    if (in_order)
        for (uint32_t j = 0; j < n; j++)
            out_sample[j] = index + j;
    else
        fby__permute_many(key, phase->n_samples, index, n, out_sample);

    for (uint32_t j = 0; j < n; j++) {
        const uint64_t element = out_sample[j];
        const uint32_t *guide = &phase->guide[element >> phase->guide_shift];
        uint32_t item = guide[0], last = guide[1];
        while (last - item > 1) { /* seldom: several small items under one entry */
            uint32_t middle = item + (last - item) / 2;
            if (items[middle].start <= element)
                item = middle;
            else
                last = middle - 1;
        }
        item += (last - item) * (items[last].start <= element); /* whichever of the two, without a branch that nobody could guess */
        out_item[j] = item;
        out_sample[j] = element - items[item].start + items[item].lo;
    }
}

/* Draws of blocks, in place, become samples of them. */
static void draw(const fby__epoch *epoch, const uint32_t *block, uint64_t *io_sample, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        io_sample[i] += epoch->draws_before[block[i]];
    epoch->plan->draws.drawn(epoch->plan->draws.user, epoch->epoch, block, io_sample, n);
}

void fby__epoch_resolve_permuted(const fby__epoch *epoch, uint32_t phase_index, uint64_t index, uint32_t n, uint32_t *out_item,
                                 uint64_t *out_sample)
{
    enum { CHUNK = 512 };
    uint32_t block[CHUNK];
    resolve_items(epoch, phase_index, index, n, out_item, out_sample);
    for (uint32_t done = 0; epoch->draws_before && done < n;) {
        const uint32_t m = n - done < CHUNK ? n - done : CHUNK;
        for (uint32_t i = 0; i < m; i++)
            block[i] = epoch->phases[phase_index].items[out_item[done + i]].block;
        draw(epoch, block, out_sample + done, m);
        done += m;
    }
}

void fby__epoch_item_samples(const fby__epoch *epoch, const fby__plan_item *item, uint64_t *out_lo, uint64_t *out_hi)
{
    *out_lo = item->lo;
    *out_hi = item->hi;
    if (!epoch->draws_before)
        return;
    uint64_t ends[2] = {item->lo, item->hi - 1};
    draw(epoch, (uint32_t[]){item->block, item->block}, ends, 2);
    *out_lo = ends[0];
    *out_hi = ends[1] + 1;
}

void fby__epoch_window(const fby__epoch *epoch, uint32_t s, uint64_t b, uint64_t *lo, uint64_t *hi)
{
    const fby__plan *plan = epoch->plan;
    if (epoch->batch_begin) {
        *lo = epoch->batch_begin[b];
        *hi = *lo + epoch->batch_n[b];
        return;
    }
    *lo = b * plan->stride + plan->offset;
    *hi = *lo + plan->share;
    if (plan->tail == FBY__TAIL_KEEP) {
        *lo = fby__min_u64(*lo, epoch->stream_length[s]);
        *hi = fby__min_u64(*hi, epoch->stream_length[s]);
    }
}

uint32_t fby__epoch_find_phase(const fby__epoch *epoch, uint32_t s, uint64_t position)
{
    uint32_t first = epoch->stream_start[s], n = epoch->stream_start[s + 1] - first;
    assert(n > 0);
    while (n > 1) {
        uint32_t half = n / 2;
        if (epoch->phases[epoch->stream_phases[first + half]].begin <= position)
            first += half;
        n -= half;
    }
    return first;
}

/*
 * The longest piece from `position` of the rank's stream s at most up to `end`. Past the
 * stream's end, the elements of its last phase come again. *cursor is an index into stream_phases that holds the
 * position, or any before it in the stream.
 */
static fby__plan_piece next_piece(const fby__epoch *epoch, uint32_t s, uint64_t position, uint64_t end, uint32_t *cursor)
{
    const uint64_t length = epoch->stream_length[s];
    fby__plan_piece piece;
    uint64_t within, n;
    if (position < length) {
        while (epoch->phases[epoch->stream_phases[*cursor]].end <= position)
            (*cursor)++;
        const fby__plan_phase *phase = &epoch->phases[epoch->stream_phases[*cursor]];
        assert(phase->begin <= position);
        within = position - phase->begin;
        n = fby__min_u64(phase->end, end) - position;
    } else {
        *cursor = epoch->stream_start[s + 1] - 1;
        const fby__plan_phase *phase = &epoch->phases[epoch->stream_phases[*cursor]];
        assert(phase->end == length);
        const uint64_t cycle = phase->end - phase->begin;
        within = (position - length) % cycle;
        n = fby__min_u64(cycle - within, end - position);
    }
    piece.phase = epoch->stream_phases[*cursor];
    piece.repeats = position >= length;
    piece.index = epoch->phases[piece.phase].perm_offset + within;
    piece.n = (uint32_t)n; /* at most a batch: 2^31 */
    piece.slot = 0;
    return piece;
}

uint64_t fby__epoch_batch_size(const fby__epoch *epoch, uint64_t b)
{
    assert(b < epoch->n_batches);
    if (epoch->batch_n)
        return epoch->batch_n[b];
    const uint64_t full = epoch->plan->share * epoch->n_streams;
    return b + 1 < epoch->n_batches ? full : epoch->n_samples - b * full;
}

uint32_t fby__epoch_max_pieces(const fby__epoch *epoch) { return epoch->max_pieces; }

uint32_t fby__epoch_pieces_in_turn(fby__epoch *epoch, uint64_t b, fby__plan_piece *out, uint32_t cap)
{
    assert(b < epoch->n_batches);
    return epoch->mix ? fby__mix_pieces(epoch, b, epoch->mix->walk, out, cap) : fby__epoch_pieces(epoch, b, out, cap);
}

uint32_t fby__epoch_pieces(const fby__epoch *epoch, uint64_t b, fby__plan_piece *out, uint32_t cap)
{
    assert(b < epoch->n_batches);
    uint32_t n_pieces = 0;
    uint64_t slot = 0;
    if (epoch->mix)
        return fby__mix_pieces(epoch, b, NULL, out, cap);
    for (uint32_t s = 0; s < epoch->n_streams; s++) {
        uint64_t lo, hi;
        fby__epoch_window(epoch, s, b, &lo, &hi);
        if (lo == hi)
            continue;
        uint32_t cursor = fby__epoch_find_phase(epoch, s, lo);
        while (lo < hi) {
            fby__plan_piece piece = next_piece(epoch, s, lo, hi, &cursor);
            piece.slot = slot;
            if (n_pieces < cap)
                out[n_pieces] = piece;
            n_pieces++;
            slot += piece.n;
            lo += piece.n;
        }
    }
    return n_pieces;
}

void fby__epoch_sample(const fby__epoch *epoch, uint64_t k, uint32_t *out_block, uint64_t *out_sample)
{
    assert(k < epoch->n_samples);
    const uint64_t share = epoch->plan->share, full = share * epoch->n_streams;
    uint64_t b = k / full;
    uint64_t slot = k % full;
    uint32_t s = (uint32_t)(slot / share);
    slot %= share;
    if (epoch->batch_n) {
        for (b = 0, s = 0, slot = k; slot >= epoch->batch_n[b]; b++)
            slot -= epoch->batch_n[b];
    }
    uint64_t lo, hi;
    fby__epoch_window(epoch, s, b, &lo, &hi);
    if (!epoch->batch_n && epoch->plan->tail == FBY__TAIL_KEEP && b + 1 == epoch->n_batches) { /* streams give what they have left */
        slot = k % full;
        for (s = 0, fby__epoch_window(epoch, s, b, &lo, &hi); slot >= hi - lo; fby__epoch_window(epoch, ++s, b, &lo, &hi))
            slot -= hi - lo;
    }
    uint32_t cursor, item;
    fby__plan_piece piece;
    if (epoch->mix) {
        piece = fby__mix_piece_at(epoch, s, b, slot);
    } else {
        cursor = fby__epoch_find_phase(epoch, s, lo + slot);
        piece = next_piece(epoch, s, lo + slot, lo + slot + 1, &cursor);
    }
    fby__epoch_resolve(epoch, piece.phase, piece.index, 1, &item, out_sample);
    *out_block = epoch->phases[piece.phase].items[item].block;
}
