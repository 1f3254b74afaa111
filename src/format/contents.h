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
    uint64_t hash;
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
    double done;   /* how much of the file was looked at, of 1; 0 = not known */
    bool left_out; /* what was begun last: its texts are not added */
};

/* For formats without objects: a root, whose attributes are the file's key-value metadata, and columns that have metadata too. contents.c */

/** The root, with room for so many texts. Beyond FBY__CONTENTS_TEXTS a note says that they are left out, here and below. */
fby_status fby__contents_begin(fby_contents *c, size_t most, fby_error *err);
/**
 * A column, or a field inside of one, likewise. path: the column's name, which is column_n bytes, then steps. One whose path is no text is left out.
 */
fby_status fby__contents_begin_field(fby_contents *c, fby__bytes path, size_t column_n, size_t most, fby_error *err);

/** What holds a field that lies in a column. */
typedef enum fby__contents_level {
    FBY__LEVEL_LEAF, /* holds none */
    FBY__LEVEL_STRUCT,
    FBY__LEVEL_LIST,
    FBY__LEVEL_MAP,    /* whose only field is its entries */
    FBY__LEVEL_ENTRIES /* a key and a value, whatever they are called */
} fby__contents_level;
/** The level of an Arrow format, "+l" and so on; in: what holds this one. */
fby__contents_level fby__contents_level_of(const char *format, fby__contents_level in);
/** The step to field i of a level: ".name" of a struct, "[]" of a list or a map, ".key" and ".value" of entries. Nonzero: no memory. */
int fby__contents_step(fby__buf *path, fby__contents_level from, uint32_t i, fby__bytes name);

/** A text of what was begun last, copied; when a name comes again, the first counts. At most as many calls as its beginning was told. */
fby_status fby__contents_add_text(fby_contents *c, fby__bytes name, fby__bytes value, fby_error *err);
/** A sentence; borrowed. One that is there already is not added. */
fby_status fby__contents_note(fby_contents *c, const char *text, fby_error *err);

#endif
