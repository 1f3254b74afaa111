/* Is text UTF-8? */
#ifndef FBY_BASE_UTF8_H
#define FBY_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. NUL is a character. ASCII goes at the speed of memory. */
bool fby__utf8_valid(const uint8_t *s, size_t n);

#endif
