/* Control groups: which mount, which directory, then upwards. */
#include "base/cgroup.h"

#include <string.h>

#define PATH_BYTES 4096
#define LINE_BYTES 8192 /* of mountinfo: two paths and options; a longer line is cut, and then says nothing */

/* ---- files ---- */

FILE *fby__small_file_open(const char *root, const char *dir, const char *name)
{
    char path[2 * PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s%s%s%s", root, dir, *name ? "/" : "", name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

void fby__small_file_close(FILE *file)
{
    if (file)
        (void)fclose(file); /* read only: nothing to lose */
}

bool fby__small_file_number(const char *root, const char *dir, const char *name, uint64_t *out)
{
    FILE *f = fby__small_file_open(root, dir, name);
    unsigned long long n = 0;
    const bool ok = f && fscanf(f, "%llu", &n) == 1;
    fby__small_file_close(f);
    *out = n;
    return ok;
}

/* ---- groups ---- */

typedef struct hierarchy {
    const char *controller; /* NULL: version 2 */
    char group[PATH_BYTES]; /* of the process, as the kernel names it */
    char mount[PATH_BYTES]; /* where the groups lie */
    char above[PATH_BYTES]; /* which group lies there */
} hierarchy;

/* "\040" and the like, in place. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        const bool octal = s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7';
        *to++ = octal ? (char)(((s[1] - '0') << 6) | ((s[2] - '0') << 3) | (s[3] - '0')) : *s;
        s += octal ? 3 : 0;
    }
    *to = 0;
}

/* Is `word` one of the words between commas? */
static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == 0 || at[n] == ','))
            return true;
    return false;
}

/* Lines are "4:memory:/job" of v1 and "0::/job" of v2. */
static bool find_group(const char *root, hierarchy *h)
{
    FILE *f = fby__small_file_open(root, "/proc/self/cgroup", "");
    char line[LINE_BYTES];
    bool found = false;
    while (!found && f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        controllers++;
        found = h->controller ? has_word(controllers, h->controller) : strncmp(line, "0:", 2) == 0 && !*controllers;
        if (found)
            found = (size_t)snprintf(h->group, sizeof h->group, "%s", path) < sizeof h->group;
    }
    fby__small_file_close(f);
    return found;
}

/* Does a group lie at or below another? */
static bool lies_in(const char *group, const char *above)
{
    const size_t n = strcmp(above, "/") == 0 ? 0 : strlen(above);
    return strncmp(group, above, n) == 0 && (group[n] == 0 || group[n] == '/');
}

/* Fields are "36 35 0:26 GROUP MOUNT options … - TYPE SOURCE SUPER": is it a mount of this hierarchy? */
static bool parse_mount(char *line, const char *controller, char **out_above, char **out_mount)
{
    char *end = strstr(line, " - "), *rest = NULL, *super_rest = NULL;
    if (!end)
        return false;
    *end = 0;
    const char *type = strtok_r(end + 3, " \n", &super_rest);
    (void)strtok_r(NULL, " \n", &super_rest); /* the source */
    const char *super = strtok_r(NULL, " \n", &super_rest);
    if (!type || strcmp(type, controller ? "cgroup" : "cgroup2") != 0 || (controller && (!super || !has_word(super, controller))))
        return false;
    char *field = strtok_r(line, " ", &rest);
    for (int i = 0; field && i < 3; i++)
        field = strtok_r(NULL, " ", &rest);
    *out_above = field;
    *out_mount = field ? strtok_r(NULL, " ", &rest) : NULL;
    if (!*out_mount)
        return false;
    unescape(*out_above);
    unescape(*out_mount);
    return strlen(*out_above) < PATH_BYTES && strlen(*out_mount) < PATH_BYTES;
}

/* Finds the mount that shows the most groups above this one; a mount that shows only other groups is better than none. */
static bool find_mount(const char *root, hierarchy *h)
{
    FILE *f = fby__small_file_open(root, "/proc/self/mountinfo", "");
    char line[LINE_BYTES], *above, *mount;
    bool found = false, fits = false;
    while (f && fgets(line, sizeof line, f)) {
        if (!parse_mount(line, h->controller, &above, &mount))
            continue;
        const bool this_fits = lies_in(h->group, above);
        if (found && (!this_fits || (fits && strlen(above) >= strlen(h->above))))
            continue;
        memcpy(h->above, above, strlen(above) + 1);
        memcpy(h->mount, mount, strlen(mount) + 1);
        found = true;
        fits = this_fits;
    }
    fby__small_file_close(f);
    return found;
}

/* The group's directory; where the mount shows others alone (another namespace), the mount itself. */
static bool directory_of(const hierarchy *h, char *out, size_t n)
{
    const char *below = "";
    if (lies_in(h->group, h->above))
        below = h->group + (strcmp(h->above, "/") == 0 ? 0 : strlen(h->above));
    if (strstr(below, "/.."))
        below = "";
    const int length = snprintf(out, n, "%s%s", h->mount, strcmp(below, "/") == 0 ? "" : below);
    return length > 0 && (size_t)length < n;
}

static void each_of(const char *root, const char *controller, void (*look)(const fby__cgroup *group, void *user), void *user)
{
    hierarchy h = {.controller = controller};
    char dir[2 * PATH_BYTES];
    if (!find_group(root, &h) || !find_mount(root, &h) || !directory_of(&h, dir, sizeof dir))
        return;
    const size_t top = strlen(h.mount);
    fby__cgroup group = {.root = root, .dir = dir, .v2 = !controller, .own = true};
    for (;;) {
        group.path = dir[top] ? dir + top : "/";
        look(&group, user);
        group.own = false;
        char *last = strrchr(dir + top, '/');
        if (!last)
            return;
        *last = 0;
    }
}

void fby__cgroups_each(const char *root, const char *controller, void (*look)(const fby__cgroup *group, void *user), void *user)
{
    each_of(root, controller, look, user);
    each_of(root, NULL, look, user);
}

void fby__cgroup_name(const fby__cgroup *group, const char *file, char *out, size_t room)
{
    const size_t length = strlen(group->path), most = room / 2;
    (void)snprintf(out, room, "cgroup %s %s%s%s%s", group->v2 ? "v2" : "v1", length > most ? "…" : "",
                   length > most ? group->path + length - most : group->path, length && group->path[length - 1] == '/' ? "" : "/", file);
}
