/* Durations as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/duration.h"

static void words_are_nanoseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } CASES[] = {{"1 day", 86400000000000},
                 {"2days", 172800000000000},
                 {"6 hours", 21600000000000},
                 {"10 min", 600000000000},
                 {"30 s", 30000000000},
                 {"20 ms", 20000000},
                 {"5 us", 5000},
                 {"5 µs", 5000},
                 {"7 ns", 7},
                 {"106751 days", UINT64_C(106751) * 86400000000000}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_int_equal(fby__duration_ns(CASES[i].text), CASES[i].ns);
}

static void what_is_none_is_0(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"",
                                        "day",
                                        "0 s",
                                        "-1 s",
                                        "1.5 s",
                                        "1",
                                        "1 month",
                                        "1 dayz",
                                        " 1 s",
                                        "1 s ",
                                        "1  s2",
                                        "1\ns",
                                        "106752 days",
                                        "18446744073709551616 ns",
                                        "99999999999999999999 days"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        assert_int_equal(fby__duration_ns(TEXTS[i]), 0);
}

static void nanoseconds_are_words_in_their_largest_unit(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } CASES[] = {{86400000000000, "1 day"},
                 {-172800000000000, "-2 days"},
                 {129600000000000, "36 hours"},
                 {3600000000000, "1 hour"},
                 {5400000000000, "90 min"},
                 {1500000000, "1500 ms"},
                 {1000, "1 us"},
                 {0, "0 ns"},
                 {INT64_MIN, "-9223372036854775808 ns"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[FBY__DURATION_CHARS];
        fby__duration_text(CASES[i].ns, text);
        assert_string_equal(text, CASES[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_nanoseconds), cmocka_unit_test(what_is_none_is_0),
                                       cmocka_unit_test(nanoseconds_are_words_in_their_largest_unit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
