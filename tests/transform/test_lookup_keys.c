/*
 * Keys of several columns: tables filled and searched, and looked up by a maker in samples of several rows, against a plain search over a
 * list of keys.
 */
#include "base/alloc.h"
#include "base/random.h"
#include "support/test_seed.h"
#include "transform/lookup.h"
#include "transform/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_KEYS = 400, N_SAMPLES = 40, MAX_ROWS = 600 };

static uint64_t below(uint64_t n) { return fby__random_below(&random_state, n); }

/* ---- keys as a plain list ---- */

typedef struct keys {
    size_t n, n_columns;
    bool text[FBY_MAX_KEYS];
    int64_t numbers[FBY_MAX_KEYS][MAX_KEYS];
    char chars[FBY_MAX_KEYS][MAX_KEYS][16];
    const char *texts[FBY_MAX_KEYS][MAX_KEYS];
    fby_lookup_keys column[FBY_MAX_KEYS];
} keys;

/* One of `most` values of a column: numbers `step` apart, or texts. */
static void put(keys *k, size_t c, size_t i, uint64_t which, int64_t step)
{
    k->numbers[c][i] = (int64_t)which * step - 3;
    (void)snprintf(k->chars[c][i], sizeof k->chars[c][i], "%.*s%u", (int)(which % 4), "gage", (unsigned)which);
    if (which == 1)
        k->chars[c][i][0] = 0; /* no text is a text */
    k->texts[c][i] = k->chars[c][i];
}

static bool same(const keys *a, size_t i, const keys *b, size_t j)
{
    bool same = true;
    for (size_t c = 0; c < a->n_columns; c++)
        same &= a->text[c] ? strcmp(a->chars[c][i], b->chars[c][j]) == 0 : a->numbers[c][i] == b->numbers[c][j];
    return same;
}

static int64_t plain_find(const keys *k, const keys *wanted, size_t i)
{
    for (size_t j = 0; j < k->n; j++)
        if (same(k, j, wanted, i))
            return (int64_t)j;
    return -1;
}

static void shape(keys *k, size_t n_columns, unsigned texts)
{
    k->n = 0;
    k->n_columns = n_columns;
    for (size_t c = 0; c < n_columns; c++) {
        k->text[c] = (texts >> c & 1) != 0;
        k->column[c] = k->text[c] ? (fby_lookup_keys){.texts = k->texts[c]} : (fby_lookup_keys){.numbers = k->numbers[c]};
    }
}

/* n distinct keys, of columns with few values each, so that all but the whole key repeats. */
static void draw(keys *k, size_t n, uint64_t most, int64_t step)
{
    for (size_t tries = 0; k->n < n && tries < 20 * n; tries++) {
        for (size_t c = 0; c < k->n_columns; c++)
            put(k, c, k->n, below(most), step);
        if (plain_find(k, k, k->n) == -1)
            k->n++;
    }
}

static fby_lookup *table_of(const keys *k, const double *values)
{
    static const char *const COLUMNS[] = {"a", "b"};
    fby_lookup *t = NULL;
    fby_error err = {0};
    if (fby_lookup_create_keys(k->column, k->n_columns, k->n, COLUMNS, values ? 2 : 0, values, &t, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return t;
}

/* ---- tables ---- */

static void check_table(size_t n_columns, unsigned texts, size_t n, uint64_t most, int64_t step)
{
    static keys k, others;
    shape(&k, n_columns, texts);
    shape(&others, n_columns, texts);
    draw(&k, n, most, step);
    fby_lookup *t = table_of(&k, NULL);
    assert_int_equal(fby_lookup_count(t), k.n);
    assert_int_equal(fby_lookup_key_column_count(t), n_columns);
    for (size_t i = 0; i < k.n; i++) {
        assert_int_equal(fby_lookup_find_keys(t, k.column, i), i);
        for (size_t c = 0; c < n_columns; c++) {
            int64_t number;
            const char *text;
            assert_int_equal(fby_lookup_key_is_text(t, c), k.text[c]);
            assert_int_equal(fby_lookup_key_value(t, i, c, &number, &text, NULL), FBY_OK);
            if (k.text[c])
                assert_string_equal(text, k.texts[c][i]);
            else
                assert_true(!text && number == k.numbers[c][i]);
        }
    }
    for (size_t i = 0; i < MAX_KEYS; i++) { /* some are there, some not, of some columns the values alone are not */
        for (size_t c = 0; c < n_columns; c++)
            put(&others, c, i, below(most + 2), step);
        assert_int_equal(fby_lookup_find_keys(t, others.column, i), plain_find(&k, &others, i));
    }
    fby_lookup_close(t);
}

static void keys_of_several_columns_equal_a_plain_search(void **state)
{
    (void)state;
    for (size_t n_columns = 1; n_columns <= FBY_MAX_KEYS; n_columns++)
        for (unsigned round = 0; round < 12; round++) {
            unsigned texts = (unsigned)below(1u << n_columns);
            check_table(n_columns, texts, 1 + below(MAX_KEYS - 1), 2 + below(n_columns > 2 ? 6 : 30), round % 2 ? 1 : (int64_t)1 << 50);
        }
    check_table(2, 0, 300, 18, 1); /* nearly all pairs: found without hashing */
}

static void pairs_are_told_from_other_pairs(void **state)
{
    (void)state;
    /* what a key joined as text, or as one number, would take for one */
    static const char *const FIRST[] = {"a", "ab", ""}, *const SECOND[] = {"bc", "c", "abc"};
    static const int64_t LOW[] = {INT64_MIN, INT64_MAX, 0, -1}, HIGH[] = {INT64_MAX, INT64_MIN, -1, 0};
    fby_lookup *t = NULL;
    fby_lookup_keys texts[] = {{.texts = FIRST}, {.texts = SECOND}}, numbers[] = {{.numbers = LOW}, {.numbers = HIGH}};
    assert_int_equal(fby_lookup_create_keys(texts, 2, 3, NULL, 0, NULL, &t, NULL), FBY_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fby_lookup_find_keys(t, texts, i), i);
    assert_int_equal(fby_lookup_find_keys(t, (fby_lookup_keys[]){texts[1], texts[0]}, 0), -1);
    assert_int_equal(fby_lookup_find_keys(t, numbers, 0), -1); /* of another type */
    fby_lookup_close(t);
    assert_int_equal(fby_lookup_create_keys(numbers, 2, 4, NULL, 0, NULL, &t, NULL), FBY_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(fby_lookup_find_keys(t, numbers, i), i);
    assert_int_equal(fby_lookup_find_number(t, 0), -1); /* it has no such key */
    assert_int_equal(fby_lookup_find_text(t, "a", 1), -1);
    fby_lookup_close(t);
}

static void a_key_that_comes_twice_is_named_whole(void **state)
{
    (void)state;
    static const char *const SITES[] = {"a", "a", "b", "a"};
    static const int64_t YEARS[] = {2001, 2002, 2001, 2002}, SENSORS[] = {5, 5, 5, 5};
    fby_lookup_keys key[] = {{.texts = SITES}, {.numbers = YEARS}, {.numbers = SENSORS}};
    fby_lookup *t = NULL;
    fby_error err = {0};
    assert_int_equal(fby_lookup_create_keys(key, 3, 4, NULL, 0, NULL, &t, &err), FBY_E_DATA);
    assert_string_equal(err.message, "the key ('a', 2002, 5) comes twice, in rows 1 and 3 of the table");
    assert_int_equal(fby_lookup_create_keys(key, 0, 4, NULL, 0, NULL, &t, &err), FBY_E_ARG);
    assert_int_equal(fby_lookup_create_keys(key, FBY_MAX_KEYS + 1, 4, NULL, 0, NULL, &t, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "1 to 8 columns, not 9"));
    assert_null(t);
    assert_int_equal(fby_lookup_create_keys(key, 2, 3, NULL, 0, NULL, &t, &err), FBY_OK);
    char text[FBY__LOOKUP_CHARS];
    fby__lookup_describe(t, text);
    assert_string_equal(text, "a table of 3 keys, from ('a', 2001) to ('b', 2001)");
    assert_int_equal(fby_lookup_key(t, 0, NULL, NULL, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "has 2 columns"));
    assert_int_equal(fby_lookup_key_value(t, 0, 2, NULL, NULL, &err), FBY_E_ARG);
    assert_int_equal(fby_lookup_key_value(t, 3, 0, NULL, NULL, &err), FBY_E_ARG);
    assert_false(fby_lookup_key_is_text(t, 2));
    fby_lookup_close(t);
}

static void long_keys_are_shortened_in_messages(void **state)
{
    (void)state;
    char values[FBY_MAX_KEYS][FBY__LOOKUP_VALUE_CHARS], out[FBY__LOOKUP_KEY_CHARS];
    for (size_t n = 1; n <= FBY_MAX_KEYS; n++)
        for (size_t length = 0; length < FBY__LOOKUP_VALUE_CHARS; length++) {
            for (size_t i = 0; i < n; i++) {
                memset(values[i], 'x', length);
                values[i][length] = 0;
            }
            fby__lookup_join_texts(values, n, out);
            assert_true(strlen(out) < FBY__LOOKUP_KEY_CHARS);
            bool whole = n * (length + 2) < FBY__LOOKUP_KEY_CHARS - 8;
            assert_true(!whole || (strlen(out) == n * (length + 2) && !strstr(out, "…")));
            assert_int_equal(out[strlen(out) - 1], ')');
        }
}

/* ---- a maker ---- */

/* A number column, another, and a text, of which the rows of a sample have the first one's. */
typedef struct row {
    int32_t event;
    uint16_t sensor;
    uint8_t valid[2];
} row;

static const fby_field EVENT = {.name = "event", .path = "event", .kind = FBY_KIND_INT, .dtype = FBY_INT32},
                       SENSOR = {.name = "sensor", .path = "sensor", .kind = FBY_KIND_INT, .dtype = FBY_UINT16},
                       SITE = {.name = "site", .path = "site", .kind = FBY_KIND_STRING};

typedef struct samples {
    row *rows[N_SAMPLES]; /* owned */
    uint64_t n_rows[N_SAMPLES], id[N_SAMPLES];
    const uint8_t *data[3][N_SAMPLES], *valid[3][N_SAMPLES];
    uint64_t count[N_SAMPLES];
    char site[N_SAMPLES][16];
} samples;

static void samples_init(samples *s, const keys *k, uint64_t most_rows, bool holes)
{
    *s = (samples){0};
    for (size_t i = 0; i < N_SAMPLES; i++) {
        s->n_rows[i] = most_rows == 1 ? 1 : below(most_rows + 1);
        s->rows[i] = calloc(s->n_rows[i] + 1, sizeof(row));
        const size_t site = below(k->n); /* rows are of keys that have this site, often */
        memcpy(s->site[i], k->chars[2][site], sizeof s->site[i]);
        for (uint64_t r = 0; r < s->n_rows[i] + 1; r++) {
            size_t from = site;
            for (int tries = 0; tries < 20 && (from == site || strcmp(k->chars[2][from], s->site[i]) != 0); tries++)
                from = below(k->n);
            if (strcmp(k->chars[2][from], s->site[i]) != 0)
                from = site;
            s->rows[i][r] = (row){(int32_t)k->numbers[0][from], (uint16_t)k->numbers[1][from], {1, 1}};
            if (holes && below(5) == 0)
                s->rows[i][r].sensor = (uint16_t)below(65536);
            if (holes && below(9) == 0)
                s->rows[i][r].valid[below(2)] = 0;
        }
        s->data[0][i] = (const uint8_t *)&s->rows[i]->event;
        s->data[1][i] = (const uint8_t *)&s->rows[i]->sensor;
        s->data[2][i] = (const uint8_t *)s->site[i];
        s->valid[0][i] = &s->rows[i]->valid[0];
        s->valid[1][i] = &s->rows[i]->valid[1];
        s->count[i] = strlen(s->site[i]);
    }
}

static void samples_fini(samples *s)
{
    for (size_t i = 0; i < N_SAMPLES; i++)
        free(s->rows[i]);
}

static void columns_init(fby__make_column columns[3])
{
    columns[0] =
        (fby__make_column){.name = "event", .field = &EVENT, .width = 1, .stored = FBY_INT32, .dtype = FBY_INT32, .nullable = true};
    columns[1] =
        (fby__make_column){.name = "sensor", .field = &SENSOR, .width = 1, .stored = FBY_UINT16, .dtype = FBY_UINT16, .nullable = true};
    columns[2] =
        (fby__make_column){.name = "site", .field = &SITE, .kind = FBY__PANEL_BYTES, .width = 1, .stored = FBY_UINT8, .dtype = FBY_UINT8};
    columns[0].kind = columns[1].kind = FBY__PANEL_DENSE;
}

static void views_init(const samples *s, fby__make_view views[3])
{
    for (size_t c = 0; c < 3; c++)
        views[c] = (fby__make_view){.data = s->data[c],
                                    .count = c == 2 ? s->count : NULL,
                                    .valid = c == 2 ? NULL : s->valid[c],
                                    .row_bytes = c == 2 ? 0 : sizeof(row),
                                    .valid_bytes = c == 2 ? 0 : sizeof(row)};
}

static int64_t expected_row(const keys *k, const samples *s, size_t i, uint64_t r, size_t n_columns)
{
    static keys one;
    shape(&one, n_columns, 4);
    one.numbers[0][0] = s->rows[i][r].event;
    one.numbers[1][0] = s->rows[i][r].sensor;
    memcpy(one.chars[2][0], s->site[i], sizeof s->site[i]);
    return s->rows[i][r].valid[0] && s->rows[i][r].valid[1] ? plain_find(k, &one, 0) : -1;
}

static fby_make lookup_in(fby_lookup *t, bool has_default)
{
    static const size_t PICK[] = {1, 0};
    return (fby_make){.kind = FBY_MAKE_LOOKUP,
                      .lookup = {.table = t, .columns = PICK, .n_columns = 2, .has_default = has_default, .default_value = -7}};
}

static void check_maker(size_t n_columns, uint64_t most_rows, bool holes)
{
    static keys k;
    static samples s;
    static double values[2 * MAX_KEYS];
    shape(&k, n_columns, 4); /* the third is a text */
    draw(&k, 350, n_columns == 2 ? 40 : 8, 1);
    for (size_t i = 0; i < k.n; i++) {
        k.numbers[0][i] += 3; /* sensors are unsigned */
        k.numbers[1][i] += 3;
        if (n_columns == 2)
            put(&k, 2, i, 0, 1); /* all of one site, which is not in the key */
        values[2 * i] = (double)i;
        values[2 * i + 1] = (double)below(1000) / 8;
    }
    fby_lookup *t = table_of(&k, values);
    fby_make make = lookup_in(t, holes);
    fby__make_column columns[3];
    columns_init(columns);
    fby__make_spec spec = {.output = "out",
                           .make = &make,
                           .columns = columns,
                           .n_columns = (uint32_t)n_columns,
                           .samples = most_rows == 1 ? FBY_SAMPLES_ROWS : FBY_SAMPLES_GROUPS,
                           .n_rows = most_rows == 1,
                           .max_rows = most_rows};
    fby__maker *m = NULL;
    fby__made made;
    fby_error err = {0};
    if (fby__maker_create(&spec, &m, &made, &err) != FBY_OK)
        fail_msg("%s", err.message);
    assert_false(made.of_sample);
    assert_int_equal(made.ndim, 1);
    samples_init(&s, &k, most_rows, holes);
    fby__make_view views[3];
    views_init(&s, views);
    uint8_t *dst[N_SAMPLES];
    for (size_t i = 0; i < N_SAMPLES; i++)
        dst[i] = calloc(s.n_rows[i] + 1, 2 * sizeof(float));
    fby__make_scratch scratch = {0};
    fby__make_job run = {.n = N_SAMPLES, .n_rows = s.n_rows, .id = s.id, .views = views, .dst = dst, .scratch = &scratch};
    if (fby__maker_run(m, &run, &err) != FBY_OK)
        fail_msg("%s", err.message);
    size_t found = 0, not_there = 0;
    for (size_t i = 0; i < N_SAMPLES; i++)
        for (uint64_t r = 0; r < s.n_rows[i]; r++) {
            float got[2];
            memcpy(got, dst[i] + r * sizeof got, sizeof got);
            int64_t at = expected_row(&k, &s, i, r, n_columns);
            *(at < 0 ? &not_there : &found) += 1;
            assert_true(got[0] == (at < 0 ? -7.0F : (float)values[2 * at + 1]));
            assert_true(got[1] == (at < 0 ? -7.0F : (float)values[2 * at]));
        }
    assert_true(found > 10 && (not_there > 0) == holes); /* a test of both */
    for (size_t i = 0; i < N_SAMPLES; i++)
        free(dst[i]);
    fby__make_scratch_fini(&scratch);
    samples_fini(&s);
    fby__maker_destroy(m);
    fby_lookup_close(t);
}

static void values_beside_keys_of_several_columns_equal_a_plain_search(void **state)
{
    (void)state;
    for (size_t n_columns = 2; n_columns <= 3; n_columns++)
        for (int holes = 0; holes < 2; holes++) {
            check_maker(n_columns, 1, holes != 0);
            check_maker(n_columns, MAX_ROWS, holes != 0);
        }
}

static void a_key_that_is_not_there_is_named_whole_with_its_sample(void **state)
{
    (void)state;
    static const int64_t EVENTS[] = {1, 1, 2}, SENSORS[] = {10, 11, 10};
    static const double VALUES[] = {0, 1, 2, 3, 4, 5};
    static const char *const COLUMNS[] = {"a", "b"}, *const SITES[] = {"s", "s", "s"};
    fby_lookup_keys key[] = {{.numbers = EVENTS}, {.numbers = SENSORS}, {.texts = SITES}};
    fby_lookup *t = NULL;
    fby_error err = {0};
    assert_int_equal(fby_lookup_create_keys(key, 3, 3, COLUMNS, 2, VALUES, &t, &err), FBY_OK);
    fby_make make = lookup_in(t, false);
    fby__make_column columns[3];
    columns_init(columns);
    fby__make_spec spec = {
        .output = "out", .make = &make, .columns = columns, .n_columns = 3, .samples = FBY_SAMPLES_GROUPS, .max_rows = 4};
    fby__maker *m = NULL;
    fby__made made;
    assert_int_equal(fby__maker_create(&spec, &m, &made, &err), FBY_OK);
    row first[] = {{1, 10, {1, 1}}}, second[] = {{1, 11, {1, 1}}, {2, 11, {1, 1}}, {2, 10, {1, 0}}};
    const uint8_t *data[3][2] = {{(uint8_t *)&first->event, (uint8_t *)&second->event},
                                 {(uint8_t *)&first->sensor, (uint8_t *)&second->sensor},
                                 {(const uint8_t *)"s", (const uint8_t *)"s"}},
                  *valid[2][2] = {{&first->valid[0], &second->valid[0]}, {&first->valid[1], &second->valid[1]}};
    uint64_t n_rows[] = {1, 3}, count[] = {1, 1}, id[2] = {0};
    fby__make_view views[] = {{.data = data[0], .valid = valid[0], .row_bytes = sizeof(row), .valid_bytes = sizeof(row)},
                              {.data = data[1], .valid = valid[1], .row_bytes = sizeof(row), .valid_bytes = sizeof(row)},
                              {.data = data[2], .count = count}};
    float out[2][6];
    uint8_t *dst[] = {(uint8_t *)out[0], (uint8_t *)out[1]};
    fby__make_scratch scratch = {0};
    fby__make_job run = {.n = 2, .n_rows = n_rows, .id = id, .views = views, .dst = dst, .scratch = &scratch};
    assert_int_equal(fby__maker_run(m, &run, &err), FBY_E_DATA);
    assert_int_equal(run.bad, 1);
    assert_string_equal(err.message, "the key (2, 11, 's') is not in a table of 3 keys, from (1, 10, 's') to (2, 10, 's'); a default "
                                     "would stand in for it");
    second[1].event = 1;
    assert_int_equal(fby__maker_run(m, &run, &err), FBY_E_DATA);
    assert_non_null(strstr(err.message, "the key (2, missing, 's') is missing a value, and there is no default"));
    fby__maker_destroy(m);

    fby__make_column swapped[] = {columns[2], columns[1], columns[0]}, array[] = {columns[0], columns[1], columns[2]};
    spec.columns = swapped;
    assert_int_equal(fby__maker_create(&spec, &m, &made, &err), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(err.message,
                           "output 'out': column 'site' of type string cannot be found in a table of 3 keys, from (1, 10, 's') "
                           "to (2, 10, 's'): column 1 of its key holds whole numbers"));
    spec.columns = array;
    array[1].n_axes = 1;
    array[1].axes[0] = array[1].width = 4;
    assert_int_equal(fby__maker_create(&spec, &m, &made, &err), FBY_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "column 'sensor' of type uint16 cannot be part of a key of several columns: it is an array"));
    spec.n_columns = 2;
    assert_int_equal(fby__maker_create(&spec, &m, &made, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "a lookup in a table with a key of 3 columns takes 3 columns, not 2"));
    make = (fby_make){.kind = FBY_MAKE_STANDARDIZE, .standardize = {.moments = t}};
    spec.columns = columns;
    assert_int_equal(fby__maker_create(&spec, &m, &made, &err), FBY_E_ARG);
    assert_non_null(strstr(err.message, "the key of the table has 3 columns, and a table with a key of one is needed here"));
    fby_lookup_close(t);
}

static void a_failed_allocation_leaves_no_table_behind(void **state)
{
    (void)state;
    static keys k;
    shape(&k, 3, 2);
    draw(&k, 100, 9, 1);
    for (uint64_t at = 1;; at++) {
        fby_lookup *t = NULL;
        fby_error err = {0};
        fby__alloc_fail_at(at);
        fby_status status = fby_lookup_create_keys(k.column, 3, k.n, NULL, 0, NULL, &t, &err);
        fby__alloc_fail_at(0);
        if (status == FBY_OK) {
            assert_true(at > 10);
            fby_lookup_close(t);
            return;
        }
        assert_int_equal(status, FBY_E_NOMEM);
        assert_null(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_several_columns_equal_a_plain_search),
        cmocka_unit_test(pairs_are_told_from_other_pairs),
        cmocka_unit_test(a_key_that_comes_twice_is_named_whole),
        cmocka_unit_test(long_keys_are_shortened_in_messages),
        cmocka_unit_test(values_beside_keys_of_several_columns_equal_a_plain_search),
        cmocka_unit_test(a_key_that_is_not_there_is_named_whole_with_its_sample),
        cmocka_unit_test(a_failed_allocation_leaves_no_table_behind),
    };
    return cmocka_run_group_tests_name("lookup_keys", tests, seed_random, NULL);
}
