/* Mixtures: the proportions, the ends, and one sequence for every number of ranks. */
#include "plan/mixtures.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANY_SEED 20261124u
#define NEAR 7.0 /* samples: what a source may have more or less than its weight says, in any stretch of batches */

static fby__plan *plan_of(const void *user, uint32_t rank, uint32_t world)
{
    fby__plan *plan = NULL;
    fby_error err;
    if (try_plan(user, rank, world, &plan, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return plan;
}

static double weight_of(const mixture *m, uint64_t epoch, uint32_t source)
{
    double sum = 0, own = 0;
    const uint64_t row = epoch < m->mix.n_epochs ? epoch : m->mix.n_epochs - 1;
    for (uint32_t i = 0; i < m->mix.n_sources; i++) {
        const double w = m->mix.weights ? m->weights[row * m->mix.n_sources + i] : (double)m->sizes[i];
        sum += w;
        own = i == source ? w : own;
    }
    return own / sum;
}

static uint32_t source_of(const fby__plan *plan, uint32_t block)
{
    uint32_t i = 0;
    while (fby__plan_source_first(plan, i + 1) <= block)
        i++;
    return i;
}

static int n_with_places; /* epochs */
/* From samples to batches: every slot that pieces have has the sample that is sent there, and nothing else is sent. */
static void check_places(const fby__plan *plan, fby__epoch *epoch)
{
    const uint64_t told = epoch->n_batches - (epoch->n_wrapped > 0), limit = fby__plan_reach_limit(plan);
    uint64_t n_sent = 0, n_told = 0, most = fby__plan_global_batch(plan);
    uint32_t *block = malloc((epoch->n_batches * most + 1) * sizeof *block), cap = fby__epoch_max_pieces(epoch);
    uint64_t *sample = malloc((epoch->n_batches * most + 1) * sizeof *sample);
    fby__plan_piece *pieces = calloc(cap + 1, sizeof *pieces);
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        const fby__plan_phase *phase = &epoch->phases[p];
        assert_true(phase->last_batch - phase->first_batch < limit);
        assert_int_equal(fby__epoch_destinations_begin(epoch, p, NULL), FBY_OK);
        for (uint32_t i = 0; i < phase->n_items; i++) {
            fby__destination place[4096];
            const fby__plan_item *item = &phase->items[i];
            const uint32_t all = (uint32_t)(item->hi - item->lo), first = all / 3;
            fby__epoch_destinations(epoch, p, i, 0, first, place); /* in two parts */
            fby__epoch_destinations(epoch, p, i, first, all - first, place + first);
            for (uint32_t k = 0; k < all; k++) {
                const uint64_t b = phase->first_batch + place[k].batch;
                if (place[k].batch == FBY__NOWHERE)
                    continue;
                assert_true(b <= phase->last_batch && b < told && place[k].slot < fby__epoch_batch_size(epoch, b));
                block[b * most + place[k].slot] = item->block;
                sample[b * most + place[k].slot] = item->lo + k;
                n_sent++;
            }
        }
        if (p % 2) /* the others end with the epoch */
            fby__epoch_destinations_end(epoch, p);
    }
    for (uint64_t b = 0; b < told; b++) {
        for (uint32_t p = 0, n = fby__epoch_pieces(epoch, b, pieces, cap); p < n; p++) {
            uint32_t item[4096];
            uint64_t at[4096];
            fby__epoch_resolve(epoch, pieces[p].phase, pieces[p].index, pieces[p].n, item, at);
            for (uint32_t j = 0; j < pieces[p].n; j++, n_told++) {
                const uint64_t slot = b * most + pieces[p].slot + j;
                assert_int_equal(block[slot], epoch->phases[pieces[p].phase].items[item[j]].block);
                assert_int_equal(sample[slot], at[j]);
            }
        }
    }
    assert_int_equal(n_sent, n_told);
    n_with_places++;
    free(block), free(sample), free(pieces);
}
/* A rank's epoch, batch by batch: what pieces and phases promise, and how often each sample came (repeats aside). */
static void read_epoch(const mixture *m, const fby__plan *plan, fby__epoch *epoch, uint64_t *io_seen, uint64_t *io_repeats,
                       uint64_t (*of_batch)[MAX_SOURCES])
{
    uint64_t *first = malloc((epoch->n_phases + 1) * sizeof *first), *last = malloc((epoch->n_phases + 1) * sizeof *last), k = 0;
    const uint32_t cap = fby__epoch_max_pieces(epoch);
    fby__plan_piece *pieces = calloc(cap + 1, sizeof *pieces), *again = calloc(cap + 1, sizeof *again);
    memset(first, 0xff, (epoch->n_phases + 1) * sizeof *first);
    for (uint64_t b = 0; b < epoch->n_batches; b++) {
        const uint32_t n = fby__epoch_pieces(epoch, b, pieces, cap);
        assert_true(n <= cap);
        assert_int_equal(fby__epoch_pieces(epoch, b, NULL, 0), n);
        if (b % 5) { /* some are left out */
            assert_int_equal(fby__epoch_pieces_in_turn(epoch, b, again, cap), n);
            assert_memory_equal(again, pieces, n * sizeof *pieces);
        }
        uint64_t slot = 0;
        for (uint32_t p = 0; p < n; p++) {
            const fby__plan_piece *piece = &pieces[p];
            const fby__plan_phase *phase = &epoch->phases[piece->phase];
            uint32_t item[4096];
            uint64_t sample[4096];
            assert_true(piece->phase < epoch->n_phases && piece->n > 0 && piece->n <= 4096 && piece->slot == slot);
            fby__epoch_resolve(epoch, piece->phase, piece->index, piece->n, item, sample);
            for (uint32_t j = 0; j < piece->n; j++, k++, slot++) {
                uint32_t block;
                uint64_t same;
                assert_true(item[j] < phase->n_items);
                assert_true(phase->items[item[j]].lo <= sample[j] && sample[j] < phase->items[item[j]].hi);
                fby__epoch_sample(epoch, k, &block, &same);
                assert_true(block == phase->items[item[j]].block && same == sample[j]);
                const uint32_t source = source_of(plan, block);
                assert_int_equal(source, fby__epoch_source(epoch, piece->phase));
                assert_true(sample[j] < m->counts[source][block - fby__plan_source_first(plan, source)]);
                io_seen[block * 4096 + sample[j]] += !piece->repeats;
                *io_repeats += piece->repeats;
                if (of_batch)
                    of_batch[b][source]++;
            }
            first[piece->phase] = first[piece->phase] == UINT64_MAX ? b : first[piece->phase];
            last[piece->phase] = b;
        }
        assert_int_equal(slot, fby__epoch_batch_size(epoch, b));
    }
    assert_int_equal(k, epoch->n_samples);
    for (uint32_t p = 0; p < epoch->n_phases; p++) {
        assert_int_equal(epoch->phases[p].first_batch, first[p]);
        assert_int_equal(epoch->phases[p].last_batch, last[p]);
        assert_true(p == 0 || epoch->phases[p - 1].first_batch <= first[p]);
    }
    free(first);
    free(last);
    free(pieces);
    free(again);
}

/* How often each sample of a source came: once in each pass, and of the last pass some. */
static void check_source(const mixture *m, const fby__plan *plan, uint64_t number, uint32_t source, const uint64_t *seen)
{
    uint64_t total = 0;
    fby__mix_counts c;
    assert_int_equal(fby__plan_mix_counts(plan, number, source, &c, NULL), FBY_OK);
    const uint64_t size = m->sizes[source], whole = c.n_samples / size;
    for (uint32_t b = 0; b < m->sources[source].n_blocks; b++)
        for (uint64_t i = 0; i < m->counts[source][b]; i++) {
            const uint64_t times = seen[(fby__plan_source_first(plan, source) + b) * 4096 + i];
            assert_true(times == whole || times == whole + 1);
            total += times;
        }
    assert_int_equal(total, c.n_samples);
    assert_int_equal(c.n_left, size > total ? size - total : 0);
    if (m->opts.tail == FBY__TAIL_DROP)
        return;
    if (m->mix.stop == FBY__MIX_ALL)
        assert_true(total >= size);
    if (m->mix.stop == FBY__MIX_FIRST)
        assert_true(total <= size);
    if (!m->mix.weights && m->mix.stop != FBY__MIX_SAMPLES) /* by size: everything once */
        assert_int_equal(total, size);
}

static void check_proportions(const mixture *m, uint64_t number, uint64_t n_batches, uint64_t (*of_batch)[MAX_SOURCES])
{
    uint64_t sum[MAX_SOURCES] = {0}, all = 0;
    double least[MAX_SOURCES] = {0}, most[MAX_SOURCES] = {0}; /* of what a source has beyond its share, up to the end of any batch */
    for (uint64_t b = 0; b < n_batches; b++) {
        uint64_t n = 0;
        for (uint32_t i = 0; i < m->mix.n_sources; i++)
            n += of_batch[b][i];
        all += n;
        for (uint32_t i = 0; i < m->mix.n_sources; i++) {
            const double w = weight_of(m, number, i);
            sum[i] += of_batch[b][i];
            if (m->opts.tail == FBY__TAIL_WRAP && b + 1 == n_batches)
                continue; /* filled up with what the streams have to repeat */
            assert_true(fabs((double)of_batch[b][i] - w * (double)n) < NEAR);
            least[i] = fmin(least[i], (double)sum[i] - w * (double)all);
            most[i] = fmax(most[i], (double)sum[i] - w * (double)all);
        }
    }
    for (uint32_t i = 0; i < m->mix.n_sources; i++)
        assert_true(most[i] - least[i] < NEAR); /* in any stretch of batches: every superbatch, the epoch so far */
}

static void check_epoch(const mixture *m, uint64_t number)
{
    static uint64_t seen[MAX_SOURCES * MAX_BLOCKS * 4096];
    uint64_t repeats = 0, n_wrapped = 0, n_batches = 0;
    memset(seen, 0, sizeof seen);
    for (uint32_t rank = 0; rank < m->opts.world_size; rank++) {
        fby__plan *plan = plan_of(m, rank, m->opts.world_size);
        fby__epoch *epoch = epoch_of(plan, number);
        fby__epoch_counts counts;
        assert_int_equal(fby__plan_count(plan, number, &counts, NULL), FBY_OK);
        assert_true(counts.n_batches == epoch->n_batches && counts.n_samples == epoch->n_samples);
        n_batches = epoch->n_batches;
        n_wrapped = epoch->n_wrapped;
        uint64_t(*of_batch)[MAX_SOURCES] = calloc(n_batches + 1, sizeof *of_batch);
        read_epoch(m, plan, epoch, seen, &repeats, of_batch);
        if (fby__plan_has_destinations(plan))
            check_places(plan, epoch);
        if (m->opts.world_size == 1)
            check_proportions(m, number, n_batches, of_batch);
        free(of_batch);
        if (rank + 1 == m->opts.world_size)
            for (uint32_t i = 0; i < m->mix.n_sources; i++)
                check_source(m, plan, number, i, seen);
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
    }
    assert_int_equal(repeats, n_wrapped);
}

static void every_source_has_its_share_and_its_samples_for_random_mixtures(void **state)
{
    (void)state;
    fby__random random = {.key = ANY_SEED};
    int checked = 0, refused = 0;
    static mixture m;
    for (int round = 0; round < 500; round++) {
        fby__plan *plan = NULL;
        random_mixture(&random, &m);
        if (try_plan(&m, 0, m.opts.world_size, &plan, NULL) != FBY_OK) { /* too few samples, or streams that ranks cannot share */
            refused++;
            continue;
        }
        fby__plan_destroy(plan);
        check_epoch(&m, below(&random, 4));
        checked++;
    }
    print_message("%d mixtures checked, %d refused; destinations of %d epochs\n", checked, refused, n_with_places);
    assert_true(checked > 300 && n_with_places > 100);
}

static void batches_are_the_same_for_1_2_4_and_8_ranks(void **state)
{
    (void)state;
    fby__random random = {.key = 7};
    static mixture m;
    for (int round = 0, checked = 0; checked < 20 && round < 5000; round++) {
        fby__plan *plan = NULL;
        random_mixture(&random, &m);
        m.opts.global_batch = 8 * (1 + below(&random, 4));
        m.opts.streams = 8;
        m.opts.tail = checked % 2 ? FBY__TAIL_DROP : FBY__TAIL_WRAP;
        if (try_plan(&m, 0, 8, &plan, NULL) != FBY_OK)
            continue;
        check_one_sequence(plan_of, &m, m.opts.global_batch, 1, 1u << 20);
        fby__plan_destroy(plan);
        checked++;
    }
}

/* ---- options ---- */

static void refused(mixture *m, fby_status status, const char *what)
{
    fby__plan *plan = NULL;
    fby_error err = {0};
    assert_int_equal(try_plan(m, 0, 1, &plan, &err), status);
    if (!strstr(err.message, what))
        fail_msg("'%s' is not in '%s'", what, err.message);
}

static mixture plain_mixture(void)
{
    mixture m = {.mix = {.n_sources = 2, .stop = FBY__MIX_ALL, .n_epochs = 1},
                 .opts = {.seed = 1, .global_batch = 8, .superbatch_samples = 64, .streams = 4, .world_size = 1}};
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t b = 0; b < 4; b++)
            m.sizes[i] += m.counts[i][b] = 10 + 30 * i;
    m.weights[0] = 3;
    m.weights[1] = 1;
    return m;
}

static void point(mixture *m)
{
    for (uint32_t i = 0; i < 2; i++)
        m->sources[i] = (fby__mix_source){NAMES[i], m->counts[i], 4, m->files[i]};
    m->mix.sources = m->sources;
    m->mix.weights = m->weights;
}

static void what_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    mixture m;
#define CASE(change, status, what)                                                                                                         \
    m = plain_mixture();                                                                                                                   \
    point(&m);                                                                                                                             \
    change;                                                                                                                                \
    refused(&m, status, what)
    CASE(m.opts.n_parts = 2, FBY_E_UNSUPPORTED, "a mixture has no parts");
    CASE(m.opts.diversity_files = 2, FBY_E_UNSUPPORTED, "a mixture has no distinct files");
    CASE(m.weights[1] = -1, FBY_E_ARG, "the weight of source 'b' is -1");
    CASE(m.weights[0] = m.weights[1] = 0, FBY_E_ARG, "all weights of epoch 0 are 0");
    CASE(m.weights[0] = m.weights[1] = 1e308, FBY_E_ARG, "the weights of epoch 0 have no finite sum");
    CASE(m.weights[0] = 0, FBY_E_ARG, "waits for every sample of source 'a', whose weight is 0");
    CASE(m.weights[1] = 1e-30, FBY_E_ARG, "source 'b' is too small beside the largest");
    CASE((m.mix.stop = FBY__MIX_FIRST, m.opts.tail = FBY__TAIL_DROP, m.opts.global_batch = 1000), FBY_E_ARG, "no batch is left");
    CASE((m.weights[0] = 1e7, m.counts[0][0] = 1, m.counts[0][1] = m.counts[0][2] = m.counts[0][3] = 0), FBY_E_ARG, "times in epoch 0");
    CASE((m.counts[1][0] = m.counts[1][1] = m.counts[1][2] = m.counts[1][3] = 0), FBY_E_ARG, "source 'b': there are no samples");
    CASE(m.mix.n_samples = 5, FBY_E_ARG, "the end of a mixture's epoch");
#undef CASE
}

/* The order is part of what saved states depend on. */
static void the_order_never_changes(void **state)
{
    (void)state;
    mixture m = plain_mixture();
    point(&m);
    fby__plan *plan = plan_of(&m, 0, 1);
    fby__epoch *epoch = epoch_of(plan, 1);
    fby__hash128 h = {0};
    for (uint64_t k = 0; k < epoch->n_samples; k++) {
        uint32_t block;
        uint64_t sample;
        fby__epoch_sample(epoch, k, &block, &sample);
        const uint64_t both[] = {block, sample};
        h = fby__hash_more(h, both, sizeof both);
    }
    assert_int_equal(epoch->n_samples, 639);
    assert_int_equal(h.lo, UINT64_C(0xeb8053fa89056174));
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
}

/* Epochs of a curriculum have other proportions, and each other samples first. */
static void weights_may_differ_by_epoch(void **state)
{
    (void)state;
    mixture m = plain_mixture();
    point(&m);
    m.mix.n_epochs = 2;
    m.weights[2] = 0;
    m.weights[3] = 5;
    m.mix.stop = FBY__MIX_SAMPLES;
    m.mix.n_samples = 80;
    fby__plan *plan = plan_of(&m, 0, 1);
    fby__mix_counts c;
    const uint64_t expected[][2] = {{60, 20}, {0, 80}, {0, 80}};
    for (uint64_t e = 0; e < 3; e++)
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(fby__plan_mix_counts(plan, e, i, &c, NULL), FBY_OK);
            assert_int_equal(c.n_samples, expected[e][i]);
        }
    fby__plan_destroy(plan);
}

/* What is reported of a mixture is near to what a uniform draw from each source gives, where all of each is mixed. */
static void mixing_is_measured_over_all_sources(void **state)
{
    (void)state;
    mixture m = plain_mixture();
    point(&m);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t b = 0; b < 4; b++)
            m.files[i][b] = b;
    m.weights[0] = 1;
    m.opts.superbatch_samples = 100000;
    m.opts.global_batch = 64;
    fby__plan *plan = plan_of(&m, 0, 1);
    fby__epoch *epoch = epoch_of(plan, 0);
    fby__mixing mixing;
    assert_int_equal(fby__plan_mixing(epoch, 64, NULL, 0, &mixing, NULL, NULL), FBY_OK);
    assert_true(fabs(mixing.same_block - mixing.same_block_uniform) < 0.02);
    assert_true(fabs(mixing.entropy_bits - mixing.entropy_bits_uniform) < 0.1);
    assert_true(mixing.files == 8 && mixing.files_uniform > 7.5);
    fby_cancel *token = fby_cancel_create(), *before = fby_cancel_use(token);
    fby_cancel_set(token);
    assert_int_equal(fby__plan_mixing(epoch, 64, NULL, 0, &mixing, NULL, NULL), FBY_E_CANCELLED);
    (void)fby_cancel_use(before);
    fby_cancel_destroy(token);
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
}

static void a_failing_allocation_anywhere_is_an_error(void **state)
{
    (void)state;
    mixture m = plain_mixture();
    point(&m);
    for (uint64_t at = 1;; at++) {
        fby__plan *plan = NULL;
        fby__epoch *epoch = NULL;
        fby_error err = {0};
        fby__alloc_fail_at(at);
        fby_status status = try_plan(&m, 0, 1, &plan, &err);
        if (status == FBY_OK)
            status = fby__epoch_create(plan, 0, &epoch, &err);
        fby__alloc_fail_at(0);
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
        if (status == FBY_OK) {
            assert_true(at > 30);
            return;
        }
        assert_int_equal(status, FBY_E_NOMEM);
        assert_int_equal(err.code, FBY_E_NOMEM);
    }
}

/* CPU seconds to make a plan of so many sources, and its first epoch. */
static double seconds_of(uint32_t n)
{
    fby__mix_source *sources = calloc(n, sizeof *sources);
    static const uint64_t counts[] = {300, 300, 300, 300};
    double *weights = calloc(n, sizeof *weights);
    for (uint32_t i = 0; i < n; i++) {
        sources[i] = (fby__mix_source){"a", counts, 4, NULL};
        weights[i] = 1 + (double)(i % 7) / 8;
    }
    const fby__mix_opts mix = {.sources = sources, .n_sources = n, .weights = weights, .n_epochs = 1, .stop = FBY__MIX_ALL};
    const fby__plan_opts opts = {
        .seed = 4, .global_batch = 64, .superbatch_samples = 8192, .streams = 8, .world_size = 1, .tail = FBY__TAIL_WRAP};
    fby__plan *plan;
    fby__epoch *epoch;
    fby_error err;
    const clock_t began = clock();
    if (fby__plan_create_mix(&mix, &opts, &plan, &err) != FBY_OK || fby__epoch_create(plan, 0, &epoch, &err) != FBY_OK)
        fail_msg("%s", err.message);
    const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
    free(weights);
    free(sources);
    return seconds;
}

static void many_sources_take_as_much_longer_as_there_are_more_of_them(void **state)
{
    (void)state;
    double least = HUGE_VAL, most = HUGE_VAL;
    for (int round = 0; round < 3; round++) { /* the best of several: other processes take time too */
        least = fmin(least, seconds_of(64));
        most = fmin(most, seconds_of(512));
    }
    if (most > 24 * least) /* 8 times as many: squares would be 64 */
        fail_msg("64 sources took %.4f s, 512 took %.4f s", least, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_source_has_its_share_and_its_samples_for_random_mixtures),
        cmocka_unit_test(batches_are_the_same_for_1_2_4_and_8_ranks),
        cmocka_unit_test(what_cannot_be_is_refused_by_name),
        cmocka_unit_test(the_order_never_changes),
        cmocka_unit_test(weights_may_differ_by_epoch),
        cmocka_unit_test(mixing_is_measured_over_all_sources),
        cmocka_unit_test(many_sources_take_as_much_longer_as_there_are_more_of_them),
        cmocka_unit_test(a_failing_allocation_anywhere_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
