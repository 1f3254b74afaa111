/*
 * Inside the helper program: one process, one request at a time, libhdf5 and malloc.
 *
 *   forebay_hdf5.c   start
 *   serve.c          the loop of requests
 *   h5_report.c      failures with libhdf5's own words; results in shared memory
 *   sandbox.c        what the program gives up before it looks at a file
 *   h5_open.c        which files may be opened: every open() comes there
 *   h5_memory.c      whether an allocation failed: every malloc() comes there
 *   h5_files.c       the last few files, kept open
 *   h5_sources.c     the other files that a data set's values come from
 *   h5_types.c       a type of a file → a type in memory, and its description
 *   h5_describe.c    objects, attributes, the whole tree
 *   h5_write.c       a file written: the loop of such requests, of a program that was started for it
 *   h5_read.c        hyperslabs: numbers and other fixed-size values;  h5_values.c: what has strings, references, sequences in it
 *
 * Functions return 0, or -1 after fail() or fail_h5() has written the reply.
 */
#ifndef FBY_HELPER_SERVER_H
#define FBY_HELPER_SERVER_H

#include "format/hdf5/client/protocol.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct buffer {
    uint8_t *data; /* owned */
    size_t n, cap;
} buffer;

/** A request and what becomes of it. */
typedef struct work {
    const fby__h5p_request *request;
    const char *path, *object;
    const char *folders; /* request->folders_bytes of names, each with its NUL */
    fby__h5p_reply reply;
    int fd; /* owned: memfd of the result, -1 = none */
} work;

/** hid_t that is let go at the end of its scope. */
#define AUTO_ID __attribute__((cleanup(close_id))) hid_t
void close_id(hid_t *id);
#define AUTO_FREE __attribute__((cleanup(free_pointer)))
void free_pointer(void *p); /* p points at the pointer */

/* ---- serve.c ---- */

/** @fd  goes with it; -1: none */
int send_reply(const fby__h5p_reply *reply, int fd);
/** Take a request and answer it; false: there will be no more. */
bool serve(void);

/* ---- h5_write.c ---- */

/** Take a request to write and answer it; false: there will be no more. */
bool serve_writing(void);

/* ---- h5_report.c ---- */

int fail(work *w, uint32_t status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int fail_nomem(work *w);
/**
 * FORMAT (NOMEM where an allocation failed, IO where the system failed it for now), the text and what libhdf5's error stack says; the stack is
 * emptied.
 */
int fail_h5(work *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The same words into `out`; the errno of such a failure of the system, 0 = none. */
int h5_words(char *out, size_t n);
/** Is there no room for another descriptor? Where libhdf5 only says that a file "cannot be opened". */
bool out_of_descriptors(void);
/** IO, that there is none. */
int fail_descriptors(work *w);
/** Tell the client that work goes on, at most every half a second. */
void progress(const work *w);
/** The result: n bytes of new shared memory, mapped for writing at *out (NULL when n = 0). */
int result_map(work *w, uint64_t n, void **out);
/** The result: a copy of two runs of bytes. */
int result_write(work *w, const void *a, size_t a_n, const void *b, size_t b_n);

int put(work *w, buffer *b, const void *p, size_t n);
int put_u8(work *w, buffer *b, unsigned v);
int put_u16(work *w, buffer *b, unsigned v);
int put_u32(work *w, buffer *b, uint64_t v);
int put_u64(work *w, buffer *b, uint64_t v);
int put_text(work *w, buffer *b, const char *s);

#define TRY(expr)                                                                                                                          \
    do {                                                                                                                                   \
        if ((expr) != 0)                                                                                                                   \
            return -1;                                                                                                                     \
    } while (0)

/* ---- sandbox.c ---- */

/** Give up what a reader does not need; files below the folders stay readable. What the kernel lacks for it goes into `lacks`. */
void confine(int n_folders, char *const *folders, char *lacks, size_t n);

/* ---- h5_open.c ---- */

/** From here on, what is opened is checked against the request; NULL: not. */
void opens_begin(const work *w);
/** From here on, whatever libhdf5 opens is this descriptor, which is open for writing; nothing else can be opened. */
void opens_written(int fd);
/** Was a file refused? Since opens_begin(), or opens_forget(). One that another place had instead does not count. */
bool opens_refused(void);
void opens_forget(void);
/** FORMAT: which file, and what would allow it. */
int fail_refused(work *w, const char *what);
/** Try the files that a data set's values come from, as far as their names say which: opens_refused() then knows. */
void try_sources(const work *w, hid_t dataset);

/* ---- h5_memory.c ---- */

/** Did an allocation fail for lack of memory since allocations_begin(), in libhdf5 or elsewhere? */
bool allocation_failed(void);
void allocations_begin(void);

/* ---- h5_files.c ---- */

/** The file of the request, opened for reading; borrowed until the next request. */
int file_of(work *w, hid_t *out);
/**
 * An object by its path from a file or group (new id, -1 = not opened), through links to other files too, where these are regular files:
 * one that is a pipe or a device would keep libhdf5 waiting.
 */
hid_t open_object(hid_t from, const char *path);
/** After it gave a data set: the links to other files that it went through. */
typedef struct passed_link {
    char from[FBY__H5P_MAX_PATH]; /* the file that has the link */
    char file[FBY__H5P_MAX_PATH]; /* as the link names it */
} passed_link;
unsigned links_passed(void);
const passed_link *link_passed(unsigned i);
/** After it gave -1: FORMAT, with the reason. */
int fail_open(work *w, const char *what);
/** Type and extent of a data set as one number, never 0; 0: a failure. */
uint64_t promise_of(work *w, hid_t dataset);
/** The data set of the request; borrowed until the next request. CHANGED where it is not what the request was promised. */
int dataset_of(work *w, hid_t *out);
/** Raw data in other files: libhdf5 looks for a relative name in the working directory, users keep the files side by side. */
bool externals_are_beside(const work *w, hid_t dcpl);
/** The place in the pipeline of the first filter that neither libhdf5 nor a plugin has, and a failure (ENOPKG) that names it; -1: none is missing. */
int missing_filter(work *w, hid_t dataset);
/** The same failure before anything is read: where the first stored chunk passed such a filter. */
int need_filters(work *w, hid_t dataset);
/** After each request: what must not be kept open is closed. */
void files_settle(void);
/** Once, when the program is ready: what it takes by itself. @statm  its /proc/self/statm, opened before it was confined; closed. */
void own_memory(int statm);
/** Allow this request a result of so many bytes, and the memory that its client says. */
void limit_memory(const work *w, uint64_t result_bytes);

/* ---- h5_types.c ---- */

/** Little-endian IEEE float of 2, 4 or 8 bytes (bfloat: the upper half of float32), two's complement integer. New id. */
hid_t float_type(bool bfloat, size_t bytes);
hid_t integer_type(bool is_signed, size_t bytes);
/**
 * The type that elements are read as: native little-endian, packed, enums as their integers. They go to the client as they are where
 * no part of them has a variable length; otherwise h5_values.c lays them out.
 */
int memory_type(work *w, hid_t type, int depth, hid_t *out);
/** Description of that type (protocol.h), enums with their names, variable-length parts as they are. */
int put_type(work *w, buffer *b, hid_t type, int depth);
/** Has the type parts of variable length (strings, sequences, and references, which are told as paths)? -1 when libhdf5 does not say. */
int has_variable_parts(hid_t type);

/* ---- h5_sources.c ---- */

/** They are all looked at: a failure, too, where a filter of one is missing. */
int put_sources(work *w, buffer *b, hid_t dataset);
/** H5Dread failed: the filter that is missing, of the data set or of one of its sources, or else libhdf5's words. */
int fail_read(work *w, hid_t dataset);
/** UNSUPPORTED: a virtual data set of which libhdf5 would never find the extent. Before H5Dget_space. */
int refuse_endless(work *w, hid_t dataset);

/* ---- requests ---- */

int do_tree(work *w);
int do_object(work *w);
int do_read(work *w);
int do_values(work *w);

/* ---- between h5_read.c and h5_values.c ---- */

/** The request's box in a data set, walked in runs of whole rows of axis 0. */
typedef struct box {
    hid_t file_space; /* borrowed */
    uint32_t rank;
    uint64_t rows, row_elements, n; /* rank 0: 1, 1, 1 */
    uint64_t at, step;              /* rows done; rows at a time */
} box;
/** Checks the box against the space and chooses `step`: whole chunks of about `elements`. */
int box_begin(work *w, hid_t dataset, hid_t space, uint64_t elements, box *out);
/** The next run, selected in file_space, and a space in memory for it (new id); 1 = one more, 0 = done. */
int box_next(work *w, box *b, uint64_t *out_elements, hid_t *out_memory_space);

#endif
