/*
 * Samples that come more than once: by integer factors of classes, or in proportion to weights.
 *
 * Weights are drawn systematically (W. G. Madow, 1944): laid end to end along a line of length n, with marks at u, u + 1, u + 2, … for one
 * u drawn in [0, 1). A sample comes as often as marks fall on it: its expected count, rounded down or up.
 */
#include "samples/values.h"

#include "base/random.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/sized.h"

#include <math.h>
#include <stdio.h>

/* ---- factors ---- */

typedef struct oversampling {
    const fby_oversample_opts *opts;
    fby__value_set classes;
    fby__sample_counts counts;
} oversampling;

static fby_status put_factor(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    oversampling *o = user;
    size_t at = fby__value_set_find(&o->classes, value);
    return fby__sample_counts_put(&o->counts, b, i, at == FBY__NO_VALUE ? 1 : (uint16_t)o->opts->factors[at], err);
}

static fby_status close_block(void *user, uint32_t b, fby_error *err)
{
    return fby__sample_counts_close(&((oversampling *)user)->counts, b, err);
}

static fby_status oversample(oversampling *o, const fby_samples *samples, fby_samples **out, fby_error *err)
{
    char what[120];
    fby__sample_values v;
    fby__value_visit visit = {.n_threads = o->opts->n_threads, .user = o, .visit = put_factor, .block = close_block};
    FBY__TRY(fby__sample_values_init(&v, samples, o->opts->column, err));
    fby__value_type type = fby__sample_values_type(&v);
    FBY__TRY(fby__value_set_init(&o->classes, &o->opts->values, true, &type, err));
    FBY__TRY(fby__sample_counts_init(&o->counts, samples, err));
    FBY__TRY(fby__sample_values_visit(&v, &visit, err));
    if (!o->opts->ignore_unknown)
        FBY__TRY(fby__value_set_check_seen(&o->classes, &v, err));
    (void)snprintf(what, sizeof what, "'%.100s'", v.name);
    return fby__sample_counts_choose(&o->counts, what, "", out, err);
}

fby_status fby_samples_oversample(const fby_samples *samples, const fby_oversample_opts *given, fby_samples **out, fby_error *err)
{
    fby_oversample_opts full;
    const fby_oversample_opts *opts = &full;
    FBY__TRY(FBY__SIZED_IN(fby_oversample_opts, factors, given, &full, err));
    if (opts->values.n && !opts->factors)
        return fby__fail(err, FBY_E_ARG, "give a factor for each class");
    for (size_t i = 0; i < opts->values.n; i++)
        if (opts->factors[i] > UINT16_MAX)
            return fby__fail(err, FBY_E_ARG, "a factor of %u: at most 65,535 are possible", opts->factors[i]);
    FBY__TRY(fby__samples_refuse_drawn(samples, "oversample", err));
    bool found;
    fby__choice_key key = fby__choice_key_of(samples, "oversample");
    fby__choice_key_text(&key, opts->column);
    fby__choice_key_values(&key, &opts->values);
    fby__choice_key_bytes(&key, opts->factors, opts->values.n * sizeof *opts->factors);
    fby__choice_key_bytes(&key, &opts->ignore_unknown, sizeof opts->ignore_unknown);
    FBY__TRY(fby__choice_load(&key, samples, out, &found, err));
    if (found)
        return FBY_OK;
    oversampling o = {.opts = opts};
    fby__account_scope scope;
    FBY__TRY(fby__samples_choosing_begin(&scope, samples, err));
    fby_status status = oversample(&o, samples, out, err);
    if (o.counts.blocks || o.counts.choice)
        fby__sample_counts_fini(&o.counts);
    fby__value_set_fini(&o.classes);
    FBY__TRY(fby__samples_choosing_end(&scope, samples, status, err));
    fby__choice_store(&key, *out);
    return FBY_OK;
}

/* ---- weights ---- */

#define MAX_DRAWS ((uint64_t)1 << 48)
#define MAX_DRAWN_FROM ((uint64_t)1 << 35)

typedef struct resampling {
    const fby_resample_opts *opts;
    const fby_samples *s;
    fby__value_set classes;
    fby__sample_values values;
    double *weights; /* owned: one a sample, when they are read; each written once */
} resampling;

static fby_status put_weight(void *user, uint32_t b, uint64_t i, const fby__value *value, fby_error *err)
{
    resampling *r = user;
    uint64_t at = fby__samples_first(r->s)[b] + i;
    if (!r->opts->values.n) {
        r->weights[at] = value->kind == FBY__VALUE_NUMBER ? (double)value->number : value->kind == FBY__VALUE_FLOAT ? value->real : NAN;
        return FBY_OK;
    }
    size_t k = fby__value_set_find(&r->classes, value);
    char text[120];
    if (k == FBY__NO_VALUE) {
        fby__value_print(value, text, sizeof text);
        return fby__fail(err, FBY_E_ARG, "sample %llu: '%s' is %s, a class without a weight", (unsigned long long)at, r->values.name, text);
    }
    r->weights[at] = r->opts->class_weights[k];
    return FBY_OK;
}

static fby_status read_weights(resampling *r, fby_error *err)
{
    const fby_resample_opts *o = r->opts;
    FBY__TRY(fby__sample_values_init(&r->values, r->s, o->column, err));
    if (o->values.n) {
        fby__value_type type = fby__sample_values_type(&r->values);
        FBY__TRY(fby__value_set_init(&r->classes, &o->values, true, &type, err));
    } else if (r->values.is_text) {
        return fby__fail(err, FBY_E_ARG,
                         "'%s' holds strings: a column of weights holds numbers; of a column of classes give the weight of each",
                         r->values.name);
    }
    r->weights = fby__calloc((size_t)fby_samples_count(r->s), sizeof *r->weights);
    if (!r->weights)
        return fby__fail_nomem(err, "the weights");
    return fby__sample_values_visit(&r->values, &(fby__value_visit){.n_threads = o->n_threads, .user = r, .visit = put_weight}, err);
}

static fby_status sum_weights(const double *w, uint64_t n, double *out, fby_error *err)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        FBY__TRY(fby__cancel_check_at(i, err));
        if (!(w[i] >= 0) || isinf(w[i]))
            return fby__fail(err, FBY_E_ARG, "sample %llu has a weight of %g: weights are finite and not below 0", (unsigned long long)i,
                             w[i]);
        sum += w[i];
    }
    *out = sum;
    return sum > 0 && !isinf(sum) ? FBY_OK
                                  : fby__fail(err, FBY_E_ARG, "all weights are 0, or their sum is too large: nothing can be drawn");
}

static fby_status draw(const fby_samples *s, const double *w, uint64_t n_draws, uint64_t seed, fby_samples **out, fby_error *err)
{
    uint64_t n = fby_samples_count(s), at = 0, drawn = 0;
    double sum = 0, passed = 0, u = (double)(fby__random_u64(seed, 0, 0x57454947485453) >> 11) * 0x1p-53; /* "WEIGHTS" */
    fby__sample_counts counts;
    FBY__TRY(sum_weights(w, n, &sum, err));
    fby_status status = fby__sample_counts_init(&counts, s, err);
    for (uint32_t b = 0; b < fby__dataset_block_count(s->base->ds) && status == FBY_OK; b++) {
        uint64_t here = fby__samples_of_block(s, b);
        for (uint64_t i = 0; i < here && status == FBY_OK; i++, at++) {
            if ((status = fby__cancel_check_at(i, err)) != FBY_OK)
                break;
            passed += w[at];
            uint64_t upto = (uint64_t)floor(passed / sum * (double)n_draws + u); /* passed = sum at the end, bit for bit: n_draws in all */
            upto = upto < n_draws ? upto : n_draws;
            if (upto - drawn > UINT16_MAX)
                status =
                    fby__fail(err, FBY_E_ARG, "sample %llu would be drawn %llu times: at most 65,535 are possible; its weight is %g of %g",
                              (unsigned long long)at, (unsigned long long)(upto - drawn), w[at], sum);
            else
                status = fby__sample_counts_put(&counts, b, i, (uint16_t)(upto - drawn), err);
            drawn = upto;
        }
        if (here && status == FBY_OK)
            status = fby__sample_counts_close(&counts, b, err);
    }
    if (status == FBY_OK)
        status = fby__sample_counts_choose(&counts, "what is drawn", "", out, err);
    fby__sample_counts_fini(&counts);
    return status;
}

/* The same samples, from which every epoch draws. */
static fby_status draw_each_epoch(const fby_samples *s, const double *w, uint64_t n_draws, uint64_t seed, fby_samples **out, fby_error *err)
{
    double sum;
    fby_samples *drawn = NULL;
    if (n_draws > MAX_DRAWS)
        return fby__fail(err, FBY_E_ARG, "%llu draws in an epoch: at most 2^48 are possible", (unsigned long long)n_draws);
    if (fby_samples_count(s) > MAX_DRAWN_FROM)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%llu samples are too many to draw from in each epoch: at most 2^35",
                         (unsigned long long)fby_samples_count(s));
    FBY__TRY(sum_weights(w, fby_samples_count(s), &sum, err));
    FBY__TRY(fby__samples_choose(s, s->choice ? fby__choice_ref(s->choice) : NULL, &drawn, err));
    fby_status status = fby__draw_create(w, fby_samples_count(s), n_draws, seed, &drawn->draw, err);
    if (status != FBY_OK) {
        fby_samples_close(drawn);
        return status;
    }
    fby__hash128 h = fby__hash(s->identity, sizeof s->identity);
    fby__hash_text(fby__draw_hash(h, drawn->draw), drawn->identity);
    *out = drawn;
    return FBY_OK;
}

typedef fby_status (*draw_fn)(const fby_samples *s, const double *w, uint64_t n_draws, uint64_t seed, fby_samples **out, fby_error *err);

static fby_status read_and_draw(resampling *r, draw_fn how, uint64_t n, fby_samples **out, fby_error *err)
{
    fby_status status = read_weights(r, err);
    if (status == FBY_OK)
        status = how(r->s, r->weights, n, r->opts->seed, out, err);
    fby__value_set_fini(&r->classes);
    fby__free(r->weights);
    return status;
}

static fby_status resample(const fby_samples *samples, const fby_resample_opts *opts, fby_samples **out, fby_error *err)
{
    if (opts->weights && (opts->column || opts->values.n || opts->class_weights))
        return fby__fail(err, FBY_E_ARG, "give a weight for each sample, or a column, not both");
    if (!opts->values.n != !opts->class_weights)
        return fby__fail(err, FBY_E_ARG, "give a weight for each class");
    FBY__TRY(fby__samples_refuse_drawn(samples, "resample", err));
    resampling r = {.opts = opts, .s = samples};
    uint64_t n = opts->n ? opts->n : fby_samples_count(samples);
    if (opts->weights)
        return (opts->each_epoch ? draw_each_epoch : draw)(samples, opts->weights, n, opts->seed, out, err);
    if (opts->each_epoch)
        return read_and_draw(&r, draw_each_epoch, n, out, err);
    bool found;
    const uint64_t how[] = {n, opts->seed};
    fby__choice_key key = fby__choice_key_of(samples, "resample");
    fby__choice_key_text(&key, opts->column);
    fby__choice_key_values(&key, &opts->values);
    fby__choice_key_bytes(&key, opts->class_weights, opts->values.n * sizeof *opts->class_weights);
    fby__choice_key_bytes(&key, how, sizeof how);
    FBY__TRY(fby__choice_load(&key, samples, out, &found, err));
    if (found)
        return FBY_OK;
    FBY__TRY(read_and_draw(&r, draw, n, out, err));
    fby__choice_store(&key, *out);
    return FBY_OK;
}

fby_status fby_samples_resample(const fby_samples *samples, const fby_resample_opts *given, fby_samples **out, fby_error *err)
{
    fby_resample_opts opts;
    fby__account_scope scope;
    FBY__TRY(FBY__SIZED_IN(fby_resample_opts, n, given, &opts, err));
    FBY__TRY(fby__samples_choosing_begin(&scope, samples, err));
    return fby__samples_choosing_end(&scope, samples, resample(samples, &opts, out, err), err);
}
