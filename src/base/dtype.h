/* Questions about dtypes that several modules ask. Names and sizes are public: <forebay/base.h>. */
#ifndef FBY_BASE_DTYPE_H
#define FBY_BASE_DTYPE_H

#include <forebay/base.h>

static inline bool fby__dtype_is_float(fby_dtype d)
{
    return d == FBY_FLOAT16 || d == FBY_BFLOAT16 || d == FBY_FLOAT32 || d == FBY_FLOAT64;
}
static inline bool fby__dtype_is_signed(fby_dtype d) { return d >= FBY_INT8 && d <= FBY_INT64; }     /* integers; bool is not one */
static inline bool fby__dtype_is_unsigned(fby_dtype d) { return d >= FBY_UINT8 && d <= FBY_UINT64; } /* the same */

#endif
