/* Inside src/codec only: the vtable that each filter's file fills, and what the files share. */
#ifndef FBY_CODEC_FILTER_IMPL_H
#define FBY_CODEC_FILTER_IMPL_H

#include "codec/filter.h"

/* Indices in fby__filter_state.ctx. */
enum { FBY__FILTER_CTX_DEFLATE };

typedef struct fby__filter_ops {
    const char *name;
    /* FBY_E_UNSUPPORTED or FBY_E_FORMAT, with a message that need not name the filter. NULL: no parameter matters. */
    fby_status (*check)(const fby__filter *filter, fby_error *err);
    /* Does the filter make exactly as many bytes as it is given? NULL: no. */
    bool (*keeps_size)(const fby__filter *filter);
    bool uses_inside; /* undo needs a buffer of its own, state->inside, as large as the chunk at most */
    /*
     * Undo the filter into at most cap bytes, with src.n > 0 and dst never NULL; *out_n = bytes made. When they do not fit: FBY_OK
     * and *out_n > cap, which is what the stream states, or cap + 1 where it does not say. Errors need not name the filter.
     */
    fby_status (*undo)(fby__filter_state *state, const fby__filter *filter, fby__bytes src, uint8_t *dst, size_t cap, size_t *out_n,
                       fby_error *err);
} fby__filter_ops;

extern const fby__filter_ops fby__filter_deflate;
extern const fby__filter_ops fby__filter_shuffle;
extern const fby__filter_ops fby__filter_szip;
extern const fby__filter_ops fby__filter_lzf;
extern const fby__filter_ops fby__filter_blosc;
extern const fby__filter_ops fby__filter_lz4;
extern const fby__filter_ops fby__filter_bitshuffle;
extern const fby__filter_ops fby__filter_zstd;

void fby__filter_deflate_destroy(void *ctx);

/** At least n bytes in a scratch buffer; what was in it is lost. */
fby_status fby__filter_room(fby__buf *buf, size_t n, fby_error *err);

/** The four bytes that fletcher32 puts after the data: do they belong to it? n without them. */
bool fby__fletcher32_fits(const uint8_t *data, size_t n, uint32_t stored);

/**
 * One block of bitshuffle: src holds 8 * element_bytes rows of count / 8 bytes, row 8 * j + k the bits k of the bytes j of all
 * elements. count is a multiple of 8.
 */
void fby__bit_unshuffle(const uint8_t *src, uint8_t *dst, size_t count, size_t element_bytes, bool streaming);

#endif
