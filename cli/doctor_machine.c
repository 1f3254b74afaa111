/* Cores, memory and kernel, as this process has them: what affinity and control groups leave counts, not what the machine has. */
#include "doctor.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/** The first line of a small file without its end; false: it is not there. */
static bool read_line(const char *path, char *out, size_t room)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(out, (int)room, file);
    (void)fclose(file); /* it was only read */
    if (got)
        out[strcspn(out, "\n")] = 0;
    return got;
}

#if defined(__x86_64__)
/** Is a word in the list of the first processor's features? */
static bool cpu_flag(const char *flag)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[8192];
    bool found = false;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "flags", 5) != 0)
            continue;
        for (char *word = strtok(line, " \n"); word && !found; word = strtok(NULL, " \n"))
            found = strcmp(word, flag) == 0;
        break;
    }
    if (file)
        (void)fclose(file); /* it was only read */
    return found;
}
#endif

static void look_at_cores(doctor_report *report)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    double quota;
    char which[256];
    const int threads = fby_cpus_available(&quota, which, sizeof which);
    doctor_finding *f = doctor_add(report, "cores", DOCTOR_OK, "%d of %ld may be used", usable, online);
    if (usable < online)
        f->level = DOCTOR_NOTE;
    if (quota > 0)
        cli_text_addf(&f->what, ", %.3g at a time (%s)", quota, which);
    if (quota > 0 && quota < usable * 0.95) {
        f->level = DOCTOR_SLOW;
        cli_text_addf(&f->cure,
                      "ask the scheduler for %d cores; a loader has %d thread%s, other libraries do not see it: OMP_NUM_THREADS=%d", usable,
                      threads, threads == 1 ? "" : "s", threads);
    }
#if defined(__x86_64__)
    const bool avx2 = cpu_flag("avx2"), avx512 = cpu_flag("avx512vbmi");
    f = doctor_add(report, "instructions", avx2 ? DOCTOR_OK : DOCTOR_SLOW, "%s",
                   avx512 ? "AVX-512 and AVX2"
                   : avx2 ? "AVX2"
                          : "neither AVX2 nor AVX-512: decoding takes about twice as long");
    if (!avx2)
        cli_text_add(&f->cure, "in a virtual machine, pass the host's processor through (-cpu host)");
#endif
    char governor[64];
    if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor)) {
        bool slow = strcmp(governor, "powersave") == 0 && access("/sys/devices/system/cpu/intel_pstate", F_OK) != 0;
        f = doctor_add(report, "frequency", slow ? DOCTOR_SLOW : DOCTOR_OK, "governor %s", governor);
        if (slow)
            cli_text_add(&f->cure, "cpupower frequency-set -g performance (as root)");
    }
}

static void look_at_memory(doctor_report *report)
{
    char which[256];
    uint64_t limit;
    const uint64_t available = fby_memory_available(&limit, which, sizeof which);
    doctor_finding *f = doctor_add(report, "memory", DOCTOR_OK, "%s available; the limit is %s", cli_memory(available), which);
    if (available < limit / 10) {
        f->level = DOCTOR_SLOW;
        cli_text_add(&f->cure, "end what else runs, or state a smaller memory=: what little is left is also the page cache");
    }
    char huge[128];
    if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", huge, sizeof huge)) {
        (void)doctor_add(report, "huge pages", DOCTOR_NOTE, "this kernel has none");
    } else if (strstr(huge, "[never]")) {
        f = doctor_add(report, "huge pages", DOCTOR_SLOW, "off: memory that is used for the first time costs several times as much");
        cli_text_add(&f->cure, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)");
    } else {
        (void)doctor_add(report, "huge pages", DOCTOR_OK, "%s", strstr(huge, "[always]") ? "always" : "where they are asked for (madvise)");
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        bool few = files.rlim_cur != RLIM_INFINITY && files.rlim_cur < 512;
        f = doctor_add(report, "open files", few ? DOCTOR_SLOW : DOCTOR_OK, "%s at a time",
                       files.rlim_cur == RLIM_INFINITY ? "any number" : cli_count(files.rlim_cur));
        if (few)
            cli_text_addf(&f->cure, "ulimit -n %llu", (unsigned long long)(files.rlim_max < 4096 ? files.rlim_max : 4096));
    }
}

/* The kernel's struct io_uring_params is 120 bytes; its fields are of no interest here. */
static void look_at_uring(doctor_report *report)
{
    bool built = false;
    const char *name;
    for (size_t i = 0; fby_library_at(i, &name, NULL, NULL); i++)
        built |= strcmp(name, "liburing") == 0;
    uint64_t params[15] = {0};
    long fd = syscall(SYS_io_uring_setup, 1, params);
    if (fd >= 0) {
        (void)close((int)fd);
        doctor_finding *f =
            doctor_add(report, "io_uring", built ? DOCTOR_OK : DOCTOR_NOTE, "available%s", built ? "" : ", but this build is without it");
        if (!built)
            cli_text_add(&f->cure, "build where liburing is installed");
        return;
    }
    char disabled[16] = "0";
    (void)read_line("/proc/sys/kernel/io_uring_disabled", disabled, sizeof disabled); /* kernels before 6.6 have no such file */
    doctor_finding *f = doctor_add(report, "io_uring", DOCTOR_NOTE, "not available (%s): threads read instead", strerror(errno));
    if (disabled[0] != '0')
        cli_text_add(&f->cure, "sysctl kernel.io_uring_disabled=0 (as root), if cold reads are what you wait for");
    else if (errno == EPERM || errno == EACCES)
        cli_text_add(&f->cure, "the container's seccomp profile forbids it: allow io_uring_setup, io_uring_enter and io_uring_register");
}

static void look_at_sandbox(doctor_report *report)
{
    const char *name, *version;
    bool helper = false;
    for (size_t i = 0; !helper && fby_library_at(i, &name, &version, NULL); i++)
        helper = strcmp(name, "hdf5") == 0;
    if (!helper) {
        doctor_finding *f = doctor_add(report, "libhdf5", DOCTOR_NOTE, "not in this build: HDF5 files that need it are refused by name");
        cli_text_add(&f->cure, "build where libhdf5 is installed, or install the wheel");
        return;
    }
    char lacks[100];
    fby_error err;
    if (fby_sandbox_lacks(lacks, sizeof lacks, &err) != FBY_OK) {
        doctor_finding *f = doctor_add(report, "libhdf5", DOCTOR_NOTE, "%s does not run: %s", version, err.message);
        cli_text_add(&f->cure, "install Forebay again, or name its program forebay-hdf5 by FOREBAY_HDF5_HELPER");
        return;
    }
    doctor_finding *f = doctor_add(report, "sandbox", *lacks ? DOCTOR_NOTE : DOCTOR_OK, "of the program that runs libhdf5 %s: ", version);
    cli_text_addf(&f->what, *lacks ? "this kernel has no %s for it" : "seccomp and Landlock%s", lacks);
    if (*lacks)
        cli_text_add(&f->cure, "a kernel of 5.13 or newer with seccomp and Landlock, if you read files that you do not trust");
}

void doctor_machine(doctor_report *report)
{
    struct utsname name;
    if (uname(&name) == 0)
        (void)doctor_add(report, "system", DOCTOR_OK, "%s %s on %s", name.sysname, name.release, name.machine);
    look_at_cores(report);
    look_at_memory(report);
    look_at_uring(report);
    look_at_sandbox(report);
}
