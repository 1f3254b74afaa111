/*
 * Is the shuffle without bias? Chi-square over 1,000 seeds.
 *
 * FULL claims a uniform permutation of all samples, whatever the blocks: every sample is equally often at every
 * position and in every slot of a batch, and any two samples share a batch with chance (G-1)/(N-1).
 *
 * SUPERBATCH cannot claim that: samples of one block stay near each other. What holds, and is tested:
 *   (a) every order of the blocks is equally likely;
 *   (b) within a phase, whatever blocks it holds, its samples are permuted uniformly, so that with phases that begin
 * and end at batch borders every sample is equally often in every slot, and two samples of a phase of n share a batch
 *       with chance (G-1)/(n-1);
 *   (c) with one block, a stream is a range of its rows, permuted uniformly.
 *
 * Each test is also run on an order with a fault of its kind, which it must see.
 */
#include "plan/chi_square.h"
#include "plan/plan.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS 1000u
#define MAX_SAMPLES 128

typedef struct dataset {
    uint64_t counts[8];
    uint32_t n_blocks;
    fby__plan_opts opts;
} dataset;

/* One epoch in delivery order: sequence[k] is the running number (blocks after each other) of the k-th sample. */
typedef uint64_t (*sequencer)(const dataset *data, uint64_t seed, uint32_t *sequence);

static uint64_t first_of_block(const dataset *data, uint32_t block)
{
    uint64_t first = 0;
    for (uint32_t b = 0; b < block; b++)
        first += data->counts[b];
    return first;
}

static fby__epoch *make_epoch(const dataset *data, uint64_t seed, fby__plan **plan)
{
    fby__plan_opts o = data->opts;
    fby_error err;
    fby__epoch *epoch = NULL;
    o.seed = seed;
    o.world_size = 1;
    if (fby__plan_create(data->counts, data->n_blocks, &o, plan, &err) != FBY_OK ||
        fby__epoch_create(*plan, seed % 3, &epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return epoch;
}

static uint64_t planned(const dataset *data, uint64_t seed, uint32_t *sequence)
{
    fby__plan *plan;
    fby__epoch *epoch = make_epoch(data, seed, &plan);
    uint64_t n = epoch->n_samples;
    assert_true(n <= MAX_SAMPLES);
    for (uint64_t k = 0; k < n; k++) {
        uint32_t block;
        uint64_t sample;
        fby__epoch_sample(epoch, k, &block, &sample);
        sequence[k] = (uint32_t)(first_of_block(data, block) + sample);
    }
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
    return n;
}

/* A fault: the samples begin at a random place, then come in order. Positions and slots are uniform, neighbours are
 * not. */
static uint64_t rotated(const dataset *data, uint64_t seed, uint32_t *sequence)
{
    uint64_t n = first_of_block(data, data->n_blocks), from = fby__random_u64(seed, 1, 2) % n;
    for (uint64_t k = 0; k < n; k++)
        sequence[k] = (uint32_t)((from + k) % n);
    return n;
}

/* A fault: swaps with any element, so that some positions are likelier. */
static uint64_t careless(const dataset *data, uint64_t seed, uint32_t *sequence)
{
    fby__random random = {.key = seed, .stream = 9};
    uint64_t n = first_of_block(data, data->n_blocks);
    for (uint32_t k = 0; k < n; k++)
        sequence[k] = k;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t j = fby__random_below(&random, n);
        uint32_t t = sequence[k];
        sequence[k] = sequence[j];
        sequence[j] = t;
    }
    return n;
}

/* A fault: shuffled, then sorted within each batch, so that a low sample is in a low slot. */
static uint64_t sorted_in_batch(const dataset *data, uint64_t seed, uint32_t *sequence)
{
    uint64_t n = planned(data, seed, sequence), g = data->opts.global_batch;
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = i + 1; j < n && j / g == i / g; j++) {
            if (sequence[j] < sequence[i]) {
                uint32_t t = sequence[i];
                sequence[i] = sequence[j];
                sequence[j] = t;
            }
        }
    }
    return n;
}

typedef struct scores {
    double position;     /* over all samples and positions */
    double position_one; /* of the worst single sample */
    double slot, slot_one;
    double pair;        /* of the worst pair of samples */
    double block_pairs; /* same-block pairs in one batch, all together */
} scores;

static double larger(double a, double b) { return fabs(b) > fabs(a) ? b : a; }

static uint32_t block_of(const dataset *data, uint32_t id)
{
    uint32_t b = 0;
    while (id >= first_of_block(data, b + 1))
        b++;
    return b;
}

/* Scores an order against the claims of FULL. N is a multiple of G. */
static scores score_uniform(const dataset *data, sequencer sequence_of)
{
    static uint32_t positions[MAX_SAMPLES * MAX_SAMPLES], slots[MAX_SAMPLES * MAX_SAMPLES], pairs[MAX_SAMPLES][MAX_SAMPLES];
    uint32_t sequence[MAX_SAMPLES];
    const uint64_t n = first_of_block(data, data->n_blocks), g = data->opts.global_batch;
    for (size_t i = 0; i < (size_t)MAX_SAMPLES * MAX_SAMPLES; i++)
        positions[i] = slots[i] = pairs[i / MAX_SAMPLES][i % MAX_SAMPLES] = 0;
    double sum = 0, sum_squares = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(sequence_of(data, seed, sequence), n);
        uint32_t same_block = 0;
        for (uint64_t k = 0; k < n; k++) {
            positions[sequence[k] * n + k]++;
            slots[sequence[k] * g + k % g]++;
            for (uint64_t j = k - k % g; j < k; j++) {
                uint32_t a = sequence[j] < sequence[k] ? sequence[j] : sequence[k];
                uint32_t b = sequence[j] < sequence[k] ? sequence[k] : sequence[j];
                pairs[a][b]++;
                same_block += block_of(data, a) == block_of(data, b);
            }
        }
        sum += same_block;
        sum_squares += (double)same_block * same_block;
    }
    scores z = {0};
    z.position = permutation_z(positions, n, n, SEEDS);
    z.slot = permutation_z(slots, n, g, SEEDS);
    const double together = ((double)g - 1) / ((double)n - 1);
    double block_pairs = 0;
    for (uint32_t a = 0; a < n; a++) {
        z.position_one = larger(z.position_one, uniform_z(positions + a * n, n));
        z.slot_one = larger(z.slot_one, uniform_z(slots + a * g, g));
        for (uint32_t b = a + 1; b < n; b++) {
            z.pair = larger(z.pair, binomial_z(pairs[a][b], SEEDS, together));
            block_pairs += block_of(data, a) == block_of(data, b);
        }
    }
    /* The seeds are independent: their mean is normal, with the deviation that they show. */
    double mean = sum / SEEDS, variance = sum_squares / SEEDS - mean * mean;
    if (data->n_blocks > 1)
        z.block_pairs = (mean - block_pairs * together) / sqrt((variance + 1e-9) / SEEDS);
    return z;
}

static void assert_unbiased(const char *name, scores z)
{
    print_message("%s: z of positions %.2f (%.2f), slots %.2f (%.2f), pairs %.2f, same-block pairs %.2f\n", name, z.position,
                  z.position_one, z.slot, z.slot_one, z.pair, z.block_pairs);
    const double all[] = {z.position, z.position_one, z.slot, z.slot_one, z.pair, z.block_pairs};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_true(fabs(all[i]) < Z_LIMIT);
}

static const dataset unequal = {
    {1, 7, 0, 12, 3, 9}, 6, {.shuffle = FBY__SHUFFLE_FULL, .global_batch = 8, .superbatch_samples = 1000, .streams = 4}};
static const dataset single = {{48}, 1, {.shuffle = FBY__SHUFFLE_SUPERBATCH, .global_batch = 6, .superbatch_samples = 48, .streams = 3}};

static void a_full_shuffle_of_unequal_blocks_is_uniform(void **state)
{
    (void)state;
    assert_unbiased("unequal blocks", score_uniform(&unequal, planned));
}

static void a_single_block_no_larger_than_a_superbatch_is_shuffled_uniformly(void **state)
{
    (void)state;
    assert_unbiased("single block", score_uniform(&single, planned));
}

static void faults_in_an_order_are_seen(void **state)
{
    (void)state;
    assert_true(score_uniform(&unequal, rotated).pair > Z_LIMIT);
    assert_true(score_uniform(&unequal, rotated).block_pairs > Z_LIMIT);
    assert_true(score_uniform(&unequal, careless).position > Z_LIMIT);
    assert_true(score_uniform(&unequal, sorted_in_batch).slot > Z_LIMIT);
    assert_true(score_uniform(&single, careless).position > Z_LIMIT);
    dataset blocks = unequal; /* a weaker shuffle, taken for a full one */
    blocks.opts.shuffle = FBY__SHUFFLE_SUPERBATCH;
    blocks.opts.superbatch_samples = 16;
    blocks.opts.streams = 1;
    assert_true(score_uniform(&blocks, planned).block_pairs > Z_LIMIT);
}

/* ---- superbatch ---- */

static void every_order_of_blocks_is_equally_likely(void **state) /* (a) */
{
    (void)state;
    const dataset data = {
        {4, 9, 1, 0, 16, 2}, 6, {.shuffle = FBY__SHUFFLE_SUPERBATCH, .global_batch = 4, .superbatch_samples = 20, .streams = 1}};
    const uint32_t rank_of_block[] = {0, 1, 2, UINT32_MAX, 3, 4};
    uint32_t places[25] = {0}, orders[120] = {0};
    for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
        fby__plan *plan;
        fby__epoch *epoch = make_epoch(&data, seed, &plan);
        uint32_t order[5], n = 0, code = 0;
        for (uint32_t p = 0; p < epoch->n_phases; p++) { /* one stream: schedule order is position order */
            for (uint32_t i = 0; i < epoch->phases[p].n_items; i++)
                order[n++] = rank_of_block[epoch->phases[p].items[i].block];
        }
        assert_int_equal(n, 5);
        for (uint32_t i = 0; i < 5; i++) {
            uint32_t smaller = 0;
            for (uint32_t j = i + 1; j < 5; j++)
                smaller += order[j] < order[i];
            code = code * (5 - i) + smaller;
            places[order[i] * 5 + i]++;
        }
        orders[code]++;
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
    }
    double place = permutation_z(places, 5, 5, 4 * SEEDS), order = uniform_z(orders, 120);
    print_message("z of block places %.2f, block orders %.2f\n", place, order);
    assert_true(fabs(place) < Z_LIMIT && fabs(order) < Z_LIMIT);
}

static void the_samples_of_a_superbatch_are_permuted_uniformly(void **state) /* (b) */
{
    (void)state;
    enum { N = 16, G = 4 };
    /* Equal blocks: from the fourth phase on, each has N samples of two blocks. Element: item * 8 + row. */
    const dataset data = {
        {8, 8, 8, 8, 8, 8, 8, 8}, 8, {.shuffle = FBY__SHUFFLE_SUPERBATCH, .global_batch = G, .superbatch_samples = N, .streams = 1}};
    uint32_t positions[N * N] = {0}, neighbours[N * N] = {0}, together[N][N] = {{0}};
    double n_phases = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fby__plan *plan;
        fby__epoch *epoch = make_epoch(&data, seed, &plan);
        for (uint32_t p = 3; p < epoch->n_phases && epoch->phases[p].n_samples == N; p++) {
            uint32_t item[N], element[N];
            uint64_t sample[N];
            assert_int_equal(epoch->phases[p].begin % G, 0);
            fby__epoch_resolve(epoch, p, 0, N, item, sample);
            for (uint32_t k = 0; k < N; k++) {
                element[k] = item[k] * 8 + (uint32_t)sample[k];
                positions[element[k] * N + k]++;
                for (uint32_t j = k - k % G; j < k; j++)
                    together[element[j] < element[k] ? element[j] : element[k]][element[j] < element[k] ? element[k] : element[j]]++;
            }
            neighbours[element[0] * N + element[1]]++;
            n_phases++;
        }
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
    }
    uint32_t n_cells = 0;
    for (uint32_t i = 0; i < N * N; i++) {
        if (i / N != i % N)
            neighbours[n_cells++] = neighbours[i];
    }
    double position = permutation_z(positions, N, N, n_phases), pair = uniform_z(neighbours, n_cells), worst = 0;
    for (uint32_t a = 0; a < N; a++) {
        for (uint32_t b = a + 1; b < N; b++)
            worst = larger(worst, binomial_z(together[a][b], n_phases, (G - 1.0) / (N - 1.0)));
    }
    print_message("%.0f phases: z of positions %.2f, first pairs %.2f, pairs in a batch %.2f\n", n_phases, position, pair, worst);
    assert_true(n_phases >= 2 * SEEDS);
    assert_true(fabs(position) < Z_LIMIT && fabs(pair) < Z_LIMIT && worst < Z_LIMIT);
}

static void with_unequal_blocks_every_sample_is_equally_often_in_every_slot(void **state) /* (b) */
{
    (void)state;
    enum { G = 4 }; /* divides every block, so that phases begin and end at batch borders */
    const dataset data = {
        {4, 20, 8, 0, 16, 12, 4, 24}, 8, {.shuffle = FBY__SHUFFLE_SUPERBATCH, .global_batch = G, .superbatch_samples = 40, .streams = 1}};
    const uint64_t n = first_of_block(&data, data.n_blocks);
    static uint32_t slots[MAX_SAMPLES * G];
    uint32_t sequence[MAX_SAMPLES];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(planned(&data, seed, sequence), n);
        for (uint64_t k = 0; k < n; k++)
            slots[sequence[k] * G + k % G]++;
    }
    double worst = 0;
    for (uint64_t a = 0; a < n; a++) /* sample by sample: phases couple the samples, and differ from seed to seed */
        worst = larger(worst, uniform_z(slots + a * G, G));
    print_message("largest z of a sample's slots %.2f\n", worst);
    assert_true(fabs(worst) < Z_LIMIT);
}

static void one_large_block_is_permuted_uniformly_within_each_stream(void **state) /* (c) */
{
    (void)state;
    enum { N = 64, S = 2, G = 8, HALF = N / S };
    const dataset data = {{N}, 1, {.shuffle = FBY__SHUFFLE_SUPERBATCH, .global_batch = G, .superbatch_samples = 16, .streams = S}};
    uint32_t positions[S][HALF * HALF] = {{0}}, joint[HALF * HALF] = {0}, sequence[MAX_SAMPLES];
    for (uint64_t seed = 0; seed < SEEDS * 8; seed++) {
        assert_int_equal(planned(&data, seed, sequence), N);
        for (uint32_t k = 0; k < N; k++) {
            uint32_t stream = k % G / (G / S), position = k / G * (G / S) + k % (G / S);
            assert_int_equal(sequence[k] / HALF, stream);
            positions[stream][sequence[k] % HALF * HALF + position]++;
        }
        joint[sequence[0] * HALF + sequence[G / S] % HALF]++; /* the first samples of the streams: independent */
    }
    double z0 = permutation_z(positions[0], HALF, HALF, SEEDS * 8), z1 = permutation_z(positions[1], HALF, HALF, SEEDS * 8);
    double independent = uniform_z(joint, HALF * HALF);
    print_message("z of positions in each stream %.2f, %.2f; of the streams' first samples together %.2f\n", z0, z1, independent);
    assert_true(fabs(z0) < Z_LIMIT && fabs(z1) < Z_LIMIT && fabs(independent) < Z_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_shuffle_of_unequal_blocks_is_uniform),
        cmocka_unit_test(a_single_block_no_larger_than_a_superbatch_is_shuffled_uniformly),
        cmocka_unit_test(faults_in_an_order_are_seen),
        cmocka_unit_test(every_order_of_blocks_is_equally_likely),
        cmocka_unit_test(the_samples_of_a_superbatch_are_permuted_uniformly),
        cmocka_unit_test(with_unequal_blocks_every_sample_is_equally_often_in_every_slot),
        cmocka_unit_test(one_large_block_is_permuted_uniformly_within_each_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
