/* How often each sample is to come, and lists of values that say so. See samples_values.h. */
#include "dataset/samples_values.h"

#include "base/checked.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

/* ---- counts ---- */

fby_status fby__sample_counts_init(fby__sample_counts *c, const fby_samples *s, fby_error *err)
{
    uint32_t n_blocks = fby__dataset_block_count(s->base->ds);
    *c = (fby__sample_counts){.s = s};
    c->choice = fby__choice_create(n_blocks);
    c->blocks = fby__calloc(n_blocks, sizeof *c->blocks);
    if (!c->choice || !c->blocks)
        return fby__fail_nomem(err, "the chosen samples");
    for (uint32_t b = 0; b < n_blocks; b++) /* those without a sample of s are not visited, and not chosen anew */
        if (fby__samples_of_block(s, b) == 0)
            FBY__TRY(fby__choice_set(c->choice, s, b, NULL, err));
    return FBY_OK;
}

void fby__sample_counts_fini(fby__sample_counts *c)
{
    for (uint32_t b = 0; c->blocks && b < fby__dataset_block_count(c->s->base->ds); b++)
        fby__free(atomic_load_explicit(&c->blocks[b], memory_order_relaxed));
    fby__free((void *)c->blocks);
    fby__choice_unref(c->choice);
    *c = (fby__sample_counts){0};
}

/* Zeros for a block. Two threads may make them at once: the later one's are dropped. */
static uint16_t *open_block(fby__sample_counts *c, uint32_t b)
{
    uint16_t *none = NULL, *counts = fby__calloc((size_t)fby__samples_of_block(c->s, b), sizeof *counts);
    if (!counts || atomic_compare_exchange_strong_explicit(&c->blocks[b], &none, counts, memory_order_acq_rel, memory_order_acquire))
        return counts;
    fby__free(counts);
    return none;
}

fby_status fby__sample_counts_put(fby__sample_counts *c, uint32_t b, uint64_t i, uint16_t count, fby_error *err)
{
    uint16_t *counts = atomic_load_explicit(&c->blocks[b], memory_order_acquire);
    if (count == 0)
        return FBY_OK;
    if (!counts && !(counts = open_block(c, b)))
        return fby__fail_nomem(err, "the chosen samples");
    counts[i] = count;
    return FBY_OK;
}

fby_status fby__sample_counts_close(fby__sample_counts *c, uint32_t b, fby_error *err)
{
    uint16_t *counts = atomic_load_explicit(&c->blocks[b], memory_order_acquire);
    fby_status status = fby__choice_set(c->choice, c->s, b, counts, err);
    fby__free(counts);
    atomic_store_explicit(&c->blocks[b], NULL, memory_order_relaxed);
    return status;
}

fby_status fby__sample_counts_choose(fby__sample_counts *c, const char *what, fby_samples **out, fby_error *err)
{
    fby_samples *chosen = NULL;
    fby__choice *choice = c->choice;
    c->choice = NULL;
    FBY__TRY(fby__samples_choose(c->s, choice, &chosen, err));
    if (fby_samples_count(chosen) == 0) {
        fby_samples_close(chosen);
        return fby__fail(err, FBY_E_ARG, "'%s': none of the %llu samples is left", what, (unsigned long long)fby_samples_count(c->s));
    }
    *out = chosen;
    return FBY_OK;
}

/* ---- sets ---- */

/* Numbers are mixed as in splitmix64: this runs once a sample. */
static uint64_t hash_value(const fby__value *v)
{
    if (v->kind == FBY__VALUE_TEXT)
        return fby__hash(v->text, v->n).lo;
    uint64_t x = (uint64_t)v->number;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/*
 * A bit of the filter: most values that are in no list end here. Numbers are not mixed, so that keys that rise from row to row stay in cache.
 */
static uint64_t *filter_word(const fby__value_set *set, const fby__value *v, uint64_t hash, uint64_t *out_bit)
{
    uint64_t at = (v->kind == FBY__VALUE_TEXT ? hash >> 24 : (uint64_t)v->number) & (set->n_slots * FBY__FILTER_BITS - 1);
    *out_bit = (uint64_t)1 << at % 64;
    return &set->filter[at / 64];
}

static fby__value given_at(const fby_values *g, size_t i)
{
    if (g->numbers)
        return (fby__value){FBY__VALUE_NUMBER, .number = g->numbers[i]};
    return (fby__value){FBY__VALUE_TEXT, .text = (const uint8_t *)g->texts[i], .n = strlen(g->texts[i])};
}

static bool same_value(const fby__value *a, const fby__value *b)
{
    if (a->kind == FBY__VALUE_TEXT)
        return a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
    return a->number == b->number;
}

/* The slot of a value, or the free one where it would be. */
static size_t slot_of(const fby__value_set *set, const fby__value *v, uint64_t hash)
{
    size_t at = (size_t)hash & (set->n_slots - 1);
    while (set->slots[at]) {
        fby__value there = given_at(set->given, set->slots[at] - 1);
        if (same_value(&there, v))
            break;
        at = (at + 1) & (set->n_slots - 1);
    }
    return at;
}

static fby_status listed_twice(const fby__value *v, const char *what, fby_error *err)
{
    char text[120];
    fby__value_print(v, text, sizeof text);
    return fby__fail(err, FBY_E_ARG, "%s: %s is listed twice", what, text);
}

fby_status fby__value_set_init(fby__value_set *set, const fby_values *given, bool unique, const char *what, fby_error *err)
{
    *set = (fby__value_set){.given = given};
    if (given->n == 0 || !given->numbers == !given->texts)
        return fby__fail(err, FBY_E_ARG, "%s: give at least one value, all numbers or all strings", what);
    if (given->n >= UINT32_MAX / 2)
        return fby__fail(err, FBY_E_ARG, "%s: %zu values are too many", what, given->n);
    for (set->n_slots = 16; set->n_slots < 2 * given->n;)
        set->n_slots *= 2;
    set->slots = fby__calloc(set->n_slots, sizeof *set->slots);
    set->seen = fby__calloc(given->n, sizeof *set->seen);
    set->filter = fby__calloc(set->n_slots * FBY__FILTER_BITS / 64, sizeof *set->filter);
    if (!set->slots || !set->seen || !set->filter)
        return fby__fail_nomem(err, "a list of values");
    for (size_t i = 0; i < given->n; i++) {
        fby__value v = given_at(given, i);
        uint64_t hash = hash_value(&v), bit;
        size_t slot = slot_of(set, &v, hash);
        uint64_t *word = filter_word(set, &v, hash, &bit);
        *word |= bit;
        if (set->slots[slot] && unique)
            return listed_twice(&v, what, err);
        if (!set->slots[slot])
            set->slots[slot] = (uint32_t)i + 1;
    }
    return FBY_OK;
}

void fby__value_set_fini(fby__value_set *set)
{
    fby__free(set->slots);
    fby__free(set->filter);
    fby__free((void *)set->seen);
    set->slots = NULL;
    set->filter = NULL;
    set->seen = NULL;
}

size_t fby__value_set_find(fby__value_set *set, const fby__value *value)
{
    fby__value v = *value;
    if (v.kind == FBY__VALUE_FLOAT && v.real >= -9.2e18 && v.real <= 9.2e18 && (double)(int64_t)v.real == v.real)
        v = (fby__value){FBY__VALUE_NUMBER, .number = (int64_t)v.real};
    if (v.kind != (set->given->numbers ? FBY__VALUE_NUMBER : FBY__VALUE_TEXT))
        return FBY__NO_VALUE;
    uint64_t hash = hash_value(&v), bit;
    const uint64_t *word = filter_word(set, &v, hash, &bit);
    if (!(*word & bit))
        return FBY__NO_VALUE;
    size_t slot = slot_of(set, &v, hash);
    if (!set->slots[slot])
        return FBY__NO_VALUE;
    size_t at = set->slots[slot] - 1;
    if (!atomic_load_explicit(&set->seen[at], memory_order_relaxed)) /* the line stays shared among threads once it is set */
        atomic_store_explicit(&set->seen[at], true, memory_order_relaxed);
    return at;
}

fby_status fby__value_set_fits(const fby__value_set *set, const fby__sample_values *v, fby_error *err)
{
    bool texts = set->given->texts != NULL;
    if (texts == v->is_text)
        return FBY_OK;
    return fby__fail(err, FBY_E_ARG, "'%s' holds %s, and the values given are %s", v->name, v->is_text ? "strings" : "numbers",
                     texts ? "strings" : "numbers");
}

fby_status fby__value_set_check_seen(const fby__value_set *set, const fby__sample_values *v, fby_error *err)
{
    char text[400] = "", one[120];
    size_t n = 0, used = 0, shown = 0;
    for (size_t slot = 0; slot < set->n_slots; slot++)
        n += set->slots[slot] && !atomic_load_explicit(&set->seen[set->slots[slot] - 1], memory_order_relaxed);
    if (n == 0)
        return FBY_OK;
    for (size_t i = 0; i < set->given->n && shown < 3; i++) {
        fby__value value = given_at(set->given, i);
        if (set->slots[slot_of(set, &value, hash_value(&value))] != i + 1 || atomic_load_explicit(&set->seen[i], memory_order_relaxed))
            continue; /* given twice, or seen */
        fby__value_print(&value, one, sizeof one);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", shown++ ? ", " : "", one);
    }
    return fby__fail(err, FBY_E_ARG, "no sample has %s%s of '%s' (%zu of %zu values given %s unknown); leave them out, or ignore unknown ones", text,
                     n > shown ? ", …" : "", v->name, n, set->given->n, n == 1 ? "is" : "are");
}
