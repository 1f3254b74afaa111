/* Inside what is done to values in a batch: one file a kind. */
#ifndef FBY_TRANSFORM_AFTER_INTERNAL_H
#define FBY_TRANSFORM_AFTER_INTERNAL_H

#include "transform/transform.h"

#define FBY__MAX_MASKS 32u         /* of one SpecAugment */
#define FBY__SMALL_RESULT 2048u    /* bytes: up to it, comparing every element is cheaper than guessing where a mask begins */
#define FBY__MAX_LINE 64u          /* bytes: the most of a line_bytes */
#define FBY__MASK_LANES 32u        /* samples whose masks are drawn side by side */
#define FBY__MASKS_AT_ONCE 4u      /* of so many samples */
#define FBY__MAX_PLACES (1u << 24) /* of one number: widths times places of an axis; more take two, so that all are alike to 2^-8 */
#define FBY__MAX_CYCLE_LINES 8u    /* of an n_lines; a power of two */

/** Where masks of one axis go: a result is outer × size × inner elements, a mask `outer` runs of its width × inner elements. */
typedef struct fby__mask_axis {
    uint32_t n, max_width, size; /* n = 0: none, and nothing else holds */
    size_t outer, run_bytes;     /* run_bytes: of one place of the axis */
    uint32_t n_lines;            /* all places fill so many times 64 bytes, or 64 bytes hold them some times: 1; else 0 */
    uint64_t repeat;             /* all places fill 64 bytes a whole number of times: a bit where each time begins; else 0 */
} fby__mask_axis;

/** Masks over one result. */
typedef struct fby__spec_augment {
    fby__mask_axis axis[2]; /* time, frequency */
    uint8_t pattern[16];    /* the value, repeated */
    uint64_t seed, purpose;
    uint32_t n_numbers; /* 1 or 2: of 32 bits, that a mask takes */
    fby_dtype dtype;
    size_t element_bytes, result_bytes;
    uint32_t inner;                       /* which axis' places follow one another closer */
    size_t line_bytes;                    /* all places of that axis, where results are masked by such lines; else 0 */
    bool is_small;                        /* compared element by element */
    uint8_t places[2][FBY__SMALL_RESULT]; /* is_small: of each element, its place on the time and the frequency axis */
} fby__spec_augment;

/** Where an epoch's draws of one or two masks come from: fby__philox2x32(key, sample ^ scatter). */
typedef struct fby__mask_stream {
    uint32_t key;
    uint64_t scatter;
} fby__mask_stream;

/** Check a SpecAugment against results of `made`. FBY_E_ARG naming the output. */
fby_status fby__spec_augment_init(fby__spec_augment *s, const fby_after_spec_augment *asked, const char *output, const fby__made *made,
                                  uint64_t seed, uint64_t purpose, fby_error *err);

/** n results from dst on. */
void fby__spec_augment_run(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch);
/** Are rows of that dtype masked on their way to a batch sooner than there? */
bool fby__spec_augment_gathers(const fby__spec_augment *s, fby_dtype stored);
/** If so: the rows at row[0 … n) + offset to dst, converted as fby__convert does and masked as fby__spec_augment_run does. */
void fby__spec_augment_gather(const fby__spec_augment *s, uint8_t *dst, fby_dtype stored, const uint8_t *const *row, size_t offset,
                              uint64_t n, const uint64_t *id, uint64_t epoch);

/** How many masks of a sample one draw of two numbers is for. */
static inline uint32_t fby__masks_a_draw(const fby__spec_augment *s) { return 2 / s->n_numbers; }

/* ---- after_spec_augment_avx512.c; `streams` from the first mask's on. Only where fby__cpu_has_avx512 ---- */

/** Where results come from that are masked on their way: n rows, the first of them next. `ahead`: how far they are fetched. */
typedef struct fby__rows_left {
    const uint8_t *const *row;
    size_t n, ahead, offset;
    fby_dtype stored;
} fby__rows_left;

/** Masks k to k + n_masks, at most FBY__MASKS_AT_ONCE, of n ≤ FBY__MASK_LANES results; `id` has FBY__MASK_LANES. */
void fby__masks_run_avx512(const fby__spec_augment *s, uint32_t k, uint32_t n_masks, const fby__mask_stream *streams, const uint64_t *id,
                           uint8_t *dst, uint32_t n);
/** Is there a loop for rows of that dtype? */
bool fby__masks_convert_avx512(const fby__spec_augment *s, fby_dtype stored);
/** The first n of the rows to dst, and the first n_masks masks of them. */
void fby__masks_gather_avx512(const fby__spec_augment *s, uint32_t n_masks, const fby__mask_stream *streams, const uint64_t *id,
                              uint8_t *dst, const fby__rows_left *rows, size_t n);
/** `n` runs of `bytes` of the pattern, `stride` apart. after_spec_augment.c */
void fby__masks_fill_runs(uint8_t *at, size_t n, size_t stride, size_t bytes, const uint8_t *pattern);

#endif
