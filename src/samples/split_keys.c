/* Splits by keys: all samples with one value of a column are in one split, drawn by the hash of the value, or listed. */
#include "samples/split.h"

#include "base/alloc.h"
#include "base/sort.h"

#include <pthread.h>

#define MAX_EXACT_GROUPS ((uint64_t)1 << 24) /* above, fractions of them are as good as exact without a list of their keys */

typedef struct key_split {
    const fby__splitting *splitting;
    fby__sample_values values;
    fby__value_set set;         /* all listed keys */
    fby_values listed;          /* numbers or texts owned */
    uint32_t *split_of;         /* owned: of each listed key */
    uint64_t *below;            /* owned: by fractions: hashes of split p lie below this, and not below that of split p - 1 */
    bool *endless;              /* owned: … or all of them do */
    fby__sample_counts *counts; /* owned: one a split */
    /* under lock */
    pthread_mutex_t lock;
    uint64_t *hashes; /* owned: of keys, in the order they are seen; not of one after the same one */
    size_t n_hashes, cap_hashes;
} key_split;

static uint64_t hash_key(const key_split *k, const fby__value *v)
{
    uint64_t head[] = {k->splitting->opts->seed, (uint64_t)v->kind};
    fby__hash128 h = fby__hash(head, sizeof head);
    if (v->kind == FBY__VALUE_TEXT)
        return fby__hash_more(h, v->text, v->n).lo;
    return v->kind == FBY__VALUE_FLOAT ? fby__hash_more(h, &v->real, sizeof v->real).lo
                                       : fby__hash_more(h, &v->number, sizeof v->number).lo;
}

static fby_status gather_hash(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    key_split *k = user;
    uint64_t hash = hash_key(k, value);
    fby_status status = FBY_OK;
    (void)b;
    (void)i;
    pthread_mutex_lock(&k->lock);
    if (k->n_hashes == 0 || k->hashes[k->n_hashes - 1] != hash) {
        if (fby__grow((void **)&k->hashes, &k->cap_hashes, k->n_hashes + 1, sizeof *k->hashes) == 0)
            k->hashes[k->n_hashes++] = hash;
        else
            status = fby__fail_nomem(err, "the keys");
    }
    pthread_mutex_unlock(&k->lock);
    return status;
}

/* Where the hashes of each split end. */
static fby_status cut_hashes(key_split *k, const fby_samples *s, fby_error *err)
{
    bool exact = s->base->kind != FBY_SAMPLES_GROUPS || fby_samples_count(s) <= MAX_EXACT_GROUPS;
    fby__value_visit visit = {.n_threads = k->splitting->opts->n_threads, .user = k, .visit = gather_hash};
    size_t n = 0;
    if (exact)
        FBY__TRY(fby__sample_values_visit(&k->values, &visit, err));
    FBY__TRY(fby__sort(k->hashes, k->n_hashes, sizeof *k->hashes, fby__compare_u64, err));
    for (size_t i = 0; i < k->n_hashes; i++)
        if (n == 0 || k->hashes[i] != k->hashes[n - 1])
            k->hashes[n++] = k->hashes[i];
    for (size_t p = 0; p < k->splitting->n_splits; p++) {
        const double to = k->splitting->ends[p + 1];
        uint64_t at = fby__fraction_of(to, n);
        k->endless[p] = exact ? at >= n : to >= 1;
        if (!k->endless[p])
            k->below[p] = exact ? k->hashes[at] : (uint64_t)(to * 18446744073709551616.0);
    }
    return FBY_OK;
}

/* The split of a value; n_splits: none. */
static size_t split_of(key_split *k, const fby__value *v)
{
    size_t p = 0;
    if (k->listed.n) {
        size_t at = fby__value_set_find(&k->set, v);
        return at == FBY__NO_VALUE ? k->splitting->n_splits : k->split_of[at];
    }
    uint64_t hash = hash_key(k, v);
    while (p < k->splitting->n_splits && !k->endless[p] && hash >= k->below[p])
        p++;
    return p;
}

static fby_status put_in_split(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    key_split *k = user;
    size_t p = split_of(k, value);
    return p < k->splitting->n_splits ? fby__sample_counts_put(&k->counts[p], b, i, 1, err) : FBY_OK;
}

static fby_status close_splits(void *user, uint32_t b, fby_error *err)
{
    key_split *k = user;
    return fby__split_counts_close(k->counts, k->splitting->n_splits, b, err);
}

/* The keys of all splits, one after the other. */
static fby_status list_keys(key_split *k, fby_error *err)
{
    const fby_split *splits = k->splitting->splits;
    size_t n = 0;
    bool texts = splits[0].keys.texts != NULL;
    for (size_t p = 0; p < k->splitting->n_splits; p++) {
        const fby_values *v = &splits[p].keys;
        char name[FBY__SPLIT_NAME_BYTES];
        if ((v->texts != NULL) != texts || !v->numbers != texts)
            return fby__fail(err, FBY_E_ARG, "%s: the keys of all splits are numbers, or all are strings",
                             fby__split_name(k->splitting, p, name));
        n += v->n;
    }
    int64_t *numbers = texts ? NULL : fby__calloc(n, sizeof *numbers);
    const char **names = texts ? fby__calloc(n, sizeof *names) : NULL;
    k->split_of = fby__calloc(n, sizeof *k->split_of);
    k->listed = (fby_values){numbers, names, n};
    if ((!numbers && !names) || !k->split_of)
        return fby__fail_nomem(err, "the keys of the splits");
    n = 0;
    for (size_t p = 0; p < k->splitting->n_splits; p++)
        for (size_t i = 0; i < splits[p].keys.n; i++) {
            if (texts)
                names[n] = splits[p].keys.texts[i];
            else
                numbers[n] = splits[p].keys.numbers[i];
            k->split_of[n++] = (uint32_t)p;
        }
    fby__value_type type = fby__sample_values_type(&k->values);
    return fby__value_set_init(&k->set, &k->listed, true, &type, err);
}

static fby_status split_keys(key_split *k, fby_samples **out, fby_error *err)
{
    const fby__splitting *splitting = k->splitting;
    fby__value_visit visit = {.n_threads = splitting->opts->n_threads, .user = k, .visit = put_in_split, .block = close_splits};
    FBY__TRY(fby__sample_values_init(&k->values, splitting->s, splitting->opts->column, err));
    if (splitting->splits[0].keys.n)
        FBY__TRY(list_keys(k, err));
    k->below = fby__calloc(splitting->n_splits, sizeof *k->below);
    k->endless = fby__calloc(splitting->n_splits, sizeof *k->endless);
    if (!k->below || !k->endless)
        return fby__fail_nomem(err, "the splits");
    if (!k->listed.n)
        FBY__TRY(cut_hashes(k, splitting->s, err));
    FBY__TRY(fby__split_counts_create(splitting, &k->counts, err));
    FBY__TRY(fby__sample_values_visit(&k->values, &visit, err));
    if (k->listed.n && !splitting->opts->ignore_unknown)
        FBY__TRY(fby__value_set_check_seen(&k->set, &k->values, err));
    return fby__split_counts_choose(splitting, k->counts, out, err);
}

fby_status fby__split_by_keys(const fby__splitting *p, fby_samples **out, fby_error *err)
{
    key_split k = {.splitting = p};
    pthread_mutex_init(&k.lock, NULL);
    fby_status status = split_keys(&k, out, err);
    fby__split_counts_destroy(k.counts, p->n_splits);
    fby__value_set_fini(&k.set);
    fby__free((void *)(uintptr_t)k.listed.numbers);
    fby__free((void *)(uintptr_t)k.listed.texts);
    fby__free(k.split_of);
    fby__free(k.below);
    fby__free(k.endless);
    fby__free(k.hashes);
    pthread_mutex_destroy(&k.lock);
    return status;
}
