/* What a loader delivers and where its time goes. */
#include "loader/internal.h"
#include "loader/verdict.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/sized.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t fby_loader_batch_count(const fby_loader *l) { return atomic_load_explicit(&l->consumer.n_batches, memory_order_relaxed); }

uint64_t fby_loader_sample_count(const fby_loader *l) { return atomic_load_explicit(&l->consumer.n_samples, memory_order_relaxed); }

fby_status fby_loader_count_of(fby_loader *l, uint64_t epoch, uint64_t *out_batches, uint64_t *out_samples, fby_error *err)
{
    fby__epoch_counts counts;
    FBY__TRY(fby__loader_check_process(l, err));
    FBY__TRY(fby__loader_count(&l->schedule, l->plan, epoch, &counts, err));
    if (out_batches)
        *out_batches = counts.n_batches;
    if (out_samples)
        *out_samples = counts.n_samples;
    return FBY_OK;
}

size_t fby_loader_output_count(const fby_loader *l) { return l->outputs.shape->n_outputs; }

fby_status fby_loader_output(const fby_loader *l, size_t i, fby_output_info *out, fby_error *err)
{
    if (i >= l->outputs.shape->n_outputs)
        return fby__fail(err, FBY_E_ARG, "output %zu asked for, but the loader has %u", i, l->outputs.shape->n_outputs);
    const fby__batch_output *o = &l->outputs.shape->outputs[i];
    fby_output_info info = {.name = o->name, .dtype = o->dtype, .layout = o->layout, .text = o->text, .ndim = 1 + o->ndim_inner};
    bool padded = o->layout == FBY_LAYOUT_PADDED;
    info.want_lengths = o->want_lengths;
    const fby__output_source *source = &l->sources.at[0].outputs[i];
    if (fby_samples_kind(l->sources.at[0].samples) == FBY_SAMPLES_WINDOWS && !source->maker &&
        (source->from == FBY_FROM_COLUMNS || fby_source_is_mask(source->from))) {
        info.step_begin = source->step;
        info.step_end = source->step + source->n_steps;
    }
    info.ndim += padded;
    info.shape[0] = o->layout == FBY_LAYOUT_RAGGED || l->config.asked.batch_elements ? -1 : (int64_t)l->config.batch_size;
    if (padded)
        info.shape[1] = o->pad_to_max ? (int64_t)((o->max_rows + o->multiple_of - 1) / o->multiple_of * o->multiple_of) : -1;
    memcpy(info.shape + 1 + padded, o->inner, (size_t)o->ndim_inner * sizeof *o->inner);
    return FBY__SIZED_OUT(fby_output_info, shape, &info, out, err);
}

static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0.0; }

static uint64_t blocks(const fby__loader_memory *m)
{
    uint64_t n = 0;
    for (uint32_t b = 0; b < m->n_blocks; b++)
        n += m->cost[b].samples > 0;
    return n;
}

/* Streams' borders cut a block once more each; of a full shuffle, and in file order, every rank may read every block. */
static double reads_per_block(const fby__plan *plan, const fby__loader_memory *m, uint64_t n_blocks)
{
    const fby__shuffle shuffle = fby__plan_shuffle(plan);
    if (shuffle == FBY__SHUFFLE_FULL || shuffle == FBY__SHUFFLE_NONE)
        return fby__plan_world_size(plan);
    uint64_t reads = fby__plan_streams(plan) - 1;
    for (uint32_t b = 0; b < m->n_blocks; b++)
        reads += fby__plan_reads_of(plan, b);
    return ratio(reads, n_blocks);
}

/* Append to the line about mixing. A sentence that has no room is left out as a whole. */
static void say(fby_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(fby_report *r, const char *fmt, ...)
{
    const size_t used = strlen(r->mixing), room = sizeof r->mixing - used;
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(r->mixing + used, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room)
        r->mixing[used] = 0;
}

/* One line about the mixing, and what it costs. */
static void describe_mixing(const fby__plan *plan, const fby__loader_config *config, fby_report *r)
{
    const double growth = fby__plan_growth_share(plan);
    say(r,
        "two samples of a batch share a block with chance %.4f (uniform shuffle %.4f); batch entropy over blocks %.2f bits (uniform %.2f)",
        r->same_block, r->same_block_uniform, r->entropy_bits, r->entropy_bits_uniform);
    if (r->slice_samples)
        say(r, "; a batch has samples of %.0f files (at least %llu, uniform %.0f), and a block is read %.1f times an epoch",
            r->files_per_batch, (unsigned long long)r->files_per_batch_least, r->files_per_batch_uniform, r->reads_per_block);
    if (growth > 0)
        say(r, "; the first %.0f %% of an epoch mixes over fewer blocks, in smaller superbatches", 100 * growth);
    if (config->asked.bucket_samples)
        say(r, "; padding is %.1f %% of padded rows (%.1f %% without length buckets)", 100 * r->padding, 100 * r->padding_unsorted);
}

/* ---- counts and times ---- */

static uint64_t load(const _Atomic uint64_t *value) { return atomic_load_explicit(value, memory_order_relaxed); }

void fby__loader_measure(fby_loader *l, fby_report *out)
{
    const fby__trace *t = &l->engine.trace;
    const fby__consumer *c = &l->consumer;
    const uint64_t begin = load(&c->first_begin_ns), now = fby__now_ns();
    pthread_mutex_lock(&l->schedule.lock);
    const uint64_t evicted = fby__cache_evictions(l->schedule.cache);
    const uint64_t blocks = fby__trace_counter(t, FBY__COUNT_BLOCKS_READ), bytes = fby__trace_counter(t, FBY__COUNT_BYTES_READ),
                   decoded = fby__trace_counter(t, FBY__COUNT_BYTES_DECODED); /* all of the same blocks */
    pthread_mutex_unlock(&l->schedule.lock);
    *out = (fby_report){
        .size = sizeof *out,
        .epochs_begun = load(&c->epochs_begun),
        .batches = fby__trace_counter(t, FBY__COUNT_BATCHES),
        .samples = fby__trace_counter(t, FBY__COUNT_SAMPLES),
        .bytes_read = bytes,
        .bytes_decompressed = fby__trace_counter(t, FBY__COUNT_BYTES_DECOMPRESSED),
        .bytes_decoded = decoded,
        .bytes_delivered = fby__trace_counter(t, FBY__COUNT_BYTES_DELIVERED),
        .blocks_read = blocks,
        .blocks_from_cache = fby__trace_counter(t, FBY__COUNT_BLOCKS_CACHED),
        .blocks_evicted = evicted,
        .elapsed_ns = begin ? now - begin : 0,
        .first_batch_ns = load(&c->first_batch_ns),
        .read_ns = load(&t->stage_ns[FBY__STAGE_READ]),
        .decompress_ns = load(&t->stage_ns[FBY__STAGE_DECOMPRESS]),
        .decode_ns = load(&t->stage_ns[FBY__STAGE_DECODE]),
        .assemble_ns = load(&t->stage_ns[FBY__STAGE_ASSEMBLE]),
        .transform_ns = load(&t->stage_ns[FBY__STAGE_TRANSFORM]),
        .wait_ns = load(&t->stage_ns[FBY__STAGE_WAIT]),
        .work_ns = load(&t->stage_ns[FBY__STAGE_WORK]),
        .transfer_ns = load(&t->stage_ns[FBY__STAGE_TRANSFER]),
        .gap_ns = load(&c->gap_ns),
        .first_batches_ns = load(&c->first_batches_ns),
        .first_step_ns = load(&c->first_step_ns),
        .reading_ns = fby__busy_ns(&t->reading, now),
        .memory_wait_ns = fby__busy_ns(&t->no_room, now),
        .consumer_cpu_ns = load(&c->cpu_ns),
        .worker_cpu_ns = fby__pool_cpu_ns(l->engine.pool) + (l->engine.openers ? fby__pool_cpu_ns(l->engine.openers) : 0),
        .process_cpu_ns = begin ? fby__process_cpu_ns() - load(&c->first_process_cpu_ns) : 0,
        .budget_bytes = l->memory.budget_bytes,
        .budget_minimum_bytes = l->memory.minimum_bytes,
        .superbatch_samples = fby__min_u64(l->config.superbatch_samples, fby__loader_rows(&l->sources)),
        .n_threads = (uint32_t)l->config.n_threads,
        .n_cpus = (uint32_t)fby__cpu_count(),
        .memory_available_bytes = l->memory.limits.available_bytes,
        .memory_limit_bytes = l->memory.limits.limit_bytes,
        .padding = l->mixing.padding,
        .padding_unsorted = l->padding_unsorted,
        .n_padded = fby__loader_paddings(l, NULL),
    };
}

/* What grows as long as the loader runs. */
void fby__report_subtract(fby_report *r, const fby_report *before)
{
#define LESS(field) r->field -= fby__min_u64(before->field, r->field)
    LESS(epochs_begun), LESS(batches), LESS(samples), LESS(bytes_read), LESS(bytes_decompressed), LESS(bytes_decoded),
        LESS(bytes_delivered);
    LESS(blocks_read), LESS(blocks_from_cache), LESS(blocks_evicted);
    LESS(elapsed_ns), LESS(read_ns), LESS(decompress_ns), LESS(decode_ns), LESS(assemble_ns);
    LESS(transform_ns), LESS(wait_ns), LESS(work_ns), LESS(transfer_ns), LESS(gap_ns);
    LESS(first_batches_ns), LESS(first_step_ns), LESS(reading_ns), LESS(memory_wait_ns), LESS(consumer_cpu_ns), LESS(worker_cpu_ns),
        LESS(process_cpu_ns);
#undef LESS
}

fby_status fby_report_since(fby_report *report, const fby_report *before, fby_error *err)
{
    fby_report now, then;
    FBY__TRY(FBY__SIZED_IN(fby_report, elapsed_ns, report, &now, err));
    FBY__TRY(FBY__SIZED_IN(fby_report, elapsed_ns, before, &then, err));
    if (then.elapsed_ns > now.elapsed_ns || then.batches > now.batches)
        return fby__fail(err, FBY_E_ARG, "the report that counts from is later than the other: %llu batches after %llu",
                         (unsigned long long)then.batches, (unsigned long long)now.batches);
    fby__report_subtract(&now, &then);
    fby__judge(&now);
    return FBY__SIZED_OUT(fby_report, elapsed_ns, &now, report, err);
}

fby_status fby_report_judge(fby_report *report, fby_error *err)
{
    fby_report r;
    FBY__TRY(FBY__SIZED_IN(fby_report, elapsed_ns, report, &r, err));
    fby__judge(&r);
    return FBY__SIZED_OUT(fby_report, elapsed_ns, &r, report, err);
}

fby_status fby_loader_source_report(fby_loader *l, size_t i, fby_source_report *out, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    if (i >= l->sources.n)
        return fby__fail(err, FBY_E_ARG, "source %zu asked for, but the loader has %u", i, l->sources.n);
    const fby__loader_source *in = &l->sources.at[i];
    const fby_source_report r = {.size = sizeof r,
                                 .name = in->name,
                                 .samples = load(&in->handed),
                                 .bytes_read = load(&in->bytes_read),
                                 .wait_ns = load(&in->wait_ns),
                                 .padding = in->mixing.padding,
                                 .samples_per_batch = in->mixing.samples,
                                 .files_per_batch = in->mixing.files};
    return FBY__SIZED_OUT(fby_source_report, files_per_batch, &r, out, err);
}

/* ---- the report ---- */

/* What limits: what came after the first epoch says it, once enough was seen of that. */
static void judge(fby__history *h, fby_report *r)
{
    fby_report settled = *r;
    fby__judge(r);
    if (!fby__history_settle(h, &settled))
        return;
    fby__judge(&settled);
    if (settled.limit == FBY_LIMIT_TOO_EARLY)
        return;
    r->limit = settled.limit;
    r->confidence = settled.confidence;
    r->n_cures = settled.n_cures;
    memcpy(r->cures, settled.cures, sizeof r->cures);
    memcpy(r->verdict, settled.verdict, sizeof r->verdict);
    (void)snprintf(r->reason, sizeof r->reason, "after the first epoch: %.200s", settled.reason);
}

fby_status fby_loader_report(fby_loader *l, fby_report *out, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    const fby__trace *t = &l->engine.trace;
    fby__account_stats a;
    fby_report r;
    fby__account_stats_of(l->engine.account, &a);
    fby__loader_measure(l, &r);
    r.wait_p50_ns = fby__histogram_quantile(&t->wait, 0.50);
    r.wait_p95_ns = fby__histogram_quantile(&t->wait, 0.95);
    r.wait_p99_ns = fby__histogram_quantile(&t->wait, 0.99);
    r.wait_max_ns = load(&l->consumer.wait_max_ns);
    r.budget_peak_bytes = a.peak_bytes;
    r.batches_out = a.out_count;
    r.batches_out_bytes = a.out_bytes;
    r.streams = fby__plan_streams(l->plan);
    r.n_dropped = load(&l->consumer.n_dropped);
    r.n_wrapped = load(&l->consumer.n_wrapped);
    r.n_parts = fby__plan_parts(l->plan);
    r.slice_samples = fby__plan_slice_samples(l->plan);
    r.n_blocks = blocks(&l->memory);
    r.reads_per_block = reads_per_block(l->plan, &l->memory, r.n_blocks);
    r.epoch_bytes = fby__loader_epoch_bytes(l->plan, &l->memory);
    r.files_per_batch = l->mixing.files;
    r.files_per_batch_uniform = l->mixing.files_uniform;
    r.files_per_batch_least = l->mixing.files_least;
    r.same_block = l->mixing.same_block;
    r.same_block_uniform = l->mixing.same_block_uniform;
    r.entropy_bits = l->mixing.entropy_bits;
    r.entropy_bits_uniform = l->mixing.entropy_bits_uniform;
    r.io_engine = l->engine.io ? fby__io_kind_name(fby__io_kind_of(l->engine.io)) : "memory";
    r.n_epochs = fby__history_count(&l->history);
    r.overlap_bytes = l->memory.overlap_bytes;
    r.keep_all_bytes = l->memory.everything_bytes;
    memcpy(r.memory_limit, l->memory.limits.text, sizeof r.memory_limit);
    judge(&l->history, &r);
    describe_mixing(l->plan, &l->config, &r);
    return FBY__SIZED_OUT(fby_report, elapsed_ns, &r, out, err);
}
