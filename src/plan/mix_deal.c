/*
 * Which source has which slot of an epoch of a mixture.
 *
 *   slots      the epoch's N samples, dealt to S streams in turn: slot n of stream s is number n*S + s. A batch takes consecutive numbers
 *   circle     number g lies at (start + g*STEP) mod 2^64, STEP the golden ratio: any run of numbers is spread evenly over the circle. Each
 *              source has an arc as long as its weight, and the slots that lie on it. So of any run of numbers every source has its share,
 *              but for a few samples, and any slot is known alone
 *   counts     how many of the first n slots of a stream lie on an arc: a sum of floors, found as Euclid's algorithm finds a divisor
 *   quotas     the whole epoch has exactly as many samples of each source as its weight says, to the nearest. The few that the circle gives
 *              it more or less are moved between sources, where streams end: beyond its quota a source's slot goes to one that has room
 *
 * Which sample a source's next slot holds is up to the source's own order (mix_epoch.c): it has S streams too, cut so that each has as many
 * samples as it has slots.
 */
#include "plan/mix_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

#define STEP UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / golden ratio */
#define CIRCLE ((u128)1 << 64)

/* ---- counting slots ---- */

/* Σ floor((a*x + b) / 2^64) over x < n, modulo 2^64: what is asked for are differences, which are small. */
static uint64_t floor_sum(uint64_t n, uint64_t step, u128 b)
{
    uint64_t sum = 0;
    u128 m = CIRCLE, a = step;
    while (n > 0) {
        if (a >= m) {
            sum += (uint64_t)((u128)n * (n - 1) / 2) * (uint64_t)(a / m);
            a %= m;
        }
        if (b >= m) {
            sum += n * (uint64_t)(b / m);
            b %= m;
        }
        const u128 most = a * n + b; /* n and a are below 2^62 and 2^64 at first; then n becomes smaller than a was, and a than m */
        n = (uint64_t)(most / m);
        b = most % m;
        const u128 t = m;
        m = a;
        a = t;
        if (n == 0 || m == 0)
            break;
    }
    return sum;
}

/* How many of the first n slots of a stream lie below `upto` on the circle: floor(y) - floor(y - upto) is 1 there and else 0. */
static uint64_t slots_below(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, u128 upto)
{
    if (upto >= CIRCLE)
        return n;
    const uint64_t begin = deal->start + stream * STEP, step = streams * STEP;
    return n + floor_sum(n, step, begin) - floor_sum(n, step, begin + (CIRCLE - upto));
}

/* As the circle gives them. */
static void circle_slots(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, uint64_t *out)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < deal->n; i++) {
        const uint64_t upto = slots_below(deal, streams, stream, n, deal->upto[i]);
        out[i] = upto - before;
        before = upto;
    }
}

/* Beyond the stream's end the circle goes on, but for sources of which the stream has no sample to repeat: their slots are the first other's. */
static void fill_up(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, uint64_t *io_slots)
{
    const uint64_t *quota = deal->quota + (size_t)stream * deal->n, length = deal->length[stream];
    uint64_t before = 0, left = 0;
    for (uint32_t i = 0; i < deal->n; i++) {
        const uint64_t upto =
            slots_below(deal, streams, stream, n, deal->upto[i]) - slots_below(deal, streams, stream, length, deal->upto[i]);
        *(quota[i] ? &io_slots[i] : &left) += upto - before;
        before = upto;
    }
    for (uint32_t i = 0; left > 0 && i < deal->n; i++)
        if (quota[i]) {
            io_slots[i] += left;
            left = 0;
        }
}

/* What the circle gives, within the quotas: n and what a source has more than its own are both more of more slots, so no count becomes less. */
static void keep_quotas(const fby__mix_deal *deal, uint32_t stream, uint64_t *out)
{
    const uint64_t *quota = deal->quota + (size_t)stream * deal->n;
    uint64_t beyond = 0;
    for (uint32_t i = 0; i < deal->n; i++) {
        beyond += out[i] > quota[i] ? out[i] - quota[i] : 0;
        out[i] = fby__min_u64(out[i], quota[i]);
    }
    for (uint32_t i = 0; i < deal->n; i++) {
        const uint64_t more = fby__min_u64(beyond, quota[i] - out[i]);
        out[i] += more;
        beyond -= more;
    }
    assert(beyond == 0);
}

void fby__mix_slots(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, uint64_t *out)
{
    const uint64_t length = deal->length[stream];
    circle_slots(deal, streams, stream, fby__min_u64(n, length), out);
    keep_quotas(deal, stream, out);
    if (n > length)
        fill_up(deal, streams, stream, n, out);
}

void fby__mix_walk_to(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, fby__mix_walk *w, uint64_t *out)
{
    const uint64_t length = deal->length[stream], end = fby__min_u64(n, length), step = streams * STEP;
    uint64_t at = deal->start + stream * STEP + w->n * step;
    if (end < w->n || end - w->n > FBY__MIX_STEPS) {
        w->n = end;
        circle_slots(deal, streams, stream, end, w->circle);
    } else {
        for (; w->n < end; w->n++, at += step) {
            uint32_t lo = 0, hi = deal->n - 1; /* the first arc that ends above the slot */
            while (lo < hi) {
                const uint32_t middle = lo + (hi - lo) / 2;
                if (deal->upto[middle] > at)
                    hi = middle;
                else
                    lo = middle + 1;
            }
            w->circle[lo]++;
        }
    }
    memcpy(out, w->circle, deal->n * sizeof *out);
    keep_quotas(deal, stream, out);
    if (n > length)
        fill_up(deal, streams, stream, n, out);
}

/* How many of the first n slots of a stream lie on the arc of a source; *out_before: on the arcs before it. */
static uint64_t arc_slots(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint32_t source, uint64_t n, uint64_t *out_before)
{
    *out_before = source ? slots_below(deal, streams, stream, n, deal->upto[source - 1]) : 0;
    return slots_below(deal, streams, stream, n, deal->upto[source]) - *out_before;
}

/* As fby__mix_slots does it, from sums over the sources before this one. */
uint64_t fby__mix_slots_of(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint32_t source, uint64_t n)
{
    const size_t at = (size_t)stream * deal->n + source;
    const uint64_t quota = deal->quota[at], length = deal->length[stream];
    uint64_t before, beyond = 0, beyond_before = 0;
    if (n > length) {
        if (!quota)
            return 0;
        if (source != deal->first_source[stream])
            return quota + arc_slots(deal, streams, stream, source, n, &before) - arc_slots(deal, streams, stream, source, length, &before);
        uint64_t others = 0; /* the first one has what those have not that repeat nothing */
        for (uint32_t i = source + 1; i < deal->n; i++)
            others += fby__mix_slots_of(deal, streams, stream, i, n);
        return n - others;
    }
    const uint64_t own = fby__min_u64(arc_slots(deal, streams, stream, source, n, &before), quota);
    for (uint32_t k = deal->first_moved[stream]; k < deal->first_moved[stream + 1]; k++)
        if (deal->moved[k].slot < n) {
            beyond++;
            beyond_before += deal->moved[k].source < source;
        }
    const uint64_t room_before = deal->quota_before[at] - (before - beyond_before);
    return own + fby__min_u64(quota - own, beyond - fby__min_u64(beyond, room_before));
}

/* ---- who has which slot ---- */

void fby__mix_deal_fini(fby__mix_deal *deal)
{
    fby__free(deal->upto);
    fby__free(deal->quota);
    fby__free(deal->quota_before);
    fby__free(deal->moved);
    fby__free(deal->first_moved);
    fby__free(deal->first_source);
    fby__free(deal->length);
    fby__free(deal->total);
    *deal = (fby__mix_deal){0};
}

static uint64_t quotas_of(const fby__mix_deal *deal, uint32_t streams, uint32_t source)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < streams; s++)
        sum += deal->quota[(size_t)s * deal->n + source];
    return sum;
}

/* Slots are moved from sources that have too many to those that have too few, one a stream, until all have what they should. */
static fby_status settle_quotas(fby__mix_deal *deal, uint32_t streams, uint32_t *out_moved, fby_error *err)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < deal->n; i++) {
        const uint64_t has = quotas_of(deal, streams, i);
        n += has - fby__min_u64(has, deal->total[i]);
    }
    if (!(deal->moved = fby__calloc(n, sizeof *deal->moved)))
        return fby__fail_nomem(err, "the sources of a mixture");
    *out_moved = 0;
    for (uint32_t a = 0, b = 0, s = streams; a < deal->n;) {
        if (quotas_of(deal, streams, a) <= deal->total[a]) {
            a++;
            continue;
        }
        if (quotas_of(deal, streams, b) >= deal->total[b]) {
            b++; /* what is too many here is too few there: it does not run out */
            continue;
        }
        do
            s = (s ? s : streams) - 1;
        while (!deal->quota[(size_t)s * deal->n + a]);
        deal->quota[(size_t)s * deal->n + a]--;
        deal->quota[(size_t)s * deal->n + b]++;
        deal->moved[(*out_moved)++] = (fby__mix_moved){s, a, 0};
    }
    return FBY_OK;
}

static int by_stream(const void *pa, const void *pb)
{
    const fby__mix_moved *a = pa, *b = pb;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return a->source < b->source ? -1 : a->source > b->source;
}

/* Which slot is the one after `count` of a source, of a stream that has more: near the end, as a rule. */
static uint64_t slot_after(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint32_t source, uint64_t count)
{
    uint64_t before, lo = 0, hi = deal->length[stream], step = hi / (count + 1) + 1;
    for (; hi > step; step *= 2) {
        if (arc_slots(deal, streams, stream, source, hi - step, &before) <= count) {
            lo = hi - step;
            break;
        }
        hi -= step;
    }
    while (hi - lo > 1) { /* the first lo slots have no more than `count`, the first hi have */
        const uint64_t middle = lo + (hi - lo) / 2;
        if (arc_slots(deal, streams, stream, source, middle, &before) > count)
            hi = middle;
        else
            lo = middle;
    }
    return lo;
}

/* What makes a source's slots known alone. */
static void sum_quotas(fby__mix_deal *deal, uint32_t streams, uint32_t n_moved)
{
    if (n_moved > 1)
        qsort(deal->moved, n_moved, sizeof *deal->moved, by_stream);
    for (uint32_t k = 0, again = 0; k < n_moved; k++) {
        fby__mix_moved *m = &deal->moved[k];
        again = k > 0 && by_stream(m, m - 1) == 0 ? again + 1 : 0;
        m->slot = slot_after(deal, streams, m->stream, m->source, deal->quota[(size_t)m->stream * deal->n + m->source] + again);
        deal->first_moved[m->stream + 1] = k + 1;
    }
    for (uint32_t s = 0; s < streams; s++) {
        const uint64_t *quota = deal->quota + (size_t)s * deal->n;
        uint64_t before = 0;
        deal->first_moved[s + 1] = (uint32_t)fby__max_u64(deal->first_moved[s], deal->first_moved[s + 1]);
        for (uint32_t i = 0; i < deal->n; i++) {
            deal->quota_before[(size_t)s * deal->n + i] = before;
            if (!before && quota[i])
                deal->first_source[s] = i;
            before += quota[i];
        }
    }
}

fby_status fby__mix_deal_init(const fby__plan *plan, uint64_t epoch, fby__mix_deal *out, fby_error *err)
{
    const fby__mix *mix = plan->mix;
    const fby__mix_weights w = fby__mix_weights_of(mix, epoch);
    const uint32_t streams = plan->streams;
    uint64_t n = 0;
    *out = (fby__mix_deal){.n = mix->n, .start = fby__random_u64(plan->seed, epoch, FBY__PLAN_DOMAIN_MIX)};
    FBY__TRY(fby__mix_length(plan, epoch, &n, err));
    out->upto = fby__calloc(mix->n, sizeof *out->upto);
    out->quota = fby__calloc((size_t)streams * mix->n, sizeof *out->quota);
    out->quota_before = fby__calloc((size_t)streams * mix->n, sizeof *out->quota_before);
    out->first_moved = fby__calloc((size_t)streams + 1, sizeof *out->first_moved);
    out->first_source = fby__calloc(streams, sizeof *out->first_source);
    out->length = fby__calloc(streams, sizeof *out->length);
    out->total = fby__calloc(mix->n, sizeof *out->total);
    if (!out->upto || !out->quota || !out->quota_before || !out->first_moved || !out->first_source || !out->length || !out->total) {
        fby__mix_deal_fini(out);
        return fby__fail_nomem(err, "the sources of a mixture");
    }
    u128 before = 0;
    for (uint32_t i = 0; i < mix->n; i++) {
        before += w.each[i];
        out->upto[i] = before == w.sum ? CIRCLE : (before << 64) / w.sum;
    }
    if (plan->tail == FBY__TAIL_DROP)
        n -= n % plan->global_batch;
    fby__mix_apportion(w, mix->n, n, out->total);
    for (uint32_t s = 0; s < streams; s++) {
        out->length[s] = fby__plan_stream_begin(plan, n, s + 1) - fby__plan_stream_begin(plan, n, s);
        circle_slots(out, streams, s, out->length[s], out->quota + (size_t)s * mix->n);
    }
    uint32_t n_moved = 0;
    const fby_status status = settle_quotas(out, streams, &n_moved, err);
    if (status == FBY_OK)
        sum_quotas(out, streams, n_moved);
    else
        fby__mix_deal_fini(out);
    return status;
}
