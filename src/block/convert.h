/*
 * Conversion of values from the type a file stores to the dtype a panel holds.
 *
 * Rules, the same for every format:
 *   int → int     exact, or FBY_E_DATA (out of range); never wraps
 *   int → float   nearest; bool as 0/1
 *   float → float nearest even; a finite value that would become infinite is FBY_E_DATA, infinities and NaN are kept; float16 and
 *                 bfloat16 included, from integers too
 *   float → int   truncated toward zero as C does; NaN, infinities and values out of range are FBY_E_DATA
 *   any → bool    0 and 1 only, else FBY_E_DATA
 * A source may carry a multiplier: value * mul / div in 64-bit integers (time units), checked for overflow, division floors;
 * or pow10: integer * 10^-pow10 as a double (decimals).
 */
#ifndef FBY_BLOCK_CONVERT_H
#define FBY_BLOCK_CONVERT_H

#include "base/error.h"

#include <float.h>

typedef struct fby__scale {
    int64_t mul, div; /* 1, 1 = none; only for integer sources */
    int32_t pow10;    /* decimals: 0 = none; only for integer sources to float dtypes */
} fby__scale;

#define FBY__SCALE_NONE ((fby__scale){1, 1, 0})

/**
 * Convert n values. src and dst do not overlap (src may equal dst when the dtypes are equal and there is no scale).
 * On FBY_E_DATA *out_bad is the index of the first value that does not fit; the caller names column and row.
 * err is filled by the caller, not here: this is the hot loop. A float that does not fit is infinite in dst.
 */
fby_status fby__convert(fby_dtype dst_dtype, void *dst, fby_dtype src_dtype, const void *src, size_t n, fby__scale scale, size_t *out_bad);

/** One value as text, for messages and `head`: at most n bytes with NUL. */
size_t fby__value_text(fby_dtype dtype, const void *value, char *out, size_t n);
/** What to do about a value, given as that text, that does not fit `to`: the end of a message. Static. */
const char *fby__value_advice(const char *text, fby_dtype to);

/* Is a double finite, and so large that it would become an infinite float: nearer to what would follow FLT_MAX than to FLT_MAX itself? */
#define FBY__OVERFLOWS_FLOAT(v) (FBY__BEYOND_FLOAT(v) & (__builtin_fabs(v) <= DBL_MAX))
/* The same, but true of infinity too: all that a loop has to look for, as long as it finds none. */
#define FBY__BEYOND_FLOAT(v) (__builtin_fabs(v) >= 0x1.ffffffp127)

float fby__float16_to_float(uint16_t h);
uint16_t fby__float_to_float16(float f); /* nearest even */
float fby__bfloat16_to_float(uint16_t b);
uint16_t fby__float_to_bfloat16(float f); /* nearest even, NaN stays NaN */

/**
 * Interleave columns into rows: dst row r, column c at dst + r*dst_stride + c*elem_bytes, from cols[c][r].
 * elem_bytes 1, 2, 4 or 8. The heart of dense decoding: called on tiles that fit the L1 cache.
 */
void fby__interleave(uint8_t *dst, size_t dst_stride, const void *const *cols, size_t n_cols, size_t n_rows, size_t elem_bytes);

#endif
