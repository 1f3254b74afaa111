/* Samples by values, from index tables, more than once: what comes is what a loop over the rows would choose. */
#include "samples_pulses.h"

#include "base/hash.h"
#include "base/random.h"
#include "samples/values.h"

#include <math.h>

static fby_status try_select(const fby_samples *s, fby_select_opts opts, fby_samples **out, fby_error *err)
{
    opts.size = sizeof opts;
    opts.n_threads = 2;
    return fby_samples_select(s, &opts, out, err);
}

static void groups_by_listed_keys(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = events(ds), *s = NULL;
    fby_error err = {0};
    const int64_t ids[] = {108, 101, 105, 101}, unknown[] = {7, 101, 109, 110, 111, 112, 113};
    assert_int_equal(try_select(all, (fby_select_opts){.values = {ids, NULL, 4}}, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){4, 20, 32}, 3);
    assert_int_equal(rows_of(s, 2), 4);
    fby_samples_close(s);
    assert_int_equal(try_select(all, (fby_select_opts){.values = {ids, NULL, 4}, .exclude = true}, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){0, 8, 12, 16, 24, 28, 36}, 7);
    fby_samples *again = NULL;
    assert_says(try_select(s, (fby_select_opts){.values = {ids, NULL, 1}}, &again, &err), FBY_E_ARG, &err, "no sample has 108 of 'event'");
    fby_samples_close(s);
    assert_says(try_select(all, (fby_select_opts){.values = {unknown, NULL, 7}}, &s, &err), FBY_E_ARG, &err,
                "no sample has 7, 110, 111, … of 'event' (5 of 7 values given are unknown)");
    assert_int_equal(try_select(all, (fby_select_opts){.values = {unknown, NULL, 7}, .ignore_unknown = true}, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){4, 36}, 2);
    fby_samples_close(s);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void rows_by_a_range_of_a_column(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS}), *s = NULL;
    fby_error err = {0};
    fby_select_opts range = {
        .column = "weight", .low = {.given = true, .number = 5}, .high = {.given = true, .is_real = true, .real = 12.5}};
    assert_int_equal(try_select(all, range, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){5, 6, 7, 8, 10, 11, 12}, 7); /* 9 is missing */
    fby_samples *fewer = NULL;
    range.low.number = 8;
    assert_int_equal(try_select(s, range, &fewer, &err), FBY_OK);
    assert_rows(fewer, (uint64_t[]){8, 10, 11, 12}, 4);
    fby_samples_close(fewer);
    fby_samples_close(s);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void dates_and_times_are_given_as_text(void **state)
{
    (void)state;
    enum { MS_A_DAY = 86400000 };
    const int64_t at[] = {10956LL * MS_A_DAY, 10957LL * MS_A_DAY, 10958LL * MS_A_DAY};
    fby_dataset *ds = open_numbers((numbers){{"at"}, {at}, 1, 3, 2, 0, {"tsm:"}});
    fby_samples *rows = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS}), *s = NULL;
    fby_error err = {0};
    const fby_bound counted[] = {{.given = true, .number = at[1]}, {.given = true, .is_real = true, .real = 2000}},
                    dated = {.given = true, .text = "2000-01-01"};
    const char *says = "column 'at' is a time: write '2000-01-31' (a number would count ms since 1970)";
    for (int i = 0; i < 2; i++) {
        assert_says(try_select(rows, (fby_select_opts){.column = "at", .low = counted[i]}, &s, &err), FBY_E_ARG, &err, says);
        assert_says(try_select(rows, (fby_select_opts){.column = "at", .high = counted[i]}, &s, &err), FBY_E_ARG, &err, says);
    }
    assert_says(try_select(rows, (fby_select_opts){.column = "at", .values = {at, NULL, 3}}, &s, &err), FBY_E_ARG, &err, says);
    assert_null(s);
    assert_int_equal(try_select(rows, (fby_select_opts){.column = "at", .low = dated}, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){1, 2}, 2);
    fby_samples_close(s);
    const fby_values day = {.texts = (const char *const[]){"2000-01-01"}, .n = 1};
    assert_int_equal(try_select(rows, (fby_select_opts){.column = "at", .values = day}, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){1}, 1);
    fby_samples_close(s);
    assert_int_equal(try_select(rows, (fby_select_opts){.column = "at", .table = ds}, &s, &err), FBY_OK); /* those of a table are its own */
    assert_rows(s, (uint64_t[]){0, 1, 2}, 3);
    fby_samples_close(s);
    fby_samples_close(rows);
    fby_dataset_close(ds);
}

static void wrong_options_say_what_would_do(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *rows = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS}), *s = NULL;
    fby_error err = {0};
    const int64_t one[] = {1};
    const char *const text[] = {"a"};
    const fby_bound low = {.given = true, .number = 1000};
    assert_says(try_select(rows, (fby_select_opts){.values = {one, NULL, 1}}, &s, &err), FBY_E_ARG, &err, "name the column");
    assert_says(try_select(rows, (fby_select_opts){.column = "event"}, &s, &err), FBY_E_ARG, &err, "list values");
    assert_says(try_select(rows, (fby_select_opts){.column = "event", .low = low, .values = {one, NULL, 1}}, &s, &err), FBY_E_ARG, &err,
                "not both");
    assert_says(try_select(rows, (fby_select_opts){.column = "evnt", .low = low}, &s, &err), FBY_E_SCHEMA, &err, "event");
    assert_says(try_select(rows, (fby_select_opts){.column = "event", .low = low}, &s, &err), FBY_E_ARG, &err, "none of the 40 samples");
    assert_says(try_select(rows, (fby_select_opts){.column = "event", .values = {NULL, text, 1}}, &s, &err), FBY_E_ARG, &err,
                "holds numbers, and the values given are strings");
    assert_says(try_select(rows, (fby_select_opts){.column = "event", .low = low, .table_column = "x"}, &s, &err), FBY_E_ARG, &err,
                "give the table");
    assert_null(s);
    fby_samples_close(rows);
    fby_dataset_close(ds);
}

static void groups_by_a_side_table(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = events(ds), *s = NULL;
    fby_error err = {0};
    const int64_t id[] = {109, 103, 100, 55, 103, INT64_MIN, 104}, part[] = {1, 0, 1, 1, 1, 1, 2}, want[] = {1}, none[] = {9};
    fby_dataset *table = open_numbers((numbers){{"event", "part"}, {id, part}, 2, 7, 2, 0, {NULL}});
    fby_select_opts by_table = {.table = table, .table_column = "part", .values = {want, NULL, 1}};
    assert_int_equal(try_select(all, by_table, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){0, 12, 36}, 3);
    fby_samples_close(s);
    by_table.exclude = true;
    assert_int_equal(try_select(all, by_table, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){4, 8, 16, 20, 24, 28, 32}, 7);
    fby_samples_close(s);
    assert_int_equal(try_select(all, (fby_select_opts){.table = table}, &s, &err), FBY_OK); /* those listed at all */
    assert_rows(s, (uint64_t[]){0, 12, 16, 36}, 4);
    fby_samples_close(s);
    s = NULL;
    by_table.values.numbers = none;
    assert_says(try_select(all, by_table, &s, &err), FBY_E_ARG, &err, "no row of 'part' is as asked for");
    by_table.table_key = "evnt";
    assert_says(try_select(all, by_table, &s, &err), FBY_E_SCHEMA, &err, "side table");
    assert_null(s);
    fby_dataset_close(table);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

/* An index table of 5 groups, not in order, rows 4–5, 12–19 and 38 in none; some reach over batches. */
static const int64_t T_ID[] = {7, 3, 9, 1, 5}, T_FIRST[] = {20, 0, 39, 6, 34}, T_LAST[] = {33, 3, 39, 11, 37};

static fby_dataset *index_table(void)
{
    return open_numbers((numbers){{"id", "first", "last"}, {T_ID, T_FIRST, T_LAST}, 3, 5, 2, 0, {NULL}});
}

static fby_samples_opts by_index(fby_dataset *table)
{
    return (fby_samples_opts){
        .size = sizeof(fby_samples_opts), .kind = FBY_SAMPLES_GROUPS, .key = "id", .table = table, .first = "first", .last = "last"};
}

static void groups_of_an_index_table(void **state)
{
    (void)state;
    static const uint64_t LENGTH[] = {4, 6, 14, 4, 1};
    fby_dataset *ds = pulses(), *table = index_table();
    fby_samples *all = open_samples(ds, by_index(table)), *s = NULL;
    fby_error err = {0};
    fby_dataset_close(table); /* the samples hold it */
    assert_rows(all, (uint64_t[]){0, 6, 20, 34, 39}, 5);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(rows_of(all, i), LENGTH[i]);
    assert_int_equal(fby_samples_max_rows(all), 14);
    const int64_t ids[] = {9, 7}, classes[] = {2};
    assert_int_equal(try_select(all, (fby_select_opts){.values = {ids, NULL, 2}}, &s, &err), FBY_OK); /* by the table's key */
    assert_rows(s, (uint64_t[]){20, 39}, 2);
    fby_samples_close(s);
    assert_int_equal(try_select(all, (fby_select_opts){.column = "class", .values = {classes, NULL, 1}}, &s, &err),
                     FBY_OK); /* of the data */
    assert_rows(s, (uint64_t[]){20, 34}, 2);
    fby_samples_close(s);
    assert_int_equal(try_select(all, (fby_select_opts){.column = "last", .low = {.given = true, .number = 12}}, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){20, 34, 39}, 3);
    fby_samples_close(s);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void wrong_index_tables_name_the_row(void **state)
{
    (void)state;
    static const struct {
        int64_t first[3], last[3];
        const char *says;
    } BAD[] = {
        {{0, 5, 20}, {4, 40, 21}, "row 1 of the index table: the group reaches beyond its file"},
        {{0, 5, -2}, {4, 9, 21}, "row 2 of the index table: a row number is missing, negative"},
        {{0, 5, 20}, {4, 9, INT64_MIN}, "row 2 of the index table: a row number is missing"},
        {{0, 5, 20}, {4, 4, 21}, "row 1 of the index table: the last row comes before the first"},
        {{10, 5, 0}, {12, 10, 4}, "overlap: rows 5 to 10 and 10 to 12"},
    };
    fby_dataset *ds = pulses();
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        fby_samples *s = NULL;
        fby_error err = {0};
        fby_dataset *table = open_numbers((numbers){{"id", "first", "last"}, {T_ID, BAD[i].first, BAD[i].last}, 3, 3, 10, 0, {NULL}});
        fby_samples_opts opts = by_index(table);
        assert_says(fby_samples_open(ds, &opts, &s, &err), FBY_E_DATA, &err, BAD[i].says);
        assert_null(s);
        opts.last = "lst";
        assert_says(fby_samples_open(ds, &opts, &s, &err), FBY_E_SCHEMA, &err, "index table");
        opts.last = NULL;
        assert_says(fby_samples_open(ds, &opts, &s, &err), FBY_E_ARG, &err, "needs first and last");
        fby_dataset_close(table);
    }
    fby_dataset_close(ds);
}

static void samples_are_taken_by_number_in_their_order(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = events(ds), *s = NULL, *again = NULL;
    fby_error err = {0};
    assert_int_equal(fby_samples_take(all, (uint64_t[]){8, 0, 3, 0, 3, 0}, 6, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){0, 0, 0, 12, 12, 32}, 6);
    assert_int_equal(fby_samples_take(s, (uint64_t[]){1, 3, 5}, 3, &again, &err), FBY_OK);
    assert_rows(again, (uint64_t[]){0, 12, 32}, 3);
    fby_samples_close(again);
    again = NULL;
    assert_says(fby_samples_take(s, (uint64_t[]){2, 6}, 2, &again, &err), FBY_E_ARG, &err,
                "index 6, at place 1 of the list: there are 6 samples");
    assert_says(fby_samples_take(s, NULL, 0, &again, &err), FBY_E_ARG, &err, "no sample is listed");
    assert_null(again);
    fby_samples_close(s);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void limits_take_the_first_or_a_seeded_draw(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = events(ds), *s, *t;
    assert_int_equal(fby_samples_limit(all, 3, false, 0, &s, NULL), FBY_OK);
    assert_rows(s, (uint64_t[]){0, 4, 8}, 3);
    fby_samples_close(s);
    assert_int_equal(fby_samples_limit(all, 1000, false, 0, &s, NULL), FBY_OK);
    assert_int_equal(fby_samples_count(s), 10);
    fby_samples_close(s);
    uint64_t times[10] = {0};
    for (uint64_t seed = 0; seed < 500; seed++) {
        assert_int_equal(fby_samples_limit(all, 4, true, seed, &s, NULL), FBY_OK);
        assert_int_equal(fby_samples_limit(all, 4, true, seed, &t, NULL), FBY_OK);
        assert_string_equal(fby__samples_identity(s), fby__samples_identity(t));
        assert_int_equal(fby_samples_count(s), 4);
        for (uint64_t i = 0; i < 4; i++)
            times[row_of(s, i) / 4]++;
        fby_samples_close(s);
        fby_samples_close(t);
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(times[i], 150, 250); /* 200 ± 11 */
    assert_int_equal(fby_samples_limit(all, 0, false, 0, &s, NULL), FBY_E_ARG);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void oversampling_repeats_by_class(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = events(ds), *s = NULL;
    fby_error err = {0};
    const int64_t classes[] = {1, 2, 8};
    const uint32_t factors[] = {3, 0, 5};
    fby_oversample_opts opts = {.size = sizeof opts, .column = "class", .values = {classes, NULL, 2}, .factors = factors};
    assert_int_equal(fby_samples_oversample(all, &opts, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){0, 4, 4, 4, 12, 16, 16, 16, 24, 28, 28, 28, 36}, 13);
    fby_samples_close(s);
    opts.values.n = 3;
    assert_says(fby_samples_oversample(all, &opts, &s, &err), FBY_E_ARG, &err, "no sample has 8 of 'class'");
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void keys_of_several_columns(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *s = NULL;
    fby_error err = {0};
    const char *const more[] = {"class", "event"};
    fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_GROUPS, .key = "half", .more_keys = more, .n_more_keys = 2};
    assert_says(fby_samples_open(ds, &opts, &s, &err), FBY_E_SCHEMA, &err, "half");
    opts.key = "class";
    opts.more_keys = more + 1;
    opts.n_more_keys = 1;
    assert_int_equal(fby_samples_open(ds, &opts, &s, &err), FBY_OK);
    assert_int_equal(fby_samples_count(s), 10);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(row_of(s, i), 4 * i);
    fby_samples *chosen = NULL;
    fby_select_opts select = {.size = sizeof select, .values = {(const int64_t[]){1}, NULL, 1}};
    assert_says(fby_samples_select(s, &select, &chosen, &err), FBY_E_ARG, &err, "of several columns, 'class' and others");
    select.column = "class";
    assert_int_equal(fby_samples_select(s, &select, &chosen, &err), FBY_OK);
    assert_int_equal(fby_samples_count(chosen), 3);
    fby_samples_close(chosen);
    fby_samples_close(s);
    opts.more_keys = NULL;
    assert_says(fby_samples_open(ds, &opts, &s, &err), FBY_E_ARG, &err, "2 to 8 of them");
    fby_dataset_close(ds);
}

/* Draws of an epoch against the bounds, the counts by block, and the samples that they are. */
static void check_draws(const fby_samples *s, const double *w, double sum, uint64_t n, uint64_t epoch)
{
    const uint32_t n_blocks = fby__dataset_block_count(fby__samples_dataset(s));
    uint64_t counts[64], draw = 0, times[1000] = {0}, last = 0;
    assert_true(n_blocks <= 64);
    fby__samples_draws(s, epoch, counts);
    for (uint32_t b = 0; b < n_blocks; b++) {
        uint64_t least, most;
        fby__samples_draw_bounds(s, b, &least, &most);
        assert_true(counts[b] >= least && counts[b] <= most);
        for (uint64_t i = 0; i < counts[b]; i++, draw++) {
            uint64_t sample;
            fby__samples_drawn(s, epoch, &draw, 1, &sample);
            assert_true(sample >= last && sample >= fby__samples_first(s)[b] && sample < fby__samples_first(s)[b + 1]);
            last = sample;
            times[sample]++;
        }
    }
    assert_int_equal(draw, n);
    for (uint64_t i = 0; i < fby__samples_first(s)[n_blocks]; i++) {
        const double expect = (double)n * w[i] / sum;
        assert_true((double)times[i] >= floor(expect) - 1 && (double)times[i] <= ceil(expect) + 1);
        assert_true(w[i] > 0 || times[i] == 0);
    }
}

static void each_epoch_draws_its_own_and_every_block_has_what_the_bounds_say(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = NULL, *s = NULL;
    fby_error err = {0};
    fby__random random = {.key = 12};
    assert_int_equal(fby__samples_rows(ds, &all, &err), FBY_OK);
    double w[1000];
    const uint64_t n_samples = fby_samples_count(all);
    assert_true(n_samples > 0 && n_samples <= 1000);
    for (uint64_t round = 0; round < 300; round++) {
        double sum = 0;
        for (uint64_t i = 0; i < n_samples; i++) {
            const uint64_t kind = fby__random_below(&random, 8);
            w[i] = kind < 3 ? 0 : ldexp((double)fby__random_below(&random, 1000), kind == 7 ? -(int)fby__random_below(&random, 40) : 0);
            sum += w[i];
        }
        if (sum == 0)
            continue;
        fby_resample_opts opts = {
            .size = sizeof opts, .weights = w, .n = 1 + fby__random_below(&random, 3 * n_samples), .seed = round, .each_epoch = true};
        assert_int_equal(fby_samples_resample(all, &opts, &s, &err), FBY_OK);
        assert_int_equal(fby_samples_count(s), opts.n);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_draws(s, w, sum, opts.n, epoch);
        for (uint64_t i = 0; i < opts.n; i++) { /* those of epoch 0, of which samples are looked at */
            uint64_t sample;
            fby__samples_drawn(s, 0, &i, 1, &sample);
            assert_int_equal(row_of(s, i), sample);
        }
        fby_samples_close(s);
    }
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void resampling_rounds_the_expected_count_down_or_up(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = events(ds), *s = NULL;
    fby_error err = {0};
    double w[10] = {0.5, 1, 0, 2, 0.1, 3, 1, 1, 4, 0.4}, sum = 13;
    for (uint64_t seed = 0; seed < 40; seed++) {
        fby_resample_opts opts = {.size = sizeof opts, .weights = w, .n = 30, .seed = seed};
        uint64_t times[10] = {0};
        assert_int_equal(fby_samples_resample(all, &opts, &s, &err), FBY_OK);
        assert_int_equal(fby_samples_count(s), 30);
        for (uint64_t i = 0; i < 30; i++)
            times[row_of(s, i) / 4]++;
        for (int i = 0; i < 10; i++) {
            double expect = 30 * w[i] / sum;
            assert_true((double)times[i] > expect - 1 - 1e-9 && (double)times[i] < expect + 1 + 1e-9);
        }
        fby_samples_close(s);
    }
    const int64_t classes[] = {0, 1, 2};
    const double by_class[] = {1, 0, 2};
    fby_resample_opts opts = {.size = sizeof opts, .column = "class", .values = {classes, NULL, 3}, .class_weights = by_class};
    assert_int_equal(fby_samples_resample(all, &opts, &s, &err), FBY_OK); /* 4 of weight 1, 3 of weight 2: 10 draws */
    assert_rows(s, (uint64_t[]){0, 8, 8, 12, 20, 20, 24, 32, 32, 36}, 10);
    fby_samples_close(s);
    s = NULL;
    opts.values.n = 2;
    assert_says(fby_samples_resample(all, &opts, &s, &err), FBY_E_ARG, &err, "is 2, a class without a weight");
    w[3] = -1;
    opts = (fby_resample_opts){.size = sizeof opts, .weights = w};
    assert_says(fby_samples_resample(all, &opts, &s, &err), FBY_E_ARG, &err, "sample 3 has a weight of -1");
    opts = (fby_resample_opts){.size = sizeof opts, .column = "weight"};
    fby_samples *rows = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    assert_says(fby_samples_resample(rows, &opts, &s, &err), FBY_E_ARG, &err, "sample 9 has a weight of nan");
    assert_null(s);
    fby_samples_close(rows);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

/* One of everything that is made of samples, by number. */
static fby_status make(int what, fby_dataset *ds, fby_dataset *table, const fby_samples *all, fby_samples **out, fby_error *err)
{
    static const int64_t ids[] = {101, 105};
    static const uint32_t factors[] = {2, 3};
    const fby_values values = {ids, NULL, 2};
    fby_samples *part[2];
    fby_samples_opts index = by_index(table);
    fby_select_opts select = {.size = sizeof select, .values = values, .n_threads = 1};
    fby_select_opts by_table = {.size = sizeof by_table, .table = table, .column = "weight", .table_key = "id", .n_threads = 1};
    fby_split_opts split = {.size = sizeof split, .kind = FBY_SPLIT_KEYS, .n_threads = 1};
    fby_oversample_opts over = {.size = sizeof over, .values = values, .factors = factors, .n_threads = 1};
    fby_resample_opts re = {.size = sizeof re, .column = "event", .n_threads = 1};
    fby_split parts[] = {{.fraction = 0.5}, {.fraction = 0.5}};
    fby_status status = FBY_E_INTERNAL;
    index.n_threads = 1;
    switch (what) {
    case 10: return fby_samples_take(all, (uint64_t[]){3, 1, 3}, 3, out, err);
    case 0: return fby_samples_open(ds, &index, out, err);
    case 1: return fby_samples_select(all, &select, out, err);
    case 2: return fby_samples_select(all, &by_table, out, err);
    case 3: return fby_samples_limit(all, 5, true, 1, out, err);
    case 4: return fby_samples_oversample(all, &over, out, err);
    case 5: return fby_samples_resample(all, &re, out, err);
    case 6: status = fby_samples_split(all, &split, parts, 2, part, err); break;
    case 7:
        split.kind = FBY_SPLIT_SAMPLES;
        status = fby_samples_split(all, &split, parts, 2, part, err);
        break;
    case 8:
        split.kind = FBY_SPLIT_SAMPLES;
        split.stratify = "class";
        status = fby_samples_split(all, &split, parts, 2, part, err);
        break;
    case 9:
        split.kind = FBY_SPLIT_TIME;
        split.time = "event";
        status = fby_samples_split(all, &split, parts, 2, part, err);
        break;
    }
    if (status == FBY_OK) {
        fby_samples_close(part[0]);
        *out = part[1];
    }
    return status;
}

static void any_failing_allocation_is_out_of_memory(void **state)
{
    (void)state;
    int64_t id[] = {4, 12, 20}, first[] = {0, 5, 30}, last[] = {2, 9, 39};
    fby_dataset *ds = pulses(), *table = open_numbers((numbers){{"id", "first", "last"}, {id, first, last}, 3, 3, 2, 0, {NULL}});
    fby_samples *all = events(ds);
    for (int what = 0; what < 11; what++) {
        fby_status status = FBY_E_NOMEM;
        for (uint64_t n = 1; status != FBY_OK; n++) {
            fby_samples *s = NULL;
            fby_error err = {0};
            fby__alloc_fail_at(n);
            status = make(what, ds, table, all, &s, &err);
            fby__alloc_fail_at(0);
            if (status == FBY_OK)
                assert_true(n > 2);
            else if (status != FBY_E_NOMEM || s)
                fail_msg("%d, allocation %llu: %s", what, (unsigned long long)n, err.message);
            fby_samples_close(s);
        }
    }
    fby_samples_close(all);
    fby_dataset_close(table);
    fby_dataset_close(ds);
}

static void strings_are_values_too(void **state)
{
    (void)state;
    const uint64_t counts[] = {5, 6};
    fby_dataset *ds = NULL;
    assert_int_equal(memory_dataset_open(counts, 2, &ds, NULL), FBY_OK);
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS}), *s = NULL;
    fby_error err = {0};
    const char *const words[] = {"w10", "w3", "w7"}, *const unknown[] = {"w3", "w11"};
    assert_int_equal(try_select(all, (fby_select_opts){.column = "word", .values = {NULL, words, 3}}, &s, &err), FBY_OK);
    assert_rows(s, (uint64_t[]){3, 7, 10}, 3);
    fby_samples_close(s);
    s = NULL;
    assert_says(try_select(all, (fby_select_opts){.column = "word", .values = {NULL, unknown, 2}}, &s, &err), FBY_E_ARG, &err,
                "no sample has 'w11' of 'word' (1 of 2 values given is unknown)");
    assert_says(try_select(all, (fby_select_opts){.column = "hits", .values = {NULL, unknown, 2}}, &s, &err), FBY_E_UNSUPPORTED, &err,
                "cannot be compared with a value");
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static uint64_t splitmix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Numbers and texts that would share a 64th of the slots of a table whose hash everybody knows. */
static void values_that_were_chosen_lie_apart(void **state)
{
    enum { N = 8000, SLOTS = 16384, TEXT = 12 };
    static int64_t ids[N];
    static char text[N][TEXT];
    static const char *texts[N];
    const fby_field fields[2] = {{.kind = FBY_KIND_INT}, {.kind = FBY_KIND_STRING}};
    size_t n_ids = 0, n_texts = 0;
    (void)state;
    for (uint32_t i = 0; n_ids < N || n_texts < N; i++) {
        char one[TEXT];
        (void)snprintf(one, sizeof one, "k%u", i);
        if (n_ids < N && splitmix(i) % SLOTS < SLOTS / 64)
            ids[n_ids++] = i;
        if (n_texts < N && fby__hash(one, strlen(one)).lo % SLOTS < SLOTS / 64)
            texts[n_texts] = strcpy(text[n_texts], one), n_texts++;
    }
    for (int k = 0; k < 2; k++) {
        const fby_values given = k ? (fby_values){.texts = texts, .n = N} : (fby_values){.numbers = ids, .n = N};
        const fby__value_type type = {.name = "k", .field = &fields[k], .is_text = k};
        fby__value_set set = {0};
        size_t longest = 0, run = 0;
        assert_int_equal(fby__value_set_init(&set, &given, true, &type, NULL), FBY_OK);
        assert_int_equal(set.n_slots, SLOTS);
        for (size_t i = 0; i < SLOTS; i++) {
            run = set.slots[i] ? run + 1 : 0;
            longest = run > longest ? run : longest;
        }
        assert_true(longest < 500); /* at random: some 60 */
        fby__value_set_fini(&set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_by_listed_keys),
        cmocka_unit_test(rows_by_a_range_of_a_column),
        cmocka_unit_test(dates_and_times_are_given_as_text),
        cmocka_unit_test(wrong_options_say_what_would_do),
        cmocka_unit_test(groups_by_a_side_table),
        cmocka_unit_test(groups_of_an_index_table),
        cmocka_unit_test(wrong_index_tables_name_the_row),
        cmocka_unit_test(samples_are_taken_by_number_in_their_order),
        cmocka_unit_test(limits_take_the_first_or_a_seeded_draw),
        cmocka_unit_test(keys_of_several_columns),
        cmocka_unit_test(each_epoch_draws_its_own_and_every_block_has_what_the_bounds_say),
        cmocka_unit_test(oversampling_repeats_by_class),
        cmocka_unit_test(resampling_rounds_the_expected_count_down_or_up),
        cmocka_unit_test(any_failing_allocation_is_out_of_memory),
        cmocka_unit_test(strings_are_values_too),
        cmocka_unit_test(values_that_were_chosen_lie_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
