/*
 * HDF5 filters: undoing what was done to a chunk before it was stored. One file a filter (filter_*.c), as with codecs.
 *
 * A chunk passes its filters in order when it is written; they are undone in reverse. Sizes come from the file, which lies: a
 * pipeline must end with exactly the size asked for, and a filter in the middle may not need more than FBY__FILTER_MAX_BYTES, nor
 * more than 8 times that size and 64 KiB: no encoder of a later filter swells its input that much.
 * Bytes after the end of a whole stream are ignored, as libhdf5 and its plugins do.
 */
#ifndef FBY_CODEC_FILTER_H
#define FBY_CODEC_FILTER_H

#include "codec/codec.h"

/* Numbers as registered with The HDF Group. */
enum {
    FBY__FILTER_DEFLATE = 1,
    FBY__FILTER_SHUFFLE = 2,
    FBY__FILTER_FLETCHER32 = 3,
    FBY__FILTER_SZIP = 4,
    FBY__FILTER_NBIT = 5,
    FBY__FILTER_SCALEOFFSET = 6,
    FBY__FILTER_LZF = 32000,
    FBY__FILTER_BLOSC = 32001,
    FBY__FILTER_LZ4 = 32004,
    FBY__FILTER_BITSHUFFLE = 32008,
    FBY__FILTER_ZFP = 32013,
    FBY__FILTER_ZSTD = 32015,
    FBY__FILTER_BLOSC2 = 32026
};

#define FBY__FILTER_MAX_BYTES ((size_t)4 << 30)

/** One filter with its client data, as the file states it. values is borrowed. */
typedef struct fby__filter {
    uint16_t id;
    bool optional;
    uint32_t n_values;
    const uint32_t *values;
} fby__filter;

/** Contexts and buffers. Zero-initialise; one thread. */
typedef struct fby__filter_state {
    fby__codec_state codec;
    fby__buf between[2];    /* what lies between two filters */
    fby__buf inside;        /* what a filter needs for itself */
    void *ctx[8];           /* by the filters' files */
    uint64_t decompress_ns; /* time in codecs is added to it */
    bool streaming;         /* the result is not read soon: where the last filter can, it writes past the caches */
} fby__filter_state;
void fby__filter_state_fini(fby__filter_state *state);
/** Bytes held now: the buffers, and the libraries' contexts by estimate. */
size_t fby__filter_state_bytes(const fby__filter_state *state);

/** "deflate", "blosc", …; NULL for an unknown number. Static. */
const char *fby__filter_name(uint16_t id);

/**
 * Can this pipeline be undone here? FBY_E_UNSUPPORTED names the filter and why (unknown number, parameters of another version,
 * blosc's inner codec missing, …). element_bytes: of the data type.
 */
fby_status fby__filters_check(const fby__filter *filters, uint32_t n, size_t element_bytes, fby_error *err);

/** Buffers of a chunk's size that undoing these filters takes, beside the stored bytes and the result itself; about, where sizes vary. */
uint32_t fby__filters_buffers(const fby__filter *filters, uint32_t n);

/**
 * Undo filters n−1 … 0 of a stored chunk into exactly dst_n bytes. Bit i of mask set: filter i was skipped for this chunk.
 * The last filter writes straight into dst; src is read only. No filter left: a copy. Filters need not have passed the check.
 * @verify  compare fletcher32 sums (always stripped).
 * FBY_OK; FBY_E_FORMAT (names filter and sizes; dst may be partly written, nothing beyond it); FBY_E_UNSUPPORTED; FBY_E_NOMEM.
 */
fby_status fby__filters_undo(fby__filter_state *state, const fby__filter *filters, uint32_t n, uint32_t mask, bool verify, fby__bytes src,
                             uint8_t *dst, size_t dst_n, fby_error *err);

/**
 * Byte-unshuffle: dst[i*element + k] = src[k*(n/element) + i]; the n % element bytes at the end stay as they are. SIMD inside.
 * @streaming  write past the caches, where dst and the size of elements allow it: the result is not read soon.
 */
void fby__unshuffle(const uint8_t *src, uint8_t *dst, size_t n, size_t element_bytes, bool streaming);

#endif
