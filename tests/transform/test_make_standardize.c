/* Standardising by group, compared with a plain loop; and what fails when a maker that looks into a table is made. */
#include "maker_rows.h"

enum { N_GROUPS = 12 };

typedef struct moments_table {
    fby_lookup *t;
    double mean[N_GROUPS][3], std[N_GROUPS][3];
} moments_table;

static double divisor = 3; /* 300 of results of float16: none is too large then */

static void moments_init(moments_table *m, bool texts, uint32_t n_columns)
{
    static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f"};
    int64_t keys[N_GROUPS];
    char text_of[N_GROUPS][8];
    const char *text_at[N_GROUPS];
    double values[N_GROUPS * 6];
    for (int g = 0; g < N_GROUPS; g++) {
        keys[g] = g * 2;
        (void)snprintf(text_of[g], sizeof text_of[g], "g%d", g);
        text_at[g] = text_of[g];
        for (uint32_t c = 0; c < n_columns; c++) {
            m->mean[g][c] = g == 3 ? (double)NAN : (double)below(1000000) / divisor;
            m->std[g][c] = g == 3 ? (double)NAN : g == 5 ? 0 : 1 + (double)below(1000) / 9;
            values[(uint32_t)g * 2 * n_columns + c] = m->mean[g][c];
            values[(uint32_t)g * 2 * n_columns + n_columns + c] = m->std[g][c];
        }
    }
    assert_int_equal(fby_lookup_create(texts ? NULL : keys, texts ? text_at : NULL, N_GROUPS, NAMES, 2 * n_columns, values, &m->t, NULL),
                     FBY_OK);
}

/* group −1: not there, the value stays. */
static double standardized(const moments_table *m, int group, uint32_t c, double x)
{
    if (group < 0)
        return x;
    double factor = m->std[group][c] > 0 ? 1 / m->std[group][c] : 1;
    return (x - m->mean[group][c]) * factor;
}

/* from: of the columns. side_by_side: they lie as neighbours in a row, as the fast loops want it. */
static void check_standardize(const fby_dtype *from, uint32_t n_columns, size_t gap, bool texts, bool has_fill, fby_dtype to)
{
    moments_table mt;
    divisor = to == FBY_FLOAT16 ? 300 : 3;
    moments_init(&mt, texts, n_columns);
    samples s;
    samples_init(&s, 20, MAX_ROWS);
    static int group[MAX_SAMPLES][MAX_ROWS + 1];
    view_memory memory[4];
    fby__make_view views[4];
    fby__make_column columns[4];
    char unknown[] = "none";
    char names[N_GROUPS][8];
    for (int g = 0; g < N_GROUPS; g++)
        (void)snprintf(names[g], sizeof names[g], "g%d", g);
    for (uint32_t c = 0; c < n_columns; c++) {
        columns[c] = dense(from[c] < FBY_FLOAT16 ? &INT_FIELD : &FLOAT_FIELD, from[c]);
        views[c] = dense_view(&s, 8 + c * (fby_dtype_bytes(from[c]) + gap), false, &memory[c]);
    }
    columns[n_columns] = texts ? text() : dense(&INT_FIELD, FBY_INT32);
    fby_make make = {.kind = FBY_MAKE_STANDARDIZE,
                     .standardize = {.moments = mt.t, .has_default = true, .has_fill_nan = has_fill, .fill_nan = 0.25}};
    fby__make_spec spec = spec_of(&make, columns, n_columns + 1, FBY_SAMPLES_GROUPS, 0);
    spec.dtype = to;
    fby__made made;
    fby__maker *m = maker_of(&spec, &made);
    assert_int_equal(made.ndim, n_columns > 1);
    for (uint64_t i = 0; i < s.n; i++)
        for (uint64_t r = 0; r < s.n_rows[i]; r++) {
            group[i][r] = r && (texts || below(30)) ? group[i][r - 1] : (int)below(N_GROUPS + 1) - 1;
            put_key(FBY_INT32, cell(&s, i, r, 0), group[i][r] < 0 ? 77 : group[i][r] * 2);
            for (uint32_t c = 0; c < n_columns; c++) {
                double x = below(9) == 0 ? (double)NAN : (double)below(1000000) / divisor;
                if (columns[c].dtype == FBY_FLOAT32)
                    memcpy(cell(&s, i, r, 8 + c * (fby_dtype_bytes(from[c]) + gap)), &(float){(float)x}, 4);
                else
                    memcpy(cell(&s, i, r, 8 + c * (fby_dtype_bytes(from[c]) + gap)), &x, 8);
            }
        }
    if (texts) {
        views[n_columns] = (fby__make_view){.data = memory[n_columns].data, .count = memory[n_columns].count};
        for (uint64_t i = 0; i < s.n; i++) {
            const char *name = group[i][0] < 0 ? unknown : names[group[i][0]];
            memory[n_columns].data[i] = (const uint8_t *)name;
            memory[n_columns].count[i] = strlen(name);
        }
    } else {
        views[n_columns] = dense_view(&s, 0, false, &memory[n_columns]);
    }
    uint8_t *out[MAX_SAMPLES];
    fby_error err = {0};
    if (run(m, &made, &s, views, out, NULL, &err) != FBY_OK)
        fail_msg("%s", err.message);
    const size_t bytes = fby_dtype_bytes(made.dtype);
    for (uint64_t i = 0; i < s.n; i++)
        for (uint64_t r = 0; r < s.n_rows[i]; r++)
            for (uint32_t c = 0; c < n_columns; c++) {
                const uint8_t *at = cell(&s, i, r, 8 + c * (fby_dtype_bytes(from[c]) + gap));
                float f;
                double x;
                memcpy(&f, at, 4);
                memcpy(&x, at, 8);
                x = standardized(&mt, group[i][r], c, columns[c].dtype == FBY_FLOAT32 ? (double)f : x);
                x = has_fill && isnan(x) ? 0.25 : x;
                fby__scalar expect, got = {0};
                (void)fby__scalar_set(made.dtype, x, &expect);
                memcpy(got.bytes, out[i] + (r * n_columns + c) * bytes, bytes);
                if (isnan(x)) {
                    double back;
                    size_t bad;
                    (void)fby__convert(FBY_FLOAT64, &back, made.dtype, got.bytes, 1, FBY__SCALE_NONE, &bad);
                    assert_true(isnan(back));
                } else {
                    assert_memory_equal(got.bytes, expect.bytes, bytes);
                }
            }
    free_all(out, s.n);
    samples_fini(&s);
    fby__maker_destroy(m);
    fby_lookup_close(mt.t);
}

static void values_become_those_of_their_own_group_bit_for_bit(void **state)
{
    (void)state;
    static const fby_dtype FLOATS[] = {FBY_FLOAT32, FBY_FLOAT32, FBY_FLOAT32}, MIXED[] = {FBY_FLOAT32, FBY_FLOAT64, FBY_INT64};
    for (int texts = 0; texts < 2; texts++)
        for (int fill = 0; fill < 2; fill++)
            for (uint32_t n = 1; n <= 3; n++) {
                check_standardize(FLOATS, n, 0, texts, fill, FBY_DTYPE_NONE);
                check_standardize(FLOATS, n, 4, texts, fill, FBY_FLOAT32);
                check_standardize(MIXED, n, 0, texts, fill, FBY_FLOAT64);
                check_standardize(FLOATS, n, 0, texts, fill, FBY_FLOAT16);
            }
}

static void an_array_of_values_has_one_mean(void **state)
{
    (void)state;
    enum { WIDTH = 1100 };
    moments_table mt;
    moments_init(&mt, false, 1);
    fby__make_column columns[] = {dense(&FLOAT_FIELD, FBY_FLOAT32), dense(&INT_FIELD, FBY_INT32)};
    columns[0].width = WIDTH;
    columns[0].n_axes = 1;
    columns[0].axes[0] = WIDTH;
    fby_make make = {.kind = FBY_MAKE_STANDARDIZE, .standardize = {.moments = mt.t}};
    fby__make_spec spec = spec_of(&make, columns, 2, FBY_SAMPLES_ROWS, 1);
    fby__made made;
    fby__maker *m = maker_of(&spec, &made);
    assert_int_equal(made.ndim, 1);
    assert_int_equal(made.shape[0], WIDTH);
    static float x[2][WIDTH], y[2][WIDTH];
    int32_t keys[] = {14, 2};
    for (int i = 0; i < 2 * WIDTH; i++)
        x[i / WIDTH][i % WIDTH] = (float)below(1000000);
    const uint8_t *data[] = {(const uint8_t *)x[0], (const uint8_t *)x[1]}, *key[] = {(const uint8_t *)&keys[0], (const uint8_t *)&keys[1]};
    uint8_t *dst[] = {(uint8_t *)y[0], (uint8_t *)y[1]};
    const uint64_t ones[] = {1, 1}, id[] = {0, 1};
    fby__make_view views[] = {{.data = data, .row_bytes = sizeof x[0]}, {.data = key, .row_bytes = 4}};
    fby__make_job r = {.n = 2, .n_rows = ones, .id = id, .views = views, .dst = dst};
    assert_int_equal(fby__maker_run(m, &r, NULL), FBY_OK);
    for (int i = 0; i < 2; i++)
        for (int e = 0; e < WIDTH; e++)
            assert_true(y[i][e] == (float)standardized(&mt, keys[i] / 2, 0, (double)x[i][e]));
    keys[1] = 9;
    fby_error err = {0};
    assert_int_equal(fby__maker_run(m, &r, &err), FBY_E_DATA);
    assert_int_equal(r.bad, 1);
    assert_non_null(strstr(err.message, "the key 9 is not in a table of 12 keys"));
    fby__maker_destroy(m);
    fby_lookup_close(mt.t);
}

static void standardising_that_cannot_be_is_refused_when_it_is_made(void **state)
{
    (void)state;
    moments_table mt;
    moments_init(&mt, false, 2);
    fby_make make = {.kind = FBY_MAKE_STANDARDIZE, .standardize = {.moments = mt.t}};
    fby__make_column columns[] = {dense(&FLOAT_FIELD, FBY_FLOAT32), dense(&INT_FIELD, FBY_INT32), dense(&INT_FIELD, FBY_INT32)};
    refused(spec_of(&make, columns, 1, FBY_SAMPLES_ROWS, 1), FBY_E_ARG, "2 to");
    refused(spec_of(&make, columns, 2, FBY_SAMPLES_ROWS, 1), FBY_E_ARG, "1 columns are standardised, and the table of moments has 4");
    fby__make_spec spec = spec_of(&make, columns, 3, FBY_SAMPLES_ROWS, 1);
    spec.dtype = FBY_INT32;
    refused(spec, FBY_E_ARG, "floating-point, not int32");
    spec.dtype = FBY_DTYPE_NONE;
    columns[1].n_axes = 1;
    refused(spec, FBY_E_UNSUPPORTED, "cannot be stacked");
    columns[1] = text();
    refused(spec, FBY_E_UNSUPPORTED, "cannot be standardised");
    make.standardize.moments = NULL;
    refused(spec, FBY_E_ARG, "without a table");
    fby_lookup_close(mt.t);
}

static void a_failed_allocation_at_any_point_makes_no_maker(void **state)
{
    (void)state;
    moments_table mt;
    moments_init(&mt, false, 1);
    static const size_t PICK[] = {1};
    fby_make makes[] = {{.kind = FBY_MAKE_LOOKUP, .lookup = {.table = mt.t, .columns = PICK, .n_columns = 1}},
                        {.kind = FBY_MAKE_STANDARDIZE, .standardize = {.moments = mt.t}}};
    for (int k = 0; k < 2; k++)
        for (uint64_t at = 1;; at++) {
            fby__make_column columns[] = {dense(&INT_FIELD, FBY_INT32), dense(&INT_FIELD, FBY_INT32)};
            fby__make_spec spec = spec_of(&makes[k], columns, 1 + (uint32_t)k, FBY_SAMPLES_ROWS, 1);
            fby__maker *m = NULL;
            fby__made made;
            fby_error err = {0};
            fby__alloc_fail_at(at);
            fby_status status = fby__maker_create(&spec, &m, &made, &err);
            fby__alloc_fail_at(0);
            if (status == FBY_OK) {
                assert_true(at > 3);
                fby__maker_destroy(m);
                break;
            }
            assert_int_equal(status, FBY_E_NOMEM);
            assert_null(m);
        }
    fby_lookup_close(mt.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_become_those_of_their_own_group_bit_for_bit),
        cmocka_unit_test(an_array_of_values_has_one_mean),
        cmocka_unit_test(standardising_that_cannot_be_is_refused_when_it_is_made),
        cmocka_unit_test(a_failed_allocation_at_any_point_makes_no_maker),
    };
    return cmocka_run_group_tests_name("make_standardize", tests, seed_random, NULL);
}
