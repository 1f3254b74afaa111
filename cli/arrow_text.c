/*
 * Values of Arrow arrays as text and as JSON: a reader of the C data interface for the types that libforebay exports.
 *
 * The arrays come from the library itself: what Arrow calls valid is taken for granted here. A type that is not known shows
 * as its format string in angle brackets.
 *
 * An element's place: element i of an array lies at i + offset in its buffers, children included, except where a child is
 * longer than its parent (fixed-size lists: times the size; lists: by the offsets).
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool bit_at(const void *bits, int64_t i) { return ((const uint8_t *)bits)[i / 8] >> (i % 8) & 1; }

static bool is_null(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t at)
{
    if (schema->format[0] == 'n')
        return true;
    return array->n_buffers > 0 && array->buffers[0] && !bit_at(array->buffers[0], at);
}

bool cli_arrow_is_number(const struct ArrowSchema *schema)
{
    return schema->format[0] != 0 && strchr("cCsSiIlLefgd", schema->format[0]) && !schema->dictionary;
}

/* --- numbers --------------------------------------------------------------------------------------------------------------- */

static double half_to_double(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double mantissa = h & 1023, value;
    if (exponent == 31)
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, -24);
    else
        value = ldexp(mantissa + 1024, exponent - 25);
    return h & 0x8000 ? -value : value;
}

/** Integer of a one-letter format; false for others. Unsigned 64-bit values beyond int64 come back as negative with *big. */
static bool integer_at(char format, const void *data, int64_t at, int64_t *out, bool *big)
{
    *big = false;
    switch (format) {
    case 'c': *out = ((const int8_t *)data)[at]; return true;
    case 'C': *out = ((const uint8_t *)data)[at]; return true;
    case 's': *out = ((const int16_t *)data)[at]; return true;
    case 'S': *out = ((const uint16_t *)data)[at]; return true;
    case 'i': *out = ((const int32_t *)data)[at]; return true;
    case 'I': *out = ((const uint32_t *)data)[at]; return true;
    case 'l': *out = ((const int64_t *)data)[at]; return true;
    case 'L':
        *out = ((const int64_t *)data)[at];
        *big = *out < 0;
        return true;
    default: return false;
    }
}

static bool real_at(char format, const void *data, int64_t at, double *out)
{
    switch (format) {
    case 'e': *out = half_to_double(((const uint16_t *)data)[at]); return true;
    case 'f': *out = (double)((const float *)data)[at]; return true;
    case 'g': *out = ((const double *)data)[at]; return true;
    default: return false;
    }
}

/** "d:precision,scale[,bits]": two's complement, little endian, of 32 to 256 bits. */
static void decimal_text(const char *format, const void *data, int64_t at, cli_text *out)
{
    long scale = 0, bits = 128;
    char *end;
    (void)strtol(format + 2, &end, 10);
    if (*end == ',')
        scale = strtol(end + 1, &end, 10);
    if (*end == ',')
        bits = strtol(end + 1, NULL, 10);
    size_t n_limbs = bits >= 32 && bits <= 256 ? (size_t)bits / 32 : 4;
    uint32_t limbs[8];
    memcpy(limbs, (const uint8_t *)data + (size_t)at * n_limbs * 4, n_limbs * 4);

    bool negative = limbs[n_limbs - 1] >> 31;
    if (negative) {
        uint64_t carry = 1;
        for (size_t i = 0; i < n_limbs; i++) {
            carry += (uint32_t)~limbs[i];
            limbs[i] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    char digits[96]; /* 2^256 has 78; least significant first */
    size_t n = 0;
    bool zero = false;
    while (!zero) {
        uint64_t rest = 0;
        zero = true;
        for (size_t i = n_limbs; i-- > 0;) {
            rest = rest << 32 | limbs[i];
            limbs[i] = (uint32_t)(rest / 10);
            rest %= 10;
            zero = zero && limbs[i] == 0;
        }
        digits[n++] = (char)('0' + rest);
    }
    if (negative)
        cli_text_add(out, "-");
    if (scale > 0) { /* at least one digit before the point */
        while (n <= (size_t)scale && n < sizeof digits - 1)
            digits[n++] = '0';
    }
    while (n > 0) {
        cli_text_add_n(out, &digits[--n], 1);
        if (scale > 0 && n == (size_t)scale)
            cli_text_add(out, ".");
    }
    for (long i = scale; i < 0 && i > -64; i++)
        cli_text_add(out, "0");
}

/* --- times ----------------------------------------------------------------------------------------------------------------- */

static int64_t units_per_second(char unit) { return unit == 's' ? 1 : unit == 'm' ? 1000 : unit == 'u' ? 1000000 : 1000000000; }
static int unit_digits(char unit) { return unit == 's' ? 0 : unit == 'm' ? 3 : unit == 'u' ? 6 : 9; }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static void date_text(int64_t days, cli_text *out)
{
    /* Days since 1970-01-01 to the Gregorian calendar, for any int64 number of days that a second count can reach
       (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"). */
    int64_t z = days + 719468, era = floor_div(z, 146097);
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted_month = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    int64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
    int64_t year = year_of_era + era * 400 + (month <= 2);
    cli_text_addf(out, "%04lld-%02lld-%02lld", (long long)year, (long long)month, (long long)day);
}

/** A time of day in units; the fraction only where there is one. */
static void clock_text(int64_t units, char unit, cli_text *out)
{
    int64_t per_second = units_per_second(unit), seconds = floor_div(units, per_second), fraction = units - seconds * per_second;
    cli_text_addf(out, "%02lld:%02lld:%02lld", (long long)(seconds / 3600), (long long)(seconds / 60 % 60), (long long)(seconds % 60));
    if (fraction)
        cli_text_addf(out, ".%0*lld", unit_digits(unit), (long long)fraction);
}

/** Formats "t…": dates, times, timestamps, durations, intervals. `between` separates date and time. */
static void time_text(const char *format, const void *data, int64_t at, const char *between, cli_text *out)
{
    char unit = format[2];
    int64_t value;
    switch (format[1]) {
    case 'd':
        if (unit == 'D')
            date_text(((const int32_t *)data)[at], out);
        else
            date_text(floor_div(((const int64_t *)data)[at], 86400000), out);
        break;
    case 't':
        value = unit == 's' || unit == 'm' ? ((const int32_t *)data)[at] : ((const int64_t *)data)[at];
        clock_text(value, unit, out);
        break;
    case 's': {
        value = ((const int64_t *)data)[at];
        int64_t per_day = 86400 * units_per_second(unit), day = floor_div(value, per_day);
        date_text(day, out);
        cli_text_add(out, between);
        clock_text(value - day * per_day, unit, out);
        if (between[0] == 'T' && format[3] == ':' && format[4]) /* values with a zone are in UTC, whatever the zone shown */
            cli_text_add(out, "Z");
        break;
    }
    case 'D':
        cli_text_addf(out, "%lld %s", (long long)((const int64_t *)data)[at],
                      unit == 's'   ? "s"
                      : unit == 'm' ? "ms"
                      : unit == 'u' ? "us"
                                    : "ns");
        break;
    case 'i':
        if (unit == 'M') {
            cli_text_addf(out, "%d months", ((const int32_t *)data)[at]);
        } else if (unit == 'D') {
            const int32_t *v = (const int32_t *)data + at * 2;
            cli_text_addf(out, "%d days %d ms", v[0], v[1]);
        } else {
            int32_t months_days[2];
            memcpy(months_days, (const uint8_t *)data + at * 16, sizeof months_days);
            memcpy(&value, (const uint8_t *)data + at * 16 + 8, sizeof value);
            cli_text_addf(out, "%d months %d days %lld ns", months_days[0], months_days[1], (long long)value);
        }
        break;
    default: cli_text_addf(out, "<%s>", format); break;
    }
}

/* --- bytes and lists --------------------------------------------------------------------------------------------------------- */

/** The bytes of a string or binary element; false for other formats. */
static bool bytes_at(const char *format, const struct ArrowArray *array, int64_t at, const char **out, size_t *out_n)
{
    int64_t begin, end;
    switch (format[0]) {
    case 'u':
    case 'z': begin = ((const int32_t *)array->buffers[1])[at], end = ((const int32_t *)array->buffers[1])[at + 1]; break;
    case 'U':
    case 'Z': begin = ((const int64_t *)array->buffers[1])[at], end = ((const int64_t *)array->buffers[1])[at + 1]; break;
    case 'w':
        end = strtoll(format + 2, NULL, 10);
        *out = (const char *)array->buffers[1] + at * end;
        *out_n = (size_t)end;
        return true;
    default: return false;
    }
    *out_n = (size_t)(end - begin);
    *out = *out_n ? (const char *)array->buffers[2] + begin : "";
    return true;
}

/** The child's range of elements of a list or map; false for other formats. */
static bool range_at(const char *format, const struct ArrowArray *array, int64_t at, int64_t *begin, int64_t *end)
{
    if (format[0] != '+')
        return false;
    switch (format[1]) {
    case 'l':
    case 'm': *begin = ((const int32_t *)array->buffers[1])[at], *end = ((const int32_t *)array->buffers[1])[at + 1]; return true;
    case 'L': *begin = ((const int64_t *)array->buffers[1])[at], *end = ((const int64_t *)array->buffers[1])[at + 1]; return true;
    case 'w': {
        int64_t size = strtoll(format + 3, NULL, 10);
        *begin = at * size;
        *end = *begin + size;
        return true;
    }
    default: return false;
    }
}

static bool is_text(const char *format) { return format[0] == 'u' || format[0] == 'U'; }

/* --- text -------------------------------------------------------------------------------------------------------------------- */

static void bytes_text(const char *format, const char *data, size_t n, size_t limit, bool quoted, cli_text *out)
{
    size_t shown = n < limit ? n : limit;
    if (is_text(format)) {
        cli_text_add(out, quoted ? "\"" : "");
        cli_text_add_escaped(out, data, shown);
        cli_text_add(out, shown < n ? "…" : "");
        cli_text_add(out, quoted ? "\"" : "");
        return;
    }
    cli_text_add(out, "b\"");
    for (size_t i = 0; i < shown; i++)
        cli_text_addf(out, data[i] >= 0x20 && data[i] < 0x7f && data[i] != '"' && data[i] != '\\' ? "%c" : "\\x%02x",
                      (unsigned char)data[i]);
    cli_text_add(out, shown < n ? "…\"" : "\"");
}

static void list_text(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t begin, int64_t end, size_t limit,
                      cli_text *out)
{
    bool map = schema->format[1] == 'm';
    size_t start = out->n;
    cli_text_add(out, map ? "{" : "[");
    for (int64_t i = begin; i < end; i++) {
        if (i > begin)
            cli_text_add(out, ", ");
        if (out->n - start > limit) {
            cli_text_addf(out, "… %s more", cli_count((uint64_t)(end - i)));
            break;
        }
        if (map) {
            const struct ArrowArray *entries = array->children[0];
            const struct ArrowSchema *entry = schema->children[0];
            cli_arrow_text(entry->children[0], entries->children[0], i + entries->offset, limit, true, out);
            cli_text_add(out, ": ");
            cli_arrow_text(entry->children[1], entries->children[1], i + entries->offset, limit, true, out);
        } else {
            cli_arrow_text(schema->children[0], array->children[0], i, limit, true, out);
        }
    }
    cli_text_add(out, map ? "}" : "]");
}

void cli_arrow_text(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t i, size_t limit, bool quoted, cli_text *out)
{
    const char *format = schema->format, *data;
    const void *values = array->n_buffers > 1 ? array->buffers[1] : NULL;
    int64_t at = i + array->offset, integer, end;
    double real;
    bool big;
    size_t n;
    if (is_null(schema, array, at)) {
        cli_text_add(out, "null");
    } else if (schema->dictionary) {
        if (integer_at(format[0], values, at, &integer, &big))
            cli_arrow_text(schema->dictionary, array->dictionary, integer, limit, quoted, out);
    } else if (format[0] == 'b') {
        cli_text_add(out, bit_at(values, at) ? "true" : "false");
    } else if (integer_at(format[0], values, at, &integer, &big)) {
        if (big)
            cli_text_addf(out, "%llu", (unsigned long long)integer);
        else
            cli_text_addf(out, "%lld", (long long)integer);
    } else if (real_at(format[0], values, at, &real)) {
        if (isnan(real))
            cli_text_add(out, "NaN");
        else
            cli_text_addf(out, format[0] == 'g' ? "%.8g" : format[0] == 'f' ? "%.6g" : "%.4g", real);
    } else if (format[0] == 'd') {
        decimal_text(format, values, at, out);
    } else if (format[0] == 't') {
        time_text(format, values, at, " ", out);
    } else if (bytes_at(format, array, at, &data, &n)) {
        bytes_text(format, data, n, limit, quoted, out);
    } else if (range_at(format, array, at, &integer, &end)) {
        list_text(schema, array, integer, end, limit, out);
    } else if (strcmp(format, "+s") == 0) {
        size_t start = out->n;
        cli_text_add(out, "{");
        for (int64_t c = 0; c < schema->n_children; c++) {
            cli_text_add(out, c ? ", " : "");
            if (out->n - start > limit) {
                cli_text_add(out, "…");
                break;
            }
            cli_text_add_escaped(out, schema->children[c]->name, strlen(schema->children[c]->name));
            cli_text_add(out, ": ");
            cli_arrow_text(schema->children[c], array->children[c], at, limit, true, out);
        }
        cli_text_add(out, "}");
    } else {
        cli_text_addf(out, "<%s>", format);
    }
}

/* --- JSON -------------------------------------------------------------------------------------------------------------------- */

static json_t *text_json(cli_text *text)
{
    json_t *value = json_stringn(cli_text_str(text), text->n);
    cli_text_free(text);
    return value ? value : json_null();
}

static json_t *bytes_json(const char *format, const char *data, size_t n)
{
    json_t *value = is_text(format) ? json_stringn(data, n) : NULL;
    if (value)
        return value;
    cli_text text = {0};
    if (is_text(format)) { /* not UTF-8: JSON cannot hold it as it is */
        cli_text_add_escaped(&text, data, n);
    } else {
        for (size_t i = 0; i < n; i++)
            cli_text_addf(&text, "%02x", (unsigned char)data[i]);
    }
    return text_json(&text);
}

static json_t *list_json(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t begin, int64_t end)
{
    json_t *list = json_array();
    for (int64_t i = begin; i < end; i++)
        json_array_append_new(list, cli_arrow_json(schema->children[0], array->children[0], i));
    return list;
}

json_t *cli_arrow_json(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t i)
{
    const char *format = schema->format, *data;
    const void *values = array->n_buffers > 1 ? array->buffers[1] : NULL;
    int64_t at = i + array->offset, integer, end;
    double real;
    bool big;
    size_t n;
    cli_text text = {0};
    if (is_null(schema, array, at))
        return json_null();
    if (schema->dictionary)
        return integer_at(format[0], values, at, &integer, &big) ? cli_arrow_json(schema->dictionary, array->dictionary, integer)
                                                                 : json_null();
    if (format[0] == 'b')
        return json_boolean(bit_at(values, at));
    if (integer_at(format[0], values, at, &integer, &big)) {
        if (!big)
            return json_integer(integer);
        cli_text_addf(&text, "%llu", (unsigned long long)integer);
        return text_json(&text);
    }
    if (real_at(format[0], values, at, &real)) {
        if (isfinite(real))
            return json_real(real);
        return json_string(isnan(real) ? "NaN" : real > 0 ? "Infinity" : "-Infinity");
    }
    if (format[0] == 'd') {
        decimal_text(format, values, at, &text);
        return text_json(&text);
    }
    if (format[0] == 't') {
        time_text(format, values, at, "T", &text);
        return text_json(&text);
    }
    if (bytes_at(format, array, at, &data, &n))
        return bytes_json(format, data, n);
    if (range_at(format, array, at, &integer, &end))
        return list_json(schema, array, integer, end);
    if (strcmp(format, "+s") == 0) {
        json_t *object = json_object();
        for (int64_t c = 0; c < schema->n_children; c++)
            json_object_set_new(object, schema->children[c]->name, cli_arrow_json(schema->children[c], array->children[c], at));
        return object;
    }
    cli_text_addf(&text, "<%s>", format);
    return text_json(&text);
}
