/* Reads what the kernel says of limits. */
#include "budget/memory_limits.h"

#include "base/cgroup.h"
#include "base/checked.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOK_AGAIN_NS UINT64_C(1000000000) /* after so long, the share of an account that nobody stated is looked for anew */
#define NO_LIMIT ((uint64_t)1 << 62)       /* cgroup v1 has no word for none: a number near 2^63 */
#define MOST_RANKS 65536u                  /* of a host: a launcher that says more says nothing */
#define WITHOUT_PROC ((uint64_t)4 << 30)   /* a machine that does not say what it has */

/* ---- files ---- */

/* The number after a key at the beginning of a line, times `unit`; 0 where there is none. */
static uint64_t read_key(const char *root, const char *dir, const char *name, const char *key, uint64_t unit)
{
    FILE *f = fby__small_file_open(root, dir, name);
    char line[256];
    uint64_t found = 0;
    const size_t n = strlen(key);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == ':')) {
            if (!fby__mul_u64_checked(strtoull(line + n + 1, NULL, 10), unit, &found))
                found = UINT64_MAX;
            break;
        }
    fby__small_file_close(f);
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

/* A limit of which so much is used. */
static void add_limit(fby__memory_limits *m, bool own, uint64_t limit, uint64_t used, const char *name)
{
    const uint64_t left = limit > used ? limit - used : 0;
    if (own)
        m->own_bytes = fby__min_u64(m->own_bytes, left);
    else
        m->shared_bytes = fby__min_u64(m->shared_bytes, left);
    if (limit >= m->limit_bytes)
        return;
    char size[32];
    size_text(limit, size, sizeof size);
    m->limit_bytes = limit;
    (void)snprintf(m->text, sizeof m->text, "%s %s", name, size);
}

/* ---- control groups ---- */

/* What is used of a group's limit: what the kernel can drop at once does not count. */
static uint64_t used_of(const fby__cgroup *g)
{
    uint64_t used;
    if (!fby__small_file_number(g->root, g->dir, g->v2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return 0;
    const uint64_t cache = read_key(g->root, g->dir, "memory.stat", g->v2 ? "inactive_file" : "total_inactive_file", 1) +
                           read_key(g->root, g->dir, "memory.stat", g->v2 ? "active_file" : "total_active_file", 1);
    return used > cache ? used - cache : 0;
}

static void limits_of_group(const fby__cgroup *g, void *user)
{
    static const char *const FILES[] = {"memory.limit_in_bytes", "memory.max", "memory.high"}; /* the first one of version 1 */
    fby__memory_limits *m = user;
    char name[sizeof m->text - 32];
    uint64_t limit;
    for (int i = g->v2 ? 1 : 0; i < (g->v2 ? 3 : 1); i++) {
        if (fby__small_file_number(g->root, g->dir, FILES[i], &limit) && limit < NO_LIMIT) {
            fby__cgroup_name(g, FILES[i], name, sizeof name);
            add_limit(m, false, limit, used_of(g), name);
        }
    }
    limit = g->own && !g->v2 ? read_key(g->root, g->dir, "memory.stat", "hierarchical_memory_limit", 1) : 0;
    if (limit && limit < NO_LIMIT && limit < m->limit_bytes) { /* of a group that the mount does not show */
        (void)snprintf(name, sizeof name, "cgroup v1 above %.*s", (int)sizeof name / 2, g->path); /* a long path is cut */
        add_limit(m, false, limit, used_of(g), name);
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
    fby__small_file_close(f);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        add_limit(m, true, limit.rlim_cur, all * page, "RLIMIT_AS");
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        add_limit(m, true, limit.rlim_cur, data * page, "RLIMIT_DATA");
}

void fby__memory_limits_find(const char *root, fby__memory_limits *out)
{
    fby__memory_limits m = {.shared_bytes = UINT64_MAX, .own_bytes = UINT64_MAX, .limit_bytes = UINT64_MAX};
    const uint64_t available = read_key(root, "/proc/meminfo", "", "MemAvailable", 1024);
    const uint64_t total = read_key(root, "/proc/meminfo", "", "MemTotal", 1024);
    const uint64_t machine = fby__max_u64(total, available ? available : WITHOUT_PROC);
    add_limit(&m, false, machine, available ? machine - available : 0, "the machine's memory");
    fby__cgroups_each(root, "memory", limits_of_group, &m);
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
    (void)snprintf(out_limit, room, "%s", found.text); /* cut to fit, as the header says */
    return found.available_bytes;
}

/* "4(x2),3": the most tasks that a host of a Slurm step has. */
static uint64_t most_tasks(const char *text)
{
    uint64_t most = 0;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        most = fby__max_u64(most, strtoull(at, NULL, 10));
    return most;
}

uint32_t fby__host_ranks(void)
{
    /* torchrun, Open MPI, MVAPICH, MPICH and Intel MPI; the same as Python's _ranks.py */
    static const char *const SIZES[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                        "SLURM_STEP_TASKS_PER_NODE"};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const char *text = getenv(SIZES[i]);
        const uint64_t n = text ? most_tasks(text) : 0;
        if (n > 0 && n <= MOST_RANKS)
            return (uint32_t)n;
    }
    return 0;
}

uint64_t fby__memory_share_bytes(const fby__memory_limits *found, uint32_t ranks)
{
    const uint64_t promised = fby__ledger_promised_bytes();
    const uint64_t shared = found->shared_bytes - fby__min_u64(promised, found->shared_bytes);
    const uint64_t own = found->own_bytes - fby__min_u64(promised, found->own_bytes);
    if (!ranks)
        ranks = fby__host_ranks();
    return fby__min_u64(shared / (ranks ? ranks : 1), own);
}

uint64_t fby__memory_budget_bytes(const fby__memory_limits *found, uint32_t ranks) { return fby__memory_share_bytes(found, ranks) / 2; }

uint64_t fby_memory_budget(uint32_t ranks)
{
    fby__memory_limits found;
    fby__memory_limits_find("", &found);
    return fby__memory_budget_bytes(&found, ranks);
}

uint64_t fby__memory_most_bytes(const fby__memory_limits *found, uint32_t ranks)
{
    const uint64_t little = fby__min_u64(FBY__AUTO_BYTES, found->available_bytes / 10 * 9);
    return fby__max_u64(fby__memory_share_bytes(found, ranks) / 10 * 9, little);
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
    static _Atomic uint64_t g_budget_bytes, g_own_bytes, g_until_ns; /* the latter released with the others, and acquired before them */
    const uint64_t now = fby__now_ns(), own = own_limit_bytes();
    if (now >= atomic_load_explicit(&g_until_ns, memory_order_acquire) || own != atomic_load_explicit(&g_own_bytes, memory_order_relaxed)) {
        atomic_store_explicit(&g_budget_bytes, fby_memory_budget(0), memory_order_relaxed);
        atomic_store_explicit(&g_own_bytes, own, memory_order_relaxed);
        atomic_store_explicit(&g_until_ns, now + LOOK_AGAIN_NS, memory_order_release);
    }
    return fby__account_open(atomic_load_explicit(&g_budget_bytes, memory_order_relaxed), out, err);
}
