/*
 * DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY (Encodings.md).
 *
 *   header: block size, mini-blocks a block, values, first value (zigzag)
 *   block:  min delta (zigzag) | a bit width a mini-block | mini-blocks, each block size / mini-blocks deltas
 *
 * Arithmetic is unsigned and wraps. Widths of mini-blocks behind the last value are never looked at: they may be garbage.
 * Counts in the header are not trusted: values are unpacked 32 at a time when they are asked for.
 */
#include "format/parquet/encodings.h"

#include "base/checked.h"

static fby_status cut(fby_error *err) { return fby__fail(err, FBY_E_FORMAT, "a delta-encoded run is cut short"); }

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (*p == end)
            return false;
        uint8_t b = *(*p)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

static uint64_t unzigzag(uint64_t v) { return (v >> 1) ^ (0 - (v & 1)); }

fby_status fby__delta_init(fby__delta *d, fby__bytes bytes, fby_error *err)
{
    d->p = bytes.data;
    d->end = bytes.data + bytes.n;
    uint64_t count, first;
    if (!varint(&d->p, d->end, &d->per_block) || !varint(&d->p, d->end, &d->n_minis) || !varint(&d->p, d->end, &count) ||
        !varint(&d->p, d->end, &first))
        return cut(err);
    /* The limits keep every product below in range; writers use blocks of 128 to 2048 values. */
    if (d->n_minis == 0 || d->n_minis > 1u << 20 || d->per_block == 0 || d->per_block > 1u << 30 || d->per_block % d->n_minis != 0 ||
        (d->per_block / d->n_minis) % 32 != 0)
        return fby__fail(err, FBY_E_FORMAT, "delta encoding with blocks of %llu values in %llu mini-blocks",
                         (unsigned long long)d->per_block, (unsigned long long)d->n_minis);
    if (count > INT32_MAX)
        return fby__fail(err, FBY_E_FORMAT, "a delta-encoded run of %llu values", (unsigned long long)count);
    d->per_mini = d->per_block / d->n_minis;
    d->left = count;
    d->first = count > 0;
    d->stored = count > 0 ? count - 1 : 0;
    d->value = unzigzag(first);
    d->mini = d->n_minis; /* no block yet */
    d->mini_left = 0;
    d->n_ready = d->ready_at = 0;
    return FBY_OK;
}

static fby_status block_header(const uint8_t **p, const uint8_t *end, uint64_t n_minis, uint64_t *min_delta, const uint8_t **widths,
                               fby_error *err)
{
    uint64_t v;
    if (!varint(p, end, &v) || (size_t)(end - *p) < n_minis)
        return cut(err);
    *min_delta = unzigzag(v);
    *widths = *p;
    *p += n_minis;
    return FBY_OK;
}

/* The next up to 32 deltas, added up into out; 1 ≤ *out_n. d->stored > 0. */
static fby_status refill(fby__delta *d, uint64_t *out, unsigned *out_n, fby_error *err)
{
    if (d->mini_left == 0) {
        if (d->mini == d->n_minis) {
            FBY__TRY(block_header(&d->p, d->end, d->n_minis, &d->min_delta, &d->widths, err));
            d->mini = 0;
        }
        d->mini_p = d->p;
        d->mini_left = d->per_mini;
        unsigned width = d->widths[d->mini++];
        if (width > 64)
            return fby__fail(err, FBY_E_FORMAT, "a delta of %u bits", width);
        uint64_t bytes = d->per_mini / 8 * width, have = (uint64_t)(d->end - d->p);
        d->p += bytes < have ? bytes : have; /* the last one may be cut after the values that count */
    }
    const unsigned n = d->stored < 32 ? (unsigned)d->stored : 32, width = d->widths[d->mini - 1];
    const size_t have = (size_t)(d->p - d->mini_p);
    if ((n * width + 7) / 8 > have)
        return cut(err);
    uint64_t v = d->value;
    const uint64_t min = d->min_delta;
    if (width == 0) {
        for (unsigned i = 0; i < n; i++)
            out[i] = v += min;
    } else if (width <= 32) {
        uint32_t delta[32];
        fby__unpack_u32(d->mini_p, have, width, delta, n);
        for (unsigned i = 0; i < n; i++)
            out[i] = v += min + delta[i];
    } else {
        fby__unpack_u64(d->mini_p, have, width, out, n);
        for (unsigned i = 0; i < n; i++)
            out[i] = v += min + out[i];
    }
    d->value = v;
    d->mini_p += 4 * width < have ? 4 * width : have;
    d->mini_left -= 32;
    d->stored -= n;
    *out_n = n;
    return FBY_OK;
}

static void store(uint8_t *out, const uint64_t *v, size_t n, size_t elem_bytes)
{
    if (elem_bytes == 8)
        memcpy(out, v, n * 8);
    else
        for (size_t i = 0; i < n; i++)
            fby__store_u32(out + 4 * i, (uint32_t)v[i]);
}

fby_status fby__delta_next(fby__delta *d, void *out, size_t n, size_t elem_bytes, fby_error *err)
{
    if (n > d->left)
        return fby__fail(err, FBY_E_FORMAT, "fewer delta-encoded values than the levels say");
    d->left -= n;
    uint8_t *o = out;
    if (n && d->first) {
        d->first = false;
        store(o, &d->value, 1, elem_bytes);
        o += elem_bytes;
        n--;
    }
    while (n) {
        if (d->ready_at == d->n_ready) {
            d->ready_at = d->n_ready = 0;
            FBY__TRY(refill(d, d->ready, &d->n_ready, err));
        }
        size_t k = d->n_ready - d->ready_at;
        if (k > n)
            k = n;
        store(o, d->ready + d->ready_at, k, elem_bytes);
        d->ready_at += (unsigned)k;
        o += k * elem_bytes;
        n -= k;
    }
    return FBY_OK;
}

fby_status fby__delta_end(const fby__delta *d, const uint8_t **out_end, fby_error *err)
{
    const uint8_t *p = d->p;
    uint64_t left = d->stored;
    while (left) {
        const uint8_t *widths = NULL;
        uint64_t min_delta = 0;
        FBY__TRY(block_header(&p, d->end, d->n_minis, &min_delta, &widths, err));
        for (uint64_t m = 0; m < d->n_minis && left; m++) {
            uint64_t bytes = d->per_mini / 8 * widths[m];
            if (bytes > (uint64_t)(d->end - p))
                return cut(err);
            p += bytes;
            left -= left < d->per_mini ? left : d->per_mini;
        }
    }
    *out_end = p;
    return FBY_OK;
}

/* ---- DELTA_LENGTH_BYTE_ARRAY ---- */

fby_status fby__delta_length_init(fby__delta_length *d, fby__bytes bytes, fby_error *err)
{
    FBY__TRY(fby__delta_init(&d->lengths, bytes, err));
    FBY__TRY(fby__delta_end(&d->lengths, &d->p, err));
    d->end = bytes.data + bytes.n;
    return FBY_OK;
}

fby_status fby__delta_length_next(fby__delta_length *d, fby__pq_string *out, size_t n, fby_error *err)
{
    int32_t length[256];
    while (n) {
        size_t k = n < 256 ? n : 256;
        FBY__TRY(fby__delta_next(&d->lengths, length, k, 4, err));
        for (size_t i = 0; i < k; i++) {
            if (length[i] < 0 || (size_t)length[i] > (size_t)(d->end - d->p))
                return fby__fail(err, FBY_E_FORMAT, "a string of %d bytes reaches beyond the page", length[i]);
            out[i] = (fby__pq_string){d->p, (uint32_t)length[i]};
            d->p += length[i];
        }
        out += k;
        n -= k;
    }
    return FBY_OK;
}

/* ---- DELTA_BYTE_ARRAY ---- */

fby_status fby__delta_strings_init(fby__delta_strings *d, fby__bytes bytes, fby_error *err)
{
    const uint8_t *suffixes;
    FBY__TRY(fby__delta_init(&d->prefixes, bytes, err));
    FBY__TRY(fby__delta_end(&d->prefixes, &suffixes, err));
    d->last.n = d->arena.n = 0;
    d->n_ready = d->ready_at = 0;
    return fby__delta_length_init(&d->suffixes, (fby__bytes){suffixes, bytes.n - (size_t)(suffixes - bytes.data)}, err);
}

/* Lengths of the next values, before any is rebuilt: the arena must not move while strings point into it. */
static fby_status ready_some(fby__delta_strings *d, size_t n, fby_error *err)
{
    int32_t prefix[64];
    fby__pq_string suffix[64];
    unsigned k = n < 64 ? (unsigned)n : 64;
    FBY__TRY(fby__delta_next(&d->prefixes, prefix, k, 4, err));
    FBY__TRY(fby__delta_length_next(&d->suffixes, suffix, k, err));
    for (unsigned i = 0; i < k; i++) {
        if (prefix[i] < 0)
            return fby__fail(err, FBY_E_FORMAT, "a shared prefix of %d bytes", prefix[i]);
        d->ready[i].prefix = (uint32_t)prefix[i];
        d->ready[i].suffix = suffix[i];
    }
    d->n_ready = k;
    d->ready_at = 0;
    return FBY_OK;
}

fby_status fby__delta_strings_room(fby__delta_strings *d, size_t n, size_t *out_n, fby_error *err)
{
    *out_n = n;
    if (d->ready_at == d->n_ready) {
        if (d->prefixes.left == 0)
            return FBY_OK;
        FBY__TRY(ready_some(d, n < d->prefixes.left ? n : (size_t)d->prefixes.left, err));
    }
    size_t bytes = 0, k = 0;
    for (size_t i = d->ready_at; i < d->n_ready && k < n; i++, k++) {
        bytes += (size_t)d->ready[i].prefix + d->ready[i].suffix.n;
        if (k && bytes > FBY__DELTA_STRINGS_ARENA)
            break;
    }
    *out_n = k;
    return FBY_OK;
}

static int reserve(fby__buf *b, size_t n) { return fby__grow((void **)&b->data, &b->cap, n, 1); }

fby_status fby__delta_strings_next(fby__delta_strings *d, fby__pq_string *out, size_t n, size_t *out_n, fby_error *err)
{
    if (reserve(&d->arena, FBY__DELTA_STRINGS_ARENA) != 0)
        return fby__fail_nomem(err, "strings of a page");
    d->arena.n = 0;
    size_t done = 0;
    const uint8_t *last = d->last.data;
    size_t last_n = d->last.n;
    while (done < n) {
        if (d->ready_at == d->n_ready)
            FBY__TRY(ready_some(d, n - done, err));
        size_t prefix = d->ready[d->ready_at].prefix;
        fby__pq_string suffix = d->ready[d->ready_at].suffix;
        if (prefix > last_n)
            return fby__fail(err, FBY_E_FORMAT, "a prefix of %zu bytes shared with a string of %zu", prefix, last_n);
        size_t len = prefix + suffix.n; /* both below 2^32 */
        if (len > UINT32_MAX)
            return fby__fail(err, FBY_E_FORMAT, "a string of %zu bytes", len);
        if (len > d->arena.cap - d->arena.n) {
            if (done)
                break;
            if (reserve(&d->arena, len) != 0) /* the first of a call: nothing points into the arena but `last`'s own buffer */
                return fby__fail_nomem(err, "strings of a page");
        }
        uint8_t *to = d->arena.data + d->arena.n;
        if (prefix)
            memcpy(to, last, prefix);
        if (suffix.n)
            memcpy(to + prefix, suffix.data, suffix.n);
        d->arena.n += len;
        d->ready_at++;
        out[done++] = (fby__pq_string){to, (uint32_t)len};
        last = to;
        last_n = len;
    }
    if (done) {
        if (reserve(&d->last, last_n) != 0)
            return fby__fail_nomem(err, "strings of a page");
        if (last_n)
            memcpy(d->last.data, last, last_n);
        d->last.n = last_n;
    }
    *out_n = done;
    return FBY_OK;
}

void fby__delta_strings_fini(fby__delta_strings *d)
{
    fby__buf_fini(&d->last);
    fby__buf_fini(&d->arena);
}
