/* UTF-8, checked byte by byte but for runs of ASCII, which most text is. */
#include "base/utf8.h"

#define RUN 64u

/* A loop that compilers vectorise. */
static bool is_ascii(const uint8_t *s)
{
    uint8_t all = 0;
    for (size_t i = 0; i < RUN; i++)
        all |= s[i];
    return all < 0x80;
}

bool fby__utf8_valid(const uint8_t *s, size_t n)
{
    const uint8_t *end = s + n;
    while (s < end) {
        if (end - s >= (ptrdiff_t)RUN && is_ascii(s))
            s += RUN;
        else if (fby__utf8_next(&s, end) < 0)
            return false;
    }
    return true;
}

bool fby__utf8_all_valid(const uint8_t *data, const int64_t *offsets, uint64_t n)
{
    bool good = fby__utf8_valid(data + offsets[0], (size_t)(offsets[n] - offsets[0]));
    for (uint64_t i = 1; i < n && good; i++) /* all together are: then each is that begins with a character */
        good = offsets[i] == offsets[n] || (data[offsets[i]] & 0xc0) != 0x80;
    return good;
}
