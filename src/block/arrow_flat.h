/*
 * Arrow arrays as a list of buffers that begin at 0: what record batches hold, in the order that Arrow IPC gives them (depth first; of each
 * array its validity, then its other buffers), and the way back.
 *
 * Types are those of the reader's Arrow sink (block/arrow.c) and their 32-bit counterparts: no views, no dictionaries.
 */
#ifndef FBY_BLOCK_ARROW_FLAT_H
#define FBY_BLOCK_ARROW_FLAT_H

#include "base/arena.h"
#include "base/bytes.h"
#include "block/arrow_format.h"

typedef struct fby__arrow_flat_node {
    uint64_t n, nulls;
} fby__arrow_flat_node;

/** Zero-initialise; used again and again; fby__arrow_flat_fini. */
typedef struct fby__arrow_flat {
    fby__arrow_flat_node *nodes; /* owned */
    fby__bytes *buffers;         /* owned; what they point to is the array's or the arena's. Without nulls, the validity has no bytes */
    size_t n_nodes, cap_nodes, n_buffers, cap_buffers;
    fby__arena made; /* what had to be shifted or counted anew */
} fby__arrow_flat;

/** FBY_E_UNSUPPORTED with column and type, of a struct's children and all below them. */
fby_status fby__arrow_flat_check(const struct ArrowSchema *schema, fby_error *err);
/** Rows [begin, begin + n) of an array that was checked: the array itself is a node too, but for the struct of a record batch (is_batch). */
fby_status fby__arrow_flat_of(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t begin, int64_t n, bool is_batch,
                              fby__arrow_flat *out, fby_error *err);
uint64_t fby__arrow_flat_bytes(const fby__arrow_flat *flat); /* of all buffers */
void fby__arrow_flat_fini(fby__arrow_flat *flat);

/**
 * A record batch over buffers that lie in memory, aligned to 8 bytes: nodes and buffers as fby__arrow_flat_of listed them. The array owns nothing
 * that it points to. FBY_E_FORMAT: they are not as it lists any, so that using the array would lead beyond them. Values are not looked at.
 */
fby_status fby__arrow_flat_batch(const struct ArrowSchema *schema, uint64_t rows, const fby__arrow_flat_node *nodes, size_t n_nodes,
                                 const fby__bytes *buffers, size_t n_buffers, struct ArrowArray *out, fby_error *err);

/** Bit i of a validity, or of booleans. */
static inline bool fby__bit(const void *bits, uint64_t i) { return ((const uint8_t *)bits)[i / 8] >> i % 8 & 1; }
/** The bits, in the lowest `width` bytes, of the NaN that a null is where a format has no nulls: what NumPy calls NaN. */
static inline uint64_t fby__arrow_null_as_nan(uint32_t width)
{
    return width == 2 ? 0x7E00 : width == 4 ? 0x7FC00000 : UINT64_C(0x7FF8000000000000);
}
/** Text or bytes i, counted from the array's buffers' beginning, of 64-bit offsets (`wide`) or 32-bit ones. data is never NULL. */
static inline fby__bytes fby__text_at(const struct ArrowArray *array, bool wide, uint64_t i)
{
    const void *offsets = array->buffers[1];
    const int64_t begin = wide ? ((const int64_t *)offsets)[i] : ((const int32_t *)offsets)[i];
    const int64_t end = wide ? ((const int64_t *)offsets)[i + 1] : ((const int32_t *)offsets)[i + 1];
    return begin == end ? (fby__bytes){(const uint8_t *)"", 0}
                        : (fby__bytes){(const uint8_t *)array->buffers[2] + begin, (size_t)(end - begin)};
}
/** Set bits among n from `begin` on. */
uint64_t fby__bits_count(const uint8_t *bits, uint64_t begin, uint64_t n);
/** Copy n bits; out's others in its last byte become 0 where out_begin = 0. Bits from out_begin on are 0 before. */
void fby__bits_copy(const uint8_t *bits, uint64_t begin, uint64_t n, uint8_t *out, uint64_t out_begin);

#endif
