/*
 * Tables from data sets: columns joined across files and rows appended, as the attributes of basins come; what is refused, by name; the
 * distinct values of a column; and moments by group against two plain passes, the same for every number of threads.
 */
#include "support/loader_fixture.h"
#include "support/memory_dataset.h"
#include "tables/cover.h"

#include <math.h>

static void put_text(const char *path, const char *text) { write_bytes(path, text, strlen(text)); }

static fby_status try_table(const char *const *paths, size_t n, fby_lookup_opts opts, fby_lookup **out, fby_error *err)
{
    fby_dataset *ds[8] = {0};
    for (size_t i = 0; i < n; i++)
        ds[i] = open_dataset(paths[i], NULL);
    opts.size = sizeof opts;
    opts.key = opts.key ? opts.key : "id";
    fby_status status = fby_lookup_open(ds, n, &opts, out, err);
    for (size_t i = 0; i < n; i++)
        fby_dataset_close(ds[i]);
    return status;
}

static fby_lookup *table(const char *const *paths, size_t n, fby_lookup_opts opts)
{
    fby_lookup *t = NULL;
    fby_error err = {0};
    if (try_table(paths, n, opts, &t, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return t;
}

static void refused(const char *const *paths, size_t n, fby_lookup_opts opts, fby_status status, const char *part)
{
    fby_lookup *t = NULL;
    fby_error err = {0};
    assert_int_equal(try_table(paths, n, opts, &t, &err), status);
    assert_null(t);
    if (!strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
}

static double value(const fby_lookup *t, const char *key, const char *column)
{
    size_t c = 0;
    while (fby_lookup_column(t, c) && strcmp(fby_lookup_column(t, c), column) != 0)
        c++;
    int64_t row = fby_lookup_find_text(t, key, strlen(key));
    assert_true(row >= 0 && fby_lookup_column(t, c));
    return fby_lookup_value(t, (size_t)row, c);
}

static const char *const REGIONS[] = {"a1.csv", "a2.csv", "b1.csv", "b2.csv"};

/* Two regions, two files each: climate and land. */
static void put_regions(void)
{
    put_text("a1.csv", "id,p_mean,country\na_1,1.5,CH\na_2,,CH\na_3,3.5,CH\n");
    put_text("a2.csv", "id,area,dam\na_2,20,true\na_1,10,false\n");
    put_text("b1.csv", "id,p_mean,country\nb_1,7,LU\n");
    put_text("b2.csv", "id,area,dam\nb_1,70,false\nb_2,80,true\n");
}

static void columns_are_joined_and_rows_appended(void **state)
{
    (void)state;
    put_regions();
    fby_lookup *t = table(REGIONS, 4, (fby_lookup_opts){0});
    static const char *const KEYS[] = {"a_1", "a_2", "a_3", "b_1", "b_2"};
    assert_int_equal(fby_lookup_count(t), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(fby_lookup_find_text(t, KEYS[i], 3), i); /* in order of first appearance */
    assert_int_equal(fby_lookup_column_count(t), 3);              /* country is text: not taken unless it is named */
    assert_true(value(t, "a_1", "p_mean") == 1.5 && value(t, "a_1", "area") == 10 && value(t, "a_1", "dam") == 0);
    assert_true(isnan(value(t, "a_2", "p_mean")) && value(t, "a_2", "area") == 20 && value(t, "a_2", "dam") == 1);
    assert_true(value(t, "a_3", "p_mean") == 3.5 && isnan(value(t, "a_3", "area")));
    assert_true(value(t, "b_1", "p_mean") == 7 && value(t, "b_1", "area") == 70);
    assert_true(isnan(value(t, "b_2", "p_mean")) && value(t, "b_2", "area") == 80);
    fby_lookup_close(t);

    static const char *const PICK[] = {"area", "p_mean"};
    t = table(REGIONS, 4, (fby_lookup_opts){.columns = PICK, .n_columns = 2, .has_fill_missing = true, .fill_missing = -1});
    assert_string_equal(fby_lookup_column(t, 0), "area");
    assert_int_equal(fby_lookup_column_count(t), 2);
    assert_true(fby_lookup_value(t, 2, 0) == -1 && fby_lookup_value(t, 2, 1) == 3.5 && fby_lookup_value(t, 1, 1) == -1);
    fby_lookup_close(t);
}

static void a_key_may_come_again_with_the_same_values_only(void **state)
{
    (void)state;
    put_regions();
    put_text("again.csv", "id,p_mean\na_1,1.5\na_2,2.5\n"); /* one the same, one that was missing */
    put_text("other.csv", "id,p_mean\na_3,3.5\na_1,9\n");
    static const char *const SAME[] = {"a1.csv", "again.csv"}, *const OTHER[] = {"a1.csv", "other.csv"};
    fby_lookup *t = table(SAME, 2, (fby_lookup_opts){0});
    assert_true(value(t, "a_1", "p_mean") == 1.5 && value(t, "a_2", "p_mean") == 2.5);
    fby_lookup_close(t);
    refused(OTHER, 2, (fby_lookup_opts){0}, FBY_E_DATA,
            "the key 'a_1' has 9 for column 'p_mean' in row 1 of other.csv, and had 1.5 before");
    t = table(OTHER, 2, (fby_lookup_opts){.first_wins = true});
    assert_true(value(t, "a_1", "p_mean") == 1.5);
    fby_lookup_close(t);
}

static void a_key_of_several_columns_joins_tables_too(void **state)
{
    (void)state;
    put_text("one.csv", "id,year,p_mean\na_1,2001,1\na_1,2002,2\na_2,2001,\n");
    put_text("two.csv", "year,area,id\n2001,7,a_2\n2001,5,a_1\n2003,9,a_2\n");
    static const char *const PATHS[] = {"one.csv", "two.csv"}, *const YEAR[] = {"year"}, *const AGAIN[] = {"id"};
    fby_lookup *t = table(PATHS, 2, (fby_lookup_opts){.more_keys = YEAR, .n_more_keys = 1});
    static const char *const IDS[] = {"a_1", "a_1", "a_2", "a_2", "a_2"};
    static const int64_t YEARS[] = {2001, 2002, 2001, 2003, 2002};
    static const double P[] = {1, 2, -1, -1}, AREA[] = {5, -1, 7, 9}; /* −1: missing */
    const fby_lookup_keys key[] = {{.texts = IDS}, {.numbers = YEARS}};
    assert_int_equal(fby_lookup_count(t), 4);
    assert_int_equal(fby_lookup_column_count(t), 2); /* neither column of the key */
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(fby_lookup_find_keys(t, key, i), i);
        double p = fby_lookup_value(t, i, 0), area = fby_lookup_value(t, i, 1);
        assert_true(P[i] < 0 ? isnan(p) : p == P[i]);
        assert_true(AREA[i] < 0 ? isnan(area) : area == AREA[i]);
    }
    assert_int_equal(fby_lookup_find_keys(t, key, 4), -1);
    fby_lookup_close(t);
    put_text("other.csv", "id,year,p_mean\na_1,2002,4\n");
    static const char *const OTHER[] = {"one.csv", "other.csv"}, *const MONTH[] = {"month"};
    refused(OTHER, 2, (fby_lookup_opts){.more_keys = YEAR, .n_more_keys = 1}, FBY_E_DATA,
            "the key ('a_1', 2002) has 4 for column 'p_mean' in row 0 of other.csv, and had 2 before");
    refused(PATHS, 2, (fby_lookup_opts){.more_keys = MONTH, .n_more_keys = 1}, FBY_E_SCHEMA, "month");
    refused(PATHS, 2, (fby_lookup_opts){.more_keys = AGAIN, .n_more_keys = 1}, FBY_E_ARG, "the column 'id' comes twice in a key");
    refused(PATHS, 2, (fby_lookup_opts){.n_more_keys = 1}, FBY_E_ARG, "1 further columns of the key, but no names");
    refused(PATHS, 2, (fby_lookup_opts){.more_keys = YEAR, .n_more_keys = 8}, FBY_E_ARG, "a key has at most 8 columns, not 9");
    put_text("gap.csv", "id,year,p_mean\na_1,1,1\na_1,,2\n");
    refused((const char *[]){"gap.csv"}, 1, (fby_lookup_opts){.more_keys = YEAR, .n_more_keys = 1}, FBY_E_DATA,
            "row 1 of gap.csv: the key 'year' is missing");
}

static void the_part_of_a_file_s_name_is_a_key(void **state)
{
    (void)state;
    assert_int_equal(mkdir("tab", 0755), 0);
    put_text("tab/x_7.csv", "area\n7\n");
    put_text("tab/x_8.csv", "area\n8\n");
    static const char *const PATH[] = {"tab/x_{gauge}.csv"};
    fby_lookup *t = table(PATH, 1, (fby_lookup_opts){.key = "gauge"});
    assert_true(value(t, "7", "area") == 7 && value(t, "8", "area") == 8);
    fby_lookup_close(t);
    fby_dataset *ds = open_dataset(PATH[0], NULL);
    assert_int_equal(fby_lookup_distinct(ds, "gauge", &t, NULL), FBY_OK);
    assert_int_equal(fby_lookup_count(t), 2);
    assert_int_equal(fby_lookup_find_text(t, "8", 1), 1);
    fby_lookup_close(t);
    fby_dataset_close(ds);
}

static void what_cannot_be_a_table_is_refused_by_name(void **state)
{
    (void)state;
    put_regions();
    static const char *const COUNTRY[] = {"country"}, *const NONE[] = {"p_maen"};
    refused(REGIONS, 4, (fby_lookup_opts){.columns = COUNTRY, .n_columns = 1}, FBY_E_UNSUPPORTED,
            "column 'country' of type string cannot be looked up");
    refused(REGIONS, 4, (fby_lookup_opts){.columns = NONE, .n_columns = 1}, FBY_E_SCHEMA, "'p_mean'");
    refused(REGIONS, 4, (fby_lookup_opts){.key = "gauge_id"}, FBY_E_SCHEMA, "gauge_id");
    refused(REGIONS, 1, (fby_lookup_opts){.key = "p_mean"}, FBY_E_UNSUPPORTED, "column 'p_mean' of type float64 cannot be a key");
    refused(REGIONS, 0, (fby_lookup_opts){0}, FBY_E_ARG, "at least one table");
    put_text("numbers.csv", "id,p_mean\n17,1\n");
    static const char *const MIXED[] = {"a1.csv", "numbers.csv"};
    refused(MIXED, 2, (fby_lookup_opts){0}, FBY_E_SCHEMA, "the key 'id' is a whole number in table 1 and a string in table 0");
    put_text("gap.csv", "id,p_mean\na_1,1\n,2\n");
    static const char *const GAP[] = {"gap.csv"};
    refused(GAP, 1, (fby_lookup_opts){0}, FBY_E_DATA, "row 1 of gap.csv: the key 'id' is missing");
    put_text("gapn.csv", "id,p_mean\n4,1\n,2\n");
    static const char *const GAPN[] = {"gapn.csv"};
    refused(GAPN, 1, (fby_lookup_opts){0}, FBY_E_DATA, "row 1 of gapn.csv: the key 'id' is missing");
    fby_error err = {0};
    fby_lookup *t = NULL;
    assert_int_equal(fby_lookup_open(NULL, 1, NULL, &t, &err), FBY_E_ARG);
}

static void distinct_values_come_in_order_of_first_appearance(void **state)
{
    (void)state;
    const uint64_t counts[] = {900, 1, 1500};
    fby_dataset *ds = NULL;
    fby_lookup *t = NULL;
    assert_int_equal(memory_dataset_open(counts, 3, &ds, NULL), FBY_OK);
    assert_int_equal(fby_lookup_distinct(ds, "narrow", &t, NULL), FBY_OK);
    assert_int_equal(fby_lookup_count(t), 1000);
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(fby_lookup_find_number(t, i), i);
    fby_lookup_close(t);
    assert_int_equal(fby_lookup_distinct(ds, "word", &t, NULL), FBY_OK);
    assert_int_equal(fby_lookup_count(t), 2401);
    assert_int_equal(fby_lookup_find_text(t, "w2400", 5), 2400);
    fby_lookup_close(t);
    fby_error err = {0};
    t = NULL;
    assert_int_equal(fby_lookup_distinct(ds, "x", &t, &err), FBY_E_UNSUPPORTED);
    assert_int_equal(fby_lookup_distinct(ds, "wrod", &t, &err), FBY_E_SCHEMA);
    assert_null(t);
    fby_dataset_close(ds);
}

/* ---- moments by group ---- */

enum { N_ROWS = 2401 };

typedef struct sums {
    long double sum, square;
    double min, max;
    uint64_t n, missing;
} sums;

static void add(sums *s, double x, long double mean, int pass)
{
    if (pass)
        s->square += ((long double)x - mean) * ((long double)x - mean);
    else {
        s->min = s->n == 0 || x < s->min ? x : s->min;
        s->max = s->n == 0 || x > s->max ? x : s->max;
        s->sum += (long double)x;
        s->n++;
    }
}

static void near(double got, double expect)
{
    if (!(isnan(expect) ? isnan(got) : fabs(got - expect) <= 1e-12 * fabs(expect)))
        fail_msg("%.17g is not %.17g", got, expect);
}

/* `narrow` is the row mod 1000: groups of two or three rows that lie far apart. Of `gap` one in seven is missing, `hits` is a list. */
static void moments_by_group_equal_two_passes_for_every_number_of_threads(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"x", "gap", "hits"};
    const uint64_t counts[] = {900, 1, 1500};
    fby_dataset *ds = NULL;
    fby_lookup *t[2] = {0};
    fby_error err = {0};
    assert_int_equal(memory_dataset_open(counts, 3, &ds, NULL), FBY_OK);
    for (int i = 0; i < 2; i++) {
        fby_fit_opts opts = {FBY_FIT_SIZES, .columns = NAMES, .n_columns = 3, .n_threads = i ? 4 : 1};
        if (fby_fit_groups(ds, &opts, "narrow", &t[i], &err) != FBY_OK)
            fail_msg("%s", err.message);
        assert_int_equal(fby_lookup_count(t[i]), 1000);
        assert_int_equal(fby_lookup_column_count(t[i]), 3 * FBY_GROUP_MOMENTS);
    }
    assert_string_equal(fby_lookup_column(t[0], 0), "x.mean");
    assert_string_equal(fby_lookup_column(t[0], 4), "gap.std");
    assert_string_equal(fby_lookup_column(t[0], 17), "hits.max");
    for (size_t g = 0; g < 1000; g++) {
        sums s[3] = {0};
        long double mean[3] = {0};
        for (int pass = 0; pass < 2; pass++) {
            for (uint64_t row = g; row < N_ROWS; row += 1000) {
                add(&s[0], (double)row / 2, mean[0], pass);
                if (row % 7 != 3)
                    add(&s[1], (double)row * 3, mean[1], pass);
                else
                    s[1].missing += !pass;
                for (uint64_t k = 0; k < row % 5; k++)
                    add(&s[2], (double)(row + k), mean[2], pass);
            }
            for (int c = 0; c < 3; c++)
                mean[c] = s[c].n ? s[c].sum / s[c].n : (long double)NAN;
        }
        size_t row = (size_t)fby_lookup_find_number(t[0], (int64_t)g);
        for (size_t c = 0; c < 3; c++) {
            near(fby_lookup_value(t[0], row, c), (double)mean[c]);
            near(fby_lookup_value(t[0], row, 3 + c), s[c].n ? (double)sqrtl(s[c].square / s[c].n) : (double)NAN);
            assert_true(fby_lookup_value(t[0], row, 6 + c) == (double)s[c].n);
            assert_true(fby_lookup_value(t[0], row, 9 + c) == (double)s[c].missing);
            near(fby_lookup_value(t[0], row, 12 + c), s[c].n ? s[c].min : (double)NAN);
            near(fby_lookup_value(t[0], row, 15 + c), s[c].n ? s[c].max : (double)NAN);
        }
        for (size_t c = 0; c < 18; c++) {
            double a = fby_lookup_value(t[0], row, c), b = fby_lookup_value(t[1], row, c);
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
    fby_lookup_close(t[0]);
    fby_lookup_close(t[1]);
    fby_dataset_close(ds);
}

static void moments_by_file_equal_those_of_each_file_alone(void **state)
{
    (void)state;
    put_files("d", 9);
    static const char *const NAMES[] = {"x", "n", "hits"};
    static const fby_op LOG[] = {{.kind = FBY_OP_LOG1P}};
    fby_fit_opts opts = {FBY_FIT_SIZES, .columns = NAMES, .n_columns = 3, .ops = LOG, .n_ops = 1, .n_threads = 3};
    fby_dataset *ds = open_dataset("d/{file}.parquet", NULL);
    fby_lookup *t = NULL;
    fby_error err = {0};
    if (fby_fit_groups(ds, &opts, "file", &t, &err) != FBY_OK)
        fail_msg("%s", err.message);
    fby_dataset_close(ds);
    assert_int_equal(fby_lookup_count(t), 9);
    for (size_t i = 0; i < 9; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "d/f%02zu.parquet", i);
        fby_moments m[3];
        ds = open_dataset(path, NULL);
        assert_int_equal(fby_fit_moments(ds, &opts, m, NULL), FBY_OK);
        fby_dataset_close(ds);
        for (size_t c = 0; c < 3; c++) {
            near(fby_lookup_value(t, i, c), m[c].mean);
            near(fby_lookup_value(t, i, 3 + c), m[c].std);
            assert_true(fby_lookup_value(t, i, 6 + c) == (double)m[c].count && fby_lookup_value(t, i, 9 + c) == (double)m[c].n_missing);
        }
    }
    fby_lookup_close(t);
}

static void groups_that_cannot_be_are_refused(void **state)
{
    (void)state;
    put_files("d", 2);
    fby_dataset *ds = open_dataset("d", NULL);
    static const char *const NAMES[] = {"n"};
    fby_fit_opts opts = {FBY_FIT_SIZES, .columns = NAMES, .n_columns = 1};
    fby_lookup *t = NULL;
    fby_error err = {0};
    assert_int_equal(fby_fit_groups(ds, &opts, "x", &t, &err), FBY_E_UNSUPPORTED);
    assert_int_equal(fby_fit_groups(ds, &opts, "nothing", &t, &err), FBY_E_SCHEMA);
    assert_int_equal(fby_fit_groups(ds, &opts, NULL, &t, &err), FBY_E_ARG);
    assert_null(t);
    fby_dataset_close(ds);
}

static void a_failed_allocation_leaves_no_table_behind(void **state)
{
    (void)state;
    put_regions();
    fby_dataset *ds[2] = {open_dataset("a1.csv", NULL), open_dataset("a2.csv", NULL)};
    static const char *const NAMES[] = {"p_mean"};
    fby_fit_opts fit = {FBY_FIT_SIZES, .columns = NAMES, .n_columns = 1, .n_threads = 1};
    fby_lookup_opts opts = {.size = sizeof opts, .key = "id", .n_threads = 1};
    for (int kind = 0; kind < 3; kind++)
        for (uint64_t at = 1, step = 1;; at += step, step += at > 100) {
            fby_lookup *t = NULL;
            fby_error err = {0};
            fby__alloc_fail_at(at);
            uint64_t before = fby__alloc_count();
            fby_status status = kind == 0   ? fby_lookup_open(ds, 2, &opts, &t, &err)
                                : kind == 1 ? fby_lookup_distinct(ds[0], "id", &t, &err)
                                            : fby_fit_groups(ds[0], &fit, "id", &t, &err);
            bool failed = fby__alloc_count() - before >= at;
            fby__alloc_fail_at(0);
            if (status == FBY_OK)
                fby_lookup_close(t); /* a cache that found no room does without */
            else
                assert_int_equal(status, FBY_E_NOMEM);
            if (!failed)
                break;
        }
    fby_dataset_close(ds[0]);
    fby_dataset_close(ds[1]);
}

static void rows_of_samples_that_touch_are_joined_until_the_call_is_cancelled(void **state)
{
    enum { ROWS = 20000 };
    (void)state;
    fby_dataset *ds = NULL;
    fby_samples *windows = NULL, *chosen = NULL;
    fby_error err = {0};
    static uint64_t at[ROWS / 2];
    const fby_samples_opts opts = {.size = sizeof opts, .kind = FBY_SAMPLES_WINDOWS, .input = 4};
    assert_int_equal(memory_dataset_open(&(uint64_t){ROWS}, 1, &ds, &err), FBY_OK);
    for (uint64_t i = 0; i < ROWS / 2; i++)
        at[i] = 2 * i;
    assert_int_equal(fby_samples_open(ds, &opts, &windows, &err), FBY_OK);
    assert_int_equal(fby_samples_take(windows, at, ROWS / 2 - 2, &chosen, &err), FBY_OK);
    fby__cover c;
    assert_int_equal(fby__cover_begin(&c, chosen, ds, &err), FBY_OK);
    assert_int_equal(c.begin, 0);
    assert_int_equal(c.end, ROWS - 2);
    assert_int_equal(fby__cover_next(&c, &err), FBY_OK);
    assert_int_equal(c.begin, c.end);
    fby_cancel *token = fby_cancel_create(), *before = fby_cancel_use(token);
    fby_cancel_set(token);
    assert_int_equal(fby__cover_begin(&c, chosen, ds, &err), FBY_E_CANCELLED);
    (void)fby_cancel_use(before);
    fby_cancel_destroy(token);
    fby_samples_close(chosen);
    fby_samples_close(windows);
    fby_dataset_close(ds);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(columns_are_joined_and_rows_appended),
        TEST(a_key_may_come_again_with_the_same_values_only),
        TEST(a_key_of_several_columns_joins_tables_too),
        TEST(the_part_of_a_file_s_name_is_a_key),
        TEST(what_cannot_be_a_table_is_refused_by_name),
        TEST(distinct_values_come_in_order_of_first_appearance),
        TEST(moments_by_group_equal_two_passes_for_every_number_of_threads),
        TEST(moments_by_file_equal_those_of_each_file_alone),
        TEST(groups_that_cannot_be_are_refused),
        TEST(rows_of_samples_that_touch_are_joined_until_the_call_is_cancelled),
        TEST(a_failed_allocation_leaves_no_table_behind),
    };
    return cmocka_run_group_tests_name("lookup_open", tests, NULL, NULL);
}
