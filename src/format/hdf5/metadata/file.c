/*
 * The file under the objects: superblock (spec II.A), bytes of metadata by address, checksums.
 *
 * A view is a copy in the arena, so it stays valid until the file is closed whatever else is read. The copy comes from a few
 * cached pages (neighbours cost no further read), or from the file when it is large. A range that is asked for again is the
 * same copy. So the memory is the metadata's own size, also where headers lie scattered between gigabytes of data.
 *
 * Limits, all by the size of the file, so that structures which overlap or repeat cannot cost more than the file is worth:
 * bytes copied, bytes asked for, and arena memory of everything parsed.
 */
#include "base/checked.h"
#include "base/hash.h"
#include "format/hdf5/metadata/object_internal.h"

#include <stdarg.h>
#include <stdio.h>

#define PAGE_BYTES ((size_t)32 << 10)
#define PAGE_COUNT 64u
#define NAMED_SLOTS 256u

typedef struct page {
    uint64_t number;
    uint64_t used_at; /* for eviction: the clock of its last use */
    uint8_t *data;    /* owned, PAGE_BYTES; NULL = empty slot */
} page;

typedef struct view {
    uint64_t offset; /* absolute */
    uint64_t n;
    const uint8_t *data; /* arena; NULL = empty slot */
} view;

typedef struct named {
    uint64_t address;
    const fby__h5_type *type;
    struct named *next;
} named;

struct fby__h5_pages {
    page page[PAGE_COUNT];
    uint64_t clock;
    view *views; /* owned: an open hash table of n_slots, a power of two, at most half full */
    size_t n_views, n_slots;
    uint64_t bytes_asked;
    named *named[NAMED_SLOTS]; /* arena: committed datatypes by address */
};

/* ---- errors, memory ---- */

fby_status fby__h5_damaged(const fby__h5_cursor *c, fby_error *err, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap); /* a cut message is still a message */
    va_end(ap);
    return fby__fail_at(err, FBY_E_FORMAT, fby__h5_tell_file(c), "%s: %s", c->what, text);
}

static fby_status too_much(const fby__h5_file *f, uint64_t offset, fby_error *err)
{
    return fby__fail_at(err, FBY_E_FORMAT, offset, "the metadata is larger than a file of %llu bytes can hold: it overlaps or repeats",
                        (unsigned long long)f->end);
}

static uint64_t limit(const fby__h5_file *f, unsigned times, uint64_t more)
{
    uint64_t v;
    return fby__mul_u64_checked(f->end, times, &v) && fby__add_u64_checked(v, more, &v) ? v : UINT64_MAX;
}

/* A type of 12 bytes in the file is a struct of some 350; attributes are alike. */
static bool arena_is_full(const fby__h5_file *f, uint64_t n)
{
    return n > SIZE_MAX / 2 || f->arena.total_bytes + n > limit(f, 64, (uint64_t)16 << 20);
}

fby_status fby__h5_alloc(fby__h5_file *f, size_t n, size_t size, void **out, fby_error *err)
{
    size_t bytes;
    if (!fby__mul_checked(n, size, &bytes) || arena_is_full(f, bytes))
        return too_much(f, f->base, err);
    void *p = fby__arena_alloc(&f->arena, bytes);
    if (!p)
        return fby__fail_nomem(err, "reading HDF5 metadata");
    memset(p, 0, bytes);
    *out = p;
    return FBY_OK;
}

fby_status fby__h5_name(fby__h5_file *f, const fby__h5_cursor *c, const uint8_t *p, size_t n, const char **out, fby_error *err)
{
    if (!n || memchr(p, 0, n))
        return fby__h5_damaged(c, err, n ? "a name has a NUL inside" : "a name is empty");
    if (arena_is_full(f, n))
        return too_much(f, f->base, err);
    *out = fby__arena_copy(&f->arena, p, n);
    return *out ? FBY_OK : fby__fail_nomem(err, "a name of an HDF5 file");
}

/* ---- bytes ---- */

static size_t find_slot(const view *views, size_t n_slots, uint64_t offset, uint64_t n)
{
    size_t at = (size_t)fby__table_hash_u64(offset ^ n << 48) & (n_slots - 1);
    while (views[at].data && (views[at].offset != offset || views[at].n != n))
        at = (at + 1) & (n_slots - 1);
    return at;
}

/* Room for one more view, so that keeping it cannot fail. */
static fby_status reserve_slot(struct fby__h5_pages *pages, fby_error *err)
{
    if ((pages->n_views + 1) * 2 <= pages->n_slots)
        return FBY_OK;
    size_t n = pages->n_slots ? pages->n_slots * 2 : 64;
    view *views = fby__calloc(n, sizeof *views);
    if (!views)
        return fby__fail_nomem(err, "reading HDF5 metadata");
    for (size_t i = 0; i < pages->n_slots; i++)
        if (pages->views[i].data)
            views[find_slot(views, n, pages->views[i].offset, pages->views[i].n)] = pages->views[i];
    fby__free(pages->views);
    pages->views = views;
    pages->n_slots = n;
    return FBY_OK;
}

static fby_status load_page(fby__h5_file *f, uint64_t number, const uint8_t **out, fby_error *err)
{
    struct fby__h5_pages *pages = f->pages;
    page *oldest = &pages->page[0];
    for (unsigned i = 0; i < PAGE_COUNT; i++) {
        page *p = &pages->page[i];
        if (p->data && p->number == number) {
            p->used_at = ++pages->clock;
            *out = p->data;
            return FBY_OK;
        }
        if (oldest->data && (!p->data || p->used_at < oldest->used_at))
            oldest = p;
    }
    if (!oldest->data && !(oldest->data = fby__malloc(PAGE_BYTES)))
        return fby__fail_nomem(err, "reading HDF5 metadata");
    const uint64_t offset = number * PAGE_BYTES;
    oldest->number = UINT64_MAX; /* until it is filled */
    FBY__TRY(fby__file_read(f->file, offset, oldest->data, (size_t)fby__min_u64(PAGE_BYTES, f->end - offset), err));
    oldest->number = number;
    oldest->used_at = ++pages->clock;
    *out = oldest->data;
    return FBY_OK;
}

static fby_status read_bytes(fby__h5_file *f, uint64_t offset, uint8_t *dst, size_t n, fby_error *err)
{
    if (n >= PAGE_BYTES)
        return fby__file_read(f->file, offset, dst, n, err);
    while (n) {
        const uint8_t *p = NULL;
        FBY__TRY(load_page(f, offset / PAGE_BYTES, &p, err));
        const size_t skip = (size_t)(offset % PAGE_BYTES), k = n < PAGE_BYTES - skip ? n : PAGE_BYTES - skip;
        memcpy(dst, p + skip, k);
        dst += k;
        offset += k;
        n -= k;
    }
    return FBY_OK;
}

fby_status fby__h5_view(fby__h5_file *f, uint64_t address, uint64_t n, const char *what, fby__bytes *out, fby_error *err)
{
    if (f->base > f->end || address > f->end - f->base || n > f->end - f->base - address)
        return fby__fail_at(err, FBY_E_FORMAT, address > UINT64_MAX - f->base ? address : f->base + address,
                            "%s at %llu goes beyond the end of the file", what, (unsigned long long)address);
    const uint64_t offset = f->base + address;
    struct fby__h5_pages *pages = f->pages;
    pages->bytes_asked += n;
    if (pages->bytes_asked > limit(f, 64, (uint64_t)64 << 20))
        return too_much(f, offset, err);
    FBY__TRY(reserve_slot(pages, err));
    size_t slot = find_slot(pages->views, pages->n_slots, offset, n);
    if (!pages->views[slot].data) {
        if (f->bytes_viewed + n > fby__min_u64(FBY__H5_MAX_METADATA, limit(f, 16, (uint64_t)1 << 20)) || arena_is_full(f, n))
            return too_much(f, offset, err);
        uint8_t *data = fby__arena_alloc(&f->arena, n ? (size_t)n : 1);
        if (!data)
            return fby__fail_nomem(err, what);
        FBY__TRY(read_bytes(f, offset, data, (size_t)n, err));
        f->bytes_viewed += n;
        pages->views[slot] = (view){offset, n, data};
        pages->n_views++;
    }
    *out = (fby__bytes){pages->views[slot].data, (size_t)n};
    return FBY_OK;
}

/* ---- committed datatypes ---- */

const fby__h5_type *fby__h5_named_find(const fby__h5_file *f, uint64_t address)
{
    const named *t = f->pages->named[fby__table_hash_u64(address) % NAMED_SLOTS];
    while (t && t->address != address)
        t = t->next;
    return t ? t->type : NULL;
}

fby_status fby__h5_named_keep(fby__h5_file *f, uint64_t address, const fby__h5_type *type, fby_error *err)
{
    named *t = NULL, **head = &f->pages->named[fby__table_hash_u64(address) % NAMED_SLOTS];
    FBY__TRY(fby__h5_alloc(f, 1, sizeof *t, (void **)&t, err));
    *t = (named){address, type, *head};
    *head = t;
    return FBY_OK;
}

/* ---- checksum, cursor ---- */

static inline uint32_t rotl(uint32_t v, unsigned k) { return v << k | v >> (32 - k); }

/* Bob Jenkins, lookup3, "hashlittle": three words at a time, mixed; the last one to twelve bytes are mixed once more. */
uint32_t fby__h5_checksum(const uint8_t *p, size_t n)
{
    uint32_t a = 0xdeadbeef + (uint32_t)n, b = a, c = a;
    for (; n > 12; n -= 12, p += 12) {
        a += fby__load_u32(p);
        b += fby__load_u32(p + 4);
        c += fby__load_u32(p + 8);
        a = (a - c) ^ rotl(c, 4), c += b;
        b = (b - a) ^ rotl(a, 6), a += c;
        c = (c - b) ^ rotl(b, 8), b += a;
        a = (a - c) ^ rotl(c, 16), c += b;
        b = (b - a) ^ rotl(a, 19), a += c;
        c = (c - b) ^ rotl(b, 4), b += a;
    }
    if (!n)
        return c;
    uint8_t tail[12] = {0};
    memcpy(tail, p, n);
    a += fby__load_u32(tail);
    b += fby__load_u32(tail + 4);
    c += fby__load_u32(tail + 8);
    c = (c ^ b) - rotl(b, 14);
    a = (a ^ c) - rotl(c, 11);
    b = (b ^ a) - rotl(a, 25);
    c = (c ^ b) - rotl(b, 16);
    a = (a ^ c) - rotl(c, 4);
    b = (b ^ a) - rotl(a, 14);
    return (c ^ b) - rotl(b, 24);
}

fby_status fby__h5_verify(fby__h5_file *f, uint64_t address, fby__bytes bytes, const char *what, fby_error *err)
{
    if (bytes.n < 4 || !fby__checksum_holds(fby__load_u32(bytes.data + bytes.n - 4), fby__h5_checksum(bytes.data, bytes.n - 4)))
        return fby__fail_at(err, FBY_E_FORMAT, f->base + address, "%s at %llu: the checksum does not match", what,
                            (unsigned long long)address);
    return FBY_OK;
}

static uint64_t uint_or_undefined(fby__h5_cursor *c, unsigned n)
{
    const uint64_t v = fby__h5_uint(c, n);
    return !c->failed && n < 8 && v == ((uint64_t)1 << (8 * n)) - 1 ? FBY__H5_UNDEFINED : v;
}

uint64_t fby__h5_offset(fby__h5_cursor *c) { return uint_or_undefined(c, c->f->offset_bytes); }
uint64_t fby__h5_length(fby__h5_cursor *c) { return uint_or_undefined(c, c->f->length_bytes); }

fby_status fby__h5_cursor_check(const fby__h5_cursor *c, fby_error *err)
{
    if (!c->failed)
        return FBY_OK;
    return fby__fail_at(err, FBY_E_FORMAT, fby__h5_tell_file(c), "%s at %llu is cut short", c->what, (unsigned long long)c->address);
}

/* ---- superblock ---- */

#define SUPERBLOCK_MAX 128u /* 100 bytes in version 1 with addresses of 8 */

static const uint8_t SIGNATURE[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

static fby_status find_superblock(fby__h5_file *f, fby__bytes *out, fby_error *err)
{
    for (uint64_t at = 0; at <= f->end && f->end - at >= sizeof SIGNATURE; at = at ? at * 2 : 512) {
        fby__bytes v;
        FBY__TRY(fby__h5_view(f, at, sizeof SIGNATURE, "superblock", &v, err));
        if (memcmp(v.data, SIGNATURE, sizeof SIGNATURE) == 0) {
            FBY__TRY(fby__h5_view(f, at, fby__min_u64(SUPERBLOCK_MAX, f->end - at), "superblock", out, err));
            f->base = at;
            return FBY_OK;
        }
    }
    return fby__fail_at(err, FBY_E_FORMAT, 0, "no HDF5 signature at 0, 512, 1024, …: this is not an HDF5 file");
}

/* Drivers that spread one file over several (spec II.B): ours reads one. The name is not terminated. */
static fby_status check_driver(const uint8_t name[8], fby_error *err)
{
    if (memcmp(name, "NCSAmult", 8) == 0 || memcmp(name, "NCSAfami", 8) == 0)
        return fby__fail(err, FBY_E_UNSUPPORTED, "the file is one of several of libhdf5's %s driver", name[4] == 'm' ? "multi" : "family");
    return FBY_OK;
}

static fby_status read_driver_block(fby__h5_file *f, uint64_t address, fby_error *err)
{
    fby__bytes v;
    FBY__TRY(fby__h5_view(f, address, 16, "driver information block", &v, err));
    return check_driver(v.data + 8, err);
}

static fby_status extension_message(void *user, const fby__h5_message *m, fby_error *err)
{
    fby__h5_file *f = user;
    fby__h5_cursor c = fby__h5_cursor_of(f, m->body, m->address, "message of the superblock extension");
    if (m->type == FBY__H5_MSG_BTREE_K) {
        (void)fby__h5_u8(&c); /* version 0 */
        f->chunk_k = fby__h5_u16(&c);
        f->group_internal_k = fby__h5_u16(&c);
        f->group_leaf_k = fby__h5_u16(&c);
    } else if (m->type == FBY__H5_MSG_DRIVER) {
        (void)fby__h5_u8(&c);
        const uint8_t *name = fby__h5_next(&c, 8);
        if (name)
            FBY__TRY(check_driver(name, err));
    } else if (m->type == FBY__H5_MSG_CACHE_IMAGE) {
        (void)fby__h5_u8(&c);
        if (fby__h5_offset(&c) != FBY__H5_UNDEFINED && !c.failed) /* newer metadata than at its own addresses */
            return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(&c), "its metadata is in a cache image");
    } else if (m->type >= FBY__H5_MSG_COUNT && m->must_know) {
        return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(&c), "its superblock has a message of the unknown type %u", m->type);
    }
    /* The table of shared messages is not needed: an object that uses it is declined. */
    return fby__h5_cursor_check(&c, err);
}

static fby_status check_sizes(fby__h5_file *f, const fby__h5_cursor *c, fby_error *err)
{
    const unsigned sizes[] = {f->offset_bytes, f->length_bytes};
    for (int i = 0; i < 2; i++) {
        if (sizes[i] == 16 || sizes[i] == 32)
            return fby__fail_at(err, FBY_E_UNSUPPORTED, fby__h5_tell_file(c), "its addresses are of %u bytes", sizes[i]);
        if (sizes[i] != 2 && sizes[i] != 4 && sizes[i] != 8)
            return fby__h5_damaged(c, err, "addresses or lengths of %u bytes", sizes[i]);
    }
    return FBY_OK;
}

static fby_status parse_superblock(fby__h5_file *f, fby__bytes bytes, fby_error *err)
{
    fby__h5_cursor c = fby__h5_cursor_of(f, bytes, 0, "superblock");
    (void)fby__h5_next(&c, sizeof SIGNATURE);
    f->version = fby__h5_u8(&c);
    if (!c.failed && f->version > 3)
        return fby__fail_at(err, FBY_E_UNSUPPORTED, f->base + 8, "its superblock is of version %u", f->version);
    uint64_t base, end, driver = FBY__H5_UNDEFINED;
    if (f->version < 2) {
        const uint8_t *versions = fby__h5_next(&c, 4); /* free space, root entry, reserved, shared header */
        if (versions && (versions[0] || versions[1] || versions[3]))
            return fby__h5_damaged(&c, err, "unknown versions of its parts");
        f->offset_bytes = fby__h5_u8(&c);
        f->length_bytes = fby__h5_u8(&c);
        (void)fby__h5_u8(&c);
        f->group_leaf_k = fby__h5_u16(&c);
        f->group_internal_k = fby__h5_u16(&c);
        (void)fby__h5_u32(&c); /* consistency flags: not in use before version 3 */
        if (f->version == 1) {
            f->chunk_k = fby__h5_u16(&c);
            (void)fby__h5_u16(&c);
        }
        FBY__TRY(fby__h5_cursor_check(&c, err));
        FBY__TRY(check_sizes(f, &c, err));
        base = fby__h5_offset(&c);
        (void)fby__h5_offset(&c); /* free space information */
        end = fby__h5_offset(&c);
        driver = fby__h5_offset(&c);
        (void)fby__h5_length(&c); /* root entry: name, header; its cached scratch is what the header says as well */
        f->root_address = fby__h5_offset(&c);
        FBY__TRY(fby__h5_cursor_check(&c, err));
    } else {
        f->offset_bytes = fby__h5_u8(&c);
        f->length_bytes = fby__h5_u8(&c);
        const uint8_t flags = fby__h5_u8(&c);
        FBY__TRY(fby__h5_cursor_check(&c, err));
        FBY__TRY(check_sizes(f, &c, err));
        base = fby__h5_offset(&c);
        f->extension_address = fby__h5_offset(&c);
        end = fby__h5_offset(&c);
        f->root_address = fby__h5_offset(&c);
        (void)fby__h5_u32(&c);
        FBY__TRY(fby__h5_cursor_check(&c, err));
        FBY__TRY(fby__h5_verify(f, 0, (fby__bytes){bytes.data, (size_t)(c.at - c.begin)}, "superblock", err));
        f->swmr = f->version == 3 && (flags & 5); /* open for writing, or for writing with readers */
    }
    if (!f->group_leaf_k || !f->group_internal_k || !f->chunk_k)
        return fby__h5_damaged(&c, err, "a B-tree rank is 0");
    if (base == FBY__H5_UNDEFINED || end == FBY__H5_UNDEFINED || f->root_address == FBY__H5_UNDEFINED)
        return fby__h5_damaged(&c, err, "an address is undefined");
    /*
     * "base" is where the superblock was when it was written; a user block put in front later moves the file's end with it, and
     * libhdf5 takes the offset where it finds the superblock for address 0. So do we.
     */
    if (end < base || end - base > UINT64_MAX - f->base)
        return fby__h5_damaged(&c, err, "the end of the file is before its begin");
    if (f->end - f->base < end - base)
        return fby__fail_at(err, FBY_E_FORMAT, f->end, "the file is truncated: it has %llu bytes of %llu", (unsigned long long)f->end,
                            (unsigned long long)(end - base + f->base));
    if (driver != FBY__H5_UNDEFINED)
        FBY__TRY(read_driver_block(f, driver, err));
    if (f->extension_address != FBY__H5_UNDEFINED) {
        FBY__TRY(fby__h5_header_walk(f, f->extension_address, extension_message, f, err));
        if (!f->group_leaf_k || !f->group_internal_k || !f->chunk_k)
            return fby__h5_damaged(&c, err, "a B-tree rank is 0");
    }
    return FBY_OK;
}

fby_status fby__h5_file_open(fby__file *file, fby__h5_file **out, fby_error *err)
{
    fby__h5_file *f = fby__calloc(1, sizeof *f);
    if (!f)
        return fby__fail_nomem(err, "opening an HDF5 file");
    f->file = fby__file_ref(file);
    f->path = fby__file_path(file);
    f->end = fby__file_stamp_of(file)->size_bytes;
    f->extension_address = FBY__H5_UNDEFINED;
    f->group_leaf_k = 4; /* what libhdf5 takes where the superblock does not say */
    f->group_internal_k = 16;
    f->chunk_k = 32;
    fby__bytes bytes;
    fby_status st = FBY_OK;
    f->pages = fby__calloc(1, sizeof *f->pages);
    if (!f->pages)
        st = fby__fail_nomem(err, "opening an HDF5 file");
    if (st == FBY_OK)
        st = find_superblock(f, &bytes, err);
    if (st == FBY_OK)
        st = parse_superblock(f, bytes, err);
    if (st != FBY_OK) {
        fby__h5_file_close(f);
        return st;
    }
    *out = f;
    return FBY_OK;
}

void fby__h5_file_close(fby__h5_file *f)
{
    if (!f)
        return;
    if (f->pages) {
        for (unsigned i = 0; i < PAGE_COUNT; i++)
            fby__free(f->pages->page[i].data);
        fby__free(f->pages->views);
    }
    fby__free(f->pages);
    fby__arena_fini(&f->arena);
    fby__file_unref(f->file);
    fby__free(f);
}
