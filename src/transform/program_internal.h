/* A program's passes: what program.c makes and run.c runs. */
#ifndef FBY_TRANSFORM_PROGRAM_INTERNAL_H
#define FBY_TRANSFORM_PROGRAM_INTERNAL_H

#include "transform/transform.h"

typedef enum fby__pass_kind {
    FBY__PASS_AFFINE,       /* (x − p0) · p1 + p2 */
    FBY__PASS_CLIP,         /* to [p0, p1] */
    FBY__PASS_FILL_NAN,     /* p0 where x is NaN */
    FBY__PASS_FILL_MISSING, /* p0 where x was NaN before the first pass */
    FBY__PASS_LOG,
    FBY__PASS_LOG10,
    FBY__PASS_LOG1P
} fby__pass_kind;

#define FBY__PASS_PARAMS 3u
#define FBY__MAX_PASSES (2u * FBY_MAX_OPS) /* a logarithm with a floor is a clip and a logarithm */

typedef struct fby__pass {
    fby__pass_kind kind;
    bool uniform;                    /* the same parameters for every column and place */
    uint32_t n_places;               /* on an axis; 1: the same parameters for all elements of a column */
    uint32_t inner;                  /* elements at one position of that axis */
    double *param[FBY__PASS_PARAMS]; /* n_columns × n_places each; into the program's own memory; NULL where the kind has none */
} fby__pass;

struct fby__program {
    uint32_t n_columns, n_passes;
    bool looks_back; /* a pass asks what was missing before the first */
    fby__pass passes[FBY__MAX_PASSES];
    bool *narrow_int, *narrow_float; /* n_columns each: may integers, may floats wait as float32? */
    double *params;                  /* owned; the flags lie behind it in the same allocation */
};

/** Where a pass has the parameter of element `e` of a row's columns of `width` elements, from `column` on. */
static inline size_t fby__pass_param_at(const fby__pass *s, uint32_t column, uint32_t width, uint32_t e)
{
    return (size_t)(column + e / width) * s->n_places + e % width / s->inner % s->n_places;
}

static inline uint32_t fby__pass_params(fby__pass_kind kind)
{
    static const uint8_t N[] = {[FBY__PASS_AFFINE] = 3, [FBY__PASS_CLIP] = 2, [FBY__PASS_FILL_NAN] = 1, [FBY__PASS_FILL_MISSING] = 1};
    return kind <= FBY__PASS_FILL_MISSING ? N[kind] : 0;
}

#endif
