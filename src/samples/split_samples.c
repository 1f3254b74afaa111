/*
 * Splits by single samples, drawn at random over all of them or within each class; and by the values of a column of times.
 *
 * D. E. Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S, for several splits at once: in file order, a sample goes to a split with the
 * chance of what that split still wants among what is left. So the splits have the sizes that are asked for, and nothing is kept but what they want.
 *
 * A sample that comes more than once is one sample here: its repeats stay together.
 */
#include "samples/split.h"

#include "base/cancel.h"
#include "base/checked.h"
#include "base/random.h"
#include "base/sort.h"

#include "base/alloc.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Is sample i of a block the one before it once more? */
static bool is_repeat(const fby_samples *s, uint32_t b, uint64_t i)
{
    const fby__chosen *c = s->choice ? &s->choice->blocks[b] : NULL;
    return i > 0 && c && c->some && fby__chosen_at(c, i) == fby__chosen_at(c, i - 1);
}

static fby_status count_distinct(const fby_samples *s, uint64_t *out, fby_error *err)
{
    uint64_t n = 0;
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds); b++)
        for (uint64_t i = 0; i < fby__samples_of_block(s, b); i++) {
            FBY__TRY(fby__cancel_check_at(i, err));
            n += !is_repeat(s, b, i);
        }
    *out = n;
    return FBY_OK;
}

/* ---- classes ---- */

#define MAX_CLASSES 65536u

typedef struct class
{
    fby__hash128 value;
    uint64_t n;    /* distinct samples */
    uint32_t rank; /* in the order of hashes, which no thread decides */
    char text[60]; /* for messages */
} class;

typedef struct classes {
    const fby_samples *s;
    fby__sample_values values;
    uint32_t *of; /* owned: the class of each sample, in the order in which classes were seen; each written once */
    /* under lock */
    pthread_mutex_t lock;
    class *list; /* owned */
    size_t n, cap;
    uint32_t *slots; /* owned: index in the list + 1, 0 = free; open addressing */
    size_t n_slots;
} classes;

/* 1 and 1.0 are one class; what is missing is one, too. */
static fby_status hash_class(const classes *k, uint64_t at, const fby__value *value, fby__hash128 *out, fby_error *err)
{
    fby__value v = *value;
    if (v.kind == FBY__VALUE_FLOAT && (v.real != floor(v.real) || fabs(v.real) > 9e15))
        return fby__fail(
            err, FBY_E_ARG,
            "stratify: '%s' is %g in sample %llu: a class is a whole number, a text or a date; make classes of the numbers first",
            k->values.name, v.real, (unsigned long long)at);
    if (v.kind == FBY__VALUE_FLOAT)
        v = (fby__value){.kind = FBY__VALUE_NUMBER, .number = (int64_t)v.real};
    *out = fby__hash(&v.kind, sizeof v.kind);
    if (v.kind == FBY__VALUE_TEXT)
        *out = fby__hash_more(*out, v.text, v.n);
    else if (v.kind == FBY__VALUE_NUMBER)
        *out = fby__hash_more(*out, &v.number, sizeof v.number);
    return FBY_OK;
}

static fby_status grow_slots_locked(classes *k, fby_error *err)
{
    size_t n_slots = k->n_slots ? 2 * k->n_slots : 64;
    uint32_t *slots = fby__calloc(n_slots, sizeof *slots);
    if (!slots)
        return fby__fail_nomem(err, "the classes");
    for (size_t i = 0; i < k->n; i++) {
        size_t at = (size_t)fby__table_hash_u64(k->list[i].value.lo) & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)i + 1;
    }
    fby__free(k->slots);
    k->slots = slots;
    k->n_slots = n_slots;
    return FBY_OK;
}

static fby_status find_class_locked(classes *k, fby__hash128 hash, const fby__value *value, uint32_t *out, fby_error *err)
{
    if (2 * k->n >= k->n_slots)
        FBY__TRY(grow_slots_locked(k, err));
    size_t at = (size_t)fby__table_hash_u64(hash.lo) & (k->n_slots - 1);
    for (; k->slots[at]; at = (at + 1) & (k->n_slots - 1))
        if (fby__hash_equal(k->list[k->slots[at] - 1].value, hash)) {
            *out = k->slots[at] - 1;
            return FBY_OK;
        }
    if (k->n == MAX_CLASSES)
        return fby__fail(err, FBY_E_ARG, "stratify: '%s' has more than %u values: it is no class", k->values.name, MAX_CLASSES);
    if (fby__grow((void **)&k->list, &k->cap, k->n + 1, sizeof *k->list) != 0)
        return fby__fail_nomem(err, "the classes");
    class *c = &k->list[k->n];
    *c = (class){.value = hash};
    fby__value_print(value, c->text, sizeof c->text);
    *out = (uint32_t)k->n;
    k->slots[at] = (uint32_t)++k->n;
    return FBY_OK;
}

static fby_status put_class(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    classes *k = user;
    uint64_t at = fby__samples_first(k->s)[b] + i;
    fby__hash128 hash;
    FBY__TRY(hash_class(k, at, value, &hash, err));
    pthread_mutex_lock(&k->lock);
    fby_status status = find_class_locked(k, hash, value, &k->of[at], err);
    if (status == FBY_OK)
        k->list[k->of[at]].n += !is_repeat(k->s, b, i);
    pthread_mutex_unlock(&k->lock);
    return status;
}

static int by_value(const void *a, const void *b)
{
    const class *x = *(const class *const *)a, *y = *(const class *const *)b;
    return x->value.hi != y->value.hi ? (x->value.hi < y->value.hi ? -1 : 1) : (x->value.lo > y->value.lo) - (x->value.lo < y->value.lo);
}

static fby_status read_classes(classes *k, const fby__splitting *p, fby_error *err)
{
    FBY__TRY(fby__sample_values_init(&k->values, p->s, p->opts->stratify, err));
    k->of = fby__calloc((size_t)fby_samples_count(p->s), sizeof *k->of);
    if (!k->of)
        return fby__fail_nomem(err, "the classes");
    fby__value_visit visit = {.n_threads = p->opts->n_threads, .user = k, .visit = put_class};
    FBY__TRY(fby__sample_values_visit(&k->values, &visit, err));
    const class **order = fby__calloc(k->n, sizeof *order);
    if (!order)
        return fby__fail_nomem(err, "the classes");
    for (size_t i = 0; i < k->n; i++)
        order[i] = &k->list[i];
    fby_status status = fby__sort((void *)order, k->n, sizeof *order, by_value, err);
    for (size_t i = 0; i < k->n && status == FBY_OK; i++) {
        k->list[order[i] - k->list].rank = (uint32_t)i;
        if (order[i]->n < p->n_splits)
            status =
                fby__fail(err, FBY_E_ARG,
                          "stratify: '%s' is %s in %llu sample%s, and there are %zu splits: leave such classes out (select, exclude), or "
                          "join them with others",
                          k->values.name, order[i]->text, (unsigned long long)order[i]->n, order[i]->n == 1 ? "" : "s", p->n_splits);
    }
    fby__free((void *)order);
    return status;
}

/* ---- drawing ---- */

/* What is still to be drawn, of each class: n_splits numbers that splits want, and one of what is left. Without classes there is one. */
typedef struct drawing {
    const fby__splitting *splitting;
    const classes *classes; /* NULL = none */
    uint64_t *wanted;       /* owned */
    size_t n_classes, stride;
    fby__sample_counts *counts; /* owned */
} drawing;

/* The share of every split of n samples, each rounded down or up, such that the roundings of all classes so far add up to little: `debt`. */
static void share_out(const fby__splitting *p, uint64_t n, double *debt, uint64_t *wanted)
{
    uint64_t given = 0, rest;
    bool rounded_up[FBY__MAX_SPLITS + 1];
    for (size_t i = 0; i <= p->n_splits; i++) { /* the last one is none of the splits */
        double to = i < p->n_splits ? p->ends[i + 1] : 1, share = (to - p->ends[i]) * (double)n;
        rounded_up[i] = share < 1e-6; /* wants nothing */
        uint64_t whole = fby__min_u64((uint64_t)(share + 1e-6), n - given);
        debt[i] += share - (double)whole;
        given += whole;
        wanted[i] = whole;
    }
    for (rest = n - given; rest > 0; rest--) {
        size_t most = p->n_splits + 1;
        for (size_t i = 0; i <= p->n_splits; i++)
            if (!rounded_up[i] && (most > p->n_splits || debt[i] > debt[most] + 1e-9))
                most = i;
        rounded_up[most] = true;
        debt[most] -= 1;
        wanted[most]++;
    }
    wanted[p->n_splits] = n;
}

static fby_status want(drawing *d, fby_error *err)
{
    const fby__splitting *p = d->splitting;
    d->stride = p->n_splits + 1;
    d->n_classes = d->classes ? d->classes->n : 1;
    d->wanted = fby__calloc(d->n_classes * d->stride, sizeof *d->wanted);
    uint64_t n = 0;
    if (!d->classes)
        FBY__TRY(count_distinct(p->s, &n, err));
    double *debt = fby__calloc(d->stride, sizeof *debt);
    if (!d->wanted || !debt) {
        fby__free(debt);
        return fby__fail_nomem(err, "the splits");
    }
    for (size_t c = 0; c < d->n_classes && d->classes; c++) /* in an order of their own: by rank */
        d->wanted[d->classes->list[c].rank * d->stride] = d->classes->list[c].n;
    for (size_t c = 0; c < d->n_classes && d->classes; c++)
        share_out(p, d->wanted[c * d->stride], debt, &d->wanted[c * d->stride]);
    for (size_t i = 0; i < p->n_splits && !d->classes; i++)
        d->wanted[i] = fby__fraction_of(p->ends[i + 1], n) - fby__fraction_of(p->ends[i], n);
    if (!d->classes)
        d->wanted[p->n_splits] = n;
    fby__free(debt);
    return FBY_OK;
}

static fby_status check_wanted(const drawing *d, fby_error *err)
{
    const fby__splitting *p = d->splitting;
    for (size_t i = 0; i < p->n_splits; i++) {
        uint64_t n = 0;
        char name[FBY__SPLIT_NAME_BYTES];
        for (size_t c = 0; c < d->n_classes; c++)
            n += d->wanted[c * d->stride + i];
        if (n == 0)
            return fby__fail(err, FBY_E_ARG, "%s (%g of %llu samples) holds no sample: give it a larger share", fby__split_name(p, i, name),
                             p->splits[i].fraction, (unsigned long long)fby_samples_count(p->s));
    }
    return FBY_OK;
}

static size_t draw_split(drawing *d, fby__random *random, uint64_t *wanted)
{
    size_t n_splits = d->splitting->n_splits, split = 0;
    uint64_t x = fby__random_below(random, wanted[n_splits]--);
    while (split < n_splits && x >= wanted[split])
        x -= wanted[split++];
    if (split < n_splits)
        wanted[split]--;
    return split;
}

static fby_status draw_samples(drawing *d, fby_error *err)
{
    const fby__splitting *p = d->splitting;
    fby__random random = {.key = p->opts->seed, .stream = 0x53414d504c45}; /* "SAMPLE" */
    uint64_t at = 0;
    for (uint32_t b = 0; b < fby__dataset_block_count(p->s->base->ds); b++) {
        uint64_t n = fby__samples_of_block(p->s, b);
        size_t split = p->n_splits;
        for (uint64_t i = 0; i < n; i++, at++) {
            FBY__TRY(fby__cancel_check_at(i, err));
            size_t c = d->classes ? d->classes->list[d->classes->of[at]].rank : 0;
            if (!is_repeat(p->s, b, i))
                split = draw_split(d, &random, &d->wanted[c * d->stride]);
            if (split < p->n_splits)
                FBY__TRY(fby__sample_counts_put(&d->counts[split], b, i, 1, err));
        }
        if (n)
            FBY__TRY(fby__split_counts_close(d->counts, p->n_splits, b, err));
    }
    return FBY_OK;
}

fby_status fby__split_by_samples(const fby__splitting *p, fby_samples **out, fby_error *err)
{
    classes k = {.s = p->s};
    drawing d = {.splitting = p, .classes = p->opts->stratify ? &k : NULL};
    pthread_mutex_init(&k.lock, NULL);
    fby_status status = d.classes ? read_classes(&k, p, err) : FBY_OK;
    if (status == FBY_OK)
        status = want(&d, err);
    if (status == FBY_OK)
        status = check_wanted(&d, err);
    if (status == FBY_OK)
        status = fby__split_counts_create(p, &d.counts, err);
    if (status == FBY_OK)
        status = draw_samples(&d, err);
    if (status == FBY_OK)
        status = fby__split_counts_choose(p, d.counts, out, err);
    fby__split_counts_destroy(d.counts, p->n_splits);
    fby__free(d.wanted);
    fby__free(k.of);
    fby__free(k.list);
    fby__free(k.slots);
    pthread_mutex_destroy(&k.lock);
    return status;
}

/* ---- times ---- */

typedef struct times {
    const fby_samples *s;
    fby__sample_values values;
    int64_t *of;     /* owned: of each sample, such that their order is that of the times; each written once */
    int64_t *sorted; /* owned: of distinct samples */
} times;

/* Doubles as integers of the same order. */
static int64_t rank_of_real(double x)
{
    int64_t bits;
    x += 0.0; /* -0.0 is 0.0 */
    memcpy(&bits, &x, sizeof bits);
    return bits >= 0 ? bits : INT64_MIN - bits;
}

static fby_status put_time(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    times *t = user;
    uint64_t at = fby__samples_first(t->s)[b] + i;
    if (value->kind == FBY__VALUE_MISSING)
        return fby__fail(err, FBY_E_DATA,
                         "sample %llu has no value of '%s', the time that samples are split by: leave such samples out (select with low)",
                         (unsigned long long)at, t->values.name);
    if (value->kind == FBY__VALUE_FLOAT && t->values.column.layout.dtype == FBY_UINT64)
        return fby__fail(err, FBY_E_DATA, "sample %llu: '%s' is beyond 2^63", (unsigned long long)at, t->values.name);
    t->of[at] = value->kind == FBY__VALUE_NUMBER ? value->number : rank_of_real(value->real);
    return FBY_OK;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static fby_status read_times(times *t, const fby__splitting *p, fby_error *err)
{
    uint64_t n = fby_samples_count(p->s);
    FBY__TRY(fby__sample_values_init(&t->values, p->s, p->opts->time, err));
    if (t->values.is_text)
        return fby__fail(err, FBY_E_ARG, "time: '%s' holds strings: a time is a date, a timestamp or a number", t->values.name);
    t->of = fby__calloc((size_t)n, sizeof *t->of);
    t->sorted = fby__calloc((size_t)n, sizeof *t->sorted);
    if (!t->of || !t->sorted)
        return fby__fail_nomem(err, "the times of the samples");
    return fby__sample_values_visit(&t->values, &(fby__value_visit){.n_threads = p->opts->n_threads, .user = t, .visit = put_time}, err);
}

/* Part i has the times from *out_from[i] on and before *out_from[i + 1]; `endless`: to the last one. */
static fby_status cut_times(const times *t, const fby__splitting *p, int64_t *from, bool *endless, fby_error *err)
{
    uint64_t n = 0, at = 0;
    for (uint32_t b = 0; b < fby__dataset_block_count(p->s->base->ds); b++)
        for (uint64_t i = 0; i < fby__samples_of_block(p->s, b); i++, at++)
            if (!is_repeat(p->s, b, i))
                t->sorted[n++] = t->of[at];
    FBY__TRY(fby__sort(t->sorted, (size_t)n, sizeof *t->sorted, by_time, err));
    for (size_t i = 0; i <= p->n_splits; i++) {
        uint64_t k = fby__fraction_of(p->ends[i], n);
        endless[i] = k >= n;
        from[i] = endless[i] ? t->sorted[n - 1] : t->sorted[k];
    }
    for (size_t i = 0; i < p->n_splits; i++) {
        char name[FBY__SPLIT_NAME_BYTES];
        if (endless[i] || (!endless[i + 1] && from[i] == from[i + 1]))
            return fby__fail(err, FBY_E_ARG,
                             "%s (%g of %llu samples) holds no sample: those of one time of '%s' stay together; give it a larger share",
                             fby__split_name(p, i, name), p->splits[i].fraction, (unsigned long long)n, t->values.name);
    }
    return FBY_OK;
}

static fby_status put_by_time(const times *t, const fby__splitting *p, const int64_t *from, const bool *endless, fby__sample_counts *counts,
                              fby_error *err)
{
    uint64_t at = 0;
    for (uint32_t b = 0; b < fby__dataset_block_count(p->s->base->ds); b++) {
        uint64_t n = fby__samples_of_block(p->s, b);
        for (uint64_t i = 0; i < n; i++, at++) {
            FBY__TRY(fby__cancel_check_at(i, err));
            size_t split = 0;
            while (split < p->n_splits && !endless[split + 1] && t->of[at] >= from[split + 1])
                split++;
            if (split < p->n_splits)
                FBY__TRY(fby__sample_counts_put(&counts[split], b, i, 1, err));
        }
        if (n)
            FBY__TRY(fby__split_counts_close(counts, p->n_splits, b, err));
    }
    return FBY_OK;
}

fby_status fby__split_by_time_column(const fby__splitting *p, fby_samples **out, fby_error *err)
{
    times t = {.s = p->s};
    fby__sample_counts *counts = NULL;
    int64_t *from = fby__calloc(p->n_splits + 1, sizeof *from);
    bool *endless = fby__calloc(p->n_splits + 1, sizeof *endless);
    fby_status status = from && endless ? read_times(&t, p, err) : fby__fail_nomem(err, "the splits");
    if (status == FBY_OK)
        status = cut_times(&t, p, from, endless, err);
    if (status == FBY_OK)
        status = fby__split_counts_create(p, &counts, err);
    if (status == FBY_OK)
        status = put_by_time(&t, p, from, endless, counts, err);
    if (status == FBY_OK)
        status = fby__split_counts_choose(p, counts, out, err);
    fby__split_counts_destroy(counts, p->n_splits);
    fby__free(t.of);
    fby__free(t.sorted);
    fby__free(from);
    fby__free(endless);
    return status;
}
