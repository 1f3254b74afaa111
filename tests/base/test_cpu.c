/* What cpuid says against what the kernel says; how many CPUs made-up control groups leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "support/root_files.h"
#include "support/temp_dir.h"

#include <forebay/base.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
static char g_flags[8192];

static bool kernel_has(const char *flag)
{
    const size_t n = strlen(flag);
    for (const char *at = g_flags; (at = strstr(at, flag)); at += n)
        if (at[-1] == ' ' && (at[n] == ' ' || at[n] == '\n'))
            return true;
    return false;
}
#endif

static void features_are_those_that_the_kernel_lists(void **state)
{
    (void)state;
#if defined(__x86_64__)
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool found = false;
    while (file && !found && fgets(g_flags, sizeof g_flags, file))
        found = strncmp(g_flags, "flags", 5) == 0;
    if (file)
        (void)fclose(file);
    if (!found)
        skip();
    const bool avx2 = kernel_has("avx2") && kernel_has("bmi1") && kernel_has("bmi2") && kernel_has("fma") && kernel_has("f16c");
    assert_int_equal(fby__cpu_has_avx2(), avx2);
    assert_int_equal(fby__cpu_has_avx512(), avx2 && kernel_has("avx512f") && kernel_has("avx512bw") && kernel_has("avx512dq") &&
                                                kernel_has("avx512vl") && kernel_has("avx512vbmi"));
#else
    assert_false(fby__cpu_has_avx2());
    assert_false(fby__cpu_has_avx512());
#endif
#if defined(__aarch64__)
    assert_true(fby__cpu_has_neon());
#else
    assert_false(fby__cpu_has_neon());
#endif
}

static void assert_quota(double cpus, const char *name)
{
    fby__cpu_quota q;
    fby__cpu_quota_find("root", &q);
    if (q.cpus < cpus - 1e-9 || q.cpus > cpus + 1e-9 || strcmp(q.name, name) != 0)
        fail_msg("%g, '%s'; expected %g, '%s'", q.cpus, q.name, cpus, name);
}

static void of_nested_groups_the_smallest_quota_counts(void **state)
{
    (void)state;
    assert_quota(0, ""); /* no groups at all */
    put("/proc/self/cgroup", "0::/job/step\n");
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    assert_quota(0, "");
    put("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    assert_quota(1.5, "cgroup v2 /job/cpu.max");
    put("/sys/fs/cgroup/job/step/cpu.max", "25000 50000\n");
    assert_quota(0.5, "cgroup v2 /job/step/cpu.max");
    put("/sys/fs/cgroup/job/step/cpu.max", "many\n");
    put("/sys/fs/cgroup/job/cpu.max", "7 0\n");
    assert_quota(0, "");
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n"); /* in a namespace the mount is the group */
    assert_quota(4, "cgroup v2 /cpu.max");
}

static void version_1_has_quotas_of_its_own(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "7:cpuset:/set\n5:cpu,cpuacct:/docker/ab\n0::/z\n");
    put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                                "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us", "-1\n");
    assert_quota(0, "");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us", "250000\n");
    assert_quota(2.5, "cgroup v1 /docker/ab/cpu.cfs_quota_us");
}

static void a_process_has_no_more_than_its_affinity(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    double quota;
    char which[256];
    const int n = fby_cpus_available(&quota, which, sizeof which);
    assert_true(n >= 1 && n <= CPU_COUNT(&set));
    assert_int_equal(quota > 0, which[0] != 0);
    assert_true(quota <= 0 || n < quota + 1);
    assert_int_equal(fby_cpus_available(NULL, NULL, 0), n);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    (void)unsetenv("FOREBAY_SIMD"); /* of the caller's */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_that_the_kernel_lists),
        TEST(of_nested_groups_the_smallest_quota_counts),
        TEST(version_1_has_quotas_of_its_own),
        cmocka_unit_test(a_process_has_no_more_than_its_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
