/*
 * Base64 (RFC 4648, section 4), decoded: three bytes for four characters, padding or not. For short texts of files' metadata; columns of
 * base64 have loops of their own (transform/make_bits.c).
 */
#include "base/base64.h"

static int digit_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool fby__base64_decode(const uint8_t *text, size_t n, uint8_t *out, size_t *out_n)
{
    if (n > 0 && n % 4 == 0)
        n -= text[n - 1] != '=' ? 0 : text[n - 2] != '=' ? 1 : 2;
    uint32_t group = 0;
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        const int digit = digit_of(text[i]);
        if (digit < 0)
            return false;
        group = group << 6 | (uint32_t)digit;
        if (i % 4 > 0) /* after the second, third and fourth character of four, one more byte is complete */
            out[written++] = (uint8_t)(group >> (2 * (3 - i % 4)));
    }
    *out_n = written;
    return n % 4 != 1;
}
