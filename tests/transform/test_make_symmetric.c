/* Symmetric matrices, against the definition: m[i][j] = pair(min, max), for every way in which the number of points is said. */
#include "base/random.h"
#include "block/convert.h"
#include "support/test_seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "block/simd_variants.h"
#include "transform/sample_makers.h"

static size_t pairs_of(size_t p) { return p < 2 ? 0 : p * (p - 1) / 2; }
static size_t pair(size_t p, size_t i, size_t j) { return i * p - i * (i + 1) / 2 + (j - i - 1); }

/* One sample through a maker; data may end where no more can be read, the result where no more can be written. */
static fby_status run_one(fixture *f, const uint8_t *pairs, uint64_t n_values, const int64_t *count, const uint8_t *valid, uint8_t *out)
{
    const uint64_t one = 1, id = 7;
    fby__make_view views[2] = {{.data = &pairs, .count = f->columns[0].kind == FBY__PANEL_RAGGED ? &n_values : NULL}};
    const uint8_t *count_bytes = (const uint8_t *)count;
    views[1] = (fby__make_view){.data = &count_bytes, .valid = valid ? &valid : NULL};
    fby__make_scratch scratch = {0};
    fby__make_job run = {.n = 1, .n_rows = &one, .id = &id, .views = views, .dst = &out, .scratch = &scratch, .bad = 99};
    fby_status status = fby__maker_run(f->maker, &run, &f->err);
    if (status != FBY_OK)
        assert_int_equal(run.bad, 0);
    fby__make_scratch_fini(&scratch);
    return status;
}

static void assert_matrix(const uint8_t *out, const uint8_t *pairs, size_t size, size_t p, size_t bytes)
{
    const uint8_t zeros[128] = {0};
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++) {
            const bool is_in = i != j && i < p && j < p;
            const uint8_t *expect = is_in ? pairs + pair(p, i < j ? i : j, i < j ? j : i) * bytes : zeros;
            if (memcmp(out + (i * size + j) * bytes, expect, bytes) != 0)
                fail_msg("P=%zu p=%zu: element (%zu, %zu) of %zu bytes", size, p, i, j, bytes);
        }
}

static const fby_dtype DTYPES[] = {FBY_FLOAT32, FBY_FLOAT16, FBY_FLOAT64, FBY_INT8, FBY_BFLOAT16, FBY_INT32};

static void every_size_count_and_dtype_is_the_definition(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 40; size++) {
        for (size_t features = 0; features <= 9; features += 1 + size % 3) {
            const fby_dtype dtype = DTYPES[(size + features) % (sizeof DTYPES / sizeof *DTYPES)];
            const bool is_flat = size % 2, by_pairs = size % 3 == 0;
            const size_t each = features ? features : 1, width = pairs_of(size) * each;
            fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC}};
            f.make.symmetric = (fby_make_symmetric){.size = size, .count_is_pairs = by_pairs, .n_features = is_flat ? features : 0};
            fby__make_column *c = add_column(&f, "edges", dtype);
            with_axes(c, (int64_t)(is_flat ? width : pairs_of(size)), is_flat || !features ? 0 : (int64_t)features);
            add_column(&f, "n", FBY_UINT16);
            must_create(&f);
            assert_true(f.made.of_sample);
            assert_int_equal(f.made.ndim, features ? 3 : 2);
            assert_int_equal(f.made.shape[1], size);
            assert_int_equal(f.made.dtype, dtype);
            assert_int_equal(f.columns[1].dtype, FBY_INT64);
            const size_t bytes = fby_dtype_bytes(dtype) * each, n = width * fby_dtype_bytes(dtype);
            uint8_t *pairs = guarded_alloc(n), *out = guarded_alloc(size * size * bytes);
            for (size_t i = 0; i < n; i++)
                pairs[i] = (uint8_t)(1 + fby__random_below(&random_state, 255));
            for (size_t p = 0; p <= size; p++) {
                const int64_t count = (int64_t)(by_pairs ? pairs_of(p) : p);
                memset(out, 0xee, size * size * bytes);
                assert_int_equal(run_one(&f, pairs, 0, &count, NULL, out), FBY_OK);
                assert_matrix(out, pairs, size, p, bytes);
            }
            guarded_free(pairs, n);
            guarded_free(out, size * size * bytes);
            done_with(&f);
        }
    }
}

/* One float a pair, the common case: by tiles of 16 × 16 that are mirrored, up to 192 KiB (221 points), and by bands of rows beyond. */
static void matrices_of_one_float_are_the_definition_at_the_borders_of_tiles(void **state)
{
    (void)state;
    static const size_t SIZES[] = {16, 17, 31, 32, 48, 49, 64, 100, 221, 222, 230};
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        const size_t size = SIZES[s], n = pairs_of(size) * sizeof(float), points[] = {0, 1, 2, 15, 16, 17, 31, 33, size - 1, size};
        fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC, .symmetric = {.size = size}}};
        with_axes(add_column(&f, "edges", FBY_FLOAT32), (int64_t)pairs_of(size), 0);
        add_column(&f, "n", FBY_INT32);
        must_create(&f);
        uint8_t *pairs = guarded_alloc(n), *out = guarded_alloc(size * size * sizeof(float));
        for (size_t i = 0; i < n; i++)
            pairs[i] = (uint8_t)(1 + fby__random_below(&random_state, 255));
        for (size_t k = 0; k < sizeof points / sizeof *points; k++) {
            const int64_t count = (int64_t)points[k];
            if (points[k] > size)
                continue;
            memset(out, 0xee, size * size * sizeof(float));
            assert_int_equal(run_one(&f, pairs, 0, &count, NULL, out), FBY_OK);
            assert_matrix(out, pairs, size, points[k], sizeof(float));
        }
        guarded_free(pairs, n);
        guarded_free(out, size * size * sizeof(float));
        done_with(&f);
    }
}

static void pairs_end_where_all_values_are_the_pad(void **state)
{
    (void)state;
    const double pads[] = {-999, 0, (double)NAN, 17};
    const fby_dtype dtypes[] = {FBY_FLOAT32, FBY_FLOAT64, FBY_FLOAT16, FBY_BFLOAT16};
    for (size_t round = 0; round < 64; round++) {
        const double pad = pads[round % 4];
        const fby_dtype dtype = dtypes[round / 4 % 4];
        const size_t size = 1 + fby__random_below(&random_state, 30), each = 1 + round % 3, bytes = fby_dtype_bytes(dtype);
        const size_t n = pairs_of(size) * each;
        fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC}};
        f.make.symmetric = (fby_make_symmetric){.size = size, .has_pad = true, .pad = pad};
        with_axes(add_column(&f, "edges", dtype), (int64_t)pairs_of(size), (int64_t)each);
        must_create(&f);
        double *values = calloc(n + 1, sizeof *values);
        uint8_t *pairs = guarded_alloc(n * bytes), *out = guarded_alloc(size * size * each * bytes);
        const size_t p = round % 5 == 0 ? size : fby__random_below(&random_state, size + 1);
        for (size_t i = 0; i < n; i++)
            values[i] = i / each >= pairs_of(p)  ? (i % 2 && pad == 0 ? -0.0 : pad)
                        : i % each && i % 7 == 0 ? pad
                                                 : 1 + (double)(i % 50) / 4;
        size_t bad;
        assert_int_equal(fby__convert(dtype, pairs, FBY_FLOAT64, values, n, FBY__SCALE_NONE, &bad), FBY_OK);
        assert_int_equal(run_one(&f, pairs, 0, NULL, NULL, out), FBY_OK);
        assert_matrix(out, pairs, size, p, each * bytes);
        free(values);
        guarded_free(pairs, n * bytes);
        guarded_free(out, size * size * each * bytes);
        done_with(&f);
    }
}

/* The scratch of a thread that has converted nothing yet. */
static void a_matrix_of_no_pairs_in_another_dtype_is_zeros(void **state)
{
    (void)state;
    fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC, .symmetric = {.size = 4}}, .spec = {.dtype = FBY_FLOAT32}};
    with_axes(add_column(&f, "edges", FBY_FLOAT16), (int64_t)pairs_of(4), 0);
    add_column(&f, "n", FBY_INT32);
    must_create(&f);
    const uint8_t pairs[2 * 6] = {1};
    const float zeros[16] = {0};
    for (int64_t p = 0; p < 2; p++) {
        float out[16] = {1, 1, 1};
        assert_int_equal(run_one(&f, pairs, 0, &p, NULL, (uint8_t *)out), FBY_OK);
        assert_memory_equal(out, zeros, sizeof zeros);
    }
    done_with(&f);
}

static void a_list_of_pairs_has_its_own_length(void **state)
{
    (void)state;
    fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC, .symmetric = {.size = 5, .n_features = 2}}};
    add_column(&f, "edges", FBY_FLOAT32)->kind = FBY__PANEL_RAGGED;
    must_create(&f);
    float values[20], out[50];
    for (int i = 0; i < 20; i++)
        values[i] = (float)(i + 1);
    for (size_t p = 1; p <= 5; p++) {
        assert_int_equal(run_one(&f, p < 2 ? NULL : (uint8_t *)values, 2 * pairs_of(p), NULL, NULL, (uint8_t *)out), FBY_OK);
        assert_matrix((uint8_t *)out, (uint8_t *)values, 5, p, 8);
    }
    assert_int_equal(run_one(&f, (uint8_t *)values, 4, NULL, NULL, (uint8_t *)out), FBY_E_DATA);
    assert_non_null(strstr(f.err.message, "2 pairs are no triangle: p(p-1)/2 would be 1 or 3"));
    assert_int_equal(run_one(&f, (uint8_t *)values, 3, NULL, NULL, (uint8_t *)out), FBY_E_DATA);
    assert_int_equal(run_one(&f, (uint8_t *)values, 30, NULL, NULL, (uint8_t *)out), FBY_E_DATA);
    assert_non_null(strstr(f.err.message, "room for 5"));
    done_with(&f);
}

static void counts_that_fit_no_triangle_are_errors_with_the_count(void **state)
{
    (void)state;
    fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC, .symmetric = {.count_is_pairs = true}}};
    with_axes(add_column(&f, "edges", FBY_FLOAT32), 10, 0);
    add_column(&f, "n", FBY_INT32)->nullable = true;
    must_create(&f);
    assert_int_equal(f.made.shape[0], 5);
    assert_true(f.columns[1].want_valid);
    float values[10] = {0}, out[25];
    const struct {
        int64_t count;
        const char *says;
    } wrong[] = {{4, "4 pairs are no triangle: p(p-1)/2 would be 3 or 6"},
                 {15, "6 points: the matrix has room for 5"},
                 {-1, "a count of -1"},
                 {INT64_MAX, "no triangle"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run_one(&f, (uint8_t *)values, 0, &wrong[i].count, NULL, (uint8_t *)out), FBY_E_DATA);
        if (!strstr(f.err.message, wrong[i].says))
            fail_msg("'%s' in: %s", wrong[i].says, f.err.message);
    }
    const int64_t three = 3;
    const uint8_t missing = 0, there = 1;
    assert_int_equal(run_one(&f, (uint8_t *)values, 0, &three, &missing, (uint8_t *)out), FBY_E_DATA);
    assert_int_equal(run_one(&f, (uint8_t *)values, 0, &three, &there, (uint8_t *)out), FBY_OK);
    done_with(&f);

    fixture few = {.make = {.kind = FBY_MAKE_SYMMETRIC, .symmetric = {.size = 9}}}; /* more points than the column has pairs for */
    with_axes(add_column(&few, "edges", FBY_FLOAT32), 10, 0);
    add_column(&few, "n", FBY_INT32);
    must_create(&few);
    const int64_t six = 6;
    float large[81];
    assert_int_equal(run_one(&few, (uint8_t *)values, 0, &six, NULL, (uint8_t *)large), FBY_E_DATA);
    assert_non_null(strstr(few.err.message, "6 points have 15 pairs, and there are 10"));
    done_with(&few);
}

static void what_cannot_be_a_matrix_is_refused_at_open(void **state)
{
    (void)state;
#define REFUSED(status, with, edges, symmetric_, ...)                                                                                      \
    do {                                                                                                                                   \
        fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC, .symmetric = symmetric_}};                                                       \
        fby__make_column *c = add_column(&f, "edges", edges);                                                                              \
        with_axes(c, 10, 0);                                                                                                               \
        __VA_ARGS__;                                                                                                                       \
        must_refuse(&f, status, with);                                                                                                     \
    } while (0)
#define WITH(...) ((fby_make_symmetric){__VA_ARGS__})
    REFUSED(FBY_E_ARG, "takes 1 to 2 columns, not 3", FBY_FLOAT32, WITH(0), add_column(&f, "n", FBY_INT8), add_column(&f, "m", FBY_INT8));
    REFUSED(FBY_E_ARG, ".first()", FBY_FLOAT32, WITH(0), f.spec.max_rows = 365);
    REFUSED(FBY_E_UNSUPPORTED, "is no triangle", FBY_FLOAT32, WITH(0), c->kind = FBY__PANEL_BYTES);
    REFUSED(FBY_E_UNSUPPORTED, "is no triangle", FBY_FLOAT32, WITH(0), c->n_axes = 0);
    REFUSED(FBY_E_ARG, "n_features=4, but column 'edges' has 3", FBY_FLOAT32, WITH(.n_features = 4), with_axes(c, 10, 3));
    REFUSED(FBY_E_ARG, "not a whole number of pairs", FBY_FLOAT32, WITH(.n_features = 4), (void)c);
    REFUSED(FBY_E_ARG, "holds 9 pairs, and a matrix of 4 points has 6", FBY_FLOAT32, WITH(0), with_axes(c, 9, 0));
    REFUSED(FBY_E_ARG, "size is needed", FBY_FLOAT32, WITH(0), c->kind = FBY__PANEL_RAGGED);
    REFUSED(FBY_E_ARG, "at most 32768", FBY_FLOAT32, WITH(.size = UINT64_MAX), (void)c);
    REFUSED(FBY_E_ARG, "-999 is no value of uint8", FBY_UINT8, WITH(.has_pad = true, .pad = -999), (void)c);
    REFUSED(FBY_E_UNSUPPORTED, "column 'n' of type float32 is no count", FBY_FLOAT32, WITH(0), add_column(&f, "n", FBY_FLOAT32));
    REFUSED(FBY_E_ARG, "too large", FBY_FLOAT64, WITH(.size = 32768, .n_features = UINT32_MAX), c->kind = FBY__PANEL_RAGGED);
}

static void creating_fails_cleanly_without_memory(void **state)
{
    (void)state;
    fixture f = {.make = {.kind = FBY_MAKE_SYMMETRIC}};
    with_axes(add_column(&f, "edges", FBY_FLOAT32), 10, 4);
    must_survive_without_memory(&f);
    done_with(&f);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup(every_size_count_and_dtype_is_the_definition, seed_random),
    cmocka_unit_test_setup(pairs_end_where_all_values_are_the_pad, seed_random),
    cmocka_unit_test(matrices_of_one_float_are_the_definition_at_the_borders_of_tiles),
    cmocka_unit_test(a_matrix_of_no_pairs_in_another_dtype_is_zeros),
    cmocka_unit_test(a_list_of_pairs_has_its_own_length),
    cmocka_unit_test(counts_that_fit_no_triangle_are_errors_with_the_count),
    cmocka_unit_test(what_cannot_be_a_matrix_is_refused_at_open),
    cmocka_unit_test(creating_fails_cleanly_without_memory),
};

SIMD_MAIN(TESTS)
