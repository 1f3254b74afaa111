/* Opening and closing a loader: everything that is set once. */
#include "loader/internal.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/condition.h"
#include "base/cpu.h"
#include "base/process.h"
#include "loader/given.h"
#include "options/options.h"

#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 1024, LEAST_OPENERS = 4 };

static fby_status check_options(const fby_loader_opts *opts, fby_error *err)
{
    int ways = (opts->superbatch_samples != 0) + (opts->superbatch_blocks != 0) + (opts->superbatch_bytes != 0);
    if (ways > 1)
        return fby__fail(err, FBY_E_ARG, "give the superbatch in samples, blocks or bytes, not in several");
    if ((opts->batch_size == 0 && opts->batch_elements == 0) || opts->batch_size > UINT32_MAX / 2)
        return fby__fail(err, FBY_E_ARG, "batch_size must be between 1 and %u", UINT32_MAX / 2);
    if (opts->n_threads < 0 || opts->n_threads > 1024)
        return fby__fail(err, FBY_E_ARG, "threads must be between 1 and 1024");
    if (opts->world_size && opts->rank >= opts->world_size)
        return fby__fail(err, FBY_E_ARG, "rank %u is not below the world size %u", opts->rank, opts->world_size);
    if (opts->local_world_size > (opts->world_size ? opts->world_size : 1))
        return fby__fail(err, FBY_E_ARG, "%u ranks on this host are more than the world size %u", opts->local_world_size,
                         opts->world_size ? opts->world_size : 1);
    if ((opts->part_files != 0) + (opts->part_keys != 0) + (opts->n_parts != 0) > 1)
        return fby__fail(err, FBY_E_ARG, "give the parts of an epoch by files, by keys or by their number, not by several");
    if (opts->part_key && !opts->part_keys && !opts->n_parts)
        return fby__fail(err, FBY_E_ARG,
                         "part_key names the keys that parts of an epoch are made of: say how many keys a part has, or how "
                         "many parts there are");
    if (!(opts->slow_next_share >= 0 && opts->slow_next_share < HUGE_VAL))
        return fby__fail(err, FBY_E_ARG, "slow_next_share is a share of the mean step: above 0, such as 0.1, not %g",
                         opts->slow_next_share);
    if (opts->slow_next_ms && opts->slow_next_share > 0)
        return fby__fail(err, FBY_E_ARG, "give slow_next_ms or slow_next_share: a wait is too long by one of them");
    if (opts->transform && opts->transform_pulled)
        return fby__fail(err, FBY_E_ARG, "give a transform, or transform_pulled to transform batches in threads of your own, not both");
    return FBY_OK;
}

static fby_status create_workers(fby_loader *l, fby_error *err)
{
    l->engine.workers = fby__calloc((size_t)l->config.n_threads, sizeof *l->engine.workers);
    if (!l->engine.workers)
        return fby__fail_nomem(err, "the workers");
    for (int i = 0; i < l->config.n_threads; i++) {
        fby__worker *w = &l->engine.workers[i];
        w->item = fby__calloc(l->memory.batch_samples, sizeof *w->item);
        w->sample = fby__calloc(l->memory.batch_samples, sizeof *w->sample);
        w->block_row = fby__calloc(l->memory.batch_samples, sizeof *w->block_row);
        w->first_row = fby__calloc(l->memory.batch_samples, sizeof *w->first_row);
        w->n_rows = fby__calloc(l->memory.batch_samples, sizeof *w->n_rows);
        w->row = fby__calloc(l->memory.batch_samples, sizeof *w->row);
        w->entry = fby__calloc(l->memory.batch_samples, sizeof *w->entry);
        w->id = fby__calloc(l->memory.batch_samples, sizeof *w->id);
        w->repeats = fby__calloc(l->memory.batch_samples, sizeof *w->repeats);
        if (!w->item || !w->sample || !w->block_row || !w->first_row || !w->n_rows || !w->row || !w->entry || !w->id || !w->repeats)
            return fby__fail_nomem(err, "the workers");
        FBY__TRY(fby__made_arrays_create(&l->outputs, &w->made, err));
        if (fby__plan_has_pools(l->plan))
            FBY__TRY(fby__pool_scratch_create(l->plan, &w->sorted, err));
    }
    return FBY_OK;
}

static fby_status create_flights(fby_loader *l, fby_error *err)
{
    l->schedule.flights = fby__calloc(l->config.depth, sizeof *l->schedule.flights);
    l->queue.ring = fby__calloc(l->config.depth, sizeof *l->queue.ring);
    if (l->sources.n > 1 && !(l->queue.of_sources = fby__calloc(l->config.depth, l->sources.n * sizeof *l->queue.of_sources)))
        return fby__fail_nomem(err, "the batches in flight");
    if (!l->schedule.flights || !l->queue.ring)
        return fby__fail_nomem(err, "the batches in flight");
    for (uint32_t i = 0; i < l->config.depth; i++)
        l->schedule.flights[i].loader = l;
    return FBY_OK;
}

/* Cut blocks: where all of a part is live at once, and counted so, or where there is room for all blocks. */
static bool keeps_whole_blocks(const fby__plan *plan, const fby__loader_memory *m)
{
    const bool by_key = fby__plan_spans_hash(plan) != 0;
    return (fby__plan_whole_streams(plan) && !by_key) || m->wanted.rest_bytes <= m->shares.rest_bytes;
}

/* Threads, engine, cache, buffers: once the plan is accepted. */
static fby_status start(fby_loader *l, fby_error *err)
{
    fby__io_opts io = {0};
    bool any_files;
    l->config.transform_ahead = (uint32_t)fby__min_u64(l->config.transform_ahead, l->config.depth);
    FBY__TRY(fby__account_open(l->memory.budget_bytes, &l->engine.account, err));
    fby__account_promise(l->engine.account, l->memory.everything_bytes);
    fby__account_charge(l->engine.account, fby__loader_fixed_bytes(l) + l->memory.max_jobs * l->memory.reads_bytes);
    fby__account_charge(l->engine.account, l->memory.shares.store_bytes);
    if (l->memory.shares.store_bytes)
        FBY__TRY(fby__chunk_store_create(l->memory.shares.store_bytes, NULL, &l->engine.store, err));
    fby__account_set_slack(l->engine.account, l->memory.shares.rest_bytes);
    FBY__TRY(fby__account_pool(l->engine.account, l->memory.dense_batch_bytes, l->memory.max_batches + FBY__SPARE_BATCHES, err));
    if (l->engine.delivery->start)
        FBY__TRY(l->engine.delivery->start(l, err));
    fby__account_values(l->engine.account, fby__loader_values_room(&l->memory));
    uint64_t entries =
        fby__max_u64(l->memory.n_blocks, fby__plan_item_limit(l->plan)) + l->memory.max_jobs + 2 * fby__plan_streams(l->plan);
    if (entries > UINT32_MAX / 2)
        return fby__fail(err, FBY_E_UNSUPPORTED, "%u blocks are more than a loader can schedule", l->memory.n_blocks);
    FBY__TRY(fby__load_cache_create(l, (uint32_t)entries, err));
    FBY__TRY(fby__shared_join(l, err));
    l->schedule.next_epoch_use = fby__calloc(l->memory.n_blocks, sizeof *l->schedule.next_epoch_use);
    l->schedule.ahead.entries = fby__calloc(l->memory.max_jobs, sizeof *l->schedule.ahead.entries);
    if (!l->schedule.next_epoch_use || !l->schedule.ahead.entries)
        return fby__fail_nomem(err, "the schedule");
    FBY__TRY(fby__loader_io_kind(&l->sources, &any_files, &io.kind, err));
    if (any_files)
        FBY__TRY(fby__io_create(&io, &l->engine.io, err));
    FBY__TRY(create_workers(l, err));
    FBY__TRY(create_flights(l, err));
    FBY__TRY(fby__load_jobs_create(l, err));
    l->memory.whole_blocks = keeps_whole_blocks(l->plan, &l->memory);
    if (!(l->engine.token = fby__cancel_create_in(fby__cancel_current()))) /* fits and lookups: a loader that a call waits for */
        return fby__fail_nomem(err, "the loader");
    fby_cancel *before = fby_cancel_use(l->engine.token);
    const fby__stack stack = l->config.transform ? FBY__STACK_SYSTEM : FBY__STACK_OWN;
    fby_status status = fby__pool_create(l->config.n_threads, "forebay", stack, &l->engine.pool, err);
    const uint64_t openers = fby__min_u64(l->memory.max_jobs, fby__max_u64(LEAST_OPENERS, (uint64_t)l->config.n_threads));
    if (status == FBY_OK && any_files) /* where the system has no more threads, workers begin all reads */
        (void)fby__pool_create((int)openers, "forebay-open", FBY__STACK_OWN, &l->engine.openers, NULL);
    (void)fby_cancel_use(before);
    for (uint32_t i = 0; i < l->sources.n; i++)
        l->sources.at[i].reader.pool = l->engine.pool;
    return status;
}

static fby_status init_locks(fby__schedule *s, fby__queue *q, fby_error *err)
{
    const int bad = pthread_mutex_init(&s->lock, NULL) | fby__cond_init(&s->idle) | pthread_mutex_init(&q->lock, NULL) |
                    fby__cond_init(&q->ready) | fby__cond_init(&q->transform.moved);
    return bad ? fby__fail_nomem(err, "the loader's locks") : FBY_OK; /* glibc's initialisers do not fail */
}

#define MAX_PART_RUNS ((size_t)1 << 22) /* 200 MB while a loader is opened, half of it as long as it is open */

/* Parts by key need to know which samples have which key. */
static fby_status read_keys(fby__loader_config *config, const fby_samples *samples, const fby_loader_opts *opts, fby_error *err)
{
    fby__key_spans keys;
    if (!opts->part_keys && !opts->part_key)
        return FBY_OK;
    FBY__TRY(fby__samples_key_spans(samples, opts->part_key, MAX_PART_RUNS, opts->n_threads, &keys, err));
    config->part_spans = fby__calloc(keys.n, sizeof *config->part_spans);
    for (size_t i = 0; config->part_spans && i < keys.n; i++)
        config->part_spans[i] =
            (fby__plan_span){.block = keys.spans[i].block, .key = keys.spans[i].key, .lo = keys.spans[i].lo, .hi = keys.spans[i].hi};
    config->n_part_spans = (uint32_t)keys.n;
    config->n_part_keys = keys.n_keys;
    fby__key_spans_fini(&keys);
    return config->part_spans ? FBY_OK : fby__fail_nomem(err, "the keys of the samples");
}

static void drop_keys(fby__loader_config *config)
{
    fby__free(config->part_spans);
    config->part_spans = NULL;
    config->n_part_spans = config->n_part_keys = 0;
}

/* The most samples of a batch: every sample has a row, so it never has more than rows. */
static void choose_batch_size(fby__loader_config *config, const fby__loader_sources *sources, const fby_loader_opts *opts)
{
    config->batch_size = opts->batch_size ? opts->batch_size : 65536;
    if (opts->batch_elements) {
        config->batch_size = fby__min_u64(config->batch_size, opts->batch_elements);
        if (!opts->batch_size)
            config->batch_size = fby__max_u64(1, fby__min_u64(config->batch_size, fby__loader_samples(sources)));
    }
}

uint32_t fby__loader_paddings(const fby_loader *l, fby__padding *out)
{
    const fby__loader_source *in = &l->sources.at[0];
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->n_outputs; i++) {
        const fby__batch_output *o = &l->outputs.shape->outputs[i];
        if (o->layout != FBY_LAYOUT_PADDED || in->outputs[i].rows != FBY__ROWS_ALL || in->outputs[i].of_sample)
            continue;
        if (out)
            out[n] = (fby__padding){o->max_rows, o->pad_to_max ? o->max_rows : 0, o->multiple_of};
        n++;
    }
    return n;
}

/* How an epoch 0 mixes. out_sources: one a source. */
static fby_status mixing_of(const fby_loader *l, const fby__epoch *epoch, fby__mixing *out, fby__source_mixing *out_sources, fby_error *err)
{
    enum { BATCHES = 64 };
    fby__padding *paddings = fby__calloc(l->outputs.shape->n_outputs, sizeof *paddings);
    if (!paddings)
        return fby__fail_nomem(err, "mixing of an epoch");
    const fby_status status = fby__plan_mixing(epoch, BATCHES, paddings, fby__loader_paddings(l, paddings), out, out_sources, err);
    fby__free(paddings);
    return status;
}

/* How epoch 0 mixes, and what padding would waste without length buckets. */
static fby_status measure(fby_loader *l, const fby_loader_opts *opts, const fby__epoch *first, fby_error *err)
{
    fby__source_mixing *sources = fby__calloc(l->sources.n, sizeof *sources);
    const fby_status measured = sources ? mixing_of(l, first, &l->mixing, sources, err) : fby__fail_nomem(err, "mixing of an epoch");
    for (uint32_t i = 0; sources && i < l->sources.n; i++)
        l->sources.at[i].mixing = sources[i];
    fby__free(sources);
    FBY__TRY(measured);
    l->padding_unsorted = l->mixing.padding;
    if (!l->config.asked.bucket_samples)
        return FBY_OK;
    fby_loader_opts unsorted = *opts;
    fby__plan *plan = NULL;
    fby__epoch *epoch = NULL;
    fby__mixing mixing;
    unsorted.bucket_samples = 0;
    unsorted.streams = fby__plan_world_size(l->plan);
    fby_status status = fby__loader_plan(l, &unsorted, l->config.superbatch_samples, &plan, err);
    if (status == FBY_OK && (status = fby__epoch_create(plan, 0, &epoch, err)) == FBY_OK)
        status = mixing_of(l, epoch, &mixing, NULL, err);
    if (status == FBY_OK)
        l->padding_unsorted = mixing.padding;
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
    return status;
}

fby_status fby__loader_open(const fby__asked_source *asked, uint32_t n, const fby_mix *mix, const fby_loader_opts *opts,
                            fby__memory_giver giver, fby_loader **out, fby_error *err)
{
    FBY__TRY(check_options(opts, err));
    fby_loader *l = fby__calloc(1, sizeof *l);
    if (!l)
        return fby__fail_nomem(err, "a loader");
    fby_status status = init_locks(&l->schedule, &l->queue, err);
    if (status != FBY_OK) {
        fby__free(l);
        return status;
    }
    l->pid = fby__process_id();
    l->config.seed = opts->seed;
    l->config.asked = *opts;
    l->config.asked.outputs = NULL; /* what is borrowed for the call alone */
    l->config.asked.part_key = NULL;
    l->config.mix = mix;
    l->config.giver = giver;
    l->config.n_threads = opts->n_threads ? opts->n_threads : fby__cpu_count();
    l->config.batch_size = opts->batch_size;
    l->config.depth = opts->prefetch_batches ? opts->prefetch_batches : 8;
    l->config.depth = l->config.depth < 2 ? 2 : l->config.depth > MAX_DEPTH ? MAX_DEPTH : l->config.depth;
    l->pump.task.run = fby__loader_pump_task;
    if (opts->transform || opts->transform_pulled)
        l->config.transform_ahead = opts->transform_prefetch ? (uint32_t)fby__min_u64(opts->transform_prefetch, MAX_DEPTH)
                                    : opts->transform        ? l->config.depth
                                                             : 2;
    l->config.depth = (uint32_t)fby__max_u64(l->config.depth, l->config.transform_ahead);
    l->config.transform = opts->transform;
    l->config.transform_user = opts->transform_user;

    fby__epoch *first = NULL;
    uint32_t n_pieces;
    if ((status = fby__history_init(&l->history, err)) != FBY_OK || (status = fby__loader_init_sources(l, asked, n, err)) != FBY_OK ||
        (status = read_keys(&l->config, l->sources.at[0].samples, opts, err)) != FBY_OK)
        goto fail;
    choose_batch_size(&l->config, &l->sources, opts);
    if ((status = fby__loader_resolve_all(l, asked, err)) != FBY_OK || (status = fby__loader_costs(l, err)) != FBY_OK ||
        (status = fby__loader_plan(l, opts, l->config.superbatch_samples = fby__loader_superbatch(&l->sources, opts), &l->plan, err)) !=
            FBY_OK)
        goto fail;
    if (fby__plan_part_units(l->plan)) /* a larger one is the same */
        l->config.superbatch_samples = fby__min_u64(l->config.superbatch_samples, fby__plan_part_samples(l->plan));
    l->memory.batch_samples = fby__plan_batch_limit(l->plan);
    l->config.depth = (uint32_t)fby__max_u64(2, fby__min_u64(l->config.depth, fby__plan_batches_limit(l->plan)));
    l->memory.dense_batch_bytes = fby__pool_slab_bytes(fby__batch_dense_bytes(l->outputs.shape, l->memory.batch_samples));
    if ((status = fby__loader_budget(l, opts, err)) != FBY_OK)
        goto fail;
    if ((status = fby__loader_notes_order(l, opts, err)) != FBY_OK || (status = fby__epoch_create(l->plan, 0, &first, err)) != FBY_OK ||
        (status = measure(l, opts, first, err)) != FBY_OK)
        goto fail;
    for (uint32_t i = 0; opts->transform && !opts->transform_unchecked && i < n; i++)
        if ((status = fby__source_error(&l->sources.at[i], fby__transform_try(asked[i].ds, asked[i].opts, err), err)) != FBY_OK)
            goto fail;
    drop_keys(&l->config);
    l->config.mix = NULL;
    n_pieces = fby__epoch_max_pieces(first);
    l->schedule.ahead.epoch = first; /* comes next, as a rule */
    first = NULL;
    if ((status = fby__loader_show(l, 0, err)) != FBY_OK || (status = start(l, err)) != FBY_OK ||
        (status = fby__loader_grow_pieces(l, n_pieces, err)) != FBY_OK)
        goto fail;
    *out = l;
    return FBY_OK;
fail:
    fby__epoch_destroy(first);
    fby_loader_close(l);
    return status;
}

fby_status fby__loader_open_given(fby_dataset *ds, const fby_loader_opts *opts, fby__memory_giver giver, fby_loader **out, fby_error *err)
{
    fby__arena arena = {0};
    fby_loader_opts o;
    fby_status status = fby__loader_opts_in(opts, &o, &arena, err);
    const fby__asked_source asked = {.name = "", .ds = ds, .samples = o.samples, .opts = &o};
    if (status == FBY_OK)
        status = fby__loader_open(&asked, 1, NULL, &o, giver, out, err);
    fby__arena_fini(&arena);
    return status;
}

fby_status fby_loader_open(fby_dataset *ds, const fby_loader_opts *opts, fby_loader **out, fby_error *err)
{
    return fby__loader_open_given(ds, opts, (fby__memory_giver){0}, out, err);
}

void fby_loader_close(fby_loader *l)
{
    if (!l || l->pid != fby__process_id())
        return; /* a forked child has none of the threads that the rest would wait for: its copy is left as it is */
    if (l->engine.pool)
        (void)fby__loader_epoch_stop(l, false, true, NULL); /* as it closes it cannot be cancelled */
    fby__pool_destroy(l->engine.openers);                   /* hand over to the pool */
    fby__pool_destroy(l->engine.pool);
    fby__history_fini(&l->history);
    fby_cancel_destroy(l->engine.token);
    fby__io_destroy(l->engine.io);
    for (uint32_t i = 0; l->schedule.flights && i < l->config.depth; i++) {
        fby__free(l->schedule.flights[i].pieces);
        fby__free(l->schedule.flights[i].piece_state);
        fby__free(l->schedule.flights[i].staged);
    }
    fby__free(l->schedule.flights);
    fby__free(l->queue.ring);
    fby__free(l->queue.of_sources);
    fby__load_jobs_destroy(l);
    if (l->engine.delivery && l->engine.delivery->fini)
        l->engine.delivery->fini(l);
    fby__chunk_store_destroy(l->engine.store);
    pthread_mutex_lock(&l->schedule.lock); /* a loader that joins it asks what it has (shared.c) */
    fby__cache *cache = l->schedule.cache;
    l->schedule.cache = NULL;
    pthread_mutex_unlock(&l->schedule.lock);
    fby__cache_destroy(cache);
    fby__shared_leave(l);
    fby__file_close_all(l->schedule.closing);
    for (int i = 0; l->engine.workers && i < l->config.n_threads; i++) {
        fby__worker *w = &l->engine.workers[i];
        fby__free(w->item);
        fby__free(w->sample);
        fby__free(w->block_row);
        fby__free(w->first_row);
        fby__free(w->n_rows);
        fby__free((void *)w->row);
        fby__free((void *)w->entry);
        fby__free(w->gathering);
        fby__pool_scratch_destroy(w->sorted);
        fby__free(w->id);
        fby__free(w->repeats);
        fby__made_arrays_destroy(w->made);
        fby__make_scratch_fini(&w->scratch_made);
        fby__make_scratch_fini(&w->scratch_picked);
        fby__make_scratch_fini(&w->scratch_rows);
    }
    fby__free(l->engine.workers);
    fby__epoch_destroy(l->schedule.epoch);
    fby__epoch_destroy(l->schedule.ahead.epoch);
    fby__free((void *)l->schedule.ahead.entries);
    fby__free(l->schedule.phases);
    fby__free((void *)l->schedule.slot_entry);
    fby__free(l->schedule.slot_next);
    fby__free(l->schedule.slot_phase);
    fby__free(l->schedule.next_epoch_use);
    fby__free(l->schedule.error);
    if (l->engine.account) {
        fby__account_retire(l->engine.account);
        fby__account_unref(l->engine.account);
    }
    fby__plan_destroy(l->plan);
    drop_keys(&l->config);
    fby__batch_shape_unref(l->outputs.shape);
    fby__notes_fini(&l->outputs.notes);
    fby__loader_drop_sources(l);
    fby__free(l->memory.cost);
    (void)pthread_mutex_destroy(&l->schedule.lock);
    (void)pthread_cond_destroy(&l->schedule.idle);
    (void)pthread_mutex_destroy(&l->queue.lock);
    (void)pthread_cond_destroy(&l->queue.ready);
    (void)pthread_cond_destroy(&l->queue.transform.moved);
    fby__free(l);
}
