/*
 * Mixtures: several sources in one epoch, in stated proportions.
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
#include "base/hash.h"
#include "base/random.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef unsigned __int128 u128;

#define STEP UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / golden ratio */
#define CIRCLE ((u128)1 << 64)
#define WEIGHT_BITS 52 /* of the largest weight: what a double holds */

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

/* Of the first n slots of a stream, those below `upto` on the circle: floor(y) - floor(y - upto) is 1 there and else 0. */
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
    for (uint32_t i = 0; left > 0; i++)
        if (quota[i]) {
            io_slots[i] += left;
            left = 0;
        }
}

void fby__mix_slots(const fby__mix_deal *deal, uint32_t streams, uint32_t stream, uint64_t n, uint64_t *out)
{
    const uint64_t *quota = deal->quota + (size_t)stream * deal->n, length = deal->length[stream];
    uint64_t beyond = 0; /* quotas: n and what a source has more than its own are both more of more slots, so no count becomes less */
    circle_slots(deal, streams, stream, fby__min_u64(n, length), out);
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
    if (n > length)
        fill_up(deal, streams, stream, n, out);
}

/* ---- how many of each ---- */

void fby__mix_apportion(fby__mix_weights w, uint32_t n_sources, uint64_t n, uint64_t *out)
{
    uint64_t sum = w.sum;
    for (uint32_t i = 0; i < n_sources; i++) {
        out[i] = sum ? fby__min_u64(n, (uint64_t)((2 * (u128)n * w.each[i] + sum) / (2 * (u128)sum))) : 0;
        n -= out[i];
        sum -= w.each[i];
    }
}

fby__mix_weights fby__mix_weights_of(const fby__mix *mix, uint64_t epoch)
{
    fby__mix_weights w = {.each = mix->weights + (size_t)fby__min_u64(epoch, mix->n_epochs - 1) * mix->n};
    for (uint32_t i = 0; i < mix->n; i++)
        w.sum += w.each[i];
    return w;
}

/* Has every source at least what it has (ALL), or none more than it has (FIRST), of n samples? */
static bool fits(const fby__mix *mix, fby__mix_weights w, uint64_t n, uint64_t *scratch)
{
    fby__mix_apportion(w, mix->n, n, scratch);
    for (uint32_t i = 0; i < mix->n; i++) {
        const uint64_t has = mix->source[i]->n;
        if (mix->stop == FBY__MIX_ALL ? scratch[i] < has : scratch[i] > has)
            return false;
    }
    return true;
}

/* The fewest samples with which all of every source came, or the most before a source would have none left. */
static fby_status length_of(const fby__mix *mix, uint64_t epoch, uint64_t *out, fby_error *err)
{
    const fby__mix_weights w = fby__mix_weights_of(mix, epoch);
    uint64_t *scratch, lo = 0, hi = mix->stop == FBY__MIX_ALL ? 0 : FBY__PLAN_MAX_SAMPLES;
    if (mix->stop == FBY__MIX_SAMPLES) {
        *out = mix->n_samples;
        return FBY_OK;
    }
    for (uint32_t i = 0; i < mix->n; i++) { /* bounds */
        if (!w.each[i] && mix->stop != FBY__MIX_ALL)
            continue;
        if (!w.each[i])
            return fby__fail(err, FBY_E_ARG,
                             "stop \"all\" waits for every sample of source '%s', whose weight is 0 in epoch %" PRIu64
                             ": give it a weight, or another stop",
                             mix->name[i], epoch);
        const u128 n = ((u128)mix->source[i]->n + mix->n + 1) * w.sum / w.each[i] + 1;
        if (n > FBY__PLAN_MAX_SAMPLES && mix->stop == FBY__MIX_ALL)
            return fby__fail(err, FBY_E_ARG,
                             "all of source '%s' has come after more than 2^62 samples: its weight is too small for its size",
                             mix->name[i]);
        hi = mix->stop == FBY__MIX_ALL ? fby__max_u64(hi, (uint64_t)n) : (uint64_t)(n < hi ? n : hi);
    }
    if (!(scratch = fby__calloc(mix->n, sizeof *scratch)))
        return fby__fail_nomem(err, "the sources of a mixture");
    while (hi - lo > 1) { /* ALL: lo is too few, hi enough; FIRST: lo fits, hi does not */
        const uint64_t middle = lo + (hi - lo) / 2;
        if (fits(mix, w, middle, scratch) == (mix->stop == FBY__MIX_ALL))
            hi = middle;
        else
            lo = middle;
    }
    fby__free(scratch);
    *out = mix->stop == FBY__MIX_ALL ? hi : lo;
    return FBY_OK;
}

fby_status fby__mix_length(const fby__plan *plan, uint64_t epoch, uint64_t *out, fby_error *err)
{
    const fby__mix *mix = plan->mix;
    uint64_t n = 0;
    FBY__TRY(length_of(mix, epoch, &n, err));
    if (n == 0 || (plan->tail == FBY__TAIL_DROP && n < plan->global_batch))
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu64 " samples of the mixture in epoch %" PRIu64 " do not fill one batch of %" PRIu64
                         " over all ranks: no batch is left; choose a smaller batch, another tail or another stop",
                         n, epoch, plan->global_batch);
    if (plan->tail == FBY__TAIL_WRAP && n < plan->streams)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu64 " samples of the mixture in epoch %" PRIu64 " leave some of %" PRIu32
                         " streams empty, with nothing to wrap: choose at most %" PRIu64 " streams",
                         n, epoch, plan->streams, n);
    *out = n;
    return FBY_OK;
}

/* ---- who has which slot ---- */

void fby__mix_deal_fini(fby__mix_deal *deal)
{
    fby__free(deal->upto);
    fby__free(deal->quota);
    fby__free(deal->length);
    fby__free(deal->total);
    *deal = (fby__mix_deal){0};
}

/* Slots are moved from sources that have too many to those that have too few, one a stream, until all have what they should. */
static void settle_quotas(fby__mix_deal *deal, uint32_t streams)
{
    for (uint32_t a = 0, b = 0, s = streams; a < deal->n;) {
        uint64_t more = 0, fewer = 0; /* than they should have */
        for (uint32_t k = 0; k < streams; k++) {
            more += deal->quota[(size_t)k * deal->n + a];
            fewer += deal->quota[(size_t)k * deal->n + b];
        }
        if (more <= deal->total[a]) {
            a++;
            continue;
        }
        if (fewer >= deal->total[b]) {
            b++; /* what is too many here is too few there: it does not run out */
            continue;
        }
        do
            s = (s ? s : streams) - 1;
        while (!deal->quota[(size_t)s * deal->n + a]);
        deal->quota[(size_t)s * deal->n + a]--;
        deal->quota[(size_t)s * deal->n + b]++;
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
    out->length = fby__calloc(streams, sizeof *out->length);
    out->total = fby__calloc(mix->n, sizeof *out->total);
    if (!out->upto || !out->quota || !out->length || !out->total) {
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
    settle_quotas(out, streams);
    return FBY_OK;
}

fby_status fby__plan_mix_counts(const fby__plan *plan, uint64_t epoch, uint32_t source, fby__mix_counts *out, fby_error *err)
{
    if (!plan->mix) {
        fby__epoch_counts counts;
        FBY__TRY(fby__plan_count(plan, epoch, &counts, err));
        *out = (fby__mix_counts){.n_samples = counts.n_available - counts.n_dropped, .n_left = counts.n_dropped, .n_passes = 1};
        return FBY_OK;
    }
    const fby__mix *mix = plan->mix;
    uint64_t n, *each, has = mix->source[source]->n;
    FBY__TRY(fby__mix_length(plan, epoch, &n, err));
    if (!(each = fby__calloc(mix->n, sizeof *each)))
        return fby__fail_nomem(err, "the sources of a mixture");
    if (plan->tail == FBY__TAIL_DROP)
        n -= n % plan->global_batch;
    fby__mix_apportion(fby__mix_weights_of(mix, epoch), mix->n, n, each);
    *out = (fby__mix_counts){
        .n_samples = each[source], .n_left = has - fby__min_u64(has, each[source]), .n_passes = fby__div_up_u64(each[source], has)};
    fby__free(each);
    return FBY_OK;
}

/* ---- the plan ---- */

void fby__mix_destroy(fby__mix *mix)
{
    if (!mix)
        return;
    for (uint32_t i = 0; i < mix->n; i++) {
        fby__plan_destroy(mix->source ? mix->source[i] : NULL);
        fby__free(mix->name ? mix->name[i] : NULL);
    }
    fby__free(mix->source);
    fby__free(mix->name);
    fby__free(mix->first_block);
    fby__free(mix->weights);
    fby__free(mix->passes);
    fby__free(mix);
}

static fby_status check_mix_opts(const fby__mix_opts *m, const fby__plan_opts *o, fby_error *err)
{
    const char *what =
        o->part_files || o->part_keys || o->n_parts ? "parts of an epoch: a source's files would come in some epochs alone"
        : o->batch_elements                         ? "batches by rows: how many samples of a source a batch has then follows "
                                                      "from their lengths, and no proportion would hold"
        : o->bucket_samples                         ? "length buckets: batches of samples of one length would be of the source "
                                                      "that has most of those, and no proportion would hold"
        : o->diversity_files || o->max_superbatch_batches
            ? "distinct files in a batch and batches from a superbatch: blocks are cut into slices for one data set at a time"
        : o->draws.n ? "samples that are drawn anew in every epoch: weights say how often a source comes. Draw once "
                       "(without each_epoch)"
                     : NULL;
    if (what)
        return fby__fail(err, FBY_E_UNSUPPORTED, "a mixture has no %s", what);
    if (m->n_sources == 0 || m->n_sources > 1024)
        return fby__fail(err, FBY_E_ARG, "a mixture of %" PRIu32 " sources: choose from 1 to 1024", m->n_sources);
    if ((unsigned)m->stop > FBY__MIX_SAMPLES || (m->stop == FBY__MIX_SAMPLES) != (m->n_samples != 0) ||
        m->n_samples > FBY__PLAN_MAX_SAMPLES)
        return fby__fail(err, FBY_E_ARG, "the end of a mixture's epoch: \"first\", \"all\", or from 1 to 2^62 samples");
    for (uint32_t e = 0; m->weights && e < m->n_epochs; e++) {
        double sum = 0;
        for (uint32_t i = 0; i < m->n_sources; i++) {
            const double w = m->weights[(size_t)e * m->n_sources + i];
            if (!(w >= 0) || !isfinite(w))
                return fby__fail(err, FBY_E_ARG, "the weight of source '%s' is %g: it must be a number that is not negative",
                                 m->sources[i].name, w);
            sum += w;
        }
        if (!(sum > 0))
            return fby__fail(err, FBY_E_ARG, "all weights of epoch %" PRIu32 " are 0: at least one source must have a part", e);
    }
    return m->weights && !m->n_epochs ? fby__fail(err, FBY_E_ARG, "the weights of a mixture are a list of no epochs") : FBY_OK;
}

/* Weights become integers, exactly where they are integers or binary fractions of not too different sizes. */
static fby_status take_weights(fby__mix *mix, const fby__mix_opts *m, fby_error *err)
{
    mix->n_epochs = m->weights ? m->n_epochs : 1;
    if (!(mix->weights = fby__calloc((size_t)mix->n_epochs * mix->n, sizeof *mix->weights)))
        return fby__fail_nomem(err, "the weights of a mixture");
    for (uint32_t e = 0; e < mix->n_epochs; e++) {
        uint64_t *row = mix->weights + (size_t)e * mix->n;
        double most = 0;
        int exponent = 0;
        for (uint32_t i = 0; m->weights && i < mix->n; i++)
            most = fmax(most, m->weights[(size_t)e * mix->n + i]);
        (void)frexp(most, &exponent);
        for (uint32_t i = 0; i < mix->n; i++) {
            const double w = m->weights ? m->weights[(size_t)e * mix->n + i] : 0;
            row[i] = m->weights ? (uint64_t)ldexp(w, WEIGHT_BITS - exponent) : mix->source[i]->n;
            if (w > 0 && row[i] == 0)
                return fby__fail(err, FBY_E_ARG, "the weight of source '%s' is too small beside the largest one: 0 leaves a source out",
                                 mix->name[i]);
        }
    }
    return FBY_OK;
}

/* The share of a source's weights, of all epochs: of the superbatch, it has as much. */
static double share_of(const fby__mix *mix, const uint64_t *sizes, const fby__mix_opts *m, uint32_t source)
{
    double sum = 0, own = 0;
    for (uint32_t i = 0; i < mix->n; i++) {
        double most = m->weights ? 0 : (double)sizes[i];
        for (uint32_t e = 0; m->weights && e < m->n_epochs; e++) {
            double row = 0;
            for (uint32_t k = 0; k < mix->n; k++)
                row += m->weights[(size_t)e * mix->n + k];
            most = fmax(most, m->weights[(size_t)e * mix->n + i] / row);
        }
        sum += most;
        own = i == source ? most : own;
    }
    return own / sum;
}

static uint64_t size_of(const fby__mix_source *source)
{
    uint64_t n = 0;
    for (uint32_t b = 0; b < source->n_blocks; b++)
        n += source->counts[b];
    return n;
}

static fby_status create_sources(fby__plan *plan, const fby__mix_opts *m, const fby__plan_opts *opts, fby_error *err)
{
    fby__mix *mix = plan->mix;
    fby_status status = FBY_OK;
    uint64_t *sizes = fby__calloc(mix->n, sizeof *sizes);
    if (!sizes)
        return fby__fail_nomem(err, "the sources of a mixture");
    for (uint32_t i = 0; i < mix->n; i++)
        sizes[i] = size_of(&m->sources[i]);
    for (uint32_t i = 0; i < mix->n && status == FBY_OK; i++) {
        fby__plan_opts o = *opts;
        const double own = ceil((double)opts->superbatch_samples * share_of(mix, sizes, m, i));
        o.superbatch_samples =
            fby__max_u64(1, fby__min_u64(opts->superbatch_samples, own < 0x1p62 ? (uint64_t)own : FBY__PLAN_MAX_SAMPLES));
        o.seed = fby__random_u64(opts->seed, i, FBY__PLAN_DOMAIN_SOURCES);
        o.tail = FBY__TAIL_KEEP;
        o.files = m->sources[i].files;
        mix->name[i] = fby__strdup(m->sources[i].name ? m->sources[i].name : "");
        if (!mix->name[i])
            status = fby__fail_nomem(err, "the sources of a mixture");
        else if ((status = fby__plan_create(m->sources[i].counts, m->sources[i].n_blocks, &o, &mix->source[i], err)) != FBY_OK)
            fby__error_context(err, "source '%s'", mix->name[i]);
        if (!fby__add_u64_checked(plan->n, sizes[i], &plan->n) || plan->n > FBY__PLAN_MAX_SAMPLES)
            status = fby__fail(err, FBY_E_ARG, "more than 2^62 samples in the sources of a mixture");
    }
    fby__free(sizes);
    return status;
}

/* Blocks of all sources behind each other, and their files. */
static fby_status join_blocks(fby__plan *plan, const fby__mix_opts *m, fby_error *err)
{
    fby__mix *mix = plan->mix;
    uint64_t n_blocks = 0;
    bool has_files = true;
    for (uint32_t i = 0; i < mix->n; i++) {
        n_blocks += m->sources[i].n_blocks;
        has_files &= m->sources[i].files != NULL;
        if (n_blocks > UINT32_MAX / 2)
            return fby__fail(err, FBY_E_ARG, "the sources of a mixture have more than 2^31 blocks");
        mix->first_block[i + 1] = (uint32_t)n_blocks;
    }
    plan->n_blocks = (uint32_t)n_blocks;
    plan->counts = fby__calloc(n_blocks, sizeof *plan->counts);
    uint32_t *files = fby__calloc(n_blocks, sizeof *files), n_files = 0;
    for (uint32_t i = 0; plan->counts && files && i < mix->n; i++) {
        const fby__mix_source *source = &m->sources[i];
        const uint32_t first = mix->first_block[i];
        for (uint32_t b = 0; b < source->n_blocks; b++) {
            plan->counts[first + b] = source->counts[b];
            files[first + b] = n_files + (has_files ? source->files[b] : 0);
        }
        n_files = source->n_blocks ? files[first + source->n_blocks - 1] + 1 : n_files;
        plan->n_nonzero += mix->source[i]->n_nonzero;
        plan->n_slices += mix->source[i]->n_slices;
        plan->largest = fby__max_u64(plan->largest, mix->source[i]->largest);
        plan->phase.limit = fby__max_u64(plan->phase.limit, mix->source[i]->phase.limit);
    }
    const bool ok = plan->counts && files;
    const fby_status status = !ok         ? fby__fail_nomem(err, "the blocks of a mixture")
                              : has_files ? fby__plan_list_files(plan, files, err)
                                          : FBY_OK;
    fby__free(files);
    return status;
}

/* What epochs have at most, and that each of those whose weights differ has something. */
static fby_status bound_epochs(fby__plan *plan, fby_error *err)
{
    fby__mix *mix = plan->mix;
    plan->part_most = 0;
    plan->part_least = UINT64_MAX;
    for (uint32_t e = 0; e < mix->n_epochs; e++) {
        uint64_t n;
        FBY__TRY(fby__mix_length(plan, e, &n, err));
        plan->part_most = fby__max_u64(plan->part_most, n);
        plan->part_least = fby__min_u64(plan->part_least, n);
        for (uint32_t i = 0; i < mix->n; i++) {
            fby__mix_counts c;
            FBY__TRY(fby__plan_mix_counts(plan, e, i, &c, err));
            mix->passes[i] = fby__max_u64(mix->passes[i], c.n_passes);
            if (c.n_passes > FBY__MIX_PASSES)
                return fby__fail(err, FBY_E_ARG,
                                 "source '%s' would come %" PRIu64 " times in epoch %" PRIu32
                                 ": it is too small for its weight. Choose a smaller weight, another stop, or fewer samples",
                                 mix->name[i], c.n_passes, e);
        }
    }
    return FBY_OK;
}

static uint64_t hash_of(const fby__mix *mix)
{
    const uint64_t head[] = {mix->n, mix->n_epochs, (uint64_t)mix->stop, mix->n_samples};
    const fby__hash128 h =
        fby__hash_more(fby__hash(head, sizeof head), mix->weights, (size_t)mix->n_epochs * mix->n * sizeof *mix->weights);
    return h.lo ? h.lo : 1;
}

static fby_status build_mix(fby__plan *plan, const fby__mix_opts *m, const fby__plan_opts *o, fby_error *err)
{
    fby__mix *mix = plan->mix = fby__calloc(1, sizeof *mix);
    if (!mix)
        return fby__fail_nomem(err, "a mixture");
    mix->n = m->n_sources;
    mix->stop = m->stop;
    mix->n_samples = m->n_samples;
    mix->source = fby__calloc(mix->n, sizeof *mix->source);
    mix->name = fby__calloc(mix->n, sizeof *mix->name);
    mix->first_block = fby__calloc((size_t)mix->n + 1, sizeof *mix->first_block);
    mix->passes = fby__calloc(mix->n, sizeof *mix->passes);
    if (!mix->source || !mix->name || !mix->first_block || !mix->passes)
        return fby__fail_nomem(err, "a mixture");
    plan->seed = o->seed;
    plan->tail = o->tail;
    plan->shuffle = o->shuffle;
    plan->phase.no_warmup = o->no_warmup;
    plan->n_parts = 1;
    plan->lengths = o->lengths;
    plan->lengths_user = o->lengths_user;
    fby__plan_share_streams(plan, o);
    FBY__TRY(create_sources(plan, m, o, err));
    FBY__TRY(join_blocks(plan, m, err));
    FBY__TRY(take_weights(mix, m, err));
    bool full = true; /* as all sources are */
    for (uint32_t i = 0; i < mix->n; i++)
        full &= mix->source[i]->shuffle == FBY__SHUFFLE_FULL;
    plan->shuffle = full ? FBY__SHUFFLE_FULL : o->shuffle;
    mix->hash = hash_of(mix);
    return bound_epochs(plan, err);
}

fby_status fby__plan_create_mix(const fby__mix_opts *mix, const fby__plan_opts *opts, fby__plan **out, fby_error *err)
{
    FBY__TRY(fby__plan_check_opts(opts, err));
    FBY__TRY(check_mix_opts(mix, opts, err));
    fby__plan *plan = fby__calloc(1, sizeof *plan);
    if (!plan)
        return fby__fail_nomem(err, "plan of an epoch");
    const fby_status status = build_mix(plan, mix, opts, err);
    if (status == FBY_OK)
        *out = plan;
    else
        fby__plan_destroy(plan);
    return status;
}

uint32_t fby__plan_sources(const fby__plan *plan) { return plan->mix ? plan->mix->n : 1; }

const fby__plan *fby__plan_source(const fby__plan *plan, uint32_t source) { return plan->mix ? plan->mix->source[source] : plan; }

uint32_t fby__plan_source_first(const fby__plan *plan, uint32_t source)
{
    return plan->mix ? plan->mix->first_block[source] : source ? plan->n_blocks : 0;
}

uint64_t fby__plan_mix_hash(const fby__plan *plan) { return plan->mix ? plan->mix->hash : 0; }

uint64_t fby__mix_reads_of(const fby__plan *plan, uint32_t block)
{
    uint32_t i = 0;
    while (plan->mix->first_block[i + 1] <= block)
        i++;
    return plan->mix->passes[i];
}

/* Of each pass a source's blocks, cut at other places. */
uint64_t fby__mix_item_limit(const fby__plan *plan)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < plan->mix->n; i++)
        n += plan->mix->passes[i] * fby__plan_item_limit(plan->mix->source[i]);
    return n;
}
