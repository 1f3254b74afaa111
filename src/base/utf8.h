/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. NUL is a character. */
#ifndef FBY_BASE_UTF8_H
#define FBY_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The character at *p, which moves behind it; -1 for a byte that begins none, which is passed alone. *p < end. */
static inline int32_t fby__utf8_next(const uint8_t **p, const uint8_t *end)
{
    const uint8_t *s = *p;
    const uint8_t first = *s++;
    int more = first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : -1;
    *p = s;
    if (more == 0)
        return first;
    if (more < 0 || end - s < more)
        return -1;
    int32_t code = first & (0x3f >> more);
    for (int i = 0; i < more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return -1;
        code = code << 6 | (s[i] & 0x3f);
    }
    if ((more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) || (more == 3 && (code < 0x10000 || code > 0x10ffff)))
        return -1;
    *p = s + more;
    return code;
}

/** Is all of it? ASCII goes at the speed of memory. */
bool fby__utf8_valid(const uint8_t *s, size_t n);

/** Is each of n strings, from data + offsets[i] to data + offsets[i + 1]? */
bool fby__utf8_all_valid(const uint8_t *data, const int64_t *offsets, uint64_t n);

#endif
