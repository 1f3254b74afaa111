/*
 * Forebay: status codes, errors, tensor dtypes, version. Every other public header includes this one.
 *
 * Where a function says nothing else: Threads: any. Blocks: no. Text that it returns is static.
 */
#ifndef FOREBAY_BASE_H
#define FOREBAY_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FBY_VERSION_MAJOR 0
#define FBY_VERSION_MINOR 2
#define FBY_VERSION_PATCH 0
#define FBY_VERSION_STRING "0.2.0"

#if defined(FBY_STATIC)
#define FBY_API
#else
#define FBY_API __attribute__((visibility("default")))
#endif

/**
 * Status codes, chosen by what the caller can do next. X(name, text, what to do).
 * Codes 0 to 2 are not errors: the call did what it says.
 */
#define FBY_STATUS_LIST(X)                                                                                                                 \
    X(FBY_OK, "ok", "nothing")                                                                                                             \
    X(FBY_END, "end of epoch", "begin the next epoch")                                                                                     \
    X(FBY_TIMEOUT, "timed out", "call again")                                                                                              \
    X(FBY_E_ARG, "invalid argument", "fix the call")                                                                                       \
    X(FBY_E_NOMEM, "out of memory", "free memory or ask for less")                                                                         \
    X(FBY_E_IO, "I/O error", "look at err->sys_errno; retry or restore the file")                                                          \
    X(FBY_E_FORMAT, "invalid file", "restore or rewrite the file; err->file_offset says where")                                            \
    X(FBY_E_UNSUPPORTED, "unsupported", "convert the file or leave the named column out")                                                  \
    X(FBY_E_SCHEMA, "schema mismatch", "name another column, or allow the missing one to be filled")                                       \
    X(FBY_E_DATA, "value not representable", "choose another dtype, or a fill value")                                                      \
    X(FBY_E_BUDGET, "memory budget too small", "raise memory= or lower superbatch=; the message has both figures")                         \
    X(FBY_E_CHANGED, "file changed", "open the data set again")                                                                            \
    X(FBY_E_STATE, "object in the wrong state", "create a new object in this process")                                                     \
    X(FBY_E_CANCELLED, "cancelled", "nothing: the caller asked for it")                                                                    \
    X(FBY_E_INTERNAL, "internal error", "report a bug with the message")

typedef enum fby_status {
#define FBY_STATUS_ENUM(name, text, next) name,
    FBY_STATUS_LIST(FBY_STATUS_ENUM)
#undef FBY_STATUS_ENUM
        FBY_STATUS_COUNT
} fby_status;

/**
 * What went wrong. Filled by the callee on every failure; the caller owns the struct, it holds no pointers.
 * A caller may pass NULL wherever an fby_error is taken.
 * Frozen: no field is ever added.
 */
typedef struct fby_error {
    fby_status code;
    int sys_errno;       /* errno of the failing call, or 0 */
    int64_t file_offset; /* byte offset in the file named by the message, or -1 */
    char message[1000];  /* one line, UTF-8, with file, row group and column where they are known */
} fby_error;

/** The short English text of a status ("I/O error"), never NULL, static. Threads: any. Since: 0.1 */
FBY_API const char *fby_status_text(fby_status code);

/** The name of a status ("FBY_E_IO"), never NULL, static. Threads: any. Since: 0.1 */
FBY_API const char *fby_status_name(fby_status code);

/** The version of the library linked at run time, "0.2.0". Threads: any. Since: 0.1 */
FBY_API const char *fby_version(void);

/**
 * The libraries that this one was built with: the codecs, the YAML parser, io_uring, and libhdf5 of the helper program.
 *
 * @i            from 0 on.
 * @out_name     [out] "zstd"; as the other two borrowed and static; may be NULL.
 * @out_version  [out] "1.5.7", or "" where the library does not say.
 * @out_license  [out] its SPDX expression.
 *
 * Returns false when there is no i-th one; then nothing is written. Threads: any. Since: 0.2
 */
FBY_API bool fby_library_at(size_t i, const char **out_name, const char **out_version, const char **out_license);

/**
 * Which means of confinement this kernel lacks for the helper program, which runs libhdf5 on files that may be hostile: "", "Landlock",
 * "seccomp" or both. The program itself is asked, and started if it is not running.
 *
 * @out  [out] NUL-terminated, cut to fit `room` bytes.
 *
 * Returns FBY_OK; FBY_E_UNSUPPORTED, FBY_E_IO when there is no such program or it does not start; FBY_E_CANCELLED.
 * Threads: any. Blocks: until it runs. Since: 0.2
 */
FBY_API fby_status fby_sandbox_lacks(char *out, size_t room, fby_error *err);

/**
 * How much memory this process may take now: what the machine, control groups (v1 and v2, those above them too), RLIMIT_AS and RLIMIT_DATA
 * leave.
 *
 * @out_limit_bytes  [out] the smallest of these limits, whatever is used of it; may be NULL.
 * @out_limit        [out] which it is, "cgroup v2 /job/memory.max 300 MiB"; NUL-terminated, cut to fit `room` bytes; may be NULL when room
 *                   is 0.
 *
 * Returns the least that any of them leaves. Threads: any. Since: 0.2
 */
FBY_API uint64_t fby_memory_available(uint64_t *out_limit_bytes, char *out_limit, size_t room);

/**
 * The budget of what is not given one, as it would be now: half of this process's share, less what loaders promise themselves. What the machine and its
 * control groups leave is shared by the ranks of the host; RLIMIT_AS and RLIMIT_DATA are each process's own.
 *
 * @ranks  of the host; 0 = as many as their launcher says in the environment, one where none does.
 *
 * Threads: any. Since: 0.2
 */
FBY_API uint64_t fby_memory_budget(uint32_t ranks);

/**
 * How many CPUs this process may use at a time, which is how many threads a loader has by default: what its affinity and the quotas of
 * control groups (v1 and v2, those above them too; as they were when this was first asked) leave, rounded up.
 *
 * @out_quota  [out] the smallest of these quotas, in CPUs; 0: there is none; may be NULL.
 * @out_limit  [out] which it is, "cgroup v2 /job/cpu.max"; NUL-terminated, cut to fit `room` bytes; may be NULL when room is 0.
 *
 * Returns at least 1. Threads: any. Since: 0.2
 */
FBY_API int fby_cpus_available(double *out_quota, char *out_limit, size_t room);

/**
 * Text that comes from a file, a path or a link, made safe to print: a terminal obeys control characters, and characters that change the
 * direction of text make one name look like another. C0, DEL and C1 controls, marks and overrides of direction, and line separators are
 * written as \n, \t, \x1b, \u202e; bytes that are not UTF-8 as \xff. All else stays, backslashes too, so that text may be treated twice.
 * Messages of errors and notes are safe already; names and values are handed over as they are stored.
 *
 * @text  n bytes; borrowed.
 * @out   [out] NUL-terminated, cut between characters to fit `room` bytes; may be NULL when room is 0.
 *
 * Returns the bytes that the whole takes, without the NUL, as snprintf does.
 * Threads: any. Since: 0.2
 */
FBY_API size_t fby_printable(const char *text, size_t n, char *out, size_t room);

/**
 * Element types of tensors. X(enum, name, bytes, NumPy-style kind).
 * FLOAT16 is IEEE 754 binary16, BFLOAT16 the upper half of binary32. BOOL is one byte, 0 or 1.
 */
#define FBY_DTYPE_LIST(X)                                                                                                                  \
    X(FBY_BOOL, "bool", 1, 'b')                                                                                                            \
    X(FBY_INT8, "int8", 1, 'i')                                                                                                            \
    X(FBY_INT16, "int16", 2, 'i')                                                                                                          \
    X(FBY_INT32, "int32", 4, 'i')                                                                                                          \
    X(FBY_INT64, "int64", 8, 'i')                                                                                                          \
    X(FBY_UINT8, "uint8", 1, 'u')                                                                                                          \
    X(FBY_UINT16, "uint16", 2, 'u')                                                                                                        \
    X(FBY_UINT32, "uint32", 4, 'u')                                                                                                        \
    X(FBY_UINT64, "uint64", 8, 'u')                                                                                                        \
    X(FBY_FLOAT16, "float16", 2, 'f')                                                                                                      \
    X(FBY_BFLOAT16, "bfloat16", 2, 'f')                                                                                                    \
    X(FBY_FLOAT32, "float32", 4, 'f')                                                                                                      \
    X(FBY_FLOAT64, "float64", 8, 'f')

typedef enum fby_dtype {
    FBY_DTYPE_NONE = 0, /* in options: choose from the columns */
#define FBY_DTYPE_ENUM(name, text, bytes, kind) name,
    FBY_DTYPE_LIST(FBY_DTYPE_ENUM)
#undef FBY_DTYPE_ENUM
        FBY_DTYPE_COUNT
} fby_dtype;

/** Bytes of one element; 0 for FBY_DTYPE_NONE and unknown values. Threads: any. Since: 0.1 */
FBY_API size_t fby_dtype_bytes(fby_dtype dtype);

/** Name as NumPy spells it ("float32"); "none" for unknown values. Static. Threads: any. Since: 0.1 */
FBY_API const char *fby_dtype_name(fby_dtype dtype);

/** Dtype of a name, FBY_DTYPE_NONE when there is none. Threads: any. Since: 0.1 */
FBY_API fby_dtype fby_dtype_from_name(const char *name);

/**
 * Stops calls that take long. A thread says under which token its calls run; when another thread, or a signal handler, sets the token, the call
 * ends with FBY_E_CANCELLED: within 0.1 s where it waits, else after the page, the chunk or the few MiB that it is reading or decoding. A loader
 * carries on all the same: its work is stopped by fby_loader_cancel() and fby_loader_close().
 *
 *     fby_cancel *before = fby_cancel_use(token);
 *     status = fby_dataset_open(…);
 *     (void)fby_cancel_use(before);
 */
typedef struct fby_cancel fby_cancel;

/** A new token, owned by the caller: fby_cancel_destroy(). NULL when there is no memory. Since: 0.2 */
FBY_API fby_cancel *fby_cancel_create(void);
/** NULL is fine; no thread uses it any more. Since: 0.2 */
FBY_API void fby_cancel_destroy(fby_cancel *cancel);

/** Stop the calls that run under it, now and later. Threads: any, and signal handlers. Since: 0.2 */
FBY_API void fby_cancel_set(fby_cancel *cancel);

/**
 * This thread's calls run under the token from now on (NULL: nothing stops them), as do the threads that they start.
 *
 * @cancel  borrowed until another one is used.
 *
 * Returns the one before. Threads: any. Since: 0.2
 */
FBY_API fby_cancel *fby_cancel_use(fby_cancel *cancel);

#ifdef __cplusplus
}
#endif
#endif
