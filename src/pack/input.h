/* What is packed, as blocks of rows that are read one after the other: a data set's, or those of a pipeline (input.c). Between the files of a pack. */
#ifndef FBY_PACK_INPUT_H
#define FBY_PACK_INPUT_H

#include "base/error.h"

#include <forebay/arrow.h>
#include <forebay/loader.h>

struct fby__pack;

/** What a loader gives, in place of rows: a row of the pack is a sample. */
typedef struct fby__pack_pipeline fby__pack_pipeline;

/** @given  outputs and samples are taken; borrowed until it is closed. FBY_E_UNSUPPORTED with the output: what another epoch would have otherwise. */
fby_status fby__pack_pipeline_open(fby_dataset *ds, const fby_loader_opts *given, fby__pack_pipeline **out, fby_error *err);
void fby__pack_pipeline_close(fby__pack_pipeline *l); /* NULL is fine */
/** The outputs as YAML, its hash, and the identity of the samples. Borrowed. */
const char *fby__pack_pipeline_text(const fby__pack_pipeline *l);
const char *fby__pack_pipeline_hash(const fby__pack_pipeline *l);
const char *fby__pack_pipeline_samples(const fby__pack_pipeline *l);
/** About so many bytes a sample takes: blocks are as large as is good for that, from now on. */
void fby__pack_pipeline_measured(fby__pack_pipeline *l, double sample_bytes);

uint64_t fby__pack_row_count(const struct fby__pack *p);
uint32_t fby__pack_block_count(const struct fby__pack *p);
/** The first row of a block; of their number, where the last one ends. */
uint64_t fby__pack_block_begin(const struct fby__pack *p, uint32_t block);
uint32_t fby__pack_block_of(const struct fby__pack *p, uint64_t row);
/** The block of the data set that a row, or a sample's first row, lies in. */
uint32_t fby__pack_source_block_of(const struct fby__pack *p, uint64_t row);

/** One thread at a time. */
typedef struct fby__pack_reader fby__pack_reader;

/** memory_bytes: what reading may hold, beside what it has handed over. FBY_E_BUDGET: with the memory of the pack that would do. */
fby_status fby__pack_reader_open(const struct fby__pack *p, uint64_t memory_bytes, fby__pack_reader **out, fby_error *err);
/** Reads n columns of a data set, in file order, with memory that is the reader's alone. The names are borrowed for the call. */
fby_status fby__pack_reader_open_rows(fby_dataset *ds, const char *const *columns, size_t n, uint64_t memory_bytes, fby__pack_reader **out,
                                      fby_error *err);
void fby__pack_reader_close(fby__pack_reader *r); /* NULL is fine */
const struct ArrowSchema *fby__pack_reader_schema(const fby__pack_reader *r);
/** A struct array, the caller's. */
fby_status fby__pack_reader_block(fby__pack_reader *r, uint32_t block, struct ArrowArray *out, fby_error *err);
/** The memory of the pack that would do, as far as that is known. */
uint64_t fby__pack_reader_enough(const fby__pack_reader *r);
/** Did the block fail for want of memory? With more of it, it would have been read. */
bool fby__pack_reader_lacks_room(const fby__pack_reader *r);

#endif
