/* How often each sample is to come, and lists of values that say so. See values.h. */
#include "samples/table.h"
#include "samples/values.h"

#include "base/checked.h"
#include "base/iso_time.h"
#include "base/nearest.h"

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
            FBY__TRY(fby__choice_set(c->choice, s, b, NULL, 0, err));
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
    fby_status status = fby__choice_set(c->choice, c->s, b, counts, counts ? fby__samples_of_block(c->s, b) : 0, err);
    fby__free(counts);
    atomic_store_explicit(&c->blocks[b], NULL, memory_order_relaxed);
    return status;
}

fby_status fby__sample_counts_choose(fby__sample_counts *c, const char *what, const char *why, fby_samples **out, fby_error *err)
{
    fby_samples *chosen = NULL;
    fby__choice *choice = c->choice;
    c->choice = NULL;
    FBY__TRY(fby__samples_choose(c->s, choice, &chosen, err));
    if (fby_samples_count(chosen) == 0) {
        fby_samples_close(chosen);
        return fby__fail(err, FBY_E_ARG, "%s: none of the %llu samples is left%s", what, (unsigned long long)fby_samples_count(c->s), why);
    }
    *out = chosen;
    return FBY_OK;
}

/* ---- sets ---- */

static uint64_t hash_value(const fby__value *v)
{
    return v->kind == FBY__VALUE_TEXT ? fby__table_hash(v->text, v->n) : fby__table_hash_u64((uint64_t)v->number);
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
        fby__value there = given_at(&set->given, set->slots[at] - 1);
        if (same_value(&there, v))
            break;
        at = (at + 1) & (set->n_slots - 1);
    }
    return at;
}

/* Value i of the list, as it was given. */
static void print_given(const fby__value_set *set, size_t i, char *out, size_t n)
{
    fby__value v = given_at(&set->given, i);
    if (set->dates)
        v = (fby__value){FBY__VALUE_TEXT, .text = (const uint8_t *)set->dates[i], .n = strlen(set->dates[i])};
    fby__value_print(&v, out, n);
}

static fby_status listed_twice(const fby__value_set *set, size_t i, const char *what, fby_error *err)
{
    char text[120];
    print_given(set, i, text, sizeof text);
    return fby__fail(err, FBY_E_ARG, "%s: %s is listed twice", what, text);
}

/* ---- dates and times as text ---- */

int64_t fby__value_unit_ns(const fby_field *field)
{
    if (!field || (field->kind != FBY_KIND_DATE && field->kind != FBY_KIND_TIMESTAMP))
        return 0;
    if (field->kind == FBY_KIND_DATE)
        return INT64_C(86400000000000);
    return field->unit == FBY_UNIT_S ? 1000000000 : field->unit == FBY_UNIT_MS ? 1000000 : field->unit == FBY_UNIT_US ? 1000 : 1;
}

fby_status fby__value_refuse_undated(const fby__value_type *type, fby_error *err)
{
    static const char *const units[] = {[FBY_UNIT_S] = "s", [FBY_UNIT_MS] = "ms", [FBY_UNIT_US] = "us", [FBY_UNIT_NS] = "ns"};
    if (fby__value_unit_ns(type->field) == 0)
        return FBY_OK;
    const bool date = type->field->kind == FBY_KIND_DATE;
    return fby__fail(err, FBY_E_ARG, "column '%s' is a %s: write '2000-01-31' (a number would count %s since 1970)", type->name,
                     date ? "date" : "time", date ? "days" : units[type->field->unit]);
}

fby_status fby__value_dated(const fby__value_type *type, const char *text, int64_t *out, fby_error *err)
{
    fby__iso_time t;
    int64_t unit = fby__value_unit_ns(type->field), seconds;
    if (unit == 0)
        return fby__fail(err, FBY_E_ARG, "'%s' holds %s, and '%.60s' is a text", type->name, type->is_text ? "strings" : "plain numbers",
                         text);
    if (!fby__iso_time_parse((const uint8_t *)text, strlen(text), &t))
        return fby__fail(err, FBY_E_ARG, "'%s' holds %s, and '%.60s' is none: write 2001-01-31%s", type->name,
                         type->field->kind == FBY_KIND_DATE ? "dates" : "times", text,
                         type->field->kind == FBY_KIND_DATE ? "" : ", 2001-01-31T12:30 or 2001-01-31T12:30:15.5+01:00");
    seconds = t.days * 86400 - t.seconds_east + t.ns / 1000000000; /* nanoseconds since the year 1 are more than an int64 holds */
    t.ns %= 1000000000;
    bool whole = unit > 1000000000 ? seconds % (unit / 1000000000) == 0 && t.ns == 0 : t.ns % unit == 0;
    if (!whole)
        return fby__fail(err, FBY_E_ARG, "'%.60s' is no whole number of the units of '%s'", text, type->name);
    if (unit > 1000000000) {
        *out = seconds / (unit / 1000000000);
        return FBY_OK;
    }
    if (__builtin_mul_overflow(seconds, 1000000000 / unit, out) || __builtin_add_overflow(*out, t.ns / unit, out))
        return fby__fail(err, FBY_E_ARG, "'%.60s' is beyond what '%s' can hold in its unit", text, type->name);
    return FBY_OK;
}

fby__value_type fby__read_column_type(const fby__read_column *c)
{
    return (fby__value_type){.name = c->in.path, .field = c->in.field, .is_text = fby__read_column_is_text(c)};
}

fby__value_type fby__sample_values_type(const fby__sample_values *v)
{
    return (fby__value_type){.name = v->name, .field = v->source == FBY__VALUES_FILE ? NULL : v->column.in.field, .is_text = v->is_text};
}

/* The values that are given as such a column holds them. */
static fby_status add_given(fby__value_set *set, const fby_values *given, const fby__value_type *type, fby_error *err)
{
    set->given = *given;
    if (given->numbers && !type->counts)
        FBY__TRY(fby__value_refuse_undated(type, err));
    if ((given->texts != NULL) == type->is_text)
        return FBY_OK;
    if (!type->field && given->numbers)
        return fby__fail(
            err, FBY_E_ARG,
            "the samples' keys are file names, or placeholders of a path, which are strings, and the values given are numbers: write "
            "\"%lld\" for %lld, with leading zeros where the name has them",
            (long long)given->numbers[0], (long long)given->numbers[0]);
    if (!given->texts || !fby__value_unit_ns(type->field))
        return fby__fail(err, FBY_E_ARG, "'%s' holds %s, and the values given are %s%s", type->name, type->is_text ? "strings" : "numbers",
                         given->texts ? "strings" : "numbers",
                         given->texts ? ": give numbers, int(value) of each"
                                      : ": give strings, str(value) of each, with their leading zeros");
    if (!(set->dated = fby__calloc(given->n, sizeof *set->dated)))
        return fby__fail_nomem(err, "a list of values");
    for (size_t i = 0; i < given->n; i++)
        FBY__TRY(fby__value_dated(type, given->texts[i], &set->dated[i], err));
    set->dates = given->texts;
    set->given = (fby_values){.numbers = set->dated, .n = given->n};
    return FBY_OK;
}

/* ---- making, looking ---- */

fby_status fby__value_set_init(fby__value_set *set, const fby_values *given, bool unique, const fby__value_type *type, fby_error *err)
{
    if (given->n == 0 || !given->numbers == !given->texts)
        return fby__fail(err, FBY_E_ARG, "%s: give at least one value, all numbers or all strings", type->name);
    if (given->n >= UINT32_MAX / 2)
        return fby__fail(err, FBY_E_ARG, "%s: %zu values are too many", type->name, given->n);
    FBY__TRY(add_given(set, given, type, err));
    for (set->n_slots = 16; set->n_slots < 2 * given->n;)
        set->n_slots *= 2;
    set->slots = fby__calloc(set->n_slots, sizeof *set->slots);
    set->seen = fby__calloc(given->n, sizeof *set->seen);
    set->filter = fby__calloc(set->n_slots * FBY__FILTER_BITS / 64, sizeof *set->filter);
    if (!set->slots || !set->seen || !set->filter)
        return fby__fail_nomem(err, "a list of values");
    for (size_t i = 0; i < given->n; i++) {
        fby__value v = given_at(&set->given, i);
        uint64_t hash = hash_value(&v), bit;
        size_t slot = slot_of(set, &v, hash);
        uint64_t *word = filter_word(set, &v, hash, &bit);
        *word |= bit;
        if (set->slots[slot] && unique)
            return listed_twice(set, i, type->name, err);
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
    fby__free(set->dated);
    *set = (fby__value_set){0};
}

size_t fby__value_set_find(fby__value_set *set, const fby__value *value)
{
    fby__value v = *value;
    if (v.kind == FBY__VALUE_FLOAT && v.real >= -9.2e18 && v.real <= 9.2e18 && (double)(int64_t)v.real == v.real)
        v = (fby__value){FBY__VALUE_NUMBER, .number = (int64_t)v.real};
    if (v.kind != (set->given.numbers ? FBY__VALUE_NUMBER : FBY__VALUE_TEXT))
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

/* A file's name that others have too is no key: say what is. Was there one? */
static bool shared_hint(const fby__value_set *set, const fby__sample_values *v, fby_error *err)
{
    enum { MOST = 3 }; /* that are named */
    const fby_dataset *ds = v->s->base->ds;
    fby__value shared = {0};
    size_t n = 0;
    for (uint32_t f = 0; v->source == FBY__VALUES_FILE && err && f < fby__dataset_file_count(ds) && n <= MOST; f++) {
        const fby__value alone = fby__file_label(ds, NULL, f), whole = fby__file_label(ds, v->shared_names, f);
        if (!v->shared_names[f] || (!n && !set->slots[slot_of(set, &alone, hash_value(&alone))]))
            continue;
        if (n && (alone.n != shared.n || memcmp(alone.text, shared.text, alone.n) != 0))
            continue;
        const size_t used = strlen(err->message);
        if (n == 0)
            (void)snprintf(err->message + used, sizeof err->message - used, ". Several files are called '%.*s': write '%.*s'", (int)alone.n,
                           (const char *)alone.text, (int)whole.n, (const char *)whole.text);
        else if (n < MOST)
            (void)snprintf(err->message + used, sizeof err->message - used, " or '%.*s'", (int)whole.n, (const char *)whole.text);
        else
            (void)snprintf(err->message + used, sizeof err->message - used, ", …");
        shared = alone;
        n++;
    }
    return n > 0;
}

/* The file whose name is nearest to one that no file has: leading zeros are lost easily. FBY_E_ARG, as the error that it adds to. */
static fby_status near_hint(const char *wanted, const fby__sample_values *v, fby_error *err)
{
    const fby_dataset *ds = v->s->base->ds;
    char name[120], nearest[120] = "";
    unsigned least = (unsigned)(strlen(wanted) + 2) / 3 + 1;
    for (uint32_t f = 0; v->source == FBY__VALUES_FILE && err && f < fby__dataset_file_count(ds); f++) {
        const fby__value label = fby__file_label(ds, v->shared_names, f);
        (void)snprintf(name, sizeof name, "%.*s", (int)fby__min_u64(label.n, sizeof name), (const char *)label.text);
        const unsigned d = fby__edit_distance(wanted, name);
        if (d < least) {
            least = d;
            memcpy(nearest, name, sizeof nearest);
        }
    }
    const size_t used = err && *nearest ? strlen(err->message) : 0;
    if (used)
        (void)snprintf(err->message + used, sizeof err->message - used, ". Did you mean '%s'?", nearest);
    return FBY_E_ARG;
}

fby_status fby__value_set_check_seen(const fby__value_set *set, const fby__sample_values *v, fby_error *err)
{
    char text[400] = "", one[120];
    const char *first = NULL;
    size_t n = 0, used = 0, shown = 0;
    for (size_t slot = 0; slot < set->n_slots; slot++)
        n += set->slots[slot] && !atomic_load_explicit(&set->seen[set->slots[slot] - 1], memory_order_relaxed);
    if (n == 0)
        return FBY_OK;
    for (size_t i = 0; i < set->given.n && shown < 3; i++) {
        fby__value value = given_at(&set->given, i);
        if (set->slots[slot_of(set, &value, hash_value(&value))] != i + 1 || atomic_load_explicit(&set->seen[i], memory_order_relaxed))
            continue; /* given twice, or seen */
        print_given(set, i, one, sizeof one);
        first = !shown && set->given.texts ? set->given.texts[i] : first;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", shown++ ? ", " : "", one);
    }
    (void)fby__fail(
        err, FBY_E_ARG,
        "no sample has %s%s of '%s' (%zu of %zu values given %s unknown): leave them out, or write unknown=\"ignore\" (of a pipeline "
        "file: unknown: ignore)",
        text, n > shown ? ", …" : "", v->name, n, set->given.n, n == 1 ? "is" : "are");
    return !shared_hint(set, v, err) && first ? near_hint(first, v, err) : FBY_E_ARG;
}
