/*
 * Writing flatbuffers (https://flatbuffers.dev/internals/), as far as Arrow's metadata needs them: tables, vectors, strings. What is read of
 * them is in format/ipc/flatbuffer.h.
 *
 * By hand, as they are read: the metadata of a file are four tables of a few fields. nanoarrow's encoder would bring flatcc and 10,000 generated
 * lines, neither of which Debian packages; flatcc alone is a compiler and a runtime for what are 100 lines here.
 *
 * A parent is written before what it refers to, so that every offset points forward and is filled in when its target is there. Nothing is
 * shared: the same input is the same bytes.
 */
#ifndef FBY_WRITE_ARROW_FLATBUFFER_H
#define FBY_WRITE_ARROW_FLATBUFFER_H

#include "base/bytes.h"

/** Zero-initialise, begin with fby__fb_begin; release buf. */
typedef struct fby__fb {
    fby__buf buf;
    bool failed; /* out of memory: all that follows does nothing */
} fby__fb;

enum { FBY__FB_MAX_FIELDS = 8 };

/** A field of a table: so many bytes (1, 2, 4, 8; 0 = it is not there). An offset is 4 bytes of 0, linked later. */
typedef struct fby__fb_field {
    uint32_t bytes;
    int64_t value;
} fby__fb_field;

#define FBY__FB_NONE ((fby__fb_field){0, 0})
#define FBY__FB_OFFSET ((fby__fb_field){4, 0})
#define FBY__FB_I8(v) ((fby__fb_field){1, (v)})
#define FBY__FB_I16(v) ((fby__fb_field){2, (v)})
#define FBY__FB_I32(v) ((fby__fb_field){4, (v)})
#define FBY__FB_I64(v) ((fby__fb_field){8, (v)})

/** Room for the offset of the root; returns where it is, for fby__fb_table's `link`. */
uint32_t fby__fb_begin(fby__fb *b);
/** A table that the offset at `link` leads to. slots[i]: where field i lies. */
void fby__fb_table(fby__fb *b, uint32_t link, const fby__fb_field *fields, uint32_t n, uint32_t *slots);
/** A vector of n elements of so many bytes, zeroed, aligned to `align` (4, 8); returns where the first one lies. */
uint32_t fby__fb_vector(fby__fb *b, uint32_t link, uint32_t n, uint32_t element_bytes, uint32_t align);
void fby__fb_string(fby__fb *b, uint32_t link, const char *text);
/** Into a vector or a field. */
void fby__fb_store32(fby__fb *b, uint32_t at, int32_t value);
void fby__fb_store64(fby__fb *b, uint32_t at, int64_t value);

#endif
