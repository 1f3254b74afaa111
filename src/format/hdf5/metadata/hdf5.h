/*
 * Inside the HDF5 reader: what ordinary files hold is parsed here; the rest goes to the helper program.
 *
 *   metadata/    the file format. Complete as it is: what it does not read is for the helper program, not for more code here
 *     file.c       superblock; bytes of metadata by address
 *     object.c     object headers 1 and 2 → messages;  messages.c, datatype.c, attribute.c: messages → fby__h5_object
 *     group.c      names in a group: symbol tables (B-tree 1, local heap), link messages, dense links
 *     fractal.c    fractal heaps;  btree2.c  B-trees 2;  global_heap.c  variable-length values
 *     tree.c       the whole file: every object once, by path
 *     chunks.c     chunk indexes of all six kinds → one sorted list (chunks_*.c: one kind each)
 *   table/       data sets of one length → a table: schema, rows, blocks
 *   values/      rows → byte ranges (locate.c), bytes → values → the two sinks
 *   client/      what talks to the helper program, which runs libhdf5 in a process of its own
 *
 * Source of every rule: "HDF5 File Format Specification Version 3.0" (The HDF Group), cited by section, as "spec IV.A.2.i".
 * Numbers from the file are never trusted: sizes are checked against the file's end before memory is asked for, recursion has
 * a depth limit, and everything that follows addresses counts what it visits, so that a cycle is an error and not a hang.
 * An error message says what structure it is, and err->file_offset where (absolute in the file).
 *
 * Two kinds of failure: FBY_E_FORMAT, the file is damaged; FBY_E_UNSUPPORTED, it is valid but our parser does not read it
 * (the message is a phrase that fits "…: read by the helper program"). The tree keeps going in the second case.
 */
#ifndef FBY_FORMAT_HDF5_METADATA_HDF5_H
#define FBY_FORMAT_HDF5_METADATA_HDF5_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "io/io.h"

#include <forebay/base.h>

#define FBY__H5_UNDEFINED UINT64_MAX /* an address or size of all ones: "undefined" */
#define FBY__H5_MAX_RANK 32          /* H5S_MAX_RANK */
#define FBY__H5_MAX_DEPTH 32         /* nesting of datatypes, levels of B-trees; groups: 256 */
#define FBY__H5_MAX_FILTERS 32       /* H5Z_MAX_NFILTERS */

/* ---- bytes (file.c) ---- */

/** An HDF5 file while its metadata is read. One thread. Views stay valid until it is closed. */
typedef struct fby__h5_file {
    fby__file *file;                                  /* shared */
    const char *path;                                 /* of file: for messages */
    fby__arena arena;                                 /* everything parsed lives here */
    uint64_t base;                                    /* absolute offset of address 0: the user block's size, or what the superblock says */
    uint64_t end;                                     /* bytes of the file on disk */
    uint8_t offset_bytes, length_bytes;               /* 2, 4 or 8 */
    uint8_t version;                                  /* of the superblock: 0 to 3 */
    bool swmr;                                        /* marked open for writing (version 3 consistency flags): the fast path is not used */
    uint16_t group_leaf_k, group_internal_k, chunk_k; /* B-tree 1 ranks; chunk_k 32 when not stated */
    uint64_t root_address;                            /* object header of the root group */
    uint64_t extension_address;                       /* superblock extension, or FBY__H5_UNDEFINED */
    uint64_t bytes_viewed;       /* metadata read so far: bounded by FBY__H5_MAX_METADATA and by a multiple of the file */
    struct fby__h5_pages *pages; /* owned: what was read */
} fby__h5_file;

#define FBY__H5_MAX_METADATA ((uint64_t)2 << 30)

/** Superblock search at 0, 512, 1024, …; checksum verified (versions 2, 3); end of file checked (a truncated file: FBY_E_FORMAT). */
fby_status fby__h5_file_open(fby__file *file, fby__h5_file **out, fby_error *err);
void fby__h5_file_close(fby__h5_file *f); /* NULL is fine */

/**
 * n bytes at an address (relative to base). FBY_E_FORMAT when they are not all inside the file: "<what> at … goes beyond
 * the end of the file". Small views come from cached pages of 16 KiB or more; neighbouring views cost no further read.
 */
fby_status fby__h5_view(fby__h5_file *f, uint64_t address, uint64_t n, const char *what, fby__bytes *out, fby_error *err);

/** Jenkins lookup3, initial value 0: the checksum of all version 2 metadata (spec: "Checksum"). */
uint32_t fby__h5_checksum(const uint8_t *p, size_t n);
/** Does the last word of the view hold the checksum of what is before it? FBY_E_FORMAT naming `what` and address. */
fby_status fby__h5_verify(fby__h5_file *f, uint64_t address, fby__bytes view, const char *what, fby_error *err);

/** Reading forward in a view. When it would pass the end, `failed` is set, the value is 0, and nothing moves. */
typedef struct fby__h5_cursor {
    const fby__h5_file *f;
    const uint8_t *at, *end;
    const uint8_t *begin;
    uint64_t address; /* of begin */
    const char *what; /* structure, for messages */
    bool failed;
} fby__h5_cursor;

static inline fby__h5_cursor fby__h5_cursor_of(const fby__h5_file *f, fby__bytes view, uint64_t address, const char *what)
{
    return (fby__h5_cursor){f, view.data, view.data + view.n, view.data, address, what, false};
}
static inline const uint8_t *fby__h5_next(fby__h5_cursor *c, size_t n)
{
    if (c->failed || (size_t)(c->end - c->at) < n) {
        c->failed = true;
        return NULL;
    }
    c->at += n;
    return c->at - n;
}
/** Unsigned little-endian integer of n ≤ 8 bytes. */
static inline uint64_t fby__h5_uint(fby__h5_cursor *c, unsigned n)
{
    const uint8_t *p = fby__h5_next(c, n);
    uint64_t v = 0;
    for (unsigned i = 0; p && i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}
static inline uint8_t fby__h5_u8(fby__h5_cursor *c) { return (uint8_t)fby__h5_uint(c, 1); }
static inline uint16_t fby__h5_u16(fby__h5_cursor *c) { return (uint16_t)fby__h5_uint(c, 2); }
static inline uint32_t fby__h5_u32(fby__h5_cursor *c) { return (uint32_t)fby__h5_uint(c, 4); }
static inline uint64_t fby__h5_u64(fby__h5_cursor *c) { return fby__h5_uint(c, 8); }
/** An address ("size of offsets" bytes; all ones becomes FBY__H5_UNDEFINED) and a length. */
uint64_t fby__h5_offset(fby__h5_cursor *c);
uint64_t fby__h5_length(fby__h5_cursor *c);
/** FBY_OK unless the cursor failed: "<what> at <address> is cut short". */
fby_status fby__h5_cursor_check(const fby__h5_cursor *c, fby_error *err);

/* ---- types (datatype.c) ---- */

typedef enum fby__h5_class {
    FBY__H5_INTEGER,
    FBY__H5_FLOAT,
    FBY__H5_TIME,
    FBY__H5_STRING,
    FBY__H5_BITFIELD,
    FBY__H5_OPAQUE,
    FBY__H5_COMPOUND,
    FBY__H5_REFERENCE,
    FBY__H5_ENUM,
    FBY__H5_VLEN,
    FBY__H5_ARRAY,
    FBY__H5_CLASS_COUNT
} fby__h5_class;

typedef struct fby__h5_type fby__h5_type;

typedef struct fby__h5_member {
    const char *name;         /* arena, NUL-terminated */
    uint32_t offset;          /* bytes from the element's start: compounds */
    const fby__h5_type *type; /* compounds */
    const uint8_t *value;     /* enums: base->bytes bytes as stored */
} fby__h5_member;

/** A datatype, as stored. Arena memory. (spec IV.A.2.d) */
struct fby__h5_type {
    fby__h5_class class;
    uint32_t bytes; /* of one element in the file */
    bool big_endian, is_signed;
    uint16_t bit_offset, bit_precision;                                                     /* integers, bitfields, floats */
    uint8_t exponent_at, exponent_bits, mantissa_at, mantissa_bits, sign_at, normalisation; /* floats */
    uint32_t exponent_bias;
    bool vax;                 /* floats in VAX byte order: left to the helper program */
    uint8_t padding;          /* strings: 0 NUL-terminated, 1 NUL-padded, 2 space-padded */
    uint8_t charset;          /* 0 ASCII, 1 UTF-8 */
    bool vlen_string;         /* FBY__H5_VLEN of characters */
    const char *tag;          /* opaque */
    uint8_t reference;        /* 0 object, 1 region, 2… the newer ones */
    const fby__h5_type *base; /* enum, vlen, array */
    uint32_t n_members;       /* compound, enum */
    const fby__h5_member *members;
    uint32_t n_dims; /* array */
    uint64_t dims[FBY__H5_MAX_RANK];
};

/** Parse a datatype message's body. Versions 1 to 5; depth-limited. */
fby_status fby__h5_type_parse(fby__h5_file *f, fby__h5_cursor *c, const fby__h5_type **out, fby_error *err);

/**
 * The dtype whose values the type's elements are without loss, when they are plain numbers: integers of 1–8 bytes (odd sizes and
 * reduced precision: the next wider), float16/32/64 in IEEE layout (bfloat16 too), bitfields as unsigned, enums as their base,
 * h5py's bool (an enum of FALSE = 0, TRUE = 1 over int8) as FBY_BOOL. FBY_DTYPE_NONE otherwise.
 */
fby_dtype fby__h5_type_dtype(const fby__h5_type *type);
/** Are stored elements bit for bit the dtype's (little-endian, full precision, same size)? Then they are copied, not converted. */
bool fby__h5_type_is_native(const fby__h5_type *type);
/** Convert n elements, `stride` bytes apart, to the dtype of fby__h5_type_dtype (which is not NONE). dst is dense. Hot. */
void fby__h5_type_convert(const fby__h5_type *type, const uint8_t *src, size_t stride, size_t n, void *dst);
/** "float32 (big-endian)", "compound {r: float64, i: float64}", "vlen string (UTF-8)", as snprintf. */
size_t fby__h5_type_text(const fby__h5_type *type, char *out, size_t n);

/* ---- objects (object.c, messages.c, attribute.c) ---- */

typedef struct fby__h5_space {
    bool null;     /* H5S_NULL: no elements */
    uint32_t rank; /* 0 = scalar */
    uint64_t dims[FBY__H5_MAX_RANK];
    uint64_t max_dims[FBY__H5_MAX_RANK]; /* FBY__H5_UNDEFINED = unlimited */
    uint64_t n_elements;                 /* product, checked to fit */
} fby__h5_space;

typedef enum fby__h5_layout { FBY__H5_COMPACT, FBY__H5_CONTIGUOUS, FBY__H5_CHUNKED, FBY__H5_VIRTUAL } fby__h5_layout;

/** Chunk index kinds, numbered as layout message 4 does; version 1–3 messages have the B-tree 1. */
typedef enum fby__h5_index {
    FBY__H5_INDEX_BTREE1,
    FBY__H5_INDEX_SINGLE,
    FBY__H5_INDEX_IMPLICIT,
    FBY__H5_INDEX_FIXED,
    FBY__H5_INDEX_EXTENSIBLE,
    FBY__H5_INDEX_BTREE2
} fby__h5_index;

typedef struct fby__h5_filter {
    uint16_t id; /* 1 deflate, 2 shuffle, 3 fletcher32, 4 szip, 5 nbit, 6 scale-offset, 32000 lzf, … */
    bool optional;
    const char *name; /* arena; "" when not stored */
    uint32_t n_values;
    const uint32_t *values; /* arena: client data */
} fby__h5_filter;

typedef struct fby__h5_attribute {
    const char *name; /* arena */
    const fby__h5_type *type;
    fby__h5_space space;
    fby__bytes data; /* as stored; arena or view */
} fby__h5_attribute;

/** A file that a data set's values come from, besides its own. */
typedef struct fby__h5_source {
    const char *path;
    bool missing;    /* it, or the data set wanted from it, is not there: libhdf5 gives the fill value */
    bool later;      /* it need not be there: the data set grows when it comes */
    const char *why; /* missing: what is missing, as a sentence */
} fby__h5_source;

/** What an object header says. Arena memory. */
typedef struct fby__h5_object {
    uint64_t address; /* of the header */
    enum { FBY__H5_GROUP, FBY__H5_DATASET, FBY__H5_NAMED_TYPE, FBY__H5_OTHER } kind;
    /* data sets */
    const fby__h5_type *type;
    fby__h5_space space;
    fby__h5_layout layout;
    uint64_t data_address; /* contiguous: of the data; chunked: of the index; UNDEFINED = nothing allocated */
    uint64_t data_bytes;   /* contiguous */
    fby__bytes compact;    /* compact: the data itself */
    fby__h5_index index;
    uint32_t chunk[FBY__H5_MAX_RANK]; /* elements */
    uint32_t chunk_element_bytes;     /* as the layout message states it; must equal type->bytes */
    uint64_t single_bytes;            /* INDEX_SINGLE with filters: stored size and mask */
    uint32_t single_mask;
    bool partial_edge_unfiltered; /* DONT_FILTER_PARTIAL_CHUNKS (layout 4, flag bit 0) */
    uint8_t index_info[8];        /* layout 4: fixed array: page bits; extensible array: max bits, index elements, min pointers,
                                min elements, page bits; B-tree 2: split, merge percent (node size is in the tree's header) */
    uint32_t n_filters;
    const fby__h5_filter *filters;
    fby__bytes fill; /* one element as stored; n = 0: zeros */
    bool external;   /* raw data in other files */
    /* only in what the helper program describes */
    uint64_t promise; /* type and extent as one number; 0: our own */
    uint32_t n_sources;
    const struct fby__h5_source *sources; /* the other files that its values come from */
    /* groups */
    uint64_t btree_address, heap_address;           /* symbol table message; UNDEFINED = none */
    uint64_t link_heap_address, link_index_address; /* link info message: dense links; UNDEFINED = none */
    uint32_t n_links;                               /* compact links in the header */
    const struct fby__h5_link *links;
    /* all */
    uint32_t n_attributes;
    const fby__h5_attribute *attributes; /* compact and dense, in order of creation where it is tracked, else by name */
    bool known;                          /* in the helper program's tree: our tree has it too, under some name */
    const char *declined;                /* NULL, or why we do not read this object's data: "its data lies in external files". Arena */
} fby__h5_object;

typedef struct fby__h5_link {
    const char *name; /* arena */
    enum { FBY__H5_HARD, FBY__H5_SOFT, FBY__H5_EXTERNAL, FBY__H5_USER } kind;
    uint64_t address;   /* hard: object header */
    const char *target; /* soft: path in this file; external: "file:/path"; arena */
} fby__h5_link;

/** Parse an object header with all its messages. A message that we do not know and may not ignore sets `declined`. */
fby_status fby__h5_object_parse(fby__h5_file *f, uint64_t address, fby__h5_object **out, fby_error *err);

/** One attribute message's body (also an object of a fractal heap: dense attributes). Shared types are followed. */
fby_status fby__h5_attribute_parse(fby__h5_file *f, fby__bytes body, uint64_t address, fby__h5_attribute *out, fby_error *err);
/** One link message's body (also an object of a fractal heap: dense links). */
fby_status fby__h5_link_parse(fby__h5_file *f, fby__bytes body, uint64_t address, fby__h5_link *out, fby_error *err);

/* ---- groups, heaps, trees (group.c, fractal.c, btree2.c, global_heap.c) ---- */

/** Called for each thing found; a failure ends the walk and is returned. */
typedef fby_status (*fby__h5_link_fn)(void *user, const fby__h5_link *link, fby_error *err);
typedef fby_status (*fby__h5_record_fn)(void *user, const uint8_t *record, fby_error *err);

/** All links of a group in a stable order (by name; link messages: as stored). */
fby_status fby__h5_group_links(fby__h5_file *f, const fby__h5_object *group, fby__h5_link_fn fn, void *user, fby_error *err);

typedef struct fby__h5_heap fby__h5_heap; /* arena memory */
fby_status fby__h5_heap_open(fby__h5_file *f, uint64_t address, fby__h5_heap **out, fby_error *err);
/** An object of a fractal heap by its ID (managed, tiny, huge; filtered blocks: FBY_E_UNSUPPORTED). @out_address  for messages. */
fby_status fby__h5_heap_get(fby__h5_heap *heap, const uint8_t *id, size_t id_n, fby__bytes *out, uint64_t *out_address, fby_error *err);
uint16_t fby__h5_heap_id_bytes(const fby__h5_heap *heap);

/** All records of a B-tree 2, in order. type: as the header must say (5 names, 6 creation order, 8, 9 attributes, 10, 11 chunks). */
fby_status fby__h5_btree2_walk(fby__h5_file *f, uint64_t address, uint8_t type, uint16_t *out_record_bytes, fby__h5_record_fn fn,
                               void *user, fby_error *err);

/** Dense attributes: heap and name index of the attribute info message → each one, in order of creation where it is kept, else by name. */
fby_status fby__h5_dense_attributes(fby__h5_file *f, uint64_t heap_address, uint64_t index_address,
                                    fby_status (*fn)(void *user, const fby__h5_attribute *a, fby_error *err), void *user, fby_error *err);

/**
 * An object of a global heap (variable-length values: {u32 length, address of the collection, u32 index} in the element).
 * Works without an fby__h5_file so that data can be read while decoding, from any thread: reads through `file`.
 * Collections are kept in `cache` (zero-initialised; several collections; bounded by bytes). One thread a cache.
 * *out is valid until the next call with the same cache. A null value (length 0) has no collection: the caller knows.
 */
typedef struct fby__h5_global_cache {
    struct fby__h5_collection *collections; /* owned: a hash table by address */
    size_t n, cap, bytes;
} fby__h5_global_cache;
#define FBY__H5_GLOBAL_CACHE_BYTES (32u << 20)
fby_status fby__h5_global_get(fby__h5_global_cache *cache, fby__file *file, uint64_t base, uint8_t offset_bytes, uint8_t length_bytes,
                              uint64_t address, uint32_t index, fby__bytes *out, fby_error *err);
void fby__h5_global_fini(fby__h5_global_cache *cache);

/* ---- the whole file (tree.c) ---- */

typedef struct fby__h5_entry {
    const char *path; /* absolute: "/", "/events/x"; arena. The first path found of an object; soft links give further entries */
    const fby__h5_object *object; /* NULL: not parsed, `declined` says why */
    const char *declined;         /* NULL, or why: object->declined, a link to another file, an object that we cannot parse */
    bool alias;                   /* another hard or soft link to an object that an earlier entry holds */
    bool elsewhere;               /* a link to another file: what it leads to is not in this tree */
} fby__h5_entry;

typedef struct fby__h5_tree {
    uint32_t n;
    const fby__h5_entry *entries;           /* depth first, names of a group in order; [0] is the root */
    const struct fby__h5_tree_index *index; /* names → entries: for fby__h5_tree_find */
} fby__h5_tree;

/** Every object of the file. Limits: 4 million entries, depth 256, each object parsed once (cycles of hard links end). */
fby_status fby__h5_tree_read(fby__h5_file *f, fby__h5_tree *out, fby_error *err);
/**
 * The tree of entries that the helper program found, in the order that fby__h5_tree_read has; all in the arena.
 * own[i]: the entry that entry i's object is first found by, UINT32_MAX = none. FBY_E_FORMAT where an entry is not below its group.
 */
fby_status fby__h5_tree_of_entries(fby__arena *arena, const fby__h5_entry *entries, const uint32_t *own, uint32_t n, fby__h5_tree *out,
                                   fby_error *err);
/** With or without a leading slash; through other names of a group too ("/alias/x"), which have no entries of their own. NULL: none. */
const fby__h5_entry *fby__h5_tree_find(const fby__h5_tree *tree, const char *path);
const fby__h5_attribute *fby__h5_attribute_find(const fby__h5_object *object, const char *name);

/* ---- chunks (chunks.c) ---- */

/** One stored chunk. Chunks that are not listed were never written: fill value. */
typedef struct fby__h5_chunk {
    uint64_t number; /* row-major in the grid of chunks */
    uint64_t offset; /* absolute in the file (base added) */
    uint32_t bytes;  /* stored */
    uint32_t mask;   /* bit i set: filter i was skipped */
} fby__h5_chunk;

typedef struct fby__h5_chunks {
    uint32_t rank;
    uint64_t grid[FBY__H5_MAX_RANK]; /* chunks along each axis: ⌈dim / chunk⌉ */
    uint64_t n;
    fby__h5_chunk *list; /* owned (fby__free), sorted by number, each number once */
} fby__h5_chunks;

/**
 * The chunk index of a data set (layout CHUNKED). 65,536 chunks in well under 0.2 s. Chunks outside the extent (the data set
 * shrank) are left out; every chunk lies inside the file; two entries for one chunk are FBY_E_FORMAT. Without filters the stored
 * size must be the chunk's size.
 */
fby_status fby__h5_chunks_read(fby__h5_file *f, const fby__h5_object *object, fby__h5_chunks *out, fby_error *err);
void fby__h5_chunks_fini(fby__h5_chunks *chunks);
/** Bytes of a chunk when decoded: Π chunk dims × element. 0 when it does not fit in 4 GiB. */
uint64_t fby__h5_chunk_decoded_bytes(const fby__h5_object *object);

#endif
