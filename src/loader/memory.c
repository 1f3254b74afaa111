/*
 * What a plan needs at least, against the budget (invariant 4).
 *
 *   minimum = worst superbatch + 2 blocks with the bytes they are read from + 2 batches and 2 spare buffers, with their values (memory_values.c)
 *             + what is held throughout (workers' scratch, the dataset's index);
 *             or all blocks instead of the first two terms' blocks, where that is less: a dataset of one or two blocks
 *
 * The worst superbatch is over every epoch's order, so that epoch 5 is not refused where epoch 0 was accepted: the phases of a rank's own
 * streams together hold at most L samples, and the blocks with the most bytes a sample fill them first (a fractional knapsack). With parts it
 * is over every part that could be drawn: never more than the files with the most bytes. With slices it is over slices.
 * Figures are upper bounds from metadata, rounded to slab classes as the account charges them.
 */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/checked.h"
#include "base/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t slab_bytes(size_t bytes) { return bytes ? fby__slab_class_bytes(bytes) : 0; }

/* ---- the worst superbatch ---- */

int fby__densest_first(const void *a, const void *b)
{
    const fby__density *x = a, *y = b;
    const unsigned __int128 left = (unsigned __int128)x->amount * y->samples, right = (unsigned __int128)y->amount * x->samples;
    return left > right ? -1 : left < right;
}

/* What rows of samples [lo, hi) of a block take. */
static size_t range_bytes(const fby__loader_source *in, uint32_t block, uint64_t lo, uint64_t hi)
{
    uint64_t begin, end;
    if (lo == hi)
        return 0;
    fby__samples_range(in->samples, block, lo, hi, &begin, &end);
    return fby__loader_entry_bytes(in, block, end - begin);
}

/* The same as slabs, of a slice. Where few rows of a block are kept, all of a slice's may be: the safe side. */
static size_t slice_bytes(const fby__loader_source *in, uint32_t block, uint64_t lo, uint64_t hi)
{
    uint64_t begin, end;
    const fby__thin thin = in->cost[block].thin;
    if (lo == hi || thin.rows || !thin.samples)
        return fby__slab_class_bytes(range_bytes(in, block, lo, hi)) + fby__load_entry_bytes(&in->loader->outputs);
    fby__samples_range(in->samples, block, lo, hi, &begin, &end);
    const fby__room room = fby__thin_room(in, block, end - begin, fby__thin_of(in, block, begin, end, NULL, 0));
    return slab_bytes(room.stays) + slab_bytes(room.kept) + fby__load_entry_bytes(&in->loader->outputs);
}

/*
 * What a span of a key adds to its part's memory. With others of its block it lies in one slab: a class is an eighth larger at most, or a page,
 * and says where its rows are. Alone it has a second slab, of first rows.
 */
static uint64_t span_bytes(const fby__loader_source *in, const fby__plan_span *span)
{
    const size_t bytes = range_bytes(in, span->block, span->lo, span->hi);
    return bytes + bytes / 8 + (in->has_firsts ? 2 : 1) * fby__slab_class_bytes(1) + fby__load_entry_bytes(&in->loader->outputs);
}

/* All blocks of the part with the most bytes, or all its spans; without parts, of everything. */
static uint64_t worst_part(fby__loader_source *in, const fby__plan *plan)
{
    uint32_t n_units = 0, most = fby__plan_part_units(plan), n_spans;
    const fby__plan_span *spans = fby__plan_spans(plan, &n_spans);
    uint64_t worst = 0, *units = NULL;
    if (fby__plan_parts(plan) <= 1)
        return in->costs.bytes;
    if (!(units = fby__calloc(spans ? n_spans : in->n_blocks, sizeof *units))) {
        in->no_memory = true;
        return in->costs.bytes;
    }
    for (uint32_t i = 0; i < n_spans; i++) { /* those of a key side by side */
        n_units += i == 0 || spans[i].key != spans[i - 1].key;
        units[n_units - 1] += span_bytes(in, &spans[i]);
    }
    for (uint32_t b = 0; !spans && b < in->n_blocks; b++) {
        n_units += b == 0 || fby__dataset_block(in->ds, b)->file != fby__dataset_block(in->ds, b - 1)->file;
        units[n_units - 1] += in->cost[b].bytes;
    }
    (void)fby__sort(units, n_units, sizeof *units, fby__compare_u64, NULL); /* cancelled: fby__loader_budget asks */
    for (uint32_t u = 0; u < n_units && u < most; u++)
        worst += units[n_units - 1 - u];
    fby__free(units);
    return worst;
}

/* What phases of a source are made of, the densest first: the blocks that have samples, their slices, or spans of keys. */
struct fby__weights {
    fby__density *list; /* bytes; owned; NULL: not listed yet, or out of memory */
    uint32_t n;
    uint64_t slice_samples; /* of the plan that they were listed for */
};
typedef struct fby__weights weights;

static void list_weights(fby__loader_source *in, const fby__plan *plan, weights *out)
{
    uint32_t n = 0, n_spans;
    const uint64_t slice_samples = fby__plan_slice_samples(plan);
    if (out->list && out->slice_samples == slice_samples)
        return; /* plans of one loader differ in nothing else that matters here */
    fby__free(out->list);
    const fby__plan_span *spans = fby__plan_spans(plan, &n_spans);
    fby__density *w = fby__calloc(spans ? n_spans : fby__plan_item_limit(plan), sizeof *w);
    for (uint32_t i = 0; w && i < n_spans; i++)
        w[n++] = (fby__density){spans[i].hi - spans[i].lo, span_bytes(in, &spans[i])};
    for (uint32_t b = 0; w && !spans && b < in->n_blocks; b++) {
        const uint64_t samples = in->cost[b].least,
                       r = fby__plan_slices_of(plan, in->cost[b].most); /* they differ where blocks are not cut */
        for (uint64_t i = 0; i < r; i++) { /* the first slices are the smaller ones by a sample at most: the safe side of all */
            const uint64_t lo = (uint64_t)((unsigned __int128)i * samples / r), hi = (uint64_t)((unsigned __int128)(i + 1) * samples / r);
            w[n++] = (fby__density){samples / r, r > 1 ? slice_bytes(in, b, lo, hi) : in->cost[b].bytes};
        }
    }
    if (w)
        (void)fby__sort(w, n, sizeof *w, fby__densest_first, NULL); /* as above */
    in->no_memory |= !w;
    *out = (weights){.list = w, .n = n, .slice_samples = slice_samples};
}

/* Samples of the longest span of a key. */
static uint64_t longest_span(const fby__plan *plan)
{
    uint32_t n;
    uint64_t longest = 0;
    const fby__plan_span *spans = fby__plan_spans(plan, &n);
    for (uint32_t i = 0; i < n; i++)
        longest = fby__max_u64(longest, spans[i].hi - spans[i].lo);
    return longest;
}

/*
 * What blocks of a mixture's source take beyond their bytes where streams cut them: each part is a slab of its own, with the rows that its last
 * samples reach into, and room for all that lists and strings of the block may hold. (A loader over one data set loads cut blocks whole where
 * all of them may be live at once; in a mixture the other sources' blocks may leave no room for that.)
 */
static uint64_t cut_bytes(const fby__loader_source *in, uint64_t streams, uint64_t live, uint64_t largest)
{
    if (in->loader->sources.n == 1)
        return 0;
    const size_t halo = fby__loader_entry_bytes(in, 0, fby_samples_max_rows(in->samples));
    const uint64_t rounded = fby__min_u64(live / 8, streams * largest / 4),
                   parts = rounded + streams * (2 * (uint64_t)fby__slab_class_bytes(1) + fby__slab_class_bytes(halo) +
                                                fby__load_entry_bytes(&in->loader->outputs));
    return in->n_variable ? streams * largest : fby__min_u64(streams * largest, parts);
}

static uint64_t worst_live(fby__loader_source *in, const fby__plan *plan, weights *w)
{
    const uint64_t total = worst_part(in, plan), largest = in->costs.largest, most = in->costs.most;
    uint64_t live;
    const uint64_t streams = fby__plan_own_streams(plan);
    switch (fby__plan_shuffle(plan)) {
    case FBY__SHUFFLE_FULL: return total;
    case FBY__SHUFFLE_NONE: return largest;
    case FBY__SHUFFLE_BLOCK: live = fby__min_u64(total, streams * largest); return live + cut_bytes(in, streams, live, largest);
    case FBY__SHUFFLE_SUPERBATCH: break;
    }
    const uint64_t slice = fby__plan_slice_samples(plan);
    uint64_t room = streams * fby__max_u64(fby__plan_phase_limit(plan), slice ? fby__min_u64(slice, most) : most);
    const uint64_t span = longest_span(plan);
    if (fby__plan_whole_streams(plan)) {                             /* cut blocks are loaded whole, at both ends of what the rank owns */
        const bool all = span && streams == fby__plan_streams(plan); /* of a part by key they then are no more than the part */
        room = streams * fby__plan_phase_limit(plan) + (all ? 0 : 2 * most);
    } else if (span) { /* one that a stream's border cuts is there on both sides, with what its last windows reach into */
        room = streams * (fby__max_u64(fby__plan_phase_limit(plan), most) + span);
    }
    list_weights(in, plan, w);
    if (!w->list)
        return total;
    live = 0;
    for (uint32_t i = 0; i < w->n && room > 0; i++) {
        live += w->list[i].amount;
        room -= fby__min_u64(room, fby__max_u64(w->list[i].samples, 1));
    }
    live = fby__min_u64(live, total);
    return live + cut_bytes(in, streams, live, largest);
}

uint64_t fby__loader_epoch_bytes(const fby__plan *plan, const fby__loader_memory *m)
{
    const bool all = fby__plan_shuffle(plan) == FBY__SHUFFLE_FULL || fby__plan_shuffle(plan) == FBY__SHUFFLE_NONE;
    uint64_t bytes = 0, largest = 0;
    for (uint32_t b = 0; b < m->n_blocks; b++) {
        bytes += m->cost[b].io_bytes * fby__plan_reads_of(plan, b);
        largest = fby__max_u64(largest, m->cost[b].io_bytes);
    }
    return all ? bytes * fby__plan_world_size(plan) : bytes + largest * (fby__plan_streams(plan) - 1); /* cut by streams */
}

/* For this epoch and the next. */
uint64_t fby__loader_anew_bytes(const fby__plan *plan) { return 2 * fby__plan_anew_bytes(plan); }

/*
 * What is known of blocks, the order of an epoch, of the next and of one that is made, and what the schedule keeps of one, less than one more: 16
 * bytes an item, which has twice that and more in the order, and 56 a phase, which has 100.
 */
static uint64_t order_bytes(const fby_loader *l)
{
    const fby__schedule *s = NULL;
    const uint64_t blocks = l->memory.n_blocks, entries = fby__max_u64(blocks, fby__plan_item_limit(l->plan));
    uint64_t bytes = 4 * fby__plan_epoch_bytes(l->plan) + fby__plan_making_bytes(l->plan) +
                     blocks * (sizeof *l->memory.cost + sizeof *s->next_epoch_use + 2 * sizeof(uint64_t)) + /* counts, files */
                     entries * (sizeof(void *) + 4 * sizeof(uint32_t));                                     /* the cache's tables */
    for (uint32_t i = 0; i < l->sources.n; i++)
        bytes += (uint64_t)l->sources.at[i].n_blocks * (2 * l->sources.at[i].n_variable * sizeof(uint64_t) + 1); /* outgrown, company */
    return bytes;
}

/* Held from open to close, whatever the plan: the workers' scratch and arrays, the dataset's index, orders, and what is known of blocks. */
uint64_t fby__loader_fixed_bytes(const fby_loader *l)
{
    const fby__worker *w = NULL;
    uint32_t n_spans;
    const fby__plan_span *spans = fby__plan_spans(l->plan, &n_spans); /* of parts by key */
    uint64_t arrays =
        l->memory.batch_samples * (sizeof *w->item + sizeof *w->sample + sizeof *w->block_row + sizeof *w->first_row + sizeof *w->n_rows +
                                   sizeof *w->row + sizeof *w->entry + sizeof *w->id + sizeof *w->repeats) +
        fby__made_arrays_bytes(&l->outputs) + l->outputs.made_scratch_bytes + fby__plan_pool_bytes(l->plan);
    uint64_t sources = fby__loader_anew_bytes(l->plan) + order_bytes(l);
    for (uint32_t i = 0; i < l->sources.n; i++)
        sources += fby__dataset_memory_bytes(l->sources.at[i].ds) + fby__samples_memory_bytes(l->sources.at[i].samples);
    return (uint64_t)l->config.n_threads * (l->memory.worker_bytes + arrays) + l->outputs.made_bytes + sources + n_spans * sizeof *spans;
}

uint64_t fby__loader_job_bytes(const fby__loader_memory *m) { return fby__slab_class_bytes(m->max_io_bytes) + m->reads_bytes; }

/* Beside blocks. */
static uint64_t other_bytes(const fby_loader *l)
{
    return 2 * fby__loader_job_bytes(&l->memory) + (2 + FBY__SPARE_BATCHES) * l->memory.dense_batch_bytes + l->memory.least_flight_bytes +
           l->memory.least_values_bytes + fby__loader_fixed_bytes(l);
}

/* Beside blocks, when every block stays: where few rows are kept, two are there as a whole for a moment. */
uint64_t fby__loader_all_kept_bytes(const fby_loader *l)
{
    uint64_t total = 0, moment = 0;
    for (uint32_t i = 0; i < l->sources.n; i++) {
        total += l->sources.at[i].costs.bytes;
        moment = fby__max_u64(moment, l->sources.at[i].costs.moment);
    }
    return total + 2 * moment + other_bytes(l);
}

/* The worst over all sources at once. w: weights of each source. */
static uint64_t worst_of_all(const fby_loader *l, const fby__plan *plan, weights *w)
{
    uint64_t live = 0;
    for (uint32_t i = 0; i < l->sources.n; i++)
        live += l->sources.at[i].live_bytes = worst_live(&l->sources.at[i], fby__plan_source(plan, i), &w[i]);
    return live;
}

/* The worst superbatch and two blocks beside it, or all blocks, which is less where there are few. */
static uint64_t minimum_of(const fby_loader *l, const fby__plan *plan, uint64_t live)
{
    uint64_t block = 0;
    uint32_t n_spans;
    const bool by_key = fby__plan_spans(plan, &n_spans) != NULL; /* rows between spans are there until they are given back */
    for (uint32_t i = 0; i < l->sources.n; i++)
        block = fby__max_u64(block, l->sources.at[i].costs.largest_load);
    for (uint32_t b = 0; by_key && b < l->memory.n_blocks; b++)
        block = fby__max_u64(block, l->memory.cost[b].load_bytes +
                                        fby__slab_class_bytes(range_bytes(&l->sources.at[0], b, 0, l->memory.cost[b].samples)));
    return fby__min_u64(live + 2 * block + other_bytes(l), fby__loader_all_kept_bytes(l));
}

/* ---- the plan and the budget ---- */

/* The superbatch in samples, from what the user said or the default. Depends on the dataset alone, never on the budget. */
uint64_t fby__loader_superbatch(const fby__loader_sources *sources, const fby_loader_opts *opts)
{
    uint64_t n = 0, stored = 0, blocks = 0;
    for (uint32_t i = 0; i < sources->n; i++) {
        const fby__loader_source *in = &sources->at[i];
        const uint64_t own = fby_samples_count(in->samples);
        const bool all = fby_samples_kind(in->samples) == FBY_SAMPLES_ROWS && own == fby_dataset_rows(in->ds);
        n += own;
        for (uint32_t b = 0; b < in->n_blocks; b++) {
            const bool counts = all || in->cost[b].samples > 0;
            stored += counts ? fby__dataset_block(in->ds, b)->stored_bytes : 0;
            blocks += counts;
        }
    }
    stored = fby__max_u64(stored, 1);
    blocks = fby__max_u64(blocks, 1);
    if (opts->superbatch_samples)
        return opts->superbatch_samples;
    if (opts->superbatch_blocks)
        return fby__max_u64((uint64_t)((unsigned __int128)n * opts->superbatch_blocks / blocks), 1);
    if (!opts->superbatch_bytes && (opts->part_files || opts->part_keys || opts->n_parts))
        return fby__max_u64(n, 1); /* all of a part is mixed */
    uint64_t bytes = opts->superbatch_bytes ? opts->superbatch_bytes : (uint64_t)512 << 20;
    uint64_t samples = (uint64_t)((unsigned __int128)n * bytes / stored);
    if (!opts->superbatch_bytes)
        samples = fby__max_u64(samples, fby__div_up_u64(n * 8, blocks));
    return fby__max_u64(samples, 1);
}

static void lengths_of(const void *user, const uint32_t *block, const uint64_t *sample, uint32_t n, uint32_t *out)
{
    const fby__loader_sources *sources = user;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t row, rows;
        const fby__loader_source *in = fby__source_of(sources, block[i]);
        fby__samples_at(in->samples, block[i] - in->first_block, sample[i], &row, &rows);
        out[i] = rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
    }
}

static void draws_of(const void *user, uint64_t epoch, uint64_t *out) { fby__samples_draws(user, epoch, out); }

static void drawn_of(const void *user, uint64_t epoch, const uint32_t *block, uint64_t *io_sample, uint32_t n)
{
    fby__samples_drawn(user, epoch, io_sample, n, io_sample);
    for (uint32_t i = 0; i < n; i++)
        io_sample[i] -= fby__samples_first(user)[block[i]];
}

/* `files` begin at 0 in every source. */
static fby_status plan_mix(const fby_loader *l, const uint64_t *counts, const uint32_t *files, const fby__plan_opts *p, fby__plan **out,
                           fby_error *err)
{
    static const fby__mix_stop STOP[] = {FBY__MIX_FIRST, FBY__MIX_ALL, FBY__MIX_SAMPLES};
    const fby_mix *mix = l->config.mix;
    if ((unsigned)mix->stop > FBY_MIX_SAMPLES)
        return fby__fail(err, FBY_E_ARG, "the mixture's stop is none");
    fby__mix_source *sources = fby__calloc(l->sources.n, sizeof *sources);
    if (!sources)
        return fby__fail_nomem(err, "the plan");
    for (uint32_t i = 0; i < l->sources.n; i++) {
        const fby__loader_source *in = &l->sources.at[i];
        sources[i] = (fby__mix_source){in->name, counts + in->first_block, in->n_blocks, files + in->first_block};
    }
    const fby__mix_opts m = {.sources = sources,
                             .n_sources = l->sources.n,
                             .weights = mix->weights,
                             .n_epochs = (uint32_t)mix->n_epochs,
                             .stop = STOP[mix->stop],
                             .n_samples = mix->n_samples};
    const fby_status status = fby__plan_create_mix(&m, p, out, err);
    fby__free(sources);
    return status;
}

fby_status fby__loader_plan(const fby_loader *l, const fby_loader_opts *opts, uint64_t samples, fby__plan **out, fby_error *err)
{
    const fby__loader_source *in = &l->sources.at[0];
    bool drawn = false, groups = false;
    for (uint32_t i = 0; i < l->sources.n; i++) {
        if (fby_samples_count(l->sources.at[i].samples) == 0)
            return fby__source_error(&l->sources.at[i], fby__fail(err, FBY_E_ARG, "the data set has no rows: nothing to load"), err);
        drawn |= fby__samples_are_drawn(l->sources.at[i].samples);
        groups |= fby_samples_kind(l->sources.at[i].samples) == FBY_SAMPLES_GROUPS;
    }
    uint32_t world = opts->world_size ? opts->world_size : 1;
    fby__plan_opts p = {
        .seed = opts->seed,
        .superbatch_samples = samples,
        .streams = opts->streams ? opts->streams : 8,
        .rank = opts->rank,
        .world_size = world,
    };
    if (!fby__mul_u64_checked(l->config.batch_size, world, &p.global_batch) || p.global_batch == 0)
        return fby__fail(err, FBY_E_ARG, "batch_size must be at least 1");
    static const fby__shuffle SHUFFLE[] = {FBY__SHUFFLE_SUPERBATCH, FBY__SHUFFLE_FULL, FBY__SHUFFLE_BLOCK, FBY__SHUFFLE_NONE};
    static const fby__tail TAIL[] = {FBY__TAIL_KEEP, FBY__TAIL_KEEP, FBY__TAIL_DROP, FBY__TAIL_WRAP, FBY__TAIL_KEEP};
    if ((unsigned)opts->shuffle > FBY_SHUFFLE_NONE || (unsigned)opts->tail > FBY_TAIL_UNEVEN)
        return fby__fail(err, FBY_E_ARG, "unknown shuffle or tail");
    if (opts->tail == FBY_TAIL_KEEP && world > 1)
        return fby__fail(
            err, FBY_E_ARG,
            "a shorter last batch cannot be kept with %u ranks, which must all have the same number of steps: choose tail wrap or "
            "drop; or tail uneven, where nothing in the loop waits for other ranks (prediction)",
            (unsigned)world);
    p.shuffle = SHUFFLE[opts->shuffle];
    p.tail = opts->tail == FBY_TAIL_AUTO && world > 1 ? FBY__TAIL_WRAP : TAIL[opts->tail];
    uint64_t *counts = fby__malloc(l->memory.n_blocks * sizeof *counts);
    uint64_t *least = fby__malloc(l->memory.n_blocks * sizeof *least);
    uint32_t *files = fby__malloc(l->memory.n_blocks * sizeof *files);
    fby_status status = counts && least && files ? FBY_OK : fby__fail_nomem(err, "the plan");
    for (uint32_t b = 0; status == FBY_OK && b < l->memory.n_blocks; b++) {
        const fby__loader_source *of = fby__source_of(&l->sources, b);
        counts[b] = l->memory.cost[b].most;
        least[b] = l->memory.cost[b].least;
        files[b] = fby__dataset_block(of->ds, b - of->first_block)->file;
    }
    p.files = files;
    p.spans = l->config.part_spans;
    p.n_spans = l->config.n_part_spans;
    p.n_keys = l->config.n_part_keys;
    p.part_files = opts->part_files;
    p.part_keys = opts->part_keys;
    p.n_parts = opts->n_parts;
    p.diversity_files = opts->diversity_files;
    p.max_superbatch_batches = opts->max_superbatch_batches;
    p.no_warmup = opts->no_warmup;
    p.batch_elements = opts->batch_elements;
    p.bucket_samples = opts->bucket_samples;
    const fby_sample_kind kind = fby_samples_kind(in->samples);
    if (kind == FBY_SAMPLES_GROUPS && !drawn)
        p.elements = fby_dataset_rows(in->ds);
    else if (!fby__mul_u64_checked(fby_samples_count(in->samples), fby_samples_max_rows(in->samples), &p.elements))
        p.elements = 0;
    if (status == FBY_OK && opts->bucket_samples && kind != FBY_SAMPLES_GROUPS)
        status = fby__fail(err, FBY_E_ARG, "length buckets were asked for, but all samples have one length (%s): of groups they make sense",
                           kind == FBY_SAMPLES_ROWS ? "rows" : "windows");
    if (opts->batch_elements || groups)
        p.lengths = lengths_of;
    p.lengths_user = &l->sources;
    if (drawn)
        p.draws = (fby__plan_draws){fby_samples_count(in->samples), draws_of, drawn_of, in->samples, least};
    if (status == FBY_OK)
        status = l->config.mix ? plan_mix(l, counts, files, &p, out, err) : fby__plan_create(counts, l->memory.n_blocks, &p, out, err);
    fby__free(counts);
    fby__free(least);
    fby__free(files);
    return status;
}

/* Ranks that share this host's memory: as it is stated, else as their launcher says, else all of them; 0 = this one alone. */
static uint32_t host_ranks(const fby_loader_opts *opts)
{
    const uint32_t launched = opts->local_world_size ? opts->local_world_size : fby__host_ranks();
    return launched ? launched : opts->world_size;
}

/* What is available to this loader. */
static uint64_t left_for_one(const fby__memory_limits *limits, const fby_loader_opts *opts)
{
    return fby__memory_share_bytes(limits, host_ranks(opts));
}

/* Every block decoded, with all jobs, chunks that blocks share, and all batches in flight that were asked for beside them. */
static uint64_t everything_bytes(const fby_loader *l)
{
    return fby__loader_all_kept_bytes(l) + l->memory.flight_bytes - l->memory.least_flight_bytes + l->memory.shared_bytes +
           ((uint64_t)l->config.n_threads * 2 + 2) * fby__loader_job_bytes(&l->memory) + l->config.depth * l->memory.dense_batch_bytes +
           fby__loader_listed_values_bytes(l);
}

/* The budget that was asked for; 0: none was. */
static fby_status asked_budget(const fby__loader_memory *m, const fby_loader_opts *opts, uint64_t *out, fby_error *err)
{
    const uint64_t left = left_for_one(&m->limits, opts), all = m->everything_bytes;
    *out = opts->memory_bytes;
    if ((opts->memory_bytes != 0) + (opts->memory_fraction != 0) + opts->memory_all > 1)
        return fby__fail(err, FBY_E_ARG, "a budget is given in bytes, as a fraction, or as all: one of them");
    if (opts->memory_fraction != 0) {
        if (!(opts->memory_fraction > 0 && opts->memory_fraction <= 1))
            return fby__fail(err, FBY_E_ARG, "a budget of %g of what is available: a fraction is above 0 and at most 1",
                             opts->memory_fraction);
        *out = fby__max_u64((uint64_t)(opts->memory_fraction * (double)left), 1);
    }
    if (opts->memory_all)
        *out = all;
    if (opts->memory_all && all > left)
        return fby__fail(err, FBY_E_BUDGET,
                         "to hold everything takes %llu bytes (%.1f MiB), and %.1f MiB are available to this loader (%s): give memory as a "
                         "size or as a fraction of that, or read fewer columns",
                         (unsigned long long)all, (double)all / (1u << 20), (double)left / (1u << 20), m->limits.text);
    return FBY_OK;
}

/*
 * The budget that nobody stated. One with which a superbatch is loaded while the one before it drains: where the usual one would not do, a larger one that
 * does, or else the least.
 */
static uint64_t default_budget(const fby__loader_memory *m, const fby__loader_config *config, uint64_t most)
{
    const uint64_t least = m->smooth_bytes, usual = fby__min_u64(fby__max_u64(least, FBY__AUTO_BYTES), most);
    const uint64_t smooth = usual < least ? usual : fby__loader_smooth_budget(m, config, usual);
    return fby__max_u64(m->minimum_bytes, smooth <= most ? smooth : least);
}

uint64_t fby__loader_minimum(const fby_loader *l, const fby__plan *plan, weights *w)
{
    return minimum_of(l, plan, worst_of_all(l, plan, w));
}

fby_status fby__loader_budget(fby_loader *l, const fby_loader_opts *opts, fby_error *err)
{
    uint64_t limit;
    weights *w;
    fby__memory_limits_find("", &l->memory.limits);
    l->memory.least_flight_bytes = fby__loader_flight_bytes(l, 2);
    l->memory.flight_bytes = fby__loader_flight_bytes(l, l->config.depth);
    l->memory.least_values_bytes = fby__loader_least_values_bytes(l);
    l->memory.everything_bytes = everything_bytes(l);
    FBY__TRY(asked_budget(&l->memory, opts, &limit, err));
    const uint64_t most = limit ? limit : fby__memory_most_bytes(&l->memory.limits, host_ranks(opts));
    if (!(w = fby__calloc(l->sources.n, sizeof *w)))
        return fby__fail_nomem(err, "the blocks' sizes");
    l->memory.live_bytes = worst_of_all(l, l->plan, w);
    uint64_t minimum = l->memory.minimum_bytes = minimum_of(l, l->plan, l->memory.live_bytes);
    fby_status status = minimum > most ? fby__loader_refuse_budget(l, opts, most, minimum, w, err) : FBY_OK;
    if (fby__cancelled()) /* then the sums are of what is in no order */
        status = fby__cancel_check(err);
    for (uint32_t i = 0; i < l->sources.n; i++) {
        if (l->sources.at[i].no_memory)
            status = fby__fail_nomem(err, "the blocks' sizes");
        fby__free(w[i].list);
    }
    fby__free(w);
    if (status != FBY_OK)
        return status;
    fby__loader_want(l);
    l->memory.budget_bytes =
        limit ? limit : default_budget(&l->memory, &l->config, fby__memory_budget_bytes(&l->memory.limits, host_ranks(opts)));
    fby__loader_share(l);
    return FBY_OK;
}
