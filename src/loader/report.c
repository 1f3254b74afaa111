/* What a loader delivers and where its time goes. */
#include "loader/internal.h"
#include "loader/verdict.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/sized.h"

#include <stdio.h>
#include <string.h>

uint64_t fby_loader_batch_count(const fby_loader *l) { return atomic_load_explicit(&l->consumer.n_batches, memory_order_relaxed); }

uint64_t fby_loader_sample_count(const fby_loader *l) { return atomic_load_explicit(&l->consumer.n_samples, memory_order_relaxed); }

fby_status fby_loader_count_of(fby_loader *l, uint64_t epoch, uint64_t *out_batches, uint64_t *out_samples, fby_error *err)
{
    fby__epoch_counts counts;
    FBY__TRY(fby__loader_check_process(l, err));
    FBY__TRY(fby__loader_count(l, epoch, &counts, err));
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
    const fby__output_source *source = &l->outputs.sources[i];
    if (fby_samples_kind(l->samples) == FBY_SAMPLES_WINDOWS && !source->maker &&
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

static void judge(const fby_loader *l, fby_report *r)
{
    const fby__facts facts = {.batches = r->batches,
                              .epochs = r->epochs_begun,
                              .wait_ns = r->wait_ns,
                              .work_ns = r->work_ns,
                              .first_waits_ns = atomic_load_explicit(&l->consumer.first_batches_ns, memory_order_relaxed),
                              .first_work_ns = atomic_load_explicit(&l->consumer.first_work_ns, memory_order_relaxed),
                              .worker_cpu_ns = r->worker_cpu_ns,
                              .read_ns = r->read_ns,
                              .decompress_ns = r->decompress_ns,
                              .decode_ns = r->decode_ns,
                              .assemble_ns = r->assemble_ns,
                              .transform_ns = r->transform_ns,
                              .n_threads = r->n_threads,
                              .n_cpus = (uint32_t)fby__cpu_count(),
                              .rereads = r->blocks_evicted > 0 || !l->engine.delivery->keeps_blocks};
    fby__verdict(&facts, r);
}

/* Streams' borders cut a block once more each; of a full shuffle, and in file order, every rank may read every block. */
static double reads_per_block(const fby_loader *l)
{
    const fby__shuffle shuffle = fby__plan_shuffle(l->plan);
    uint64_t blocks = 0, reads = fby__plan_streams(l->plan) - 1;
    for (uint32_t b = 0; b < l->memory.n_blocks; b++) {
        blocks += l->memory.cost[b].samples > 0;
        reads += fby__plan_reads_of(l->plan, b);
    }
    if (shuffle == FBY__SHUFFLE_FULL || shuffle == FBY__SHUFFLE_NONE)
        return fby__plan_world_size(l->plan);
    return ratio(reads, blocks);
}

/* One line about the mixing, and what it costs. */
static void describe_mixing(const fby_loader *l, fby_report *r)
{
    int n = snprintf(r->mixing, sizeof r->mixing,
                     "two samples of a batch share a block with chance %.4f (uniform shuffle %.4f); batch entropy over blocks %.2f bits "
                     "(uniform %.2f)",
                     r->same_block, r->same_block_uniform, r->entropy_bits, r->entropy_bits_uniform);
    if (r->slice_samples && n > 0 && (size_t)n < sizeof r->mixing)
        (void)snprintf(
            r->mixing + n, sizeof r->mixing - (size_t)n,
            "; a batch has samples of %.0f files (at least %llu, uniform %.0f), for which each block is read %.1f times an epoch",
            r->files_per_batch, (unsigned long long)r->files_per_batch_least, r->files_per_batch_uniform, r->reads_per_block);
    if (fby__plan_part_is_all(l->plan) && n > 0 && (size_t)n < sizeof r->mixing) /* without diversity or length buckets, or it is cut */
        (void)snprintf(r->mixing + n, sizeof r->mixing - (size_t)n, "; an epoch is all files: no more than the %u of a part are there",
                       l->config.asked.part_files);
    const double growth = fby__plan_growth_share(l->plan);
    if (growth > 0 && n > 0 && (size_t)n < sizeof r->mixing)
        n += snprintf(r->mixing + n, sizeof r->mixing - (size_t)n,
                      "; the first %.0f %% of an epoch mixes over fewer blocks, in smaller superbatches", 100 * growth);
    if (l->config.asked.bucket_samples && n > 0 && (size_t)n < sizeof r->mixing)
        (void)snprintf(r->mixing + n, sizeof r->mixing - (size_t)n,
                       "; padding is %.1f %% of the padded rows (%.1f %% without length buckets)", 100 * r->padding,
                       100 * r->padding_unsorted);
}

fby_status fby_loader_report(fby_loader *l, fby_report *out, fby_error *err)
{
    FBY__TRY(fby__loader_check_process(l, err));
    const fby__trace *t = &l->engine.trace;
    uint64_t begin = atomic_load_explicit(&l->consumer.first_begin_ns, memory_order_relaxed);
    fby__account_stats a;
    fby__account_stats_of(l->engine.account, &a);
    pthread_mutex_lock(&l->schedule.lock);
    uint64_t evicted = fby__cache_evictions(l->schedule.cache);
    pthread_mutex_unlock(&l->schedule.lock);
    fby_report r = {
        .size = sizeof r,
        .epochs_begun = atomic_load_explicit(&l->consumer.epochs_begun, memory_order_relaxed),
        .batches = fby__trace_counter(t, FBY__COUNT_BATCHES),
        .samples = fby__trace_counter(t, FBY__COUNT_SAMPLES),
        .bytes_read = fby__trace_counter(t, FBY__COUNT_BYTES_READ),
        .bytes_decompressed = fby__trace_counter(t, FBY__COUNT_BYTES_DECOMPRESSED),
        .bytes_decoded = fby__trace_counter(t, FBY__COUNT_BYTES_DECODED),
        .bytes_delivered = fby__trace_counter(t, FBY__COUNT_BYTES_DELIVERED),
        .blocks_read = fby__trace_counter(t, FBY__COUNT_BLOCKS_READ),
        .blocks_from_cache = fby__trace_counter(t, FBY__COUNT_BLOCKS_CACHED),
        .blocks_evicted = evicted,
        .elapsed_ns = begin ? fby__now_ns() - begin : 0,
        .first_batch_ns = atomic_load_explicit(&l->consumer.first_batch_ns, memory_order_relaxed),
        .read_ns = atomic_load_explicit(&t->stage_ns[FBY__STAGE_READ], memory_order_relaxed),
        .decompress_ns = atomic_load_explicit(&t->stage_ns[FBY__STAGE_DECOMPRESS], memory_order_relaxed),
        .decode_ns = atomic_load_explicit(&t->stage_ns[FBY__STAGE_DECODE], memory_order_relaxed),
        .assemble_ns = atomic_load_explicit(&t->stage_ns[FBY__STAGE_ASSEMBLE], memory_order_relaxed),
        .transform_ns = atomic_load_explicit(&t->stage_ns[FBY__STAGE_TRANSFORM], memory_order_relaxed),
        .wait_ns = atomic_load_explicit(&t->stage_ns[FBY__STAGE_WAIT], memory_order_relaxed),
        .work_ns = atomic_load_explicit(&t->stage_ns[FBY__STAGE_WORK], memory_order_relaxed),
        .consumer_cpu_ns = atomic_load_explicit(&l->consumer.cpu_ns, memory_order_relaxed),
        .worker_cpu_ns = fby__pool_cpu_ns(l->engine.pool),
        .wait_p50_ns = fby__histogram_quantile(&t->wait, 0.50),
        .wait_p95_ns = fby__histogram_quantile(&t->wait, 0.95),
        .wait_p99_ns = fby__histogram_quantile(&t->wait, 0.99),
        .wait_max_ns = atomic_load_explicit(&l->consumer.wait_max_ns, memory_order_relaxed),
        .budget_bytes = l->memory.budget_bytes,
        .budget_peak_bytes = a.peak_bytes,
        .budget_minimum_bytes = l->memory.minimum_bytes,
        .batches_out = a.out_count,
        .batches_out_bytes = a.out_bytes,
        .superbatch_samples = fby__min_u64(l->config.superbatch_samples, fby_dataset_rows(l->ds)),
        .streams = fby__plan_streams(l->plan),
        .n_threads = (uint32_t)l->config.n_threads,
        .n_dropped = atomic_load_explicit(&l->consumer.n_dropped, memory_order_relaxed),
        .n_wrapped = atomic_load_explicit(&l->consumer.n_wrapped, memory_order_relaxed),
        .n_parts = fby__plan_parts(l->plan),
        .slice_samples = fby__plan_slice_samples(l->plan),
        .reads_per_block = reads_per_block(l),
        .epoch_bytes = fby__loader_epoch_bytes(l),
        .files_per_batch = l->mixing.files,
        .files_per_batch_uniform = l->mixing.files_uniform,
        .files_per_batch_least = l->mixing.files_least,
        .padding = l->mixing.padding,
        .padding_unsorted = l->padding_unsorted,
        .same_block = l->mixing.same_block,
        .same_block_uniform = l->mixing.same_block_uniform,
        .entropy_bits = l->mixing.entropy_bits,
        .entropy_bits_uniform = l->mixing.entropy_bits_uniform,
        .memory_available_bytes = l->memory.limits.available_bytes,
        .memory_limit_bytes = l->memory.limits.limit_bytes,
        .io_engine = l->engine.io ? fby__io_kind_name(fby__io_kind_of(l->engine.io)) : "memory",
    };
    judge(l, &r);
    describe_mixing(l, &r);
    memcpy(r.memory_limit, l->memory.limits.text, sizeof r.memory_limit);
    return FBY__SIZED_OUT(fby_report, elapsed_ns, &r, out, err);
}
