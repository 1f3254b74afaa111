/*
 * Mixtures: several sources in one epoch, in stated proportions: how many samples an epoch has, and how many of each source. Which slots those
 * have is mix_deal.c, which samples come there mix_epoch.c.
 */
#include "plan/mix_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/hash.h"
#include "base/random.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef unsigned __int128 u128;

#define WEIGHT_BITS 52 /* of the largest weight: what a double holds */

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

/* Samples of an epoch, and how many of them each source has. */
static fby_status totals_of(const fby__plan *plan, uint64_t epoch, uint64_t *out_n, uint64_t *out_each, fby_error *err)
{
    FBY__TRY(fby__mix_length(plan, epoch, out_n, err));
    const uint64_t dropped = plan->tail == FBY__TAIL_DROP ? *out_n % plan->global_batch : 0;
    fby__mix_apportion(fby__mix_weights_of(plan->mix, epoch), plan->mix->n, *out_n - dropped, out_each);
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
    const uint64_t has = plan->mix->source[source]->n;
    uint64_t n, *each = fby__calloc(plan->mix->n, sizeof *each);
    const fby_status status = each ? totals_of(plan, epoch, &n, each, err) : fby__fail_nomem(err, "the sources of a mixture");
    if (status == FBY_OK)
        *out = (fby__mix_counts){
            .n_samples = each[source], .n_left = has - fby__min_u64(has, each[source]), .n_passes = fby__div_up_u64(each[source], has)};
    fby__free(each);
    return status;
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
    if (m->n_sources == 0 || m->n_sources > FBY__MIX_SOURCES)
        return fby__fail(err, FBY_E_ARG, "a mixture of %" PRIu32 " sources: choose from 1 to %u", m->n_sources, FBY__MIX_SOURCES);
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
        if (isinf(sum))
            return fby__fail(err, FBY_E_ARG, "the weights of epoch %" PRIu32 " have no finite sum: divide all of them by one number", e);
        if (!(sum > 0))
            return fby__fail(err, FBY_E_ARG, "all weights of epoch %" PRIu32 " are 0: at least one weight must be above 0", e);
    }
    return m->weights && !m->n_epochs ? fby__fail(err, FBY_E_ARG, "the weights of a mixture are a list of no epochs") : FBY_OK;
}

/* Weights become integers, exactly where they are integers or binary fractions of not too different sizes. */
static fby_status set_weights(fby__mix *mix, const fby__mix_opts *m, fby_error *err)
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

/* The share of each source's weights, of all epochs: of the superbatch, it has as much. */
static void shares_of(const fby__mix *mix, const uint64_t *sizes, const fby__mix_opts *m, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < mix->n; i++)
        out[i] = m->weights ? 0 : (double)sizes[i];
    for (uint32_t e = 0; m->weights && e < m->n_epochs; e++) {
        const double *weights = m->weights + (size_t)e * mix->n;
        double row = 0;
        for (uint32_t i = 0; i < mix->n; i++)
            row += weights[i];
        for (uint32_t i = 0; i < mix->n; i++)
            out[i] = fmax(out[i], weights[i] / row);
    }
    for (uint32_t i = 0; i < mix->n; i++)
        sum += out[i];
    for (uint32_t i = 0; i < mix->n; i++)
        out[i] /= sum;
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
    double *shares = fby__calloc(mix->n, sizeof *shares);
    if (!sizes || !shares)
        status = fby__fail_nomem(err, "the sources of a mixture");
    for (uint32_t i = 0; i < mix->n && status == FBY_OK; i++)
        sizes[i] = size_of(&m->sources[i]);
    if (status == FBY_OK)
        shares_of(mix, sizes, m, shares);
    for (uint32_t i = 0; i < mix->n && status == FBY_OK; i++) {
        fby__plan_opts o = *opts;
        const double own = ceil((double)opts->superbatch_samples * shares[i]);
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
    fby__free(shares);
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
    fby_status status = FBY_OK;
    uint64_t *each = fby__calloc(mix->n, sizeof *each);
    if (!each)
        return fby__fail_nomem(err, "the sources of a mixture");
    plan->part_most = 0;
    plan->part_least = UINT64_MAX;
    for (uint32_t e = 0; e < mix->n_epochs && status == FBY_OK; e++) {
        uint64_t n = 0;
        status = totals_of(plan, e, &n, each, err);
        plan->part_most = fby__max_u64(plan->part_most, n);
        plan->part_least = fby__min_u64(plan->part_least, n);
        for (uint32_t i = 0; i < mix->n && status == FBY_OK; i++) {
            const uint64_t n_passes = fby__div_up_u64(each[i], mix->source[i]->n);
            mix->passes[i] = fby__max_u64(mix->passes[i], n_passes);
            if (n_passes > FBY__MIX_PASSES)
                status = fby__fail(err, FBY_E_ARG,
                                   "source '%s' would come %" PRIu64 " times in epoch %" PRIu32
                                   ": it is too small for its weight. Choose a smaller weight, another stop, or fewer samples",
                                   mix->name[i], n_passes, e);
        }
    }
    fby__free(each);
    return status;
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
    plan->lengths.of = o->lengths;
    plan->lengths.user = o->lengths_user;
    fby__plan_share_streams(plan, o);
    FBY__TRY(create_sources(plan, m, o, err));
    FBY__TRY(join_blocks(plan, m, err));
    FBY__TRY(set_weights(mix, m, err));
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
    uint32_t lo = 0, hi = plan->mix->n;
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        *(plan->mix->first_block[middle] <= block ? &lo : &hi) = middle;
    }
    return plan->mix->passes[lo];
}

/* A pass through a source: its order, and all its phases once more, with what names them and lists their batches. */
static uint64_t pass_bytes(const fby__plan *plan, uint32_t i)
{
    const fby__plan *source = plan->mix->source[i];
    return sizeof(fby__mix_pass) + plan->n_streams * (2 * sizeof(uint64_t)) + fby__plan_epoch_bytes(source) +
           fby__plan_most_phases(source) * (sizeof(fby__plan_phase) + sizeof(fby__mix_reach *) + 3 * sizeof(uint32_t));
}

uint64_t fby__plan_anew_bytes(const fby__plan *plan)
{
    uint64_t total = 0;
    for (uint32_t i = 0; plan->mix && i < plan->mix->n; i++) {
        const uint64_t anew = plan->mix->passes[i] ? plan->mix->passes[i] - 1 : 0;
        total = fby__min_u64(total + anew * pass_bytes(plan, i), UINT64_MAX / 8); /* bytes * passes are below 2^31 * 2^9 * 2^16 */
    }
    return total;
}

uint64_t fby__mix_epoch_bytes(const fby__plan *plan)
{
    const uint64_t n = plan->mix->n, slots = plan->streams * n;
    uint64_t bytes = FBY__PLAN_EPOCH_BYTES + sizeof(fby__mix_epoch) +
                     slots * (2 * sizeof(uint64_t) + sizeof(fby__mix_moved)) + /* the deal */
                     plan->streams * (sizeof(uint64_t) + 2 * sizeof(uint32_t)) + n * (sizeof(unsigned __int128) + sizeof(uint64_t)) +
                     plan->n_streams * (sizeof(uint64_t) + sizeof(fby__mix_walk) + n * sizeof(uint64_t)); /* walks */
    for (uint32_t i = 0; i < n; i++)
        bytes += sizeof(uint32_t) + pass_bytes(plan, i);
    return bytes;
}

/* Each pass has its source's blocks, cut elsewhere. */
uint64_t fby__mix_item_limit(const fby__plan *plan)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < plan->mix->n; i++)
        n += plan->mix->passes[i] * fby__plan_item_limit(plan->mix->source[i]);
    return n;
}
