/* Lookups, compared with a plain loop over a list of keys. */
#include "maker_rows.h"

/* ---- tables ---- */

typedef struct table {
    fby_lookup *t;
    int64_t keys[N_KEYS];
    char texts[N_KEYS][16];
    const char *text[N_KEYS];
    double values[N_KEYS][5];
} table;

static const char *const COLUMNS[] = {"c0", "c1", "c2", "c3", "c4"};

static void table_init(table *t, bool texts, int64_t step)
{
    for (int i = 0; i < N_KEYS; i++) {
        t->keys[i] = (i * 37 % N_KEYS) * step - 20;
        (void)snprintf(t->texts[i], sizeof t->texts[i], "key_%d", i);
        t->text[i] = t->texts[i];
        for (int c = 0; c < 5; c++)
            t->values[i][c] = (double)below(100000) / 7;
    }
    fby_error err = {0};
    if (fby_lookup_create(texts ? NULL : t->keys, texts ? t->text : NULL, N_KEYS, COLUMNS, 5, t->values[0], &t->t, &err) != FBY_OK)
        fail_msg("%s", err.message);
}

/* ---- lookups ---- */

/* Every dtype of keys and sizes of results, rows and groups, with missing keys and unknown ones where there is a default. */
static void check_lookup(fby_dtype key_dtype, int64_t step, size_t n_columns, bool has_default, uint64_t most_rows, fby_dtype to)
{
    static const size_t PICK[] = {3, 0, 4, 1, 2};
    table t;
    table_init(&t, false, step);
    samples s;
    samples_init(&s, 1 + below(MAX_SAMPLES), most_rows);
    static int64_t place[MAX_SAMPLES][MAX_ROWS + 1]; /* −1: the default */
    const bool is_unsigned = key_dtype >= FBY_UINT8 && key_dtype <= FBY_UINT64;
    for (uint64_t i = 0; i < s.n; i++)
        for (uint64_t r = 0; r < s.n_rows[i]; r++) {
            int k;
            do
                k = (int)below(N_KEYS);
            while (is_unsigned && t.keys[k] < 0);
            place[i][r] = k;
            put_key(key_dtype, cell(&s, i, r, 8), t.keys[k]);
            if (has_default && below(8) == 0) {
                place[i][r] = -1;
                if (below(2))
                    s.valid[i][r] = 0;
                else
                    put_key(key_dtype, cell(&s, i, r, 8), 121 + (int64_t)below(3)); /* beyond or between all keys: step 1 ends at 69 */
            }
        }
    fby_make make = {
        .kind = FBY_MAKE_LOOKUP,
        .lookup = {
            .table = t.t, .columns = n_columns ? PICK : NULL, .n_columns = n_columns, .has_default = has_default, .default_value = -3}};
    fby__make_column column = dense(key_dtype >= FBY_FLOAT16 ? &FLOAT_FIELD : &INT_FIELD, key_dtype);
    column.nullable = has_default;
    fby__make_spec spec = spec_of(&make, &column, 1, most_rows == 1 ? FBY_SAMPLES_ROWS : FBY_SAMPLES_GROUPS, most_rows == 1);
    spec.dtype = to;
    fby__made made;
    fby__maker *m = maker_of(&spec, &made);
    fby_lookup_close(t.t); /* the maker has its own */
    assert_int_equal(made.dtype, to ? to : n_columns ? FBY_FLOAT32 : FBY_INT64);
    assert_int_equal(made.ndim, n_columns > 1);
    assert_false(made.of_sample);
    assert_int_equal(column.want_valid, has_default);
    assert_int_equal(column.dtype, key_dtype);
    view_memory memory;
    fby__make_view view = dense_view(&s, 8, has_default, &memory);
    uint8_t *out[MAX_SAMPLES];
    fby_error err = {0};
    if (run(m, &made, &s, &view, out, NULL, &err) != FBY_OK)
        fail_msg("%s", err.message);
    size_t n = n_columns ? n_columns : 1, bytes = fby_dtype_bytes(made.dtype);
    for (uint64_t i = 0; i < s.n; i++)
        for (uint64_t r = 0; r < s.n_rows[i]; r++)
            for (size_t c = 0; c < n; c++) {
                int64_t at = place[i][r];
                fby__scalar expect;
                assert_true(fby__scalar_set(made.dtype, at < 0 ? -3 : n_columns ? t.values[at][PICK[c]] : (double)at, &expect));
                assert_memory_equal(out[i] + (r * n + c) * bytes, expect.bytes, bytes);
            }
    free_all(out, s.n);
    fby__maker_destroy(m);
    samples_fini(&s);
}

static void values_beside_whole_numbers_equal_a_plain_search(void **state)
{
    (void)state;
    static const fby_dtype KEYS[] = {FBY_INT8,   FBY_INT16,  FBY_INT32,  FBY_INT64,   FBY_UINT8,
                                     FBY_UINT16, FBY_UINT32, FBY_UINT64, FBY_FLOAT32, FBY_FLOAT64};
    for (size_t d = 0; d < sizeof KEYS / sizeof *KEYS; d++)
        for (size_t n = 0; n <= 5; n++) {
            check_lookup(KEYS[d], 1, n, n % 2, 1 + below(MAX_ROWS), FBY_DTYPE_NONE);
            check_lookup(KEYS[d], 1, n, n % 2 == 0, 1, FBY_DTYPE_NONE);
            if (fby_dtype_bytes(KEYS[d]) >= 4)
                check_lookup(KEYS[d], 100003, n, n % 2, 1 + below(MAX_ROWS), n == 0 ? FBY_INT32 : FBY_FLOAT64);
        }
    check_lookup(FBY_INT16, 1, 3, true, 200, FBY_FLOAT16);
    check_lookup(FBY_INT16, 1, 2, false, 200, FBY_BFLOAT16);
}

static void a_text_key_gives_one_row_for_a_sample_of_several(void **state)
{
    (void)state;
    table t;
    table_init(&t, true, 1);
    static const size_t PICK[] = {1, 2};
    fby_make make = {.kind = FBY_MAKE_LOOKUP, .lookup = {.table = t.t, .columns = PICK, .n_columns = 2, .has_default = true}};
    for (int rows = 0; rows < 2; rows++) {
        fby__make_column column = text();
        fby__make_spec spec = spec_of(&make, &column, 1, rows ? FBY_SAMPLES_ROWS : FBY_SAMPLES_WINDOWS, rows ? 1 : 30);
        fby__made made;
        fby__maker *m = maker_of(&spec, &made);
        assert_int_equal(made.of_sample, !rows);
        assert_int_equal(made.shape[0], 2);
        samples s;
        samples_init(&s, 50, 1);
        view_memory memory;
        fby__make_view view = {.data = memory.data, .count = memory.count};
        int place[MAX_SAMPLES];
        for (uint64_t i = 0; i < s.n; i++) {
            place[i] = (int)below(N_KEYS);
            memory.data[i] = (const uint8_t *)t.text[place[i]];
            memory.count[i] = strlen(t.text[place[i]]);
            if (below(6) == 0) {
                memory.count[i]--; /* 'key_' or 'key_1' for 'key_17' */
                place[i] = place[i] < 10 ? -1 : place[i] / 10;
            }
            s.n_rows[i] = rows ? 1 : 30;
        }
        uint8_t *out[MAX_SAMPLES];
        fby_error err = {0};
        if (run(m, &made, &s, &view, out, NULL, &err) != FBY_OK)
            fail_msg("%s", err.message);
        for (uint64_t i = 0; i < s.n; i++) {
            const float *got = (const float *)(const void *)out[i];
            for (int c = 0; c < 2; c++)
                assert_true(got[c] == (place[i] < 0 ? 0 : (float)t.values[place[i]][PICK[c]]));
        }
        free_all(out, s.n);
        samples_fini(&s);
        fby__maker_destroy(m);
    }
    fby_lookup_close(t.t);
}

static void arrays_of_keys_keep_their_axes(void **state)
{
    (void)state;
    table t;
    table_init(&t, false, 1);
    static const size_t PICK[] = {2};
    fby_make make = {.kind = FBY_MAKE_LOOKUP, .lookup = {.table = t.t, .columns = PICK, .n_columns = 1, .keep_axis = true}};
    fby__make_column column = dense(&INT_FIELD, FBY_INT32);
    column.width = 6;
    column.n_axes = 2;
    column.axes[0] = 2;
    column.axes[1] = 3;
    fby__make_spec spec = spec_of(&make, &column, 1, FBY_SAMPLES_WINDOWS, 3);
    fby__made made;
    fby__maker *m = maker_of(&spec, &made);
    assert_int_equal(made.ndim, 3);
    assert_int_equal(made.shape[0] * 100 + made.shape[1] * 10 + made.shape[2], 231);
    samples s;
    samples_init(&s, 5, 1);
    int place[5][3][6];
    for (uint64_t i = 0; i < s.n; i++) {
        s.n_rows[i] = 3;
        free(s.rows[i]);
        s.rows[i] = calloc(3, ROW_BYTES);
        for (int r = 0; r < 3; r++)
            for (int e = 0; e < 6; e++) {
                place[i][r][e] = (int)below(N_KEYS);
                put_key(FBY_INT32, cell(&s, i, (uint64_t)r, (size_t)e * 4), t.keys[place[i][r][e]]);
            }
    }
    view_memory memory;
    fby__make_view view = dense_view(&s, 0, false, &memory);
    uint8_t *out[MAX_SAMPLES];
    assert_int_equal(run(m, &made, &s, &view, out, NULL, NULL), FBY_OK);
    for (uint64_t i = 0; i < s.n; i++)
        for (int r = 0; r < 3; r++)
            for (int e = 0; e < 6; e++)
                assert_true(((const float *)(const void *)out[i])[r * 6 + e] == (float)t.values[place[i][r][e]][2]);
    free_all(out, s.n);
    samples_fini(&s);
    fby__maker_destroy(m);
    fby_lookup_close(t.t);
}

static void a_key_that_is_not_there_is_named_with_its_sample(void **state)
{
    (void)state;
    table t;
    table_init(&t, false, 1);
    static const size_t PICK[] = {0, 1, 2};
    fby_make make = {.kind = FBY_MAKE_LOOKUP, .lookup = {.table = t.t, .columns = PICK, .n_columns = 3}};
    fby__make_column column = dense(&INT_FIELD, FBY_INT32);
    column.nullable = true;
    fby__make_spec spec = spec_of(&make, &column, 1, FBY_SAMPLES_GROUPS, 0);
    fby__made made;
    fby__maker *m = maker_of(&spec, &made);
    samples s;
    samples_init(&s, 4, 1);
    s.n_rows[2] = 600;
    free(s.rows[2]);
    free(s.valid[2]);
    s.rows[2] = calloc(600, ROW_BYTES);
    s.valid[2] = malloc(600);
    memset(s.valid[2], 1, 600);
    view_memory memory;
    uint8_t *out[MAX_SAMPLES];
    uint64_t bad;
    fby_error err = {0};
    put_key(FBY_INT32, cell(&s, 2, 433, 0), 5161);
    fby__make_view view = dense_view(&s, 0, true, &memory);
    assert_int_equal(run(m, &made, &s, &view, out, &bad, &err), FBY_E_DATA);
    assert_int_equal(bad, 2);
    assert_string_equal(err.message, "the key 5161 is not in a table of 90 keys, -20 to 69; a default would stand in for it");
    free_all(out, s.n);
    s.valid[2][300] = 0;
    assert_int_equal(run(m, &made, &s, &view, out, &bad, &err), FBY_E_DATA);
    assert_non_null(strstr(err.message, "the key is missing"));
    free_all(out, s.n);
    for (int i = 0; i < 4; i++) /* one row a sample */
        s.n_rows[i] = 1;
    put_key(FBY_INT32, cell(&s, 3, 0, 0), -21);
    assert_int_equal(run(m, &made, &s, &view, out, &bad, &err), FBY_E_DATA);
    assert_int_equal(bad, 3);
    assert_non_null(strstr(err.message, "the key -21 is not in"));
    free_all(out, s.n);
    samples_fini(&s);
    fby__maker_destroy(m);
    fby_lookup_close(t.t);
}

static void lookups_that_cannot_be_are_refused_when_they_are_made(void **state)
{
    (void)state;
    table numbers, texts;
    table_init(&numbers, false, 1);
    table_init(&texts, true, 1);
    static const size_t PICK[] = {0}, BEYOND[] = {5};
    fby_make make = {.kind = FBY_MAKE_LOOKUP, .lookup = {.table = numbers.t, .columns = PICK, .n_columns = 1}};
    fby__make_column two[] = {dense(&INT_FIELD, FBY_INT32), dense(&INT_FIELD, FBY_INT32)};
    refused(spec_of(&make, two, 2, FBY_SAMPLES_ROWS, 1), FBY_E_ARG, "a lookup takes 1 column, not 2");
    fby__make_column word = text(), date = dense(&DATE_FIELD, FBY_INT32), list = dense(&INT_FIELD, FBY_INT32);
    list.kind = FBY__PANEL_RAGGED;
    refused(spec_of(&make, &word, 1, FBY_SAMPLES_ROWS, 1), FBY_E_UNSUPPORTED,
            "column 't' of type string cannot be found in a table of 90 keys, -20 to 69: its keys are whole numbers");
    refused(spec_of(&make, &date, 1, FBY_SAMPLES_ROWS, 1), FBY_E_UNSUPPORTED, "of type date");
    refused(spec_of(&make, &list, 1, FBY_SAMPLES_ROWS, 1), FBY_E_UNSUPPORTED, "varies in length");
    fby__make_spec spec = spec_of(&make, two, 1, FBY_SAMPLES_ROWS, 1);
    spec.dtype = FBY_INT8;
    refused(spec, FBY_E_DATA, "which is not a value of int8");
    spec.dtype = FBY_FLOAT32;
    make.lookup.columns = BEYOND;
    refused(spec, FBY_E_ARG, "the table has 5 columns, and column 5 is asked for");
    make.lookup.columns = PICK;
    make.lookup.table = texts.t;
    refused(spec, FBY_E_UNSUPPORTED, "its keys are strings");
    make.lookup.table = NULL;
    refused(spec, FBY_E_ARG, "without a table");
    make.lookup = (fby_make_lookup){.table = numbers.t, .has_default = true, .default_value = 1e9};
    spec.dtype = FBY_INT16;
    refused(spec, FBY_E_ARG, "the default 1e+09 is not a value of int16");
    fby_lookup_close(numbers.t);
    fby_lookup_close(texts.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_beside_whole_numbers_equal_a_plain_search),
        cmocka_unit_test(a_text_key_gives_one_row_for_a_sample_of_several),
        cmocka_unit_test(arrays_of_keys_keep_their_axes),
        cmocka_unit_test(a_key_that_is_not_there_is_named_with_its_sample),
        cmocka_unit_test(lookups_that_cannot_be_are_refused_when_they_are_made),
    };
    return cmocka_run_group_tests_name("make_lookup", tests, seed_random, NULL);
}
