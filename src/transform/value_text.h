/* Values as the text that pandas' astype(str) makes of them; n-grams are cut from it. */
#ifndef FBY_TRANSFORM_VALUE_TEXT_H
#define FBY_TRANSFORM_VALUE_TEXT_H

#include <forebay/schema.h>

enum { FBY__VALUE_TEXT_BYTES = 64 }; /* room for any value; no NUL is written */

/** Can scalars of this kind be written as astype(str) does? Bools, numbers, dates and timestamps can; strings cannot. */
bool fby__value_has_text(const fby_field *field);

/**
 * Write one value of `dtype`: the field's own or, for computed values, a float dtype. Returns the number of bytes.
 *
 *   integers    digits
 *   floats      the shortest digits that mean this value and no other of its dtype: float64 as Python's repr ("1.0", "1e+16", "nan"),
 *               float32 and float16 as NumPy ≥ 2.4 writes its scalars, with an exponent from 1e6 and 1e3 on
 *   bools       "True", "False"
 *   dates       "2001-02-03"
 *   timestamps  "2001-02-03" at midnight, else "2001-02-03 04:05:06" and 3, 6 or 9 more digits of the second where needed; one in UTC
 *               always has its time, and "+00:00" at the end. (pandas writes as many digits in every value as the column's longest takes)
 */
size_t fby__value_write(const fby_field *field, fby_dtype dtype, const void *value, uint8_t out[FBY__VALUE_TEXT_BYTES]);

/** What astype(str) makes of a missing value of this kind: "nan", "NaT", "None" or "<NA>". Static. */
const char *fby__value_missing_text(const fby_field *field, bool computed);

#endif
