/*
 * Text that others wrote, made safe to print. A terminal obeys control characters, and what changes the direction of text shows a name as
 * another: both come out as escapes. A backslash stays as it is, so that text may pass here more than once.
 */
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

/** Bytes of the valid UTF-8 character at s and its code, 0 when there is none. Overlong forms and surrogates are not valid. */
static size_t utf8_length(const unsigned char *s, size_t n, uint32_t *out_code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
    if (length == 0 || length > n)
        return 0;
    uint32_t c = length == 1 ? s[0] : s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *out_code = c;
    return length;
}

/** C0, DEL and C1; marks, embeddings, overrides and isolates of direction; the separators that end a line. */
static bool is_escaped(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

size_t fby_printable(const char *text, size_t n, char *out, size_t room)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t whole = 0, written = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c = s[i];
        char escape[8];
        size_t length = utf8_length(s + i, n - i, &c), bytes = length;
        const char *from = text + i;
        if (length == 0 || is_escaped(c)) {
            int k = c == '\n'    ? snprintf(escape, sizeof escape, "\\n")
                    : c == '\r'  ? snprintf(escape, sizeof escape, "\\r")
                    : c == '\t'  ? snprintf(escape, sizeof escape, "\\t")
                    : c < 0x100u ? snprintf(escape, sizeof escape, "\\x%02x", (unsigned)c)
                                 : snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
            from = escape;
            bytes = (size_t)k;
        }
        if (written == whole && whole + bytes < room) { /* once one was left out, nothing follows */
            memcpy(out + whole, from, bytes);
            written += bytes;
        }
        whole += bytes;
        i += length ? length : 1;
    }
    if (room)
        out[written] = 0;
    return whole;
}

void fby__make_printable(char *text, size_t room, bool cut)
{
    size_t n = strlen(text), last = n;
    uint32_t code;
    while (cut && last > 0 && n - last < 4 && ((unsigned char)text[last - 1] & 0xc0) == 0x80)
        last--; /* to the byte that begins the last character */
    if (cut && last > 0 && (unsigned char)text[last - 1] >= 0xc0 && utf8_length((unsigned char *)text + last - 1, n - last + 1, &code) == 0)
        text[n = last - 1] = 0;
    char copy[FBY__PRINTABLE_ROOM];
    if (n >= sizeof copy || fby_printable(text, n, NULL, 0) == n)
        return; /* an escape is longer than what it stands for */
    memcpy(copy, text, n + 1);
    (void)fby_printable(copy, n, text, room); /* a cut text is still a text */
}
