/* Paths as text (nothing here touches a disk), and which names are near to a wanted one. */
#include "base/error.h"
#include "dataset/dataset_impl.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

char *fby__path_join(fby__arena *arena, const char *dir, const char *name)
{
    size_t n = strlen(dir), m = strlen(name);
    bool slash = n > 0 && dir[n - 1] != '/';
    char *path = fby__arena_alloc(arena, n + slash + m + 1);
    if (path) {
        memcpy(path, dir, n);
        if (slash)
            path[n] = '/';
        memcpy(path + n + slash, name, m + 1);
    }
    return path;
}

fby_status fby__path_absolute(fby__arena *arena, const char *path, const char **out, fby_error *err)
{
    char cwd[4096] = "";
    if (*path != '/' && !getcwd(cwd, sizeof cwd))
        return fby__fail_errno(err, errno, "cannot find the working directory that '%s' is relative to", path);
    char *text = fby__arena_alloc(arena, strlen(cwd) + strlen(path) + 3);
    if (!text)
        return fby__fail_nomem(err, "paths");
    size_t n = 0;
    const char *const sides[2] = {cwd, path};
    for (int side = 0; side < 2; side++) {
        for (const char *p = sides[side]; *p;) {
            size_t part = strcspn(p, "/");
            if (part == 2 && p[0] == '.' && p[1] == '.') {
                while (n > 0 && text[--n] != '/')
                    ;
            } else if (part > 0 && !(part == 1 && *p == '.')) {
                text[n++] = '/';
                memcpy(text + n, p, part);
                n += part;
            }
            p += part + (p[part] == '/');
        }
    }
    if (n == 0)
        text[n++] = '/';
    text[n] = 0;
    *out = text;
    return FBY_OK;
}

const char *fby__path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

size_t fby__path_stem(const char *base)
{
    const char *dot = strrchr(base, '.');
    return dot && dot != base ? (size_t)(dot - base) : strlen(base);
}

#define NEAR_MAX_BYTES 64

/* Levenshtein's distance of two short names; far ones and long ones are simply "far". */
static unsigned edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > NEAR_MAX_BYTES || m > NEAR_MAX_BYTES)
        return UINT32_MAX;
    unsigned row[NEAR_MAX_BYTES + 1];
    for (unsigned j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

void fby__near_offer(fby__near *near, const char *name)
{
    unsigned d = edit_distance(near->wanted, name);
    if (d > 1 && d > strlen(near->wanted) / 3)
        return;
    unsigned i = near->n < 3 ? near->n++ : 3;
    while (i > 0 && near->distance[i - 1] > d) {
        if (i < 3) {
            near->names[i] = near->names[i - 1];
            near->distance[i] = near->distance[i - 1];
        }
        i--;
    }
    if (i < 3) {
        near->names[i] = name;
        near->distance[i] = d;
    }
}

void fby__near_text(const fby__near *near, char *out, size_t n)
{
    size_t used = 0;
    *out = 0;
    for (unsigned i = 0; i < near->n && used < n; i++) {
        int more = snprintf(out + used, n - used, "%s'%s'%s", i ? ", " : "; did you mean ", near->names[i],
                            i + 1 == near->n ? "?" : "");
        used += more > 0 ? (size_t)more : 0;
    }
}
