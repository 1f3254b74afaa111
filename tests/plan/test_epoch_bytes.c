/*
 * What an epoch's order is said to take against what it allocates: plans of every kind, over blocks that differ in size by no more than twice,
 * and over those of which one is a thousand times as large.
 */
#include "support/test_seed.h"

#include "base/alloc.h"
#include "plan/plan_orders.h"

#include <stdio.h>

#include <cmocka.h>

enum { MAX_BLOCKS = 600, MAX_SAMPLES = 40, LARGER = 1000, SOURCES = 3, EPOCHS = 3 };

typedef struct blocks {
    uint64_t counts[MAX_BLOCKS], halves[MAX_BLOCKS];
    uint32_t files[MAX_BLOCKS];
    fby__plan_span spans[(MAX_BLOCKS + LARGER) * MAX_SAMPLES];
    uint32_t n, n_spans, n_keys;
    uint64_t samples;
} blocks;

/* Keys of runs of 1 to 3 samples, some of which come again; the first keys have more runs than others. */
static void random_blocks(fby__random *r, bool uneven, blocks *out)
{
    const uint64_t least = 1 + below(r, MAX_SAMPLES / 2);
    *out = (blocks){.n = 1 + (uint32_t)below(r, MAX_BLOCKS)};
    const uint64_t large = uneven ? below(r, out->n) : MAX_BLOCKS;
    for (uint32_t b = 0; b < out->n; b++) {
        out->counts[b] = (least + below(r, least + 1)) * (b == large ? LARGER : 1);
        out->samples += out->counts[b];
        out->halves[b] = (out->counts[b] + 1) / 2;
        out->files[b] = b / 4;
        for (uint64_t lo = 0, hi; lo < out->counts[b]; lo = hi) {
            hi = lo + 1 + below(r, 3);
            hi = hi < out->counts[b] ? hi : out->counts[b];
            const uint32_t key =
                out->n_keys && below(r, 2) ? (uint32_t)below(r, below(r, 2) ? 1 + out->n_keys / 8 : out->n_keys) : out->n_keys++;
            out->spans[out->n_spans++] = (fby__plan_span){b, key, lo, hi};
        }
    }
}

static void lengths(const void *user, const uint32_t *block, const uint64_t *sample, uint32_t n, uint32_t *out)
{
    (void)user;
    for (uint32_t i = 0; i < n; i++)
        out[i] = 1 + (uint32_t)((block[i] * 31 + sample[i] * 7) % 19);
}

static uint64_t total_length(const blocks *b)
{
    uint64_t total = 0;
    for (uint32_t block = 0; block < b->n; block++)
        for (uint64_t sample = 0; sample < b->counts[block]; sample++) {
            uint32_t length;
            lengths(NULL, &block, &sample, 1, &length);
            total += length;
        }
    return total;
}

static void half_of_each(const void *user, uint64_t epoch, uint64_t *out)
{
    const blocks *b = user;
    (void)epoch;
    for (uint32_t i = 0; i < b->n; i++)
        out[i] = b->halves[i];
}

static void as_they_lie(const void *user, uint64_t epoch, const uint32_t *block, uint64_t *io_sample, uint32_t n)
{
    (void)user, (void)epoch, (void)block, (void)io_sample, (void)n;
}

static fby__plan_opts random_options(fby__random *r, uint64_t samples)
{
    static const uint32_t worlds[] = {1, 1, 2, 4};
    fby__plan_opts o = {.shuffle = (fby__shuffle)below(r, 4),
                        .tail = (fby__tail)(below(r, 2) ? FBY__TAIL_KEEP : FBY__TAIL_WRAP),
                        .seed = fby__random_next(r),
                        .superbatch_samples = 1 + below(r, samples + samples / 2),
                        .streams = 8,
                        .no_warmup = below(r, 2),
                        .world_size = worlds[below(r, 4)]};
    o.rank = (uint32_t)below(r, o.world_size);
    o.global_batch = 8 * (1 + below(r, 12));
    return o;
}

static bool no_more(fby__allowance *allowance, size_t bytes)
{
    (void)allowance, (void)bytes;
    return false;
}

/* How many times as much as the largest of some epochs takes they are said to take; none takes more. */
static double check(const fby__plan *plan, const char *kind)
{
    const uint64_t one = fby__plan_epoch_bytes(plan), said = one + fby__plan_anew_bytes(plan);
    /* What is there meanwhile is no more than another order and fby__plan_making_bytes; a mixture's other passes are made once. */
    const size_t room = said + one + fby__plan_making_bytes(plan) + fby__plan_pool_bytes(plan);
    uint64_t most = 0;
    for (uint64_t number = 0; number < EPOCHS; number++) {
        fby__allowance all = {.left = room, .more = no_more};
        fby__epoch *epoch;
        fby_error err;
        fby__allowance *before = fby__alloc_within(&all);
        const fby_status status = fby__epoch_create(plan, number, &epoch, &err);
        (void)fby__alloc_within(before);
        if (status != FBY_OK)
            fail_msg("%s: %s", kind, err.message);
        const uint64_t took = room - all.left;
        if (took > said)
            fail_msg("%s, shuffle %d: an epoch takes %llu bytes, and is said to take %llu", kind, (int)fby__plan_shuffle(plan),
                     (unsigned long long)took, (unsigned long long)said);
        most = took > most ? took : most;
        fby__epoch_destroy(epoch);
    }
    return (double)said / (double)most;
}

static double try_plan(const blocks *b, const fby__plan_opts *o, const char *kind)
{
    fby__plan *plan;
    fby_error err;
    const fby_status status = fby__plan_create(b->counts, b->n, o, &plan, &err);
    if (status == FBY_E_ARG) /* these do not fit each other: as few samples as streams */
        return 0;
    assert_int_equal(status, FBY_OK);
    const double times = check(plan, kind);
    fby__plan_destroy(plan);
    return times;
}

static double try_mixture(fby__random *r, const blocks *b, const fby__plan_opts *o)
{
    double weights[SOURCES];
    fby__mix_source sources[SOURCES];
    static const char *const NAMES[SOURCES] = {"a", "b", "c"};
    for (uint32_t i = 0; i < SOURCES; i++) {
        sources[i] = (fby__mix_source){NAMES[i], b->counts, i ? 1 + b->n / (4 * i) : b->n, b->files};
        weights[i] = (double)(1 + below(r, 9));
    }
    const fby__mix_opts mix = {sources, SOURCES, below(r, 3) ? weights : NULL, 1, (fby__mix_stop)below(r, 2), 0};
    fby__plan *plan;
    fby_error err;
    const fby_status status = fby__plan_create_mix(&mix, o, &plan, &err);
    if (status == FBY_E_ARG)
        return 0;
    assert_int_equal(status, FBY_OK);
    const double times = check(plan, "a mixture");
    fby__plan_destroy(plan);
    return times;
}

enum { PLAIN, FILES, KEYS, DRAWS, BY_ROWS, BUCKETS, SLICES, MIXTURE, KINDS };
static const char *const KIND[KINDS] = {"plain",           "parts of files", "parts of keys", "draws",
                                        "batches by rows", "length buckets", "slices",        "a mixture"};

static void check_kinds(bool uneven)
{
    static blocks b;
    fby__random random = {.key = test_seed()};
    double most[KINDS] = {0};
    unsigned n[KINDS] = {0};
    for (int round = 0; round < 100 * KINDS; round++) {
        const int kind = round % KINDS;
        random_blocks(&random, uneven, &b);
        fby__plan_opts o = random_options(&random, b.samples);
        if (uneven && o.world_size == 4) { /* of more ranks an order is a small share of what is there while it is made */
            o.world_size = 8;
            o.rank += 4 * (uint32_t)below(&random, 2);
        }
        o.files = kind == PLAIN || kind == FILES || kind == SLICES ? b.files : NULL;
        if (kind == FILES)
            o.part_files = 1 + (uint32_t)below(&random, (b.n + 3) / 4);
        if (kind == KEYS) {
            o.spans = b.spans;
            o.n_spans = b.n_spans;
            o.n_keys = b.n_keys;
            o.part_keys = 1 + (uint32_t)below(&random, b.n_keys);
        }
        if (kind == DRAWS) {
            o.draws = (fby__plan_draws){0, half_of_each, as_they_lie, &b, below(&random, 2) ? b.halves : NULL};
            for (uint32_t i = 0; i < b.n; i++)
                o.draws.n += b.halves[i];
        }
        if (kind == BY_ROWS || kind == BUCKETS) {
            o.lengths = lengths;
            o.batch_elements = kind == BY_ROWS || below(&random, 2) ? 1 + below(&random, 400) : 0;
            o.elements = below(&random, 2) ? total_length(&b) : 0;
        }
        if (kind == BUCKETS) {
            o.shuffle = below(&random, 2) ? FBY__SHUFFLE_SUPERBATCH : FBY__SHUFFLE_FULL;
            o.bucket_samples = 1 + below(&random, 300);
        }
        if (kind == SLICES) {
            o.shuffle = FBY__SHUFFLE_SUPERBATCH;
            o.superbatch_samples = 1 + b.samples / (2 + below(&random, 8));
            if (uneven) /* slices of the large block would be too small for a floor on files */
                o.max_superbatch_batches = 2 + (uint32_t)below(&random, 100);
            else
                o.diversity_files = 1 + (uint32_t)below(&random, 1 + b.n / 16);
        }
        const bool unknown = o.lengths && o.batch_elements && !o.elements; /* then every sample may be a batch */
        const double times = kind == MIXTURE ? try_mixture(&random, &b, &o) : try_plan(&b, &o, KIND[kind]);
        n[kind] += times > 0;
        most[kind] = times > most[kind] && !unknown ? times : most[kind];
    }
    for (int kind = 0; kind < KINDS; kind++) {
        print_message("%s: %u plans, at most %.1f times what an epoch takes\n", KIND[kind], n[kind], most[kind]);
        assert_true(n[kind] >= 30);
        /* Of keys, what the largest part takes may be far more than what those do that came; so may what others have than the large block. */
        assert_true(uneven || kind == KEYS || most[kind] < (kind == BY_ROWS || kind == BUCKETS ? 5 : 4));
    }
}

static void an_epoch_takes_no_more_than_it_is_said_to_take(void **state)
{
    (void)state;
    check_kinds(false);
}

static void nor_where_one_block_is_a_thousand_times_as_large(void **state)
{
    (void)state;
    check_kinds(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_epoch_takes_no_more_than_it_is_said_to_take),
                                       cmocka_unit_test(nor_where_one_block_is_a_thousand_times_as_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
