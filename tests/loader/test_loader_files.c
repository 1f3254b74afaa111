/*
 * The loader over forty small files of every codec: the order depends on names, row counts, seed, epoch and sampling options
 * alone (invariant 2), every sample comes once (invariant 1), and the shuffle is without bias seen through the public API.
 */
#include "plan/chi_square.h"
#include "support/loader_fixture.h"
#include "support/test_seed.h"

enum { FILES = 40 };

static const fby_loader_opts PLAN = {.seed = 11, .superbatch_samples = 500, .streams = 4};

static uint64_t expected_rows(int files)
{
    uint64_t n = 0;
    for (int i = 0; i < files; i++)
        n += i % 9 == 7 ? 33 : i % 9 == 8 ? 1 : 60;
    return n;
}

/* The order that everything is compared with: one thread, no hurry. */
static int64_t *reference(uint64_t epoch, uint64_t *n)
{
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader_opts opts = PLAN;
    opts.n_threads = 1;
    fby_loader *l = open_loader(ds, opts);
    int64_t *rows = epoch_rows(l, epoch, n);
    assert_once_each(rows, *n, expected_rows(FILES));
    fby_loader_close(l);
    fby_dataset_close(ds);
    return rows;
}

static void expect_order(fby_loader *l, uint64_t epoch, const int64_t *expect, uint64_t n)
{
    uint64_t got_n;
    int64_t *got = epoch_rows(l, epoch, &got_n);
    assert_int_equal(got_n, n);
    assert_memory_equal(got, expect, n * sizeof *expect);
    free(got);
}

static void the_order_is_the_same_for_1_2_and_8_threads_and_every_budget_under_random_delays(void **state)
{
    (void)state;
    put_files("data", FILES);
    uint64_t n;
    const uint64_t seed = test_seed(); /* of the delays */
    int64_t *expect = reference(3, &n), *epoch1 = reference(1, &n);
    fby_dataset *ds = open_dataset("data", NULL);
    const int threads[] = {1, 2, 8};
    for (int t = 0; t < 3; t++)
        for (int budget = 0; budget < 3; budget++) {
            fby_loader_opts opts = PLAN;
            opts.n_threads = threads[t];
            fby_loader *l = open_loader(ds, opts);
            uint64_t minimum = report_of(l).budget_minimum_bytes;
            fby_loader_close(l);
            opts.memory_bytes = budget == 0 ? minimum : budget == 1 ? minimum + 50000 : minimum * 4;
            fby__io_set_fault(&(fby__io_fault){.delay_max_ns = 300000, .seed = seed + (uint64_t)(3 * t + budget)});
            l = open_loader(ds, opts);
            expect_order(l, 1, epoch1, n);
            expect_order(l, 3, expect, n);
            fby_report r = report_of(l);
            if (budget == 0) { /* nothing stays: every block of the second epoch is read again, or was evicted in between */
                assert_true(r.blocks_read + r.blocks_from_cache >= 2 * fby_dataset_block_count(ds));
                if (r.blocks_evicted < fby_dataset_block_count(ds))
                    fail_msg("only %llu of %llu blocks were evicted", (unsigned long long)r.blocks_evicted,
                             (unsigned long long)fby_dataset_block_count(ds));
            }
            fby_loader_close(l);
            fby__io_set_fault(&(fby__io_fault){0});
        }
    fby_dataset_close(ds);
    free(expect);
    free(epoch1);
}

static void the_order_is_the_same_with_every_io_engine(void **state)
{
    (void)state;
    put_files("data", FILES);
    uint64_t n;
    int64_t *expect = reference(0, &n);
    const fby_io_engine engines[] = {FBY_IO_AUTO, FBY_IO_THREADS, FBY_IO_URING, FBY_IO_MMAP};
    for (int e = 0; e < 4; e++) {
        fby_dataset *ds = open_dataset("data", &(fby_open_opts){.cache_dir = "", .io = engines[e], .immutable = true});
        fby_loader *l = NULL;
        fby_error err = {0};
        if (try_loader(ds, PLAN, &l, &err) == FBY_E_UNSUPPORTED && engines[e] == FBY_IO_URING) {
            print_message("io_uring left out: %s\n", err.message);
            fby_dataset_close(ds);
            continue;
        }
        assert_non_null(l);
        expect_order(l, 0, expect, n);
        fby_loader_close(l);
        fby_dataset_close(ds);
    }
    free(expect);
}

static void the_order_survives_copying_the_data_elsewhere_and_other_outputs(void **state)
{
    (void)state;
    put_files("data", FILES);
    uint64_t n;
    int64_t *expect = reference(0, &n);
    assert_int_equal(mkdir("deep", 0755), 0);
    put_files("deep/elsewhere", FILES);
    for (int i = 0; i < FILES; i++) { /* other times too */
        char path[100];
        (void)snprintf(path, sizeof path, "deep/elsewhere/f%02d.parquet", i);
        struct timespec times[2] = {{1000000000 + i, 0}, {1000000000 + i, 0}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    const char *paths[] = {"deep/elsewhere", "deep/elsewhere/*.parquet", "data/f*.parquet"};
    for (int i = 0; i < 3; i++) {
        fby_dataset *ds = open_dataset(paths[i], NULL);
        fby_loader_opts opts = PLAN;
        opts.outputs = OUTPUTS;
        opts.n_outputs = i == 0 ? 1 : i == 1 ? 3 : N_OUTPUTS;
        fby_loader *l = open_loader(ds, opts);
        expect_order(l, 0, expect, n);
        fby_loader_close(l);
        fby_dataset_close(ds);
    }
    free(expect);
}

static void another_seed_epoch_or_name_gives_another_order(void **state)
{
    (void)state;
    put_files("data", FILES);
    uint64_t n;
    int64_t *expect = reference(0, &n);
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader_opts opts = PLAN;
    opts.seed = 12;
    fby_loader *same = open_loader(ds, PLAN), *other = open_loader(ds, opts);
    int64_t *epoch = epoch_rows(same, 1, &n), *seed = epoch_rows(other, 0, &n);
    assert_once_each(epoch, n, n);
    assert_once_each(seed, n, n);
    assert_memory_not_equal(epoch, expect, n * sizeof *expect);
    assert_memory_not_equal(seed, expect, n * sizeof *expect);
    assert_memory_not_equal(seed, epoch, n * sizeof *expect);
    fby_loader_close(same);
    fby_loader_close(other);
    fby_dataset_close(ds);
    free(expect);
    free(epoch);
    free(seed);
}

/*
 * Blocks of 1 to 25 rows with a superbatch of one row: how many of them meet in a batch differs from epoch to epoch (at most 11
 * in epoch 0, 23 in epoch 31), and what the loader keeps room for must follow.
 */
static void batches_of_many_small_blocks_come_right_in_every_epoch(void **state)
{
    (void)state;
    assert_int_equal(mkdir("data", 0755), 0);
    for (int i = 0; i < 30; i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "data/f%02d.parquet", i);
        put_golden(path, i % 6 ? "rows_one_row" : GOLDEN[i / 6 % N_GOLDEN]);
    }
    fby_dataset *ds = open_dataset("data", NULL);
    fby_loader *l = open_loader(ds, (fby_loader_opts){.seed = 8, .superbatch_samples = 1, .streams = 1, .batch_size = 48});
    for (uint64_t e = 0; e < 40; e++) {
        uint64_t n;
        int64_t *rows = epoch_rows(l, e, &n);
        assert_once_each(rows, n, 5 * 60 + 25);
        free(rows);
    }
    fby_loader_close(l);
    fby_dataset_close(ds);
}

enum { SEEDS = 1000, BATCH = 12, SAMPLES = 60 };

/* Blocks of 25, 25, 10 rows or a single block: positions, slots and pairs over 1,000 seeds (the plan has finer tests). */
static void shuffle_without_bias(const char *golden)
{
    static uint32_t position[SAMPLES * SAMPLES], slot[SAMPLES * BATCH], pair[SAMPLES * SAMPLES];
    memset(position, 0, sizeof position);
    memset(slot, 0, sizeof slot);
    memset(pair, 0, sizeof pair);
    put_golden("shuffled.parquet", golden);
    fby_dataset *ds = open_dataset("shuffled.parquet", NULL);
    uint64_t samples = fby_dataset_rows(ds) / BATCH * BATCH, n; /* whole batches: the tail is dropped */
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fby_loader *l = open_loader(
            ds, (fby_loader_opts){
                    .seed = seed, .n_threads = 1, .batch_size = BATCH, .outputs = OUTPUTS, .n_outputs = 1, .tail = FBY_TAIL_DROP});
        int64_t *rows = epoch_rows(l, seed % 3, &n);
        assert_int_equal(n, samples);
        for (uint64_t k = 0; k < n; k++) {
            position[(uint64_t)rows[k] * n + k]++;
            slot[(uint64_t)rows[k] * BATCH + k % BATCH]++;
            for (uint64_t j = k / BATCH * BATCH; j < k; j++) {
                uint64_t a = (uint64_t)(rows[j] < rows[k] ? rows[j] : rows[k]), b = (uint64_t)(rows[j] + rows[k]) - a;
                pair[a * SAMPLES + b]++;
            }
        }
        free(rows);
        fby_loader_close(l);
    }
    uint64_t all = fby_dataset_rows(ds);
    double worst_pair = 0, z_position = 0, z_slot = 0;
    if (all == samples) {
        z_position = permutation_z(position, samples, samples, SEEDS);
        z_slot = permutation_z(slot, samples, BATCH, SEEDS);
    } else { /* each row is delivered with chance samples / all */
        for (uint64_t r = 0; r < all; r++)
            for (uint64_t k = 0; k < samples; k++) {
                double z = binomial_z(position[r * samples + k], SEEDS, 1.0 / (double)all);
                z_position = z > z_position ? z : z_position;
            }
    }
    double p = (double)samples / (double)all * (BATCH - 1) / ((double)all - 1);
    for (uint64_t a = 0; a < all; a++)
        for (uint64_t b = a + 1; b < all; b++) {
            double z = binomial_z(pair[a * SAMPLES + b], SEEDS, p);
            worst_pair = z > worst_pair ? z : worst_pair;
        }
    print_message("%s: z of positions %.2f, of slots %.2f, of the worst pair %.2f\n", golden, z_position, z_slot, worst_pair);
    assert_true(fabs(z_position) < Z_LIMIT && fabs(z_slot) < Z_LIMIT && worst_pair < Z_LIMIT);
    fby_dataset_close(ds);
}

static void the_shuffle_of_unequal_blocks_is_without_bias(void **state)
{
    (void)state;
    shuffle_without_bias("rows_snappy");
}

static void the_shuffle_of_a_single_block_is_without_bias(void **state)
{
    (void)state;
    shuffle_without_bias("rows_one_group");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_order_is_the_same_for_1_2_and_8_threads_and_every_budget_under_random_delays, setup_dir,
                                        teardown_dir),
        cmocka_unit_test_setup_teardown(the_order_is_the_same_with_every_io_engine, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_order_survives_copying_the_data_elsewhere_and_other_outputs, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(another_seed_epoch_or_name_gives_another_order, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(batches_of_many_small_blocks_come_right_in_every_epoch, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_shuffle_of_unequal_blocks_is_without_bias, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_shuffle_of_a_single_block_is_without_bias, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
