/*
 * Text that others wrote, made safe to print. A terminal obeys control characters, and what changes the direction of text shows a name as
 * another: both come out as escapes. A backslash stays as it is, so that text may pass here more than once.
 */
#include "base/printable.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/** C0, DEL and C1; marks, embeddings, overrides and isolates of direction; the separators that end a line. */
static bool is_escaped(int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

size_t fby_printable(const char *text, size_t n, char *out, size_t room)
{
    const uint8_t *s = (const uint8_t *)text, *end = s + n;
    size_t whole = 0, written = 0;
    while (s < end) {
        const uint8_t *begin = s;
        const int32_t code = fby__utf8_next(&s, end), c = code < 0 ? *begin : code;
        char escape[8];
        const char *from = (const char *)begin;
        size_t bytes = (size_t)(s - begin);
        if (code < 0 || is_escaped(c)) {
            int k = c == '\n'   ? snprintf(escape, sizeof escape, "\\n")
                    : c == '\r' ? snprintf(escape, sizeof escape, "\\r")
                    : c == '\t' ? snprintf(escape, sizeof escape, "\\t")
                    : c < 0x100 ? snprintf(escape, sizeof escape, "\\x%02x", (unsigned)c)
                                : snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
            from = escape;
            bytes = (size_t)k;
        }
        if (written == whole && whole + bytes < room) { /* once one was left out, nothing follows */
            memcpy(out + whole, from, bytes);
            written += bytes;
        }
        whole += bytes;
    }
    if (room)
        out[written] = 0;
    return whole;
}

void fby__make_printable(char *text, size_t room, bool cut)
{
    size_t n = strlen(text), last = n;
    while (cut && last > 0 && n - last < 4 && ((unsigned char)text[last - 1] & 0xc0) == 0x80)
        last--; /* to the byte that begins the last character */
    const uint8_t *begin = (const uint8_t *)text + last - (last > 0);
    if (cut && last > 0 && *begin >= 0xc0 && fby__utf8_next(&begin, (const uint8_t *)text + n) < 0)
        text[n = last - 1] = 0;
    char copy[FBY__PRINTABLE_ROOM];
    if (n >= sizeof copy || fby_printable(text, n, NULL, 0) == n)
        return; /* an escape is longer than what it stands for */
    memcpy(copy, text, n + 1);
    (void)fby_printable(copy, n, text, room); /* a cut text is still a text */
}
