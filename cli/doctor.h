/* What the parts of `forebay doctor` share: findings, and the index cache. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli.h"

typedef enum doctor_level { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_SLOW } doctor_level;

/** One thing that was looked at. Zeroed = not looked at. */
typedef struct doctor_finding {
    const char *name; /* static */
    doctor_level level;
    cli_text what, cure; /* owned; cure is empty when there is nothing to do */
} doctor_finding;

enum { DOCTOR_MAX = 32 };
typedef struct doctor_report {
    doctor_finding findings[DOCTOR_MAX];
    size_t n;
} doctor_report;

/** The next finding, to be filled; `what` is formatted as printf does. */
doctor_finding *doctor_add(doctor_report *report, const char *name, doctor_level level, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* doctor_machine.c: cores, memory, kernel */
void doctor_machine(doctor_report *report);
/* doctor_files.c: the file systems of paths */
void doctor_path(doctor_report *report, const char *path);

/* doctor_cache.c */
typedef struct doctor_cache {
    cli_text folder; /* owned; empty: there is none */
    cli_text why;    /* owned: there is none */
    uint64_t n_files, n_bytes;
    int sys_errno;       /* why the folder cannot be read; 0: it can, or is not there yet */
    const char *refusal; /* static: why the library leaves it alone; NULL: it does not */
    bool writable;       /* for the library */
} doctor_cache;
void doctor_cache_find(doctor_cache *cache, const char *folder); /* NULL: where the library puts it */
void doctor_cache_fini(doctor_cache *cache);
/** Remove its files, after a question on a terminal; without one only when `yes`. Returns the code to exit with. */
int doctor_cache_clear(const doctor_cache *cache, bool yes, bool json);

#endif
