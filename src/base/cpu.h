/* What this CPU can do, asked once; and how many CPUs this process may use. */
#ifndef FBY_BASE_CPU_H
#define FBY_BASE_CPU_H

#include <stdbool.h>

/*
 * SIMD variants are functions with __attribute__((target("avx2"))) and the like, chosen at run time by these.
 * FOREBAY_SIMD=scalar in the environment answers false everywhere: the scalar code is the reference under the same tests.
 */
bool fby__cpu_has_avx2(void);   /* with BMI1/BMI2, FMA, F16C */
bool fby__cpu_has_avx512(void); /* F, BW, DQ, VL and VBMI */
bool fby__cpu_has_neon(void);   /* every aarch64, whose compiler also uses it for plain loops */

/** How many CPUs at a time a control group of this process, or one above it, allows at the least. */
typedef struct fby__cpu_quota {
    double cpus;    /* 0: none says so */
    char name[224]; /* which: "cgroup v2 /job/cpu.max" */
} fby__cpu_quota;

/** @root  as base/cgroup.h has it. */
void fby__cpu_quota_find(const char *root, fby__cpu_quota *out);

/** What fby_cpus_available() returns. */
int fby__cpu_count(void);

#endif
