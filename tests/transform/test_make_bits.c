/* Bits of every encoding and dtype, with every instruction set, against a plain loop over the bits. */
#include "transform/encode_fixture.h"

static const fby_dtype DTYPES[] = {FBY_BOOL,  FBY_INT8,   FBY_UINT8,   FBY_INT16,    FBY_UINT16,  FBY_INT32,  FBY_UINT32,
                                   FBY_INT64, FBY_UINT64, FBY_FLOAT16, FBY_BFLOAT16, FBY_FLOAT32, FBY_FLOAT64};
enum { N_DTYPES = sizeof DTYPES / sizeof *DTYPES };

static fby__random random_state = {.key = 5};

static fby_make bits(uint64_t n, fby_bits_encoding encoding)
{
    return (fby_make){.kind = FBY_MAKE_BITS, .bits = {.n_bits = n, .encoding = encoding}};
}

/* RFC 4648, section 4; written by groups of six bits. */
static size_t base64(const uint8_t *from, size_t n, bool pad, char *to)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t k = 0;
    for (size_t bit = 0; bit < 8 * n; bit += 6) {
        unsigned digit = 0;
        for (size_t i = bit; i < bit + 6; i++)
            digit = digit << 1 | (i < 8 * n ? from[i / 8] >> (7 - i % 8) & 1 : 0);
        to[k++] = DIGITS[digit];
    }
    while (pad && k % 4)
        to[k++] = '=';
    to[k] = 0;
    return k;
}

static void every_encoding_gives_the_same_bits_in_every_dtype(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        const uint64_t n_bits = 1 + fby__random_below(&random_state, round % 4 ? 70 : 1100);
        const size_t bytes = (n_bits + 7) / 8;
        uint8_t packed[160], little[160] = {0};
        char text[1200] = "", encoded[300];
        for (size_t i = 0; i < bytes; i++)
            packed[i] = (uint8_t)fby__random_next(&random_state);
        for (uint64_t i = 0; i < n_bits; i++) {
            const unsigned bit = packed[i / 8] >> (7 - i % 8) & 1;
            text[i] = (char)('0' + bit);
            little[i / 8] |= (uint8_t)(bit << i % 8);
        }
        (void)base64(packed, bytes, round % 2, encoded);
        for (int form = 0; form < 7; form++) {
            static const fby_bits_encoding ENCODINGS[] = {FBY_BITS_PACKED, FBY_BITS_PACKED_LITTLE, FBY_BITS_TEXT, FBY_BITS_BASE64,
                                                          FBY_BITS_AUTO,   FBY_BITS_AUTO,          FBY_BITS_TEXT};
            fixture *f = fixture_new(bits(n_bits, ENCODINGS[form]));
            const char *strings[] = {form == 3 ? encoded : text};
            f->dtype = DTYPES[round % N_DTYPES];
            if (form == 2 || form == 3 || form == 4)
                fixture_strings(f, "filter", FBY_KIND_STRING, strings, 1);
            else if (form == 6)
                fixture_values(f, "filter", FBY_KIND_FIXED_BINARY, FBY_UINT8, (uint32_t)n_bits, text, 1);
            else
                fixture_values(f, "filter", FBY_KIND_FIXED_BINARY, FBY_UINT8, (uint32_t)bytes, form == 1 ? little : packed, 1);
            if (fixture_run(f) != FBY_OK)
                fail_msg("form %d of %d bits: %s", form, (int)n_bits, f->err.message);
            assert_int_equal(f->made.ndim, 1);
            assert_int_equal(f->made.shape[0], n_bits);
            assert_int_equal(f->made.dtype, f->dtype);
            for (uint64_t i = 0; i < n_bits; i++)
                if (fixture_element(f, 0, i) != text[i] - '0')
                    fail_msg("form %d of %d bits as %s: bit %d is %g", form, (int)n_bits, fby_dtype_name(f->dtype), (int)i,
                             fixture_element(f, 0, i));
            fixture_free(f);
        }
    }
}

static void an_array_of_bytes_says_itself_how_many_bits_it_has(void **state)
{
    (void)state;
    const uint8_t rows[2][3] = {{0x80, 0, 1}, {0xff, 0x0f, 0x55}};
    fixture *f = fixture_new(bits(0, FBY_BITS_AUTO));
    fixture_values(f, "hash", FBY_KIND_INT, FBY_UINT8, 3, rows, 2);
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_int_equal(f->made.dtype, FBY_FLOAT32);
    assert_int_equal(f->made.shape[0], 24);
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < 24; i++)
            assert_true(fixture_element(f, s, i) == (rows[s][i / 8] >> (7 - i % 8) & 1));
    fixture_free(f);
}

static void whole_numbers_give_their_bits_lowest_first(void **state)
{
    (void)state;
    const int32_t values[] = {5, -2};
    fixture *f = fixture_new(bits(0, FBY_BITS_PACKED_LITTLE));
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT32, 1, values, 2);
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_int_equal(f->made.shape[0], 32);
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < 32; i++)
            assert_true(fixture_element(f, s, i) == ((uint32_t)values[s] >> i & 1));
    fixture_free(f);
    f = fixture_new(bits(0, FBY_BITS_PACKED));
    fixture_values(f, "code", FBY_KIND_INT, FBY_INT32, 1, values, 2);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "output 'x': column 'code' of type int32 holds whole numbers");
}

static void every_row_of_a_sample_has_bits_of_its_own(void **state)
{
    (void)state;
    fixture *f = fixture_new(bits(8, FBY_BITS_AUTO));
    (void)fixture_add(f, "hash", FBY__PANEL_DENSE, FBY_KIND_INT, FBY_UINT8, 1);
    const uint8_t rows[] = {0x80, 0x40, 0x20, 0x01};
    f->n = 3;
    f->max_rows = 3;
    const uint64_t n_rows[] = {1, 0, 3};
    for (size_t s = 0, at = 0; s < 3; at += n_rows[s], s++) {
        f->n_rows[s] = n_rows[s];
        f->data[0][s] = guarded_copy(rows + at, n_rows[s]);
    }
    assert_int_equal(fixture_run(f), FBY_OK);
    assert_true(fixture_element(f, 0, 0) == 1 && fixture_element(f, 2, 1) == 1 && fixture_element(f, 2, 8 + 2) == 1 &&
                fixture_element(f, 2, 23) == 1);
    fixture_free(f);
}

static const char *text_failure(uint64_t n, fby_bits_encoding encoding, const char *text)
{
    const char *texts[] = {"0101", text};
    fixture *f = fixture_new(bits(n, encoding));
    fixture_strings(f, "filter", FBY_KIND_STRING, encoding == FBY_BITS_BASE64 ? texts + 1 : texts, encoding == FBY_BITS_BASE64 ? 1 : 2);
    const char *message = fixture_failure(f, FBY_E_DATA);
    return message;
}

static void values_that_are_no_bits_are_refused_with_what_was_found(void **state)
{
    (void)state;
    assert_contains(text_failure(4, FBY_BITS_TEXT, "01"), "2 characters, where 4 bits take 4");
    assert_contains(text_failure(4, FBY_BITS_TEXT, "01x1"), "'x' at character 2, where '0' or '1' is expected");
    assert_contains(text_failure(4, FBY_BITS_TEXT, "011\xc3"), "byte 0xc3 at character 3");
    assert_contains(text_failure(4, FBY_BITS_TEXT, NULL), "a missing value has no bits");
    assert_contains(text_failure(16, FBY_BITS_BASE64, "AA=="), "base64 text of 2 characters, where 16 bits take 3");
    assert_contains(text_failure(16, FBY_BITS_BASE64, "A!A="), "a character that is none of base64");
    assert_contains(text_failure(16, FBY_BITS_BASE64, "AAA=="), "5 characters, with '=' where none belongs");
    const char *texts[] = {"0123456789012345678901234567890123456789"};
    for (size_t i = 0; i < 40; i++) { /* also where a vector looks at several at once */
        char text[41];
        memset(text, '1', 40);
        text[i] = i % 2 ? '2' : '/';
        text[40] = 0;
        texts[0] = text;
        fixture *f = fixture_new(bits(40, FBY_BITS_TEXT));
        fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
        char expect[40];
        (void)snprintf(expect, sizeof expect, "at character %zu,", i);
        assert_contains(fixture_failure(f, FBY_E_DATA), expect);
    }
}

static bool is_base64(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

/* Wherever it is and whatever it is: in whole vectors, in what is left of them, above 127. */
static void a_character_that_is_none_is_found_in_every_place(void **state)
{
    (void)state;
    uint8_t row[200];
    char encoded[300];
    for (size_t n = 1; n <= sizeof row; n++) {
        for (size_t i = 0; i < n; i++)
            row[i] = (uint8_t)('0' + fby__random_below(&random_state, 2));
        const size_t at = fby__random_below(&random_state, n);
        do
            row[at] = (uint8_t)fby__random_next(&random_state);
        while (row[at] == '0' || row[at] == '1');
        fixture *f = fixture_new(bits(n, FBY_BITS_TEXT));
        fixture_values(f, "filter", FBY_KIND_FIXED_BINARY, FBY_UINT8, (uint32_t)n, row, 1);
        char expect[40];
        (void)snprintf(expect, sizeof expect, "at character %zu,", at);
        assert_contains(fixture_failure(f, FBY_E_DATA), expect);

        const size_t digits = base64(row, n, false, encoded);
        uint8_t *bad = (uint8_t *)&encoded[fby__random_below(&random_state, digits)];
        do
            *bad = (uint8_t)fby__random_next(&random_state);
        while (is_base64(*bad) || *bad == '=' || *bad == 0);
        const char *texts[] = {encoded};
        f = fixture_new(bits(8 * n, FBY_BITS_BASE64));
        fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
        assert_contains(fixture_failure(f, FBY_E_DATA), "none of base64");
    }
}

static void the_sample_that_fails_is_named(void **state)
{
    (void)state;
    const char *texts[] = {"01", "10", "1", "11"};
    fixture *f = fixture_new(bits(2, FBY_BITS_TEXT));
    fixture_strings(f, "filter", FBY_KIND_STRING, texts, 4);
    assert_int_equal(fixture_run(f), FBY_E_DATA);
    assert_int_equal(f->bad, 2);
    fixture_free(f);
}

static void specifications_that_cannot_work_are_refused_at_creation(void **state)
{
    (void)state;
    const char *texts[] = {"01"};
    const float floats[] = {1};
    const uint8_t bytes[] = {1, 2, 3};
    fixture *f = fixture_new(bits(0, FBY_BITS_AUTO));
    fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "how many bits has a value of column 'filter'");
    f = fixture_new(bits(8, FBY_BITS_AUTO));
    fixture_values(f, "t", FBY_KIND_FLOAT, FBY_FLOAT32, 1, floats, 1);
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "holds no bits");
    f = fixture_new(bits(1024, FBY_BITS_AUTO));
    fixture_values(f, "hash", FBY_KIND_FIXED_BINARY, FBY_UINT8, 3, bytes, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "column 'hash' has 3 bytes a row, and 1024 bits are 128 bytes");
    f = fixture_new(bits((uint64_t)1 << 40, FBY_BITS_TEXT));
    fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "bits: 1 to");
    f = fixture_new(bits(2, (fby_bits_encoding)9));
    fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "unknown encoding");
    f = fixture_new(bits(2, FBY_BITS_TEXT));
    fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
    fixture_strings(f, "other", FBY_KIND_STRING, texts, 1);
    assert_contains(fixture_failure(f, FBY_E_ARG), "bits takes 1 column, not 2");
    f = fixture_new(bits(2, FBY_BITS_TEXT));
    fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
    f->max_rows = 3;
    f->n_rows[0] = 1;
    assert_contains(fixture_failure(f, FBY_E_UNSUPPORTED), "take that of its first row");
}

static fixture *any_fixture(void)
{
    const char *texts[] = {"AAA="};
    fixture *f = fixture_new(bits(16, FBY_BITS_BASE64));
    fixture_strings(f, "filter", FBY_KIND_STRING, texts, 1);
    return f;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture_fail_allocations(any_fixture);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_encoding_gives_the_same_bits_in_every_dtype),
    cmocka_unit_test(an_array_of_bytes_says_itself_how_many_bits_it_has),
    cmocka_unit_test(whole_numbers_give_their_bits_lowest_first),
    cmocka_unit_test(every_row_of_a_sample_has_bits_of_its_own),
    cmocka_unit_test(values_that_are_no_bits_are_refused_with_what_was_found),
    cmocka_unit_test(a_character_that_is_none_is_found_in_every_place),
    cmocka_unit_test(the_sample_that_fails_is_named),
    cmocka_unit_test(specifications_that_cannot_work_are_refused_at_creation),
    cmocka_unit_test(every_allocation_may_fail),
};

SIMD_MAIN(tests)
