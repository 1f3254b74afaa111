/*
 * Physical values → elements of the panel's dtype. A dictionary is converted once, then its indices are looked up in the
 * converted entries; plain values are converted from where they lie, a few thousand at a time.
 */
#include "format/parquet/panel_column.h"

#include "base/checked.h"
#include "base/cpu.h"
#include "base/dtype.h"

#include <inttypes.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define TILE_BYTES ((size_t)32 << 10) /* of physical values on their way: stays in the L1 cache */

static const fby_field *field_of(const fby__decode *request, uint32_t leaf)
{
    const fby__schema *schema = request->table->schema;
    return &schema->fields[schema->leaves[leaf].field];
}

fby_status fby__pq_column_fail(const fby__pq_column *c, fby_status status, fby_error *err)
{
    if (c->reader)
        return fby__pq_reader_fail(c->reader, status, err);
    fby__pq_context(err, c->request->table, c->request->file_name, c->request->group, c->asked->source->leaf);
    return status;
}

static fby_status cannot(const fby_field *field, const fby__pq_column *c, fby_error *err)
{
    char type[64];
    (void)fby_field_type_text(field, type, sizeof type); /* a cut type is still a type */
    return fby__fail(err, FBY_E_SCHEMA, "values of type %s cannot become %s%s elements of a tensor", type,
                     c->target->width > 1 ? "rows of " : "", fby_dtype_name(c->dst_dtype));
}

static fby_dtype physical_dtype(const fby__leaf *leaf, fby_dtype logical)
{
    bool is_unsigned = fby__dtype_is_unsigned(logical);
    switch (leaf->physical) {
    case FBY__PQ_BOOLEAN: return FBY_BOOL;
    case FBY__PQ_INT32: return is_unsigned ? FBY_UINT32 : FBY_INT32;
    case FBY__PQ_INT64: return is_unsigned ? FBY_UINT64 : FBY_INT64;
    case FBY__PQ_FLOAT: return FBY_FLOAT32;
    case FBY__PQ_DOUBLE: return FBY_FLOAT64;
    case FBY__PQ_FLBA: return logical == FBY_FLOAT16 && leaf->type_length == 2 ? FBY_FLOAT16 : FBY_DTYPE_NONE;
    default: return FBY_DTYPE_NONE;
    }
}

/* How the leaf's values become elements. */
static fby_status choose(fby__pq_column *c, const fby_field *field, const fby__leaf *leaf, fby_error *err)
{
    if (field->kind == FBY_KIND_NULL) {
        c->from = FBY__PQ_FROM_NOTHING;
        return FBY_OK;
    }
    if (field->kind == FBY_KIND_FIXED_BINARY) {
        if (c->dst_dtype != FBY_UINT8 || leaf->physical != FBY__PQ_FLBA || (int64_t)c->target->width != leaf->type_length)
            return cannot(field, c, err);
        c->from = FBY__PQ_FROM_SAME;
        c->elem_bytes = c->target->width;
        return FBY_OK;
    }
    if (c->target->width != 1)
        return cannot(field, c, err);
    c->scale.mul = c->asked->unit_mul ? c->asked->unit_mul : 1;
    c->scale.div = c->asked->unit_div ? c->asked->unit_div : 1;
    if (leaf->physical == FBY__PQ_INT96 && field->kind == FBY_KIND_TIMESTAMP) {
        c->from = FBY__PQ_FROM_INT96;
        c->src_dtype = FBY_INT64;
        return FBY_OK;
    }
    c->src_dtype = physical_dtype(leaf, field->dtype);
    if (field->kind == FBY_KIND_DECIMAL) {
        if (!fby__dtype_is_float(c->dst_dtype))
            return cannot(field, c, err);
        c->scale = (fby__scale){1, 1, field->scale};
        bool bytes = leaf->physical == FBY__PQ_BYTE_ARRAY || leaf->physical == FBY__PQ_FLBA;
        c->from = bytes ? FBY__PQ_FROM_DECIMAL_BYTES : FBY__PQ_FROM_NUMBERS;
        return bytes || c->src_dtype == FBY_INT32 || c->src_dtype == FBY_INT64 ? FBY_OK : cannot(field, c, err);
    }
    if (!fby__kind_is_number(field->kind) || c->src_dtype == FBY_DTYPE_NONE)
        return cannot(field, c, err);
    c->from = c->src_dtype == c->dst_dtype && c->scale.mul == c->scale.div ? FBY__PQ_FROM_SAME : FBY__PQ_FROM_NUMBERS;
    return FBY_OK;
}

fby_status fby__pq_column_open(const fby__decode *request, const fby__decode_column *asked, fby__scratch *scratch, int slot,
                               fby__pq_column *out, fby_error *err)
{
    const fby__panel_layout *layout = request->panel->layout;
    const fby__leaf *leaf = &request->table->schema->leaves[asked->source->leaf];
    *out = (fby__pq_column){.request = request,
                            .asked = asked,
                            .target = &layout->columns[asked->column],
                            .dst_dtype = layout->dtype,
                            .elem_bytes = fby_dtype_bytes(layout->dtype),
                            .scale = FBY__SCALE_NONE};
    memcpy(out->fill, out->target->fill.bytes, sizeof out->fill);
    FBY__TRY(fby__pq_scratch_of(scratch, &out->scratch, err));
    fby_status status = layout->kind == FBY__PANEL_BYTES ? FBY_OK : choose(out, field_of(request, asked->source->leaf), leaf, err);
    if (status != FBY_OK)
        return fby__pq_column_fail(out, status, err);
    if (out->from == FBY__PQ_FROM_NOTHING && layout->kind == FBY__PANEL_DENSE)
        return FBY_OK;
    return fby__pq_reader_open(request->table, request->file_name, request->group, asked->source, request->row_begin, request->row_end,
                               request->verify_crc, scratch, slot, &out->reader, err);
}

void fby__pq_column_close(fby__pq_column *c)
{
    fby__pq_reader_close(c->reader);
    c->reader = NULL;
}

/* ---- conversion ---- */

/* Julian day 2440588 is 1970-01-01. False when the instant is outside int64 nanoseconds. */
static bool int96_ns(const uint8_t *p, int64_t *out)
{
    int64_t days = (int64_t)fby__load_u32(p + 8) - 2440588, ns = (int64_t)fby__load_u64(p);
    __int128 v = (__int128)days * 86400000000000 + ns;
    *out = (int64_t)v;
    return v == (__int128)*out;
}

static double big_endian(const uint8_t *p, size_t n)
{
    const uint8_t sign = n && p[0] & 0x80 ? 0xff : 0;
    while (n > 16 && p[0] == sign && ((p[1] ^ sign) & 0x80) == 0) {
        p++;
        n--;
    }
    if (n <= 16) {
        unsigned __int128 v = sign ? ~(unsigned __int128)0 : 0;
        for (size_t i = 0; i < n; i++)
            v = v << 8 | p[i];
        return (double)(__int128)v;
    }
    double v = sign ? -1 : 0; /* wider than any decimal128: about 53 bits are kept */
    for (size_t i = 0; i < n; i++)
        v = v * 256 + p[i];
    return v;
}

/* n elements from n physical values; FBY_E_DATA and the first that does not fit. At most 256 at a time for the rare types. */
static fby_status convert(const fby__pq_column *c, const uint8_t *src, const fby__pq_string *strings, size_t n, uint8_t *dst, size_t *bad)
{
    const size_t value_bytes = c->reader->value_bytes;
    if (c->from == FBY__PQ_FROM_SAME) {
        memcpy(dst, src, n * value_bytes);
        return FBY_OK;
    }
    if (c->from == FBY__PQ_FROM_NUMBERS)
        return fby__convert(c->dst_dtype, dst, c->src_dtype, src, n, c->scale, bad);
    for (size_t at = 0; at < n; at += 256) {
        const size_t k = n - at < 256 ? n - at : 256;
        fby_status status;
        size_t good = k;
        if (c->from == FBY__PQ_FROM_INT96) {
            int64_t ns[256];
            for (size_t i = 0; i < good; i++)
                if (!int96_ns(src + (at + i) * 12, &ns[i]))
                    good = i;
            status = fby__convert(c->dst_dtype, dst + at * c->elem_bytes, FBY_INT64, ns, good, c->scale, bad);
        } else {
            double v[256];
            for (size_t i = 0; i < k; i++)
                v[i] =
                    strings ? big_endian(strings[at + i].data, strings[at + i].n) : big_endian(src + (at + i) * value_bytes, value_bytes);
            status = fby__convert(c->dst_dtype, dst + at * c->elem_bytes, FBY_FLOAT64, v, k, c->scale, bad);
        }
        if (status == FBY_OK && good < k) {
            *bad = good;
            status = FBY_E_DATA;
        }
        if (status != FBY_OK) {
            *bad += at;
            return status;
        }
    }
    return FBY_OK;
}

/*
 * The dictionary in the panel's dtype; an entry that does not fit matters only if a row uses it. Copied also when nothing
 * changes: reading it in order first brings it into the cache, where looking entries up in fresh page bytes misses one by one.
 */
static fby_status convert_dictionary(fby__pq_column *c, fby_error *err)
{
    fby__pq_reader *r = c->reader;
    c->dictionary_seen = true;
    size_t bad;
    FBY__TRY(fby__pq_mem_need(&r->mem.converted, (size_t)r->n_dictionary * c->elem_bytes, err));
    if (convert(c, r->dictionary, r->dictionary_strings, r->n_dictionary, r->mem.converted.data, &bad) == FBY_OK)
        c->dictionary = r->mem.converted.data;
    return FBY_OK;
}

/* The level of the k-th value that is present: its row. */
static uint64_t row_of(const fby__pq_column *c, const uint8_t *def, uint64_t row, size_t k)
{
    if (c->reader->leaf->max_rep)
        return row; /* of the first row of the step: near enough for a list */
    if (!def)
        return row + k;
    for (size_t i = 0;; i++)
        if (def[i] == c->reader->leaf->max_def && k-- == 0)
            return row + i;
}

static fby_status does_not_fit(const fby__pq_column *c, const uint8_t *value, const uint8_t *def, uint64_t row, size_t k, fby_error *err)
{
    char text[64] = "";
    if (value && c->from == FBY__PQ_FROM_NUMBERS)
        (void)fby__value_text(c->src_dtype, value, text, sizeof text); /* a cut number is still a number */
    const fby__decode *q = c->request;
    return fby__fail(err, FBY_E_DATA, "%s %" PRIu64 ": the value %s%sdoes not fit %s: %s", c->reader->leaf->max_rep ? "near row" : "row",
                     q->table->groups[q->group].first_row + row_of(c, def, row, k), text, *text ? " " : "", fby_dtype_name(c->dst_dtype),
                     fby__value_advice(text, c->dst_dtype));
}

fby_status fby__pq_column_missing(const fby__pq_column *c, uint64_t row, fby_error *err)
{
    const fby__decode *q = c->request;
    return fby__fail(err, FBY_E_DATA, "row %" PRIu64 " is null, and " FBY__NULL_ADVICE, q->table->groups[q->group].first_row + row);
}

fby_status fby__pq_column_next(fby__pq_column *c, size_t n, uint8_t *dst, const uint8_t *def, uint64_t row, fby_error *err)
{
    fby__pq_reader *r = c->reader;
    if (n == 0)
        return FBY_OK;
    if (c->from == FBY__PQ_FROM_NOTHING)
        return fby__fail(err, FBY_E_FORMAT, "a value in a column whose type says that all are null");
    if (r->stored == FBY__PQ_INDICES) {
        if (!c->dictionary_seen)
            FBY__TRY(convert_dictionary(c, err));
        if (c->dictionary)
            return fby__pq_values_gather(r, n, c->dictionary, c->elem_bytes, dst, err);
    }
    if (c->from == FBY__PQ_FROM_SAME)
        return fby__pq_values_fixed(r, n, dst, err);

    const size_t value_bytes = r->value_bytes ? r->value_bytes : sizeof(fby__pq_string);
    const size_t tile = value_bytes > TILE_BYTES ? 1 : TILE_BYTES / value_bytes;
    FBY__TRY(fby__pq_mem_need(&r->mem.value, tile * value_bytes, err));
    for (size_t at = 0; at < n; at += tile) {
        const size_t k = n - at < tile ? n - at : tile;
        const uint8_t *src = NULL;
        const fby__pq_string *strings = NULL;
        if (r->value_bytes == 0) {
            strings = (const fby__pq_string *)(const void *)r->mem.value.data;
            FBY__TRY(fby__pq_values_strings(r, k, (fby__pq_string *)(void *)r->mem.value.data, err));
        } else {
            FBY__TRY(fby__pq_values_in_place(r, k, &src, err));
            if (!src) {
                src = r->mem.value.data;
                FBY__TRY(fby__pq_values_fixed(r, k, r->mem.value.data, err));
            }
        }
        size_t bad = 0;
        if (convert(c, src, strings, k, dst + at * c->elem_bytes, &bad) != FBY_OK)
            return does_not_fit(c, src ? src + bad * value_bytes : NULL, def, row, at + bad, err);
    }
    return FBY_OK;
}

/* ---- nulls ---- */

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl"))) static size_t
expand_avx512(uint8_t *dst, const uint8_t *src, const uint8_t *def, uint8_t max, size_t n, const uint8_t *fill, size_t elem_bytes)
{
    const __m128i level = _mm_set1_epi8((char)max);
    size_t i = 0;
    if (elem_bytes == 4) {
        const __m512i missing = _mm512_set1_epi32((int)fby__load_u32(fill));
        for (; i + 16 <= n; i += 16) {
            __mmask16 there = _mm_cmpeq_epi8_mask(_mm_loadu_si128((const void *)(def + i)), level);
            _mm512_storeu_si512(dst + 4 * i, _mm512_mask_expand_epi32(missing, there, _mm512_loadu_si512(src)));
            src += 4 * (size_t)__builtin_popcount(there);
        }
    } else {
        const __m512i missing = _mm512_set1_epi64((long long)fby__load_u64(fill));
        for (; i + 8 <= n; i += 8) {
            __mmask8 there = (__mmask8)_mm_cmpeq_epi8_mask(_mm_loadl_epi64((const void *)(def + i)), level);
            _mm512_storeu_si512(dst + 8 * i, _mm512_mask_expand_epi64(missing, there, _mm512_loadu_si512(src)));
            src += 8 * (size_t)__builtin_popcount(there);
        }
    }
    return i;
}
#endif

#define EXPAND(T)                                                                                                                          \
    do {                                                                                                                                   \
        T missing, v;                                                                                                                      \
        memcpy(&missing, fill, sizeof(T));                                                                                                 \
        for (size_t i = 0; i < n; i++) {                                                                                                   \
            const bool there = def[i] == max;                                                                                              \
            memcpy(&v, src, sizeof(T));                                                                                                    \
            v = there ? v : missing;                                                                                                       \
            memcpy(dst + i * sizeof(T), &v, sizeof(T));                                                                                    \
            src += there ? sizeof(T) : 0;                                                                                                  \
        }                                                                                                                                  \
    } while (0)

void fby__pq_expand(uint8_t *dst, const uint8_t *src, const uint8_t *def, uint8_t max, size_t n, const uint8_t *fill, size_t elem_bytes)
{
#if defined(__x86_64__)
    if ((elem_bytes == 4 || elem_bytes == 8) && fby__cpu_has_avx512()) {
        size_t done = expand_avx512(dst, src, def, max, n, fill, elem_bytes);
        src += fby__levels_count(def, done, max) * elem_bytes;
        dst += done * elem_bytes;
        def += done;
        n -= done;
    }
#endif
    switch (elem_bytes) {
    case 1: EXPAND(uint8_t); break;
    case 2: EXPAND(uint16_t); break;
    case 4: EXPAND(uint32_t); break;
    case 8: EXPAND(uint64_t); break;
    default: /* fixed binaries */
        for (size_t i = 0; i < n; i++, dst += elem_bytes)
            if (def[i] == max) {
                memcpy(dst, src, elem_bytes);
                src += elem_bytes;
            } else {
                memset(dst, fill[0], elem_bytes);
            }
    }
}
