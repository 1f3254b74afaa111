/*
 * Row operations on rows in memory, against plain loops over the C library's functions in long double; moments against two passes in
 * long double. Every instruction set gives the same bits: their checksum is written down.
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

#include "block/simd_variants.h"

static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
enum { N_NAMES = sizeof NAMES / sizeof *NAMES };
static const fby__value_axes NO_AXES = {0};

static double uniform(double low, double high)
{
    return low + (high - low) * (double)fby__random_below(&random_state, 1u << 30) / (double)(1u << 30);
}

static fby__program *program(const fby_op *ops, size_t n_ops, uint32_t n_columns)
{
    fby__program *p = NULL;
    fby_error err = {0};
    if (fby__program_create(ops, n_ops, NAMES, n_columns, NO_AXES, &p, &err) != FBY_OK)
        fail_msg("%s", err.message);
    return p;
}

static const char *refusal(fby_op op, uint32_t n_columns)
{
    static fby_error err;
    fby__program *p = NULL;
    assert_int_equal(fby__program_create(&op, 1, NAMES, n_columns, NO_AXES, &p, &err), FBY_E_ARG);
    assert_null(p);
    return err.message;
}

/* One value through one operation; was it missing before the first? */
static long double reference(const fby_op *op, uint32_t c, long double x, bool was_missing)
{
    long double a = op->a_each ? op->a_each[c] : op->a, b = op->b_each ? op->b_each[c] : op->b;
    switch (op->kind) {
    case FBY_OP_AFFINE: return x * a + b;
    case FBY_OP_STANDARDIZE: return (x - a) / b;
    case FBY_OP_CLIP: return x < a ? a : x > b ? b : x;
    case FBY_OP_LOG: return logl(a > 0 && x < a ? a : x);
    case FBY_OP_LOG10: return log10l(a > 0 && x < a ? a : x);
    case FBY_OP_LOG1P: return log1pl(x);
    case FBY_OP_FILL_NAN: return x != x ? a : x;
    case FBY_OP_FILL_MISSING: return was_missing ? a : x;
    case FBY_OP_FILL_NULL: return x;
    }
    return 0;
}

static double element(fby_dtype dtype, const uint8_t *at)
{
    double x = 0;
    size_t bad;
    (void)fby__convert(FBY_FLOAT64, &x, dtype, at, 1, FBY__SCALE_NONE, &bad);
    return x;
}

/* Is `got` the element of dtype that is nearest to `expect`, or its neighbour? */
static bool is_near(fby_dtype dtype, double got, long double expect)
{
    if (expect != expect)
        return got != got;
    if (isinf(got) || isinf(expect)) { /* a value just below the largest one may round either way */
        double largest = dtype == FBY_FLOAT16 ? 65504 : 3e38;
        return (double)expect == got || fabsl(expect) > (long double)largest * 0.99L;
    }
    long double epsilon = dtype == FBY_FLOAT16 ? 0x1p-10L : dtype == FBY_BFLOAT16 ? 0x1p-7L : dtype == FBY_FLOAT32 ? 0x1p-23L : 0x1p-50L;
    long double least = dtype == FBY_FLOAT16 ? 0x1p-24L : 0x1p-133L;
    return fabsl(got - expect) <= epsilon * fabsl(expect) + least + (dtype == FBY_FLOAT64 ? 0x1p-48L : 0);
}

static fby_op random_op(uint32_t n, double *a, double *b)
{
    fby_op op = {.kind = (fby_op_kind)fby__random_below(&random_state, FBY_OP_FILL_MISSING + 1)};
    bool each = fby__random_below(&random_state, 2);
    for (uint32_t c = 0; c < n; c++) {
        a[c] = uniform(-3, 3);
        b[c] = uniform(0.25, 4);
        if (op.kind == FBY_OP_LOG || op.kind == FBY_OP_LOG10)
            a[c] = fabs(a[c]);
        if (op.kind == FBY_OP_CLIP)
            b[c] += a[c];
    }
    op.a = a[0];
    op.b = b[0];
    if (each) {
        op.a_each = a;
        op.b_each = b;
    }
    return op;
}

static void chains_of_random_operations_are_what_plain_loops_make_of_them(void **state)
{
    (void)state;
    const fby_dtype dtypes[] = {FBY_FLOAT16, FBY_BFLOAT16, FBY_FLOAT32, FBY_FLOAT64};
    for (int round = 0; round < 400; round++) {
        fby_dtype dtype = dtypes[round % 4];
        const size_t bytes = fby_dtype_bytes(dtype);
        uint32_t n = 1 + (uint32_t)fby__random_below(&random_state, N_NAMES),
                 width = round % 5 == 0 ? 1 + (uint32_t)fby__random_below(&random_state, 90) : 1;
        uint64_t rows = fby__random_below(&random_state, 700);
        size_t n_ops = 1 + fby__random_below(&random_state, 4), stride = n * width * bytes;
        fby_op ops[4];
        double a[4][N_NAMES], b[4][N_NAMES];
        for (size_t i = 0; i < n_ops; i++)
            ops[i] = random_op(n, a[i], b[i]);
        fby__program *p = program(ops, n_ops, n);
        uint8_t *data = guarded_alloc(rows * stride), *before = malloc(rows * stride + 1);
        assert_non_null(before);
        for (uint64_t i = 0; i < rows * n * width; i++) {
            double v = fby__random_below(&random_state, 20) == 0 ? (double)NAN : uniform(-5, 20);
            size_t bad;
            (void)fby__convert(dtype, data + i * bytes, FBY_FLOAT64, &v, 1, FBY__SCALE_NONE, &bad);
        }
        memcpy(before, data, rows * stride);
        uint32_t first = (uint32_t)fby__random_below(&random_state, n),
                 columns = round % 2 ? n - first : 1 + (uint32_t)fby__random_below(&random_state, n - first);
        if (round % 3 == 0) {
            first = 0;
            columns = n;
        }
        fby__program_run(p, dtype, data + first * width * bytes, rows, stride, first, columns, width);
        for (uint64_t i = 0; i < rows * n * width; i++) {
            uint32_t c = (uint32_t)(i % (n * width) / width);
            if (c < first || c >= first + columns) {
                assert_memory_equal(data + i * bytes, before + i * bytes, bytes);
                continue;
            }
            long double x = element(dtype, before + i * bytes), sensitive = 0;
            const bool was_missing = x != x;
            for (size_t k = 0; k < n_ops; k++) {
                sensitive = fmaxl(sensitive, fabsl(x));
                x = reference(&ops[k], c, x, was_missing);
            }
            double got = element(dtype, data + i * bytes);
            if (!is_near(dtype, got, x) && fabsl(got - x) > 1e-9L * sensitive) /* a logarithm near 1 of a long chain */
                fail_msg("%s, column %u of %u, first operation %d of %zu: %.17g from %.17g instead of %.17Lg", fby_dtype_name(dtype), c, n,
                         (int)ops[0].kind, n_ops, got, element(dtype, before + i * bytes), x);
        }
        free(before);
        guarded_free(data, rows * stride);
        fby__program_destroy(p);
    }
}

static void logarithms_are_within_two_units_in_the_last_place_everywhere(void **state)
{
    (void)state;
    const fby_op_kind kinds[] = {FBY_OP_LOG, FBY_OP_LOG10, FBY_OP_LOG1P};
    enum { N = 100000 };
    static double x[N], y[N];
    for (int k = 0; k < 3; k++) {
        fby_op op = {.kind = kinds[k]};
        fby__program *p = program(&op, 1, 1);
        for (int i = 0; i < N; i++) {
            double magnitude = i % 4 == 0 ? uniform(-1074, 1024) : i % 4 == 1 ? uniform(-60, 60) : uniform(-1, 1);
            x[i] = exp2(magnitude);
            if (i % 4 == 2)
                x[i] = 1 + uniform(-1, 1) * exp2(uniform(-52, 0)); /* near 1: a small result of large parts */
            if (kinds[k] == FBY_OP_LOG1P && i % 4 == 3)
                x[i] = uniform(-1, 1) * exp2(uniform(-60, 0));
        }
        memcpy(y, x, sizeof x);
        fby__program_run(p, FBY_FLOAT64, (uint8_t *)y, N, sizeof *y, 0, 1, 1);
        long double worst = 0;
        for (int i = 0; i < N; i++) {
            long double expect = reference(&op, 0, x[i], isnan(x[i]));
            if (isinf(expect) || expect != expect) {
                assert_true(isnan(y[i]) == isnan((double)expect));
                continue;
            }
            double exact = (double)expect, unit = nextafter(fabs(exact), (double)INFINITY) - fabs(exact);
            long double off = fabsl(y[i] - expect) / unit;
            if (off > 2)
                fail_msg("operation %d of %.17g: %.17g, not %.17Lg", (int)kinds[k], x[i], y[i], expect);
            worst = fmaxl(worst, off);
        }
        print_message("operation %d: at most %.2Lf units off\n", (int)kinds[k], worst);
        fby__program_destroy(p);
    }
}

static double once(fby_op op, double x)
{
    fby__program *p = program(&op, 1, 1);
    fby__program_run(p, FBY_FLOAT64, (uint8_t *)&x, 1, sizeof x, 0, 1, 1);
    fby__program_destroy(p);
    return x;
}

static void the_ends_of_the_number_line_go_where_mathematics_sends_them(void **state)
{
    (void)state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    const fby_op_kind logs[] = {FBY_OP_LOG, FBY_OP_LOG10};
    for (int k = 0; k < 2; k++) {
        fby_op log = {.kind = logs[k]};
        assert_true(once(log, 0) == -inf && once(log, -0.0) == -inf && once(log, inf) == inf);
        assert_true(isnan(once(log, -1)) && isnan(once(log, -inf)) && isnan(once(log, nan)) && isnan(once(log, -0x1p-1074)));
        assert_true(once(log, 1) == 0);
        fby_op floored = {.kind = logs[k], .a = 1};
        assert_true(once(floored, 0) == 0 && once(floored, -7) == 0 && once(floored, -inf) == 0 && isnan(once(floored, nan)));
    }
    for (int e = -300; e <= 300; e += 25)
        assert_true(once((fby_op){.kind = FBY_OP_LOG10}, pow(10, e)) == e ||
                    fabs(once((fby_op){.kind = FBY_OP_LOG10}, pow(10, e)) - e) < 1e-13);
    assert_true(once((fby_op){.kind = FBY_OP_LOG10}, 1000) == 3);
    fby_op log1p = {.kind = FBY_OP_LOG1P};
    assert_true(once(log1p, 0) == 0 && once(log1p, -1) == -inf && once(log1p, inf) == inf && isnan(once(log1p, -1.5)) &&
                isnan(once(log1p, nan)));
    assert_true(once(log1p, 1e-300) == 1e-300);
    fby_op clip = {.kind = FBY_OP_CLIP, .a = 0, .b = inf};
    assert_true(once(clip, -inf) == 0 && once(clip, inf) == inf && isnan(once(clip, nan)) && once(clip, 5) == 5);
    assert_true(once((fby_op){.kind = FBY_OP_FILL_NAN, .a = 7}, nan) == 7 && once((fby_op){.kind = FBY_OP_FILL_NAN, .a = 7}, inf) == inf);
    /* What was missing is known after the logarithm, which makes NaN of what was not. */
    const fby_op after[] = {{.kind = FBY_OP_LOG}, {.kind = FBY_OP_FILL_MISSING, .a = 7}};
    fby__program *filled = program(after, 2, 1);
    double some[] = {1, nan, -1};
    fby__program_run(filled, FBY_FLOAT64, (uint8_t *)some, 3, sizeof *some, 0, 1, 1);
    assert_true(some[0] == 0 && some[1] == 7 && isnan(some[2]));
    fby__program_destroy(filled);
    /* A mean a billion times the spread costs nothing in float64, also when more follows. */
    const fby_op far[] = {{.kind = FBY_OP_STANDARDIZE, .a = 1e9, .b = 1}, {.kind = FBY_OP_AFFINE, .a = 2, .b = 1}};
    fby__program *p = program(far, 2, 1);
    double x = 1e9 + 0.25;
    fby__program_run(p, FBY_FLOAT64, (uint8_t *)&x, 1, sizeof x, 0, 1, 1);
    assert_true(x == 1.5);
    fby__program_destroy(p);
}

static void operations_that_make_no_sense_are_refused_by_column(void **state)
{
    (void)state;
    const double some[] = {1, 0, 2}, none[] = {1, 2, (double)NAN}, high[] = {9, 8, -1};
    assert_string_equal(refusal((fby_op){.kind = FBY_OP_STANDARDIZE, .a = 1, .b_each = some}, 3),
                        "column 'b', operation standardize(1, 0): the standard deviation must be above 0; leave a constant column out");
    assert_non_null(strstr(refusal((fby_op){.kind = FBY_OP_STANDARDIZE, .a = (double)INFINITY, .b = 1}, 1), "must be finite"));
    assert_non_null(strstr(refusal((fby_op){.kind = FBY_OP_FILL_MISSING, .a = (double)NAN}, 1), "NaN is what is missing"));
    assert_non_null(strstr(refusal((fby_op){.kind = FBY_OP_FILL_NULL, .a = (double)NAN}, 1), "NaN is what is missing"));
    assert_non_null(strstr(refusal((fby_op){.kind = FBY_OP_AFFINE, .a_each = none}, 3), "column 'c', operation affine(nan, 0)"));
    assert_non_null(
        strstr(refusal((fby_op){.kind = FBY_OP_CLIP, .a = 0, .b_each = high}, 3), "column 'c', operation clip(0, -1): the lower limit"));
    assert_non_null(strstr(refusal((fby_op){.kind = FBY_OP_CLIP, .a = (double)NAN, .b = 1}, 1), "the lower limit"));
    assert_non_null(strstr(refusal((fby_op){.kind = FBY_OP_LOG10, .a = -1}, 1), "the floor"));
    assert_non_null(strstr(refusal((fby_op){.kind = (fby_op_kind)77}, 1), "unknown kind"));
    fby_op many[FBY_MAX_OPS + 1] = {0};
    fby__program *p = NULL;
    fby_error err;
    assert_int_equal(fby__program_create(many, FBY_MAX_OPS + 1, NAMES, 1, NO_AXES, &p, &err), FBY_E_ARG);
    assert_int_equal(fby__program_create(NULL, 1, NAMES, 1, NO_AXES, &p, &err), FBY_E_ARG);
    assert_int_equal(fby__program_create(NULL, 0, NAMES, 1, NO_AXES, &p, &err), FBY_OK);
    assert_null(p);
}

static void as_many_operations_as_there_may_be_fit(void **state)
{
    (void)state;
    double a[N_NAMES], b[N_NAMES];
    for (uint32_t c = 0; c < N_NAMES; c++) {
        a[c] = 0.5 + c;
        b[c] = 20 + c;
    }
    fby_op ops[FBY_MAX_OPS];
    for (int i = 0; i < FBY_MAX_OPS; i++)
        ops[i] = (fby_op){.kind = i % 2 ? FBY_OP_CLIP : FBY_OP_AFFINE, .a_each = a, .b_each = b};
    for (int logs = 0; logs < 2; logs++) {
        for (int i = 0; logs && i < FBY_MAX_OPS; i++)
            ops[i] = (fby_op){.kind = FBY_OP_LOG, .a_each = a};
        fby__program *p = program(ops, FBY_MAX_OPS, N_NAMES);
        float row[2][N_NAMES];
        for (uint32_t c = 0; c < N_NAMES; c++)
            row[0][c] = row[1][c] = (float)c;
        fby__program_run(p, FBY_FLOAT32, (uint8_t *)row, 2, sizeof row[0], 0, N_NAMES, 1);
        for (uint32_t c = 0; c < N_NAMES; c++) {
            long double x = c;
            for (int i = 0; i < FBY_MAX_OPS; i++)
                x = reference(&ops[i], c, x, false);
            assert_true(is_near(FBY_FLOAT32, row[1][c], x));
        }
        fby__program_destroy(p);
    }
}

static void programs_are_the_same_where_their_columns_do_the_same(void **state)
{
    (void)state;
    const double a[] = {1, 2, 3, 2}, b[] = {4, 5, 6, 5}, one[] = {2}, five[] = {5};
    const fby_op wide[] = {{.kind = FBY_OP_AFFINE, .a_each = a, .b_each = b}, {.kind = FBY_OP_LOG1P}},
                 narrow[] = {{.kind = FBY_OP_AFFINE, .a_each = one, .b_each = five}, {.kind = FBY_OP_LOG1P}},
                 same[] = {{.kind = FBY_OP_AFFINE, .a = 2, .b = 5}, {.kind = FBY_OP_LOG1P}};
    fby__program *w = program(wide, 2, 4), *n = program(narrow, 2, 1), *s = program(same, 2, 1), *shorter = program(same, 1, 1);
    assert_false(fby__program_same(w, 0, n));
    assert_true(fby__program_same(w, 1, n));
    assert_false(fby__program_same(w, 2, n));
    assert_true(fby__program_same(w, 3, s));
    assert_false(fby__program_same(w, 4, n)); /* there is no such column */
    assert_false(fby__program_same(w, 1, shorter));
    assert_false(fby__program_same(NULL, 0, n));
    assert_false(fby__program_same(w, 0, NULL));
    assert_true(fby__program_same(NULL, 5, NULL));
    fby__program_destroy(w);
    fby__program_destroy(n);
    fby__program_destroy(s);
    fby__program_destroy(shorter);
}

/* Columns of (3, width / 15, 5) values: along one axis, then along another, beside one number for all. */
static void parameters_along_an_axis_are_those_of_the_place(void **state)
{
    (void)state;
    enum { MIDDLE = 30, WIDTH = 3 * MIDDLE * 5, N = 2 }; /* wider than a tile */
    static const int64_t SIZES[] = {3, MIDDLE, 5};
    double last[N * 5], first[N * 3], *rows = malloc(2 * N * WIDTH * sizeof *rows);
    for (size_t i = 0; i < N * 5; i++)
        last[i] = (double)i - 3;
    for (size_t i = 0; i < N * 3; i++)
        first[i] = (double)i + 0.5;
    for (size_t i = 0; i < 2 * N * WIDTH; i++)
        rows[i] = (double)(i % 1000);
    const fby_op ops[] = {{.kind = FBY_OP_AFFINE, .a = 1, .b_each = last, .n_each = 5, .axis = -1},
                          {.kind = FBY_OP_AFFINE, .a_each = first, .n_each = 3, .axis = -3},
                          {.kind = FBY_OP_AFFINE, .a = 2}};
    fby__program *p = NULL, *same = NULL, *other = NULL;
    fby_error err = {0};
    const fby__value_axes axes = {SIZES, 3};
    assert_int_equal(fby__program_create(ops, 3, NAMES, N, axes, &p, &err), FBY_OK);
    assert_int_equal(fby__program_run(p, FBY_FLOAT64, (uint8_t *)rows, 2, N * WIDTH * sizeof *rows, 0, N, WIDTH), 2);
    for (size_t i = 0; i < 2 * N * WIDTH; i++) {
        const size_t c = i / WIDTH % N, e = i % WIDTH;
        assert_true(rows[i] == ((double)(i % 1000) + last[c * 5 + e % 5]) * first[c * 3 + e / (MIDDLE * 5)] * 2);
    }
    /* The second column alone does what it does there; another axis does not. */
    fby_op own[] = {ops[0], ops[1], ops[2]};
    own[0].b_each += 5;
    own[1].a_each += 3;
    assert_int_equal(fby__program_create(own, 3, NAMES, 1, axes, &same, &err), FBY_OK);
    assert_true(fby__program_same(p, 1, same) && !fby__program_same(p, 0, same));
    own[1].a_each = last;
    own[1].n_each = 5;
    own[1].axis = -1;
    assert_int_equal(fby__program_create(own, 3, NAMES, 1, axes, &other, &err), FBY_OK);
    assert_false(fby__program_same(p, 1, other));
    fby__program_destroy(p);
    fby__program_destroy(same);
    fby__program_destroy(other);
    free(rows);
}

static void axes_that_are_not_there_are_refused(void **state)
{
    (void)state;
    static const int64_t SIZES[] = {3, 4};
    static const double NUMBERS[8] = {1, 1, 1, 0};
    static const struct {
        fby_op op;
        const char *with;
    } CASES[] = {
        {{.kind = FBY_OP_AFFINE, .a_each = NUMBERS, .n_each = 4, .axis = 0},
         "axis 0: a row's value has 2 axes, which are counted from the end"},
        {{.kind = FBY_OP_AFFINE, .a_each = NUMBERS, .n_each = 4, .axis = -3}, "axis -3"},
        {{.kind = FBY_OP_AFFINE, .a_each = NUMBERS, .n_each = 3, .axis = -1}, "3 numbers for an axis of 4 places"},
        {{.kind = FBY_OP_STANDARDIZE, .b_each = NUMBERS, .n_each = 4, .axis = -1}, "place 3: the standard deviation must be above 0"},
        {{.kind = FBY_OP_FILL_NULL, .a_each = NUMBERS, .n_each = 4, .axis = -1}, "one number a column"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        fby__program *p = NULL;
        fby_error err = {0};
        assert_int_equal(fby__program_create(&CASES[i].op, 1, NAMES, 1, (fby__value_axes){SIZES, 2}, &p, &err), FBY_E_ARG);
        if (!strstr(err.message, CASES[i].with))
            fail_msg("'%s' in: %s", CASES[i].with, err.message);
    }
}

static fby_dtype held(fby_op op, fby_dtype from, fby_dtype to)
{
    fby__program *p = program(&op, 1, 1);
    fby_dtype d = fby__program_dtype(p, 0, from, to);
    fby__program_destroy(p);
    return d;
}

static void values_wait_in_the_narrowest_dtype_that_costs_no_digits(void **state)
{
    (void)state;
    const fby_op near = {.kind = FBY_OP_STANDARDIZE, .a = 5, .b = 2}, far = {.kind = FBY_OP_STANDARDIZE, .a = 1.7e9, .b = 2},
                 scale = {.kind = FBY_OP_AFFINE, .a = 1e-9}, offset = {.kind = FBY_OP_AFFINE, .a = 1, .b = -1.7e9},
                 huge = {.kind = FBY_OP_AFFINE, .a = 1e40}, log = {.kind = FBY_OP_LOG}, clip = {.kind = FBY_OP_CLIP, .a = 0, .b = 1};
    assert_int_equal(held(near, FBY_FLOAT64, FBY_FLOAT32), FBY_FLOAT32);
    assert_int_equal(held(near, FBY_FLOAT64, FBY_FLOAT16), FBY_FLOAT32);
    assert_int_equal(held(near, FBY_FLOAT64, FBY_FLOAT64), FBY_FLOAT64);
    assert_int_equal(held(near, FBY_FLOAT32, FBY_FLOAT16), FBY_FLOAT32); /* 101325 Pa is no float16 */
    assert_int_equal(held(near, FBY_FLOAT16, FBY_FLOAT16), FBY_FLOAT16);
    assert_int_equal(held(near, FBY_BFLOAT16, FBY_FLOAT16), FBY_FLOAT32);
    assert_int_equal(held(near, FBY_UINT8, FBY_BFLOAT16), FBY_BFLOAT16);
    assert_int_equal(held(near, FBY_INT16, FBY_FLOAT16), FBY_FLOAT32);
    assert_int_equal(held(far, FBY_INT64, FBY_FLOAT32), FBY_FLOAT64);
    assert_int_equal(held(far, FBY_FLOAT32, FBY_FLOAT32), FBY_FLOAT32);
    assert_int_equal(held(scale, FBY_INT64, FBY_FLOAT32), FBY_FLOAT32);
    assert_int_equal(held(offset, FBY_INT32, FBY_FLOAT32), FBY_FLOAT64);
    assert_int_equal(held(huge, FBY_FLOAT64, FBY_FLOAT32), FBY_FLOAT64);
    assert_int_equal(held(log, FBY_FLOAT64, FBY_FLOAT32), FBY_FLOAT64);
    assert_int_equal(held(log, FBY_INT32, FBY_FLOAT32), FBY_FLOAT32);
    assert_int_equal(held(clip, FBY_FLOAT64, FBY_FLOAT32), FBY_FLOAT32);
}

static void moments_are_those_of_two_passes_however_the_values_are_cut(void **state)
{
    (void)state;
    enum { N = 30011 };
    static double x[N];
    for (int round = 0; round < 40; round++) {
        double centre = round % 4 == 0 ? 1e9 : uniform(-5, 5), spread = uniform(0.1, 10);
        uint64_t n = round == 0 ? 0 : round < 10 ? (uint64_t)round : fby__random_below(&random_state, N), count = 0;
        long double sum = 0, square = 0, least = INFINITY, most = -INFINITY;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t odd = fby__random_below(&random_state, 30);
            x[i] = odd == 0 ? (double)NAN : odd == 1 ? (double)INFINITY : odd == 2 ? -(double)INFINITY : centre + spread * uniform(-1, 1);
            if (!isfinite(x[i]))
                continue;
            count++;
            sum += x[i];
            least = fminl(least, x[i]);
            most = fmaxl(most, x[i]);
        }
        for (uint64_t i = 0; i < n; i++)
            square += isfinite(x[i]) ? (x[i] - sum / count) * (x[i] - sum / count) : 0;
        fby__moment_sums m = {0}, parts = {0};
        fby__moments_add(&m, x, n);
        for (uint64_t i = 0, k; i < n; i += k) {
            k = 1 + fby__random_below(&random_state, n - i);
            fby__moment_sums part = {0};
            fby__moments_add(&part, x + i, k);
            fby__moments_merge(&parts, &part);
        }
        fby_moments whole, cut;
        fby__moments_finish(&m, &whole);
        fby__moments_finish(&parts, &cut);
        assert_int_equal(whole.count, count);
        assert_int_equal(whole.n_missing, n - count);
        assert_int_equal(cut.count, count);
        assert_int_equal(cut.n_missing, n - count);
        if (count == 0) {
            assert_true(isnan(whole.mean) && isnan(whole.std) && isnan(whole.min) && isnan(whole.max));
            continue;
        }
        double mean = (double)(sum / count), std = (double)sqrtl(square / count);
        assert_true(whole.min == (double)least && whole.max == (double)most && cut.min == (double)least && cut.max == (double)most);
        assert_true(fabs(whole.mean - mean) <= 1e-14 * fabs(mean) + 1e-14 && fabs(cut.mean - mean) <= 1e-14 * fabs(mean) + 1e-14);
        assert_true(fabs(whole.std - std) <= 1e-13 * std && fabs(cut.std - std) <= 1e-13 * std);
    }
}

static void a_program_that_cannot_be_allocated_says_so(void **state)
{
    (void)state;
    fby_op op = {.kind = FBY_OP_LOG1P};
    for (uint64_t n = 1; n <= 2; n++) {
        fby__program *p = NULL;
        fby_error err;
        fby__alloc_fail_at(n);
        fby_status status = fby__program_create(&op, 1, NAMES, 3, NO_AXES, &p, &err);
        fby__alloc_fail_at(0);
        assert_int_equal(status, FBY_E_NOMEM);
        assert_null(p);
    }
}

/* A fixed input through every loop: the checksum is written down, so every instruction set and compiler gives these bits. */
static void the_bits_are_the_same_on_every_machine(void **state)
{
    (void)state;
    enum { N = 5000, COLUMNS = 5 };
    static double x[N * COLUMNS];
    fby__random fixed = {.key = 20240229};
    for (int i = 0; i < N * COLUMNS; i++)
        x[i] = (double)fby__random_below(&fixed, 1u << 30) * 0x1p-20;
    const double mean[] = {500, 501, 502, 503, 504}, std[] = {300, 290, 280, 270, 260}, low[] = {0, 1, 2, 3, 4}, high[] = {9, 8, 7, 6, 5};
    const fby_op ops[] = {{.kind = FBY_OP_LOG1P},
                          {.kind = FBY_OP_AFFINE, .a = 100, .b = 0.1},
                          {.kind = FBY_OP_STANDARDIZE, .a_each = mean, .b_each = std},
                          {.kind = FBY_OP_CLIP, .a = -3, .b = 3},
                          {.kind = FBY_OP_AFFINE, .a = 1, .b = 4},
                          {.kind = FBY_OP_CLIP, .a_each = low, .b_each = high},
                          {.kind = FBY_OP_LOG, .a = 1e-6},
                          {.kind = FBY_OP_AFFINE, .a = 1, .b = 3},
                          {.kind = FBY_OP_LOG10, .a = 1e-3}};
    fby__program *p = program(ops, sizeof ops / sizeof *ops, COLUMNS);
    fby__program_run(p, FBY_FLOAT64, (uint8_t *)x, N, COLUMNS * sizeof *x, 0, COLUMNS, 1);
    fby__program_destroy(p);
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < N * COLUMNS; i++) {
        uint64_t u;
        memcpy(&u, &x[i], sizeof u);
        sum = (sum ^ u) * 1099511628211u;
    }
    assert_true(sum == UINT64_C(0x4add7ee23ee4c4ad));
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test_setup(chains_of_random_operations_are_what_plain_loops_make_of_them, seed_random),
    cmocka_unit_test_setup(logarithms_are_within_two_units_in_the_last_place_everywhere, seed_random),
    cmocka_unit_test(the_ends_of_the_number_line_go_where_mathematics_sends_them),
    cmocka_unit_test(operations_that_make_no_sense_are_refused_by_column),
    cmocka_unit_test(as_many_operations_as_there_may_be_fit),
    cmocka_unit_test(programs_are_the_same_where_their_columns_do_the_same),
    cmocka_unit_test(parameters_along_an_axis_are_those_of_the_place),
    cmocka_unit_test(axes_that_are_not_there_are_refused),
    cmocka_unit_test(values_wait_in_the_narrowest_dtype_that_costs_no_digits),
    cmocka_unit_test_setup(moments_are_those_of_two_passes_however_the_values_are_cut, seed_random),
    cmocka_unit_test(a_program_that_cannot_be_allocated_says_so),
    cmocka_unit_test(the_bits_are_the_same_on_every_machine),
};
SIMD_MAIN(TESTS)
