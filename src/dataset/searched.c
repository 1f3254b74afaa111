/* Would the sources of a data set find another file, if it were there? By the text of paths: links are not followed, nothing is opened. */
#include "dataset/dataset_impl.h"

static const char *behind(const char *path)
{
    const size_t n = strcspn(path, "/");
    return path + n + (path[n] == '/');
}

/* No part of it is hidden. */
static bool is_shown(const char *path)
{
    while (*path && !fby__is_hidden(path))
        path = behind(path);
    return !*path;
}

/* As walk.c goes through the parts. path: below what came before. */
static bool matches(const fby__pattern *pattern, uint32_t part, const char *path, fby__capture *captures)
{
    if (part == pattern->n_parts)
        return is_shown(path); /* "" is the file itself, the rest is below a directory */
    const size_t n = strcspn(path, "/");
    const fby__path_part *p = &pattern->parts[part];
    if (p->kind == FBY__PATH_PART_ANY_DEPTH) {
        if (part + 1 == pattern->n_parts)
            return is_shown(path);
        return matches(pattern, part + 1, path, captures) ||
               (path[n] == '/' && !fby__is_hidden(path) && matches(pattern, part, behind(path), captures));
    }
    char name[256];
    if (n == 0 || n >= sizeof name)
        return false;
    memcpy(name, path, n);
    name[n] = 0;
    fby__capture saved[FBY__MAX_BRACES];
    memcpy(saved, captures, sizeof saved);
    const bool fits = p->kind == FBY__PATH_PART_FIXED ? strcmp(p->text, name) == 0 : fby__path_part_match(pattern, p->text, name, captures);
    if (fits && matches(pattern, part + 1, behind(path), captures))
        return true;
    memcpy(captures, saved, sizeof saved);
    return false;
}

fby_status fby__searched_add(fby__found *found, fby__arena *arena, const char *root, const fby__pattern *pattern, fby_error *err)
{
    fby__searched *s = fby__arena_alloc(arena, sizeof *s);
    if (!s)
        return fby__fail_nomem(err, "sources");
    *s = (fby__searched){.next = found->searched};
    if (pattern)
        s->pattern = *pattern;
    found->searched = s;
    return fby__path_absolute(arena, *root ? root : ".", &s->root, err);
}

fby_status fby__dataset_would_find(const fby_dataset *ds, const char *folder, const char *name, const char **out_root, fby_error *err)
{
    fby__arena arena = {0};
    const char *path = NULL, *absolute;
    *out_root = NULL;
    fby_status status = fby__path_absolute(&arena, folder, &absolute, err);
    if (status == FBY_OK && !(path = fby__path_join(&arena, absolute, name)))
        status = fby__fail_nomem(err, "sources");
    for (const fby__searched *s = ds->searched; status == FBY_OK && s && !*out_root; s = s->next) {
        fby__capture captures[FBY__MAX_BRACES] = {0};
        const size_t n = strlen(s->root) - (strcmp(s->root, "/") == 0);
        if (strncmp(path, s->root, n) == 0 && path[n] == '/' && matches(&s->pattern, 0, path + n + 1, captures))
            *out_root = s->root;
    }
    fby__arena_fini(&arena);
    return status;
}
