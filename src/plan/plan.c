/*
 * Options and counts: checks that they fit each other, and what follows from them for every epoch (streams, parts, batches,
 * the size of a phase). The order itself is built by epoch.c.
 */
#include "plan/mix_internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/sort.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define POOL_LIMIT ((uint64_t)1 << 24) /* samples sorted together: 640 MiB of scratch */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

fby_status fby__plan_check_opts(const fby__plan_opts *o, fby_error *err)
{
    if ((unsigned)o->shuffle > FBY__SHUFFLE_NONE || (unsigned)o->tail > FBY__TAIL_WRAP)
        return fby__fail(err, FBY_E_ARG, "unknown shuffle (%d) or tail (%d)", (int)o->shuffle, (int)o->tail);
    if (o->global_batch == 0 || o->global_batch > FBY__PLAN_MAX_BATCH)
        return fby__fail(err, FBY_E_ARG, "the batch over all ranks has %" PRIu64 " samples: choose from 1 to 2^31", o->global_batch);
    if (o->superbatch_samples == 0)
        return fby__fail(err, FBY_E_ARG, "the superbatch has no samples: choose at least 1");
    if (o->streams == 0 || o->streams > FBY__PLAN_MAX_STREAMS)
        return fby__fail(err, FBY_E_ARG, "%u streams: choose from 1 to %u", o->streams, FBY__PLAN_MAX_STREAMS);
    if (o->world_size == 0 || o->rank >= o->world_size)
        return fby__fail(err, FBY_E_ARG, "rank %u of %u: ranks count from 0 and lie below the world size", o->rank, o->world_size);
    if (o->global_batch % o->world_size != 0)
        return fby__fail(err, FBY_E_ARG, "%u ranks cannot share a batch of %" PRIu64 " samples equally", o->world_size, o->global_batch);
    if ((o->batch_elements || o->bucket_samples) && !o->lengths)
        return fby__fail(err, FBY_E_ARG, "batches by rows and length buckets need samples whose rows are known");
    if (o->bucket_samples && o->shuffle != FBY__SHUFFLE_SUPERBATCH && o->shuffle != FBY__SHUFFLE_FULL)
        return fby__fail(err, FBY_E_ARG, "length buckets change the order: choose shuffle 'superbatch' or 'full', or no buckets");
    if ((o->batch_elements || o->bucket_samples) && o->diversity_files)
        return fby__fail(
            err, FBY_E_ARG,
            "distinct files in a batch cannot be chosen together with batches by rows or length buckets: which samples share a "
            "batch, and how many, then follows from their lengths, so that no number of files could be promised. Take batches of one "
            "size without buckets, or a larger superbatch");
    if (o->batch_elements && o->max_superbatch_batches)
        return fby__fail(
            err, FBY_E_ARG,
            "batches from a superbatch cannot be chosen together with batches by rows: how many a superbatch gives then follows from the "
            "lengths of its samples. Take batches of one size, or a smaller superbatch");
    if (o->draws.n && (o->part_files || o->part_keys || o->n_parts))
        return fby__fail(
            err, FBY_E_ARG,
            "parts of an epoch cannot be chosen for samples that are drawn anew in every epoch: a file's samples would not all come once "
            "a sweep. Draw fewer (n), or draw once (without each_epoch)");
    if (o->draws.n && (o->diversity_files || o->max_superbatch_batches))
        return fby__fail(
            err, FBY_E_ARG,
            "distinct files in a batch and batches from a superbatch cannot be chosen for samples that are drawn anew in every epoch: "
            "what a slice of a block then has to read is not known before. Draw once (without each_epoch)");
    if (o->batch_elements || o->bucket_samples)
        return FBY_OK; /* streams are ranks */
    uint64_t streams = gcd(o->streams, o->global_batch);
    if (o->shuffle != FBY__SHUFFLE_NONE && streams % o->world_size != 0)
        return fby__fail(err, FBY_E_ARG,
                         "%u ranks cannot own equal parts of %" PRIu64 " streams (%u wanted, batch of %" PRIu64
                         " over all ranks): let the ranks divide the streams, and the streams the batch",
                         o->world_size, streams, o->streams, o->global_batch);
    return FBY_OK;
}

fby_status fby__plan_fail(const char *what, fby_error *err)
{
    FBY__TRY(fby__cancel_check(err));
    return fby__fail_nomem(err, what);
}

static fby_status count_samples(fby__plan *plan, fby_error *err)
{
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        uint64_t count = plan->counts[b];
        if (!fby__add_u64_checked(plan->n, count, &plan->n) || plan->n > FBY__PLAN_MAX_SAMPLES)
            return fby__fail(err, FBY_E_ARG, "more than 2^62 samples, counted up to block %" PRIu32, b);
        plan->n_nonzero += count != 0;
        plan->largest = fby__max_u64(plan->largest, count);
    }
    if (plan->n == 0)
        return fby__fail(err, FBY_E_ARG, "there are no samples to order: %" PRIu32 " blocks, all empty", plan->n_blocks);
    if (plan->draws.n > plan->n)
        return fby__fail(err, FBY_E_ARG, "blocks cannot have %" PRIu64 " draws: %" PRIu64 " at most", plan->draws.n, plan->n);
    plan->n = plan->draws.n ? plan->draws.n : plan->n;
    return FBY_OK;
}

/* ---- parts ---- */

void fby__plan_part_range(const fby__plan *plan, uint64_t epoch, uint32_t *first, uint32_t *end)
{
    const uint64_t part = epoch % plan->n_parts, each = plan->part_units, units = plan->n_units;
    *first = (uint32_t)(each ? part * each : part * units / plan->n_parts);
    *end = (uint32_t)(each ? fby__min_u64((part + 1) * each, units) : (part + 1) * units / plan->n_parts);
}

const fby__plan_unit *fby__plan_part_unit(const fby__plan *plan, uint64_t epoch, uint32_t position)
{
    if (plan->shuffle == FBY__SHUFFLE_NONE)
        return &plan->units[position];
    const uint64_t key = fby__random_u64(plan->seed, epoch / plan->n_parts, FBY__PLAN_DOMAIN_PARTS);
    return &plan->units[fby__permute(key, plan->n_units, position)];
}

/* Samples of an epoch's part. */
static uint64_t part_samples(const fby__plan *plan, uint64_t epoch)
{
    if (!plan->has_parts)
        return plan->n;
    uint64_t n = 0;
    uint32_t first, end;
    fby__plan_part_range(plan, epoch, &first, &end);
    for (uint32_t position = first; position < end; position++)
        n += fby__plan_part_unit(plan, epoch, position)->samples;
    return n;
}

/* The files that have samples. */
fby_status fby__plan_list_files(fby__plan *plan, const uint32_t *files, fby_error *err)
{
    for (int fill = 0; fill < 2; fill++) {
        uint32_t n = 0;
        for (uint32_t b = 0; b < plan->n_blocks;) {
            fby__plan_unit file = {.first = b};
            for (; b < plan->n_blocks && files[b] == files[file.first]; b++) {
                file.samples += plan->counts[b];
                if (fill)
                    plan->file_of[b] = n;
            }
            file.end = b;
            if (!file.samples)
                continue;
            if (fill)
                plan->files[n] = file;
            n++;
        }
        plan->n_files = n;
        if (fill)
            break;
        plan->files = fby__calloc(n, sizeof *plan->files);
        plan->file_of = fby__calloc(plan->n_blocks, sizeof *plan->file_of);
        if (!plan->files || !plan->file_of)
            return fby__fail_nomem(err, "the files of a plan");
    }
    return FBY_OK;
}

/* The spans of each key side by side, in their order. */
static fby_status list_keys(fby__plan *plan, const fby__plan_opts *o, fby_error *err)
{
    plan->keys = fby__calloc(o->n_keys, sizeof *plan->keys);
    plan->spans = fby__calloc(o->n_spans, sizeof *plan->spans);
    plan->by_key.of_block = fby__calloc(plan->n_blocks, sizeof *plan->by_key.of_block);
    if (!plan->keys || !plan->spans || !plan->by_key.of_block)
        return fby__fail_nomem(err, "the keys of a plan");
    plan->by_key.n_spans = o->n_spans;
    for (uint32_t i = 0; i < o->n_spans; i++) {
        plan->keys[o->spans[i].key].samples += o->spans[i].hi - o->spans[i].lo;
        plan->keys[o->spans[i].key].end++;
        plan->by_key.of_block[o->spans[i].block]++;
    }
    for (uint32_t k = 0, at = 0; k < o->n_keys; k++) {
        plan->keys[k].first = at;
        at += plan->keys[k].end;
        plan->keys[k].end = plan->keys[k].first;
    }
    fby__hash128 h = {0};
    for (uint32_t i = 0; i < o->n_spans; i++) {
        if (fby__cancelled_at(i))
            return fby__plan_fail("the keys of a plan", err);
        const fby__plan_span *span = &o->spans[i];
        const uint64_t numbers[] = {span->block, span->key, span->lo, span->hi};
        plan->spans[plan->keys[span->key].end++] = *span;
        h = fby__hash_more(h, numbers, sizeof numbers);
    }
    plan->by_key.hash = h.lo ? h.lo : 1;
    return FBY_OK;
}

/* What the largest and the smallest part of any sweep could have: the files or keys with the most, those with the fewest. */
static fby_status bound_parts(fby__plan *plan, fby_error *err)
{
    uint64_t *samples = fby__calloc(plan->n_units, sizeof *samples);
    if (!samples)
        return fby__fail_nomem(err, "the parts of a plan");
    for (uint32_t f = 0; f < plan->n_units; f++)
        samples[f] = plan->units[f].samples;
    const fby_status sorted = fby__sort(samples, plan->n_units, sizeof *samples, fby__compare_u64, err);
    if (sorted != FBY_OK) {
        fby__free(samples);
        return sorted;
    }
    uint32_t most = 0, least = UINT32_MAX, first, end;
    for (uint32_t part = 0; part < plan->n_parts; part++) {
        fby__plan_part_range(plan, part, &first, &end);
        most = end - first > most ? end - first : most;
        least = end - first < least ? end - first : least;
    }
    plan->part_most = plan->part_least = 0;
    for (uint32_t f = 0; f < most; f++)
        plan->part_most += samples[plan->n_units - 1 - f];
    for (uint32_t f = 0; f < least; f++)
        plan->part_least += samples[f];
    uint64_t *items = samples; /* the array again, for the items of a unit: spans of a key, blocks of a file */
    for (uint32_t k = 0; k < plan->n_units; k++)
        items[k] = plan->units[k].end - plan->units[k].first;
    const fby_status status = fby__sort(items, plan->n_units, sizeof *items, fby__compare_u64, err);
    for (uint32_t k = 0; k < most; k++)
        plan->items.part += items[plan->n_units - 1 - k];
    fby__free(samples);
    return status;
}

static fby_status deal_parts(fby__plan *plan, const fby__plan_opts *o, fby_error *err)
{
    plan->n_parts = 1;
    plan->part_most = plan->part_least = plan->n;
    if (o->files)
        FBY__TRY(fby__plan_list_files(plan, o->files, err));
    uint32_t each = o->spans ? o->part_keys : o->part_files;
    const char *what = o->spans ? "keys" : "files";
    if (!each && !o->n_parts)
        return FBY_OK;
    if (each && o->n_parts)
        return fby__fail(err, FBY_E_ARG, "give the parts of an epoch by %s a part or by their number, not both", what);
    if (!o->spans && !o->files)
        return fby__fail(err, FBY_E_ARG, "parts of an epoch are made of files, and this data set has none");
    if (o->spans && (o->diversity_files || o->max_superbatch_batches))
        return fby__fail(err, FBY_E_ARG,
                         "distinct files in a batch and batches from a superbatch cannot be chosen together with parts by key: they cut "
                         "blocks into slices, and a part has runs of them. By default a batch draws on all of its part");
    if (o->spans)
        FBY__TRY(list_keys(plan, o, err));
    plan->has_parts = true;
    plan->units = o->spans ? plan->keys : plan->files;
    plan->n_units = o->spans ? o->n_keys : plan->n_files;
    plan->part_is_all = !o->spans && each > plan->n_units && plan->n_units > 0;
    if (plan->part_is_all)
        each = plan->n_units;
    if (each > plan->n_units || o->n_parts > plan->n_units)
        return fby__fail(err, FBY_E_ARG,
                         "an epoch was to be cut into parts of whole %s, %" PRIu32 " %s%s, but only %" PRIu32
                         " %s have samples: choose at most %" PRIu32,
                         what, each ? each : o->n_parts, each ? what : "parts", each ? " each" : "", plan->n_units, what, plan->n_units);
    plan->part_units = each;
    plan->n_parts = o->n_parts ? o->n_parts : (uint32_t)fby__div_up_u64(plan->n_units, each);
    return bound_parts(plan, err);
}

/* ---- what follows ---- */

/* What KEEP leaves this rank of n samples. */
static void count_kept(const fby__plan *plan, uint64_t n, fby__epoch_counts *c)
{
    if (plan->offset || plan->share != plan->stride) { /* one stream, of whose batches every rank has its slots */
        const uint64_t whole = n / plan->stride, rest = n % plan->stride, left = rest - fby__min_u64(rest, plan->offset);
        c->n_batches = whole + (left > 0);
        c->n_samples = whole * plan->share + fby__min_u64(left, plan->share);
        return;
    }
    uint64_t longest = 0, begin = fby__plan_stream_begin(plan, n, plan->first_stream);
    for (uint32_t s = plan->first_stream; s < plan->first_stream + plan->n_streams; s++) {
        const uint64_t end = fby__plan_stream_begin(plan, n, s + 1);
        longest = fby__max_u64(longest, end - begin);
        c->n_samples += end - begin;
        begin = end;
    }
    c->n_batches = fby__div_up_u64(longest, plan->share);
}

/* floor(floor(n/S) / (G/S)) = floor(n/G) and the same for ceil, so the streams agree on the number of batches. */
fby__epoch_counts fby__plan_counts_of(const fby__plan *plan, uint64_t n)
{
    fby__epoch_counts c = {.n_available = n};
    if (plan->tail == FBY__TAIL_KEEP && plan->world_size > 1) {
        count_kept(plan, n, &c);
        return c;
    }
    c.n_batches = plan->tail == FBY__TAIL_DROP ? n / plan->global_batch : fby__div_up_u64(n, plan->global_batch);
    const uint64_t filled = c.n_batches * plan->global_batch; /* ≤ n + G - 1 */
    c.n_samples = plan->tail == FBY__TAIL_KEEP ? n : filled / plan->world_size;
    c.n_wrapped = plan->tail == FBY__TAIL_WRAP ? filled - n : 0;
    c.n_dropped = plan->tail == FBY__TAIL_DROP ? n - filled : 0;
    return c;
}

fby_status fby__plan_count(const fby__plan *plan, uint64_t number, fby__epoch_counts *out, fby_error *err)
{
    fby__epoch *epoch;
    if (plan->batch_elements) {
        FBY__TRY(fby__epoch_create(plan, number, &epoch, err));
        *out = fby__epoch_counts_of(epoch);
        fby__epoch_destroy(epoch);
        return FBY_OK;
    }
    uint64_t n = part_samples(plan, number);
    if (plan->mix)
        FBY__TRY(fby__mix_length(plan, number, &n, err));
    *out = fby__plan_counts_of(plan, n);
    return FBY_OK;
}

/* Every epoch must have a batch, and every stream something to wrap. */
static fby_status check_smallest(const fby__plan *plan, fby_error *err)
{
    const uint64_t n = plan->part_least;
    const char *who = plan->has_parts ? " of the smallest part" : "";
    const char *advice = plan->has_parts ? ", or larger parts (by their number, they are as equal as can be)" : "";
    if (!plan->batch_elements && plan->tail == FBY__TAIL_DROP && fby__plan_counts_of(plan, n).n_batches == 0)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu64 " samples%s do not fill one batch of %" PRIu64
                         " over all ranks, and tail drop leaves the rest out: no batch is left; "
                         "choose a smaller batch or another tail%s",
                         n, who, plan->global_batch, advice);
    if (plan->tail == FBY__TAIL_WRAP && n < plan->streams)
        return fby__fail(err, FBY_E_ARG,
                         "%" PRIu64 " samples%s leave some of %" PRIu32 " streams empty, with nothing to wrap: "
                         "choose at most %" PRIu64 " streams%s",
                         n, who, plan->streams, n, advice);
    return FBY_OK;
}

void fby__plan_share_streams(fby__plan *plan, const fby__plan_opts *o)
{
    const uint64_t g = o->global_batch;
    plan->global_batch = g;
    plan->world_size = o->world_size;
    if (o->batch_elements || o->bucket_samples) {
        plan->streams = o->world_size;
        plan->n_streams = 1;
        plan->first_stream = o->rank;
        plan->stride = plan->share = g / o->world_size;
    } else if (plan->shuffle == FBY__SHUFFLE_NONE) {
        plan->streams = plan->n_streams = 1;
        plan->stride = g;
        plan->share = g / o->world_size;
        plan->offset = plan->share * o->rank;
    } else {
        plan->streams = (uint32_t)gcd(o->streams, g);
        plan->n_streams = plan->streams / o->world_size;
        plan->first_stream = plan->n_streams * o->rank;
        plan->stride = plan->share = g / plan->streams;
    }
}

/*
 * The most samples of this rank in any epoch. The streams of a mixture's source differ by more than a sample: a source's turns come a golden
 * ratio apart, which for some numbers of streams goes round slowly.
 */
static uint64_t own_samples(const fby__plan *plan)
{
    return fby__min_u64(plan->part_most, (plan->part_most / plan->streams + 2 + (plan->streams + 1) / 2) * plan->n_streams);
}

/*
 * The most blocks, or slices of them, that so many samples lie in: the smallest ones. Counted by powers of two, in the first of which that does not fit
 * as a whole all are as small as its smallest: less than twice as many, without a sort.
 */
static uint64_t most_items(const fby__plan *plan, const uint64_t *least, uint64_t samples)
{
    uint64_t n[64] = {0}, sum[64] = {0}, smallest[64] = {0}, items = 0;
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        const uint64_t slices = fby__plan_slices_of(plan, plan->counts[b]);
        if (!slices)
            continue;
        const uint64_t of_block = fby__max_u64(!plan->draws.n ? plan->counts[b] : least ? least[b] : 0, slices), each = of_block / slices;
        const int k = 63 - __builtin_clzll(each);
        smallest[k] = n[k] ? fby__min_u64(smallest[k], each) : each;
        n[k] += slices;
        sum[k] += of_block;
    }
    int k = 0;
    for (; k < 64 && sum[k] <= samples; k++) {
        samples -= sum[k];
        items += n[k];
    }
    return k < 64 ? items + samples / smallest[k] : items;
}

/* Everything that follows from counts and options. */
static fby_status derive(fby__plan *plan, const fby__plan_opts *o, fby_error *err)
{
    FBY__TRY(deal_parts(plan, o, err));
    FBY__TRY(fby__cancel_check(err));
    plan->seed = o->seed;
    plan->tail = o->tail;
    plan->phase.no_warmup = o->no_warmup;
    const bool fits = o->shuffle == FBY__SHUFFLE_SUPERBATCH && plan->part_most <= o->superbatch_samples;
    plan->whole_streams = fits && plan->has_parts;
    plan->shuffle = fits && !plan->has_parts ? FBY__SHUFFLE_FULL : o->shuffle;
    plan->batch_elements = o->batch_elements;
    plan->lengths.of = o->lengths;
    plan->lengths.user = o->lengths_user;
    plan->lengths.total = o->elements ? o->elements : UINT64_MAX;
    fby__plan_share_streams(plan, o);
    if (plan->n_nonzero > UINT32_MAX - plan->streams)
        return fby__fail(err, FBY_E_ARG, "%" PRIu32 " blocks are too many to cut into %" PRIu32 " streams", plan->n_nonzero, plan->streams);

    if (o->bucket_samples) { /* batches of one size: pools end where batches do */
        const uint64_t unit = plan->batch_elements ? 1 : plan->share,
                       most = fby__min_u64(o->bucket_samples, fby__min_u64(plan->part_most, POOL_LIMIT));
        plan->pool_samples = fby__div_up_u64(most, unit) * unit;
    }
    switch (plan->shuffle) {
    case FBY__SHUFFLE_FULL: plan->phase.limit = plan->part_most; break;
    case FBY__SHUFFLE_SUPERBATCH:
        plan->phase.limit =
            plan->whole_streams ? fby__div_up_u64(plan->part_most, plan->streams) : fby__max_u64(1, o->superbatch_samples / plan->streams);
        break;
    case FBY__SHUFFLE_BLOCK:
    case FBY__SHUFFLE_NONE: plan->phase.limit = plan->largest; break;
    }
    FBY__TRY(check_smallest(plan, err));
    FBY__TRY(fby__plan_diversify(plan, o, err));
    plan->n_slices = plan->slice_samples ? 0 : plan->n_nonzero;
    for (uint32_t b = 0; plan->slice_samples && b < plan->n_blocks; b++)
        plan->n_slices += fby__plan_slices_of(plan, plan->counts[b]);
    if (!plan->has_parts || plan->slice_samples)
        plan->items.part = plan->n_slices;
    plan->items.rank = most_items(plan, o->draws.least, own_samples(plan));
    if (plan->n_slices > UINT32_MAX - plan->streams)
        return fby__fail(err, FBY_E_ARG, "%" PRIu64 " slices of blocks are too many: choose fewer files in a batch, or a larger superbatch",
                         plan->n_slices);
    return FBY_OK;
}

fby_status fby__plan_create(const uint64_t *counts, uint32_t n_blocks, const fby__plan_opts *opts, fby__plan **out, fby_error *err)
{
    FBY__TRY(fby__plan_check_opts(opts, err));
    fby_status status = FBY_OK;
    fby__plan *plan = fby__calloc(1, sizeof *plan);
    if (!plan)
        return fby__fail_nomem(err, "plan of an epoch");
    plan->n_blocks = n_blocks;
    plan->draws = opts->draws;
    plan->draws.least = NULL; /* the caller's */
    plan->counts = fby__calloc(n_blocks, sizeof *plan->counts);
    if (!plan->counts) {
        status = fby__fail_nomem(err, "sample counts of blocks");
        goto fail;
    }
    if (n_blocks)
        memcpy(plan->counts, counts, n_blocks * sizeof *counts);
    if ((status = count_samples(plan, err)) != FBY_OK || (status = derive(plan, opts, err)) != FBY_OK)
        goto fail;
    *out = plan;
    return FBY_OK;
fail:
    fby__plan_destroy(plan);
    return status;
}

void fby__plan_destroy(fby__plan *plan)
{
    if (!plan)
        return;
    fby__free(plan->counts);
    fby__free(plan->files);
    fby__free(plan->file_of);
    fby__free(plan->spans);
    fby__free(plan->by_key.of_block);
    fby__free(plan->keys);
    fby__mix_destroy(plan->mix);
    fby__free(plan);
}

uint32_t fby__plan_streams(const fby__plan *plan) { return plan->streams; }
uint32_t fby__plan_own_streams(const fby__plan *plan) { return plan->n_streams; }
bool fby__plan_whole_streams(const fby__plan *plan) { return plan->whole_streams; }
bool fby__plan_part_is_all(const fby__plan *plan) { return plan->part_is_all; }
uint64_t fby__plan_batch_limit(const fby__plan *plan)
{
    const uint64_t own = plan->global_batch / plan->world_size;
    return plan->tail == FBY__TAIL_WRAP ? own : fby__min_u64(own, plan->part_most); /* wrapped, every batch is a whole one */
}
uint64_t fby__plan_batches_limit(const fby__plan *plan)
{
    return plan->batch_elements ? UINT64_MAX : fby__plan_counts_of(plan, plan->part_most).n_batches;
}
uint64_t fby__plan_phase_limit(const fby__plan *plan) { return plan->phase.limit; }
fby__shuffle fby__plan_shuffle(const fby__plan *plan) { return plan->shuffle; }
fby__tail fby__plan_tail(const fby__plan *plan) { return plan->tail; }
uint64_t fby__plan_seed(const fby__plan *plan) { return plan->seed; }
uint64_t fby__plan_global_batch(const fby__plan *plan) { return plan->global_batch; }
uint32_t fby__plan_world_size(const fby__plan *plan) { return plan->world_size; }
uint64_t fby__plan_samples(const fby__plan *plan) { return plan->n; }
uint64_t fby__plan_part_samples(const fby__plan *plan) { return plan->part_most; }
uint32_t fby__plan_parts(const fby__plan *plan) { return plan->n_parts; }
uint32_t fby__plan_part_units(const fby__plan *plan)
{
    if (!plan->has_parts)
        return 0;
    return plan->part_units ? plan->part_units : (uint32_t)fby__div_up_u64(plan->n_units, plan->n_parts);
}
const fby__plan_span *fby__plan_spans(const fby__plan *plan, uint32_t *out_n)
{
    *out_n = plan->by_key.n_spans;
    return plan->spans;
}
bool fby__plan_has_pools(const fby__plan *plan) { return plan->pool_samples != 0; }
uint64_t fby__plan_slice_samples(const fby__plan *plan) { return plan->slice_samples; }
uint64_t fby__plan_reads_of(const fby__plan *plan, uint32_t block)
{
    if (plan->mix)
        return fby__mix_reads_of(plan, block);
    if (!plan->spans)
        return fby__plan_slices_of(plan, plan->counts[block]);
    return fby__min_u64(plan->n_parts, plan->by_key.of_block[block]);
}
uint64_t fby__plan_item_limit(const fby__plan *plan) { return plan->mix ? fby__mix_item_limit(plan) : plan->n_slices + plan->streams; }

/* The most that an epoch has. */
typedef struct sizes {
    uint64_t items, phases, batches; /* batches by rows, else 0 */
} sizes;

/*
 * The most phases of n streams. The first ones are small (FBY__PLAN_GROWTH_STEPS), and the one after them is shorter; any two others in a row have
 * more samples than one may have, or they are cut at equal distances.
 */
static uint64_t phases_of(const fby__plan *plan, uint64_t n, uint64_t items)
{
    const uint64_t samples = fby__div_up_u64(plan->part_most, plan->streams) * n;
    switch (plan->shuffle) {
    case FBY__SHUFFLE_FULL: return n;
    case FBY__SHUFFLE_SUPERBATCH: break;
    case FBY__SHUFFLE_BLOCK:
    case FBY__SHUFFLE_NONE: return items;
    }
    if (plan->whole_streams)
        return n;
    if (plan->slice_samples)
        return fby__min_u64(items, samples / fby__plan_phase_aim(plan, plan->slice_samples) + 2 * n);
    return fby__min_u64(items, 2 * samples / fby__max_u64(plan->phase.limit, 1) + (FBY__PLAN_GROWTH_STEPS + 3) * n);
}

static sizes sizes_of(const fby__plan *plan)
{
    const uint64_t streams = plan->n_streams, n = own_samples(plan), all = fby__min_u64(plan->items.part + plan->streams, plan->part_most);
    const bool scattered = plan->spans || plan->shuffle == FBY__SHUFFLE_FULL;
    sizes s = {.items = scattered ? all : fby__min_u64(all, plan->items.rank + 2 * streams)};
    s.phases = phases_of(plan, streams, s.items);
    /* Two batches in a row have more rows together than one may have, or the first is closed for its samples, or a pool or a stream ends. */
    if (plan->batch_elements)
        s.batches = fby__min_u64(n, 2 * fby__min_u64(n, plan->lengths.total / plan->batch_elements) + n / plan->share +
                                        (plan->pool_samples ? n / plan->pool_samples + s.phases : 0) + streams);
    return s;
}

#define BATCH_BYTES (sizeof(uint64_t) + sizeof(uint32_t)) /* by rows */

uint64_t fby__plan_epoch_bytes(const fby__plan *plan)
{
    if (plan->mix)
        return fby__mix_epoch_bytes(plan);
    const bool guided = plan->spans || plan->shuffle == FBY__SHUFFLE_SUPERBATCH || plan->shuffle == FBY__SHUFFLE_FULL;
    const sizes s = sizes_of(plan);
    const uint64_t guides = guided ? fby__min_u64(4 * s.items, plan->part_most) + 2 * s.phases : 0;
    return FBY__PLAN_EPOCH_BYTES + s.items * sizeof(fby__plan_item) + guides * sizeof(uint32_t) +
           s.phases * (sizeof(fby__plan_phase) + sizeof(uint32_t)) + plan->n_streams * (uint64_t)(sizeof(uint64_t) + sizeof(uint32_t)) +
           plan->n_blocks * sizeof(uint64_t) * ((plan->has_parts || plan->draws.n) + (plan->draws.n != 0)) +
           (plan->spans ? plan->items.part * sizeof(fby__plan_item) : 0) + s.batches * BATCH_BYTES;
}

uint64_t fby__plan_most_phases(const fby__plan *plan) { return sizes_of(plan).phases; }

uint64_t fby__plan_making_bytes(const fby__plan *plan)
{
    if (plan->mix)
        return fby__mix_making_bytes(plan);
    /* Blocks of all ranks are put in order; of one rank, they are no more than what its order takes. */
    const uint64_t others = plan->world_size > 1 ? (plan->items.part + plan->streams) *
                                                       (sizeof(fby__plan_item) + (plan->slice_samples ? FBY__PLAN_ORDERED_BYTES : 0))
                                                 : 0;
    if (!plan->batch_elements)
        return others;
    return others + (plan->world_size - 1) * fby__plan_epoch_bytes(plan) + /* tables grow by doubling */
           plan->world_size * 2 * fby__max_u64(sizes_of(plan).batches, 128) * BATCH_BYTES;
}

uint64_t fby__plan_counts_hash(const fby__plan *plan) { return fby__hash(plan->counts, plan->n_blocks * sizeof *plan->counts).lo; }

uint64_t fby__plan_spans_hash(const fby__plan *plan) { return plan->by_key.hash; }
