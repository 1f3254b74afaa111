/* Splits: what they share, how large they are, and what cannot be one. */
#include "samples_pulses.h"

static fby_status try_parts(const fby_samples *s, fby_split_opts opts, const fby_split *parts, size_t n, fby_samples **out, fby_error *err)
{
    opts.size = sizeof opts;
    opts.n_threads = 2;
    return fby_samples_split(s, &opts, parts, n, out, err);
}

static void parts_by_keys_share_none_and_are_stable(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *rows = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS});
    const fby_split parts[] = {{.fraction = 0.5}, {.fraction = 0.2}, {.fraction = 0.3}};
    uint64_t before[10];
    for (uint64_t seed = 0; seed < 6; seed++) {
        fby_samples *part[3];
        fby_error err = {0};
        uint64_t of[10] = {0}, keys = 0, n = 0;
        assert_int_equal(
            try_parts(rows, (fby_split_opts){.kind = FBY_SPLIT_KEYS, .column = "event", .seed = seed / 2}, parts, 3, part, &err), FBY_OK);
        for (uint64_t p = 0; p < 3; p++) {
            n += fby_samples_count(part[p]);
            for (uint64_t i = 0; i < fby_samples_count(part[p]); i++) {
                uint64_t event = (uint64_t)EVENT[row_of(part[p], i)] - 100;
                assert_true(of[event] == 0 || of[event] == p + 1);
                keys += of[event] == 0;
                of[event] = p + 1;
            }
            assert_int_equal(fby_samples_count(part[p]), ((uint64_t[]){20, 8, 12})[p]); /* of 10 keys: 5, 2 and 3 */
            fby_samples_close(part[p]);
        }
        assert_true(n == ROWS && keys == 10);
        if (seed % 2 == 1)
            assert_memory_equal(of, before, sizeof of);
        memcpy(before, of, sizeof of);
    }
    fby_samples_close(rows);
    fby_dataset_close(ds);
}

static void parts_by_listed_keys_do_not_overlap(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = events(ds), *part[2] = {NULL, NULL};
    fby_error err = {0};
    const int64_t train[] = {103, 101}, val[] = {100, 108}, both[] = {102, 101};
    fby_split parts[] = {{.keys = {train, NULL, 2}}, {.keys = {val, NULL, 2}}};
    assert_int_equal(try_parts(all, (fby_split_opts){.kind = FBY_SPLIT_KEYS}, parts, 2, part, &err), FBY_OK);
    assert_rows(part[0], (uint64_t[]){4, 12}, 2);
    assert_rows(part[1], (uint64_t[]){0, 32}, 2);
    fby_samples_close(part[0]);
    fby_samples_close(part[1]);
    parts[1].keys.numbers = both;
    assert_says(try_parts(all, (fby_split_opts){.kind = FBY_SPLIT_KEYS}, parts, 2, part, &err), FBY_E_ARG, &err, "101 is listed twice");
    parts[1] = (fby_split){.fraction = 0.5};
    assert_says(try_parts(all, (fby_split_opts){.kind = FBY_SPLIT_KEYS}, parts, 2, part, &err), FBY_E_ARG, &err, "list at least one key");
    parts[0] = (fby_split){.fraction = 0.6};
    assert_says(try_parts(all, (fby_split_opts){.kind = FBY_SPLIT_KEYS}, parts, 2, part, &err), FBY_E_ARG, &err, "together at most 1");
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void parts_by_samples_are_exact_and_have_names(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_ROWS}), *part[3] = {NULL, NULL, NULL};
    fby_error err = {0};
    fby_split parts[] = {{.name = "train", .fraction = 0.7}, {.name = "val", .fraction = 0.2}, {.name = "test", .fraction = 0.1}};
    const fby_split_opts drawn = {.kind = FBY_SPLIT_SAMPLES, .seed = 3};
    bool seen[ROWS] = {false};
    assert_int_equal(try_parts(all, drawn, parts, 3, part, &err), FBY_OK);
    for (size_t p = 0; p < 3; p++) {
        assert_int_equal(fby_samples_count(part[p]), ((uint64_t[]){28, 8, 4})[p]);
        for (uint64_t i = 0; i < fby_samples_count(part[p]); i++) {
            assert_false(seen[row_of(part[p], i)]);
            seen[row_of(part[p], i)] = true;
        }
        fby_samples_close(part[p]);
    }
    part[0] = NULL;
    parts[2].name = "train";
    assert_says(try_parts(all, drawn, parts, 3, part, &err), FBY_E_ARG, &err, "two splits are called 'train'");
    parts[2] = (fby_split){.name = "test", .fraction = 0.2};
    assert_says(try_parts(all, drawn, parts, 3, part, &err), FBY_E_ARG, &err,
                "split 'test': 0.2: fractions are above 0 and together at most 1");
    assert_says(try_parts(all, (fby_split_opts){.kind = (fby_split_kind)9}, parts, 2, part, &err), FBY_E_ARG, &err,
                "unknown kind of split");
    assert_says(try_parts(all, (fby_split_opts){.kind = FBY_SPLIT_SAMPLES, .stratify = "nope"}, parts, 2, part, &err), FBY_E_SCHEMA, &err,
                "nope");
    assert_says(try_parts(all, (fby_split_opts){.kind = FBY_SPLIT_TIME, .time = "weight"}, parts, 2, part, &err), FBY_E_DATA, &err,
                "sample 9 has no value of 'weight'");
    assert_null(part[0]);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

static void splits_of_chosen_samples_hold_for_what_is_chosen(void **state)
{
    (void)state;
    fby_dataset *ds = pulses();
    fby_samples *all = open_samples(ds, (fby_samples_opts){.kind = FBY_SAMPLES_WINDOWS, .input = 3}), *few, *train, *test, *part[2];
    assert_int_equal(fby_samples_limit(all, 20, true, 4, &few, NULL), FBY_OK);
    assert_int_equal(
        try_parts(few, (fby_split_opts){.kind = FBY_SPLIT_TIME}, (fby_split[]){{.fraction = 0.5}, {.fraction = 0.5}}, 2, part, NULL),
        FBY_OK);
    train = part[0];
    test = part[1];
    uint64_t n = 0, m = 0;
    for (uint64_t i = 0; i < fby_samples_count(few); i++) {
        uint64_t row = row_of(few, i);
        if (row + 3 <= 20)
            assert_int_equal(row_of(train, n++), row);
        else if (row >= 20)
            assert_int_equal(row_of(test, m++), row);
    }
    assert_true(n == fby_samples_count(train) && m == fby_samples_count(test) && n > 3 && m > 3);
    fby_samples_close(train);
    fby_samples_close(test);
    fby_samples_close(few);
    fby_samples_close(all);
    fby_dataset_close(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_by_keys_share_none_and_are_stable),
        cmocka_unit_test(parts_by_listed_keys_do_not_overlap),
        cmocka_unit_test(parts_by_samples_are_exact_and_have_names),
        cmocka_unit_test(splits_of_chosen_samples_hold_for_what_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
