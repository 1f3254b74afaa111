/* Between the files of the helper program's client, and for its tests: the process, and what its descriptions are made of. */
#ifndef FBY_FORMAT_HDF5_CLIENT_HELPER_INTERNAL_H
#define FBY_FORMAT_HDF5_CLIENT_HELPER_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "format/format.h"
#include "format/hdf5/client/protocol.h"
#include "format/hdf5/metadata/hdf5.h"

#include <sys/types.h>

/** One request: what protocol.h wants besides the numbers that ask.c and process.c fill in. */
typedef struct fby__h5_ask {
    const char *path, *object;
    uint32_t op;
    uint8_t as, as_bytes;
    uint64_t result_bytes, heap_at, promise;
    uint32_t rank;
    const uint64_t *start, *count;
    uint64_t least, most;                   /* bytes of the answer that make sense */
    bool anywhere;                          /* reach: ask.c fills the request from it */
    fby__bytes folders;                     /* names, each with its NUL */
    const fby__h5_environment *environment; /* NULL: as it is now */
} fby__h5_ask;

/**
 * Send a request and wait for the answer, starting the program when it does not run.
 *
 * @out_fd     [out] memfd with the result, owned by the caller: close().
 * @out_bytes  [out] of the result, between ask->least and ask->most.
 *
 * Errors as helper.h says, without the names of file and object. Threads: any; one request at a time, callers wait.
 */
fby_status fby__h5_helper_ask(const fby__h5_ask *ask, int *out_fd, uint64_t *out_bytes, fby_error *err);

/**
 * The same for a request that says already what the program may allocate, and has an environment: FBY_E_NOMEM where that was too little. Fills in
 * its id.
 */
fby_status fby__h5_helper_exchange(const fby__h5_ask *ask, fby__h5p_request *q, int *out_fd, uint64_t *out_bytes, fby_error *err);

/** n bytes of the result from `offset`. Never maps: what the program does to its memory meanwhile cannot hurt. */
fby_status fby__h5_helper_fetch(int fd, uint64_t offset, void *dst, size_t n, fby_error *err);

/** The environment that was given, or, where none was, as it is now: the arena keeps it. */
static inline fby_status fby__h5_environment_resolve(const fby__h5_environment *given, fby__arena *arena, fby__h5_environment *out,
                                                     fby_error *err)
{
    if (!given)
        return fby__h5_environment_read(arena, out, err);
    *out = *given;
    return FBY_OK;
}

/** The program as a request would find it, into out (4096 bytes). FBY_E_UNSUPPORTED when there is none. */
fby_status fby__h5_helper_find(const fby__h5_environment *environment, char *out, fby_error *err);
/** Is there to be one? Not where Forebay was built without libhdf5, or its user wants none. */
bool fby__h5_helper_is_expected(const fby__h5_environment *environment);
#define FBY__H5_VARIABLES 10 /* at most so many does the program get */

/**
 * Start the program, with `socket` as its end and nothing else of ours.
 *
 * @folders  names, each with its NUL: what it may read below.
 * @file     -1, or the file that it writes, and then it reads none. As `socket`, none of the descriptors 0 to 4.
 */
fby_status fby__h5_helper_spawn(const char *program, const fby__h5_environment *environment, fby__bytes folders, int socket, int file,
                                pid_t *out_pid, fby_error *err);

/**
 * A pair of sockets of a type: ours, and the program's, which is none of the descriptors 0 to 4. On failure nothing is open, *out_theirs is below 0 or
 * unset and *out_ours unset.
 */
fby_status fby__h5_helper_pair(int type, int *out_ours, int *out_theirs, fby_error *err);

#define FBY__H5_CHILD_FD_LEAST 10 /* the child's descriptors are moved off those that it gets as 0 to 4 */

#define FBY__H5_GRACE_MS 2000u /* from the end of the socket to the end of the process */

/**
 * Wait for a program's end, kill it after grace_ms, or when the call is cancelled. False: its exit status is not known, or it is stuck in the kernel
 * and is collected later.
 */
bool fby__h5_helper_reap(pid_t pid, unsigned grace_ms, int *out_status);
/** Programs that were stuck: wait so long for each. A forked child forgets them: they are not its children. */
void fby__h5_helper_collect_undead(unsigned ms);
void fby__h5_helper_forget_undead(void);

typedef enum fby__h5_attempt { FBY__H5_FIRST_ATTEMPT, FBY__H5_LAST_ATTEMPT, FBY__H5_ONLY_ATTEMPT } fby__h5_attempt;
/**
 * A program closed its socket while it was `doing` something ("read"): reap it and say how it ended, with `code` where that is its own fault and
 * FBY_E_IO where somebody killed it. On the first attempt it returns FBY_E_STATE without a message: the caller tries again. pid 0: not known.
 */
fby_status fby__h5_helper_fail_ended(pid_t pid, const char *doing, fby_status code, fby__h5_attempt attempt, fby_error *err);

/** Milliseconds without a sign of life that a program is given. */
unsigned fby__h5_helper_timeout(void);

/** Tests: the running program's process, 0 = none; milliseconds without a sign of life that it is given, 0 = as delivered. */
pid_t fby__h5_helper_pid(void);
void fby__h5_helper_set_timeout(unsigned ms);

/** Descriptions (protocol.h) → objects in the arena. `why` becomes the data sets' `declined`. FBY_E_FORMAT for nonsense. */
fby_status fby__h5_helper_parse_object(fby__bytes bytes, const char *why, fby__arena *arena, const fby__h5_object **out, fby_error *err);
fby_status fby__h5_helper_parse_tree(fby__bytes bytes, const char *why, fby__arena *arena, fby__h5_tree *out, fby_error *err);

#endif
