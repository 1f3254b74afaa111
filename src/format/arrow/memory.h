/*
 * Record batches in the user's memory (Arrow C stream interface) as a table: a DataFrame gets the same loader as a
 * file.
 *
 * Groups are the batches as they come, empty ones left out. Nothing is read: locate gives empty ranges, and decoding
 * takes values from the producer's buffers, which live until the table is destroyed (arrays exported from it keep it
 * alive). What decodes them also decodes record batches that other formats make of a file (memory_column.h). There is
 * no file: open, freeze and thaw are FBY_E_UNSUPPORTED, and the format never bids for one.
 */
#ifndef FBY_FORMAT_ARROW_MEMORY_H
#define FBY_FORMAT_ARROW_MEMORY_H

#include "format/format.h"

extern const fby__format_ops fby__arrow_ops;

/**
 * Read a stream to its end and keep its batches.
 *
 * @stream  moved: released by this call, whatever it returns (stream->release is NULL after).
 * @out     [out] one reference.
 *
 * FBY_E_ARG (a stream of something else than record batches, released before, arrays that do not fit their schema);
 * FBY_E_UNSUPPORTED naming the column whose type has no counterpart; FBY_E_IO, or FBY_E_NOMEM for ENOMEM, with the
 * producer's message when the stream fails; FBY_E_NOMEM.
 * Threads: any. Blocks: as the producer's callbacks do.
 */
fby_status fby__arrow_table_create(struct ArrowArrayStream *stream, fby__table **out, fby_error *err);

#endif
