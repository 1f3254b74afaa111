/* What file.c, object.c, messages.c, attribute.c and datatype*.c share; hdf5.h is what others see. */
#ifndef FBY_FORMAT_HDF5_METADATA_OBJECT_INTERNAL_H
#define FBY_FORMAT_HDF5_METADATA_OBJECT_INTERNAL_H

#include "format/hdf5/metadata/hdf5.h"

/* ---- file.c ---- */

/** Zeroed arena memory, bounded by a multiple of the file: a small file cannot make a large tree. out: T **. */
fby_status fby__h5_alloc(fby__h5_file *f, size_t n, size_t size, void **out, fby_error *err);
/** A NUL-terminated copy of a name at the cursor c. FBY_E_FORMAT when it is empty or holds a NUL itself. */
fby_status fby__h5_name(fby__h5_file *f, const fby__h5_cursor *c, const uint8_t *p, size_t n, const char **out, fby_error *err);

/** Committed datatypes that were read: attributes and data sets by the thousand share one. NULL: not yet. */
const fby__h5_type *fby__h5_named_find(const fby__h5_file *f, uint64_t address);
fby_status fby__h5_named_keep(fby__h5_file *f, uint64_t address, const fby__h5_type *type, fby_error *err);

/** Where a cursor stands: address, and offset in the file for errors. */
static inline uint64_t fby__h5_tell(const fby__h5_cursor *c) { return c->address + (uint64_t)(c->at - c->begin); }
static inline uint64_t fby__h5_tell_file(const fby__h5_cursor *c) { return c->f->base + fby__h5_tell(c); }
static inline size_t fby__h5_left(const fby__h5_cursor *c) { return (size_t)(c->end - c->at); }

/** FBY_E_FORMAT at the cursor: "<what>: <text>". */
fby_status fby__h5_damaged(const fby__h5_cursor *c, fby_error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- object.c ---- */

enum {
    FBY__H5_MSG_NIL,
    FBY__H5_MSG_SPACE,
    FBY__H5_MSG_LINK_INFO,
    FBY__H5_MSG_TYPE,
    FBY__H5_MSG_FILL_OLD,
    FBY__H5_MSG_FILL,
    FBY__H5_MSG_LINK,
    FBY__H5_MSG_EXTERNAL,
    FBY__H5_MSG_LAYOUT,
    FBY__H5_MSG_BOGUS,
    FBY__H5_MSG_GROUP_INFO,
    FBY__H5_MSG_FILTERS,
    FBY__H5_MSG_ATTRIBUTE,
    FBY__H5_MSG_COMMENT,
    FBY__H5_MSG_TIME_OLD,
    FBY__H5_MSG_SHARED_TABLE,
    FBY__H5_MSG_CONTINUATION,
    FBY__H5_MSG_SYMBOL_TABLE,
    FBY__H5_MSG_TIME,
    FBY__H5_MSG_BTREE_K,
    FBY__H5_MSG_DRIVER,
    FBY__H5_MSG_ATTRIBUTE_INFO,
    FBY__H5_MSG_REFERENCES,
    FBY__H5_MSG_FREE_SPACE,
    FBY__H5_MSG_CACHE_IMAGE,
    FBY__H5_MSG_COUNT
};

/** One message of an object header: continuations followed, NIL messages left out. */
typedef struct fby__h5_message {
    uint16_t type;  /* FBY__H5_MSG_… or a later one */
    bool shared;    /* the body says where the message is, it is not the message */
    bool must_know; /* flag bit 7: a reader that does not know the type must not use the object */
    bool ordered;   /* version 2 headers that track it: the order of creation of attributes */
    uint16_t order;
    fby__bytes body;
    uint64_t address; /* of the body */
} fby__h5_message;

/** Called for each message; anything but FBY_OK ends the walk and is returned. */
typedef fby_status (*fby__h5_message_fn)(void *user, const fby__h5_message *m, fby_error *err);
fby_status fby__h5_header_walk(fby__h5_file *f, uint64_t address, fby__h5_message_fn fn, void *user, fby_error *err);

/* ---- messages.c: each reads a message's body from the cursor ---- */

fby_status fby__h5_space_parse(fby__h5_cursor *c, fby__h5_space *out, fby_error *err);
/** old: message 4, which has neither version nor flags. out->n = 0: no value was set. */
fby_status fby__h5_fill_parse(fby__h5_cursor *c, bool old, fby__bytes *out, fby_error *err);
fby_status fby__h5_filters_parse(fby__h5_file *f, fby__h5_cursor *c, fby__h5_object *o, fby_error *err);

/** What the layout message says about ranks and versions and fby__h5_object does not keep. */
typedef struct fby__h5_layout_facts {
    uint8_t version;
    unsigned chunk_rank;
} fby__h5_layout_facts;
fby_status fby__h5_layout_parse(fby__h5_cursor *c, fby__h5_object *o, fby__h5_layout_facts *out, fby_error *err);

/* ---- attribute.c ---- */

/**
 * A shared message instead of a datatype (spec IV.A.2.d and "Shared Message"): the committed datatype at that address.
 * FBY_E_UNSUPPORTED for messages in the file's shared message heap.
 */
fby_status fby__h5_shared_type(fby__h5_file *f, fby__h5_cursor *c, const fby__h5_type **out, fby_error *err);
/** For messages that cannot be committed: where a shared one lies, as FBY_E_UNSUPPORTED (the heap) or FBY_E_FORMAT. */
fby_status fby__h5_shared_other(fby__h5_cursor *c, fby_error *err);

#endif
