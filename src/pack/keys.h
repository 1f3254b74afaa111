/*
 * A pack by a key: each value has files of its own, one value after the other. Between the files of a pack.
 *
 *     rows, file order      a a b a c c b …            a value's rows keep their number among themselves: its first, its second, …
 *     destinations          a a a │ b b │ c c          values by the names of their files; in each, π of that number
 *     files                 part-a-00000, part-a-00001, part-b-00000 …
 *
 *   1. A row goes to first_row[value] + π(number), where π is that of a pack of as many rows whose seed is the pack's, exclusive-or the low
 *      half of the hash of the value's text; without a shuffle, the number. So the rows of a value depend on them and the seed alone.
 *   2. A name is the value's text; bytes that are no letter, digit, underscore or point are %XX. No name has '-', so that files sorted by
 *      their names come in the order of the rows.
 *   3. The plan's file keeps what one pass over the key has found (fby__pack_keys_put): values, rows of each, and how many of these lie
 *      before each scatter task. Others need not read the key of what is not theirs.
 */
#ifndef FBY_PACK_KEYS_H
#define FBY_PACK_KEYS_H

#include "base/bytes.h"
#include "base/error.h"

#include <forebay/arrow.h>

struct fby__pack;

#define FBY__PACK_KEYS 65536u                    /* values of a key, at most */
#define FBY__PACK_KEY_COUNTS ((uint64_t)4 << 20) /* values × scatter tasks, at most: there are fewer tasks then */
#define FBY__PACK_KEY_NAME 200u                  /* bytes of a name */

typedef struct fby__pack_key {
    char *text, *name; /* owned: the value, and as files are called */
    uint64_t rows, first_row, first_file;
    uint64_t seed; /* of its permutation: fby__plan_full_key */
} fby__pack_key;

typedef struct fby__pack_keys {
    int64_t column;      /* of the schema */
    fby__pack_key *keys; /* owned: n, in the order of their files */
    uint32_t n;
    uint64_t *begin; /* owned: n_cuts × n: rows of the value before the cut */
    uint32_t n_cuts;
    uint32_t *slots; /* owned: values by the hash of their text; 0 = none, else the value + 1 */
    uint32_t n_slots;
} fby__pack_keys;

/**
 * The values of the key p->o->by, from the plan if there is one of this source, else by a pass over it, with counts for p->cuts.n tasks,
 * a power of two, or fewer. Then p->keys is set, and p->cuts.n as it counts. FBY_E_SCHEMA (no such column), FBY_E_UNSUPPORTED (its type;
 * a value too long; too many), FBY_E_DATA (a null).
 */
fby_status fby__pack_keys_find(struct fby__pack *p, fby_error *err);
/** What the plan's file has behind its text. */
fby_status fby__pack_keys_put(const struct fby__pack *p, fby__buf *out, fby_error *err);
/** Taken over from there: of another source, or damaged, *out_ok is false. */
fby_status fby__pack_keys_read(struct fby__pack *p, fby__bytes from, bool *out_ok, fby_error *err);
void fby__pack_keys_free(fby__pack_keys *keys); /* NULL is fine */

/** Where n rows go. next: of each value, how many of its rows came before; counted on. */
fby_status fby__pack_keys_destinations(const struct fby__pack *p, const struct ArrowArray *rows, uint64_t *next, uint64_t *out,
                                       fby_error *err);
/** The value whose files hold file `file`; the last one whose destinations begin at or before one. */
const fby__pack_key *fby__pack_key_of_file(const fby__pack_keys *keys, uint64_t file);
const fby__pack_key *fby__pack_key_of_row(const fby__pack_keys *keys, uint64_t destination);

#endif
