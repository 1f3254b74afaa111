/* Parts of samples: by files, by time, by keys; and limits. */
#include "samples/values.h"

#include "base/random.h"

#include "base/alloc.h"
#include "base/sized.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- files and time ---- */

/* Of the files of s, shuffled, those from a fraction to another. */
static fby_status choose_files(const fby_samples *s, double from, double to, uint64_t seed, bool *in, fby_error *err)
{
    uint32_t n_files = (uint32_t)fby_dataset_file_count(s->base->ds), n = 0;
    uint32_t *order = fby__malloc((size_t)n_files * sizeof *order);
    if (!order)
        return fby__fail_nomem(err, "a part of the samples");
    for (uint32_t f = 0; f < n_files; f++)
        if (!s->file_in || s->file_in[f])
            order[n++] = f;
    fby__random random = {.key = seed, .stream = 0x53504c4954}; /* "SPLIT" */
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)fby__random_below(&random, i), f = order[i - 1];
        order[i - 1] = order[k];
        order[k] = f;
    }
    for (uint64_t i = fby__fraction_of(from, n); i < fby__fraction_of(to, n); i++)
        in[order[i]] = true;
    fby__free(order);
    return FBY_OK;
}

/*
 * The samples of `from` that lie in the view of `part` too, which is a part of its view: both are in order of their first rows. A sample that
 * comes more than once does so in the part.
 */
static fby_status choose_common(const fby_samples *from, const fby_samples *part, fby_samples **out, fby_error *err)
{
    fby__sample_counts counts;
    fby_status status = fby__sample_counts_init(&counts, part, err);
    for (uint32_t b = 0; b < fby__dataset_block_count(part->base->ds) && status == FBY_OK; b++) {
        uint64_t n = fby__samples_of_block(part, b), m = fby__samples_of_block(from, b), k = 0, row = 0, other, rows;
        for (uint64_t i = 0; i < n && status == FBY_OK; i++) {
            uint16_t times = 0;
            fby__samples_at(part, b, i, &row, &rows);
            for (; k < m; k++) {
                fby__samples_at(from, b, k, &other, &rows);
                if (other > row)
                    break;
                times = (uint16_t)(times + (other == row));
            }
            status = fby__sample_counts_put(&counts, b, i, times, err);
        }
        if (n && status == FBY_OK)
            status = fby__sample_counts_close(&counts, b, err);
    }
    if (status == FBY_OK)
        status = fby__sample_counts_choose(&counts, "this part", out, err);
    fby__sample_counts_fini(&counts);
    return status;
}

/* The part of a view, with the choice of it where that holds for the part as it is. */
static fby_status cut_view(const fby_samples *samples, fby_split_kind kind, const fby__sample_view *view, fby_samples **out, fby_error *err)
{
    fby_samples *part = NULL;
    bool renumbers = kind == FBY_SPLIT_TIME && samples->choice;
    fby__choice *choice = samples->choice && !renumbers ? fby__choice_ref(samples->choice) : NULL;
    FBY__TRY(fby__samples_create(samples->base, view, choice, &part, err));
    if (!renumbers || fby_samples_count(part) == 0) {
        *out = part;
        return FBY_OK;
    }
    fby_status status = choose_common(samples, part, out, err);
    fby_samples_close(part);
    return status;
}

/* What else each kind of samples can be split by, where files do not do. */
static const char *const other_splits[] = {
    [FBY_SAMPLES_ROWS] = "the values of a column (by= its name)",
    [FBY_SAMPLES_WINDOWS] = "groups or time",
    [FBY_SAMPLES_GROUPS] = "groups",
};

fby_status fby_samples_split(const fby_samples *samples, fby_split_kind kind, double from, double to, uint64_t seed, fby_samples **out,
                             fby_error *err)
{
    fby__sample_view view = fby__samples_view(samples);
    bool *in = NULL;
    fby_samples *s = NULL;
    FBY__TRY(fby__samples_refuse_drawn(samples, "split", err));
    if (!(from >= 0 && from < to && to <= 1)) /* NaN too */
        return fby__fail(err, FBY_E_ARG, "a part is a range of fractions between 0 and 1, not %g to %g", from, to);
    if (kind == FBY_SPLIT_TIME && samples->base->kind != FBY_SAMPLES_WINDOWS)
        return fby__fail(err, FBY_E_ARG, "only windows can be split by time; split these by files, or by %s",
                         other_splits[samples->base->kind]);
    if (kind == FBY_SPLIT_TIME && samples->is_part)
        return fby__fail(err, FBY_E_ARG, "these windows are a part by time already: split all of them at once");
    if (kind != FBY_SPLIT_TIME && kind != FBY_SPLIT_FILES)
        return fby__fail(err, FBY_E_ARG, "unknown kind of split");
    if (kind == FBY_SPLIT_TIME) {
        view.is_part = true;
        view.from = from;
        view.to = to;
    } else {
        in = fby__calloc((size_t)fby_dataset_file_count(samples->base->ds), sizeof *in);
        if (!in)
            return fby__fail_nomem(err, "a part of the samples");
        view.file_in = in;
    }
    fby_status status = in ? choose_files(samples, from, to, seed, in, err) : FBY_OK;
    if (status == FBY_OK)
        status = cut_view(samples, kind, &view, &s, err);
    fby__free(in);
    if (status == FBY_OK && fby_samples_count(s) == 0)
        status =
            kind == FBY_SPLIT_FILES
                ? fby__fail(
                      err, FBY_E_ARG,
                      "the part from %g to %g holds no sample: files stay whole, and there are %llu of them; split by %s, or give it a "
                      "larger share",
                      from, to, (unsigned long long)fby_dataset_file_count(samples->base->ds), other_splits[samples->base->kind])
                : fby__fail(
                      err, FBY_E_ARG,
                      "the part from %g to %g holds no sample: of each series it has that share of the rows, the longest series has %llu "
                      "rows, and a window takes %llu",
                      from, to, (unsigned long long)samples->base->longest_series, (unsigned long long)samples->base->length);
    if (status != FBY_OK)
        fby_samples_close(s);
    else
        *out = s;
    return status;
}

/* ---- keys ---- */

#define MAX_EXACT_GROUPS ((uint64_t)1 << 24) /* above, fractions of them are as good as exact without a list of their keys */

typedef struct key_split {
    const fby_key_split_opts *opts;
    const fby_key_part *parts;
    size_t n_parts;
    fby__sample_values values;
    fby__value_set set;         /* all listed keys */
    fby_values listed;          /* numbers or texts owned */
    uint32_t *part_of;          /* owned: of each listed key */
    uint64_t *below;            /* owned: by fractions: hashes of part p lie below this, and not below that of part p - 1 */
    bool *endless;              /* owned: … or all of them do */
    fby__sample_counts *counts; /* owned: one a part */
    /* under lock */
    pthread_mutex_t lock;
    uint64_t *hashes; /* owned: of keys, in the order they are seen; not of one after the same one */
    size_t n_hashes, cap_hashes;
} key_split;

static uint64_t hash_key(const key_split *k, const fby__value *v)
{
    uint64_t head[] = {k->opts->seed, (uint64_t)v->kind};
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

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where the hashes of each part end. */
static fby_status cut_hashes(key_split *k, const fby_samples *s, fby_error *err)
{
    bool exact = s->base->kind != FBY_SAMPLES_GROUPS || fby_samples_count(s) <= MAX_EXACT_GROUPS;
    fby__value_visit visit = {.n_threads = k->opts->n_threads, .user = k, .visit = gather_hash};
    double to = 0;
    size_t n = 0;
    if (exact)
        FBY__TRY(fby__sample_values_visit(&k->values, &visit, err));
    if (k->n_hashes > 1)
        qsort(k->hashes, k->n_hashes, sizeof *k->hashes, by_number);
    for (size_t i = 0; i < k->n_hashes; i++)
        if (n == 0 || k->hashes[i] != k->hashes[n - 1])
            k->hashes[n++] = k->hashes[i];
    for (size_t p = 0; p < k->n_parts; p++) {
        to += k->parts[p].fraction;
        uint64_t at = fby__fraction_of(to, n);
        k->endless[p] = exact ? at >= n : to >= 1 - 1e-9;
        if (!k->endless[p])
            k->below[p] = exact ? k->hashes[at] : (uint64_t)(to * 18446744073709551616.0);
    }
    return FBY_OK;
}

/* The part of a value; n_parts: none. */
static size_t part_of(key_split *k, const fby__value *v)
{
    size_t p = 0;
    if (k->listed.n) {
        size_t at = fby__value_set_find(&k->set, v);
        return at == FBY__NO_VALUE ? k->n_parts : k->part_of[at];
    }
    uint64_t hash = hash_key(k, v);
    while (p < k->n_parts && !k->endless[p] && hash >= k->below[p])
        p++;
    return p;
}

static fby_status put_in_part(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    key_split *k = user;
    size_t p = part_of(k, value);
    return p < k->n_parts ? fby__sample_counts_put(&k->counts[p], b, i, 1, err) : FBY_OK;
}

static fby_status close_parts(void *user, uint32_t b, fby_error *err)
{
    key_split *k = user;
    for (size_t p = 0; p < k->n_parts; p++)
        FBY__TRY(fby__sample_counts_close(&k->counts[p], b, err));
    return FBY_OK;
}

/* The keys of all parts, one after the other. */
static fby_status list_keys(key_split *k, fby_error *err)
{
    size_t n = 0;
    bool texts = k->parts[0].keys.texts != NULL;
    for (size_t p = 0; p < k->n_parts; p++) {
        const fby_values *v = &k->parts[p].keys;
        if (v->n == 0 || (v->texts != NULL) != texts || !v->numbers != texts)
            return fby__fail(err, FBY_E_ARG, "part %zu: list at least one key; the keys of all parts are numbers, or all are strings", p);
        n += v->n;
    }
    int64_t *numbers = texts ? NULL : fby__calloc(n, sizeof *numbers);
    const char **names = texts ? fby__calloc(n, sizeof *names) : NULL;
    k->part_of = fby__calloc(n, sizeof *k->part_of);
    k->listed = (fby_values){numbers, names, n};
    if ((!numbers && !names) || !k->part_of)
        return fby__fail_nomem(err, "the keys of the parts");
    n = 0;
    for (size_t p = 0; p < k->n_parts; p++)
        for (size_t i = 0; i < k->parts[p].keys.n; i++) {
            if (texts)
                names[n] = k->parts[p].keys.texts[i];
            else
                numbers[n] = k->parts[p].keys.numbers[i];
            k->part_of[n++] = (uint32_t)p;
        }
    fby__value_type type = fby__sample_values_type(&k->values);
    return fby__value_set_init(&k->set, &k->listed, true, &type, err);
}

static fby_status check_fractions(const key_split *k, fby_error *err)
{
    double sum = 0;
    for (size_t p = 0; p < k->n_parts; p++) {
        double f = k->parts[p].fraction;
        sum += f;
        if (k->parts[p].keys.n)
            return fby__fail(err, FBY_E_ARG, "part %zu lists keys and others do not: give fractions, or keys, for all parts", p);
        if (!(f > 0) || sum > 1 + 1e-9)
            return fby__fail(err, FBY_E_ARG, "part %zu: fractions are above 0 and together at most 1", p);
    }
    return FBY_OK;
}

static fby_status split_keys(key_split *k, const fby_samples *s, fby_samples **out, fby_error *err)
{
    fby__value_visit visit = {.n_threads = k->opts->n_threads, .user = k, .visit = put_in_part, .block = close_parts};
    FBY__TRY(fby__sample_values_init(&k->values, s, k->opts->column, err));
    FBY__TRY(k->parts[0].keys.n ? list_keys(k, err) : check_fractions(k, err));
    k->below = fby__calloc(k->n_parts, sizeof *k->below);
    k->endless = fby__calloc(k->n_parts, sizeof *k->endless);
    k->counts = fby__calloc(k->n_parts, sizeof *k->counts);
    if (!k->below || !k->endless || !k->counts)
        return fby__fail_nomem(err, "the parts");
    if (!k->listed.n)
        FBY__TRY(cut_hashes(k, s, err));
    for (size_t p = 0; p < k->n_parts; p++)
        FBY__TRY(fby__sample_counts_init(&k->counts[p], s, err));
    FBY__TRY(fby__sample_values_visit(&k->values, &visit, err));
    if (k->listed.n && !k->opts->ignore_unknown)
        FBY__TRY(fby__value_set_check_seen(&k->set, &k->values, err));
    for (size_t p = 0; p < k->n_parts; p++) {
        char what[40];
        (void)snprintf(what, sizeof what, "part %zu", p);
        FBY__TRY(fby__sample_counts_choose(&k->counts[p], what, &out[p], err));
    }
    return FBY_OK;
}

/* All that the parts depend on. */
static fby__step_key key_of(const fby_samples *samples, const fby_key_split_opts *o, const fby_key_part *parts, size_t n_parts)
{
    fby__step_key k = fby__step_key_of(samples, "split");
    fby__step_key_text(&k, o->column);
    fby__step_key_bytes(&k, &o->seed, sizeof o->seed);
    fby__step_key_bytes(&k, &o->ignore_unknown, sizeof o->ignore_unknown);
    for (size_t p = 0; p < n_parts; p++) {
        fby__step_key_bytes(&k, &parts[p].fraction, sizeof parts[p].fraction);
        fby__step_key_values(&k, &parts[p].keys);
    }
    return k;
}

static fby__step_key key_of_part(const fby__step_key *key, size_t p)
{
    fby__step_key one = *key;
    fby__step_key_bytes(&one, &p, sizeof p);
    return one;
}

/* All parts as they were made before, or none. */
static fby_status load_parts(const fby__step_key *key, const fby_samples *samples, size_t n_parts, fby_samples **made, bool *out_found,
                             fby_error *err)
{
    bool found = true;
    fby_status status = FBY_OK;
    for (size_t p = 0; p < n_parts && found && status == FBY_OK; p++) {
        fby__step_key one = key_of_part(key, p);
        status = fby__step_load(&one, samples, &made[p], &found, err);
    }
    for (size_t p = 0; p < n_parts && !found; p++) {
        fby_samples_close(made[p]);
        made[p] = NULL;
    }
    *out_found = found;
    return status;
}

fby_status fby_samples_split_keys(const fby_samples *samples, const fby_key_split_opts *given, const fby_key_part *parts, size_t n_parts,
                                  fby_samples **out, fby_error *err)
{
    fby_key_split_opts taken;
    const fby_key_split_opts *opts = &taken;
    FBY__TRY(FBY__SIZED_IN(fby_key_split_opts, ignore_unknown, given, &taken, err));
    FBY__TRY(fby__samples_refuse_drawn(samples, "split", err));
    if (n_parts == 0 || n_parts > 1024)
        return fby__fail(err, FBY_E_ARG, "%zu parts: 1 to 1024 are possible", n_parts);
    key_split k = {.opts = opts, .parts = parts, .n_parts = n_parts};
    fby_samples **made = fby__calloc(n_parts, sizeof *made);
    bool found = false;
    if (!made)
        return fby__fail_nomem(err, "the parts");
    pthread_mutex_init(&k.lock, NULL);
    fby__step_key key = key_of(samples, opts, parts, n_parts);
    fby_status status = load_parts(&key, samples, n_parts, made, &found, err);
    if (status == FBY_OK && !found && (status = split_keys(&k, samples, made, err)) == FBY_OK)
        for (size_t p = 0; p < n_parts; p++) {
            fby__step_key one = key_of_part(&key, p);
            fby__step_store(&one, made[p]);
        }
    for (size_t p = 0; p < n_parts; p++) {
        if (k.counts)
            fby__sample_counts_fini(&k.counts[p]);
        if (status == FBY_OK)
            out[p] = made[p];
        else
            fby_samples_close(made[p]);
    }
    fby__value_set_fini(&k.set);
    fby__free((void *)(uintptr_t)k.listed.numbers);
    fby__free((void *)(uintptr_t)k.listed.texts);
    fby__free(k.part_of);
    fby__free(k.below);
    fby__free(k.endless);
    fby__free(k.counts);
    fby__free(k.hashes);
    fby__free((void *)made);
    pthread_mutex_destroy(&k.lock);
    return status;
}

/* ---- limits ---- */

/* D. E. Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S: each of `left` samples is taken with chance wanted / left. */
static fby_status choose_some(fby__sample_counts *c, const fby_samples *s, uint64_t wanted, bool random, uint64_t seed, fby_error *err)
{
    fby__random draw = {.key = seed, .stream = 0x4c494d4954}; /* "LIMIT" */
    uint64_t left = fby_samples_count(s);
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds); b++) {
        uint64_t n = fby__samples_of_block(s, b);
        for (uint64_t i = 0; i < n && wanted > 0; i++, left--) {
            if (random && fby__random_below(&draw, left) >= wanted)
                continue;
            FBY__TRY(fby__sample_counts_put(c, b, i, 1, err));
            wanted--;
        }
        if (n)
            FBY__TRY(fby__sample_counts_close(c, b, err));
    }
    return FBY_OK;
}

fby_status fby_samples_limit(const fby_samples *samples, uint64_t n, bool random, uint64_t seed, fby_samples **out, fby_error *err)
{
    fby__sample_counts counts;
    if (n == 0)
        return fby__fail(err, FBY_E_ARG, "a limit of 0 leaves no sample");
    FBY__TRY(fby__samples_refuse_drawn(samples, "limit", err));
    fby_status status = fby__sample_counts_init(&counts, samples, err);
    if (status == FBY_OK)
        status = choose_some(&counts, samples, n, random, seed, err);
    if (status == FBY_OK)
        status = fby__sample_counts_choose(&counts, "the limit", out, err);
    fby__sample_counts_fini(&counts);
    return status;
}
