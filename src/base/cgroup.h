/*
 * Small files in which the kernel says what this process may use, and the control groups that it is in, of both versions.
 *
 * A file that is not there or says nothing is no limit: nothing here fails. `root` is a directory in which proc/ and the mounts of control
 * groups are looked for; "" = the real ones.
 */
#ifndef FBY_BASE_CGROUP_H
#define FBY_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** A group: its files are root + dir + "/" + name. */
typedef struct fby__cgroup {
    const char *root, *dir;
    const char *path; /* as far as the mount shows it: "/job" */
    bool v2;
    bool own; /* the process's own; false: one above it */
} fby__cgroup;

/**
 * Call look() for each group that holds for this process: of version 1 by `controller` ("memory"), then of version 2, which has one
 * hierarchy; from the process's own upwards to the mount, itself included.
 */
void fby__cgroups_each(const char *root, const char *controller, void (*look)(const fby__cgroup *group, void *user), void *user);

/** "cgroup v2 /job/memory.max", of a long path its end; cut to fit. */
void fby__cgroup_name(const fby__cgroup *group, const char *file, char *out, size_t room);

/** The file dir/name, or `dir` itself where `name` is ""; NULL. Close it with fby__small_file_close(), which takes NULL. */
FILE *fby__small_file_open(const char *root, const char *dir, const char *name);
void fby__small_file_close(FILE *file);

/** The number that a file is; false for "max" and for none. */
bool fby__small_file_number(const char *root, const char *dir, const char *name, uint64_t *out);

#endif
