/* Blocks of a data set as Arrow arrays, one after the other or as asked for: what the Arrow stream is made of, and what packs read. */
#ifndef FBY_READ_ARROW_H
#define FBY_READ_ARROW_H

#include "budget/allowance.h"
#include "dataset/dataset.h"

/** One thread at a time; nothing waits in it between two calls. */
typedef struct fby__arrow_reader fby__arrow_reader;

/**
 * @columns       n names of top-level columns; NULL: all.
 * @memory_bytes  what reading may hold, beside what it has handed over; 0 = as the data set was opened.
 *
 * FBY_E_SCHEMA (no such column; types of files that do not join), FBY_E_NOMEM.
 */
fby_status fby__arrow_reader_open(fby_dataset *ds, const char *const *columns, size_t n, uint64_t memory_bytes, fby__arrow_reader **out,
                                  fby_error *err);
/** The schema of every block. Borrowed. */
const struct ArrowSchema *fby__arrow_reader_schema(const fby__arrow_reader *reader);
/** A struct array, the caller's. Blocks on I/O and decoding. */
fby_status fby__arrow_reader_block(fby__arrow_reader *reader, uint32_t block, struct ArrowArray *out, fby_error *err);
void fby__arrow_reader_set_giver(fby__arrow_reader *reader, fby__memory_giver giver);
/** What a message would name, as far as metadata say. */
uint64_t fby__arrow_reader_enough(fby__arrow_reader *reader);
/** Did the block fail for want of memory? With more of it, it would have been read. */
bool fby__arrow_reader_lacks_room(const fby__arrow_reader *reader);
void fby__arrow_reader_close(fby__arrow_reader *reader); /* NULL is fine */

#endif
