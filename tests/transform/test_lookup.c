/* Tables found by a key: against a plain search, with keys that lie close together, far apart, and are text. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "support/test_seed.h"
#include "transform/lookup_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t below(int64_t n) { return (int64_t)fby__random_below(&random_state, (uint64_t)n); }

static fby_lookup *create(const int64_t *numbers, const char *const *texts, size_t n, const char *const *columns, size_t n_columns,
                          const double *values)
{
    fby_lookup *t = NULL;
    fby_error err = {0};
    if (fby_lookup_create(numbers, texts, n, columns, n_columns, values, &t, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return t;
}

/* Distinct keys: every one is found at its place, and neighbours that are no keys are not. */
static void check_numbers(const int64_t *keys, size_t n)
{
    fby_lookup *t = create(keys, NULL, n, NULL, 0, NULL);
    assert_int_equal(fby_lookup_count(t), n);
    assert_false(fby_lookup_has_text_keys(t));
    for (size_t i = 0; i < n; i++) {
        int64_t key;
        const char *text = "";
        assert_int_equal(fby_lookup_find_number(t, keys[i]), i);
        assert_int_equal(fby_lookup_key(t, i, &key, &text, NULL), FBY_OK);
        assert_int_equal(key, keys[i]);
        assert_null(text);
        for (int side = -1; side <= 1; side += 2) {
            int64_t other = (int64_t)((uint64_t)keys[i] + (uint64_t)(int64_t)side), expect = -1;
            for (size_t k = 0; k < n; k++)
                expect = keys[k] == other ? (int64_t)k : expect;
            assert_int_equal(fby_lookup_find_number(t, other), expect);
        }
    }
    assert_int_equal(fby_lookup_find_text(t, "1", 1), -1);
    fby_lookup_close(t);
}

static void numbers_are_found_at_their_place_close_together_and_far_apart(void **state)
{
    (void)state;
    int64_t keys[800];
    for (size_t i = 0; i < 800; i++)
        keys[i] = (int64_t)(i * 7 % 800) - 400;
    check_numbers(keys, 800);
    check_numbers(keys, 1);
    for (size_t i = 0; i < 800; i++)
        keys[i] = (below(1 << 30) << 20 | (int64_t)i) - ((int64_t)1 << 49);
    check_numbers(keys, 800);
    check_numbers((int64_t[]){INT64_MIN, INT64_MAX, 0, -1}, 4);
    check_numbers((int64_t[]){INT64_MAX, INT64_MAX - 1}, 2);
    check_numbers((int64_t[]){INT64_MIN, INT64_MIN + 1}, 2);
}

static uint64_t cpu_of(const int64_t *keys, size_t n)
{
    const uint64_t began = fby__thread_cpu_ns();
    fby_lookup *t = create(keys, NULL, n, NULL, 0, NULL);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fby_lookup_find_number(t, keys[i]), i);
    fby_lookup_close(t);
    return fby__thread_cpu_ns() - began;
}

/* Which would all have one slot if a fixed number were multiplied, or if low bits of a key alone came into those of its hash. */
static void keys_that_were_chosen_take_no_longer_than_others(void **state)
{
    enum { N = 60000 };
    (void)state;
    static int64_t random[N], chosen[N], high[N], high_half[N];
    uint64_t inverse = 1; /* of the golden ratio's number, modulo 2^64 */
    for (int i = 0; i < 6; i++)
        inverse *= 2 - FBY__GOLDEN * inverse;
    for (uint64_t i = 0; i < N; i++) {
        random[i] = (int64_t)((uint64_t)below((int64_t)1 << 40) << 20 | i);
        chosen[i] = (int64_t)(((i + 1) << 32 | (i + 1)) * inverse);
        high[i] = (int64_t)(i << 48);
        high_half[i] = (int64_t)(i << 32);
    }
    const uint64_t usual = cpu_of(random, N);
    assert_true(cpu_of(chosen, N) < 10 * usual);
    assert_true(cpu_of(high, N) < 10 * usual);
    assert_true(cpu_of(high_half, N) < 10 * usual);
}

/* The mean number of slots that are looked at beyond the first where n keys lie in a table of at least twice as many slots. */
static double probes_of(const fby_lookup *t, uint64_t step, size_t n, uint64_t *used)
{
    uint64_t extra = 0;
    memset(used, 0, t->n_slots * sizeof *used);
    for (uint64_t i = 0; i < n; i++) {
        size_t at = fby__lookup_slot_of_number(t, (int64_t)(i * step));
        for (; used[at]; at = (at + 1) & (t->n_slots - 1))
            extra++;
        used[at] = 1;
    }
    return (double)extra / (double)n;
}

static void numbers_that_are_mixed_lie_like_random_ones_whatever_the_factor(void **state)
{
    enum { N = 7500, SLOTS = 1 << 14, FACTORS = 400 };
    static const uint64_t STEPS[] = {1, 7, 1000, 1000003, 60000000000, 1 << 20, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, UINT64_MAX};
    static uint64_t used[SLOTS];
    const uint64_t drawn = fby__table_secret[0];
    const fby_lookup t = {.n_slots = SLOTS, .mixed = true};
    (void)state;
    for (size_t s = 0; s < sizeof STEPS / sizeof *STEPS; s++)
        for (int i = 0; i < FACTORS; i++) {
            fby__table_secret[0] = fby__random_next(&random_state) | 1;
            const double probes = probes_of(&t, STEPS[s], N, used);
            if (probes > 1) /* random keys: 0.42 */
                fail_msg("step %llu, factor %llu: %g", (unsigned long long)STEPS[s], (unsigned long long)fby__table_secret[0], probes);
        }
    fby__table_secret[0] = drawn;
}

static void numbers_are_mixed_where_they_cluster_and_only_there(void **state)
{
    enum { N = 60000 };
    static const uint64_t STEPS[] = {7, 1000, 1000003, 60000000000, 1 << 20, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1};
    static int64_t keys[N];
    uint64_t inverse = 1; /* of the golden ratio's number, modulo 2^64 */
    (void)state;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - FBY__GOLDEN * inverse;
    for (size_t s = 0; s <= sizeof STEPS / sizeof *STEPS; s++) {
        const bool chosen = s == sizeof STEPS / sizeof *STEPS;
        for (uint64_t i = 0; i < N; i++)
            keys[i] = (int64_t)(chosen ? ((i + 1) << 32 | (i + 1)) * inverse : i * STEPS[s]); /* all of those would have the first slot */
        fby_lookup *t = create(keys, NULL, N, NULL, 0, NULL);
        assert_int_equal(t->mixed, chosen);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(fby_lookup_find_number(t, keys[i]), i);
        fby_lookup_close(t);
    }
}

static void texts_are_found_with_their_values(void **state)
{
    (void)state;
    enum { N = 700 };
    char text[N][24];
    const char *keys[N], *columns[] = {"area", "slope"};
    double values[2 * N];
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(text[i], sizeof text[i], "%.*s_%zu", (int)(i % 9), "camelsde", i);
        keys[i] = text[i];
        values[2 * i] = (double)i;
        values[2 * i + 1] = i % 5 ? (double)below(1000) : (double)NAN;
    }
    keys[0] = ""; /* no text is a text */
    fby_lookup *t = create(NULL, keys, N, columns, 2, values);
    assert_true(fby_lookup_has_text_keys(t));
    assert_int_equal(fby_lookup_column_count(t), 2);
    assert_string_equal(fby_lookup_column(t, 1), "slope");
    assert_null(fby_lookup_column(t, 2));
    for (size_t i = 0; i < N; i++) {
        const char *key;
        assert_int_equal(fby_lookup_find_text(t, keys[i], strlen(keys[i])), i);
        assert_int_equal(fby_lookup_key(t, i, NULL, &key, NULL), FBY_OK);
        assert_string_equal(key, keys[i]);
        for (size_t c = 0; c < 2; c++)
            assert_memory_equal(&(double){fby_lookup_value(t, i, c)}, &values[2 * i + c], sizeof(double));
    }
    assert_int_equal(fby_lookup_find_text(t, "camels", 6), -1);
    assert_int_equal(fby_lookup_find_text(t, keys[8], strlen(keys[8]) + 1), -1); /* the NUL is no part of it */
    assert_int_equal(fby_lookup_find_number(t, 0), -1);
    assert_true(isnan(fby_lookup_value(t, N, 0)) && isnan(fby_lookup_value(t, 0, 2)));
    fby_error err = {0};
    assert_int_equal(fby_lookup_key(t, N, NULL, NULL, &err), FBY_E_ARG);
    fby_lookup_close(t);
}

static void a_key_that_comes_again_keeps_its_row_while_a_table_is_filled(void **state)
{
    (void)state;
    fby_lookup *t = NULL;
    uint32_t row;
    const char *column = "x";
    int64_t first[64];
    size_t n = 0;
    assert_int_equal(fby__lookup_new(&(bool){false}, 1, &column, 1, &t, NULL), FBY_OK);
    for (int i = 0; i < 5000; i++) {
        int64_t key = below(64) * 1000003 - 17;
        size_t expect = 0;
        while (expect < n && first[expect] != key)
            expect++;
        if (expect == n)
            first[n++] = key;
        assert_int_equal(fby__lookup_add_number(t, key, &row, NULL), FBY_OK);
        assert_int_equal(row, expect);
    }
    assert_int_equal(fby_lookup_count(t), n);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(isnan(fby_lookup_value(t, i, 0))); /* nothing was said of it yet */
        *fby__lookup_row(t, i) = i;
    }
    assert_int_equal(fby__lookup_seal(t, NULL), FBY_OK);
    for (uint32_t i = 0; i < n; i++)
        assert_true(fby_lookup_value(t, (size_t)fby_lookup_find_number(t, first[i]), 0) == (double)i);
    fby_lookup_close(t);
}

static void an_empty_table_has_no_key(void **state)
{
    (void)state;
    fby_lookup *t = create((int64_t[]){0}, NULL, 0, NULL, 0, NULL);
    char text[FBY__LOOKUP_CHARS];
    assert_int_equal(fby_lookup_count(t), 0);
    assert_int_equal(fby_lookup_find_number(t, 0), -1);
    fby__lookup_describe(t, text);
    assert_string_equal(text, "a table without keys");
    fby_lookup_close(fby_lookup_ref(t));
    fby_lookup_close(t);
    fby_lookup_close(NULL);
}

static void refuses(fby_status status, const char *part, const int64_t *numbers, const char *const *texts, size_t n,
                    const char *const *columns, size_t n_columns, const double *values)
{
    fby_lookup *t = NULL;
    fby_error err = {0};
    assert_int_equal(fby_lookup_create(numbers, texts, n, columns, n_columns, values, &t, &err), status);
    assert_null(t);
    if (!strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
}

static void wrong_tables_are_refused_by_name(void **state)
{
    (void)state;
    static const int64_t numbers[] = {4, 9, 4};
    static const char *const texts[] = {"a", "b", "a"}, *const gap[] = {"a", NULL}, *const columns[] = {"x", "x"};
    static const double values[6] = {0};
    refuses(FBY_E_DATA, "the key 4 comes twice, in rows 0 and 2", numbers, NULL, 3, NULL, 0, NULL);
    refuses(FBY_E_DATA, "the key 'a' comes twice", NULL, texts, 3, NULL, 0, NULL);
    refuses(FBY_E_ARG, "one of the two", numbers, texts, 3, NULL, 0, NULL);
    refuses(FBY_E_ARG, "one of the two", NULL, NULL, 0, NULL, 0, NULL);
    refuses(FBY_E_ARG, "'x' is named twice", numbers, NULL, 2, columns, 2, values);
    refuses(FBY_E_ARG, "names and values", numbers, NULL, 2, NULL, 2, values);
    refuses(FBY_E_ARG, "names and values", numbers, NULL, 2, columns, 1, NULL);
    refuses(FBY_E_ARG, "key 1 is NULL", NULL, gap, 2, NULL, 0, NULL);
    fby_lookup *t = NULL;
    uint32_t row;
    fby_error err = {0};
    assert_int_equal(fby__lookup_new(&(bool){true}, 1, NULL, 0, &t, NULL), FBY_OK);
    assert_int_equal(fby__lookup_add_text(t, "a\0b", 3, &row, &err), FBY_E_DATA);
    assert_int_equal(fby_lookup_count(t), 0);
    fby_lookup_close(t);
}

static void a_failed_allocation_at_any_point_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *columns[] = {"x", "y"}, *texts[40];
    char text[40][8];
    int64_t numbers[40];
    double values[80] = {0};
    for (int i = 0; i < 40; i++) {
        (void)snprintf(text[i], sizeof text[i], "k%d", i);
        texts[i] = text[i];
        numbers[i] = i * 3;
    }
    for (int kind = 0; kind < 2; kind++)
        for (uint64_t at = 1;; at++) {
            fby_lookup *t = NULL;
            fby_error err = {0};
            fby__alloc_fail_at(at);
            fby_status status = fby_lookup_create(kind ? numbers : NULL, kind ? NULL : texts, 40, columns, 2, values, &t, &err);
            fby__alloc_fail_at(0);
            if (status == FBY_OK) {
                assert_true(at > 5);
                fby_lookup_close(t);
                break;
            }
            assert_int_equal(status, FBY_E_NOMEM);
            assert_null(t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_found_at_their_place_close_together_and_far_apart),
        cmocka_unit_test(keys_that_were_chosen_take_no_longer_than_others),
        cmocka_unit_test(numbers_that_are_mixed_lie_like_random_ones_whatever_the_factor),
        cmocka_unit_test(numbers_are_mixed_where_they_cluster_and_only_there),
        cmocka_unit_test(texts_are_found_with_their_values),
        cmocka_unit_test(a_key_that_comes_again_keeps_its_row_while_a_table_is_filled),
        cmocka_unit_test(an_empty_table_has_no_key),
        cmocka_unit_test(wrong_tables_are_refused_by_name),
        cmocka_unit_test(a_failed_allocation_at_any_point_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("lookup", tests, seed_random, NULL);
}
