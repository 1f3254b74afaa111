/* CPU features through the compiler's cpuid support; CPU count through affinity and the cgroup v2 quota. */
#include "base/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t g_once = PTHREAD_ONCE_INIT;
static bool g_avx2, g_avx512;

static void detect(void)
{
    const char *env = getenv("FOREBAY_SIMD");
    if (env && strcmp(env, "scalar") == 0)
        return;
#if defined(__x86_64__)
    __builtin_cpu_init();
    g_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
    if (env && strcmp(env, "avx2") == 0)
        return;
    g_avx512 = g_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi");
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

int fby__cpu_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        long long quota, period;
        if (fscanf(f, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
            int allowed = (int)((quota + period - 1) / period);
            n = allowed < n ? allowed : n;
        }
        (void)fclose(f); /* read only: nothing to lose */
    }
    return n < 1 ? 1 : n;
}
