/* Growing strings, display width, figures for people and their parsing. No terminal, no files. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

void *cli_realloc(void *p, size_t n)
{
    void *grown = realloc(p, n ? n : 1);
    if (!grown) {
        fputs("forebay: error: out of memory\n", stderr);
        exit(CLI_FAILED);
    }
    return grown;
}

void *cli_alloc(size_t n) { return memset(cli_realloc(NULL, n), 0, n); }

void cli_text_add_n(cli_text *text, const char *s, size_t n)
{
    if (text->n + n + 1 > text->cap) {
        text->cap = (text->n + n + 1) * 2;
        text->data = cli_realloc(text->data, text->cap);
    }
    if (n)
        memcpy(text->data + text->n, s, n);
    text->n += n;
    text->data[text->n] = 0;
}

void cli_text_add(cli_text *text, const char *s) { cli_text_add_n(text, s, strlen(s)); }

void cli_text_addv(cli_text *text, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n > 0) {
        char *s = cli_alloc((size_t)n + 1);
        (void)vsnprintf(s, (size_t)n + 1, fmt, again); /* the length is known to fit */
        cli_text_add_n(text, s, (size_t)n);
        free(s);
    }
    va_end(again);
}

void cli_text_addf(cli_text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    cli_text_addv(text, fmt, args);
    va_end(args);
}

void cli_text_add_escaped(cli_text *text, const char *s, size_t n)
{
    size_t bytes = fby_printable(s, n, NULL, 0);
    char *safe = cli_alloc(bytes + 1);
    (void)fby_printable(s, n, safe, bytes + 1); /* fits */
    cli_text_add_n(text, safe, bytes);
    free(safe);
}

const char *cli_printable(const char *s)
{
    static cli_text ring[8];
    static unsigned next;
    cli_text *text = &ring[next++ % 8];
    cli_text_clear(text);
    cli_text_add_escaped(text, s, strlen(s));
    return cli_text_str(text);
}

json_t *cli_json_text(const char *s)
{
    json_t *value = json_string(s);
    return value ? value : json_string(cli_printable(s));
}

void cli_text_clear(cli_text *text)
{
    text->n = 0;
    if (text->data)
        text->data[0] = 0;
}

void cli_text_free(cli_text *text)
{
    free(text->data);
    *text = (cli_text){0};
}

const char *cli_text_str(const cli_text *text) { return text->data ? text->data : ""; }

/** Width and bytes of the character at s, which is printable UTF-8; where the locale cannot say, one column. */
static size_t char_width(const char *s, size_t *out_bytes)
{
    size_t length = 1;
    while ((unsigned char)s[0] >= 0xc0 && length < 4 && ((unsigned char)s[length] & 0xc0) == 0x80)
        length++;
    *out_bytes = length;
    wchar_t c;
    mbstate_t state = {0};
    if (length == 1 || mbrtowc(&c, s, length, &state) != length)
        return 1;
    int width = wcwidth(c);
    return width < 0 ? 1 : (size_t)width;
}

size_t cli_width(const char *s)
{
    size_t width = 0, bytes;
    for (; *s; s += bytes)
        width += char_width(s, &bytes);
    return width;
}

void cli_cut(cli_text *text, size_t width)
{
    if (!text->data || cli_width(text->data) <= width)
        return;
    size_t used = 0, at = 0, bytes;
    while (text->data[at]) {
        size_t w = char_width(text->data + at, &bytes);
        if (used + w + 1 > width)
            break;
        used += w;
        at += bytes;
    }
    text->n = at;
    cli_text_add(text, "…");
}

/* --- figures ------------------------------------------------------------------------------------------------------------- */

static char *ring(void)
{
    static char buffers[16][48];
    static unsigned next;
    return buffers[next++ % 16];
}

const char *cli_count(uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    char *out = ring(), *o = out;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *o++ = ',';
        *o++ = digits[i];
    }
    *o = 0;
    return out;
}

/** Three significant digits, never "1e+03". */
static const char *three_digits(double value, const char *unit)
{
    char *out = ring();
    int decimals = value == floor(value) && value < 1000 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    (void)snprintf(out, 48, "%.*f%s%s", decimals, value, *unit ? " " : "", unit);
    return out;
}

static const char *scaled(double value, double step, const char *const *units)
{
    size_t i = 0;
    while (value >= step * 0.9995 && units[i + 1]) {
        value /= step;
        i++;
    }
    return three_digits(value, units[i]);
}

const char *cli_size(uint64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", NULL};
    return scaled((double)bytes, 1000, units);
}

const char *cli_memory(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    return scaled((double)bytes, 1024, units);
}

const char *cli_factor(double factor) { return three_digits(factor, ""); }

const char *cli_rate(double per_second)
{
    static const char *const units[] = {"", "k", "M", "G", NULL};
    return scaled(per_second >= 10 && per_second < 1000 ? round(per_second) : per_second, 1000, units);
}

const char *cli_seconds(double seconds)
{
    if (seconds >= 7200)
        return three_digits(seconds / 3600, "h");
    if (seconds >= 120)
        return three_digits(seconds / 60, "min");
    if (seconds >= 0.9995)
        return three_digits(seconds, "s");
    if (seconds >= 0.9995e-3)
        return three_digits(seconds * 1e3, "ms");
    return three_digits(round(seconds * 1e7) / 10, "µs");
}

/* --- parsing --------------------------------------------------------------------------------------------------------------- */

/** A number with an optional decimal part and exponent; '_' between digits is fine. Returns where it ended, NULL for none. */
static const char *parse_number(const char *s, double *out)
{
    char plain[64];
    size_t n = 0;
    const char *p = s;
    if (!isdigit((unsigned char)*p) && *p != '.')
        return NULL;
    for (; isdigit((unsigned char)*p) || *p == '.' || *p == '_' ||
           ((*p == 'e' || *p == 'E') && (isdigit((unsigned char)p[1]) || (p[1] == '+' && isdigit((unsigned char)p[2])))) ||
           (*p == '+' && (p[-1] == 'e' || p[-1] == 'E'));
         p++) {
        if (n + 1 == sizeof plain)
            return NULL;
        if (*p != '_')
            plain[n++] = *p;
    }
    plain[n] = 0;
    char *end;
    *out = strtod(plain, &end);
    return *end == 0 && n > 0 ? p : NULL;
}

static bool to_u64(double value, uint64_t *out)
{
    if (!(value >= 0) || value >= 18446744073709549568.0 || value != floor(value))
        return false;
    *out = (uint64_t)value;
    return true;
}

bool cli_parse_count(const char *s, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long exact = strtoull(s, &end, 10); /* all 64 bits: seeds */
    if (isdigit((unsigned char)*s) && *end == 0) {
        *out = exact;
        return errno == 0;
    }
    double value;
    const char *rest = parse_number(s, &value);
    return rest && *rest == 0 && to_u64(value, out);
}

bool cli_parse_size(const char *s, uint64_t *out) { return cli_parse_count(s, out) || fby_size_parse(s, out, NULL) == FBY_OK; }

bool cli_parse_memory(const char *s, cli_memory_size *out)
{
    fby_loader_opts opts = {FBY_LOADER_SIZES};
    if (!cli_parse_count(s, &opts.memory_bytes) && fby_loader_opts_parse("memory", s, &opts, NULL) != FBY_OK)
        return false;
    *out = (cli_memory_size){true, opts.memory_all, opts.memory_fraction, opts.memory_bytes};
    return opts.memory_all || opts.memory_fraction > 0 || opts.memory_bytes > 0;
}

bool cli_parse_share(const char *s, double *out)
{
    const char *rest = parse_number(s, out);
    const bool percent = rest && strcmp(rest, "%") == 0;
    *out /= percent ? 100 : 1;
    return rest && (percent || !*rest) && *out >= 0 && *out <= 1;
}

bool cli_parse_seconds(const char *s, double *out)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"min", 60}, {"h", 3600}};
    double value;
    const char *rest = parse_number(s, &value);
    if (!rest)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(rest, units[i].suffix) == 0) {
            *out = value * units[i].factor;
            return true;
        }
    }
    return false;
}

void cli_text_add_quoted(cli_text *text, const char *word)
{
    cli_text_add(text, "'");
    for (; *word; word++)
        if (*word == '\'')
            cli_text_add(text, "'\\''");
        else
            cli_text_add_n(text, word, 1);
    cli_text_add(text, "'");
}
