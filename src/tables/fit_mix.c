/*
 * Moments of a mixture: each source is fitted alone, and its moments come in by how many of the mixture's values are its own.
 *
 * A sample is of source i with the share s(i) of the weights. It has on average r(i) rows, and a row of the source has n(i) / R(i) values: those
 * that were found in the R(i) rows which the source's samples consist of. So of the values that a loader hands out, the share
 *
 *     p(i) = s(i) r(i) n(i) / R(i), over the sum of that of all sources
 *
 * is of source i, and mean = Σ p(i) mean(i), variance = Σ p(i) (variance(i) + (mean(i) - mean)²).
 */
#include "tables/cover.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/sized.h"
#include "dataset/dataset.h"
#include "options/options.h"

#include <math.h>
#include <string.h>

/** One source, while it is fitted. */
typedef struct fitted_source {
    double share; /* of the samples; 0: the source never comes */
    double rows;  /* of a sample, over the rows that all of them consist of: r / R */
    fby_moments *moments;
} fitted_source;

static bool same_proportions(const double *a, const double *b, size_t n)
{
    double sum_a = 0, sum_b = 0;
    for (size_t i = 0; i < n; i++) {
        sum_a += a[i];
        sum_b += b[i];
    }
    for (size_t i = 0; i < n; i++)
        if (fabs(a[i] / sum_a - b[i] / sum_b) > 1e-12)
            return false;
    return true;
}

static fby_status find_shares(const fby_mix *mix, fitted_source *sources, fby_error *err)
{
    double sum = 0;
    for (size_t e = 1; mix->weights && e < mix->n_epochs; e++)
        if (!same_proportions(mix->weights, mix->weights + e * mix->n_sources, mix->n_sources))
            return fby__fail(
                err, FBY_E_UNSUPPORTED,
                "the weights differ from epoch to epoch, so no mean is that of all: fit a mixture with the weights of one epoch");
    for (size_t i = 0; i < mix->n_sources; i++) {
        sources[i].share = mix->weights ? mix->weights[i] : (double)fby_samples_count(mix->sources[i].samples);
        if (!(sources[i].share >= 0) || isinf(sources[i].share))
            return fby__fail(err, FBY_E_ARG, "the weight of source '%s' is %g: a number from 0 on is expected", mix->sources[i].name,
                             sources[i].share);
        sum += sources[i].share;
    }
    if (isinf(sum))
        return fby__fail(err, FBY_E_ARG, "the weights of the mixture have no finite sum: divide all of them by one number");
    if (!(sum > 0))
        return fby__fail(err, FBY_E_ARG, "the sources of the mixture have no samples, or weights of 0");
    for (size_t i = 0; i < mix->n_sources; i++)
        sources[i].share /= sum;
    return FBY_OK;
}

/* Rows of one sample, over the rows that all samples consist of: r(i) / R(i). */
static fby_status rows_of(const fby_samples *samples, double *out, fby_error *err)
{
    const fby_dataset *ds = fby__samples_dataset(samples);
    const uint64_t n = fby_samples_count(samples);
    fby__cover c;
    double covered = 0, rows = 0;
    uint64_t first, many;
    FBY__TRY(fby__cover_begin(&c, samples, ds, err));
    while (c.begin < c.end) {
        covered += (double)(c.end - c.begin);
        FBY__TRY(fby__cover_next(&c, err));
    }
    if (fby_samples_kind(samples) != FBY_SAMPLES_GROUPS)
        rows = (double)n * (double)fby_samples_max_rows(samples);
    else
        for (uint32_t b = 0; b < fby__dataset_block_count(ds); b++)
            for (uint64_t i = 0; i < fby__samples_of_block(samples, b); i++) {
                FBY__TRY(fby__cancel_check_at(i, err));
                fby__samples_at(samples, b, i, &first, &many);
                rows += (double)many;
            }
    *out = n && covered > 0 ? rows / (double)n / covered : 0;
    return FBY_OK;
}

static fby_status fit_source(const fby_mix_source *source, const fby_fit_opts *opts, size_t n, fitted_source *out, fby_error *err)
{
    fby_fit_opts own = *opts;
    if (out->share == 0)
        return FBY_OK;
    fby_dataset *ds = (fby_dataset *)(uintptr_t)fby__samples_dataset(source->samples); /* a reference is taken */
    own.samples = source->samples;
    own.moments_size = sizeof *out->moments;
    if (!(out->moments = fby__calloc(n, sizeof *out->moments)))
        return fby__fail_nomem(err, "the moments");
    const fby_status status = fby_fit_moments(ds, &own, out->moments, err);
    if (status != FBY_OK) {
        fby__error_context(err, "source '%s'", source->name);
        return status;
    }
    return rows_of(source->samples, &out->rows, err);
}

/* Of one column or place of all sources. */
static fby_moments combine(const fitted_source *sources, size_t n_sources, size_t at)
{
    fby_moments out = {.mean = 0, .std = 0, .min = (double)INFINITY, .max = -(double)INFINITY};
    double sum = 0, variance = 0;
    for (size_t i = 0; i < n_sources; i++) {
        const fby_moments *m = sources[i].moments ? &sources[i].moments[at] : NULL;
        if (!m)
            continue;
        out.count += m->count;
        out.n_missing += m->n_missing;
        if (m->count == 0)
            continue;
        const double p = sources[i].share * sources[i].rows * (double)m->count;
        sum += p;
        out.mean += (m->mean - out.mean) * (p / sum); /* so that sources with one mean give that mean */
        out.min = fmin(out.min, m->min);
        out.max = fmax(out.max, m->max);
    }
    for (size_t i = 0; i < n_sources; i++) {
        const fby_moments *m = sources[i].moments ? &sources[i].moments[at] : NULL;
        if (m && m->count)
            variance += sources[i].share * sources[i].rows * (double)m->count / sum *
                        (m->std * m->std + (m->mean - out.mean) * (m->mean - out.mean));
    }
    out.std = sqrt(variance);
    if (out.count == 0)
        out.mean = out.std = out.min = out.max = (double)NAN;
    return out;
}

static fby_status fit_all(const fby_mix *mix, const fby_fit_opts *opts, fitted_source *sources, fby_moments *out, fby_error *err)
{
    size_t n;
    FBY__TRY(find_shares(mix, sources, err));
    if (!fby__mul_checked(opts->n_columns, opts->n_each ? opts->n_each : 1, &n))
        return fby__fail_nomem(err, "the moments");
    for (size_t i = 0; i < mix->n_sources; i++)
        FBY__TRY(fit_source(&mix->sources[i], opts, n, &sources[i], err));
    fby_moments *all = fby__calloc(n, sizeof *all);
    if (!all)
        return fby__fail_nomem(err, "the moments");
    for (size_t k = 0; k < n; k++)
        all[k] = combine(sources, mix->n_sources, k);
    const fby_status status = fby__strided_out("fby_moments", "moments_size", all, n, sizeof *all, FBY__SIZE_UP_TO(fby_moments, max), out,
                                               opts->moments_size, err);
    fby__free(all);
    return status;
}

static fby_status fit_mix(const fby_mix *given, const fby_fit_opts *opts, fby__arena *arena, fby_moments *out, fby_error *err)
{
    fby_mix mix;
    fby_fit_opts o;
    FBY__TRY(fby__mix_in(given, &mix, arena, err));
    FBY__TRY(fby__fit_opts_in(opts, &o, arena, err));
    if (o.samples)
        return fby__fail(err, FBY_E_ARG, "the samples of a mixture are those of its sources: samples is not given");
    fitted_source *sources = fby__calloc(mix.n_sources, sizeof *sources);
    if (!sources)
        return fby__fail_nomem(err, "the moments");
    const fby_status status = fit_all(&mix, &o, sources, out, err);
    for (size_t i = 0; i < mix.n_sources; i++)
        fby__free(sources[i].moments);
    fby__free(sources);
    return status;
}

fby_status fby_fit_mix(const fby_mix *mix, const fby_fit_opts *opts, fby_moments *out, fby_error *err)
{
    fby__arena arena = {0};
    const fby_status status = fit_mix(mix, opts, &arena, out, err);
    fby__arena_fini(&arena);
    return status;
}
