/* Paths as text: nothing here touches a disk. */
#include "base/error.h"
#include "dataset/dataset_impl.h"

#include <errno.h>
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

static fby_status working_directory(const char *path, char out[4096], fby_error *err)
{
    out[0] = 0;
    if (*path != '/' && !getcwd(out, 4096))
        return fby__fail_errno(err, errno, "cannot find the working directory that '%s' is relative to", path);
    return FBY_OK;
}

fby_status fby__path_anchor(fby__arena *arena, const char *path, const char **out, fby_error *err)
{
    char cwd[4096];
    FBY__TRY(working_directory(path, cwd, err));
    while (path[0] == '.' && path[1] == '/')
        for (path++; *path == '/'; path++)
            ;
    *out = *cwd ? fby__path_join(arena, cwd, path) : fby__arena_copy(arena, path, strlen(path));
    return *out ? FBY_OK : fby__fail_nomem(err, "paths");
}

fby_status fby__path_absolute(fby__arena *arena, const char *path, const char **out, fby_error *err)
{
    char cwd[4096];
    FBY__TRY(working_directory(path, cwd, err));
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
    if (!dot || dot == base)
        return strlen(base);
    size_t n = (size_t)(dot - base);
    if (strcmp(dot, ".gz") != 0)
        return n;
    for (size_t i = n; i-- > 1;) /* "b001.csv.gz" */
        if (base[i] == '.')
            return i;
    return n;
}
