/*
 * Parts of an epoch through the loader: whole files, every row once a sweep, in an order that threads, budget and ranks do not change;
 * resume inside a sweep; the next part is read while one ends, and nothing twice for it.
 */
#include "support/loader_fixture.h"

#include <time.h>

enum { FILES = 20, PART = 6, PARTS = 4, FILE_ROWS = 60 }; /* the last part has 2 files */

static const fby_loader_opts PLAN = {.seed = 11, .part_files = PART, .outputs = OUTPUTS, .n_outputs = N_DENSE};

/* Files of about 60 rows each: file i has the rows that count_rows of the files before do not have. */
static uint64_t rows_of(int i) { return i % 9 == 7 ? 33 : i % 9 == 8 ? 1 : FILE_ROWS; }

static uint64_t all_rows(void)
{
    uint64_t n = 0;
    for (int i = 0; i < FILES; i++)
        n += rows_of(i);
    return n;
}

static int file_of(int64_t row)
{
    int i = 0;
    for (uint64_t first = 0; (uint64_t)row >= first + rows_of(i); i++)
        first += rows_of(i);
    return i;
}

static fby_dataset *dataset(void)
{
    put_files("parts", FILES);
    return open_dataset("parts", NULL);
}

static uint64_t batches_of(fby_loader *l, uint64_t epoch)
{
    uint64_t n = 0;
    assert_int_equal(fby_loader_count_of(l, epoch, &n, NULL, NULL), FBY_OK);
    return n;
}

/* As epoch_rows, but the counts are those of the epoch while it is under way. Owned by the caller. */
static int64_t *part_rows(fby_loader *l, uint64_t epoch, uint64_t *out_n)
{
    fby_error err = {0};
    fby_batch *b;
    uint64_t n = 0, n_batches = 0, expect = 0;
    assert_int_equal(fby_loader_begin(l, epoch, &err), FBY_OK);
    assert_int_equal(fby_loader_count_of(l, epoch, NULL, &expect, NULL), FBY_OK);
    assert_int_equal(fby_loader_sample_count(l), expect);
    assert_int_equal(fby_loader_batch_count(l), batches_of(l, epoch));
    int64_t *rows = calloc(expect + 1, sizeof *rows);
    while (fby_loader_next(l, -1, &b, &err) == FBY_OK) {
        assert_true(n + fby_batch_size(b) <= expect);
        memcpy(rows + n, values_of(b, "row"), fby_batch_size(b) * sizeof *rows);
        n += fby_batch_size(b);
        n_batches++;
        check_batch(b);
        fby_batch_unref(b);
    }
    if (err.code != FBY_OK && err.message[0])
        fail_msg("%s", err.message);
    assert_int_equal(n, expect);
    assert_int_equal(n_batches, batches_of(l, epoch));
    *out_n = n;
    return rows;
}

static void a_sweep_of_parts_gives_every_row_once_in_an_order_that_threads_and_budget_do_not_change(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    int64_t *expect[2 * PARTS] = {0};
    uint64_t n[2 * PARTS];
    const uint64_t superbatch[] = {0, 100};
    for (int s = 0; s < 2; s++)
        for (int threads = 1; threads <= 4; threads *= 2)
            for (int tight = 0; tight < 2; tight++) {
                fby_loader_opts opts = PLAN;
                opts.superbatch_samples = superbatch[s];
                opts.n_threads = threads;
                fby_loader *l = open_loader(ds, opts);
                fby_report r = report_of(l);
                assert_int_equal(r.n_parts, PARTS);
                if (tight) {
                    fby_loader_close(l);
                    opts.memory_bytes = r.budget_minimum_bytes;
                    l = open_loader(ds, opts);
                }
                for (uint64_t e = 0; e < 2 * PARTS; e++) {
                    uint64_t got_n;
                    int64_t *got = part_rows(l, e, &got_n); /* checks the counts that the loader shows, too */
                    if (threads == 1 && !tight) {
                        free(expect[e]);
                        expect[e] = got;
                        n[e] = got_n;
                        continue;
                    }
                    assert_int_equal(got_n, n[e]);
                    assert_memory_equal(got, expect[e], got_n * sizeof *got);
                    free(got);
                }
                r = report_of(l);
                assert_true(r.budget_peak_bytes <= r.budget_bytes);
                fby_loader_close(l);
            }
    for (int sweep = 0; sweep < 2; sweep++) {
        int part_of_file[FILES];
        int64_t *all = calloc(all_rows(), sizeof *all);
        uint64_t total = 0;
        memset(part_of_file, 0xff, sizeof part_of_file);
        for (int p = 0; p < PARTS; p++) {
            int64_t *rows = expect[sweep * PARTS + p];
            for (uint64_t i = 0; i < n[sweep * PARTS + p]; i++) {
                int f = file_of(rows[i]);
                assert_true(part_of_file[f] == -1 || part_of_file[f] == p); /* whole files */
                part_of_file[f] = p;
                all[total++] = rows[i];
            }
        }
        assert_once_each(all, total, all_rows());
        free(all);
    }
    assert_true(n[0] != n[PARTS] || memcmp(expect[0], expect[PARTS], n[0] * sizeof **expect) != 0); /* drawn anew */
    for (int e = 0; e < 2 * PARTS; e++)
        free(expect[e]);
    fby_dataset_close(ds);
}

static void the_counts_are_those_of_the_part_under_way_or_next(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader *l = open_loader(ds, PLAN);
    fby_batch *b;
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (uint64_t e = 0; e < 2 * PARTS; e++) {
        uint64_t expect = batches_of(l, e), n = 0;
        lowest = expect < lowest ? expect : lowest;
        highest = expect > highest ? expect : highest;
        assert_int_equal(fby_loader_batch_count(l), expect); /* next */
        while (fby_loader_next(l, -1, &b, NULL) == FBY_OK) {
            assert_int_equal(fby_batch_epoch(b), e);
            fby_batch_unref(b);
            assert_int_equal(fby_loader_batch_count(l), expect); /* under way */
            n++;
        }
        assert_int_equal(n, expect);
    }
    assert_true(lowest < highest);
    fby_error err = {0};
    assert_int_equal(fby_loader_begin_at(l, 3, batches_of(l, 3) + 1, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "epoch 3 has"));
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static fby_loader *rank_loader(fby_dataset *ds, uint32_t rank, uint32_t world, int threads)
{
    fby_loader_opts opts = {.seed = 11, .n_parts = 3}; /* of 6 and 7 files */
    opts.batch_size = 16 / world;
    opts.rank = rank;
    opts.world_size = world;
    opts.tail = FBY_TAIL_WRAP;
    opts.superbatch_samples = 80;
    opts.n_threads = threads;
    return open_loader(ds, opts);
}

static void an_epoch_of_a_part_resumed_at_any_batch_goes_on_exactly_on_other_ranks(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader *l = rank_loader(ds, 0, 1, 2);
    for (uint64_t e = 1; e < 4; e++) { /* across a sweep's end */
        uint64_t n;
        int64_t *whole = part_rows(l, e, &n);
        for (uint64_t k = 0; k < n / 16; k++) {
            const uint32_t world = 1u << k % 4;
            fby_batch *b;
            assert_int_equal(fby_loader_begin_at(l, e, k, NULL), FBY_OK);
            fby_loader_state s = {.size = sizeof s};
            assert_int_equal(fby_loader_state_get(l, &s, NULL), FBY_OK);
            assert_true(s.part_files == 0 && s.n_parts == 3);
            for (uint32_t r = 0; r < world; r++) {
                fby_loader *other = rank_loader(ds, r, world, 1 + (int)(k % 3));
                assert_int_equal(fby_loader_state_set(other, &s, NULL), FBY_OK);
                assert_int_equal(fby_loader_batch_count(other), n / 16);
                for (uint64_t i = k; i < n / 16; i++) {
                    assert_int_equal(fby_loader_next(other, -1, &b, NULL), FBY_OK);
                    assert_memory_equal(values_of(b, "row"), whole + i * 16 + r * (16 / world), 16 / world * sizeof *whole);
                    fby_batch_unref(b);
                }
                assert_int_equal(fby_loader_next(other, -1, &b, NULL), FBY_END);
                assert_int_equal(fby_loader_batch_count(other), batches_of(other, e + 1));
                fby_loader_close(other);
            }
        }
        free(whole);
    }
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void a_state_of_other_parts_is_refused_with_both(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    const struct {
        uint32_t part_files, n_parts;
        const char *text;
    } cases[] = {{7, 0, "parts of 7 files, this loader has parts of 6 files"},
                 {0, 4, "4 parts, this loader has parts of 6 files"},
                 {0, 0, "no parts, this loader has parts of 6 files"}};
    fby_loader *l = open_loader(ds, PLAN);
    for (int i = 0; i < 3; i++) {
        fby_loader_opts opts = PLAN;
        opts.part_files = cases[i].part_files;
        opts.n_parts = cases[i].n_parts;
        fby_loader *other = open_loader(ds, opts);
        fby_loader_state s = {.size = sizeof s};
        fby_error err = {0};
        assert_int_equal(fby_loader_state_get(other, &s, NULL), FBY_OK);
        assert_int_equal(fby_loader_state_set(l, &s, &err), FBY_E_ARG);
        if (!strstr(err.message, cases[i].text))
            fail_msg("%s", err.message);
        fby_loader_close(other);
    }
    fby_loader_opts opts = PLAN;
    fby_error err = {0};
    fby_loader *none = NULL;
    opts.part_files = FILES + 1; /* more files than there are: one part */
    assert_int_equal(try_loader(ds, opts, &none, &err), FBY_OK);
    assert_int_equal(report_of(none).n_parts, 1);
    fby_loader_close(none);
    opts.part_files = 0;
    opts.n_parts = FILES + 1;
    assert_int_equal(try_loader(ds, opts, &none, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "at most 20"));
    fby_loader_close(l);
    fby_dataset_close(ds);
}

/* Row i of every file has id i: of each block, the rows of a part lie apart. */
static void keys_that_lie_in_every_block_come_whole_in_parts_that_threads_and_budget_do_not_change(void **state)
{
    (void)state;
    enum { KEYS = 60, EACH = 11, N_PARTS = 6 }; /* the last part has 5 keys */
    fby_dataset *ds = dataset();
    int64_t *expect[2 * N_PARTS] = {0};
    uint64_t n[2 * N_PARTS], file_begin[FILES + 1] = {0};
    for (int i = 0; i < FILES; i++)
        file_begin[i + 1] = file_begin[i] + rows_of(i);
    for (int all_outputs = 0; all_outputs < 2; all_outputs++)
        for (int threads = 1; threads <= 4; threads += 3) {
            fby_loader_opts opts = {.seed = 11, .part_keys = EACH, .part_key = "id", .n_threads = threads};
            if (!all_outputs) {
                opts.outputs = OUTPUTS;
                opts.n_outputs = N_DENSE;
            }
            fby_loader *l = open_loader(ds, opts);
            assert_int_equal(report_of(l).n_parts, N_PARTS);
            opts.memory_bytes = report_of(l).budget_minimum_bytes;
            fby_loader_close(l);
            l = open_loader(ds, opts);
            for (uint64_t e = 0; e < 2 * N_PARTS; e++) {
                uint64_t got_n;
                int64_t *got = part_rows(l, e, &got_n);
                if (!expect[e]) {
                    expect[e] = got;
                    n[e] = got_n;
                    continue;
                }
                assert_int_equal(got_n, n[e]);
                assert_memory_equal(got, expect[e], got_n * sizeof *got);
                free(got);
            }
            fby_report r = report_of(l);
            assert_true(all_outputs || r.budget_peak_bytes <= r.budget_bytes);
            fby_loader_close(l);
        }
    for (int sweep = 0; sweep < 2; sweep++) {
        int part_of_key[KEYS], keys_in[N_PARTS] = {0};
        int64_t *all = calloc(all_rows(), sizeof *all);
        uint64_t total = 0;
        memset(part_of_key, 0xff, sizeof part_of_key);
        for (int p = 0; p < N_PARTS; p++) {
            int64_t *rows = expect[sweep * N_PARTS + p];
            for (uint64_t i = 0; i < n[sweep * N_PARTS + p]; i++) {
                const uint64_t key = (uint64_t)rows[i] - file_begin[file_of(rows[i])];
                keys_in[p] += part_of_key[key] == -1;
                assert_true(part_of_key[key] == -1 || part_of_key[key] == p); /* whole keys */
                part_of_key[key] = p;
                all[total++] = rows[i];
            }
            assert_int_equal(keys_in[p], p + 1 < N_PARTS ? EACH : KEYS - (N_PARTS - 1) * EACH);
        }
        assert_once_each(all, total, all_rows());
        free(all);
    }
    for (int e = 0; e < 2 * N_PARTS; e++)
        free(expect[e]);
    fby_dataset_close(ds);
}

static void parts_by_key_that_cannot_be_or_are_others_are_refused(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    const struct {
        fby_loader_opts opts;
        fby_status status;
        const char *text;
    } cases[] = {{{.part_keys = 61, .part_key = "id"}, FBY_E_ARG, "choose at most 60"},
                 {{.part_keys = 6, .part_files = 1}, FBY_E_ARG, "by files, by keys or by their number"},
                 {{.part_key = "id"}, FBY_E_ARG, "say how many keys a part has"},
                 {{.part_keys = 6}, FBY_E_ARG, "name the column"},
                 {{.part_keys = 6, .part_key = "word"}, FBY_E_DATA, "'word' is missing in row 5 "},
                 {{.part_keys = 6, .part_key = "hits"}, FBY_E_UNSUPPORTED, "hits"},
                 {{.part_keys = 6, .part_key = "nowhere"}, FBY_E_SCHEMA, "nowhere"}};
    fby_loader *l = NULL;
    fby_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err = (fby_error){0};
        assert_int_equal(try_loader(ds, cases[i].opts, &l, &err), cases[i].status);
        if (!strstr(err.message, cases[i].text))
            fail_msg("%s", err.message);
    }
    fby_loader_state s = {.size = sizeof s};
    fby_loader *by_id = open_loader(ds, (fby_loader_opts){.part_keys = 6, .part_key = "id"});
    assert_int_equal(fby_loader_state_get(by_id, &s, NULL), FBY_OK);
    assert_true(s.part_keys == 6 && s.part_keys_hash != 0);
    s.part_keys_hash ^= 2;
    assert_int_equal(fby_loader_state_set(by_id, &s, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "parts by other keys"));
    s.part_keys = 7;
    assert_int_equal(fby_loader_state_set(by_id, &s, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "parts of 7 keys, this loader has parts of 6 keys"));
    fby_loader_close(by_id);
    fby_dataset_close(ds);
}

static void wait_until_read(fby_loader *l, uint64_t blocks)
{
    for (int i = 0; i < 2000 && report_of(l).blocks_read < blocks; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static uint64_t blocks_of(fby_dataset *ds, const int64_t *rows, uint64_t n)
{
    bool has[FILES] = {0};
    uint64_t blocks = 0;
    for (uint64_t i = 0; i < n; i++)
        has[file_of(rows[i])] = true;
    for (uint32_t i = 0; i < fby_dataset_block_count(ds); i++) {
        fby_block_info info = {.size = sizeof info};
        assert_int_equal(fby_dataset_block(ds, i, &info, NULL), FBY_OK);
        blocks += has[info.file];
    }
    return blocks;
}

static void the_next_part_is_read_while_one_ends_and_no_block_twice_for_it(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader *l = open_loader(ds, PLAN);
    uint64_t expect[PARTS + 1] = {0}, blocks = fby_dataset_block_count(ds), sum = 0;
    for (uint64_t e = 0; e < PARTS + 1; e++) {
        uint64_t n;
        int64_t *rows = part_rows(l, e, &n);
        expect[e] = blocks_of(ds, rows, n);
        sum += e < PARTS ? expect[e] : 0;
        free(rows);
    }
    assert_int_equal(sum, blocks);
    fby_loader_close(l);

    fby_loader_opts opts = PLAN;
    opts.memory_bytes = 64 << 20; /* all of it stays */
    l = open_loader(ds, opts);
    uint64_t read = 0;
    for (uint64_t e = 0; e < PARTS; e++) {
        fby_batch *b;
        uint64_t want = read + expect[e] + (e + 1 < PARTS ? expect[e + 1] : 0);
        assert_int_equal(fby_loader_begin(l, e, NULL), FBY_OK);
        assert_int_equal(fby_loader_next(l, -1, &b, NULL), FBY_OK); /* one batch taken, and the whole next part is read */
        fby_batch_unref(b);
        while (fby_loader_next(l, -1, &b, NULL) == FBY_OK)
            fby_batch_unref(b);
        wait_until_read(l, want);
        assert_int_equal(report_of(l).blocks_read, want);
        read += expect[e];
    }
    fby_loader_close(l);

    opts = PLAN; /* the smallest budget: it holds one part alone, so nothing of the next one comes before this one has drained */
    l = open_loader(ds, opts);
    opts.memory_bytes = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    l = open_loader(ds, opts);
    for (uint64_t e = 0; e < PARTS; e++) {
        fby_batch *b;
        while (fby_loader_next(l, -1, &b, NULL) == FBY_OK)
            fby_batch_unref(b);
    }
    fby_report r = report_of(l);
    assert_true(r.blocks_read <= blocks + expect[PARTS] && r.budget_peak_bytes <= r.budget_bytes);
    fby_loader_close(l);
    fby_dataset_close(ds);
}

static void ranks_share_the_blocks_of_a_part_and_need_the_memory_of_their_share(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    enum { THIRDS = 3 }; /* parts of 6 and 7 files: none of a few rows */
    uint64_t minimum[5] = {0}, in_parts = 0;
    for (uint32_t world = 1; world <= 4; world *= 2) {
        uint64_t read = 0;
        for (uint32_t rank = 0; rank < world; rank++) {
            fby_loader_opts opts = PLAN;
            opts.part_files = 0;
            opts.n_parts = THIRDS;
            opts.batch_size = 16 / world;
            opts.rank = rank;
            opts.world_size = world;
            opts.tail = FBY_TAIL_WRAP;
            opts.n_threads = 2;
            fby_loader *l = open_loader(ds, opts);
            opts.memory_bytes = minimum[world] = report_of(l).budget_minimum_bytes;
            fby_loader_close(l);
            l = open_loader(ds, opts);
            for (uint64_t e = 0; e < THIRDS; e++) {
                uint64_t n;
                int64_t *rows = part_rows(l, e, &n);
                in_parts += world == 1 ? blocks_of(ds, rows, n) : 0;
                free(rows);
            }
            fby_report r = report_of(l);
            assert_true(r.budget_peak_bytes <= r.budget_bytes);
            read += r.blocks_read;
            fby_loader_close(l);
        }
        assert_int_equal(in_parts, fby_dataset_block_count(ds)); /* one rank, every block once a sweep */
        /* at most one block is cut at each border between ranks, and the next sweep's first part may have begun */
        assert_true(read >= in_parts && read <= (in_parts + THIRDS * (world - 1)) * (THIRDS + 1) / THIRDS + world);
    }
    assert_true(minimum[4] < minimum[2] && minimum[2] < minimum[1]);
    fby_dataset_close(ds);
}

static void leaving_a_part_early_or_going_elsewhere_loses_nothing(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader *l = open_loader(ds, PLAN), *fresh = open_loader(ds, PLAN);
    const uint64_t epochs[] = {0, 1, 3, 3, 2, 9, 4, 5};
    for (int i = 0; i < 8; i++) {
        fby_batch *b;
        for (uint64_t k = 0; k < (uint64_t)i % 5 * 3; k++) { /* part of the epoch that comes next anyway, or all of it */
            if (fby_loader_next(l, -1, &b, NULL) != FBY_OK)
                break;
            fby_batch_unref(b);
        }
        uint64_t n[2];
        int64_t *got = part_rows(l, epochs[i], &n[0]), *expect = part_rows(fresh, epochs[i], &n[1]);
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(got, expect, n[0] * sizeof *got);
        free(got);
        free(expect);
    }
    fby_loader_close(l);
    fby_loader_close(fresh);
    fby_dataset_close(ds);
}

static void too_small_a_budget_names_one_that_does_and_a_superbatch_that_fits(void **state)
{
    (void)state;
    fby_dataset *ds = dataset();
    fby_loader_opts opts = PLAN;
    opts.streams = 1;
    fby_loader *l = open_loader(ds, opts);
    uint64_t whole_part = report_of(l).budget_minimum_bytes;
    fby_loader_close(l);
    opts = (fby_loader_opts){.seed = 11, .shuffle = FBY_SHUFFLE_FULL, .streams = 1};
    l = open_loader(ds, opts);
    assert_true(whole_part < report_of(l).budget_minimum_bytes); /* of all files */
    fby_loader_close(l);
    fby_error err = {0};
    opts = PLAN;
    opts.streams = 1;
    opts.memory_bytes = whole_part - 1;
    assert_int_equal(try_loader(ds, opts, &l, &err), FBY_E_BUDGET);
    char minimum[40];
    (void)snprintf(minimum, sizeof minimum, "%llu", (unsigned long long)whole_part);
    const char *superbatch = strstr(err.message, "lower superbatch to at most ");
    if (!strstr(err.message, minimum) || !superbatch)
        fail_msg("%s", err.message);
    assert_int_equal(sscanf(superbatch, "lower superbatch to at most %lu", &opts.superbatch_samples), 1);
    l = open_loader(ds, opts);
    uint64_t n;
    free(part_rows(l, 0, &n));
    fby_loader_close(l);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sweep_of_parts_gives_every_row_once_in_an_order_that_threads_and_budget_do_not_change, setup_dir,
                                        teardown_dir),
        cmocka_unit_test_setup_teardown(the_counts_are_those_of_the_part_under_way_or_next, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(an_epoch_of_a_part_resumed_at_any_batch_goes_on_exactly_on_other_ranks, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(a_state_of_other_parts_is_refused_with_both, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(keys_that_lie_in_every_block_come_whole_in_parts_that_threads_and_budget_do_not_change, setup_dir,
                                        teardown_dir),
        cmocka_unit_test_setup_teardown(parts_by_key_that_cannot_be_or_are_others_are_refused, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(the_next_part_is_read_while_one_ends_and_no_block_twice_for_it, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(ranks_share_the_blocks_of_a_part_and_need_the_memory_of_their_share, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(leaving_a_part_early_or_going_elsewhere_loses_nothing, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(too_small_a_budget_names_one_that_does_and_a_superbatch_that_fits, setup_dir, teardown_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
