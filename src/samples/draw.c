/*
 * Samples drawn in proportion to weights, anew in every epoch.
 *
 *   weights   |  w0  | w1 |      w2      |w3|   w4   |   laid end to end along a line
 *   cells     |----|----|----|----|----|----|----|---|   n of them, of equal length
 *   marks        ·   ·     ·  ·       · ·    ·     ·     one a cell, drawn with (seed, epoch, cell)
 *
 * A sample comes as often as marks fall on it: once for every cell that it fills, and with the chance of its share of those it is cut by. The
 * mean is n w / Σ w, as of independent draws, and the spread is less. Any mark is computed alone, and marks rise: so draws of a block follow one
 * another, and nothing is stored for an epoch.
 *
 * Sums are of float32 weights, in float64, always in the same order: where a sample begins on the line is one number, whoever asks.
 */
#include "samples/samples_impl.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/random.h"

#include <math.h>

#define FRAME 16u
#define DOMAIN_MARKS 0x4d41524b53u /* "MARKS" */

struct fby__draw {
    uint64_t n, seed;   /* draws */
    uint64_t n_samples; /* that are drawn from */
    uint64_t last;      /* the last sample of them with a weight */
    double cell;        /* Σ w / n */
    double *begin;      /* owned: where every FRAME-th sample begins, and the end */
    uint32_t *guide;    /* owned: the frame where each of n_stretches equal stretches of the line begins, and the end */
    uint64_t n_stretches;
    double stretch; /* Σ w / n_stretches */
    float weight[]; /* n_samples, of the largest */
};

/* Where sample i begins; of i = n_samples, where the last one ends. */
static double begin_of(const fby__draw *d, uint64_t i)
{
    double at = d->begin[i / FRAME];
    for (uint64_t k = i / FRAME * FRAME; k < i; k++)
        at += (double)d->weight[k];
    return at;
}

static double mark(const fby__draw *d, uint64_t key, uint64_t k)
{
    const double u = (double)(fby__random_u64(key, k, DOMAIN_MARKS) >> 32) * 0x1p-32;
    return ((double)k + u) * d->cell;
}

static uint64_t key_of(const fby__draw *d, uint64_t epoch) { return fby__random_u64(d->seed, epoch, DOMAIN_MARKS); }

/* Marks before sample i. */
static uint64_t marks_before(const fby__draw *d, uint64_t key, uint64_t i)
{
    if (i == 0 || i > d->last)
        return i ? d->n : 0; /* rounding may put the last mark beyond the end */
    const double at = begin_of(d, i), cells = floor(at / d->cell);
    uint64_t k = cells > 2 ? (uint64_t)cells - 2 : 0; /* marks before this one are before the sample, whatever the division lost */
    while (k < d->n && mark(d, key, k) < at)
        k++;
    return k;
}

/*
 * The sample that a mark falls on. A guide over equal stretches of the line says in which frames to look; one stretch more on either side makes
 * up for what a division may lose.
 */
static uint64_t sample_at(const fby__draw *d, double at)
{
    const uint64_t g = fby__min_u64((uint64_t)(at / d->stretch), d->n_stretches - 1);
    uint64_t lo = d->guide[g ? g - 1 : 0], n = d->guide[fby__min_u64(g + 2, d->n_stretches)] - lo + 1;
    while (n > 1) {
        const uint64_t half = n / 2;
        if (d->begin[lo + half] <= at)
            lo += half;
        n -= half;
    }
    uint64_t i = lo * FRAME;
    double next = d->begin[lo] + (double)d->weight[i];
    while (i < d->last && next <= at)
        next += (double)d->weight[++i];
    return i;
}

/* ---- making ---- */

fby_status fby__draw_create(const double *weights, uint64_t n_samples, uint64_t n, uint64_t seed, fby__draw **out, fby_error *err)
{
    double most = 0, at = 0;
    for (uint64_t i = 0; i < n_samples; i++)
        most = fmax(most, weights[i]);
    fby__draw *d = fby__calloc(1, sizeof *d + n_samples * sizeof *d->weight);
    double *begin = fby__calloc(n_samples / FRAME + 2, sizeof *begin);
    const uint64_t n_stretches = n_samples / FRAME + 1;
    uint32_t *guide = fby__calloc(n_stretches + 1, sizeof *guide);
    if (!d || !begin || !guide) {
        fby__free(d);
        fby__free(begin);
        fby__free(guide);
        return fby__fail_nomem(err, "the weights");
    }
    *d = (fby__draw){.n = n, .seed = seed, .n_samples = n_samples, .begin = begin, .guide = guide, .n_stretches = n_stretches};
    for (uint64_t i = 0; i < n_samples; i++) {
        if (fby__cancelled_at(i)) {
            fby__draw_destroy(d);
            return fby__cancel_check(err);
        }
        if (i % FRAME == 0)
            begin[i / FRAME] = at;
        d->weight[i] = (float)(weights[i] / most);
        d->last = d->weight[i] > 0 ? i : d->last;
        at += (double)d->weight[i];
    }
    begin[(n_samples + FRAME - 1) / FRAME] = at;
    d->cell = at / (double)n;
    d->stretch = at / (double)n_stretches;
    uint32_t frame = 0;
    for (uint64_t g = 0; g <= n_stretches; g++) {
        while (frame < d->last / FRAME && begin[frame + 1] <= (double)g * d->stretch)
            frame++;
        guide[g] = frame;
    }
    *out = d;
    return FBY_OK;
}

void fby__draw_destroy(fby__draw *d)
{
    if (!d)
        return;
    fby__free(d->begin);
    fby__free(d->guide);
    fby__free(d);
}

uint64_t fby__draw_count(const fby__draw *d) { return d->n; }

fby__hash128 fby__draw_hash(fby__hash128 h, const fby__draw *d)
{
    const uint64_t numbers[] = {d->n, d->seed, d->n_samples};
    return fby__hash_more(fby__hash_more(h, numbers, sizeof numbers), d->weight, d->n_samples * sizeof *d->weight);
}

size_t fby__draw_memory_bytes(const fby__draw *d)
{
    return sizeof *d + d->n_samples * sizeof *d->weight + (d->n_samples / FRAME + 2) * (sizeof *d->begin + sizeof *d->guide);
}

/* ---- looking ---- */

bool fby__samples_are_drawn(const fby_samples *s) { return s->draw != NULL; }

void fby__samples_draw_bounds(const fby_samples *s, uint32_t block, uint64_t *out_least, uint64_t *out_most)
{
    const fby__draw *d = s->draw;
    const double begin = begin_of(d, s->first[block]), end = begin_of(d, s->first[block + 1]), cells = (end - begin) / d->cell;
    *out_least = cells > 3 ? (uint64_t)cells - 3 : 0; /* cut at both ends, and what rounding may lose */
    *out_most = end > begin ? fby__min_u64(d->n, (uint64_t)cells + 4) : 0;
}

void fby__samples_draws(const fby_samples *s, uint64_t epoch, uint64_t *out)
{
    const uint64_t key = key_of(s->draw, epoch);
    const uint32_t n_blocks = fby__dataset_block_count(s->base->ds);
    uint64_t before = 0;
    for (uint32_t b = 0; b < n_blocks; b++) {
        const uint64_t end = marks_before(s->draw, key, s->first[b + 1]);
        out[b] = end - before;
        before = end;
    }
}

void fby__samples_drawn(const fby_samples *s, uint64_t epoch, const uint64_t *draw, uint32_t n, uint64_t *out)
{
    const uint64_t key = key_of(s->draw, epoch);
    for (uint32_t i = 0; i < n; i++)
        out[i] = sample_at(s->draw, mark(s->draw, key, draw[i]));
}
