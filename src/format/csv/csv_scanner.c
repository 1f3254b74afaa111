/* Text → records of cells: RFC 4180 section 2 with three line endings. What is refused is named by csv_open.c: see fby__csv_result. */
#include "format/csv/csv.h"

#define SHORT_BYTES 24u /* of most fields: not worth a look ahead */

void fby__csv_scanner_init(fby__csv_scanner *s, uint8_t delimiter, uint64_t line)
{
    *s = (fby__csv_scanner){.delimiter = delimiter, .line = line, .next_line = line};
    s->stop[delimiter] = s->stop['\n'] = s->stop['\r'] = true;
}

/* Bytes of the line break at p, 0 when more text is needed to know. */
static size_t break_bytes(const uint8_t *text, size_t n, size_t p, bool last)
{
    if (text[p] == '\n')
        return 1;
    if (p + 1 == n)
        return last ? 1 : 0;
    return text[p + 1] == '\n' ? 2 : 1;
}

static uint64_t count_breaks(const uint8_t *p, size_t n)
{
    uint64_t breaks = 0;
    for (size_t i = 0; i < n; i++)
        breaks += p[i] == '\n' || (p[i] == '\r' && (i + 1 == n || p[i + 1] != '\n'));
    return breaks;
}

/* Where a field that has no end in the text before p ends: n when the text does. Long ones are looked at 16 bytes at a time. */
static size_t far_end(const fby__csv_scanner *s, const uint8_t *text, size_t n, size_t p)
{
    typedef uint8_t bytes __attribute__((vector_size(16), may_alias, aligned(1)));
    typedef uint64_t words __attribute__((vector_size(16)));
    const bytes zero = {0}, delimiter = zero + s->delimiter, lf = zero + (uint8_t)'\n', cr = zero + (uint8_t)'\r';
    for (; p + sizeof(bytes) <= n; p += sizeof(bytes)) {
        const bytes here = *(const bytes *)(text + p);
        const words stops = (words)((here == delimiter) | (here == lf) | (here == cr));
        if (stops[0] | stops[1])
            break;
    }
    while (p < n && !s->stop[text[p]])
        p++;
    return p;
}

/* The field at *at, which moves to what follows it. */
static fby__csv_result next_field(const fby__csv_scanner *s, const uint8_t *text, size_t n, size_t *at, bool last, fby__csv_cell *out,
                                  uint64_t *breaks)
{
    size_t p = *at, from = p, to;
    uint32_t flags = 0;
    if (p < n && text[p] == '"') {
        flags = FBY__CSV_QUOTED;
        from = ++p;
        for (;;) {
            const uint8_t *quote = p < n ? memchr(text + p, '"', n - p) : NULL;
            if (!quote)
                return last ? FBY__CSV_OPEN_QUOTE : FBY__CSV_MORE;
            to = (size_t)(quote - text);
            p = to + 1;
            if (p == n && !last)
                return FBY__CSV_MORE;
            if (p == n || text[p] != '"')
                break;
            flags |= FBY__CSV_DOUBLED;
            p++;
        }
        *breaks += count_breaks(text + from, to - from);
        if (p < n && !s->stop[text[p]])
            return FBY__CSV_AFTER_QUOTE;
    } else {
        const size_t soon = n - p < SHORT_BYTES ? n : p + SHORT_BYTES;
        while (p < soon && !s->stop[text[p]])
            p++;
        if (p == soon)
            p = far_end(s, text, n, p);
        if (p == n && !last)
            return FBY__CSV_MORE;
        to = p;
    }
    *out = (fby__csv_cell){(uint32_t)from, (uint32_t)(to - from) | flags};
    *at = p;
    return FBY__CSV_RECORD;
}

fby__csv_result fby__csv_next(fby__csv_scanner *s, const uint8_t *text, size_t n, size_t *at, bool last, fby__csv_cell *cells, uint32_t cap)
{
    size_t p = *at;
    for (; p < n && (text[p] == '\n' || text[p] == '\r'); s->next_line++) { /* empty lines */
        size_t skip = break_bytes(text, n, p, last);
        if (skip == 0)
            break;
        p += skip;
    }
    *at = p;
    s->line = s->next_line;
    if (p == n)
        return last ? FBY__CSV_END : FBY__CSV_MORE;
    uint64_t breaks = 0;
    uint32_t fields = 0;
    for (bool more = true; more;) {
        fby__csv_cell cell = {0, 0};
        fby__csv_result result = next_field(s, text, n, &p, last, &cell, &breaks);
        if (result != FBY__CSV_RECORD) {
            s->line = s->next_line + (result == FBY__CSV_AFTER_QUOTE ? breaks : 0);
            return result;
        }
        if (fields < cap)
            cells[fields] = cell;
        fields++; /* fewer than bytes of text */
        more = p < n && text[p] == s->delimiter;
        if (more) {
            p++;
        } else if (p < n) {
            size_t skip = break_bytes(text, n, p, last);
            if (skip == 0)
                return FBY__CSV_MORE;
            p += skip;
            breaks++;
        }
    }
    *at = p;
    s->n_fields = fields;
    s->next_line += breaks;
    return FBY__CSV_RECORD;
}

uint8_t fby__csv_sniff(const uint8_t *text, size_t n)
{
    static const uint8_t CANDIDATES[] = {',', ';', '\t', '|'}; /* the first wins a draw */
    size_t counts[sizeof CANDIDATES] = {0}, best = 0;
    bool quoted = false;
    for (size_t i = 0; i < n && (quoted || (text[i] != '\n' && text[i] != '\r')); i++) {
        quoted ^= text[i] == '"';
        for (size_t k = 0; k < sizeof CANDIDATES; k++)
            counts[k] += !quoted && text[i] == CANDIDATES[k];
    }
    for (size_t k = 1; k < sizeof CANDIDATES; k++)
        if (counts[k] > counts[best])
            best = k;
    return CANDIDATES[best];
}

size_t fby__csv_copy(const uint8_t *text, fby__csv_cell cell, uint8_t *dst)
{
    const uint8_t *p = text + cell.at, *end = p + fby__csv_cell_n(cell);
    if (!(cell.n_flags & FBY__CSV_DOUBLED)) {
        memcpy(dst, p, (size_t)(end - p));
        return (size_t)(end - p);
    }
    size_t n = 0;
    for (; p < end; p++) {
        dst[n++] = *p;
        p += *p == '"'; /* the scanner saw its twin */
    }
    return n;
}
