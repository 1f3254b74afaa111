/*
 * Lookups and standardising by group, run on samples in memory whose rows lie apart, as those of a panel do, and compared with a plain
 * loop over a list of keys.
 */
#include "base/alloc.h"
#include "base/random.h"
#include "block/convert.h"
#include "support/test_seed.h"
#include "transform/transform.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_SAMPLES = 64, MAX_ROWS = 700, ROW_BYTES = 64, N_KEYS = 90 };

static uint64_t below(uint64_t n) { return fby__random_below(&random_state, n); }

/* ---- samples: rows of ROW_BYTES, of which columns take some ---- */

typedef struct samples {
    uint64_t n, n_rows[MAX_SAMPLES], id[MAX_SAMPLES];
    uint8_t *rows[MAX_SAMPLES];  /* owned */
    uint8_t *valid[MAX_SAMPLES]; /* owned; one flag a row */
} samples;

static void samples_init(samples *s, uint64_t n, uint64_t most_rows)
{
    *s = (samples){.n = n};
    for (uint64_t i = 0; i < n; i++) {
        s->n_rows[i] = most_rows == 1 ? 1 : below(most_rows + 1);
        s->rows[i] = calloc(s->n_rows[i] + 1, ROW_BYTES);
        s->valid[i] = calloc(s->n_rows[i] + 1, 1);
        memset(s->valid[i], 1, s->n_rows[i] + 1);
    }
}

static void samples_fini(samples *s)
{
    for (uint64_t i = 0; i < s->n; i++) {
        free(s->rows[i]);
        free(s->valid[i]);
    }
}

static uint8_t *cell(const samples *s, uint64_t i, uint64_t row, size_t at) { return s->rows[i] + row * ROW_BYTES + at; }

typedef struct view_memory {
    const uint8_t *data[MAX_SAMPLES], *valid[MAX_SAMPLES];
    uint64_t count[MAX_SAMPLES];
} view_memory;

static fby__make_view dense_view(const samples *s, size_t at, bool valid, view_memory *m)
{
    for (uint64_t i = 0; i < s->n; i++) {
        m->data[i] = s->rows[i] + at;
        m->valid[i] = s->valid[i];
    }
    return (fby__make_view){.data = m->data, .valid = valid ? m->valid : NULL, .row_bytes = ROW_BYTES, .valid_bytes = 1};
}

/* ---- makers ---- */

static const fby_field INT_FIELD = {.name = "k", .path = "k", .kind = FBY_KIND_INT, .dtype = FBY_INT64},
                       FLOAT_FIELD = {.name = "x", .path = "x", .kind = FBY_KIND_FLOAT, .dtype = FBY_FLOAT32},
                       DATE_FIELD = {.name = "d", .path = "d", .kind = FBY_KIND_DATE, .dtype = FBY_INT32},
                       TEXT_FIELD = {.name = "t", .path = "t", .kind = FBY_KIND_STRING};

static fby__make_column dense(const fby_field *field, fby_dtype dtype)
{
    return (fby__make_column){.name = field->name, .field = field, .kind = FBY__PANEL_DENSE, .width = 1, .stored = dtype, .dtype = dtype};
}

static fby__make_column text(void)
{
    return (fby__make_column){
        .name = "t", .field = &TEXT_FIELD, .kind = FBY__PANEL_BYTES, .width = 1, .stored = FBY_UINT8, .dtype = FBY_UINT8};
}

static fby__make_spec spec_of(const fby_make *make, fby__make_column *columns, uint32_t n, fby_sample_kind kind, uint64_t n_rows)
{
    return (fby__make_spec){.output = "out",
                            .make = make,
                            .columns = columns,
                            .n_columns = n,
                            .samples = kind,
                            .n_rows = n_rows,
                            .max_rows = n_rows ? n_rows : MAX_ROWS};
}

static fby__maker *maker_of(fby__make_spec *spec, fby__made *made)
{
    fby__maker *m = NULL;
    fby_error err = {0};
    if (fby__maker_create(spec, &m, made, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return m;
}

static void refused(fby__make_spec spec, fby_status status, const char *part)
{
    fby__maker *m = NULL;
    fby__made made;
    fby_error err = {0};
    assert_int_equal(fby__maker_create(&spec, &m, &made, &err), status);
    assert_null(m);
    if (!strstr(err.message, "output 'out'") || !strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
}

/* Results of one run; sample i's at out[i]. Odd addresses in steps of the dtype: nothing may rely on more. */
static fby_status run(const fby__maker *m, const fby__made *made, const samples *s, const fby__make_view *views, uint8_t **out,
                      uint64_t *bad, fby_error *err)
{
    size_t bytes = fby_dtype_bytes(made->dtype), result = bytes;
    for (int32_t i = 0; i < made->ndim; i++)
        result *= (size_t)made->shape[i];
    uint8_t *dst[MAX_SAMPLES];
    for (uint64_t i = 0; i < s->n; i++) {
        out[i] = calloc((made->of_sample ? 1 : s->n_rows[i]) * result + bytes + 1, 1);
        dst[i] = out[i] + bytes;
    }
    fby__make_scratch scratch = {0};
    fby__make_job r = {.n = s->n, .n_rows = s->n_rows, .id = s->id, .views = views, .dst = dst, .scratch = &scratch};
    fby_status status = fby__maker_run(m, &r, err);
    fby__make_scratch_fini(&scratch);
    if (bad)
        *bad = r.bad;
    for (uint64_t i = 0; i < s->n; i++)
        memmove(out[i], out[i] + bytes, (made->of_sample ? 1 : s->n_rows[i]) * result);
    return status;
}

static void free_all(uint8_t **out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        free(out[i]);
}

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

static void put_key(fby_dtype dtype, uint8_t *at, int64_t key)
{
    fby__scalar v;
    size_t bad;
    assert_int_equal(fby__convert(dtype, v.bytes, FBY_INT64, &key, 1, FBY__SCALE_NONE, &bad), FBY_OK);
    memcpy(at, v.bytes, fby_dtype_bytes(dtype));
}

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

/* ---- standardising by group ---- */

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
        cmocka_unit_test(values_beside_whole_numbers_equal_a_plain_search),
        cmocka_unit_test(a_text_key_gives_one_row_for_a_sample_of_several),
        cmocka_unit_test(arrays_of_keys_keep_their_axes),
        cmocka_unit_test(a_key_that_is_not_there_is_named_with_its_sample),
        cmocka_unit_test(lookups_that_cannot_be_are_refused_when_they_are_made),
        cmocka_unit_test(values_become_those_of_their_own_group_bit_for_bit),
        cmocka_unit_test(an_array_of_values_has_one_mean),
        cmocka_unit_test(standardising_that_cannot_be_is_refused_when_it_is_made),
        cmocka_unit_test(a_failed_allocation_at_any_point_makes_no_maker),
    };
    return cmocka_run_group_tests_name("make_lookup", tests, seed_random, NULL);
}
