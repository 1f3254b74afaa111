/* Sizes and other quantities as people write them. Strict: what is ambiguous is refused, with what to write instead. */
#include "options/options.h"

#include "base/error.h"

#include <forebay/loader.h>

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define ROOM ((UINT64_MAX - 9) / 10) /* for one digit more */

/* "1.5 GiB": 15 of one place, and "GiB". The words point into the text. */
typedef struct quantity {
    const char *number, *unit;
    int n_number, n_unit; /* bytes of them */
    uint64_t digits;
    unsigned places;
} quantity;

static bool split(const char *text, quantity *q)
{
    *q = (quantity){.number = text + strspn(text, " ")};
    const char *at = q->number;
    bool point = false;
    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at) || *at == '_' || (*at == '.' && !point && isdigit((unsigned char)at[1])); at++) {
        point |= *at == '.';
        if (!isdigit((unsigned char)*at) || (point && q->digits > ROOM))
            continue;
        q->digits = q->digits > ROOM ? UINT64_MAX /* out of any range */ : q->digits * 10 + (uint64_t)(*at - '0');
        q->places += point;
    }
    q->n_number = (int)(at - q->number);
    q->unit = at + strspn(at, " ");
    q->n_unit = (int)strcspn(q->unit, " ");
    return q->unit[(size_t)q->n_unit + strspn(q->unit + q->n_unit, " ")] == '\0';
}

static bool has_unit(const quantity *q, const char *unit)
{
    return strlen(unit) == (size_t)q->n_unit && strncasecmp(q->unit, unit, (size_t)q->n_unit) == 0;
}

/* A whole number from 1 on, of things of so many units. */
static bool scaled(const quantity *q, uint64_t factor, uint64_t most, uint64_t *out)
{
    unsigned __int128 value = (unsigned __int128)q->digits * factor;
    for (unsigned i = 0; i < q->places; i++)
        value /= 10;
    *out = (uint64_t)value;
    return value >= 1 && value <= most;
}

fby_status fby_size_parse(const char *text, uint64_t *out_bytes, fby_error *err)
{
    static const char LETTERS[] = "KMGTP";
    quantity q;
    uint64_t factor = 1, bytes;
    if (!split(text, &q))
        return fby__fail(err, FBY_E_ARG, "'%.60s' is not a size: write a number with a unit, such as '8GiB' or '512 MB'", text);
    if (q.n_unit == 0)
        return fby__fail(err, FBY_E_ARG, "'%.60s' has no unit: write '%.*sMiB' or '%.*sGiB'", text, q.n_number, q.number, q.n_number,
                         q.number);
    const char letter = (char)toupper((unsigned char)*q.unit);
    const char *of = strchr(LETTERS, letter), *rest = q.unit + 1;
    const bool binary = q.n_unit == 3 && strncasecmp(rest, "iB", 2) == 0, decimal = q.n_unit == 2 && strncasecmp(rest, "B", 1) == 0;
    if (of && q.n_unit == 1)
        return fby__fail(err, FBY_E_ARG, "'%.60s' is ambiguous: write '%.*s%ciB' (1024-based) or '%.*s%cB' (1000-based)", text, q.n_number,
                         q.number, letter, q.n_number, q.number, letter);
    if (!has_unit(&q, "B") && !(of && (binary || decimal)))
        return fby__fail(err, FBY_E_ARG, "'%.60s': '%.*s' is not a unit: use one of B, KB, KiB, MB, MiB, GB, GiB, TB, TiB, PB, PiB", text,
                         q.n_unit, q.unit);
    for (const char *i = LETTERS; of && i <= of; i++)
        factor *= binary ? 1024 : 1000;
    if (!scaled(&q, factor, INT64_MAX, &bytes))
        return fby__fail(err, FBY_E_ARG, "'%.60s' is out of range: it must be at least one byte and below 2^63", text);
    *out_bytes = bytes;
    return FBY_OK;
}

static fby_status parse_memory(const char *text, fby_loader_opts *opts, fby_error *err)
{
    quantity q;
    if (strcmp(text, "all") == 0) {
        opts->memory_all = true;
        return FBY_OK;
    }
    if (!split(text, &q) || q.n_unit == 0 || q.unit[q.n_unit - 1] != '%')
        return fby_size_parse(text, &opts->memory_bytes, err);
    double share = (double)q.digits / 100;
    for (unsigned i = 0; i < q.places; i++)
        share /= 10;
    if (q.n_unit > 1 || !(share > 0 && share <= 1))
        return fby__fail(err, FBY_E_ARG, "'%.60s': a share of what is available is above 0%% and at most 100%%", text);
    opts->memory_fraction = share;
    return FBY_OK;
}

static fby_status parse_superbatch(const char *text, fby_loader_opts *opts, fby_error *err)
{
    quantity q;
    uint64_t n = 0;
    if (!split(text, &q) || q.n_unit == 0)
        return fby__fail(err, FBY_E_ARG, "'%.60s': write '50 blocks', '100000 samples', or '256MiB' (as stored)", text);
    const bool blocks = has_unit(&q, "blocks") || has_unit(&q, "block"), samples = has_unit(&q, "samples") || has_unit(&q, "sample");
    const bool bytes =
        q.n_unit <= 3 && (q.n_unit == 1 || toupper((unsigned char)q.unit[q.n_unit - 1]) == 'B'); /* of a size, perhaps misspelt */
    if (!blocks && !samples && !bytes)
        return fby__fail(err, FBY_E_ARG, "'%.60s': '%.*s' is not a unit: write '50 blocks', '100000 samples', or '256MiB' (as stored)",
                         text, q.n_unit, q.unit);
    if (!blocks && !samples)
        return fby_size_parse(text, &opts->superbatch_bytes, err);
    if (q.places || !scaled(&q, 1, INT64_MAX, &n))
        return fby__fail(err, FBY_E_ARG, "'%.60s': a whole number of %s, at least 1, is needed", text, blocks ? "blocks" : "samples");
    *(blocks ? &opts->superbatch_blocks : &opts->superbatch_samples) = n;
    return FBY_OK;
}

static fby_status parse_part(const char *text, fby_loader_opts *opts, fby_error *err)
{
    quantity q;
    uint64_t n = 0;
    const bool cut = strncmp(text, "1/", 2) == 0, read = split(text + (cut ? 2 : 0), &q) && !q.places && scaled(&q, 1, UINT32_MAX, &n);
    const bool files = has_unit(&q, "files") || has_unit(&q, "file"), keys = has_unit(&q, "keys") || has_unit(&q, "key");
    if (!read || (cut ? q.n_unit > 0 : !files && !keys))
        return fby__fail(
            err, FBY_E_ARG,
            "'%.60s': write '1000 files' for an epoch of so many whole files, '1000 keys' for one of so many keys, or '1/10' for "
            "a tenth of them",
            text);
    *(cut ? &opts->n_parts : keys ? &opts->part_keys : &opts->part_files) = (uint32_t)n;
    return FBY_OK;
}

fby_status fby_loader_opts_parse(const char *name, const char *text, fby_loader_opts *opts, fby_error *err)
{
    if (strcmp(name, "memory") == 0)
        return parse_memory(text, opts, err);
    if (strcmp(name, "superbatch") == 0)
        return parse_superbatch(text, opts, err);
    if (strcmp(name, "part") == 0)
        return parse_part(text, opts, err);
    return fby__fail(err, FBY_E_ARG, "there is no option '%.60s' of a loader that is written as a quantity", name);
}
