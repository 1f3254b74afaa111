/* Inside what is done to values in a batch: one file a kind. */
#ifndef FBY_TRANSFORM_AFTER_INTERNAL_H
#define FBY_TRANSFORM_AFTER_INTERNAL_H

#include "transform/transform.h"

#define FBY__SMALL_RESULT 2048u /* bytes: up to it, comparing every element is cheaper than guessing where a mask begins */

/** Where masks of one axis go: a result is outer × size × inner_bytes. */
typedef struct fby__mask_axis {
    uint32_t n, max_width, size; /* n = 0: no masks, and nothing else holds */
    size_t outer, inner_bytes;
} fby__mask_axis;

/** Masks over results of one shape. */
typedef struct fby__spec_augment {
    fby__mask_axis axis[2]; /* time, frequency */
    uint8_t pattern[16];    /* the value, repeated */
    uint64_t seed, purpose;
    uint32_t masks_a_draw; /* 2, or 1 where one number of 32 bits has too few values for all widths and positions */
    size_t element_bytes, result_bytes;
    bool is_small;                           /* compared element by element */
    uint8_t positions[2][FBY__SMALL_RESULT]; /* is_small: each element's position on the time and the frequency axis */
} fby__spec_augment;

/** Check a SpecAugment against results of `made`. FBY_E_ARG naming the output. */
fby_status fby__spec_augment_init(fby__spec_augment *s, const fby_after_spec_augment *asked, const char *output, const fby__made *made,
                                  uint64_t seed, uint64_t purpose, fby_error *err);

/** n results from dst on. */
void fby__spec_augment_run(const fby__spec_augment *s, uint8_t *dst, uint64_t n, const uint64_t *id, uint64_t epoch);

#endif
