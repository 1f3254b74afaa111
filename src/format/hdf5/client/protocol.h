/*
 * What the HDF5 helper program (helper/) and its client (helper.c) say to each other. Both are built from one tree and check
 * each other's version, but neither trusts the other's numbers: the program works on hostile files.
 *
 *   client                                   program (its end of a SOCK_SEQPACKET pair is descriptor 3)
 *      | <------------------------------- HELLO |  once, when it is ready; the text: what of its confinement the kernel lacks
 *      | request, path, object path, folders -> |  one message
 *      | <---------------------------- PROGRESS |  now and then, while it works
 *      | <---------- DONE + descriptor of memfd |  status; on success the result, `bytes` long
 *
 * Results:
 *   READ       the elements, dense
 *   VALUES     the elements, dense, then the heap: what their parts of variable length hold
 *   OBJECT     u8 kind and what follows, see below
 *   TREE       u32 n_objects, objects; u32 n_entries, entries
 *
 * Descriptions are little-endian without padding; a text is u32 length and bytes, a blob the same:
 *   object     u8 kind, u64 address, [data set: type, space, u8 layout, u8 external, [chunked: u32 chunk dims × rank],
 *              u32 n_filters × (u16 id, u8 optional, text name, u32 n × u32 value), blob fill, u64 promise,
 *              u32 n_sources × (text path, u8 state, text why)],
 *              u32 n_attributes × (text name, type, space, blob data)
 *   type       u8 class, u32 bytes, then by class
 *                INTEGER, BITFIELD   u8 signed
 *                FLOAT               u8 form: FBY__H5P_FLOAT…
 *                STRING              u8 padding, u8 charset
 *                OPAQUE              text tag
 *                COMPOUND            u32 n × (text name, u32 offset, type)
 *                REFERENCE           u8 kind: 0 object, 1 region, 2 another
 *                ENUM                type base, u32 n × (text name, base's bytes)
 *                VLEN                u8 is a string, u8 charset, type base
 *                ARRAY               u8 n_dims, u64 dims, type base
 *   space      u8 null, u8 rank, u64 dims, u64 max_dims
 *   (promise: type and extent as one number, never 0, which a reader gives back; sources: the other files that values come from, absolute
 *   paths, of OBJECT alone; why: what is missing, as a sentence)
 *   entry      text path, u32 object (FBY__H5P_NO_OBJECT), u8 alias, text declined ("": not)
 *
 * A part of variable length takes 16 bytes in an element: u32 length (elements of a sequence, bytes of a text), u64 where its content
 * begins (heap_at is the heap's first byte), u32 0 where it is empty and 1 elsewhere. In the heap elements are laid out in the same
 * way. References are texts: paths, empty where they are zero.
 *
 * Started with FBY__H5P_WRITE_MODE in place of folders, the program reads no file, but writes one: the client has opened it, empty, as
 * descriptor 4. Descriptor 3 is a stream then; each fby__h5p_write, with `bytes` that follow it, is answered with DONE:
 *   COLUMN     a data set; its name. The first is number 0
 *   ROWS       rows of it, dense; of TEXT, each with a NUL behind it
 *   ATTRIBUTE  of the file, or of a column: a name and its NUL, then a text and its NUL, or numbers
 *   END        the file is complete, and closed
 *
 * This header includes the C library only.
 */
#ifndef FBY_FORMAT_HDF5_CLIENT_PROTOCOL_H
#define FBY_FORMAT_HDF5_CLIENT_PROTOCOL_H

#include <stdint.h>

#define FBY__H5P_FD 3              /* the program's end of the socket pair */
#define FBY__H5P_MAGIC 0x35484246u /* "FBH5" */
#define FBY__H5P_VERSION 5u
#define FBY__H5P_MAX_RANK 32             /* H5S_MAX_RANK */
#define FBY__H5P_MAX_PATH 4096u          /* of a file, with the NUL */
#define FBY__H5P_MAX_OBJECT_PATH 65536u  /* with the NUL; also of a name */
#define FBY__H5P_MAX_FOLDERS 65536u      /* their names, each with its NUL */
#define FBY__H5P_MAX_DEPTH 32            /* nesting of types */
#define FBY__H5P_MAX_INTEGER_BYTES 8191u /* its bits are counted in 16 of them */
#define FBY__H5P_VLEN_BYTES 16u          /* of a value of variable length */
#define FBY__H5P_MAX_GROUP_DEPTH 256
#define FBY__H5P_MAX_ENTRIES (4u << 20)
#define FBY__H5P_MAX_DESCRIPTION ((uint64_t)1 << 30)
#define FBY__H5P_MAX_ATTRIBUTE ((uint64_t)64 << 20) /* larger values are left out: n = 0 */
#define FBY__H5P_MAX_SOURCES (1u << 20)
#define FBY__H5P_MEMORY ((uint64_t)32 << 20)    /* of the program itself, with libhdf5's caches of metadata */
#define FBY__H5P_MAX_MEMORY ((uint64_t)4 << 30) /* no request is given much more: a larger allocation is none that memory would help */
#define FBY__H5P_NO_OBJECT UINT32_MAX

enum { FBY__H5P_TREE = 1, FBY__H5P_OBJECT, FBY__H5P_READ, FBY__H5P_VALUES };

enum { FBY__H5P_HELLO = 1, FBY__H5P_PROGRESS, FBY__H5P_DONE };

/* How a request ended. FORMAT: libhdf5 says no. IO: the system does, and may not the next time. CHANGED: it is not what was promised.
 * TOO_LARGE: values of variable length hold more than is read at once. */
enum {
    FBY__H5P_OK,
    FBY__H5P_FORMAT,
    FBY__H5P_UNSUPPORTED,
    FBY__H5P_NOMEM,
    FBY__H5P_IO,
    FBY__H5P_TOO_LARGE,
    FBY__H5P_ARG,
    FBY__H5P_CHANGED,
    FBY__H5P_STATUS_COUNT
};

enum { FBY__H5P_KIND_GROUP, FBY__H5P_KIND_DATASET, FBY__H5P_KIND_NAMED_TYPE, FBY__H5P_KIND_OTHER };

/* LATER: a file that is not there and need not be: of the numbered ones that a virtual data set grows by, or where another one would be looked for first. */
enum { FBY__H5P_SOURCE_THERE, FBY__H5P_SOURCE_MISSING, FBY__H5P_SOURCE_LATER, FBY__H5P_SOURCE_STATES };

enum { FBY__H5P_COMPACT, FBY__H5P_CONTIGUOUS, FBY__H5P_CHUNKED, FBY__H5P_VIRTUAL };

/* Datatype classes, numbered as in the file format (spec IV.A.2.d). */
enum {
    FBY__H5P_CLASS_INTEGER,
    FBY__H5P_CLASS_FLOAT,
    FBY__H5P_CLASS_TIME,
    FBY__H5P_CLASS_STRING,
    FBY__H5P_CLASS_BITFIELD,
    FBY__H5P_CLASS_OPAQUE,
    FBY__H5P_CLASS_COMPOUND,
    FBY__H5P_CLASS_REFERENCE,
    FBY__H5P_CLASS_ENUM,
    FBY__H5P_CLASS_VLEN,
    FBY__H5P_CLASS_ARRAY,
    FBY__H5P_CLASS_COUNT
};

enum { FBY__H5P_FLOAT16 = 1, FBY__H5P_BFLOAT16, FBY__H5P_FLOAT32, FBY__H5P_FLOAT64, FBY__H5P_FLOAT_FORMS };

/* What numbers are to become. NATIVE: as the description of the type says. */
enum { FBY__H5P_NATIVE, FBY__H5P_AS_BOOL, FBY__H5P_AS_INT, FBY__H5P_AS_UINT, FBY__H5P_AS_FLOAT, FBY__H5P_AS_BFLOAT };

typedef struct fby__h5p_request {
    uint32_t magic, version;
    uint64_t id; /* comes back with every answer */
    uint32_t op;
    uint32_t path_bytes, object_bytes; /* both with their NULs; they follow this struct */
    uint8_t as, as_bytes;              /* READ */
    uint8_t anywhere;                  /* files that the file names may lie anywhere */
    uint8_t reserved;
    uint64_t result_bytes; /* READ: of all elements; VALUES: the most bytes */
    uint64_t heap_at;      /* VALUES */
    uint64_t promise;      /* READ, VALUES: what the description said; 0 = nothing was promised */
    uint64_t memory_bytes; /* that the program may allocate for it, beside FBY__H5P_MEMORY; NOMEM: more are needed */
    uint32_t rank;
    uint32_t folders_bytes; /* after the object path: besides the file's own, the folders whose files it may name */
    uint64_t start[FBY__H5P_MAX_RANK], count[FBY__H5P_MAX_RANK];
} fby__h5p_request;

/* ---- writing ---- */

#define FBY__H5P_WRITTEN_FD 4
#define FBY__H5P_WRITE_MODE "--write"

enum { FBY__H5P_COLUMN = 1, FBY__H5P_ROWS, FBY__H5P_ATTRIBUTE, FBY__H5P_END };

/* What the values of a column are. BOOL: a byte, 0 or 1. */
enum { FBY__H5P_OF_BOOL, FBY__H5P_OF_INT, FBY__H5P_OF_UINT, FBY__H5P_OF_FLOAT, FBY__H5P_OF_BYTES, FBY__H5P_OF_TEXT };

#define FBY__H5P_OF_FILE UINT32_MAX

typedef struct fby__h5p_write {
    uint32_t magic, version;
    uint32_t op;
    uint32_t column;             /* ROWS, ATTRIBUTE: its number; FBY__H5P_OF_FILE */
    uint32_t value, value_bytes; /* COLUMN, as all to `dims`; ATTRIBUTE, too; TEXT: 0 bytes */
    uint32_t rank;               /* with the axis of the rows; of an ATTRIBUTE of numbers 0 or 1 */
    uint32_t level;              /* of gzip, behind a byte shuffle; 0 = not compressed */
    uint64_t chunk_rows;         /* 0 = contiguous */
    uint64_t dims[FBY__H5P_MAX_RANK];
    uint64_t first, rows; /* ROWS */
    uint64_t bytes;       /* that follow */
} fby__h5p_write;

typedef struct fby__h5p_reply {
    uint32_t magic, version;
    uint64_t id;
    uint32_t kind, status;
    int32_t sys_errno; /* IO */
    uint32_t reserved;
    uint64_t bytes;    /* of the result */
    char message[960]; /* NUL-terminated */
} fby__h5p_reply;

#endif
