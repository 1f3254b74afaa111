/*
 * What the six kinds of chunk index share: one reader that collects chunks, whatever structure names them.
 *
 *   chunks.c             checks the object, picks the kind, sorts and checks the list
 *   chunks_btree1.c      B-tree 1            (layout messages 1 to 3)
 *   chunks_simple.c      single, implicit    (layout message 4 and later, as all below)
 *   chunks_fixed.c       fixed array         no unlimited dimension
 *   chunks_extensible.c  extensible array    one unlimited dimension
 *   chunks_array.c       the elements of both arrays
 *   chunks_btree2.c      B-tree 2            several unlimited dimensions
 *
 * Two rules keep damaged files from costing time or memory. Every block of an index is viewed through
 * fby__h5_index_view, which adds up the bytes: no block belongs to an index twice, so their sum cannot exceed the file, and
 * neither a cycle nor a shared subtree gets further than that. Every chunk goes through fby__h5_chunk_add, which bounds
 * their number.
 */
#ifndef FBY_FORMAT_HDF5_METADATA_CHUNKS_INTERNAL_H
#define FBY_FORMAT_HDF5_METADATA_CHUNKS_INTERNAL_H

#include "format/hdf5/metadata/hdf5.h"

/** Chunks of one data set: 1.5 GiB of list. A larger index is left to the helper program. */
#define FBY__H5_MAX_CHUNKS ((uint64_t)1 << 26)

/** Reading one chunk index. One thread, on the stack of fby__h5_chunks_read. */
typedef struct fby__h5_chunk_reader {
    /* set once */
    fby__h5_file *f;
    const fby__h5_object *object;
    uint32_t rank;
    uint64_t grid[FBY__H5_MAX_RANK];   /* chunks along each axis of the extent */
    uint64_t stride[FBY__H5_MAX_RANK]; /* chunk numbers from one chunk to the next along each axis */
    uint64_t total;                    /* chunks of the grid; not 0 */
    uint64_t chunk_bytes;              /* decoded */
    bool filtered;
    /* grows */
    fby__h5_chunk *list; /* owned */
    size_t n, cap;
    bool sorted;          /* list, by number, each number once */
    uint64_t index_bytes; /* viewed so far */
    uint64_t at;          /* address of the block being read: for messages */
} fby__h5_chunk_reader;

/** As fby__h5_view, for a block of the index. */
fby_status fby__h5_index_view(fby__h5_chunk_reader *r, uint64_t address, uint64_t n, const char *what, fby__bytes *out, fby_error *err);

/**
 * As fby__h5_index_view, for a block of the newer indexes: signature, version 0 and checksum are as they must be.
 * The cursor stands behind the version and ends before the checksum.
 */
fby_status fby__h5_index_block(fby__h5_chunk_reader *r, uint64_t address, uint64_t n, const char *signature, const char *what,
                               fby__h5_cursor *out, fby_error *err);

/**
 * One chunk that the index names, by its coordinates in the grid. Nothing is added for one outside the extent or with an undefined
 * address. @bytes is ignored without filters: pass chunk_bytes, or what is stored to have it compared.
 */
fby_status fby__h5_chunk_add(fby__h5_chunk_reader *r, const uint64_t *scaled, uint64_t address, uint64_t bytes, uint32_t mask,
                             fby_error *err);

/** One kind each; the address of the index is defined. */
fby_status fby__h5_chunks_btree1(fby__h5_chunk_reader *r, fby_error *err);
fby_status fby__h5_chunks_single(fby__h5_chunk_reader *r, fby_error *err);
fby_status fby__h5_chunks_implicit(fby__h5_chunk_reader *r, fby_error *err);
fby_status fby__h5_chunks_fixed(fby__h5_chunk_reader *r, fby_error *err);
fby_status fby__h5_chunks_extensible(fby__h5_chunk_reader *r, fby_error *err);
fby_status fby__h5_chunks_btree2(fby__h5_chunk_reader *r, fby_error *err);

/* ---- arrays (chunks_array.c) ---- */

/**
 * How an array's positions map to the grid. Positions run over the grid of the largest extent, row-major; where a
 * dimension is unlimited it comes first, whichever it is.
 */
typedef struct fby__h5_chunk_array {
    uint32_t axis[FBY__H5_MAX_RANK]; /* [k]: the data set's axis that is the k-th of the array */
    uint64_t down[FBY__H5_MAX_RANK]; /* [k]: positions from one chunk to the next along it */
    uint64_t size[FBY__H5_MAX_RANK]; /* [k]: chunks along it; UNDEFINED where unlimited */
    uint64_t n;                      /* positions that a chunk of the present extent can have lie below this */
    unsigned entry_bytes;            /* of an element */
    unsigned size_bytes;             /* of its field for the stored size: 0 without filters */
} fby__h5_chunk_array;

/** @unlimited  the unlimited axis, or the rank where there is none. */
fby_status fby__h5_chunk_array_init(fby__h5_chunk_reader *r, uint32_t unlimited, fby__h5_chunk_array *out, fby_error *err);
/** Client ID and size of elements, as a header states them, against what the data set needs. */
fby_status fby__h5_chunk_array_entry(fby__h5_chunk_reader *r, fby__h5_chunk_array *a, uint8_t client, uint8_t entry_bytes, fby_error *err);
/** n elements from the cursor, the first at `position`. */
fby_status fby__h5_chunk_array_add(fby__h5_chunk_reader *r, const fby__h5_chunk_array *a, uint64_t position, uint64_t n, fby__h5_cursor *c,
                                   fby_error *err);
/** A page of n elements and its checksum. */
fby_status fby__h5_chunk_array_page(fby__h5_chunk_reader *r, const fby__h5_chunk_array *a, uint64_t address, uint64_t position, uint64_t n,
                                    const char *what, fby_error *err);
/** Client ID and the address of the header, with which every block of an array begins after its version. */
fby_status fby__h5_chunk_array_owner(fby__h5_chunk_reader *r, fby__h5_cursor *c, fby_error *err);

/** Bitmaps of pages: the first page is the highest bit of the first byte. */
static inline bool fby__h5_page_bit(const uint8_t *bitmap, uint64_t page) { return bitmap[page / 8] & (0x80u >> (page % 8)); }

#endif
