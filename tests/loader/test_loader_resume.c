/*
 * Resume (invariant 3): an epoch begun at batch k goes on as if it had never stopped, with other threads, budget and world size; before
 * batch k nothing is read but the superbatch it lies in; a state is refused where the order would be another, with the reason.
 */
#include "support/loader_fixture.h"
#include "support/memory_dataset.h"

#include "base/clock.h"
#include "base/hash.h"
#include "plan/plan.h"

#include <time.h>

enum { G = 32, MAX_BATCHES = 64, MAX_WORLD = 8 };

/* What each batch of an epoch holds: of one rank, bit for bit; over all ranks, the row numbers in order. */
typedef struct history {
    uint64_t hash[MAX_BATCHES];
    int64_t rows[MAX_BATCHES][G];
    uint64_t size[MAX_BATCHES];
    uint64_t n;
} history;

static fby_dataset *small_dataset(void)
{
    uint64_t counts[20];
    for (int i = 0; i < 20; i++)
        counts[i] = i == 4 ? 0 : i == 9 ? 1 : (uint64_t)(7 + 13 * i % 37);
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (memory_dataset_open(counts, 20, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

static fby_loader *rank_loader(fby_dataset *ds, fby_loader_opts opts, uint32_t rank, uint32_t world)
{
    static const char *id[] = {"id"}, *gap[] = {"gap"}, *word[] = {"word"}, *hits[] = {"hits"};
    const fby_output outputs[] = {{.name = "row", .from = FBY_FROM_SAMPLE_INDEX},
                                  {.name = "id", .columns = id, .n_columns = 1},
                                  {.name = "gap", .columns = gap, .n_columns = 1},
                                  {.name = "word", .columns = word, .n_columns = 1},
                                  {.name = "hits", .columns = hits, .n_columns = 1}};
    fby_loader *l = NULL;
    fby_error err = {0};
    set_sizes(&opts);
    opts.outputs = outputs;
    opts.n_outputs = sizeof outputs / sizeof *outputs;
    opts.batch_size = G / world;
    opts.rank = rank;
    opts.world_size = world;
    opts.n_threads = opts.n_threads ? opts.n_threads : 2;
    if (fby_loader_open(ds, &opts, &l, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return l;
}

static uint64_t hash_batch(const fby_batch *b)
{
    fby__hash128 h = {0};
    for (size_t i = 0; i < fby_batch_tensor_count(b); i++) {
        const fby_tensor *t = fby_batch_tensor(b, i);
        h = fby__hash_more(h, t->shape, (size_t)t->ndim * sizeof *t->shape);
        h = fby__hash_more(h, t->data, t->bytes);
    }
    return h.lo;
}

/* One batch into the history of its rank (hash) and of all ranks (rows). */
static void note(history *own, history *all, const fby_batch *b)
{
    uint64_t k = fby_batch_index(b), n = fby_batch_size(b);
    assert_in_range(k, 0, MAX_BATCHES - 1);
    own->hash[k] = hash_batch(b);
    own->n = k + 1;
    assert_in_range(all->size[k] + n, 1, G);
    memcpy(all->rows[k] + all->size[k], values_of(b, "row"), n * sizeof(int64_t));
    all->size[k] += n;
    all->n = k + 1;
}

static void to_the_end(fby_loader *l, history *own, history *all)
{
    fby_batch *b;
    fby_error err = {0};
    fby_status status;
    while ((status = fby_loader_next(l, -1, &b, &err)) == FBY_OK) {
        note(own, all, b);
        fby_batch_unref(b);
    }
    if (status != FBY_END)
        fail_msg("%s", err.message);
}

static fby_loader_state state_of(fby_loader *l)
{
    fby_loader_state s = {.size = sizeof s};
    assert_int_equal(fby_loader_state_get(l, &s, NULL), FBY_OK);
    return s;
}

static void set_state(fby_loader *l, const fby_loader_state *s)
{
    fby_error err = {0};
    if (fby_loader_state_set(l, s, &err) != FBY_OK)
        fail_msg("%s", err.message);
}

static void expect_from(const history *got, const history *expect, uint64_t k)
{
    assert_int_equal(expect->n, k < expect->n ? got->n : expect->n);
    for (; k < expect->n; k++) {
        assert_int_equal(got->size[k], expect->size[k]);
        assert_memory_equal(got->rows[k], expect->rows[k], expect->size[k] * sizeof(int64_t));
    }
}

/* Epoch 2 of every rank, with the state before every batch of rank 0. Owned by the caller. */
static history *whole_epoch(fby_dataset *ds, fby_loader_opts opts, uint32_t world, history *own, fby_loader_state *states)
{
    history *all = calloc(1, sizeof *all);
    for (uint32_t r = 0; r < world; r++) {
        fby_loader *l = rank_loader(ds, opts, r, world);
        fby_batch *b;
        assert_int_equal(fby_loader_begin(l, 2, NULL), FBY_OK);
        for (uint64_t k = 0;; k++) {
            if (r == 0)
                states[k] = state_of(l);
            if (fby_loader_next(l, -1, &b, NULL) != FBY_OK)
                break;
            note(&own[r], all, b);
            fby_batch_unref(b);
        }
        fby_loader_close(l);
    }
    return all;
}

static void an_epoch_resumed_at_any_batch_goes_on_bit_for_bit_on_any_number_of_ranks(void **state)
{
    (void)state;
    fby_dataset *ds = small_dataset();
    uint64_t rows = fby_dataset_rows(ds), sequences = 0;
    const fby_shuffle_kind shuffles[] = {FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_FULL, FBY_SHUFFLE_BLOCK, FBY_SHUFFLE_NONE};
    const fby_tail_kind tails[] = {FBY_TAIL_KEEP, FBY_TAIL_DROP, FBY_TAIL_WRAP};
    history *own = calloc(MAX_WORLD, sizeof *own), *again = calloc(1, sizeof *again);
    fby_loader_state states[MAX_BATCHES + 1];
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 3; t++) {
            fby_loader_opts opts = {.shuffle = shuffles[s], .tail = tails[t], .seed = 5, .superbatch_samples = 120, .streams = 8};
            history *expect = NULL;
            for (uint32_t world = 1; world <= (tails[t] == FBY_TAIL_KEEP ? 1 : MAX_WORLD); world *= 2) {
                memset(own, 0, MAX_WORLD * sizeof *own);
                history *all = whole_epoch(ds, opts, world, own, states);
                if (!expect) { /* once each, tails aside; then the same on every number of ranks */
                    expect = all;
                    int64_t *flat = calloc(MAX_BATCHES * G, sizeof *flat);
                    uint64_t n = 0;
                    for (uint64_t k = 0; k < all->n; k++)
                        for (uint64_t i = 0; i < all->size[k]; i++)
                            flat[n++] = all->rows[k][i];
                    if (tails[t] == FBY_TAIL_KEEP)
                        assert_once_each(flat, n, rows);
                    else
                        assert_int_equal(n, tails[t] == FBY_TAIL_DROP ? rows / G * G : (rows + G - 1) / G * G);
                    free(flat);
                } else {
                    expect_from(all, expect, 0);
                    free(all);
                }
                for (uint64_t k = 0; k <= expect->n; k++) {
                    uint32_t other = tails[t] == FBY_TAIL_KEEP ? 1 : 1u << (k + world) % 4;
                    fby_loader_opts changed = opts;
                    changed.n_threads = 1 + (int)(k % 3);
                    changed.prefetch_batches = 2 + (uint32_t)(k % 5);
                    assert_int_equal(states[k].epoch, 2);
                    assert_int_equal(states[k].batch, k);
                    memset(again, 0, sizeof *again);
                    for (uint32_t r = 0; r < other; r++) {
                        history mine = {0};
                        fby_loader *l = rank_loader(ds, changed, r, other);
                        set_state(l, &states[k]);
                        assert_memory_equal(state_of(l).files, states[k].files, sizeof states[k].files);
                        assert_int_equal(state_of(l).batch, k);
                        to_the_end(l, &mine, again);
                        for (uint64_t b = k; other == world && b < expect->n; b++)
                            assert_int_equal(mine.hash[b], own[r].hash[b]);
                        assert_int_equal(state_of(l).epoch, 3);
                        assert_int_equal(state_of(l).batch, 0);
                        fby_loader_close(l);
                        sequences++;
                    }
                    expect_from(again, expect, k);
                }
            }
            free(expect);
        }
    print_message("%llu resumed epochs\n", (unsigned long long)sequences);
    free(own);
    free(again);
    fby_dataset_close(ds);
}

static void the_kept_tail_of_one_rank_and_the_wrapped_tail_of_several_share_all_whole_batches(void **state)
{
    (void)state;
    fby_dataset *ds = small_dataset();
    fby_loader_opts opts = {.superbatch_samples = 120}; /* tail AUTO */
    history *own = calloc(MAX_WORLD, sizeof *own);
    fby_loader_state states[MAX_BATCHES + 1];
    history *one = whole_epoch(ds, opts, 1, own, states);
    history *two = whole_epoch(ds, opts, 2, own + 1, states);
    assert_int_equal(one->n, two->n);
    one->n--, two->n--; /* but the last */
    expect_from(two, one, 0);
    fby_loader *l = rank_loader(ds, opts, 0, 1);
    set_state(l, &states[3]); /* saved by two ranks */
    fby_batch *b;
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    assert_memory_equal(values_of(b, "row"), one->rows[3], sizeof one->rows[3]);
    fby_batch_unref(b);
    fby_loader_close(l);
    free(one);
    free(two);
    free(own);
    fby_dataset_close(ds);
}

/* ---- what is read ---- */

static void short_sleep(void) { (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

/* Wait until the loader reads no more. */
static fby_report settled(fby_loader *l)
{
    fby_report r = report_of(l);
    for (int still = 0; still < 4;) {
        short_sleep();
        fby_report now = report_of(l);
        still = now.bytes_read == r.bytes_read && now.blocks_read == r.blocks_read ? still + 1 : 0;
        r = now;
    }
    return r;
}

static void before_the_first_batch_nothing_is_read_but_the_superbatch_it_lies_in(void **state)
{
    (void)state;
    put_files("reads", 30);
    fby_dataset *ds = open_dataset("reads", NULL);
    uint32_t n_blocks = (uint32_t)fby_dataset_block_count(ds);
    uint64_t *counts = calloc(n_blocks, sizeof *counts), *stored = calloc(n_blocks, sizeof *stored);
    for (uint32_t i = 0; i < n_blocks; i++) {
        fby_block_info info = {.size = sizeof info};
        assert_int_equal(fby_dataset_block(ds, i, &info, NULL), FBY_OK);
        counts[i] = info.row_end - info.row_begin;
        stored[i] = info.stored_bytes;
    }
    const fby_shuffle_kind shuffles[] = {FBY_SHUFFLE_SUPERBATCH, FBY_SHUFFLE_BLOCK, FBY_SHUFFLE_NONE};
    const fby__shuffle plan_shuffles[] = {FBY__SHUFFLE_SUPERBATCH, FBY__SHUFFLE_BLOCK, FBY__SHUFFLE_NONE};
    for (int s = 0; s < 3; s++) {
        fby__plan_opts po = {
            .shuffle = plan_shuffles[s], .seed = 3, .global_batch = 16, .superbatch_samples = 400, .streams = 8, .world_size = 1};
        fby__plan *plan;
        fby__epoch *epoch;
        assert_int_equal(fby__plan_create(counts, n_blocks, &po, &plan, NULL), FBY_OK);
        assert_int_equal(fby__epoch_create(plan, 1, &epoch, NULL), FBY_OK);
        fby_loader_opts opts = {.shuffle = shuffles[s], .seed = 3, .superbatch_samples = 400};
        for (uint64_t k = 1; k <= epoch->n_batches; k += 3) {
            fby_loader *l = open_loader(ds, opts);
            uint64_t bytes = 0, blocks = 0;
            for (uint32_t p = 0; p < epoch->n_phases; p++)
                for (uint32_t i = 0; i < epoch->phases[p].n_items; i++)
                    if (epoch->phases[p].first_batch <= k && k <= epoch->phases[p].last_batch) {
                        bytes += stored[epoch->phases[p].items[i].block];
                        blocks++;
                    }
            assert_int_equal(fby_loader_begin_at(l, 1, k, NULL), FBY_OK);
            fby_report r = settled(l);
            if (r.blocks_read > blocks || r.bytes_read > bytes)
                fail_msg("shuffle %d, batch %llu: %llu blocks and %llu bytes read, the superbatch has %llu and %llu", s,
                         (unsigned long long)k, (unsigned long long)r.blocks_read, (unsigned long long)r.bytes_read,
                         (unsigned long long)blocks, (unsigned long long)bytes);
            fby_batch *b;
            uint64_t n = k;
            for (fby_status status; (status = fby_loader_next(l, -1, &b, NULL)) == FBY_OK; n++) {
                assert_int_equal(fby_batch_index(b), n);
                check_batch(b);
                fby_batch_unref(b);
            }
            assert_int_equal(n, epoch->n_batches);
            assert_int_equal(fby_loader_report(l, &r, NULL), FBY_OK);
            assert_true(r.blocks_read > 0 || k == epoch->n_batches);
            fby_loader_close(l);
        }
        fby__epoch_destroy(epoch);
        fby__plan_destroy(plan);
    }
    free(counts);
    free(stored);
    fby_dataset_close(ds);
}

static void ranks_together_read_little_more_than_one_rank_alone(void **state)
{
    (void)state;
    put_files("ranks", 80);
    fby_dataset *ds = open_dataset("ranks", NULL);
    uint64_t bytes[2] = {0};
    for (uint32_t w = 0; w < 2; w++)
        for (uint32_t r = 0, world = w ? 8 : 1; r < world; r++) {
            fby_loader_opts opts = {
                .superbatch_samples = 400, .batch_size = 64 / world, .rank = r, .world_size = world, .tail = FBY_TAIL_WRAP};
            fby_loader *l = open_loader(ds, opts);
            fby_batch *b;
            while (fby_loader_next(l, -1, &b, NULL) == FBY_OK)
                fby_batch_unref(b);
            opts.memory_bytes = 0;
            bytes[w] += report_of(l).bytes_read;
            fby_loader_close(l);
        }
    /* seven borders between eight ranks cut at most seven of the blocks */
    uint64_t largest = 0;
    for (uint64_t i = 0; i < fby_dataset_block_count(ds); i++) {
        fby_block_info info = {.size = sizeof info};
        assert_int_equal(fby_dataset_block(ds, i, &info, NULL), FBY_OK);
        largest = info.stored_bytes > largest ? info.stored_bytes : largest;
    }
    print_message("1 rank %llu bytes, 8 ranks %llu\n", (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
    assert_true(bytes[1] <= bytes[0] + 7 * largest);
    fby_dataset_close(ds);
}

static void a_plan_of_a_hundred_million_samples_goes_on_in_less_than_a_second(void **state)
{
    (void)state;
    enum { BLOCKS = 20000, ROWS = 5000 };
    uint64_t *counts = calloc(BLOCKS, sizeof *counts);
    for (int i = 0; i < BLOCKS; i++)
        counts[i] = ROWS;
    fby__plan_opts po = {.seed = 1, .global_batch = 1024, .superbatch_samples = 2000000, .streams = 8, .world_size = 1};
    uint64_t begin = fby__now_ns();
    fby__plan *plan;
    fby__epoch *epoch;
    assert_int_equal(fby__plan_create(counts, BLOCKS, &po, &plan, NULL), FBY_OK);
    assert_int_equal(fby__epoch_create(plan, 7, &epoch, NULL), FBY_OK);
    uint64_t k = epoch->n_batches / 3 * 2;
    fby__plan_piece *pieces = calloc(fby__epoch_max_pieces(epoch), sizeof *pieces);
    uint32_t item[1024], n = fby__epoch_pieces(epoch, k, pieces, fby__epoch_max_pieces(epoch));
    uint64_t sample[1024];
    for (uint32_t i = 0; i < n; i++)
        fby__epoch_resolve(epoch, pieces[i].phase, pieces[i].index, pieces[i].n, item, sample);
    double seconds = (double)(fby__now_ns() - begin) / 1e9;
    print_message("%.3f s\n", seconds);
#ifndef SANITIZED
    assert_true(seconds < 1.0);
#endif
    free(pieces);
    free(counts);
    fby__epoch_destroy(epoch);
    fby__plan_destroy(plan);
}

/* ---- where a loader stands ---- */

static void the_state_counts_batches_taken_and_not_those_prefetched(void **state)
{
    (void)state;
    fby_dataset *ds = small_dataset();
    fby_loader *l = rank_loader(ds, (fby_loader_opts){.prefetch_batches = 8}, 0, 1);
    fby_batch *b;
    assert_int_equal(state_of(l).epoch, 0);
    assert_int_equal(state_of(l).batch, 0);
    assert_int_equal(fby_loader_begin(l, 4, NULL), FBY_OK);
    for (uint64_t k = 0; k < 3; k++) {
        assert_int_equal(state_of(l).batch, k);
        assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
        fby_batch_unref(b);
        short_sleep();
    }
    assert_int_equal(state_of(l).epoch, 4);
    assert_int_equal(state_of(l).batch, 3);
    fby_loader_cancel(l);
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_E_CANCELLED);
    assert_int_equal(state_of(l).epoch, 4);
    assert_int_equal(state_of(l).batch, 3);
    uint64_t n = fby_loader_batch_count(l);
    assert_int_equal(fby_loader_begin_at(l, 4, n - 1, NULL), FBY_OK);
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    fby_batch_unref(b);
    assert_int_equal(state_of(l).epoch, 4);
    assert_int_equal(state_of(l).batch, n); /* all taken, the end not yet seen */
    fby_loader_state last = state_of(l);
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_END);
    assert_int_equal(state_of(l).epoch, 5);
    assert_int_equal(state_of(l).batch, 0);
    set_state(l, &last);
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_END);
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    assert_int_equal(fby_batch_epoch(b), 5);
    fby_batch_unref(b);
    fby_error err;
    assert_int_equal(fby_loader_begin_at(l, 0, n + 1, &err), FBY_E_ARG);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void a_batch_that_failed_is_the_one_that_comes_next(void **state)
{
    (void)state;
    put_files("broken", 12);
    assert_int_equal(rename("broken/f05.parquet", "f05"), 0);
    assert_int_equal(symlink("../f05", "broken/f05.parquet"),
                     0); /* a file that is moved away and back has another ctime, a link's target not */
    fby_dataset *ds = open_dataset("broken", NULL);
    uint64_t n;
    fby_loader *l = open_loader(ds, (fby_loader_opts){.shuffle = FBY_SHUFFLE_NONE});
    int64_t *expect = epoch_rows(l, 0, &n);
    fby_loader_close(l);
    assert_int_equal(unlink("broken/f05.parquet"), 0);
    l = open_loader(ds, (fby_loader_opts){.shuffle = FBY_SHUFFLE_NONE, .prefetch_batches = 2});
    fby_batch *b;
    fby_status status;
    uint64_t taken = 0;
    while ((status = fby_loader_next(l, -1, &b, NULL)) == FBY_OK) {
        fby_batch_unref(b);
        taken++;
    }
    assert_int_not_equal(status, FBY_END);
    assert_true(taken > 0 && taken < fby_loader_batch_count(l));
    fby_loader_state s = state_of(l);
    assert_int_equal(s.batch, taken);
    assert_int_equal(s.epoch, 0);
    assert_int_equal(symlink("../f05", "broken/f05.parquet"), 0);
    set_state(l, &s); /* the file is back: on with the batch that failed */
    assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK);
    assert_int_equal(fby_batch_index(b), taken);
    assert_memory_equal(values_of(b, "row"), expect + 16 * taken, 16 * sizeof *expect);
    fby_batch_unref(b);
    fby_loader_close(l);
    free(expect);
    fby_dataset_close(ds);
}

/* ---- refusals ---- */

static void expect_refusal(fby_loader *l, const fby_loader_state *s, fby_status expect, const char *one, const char *other)
{
    fby_error err = {0};
    fby_loader_state before = state_of(l);
    assert_int_equal(fby_loader_state_set(l, s, &err), expect);
    if (!strstr(err.message, one) || !strstr(err.message, other))
        fail_msg("'%s' does not say '%s' and '%s'", err.message, one, other);
    fby_loader_state after = state_of(l);
    assert_int_equal(before.epoch, after.epoch);
    assert_int_equal(before.batch, after.batch);
}

static void a_state_of_another_order_is_refused_with_both_values(void **state)
{
    (void)state;
    fby_dataset *ds = small_dataset();
    fby_loader_opts opts = {.seed = 1, .superbatch_samples = 100, .tail = FBY_TAIL_WRAP};
    fby_loader *l = rank_loader(ds, opts, 1, 4);
    fby_loader_state good = state_of(l), s;
    s = good, s.n_samples = 9, s.samples = 0;
    expect_refusal(l, &s, FBY_E_ARG, "9 samples", "this loader has");
    s = good, s.seed = 77;
    expect_refusal(l, &s, FBY_E_ARG, "seed 77", "has 1");
    s = good, s.shuffle = FBY_SHUFFLE_BLOCK;
    expect_refusal(l, &s, FBY_E_ARG, "'block'", "'superbatch'");
    s = good, s.streams = 4;
    expect_refusal(l, &s, FBY_E_ARG, "streams in effect 4", "has 8");
    s = good, s.superbatch_samples = 300;
    expect_refusal(l, &s, FBY_E_ARG, "300", "100");
    s = good, s.tail = FBY_TAIL_DROP;
    expect_refusal(l, &s, FBY_E_ARG, "'drop'", "'wrap'");
    s = good, s.tail = FBY_TAIL_KEEP;
    expect_refusal(l, &s, FBY_E_ARG, "'keep'", "'wrap'");
    s = good, s.batch = 1000;
    expect_refusal(l, &s, FBY_E_ARG, "batch 1000", "an epoch has");
    s = good, s.global_batch = 64, s.world_size = 2;
    expect_refusal(l, &s, FBY_E_ARG, "global batch of 64 samples (32 on each of 2 ranks)", "has 32 (8 on each of 4): set batch_size to 16");
    s = good, s.global_batch = 30, s.world_size = 2;
    expect_refusal(l, &s, FBY_E_ARG, "global batch of 30", "a number of ranks that divides 30");
    s = good, s.version = 9;
    expect_refusal(l, &s, FBY_E_ARG, "version 9", "version 2");
    s = good, s.shuffle = (fby_shuffle_kind)17;
    expect_refusal(l, &s, FBY_E_ARG, "damaged", "shuffle");
    s = good, s.world_size = 0;
    expect_refusal(l, &s, FBY_E_ARG, "damaged", "world size");
    s = good;
    memset(s.fingerprint, 'a', sizeof s.fingerprint);
    expect_refusal(l, &s, FBY_E_ARG, "damaged", "names");
    s = good, s.size = 8;
    expect_refusal(l, &s, FBY_E_ARG, "size", "sizeof");
    s = good, s.size = 8;
    assert_int_equal(fby_loader_state_get(l, &s, NULL), FBY_E_ARG);
    set_state(l, &good);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void a_changed_file_is_named(void **state)
{
    (void)state;
    char path[64];
    for (int n = 12; n <= 80; n += 68) {
        char dir[16];
        (void)snprintf(dir, sizeof dir, "change%d", n);
        put_files(dir, n);
        fby_dataset *ds = open_dataset(dir, NULL);
        fby_loader *l = open_loader(ds, (fby_loader_opts){0});
        fby_loader_state s = state_of(l);
        fby_loader_close(l);
        fby_dataset_close(ds);

        (void)snprintf(path, sizeof path, "%s/f06.parquet", dir); /* touched: another time, all else as it was */
        assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){{.tv_sec = 4102444800}, {.tv_sec = 4102444800}}, 0), 0);
        ds = open_dataset(dir, NULL);
        l = open_loader(ds, (fby_loader_opts){0});
        expect_refusal(l, &s, FBY_E_CHANGED, "f06.parquet'", "2100-01-01");
        fby_loader_close(l);
        fby_dataset_close(ds);

        put_golden(path, "rows_one_row"); /* other rows */
        ds = open_dataset(dir, NULL);
        l = open_loader(ds, (fby_loader_opts){0});
        expect_refusal(l, &s, FBY_E_CHANGED, "another data set", "f06.parquet");
        fby_loader_close(l);
        fby_dataset_close(ds);

        assert_int_equal(unlink(path), 0);
        ds = open_dataset(dir, NULL);
        l = open_loader(ds, (fby_loader_opts){0});
        char files[32];
        (void)snprintf(files, sizeof files, "%d files", n);
        expect_refusal(l, &s, FBY_E_CHANGED, files, "this one has");
        fby_loader_close(l);
        fby_dataset_close(ds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_epoch_resumed_at_any_batch_goes_on_bit_for_bit_on_any_number_of_ranks, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_kept_tail_of_one_rank_and_the_wrapped_tail_of_several_share_all_whole_batches, setup_dir,
                                        teardown_dir),
        cmocka_unit_test_setup_teardown(before_the_first_batch_nothing_is_read_but_the_superbatch_it_lies_in, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(ranks_together_read_little_more_than_one_rank_alone, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_plan_of_a_hundred_million_samples_goes_on_in_less_than_a_second, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_state_counts_batches_taken_and_not_those_prefetched, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_batch_that_failed_is_the_one_that_comes_next, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_state_of_another_order_is_refused_with_both_values, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_changed_file_is_named, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
