/*
 * Splits of samples: what is asked for; splits by files and by the rows of series, which are views. By keys: split_keys.c; by samples and by a
 * column of times: split_samples.c.
 */
#include "samples/split.h"

#include "base/random.h"

#include "base/alloc.h"
#include "base/sized.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what is asked for ---- */

const char *fby__split_name(const fby__splitting *p, size_t split, char out[FBY__SPLIT_NAME_BYTES])
{
    if (p->splits[split].name)
        (void)snprintf(out, FBY__SPLIT_NAME_BYTES, "split '%.60s'", p->splits[split].name);
    else
        (void)snprintf(out, FBY__SPLIT_NAME_BYTES, "split %zu", split);
    return out;
}

static fby_status check_splits(const fby__splitting *p, fby_error *err)
{
    char name[FBY__SPLIT_NAME_BYTES];
    double sum = 0;
    bool listed = p->splits[0].keys.n > 0;
    for (size_t i = 0; i < p->n_splits; i++) {
        const fby_split *split = &p->splits[i];
        for (size_t k = 0; split->name && k < i; k++)
            if (p->splits[k].name && strcmp(p->splits[k].name, split->name) == 0)
                return fby__fail(err, FBY_E_ARG, "two splits are called '%.60s'", split->name);
        if ((split->keys.n > 0) != listed)
            return fby__fail(err, FBY_E_ARG, "%s lists keys and others do not: list at least one key for all splits, or give fractions",
                             fby__split_name(p, listed ? 0 : i, name));
        if (listed && p->opts->kind != FBY_SPLIT_KEYS)
            return fby__fail(err, FBY_E_ARG, "%s lists keys: that splits by keys", fby__split_name(p, i, name));
        sum += split->fraction;
        if (!listed && (!(split->fraction > 0) || sum > 1 + 1e-9)) /* NaN too */
            return fby__fail(err, FBY_E_ARG, "%s: %g: fractions are above 0 and together at most 1", fby__split_name(p, i, name),
                             split->fraction);
        p->ends[i + 1] = listed ? 0 : fmin(round(sum * 1e12) / 1e12, 1); /* 0.7 + 0.2 + 0.1 is 1 */
    }
    return FBY_OK;
}

static fby_status check_kind(const fby__splitting *p, fby_error *err)
{
    const fby_split_opts *o = p->opts;
    bool windows = p->s->base->kind == FBY_SAMPLES_WINDOWS;
    if ((unsigned)o->kind > FBY_SPLIT_SAMPLES)
        return fby__fail(err, FBY_E_ARG, "unknown kind of split");
    if (o->column && o->kind != FBY_SPLIT_KEYS)
        return fby__fail(err, FBY_E_ARG, "a column is split by where keys are");
    if (o->stratify && o->kind != FBY_SPLIT_SAMPLES)
        return fby__fail(err, FBY_E_ARG, "stratify goes with by samples: of files, keys and spans of time the classes are what they are");
    if (o->time && (o->kind != FBY_SPLIT_TIME || windows))
        return fby__fail(
            err, FBY_E_ARG,
            windows ? "time: windows are cut in the order of the rows of their files or keys, by fractions of each; leave time out. "
                      "Where all are to be cut at one date, select by it: '%s' in the first row of a window, from low on and before "
                      "high"
                    : "time goes with by time",
            o->time);
    if (o->at_target && (o->kind != FBY_SPLIT_TIME || !windows))
        return fby__fail(err, FBY_E_ARG, "at is about windows that are split by time");
    if (o->kind == FBY_SPLIT_TIME && windows && p->s->is_time_split)
        return fby__fail(err, FBY_E_ARG, "these windows are a split by time already: split all of them at once");
    if (o->kind == FBY_SPLIT_TIME && !windows && !o->time) {
        const char *column = fby__samples_times(p->s->base->ds, NULL);
        return fby__fail(err, FBY_E_ARG, "by time: name the column of the time of these samples (time=\"%.100s\")", column ? column : "…");
    }
    return FBY_OK;
}

/* ---- files and series ---- */

/* Chooses a split's files from those of s, shuffled. */
static fby_status choose_files(const fby__splitting *p, size_t split, bool *in, fby_error *err)
{
    const fby_samples *s = p->s;
    uint32_t n_files = (uint32_t)fby_dataset_file_count(s->base->ds), n = 0;
    uint32_t *order = fby__malloc((size_t)n_files * sizeof *order);
    if (!order)
        return fby__fail_nomem(err, "a split of the samples");
    for (uint32_t f = 0; f < n_files; f++)
        if (!s->file_in || s->file_in[f])
            order[n++] = f;
    fby__random random = {.key = p->opts->seed, .stream = 0x53504c4954}; /* "SPLIT" */
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)fby__random_below(&random, i), f = order[i - 1];
        order[i - 1] = order[k];
        order[k] = f;
    }
    for (uint64_t i = fby__fraction_of(p->ends[split], n); i < fby__fraction_of(p->ends[split + 1], n); i++)
        in[order[i]] = true;
    fby__free(order);
    return FBY_OK;
}

/*
 * The samples of `from` that lie in the view of `split` too, which is a part of its view: both are in order of their first rows. A sample that
 * comes more than once does so there too.
 */
static fby_status choose_common(const fby_samples *from, const fby_samples *split, fby_samples **out, fby_error *err)
{
    fby__sample_counts counts;
    fby_status status = fby__sample_counts_init(&counts, split, err);
    for (uint32_t b = 0; b < fby__dataset_block_count(split->base->ds) && status == FBY_OK; b++) {
        uint64_t n = fby__samples_of_block(split, b), m = fby__samples_of_block(from, b), k = 0, row = 0, other, rows;
        for (uint64_t i = 0; i < n && status == FBY_OK; i++) {
            uint16_t times = 0;
            fby__samples_at(split, b, i, &row, &rows);
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
        status = fby__sample_counts_choose(&counts, "this split", "", out, err);
    fby__sample_counts_fini(&counts);
    return status;
}

/* What else each kind of samples can be split by, where files do not do. */
static const char *const other_splits[] = {
    [FBY_SAMPLES_ROWS] = "samples or the values of a column",
    [FBY_SAMPLES_WINDOWS] = "time or groups",
    [FBY_SAMPLES_GROUPS] = "samples or groups",
};

static fby_status no_sample(const fby__splitting *p, size_t split, fby_error *err)
{
    const fby__sample_base *base = p->s->base;
    char name[FBY__SPLIT_NAME_BYTES];
    (void)fby__split_name(p, split, name);
    if (p->opts->kind == FBY_SPLIT_FILES)
        return fby__fail(err, FBY_E_ARG,
                         "%s (%g) holds no sample: files stay whole, and there are %llu of them; split by %s, or give it a larger share",
                         name, p->splits[split].fraction, (unsigned long long)fby_dataset_file_count(base->ds), other_splits[base->kind]);
    return fby__fail(err, FBY_E_ARG,
                     "%s (%g) holds no sample: of each series it has that share of the rows, the longest series has %llu rows, and %s %llu",
                     name, p->splits[split].fraction, (unsigned long long)base->longest_series,
                     p->opts->at_target ? "before the first target lie" : "a window takes",
                     (unsigned long long)(p->opts->at_target ? base->target : base->length));
}

/* Where a choice does not hold for the split as it is, it is made anew: a split by time numbers its windows from its own first one. */
static fby_status cut_view(const fby__splitting *p, const fby__sample_view *view, fby_samples **out, fby_error *err)
{
    const fby_samples *samples = p->s;
    fby_samples *split = NULL;
    bool renumbers = p->opts->kind == FBY_SPLIT_TIME && samples->choice;
    fby__choice *choice = samples->choice && !renumbers ? fby__choice_ref(samples->choice) : NULL;
    FBY__TRY(fby__samples_create(samples->base, view, choice, &split, err));
    if (!renumbers || fby_samples_count(split) == 0) {
        *out = split;
        return FBY_OK;
    }
    fby_status status = choose_common(samples, split, out, err);
    fby_samples_close(split);
    return status;
}

static fby_status cut_split(const fby__splitting *p, size_t split, fby_samples **out, fby_error *err)
{
    fby__sample_view view = fby__samples_view(p->s);
    bool *in = NULL;
    fby_status status = FBY_OK;
    if (p->opts->kind == FBY_SPLIT_TIME) {
        view.is_time_split = true;
        view.at_target = p->opts->at_target;
        view.from = p->ends[split];
        view.to = p->ends[split + 1];
    } else if ((in = fby__calloc((size_t)fby_dataset_file_count(p->s->base->ds), sizeof *in))) {
        view.file_in = in;
        status = choose_files(p, split, in, err);
    } else {
        status = fby__fail_nomem(err, "a split of the samples");
    }
    if (status == FBY_OK)
        status = cut_view(p, &view, out, err);
    fby__free(in);
    if (status == FBY_OK && fby_samples_count(*out) == 0)
        status = no_sample(p, split, err);
    return status;
}

static fby_status split_views(const fby__splitting *p, fby_samples **out, fby_error *err)
{
    for (size_t i = 0; i < p->n_splits; i++)
        FBY__TRY(cut_split(p, i, &out[i], err));
    return FBY_OK;
}

/* ---- counts ---- */

fby_status fby__split_counts_create(const fby__splitting *p, fby__sample_counts **out, fby_error *err)
{
    fby__sample_counts *counts = *out = fby__calloc(p->n_splits, sizeof *counts);
    if (!counts)
        return fby__fail_nomem(err, "the splits");
    for (size_t i = 0; i < p->n_splits; i++)
        FBY__TRY(fby__sample_counts_init(&counts[i], p->s, err));
    return FBY_OK;
}

void fby__split_counts_destroy(fby__sample_counts *counts, size_t n_splits)
{
    for (size_t i = 0; counts && i < n_splits; i++)
        if (counts[i].s)
            fby__sample_counts_fini(&counts[i]);
    fby__free(counts);
}

fby_status fby__split_counts_close(fby__sample_counts *counts, size_t n_splits, uint32_t b, fby_error *err)
{
    for (size_t i = 0; i < n_splits; i++)
        FBY__TRY(fby__sample_counts_close(&counts[i], b, err));
    return FBY_OK;
}

fby_status fby__split_counts_choose(const fby__splitting *p, fby__sample_counts *counts, fby_samples **out, fby_error *err)
{
    char name[FBY__SPLIT_NAME_BYTES], why[200] = "";
    const fby__sample_base *base = p->s->base;
    if (p->opts->kind == FBY_SPLIT_KEYS && p->splits[0].keys.n == 0)
        (void)snprintf(why, sizeof why,
                       ": those of one key stay together%s, and no key fell to this split; split by %s, or give it a larger share",
                       base->kind == FBY_SAMPLES_WINDOWS && !p->opts->column ? " (without a key each file is one)" : "",
                       base->kind == FBY_SAMPLES_WINDOWS ? "time or samples" : "samples");
    for (size_t i = 0; i < p->n_splits; i++)
        FBY__TRY(fby__sample_counts_choose(&counts[i], fby__split_name(p, i, name), why, &out[i], err));
    return FBY_OK;
}

/* ---- what was made before ---- */

/* All that the splits depend on. */
static fby__choice_key key_of(const fby__splitting *p)
{
    const fby_split_opts *o = p->opts;
    fby__choice_key k = fby__choice_key_of(p->s, "split");
    k.usable &= o->kind == FBY_SPLIT_KEYS || o->stratify || o->time; /* the others read nothing */
    fby__choice_key_bytes(&k, &o->kind, sizeof o->kind);
    fby__choice_key_text(&k, o->column);
    fby__choice_key_text(&k, o->stratify);
    fby__choice_key_text(&k, o->time);
    fby__choice_key_bytes(&k, &o->seed, sizeof o->seed);
    fby__choice_key_bytes(&k, &o->ignore_unknown, sizeof o->ignore_unknown);
    for (size_t i = 0; i < p->n_splits; i++) {
        fby__choice_key_bytes(&k, &p->splits[i].fraction, sizeof p->splits[i].fraction);
        fby__choice_key_values(&k, &p->splits[i].keys);
    }
    return k;
}

static fby__choice_key key_of_split(const fby__choice_key *key, size_t p)
{
    fby__choice_key one = *key;
    fby__choice_key_bytes(&one, &p, sizeof p);
    return one;
}

/* All splits as they were made before, or none. */
static fby_status load_splits(const fby__choice_key *key, const fby_samples *samples, size_t n_splits, fby_samples **made, bool *out_found,
                              fby_error *err)
{
    bool found = true;
    fby_status status = FBY_OK;
    for (size_t p = 0; p < n_splits && found && status == FBY_OK; p++) {
        fby__choice_key one = key_of_split(key, p);
        status = fby__choice_load(&one, samples, &made[p], &found, err);
    }
    for (size_t p = 0; p < n_splits && !found; p++) {
        fby_samples_close(made[p]);
        made[p] = NULL;
    }
    *out_found = found;
    return status;
}

/* ---- all of it ---- */

static fby_status make_splits(const fby__splitting *p, fby_samples **made, fby_error *err)
{
    bool found = false;
    fby__choice_key key = key_of(p);
    FBY__TRY(load_splits(&key, p->s, p->n_splits, made, &found, err));
    if (found)
        return FBY_OK;
    switch (p->opts->kind) {
    case FBY_SPLIT_KEYS: FBY__TRY(fby__split_by_keys(p, made, err)); break;
    case FBY_SPLIT_SAMPLES: FBY__TRY(fby__split_by_samples(p, made, err)); break;
    case FBY_SPLIT_TIME: FBY__TRY(p->opts->time ? fby__split_by_time_column(p, made, err) : split_views(p, made, err)); break;
    default: FBY__TRY(split_views(p, made, err)); break;
    }
    for (size_t i = 0; i < p->n_splits; i++) {
        fby__choice_key one = key_of_split(&key, i);
        fby__choice_store(&one, made[i]);
    }
    return FBY_OK;
}

fby_status fby_samples_split(const fby_samples *samples, const fby_split_opts *given, const fby_split *splits, size_t n_splits,
                             fby_samples **out, fby_error *err)
{
    fby_split_opts full;
    FBY__TRY(FBY__SIZED_IN(fby_split_opts, n_threads, given, &full, err));
    FBY__TRY(fby__samples_refuse_drawn(samples, "split", err));
    if (n_splits == 0 || n_splits > FBY__MAX_SPLITS)
        return fby__fail(err, FBY_E_ARG, "%zu splits: 1 to %d are possible", n_splits, FBY__MAX_SPLITS);
    fby__splitting p = {.s = samples, .opts = &full, .splits = splits, .n_splits = n_splits};
    fby__account_scope scope;
    FBY__TRY(fby__samples_choosing_begin(&scope, samples, err));
    p.ends = fby__calloc(n_splits + 1, sizeof *p.ends);
    fby_samples **made = fby__calloc(n_splits, sizeof *made);
    fby_status status = p.ends && made ? check_splits(&p, err) : fby__fail_nomem(err, "the splits");
    if (status == FBY_OK)
        status = check_kind(&p, err);
    if (status == FBY_OK)
        status = make_splits(&p, made, err);
    for (size_t i = 0; made && i < n_splits; i++) {
        if (status == FBY_OK)
            out[i] = made[i];
        else
            fby_samples_close(made[i]);
    }
    fby__free(p.ends);
    fby__free((void *)made);
    return fby__samples_choosing_end(&scope, samples, status, err);
}
