/*
 * N-grams against a plain loop that writes the text down, cuts it and searches the vocabulary; numbers, dates and times as text against
 * what Python and NumPy print. Against pandas itself, over real and random tables: tests/python.
 */
#include "transform/encode_fixture.h"
#include "transform/value_text.h"

#include <math.h>

static fby__random random_state = {.key = 8};

static fby_make ngrams(uint32_t n, const char *const *vocabulary, size_t n_vocabulary)
{
    return (fby_make){.kind = FBY_MAKE_NGRAMS, .ngrams = {.n = n, .vocabulary = vocabulary, .n_vocabulary = n_vocabulary}};
}

/* ---- text of values ---- */

static void assert_text(fby_field field, fby_dtype dtype, const void *value, const char *expect)
{
    uint8_t *guarded = guarded_copy(value, fby_dtype_bytes(dtype)), text[FBY__VALUE_TEXT_BYTES + 1];
    const size_t n = fby__value_write(&field, dtype, guarded, text);
    assert_true(n <= FBY__VALUE_TEXT_BYTES);
    text[n] = 0;
    assert_string_equal((char *)text, expect);
    guarded_free(guarded, fby_dtype_bytes(dtype));
}

static void floats_are_written_with_the_fewest_digits_that_mean_them(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *as64, *as32, *as16;
    } CASES[] = {
        {0, "0.0", "0.0", "0.0"},
        {-0.0, "-0.0", "-0.0", "-0.0"},
        {1, "1.0", "1.0", "1.0"},
        {-1.5, "-1.5", "-1.5", "-1.5"},
        {0.1, "0.1", "0.1", "0.1"},
        {1.0 / 3, "0.3333333333333333", "0.33333334", "0.3333"},
        {0.0001, "0.0001", "1e-04", "0.0001"},
        {0.00001, "1e-05", "1e-05", "1e-05"},
        {999, "999.0", "999.0", "999.0"},
        {1000, "1000.0", "1000.0", "1e+03"},
        {2049, "2049.0", "2049.0", "2.048e+03"},
        {999999, "999999.0", "999999.0", "inf"},
        {1e6, "1000000.0", "1e+06", "inf"},
        {16777216, "16777216.0", "1.6777216e+07", "inf"},
        {123456789.125, "123456789.125", "1.2345679e+08", "inf"},
        {1e15, "1000000000000000.0", "1e+15", "inf"},
        {9999999999999998.0, "9999999999999998.0", "1e+16", "inf"},
        {1e16, "1e+16", "1e+16", "inf"},
        {1e22, "1e+22", "1e+22", "inf"},
        {0x1p-44, "5.684341886080802e-14", "5.684342e-14", "0.0"},
        {0x1p-1074, "5e-324", "0.0", "0.0"},
        {0x1p-1022, "2.2250738585072014e-308", "0.0", "0.0"},
        {1.7976931348623157e308, "1.7976931348623157e+308", "inf", "inf"},
        {9.5367431640625e-07, "9.5367431640625e-07", "9.536743e-07", "9.5e-07"},
        {2.5e-310, "2.5e-310", "0.0", "0.0"},
        {(double)INFINITY, "inf", "inf", "inf"},
        {-(double)INFINITY, "-inf", "-inf", "-inf"},
        {(double)NAN, "nan", "nan", "nan"},
    };
    const fby_field field = {.kind = FBY_KIND_FLOAT};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const float f = (float)CASES[i].value;
        uint16_t h;
        size_t bad;
        (void)fby__convert(FBY_FLOAT16, &h, FBY_FLOAT64, &CASES[i].value, 1, FBY__SCALE_NONE, &bad);
        assert_text(field, FBY_FLOAT64, &CASES[i].value, CASES[i].as64);
        assert_text(field, FBY_FLOAT32, &f, CASES[i].as32);
        assert_text(field, FBY_FLOAT16, &h, CASES[i].as16);
    }
}

static void random_floats_survive_being_written_and_read(void **state)
{
    (void)state;
    const fby_field field = {.kind = FBY_KIND_FLOAT};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = fby__random_next(&random_state);
        if (i % 3 == 0)
            bits &= UINT64_C(0xfff0000000000000); /* powers of two */
        double x;
        memcpy(&x, &bits, sizeof x);
        uint8_t text[FBY__VALUE_TEXT_BYTES + 1];
        text[fby__value_write(&field, FBY_FLOAT64, &x, text)] = 0;
        const double back = strtod((char *)text, NULL);
        assert_true(back == x || (x != x && back != back));
    }
}

static void integers_bools_and_times_are_written_as_pandas_does(void **state)
{
    (void)state;
    const int64_t least = INT64_MIN, zero = 0;
    const uint64_t greatest = UINT64_MAX;
    const int8_t small = -128;
    const uint8_t no = 0, yes = 1;
    assert_text((fby_field){.kind = FBY_KIND_INT}, FBY_INT64, &least, "-9223372036854775808");
    assert_text((fby_field){.kind = FBY_KIND_INT}, FBY_INT64, &zero, "0");
    assert_text((fby_field){.kind = FBY_KIND_INT}, FBY_UINT64, &greatest, "18446744073709551615");
    assert_text((fby_field){.kind = FBY_KIND_INT}, FBY_INT8, &small, "-128");
    assert_text((fby_field){.kind = FBY_KIND_BOOL}, FBY_BOOL, &yes, "True");
    assert_text((fby_field){.kind = FBY_KIND_BOOL}, FBY_BOOL, &no, "False");
    static const struct {
        int32_t days;
        const char *text;
    } DATES[] = {{0, "1970-01-01"},       {-1, "1969-12-31"},      {11016, "2000-02-29"},    {11017, "2000-03-01"},
                 {-719162, "0001-01-01"}, {2932896, "9999-12-31"}, {2932897, "10000-01-01"}, {-25509, "1900-02-28"},
                 {-25508, "1900-03-01"},  {-735600, "-044-01-01"}};
    for (size_t i = 0; i + 1 < sizeof DATES / sizeof *DATES; i++)
        assert_text((fby_field){.kind = FBY_KIND_DATE}, FBY_INT32, &DATES[i].days, DATES[i].text);
    static const struct {
        int64_t value;
        fby_unit unit;
        bool utc;
        const char *text;
    } TIMES[] = {
        {981173106, FBY_UNIT_S, false, "2001-02-03 04:05:06"},
        {981158400, FBY_UNIT_S, false, "2001-02-03"},
        {981158400, FBY_UNIT_S, true, "2001-02-03 00:00:00+00:00"},
        {981173106500, FBY_UNIT_MS, false, "2001-02-03 04:05:06.500"},
        {981173106000500, FBY_UNIT_US, false, "2001-02-03 04:05:06.000500"},
        {981173106000000001, FBY_UNIT_NS, true, "2001-02-03 04:05:06.000000001+00:00"},
        {-1, FBY_UNIT_US, false, "1969-12-31 23:59:59.999999"},
        {981158400000, FBY_UNIT_MS, false, "2001-02-03"},
        {INT64_MIN, FBY_UNIT_NS, false, "1677-09-21 00:12:43.145224192"},
        {INT64_MAX, FBY_UNIT_S, false, "292277026596-12-04 15:30:07"},
    };
    for (size_t i = 0; i < sizeof TIMES / sizeof *TIMES; i++)
        assert_text((fby_field){.kind = FBY_KIND_TIMESTAMP, .unit = TIMES[i].unit, .utc = TIMES[i].utc}, FBY_INT64, &TIMES[i].value,
                    TIMES[i].text);
}

/* ---- grams ---- */

static const char *const CHARS[] = {"a", "b",  "c", "A", "B", "z", "1", "2",  " ", ".", "\"",
                                    "/", "\t", "é", "É", "ß", "Ж", "ж", "漢", "😀", "Σ", "\xc2\xa0"};
enum { N_CHARS = sizeof CHARS / sizeof *CHARS };

static const char *lower_of(const char *c)
{
    static const char *const PAIRS[][2] = {{"A", "a"}, {"B", "b"}, {"É", "é"}, {"Ж", "ж"}, {"Σ", "σ"}};
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++)
        if (strcmp(c, PAIRS[i][0]) == 0)
            return PAIRS[i][1];
    return c;
}

static bool is_white(const char *c) { return strcmp(c, " ") == 0 || strcmp(c, "\t") == 0 || strcmp(c, "\xc2\xa0") == 0; }

/* Texts as lists of characters. */
typedef struct text {
    const char *c[64];
    size_t n;
} text;

static void random_texts_have_the_grams_that_a_plain_loop_finds(void **state)
{
    (void)state;
    enum { SAMPLES = 40, COLUMNS = 3, MAX_VOCABULARY = 400 };
    static char grams[MAX_VOCABULARY][64], strings[COLUMNS][SAMPLES][200];
    static const char *vocabulary[MAX_VOCABULARY];
    for (int round = 0; round < 300; round++) {
        const uint32_t n = 1 + (uint32_t)fby__random_below(&random_state, 4);
        size_t n_vocabulary = 0;
        for (size_t i = 0; i < 1 + fby__random_below(&random_state, MAX_VOCABULARY); i++) { /* distinct */
            char *gram = grams[n_vocabulary];
            gram[0] = 0;
            for (uint32_t k = 0; k < n; k++)
                strcat(gram, CHARS[fby__random_below(&random_state, N_CHARS)]);
            bool is_new = true;
            for (size_t k = 0; k < n_vocabulary; k++)
                is_new &= strcmp(grams[k], gram) != 0;
            vocabulary[n_vocabulary] = gram;
            n_vocabulary += is_new;
        }
        const bool lower = round & 1, strip = round & 2, drop_spaces = round & 4;
        const char *deleted = round & 8    ? "\"./"
                              : round & 16 ? "éa "
                                           : NULL,
                   *separator = round & 32 ? " b" : NULL, *missing = round & 64 ? "c a" : NULL;
        static text rows[COLUMNS][SAMPLES];
        fixture *f = fixture_new(ngrams(n, vocabulary, n_vocabulary));
        f->make.ngrams.lower = lower;
        f->make.ngrams.strip = strip;
        f->make.ngrams.drop_spaces = drop_spaces;
        f->make.ngrams.delete_chars = deleted;
        f->make.ngrams.separator = separator;
        f->make.ngrams.missing = missing;
        for (size_t c = 0; c < COLUMNS; c++) {
            const char *pointers[SAMPLES];
            for (size_t s = 0; s < SAMPLES; s++) {
                text *t = &rows[c][s];
                t->n = fby__random_below(&random_state, 14);
                strings[c][s][0] = 0;
                for (size_t i = 0; i < t->n; i++)
                    strcat(strings[c][s], t->c[i] = CHARS[fby__random_below(&random_state, N_CHARS)]);
                pointers[s] = strings[c][s];
                if (c == 1 && s % 7 == 0) {
                    pointers[s] = NULL;
                    static const char *const NONE[] = {"N", "o", "n", "e"}, *const OWN[] = {"c", " ", "a"};
                    t->n = missing ? 3 : 4;
                    memcpy(t->c, missing ? OWN : NONE, t->n * sizeof *t->c);
                }
            }
            static const char *const NAMES[] = {"first", "second", "third"};
            fixture_strings(f, NAMES[c], FBY_KIND_STRING, pointers, SAMPLES);
        }
        if (fixture_run(f) != FBY_OK)
            fail_msg("%s", f->err.message);
        for (size_t s = 0; s < SAMPLES; s++) {
            text all = {0};
            static const char *const SEPARATOR[] = {" ", "b"};
            for (size_t c = 0; c < COLUMNS; c++) {
                for (size_t i = 0; c && separator && i < 2; i++)
                    all.c[all.n++] = SEPARATOR[i];
                for (size_t i = 0; i < rows[c][s].n; i++)
                    all.c[all.n++] = rows[c][s].c[i];
            }
            text kept = {0};
            for (size_t i = 0; i < all.n; i++) {
                const char *c = lower ? lower_of(all.c[i]) : all.c[i];
                if (!deleted || !strstr(deleted, c))
                    kept.c[kept.n++] = c;
            }
            size_t begin = 0, end = kept.n;
            while (strip && begin < end && is_white(kept.c[end - 1]))
                end--;
            while (strip && begin < end && is_white(kept.c[begin]))
                begin++;
            bool expect[MAX_VOCABULARY] = {false};
            for (size_t i = begin; i + n <= end; i++) {
                char gram[64] = "";
                for (uint32_t k = 0; k < n; k++)
                    strcat(gram, kept.c[i + k]);
                for (size_t k = 0; k < n_vocabulary; k++)
                    expect[k] |= strcmp(grams[k], gram) == 0 && !(drop_spaces && strchr(gram, ' '));
            }
            for (size_t k = 0; k < n_vocabulary; k++)
                if ((fixture_element(f, s, k) == 1) != expect[k])
                    fail_msg("round %d, sample %zu: gram '%s' is %g", round, s, grams[k], fixture_element(f, s, k));
        }
        fixture_free(f);
    }
}

static void every_dtype_has_its_one(void **state)
{
    (void)state;
    static const char *const VOCABULARY[] = {"bc", "ab", "ca"};
    const char *texts[] = {"abc", "ca", ""};
    for (fby_dtype dtype = FBY_BOOL; dtype < FBY_DTYPE_COUNT; dtype++) {
        fixture *f = fixture_new(ngrams(2, VOCABULARY, 3));
        f->dtype = dtype;
        fixture_strings(f, "name", FBY_KIND_STRING, texts, 3);
        assert_int_equal(fixture_run(f), FBY_OK);
        assert_true(f->made.ndim == 1 && f->made.shape[0] == 3 && f->made.dtype == dtype);
        const double expect[3][3] = {{1, 1, 0}, {0, 0, 1}, {0, 0, 0}};
        for (size_t s = 0; s < 3; s++)
            for (size_t i = 0; i < 3; i++)
                assert_true(fixture_element(f, s, i) == expect[s][i]);
        fixture_free(f);
    }
}

static void numbers_and_dates_join_the_text_row_by_row(void **state)
{
    (void)state;
    static const char *const VOCABULARY[] = {"7.", "02", "e1", "nN", "aT", "<N", "19", "-1", "5-"};
    const double weights[] = {7.5, (double)NAN};
    const int32_t days[] = {0, 31};
    fixture *f = fixture_new(ngrams(2, VOCABULARY, 9));
    fixture_values(f, "flag", FBY_KIND_BOOL, FBY_BOOL, 2, (const uint8_t[]){1, 1}, 1); /* replaced below: two rows of one sample */
    f->column[0].width = 1;
    f->column[0].n_axes = 0;
    f->row_bytes[0] = 1;
    (void)fixture_add(f, "weight", FBY__PANEL_DENSE, FBY_KIND_FLOAT, FBY_FLOAT64, 1);
    (void)fixture_add(f, "born", FBY__PANEL_DENSE, FBY_KIND_DATE, FBY_INT32, 1);
    (void)fixture_add(f, "n", FBY__PANEL_DENSE, FBY_KIND_INT, FBY_INT8, 1);
    f->data[1][0] = guarded_copy(weights, sizeof weights);
    f->data[2][0] = guarded_copy(days, sizeof days);
    f->data[3][0] = guarded_copy((const int8_t[]){-1, 0}, 2);
    static const uint8_t flags[] = {1, 0};
    f->column[3].nullable = true;
    f->valid[3][0] = flags;
    f->max_rows = 2;
    f->n_rows[0] = 2;
    assert_int_equal(fixture_run(f), FBY_OK);
    /* "True7.51970-01-01-1" and "Truenan1970-02-01<NA>" */
    const double expect[2][9] = {{1, 0, 0, 0, 0, 0, 1, 1, 0}, {0, 1, 0, 0, 0, 1, 1, 0, 0}};
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; i < 9; i++)
            if (fixture_element(f, 0, r * 9 + i) != expect[r][i])
                fail_msg("row %zu: '%s' is %g", r, VOCABULARY[i], fixture_element(f, 0, r * 9 + i));
    fixture_free(f);
}

static void bytes_that_are_no_text_are_in_no_gram(void **state)
{
    (void)state;
    static const char *const VOCABULARY[] = {"ab", "é1", "1a"};
    static const char *const BROKEN[] = {"a\377b1a",  "\303",     "a\355\240\200b", "\364\220\200\200",
                                         "\303\2511", "\342\202", "\300\257ab",     "\360\237\230"};
    fixture *f = fixture_new(ngrams(2, VOCABULARY, 3));
    fixture_strings(f, "name", FBY_KIND_STRING, BROKEN, 8);
    assert_int_equal(fixture_run(f), FBY_OK);
    for (size_t s = 0; s < 8; s++)
        for (size_t i = 0; i < 3; i++)
            assert_true(fixture_element(f, s, i) == ((s == 0 && i == 2) || (s == 4 && i == 1) || (s == 6 && i == 0)));
    fixture_free(f);
}

static void a_capital_i_with_a_dot_becomes_two_characters(void **state)
{
    (void)state;
    static const char *const VOCABULARY[] = {"ai", "i\314\207", "\314\207b"};
    const char *texts[] = {"A\304\260B"};
    fixture *f = fixture_new(ngrams(2, VOCABULARY, 3));
    f->make.ngrams.lower = true;
    fixture_strings(f, "name", FBY_KIND_STRING, texts, 1);
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_true(fixture_element(f, 0, 0) == 1 && fixture_element(f, 0, 1) == 1 && fixture_element(f, 0, 2) == 1);
    fixture_free(f);
}

static void long_grams_of_many_characters_are_found_by_hash(void **state)
{
    (void)state;
    enum { N = 3000, LONG = 8 };
    static char room[N][LONG * 3 + 1];
    static const char *vocabulary[N], *texts[N];
    for (size_t i = 0; i < N; i++) { /* Hangul: 8 characters, distinct by their first three */
        for (size_t k = 0; k < LONG; k++) {
            const uint32_t code = 0xac00 + (uint32_t)(k == 0 ? i % 20 : k == 1 ? i / 20 % 20 : k == 2 ? i / 400 : (i * 7 + k) % 200);
            room[i][3 * k] = (char)(0xe0 | code >> 12);
            room[i][3 * k + 1] = (char)(0x80 | (code >> 6 & 63));
            room[i][3 * k + 2] = (char)(0x80 | (code & 63));
        }
        vocabulary[i] = texts[i] = room[i];
    }
    fixture *f = fixture_new(ngrams(LONG, vocabulary, N));
    f->dtype = FBY_UINT8;
    fixture_strings(f, "name", FBY_KIND_STRING, texts, 300);
    if (fixture_run(f) != FBY_OK)
        fail_msg("%s", f->err.message);
    for (size_t s = 0; s < 300; s++)
        for (size_t i = 0; i < N; i++)
            assert_true(f->result[s][i] == (i == s));
    fixture_free(f);
}

static const char *refusal(uint32_t n, const char *first, const char *second, const char *deleted)
{
    const char *vocabulary[] = {first, second}, *texts[] = {"a"};
    fixture *f = fixture_new(ngrams(n, vocabulary, second ? 2 : first ? 1 : 0));
    f->make.ngrams.delete_chars = deleted;
    fixture_strings(f, "name", FBY_KIND_STRING, texts, 1);
    return fixture_failure(f, FBY_E_ARG);
}

static void specifications_that_cannot_work_are_refused_at_creation(void **state)
{
    (void)state;
    assert_contains(refusal(2, "abc", NULL, NULL), "the vocabulary is of 2 characters an entry, and 'abc' (entry 0) has 3");
    assert_contains(refusal(2, "ab", "é", NULL), "'é' (entry 1) has 1");
    assert_contains(refusal(2, "ab", "ab", NULL), "'ab' is in the vocabulary twice, as entries 0 and 1");
    assert_contains(refusal(2, "a\xff", NULL, NULL), "entry 0 of the vocabulary is no UTF-8");
    assert_contains(refusal(2, "ab", NULL, "\xc3"), "characters to leave out are no UTF-8");
    assert_contains(refusal(2, NULL, NULL, NULL), "a vocabulary of 0 grams");
    assert_contains(refusal(0, "", NULL, NULL), "grams of 0 characters");
    assert_contains(refusal(9, "abcdefghi", NULL, NULL), "grams of 9 characters");
    static const char *const VOCABULARY[] = {"ab"};
    const float array[] = {1, 2};
    const int64_t number[] = {1};
    fixture *f = fixture_new(ngrams(2, VOCABULARY, 1));
    fixture_values(f, "spectrum", FBY_KIND_FLOAT, FBY_FLOAT32, 2, array, 1);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "column 'spectrum' of type float32 has several values a row");
    f = fixture_new(ngrams(2, VOCABULARY, 1));
    fixture_values(f, "taken", FBY_KIND_DURATION, FBY_INT64, 1, number, 1);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "cannot be made text");
}

static fixture *any_fixture(void)
{
    static const char *const VOCABULARY[] = {"ab", "éß", "жд"}, *const TEXTS[] = {"AB"};
    fixture *f = fixture_new(ngrams(2, VOCABULARY, 3));
    f->make.ngrams.lower = true;
    f->make.ngrams.missing = "-";
    f->make.ngrams.separator = " ";
    f->make.ngrams.delete_chars = "./ü";
    fixture_strings(f, "name", FBY_KIND_STRING, TEXTS, 1);
    return f;
}

static fixture *fixture_of_many_characters(void)
{
    enum { N = 600 };
    static char room[N][8];
    static const char *vocabulary[N];
    static const char *const TEXTS[] = {"AB"};
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(room[i], sizeof room[i], "%c%c%cz", (char)(0xc4 + i / 64), (char)(0x80 | (i & 63)), 'a');
        vocabulary[i] = room[i];
    }
    fixture *f = fixture_new(ngrams(3, vocabulary, N));
    fixture_strings(f, "name", FBY_KIND_STRING, TEXTS, 1);
    return f;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture_fail_allocations(any_fixture);
    fixture_fail_allocations(fixture_of_many_characters);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(floats_are_written_with_the_fewest_digits_that_mean_them),
    cmocka_unit_test(random_floats_survive_being_written_and_read),
    cmocka_unit_test(integers_bools_and_times_are_written_as_pandas_does),
    cmocka_unit_test(random_texts_have_the_grams_that_a_plain_loop_finds),
    cmocka_unit_test(every_dtype_has_its_one),
    cmocka_unit_test(numbers_and_dates_join_the_text_row_by_row),
    cmocka_unit_test(bytes_that_are_no_text_are_in_no_gram),
    cmocka_unit_test(a_capital_i_with_a_dot_becomes_two_characters),
    cmocka_unit_test(long_grams_of_many_characters_are_found_by_hash),
    cmocka_unit_test(specifications_that_cannot_work_are_refused_at_creation),
    cmocka_unit_test(every_allocation_may_fail),
};

SIMD_MAIN(tests)
