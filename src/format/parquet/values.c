/* Values of the current page, by encoding. A page that holds fewer values than its levels say is an error, whatever the encoding. */
#include "format/parquet/reader.h"

#include "base/checked.h"

static const char *const TYPE_NAME[] = {"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};

static fby_status too_few(fby_error *err) { return fby__fail(err, FBY_E_FORMAT, "the page holds fewer values than its levels say"); }

fby_status fby__pq_values_init(fby__pq_reader *r, int32_t encoding, fby__bytes bytes, fby_error *err)
{
    const int32_t type = r->leaf->physical;
    r->p = bytes.data;
    r->end = bytes.data + bytes.n;
    r->next = 0;
    r->stored = FBY__PQ_NO_VALUES;
    switch (encoding) {
    case FBY__PQ_PLAIN:
        r->stored = type == FBY__PQ_BOOLEAN ? FBY__PQ_BITS : type == FBY__PQ_BYTE_ARRAY ? FBY__PQ_STRINGS : FBY__PQ_FIXED;
        return FBY_OK;
    case FBY__PQ_PLAIN_DICTIONARY:
    case FBY__PQ_RLE_DICTIONARY:
        if (!r->has_dictionary)
            return fby__fail(err, FBY_E_FORMAT, "a dictionary-encoded page without a dictionary page before it");
        if (bytes.n == 0) /* only nulls */
            return FBY_OK;
        if (bytes.data[0] > 32)
            return fby__fail(err, FBY_E_FORMAT, "dictionary indices of %u bits", bytes.data[0]);
        fby__hybrid_init(&r->runs, (fby__bytes){bytes.data + 1, bytes.n - 1}, bytes.data[0]);
        r->stored = FBY__PQ_INDICES;
        return FBY_OK;
    case FBY__PQ_RLE:
        if (type != FBY__PQ_BOOLEAN)
            break;
        if (bytes.n == 0)
            return FBY_OK;
        if (bytes.n < 4 || fby__load_u32(bytes.data) > bytes.n - 4)
            return fby__fail(err, FBY_E_FORMAT, "run-length encoded booleans reach beyond the page");
        fby__hybrid_init(&r->runs, (fby__bytes){bytes.data + 4, fby__load_u32(bytes.data)}, 1);
        r->stored = FBY__PQ_RUNS;
        return FBY_OK;
    case FBY__PQ_DELTA_BINARY_PACKED:
        if (type != FBY__PQ_INT32 && type != FBY__PQ_INT64)
            break;
        if (bytes.n == 0)
            return FBY_OK;
        r->stored = FBY__PQ_DELTA;
        return fby__delta_init(&r->delta, bytes, err);
    case FBY__PQ_DELTA_LENGTH_BYTE_ARRAY:
        if (type != FBY__PQ_BYTE_ARRAY)
            break;
        if (bytes.n == 0)
            return FBY_OK;
        r->stored = FBY__PQ_DELTA_LENGTH;
        return fby__delta_length_init(&r->delta_length, bytes, err);
    case FBY__PQ_DELTA_BYTE_ARRAY:
        if (type != FBY__PQ_BYTE_ARRAY && type != FBY__PQ_FLBA)
            break;
        if (bytes.n == 0)
            return FBY_OK;
        r->stored = FBY__PQ_DELTA_STRINGS;
        return fby__delta_strings_init(&r->delta_strings, bytes, err);
    case FBY__PQ_BYTE_STREAM_SPLIT:
        if (type == FBY__PQ_BOOLEAN || type == FBY__PQ_BYTE_ARRAY || type == FBY__PQ_INT96)
            break;
        r->n_total = bytes.n / r->value_bytes;
        if (bytes.n % r->value_bytes != 0)
            return fby__fail(err, FBY_E_FORMAT, "BYTE_STREAM_SPLIT data of %zu bytes for values of %zu", bytes.n, r->value_bytes);
        r->stored = FBY__PQ_SPLIT;
        return FBY_OK;
    default: return fby__fail(err, FBY_E_UNSUPPORTED, "encoding %d is not known", encoding);
    }
    return fby__fail(err, FBY_E_FORMAT, "encoding %s for values of type %s", fby_encoding_name((unsigned)encoding), TYPE_NAME[type]);
}

fby_status fby__pq_values_in_place(fby__pq_reader *r, size_t n, const uint8_t **out, fby_error *err)
{
    *out = NULL;
    if (r->stored != FBY__PQ_FIXED)
        return FBY_OK;
    if ((size_t)(r->end - r->p) / r->value_bytes < n)
        return too_few(err);
    *out = r->p;
    r->p += n * r->value_bytes;
    return FBY_OK;
}

static fby_status index_beyond(const fby__pq_reader *r, uint32_t index, fby_error *err)
{
    return fby__fail(err, FBY_E_FORMAT, "index %u of a dictionary of %u values", index, r->n_dictionary);
}

fby_status fby__pq_values_gather(fby__pq_reader *r, size_t n, const void *dictionary, size_t elem_bytes, void *out, fby_error *err)
{
    uint32_t bad = 0;
    switch (fby__hybrid_gather(&r->runs, dictionary, r->n_dictionary, elem_bytes, out, n, &bad)) {
    case FBY__GATHER_OK: return FBY_OK;
    case FBY__GATHER_RANGE: return index_beyond(r, bad, err);
    default: return too_few(err);
    }
}

/* Indices, checked against the dictionary. */
static fby_status next_indices(fby__pq_reader *r, size_t n, uint32_t *out, fby_error *err)
{
    if (fby__hybrid_u32(&r->runs, out, n) < n)
        return too_few(err);
    uint32_t top = 0;
    for (size_t i = 0; i < n; i++)
        top = out[i] > top ? out[i] : top;
    return n && top >= r->n_dictionary ? index_beyond(r, top, err) : FBY_OK;
}

/* PLAIN booleans are bit-packed values of width 1. */
static fby_status next_bits(fby__pq_reader *r, size_t n, uint8_t *out, fby_error *err)
{
    size_t have = (size_t)(r->end - r->p) * 8 - r->next;
    if (have < n)
        return too_few(err);
    while (n && (r->next & 7)) {
        *out++ = r->p[r->next >> 3] >> (r->next & 7) & 1;
        r->next++;
        n--;
    }
    if (n) {
        const uint8_t *from = r->p + (r->next >> 3);
        fby__unpack_u8(from, (size_t)(r->end - from), 1, out, n);
        r->next += n;
    }
    return FBY_OK;
}

static fby_status delta_strings_fixed(fby__pq_reader *r, size_t n, uint8_t *out, fby_error *err)
{
    fby__pq_string some[64];
    while (n) {
        size_t k = 0;
        FBY__TRY(fby__delta_strings_next(&r->delta_strings, some, n < 64 ? n : 64, &k, err));
        for (size_t i = 0; i < k; i++) {
            if (some[i].n != r->value_bytes)
                return fby__fail(err, FBY_E_FORMAT, "a value of %u bytes in a column of %zu", some[i].n, r->value_bytes);
            memcpy(out, some[i].data, r->value_bytes);
            out += r->value_bytes;
        }
        n -= k;
    }
    return FBY_OK;
}

fby_status fby__pq_values_fixed(fby__pq_reader *r, size_t n, void *out, fby_error *err)
{
    const uint8_t *plain;
    if (n == 0)
        return FBY_OK;
    switch (r->stored) {
    case FBY__PQ_FIXED:
        FBY__TRY(fby__pq_values_in_place(r, n, &plain, err));
        memcpy(out, plain, n * r->value_bytes);
        return FBY_OK;
    case FBY__PQ_BITS: return next_bits(r, n, out, err);
    case FBY__PQ_RUNS: return fby__hybrid_u8(&r->runs, out, n) < n ? too_few(err) : FBY_OK;
    case FBY__PQ_INDICES: return fby__pq_values_gather(r, n, r->dictionary, r->value_bytes, out, err);
    case FBY__PQ_DELTA: return fby__delta_next(&r->delta, out, n, r->value_bytes, err);
    case FBY__PQ_DELTA_STRINGS: return delta_strings_fixed(r, n, out, err);
    case FBY__PQ_SPLIT:
        if (r->n_total - r->next < n)
            return too_few(err);
        fby__unsplit(r->p, r->n_total, r->value_bytes, r->next, out, n);
        r->next += n;
        return FBY_OK;
    default: return too_few(err);
    }
}

fby_status fby__pq_values_strings(fby__pq_reader *r, size_t n, fby__pq_string *out, fby_error *err)
{
    if (n == 0)
        return FBY_OK;
    switch (r->stored) {
    case FBY__PQ_STRINGS: return fby__plain_strings(&r->p, r->end, out, n, err);
    case FBY__PQ_INDICES: {
        uint32_t index[256];
        while (n) {
            size_t k = n < 256 ? n : 256;
            FBY__TRY(next_indices(r, k, index, err));
            for (size_t i = 0; i < k; i++)
                out[i] = r->dictionary_strings[index[i]];
            out += k;
            n -= k;
        }
        return FBY_OK;
    }
    case FBY__PQ_DELTA_LENGTH: return fby__delta_length_next(&r->delta_length, out, n, err);
    case FBY__PQ_DELTA_STRINGS: {
        /* fby__pq_reader_levels asked for the room: no more than one call gives */
        size_t k = 0;
        FBY__TRY(fby__delta_strings_next(&r->delta_strings, out, n, &k, err));
        return k < n ? too_few(err) : FBY_OK;
    }
    default: return too_few(err);
    }
}

fby_status fby__pq_values_skip(fby__pq_reader *r, size_t n, fby_error *err)
{
    if (n == 0)
        return FBY_OK;
    const uint8_t *plain;
    switch (r->stored) {
    case FBY__PQ_FIXED: return fby__pq_values_in_place(r, n, &plain, err);
    case FBY__PQ_BITS:
        if ((size_t)(r->end - r->p) * 8 - r->next < n)
            return too_few(err);
        r->next += n;
        return FBY_OK;
    case FBY__PQ_RUNS:
    case FBY__PQ_INDICES: return fby__hybrid_skip(&r->runs, n) < n ? too_few(err) : FBY_OK;
    case FBY__PQ_STRINGS: return fby__plain_strings_skip(&r->p, r->end, n, err);
    case FBY__PQ_DELTA:
        for (int64_t ignored[64]; n;) {
            size_t k = n < 64 ? n : 64;
            FBY__TRY(fby__delta_next(&r->delta, ignored, k, 8, err));
            n -= k;
        }
        return FBY_OK;
    case FBY__PQ_DELTA_LENGTH:
        for (fby__pq_string ignored[64]; n;) {
            size_t k = n < 64 ? n : 64;
            FBY__TRY(fby__delta_length_next(&r->delta_length, ignored, k, err));
            n -= k;
        }
        return FBY_OK;
    case FBY__PQ_DELTA_STRINGS:
        for (fby__pq_string ignored[64]; n;) {
            size_t k = 0;
            FBY__TRY(fby__delta_strings_next(&r->delta_strings, ignored, n < 64 ? n : 64, &k, err));
            n -= k;
        }
        return FBY_OK;
    case FBY__PQ_SPLIT:
        if (r->n_total - r->next < n)
            return too_few(err);
        r->next += n;
        return FBY_OK;
    default: return too_few(err);
    }
}
