/* Dates and times as text. */
#include "base/iso_time.h"

static bool parse_digits(const uint8_t **p, const uint8_t *end, int n, int *out)
{
    *out = 0;
    for (int i = 0; i < n; i++, (*p)++) {
        if (*p == end || **p < '0' || **p > '9')
            return false;
        *out = 10 * *out + (**p - '0');
    }
    return true;
}

static bool accept_char(const uint8_t **p, const uint8_t *end, uint8_t c)
{
    if (*p == end || **p != c)
        return false;
    (*p)++;
    return true;
}

/* Whole eras of 400 years, with years that begin in March. */
static int64_t days_of(int year, int month, int day)
{
    int y = year - (month <= 2), era = y / 400, of_era = y - era * 400;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool parse_date(const uint8_t **p, const uint8_t *end, int64_t *days)
{
    static const uint8_t LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y, m, d;
    if (!parse_digits(p, end, 4, &y) || !accept_char(p, end, '-') || !parse_digits(p, end, 2, &m) || !accept_char(p, end, '-') ||
        !parse_digits(p, end, 2, &d) || y < 1 || m < 1 || m > 12 || d < 1)
        return false;
    bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    if (d > LENGTHS[m - 1] + (m == 2 && leap))
        return false;
    *days = days_of(y, m, d);
    return true;
}

static bool parse_time(const uint8_t **p, const uint8_t *end, int64_t *out_ns)
{
    int h, m, s = 0;
    int64_t fraction = 0;
    if (!parse_digits(p, end, 2, &h) || !accept_char(p, end, ':') || !parse_digits(p, end, 2, &m) || h > 23 || m > 59)
        return false;
    if (accept_char(p, end, ':')) {
        if (!parse_digits(p, end, 2, &s) || s > 59)
            return false;
        if (accept_char(p, end, '.')) {
            int digits = 0;
            for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
                if (++digits <= 9)
                    fraction = 10 * fraction + (**p - '0');
            if (digits == 0 || digits > 9)
                return false;
            for (; digits < 9; digits++)
                fraction *= 10;
        }
    }
    *out_ns = ((h * 60 + m) * INT64_C(60) + s) * 1000000000 + fraction;
    return true;
}

static bool parse_zone(const uint8_t **p, const uint8_t *end, int64_t *out_seconds)
{
    int h, m = 0;
    *out_seconds = 0;
    if (accept_char(p, end, 'Z'))
        return true;
    bool east = accept_char(p, end, '+');
    if ((!east && !accept_char(p, end, '-')) || !parse_digits(p, end, 2, &h) || h > 23)
        return false;
    if (*p < end) {
        (void)accept_char(p, end, ':'); /* may be left out */
        if (!parse_digits(p, end, 2, &m) || m > 59)
            return false;
    }
    *out_seconds = (east ? 1 : -1) * (h * 60 + m) * INT64_C(60);
    return true;
}

bool fby__iso_time_parse(const uint8_t *p, size_t n, fby__iso_time *out)
{
    const uint8_t *end = p + n;
    *out = (fby__iso_time){0};
    if (!parse_date(&p, end, &out->days))
        return false;
    if (p == end)
        return true;
    out->has_time = true;
    if ((!accept_char(&p, end, 'T') && !accept_char(&p, end, ' ')) || !parse_time(&p, end, &out->ns))
        return false;
    if (p == end)
        return true;
    out->has_zone = true;
    return parse_zone(&p, end, &out->seconds_east) && p == end;
}
