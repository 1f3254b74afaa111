/* Maps of a tree into option structs (fields.h): types, ranges, messages that name the place. */
#include "pipeline/fields.h"

#include "base/checked.h"
#include "base/nearest.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- errors ------------------------------------------------------------------------------------------------------------------- */

fby_status fby__node_fail(const fby__reading *r, const fby_node *node, const char *fmt, ...)
{
    char text[800];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* longer ones are cut */
    va_end(args);
    if (node->line == 0)
        return fby__fail(r->err, FBY_E_ARG, "%s, a value in place of the file's: %s", r->file, text);
    return fby__fail(r->err, FBY_E_ARG, "%s:%u:%u: %s", r->file, node->line, node->column, text);
}

fby_status fby__node_context(const fby__reading *r, const fby_node *node, const char *what)
{
    if (node && node->line)
        fby__error_context(r->err, "%s:%u:%u: %s", r->file, node->line, node->column, what);
    else
        fby__error_context(r->err, "%s: %s", r->file, what);
    return r->err ? r->err->code : FBY_E_ARG;
}

fby_status fby__read_nomem(const fby__reading *r) { return fby__fail_nomem(r->err, "a pipeline"); }

const char *fby__node_text(const fby_node *node, char buffer[80])
{
    static const char *const kinds[] = {[FBY_NODE_LIST] = "a list", [FBY_NODE_MAP] = "a map", [FBY_NODE_NULL] = "nothing"};
    if (node->kind == FBY_NODE_LIST || node->kind == FBY_NODE_MAP || node->kind == FBY_NODE_NULL)
        return kinds[node->kind];
    (void)snprintf(buffer, 80, node->kind == FBY_NODE_TEXT ? "the text '%.60s'" : "%.60s", node->text ? node->text : "?");
    return buffer;
}

static fby_status unknown_word(const fby__reading *r, const fby_node *node, const char *where, const char *kind, const char *const *names)
{
    const char *near = fby__nearest(node->text, names);
    if (near)
        return fby__node_fail(r, node, "%s: unknown %s '%.60s': did you mean '%s'?", where, kind, node->text, near);
    char all[600];
    size_t n = 0;
    for (; *names && n < sizeof all - 1; names++) {
        int m = snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", *names);
        n += m > 0 ? (size_t)m : 0;
    }
    return fby__node_fail(r, node, "%s: unknown %s '%.60s': there are %s", where, kind, node->text, all);
}

/* --- memory and paths -------------------------------------------------------------------------------------------------------------- */

void *fby__reading_alloc(const fby__reading *r, size_t n, size_t size)
{
    size_t bytes;
    void *p = fby__mul_checked(n, size, &bytes) ? fby__arena_alloc(r->arena, bytes ? bytes : 1) : NULL;
    if (!p) {
        (void)fby__read_nomem(r);
        return NULL;
    }
    memset(p, 0, bytes ? bytes : 1);
    return p;
}

const char *fby__read_path(const fby__reading *r, const char *path)
{
    size_t n = strlen(r->base_dir), m = strlen(path);
    if (n == 0 || *path == '/' || *path == 0)
        return path;
    char *joined = fby__reading_alloc(r, n + m + 2, 1);
    if (!joined)
        return NULL;
    memcpy(joined, r->base_dir, n);
    if (joined[n - 1] != '/')
        joined[n++] = '/';
    memcpy(joined + n, path, m + 1);
    return joined;
}

/* --- scalars ------------------------------------------------------------------------------------------------------------------------- */

static fby_status wrong(const fby__reading *r, const fby_node *node, const char *what, const char *expected)
{
    char found[80];
    return fby__node_fail(r, node, "%s: %s is expected, not %s", what, expected, fby__node_text(node, found));
}

fby_status fby__read_u64(const fby__reading *r, const fby_node *node, const char *what, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    bool above = node->kind == FBY_NODE_FLOAT && node->text && *node->text && strspn(node->text, "0123456789") == strlen(node->text);
    if (above) { /* beyond int64_t: seeds go up to 2^64 - 1 */
        for (const char *c = node->text; *c; c++)
            if (!fby__mul_u64_checked(value, 10, &value) || !fby__add_u64_checked(value, (uint64_t)(*c - '0'), &value))
                return fby__node_fail(r, node, "%s: %s is too large", what, node->text);
    } else if (node->kind != FBY_NODE_INT) {
        return wrong(r, node, what, "a whole number");
    } else if (node->integer < 0) {
        return fby__node_fail(r, node, "%s: %" PRId64 " is below %" PRIu64, what, node->integer, least);
    } else {
        value = (uint64_t)node->integer;
    }
    if (value < least)
        return fby__node_fail(r, node, "%s: %" PRIu64 " is below %" PRIu64, what, value, least);
    if (value > most)
        return fby__node_fail(r, node, "%s: %" PRIu64 " is above %" PRIu64, what, value, most);
    *out = value;
    return FBY_OK;
}

static fby_status read_i64(const fby__reading *r, const fby_node *node, const char *what, int64_t least, int64_t *out)
{
    if (node->kind != FBY_NODE_INT)
        return wrong(r, node, what, "a whole number");
    if (node->integer < least)
        return fby__node_fail(r, node, "%s: %" PRId64 " is below %" PRId64, what, node->integer, least);
    *out = node->integer;
    return FBY_OK;
}

fby_status fby__read_double(const fby__reading *r, const fby_node *node, const char *what, double *out)
{
    if (node->kind != FBY_NODE_INT && node->kind != FBY_NODE_FLOAT)
        return wrong(r, node, what, "a number");
    *out = node->number;
    return FBY_OK;
}

static fby_status read_text(const fby__reading *r, const fby_node *node, const char *what, const char **out)
{
    if (node->kind != FBY_NODE_TEXT) {
        char found[80];
        bool scalar = node->kind == FBY_NODE_BOOL || node->kind == FBY_NODE_INT || node->kind == FBY_NODE_FLOAT;
        return fby__node_fail(r, node, "%s: a text is expected, not %s%s", what, fby__node_text(node, found),
                              scalar ? "; put it in quotes if it is one" : "");
    }
    *out = node->text;
    return FBY_OK;
}

fby_status fby__read_choice(const fby__reading *r, const fby_node *node, const char *what, const char *const *choices, int *out)
{
    const char *text = NULL;
    FBY__TRY(read_text(r, node, what, &text));
    for (int i = 0; choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return FBY_OK;
        }
    }
    return unknown_word(r, node, what, "word", choices);
}

static fby_status read_dtype(const fby__reading *r, const fby_node *node, const char *what, fby_dtype *out)
{
    static const char *const names[] = {
#define DTYPE_NAME(name, text, bytes, kind) text,
        FBY_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
            NULL};
    int i = 0;
    FBY__TRY(fby__read_choice(r, node, what, names, &i));
    *out = fby_dtype_from_name(names[i]);
    return FBY_OK;
}

/* As fby_size_parse() reads it, or a whole number of bytes. */
static fby_status read_bytes(const fby__reading *r, const fby_node *node, const char *what, uint64_t *out)
{
    fby_error why;
    if (node->kind == FBY_NODE_INT)
        return fby__read_u64(r, node, what, 1, INT64_MAX, out);
    if (node->kind != FBY_NODE_TEXT)
        return wrong(r, node, what, "a size such as 8GiB or 512MB");
    return fby_size_parse(node->text, out, &why) == FBY_OK ? FBY_OK : fby__node_fail(r, node, "%s: %s", what, why.message);
}

/* --- lists ----------------------------------------------------------------------------------------------------------------------------- */

fby_status fby__read_texts(const fby__reading *r, const fby_node *node, const char *what, const char *const **out, size_t *out_n)
{
    const fby_node *const *items = node->kind == FBY_NODE_LIST ? node->items : &node;
    size_t n = node->kind == FBY_NODE_LIST ? node->n : 1;
    const char **list = fby__reading_alloc(r, n, sizeof *list);
    if (!list)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        FBY__TRY(read_text(r, items[i], what, &list[i]));
    *out = list;
    *out_n = n;
    return FBY_OK;
}

static fby_status read_paths(const fby__reading *r, const char *const *words, const char *const **list, size_t n)
{
    const char **paths = fby__reading_alloc(r, n, sizeof *paths);
    for (size_t i = 0; paths && i < n; i++) {
        const char *const *word = words;
        while (word && *word && strcmp(*word, (*list)[i]) != 0)
            word++;
        paths[i] = word && *word ? *word : fby__read_path(r, (*list)[i]);
        if (!paths[i])
            return FBY_E_NOMEM;
    }
    *list = paths;
    return paths ? FBY_OK : FBY_E_NOMEM;
}

fby_status fby__read_doubles(const fby__reading *r, const fby_node *node, const char *what, const double **out, size_t *out_n)
{
    if (node->kind != FBY_NODE_LIST)
        return wrong(r, node, what, "a list of numbers");
    double *list = fby__reading_alloc(r, node->n, sizeof *list);
    if (!list)
        return FBY_E_NOMEM;
    for (size_t i = 0; i < node->n; i++)
        FBY__TRY(fby__read_double(r, node->items[i], what, &list[i]));
    *out = list;
    *out_n = node->n;
    return FBY_OK;
}

fby_status fby__read_single(const fby__reading *r, const fby_node *node, const char *what, const char **out_key, const fby_node **out_value)
{
    if (node->kind == FBY_NODE_TEXT) { /* a bare word is a key without a value */
        *out_key = node->text;
        *out_value = NULL;
        return FBY_OK;
    }
    if (node->kind != FBY_NODE_MAP)
        return wrong(r, node, what, "a name, or a name with its options,");
    if (node->n != 1)
        return fby__node_fail(r, node, "%s: one name with its options is expected, and there are %zu: begin each with '- '", what, node->n);
    *out_key = node->keys[0]->text;
    *out_value = node->items[0]->kind == FBY_NODE_NULL ? NULL : node->items[0];
    return FBY_OK;
}

/* --- maps -------------------------------------------------------------------------------------------------------------------------------- */

fby_status fby__read_value(const fby__reading *r, const fby_node *node, const char *where, const fby__key *key, void *to)
{
    char what[160];
    (void)snprintf(what, sizeof what, "%.100s: %s", where, key->name);
    char *at = (char *)to + key->at;
    uint64_t least = key->least > 0 ? (uint64_t)key->least : 0, most = key->most ? key->most : UINT64_MAX, value = 0;
    int64_t number = 0;
    switch (key->want) {
    case FBY__WANT_BOOL:
        if (node->kind != FBY_NODE_BOOL)
            return wrong(r, node, what, "true or false");
        *(bool *)at = node->boolean;
        break;
    case FBY__WANT_U64: FBY__TRY(fby__read_u64(r, node, what, least, most, (uint64_t *)at)); break;
    case FBY__WANT_U32:
        FBY__TRY(fby__read_u64(r, node, what, least, fby__min_u64(most, UINT32_MAX), &value));
        *(uint32_t *)at = (uint32_t)value;
        break;
    case FBY__WANT_INT:
        FBY__TRY(read_i64(r, node, what, key->least, &number));
        most = fby__min_u64(most, INT_MAX);
        if (number > (int64_t)most)
            return fby__node_fail(r, node, "%s: %" PRId64 " is above %" PRIu64, what, number, most);
        *(int *)at = (int)number;
        break;
    case FBY__WANT_I64: FBY__TRY(read_i64(r, node, what, key->least, (int64_t *)at)); break;
    case FBY__WANT_DOUBLE:
        FBY__TRY(fby__read_double(r, node, what, (double *)at));
        if (key->least && !(*(double *)at > 0))
            return fby__node_fail(r, node, "%s: %g is not above 0", what, *(double *)at);
        break;
    case FBY__WANT_TEXT: FBY__TRY(read_text(r, node, what, (const char **)at)); break;
    case FBY__WANT_PATH: {
        const char *path = NULL;
        FBY__TRY(read_text(r, node, what, &path));
        if (!(*(const char **)at = fby__read_path(r, path)))
            return FBY_E_NOMEM;
        break;
    }
    case FBY__WANT_TEXTS: return fby__read_texts(r, node, what, (const char *const **)at, (size_t *)((char *)to + key->also));
    case FBY__WANT_PATHS:
        FBY__TRY(fby__read_texts(r, node, what, (const char *const **)at, (size_t *)((char *)to + key->also)));
        return read_paths(r, key->choices, (const char *const **)at, *(const size_t *)((char *)to + key->also));
    case FBY__WANT_BYTES: FBY__TRY(read_bytes(r, node, what, (uint64_t *)at)); break;
    case FBY__WANT_CHOICE: FBY__TRY(fby__read_choice(r, node, what, key->choices, (int *)at)); break;
    case FBY__WANT_DTYPE: FBY__TRY(read_dtype(r, node, what, (fby_dtype *)at)); break;
    case FBY__WANT_NODE: *(const fby_node **)at = node; break;
    }
    if (key->also != FBY__NOWHERE)
        *(bool *)((char *)to + key->also) = true;
    return FBY_OK;
}

static fby_status unknown_key(const fby__reading *r, const fby_node *key, const char *where, const fby__key *keys)
{
    const char *names[64];
    size_t n = 0;
    for (; keys->name && n < 63; keys++)
        names[n++] = keys->name;
    names[n] = NULL;
    return unknown_word(r, key, where, "key", names);
}

fby_status fby__read_map(const fby__reading *r, const fby_node *map, const char *where, const fby__key *keys, void *to)
{
    if (map->kind != FBY_NODE_MAP)
        return wrong(r, map, where, "a map of options");
    for (size_t i = 0; i < map->n; i++) {
        const fby__key *k = keys;
        while (k->name && strcmp(k->name, map->keys[i]->text) != 0)
            k++;
        if (!k->name)
            return unknown_key(r, map->keys[i], where, keys);
        if (map->items[i]->kind != FBY_NODE_NULL)
            FBY__TRY(fby__read_value(r, map->items[i], where, k, to));
    }
    return FBY_OK;
}

const fby__key *fby__option_keys(fby_option_set set, size_t base, const fby__key *more, fby__key out[FBY__MAX_KEYS])
{
    static const fby__want WANT[] = {
        [FBY_OPTION_BOOL] = FBY__WANT_BOOL,   [FBY_OPTION_U32] = FBY__WANT_U32,     [FBY_OPTION_U64] = FBY__WANT_U64,
        [FBY_OPTION_INT] = FBY__WANT_INT,     [FBY_OPTION_I64] = FBY__WANT_I64,     [FBY_OPTION_DOUBLE] = FBY__WANT_DOUBLE,
        [FBY_OPTION_BYTES] = FBY__WANT_BYTES, [FBY_OPTION_TEXT] = FBY__WANT_TEXT,   [FBY_OPTION_PATH] = FBY__WANT_PATH,
        [FBY_OPTION_TEXTS] = FBY__WANT_TEXTS, [FBY_OPTION_PATHS] = FBY__WANT_PATHS, [FBY_OPTION_CHOICE] = FBY__WANT_CHOICE,
    };
    size_t n = 0;
    for (; more && more->name; more++)
        out[n++] = *more;
    for (const fby_option *o = fby__option_table(set); o->name && n < FBY__MAX_KEYS - 1; o++)
        if ((o->flags & FBY_OPTION_IN_FILE) && !o->form)
            out[n++] = (fby__key){o->name,
                                  WANT[o->type],
                                  base + o->offset,
                                  o->also ? base + o->also : FBY__NOWHERE,
                                  o->least,
                                  o->choices,
                                  o->type == FBY_OPTION_CHARS ? 0 : o->most};
    out[n] = (fby__key){.name = NULL};
    return out;
}
