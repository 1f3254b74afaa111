/*
 * The client of the helper program: libhdf5 in a process of its own, for what our reader declines.
 *
 * The program (helper/, installed as libexec/forebay/forebay-hdf5) is started on the first request and kept; at most one request is
 * with it at a time (a lock; callers wait their turn). Requests go over a socket pair, data comes back through shared memory
 * (memfd). A program that dies, hangs beyond the timeout or answers nonsense is killed and reaped, the request is an error naming
 * file and data set (FBY_E_FORMAT: "the helper program was killed by signal 11 while it read …"; one that somebody else killed, as a
 * machine short of memory does, is replaced once and then FBY_E_IO), and the next request starts a new one. A forked child starts its
 * own. Nothing is inherited by the program but its descriptor and a few variables of the environment; it ends when the socket closes. It
 * confines itself (helper/sandbox.c) to the folders that it is started for: a request for others starts it anew, for both.
 *
 * Found at: $FOREBAY_HDF5_HELPER; beside the shared object that holds this code (dladdr); for one in prefix/lib, prefix/lib/machine or
 * prefix/bin, in prefix/libexec/forebay; for one in the build tree, in that; the path compiled in. Nowhere else, and not where somebody
 * other than the user and root may put another in its place. Not found, not executable, or not what it should be (it ends before it says
 * hello): FBY_E_IO saying what would need it and how to get it; FBY_E_UNSUPPORTED where Forebay was built without it, or
 * $FOREBAY_HDF5_HELPER is "none".
 *
 * Other errors: FBY_E_UNSUPPORTED, libhdf5 lacks a filter or the type cannot be had in the form asked for; FBY_E_ARG, the box is not
 * inside the data set or dst_n is not its size; FBY_E_CHANGED, it is not what it was described as; FBY_E_CANCELLED (base/cancel.h);
 * FBY_E_IO, FBY_E_NOMEM: the next request may well succeed. All name file and object. A program that died while it had nothing to do is
 * no error: another is started.
 *
 * Threads: any; one request at a time, callers wait their turn. Blocks: yes. Inside: find.c finds the program, spawn.c starts it, process.c
 * talks with it, end.c ends it, ask.c says what is wanted and what memory there is for it, parse.c takes descriptions apart, protocol.h is
 * what both sides say.
 */
#ifndef FBY_FORMAT_HDF5_CLIENT_HELPER_H
#define FBY_FORMAT_HDF5_CLIENT_HELPER_H

#include "format/format.h"
#include "format/hdf5/metadata/hdf5.h"

/**
 * Describe a file as libhdf5 sees it: every object with type, space, layout, chunk dims, filters, fill value, and attributes (values of
 * numeric and string types; strings as fixed, NUL-padded). Types are native little-endian; each data set has
 * `declined` set (to `why`), for its data can only be read through the program. Arena memory (of f where arena is NULL; f may
 * be NULL otherwise). Values of other types are left out of attributes (data.n = 0): references, sequences, more than 64 MiB.
 * Objects that libhdf5 cannot read are entries with its words as `declined`.
 */
fby_status fby__h5_helper_tree(fby__h5_file *f, const char *path, const char *why, fby__arena *arena, fby__h5_tree *out, fby_error *err);

/** One object the same way. */
fby_status fby__h5_helper_object(const char *path, const char *object_path, const char *why, fby__arena *arena, const fby__h5_object **out,
                                 fby_error *err);

/** A data set as the program described it (fby__h5_object.promise): FBY_E_CHANGED where it is another when it is read. 0: any. */
typedef uint64_t fby__h5_promise;

/**
 * Read a hyperslab of a data set, count[i] elements from start[i] along each axis, into dst (row-major, dense, exactly dst_n bytes):
 * numeric types (enums, bitfields, arrays of them) converted by libhdf5 to `dtype`; with FBY_DTYPE_NONE the native bytes of the
 * type as fby__h5_helper_object states it (compounds packed), FBY_E_UNSUPPORTED when some of it is of variable length.
 */
fby_status fby__h5_helper_read(const char *path, const char *object_path, fby__h5_promise promise, uint32_t rank, const uint64_t *start,
                               const uint64_t *count, fby_dtype dtype, void *dst, size_t dst_n, fby_error *err);

/**
 * As fby__h5_helper_read with FBY_DTYPE_NONE, of a type with values of variable length (strings, sequences, references, which are read as
 * the paths they point to): in dst these are 16 bytes each, { u32 length, u64 where in heap, u32 0 where empty and 1 elsewhere }. What
 * they hold is appended to `heap`, max_bytes of it with the elements at most (FBY_E_UNSUPPORTED beyond). None of these numbers is checked
 * here: fby__h5_helper_vlen does. On failure heap is as it was.
 */
fby_status fby__h5_helper_read_values(const char *path, const char *object_path, fby__h5_promise promise, uint32_t rank,
                                      const uint64_t *start, const uint64_t *count, void *dst, size_t dst_n, size_t max_bytes,
                                      fby__buf *heap, fby_error *err);
#define FBY__H5_HELPER_VLEN_BYTES 16u
/** What such a part holds: *out_n units of `bytes` each, valid until the heap changes. FBY_E_FORMAT where it is not inside the heap. */
fby_status fby__h5_helper_vlen(const fby__buf *heap, const uint8_t *vlen, size_t bytes, fby__bytes *out, uint64_t *out_n, fby_error *err);

/** What this thread's requests may reach from now on (borrowed; NULL: the file's own folder). Returns what it was. */
const fby__reach *fby__h5_helper_reach(const fby__reach *reach);

/**
 * What the program may hold for a thread's requests. It is asked for as much as is needed: `least` at first, and twice as much as long as
 * libhdf5 has too little. All of it is taken from the thread's allowance (base/alloc.h): FBY_E_NOMEM where that has no room.
 */
typedef struct fby__h5_helper_memory {
    size_t least;
    size_t held; /* taken so far, and the owner's to give back */
} fby__h5_helper_memory;
/** The memory of this thread's requests from now on (borrowed; NULL: each gives back what it took). Returns the one before. */
fby__h5_helper_memory *fby__h5_helper_memory_of(fby__h5_helper_memory *memory);

/** Stop the program if it runs (tests; process exit does it too). */
void fby__h5_helper_stop(void);

#endif
