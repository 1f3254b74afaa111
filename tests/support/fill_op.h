/* The operation that most tests of outputs need. */
#ifndef FBY_TESTS_FILL_OP_H
#define FBY_TESTS_FILL_OP_H

#include <forebay/transform.h>

/** A list of one operation: missing values become `value`. It lives as long as the block that it is written in. */
#define FILL(value) (&(const fby_op){.kind = FBY_OP_FILL_MISSING, .a = (value)})

#endif
