/*
 * What the program gives up before it looks at a file, so that code that a hostile file might smuggle into libhdf5 gets nowhere: no new
 * privileges, limits, no sockets, programs, other processes or writing (seccomp), no file outside of the folders that it was started
 * for (Landlock). What the kernel does not have is left out and said (hello's message); h5_open.c checks each file in any case.
 *
 * seccomp: a list of calls that fail with EPERM, not of those that are allowed, for the C library's own needs change with its version. Calls
 * that are younger than the list fail with ENOSYS, as with an older kernel, which the C library is prepared for.
 */
#include "server.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- seccomp ---- */

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#if defined(MACHINE) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NR(name) __NR_##name

/* The list has been gone through up to this one: set_mempolicy_home_node, Linux 5.17. From 424 on numbers are the same on all machines. */
#define NEWEST_KNOWN 450u
/* Calls of that list that the kernel's headers may be too old to name. */
#define NR_PROCESS_MADVISE 440u
#define NR_MOUNT_SETATTR 442u
#define NR_QUOTACTL_FD 443u
#define NR_PROCESS_MRELEASE 448u

static const unsigned FORBIDDEN[] = {
    /* other programs and processes */
    NR(execve),
    NR(execveat),
    NR(ptrace),
    NR(process_vm_readv),
    NR(process_vm_writev),
    NR(kill),
    NR(tkill),
    NR(rt_sigqueueinfo),
    NR(rt_tgsigqueueinfo),
    NR(setns),
    NR(unshare),
    NR(kcmp),
    NR(setpgid),
    NR(setsid),
    NR(setpriority),
    NR(ioprio_set),
    NR(sched_setaffinity),
    NR(sched_setattr),
    NR(sched_setparam),
    NR(sched_setscheduler),
    NR(migrate_pages),
    NR(move_pages),
    NR_PROCESS_MADVISE,
    NR_PROCESS_MRELEASE,
#ifdef __NR_fork
    NR(fork),
    NR(vfork),
#endif
#ifdef __NR_pidfd_open
    NR(pidfd_open),
    NR(pidfd_send_signal),
#endif
#ifdef __NR_pidfd_getfd
    NR(pidfd_getfd),
#endif
    /* the network, and other ways to someone */
    NR(socket),
    NR(socketpair),
    NR(connect),
    NR(bind),
    NR(listen),
    NR(accept),
    NR(accept4),
    NR(mq_open),
    NR(mq_unlink),
    NR(shmget),
    NR(shmat),
    NR(shmctl),
    NR(msgget),
    NR(msgsnd),
    NR(msgrcv),
    NR(msgctl),
    NR(semget),
    NR(semop),
    NR(semtimedop),
    NR(semctl),
    /* files, but for reading */
    NR(truncate),
    NR(mkdirat),
    NR(unlinkat),
    NR(renameat2),
    NR(linkat),
    NR(symlinkat),
    NR(mknodat),
    NR(fchmod),
    NR(fchmodat),
    NR(fchown),
    NR(fchownat),
    NR(utimensat),
    NR(setxattr),
    NR(lsetxattr),
    NR(fsetxattr),
    NR(removexattr),
    NR(lremovexattr),
    NR(fremovexattr),
    NR(fallocate),
    NR(mount),
    NR(umount2),
    NR(pivot_root),
    NR(chroot),
    NR(name_to_handle_at),
    NR(open_by_handle_at),
    NR(fanotify_init),
    NR_MOUNT_SETATTR,
#ifdef __NR_open
    NR(creat),
    NR(mkdir),
    NR(rmdir),
    NR(unlink),
    NR(rename),
    NR(link),
    NR(symlink),
    NR(mknod),
    NR(chmod),
    NR(chown),
    NR(lchown),
    NR(utime),
    NR(utimes),
    NR(futimesat),
#endif
#ifdef __NR_renameat
    NR(renameat),
#endif
#ifdef __NR_openat2
    NR(openat2),
#endif
#ifdef __NR_open_tree
    NR(open_tree),
    NR(move_mount),
    NR(fsopen),
    NR(fsconfig),
    NR(fsmount),
    NR(fspick),
#endif
    NR(ioctl), /* SIOCSPGRP and its like send signals */
    /* the machine, and doors to the kernel that a reader does not need */
    NR(setuid),
    NR(setgid),
    NR(setreuid),
    NR(setregid),
    NR(setresuid),
    NR(setresgid),
    NR(setgroups),
    NR(setfsuid),
    NR(setfsgid),
    NR(capset),
    NR(bpf),
    NR(perf_event_open),
    NR(userfaultfd),
    NR(add_key),
    NR(request_key),
    NR(keyctl),
    NR(init_module),
    NR(finit_module),
    NR(delete_module),
    NR(kexec_load),
    NR(reboot),
    NR(swapon),
    NR(swapoff),
    NR(acct),
    NR(quotactl),
    NR_QUOTACTL_FD,
    NR(sethostname),
    NR(setdomainname),
    NR(settimeofday),
    NR(clock_settime),
    NR(clock_adjtime),
    NR(adjtimex),
    NR(syslog),
    NR(personality),
    NR(io_setup),
    NR(io_submit),
#ifdef __NR_io_uring_setup
    NR(io_uring_setup),
    NR(io_uring_enter),
    NR(io_uring_register),
#endif
#ifdef __NR_modify_ldt
    NR(modify_ldt),
    NR(ioperm),
    NR(iopl),
#endif
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
#define LOAD_ARG(i) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, args) + 8u * (i)) /* the lower half */
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (unsigned)(what))
#define NO RETURN(SECCOMP_RET_ERRNO | EPERM)
#define YES RETURN(SECCOMP_RET_ALLOW)
#define WRITING (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

static bool seccomp(void)
{
    enum { N = sizeof FORBIDDEN / sizeof *FORBIDDEN };
    const struct sock_filter HEAD[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
        NO,
        LOAD(nr),
#if defined(__x86_64__)
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1), /* x32 */
        NO,
#endif
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        /* Threads yes, processes no; clone3 has its flags in memory, where nobody sees them: the C library falls back to clone. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR(clone3), 0, 1),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR(clone), 0, 4),
        LOAD_ARG(0),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        YES,
        NO,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR(openat), 0, 4),
        LOAD_ARG(2),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITING, 0, 1),
        NO,
        YES,
#ifdef __NR_open
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR(open), 0, 4),
        LOAD_ARG(1),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITING, 0, 1),
        NO,
        YES,
#endif
        /* abort() signals its own thread. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR(tgkill), 0, 4),
        LOAD_ARG(0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)getpid(), 0, 1),
        YES,
        NO,
        /* Signals to others, and leases on files: F_SETOWN, F_SETSIG and what follows them are no business of a reader. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR(fcntl), 0, 9),
        LOAD_ARG(1),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETOWN, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETSIG, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETOWN_EX, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLEASE, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_NOTIFY, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETPIPE_SZ, 1, 0),
        YES,
        NO,
        /* The program's own limits. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR(prlimit64), 0, 4),
        LOAD_ARG(0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        YES,
        NO,
    };
    enum { N_HEAD = sizeof HEAD / sizeof *HEAD };
    struct sock_filter code[N_HEAD + 2 * N + 1];
    memcpy(code, HEAD, sizeof HEAD);
    size_t n = N_HEAD;
    for (size_t i = 0; i < N; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN[i], 0, 1);
        code[n++] = (struct sock_filter)NO;
    }
    code[n++] = (struct sock_filter)YES;
    struct sock_fprog program = {(unsigned short)n, code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static bool seccomp(void) { return false; }
#endif

/* ---- Landlock: the numbers are the kernel's, for its headers may be older than it is ---- */

#define LANDLOCK_CREATE 444
#define LANDLOCK_ADD 445
#define LANDLOCK_RESTRICT 446
#define LANDLOCK_VERSION 1u /* flag: tell the version */
#define READ_FILE ((uint64_t)1 << 2)
#define READ_DIR ((uint64_t)1 << 3)
#define ALL_OF_1 (((uint64_t)1 << 13) - 1) /* execute, write, read, remove and make whatever it is */
#define REFER ((uint64_t)1 << 13)          /* since version 2 */
#define TRUNCATE ((uint64_t)1 << 14)       /* 3 */
#define IOCTL_DEV ((uint64_t)1 << 15)      /* 5 */
#define BOTH_TCP 3u                        /* 4: bind, connect */
#define BOTH_SCOPES 3u                     /* 6: abstract sockets, signals */

struct ruleset {
    uint64_t files, net, scopes;
};
struct below {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

static void allow(int rules, const char *path)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    struct below rule = {READ_FILE | READ_DIR, fd};
    if (fd < 0)
        return;                                                              /* it is not there */
    if (syscall(LANDLOCK_ADD, rules, 1, &rule, 0) != 0 && errno == EINVAL) { /* of a single file */
        rule.allowed = READ_FILE;
        (void)syscall(LANDLOCK_ADD, rules, 1, &rule, 0);
    }
    (void)close(fd);
}

static void allow_list(int rules, const char *list)
{
    char path[FBY__H5P_MAX_PATH];
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ":");
        int k = snprintf(path, sizeof path, "%.*s", (int)n, p);
        if (k > 0 && (size_t)k < sizeof path)
            allow(rules, path);
        p += n + (p[n] == ':');
    }
}

/* Filters are plugins, which are loaded when they are needed, with what they need. */
static void allow_libraries(int rules)
{
    static const char *const PLACES[] = {
        "/lib",           "/lib32",          "/lib64",           "/usr/lib",   "/usr/lib32", "/usr/lib64",
        "/usr/local/lib", "/usr/local/hdf5", "/etc/ld.so.cache", "/nix/store", "/gnu/store", "/sys/devices/system"};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        allow(rules, PLACES[i]);
    allow_list(rules, getenv("HDF5_PLUGIN_PATH"));
    allow_list(rules, getenv("LD_LIBRARY_PATH"));
    allow_list(rules, getenv("HDF5_EXT_PREFIX")); /* as h5_open.c has it */
    allow_list(rules, getenv("HDF5_VDS_PREFIX"));
    allow_list(rules, getenv("HDF5_EXTFILE_PREFIX"));
    Dl_info info;
    char folder[FBY__H5P_MAX_PATH];
    if (!dladdr((void *)(uintptr_t)H5open, &info) || !info.dli_fname || !realpath(info.dli_fname, folder))
        return;
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    allow(rules, folder); /* libhdf5's own: an environment of conda, a wheel */
}

static bool landlock(int n_folders, char *const *folders)
{
    long version = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
    if (version < 1)
        return false;
    struct ruleset set = {ALL_OF_1, 0, 0};
    if (version >= 2)
        set.files |= REFER;
    if (version >= 3)
        set.files |= TRUNCATE;
    if (version >= 5)
        set.files |= IOCTL_DEV;
    if (version >= 4)
        set.net = BOTH_TCP;
    if (version >= 6)
        set.scopes = BOTH_SCOPES;
    size_t known = version >= 6 ? sizeof set : version >= 4 ? offsetof(struct ruleset, scopes) : offsetof(struct ruleset, net);
    int rules = (int)syscall(LANDLOCK_CREATE, &set, known, 0);
    if (rules < 0)
        return false;
    allow_libraries(rules);
    for (int i = 0; i < n_folders; i++)
        allow(rules, folders[i]);
    bool done = syscall(LANDLOCK_RESTRICT, rules, 0) == 0;
    (void)close(rules);
    return done;
}

/* ---- all of it ---- */

#define MAX_FILES_OPEN 65536u

void confine(int n_folders, char *const *folders, char *lacks, size_t n)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none); /* a crash is an ordinary answer to a hostile file */
    struct rlimit files_open;
    if (getrlimit(RLIMIT_NOFILE, &files_open) == 0) { /* for good: as many as the sources of a virtual data set may need */
        files_open.rlim_cur = files_open.rlim_max = files_open.rlim_cur < MAX_FILES_OPEN ? files_open.rlim_cur : MAX_FILES_OPEN;
        (void)setrlimit(RLIMIT_NOFILE, &files_open);
    }
    bool privileges = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    bool files = privileges && landlock(n_folders, folders);
    bool calls = privileges && seccomp();
    (void)snprintf(lacks, n, "%s%s%s", files ? "" : "Landlock", !files && !calls ? ", " : "", calls ? "" : "seccomp");
}
