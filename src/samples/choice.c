/*
 * Choices: which samples of each block are in, and how often. A list of numbers a block, coded as samples_impl.h says.
 *
 *   words    | positions: two a word | high parts: bit (number >> low_bits) + i is set for entry i | low parts: low_bits an entry |
 *
 * Entry i is found from the position of entry i - i % 64, a popcount a word, and one shift.
 */
#include "base/checked.h"
#include "samples/samples_impl.h"

#include "base/alloc.h"

#include <string.h>

/* ---- life ---- */

fby__choice *fby__choice_create(uint32_t n_blocks)
{
    fby__choice *c = fby__calloc(1, sizeof *c + (size_t)n_blocks * sizeof *c->blocks);
    if (!c)
        return NULL;
    atomic_init(&c->refs, 1);
    c->n_blocks = n_blocks;
    return c;
}

fby__choice *fby__choice_ref(fby__choice *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void fby__choice_unref(fby__choice *c)
{
    /* acq_rel: the last holder sees every write of the others before it frees */
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t b = 0; b < c->n_blocks; b++)
        fby__free(c->blocks[b].words);
    fby__free(c);
}

size_t fby__choice_memory_bytes(const fby__choice *c)
{
    size_t bytes = sizeof *c;
    for (uint32_t b = 0; b < c->n_blocks; b++)
        bytes += sizeof *c->blocks + (c->blocks[b].words ? fby__alloc_bytes(c->blocks[b].n_words * sizeof *c->blocks[b].words) : 0);
    return bytes;
}

fby__hash128 fby__choice_hash(fby__hash128 h, const fby__choice *c)
{
    for (uint32_t b = 0; b < c->n_blocks; b++) {
        uint64_t head[] = {c->blocks[b].some, c->blocks[b].n};
        h = fby__hash_more(h, head, sizeof head);
        if (c->blocks[b].n_words)
            h = fby__hash_more(h, c->blocks[b].words, c->blocks[b].n_words * sizeof *c->blocks[b].words);
    }
    return h;
}

/* ---- looking ---- */

uint64_t fby__chosen_low_part(const fby__chosen *c, uint64_t i)
{
    const uint64_t *low = c->words + c->low_at;
    uint64_t bit = i * c->low_bits, shift = bit % 64;
    if (c->low_bits == 0)
        return 0;
    uint64_t part = low[bit / 64] >> shift;
    if (shift + c->low_bits > 64)
        part |= low[bit / 64 + 1] << (64 - shift);
    return part & (((uint64_t)1 << c->low_bits) - 1);
}

uint64_t fby__chosen_at(const fby__chosen *c, uint64_t i)
{
    const uint64_t *high = c->words + c->high_at;
    uint64_t position = c->words[i / FBY__CHOSEN_STEP / 2] >> (i / FBY__CHOSEN_STEP % 2 * 32) & UINT32_MAX;
    uint32_t ahead = (uint32_t)(i % FBY__CHOSEN_STEP), here;
    uint64_t at = position / 64, word = high[at] & (UINT64_MAX << position % 64);
    while ((here = (uint32_t)__builtin_popcountll(word)) <= ahead) {
        ahead -= here;
        word = high[++at];
    }
    for (; ahead; ahead--)
        word &= word - 1;
    position = at * 64 + (uint32_t)__builtin_ctzll(word);
    return (position - i) << c->low_bits | fby__chosen_low_part(c, i);
}

/* ---- making ---- */

/* Number of sample i of a block, as the view counts. */
static uint64_t in_view(const fby_samples *s, uint32_t b, uint64_t i)
{
    const fby__chosen *c = s->choice ? &s->choice->blocks[b] : NULL;
    return c && c->some ? fby__chosen_at(c, i) : i;
}

/* Room for n entries below `below`. */
static fby_status make_room(fby__chosen *c, uint64_t n, uint64_t below, fby_error *err)
{
    c->some = true;
    c->n = n;
    if (n == 0)
        return FBY_OK;
    c->low_bits = below / n > 1 ? 63 - (uint32_t)__builtin_clzll(below / n) : 0;
    c->high_at = (uint32_t)fby__div_up_u64(fby__div_up_u64(n, FBY__CHOSEN_STEP), 2);
    c->low_at = c->high_at + (uint32_t)fby__div_up_u64(n + (below >> c->low_bits) + 1, 64);
    c->n_words = c->low_at + (uint32_t)fby__div_up_u64(n * c->low_bits, 64) + 1; /* one more: an entry may be read across words */
    c->words = fby__calloc(c->n_words, sizeof *c->words);
    return c->words ? FBY_OK : fby__fail_nomem(err, "the chosen samples");
}

static void put(fby__chosen *c, uint64_t i, uint64_t value)
{
    uint64_t position = (value >> c->low_bits) + i, bit = i * c->low_bits, shift = bit % 64;
    if (i % FBY__CHOSEN_STEP == 0)
        c->words[i / FBY__CHOSEN_STEP / 2] |= position << (i / FBY__CHOSEN_STEP % 2 * 32);
    c->words[c->high_at + position / 64] |= (uint64_t)1 << position % 64;
    if (c->low_bits == 0)
        return;
    uint64_t part = value & (((uint64_t)1 << c->low_bits) - 1), *low = c->words + c->low_at + bit / 64;
    low[0] |= part << shift;
    if (shift + c->low_bits > 64)
        low[1] |= part >> (64 - shift);
}

fby_status fby__choice_set(fby__choice *choice, const fby_samples *s, uint32_t b, const uint16_t *counts, uint64_t n, fby_error *err)
{
    uint64_t total = 0, below = 0, at = 0;
    bool all = counts && n == fby__samples_of_block(s, b) && (!s->choice || !s->choice->blocks[b].some);
    for (uint64_t i = 0; i < n; i++) {
        total += counts[i];
        all &= counts[i] == 1;
        below = counts[i] ? i + 1 : below;
    }
    if (all)
        return FBY_OK; /* as it was made */
    below = below ? in_view(s, b, below - 1) + 1 : 0;
    if (total > FBY__MAX_CHOSEN || below > FBY__MAX_CHOSEN)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%llu samples of one block are more than a choice of them can hold",
                         (unsigned long long)fby__max_u64(total, below));
    fby__chosen *c = &choice->blocks[b];
    FBY__TRY(make_room(c, total, below, err));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = counts[i] ? in_view(s, b, i) : 0;
        for (uint16_t k = 0; k < counts[i]; k++)
            put(c, at++, value);
    }
    return FBY_OK;
}
