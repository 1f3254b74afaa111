/* What fby_contents holds (include/forebay/contents.h), for the format that fills it and the dataset that hands it out. */
#ifndef FBY_FORMAT_CONTENTS_H
#define FBY_FORMAT_CONTENTS_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"

#include <forebay/contents.h>

#define FBY__CONTENTS_TEXTS 10000u

/** A key of an object's. */
typedef struct fby__contents_key {
    fby__hash128 hash;
    uint32_t attribute; /* counted from 1; 0 = no key */
} fby__contents_key;

struct fby_contents {
    bool of_table;       /* what is said of the file and of its table's columns is all that is wanted: no layouts, no notes on them */
    fby__arena arena;    /* everything pointed to */
    fby_object *objects; /* owned */
    size_t n, cap;
    const char **notes; /* owned */
    size_t n_notes, cap_notes;
    fby__contents_key *keys; /* the arena's: of the last object, a hash table of keys_mask + 1 slots, less than half of them taken */
    size_t keys_mask;
};

/* Of formats without objects: a root, whose attributes are the file's key-value metadata, and columns that have such of their own. contents.c */

/** The root, with room for so many texts. FBY_E_UNSUPPORTED beyond FBY__CONTENTS_TEXTS. */
fby_status fby__contents_begin(fby_contents *c, size_t most, fby_error *err);
/** A column, likewise; its name is copied. One whose name is no text is left out, and *out_there is false. */
fby_status fby__contents_begin_column(fby_contents *c, fby__bytes name, size_t most, bool *out_there, fby_error *err);
/** A text of the last object, copied; of a name that comes again, the first counts. At most as many calls as its beginning was told. */
fby_status fby__contents_add_text(fby_contents *c, fby__bytes name, fby__bytes value, fby_error *err);
/** A sentence; borrowed. */
fby_status fby__contents_note(fby_contents *c, const char *text, fby_error *err);

#endif
