/* Values as the text that pandas' astype(str) makes of them: what n-grams are cut from. */
#ifndef FBY_TRANSFORM_VALUE_TEXT_H
#define FBY_TRANSFORM_VALUE_TEXT_H

#include <forebay/schema.h>

enum { FBY__VALUE_TEXT_BYTES = 64 }; /* room for any value; no NUL is written */

/** Has astype(str) of scalars of this kind a form that is written here? Bools, numbers, dates and timestamps; no strings. */
bool fby__value_has_text(const fby_field *field);

/**
 * Write one value of `dtype`, which is the field's own or, of computed values, a float dtype. Returns the bytes.
 *
 *   integers    digits
 *   floats      the shortest digits that mean this value and no other of its dtype: float64 as Python's repr ("1.0", "1e+16", "nan"),
 *               float32 and float16 as NumPy ≥ 2.4 writes its scalars, with an exponent from 1e6 and 1e3 on
 *   bools       "True", "False"
 *   dates       "2001-02-03"
 *   timestamps  "2001-02-03" at midnight, else "2001-02-03 04:05:06" and as many of 3, 6 or 9 digits of the second as it takes; "+00:00"
 *               at the end of one in UTC, which always has its time. pandas writes what the column's longest value takes in all of them
 */
size_t fby__value_write(const fby_field *field, fby_dtype dtype, const void *value, uint8_t out[FBY__VALUE_TEXT_BYTES]);

/** What astype(str) makes of a missing value of this kind: "nan", "NaT", "None" or "<NA>". Static. */
const char *fby__value_missing_text(const fby_field *field, bool computed);

#endif
