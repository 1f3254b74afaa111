/*
 * How much memory this process may take: the machine's, that of its control groups, its own limits.
 *
 *     machine      MemAvailable of MemTotal (/proc/meminfo)
 *     cgroup v2    memory.max and memory.high, of the process's group and every group above it up to the root of the mount; used is
 *                  memory.current without the file cache (memory.stat), which the kernel drops first
 *     cgroup v1    memory.limit_in_bytes the same way, and hierarchical_memory_limit for groups above the mount, which are not to be seen
 *     RLIMIT_AS, RLIMIT_DATA    what the process has mapped (/proc/self/statm)
 *
 * A file that is not there or says nothing is no limit: nothing here fails.
 */
#ifndef FBY_BUDGET_MEMORY_LIMITS_H
#define FBY_BUDGET_MEMORY_LIMITS_H

#include "budget/budget.h"

#include <stdbool.h>
#include <stdint.h>

/** What was found, now. */
typedef struct fby__memory_limits {
    uint64_t available_bytes; /* the least that any limit leaves */
    uint64_t shared_bytes;    /* the least of those that hold for several processes: machine and groups */
    uint64_t own_bytes;       /* the least of this process's own; UINT64_MAX = it has none */
    uint64_t limit_bytes;     /* the smallest limit, whatever is used of it */
    char text[256];           /* which: "cgroup v2 /job/memory.max 300 MiB" */
} fby__memory_limits;

/**
 * @root  a directory in which proc/ and the mounts of control groups are looked for; "" = the real ones, and only then the process's own
 * limits count.
 */
void fby__memory_limits_find(const char *root, fby__memory_limits *out);

/** Processes of a job that share this host and its memory, as their launcher says in the environment; 0 where none does. */
uint32_t fby__host_ranks(void);

/**
 * This process's share: what may still be taken by one of `ranks` processes that share what they share. 0 = as many as their launcher says,
 * one where none does.
 */
uint64_t fby__memory_share_bytes(const fby__memory_limits *found, uint32_t ranks);

#define FBY__AUTO_BYTES ((uint64_t)256 << 20) /* a loader's budget that nobody stated is no smaller: room for strings that expand */

/** The default budget of what has none from a loader: half of a rank's share. fby_memory_budget() with what was found. */
uint64_t fby__memory_budget_bytes(const fby__memory_limits *found, uint32_t ranks);

/** The most that a loader may need whose budget nobody stated: most of the share, and little where others have promised themselves all. */
uint64_t fby__memory_most_bytes(const fby__memory_limits *found, uint32_t ranks);

/** An account for what nobody gave an account: of so many bytes; 0 = fby_memory_budget(0). Retire it, then let it go. */
fby_status fby__account_open_asked(uint64_t asked_bytes, fby__account **out, fby_error *err);

#endif
