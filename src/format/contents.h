/* What fby_contents holds (include/forebay/contents.h), for the format that fills it and the dataset that hands it out. */
#ifndef FBY_FORMAT_CONTENTS_H
#define FBY_FORMAT_CONTENTS_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"

#include <forebay/contents.h>

#define FBY__CONTENTS_TEXTS 10000u

/** A key of the root's. */
typedef struct fby__contents_key {
    fby__hash128 hash;
    uint32_t attribute; /* counted from 1; 0 = no key */
} fby__contents_key;

struct fby_contents {
    fby__arena arena;    /* everything pointed to */
    fby_object *objects; /* owned */
    size_t n, cap;
    const char **notes; /* owned */
    size_t n_notes, cap_notes;
    fby__contents_key *keys; /* the arena's: a hash table of keys_mask + 1 slots, less than half of them taken */
    size_t keys_mask;
};

/* Of formats without objects: a root, whose attributes are the file's key-value metadata. contents.c */

/** The root, with room for so many texts. FBY_E_UNSUPPORTED beyond FBY__CONTENTS_TEXTS. */
fby_status fby__contents_begin(fby_contents *c, size_t most, fby_error *err);
/** One of them, copied; of a name that comes again, the first counts. At most as many calls as fby__contents_begin was told. */
fby_status fby__contents_add_text(fby_contents *c, fby__bytes name, fby__bytes value, fby_error *err);

#endif
