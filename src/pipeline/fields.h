/*
 * Maps of a tree into option structs, by tables: each key's name, what it may be, and where it goes. One table is also the list of what a
 * map may hold, so unknown keys are found with their place, and the nearest known one is named.
 */
#ifndef FBY_PIPELINE_FIELDS_H
#define FBY_PIPELINE_FIELDS_H

#include "base/arena.h"
#include "base/error.h"
#include "options/options.h"

#include <forebay/pipeline.h>

/** What reading one file needs. All that it makes is in the arena. */
typedef struct fby__reading {
    fby__arena *arena;
    const char *file;     /* what messages call the file */
    const char *base_dir; /* paths are relative to it; "" = the working directory */
    fby_error *err;
} fby__reading;

typedef enum fby__want {
    FBY__WANT_BOOL,   /* bool */
    FBY__WANT_U64,    /* uint64_t, from `least` */
    FBY__WANT_U32,    /* uint32_t */
    FBY__WANT_INT,    /* int, 0 … INT_MAX unless least is below */
    FBY__WANT_I64,    /* int64_t */
    FBY__WANT_DOUBLE, /* double; ints do */
    FBY__WANT_TEXT,   /* const char * */
    FBY__WANT_PATH,   /* const char *, made relative to the base directory */
    FBY__WANT_TEXTS,  /* const char *const *, its count at `also`: a list, or one text */
    FBY__WANT_PATHS,  /* the same of paths; those among `choices` stay as they are */
    FBY__WANT_BYTES,  /* uint64_t: "8GiB", or a whole number */
    FBY__WANT_CHOICE, /* an enum (4 bytes): the place in `choices` */
    FBY__WANT_DTYPE,  /* fby_dtype */
    FBY__WANT_NODE    /* const fby_node *: whatever it is, for the caller */
} fby__want;

typedef struct fby__key {
    const char *name; /* NULL ends a table */
    fby__want want;
    size_t at;                  /* of the value in the struct */
    size_t also;                /* of a bool that is set when the key is there, or of a TEXTS' count; FBY__NOWHERE */
    int64_t least;              /* of numbers: below it is refused. 0 for unsigned ones; DOUBLE: as fby_option's */
    const char *const *choices; /* NULL-terminated */
    uint64_t most;              /* of whole numbers: above it is refused; 0 = what the type holds */
} fby__key;

#define FBY__NOWHERE SIZE_MAX
#define FBY__MAX_KEYS 64 /* of a map, the end included */

/**
 * The keys of a map that holds a set of options, whose struct is `base` bytes into what is read: first `more`, which are the forms of the
 * options that have one and keys that are no options, then the others. Returns out.
 */
const fby__key *fby__option_keys(fby_option_set set, size_t base, const fby__key *more, fby__key out[FBY__MAX_KEYS]);

/** FBY_E_ARG with "file:line:column: " before the message; returns the code. */
fby_status fby__node_fail(const fby__reading *r, const fby_node *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** "file:line:column: " and `what` before the message of an error that came from below. */
fby_status fby__node_context(const fby__reading *r, const fby_node *node, const char *what);
fby_status fby__read_nomem(const fby__reading *r);

/** What messages call a node: "a list", "the text 'abc'", "nothing". Into buffer, which is returned. */
const char *fby__node_text(const fby_node *node, char buffer[80]);

/**
 * Read a map into `to`. `where` names it in messages ("loader", "output 'x'"). Every key must be in the table; null counts as absent.
 */
fby_status fby__read_map(const fby__reading *r, const fby_node *map, const char *where, const fby__key *keys, void *to);
/** One value as a table's key says. */
fby_status fby__read_value(const fby__reading *r, const fby_node *node, const char *where, const fby__key *key, void *to);

void *fby__reading_alloc(const fby__reading *r, size_t n, size_t size); /* zeroed; NULL with the error set */
const char *fby__read_path(const fby__reading *r, const char *path);    /* joined with the base directory; NULL with the error set */
fby_status fby__read_texts(const fby__reading *r, const fby_node *node, const char *what, const char *const **out, size_t *out_n);
fby_status fby__read_doubles(const fby__reading *r, const fby_node *node, const char *what, const double **out, size_t *out_n);
fby_status fby__read_double(const fby__reading *r, const fby_node *node, const char *what, double *out);
fby_status fby__read_u64(const fby__reading *r, const fby_node *node, const char *what, uint64_t least, uint64_t most, uint64_t *out);
fby_status fby__read_choice(const fby__reading *r, const fby_node *node, const char *what, const char *const *choices, int *out);
/** A map of one key: [out] its key and value. `what` says what is expected. */
fby_status fby__read_single(const fby__reading *r, const fby_node *node, const char *what, const char **out_key,
                            const fby_node **out_value);

#endif
