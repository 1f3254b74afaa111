/* CPU features by cpuid, without the compiler's own list of them, which some C libraries leave empty; CPU count through affinity and the cgroup v2 quota. */
#include "base/cpu.h"

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
