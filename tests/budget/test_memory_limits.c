/* What limits a process's memory, from made-up /proc and control group files: both versions, nested, in namespaces, damaged. */
#include "budget/memory_limits.h"
#include "support/root_files.h"
#include "support/temp_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static void put_number(const char *path, uint64_t n)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu\n", (unsigned long long)n);
    put(path, text);
}

static void put_machine(uint64_t total, uint64_t available)
{
    char text[200];
    (void)snprintf(text, sizeof text, "MemTotal:       %llu kB\nMemFree:          12 kB\nMemAvailable:   %llu kB\n",
                   (unsigned long long)(total / 1024), (unsigned long long)(available / 1024));
    put("/proc/meminfo", text);
}

static fby__memory_limits find(void)
{
    fby__memory_limits m;
    fby__memory_limits_find("root", &m);
    return m;
}

static void assert_found(uint64_t available, uint64_t limit, const char *text)
{
    const fby__memory_limits m = find();
    if (m.available_bytes != available || m.limit_bytes != limit || strcmp(m.text, text) != 0)
        fail_msg("%llu available of %llu, '%s'; expected %llu of %llu, '%s'", (unsigned long long)m.available_bytes,
                 (unsigned long long)m.limit_bytes, m.text, (unsigned long long)available, (unsigned long long)limit, text);
}

static void without_groups_it_is_the_machine(void **state)
{
    (void)state;
    put_machine(8192 * MIB, 5000 * MIB);
    assert_found(5000 * MIB, 8192 * MIB, "the machine's memory 8192 MiB");
    put("/proc/self/cgroup", "nonsense\n7\n:\n::\n");
    put("/proc/self/mountinfo", "1 2\n - \n5 6 7 / - cgroup2\n");
    assert_found(5000 * MIB, 8192 * MIB, "the machine's memory 8192 MiB");
}

static void a_machine_that_says_nothing_has_4_gib(void **state)
{
    (void)state;
    assert_int_equal(find().available_bytes, 4096 * MIB);
}

static void put_v2(void)
{
    put_machine(8192 * MIB, 5000 * MIB);
    put("/proc/self/cgroup", "0::/job/step 1\n");
    put("/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n"
                                "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:2 - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/sys/fs/cgroup/job/step 1/memory.max", "max\n");
    put("/sys/fs/cgroup/job/step 1/memory.high", "max\n");
    put("/sys/fs/cgroup/job/memory.max", "max\n");
}

static void of_nested_groups_the_smallest_counts(void **state)
{
    (void)state;
    put_v2();
    assert_found(5000 * MIB, 8192 * MIB, "the machine's memory 8192 MiB");
    put_number("/sys/fs/cgroup/job/memory.max", 300 * MIB);
    assert_found(300 * MIB, 300 * MIB, "cgroup v2 /job/memory.max 300 MiB");
    put_number("/sys/fs/cgroup/job/memory.current", 250 * MIB);
    put("/sys/fs/cgroup/job/memory.stat", "anon 1\nfile 99\ninactive_file_other 7\nactive_file 52428800\ninactive_file 104857600\n");
    assert_found(200 * MIB, 300 * MIB, "cgroup v2 /job/memory.max 300 MiB");
    put_number("/sys/fs/cgroup/job/step 1/memory.high", 256 * MIB + 512 * 1024);
    assert_found(200 * MIB, 256 * MIB + 512 * 1024, "cgroup v2 /job/step 1/memory.high 256.5 MiB");
    put_number("/sys/fs/cgroup/job/step 1/memory.max", 100 * MIB);
    put_number("/sys/fs/cgroup/job/step 1/memory.current", 130 * MIB); /* lowered below what is used */
    assert_found(0, 100 * MIB, "cgroup v2 /job/step 1/memory.max 100 MiB");
}

static void in_a_namespace_the_mount_is_the_group(void **state)
{
    (void)state;
    put_machine(8192 * MIB, 5000 * MIB);
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    put_number("/sys/fs/cgroup/memory.max", 400 * MIB);
    put("/proc/self/cgroup", "0::/\n");
    assert_found(400 * MIB, 400 * MIB, "cgroup v2 /memory.max 400 MiB");
    put("/proc/self/cgroup", "0::/../outside\n");
    assert_found(400 * MIB, 400 * MIB, "cgroup v2 /memory.max 400 MiB");
    /* a container without a namespace: the mount shows a part of the tree */
    put("/proc/self/cgroup", "0::/docker/ab/worker\n");
    put("/proc/self/mountinfo", "30 23 0:26 /docker/ab /sys/fs/cgr\\040oup rw - cgroup2 cgroup rw\n");
    put_number("/sys/fs/cgr oup/worker/memory.max", 350 * MIB);
    put_number("/sys/fs/cgr oup/memory.max", 500 * MIB);
    assert_found(350 * MIB, 350 * MIB, "cgroup v2 /worker/memory.max 350 MiB");
    put("/proc/self/cgroup", "0::/docker/abc\n"); /* not below /docker/ab */
    assert_found(500 * MIB, 500 * MIB, "cgroup v2 /memory.max 500 MiB");
}

static void version_1_and_groups_above_the_mount(void **state)
{
    (void)state;
    put_machine(8192 * MIB, 5000 * MIB);
    put("/proc/self/cgroup", "9:name=systemd:/x\n5:cpu,memory_other:/y\n4:memory,hugetlb:/a/b\n0::/z\n");
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                                "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                                "32 23 0:28 /a /other rw - cgroup cgroup rw,hugetlb,memory\n"
                                "33 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,hugetlb,memory\n");
    put_number("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", 9223372036854771712u);
    put("/sys/fs/cgroup/memory/a/b/memory.stat", "hierarchical_memory_limit 9223372036854771712\n");
    put_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712u);
    assert_found(5000 * MIB, 8192 * MIB, "the machine's memory 8192 MiB");
    put_number("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", 700 * MIB);
    put_number("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", 500 * MIB);
    put("/sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 104857600\ntotal_active_file 104857600\n");
    assert_found(400 * MIB, 700 * MIB, "cgroup v1 /a/memory.limit_in_bytes 700 MiB");
    put("/sys/fs/cgroup/memory/a/b/memory.stat", "hierarchical_memory_limit 209715200\ntotal_inactive_file 0\n");
    assert_found(200 * MIB, 200 * MIB, "cgroup v1 above /a/b 200 MiB");
}

static void damaged_files_are_no_limit(void **state)
{
    (void)state;
    char *longest = malloc(40000);
    memset(longest, 'x', 39999);
    longest[39999] = 0;
    put_v2();
    put("/sys/fs/cgroup/job/memory.max", "many\n");
    put("/sys/fs/cgroup/job/step 1/memory.max", "");
    assert_found(5000 * MIB, 8192 * MIB, "the machine's memory 8192 MiB");
    memcpy(longest, "0::/", 4);
    put("/proc/self/cgroup", longest);
    memcpy(longest, "1 2 3 / /", 9);
    put("/proc/self/mountinfo", longest);
    assert_found(5000 * MIB, 8192 * MIB, "the machine's memory 8192 MiB");
    put("/proc/meminfo", longest);
    assert_int_equal(find().available_bytes, 4096 * MIB);
    free(longest);
}

/* What RLIMIT_DATA counts: more than the test's own under a sanitizer. */
static uint64_t data_bytes(void)
{
    unsigned long size, resident, shared, text, library, data = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lu %lu %lu %lu %lu %lu", &size, &resident, &shared, &text, &library, &data) != 6)
        data = 0;
    if (f)
        (void)fclose(f); /* only read */
    return (uint64_t)data * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of the real process, in a child of its own. */
static void limits_of_the_process_are_its_own(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        fby__memory_limits m;
        struct rlimit limit = {.rlim_cur = (rlim_t)64 << 30, .rlim_max = RLIM_INFINITY};
        fby__memory_limits_find("", &m);
        const uint64_t before = m.shared_bytes, machine = m.limit_bytes;
        if (m.own_bytes != UINT64_MAX || before == 0)
            _exit(1);
        limit.rlim_cur = data_bytes() + 200 * MIB;
        if (setrlimit(RLIMIT_DATA, &limit) != 0)
            _exit(2);
        fby__memory_limits_find("", &m);
        if (m.own_bytes > 200 * MIB || m.own_bytes == 0 || m.available_bytes > m.own_bytes || m.limit_bytes > limit.rlim_cur)
            _exit(3);
        const bool smallest = limit.rlim_cur < machine; /* AddressSanitizer maps more than the machine has */
        char which[16], cut[6];
        uint64_t limit_bytes;
        if (fby_memory_available(&limit_bytes, which, sizeof which) > 200 * MIB || limit_bytes > limit.rlim_cur ||
            (smallest && strncmp(which, "RLIMIT_DATA ", 12) != 0))
            _exit(4);
        if (fby_memory_available(NULL, cut, sizeof cut) > 200 * MIB || (smallest && strcmp(cut, "RLIMI") != 0) ||
            !fby_memory_available(NULL, NULL, 0))
            _exit(5);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
        skip(); /* this test itself runs under such limits */
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void ranks_of_a_host_are_those_that_its_launcher_says(void **state)
{
    static const struct {
        const char *name, *value;
        uint32_t ranks;
    } CASES[] = {{"LOCAL_WORLD_SIZE", "8", 8},        {"LOCAL_WORLD_SIZE", "", 0},
                 {"LOCAL_WORLD_SIZE", "0", 0},        {"MPI_LOCALNRANKS", "3", 3},
                 {"LOCAL_WORLD_SIZE", "9999999", 0},  {"SLURM_STEP_TASKS_PER_NODE", "4(x2),6,2", 6},
                 {"MPI_LOCALNRANKS", "many", 0},      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2", 2},
                 {"SLURM_STEP_TASKS_PER_NODE", "", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_int_equal(setenv(CASES[i].name, CASES[i].value, 1), 0);
        assert_int_equal(fby__host_ranks(), CASES[i].ranks);
        assert_int_equal(unsetenv(CASES[i].name), 0);
    }
    assert_int_equal(fby__host_ranks(), 0);
}

/* The budget that nobody stated, in a process of its own, whose limit leaves so much; 0 = it has none. */
static uint64_t default_budget(const char *ranks, uint64_t own_bytes)
{
    const struct rlimit limit = {.rlim_cur = data_bytes() + own_bytes, .rlim_max = RLIM_INFINITY};
    int ends[2];
    uint64_t bytes = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        fby__account *account;
        fby__account_stats now = {0};
        if (ranks)
            (void)setenv("LOCAL_WORLD_SIZE", ranks, 1);
        if (own_bytes && setrlimit(RLIMIT_DATA, &limit) != 0)
            _exit(1);
        if (fby__account_open_asked(0, &account, NULL) == FBY_OK)
            fby__account_stats_of(account, &now);
        _exit(write(ends[1], &now.limit_bytes, sizeof now.limit_bytes) != sizeof now.limit_bytes);
    }
    assert_int_equal(read(ends[0], &bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return bytes;
}

static void a_budget_that_nobody_stated_is_a_rank_s_share(void **state)
{
    (void)state;
    const uint64_t alone = default_budget(NULL, 0), of_eight = default_budget("8", 0);
    assert_true(of_eight > 0 && of_eight < alone / 4); /* what is available changes meanwhile */
    if (of_eight < 100 * MIB)
        skip();
    const uint64_t own = default_budget("8", 100 * MIB); /* which no other rank has a share in */
    assert_true(own > 40 * MIB && own <= 50 * MIB);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_groups_it_is_the_machine),
        TEST(a_machine_that_says_nothing_has_4_gib),
        TEST(of_nested_groups_the_smallest_counts),
        TEST(in_a_namespace_the_mount_is_the_group),
        TEST(version_1_and_groups_above_the_mount),
        TEST(damaged_files_are_no_limit),
        TEST(limits_of_the_process_are_its_own),
        TEST(ranks_of_a_host_are_those_that_its_launcher_says),
        TEST(a_budget_that_nobody_stated_is_a_rank_s_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
