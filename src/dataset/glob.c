/*
 * Path patterns: cut a path at its slashes, match one part of it against one file name.
 *
 *   *       any run of characters, empty too          ?       one character
 *   [a-z]   one of a set, [!a-z] none of it           **      as a whole part: any number of directories
 *   {name}  one or more characters, as few as will do; the same name again must match the same text
 *
 * Wildcards do not cross slashes and, at the start of a part, match no name that begins with "." or "_".
 */
#include "dataset/dataset_impl.h"

#include <ctype.h>

bool fby__glob_has_wildcards(const char *path) { return strpbrk(path, "*?[{") != NULL; }

uint32_t fby__pattern_name(const fby__pattern *pattern, const char *name, size_t n)
{
    for (uint32_t i = 0; i < pattern->n_names; i++)
        if (strlen(pattern->names[i]) == n && memcmp(pattern->names[i], name, n) == 0)
            return i;
    return FBY__NONE;
}

/* Bytes of the name in "{name}", 0 when there is no such thing at p. */
static size_t brace_name(const char *p)
{
    if (*p != '{' || !(isalpha((unsigned char)p[1]) || p[1] == '_' || (p[1] & 0x80)))
        return 0;
    size_t n = 1;
    while (isalnum((unsigned char)p[1 + n]) || p[1 + n] == '_' || p[1 + n] == '-' || (p[1 + n] & 0x80))
        n++;
    return p[1 + n] == '}' ? n : 0;
}

static fby_status collect_names(const char *path, const char *part, fby__arena *arena, fby__pattern *out, fby_error *err)
{
    for (const char *p = part; (p = strchr(p, '{')); p++) {
        size_t n = brace_name(p);
        if (!n)
            return fby__fail(err, FBY_E_ARG,
                             "'%s': the braces at '%.20s' hold no column name; write {name}, or give the alternatives as a "
                             "list of paths",
                             path, p);
        if (fby__pattern_name(out, p + 1, n) != FBY__NONE)
            continue;
        if (out->n_names == FBY__MAX_BRACES)
            return fby__fail(err, FBY_E_ARG, "'%s' has more than %d different braces", path, FBY__MAX_BRACES);
        out->names[out->n_names] = fby__arena_copy(arena, p + 1, n);
        if (!out->names[out->n_names++])
            return fby__fail_nomem(err, "path pattern");
    }
    return FBY_OK;
}

fby_status fby__pattern_parse(const char *path, fby__arena *arena, fby__pattern *out, fby_error *err)
{
    *out = (fby__pattern){.root = *path == '/' ? "/" : ""};
    size_t n_parts = 1;
    for (const char *p = path; *p; p++)
        n_parts += *p == '/';
    out->parts = fby__arena_alloc(arena, n_parts * sizeof *out->parts);
    if (!out->parts)
        return fby__fail_nomem(err, "path pattern");
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        const char *part = fby__arena_copy(arena, p, n);
        if (!part)
            return fby__fail_nomem(err, "path pattern");
        p += n + (p[n] == '/');
        if (n == 0 || strcmp(part, ".") == 0)
            continue;
        fby__path_part_kind kind = strcmp(part, "**") == 0         ? FBY__PATH_PART_ANY_DEPTH
                                   : fby__glob_has_wildcards(part) ? FBY__PATH_PART_MATCH
                                                                   : FBY__PATH_PART_FIXED;
        if (kind == FBY__PATH_PART_FIXED && out->n_parts == 0) {
            out->root = fby__path_join(arena, out->root, part);
            if (!out->root)
                return fby__fail_nomem(err, "path pattern");
            continue;
        }
        if (kind == FBY__PATH_PART_ANY_DEPTH && out->n_parts && out->parts[out->n_parts - 1].kind == kind)
            continue;
        if (kind == FBY__PATH_PART_MATCH)
            FBY__TRY(collect_names(path, part, arena, out, err));
        out->parts[out->n_parts++] = (fby__path_part){kind, part};
    }
    return FBY_OK;
}

/* One character against the set at p ("[…]"): the end of the set, or NULL when it does not match. *out_set: it is a set at all. */
static const char *match_set(const char *p, char c, bool *out_set)
{
    const char *q = p + 1;
    bool negate = *q == '!' || *q == '^', found = false;
    q += negate;
    const char *first = q;
    for (; *q && (*q != ']' || q == first); q++) {
        unsigned char low = (unsigned char)*q, high = low;
        if (q[1] == '-' && q[2] && q[2] != ']') {
            high = (unsigned char)q[2];
            q += 2;
        }
        found |= (unsigned char)c >= low && (unsigned char)c <= high;
    }
    *out_set = *q == ']';
    return *out_set && found != negate ? q + 1 : NULL;
}

static bool match(const fby__pattern *pattern, const char *p, const char *s, fby__capture *captures)
{
    for (; *p; s++) {
        if (*p == '*') {
            while (*p == '*')
                p++;
            for (;; s++) {
                if (match(pattern, p, s, captures))
                    return true;
                if (!*s)
                    return false;
            }
        }
        size_t n = brace_name(p);
        if (n) {
            fby__capture *capture = &captures[fby__pattern_name(pattern, p + 1, n)];
            p += n + 2;
            if (capture->text)
                return strncmp(s, capture->text, capture->n) == 0 && match(pattern, p, s + capture->n, captures);
            for (size_t length = 1; s[length - 1]; length++) {
                *capture = (fby__capture){s, length};
                if (match(pattern, p, s + length, captures))
                    return true;
            }
            *capture = (fby__capture){0};
            return false;
        }
        if (!*s)
            return false;
        bool is_set = false;
        const char *after = *p == '[' ? match_set(p, *s, &is_set) : NULL;
        if (is_set) {
            if (!after)
                return false;
            p = after;
        } else if (*p == '?' || *p == *s) {
            p++;
        } else {
            return false;
        }
    }
    return !*s;
}

bool fby__path_part_match(const fby__pattern *pattern, const char *part, const char *name, fby__capture *captures)
{
    if ((*name == '.' || *name == '_') && *part != *name)
        return false;
    return match(pattern, part, name, captures);
}

int fby__path_part_build(const fby__pattern *pattern, const char *part, const fby__capture *captures, fby__buf *out)
{
    for (const char *p = part; *p;) {
        size_t n = brace_name(p);
        if (n) {
            const fby__capture *capture = &captures[fby__pattern_name(pattern, p + 1, n)];
            if (!capture->text)
                return 1;
            if (fby__buf_put(out, capture->text, capture->n) != 0)
                return -1;
            p += n + 2;
        } else if (strchr("*?[", *p)) {
            return 1;
        } else if (fby__buf_put(out, p++, 1) != 0) {
            return -1;
        }
    }
    return 0;
}
