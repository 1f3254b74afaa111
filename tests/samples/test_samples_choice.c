/* Choices of samples against lists: any density, repeats, choices of choices; and the runs of rows that they need. */
#include "samples/samples_impl.h"
#include "samples_fixture.h"

static const uint64_t BLOCKS[] = {1000, 1, 5000, 64, 3, 129, 70000};
enum { N_BLOCKS = sizeof BLOCKS / sizeof *BLOCKS };

static fby_dataset *blocks(void)
{
    fby_dataset *ds = NULL;
    fby_error err = {0};
    if (memory_dataset_open(BLOCKS, N_BLOCKS, &ds, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return ds;
}

/* Of each sample, how often: none, one in `rare`, all, or many times. */
static uint16_t draw_count(fby__random *r, uint64_t rare, uint16_t most)
{
    return fby__random_below(r, rare) == 0 ? (uint16_t)(1 + fby__random_below(r, most)) : 0;
}

/* s with counts drawn anew, and the rows that should come. */
static fby_samples *choose(const fby_samples *s, fby__random *r, uint64_t rare, uint16_t most, uint64_t **out_rows, uint64_t *out_n)
{
    fby__choice *choice = fby__choice_create(N_BLOCKS);
    fby_samples *chosen = NULL;
    uint64_t n = 0, *rows = calloc(fby_samples_count(s) * most + 1, sizeof *rows);
    for (uint32_t b = 0; b < N_BLOCKS; b++) {
        uint64_t here = fby__samples_of_block(s, b), row, length;
        uint16_t *counts = calloc(here + 1, sizeof *counts);
        for (uint64_t i = 0; i < here; i++) {
            counts[i] = draw_count(r, rare, most);
            fby__samples_at(s, b, i, &row, &length);
            for (uint16_t k = 0; k < counts[i]; k++)
                rows[n++] = row + fby__dataset_block(fby__samples_dataset(s), b)->first_row;
        }
        assert_int_equal(fby__choice_set(choice, s, b, counts, fby__samples_of_block(s, b), NULL), FBY_OK);
        free(counts);
    }
    assert_int_equal(fby__samples_choose(s, choice, &chosen, NULL), FBY_OK);
    *out_rows = rows;
    *out_n = n;
    return chosen;
}

static void a_choice_is_the_list_it_was_made_of(void **state)
{
    (void)state;
    static const uint64_t RARE[] = {1, 2, 3, 10, 100, 3000, 100000};
    fby_dataset *ds = blocks();
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    for (uint64_t seed = 0; seed < 21; seed++) {
        fby__random r = {.key = seed};
        uint64_t *rows, *again_rows, n, again_n;
        fby_samples *s = choose(all, &r, RARE[seed % 7], (uint16_t)(1 + seed / 7 * 4), &rows, &n);
        assert_rows(s, rows, n);
        fby_samples *again = choose(s, &r, 1 + seed % 3, 3, &again_rows, &again_n);
        assert_rows(again, again_rows, again_n);
        fby_samples_close(again);
        fby_samples_close(s);
        free(rows);
        free(again_rows);
    }
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void a_choice_of_everything_is_no_choice(void **state)
{
    (void)state;
    fby_dataset *ds = blocks();
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    fby__random r = {.key = 5};
    uint64_t *rows, n;
    fby_samples *s = choose(all, &r, 1, 1, &rows, &n);
    assert_null(s->choice);
    assert_string_equal(fby__samples_identity(s), fby__samples_identity(all));
    fby_samples_close(s);
    fby_samples_close(all);
    free(rows);
    fby_dataset_close(ds);
}

static void choices_with_equal_counts_are_told_apart(void **state)
{
    (void)state;
    fby_dataset *ds = blocks();
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    fby_samples *a, *b, *c;
    assert_int_equal(fby_samples_limit(all, 500, true, 1, &a, NULL), FBY_OK);
    assert_int_equal(fby_samples_limit(all, 500, true, 1, &b, NULL), FBY_OK);
    fby__choice *other = fby__choice_create(N_BLOCKS);
    for (uint32_t k = 0; k < N_BLOCKS; k++) { /* as many of each block as a, but its first ones */
        uint16_t *counts = calloc(BLOCKS[k], sizeof *counts);
        for (uint64_t i = 0; i < fby__samples_of_block(a, k); i++)
            counts[i] = 1;
        assert_int_equal(fby__choice_set(other, all, k, counts, fby__samples_of_block(all, k), NULL), FBY_OK);
        free(counts);
    }
    assert_int_equal(fby__samples_choose(all, other, &c, NULL), FBY_OK);
    assert_int_equal(fby_samples_count(a), fby_samples_count(c));
    assert_string_equal(fby__samples_identity(a), fby__samples_identity(b));
    assert_string_not_equal(fby__samples_identity(a), fby__samples_identity(c));
    fby_samples_close(a);
    fby_samples_close(b);
    fby_samples_close(c);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

/* The runs of samples [lo, hi) of a block are what marking their rows one by one gives. */
static void check_runs(const fby_samples *s, uint32_t b, uint64_t lo, uint64_t hi, uint64_t gap)
{
    uint64_t row, rows, begin, end, at = lo, before = 0, most = 0, inside = lo;
    bool any = false;
    for (uint64_t i = lo; i < hi; i++) {
        fby__samples_at(s, b, i, &row, &rows);
        most = row + rows > most ? row + rows : most;
    }
    uint8_t *needed = calloc(most + 1, 1), *got = calloc(most + 1, 1);
    for (uint64_t i = lo; i < hi; i++) {
        fby__samples_at(s, b, i, &row, &rows);
        memset(needed + row, 1, rows);
    }
    while (fby__samples_next_span(s, b, &at, hi, gap, &begin, &end)) {
        assert_true(begin < end && end <= most && (!any || begin > before + gap));
        assert_true(needed[begin] && needed[end - 1]);
        uint64_t empty = 0;
        for (uint64_t r = begin; r < end; r++) {
            empty = needed[r] ? 0 : empty + 1;
            assert_true(empty <= gap);
        }
        memset(got + begin, 1, end - begin);
        for (; inside < at; inside++) {
            fby__samples_at(s, b, inside, &row, &rows);
            assert_true(row >= begin && row + rows <= end);
        }
        before = end;
        any = true;
    }
    assert_int_equal(inside, hi);
    for (uint64_t r = 0; r < most; r++)
        assert_true(got[r] >= needed[r]);
    free(needed);
    free(got);
}

static void check_all_runs(const fby_samples *s, fby__random *r)
{
    for (uint32_t b = 0; b < N_BLOCKS; b++) {
        uint64_t n = fby__samples_of_block(s, b);
        if (n == 0)
            continue;
        for (uint64_t gap = 0; gap < 40; gap += 13) {
            uint64_t lo = fby__random_below(r, n), hi = lo + 1 + fby__random_below(r, n - lo);
            check_runs(s, b, 0, n, gap);
            check_runs(s, b, lo, hi, gap);
        }
    }
}

static void runs_hold_the_rows_that_samples_need_and_little_else(void **state)
{
    (void)state;
    fby_dataset *ds = blocks();
    fby__random r = {.key = 77};
    static const uint64_t STRIDE[] = {1, 7, 10, 25};
    for (int i = 0; i < 6; i++) {
        fby_samples_opts opts = {.kind = FBY_SAMPLES_ROWS, .n_threads = 2};
        if (i < 4)
            opts = (fby_samples_opts){.kind = FBY_SAMPLES_WINDOWS, .input = 10, .stride = STRIDE[i]};
        if (i == 5)
            opts = (fby_samples_opts){.kind = FBY_SAMPLES_GROUPS, .key = "narrow", .n_threads = 2};
        fby_samples *all = open_samples(ds, opts);
        check_all_runs(all, &r);
        for (uint64_t rare = 1; rare < 1000; rare *= 9) {
            uint64_t *rows, n;
            fby_samples *s = choose(all, &r, rare, 2, &rows, &n);
            if (n)
                check_all_runs(s, &r);
            fby_samples_close(s);
            free(rows);
        }
        fby_samples_close(all);
    }
    fby_dataset_close(ds);
}

static void a_choice_of_few_is_small(void **state)
{
    (void)state;
    fby_dataset *ds = blocks();
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS}), *few, *half;
    size_t before = fby__samples_memory_bytes(all);
    assert_int_equal(fby_samples_limit(all, 760, true, 3, &few, NULL), FBY_OK);
    assert_int_equal(fby_samples_limit(all, 38000, true, 3, &half, NULL), FBY_OK);
    assert_true(fby__samples_memory_bytes(few) - before < 760 * 10 / 8 + 600);    /* one in 100: 9.2 bits each */
    assert_true(fby__samples_memory_bytes(half) - before < 38000 * 9 / 16 + 600); /* one in two: 3.5 bits and a row's rounding */
    fby_samples_close(few);
    fby_samples_close(half);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_is_the_list_it_was_made_of),
        cmocka_unit_test(a_choice_of_everything_is_no_choice),
        cmocka_unit_test(choices_with_equal_counts_are_told_apart),
        cmocka_unit_test(runs_hold_the_rows_that_samples_need_and_little_else),
        cmocka_unit_test(a_choice_of_few_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
