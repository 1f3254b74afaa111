/* Reads what the kernel says of limits. Control groups: which mount, which directory, then upwards. */
#include "budget/memory_limits.h"

#include "base/checked.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOK_AGAIN_NS UINT64_C(1000000000) /* after so long, the share of an account that nobody stated is looked for anew */
#define PATH_BYTES 4096
#define LINE_BYTES 8192                  /* of mountinfo: two paths and options; a longer line is cut, and then says nothing */
#define NO_LIMIT ((uint64_t)1 << 62)     /* cgroup v1 has no word for none: a number near 2^63 */
#define WITHOUT_PROC ((uint64_t)4 << 30) /* a machine that does not say what it has */

/* ---- files ---- */

static FILE *open_at(const char *root, const char *dir, const char *name)
{
    char path[2 * PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s%s%s%s", root, dir, *name ? "/" : "", name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

static void close_read(FILE *f)
{
    if (f)
        (void)fclose(f); /* read only: nothing to lose */
}

/* The number that a file is; false for "max" and for none. */
static bool read_number(const char *root, const char *dir, const char *name, uint64_t *out)
{
    FILE *f = open_at(root, dir, name);
    unsigned long long n = 0;
    const bool ok = f && fscanf(f, "%llu", &n) == 1;
    close_read(f);
    *out = n;
    return ok;
}

/* The number after a key at the beginning of a line, times `unit`; 0 where there is none. */
static uint64_t read_key(const char *root, const char *dir, const char *name, const char *key, uint64_t unit)
{
    FILE *f = open_at(root, dir, name);
    char line[256];
    uint64_t found = 0;
    const size_t n = strlen(key);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == ':')) {
            if (!fby__mul_u64_checked(strtoull(line + n + 1, NULL, 10), unit, &found))
                found = UINT64_MAX;
            break;
        }
    close_read(f);
    return found;
}

/* ---- limits ---- */

static void size_text(uint64_t bytes, char *out, size_t n)
{
    const double mib = (double)bytes / (1u << 20);
    if (mib < 10 * 1024)
        (void)snprintf(out, n, bytes % (1u << 20) ? "%.1f MiB" : "%.0f MiB", mib);
    else
        (void)snprintf(out, n, "%.1f GiB", mib / 1024);
}

/* A limit of which so much is used. where: a path, or nothing. */
static void add_limit(fby__memory_limits *m, bool own, uint64_t limit, uint64_t used, const char *kind, const char *where, const char *file)
{
    const uint64_t left = limit > used ? limit - used : 0;
    if (own)
        m->own_bytes = fby__min_u64(m->own_bytes, left);
    else
        m->shared_bytes = fby__min_u64(m->shared_bytes, left);
    if (limit >= m->limit_bytes)
        return;
    char size[32];
    const size_t length = strlen(where), most = sizeof m->text - 96; /* of a long path, its end */
    size_text(limit, size, sizeof size);
    m->limit_bytes = limit;
    (void)snprintf(m->text, sizeof m->text, "%s%s%s%s%s %s", kind, length > most ? "…" : "", length > most ? where + length - most : where,
                   *file && length && where[length - 1] != '/' ? "/" : "", file, size);
}

/* ---- control groups ---- */

typedef struct hierarchy {
    bool v2;
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
    FILE *f = open_at(root, "/proc/self/cgroup", "");
    char line[LINE_BYTES];
    bool found = false;
    while (!found && f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        controllers++;
        found = h->v2 ? strncmp(line, "0:", 2) == 0 && !*controllers : has_word(controllers, "memory");
        if (found)
            found = (size_t)snprintf(h->group, sizeof h->group, "%s", path) < sizeof h->group;
    }
    close_read(f);
    return found;
}

/* Does a group lie at or below another? */
static bool lies_in(const char *group, const char *above)
{
    const size_t n = strcmp(above, "/") == 0 ? 0 : strlen(above);
    return strncmp(group, above, n) == 0 && (group[n] == 0 || group[n] == '/');
}

/* Fields are "36 35 0:26 GROUP MOUNT options … - TYPE SOURCE SUPER": is it a mount of this hierarchy? */
static bool parse_mount(char *line, bool v2, char **out_above, char **out_mount)
{
    char *end = strstr(line, " - "), *rest = NULL, *super_rest = NULL;
    if (!end)
        return false;
    *end = 0;
    const char *type = strtok_r(end + 3, " \n", &super_rest);
    (void)strtok_r(NULL, " \n", &super_rest); /* the source */
    const char *super = strtok_r(NULL, " \n", &super_rest);
    if (!type || strcmp(type, v2 ? "cgroup2" : "cgroup") != 0 || (!v2 && (!super || !has_word(super, "memory"))))
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

/* Of several mounts, the one that shows the most groups above this one; one that shows others alone is better than none. */
static bool find_mount(const char *root, hierarchy *h)
{
    FILE *f = open_at(root, "/proc/self/mountinfo", "");
    char line[LINE_BYTES], *above, *mount;
    bool found = false, fits = false;
    while (f && fgets(line, sizeof line, f)) {
        if (!parse_mount(line, h->v2, &above, &mount))
            continue;
        const bool this_fits = lies_in(h->group, above);
        if (found && (!this_fits || (fits && strlen(above) >= strlen(h->above))))
            continue;
        memcpy(h->above, above, strlen(above) + 1);
        memcpy(h->mount, mount, strlen(mount) + 1);
        found = true;
        fits = this_fits;
    }
    close_read(f);
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

/* What is used of a group's limit: what the kernel can drop at once does not count. */
static uint64_t used_of(const char *root, const char *dir, bool v2)
{
    uint64_t used;
    if (!read_number(root, dir, v2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return 0;
    const uint64_t cache = read_key(root, dir, "memory.stat", v2 ? "inactive_file" : "total_inactive_file", 1) +
                           read_key(root, dir, "memory.stat", v2 ? "active_file" : "total_active_file", 1);
    return used > cache ? used - cache : 0;
}

static void limits_of_group(const char *root, const hierarchy *h, const char *dir, const char *group, bool own_group, fby__memory_limits *m)
{
    static const char *const V2[] = {"memory.max", "memory.high"};
    uint64_t limit;
    for (int i = 0; h->v2 && i < 2; i++)
        if (read_number(root, dir, V2[i], &limit))
            add_limit(m, false, limit, used_of(root, dir, true), "cgroup v2 ", group, V2[i]);
    if (h->v2)
        return;
    if (read_number(root, dir, "memory.limit_in_bytes", &limit) && limit < NO_LIMIT)
        add_limit(m, false, limit, used_of(root, dir, false), "cgroup v1 ", group, "memory.limit_in_bytes");
    limit = own_group ? read_key(root, dir, "memory.stat", "hierarchical_memory_limit", 1) : 0;
    if (limit && limit < NO_LIMIT && limit < m->limit_bytes) /* of a group that the mount does not show */
        add_limit(m, false, limit, used_of(root, dir, false), "cgroup v1 above ", group, "");
}

static void limits_of_groups(const char *root, bool v2, fby__memory_limits *m)
{
    hierarchy h = {.v2 = v2};
    char dir[2 * PATH_BYTES];
    if (!find_group(root, &h) || !find_mount(root, &h) || !directory_of(&h, dir, sizeof dir))
        return;
    const size_t top = strlen(h.mount);
    bool own_group = true;
    for (;;) { /* upwards to the mount, itself included */
        limits_of_group(root, &h, dir, dir[top] ? dir + top : "/", own_group, m);
        own_group = false;
        char *last = strrchr(dir + top, '/');
        if (!last)
            break;
        *last = 0;
    }
}

/* ---- the process ---- */

/* What is mapped: all of it, and data with stacks. */
static void limits_of_process(fby__memory_limits *m)
{
    unsigned long long all = 0, data = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%llu %*u %*u %*u %*u %llu", &all, &data) != 2)
        all = data = 0;
    close_read(f);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        add_limit(m, true, limit.rlim_cur, all * page, "RLIMIT_AS", "", "");
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        add_limit(m, true, limit.rlim_cur, data * page, "RLIMIT_DATA", "", "");
}

void fby__memory_limits_find(const char *root, fby__memory_limits *out)
{
    fby__memory_limits m = {.shared_bytes = UINT64_MAX, .own_bytes = UINT64_MAX, .limit_bytes = UINT64_MAX};
    const uint64_t available = read_key(root, "/proc/meminfo", "", "MemAvailable", 1024);
    const uint64_t total = read_key(root, "/proc/meminfo", "", "MemTotal", 1024);
    const uint64_t machine = fby__max_u64(total, available ? available : WITHOUT_PROC);
    add_limit(&m, false, machine, available ? machine - available : 0, "the machine's memory", "", "");
    limits_of_groups(root, false, &m);
    limits_of_groups(root, true, &m);
    if (!*root)
        limits_of_process(&m);
    m.available_bytes = fby__min_u64(m.shared_bytes, m.own_bytes);
    *out = m;
}

uint64_t fby_memory_available(uint64_t *out_limit_bytes, char *out_limit, size_t room)
{
    fby__memory_limits found;
    fby__memory_limits_find("", &found);
    if (out_limit_bytes)
        *out_limit_bytes = found.limit_bytes;
    (void)snprintf(out_limit, room, "%s", found.text); /* cut, as is said */
    return found.available_bytes;
}

uint64_t fby__memory_left_bytes(const fby__memory_limits *found, uint32_t ranks)
{
    const uint64_t promised = fby__ledger_promised_bytes();
    const uint64_t shared = found->shared_bytes - fby__min_u64(promised, found->shared_bytes);
    const uint64_t own = found->own_bytes - fby__min_u64(promised, found->own_bytes);
    return fby__min_u64(shared / ranks, own);
}

/* The process's own limits change at once, where they do. */
static uint64_t own_limit_bytes(void)
{
    struct rlimit as = {RLIM_INFINITY, 0}, data = {RLIM_INFINITY, 0};
    (void)getrlimit(RLIMIT_AS, &as);
    (void)getrlimit(RLIMIT_DATA, &data);
    return fby__min_u64(as.rlim_cur, data.rlim_cur);
}

fby_status fby__account_open_asked(uint64_t asked_bytes, fby__account **out, fby_error *err)
{
    if (asked_bytes)
        return fby__account_open(asked_bytes, out, err);
    /* To look costs as much as to read a small file. Two threads may both look: figures of another moment do as well. */
    static _Atomic uint64_t g_share_bytes, g_own_bytes, g_until_ns; /* the latter released with the others, and acquired before them */
    const uint64_t now = fby__now_ns(), own = own_limit_bytes();
    if (now >= atomic_load_explicit(&g_until_ns, memory_order_acquire) || own != atomic_load_explicit(&g_own_bytes, memory_order_relaxed)) {
        fby__memory_limits found;
        fby__memory_limits_find("", &found);
        atomic_store_explicit(&g_share_bytes, fby__memory_left_bytes(&found, 1) / 2, memory_order_relaxed);
        atomic_store_explicit(&g_own_bytes, own, memory_order_relaxed);
        atomic_store_explicit(&g_until_ns, now + LOOK_AGAIN_NS, memory_order_release);
    }
    const uint64_t bytes = atomic_load_explicit(&g_share_bytes, memory_order_relaxed);
    return fby__account_open(bytes, out, err);
}
