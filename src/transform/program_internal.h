/* A program's steps: what program.c makes and run.c runs. */
#ifndef FBY_TRANSFORM_PROGRAM_INTERNAL_H
#define FBY_TRANSFORM_PROGRAM_INTERNAL_H

#include "transform/transform.h"

typedef enum fby__step_kind {
    FBY__STEP_AFFINE,       /* (x − p0) · p1 + p2 */
    FBY__STEP_CLIP,         /* to [p0, p1] */
    FBY__STEP_FILL_NAN,     /* p0 where x is NaN */
    FBY__STEP_FILL_MISSING, /* p0 where x was NaN before the first step */
    FBY__STEP_LOG,
    FBY__STEP_LOG10,
    FBY__STEP_LOG1P
} fby__step_kind;

#define FBY__STEP_PARAMS 3u
#define FBY__MAX_STEPS (2u * FBY_MAX_OPS) /* a logarithm with a floor is a clip and a logarithm */

typedef struct fby__op_step {
    fby__step_kind kind;
    bool uniform;                    /* the same parameters for every column */
    double *param[FBY__STEP_PARAMS]; /* n_columns each; into the program's own memory; NULL where the kind has none */
} fby__op_step;

struct fby__program {
    uint32_t n_columns, n_steps;
    bool looks_back; /* a step asks what was missing before the first */
    fby__op_step steps[FBY__MAX_STEPS];
    bool *narrow_int, *narrow_float; /* n_columns: may integers, floats wait as float32? */
    double *params;                  /* owned, with the flags behind: all that is n_columns long */
};

static inline uint32_t fby__step_params(fby__step_kind kind)
{
    static const uint8_t N[] = {[FBY__STEP_AFFINE] = 3, [FBY__STEP_CLIP] = 2, [FBY__STEP_FILL_NAN] = 1, [FBY__STEP_FILL_MISSING] = 1};
    return kind <= FBY__STEP_FILL_MISSING ? N[kind] : 0;
}

#endif
