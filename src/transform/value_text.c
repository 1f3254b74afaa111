/*
 * Values as text: see value_text.h.
 *
 * Shortest digits: 15 digits (6 of float32, 3 of float16) survive a round trip of any normal number, so what they print is the shortest
 * text once its zeros are gone, if it reads as the same value; else one digit more is tried, and so on. At a power of two the gap below is
 * half the gap above: a number of so many digits may then mean the value though the nearest such number does not. It is the next one up.
 * printf and strtod are given digits without a point, so that no locale comes in.
 */
#include "transform/value_text.h"

#include "block/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIGITS = 17 };

typedef struct float_form {
    fby_dtype dtype;
    int safe_digits; /* so many digits survive a round trip */
    double least_normal;
    double exponent_from; /* where notation with an exponent begins */
} float_form;

static const float_form FLOAT64_FORM = {FBY_FLOAT64, 15, 0x1p-1022, 1e16}, FLOAT32_FORM = {FBY_FLOAT32, 6, 0x1p-126, 1e6},
                        FLOAT16_FORM = {FBY_FLOAT16, 3, 0x1p-14, 1e3};

static const float_form *form_of(fby_dtype dtype)
{
    return dtype == FBY_FLOAT64 ? &FLOAT64_FORM : dtype == FBY_FLOAT16 ? &FLOAT16_FORM : &FLOAT32_FORM;
}

bool fby__value_has_text(const fby_field *field)
{
    switch (field->kind) {
    case FBY_KIND_NULL:
    case FBY_KIND_BOOL:
    case FBY_KIND_INT:
    case FBY_KIND_FLOAT:
    case FBY_KIND_DATE:
    case FBY_KIND_TIMESTAMP: return true;
    default: return false;
    }
}

const char *fby__value_missing_text(const fby_field *field, bool computed)
{
    if (computed)
        return "nan";
    switch (field->kind) {
    case FBY_KIND_BOOL:
    case FBY_KIND_INT: return "<NA>";
    case FBY_KIND_FLOAT: return "nan";
    case FBY_KIND_TIMESTAMP: return "NaT";
    default: return "None";
    }
}

/* ---- numbers ---- */

static size_t write_unsigned(uint64_t x, uint8_t *out)
{
    uint8_t digits[20];
    size_t n = 0;
    do {
        digits[n++] = (uint8_t)('0' + x % 10);
        x /= 10;
    } while (x);
    for (size_t i = 0; i < n; i++)
        out[i] = digits[n - 1 - i];
    return n;
}

static size_t write_signed(int64_t x, uint8_t *out)
{
    if (x >= 0)
        return write_unsigned((uint64_t)x, out);
    out[0] = '-';
    return 1 + write_unsigned(0 - (uint64_t)x, out + 1);
}

/* `digits` · 10^exponent as the nearest number of the form's dtype. */
static double nearest(const float_form *f, uint64_t digits, int exponent)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%" PRIu64 "e%d", digits, exponent);
    if (f->dtype == FBY_FLOAT64)
        return strtod(text, NULL);
    if (f->dtype == FBY_FLOAT32)
        return (double)strtof(text, NULL);
    /* at most 5 digits: the double is nearest to them, and no tie of float16 is so near to a number of 5 digits without being it */
    uint16_t half;
    size_t bad;
    const double x = strtod(text, NULL);
    (void)fby__convert(FBY_FLOAT16, &half, FBY_FLOAT64, &x, 1, FBY__SCALE_NONE, &bad); /* too large is infinite: not the value either */
    return (double)fby__float16_to_float(half);
}

/* x > 0 rounded to n digits: digits · 10^exponent. */
static uint64_t round_to(double x, int n, int *exponent)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%.*e", n - 1, x);
    uint64_t digits = 0;
    const char *p = text;
    for (; *p != 'e'; p++) /* over the point, whatever the locale makes of it */
        if (*p >= '0' && *p <= '9')
            digits = digits * 10 + (uint64_t)(*p - '0');
    *exponent = (int)strtol(p + 1, NULL, 10) - (n - 1);
    return digits;
}

/* The fewest digits that mean x, and of those the nearest. */
static uint64_t shortest(const float_form *f, double x, int *exponent)
{
    int e;
    const bool is_power = frexp(x, &e) == 0.5;
    for (int n = x >= f->least_normal && !is_power ? f->safe_digits : 1;; n++) {
        uint64_t digits = round_to(x, n, exponent);
        if (nearest(f, digits, *exponent) == x || n == MAX_DIGITS)
            return digits;
        if (is_power && nearest(f, digits + 1, *exponent) == x)
            return digits + 1;
    }
}

static size_t write_exponent(const uint8_t *digits, size_t n, int exponent, uint8_t *out)
{
    size_t k = 0;
    out[k++] = digits[0];
    if (n > 1) {
        out[k++] = '.';
        memcpy(out + k, digits + 1, n - 1);
        k += n - 1;
    }
    out[k++] = 'e';
    out[k++] = exponent < 0 ? '-' : '+';
    const unsigned e = (unsigned)abs(exponent);
    if (e < 10)
        out[k++] = '0';
    return k + write_unsigned(e, out + k);
}

/* Digits with a point: `before` of them stand before it; 0 or fewer of them are zeros behind it. */
static size_t write_positional(const uint8_t *digits, size_t n, int before, uint8_t *out)
{
    size_t k = 0;
    if (before <= 0) {
        memcpy(out, "0.", 2);
        k = 2;
        memset(out + k, '0', (size_t)-before);
        k += (size_t)-before;
        memcpy(out + k, digits, n);
        return k + n;
    }
    const size_t whole = (size_t)before;
    for (; k < whole; k++)
        out[k] = k < n ? digits[k] : '0';
    out[k++] = '.';
    if (n <= whole) {
        out[k++] = '0';
        return k;
    }
    memcpy(out + k, digits + whole, n - whole);
    return k + n - whole;
}

static size_t write_float(const float_form *f, double x, uint8_t *out)
{
    if (x != x)
        return (size_t)(memcpy(out, "nan", 3), 3);
    size_t k = 0;
    if (signbit(x)) {
        out[k++] = '-';
        x = -x;
    }
    if (isinf(x))
        return (size_t)(memcpy(out + k, "inf", 3), k + 3);
    uint8_t digits[20];
    size_t n = 1;
    int exponent = 0;
    digits[0] = '0';
    if (x > 0)
        n = write_unsigned(x == floor(x) && x < 1e6 && x < f->exponent_from ? (uint64_t)x : shortest(f, x, &exponent), digits);
    const int before = (int)n + exponent;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (x != 0 && (x < 1e-4 || x >= f->exponent_from))
        return k + write_exponent(digits, n, before - 1, out + k);
    return k + write_positional(digits, n, before, out + k);
}

/* ---- times ---- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t floor_rest(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

static size_t write_padded(uint64_t x, size_t n, uint8_t *out)
{
    for (size_t i = n; i-- > 0; x /= 10)
        out[i] = (uint8_t)('0' + x % 10);
    return n;
}

/* Days since 1970-01-01 in the proleptic Gregorian calendar, in eras of 400 years that begin on March 1st. */
static size_t write_date(int64_t days, uint8_t *out)
{
    const int64_t shifted = days + 719468, era = floor_div(shifted, 146097);
    const uint64_t of_era = (uint64_t)(shifted - era * 146097);
    const uint64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const uint64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100), march = (5 * of_year + 2) / 153;
    const uint64_t day = of_year - (153 * march + 2) / 5 + 1, month = march < 10 ? march + 3 : march - 9;
    const int64_t year = (int64_t)year_of_era + era * 400 + (month <= 2);
    size_t k = 0;
    if (year < 0)
        out[k++] = '-';
    const uint64_t absolute = year < 0 ? (uint64_t)-year : (uint64_t)year;
    k += absolute < 10000 ? write_padded(absolute, year < 0 ? 3 : 4, out + k) : write_unsigned(absolute, out + k);
    out[k++] = '-';
    k += write_padded(month, 2, out + k);
    out[k++] = '-';
    return k + write_padded(day, 2, out + k);
}

static size_t write_timestamp(const fby_field *field, int64_t x, uint8_t *out)
{
    const int64_t second = field->unit == FBY_UNIT_NS   ? 1000000000
                           : field->unit == FBY_UNIT_US ? 1000000
                           : field->unit == FBY_UNIT_MS ? 1000
                                                        : 1;
    const int64_t seconds = floor_div(x, second), days = floor_div(seconds, 86400), of_day = floor_rest(seconds, 86400);
    const uint64_t fraction = (uint64_t)floor_rest(x, second) * (uint64_t)(1000000000 / second);
    size_t k = write_date(days, out);
    if (of_day || fraction || field->utc) {
        out[k++] = ' ';
        k += write_padded((uint64_t)of_day / 3600, 2, out + k);
        out[k++] = ':';
        k += write_padded((uint64_t)of_day / 60 % 60, 2, out + k);
        out[k++] = ':';
        k += write_padded((uint64_t)of_day % 60, 2, out + k);
    }
    if (fraction) {
        const size_t digits = fraction % 1000000 == 0 ? 3 : fraction % 1000 == 0 ? 6 : 9;
        out[k++] = '.';
        k += write_padded(fraction / (digits == 3 ? 1000000 : digits == 6 ? 1000 : 1), digits, out + k);
    }
    if (field->utc)
        k += (size_t)(memcpy(out + k, "+00:00", 6), 6);
    return k;
}

/* ---- all ---- */

size_t fby__value_write(const fby_field *field, fby_dtype dtype, const void *value, uint8_t out[FBY__VALUE_TEXT_BYTES])
{
    size_t bad;
    if (dtype >= FBY_FLOAT16) {
        double x = 0;
        (void)fby__convert(FBY_FLOAT64, &x, dtype, value, 1, FBY__SCALE_NONE, &bad); /* every float is one */
        return write_float(form_of(dtype), x, out);
    }
    if (dtype == FBY_UINT64) {
        uint64_t x;
        memcpy(&x, value, sizeof x);
        return write_unsigned(x, out);
    }
    int64_t x = 0;
    (void)fby__convert(FBY_INT64, &x, dtype, value, 1, FBY__SCALE_NONE, &bad); /* every narrower integer is one */
    switch (field->kind) {
    case FBY_KIND_BOOL: return x ? (size_t)(memcpy(out, "True", 4), 4) : (size_t)(memcpy(out, "False", 5), 5);
    case FBY_KIND_DATE: return write_date(x, out);
    case FBY_KIND_TIMESTAMP: return write_timestamp(field, x, out);
    default: return write_signed(x, out);
    }
}
