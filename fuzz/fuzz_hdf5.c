/*
 * libFuzzer target: arbitrary bytes as an HDF5 file, through everything that reads them (fuzz_table.h, fuzz_file.h): parser, tree, chunk
 * indexes, filters, conventions; as rows, and as cells of two axes with values as stored. The helper program is kept out of it: libhdf5 is
 * known to crash on damaged files, which is why it runs elsewhere.
 *
 * With libFuzzer, half of the mutations change one message of an object header, or one structure with a signature (B-trees, heaps,
 * indexes of chunks), in place, so that every address stays true. Checksums are not looked at in such builds (base/hash.h).
 */
#include "fuzz_file.h"

#include "fuzz_table.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (setenv("FOREBAY_HDF5_HELPER", "none", 1) != 0 || write_file(data, size) != 0)
        return -1;
    const bool cells = picked / 1024 % 2; /* one of the two, by most inputs */
    if (!cells || is_for_all())
        read_table(path, data, size, &fby__hdf5_ops, &(fby__format_opts){0});
    if (cells || is_for_all())
        read_table(path, data, size, &fby__hdf5_ops, &(fby__format_opts){.axes = 2, .stored_values = true});
    if (!is_for_all())
        return 0;
    fby_open_opts opts = {.size = sizeof opts, .cache_dir = "", .n_threads = 1, .io = FBY_IO_THREADS, .memory_bytes = MEMORY};
    read_everything(&opts);
    opts.sample_axes = 2;
    opts.stored_values = true;
    read_everything(&opts);
    return 0;
}

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { MAX_PARTS = 1024, MESSAGE_TYPES = 0x19, NO_TYPE = 0xff, STRUCTURE = 48 };

/* A message's body, or the beginning of a structure behind its signature. */
typedef struct part {
    size_t at, n;
    size_t type_at; /* of a message: where its type stands; 0: none */
    uint8_t type;
} part;

typedef struct parts {
    const uint8_t *data;
    size_t size;
    unsigned n;
    part list[MAX_PARTS];
} parts;

static void add_part(parts *p, size_t at, size_t n, size_t type_at)
{
    if (n > 0 && n <= p->size - at && p->n < MAX_PARTS)
        p->list[p->n++] = (part){at, n, type_at, type_at ? p->data[type_at] : NO_TYPE};
}

static size_t little(const uint8_t *p, size_t n)
{
    size_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

/* Messages of [at, end): of version 1 with 8 bytes before each body, of version 2 with 4, and 2 more where creation order is tracked. */
static void add_messages(parts *p, size_t at, size_t end, bool old, bool ordered)
{
    const size_t head = old ? 8 : ordered ? 6 : 4;
    end = end < p->size ? end : p->size;
    while (at < end && end - at > head) {
        const size_t n = little(p->data + at + (old ? 2 : 1), 2);
        if (n > end - at - head)
            return;
        add_part(p, at + head, n, at);
        at += head + n;
    }
}

/* Version 2 (spec IV.A.1.b): signature, version, flags, perhaps times and limits of attributes, bytes of the messages. */
static void add_header(parts *p, size_t at)
{
    const uint8_t flags = p->data[at + 5];
    const size_t width = (size_t)1 << (flags & 3), sized = at + 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
    if (sized + width < p->size)
        add_messages(p, sized + width, sized + width + little(p->data + sized, width), false, flags & 4);
}

/* Version 1 (spec IV.A.1.a) has no signature: version 1, 0, few messages, few references, and a size that is a multiple of 8. */
static bool is_old_header(const uint8_t *h)
{
    const size_t messages = little(h + 2, 2), references = little(h + 4, 4), bytes = little(h + 8, 4);
    return h[0] == 1 && h[1] == 0 && messages > 0 && messages < 256 && references < 256 && bytes >= 8 && bytes < 1 << 20 && bytes % 8 == 0;
}

static bool is_signature(const uint8_t *p)
{
    static const char SIGNATURES[][5] = {"OCHK", "TREE", "SNOD", "HEAP", "GCOL", "BTHD", "BTIN", "BTLF", "FRHP", "FHDB",
                                         "FHIB", "FSHD", "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB", "SMTB", "SMLI"};
    if (p[0] < 'A' || p[0] > 'T' || p[1] < 'A' || p[1] > 'T') /* most bytes, and a call for each would take a quarter of the time */
        return false;
    for (size_t i = 0; i < sizeof SIGNATURES / sizeof *SIGNATURES; i++)
        if (memcmp(p, SIGNATURES[i], 4) == 0)
            return true;
    return false;
}

static void find_parts(parts *p)
{
    for (size_t at = 8; at + 16 < p->size; at++) {
        const uint8_t *here = p->data + at;
        if (here[0] == 'O' && memcmp(here, "OHDR", 4) == 0)
            add_header(p, at);
        else if (at % 8 == 0 && is_old_header(here))
            add_messages(p, at + 16, at + 16 + little(here + 8, 4), true, false);
        else if (is_signature(here))
            add_part(p, at + 4, p->size - at - 4 < STRUCTURE ? p->size - at - 4 : STRUCTURE, 0);
    }
}

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* A number of 1, 2, 4 or 8 bytes: one that is a border, or is somewhere else in the file. */
static void put_number(const parts *p, uint8_t *dst, size_t room, unsigned *seed)
{
    static const uint64_t BORDERS[] = {0, 1, 2, 8, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX};
    const size_t bytes = (size_t)1 << next(seed) % 4;
    uint64_t v = BORDERS[next(seed) % (sizeof BORDERS / sizeof *BORDERS)];
    const unsigned what = next(seed) % 4;
    if (what == 0)
        v = p->list[next(seed) % p->n].at; /* an address of something else */
    else if (what == 1)
        v = p->size - next(seed) % 64;
    memcpy(dst, &v, bytes < room ? bytes : room);
}

static void change_part(const parts *p, uint8_t *data, unsigned *seed)
{
    const part *to = &p->list[next(seed) % p->n], *from = NULL;
    const size_t skip = next(seed) % to->n;
    switch (next(seed) % 5) {
    case 0: (void)LLVMFuzzerMutate(data + to->at, to->n, to->n); return; /* a shorter result leaves old bytes behind it */
    case 1:
        if (to->type_at)
            data[to->type_at] = (uint8_t)(next(seed) % MESSAGE_TYPES);
        return;
    case 2: /* what another object has of the kind */
        for (unsigned i = 0, first = next(seed); i < p->n && !from; i++)
            if (p->list[(first + i) % p->n].type == to->type && (first + i) % p->n != (unsigned)(to - p->list))
                from = &p->list[(first + i) % p->n];
        if (from)
            memmove(data + to->at, data + from->at, from->n < to->n ? from->n : to->n);
        return;
    default: put_number(p, data + to->at + skip, to->n - skip, seed); return;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static parts p;
    p.data = data;
    p.size = size;
    p.n = 0;
    if (seed % 2 == 1)
        find_parts(&p);
    if (p.n == 0 || size > max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    seed /= 2;
    for (unsigned i = next(&seed) % 3 + 1; i > 0; i--)
        change_part(&p, data, &seed);
    return size;
}
#endif
