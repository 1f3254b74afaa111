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
    for (size_t i = 0; i < n;) {
        if (n - i >= RUN && is_ascii(s + i)) {
            i += RUN;
            continue;
        }
        uint8_t c = s[i++];
        if (c < 0x80)
            continue;
        unsigned more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4 || more > n - i)
            return false;
        uint8_t d = s[i];
        if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f))
            return false;
        for (unsigned k = 0; k < more; k++)
            if ((s[i + k] & 0xc0) != 0x80)
                return false;
        i += more;
    }
    return true;
}
