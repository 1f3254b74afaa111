/* CPU features by cpuid, without the compiler's own list of them, which some C libraries leave empty; CPU count by affinity and control groups. */
#include "base/cpu.h"

#include "base/cgroup.h"

#include <forebay/base.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t g_once = PTHREAD_ONCE_INIT;
static bool g_avx2, g_avx512, g_neon;

#if defined(__x86_64__)
enum { LEAF1_FMA = 12, LEAF1_OSXSAVE = 27, LEAF1_F16C = 29 };                                                       /* bits of ecx */
enum { LEAF7_BMI1 = 3, LEAF7_AVX2 = 5, LEAF7_BMI2 = 8, LEAF7_F = 16, LEAF7_DQ = 17, LEAF7_BW = 30, LEAF7_VL = 31 }; /* of ebx */
enum { LEAF7_VBMI = 1 };                                                                                            /* of ecx */
enum { STATE_AVX = 0x06, STATE_AVX512 = 0xe6 }; /* registers that the kernel saves */

static bool has(unsigned word, unsigned bit) { return word >> bit & 1; }

static void ask(bool *out_avx2, bool *out_avx512)
{
    unsigned a, b1, c1, d, b7, c7, state, high;
    if (!__get_cpuid(1, &a, &b1, &c1, &d) || !has(c1, LEAF1_OSXSAVE) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d))
        return;
    __asm__("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
    *out_avx2 = (state & STATE_AVX) == STATE_AVX && has(c1, LEAF1_FMA) && has(c1, LEAF1_F16C) && has(b7, LEAF7_BMI1) &&
                has(b7, LEAF7_AVX2) && has(b7, LEAF7_BMI2);
    *out_avx512 = *out_avx2 && (state & STATE_AVX512) == STATE_AVX512 && has(b7, LEAF7_F) && has(b7, LEAF7_DQ) && has(b7, LEAF7_BW) &&
                  has(b7, LEAF7_VL) && has(c7, LEAF7_VBMI);
}
#endif

static void detect(void)
{
    const char *env = getenv("FOREBAY_SIMD");
    if (env && strcmp(env, "scalar") == 0)
        return;
#if defined(__x86_64__)
    ask(&g_avx2, &g_avx512);
    if (env && strcmp(env, "avx2") == 0)
        g_avx512 = false;
#elif defined(__aarch64__)
    g_neon = true;
#endif
}

bool fby__cpu_has_avx2(void)
{
    (void)pthread_once(&g_once, detect);
    return g_avx2;
}

bool fby__cpu_has_avx512(void)
{
    (void)pthread_once(&g_once, detect);
    return g_avx512;
}

bool fby__cpu_has_neon(void)
{
    (void)pthread_once(&g_once, detect);
    return g_neon;
}

static void look_at_group(const fby__cgroup *g, void *user)
{
    fby__cpu_quota *least = user;
    uint64_t quota = 0, period = 0;
    const char *file = g->v2 ? "cpu.max" : "cpu.cfs_quota_us";
    if (g->v2) {
        FILE *f = fby__small_file_open(g->root, g->dir, file);
        unsigned long long q, p;
        if (f && fscanf(f, "%llu %llu", &q, &p) == 2) { /* "max" is no number */
            quota = q;
            period = p;
        }
        fby__small_file_close(f);
    } else if (fby__small_file_number(g->root, g->dir, file, &quota)) {
        (void)fby__small_file_number(g->root, g->dir, "cpu.cfs_period_us", &period); /* 0 where there is none */
    }
    if (!quota || quota > INT64_MAX || !period) /* -1 of version 1 is none */
        return;
    const double cpus = (double)quota / (double)period;
    if (least->cpus > 0 && least->cpus <= cpus)
        return;
    least->cpus = cpus;
    fby__cgroup_name(g, file, least->name, sizeof least->name);
}

void fby__cpu_quota_find(const char *root, fby__cpu_quota *out)
{
    *out = (fby__cpu_quota){0};
    fby__cgroups_each(root, "cpu", look_at_group, out);
}

/* A process seldom moves to another group, and its directories take longer to find than a small file to open. */
static pthread_once_t g_quota_once = PTHREAD_ONCE_INIT;
static fby__cpu_quota g_quota;

static void find_quota(void) { fby__cpu_quota_find("", &g_quota); }

int fby_cpus_available(double *out_quota, char *out_limit, size_t room)
{
    (void)pthread_once(&g_quota_once, find_quota);
    if (out_quota)
        *out_quota = g_quota.cpus;
    (void)snprintf(out_limit, room, "%s", g_quota.name); /* cut to fit, as the header says */
    cpu_set_t set;
    const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int n = usable;
    if (g_quota.cpus > 0 && g_quota.cpus < usable) {
        n = (int)g_quota.cpus;
        n += n < g_quota.cpus; /* rounded up */
    }
    return n < 1 ? 1 : n;
}

int fby__cpu_count(void) { return fby_cpus_available(NULL, NULL, 0); }
