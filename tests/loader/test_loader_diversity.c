/*
 * Diversity through the loader: the files asked for in every batch, every row once, no block read more often than the report says, within
 * the budget; resume; states of another diversity.
 */
#include "support/loader_fixture.h"

enum { FILES = 72, FLOOR = 20, BATCH = 48 };

static const fby_loader_opts PLAN = {.seed = 4,
                                     .batch_size = BATCH,
                                     .superbatch_samples = 500,
                                     .streams = 4,
                                     .diversity_files = FLOOR,
                                     .outputs = OUTPUTS,
                                     .n_outputs = N_DENSE};

static uint64_t rows_of(int i) { return i % 9 == 7 ? 33 : i % 9 == 8 ? 1 : 60; }

static int file_of(int64_t row)
{
    int i = 0;
    for (uint64_t first = 0; (uint64_t)row >= first + rows_of(i); i++)
        first += rows_of(i);
    return i;
}

static uint64_t files_in(const int64_t *rows, uint64_t n)
{
    bool has[FILES] = {0};
    uint64_t files = 0;
    for (uint64_t i = 0; i < n; i++) {
        bool *h = &has[file_of(rows[i])];
        files += !*h;
        *h = true;
    }
    return files;
}

static fby_dataset *dataset(void)
{
    put_files("many", FILES);
    return open_dataset("many", NULL);
}

static void every_batch_has_the_files_asked_for_and_blocks_are_read_as_often_as_the_report_says(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    const uint64_t rows = fby_dataset_rows(ds), blocks = fby_dataset_block_count(ds);
    int64_t *expect = NULL;
    for (int threads = 1; threads <= 4; threads *= 2)
        for (int budget = 0; budget < 3; budget++) {
            fby_loader_opts opts = PLAN;
            opts.n_threads = threads;
            fby_loader *l = open_loader(ds, opts);
            const uint64_t minimum = report_of(l).budget_minimum_bytes;
            fby_loader_close(l);
            opts.memory_bytes = budget == 0 ? minimum : budget == 1 ? minimum + 30000 : (uint64_t)64 << 20;
            l = open_loader(ds, opts);
            for (uint64_t e = 0; e < 2; e++) {
                const uint64_t before = report_of(l).blocks_read, bytes = report_of(l).bytes_read;
                uint64_t n;
                int64_t *got = epoch_rows(l, e, &n);
                fby_report r = report_of(l);
                assert_once_each(got, n, rows);
                for (uint64_t k = 0; k + BATCH <= n; k += BATCH)
                    assert_true(files_in(got + k, BATCH) >= FLOOR);
                assert_true(r.reads_per_block > 1 && r.slice_samples < 60);
                assert_true((double)(r.blocks_read - before) <= r.reads_per_block * (double)blocks);
                assert_true(r.bytes_read - bytes <= r.epoch_bytes);
                assert_true(r.budget_peak_bytes <= r.budget_bytes);
                if (budget == 2) /* all of it stays: whole blocks, each read once */
                    assert_int_equal(r.blocks_read, blocks);
                assert_true(r.files_per_batch >= FLOOR && r.files_per_batch_least >= FLOOR &&
                            r.files_per_batch < r.files_per_batch_uniform + 5);
                assert_non_null(strstr(r.mixing, "times an epoch"));
                assert_null(strstr(r.mixing, "fewer blocks"));
                if (e == 0 && expect)
                    assert_memory_equal(got, expect, n * sizeof *got);
                if (e == 0 && !expect)
                    expect = got;
                else
                    free(got);
            }
            fby_loader_close(l);
        }
    fby_loader_opts opts = PLAN; /* what it is without */
    opts.diversity_files = 0;
    fby_loader *l = open_loader(ds, opts);
    uint64_t n, least = BATCH;
    int64_t *plain = epoch_rows(l, 0, &n);
    for (uint64_t k = 0; k + BATCH <= n; k += BATCH) {
        const uint64_t files = files_in(plain + k, BATCH);
        least = files < least ? files : least;
    }
    assert_true(least < FLOOR);
    assert_true(report_of(l).slice_samples == 0 && !strstr(report_of(l).mixing, "times an epoch"));
    const double grown = 7.0 / 8 * 500 / (double)rows; /* the superbatches of an eighth, a quarter and a half */
    char said[80];
    (void)snprintf(said, sizeof said, "; the first %.0f %% of an epoch mixes over fewer blocks", 100 * grown);
    assert_non_null(strstr(report_of(l).mixing, said));
    free(plain);
    free(expect);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void each_sentence_about_mixing_is_said_beside_the_others(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader_opts opts = PLAN;
    opts.part_files = FILES + 1;
    for (int diverse = 0; diverse < 2; diverse++) {
        opts.diversity_files = diverse ? FLOOR : 0;
        fby_loader *l = open_loader(ds, opts);
        const fby_report r = report_of(l);
        assert_true(r.n_parts == 1 && strncmp(r.mixing, "two samples of a batch", 22) == 0);
        assert_true(!diverse == !strstr(r.mixing, "; a batch has samples of"));
        assert_true(diverse == !strstr(r.mixing, "mixes over fewer blocks, in smaller superbatches"));
        assert_string_equal(fby_loader_note(l, 0),
                            "part=\"73 files\" is more files than there are with samples: every epoch is all of them, one part");
        assert_null(fby_loader_note(l, 1));
        fby_loader_close(l);
    }
    fby_dataset_close(ds);
}

static void a_cap_on_batches_from_one_superbatch_ends_long_runs_over_the_same_files(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader_opts opts = {.seed = 1,
                            .batch_size = 8,
                            .superbatch_samples = 1500,
                            .streams = 1,
                            .max_superbatch_batches = 10,
                            .outputs = OUTPUTS,
                            .n_outputs = N_DENSE};
    fby_loader *l = open_loader(ds, opts);
    uint64_t n;
    int64_t *rows = epoch_rows(l, 1, &n);
    assert_once_each(rows, n, fby_dataset_rows(ds));
    for (uint64_t i = 0; i < n;
         i++) { /* rows of one slice lie within 10 batches: its neighbours in the block are of it, or of another superbatch */
        uint64_t same = 0;
        for (uint64_t j = i + 10 * 8; j < n && j < i + 20 * 8; j++)
            same += rows[j] == rows[i] + 1;
        assert_true(same <= 1);
    }
    fby_report r = report_of(l);
    assert_true((double)r.blocks_read <= r.reads_per_block * (double)fby_dataset_block_count(ds));
    free(rows);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void an_epoch_resumed_at_any_batch_goes_on_exactly_on_any_number_of_ranks(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader_opts opts = PLAN;
    opts.tail = FBY_TAIL_WRAP;
    opts.max_superbatch_batches = 8;
    fby_loader *l = open_loader(ds, opts);
    uint64_t n;
    int64_t *whole = epoch_rows(l, 3, &n);
    for (uint64_t k = 0; k < n / BATCH; k += 7) {
        const uint32_t world = 1u << k % 3;
        fby_loader_state s = {.size = sizeof s};
        assert_int_equal(fby_loader_begin_at(l, 3, k, NULL), FBY_OK);
        assert_int_equal(fby_loader_state_get(l, &s, NULL), FBY_OK);
        for (uint32_t r = 0; r < world; r++) {
            fby_loader_opts other = opts;
            other.batch_size = BATCH / world;
            other.world_size = world;
            other.rank = r;
            other.n_threads = 1 + (int)(k % 3);
            fby_loader *again = open_loader(ds, other);
            assert_int_equal(fby_loader_state_set(again, &s, NULL), FBY_OK);
            for (uint64_t i = k; i < n / BATCH; i++) {
                fby_batch *b;
                assert_int_equal(fby_loader_next(again, -1, &b, NULL), FBY_OK);
                assert_memory_equal(values_of(b, "row"), whole + i * BATCH + r * (BATCH / world), BATCH / world * sizeof *whole);
                fby_batch_unref(b);
            }
            fby_loader_close(again);
        }
    }
    free(whole);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void a_state_of_another_diversity_is_refused_and_so_is_what_cannot_be(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader *l = open_loader(ds, PLAN);
    for (int i = 0; i < 2; i++) {
        fby_loader_opts opts = PLAN;
        if (i)
            opts.max_superbatch_batches = 9;
        else
            opts.diversity_files = 0;
        fby_loader *other = open_loader(ds, opts);
        fby_loader_state s = {.size = sizeof s};
        fby_error err = {0};
        assert_int_equal(fby_loader_state_get(other, &s, NULL), FBY_OK);
        assert_int_equal(fby_loader_state_set(l, &s, &err), FBY_E_ARG);
        assert_non_null(
            strstr(err.message, i ? "batches at most from a superbatch (0 = as it comes) 9" : "as it comes) 0, this loader has 20"));
        fby_loader_close(other);
    }
    fby_loader_close(l);
    fby_loader_opts opts = PLAN;
    fby_error err = {0};
    opts.diversity_files = FILES + 1;
    assert_int_equal(try_loader(ds, opts, &l, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "only 72 files"));
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_batch_has_the_files_asked_for_and_blocks_are_read_as_often_as_the_report_says, setup_dir,
                                        teardown_dir),
        cmocka_unit_test_setup_teardown(each_sentence_about_mixing_is_said_beside_the_others, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_cap_on_batches_from_one_superbatch_ends_long_runs_over_the_same_files, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(an_epoch_resumed_at_any_batch_goes_on_exactly_on_any_number_of_ranks, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_state_of_another_diversity_is_refused_and_so_is_what_cannot_be, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
