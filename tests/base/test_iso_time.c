/* Dates and times as text: every day of four centuries against the calendar, times and offsets, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/iso_time.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool parse(const char *text, fby__iso_time *out) { return fby__iso_time_parse((const uint8_t *)text, strlen(text), out); }

static void every_day_is_the_one_after_the_day_before(void **state)
{
    (void)state;
    fby__iso_time t;
    char text[64];
    for (int64_t day = -200 * 366; day < 200 * 366; day++) {
        time_t seconds = (time_t)day * 86400;
        struct tm date;
        assert_non_null(gmtime_r(&seconds, &date));
        (void)strftime(text, sizeof text, "%Y-%m-%d", &date);
        assert_true(parse(text, &t));
        assert_int_equal(t.days, day);
        assert_false(t.has_time || t.has_zone);
    }
    assert_true(parse("0001-01-01", &t));
    assert_int_equal(t.days, -719162);
    assert_true(parse("9999-12-31", &t));
    assert_int_equal(t.days, 2932896);
}

static void times_have_fractions_and_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns, seconds_east;
        bool has_zone;
    } cases[] = {
        {"2000-02-29T00:00", 0, 0, false},
        {"2000-02-29 23:59:59", INT64_C(86399000000000), 0, false},
        {"2000-02-29T01:02:03.5", INT64_C(3723500000000), 0, false},
        {"2000-02-29T01:02:03.000000001Z", INT64_C(3723000000001), 0, true},
        {"2000-02-29T00:00+01:30", 0, 5400, true},
        {"2000-02-29T00:00-0130", 0, -5400, true},
        {"2000-02-29T00:00:00+14", 0, 50400, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fby__iso_time t;
        assert_true(parse(cases[i].text, &t));
        assert_int_equal(t.days, 11016);
        assert_true(t.has_time);
        assert_int_equal(t.ns, cases[i].ns);
        assert_int_equal(t.seconds_east, cases[i].seconds_east);
        assert_int_equal(t.has_zone, cases[i].has_zone);
    }
}

static void what_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {
        "",
        "2000",
        "2000-1-01",
        "2000-02-30",
        "1900-02-29",
        "2000-13-01",
        "2000-00-01",
        "2000-01-00",
        "0000-01-01",
        "20000101",
        "2000-01-01T",
        "2000-01-01T24:00",
        "2000-01-01T00:60",
        "2000-01-01T00:00:60",
        "2000-01-01T00:00:00.",
        "2000-01-01T00:00:00.0123456789",
        "2000-01-01T00:00X",
        "2000-01-01T00:00+",
        "2000-01-01T00:00+24:00",
        "2000-01-01T00:00+01:60",
        "2000-01-01T00:00Zx",
        "2000-01-01x",
        " 2000-01-01",
        "2000-01-01 ",
        "-2000-01-01",
        "2000-01-01t00:00",
    };
    fby__iso_time t;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (parse(none[i], &t))
            fail_msg("'%s' was taken", none[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_day_is_the_one_after_the_day_before),
        cmocka_unit_test(times_have_fractions_and_offsets),
        cmocka_unit_test(what_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
