/*
 * Cells as values: what a cell could be, and the type that all cells of a column share.
 *
 * Numbers and dates may have spaces around them, and quotes. No locale is involved. Numbers are read as C reads them (no hexadecimal
 * ones, no separators of thousands); a date is YYYY-MM-DD, a timestamp a date, a 'T' or a space, and HH:MM, HH:MM:SS or HH:MM:SS.f
 * with an optional Z, ±HH:MM, ±HHMM or ±HH (ISO 8601, years 0001 to 9999).
 */
#include "base/dtype.h"
#include "base/iso_time.h"
#include "base/number.h"
#include "format/csv/csv.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* Are eight bytes digits, 0x30 to 0x39? Their high halves are 3, and still are once 6 is added, which carries into no other byte. */
static bool are_digits(const uint8_t *p)
{
    const uint64_t high = UINT64_C(0xf0f0f0f0f0f0f0f0), threes = UINT64_C(0x3030303030303030);
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return (v & high) == threes && ((v + UINT64_C(0x0606060606060606)) & high) == threes;
}

static void trim(const uint8_t **p, size_t *n)
{
    while (*n && **p == ' ')
        (*p)++, (*n)--;
    while (*n && (*p)[*n - 1] == ' ')
        (*n)--;
}

static bool is_word(const uint8_t *p, size_t n, const char *lower)
{
    size_t i = 0;
    for (; i < n && lower[i]; i++)
        if ((p[i] | 0x20) != lower[i])
            return false;
    return i == n && !lower[i];
}

/* ---- numbers ---- */

/* A decimal number taken apart: ±mantissa × 10^exponent when exact. */
typedef struct number {
    uint64_t mantissa;
    int exponent;
    bool negative, integer;
    bool padded; /* a plus sign, or a zero before the first digit that counts */
    bool exact;  /* the mantissa holds all digits */
} number;

#define MAX_NUMBER_BYTES 1100 /* the longest double has 767 digits that matter; longer ones are text */
#define MAX_EXPONENT 99999    /* beyond every double; keeps sums small */

static bool parse_number(const uint8_t *p, size_t n, number *out)
{
    size_t i = 0, digits = 0;
    bool point = false;
    *out = (number){.integer = true, .exact = true};
    if (n > MAX_NUMBER_BYTES)
        return false;
    if (i < n && (p[i] == '+' || p[i] == '-'))
        out->negative = p[i++] == '-';
    out->padded = (i == 1 && !out->negative) || (i + 1 < n && p[i] == '0' && is_digit(p[i + 1]));
    for (; i < n && (is_digit(p[i]) || (p[i] == '.' && !point)); i++) {
        if (p[i] == '.') {
            point = true;
            out->integer = false;
            continue;
        }
        uint64_t grown;
        digits++;
        if (out->exact && (__builtin_mul_overflow(out->mantissa, 10, &grown) || __builtin_add_overflow(grown, p[i] - '0', &grown)))
            out->exact = false;
        if (out->exact) {
            out->mantissa = grown;
            out->exponent -= point;
        } else {
            while (n - i > 8 && are_digits(p + i + 1)) /* further digits change nothing: long runs of them are filters of bits */
                i += 8;
        }
    }
    if (digits == 0)
        return false;
    if (i < n && (p[i] | 0x20) == 'e') {
        int e = 0;
        bool down = false;
        out->integer = false;
        if (++i < n && (p[i] == '+' || p[i] == '-'))
            down = p[i++] == '-';
        if (i == n || !is_digit(p[i]))
            return false;
        for (; i < n && is_digit(p[i]); i++)
            e = e < MAX_EXPONENT ? 10 * e + (p[i] - '0') : e;
        out->exponent += down ? -e : e;
    }
    return i == n;
}

static bool is_special(const uint8_t *p, size_t n)
{
    size_t sign = n && (*p == '+' || *p == '-');
    return is_word(p + sign, n - sign, "nan") || is_word(p + sign, n - sign, "inf") || is_word(p + sign, n - sign, "infinity");
}

static fby__csv_class integer_class(const number *x, int64_t *out)
{
    uint64_t limit = (uint64_t)INT64_MAX + x->negative;
    if (!x->exact || x->mantissa > limit)
        return FBY__CSV_BIG;
    *out = x->negative ? (int64_t)(0 - x->mantissa) : (int64_t)x->mantissa;
    /* 53 bits, with zeros behind them. */
    bool holds = x->mantissa <= UINT64_C(1) << 53 || (64 - __builtin_clzll(x->mantissa)) - __builtin_ctzll(x->mantissa) <= 53;
    return holds ? FBY__CSV_INT : FBY__CSV_LONG;
}

bool fby__csv_integer(const uint8_t *p, size_t n, fby_dtype dtype, uint64_t *out)
{
    number x;
    trim(&p, &n);
    if (!parse_number(p, n, &x) || !x.integer || !x.exact)
        return false;
    unsigned bits = 8 * (unsigned)fby_dtype_bytes(dtype);
    uint64_t most = fby__dtype_is_unsigned(dtype) ? UINT64_MAX >> (64 - bits) : (UINT64_C(1) << (bits - 1)) - 1 + x.negative;
    if (x.mantissa > most || (x.negative && x.mantissa > 0 && fby__dtype_is_unsigned(dtype)))
        return false;
    *out = x.negative ? 0 - x.mantissa : x.mantissa;
    return true;
}

/* Any number, as strtod reads it in the C locale. */
static double slow_double(const uint8_t *p, size_t n)
{
    char text[MAX_NUMBER_BYTES + 1];
    memcpy(text, p, n);
    text[n] = 0;
    return fby__strtod(text, NULL);
}

#if LDBL_MANT_DIG == 64
/*
 * x87: 64 bits hold the mantissa and powers to 10^27, so one operation is off by half a unit of the 64th bit at most. The double next to
 * it is then the one next to the number, unless the result is just in the middle between two.
 */
static bool wide_double(const number *x, double *out)
{
    static const long double POWERS[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                         1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    if (!x->exact || x->exponent < -27 || x->exponent > 27)
        return false;
    long double m = (long double)x->mantissa;
    m = x->exponent < 0 ? m / POWERS[-x->exponent] : m * POWERS[x->exponent];
    uint64_t bits;
    memcpy(&bits, &m, sizeof bits);
    *out = x->negative ? -(double)m : (double)m;
    return (bits & 0x7ff) != 0x400;
}
#else
static bool wide_double(const number *x, double *out)
{
    (void)x;
    (void)out;
    return false;
}
#endif

bool fby__csv_double(const uint8_t *p, size_t n, double *out)
{
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    number x;
    trim(&p, &n);
    if (!parse_number(p, n, &x)) {
        *out = n >= 3 && is_word(p + n - 3, 3, "nan") ? (double)NAN : n && *p == '-' ? -INFINITY : (double)INFINITY;
        return is_special(p, n);
    }
    /* Clinger: both are exact doubles, so one operation rounds once. */
    if (x.exact && x.mantissa <= UINT64_C(1) << 53 && x.exponent >= -22 && x.exponent <= 22) {
        double m = (double)x.mantissa;
        m = x.exponent < 0 ? m / POWERS[-x.exponent] : m * POWERS[x.exponent];
        *out = x.negative ? -m : m;
    } else if (!wide_double(&x, out)) {
        *out = slow_double(p, n);
    }
    return isfinite(*out);
}

/* ---- dates ---- */

/* Finer fractions than µs are no timestamp, so that nothing is lost unnoticed. */
static fby__csv_class parse_date(const uint8_t *p, size_t n, int64_t *out)
{
    fby__iso_time t;
    if (!fby__iso_time_parse(p, n, &t) || t.ns % 1000)
        return FBY__CSV_STRING;
    *out = t.has_time ? t.days * INT64_C(86400000000) + t.ns / 1000 - t.seconds_east * 1000000 : t.days;
    return !t.has_time ? FBY__CSV_DATE : t.has_zone ? FBY__CSV_UTC : FBY__CSV_LOCAL;
}

/* ---- a cell, a column ---- */

fby__csv_class fby__csv_classify(const uint8_t *p, size_t n, int64_t *out)
{
    trim(&p, &n);
    if (n == 0)
        return FBY__CSV_STRING; /* nothing but spaces */
    uint8_t c = *p | 0x20;
    if (c == 't' || c == 'f') {
        *out = c == 't';
        bool lower = n > 1 && p[n - 1] >= 'a';
        for (size_t i = 1; i < n; i++)
            if ((p[i] >= 'a') != lower)
                return FBY__CSV_STRING;
        if (*p >= 'a' && !lower)
            return FBY__CSV_STRING;
        return is_word(p, n, c == 't' ? "true" : "false") ? FBY__CSV_BOOL : FBY__CSV_STRING;
    }
    if (n >= 10 && p[4] == '-' && is_digit(p[3]))
        return parse_date(p, n, out);
    number x;
    if (parse_number(p, n, &x)) {
        double real;
        if (!x.integer && (x.exponent > 280 || !x.exact) && !fby__csv_double(p, n, &real))
            return FBY__CSV_BIG;
        if (!x.integer)
            return x.padded ? FBY__CSV_PADDED_FLOAT : FBY__CSV_FLOAT;
        fby__csv_class class = integer_class(&x, out);
        return x.padded && class != FBY__CSV_BIG ? FBY__CSV_PADDED : class;
    }
    return !is_special(p, n) ? FBY__CSV_STRING : *p == '+' ? FBY__CSV_PADDED_FLOAT : FBY__CSV_FLOAT;
}

fby__csv_origin fby__csv_type(unsigned classes, fby_field *out)
{
    *out = (fby_field){.kind = FBY_KIND_STRING, .nullable = true};
    if (classes == FBY__CSV_NULL) {
        out->kind = FBY_KIND_NULL;
    } else if (classes == FBY__CSV_BOOL) {
        out->kind = FBY_KIND_BOOL;
        out->dtype = FBY_BOOL;
    } else if (!(classes & ~(unsigned)(FBY__CSV_INT | FBY__CSV_LONG))) {
        out->kind = FBY_KIND_INT;
        out->dtype = FBY_INT64;
    } else if (!(classes & ~(unsigned)(FBY__CSV_INT | FBY__CSV_FLOAT))) {
        out->kind = FBY_KIND_FLOAT;
        out->dtype = FBY_FLOAT64;
    } else if (classes == FBY__CSV_DATE) {
        out->kind = FBY_KIND_DATE;
        out->dtype = FBY_INT32;
    } else if (classes == FBY__CSV_UTC || classes == FBY__CSV_LOCAL || classes == (FBY__CSV_LOCAL | FBY__CSV_DATE)) {
        out->kind = FBY_KIND_TIMESTAMP;
        out->dtype = FBY_INT64;
        out->unit = FBY_UNIT_US;
        out->utc = classes == FBY__CSV_UTC;
    }
    if (out->kind != FBY_KIND_STRING || (classes & ~FBY__CSV_NUMBERS))
        return FBY__CSV_FOUND;
    return classes & (FBY__CSV_BIG | FBY__CSV_FLOAT) ? FBY__CSV_NUMBER_TEXT : FBY__CSV_INT_TEXT;
}
