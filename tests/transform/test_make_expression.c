/*
 * Expressions: what binds tighter, every function, where errors are found; blocks, rows and arrays; code that is random text never crashes.
 * Random expressions against NumPy are in tests/python.
 */
#include "transform/encode_fixture.h"
#include "transform/expression.h"

#include <math.h>

static fby__random random_state = {.key = 7};

static fby_make expression(const char *text) { return (fby_make){.kind = FBY_MAKE_EXPRESSION, .expression = {.text = text}}; }

static const char *const NAMES[] = {"a", "b", "c.d", "odd name"};

/* Columns a = 3, b = −2, c.d = 0.5, "odd name" = 7; as many of them as the text says. */
static fby_status value_of(const char *text, uint32_t n_columns, double *out, fby_error *err)
{
    fby__expression e;
    const fby_status status = fby__expression_parse(text, NAMES, n_columns, &e, err);
    if (status != FBY_OK)
        return status;
    const double a = 3, b = -2, c = 0.5, d = 7, *columns[] = {&a, &b, &c, &d};
    double *scratch = malloc(fby__expression_scratch(&e) * sizeof *scratch);
    assert_non_null(scratch);
    *out = *fby__expression_run(&e, columns, 1, scratch);
    free(scratch);
    fby__expression_fini(&e);
    return FBY_OK;
}

static void operators_bind_as_in_mathematics(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t n_columns;
        double value;
    } CASES[] = {
        {"1 + 2 * 3", 0, 7},
        {"(1 + 2) * 3", 0, 9},
        {"2 - 3 - 4", 0, -5},
        {"8 / 4 / 2", 0, 1},
        {"-2 ^ 2", 0, -4},
        {"2 ^ -1", 0, 0.5},
        {"2 ** 3 ^ 2", 0, 512},
        {"7 % 3", 0, 1},
        {"-7 % 3", 0, 2},
        {"7 % -3", 0, -2},
        {"- - 3", 0, 3},
        {"+3", 0, 3},
        {"1.5e2", 0, 150},
        {".5", 0, 0.5},
        {"5.", 0, 5},
        {"1E-2", 0, 0.01},
        {"1 < 2", 0, 1},
        {"2 <= 1", 0, 0},
        {"1 + 1 == 2", 0, 1},
        {"1 != 1", 0, 0},
        {"2 > 1 and 1 > 2", 0, 0},
        {"2 > 1 or 1 > 2", 0, 1},
        {"not 1 > 2", 0, 1},
        {"not not 5", 0, 1},
        {"1 or 0 and 0", 0, 1},
        {"not 1 or 1", 0, 1},
        {"2 >= 2", 0, 1},
        {"1 ? 2 : 3", 0, 2},
        {"0 ? 2 : 0 ? 4 : 5", 0, 5},
        {"1 ? 0 ? 6 : 7 : 8", 0, 7},
        {"where(0, 1, 2) + 1", 0, 3},
        {"min(3, 1, 2)", 0, 1},
        {"max(3, 1, 4, 2)", 0, 4},
        {"abs(-3)", 0, 3},
        {"sqrt(9)", 0, 3},
        {"exp(0)", 0, 1},
        {"log(1)", 0, 0},
        {"log10(1000)", 0, 3},
        {"log1p(0)", 0, 0},
        {"sin(0)", 0, 0},
        {"cos(0)", 0, 1},
        {"tan(0)", 0, 0},
        {"atan2(0, 1)", 0, 0},
        {"floor(-1.5)", 0, -2},
        {"ceil(-1.5)", 0, -1},
        {"round(2.5)", 0, 2},
        {"round(3.5)", 0, 4},
        {"isnan(nan)", 0, 1},
        {"isnan(1)", 0, 0},
        {"isnan(min(nan, 1))", 0, 1},
        {"isnan(max(1, nan))", 0, 1},
        {"inf > 1e308", 0, 1},
        {"abs(sin(pi)) < 1e-15", 0, 1},
        {"nan == nan", 0, 0},
        {"nan != nan", 0, 1},
        {"a", 1, 3},
        {"a / (b + 1)", 2, -3},
        {"`a` + b * c.d", 3, 2},
        {" a*b*c.d - `odd name` ", 4, -10},
        {"a - a + b", 2, -2},
        {"a<b", 2, 0},
        {"a>-b", 2, 1},
        {"sqrt (a + 1)", 1, 2},
        {"1 ? a : nan", 1, 3},
    };
    fby_error err;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        double value = (double)NAN;
        if (value_of(CASES[i].text, CASES[i].n_columns, &value, &err) != FBY_OK)
            fail_msg("%s: %s", CASES[i].text, err.message);
        if (value != CASES[i].value)
            fail_msg("%s = %g, not %g", CASES[i].text, value, CASES[i].value);
    }
}

static void errors_say_where_and_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"", "position 1: a number, a column, a function or '(' is expected, not the end"},
        {"a +", "position 4: a number"},
        {"a + )", "position 5: a number, a column, a function or '(' is expected, not ')'"},
        {"(a", "position 3: ')' or an operator is expected, not the end"},
        {"a b", "position 3: an operator or the end is expected, not 'b'"},
        {"a = 1", "position 3: an operator or the end"},
        {"a < b < 3", "position 7: comparisons do not chain"},
        {"a + q", "position 5: 'q' is none of the output's columns"},
        {"a + android", "position 5: 'android' is none"},
        {"sine(a)", "position 1: there is no such function"},
        {"sqrt(a, b)", "position 1: sqrt() takes 1 value, not more"},
        {"atan2(a)", "atan2() takes 2 values, not fewer"},
        {"min(a)", "min() takes 2 values or more, not fewer"},
        {"where(a, b)", "where() takes 3 values, not fewer"},
        {"1.2.3", "position 1: this is no number"},
        {"3x", "position 1: this is no number"},
        {"1e", "position 1: this is no number"},
        {".", "this is no number"},
        {"`a", "position 1: this backquote has no other"},
        {"``", "a name is expected between the backquotes"},
        {"a ? b", "position 6: ':' is expected, not the end"},
        {"and", "position 1: a number"},
        {"a and", "position 6"},
        {"min(a, b", "',' or ')' is expected"},
        {"a", "does not use column 'b'"},
        {"a + b $", "not '$'"},
        {"11111111111111111111111111111111111111111111111111 + a + b", "too many digits"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        double value;
        fby_error err = {0};
        if (value_of(CASES[i].text, 2, &value, &err) != FBY_E_ARG || !strstr(err.message, CASES[i].message))
            fail_msg("%s: '%s', not '%s'", CASES[i].text, err.message, CASES[i].message);
    }
    const float one[] = {1};
    fixture *f = fixture_new(expression("a +"));
    fixture_values(f, "a", FBY_KIND_FLOAT, FBY_FLOAT32, 1, one, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "output 'x': the expression at position 4");
}

static void depth_and_length_have_limits(void **state)
{
    (void)state;
    static char text[70000];
    double value;
    fby_error err = {0};
    static const char *const OPENERS[] = {"(", "-", "not ", "2^", "sqrt(", "1?", "1?1:", "where(1,1,", "1+("};
    for (size_t k = 0; k < sizeof OPENERS / sizeof *OPENERS; k++) {
        text[0] = 0;
        for (size_t n = 0, step = strlen(OPENERS[k]); n + step < 60000; n += step)
            memcpy(text + n, OPENERS[k], step + 1);
        assert_int_equal(value_of(text, 0, &value, &err), FBY_E_ARG);
        assert_true(strstr(err.message, "deep") || strstr(err.message, "operands"));
    }
    memset(text, ' ', sizeof text - 1);
    text[0] = '1';
    assert_int_equal(value_of(text, 0, &value, &err), FBY_E_ARG);
    assert_contains(err.message, "more than 65536 bytes");
    for (size_t n = 0; n < 60000; n += 2)
        memcpy(text + n, "1+", 3);
    strcat(text, "1");
    assert_int_equal(value_of(text, 0, &value, &err), FBY_OK);
    assert_true(value == 30001);
}

static void random_text_is_an_expression_or_an_error(void **state)
{
    (void)state;
    static const char *const TOKENS[] = {"a", "b",  "1", "2.5", "+",   "-",     "*",   "/",   "^", "%", "(", ")", ",",
                                         "<", "==", "?", ":",   "min", "where", "and", "not", "`", " ", ".", "e", "nan"};
    size_t fine = 0;
    for (int round = 0; round < 30000; round++) {
        char text[200] = "";
        for (size_t n = 1 + fby__random_below(&random_state, 12); n > 0; n--)
            strcat(text, TOKENS[fby__random_below(&random_state, sizeof TOKENS / sizeof *TOKENS)]);
        strcat(text, "+a*b"); /* both columns occur */
        uint8_t *copy = guarded_copy(text, strlen(text) + 1);
        double value;
        fby_error err;
        fine += value_of((const char *)copy, 2, &value, &err) == FBY_OK;
        guarded_free(copy, strlen(text) + 1);
    }
    print_message("%zu were expressions\n", fine);
}

static void columns_of_every_dtype_are_computed_with_in_float64(void **state)
{
    (void)state;
    enum { N = 700 };
    for (fby_dtype from = FBY_BOOL; from < FBY_DTYPE_COUNT; from++)
        for (fby_dtype to = FBY_INT16; to < FBY_DTYPE_COUNT; to++) {
            uint8_t values[N * 8];
            double b[N];
            for (size_t i = 0; i < N; i++) {
                fby__scalar v;
                assert_true(fby__scalar_set(from, (double)(i % 2), &v));
                memcpy(values + i * fby_dtype_bytes(from), v.bytes, fby_dtype_bytes(from));
                b[i] = (double)(i % 100);
            }
            fixture *f = fixture_new(expression("a * 2 + b"));
            f->dtype = to;
            fixture_values(f, "a", from < FBY_FLOAT16 ? FBY_KIND_INT : FBY_KIND_FLOAT, from, 1, values, N);
            fixture_values(f, "b", FBY_KIND_FLOAT, FBY_FLOAT64, 1, b, N);
            if (fixture_run(f) != FBY_OK)
                fail_msg("%s", f->err.message);
            assert_int_equal(f->made.ndim, 0);
            for (size_t s = 0; s < N; s++)
                assert_true(fixture_element(f, s, 0) == (double)(s % 2) * 2 + b[s]);
            fixture_free(f);
        }
}

static void rows_and_arrays_are_computed_element_by_element(void **state)
{
    (void)state;
    enum { WIDTH = 37, SAMPLES = 30 };
    fixture *f = fixture_new(expression("a + 10 * b"));
    (void)fixture_add(f, "a", FBY__PANEL_DENSE, FBY_KIND_FLOAT, FBY_FLOAT32, WIDTH);
    (void)fixture_add(f, "b", FBY__PANEL_DENSE, FBY_KIND_INT, FBY_INT16, WIDTH);
    f->n = SAMPLES;
    f->max_rows = 50;
    for (size_t s = 0; s < SAMPLES; s++) {
        f->n_rows[s] = s == 7 || s == SAMPLES - 1 ? 0 : s % 50 + 1;
        float *a = calloc(f->n_rows[s] * WIDTH + 1, sizeof *a);
        int16_t *b = calloc(f->n_rows[s] * WIDTH + 1, sizeof *b);
        assert_true(a && b);
        for (size_t i = 0; i < f->n_rows[s] * WIDTH; i++) {
            a[i] = (float)i;
            b[i] = (int16_t)s;
        }
        f->data[0][s] = guarded_copy(a, f->n_rows[s] * WIDTH * sizeof *a);
        f->data[1][s] = guarded_copy(b, f->n_rows[s] * WIDTH * sizeof *b);
        free(a);
        free(b);
    }
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_true(f->made.ndim == 1 && f->made.shape[0] == WIDTH);
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t i = 0; i < f->n_rows[s] * WIDTH; i++)
            assert_true(fixture_element(f, s, i) == (double)i + 10.0 * (double)s);
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t c = 0; c < 2; c++)
            if (f->n_rows[s] == 0) { /* as they were allocated */
                guarded_free(f->data[c][s], 0);
                f->data[c][s] = NULL;
            }
    fixture_free(f);
}

/* In float64 a missing value is NaN; whole numbers come with flags. */
static void a_column_that_may_be_missing_is_asked_for_as_what_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fby_dtype read, made;
        bool wants_valid;
    } CASES[] = {
        {"a / 2", FBY_FLOAT64, FBY_FLOAT32, false}, {"a + 1", FBY_INT64, FBY_INT64, true}, {"a + 1.0", FBY_FLOAT64, FBY_FLOAT32, false}};
    const int32_t values[] = {4};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        fixture *f = fixture_new(expression(CASES[i].text));
        fixture_values(f, "a", FBY_KIND_INT, FBY_INT32, 1, values, 1);
        f->column[0].nullable = true;
        fby__maker *m;
        assert_int_equal(fixture_create(f, &m), FBY_OK);
        assert_int_equal(f->column[0].dtype, CASES[i].read);
        assert_int_equal(f->made.dtype, CASES[i].made);
        assert_int_equal(f->column[0].want_valid, CASES[i].wants_valid);
        fby__maker_destroy(m);
        fixture_free(f);
    }
}

static void values_that_the_dtype_does_not_have_are_refused_by_sample(void **state)
{
    (void)state;
    const double values[] = {1, 2, 0, 3};
    fixture *f = fixture_new(expression("1 / a"));
    f->dtype = FBY_INT32;
    fixture_values(f, "a", FBY_KIND_FLOAT, FBY_FLOAT64, 1, values, 4);
    assert_int_equal(fixture_run(f), FBY_E_DATA);
    assert_int_equal(f->bad, 2);
    assert_string_equal(f->err.message, "the expression's value inf is no int32");
    fixture_free(f);
    f = fixture_new(expression("a > 1"));
    f->dtype = FBY_BOOL;
    fixture_values(f, "a", FBY_KIND_FLOAT, FBY_FLOAT64, 1, values, 4);
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_true(fixture_element(f, 0, 0) == 0 && fixture_element(f, 1, 0) == 1);
    fixture_free(f);
}

static void columns_that_cannot_be_computed_with_are_refused(void **state)
{
    (void)state;
    const char *texts[] = {"a"};
    const float values[] = {1, 2, 3};
    fixture *f = fixture_new(expression("a + 1"));
    fixture_strings(f, "a", FBY_KIND_STRING, texts, 1);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "column 'a' of type string cannot be computed with");
    f = fixture_new(expression("a + b"));
    fixture_values(f, "a", FBY_KIND_FLOAT, FBY_FLOAT32, 1, values, 1);
    fixture_values(f, "b", FBY_KIND_FLOAT, FBY_FLOAT32, 3, values, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "'a' and 'b' differ in shape (1 and 3 values a row)");
}

static fixture *any_fixture(void)
{
    static const float values[] = {1};
    fixture *f = fixture_new(expression("a + 1 + 2 * (3 - a) / 4 ^ a + min(a, 1, 2, 3)"));
    fixture_values(f, "a", FBY_KIND_FLOAT, FBY_FLOAT32, 1, values, 1);
    return f;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture_fail_allocations(any_fixture);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(operators_bind_as_in_mathematics),
    cmocka_unit_test(errors_say_where_and_what_was_expected),
    cmocka_unit_test(depth_and_length_have_limits),
    cmocka_unit_test(random_text_is_an_expression_or_an_error),
    cmocka_unit_test(columns_of_every_dtype_are_computed_with_in_float64),
    cmocka_unit_test(rows_and_arrays_are_computed_element_by_element),
    cmocka_unit_test(a_column_that_may_be_missing_is_asked_for_as_what_says_so),
    cmocka_unit_test(values_that_the_dtype_does_not_have_are_refused_by_sample),
    cmocka_unit_test(columns_that_cannot_be_computed_with_are_refused),
    cmocka_unit_test(every_allocation_may_fail),
};

SIMD_MAIN(tests)
