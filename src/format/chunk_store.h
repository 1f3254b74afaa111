/*
 * Decoded chunks that several blocks share: an HDF5 data set's chunk may hold rows of many blocks (labels in chunks of 100,000
 * rows beside features in chunks of 1,000), and is to be decoded once, not once a block.
 *
 * A store belongs to one loader or one export. It keeps at most `limit` bytes, and what its account has room for; what nobody refers to goes
 * first, longest unused first. One thread fills a chunk, under no lock, for it may read; a second block that needs the chunk waits until it has.
 */
#ifndef FBY_FORMAT_CHUNK_STORE_H
#define FBY_FORMAT_CHUNK_STORE_H

#include "budget/budget.h"

typedef struct fby__chunk_store fby__chunk_store;
typedef struct fby__shared_chunk fby__shared_chunk;

/** @account  pays for each chunk while it is kept; borrowed. NULL: all bytes are paid for already */
fby_status fby__chunk_store_create(size_t limit_bytes, fby__account *account, fby__chunk_store **out, fby_error *err);
void fby__chunk_store_destroy(fby__chunk_store *store); /* NULL is fine; nobody refers to a chunk any more */

/** What a chunk of so many decoded bytes counts: as it is allocated, with what is known of it. */
size_t fby__chunk_store_bytes(size_t bytes);
/**
 * A reference to a chunk of so many decoded bytes, filled or not. NULL when there is no room beside the chunks in use, or no memory:
 * decode it for yourself alone, then.
 */
fby__shared_chunk *fby__chunk_store_get(fby__chunk_store *store, uint64_t file_key, uint32_t leaf, uint64_t number, size_t bytes);
void fby__shared_chunk_unref(fby__shared_chunk *chunk); /* NULL is fine */

/** Is it filled? Once true, always true. */
bool fby__shared_chunk_ready(const fby__shared_chunk *chunk);

/**
 * Begin to use it. True: it is empty and the caller fills all of fby__shared_chunk_data, then calls fby__shared_chunk_filled.
 * False: it is filled. Blocks while another thread fills it.
 */
bool fby__shared_chunk_begin(fby__shared_chunk *chunk);
void fby__shared_chunk_filled(fby__shared_chunk *chunk, bool ok); /* not ok: stays empty, the next one tries */
uint8_t *fby__shared_chunk_data(fby__shared_chunk *chunk);

#endif
