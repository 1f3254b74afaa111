/* One-hot and maps: every dtype of column and output, arrays, several rows, missing and unknown values; random maps against a plain search. */
#include "transform/encode_fixture.h"

#include <math.h>

static fby__random random_state = {.key = 6};

static fby_make one_hot(uint64_t n, bool ignore)
{
    return (fby_make){.kind = FBY_MAKE_ONE_HOT, .one_hot = {.n_classes = n, .ignore_unknown = ignore}};
}

static fby_make map_numbers(const int64_t *keys, const double *to, size_t n)
{
    return (fby_make){.kind = FBY_MAKE_MAP, .map = {.numbers = keys, .to = to, .n = n}};
}

static fby_make map_texts(const char *const *keys, const double *to, size_t n)
{
    return (fby_make){.kind = FBY_MAKE_MAP, .map = {.texts = keys, .to = to, .n = n}};
}

static void a_class_becomes_a_one_at_its_place_in_every_dtype(void **state)
{
    (void)state;
    for (fby_dtype from = FBY_BOOL; from < FBY_DTYPE_COUNT; from++)
        for (fby_dtype to = FBY_BOOL; to < FBY_DTYPE_COUNT; to++) {
            enum { N = 600 }; /* more than a block */
            uint8_t values[N * 8];
            const double classes = from == FBY_BOOL ? 2 : 7;
            for (size_t i = 0; i < N; i++) {
                fby__scalar v;
                assert_true(fby__scalar_set(from, (double)fby__random_below(&random_state, (uint64_t)classes), &v));
                memcpy(values + i * fby_dtype_bytes(from), v.bytes, fby_dtype_bytes(from));
            }
            fixture *f = fixture_new(one_hot((uint64_t)classes, false));
            f->dtype = to;
            fixture_values(f, "label",
                           from >= FBY_FLOAT16 ? FBY_KIND_FLOAT
                           : from == FBY_BOOL  ? FBY_KIND_BOOL
                                               : FBY_KIND_INT,
                           from, 1, values, N);
            if (fixture_run(f) != FBY_OK)
                fail_msg("%s", f->err.message);
            assert_int_equal(f->made.ndim, 1);
            for (size_t s = 0; s < N; s++) {
                double x;
                size_t bad;
                (void)fby__convert(FBY_FLOAT64, &x, from, values + s * fby_dtype_bytes(from), 1, FBY__SCALE_NONE, &bad);
                for (size_t i = 0; i < (size_t)classes; i++)
                    assert_true(fixture_element(f, s, i) == ((double)i == x));
            }
            fixture_free(f);
        }
}

static void arrays_and_rows_keep_their_axes_before_the_classes(void **state)
{
    (void)state;
    const int16_t rows[3][2] = {{0, 2}, {1, 1}, {2, 0}};
    fixture *f = fixture_new(one_hot(3, false));
    (void)fixture_add(f, "label", FBY__PANEL_DENSE, FBY_KIND_INT, FBY_INT16, 2);
    f->n = 3;
    f->max_rows = 2;
    const uint64_t n_rows[] = {2, 0, 1};
    for (size_t s = 0, at = 0; s < 3; at += n_rows[s], s++) {
        f->n_rows[s] = n_rows[s];
        f->data[0][s] = guarded_copy(rows + at, n_rows[s] * sizeof rows[0]);
    }
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_int_equal(f->made.ndim, 2);
    assert_true(f->made.shape[0] == 2 && f->made.shape[1] == 3);
    for (size_t r = 0; r < 3; r++)
        for (size_t e = 0; e < 2; e++)
            for (size_t c = 0; c < 3; c++)
                assert_true(fixture_element(f, r < 2 ? 0 : 2, (r % 2) * 6 + e * 3 + c) == ((size_t)rows[r][e] == c));
    fixture_free(f);
}

static fixture *classes(const double *values, size_t n, bool ignore)
{
    fixture *f = fixture_new(one_hot(3, ignore));
    fixture_values(f, "label", FBY_KIND_FLOAT, FBY_FLOAT64, 1, values, n);
    return f;
}

static void values_that_are_no_class_are_refused_or_give_zeros(void **state)
{
    (void)state;
    const double unknown[] = {3, -1, 0.5, (double)NAN, (double)INFINITY, 1e300, -1e300, 0x1p63};
    fixture *f = classes(unknown, 8, true);
    assert_int_equal(fixture_run(f), FBY_OK);
    for (size_t s = 0; s < 8; s++)
        for (size_t i = 0; i < 3; i++)
            assert_true(fixture_element(f, s, i) == 0);
    fixture_free(f);
    for (size_t i = 0; i < 8; i++) {
        const double two[] = {1, unknown[i]};
        f = classes(two, 2, false);
        assert_int_equal(fixture_run(f), FBY_E_DATA);
        assert_int_equal(f->bad, 1);
        fixture_free(f);
    }
    assert_contains(fixture_failure(classes(unknown, 1, false), FBY_E_DATA), "the value 3 is none of the classes");
    const uint64_t large[] = {UINT64_MAX};
    f = fixture_new(one_hot(3, false));
    fixture_values(f, "label", FBY_KIND_INT, FBY_UINT64, 1, large, 1);
    assert_contains(fixture_failure(f, FBY_E_DATA), "the value 18446744073709551615 is none");
}

static void a_missing_number_is_no_class_though_zero_lies_in_its_place(void **state)
{
    (void)state;
    static const uint8_t flags[] = {1, 0};
    const int32_t values[] = {0, 0};
    for (int ignore = 0; ignore < 2; ignore++) {
        fixture *f = fixture_new(one_hot(2, ignore));
        fixture_values(f, "label", FBY_KIND_INT, FBY_INT32, 1, values, 2);
        f->column[0].nullable = true;
        f->valid[0][0] = &flags[0];
        f->valid[0][1] = &flags[1];
        const fby_status status = fixture_run(f);
        assert_int_equal(status, ignore ? FBY_OK : FBY_E_DATA);
        assert_true(ignore ? fixture_element(f, 0, 0) == 1 && fixture_element(f, 1, 0) == 0
                           : f->bad == 1 && strstr(f->err.message, "missing") != NULL);
        fixture_free(f);
    }
}

static void random_numbers_are_mapped_as_a_search_through_the_list_says(void **state)
{
    (void)state;
    enum { N = 3000 };
    static int64_t keys[N], values[N];
    static double to[N];
    for (int round = 0; round < 60; round++) {
        const size_t n = fby__random_below(&random_state, round % 3 ? 40 : N);
        const bool near = round % 2;
        for (size_t i = 0; i < n; i++) {
            keys[i] = near ? (int64_t)i * 3 - 50 : (int64_t)fby__random_next(&random_state); /* distinct */
            to[i] = (double)fby__random_below(&random_state, 5);
        }
        for (size_t i = 0; i < N; i++)
            values[i] = n && fby__random_below(&random_state, 3) ? keys[fby__random_below(&random_state, n)]
                        : near                                   ? (int64_t)fby__random_below(&random_state, 500) - 250
                                                                 : (int64_t)fby__random_next(&random_state);
        fixture *f = fixture_new(map_numbers(keys, to, n));
        f->make.map.has_default = true;
        f->make.map.default_to = -1;
        fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, N);
        if (fixture_run(f) != FBY_OK)
            fail_msg("%s", f->err.message);
        assert_int_equal(f->made.dtype, FBY_INT64);
        assert_int_equal(f->made.ndim, 0);
        for (size_t s = 0; s < N; s++) {
            double expect = -1;
            for (size_t i = 0; i < n; i++)
                expect = keys[i] == values[s] ? to[i] : expect;
            assert_true(fixture_element(f, s, 0) == expect);
        }
        fixture_free(f);
    }
}

static void random_strings_are_mapped_as_a_search_through_the_list_says(void **state)
{
    (void)state;
    enum { N = 500 };
    static char room[N][12], other[N][12];
    static const char *keys[N], *values[N];
    static double to[N];
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(room[i], sizeof room[i], "%s%zu", i % 2 ? "leak " : "", i);
        (void)snprintf(other[i], sizeof other[i], "%zux", i);
        keys[i] = room[i];
        to[i] = (double)(i % 7) / 2;
    }
    keys[3] = ""; /* a string like any other */
    for (int round = 0; round < 20; round++) {
        const size_t n = 4 + fby__random_below(&random_state, N - 4);
        for (size_t i = 0; i < N; i++)
            values[i] = i % 5 == 0 ? other[i] : i % 11 == 0 ? NULL : keys[fby__random_below(&random_state, N)];
        fixture *f = fixture_new(map_texts(keys, to, n));
        f->make.map.has_default = true;
        f->make.map.default_to = 9;
        fixture_strings(f, "label", FBY_KIND_STRING, values, N);
        if (fixture_run(f) != FBY_OK)
            fail_msg("%s", f->err.message);
        assert_int_equal(f->made.dtype, FBY_FLOAT32);
        for (size_t s = 0; s < N; s++) {
            double expect = 9;
            for (size_t i = 0; values[s] && i < n; i++)
                expect = strcmp(keys[i], values[s]) == 0 ? to[i] : expect;
            assert_true(fixture_element(f, s, 0) == expect);
        }
        fixture_free(f);
    }
}

static void an_axis_that_was_asked_for_is_kept(void **state)
{
    (void)state;
    const int64_t keys[] = {1};
    const double to[] = {2};
    const int64_t values[] = {1, 1};
    fixture *f = fixture_new(map_numbers(keys, to, 1));
    f->keep_axis = true;
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 2);
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_true(f->made.ndim == 1 && f->made.shape[0] == 1);
    fixture_free(f);
    f = fixture_new(map_numbers(keys, to, 1));
    f->dtype = FBY_UINT8;
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 2, values, 1);
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_true(f->made.ndim == 1 && f->made.shape[0] == 2 && f->made.dtype == FBY_UINT8);
    assert_true(fixture_element(f, 0, 0) == 2 && fixture_element(f, 0, 1) == 2);
    fixture_free(f);
}

static fixture *text_map(const char *value)
{
    static const char *const keys[] = {"pipe", "leak", "noise"};
    static const double to[] = {0, 1, 0};
    fixture *f = fixture_new(map_texts(keys, to, 3));
    fixture_strings(f, "label", FBY_KIND_STRING, &value, 1);
    return f;
}

static void values_without_a_target_are_refused_where_there_is_no_default(void **state)
{
    (void)state;
    assert_contains(fixture_failure(text_map("lea"), FBY_E_DATA), "'lea' is not in the map, which has no default");
    assert_contains(fixture_failure(text_map(NULL), FBY_E_DATA), "a missing value is not in the map");
    const int64_t keys[] = {1, 2};
    const double to[] = {1, 2};
    const int64_t values[] = {2, 7};
    fixture *f = fixture_new(map_numbers(keys, to, 2));
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 2);
    assert_int_equal(fixture_run(f), FBY_E_DATA);
    assert_int_equal(f->bad, 1);
    assert_string_equal(f->err.message, "the value 7 is not in the map, which has no default");
    fixture_free(f);
}

static void maps_that_cannot_work_are_refused_at_creation(void **state)
{
    (void)state;
    const char *texts[] = {"a", "b", "a"};
    const int64_t numbers[] = {1, 2, 1};
    const double two[] = {0, 1, 2}, same[] = {0, 1, 0}, half[] = {0, 0.5}, large[] = {0, 1000};
    const int64_t values[] = {1};
    const char *strings[] = {"a"};
    fixture *f = fixture_new(map_texts(texts, two, 3));
    fixture_strings(f, "label", FBY_KIND_STRING, strings, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "'a' is mapped to two numbers");
    f = fixture_new(map_texts(texts, same, 3));
    fixture_strings(f, "label", FBY_KIND_STRING, strings, 1);
    assert_int_equal(fixture_run(f), FBY_OK);
    fixture_free(f);
    f = fixture_new(map_numbers(numbers, two, 3));
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "1 is mapped to two numbers");
    f = fixture_new(map_numbers(numbers, half, 2));
    f->dtype = FBY_INT32;
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "mapped to 0.5, which is no int32");
    f = fixture_new(map_numbers(numbers, large, 2));
    f->dtype = FBY_UINT8;
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "mapped to 1000, which is no uint8");
    f = fixture_new(map_texts(texts, two, 2));
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 1);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "column 'code' of type int64 is mapped from strings: give the whole numbers");
    f = fixture_new(map_numbers(numbers, two, 2));
    fixture_strings(f, "label", FBY_KIND_STRING, strings, 1);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "give the strings");
    f = fixture_new(one_hot(0, false));
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "one-hot of 0 classes");
    f = fixture_new(one_hot(3, false));
    fixture_strings(f, "label", FBY_KIND_STRING, strings, 1);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "strings become numbers by a map");
}

static fixture *fixture_of_texts(void) { return text_map("leak"); }

static fixture *fixture_of_numbers(void)
{
    static const int64_t keys[] = {1, 1000000}, values[] = {1};
    static const double to[] = {1, 2};
    fixture *f = fixture_new(map_numbers(keys, to, 2));
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT64, 1, values, 1);
    return f;
}

static fixture *fixture_of_classes(void)
{
    static const double values[] = {1};
    return classes(values, 1, false);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture_fail_allocations(fixture_of_texts);
    fixture_fail_allocations(fixture_of_numbers);
    fixture_fail_allocations(fixture_of_classes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_class_becomes_a_one_at_its_place_in_every_dtype),
    cmocka_unit_test(arrays_and_rows_keep_their_axes_before_the_classes),
    cmocka_unit_test(values_that_are_no_class_are_refused_or_give_zeros),
    cmocka_unit_test(a_missing_number_is_no_class_though_zero_lies_in_its_place),
    cmocka_unit_test(random_numbers_are_mapped_as_a_search_through_the_list_says),
    cmocka_unit_test(random_strings_are_mapped_as_a_search_through_the_list_says),
    cmocka_unit_test(an_axis_that_was_asked_for_is_kept),
    cmocka_unit_test(values_without_a_target_are_refused_where_there_is_no_default),
    cmocka_unit_test(maps_that_cannot_work_are_refused_at_creation),
    cmocka_unit_test(every_allocation_may_fail),
};

SIMD_MAIN(tests)
