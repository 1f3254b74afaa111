/*
 * libFuzzer target: arbitrary bytes as a Parquet file, through everything that reads them (fuzz_table.h, fuzz_file.h).
 *
 * With libFuzzer, three of four mutations keep the file whole, its footer's length and magic right, without which nothing of a footer is
 * read: they change the footer's bytes, one of its Thrift values (a number, a text, an element of a list, so that what is around it still
 * parses), or one stretch of pages.
 */
#include "fuzz_file.h"

#include "fuzz_table.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (write_file(data, size) != 0)
        return -1;
    read_table(path, data, size, &fby__parquet_ops, &(fby__format_opts){0});
    if (is_for_all())
        read_everything(&(fby_open_opts){.size = sizeof(fby_open_opts),
                                         .cache_dir = "",
                                         .n_threads = 1,
                                         .io = FBY_IO_THREADS,
                                         .memory_bytes = MEMORY,
                                         .verify_crc = true});
    return 0;
}

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { TAIL = 8, HEAD = 4, STRETCH = 64, MAX_VALUES = 4096, MAX_NESTING = 32 };

/* The types of Thrift's compact protocol that are told apart here. */
enum { TRUE = 1, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };

/* A value of the footer: a number, a text with its length, or an element of a list whose head is one byte. */
typedef struct value {
    size_t at, n, list_at; /* list_at: of an element's list */
    enum { NUMBER, TEXT, ELEMENT } kind;
} value;

typedef struct walk {
    const uint8_t *data;
    size_t at, end;
    bool broken;
    unsigned n;
    value list[MAX_VALUES];
} walk;

static size_t footer_bytes(const uint8_t *data, size_t size)
{
    uint32_t n = 0;
    if (size < HEAD + TAIL || memcmp(data + size - 4, "PAR1", 4) != 0)
        return 0;
    memcpy(&n, data + size - TAIL, sizeof n);
    return n <= size - HEAD - TAIL ? n : 0;
}

static unsigned take(walk *w)
{
    if (w->at < w->end)
        return w->data[w->at++];
    w->broken = true;
    return 0;
}

static uint64_t take_varint(walk *w)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const unsigned byte = take(w);
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
    w->broken = true;
    return 0;
}

static void found(walk *w, size_t at, int kind, size_t list_at)
{
    if (w->n < MAX_VALUES && !w->broken)
        w->list[w->n++] = (value){at, w->at - at, list_at, kind == NUMBER ? NUMBER : kind == TEXT ? TEXT : ELEMENT};
}

static void walk_struct(walk *w, int depth);

static void walk_value(walk *w, unsigned type, int depth)
{
    const size_t at = w->at;
    uint64_t n;
    switch (type) {
    case TRUE:
    case FALSE: return;
    case BYTE: (void)take(w); return;
    case I16:
    case I32:
    case I64:
        (void)take_varint(w);
        found(w, at, NUMBER, 0);
        return;
    case BINARY:
        n = take_varint(w);
        w->broken |= n > w->end - w->at;
        w->at += w->broken ? 0 : (size_t)n;
        found(w, at, TEXT, 0);
        return;
    case LIST:
    case SET: {
        const unsigned head = take(w);
        n = head >> 4 == 15 ? take_varint(w) : head >> 4;
        for (uint64_t i = 0; i < n && !w->broken && depth < MAX_NESTING; i++) {
            const size_t begin = w->at;
            walk_value(w, head & 15, depth + 1);
            if (head >> 4 != 15)
                found(w, begin, ELEMENT, at);
        }
        return;
    }
    case STRUCT: walk_struct(w, depth + 1); return;
    default: w->broken = true; return; /* footers have no doubles and no maps */
    }
}

static void walk_struct(walk *w, int depth)
{
    w->broken |= depth > MAX_NESTING;
    while (!w->broken) {
        const unsigned head = take(w);
        if (head == 0)
            return;
        if (head >> 4 == 0)
            (void)take_varint(w); /* the field's number */
        walk_value(w, head & 15, depth);
    }
}

static size_t put_varint(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

/* n bytes at `at` replaced by m others; the new length, or the old one where there is no room. */
static size_t replace(uint8_t *data, size_t size, size_t max_size, size_t at, size_t n, const uint8_t *by, size_t m)
{
    if (size - n + m > max_size)
        return size;
    memmove(data + at + m, data + at + n, size - at - n);
    if (m)
        memcpy(data + at, by, m);
    return size - n + m;
}

/* A footer of n bytes with one value changed; its new length. */
static size_t change_value(uint8_t *footer, size_t n, size_t max_n, unsigned seed)
{
    static const uint64_t BORDERS[] = {0, 1, 2, 3, 0x7e, 0xfe, 0x1fffe, 0x3fffffffe, 0xfffffffe, 0xffffffff, UINT64_MAX - 1, UINT64_MAX};
    static walk w;
    static uint8_t text[1 << 12];
    uint8_t number[10];
    w.data = footer;
    w.at = w.n = 0;
    w.end = n;
    w.broken = false;
    walk_struct(&w, 0);
    if (w.n == 0)
        return LLVMFuzzerMutate(footer, n, max_n);
    const value v = w.list[seed % w.n];
    seed /= w.n;
    if (v.kind == NUMBER) /* zigzag: even ones are not negative */
        return replace(footer, n, max_n, v.at, v.n, number,
                       put_varint(number, seed % 3 == 0 ? seed : BORDERS[seed / 3 % (sizeof BORDERS / sizeof *BORDERS)]));
    if (v.kind == TEXT) {
        w.at = v.at;
        const size_t old = (size_t)take_varint(&w);
        if (old > sizeof text / 2)
            return n;
        memcpy(text + 10, footer + w.at, old);
        const size_t m = LLVMFuzzerMutate(text + 10, old, sizeof text - 10), head = put_varint(number, m);
        memcpy(text + 10 - head, number, head);
        return replace(footer, n, max_n, v.at, v.n, text + 10 - head, head + m);
    }
    const unsigned count = footer[v.list_at] >> 4;
    if (seed % 2 == 0 && count > 0) { /* away with it */
        footer[v.list_at] = (uint8_t)(footer[v.list_at] - 0x10);
        return replace(footer, n, max_n, v.at, v.n, NULL, 0);
    }
    if (count >= 14 || v.n > sizeof text || n + v.n > max_n)
        return n;
    memcpy(text, footer + v.at, v.n); /* once more */
    footer[v.list_at] = (uint8_t)(footer[v.list_at] + 0x10);
    return replace(footer, n, max_n, v.at, 0, text, v.n);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const size_t n = footer_bytes(data, size);
    if (n == 0 || seed % 4 == 0 || max_size < size)
        return LLVMFuzzerMutate(data, size, max_size);
    const size_t footer_at = size - TAIL - n, most = max_size - footer_at - TAIL;
    if (seed % 4 == 1 && footer_at > HEAD) { /* pages: in place, so that every offset in the footer stays true */
        const size_t room = footer_at - HEAD, m = room < STRETCH ? room : STRETCH;
        (void)LLVMFuzzerMutate(data + HEAD + seed / 4 % (room - m + 1), m, m); /* a shorter result leaves old bytes behind it */
        return size;
    }
    uint8_t tail[TAIL];
    memcpy(tail + 4, "PAR1", 4);
    const uint32_t grown =
        (uint32_t)(seed % 4 == 2 ? LLVMFuzzerMutate(data + footer_at, n, most) : change_value(data + footer_at, n, most, seed / 4));
    memcpy(tail, &grown, sizeof grown);
    memcpy(data + footer_at + grown, tail, TAIL);
    return footer_at + grown + TAIL;
}
#endif
