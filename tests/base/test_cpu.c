/* What cpuid says against what the kernel says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"

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

int main(void)
{
    (void)unsetenv("FOREBAY_SIMD"); /* of the caller's */
    const struct CMUnitTest tests[] = {cmocka_unit_test(features_are_those_that_the_kernel_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
