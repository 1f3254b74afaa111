/*
 * The order of an epoch again, in the most straightforward way: every sample in a list, O(N) memory, no ranks. The plan
 * must agree with it for every world size. It shares only the keyed permutation and the random numbers with the plan.
 */
#ifndef FBY_TESTS_PLAN_ORDER_TWIN_H
#define FBY_TESTS_PLAN_ORDER_TWIN_H

#include "plan/plan.h"

#include "base/random.h"

#include <stdlib.h>

typedef struct sample_id {
    uint32_t block;
    uint64_t sample;
} sample_id;

typedef struct order {
    sample_id *ids; /* all batches after each other */
    uint64_t n;
    uint64_t n_batches;
    uint64_t *ends; /* of each batch in ids */
} order;

static inline uint64_t twin_gcd(uint64_t a, uint64_t b) { return b ? twin_gcd(b, a % b) : a; }

static inline void order_fini(order *o)
{
    free(o->ids);
    free(o->ends);
}

static inline uint64_t twin_key(uint64_t seed, uint64_t epoch, uint64_t domain) { return fby__random_u64(seed, epoch, domain); }

/* Permutes the samples of one stream phase by phase; returns where the last phase begins. */
static inline uint64_t twin_mix_stream(sample_id *ids, uint64_t n, uint64_t stream, uint64_t n_streams, uint64_t limit, bool no_warmup,
                                       uint64_t key)
{
    uint64_t begin = 0, ordinal = 0;
    sample_id *phase = malloc((n + 1) * sizeof *phase);
    for (;; ordinal++) {
        const uint64_t shorter = limit - limit * stream / n_streams;
        const uint64_t grown[] = {limit / 8, limit / 4, limit / 2, shorter}, full[] = {limit, shorter, limit, limit};
        uint64_t room = ordinal > 3 ? limit : (no_warmup ? full : grown)[ordinal];
        uint64_t end = begin;
        while (end < n) { /* one item more: the samples of the same block that follow */
            uint64_t next = end + 1;
            while (next < n && ids[next].block == ids[end].block)
                next++;
            if (end > begin && next - begin > room)
                break;
            end = next;
        }
        for (uint64_t j = begin; j < end; j++)
            phase[j - begin] = ids[begin + fby__permute(fby__random_u64(key, begin, stream), end - begin, j - begin)];
        for (uint64_t j = begin; j < end; j++)
            ids[j] = phase[j - begin];
        if (end == n)
            break;
        begin = end;
    }
    free(phase);
    return begin;
}

static inline order twin_order(const uint64_t *counts, uint32_t n_blocks, const fby__plan_opts *opts, uint64_t epoch)
{
    uint32_t *blocks = malloc((n_blocks + 1) * sizeof *blocks), n_nonzero = 0;
    uint64_t n = 0;
    for (uint32_t b = 0; b < n_blocks; b++) {
        n += counts[b];
        if (counts[b])
            blocks[n_nonzero++] = b;
    }
    fby__shuffle shuffle = opts->shuffle;
    if (shuffle == FBY__SHUFFLE_SUPERBATCH && n <= opts->superbatch_samples)
        shuffle = FBY__SHUFFLE_FULL;
    if (shuffle == FBY__SHUFFLE_SUPERBATCH || shuffle == FBY__SHUFFLE_BLOCK) {
        fby__random random = {.key = twin_key(opts->seed, epoch, 1)};
        for (uint32_t i = n_nonzero; i-- > 1;) {
            uint64_t j = fby__random_below(&random, i + 1);
            uint32_t t = blocks[i];
            blocks[i] = blocks[j];
            blocks[j] = t;
        }
    }
    sample_id *all = malloc((n + 1) * sizeof *all), *mixed = malloc((n + 1) * sizeof *mixed);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n_nonzero; i++) {
        for (uint64_t j = 0; j < counts[blocks[i]]; j++)
            all[at++] = (sample_id){blocks[i], j};
    }
    const uint64_t key = twin_key(opts->seed, epoch, 2), g = opts->global_batch;
    const uint64_t streams = shuffle == FBY__SHUFFLE_NONE ? 1 : twin_gcd(opts->streams, g), q = g / streams;
    uint64_t *last = calloc(streams, sizeof *last);
    for (uint64_t s = 0; s < streams; s++) {
        uint64_t begin = s * n / streams, end = (s + 1) * n / streams;
        if (shuffle == FBY__SHUFFLE_SUPERBATCH) {
            last[s] = twin_mix_stream(all + begin, end - begin, s, streams,
                                      opts->superbatch_samples / streams ? opts->superbatch_samples / streams : 1, opts->no_warmup, key);
        } else if (shuffle != FBY__SHUFFLE_FULL) {
            for (uint64_t j = begin; j < end; j++) {
                if (j == begin || all[j].block != all[j - 1].block)
                    last[s] = j - begin;
            }
        }
    }
    for (uint64_t j = 0; j < n; j++)
        mixed[j] = all[shuffle == FBY__SHUFFLE_FULL ? fby__permute(key, n, j) : j];

    order o = {0};
    o.n_batches = opts->tail == FBY__TAIL_DROP ? n / g : (n + g - 1) / g;
    o.ids = malloc((n + g) * sizeof *o.ids);
    o.ends = malloc((o.n_batches + 1) * sizeof *o.ends);
    for (uint64_t b = 0; b < o.n_batches; b++) {
        for (uint64_t s = 0; s < streams; s++) {
            uint64_t begin = s * n / streams, length = (s + 1) * n / streams - begin;
            for (uint64_t p = b * q; p < (b + 1) * q; p++) {
                if (p < length)
                    o.ids[o.n++] = mixed[begin + p];
                else if (opts->tail == FBY__TAIL_WRAP)
                    o.ids[o.n++] = mixed[begin + last[s] + (p - length) % (length - last[s])];
            }
        }
        o.ends[b] = o.n;
    }
    free(blocks);
    free(all);
    free(mixed);
    free(last);
    return o;
}

#endif
