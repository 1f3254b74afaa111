/*
 * Packed groups, against a twin that does what the header says in the plainest way: for every subgroup all rows are looked at, for every
 * pair of subgroups which comes first.
 */
#include "base/clock.h"
#include "base/random.h"
#include "block/convert.h"
#include "support/test_seed.h"

#include <forebay/lookup.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "block/simd_variants.h"
#include "transform/sample_makers.h"

/* One group of rows: a key, an order value and two features each. */
typedef struct group {
    size_t n;
    int64_t *key;
    double *order, *feature[2];
    uint8_t *order_valid;
} group;

static group random_group(size_t n, uint32_t n_keys, uint32_t n_orders, bool sorted, bool missing)
{
    group g = {.n = n};
    g.key = calloc(n + 1, sizeof *g.key);
    g.order = calloc(n + 1, sizeof *g.order);
    g.order_valid = calloc(n + 1, 1);
    for (int f = 0; f < 2; f++)
        g.feature[f] = calloc(n + 1, sizeof(double));
    for (size_t i = 0; i < n; i++) {
        g.key[i] = (int64_t)fby__random_below(&random_state, n_keys) * 37 - 500;
        g.order[i] = sorted ? (i ? g.order[i - 1] : -50) + (double)fby__random_below(&random_state, 2)
                            : (double)fby__random_below(&random_state, n_orders) - n_orders / 2.0;
        if (g.order[i] == 0 && i % 2)
            g.order[i] = -0.0;
        if (missing && !sorted && fby__random_below(&random_state, 9) == 0)
            g.order[i] = (double)NAN;
        g.order_valid[i] = !(missing && fby__random_below(&random_state, 9) == 0);
        for (int f = 0; f < 2; f++)
            g.feature[f][i] = (double)fby__random_below(&random_state, 1000) / 8 - 60;
        if (missing && i % 50 == 49)
            g.feature[0][i] = (double)NAN;
    }
    return g;
}

static void free_group(group *g)
{
    free(g->key);
    free(g->order);
    free(g->order_valid);
    free(g->feature[0]);
    free(g->feature[1]);
}

/* ---- the twin ---- */

static double order_of(const group *g, size_t i) { return !g->order_valid[i] || isnan(g->order[i]) ? (double)INFINITY : g->order[i]; }

/* Rows of a key, by order value, ties as they lie. */
static size_t rows_of(const group *g, int64_t key, size_t *rows)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (g->key[i] != key)
            continue;
        size_t k = n++;
        for (; k > 0 && order_of(g, rows[k - 1]) > order_of(g, i); k--)
            rows[k] = rows[k - 1];
        rows[k] = i;
    }
    return n;
}

/* Distinct keys by least order value, ties by first appearance. */
static size_t keys_of(const group *g, int64_t *keys)
{
    size_t n = 0;
    double *least = calloc(g->n + 1, sizeof *least);
    for (size_t i = 0; i < g->n; i++) {
        size_t k = 0;
        while (k < n && keys[k] != g->key[i])
            k++;
        if (k == n) {
            keys[n] = g->key[i];
            least[n++] = order_of(g, i);
        } else if (order_of(g, i) < least[k]) {
            least[k] = order_of(g, i);
        }
    }
    for (size_t i = 1; i < n; i++) /* keys come by first appearance: a stable sort keeps that */
        for (size_t k = i; k > 0 && least[k - 1] > least[k]; k--) {
            double v = least[k];
            int64_t key = keys[k];
            least[k] = least[k - 1], keys[k] = keys[k - 1];
            least[k - 1] = v, keys[k - 1] = key;
        }
    free(least);
    return n;
}

static double aggregate(const group *g, fby_channel_value value, int f, const size_t *rows, size_t n)
{
    double sum = 0, least = (double)INFINITY, most = -(double)INFINITY, squares = 0;
    bool has_nan = false;
    for (size_t i = 0; i < n; i++) {
        const double v = g->feature[f][rows[i]];
        has_nan |= isnan(v);
        sum += v;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    for (size_t i = 0; i < n; i++)
        squares += (g->feature[f][rows[i]] - sum / (double)n) * (g->feature[f][rows[i]] - sum / (double)n);
    if (has_nan)
        return (double)NAN;
    switch (value) {
    case FBY_CHANNEL_MIN: return least;
    case FBY_CHANNEL_MAX: return most;
    case FBY_CHANNEL_SUM: return sum;
    case FBY_CHANNEL_MEAN: return sum / (double)n;
    default: return sqrt(squares / (double)n);
    }
}

/* ---- the maker ---- */

enum { K = 3, N_CHANNELS = 11, N_FLAT = 15 };
/* Two features' first rows, aggregates between, then those of one feature alone. */
static const fby_channel CHANNELS[N_CHANNELS] = {
    {FBY_CHANNEL_COUNT, 0}, {FBY_CHANNEL_FIRST_ROWS, 1}, {FBY_CHANNEL_FIRST_ROWS, 0}, {FBY_CHANNEL_MIN, 0},
    {FBY_CHANNEL_SUM, 1},   {FBY_CHANNEL_STD, 0},        {FBY_CHANNEL_MAX, 1},        {FBY_CHANNEL_MEAN, 0},
    {FBY_CHANNEL_KEY, 0},   {FBY_CHANNEL_MIN, 1},        {FBY_CHANNEL_COUNT, 0},
};

static void expect_row(const group *g, int64_t key, double *out)
{
    size_t *rows = calloc(g->n + 1, sizeof *rows), n = rows_of(g, key, rows), at = 0;
    out[at++] = (double)n;
    for (size_t k = 0; k < K; k++)
        for (int f = 1; f >= 0; f--)
            out[at++] = k < n ? g->feature[f][rows[k]] : -7;
    for (int c = 3; c <= 7; c++)
        out[at++] = aggregate(g, CHANNELS[c].value, (int)CHANNELS[c].feature, rows, n);
    out[at++] = (double)key;
    out[at++] = aggregate(g, FBY_CHANNEL_MIN, 1, rows, n);
    out[at++] = (double)n;
    assert_int_equal(at, N_FLAT);
    free(rows);
}

static void add_columns(fixture *f, fby_dtype order, fby_dtype feature)
{
    add_column(f, "sensor", FBY_INT16);
    add_column(f, "time", order)->nullable = true;
    add_column(f, "charge", feature);
    add_column(f, "other", feature);
    f->spec.samples = FBY_SAMPLES_GROUPS;
    f->spec.max_rows = 178000;
}

static fby_status run_group(fixture *f, const group *g, uint8_t *out, fby__make_scratch *scratch)
{
    /* Columns in the dtypes that the maker asks for, their rows apart from one another as in a wide panel. */
    uint8_t *memory[4];
    const uint8_t *at[4];
    fby__make_view views[4];
    const uint8_t *valid = g->order_valid;
    const double *source[4] = {NULL, g->order, g->feature[0], g->feature[1]};
    for (uint32_t c = 0; c < f->spec.n_columns; c++) {
        const size_t bytes = fby_dtype_bytes(f->columns[c].dtype), stride = bytes + 8 * (c % 2);
        at[c] = memory[c] = guarded_alloc(g->n ? (g->n - 1) * stride + bytes : 0);
        for (size_t i = 0; i < g->n; i++) {
            size_t bad;
            if (c == 0)
                memcpy(memory[c] + i * stride, &g->key[i], bytes);
            else if (f->columns[c].dtype == FBY_INT64 && isnan(source[c][i]))
                memset(memory[c] + i * stride, 0, bytes);
            else
                assert_int_equal(
                    fby__convert(f->columns[c].dtype, memory[c] + i * stride, FBY_FLOAT64, &source[c][i], 1, FBY__SCALE_NONE, &bad),
                    FBY_OK);
        }
        views[c] = (fby__make_view){.data = &at[c], .row_bytes = stride, .valid = c == 1 ? &valid : NULL, .valid_bytes = 1};
    }
    const uint64_t n_rows = g->n, id = 0;
    fby__make_job run = {.n = 1, .n_rows = &n_rows, .id = &id, .views = views, .dst = &out, .scratch = scratch};
    const fby_status status = fby__maker_run(f->maker, &run, &f->err);
    for (uint32_t c = 0; c < f->spec.n_columns; c++) {
        const size_t bytes = fby_dtype_bytes(f->columns[c].dtype), stride = bytes + 8 * (c % 2);
        guarded_free(memory[c], g->n ? (g->n - 1) * stride + bytes : 0);
    }
    return status;
}

static double element(fby_dtype dtype, const uint8_t *at)
{
    double x = 0;
    size_t bad;
    (void)fby__convert(FBY_FLOAT64, &x, dtype, at, 1, FBY__SCALE_NONE, &bad); /* floats: all fit */
    return x;
}

static void check_against_twin(fixture *f, const group *g, uint32_t max_groups, fby__make_scratch *scratch)
{
    const size_t bytes = fby_dtype_bytes(f->made.dtype), n_out = (size_t)max_groups * N_FLAT * bytes;
    const double epsilon = f->made.dtype == FBY_FLOAT64   ? 1e-12
                           : f->made.dtype == FBY_FLOAT32 ? 1e-6
                           : f->made.dtype == FBY_FLOAT16 ? 1e-3
                                                          : 1e-2;
    uint8_t *out = guarded_alloc(n_out);
    memset(out, 0xee, n_out);
    if (run_group(f, g, out, scratch) != FBY_OK)
        fail_msg("%s", f->err.message);
    int64_t *keys = calloc(g->n + 1, sizeof *keys);
    const size_t n_keys = keys_of(g, keys);
    for (size_t k = 0; k < max_groups; k++) {
        double expect[N_FLAT];
        for (size_t c = 0; c < N_FLAT; c++)
            expect[c] = -7;
        if (k < n_keys)
            expect_row(g, keys[k], expect);
        for (size_t c = 0; c < N_FLAT; c++) {
            const double got = element(f->made.dtype, out + (k * N_FLAT + c) * bytes);
            if (isnan(expect[c]) ? !isnan(got) : !(fabs(got - expect[c]) <= epsilon * (1 + fabs(expect[c]))))
                fail_msg("%zu rows, subgroup %zu of %zu, channel %zu: %g, not %g", g->n, k, n_keys, c, got, expect[c]);
        }
    }
    free(keys);
    guarded_free(out, n_out);
}

static fby_make channels_of(uint32_t max_groups)
{
    return (fby_make){.kind = FBY_MAKE_GROUP_CHANNELS,
                      .group_channels = {.channels = CHANNELS, .n_channels = N_CHANNELS, .n_rows = K, .max_groups = max_groups, .pad = -7}};
}

static void groups_are_what_the_twin_makes_of_them(void **state)
{
    (void)state;
    static const fby_dtype DTYPES[] = {FBY_FLOAT32, FBY_FLOAT64, FBY_FLOAT16, FBY_BFLOAT16};
    fby__make_scratch scratch = {0};
    for (int round = 0; round < 600; round++) {
        const uint32_t max_groups = 1 + (uint32_t)fby__random_below(&random_state, 20);
        const bool sorted = round % 2, missing = round % 3 == 0;
        fixture f = {.make = channels_of(max_groups), .spec = {.dtype = DTYPES[round % 4]}};
        add_columns(&f, round % 5 ? FBY_FLOAT32 : FBY_INT32, FBY_FLOAT64);
        must_create(&f);
        assert_int_equal(f.made.shape[0], max_groups);
        assert_int_equal(f.made.shape[1], N_FLAT);
        group g = random_group(fby__random_below(&random_state, round % 10 ? 80 : 600), 1 + (uint32_t)fby__random_below(&random_state, 40),
                               1 + (uint32_t)fby__random_below(&random_state, round % 7 ? 9 : 4000), sorted, missing);
        for (size_t i = 0; f.columns[1].dtype == FBY_INT64 && i < g.n; i++) /* whole numbers: only the flag says missing */
            g.order[i] = isnan(g.order[i]) ? 0 : floor(g.order[i]);
        check_against_twin(&f, &g, max_groups, &scratch);
        free_group(&g);
        done_with(&f);
    }
    fby__make_scratch_fini(&scratch);
}

/* Ties everywhere, and subgroups that appear early but have their least row late. */
static void ties_go_to_the_subgroup_that_appears_first(void **state)
{
    (void)state;
    int64_t key[] = {5, 9, 9, 5, 7};
    double order[] = {5, 1, 4, 1, 1}, feature[] = {1, 2, 3, 4, 5};
    uint8_t valid[] = {1, 1, 1, 1, 1};
    const group g = {.n = 5, .key = key, .order = order, .feature = {feature, feature}, .order_valid = valid};
    const fby_channel channel = {FBY_CHANNEL_KEY, 0};
    fixture f = {.make = {.kind = FBY_MAKE_GROUP_CHANNELS, .group_channels = {.channels = &channel, .n_channels = 1, .max_groups = 2}}};
    add_columns(&f, FBY_FLOAT64, FBY_FLOAT32);
    must_create(&f);
    float out[2];
    fby__make_scratch scratch = {0};
    assert_int_equal(run_group(&f, &g, (uint8_t *)out, &scratch), FBY_OK);
    assert_true(out[0] == 5 && out[1] == 9); /* 9 has row 1, but 5 was there in row 0 */
    fby__make_scratch_fini(&scratch);
    done_with(&f);
}

static void the_mask_is_true_where_there_is_a_subgroup(void **state)
{
    (void)state;
    fby__make_scratch scratch = {0};
    for (int round = 0; round < 50; round++) {
        const uint32_t max_groups = 1 + (uint32_t)fby__random_below(&random_state, 30);
        fixture f = {.make = {.kind = FBY_MAKE_GROUP_CHANNELS, .group_channels = {.max_groups = max_groups, .mask = true}}};
        add_columns(&f, FBY_FLOAT32, FBY_FLOAT32);
        must_create(&f);
        assert_int_equal(f.made.ndim, 1);
        assert_int_equal(f.made.dtype, FBY_BOOL);
        group g = random_group(fby__random_below(&random_state, 60), 40, 10, false, false);
        uint8_t *out = guarded_alloc(max_groups);
        assert_int_equal(run_group(&f, &g, out, &scratch), FBY_OK);
        int64_t keys[64];
        const size_t n = keys_of(&g, keys);
        for (uint32_t k = 0; k < max_groups; k++)
            assert_int_equal(out[k], k < n);
        guarded_free(out, max_groups);
        free_group(&g);
        done_with(&f);
    }
    fby__make_scratch_fini(&scratch);
}

static void the_longest_groups_take_no_time(void **state)
{
    (void)state;
    enum { ROWS = 178000 };
    fby__make_scratch scratch = {0};
    for (int sorted = 0; sorted < 2; sorted++) {
        fixture f = {.make = channels_of(128)};
        add_columns(&f, FBY_FLOAT64, FBY_FLOAT32);
        must_create(&f);
        group g =
            random_group(ROWS, sorted ? 5160 : 170000, 1000000, sorted, false); /* nearly every row a subgroup, then a real detector */
        uint8_t *out = malloc(128 * N_FLAT * sizeof(float));
        const uint64_t begin = fby__now_ns();
        assert_int_equal(run_group(&f, &g, out, &scratch), FBY_OK);
        assert_true(fby__now_ns() - begin < UINT64_C(5000000000));
        int64_t *keys = calloc(ROWS, sizeof *keys);
        double expect[N_FLAT];
        /* the first subgroup, found in one pass */
        size_t first = 0;
        for (size_t i = 1; i < ROWS; i++)
            if (g.order[i] < g.order[first])
                first = i;
        expect_row(&g, g.key[first], expect);
        if (sorted)
            for (size_t c = 0; c < N_FLAT; c++)
                assert_true(fabs(element(FBY_FLOAT32, out + c * 4) - expect[c]) <= 1e-5 * (1 + fabs(expect[c])));
        free(keys);
        free(out);
        free_group(&g);
        done_with(&f);
    }
    fby__make_scratch_fini(&scratch);
}

static void positions_come_first_and_a_key_without_one_is_an_error(void **state)
{
    (void)state;
    const int64_t ids[3] = {4, -2, 1000000007};
    const char *const names[2] = {"x", "y"};
    const double values[6] = {1, 2, 3, 4, 5, 6};
    fby_lookup *table = NULL;
    fby_error err = {0};
    if (fby_lookup_create(ids, NULL, 3, names, 2, values, &table, &err) != FBY_OK)
        fail_msg("%s", err.message);
    int64_t key[] = {1000000007, 4, 1000000007};
    double order[] = {1, 2, 3};
    uint8_t valid[] = {1, 1, 1};
    group g = {.n = 3, .key = key, .order = order, .feature = {order, order}, .order_valid = valid};
    const fby_channel channel = {FBY_CHANNEL_COUNT, 0};
    fixture f = {.make = {.kind = FBY_MAKE_GROUP_CHANNELS,
                          .group_channels = {.channels = &channel, .n_channels = 1, .max_groups = 3, .positions = table}}};
    add_columns(&f, FBY_FLOAT64, FBY_FLOAT32);
    must_create(&f);
    fby_lookup_close(table); /* nothing of it is needed any more */
    assert_int_equal(f.made.shape[1], 3);
    assert_true(f.made.memory_bytes > 0);
    float out[9];
    const float expect[9] = {5, 6, 2, 1, 2, 1, 0, 0, 0};
    fby__make_scratch scratch = {0};
    assert_int_equal(run_group(&f, &g, (uint8_t *)out, &scratch), FBY_OK);
    assert_memory_equal(out, expect, sizeof out);
    key[1] = 5;
    assert_int_equal(run_group(&f, &g, (uint8_t *)out, &scratch), FBY_E_DATA);
    assert_non_null(strstr(f.err.message, "key 5 is not in the table of positions"));
    fby__make_scratch_fini(&scratch);
    done_with(&f);

    const char *const texts[1] = {"a"};
    assert_int_equal(fby_lookup_create(NULL, texts, 1, names, 2, values, &table, &err), FBY_OK);
    fixture text = {.make = {.kind = FBY_MAKE_GROUP_CHANNELS, .group_channels = {.max_groups = 3, .positions = table}}};
    add_columns(&text, FBY_FLOAT64, FBY_FLOAT32);
    must_refuse(&text, FBY_E_ARG, "column 'sensor': the table of positions has strings");
    fby_lookup_close(table);
}

static void large_integers_lose_nothing_on_the_way(void **state)
{
    (void)state;
    const fby_channel channels[2] = {{FBY_CHANNEL_STD, 0}, {FBY_CHANNEL_STD, 1}};
    fixture f = {.make = {.kind = FBY_MAKE_GROUP_CHANNELS, .group_channels = {.channels = channels, .n_channels = 2, .max_groups = 1}}};
    add_columns(&f, FBY_INT64, FBY_INT64);
    f.columns[3].computed = true;
    f.columns[3].dtype = FBY_FLOAT32;
    must_create(&f);
    assert_int_equal(f.columns[0].dtype, FBY_INT64);
    assert_int_equal(f.columns[1].dtype, FBY_INT64);
    assert_int_equal(f.columns[2].dtype, FBY_INT64); /* 1.7e18 ns: of float32 nothing would be left */
    assert_int_equal(f.columns[3].dtype, FBY_FLOAT32);
    done_with(&f);
    fixture missing = {
        .make = {.kind = FBY_MAKE_GROUP_CHANNELS, .group_channels = {.channels = channels, .n_channels = 2, .max_groups = 1}}};
    add_columns(&missing, FBY_INT64, FBY_INT64);
    missing.columns[2].nullable = true;
    must_create(&missing);
    assert_int_equal(missing.columns[2].dtype, FBY_FLOAT64); /* NaN says missing */
    done_with(&missing);
}

static void what_cannot_be_grouped_is_refused_at_open(void **state)
{
    (void)state;
    const fby_channel far = {FBY_CHANNEL_SUM, 2}, odd = {(fby_channel_value)99, 0}, count = {FBY_CHANNEL_COUNT, 0},
                      rows = {FBY_CHANNEL_FIRST_ROWS, 0};
#define REFUSED(status, with, made, ...)                                                                                                   \
    do {                                                                                                                                   \
        fixture f = {.make = {.kind = FBY_MAKE_GROUP_CHANNELS, .group_channels = made}};                                                   \
        add_columns(&f, FBY_FLOAT64, FBY_FLOAT32);                                                                                         \
        __VA_ARGS__;                                                                                                                       \
        must_refuse(&f, status, with);                                                                                                     \
        done_with(&f);                                                                                                                     \
    } while (0)
#define WITH(...) ((fby_make_group_channels){__VA_ARGS__})
    REFUSED(FBY_E_ARG, "at most 0 groups", WITH(.channels = &count, .n_channels = 1), (void)0);
    REFUSED(FBY_E_ARG, "no channels", WITH(.max_groups = 1), (void)0);
    REFUSED(FBY_E_ARG, "channel 0 is of feature 2: the output has 2", WITH(.max_groups = 1, .channels = &far, .n_channels = 1), (void)0);
    REFUSED(FBY_E_ARG, "unknown kind", WITH(.max_groups = 1, .channels = &odd, .n_channels = 1), (void)0);
    REFUSED(FBY_E_ARG, "first 0 rows", WITH(.max_groups = 1, .channels = &rows, .n_channels = 1), (void)0);
    REFUSED(FBY_E_ARG, "more than 65536 channels", WITH(.max_groups = 1, .channels = &rows, .n_channels = 1, .n_rows = 70000), (void)0);
    REFUSED(FBY_E_ARG, "a sample has at most 2147483648 values: lower max_groups",
            WITH(.max_groups = UINT32_MAX, .channels = &count, .n_channels = 1), (void)0);
    REFUSED(FBY_E_ARG, "floats, not int32", WITH(.max_groups = 1, .channels = &count, .n_channels = 1), f.spec.dtype = FBY_INT32);
    REFUSED(FBY_E_ARG, "bool, not float32", WITH(.max_groups = 1, .mask = true), f.spec.dtype = FBY_FLOAT32);
    REFUSED(FBY_E_UNSUPPORTED, "column 'sensor' of type float32 is no key", WITH(.max_groups = 1, .mask = true),
            f.columns[0].dtype = f.fields[0].dtype = FBY_FLOAT32);
    REFUSED(FBY_E_UNSUPPORTED, "column 'charge' of type float32 cannot be packed",
            WITH(.max_groups = 1, .channels = &count, .n_channels = 1), with_axes(&f.columns[2], 3, 0));
    fixture alone = {.make = channels_of(3)};
    add_column(&alone, "sensor", FBY_INT16);
    must_refuse(&alone, FBY_E_ARG, "group_channels takes");
}

static void a_missing_key_is_an_error_and_memory_may_run_out(void **state)
{
    (void)state;
    fixture f = {.make = channels_of(3)};
    add_columns(&f, FBY_FLOAT64, FBY_FLOAT32);
    f.columns[0].nullable = true;
    must_survive_without_memory(&f);
    assert_true(f.columns[0].want_valid);
    const int64_t key[2] = {1, 2};
    const double order[2] = {1, 2};
    const uint8_t flags[3] = {1, 9, 0}, *valid = flags;
    const uint8_t *keys = (const uint8_t *)key, *orders = (const uint8_t *)order;
    const uint64_t two = 2;
    float out[3 * N_FLAT];
    uint8_t *dst = (uint8_t *)out;
    const fby__make_view views[4] = {{.data = &keys, .row_bytes = 8, .valid = &valid, .valid_bytes = 2},
                                     {.data = &orders, .row_bytes = 8},
                                     {.data = &orders, .row_bytes = 8},
                                     {.data = &orders, .row_bytes = 8}};
    fby__make_scratch scratch = {0};
    fby__make_job run = {.n = 1, .n_rows = &two, .id = &two, .views = views, .dst = &dst, .scratch = &scratch};
    assert_int_equal(fby__maker_run(f.maker, &run, &f.err), FBY_E_DATA);
    assert_non_null(strstr(f.err.message, "the key is missing in row 1"));
    fby__make_scratch_fini(&scratch);
    fby__alloc_fail_at(1);
    assert_int_equal(fby__maker_run(f.maker, &run, &f.err), FBY_E_NOMEM);
    fby__alloc_fail_at(0);
    fby__make_scratch_fini(&scratch);
    done_with(&f);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup(groups_are_what_the_twin_makes_of_them, seed_random),
    cmocka_unit_test(ties_go_to_the_subgroup_that_appears_first),
    cmocka_unit_test_setup(the_mask_is_true_where_there_is_a_subgroup, seed_random),
    cmocka_unit_test_setup(the_longest_groups_take_no_time, seed_random),
    cmocka_unit_test(positions_come_first_and_a_key_without_one_is_an_error),
    cmocka_unit_test(large_integers_lose_nothing_on_the_way),
    cmocka_unit_test(what_cannot_be_grouped_is_refused_at_open),
    cmocka_unit_test(a_missing_key_is_an_error_and_memory_may_run_out),
};

SIMD_MAIN(TESTS)
